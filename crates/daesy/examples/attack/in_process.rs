//! Mutation of texts for the parser, the flattener, the study reader and the reader of units, within this process.
//!
//! Takes files (or folders of them) as seeds, `.mo` or for `study` `.toml` and for `unit` `.xml`, mutates them by bytes and by tokens, and
//! checks what must hold for every text: no panic, no hang, no explosion of memory. The parser must also give tokens
//! that make up the text, spans that lie in it on character boundaries, and a printed tree that reads as the same
//! tree. The flattener's results go on through regularization and compilation. A text that fails is written to
//! `attack_failure.mo` in the folder for temporary files; after an abort the last text is in `attack_current.mo`
//! there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use daesy::embedded;
use daesy::load::{LoadOptions, load_study_text};
use daesy_graph::{FileId, Level};
use daesy_model::syntax::ClassKind;
use daesy_model::{FlattenOptions, Library, flatten, lexer, parser, print};
use daesy_structure::regularize;

use crate::mutate::{Random, change, window};
use crate::units::{SEEDS, check_unit};

/// Texts that take longer are tried again.
const SLOW: Duration = Duration::from_millis(300);

const NOWHERE: FileId = FileId(u32::MAX);

/// What is attacked.
#[derive(Clone, Copy, PartialEq)]
pub enum Target {
    Parse,
    Flatten,
    Study,
    Unit,
}

impl Target {
    /// The target that a word names.
    pub fn named(word: &str) -> Option<Self> {
        [("parse", Self::Parse), ("flatten", Self::Flatten), ("study", Self::Study), ("unit", Self::Unit)]
            .into_iter()
            .find(|(name, _)| *name == word)
            .map(|(_, target)| target)
    }

    fn extension(self) -> &'static str {
        match self {
            Self::Study => "toml",
            Self::Unit => "xml",
            Self::Parse | Self::Flatten => "mo",
        }
    }

    fn check(self, text: &str) -> Result<bool, String> {
        match self {
            Self::Parse => check_parser(text),
            Self::Flatten => check_flattener(text),
            Self::Study => Ok(load_study_text("attack.toml", text, Path::new("."), &LoadOptions::default()).is_ok()),
            Self::Unit => check_unit(text),
        }
    }
}

fn collect(path: &Path, extension: &str, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        let Ok(entries) = std::fs::read_dir(path) else { return };
        let mut entries: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for entry in entries {
            collect(&entry, extension, files);
        }
    } else if path.extension().is_some_and(|found| found == extension) {
        files.push(path.to_owned());
    }
}

/// A text made from seeds by a few random changes.
fn mutate(random: &mut Random, seeds: &[String]) -> String {
    let seed = &seeds[random.below(seeds.len())];
    // A window of a large seed is enough, and faster.
    let mut text = window(random, seed, 6_000);
    for _ in 0..=random.below(6) {
        text = change(random, text, seeds);
    }
    text
}

/// What must hold for every text that is parsed.
fn check_parser(text: &str) -> Result<bool, String> {
    let mut at = 0;
    for token in lexer::tokens(text) {
        if token.start as usize != at || token.end <= token.start || !text.is_char_boundary(token.end as usize) {
            return Err(format!("token {token:?} at {at}"));
        }
        at = token.end as usize;
    }
    if at != text.len() {
        return Err(format!("tokens end at {at} of {}", text.len()));
    }
    let parsed = parser::parse(FileId(0), text);
    for finding in &parsed.findings {
        for span in finding.labels.iter().map(|label| label.span).chain([finding.span]) {
            if text.get(span.start as usize..span.end as usize).is_none() {
                return Err(format!("span {span:?} of {finding:?}"));
            }
        }
    }
    if parsed.findings.iter().any(|finding| finding.level == Level::Error) {
        return Ok(false);
    }
    let first = parser::parse(NOWHERE, text).definition;
    let printed = print::print(&first);
    let again = parser::parse(NOWHERE, &printed).definition;
    if format!("{first:?}") != format!("{again:?}") {
        return Err(format!("printing changes the tree:\n{printed}"));
    }
    Ok(true)
}

/// Flattens the last class of a text that is a model, and goes on as far as the model lets it.
fn check_flattener(text: &str) -> Result<bool, String> {
    let definition = parser::parse(FileId(0), text).definition;
    let is_model = |kind| matches!(kind, ClassKind::Model | ClassKind::Block | ClassKind::Class);
    let Some(class) = definition.classes.iter().rev().find(|class| is_model(class.kind)) else { return Ok(false) };
    let mut library = Library::with_embedded(embedded::FILES);
    library.add_text("attack.mo", text);
    let mut options = FlattenOptions::default();
    options.max_scalars = 20_000;
    options.max_work = 2_000_000;
    let Ok(flat) = flatten(&library, class.name.name.text(), &options) else { return Ok(false) };
    let _ = daesy::flat_text::to_base_modelica(&flat);
    let _ = daesy::flat_text::to_json(&flat);
    let Ok(regular) = regularize(flat) else { return Ok(false) };
    Ok(daesy_compile::compile(regular).is_ok())
}

