//! Elements of a class, appendix A.2.3 and A.2.4: imports, extends clauses, classes and components.

use std::sync::Arc;

use daesy_graph::Finding;

use super::modification::Comment;
use super::recovery::begins_class;
use super::{Parse, Parser};
use crate::lexer::TokenKind;
use crate::syntax::{
    Causality, ComponentDecl, Composition, ConnectorPrefix, Element, ElementKind, ElementPrefixes, Import, Path,
    Subscript, VariabilityPrefix,
};

/// What the components of one clause share.
pub(super) struct ComponentClause {
    connector_prefix: Option<ConnectorPrefix>,
    variability: Option<VariabilityPrefix>,
    causality: Option<Causality>,
    type_name: Path,
    type_subscripts: Vec<Subscript>,
}

const ELEMENT_ORDER: &str = "redeclare final inner outer replaceable";
const TYPE_ORDER: &str = "flow parameter input";

impl Parser<'_> {
    /// One element with its `;`.
    pub(super) fn element(&mut self, composition: &mut Composition, is_protected: bool) -> Parse<()> {
        let from = self.at;
        let start = self.start();
        match self.kind() {
            TokenKind::Import => {
                let import = self.import()?;
                self.comment()?;
                composition.elements.push(Element { kind: ElementKind::Import(import), span: self.span_from(start) });
                self.semicolon("the import", from);
                return Ok(());
            }
            TokenKind::Extends => {
                self.bump();
                let base = self.path("the name of the base class")?;
                let modification = self.optional_class_modification()?;
                let annotation = self.annotation()?;
                let kind = ElementKind::Extends { base, modification, annotation, is_protected };
                composition.elements.push(Element { kind, span: self.span_from(start) });
                self.semicolon("the extends clause", from);
                return Ok(());
            }
            _ => {}
        }
        if self.is_at_misplaced_equation() {
            self.misplaced_equation(composition);
            return Ok(());
        }
        let prefixes = self.element_prefixes(is_protected);
        if begins_class(self.kind()) {
            let class = self.class_definition(prefixes.is_final)?;
            let constraint = self.constraint(prefixes)?;
            let kind = ElementKind::Class { prefixes, class, constraint };
            composition.elements.push(Element { kind, span: self.span_from(start) });
            self.semicolon("the class", from);
            return Ok(());
        }
        self.component_clause(composition, prefixes, start)?;
        self.semicolon("the declaration", from);
        Ok(())
    }

    fn element_prefixes(&mut self, is_protected: bool) -> ElementPrefixes {
        let mut prefixes = ElementPrefixes { is_protected, ..ElementPrefixes::default() };
        let mut last_rank = 0;
        loop {
            let (rank, flag) = match self.kind() {
                TokenKind::Redeclare => (1, &mut prefixes.is_redeclare),
                TokenKind::Final => (2, &mut prefixes.is_final),
                TokenKind::Inner => (3, &mut prefixes.is_inner),
                TokenKind::Outer => (4, &mut prefixes.is_outer),
                TokenKind::Replaceable => (5, &mut prefixes.is_replaceable),
                _ => return prefixes,
            };
            let is_repeated = std::mem::replace(flag, true);
            self.check_prefix(is_repeated, rank < last_rank, ELEMENT_ORDER);
            last_rank = rank;
            self.bump();
        }
    }

    fn check_prefix(&mut self, is_repeated: bool, is_out_of_order: bool, order: &str) {
        if is_repeated {
            let message = format!("`{}` contradicts or repeats an earlier prefix", self.text());
            self.report(Finding::error("repeated-prefix", self.span(), message));
        } else if is_out_of_order {
            self.prefix_order(order);
        }
    }

    /// `import A.B;`, `import C = A.B;`, `import A.*;`, `import A.{B, C};`
    fn import(&mut self) -> Parse<Import> {
        self.bump();
        if self.peek(1) == TokenKind::Equals {
            let name = self.ident("the new name")?;
            self.bump();
            let path = self.path("the name of what is imported")?;
            return Ok(Import::Renamed { name, path });
        }
        let path = self.path("the name of what is imported")?;
        match (self.kind(), self.peek(1)) {
            (TokenKind::DotStar, _) => {
                self.bump();
                Ok(Import::Unqualified(path))
            }
            (TokenKind::Dot, TokenKind::Star) => {
                self.bump();
                self.bump();
                Ok(Import::Unqualified(path))
            }
            (TokenKind::Dot, _) => {
                self.bump();
                let open = self.token();
                self.expect(TokenKind::LBrace, "after the dot")?;
                let mut names = vec![self.ident("the name of what is imported")?];
                while self.eat(TokenKind::Comma) {
                    names.push(self.ident("the name of what is imported")?);
                }
                self.close(TokenKind::RBrace, open)?;
                Ok(Import::Listed { path, names })
            }
            _ => Ok(Import::Qualified(path)),
        }
    }

    fn component_clause(&mut self, composition: &mut Composition, prefixes: ElementPrefixes, start: u32) -> Parse<()> {
        let clause = self.component_clause_head()?;
        let first = composition.elements.len();
        loop {
            let component = Arc::new(self.component(&clause, true)?);
            let kind = ElementKind::Component { prefixes, component, constraint: None };
            composition.elements.push(Element { kind, span: self.span_from(start) });
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        if let Some(common) = self.constraint(prefixes)? {
            for element in composition.elements.iter_mut().skip(first) {
                if let ElementKind::Component { constraint, .. } = &mut element.kind {
                    *constraint = Some(common.clone());
                }
            }
        }
        Ok(())
    }

    /// `[flow|stream] [discrete|parameter|constant] [input|output] Type[..]`
    pub(super) fn component_clause_head(&mut self) -> Parse<ComponentClause> {
        let mut connector_prefix = None;
        let mut variability = None;
        let mut causality = None;
        let mut last_rank = 0;
        loop {
            let kind = self.kind();
            let (rank, is_repeated) = match kind {
                TokenKind::Flow => (1, connector_prefix.replace(ConnectorPrefix::Flow).is_some()),
                TokenKind::Stream => (1, connector_prefix.replace(ConnectorPrefix::Stream).is_some()),
                TokenKind::Discrete => (2, variability.replace(VariabilityPrefix::Discrete).is_some()),
                TokenKind::Parameter => (2, variability.replace(VariabilityPrefix::Parameter).is_some()),
                TokenKind::Constant => (2, variability.replace(VariabilityPrefix::Constant).is_some()),
                TokenKind::Input => (3, causality.replace(Causality::Input).is_some()),
                TokenKind::Output => (3, causality.replace(Causality::Output).is_some()),
                TokenKind::Redeclare
                | TokenKind::Final
                | TokenKind::Inner
                | TokenKind::Outer
                | TokenKind::Replaceable
                    if last_rank > 0 =>
                {
                    let message =
                        format!("`{}` must stand before `flow`, `parameter`, `input` and the like", self.text());
                    let finding = Finding::error("prefix-order", self.span(), message);
                    return Err(self.report(finding.with_help("write for example `final parameter Real x`")));
                }
                _ => break,
            };
            self.check_prefix(is_repeated, rank < last_rank, TYPE_ORDER);
            last_rank = rank;
            self.bump();
        }
        if self.kind().is_keyword() {
            let message = format!("expected a declaration, found {}", self.describe());
            return Err(self.report(Finding::error("unexpected-token", self.span(), message)));
        }
        let type_name = self.path("a declaration")?;
        let type_subscripts = if self.kind() == TokenKind::LBracket { self.subscripts()? } else { Vec::new() };
        Ok(ComponentClause { connector_prefix, variability, causality, type_name, type_subscripts })
    }

    /// `name[..](..) = value [if condition] "text" annotation(..)`
    pub(super) fn component(&mut self, clause: &ComponentClause, may_have_condition: bool) -> Parse<ComponentDecl> {
        let start = self.start();
        let name = self.component_name(clause)?;
        self.modifiers_in_brackets(name.name.text());
        let subscripts = if self.kind() == TokenKind::LBracket { self.subscripts()? } else { Vec::new() };
        let modification = self.modification()?;
        let condition =
            if may_have_condition && self.eat(TokenKind::If) { Some(Box::new(self.expression()?)) } else { None };
        let Comment { description, annotation } = self.comment()?;
        Ok(ComponentDecl {
            name,
            type_name: clause.type_name.clone(),
            type_subscripts: clause.type_subscripts.clone(),
            subscripts,
            connector_prefix: clause.connector_prefix,
            variability: clause.variability,
            causality: clause.causality,
            modification,
            condition,
            description,
            annotation,
            span: self.span_from(start),
        })
    }

    /// Reports modifiers that stand in brackets, `r[R = 1]`, and passes them over, so that the component is known.
    fn modifiers_in_brackets(&mut self, name: &str) {
        let is_modifier =
            self.kind() == TokenKind::LBracket && self.peek(1) == TokenKind::Ident && self.peek(2) == TokenKind::Equals;
        if !is_modifier {
            return;
        }
        let start = self.start();
        let mut depth = 0usize;
        while !matches!(self.kind(), TokenKind::Semicolon | TokenKind::Eof) {
            match self.kind() {
                TokenKind::LBracket => depth += 1,
                TokenKind::RBracket => depth -= 1,
                _ => {}
            }
            self.bump();
            if depth == 0 {
                break;
            }
        }
        let message = format!("brackets after `{name}` are for the sizes of an array; modifiers stand in parentheses");
        let finding = Finding::error("modifiers-in-brackets", self.span_from(start), message);
        self.report(finding.with_help(format!("write `{name}(..)` instead of `{name}[..]`")));
    }

    fn component_name(&mut self, clause: &ComponentClause) -> Parse<crate::syntax::Ident> {
        if matches!(self.kind(), TokenKind::Semicolon | TokenKind::Comma | TokenKind::LParen) {
            let type_name = clause.type_name.parts.last().map_or("", |part| part.name.text());
            let message = format!("expected the name of a component after `{type_name}`, found {}", self.describe());
            let finding = Finding::error("unexpected-token", self.span(), message)
                .with_label(clause.type_name.span, "this is read as its type")
                .with_help("a declaration is `Type name;`");
            return Err(self.report(finding));
        }
        self.ident("the name of a component")
    }

    /// Whether an equation or statement stands where only declarations can be; looks along one name at most.
    fn is_at_misplaced_equation(&self) -> bool {
        match self.kind() {
            TokenKind::If
            | TokenKind::For
            | TokenKind::When
            | TokenKind::While
            | TokenKind::Connect
            | TokenKind::Der
            | TokenKind::LParen
            | TokenKind::Return => true,
            TokenKind::Initial => self.peek(1) == TokenKind::LParen,
            TokenKind::Ident | TokenKind::QuotedIdent => {
                let mut ahead = 1;
                while self.peek(ahead) == TokenKind::Dot
                    && matches!(self.peek(ahead + 1), TokenKind::Ident | TokenKind::QuotedIdent)
                {
                    ahead += 2;
                }
                match self.peek(ahead) {
                    TokenKind::Equals | TokenKind::ColonEquals => true,
                    // `assert(..)` and other calls; a type with a modification has a name after it.
                    TokenKind::LParen => ahead == 1 && matches!(self.text(), "assert" | "terminate" | "reinit"),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    fn misplaced_equation(&mut self, composition: &mut Composition) {
        let is_algorithm = matches!(self.kind(), TokenKind::While | TokenKind::Return)
            || (1..=64).map(|ahead| self.peek(ahead)).find(|kind| {
                matches!(kind, TokenKind::Equals | TokenKind::ColonEquals | TokenKind::Semicolon | TokenKind::Eof)
            }) == Some(TokenKind::ColonEquals);
        let (what, section) = if is_algorithm { ("a statement", "algorithm") } else { ("an equation", "equation") };
        let message = format!("{what} cannot stand among the declarations");
        let finding = Finding::error("missing-section", self.span(), message);
        self.report(finding.with_help(format!("write `{section}` on a line before it")));
        let start = self.start();
        self.section_body(composition, false, is_algorithm, start);
    }
}
