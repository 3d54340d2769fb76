//! Expressions as Modelica text, with no more parentheses than needed.
//!
//! The levels of the grammar [@modelica36, app. A.2.7], loosest first: `if`, `or`, `and`, `not`, relations, sums (a
//! sign stands only at the start of a sum), products, powers (which do not chain), primaries.

use std::borrow::Cow;
use std::fmt::Write;

use crate::flat::{Enumeration, Equation, FlatDae, ValueType, Variable};
use crate::graph::Graph;
use crate::node::{ArgList, BinaryOp, ExprId, Node, UnaryOp, VarId};
use crate::whole::Whole;

const LOOSE: u8 = 0;
const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const RELATION: u8 = 4;
const SUM: u8 = 5;
const PRODUCT: u8 = 6;
const POWER: u8 = 7;
const PRIMARY: u8 = 8;

/// How a node is written.
struct Form {
    level: u8,
    /// What stands before, between and after the arguments.
    before: &'static str,
    between: &'static str,
    /// The level that the left and the right argument need.
    needs: (u8, u8),
}

const fn infix(level: u8, between: &'static str, left: u8, right: u8) -> Form {
    Form { level, before: "", between, needs: (left, right) }
}

const fn function(name: &'static str) -> Form {
    Form { level: PRIMARY, before: name, between: ", ", needs: (LOOSE, LOOSE) }
}

const fn unary_form(op: UnaryOp) -> Form {
    match op {
        UnaryOp::Neg => Form { level: SUM, before: "-", between: "", needs: (PRODUCT, PRODUCT) },
        UnaryOp::Not => Form { level: NOT, before: "not ", between: "", needs: (RELATION, RELATION) },
        UnaryOp::Abs => function("abs"),
        UnaryOp::Sign => function("sign"),
        UnaryOp::Sqrt => function("sqrt"),
        UnaryOp::Exp => function("exp"),
        UnaryOp::Log => function("log"),
        UnaryOp::Log10 => function("log10"),
        UnaryOp::Sin => function("sin"),
        UnaryOp::Cos => function("cos"),
        UnaryOp::Tan => function("tan"),
        UnaryOp::Asin => function("asin"),
        UnaryOp::Acos => function("acos"),
        UnaryOp::Atan => function("atan"),
        UnaryOp::Sinh => function("sinh"),
        UnaryOp::Cosh => function("cosh"),
        UnaryOp::Tanh => function("tanh"),
        UnaryOp::Ceil => function("ceil"),
        UnaryOp::Floor => function("floor"),
        UnaryOp::NoEvent => function("noEvent"),
        // There is no word for it in Modelica.
        UnaryOp::WithEvents => function(""),
    }
}

const fn binary_form(op: BinaryOp) -> Form {
    match op {
        BinaryOp::Add => infix(SUM, " + ", SUM, PRODUCT),
        BinaryOp::Sub => infix(SUM, " - ", SUM, PRODUCT),
        BinaryOp::Mul => infix(PRODUCT, "*", PRODUCT, POWER),
        BinaryOp::Div => infix(PRODUCT, "/", PRODUCT, POWER),
        BinaryOp::Pow => infix(POWER, "^", PRIMARY, PRIMARY),
        BinaryOp::Atan2 => function("atan2"),
        BinaryOp::Min => function("min"),
        BinaryOp::Max => function("max"),
        BinaryOp::Quotient => function("div"),
        BinaryOp::Modulo => function("mod"),
        BinaryOp::Remainder => function("rem"),
        BinaryOp::Less => infix(RELATION, " < ", SUM, SUM),
        BinaryOp::LessEqual => infix(RELATION, " <= ", SUM, SUM),
        BinaryOp::Greater => infix(RELATION, " > ", SUM, SUM),
        BinaryOp::GreaterEqual => infix(RELATION, " >= ", SUM, SUM),
        BinaryOp::Equal => infix(RELATION, " == ", SUM, SUM),
        BinaryOp::NotEqual => infix(RELATION, " <> ", SUM, SUM),
        BinaryOp::And => infix(AND, " and ", AND, NOT),
        BinaryOp::Or => infix(OR, " or ", OR, AND),
        BinaryOp::Homotopy => function("homotopy"),
    }
}

