//! Line charts as SVG: axes with round ticks, a legend, colours that work in light and dark.

use std::fmt::Write as _;

use super::escape;

/// How a series is drawn.
#[derive(Clone, PartialEq, Debug)]
pub enum Mark {
    /// A line.
    Line,
    /// Dots.
    Dots,
    /// A band between the series' values and these.
    BandTo(Vec<f64>),
}

/// One series of a chart. Values that are not finite leave a gap.
#[derive(Clone, PartialEq, Debug)]
pub struct Series {
    /// Name in the legend; empty leaves it out.
    pub name: String,
    /// Abscissas.
    pub x: Vec<f64>,
    /// Ordinates.
    pub y: Vec<f64>,
    /// How it is drawn.
    pub mark: Mark,
    /// Which of the eight colours; series that belong together share one.
    pub color: usize,
}

/// A chart.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Chart {
    /// Words above it.
    pub title: String,
    /// Words below the abscissa.
    pub x_label: String,
    /// Words beside the ordinate.
    pub y_label: String,
    /// What is drawn.
    pub series: Vec<Series>,
    /// Abscissas marked by a dashed line, such as events.
    pub marked: Vec<f64>,
}

/// Colours of charts inside a page; a chart that stands alone carries them itself.
pub const STYLE: &str = "\
.chart { --c0: #1f6feb; --c1: #d1570a; --c2: #1a7f5a; --c3: #8250df; --c4: #b8264f; --c5: #7a6a00; --c6: #0b7285; --c7: #59636e; --axis: #6b7686; --grid: #e4e8ee; --text: #39424f; }
@media (prefers-color-scheme: dark) { .chart { --c0: #6cb0ff; --c1: #ff9a52; --c2: #56d29c; --c3: #c49bff; --c4: #ff7d9c; --c5: #e0c84a; --c6: #55c8dd; --c7: #aab4c0; --axis: #8a95a6; --grid: #262d38; --text: #c5cdd9; } }
.chart text { font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif; fill: var(--text); }
.chart .title { font-size: 14px; font-weight: 600; }
.chart .grid { stroke: var(--grid); stroke-width: 1; } .chart .axis { stroke: var(--axis); stroke-width: 1; fill: none; }
.chart .mark { stroke: var(--axis); stroke-width: 1; stroke-dasharray: 4 4; }
.chart .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; }
";

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 68.0;
const RIGHT: f64 = 18.0;
const BOTTOM: f64 = 46.0;
/// More points than this are thinned to the extremes of each pixel column.
const MAX_POINTS: usize = 2000;

impl Chart {
    /// The chart inside a page that has [`STYLE`].
    #[must_use]
    pub fn to_svg(&self) -> String {
        self.draw(false)
    }

    /// The chart as a file of its own.
    #[must_use]
    pub fn to_svg_file(&self) -> String {
        self.draw(true)
    }

    fn draw(&self, is_alone: bool) -> String {
        let legend: Vec<&Series> = self.series.iter().filter(|series| !series.name.is_empty()).collect();
        let rows = legend_rows(&legend);
        let top = 14.0 + if self.title.is_empty() { 0.0 } else { 22.0 } + 20.0 * rows.len() as f64;
        let height = HEIGHT + top - 14.0;
        let x_axis = Axis::new(self.series.iter().flat_map(|series| series.x.iter().copied()), 7, false);
        let y_values = self.series.iter().flat_map(|series| {
            let other: &[f64] = if let Mark::BandTo(other) = &series.mark { other } else { &[] };
            series.y.iter().chain(other).copied()
        });
        let y_axis = Axis::new(y_values, 6, true);
        let frame = Frame { x: x_axis, y: y_axis, top, bottom: height - BOTTOM };
        let mut svg = format!(
            "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
            escape(if self.title.is_empty() { &self.y_label } else { &self.title })
        );
        if is_alone {
            let _ = write!(
                svg,
                "<style>{STYLE}.paper {{ fill: #fff }} @media (prefers-color-scheme: dark) {{ .paper {{ fill: #12161d }} }}</style>\
                 <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>"
            );
        }
        if !self.title.is_empty() {
            let _ = write!(svg, "<text class=\"title\" x=\"{LEFT}\" y=\"20\">{}</text>", escape(&self.title));
        }
        let legend_top = if self.title.is_empty() { 16.0 } else { 40.0 };
        for (row, entries) in rows.iter().enumerate() {
            let y = legend_top + 20.0 * row as f64;
            for &(x, series) in entries {
                let _ = write!(
                    svg,
                    "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"14\" height=\"4\" rx=\"2\" style=\"fill:var(--c{})\"/><text x=\"{:.0}\" y=\"{y:.0}\">{}</text>",
                    y - 6.0,
                    series.color % 8,
                    x + 19.0,
                    escape(&series.name)
                );
            }
        }
        frame.draw_axes(&mut svg, &self.x_label, &self.y_label);
        for &x in self.marked.iter().filter(|&&x| frame.x.low <= x && x <= frame.x.high) {
            let at = frame.px(x);
            let _ = write!(
                svg,
                "<line class=\"mark\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{:.1}\"/>",
                frame.bottom
            );
        }
        for series in &self.series {
            frame.draw_series(&mut svg, series);
        }
        svg.push_str("</svg>");
        svg
    }
}

/// Places legend entries in rows, by an estimate of their widths.
fn legend_rows<'a>(legend: &[&'a Series]) -> Vec<Vec<(f64, &'a Series)>> {
    let mut rows: Vec<Vec<(f64, &Series)>> = Vec::new();
    let mut x = WIDTH;
    for &series in legend {
        let width = 19.0 + 7.0 * series.name.chars().count() as f64 + 16.0;
        if x + width > WIDTH - RIGHT {
            rows.push(Vec::new());
            x = LEFT;
        }
        if let Some(row) = rows.last_mut() {
            row.push((x, series));
        }
        x += width;
    }
    rows
}

