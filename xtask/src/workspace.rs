//! The tree the commands work on: its root, its files, its crates as cargo sees them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::process;

/// The repository's root and where cargo puts what it builds.
pub struct Workspace {
    /// Folder with the workspace manifest.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// The answer of `cargo metadata` for the workspace's own packages.
    pub metadata: Value,
}

/// A file of the tree with its path from the root, `/` between folders.
pub struct TreeFile {
    /// Path from the root.
    pub path: String,
    /// Size in bytes.
    pub n_bytes: u64,
}

impl Workspace {
    /// Finds the workspace this program belongs to.
    pub fn discover() -> Result<Self, String> {
        let start = match std::env::var_os("CARGO_MANIFEST_DIR") {
            Some(folder) => PathBuf::from(folder),
            None => std::env::current_dir().map_err(|e| format!("no current folder: {e}"))?,
        };
        let root = start
            .ancestors()
            .find(|folder| fs::read_to_string(folder.join("Cargo.toml")).is_ok_and(|t| t.contains("[workspace]")))
            .ok_or_else(|| format!("no workspace manifest at or above {}", start.display()))?
            .to_path_buf();
        let metadata = cargo_metadata(&root, &["--no-deps"])?;
        let target = metadata["target_directory"].as_str().map_or_else(|| root.join("target"), PathBuf::from);
        Ok(Self { root, target, metadata })
    }

    /// A folder for this program's own work, below the target folder.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.target.join("xtask").join(name)
    }

    /// `cargo` with the root as its folder.
    pub fn cargo(&self) -> Command {
        let mut command = process::cargo();
        command.current_dir(&self.root);
        command
    }

    /// Reads a file of the tree as text; `None` when it is missing or not text.
    pub fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.root.join(path)).ok()
    }

    /// All files of the tree that `.gitignore` does not exclude, sorted by path.
    pub fn files(&self) -> Vec<TreeFile> {
        let ignore = IgnoreRules::parse(&self.read(".gitignore").unwrap_or_default());
        let mut files = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(self.root.join(&folder)) else { continue };
            for entry in entries.flatten() {
                let Ok(name) = entry.file_name().into_string() else { continue };
                let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                let Ok(kind) = entry.file_type() else { continue };
                if name == ".git" || ignore.excludes(&path, kind.is_dir()) {
                    continue;
                }
                if kind.is_dir() {
                    folders.push(path);
                } else if let Ok(data) = entry.metadata() {
                    files.push(TreeFile { path, n_bytes: data.len() });
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    }
}

/// Asks cargo about the workspace at `root`.
pub fn cargo_metadata(root: &Path, arguments: &[&str]) -> Result<Value, String> {
    let mut command = process::cargo();
    command.current_dir(root).args(["metadata", "--format-version", "1"]).args(arguments);
    let output = command.output().map_err(|e| format!("cannot run cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata failed:\n{}", String::from_utf8_lossy(&output.stderr).trim_end()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo metadata printed something odd: {e}"))
}

/// The part of `.gitignore` this tree uses: `/path`, `name/`, `name`, and one `*` in a name.
struct IgnoreRules {
    rules: Vec<IgnoreRule>,
}

struct IgnoreRule {
    pattern: String,
    is_anchored: bool,
    only_folders: bool,
}

impl IgnoreRules {
    fn parse(text: &str) -> Self {
        let rules = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| {
                let only_folders = line.ends_with('/');
                let body = line.trim_end_matches('/');
                IgnoreRule {
                    is_anchored: body.contains('/'),
                    pattern: body.trim_start_matches('/').to_owned(),
                    only_folders,
                }
            })
            .collect();
        Self { rules }
    }

    fn excludes(&self, path: &str, is_folder: bool) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.rules
            .iter()
            .filter(|rule| is_folder || !rule.only_folders)
            .any(|rule| matches_star(&rule.pattern, if rule.is_anchored { path } else { name }))
    }
}

fn matches_star(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.len() >= head.len() + tail.len() && text.starts_with(head) && text.ends_with(tail),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignore_rules_follow_git() {
        let rules = IgnoreRules::parse("/target\n# note\n__pycache__/\n*.pyc\n/book/output\n");
        assert!(rules.excludes("target", true));
        assert!(!rules.excludes("crates/target", true));
        assert!(rules.excludes("python/__pycache__", true));
        assert!(!rules.excludes("python/__pycache__", false));
        assert!(rules.excludes("python/a.pyc", false));
        assert!(rules.excludes("book/output", true));
        assert!(!rules.excludes("book/src", true));
    }
}