/// A name as Base Modelica writes it: quoted unless it is a plain identifier.
#[must_use]
pub fn quoted(name: &str) -> String {
    let is_plain = name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
        && !name.starts_with(|character: char| character.is_ascii_digit());
    if is_plain || is_quoted(name) {
        name.to_owned()
    } else {
        format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'"))
    }
}

/// Whether a name is one quoted identifier; `'a'.'b'` is two.
fn is_quoted(name: &str) -> bool {
    let Some(inside) = name.strip_prefix('\'').and_then(|name| name.strip_suffix('\'')) else { return false };
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => return false,
            '\\' if characters.next().is_none() => return false,
            _ => {}
        }
    }
    !inside.is_empty()
}

/// The shortest decimal text that reads back as the same number.
#[must_use]
pub fn number_text(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || (1e-4..1e15).contains(&size) { format!("{value}") } else { format!("{value:e}") }
}

/// What the text of an expression must be.
#[derive(Clone, Copy)]
enum Wanted<'t> {
    Number,
    /// A number of type Integer, whose largest whole number below it is `integer(..)`: `floor(..)` is a Real.
    Whole,
    Truth,
    Literal(&'t Enumeration),
}

impl Wanted<'_> {
    /// Whether texts of both kinds can stand for each other.
    const fn is_like(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Number | Self::Whole, Self::Number | Self::Whole)
                | (Self::Truth, Self::Truth)
                | (Self::Literal(_), Self::Literal(_))
        )
    }
}