/// A range with round ticks.
struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
    step: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, n_ticks: usize, is_padded: bool) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|value| value.is_finite()) {
            low = low.min(value);
            high = high.max(value);
        }
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
        let ticks = (0..=(last - first) as usize).map(|at| (first + at as f64) * step).collect();
        Self { low, high, ticks, step }
    }

    /// A tick's text: as many decimals as the step needs, powers of ten where numbers get long.
    fn text(&self, value: f64) -> String {
        let value = if value.abs() < 1e-9 * self.step { 0.0 } else { value };
        let size = self.low.abs().max(self.high.abs());
        if !(1e-3..1e5).contains(&size) {
            let text = format!("{:.*e}", digits(size, self.step), value);
            return text.replace("e0", "");
        }
        let decimals = (-self.step.log10().floor()).max(0.0) as usize;
        format!("{value:.decimals$}")
    }
}

fn digits(size: f64, step: f64) -> usize {
    ((size / step).log10().ceil() as usize).saturating_sub(1)
}

/// 1, 2 or 5 times a power of ten, at least the given length.
fn round_step(length: f64) -> f64 {
    let power = 10f64.powf(length.log10().floor());
    let part = length / power;
    power
        * if part <= 1.0 {
            1.0
        } else if part <= 2.0 {
            2.0
        } else if part <= 5.0 {
            5.0
        } else {
            10.0
        }
}

struct Frame {
    x: Axis,
    y: Axis,
    top: f64,
    bottom: f64,
}

impl Frame {
    fn px(&self, x: f64) -> f64 {
        LEFT + (x - self.x.low) / (self.x.high - self.x.low) * (WIDTH - RIGHT - LEFT)
    }

    fn py(&self, y: f64) -> f64 {
        self.bottom - (y - self.y.low) / (self.y.high - self.y.low) * (self.bottom - self.top)
    }

