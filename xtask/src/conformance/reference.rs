//! Reference results of a library: a folder for each example with a table, the signals that count and how it was
//! simulated.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// An example with a stored table.
pub struct Case {
    /// Full name of the class.
    pub name: String,
    table: PathBuf,
    /// Signals to be compared, without spaces.
    pub signals: Vec<String>,
    pub start: f64,
    pub stop: Option<f64>,
    pub step: Option<f64>,
    pub tolerance: f64,
}

/// Columns by name.
pub type Columns = HashMap<String, Vec<f64>>;

/// All examples below a folder of references, by name; those without a table are counted.
pub fn cases(references: &Path) -> Result<(Vec<Case>, usize), String> {
    let (mut found, mut without) = (Vec::new(), 0);
    let mut folders = vec![references.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
        let mut names: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
        names.sort();
        folders.extend(names.iter().rev().filter(|path| path.is_dir() && !is_hidden(path)).cloned());
        let signals = folder.join("comparisonSignals.txt");
        if !signals.is_file() {
            continue;
        }
        let parts: Vec<String> = folder
            .strip_prefix(references)
            .unwrap_or(&folder)
            .components()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        let table = folder.join(format!("{}.csv", parts.last().map_or("", String::as_str)));
        if !table.is_file() {
            without += 1;
            continue;
        }
        found.push(case(parts.join("."), &folder, &signals, table)?);
    }
    found.sort_by(|left, right| left.name.cmp(&right.name));
    Ok((found, without))
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'))
}

fn case(name: String, folder: &Path, signals: &Path, table: PathBuf) -> Result<Case, String> {
    let read = |path: &Path| {
        let bytes = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        Ok::<String, String>(String::from_utf8_lossy(&bytes).into_owned())
    };
    let listed = read(signals)?;
    let signals = listed
        .lines()
        .map(|line| line.trim().trim_start_matches('\u{feff}').trim_matches('"').replace(' ', ""))
        .filter(|line| !line.is_empty() && !line.eq_ignore_ascii_case("time"))
        .collect();
    let made = read(&folder.join("creation.txt")).unwrap_or_default();
    let setting = |key: &str| setting(&made, key);
    Ok(Case {
        name,
        table,
        signals,
        start: setting("StartTime").unwrap_or(0.0),
        stop: setting("StopTime"),
        step: setting("Interval").filter(|&step| step > 0.0),
        tolerance: setting("Tolerance").unwrap_or(1e-6),
    })
}

/// A number among lines `key=value // remark`.
fn setting(text: &str, key: &str) -> Option<f64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        let value = value.split_once("//").map_or(value, |(value, _)| value);
        (name.trim() == key).then(|| value.trim().parse().ok()).flatten()
    })
}

impl Case {
    /// An example without a table.
    #[cfg(test)]
    pub fn named(name: &str, signals: &[&str]) -> Self {
        let signals = signals.iter().map(|&signal| signal.to_owned()).collect();
        let (start, stop, step, tolerance) = (0.0, None, None, 1e-6);
        Self { name: name.to_owned(), table: PathBuf::new(), signals, start, stop, step, tolerance }
    }

    /// The stored table.
    pub fn table(&self) -> Result<Columns, String> {
        let bytes = std::fs::read(&self.table).map_err(|e| format!("cannot read {}: {e}", self.table.display()))?;
        csv(&String::from_utf8_lossy(&bytes))
    }

    /// A study that simulates the example as the reference was, with the tolerance times a factor.
    pub fn study(&self, library: &Path, factor: f64) -> String {
        let mut text = format!(
            "[model]\nfile = {:?}\nclass = {:?}\n[simulate]\nstart = {:?}\n",
            library.display().to_string(),
            self.name,
            self.start
        );
        if let Some(stop) = self.stop {
            text.push_str(&format!("stop = {stop:?}\n"));
            if let Some(step) = self.step.filter(|step| (stop - self.start) / step < 200_000.0) {
                text.push_str(&format!("step = {step:?}\n"));
            }
        }
        text.push_str(&format!("rtol = {:?}\n", (self.tolerance * factor).clamp(1e-10, 1e-3)));
        text
    }
}

/// A table of numbers with names in its first line; commas or semicolons.
fn csv(text: &str) -> Result<Columns, String> {
    let mut lines = text.trim_start_matches('\u{feff}').lines();
    let head = lines.next().unwrap_or_default();
    let is_quoted = head.contains("\",\"");
    let separator = if !is_quoted && head.matches(';').count() > head.matches(',').count() { ';' } else { ',' };
    let names = if is_quoted { quoted(head) } else { head.split(separator).map(clean).collect() };
    let mut columns: Vec<Vec<f64>> = vec![Vec::new(); names.len()];
    for line in lines {
        let cells: Vec<&str> = line.split(separator).collect();
        if cells.len() < names.len() {
            continue;
        }
        for (column, cell) in columns.iter_mut().zip(cells) {
            let cell = cell.trim().trim_matches('"');
            column.push(cell.parse().map_err(|_| format!("`{cell}` in a reference table is not a number"))?);
        }
    }
    Ok(names.into_iter().zip(columns).collect())
}

fn clean(name: &str) -> String {
    name.trim().trim_matches('"').replace(' ', "")
}

/// Names in quotes, which may hold commas.
fn quoted(head: &str) -> Vec<String> {
    head.split('"').skip(1).step_by(2).map(clean).collect()
}

/// The columns of a MATLAB file of level 4 that are asked for.
pub fn matlab(bytes: &[u8], wanted: &dyn Fn(&str) -> bool) -> Columns {
    let mut columns = Columns::new();
    let mut rest = bytes;
    while rest.len() >= 20 {
        let number = |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]) as usize;
        let (kind, n, is_complex, n_name) = (number(0), number(4) * number(8), number(12), number(16));
        let data = 20 + n_name;
        let end = data + 8 * n * if is_complex == 0 { 1 } else { 2 };
        if end > rest.len() {
            break;
        }
        let label = String::from_utf8_lossy(&rest[20..data]).trim_end_matches('\0').replace(' ', "");
        if kind == 0 && wanted(&label) {
            let column = rest[data..data + 8 * n]
                .chunks_exact(8)
                .map(|chunk| f64::from_le_bytes(chunk.try_into().unwrap_or_default()))
                .collect();
            columns.insert(label, column);
        }
        rest = &rest[end..];
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_may_have_remarks() {
        let text = "[Log]\n// Settings\nStopTime=2.5 // from model\nTolerance = 1e-07\nInterval=no // number\n";
        assert_eq!(setting(text, "StopTime"), Some(2.5));
        assert_eq!(setting(text, "Tolerance"), Some(1e-7));
        assert_eq!((setting(text, "Interval"), setting(text, "StartTime")), (None, None));
    }

    #[test]
    fn names_in_quotes_may_hold_commas() {
        let columns = csv("\"time\",\"a[1, 2]\"\n0,1\n1,2.5\n").unwrap();
        assert_eq!(columns["a[1,2]"], [1.0, 2.5]);
        assert_eq!(csv("time;x\n0;3\n").unwrap()["x"], [3.0]);
    }
}
