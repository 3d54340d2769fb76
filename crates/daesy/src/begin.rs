//! `daesy new`: a model, a study and a data file to begin with.
//!
//! The model is a lag for each measured column, driven by the columns that are taken as inputs:
//!
//! ```text
//! T y' = gain_1 u_1 + .. + gain_n u_n + offset - y
//! ```
//!
//! It is there to be replaced; what stays is a study that reads the file as it is, and whose every verb works.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use daesy_graph::finding::Level;
use daesy_model::file::{MAX_DATA_BYTES, read_bytes};

use crate::data::{Data, Encoding, Format, Head, HeadColumn, Reading, SaidUnit, TimeAxis, guess_time_formats};
use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::file::write_whole;

/// What was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begun {
    /// The folder.
    pub folder: PathBuf,
    /// Its files, the study first.
    pub files: Vec<PathBuf>,
    /// What of the data the study does not use, and why.
    pub left_out: Vec<Diagnostic>,
}

/// Makes a folder with a model, a study and data. The columns in `inputs` drive the model; if none are named, headers
/// decide.
///
/// # Errors
/// When the name cannot be that of a class, the folder exists, the data cannot be read, or an input is no column.
pub fn begin(name: &str, data: Option<&Path>, inputs: &[String]) -> Result<Begun, Failure> {
    let folder = PathBuf::from(name);
    let class = folder.file_name().and_then(|last| last.to_str()).unwrap_or_default().to_owned();
    if identifier(&class) != class {
        let message = format!("`{class}` cannot be the name of a model: names have letters, digits and `_`");
        let help = format!("take `daesy new {}`", identifier(&class));
        return Err(Failure::Usage(vec![Diagnostic::error("usage", message).with_help(help)]));
    }
    if folder.exists() {
        let message = format!("`{name}` exists already");
        let help = "take another name, or remove it first";
        return Err(Failure::Input(vec![Diagnostic::about_file("file", name, message).with_help(help)]));
    }
    let (data_name, bytes) = match data {
        None => (format!("{class}.csv"), example().into_bytes()),
        Some(path) => {
            let shown = path.display().to_string();
            let bytes = read_bytes(path, MAX_DATA_BYTES).map_err(|error| {
                vec![Diagnostic::about_file("data-file", &shown, format!("`{shown}` cannot be read: {error}"))]
            })?;
            let last = path.file_name().and_then(|last| last.to_str()).unwrap_or("data.csv");
            (last.to_owned(), bytes)
        }
    };
    let record = match data {
        None => Record::of_text(&String::from_utf8_lossy(&bytes), &data_name, inputs)?,
        Some(path) => Record::of_file(path, inputs)?,
    };
    let files = vec![
        (format!("{class}.toml"), record.study(&class, &data_name).into_bytes()),
        (format!("{class}.mo"), record.model(&class, &data_name).into_bytes()),
        (data_name, bytes),
    ];
    let failed = |path: &Path, error: &std::io::Error| {
        let shown = path.display().to_string();
        let message = format!("`{shown}` cannot be written: {error}");
        Failure::Input(vec![Diagnostic::about_file("output-file", &shown, message)])
    };
    std::fs::create_dir_all(&folder).map_err(|error| failed(&folder, &error))?;
    let mut written = Vec::new();
    for (file, bytes) in files {
        let path = folder.join(file);
        write_whole(&path, &bytes).map_err(|error| failed(&path, &error))?;
        written.push(path);
    }
    Ok(Begun { folder, files: written, left_out: record.left_out })
}

/// A text as the name of a component: letters, digits and `_`, not beginning with a digit.
fn identifier(text: &str) -> String {
    const SPELLED: [(char, &str); 9] = [
        ('\u{e4}', "ae"),
        ('\u{f6}', "oe"),
        ('\u{fc}', "ue"),
        ('\u{c4}', "Ae"),
        ('\u{d6}', "Oe"),
        ('\u{dc}', "Ue"),
        ('\u{df}', "ss"),
        ('\u{e9}', "e"),
        ('\u{b0}', "deg"),
    ];
    let mut plain = String::new();
    for character in text.chars() {
        match SPELLED.iter().find(|(known, _)| *known == character) {
            Some((_, spelled)) => plain.push_str(spelled),
            None => plain.push(if character.is_ascii_alphanumeric() { character } else { '_' }),
        }
    }
    if plain.is_empty() || plain.starts_with(|character: char| character.is_ascii_digit()) {
        return format!("x{plain}");
    }
    let keywords =
        ["model", "input", "output", "time", "end", "der", "if", "then", "else", "when", "for", "each", "flow"];
    if keywords.contains(&plain.as_str()) { format!("{plain}_") } else { plain }
}

