//! Text files with a header row: comma-separated values and their relatives.

use daesy_graph::source::Place;

use super::stamp::{ChangingClock, Stamp, StampKind, guess};
use super::{
    Data, Format, Origin, Reading, Repeated, SaidUnit, TimeAxis, TimedRow, by_step, infinite, repeated,
    time_column_help, wrong_time,
};
use crate::diagnostic::Diagnostic;

/// What lines begin with that only people read.
const COMMENTS: [&str; 3] = ["#", "%", "//"];

/// Separators that are looked for where none is named, the safest sign first.
const SEPARATORS: [char; 4] = ['\t', ';', ',', '|'];

/// Words that usually stand for a missing value.
const USUAL_MISSING: [&str; 13] =
    ["n/a", "na", "#n/a", "null", "none", "-", "--", "---", "?", "missing", "bad", "error", "#value!"];

/// A finding at a place of a data file.
pub(super) fn problem(shown: &str, line: usize, column: usize, code: &str, message: String) -> Diagnostic {
    let mut diagnostic = Diagnostic::about_file(code, shown, message);
    diagnostic.place = Some(Place { file: shown.to_owned(), line: line as u32, column: column as u32 });
    diagnostic
}

/// A line with its number in the file, counted from 1.
#[derive(Clone, Copy)]
struct Line<'a> {
    number: usize,
    text: &'a str,
}

/// Reads the text of a file.
pub(super) fn parse(text: &str, shown: &str, reading: &Reading<'_>) -> Result<Data, Vec<Diagnostic>> {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = text.lines().enumerate().map(|(at, text)| Line { number: at + 1, text });
    let layout =
        Layout::find(&mut lines, shown, reading).map_err(|problem| vec![later_header(*problem, text, reading)])?;
    let mut rows = Rows::new(&layout, shown, reading);
    for line in layout.first_rows.iter().copied().chain(lines) {
        if !line.text.trim().is_empty() && !is_comment(line.text) {
            rows.add(line);
        }
    }
    rows.finish()
}

/// A problem with the header, with the remedy of leaving out lines where a later line looks like the real one.
fn later_header(problem: Diagnostic, text: &str, reading: &Reading<'_>) -> Diagnostic {
    const SEARCHED: usize = 200;
    let (TimeAxis::Column(column), Some(place)) = (reading.axis, &problem.place) else { return problem };
    let is_header = |line: &str| {
        let mut signs = SEPARATORS.into_iter().chain(reading.format.separator);
        signs.any(|sign| {
            let cells = split(line, sign);
            cells.len() > 1 && cells.iter().any(|cell| cell.text == *column)
        })
    };
    let first = place.line as usize;
    let found = text.lines().enumerate().take(SEARCHED).skip(first).find(|(_, line)| is_header(line));
    match found {
        Some((n_before, _)) => {
            let help = format!(
                "line {} looks like the header: say `skip = {n_before}` in `[data]` to leave out the lines before it",
                n_before + 1
            );
            Diagnostic { help: Some(help), ..problem }
        }
        None => problem,
    }
}

pub(super) fn is_comment(text: &str) -> bool {
    let text = text.trim_start();
    COMMENTS.iter().any(|mark| text.starts_with(mark))
}

/// Lines before the header: the header is the first line with as many cells as most lines have.
fn preamble(text: &str) -> usize {
    const SEARCHED: usize = 1000;
    let text = text.trim_start_matches('\u{feff}');
    let lines: Vec<&str> = text.lines().take(SEARCHED).collect();
    let is_used = |line: &&&str| !line.trim().is_empty() && !is_comment(line);
    let mut best = (0, 0);
    for separator in SEPARATORS {
        let counts: Vec<usize> = lines.iter().filter(is_used).map(|line| split(line, separator).len()).collect();
        for &n_cells in counts.iter().filter(|&&count| count > 1) {
            let n_lines = counts.iter().filter(|&&count| count == n_cells).count();
            if n_lines > best.0 {
                let is_it = |line: &&str| is_used(&line) && split(line, separator).len() == n_cells;
                best = (n_lines, lines.iter().position(is_it).unwrap_or(0));
            }
        }
    }
    let (n_lines, first) = best;
    let has_text_before = lines[..first].iter().any(|line| is_used(&line));
    if n_lines > 1 && has_text_before { first } else { 0 }
}

/// The head of a file: what comes before its rows.
#[derive(Clone, PartialEq, Debug)]
pub struct Head {
    /// Lines before the header.
    pub n_before: usize,
    /// The columns, in their order.
    pub columns: Vec<HeadColumn>,
    /// Words in its rows that usually stand for a missing value, as they are written.
    pub missing: Vec<String>,
}

/// A column as the head of a file shows it.
#[derive(Clone, PartialEq, Debug)]
pub struct HeadColumn {
    /// Its header.
    pub header: String,
    /// The unit that the file says its numbers are in.
    pub unit: Option<SaidUnit>,
    /// What stands in its first row.
    pub first: String,
}

