//! Columns of numbers with names: data in memory and results.

use std::fmt::Write as _;

use rustc_hash::FxHashSet;

/// Columns of equal length.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Table {
    /// Names of the columns.
    pub names: Vec<String>,
    /// Their values.
    pub columns: Vec<Vec<f64>>,
}

impl Table {
    /// Number of rows.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    /// A column by name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&[f64]> {
        let at = self.names.iter().position(|candidate| candidate == name)?;
        Some(&self.columns[at])
    }

    /// Gives columns whose name an earlier column has another name, so that each is found under its own: the time is
    /// always `t`, and a variable `t` becomes `variable.t`. Gives the old and the new names.
    pub fn make_names_distinct(&mut self) -> Vec<(String, String)> {
        let mut taken: FxHashSet<String> = self.names.iter().cloned().collect();
        let mut met: FxHashSet<String> = FxHashSet::default();
        let mut renamed = Vec::new();
        for name in &mut self.names {
            if met.insert(name.clone()) {
                continue;
            }
            let mut other = format!("variable.{name}");
            while taken.contains(&other) {
                other.push('_');
            }
            taken.insert(other.clone());
            met.insert(other.clone());
            renamed.push((std::mem::replace(name, other.clone()), other));
        }
        renamed
    }

    /// The table as comma-separated values: names with commas or quotes quoted as in RFC 4180, numbers in the shortest
    /// form that reads back to the same double, missing values empty.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        for (at, name) in self.names.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            if name.contains([',', '"', '\n', '\r']) {
                let _ = write!(text, "\"{}\"", name.replace('"', "\"\""));
            } else {
                text.push_str(name);
            }
        }
        text.push('\n');
        for row in 0..self.n_rows() {
            for (at, column) in self.columns.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                if column[row].is_finite() {
                    // Adding zero takes the sign from a negative zero.
                    let _ = write!(text, "{}", Shortest(column[row] + 0.0));
                }
            }
            text.push('\n');
        }
        text
    }
}

/// Shortest text that reads back to the same double, with an exponent where that is shorter.
struct Shortest(f64);

impl std::fmt::Display for Shortest {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.0.abs();
        if size != 0.0 && !(1e-5..1e16).contains(&size) {
            write!(formatter, "{:e}", self.0)
        } else {
            write!(formatter, "{}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_called_t_is_not_the_time() {
        let names = ["t", "x", "t", "variable.t", "x"].map(str::to_owned).to_vec();
        let mut table = Table { columns: vec![vec![0.0]; names.len()], names };
        let renamed = table.make_names_distinct();
        assert_eq!(table.names, ["t", "x", "variable.t_", "variable.t", "variable.x"]);
        assert_eq!(renamed[0], ("t".to_owned(), "variable.t_".to_owned()));
    }

    #[test]
    fn csv_reads_back_to_the_same_numbers() {
        let values = vec![0.1 + 0.2, -1e-300, 6.02e23, 0.0, f64::NAN, 123456789.0];
        let table = Table { names: vec!["t".into(), "p[1,2]".into()], columns: vec![values.clone(), values.clone()] };
        let text = table.to_csv();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("t,\"p[1,2]\""));
        for (line, value) in lines.zip(values) {
            let read = line.split(',').next().unwrap();
            if value.is_nan() {
                assert_eq!(read, "");
            } else {
                assert_eq!(read.parse::<f64>().unwrap().to_bits(), value.to_bits());
            }
        }
    }
}
