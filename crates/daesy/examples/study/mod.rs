//! The record of a study: what was asked, what came out, and what a paper says, written to `book/studies/NAME` for the
//! book to show.
//!
//! A folder holds `commands.txt` (what a user would type), `numbers.csv` (name and value), `comparison.md` (ours beside
//! the paper's figures), `pictures.txt` (file and caption of every picture, a tab between them), the pictures as SVG,
//! and tables as CSV. Nothing in it depends on time or machine: numbers have six digits, and the same study gives the
//! same bytes again.
#![allow(dead_code, reason = "every study is a program of its own and uses what it needs")]

pub mod fit;
pub mod noise;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use daesy::program::{Answer, Status, ask};
use daesy::report::chart::{Chart, stack};
use daesy::source::Source;
use daesy::table::Table;
use daesy_system::Watch;
use serde_json::Value;

/// A figure of a paper beside ours.
pub struct Comparison {
    /// What is compared.
    pub what: String,
    /// Where the paper says it.
    pub place: String,
    /// What it says.
    pub theirs: String,
    /// What came out here.
    pub ours: String,
    /// How they differ and why.
    pub remark: String,
}

struct Picture {
    file: String,
    caption: String,
    svg: String,
}

/// What a study leaves behind.
pub struct Record {
    name: String,
    root: PathBuf,
    begun: Instant,
    commands: Vec<String>,
    numbers: Vec<(String, String)>,
    tables: Vec<(String, String)>,
    pictures: Vec<Picture>,
    comparisons: Vec<Comparison>,
}

impl Record {
    /// An empty record. Commands run in the root of the repository.
    pub fn new(name: &str) -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut above = here.ancestors();
        let root = above.find(|folder| folder.join("book").is_dir()).expect("the package lies in its repository");
        let root = root.to_path_buf();
        std::env::set_current_dir(&root).expect("the root is a folder");
        Self {
            name: name.to_owned(),
            root,
            begun: Instant::now(),
            commands: Vec::new(),
            numbers: Vec::new(),
            tables: Vec::new(),
            pictures: Vec::new(),
            comparisons: Vec::new(),
        }
    }

    /// A file of measured data that is no part of the repository. Where it is not there the study ends with a message
    /// and writes nothing.
    pub fn case(&self, file: &str) -> PathBuf {
        let folder = std::env::var_os("DAESY_CASES").map_or_else(|| self.root.join("../shared/cases"), PathBuf::from);
        let path = folder.join(file);
        if !path.is_file() {
            eprintln!(
                "study {}: there is no {}. Measured data are no part of the repository: name their folder in DAESY_CASES. Nothing was written.",
                self.name,
                path.display()
            );
            std::process::exit(1);
        }
        path
    }

    /// Asks what `daesy ARGUMENTS` would answer, and remembers the command. Words are split at blanks; of files outside
    /// the repository only the name is remembered.
    pub fn ask(&mut self, arguments: &str) -> Answer {
        let answer = self.ask_quietly(arguments);
        let shown: Vec<String> = arguments.split_whitespace().map(|word| self.shown(word)).collect();
        let line = format!("daesy {}", shown.join(" "));
        if !self.commands.contains(&line) {
            self.commands.push(line);
        }
        answer
    }

    /// Asks without remembering: for runs that only vary a command already there.
    pub fn ask_quietly(&self, arguments: &str) -> Answer {
        let mut words = arguments.split_whitespace();
        let (verb, file) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let rest: Vec<String> = words.map(str::to_owned).collect();
        let begun = Instant::now();
        let answer = ask(verb, Source::file(Path::new(file)), &rest, &Watch::default());
        eprintln!("{:7.1} s  daesy {arguments}", begun.elapsed().as_secs_f64());
        answer
    }

    /// Asks a question that must be answered.
    pub fn must(&mut self, arguments: &str) -> Answer {
        let answer = self.ask(arguments);
        if answer.status != Status::Done {
            let wrong: Vec<String> = answer.diagnostics.iter().map(|diagnostic| diagnostic.render(false)).collect();
            eprintln!("study {}: `daesy {arguments}` failed. Nothing was written.\n{}", self.name, wrong.concat());
            std::process::exit(1);
        }
        answer
    }

    fn shown(&self, word: &str) -> String {
        let path = Path::new(word);
        match path.file_name() {
            Some(file) if path.is_absolute() => file.to_string_lossy().into_owned(),
            _ => word.to_owned(),
        }
    }

    /// A number of the study.
    pub fn number(&mut self, name: &str, value: f64) {
        println!("{name} = {}", figure(value));
        self.numbers.push((name.to_owned(), figure(value)));
    }

    /// A table of the study, as `FILE.csv`.
    pub fn table(&mut self, file: &str, table: &Table) {
        let mut text = table.names.iter().map(|name| quoted(name)).collect::<Vec<_>>().join(",");
        text.push('\n');
        for row in 0..table.columns.first().map_or(0, Vec::len) {
            let cells: Vec<String> = table.columns.iter().map(|column| figure(column[row])).collect();
            let _ = writeln!(text, "{}", cells.join(","));
        }
        self.tables.push((format!("{file}.csv"), text));
    }

    /// A text of the study, such as a study file with what was found.
    pub fn text(&mut self, file: &str, text: &str) {
        self.tables.push((file.to_owned(), text.to_owned()));
    }

    /// A picture of one or more charts below each other, as `FILE.svg`.
    pub fn picture(&mut self, file: &str, caption: &str, charts: &[Chart]) {
        self.pictures.push(Picture { file: format!("{file}.svg"), caption: caption.to_owned(), svg: stack(charts) });
    }

    /// A row of the comparison with a paper.
    pub fn compare(&mut self, what: &str, place: &str, theirs: &str, ours: &str, remark: &str) {
        println!("{what}: {theirs} ({place}); ours {ours}. {remark}");
        let [what, place, theirs, ours, remark] = [what, place, theirs, ours, remark].map(str::to_owned);
        self.comparisons.push(Comparison { what, place, theirs, ours, remark });
    }

    /// Writes the folder anew.
    pub fn write(self) {
        let folder = self.root.join("book/studies").join(&self.name);
        let mut files: Vec<(String, String)> = self.tables;
        if !self.commands.is_empty() {
            files.push(("commands.txt".to_owned(), self.commands.join("\n") + "\n"));
        }
        let mut numbers = "name,value\n".to_owned();
        for (name, value) in &self.numbers {
            let _ = writeln!(numbers, "{},{value}", quoted(name));
        }
        files.push(("numbers.csv".to_owned(), numbers));
        let mut comparison = "| what | place | paper | daesy | remark |\n|---|---|---|---|---|\n".to_owned();
        for row in &self.comparisons {
            let cells =
                [&row.what, &row.place, &row.theirs, &row.ours, &row.remark].map(|cell| cell.replace('|', "\\|"));
            let _ = writeln!(comparison, "| {} |", cells.join(" | "));
        }
        files.push(("comparison.md".to_owned(), comparison));
        let mut pictures = String::new();
        for picture in self.pictures {
            let _ = writeln!(pictures, "{}\t{}", picture.file, picture.caption);
            files.push((picture.file, picture.svg + "\n"));
        }
        files.push(("pictures.txt".to_owned(), pictures));
        let written = (|| {
            if folder.is_dir() {
                fs::remove_dir_all(&folder)?;
            }
            fs::create_dir_all(&folder)?;
            files.iter().try_for_each(|(file, text)| fs::write(folder.join(file), text))
        })();
        if let Err(error) = written {
            eprintln!("study {}: {} cannot be written: {error}", self.name, folder.display());
            std::process::exit(1);
        }
        eprintln!("book/studies/{}: {} files, {:.0} s", self.name, files.len(), self.begun.elapsed().as_secs_f64());
    }
}

