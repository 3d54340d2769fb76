//! Values of numbers and strings.

use std::sync::Arc;

use daesy_graph::{Finding, Span};

use super::Parser;
use crate::syntax::{Expr, ExprKind};

impl Parser<'_> {
    /// An integer; beyond 64 bits it is read as a real.
    pub(super) fn integer_literal(&mut self) -> Expr {
        let (text, span) = (self.text(), self.span());
        let kind = match text.parse::<i64>() {
            Ok(value) => ExprKind::Integer(value),
            Err(_) => ExprKind::Real(self.real_value(text, span)),
        };
        self.bump();
        Expr { kind, span }
    }

    pub(super) fn real_literal(&mut self) -> Expr {
        let (text, span) = (self.text(), self.span());
        let kind = ExprKind::Real(self.real_value(text, span));
        self.bump();
        Expr { kind, span }
    }

    fn real_value(&mut self, text: &str, span: Span) -> f64 {
        let value = text.parse().unwrap_or(f64::INFINITY);
        if value == f64::INFINITY {
            let message = format!("the number `{text}` is too large for a Real");
            self.push(Finding::error("number-range", span, message).with_help("the largest Real is about 1.8e308"));
        }
        value
    }

    /// The present token, a string, with its escapes resolved.
    pub(super) fn string_literal(&mut self) -> Arc<str> {
        let text = self.text();
        let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
        let value: Arc<str> = if inner.as_bytes().contains(&b'\\') {
            let start = self.start() + 1;
            self.resolve_escapes(inner, start).into()
        } else {
            inner.into()
        };
        self.bump();
        value
    }

    fn resolve_escapes(&mut self, text: &str, start: u32) -> String {
        let mut value = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            value.push_str(&rest[..at]);
            let mut after = rest[at + 1..].chars();
            let Some(escaped) = after.next() else {
                rest = "";
                break;
            };
            match escaped {
                '\'' | '"' | '?' | '\\' => value.push(escaped),
                'a' => value.push('\u{7}'),
                'b' => value.push('\u{8}'),
                'f' => value.push('\u{c}'),
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                'v' => value.push('\u{b}'),
                _ => {
                    let begin = start + (text.len() - rest.len() + at) as u32 + self.offset;
                    let span = Span::new(self.file, begin, begin + 1 + escaped.len_utf8() as u32);
                    let message =
                        format!("`\\{}` is no escape of Modelica; it is read as it stands", escaped.escape_debug());
                    let help = "write `\\\\` for a backslash";
                    self.push(Finding::warning("unknown-escape", span, message).with_help(help));
                    value.push('\\');
                    value.push(escaped);
                }
            }
            rest = after.as_str();
        }
        value.push_str(rest);
        value
    }
}
