//! Dimensions of expressions, and equations whose sides do not agree.
//!
//! Dimensions are compared everywhere; sizes of units (`mm` and `m`) and zero points (`degC` and K) only between plain
//! sums of variables, for a factor or a number may convert. Whatever has no unit is silent about everything it is
//! multiplied with; user functions are silent too.
//!
//! Numbers need care, for constants with units are folded into the equations. As a term of a sum, or a side of an
//! equation, a number has any dimension. As a factor it has none if it looks like one that was written out: a
//! multiple of 1/16 no larger than 100, or one of those times pi. Any other factor (9.81, 8.314, 1e5) may be a
//! physical constant and silences the product. Time is silent: textbook models write `sin(time)` and mean it.

use crate::finding::Finding;
use crate::flat::FlatDae;
use crate::graph::Graph;
use crate::node::{BinaryOp, ExprId, Node, UnaryOp, VarId};
use crate::source::Span;
use crate::traverse::Reach;
use crate::unit::Dimension;

/// What does not agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MismatchPlace {
    /// The sides of the equation.
    Sides,
    /// The terms of a sum or difference, the sides of a relation, the arguments of `min`, the branches of an `if` ..
    Operands {
        /// One of them.
        left: ExprId,
        /// The other.
        right: ExprId,
    },
    /// The argument of a function, or an exponent, that must have no dimension.
    Argument {
        /// The argument.
        argument: ExprId,
    },
}

/// A disagreement of dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnitMismatch {
    /// Where.
    pub place: MismatchPlace,
    /// Dimension of the left side, term or argument.
    pub left: Dimension,
    /// Dimension of the right side or term; that of plain numbers for an argument.
    pub right: Dimension,
}

/// What is known of an expression's dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reading {
    /// Not yet looked at.
    Unread,
    /// Nothing.
    Silent,
    /// A number that was written out.
    Plain,
    /// A number that may be a physical constant.
    Constant,
    /// This.
    Known(Dimension),
}

/// Checks equations, with memory of everything met so far. A disagreement inside a shared expression is told once.
#[derive(Clone, Debug, Default)]
pub struct UnitChecker {
    readings: Vec<Reading>,
    reach: Reach,
}

fn is_written_out(value: f64) -> bool {
    let is_simple = |value: f64| value.abs() <= 100.0 && (value * 16.0).fract() == 0.0;
    let turns = value / std::f64::consts::PI;
    is_simple(value) || ((turns * 16.0 - (turns * 16.0).round()).abs() < 1e-13 && turns.abs() <= 100.0)
}

impl UnitChecker {
    /// A checker that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The first disagreement in or between the two sides of an equation; `unit_of` gives the dimension of a variable
    /// where it is known.
    pub fn check(
        &mut self,
        graph: &Graph,
        lhs: ExprId,
        rhs: ExprId,
        unit_of: &dyn Fn(VarId) -> Option<Dimension>,
    ) -> Option<UnitMismatch> {
        let inside = self.read(graph, &[lhs, rhs], unit_of);
        inside.or_else(|| match (self.readings[lhs.index()], self.readings[rhs.index()]) {
            (Reading::Known(left), Reading::Known(right)) if left != right => {
                Some(UnitMismatch { place: MismatchPlace::Sides, left, right })
            }
            _ => None,
        })
    }

    /// The dimension of an expression, where it is known.
    pub fn dimension(
        &mut self,
        graph: &Graph,
        expr: ExprId,
        unit_of: &dyn Fn(VarId) -> Option<Dimension>,
    ) -> Option<Dimension> {
        self.read(graph, &[expr], unit_of);
        match self.readings[expr.index()] {
            Reading::Known(dimension) => Some(dimension),
            _ => None,
        }
    }

