//! Samples line by line, as they come: comma-separated values with a header, or one JSON object per line.

use serde_json::Value;

use super::sheet::{TimeState, Times, Word, cell_help, is_comment, is_units, problem, separator, split};
use super::{Conversion, Format, Reading, TimeAxis, columns_help, repeated, time_column_help};
use crate::diagnostic::Diagnostic;
use crate::study::DataSource;
use daesy_graph::finding::Level;

/// A sample as it was read.
#[derive(Clone, PartialEq, Debug)]
pub struct ReadSample {
    /// Its time in seconds.
    pub time: f64,
    /// Values of the wanted columns in the model's units; NaN where one is missing.
    pub values: Vec<f64>,
    /// What is wrong with it: these values count as missing.
    pub problems: Vec<Diagnostic>,
}

/// What a line holds.
#[derive(Clone, PartialEq, Debug)]
pub enum LineRead {
    /// Nothing for the filter: a header, a comment, an empty line.
    Nothing,
    /// A sample.
    Sample(ReadSample),
    /// A line that cannot be used, and why.
    Unusable(Box<Diagnostic>),
}

/// The header of a stream.
struct Header {
    n_cells: usize,
    separator: char,
    time_at: Option<usize>,
    /// By wanted column.
    places: Vec<usize>,
    /// Whether a row of units may follow.
    is_new: bool,
}

enum Layout {
    Unknown,
    Rows(Header),
    Objects,
}

/// Reads samples line by line.
pub struct SampleReader {
    shown: String,
    axis: TimeAxis,
    format: Format,
    conversion: Conversion,
    has_time_unit: bool,
    /// Columns that are used.
    wanted: Vec<String>,
    layout: Layout,
    times: TimeState,
    n_lines: usize,
    n_samples: usize,
}

impl SampleReader {
    /// A reader for some columns; `source` says how times and numbers are written.
    #[must_use]
    pub fn new(shown: &str, wanted: Vec<String>, source: Option<&DataSource>) -> Self {
        Self {
            shown: shown.to_owned(),
            axis: source.map_or_else(|| TimeAxis::Column("t".to_owned()), |source| source.time.clone()),
            format: source.map(|source| source.format.clone()).unwrap_or_default(),
            conversion: source.map(|source| source.conversion.clone()).unwrap_or_default(),
            has_time_unit: source.is_some_and(|source| source.has_time_unit),
            wanted,
            layout: Layout::Unknown,
            times: TimeState::default(),
            n_lines: 0,
            n_samples: 0,
        }
    }

    /// The number of the line that was read last.
    #[must_use]
    pub fn line(&self) -> usize {
        self.n_lines
    }

    fn problem(&self, column: usize, code: &str, message: String) -> Diagnostic {
        problem(&self.shown, self.n_lines, column, code, message)
    }

    fn unusable(&self, code: &str, message: String, help: &str) -> LineRead {
        let message = format!("{message}: the line is left out");
        let diagnostic = self.problem(1, code, message).with_level(Level::Warning);
        LineRead::Unusable(Box::new(diagnostic.with_help(help)))
    }

    /// Reads a line.
    ///
    /// # Errors
    /// When the header lacks a column: nothing that follows can be read then.
    pub fn read(&mut self, line: &str) -> Result<LineRead, Vec<Diagnostic>> {
        self.n_lines += 1;
        let line = line.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
        if self.n_lines <= self.format.skip || line.trim().is_empty() || is_comment(line) {
            return Ok(LineRead::Nothing);
        }
        match &self.layout {
            Layout::Unknown if line.trim_start().starts_with('{') => self.layout = Layout::Objects,
            Layout::Unknown => {
                self.layout = Layout::Rows(self.header(line).map_err(|wrong| vec![*wrong])?);
                return Ok(LineRead::Nothing);
            }
            Layout::Rows(_) | Layout::Objects => {}
        }
        let read = match &mut self.layout {
            Layout::Rows(header) => {
                let may_be_units = std::mem::take(&mut header.is_new);
                if may_be_units && is_units(line, header.separator, &self.format) {
                    return Ok(LineRead::Nothing);
                }
                self.row(line)
            }
            Layout::Objects | Layout::Unknown => self.object(line),
        };
        Ok(read)
    }

