//! Measured data from CSV files, with the line of every problem.

use std::path::Path;

use crate::diagnostic::Diagnostic;
use daesy_graph::finding::nearest;
use daesy_graph::source::Place;
use daesy_model::file::{MAX_DATA_BYTES, read_text};

/// Where the times of the rows come from.
#[derive(Clone, PartialEq, Debug)]
pub enum TimeAxis {
    /// A column with this header.
    Column(String),
    /// There is no such column: the rows follow each other by this step, the first at time 0.
    Step(f64),
}

/// How the numbers of a file become those of the model.
#[derive(Clone, PartialEq, Debug)]
pub struct Conversion {
    /// Seconds in the unit of the times.
    pub seconds: f64,
    /// Factors by header.
    pub scale: Vec<(String, f64)>,
    /// What is added after that, by header.
    pub offset: Vec<(String, f64)>,
}

impl Default for Conversion {
    fn default() -> Self {
        Self { seconds: 1.0, scale: Vec::new(), offset: Vec::new() }
    }
}

/// One experiment: a time column that ascends, and the other columns.
#[derive(Clone, PartialEq, Debug)]
pub struct Data {
    /// The file as the user named it.
    pub file: String,
    /// Times.
    pub times: Vec<f64>,
    /// Names of the other columns.
    pub names: Vec<String>,
    /// Their values; NaN where a cell is empty or `NaN`.
    pub columns: Vec<Vec<f64>>,
}

impl Data {
    /// Reads a file with a header row.
    ///
    /// # Errors
    /// When it cannot be read, a cell is no number, a row is too short, or time does not ascend.
    pub fn read(path: &Path, shown: &str, axis: &TimeAxis) -> Result<Self, Vec<Diagnostic>> {
        let text = read_text(path, MAX_DATA_BYTES).map_err(|error| {
            vec![
                Diagnostic::about_file("data-file", shown, format!("the data file `{shown}` cannot be read: {error}"))
                    .with_help("the path is relative to the study file"),
            ]
        })?;
        Self::parse(&text, shown, axis)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`Data::read`].
    pub fn parse(text: &str, shown: &str, axis: &TimeAxis) -> Result<Self, Vec<Diagnostic>> {
        let problem = |line: usize, column: usize, code: &str, message: String| {
            let mut diagnostic = Diagnostic::about_file(code, shown, message);
            diagnostic.place = Some(Place { file: shown.to_owned(), line: line as u32, column: column as u32 });
            diagnostic
        };
        let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
        let Some((_, header)) = lines.next() else {
            return Err(vec![problem(1, 1, "data-empty", "the data file is empty".to_owned())]);
        };
        let separator = if header.contains(',') || !header.contains(';') { ',' } else { ';' };
        let names: Vec<String> = split(header, separator).into_iter().map(|cell| cell.text).collect();
        let time_at = match axis {
            TimeAxis::Step(_) => None,
            TimeAxis::Column(column) => match names.iter().position(|name| name == column) {
                Some(at) => Some(at),
                None => {
                    let help = time_column_help(column, &names);
                    let message = format!("there is no time column `{column}`");
                    return Err(vec![problem(1, 1, "data-column", message).with_help(help)]);
                }
            },
        };
        let mut columns: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
        let mut diagnostics = Vec::new();
        for (at, line) in lines {
            if line.trim().is_empty() {
                continue;
            }
            let cells = split(line, separator);
            if cells.len() != names.len() {
                let message = format!("this row has {} cells, the header has {}", cells.len(), names.len());
                diagnostics.push(problem(at + 1, 1, "data-row", message));
            }
            for (column, cell) in cells.iter().enumerate().take(names.len()) {
                let word = cell.text.trim();
                let value = match word.parse::<f64>() {
                    Ok(value) => value,
                    Err(_) if word.is_empty() => f64::NAN,
                    Err(_) => {
                        let message = format!("`{word}` is not a number (column `{}`)", names[column]);
                        diagnostics.push(problem(at + 1, cell.start + 1, "data-number", message));
                        f64::NAN
                    }
                };
                columns[column].push(value);
            }
            if diagnostics.len() >= 20 {
                break;
            }
            if let Some(time_at) = time_at
                && let [.., before, now] = columns[time_at][..]
                && (now <= before || now.is_nan())
            {
                let message = format!("time does not ascend: {now} comes after {before}");
                diagnostics.push(problem(at + 1, 1, "data-time", message).with_help("sort the rows by time"));
            }
        }
        if !diagnostics.is_empty() {
            return Err(diagnostics);
        }
        let n_rows = columns.first().map_or(0, Vec::len);
        if n_rows == 0 {
            return Err(vec![problem(2, 1, "data-empty", "the data file has no rows".to_owned())]);
        }
        let mut names = names;
        let times = match (axis, time_at) {
            (TimeAxis::Step(step), _) => (0..n_rows).map(|row| row as f64 * step).collect(),
            (TimeAxis::Column(_), at) => {
                let at = at.expect("a missing time column was reported above");
                names.remove(at);
                columns.remove(at)
            }
        };
        Ok(Self { file: shown.to_owned(), times, names, columns })
    }