    fn read(
        &mut self,
        graph: &Graph,
        roots: &[ExprId],
        unit_of: &dyn Fn(VarId) -> Option<Dimension>,
    ) -> Option<UnitMismatch> {
        if self.readings.len() < graph.len() {
            self.readings.resize(graph.len(), Reading::Unread);
        }
        let readings = &mut self.readings;
        let mut first = None;
        for &expr in self.reach.below_while(graph, roots, |expr| readings[expr.index()] == Reading::Unread) {
            if readings[expr.index()] == Reading::Unread {
                let mut reader = NodeReader { graph, readings, unit_of, mismatch: None };
                let reading = reader.node(expr);
                first = first.or(reader.mismatch);
                readings[expr.index()] = reading;
            }
        }
        first
    }
}

struct NodeReader<'check> {
    graph: &'check Graph,
    readings: &'check [Reading],
    unit_of: &'check dyn Fn(VarId) -> Option<Dimension>,
    mismatch: Option<UnitMismatch>,
}

fn known(dimension: Option<Dimension>) -> Reading {
    dimension.map_or(Reading::Silent, Reading::Known)
}

impl NodeReader<'_> {
    fn of(&self, expr: ExprId) -> Reading {
        self.readings[expr.index()]
    }

    fn node(&mut self, expr: ExprId) -> Reading {
        match self.graph.node(expr) {
            Node::Number(bits) => {
                if is_written_out(f64::from_bits(bits)) {
                    Reading::Plain
                } else {
                    Reading::Constant
                }
            }
            Node::Time => Reading::Silent,
            Node::Var { var, order } => known((self.unit_of)(var).and_then(|dimension| {
                let rate = Dimension::TIME.to_power(-i32::from(order), 1)?;
                dimension.times(rate)
            })),
            Node::Pre(var) => known((self.unit_of)(var)),
            Node::Initial | Node::Terminal | Node::Sample { .. } => Reading::Known(Dimension::ONE),
            Node::Call { .. } | Node::Local(_) | Node::LocalAt { .. } => Reading::Silent,
            Node::Smooth { arg, .. } => self.of(arg),
            Node::Select { then, otherwise, .. } => self.alike(then, otherwise),
            Node::Unary { op, arg } => self.unary(op, arg),
            Node::Binary { op, lhs, rhs } => self.binary(op, lhs, rhs),
        }
    }

    fn unary(&mut self, op: UnaryOp, arg: ExprId) -> Reading {
        match op {
            UnaryOp::Neg | UnaryOp::Abs | UnaryOp::NoEvent | UnaryOp::WithEvents | UnaryOp::Ceil | UnaryOp::Floor => {
                self.of(arg)
            }
            UnaryOp::Not | UnaryOp::Sign => Reading::Known(Dimension::ONE),
            UnaryOp::Sqrt => match self.of(arg) {
                Reading::Known(dimension) => known(dimension.to_power(1, 2)),
                // The root of a number need not look written out, but is no more a physical constant than that.
                other => other,
            },
            _ => {
                self.must_be_plain(arg);
                Reading::Known(Dimension::ONE)
            }
        }
    }

    fn binary(&mut self, op: BinaryOp, lhs: ExprId, rhs: ExprId) -> Reading {
        match op {
            BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::Modulo
            | BinaryOp::Remainder
            | BinaryOp::Homotopy => self.alike(lhs, rhs),
            BinaryOp::Mul => self.product(lhs, rhs, Dimension::times),
            BinaryOp::Div | BinaryOp::Quotient => self.product(lhs, rhs, Dimension::over),
            BinaryOp::Pow => {
                self.must_be_plain(rhs);
                match (self.of(lhs), self.graph.as_number(rhs)) {
                    (Reading::Known(base), Some(exponent)) => known(base.to_real_power(exponent)),
                    (Reading::Known(base), None) if base.is_one() => Reading::Known(base),
                    (reading @ (Reading::Plain | Reading::Constant), Some(_)) => reading,
                    _ => Reading::Silent,
                }
            }
            BinaryOp::Atan2 => {
                self.alike(lhs, rhs);
                Reading::Known(Dimension::ONE)
            }
            BinaryOp::And | BinaryOp::Or => Reading::Known(Dimension::ONE),
            BinaryOp::Less
            | BinaryOp::LessEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterEqual
            | BinaryOp::Equal
            | BinaryOp::NotEqual => {
                self.alike(lhs, rhs);
                Reading::Known(Dimension::ONE)
            }
        }
    }

    /// Both must have the same dimension.
    fn alike(&mut self, left: ExprId, right: ExprId) -> Reading {
        match (self.of(left), self.of(right)) {
            (Reading::Known(a), Reading::Known(b)) => {
                if a == b {
                    return Reading::Known(a);
                }
                let place = MismatchPlace::Operands { left, right };
                self.mismatch = Some(UnitMismatch { place, left: a, right: b });
                Reading::Silent
            }
            (Reading::Known(dimension), _) | (_, Reading::Known(dimension)) => Reading::Known(dimension),
            (Reading::Plain, Reading::Plain) => Reading::Plain,
            (Reading::Plain | Reading::Constant, Reading::Plain | Reading::Constant) => Reading::Constant,
            _ => Reading::Silent,
        }
    }

    fn product(&self, left: ExprId, right: ExprId, combine: fn(Dimension, Dimension) -> Option<Dimension>) -> Reading {
        match (self.of(left), self.of(right)) {
            (Reading::Known(a), Reading::Known(b)) => known(combine(a, b)),
            (Reading::Known(a), Reading::Plain) => Reading::Known(a),
            (Reading::Plain, Reading::Known(b)) => known(combine(Dimension::ONE, b)),
            (Reading::Plain, Reading::Plain) => Reading::Plain,
            (Reading::Plain | Reading::Constant, Reading::Plain | Reading::Constant) => Reading::Constant,
            _ => Reading::Silent,
        }
    }

    fn must_be_plain(&mut self, argument: ExprId) {
        if let Reading::Known(dimension) = self.of(argument)
            && !dimension.is_one()
        {
            let place = MismatchPlace::Argument { argument };
            self.mismatch = Some(UnitMismatch { place, left: dimension, right: Dimension::ONE });
        }
    }
}