    fn header(&self, line: &str) -> Result<Header, Box<Diagnostic>> {
        let separator = separator(line, None, &self.format);
        let names: Vec<String> = split(line, separator).into_iter().map(|cell| cell.text).collect();
        if names.iter().all(|name| matches!(Word::read(name, &self.format), Word::Number(_))) {
            let message = "the stream has no header: its first line has numbers only".to_owned();
            let help = "send the names of the columns first, separated as the numbers are";
            return Err(Box::new(self.problem(1, "data-header", message).with_help(help)));
        }
        if let Some(name) = repeated(&names) {
            let message = format!("several columns have the same header `{name}`");
            let help = "give each column a header of its own";
            return Err(Box::new(self.problem(1, "data-column", message).with_help(help)));
        }
        let time_at = match &self.axis {
            TimeAxis::Step(_) => None,
            TimeAxis::Column(column) => match names.iter().position(|name| name == column) {
                Some(at) => Some(at),
                None => {
                    let message = format!("the stream has no time column `{column}`");
                    let help = time_column_help(column, &names);
                    return Err(Box::new(self.problem(1, "data-column", message).with_help(help)));
                }
            },
        };
        let mut places = Vec::with_capacity(self.wanted.len());
        for column in &self.wanted {
            let Some(at) = names.iter().position(|name| name == column) else {
                let message = format!("the stream has no column `{column}`");
                let mut wrong = self.problem(1, "data-column", message).with_help(columns_help(column, &names));
                wrong.names = vec![column.clone()];
                return Err(Box::new(wrong));
            };
            places.push(at);
        }
        Ok(Header { n_cells: names.len(), separator, time_at, places, is_new: true })
    }

    fn row(&mut self, line: &str) -> LineRead {
        let Layout::Rows(Header { n_cells, separator, time_at, places, .. }) = &self.layout else {
            return LineRead::Nothing;
        };
        let (n_cells, time_at, places) = (*n_cells, *time_at, places.clone());
        let cells = split(line, *separator);
        if cells.len() < n_cells || cells.iter().skip(n_cells).any(|cell| !cell.text.is_empty()) {
            let message = format!("this row has {} cells, the header has {n_cells}", cells.len());
            return self.unusable("data-row", message, "cells must be as many as names in the header");
        }
        let time = match self.time(time_at.map(|at| cells[at].text.as_str())) {
            Ok(time) => time,
            Err((message, help)) => return self.unusable("data-time", message, &help),
        };
        let mut problems = Vec::new();
        let mut values = Vec::with_capacity(places.len());
        for (column, &at) in places.iter().enumerate() {
            let cell = &cells[at];
            let text = match Word::read(&cell.text, &self.format) {
                Word::Number(value) => {
                    values.push(value);
                    continue;
                }
                Word::Missing => None,
                Word::Infinite => Some(("is infinite", "leave the cell empty if there is no value".to_owned())),
                Word::Other => Some(("is not a number", cell_help(&cell.text, &self.format))),
            };
            values.push(f64::NAN);
            if let Some((what, help)) = text {
                problems.push(self.no_number(column, &cell.text, what, cell.start + 1, help));
            }
        }
        self.sample(time, values, problems)
    }

    fn no_number(&self, column: usize, text: &str, what: &str, place: usize, help: String) -> Diagnostic {
        let name = &self.wanted[column];
        let message = format!("`{text}` {what} (column `{name}`): it counts as missing");
        let mut wrong = self.problem(place, "data-number", message).with_level(Level::Warning).with_help(help);
        wrong.names = vec![name.clone()];
        wrong
    }

