//! Tokens of a Modelica text: byte ranges with a kind, nothing is copied.
//!
//! The lexical rules are those of the specification's chapter 2 and appendix A.1 [@modelica36]. [`tokens`] gives white
//! space and comments too: the texts of all tokens put together are the file, byte for byte. What is not Modelica
//! becomes a token as well (an unknown character, an unterminated string), so that every text has tokens.

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs, reason = "keywords and signs are named after their text, see `TokenKind::text`")]
pub enum TokenKind {
    /// Blanks, tabs, line ends, and a byte order mark at the start.
    Whitespace,
    /// `// ..` without its line end.
    LineComment,
    /// `/* .. */`
    BlockComment,
    /// A `/*` without `*/`; reaches to the end of the text.
    UnterminatedComment,
    /// A name: letters, digits and underscores.
    Ident,
    /// A name in single quotes.
    QuotedIdent,
    /// A name with letters outside of ASCII, which Modelica does not have.
    ForeignIdent,
    /// A quoted name that ends with its line.
    UnterminatedIdent,
    /// `12`
    Integer,
    /// `1.5`, `1.`, `1e5`
    Real,
    /// `.5`, which Modelica writes `0.5`.
    DotReal,
    /// `".."`
    String,
    /// A string without its closing quote; reaches to the end of the text.
    UnterminatedString,
    /// A character that begins no token.
    Unknown,
    /// The end of the text.
    Eof,

    Algorithm,
    And,
    Annotation,
    Block,
    Break,
    Class,
    Connect,
    Connector,
    Constant,
    Constrainedby,
    Der,
    Discrete,
    Each,
    Else,
    Elseif,
    Elsewhen,
    Encapsulated,
    End,
    Enumeration,
    Equation,
    Expandable,
    Extends,
    External,
    False,
    Final,
    Flow,
    For,
    Function,
    If,
    Import,
    Impure,
    In,
    Initial,
    Inner,
    Input,
    Loop,
    Model,
    Not,
    Operator,
    Or,
    Outer,
    Output,
    Package,
    Parameter,
    Partial,
    Protected,
    Public,
    Pure,
    Record,
    Redeclare,
    Replaceable,
    Return,
    Stream,
    Then,
    True,
    Type,
    When,
    While,
    Within,

    LParen,
    RParen,
    LBracket,
    RBracket,
    LBrace,
    RBrace,
    Comma,
    Semicolon,
    Colon,
    Dot,
    Equals,
    ColonEquals,
    EqualsEquals,
    NotEquals,
    Less,
    LessEquals,
    Greater,
    GreaterEquals,
    Plus,
    Minus,
    Star,
    Slash,
    Caret,
    DotPlus,
    DotMinus,
    DotStar,
    DotSlash,
    DotCaret,
    /// `&&`, which Modelica writes `and`.
    AndAnd,
    /// `||`, which Modelica writes `or`.
    OrOr,
    /// `!=` or `~=`, which Modelica writes `<>`.
    BangEquals,
    /// `!`, which Modelica writes `not`.
    Bang,
}

