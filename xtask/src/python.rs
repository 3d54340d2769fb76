//! Python environments in the target folder, the package's tests, and the notebooks.

use std::path::PathBuf;
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
        return Err("python3 is missing: install Python 3.11 or newer".to_owned());
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

/// Builds and installs the package with its test requirements and runs its tests.
pub fn tests(workspace: &Workspace) -> Outcome {
    let result = environment(workspace, "tests", &[".[test]"]).and_then(|interpreter| {
        process::run(Command::new(interpreter).current_dir(&workspace.root).args([
            "-m",
            "pytest",
            "-q",
            "python/tests",
        ]))
    });
    match result {
        Ok(()) => Outcome::Passed(String::new()),
        Err(message) => Outcome::Failed(message),
    }
}

/// Executes every notebook from its own folder; its stored output stays as it is.
pub fn run_notebooks(workspace: &Workspace) -> Outcome {
    let mut packages = vec!["nbclient", "ipykernel"];
    if has_package(workspace) {
        packages.push(".[test]");
    }
    let interpreter = match environment(workspace, "tests", &packages) {
        Ok(interpreter) => interpreter,
        Err(message) => return Outcome::Failed(message),
    };
    let notebooks = notebooks(workspace);
    for notebook in &notebooks {
        let path = workspace.root.join(notebook);
        let folder = path.parent().unwrap_or(&workspace.root);
        let mut command = Command::new(&interpreter);
        command.current_dir(folder).args(["-m", "jupyter", "execute"]).arg(&path);
        if let Err(message) = process::run(&mut command) {
            return Outcome::Failed(format!("{notebook}: {message}"));
        }
    }
    Outcome::Passed(format!("{} notebooks", notebooks.len()))
}