impl Head {
    /// The head of a text; `None` where there is no header or no row.
    #[must_use]
    pub fn of(text: &str, format: &Format) -> Option<Self> {
        let text = text.trim_start_matches('\u{feff}');
        let n_before = preamble(text);
        let format = Format { skip: format.skip.max(n_before), ..format.clone() };
        let axis = TimeAxis::Step(1.0);
        let mut lines = text.lines().enumerate().map(|(at, text)| Line { number: at + 1, text });
        let layout = Layout::find(&mut lines, "", &Reading { format: &format, ..Reading::plain(&axis) }).ok()?;
        let is_row = |line: &Line<'_>| !line.text.trim().is_empty() && !is_comment(line.text);
        let mut rows = layout.first_rows.iter().copied().chain(lines).filter(is_row);
        let row = rows.next()?;
        let mut missing: Vec<String> = Vec::new();
        for row in std::iter::once(row).chain(rows) {
            for cell in split(row.text, layout.separator) {
                if USUAL_MISSING.contains(&cell.text.to_lowercase().as_str()) && !missing.contains(&cell.text) {
                    missing.push(cell.text);
                }
            }
        }
        let mut cells = split(row.text, layout.separator).into_iter();
        let columns = layout.names.iter().enumerate().map(|(at, header)| HeadColumn {
            header: header.clone(),
            unit: layout.unit(at),
            first: cells.next().map(|cell| cell.text).unwrap_or_default(),
        });
        Some(Self { n_before: format.skip, columns: columns.collect(), missing })
    }
}

/// What the head of a file says about the rest.
struct Layout<'a> {
    names: Vec<String>,
    /// By column, what a row of units says; empty where there is none.
    units: Vec<Option<SaidUnit>>,
    time_at: Option<usize>,
    separator: char,
    /// Rows of data that were read on the way.
    first_rows: Vec<Line<'a>>,
}

impl<'a> Layout<'a> {
    /// Finds the header, which is the first line that is neither skipped, empty nor a comment; or the comment before
    /// rows that have none. A row of units after it is passed over.
    fn find(
        lines: &mut impl Iterator<Item = Line<'a>>,
        shown: &str,
        reading: &Reading<'_>,
    ) -> Result<Self, Box<Diagnostic>> {
        let format = reading.format;
        let mut comment = None;
        let mut head = Vec::new();
        for line in lines.filter(|line| line.number > format.skip && !line.text.trim().is_empty()) {
            match (is_comment(line.text), head.is_empty()) {
                (true, true) => comment = Some(line),
                (true, false) => {}
                (false, _) => head.push(line),
            }
            if head.len() == 2 {
                break;
            }
        }
        let Some(&header) = head.first() else {
            let help = "it needs a line with the names of the columns and below it one line for each sample";
            let empty = problem(shown, 1, 1, "data-empty", "the data file is empty".to_owned());
            return Err(Box::new(empty.with_help(help)));
        };
        let separator = separator(header.text, head.get(1).map(|line| line.text), format);
        let cells = split(header.text, separator);
        if cells.iter().all(|cell| matches!(Word::read(&cell.text, format), Word::Number(_))) {
            let named = comment.map(|line| (line.number, uncommented(line.text)));
            let Some((number, text)) = named.filter(|(_, text)| split(text, separator).len() == cells.len()) else {
                let message = "the file has no header: its first line has numbers only".to_owned();
                let help = "write the names of the columns into the first line, separated as the numbers are";
                return Err(Box::new(problem(shown, header.number, 1, "data-header", message).with_help(help)));
            };
            return Self::new(Line { number, text }, separator, head, shown, reading);
        }
        head.remove(0);
        let mut said = Vec::new();
        if let Some(&units) = head.first()
            && is_units(units.text, separator, format)
        {
            check_unit_of_time(header, units, separator, shown, reading)?;
            said = split(units.text, separator).iter().map(|cell| SaidUnit::of_cell(&cell.text)).collect();
            head.clear();
        }
        Ok(Self { units: said, ..Self::new(header, separator, head, shown, reading)? })
    }

    fn new(
        header: Line<'a>,
        separator: char,
        first_rows: Vec<Line<'a>>,
        shown: &str,
        reading: &Reading<'_>,
    ) -> Result<Self, Box<Diagnostic>> {
        let names: Vec<String> = split(header.text, separator).into_iter().map(|cell| cell.text).collect();
        if let Some(name) = repeated(&names) {
            let same = names.iter().enumerate().filter(|(_, other)| *other == name);
            let places: Vec<String> = same.map(|(at, _)| (at + 1).to_string()).collect();
            let message = format!("the columns {} have the same header `{name}`", places.join(" and "));
            let help = "give each column a header of its own";
            return Err(Box::new(problem(shown, header.number, 1, "data-column", message).with_help(help)));
        }
        let time_at = match reading.axis {
            TimeAxis::Step(_) => None,
            TimeAxis::Column(column) => {
                let Some(at) = names.iter().position(|name| name == column) else {
                    let message = format!("there is no time column `{column}`");
                    let help = if names.len() == 1 && names[0].contains(' ') {
                        "if spaces stand between the columns, say `separator = \" \"` in `[data]`".to_owned()
                    } else {
                        time_column_help(column, &names)
                    };
                    return Err(Box::new(problem(shown, header.number, 1, "data-column", message).with_help(help)));
                };
                check_unit_in_header(header, column, shown, reading)?;
                Some(at)
            }
        };
        Ok(Self { names, units: Vec::new(), time_at, separator, first_rows })
    }
}

