//! Times as people write them: of all doubles near a point of a grid, the one that reads as a short decimal.

/// The largest whole number below which a double has every one.
const EXACT: i128 = 1 << 53;

/// Evenly spaced times `start + row * span / parts`.
///
/// Where `start` and `span` are short decimals, a row is the double nearest to the exact value, so that 0.0398 reads as
/// 0.0398 and not as 0.039800000000000005; elsewhere it is what the formula gives in doubles.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Grid {
    start: f64,
    span: f64,
    parts: f64,
    exact: Option<ExactGrid>,
}

/// The same in whole numbers: `(start + row * span) / denominator`.
#[derive(Clone, Copy, PartialEq, Debug)]
struct ExactGrid {
    start: i128,
    span: i128,
    denominator: i128,
}

impl Grid {
    /// The grid whose rows are a step apart.
    #[must_use]
    pub fn by_step(start: f64, step: f64) -> Self {
        Self::new(start, step, 1)
    }

    /// The grid whose row `parts` is a span after the start.
    #[must_use]
    pub fn new(start: f64, span: f64, parts: u32) -> Self {
        Self { start, span, parts: f64::from(parts), exact: ExactGrid::new(start, span, parts) }
    }

    /// The time of a row.
    #[must_use]
    pub fn time(&self, row: usize) -> f64 {
        let exact = self.exact.and_then(|exact| exact.time(row));
        exact.unwrap_or_else(|| self.start + row as f64 * self.span / self.parts)
    }
}

impl ExactGrid {
    fn new(start: f64, span: f64, parts: u32) -> Option<Self> {
        let (start, span) = (Decimal::of(start)?, Decimal::of(span)?);
        let digits = start.digits.max(span.digits);
        let at = |decimal: Decimal| decimal.mantissa.checked_mul(10i128.checked_pow(digits - decimal.digits)?);
        let denominator = 10i128.checked_pow(digits)?.checked_mul(i128::from(parts))?;
        (denominator < EXACT).then_some(Self {
            start: at(start)?.checked_mul(i128::from(parts))?,
            span: at(span)?,
            denominator,
        })
    }

    /// One division of two whole numbers that doubles hold: rounded once.
    fn time(&self, row: usize) -> Option<f64> {
        let numerator = self.start.checked_add(self.span.checked_mul(row as i128)?)?;
        (numerator.abs() < EXACT).then(|| numerator as f64 / self.denominator as f64)
    }
}

/// A number times a power of ten, as people do it: the decimal point moves, so that 39.8 ms are 0.0398 s.
#[must_use]
pub fn shifted(value: f64, digits: i32) -> f64 {
    let by_text = || {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e')?;
        format!("{mantissa}e{}", exponent.parse::<i32>().ok()?.checked_add(digits)?).parse().ok()
    };
    by_text().unwrap_or_else(|| value * 10f64.powi(digits))
}

/// The shortest decimal that reads back to a double: `mantissa / 10^digits`.
#[derive(Clone, Copy)]
struct Decimal {
    mantissa: i128,
    digits: u32,
}

impl Decimal {
    fn of(value: f64) -> Option<Self> {
        let text = format!("{value:e}");
        let (mantissa, exponent) = text.split_once('e')?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mantissa: i128 = format!("{whole}{fraction}").parse().ok()?;
        let exponent = exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?;
        match u32::try_from(exponent) {
            Ok(zeros) => Some(Self { mantissa: mantissa.checked_mul(10i128.checked_pow(zeros)?)?, digits: 0 }),
            Err(_) => Some(Self { mantissa, digits: exponent.unsigned_abs() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_decimal_step_are_decimals() {
        let grid = Grid::by_step(0.0, 0.0398);
        assert!((0..100_000).all(|row| grid.time(row) == format!("{}e-4", 398 * row).parse::<f64>().unwrap()));
        let grid = Grid::new(-0.1, 19.9, 500);
        assert_eq!(grid.time(1), -0.0602);
        assert_eq!(grid.time(500), 19.8);
        assert_eq!(Grid::by_step(1e-9, 1e-9).time(2), 3e-9);
    }

    #[test]
    fn a_moved_point_keeps_decimals_short() {
        assert_eq!(shifted(39.8, -3), 0.0398);
        assert_eq!(shifted(-0.0796, 3), -79.6);
        assert_eq!(shifted(0.0, -3), 0.0);
        assert!(shifted(f64::NAN, -3).is_nan());
    }

    #[test]
    fn other_steps_are_added_as_doubles() {
        let third = 1.0 / 3.0;
        assert_eq!(Grid::by_step(0.25, third).time(7), 0.25 + 7.0 * third);
        assert_eq!(Grid::by_step(0.0, 1e300).time(2), 2e300);
        assert_eq!(Grid::by_step(0.0, 5e-324).time(3), 1.5e-323);
    }
}
