//! Where a page comes from: the command, the program, the files it read with their hashes, and when.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use daesy_study::study::{StudyModel, read_study};

/// Files above this size are named without a hash.
const MAX_HASHED: u64 = 1 << 30;

/// Where a page comes from.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Provenance {
    /// What was asked, in the words of a command line.
    pub command: String,
    /// Files that were read, with the SHA-256 of each.
    pub files: Vec<FileHash>,
    /// Date and time in UTC.
    pub date: String,
}

/// A file as it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileHash {
    /// Its path as it was said.
    pub path: String,
    /// Its SHA-256 in hexadecimal digits; empty where it is too large or gone.
    pub hash: String,
}

impl Provenance {
    /// What is known about a run on a file, with data files instead of those of the study.
    #[must_use]
    pub fn of_run(command: String, file: &Path, data: &[PathBuf]) -> Self {
        let paths = files_read(file, data);
        let files = paths.iter().filter(|path| path.is_file()).map(|path| FileHash::of(path)).collect();
        Self { command, files, date: utc(now()) }
    }
}

/// What a run on a file reads, with data files instead of those of the study.
#[must_use]
pub fn files_read(file: &Path, data: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths = vec![file.to_path_buf()];
    let is_study = file.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"));
    let study = std::fs::read_to_string(file).ok().filter(|_| is_study);
    if let Some(study) = study.and_then(|text| read_study("", &text).study) {
        let folder = file.parent().unwrap_or_else(|| Path::new(""));
        if let StudyModel::Modelica(source) = &study.model {
            paths.push(folder.join(&source.file));
        }
        if data.is_empty() {
            let files = study.data.iter().flat_map(|data| data.files.iter().map(|file| folder.join(&file.name)));
            paths.extend(files);
        }
    }
    paths.extend(data.iter().cloned());
    paths
}

impl FileHash {
    fn of(path: &Path) -> Self {
        let is_small = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() <= MAX_HASHED);
        let bytes = if is_small { std::fs::read(path).ok() } else { None };
        Self { path: path.display().to_string(), hash: bytes.map_or_else(String::new, |bytes| sha256(&bytes)) }
    }
}

/// Seconds since 1970; `SOURCE_DATE_EPOCH` stands in for the clock where pages must be the same every time.
fn now() -> u64 {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}

/// Date and time of the Gregorian calendar. Years begin in March here, so that the day that comes every four years is
/// the last one.
fn utc(seconds: u64) -> String {
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year_of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let second = seconds % 86_400;
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!("{year}-{month:02}-{day_of_month:02} {hour:02}:{minute:02} UTC")
}

/// SHA-256 of some bytes, in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    hmac_sha256::Hash::hash(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        // Examples of FIPS 180-4.
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_767_225_599), "2025-12-31 23:59 UTC");
    }
}