/// x' = (2 u - x)/3 from 0, with the input on in every other stretch of ten seconds and small errors.
fn example() -> String {
    let mut text = "t,u,y\n".to_owned();
    let mut x = 0.0f64;
    for row in 0..=80u32 {
        let u = f64::from(row / 20 % 2);
        let error = 0.02 * f64::from((row * 7 + 3) % 11).mul_add(0.2, -1.0);
        let _ = writeln!(text, "{},{u},{:.4}", 0.5 * f64::from(row), x + error);
        x = 2.0f64.mul_add(u, (x - 2.0 * u) * (-0.5f64 / 3.0).exp());
    }
    text
}

/// A column with the name of its component.
struct Column {
    header: String,
    name: String,
    values: Vec<f64>,
    /// The unit, where it can be read.
    unit: Option<SaidUnit>,
}

impl Column {
    /// The unit as a modifier of its declaration, after these.
    fn declared(&self, others: &str) -> String {
        let unit = self.unit.as_ref().map(|unit| format!("unit = \"{}\"", unit.modelica()));
        let all: Vec<&str> = unit.as_deref().into_iter().chain((!others.is_empty()).then_some(others)).collect();
        if all.is_empty() { String::new() } else { format!("({})", all.join(", ")) }
    }
}

/// Data that were read, and how.
struct Record {
    format: Format,
    axis: TimeAxis,
    /// What the file says of its times, other than seconds.
    time_unit: Option<String>,
    /// Another way to read its times, where day and month cannot be told apart.
    other_time_format: Option<String>,
    times: Vec<f64>,
    inputs: Vec<Column>,
    measured: Vec<Column>,
    /// Columns that could not be read, and why.
    left_out: Vec<Diagnostic>,
}

/// Beginnings of headers that mean the time.
const TIME_WORDS: [&str; 13] = [
    "t",
    "time",
    "timestamp",
    "date",
    "datetime",
    "zeit",
    "zeitstempel",
    "datum",
    "uhrzeit",
    "seconds",
    "sec",
    "sekunden",
    "elapsed",
];

/// Beginnings of headers that mean an input.
const INPUT_WORDS: [&str; 17] = [
    "u",
    "in",
    "input",
    "voltage",
    "power",
    "command",
    "cmd",
    "setpoint",
    "heat",
    "heating",
    "control",
    "spannung",
    "leistung",
    "heizleistung",
    "eingang",
    "sollwert",
    "stellwert",
];

/// Rows from which on a column that only grows is no accident.
const FEW_ROWS: usize = 4;

/// Units of time, with their seconds.
const TIME_UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("min", 60.0), ("h", 3600.0), ("d", 86400.0)];

/// The columns of dates and of times of day, where a file has the time in two.
fn parted_time(head: &[HeadColumn]) -> Option<[&str; 2]> {
    let are_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_date = |text: &str| {
        let parts: Vec<&str> = text.trim().split(['-', '/', '.']).collect();
        parts.len() == 3 && parts.into_iter().all(are_digits)
    };
    let is_clock = |text: &str| {
        let parts: Vec<&str> = text.trim().split(':').collect();
        let (whole, last) = (parts.len() - 1, parts[parts.len() - 1]);
        (2..=3).contains(&parts.len())
            && parts[..whole].iter().all(|part| are_digits(part) && part.len() <= 2)
            && last.split(['.', ',']).all(are_digits)
    };
    let date = head.iter().find(|column| is_date(&column.first))?;
    let clock = head.iter().find(|column| is_clock(&column.first))?;
    Some([&date.header, &clock.header])
}

