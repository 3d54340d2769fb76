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

/// Words of the first 32 bits of the fractions of square and cube roots of primes, as FIPS 180-4 has them.
fn prime_words(n: usize, root: i32) -> Vec<u32> {
    let is_prime = |n: &u64| (2..=n.isqrt()).all(|divisor| !n.is_multiple_of(divisor));
    let word = |prime: u64| {
        // The integer part of 2^32 times the root, exactly.
        let target = u128::from(prime) << (32 * root);
        let (mut low, mut high) = (0u128, 1u128 << 40);
        while high - low > 1 {
            let middle = (low + high) / 2;
            let power = (0..root).try_fold(1u128, |power, _| power.checked_mul(middle));
            if power.is_some_and(|power| power <= target) { low = middle } else { high = middle }
        }
        low as u32
    };
    (2u64..).filter(is_prime).take(n).map(word).collect()
}

/// SHA-256 of some bytes, in hexadecimal digits.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    let keys = prime_words(64, 3);
    let mut state = prime_words(8, 2);
    let mut message = bytes.to_vec();
    message.push(0x80);
    message.resize((message.len() + 8).next_multiple_of(64), 0);
    let end = message.len() - 8;
    message[end..].copy_from_slice(&(8 * bytes.len() as u64).to_be_bytes());
    for block in message.chunks_exact(64) {
        let mut words: Vec<u32> =
            block.chunks_exact(4).map(|four| four.iter().fold(0, |word, &byte| word << 8 | u32::from(byte))).collect();
        for at in 16..64 {
            let (a, b) = (words[at - 15], words[at - 2]);
            let first = a.rotate_right(7) ^ a.rotate_right(18) ^ (a >> 3);
            let second = b.rotate_right(17) ^ b.rotate_right(19) ^ (b >> 10);
            words.push(words[at - 16].wrapping_add(first).wrapping_add(words[at - 7]).wrapping_add(second));
        }
        let mut h = state.clone();
        for (key, word) in keys.iter().zip(&words) {
            let mixed = h[4].rotate_right(6) ^ h[4].rotate_right(11) ^ h[4].rotate_right(25);
            let choice = (h[4] & h[5]) ^ (!h[4] & h[6]);
            let first = h[7].wrapping_add(mixed).wrapping_add(choice).wrapping_add(*key).wrapping_add(*word);
            let turned = h[0].rotate_right(2) ^ h[0].rotate_right(13) ^ h[0].rotate_right(22);
            let majority = (h[0] & h[1]) ^ (h[0] & h[2]) ^ (h[1] & h[2]);
            h.rotate_right(1);
            h[4] = h[4].wrapping_add(first);
            h[0] = first.wrapping_add(turned).wrapping_add(majority);
        }
        state.iter_mut().zip(&h).for_each(|(word, more)| *word = word.wrapping_add(*more));
    }
    state.iter().map(|word| format!("{word:08x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_standard() {
        // Examples of FIPS 180-4.
        assert_eq!(sha256(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(sha256(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        let long = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(sha256(long), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        // The length just fits no more.
        assert_eq!(sha256(&[b'a'; 63]), "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00 UTC");
        assert_eq!(utc(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(utc(1_767_225_599), "2025-12-31 23:59 UTC");
    }
}