impl Layout<'_> {
    /// The unit of a column, as the row of units or its header says.
    fn unit(&self, at: usize) -> Option<SaidUnit> {
        self.units.get(at).cloned().flatten().or_else(|| SaidUnit::of_header(&self.names[at]))
    }
}

/// A comment without its mark.
fn uncommented(text: &str) -> &str {
    let text = text.trim_start();
    COMMENTS.iter().find_map(|mark| text.strip_prefix(mark)).unwrap_or(text).trim()
}

/// What stands between cells: as the study says, or the sign of which the header and the first row have equally many.
pub(super) fn separator(header: &str, row: Option<&str>, format: &Format) -> char {
    if let Some(separator) = format.separator {
        return separator;
    }
    let count = |text: &str, candidate: char| split(text, candidate).len() - 1;
    let candidates = SEPARATORS.into_iter().filter(|&candidate| count(header, candidate) > 0);
    let candidates: Vec<char> = candidates.collect();
    let agrees = |candidate: &char| row.is_some_and(|row| count(row, *candidate) == count(header, *candidate));
    candidates.iter().copied().find(agrees).or_else(|| candidates.first().copied()).unwrap_or(',')
}

/// Whether a row after the header names units: it has words, and no number anywhere.
pub(super) fn is_units(text: &str, separator: char, format: &Format) -> bool {
    let is_word = |cell: &Cell| {
        let is_stamp = Stamp::parse(&cell.text).is_some();
        let has_digits_only =
            !cell.text.chars().any(char::is_alphabetic) && cell.text.contains(|c: char| c.is_ascii_digit());
        matches!(Word::read(&cell.text, format), Word::Other) && !is_stamp && !has_digits_only
    };
    let is_usual = |cell: &Cell| USUAL_MISSING.contains(&cell.text.to_lowercase().as_str()) && cell.text.len() > 1;
    let cells = split(text, separator);
    cells.iter().all(|cell| cell.text.is_empty() || is_word(cell))
        && cells.iter().any(|cell| is_word(cell) && !is_usual(cell))
}

/// Refuses times in another unit than seconds, as the row of units says, unless the study names a unit.
fn check_unit_of_time(
    header: Line<'_>,
    units: Line<'_>,
    separator: char,
    shown: &str,
    reading: &Reading<'_>,
) -> Result<(), Box<Diagnostic>> {
    let TimeAxis::Column(column) = reading.axis else { return Ok(()) };
    let at = split(header.text, separator).iter().position(|cell| cell.text == *column);
    let cells = split(units.text, separator);
    let Some(cell) = at.and_then(|at| cells.get(at)).filter(|_| !reading.has_time_unit) else { return Ok(()) };
    let word = cell.text.trim_matches(['[', ']', '(', ')']);
    if !UNITS_OF_TIME.contains(&word) {
        return Ok(());
    }
    let message = format!("the row of units says that the times of column `{column}` are in `{word}`");
    let help = format!("say `time_unit = \"{word}\"` in `[data]`, or `time_unit = \"s\"` if they are seconds");
    Err(Box::new(problem(shown, units.number, cell.start + 1, "data-time", message).with_help(help)))
}

/// Units of time other than seconds, as `time_unit` calls them.
const UNITS_OF_TIME: [&str; 4] = ["ms", "min", "h", "d"];

/// Refuses times in another unit than seconds, as the header itself says (`t [min]`), unless the study names a unit.
fn check_unit_in_header(
    header: Line<'_>,
    column: &str,
    shown: &str,
    reading: &Reading<'_>,
) -> Result<(), Box<Diagnostic>> {
    let inside = column.trim_end().strip_suffix([']', ')']).and_then(|rest| rest.rsplit_once(['[', '(']));
    let word = inside.map(|(_, word)| word.trim()).or_else(|| column.rsplit_once(['_', '/']).map(|(_, word)| word));
    let Some(word) = word.filter(|word| UNITS_OF_TIME.contains(word) && !reading.has_time_unit) else { return Ok(()) };
    let message = format!("the header `{column}` says that times are in `{word}`");
    let help = format!("say `time_unit = \"{word}\"` in `[data]`, or `time_unit = \"s\"` if they are seconds");
    Err(Box::new(problem(shown, header.number, 1, "data-time", message).with_help(help)))
}

/// What a cell holds.
pub(super) enum Word {
    Number(f64),
    Infinite,
    Missing,
    Other,
}

impl Word {
    pub(super) fn read(text: &str, format: &Format) -> Self {
        if text.is_empty() || format.missing.iter().any(|missing| missing == text) {
            return Self::Missing;
        }
        let parsed = match format.decimal {
            Some(',') if text.contains('.') => return Self::Other,
            Some(',') => text.replace(',', ".").parse::<f64>(),
            _ => text.parse::<f64>(),
        };
        match parsed {
            Ok(value) if value.is_nan() || format.is_missing(value) => Self::Missing,
            Ok(value) if value.is_infinite() => Self::Infinite,
            Ok(value) => Self::Number(value),
            Err(_) => Self::Other,
        }
    }
}