/// How a file is read: `Data::read` or `Data::parse` of it.
type Read<'r> = dyn Fn(&Reading<'_>) -> Result<Data, Vec<Diagnostic>> + 'r;

impl Record {
    fn of_file(path: &Path, inputs: &[String]) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        Self::tried(&|reading| Data::read(path, &shown, reading), &|format| Data::head(path, format), inputs)
    }

    fn of_text(text: &str, shown: &str, inputs: &[String]) -> Result<Self, Failure> {
        Self::tried(&|reading| Data::parse(text, shown, reading), &|format| Head::of(text, format), inputs)
    }

    /// Reads with the keys that files usually need; the first that read it are kept.
    fn tried(read: &Read<'_>, head: &dyn Fn(&Format) -> Option<Head>, inputs: &[String]) -> Result<Self, Failure> {
        let mut first = None;
        let mut best: Option<Self> = None;
        for encoding in [None, Some(Encoding::Latin1)] {
            for decimal in [None, Some(',')] {
                let format = Format { decimal, encoding, ..Format::default() };
                let head = head(&format);
                let missing = head.as_ref().map(|head| head.missing.clone()).unwrap_or_default();
                let format = Format { skip: head.as_ref().map_or(0, |head| head.n_before), missing, ..format };
                match Self::read(read, format, head.map(|head| head.columns).unwrap_or_default()) {
                    // Columns that hold no numbers when read so are left out: the more remain, the better.
                    Ok(record) if best.as_ref().is_none_or(|best| record.n_columns() > best.n_columns()) => {
                        best = Some(record);
                    }
                    Ok(_) => {}
                    Err(wrong) => {
                        first.get_or_insert(wrong);
                    }
                }
            }
        }
        let best = best.ok_or_else(|| Failure::Input(first.unwrap_or_default()))?;
        best.with_inputs(inputs)
    }

    fn n_columns(&self) -> usize {
        self.inputs.len() + self.measured.len() + usize::from(matches!(self.axis, TimeAxis::Column(_)))
    }

    fn read(read: &Read<'_>, mut format: Format, head: Vec<HeadColumn>) -> Result<Self, Vec<Diagnostic>> {
        let none: [String; 0] = [];
        let by_step = TimeAxis::Step(1.0);
        let plain = read(&Reading { wanted: Some(&none), format: &format, ..Reading::plain(&by_step) })?;
        let headers: Vec<String> = match head.is_empty() {
            true => plain.names.clone(),
            false => head.iter().map(|column| column.header.clone()).collect(),
        };
        let is_input = |name: &str| INPUT_WORDS.iter().any(|word| first_word(name) == *word);
        let is_time = |name: &&String| TIME_WORDS.iter().any(|word| first_word(name) == *word);
        let mut left_out = Vec::new();
        let of_head = |header: &String| head.iter().find(|column| column.header == *header);
        // The days alone are no time, nor are the times of day.
        let parted = parted_time(&head);
        let named = headers.iter().filter(is_time).filter(|_| parted.is_none()).find_map(|header| {
            read_times(read, &format, header, of_head(header)).map_err(|wrong| left_out.extend(wrong)).ok()
        });
        // Whatever its name: a first column of dates, or of numbers that only grow, is the time.
        let timed = named.or_else(|| {
            let first = headers.first().filter(|header| !header.is_empty() && !is_input(header) && parted.is_none())?;
            read_times(read, &format, first, of_head(first)).ok().filter(|timed| timed.data.times.len() >= FEW_ROWS)
        });
        let (axis, data, seconds, time_unit, other_time_format) = match timed {
            Some(timed) => {
                left_out.clear();
                format.time_format = timed.time_format;
                format.has_summer_time = timed.has_summer_time;
                let (unit, seconds) = timed.unit.map_or((None, 1.0), |(unit, seconds)| (Some(unit), seconds));
                (timed.axis, timed.data, seconds, unit, timed.other_time_format)
            }
            None => (by_step, plain, 1.0, None, None),
        };
        if !data.columns.iter().flatten().any(|value| value.is_nan()) {
            format.missing.clear();
        }
        let is_read = |header: &String| data.names.contains(header) || axis == TimeAxis::Column(header.clone());
        let is_part = |header: &String| parted.is_some_and(|parts| parts.contains(&header.as_str()));
        let is_told = |header: &&String| !header.is_empty() && !is_read(header) && !is_time(header) && !is_part(header);
        for header in headers.iter().filter(is_told) {
            let only = [header.clone()];
            let alone = read(&Reading { wanted: Some(&only), format: &format, ..Reading::plain(&axis) });
            left_out.extend(alone.err().into_iter().flatten());
        }
        for diagnostic in &mut left_out {
            diagnostic.level = Level::Warning;
            diagnostic.message.push_str("; the study leaves this column out");
        }
        let unit_of = |header: &str| {
            let column = head.iter().find(|column| column.header == header)?;
            column.unit.clone().filter(|unit| unit.is_certain && unit.measure().is_some())
        };
        let columns = data.names.into_iter().zip(data.columns).filter(|(name, _)| !name.is_empty());
        let columns = columns.map(|(header, values)| {
            let name = identifier(unitless(&header));
            Column { unit: unit_of(&header), name, header, values }
        });
        let (mut inputs, mut measured): (Vec<Column>, Vec<Column>) =
            columns.partition(|column| is_input(&column.header));
        if !format.missing.is_empty() {
            let words: Vec<String> = format.missing.iter().map(|word| format!("`{word}`")).collect();
            let message = format!("{} among numbers: such cells count as missing values", words.join(", "));
            let note = Diagnostic::about_file("data-number", &data.file, message);
            let help = "correct the cells if they are not; `missing` in `[data]` of the study lists these words";
            left_out.push(Diagnostic { level: Level::Note, ..note.with_help(help) });
        }
        if let TimeAxis::Step(step) = axis {
            let (message, help) = match parted {
                Some([date, clock]) => (
                    format!("the time stands in two columns, `{date}` and `{clock}`: rows are taken {step} s apart"),
                    "join them to one column, such as `2024-02-01 08:00:00`, or put the right `step` into `[data]` of the study",
                ),
                None => (
                    format!("no column holds the time: rows are taken {step} s apart"),
                    "put the right `step` into `[data]` of the study, or name the column with `time = \"..\"`",
                ),
            };
            let wrong = Diagnostic::about_file("data-time", &data.file, message);
            left_out.push(Diagnostic { level: Level::Warning, ..wrong.with_help(help) });
        }
        if measured.is_empty() && !inputs.is_empty() {
            measured.push(inputs.remove(inputs.len() - 1));
        }
        if measured.is_empty() {
            let message = "there is no column of numbers beside the time";
            return Err(vec![Diagnostic::about_file("data-column", &data.file, message)]);
        }
        let times = data.times.iter().map(|time| seconds * time).collect();
        let mut record = Self { format, axis, time_unit, other_time_format, times, inputs, measured, left_out };
        record.part_names();
        Ok(record)
    }

    /// Gives columns that would have the same name different ones.
    fn part_names(&mut self) {
        let mut known: Vec<String> = Vec::new();
        for column in self.inputs.iter_mut().chain(&mut self.measured) {
            let mut name = column.name.clone();
            let mut count = 1;
            while known.contains(&name) {
                count += 1;
                name = format!("{}_{count}", column.name);
            }
            known.push(name.clone());
            column.name = name;
        }
    }

    /// Takes these columns as inputs, and all others as measured.
    fn with_inputs(mut self, headers: &[String]) -> Result<Self, Failure> {
        if headers.is_empty() {
            return Ok(self);
        }
        let mut columns: Vec<Column> = self.inputs.drain(..).chain(self.measured.drain(..)).collect();
        let known: Vec<String> = columns.iter().map(|column| column.header.clone()).collect();
        for header in headers {
            let Some(at) = columns.iter().position(|column| column.header == *header || column.name == *header) else {
                let message = format!("there is no column `{header}` of numbers to be an input");
                let help = format!("columns: {}", known.join(", "));
                return Err(Failure::Usage(vec![Diagnostic::error("usage", message).with_help(help)]));
            };
            self.inputs.push(columns.remove(at));
        }
        self.measured = columns;
        if self.measured.is_empty() {
            let message = "all columns are inputs, and none is left that is measured";
            let help = "name fewer columns with `--input`";
            return Err(Failure::Usage(vec![Diagnostic::error("usage", message).with_help(help)]));
        }
        Ok(self)
    }

    /// First guesses for a measured column. Between samples of the same distance a lag is a recurrence,
    ///
    /// ```text
    /// y(k+1) = a y(k) + b_1 u_1(k) + .. + c,     a = exp(-step/T),  gain_i = b_i/(1 - a),  offset = c/(1 - a)
    /// ```
    ///
    /// whose coefficients follow from least squares. Where a is not between 0 and 1 there is no lag to be seen, and
    /// guesses are a tenth of the record, gains of 1 and the first value.
    fn guess(&self, column: &Column) -> Guess {
        let first = column.values.iter().copied().find(|value| value.is_finite()).unwrap_or(0.0);
        let plain = Guess { lag: self.lag(), offset: first, gains: vec![1.0; self.inputs.len()] };
        let mut distances: Vec<f64> = self.times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        distances.sort_by(f64::total_cmp);
        let Some(&step) = distances.get(distances.len() / 2) else { return plain };
        let n = self.inputs.len() + 2;
        // The normal equations, with their right side in the last column.
        let mut normal = vec![vec![0.0; n + 1]; n];
        for row in 0..self.times.len().saturating_sub(1) {
            let inputs = self.inputs.iter().map(|input| input.values[row]);
            let mut terms: Vec<f64> = std::iter::once(column.values[row] - first).chain(inputs).collect();
            terms.extend([1.0, column.values[row + 1] - first]);
            let is_even = (self.times[row + 1] - self.times[row] - step).abs() <= 0.01 * step;
            if is_even && terms.iter().all(|term| term.is_finite()) {
                for (at, line) in normal.iter_mut().enumerate() {
                    line.iter_mut().zip(&terms).for_each(|(entry, term)| *entry += terms[at] * term);
                }
            }
        }
        let Some(found) = solved(normal) else { return plain };
        let rest = 1.0 - found[0];
        let lag = -step / found[0].ln();
        if !(0.01..0.9999).contains(&found[0]) {
            return plain;
        }
        let scaled = |value: f64| rounded(value / rest);
        let gains = found[1..n - 1].iter().map(|&gain| scaled(gain)).collect();
        let offset = first + found[n - 1] / rest;
        let offset = format!("{offset:.3e}").parse().unwrap_or(offset);
        Guess { lag: rounded(lag), offset, gains }
    }

    fn model(&self, class: &str, data: &str) -> String {
        let mut text = format!(
            "model {class} \"A lag for each measured column of {}; replace it by what you know\"\n",
            data.replace('"', "'")
        );
        for input in &self.inputs {
            let _ = writeln!(text, "  input Real {}{};", input.name, input.declared(""));
        }
        let mut equations = String::new();
        for column in &self.measured {
            let y = &column.name;
            let start = column.values.iter().copied().find(|value| value.is_finite()).unwrap_or(0.0);
            let Guess { lag, offset, gains } = self.guess(column);
            let _ = writeln!(text, "  parameter Real T_{y}(unit = \"s\", min = 0) = {lag:?} \"Time constant\";");
            let _ =
                writeln!(text, "  parameter Real offset_{y}{} = {offset:?} \"Value at rest\";", column.declared(""));
            for (input, gain) in self.inputs.iter().zip(gains) {
                let _ = writeln!(text, "  parameter Real gain_{y}_{} = {gain:?} \"Gain\";", input.name);
            }
            let start = column.declared(&format!("start = {start:?}, fixed = true"));
            let _ = writeln!(text, "  output Real {y}{start};");
            let gains: Vec<String> =
                self.inputs.iter().map(|input| format!("gain_{y}_{0}*{0} + ", input.name)).collect();
            let _ = writeln!(equations, "  T_{y}*der({y}) = {}offset_{y} - {y};", gains.concat());
        }
        text + "equation\n" + &equations + &format!("end {class};\n")
    }

    /// A first guess of time constants: a tenth of the record.
    fn lag(&self) -> f64 {
        let span = self.times.last().copied().unwrap_or(1.0) - self.times.first().copied().unwrap_or(0.0);
        let lag = rounded(0.1 * span);
        if lag > 0.0 { lag } else { 1.0 }
    }

    fn study(&self, class: &str, data: &str) -> String {
        let mut text =
            format!("# Check, simulate and identify with `daesy VERB {class}.toml`.\n[model]\nfile = \"{class}.mo\"\n");
        text.push_str("\n[unknown]\n");
        for column in &self.measured {
            let y = &column.name;
            let Guess { lag, offset, gains } = self.guess(column);
            let _ = writeln!(text, "T_{y} = {{ start = {lag:?}, min = {:?} }}", rounded(1e-3 * lag));
            let _ = writeln!(text, "offset_{y} = {{ start = {offset:?} }}");
            for (input, gain) in self.inputs.iter().zip(gains) {
                let _ = writeln!(text, "gain_{y}_{} = {{ start = {gain:?} }}", input.name);
            }
        }
        if !self.inputs.is_empty() {
            text.push_str("\n[inputs]\n");
        }
        for input in &self.inputs {
            let _ = writeln!(text, "{} = {{ column = {}, hold = \"zoh\" }}", input.name, quoted(&input.header));
        }
        text.push_str("\n[measurements]\n");
        for column in &self.measured {
            let std = accuracy(&column.values);
            let _ = writeln!(text, "{} = {{ column = {}, std = {std:?} }}", column.name, quoted(&column.header));
        }
        text.push_str("\n# The first sample is as inaccurate as the others: where the model starts is estimated.\n");
        text.push_str("[initial]\nmode = \"estimate\"\n");
        let _ = writeln!(text, "\n[data]\nfile = {}", quoted(data));
        match &self.axis {
            TimeAxis::Column(column) => {
                let _ = writeln!(text, "time = {}", quoted(column));
            }
            TimeAxis::Step(step) => {
                let _ = writeln!(text, "step = {step:?}  # seconds from row to row: put in the right number");
            }
        }
        if self.format.skip > 0 {
            let _ = writeln!(text, "skip = {}  # lines before the header", self.format.skip);
        }
        if let Some(unit) = &self.time_unit {
            let _ = writeln!(text, "time_unit = {}", quoted(unit));
        }
        if let Some(pattern) = &self.format.time_format {
            let other = self.other_time_format.as_ref();
            let other = other.map(|other| format!("  # {} if the month comes first", quoted(other)));
            let _ = writeln!(text, "time_format = {}{}", quoted(pattern), other.unwrap_or_default());
        }
        if let Some(decimal) = self.format.decimal {
            let _ = writeln!(text, "decimal = \"{decimal}\"");
        }
        if self.format.encoding.is_some() {
            text.push_str("encoding = \"latin-1\"\n");
        }
        if self.format.has_summer_time {
            text.push_str("summer_time = true  # the clock is set back in this record\n");
        }
        if !self.format.missing.is_empty() {
            let words: Vec<String> = self.format.missing.iter().map(|word| quoted(word)).collect();
            let _ = writeln!(text, "missing = [{}]", words.join(", "));
        }
        text
    }
}

