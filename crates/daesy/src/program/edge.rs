//! The outer edge of the program: what goes to standard output and error, and what a defect of the program itself ends
//! as.

use std::any::Any;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use daesy_graph::source::Place;
use serde_json::Value;

use super::arguments::{CommonArgs, FileArgs};
use super::{Answer, Status};
use crate::diagnostic::{Diagnostic, is_reordering, visible};

/// Where the last panic was, on whatever thread.
static PANIC_PLACE: Mutex<Option<String>> = Mutex::new(None);

fn panic_place() -> MutexGuard<'static, Option<String>> {
    PANIC_PLACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes a text to standard output. If that fails, the status says so.
pub(super) fn print(text: &str, status: Status) -> Status {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    match written {
        Ok(()) => status,
        Err(error) => {
            // A reader that has seen enough, such as `head`, closes the pipe.
            if error.kind() != ErrorKind::BrokenPipe {
                let diagnostic = Diagnostic::error("standard-output", format!("the answer cannot be written: {error}"))
                    .with_help("make room, or write to another place");
                let _ = write!(std::io::stderr(), "{}", diagnostic.render(false));
            }
            if status == Status::Done { Status::Fault } else { status }
        }
    }
}

/// The help or version that was asked for.
pub(super) fn print_help(error: &clap::Error) -> Status {
    match error.print() {
        Ok(()) => print("", Status::Done),
        Err(_) => print(&error.render().to_string(), Status::Done),
    }
}

/// What is wrong with the arguments.
pub(super) fn print_wrong_usage(error: &clap::Error) {
    let text = error.render().to_string();
    let shown = visible(&text);
    if shown == text {
        let _ = error.print();
    } else {
        let _ = write!(std::io::stderr(), "{shown}");
    }
}

/// A document as text. Characters that could act on a terminal are escaped; all of them stand within strings.
pub(super) fn json_text(document: &Value) -> String {
    let plain = serde_json::to_string_pretty(document).unwrap_or_default();
    let mut text = String::with_capacity(plain.len() + 1);
    for character in plain.chars() {
        if matches!(character, '\u{7f}'..='\u{9f}') || is_reordering(character) {
            let _ = write!(text, "\\u{:04x}", character as u32);
        } else {
            text.push(character);
        }
    }
    text.push('\n');
    text
}

/// Panics say nothing by themselves from now on: their place is kept for [`guard`].
pub(super) fn quiet_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        *panic_place() = place;
    }));
}

/// An answer in every case: a panic, which is a defect of the program, ends as the finding `internal-error`.
pub(super) fn guard(command: &'static str, answer: impl FnOnce() -> Answer) -> Answer {
    catch_unwind(AssertUnwindSafe(answer)).unwrap_or_else(|payload| {
        let place = panic_place().take();
        let at = place.map_or_else(String::new, |place| format!(" ({place})"));
        let message = format!("daesy itself is at fault: {}{at}", panic_words(payload.as_ref()));
        let diagnostic = Diagnostic::error("internal-error", message)
            .with_help("no result is shown; please report this with the files and the command");
        Answer::new(command).fail(Status::GaveUp, vec![diagnostic])
    })
}

/// So long after its time limit work has to end by itself, in seconds: long computations ask in every step whether they
/// may go on, but reading and analyzing a model do not ask.
const GRACE: f64 = 6.0;

/// Whoever sets it answers: the work, or the clock.
pub(super) type Answered = Arc<AtomicBool>;

/// Ends the program where work does not end soon after its time limit: with an answer, and no file half written.
pub(super) fn end_in_time(command: &'static str, args: &FileArgs, common: &CommonArgs) -> Answered {
    let answered = Answered::default();
    let Some(limit) = args.time_limit else { return answered };
    let (by_clock, common, file) = (Arc::clone(&answered), common.clone(), args.file.display().to_string());
    std::thread::spawn(move || {
        std::thread::sleep(Duration::try_from_secs_f64(limit + GRACE).unwrap_or(Duration::MAX));
        if by_clock.swap(true, Ordering::SeqCst) {
            return;
        }
        crate::file::abandon_all();
        let status = late(command, limit, file).tell(&common);
        std::process::exit(status as i32);
    });
    answered
}

/// The answer to a question that the clock ended.
fn late(command: &'static str, limit: f64, file: String) -> Answer {
    let message = format!(
        "the work did not end within {limit} s, as `--time-limit` asks, nor within the {GRACE} s that it has to end in \
         good order: a model that is being read or analyzed cannot be interrupted"
    );
    let mut diagnostic = Diagnostic::error("time-limit", message)
        .with_help("nothing was written; allow more time, or ask a smaller model");
    diagnostic.place = Some(Place { file, line: 1, column: 1 });
    Answer::new(command).fail(Status::GaveUp, vec![diagnostic])
}

/// Waits for the end of the program if the clock answers.
pub(super) fn leave_to_clock(answered: &Answered) {
    while answered.swap(true, Ordering::SeqCst) {
        std::thread::park();
    }
}

fn panic_words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it stopped without a word").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_answer() {
        let answer = guard("check", || panic!("an index of {} is too large", 7));
        assert_eq!(answer.status, Status::GaveUp);
        assert_eq!(answer.diagnostics[0].code, "internal-error");
        assert!(answer.diagnostics[0].message.contains("an index of 7 is too large"));
        assert!(answer.document()["findings"][0]["help"].is_string());
    }

    #[test]
    fn a_document_holds_nothing_that_acts_on_a_terminal() {
        let document = serde_json::json!({ "a\u{9b}": "\u{1b}[31m\u{7f}\u{202e}ä" });
        let text = json_text(&document);
        assert!(!text.contains(|character: char| character.is_control() && character != '\n'), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
    }
}