enum Task<'t> {
    Text(&'static str),
    Expr { expr: ExprId, level: u8, wanted: Wanted<'t> },
}

/// What to call to get an output, from 0, of the function with a name.
pub type CalledAs = dyn Fn(&str, u16) -> String;

/// Writes expressions of a graph.
pub struct Printer<'model, 'names> {
    graph: &'model Graph,
    name: &'names dyn Fn(VarId) -> Cow<'names, str>,
    local: Option<&'names dyn Fn(u32) -> Cow<'names, str>>,
    function: Option<&'names CalledAs>,
    array: Option<&'names str>,
    variables: Option<&'names [Variable]>,
    max_length: usize,
}

impl<'model, 'names> Printer<'model, 'names> {
    /// A printer that asks `name` for the names of variables.
    #[must_use]
    pub fn new(graph: &'model Graph, name: &'names dyn Fn(VarId) -> Cow<'names, str>) -> Self {
        Self { graph, name, local: None, function: None, array: None, variables: None, max_length: usize::MAX }
    }

    /// Asks `local` for the names of locals of functions, which are `local1`, `local2`, .. otherwise.
    #[must_use]
    pub const fn with_locals(mut self, local: &'names dyn Fn(u32) -> Cow<'names, str>) -> Self {
        self.local = Some(local);
        self
    }

    /// Asks `function` for what to call to get an output, from 0, of the function with this name.
    #[must_use]
    pub const fn with_functions(mut self, function: &'names CalledAs) -> Self {
        self.function = Some(function);
        self
    }

    /// Writes all locals of functions as elements of one array, counted from 1.
    #[must_use]
    pub const fn with_locals_in(mut self, array: &'names str) -> Self {
        self.array = Some(array);
        self
    }

    /// Follows the types of variables, so that what is written can be read again: truth values and literals of
    /// enumerations are no numbers in Modelica.
    #[must_use]
    pub const fn with_types(mut self, variables: &'names [Variable]) -> Self {
        self.variables = Some(variables);
        self
    }

    /// Stops with `...` when the text has this many bytes. Written out, shared parts repeat: a small graph can have an
    /// endless text.
    #[must_use]
    pub const fn with_max_length(mut self, max_length: usize) -> Self {
        self.max_length = max_length;
        self
    }

    /// The text of an expression.
    #[must_use]
    pub fn text(&self, expr: ExprId) -> String {
        let mut out = String::new();
        self.write(expr, LOOSE, Wanted::Number, &mut out);
        out
    }

    /// The text of an expression that is a truth value: a number is `true` or `false`.
    #[must_use]
    pub fn truth_text(&self, expr: ExprId) -> String {
        let mut out = String::new();
        self.write(expr, LOOSE, Wanted::Truth, &mut out);
        out
    }

    /// The text of an expression as a value of a type.
    #[must_use]
    pub fn text_as(&self, expr: ExprId, value_type: &ValueType) -> String {
        let mut out = String::new();
        let wanted = match value_type {
            ValueType::Boolean => Wanted::Truth,
            ValueType::Enumeration(enumeration) => Wanted::Literal(enumeration),
            ValueType::Integer => Wanted::Whole,
            ValueType::Real | ValueType::String => Wanted::Number,
        };
        self.write(expr, LOOSE, wanted, &mut out);
        out
    }

    /// The texts of the sides of an equation. On the left, an `if` stands in parentheses.
    #[must_use]
    pub fn texts_alike(&self, left: ExprId, right: ExprId) -> [String; 2] {
        let wanted = self.kind_of_both(left, right);
        [(left, OR), (right, LOOSE)].map(|(expr, level)| {
            let mut out = String::new();
            self.write(expr, level, wanted, &mut out);
            out
        })
    }

    /// What an expression is in Modelica, where types are known; none for a number that can be anything.
    fn kind(&self, expr: ExprId) -> Option<Wanted<'names>> {
        let variables = self.variables?;
        let mut at = expr;
        loop {
            match self.graph.node(at) {
                Node::Number(_) => return None,
                Node::Var { var, order: 0 } | Node::Pre(var) => {
                    return Some(match &variables[var.index()].value_type {
                        ValueType::Boolean => Wanted::Truth,
                        ValueType::Enumeration(enumeration) => Wanted::Literal(enumeration),
                        ValueType::Integer => Wanted::Whole,
                        ValueType::Real | ValueType::String => Wanted::Number,
                    });
                }
                Node::Unary { op: UnaryOp::NoEvent | UnaryOp::WithEvents, arg } | Node::Smooth { arg, .. } => at = arg,
                Node::Select { then, otherwise, .. } => {
                    at = if matches!(self.graph.node(then), Node::Number(_)) { otherwise } else { then };
                }
                Node::Unary { op: UnaryOp::Not, .. } | Node::Initial | Node::Terminal | Node::Sample { .. } => {
                    return Some(Wanted::Truth);
                }
                Node::Binary { op, .. } if op.is_relation() || matches!(op, BinaryOp::And | BinaryOp::Or) => {
                    return Some(Wanted::Truth);
                }
                _ => return Some(Wanted::Number),
            }
        }
    }

    fn kind_of_both(&self, left: ExprId, right: ExprId) -> Wanted<'names> {
        self.kind(left).or_else(|| self.kind(right)).unwrap_or(Wanted::Number)
    }

    fn write(&self, root: ExprId, level: u8, wanted: Wanted<'_>, out: &mut String) {
        let mut tasks = vec![Task::Expr { expr: root, level, wanted }];
        while let Some(task) = tasks.pop() {
            if out.len() > self.max_length {
                out.push_str("...");
                return;
            }
            match task {
                Task::Text(text) => out.push_str(text),
                Task::Expr { expr, level, wanted } => self.write_as(expr, level, wanted, out, &mut tasks),
            }
        }
    }

    fn write_local(&self, local: u32, out: &mut String) {
        match (self.array, self.local) {
            (Some(array), _) => write_to(out, format_args!("{array}[{}]", local + 1)),
            (None, Some(name)) => out.push_str(&name(local)),
            (None, None) => write_to(out, format_args!("local{}", local + 1)),
        }
    }

    /// Writes an expression as what is wanted: a truth value as a number is `if b then 1 else 0`, and so on.
    fn write_as<'t>(&self, expr: ExprId, level: u8, wanted: Wanted<'t>, out: &mut String, tasks: &mut Vec<Task<'t>>)
    where
        'names: 't,
    {
        // What only hands values on is written as it is, with each of these as what is wanted: they may differ in kind.
        let hands_on = matches!(
            self.graph.node(expr),
            Node::Select { .. } | Node::Smooth { .. } | Node::Unary { op: UnaryOp::NoEvent | UnaryOp::WithEvents, .. }
        );
        let is = match self.kind(expr) {
            Some(is) if !is.is_like(wanted) && !hands_on => is,
            _ => return self.write_node(expr, level, wanted, out, tasks),
        };
        let (own_level, before, after, needs) = match (is, wanted) {
            (Wanted::Truth, Wanted::Number | Wanted::Whole) => (LOOSE, "if ", " then 1 else 0", OR),
            (Wanted::Number | Wanted::Whole, Wanted::Truth) => (RELATION, "", " <> 0", SUM),
            (Wanted::Literal(_), _) => (PRIMARY, "Integer(", ")", LOOSE),
            (Wanted::Number | Wanted::Whole, Wanted::Literal(enumeration)) => {
                out.push_str(&quoted(&enumeration.name));
                out.push('(');
                tasks.push(Task::Text(")"));
                tasks.push(Task::Expr { expr, level: LOOSE, wanted: Wanted::Whole });
                return;
            }
            _ => (PRIMARY, "(", ")", LOOSE),
        };
        if level > own_level {
            out.push('(');
            tasks.push(Task::Text(")"));
        }
        out.push_str(before);
        tasks.push(Task::Text(after));
        tasks.push(Task::Expr { expr, level: needs, wanted: is });
    }

    fn write_node<'t>(&self, expr: ExprId, level: u8, wanted: Wanted<'t>, out: &mut String, tasks: &mut Vec<Task<'t>>)
    where
        'names: 't,
    {
        let node = self.graph.node(expr);
        match node {
            Node::Number(bits) => write_number(f64::from_bits(bits), level, wanted, out),
            Node::Time => out.push_str("time"),
            Node::Var { var, order } => {
                (0..order).for_each(|_| out.push_str("der("));
                out.push_str(&(self.name)(var));
                (0..order).for_each(|_| out.push(')'));
            }
            Node::Pre(var) => write_to(out, format_args!("pre({})", (self.name)(var))),
            Node::Initial => out.push_str("initial()"),
            Node::Terminal => out.push_str("terminal()"),
            // The elements of the array of all locals are Reals: an Integer among them is said to be one.
            Node::Local(local) if self.array.is_some() && matches!(wanted, Wanted::Whole) => {
                out.push_str("integer(");
                self.write_local(local, out);
                out.push(')');
            }
            Node::Local(local) => self.write_local(local, out),
            Node::LocalAt { base, index, .. } => {
                if self.array.is_some() && matches!(wanted, Wanted::Whole) {
                    out.push_str("integer(");
                    tasks.push(Task::Text(")"));
                }
                match self.array {
                    Some(array) => {
                        write_to(out, format_args!("{array}[{base} + integer("));
                        tasks.push(Task::Text(")]"));
                    }
                    // The array is named after its first element.
                    None => {
                        self.write_local(base, out);
                        out.push('[');
                        tasks.push(Task::Text("]"));
                    }
                }
                tasks.push(Task::Expr { expr: index, level: LOOSE, wanted: Wanted::Number });
            }
            Node::Unary { op, arg } => {
                let is_whole = matches!(wanted, Wanted::Whole);
                let wanted = match op {
                    UnaryOp::Not => Wanted::Truth,
                    UnaryOp::NoEvent | UnaryOp::WithEvents | UnaryOp::Neg | UnaryOp::Abs => wanted,
                    _ => Wanted::Number,
                };
                let form = if op == UnaryOp::Floor && is_whole { function("integer") } else { unary_form(op) };
                self.write_form(&form, level, &[arg], wanted, out, tasks);
            }
            Node::Binary { op, lhs, rhs } => {
                let wanted = self.wanted_of(op, lhs, rhs, wanted);
                self.write_form(&binary_form(op), level, &[lhs, rhs], wanted, out, tasks);
            }
            Node::Sample { start, interval } => {
                self.write_form(&function("sample"), level, &[start, interval], Wanted::Number, out, tasks);
            }
            Node::Smooth { order, arg } => {
                write_to(out, format_args!("smooth({order}, "));
                tasks.push(Task::Text(")"));
                tasks.push(Task::Expr { expr: arg, level: LOOSE, wanted });
            }
            Node::Select { condition, then, otherwise } => {
                if level > LOOSE {
                    out.push('(');
                    tasks.push(Task::Text(")"));
                }
                out.push_str("if ");
                tasks.push(Task::Expr { expr: otherwise, level: LOOSE, wanted });
                tasks.push(Task::Text(" else "));
                tasks.push(Task::Expr { expr: then, level: LOOSE, wanted });
                tasks.push(Task::Text(" then "));
                tasks.push(Task::Expr { expr: condition, level: OR, wanted: Wanted::Truth });
            }
            Node::Call { function, output: 0, args } if self.graph.whole(function).is_some() => {
                let Some(whole) = self.graph.whole(function) else { return };
                self.write_whole(whole, level, args, out, tasks);
            }
            Node::Call { function, output, .. } if self.graph.is_elsewhere(function) => {
                // Its arguments are everything there is.
                let name = self.graph.foreign(function).map_or("", |foreign| foreign.name);
                write_to(out, format_args!("{name} {} of the unit", output + 1));
            }
            Node::Call { function, output, args } => {
                // A function that is kept as a program has results of type Real.
                let is_whole = matches!(wanted, Wanted::Whole);
                self.write_call(self.graph.function(function), output, args, is_whole, out, tasks);
            }
        }
    }

    /// What the operands of an operation are written as.
    fn wanted_of<'t>(&self, op: BinaryOp, lhs: ExprId, rhs: ExprId, wanted: Wanted<'t>) -> Wanted<'t>
    where
        'names: 't,
    {
        match op {
            BinaryOp::And | BinaryOp::Or => Wanted::Truth,
            _ if op.is_relation() => match (self.kind(lhs), self.kind(rhs)) {
                (Some(Wanted::Whole), Some(Wanted::Number)) => Wanted::Number,
                _ => self.kind_of_both(lhs, rhs),
            },
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::Quotient
            | BinaryOp::Modulo
            | BinaryOp::Remainder
                if matches!(wanted, Wanted::Whole) =>
            {
                Wanted::Whole
            }
            _ => Wanted::Number,
        }
    }

    fn write_call<'t>(
        &self,
        called: &crate::function::Function,
        output: u16,
        args: ArgList,
        is_whole: bool,
        out: &mut String,
        tasks: &mut Vec<Task<'t>>,
    ) {
        if is_whole {
            out.push_str("integer(");
        }
        match self.function {
            Some(function) => out.push_str(&function(&called.name, output)),
            // Modelica has no expression for a further output of a function; it is shown by its number.
            None if output > 0 => write_to(out, format_args!("{}.output{}", called.name, output + 1)),
            None => out.push_str(&called.name),
        }
        out.push('(');
        tasks.push(Task::Text(if is_whole { "))" } else { ")" }));
        for (at, &arg) in self.graph.args(args).iter().enumerate().rev() {
            tasks.push(Task::Expr { expr: arg, level: LOOSE, wanted: Wanted::Number });
            if at > 0 {
                tasks.push(Task::Text(", "));
            }
        }
    }

    /// An operation on Integers as Modelica has it: rests are not shown, for values alone say it all.
    fn write_whole<'t>(&self, whole: Whole, level: u8, args: ArgList, out: &mut String, tasks: &mut Vec<Task<'t>>) {
        let values: Vec<ExprId> = self.graph.args(args).iter().step_by(2).copied().collect();
        let form = match whole {
            Whole::Constant(number) if number < 0 && level > SUM => return write_to(out, format_args!("({number})")),
            Whole::Constant(number) => return write_to(out, format_args!("{number}")),
            Whole::Narrow => return tasks.push(Task::Expr { expr: values[0], level, wanted: Wanted::Whole }),
            Whole::Compare => {
                out.push_str("sign(");
                tasks.push(Task::Text(")"));
                let difference = infix(LOOSE, " - ", SUM, PRODUCT);
                return self.write_form(&difference, LOOSE, &values, Wanted::Whole, out, tasks);
            }
            Whole::Add => binary_form(BinaryOp::Add),
            Whole::Subtract => binary_form(BinaryOp::Sub),
            Whole::Multiply => binary_form(BinaryOp::Mul),
            Whole::Quotient => binary_form(BinaryOp::Quotient),
            Whole::Modulo => binary_form(BinaryOp::Modulo),
            Whole::Remainder => binary_form(BinaryOp::Remainder),
            Whole::Minimum => binary_form(BinaryOp::Min),
            Whole::Maximum => binary_form(BinaryOp::Max),
        };
        self.write_form(&form, level, &values, Wanted::Whole, out, tasks);
    }

    fn write_form<'t>(
        &self,
        form: &Form,
        level: u8,
        args: &[ExprId],
        wanted: Wanted<'t>,
        out: &mut String,
        tasks: &mut Vec<Task<'t>>,
    ) {
        let is_function = form.level == PRIMARY;
        let needs_parentheses = form.level < level;
        if needs_parentheses {
            out.push('(');
        }
        out.push_str(form.before);
        if is_function {
            out.push('(');
        }
        if is_function || needs_parentheses {
            tasks.push(Task::Text(")"));
        }
        for (at, &arg) in args.iter().enumerate().rev() {
            let level = if at == 0 { form.needs.0 } else { form.needs.1 };
            tasks.push(Task::Expr { expr: arg, level, wanted });
            if at > 0 {
                tasks.push(Task::Text(form.between));
            }
        }
    }
}

