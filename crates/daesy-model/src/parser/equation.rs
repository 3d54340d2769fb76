//! Equations, appendix A.2.6.

use daesy_graph::Finding;

use super::modification::Comment;
use super::recovery::{begins_declaration, is_block_keyword};
use super::{Parse, Parser};
use crate::lexer::{Token, TokenKind};
use crate::syntax::{BinaryOp, ComponentRef, Composition, Equation, EquationBranch, EquationKind, Expr, ExprKind};

impl Parser<'_> {
    /// At a token that ends a list of equations or statements.
    pub(super) fn is_at_body_end(&self) -> bool {
        match self.kind() {
            TokenKind::End | TokenKind::Else | TokenKind::Elseif | TokenKind::Elsewhen | TokenKind::Annotation => true,
            _ => self.is_at_section(),
        }
    }

    /// Goes over `end if` or `else` at the level of a section, where no block is open; false when there is no such
    /// thing.
    pub(super) fn skips_stray_branch(&mut self) -> bool {
        if !self.open_blocks.is_empty() {
            return false;
        }
        match self.kind() {
            TokenKind::End if is_block_keyword(self.peek(1)) => self.stray_block_end(),
            kind @ (TokenKind::Else | TokenKind::Elseif | TokenKind::Elsewhen) => {
                let block = if kind == TokenKind::Elsewhen { "when" } else { "if" };
                let message = format!("`{}` belongs to nothing: no `{block}` is open", self.text());
                self.report(Finding::error("stray-branch", self.span(), message));
                self.bump();
                if kind != TokenKind::Else {
                    self.skip_to(TokenKind::Then);
                    self.eat(TokenKind::Then);
                }
            }
            _ => return false,
        }
        true
    }

    /// Goes over declarations, which cannot stand among equations or statements, and says so.
    pub(super) fn misplaced_declarations(&mut self, section: &str) {
        let message = format!("a declaration cannot stand in an {section} section");
        let help = format!("move it above `{section}`, or write `public` or `protected` before it");
        self.report(Finding::error("misplaced-declaration", self.span(), message).with_help(help));
        while begins_declaration(self.kind()) {
            let from = self.at;
            if self.element(&mut Composition::default(), false).is_err() {
                self.skip_statement(from);
            }
            if self.at == from {
                self.bump();
            }
        }
    }

    /// Equations with their `;`, up to the end of the block or section.
    pub(super) fn equations(&mut self) -> Vec<Equation> {
        let mut equations = Vec::new();
        loop {
            let from = self.at;
            if self.is_at_body_end() {
                if self.skips_stray_branch() {
                    continue;
                }
                return equations;
            }
            if self.kind() == TokenKind::Semicolon {
                self.stray_semicolon();
                continue;
            }
            if begins_declaration(self.kind()) {
                self.misplaced_declarations("equation");
                continue;
            }
            match self.equation() {
                Ok(equation) => {
                    equations.push(equation);
                    self.semicolon("the equation", from);
                }
                Err(_) => self.skip_statement(from),
            }
            if self.at == from {
                self.bump();
            }
        }
    }

    pub(super) fn equation(&mut self) -> Parse<Equation> {
        let start = self.start();
        let kind = match self.kind() {
            TokenKind::If => self.nested(Self::if_equation)?,
            TokenKind::For => self.nested(Self::for_equation)?,
            TokenKind::When => self.nested(Self::when_equation)?,
            TokenKind::Connect => {
                let (left, right) = self.connection()?;
                EquationKind::Connect(left, right)
            }
            TokenKind::While | TokenKind::Return | TokenKind::Break => {
                let message = format!("`{}` is a statement; it cannot stand among equations", self.text());
                let finding = Finding::error("statement-in-equations", self.span(), message);
                return Err(self.report(finding.with_help("use an `algorithm` section")));
            }
            _ => self.simple_equation()?,
        };
        let Comment { description, annotation } = self.comment()?;
        Ok(Equation { kind, description, annotation, span: self.span_from(start) })
    }

    fn simple_equation(&mut self) -> Parse<EquationKind> {
        let left = self.simple_expression()?;
        match self.kind() {
            TokenKind::Equals => {
                self.bump();
                let right = self.expression()?;
                if matches!(self.kind(), TokenKind::Equals) {
                    let message = "an equation has only one `=`";
                    return Err(self.report(
                        Finding::error("second-equals", self.span(), message)
                            .with_help("write two equations, or compare with `==`"),
                    ));
                }
                Ok(EquationKind::Equality(left, right))
            }
            TokenKind::ColonEquals => {
                let message = "`:=` assigns; it cannot stand in an equation";
                let help = "write `=`, or use an `algorithm` section";
                self.report(Finding::error("assignment-in-equation", self.span(), message).with_help(help));
                self.bump();
                let right = self.expression()?;
                Ok(EquationKind::Equality(left, right))
            }
            _ => self.equation_without_equals(left),
        }
    }

    fn equation_without_equals(&mut self, left: Expr) -> Parse<EquationKind> {
        let span = left.span;
        match left.kind {
            ExprKind::Call { .. } => Ok(EquationKind::Call(left)),
            ExprKind::Binary(BinaryOp::Equal, left, right) if !self.is_on_same_line_name() => {
                let message = "`==` compares; it makes no equation";
                self.push(Finding::error("comparison-as-equation", span, message).with_help("write `=`"));
                Ok(EquationKind::Equality(*left, *right))
            }
            ExprKind::Ref(reference) if self.is_on_same_line_name() || reference.parts.is_empty() => {
                let message = "this looks like a declaration; it cannot stand in an equation section";
                let help = "move it above `equation`, or write `public` or `protected` before it";
                Err(self.report(Finding::error("misplaced-declaration", span, message).with_help(help)))
            }
            ExprKind::Ref(reference) if matches!(reference.parts.as_slice(), [only] if matches!(only.name.name.text(), "endif" | "endfor" | "endwhen")) =>
            {
                let message = format!("`{}` is written as two words", reference.parts[0].name.name);
                Err(self
                    .report(Finding::error("unexpected-token", span, message).with_help("write `end if` and the like")))
            }
            _ => {
                let message = format!("expected `=` in this equation, found {}", self.describe());
                let finding = Finding::error("missing-equals", self.span(), message)
                    .with_label(span, "this is an expression, not yet an equation");
                Err(self.report(finding))
            }
        }
    }

    /// At a name on the line of what was read last.
    fn is_on_same_line_name(&self) -> bool {
        matches!(self.kind(), TokenKind::Ident | TokenKind::QuotedIdent) && !self.is_on_new_line()
    }

    /// `connect(a, b)`
    pub(super) fn connection(&mut self) -> Parse<(ComponentRef, ComponentRef)> {
        self.bump();
        let open = self.token();
        self.expect(TokenKind::LParen, "after `connect`")?;
        let left = self.component_ref("a connector")?;
        self.expect(TokenKind::Comma, "between the connectors")?;
        let right = self.component_ref("a connector")?;
        self.close(TokenKind::RParen, open)?;
        Ok((left, right))
    }

    /// A condition with its keyword; a condition that cannot be read does not spoil the block.
    pub(super) fn block_condition(&mut self, opening: Token, keyword: TokenKind) -> Expr {
        let start = self.start();
        match self.condition(opening, keyword) {
            Ok(condition) => condition,
            Err(_) => {
                self.skip_to(keyword);
                self.eat(keyword);
                Expr { kind: ExprKind::Error, span: self.span_from(start) }
            }
        }
    }

    /// The iterators of a `for` with its `loop`.
    pub(super) fn block_iterators(&mut self, opening: Token) -> Vec<crate::syntax::Iterator> {
        match self.iterators() {
            Ok(iterators) => {
                self.block_keyword(opening, TokenKind::Loop);
                iterators
            }
            Err(_) => {
                self.skip_to(TokenKind::Loop);
                self.eat(TokenKind::Loop);
                Vec::new()
            }
        }
    }

    fn block_equations(&mut self, keyword: TokenKind) -> Vec<Equation> {
        self.open_blocks.push(keyword);
        let equations = self.equations();
        self.open_blocks.pop();
        equations
    }

    fn if_equation(&mut self) -> Parse<EquationKind> {
        let opening = self.token();
        let mut branches = Vec::with_capacity(1);
        let mut otherwise = None;
        loop {
            let keyword = self.token();
            self.bump();
            let condition = self.block_condition(keyword, TokenKind::Then);
            let body = self.block_equations(TokenKind::If);
            branches.push(EquationBranch { condition, body });
            if self.kind() != TokenKind::Elseif {
                break;
            }
        }
        let has_else_if = self.is_at_else_if();
        if self.eat(TokenKind::Else) {
            otherwise = Some(self.block_equations(TokenKind::If));
        }
        self.block_end(opening, has_else_if);
        Ok(EquationKind::If { branches, otherwise })
    }

    fn for_equation(&mut self) -> Parse<EquationKind> {
        let opening = self.token();
        self.bump();
        let iterators = self.block_iterators(opening);
        let body = self.block_equations(TokenKind::For);
        self.block_end(opening, false);
        Ok(EquationKind::For { iterators, body })
    }

    fn when_equation(&mut self) -> Parse<EquationKind> {
        let opening = self.token();
        let mut branches = Vec::with_capacity(1);
        loop {
            let keyword = self.token();
            self.bump();
            let condition = self.block_condition(keyword, TokenKind::Then);
            let body = self.block_equations(TokenKind::When);
            branches.push(EquationBranch { condition, body });
            if self.kind() != TokenKind::Elsewhen {
                break;
            }
        }
        self.block_end(opening, false);
        Ok(EquationKind::When(branches))
    }

    /// At `else if` on one line, which opens a second block.
    pub(super) fn is_at_else_if(&self) -> bool {
        self.kind() == TokenKind::Else && self.peek(1) == TokenKind::If && {
            let gap = self.token().end as usize..self.tokens[self.at + 1].start as usize;
            self.source.as_bytes().get(gap).is_some_and(|gap| !gap.contains(&b'\n'))
        }
    }

    /// `end if`, `end for`, `end when`, `end while`; `opening` is the keyword that is closed.
    pub(super) fn block_end(&mut self, opening: Token, has_else_if: bool) {
        let keyword = opening.kind;
        if self.kind() == TokenKind::End && self.peek(1) == keyword {
            self.bump();
            self.bump();
            return;
        }
        let text = opening.text(self.source);
        let finding = |message: String| {
            let finding = Finding::error("unclosed-block", self.span(), message)
                .with_label(self.span_of(opening), format!("this `{text}` is not closed"));
            if has_else_if {
                finding.with_help("`else if` opens a second `if` with an `end if` of its own; write `elseif`")
            } else {
                finding.with_help(format!("add `end {text};`"))
            }
        };
        let closes_other_block = self.kind() == TokenKind::End && is_block_keyword(self.peek(1));
        if closes_other_block && !self.open_blocks.contains(&self.peek(1)) {
            let other = self.peek(1).text().unwrap_or("?");
            let finding = Finding::error("end-mismatch", self.span(), format!("`end {other}` closes a `{text}`"))
                .with_label(self.span_of(opening), format!("`{text}` was opened here"))
                .with_help(format!("write `end {text};`"));
            self.report(finding);
            self.bump();
            self.bump();
            return;
        }
        let is_odd_branch = matches!(self.kind(), TokenKind::Else | TokenKind::Elseif | TokenKind::Elsewhen);
        let message = if is_odd_branch {
            format!("{} cannot stand in this `{text}`", self.describe())
        } else {
            format!("expected `end {text}`, found {}", self.describe())
        };
        let finding = finding(message);
        self.report(finding);
        if is_odd_branch {
            self.skip_branches(keyword);
        }
    }

    /// Goes over branches that the block cannot have, up to and with its `end`.
    fn skip_branches(&mut self, keyword: TokenKind) {
        while matches!(self.kind(), TokenKind::Else | TokenKind::Elseif | TokenKind::Elsewhen) {
            let has_condition = self.kind() != TokenKind::Else;
            let opening = self.token();
            self.bump();
            if has_condition {
                self.block_condition(opening, TokenKind::Then);
            }
            while !self.is_at_body_end() {
                let from = self.at;
                self.skip_statement(from);
                if self.at == from {
                    self.bump();
                }
            }
        }
        if self.kind() == TokenKind::End && self.peek(1) == keyword {
            self.bump();
            self.bump();
        }
    }
}
