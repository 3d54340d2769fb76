//! Pictures of numbers over two lists: correlations of unknowns, a cost over a grid.

use std::fmt::Write as _;

use super::{CHARACTER, WIDTH, shortened};
use crate::page::escape;

/// Numbers over two lists, as cells of a colour: one for positive numbers, another for negative ones, the stronger the
/// closer to 1 or -1.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct HeatMap {
    /// Words above it.
    pub title: String,
    /// Words below the columns.
    pub x_label: String,
    /// Words beside the rows.
    pub y_label: String,
    /// What the columns are.
    pub columns: Vec<String>,
    /// What the rows are, from the top.
    pub rows: Vec<String>,
    /// From -1 to 1, by row; NaN leaves a cell empty.
    pub shades: Vec<Vec<f64>>,
    /// What is told of each cell when it is pointed at, by row.
    pub words: Vec<Vec<String>>,
    /// What is written into each cell where there is room, by row; empty where nothing is.
    pub texts: Vec<Vec<String>>,
    /// A cell that stands out: row and column.
    pub best: Option<(usize, usize)>,
}

/// Characters of a name.
const MAX_NAME: usize = 24;
/// The height of a row where there is room.
const ROW: f64 = 34.0;
/// Rows together are no higher than this.
const MAX_HEIGHT: f64 = 460.0;
/// Text is written into cells of at least this width and height.
const ROOM: (f64, f64) = (40.0, 16.0);

impl HeatMap {
    /// The picture inside a page.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let length = |names: &[String]| names.iter().map(|name| name.chars().count().min(MAX_NAME)).max().unwrap_or(0);
        let label = if self.y_label.is_empty() { 0.0 } else { 20.0 };
        let left = 16.0 + label + CHARACTER * length(&self.rows) as f64;
        let top = if self.title.is_empty() { 10.0 } else { 32.0 };
        let (n_rows, n_columns) = (self.rows.len().max(1) as f64, self.columns.len().max(1) as f64);
        let row = ROW.min(MAX_HEIGHT / n_rows);
        let column = ((WIDTH - left - 20.0) / n_columns).min(110.0);
        let widest = CHARACTER * length(&self.columns) as f64;
        let (is_slanted, stride) = (widest > column - 6.0, (14.0 / column).ceil().max(1.0) as usize);
        let bottom = top + n_rows * row;
        let below = if is_slanted { 16.0 + 0.6 * widest } else { 22.0 };
        let height = bottom + below + if self.x_label.is_empty() { 6.0 } else { 22.0 };
        let mut svg = format!(
            "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{}\">",
            escape(&self.title)
        );
        if !self.title.is_empty() {
            let _ = write!(svg, "<text class=\"title\" x=\"{left:.0}\" y=\"20\">{}</text>", escape(&self.title));
        }
        let has_room = column >= ROOM.0 && row >= ROOM.1;
        for (at_row, shades) in self.shades.iter().enumerate() {
            for (at_column, &shade) in shades.iter().enumerate() {
                let (x, y) = (left + at_column as f64 * column, top + at_row as f64 * row);
                self.cell(&mut svg, (at_row, at_column), shade, [x, y, column, row], has_room);
            }
        }
        if let Some((at_row, at_column)) = self.best {
            let (x, y) = (left + at_column as f64 * column, top + at_row as f64 * row);
            let _ = write!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{column:.1}\" height=\"{row:.1}\" style=\"fill:none;stroke:var(--text);stroke-width:2.5;pointer-events:none\"/>"
            );
        }
        let row_stride = (13.0 / row).ceil().max(1.0) as usize;
        for (at, name) in self.rows.iter().enumerate().step_by(row_stride) {
            let y = top + (at as f64 + 0.5) * row + 4.0;
            let name = escape(&shortened(name, MAX_NAME));
            let _ = write!(svg, "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{name}</text>", left - 8.0);
        }
        for (at, name) in self.columns.iter().enumerate().step_by(stride) {
            let (x, name) = (left + (at as f64 + 0.5) * column, escape(&shortened(name, MAX_NAME)));
            let _ = if is_slanted {
                let y = bottom + 14.0;
                write!(
                    svg,
                    "<text transform=\"translate({x:.1} {y:.1}) rotate(-35)\" text-anchor=\"end\">{name}</text>"
                )
            } else {
                write!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{name}</text>", bottom + 16.0)
            };
        }
        let right = left + n_columns * column;
        let (x_label, y_label) = (escape(&self.x_label), escape(&self.y_label));
        let _ = write!(svg, "<text x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{x_label}</text>", height - 6.0);
        let middle = (top + bottom) / 2.0;
        let _ = write!(
            svg,
            "<text transform=\"translate(14 {middle:.1}) rotate(-90)\" text-anchor=\"middle\">{y_label}</text></svg>"
        );
        svg
    }

    fn cell(&self, svg: &mut String, at: (usize, usize), shade: f64, place: [f64; 4], has_room: bool) {
        let [x, y, width, height] = place;
        let (row, column) = at;
        let words = self.words.get(row).and_then(|words| words.get(column)).map_or("", String::as_str);
        let color = if shade < 0.0 { 1 } else { 0 };
        let opacity = if shade.is_finite() { shade.abs().min(1.0) } else { 0.0 };
        let _ = write!(
            svg,
            "<g class=\"cell\"><rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" style=\"fill:var(--c{color});fill-opacity:{opacity:.3};stroke:var(--grid)\"/><title>{}</title>",
            escape(words)
        );
        let text = self.texts.get(row).and_then(|texts| texts.get(column)).filter(|text| has_room && !text.is_empty());
        if let Some(text) = text {
            let (x, y) = (x + 0.5 * width, y + 0.5 * height + 4.0);
            let ink = if opacity > 0.65 { " style=\"fill:#fff\"" } else { "" };
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\"{ink}>{}</text>", escape(text));
        }
        svg.push_str("</g>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_its_words_and_no_label_sticks_out() {
        let names = |n: usize| (0..n).map(|at| format!("a.rather.long.name.{at}")).collect::<Vec<_>>();
        let map = HeatMap {
            columns: names(3),
            rows: names(2),
            shades: vec![vec![1.0, -0.5, f64::NAN]; 2],
            words: vec![vec!["here".to_owned(); 3]; 2],
            ..HeatMap::default()
        };
        let svg = map.to_svg();
        assert_eq!(svg.matches("<title>here</title>").count(), 6);
        assert!(!svg.contains("NaN") && !svg.contains("=\"-"), "{svg}");
    }
}
