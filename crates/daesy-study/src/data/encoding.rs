//! Bytes of a file as text: the encodings that measuring software writes.

/// How the characters of a file are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// UTF-8.
    Utf8,
    /// ISO 8859-1: one byte each, the first 256 characters of Unicode.
    Latin1,
    /// Windows code page 1252: ISO 8859-1 with letters and signs in the place of control characters.
    Windows1252,
    /// UTF-16, in the order that its byte order mark tells; the small end first where there is none.
    Utf16,
    /// UTF-16, the small end first.
    Utf16Little,
    /// UTF-16, the big end first.
    Utf16Big,
}

impl Encoding {
    /// The words for a study, the usual one of each encoding first.
    pub const WORDS: [(&'static str, Self); 10] = [
        ("utf-8", Self::Utf8),
        ("latin-1", Self::Latin1),
        ("windows-1252", Self::Windows1252),
        ("utf-16", Self::Utf16),
        ("utf-16le", Self::Utf16Little),
        ("utf-16be", Self::Utf16Big),
        ("utf8", Self::Utf8),
        ("iso-8859-1", Self::Latin1),
        ("cp1252", Self::Windows1252),
        ("latin1", Self::Latin1),
    ];
}

/// Why bytes are no text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct NotText {
    /// The line that is not.
    pub(super) line: usize,
    /// What is wrong.
    pub(super) message: String,
    /// What to do.
    pub(super) help: String,
}

/// Characters of code page 1252 from 0x80 to 0x9f; five places are empty.
const WINDOWS: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘', '’',
    '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// The text of a file. A byte order mark says what it is; without one it is UTF-8 unless an encoding is named. Line
/// ends of every kind become line feeds.
pub(super) fn decode(bytes: Vec<u8>, named: Option<Encoding>) -> Result<String, NotText> {
    let text = match (&bytes[..], named) {
        ([0xff, 0xfe, rest @ ..], _) => utf16(rest, u16::from_le_bytes),
        ([0xfe, 0xff, rest @ ..], _) => utf16(rest, u16::from_be_bytes),
        ([0xef, 0xbb, 0xbf, rest @ ..], _) => utf8(rest.to_vec()),
        (_, Some(Encoding::Utf16 | Encoding::Utf16Little)) => utf16(&bytes, u16::from_le_bytes),
        (_, Some(Encoding::Utf16Big)) => utf16(&bytes, u16::from_be_bytes),
        (_, Some(Encoding::Latin1)) => Ok(bytes.iter().map(|&byte| char::from(byte)).collect()),
        (_, Some(Encoding::Windows1252)) => Ok(bytes.iter().map(|&byte| windows(byte)).collect()),
        (_, None) if bytes.iter().take(1000).any(|&byte| byte == 0) => Err(looks_like_utf16(&bytes)),
        _ => utf8(bytes),
    }?;
    Ok(if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text })
}

fn windows(byte: u8) -> char {
    match byte {
        0x80..=0x9f => WINDOWS[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

fn utf8(bytes: Vec<u8>) -> Result<String, NotText> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let line = 1 + error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
        NotText {
            line,
            message: format!("line {line} is not UTF-8 text"),
            help: "say how the file is written, such as `encoding = \"latin-1\"` in `[data]`".to_owned(),
        }
    })
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, NotText> {
    let units = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]]));
    let decoded: Result<String, _> = char::decode_utf16(units).collect();
    let is_even = bytes.len().is_multiple_of(2);
    decoded.ok().filter(|_| is_even).ok_or_else(|| NotText {
        line: 1,
        message: "the file is not UTF-16 text".to_owned(),
        help: "leave out `encoding` in `[data]`, or name another one".to_owned(),
    })
}

fn looks_like_utf16(bytes: &[u8]) -> NotText {
    let zeros = |parity: usize| bytes.iter().take(1000).skip(parity).step_by(2).filter(|byte| **byte == 0).count();
    let word = if zeros(0) > zeros(1) { "utf-16be" } else { "utf-16le" };
    NotText {
        line: 1,
        message: "the file has zero bytes: it is not UTF-8 text".to_owned(),
        help: format!("if it is UTF-16, say `encoding = \"{word}\"` in `[data]`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_say_what_a_file_is() {
        assert_eq!(decode(b"\xef\xbb\xbft,u\r\n".to_vec(), None).unwrap(), "t,u\n");
        assert_eq!(decode(b"\xff\xfet\0\xb0\0".to_vec(), None).unwrap(), "t°");
        assert_eq!(decode(b"\xfe\xff\0t\0\xb0".to_vec(), Some(Encoding::Utf16)).unwrap(), "t°");
    }

    #[test]
    fn without_a_mark_the_key_is_named_that_reads_the_file() {
        let latin = decode(b"t,T \xb0C\n".to_vec(), None).unwrap_err();
        assert!(latin.help.contains("encoding = \"latin-1\""), "{latin:?}");
        assert_eq!(decode(b"t,T \xb0C\n".to_vec(), Some(Encoding::Latin1)).unwrap(), "t,T °C\n");
        assert_eq!(decode(b"\x80".to_vec(), Some(Encoding::Windows1252)).unwrap(), "€");
        let wide = decode(b"\0t\0,\0u".to_vec(), None).unwrap_err();
        assert!(wide.help.contains("utf-16be"), "{wide:?}");
        assert_eq!(decode(b"\0t\0,\0u".to_vec(), Some(Encoding::Utf16Big)).unwrap(), "t,u");
    }
}
