//! Recursive-descent parser for the whole grammar of Modelica 3.6, appendix A [@modelica36].
//!
//! Base Modelica (flat models as other tools export them) is read by the same rules. Nothing is tried twice: every
//! choice is made by looking at most a few tokens ahead, so the time is linear in the text.
//!
//! A mistake ends the element, equation or statement it is in; the parser goes on after its `;` or at the next section,
//! so that one run names several mistakes. Recursion is bounded: [`Limits::nesting`] bounds the parser's own stack,
//! [`Limits::height`] that of everything that walks over the tree later.

mod class;
mod element;
mod equation;
mod expression;
mod finding;
mod literal;
mod modification;
mod recovery;
mod statement;

use std::sync::Arc;

use daesy_graph::{FileId, Finding, Span};

use crate::lexer::{self, Token, TokenKind};
use crate::name::Name;
use crate::syntax::{Expr, ExprKind, Ident, Path, StoredDefinition};

/// Bounds of what is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// How deep brackets, classes, modifications and blocks may be nested.
    pub nesting: u32,
    /// How high an expression's tree may be; a chain `a + b + c + ..` is as high as it has operators.
    pub height: u32,
    /// How many errors are found before the rest of the file is left unread; also, how many warnings are kept.
    pub findings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nesting: 200, height: 10_000, findings: 100 }
    }
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// What could be read of it.
    pub definition: StoredDefinition,
    /// What was wrong, in the order of the text. Without errors the definition is complete.
    pub findings: Vec<Finding>,
}

/// An expression that was read on its own.
#[derive(Clone, Debug)]
pub struct ParsedExpression {
    /// The expression; [`ExprKind::Error`] where it could not be read.
    pub expr: Expr,
    /// What was wrong, in the order of the text.
    pub findings: Vec<Finding>,
}

/// Reads a file.
///
/// Spans are byte ranges of `text`, in the file `file`.
#[must_use]
pub fn parse(file: FileId, text: &str) -> Parsed {
    parse_within(file, text, Limits::default())
}

/// Reads a file with other limits than the default ones.
#[must_use]
pub fn parse_within(file: FileId, text: &str, limits: Limits) -> Parsed {
    let mut parser = Parser::new(file, text, 0, limits);
    let definition = parser.stored_definition();
    Parsed { definition, findings: parser.into_findings() }
}

/// Reads an expression that stands on its own, such as one in a study file.
///
/// `offset` is where `text` begins in the file; spans count from the start of the file.
#[must_use]
pub fn parse_expression(file: FileId, text: &str, offset: u32) -> ParsedExpression {
    let mut parser = Parser::new(file, text, offset, Limits::default());
    let expr = match parser.expression() {
        Ok(expr) => {
            if parser.kind() != TokenKind::Eof {
                let found = parser.describe();
                parser.report(
                    Finding::error("unexpected-token", parser.span(), format!("the expression ends before {found}"))
                        .with_help("one expression is expected here, with nothing after it"),
                );
            }
            expr
        }
        Err(Fail) => Expr { kind: ExprKind::Error, span: parser.span_from(0) },
    };
    ParsedExpression { expr, findings: parser.into_findings() }
}

/// Something could not be read; the finding is already made.
#[derive(Clone, Copy, Debug)]
struct Fail;

type Parse<T> = Result<T, Fail>;

/// A class whose `end` has not come yet.
struct OpenClass {
    name: Ident,
}

struct Parser<'a> {
    file: FileId,
    source: &'a str,
    /// Where the source begins in its file.
    offset: u32,
    /// Tokens without trivia; the last one is [`TokenKind::Eof`].
    tokens: Vec<Token>,
    at: usize,
    limits: Limits,
    findings: Vec<Finding>,
    /// How many of the findings are errors.
    n_errors: usize,
    /// Token at which the last mistake was reported: what follows from it at the same place is not said again.
    reported_at: Option<usize>,
    /// A string or comment swallowed the rest of the file: what is missing at its end is not worth saying.
    is_truncated: bool,
    /// A limit was hit: nothing more is said.
    has_given_up: bool,
    /// Present depth of recursion.
    depth: u32,
    /// Height of the highest expression read so far in the construct at hand.
    height: u32,
    /// How many subscripts the present place lies in.
    subscript_depth: u32,
    open_classes: Vec<OpenClass>,
    /// Opening keywords of `if`, `for`, `when`, `while` blocks of the section at hand.
    open_blocks: Vec<TokenKind>,
}

impl<'a> Parser<'a> {
    fn new(file: FileId, source: &'a str, offset: u32, limits: Limits) -> Self {
        let mut parser = Self {
            file,
            source,
            offset,
            tokens: Vec::with_capacity(source.len() / 8 + 16),
            at: 0,
            limits,
            findings: Vec::new(),
            n_errors: 0,
            reported_at: None,
            is_truncated: false,
            has_given_up: false,
            depth: 0,
            height: 0,
            subscript_depth: 0,
            open_classes: Vec::new(),
            open_blocks: Vec::new(),
        };
        if u32::try_from(source.len()).ok().and_then(|length| length.checked_add(offset)).is_none() {
            parser.source = "";
            parser.push(Finding::error("file-size", Span::NONE, "the file is larger than 4 GB"));
        }
        for token in lexer::tokens(parser.source) {
            match token.kind {
                TokenKind::Whitespace | TokenKind::LineComment | TokenKind::BlockComment => {}
                TokenKind::UnterminatedComment
                | TokenKind::UnterminatedString
                | TokenKind::UnterminatedIdent
                | TokenKind::ForeignIdent
                | TokenKind::DotReal
                | TokenKind::Unknown => parser.repair_token(token),
                _ => parser.tokens.push(token),
            }
        }
        let end = parser.source.len() as u32;
        parser.tokens.push(Token { start: end, end, kind: TokenKind::Eof });
        parser
    }

