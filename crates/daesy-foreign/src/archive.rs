//! Archives in the ZIP format, read with distrust.
//!
//! Everything is checked before the first byte is written: names stay inside the folder, nothing is a link or a
//! device, nothing comes twice in two forms, sizes and their ratio are limited, checksums hold. What no unit needs (encryption,
//! several volumes, other methods than stored and deflated) is refused.

use std::path::{Component, Path, PathBuf};

use miniz_oxide::inflate::decompress_to_vec_with_limit;
use rustc_hash::FxHashSet;

use crate::error::ForeignError;

/// How large an archive may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes of the archive itself.
    pub packed: u64,
    /// Number of entries.
    pub entries: usize,
    /// Bytes of all entries.
    pub unpacked: u64,
    /// Bytes of an entry for each byte that it has in the archive, and of all entries for each byte of the archive,
    /// where they are more than `small`.
    pub ratio: u64,
    /// What is small whatever its ratio.
    pub small: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { packed: 1 << 30, entries: 20_000, unpacked: 4 << 30, ratio: 200, small: 64 << 20 }
    }
}

/// A file of an archive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its path, relative, without `.` and `..`.
    pub path: PathBuf,
    /// Where its content begins.
    start: usize,
    packed: usize,
    unpacked: usize,
    checksum: u32,
    is_deflated: bool,
}

/// An archive whose list of contents was checked.
#[derive(Debug)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    limits: Limits,
}

fn damaged(reason: impl Into<String>) -> ForeignError {
    ForeignError::Archive { reason: reason.into() }
}

fn harmful(reason: impl Into<String>) -> ForeignError {
    ForeignError::Unsafe { reason: reason.into() }
}

fn word(bytes: &[u8], at: usize) -> Result<u16, ForeignError> {
    let part = bytes.get(at..at + 2).ok_or_else(|| damaged("it ends in the middle of a record"))?;
    Ok(u16::from_le_bytes([part[0], part[1]]))
}

fn long(bytes: &[u8], at: usize) -> Result<u32, ForeignError> {
    Ok(u32::from(word(bytes, at)?) | u32::from(word(bytes, at + 2)?) << 16)
}

/// Length of the record that ends an archive, without its comment.
const END: usize = 22;
const END_MARK: u32 = 0x0605_4b50;
const LISTED_MARK: u32 = 0x0201_4b50;
const LOCAL_MARK: u32 = 0x0403_4b50;

impl Archive {
    /// Reads the list of contents.
    ///
    /// # Errors
    /// When the archive is damaged, or not safe to unpack.
    pub fn new(bytes: Vec<u8>, limits: Limits) -> Result<Self, ForeignError> {
        if bytes.len() as u64 > limits.packed {
            return Err(harmful(format!("it has {} bytes, and {} are the limit", bytes.len(), limits.packed)));
        }
        let end = find_end(&bytes)?;
        let (count, size, start) =
            (word(&bytes, end + 10)?, long(&bytes, end + 12)? as usize, long(&bytes, end + 16)? as usize);
        if word(&bytes, end + 4)? != 0 || word(&bytes, end + 8)? != count {
            return Err(damaged("it has several volumes"));
        }
        if count == u16::MAX || start == u32::MAX as usize {
            return Err(damaged("it uses the extension for more than 4 GiB"));
        }
        if usize::from(count) > limits.entries {
            return Err(harmful(format!("it has {count} entries, and {} are the limit", limits.entries)));
        }
        if start.checked_add(size).is_none_or(|stop| stop > end) {
            return Err(damaged("its list of contents lies outside of it"));
        }
        let mut archive = Self { bytes, entries: Vec::new(), limits };
        let mut at = start;
        for _ in 0..count {
            at = archive.read_listed(at, start + size)?;
        }
        archive.drop_repetitions();
        archive.check_names()?;
        archive.check_sizes()?;
        Ok(archive)
    }

