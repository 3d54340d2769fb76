//! Expressions of a study: numbers, names of the model, `time`, arithmetic and functions.

use daesy_graph::finding::{Finding, nearest};
use daesy_graph::{BinaryOp, ExprId, FileId, Graph, Span, UnaryOp};
use daesy_model::parser::parse_expression;
use daesy_model::syntax::{self, ExprKind};

/// Reads an expression into a graph. `resolve` gives the expression of a name, `names` all that could be meant.
///
/// # Errors
/// Findings with places counted from `span`, which is where the expression stands in its file.
pub fn read_expression(
    graph: &mut Graph,
    text: &str,
    span: Span,
    resolve: &mut dyn FnMut(&mut Graph, &str) -> Option<ExprId>,
    names: &dyn Fn() -> Vec<String>,
) -> Result<ExprId, Vec<Finding>> {
    // The text of a TOML string starts one byte after its quote.
    let file = if span.is_none() { FileId(u32::MAX) } else { span.file };
    let parsed = parse_expression(file, text, span.start + 1);
    let mut findings: Vec<Finding> = parsed.findings;
    for finding in &mut findings {
        finding.span = within(finding.span, span);
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    let mut reader = ExpressionReader { graph, resolve, names, span, findings: Vec::new() };
    match reader.read(&parsed.expr) {
        Some(expr) if reader.findings.is_empty() => Ok(expr),
        _ => Err(reader.findings),
    }
}

/// A span inside the string, or the string where escapes have moved things.
fn within(inner: Span, outer: Span) -> Span {
    if inner.start >= outer.start && inner.end <= outer.end { inner } else { outer }
}

struct ExpressionReader<'a> {
    graph: &'a mut Graph,
    resolve: &'a mut dyn FnMut(&mut Graph, &str) -> Option<ExprId>,
    names: &'a dyn Fn() -> Vec<String>,
    span: Span,
    findings: Vec<Finding>,
}

impl ExpressionReader<'_> {
    fn refuse(&mut self, span: Span, code: &'static str, message: String) -> Option<ExprId> {
        let span = within(span, self.span);
        self.findings.push(Finding::error(code, span, message));
        None
    }

    fn read(&mut self, expr: &syntax::Expr) -> Option<ExprId> {
        match &expr.kind {
            ExprKind::Real(value) => Some(self.graph.number(*value)),
            ExprKind::Integer(value) => Some(self.graph.number(*value as f64)),
            ExprKind::Boolean(value) => Some(self.graph.number(f64::from(u8::from(*value)))),
            ExprKind::Parenthesized(inner) => self.read(inner),
            ExprKind::Ref(reference) => self.reference(reference),
            ExprKind::Unary(op, arg) => {
                let arg = self.read(arg)?;
                Some(match op {
                    syntax::UnaryOp::Minus | syntax::UnaryOp::ElementMinus => self.graph.neg(arg),
                    syntax::UnaryOp::Plus | syntax::UnaryOp::ElementPlus => arg,
                    syntax::UnaryOp::Not => self.graph.not(arg),
                })
            }
            ExprKind::Binary(op, lhs, rhs) => {
                let (lhs, rhs) = (self.read(lhs)?, self.read(rhs)?);
                Some(self.graph.binary(binary(*op), lhs, rhs))
            }
            ExprKind::If { branches, otherwise } => {
                let mut value = self.read(otherwise)?;
                for branch in branches.iter().rev() {
                    let condition = self.read(&branch.condition)?;
                    let then = self.read(&branch.value)?;
                    value = self.graph.select(condition, then, value);
                }
                Some(value)
            }
            ExprKind::Call { function, args, named } if named.is_empty() => self.call(function, args, expr.span),
            _ => self.refuse(
                expr.span,
                "study-expression",
                "a study's expression may hold numbers, names, arithmetic, relations, `if` and functions only"
                    .to_owned(),
            ),
        }
    }

    fn reference(&mut self, reference: &syntax::ComponentRef) -> Option<ExprId> {
        let name = daesy_model::print::print_component_ref(reference);
        if name == "time" {
            return Some(self.graph.time());
        }
        if name == "pi" && (self.resolve)(self.graph, "pi").is_none() {
            return Some(self.graph.number(std::f64::consts::PI));
        }
        if let Some(expr) = (self.resolve)(self.graph, &name) {
            return Some(expr);
        }
        let known = (self.names)();
        let mut finding =
            Finding::error("unknown-name", within(reference.span, self.span), format!("`{name}` is not known here"))
                .with_names([&name]);
        let help = if name == "t" || name.eq_ignore_ascii_case("time") {
            "the time is called `time`".to_owned()
        } else if let Some(near) = nearest(&name, known.iter().map(String::as_str)) {
            format!("did you mean `{near}`?")
        } else {
            const MOST: usize = 12;
            let shown: Vec<&str> = known.iter().take(MOST).map(String::as_str).collect();
            let more = if known.len() > MOST { ", .." } else { "" };
            let list = if shown.is_empty() { String::new() } else { format!(": {}{more}", shown.join(", ")) };
            format!(
                "an expression of a study may use `time`, parameters and unknowns{list}; variables of the model belong into it"
            )
        };
        finding = finding.with_help(help);
        self.findings.push(finding);
        None
    }

    fn call(&mut self, function: &syntax::ComponentRef, args: &[syntax::Expr], span: Span) -> Option<ExprId> {
        let name = daesy_model::print::print_component_ref(function);
        let short = name.strip_prefix("Modelica.Math.").unwrap_or(&name);
        let unary = UNARY.iter().find(|(known, _)| *known == short);
        let binary = BINARY.iter().find(|(known, _)| *known == short);
        match (unary, binary, args) {
            (Some((_, op)), _, [arg]) => {
                let arg = self.read(arg)?;
                Some(self.graph.unary(*op, arg))
            }
            (_, Some((_, op)), [lhs, rhs]) => {
                let (lhs, rhs) = (self.read(lhs)?, self.read(rhs)?);
                Some(self.graph.binary(*op, lhs, rhs))
            }
            (None, None, _) => {
                let known = UNARY.iter().map(|(name, _)| *name).chain(BINARY.iter().map(|(name, _)| *name));
                let near = nearest(short, known).map(|near| format!("did you mean `{near}`?"));
                self.refuse(span, "unknown-function", format!("there is no function `{name}` for studies"));
                if let (Some(finding), Some(near)) = (self.findings.last_mut(), near) {
                    finding.help = Some(near);
                }
                None
            }
            _ => self.refuse(span, "argument-count", format!("`{name}` is given {} arguments", args.len())),
        }
    }
}