/// A number with six digits, as short as it gets; `None` where there is none.
pub fn figure(value: f64) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    let size = rounded.abs();
    if rounded == 0.0 {
        "0".to_owned()
    } else if (1e-4..1e7).contains(&size) {
        format!("{rounded}")
    } else {
        format!("{rounded:e}")
    }
}

/// A number with the given count of digits.
pub fn digits(value: f64, n: usize) -> String {
    let rounded: f64 = format!("{value:.*e}", n.saturating_sub(1)).parse().unwrap_or(value);
    let size = rounded.abs();
    if rounded == 0.0 || (1e-3..1e6).contains(&size) {
        let decimals = if rounded == 0.0 { 0.0 } else { (n as f64 - 1.0 - size.log10().floor()).max(0.0) };
        format!("{rounded:.*}", decimals as usize)
    } else {
        format!("{rounded:.*e}", n.saturating_sub(1))
    }
}

fn quoted(name: &str) -> String {
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name.to_owned() }
}

/// A column of a table; the study ends where there is none.
pub fn column<'a>(table: &'a Table, name: &str) -> &'a [f64] {
    table.names.iter().position(|known| known == name).map_or_else(
        || panic!("the table has no column `{name}`, only {}", table.names.join(", ")),
        |at| table.columns[at].as_slice(),
    )
}

/// A value deep inside an answer's document, by keys and positions.
pub fn at<'a>(answer: &'a Answer, path: &[&str]) -> &'a Value {
    const NOTHING: Value = Value::Null;
    let Some((first, rest)) = path.split_first() else { return &NOTHING };
    let mut value = answer.keys.get(*first).unwrap_or(&NOTHING);
    for key in rest {
        value = match value {
            Value::Array(items) => key.parse().ok().and_then(|at: usize| items.get(at)).unwrap_or(&NOTHING),
            other => other.get(*key).unwrap_or(&NOTHING),
        };
    }
    value
}

/// A number deep inside an answer's document; not a number where there is none.
pub fn number_at(answer: &Answer, path: &[&str]) -> f64 {
    at(answer, path).as_f64().unwrap_or(f64::NAN)
}

/// An estimated parameter.
pub struct Estimated {
    /// Its name.
    pub name: String,
    /// Its value.
    pub estimate: f64,
    /// Its standard error.
    pub std_error: f64,
    /// Its interval of 95 %.
    pub interval: [f64; 2],
}

/// The parameters that `identify` found.
pub fn estimates(answer: &Answer) -> Vec<Estimated> {
    let parameters = answer.keys.get("parameters").and_then(Value::as_array);
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    parameters
        .into_iter()
        .flatten()
        .map(|of| Estimated {
            name: of["name"].as_str().unwrap_or_default().to_owned(),
            estimate: number(&of["estimate"]),
            std_error: number(&of["std_error"]),
            interval: [number(&of["ci95"][0]), number(&of["ci95"][1])],
        })
        .collect()
}

/// Reads a CSV file with a header of names and numbers below.
pub fn read_table(path: &Path) -> Table {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{} cannot be read: {error}", path.display()));
    let mut lines = text.lines();
    let names: Vec<String> =
        lines.next().unwrap_or_default().split(',').map(|name| name.trim().trim_matches('"').to_owned()).collect();
    let mut columns = vec![Vec::new(); names.len()];
    for line in lines.filter(|line| !line.trim().is_empty()) {
        for (column, cell) in columns.iter_mut().zip(line.split(',')) {
            column.push(cell.trim().parse().unwrap_or(f64::NAN));
        }
    }
    Table { names, columns }
}