    fn draw_axes(&self, svg: &mut String, x_label: &str, y_label: &str) {
        let right = WIDTH - RIGHT;
        for &tick in &self.y.ticks {
            let y = self.py(tick);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.0,
                self.y.text(tick)
            );
        }
        for &tick in &self.x.ticks {
            let x = self.px(tick);
            let _ = write!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                self.bottom,
                self.bottom + 5.0,
                self.bottom + 19.0,
                self.x.text(tick)
            );
        }
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/><text x=\"{right}\" y=\"{1:.1}\" text-anchor=\"end\">{2}</text>",
            self.bottom,
            self.bottom + 38.0,
            escape(x_label)
        );
        if !y_label.is_empty() {
            let middle = (self.top + self.bottom) / 2.0;
            let _ = write!(
                svg,
                "<text transform=\"translate(16 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                escape(y_label)
            );
        }
    }

    fn draw_series(&self, svg: &mut String, series: &Series) {
        let color = series.color % 8;
        match &series.mark {
            Mark::Line => {
                let mut path = String::new();
                let mut is_down = false;
                for (x, y) in thin(&series.x, &series.y) {
                    if x.is_finite() && y.is_finite() {
                        let _ = write!(path, "{}{:.1} {:.1}", if is_down { "L" } else { "M" }, self.px(x), self.py(y));
                    }
                    is_down = x.is_finite() && y.is_finite();
                }
                let _ = write!(svg, "<path class=\"line\" style=\"stroke:var(--c{color})\" d=\"{path}\"/>");
            }
            Mark::Dots => {
                let _ = write!(svg, "<g style=\"fill:var(--c{color})\">");
                for (&x, &y) in series.x.iter().zip(&series.y).filter(|(x, y)| x.is_finite() && y.is_finite()) {
                    let _ = write!(svg, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2\"/>", self.px(x), self.py(y));
                }
                svg.push_str("</g>");
            }
            Mark::BandTo(other) => {
                let there: Vec<(f64, f64)> = thin(&series.x, &series.y);
                let mut back: Vec<(f64, f64)> = thin(&series.x, other);
                back.reverse();
                let mut path = String::new();
                for (x, y) in there.into_iter().chain(back).filter(|(x, y)| x.is_finite() && y.is_finite()) {
                    let _ =
                        write!(path, "{}{:.1} {:.1}", if path.is_empty() { "M" } else { "L" }, self.px(x), self.py(y));
                }
                let _ = write!(svg, "<path style=\"fill:var(--c{color});opacity:.18\" d=\"{path}Z\"/>");
            }
        }
    }
}

/// Keeps first, lowest, highest and last of each stretch, so that no peak is lost.
fn thin(x: &[f64], y: &[f64]) -> Vec<(f64, f64)> {
    let n = x.len().min(y.len());
    if n <= MAX_POINTS {
        return x.iter().copied().zip(y.iter().copied()).collect();
    }
    let stretch = n.div_ceil(MAX_POINTS / 4);
    let mut kept = Vec::with_capacity(MAX_POINTS);
    for start in (0..n).step_by(stretch) {
        let end = (start + stretch).min(n);
        let by_value = |&a: &usize, &b: &usize| y[a].total_cmp(&y[b]);
        let low = (start..end).min_by(by_value).unwrap_or(start);
        let high = (start..end).max_by(by_value).unwrap_or(start);
        let mut chosen = [start, low, high, end - 1];
        chosen.sort_unstable();
        kept.extend(chosen.iter().map(|&at| (x[at], y[at])));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_cover_the_data() {
        let axis = Axis::new([0.0, 9.7].into_iter(), 6, true);
        assert_eq!(axis.ticks, vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let flat = Axis::new([3.0, 3.0].into_iter(), 6, true);
        assert!(flat.low < 3.0 && flat.high > 3.0);
        let empty = Axis::new([f64::NAN].into_iter(), 6, true);
        assert_eq!((empty.low, empty.high), (0.0, 1.0));
    }

    #[test]
    fn thinning_keeps_the_peak() {
        let x: Vec<f64> = (0..100_000).map(f64::from).collect();
        let mut y = vec![0.0; x.len()];
        y[54_321] = 7.0;
        let kept = thin(&x, &y);
        assert!(kept.len() <= MAX_POINTS + 4);
        assert!(kept.contains(&(54_321.0, 7.0)));
    }
}
