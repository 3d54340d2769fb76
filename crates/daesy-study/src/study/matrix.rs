//! Matrices of linear models: rows of numbers, lists of the entries that are not zero, or Matrix Market files.
//!
//! ```toml
//! E = [[1, 0], [0, "C"]]
//! F = { size = [2, 2], rows = [1, 2], columns = [2, 1], values = [1.0, "-1/R"] }
//! G = { file = "G.mtx" }
//! ```
//!
//! Rows and columns count from one. Entries given twice add up, as they do in assembled matrices.   [@boisvert1996]

use std::path::PathBuf;

use daesy_graph::finding::Finding;
use daesy_graph::{FileId, Span};
use toml::Spanned;
use toml::de::DeValue;

use super::section::Reader;
use super::{Quantity, QuantityValue};
use crate::limits;

/// A matrix by its entries that are not zero.
#[derive(Clone, Debug)]
pub struct SparseMatrix {
    /// Number of columns.
    pub n_columns: usize,
    /// The entries of each row.
    pub rows: Vec<Vec<MatrixEntry>>,
    /// Where the matrix stands.
    pub span: Span,
}

/// An entry of a sparse matrix.
#[derive(Clone, Debug)]
pub struct MatrixEntry {
    /// Its column, from zero.
    pub column: usize,
    /// Its value.
    pub value: Quantity,
}

/// A matrix of a study.
#[derive(Clone, Debug)]
pub enum LinearMatrix {
    /// Its entries stand in the study.
    Given(SparseMatrix),
    /// It is in a Matrix Market file.
    File {
        /// Relative to the study.
        path: PathBuf,
        /// Where the study names it.
        span: Span,
    },
}

/// More rows or columns than this are taken for a mistake.
const LARGEST: usize = 10_000_000;

fn is_zero(quantity: &Quantity) -> bool {
    quantity.value == QuantityValue::Number(0.0)
}

