//! What has been computed so far, in a file, so that the same command goes on where it was stopped.
//!
//! The first line says what the file belongs to; every other line is one point: parameter values, times and columns, each number by its
//! bits, so that a resumed run gives the same bytes as one in a piece.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::points::Trajectory;
use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::table::write_whole;

/// The points known so far.
#[derive(Debug, Default)]
pub struct Checkpoint {
    path: Option<PathBuf>,
    /// What the points belong to.
    key: String,
    known: HashMap<Vec<u64>, Trajectory>,
    text: String,
    is_changed: bool,
}

const HEAD: &str = "daesy uq checkpoint 1 ";

impl Checkpoint {
    /// No file: nothing is kept.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Opens a file, or begins one, for points that belong to `key`.
    ///
    /// # Errors
    /// When the file cannot be read or belongs to something else.
    pub fn open(path: PathBuf, key: &str) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let wrong = |message: String| {
            let diagnostic = Diagnostic::about_file("checkpoint", &shown, message)
                .with_help("name another file, or remove this one to begin anew");
            Failure::Input(vec![diagnostic])
        };
        let mut opened =
            Self { key: key.to_owned(), text: format!("{HEAD}{key}\n"), path: Some(path.clone()), ..Self::default() };
        if !path.exists() {
            return Ok(opened);
        }
        let text =
            std::fs::read_to_string(&path).map_err(|error| wrong(format!("`{shown}` cannot be read: {error}")))?;
        let mut lines = text.lines();
        let head = lines.next().unwrap_or_default();
        if !head.starts_with(HEAD) {
            return Err(wrong(format!("`{shown}` is no checkpoint of `daesy uq`")));
        }
        if head[HEAD.len()..] != opened.key {
            return Err(wrong(format!("the checkpoint `{shown}` belongs to another model, study or setting")));
        }
        for (at, line) in lines.enumerate() {
            let read = |part: Option<&str>| -> Option<Vec<f64>> {
                part?.split_whitespace().map(|word| u64::from_str_radix(word, 16).ok().map(f64::from_bits)).collect()
            };
            let mut parts = line.split(';');
            let (Some(values), Some(times), Some(columns)) =
                (read(parts.next()), read(parts.next()), read(parts.next()))
            else {
                return Err(wrong(format!("line {} of the checkpoint `{shown}` is damaged", at + 2)));
            };
            opened.known.insert(bits(&values), Trajectory { times, columns });
        }
        opened.text = text;
        Ok(opened)
    }

    /// Whether there is a file.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.path.is_some()
    }

    /// What is known of a point.
    #[must_use]
    pub fn take(&self, values: &[f64]) -> Option<Trajectory> {
        self.known.get(&bits(values)).cloned()
    }

    /// Adds a point.
    pub fn add(&mut self, values: &[f64], trajectory: &Trajectory) {
        if self.path.is_none() {
            return;
        }
        let mut write = |numbers: &[f64], end: &str| {
            for number in numbers {
                let _ = write!(self.text, "{:x} ", number.to_bits());
            }
            self.text.push_str(end);
        };
        write(values, ";");
        write(&trajectory.times, ";");
        write(&trajectory.columns, "\n");
        self.is_changed = true;
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn save(&mut self) -> Result<(), Failure> {
        let Some(path) = self.path.as_ref().filter(|_| self.is_changed) else { return Ok(()) };
        self.is_changed = false;
        write_whole(path, self.text.as_bytes()).map_err(|error| {
            let shown = path.display().to_string();
            let message = format!("`{shown}` cannot be written: {error}");
            Failure::Input(vec![Diagnostic::about_file("checkpoint", &shown, message)])
        })
    }
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}
