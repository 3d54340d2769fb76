//! Worker processes as the program sees them: started from the program itself, asked, watched and ended.

use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use crate::error::ForeignError;
use crate::message::{Answer, Frame, Parcel, verb};

/// The verb that makes the program a worker.
pub const WORKER_VERB: &str = "fmu-worker";
/// Seconds that a unit may take for one answer, if the environment says nothing.
const SECONDS: u64 = 120;
/// The environment variable that sets another limit.
const SECONDS_NAME: &str = "DAESY_FMU_SECONDS";

static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();

/// Says how the program `daesy` is started, where the process is another one (Python, say): the file and arguments that
/// come before the verb. The first call counts.
pub fn set_program(words: Vec<OsString>) {
    let _ = PROGRAM.set(words);
}

/// The program that workers are started from.
fn program() -> Result<Vec<OsString>, ForeignError> {
    if let Some(words) = PROGRAM.get().filter(|words| !words.is_empty()) {
        return Ok(words.clone());
    }
    Ok(vec![own_program()?.into_os_string()])
}

/// The file of the program: this process, or one beside it or on the PATH.
fn own_program() -> Result<PathBuf, ForeignError> {
    let name = format!("daesy{}", std::env::consts::EXE_SUFFIX);
    let own = std::env::current_exe().ok();
    let is_it = |path: &Path| path.file_name().is_some_and(|file| file == name.as_str()) && path.is_file();
    if let Some(own) = own.as_ref().filter(|own| is_it(own)) {
        return Ok(own.clone());
    }
    let beside = own.as_ref().and_then(|own| own.parent()).into_iter();
    // Tests are in a folder below the program's.
    let above = own.as_ref().and_then(|own| own.parent()?.parent()).into_iter();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.chain(above).map(Path::to_path_buf).chain(std::env::split_paths(&path));
    let found = folders.map(|folder| folder.join(&name)).find(|path| is_it(path));
    found.ok_or_else(|| ForeignError::NoWorker {
        reason: format!("the program `{name}` is neither beside this one nor on the PATH"),
    })
}

/// The time limit for one answer.
fn seconds() -> u64 {
    let asked = std::env::var(SECONDS_NAME).ok().and_then(|text| text.trim().parse().ok());
    asked.filter(|&seconds| seconds > 0).unwrap_or(SECONDS)
}

/// What the watchdog knows of a worker.
#[derive(Debug)]
struct Watched {
    child: Mutex<Child>,
    /// Milliseconds since the start of the watchdog at which the answer is due; 0 while none is.
    due: AtomicU64,
    is_hung: AtomicBool,
}

/// The thread that ends workers that do not answer.
struct Watchdog {
    since: Instant,
    watched: Mutex<Vec<Weak<Watched>>>,
}

fn watchdog() -> &'static Watchdog {
    static WATCHDOG: OnceLock<Watchdog> = OnceLock::new();
    static STARTED: OnceLock<bool> = OnceLock::new();
    let dog = WATCHDOG.get_or_init(|| Watchdog { since: Instant::now(), watched: Mutex::new(Vec::new()) });
    STARTED
        .get_or_init(|| std::thread::Builder::new().name("fmu-watchdog".to_owned()).spawn(|| watchdog().run()).is_ok());
    dog
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Watchdog {
    fn now(&self) -> u64 {
        self.since.elapsed().as_millis() as u64
    }

    fn run(&self) {
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = self.now();
            let mut watched = lock(&self.watched);
            watched.retain(|one| one.strong_count() > 0);
            for one in watched.iter().filter_map(Weak::upgrade) {
                let due = one.due.load(Ordering::Acquire);
                if due > 0 && now > due {
                    one.is_hung.store(true, Ordering::Release);
                    let _ = lock(&one.child).kill();
                }
            }
        }
    }
}

/// Who answers questions about a unit.
pub(crate) trait Answering: std::fmt::Debug + Send {
    /// Asks; the error is about the worker, whose end it is. `doing` and `place` are for that error.
    fn ask(&mut self, frame: &Frame, doing: &str, place: &dyn Fn() -> String) -> Result<Answer, ForeignError>;
}

/// A worker process.
#[derive(Debug)]
pub(crate) struct Process {
    watched: Arc<Watched>,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    seconds: u64,
}

impl Process {
    /// Starts a worker.
    pub(crate) fn start() -> Result<Self, ForeignError> {
        let words = program()?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(WORKER_VERB).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // An interrupt from the terminal ends the program alone: the worker sees that it is gone, and cleans up.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let failed = |reason: String| ForeignError::NoWorker { reason };
        let mut child = command.spawn().map_err(|error| failed(format!("`{}`: {error}", words[0].display())))?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no pipes".to_owned()));
        };
        let watched =
            Arc::new(Watched { child: Mutex::new(child), due: AtomicU64::new(0), is_hung: AtomicBool::new(false) });
        lock(&watchdog().watched).push(Arc::downgrade(&watched));
        Ok(Self { watched, requests, answers: BufReader::new(answers), seconds: seconds() })
    }
}

impl Answering for Process {
    fn ask(&mut self, frame: &Frame, doing: &str, place: &dyn Fn() -> String) -> Result<Answer, ForeignError> {
        let dog = watchdog();
        self.watched.due.store(dog.now() + 1000 * self.seconds, Ordering::Release);
        let sent = frame.send(&mut self.requests);
        let parcel = if sent.is_ok() { Parcel::receive(&mut self.answers) } else { None };
        self.watched.due.store(0, Ordering::Release);
        if let Some(answer) = parcel.and_then(|mut parcel| Answer::read(&mut parcel)) {
            return Ok(answer);
        }
        let doing = doing.to_owned();
        if self.watched.is_hung.load(Ordering::Acquire) {
            return Err(ForeignError::Hung { seconds: self.seconds, doing, place: place() });
        }
        let mut child = lock(&self.watched.child);
        let _ = child.kill();
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        Err(ForeignError::Crashed { how, doing, place: place() })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = Frame::default().byte(verb::CLOSE).send(&mut self.requests);
        // It ends at once, or is ended: a unit may hang when it is freed.
        let mut child = lock(&self.watched.child);
        for _ in 0..40 {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                _ => return,
            }
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}
