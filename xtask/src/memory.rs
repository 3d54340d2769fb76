//! Checks of the crates that hold `unsafe` for machine and vector code: under valgrind, the portable path under Miri.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::process;
use crate::suite::Outcome;
use crate::workspace::Workspace;

const PACKAGE: &str = "daesy-compile";

/// Its tests of machine code and memory, beside its unit tests.
const TARGETS: [&str; 3] = ["sizes", "tape", "equivalence"];

/// The crate whose vector code is tested by its unit tests.
const VECTORS: &str = "daesy-random";

/// Runs the tests of machine code and memory under valgrind: nothing may be read or written that is not ours.
pub fn check(workspace: &Workspace) -> Outcome {
    let Some(valgrind) = process::find_program("valgrind") else {
        return Outcome::Skipped("valgrind is missing: apt-get install valgrind".to_owned());
    };
    let executables = match test_executables(workspace) {
        Ok(executables) => executables,
        Err(message) => return Outcome::Failed(message),
    };
    for executable in &executables {
        let mut command = Command::new(&valgrind);
        command.current_dir(&workspace.root).args(["--quiet", "--error-exitcode=97", "--leak-check=no"]);
        // Machine code is written, run and unmapped; its place may hold other code later.
        command.arg("--smc-check=all").arg(executable);
        // The tests take fewer cases then, and leave out what valgrind does not simulate exactly.
        command.env("DAESY_UNDER_VALGRIND", "1");
        if let Err(message) = process::run(&mut command) {
            return Outcome::Failed(message);
        }
    }
    Outcome::Passed(format!("{} test programs under valgrind", executables.len()))
}

/// Builds the tests and says where they are.
fn test_executables(workspace: &Workspace) -> Result<Vec<PathBuf>, String> {
    let mut command = workspace.cargo();
    // With the features that the tests of the whole workspace were built with, so that nothing is built again.
    command.args(["test", "--workspace", "--locked", "--no-run", "--message-format=json", "--lib"]);
    command.args(TARGETS.iter().flat_map(|target| ["--test", target]));
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.map_err(|e| format!("cannot run cargo test: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo test --no-run ended with {}", output.status));
    }
    let executables: Vec<PathBuf> = String::from_utf8_lossy(&output.stdout).lines().filter_map(executable_in).collect();
    if executables.len() == TARGETS.len() + 2 {
        Ok(executables)
    } else {
        Err(format!("cargo built {} test programs, not {}", executables.len(), TARGETS.len() + 2))
    }
}

/// The test program that a message of cargo speaks of.
fn executable_in(line: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_own = message["package_id"].as_str().is_some_and(|id| id.contains(PACKAGE) || id.contains(VECTORS));
    let is_test = is_own && message["reason"] == "compiler-artifact" && message["profile"]["test"] == true;
    message["executable"].as_str().filter(|_| is_test).map(PathBuf::from)
}

/// `cargo xtask miri`: the portable path of the compiled code under Miri, where a nightly toolchain with Miri is at
/// hand.
pub fn miri(workspace: &Workspace) -> bool {
    let mut version = Command::new("cargo");
    version.current_dir(&workspace.root).args(["+nightly", "miri", "--version"]);
    // The cargo that runs this program would otherwise be asked for.
    let without_toolchain = |command: &mut Command| {
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTC");
    };
    without_toolchain(&mut version);
    if !version.output().is_ok_and(|output| output.status.success()) {
        eprintln!(
            "no nightly toolchain with Miri is at hand; to get one:\n    rustup toolchain install nightly --component miri"
        );
        return false;
    }
    let mut command = Command::new("cargo");
    command.current_dir(&workspace.root).args(["+nightly", "miri", "test", "--package", PACKAGE]);
    command.args(["--test", "sizes", "--test", "tape"]);
    command.env("CARGO_TARGET_DIR", workspace.target.join("miri"));
    without_toolchain(&mut command);
    match process::run(&mut command) {
        Ok(()) => true,
        Err(message) => {
            eprintln!("{message}");
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_among_the_messages_of_cargo() {
        let message = |reason: &str, is_test: bool, executable: &str| {
            format!(
                r#"{{"reason":"{reason}","package_id":"path+file:///d/crates/daesy-compile#0.1.0","profile":{{"test":{is_test}}},"executable":{executable}}}"#
            )
        };
        assert_eq!(
            executable_in(&message("compiler-artifact", true, r#""/t/sizes""#)),
            Some(PathBuf::from("/t/sizes"))
        );
        assert_eq!(executable_in(&message("compiler-artifact", false, r#""/t/daesy""#)), None);
        assert_eq!(executable_in(&message("compiler-artifact", true, "null")), None);
        assert_eq!(executable_in(&message("build-finished", true, r#""/t/sizes""#)), None);
    }
}