fn write_number(value: f64, level: u8, wanted: Wanted<'_>, out: &mut String) {
    let literal = match wanted {
        Wanted::Literal(enumeration) if value >= 1.0 => {
            enumeration.literals.get(value as usize - 1).map(|literal| (enumeration, literal))
        }
        _ => None,
    };
    if let Some((enumeration, literal)) = literal {
        write_to(out, format_args!("{}.{literal}", quoted(&enumeration.name)));
    } else if matches!(wanted, Wanted::Truth) {
        out.push_str(if value != 0.0 { "true" } else { "false" });
    } else {
        // An Integer has no exponent.
        let is_whole = matches!(wanted, Wanted::Whole) && value.fract() == 0.0 && value.is_finite();
        let text = if is_whole { format!("{value:.0}") } else { number_text(value) };
        let is_apart = value.is_sign_negative() && level > SUM;
        write_to(out, format_args!("{}{text}{}", if is_apart { "(" } else { "" }, if is_apart { ")" } else { "" }));
    }
}

fn write_to(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _ = out.write_fmt(arguments);
}

/// Bytes of an expression in messages and reports: a longer text would not be read, and could be endless.
pub const LONGEST_SHOWN: usize = 200;

impl FlatDae {
    /// The text of an expression in the model's names, cut off with `...` where it is very long.
    #[must_use]
    pub fn text(&self, expr: ExprId) -> String {
        let name = |var: VarId| Cow::Borrowed(self.variables[var.index()].name.as_str());
        Printer::new(&self.graph, &name).with_max_length(LONGEST_SHOWN).text(expr)
    }

