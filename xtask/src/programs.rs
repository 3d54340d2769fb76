//! Benchmarks and studies: found by where they lie, run in release mode.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::workspace::Workspace;
use crate::{process, python};

/// Which collection a name is looked up in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shelf {
    /// `bench/src/bin/NAME.rs` and `crates/*/benches/NAME.rs`.
    Benchmarks,
    /// `crates/*/examples/study_NAME.rs` and `bench/src/bin/study_NAME.rs`.
    Studies,
}

/// A program on a shelf.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    name: String,
    /// The crate it belongs to; `None` for the package `bench`.
    owner: Option<String>,
    /// The target's name as cargo knows it.
    target: String,
}

/// Runs the program the arguments name, or lists the shelf.
pub fn run(workspace: &Workspace, shelf: Shelf, arguments: &[String]) -> bool {
    let entries = collect(&workspace.root, shelf);
    let Some((name, rest)) = arguments.split_first() else {
        if entries.is_empty() {
            println!("none yet");
        }
        for entry in &entries {
            println!("{:<20} {}", entry.name, entry.owner.as_deref().unwrap_or("bench"));
        }
        return true;
    };
    let Some(entry) = entries.iter().find(|entry| &entry.name == name) else {
        let names: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        eprintln!("no `{name}`; there are: {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") });
        return false;
    };
    let mut command = workspace.cargo();
    match (&entry.owner, shelf) {
        (None, _) => {
            command.args(["run", "--release", "--manifest-path", "bench/Cargo.toml", "--bin", &entry.target]);
            command.env("CARGO_TARGET_DIR", workspace.target.join("bench"));
            if has_feature(&workspace.root, &entry.target) {
                command.args(["--features", &entry.target]);
            }
        }
        (Some(owner), Shelf::Benchmarks) => {
            command.args(["bench", "-p", owner, "--bench", &entry.target]);
        }
        (Some(owner), Shelf::Studies) => {
            command.args(["run", "--release", "-p", owner, "--example", &entry.target]);
        }
    }
    let requirements = workspace.root.join("bench/requirements").join(format!("{name}.txt"));
    if requirements.is_file() {
        match python::environment(workspace, &format!("bench-{name}"), &["-r", &requirements.to_string_lossy()]) {
            Ok(interpreter) => {
                build_tools(&interpreter, &mut command);
                command.env("DAESY_BENCH_PYTHON", interpreter);
            }
            Err(message) => {
                eprintln!("{message}");
                return false;
            }
        }
    }
    let done = process::run(command.arg("--").args(rest));
    let done = if shelf == Shelf::Studies { done.and_then(|()| rasterize(workspace, name)) } else { done };
    match done {
        Ok(()) => true,
        Err(message) => {
            eprintln!("{message}");
            false
        }
    }
}

/// Whether the package of benchmarks has a feature of that name: peers that take long to build.
fn has_feature(root: &Path, name: &str) -> bool {
    let text = fs::read_to_string(root.join("bench/Cargo.toml")).unwrap_or_default();
    let features = text.split("[features]").nth(1).unwrap_or_default();
    let lines = features.lines().take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| line.split_once('=')).any(|(key, _)| key.trim() == name)
}

/// Lets builds of peers in C find CMake and libclang where the environment of a benchmark has them, and optimizes
/// them for this machine.
fn build_tools(interpreter: &Path, command: &mut Command) {
    let Some(folder) = interpreter.parent() else { return };
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&paths));
    if let Ok(paths) = std::env::join_paths(paths) {
        command.env("PATH", paths);
    }
    let ask = "import clang, os; print(os.path.join(os.path.dirname(clang.__file__), 'native'))";
    let Ok(answer) = Command::new(interpreter).args(["-c", ask]).output() else { return };
    if !answer.status.success() {
        return;
    }
    command.env("LIBCLANG_PATH", String::from_utf8_lossy(&answer.stdout).trim());
    // The library alone comes without the compiler's own headers; those of the C compiler at hand will do.
    if let Ok(found) = Command::new("cc").arg("-print-file-name=include").output() {
        let folder = String::from_utf8_lossy(&found.stdout);
        command.env("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{}", folder.trim()));
    }
    command.env("CFLAGS", "-O3 -march=native");
}

/// Writes the pictures of a study as PNG too, by the package `raster`.
fn rasterize(workspace: &Workspace, study: &str) -> Result<(), String> {
    let folder = workspace.root.join("book/studies").join(study);
    let files = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let pictures: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "svg")).collect();
    if pictures.is_empty() {
        return Ok(());
    }
    let mut command = workspace.cargo();
    command.args(["run", "--quiet", "--release", "--locked", "--manifest-path", "raster/Cargo.toml", "--"]);
    process::run(command.args(pictures).env("CARGO_TARGET_DIR", workspace.target.join("raster")))
}

fn collect(root: &Path, shelf: Shelf) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut look = |folder: &Path, owner: Option<&str>| {
        for target in targets(folder) {
            let study = target.strip_prefix("study_");
            let name = match shelf {
                Shelf::Benchmarks if study.is_none() => target.as_str(),
                Shelf::Studies if study.is_some() => study.unwrap_or_default(),
                _ => continue,
            };
            entries.push(Entry { name: name.to_owned(), owner: owner.map(str::to_owned), target: target.clone() });
        }
    };
    look(&root.join("bench/src/bin"), None);
    let place = if shelf == Shelf::Benchmarks { "benches" } else { "examples" };
    for entry in fs::read_dir(root.join("crates")).into_iter().flatten().flatten() {
        let owner = entry.file_name().to_string_lossy().into_owned();
        look(&entry.path().join(place), Some(&owner));
    }
    entries.sort();
    entries
}

fn targets(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_program = path.extension().is_some_and(|e| e == "rs") || path.join("main.rs").is_file();
        if let (true, Some(stem)) = (is_program, path.file_stem()) {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_where_they_lie() {
        let root = std::env::temp_dir().join(format!("daesy-shelf-{}", std::process::id()));
        for file in [
            "bench/src/bin/tape.rs",
            "bench/src/bin/study_ensemble.rs",
            "crates/daesy-pencil/examples/study_draws.rs",
            "crates/daesy-pencil/examples/tour.rs",
            "crates/daesy-structure/benches/structure.rs",
        ] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("every path above has a folder")).expect("temporary folder");
            fs::write(path, "").expect("temporary file");
        }
        let names = |shelf| collect(&root, shelf).into_iter().map(|e| e.name).collect::<Vec<_>>();
        assert_eq!(names(Shelf::Benchmarks), ["structure", "tape"]);
        assert_eq!(names(Shelf::Studies), ["draws", "ensemble"]);
        fs::remove_dir_all(root).expect("temporary folder");
    }
}
