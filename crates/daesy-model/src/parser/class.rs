//! Files and classes, appendix A.2.1 and A.2.2.

use std::sync::Arc;

use daesy_graph::Finding;

use super::modification::Comment;
use super::recovery::{CLASS_WORDS, PREFIX_WORDS, SECTION_WORDS, begins_class, is_block_keyword};
use super::{OpenClass, Parse, Parser};
use crate::lexer::TokenKind;
use crate::name::Name;
use crate::syntax::{
    AlgorithmSection, Causality, ClassBody, ClassDef, ClassKind, Composition, EnumerationLiteral, EquationSection,
    External, Ident, Modification, Path, Purity, StoredDefinition,
};

/// What stands in front of a class's name.
struct ClassHead {
    is_encapsulated: bool,
    is_partial: bool,
    purity: Option<Purity>,
    kind: ClassKind,
}

/// What stands after a class's name.
struct ClassTail {
    name: Ident,
    body: ClassBody,
    comment: Comment,
}

impl Parser<'_> {
    /// `[within [name];] {[final] class;}`
    pub(super) fn stored_definition(&mut self) -> StoredDefinition {
        let mut definition = StoredDefinition { within: None, classes: Vec::new() };
        while self.kind() != TokenKind::Eof {
            let from = self.at;
            if self.top_level_clause(&mut definition).is_err() {
                self.skip_statement(from);
            }
            if self.at == from {
                self.bump();
            }
        }
        definition
    }

    fn top_level_clause(&mut self, definition: &mut StoredDefinition) -> Parse<()> {
        let from = self.at;
        self.misspelt_keyword(CLASS_WORDS);
        match self.kind() {
            TokenKind::Within => {
                if definition.within.is_some() || !definition.classes.is_empty() {
                    let message = "`within` can only stand once, at the beginning of the file";
                    self.report(Finding::error("misplaced-within", self.span(), message));
                }
                self.bump();
                let within = if self.kind() == TokenKind::Semicolon {
                    let span = self.span_of(self.previous());
                    Path { is_global: false, parts: Vec::new(), span }
                } else {
                    self.path("the name of the enclosing package")?
                };
                definition.within.get_or_insert(within);
                self.semicolon("`within`", from);
            }
            TokenKind::Semicolon => self.stray_semicolon(),
            TokenKind::Final if begins_class(self.peek(1)) => {
                self.bump();
                definition.classes.push(self.class_definition(true)?);
                self.semicolon("the class", from);
            }
            kind if begins_class(kind) => {
                definition.classes.push(self.class_definition(false)?);
                self.semicolon("the class", from);
            }
            TokenKind::End => {
                let finding = Finding::error("stray-end", self.span(), "this `end` closes nothing: no class is open");
                let fail = self.report(finding.with_help("a class before it may be closed too early"));
                self.bump();
                return Err(fail);
            }
            _ => {
                let message = format!("expected a class such as `model`, found {}", self.describe());
                let help = "a file consists of classes: `model Name .. end Name;`";
                return Err(self.report(Finding::error("unexpected-token", self.span(), message).with_help(help)));
            }
        }
        Ok(())
    }

    pub(super) fn stray_semicolon(&mut self) {
        let finding = Finding::warning("stray-semicolon", self.span(), "there is nothing before this `;`");
        self.push(finding.with_help("remove it"));
        self.bump();
    }

    /// `[encapsulated] [partial] kind ..`
    pub(super) fn class_definition(&mut self, is_final: bool) -> Parse<Arc<ClassDef>> {
        self.nested(|parser| {
            let start = parser.start();
            let head = parser.class_head()?;
            let mut annotation = None;
            let ClassTail { name, body, comment } = parser.class_tail(start, &mut annotation)?;
            let annotation = joined(annotation, comment.annotation);
            Ok(Arc::new(ClassDef {
                name,
                kind: head.kind,
                is_partial: head.is_partial,
                is_encapsulated: head.is_encapsulated,
                is_final,
                purity: head.purity,
                description: comment.description,
                body,
                annotation,
                span: parser.span_from(start),
            }))
        })
    }

    fn class_head(&mut self) -> Parse<ClassHead> {
        let mut head = ClassHead { is_encapsulated: false, is_partial: false, purity: None, kind: ClassKind::Class };
        loop {
            match self.kind() {
                TokenKind::Encapsulated => {
                    if head.is_partial {
                        self.prefix_order("encapsulated partial model");
                    }
                    head.is_encapsulated = true;
                }
                TokenKind::Partial => head.is_partial = true,
                _ => break,
            }
            self.bump();
        }
        head.purity = match self.kind() {
            TokenKind::Pure => Some(Purity::Pure),
            TokenKind::Impure => Some(Purity::Impure),
            _ => None,
        };
        if head.purity.is_some() {
            self.bump();
            if !matches!(self.kind(), TokenKind::Function | TokenKind::Operator) {
                return Err(self.expected(TokenKind::Function, "after `pure` or `impure`"));
            }
        }
        let kind = match (self.kind(), self.peek(1)) {
            (TokenKind::Class, _) => ClassKind::Class,
            (TokenKind::Model, _) => ClassKind::Model,
            (TokenKind::Block, _) => ClassKind::Block,
            (TokenKind::Connector, _) => ClassKind::Connector,
            (TokenKind::Record, _) => ClassKind::Record,
            (TokenKind::Type, _) => ClassKind::Type,
            (TokenKind::Package, _) => ClassKind::Package,
            (TokenKind::Function, _) => ClassKind::Function,
            (TokenKind::Operator, TokenKind::Function) => {
                self.bump();
                ClassKind::OperatorFunction
            }
            (TokenKind::Operator, TokenKind::Record) => {
                self.bump();
                ClassKind::OperatorRecord
            }
            (TokenKind::Operator, _) => ClassKind::Operator,
            (TokenKind::Expandable, TokenKind::Connector) => {
                self.bump();
                ClassKind::ExpandableConnector
            }
            (TokenKind::Expandable, _) => {
                self.bump();
                return Err(self.expected(TokenKind::Connector, "after `expandable`"));
            }
            _ => {
                let message = format!("expected the kind of class, such as `model`, found {}", self.describe());
                return Err(self.report(Finding::error("unexpected-token", self.span(), message)));
            }
        };
        self.bump();
        Ok(ClassHead { kind, ..head })
    }

    fn class_tail(&mut self, start: u32, annotation: &mut Option<Box<Modification>>) -> Parse<ClassTail> {
        if self.eat(TokenKind::Extends) {
            let name = self.class_name()?;
            let extends = match self.optional_class_modification()? {
                Some(modification) => modification,
                None => Box::new(Modification { span: Some(name.span), ..Modification::default() }),
            };
            return Ok(self.long_class(name, Some(extends), annotation));
        }
        let name = self.class_name()?;
        if self.kind() != TokenKind::Equals {
            return Ok(self.long_class(name, None, annotation));
        }
        self.bump();
        let body = match self.kind() {
            TokenKind::Enumeration => self.enumeration()?,
            TokenKind::Der => self.derivative_class()?,
            _ => self.short_class(start)?,
        };
        let comment = self.comment()?;
        Ok(ClassTail { name, body, comment })
    }

    /// The name after `model`; a keyword in its place is reported and taken, so that the class is read on.
    fn class_name(&mut self) -> Parse<Ident> {
        let can_go_on = self.kind().is_keyword()
            && matches!(self.peek(1), TokenKind::Ident | TokenKind::String | TokenKind::Equals)
            && !self.is_on_new_line();
        if can_go_on {
            self.keyword_as_name("the name of the class");
            return Ok(self.take_ident());
        }
        self.ident("the name of the class")
    }

    fn long_class(
        &mut self,
        name: Ident,
        extends: Option<Box<Modification>>,
        annotation: &mut Option<Box<Modification>>,
    ) -> ClassTail {
        let description = self.description_string();
        self.open_classes.push(OpenClass { name });
        let outer_blocks = std::mem::take(&mut self.open_blocks);
        let composition = self.composition(annotation);
        self.open_blocks = outer_blocks;
        self.open_classes.pop();
        self.class_end(name);
        let comment = Comment { description, annotation: None };
        ClassTail { name, body: ClassBody::Long { extends, composition }, comment }
    }

    /// `end Name`
    fn class_end(&mut self, name: Ident) {
        if self.kind() != TokenKind::End {
            let message = format!("the text ends before `end {}`", name.name);
            let finding = Finding::error("unclosed-class", self.span(), message)
                .with_label(name.span, format!("`{}` was opened here", name.name))
                .with_help(format!("add `end {};`", name.name));
            self.report(finding);
            return;
        }
        match self.peek(1) {
            TokenKind::Ident | TokenKind::QuotedIdent => {
                let token = self.tokens[self.at + 1];
                let text = token.text(self.source);
                let span = self.span().to(self.span_of(token));
                if text == name.name.text() {
                    self.bump();
                    self.bump();
                    return;
                }
                let other = Name::new(text);
                let opened_here = format!("`{}` was opened here", name.name);
                if let Some(outer) = self.open_classes.iter().rev().find(|open| open.name.name == other) {
                    let message = format!("`{}` is not closed before `end {text}`", name.name);
                    let finding = Finding::error("unclosed-class", span, message)
                        .with_label(name.span, opened_here)
                        .with_label(outer.name.span, format!("`{text}` was opened here"))
                        .with_help(format!("add `end {};` before", name.name));
                    self.report(finding);
                } else {
                    let message = format!("`end {text}` closes `{}`", name.name);
                    let finding = Finding::error("end-mismatch", span, message)
                        .with_label(name.span, opened_here)
                        .with_help(format!("write `end {};`", name.name));
                    self.report(finding);
                    self.bump();
                    self.bump();
                }
            }
            other => {
                let message = format!("expected `end {}`", name.name);
                let finding = Finding::error("end-mismatch", self.span(), message)
                    .with_label(name.span, format!("`{}` was opened here", name.name))
                    .with_help(format!("write `end {};`", name.name));
                self.report(finding);
                self.bump();
                if other.is_keyword() && self.peek(1) == TokenKind::Semicolon {
                    self.bump();
                }
            }
        }
    }

    /// `= [input|output] B[..](..)`
    fn short_class(&mut self, start: u32) -> Parse<ClassBody> {
        let causality = match self.kind() {
            TokenKind::Input => Some(Causality::Input),
            TokenKind::Output => Some(Causality::Output),
            TokenKind::Flow | TokenKind::Stream | TokenKind::Discrete | TokenKind::Parameter | TokenKind::Constant => {
                let message = format!("a short class cannot have the prefix `{}`", self.text());
                let finding = Finding::error("short-class-prefix", self.span(), message)
                    .with_label(self.span_from(start), "only `input` or `output` can stand after `=` here")
                    .with_help("put the prefix where the class is used");
                self.report(finding);
                self.bump();
                None
            }
            _ => None,
        };
        if causality.is_some() {
            self.bump();
        }
        let base = self.path("the name of a class")?;
        let subscripts = if self.kind() == TokenKind::LBracket { self.subscripts()? } else { Vec::new() };
        let modification = self.optional_class_modification()?;
        Ok(ClassBody::Short { causality, base, subscripts, modification })
    }

    /// `enumeration(a, b)` or `enumeration(:)`
    fn enumeration(&mut self) -> Parse<ClassBody> {
        self.bump();
        let open = self.token();
        self.expect(TokenKind::LParen, "after `enumeration`")?;
        if self.eat(TokenKind::Colon) {
            self.close(TokenKind::RParen, open)?;
            return Ok(ClassBody::Enumeration(None));
        }
        let mut literals = Vec::new();
        if self.kind() != TokenKind::RParen {
            loop {
                let name = self.ident("the name of an enumeration literal")?;
                let Comment { description, annotation } = self.comment()?;
                literals.push(EnumerationLiteral { name, description, annotation });
                if !self.eat(TokenKind::Comma) {
                    break;
                }
            }
        }
        self.close(TokenKind::RParen, open)?;
        Ok(ClassBody::Enumeration(Some(literals)))
    }

    /// `der(f, x, y)`
    fn derivative_class(&mut self) -> Parse<ClassBody> {
        self.bump();
        let open = self.token();
        self.expect(TokenKind::LParen, "after `der`")?;
        let function = self.path("the name of a function")?;
        let mut with_respect_to = Vec::new();
        while self.eat(TokenKind::Comma) {
            with_respect_to.push(self.ident("the name of an input")?);
        }
        if with_respect_to.is_empty() {
            return Err(self.expected(TokenKind::Comma, "and the inputs to differentiate by"));
        }
        self.close(TokenKind::RParen, open)?;
        Ok(ClassBody::Derivative { function, with_respect_to })
    }

    /// Elements and sections up to `end`.
    fn composition(&mut self, annotation: &mut Option<Box<Modification>>) -> Composition {
        let mut composition = Composition::default();
        let mut is_protected = false;
        // The section that an annotation in its midst interrupts, as Modelica 2 allowed.
        let mut section = None;
        loop {
            let from = self.at;
            if self.is_at_stray_section() {
                self.misspelt_keyword(SECTION_WORDS);
            } else if self.is_at_stray_prefix() {
                self.misspelt_keyword(PREFIX_WORDS);
            }
            let result = match self.kind() {
                TokenKind::Eof => break,
                TokenKind::End if is_block_keyword(self.peek(1)) => {
                    self.stray_block_end();
                    Ok(())
                }
                TokenKind::End => break,
                TokenKind::Public | TokenKind::Protected => {
                    is_protected = self.kind() == TokenKind::Protected;
                    section = None;
                    self.bump();
                    Ok(())
                }
                kind @ (TokenKind::Equation | TokenKind::Algorithm) => {
                    section = Some((false, kind == TokenKind::Algorithm));
                    self.section(&mut composition, false);
                    Ok(())
                }
                TokenKind::Initial if matches!(self.peek(1), TokenKind::Equation | TokenKind::Algorithm) => {
                    self.bump();
                    section = Some((true, self.kind() == TokenKind::Algorithm));
                    self.section(&mut composition, true);
                    Ok(())
                }
                TokenKind::Parameter if self.peek(1) == TokenKind::Equation => {
                    self.parameter_equation(&mut composition)
                }
                TokenKind::External => self.external(&mut composition),
                TokenKind::Annotation => self.annotation().map(|more| {
                    *annotation = joined(annotation.take(), more);
                    self.semicolon("the annotation", from);
                    if let Some((is_initial, is_algorithm)) = section
                        && !self.is_at_body_end()
                    {
                        let message = "an annotation of the class within a section is an old spelling";
                        let help = "put it at the end of the class";
                        self.push(Finding::warning("old-spelling", self.span(), message).with_help(help));
                        let start = self.start();
                        self.section_body(&mut composition, is_initial, is_algorithm, start);
                    }
                }),
                TokenKind::Semicolon => {
                    self.stray_semicolon();
                    Ok(())
                }
                _ => self.element(&mut composition, is_protected),
            };
            if result.is_err() {
                self.skip_statement(from);
            }
            if self.at == from {
                self.bump();
            }
        }
        composition
    }

    /// `equation ..` or `algorithm ..`, at that keyword.
    fn section(&mut self, composition: &mut Composition, is_initial: bool) {
        let start = self.start();
        let is_algorithm = self.kind() == TokenKind::Algorithm;
        self.bump();
        self.section_body(composition, is_initial, is_algorithm, start);
    }

    /// Equations or statements up to the next section.
    pub(super) fn section_body(
        &mut self,
        composition: &mut Composition,
        is_initial: bool,
        is_algorithm: bool,
        start: u32,
    ) {
        if is_algorithm {
            let statements = self.statements();
            let span = self.span_from(start);
            composition.algorithms.push(AlgorithmSection { is_initial, statements, span });
        } else {
            let equations = self.equations();
            composition.equations.push(EquationSection { is_initial, equations });
        }
    }

    /// Base Modelica's `parameter equation guess(x) = e;`, kept as an initial equation.
    fn parameter_equation(&mut self, composition: &mut Composition) -> Parse<()> {
        let from = self.at;
        self.bump();
        self.bump();
        let equation = self.equation()?;
        self.semicolon("the equation", from);
        composition.equations.push(EquationSection { is_initial: true, equations: vec![equation] });
        Ok(())
    }

    /// `external ["C"] [[y =] f(x)] [annotation(..)];`
    fn external(&mut self, composition: &mut Composition) -> Parse<()> {
        let from = self.at;
        let start = self.start();
        if composition.external.is_some() {
            let message = "a function has only one `external` clause";
            self.report(Finding::error("second-external", self.span(), message));
        }
        self.bump();
        let language = (self.kind() == TokenKind::String).then(|| self.string_literal());
        let mut external = External {
            language,
            result: None,
            function: None,
            args: Vec::new(),
            annotation: None,
            span: self.span_from(start),
        };
        if matches!(self.kind(), TokenKind::Ident | TokenKind::QuotedIdent | TokenKind::Dot) {
            if self.peek(1) != TokenKind::LParen {
                external.result = Some(self.component_ref("the result of the external function")?);
                self.expect(TokenKind::Equals, "and the external function")?;
            }
            external.function = Some(self.ident("the name of the external function")?);
            let open = self.token();
            self.expect(TokenKind::LParen, "after the external function")?;
            if self.kind() != TokenKind::RParen {
                loop {
                    external.args.push(self.expression()?);
                    if !self.eat(TokenKind::Comma) {
                        break;
                    }
                }
            }
            self.close(TokenKind::RParen, open)?;
        }
        external.annotation = self.annotation()?;
        external.span = self.span_from(start);
        self.semicolon("the external clause", from);
        composition.external.get_or_insert_with(|| Box::new(external));
        Ok(())
    }

    /// `end if` and the like without a beginning.
    pub(super) fn stray_block_end(&mut self) {
        let from = self.at;
        let keyword = self.tokens[self.at + 1];
        let text = keyword.text(self.source);
        let span = self.span().to(self.span_of(keyword));
        let mut finding =
            Finding::error("stray-end", span, format!("`end {text}` closes nothing: no `{text}` is open"));
        if let Some(open) = self.open_classes.last() {
            finding = finding.with_help(format!("remove it; the class is closed by `end {};`", open.name.name));
        }
        self.report(finding);
        self.bump();
        self.bump();
        self.semicolon("the block", from);
    }
}

/// Two annotations of one class as one.
fn joined(first: Option<Box<Modification>>, second: Option<Box<Modification>>) -> Option<Box<Modification>> {
    match (first, second) {
        (Some(mut first), Some(second)) => {
            first.args.extend(second.args);
            Some(first)
        }
        (first, second) => first.or(second),
    }
}
