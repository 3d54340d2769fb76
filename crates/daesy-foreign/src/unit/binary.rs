//! The archive of a unit, and the library in it that runs here.

use std::path::Path;

use crate::archive::{Archive, Limits};
use crate::description::{UnitDescription, Version};
use crate::error::ForeignError;

/// Reads what a unit says of itself; nothing of it is run or unpacked.
///
/// # Errors
/// When the archive is not safe, or the description cannot be read.
pub fn read_description(path: &Path) -> Result<(Archive, UnitDescription), ForeignError> {
    let shown = path.display().to_string();
    let limits = Limits::default();
    let failed = |error: std::io::Error| ForeignError::File { file: shown.clone(), reason: error.to_string() };
    let size = std::fs::metadata(path).map_err(failed)?.len();
    if size > limits.packed {
        let reason = format!("it has {size} bytes, and {} are the limit", limits.packed);
        return Err(ForeignError::Unsafe { reason });
    }
    read_archive(std::fs::read(path).map_err(failed)?)
}

/// The same from the bytes of a file.
///
/// # Errors
/// As [`read_description`].
pub fn read_archive(bytes: Vec<u8>) -> Result<(Archive, UnitDescription), ForeignError> {
    let archive = Archive::new(bytes, Limits::default())?;
    let description = UnitDescription::read(&archive.content(Path::new("modelDescription.xml"))?)?;
    Ok((archive, description))
}

/// The folder below `binaries` for this machine.
fn platform(version: Version) -> String {
    let (system, machine) = (std::env::consts::OS, std::env::consts::ARCH);
    match version {
        Version::Two => {
            let system = match system {
                "macos" => "darwin",
                "windows" => "win",
                other => other,
            };
            format!("{system}{}", if cfg!(target_pointer_width = "64") { "64" } else { "32" })
        }
        Version::Three => format!("{machine}-{}", if system == "macos" { "darwin" } else { system }),
    }
}

/// The library for this machine, relative to the unit's folder.
pub(super) fn library(
    archive: &Archive,
    version: Version,
    identifier: &str,
) -> Result<std::path::PathBuf, ForeignError> {
    let wanted = platform(version);
    let extension = match std::env::consts::OS {
        "windows" => "dll",
        "macos" => "dylib",
        _ => "so",
    };
    let path = Path::new("binaries").join(&wanted).join(format!("{identifier}.{extension}"));
    if archive.entries().iter().any(|entry| entry.path == path) {
        return Ok(path);
    }
    let mut offered: Vec<String> = archive
        .entries()
        .iter()
        .filter_map(|entry| {
            Some(entry.path.strip_prefix("binaries").ok()?.iter().next()?.to_string_lossy().into_owned())
        })
        .collect();
    offered.sort();
    offered.dedup();
    if offered.contains(&wanted) {
        return Err(ForeignError::Description { reason: format!("there is no library `{}`", path.display()) });
    }
    let offered = if offered.is_empty() { "none (source code only)".to_owned() } else { offered.join(", ") };
    Err(ForeignError::Platform { wanted, offered })
}

/// A path as a URI.
pub(super) fn uri(path: &Path) -> String {
    let text = path.display().to_string().replace('\\', "/");
    let mut made = String::from(if text.starts_with('/') { "file://" } else { "file:///" });
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' | b':' => {
                made.push(char::from(byte))
            }
            other => made.push_str(&format!("%{other:02X}")),
        }
    }
    made
}
