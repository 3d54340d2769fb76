//! Tables as Apache Parquet files: plain, uncompressed columns of doubles that are always there.
//!
//! A file is the word `PAR1`, the pages of all columns one after the other, a description in Thrift's compact protocol,
//! the length of that description and `PAR1` again. A page is a small description of itself and its numbers,
//! little-endian. Missing values are NaN.

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

struct Chunk {
    offset: usize,
    size: usize,
}

/// The bytes of a file.
pub(super) fn write(table: &Table) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64 + table.names.len() * (128 + 8 * table.n_rows()));
    bytes.extend(MAGIC);
    let mut chunks = Vec::with_capacity(table.columns.len());
    for column in &table.columns {
        let offset = bytes.len();
        let mut pages: Vec<&[f64]> = column.chunks(PAGE).collect();
        if pages.is_empty() {
            pages.push(&[]);
        }
        for page in pages {
            bytes.extend(page_header(page.len()));
            for value in page {
                bytes.extend((value + 0.0).to_le_bytes());
            }
        }
        chunks.push(Chunk { offset, size: bytes.len() - offset });
    }
    let footer = file_description(table, &chunks);
    bytes.extend(&footer);
    bytes.extend((footer.len() as u32).to_le_bytes());
    bytes.extend(MAGIC);
    bytes
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

fn file_description(table: &Table, chunks: &[Chunk]) -> Vec<u8> {
    let n_rows = table.n_rows() as i64;
    let mut thrift = Compact::default();
    thrift.begin();
    thrift.integer(1, 1, Width::Four);
    thrift.list(2, Kind::Structure, table.names.len() + 1);
    thrift.begin();
    thrift.text(4, "table");
    thrift.integer(5, table.names.len() as i64, Width::Four);
    thrift.end();
    for name in &table.names {
        thrift.begin();
        thrift.integer(1, DOUBLE, Width::Four);
        thrift.integer(3, REQUIRED, Width::Four);
        thrift.text(4, name);
        thrift.end();
    }
    thrift.integer(3, n_rows, Width::Eight);
    thrift.list(4, Kind::Structure, 1);
    thrift.begin();
    thrift.list(1, Kind::Structure, chunks.len());
    for (chunk, name) in chunks.iter().zip(&table.names) {
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
        thrift.integer(5, n_rows, Width::Eight);
        thrift.integer(6, chunk.size as i64, Width::Eight);
        thrift.integer(7, chunk.size as i64, Width::Eight);
        thrift.integer(9, chunk.offset as i64, Width::Eight);
        thrift.end();
        thrift.end();
    }
    thrift.integer(2, chunks.iter().map(|chunk| chunk.size as i64).sum(), Width::Eight);
    thrift.integer(3, n_rows, Width::Eight);
    thrift.end();
    thrift.text(6, concat!("daesy version ", env!("CARGO_PKG_VERSION")));
    thrift.end();
    thrift.bytes
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
        let bytes = write(&table);
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
