//! How the parser goes on after a mistake.

use daesy_graph::finding::nearest;
use daesy_graph::{Finding, Span};

use super::Parser;
use crate::lexer::TokenKind;

/// Keywords that close with `end if`, `end for`, `end when`, `end while`.
pub(super) const fn is_block_keyword(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::If | TokenKind::For | TokenKind::When | TokenKind::While)
}

/// Keywords a class definition begins with.
pub(super) const fn begins_class(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Encapsulated
            | TokenKind::Partial
            | TokenKind::Class
            | TokenKind::Model
            | TokenKind::Record
            | TokenKind::Block
            | TokenKind::Expandable
            | TokenKind::Connector
            | TokenKind::Type
            | TokenKind::Package
            | TokenKind::Pure
            | TokenKind::Impure
            | TokenKind::Operator
            | TokenKind::Function
    )
}

/// Keywords that begin a declaration and nothing in an equation or algorithm section.
pub(super) const fn begins_declaration(kind: TokenKind) -> bool {
    // `pure` begins an expression too.
    (begins_class(kind) && !matches!(kind, TokenKind::Pure))
        || matches!(
            kind,
            TokenKind::Import
                | TokenKind::Extends
                | TokenKind::Redeclare
                | TokenKind::Final
                | TokenKind::Inner
                | TokenKind::Outer
                | TokenKind::Replaceable
                | TokenKind::Flow
                | TokenKind::Stream
                | TokenKind::Discrete
                | TokenKind::Parameter
                | TokenKind::Constant
                | TokenKind::Input
                | TokenKind::Output
        )
}

/// Keywords that begin a class.
pub(super) const CLASS_WORDS: &[(&str, TokenKind)] = &[
    ("model", TokenKind::Model),
    ("class", TokenKind::Class),
    ("block", TokenKind::Block),
    ("package", TokenKind::Package),
    ("function", TokenKind::Function),
    ("connector", TokenKind::Connector),
    ("record", TokenKind::Record),
    ("type", TokenKind::Type),
    ("partial", TokenKind::Partial),
    ("encapsulated", TokenKind::Encapsulated),
    ("within", TokenKind::Within),
];

/// Keywords that stand before the type of a declaration.
pub(super) const PREFIX_WORDS: &[(&str, TokenKind)] = &[
    ("parameter", TokenKind::Parameter),
    ("constant", TokenKind::Constant),
    ("discrete", TokenKind::Discrete),
    ("input", TokenKind::Input),
    ("output", TokenKind::Output),
    ("flow", TokenKind::Flow),
    ("stream", TokenKind::Stream),
    ("final", TokenKind::Final),
    ("inner", TokenKind::Inner),
    ("outer", TokenKind::Outer),
    ("replaceable", TokenKind::Replaceable),
    ("redeclare", TokenKind::Redeclare),
];

/// Keywords that stand on a line of their own.
pub(super) const SECTION_WORDS: &[(&str, TokenKind)] = &[
    ("equation", TokenKind::Equation),
    ("algorithm", TokenKind::Algorithm),
    ("public", TokenKind::Public),
    ("protected", TokenKind::Protected),
];

