//! Charts as SVG: lines, dots, bands and box plots, axes with round ticks, a legend, colours that work in light and
//! dark.

mod axis;
mod boxes;
mod heat;

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::page::escape;
use axis::Axis;
pub use axis::{Scale, Tick};
pub use boxes::BoxFigures;
pub use heat::HeatMap;

/// How a series is drawn.
#[derive(Clone, PartialEq, Debug)]
pub enum Mark {
    /// A line.
    Line,
    /// Dots.
    Dots,
    /// A dashed line.
    Dashed,
    /// A band between the series' values and these.
    BandTo(Vec<f64>),
    /// A box at each abscissa; the ordinates are the medians.
    Boxes(Vec<BoxFigures>),
    /// Bars of this width from zero to each ordinate.
    Bars(f64),
}

impl Mark {
    /// What is drawn first lies below: bands, then dots, then lines, which are to be seen between them.
    fn layer(&self) -> u8 {
        match self {
            Self::BandTo(_) => 0,
            Self::Boxes(_) | Self::Bars(_) => 1,
            Self::Dots => 2,
            Self::Line | Self::Dashed => 3,
        }
    }
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

impl Series {
    /// A line.
    #[must_use]
    pub fn line(name: &str, x: &[f64], y: &[f64], color: usize) -> Self {
        Self { name: name.to_owned(), x: x.to_vec(), y: y.to_vec(), mark: Mark::Line, color }
    }

    /// The same values, drawn in another way.
    #[must_use]
    pub fn with_mark(self, mark: Mark) -> Self {
        Self { mark, ..self }
    }

    /// A band between two curves.
    #[must_use]
    pub fn band(name: &str, x: &[f64], low: &[f64], high: &[f64], color: usize) -> Self {
        Self::line(name, x, low, color).with_mark(Mark::BandTo(high.to_vec()))
    }

    /// Box plots of samples, one box at each abscissa.
    #[must_use]
    pub fn boxes(name: &str, x: &[f64], samples: &[Vec<f64>], color: usize) -> Self {
        let boxes: Vec<BoxFigures> = samples.iter().map(|of| BoxFigures::of(of)).collect();
        let medians: Vec<f64> = boxes.iter().map(|of| of.median).collect();
        Self::line(name, x, &medians, color).with_mark(Mark::Boxes(boxes))
    }