/// The first of several problems of one kind, and how many there are.
#[derive(Default)]
struct Problems {
    first: Option<Diagnostic>,
    count: usize,
}

impl Problems {
    fn add(&mut self, make: impl FnOnce() -> Diagnostic) {
        self.count += 1;
        self.first.get_or_insert_with(make);
    }

    fn told(self, others: &str) -> Option<Diagnostic> {
        let mut first = self.first?;
        if self.count > 1 {
            first.message.push_str(&format!(" ({} more {others})", self.count - 1));
        }
        Some(first)
    }
}

/// The rows as they are read.
struct Rows<'a> {
    layout: &'a Layout<'a>,
    shown: &'a str,
    reading: &'a Reading<'a>,
    columns: Vec<Vec<f64>>,
    lines: Vec<u32>,
    wrong_cells: Vec<Problems>,
    /// Words in wanted columns that are no numbers, as many as a help can name.
    words: Vec<String>,
    /// By column: whether a word is the first that is wrong with it.
    begins_with_word: Vec<bool>,
    wrong_rows: Problems,
    wrong_times: Problems,
    times: Times<'a>,
    before: Option<TimedRow>,
    n_rows: usize,
}

impl<'a> Rows<'a> {
    fn new(layout: &'a Layout<'a>, shown: &'a str, reading: &'a Reading<'a>) -> Self {
        let n_columns = layout.names.len();
        Self {
            layout,
            shown,
            reading,
            columns: vec![Vec::new(); n_columns],
            lines: Vec::new(),
            wrong_cells: std::iter::repeat_with(Problems::default).take(n_columns).collect(),
            words: Vec::new(),
            begins_with_word: vec![false; n_columns],
            wrong_rows: Problems::default(),
            wrong_times: Problems::default(),
            times: Times { reading, state: TimeState::default() },
            before: None,
            n_rows: 0,
        }
    }

    fn add(&mut self, line: Line<'_>) {
        let names = &self.layout.names;
        let cells = split(line.text, self.layout.separator);
        let is_longer = cells.iter().skip(names.len()).any(|cell| !cell.text.is_empty());
        if cells.len() < names.len() || is_longer {
            let (shown, format) = (self.shown, self.reading.format);
            self.wrong_rows.add(|| {
                let message = format!("this row has {} cells, the header has {}", cells.len(), names.len());
                let wrong = problem(shown, line.number, 1, "data-row", message);
                wrong.with_help(row_help(cells.len(), names.len(), self.layout.separator, format))
            });
            return;
        }
        for (column, cell) in cells.iter().enumerate().take(names.len()) {
            let value = if Some(column) == self.layout.time_at {
                self.time(line, cell)
            } else {
                self.value(line, column, cell)
            };
            self.columns[column].push(value);
        }
        self.n_rows += 1;
        self.lines.push(line.number as u32);
        if let Some(time_at) = self.layout.time_at {
            let time = self.columns[time_at].last().copied().unwrap_or(f64::NAN);
            let is_local = self.times.is_local() && !self.reading.format.has_summer_time;
            let said = cells[time_at].text.clone();
            let now = TimedRow { place: format!("line {}", line.number), time, said, is_local };
            let first = TimedRow { place: String::new(), time: f64::NEG_INFINITY, said: String::new(), is_local };
            let before = self.before.take().unwrap_or(first);
            if let Some(kept) = self.reading.format.repeated
                && time == before.time
            {
                let left_out = self.lines.len() - if kept == Repeated::Last { 2 } else { 1 };
                for column in &mut self.columns {
                    column.remove(left_out);
                }
                self.lines.remove(left_out);
                self.n_rows -= 1;
                self.before = Some(now);
                return;
            }
            let ascends = time.partial_cmp(&before.time) == Some(std::cmp::Ordering::Greater);
            if self.wrong_times.first.is_none() && !ascends {
                let shown = self.shown;
                let told = wrong_time(&before, &now, |code, message| problem(shown, line.number, 1, code, message));
                self.wrong_times.add(|| told);
            }
            self.before = Some(now);
        }
    }

    fn value(&mut self, line: Line<'_>, column: usize, cell: &Cell) -> f64 {
        let name = &self.layout.names[column];
        let (message, help) = match Word::read(&cell.text, self.reading.format) {
            Word::Number(value) => return value,
            Word::Missing => return f64::NAN,
            Word::Infinite => (
                infinite(name, &format!("line {}", line.number)),
                format!(
                    "leave the cell empty if there is no value, or say `missing = [\"{}\"]` in `[data]`",
                    toml_text(&cell.text)
                ),
            ),
            Word::Other => (
                format!("`{}` is not a number (column `{name}`)", cell.text),
                cell_help(&cell.text, self.reading.format),
            ),
        };
        if decimal_help(&cell.text, self.reading.format).is_none() {
            self.begins_with_word[column] |= self.wrong_cells[column].count == 0;
            if self.words.len() < MOST_WORDS && !self.words.contains(&cell.text) && self.reading.wants(name) {
                self.words.push(cell.text.clone());
            }
        }
        let shown = self.shown;
        self.wrong_cells[column]
            .add(|| problem(shown, line.number, cell.start + 1, "data-number", message).with_help(help));
        f64::NAN
    }