impl TokenKind {
    /// The text of a keyword or sign; `None` for tokens whose text varies.
    #[must_use]
    pub const fn text(self) -> Option<&'static str> {
        Some(match self {
            Self::Algorithm => "algorithm",
            Self::And => "and",
            Self::Annotation => "annotation",
            Self::Block => "block",
            Self::Break => "break",
            Self::Class => "class",
            Self::Connect => "connect",
            Self::Connector => "connector",
            Self::Constant => "constant",
            Self::Constrainedby => "constrainedby",
            Self::Der => "der",
            Self::Discrete => "discrete",
            Self::Each => "each",
            Self::Else => "else",
            Self::Elseif => "elseif",
            Self::Elsewhen => "elsewhen",
            Self::Encapsulated => "encapsulated",
            Self::End => "end",
            Self::Enumeration => "enumeration",
            Self::Equation => "equation",
            Self::Expandable => "expandable",
            Self::Extends => "extends",
            Self::External => "external",
            Self::False => "false",
            Self::Final => "final",
            Self::Flow => "flow",
            Self::For => "for",
            Self::Function => "function",
            Self::If => "if",
            Self::Import => "import",
            Self::Impure => "impure",
            Self::In => "in",
            Self::Initial => "initial",
            Self::Inner => "inner",
            Self::Input => "input",
            Self::Loop => "loop",
            Self::Model => "model",
            Self::Not => "not",
            Self::Operator => "operator",
            Self::Or => "or",
            Self::Outer => "outer",
            Self::Output => "output",
            Self::Package => "package",
            Self::Parameter => "parameter",
            Self::Partial => "partial",
            Self::Protected => "protected",
            Self::Public => "public",
            Self::Pure => "pure",
            Self::Record => "record",
            Self::Redeclare => "redeclare",
            Self::Replaceable => "replaceable",
            Self::Return => "return",
            Self::Stream => "stream",
            Self::Then => "then",
            Self::True => "true",
            Self::Type => "type",
            Self::When => "when",
            Self::While => "while",
            Self::Within => "within",
            Self::LParen => "(",
            Self::RParen => ")",
            Self::LBracket => "[",
            Self::RBracket => "]",
            Self::LBrace => "{",
            Self::RBrace => "}",
            Self::Comma => ",",
            Self::Semicolon => ";",
            Self::Colon => ":",
            Self::Dot => ".",
            Self::Equals => "=",
            Self::ColonEquals => ":=",
            Self::EqualsEquals => "==",
            Self::NotEquals => "<>",
            Self::Less => "<",
            Self::LessEquals => "<=",
            Self::Greater => ">",
            Self::GreaterEquals => ">=",
            Self::Plus => "+",
            Self::Minus => "-",
            Self::Star => "*",
            Self::Slash => "/",
            Self::Caret => "^",
            Self::DotPlus => ".+",
            Self::DotMinus => ".-",
            Self::DotStar => ".*",
            Self::DotSlash => "./",
            Self::DotCaret => ".^",
            Self::AndAnd => "&&",
            Self::OrOr => "||",
            Self::BangEquals => "!=",
            Self::Bang => "!",
            _ => return None,
        })
    }

    /// Whether it is a keyword.
    #[must_use]
    pub const fn is_keyword(self) -> bool {
        (self as u8) >= (Self::Algorithm as u8) && (self as u8) <= (Self::Within as u8)
    }

    /// White space or a comment: nothing for the grammar.
    #[must_use]
    pub const fn is_trivia(self) -> bool {
        (self as u8) <= (Self::UnterminatedComment as u8)
    }

    /// A comment.
    #[must_use]
    pub const fn is_comment(self) -> bool {
        matches!(self, Self::LineComment | Self::BlockComment | Self::UnterminatedComment)
    }
}

/// A token: a kind and a range of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
    /// What it is.
    pub kind: TokenKind,
}

impl Token {
    /// Its text, of the text it was read from.
    #[must_use]
    pub fn text(self, source: &str) -> &str {
        source.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// All tokens of a text in order, white space and comments included, without a final [`TokenKind::Eof`].
#[must_use]
pub fn tokens(source: &str) -> Tokens<'_> {
    Tokens { bytes: source.as_bytes(), source, at: 0 }
}

/// The tokens of a text, see [`tokens`].
#[derive(Clone, Debug)]
pub struct Tokens<'a> {
    bytes: &'a [u8],
    source: &'a str,
    at: usize,
}

/// What a byte can begin or be part of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteClass {
    Blank,
    Letter,
    Digit,
    Sign,
    /// Part of a character outside of ASCII.
    High,
}

static BYTE_CLASSES: [ByteClass; 256] = {
    let mut table = [ByteClass::Sign; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => ByteClass::Blank,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => ByteClass::Letter,
            b'0'..=b'9' => ByteClass::Digit,
            0x80..=0xff => ByteClass::High,
            _ => ByteClass::Sign,
        };
        byte += 1;
    }
    table
};

const BYTE_ORDER_MARK: &str = "\u{feff}";

impl Iterator for Tokens<'_> {
    type Item = Token;

    #[inline]
    fn next(&mut self) -> Option<Token> {
        let start = self.at;
        let &first = self.bytes.get(start)?;
        let kind = match BYTE_CLASSES[first as usize] {
            ByteClass::Blank => {
                self.skip_class(ByteClass::Blank);
                TokenKind::Whitespace
            }
            ByteClass::Letter => self.word(),
            ByteClass::Digit => self.number(),
            ByteClass::Sign => self.sign(first),
            ByteClass::High => self.high(),
        };
        Some(Token { start: start as u32, end: self.at as u32, kind })
    }
}

