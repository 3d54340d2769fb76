//! Indents a file anew without touching anything else: comments, line ends inside declarations and the words themselves
//! stay as they are. An editor formats with this; a printer of syntax trees would lose the comments.
//!
//! Only white space at the ends of lines changes. What a line is inside of decides: classes, `if`, `for`, `when` and
//! `while` blocks, brackets, and statements that have not come to their `;`. Lines that begin inside a string or a
//! comment keep their beginning.

use crate::lexer::{TokenKind, tokens};

/// Blanks of one level.
const STEP: usize = 2;

/// What is open at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Class,
    Block,
    Bracket,
}

/// Where the reader is in a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// At its beginning.
    Begin,
    /// In the head of a block, up to `then` or `loop`.
    Head,
    /// In the head of a class, up to its name and what says whether it has a body.
    Class,
    /// Within.
    Within,
}

struct Indenter {
    open: Vec<Open>,
    part: Part,
    /// Whether the name of the class whose head is being read has come: 0 or 1.
    n_words_of_class: usize,
    /// Whether the token before was `end`.
    is_after_end: bool,
}

/// The text with every line indented by what it is inside of.
#[must_use]
pub fn indent(text: &str) -> String {
    let mut indenter = Indenter { open: Vec::new(), part: Part::Begin, n_words_of_class: 0, is_after_end: false };
    let mut out = String::with_capacity(text.len());
    // Whether the present line has something on it already.
    let mut is_begun = false;
    for token in tokens(text) {
        let words = token.text(text);
        if token.kind == TokenKind::Whitespace {
            let n_lines = words.matches('\n').count();
            if n_lines > 0 {
                trim_end(&mut out);
                out.push_str(&if words.contains("\r\n") { "\r\n" } else { "\n" }.repeat(n_lines));
                is_begun = false;
            } else if is_begun {
                out.push_str(words);
            }
            continue;
        }
        if !is_begun {
            out.push_str(&" ".repeat(STEP * indenter.level(token.kind)));
        }
        out.push_str(words);
        // A comment to the end of the line may hold the end of the line.
        is_begun = !words.ends_with('\n');
        if !token.kind.is_trivia() {
            indenter.take(token.kind);
        }
    }
    trim_end(&mut out);
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn trim_end(text: &mut String) {
    let kept = text.trim_end_matches([' ', '\t', '\r']).len();
    text.truncate(kept);
}

const fn is_section(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Equation | TokenKind::Algorithm | TokenKind::Public | TokenKind::Protected)
}

const fn is_bracket_end(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::RParen | TokenKind::RBracket | TokenKind::RBrace)
}

impl Indenter {
    /// The level of a line that begins with a token.
    fn level(&self, first: TokenKind) -> usize {
        let depth = self.open.len();
        if self.open.last() == Some(&Open::Bracket) {
            return if is_bracket_end(first) { depth - 1 } else { depth };
        }
        // After the name of a class its body may begin.
        let is_body = self.part == Part::Class && self.n_words_of_class > 0;
        let (depth, is_continued) = if is_body { (depth + 1, false) } else { (depth, self.part != Part::Begin) };
        let closes = matches!(
            first,
            TokenKind::End | TokenKind::Else | TokenKind::Elseif | TokenKind::Elsewhen | TokenKind::Initial
        );
        if !is_continued && (closes || is_section(first)) {
            depth.saturating_sub(1)
        } else {
            depth + usize::from(is_continued)
        }
    }

    fn take(&mut self, kind: TokenKind) {
        let is_end = kind == TokenKind::End && self.is_at_begin();
        let is_after_end = std::mem::replace(&mut self.is_after_end, is_end);
        match kind {
            TokenKind::LParen | TokenKind::LBracket | TokenKind::LBrace => {
                self.enter_body();
                self.open.push(Open::Bracket);
                if self.part == Part::Begin {
                    self.part = Part::Within;
                }
                return;
            }
            _ if is_bracket_end(kind) => {
                if self.open.last() == Some(&Open::Bracket) {
                    self.open.pop();
                }
                return;
            }
            _ if self.open.last() == Some(&Open::Bracket) => return,
            _ => {}
        }
        if is_after_end {
            // `end if`, `end Name`: what was open is closed; the rest is its `;`.
            self.open.pop();
            self.part = Part::Within;
            return;
        }
        match (self.part, kind) {
            (_, TokenKind::Semicolon) => {
                self.enter_body();
                self.part = Part::Begin;
            }
            (Part::Begin, TokenKind::End) => {}
            (Part::Begin, TokenKind::If | TokenKind::For | TokenKind::When | TokenKind::While) => {
                self.open.push(Open::Block);
                self.part = Part::Head;
            }
            (Part::Begin, TokenKind::Elseif | TokenKind::Elsewhen) => self.part = Part::Head,
            (Part::Begin, TokenKind::Else | TokenKind::Initial) => {}
            (Part::Head, TokenKind::Then | TokenKind::Loop) => self.part = Part::Begin,
            (_, kind) if is_section(kind) => {
                self.enter_body();
                self.part = Part::Begin;
            }
            (Part::Begin, kind) if begins_class(kind) => {
                self.part = Part::Class;
                self.n_words_of_class = 0;
            }
            (Part::Class, kind) => self.class_head(kind),
            (Part::Begin, kind) if is_prefix(kind) => {}
            (Part::Begin, _) => self.part = Part::Within,
            _ => {}
        }
    }