/// First guesses of the parameters of a lag.
struct Guess {
    lag: f64,
    offset: f64,
    /// By input.
    gains: Vec<f64>,
}

/// A guess with two digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

/// The solution of linear equations, their right side in the last column; `None` if they have none to be trusted.
fn solved(mut lines: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = lines.len();
    let sizes: Vec<f64> = (0..n).map(|at| lines[at][at]).collect();
    for at in 0..n {
        let pivot = (at..n).max_by(|&a, &b| lines[a][at].abs().total_cmp(&lines[b][at].abs()))?;
        lines.swap(at, pivot);
        if lines[at][at].abs() <= 1e-12 * sizes[at].abs() {
            return None;
        }
        let own = lines[at].clone();
        for (other, line) in lines.iter_mut().enumerate() {
            let factor = line[at] / own[at];
            if other != at {
                line.iter_mut().zip(&own).for_each(|(entry, own)| *entry -= factor * own);
            }
        }
    }
    let found: Vec<f64> = (0..n).map(|at| lines[at][n] / lines[at][at]).collect();
    found.iter().all(|value| value.is_finite()).then_some(found)
}

/// Times that were read, and how.
struct Timed {
    axis: TimeAxis,
    data: Data,
    unit: Option<(String, f64)>,
    time_format: Option<String>,
    has_summer_time: bool,
    other_time_format: Option<String>,
}