/// Sums with more terms are not looked at for zero points and sizes of units.
const MAX_TERMS: usize = 50;

/// What the variables of a plain sum say of its numbers. Numbers and products are silent: they may convert.
struct PlainSum<'a> {
    flat: &'a FlatDae,
    n_terms: usize,
    /// How often the sum counts the zero point of a scale that has one of its own (`degC`): a temperature in degC
    /// counts it once, one in K or a difference not at all.
    zeros: i32,
    /// A unit with a zero point of its own that was met.
    zero_unit: Option<&'a str>,
    /// The units that were met, with their factor to the SI unit; the first of each size.
    sizes: Vec<(&'a str, f64)>,
}

impl<'a> PlainSum<'a> {
    /// The sum, where all its terms are variables with units.
    fn of(flat: &'a FlatDae, expr: ExprId) -> Option<Self> {
        let mut sum = Self { flat, n_terms: 0, zeros: 0, zero_unit: None, sizes: Vec::new() };
        sum.add(expr, 1)?;
        Some(sum)
    }

    fn add(&mut self, expr: ExprId, sign: i32) -> Option<()> {
        match self.flat.graph.node(expr) {
            Node::Var { var, order: 0 } => {
                self.n_terms += 1;
                let unit = self.flat.variables[var.index()].unit.as_ref().filter(|_| self.n_terms <= MAX_TERMS)?;
                let measure = unit.measure()?;
                if measure.offset != 0.0 {
                    self.zero_unit = Some(&unit.text);
                    self.zeros += sign;
                }
                if !self.sizes.iter().any(|(_, size)| is_same_size(*size, measure.scale)) {
                    self.sizes.push((&unit.text, measure.scale));
                }
                Some(())
            }
            Node::Unary { op: UnaryOp::Neg, arg } => self.add(arg, -sign),
            Node::Binary { op: BinaryOp::Add, lhs, rhs } => self.add(lhs, sign).and_then(|()| self.add(rhs, sign)),
            Node::Binary { op: BinaryOp::Sub, lhs, rhs } => self.add(lhs, sign).and_then(|()| self.add(rhs, -sign)),
            _ => None,
        }
    }
}

