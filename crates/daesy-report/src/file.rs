//! Writes files whole or not at all, and never puts a file in the place of something that is none.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, BufWriter, Error, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a file that is being written beside its place is called: this, the process, a number, and the ending.
const PART_START: &str = ".daesy-";
const PART_END: &str = ".part";

/// Links that are followed before they are taken for a circle.
const MAX_LINKS: usize = 40;

/// Writes a file whole or not at all: the bytes go to a file beside it that then takes its name.
///
/// A link is followed. A file keeps its permissions, and its other names where it has several. A character device is
/// written to; a pipe, a socket or a disk is refused.
///
/// # Errors
/// What the file system says.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_with(path, |writer| writer.write_all(bytes))
}

/// Says before any work is done that a file could not be written in the end, as far as that can be seen.
///
/// # Errors
/// What writing would say.
pub fn check_target(path: &Path) -> io::Result<()> {
    let target = follow_links(path)?;
    match existing(&target)? {
        Some(metadata) if metadata.is_file() && metadata.permissions().readonly() => {
            Err(Error::new(ErrorKind::PermissionDenied, READ_ONLY))
        }
        Some(metadata) => check_kind(&metadata),
        None => {
            let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
            let is_there = folder.is_none_or(Path::is_dir);
            if is_there { Ok(()) } else { Err(Error::new(ErrorKind::NotFound, "there is no such folder")) }
        }
    }
}

const READ_ONLY: &str = "it is read-only";

/// Refuses what is neither a file nor a device to write to.
fn check_kind(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a folder"));
    }
    if !metadata.is_file() && !is_character_device(metadata) {
        return Err(Error::new(ErrorKind::InvalidInput, "it is not a file, but a pipe, a socket or a disk"));
    }
    Ok(())
}

/// As [`write_whole`], for what is written piece by piece.
///
/// # Errors
/// What the file system or `write` says.
pub fn write_with(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    if let Some(mut growing) = Growing::begin(path)? {
        write(&mut growing)?;
        return growing.place();
    }
    let mut writer = BufWriter::new(OpenOptions::new().write(true).open(follow_links(path)?)?);
    write(&mut writer)?;
    writer.flush()
}

#[cfg(unix)]
fn is_character_device(metadata: &Metadata) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    metadata.file_type().is_char_device()
}

#[cfg(not(unix))]
fn is_character_device(_: &Metadata) -> bool {
    true
}

/// What a path names at last; that need not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut target = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        match fs::symlink_metadata(&target) {
            Ok(metadata) if metadata.is_symlink() => {
                let next = fs::read_link(&target)?;
                // What `/dev/stdout` names is no path that could be opened again.
                if existing(&target)?.is_some_and(|metadata| !metadata.is_file()) {
                    return Ok(target);
                }
                target = target.parent().unwrap_or_else(|| Path::new("")).join(next);
            }
            _ => return Ok(target),
        }
    }
    Err(Error::new(ErrorKind::InvalidInput, "its links go round in a circle"))
}

