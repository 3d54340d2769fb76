//! Results of a long run in a file, so that the same command goes on where it ended.
//!
//! The first line says which command the file belongs to. Every other line is a result: a key, and numbers by their bits, so that what
//! is read back is what was computed. A line that was cut short by the end of the process is left out.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use crate::diagnostic::Diagnostic;
use crate::load::Loaded;

const HEAD: &str = "daesy checkpoint 1";

/// A file with results.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    file: File,
    results: FxHashMap<String, Vec<f64>>,
}

/// A number that stands for a text: the same for the same text on every machine. [@fowler1991]
#[must_use]
pub fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// A number that stands for a command on a study: its text, model and data.
///
/// # Errors
/// When data cannot be read.
pub fn fingerprint_of(loaded: &Loaded, command: &str) -> Result<u64, Vec<Diagnostic>> {
    let mut text = format!("{command}\n{}\n", crate::flat_text::to_base_modelica(&loaded.flat));
    if let Some(study) = &loaded.study {
        let _ = write!(text, "{:?}{:?}{:?}", study.unknown, study.disturbances, study.measurements);
        let _ = write!(text, "{:?}{:?}{:?}{:?}", study.inputs, study.identify, study.simulate, study.initial);
    }
    for data in loaded.experiments()? {
        for column in std::iter::once(&data.times).chain(&data.columns) {
            column.iter().for_each(|value| {
                let _ = write!(text, "{:x} ", value.to_bits());
            });
        }
    }
    Ok(fingerprint(&text))
}

/// The key of numbers.
#[must_use]
pub fn key(kind: &str, numbers: &[f64]) -> String {
    let mut key = kind.to_owned();
    for number in numbers {
        let _ = write!(key, ":{:016x}", number.to_bits());
    }
    key
}

impl Checkpoint {
    /// Opens or creates a file for a command that `fingerprint` stands for.
    ///
    /// # Errors
    /// When it cannot be read or written, or belongs to another command.
    pub fn open(path: &Path, fingerprint: u64) -> Result<Self, Diagnostic> {
        let shown = path.display().to_string();
        let problem = |error: &std::io::Error| {
            Diagnostic::about_file("checkpoint", &shown, format!("the checkpoint `{shown}` cannot be used: {error}"))
        };
        let head = format!("{HEAD} {fingerprint:016x}\n");
        let mut results = FxHashMap::default();
        let mut length = 0;
        match std::fs::read_to_string(path) {
            Ok(text) => {
                if !text.is_empty() && !text.starts_with(&head) && !head.starts_with(&text) {
                    return Err(Diagnostic::about_file(
                        "checkpoint",
                        &shown,
                        format!("the checkpoint `{shown}` belongs to another command, study or data"),
                    )
                    .with_help("name another file, or remove this one"));
                }
                for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                    length += line.len() as u64;
                    let mut words = line.split_whitespace();
                    let Some(key) = words.next().filter(|key| *key != "daesy") else { continue };
                    let numbers: Option<Vec<f64>> =
                        words.map(|word| u64::from_str_radix(word, 16).ok().map(f64::from_bits)).collect();
                    if let Some(numbers) = numbers {
                        results.insert(key.to_owned(), numbers);
                    }
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(problem(&error)),
        }
        let mut file =
            OpenOptions::new().create(true).truncate(false).write(true).open(path).map_err(|error| problem(&error))?;
        file.set_len(length).map_err(|error| problem(&error))?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0)).map_err(|error| problem(&error))?;
        if length == 0 {
            file.write_all(head.as_bytes()).map_err(|error| problem(&error))?;
        }
        Ok(Self { path: path.to_path_buf(), file, results })
    }

    /// A result, if it is known.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[f64]> {
        self.results.get(key).map(Vec::as_slice)
    }

    /// Keeps a result.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn put(&mut self, key: &str, numbers: &[f64]) -> Result<(), Diagnostic> {
        let mut line = key.to_owned();
        for number in numbers {
            let _ = write!(line, " {:016x}", number.to_bits());
        }
        line.push('\n');
        self.file.write_all(line.as_bytes()).and_then(|()| self.file.flush()).map_err(|error| {
            let shown = self.path.display().to_string();
            Diagnostic::about_file("checkpoint", &shown, format!("the checkpoint `{shown}` cannot be written: {error}"))
        })?;
        self.results.insert(key.to_owned(), numbers.to_vec());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_survive_a_line_that_was_cut_short() {
        let folder = std::env::temp_dir().join(format!("daesy-checkpoint-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("run.txt");
        let _ = std::fs::remove_file(&path);
        let values = [0.1 + 0.2, f64::NAN, -0.0];
        let mut first = Checkpoint::open(&path, 7).unwrap();
        first.put(&key("cost", &[1.0, 2.0]), &values).unwrap();
        drop(first);
        let mut text = std::fs::read(&path).unwrap();
        let whole = text.len();
        text.extend(b"cost:3ff0 3ff");
        std::fs::write(&path, text).unwrap();
        let again = Checkpoint::open(&path, 7).unwrap();
        let read = again.get(&key("cost", &[1.0, 2.0])).unwrap();
        assert!(read.iter().zip(values).all(|(read, value)| read.to_bits() == value.to_bits()));
        drop(again);
        assert_eq!(std::fs::read(&path).unwrap().len(), whole);
        assert_eq!(Checkpoint::open(&path, 8).unwrap_err().code, "checkpoint");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