    fn is_at_begin(&self) -> bool {
        self.part == Part::Begin && self.open.last() != Some(&Open::Bracket)
    }

    /// After `model`: its name, then `=` for one without a body, or anything else for one with.
    fn class_head(&mut self, kind: TokenKind) {
        match kind {
            TokenKind::Equals => self.part = Part::Within,
            TokenKind::Extends if self.n_words_of_class == 0 => {}
            TokenKind::Ident | TokenKind::QuotedIdent if self.n_words_of_class == 0 => self.n_words_of_class = 1,
            _ if begins_class(kind) && self.n_words_of_class == 0 => {}
            _ => {
                self.enter_body();
                // The token belongs to the body; a description only ends the head.
                if kind != TokenKind::String {
                    self.take(kind);
                }
            }
        }
    }

    /// A class whose name was read, and no `=` after it, has a body.
    fn enter_body(&mut self) {
        if self.part == Part::Class && self.n_words_of_class > 0 {
            self.open.push(Open::Class);
            self.part = Part::Begin;
        }
    }
}

const fn begins_class(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Model
            | TokenKind::Class
            | TokenKind::Block
            | TokenKind::Record
            | TokenKind::Connector
            | TokenKind::Type
            | TokenKind::Package
            | TokenKind::Function
            | TokenKind::Operator
    )
}

/// Words that stand before a class or declaration and say nothing about what it is.
const fn is_prefix(kind: TokenKind) -> bool {
    matches!(
        kind,
        TokenKind::Partial
            | TokenKind::Encapsulated
            | TokenKind::Expandable
            | TokenKind::Pure
            | TokenKind::Impure
            | TokenKind::Final
            | TokenKind::Redeclare
            | TokenKind::Replaceable
            | TokenKind::Inner
            | TokenKind::Outer
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: &str = r#"// A file.
package P "Things"
  type Angle = Real(unit = "rad");
  model A "A model
     with a long description"
    parameter Real k = 1; // a remark
    Real x(
      start = 1,
      fixed = true
    );
    replaceable model B = A;
    /* a comment
   of two lines */
  protected
    Real y;
  initial equation
    x = 2;
  equation
    if k > 0 then
      der(x) = if x > 0 then -1
        else 1;
    elseif k < -1 then
      der(x) = 0;
    else
      // nothing here
      der(x) = 1;
    end if;
    for i in 1:3 loop
      y = x
        + k;
    end for;
    annotation (experiment(StopTime = 1));
  end A;

  function f
    input Real u;
    output Real v;
  algorithm
    v := u;
    while v > 1 loop
      v := v/2;
    end while;
  end f;
  package Q = P;
end P;
"#;

    /// The file with every line moved to the left or right at random, but for those inside a comment or text.
    fn disturbed(text: &str) -> String {
        let mut out = String::new();
        for (at, line) in text.lines().enumerate() {
            let is_inside = line.starts_with("     with") || line.starts_with("   of");
            if is_inside {
                out.push_str(line);
            } else {
                out.push_str(&" ".repeat(at * 7 % 5));
                out.push_str(line.trim_start());
                let goes_on = line.ends_with("A model") || line.contains("/*");
                out.push_str(&" ".repeat(if goes_on { 0 } else { at % 3 }));
            }
            out.push('\n');
        }
        out
    }

    #[test]
    fn lines_stand_where_they_belong_and_comments_stay() {
        assert_eq!(indent(RIGHT), RIGHT);
        assert_eq!(indent(&disturbed(RIGHT)), RIGHT);
    }

    #[test]
    fn nothing_but_white_space_changes() {
        for text in [RIGHT, "model A Real x = ; end", "end end ) ] equation if then", "\"open", "/* open", ""] {
            let words = |text: &str| {
                let told: Vec<String> = tokens(text)
                    .filter(|token| token.kind != TokenKind::Whitespace)
                    .map(|token| token.text(text).trim_end().to_owned())
                    .collect();
                told
            };
            let once = indent(text);
            assert_eq!(words(text), words(&once), "{text}");
            assert_eq!(indent(&once), once, "{text}");
        }
    }
}