const UNARY: [(&str, UnaryOp); 18] = [
    ("abs", UnaryOp::Abs),
    ("sign", UnaryOp::Sign),
    ("sqrt", UnaryOp::Sqrt),
    ("exp", UnaryOp::Exp),
    ("log", UnaryOp::Log),
    ("log10", UnaryOp::Log10),
    ("sin", UnaryOp::Sin),
    ("cos", UnaryOp::Cos),
    ("tan", UnaryOp::Tan),
    ("asin", UnaryOp::Asin),
    ("acos", UnaryOp::Acos),
    ("atan", UnaryOp::Atan),
    ("sinh", UnaryOp::Sinh),
    ("cosh", UnaryOp::Cosh),
    ("tanh", UnaryOp::Tanh),
    ("ceil", UnaryOp::Ceil),
    ("floor", UnaryOp::Floor),
    ("noEvent", UnaryOp::NoEvent),
];

const BINARY: [(&str, BinaryOp); 6] = [
    ("atan2", BinaryOp::Atan2),
    ("min", BinaryOp::Min),
    ("max", BinaryOp::Max),
    ("div", BinaryOp::Quotient),
    ("mod", BinaryOp::Modulo),
    ("rem", BinaryOp::Remainder),
];

const fn binary(op: syntax::BinaryOp) -> BinaryOp {
    match op {
        syntax::BinaryOp::Add | syntax::BinaryOp::ElementAdd => BinaryOp::Add,
        syntax::BinaryOp::Sub | syntax::BinaryOp::ElementSub => BinaryOp::Sub,
        syntax::BinaryOp::Mul | syntax::BinaryOp::ElementMul => BinaryOp::Mul,
        syntax::BinaryOp::Div | syntax::BinaryOp::ElementDiv => BinaryOp::Div,
        syntax::BinaryOp::Pow | syntax::BinaryOp::ElementPow => BinaryOp::Pow,
        syntax::BinaryOp::Less => BinaryOp::Less,
        syntax::BinaryOp::LessEqual => BinaryOp::LessEqual,
        syntax::BinaryOp::Greater => BinaryOp::Greater,
        syntax::BinaryOp::GreaterEqual => BinaryOp::GreaterEqual,
        syntax::BinaryOp::Equal => BinaryOp::Equal,
        syntax::BinaryOp::NotEqual => BinaryOp::NotEqual,
        syntax::BinaryOp::And => BinaryOp::And,
        syntax::BinaryOp::Or => BinaryOp::Or,
    }
}
