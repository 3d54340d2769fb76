//! Peers from the Python Package Index, driven by the scripts in `bench/peers`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Environment variable with the interpreter that has the peer's package; `cargo xtask bench` sets it.
const INTERPRETER: &str = "DAESY_BENCH_PYTHON";

/// Runs `bench/peers/SCRIPT` on a text and returns what it prints.
///
/// # Errors
/// A sentence that says what is missing or what went wrong.
pub fn run(script: &str, input: &str) -> Result<String, String> {
    let Some(interpreter) = std::env::var_os(INTERPRETER).map(PathBuf::from) else {
        return Err(format!(
            "no Python interpreter with the peer: {INTERPRETER} is not set (`cargo xtask bench` makes the environment)"
        ));
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join(script);
    let mut child = Command::new(&interpreter)
        .arg(&path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", interpreter.display()))?;
    let Some(mut stdin) = child.stdin.take() else { return Err("the peer's input is closed".to_owned()) };
    // A peer may answer only after it has read everything.
    stdin.write_all(input.as_bytes()).map_err(|e| format!("the peer does not listen: {e}"))?;
    drop(stdin);
    let output = child.wait_with_output().map_err(|e| format!("the peer's answer is lost: {e}"))?;
    if !output.status.success() {
        return Err(format!("{script} ended with {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
