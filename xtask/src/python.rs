//! Python environments in the target folder, the package's tests, and the notebooks.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process;
use crate::suite::Outcome;
use crate::workspace::Workspace;

/// Whether the tree has a Python package.
pub fn has_package(workspace: &Workspace) -> bool {
    workspace.root.join("pyproject.toml").is_file()
}

/// Paths of all notebooks of the tree.
pub fn notebooks(workspace: &Workspace) -> Vec<String> {
    workspace.files().into_iter().map(|file| file.path).filter(|path| path.ends_with(".ipynb")).collect()
}

/// Makes (once) the environment `name`, installs packages into it, and returns its interpreter.
pub fn environment(workspace: &Workspace, name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let Some(python) = process::find_program("python3").or_else(|| process::find_program("python")) else {
        return Err("python3 is missing: install Python 3.10 or newer".to_owned());
    };
    let folder = workspace.target.join("python").join(name);
    let interpreter = if cfg!(windows) { folder.join("Scripts/python.exe") } else { folder.join("bin/python") };
    if !interpreter.is_file() {
        process::run(Command::new(python).args(["-m", "venv"]).arg(&folder)).map_err(|message| {
            format!("{message}; Python's venv module is needed (on Debian: apt-get install python3-venv)")
        })?;
    }
    if !packages.is_empty() {
        let mut install = Command::new(&interpreter);
        install.current_dir(&workspace.root).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        process::run(install.args(packages))?;
    }
    Ok(interpreter)
}

/// What tests and notebooks need beside the package.
const REQUIREMENTS: &str = "python/tests/requirements.txt";

/// The environment of tests and notebooks, with the extension built like the rest of the tests and put beside the
/// package.
fn test_environment(workspace: &Workspace) -> Result<PathBuf, String> {
    let mut build = workspace.cargo();
    // With the features that the tests of the whole workspace have, so that nothing is compiled twice.
    process::run(build.args(["build", "--quiet", "--workspace", "--lib", "--locked"]))?;
    let (built, name) = match std::env::consts::OS {
        "windows" => ("_daesy.dll", "_daesy.pyd"),
        "macos" => ("lib_daesy.dylib", "_daesy.abi3.so"),
        _ => ("lib_daesy.so", "_daesy.abi3.so"),
    };
    let (from, to) = (workspace.target.join("debug").join(built), workspace.root.join("python/daesy").join(name));
    // A loaded library must not be written over: the old one goes first.
    let _ = std::fs::remove_file(&to);
    std::fs::copy(&from, &to).map_err(|e| format!("cannot copy {} to {}: {e}", from.display(), to.display()))?;
    environment(workspace, "tests", &["-r", REQUIREMENTS])
}

/// A Python that sees the package.
fn python(workspace: &Workspace, interpreter: &Path) -> Command {
    let mut command = Command::new(interpreter);
    command.current_dir(&workspace.root).env("PYTHONPATH", workspace.root.join("python")).env("MPLBACKEND", "agg");
    command
}

/// Tests and examples of the package, and its types.
pub fn tests(workspace: &Workspace) -> Outcome {
    let result = test_environment(workspace).and_then(|interpreter| {
        process::run(python(workspace, &interpreter).args(["-m", "pytest", "-q"]))?;
        let cache = workspace.target.join("python/mypy");
        process::run(python(workspace, &interpreter).args(["-m", "mypy", "--cache-dir"]).arg(cache).args(TYPED))
    });
    match result {
        Ok(()) => Outcome::Passed(String::new()),
        Err(message) => Outcome::Failed(message),
    }
}

/// What the type checker looks at.
const TYPED: [&str; 2] = ["python/daesy", "python/examples"];

/// Executes every notebook from its own folder; its stored output stays as it is.
pub fn run_notebooks(workspace: &Workspace) -> Outcome {
    let interpreter = match test_environment(workspace) {
        Ok(interpreter) => interpreter,
        Err(message) => return Outcome::Failed(message),
    };
    let notebooks = notebooks(workspace);
    for notebook in &notebooks {
        println!("{notebook}");
        let path = workspace.root.join(notebook);
        let folder = path.parent().unwrap_or(&workspace.root);
        let mut command = python(workspace, &interpreter);
        command.current_dir(folder).args(["-m", "jupyter", "execute"]).arg(&path);
        if let Err(message) = process::run(&mut command) {
            return Outcome::Failed(format!("{notebook}: {message}"));
        }
    }
    Outcome::Passed(format!("{} notebooks", notebooks.len()))
}