    /// The time of a row in seconds.
    fn time(&mut self, text: Option<&str>) -> Result<f64, (String, String)> {
        let Some(text) = text else {
            let TimeAxis::Step(step) = self.axis else { return Ok(f64::NAN) };
            return Ok(self.n_samples as f64 * step);
        };
        let reading =
            Reading { axis: &self.axis, format: &self.format, has_time_unit: self.has_time_unit, wanted: None };
        let mut times = Times { reading: &reading, state: self.times };
        let read = times.read(text);
        self.times = times.state;
        match read {
            Ok(time) if time.is_nan() => Err(("the sample has no time".to_owned(), "give it a time".to_owned())),
            Ok(time) => Ok(self.conversion.time(time)),
            Err(wrong) => Err((wrong.message, wrong.help)),
        }
    }

    fn object(&mut self, line: &str) -> LineRead {
        let help = "a line is an object such as {\"t\": 0.1, \"y\": 2.5}";
        let object = match serde_json::from_str::<Value>(line) {
            Ok(Value::Object(object)) => object,
            Ok(_) => return self.unusable("data-row", "the line is no JSON object".to_owned(), help),
            Err(error) => return self.unusable("data-row", format!("the line is no JSON ({error})"), help),
        };
        if let Some(name) = repeated_key(line) {
            let message = format!("the sample has several values for `{name}`");
            return self.unusable("data-column", message, "give each value a key of its own");
        }
        let column = match &self.axis {
            TimeAxis::Column(column) => Some(column.clone()),
            TimeAxis::Step(_) => None,
        };
        let text = match column.as_ref().map(|column| object.get(column)) {
            None => None,
            Some(Some(Value::Number(number))) => Some(number.to_string()),
            Some(Some(Value::String(text))) => Some(text.clone()),
            Some(_) => {
                let message = format!("the sample has no time `{}`", column.unwrap_or_default());
                return self.unusable("data-time", message, help);
            }
        };
        if !self.wanted.iter().any(|name| object.contains_key(name)) {
            let message = format!("the sample has none of {}", self.wanted.join(", "));
            return self.unusable("data-column", message, "its keys must be columns of the study");
        }
        let time = match self.time(text.as_deref()) {
            Ok(time) => time,
            Err((message, help)) => return self.unusable("data-time", message, &help),
        };
        let mut problems = Vec::new();
        let mut values = Vec::with_capacity(self.wanted.len());
        for (column, name) in self.wanted.iter().enumerate() {
            let value = match object.get(name) {
                None | Some(Value::Null) => f64::NAN,
                Some(Value::Number(number)) => {
                    number.as_f64().filter(|value| !self.format.is_missing(*value)).unwrap_or(f64::NAN)
                }
                Some(Value::String(text)) if self.format.missing.contains(text) => f64::NAN,
                Some(other) => {
                    let help = "write numbers without quotes, and null for a missing value".to_owned();
                    problems.push(self.no_number(column, &other.to_string(), "is not a number", 1, help));
                    f64::NAN
                }
            };
            values.push(value);
        }
        self.sample(time, values, problems)
    }

    /// A sample in the model's units.
    fn sample(&mut self, time: f64, mut values: Vec<f64>, problems: Vec<Diagnostic>) -> LineRead {
        self.n_samples += 1;
        let by = |list: &[(String, f64)], name: &String, neutral: f64| {
            list.iter().filter(|(header, _)| header == name).fold(neutral, |_, (_, by)| *by)
        };
        for (value, name) in values.iter_mut().zip(&self.wanted) {
            *value = *value * by(&self.conversion.scale, name, 1.0) + by(&self.conversion.offset, name, 0.0);
        }
        LineRead::Sample(ReadSample { time, values, problems })
    }
}

