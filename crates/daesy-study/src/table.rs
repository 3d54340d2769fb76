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
        // Enough for most tables: a text that grows would be there twice.
        let mut text = String::with_capacity(self.n_rows() * self.columns.len() * 20);
        write_csv_names(&mut text, &self.names);
        for row in 0..self.n_rows() {
            write_csv_row(&mut text, self.columns.iter().map(|column| column[row]));
        }
        text
    }
}

/// Adds the first line of a table as comma-separated values.
pub fn write_csv_names(text: &mut String, names: &[String]) {
    for (at, name) in names.iter().enumerate() {
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
}

/// Adds a row of a table as comma-separated values.
pub fn write_csv_row(text: &mut String, values: impl IntoIterator<Item = f64>) {
    let mut buffer = zmij::Buffer::new();
    for (at, value) in values.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        if value.is_finite() {
            // Adding zero takes the sign from a negative zero.
            write_shortest(text, value + 0.0, &mut buffer);
        }
    }
    text.push('\n');
}

/// Writes the shortest text that reads back to the same double, with an exponent where that is shorter.
fn write_shortest(text: &mut String, value: f64, buffer: &mut zmij::Buffer) {
    let size = value.abs();
    if size != 0.0 && !(1e-5..1e16).contains(&size) {
        let _ = write!(text, "{value:e}");
        return;
    }
    let shortest = buffer.format_finite(value);
    if shortest.contains('e') {
        let _ = write!(text, "{value}");
    } else {
        text.push_str(shortest.strip_suffix(".0").unwrap_or(shortest));
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
    fn numbers_are_written_as_short_as_the_standard_library_writes_them() {
        let mut seed = 3u64;
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed ^ (seed >> 29)
        };
        let mut buffer = zmij::Buffer::new();
        let special = [0.0, 1.0, -2.5, 1e-5, 9.999e-6, 1e15, 1e16, 123_456_789.0, 0.1 + 0.2, 5e-324, f64::MAX];
        let mut values = special.to_vec();
        for power in (-8..18).cycle().take(20_000) {
            values.push((random() >> 11) as f64 / 9e15 * 10f64.powi(power));
            values.push(f64::from_bits(random()));
        }
        for value in values.into_iter().filter(|value| value.is_finite()) {
            let size = value.abs();
            let is_long = size != 0.0 && !(1e-5..1e16).contains(&size);
            let expected = if is_long { format!("{value:e}") } else { format!("{value}") };
            let mut text = String::new();
            write_shortest(&mut text, value, &mut buffer);
            // Of two texts that are equally near, either may be taken.
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{text}");
            assert_eq!(text.len(), expected.len(), "{text} and {expected}");
        }
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
