//! Numbers and tables for people.

/// A number with a few significant digits.
#[must_use]
pub fn short(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value.is_finite() { "0".to_owned() } else { "-".to_owned() };
    }
    let exponent = value.abs().log10().floor() as i32;
    if !(-4..7).contains(&exponent) {
        return format!("{value:.*e}", digits - 1);
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    format!("{value:.decimals$}")
}

/// A share in percent as a cell; a dash if it is not finite.
#[must_use]
pub fn percent(value: f64) -> String {
    if value.is_finite() { format!("{value:.1} %") } else { "-".to_owned() }
}

/// All of so many unknowns.
#[must_use]
pub fn all_unknowns(n: usize) -> String {
    match n {
        1 => "the unknown".to_owned(),
        2 => "both unknowns".to_owned(),
        n => format!("all {n} unknowns"),
    }
}

/// A number of things: `1 value`, `2 values`.
#[must_use]
pub fn counted(n: usize, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// Rows of a text table with columns of equal width, the first to the left and the others to the right.
#[must_use]
pub fn text_table(rows: &[Vec<String>]) -> String {
    let n = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..n).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            if column == 0 {
                line.push_str(&format!("  {cell:<width$}", width = widths[0]));
            } else {
                line.push_str(&format!("  {cell:>width$}", width = widths[column]));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
