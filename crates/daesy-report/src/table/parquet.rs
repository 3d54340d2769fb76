//! Tables as Apache Parquet files: plain, uncompressed columns of doubles that are always there.
//!
//! A file is the word `PAR1`, the pages of all columns one after the other, a description in Thrift's compact protocol,
//! the length of that description and `PAR1` again. A page is a small description of itself and its numbers,
//! little-endian. Missing values are NaN.

use std::io::{self, Write};

use super::Table;

/// Numbers in one page.
const PAGE: usize = 1 << 20;

const MAGIC: &[u8; 4] = b"PAR1";

/// Words of the format.
const DOUBLE: i64 = 5;
const REQUIRED: i64 = 0;
const PLAIN: i64 = 0;
const RUN_LENGTH: i64 = 3;
const UNCOMPRESSED: i64 = 0;
const DATA_PAGE: i64 = 0;

/// Numbers in one group of rows, at most: what a writer of rows keeps until it writes them.
const GROUP: usize = 1 << 23;

struct Chunk {
    offset: usize,
    size: usize,
}

/// Rows that stand together, column by column.
struct Group {
    n_rows: usize,
    chunks: Vec<Chunk>,
}

/// A file that is written group by group.
pub(super) struct Groups {
    n_bytes: usize,
    groups: Vec<Group>,
}

impl Groups {
    /// The file begins.
    pub(super) fn begin(out: &mut dyn Write) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        Ok(Self { n_bytes: MAGIC.len(), groups: Vec::new() })
    }

    /// Rows in a group of a table with so many columns.
    pub(super) fn n_rows(n_columns: usize) -> usize {
        (GROUP / n_columns.max(1)).max(1)
    }

    /// Writes some rows, whose values `column` gives.
    pub(super) fn add<'a, V: Iterator<Item = f64>>(
        &mut self,
        out: &mut dyn Write,
        n_rows: usize,
        columns: impl Iterator<Item = V> + 'a,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut chunks = Vec::with_capacity(columns.size_hint().0);
        for mut column in columns {
            bytes.clear();
            let mut n_left = n_rows;
            loop {
                let n_values = n_left.min(PAGE);
                bytes.extend(page_header(n_values));
                column.by_ref().take(n_values).for_each(|value| bytes.extend((value + 0.0).to_le_bytes()));
                n_left -= n_values;
                if n_left == 0 {
                    break;
                }
            }
            out.write_all(&bytes)?;
            chunks.push(Chunk { offset: self.n_bytes, size: bytes.len() });
            self.n_bytes += bytes.len();
        }
        self.groups.push(Group { n_rows, chunks });
        Ok(())
    }

    /// The file ends.
    pub(super) fn end(mut self, out: &mut dyn Write, names: &[String]) -> io::Result<()> {
        if self.groups.is_empty() {
            self.add(out, 0, names.iter().map(|_| std::iter::empty()))?;
        }
        let footer = file_description(names, &self.groups);
        out.write_all(&footer)?;
        out.write_all(&(footer.len() as u32).to_le_bytes())?;
        out.write_all(MAGIC)
    }
}

/// Writes a whole table.
pub(super) fn write(table: &Table, out: &mut dyn Write) -> io::Result<()> {
    let mut groups = Groups::begin(out)?;
    let n_rows = Groups::n_rows(table.names.len());
    for first in (0..table.n_rows()).step_by(n_rows) {
        let rows = first..table.n_rows().min(first + n_rows);
        let columns = table.columns.iter().map(|column| column[rows.clone()].iter().copied());
        groups.add(out, rows.len(), columns)?;
    }
    groups.end(out, &table.names)
}

fn page_header(n_values: usize) -> Vec<u8> {
    let mut thrift = Compact::default();
    thrift.begin();
    thrift.integer(1, DATA_PAGE, Width::Four);
    thrift.integer(2, 8 * n_values as i64, Width::Four);
    thrift.integer(3, 8 * n_values as i64, Width::Four);
    thrift.structure(5);
    thrift.integer(1, n_values as i64, Width::Four);
    thrift.integer(2, PLAIN, Width::Four);
    thrift.integer(3, RUN_LENGTH, Width::Four);
    thrift.integer(4, RUN_LENGTH, Width::Four);
    thrift.end();
    thrift.end();
    thrift.bytes
}