    /// The files.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Reads an entry of the list of contents; the result is where the next begins.
    fn read_listed(&mut self, at: usize, stop: usize) -> Result<usize, ForeignError> {
        let bytes = &self.bytes;
        if at + 46 > stop || long(bytes, at)? != LISTED_MARK {
            return Err(damaged("its list of contents is shorter than it says"));
        }
        let (flags, method) = (word(bytes, at + 8)?, word(bytes, at + 10)?);
        let (name_len, extra_len, comment_len) =
            (word(bytes, at + 28)? as usize, word(bytes, at + 30)? as usize, word(bytes, at + 32)? as usize);
        let next = at + 46 + name_len + extra_len + comment_len;
        if next > stop {
            return Err(damaged("its list of contents is shorter than it says"));
        }
        let name = String::from_utf8_lossy(&bytes[at + 46..at + 46 + name_len]).into_owned();
        let mode = long(bytes, at + 38)? >> 16;
        let is_unix = bytes[at + 5] == 3;
        if is_unix && !matches!(mode & 0o170_000, 0 | 0o100_000 | 0o040_000) {
            return Err(harmful(format!("the entry `{name}` is a link or a device")));
        }
        let path = safe_path(&name)?;
        if name.ends_with(['/', '\\']) {
            return Ok(next);
        }
        if flags & 1 != 0 {
            return Err(damaged(format!("the entry `{name}` is encrypted")));
        }
        let is_deflated = match method {
            0 => false,
            8 => true,
            other => return Err(damaged(format!("the entry `{name}` is compressed by the unknown method {other}"))),
        };
        let (packed, unpacked) = (long(bytes, at + 20)? as usize, long(bytes, at + 24)? as usize);
        let local = long(bytes, at + 42)? as usize;
        if local + 30 > bytes.len() || long(bytes, local)? != LOCAL_MARK {
            return Err(damaged(format!("the entry `{name}` is not where the list of contents says")));
        }
        let start = local + 30 + word(bytes, local + 26)? as usize + word(bytes, local + 28)? as usize;
        if start.checked_add(packed).is_none_or(|stop| stop > bytes.len()) || !is_deflated && packed != unpacked {
            return Err(damaged(format!("the entry `{name}` lies outside of it")));
        }
        let checksum = long(bytes, at + 16)?;
        self.entries.push(Entry { path, start, packed, unpacked, checksum, is_deflated });
        Ok(next)
    }

    /// Entries that come again with the same size and checksum say nothing new. Of a description there is one: two with
    /// the same checksum can still differ.
    fn drop_repetitions(&mut self) {
        let mut known: FxHashSet<(PathBuf, usize, u32)> = FxHashSet::default();
        let is_description = |entry: &Entry| entry.path == Path::new("modelDescription.xml");
        self.entries.retain(|entry| {
            known.insert((entry.path.clone(), entry.unpacked, entry.checksum)) || is_description(entry)
        });
    }

