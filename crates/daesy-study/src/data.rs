//! Measured data from files, with the line of every problem.

mod encoding;
mod parquet;
mod said_unit;
mod sheet;
mod stamp;
mod stream;
mod workbook;

use std::path::Path;

use crate::decimal::{Grid, shifted};
use crate::diagnostic::Diagnostic;
use crate::table::Table;
use daesy_graph::finding::nearest;
use daesy_model::file::{MAX_DATA_BYTES, read_bytes};

pub use encoding::Encoding;
pub use said_unit::{Change, SaidUnit};
pub use sheet::{Head, HeadColumn};
pub use stamp::{Stamp, guess as guess_time_formats};
pub use stream::{LineRead, ReadSample, SampleReader};

/// Where the times of the rows come from.
#[derive(Clone, PartialEq, Debug)]
pub enum TimeAxis {
    /// A column with this header.
    Column(String),
    /// There is no such column: the rows follow each other by this step, the first at time 0.
    Step(f64),
}

/// How a file is written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Format {
    /// The decimal mark; a point when left out.
    pub decimal: Option<char>,
    /// What stands between cells; found from the header when left out. A space stands for any number of them.
    pub separator: Option<char>,
    /// How characters are written; told by a byte order mark, else UTF-8, when left out.
    pub encoding: Option<Encoding>,
    /// Lines before the header.
    pub skip: usize,
    /// Words for missing values, besides an empty cell and `NaN`.
    pub missing: Vec<String>,
    /// How times that are neither numbers nor dates of ISO 8601 are written, in the letters of `strptime`.
    pub time_format: Option<String>,
    /// Which of the rows with the same time is kept; they are refused when left out.
    pub repeated: Option<Repeated>,
    /// Whether dates are those of a clock that is set to summer time and back.
    pub has_summer_time: bool,
    /// The sheet of a workbook; the first when left out.
    pub sheet: Option<String>,
    /// The time that counts as 0; the first stamp, or 0 where times are numbers, when left out.
    pub origin: Option<Origin>,
}

impl Format {
    /// Whether a number stands for a missing value, however it is written.
    pub(crate) fn is_missing(&self, value: f64) -> bool {
        let word = |word: &String| match self.decimal {
            Some(',') => word.replace(',', ".").parse(),
            _ => word.parse::<f64>(),
        };
        self.missing.iter().filter_map(|missing| word(missing).ok()).any(|missing| missing == value)
    }
}

/// Which of the rows with the same time is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repeated {
    /// The first: what was before a jump.
    First,
    /// The last: what is after it.
    Last,
}

/// The time of a file that counts as 0.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Origin {
    /// A date, for stamps.
    Stamp(Stamp),
    /// A number, in the unit of the times.
    Number(f64),
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

impl Conversion {
    /// A time in seconds.
    fn time(&self, time: f64) -> f64 {
        if self.seconds == 1e-3 { shifted(time, -3) } else { time * self.seconds }
    }
}

/// What is asked of a file.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Where times come from.
    pub axis: &'a TimeAxis,
    /// How the file is written.
    pub format: &'a Format,
    /// Whether a study says in which unit times are.
    pub has_time_unit: bool,
    /// Headers of the columns that are used; all when left out. What stands in others need not be a number.
    pub wanted: Option<&'a [String]>,
}

impl<'a> Reading<'a> {
    /// All columns of a file that is written as usual.
    #[must_use]
    pub fn plain(axis: &'a TimeAxis) -> Self {
        const USUAL: &Format = &Format {
            decimal: None,
            separator: None,
            encoding: None,
            skip: 0,
            missing: Vec::new(),
            time_format: None,
            repeated: None,
            has_summer_time: false,
            sheet: None,
            origin: None,
        };
        Self { axis, format: USUAL, has_time_unit: false, wanted: None }
    }