impl Parser<'_> {
    /// Takes a word where no name can stand for the keyword that it nearly is, and says so.
    pub(super) fn misspelt_keyword(&mut self, words: &[(&str, TokenKind)]) {
        if self.kind() != TokenKind::Ident {
            return;
        }
        let word = self.text().to_owned();
        let Some(near) = nearest(&word, words.iter().map(|(keyword, _)| *keyword)) else { return };
        let Some(&(keyword, kind)) = words.iter().find(|(keyword, _)| *keyword == near) else { return };
        let message = format!("`{word}` is no keyword");
        let help = format!("did you mean `{keyword}`?");
        // A finding too many leads to the end of the text, which must stay its end.
        let at = self.at;
        self.report(Finding::error("misspelt-keyword", self.span(), message).with_names([word]).with_help(help));
        self.tokens[at].kind = kind;
    }

    /// At a word where only a keyword can stand: a type and a name would follow it.
    pub(super) fn is_at_stray_prefix(&self) -> bool {
        self.kind() == TokenKind::Ident
            && self.peek(1) == TokenKind::Ident
            && matches!(self.peek(2), TokenKind::Ident | TokenKind::Dot)
    }

    /// At a word that stands on a line of its own and begins nothing.
    pub(super) fn is_at_stray_section(&self) -> bool {
        let Some(next) = self.tokens.get(self.at + 1) else { return false };
        let gap = self.source.as_bytes().get(self.token().end as usize..next.start as usize);
        self.kind() == TokenKind::Ident
            && self.is_on_new_line()
            && gap.is_some_and(|gap| gap.iter().any(|&byte| matches!(byte, b'\n' | b'\r')))
    }

    /// At a keyword that begins a section of a class or ends one.
    pub(super) fn is_at_section(&self) -> bool {
        match self.kind() {
            TokenKind::Eof
            | TokenKind::Public
            | TokenKind::Protected
            | TokenKind::Equation
            | TokenKind::Algorithm
            | TokenKind::External => true,
            TokenKind::Initial => matches!(self.peek(1), TokenKind::Equation | TokenKind::Algorithm),
            _ => false,
        }
    }

    /// At `end` that closes a class or block, not the last index of an array.
    pub(super) fn is_at_closing_end(&self) -> bool {
        self.kind() == TokenKind::End
            && (matches!(self.peek(1), TokenKind::Ident | TokenKind::QuotedIdent)
                || is_block_keyword(self.peek(1))
                || (self.is_on_new_line() && matches!(self.peek(1), TokenKind::Semicolon | TokenKind::Eof)))
    }

    /// Goes after the `;` that ends the statement begun at the token `from`, or to the next section, `end` or class.
    ///
    /// A `;` between the rows of a matrix is told from others by what follows on its line.
    pub(super) fn skip_statement(&mut self, from: usize) {
        let mut open = 0_usize;
        for token in self.tokens.get(from..self.at).unwrap_or_default() {
            match token.kind {
                TokenKind::LBracket => open += 1,
                TokenKind::RBracket => open = open.saturating_sub(1),
                _ => {}
            }
        }
        loop {
            match self.kind() {
                TokenKind::Semicolon => {
                    self.bump();
                    if open == 0 || self.is_on_new_line() {
                        return;
                    }
                    continue;
                }
                TokenKind::LBracket => open += 1,
                TokenKind::RBracket => open = open.saturating_sub(1),
                _ => {}
            }
            let is_stop = self.is_at_section()
                || self.is_at_closing_end()
                || (self.at > from && begins_class(self.kind()) && self.is_on_new_line());
            if is_stop {
                return;
            }
            self.bump();
        }
    }

    /// Takes the `;` after an element, equation or statement that began at the token `from`.
    pub(super) fn semicolon(&mut self, what: &str, from: usize) {
        if self.eat(TokenKind::Semicolon) {
            return;
        }
        let previous = self.span_of(self.previous());
        if self.is_on_new_line() || self.is_at_section() || self.is_at_closing_end() {
            let message = format!("expected `;` after {what}");
            let end = Span::new(previous.file, previous.end.saturating_sub(1).max(previous.start), previous.end);
            // The last character may be one of several bytes, as in a quoted name that does not end.
            let end = if self.source.is_char_boundary((end.start - self.offset) as usize) { end } else { previous };
            self.report(Finding::error("missing-semicolon", end, message).with_help("add `;` here"));
        } else {
            let message = format!("expected `;` after {what}, found {}", self.describe());
            self.report(Finding::error("unexpected-token", self.span(), message));
            self.skip_statement(from);
        }
    }

    /// Goes to a token of the given kind if it comes before the next `;` or section; stays otherwise.
    pub(super) fn skip_to(&mut self, kind: TokenKind) {
        let here = self.at;
        while self.kind() != kind {
            if self.kind() == TokenKind::Semicolon || self.is_at_section() || self.is_at_closing_end() {
                self.at = here;
                return;
            }
            self.bump();
        }
    }
}
