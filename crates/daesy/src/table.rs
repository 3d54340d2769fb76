//! Files that hold tables: comma-separated values, Parquet, MATLAB; written whole or not at all.

mod mat;
mod parquet;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use daesy_study::table::Table;

/// Kinds of files that hold tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TableKind {
    /// Comma-separated values.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// MATLAB, level 4.
    Mat,
}

impl TableKind {
    /// The kind that a file name asks for; nothing where it asks for none that is known.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_ascii_lowercase();
        match extension.to_str()? {
            "csv" => Some(Self::Csv),
            "parquet" => Some(Self::Parquet),
            "mat" => Some(Self::Mat),
            _ => None,
        }
    }
}

/// The bytes of a file of the given kind.
#[must_use]
pub fn to_bytes(table: &Table, kind: TableKind) -> Vec<u8> {
    match kind {
        TableKind::Csv => table.to_csv().into_bytes(),
        TableKind::Parquet => parquet::write(table),
        TableKind::Mat => mat::write(table),
    }
}

/// Writes a file whole or not at all: the text goes to a file beside it that then takes its name.
///
/// # Errors
/// What the file system says.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.file_name().map(std::ffi::OsStr::to_owned).unwrap_or_default();
    name.push(format!(".{}.part", std::process::id()));
    let part: PathBuf = path.with_file_name(name);
    let written = fs::write(&part, bytes).and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}