    fn time(&mut self, line: Line<'_>, cell: &Cell) -> f64 {
        match self.times.read(&cell.text) {
            Ok(time) => time,
            Err(wrong) => {
                let shown = self.shown;
                self.wrong_times.add(|| {
                    problem(shown, line.number, cell.start + 1, "data-time", wrong.message).with_help(wrong.help)
                });
                f64::NAN
            }
        }
    }

    fn finish(self) -> Result<Data, Vec<Diagnostic>> {
        let mut diagnostics: Vec<Diagnostic> = Vec::new();
        diagnostics.extend(self.wrong_rows.told("such rows"));
        diagnostics.extend(self.wrong_times.told("such times"));
        // All words at once: whoever lists one would only hear of the next.
        let listed: Vec<String> = self.words.iter().map(|word| format!("\"{}\"", toml_text(word))).collect();
        let all_words = (listed.len() > 1)
            .then(|| format!("if these stand for missing values, say `missing = [{}]` in `[data]`", listed.join(", ")));
        let mut names = Vec::new();
        let mut columns = Vec::new();
        let mut units = Vec::new();
        let mut times = None;
        let all = self.layout.names.iter().zip(self.columns).zip(self.wrong_cells).enumerate();
        for (at, ((name, values), wrong)) in all {
            if Some(at) == self.layout.time_at {
                times = Some(values);
            } else if wrong.count == 0 {
                units.extend(self.layout.unit(at).map(|said| (name.clone(), said)));
                names.push(name.clone());
                columns.push(values);
            } else if self.reading.wants(name) {
                let help = all_words.as_ref().filter(|_| self.begins_with_word[at]);
                let told = wrong.told("such cells in this column");
                diagnostics.extend(told.map(|told| match help {
                    Some(help) => told.with_help(help.clone()),
                    None => told,
                }));
            }
        }
        if !diagnostics.is_empty() {
            return Err(with_different_remedies(diagnostics));
        }
        if self.n_rows == 0 {
            let empty = problem(self.shown, 2, 1, "data-empty", "the data file has no rows".to_owned());
            return Err(vec![empty.with_help("it needs one line for each sample below its header")]);
        }
        let times = match (times, self.reading.axis) {
            (Some(times), _) => times,
            (None, TimeAxis::Step(step)) => by_step(self.n_rows, *step),
            (None, TimeAxis::Column(_)) => Vec::new(),
        };
        Ok(Data { file: self.shown.to_owned(), times, names, columns, units, lines: self.lines })
    }
}

/// The first of all problems that have the same remedy: what mends it mends the others.
fn with_different_remedies(diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut kept: Vec<Diagnostic> = Vec::new();
    for diagnostic in diagnostics {
        if !kept.iter().any(|known| known.help == diagnostic.help) {
            kept.push(diagnostic);
        }
    }
    kept
}

/// Words that one help names.
const MOST_WORDS: usize = 6;

/// How to read a row of another length.
fn row_help(n_cells: usize, n_names: usize, separator: char, format: &Format) -> String {
    if separator == ',' && format.decimal != Some('.') && n_cells > n_names {
        return "if its numbers have decimal commas, put them in quotes or another `separator` between the columns, and \
                say `decimal = \",\"` in `[data]`"
            .to_owned();
    }
    let sign = if separator == '\t' { "tab".to_owned() } else { separator.to_string() };
    if n_cells < n_names && n_cells > 1 {
        return format!(
            "a cell without a value still needs its separator: end the row with `{sign}`, or remove the row"
        );
    }
    format!(
        "cells are separated by `{sign}`; if that is wrong, say `separator = ..` in `[data]`; lines before the header \
         are left out with `skip = ..`"
    )
}

/// How to read a number with another decimal mark.
fn decimal_help(text: &str, format: &Format) -> Option<&'static str> {
    let is_number = |text: &str| text.parse::<f64>().is_ok_and(f64::is_finite);
    if format.decimal != Some(',') && !text.contains('.') && is_number(&text.replace(',', ".")) {
        return Some("if it has a decimal comma, say `decimal = \",\"` in `[data]`");
    }
    (format.decimal == Some(',') && is_number(text))
        .then_some("`[data]` says `decimal = \",\"`, but this number has a point; marks between thousands are not read")
}

