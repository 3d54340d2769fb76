//! Files that hold tables: comma-separated values, Parquet, MATLAB.

mod mat;
mod parquet;
mod rows;

use std::path::Path;

pub use daesy_study::table::Table;
pub use rows::RowWriter;

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
        TableKind::Parquet => {
            let mut bytes = Vec::with_capacity(64 + table.names.len() * (128 + 8 * table.n_rows()));
            // Memory takes all that is written to it.
            let _ = parquet::write(table, &mut bytes);
            bytes
        }
        TableKind::Mat => mat::write(table),
    }
}
