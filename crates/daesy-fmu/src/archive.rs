//! Archives in the ZIP format, written the same way every time.
//!
//! Entries are deflated, or stored where that is no shorter; their date is the first that the format knows, so that the
//! same entries give the same bytes.

use miniz_oxide::deflate::compress_to_vec;

/// A file in an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its path, with `/` between folders.
    pub path: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Whether it is to be executable.
    pub is_executable: bool,
}

/// How hard to compress, from 0 to 10.
const LEVEL: u8 = 6;

/// 1980-01-01, 0:00, as the format writes times and dates.
const TIME: u16 = 0;
const DATE: u16 = 0x21;

/// Version 2.0 of the format: deflate.
const VERSION: u16 = 20;
/// Made by version 2.0 under Unix, so that the file mode counts.
const MADE_BY: u16 = (3 << 8) | VERSION;

/// The checksum that the format wants: CRC-32 with the reversed polynomial 0xEDB88320.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (start, entry) in (0u32..).zip(&mut table) {
        *entry = (0..8).fold(start, |rest, _| if rest & 1 == 1 { (rest >> 1) ^ 0xedb8_8320 } else { rest >> 1 });
    }
    let step = |rest: u32, byte: &u8| table[((rest ^ u32::from(*byte)) & 0xff) as usize] ^ (rest >> 8);
    !bytes.iter().fold(u32::MAX, step)
}

/// What the two heads of an entry have in common.
struct Head {
    method: u16,
    checksum: u32,
    packed: u32,
    unpacked: u32,
    path: u16,
}

impl Head {
    fn write(&self, bytes: &mut Vec<u8>) {
        // Names are UTF-8.
        for word in [VERSION, 1 << 11, self.method, TIME, DATE] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for word in [self.checksum, self.packed, self.unpacked] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.path.to_le_bytes());
        bytes.extend_from_slice(&0u16.to_le_bytes());
    }
}

/// Why an archive cannot be written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{path}` is too large for an archive: the format holds files of less than 4 GiB")]
pub struct TooLarge {
    /// The entry.
    pub path: String,
}

/// The bytes of an archive.
///
/// # Errors
/// When an entry, or all of them, are larger than the format allows.
pub fn pack(entries: &[Entry]) -> Result<Vec<u8>, TooLarge> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let refused = || TooLarge { path: entry.path.clone() };
        let deflated = compress_to_vec(&entry.bytes, LEVEL);
        let (method, packed) = if deflated.len() < entry.bytes.len() { (8, &deflated) } else { (0, &entry.bytes) };
        let head = Head {
            method,
            checksum: checksum(&entry.bytes),
            packed: u32::try_from(packed.len()).map_err(|_| refused())?,
            unpacked: u32::try_from(entry.bytes.len()).map_err(|_| refused())?,
            path: u16::try_from(entry.path.len()).map_err(|_| refused())?,
        };
        let offset = u32::try_from(bytes.len()).map_err(|_| refused())?;
        bytes.extend_from_slice(b"PK\x03\x04");
        head.write(&mut bytes);
        bytes.extend_from_slice(entry.path.as_bytes());
        bytes.extend_from_slice(packed);
        directory.extend_from_slice(b"PK\x01\x02");
        directory.extend_from_slice(&MADE_BY.to_le_bytes());
        head.write(&mut directory);
        // No comment, first disk, no text.
        directory.extend_from_slice(&[0; 6]);
        let mode: u32 = if entry.is_executable { 0o100_755 } else { 0o100_644 };
        directory.extend_from_slice(&(mode << 16).to_le_bytes());
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(entry.path.as_bytes());
    }
    let all = || TooLarge { path: "the archive".to_owned() };
    let start = u32::try_from(bytes.len()).map_err(|_| all())?;
    let size = u32::try_from(directory.len()).map_err(|_| all())?;
    let n = u16::try_from(entries.len()).map_err(|_| all())?;
    bytes.extend_from_slice(&directory);
    bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    bytes.extend_from_slice(&n.to_le_bytes());
    bytes.extend_from_slice(&n.to_le_bytes());
    bytes.extend_from_slice(&size.to_le_bytes());
    bytes.extend_from_slice(&start.to_le_bytes());
    bytes.extend_from_slice(&0u16.to_le_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_format() {
        // The check value of CRC-32/ISO-HDLC.
        assert_eq!(checksum(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn the_same_entries_give_the_same_bytes() {
        let entry = |path: &str, bytes: &[u8]| Entry { path: path.into(), bytes: bytes.into(), is_executable: false };
        let entries = [entry("a/b.txt", &[b'x'; 1000]), entry("c", b"")];
        let packed = pack(&entries).unwrap();
        assert_eq!(pack(&entries).unwrap(), packed);
        assert!(packed.len() < 400);
    }
}
