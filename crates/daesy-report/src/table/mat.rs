//! Tables as MATLAB files of level 4: one column vector of doubles for each column, under its name.
//!
//! A matrix is five little-endian integers (kind, rows, columns, whether it is complex, length of its name with the
//! closing zero), the name, and the numbers column by column. Every reader of MATLAB files knows this oldest kind.

use super::Table;

/// The bytes of a file.
pub(super) fn write(table: &Table) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(table.names.len() * (64 + 8 * table.n_rows()));
    for (name, column) in table.names.iter().zip(&table.columns) {
        // Kind 0: doubles, little-endian, full matrix.
        let n_name = name.len() + 1;
        for number in [0, column.len(), 1, 0, n_name] {
            bytes.extend((number as u32).to_le_bytes());
        }
        bytes.extend(name.as_bytes());
        bytes.push(0);
        for value in column {
            bytes.extend((value + 0.0).to_le_bytes());
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_is_header_name_and_numbers() {
        let table = Table { names: vec!["t".into()], columns: vec![vec![0.5, -0.0]] };
        let bytes = write(&table);
        assert_eq!(bytes.len(), 20 + 2 + 16);
        assert_eq!(bytes[..20], [0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(&bytes[20..22], b"t\0");
        assert_eq!(bytes[22..30], 0.5f64.to_le_bytes());
        // The sign of a zero is not kept.
        assert_eq!(bytes[30..38], 0.0f64.to_le_bytes());
    }
}