/// Reads a file with a column as its times: numbers, in the unit that the file says, or dates, as they are written.
///
/// # Errors
/// What is wrong with the times when they are read in the way that fits the first.
fn read_times(
    read: &Read<'_>,
    format: &Format,
    header: &str,
    head: Option<&HeadColumn>,
) -> Result<Timed, Vec<Diagnostic>> {
    let none: [String; 0] = [];
    let axis = TimeAxis::Column(header.to_owned());
    let said = head.and_then(|column| column.unit.as_ref());
    let unit = said.and_then(|said| TIME_UNITS.iter().find(|(word, _)| *word == said.text));
    let unit = unit.map(|(word, seconds)| ((*word).to_owned(), *seconds));
    let read_as = |time_format: Option<&String>, has_summer_time: bool| {
        let format = Format { time_format: time_format.cloned(), has_summer_time, ..format.clone() };
        let has_time_unit = unit.is_some();
        read(&Reading { format: &format, wanted: Some(&none), has_time_unit, ..Reading::plain(&axis) })
    };
    let patterns = head.map(|head| guess_time_formats(&head.first)).unwrap_or_default();
    let ways = || std::iter::once(None).chain(patterns.iter().map(Some));
    let mut readings = ways()
        .flat_map(|pattern| [(pattern, false), (pattern, true)])
        .filter_map(|(pattern, summer)| read_as(pattern, summer).ok().map(|data| (data, pattern, summer)));
    let Some((data, pattern, has_summer_time)) = readings.next() else {
        return Err(ways()
            .next_back()
            .map(|pattern| read_as(pattern, false))
            .and_then(Result::err)
            .unwrap_or_default());
    };
    let other_time_format = readings.find_map(|(_, other, _)| other.filter(|other| Some(*other) != pattern).cloned());
    let unit = unit.clone().filter(|_| pattern.is_none());
    Ok(Timed { axis: axis.clone(), data, unit, time_format: pattern.cloned(), has_summer_time, other_time_format })
}

