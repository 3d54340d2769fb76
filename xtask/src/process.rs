//! Running other programs, and saying clearly which one is missing.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The cargo that runs this program.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Whether the checks run where a missing tool is an error.
pub fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

/// Runs a command to its end with its output on the terminal.
pub fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("cannot start {}: {e}", describe(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", describe(command))) }
}

/// Runs a command, showing its standard output and handing every line to `see`.
pub fn run_watched(command: &mut Command, mut see: impl FnMut(&str)) -> Result<(), String> {
    command.stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("cannot start {}: {e}", describe(command)))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            println!("{line}");
            see(&line);
        }
    }
    let status = child.wait().map_err(|e| format!("lost {}: {e}", describe(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{} ended with {status}", describe(command))) }
}

/// What a program printed and how it ended.
pub struct Finished {
    /// Exit status; `None` when a signal or the time limit ended it.
    pub status: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Whether the time limit ended it.
    pub is_timed_out: bool,
}

/// Runs a command with its output in files below `log_folder`, for at most `limit`.
pub fn run_captured(command: &mut Command, log_folder: &Path, limit: Duration) -> Result<Finished, String> {
    let explain = |e: std::io::Error| format!("cannot run a program in {}: {e}", log_folder.display());
    std::fs::create_dir_all(log_folder).map_err(explain)?;
    let stdout_path = log_folder.join("stdout");
    let stderr_path = log_folder.join("stderr");
    command
        .stdin(Stdio::null())
        .stdout(File::create(&stdout_path).map_err(explain)?)
        .stderr(File::create(&stderr_path).map_err(explain)?);
    let mut child = command.spawn().map_err(|e| format!("cannot start {}: {e}", describe(command)))?;
    let start = Instant::now();
    let mut is_timed_out = false;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(explain)? {
            break status.code();
        }
        if start.elapsed() > limit {
            is_timed_out = true;
            child.kill().map_err(explain)?;
            child.wait().map_err(explain)?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    Ok(Finished { status, stdout: read(&stdout_path), stderr: read(&stderr_path), is_timed_out })
}

/// Finds a program on the PATH.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn describe(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|a| a.to_string_lossy().into_owned()));
    format!("`{}`", words.join(" "))
}
