//! Tables in files: the text format of the Standard Library, comma-separated values, and MATLAB files of level 4 and 5
//! (which versions 6 and 7 write; those of 7.3 are HDF5).
//!
//! A text file begins with `#1` and holds matrices as `double name(rows, columns)` followed by their entries, row by
//! row; `#` begins a comment.

use std::path::Path;

use daesy_graph::table::Matrix;

use crate::library::Library;

/// How comma-separated values are read.
#[derive(Clone, Debug)]
pub(crate) struct CsvOptions {
    pub delimiter: String,
    pub n_header_lines: usize,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { delimiter: ",".to_owned(), n_header_lines: 0 }
    }
}

/// Why a table cannot be read from a file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{0}")]
    Unreadable(#[from] std::io::Error),
    #[error("the file has no matrix of this name")]
    NoMatrix,
    #[error("the file does not begin with `#1`, and is neither a MATLAB file nor comma-separated values")]
    UnknownFormat,
    #[error("line {line}: `{text}` is not a number")]
    NotANumber { line: usize, text: String },
    #[error("the matrix ends early: {found} of {wanted} numbers")]
    TooShort { found: usize, wanted: usize },
    #[error("the rows have different lengths")]
    Ragged,
    #[error("MATLAB files of version 7.3 cannot be read: save it with `-v7`")]
    NewMatlab,
}

/// Reads a matrix from a file.
pub(crate) fn read(library: &Library, path: &str, name: &str, options: &CsvOptions) -> Result<Matrix, FileError> {
    let bytes = library.read_file(path)?;
    match Path::new(path).extension().and_then(|ending| ending.to_str()).map(str::to_lowercase).as_deref() {
        Some("mat") => matlab(&bytes, name),
        Some("csv") => csv(&String::from_utf8_lossy(&bytes), options),
        _ => text(&String::from_utf8_lossy(&bytes), name),
    }
}

fn text(text: &str, name: &str) -> Result<Matrix, FileError> {
    if !text.starts_with("#1") {
        return Err(FileError::UnknownFormat);
    }
    let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.split('#').next().unwrap_or("")));
    let (rows, columns, rest) = loop {
        let Some((_, line)) = lines.next() else { return Err(FileError::NoMatrix) };
        if let Some(found) = header(line, name) {
            break found;
        }
    };
    let wanted = rows * columns;
    let mut entries = Vec::with_capacity(wanted);
    let first = (0, rest);
    for (line, words) in std::iter::once(first).chain(lines) {
        for word in words.split(|letter: char| letter.is_whitespace() || letter == ',' || letter == ';') {
            if word.is_empty() || entries.len() == wanted {
                continue;
            }
            entries.push(word.parse().map_err(|_| FileError::NotANumber { line, text: word.to_owned() })?);
        }
        if entries.len() == wanted {
            return Ok(Matrix { rows, columns, entries });
        }
    }
    Err(FileError::TooShort { found: entries.len(), wanted })
}

/// `double name(rows, columns) ..` or `float ..`, with what comes after it.
fn header<'l>(line: &'l str, name: &str) -> Option<(usize, usize, &'l str)> {
    let line = line.trim_start();
    let rest = line.strip_prefix("double").or_else(|| line.strip_prefix("float"))?.trim_start();
    let rest = rest.strip_prefix(name)?.trim_start().strip_prefix('(')?;
    let (sizes, rest) = rest.split_once(')')?;
    let (rows, columns) = sizes.split_once(',')?;
    Some((rows.trim().parse().ok()?, columns.trim().parse().ok()?, rest))
}

fn csv(text: &str, options: &CsvOptions) -> Result<Matrix, FileError> {
    let mut matrix = Matrix { rows: 0, columns: 0, entries: Vec::new() };
    for (at, line) in text.lines().enumerate().skip(options.n_header_lines) {
        if line.trim().is_empty() {
            continue;
        }
        let before = matrix.entries.len();
        for word in line.split(options.delimiter.as_str()).map(str::trim).filter(|word| !word.is_empty()) {
            let number = word.parse().map_err(|_| FileError::NotANumber { line: at + 1, text: word.to_owned() })?;
            matrix.entries.push(number);
        }
        let n = matrix.entries.len() - before;
        if matrix.rows > 0 && n != matrix.columns {
            return Err(FileError::Ragged);
        }
        matrix.columns = n;
        matrix.rows += 1;
    }
    if matrix.rows == 0 { Err(FileError::NoMatrix) } else { Ok(matrix) }
}

