//! Places in texts as editors count them: lines and UTF-16 units from 0.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// A text with the offsets of its lines.
pub(super) struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    fn line(&self, line: usize) -> &'t str {
        let Some(&start) = self.starts.get(line) else { return "" };
        let end = self.starts.get(line + 1).copied().unwrap_or(self.text.len());
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }

    /// The byte offset of a position.
    pub(super) fn offset(&self, position: &Value) -> Option<usize> {
        let line = position["line"].as_u64()? as usize;
        let character = position["character"].as_u64()? as usize;
        let &start = self.starts.get(line)?;
        let text = self.line(line);
        let mut units = 0;
        let within = text.char_indices().find_map(|(at, letter)| {
            let here = (units >= character).then_some(at);
            units += letter.len_utf16();
            here
        });
        Some(start + within.unwrap_or(text.len()))
    }

    /// The position of a byte offset.
    pub(super) fn position(&self, offset: usize) -> Value {
        let line = self.starts.partition_point(|&start| start <= offset) - 1;
        let end = offset.min(self.starts[line] + self.line(line).len());
        let units: usize = self.text[self.starts[line]..end].chars().map(char::len_utf16).sum();
        json!({ "line": line, "character": units })
    }

    pub(super) fn range(&self, start: usize, end: usize) -> Value {
        json!({ "start": self.position(start), "end": self.position(end) })
    }

    /// The range of so many characters from a line and column, both counted from 1.
    pub(super) fn range_at(&self, line: u32, column: u32, width: usize) -> Value {
        let at = (line as usize).saturating_sub(1);
        let units = |n: usize| self.line(at).chars().take(n).map(char::len_utf16).sum::<usize>();
        let first = (column as usize).saturating_sub(1);
        json!({
            "start": { "line": at, "character": units(first) },
            "end": { "line": at, "character": units(first + width) },
        })
    }
}

/// A dotted name in a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    pub(super) start: usize,
}

fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '.'
}

/// The dotted name around an offset, up to the end of the part that the offset is in.
pub(super) fn word_at(text: &str, offset: usize) -> Word<'_> {
    let start = word_before(text, offset).start;
    let rest = &text[offset..];
    let end = rest.find(|letter: char| !is_part(letter) || letter == '.').unwrap_or(rest.len());
    Word { text: &text[start..offset + end], start }
}

/// The part of a dotted name before an offset.
pub(super) fn word_before(text: &str, offset: usize) -> Word<'_> {
    let before = &text[..offset];
    let start = before
        .rfind(|letter: char| !is_part(letter))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8));
    Word { text: &before[start..], start }
}

/// The path of a `file:` address.
pub(super) fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.as_bytes();
    while let [first, others @ ..] = left {
        let escaped = match (first, others) {
            (b'%', [high, low, ..]) => {
                std::str::from_utf8(&[*high, *low]).ok().and_then(|code| u8::from_str_radix(code, 16).ok())
            }
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        left = if escaped.is_some() { &others[2..] } else { others };
    }
    let path = String::from_utf8(bytes).ok()?;
    // `/C:/folder` of Windows.
    let is_drive = path.as_bytes().get(2) == Some(&b':');
    Some(PathBuf::from(if is_drive { &path[1..] } else { &path[..] }))
}

/// The `file:` address of a path.
pub(super) fn uri_of(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    let text = path.display().to_string().replace('\\', "/");
    if !text.starts_with('/') {
        uri.push('/');
    }
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~:".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_in_units_of_sixteen_bits() {
        let lines = Lines::new("ab\nä𝄞x = 1\n");
        let at = lines.offset(&json!({ "line": 1, "character": 3 })).unwrap();
        assert_eq!(&lines.text[at..at + 1], "x");
        assert_eq!(lines.position(at), json!({ "line": 1, "character": 3 }));
        assert_eq!(lines.range_at(2, 3, 1)["start"], json!({ "line": 1, "character": 3 }));
        assert_eq!(lines.offset(&json!({ "line": 0, "character": 99 })), Some(2));
        assert_eq!(lines.offset(&json!({ "line": 9, "character": 0 })), None);
    }

    #[test]
    fn names_and_addresses_are_read_whole() {
        let text = "  y = motor.phi_1 + 2;";
        assert_eq!(word_at(text, 9).text, "motor");
        assert_eq!(word_at(text, 14).text, "motor.phi_1");
        assert_eq!(word_before(text, 12).text, "motor.");
        for path in ["/tmp/a b/ä.mo", "/x.toml"] {
            assert_eq!(path_of(&uri_of(Path::new(path))), Some(PathBuf::from(path)));
        }
    }
}
