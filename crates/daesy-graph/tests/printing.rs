//! Printed expressions read back, by a small reader of the Modelica grammar, have the same value.

mod random;

use std::borrow::Cow;

use daesy_graph::scalar::{apply_binary, apply_unary, is_true, truth};
use daesy_graph::{BinaryOp, Environment, Evaluator, Graph, Printer, UnaryOp, VarId};
use random::{Grower, Point};

/// Reads and evaluates at once. Follows the grammar of the specification's appendix: one sign, at the start of a sum;
/// powers do not chain.
struct Reader<'text> {
    tokens: Vec<&'text str>,
    at: usize,
    point: &'text Point,
}

fn tokens(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'.';
        if bytes[at] == b' ' {
            at += 1;
            continue;
        } else if bytes[at].is_ascii_digit() {
            while at < bytes.len()
                && (is_word(bytes[at]) || (matches!(bytes[at], b'-' | b'+') && matches!(bytes[at - 1], b'e' | b'E')))
            {
                at += 1;
            }
        } else if is_word(bytes[at]) {
            while at < bytes.len() && is_word(bytes[at]) {
                at += 1;
            }
        } else {
            at += if ["<=", ">=", "==", "<>"].iter().any(|two| text[at..].starts_with(two)) { 2 } else { 1 };
        }
        tokens.push(&text[start..at]);
    }
    tokens
}

impl Reader<'_> {
    fn peek(&self) -> &str {
        self.tokens.get(self.at).copied().unwrap_or("")
    }

    fn take(&mut self, token: &str) -> bool {
        let is_there = self.peek() == token;
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, token: &str) {
        assert!(self.take(token), "expected {token}, found {} in {:?}", self.peek(), self.tokens);
    }

    fn expression(&mut self) -> f64 {
        if self.take("if") {
            let condition = self.expression();
            self.expect("then");
            let then = self.expression();
            self.expect("else");
            let otherwise = self.expression();
            return if is_true(condition) { then } else { otherwise };
        }
        let mut value = self.logical_term();
        while self.take("or") {
            let right = self.logical_term();
            value = apply_binary(BinaryOp::Or, value, right);
        }
        value
    }

    fn logical_term(&mut self) -> f64 {
        let mut value = self.logical_factor();
        while self.take("and") {
            let right = self.logical_factor();
            value = apply_binary(BinaryOp::And, value, right);
        }
        value
    }

    fn logical_factor(&mut self) -> f64 {
        if self.take("not") { apply_unary(UnaryOp::Not, self.relation()) } else { self.relation() }
    }

    fn relation(&mut self) -> f64 {
        let left = self.sum();
        let op = match self.peek() {
            "<" => BinaryOp::Less,
            "<=" => BinaryOp::LessEqual,
            ">" => BinaryOp::Greater,
            ">=" => BinaryOp::GreaterEqual,
            "==" => BinaryOp::Equal,
            "<>" => BinaryOp::NotEqual,
            _ => return left,
        };
        self.at += 1;
        let right = self.sum();
        apply_binary(op, left, right)
    }

    fn sum(&mut self) -> f64 {
        let mut value = if self.take("-") { -self.term() } else { self.term() };
        loop {
            if self.take("+") {
                value += self.term();
            } else if self.take("-") {
                value -= self.term();
            } else {
                return value;
            }
        }
    }

    fn term(&mut self) -> f64 {
        let mut value = self.factor();
        loop {
            if self.take("*") {
                value *= self.factor();
            } else if self.take("/") {
                value /= self.factor();
            } else {
                return value;
            }
        }
    }

    fn factor(&mut self) -> f64 {
        let base = self.primary();
        if self.take("^") { apply_binary(BinaryOp::Pow, base, self.primary()) } else { base }
    }

    fn primary(&mut self) -> f64 {
        if self.take("(") {
            let value = self.expression();
            self.expect(")");
            return value;
        }
        let word = self.peek().to_owned();
        self.at += 1;
        if let Some(var) = word.strip_prefix('x') {
            return self.point.values[var.parse::<usize>().unwrap()];
        }
        if word == "der" {
            self.expect("(");
            let var: usize = self.peek()[1..].parse().unwrap();
            self.at += 1;
            self.expect(")");
            return self.point.rates[var];
        }
        match word.as_str() {
            "time" => return self.point.time(),
            "true" => return truth(true),
            "false" => return truth(false),
            _ => {}
        }
        if let Ok(number) = word.parse() {
            return number;
        }
        self.expect("(");
        let mut arguments = vec![self.expression()];
        while self.take(",") {
            arguments.push(self.expression());
        }
        self.expect(")");
        match (word.as_str(), arguments.as_slice()) {
            ("smooth", &[_, a]) => a,
            (_, &[a]) => apply_unary(unary(&word), a),
            (_, &[a, b]) => apply_binary(binary(&word), a, b),
            _ => panic!("{word} with {} arguments", arguments.len()),
        }
    }
}

fn unary(name: &str) -> UnaryOp {
    match name {
        "abs" => UnaryOp::Abs,
        "sign" => UnaryOp::Sign,
        "sqrt" => UnaryOp::Sqrt,
        "exp" => UnaryOp::Exp,
        "log" => UnaryOp::Log,
        "log10" => UnaryOp::Log10,
        "sin" => UnaryOp::Sin,
        "cos" => UnaryOp::Cos,
        "tan" => UnaryOp::Tan,
        "asin" => UnaryOp::Asin,
        "acos" => UnaryOp::Acos,
        "atan" => UnaryOp::Atan,
        "sinh" => UnaryOp::Sinh,
        "cosh" => UnaryOp::Cosh,
        "tanh" => UnaryOp::Tanh,
        "ceil" => UnaryOp::Ceil,
        "floor" => UnaryOp::Floor,
        "noEvent" => UnaryOp::NoEvent,
        _ => panic!("no function {name}"),
    }
}

fn binary(name: &str) -> BinaryOp {
    match name {
        "atan2" => BinaryOp::Atan2,
        "min" => BinaryOp::Min,
        "max" => BinaryOp::Max,
        "div" => BinaryOp::Quotient,
        "mod" => BinaryOp::Modulo,
        "rem" => BinaryOp::Remainder,
        "homotopy" => BinaryOp::Homotopy,
        _ => panic!("no function {name}"),
    }
}

#[test]
fn printed_expressions_have_the_same_value() {
    let name = |var: VarId| Cow::Owned(format!("x{}", var.0));
    let mut evaluator = Evaluator::new();
    let mut compared = 0;
    for seed in 0..300 {
        let mut graph = Graph::default();
        let mut grower = Grower::new(&mut graph, 7000 + seed, 4);
        let pairs: Vec<_> = (0..25).map(|_| grower.grow(&mut graph)).collect();
        let point = Point::random(&mut grower.rng, 4);
        for pair in pairs {
            for expr in [pair.raw, pair.simple] {
                let text = Printer::new(&graph, &name).with_max_length(20_000).text(expr);
                let Ok(value) = evaluator.evaluate_checked(&graph, expr, &point) else { continue };
                if text.ends_with("...") {
                    continue;
                }
                let mut reader = Reader { tokens: tokens(&text), at: 0, point: &point };
                let read = reader.expression();
                assert_eq!(reader.at, reader.tokens.len(), "left over in {text}");
                assert_eq!(read, value, "{text}");
                compared += 1;
            }
        }
    }
    assert!(compared > 8_000, "{compared} compared");
}
