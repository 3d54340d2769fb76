//! `watch`: samples from standard input or a file that grows, objects to standard output as soon as they are known.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use daesy_graph::finding::Level;
use daesy_system::Watch;
use serde_json::Value;

use super::{Answer, Status, WatchArgs, load_for};
use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::watch::{WatchSettings, Watched, future_inputs};

/// How often a file is looked at that has not grown.
const PAUSE: Duration = Duration::from_millis(20);

/// The lines of a file that grows: at its end it is waited for more.
struct Growing {
    file: BufReader<std::fs::File>,
    line: Vec<u8>,
    watch: Watch,
}

impl Growing {
    fn open(path: &Path, watch: Watch) -> std::io::Result<Self> {
        Ok(Self { file: BufReader::new(std::fs::File::open(path)?), line: Vec::new(), watch })
    }
}

/// The longest line of a stream.
const MAX_LINE: u64 = 1 << 20;

/// Reads a part of a line, up to its end if that is there already.
fn read_part(file: &mut impl std::io::BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    let left = MAX_LINE.saturating_sub(line.len() as u64);
    if left == 0 {
        let message = format!("a line is longer than {MAX_LINE} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, message));
    }
    file.by_ref().take(left).read_until(b'\n', line)
}

fn text_of(line: &mut Vec<u8>) -> String {
    let text = String::from_utf8_lossy(line).into_owned();
    line.clear();
    text
}

impl Iterator for Growing {
    type Item = std::io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.watch.is_stopped() {
                return None;
            }
            match read_part(&mut self.file, &mut self.line) {
                Err(error) => return Some(Err(error)),
                Ok(_) if self.line.ends_with(b"\n") => return Some(Ok(text_of(&mut self.line))),
                Ok(_) => std::thread::sleep(PAUSE),
            }
        }
    }
}

/// The lines of standard input.
struct Standard {
    input: std::io::StdinLock<'static>,
    line: Vec<u8>,
}

impl Iterator for Standard {
    type Item = std::io::Result<String>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match read_part(&mut self.input, &mut self.line) {
                Err(error) => return Some(Err(error)),
                Ok(_) if self.line.ends_with(b"\n") => return Some(Ok(text_of(&mut self.line))),
                Ok(0) if self.line.is_empty() => return None,
                Ok(0) => return Some(Ok(text_of(&mut self.line))),
                Ok(_) => {}
            }
        }
    }
}

pub(super) fn watch_verb(args: &WatchArgs) -> Answer {
    let mut lines: Box<dyn Iterator<Item = std::io::Result<String>>> = match &args.follow {
        None => Box::new(Standard { input: std::io::stdin().lock(), line: Vec::new() }),
        Some(path) => match Growing::open(path, args.file.caller.watch.clone()) {
            Ok(lines) => Box::new(lines),
            Err(error) => {
                let shown = path.display().to_string();
                let message = format!("`{shown}` cannot be read: {error}");
                let wrong = Failure::Input(vec![Diagnostic::about_file("data-file", &shown, message)]);
                return Answer::new("watch").refused(wrong);
            }
        },
    };
    let shown = args.follow.as_ref().map_or_else(|| "stdin".to_owned(), |path| path.display().to_string());
    let mut stdout = std::io::stdout().lock();
    let mut tell = |object: &Value| {
        let mut line = object.to_string();
        line.push('\n');
        stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush()).is_ok()
    };
    watch_lines(args, &shown, &mut lines, &mut tell)
}

/// Watches lines, wherever they come from and wherever objects go.
pub(super) fn watch_lines(
    args: &WatchArgs,
    shown: &str,
    lines: &mut dyn Iterator<Item = std::io::Result<String>>,
    tell: &mut dyn FnMut(&Value) -> bool,
) -> Answer {
    let mut answer = Answer::new("watch");
    let loaded = match load_for(&args.file, "watch") {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    answer.model = Some(loaded.flat.model.clone());
    answer.diagnostics = loaded.diagnostics.clone();
    let watched = future_inputs(&loaded, args.future.as_deref()).and_then(|future| {
        let settings = WatchSettings {
            false_alarm_rate: args.false_alarm_rate,
            horizon: args.horizon,
            future,
            step: args.step,
            seed: args.file.common.seed,
        };
        Watched::new(&loaded, settings)
    });
    let mut watched = match watched {
        Ok(watched) => watched,
        Err(failure) => return answer.refused(failure),
    };
    answer.diagnostics.extend(watched.notes());
    match watched.run(shown, lines, args.state.as_deref(), tell) {
        Ok(summary) => {
            answer.keys = summary.to_json();
            answer.diagnostics.push(Diagnostic::note("watched", summary.to_text()));
            if summary.n_samples + summary.n_known == 0 {
                let message = "the stream had no sample that could be used";
                let warning = Diagnostic::new(Level::Error, "no-samples", message);
                return answer.fail(Status::Fault, vec![warning]);
            }
            answer
        }
        Err(failure) => answer.refused(failure),
    }
}