/// What stands between quotes in TOML.
fn toml_text(text: &str) -> String {
    let escaped = |it: char| match it {
        '"' | '\\' => format!("\\{it}"),
        it if it.is_control() => format!("\\u{:04x}", u32::from(it)),
        it => it.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// How to read a cell that is no number.
pub(super) fn cell_help(text: &str, format: &Format) -> String {
    if let Some(help) = decimal_help(text, format) {
        return help.to_owned();
    }
    format!("if it stands for a missing value, say `missing = [\"{}\"]` in `[data]`", toml_text(text))
}

pub(super) struct WrongTime {
    pub(super) message: String,
    pub(super) help: String,
}

/// Times as numbers or stamps; the first row decides.
pub(super) struct Times<'a> {
    pub(super) reading: &'a Reading<'a>,
    pub(super) state: TimeState,
}

/// What is known from the rows before.
#[derive(Clone, Copy, Default)]
pub(super) struct TimeState {
    first: Option<FirstTime>,
    clock: ChangingClock,
}

#[derive(Clone, Copy)]
enum FirstTime {
    Number,
    Stamp(Stamp),
}

impl Times<'_> {
    /// Whether times are dates of a clock that may be set to summer time and back.
    fn is_local(&self) -> bool {
        matches!(self.state.first, Some(FirstTime::Stamp(stamp)) if stamp.kind == StampKind::Local)
    }

    pub(super) fn read(&mut self, text: &str) -> Result<f64, WrongTime> {
        let wrong = |message: String, help: &str| Err(WrongTime { message, help: help.to_owned() });
        let format = self.reading.format;
        match (Word::read(text, format), self.state.first) {
            (Word::Missing, _) => Ok(f64::NAN),
            (Word::Infinite, _) => wrong(format!("the time `{text}` is infinite"), "give the row a time or remove it"),
            (Word::Number(_), Some(FirstTime::Stamp(_))) => {
                wrong(format!("`{text}` is not a date, as the times before it are"), "write all times in the same way")
            }
            (Word::Number(_), _) if format.has_summer_time => wrong(
                format!("`summer_time` is for dates, but the time `{text}` is a number"),
                "leave `summer_time` out of `[data]`",
            ),
            (Word::Number(value), _) => {
                self.state.first = Some(FirstTime::Number);
                match format.origin {
                    None => Ok(value),
                    Some(Origin::Number(origin)) => Ok(value - origin),
                    Some(Origin::Stamp(_)) => wrong(
                        format!("`origin` is a date, but the time `{text}` is a number"),
                        "give `origin` as a number, or leave it out",
                    ),
                }
            }
            (Word::Other, Some(FirstTime::Number)) => {
                let help =
                    decimal_help(text, format).unwrap_or("give the row a time or remove it; a comment begins with `#`");
                wrong(format!("the time `{text}` is not a number"), help)
            }
            (Word::Other, _) if format.time_format.is_some() => {
                let pattern = format.time_format.as_deref().unwrap_or_default();
                match Stamp::parse_as(text, pattern) {
                    Some(stamp) => self.stamp(text, stamp),
                    None => wrong(
                        format!("the time `{text}` is not written as `time_format = \"{pattern}\"` says"),
                        "the letters are those of strptime: %Y %m %d %H %M %S, %y for two digits, %b for Jan, %I with %p",
                    ),
                }
            }
            (Word::Other, _) => match Stamp::parse(text) {
                Some(stamp) => self.stamp(text, stamp),
                None if decimal_help(text, format).is_some() => {
                    wrong(format!("the time `{text}` is not a number"), decimal_help(text, format).unwrap_or_default())
                }
                None => {
                    let help = match &guess(text)[..] {
                        [] => "say how it is written with `time_format = \"..\"` in `[data]`, in the letters of strptime, such \
                               as \"%d.%m.%Y %H:%M:%S\""
                            .to_owned(),
                        [pattern] => format!("say `time_format = \"{pattern}\"` in `[data]`"),
                        [first, second, ..] => format!(
                            "say `time_format = \"{first}\"` in `[data]` if the day comes first, or `time_format = \
                             \"{second}\"` if the month does"
                        ),
                    };
                    wrong(format!("the time `{text}` is neither a number nor a date of ISO 8601"), &help)
                }
            },
        }
    }

    fn stamp(&mut self, text: &str, stamp: Stamp) -> Result<f64, WrongTime> {
        let wrong = |message: String, help: &str| Err(WrongTime { message, help: help.to_owned() });
        if self.reading.has_time_unit {
            return wrong(
                format!("the time `{text}` is a date, which has no unit"),
                "leave `time_unit` out of `[data]`: dates are read as seconds from `origin`",
            );
        }
        let origin = match (self.state.first, self.reading.format.origin) {
            (Some(FirstTime::Stamp(origin)), _) | (None, Some(Origin::Stamp(origin))) => origin,
            (_, Some(Origin::Number(number))) => {
                return wrong(
                    format!("`origin` is the number {number}, but the time `{text}` is a date"),
                    "give `origin` as a date such as \"2024-03-01T12:30:00\", or leave it out",
                );
            }
            _ => stamp,
        };
        self.state.first = Some(FirstTime::Stamp(origin));
        if stamp.kind != origin.kind {
            let what = |kind| match kind {
                StampKind::Zoned => "a date with a zone",
                StampKind::Local => "a date without a zone",
                StampKind::Clock => "a time without a date",
            };
            return wrong(
                format!("the time `{text}` is {}, the origin of times is {}", what(stamp.kind), what(origin.kind)),
                "write all times, and `origin`, in the same way",
            );
        }
        if !self.reading.format.has_summer_time {
            return Ok(stamp.since(origin));
        }
        if stamp.kind != StampKind::Local {
            return wrong(
                format!("`summer_time` is for dates without a zone, which `{text}` is not"),
                "leave `summer_time` out of `[data]`",
            );
        }
        Ok(self.state.clock.steady(stamp).since(origin))
    }
}