/// A matrix of a MATLAB file of level 4: a head of five integers (type, rows, columns, whether it is complex, length of
/// the name), the name, and the entries column by column.
fn matlab(bytes: &[u8], name: &str) -> Result<Matrix, FileError> {
    if bytes.starts_with(b"MATLAB 5.0") {
        return matlab_5(bytes.get(128..).unwrap_or_default(), name);
    }
    if bytes.starts_with(b"MATLAB") {
        return Err(FileError::NewMatlab);
    }
    let mut rest = bytes;
    while rest.len() >= 20 {
        let number = |at: usize| u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]) as usize;
        let (kind, rows, columns, is_complex, n_name) = (number(0), number(4), number(8), number(12), number(16));
        let size = match kind / 10 % 10 {
            0 => 8,
            1 | 2 => 4,
            3 | 4 => 2,
            5 => 1,
            _ => return Err(FileError::UnknownFormat),
        };
        let n = rows.checked_mul(columns).ok_or(FileError::UnknownFormat)?;
        let data = 20 + n_name;
        let end = n.checked_mul(size * if is_complex == 0 { 1 } else { 2 }).and_then(|length| length.checked_add(data));
        let Some(end) = end.filter(|&end| end <= rest.len() && kind < 1000) else {
            return Err(FileError::TooShort { found: rest.len(), wanted: n });
        };
        let label = rest[20..data].split(|&byte| byte == 0).next().unwrap_or_default();
        if label == name.as_bytes() {
            let at = |index: usize| entry(&rest[data + index * size..data + (index + 1) * size], kind / 10 % 10);
            let entries = (0..n).map(|k| at((k % columns) * rows + k / columns)).collect();
            return Ok(Matrix { rows, columns, entries });
        }
        rest = &rest[end..];
    }
    Err(FileError::NoMatrix)
}

/// Bytes that a compressed matrix may have.
const LARGEST_MATRIX: usize = 1 << 28;

/// An element of a MATLAB file of level 5, and what comes after it. Its tag is two integers, its type and length, and
/// it ends at a multiple of eight bytes; one of up to four bytes has both in one integer.
fn element(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let number = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let tag = number(0)?;
    if tag >> 16 != 0 {
        return Some((tag & 0xffff, bytes.get(4..4 + (tag >> 16) as usize)?, bytes.get(8..)?));
    }
    let length = number(4)? as usize;
    // What is compressed has no padding.
    let padded = if tag == COMPRESSED { length } else { length.checked_next_multiple_of(8)? };
    let end = length.checked_add(8)?;
    Some((tag, bytes.get(8..end)?, bytes.get(padded.checked_add(8)?..).unwrap_or_default()))
}

const MATRIX: u32 = 14;
const COMPRESSED: u32 = 15;

/// A matrix of a MATLAB file of level 5: elements one after the other, whole or compressed.
fn matlab_5(bytes: &[u8], name: &str) -> Result<Matrix, FileError> {
    let mut rest = bytes;
    while let Some((kind, data, after)) = element(rest) {
        let found = if kind == COMPRESSED {
            let whole = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(data, LARGEST_MATRIX)
                .map_err(|_| FileError::UnknownFormat)?;
            element(&whole).filter(|(kind, ..)| *kind == MATRIX).and_then(|(_, data, _)| named_matrix(data, name))
        } else if kind == MATRIX {
            named_matrix(data, name)
        } else {
            None
        };
        if let Some(matrix) = found {
            return matrix;
        }
        rest = after;
    }
    Err(FileError::NoMatrix)
}

/// The matrix of an element if it has this name: flags, sizes, the name, and the entries column by column, in the
/// smallest type that holds them.
fn named_matrix(data: &[u8], name: &str) -> Option<Result<Matrix, FileError>> {
    let (_, flags, rest) = element(data)?;
    let (_, sizes, rest) = element(rest)?;
    let (_, label, rest) = element(rest)?;
    // Classes 6 to 15 are numbers.
    if label != name.as_bytes() || !(6..=15).contains(flags.first()?) {
        return None;
    }
    let size = |at: usize| Some(u32::from_le_bytes(sizes.get(4 * at..4 * at + 4)?.try_into().ok()?) as usize);
    let (rows, columns) = (size(0)?, size(1)?);
    let n = rows.checked_mul(columns)?;
    let (kind, entries, _) = element(rest)?;
    let width = match kind {
        1 | 2 => 1,
        3 | 4 => 2,
        5..=7 => 4,
        9 | 12 | 13 => 8,
        _ => return Some(Err(FileError::UnknownFormat)),
    };
    let numbers: Vec<f64> = entries.chunks_exact(width).take(n).map(|bytes| number_of_level_5(bytes, kind)).collect();
    if sizes.len() > 8 || numbers.len() < n {
        return Some(Err(FileError::TooShort { found: numbers.len(), wanted: n }));
    }
    let entries = (0..n).map(|k| numbers[(k % columns) * rows + k / columns]).collect();
    Some(Ok(Matrix { rows, columns, entries }))
}

fn number_of_level_5(bytes: &[u8], kind: u32) -> f64 {
    let mut low = [0; 8];
    low[..bytes.len()].copy_from_slice(bytes);
    let unsigned = u64::from_le_bytes(low);
    // The sign of a shorter integer is its own highest bit.
    let unused = 64 - 8 * bytes.len() as u32;
    let signed = (unsigned << unused) as i64 >> unused;
    match kind {
        9 => f64::from_bits(unsigned),
        7 => f64::from(f32::from_bits(unsigned as u32)),
        1 | 3 | 5 | 12 => signed as f64,
        _ => unsigned as f64,
    }
}