/// A header without the unit at its end: a component is called `P`, not `P__kW_`.
fn unitless(header: &str) -> &str {
    let header = header.trim();
    let inside = header.strip_suffix([']', ')']).and_then(|rest| rest.rsplit_once(['[', '(']));
    let name = inside.or_else(|| header.rsplit_once(" in ")).or_else(|| header.rsplit_once(" / "));
    name.map(|(name, _)| name.trim()).filter(|name| !name.is_empty()).unwrap_or(header)
}

fn first_word(header: &str) -> String {
    let lower = header.to_lowercase();
    lower.split(|character: char| !character.is_alphabetic()).next().unwrap_or_default().to_owned()
}

/// A text in the quotes of TOML.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\t', "\\t"))
}

/// A first guess of the measurement error: what second differences say, of which six times its variance is due to the
/// error, and no less than a thousandth of the range.
fn accuracy(values: &[f64]) -> f64 {
    let known: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    let mut differences: Vec<f64> =
        known.windows(3).map(|three| (three[0] - 2.0 * three[1] + three[2]).abs()).collect();
    differences.sort_by(f64::total_cmp);
    let median = differences.get(differences.len() / 2).copied().unwrap_or(0.0);
    let least = known.iter().copied().fold(f64::INFINITY, f64::min);
    let most = known.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let range = if most > least { most - least } else { 1.0 };
    let std = (median / 0.6745 / 6f64.sqrt()).max(1e-3 * range);
    format!("{std:.1e}").parse().unwrap_or(std)
}