    /// The text of an equation in the model's names.
    #[must_use]
    pub fn equation_text(&self, equation: &Equation) -> String {
        format!("{} = {}", self.text(equation.lhs), self.text(equation.rhs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::function::Function;
    use crate::source::Span;

    fn text(graph: &Graph, expr: ExprId) -> String {
        let name = |var: VarId| Cow::Borrowed(["x", "y", "z"][var.index()]);
        Printer::new(graph, &name).text(expr)
    }

    #[test]
    fn parentheses_stand_where_the_grammar_needs_them() {
        let mut g = Graph::default();
        let (x, y, z) = (g.var(VarId(0)), g.var(VarId(1)), g.var(VarId(2)));
        let two = g.number(2.0);
        let sum = g.add(x, y);
        let difference = g.sub(z, sum);
        assert_eq!(text(&g, difference), "z - (x + y)");
        let product = g.mul(sum, z);
        assert_eq!(text(&g, product), "(x + y)*z");
        let quotient = g.raw_binary(BinaryOp::Div, z, product);
        assert_eq!(text(&g, quotient), "z/((x + y)*z)");
        let minus = g.neg(product);
        assert_eq!(text(&g, minus), "-(x + y)*z");
        let power = g.pow(x, two);
        let tower = g.pow(power, y);
        assert_eq!(text(&g, tower), "(x^2)^y");
        let negative = g.neg(x);
        let squared = g.pow(negative, two);
        assert_eq!(text(&g, squared), "(-x)^2");
        let minus_two = g.number(-2.0);
        let inverse = g.pow(x, minus_two);
        assert_eq!(text(&g, inverse), "x^(-2)");
        let scaled = g.raw_binary(BinaryOp::Mul, x, minus_two);
        assert_eq!(text(&g, scaled), "x*(-2)");
        let less = g.less(x, y);
        let not = g.not(less);
        assert_eq!(text(&g, not), "not x < y");
        let equal = g.equal(y, z);
        let both = g.or(less, equal);
        let all = g.and(both, not);
        assert_eq!(text(&g, all), "(x < y or y == z) and not x < y");
        let select = g.select(all, x, y);
        let with_select = g.add(select, z);
        assert_eq!(text(&g, with_select), "(if (x < y or y == z) and not x < y then x else y) + z");
        let nested = g.select(less, z, select);
        assert_eq!(text(&g, nested), "if x < y then z else if (x < y or y == z) and not x < y then x else y");
    }

    #[test]
    fn leaves_calls_and_functions() {
        let mut g = Graph::default();
        let (x, y) = (g.var(VarId(0)), g.var(VarId(1)));
        let ddx = g.der(VarId(0), 2);
        let maximum = g.max(ddx, y);
        assert_eq!(text(&g, maximum), "max(der(der(x)), y)");
        let pre = g.pre(VarId(2));
        assert_eq!(text(&g, pre), "pre(z)");
        let f = g.add_function(Function {
            name: "Lib.f".into(),
            n_inputs: 2,
            outputs: vec![0, 1],
            n_locals: 2,
            body: vec![],
            span: Span::NONE,
        });
        let sum = g.add(x, y);
        let (first, second) = (g.call(f, 0, &[sum, y]), g.call(f, 1, &[x, y]));
        assert_eq!(text(&g, first), "Lib.f(x + y, y)");
        assert_eq!(text(&g, second), "Lib.f.output2(x, y)");
        let less = g.less(x, y);
        let smooth = g.select(less, x, sum);
        let smooth = g.smooth(1, smooth);
        assert_eq!(text(&g, smooth), "smooth(1, if x < y then x else x + y)");
        let quotient = g.binary(BinaryOp::Quotient, x, y);
        assert_eq!(text(&g, quotient), "div(x, y)");
    }

    #[test]
    fn truth_values_and_literals_are_no_numbers() {
        let colour = Enumeration { name: "Lib.Colour".into(), literals: vec!["red".into(), "green".into()] };
        let colour = ValueType::Enumeration(std::sync::Arc::new(colour));
        let names = ["x", "b", "c"];
        let name = |var: VarId| Cow::Borrowed(names[var.index()]);
        let variables: Vec<Variable> = [ValueType::Real, ValueType::Boolean, colour]
            .into_iter()
            .zip(names)
            .map(|(value_type, name)| Variable {
                value_type,
                ..Variable::new(name, crate::flat::VariableKind::Discrete, Span::NONE)
            })
            .collect();
        let mut g = Graph::default();
        let (x, b, c) = (g.var(VarId(0)), g.var(VarId(1)), g.var(VarId(2)));
        let (one, two) = (g.number(1.0), g.number(2.0));
        let green = g.raw_binary(BinaryOp::Equal, c, two);
        let sum = g.raw_binary(BinaryOp::Add, x, b);
        let truth = g.raw_binary(BinaryOp::And, x, green);
        let select = g.select(b, one, two);
        let printer = Printer::new(&g, &name).with_types(&variables);
        assert_eq!(printer.text(sum), "x + (if b then 1 else 0)");
        assert_eq!(printer.truth_text(truth), "x <> 0 and c == 'Lib.Colour'.green");
        assert_eq!(printer.texts_alike(c, select), ["c", "if b then 'Lib.Colour'.red else 'Lib.Colour'.green"]);
        assert_eq!(printer.texts_alike(b, one), ["b", "true"]);
        assert_eq!(printer.text(c), "Integer(c)");
        assert_eq!(printer.texts_alike(select, one), ["(if b then 1 else 2)", "1"]);
        // A number that is computed is made a literal.
        assert_eq!(printer.texts_alike(c, sum), ["c", "'Lib.Colour'(x + (if b then 1 else 0))"]);
        let (zero, mut g) = (g.number(0.0), g.clone());
        let mixed = g.select(b, c, zero);
        let printer = Printer::new(&g, &name).with_types(&variables);
        assert_eq!(printer.text(mixed), "if b then Integer(c) else 0");
    }

    #[test]
    fn whole_numbers_are_integers_where_integers_are_meant() {
        let names = ["n", "x"];
        let name = |var: VarId| Cow::Borrowed(names[var.index()]);
        let variables: Vec<Variable> = [ValueType::Integer, ValueType::Real]
            .into_iter()
            .zip(names)
            .map(|(value_type, name)| Variable {
                value_type,
                ..Variable::new(name, crate::flat::VariableKind::Discrete, Span::NONE)
            })
            .collect();
        let mut g = Graph::default();
        let (n, x) = (g.var(VarId(0)), g.var(VarId(1)));
        let whole = g.unary(UnaryOp::Floor, x);
        let negative = g.neg(whole);
        let f = g.add_function(Function {
            name: "f".into(),
            n_inputs: 1,
            outputs: vec![0],
            n_locals: 1,
            body: vec![],
            span: Span::NONE,
        });
        let call = g.call(f, 0, &[x]);
        let equal = g.binary(BinaryOp::Equal, n, call);
        let two = g.number(2.0);
        let half = g.binary(BinaryOp::Quotient, whole, two);
        let printer = Printer::new(&g, &name).with_types(&variables);
        assert_eq!(printer.texts_alike(n, half), ["n", "div(integer(x), 2)"]);
        assert_eq!(printer.texts_alike(n, call), ["n", "integer(f(x))"]);
        assert_eq!(printer.texts_alike(x, call), ["x", "f(x)"]);
        // What is compared may have a fraction.
        assert_eq!(printer.text(equal), "if n == f(x) then 1 else 0");
        assert_eq!(printer.texts_alike(n, negative), ["n", "-integer(x)"]);
        assert_eq!(printer.texts_alike(x, negative), ["x", "-floor(x)"]);
        assert_eq!(printer.text_as(whole, &ValueType::Integer), "integer(x)");
    }

    #[test]
    fn locals_are_integers_where_integers_are_meant() {
        let name = |_: VarId| Cow::Borrowed("x");
        let mut g = Graph::default();
        let (k, zero, thousand) = (g.local(1), g.number(0.0), g.number(1000.0));
        let element = g.local_at(0, 2, k);
        let whole = |whole| crate::intrinsic::Intrinsic::Whole(whole);
        let square = g.call_intrinsic(&whole(Whole::Multiply), 0, &[k, zero, element, zero]);
        let rest = g.whole_rest(square).unwrap_or(zero);
        let modulo = g.call_intrinsic(&whole(Whole::Modulo), 0, &[square, rest, thousand, zero]);
        let printer = Printer::new(&g, &name).with_locals_in("local");
        assert_eq!(printer.text(modulo), "mod(integer(local[2])*integer(local[0 + integer(local[2])]), 1000)");
        assert_eq!(printer.text(k), "local[2]");
    }

    #[test]
    fn names_are_quoted_as_one() {
        assert_eq!(quoted("x_1"), "x_1");
        assert_eq!(quoted("a.b"), "'a.b'");
        assert_eq!(quoted("'a b'"), "'a b'");
        assert_eq!(quoted(r"'it\'s'"), r"'it\'s'");
        assert_eq!(quoted("'Tank'.'Tank'"), r"'\'Tank\'.\'Tank\''");
        assert_eq!(quoted(r"'it\'s'.x"), r"'\'it\\\'s\'.x'");
    }

    #[test]
    fn numbers_read_back_as_themselves() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..10_000 {
            let value = f64::from_bits(random.u64(..));
            if value.is_finite() {
                assert_eq!(number_text(value).parse::<f64>().unwrap().to_bits(), value.to_bits());
            }
        }
        assert_eq!(number_text(0.1), "0.1");
        assert_eq!(number_text(1e-9), "1e-9");
        assert_eq!(number_text(2.0), "2");
    }

    #[test]
    fn an_endless_text_is_cut() {
        let mut g = Graph::default();
        let mut e = g.var(VarId(0));
        for _ in 0..100 {
            e = g.mul(e, e);
        }
        let name = |_: VarId| Cow::Borrowed("x");
        let cut = Printer::new(&g, &name).with_max_length(1000).text(e);
        assert!(cut.len() < 1100 && cut.ends_with("..."));
    }

    #[test]
    fn a_chain_of_a_million_is_printed_without_recursion() {
        let mut g = Graph::default();
        let mut e = g.var(VarId(0));
        for _ in 0..1_000_000 {
            e = g.unary(UnaryOp::Sin, e);
        }
        let name = |_: VarId| Cow::Borrowed("x");
        assert_eq!(Printer::new(&g, &name).text(e).len(), 5_000_001);
    }
}