impl Tokens<'_> {
    #[inline]
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    #[inline]
    fn skip_class(&mut self, class: ByteClass) {
        while let Some(&byte) = self.bytes.get(self.at)
            && BYTE_CLASSES[byte as usize] == class
        {
            self.at += 1;
        }
    }

    /// The character at the present place, which is always the start of one.
    fn character(&self) -> Option<char> {
        self.source.get(self.at..).and_then(|rest| rest.chars().next())
    }

    #[inline]
    fn word(&mut self) -> TokenKind {
        let start = self.at;
        while let Some(&byte) = self.bytes.get(self.at) {
            match BYTE_CLASSES[byte as usize] {
                ByteClass::Letter | ByteClass::Digit => self.at += 1,
                ByteClass::High => return self.foreign_word(TokenKind::Ident),
                _ => break,
            }
        }
        keyword(&self.bytes[start..self.at])
    }

    /// The rest of a word that may hold letters outside of ASCII; `otherwise` when it does not.
    #[cold]
    fn foreign_word(&mut self, otherwise: TokenKind) -> TokenKind {
        let mut kind = otherwise;
        while let Some(character) = self.character() {
            if !character.is_ascii() && character.is_alphanumeric() {
                kind = TokenKind::ForeignIdent;
            } else if !(character.is_ascii_alphanumeric() || character == '_') {
                break;
            }
            self.at += character.len_utf8();
        }
        kind
    }

    #[cold]
    fn high(&mut self) -> TokenKind {
        if self.at == 0 && self.source.starts_with(BYTE_ORDER_MARK) {
            self.at = BYTE_ORDER_MARK.len();
            return TokenKind::Whitespace;
        }
        let Some(character) = self.character() else {
            self.at = self.bytes.len();
            return TokenKind::Unknown;
        };
        if character.is_alphabetic() {
            return self.foreign_word(TokenKind::Unknown);
        }
        self.at += character.len_utf8();
        TokenKind::Unknown
    }

    /// `digits [. digits] [e [+|-] digits]`, as much as fits: `2./x` is `2.` divided by `x`.
    fn number(&mut self) -> TokenKind {
        let mut kind = TokenKind::Integer;
        self.skip_class(ByteClass::Digit);
        if self.peek(0) == b'.' {
            kind = TokenKind::Real;
            self.at += 1;
            self.skip_class(ByteClass::Digit);
        }
        if matches!(self.peek(0), b'e' | b'E') {
            let sign = usize::from(matches!(self.peek(1), b'+' | b'-'));
            if self.peek(1 + sign).is_ascii_digit() {
                kind = TokenKind::Real;
                self.at += 1 + sign;
                self.skip_class(ByteClass::Digit);
            }
        }
        kind
    }

    fn sign(&mut self, first: u8) -> TokenKind {
        use TokenKind as Kind;
        let second = self.peek(1);
        let (kind, length) = match (first, second) {
            (b'"', _) => return self.string(),
            (b'\'', _) => return self.quoted_ident(),
            (b'/', b'/') => return self.line_comment(),
            (b'/', b'*') => return self.block_comment(),
            (b'.', b'0'..=b'9') => {
                self.at += 1;
                self.number();
                return Kind::DotReal;
            }
            (b'(', _) => (Kind::LParen, 1),
            (b')', _) => (Kind::RParen, 1),
            (b'[', _) => (Kind::LBracket, 1),
            (b']', _) => (Kind::RBracket, 1),
            (b'{', _) => (Kind::LBrace, 1),
            (b'}', _) => (Kind::RBrace, 1),
            (b',', _) => (Kind::Comma, 1),
            (b';', _) => (Kind::Semicolon, 1),
            (b':', b'=') => (Kind::ColonEquals, 2),
            (b':', _) => (Kind::Colon, 1),
            (b'=', b'=') => (Kind::EqualsEquals, 2),
            (b'=', _) => (Kind::Equals, 1),
            (b'<', b'>') => (Kind::NotEquals, 2),
            (b'<', b'=') => (Kind::LessEquals, 2),
            (b'<', _) => (Kind::Less, 1),
            (b'>', b'=') => (Kind::GreaterEquals, 2),
            (b'>', _) => (Kind::Greater, 1),
            (b'+', _) => (Kind::Plus, 1),
            (b'-', _) => (Kind::Minus, 1),
            (b'*', _) => (Kind::Star, 1),
            (b'/', _) => (Kind::Slash, 1),
            (b'^', _) => (Kind::Caret, 1),
            (b'.', b'+') => (Kind::DotPlus, 2),
            (b'.', b'-') => (Kind::DotMinus, 2),
            (b'.', b'*') => (Kind::DotStar, 2),
            // `a./* comment */b` is a dot and a comment, as the longest token would make no sense there.
            (b'.', b'/') if !matches!(self.peek(2), b'*' | b'/') => (Kind::DotSlash, 2),
            (b'.', b'^') => (Kind::DotCaret, 2),
            (b'.', _) => (Kind::Dot, 1),
            (b'&', b'&') => (Kind::AndAnd, 2),
            (b'|', b'|') => (Kind::OrOr, 2),
            (b'!' | b'~', b'=') => (Kind::BangEquals, 2),
            (b'!', _) => (Kind::Bang, 1),
            _ => (Kind::Unknown, 1),
        };
        self.at += length;
        kind
    }

    fn string(&mut self) -> TokenKind {
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            match byte {
                b'"' => return TokenKind::String,
                b'\\' => self.skip_escaped(),
                _ => {}
            }
        }
        TokenKind::UnterminatedString
    }

    fn quoted_ident(&mut self) -> TokenKind {
        self.at += 1;
        while let Some(&byte) = self.bytes.get(self.at) {
            if matches!(byte, b'\n' | b'\r') {
                break;
            }
            self.at += 1;
            match byte {
                b'\'' => return TokenKind::QuotedIdent,
                b'\\' if !matches!(self.peek(0), b'\n' | b'\r') => self.skip_escaped(),
                _ => {}
            }
        }
        TokenKind::UnterminatedIdent
    }

    /// Skips the byte after a backslash; the further bytes of a longer character are like any other.
    fn skip_escaped(&mut self) {
        self.at = (self.at + 1).min(self.bytes.len());
    }

    fn line_comment(&mut self) -> TokenKind {
        while let Some(&byte) = self.bytes.get(self.at)
            && !matches!(byte, b'\n' | b'\r')
        {
            self.at += 1;
        }
        TokenKind::LineComment
    }

    fn block_comment(&mut self) -> TokenKind {
        self.at += 2;
        while let Some(&byte) = self.bytes.get(self.at) {
            self.at += 1;
            if byte == b'*' && self.peek(0) == b'/' {
                self.at += 1;
                return TokenKind::BlockComment;
            }
        }
        TokenKind::UnterminatedComment
    }
}