/// The first key that stands twice in a text that is a JSON object; of objects in it nothing counts.
fn repeated_key(line: &str) -> Option<String> {
    let mut known: Vec<String> = Vec::new();
    let (mut depth, mut is_key) = (0u32, false);
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let mut length = first.len_utf8();
        match first {
            '{' | '[' => {
                depth += 1;
                is_key = depth == 1;
            }
            '}' | ']' => depth = depth.saturating_sub(1),
            ',' => is_key = depth == 1,
            ':' => is_key = false,
            '"' => {
                let mut is_escaped = false;
                let end = rest[1..].find(|c: char| {
                    let ends = c == '"' && !is_escaped;
                    is_escaped = c == '\\' && !is_escaped;
                    ends
                })?;
                length = end + 2;
                if is_key {
                    let key: String = serde_json::from_str(&rest[..length]).ok()?;
                    if known.contains(&key) {
                        return Some(key);
                    }
                    known.push(key);
                }
            }
            _ => {}
        }
        rest = &rest[length..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader() -> SampleReader {
        SampleReader::new("stdin", vec!["u".to_owned(), "y".to_owned()], None)
    }

    fn sample(read: LineRead) -> ReadSample {
        match read {
            LineRead::Sample(sample) => sample,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rows_and_objects_are_samples() {
        let mut rows = reader();
        assert_eq!(rows.read("y,t,other,u").unwrap(), LineRead::Nothing);
        assert_eq!(rows.read("m,s,,V").unwrap(), LineRead::Nothing);
        assert_eq!(sample(rows.read("2,0.5,x,1\r\n").unwrap()).values, [1.0, 2.0]);
        let gap = sample(rows.read(",1.5,x,1").unwrap());
        assert!(gap.time == 1.5 && gap.values[1].is_nan() && gap.problems.is_empty());
        let mut objects = reader();
        let first = sample(objects.read("{\"t\": 0.5, \"y\": 2, \"u\": 1}").unwrap());
        assert_eq!((first.time, first.values), (0.5, vec![1.0, 2.0]));
        assert!(sample(objects.read("{\"t\": 1, \"u\": 1}").unwrap()).values[1].is_nan());
    }

    #[test]
    fn keys_that_stand_twice_are_found_outside_of_strings_and_inner_objects() {
        for (line, key) in [
            (r#"{"t": 0, "y": 1, "y": 5}"#, Some("y")),
            (r#"{"y": "a\\", "t": 0, "t": 1}"#, Some("t")),
            (r#"{"y": 1, "\u0079": 5}"#, Some("y")),
            (r#"{"t": 0, "y": "y", "z": {"y": 1, "t": 2}, "u": ["y", "y"]}"#, None),
            (r#"{"y": ",\"y\":", "t": 0}"#, None),
            ("{", None),
        ] {
            assert_eq!(repeated_key(line).as_deref(), key, "{line}");
        }
        let LineRead::Unusable(told) = reader().read(r#"{"t": 0, "u": 1, "u": 5}"#).unwrap() else {
            panic!("it is read")
        };
        assert_eq!(told.code, "data-column");
    }

    #[test]
    fn what_is_no_sample_is_told_with_its_effect() {
        assert_eq!(reader().read("t,u,z").unwrap_err()[0].code, "data-column");
        assert_eq!(reader().read("0,1,2").unwrap_err()[0].code, "data-header");
        let mut rows = reader();
        rows.read("t,u,y").unwrap();
        let word = sample(rows.read("0,1,abc").unwrap());
        assert!(word.values[1].is_nan() && word.problems[0].message.contains("counts as missing"));
        for (line, code) in [("0,1", "data-row"), (",1,2", "data-time"), ("soon,1,2", "data-time")] {
            match rows.read(line).unwrap() {
                LineRead::Unusable(told) => assert!(told.code == code && told.message.contains("left out"), "{told:?}"),
                other => panic!("{line}: {other:?}"),
            }
        }
        let mut objects = reader();
        for line in ["{\"t\": 1, \"q\": 2}", "{\"y\": 2}", "{\"t\": 1,", "{} {}"] {
            assert!(matches!(objects.read(line).unwrap(), LineRead::Unusable(_)), "{line}");
        }
    }
}