    /// Brings times to seconds and columns to the model's units.
    ///
    /// # Errors
    /// When a column that is to be converted is not there.
    pub fn convert(&mut self, conversion: &Conversion) -> Result<(), Vec<Diagnostic>> {
        self.times.iter_mut().for_each(|time| *time *= conversion.seconds);
        type Change = fn(&mut f64, f64);
        let changes: [(&[(String, f64)], Change); 2] =
            [(&conversion.scale, |value, by| *value *= by), (&conversion.offset, |value, by| *value += by)];
        for (list, change) in changes {
            for (header, by) in list {
                let Some(at) = self.names.iter().position(|name| name == header) else {
                    let message = format!("there is no column `{header}` to be converted");
                    let help = match nearest(header, self.names.iter().map(String::as_str)) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("its columns: {}", self.names.join(", ")),
                    };
                    return Err(vec![Diagnostic::about_file("data-column", &self.file, message).with_help(help)]);
                };
                self.columns[at].iter_mut().for_each(|value| change(value, *by));
            }
        }
        Ok(())
    }

    /// The values of one column of a file that needs no time column; empty cells are left out.
    ///
    /// # Errors
    /// When the column is not there or a cell of it is no number.
    pub fn parse_column(text: &str, shown: &str, column: &str) -> Result<Vec<f64>, Vec<Diagnostic>> {
        let mut lines = text.trim_start_matches('\u{feff}').lines().enumerate();
        let header = lines.next().map_or("", |(_, header)| header);
        let separator = if header.contains(',') || !header.contains(';') { ',' } else { ';' };
        let names: Vec<String> = split(header, separator).into_iter().map(|cell| cell.text).collect();
        let Some(place) = names.iter().position(|name| name == column) else {
            let help = match nearest(column, names.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("its columns: {}", names.join(", ")),
            };
            let message = format!("there is no column `{column}`");
            return Err(vec![Diagnostic::about_file("data-column", shown, message).with_help(help)]);
        };
        let mut values = Vec::new();
        for (at, line) in lines {
            let cells = split(line, separator);
            let Some(cell) = cells.get(place).filter(|cell| !cell.text.is_empty()) else { continue };
            match cell.text.parse::<f64>() {
                Ok(value) if value.is_finite() => values.push(value),
                _ => {
                    let message = format!("`{}` is not a finite number (column `{column}`)", cell.text);
                    let mut diagnostic = Diagnostic::about_file("data-number", shown, message);
                    diagnostic.place =
                        Some(Place { file: shown.to_owned(), line: at as u32 + 1, column: cell.start as u32 + 1 });
                    return Err(vec![diagnostic]);
                }
            }
        }
        Ok(values)
    }

    /// A column by its header.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&[f64]> {
        let at = self.names.iter().position(|known| known == name)?;
        Some(&self.columns[at])
    }
}

struct Cell {
    text: String,
    start: usize,
}

/// The cells of a line, quoted ones as in RFC 4180.
fn split(line: &str, separator: char) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut text = String::new();
    let mut start = 0;
    let mut is_quoted = false;
    let mut characters = line.chars().enumerate().peekable();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek().is_some_and(|(_, next)| *next == '"') => {
                text.push('"');
                characters.next();
            }
            '"' => is_quoted = !is_quoted,
            _ if character == separator && !is_quoted => {
                cells.push(Cell { text: std::mem::take(&mut text).trim().to_owned(), start });
                start = at + 1;
            }
            _ => text.push(character),
        }
    }
    cells.push(Cell { text: text.trim().to_owned(), start });
    cells
}

/// What to do when there is no column of the given name for the time: take one that looks like it, or name one.
pub(crate) fn time_column_help(column: &str, names: &[String]) -> String {
    let looks_like_time = |name: &&String| {
        let lower = name.to_lowercase();
        let first = lower.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        lower == column.to_lowercase() || matches!(first, "t" | "time" | "seconds" | "sec") || lower.ends_with("time")
    };
    match names.iter().find(looks_like_time) {
        Some(near) => format!("did you mean `{near}`? Say so with `time = \"{near}\"` in `[data]`"),
        None => format!(
            "columns: {}; name one with `time = ..` in `[data]`, or say `step = ..` if the rows follow each other evenly",
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_column() -> TimeAxis {
        TimeAxis::Column("t".to_owned())
    }

    #[test]
    fn rows_without_a_time_column_follow_each_other_by_the_step() {
        let data = Data::parse("u,y\n1,2\n3,4\n5,6\n", "a.csv", &TimeAxis::Step(0.25)).unwrap();
        assert_eq!(data.times, [0.0, 0.25, 0.5]);
        assert_eq!(data.column("y").unwrap(), [2.0, 4.0, 6.0]);
    }

    #[test]
    fn quoted_headers_missing_cells_and_numbers_are_read() {
        let data = Data::parse("t,\"p[1,2]\",u\n0,1.5,\n0.1,NaN,2e-3\n", "a.csv", &by_column()).unwrap();
        assert_eq!(data.times, [0.0, 0.1]);
        assert_eq!(data.names, ["p[1,2]", "u"]);
        assert_eq!(data.columns[0][0], 1.5);
        assert!(data.columns[0][1].is_nan() && data.columns[1][0].is_nan());
        assert_eq!(data.columns[1][1], 2e-3);
    }

    #[test]
    fn problems_have_their_line() {
        let line = |text: &str| {
            let diagnostics = Data::parse(text, "a.csv", &by_column()).unwrap_err();
            let place = diagnostics[0].place.clone().unwrap();
            (diagnostics[0].code.clone(), place.line)
        };
        assert_eq!(line("t,u\n0,1\n0.1,abc\n"), ("data-number".into(), 3));
        assert_eq!(line("t,u\n0,1\n0,2\n"), ("data-time".into(), 3));
        assert_eq!(line("t,u\n0,1\n1\n"), ("data-row".into(), 3));
        assert_eq!(line("time,u\n0,1\n"), ("data-column".into(), 1));
        assert_eq!(line("t,u\n"), ("data-empty".into(), 2));
    }
}
