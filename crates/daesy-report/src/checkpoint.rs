//! Results of a long run in a file, so that the same command goes on where it ended. One format for all verbs.
//!
//! The first line says what the file is, which run it belongs to, and closes with a checksum. Every other line is one
//! result: its key, its numbers by their bits, so that what is read back is what was computed, and a checksum:
//!
//! ```text
//! daesy checkpoint 2 9da0fbd9c4dd470c 5f0c9c1ae4b1f6d2
//! cost:4010000000000000 3f04f1342ba87dff 0d4dd1f2b8a1c3e7
//! ```
//!
//! A checksum is the fingerprint of the line up to it, after the run and the number of the line: a line that was
//! changed, cut, moved or taken from another file is told, not used. The fingerprint steps once for each byte, by a
//! map that is one-to-one in the state for every byte and in the byte for every state, so that a single changed byte
//! always changes it [@fowler1991].
//!
//! The file is written whole or not at all: a run that is killed leaves what was written last.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use daesy_graph::source::Place;
use daesy_model::file::read_text;
use rustc_hash::FxHashMap;

use crate::file::write_with;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::load::Loaded;

const HEAD: &str = "daesy checkpoint 2";

/// Time between two writings at least; a writing that takes long is followed by ten times that.
const PAUSE: Duration = Duration::from_millis(20);

/// Which run results belong to: a number that stands for everything that decides them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run(u64);

impl Run {
    /// The run of a command on what was loaded: version of the program, command with its options, flat model, study,
    /// and data with their headers.
    ///
    /// # Errors
    /// When data cannot be read.
    pub fn new(loaded: &Loaded, command: &str) -> Result<Self, Vec<Diagnostic>> {
        let mut text = Parts::default();
        text.add(env!("CARGO_PKG_VERSION"));
        text.add(command);
        text.add(&crate::flat_text::to_base_modelica(&loaded.flat));
        for file in loaded.study.iter().flat_map(|study| study.sources.files()) {
            text.add(&file.text);
        }
        if loaded.has_data() {
            for data in loaded.experiments()? {
                for name in &data.names {
                    text.add(name);
                }
                for column in std::iter::once(&data.times).chain(&data.columns) {
                    text.add(&numbers_text(column));
                }
            }
        }
        Ok(Self(fingerprint(text.0.as_bytes())))
    }
}

/// Texts one after the other, each with its length, so that no two lists of texts make the same whole.
#[derive(Default)]
struct Parts(String);

impl Parts {
    fn add(&mut self, text: &str) {
        let _ = writeln!(self.0, "{} {text}", text.len());
    }
}

/// A number that stands for bytes: the same on every machine. [@fowler1991]
fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Numbers by their bits.
fn numbers_text(numbers: &[f64]) -> String {
    let mut text = String::with_capacity(17 * numbers.len());
    for number in numbers {
        let _ = write!(text, " {:016x}", number.to_bits());
    }
    text
}

/// The key of a result: what it is, and the point it was found at.
#[must_use]
pub fn key(kind: &str, point: &[f64]) -> String {
    let mut key = kind.to_owned();
    for number in point {
        let _ = write!(key, ":{:016x}", number.to_bits());
    }
    key
}

#[derive(Debug)]
struct Entry {
    key: String,
    numbers: Vec<f64>,
}

impl Entry {
    fn text(&self) -> String {
        format!("{}{}", self.key, numbers_text(&self.numbers))
    }

    /// The entry that a line without its checksum says.
    fn read(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let key = words.next().filter(|key| !key.is_empty())?.to_owned();
        let number = |word: &str| u64::from_str_radix(word, 16).ok().map(f64::from_bits);
        Some(Self { key, numbers: words.map(number).collect::<Option<Vec<f64>>>()? })
    }
}

/// Results that are known, in a file or in none.
#[derive(Debug)]
pub struct Checkpoint {
    path: Option<PathBuf>,
    run: Run,
    entries: Vec<Entry>,
    places: FxHashMap<String, usize>,
    is_written: bool,
    written_at: Instant,
    pause: Duration,
}