fn file_description(names: &[String], groups: &[Group]) -> Vec<u8> {
    let n_rows: usize = groups.iter().map(|group| group.n_rows).sum();
    let mut thrift = Compact::default();
    thrift.begin();
    thrift.integer(1, 1, Width::Four);
    thrift.list(2, Kind::Structure, names.len() + 1);
    thrift.begin();
    thrift.text(4, "table");
    thrift.integer(5, names.len() as i64, Width::Four);
    thrift.end();
    for name in names {
        thrift.begin();
        thrift.integer(1, DOUBLE, Width::Four);
        thrift.integer(3, REQUIRED, Width::Four);
        thrift.text(4, name);
        thrift.end();
    }
    thrift.integer(3, n_rows as i64, Width::Eight);
    thrift.list(4, Kind::Structure, groups.len());
    groups.iter().for_each(|group| describe_group(&mut thrift, names, group));
    thrift.text(6, concat!("daesy version ", env!("CARGO_PKG_VERSION")));
    thrift.end();
    thrift.bytes
}

/// What a file says of a group of rows.
fn describe_group(thrift: &mut Compact, names: &[String], group: &Group) {
    thrift.begin();
    thrift.list(1, Kind::Structure, group.chunks.len());
    for (chunk, name) in group.chunks.iter().zip(names) {
        thrift.begin();
        thrift.integer(2, chunk.offset as i64, Width::Eight);
        thrift.structure(3);
        thrift.integer(1, DOUBLE, Width::Four);
        thrift.list(2, Kind::Four, 2);
        thrift.zigzag(PLAIN);
        thrift.zigzag(RUN_LENGTH);
        thrift.list(3, Kind::Binary, 1);
        thrift.string(name);
        thrift.integer(4, UNCOMPRESSED, Width::Four);
        thrift.integer(5, group.n_rows as i64, Width::Eight);
        thrift.integer(6, chunk.size as i64, Width::Eight);
        thrift.integer(7, chunk.size as i64, Width::Eight);
        thrift.integer(9, chunk.offset as i64, Width::Eight);
        thrift.end();
        thrift.end();
    }
    thrift.integer(2, group.chunks.iter().map(|chunk| chunk.size as i64).sum(), Width::Eight);
    thrift.integer(3, group.n_rows as i64, Width::Eight);
    thrift.end();
}

/// Size of an integer field.
#[derive(Clone, Copy)]
enum Width {
    Four,
    Eight,
}

/// Kinds of fields and list elements in Thrift's compact protocol.
#[derive(Clone, Copy)]
enum Kind {
    Four = 5,
    Eight = 6,
    Binary = 8,
    List = 9,
    Structure = 12,
}

/// A writer of Thrift's compact protocol: fields by ascending number, each with the distance to the one before.
#[derive(Default)]
struct Compact {
    bytes: Vec<u8>,
    /// The last field of each open structure.
    last: Vec<u8>,
}

impl Compact {
    /// Opens a structure that stands in a list, or the outermost one.
    fn begin(&mut self) {
        self.last.push(0);
    }

    fn end(&mut self) {
        self.last.pop();
        self.bytes.push(0);
    }

    fn field(&mut self, number: u8, kind: Kind) {
        let last = self.last.last_mut().map_or(0, |last| std::mem::replace(last, number));
        // Fields here are less than 16 apart.
        self.bytes.push((number - last) << 4 | kind as u8);
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn zigzag(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63) as u64);
    }

    fn integer(&mut self, number: u8, value: i64, width: Width) {
        self.field(number, if matches!(width, Width::Four) { Kind::Four } else { Kind::Eight });
        self.zigzag(value);
    }

    fn string(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    fn text(&mut self, number: u8, text: &str) {
        self.field(number, Kind::Binary);
        self.string(text);
    }

    fn list(&mut self, number: u8, of: Kind, len: usize) {
        self.field(number, Kind::List);
        if len < 15 {
            self.bytes.push((len as u8) << 4 | of as u8);
        } else {
            self.bytes.push(0xf0 | of as u8);
            self.varint(len as u64);
        }
    }

    fn structure(&mut self, number: u8) {
        self.field(number, Kind::Structure);
        self.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_ends_with_the_length_of_its_description() {
        let table = Table { names: vec!["t".into(), "x".into()], columns: vec![vec![0.0, 1.0], vec![2.0, f64::NAN]] };
        let mut bytes = Vec::new();
        write(&table, &mut bytes).unwrap();
        assert_eq!(&bytes[..4], MAGIC);
        assert_eq!(&bytes[bytes.len() - 4..], MAGIC);
        let length = u32::from_le_bytes(bytes[bytes.len() - 8..bytes.len() - 4].try_into().unwrap()) as usize;
        let header = page_header(2).len();
        assert_eq!(bytes.len(), 4 + 2 * (header + 16) + length + 8);
        assert_eq!(bytes[4 + header..12 + header], 0.0f64.to_le_bytes());
    }

    #[test]
    fn small_and_large_integers_are_packed() {
        let mut thrift = Compact::default();
        thrift.zigzag(-1);
        thrift.zigzag(150);
        assert_eq!(thrift.bytes, [1, 0xac, 2]);
    }
}
