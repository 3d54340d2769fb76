//! Yanked versions: cargo itself is asked whether it would choose the locked versions today.
//!
//! A fresh manifest that demands exactly the locked versions, with no lock file, is resolved. Cargo
//! refuses a yanked version in that case and names it.

use std::fmt::Write as _;
use std::fs;

use super::ForeignPackage;
use crate::process;
use crate::workspace::Workspace;

/// What cargo said.
pub enum Probe {
    /// Every version may still be chosen.
    Clean,
    /// A version is yanked; cargo's words.
    Yanked(String),
    /// Cargo could not tell, for example without network.
    Unanswered(String),
}

/// Resolves the locked versions anew.
pub fn probe(workspace: &Workspace, packages: &[ForeignPackage]) -> Probe {
    let folder = workspace.scratch("yanked");
    let prepared = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("lib.rs"), ""))
        .and_then(|()| fs::write(folder.join("Cargo.toml"), manifest(packages)));
    if let Err(e) = prepared {
        return Probe::Unanswered(format!("cannot write {}: {e}", folder.display()));
    }
    let _ = fs::remove_file(folder.join("Cargo.lock"));
    let mut command = process::cargo();
    command.current_dir(&folder).args(["generate-lockfile", "--quiet"]);
    match command.output() {
        Ok(output) if output.status.success() => Probe::Clean,
        Ok(output) => judge(&String::from_utf8_lossy(&output.stderr)),
        Err(e) => Probe::Unanswered(format!("cannot run cargo: {e}")),
    }
}

fn judge(stderr: &str) -> Probe {
    if stderr.contains("yanked") {
        Probe::Yanked(stderr.split_whitespace().collect::<Vec<_>>().join(" "))
    } else {
        Probe::Unanswered(stderr.lines().next().unwrap_or("cargo said nothing").to_owned())
    }
}

fn manifest(packages: &[ForeignPackage]) -> String {
    let mut text = "[package]\nname = \"probe\"\nversion = \"0.0.0\"\nedition = \"2021\"\n[workspace]\n[lib]\npath = \"lib.rs\"\n[dependencies]\n".to_owned();
    for (position, package) in packages.iter().enumerate() {
        let semver::Version { major, minor, patch, pre, .. } = &package.version;
        let pre = if pre.is_empty() { String::new() } else { format!("-{pre}") };
        let name = &package.name;
        let _ = writeln!(
            text,
            "p{position} = {{ package = \"{name}\", version = \"={major}.{minor}.{patch}{pre}\", default-features = false }}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::package;
    use super::*;

    #[test]
    fn the_probe_demands_exact_versions() {
        let text = manifest(&[package("toml", "1.1.8+spec-1.1.0", "MIT"), package("rand", "0.9.0-rc.1", "MIT")]);
        let manifest: toml::Table = text.parse().expect("a valid manifest");
        assert_eq!(manifest["dependencies"]["p0"]["version"].as_str(), Some("=1.1.8"));
        assert_eq!(manifest["dependencies"]["p1"]["version"].as_str(), Some("=0.9.0-rc.1"));
    }

    #[test]
    fn cargo_is_understood() {
        let refused =
            "error: failed to select a version for the requirement `x = \"=1.0.0\"`\n  version 1.0.0 is yanked\n";
        assert!(matches!(judge(refused), Probe::Yanked(message) if message.contains("1.0.0 is yanked")));
        assert!(matches!(judge("error: network failure\n"), Probe::Unanswered(_)));
    }
}
