//! Workbooks of spreadsheet programs (`.xlsx`): a sheet becomes lines of cells, as in a text file with tabs, so that
//! everything that holds for those holds for it: rows of units, comments, missing values, dates.

use std::io::Cursor;
use std::panic::{AssertUnwindSafe, catch_unwind};

use calamine::{DataRef, ExcelDateTime, Reader as _, Xlsx};

/// Cells of a sheet that are read.
const MAX_CELLS: usize = 50_000_000;

/// Why a workbook cannot be read.
pub(super) struct WrongBook {
    pub(super) message: String,
    pub(super) help: String,
}

impl WrongBook {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: help.into() }
    }
}

/// The cells of a sheet, the first when none is named, as lines with tabs between the cells. Numbers have points, also
/// those that were written as text with another decimal mark.
pub(super) fn text(bytes: &[u8], sheet: Option<&str>, decimal: Option<char>) -> Result<String, WrongBook> {
    // The library reads files of strangers; whatever it stumbles over is a file that cannot be read.
    let read = catch_unwind(AssertUnwindSafe(|| lines(bytes, sheet, decimal)));
    read.unwrap_or_else(|_| Err(damaged("its content makes no sense")))
}

fn damaged(what: impl std::fmt::Display) -> WrongBook {
    WrongBook::new(format!("it is no readable workbook: {what}"), "save its sheet as CSV (UTF-8), and name that file")
}

fn lines(bytes: &[u8], sheet: Option<&str>, decimal: Option<char>) -> Result<String, WrongBook> {
    let mut book: Xlsx<_> = Xlsx::new(Cursor::new(bytes)).map_err(damaged)?;
    let sheets = book.sheet_names();
    let name = match sheet {
        Some(name) if sheets.iter().any(|known| known == name) => name.to_owned(),
        Some(name) => {
            let help = format!("sheets: {}", sheets.join(", "));
            return Err(WrongBook::new(format!("it has no sheet `{name}`"), help));
        }
        None => sheets.first().cloned().ok_or_else(|| damaged("it has no sheet"))?,
    };
    let mut cells = book.worksheet_cells_reader(&name).map_err(damaged)?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    let (mut width, too_large) = (0, "keep the columns that are used, or save it as Parquet");
    while let Some(cell) = cells.next_cell().map_err(damaged)? {
        let (row, column) = cell.get_position();
        let words = words(cell.get_value(), decimal);
        if words.is_empty() {
            continue;
        }
        let (row, column) = (row as usize, column as usize);
        width = width.max(column + 1);
        if rows.len().max(row + 1).saturating_mul(width) > MAX_CELLS {
            return Err(WrongBook::new("its sheet is too large", too_large));
        }
        rows.resize_with(rows.len().max(row + 1), Vec::new);
        let line = &mut rows[row];
        line.resize(line.len().max(column + 1), String::new());
        line[column] = words;
    }
    let line = |mut row: Vec<String>| {
        // An empty row stays one, so that it is passed over.
        row.resize(if row.is_empty() { 0 } else { width }, String::new());
        row.join("\t") + "\n"
    };
    Ok(rows.into_iter().map(line).collect())
}

/// A cell as it would stand in a text file.
fn words(value: &DataRef<'_>, decimal: Option<char>) -> String {
    let plain = |text: &str| {
        let text = text.replace(['\t', '\n', '\r', '"'], " ").trim().to_owned();
        let number = decimal.map(|mark| text.replace(mark, ".")).filter(|number| number.parse::<f64>().is_ok());
        number.unwrap_or(text)
    };
    match value {
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => number.to_string(),
        DataRef::Bool(truth) => u8::from(*truth).to_string(),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => plain(text),
        DataRef::SharedString(text) => plain(text),
        DataRef::DateTime(stamp) => stamp_words(stamp),
        DataRef::Error(error) => plain(&error.to_string()),
        DataRef::Empty => String::new(),
    }
}

/// A date of ISO 8601; seconds where the cell is a duration.
fn stamp_words(stamp: &ExcelDateTime) -> String {
    if stamp.is_duration() {
        return (stamp.as_f64() * 86400.0).to_string();
    }
    let (year, month, day, hour, minute, second, milli) = stamp.to_ymd_hms_milli();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}")
}
