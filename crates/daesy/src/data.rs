//! Measured data from CSV files, with the line of every problem.

use std::path::Path;

use crate::diagnostic::Diagnostic;
use daesy_graph::finding::nearest;
use daesy_graph::source::Place;

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
    pub fn read(path: &Path, shown: &str, time_column: &str) -> Result<Self, Vec<Diagnostic>> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            vec![
                Diagnostic::about_file("data-file", shown, format!("the data file `{shown}` cannot be read: {error}"))
                    .with_help("the path is relative to the study file"),
            ]
        })?;
        Self::parse(&text, shown, time_column)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`Data::read`].
    pub fn parse(text: &str, shown: &str, time_column: &str) -> Result<Self, Vec<Diagnostic>> {
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
        let Some(time_at) = names.iter().position(|name| name == time_column) else {
            let near = nearest(time_column, names.iter().map(String::as_str));
            let help = match near {
                Some(near) => format!("did you mean `{near}`? Say so with `time = \"{near}\"` in `[data]`"),
                None => format!("columns: {}; name one with `time = ..` in `[data]`", names.join(", ")),
            };
            let message = format!("there is no time column `{time_column}`");
            return Err(vec![problem(1, 1, "data-column", message).with_help(help)]);
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
            let times = &columns[time_at];
            if let [.., before, now] = times[..]
                && (now <= before || now.is_nan())
            {
                let message = format!("time does not ascend: {now} comes after {before}");
                diagnostics.push(problem(at + 1, 1, "data-time", message).with_help("sort the rows by time"));
            }
        }
        if !diagnostics.is_empty() {
            return Err(diagnostics);
        }
        if columns[time_at].is_empty() {
            return Err(vec![problem(2, 1, "data-empty", "the data file has no rows".to_owned())]);
        }
        let times = columns.remove(time_at);
        let mut names = names;
        names.remove(time_at);
        Ok(Self { file: shown.to_owned(), times, names, columns })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_headers_missing_cells_and_numbers_are_read() {
        let data = Data::parse("t,\"p[1,2]\",u\n0,1.5,\n0.1,NaN,2e-3\n", "a.csv", "t").unwrap();
        assert_eq!(data.times, [0.0, 0.1]);
        assert_eq!(data.names, ["p[1,2]", "u"]);
        assert_eq!(data.columns[0][0], 1.5);
        assert!(data.columns[0][1].is_nan() && data.columns[1][0].is_nan());
        assert_eq!(data.columns[1][1], 2e-3);
    }

    #[test]
    fn problems_have_their_line() {
        let line = |text: &str| {
            let diagnostics = Data::parse(text, "a.csv", "t").unwrap_err();
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
