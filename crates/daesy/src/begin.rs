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

use daesy_model::file::{MAX_DATA_BYTES, read_bytes};

use crate::data::{Data, Encoding, Format, Reading, TimeAxis};
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
}

/// Makes a folder with a model, a study and data.
///
/// # Errors
/// When the name cannot be that of a class, the folder exists, or the data cannot be read.
pub fn begin(name: &str, data: Option<&Path>) -> Result<Begun, Failure> {
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
        None => Record::of_text(&String::from_utf8_lossy(&bytes), &data_name)?,
        Some(path) => Record::of_file(path)?,
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
    Ok(Begun { folder, files: written })
}

/// A text as the name of a component: letters, digits and `_`, not beginning with a digit.
fn identifier(text: &str) -> String {
    let plain: String =
        text.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect();
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
}

/// Data that were read, and how.
struct Record {
    format: Format,
    axis: TimeAxis,
    times: Vec<f64>,
    inputs: Vec<Column>,
    measured: Vec<Column>,
}

/// Headers that mean the time.
const TIME_WORDS: [&str; 8] = ["t", "time", "timestamp", "date", "datetime", "zeit", "seconds", "sec"];

/// Beginnings of headers that mean an input.
const INPUT_WORDS: [&str; 10] =
    ["u", "in", "input", "voltage", "power", "command", "cmd", "setpoint", "heat", "control"];

impl Record {
    fn of_file(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        Self::tried(&|reading| Data::read(path, &shown, reading))
    }

    fn of_text(text: &str, shown: &str) -> Result<Self, Failure> {
        Self::tried(&|reading| Data::parse(text, shown, reading))
    }