/// Whether two factors to an SI unit are the same but for rounding.
fn is_same_size(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

/// What is wrong with the numbers of two things that must be alike although their dimensions agree: units of other
/// sizes (bar and Pa), or other zero points (degC and K).
fn different_numbers(flat: &FlatDae, lhs: ExprId, rhs: ExprId, text: &dyn Fn(ExprId) -> String) -> Option<Finding> {
    let (left, right) = (PlainSum::of(flat, lhs)?, PlainSum::of(flat, rhs)?);
    let mut sizes = left.sizes;
    sizes.extend(right.sizes);
    let &(first, size) = sizes.first()?;
    if let Some((other, other_size)) = sizes.iter().find(|(_, other)| !is_same_size(size, *other)) {
        return Some(sizes_differ(&[lhs, rhs], (first, size), (other, *other_size), text));
    }
    let unit = left.zero_unit.or(right.zero_unit)?;
    if left.zeros == right.zeros {
        return None;
    }
    let words = |expr: ExprId, count: i32| match count {
        0 => format!("`{}` counts from absolute zero, or is a difference", text(expr)),
        1 => format!("`{}` is in {unit}", text(expr)),
        n => format!("`{}` adds the zero point of {unit} {n} times", text(expr)),
    };
    let message =
        format!("temperatures of different zero points: {}, {}", words(lhs, left.zeros), words(rhs, right.zeros));
    Some(Finding::warning("unit-mismatch", Span::NONE, message).with_help(CONVERT_ZERO))
}

const CONVERT_ZERO: &str = "convert one of them, such as `T_kelvin = T_celsius + 273.15`";

fn sizes_differ(of: &[ExprId], one: (&str, f64), other: (&str, f64), text: &dyn Fn(ExprId) -> String) -> Finding {
    let shown: Vec<String> = of.iter().map(|&expr| format!("`{}`", text(expr))).collect();
    let (large, small) = if one.1 > other.1 { (one, other) } else { (other, one) };
    let factor = large.1 / small.1;
    let message = format!(
        "units of different sizes, {} and {}, meet in {}: one {} is {factor} {}",
        one.0,
        other.0,
        shown.join(" and "),
        large.0,
        small.0
    );
    let help = format!("convert one of them: a value in {} times {factor} is one in {}", large.0, small.0);
    Finding::warning("unit-mismatch", Span::NONE, message).with_help(help)
}

/// The first sum or comparison inside an equation whose terms are in units of other sizes or zero points.
///
/// A plain sum that is a factor or an argument must be a difference where it is one of several temperatures: `G*(T1 -
/// T2)` with one in degC and the other in K is off by 273.15 G.
fn inside(
    flat: &FlatDae,
    roots: &[ExprId],
    seen: &mut [bool],
    reach: &mut Reach,
    text: &dyn Fn(ExprId) -> String,
) -> Option<Finding> {
    for &expr in reach.below_while(&flat.graph, roots, |expr| !seen[expr.index()]) {
        if std::mem::replace(&mut seen[expr.index()], true) {
            continue;
        }
        let found = match flat.graph.node(expr) {
            Node::Binary {
                op:
                    BinaryOp::Less
                    | BinaryOp::LessEqual
                    | BinaryOp::Greater
                    | BinaryOp::GreaterEqual
                    | BinaryOp::Equal
                    | BinaryOp::NotEqual
                    | BinaryOp::Min
                    | BinaryOp::Max,
                lhs,
                rhs,
            }
            | Node::Select { then: lhs, otherwise: rhs, .. } => different_numbers(flat, lhs, rhs, text),
            Node::Binary { op: BinaryOp::Mul | BinaryOp::Div | BinaryOp::Pow, lhs, rhs } => {
                [lhs, rhs].into_iter().find_map(|factor| mixed_sum(flat, factor, text))
            }
            Node::Binary { op: BinaryOp::Add | BinaryOp::Sub, .. } => {
                PlainSum::of(flat, expr).and_then(|sum| mixed_sizes(&sum, expr, text))
            }
            Node::Unary { op, arg } if op != UnaryOp::Neg => mixed_sum(flat, arg, text),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

fn mixed_sizes(sum: &PlainSum<'_>, expr: ExprId, text: &dyn Fn(ExprId) -> String) -> Option<Finding> {
    let [one, other, ..] = sum.sizes[..] else { return None };
    Some(sizes_differ(&[expr], one, other, text))
}

/// What is wrong with a sum of several variables that is a factor or an argument.
fn mixed_sum(flat: &FlatDae, expr: ExprId, text: &dyn Fn(ExprId) -> String) -> Option<Finding> {
    let sum = PlainSum::of(flat, expr).filter(|sum| sum.n_terms > 1)?;
    if let Some(finding) = mixed_sizes(&sum, expr, text) {
        return Some(finding);
    }
    let unit = sum.zero_unit.filter(|_| sum.zeros != 0)?;
    let message = format!("temperatures in {unit} and in K meet in `{}`, which is then no difference", text(expr));
    Some(Finding::warning("unit-mismatch", Span::NONE, message).with_help(CONVERT_ZERO))
}

/// What to do where dimensions do not agree.
const DECLARED: &str = "correct the equation, or the `unit` of the variable whose declaration is wrong";

/// No more of an expression than this is shown in a finding.
const SHOWN: usize = 80;

impl FlatDae {
    /// A warning for each equation and each value of a parameter whose dimensions do not agree.
    #[must_use]
    pub fn check_units(&self) -> Vec<Finding> {
        let dimensions: Vec<Option<Dimension>> =
            self.variables.iter().map(|variable| variable.unit.as_ref()?.dimension()).collect();
        let unit_of = |var: VarId| dimensions.get(var.index()).copied().flatten();
        let name = |var: VarId| self.variables[var.index()].name.as_str().into();
        let printer = crate::print::Printer::new(&self.graph, &name).with_max_length(SHOWN);
        let shown = |expr: ExprId, dimension: Dimension| format!("`{}` in {dimension}", printer.text(expr));
        let text = |expr: ExprId| printer.text(expr);
        let mut checker = UnitChecker::new();
        let (mut seen, mut reach) = (vec![false; self.graph.len()], Reach::default());
        let mut findings = Vec::new();
        for equation in self.equations.iter().chain(&self.initial_equations) {
            if let Some(mismatch) = checker.check(&self.graph, equation.lhs, equation.rhs, &unit_of) {
                let message = match mismatch.place {
                    MismatchPlace::Sides => format!(
                        "the sides of the equation have different dimensions: {} and {}",
                        shown(equation.lhs, mismatch.left),
                        shown(equation.rhs, mismatch.right)
                    ),
                    _ => mismatch_inside(&mismatch, &shown),
                };
                findings.push(Finding::warning("unit-mismatch", equation.span, message).with_help(DECLARED));
            } else if let Some(finding) = different_numbers(self, equation.lhs, equation.rhs, &text).or_else(|| {
                let sides = [equation.lhs, equation.rhs];
                inside(self, &sides, &mut seen, &mut reach, &text)
            }) {
                findings.push(Finding { span: equation.span, ..finding });
            }
        }
        for (variable, &dimension) in self.variables.iter().zip(&dimensions) {
            let (Some(binding), Some(declared)) = (variable.binding, dimension) else { continue };
            let inside = checker.check(&self.graph, binding, binding, &unit_of);
            let message = if let Some(mismatch) = inside {
                mismatch_inside(&mismatch, &shown)
            } else {
                match checker.dimension(&self.graph, binding, &unit_of) {
                    Some(given) if given != declared => {
                        format!("`{}` in {declared} gets the value {}", variable.name, shown(binding, given))
                    }
                    _ => continue,
                }
            };
            let finding =
                Finding::warning("unit-mismatch", variable.span, message).with_names([variable.name.as_str()]);
            findings.push(finding.with_help(DECLARED));
        }
        findings
    }
}

fn mismatch_inside(mismatch: &UnitMismatch, shown: &dyn Fn(ExprId, Dimension) -> String) -> String {
    match mismatch.place {
        MismatchPlace::Operands { left, right } => {
            format!(
                "terms have different dimensions: {} and {}",
                shown(left, mismatch.left),
                shown(right, mismatch.right)
            )
        }
        MismatchPlace::Argument { argument } => {
            format!("an argument must be a plain number, but is {}", shown(argument, mismatch.left))
        }
        MismatchPlace::Sides => format!("dimensions {} and {} differ", mismatch.left, mismatch.right),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Unit;

    fn unit_of(var: VarId) -> Option<Dimension> {
        let text = ["V", "A", "Ohm", "H", "", "rad", "m"][var.index()];
        Unit::parse(text).dimension()
    }

    #[test]
    fn an_inductor_agrees_and_a_slip_does_not() {
        let mut g = Graph::default();
        let (v, i, r, l) = (g.var(VarId(0)), g.var(VarId(1)), g.var(VarId(2)), g.var(VarId(3)));
        let di = g.der(VarId(1), 1);
        let (a, b) = (g.mul(l, di), g.mul(r, i));
        let sum = g.add(a, b);
        let mut checker = UnitChecker::new();
        assert_eq!(checker.check(&g, v, sum, &unit_of), None);
        let slip = g.mul(l, i);
        let mismatch = checker.check(&g, v, slip, &unit_of).unwrap();
        assert_eq!(mismatch.place, MismatchPlace::Sides);
        assert_eq!(mismatch.left.to_string(), "kg.m2/(s3.A)");
        assert_eq!(mismatch.right.to_string(), "kg.m2/(s2.A)");
        let inner = g.sub(slip, b);
        let mismatch = checker.check(&g, v, inner, &unit_of).unwrap();
        assert_eq!(mismatch.place, MismatchPlace::Operands { left: slip, right: b });
    }

    #[test]
    fn what_has_no_unit_and_physical_constants_are_silent() {
        let mut g = Graph::default();
        let (v, i, u) = (g.var(VarId(0)), g.var(VarId(1)), g.var(VarId(4)));
        let mut checker = UnitChecker::new();
        let product = g.mul(u, i);
        assert_eq!(checker.check(&g, v, product, &unit_of), None);
        let gravity = g.number(9.81);
        let product = g.mul(gravity, i);
        assert_eq!(checker.check(&g, v, product, &unit_of), None);
        let offset = g.number(273.15);
        let shifted = g.add(v, offset);
        assert_eq!(checker.check(&g, v, shifted, &unit_of), None);
        let two = g.number(2.0);
        let double = g.mul(two, i);
        assert!(checker.check(&g, v, double, &unit_of).is_some());
        let turns = g.number(std::f64::consts::TAU);
        let turned = g.mul(turns, i);
        assert!(checker.check(&g, v, turned, &unit_of).is_some());
    }

    #[test]
    fn functions_want_plain_numbers_and_angles_are_such() {
        let mut g = Graph::default();
        let (angle, length) = (g.var(VarId(5)), g.var(VarId(6)));
        let mut checker = UnitChecker::new();
        let sine = g.unary(UnaryOp::Sin, angle);
        let height = g.mul(length, sine);
        assert_eq!(checker.check(&g, length, height, &unit_of), None);
        let wrong = g.unary(UnaryOp::Sin, length);
        let mismatch = checker.check(&g, sine, wrong, &unit_of).unwrap();
        assert_eq!(mismatch.place, MismatchPlace::Argument { argument: length });
        let area = g.mul(length, length);
        let root = g.unary(UnaryOp::Sqrt, area);
        assert_eq!(checker.check(&g, root, length, &unit_of), None);
        let t = g.time();
        let speed = g.div(length, t);
        let rate = g.der(VarId(6), 1);
        assert_eq!(checker.check(&g, speed, rate, &unit_of), None);
        let wave = g.unary(UnaryOp::Sin, t);
        assert_eq!(checker.check(&g, sine, wave, &unit_of), None);
    }
}