/// What the worker says about one text.
struct Verdict {
    text: String,
    result: Result<bool, String>,
    elapsed: Duration,
}

/// Attacks for so many seconds.
pub fn attack(target: Target, seconds: u64, seed: u64, given: &[PathBuf]) -> ExitCode {
    let mut paths = Vec::new();
    for path in given {
        collect(path, target.extension(), &mut paths);
    }
    let mut seeds: Vec<String> = paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()).collect();
    seeds.extend(SEEDS.map(str::to_owned).into_iter().filter(|_| target == Target::Unit));
    seeds.push(match target {
        Target::Unit => "<a/>".to_owned(),
        Target::Study => "[linear]\nE = [[1, 0], [0, 0]]\nF = [[-1, \"a\"], [1, 1]]\n[parameters]\na = 2\n".to_owned(),
        Target::Parse | Target::Flatten => "model M Real x(start = 1); equation der(x) = -x; end M;".to_owned(),
    });
    println!("{} seeds, {seconds} s", seeds.len());

    // The worker has the stack of a test thread, so that an overflow shows here first.
    let (to_worker, texts) = mpsc::sync_channel::<String>(0);
    let (to_main, verdicts) = mpsc::channel::<Verdict>();
    let worker = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        std::panic::set_hook(Box::new(|_| {}));
        for text in texts {
            // The fastest of a few runs: a busy machine is no failure.
            let mut elapsed = Duration::MAX;
            let mut result = Ok(false);
            for _ in 0..3 {
                let start = Instant::now();
                result = catch_unwind(AssertUnwindSafe(|| target.check(&text))).unwrap_or_else(|cause| {
                    let message = cause.downcast_ref::<String>().map(String::as_str);
                    Err(format!("panic: {}", message.or(cause.downcast_ref::<&str>().copied()).unwrap_or("?")))
                });
                elapsed = elapsed.min(start.elapsed());
                if result.is_err() || elapsed < SLOW {
                    break;
                }
            }
            if to_main.send(Verdict { text, result, elapsed }).is_err() {
                return;
            }
        }
    });
    if let Err(error) = worker {
        println!("no thread: {error}");
        return ExitCode::FAILURE;
    }

    let failure = std::env::temp_dir().join("attack_failure.mo");
    let current = std::env::temp_dir().join("attack_current.mo");
    let mut random = Random(seed ^ 0x5851_f42d_4c95_7f2d);
    let start = Instant::now();
    let (mut n_texts, mut n_right, mut n_bytes) = (0_u64, 0_u64, 0_u64);
    let mut slowest = Duration::ZERO;
    while start.elapsed() < Duration::from_secs(seconds) {
        let text = mutate(&mut random, &seeds);
        let copy = text.clone();
        // A stack overflow or the lack of memory ends the program at once: the text must be on disk by then.
        if target == Target::Flatten && std::fs::write(&current, &text).is_err() {
            println!("cannot write {}", current.display());
            return ExitCode::FAILURE;
        }
        if to_worker.send(text).is_err() {
            break;
        }
        let problem = match verdicts.recv_timeout(Duration::from_secs(20)) {
            Ok(Verdict { text, result, elapsed }) => {
                n_texts += 1;
                n_bytes += text.len() as u64;
                n_right += u64::from(result == Ok(true));
                slowest = slowest.max(elapsed);
                match result {
                    // Quadratic time is a failure.
                    Ok(_)
                        if target == Target::Parse && elapsed > Duration::from_millis(500 + text.len() as u64 / 20) =>
                    {
                        Some(format!("took {} ms for {} bytes", elapsed.as_millis(), text.len()))
                    }
                    Ok(_) => None,
                    Err(problem) => Some(problem),
                }
            }
            Err(_) => Some("no answer within 20 s".to_owned()),
        };
        if let Some(problem) = problem {
            println!("{problem}\nafter {n_texts} texts; written to {}", failure.display());
            if let Err(error) = std::fs::write(&failure, copy) {
                println!("which failed: {error}");
            }
            return ExitCode::FAILURE;
        }
    }
    println!(
        "{n_texts} texts ({:.0} MB), {n_right} without errors, slowest {} ms: no failure",
        n_bytes as f64 / 1e6,
        slowest.as_millis()
    );
    ExitCode::SUCCESS
}