impl Reader {
    /// A matrix of a linear model in one of its three forms.
    pub(super) fn linear_matrix(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<LinearMatrix> {
        let span = self.span(value);
        if !value.get_ref().is_table() {
            let rows = self.matrix(key, value)?;
            let n_columns = rows.first().map_or(0, Vec::len);
            let sparse = |row: Vec<Quantity>| {
                let entries = row.into_iter().enumerate().filter(|(_, value)| !is_zero(value));
                entries.map(|(column, value)| MatrixEntry { column, value }).collect()
            };
            let rows = rows.into_iter().map(sparse).collect();
            return Some(LinearMatrix::Given(SparseMatrix { n_columns, rows, span }));
        }
        let mut table = self.table(key, value, "a matrix")?;
        if let Some(file) = table.take("file") {
            let file_span = self.span(file);
            let path = self.text("file", file)?;
            table.finish(self);
            return Some(LinearMatrix::File { path: path.into(), span: file_span });
        }
        let (size, rows, columns, values) =
            (table.take("size"), table.take("rows"), table.take("columns"), table.take("values"));
        let n_before = self.findings.len();
        table.finish(self);
        if self.findings.len() > n_before {
            return None;
        }
        let (Some(size), Some(rows), Some(columns), Some(values)) = (size, rows, columns, values) else {
            self.findings.push(
                Finding::error("matrix-entry", span, format!("`{key}` as a table needs `size`, `rows`, `columns` and `values`"))
                    .with_names([key])
                    .with_help("`{ size = [2, 2], rows = [1, 2], columns = [1, 2], values = [1.0, 0.5] }`, or `{ file = \"name.mtx\" }`"),
            );
            return None;
        };
        let dimensions = self.positions("size", size)?;
        let &[n_rows, n_columns] = dimensions.as_slice() else {
            self.wrong_type("size", size, "two whole numbers, rows and columns");
            return None;
        };
        let row_positions = self.positions("rows", rows)?;
        let column_positions = self.positions("columns", columns)?;
        let values = self.quantities("values", values)?;
        if row_positions.len() != values.len() || column_positions.len() != values.len() {
            let message = format!(
                "`{key}` lists {} rows, {} columns and {} values: there must be as many of each",
                row_positions.len(),
                column_positions.len(),
                values.len()
            );
            self.findings.push(Finding::error("matrix-entry", span, message).with_names([key]));
            return None;
        }
        if n_rows.max(n_columns) > LARGEST {
            let message = format!("`{key}` is {n_rows} x {n_columns}, which is more than {LARGEST} rows or columns");
            self.findings.push(Finding::error("matrix-shape", span, message).with_names([key]));
            return None;
        }
        if let Err(refusal) = limits::matrix(&format!("`{key}`"), n_rows, n_columns) {
            self.findings.push(refusal.at(span).with_names([key]));
            return None;
        }
        let mut matrix = SparseMatrix { n_columns, rows: vec![Vec::new(); n_rows], span };
        for ((row, column), value) in row_positions.into_iter().zip(column_positions).zip(values) {
            if row == 0 || row > n_rows || column == 0 || column > n_columns {
                let message =
                    format!("`{key}` is {n_rows} x {n_columns} and has no entry in row {row}, column {column}");
                let finding = Finding::error("matrix-entry", value.span, message).with_names([key]);
                self.findings.push(finding.with_help("rows and columns count from 1"));
                return None;
            }
            if !is_zero(&value) {
                matrix.rows[row - 1].push(MatrixEntry { column: column - 1, value });
            }
        }
        Some(LinearMatrix::Given(matrix))
    }

    /// A list of whole numbers that are not negative.
    fn positions(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Vec<usize>> {
        let items = self.list(key, value, "a list of whole numbers")?;
        let mut positions = Vec::with_capacity(items.len());
        for item in items {
            let position = match item.get_ref() {
                DeValue::Integer(integer) => {
                    usize::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
                }
                _ => None,
            };
            let Some(position) = position else {
                self.wrong_type(key, item, "a list of whole numbers");
                return None;
            };
            positions.push(position);
        }
        Some(positions)
    }
}

/// How the entries below the diagonal of a Matrix Market file tell those above it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Symmetry {
    General,
    Symmetric,
    Skew,
}

/// Reads the text of a Matrix Market file: coordinates or a full array, of real or whole numbers or a pattern of ones.
///
/// # Errors
/// A finding at the line that is wrong.
pub(crate) fn read_matrix_market(name: &str, text: &str, file: FileId) -> Result<SparseMatrix, Finding> {
    let mut lines = MarketLines { name, text, file, at: 0 };
    let MarketForm { is_array, is_pattern, symmetry } = lines.form()?;
    let Some(header) = lines.next_data() else {
        return Err(lines.wrong(text.len(), text.len(), "ends before its size"));
    };
    let sizes: Option<Vec<usize>> = header.text.split_whitespace().map(|word| word.parse().ok()).collect();
    let (n_rows, n_columns, n_entries) = match sizes.as_deref() {
        Some(&[rows, columns]) if is_array => (rows, columns, 0),
        Some(&[rows, columns, entries]) if !is_array => (rows, columns, entries),
        _ if is_array => return Err(lines.wrong_line(&header, "must give its size here: rows and columns")),
        _ => return Err(lines.wrong_line(&header, "must give its size here: rows, columns and number of entries")),
    };
    if n_rows.max(n_columns) > LARGEST {
        return Err(lines.wrong_line(&header, &format!("has more than {LARGEST} rows or columns")));
    }
    if symmetry != Symmetry::General && n_rows != n_columns {
        return Err(lines.wrong_line(&header, "is called symmetric, but is not square"));
    }
    limits::matrix(&format!("`{name}`"), n_rows, n_columns).map_err(|refusal| refusal.at(header.span))?;
    let whole = Span::new(file, 0, text.len() as u32);
    let mut matrix = SparseMatrix { n_columns, rows: vec![Vec::new(); n_rows], span: whole };
    // Arrays go down the columns; symmetric ones begin at the diagonal, skew ones below it.
    let first_row = |column: usize| match symmetry {
        Symmetry::General => 0,
        Symmetry::Symmetric => column,
        Symmetry::Skew => column + 1,
    };
    let (mut array_row, mut array_column) = (first_row(0), 0);
    let mut n_read = 0;
    while let Some(line) = lines.next_data() {
        n_read += 1;
        let words: Vec<&str> = line.text.split_whitespace().collect();
        let (row, column, value) = if is_array {
            while array_column < n_columns && array_row >= n_rows {
                array_column += 1;
                array_row = first_row(array_column);
            }
            let place = (array_row, array_column);
            array_row += 1;
            match words.as_slice() {
                [value] if place.1 < n_columns => (place.0, place.1, Some(*value)),
                _ => return Err(lines.wrong_line(&line, "must have one number per line, as many as its size says")),
            }
        } else {
            let position = |at: usize, n: usize| -> Option<usize> {
                let position: usize = words.get(at)?.parse().ok()?;
                (1..=n).contains(&position).then(|| position - 1)
            };
            let n_words = if is_pattern { 2 } else { 3 };
            match (position(0, n_rows), position(1, n_columns)) {
                (Some(row), Some(column)) if words.len() == n_words => (row, column, words.get(2).copied()),
                _ => {
                    let form = if is_pattern { "row column" } else { "row column value" };
                    let message =
                        format!("must have `{form}` here, within {n_rows} rows and {n_columns} columns, from 1");
                    return Err(lines.wrong_line(&line, &message));
                }
            }
        };
        let number = value.map_or(Some(1.0), |value| value.parse::<f64>().ok().filter(|value| value.is_finite()));
        let Some(number) = number else {
            return Err(lines.wrong_line(&line, "must have a finite number here"));
        };
        let mut put = |row: usize, column: usize, number: f64| {
            if number != 0.0 {
                let value = Quantity { value: QuantityValue::Number(number), span: line.span };
                matrix.rows[row].push(MatrixEntry { column, value });
            }
        };
        put(row, column, number);
        if row != column {
            match symmetry {
                Symmetry::General => {}
                Symmetry::Symmetric => put(column, row, number),
                Symmetry::Skew => put(column, row, -number),
            }
        }
    }
    let n_promised =
        if is_array { (0..n_columns).map(|column| n_rows.saturating_sub(first_row(column))).sum() } else { n_entries };
    if n_read != n_promised {
        return Err(lines.wrong_line(&header, &format!("promises {n_promised} entries here, but has {n_read}")));
    }
    Ok(matrix)
}

/// What the first line of a Matrix Market file says.
struct MarketForm {
    is_array: bool,
    is_pattern: bool,
    symmetry: Symmetry,
}

/// The lines of a Matrix Market file.
struct MarketLines<'a> {
    name: &'a str,
    text: &'a str,
    file: FileId,
    at: usize,
}

