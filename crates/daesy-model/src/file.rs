//! Reads files that a user names: regular ones of bounded size, so that no read waits or grows without end.

use std::fs::{File, Metadata};
use std::io::{Error, ErrorKind, Read as _, Result};
use std::path::Path;

/// The largest model or study that is read, in bytes.
pub const MAX_TEXT_BYTES: u64 = 100_000_000;

/// The largest file with data that is read, in bytes.
pub const MAX_DATA_BYTES: u64 = 1_000_000_000;

/// Refuses a device, pipe or socket: reading one may wait or go on for ever.
///
/// # Errors
/// When it is neither a file nor a folder.
pub fn require_regular(metadata: &Metadata) -> Result<()> {
    if metadata.is_file() || metadata.is_dir() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidInput, "it is not a file, but a device, a pipe or a socket"))
}

/// The bytes of a regular file, which may be so many at most.
///
/// # Errors
/// When it cannot be read, is a device, pipe or socket, or is larger.
pub fn read_bytes(path: &Path, most: u64) -> Result<Vec<u8>> {
    // Asked before opening, because opening a pipe waits for its other end.
    let metadata = std::fs::metadata(path)?;
    require_regular(&metadata)?;
    let too_large = || {
        let message = format!("it is larger than {most} bytes, the most that is read");
        Error::new(ErrorKind::FileTooLarge, message)
    };
    if metadata.len() > most {
        return Err(too_large());
    }
    // The length is not to be relied on: some systems show endless files as empty ones.
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

/// The text of a regular file in UTF-8, of so many bytes at most.
///
/// # Errors
/// As [`read_bytes`], and when it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String> {
    String::from_utf8(read_bytes(path, most)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        Error::new(ErrorKind::InvalidData, format!("line {line} is not UTF-8 text"))
    })
}

/// Names of the files in the folder of a file that may not exist: what somebody may have meant.
#[must_use]
pub fn names_beside(path: &Path) -> Vec<String> {
    const MOST: usize = 10_000;
    let folder = path.parent().and_then(|folder| std::fs::read_dir(folder).ok());
    let entries = folder.into_iter().flatten().flatten().take(MOST);
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_refused_and_a_long_file_is_bounded() {
        #[cfg(unix)]
        assert_eq!(read_bytes(Path::new("/dev/zero"), 9).unwrap_err().kind(), ErrorKind::InvalidInput);
        let path = std::env::temp_dir().join(format!("daesy-read-{}.txt", std::process::id()));
        std::fs::write(&path, "one\ntw\u{e4}\n").unwrap();
        assert_eq!(read_text(&path, 9).unwrap(), "one\ntw\u{e4}\n");
        assert_eq!(read_bytes(&path, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        std::fs::write(&path, b"one\ntw\xe4\n").unwrap();
        assert_eq!(read_text(&path, 9).unwrap_err().to_string(), "line 2 is not UTF-8 text");
        std::fs::remove_file(&path).unwrap();
    }
}