fn entry(bytes: &[u8], kind: usize) -> f64 {
    match (kind, bytes) {
        (0, &[a, b, c, d, e, f, g, h]) => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        (1, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
        (2, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
        (3, &[a, b]) => f64::from(i16::from_le_bytes([a, b])),
        (4, &[a, b]) => f64::from(u16::from_le_bytes([a, b])),
        (_, &[a]) => f64::from(a),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_of_text_files_are_found_by_name() {
        let file = "#1\n# comment\ndouble a(1,2)\n 1 2\ndouble tab(2, 3) # two rows\n0, 1.5 2\n3;4 5e1\n";
        let found = text(file, "tab").unwrap();
        assert_eq!((found.rows, found.columns, found.entries), (2, 3, vec![0.0, 1.5, 2.0, 3.0, 4.0, 50.0]));
        assert!(matches!(text(file, "other"), Err(FileError::NoMatrix)));
        assert!(matches!(text("#1\ndouble a(2,2)\n1 2 3", "a"), Err(FileError::TooShort { found: 3, wanted: 4 })));
        assert!(matches!(text("double a(1,1)\n1", "a"), Err(FileError::UnknownFormat)));
    }

    #[test]
    fn values_separated_by_commas() {
        let options = CsvOptions { delimiter: ";".to_owned(), n_header_lines: 1 };
        let found = csv("t; x\n0; 1\n2; 3\n", &options).unwrap();
        assert_eq!((found.rows, found.columns, found.entries), (2, 2, vec![0.0, 1.0, 2.0, 3.0]));
        assert!(matches!(csv("h\n1;2\n3\n", &options), Err(FileError::Ragged)));
    }

    #[test]
    fn matlab_files_hold_columns_one_after_the_other() {
        let mut bytes = Vec::new();
        for number in [0_u32, 2, 2, 0, 2] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(b"A\0");
        for number in [1.0_f64, 3.0, 2.0, 4.0] {
            bytes.extend(number.to_le_bytes());
        }
        assert_eq!(matlab(&bytes, "A").unwrap().entries, [1.0, 2.0, 3.0, 4.0]);
        assert!(matches!(matlab(&bytes, "B"), Err(FileError::NoMatrix)));
        assert!(matches!(matlab(b"MATLAB 7.3 MAT-file", "A"), Err(FileError::NewMatlab)));
        assert!(matches!(matlab(b"MATLAB 5.0 MAT-file", "A"), Err(FileError::NoMatrix)));
    }

    /// An element with its tag and padding.
    fn tagged(kind: u32, data: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((data.len() as u32).to_le_bytes());
        bytes.extend(data);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    fn matrix_of_level_5(name: &str, sizes: [u32; 2], kind: u32, entries: &[u8]) -> Vec<u8> {
        let mut inside = tagged(6, &[6, 0, 0, 0, 0, 0, 0, 0]);
        inside.extend(tagged(5, &sizes.map(u32::to_le_bytes).concat()));
        // A short name is in one integer with its tag.
        inside.extend([1, 0, name.len() as u8, 0]);
        inside.extend(name.as_bytes());
        inside.resize(inside.len().next_multiple_of(8), 0);
        inside.extend(tagged(kind, entries));
        tagged(MATRIX, &inside)
    }

    #[test]
    fn matlab_files_of_level_5_are_read_whole_and_compressed() {
        let doubles: Vec<u8> = [1.0_f64, 3.0, 5.0, 2.0, 4.0, 6.5].iter().flat_map(|it| it.to_le_bytes()).collect();
        let a = matrix_of_level_5("A", [3, 2], 9, &doubles);
        let b = matrix_of_level_5("bb", [1, 3], 3, &[1, 0, 254, 255, 0, 1]);
        let mut head = b"MATLAB 5.0 MAT-file".to_vec();
        head.resize(128, b' ');
        let mut zipped = miniz_oxide::deflate::compress_to_vec_zlib(&b, 6);
        let mut compressed = COMPRESSED.to_le_bytes().to_vec();
        compressed.extend((zipped.len() as u32).to_le_bytes());
        compressed.append(&mut zipped);
        for file in [[&head[..], &a, &b].concat(), [&head[..], &compressed, &a].concat()] {
            let found = matlab(&file, "A").unwrap();
            assert_eq!((found.rows, found.columns, found.entries), (3, 2, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.5]));
            assert_eq!(matlab(&file, "bb").unwrap().entries, [1.0, -2.0, 256.0]);
            assert!(matches!(matlab(&file, "b"), Err(FileError::NoMatrix)));
            for end in 0..file.len() {
                let _ = matlab(&file[..end], "bb");
            }
        }
        let short = [&head[..], &matrix_of_level_5("A", [3, 2], 9, &doubles[..40])].concat();
        assert!(matches!(matlab(&short, "A"), Err(FileError::TooShort { found: 5, wanted: 6 })));
    }
}
