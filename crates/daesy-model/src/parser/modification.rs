//! Modifications and annotations, appendix A.2.5.

use daesy_graph::Finding;

use super::recovery::begins_class;
use super::{Parse, Parser};
use crate::lexer::TokenKind;
use crate::syntax::{
    Argument, BreakTarget, ClassBody, Constraint, Element, ElementKind, ElementPrefixes, Modification,
    ModificationValue,
};
use std::sync::Arc;

/// `"text" annotation(..)` after a declaration, equation or statement.
#[derive(Default)]
pub(super) struct Comment {
    pub(super) description: Option<Arc<str>>,
    pub(super) annotation: Option<Box<Modification>>,
}

impl Parser<'_> {
    /// `[STRING {+ STRING}] [annotation(..)]`
    pub(super) fn comment(&mut self) -> Parse<Comment> {
        let description = self.description_string();
        let annotation = self.annotation()?;
        Ok(Comment { description, annotation })
    }

    /// `[annotation(..)]`
    pub(super) fn annotation(&mut self) -> Parse<Option<Box<Modification>>> {
        if self.kind() != TokenKind::Annotation {
            return Ok(None);
        }
        self.bump();
        if self.kind() != TokenKind::LParen {
            return Err(self.expected(TokenKind::LParen, "after `annotation`"));
        }
        Ok(Some(Box::new(self.class_modification()?)))
    }

    /// `(..)` or nothing.
    pub(super) fn optional_class_modification(&mut self) -> Parse<Option<Box<Modification>>> {
        if self.kind() == TokenKind::LParen { Ok(Some(Box::new(self.class_modification()?))) } else { Ok(None) }
    }

    /// `[(..)] [= value]`
    pub(super) fn modification(&mut self) -> Parse<Option<Box<Modification>>> {
        let start = self.start();
        let mut modification = match self.kind() {
            TokenKind::LParen => self.class_modification()?,
            TokenKind::Equals | TokenKind::ColonEquals => Modification::default(),
            _ => return Ok(None),
        };
        if matches!(self.kind(), TokenKind::Equals | TokenKind::ColonEquals) {
            if self.kind() == TokenKind::ColonEquals {
                let message = "`:=` in a declaration is an old spelling; it is read as `=`";
                self.push(Finding::warning("old-spelling", self.span(), message).with_help("write `=`"));
            }
            self.bump();
            modification.value = Some(if self.kind() == TokenKind::Break {
                let span = self.span();
                self.bump();
                ModificationValue::Break(span)
            } else {
                ModificationValue::Expr(self.expression()?)
            });
            modification.span = Some(self.span_from(start));
        }
        Ok(Some(Box::new(modification)))
    }

    /// `( [argument {, argument}] )`
    pub(super) fn class_modification(&mut self) -> Parse<Modification> {
        self.nested(|parser| {
            let open = parser.token();
            parser.bump();
            let mut args = Vec::new();
            if parser.kind() != TokenKind::RParen {
                loop {
                    args.push(parser.modification_argument()?);
                    if !parser.eat(TokenKind::Comma) {
                        break;
                    }
                }
            }
            parser.close(TokenKind::RParen, open)?;
            Ok(Modification { args, value: None, span: Some(parser.span_from(open.start)) })
        })
    }

    fn modification_argument(&mut self) -> Parse<Argument> {
        let start = self.start();
        if self.eat(TokenKind::Break) {
            let what = self.break_target()?;
            return Ok(Argument::Break { what, span: self.span_from(start) });
        }
        let is_redeclare = self.eat(TokenKind::Redeclare);
        let mut is_each = false;
        let mut is_final = false;
        loop {
            match self.kind() {
                TokenKind::Each => {
                    if is_final {
                        self.prefix_order("each final");
                    }
                    is_each = true;
                }
                TokenKind::Final => is_final = true,
                _ => break,
            }
            self.bump();
        }
        let is_replaceable = self.eat(TokenKind::Replaceable);
        if is_redeclare || is_replaceable {
            let prefixes = ElementPrefixes { is_redeclare, is_final, is_replaceable, ..ElementPrefixes::default() };
            let element = Box::new(self.redeclared_element(start, prefixes)?);
            return Ok(Argument::Redeclare { is_redeclare, is_each, element });
        }
        if begins_class(self.kind()) {
            let message = "a class can only be given in a modification with `redeclare`";
            return Err(
                self.report(Finding::error("missing-redeclare", self.span(), message).with_help("add `redeclare`"))
            );
        }
        let name = self.path("the name of what is modified")?;
        if self.kind() == TokenKind::LBracket {
            let message = "a modification cannot name one element of an array";
            let help = "modify the whole array: `x = {1, 2}`, or `each x = 1`";
            return Err(self.report(Finding::error("indexed-modification", self.span(), message).with_help(help)));
        }
        let modification = self.modification()?;
        let comment = self.comment()?;
        Ok(Argument::Modify {
            is_each,
            is_final,
            name,
            modification,
            description: comment.description,
            annotation: comment.annotation,
            span: self.span_from(start),
        })
    }

    /// What stands after `break`: a name or a connection.
    fn break_target(&mut self) -> Parse<BreakTarget> {
        if self.kind() != TokenKind::Connect {
            return Ok(BreakTarget::Name(self.ident("the name of what is left out")?));
        }
        let (left, right) = self.connection()?;
        Ok(BreakTarget::Connect(Box::new(left), Box::new(right)))
    }

    /// The short class or single component of a redeclaration, with its constraint.
    fn redeclared_element(&mut self, start: u32, prefixes: ElementPrefixes) -> Parse<Element> {
        if begins_class(self.kind()) {
            let class = self.class_definition(prefixes.is_final)?;
            if matches!(class.body, ClassBody::Long { .. }) {
                let message = "only a short class `.. = ..` can be given in a modification";
                self.push(Finding::error("long-class-in-modification", class.span, message));
            }
            let constraint = self.constraint(prefixes)?;
            let kind = ElementKind::Class { prefixes, class, constraint };
            return Ok(Element { kind, span: self.span_from(start) });
        }
        let clause = self.component_clause_head()?;
        let component = Arc::new(self.component(&clause, false)?);
        let constraint = self.constraint(prefixes)?;
        let kind = ElementKind::Component { prefixes, component, constraint };
        Ok(Element { kind, span: self.span_from(start) })
    }

    /// `constrainedby B(..) "text" annotation(..)`, only after `replaceable`.
    pub(super) fn constraint(&mut self, prefixes: ElementPrefixes) -> Parse<Option<Box<Constraint>>> {
        match self.kind() {
            TokenKind::Constrainedby => {
                if !prefixes.is_replaceable {
                    let message = "`constrainedby` needs `replaceable` in front of the declaration";
                    self.report(Finding::error("constraint-without-replaceable", self.span(), message));
                }
            }
            TokenKind::Extends if prefixes.is_replaceable => {
                let message = "`extends` as a constraint is an old spelling; it is read as `constrainedby`";
                self.push(Finding::warning("old-spelling", self.span(), message).with_help("write `constrainedby`"));
            }
            _ => return Ok(None),
        }
        self.bump();
        let base = self.path("the constraining class")?;
        let modification = self.optional_class_modification()?;
        let comment = self.comment()?;
        Ok(Some(Box::new(Constraint {
            base,
            modification,
            description: comment.description,
            annotation: comment.annotation,
        })))
    }

    /// Says that prefixes stand in another order than the grammar has them.
    #[cold]
    pub(super) fn prefix_order(&mut self, right: &str) {
        let message = format!("`{}` stands in the wrong place among the prefixes", self.text());
        self.push(Finding::warning("prefix-order", self.span(), message).with_help(format!("the order is `{right}`")));
    }
}
