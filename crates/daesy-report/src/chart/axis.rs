//! Axes: a range with round ticks, linear or logarithmic.

/// How an axis is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    /// Equal steps are equal distances.
    #[default]
    Linear,
    /// Equal factors are equal distances; values that are not positive are left out.
    Log,
}

/// A place on an axis and what stands there.
#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    /// Where.
    pub at: f64,
    /// What.
    pub text: String,
}

/// A range with ticks.
pub(super) struct Axis {
    low: f64,
    high: f64,
    scale: Scale,
    /// Where the axis is labelled.
    pub ticks: Vec<Tick>,
}

impl Axis {
    /// The range of the values that can be shown, on its outer ticks where it is to be padded.
    pub fn new(values: &[f64], n_ticks: usize, is_padded: bool, scale: Scale) -> Self {
        match scale {
            Scale::Linear => Self::linear(values, n_ticks, is_padded),
            Scale::Log => Self::logarithmic(values, n_ticks, is_padded),
        }
    }

    fn linear(values: &[f64], n_ticks: usize, is_padded: bool) -> Self {
        let (mut low, mut high) = range(values.iter().copied());
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        let size = low.abs().max(high.abs());
        if high - low <= 1e-12 * size || high == low {
            let half = if size == 0.0 { 1.0 } else { 0.05 * size };
            (low, high) = (low - half, high + half);
        }
        let step = round_step((high - low) / n_ticks as f64);
        if is_padded {
            low = (low / step).floor() * step;
            high = (high / step).ceil() * step;
        }
        let first = (low / step - 1e-9).ceil();
        let last = (high / step + 1e-9).floor();
        let size = low.abs().max(high.abs());
        if is_padded {
            // A curve on the outermost tick would lie on the frame.
            let (least, most) = range(values.iter().copied());
            let margin = 0.03 * (high - low);
            low -= if least - low < margin { margin } else { 0.0 };
            high += if high - most < margin { margin } else { 0.0 };
        }
        let ticks = (0..=(last - first) as usize)
            .map(|at| (first + at as f64) * step)
            .map(|at| Tick { at, text: tick_text(at, size, step) })
            .collect();
        Self { low, high, scale: Scale::Linear, ticks }
    }

    fn logarithmic(values: &[f64], n_ticks: usize, is_padded: bool) -> Self {
        let (mut low, mut high) = range(values.iter().filter(|value| **value > 0.0).map(|value| value.log10()));
        if low > high {
            (low, high) = (0.0, 1.0);
        }
        if is_padded || high - low < 1e-9 {
            (low, high) = ((low + 1e-9).floor(), (high - 1e-9).ceil());
        }
        if low >= high {
            high = low + 1.0;
        }
        let stride = ((high - low) / n_ticks as f64).ceil().max(1.0) as usize;
        let decades = ((low - 1e-9).ceil() as i32..=(high + 1e-9).floor() as i32).step_by(stride);
        let mut ticks: Vec<Tick> =
            decades.map(|power| Tick { at: 10f64.powi(power), text: power_text(power) }).collect();
        if ticks.len() < 2 {
            // Less than two decades: also their 2 and 5.
            for power in low.floor() as i32..=high.floor() as i32 {
                for digit in [2.0, 5.0] {
                    let at = digit * 10f64.powi(power);
                    if (low..=high).contains(&at.log10()) {
                        ticks.push(Tick { at, text: tick_text(at, at, at) });
                    }
                }
            }
            ticks.sort_by(|a, b| a.at.total_cmp(&b.at));
        }
        Self { low, high, scale: Scale::Log, ticks }
    }

    /// Makes room at both ends.
    pub fn widen(&mut self, by: f64) {
        self.low -= by;
        self.high += by;
    }

    /// Where a value lies, from 0 at the lower end to 1 at the upper one; not finite where it cannot be shown.
    pub fn share(&self, value: f64) -> f64 {
        let value = match self.scale {
            Scale::Linear => value,
            Scale::Log if value > 0.0 => value.log10(),
            Scale::Log => f64::NAN,
        };
        (value - self.low) / (self.high - self.low)
    }

