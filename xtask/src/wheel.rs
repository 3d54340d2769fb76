//! The wheel: one file with the Python package, its extension and the program, for every Python from 3.10 on.

use std::path::PathBuf;
use std::process::Command;

use crate::process;
use crate::python::environment;
use crate::workspace::Workspace;

/// What builds wheels.
const MATURIN: &str = "maturin>=1.9,<2";

/// Builds the wheel into `target/wheels`, installs it into an empty environment and asks the program in it for its
/// version.
pub fn run(workspace: &Workspace, arguments: &[String]) -> bool {
    match build(workspace, arguments) {
        Ok(wheel) => {
            println!("{}", wheel.display());
            true
        }
        Err(message) => {
            eprintln!("{message}");
            false
        }
    }
}

fn build(workspace: &Workspace, arguments: &[String]) -> Result<PathBuf, String> {
    let interpreter = environment(workspace, "wheel", &[MATURIN])?;
    let folder = workspace.target.join("wheels");
    // Wheels of earlier versions would be taken for the new one.
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = Command::new(&interpreter);
    command.current_dir(&workspace.root).args(["-m", "maturin", "build", "--release", "--locked", "--out"]);
    process::run(command.arg(&folder).args(arguments))?;
    let wheel = std::fs::read_dir(&folder)
        .map_err(|error| format!("cannot read {}: {error}", folder.display()))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"))
        .ok_or_else(|| format!("maturin left no wheel in {}", folder.display()))?;
    let is_for_here = !arguments.iter().any(|argument| argument.starts_with("--target"));
    if is_for_here {
        try_out(workspace, &wheel)?;
    }
    Ok(wheel)
}

/// Installs the wheel where nothing else is, and runs what it brings.
fn try_out(workspace: &Workspace, wheel: &std::path::Path) -> Result<(), String> {
    let _ = std::fs::remove_dir_all(workspace.target.join("python/empty"));
    let path = wheel.display().to_string();
    let interpreter = environment(workspace, "empty", &[&path])?;
    let folder = interpreter.parent().map(std::path::Path::to_path_buf).unwrap_or_default();
    let program = folder.join(if cfg!(windows) { "daesy.exe" } else { "daesy" });
    process::run(Command::new(program).current_dir(&workspace.target).arg("--version"))?;
    let script = "import daesy; m = daesy.parse('model A Real x(start=1, fixed=true); equation der(x) = -x; end A;'); \
                  assert abs(m.simulate(stop=1, rtol=1e-8)['x'][-1] - 0.36787944) < 1e-6";
    process::run(Command::new(&interpreter).current_dir(&workspace.target).args(["-c", script]))
}