pub(super) struct Cell {
    pub(super) text: String,
    pub(super) start: usize,
}

/// The cells of a line, quoted ones as in RFC 4180. Where spaces separate, any number of them does.
pub(super) fn split(line: &str, separator: char) -> Vec<Cell> {
    let line = if separator == ' ' { line.trim() } else { line };
    let mut cells = Vec::new();
    let mut text = String::new();
    let mut start = 0;
    let mut is_quoted = false;
    let mut characters = line.chars().enumerate().peekable();
    let separates = |character: char| character == separator || separator == ' ' && character == '\t';
    while let Some((at, character)) = characters.next() {
        match character {
            '"' if is_quoted && characters.peek().is_some_and(|(_, next)| *next == '"') => {
                text.push('"');
                characters.next();
            }
            '"' => is_quoted = !is_quoted,
            _ if separates(character) && !is_quoted => {
                while separator == ' ' && characters.peek().is_some_and(|(_, next)| separates(*next)) {
                    characters.next();
                }
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

    fn by_column() -> TimeAxis {
        TimeAxis::Column("t".to_owned())
    }

    fn read(text: &str, format: &Format) -> Result<Data, Vec<Diagnostic>> {
        parse(text, "a.csv", &Reading { format, ..Reading::plain(&by_column()) })
    }

    fn refused(text: &str, format: &Format) -> Diagnostic {
        let mut diagnostics = read(text, format).unwrap_err();
        assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
        diagnostics.remove(0)
    }

    #[test]
    fn rows_without_a_time_column_follow_each_other_by_the_step() {
        let data = parse("u,y\n1,2\n3,4\n5,6\n", "a.csv", &Reading::plain(&TimeAxis::Step(0.1))).unwrap();
        assert_eq!(data.times, [0.0, 0.1, 0.2]);
        assert_eq!(data.column("y").unwrap(), [2.0, 4.0, 6.0]);
    }

    #[test]
    fn quoted_headers_missing_cells_and_numbers_are_read() {
        let data = read("t,\"p[1,2]\",u\n0,1.5,\n0.1,NaN,2e-3\n", &Format::default()).unwrap();
        assert_eq!(data.times, [0.0, 0.1]);
        assert_eq!(data.names, ["p[1,2]", "u"]);
        assert_eq!(data.columns[0][0], 1.5);
        assert!(data.columns[0][1].is_nan() && data.columns[1][0].is_nan());
        assert_eq!(data.columns[1][1], 2e-3);
    }

    #[test]
    fn problems_have_their_line() {
        let line = |text: &str| {
            let wrong = refused(text, &Format::default());
            (wrong.code.clone(), wrong.place.unwrap().line)
        };
        assert_eq!(line("t,u\n0,1\n0.1,abc\n"), ("data-number".into(), 3));
        assert_eq!(line("t,u\n0,1\n1,inf\n"), ("data-number".into(), 3));
        assert_eq!(line("t,u\n0,1\n0,2\n"), ("data-time".into(), 3));
        assert_eq!(line("t,u\n0,1\n1\n"), ("data-row".into(), 3));
        assert_eq!(line("time,u\n0,1\n"), ("data-column".into(), 1));
        assert_eq!(line("t,u,u\n0,1,2\n"), ("data-column".into(), 1));
        assert_eq!(line("t,u\n"), ("data-empty".into(), 2));
        assert_eq!(line("0,1\n1,2\n"), ("data-header".into(), 1));
    }

    #[test]
    fn tabs_semicolons_and_decimal_commas_are_read() {
        let format = Format { decimal: Some(','), ..Format::default() };
        for text in ["t;u\n0;1,5\n0,1;2,5\n", "t\tu\n0\t1,5\n0,1\t2,5\n", "t,u\n0,\"1,5\"\n\"0,1\",\"2,5\"\n"] {
            let data = read(text, &format).unwrap();
            assert_eq!((data.times, data.columns), (vec![0.0, 0.1], vec![vec![1.5, 2.5]]), "{text}");
        }
        let wrong = refused("t;u\n0;1,5\n1;2,5\n", &Format::default());
        assert!(wrong.help.unwrap().contains("decimal = \",\""));
        assert!(wrong.message.contains("1 more"), "{}", wrong.message);
        let wrong = refused("t;u\n0,0;1,5\n1;2,5\n", &Format::default());
        assert!(wrong.help.unwrap().contains("decimal = \",\""));
        let spaced = Format { separator: Some(' '), ..Format::default() };
        assert_eq!(read(" t   u\n 0   1\n 1  -2\n", &spaced).unwrap().columns[0], [1.0, -2.0]);
        assert!(refused("t   u\n0   1\n", &Format::default()).help.unwrap().contains("separator = \" \""));
    }

    #[test]
    fn all_words_that_are_no_numbers_are_named_at_once() {
        let axis = TimeAxis::Column("t".to_owned());
        let help = |text: &str| parse(text, "d.csv", &Reading::plain(&axis)).unwrap_err()[0].help.clone().unwrap();
        let all = help("t,y,z\n0,NA,1\n1,2,bad\n2,x,3\n");
        assert!(all.contains("missing = [\"NA\", \"bad\", \"x\"]"), "{all}");
        assert!(help("t,y\n0,D\u{e9}faut\n").contains("missing = [\"D\u{e9}faut\"]"));
        assert!(help("t,y\n0,NA\n").contains("missing = [\"NA\"]"));
        assert!(help("t,y,z\n0,1,2\n1,2\n").contains("end the row with `,`"));
        assert!(help("t,y\n01.02.24 10:00,1\n").contains("time_format = \"%d.%m.%y %H:%M\""));
    }

    #[test]
    fn comments_units_and_words_for_missing_values_are_read() {
        let text = "# a logger\n\n# second line\nt,u\ns,V\n0,1\n# pause\n1,N/A\n";
        let format = Format { missing: vec!["N/A".into()], ..Format::default() };
        let data = read(text, &format).unwrap();
        assert_eq!(data.times, [0.0, 1.0]);
        assert!(data.columns[0][1].is_nan());
        let wrong = refused(text, &Format::default());
        assert!(wrong.help.unwrap().contains("missing = [\"N/A\"]"));
        assert_eq!(read("# t u\n0 1\n1 2\n", &Format { separator: Some(' '), ..format }).unwrap().times, [0.0, 1.0]);
        let wrong = refused("t,u\nms,V\n0,1\n", &Format::default());
        assert!(wrong.help.unwrap().contains("time_unit = \"ms\""));
        let skipped = Format { skip: 2, ..Format::default() };
        assert_eq!(read("Logger 7,\nChannel,2\nt,u\n0,1\n", &skipped).unwrap().names, ["u"]);
    }

    #[test]
    fn dates_become_seconds_from_the_origin() {
        let text = "t,u\n2024-03-01T12:00:00.0,1\n2024-03-01T12:00:00.1,2\n2024-03-02T00:00:00,3\n";
        assert_eq!(read(text, &Format::default()).unwrap().times, [0.0, 0.1, 43200.0]);
        let origin = Stamp::parse("2024-03-01").map(Origin::Stamp);
        assert_eq!(read(text, &Format { origin, ..Format::default() }).unwrap().times[1], 43200.1);
        let mixed = "t,u\n2024-03-01T12:00:00Z,1\n2024-03-01T12:00:01,2\n";
        assert!(refused(mixed, &Format::default()).message.contains("zone"));
        assert!(refused("t,u\n01.03.2024 12:00,1\n", &Format::default()).help.unwrap().contains("time_format"));
        let numbered = Format { origin: Some(Origin::Number(10.0)), ..Format::default() };
        assert_eq!(read("t,u\n10,1\n11,2\n", &numbered).unwrap().times, [0.0, 1.0]);
    }

    /// In local time an hour comes twice in autumn: told, and read where the study says so.
    #[test]
    fn the_hour_that_comes_twice_is_told_and_read() {
        let text = "t,u\n27.10.2024 02:40,1\n27.10.2024 02:50,2\n27.10.2024 02:00,3\n27.10.2024 02:10,4\n";
        let format = Format { time_format: Some("%d.%m.%Y %H:%M".to_owned()), ..Format::default() };
        let wrong = refused(text, &format);
        assert!(wrong.message.contains("line 4 has 27.10.2024 02:00"), "{}", wrong.message);
        assert!(wrong.help.unwrap().contains("summer_time = true"));
        let told = Format { has_summer_time: true, ..format };
        let data = read(text, &told).unwrap();
        assert_eq!(data.times, [0.0, 600.0, 1200.0, 1800.0]);
        assert_eq!(data.lines, [2, 3, 4, 5]);
        assert!(refused("t,u\n0,1\n", &told).message.contains("`summer_time` is for dates"));
    }

    #[test]
    fn words_in_columns_that_nobody_uses_do_no_harm() {
        let text = "t,u,state\n0,1,on\n1,2,off\n";
        let axis = by_column();
        let wanted = ["u".to_owned()];
        let data = parse(text, "a.csv", &Reading { wanted: Some(&wanted), ..Reading::plain(&axis) }).unwrap();
        assert_eq!(data.names, ["u"]);
    }

    #[test]
    fn repeated_times_are_not_told_to_be_sorted() {
        let wrong = refused("t,u\n0,1\n1,2\n1,3\n", &Format::default());
        assert_eq!(wrong.message, "line 3 and line 4 have the same time 1");
        assert!(!wrong.help.unwrap().contains("sort"));
        assert!(refused("t,u\n0,1\n,2\n", &Format::default()).message.contains("has no time"));
    }
}
