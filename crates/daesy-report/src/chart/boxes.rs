//! Box plots: quartiles, median, mean, whiskers and what lies beyond them.

use std::fmt::Write as _;

use super::Frame;

/// What a box shows of a sample.
#[derive(Clone, PartialEq, Debug)]
pub struct BoxFigures {
    /// The middle of the sample.
    pub median: f64,
    /// Its mean.
    pub mean: f64,
    /// A quarter of the sample lies below.
    pub lower_quartile: f64,
    /// A quarter of the sample lies above.
    pub upper_quartile: f64,
    /// The least value within one and a half boxes of the box.
    pub lower_whisker: f64,
    /// The greatest value within one and a half boxes of the box.
    pub upper_whisker: f64,
    /// All others.
    pub outliers: Vec<f64>,
}

impl BoxFigures {
    /// The figures of a sample; quartiles are interpolated between the two nearest values. Values that are not finite
    /// are left out, and an empty sample has no figure.
    #[must_use]
    pub fn of(sample: &[f64]) -> Self {
        let mut sorted: Vec<f64> = sample.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        if n == 0 {
            let none = f64::NAN;
            return Self {
                median: none,
                mean: none,
                lower_quartile: none,
                upper_quartile: none,
                lower_whisker: none,
                upper_whisker: none,
                outliers: Vec::new(),
            };
        }
        let quantile = |share: f64| {
            let at = share * (n - 1) as f64;
            let below = at.floor() as usize;
            let above = (below + 1).min(n - 1);
            sorted[below] + (at - at.floor()) * (sorted[above] - sorted[below])
        };
        let (lower_quartile, upper_quartile) = (quantile(0.25), quantile(0.75));
        let reach = 1.5 * (upper_quartile - lower_quartile);
        let is_near = |value: &&f64| (lower_quartile - reach..=upper_quartile + reach).contains(*value);
        Self {
            median: quantile(0.5),
            mean: sorted.iter().sum::<f64>() / n as f64,
            lower_quartile,
            upper_quartile,
            lower_whisker: sorted.iter().find(is_near).copied().unwrap_or(lower_quartile),
            upper_whisker: sorted.iter().rev().find(is_near).copied().unwrap_or(upper_quartile),
            outliers: sorted.iter().filter(|value| !is_near(value)).copied().collect(),
        }
    }

    /// All values that are drawn.
    pub(super) fn extent(&self) -> impl Iterator<Item = f64> {
        [self.lower_whisker, self.upper_whisker, self.mean].into_iter().chain(self.outliers.iter().copied())
    }
}

/// Room beside the outer boxes: half the least distance between two abscissas.
pub(super) fn gap(x: &[f64]) -> f64 {
    let mut sorted = x.to_vec();
    sorted.sort_by(f64::total_cmp);
    let distances = sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|distance| *distance > 0.0);
    0.75 * distances.fold(f64::INFINITY, f64::min).min(1.0)
}

/// Half the width of a box.
const HALF: f64 = 13.0;

impl Frame {
    /// Draws a box at an abscissa: the line is the median, the diamond the mean.
    pub(super) fn draw_box(&self, svg: &mut String, x: f64, of: &BoxFigures, color: usize) {
        if !of.median.is_finite() {
            return;
        }
        let (left, right, middle) = (self.px(x) - HALF, self.px(x) + HALF, self.px(x));
        let [low, high, bottom, top] =
            [of.lower_quartile, of.upper_quartile, of.lower_whisker, of.upper_whisker].map(|value| self.py(value));
        let _ = write!(
            svg,
            "<path style=\"fill:none;stroke:var(--c{color});stroke-width:1.4\" d=\"M{middle:.1} {bottom:.1}V{low:.1}M{middle:.1} {high:.1}V{top:.1}\
             M{0:.1} {bottom:.1}h{HALF}M{0:.1} {top:.1}h{HALF}\"/>\
             <rect x=\"{left:.1}\" y=\"{high:.1}\" width=\"{1:.1}\" height=\"{2:.1}\" style=\"fill:var(--c{color});fill-opacity:.18;stroke:var(--c{color});stroke-width:1.4\"/>\
             <path style=\"stroke:var(--c{color});stroke-width:2.6\" d=\"M{left:.1} {3:.1}H{right:.1}\"/>\
             <path style=\"fill:var(--c{color})\" d=\"M{middle:.1} {4:.1}l4 4l-4 4l-4 -4Z\"/>",
            middle - HALF / 2.0,
            right - left,
            low - high,
            self.py(of.median),
            self.py(of.mean) - 4.0,
        );
        for &value in &of.outliers {
            let _ = write!(
                svg,
                "<circle cx=\"{middle:.1}\" cy=\"{:.1}\" r=\"2\" style=\"fill:none;stroke:var(--c{color})\"/>",
                self.py(value)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_shows_the_quartiles_and_what_lies_far_out() {
        let mut sample: Vec<f64> = (1..=9).map(f64::from).collect();
        sample.push(100.0);
        sample.push(f64::NAN);
        let of = BoxFigures::of(&sample);
        assert_eq!((of.lower_quartile, of.median, of.upper_quartile), (3.25, 5.5, 7.75));
        assert_eq!((of.lower_whisker, of.upper_whisker), (1.0, 9.0));
        assert_eq!(of.outliers, [100.0]);
        assert_eq!(of.mean, 14.5);
        assert!(BoxFigures::of(&[]).median.is_nan());
    }
}