/// The keyword with the given text, or [`TokenKind::Ident`].
#[inline]
fn keyword(word: &[u8]) -> TokenKind {
    use TokenKind as Kind;
    let [first @ b'a'..=b'w', rest @ ..] = word else { return Kind::Ident };
    if rest.is_empty() || rest.len() > 12 {
        return Kind::Ident;
    }
    match first {
        b'a' => match rest {
            b"lgorithm" => Kind::Algorithm,
            b"nd" => Kind::And,
            b"nnotation" => Kind::Annotation,
            _ => Kind::Ident,
        },
        b'b' => match rest {
            b"lock" => Kind::Block,
            b"reak" => Kind::Break,
            _ => Kind::Ident,
        },
        b'c' => match rest {
            b"lass" => Kind::Class,
            b"onnect" => Kind::Connect,
            b"onnector" => Kind::Connector,
            b"onstant" => Kind::Constant,
            b"onstrainedby" => Kind::Constrainedby,
            _ => Kind::Ident,
        },
        b'd' => match rest {
            b"er" => Kind::Der,
            b"iscrete" => Kind::Discrete,
            _ => Kind::Ident,
        },
        b'e' => match rest {
            b"ach" => Kind::Each,
            b"lse" => Kind::Else,
            b"lseif" => Kind::Elseif,
            b"lsewhen" => Kind::Elsewhen,
            b"ncapsulated" => Kind::Encapsulated,
            b"nd" => Kind::End,
            b"numeration" => Kind::Enumeration,
            b"quation" => Kind::Equation,
            b"xpandable" => Kind::Expandable,
            b"xtends" => Kind::Extends,
            b"xternal" => Kind::External,
            _ => Kind::Ident,
        },
        b'f' => match rest {
            b"alse" => Kind::False,
            b"inal" => Kind::Final,
            b"low" => Kind::Flow,
            b"or" => Kind::For,
            b"unction" => Kind::Function,
            _ => Kind::Ident,
        },
        b'i' => match rest {
            b"f" => Kind::If,
            b"mport" => Kind::Import,
            b"mpure" => Kind::Impure,
            b"n" => Kind::In,
            b"nitial" => Kind::Initial,
            b"nner" => Kind::Inner,
            b"nput" => Kind::Input,
            _ => Kind::Ident,
        },
        b'l' if rest == b"oop" => Kind::Loop,
        b'm' if rest == b"odel" => Kind::Model,
        b'n' if rest == b"ot" => Kind::Not,
        b'o' => match rest {
            b"perator" => Kind::Operator,
            b"r" => Kind::Or,
            b"uter" => Kind::Outer,
            b"utput" => Kind::Output,
            _ => Kind::Ident,
        },
        b'p' => match rest {
            b"ackage" => Kind::Package,
            b"arameter" => Kind::Parameter,
            b"artial" => Kind::Partial,
            b"rotected" => Kind::Protected,
            b"ublic" => Kind::Public,
            b"ure" => Kind::Pure,
            _ => Kind::Ident,
        },
        b'r' => match rest {
            b"ecord" => Kind::Record,
            b"edeclare" => Kind::Redeclare,
            b"eplaceable" => Kind::Replaceable,
            b"eturn" => Kind::Return,
            _ => Kind::Ident,
        },
        b's' if rest == b"tream" => Kind::Stream,
        b't' => match rest {
            b"hen" => Kind::Then,
            b"rue" => Kind::True,
            b"ype" => Kind::Type,
            _ => Kind::Ident,
        },
        b'w' => match rest {
            b"hen" => Kind::When,
            b"hile" => Kind::While,
            b"ithin" => Kind::Within,
            _ => Kind::Ident,
        },
        _ => Kind::Ident,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<TokenKind> {
        tokens(source).map(|token| token.kind).filter(|kind| *kind != TokenKind::Whitespace).collect()
    }

    #[test]
    fn every_keyword_and_sign_reads_as_itself() {
        let all: Vec<TokenKind> = (TokenKind::Whitespace as u8..=TokenKind::Bang as u8)
            .filter_map(|number| {
                let mut found = None;
                for word in KEYWORDS_AND_SIGNS.split_whitespace() {
                    let kind = tokens(word).next().expect("a word has a token").kind;
                    if kind as u8 == number {
                        assert_eq!(kind.text(), Some(word));
                        found = Some(kind);
                    }
                }
                found
            })
            .collect();
        assert_eq!(all.len(), KEYWORDS_AND_SIGNS.split_whitespace().count());
        assert_eq!(all.iter().filter(|kind| kind.is_keyword()).count(), 59);
    }

    const KEYWORDS_AND_SIGNS: &str = "algorithm and annotation block break class connect connector constant constrainedby \
        der discrete each else elseif elsewhen encapsulated end enumeration equation expandable extends external false final \
        flow for function if import impure in initial inner input loop model not operator or outer output package parameter \
        partial protected public pure record redeclare replaceable return stream then true type when while within \
        ( ) [ ] { } , ; : . = := == <> < <= > >= + - * / ^ .+ .- .* ./ .^ && || != !";

    #[test]
    fn numbers_take_as_much_as_fits() {
        use TokenKind::{Caret, Dot, DotReal, DotSlash, Ident, Integer, Real, Slash};
        assert_eq!(kinds("1 1. 1.5 1e5 1.e-3 1E+07"), [Integer, Real, Real, Real, Real, Real]);
        assert_eq!(kinds("2./x 2 ./x 2.^x"), [Real, Slash, Ident, Integer, DotSlash, Ident, Real, Caret, Ident]);
        assert_eq!(kinds("1e 1ex .5 x.y"), [Integer, Ident, Integer, Ident, DotReal, Ident, Dot, Ident]);
    }

    #[test]
    fn strings_quoted_names_and_comments_know_their_ends() {
        use TokenKind::{
            BlockComment, Dot, Ident, LineComment, QuotedIdent, UnterminatedComment, UnterminatedIdent,
            UnterminatedString,
        };
        assert_eq!(
            kinds("\"a\\\"b\nc\" 'a\\'b.c' // x\n/* y * / */ z"),
            [TokenKind::String, QuotedIdent, LineComment, BlockComment, Ident]
        );
        assert_eq!(kinds("\"abc\\"), [UnterminatedString]);
        assert_eq!(kinds("'abc\nx"), [UnterminatedIdent, Ident]);
        assert_eq!(kinds("/* abc *"), [UnterminatedComment]);
        assert_eq!(kinds("a./* c */b"), [Ident, Dot, BlockComment, Ident]);
    }

    #[test]
    fn the_texts_of_all_tokens_are_the_file() {
        for source in
            ["\u{feff}model größe \u{a0}“x”\u{feff} end", "\"\\\u{e9}", "'\\é'", "a\0b @#$%", "", "é", "/", "1.e", "."]
        {
            let joined: String = tokens(source).map(|token| token.text(source)).collect();
            assert_eq!(joined, source);
        }
    }
}
