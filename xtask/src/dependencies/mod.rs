//! The check of what daesy depends on: licences, known advisories, and yanked versions.

mod advisories;
mod licences;
mod yanked;

use serde_json::Value;

use crate::problem;
use crate::suite::Outcome;
use crate::workspace::{self, Workspace};

use yanked::Probe;

/// The policy file: allowed licences, known advisories, accepted advisories.
const POLICY: &str = "dependencies.toml";

/// A package of the dependency tree that is not ours.
#[derive(Clone, Debug)]
pub struct ForeignPackage {
    /// Name in the registry.
    pub name: String,
    /// Locked version.
    pub version: semver::Version,
    /// SPDX expression, when the manifest has one.
    pub licence: Option<String>,
}

/// Runs the three checks over everything in Cargo.lock.
pub fn check(workspace: &Workspace) -> Outcome {
    let packages = match workspace::cargo_metadata(&workspace.root, &["--locked"]).and_then(|m| foreign_packages(&m)) {
        Ok(packages) => packages,
        Err(message) => return Outcome::Failed(message),
    };
    let policy: toml::Table = match workspace.read(POLICY).unwrap_or_default().parse() {
        Ok(policy) => policy,
        Err(e) => return Outcome::Failed(format!("{POLICY}: {e}")),
    };
    let mut problems = licences::check(&packages, &policy);
    problems.extend(advisories::check(&packages, &policy));
    let n_packages = packages.len();
    let is_clean = problem::report(problems);
    let probe = yanked::probe(workspace, &packages);
    match (is_clean, probe) {
        (false, _) => Outcome::Failed("see above".to_owned()),
        (true, Probe::Yanked(message)) => Outcome::Failed(message),
        (true, Probe::Unanswered(message)) => Outcome::Skipped(format!("yanked versions not checked: {message}")),
        (true, Probe::Clean) => Outcome::Passed(format!("{n_packages} packages")),
    }
}

fn foreign_packages(metadata: &Value) -> Result<Vec<ForeignPackage>, String> {
    let mut packages = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        if package["source"].is_null() {
            continue;
        }
        let name = package["name"].as_str().unwrap_or_default().to_owned();
        let text = package["version"].as_str().unwrap_or_default();
        let version = semver::Version::parse(text).map_err(|e| format!("{name} has the version {text}: {e}"))?;
        packages.push(ForeignPackage { name, version, licence: package["license"].as_str().map(str::to_owned) });
    }
    Ok(packages)
}

#[cfg(test)]
fn package(name: &str, version: &str, licence: &str) -> ForeignPackage {
    let version = semver::Version::parse(version).expect("a version");
    ForeignPackage { name: name.to_owned(), version, licence: Some(licence.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_packages_are_left_out() {
        let metadata: Value = serde_json::from_str(
            r#"{"packages": [{"name": "daesy", "version": "0.1.0", "source": null, "license": "MIT"},
                {"name": "libm", "version": "0.2.1", "source": "registry", "license": "MIT"}]}"#,
        )
        .expect("valid JSON");
        let packages = foreign_packages(&metadata).expect("good versions");
        assert_eq!(packages.len(), 1);
        assert_eq!(packages[0].name, "libm");
    }
}