struct MarketLine<'a> {
    text: &'a str,
    span: Span,
}

impl<'a> MarketLines<'a> {
    fn form(&mut self) -> Result<MarketForm, Finding> {
        let Some(banner) = self.next_line() else {
            return Err(self.wrong(0, 0, "is empty"));
        };
        let words: Vec<String> = banner.text.split_whitespace().map(str::to_lowercase).collect();
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        if word(0) != "%%matrixmarket" || word(1) != "matrix" {
            return Err(self.wrong_line(&banner, "must begin with `%%MatrixMarket matrix coordinate real general`"));
        }
        let is_array = match word(2) {
            "coordinate" => false,
            "array" => true,
            _ => return Err(self.wrong_line(&banner, "must be of format `coordinate` or `array`")),
        };
        let is_pattern = match word(3) {
            "real" | "integer" | "double" => false,
            "pattern" if !is_array => true,
            _ => return Err(self.wrong_line(&banner, "must hold `real` or `integer` numbers")),
        };
        let symmetry = match word(4) {
            "general" => Symmetry::General,
            "symmetric" => Symmetry::Symmetric,
            "skew-symmetric" => Symmetry::Skew,
            _ => return Err(self.wrong_line(&banner, "must be `general`, `symmetric` or `skew-symmetric`")),
        };
        Ok(MarketForm { is_array, is_pattern, symmetry })
    }