    /// Its ends and how it is divided, for scripts; the ends of a logarithmic one are powers of ten.
    pub fn extent_text(&self) -> String {
        let word = if self.scale == Scale::Log { "log" } else { "linear" };
        format!("{} {} {word}", self.low, self.high)
    }

    /// Whether a value lies on the axis.
    pub fn covers(&self, value: f64) -> bool {
        (0.0..=1.0).contains(&self.share(value))
    }
}

/// The least and the greatest finite value; the wrong way round where there is none.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

/// A tick's text: as many decimals as the step needs, powers of ten where numbers get long.
fn tick_text(value: f64, size: f64, step: f64) -> String {
    let value = if value.abs() < 1e-9 * step { 0.0 } else { value };
    if !(1e-3..1e5).contains(&size) {
        let digits = (size.log10().floor() - (step * 1.000_001).log10().floor()).max(0.0) as usize;
        let text = format!("{value:.digits$e}");
        return if text.ends_with("e0") { text.trim_end_matches("e0").to_owned() } else { text };
    }
    let decimals = (-step.log10().floor()).max(0.0) as usize;
    format!("{value:.decimals$}")
}

fn power_text(power: i32) -> String {
    if (-2..=4).contains(&power) { format!("{}", 10f64.powi(power)) } else { format!("1e{power}") }
}

/// 1, 2 or 5 times a power of ten, at least the given length.
fn round_step(length: f64) -> f64 {
    let power = 10f64.powf(length.log10().floor());
    let part = length / power;
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| part <= *digit).unwrap_or(10.0);
    power * digit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(axis: &Axis) -> Vec<f64> {
        axis.ticks.iter().map(|tick| tick.at).collect()
    }

    #[test]
    fn ticks_are_round_and_cover_the_data() {
        let axis = Axis::new(&[0.0, 9.7], 6, true, Scale::Linear);
        assert_eq!(places(&axis), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let flat = Axis::new(&[3.0, 3.0], 6, true, Scale::Linear);
        assert!(flat.low < 3.0 && flat.high > 3.0);
        let empty = Axis::new(&[f64::NAN], 6, true, Scale::Linear);
        assert_eq!((empty.low, empty.high), (0.0, 1.0));
    }

    #[test]
    fn long_numbers_become_powers_of_ten() {
        let axis = Axis::new(&[0.0, 4e-6], 6, true, Scale::Linear);
        assert_eq!(
            axis.ticks.iter().map(|tick| tick.text.as_str()).collect::<Vec<_>>(),
            ["0", "1e-6", "2e-6", "3e-6", "4e-6"]
        );
    }

    #[test]
    fn neighbouring_ticks_have_different_texts() {
        let axis = Axis::new(&[1.1e-5, 2.9e-5], 6, true, Scale::Linear);
        let texts: Vec<&str> = axis.ticks.iter().map(|tick| tick.text.as_str()).collect();
        assert!(texts.windows(2).all(|pair| pair[0] != pair[1]), "{texts:?}");
        assert!(texts.contains(&"1.5e-5"), "{texts:?}");
    }

    #[test]
    fn decades_are_the_ticks_of_a_log_axis() {
        let axis = Axis::new(&[3e-4, 0.0, 20.0], 6, true, Scale::Log);
        assert_eq!(
            axis.ticks.iter().map(|tick| tick.text.as_str()).collect::<Vec<_>>(),
            ["1e-4", "1e-3", "0.01", "0.1", "1", "10", "100"]
        );
        assert!(!axis.covers(0.0) && axis.covers(1.0));
        assert_eq!(
            places(&Axis::new(&[5000.0, 50_000.0], 6, false, Scale::Log)),
            [5000.0, 10_000.0, 20_000.0, 50_000.0]
        );
    }
}
