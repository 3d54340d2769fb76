//! Files that hold tables: comma-separated values, Parquet, MATLAB.

mod mat;
mod parquet;

use std::path::Path;

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
    /// The kind that a file name asks for; `None` if it asks for none that is known.
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
