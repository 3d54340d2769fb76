//! What the parser says: each message names the cause and, where one is known, the remedy.

use daesy_graph::{Finding, Level, Span};

use super::{Fail, Parser};
use crate::lexer::{Token, TokenKind};

impl Parser<'_> {
    /// Keeps a finding, or gives up on the file when there are too many errors; of warnings the first ones are kept.
    pub(super) fn push(&mut self, finding: Finding) {
        if self.has_given_up {
            return;
        }
        let is_error = finding.level == Level::Error;
        let n_alike = if is_error { self.n_errors } else { self.findings.len() - self.n_errors };
        if n_alike < self.limits.findings {
            self.n_errors += usize::from(is_error);
            self.findings.push(finding);
        } else if is_error {
            let message = format!("more than {} errors; the rest of the file is left unread", self.limits.findings);
            self.findings.push(Finding::error("too-many-findings", finding.span, message));
            self.give_up();
        }
    }

    /// Keeps a mistake, unless one was already reported at the same token.
    pub(super) fn report(&mut self, finding: Finding) -> Fail {
        let is_echo = self.reported_at == Some(self.at) || (self.is_truncated && self.kind() == TokenKind::Eof);
        self.reported_at = Some(self.at);
        if !is_echo {
            self.push(finding);
        }
        Fail
    }

    fn give_up(&mut self) {
        self.has_given_up = true;
        self.at = self.tokens.len().saturating_sub(1);
    }

    #[cold]
    pub(super) fn give_up_on_nesting(&mut self) -> Fail {
        let message = format!("more than {} levels of nesting", self.limits.nesting);
        let finding = Finding::error("nesting-limit", self.span(), message)
            .with_help("split the expression or class into parts with names of their own");
        let fail = self.report(finding);
        self.give_up();
        fail
    }

    #[cold]
    pub(super) fn give_up_on_height(&mut self) -> Fail {
        let message = format!("the expression has a chain of more than {} operators", self.limits.height);
        let finding = Finding::error("expression-limit", self.span(), message)
            .with_help("use `sum` or `product` over an array, or split the expression");
        let fail = self.report(finding);
        self.give_up();
        fail
    }

    /// The present token as a message names it.
    pub(super) fn describe(&self) -> String {
        self.describe_token(self.token())
    }

    fn describe_token(&self, token: Token) -> String {
        let text = token.text(self.source);
        match token.kind {
            TokenKind::Eof => "the end of the text".into(),
            TokenKind::String => "a string".into(),
            TokenKind::Integer | TokenKind::Real => format!("the number `{text}`"),
            kind if kind.is_keyword() => format!("the keyword `{text}`"),
            _ => format!("`{text}`"),
        }
    }

    /// Turns a token that is not Modelica into one that is, or drops it, with a finding.
    #[cold]
    pub(super) fn repair_token(&mut self, token: Token) {
        let span = self.span_of(token);
        let text = token.text(self.source);
        match token.kind {
            TokenKind::UnterminatedComment => {
                let start = Span::new(span.file, span.start, span.start + 2);
                self.push(
                    Finding::error("unterminated-comment", start, "the comment that begins here does not end")
                        .with_help("close it with `*/`"),
                );
                self.is_truncated = true;
            }
            TokenKind::UnterminatedString => {
                let start = Span::new(span.file, span.start, span.start + 1);
                let message = "the string that begins here does not end";
                let help = "close it with `\"`; a quote within a string is written `\\\"`. If this string looks whole, an \
                            earlier one lacks a quote";
                self.push(Finding::error("unterminated-string", start, message).with_help(help));
                self.is_truncated = true;
            }
            TokenKind::UnterminatedIdent => {
                let message = "the quoted name does not end on its line";
                self.push(Finding::error("unterminated-name", span, message).with_help("close it with `'`"));
                self.tokens.push(Token { kind: TokenKind::QuotedIdent, ..token });
            }
            TokenKind::ForeignIdent => {
                let message = format!("`{text}` has letters that names in Modelica cannot have");
                let help = format!("use only a-z, A-Z, 0-9 and _, or quote the name: '{text}'");
                self.push(Finding::error("foreign-letter", span, message).with_help(help));
                self.tokens.push(Token { kind: TokenKind::Ident, ..token });
            }
            TokenKind::DotReal => {
                let message = format!("a number needs a digit before its point; `{text}` is read as `0{text}`");
                self.push(Finding::warning("leading-point", span, message).with_help(format!("write `0{text}`")));
                self.tokens.push(Token { kind: TokenKind::Real, ..token });
            }
            _ => {
                let character = text.chars().next().unwrap_or('\u{fffd}');
                let message = if character.is_ascii_graphic() {
                    format!("`{character}` has no meaning in Modelica")
                } else {
                    format!("the character U+{:04X} has no meaning in Modelica", u32::from(character))
                };
                let help = match character {
                    '\u{201c}'..='\u{201f}' => "write strings with plain quotes: \"..\"",
                    '\u{2018}'..='\u{201b}' | '`' => "write quoted names with plain quotes: '..'",
                    '\u{2212}' | '\u{2013}' | '\u{2014}' => "write a plain minus sign: -",
                    '\u{a0}' | '\u{2000}'..='\u{200b}' | '\u{202f}' | '\u{feff}' => {
                        "replace the special blank by a plain one"
                    }
                    '%' => "the remainder is mod(a, b); comments begin with //",
                    '#' => "comments begin with //",
                    '&' => "write `and`",
                    '|' => "write `or`",
                    _ => "remove it",
                };
                self.push(Finding::error("unknown-character", span, message).with_help(help));
            }
        }
    }

    #[cold]
    pub(super) fn expected(&mut self, kind: TokenKind, place: &str) -> Fail {
        let what = kind.text().unwrap_or("?");
        let message = format!("expected `{what}` {place}, found {}", self.describe());
        self.report(Finding::error("unexpected-token", self.span(), message))
    }

    #[cold]
    pub(super) fn expected_name(&mut self, what: &str) -> Fail {
        if self.kind().is_keyword() {
            return self.keyword_as_name(what);
        }
        let mut finding =
            Finding::error("unexpected-token", self.span(), format!("expected {what}, found {}", self.describe()));
        if matches!(self.kind(), TokenKind::Integer | TokenKind::Real) && matches!(self.peek(1), TokenKind::Ident) {
            finding = finding.with_help("a name cannot begin with a digit");
        }
        self.report(finding)
    }

    #[cold]
    pub(super) fn keyword_as_name(&mut self, what: &str) -> Fail {
        let text = self.text();
        let message = format!("expected {what}, but `{text}` is a keyword and cannot be a name");
        let help = format!("choose another name, or quote it: '{text}'");
        self.report(Finding::error("keyword-as-name", self.span(), message).with_help(help))
    }

    #[cold]
    pub(super) fn unclosed_bracket(&mut self, kind: TokenKind, open: Token) -> Fail {
        let close = kind.text().unwrap_or("?");
        let mut finding = Finding::error(
            "unclosed-bracket",
            self.span(),
            format!("expected `{close}` or `,` before {}", self.describe()),
        )
        .with_label(self.span_of(open), format!("this `{}` is not closed", open.text(self.source)));
        match self.kind() {
            TokenKind::Equals => finding = finding.with_help("a comparison is written `==`"),
            TokenKind::Semicolon | TokenKind::Eof => finding = finding.with_help(format!("add `{close}`")),
            _ => {}
        }
        self.report(finding)
    }

    #[cold]
    pub(super) fn expected_expression(&mut self) -> Fail {
        use TokenKind as Kind;
        let before = if self.at > 0 { self.previous().kind } else { Kind::Eof };
        let is_adjacent = self.at > 0 && self.previous().end == self.start();
        let message = format!("expected an expression, found {}", self.describe());
        let finding = Finding::error("unexpected-token", self.span(), message);
        match self.kind() {
            Kind::Star if before == Kind::Star && is_adjacent => self.report(
                Finding::error("foreign-operator", self.span(), "Modelica has no operator `**`")
                    .with_help("a power is written `a ^ b`"),
            ),
            Kind::Plus | Kind::Minus if before == self.kind() && is_adjacent => {
                self.report(finding.with_help("Modelica has no `++` and `--`; write `x := x + 1`"))
            }
            Kind::Equals
                if is_adjacent
                    && matches!(before, Kind::Plus | Kind::Minus | Kind::Star | Kind::Slash | Kind::Caret) =>
            {
                self.report(finding.with_help("Modelica has no such assignment; write `x := x + ..`"))
            }
            Kind::End => self.report(
                Finding::error(
                    "end-outside-subscript",
                    self.span(),
                    "expected an expression; `end` has a value only in a subscript",
                )
                .with_help("in `x[end]` it is the last index of x"),
            ),
            Kind::Comma | Kind::RParen if before == Kind::Comma => {
                self.report(finding.with_help("there is one `,` too many, or an argument is missing"))
            }
            kind if kind.is_keyword()
                && !matches!(
                    kind,
                    Kind::Then
                        | Kind::Else
                        | Kind::Elseif
                        | Kind::Elsewhen
                        | Kind::Loop
                        | Kind::Equation
                        | Kind::Algorithm
                        | Kind::For
                        | Kind::In
                        | Kind::Annotation
                        | Kind::Public
                        | Kind::Protected
                        | Kind::And
                        | Kind::Or
                ) =>
            {
                self.keyword_as_name("an expression")
            }
            _ => self.report(finding),
        }
    }
}