    /// No two entries may have the same name, on machines that do not tell upper from lower case either, and none may
    /// be a folder of another.
    fn check_names(&self) -> Result<(), ForeignError> {
        let mut names: Vec<String> =
            self.entries.iter().map(|entry| entry.path.to_string_lossy().to_lowercase()).collect();
        names.sort_unstable();
        for pair in names.windows(2) {
            if pair[0] == pair[1] || pair[1].strip_prefix(&pair[0]).is_some_and(|rest| rest.starts_with('/')) {
                return Err(harmful(format!("the entry `{}` comes twice", pair[0])));
            }
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), ForeignError> {
        let total: u64 = self.entries.iter().map(|entry| entry.unpacked as u64).sum();
        let limits = &self.limits;
        if total > limits.unpacked {
            return Err(harmful(format!("it holds {total} bytes, and {} are the limit", limits.unpacked)));
        }
        let growth = |unpacked: u64, packed: u64| {
            let is_too_much = unpacked > limits.small && unpacked / limits.ratio > packed;
            is_too_much.then(|| unpacked / packed.max(1))
        };
        let refused = |what: &str, ratio: u64| {
            let limit = limits.ratio;
            harmful(format!("{what} grows {ratio} times when it is unpacked, and {limit} times is the limit"))
        };
        // A large library beside it hides no bomb.
        for entry in &self.entries {
            if let Some(ratio) = growth(entry.unpacked as u64, entry.packed as u64) {
                return Err(refused(&format!("`{}` in it", entry.path.display()), ratio));
            }
        }
        growth(total, self.bytes.len() as u64).map_or(Ok(()), |ratio| Err(refused("it", ratio)))
    }

    /// The content of a file.
    ///
    /// # Errors
    /// When it is not there or damaged.
    pub fn content(&self, path: &Path) -> Result<Vec<u8>, ForeignError> {
        let entry = self.entries.iter().find(|entry| entry.path == path);
        let shown = path.display();
        self.unpacked(entry.ok_or_else(|| damaged(format!("it has no `{shown}`")))?)
    }

    fn unpacked(&self, entry: &Entry) -> Result<Vec<u8>, ForeignError> {
        let shown = entry.path.display();
        let packed = &self.bytes[entry.start..entry.start + entry.packed];
        let content = if entry.is_deflated {
            decompress_to_vec_with_limit(packed, entry.unpacked)
                .map_err(|_| damaged(format!("`{shown}` cannot be unpacked to the size that is listed")))?
        } else {
            packed.to_vec()
        };
        if content.len() != entry.unpacked || checksum(&content) != entry.checksum {
            return Err(damaged(format!("the checksum of `{shown}` is wrong")));
        }
        Ok(content)
    }

    /// Writes all files below an empty folder.
    ///
    /// # Errors
    /// When a file is damaged or cannot be written.
    pub fn unpack(&self, folder: &Path) -> Result<(), ForeignError> {
        for entry in &self.entries {
            let path = folder.join(&entry.path);
            let content = self.unpacked(entry)?;
            let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            made.and_then(|()| std::fs::write(&path, content)).map_err(|error| ForeignError::File {
                file: path.display().to_string(),
                reason: format!("it cannot be written: {error}"),
            })?;
        }
        Ok(())
    }
}

/// Where the record is that ends the archive; a comment of at most 65535 bytes may follow it.
fn find_end(bytes: &[u8]) -> Result<usize, ForeignError> {
    let first = bytes.len().saturating_sub(END + usize::from(u16::MAX));
    let last = bytes.len().checked_sub(END).ok_or_else(|| damaged("it is too short to be one"))?;
    for at in (first..=last).rev() {
        if long(bytes, at)? == END_MARK && at + END + usize::from(word(bytes, at + 20)?) == bytes.len() {
            return Ok(at);
        }
    }
    Err(damaged("it is no ZIP archive, or its end is missing"))
}

/// A name as a path that cannot leave the folder it is joined to.
fn safe_path(name: &str) -> Result<PathBuf, ForeignError> {
    const MOST_PARTS: usize = 64;
    let plain = name.replace('\\', "/");
    let outside = || harmful(format!("the entry `{name}` lies outside of its folder"));
    if plain.is_empty() || plain.len() > 1024 || plain.contains(['\0', ':']) || plain.starts_with('/') {
        return Err(outside());
    }
    let mut path = PathBuf::new();
    for component in Path::new(&plain).components() {
        match component {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            _ => return Err(outside()),
        }
    }
    // `./` is the folder itself.
    let is_file = !plain.ends_with('/');
    if is_file && path.as_os_str().is_empty() || path.components().count() > MOST_PARTS {
        return Err(outside());
    }
    Ok(path)
}

/// CRC-32 with the reversed polynomial 0xEDB88320.
fn checksum(bytes: &[u8]) -> u32 {
    let mut table = [0u32; 256];
    for (start, entry) in (0u32..).zip(&mut table) {
        *entry = (0..8).fold(start, |rest, _| if rest & 1 == 1 { (rest >> 1) ^ 0xedb8_8320 } else { rest >> 1 });
    }
    !bytes.iter().fold(u32::MAX, |rest, byte| table[((rest ^ u32::from(*byte)) & 0xff) as usize] ^ (rest >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive of stored entries: name, content, file mode.
    fn archive(entries: &[(&str, &[u8], u32)]) -> Vec<u8> {
        let (mut bytes, mut list) = (Vec::new(), Vec::new());
        for (name, content, mode) in entries {
            let start = bytes.len() as u32;
            let put = |to: &mut Vec<u8>, words: &[u16]| words.iter().for_each(|w| to.extend(w.to_le_bytes()));
            let sizes = |to: &mut Vec<u8>| {
                to.extend(checksum(content).to_le_bytes());
                to.extend((content.len() as u32).to_le_bytes());
                to.extend((content.len() as u32).to_le_bytes());
                to.extend((name.len() as u16).to_le_bytes());
            };
            bytes.extend(LOCAL_MARK.to_le_bytes());
            put(&mut bytes, &[20, 0, 0, 0, 0x21]);
            sizes(&mut bytes);
            put(&mut bytes, &[0]);
            bytes.extend(name.as_bytes());
            bytes.extend(*content);
            list.extend(LISTED_MARK.to_le_bytes());
            put(&mut list, &[3 << 8 | 20, 20, 0, 0, 0, 0x21]);
            sizes(&mut list);
            put(&mut list, &[0, 0, 0, 0]);
            list.extend((mode << 16).to_le_bytes());
            list.extend(start.to_le_bytes());
            list.extend(name.as_bytes());
        }
        let (start, size, count) = (bytes.len() as u32, list.len() as u32, entries.len() as u16);
        bytes.extend(&list);
        bytes.extend(END_MARK.to_le_bytes());
        for word in [0, 0, count, count] {
            bytes.extend(u16::to_le_bytes(word));
        }
        bytes.extend(size.to_le_bytes());
        bytes.extend(start.to_le_bytes());
        bytes.extend([0, 0]);
        bytes
    }

    fn code(bytes: Vec<u8>) -> &'static str {
        Archive::new(bytes, Limits::default()).map_or_else(|error| error.code(), |_| "fine")
    }

    #[test]
    fn names_that_leave_the_folder_are_refused_and_so_are_links_and_twins() {
        let plain = 0o100_644;
        assert_eq!(code(archive(&[("./", b"", 0o040_755), ("./a/b.txt", b"x", plain)])), "fine");
        for name in ["../b.txt", "a/../../b", "/etc/passwd", "C:\\windows\\x", "a\\..\\..\\b", "../", "."] {
            assert_eq!(code(archive(&[(name, b"x", plain)])), "fmu-unsafe", "{name}");
        }
        assert_eq!(code(archive(&[("link", b"/etc/passwd", 0o120_777)])), "fmu-unsafe");
        assert_eq!(code(archive(&[("a", b"x", plain), ("A", b"y", plain)])), "fmu-unsafe");
        assert_eq!(code(archive(&[("a", b"x", plain), ("a/b", b"y", plain)])), "fmu-unsafe");
    }

    #[test]
    fn what_grows_too_much_is_refused_before_it_is_unpacked() {
        let bytes = archive(&[("a", &[0; 1000], 0o100_644)]);
        let limits = Limits { small: 100, ratio: 1, unpacked: 1 << 20, ..Limits::default() };
        assert!(Archive::new(bytes.clone(), limits).is_ok());
        let limits = Limits { unpacked: 999, ..limits };
        assert_eq!(Archive::new(bytes, limits).expect_err("too large").code(), "fmu-unsafe");
        // The list of contents says that the entry is larger than all that the archive could hold.
        let mut bomb = archive(&[("a", &[0; 10], 0o100_644)]);
        let size = bomb.len() - END - 47 + 24;
        bomb[size..size + 4].copy_from_slice(&(1u32 << 30).to_le_bytes());
        let method = size - 14;
        bomb[method..method + 2].copy_from_slice(&8u16.to_le_bytes());
        assert_eq!(code(bomb), "fmu-unsafe");
        // So does one beside a large file, which makes up for it in the sum.
        let mut hidden = archive(&[("b", &[0; 100_000], 0o100_644), ("a", &[0; 10], 0o100_644)]);
        let size = hidden.len() - END - 47 + 24;
        hidden[size..size + 4].copy_from_slice(&10_000u32.to_le_bytes());
        hidden[size - 14..size - 12].copy_from_slice(&8u16.to_le_bytes());
        let limits = Limits { small: 100, ratio: 2, ..Limits::default() };
        let error = Archive::new(hidden, limits).expect_err("grows too much");
        assert!(error.to_string().contains("`a` in it grows 1000 times"), "{error}");
    }

    #[test]
    fn every_prefix_and_every_changed_byte_is_read_or_refused_without_a_panic() {
        let bytes = archive(&[("modelDescription.xml", b"<a/>", 0o100_644), ("b/c", b"12345", 0o100_644)]);
        for length in 0..bytes.len() {
            let _ = Archive::new(bytes[..length].to_vec(), Limits::default());
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                if let Ok(archive) = Archive::new(changed, Limits::default()) {
                    archive.entries().iter().for_each(|entry| drop(archive.unpacked(entry)));
                }
            }
        }
    }
}
