//! Expressions, appendix A.2.7.
//!
//! Binary operators are read by precedence climbing; the levels, from loose to tight, are
//!
//! ```text
//! or < and < not < relations (no chain) < + - (also as signs) < * / < ^ (no chain)
//! ```
//!
//! so that `-a^2` is `-(a^2)`, `-a*b` is `-(a*b)` and `not a < b` is `not (a < b)`.

use daesy_graph::{Finding, Span};

use super::{Parse, Parser};
use crate::lexer::TokenKind;
use crate::syntax::{self, BinaryOp, ComponentRef, Expr, ExprBranch, ExprKind, NamedArg, RefPart, Subscript, UnaryOp};

/// Levels of precedence.
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const RELATION: u8 = 4;
const SUM: u8 = 5;
const PRODUCT: u8 = 6;
const POWER: u8 = 7;

/// A binary operator with its level; those of other languages are read as what they mean.
const fn binary_operator(kind: TokenKind) -> Option<(BinaryOp, u8)> {
    Some(match kind {
        TokenKind::Or | TokenKind::OrOr => (BinaryOp::Or, OR),
        TokenKind::And | TokenKind::AndAnd => (BinaryOp::And, AND),
        TokenKind::Less => (BinaryOp::Less, RELATION),
        TokenKind::LessEquals => (BinaryOp::LessEqual, RELATION),
        TokenKind::Greater => (BinaryOp::Greater, RELATION),
        TokenKind::GreaterEquals => (BinaryOp::GreaterEqual, RELATION),
        TokenKind::EqualsEquals => (BinaryOp::Equal, RELATION),
        TokenKind::NotEquals | TokenKind::BangEquals => (BinaryOp::NotEqual, RELATION),
        TokenKind::Plus => (BinaryOp::Add, SUM),
        TokenKind::Minus => (BinaryOp::Sub, SUM),
        TokenKind::DotPlus => (BinaryOp::ElementAdd, SUM),
        TokenKind::DotMinus => (BinaryOp::ElementSub, SUM),
        TokenKind::Star => (BinaryOp::Mul, PRODUCT),
        TokenKind::Slash => (BinaryOp::Div, PRODUCT),
        TokenKind::DotStar => (BinaryOp::ElementMul, PRODUCT),
        TokenKind::DotSlash => (BinaryOp::ElementDiv, PRODUCT),
        TokenKind::Caret => (BinaryOp::Pow, POWER),
        TokenKind::DotCaret => (BinaryOp::ElementPow, POWER),
        _ => return None,
    })
}

const fn sign(kind: TokenKind) -> Option<UnaryOp> {
    Some(match kind {
        TokenKind::Plus => UnaryOp::Plus,
        TokenKind::Minus => UnaryOp::Minus,
        TokenKind::DotPlus => UnaryOp::ElementPlus,
        TokenKind::DotMinus => UnaryOp::ElementMinus,
        _ => return None,
    })
}