    fn into_findings(self) -> Vec<Finding> {
        let mut findings = self.findings;
        findings.sort_by_key(|finding| finding.span.start);
        findings
    }

    // Tokens.

    #[inline]
    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    #[inline]
    fn kind(&self) -> TokenKind {
        self.tokens[self.at].kind
    }

    /// The kind of a later token.
    #[inline]
    fn peek(&self, ahead: usize) -> TokenKind {
        self.tokens.get(self.at + ahead).map_or(TokenKind::Eof, |token| token.kind)
    }

    /// Goes to the next token; stays at the end of the file.
    #[inline]
    fn bump(&mut self) {
        if self.at + 1 < self.tokens.len() {
            self.at += 1;
        }
    }

    /// Takes the token if it is of the given kind.
    #[inline]
    fn eat(&mut self, kind: TokenKind) -> bool {
        let is_it = self.kind() == kind;
        if is_it {
            self.bump();
        }
        is_it
    }

    /// The text of the present token.
    fn text(&self) -> &'a str {
        self.token().text(self.source)
    }

    /// First byte of the present token.
    #[inline]
    fn start(&self) -> u32 {
        self.token().start
    }

    /// The last token taken, or the first one before any was taken.
    #[inline]
    fn previous(&self) -> Token {
        self.tokens[self.at.saturating_sub(1)]
    }

    /// Whether the present token begins on a later line than the last one taken ended.
    fn is_on_new_line(&self) -> bool {
        self.at == 0
            || self
                .source
                .as_bytes()
                .get(self.previous().end as usize..self.start() as usize)
                .is_some_and(|gap| gap.iter().any(|&byte| matches!(byte, b'\n' | b'\r')))
    }

    // Spans.

    #[inline]
    fn span_of(&self, token: Token) -> Span {
        Span::new(self.file, token.start + self.offset, token.end + self.offset)
    }

    /// The span of the present token.
    #[inline]
    fn span(&self) -> Span {
        self.span_of(self.token())
    }

    /// From a byte to the end of the last token taken.
    #[inline]
    fn span_from(&self, start: u32) -> Span {
        let end = if self.at == 0 { start } else { self.previous().end.max(start) };
        Span::new(self.file, start + self.offset, end + self.offset)
    }

    // Recursion.

    /// Runs a rule one level deeper, or gives up on the file when that is too deep.
    #[inline]
    fn nested<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.depth >= self.limits.nesting {
            return Err(self.give_up_on_nesting());
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    // Names.

    /// An identifier.
    #[inline]
    fn ident(&mut self, what: &str) -> Parse<Ident> {
        if matches!(self.kind(), TokenKind::Ident | TokenKind::QuotedIdent) {
            Ok(self.take_ident())
        } else {
            Err(self.expected_name(what))
        }
    }

    /// The present token as an identifier, whatever it is.
    #[inline]
    fn take_ident(&mut self) -> Ident {
        let ident = Ident { name: Name::new(self.text()), span: self.span() };
        self.bump();
        ident
    }

    /// `[.] IDENT {. IDENT}`
    fn path(&mut self, what: &str) -> Parse<Path> {
        let start = self.start();
        let is_global = self.eat(TokenKind::Dot);
        let mut parts = vec![self.ident(what)?];
        while self.kind() == TokenKind::Dot && self.peek(1) != TokenKind::LBrace && self.peek(1) != TokenKind::Star {
            self.bump();
            parts.push(self.ident(what)?);
        }
        Ok(Path { is_global, parts, span: self.span_from(start) })
    }

    /// Takes a token of the given kind or reports that it is missing.
    fn expect(&mut self, kind: TokenKind, place: &str) -> Parse<()> {
        if self.eat(kind) { Ok(()) } else { Err(self.expected(kind, place)) }
    }

    /// Takes a closing bracket; `open` is the opening one.
    fn close(&mut self, kind: TokenKind, open: Token) -> Parse<()> {
        if self.eat(kind) { Ok(()) } else { Err(self.unclosed_bracket(kind, open)) }
    }

    /// `[STRING {+ STRING}]`
    fn description_string(&mut self) -> Option<Arc<str>> {
        if self.kind() != TokenKind::String {
            return None;
        }
        let first = self.string_literal();
        if self.kind() != TokenKind::Plus {
            return Some(first);
        }
        let mut whole = String::from(&*first);
        while self.kind() == TokenKind::Plus && self.peek(1) == TokenKind::String {
            self.bump();
            whole.push_str(&self.string_literal());
        }
        Some(whole.into())
    }
}