    fn next_line(&mut self) -> Option<MarketLine<'a>> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let length = rest.find('\n').unwrap_or(rest.len());
        let span = Span::new(self.file, self.at as u32, (self.at + length) as u32);
        self.at += length + 1;
        Some(MarketLine { text: &rest[..length], span })
    }

    /// The next line that is neither empty nor a comment.
    fn next_data(&mut self) -> Option<MarketLine<'a>> {
        loop {
            let line = self.next_line()?;
            let text = line.text.trim();
            if !text.is_empty() && !text.starts_with('%') {
                return Some(line);
            }
        }
    }

    fn wrong(&self, start: usize, end: usize, what: &str) -> Finding {
        let span = Span::new(self.file, start as u32, end as u32);
        Finding::error("matrix-file", span, format!("the Matrix Market file `{}` {what}", self.name))
    }

    fn wrong_line(&self, line: &MarketLine<'_>, what: &str) -> Finding {
        Finding { span: line.span, ..self.wrong(0, 0, what) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense(text: &str) -> Result<Vec<Vec<f64>>, String> {
        let matrix = read_matrix_market("a.mtx", text, FileId(0)).map_err(|finding| finding.message)?;
        let mut rows = vec![vec![0.0; matrix.n_columns]; matrix.rows.len()];
        for (row, entries) in rows.iter_mut().zip(&matrix.rows) {
            for entry in entries {
                if let QuantityValue::Number(value) = entry.value.value {
                    row[entry.column] += value;
                }
            }
        }
        Ok(rows)
    }

    #[test]
    fn the_forms_of_the_format() {
        let general = "%%MatrixMarket matrix coordinate real general\n% a comment\n2 3 3\n1 1 1.5\n2 3 -2e1\n1 1 0.5\n";
        assert_eq!(dense(general).unwrap(), [[2.0, 0.0, 0.0], [0.0, 0.0, -20.0]]);
        let symmetric = "%%MatrixMarket MATRIX Coordinate Integer Symmetric\r\n2 2 2\r\n1 1 4\r\n2 1 3\r\n";
        assert_eq!(dense(symmetric).unwrap(), [[4.0, 3.0], [3.0, 0.0]]);
        let pattern = "%%MatrixMarket matrix coordinate pattern general\n2 2 1\n2 1\n";
        assert_eq!(dense(pattern).unwrap(), [[0.0, 0.0], [1.0, 0.0]]);
        let array = "%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n";
        assert_eq!(dense(array).unwrap(), [[1.0, 3.0], [2.0, 4.0]]);
        let skew = "%%MatrixMarket matrix array real skew-symmetric\n3 3\n1\n2\n3\n";
        assert_eq!(dense(skew).unwrap(), [[0.0, -1.0, -2.0], [1.0, 0.0, -3.0], [2.0, 3.0, 0.0]]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |text: &str| dense(text).unwrap_err();
        assert!(refused("").contains("is empty"));
        assert!(refused("1 1 1\n").contains("must begin with"));
        assert!(refused("%%MatrixMarket matrix coordinate complex general\n").contains("real"));
        assert!(refused("%%MatrixMarket matrix coordinate real general\n").contains("ends before"));
        assert!(refused("%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 1\n").contains("within 2 rows"));
        assert!(refused("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 nan\n").contains("finite"));
        assert!(refused("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n").contains("promises 3"));
        assert!(refused("%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n").contains("not square"));
    }
}