    fn wants(&self, header: &str) -> bool {
        self.wanted.is_none_or(|wanted| wanted.iter().any(|name| name == header))
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
    /// By name of a column, the unit that the file says its numbers are in.
    pub units: Vec<(String, SaidUnit)>,
    /// By row, its line in the file; empty where there are no lines.
    pub lines: Vec<u32>,
}

impl Data {
    /// Reads a file with a header row, a workbook, or a Parquet file.
    ///
    /// # Errors
    /// When it cannot be read, a cell is no number, a row is too short, or time does not ascend.
    pub fn read(path: &Path, shown: &str, reading: &Reading<'_>) -> Result<Self, Vec<Diagnostic>> {
        let ends_in = |endings: &[&str]| {
            path.extension().is_some_and(|found| endings.iter().any(|ending| found.eq_ignore_ascii_case(ending)))
        };
        if ends_in(&["xls", "xlsb", "ods"]) {
            let message = format!("`{shown}` is a workbook of a kind that is not read");
            let help = "save it as .xlsx or its sheet as CSV (UTF-8) there, and name that file";
            return Err(vec![Diagnostic::about_file("data-file", shown, message).with_help(help)]);
        }
        let bytes = read_bytes(path, MAX_DATA_BYTES).map_err(|error| {
            vec![
                Diagnostic::about_file("data-file", shown, format!("the data file `{shown}` cannot be read: {error}"))
                    .with_help("the path is relative to the study file"),
            ]
        })?;
        if ends_in(&["parquet", "pq"]) {
            return parquet::read(&bytes, shown, reading);
        }
        if ends_in(&["xlsx", "xlsm"]) {
            let text =
                workbook::text(&bytes, reading.format.sheet.as_deref(), reading.format.decimal).map_err(|wrong| {
                    let message = format!("the data file `{shown}` cannot be read: {}", wrong.message);
                    vec![Diagnostic::about_file("data-file", shown, message).with_help(wrong.help)]
                })?;
            // Numbers of a workbook have no decimal mark of their own.
            let format = Format { decimal: None, separator: Some('\t'), ..reading.format.clone() };
            return sheet::parse(&text, shown, &Reading { format: &format, ..*reading });
        }
        let text = encoding::decode(bytes, reading.format.encoding).map_err(|wrong| {
            let message = format!("the data file `{shown}` cannot be read: {}", wrong.message);
            vec![sheet::problem(shown, wrong.line, 1, "data-file", message).with_help(wrong.help)]
        })?;
        sheet::parse(&text, shown, reading)
    }

    /// The head of a text file or workbook, the lines that a logger wrote before it left out; nothing if there is none.
    #[must_use]
    pub fn head(path: &Path, format: &Format) -> Option<Head> {
        let ends_in = |endings: &[&str]| {
            path.extension().is_some_and(|found| endings.iter().any(|ending| found.eq_ignore_ascii_case(ending)))
        };
        let bytes = read_bytes(path, MAX_DATA_BYTES).ok().filter(|_| !ends_in(&["parquet", "pq"]))?;
        if ends_in(&["xlsx", "xlsm"]) {
            let text = workbook::text(&bytes, format.sheet.as_deref(), format.decimal).ok()?;
            return Head::of(&text, &Format { decimal: None, separator: Some('\t'), ..format.clone() });
        }
        Head::of(&encoding::decode(bytes, format.encoding).ok()?, format)
    }

    /// Reads the text of a file.
    ///
    /// # Errors
    /// As [`Data::read`].
    pub fn parse(text: &str, shown: &str, reading: &Reading<'_>) -> Result<Self, Vec<Diagnostic>> {
        sheet::parse(text, shown, reading)
    }