    /// Everything on the ordinate that the axis must cover.
    fn extent(&self) -> Vec<f64> {
        let mut values = self.y.clone();
        match &self.mark {
            Mark::BandTo(other) => values.extend(other),
            Mark::Boxes(boxes) => boxes.iter().for_each(|of| values.extend(of.extent())),
            Mark::Bars(_) => values.push(0.0),
            Mark::Line | Mark::Dots | Mark::Dashed => {}
        }
        values
    }
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
    /// Ordinates marked by a dashed line, such as a published value.
    pub levels: Vec<f64>,
    /// How the abscissa is divided.
    pub x_scale: Scale,
    /// How the ordinate is divided.
    pub y_scale: Scale,
    /// Ticks of the abscissa instead of round numbers.
    pub x_ticks: Vec<Tick>,
}

/// Colours of charts inside a page; a chart that stands alone carries them itself.
pub const STYLE: &str = "\
.chart { --c0: #1f6feb; --c1: #d1570a; --c2: #1a7f5a; --c3: #8250df; --c4: #b8264f; --c5: #7a6a00; --c6: #0b7285; --c7: #59636e; --axis: #6b7686; --grid: #e4e8ee; --text: #39424f; }
@media (prefers-color-scheme: dark) { .chart { --c0: #6cb0ff; --c1: #ff9a52; --c2: #56d29c; --c3: #c49bff; --c4: #ff7d9c; --c5: #e0c84a; --c6: #55c8dd; --c7: #aab4c0; --axis: #8a95a6; --grid: #262d38; --text: #c5cdd9; } }
.chart text { font: 12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif; fill: var(--text); }
.chart .title { font-size: 14px; font-weight: 600; }
.chart .grid { stroke: var(--grid); stroke-width: 1; } .chart .axis { stroke: var(--axis); stroke-width: 1; fill: none; }
.chart .mark { stroke: var(--axis); stroke-width: 1; stroke-dasharray: 4 4; fill: none; vector-effect: non-scaling-stroke; }
.chart .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; stroke-linecap: round; vector-effect: non-scaling-stroke; } .chart .dashed { stroke-dasharray: 6 4; stroke-linecap: butt; }
.chart .dots { fill: none; stroke-width: 4; stroke-linecap: round; vector-effect: non-scaling-stroke; }
";

/// Lets a reader look at values, zoom, move and hide curves; charts over time move together. Without it charts are as
/// drawn.
pub const SCRIPT: &str = include_str!("chart.js");

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 320.0;
/// The least room at the left; long ticks take more.
const LEFT: f64 = 68.0;
const RIGHT: f64 = 18.0;
const BOTTOM: f64 = 46.0;
/// More points than this are thinned to the extremes of each pixel column.
const MAX_POINTS: usize = 2000;
/// The width of a character, about.
const CHARACTER: f64 = 7.0;
/// Characters of a title, and of a name in the legend.
const MAX_TITLE: usize = 90;
const MAX_NAME: usize = 80;

/// Under an abscissa that is the time in seconds, as models have it. Long times are shown in hours or days.
pub const TIME: &str = "time in s";

/// The longest times that are shown in seconds and in hours.
const MAX_SECONDS: f64 = 7_200.0;
const MAX_HOURS: f64 = 96.0 * 3600.0;

impl Chart {
    /// The chart inside a page that has [`STYLE`].
    #[must_use]
    pub fn to_svg(&self) -> String {
        let drawn = self.draw();
        let label = escape(self.words());
        format!(
            "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{label}\"{}>{}</svg>",
            drawn.height, drawn.attributes, drawn.svg
        )
    }

    /// The chart as a file of its own.
    #[must_use]
    pub fn to_svg_file(&self) -> String {
        stack(std::slice::from_ref(self))
    }

    /// What it shows, for those who cannot see it.
    fn words(&self) -> &str {
        if self.title.is_empty() { &self.y_label } else { &self.title }
    }

    /// The chart with its time in a unit of a readable size, and that unit in seconds.
    fn in_readable_time(&self) -> (Cow<'_, Self>, f64) {
        let times = self.series.iter().flat_map(|series| series.x.iter().copied());
        let last = times.map(f64::abs).filter(|time| time.is_finite()).fold(0.0, f64::max);
        if self.x_label != TIME || last <= MAX_SECONDS {
            return (Cow::Borrowed(self), 1.0);
        }
        let (unit, word) = if last <= MAX_HOURS { (3600.0, "time in h") } else { (86_400.0, "time in days") };
        let mut chart = self.clone();
        word.clone_into(&mut chart.x_label);
        let times = chart.series.iter_mut().flat_map(|series| &mut series.x).chain(&mut chart.marked);
        times.for_each(|time| *time /= unit);
        (Cow::Owned(chart), unit)
    }

    fn draw(&self) -> Drawn {
        let (chart, time_unit) = self.in_readable_time();
        chart.draw_as_is(time_unit)
    }

    fn draw_legend(&self, svg: &mut String, rows: &[Vec<(f64, &Series)>]) {
        let legend_top = if self.title.is_empty() { 16.0 } else { 40.0 };
        for (row, entries) in rows.iter().enumerate() {
            let y = legend_top + 20.0 * row as f64;
            for &(x, series) in entries {
                let color = series.color % 8;
                let at = self.series.iter().position(|one| std::ptr::eq(one, series)).unwrap_or(0);
                let _ = write!(svg, "<g class=\"legend\" data-of=\"{at}\">");
                let _ = match series.mark {
                    Mark::Dots => write!(
                        svg,
                        "<circle cx=\"{:.0}\" cy=\"{:.0}\" r=\"3\" style=\"fill:var(--c{color})\"/>",
                        x + 7.0,
                        y - 4.0
                    ),
                    Mark::Dashed => write!(
                        svg,
                        "<path class=\"line dashed\" style=\"stroke:var(--c{color})\" d=\"M{x:.0} {0:.0}h14\"/>",
                        y - 4.0
                    ),
                    Mark::BandTo(_) | Mark::Boxes(_) | Mark::Bars(_) => write!(
                        svg,
                        "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"14\" height=\"10\" style=\"fill:var(--c{color});opacity:.3\"/>",
                        y - 9.0
                    ),
                    Mark::Line => write!(
                        svg,
                        "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"14\" height=\"4\" rx=\"2\" style=\"fill:var(--c{color})\"/>",
                        y - 6.0
                    ),
                };
                let name = shortened(&series.name, MAX_NAME);
                let _ = write!(svg, "<text x=\"{:.0}\" y=\"{y:.0}\">{}</text></g>", x + 19.0, escape(&name));
            }
        }
    }

    fn draw_as_is(&self, time_unit: f64) -> Drawn {
        let legend: Vec<&Series> = self.series.iter().filter(|series| !series.name.is_empty()).collect();
        let rows = legend_rows(&legend);
        let top = 14.0 + if self.title.is_empty() { 0.0 } else { 22.0 } + 20.0 * rows.len() as f64;
        let height = HEIGHT + top - 14.0;
        let has_boxes = self.series.iter().any(|series| matches!(series.mark, Mark::Boxes(_)));
        let x_values: Vec<f64> = self.series.iter().flat_map(|series| series.x.iter().copied()).collect();
        let mut x_axis = Axis::new(&x_values, 7, false, self.x_scale);
        if has_boxes {
            x_axis.widen(boxes::gap(&x_values));
        }
        let bars = self
            .series
            .iter()
            .filter_map(|series| if let Mark::Bars(width) = series.mark { Some(width) } else { None });
        x_axis.widen(bars.fold(0.0, f64::max));
        if !self.x_ticks.is_empty() {
            x_axis.ticks = self.x_ticks.clone();
        }
        let y_values: Vec<f64> =
            self.series.iter().flat_map(Series::extent).chain(self.levels.iter().copied()).collect();
        let y_axis = Axis::new(&y_values, 6, true, self.y_scale);
        let longest = y_axis.ticks.iter().map(|tick| tick.text.chars().count()).max().unwrap_or(0) as f64;
        let left = LEFT.max(CHARACTER * longest + if self.y_label.is_empty() { 14.0 } else { 34.0 });
        let frame = Frame { x: x_axis, y: y_axis, left, top, bottom: height - BOTTOM };
        let mut svg = String::new();
        if !self.title.is_empty() {
            let title = shortened(&self.title, MAX_TITLE);
            let _ = write!(svg, "<text class=\"title\" x=\"{LEFT}\" y=\"20\">{}</text>", escape(&title));
        }
        self.draw_legend(&mut svg, &rows);
        frame.draw_axes(&mut svg, &self.x_label, &self.y_label);
        // A picture in the picture: what lies outside of its frame is not seen.
        let (width, inner) = (WIDTH - RIGHT - left, frame.bottom - top);
        let _ = write!(
            svg,
            "<svg class=\"plot\" x=\"{left}\" y=\"{top:.1}\" width=\"{width}\" height=\"{inner:.1}\" viewBox=\"{left} {top:.1} {width} {inner:.1}\" preserveAspectRatio=\"none\"><g class=\"zoom\">"
        );
        for &x in self.marked.iter().filter(|&&x| frame.x.covers(x)) {
            let at = frame.px(x);
            let _ = write!(svg, "<path class=\"mark\" d=\"M{at:.1} {top:.1}V{:.1}\"/>", frame.bottom);
        }
        for &y in &self.levels {
            let _ = write!(svg, "<path class=\"mark\" d=\"M{left} {:.1}H{:.1}\"/>", frame.py(y), WIDTH - RIGHT);
        }
        let mut order: Vec<usize> = (0..self.series.len()).collect();
        order.sort_by_key(|&at| self.series[at].mark.layer());
        for at in order {
            let series = &self.series[at];
            let _ = write!(svg, "<g class=\"series\" data-of=\"{at}\" data-name=\"{}\">", escape(&series.name));
            frame.draw_series(&mut svg, series);
            svg.push_str("</g>");
        }
        svg.push_str("</g></svg>");
        let attributes = if has_boxes || !self.x_ticks.is_empty() {
            String::new()
        } else {
            let (x, y) = (&frame.x, &frame.y);
            let link = match self.x_label.strip_prefix("time in ") {
                Some(word) => format!(" data-link=\"time\" data-unit=\"{time_unit} {word}\""),
                None => String::new(),
            };
            format!(
                " data-frame=\"{left} {top:.1} {} {:.1}\" data-x=\"{}\" data-y=\"{}\"{link}",
                WIDTH - RIGHT,
                frame.bottom,
                x.extent_text(),
                y.extent_text()
            )
        };
        Drawn { svg, height, attributes }
    }
}

/// The parts of a chart, and how high they are.
struct Drawn {
    svg: String,
    height: f64,
    /// What the script must know: the frame, and what its edges stand for.
    attributes: String,
}

/// Charts below each other, as one file of its own.
#[must_use]
pub fn stack(charts: &[Chart]) -> String {
    let drawn: Vec<Drawn> = charts.iter().map(Chart::draw).collect();
    let height: f64 = drawn.iter().map(|of| of.height).sum();
    let words: Vec<&str> = charts.iter().map(Chart::words).collect();
    let mut svg = format!(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">\
         <style>{STYLE}.paper {{ fill: #fff }} @media (prefers-color-scheme: dark) {{ .paper {{ fill: #12161d }} }}</style>\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>",
        escape(&words.join("; "))
    );
    let mut at = 0.0;
    for of in drawn {
        let _ = write!(svg, "<g transform=\"translate(0 {at})\">{}</g>", of.svg);
        at += of.height;
    }
    svg.push_str("</svg>");
    svg
}

/// Places legend entries in rows, by an estimate of their widths.
fn legend_rows<'a>(legend: &[&'a Series]) -> Vec<Vec<(f64, &'a Series)>> {
    let mut rows: Vec<Vec<(f64, &Series)>> = Vec::new();
    let mut x = WIDTH;
    for &series in legend {
        let width = 19.0 + CHARACTER * series.name.chars().count().min(MAX_NAME) as f64 + 16.0;
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

/// A text with its middle left out where it is long.
fn shortened(text: &str, most: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= most {
        return text.to_owned();
    }
    let half = (most - 1) / 2;
    let (start, end) = (&letters[..half], &letters[letters.len() - half..]);
    start.iter().chain(&['…']).chain(end).collect()
}

struct Frame {
    x: Axis,
    y: Axis,
    left: f64,
    top: f64,
    bottom: f64,
}

impl Frame {
    fn px(&self, x: f64) -> f64 {
        self.left + self.x.share(x) * (WIDTH - RIGHT - self.left)
    }

    fn py(&self, y: f64) -> f64 {
        self.bottom - self.y.share(y) * (self.bottom - self.top)
    }

    fn draw_axes(&self, svg: &mut String, x_label: &str, y_label: &str) {
        let (left, right) = (self.left, WIDTH - RIGHT);
        svg.push_str("<g class=\"y-ticks\">");
        for tick in &self.y.ticks {
            let y = self.py(tick.at);
            let _ = write!(
                svg,
                "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                left - 8.0,
                y + 4.0,
                escape(&tick.text)
            );
        }
        svg.push_str("</g><g class=\"x-ticks\">");
        for tick in &self.x.ticks {
            let x = self.px(tick.at);
            let half = 0.5 * CHARACTER * tick.text.chars().count() as f64;
            // The last one must not stick out.
            let (place, anchor) = if x + half > WIDTH { (WIDTH, "end") } else { (x, "middle") };
            let _ = write!(
                svg,
                "<line class=\"axis\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\"/><text x=\"{place:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                self.bottom,
                self.bottom + 5.0,
                self.bottom + 19.0,
                escape(&tick.text)
            );
        }
        svg.push_str("</g>");
        let _ = write!(
            svg,
            "<line class=\"axis\" x1=\"{left}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/><text x=\"{right}\" y=\"{1:.1}\" text-anchor=\"end\">{2}</text>",
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
            Mark::Line | Mark::Dashed => {
                let mut path = String::new();
                let mut is_down = false;
                for (x, y) in thin(&series.x, &series.y) {
                    if x.is_finite() && y.is_finite() {
                        let _ = write!(path, "{}{:.2} {:.2}", if is_down { "L" } else { "M" }, self.px(x), self.py(y));
                    }
                    is_down = x.is_finite() && y.is_finite();
                }
                let class = if series.mark == Mark::Dashed { "line dashed" } else { "line" };
                let _ = write!(svg, "<path class=\"{class}\" style=\"stroke:var(--c{color})\" d=\"{path}\"/>");
            }
            Mark::Dots => {
                // A line of no length with round ends is a dot that stays round however the picture is stretched.
                let mut path = String::new();
                for (x, y) in thin(&series.x, &series.y).into_iter().filter(|(x, y)| x.is_finite() && y.is_finite()) {
                    let _ = write!(path, "M{:.1} {:.1}h0", self.px(x), self.py(y));
                }
                let _ = write!(svg, "<path class=\"dots\" style=\"stroke:var(--c{color})\" d=\"{path}\"/>");
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
            Mark::Bars(width) => {
                let mut path = String::new();
                for (&x, &y) in series.x.iter().zip(&series.y).filter(|(x, y)| x.is_finite() && y.is_finite()) {
                    let (left, right) = (self.px(x - 0.5 * width), self.px(x + 0.5 * width));
                    let _ = write!(path, "M{left:.1} {0:.1}V{1:.1}H{right:.1}V{0:.1}Z", self.py(0.0), self.py(y));
                }
                let _ = write!(svg, "<path style=\"fill:var(--c{color});opacity:.45\" d=\"{path}\"/>");
            }
            Mark::Boxes(boxes) => {
                for (&x, of) in series.x.iter().zip(boxes) {
                    self.draw_box(svg, x, of, color);
                }
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
    fn thinning_keeps_the_peak() {
        let x: Vec<f64> = (0..100_000).map(f64::from).collect();
        let mut y = vec![0.0; x.len()];
        y[54_321] = 7.0;
        let kept = thin(&x, &y);
        assert!(kept.len() <= MAX_POINTS + 4);
        assert!(kept.contains(&(54_321.0, 7.0)));
    }

    #[test]
    fn a_log_axis_places_decades_at_equal_distances() {
        let x = [1.0, 10.0, 100.0];
        let chart = Chart { x_scale: Scale::Log, series: vec![Series::line("", &x, &x, 0)], ..Chart::default() };
        let svg = chart.to_svg();
        // 720 wide, 68 at the left and 18 at the right are margins.
        for place in ["M68.00 ", "L385.00 ", "L702.00 "] {
            assert!(svg.contains(place), "{place} in {svg}");
        }
    }

    #[test]
    fn long_times_are_shown_in_hours_and_days() {
        let label = |last: f64, x_label: &str| {
            let series = vec![Series::line("y", &[0.0, last], &[0.0, 1.0], 0)];
            let chart = Chart { x_label: x_label.to_owned(), series, marked: vec![last / 2.0], ..Chart::default() };
            let (chart, unit) = chart.in_readable_time();
            (chart.x_label.clone(), chart.series[0].x[1] * unit, chart.marked[0] * unit)
        };
        assert_eq!(label(7200.0, TIME), ("time in s".to_owned(), 7200.0, 3600.0));
        assert_eq!(label(86_400.0, TIME), ("time in h".to_owned(), 86_400.0, 43_200.0));
        assert_eq!(label(604_800.0, TIME), ("time in days".to_owned(), 604_800.0, 302_400.0));
        assert_eq!(label(604_800.0, "samples apart").0, "samples apart");
    }

    #[test]
    fn charts_in_a_stack_stand_below_each_other() {
        let chart = Chart { series: vec![Series::line("", &[0.0, 1.0], &[0.0, 1.0], 0)], ..Chart::default() };
        let svg = stack(&[chart.clone(), chart]);
        assert!(svg.contains("viewBox=\"0 0 720 640\""), "{svg}");
        assert!(svg.contains("translate(0 320)"));
    }
}
