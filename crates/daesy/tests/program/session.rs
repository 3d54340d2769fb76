//! Runs the program in a folder of its own.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// A temporary folder with the files of one test.
pub struct Session {
    folder: PathBuf,
}

/// What a run of the program gave.
pub struct Run {
    /// Exit status.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Session {
    /// An empty folder.
    pub fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("daesy-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    /// A folder with one model file.
    pub fn with_model(text: &str) -> Self {
        Self::new().with("model.mo", text)
    }

    /// Adds a file.
    pub fn with(self, name: &str, text: &str) -> Self {
        std::fs::write(self.folder.join(name), text).unwrap();
        self
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The names of all files, sorted.
    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Runs the program in the folder.
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.run_in(&[], arguments)
    }

    /// Runs the program in the folder, with variables of the environment.
    pub fn run_in(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Run {
        let output = Command::new(env!("CARGO_BIN_EXE_daesy"))
            .args(arguments)
            .current_dir(&self.folder)
            .env_remove("MODELICAPATH")
            .envs(environment.iter().copied())
            .output()
            .unwrap();
        let run = Run {
            status: output.status.code().expect("the program ends by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!run.stderr.contains("panicked") && !run.stderr.contains("internal-error"), "{}", run.stderr);
        run
    }

    /// Runs the program with a text on standard input.
    pub fn run_with(&self, arguments: &[&str], input: &str) -> Run {
        let mut child = Command::new(env!("CARGO_BIN_EXE_daesy"))
            .args(arguments)
            .current_dir(&self.folder)
            .env_remove("MODELICAPATH")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let input = input.to_owned();
        // A program that refuses its arguments reads nothing.
        let writer = std::thread::spawn(move || drop(pipe.write_all(input.as_bytes())));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let run = Run {
            status: output.status.code().expect("the program ends by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!run.stderr.contains("panicked") && !run.stderr.contains("internal-error"), "{}", run.stderr);
        run
    }

    /// `daesy check model.mo --json`
    pub fn check(&self) -> Value {
        self.run(&["check", "model.mo", "--json"]).json()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Run {
    /// The one JSON document on standard output.
    pub fn json(&self) -> Value {
        let document: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON ({error}):\n{}\n{}", self.stdout, self.stderr));
        for key in ["daesy", "command", "model", "findings"] {
            assert!(document.get(key).is_some(), "no `{key}` in {document}");
        }
        document
    }

    /// The objects on standard output, one for each line.
    pub fn objects(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A table on standard output, by column.
    pub fn table(&self) -> Table {
        assert_eq!(self.status, 0, "{}", self.stderr);
        Table::parse(&self.stdout)
    }
}

/// A table of numbers.
pub struct Table {
    /// Header.
    pub names: Vec<String>,
    /// Rows.
    pub rows: Vec<Vec<f64>>,
}

impl Table {
    /// Reads a table.
    pub fn parse(text: &str) -> Self {
        let mut lines = text.lines();
        let names = header(lines.next().unwrap());
        let rows = lines.map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
        Self { names, rows }
    }

    /// Reads a table whose empty cells are missing values.
    pub fn parse_sparse(text: &str) -> Self {
        let mut lines = text.lines();
        let names = lines.next().unwrap().split(',').map(str::to_owned).collect();
        let value = |cell: &str| if cell.is_empty() { f64::NAN } else { cell.parse().unwrap() };
        Self { names, rows: lines.map(|line| line.split(',').map(value).collect()).collect() }
    }

    /// A column.
    pub fn column(&self, name: &str) -> Vec<f64> {
        let at = self.names.iter().position(|known| known == name).unwrap_or_else(|| panic!("no column {name}"));
        self.rows.iter().map(|row| row[at]).collect()
    }
}

/// The names of a header, those in quotes with their commas.
fn header(line: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => names.push(String::new()),
            letter => names.last_mut().unwrap().push(letter),
        }
    }
    names
}

/// The codes of a document's findings.
pub fn codes(document: &Value) -> Vec<&str> {
    let findings = document["findings"].as_array().unwrap().iter();
    findings.map(|finding| finding["code"].as_str().unwrap()).collect()
}

/// The finding with a code.
pub fn finding<'a>(document: &'a Value, code: &str) -> &'a Value {
    let findings = document["findings"].as_array().unwrap();
    findings
        .iter()
        .find(|finding| finding["code"] == code)
        .unwrap_or_else(|| panic!("no finding `{code}` among {findings:?}"))
}

/// Texts of a list.
pub fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}
