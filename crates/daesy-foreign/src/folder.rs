//! A private temporary folder that is removed with its owner.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::ForeignError;

/// A folder that nobody else may read; removed with all it holds when it is dropped.
#[derive(Debug)]
pub struct PrivateFolder {
    path: PathBuf,
}

impl PrivateFolder {
    /// A new empty folder.
    ///
    /// # Errors
    /// When none can be made.
    pub fn new() -> Result<Self, ForeignError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut failure = String::new();
        for _ in 0..16 {
            let moment = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let moment = moment.map_or(0, |since| since.as_nanos() as u64);
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("daesy-fmu-{}-{number}-{moment:x}", std::process::id());
            let path = std::env::temp_dir().join(name);
            // Fails where something of that name is there already, a link included.
            match private(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) => failure = format!("no temporary folder can be made: {error}"),
            }
        }
        Err(ForeignError::File { file: std::env::temp_dir().display().to_string(), reason: failure })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(unix)]
fn private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().mode(0o700).create(path)
}

#[cfg(not(unix))]
fn private(path: &Path) -> std::io::Result<()> {
    std::fs::create_dir(path)
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        // What cannot be removed now is in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
