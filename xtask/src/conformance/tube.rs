//! Whether one trajectory lies in the tube around another.
//!
//! The tube around a reference `r(t)` is all points within `TOLERANCE` of the time span to the left and right of it and
//! within `TOLERANCE` of its range, and 1e-4 of its size, above and below. Of the first instant only the last row
//! counts and of the last instant only the first: programs differ in whether they write the iteration of an event at
//! the start, and in whether an event at the very end still happens.

/// Of the time span, and of the range of a signal.
const TOLERANCE: f64 = 2e-3;

/// A signal over time; times do not decrease, an instant may come twice.
#[derive(Clone, Copy)]
pub struct Signal<'s> {
    pub times: &'s [f64],
    pub values: &'s [f64],
}

/// The largest distance from the tube, in units of its half height, and where.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Distance {
    pub worst: f64,
    pub time: f64,
}

impl<'s> Signal<'s> {
    /// Without the iteration at the first and last instant.
    fn settled(self) -> Self {
        let n = self.times.len();
        if n == 0 {
            return self;
        }
        let span = self.times[n - 1] - self.times[0];
        let mut first = 0;
        while first + 1 < n && self.times[first + 1] == self.times[0] {
            first += 1;
        }
        let mut last = n - 1;
        while last > first + 1 && self.times[n - 1] - self.times[last - 1] <= 1e-5 * span {
            last -= 1;
        }
        Self { times: &self.times[first..=last], values: &self.values[first..=last] }
    }

    /// The value at `t` by straight lines; at a jump that of the side asked for.
    fn at(self, t: f64, is_after: bool) -> f64 {
        let n = self.times.len();
        if t <= self.times[0] {
            return self.values[0];
        }
        if t >= self.times[n - 1] {
            return self.values[n - 1];
        }
        let next = if is_after {
            self.times.partition_point(|&time| time <= t)
        } else {
            self.times.partition_point(|&time| time < t)
        };
        let (a, b) = (self.times[next - 1], self.times[next]);
        let (left, right) = (self.values[next - 1], self.values[next]);
        if a == b { right } else { left + (right - left) * (t - a) / (b - a) }
    }
}

/// How far a signal leaves the tube around a reference: it agrees where the worst is at most 1.
pub fn distance(signal: Signal<'_>, reference: Signal<'_>) -> Distance {
    let (signal, reference) = (signal.settled(), reference.settled());
    let Some((&start, &stop)) = reference.times.first().zip(reference.times.last()) else {
        return Distance { worst: f64::INFINITY, time: 0.0 };
    };
    let low = reference.values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = reference.values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let size = low.abs().max(high.abs());
    let height = TOLERANCE * (high - low) + 1e-4 * size + if size < 1e-9 { 2e-7 } else { 1e-9 };
    let width = TOLERANCE * (stop - start);
    let mut result = Distance::default();
    for (&t, &value) in signal.times.iter().zip(signal.values) {
        // Some references end before the model's experiment does.
        if t > stop {
            break;
        }
        if !value.is_finite() {
            return Distance { worst: f64::INFINITY, time: t };
        }
        let (left, right) = (reference.at(t - width, true), reference.at(t + width, false));
        let from = reference.times.partition_point(|&time| time < t - width);
        let to = reference.times.partition_point(|&time| time <= t + width);
        let inside = reference.values[from..to.max(from)].iter().copied();
        let bottom = inside.clone().fold(left.min(right), f64::min);
        let top = inside.fold(left.max(right), f64::max);
        let outside = (bottom - value).max(value - top).max(0.0) / height;
        if outside > result.worst {
            result = Distance { worst: outside, time: t };
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_jump_is_in_the_tube_and_a_wrong_level_is_not() {
        let times = [0.0, 1.0, 1.0, 2.0];
        let reference = Signal { times: &times, values: &[0.0, 0.0, 1.0, 1.0] };
        let late = [0.0, 1.003, 1.003, 2.0];
        let near = Signal { times: &late, values: &[0.0, 0.0, 1.0, 1.0] };
        assert!(distance(near, reference).worst <= 1.0);
        let far = Signal { times: &times, values: &[0.0, 0.0, 1.01, 1.01] };
        let found = distance(far, reference);
        // 0.01 beyond a half height of 2e-3 + 1e-4.
        assert!((found.worst - 0.01 / 0.0021).abs() < 1e-3, "{found:?}");
        assert_eq!(found.time, 1.0);
    }

    #[test]
    fn nothing_is_compared_after_the_end_of_a_reference() {
        let reference = Signal { times: &[0.0, 1.0], values: &[1.0, 1.0] };
        let signal = Signal { times: &[0.0, 1.0, 2.0, 3.0], values: &[1.0, 1.0, 7.0, 8.0] };
        assert_eq!(distance(signal, reference).worst, 0.0);
    }

    #[test]
    fn what_an_event_at_the_first_instant_wrote_before_does_not_count() {
        let reference = Signal { times: &[0.0, 1.0], values: &[1.0, 1.0] };
        let signal = Signal { times: &[0.0, 0.0, 1.0], values: &[5.0, 1.0, 1.0] };
        assert_eq!(distance(signal, reference).worst, 0.0);
        let broken = Signal { times: &[0.0, 0.5, 1.0], values: &[1.0, f64::NAN, 1.0] };
        assert_eq!(distance(broken, reference).worst, f64::INFINITY);
    }
}
