//! Numbers and tables for people.

/// A number with a few significant digits.
#[must_use]
pub fn short(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value.is_finite() { "0".to_owned() } else { "-".to_owned() };
    }
    let exponent = value.abs().log10().floor() as i32;
    if !(-4..7).contains(&exponent) {
        return format!("{value:.*e}", digits - 1);
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    format!("{value:.decimals$}")
}

/// A value with its standard error, both to the second digit of the error: `4.21 ± 0.13`, `(1.01 ± 0.25)e7`.
#[must_use]
pub fn with_error(value: f64, error: f64) -> String {
    if !(error.is_finite() && error > 0.0 && value.is_finite()) {
        return short(value, 4);
    }
    let place: i32 = format!("{error:.1e}").split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0) - 1;
    let largest = value.abs().max(error);
    let power = largest.log10().floor() as i32;
    // Digits before the point that the error does not vouch for would be read as known.
    if (-4..7).contains(&power) && place <= 0 {
        let decimals = place.unsigned_abs() as usize;
        return format!("{value:.decimals$} ± {error:.decimals$}");
    }
    let (unit, decimals) = (10f64.powi(power), (power - place).max(0) as usize);
    format!("({:.decimals$} ± {:.decimals$})e{power}", value / unit, error / unit)
}

/// A share in percent as a cell; a dash if it is not finite.
#[must_use]
pub fn percent(value: f64) -> String {
    if value.is_finite() { format!("{value:.1} %") } else { "-".to_owned() }
}

/// All of so many unknowns.
#[must_use]
pub fn all_unknowns(n: usize) -> String {
    match n {
        1 => "the unknown".to_owned(),
        2 => "both unknowns".to_owned(),
        n => format!("all {n} unknowns"),
    }
}

/// A number of things: `1 value`, `2 values`.
#[must_use]
pub fn counted(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// Rows of a text table with columns of equal width, the first to the left and the others to the right.
#[must_use]
pub fn text_table(rows: &[Vec<String>]) -> String {
    let n = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..n).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            if column == 0 {
                line.push_str(&format!("  {cell:<width$}", width = widths[0]));
            } else {
                line.push_str(&format!("  {cell:>width$}", width = widths[column]));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_digits_that_their_errors_leave() {
        for (value, error, text) in [
            (4.2104, 0.1278, "4.21 ± 0.13"),
            (1.00689e7, 2_517_192.0, "(1.01 ± 0.25)e7"),
            (49_486.7, 11_026.0, "(4.9 ± 1.1)e4"),
            (166.028, 8.31, "166.0 ± 8.3"),
            (-63.65, 116.2, "(-0.6 ± 1.2)e2"),
            (0.0123, 0.000_996, "0.0123 ± 0.0010"),
            (3.2e-7, 1.5e-8, "(3.20 ± 0.15)e-7"),
            (2.0, f64::NAN, "2.000"),
        ] {
            assert_eq!(with_error(value, error), text);
        }
    }
}