impl Checkpoint {
    /// No file: nothing is kept.
    #[must_use]
    pub fn none() -> Self {
        Self::empty(None, Run(0))
    }

    fn empty(path: Option<PathBuf>, run: Run) -> Self {
        Self {
            path,
            run,
            entries: Vec::new(),
            places: FxHashMap::default(),
            is_written: true,
            written_at: Instant::now(),
            pause: PAUSE,
        }
    }

    /// Reads a file, or begins one, for the results of a run.
    ///
    /// # Errors
    /// When it cannot be read or written, is damaged, or belongs to another run.
    pub fn open(path: &Path, run: Run) -> Result<Self, Diagnostic> {
        let mut opened = Self::empty(Some(path.to_path_buf()), run);
        match read_text(path, u64::MAX) {
            Ok(text) if text.is_empty() => {}
            Ok(text) => {
                opened.read(&text)?;
                opened.is_written = true;
                return Ok(opened);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(opened.wrong(1, format!("cannot be read: {error}"))),
        }
        // Told now, not after hours.
        opened.write()?;
        Ok(opened)
    }

    fn read(&mut self, text: &str) -> Result<(), Diagnostic> {
        let Some(body) = text.strip_suffix('\n') else {
            return Err(self.wrong(text.lines().count(), "is damaged: its last line was cut short".to_owned()));
        };
        for (at, line) in body.split('\n').enumerate() {
            let number = at + 1;
            if at == 0 {
                self.read_head(line)?;
                continue;
            }
            let entry = line.rsplit_once(' ').filter(|(content, sum)| *sum == self.checksum(number, content));
            let Some(entry) = entry.and_then(|(content, _)| Entry::read(content)) else {
                return Err(
                    self.wrong(number, format!("is damaged: the checksum of line {number} is not that of its text"))
                );
            };
            self.insert(entry);
        }
        Ok(())
    }

    fn read_head(&self, line: &str) -> Result<(), Diagnostic> {
        if line == self.head() {
            return Ok(());
        }
        let cause = match line.strip_prefix(HEAD).map(|rest| rest.trim().split(' ').collect::<Vec<_>>()) {
            Some(words) if words.len() == 2 => match u64::from_str_radix(words[0], 16) {
                Ok(other) if line == Self::empty(None, Run(other)).head() => {
                    "belongs to another command, model, study, data or version of daesy"
                }
                _ => "is damaged: its first line was changed",
            },
            _ => "is no checkpoint of this version of daesy",
        };
        Err(self.wrong(1, cause.to_owned()))
    }

    fn head(&self) -> String {
        let content = format!("{HEAD} {:016x}", self.run.0);
        let sum = self.checksum(1, &content);
        format!("{content} {sum}")
    }

    fn checksum(&self, line: usize, content: &str) -> String {
        format!("{:016x}", fingerprint(format!("{:016x} {line} {content}", self.run.0).as_bytes()))
    }

    fn wrong(&self, line: usize, cause: String) -> Diagnostic {
        let file = self.path.as_ref().map_or_else(String::new, |path| path.display().to_string());
        let mut diagnostic = Diagnostic::about_file("checkpoint", &file, format!("the checkpoint `{file}` {cause}"))
            .with_help("name another file, or remove this one to begin anew");
        diagnostic.place = Some(Place { file, line: u32::try_from(line).unwrap_or(u32::MAX), column: 1 });
        diagnostic
    }

    fn insert(&mut self, entry: Entry) {
        self.is_written = false;
        match self.places.get(&entry.key) {
            Some(&at) => self.entries[at] = entry,
            None => {
                self.places.insert(entry.key.clone(), self.entries.len());
                self.entries.push(entry);
            }
        }
    }

    /// Whether there is a file.
    #[must_use]
    pub const fn is_kept(&self) -> bool {
        self.path.is_some()
    }

    /// A result, if it is known.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&[f64]> {
        self.places.get(key).map(|&at| self.entries[at].numbers.as_slice())
    }

