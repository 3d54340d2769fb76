//! Statements of algorithm sections, appendix A.2.6.

use daesy_graph::Finding;

use super::modification::Comment;
use super::recovery::begins_declaration;
use super::{Parse, Parser};
use crate::lexer::TokenKind;
use crate::syntax::{ComponentRef, Expr, ExprKind, RefPart, Statement, StatementBranch, StatementKind};

impl Parser<'_> {
    /// Statements with their `;`, up to the end of the block or section.
    pub(super) fn statements(&mut self) -> Vec<Statement> {
        let mut statements = Vec::new();
        loop {
            let from = self.at;
            if self.is_at_body_end() {
                if self.skips_stray_branch() {
                    continue;
                }
                return statements;
            }
            if self.kind() == TokenKind::Semicolon {
                self.stray_semicolon();
                continue;
            }
            if begins_declaration(self.kind()) {
                self.misplaced_declarations("algorithm");
                continue;
            }
            match self.statement() {
                Ok(statement) => {
                    statements.push(statement);
                    self.semicolon("the statement", from);
                }
                Err(_) => self.skip_statement(from),
            }
            if self.at == from {
                self.bump();
            }
        }
    }

    fn statement(&mut self) -> Parse<Statement> {
        let start = self.start();
        let kind = match self.kind() {
            TokenKind::If => self.nested(Self::if_statement)?,
            TokenKind::For => self.nested(Self::for_statement)?,
            TokenKind::While => self.nested(Self::while_statement)?,
            TokenKind::When => self.nested(Self::when_statement)?,
            TokenKind::Break => {
                self.bump();
                StatementKind::Break
            }
            TokenKind::Return => {
                self.bump();
                StatementKind::Return
            }
            TokenKind::LParen => self.tuple_assignment()?,
            TokenKind::Connect => {
                let message = "`connect` is an equation; it cannot stand in an algorithm";
                let finding = Finding::error("equation-in-algorithm", self.span(), message);
                return Err(self.report(finding.with_help("use an `equation` section")));
            }
            _ => self.assignment_or_call()?,
        };
        let Comment { description, annotation } = self.comment()?;
        Ok(Statement { kind, description, annotation, span: self.span_from(start) })
    }

    /// `x := e` or `f(..)`
    fn assignment_or_call(&mut self) -> Parse<StatementKind> {
        let is_keyword_call = matches!(self.kind(), TokenKind::Der | TokenKind::Initial | TokenKind::Pure)
            && self.peek(1) == TokenKind::LParen;
        let target = if is_keyword_call {
            let name = self.take_ident();
            ComponentRef { is_global: false, parts: vec![RefPart { name, subscripts: Vec::new() }], span: name.span }
        } else {
            self.component_ref("a statement")?
        };
        match self.kind() {
            TokenKind::LParen => {
                let call = self.call(target)?;
                if matches!(self.kind(), TokenKind::ColonEquals | TokenKind::Equals) {
                    let message = "only variables can be assigned";
                    let finding = Finding::error("assignment-target", call.span, message);
                    return Err(self.report(finding.with_help("use an `equation` section")));
                }
                Ok(StatementKind::Call(call))
            }
            TokenKind::ColonEquals => {
                self.bump();
                let value = self.expression()?;
                Ok(StatementKind::Assign { target, value })
            }
            kind @ (TokenKind::Equals | TokenKind::EqualsEquals) => {
                let text = kind.text().unwrap_or("=");
                let message = format!("`{text}` assigns nothing; an algorithm assigns with `:=`");
                self.report(Finding::error("equality-in-algorithm", self.span(), message).with_help("write `:=`"));
                self.bump();
                let value = self.expression()?;
                Ok(StatementKind::Assign { target, value })
            }
            TokenKind::Ident | TokenKind::QuotedIdent if !self.is_on_new_line() => {
                let message = "this looks like a declaration; it cannot stand in an algorithm section";
                let help = "move it above `algorithm`, or write `public` or `protected` before it";
                Err(self.report(Finding::error("misplaced-declaration", target.span, message).with_help(help)))
            }
            _ => {
                let message = format!("expected `:=` or the arguments of a call, found {}", self.describe());
                let finding = Finding::error("missing-assignment", self.span(), message)
                    .with_label(target.span, "this is not yet a statement");
                Err(self.report(finding))
            }
        }
    }

    /// `(a, , b) := f(x)`
    fn tuple_assignment(&mut self) -> Parse<StatementKind> {
        let items = self.output_list()?;
        let mut targets = Vec::with_capacity(items.len());
        for item in items {
            targets.push(match item {
                None => None,
                Some(Expr { kind: ExprKind::Ref(reference), .. }) => Some(reference),
                Some(other) => {
                    let finding = Finding::error("assignment-target", other.span, "only variables can be assigned");
                    return Err(self.report(finding));
                }
            });
        }
        if self.kind() == TokenKind::Equals {
            let message = "`=` assigns nothing; an algorithm assigns with `:=`";
            self.report(Finding::error("equality-in-algorithm", self.span(), message).with_help("write `:=`"));
            self.bump();
        } else {
            self.expect(TokenKind::ColonEquals, "after the variables")?;
        }
        let call = self.expression()?;
        if !matches!(call.kind, ExprKind::Call { .. }) {
            let message = "several variables can only be assigned from a function call";
            self.push(Finding::error("assignment-value", call.span, message));
        }
        Ok(StatementKind::AssignTuple { targets, call })
    }

    fn block_statements(&mut self, keyword: TokenKind) -> Vec<Statement> {
        self.open_blocks.push(keyword);
        let statements = self.statements();
        self.open_blocks.pop();
        statements
    }

    fn if_statement(&mut self) -> Parse<StatementKind> {
        let opening = self.token();
        let mut branches = Vec::with_capacity(1);
        let mut otherwise = None;
        loop {
            branches.push(self.statement_branch(TokenKind::Then, TokenKind::If));
            if self.kind() != TokenKind::Elseif {
                break;
            }
        }
        let has_else_if = self.is_at_else_if();
        if self.eat(TokenKind::Else) {
            otherwise = Some(self.block_statements(TokenKind::If));
        }
        self.block_end(opening, has_else_if);
        Ok(StatementKind::If { branches, otherwise })
    }

    /// A keyword, a condition with `then` or `loop`, and statements.
    fn statement_branch(&mut self, keyword: TokenKind, block: TokenKind) -> StatementBranch {
        let opening = self.token();
        self.bump();
        let condition = self.block_condition(opening, keyword);
        let body = self.block_statements(block);
        StatementBranch { condition, body }
    }

    fn for_statement(&mut self) -> Parse<StatementKind> {
        let opening = self.token();
        self.bump();
        let iterators = self.block_iterators(opening);
        let body = self.block_statements(TokenKind::For);
        self.block_end(opening, false);
        Ok(StatementKind::For { iterators, body })
    }

    fn while_statement(&mut self) -> Parse<StatementKind> {
        let opening = self.token();
        let branch = self.statement_branch(TokenKind::Loop, TokenKind::While);
        self.block_end(opening, false);
        Ok(StatementKind::While(branch))
    }

    fn when_statement(&mut self) -> Parse<StatementKind> {
        let opening = self.token();
        let mut branches = Vec::with_capacity(1);
        loop {
            branches.push(self.statement_branch(TokenKind::Then, TokenKind::When));
            if self.kind() != TokenKind::Elsewhen {
                break;
            }
        }
        self.block_end(opening, false);
        Ok(StatementKind::When(branches))
    }
}