fn existing(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Files of this process that are being written beside their places.
static PARTS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn parts() -> MutexGuard<'static, Vec<PathBuf>> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes what is being written beside its place, for a process that ends without waiting for its own work. Nothing can
/// be put in its place afterwards.
pub fn abandon_all() {
    let parts = parts();
    parts.iter().for_each(|path| drop(fs::remove_file(path)));
    // The lock is kept, so that no other part begins or ends.
    std::mem::forget(parts);
}

/// A file that is removed unless it was put in its place.
struct Part {
    path: PathBuf,
    is_placed: bool,
}

impl Part {
    fn beside(target: &Path) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PART_START}{}-{number}{PART_END}", std::process::id());
        let path = target.with_file_name(name);
        parts().push(path.clone());
        Self { path, is_placed: false }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        parts().retain(|path| *path != self.path);
        if !self.is_placed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A file that is being written beside its place. Unless it is put there, nothing of it is left.
pub struct Growing {
    target: PathBuf,
    before: Option<Metadata>,
    writer: BufWriter<File>,
    part: Part,
}

impl Growing {
    /// Begins to write a file; none where the path names a device, which has nothing beside it.
    ///
    /// # Errors
    /// What the file system says.
    pub fn begin(path: &Path) -> io::Result<Option<Self>> {
        let target = follow_links(path)?;
        let before = existing(&target)?;
        if let Some(metadata) = &before
            && !metadata.is_file()
        {
            return check_kind(metadata).map(|()| None);
        }
        if before.as_ref().is_some_and(|metadata| metadata.permissions().readonly()) {
            return Err(Error::new(ErrorKind::PermissionDenied, READ_ONLY));
        }
        remove_abandoned(&target);
        let part = Part::beside(&target);
        let writer = BufWriter::new(OpenOptions::new().write(true).create_new(true).open(&part.path)?);
        Ok(Some(Self { target, before, writer, part }))
    }

    /// Puts the file in its place.
    ///
    /// # Errors
    /// What the file system says.
    pub fn place(self) -> io::Result<()> {
        let Self { target, before, mut writer, mut part } = self;
        writer.flush()?;
        drop(writer);
        if let Some(metadata) = before {
            if has_other_names(&metadata) {
                // The same file stays under all its names; that its new content fits is known by now.
                let mut file = OpenOptions::new().write(true).truncate(true).open(&target)?;
                io::copy(&mut File::open(&part.path)?, &mut file)?;
                return file.flush();
            }
            keep_owner(&part.path, &metadata);
            fs::set_permissions(&part.path, metadata.permissions())?;
        }
        fs::rename(&part.path, &target)?;
        part.is_placed = true;
        Ok(())
    }
}

impl Write for Growing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

#[cfg(unix)]
fn has_other_names(metadata: &Metadata) -> bool {
    std::os::unix::fs::MetadataExt::nlink(metadata) > 1
}

#[cfg(not(unix))]
fn has_other_names(_: &Metadata) -> bool {
    false
}

/// Gives the new file the owner of the old one, where that is allowed.
#[cfg(unix)]
fn keep_owner(path: &Path, before: &Metadata) {
    use std::os::unix::fs::MetadataExt as _;
    let _ = std::os::unix::fs::chown(path, Some(before.uid()), Some(before.gid()));
}

#[cfg(not(unix))]
fn keep_owner(_: &Path, _: &Metadata) {}

/// Removes what runs that were killed left in this folder.
fn remove_abandoned(target: &Path) {
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(PART_START)?.strip_suffix(PART_END)?.split('-').next())
            .and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("daesy-file-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    #[test]
    fn links_names_and_permissions_are_kept() {
        let folder = folder("kept");
        let (real, link, other) = (folder.join("real.csv"), folder.join("link.csv"), folder.join("other.csv"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("real.csv", &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o600);
        fs::hard_link(&real, &other).unwrap();
        write_whole(&other, b"newer").unwrap();
        assert_eq!(fs::read(&real).unwrap(), b"newer");
        symlink("not-yet.csv", folder.join("dangling.csv")).unwrap();
        write_whole(&folder.join("dangling.csv"), b"there").unwrap();
        assert_eq!(fs::read(folder.join("not-yet.csv")).unwrap(), b"there");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_device_stays_a_device_and_a_full_one_is_told() {
        write_whole(Path::new("/dev/null"), b"text").unwrap();
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        assert!(write_whole(Path::new("/dev/full"), b"text").is_err());
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    }

    #[test]
    fn nothing_is_left_after_a_failure() {
        let folder = folder("failed");
        let path = folder.join("out.csv");
        fs::write(&path, "old").unwrap();
        // Process numbers end below this one.
        fs::write(folder.join(".daesy-4294967295-0.part"), "left by a run that was killed").unwrap();
        let failed = write_with(&path, |writer| {
            writer.write_all(b"half")?;
            Err(Error::other("no more"))
        });
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        symlink("b", folder.join("a")).unwrap();
        symlink("a", folder.join("b")).unwrap();
        assert!(write_whole(&folder.join("a"), b"").is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