    /// Keeps a result; it is in the file soon, and at the latest when the run ends.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn put(&mut self, key: &str, numbers: &[f64]) -> Result<(), Diagnostic> {
        if self.path.is_none() {
            return Ok(());
        }
        self.insert(Entry { key: key.to_owned(), numbers: numbers.to_vec() });
        if self.written_at.elapsed() >= self.pause { self.write() } else { Ok(()) }
    }

    /// Writes what is not in the file yet.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&mut self) -> Result<(), Diagnostic> {
        if self.is_written { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<(), Diagnostic> {
        let Some(path) = &self.path else { return Ok(()) };
        let begun = Instant::now();
        let written = write_with(path, |file| {
            writeln!(file, "{}", self.head())?;
            for (at, entry) in self.entries.iter().enumerate() {
                let content = entry.text();
                writeln!(file, "{content} {}", self.checksum(at + 2, &content))?;
            }
            Ok(())
        });
        written.map_err(|error| self.wrong(1, format!("cannot be written: {error}")))?;
        self.is_written = true;
        self.written_at = Instant::now();
        self.pause = PAUSE.max(10 * begun.elapsed());
        Ok(())
    }
}

impl Drop for Checkpoint {
    /// A run that fails keeps what it found. A run that succeeds has saved, and told if it could not.
    fn drop(&mut self) {
        let _ = self.save();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("daesy-checkpoint-{name}-{}.txt", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    }

    #[test]
    fn results_are_read_back_by_their_bits() {
        let path = file("bits");
        let values = [0.1 + 0.2, f64::NAN, -0.0];
        let mut first = Checkpoint::open(&path, Run(7)).unwrap();
        first.put(&key("cost", &[1.0, 2.0]), &values).unwrap();
        first.put(&key("cost", &[1.0, 3.0]), &[]).unwrap();
        drop(first);
        let again = Checkpoint::open(&path, Run(7)).unwrap();
        let read = again.get(&key("cost", &[1.0, 2.0])).unwrap();
        assert!(read.len() == 3 && read.iter().zip(values).all(|(read, value)| read.to_bits() == value.to_bits()));
        assert_eq!(again.get(&key("cost", &[1.0, 3.0])), Some(&[][..]));
        assert!(Checkpoint::open(&path, Run(8)).unwrap_err().message.contains("another command"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_result_that_takes_the_place_of_another_is_in_the_file_at_the_end() {
        let path = file("replaced");
        let mut first = Checkpoint::open(&path, Run(7)).unwrap();
        first.put("state", &[1.0]).unwrap();
        first.save().unwrap();
        first.put("state", &[2.0]).unwrap();
        first.save().unwrap();
        assert_eq!(Checkpoint::open(&path, Run(7)).unwrap().get("state"), Some(&[2.0][..]));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn no_changed_byte_and_no_cut_is_used() {
        let path = file("damage");
        let mut first = Checkpoint::open(&path, Run(7)).unwrap();
        for at in 0..3 {
            first.put(&key("a", &[f64::from(at)]), &[f64::from(at).sqrt()]).unwrap();
        }
        drop(first);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            std::fs::write(&path, &changed).unwrap();
            assert_eq!(Checkpoint::open(&path, Run(7)).unwrap_err().code, "checkpoint", "byte {at}");
            if whole[at] != b'\n' {
                std::fs::write(&path, &whole[..=at]).unwrap();
                let told = Checkpoint::open(&path, Run(7)).unwrap_err();
                let line = 1 + whole[..at].iter().filter(|byte| **byte == b'\n').count() as u32;
                assert_eq!(told.place.unwrap().line, line, "cut after byte {at}");
            }
        }
        let text = String::from_utf8(whole).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        std::fs::write(&path, [lines[0], lines[2], lines[1], lines[3], ""].join("\n")).unwrap();
        assert_eq!(Checkpoint::open(&path, Run(7)).unwrap_err().place.unwrap().line, 2);
        std::fs::remove_file(&path).unwrap();
    }
}
