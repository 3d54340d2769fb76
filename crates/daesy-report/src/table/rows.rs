//! Files of tables that are written as their rows come.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use daesy_study::table::{write_csv_names, write_csv_row};

use super::TableKind;
use super::parquet::Groups;
use crate::file::Growing;

/// Writes a table row by row, with the same bytes as [`super::to_bytes`] gives. What is not ended leaves no file.
pub struct RowWriter {
    path: PathBuf,
    names: Vec<String>,
    kind: RowKind,
    open: Option<Open>,
}

/// Kinds of files whose rows stand one after the other.
#[derive(Clone, Copy)]
enum RowKind {
    Csv,
    Parquet,
}

/// A file that was begun.
struct Open {
    file: Growing,
    form: Form,
}

enum Form {
    /// The line at hand.
    Csv(String),
    /// Rows that wait for others of their group, one after the other.
    Parquet { groups: Groups, waiting: Vec<f64> },
}

impl RowWriter {
    /// A file that shall hold the columns of these names; none where a file of this kind or a device needs the whole
    /// table.
    ///
    /// # Errors
    /// What the file system says.
    pub fn new(path: &Path, kind: TableKind, names: Vec<String>) -> io::Result<Option<Self>> {
        let kind = match kind {
            TableKind::Csv => RowKind::Csv,
            TableKind::Parquet => RowKind::Parquet,
            TableKind::Mat => return Ok(None),
        };
        let mut writer = Self { path: path.to_path_buf(), names, kind, open: None };
        writer.begin()?;
        Ok(writer.open.is_some().then_some(writer))
    }

    /// Begins anew, without the rows written so far.
    ///
    /// # Errors
    /// What the file system says.
    pub fn begin(&mut self) -> io::Result<()> {
        self.open = None;
        let Some(mut file) = Growing::begin(&self.path)? else { return Ok(()) };
        let form = match self.kind {
            RowKind::Csv => {
                let mut line = String::new();
                write_csv_names(&mut line, &self.names);
                file.write_all(line.as_bytes())?;
                Form::Csv(line)
            }
            RowKind::Parquet => Form::Parquet { groups: Groups::begin(&mut file)?, waiting: Vec::new() },
        };
        self.open = Some(Open { file, form });
        Ok(())
    }

    /// Adds a row: a value for each column.
    ///
    /// # Errors
    /// What the file system says.
    pub fn push(&mut self, row: impl Iterator<Item = f64>) -> io::Result<()> {
        let Some(Open { file, form }) = &mut self.open else { return Ok(()) };
        match form {
            Form::Csv(line) => {
                line.clear();
                write_csv_row(line, row);
                file.write_all(line.as_bytes())
            }
            Form::Parquet { groups, waiting } => {
                waiting.extend(row);
                let n_columns = self.names.len();
                if waiting.len() < Groups::n_rows(n_columns) * n_columns {
                    return Ok(());
                }
                add_group(groups, file, waiting, n_columns)
            }
        }
    }

    /// Ends the file and puts it in its place.
    ///
    /// # Errors
    /// What the file system says.
    pub fn end(&mut self) -> io::Result<()> {
        let Some(Open { mut file, form }) = self.open.take() else { return Ok(()) };
        if let Form::Parquet { mut groups, mut waiting } = form {
            if !waiting.is_empty() {
                add_group(&mut groups, &mut file, &mut waiting, self.names.len())?;
            }
            groups.end(&mut file, &self.names)?;
        }
        file.place()
    }
}

/// Writes the rows that wait.
fn add_group(groups: &mut Groups, file: &mut Growing, waiting: &mut Vec<f64>, n_columns: usize) -> io::Result<()> {
    let columns = (0..n_columns).map(|column| waiting.iter().skip(column).step_by(n_columns).copied());
    groups.add(file, waiting.len() / n_columns, columns)?;
    waiting.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Table, to_bytes};
    use super::*;

    /// The bytes are those of the whole table, whether it has one group of rows, several or none, and a row that is
    /// begun anew is not there.
    #[test]
    fn rows_one_by_one_give_the_bytes_of_the_whole_table() {
        let folder = std::env::temp_dir().join(format!("daesy-rows-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let n_columns = 1025;
        let names: Vec<String> = (0..n_columns).map(|at| format!("x[{at},1]")).collect();
        for n_rows in [0, 3, 8200] {
            let value = |row: usize, column: usize| {
                if (row + column).is_multiple_of(97) { f64::NAN } else { row as f64 - 0.5 * column as f64 }
            };
            let columns = (0..n_columns).map(|column| (0..n_rows).map(|row| value(row, column)).collect()).collect();
            let table = Table { names: names.clone(), columns };
            for kind in [TableKind::Csv, TableKind::Parquet] {
                if kind == TableKind::Csv && n_rows > 100 {
                    continue;
                }
                let path = folder.join("table");
                let mut writer = RowWriter::new(&path, kind, names.clone()).unwrap().unwrap();
                writer.push((0..n_columns).map(|_| 7.0)).unwrap();
                writer.begin().unwrap();
                for row in 0..n_rows {
                    writer.push((0..n_columns).map(|column| value(row, column))).unwrap();
                }
                assert!(!path.exists());
                writer.end().unwrap();
                assert!(std::fs::read(&path).unwrap() == to_bytes(&table, kind), "{n_rows} rows, {kind:?}");
                std::fs::remove_file(&path).unwrap();
            }
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