    /// Brings times to seconds and columns to the model's units.
    ///
    /// # Errors
    /// When a column that is to be converted is not there.
    pub fn convert(&mut self, conversion: &Conversion) -> Result<(), Vec<Diagnostic>> {
        self.times.iter_mut().for_each(|time| *time = conversion.time(*time));
        type Change = fn(&mut f64, f64);
        let changes: [(&[(String, f64)], Change); 2] =
            [(&conversion.scale, |value, by| *value *= by), (&conversion.offset, |value, by| *value += by)];
        for (list, change) in changes {
            for (header, by) in list {
                let Some(at) = self.names.iter().position(|name| name == header) else {
                    let message = format!("there is no column `{header}` to be converted");
                    let help = columns_help(header, &self.names);
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
    /// When the column is not there or a cell of it is no finite number.
    pub fn parse_column(text: &str, shown: &str, column: &str) -> Result<Vec<f64>, Vec<Diagnostic>> {
        let wanted = [column.to_owned()];
        let axis = TimeAxis::Step(1.0);
        let data = sheet::parse(text, shown, &Reading { wanted: Some(&wanted), ..Reading::plain(&axis) })?;
        let Some(values) = data.column(column) else {
            let help = columns_help(column, &data.names);
            let message = format!("there is no column `{column}`");
            return Err(vec![Diagnostic::about_file("data-column", shown, message).with_help(help)]);
        };
        Ok(values.iter().copied().filter(|value| !value.is_nan()).collect())
    }

    /// A column by its header.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&[f64]> {
        let at = self.names.iter().position(|known| known == name)?;
        Some(&self.columns[at])
    }

    /// The columns of a table as an experiment.
    ///
    /// # Errors
    /// When the time column is missing, empty or does not ascend, columns differ in length, two have the same name, or
    /// a value is infinite.
    pub fn from_table(table: &Table, shown: &str, axis: &TimeAxis) -> Result<Self, Vec<Diagnostic>> {
        let problem = |code: &str, message: String| Diagnostic::about_file(code, shown, message);
        if let Some(name) = repeated(&table.names) {
            let message = format!("two columns are called `{name}`");
            return Err(vec![problem("data-column", message).with_help("give each column a name of its own")]);
        }
        let n_rows = table.columns.first().map_or(0, Vec::len);
        if n_rows == 0 {
            let help = "give columns with at least one value each";
            return Err(vec![problem("data-empty", "the data has no rows".to_owned()).with_help(help)]);
        }
        let (times, time_at) = match axis {
            TimeAxis::Step(step) => (by_step(n_rows, *step), None),
            TimeAxis::Column(column) => {
                let Some(at) = table.names.iter().position(|name| name == column) else {
                    let message = format!("the data has no time column `{column}`");
                    let help = time_column_help(column, &table.names);
                    return Err(vec![problem("data-column", message).with_help(help)]);
                };
                (table.columns[at].clone(), Some(at))
            }
        };
        for (name, column) in table.names.iter().zip(&table.columns) {
            if column.len() != times.len() {
                let message = format!("column `{name}` has {} rows, the times are {}", column.len(), times.len());
                return Err(vec![problem("data-row", message).with_help("give every column one value for each time")]);
            }
            if let Some(row) = column.iter().position(|value| value.is_infinite()) {
                return Err(vec![
                    problem("data-number", infinite(name, &format!("row {}", row + 1))).with_help(INFINITE_HELP),
                ]);
            }
        }
        let row = |at: usize| format!("row {}", at + 1);
        if let Some(at) = times.windows(2).position(|pair| pair[1] <= pair[0] || pair[1].is_nan()) {
            let timed =
                |at: usize| TimedRow { place: row(at), time: times[at], said: times[at].to_string(), is_local: false };
            return Err(vec![wrong_time(&timed(at), &timed(at + 1), |code, message| problem(code, message))]);
        }
        let others = table.names.iter().zip(&table.columns).enumerate().filter(|(at, _)| Some(*at) != time_at);
        let (names, columns) = others.map(|(_, (name, column))| (name.clone(), column.clone())).unzip();
        Ok(Self { file: shown.to_owned(), times, names, columns, units: Vec::new(), lines: Vec::new() })
    }

    /// A finding at a row.
    pub(crate) fn problem_at(&self, row: usize, code: &str, message: String) -> Diagnostic {
        match self.lines.get(row) {
            Some(&line) => sheet::problem(&self.file, line as usize, 1, code, message),
            None => Diagnostic::about_file(code, &self.file, message),
        }
    }

    /// A row as a person finds it.
    pub(crate) fn row_text(&self, row: usize) -> String {
        self.lines.get(row).map_or_else(|| format!("row {}", row + 1), |line| format!("line {line}"))
    }

    /// The longest break of a record whose rows otherwise follow each other much faster: the row before it, and how
    /// often the usual distance of rows fits into it.
    ///
    /// Usual is what nine of ten distances stay below, so that a record of uneven samples has none.
    pub(crate) fn longest_break(&self) -> Option<(usize, f64)> {
        const FEWEST_ROWS: usize = 20;
        const LONG: f64 = 5.0;
        let distances: Vec<f64> = self.times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        if distances.len() < FEWEST_ROWS {
            return None;
        }
        let mut sorted = distances.clone();
        sorted.sort_by(f64::total_cmp);
        let usual = sorted[distances.len() * 9 / 10];
        let (row, longest) = distances.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
        (longest > LONG * usual).then_some((row, longest / usual))
    }
}

/// Times of rows that follow each other evenly.
fn by_step(n_rows: usize, step: f64) -> Vec<f64> {
    let grid = Grid::by_step(0.0, step);
    (0..n_rows).map(|row| grid.time(row)).collect()
}

/// The first name that stands twice; columns without a name do not count.
fn repeated(names: &[String]) -> Option<&String> {
    names.iter().enumerate().find(|(at, name)| !name.is_empty() && names[..*at].contains(name)).map(|(_, name)| name)
}

const INFINITE_HELP: &str =
    "leave the cell empty if there is no value, or list the word in `missing = [..]` of `[data]`";

fn infinite(column: &str, place: &str) -> String {
    format!("the value of column `{column}` in {place} is infinite")
}

/// A row by its place and time.
struct TimedRow {
    place: String,
    time: f64,
    /// The time as it is written.
    said: String,
    /// Whether it is a date of a clock that may be set to summer time and back.
    is_local: bool,
}

/// What is wrong with a row whose time does not come after that of the row before it.
fn wrong_time(before: &TimedRow, now: &TimedRow, problem: impl FnOnce(&str, String) -> Diagnostic) -> Diagnostic {
    if now.time.is_nan() || before.time.is_nan() {
        let place = if now.time.is_nan() { &now.place } else { &before.place };
        let help = "give the row a time or remove it; if rows follow each other evenly, say `step = ..` in `[data]` \
                    instead of `time`";
        return problem("data-time", format!("{place} has no time")).with_help(help);
    }
    if now.time == before.time {
        let message = format!("{} and {} have the same time {}", before.place, now.place, now.said);
        let help = "keep one of the two rows: `repeated = \"last\"` in `[data]` takes the later one, as for a table of \
                    daesy, which has a row before and a row after each jump; if the clock is too coarse and rows follow \
                    each other evenly, say `step = ..` instead of `time`";
        return problem("data-time", message).with_help(help);
    }
    let message = format!("time does not ascend: {} has {}, {} has {}", before.place, before.said, now.place, now.said);
    if now.is_local && before.time - now.time < stamp::SUMMER_TIME {
        let help = "if an hour comes twice because the clock was set back from summer time, say `summer_time = true` in \
                    `[data]`; else sort the rows by time";
        return problem("data-time", message).with_help(help);
    }
    let help =
        "sort the rows by time; if a new experiment begins there, split the file and list the parts in `files = [..]`";
    problem("data-time", message).with_help(help)
}

/// The nearest header, or all.
pub(crate) fn columns_help(column: &str, names: &[String]) -> String {
    match nearest(column, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? Columns: {}", names.join(", ")),
        None => format!("columns: {}", names.join(", ")),
    }
}

/// What to do when there is no column of the given name for the time: take one that looks like it, or name one.
pub(crate) fn time_column_help(column: &str, names: &[String]) -> String {
    let looks_like_time = |name: &&String| {
        let lower = name.to_lowercase();
        let first = lower.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
        let is_word = matches!(first, "t" | "time" | "seconds" | "sec" | "date" | "timestamp" | "zeit");
        lower == column.to_lowercase() || is_word || lower.ends_with("time")
    };
    match names.iter().find(looks_like_time) {
        Some(near) => format!("did you mean `{near}`? Say so with `time = \"{near}\"` in `[data]`"),
        None => format!(
            "columns: {}; name one with `time = ..` in `[data]`, or say `step = ..` if the rows follow each other evenly",
            names.join(", ")
        ),
    }
}

/// Whether two paths lead to one file that is there.
#[must_use]
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    let full = |path: &Path| std::fs::canonicalize(path).ok();
    full(one).is_some_and(|path| Some(path) == full(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[(&str, &[f64])]) -> Table {
        Table {
            names: columns.iter().map(|(name, _)| (*name).to_owned()).collect(),
            columns: columns.iter().map(|(_, values)| values.to_vec()).collect(),
        }
    }

    #[test]
    fn columns_in_memory_are_an_experiment() {
        let columns = table(&[("u", &[1.0, f64::NAN]), ("t", &[0.0, 0.5])]);
        let data = Data::from_table(&columns, "data", &TimeAxis::Column("t".into())).unwrap();
        assert_eq!(data.times, [0.0, 0.5]);
        assert_eq!(data.names, ["u"]);
        assert!(data.columns[0][1].is_nan());
    }

    #[test]
    fn wrong_columns_are_named() {
        let code = |columns: &[(&str, &[f64])]| {
            Data::from_table(&table(columns), "data", &TimeAxis::Column("t".into())).unwrap_err()[0].code.clone()
        };
        assert_eq!(code(&[("time", &[0.0])]), "data-column");
        assert_eq!(code(&[("t", &[0.0]), ("u", &[0.0]), ("u", &[0.0])]), "data-column");
        assert_eq!(code(&[("t", &[])]), "data-empty");
        assert_eq!(code(&[("t", &[0.0, 1.0]), ("u", &[1.0])]), "data-row");
        assert_eq!(code(&[("t", &[0.0, 1.0]), ("u", &[1.0, f64::INFINITY])]), "data-number");
        assert_eq!(code(&[("t", &[0.0, 0.0])]), "data-time");
    }

    #[test]
    fn units_of_time_keep_decimals_short() {
        let mut data =
            Data::from_table(&table(&[("t", &[39.8, 79.6])]), "data", &TimeAxis::Column("t".into())).unwrap();
        data.convert(&Conversion { seconds: 1e-3, ..Conversion::default() }).unwrap();
        assert_eq!(data.times, [0.0398, 0.0796]);
    }
}
