//! Texts made from others by a few random changes.

use daesy_model::lexer;

/// A linear congruential generator with its high bits as output.
pub struct Random(pub u64);

impl Random {
    /// A number below a bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound.max(1)
    }

    /// One of several things.
    pub fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

const PIECES: &[&str] = &[
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ";",
    ",",
    ":",
    "=",
    ":=",
    "==",
    ".",
    "..",
    "\"",
    "'",
    "/*",
    "*/",
    "//",
    "\\",
    "\n",
    "\r",
    "-",
    "not ",
    "1e",
    ".5",
    "1.",
    "end ",
    "end if",
    "end for",
    "if ",
    "then ",
    "else ",
    "elseif ",
    "elsewhen ",
    "when ",
    "for ",
    "loop ",
    "while ",
    "in ",
    "model ",
    "function ",
    "package ",
    "extends ",
    "redeclare ",
    "replaceable ",
    "constrainedby ",
    "annotation",
    "equation\n",
    "algorithm\n",
    "initial ",
    "external ",
    "connect(",
    "der(",
    "import ",
    "break ",
    "each ",
    "final ",
    "parameter ",
    "protected\n",
    "enumeration(",
    "pure(",
    "&&",
    "||",
    "!=",
    "§",
    "é",
    "\u{feff}",
    "\0",
    "within ",
    "partial ",
    "operator ",
    "((((((((((((((((",
    "x[",
    "999999999999999999999999",
    "a < b < c",
    "[model]\n",
    "[linear]\nE = [[1]]\nF = [[-1]]\n",
    "[unknown]\n",
    "{ start = ",
    "nan",
    "\u{1b}[31m",
];

/// Numbers that are at the edge of something.
pub const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "0.5",
    "2.5",
    "-0.0",
    "3",
    "7",
    "10",
    "100",
    "1e3",
    "1e-3",
    "1e6",
    "1e-6",
    "1e9",
    "1e-9",
    "1e12",
    "1e-12",
    "1e18",
    "1e150",
    "1e-150",
    "1e300",
    "1e-300",
    "1e308",
    "4.9e-324",
    "1e400",
    "nan",
    "inf",
    "-1e18",
    "-3",
    "true",
    "\"k\"",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551616",
    "2147483648",
    "1000000000000",
    "0.1",
    "1.0000000000000002",
];

/// One random change.
pub fn change(random: &mut Random, mut text: String, seeds: &[String]) -> String {
    let at = boundary(&text, random.below(text.len() + 1));
    match random.below(9) {
        0 => text.insert_str(at, random.of(PIECES)),
        1 => {
            let end = boundary(&text, (at + 1 + random.below(12)).min(text.len()));
            text.replace_range(at.min(end)..end, "");
        }
        2 => {
            let other = &seeds[random.below(seeds.len())];
            text.insert_str(at, &window(random, other, 300));
        }
        3 => text.truncate(at),
        4 => {
            let piece = random.of(PIECES).repeat(1 + random.below(400));
            text.insert_str(at, &piece);
        }
        5 => {
            let mut bytes = text.into_bytes();
            let place = random.below(bytes.len());
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << random.below(8);
            }
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        _ => change_token(random, &mut text),
    }
    text
}

/// Replaces, doubles or removes one token.
fn change_token(random: &mut Random, text: &mut String) {
    let tokens: Vec<lexer::Token> = lexer::tokens(text).collect();
    if let Some(token) = tokens.get(random.below(tokens.len())) {
        let range = token.start as usize..token.end as usize;
        let replacement = match random.below(4) {
            0 => String::new(),
            1 => token.text(text).repeat(2),
            2 => tokens[random.below(tokens.len())].text(text).to_owned(),
            _ => format!(" {} ", random.of(PIECES)),
        };
        text.replace_range(range, &replacement);
    }
}

/// Replaces one number of a text, so that it still reads.
pub fn change_number(random: &mut Random, text: &mut String) {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '-' | '+');
    let mut places: Vec<(usize, usize)> = Vec::new();
    let mut start = None;
    for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
        match (start, is_number(character)) {
            (None, true) if character.is_ascii_digit() => start = Some(at),
            (Some(from), false) => {
                let is_part_of_name = text[..from].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                if !is_part_of_name {
                    places.push((from, at));
                }
                start = None;
            }
            _ => {}
        }
    }
    if let Some(&(from, to)) = places.get(random.below(places.len())) {
        text.replace_range(from..to, random.of(NUMBERS));
    }
}

/// Exchanges, doubles or removes lines.
pub fn change_line(random: &mut Random, text: &mut String) {
    let mut lines: Vec<&str> = text.split('\n').collect();
    let (at, other) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(3) {
        0 => lines.swap(at, other),
        1 => lines.insert(other, lines[at]),
        _ => {
            lines.remove(at);
        }
    }
    *text = lines.join("\n");
}

fn boundary(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// A part of a text, where that is long.
pub fn window(random: &mut Random, text: &str, length: usize) -> String {
    if text.len() <= length || random.below(20) == 0 {
        return text.to_owned();
    }
    let start = if random.below(2) == 0 { 0 } else { boundary(text, random.below(text.len())) };
    text[start..boundary(text, start + length).max(start)].to_owned()
}