impl Parser<'_> {
    /// Any expression.
    pub(super) fn expression(&mut self) -> Parse<Expr> {
        self.nested(|parser| {
            let before = std::mem::take(&mut parser.height);
            let result = if parser.kind() == TokenKind::If { parser.if_expression() } else { parser.range() };
            parser.height = before.max(parser.height + 1);
            result
        })
    }

    /// An expression that is not an `if`; equations begin with one.
    pub(super) fn simple_expression(&mut self) -> Parse<Expr> {
        self.nested(|parser| {
            parser.height = 0;
            parser.range()
        })
    }

    fn if_expression(&mut self) -> Parse<Expr> {
        let start = self.start();
        let mut branches = Vec::with_capacity(1);
        loop {
            let opening = self.token();
            self.bump();
            let condition = self.condition(opening, TokenKind::Then)?;
            let value = self.expression()?;
            branches.push(ExprBranch { condition, value });
            if self.kind() != TokenKind::Elseif {
                break;
            }
        }
        if !self.eat(TokenKind::Else) {
            let message = format!("an if-expression needs `else`, found {}", self.describe());
            let finding = Finding::error("missing-else", self.span(), message)
                .with_label(self.span_from(start), "this has no value when its conditions are false");
            return Err(self.report(finding));
        }
        let otherwise = Box::new(self.expression()?);
        Ok(Expr { kind: ExprKind::If { branches, otherwise }, span: self.span_from(start) })
    }

    /// A condition with its `then` or `loop`; `opening` is the keyword before it.
    pub(super) fn condition(&mut self, opening: crate::lexer::Token, keyword: TokenKind) -> Parse<Expr> {
        let mut condition = self.expression()?;
        if matches!(self.kind(), TokenKind::Equals | TokenKind::ColonEquals) {
            let message = format!("`{}` in a condition", self.text());
            self.report(Finding::error("equals-in-condition", self.span(), message).with_help("compare with `==`"));
            self.bump();
            condition = self.expression()?;
        }
        self.block_keyword(opening, keyword);
        Ok(condition)
    }

    /// Takes the `then` or `loop` after the head of a block, or says that it is missing and goes on.
    pub(super) fn block_keyword(&mut self, opening: crate::lexer::Token, keyword: TokenKind) {
        if self.eat(keyword) {
            return;
        }
        let opening_text = opening.text(self.source);
        let keyword_text = keyword.text().unwrap_or("?");
        let message = format!("expected `{keyword_text}` for this `{opening_text}`, found {}", self.describe());
        let finding = Finding::error("missing-keyword", self.span(), message)
            .with_label(self.span_of(opening), format!("`{opening_text}` is followed by `.. {keyword_text}`"));
        self.report(finding);
        if matches!(self.kind(), TokenKind::Then | TokenKind::Loop) {
            self.bump();
        }
    }

    /// `a`, `a : b` or `a : step : b`
    fn range(&mut self) -> Parse<Expr> {
        let first = self.binary(OR)?;
        if self.kind() != TokenKind::Colon {
            return Ok(first);
        }
        self.bump();
        let second = self.operand(OR)?;
        let (step, stop) =
            if self.eat(TokenKind::Colon) { (Some(Box::new(second)), self.operand(OR)?) } else { (None, second) };
        let span = first.span.to(stop.span);
        Ok(Expr { kind: ExprKind::Range { start: Box::new(first), step, stop: Box::new(stop) }, span })
    }

    /// An operand whose height is joined with what came before it.
    fn operand(&mut self, level: u8) -> Parse<Expr> {
        let before = std::mem::take(&mut self.height);
        let result = self.binary(level);
        self.height = before.max(self.height) + 1;
        if self.height > self.limits.height {
            return Err(self.give_up_on_height());
        }
        result
    }

    /// Operators of at least the given level.
    fn binary(&mut self, level: u8) -> Parse<Expr> {
        let mut left = match self.kind() {
            TokenKind::Not | TokenKind::Bang => self.negation(level)?,
            kind => match sign(kind) {
                Some(op) => self.signed(op, level)?,
                None => self.primary()?,
            },
        };
        let mut last_level = 0;
        while let Some((op, op_level)) = binary_operator(self.kind()) {
            if op_level < level {
                break;
            }
            if matches!(self.kind(), TokenKind::AndAnd | TokenKind::OrOr | TokenKind::BangEquals) {
                self.foreign_operator(op);
            }
            if op_level == last_level && matches!(op_level, RELATION | POWER) {
                self.chained_operator(op_level, left.span);
            }
            self.bump();
            let right = self.operand(op_level + 1)?;
            let span = left.span.to(right.span);
            left = Expr { kind: ExprKind::Binary(op, Box::new(left), Box::new(right)), span };
            last_level = op_level;
        }
        Ok(left)
    }

    fn negation(&mut self, level: u8) -> Parse<Expr> {
        let start = self.start();
        if self.kind() == TokenKind::Bang {
            let finding = Finding::error("foreign-operator", self.span(), "Modelica has no operator `!`");
            self.report(finding.with_help("write `not`"));
        } else if level > NOT {
            let finding =
                Finding::error("operator-order", self.span(), "`not` cannot stand after another operator here");
            self.report(finding.with_help("put parentheses around `not ..`"));
        }
        self.bump();
        let operand = self.nested(|parser| parser.operand(RELATION))?;
        Ok(Expr { kind: ExprKind::Unary(UnaryOp::Not, Box::new(operand)), span: self.span_from(start) })
    }

    fn signed(&mut self, op: UnaryOp, level: u8) -> Parse<Expr> {
        let start = self.start();
        if level > SUM {
            let message = format!("the sign `{}` cannot stand after another operator", self.text());
            let help = "put parentheses around the signed term: `a * (-b)`, `2 ^ (-1)`";
            self.report(Finding::error("operator-order", self.span(), message).with_help(help));
        }
        self.bump();
        let operand = self.nested(|parser| parser.operand(level.clamp(PRODUCT, POWER)))?;
        Ok(Expr { kind: ExprKind::Unary(op, Box::new(operand)), span: self.span_from(start) })
    }

    #[cold]
    fn foreign_operator(&mut self, op: BinaryOp) {
        let instead = match op {
            BinaryOp::And => "and",
            BinaryOp::Or => "or",
            _ => "<>",
        };
        let message = format!("Modelica has no operator `{}`", self.text());
        self.report(Finding::error("foreign-operator", self.span(), message).with_help(format!("write `{instead}`")));
    }

    #[cold]
    fn chained_operator(&mut self, level: u8, left: Span) {
        let finding = if level == RELATION {
            Finding::error("chained-relation", self.span(), "relations cannot be chained")
                .with_label(left, "this is already true or false")
                .with_help("write `a < b and b < c`")
        } else {
            Finding::error("chained-power", self.span(), "powers cannot be chained")
                .with_label(left, "this is already a power")
                .with_help("say which is meant: `(a ^ b) ^ c` or `a ^ (b ^ c)`")
        };
        self.report(finding);
    }

    fn primary(&mut self) -> Parse<Expr> {
        let expr = match self.kind() {
            TokenKind::Ident | TokenKind::QuotedIdent | TokenKind::Dot => {
                let reference = self.component_ref("an expression")?;
                if self.kind() != TokenKind::LParen {
                    let span = reference.span;
                    return Ok(Expr { kind: ExprKind::Ref(reference), span });
                }
                self.call(reference)?
            }
            TokenKind::Integer => return Ok(self.integer_literal()),
            TokenKind::Real => return Ok(self.real_literal()),
            TokenKind::String => {
                let span = self.span();
                return Ok(Expr { kind: ExprKind::String(self.string_literal()), span });
            }
            kind @ (TokenKind::True | TokenKind::False) => {
                let span = self.span();
                self.bump();
                return Ok(Expr { kind: ExprKind::Boolean(kind == TokenKind::True), span });
            }
            TokenKind::Der | TokenKind::Initial | TokenKind::Pure if self.peek(1) == TokenKind::LParen => {
                let name = self.take_ident();
                let function = ComponentRef {
                    is_global: false,
                    parts: vec![RefPart { name, subscripts: Vec::new() }],
                    span: name.span,
                };
                self.call(function)?
            }
            TokenKind::LParen => return self.parenthesized(),
            TokenKind::LBracket => self.matrix()?,
            TokenKind::LBrace => self.array()?,
            TokenKind::End if self.subscript_depth > 0 => {
                let span = self.span();
                self.bump();
                return Ok(Expr { kind: ExprKind::End, span });
            }
            TokenKind::If => {
                let message = "an if-expression cannot stand after an operator";
                let finding = Finding::error("operator-order", self.span(), message);
                self.report(finding.with_help("put parentheses around it: `1 + (if a then b else c)`"));
                return self.expression();
            }
            _ => return Err(self.expected_expression()),
        };
        if matches!(self.kind(), TokenKind::LBracket | TokenKind::Dot) {
            return Err(self.index_without_parentheses(expr.span));
        }
        Ok(expr)
    }

    #[cold]
    fn index_without_parentheses(&mut self, base: Span) -> super::Fail {
        let finding = if self.kind() == TokenKind::LBracket {
            Finding::error(
                "index-of-value",
                self.span(),
                "only a variable or an expression in parentheses can be indexed",
            )
            .with_help("put parentheses around it: `(f(x))[1]`")
        } else {
            Finding::error("member-of-value", self.span(), "a part can only be taken of a variable")
                .with_help("give the value to a variable first, then take the part of that")
        };
        self.report(finding.with_label(base, "this is a value, not a variable"))
    }

    /// `(e)`, `(e)[i]`, `(a, , b)` or `()`
    fn parenthesized(&mut self) -> Parse<Expr> {
        let open = self.token();
        let mut items = self.output_list()?;
        let span = self.span_from(open.start);
        let kind = match (items.len(), items.pop()) {
            (1, Some(Some(only))) => ExprKind::Parenthesized(Box::new(only)),
            (_, Some(last)) => {
                items.push(last);
                ExprKind::Tuple(items)
            }
            (_, None) => ExprKind::Tuple(items),
        };
        let expr = Expr { kind, span };
        if self.kind() != TokenKind::LBracket {
            return Ok(expr);
        }
        let subscripts = self.subscripts()?;
        let span = self.span_from(open.start);
        Ok(Expr { kind: ExprKind::Subscripted { base: Box::new(expr), subscripts }, span })
    }

    /// `( [e] {, [e]} )`; `None` for `()`.
    pub(super) fn output_list(&mut self) -> Parse<Vec<Option<Expr>>> {
        let open = self.token();
        self.bump();
        let mut items = Vec::new();
        if self.eat(TokenKind::RParen) {
            return Ok(items);
        }
        loop {
            let is_left_out = matches!(self.kind(), TokenKind::Comma | TokenKind::RParen);
            items.push(if is_left_out { None } else { Some(self.expression()?) });
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.close(TokenKind::RParen, open)?;
        Ok(items)
    }

    fn matrix(&mut self) -> Parse<Expr> {
        let open = self.token();
        self.bump();
        let mut rows = Vec::new();
        loop {
            let mut row = vec![self.expression()?];
            while self.eat(TokenKind::Comma) {
                row.push(self.expression()?);
            }
            rows.push(row);
            if !self.eat(TokenKind::Semicolon) {
                break;
            }
        }
        self.close(TokenKind::RBracket, open)?;
        Ok(Expr { kind: ExprKind::Matrix(rows), span: self.span_from(open.start) })
    }

    /// `{a, b}` or `{e for i in 1:3}`; `{}` is read too.
    fn array(&mut self) -> Parse<Expr> {
        let open = self.token();
        self.bump();
        let mut items = Vec::new();
        if self.kind() != TokenKind::RBrace {
            loop {
                items.push(self.expression()?);
                if items.len() == 1 && self.eat(TokenKind::For) {
                    let iterators = self.iterators()?;
                    self.close(TokenKind::RBrace, open)?;
                    let body = Box::new(items.remove(0));
                    let kind = ExprKind::Comprehension { function: None, body, iterators };
                    return Ok(Expr { kind, span: self.span_from(open.start) });
                }
                if !self.eat(TokenKind::Comma) {
                    break;
                }
            }
        }
        self.close(TokenKind::RBrace, open)?;
        Ok(Expr { kind: ExprKind::Array(items), span: self.span_from(open.start) })
    }

    /// `i in range, j in range, ..`
    pub(super) fn iterators(&mut self) -> Parse<Vec<syntax::Iterator>> {
        let mut iterators = Vec::with_capacity(1);
        loop {
            let name = self.ident("the name of an iterator")?;
            let range = match self.kind() {
                TokenKind::In => {
                    self.bump();
                    Some(self.expression()?)
                }
                TokenKind::Equals | TokenKind::ColonEquals => {
                    let finding = Finding::error("unexpected-token", self.span(), "a range is given with `in`");
                    self.report(finding.with_help("write `for i in 1:n`"));
                    self.bump();
                    Some(self.expression()?)
                }
                _ => None,
            };
            iterators.push(syntax::Iterator { name, range });
            if !self.eat(TokenKind::Comma) {
                return Ok(iterators);
            }
        }
    }

    /// The arguments after a function's name, which is already read.
    pub(super) fn call(&mut self, function: ComponentRef) -> Parse<Expr> {
        let start = function.span.start - self.offset;
        let open = self.token();
        self.bump();
        let mut args = Vec::new();
        let mut named = Vec::new();
        if self.eat(TokenKind::RParen) {
            return Ok(Expr { kind: ExprKind::Call { function, args, named }, span: self.span_from(start) });
        }
        loop {
            if matches!(self.kind(), TokenKind::Ident | TokenKind::QuotedIdent) && self.peek(1) == TokenKind::Equals {
                named.push(self.named_arg()?);
            } else {
                if !named.is_empty() {
                    let message = "an argument without a name cannot follow one with a name";
                    self.report(Finding::error("argument-order", self.span(), message).with_help("name this one too"));
                }
                let argument = self.argument()?;
                if self.kind() == TokenKind::For && args.is_empty() && named.is_empty() {
                    self.bump();
                    let iterators = self.iterators()?;
                    self.close(TokenKind::RParen, open)?;
                    let body = Box::new(argument);
                    let kind = ExprKind::Comprehension { function: Some(function), body, iterators };
                    return Ok(Expr { kind, span: self.span_from(start) });
                }
                args.push(argument);
            }
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.close(TokenKind::RParen, open)?;
        Ok(Expr { kind: ExprKind::Call { function, args, named }, span: self.span_from(start) })
    }

    fn named_arg(&mut self) -> Parse<NamedArg> {
        let name = self.take_ident();
        self.bump();
        let value = self.argument()?;
        Ok(NamedArg { name, value })
    }

    /// An expression, or a function with some of its arguments: `function f(x = 1)`.
    fn argument(&mut self) -> Parse<Expr> {
        if self.kind() != TokenKind::Function {
            return self.expression();
        }
        let start = self.start();
        self.bump();
        let function = self.path("the name of a function")?;
        let open = self.token();
        self.expect(TokenKind::LParen, "after the function")?;
        let mut named = Vec::new();
        if self.kind() != TokenKind::RParen {
            loop {
                if matches!(self.kind(), TokenKind::Ident | TokenKind::QuotedIdent) && self.peek(1) == TokenKind::Equals
                {
                    // Partial applications may be nested, so this counts as a level.
                    named.push(self.nested(Self::named_arg)?);
                } else {
                    let message = format!("expected `name = value`, found {}", self.describe());
                    let finding = Finding::error("unexpected-token", self.span(), message);
                    return Err(self.report(finding.with_help("arguments of `function f(..)` must be named")));
                }
                if !self.eat(TokenKind::Comma) {
                    break;
                }
            }
        }
        self.close(TokenKind::RParen, open)?;
        Ok(Expr { kind: ExprKind::PartialFunction { function, named }, span: self.span_from(start) })
    }

    /// `[.] IDENT [subscripts] {. IDENT [subscripts]}`
    pub(super) fn component_ref(&mut self, what: &str) -> Parse<ComponentRef> {
        let start = self.start();
        let is_global = self.eat(TokenKind::Dot);
        let mut parts = Vec::with_capacity(1);
        loop {
            let name = self.ident(what)?;
            let subscripts = if self.kind() == TokenKind::LBracket { self.subscripts()? } else { Vec::new() };
            parts.push(RefPart { name, subscripts });
            if !self.eat(TokenKind::Dot) {
                break;
            }
        }
        Ok(ComponentRef { is_global, parts, span: self.span_from(start) })
    }

    /// `[s, s, ..]`
    pub(super) fn subscripts(&mut self) -> Parse<Vec<Subscript>> {
        let open = self.token();
        self.bump();
        self.subscript_depth += 1;
        let result = self.subscript_list();
        self.subscript_depth -= 1;
        let subscripts = result?;
        self.close(TokenKind::RBracket, open)?;
        Ok(subscripts)
    }

    fn subscript_list(&mut self) -> Parse<Vec<Subscript>> {
        let mut subscripts = Vec::with_capacity(1);
        loop {
            let is_all =
                self.kind() == TokenKind::Colon && matches!(self.peek(1), TokenKind::Comma | TokenKind::RBracket);
            if is_all {
                subscripts.push(Subscript::All(self.span()));
                self.bump();
            } else {
                subscripts.push(Subscript::Expr(self.expression()?));
            }
            if !self.eat(TokenKind::Comma) {
                return Ok(subscripts);
            }
        }
    }
}