    /// Reads with the keys that files usually need; the first that read it are kept.
    fn tried(read: &dyn Fn(&Reading<'_>) -> Result<Data, Vec<Diagnostic>>) -> Result<Self, Failure> {
        let mut first = None;
        let mut best: Option<Self> = None;
        for encoding in [None, Some(Encoding::Latin1)] {
            for decimal in [None, Some(',')] {
                let missing = if decimal.is_some() { Vec::new() } else { vec!["N/A".to_owned()] };
                let format = Format { decimal, encoding, missing, ..Format::default() };
                match Self::read(read, format) {
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
        best.ok_or_else(|| Failure::Input(first.unwrap_or_default()))
    }

    fn n_columns(&self) -> usize {
        self.inputs.len() + self.measured.len() + usize::from(matches!(self.axis, TimeAxis::Column(_)))
    }

    fn read(
        read: &dyn Fn(&Reading<'_>) -> Result<Data, Vec<Diagnostic>>,
        mut format: Format,
    ) -> Result<Self, Vec<Diagnostic>> {
        let none: [String; 0] = [];
        let by_step = TimeAxis::Step(1.0);
        let headers = |format: &Format| read(&Reading { wanted: Some(&none), format, ..Reading::plain(&by_step) });
        // A column of dates is no number: it is only seen when it is asked for.
        let names = headers(&format)?.names;
        let candidates = names.iter().cloned().chain(TIME_WORDS.iter().flat_map(|word| spellings(word)));
        let is_time = |name: &str| TIME_WORDS.iter().any(|word| first_word(name) == *word);
        let mut axis = by_step.clone();
        let mut data = None;
        for name in candidates.filter(|name| is_time(name)) {
            let column = TimeAxis::Column(name);
            let known = read(&Reading { format: &format, wanted: Some(&none), ..Reading::plain(&column) });
            if let Ok(known) = known {
                axis = column;
                data = Some(known);
                break;
            }
        }
        let data = match data {
            Some(data) => data,
            None => read(&Reading { format: &format, wanted: Some(&none), ..Reading::plain(&by_step) })?,
        };
        if !data.columns.iter().flatten().any(|value| value.is_nan()) {
            format.missing.clear();
        }
        let columns = data.names.into_iter().zip(data.columns).filter(|(name, _)| !name.is_empty());
        let columns = columns.map(|(header, values)| Column { name: identifier(&header), header, values });
        let (mut inputs, mut measured): (Vec<Column>, Vec<Column>) =
            columns.partition(|column| INPUT_WORDS.iter().any(|word| first_word(&column.header) == *word));
        if measured.is_empty() && !inputs.is_empty() {
            measured.push(inputs.remove(inputs.len() - 1));
        }
        if measured.is_empty() {
            let message = "there is no column of numbers beside the time";
            return Err(vec![Diagnostic::about_file("data-column", &data.file, message)]);
        }
        Ok(Self { format, axis, times: data.times, inputs, measured })
    }

    fn model(&self, class: &str, data: &str) -> String {
        let mut text = format!(
            "model {class} \"A lag for each measured column of {}; replace it by what you know\"\n",
            data.replace('"', "'")
        );
        for input in &self.inputs {
            let _ = writeln!(text, "  input Real {};", input.name);
        }
        let mut equations = String::new();
        for column in &self.measured {
            let y = &column.name;
            let start = column.values.iter().copied().find(|value| value.is_finite()).unwrap_or(0.0);
            let _ =
                writeln!(text, "  parameter Real T_{y}(unit = \"s\", min = 0) = {:?} \"Time constant\";", self.lag());
            let _ = writeln!(text, "  parameter Real offset_{y} = {start:?} \"Value at rest\";");
            for input in &self.inputs {
                let _ = writeln!(text, "  parameter Real gain_{y}_{} = 1 \"Gain\";", input.name);
            }
            let _ = writeln!(text, "  output Real {y}(start = {start:?}, fixed = true);");
            let gains: Vec<String> =
                self.inputs.iter().map(|input| format!("gain_{y}_{0}*{0} + ", input.name)).collect();
            let _ = writeln!(equations, "  T_{y}*der({y}) = {}offset_{y} - {y};", gains.concat());
        }
        text + "equation\n" + &equations + &format!("end {class};\n")
    }

    /// A first guess of time constants: a tenth of the record.
    fn lag(&self) -> f64 {
        let span = self.times.last().copied().unwrap_or(1.0) - self.times.first().copied().unwrap_or(0.0);
        let lag: f64 = format!("{:.1e}", 0.1 * span).parse().unwrap_or(1.0);
        if lag > 0.0 { lag } else { 1.0 }
    }

    fn study(&self, class: &str, data: &str) -> String {
        let mut text =
            format!("# Check, simulate and identify with `daesy VERB {class}.toml`.\n[model]\nfile = \"{class}.mo\"\n");
        text.push_str("\n[unknown]\n");
        for column in &self.measured {
            let y = &column.name;
            let _ = writeln!(text, "T_{y} = {{ start = {:?}, min = {:?} }}", self.lag(), 1e-3 * self.lag());
            let start = column.values.iter().copied().find(|value| value.is_finite()).unwrap_or(0.0);
            let _ = writeln!(text, "offset_{y} = {{ start = {start:?} }}");
            for input in &self.inputs {
                let _ = writeln!(text, "gain_{y}_{} = {{ start = 1.0 }}", input.name);
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
        let _ = writeln!(text, "\n[data]\nfile = {}", quoted(data));
        match &self.axis {
            TimeAxis::Column(column) => {
                let _ = writeln!(text, "time = {}", quoted(column));
            }
            TimeAxis::Step(step) => {
                let _ = writeln!(text, "step = {step:?}  # seconds from row to row: put in the right number");
            }
        }
        if let Some(decimal) = self.format.decimal {
            let _ = writeln!(text, "decimal = \"{decimal}\"");
        }
        if self.format.encoding.is_some() {
            text.push_str("encoding = \"latin-1\"\n");
        }
        if !self.format.missing.is_empty() {
            text.push_str("missing = [\"N/A\"]\n");
        }
        text
    }
}

/// The usual ways to write a word in a header.
fn spellings(word: &str) -> [String; 3] {
    let mut capital = word.to_owned();
    if let Some(first) = capital.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    [word.to_owned(), capital, word.to_uppercase()]
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
