//! Taylor coefficients of expressions along a curve.
//!
//! With x(t + h) = x_0 + x_1 h + x_2 h^2 + .. for every variable, the coefficients of an expression follow from those
//! of its arguments by recurrences, one for each operation [@griewank2008, ch. 13]:
//!
//! ```text
//! (a b)_k = sum_j a_j b_(k-j)        (a / b)_k = (a_k - sum_(j>0) b_j c_(k-j)) / b_0        k exp(a)_k = sum_(j>0) j a_j c_(k-j)
//! ```
//!
//! so that all derivatives up to order k cost O(k^2) per operation, where differentiating the expression k times
//! would let it grow without bound. Branches are taken as they are taken at the point; relations and `floor` are
//! constant, as in [`crate::derivative`].

use crate::graph::Graph;
use crate::node::{BinaryOp, ExprId, Node, UnaryOp, VarId};
use crate::scalar::{apply_binary, apply_unary, is_true};
use crate::traverse::Reach;

/// A curve on which expressions are expanded.
pub trait Curve {
    /// Taylor coefficient `k` of the `order`-th time derivative of a variable: x^(order + k) / k!.
    fn coefficient(&self, var: VarId, order: u16, k: usize) -> f64;

    /// The time of the expansion.
    fn time(&self) -> f64;
}

/// Expands expressions; keeps its memory between calls.
#[derive(Clone, Debug, Default)]
pub struct TaylorEvaluator {
    reach: Reach,
    values: Vec<f64>,
    position: Vec<u32>,
}

impl TaylorEvaluator {
    /// An evaluator without memory.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The coefficients 0 ..= `order` of every root, root after root. Calls of functions give NaN: differentiate those
    /// symbolically.
    pub fn evaluate(&mut self, graph: &Graph, roots: &[ExprId], order: usize, curve: &dyn Curve) -> Vec<f64> {
        let n = order + 1;
        let below = self.reach.below(graph, roots);
        self.values.clear();
        self.values.resize(below.len() * n, 0.0);
        if self.position.len() < graph.len() {
            self.position.resize(graph.len(), 0);
        }
        for (at, &expr) in below.iter().enumerate() {
            self.position[expr.index()] = at as u32;
            let (known, rest) = self.values.split_at_mut(at * n);
            let position = &self.position;
            let of = |expr: ExprId| {
                let start = position[expr.index()] as usize * n;
                &known[start..start + n]
            };
            expand(graph, expr, &of, curve, &mut rest[..n]);
        }
        let mut found = Vec::with_capacity(roots.len() * n);
        for root in roots {
            let start = self.position[root.index()] as usize * n;
            found.extend_from_slice(&self.values[start..start + n]);
        }
        found
    }
}

fn expand<'a>(graph: &Graph, expr: ExprId, of: &dyn Fn(ExprId) -> &'a [f64], curve: &dyn Curve, out: &mut [f64]) {
    match graph.node(expr) {
        Node::Number(bits) => out[0] = f64::from_bits(bits),
        Node::Time => {
            out[0] = curve.time();
            if let Some(slope) = out.get_mut(1) {
                *slope = 1.0;
            }
        }
        Node::Var { var, order } => {
            for (k, value) in out.iter_mut().enumerate() {
                *value = curve.coefficient(var, order, k);
            }
        }
        Node::Pre(var) => out[0] = curve.coefficient(var, 0, 0),
        Node::Unary { op, arg } => expand_unary(op, of(arg), out),
        Node::Binary { op, lhs, rhs } => expand_binary(op, of(lhs), of(rhs), out),
        Node::Select { condition, then, otherwise } => {
            out.copy_from_slice(of(if is_true(of(condition)[0]) { then } else { otherwise }));
        }
        Node::Smooth { arg, .. } => out.copy_from_slice(of(arg)),
        Node::Call { .. } | Node::Local(_) | Node::LocalAt { .. } => out.fill(f64::NAN),
        Node::Sample { .. } | Node::Initial | Node::Terminal => {}
    }
}

fn is_constant(series: &[f64]) -> bool {
    series[1..].iter().all(|&value| value == 0.0)
}

fn product(a: &[f64], b: &[f64], out: &mut [f64]) {
    for k in 0..out.len() {
        out[k] = (0..=k).map(|j| a[j] * b[k - j]).sum();
    }
}

fn quotient(a: &[f64], b: &[f64], out: &mut [f64]) {
    for k in 0..out.len() {
        let taken: f64 = (1..=k).map(|j| b[j] * out[k - j]).sum();
        out[k] = (a[k] - taken) / b[0];
    }
}

/// Integrates c' = a' w, given c_0.
fn primitive(a: &[f64], w: &[f64], out: &mut [f64]) {
    for k in 1..out.len() {
        let sum: f64 = (1..=k).map(|j| j as f64 * a[j] * w[k - j]).sum();
        out[k] = sum / k as f64;
    }
}

/// s' = c a', c' = +-s a' together.
fn pair(a: &[f64], sine: &mut [f64], cosine: &mut [f64], sign: f64) {
    for k in 1..sine.len() {
        let (mut s, mut c) = (0.0, 0.0);
        for j in 1..=k {
            s += j as f64 * a[j] * cosine[k - j];
            c += j as f64 * a[j] * sine[k - j];
        }
        sine[k] = s / k as f64;
        cosine[k] = sign * c / k as f64;
    }
}

fn logarithm(a: &[f64], out: &mut [f64]) {
    out[0] = libm::log(a[0]);
    for k in 1..out.len() {
        let sum: f64 = (1..k).map(|j| j as f64 * out[j] * a[k - j]).sum();
        out[k] = (a[k] - sum / k as f64) / a[0];
    }
}

fn exponential(a: &[f64], out: &mut [f64]) {
    out[0] = libm::exp(a[0]);
    for k in 1..out.len() {
        let sum: f64 = (1..=k).map(|j| j as f64 * a[j] * out[k - j]).sum();
        out[k] = sum / k as f64;
    }
}

fn square_root(a: &[f64], out: &mut [f64]) {
    out[0] = a[0].sqrt();
    if is_constant(a) {
        return;
    }
    for k in 1..out.len() {
        let sum: f64 = (1..k).map(|j| out[j] * out[k - j]).sum();
        out[k] = (a[k] - sum) / (2.0 * out[0]);
    }
}

fn expand_unary(op: UnaryOp, a: &[f64], out: &mut [f64]) {
    let n = out.len();
    out[0] = apply_unary(op, a[0]);
    match op {
        UnaryOp::Neg => out.iter_mut().zip(a).for_each(|(out, a)| *out = -a),
        UnaryOp::NoEvent | UnaryOp::WithEvents => out.copy_from_slice(a),
        UnaryOp::Abs => {
            let sign = if a[0] >= 0.0 { 1.0 } else { -1.0 };
            out.iter_mut().zip(a).for_each(|(out, a)| *out = sign * a);
        }
        UnaryOp::Not | UnaryOp::Sign | UnaryOp::Ceil | UnaryOp::Floor => {}
        _ if is_constant(a) => {}
        UnaryOp::Sqrt => square_root(a, out),
        UnaryOp::Exp => exponential(a, out),
        UnaryOp::Log => logarithm(a, out),
        UnaryOp::Log10 => {
            logarithm(a, out);
            out.iter_mut().for_each(|value| *value /= std::f64::consts::LN_10);
        }
        UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Sinh | UnaryOp::Cosh => {
            let mut other = vec![0.0; n];
            let (is_sine, sign, cofunction) = match op {
                UnaryOp::Sin => (true, -1.0, UnaryOp::Cos),
                UnaryOp::Cos => (false, -1.0, UnaryOp::Sin),
                UnaryOp::Sinh => (true, 1.0, UnaryOp::Cosh),
                _ => (false, 1.0, UnaryOp::Sinh),
            };
            other[0] = apply_unary(cofunction, a[0]);
            if is_sine { pair(a, out, &mut other, sign) } else { pair(a, &mut other, out, sign) }
        }
        UnaryOp::Tan | UnaryOp::Tanh => {
            // c' = (1 + sign c^2) a'
            let sign = if op == UnaryOp::Tan { 1.0 } else { -1.0 };
            let mut w = vec![0.0; n];
            w[0] = 1.0 + sign * out[0] * out[0];
            for k in 1..n {
                let sum: f64 = (1..=k).map(|j| j as f64 * a[j] * w[k - j]).sum();
                out[k] = sum / k as f64;
                w[k] = sign * (0..=k).map(|j| out[j] * out[k - j]).sum::<f64>();
            }
        }
        UnaryOp::Asin | UnaryOp::Acos | UnaryOp::Atan => {
            let (mut square, mut w, mut one) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
            product(a, a, &mut square);
            let sign = if op == UnaryOp::Atan { 1.0 } else { -1.0 };
            square.iter_mut().for_each(|value| *value *= sign);
            square[0] += 1.0;
            if op != UnaryOp::Atan {
                let radicand = square.clone();
                square_root(&radicand, &mut square);
            }
            one[0] = if op == UnaryOp::Acos { -1.0 } else { 1.0 };
            quotient(&one, &square, &mut w);
            primitive(a, &w, out);
        }
    }
}

/// a^p for a natural p, by squaring.
fn natural_power(a: &[f64], p: u32, out: &mut [f64]) {
    let n = out.len();
    let mut base = a.to_vec();
    let mut result = vec![0.0; n];
    result[0] = 1.0;
    let mut scratch = vec![0.0; n];
    let mut left = p;
    while left > 0 {
        if left & 1 == 1 {
            product(&result, &base, &mut scratch);
            result.copy_from_slice(&scratch);
        }
        left >>= 1;
        if left > 0 {
            product(&base, &base, &mut scratch);
            base.copy_from_slice(&scratch);
        }
    }
    out.copy_from_slice(&result);
}

fn power(a: &[f64], b: &[f64], out: &mut [f64]) {
    const MAX_NATURAL: f64 = 64.0;
    out[0] = apply_binary(BinaryOp::Pow, a[0], b[0]);
    if is_constant(a) && is_constant(b) {
        return;
    }
    if !is_constant(b) {
        let (mut log, mut exponent) = (vec![0.0; out.len()], vec![0.0; out.len()]);
        logarithm(a, &mut log);
        product(&log, b, &mut exponent);
        exponential(&exponent, out);
        return;
    }
    let p = b[0];
    if (0.0..=MAX_NATURAL).contains(&p) && p.fract() == 0.0 {
        natural_power(a, p as u32, out);
        return;
    }
    for k in 1..out.len() {
        let sum: f64 = (1..=k).map(|j| (p * j as f64 - (k - j) as f64) * a[j] * out[k - j]).sum();
        out[k] = sum / (k as f64 * a[0]);
    }
}

fn expand_binary(op: BinaryOp, a: &[f64], b: &[f64], out: &mut [f64]) {
    let n = out.len();
    let choose = |out: &mut [f64], takes_left: bool| out.copy_from_slice(if takes_left { a } else { b });
    match op {
        BinaryOp::Add => out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = a + b),
        BinaryOp::Sub => out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = a - b),
        BinaryOp::Mul => product(a, b, out),
        BinaryOp::Div => quotient(a, b, out),
        BinaryOp::Pow => power(a, b, out),
        BinaryOp::Atan2 => {
            out[0] = apply_binary(op, a[0], b[0]);
            // c' = (a' b - a b') / (a^2 + b^2)
            let (mut a2, mut b2, mut w, mut one) = (vec![0.0; n], vec![0.0; n], vec![0.0; n], vec![0.0; n]);
            product(a, a, &mut a2);
            product(b, b, &mut b2);
            a2.iter_mut().zip(&b2).for_each(|(a, b)| *a += b);
            one[0] = 1.0;
            quotient(&one, &a2, &mut w);
            let (mut left, mut right) = (vec![0.0; n], vec![0.0; n]);
            product(b, &w, &mut left);
            product(a, &w, &mut right);
            let (mut first, mut second) = (vec![0.0; n], vec![0.0; n]);
            primitive(a, &left, &mut first);
            primitive(b, &right, &mut second);
            for k in 1..n {
                out[k] = first[k] - second[k];
            }
        }
        BinaryOp::Min => choose(out, a[0] <= b[0] || a[0].is_nan()),
        BinaryOp::Max => choose(out, a[0] >= b[0] || a[0].is_nan()),
        BinaryOp::Homotopy => out.copy_from_slice(a),
        BinaryOp::Modulo | BinaryOp::Remainder => {
            let ratio = a[0] / b[0];
            let whole = if op == BinaryOp::Modulo { ratio.floor() } else { ratio.trunc() };
            out.iter_mut().zip(a.iter().zip(b)).for_each(|(out, (a, b))| *out = a - whole * b);
        }
        BinaryOp::Quotient
        | BinaryOp::Less
        | BinaryOp::LessEqual
        | BinaryOp::Greater
        | BinaryOp::GreaterEqual
        | BinaryOp::Equal
        | BinaryOp::NotEqual
        | BinaryOp::And
        | BinaryOp::Or => out[0] = apply_binary(op, a[0], b[0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::{Environment, Evaluator};
    use crate::flat::VariableKind;

    /// x = sin(3 t) + 2, y = exp(-t) / 2, by their derivatives.
    struct Given;

    fn derivative(var: VarId, order: usize, t: f64) -> f64 {
        let quarter = std::f64::consts::FRAC_PI_2;
        match var.0 {
            0 => {
                3f64.powi(order as i32) * (3.0 * t + quarter * order as f64).sin()
                    + f64::from(u8::from(order == 0)) * 2.0
            }
            _ => 0.5 * (-1f64).powi(order as i32) * (-t).exp(),
        }
    }

    const AT: f64 = 0.3;

    impl Curve for Given {
        fn coefficient(&self, var: VarId, order: u16, k: usize) -> f64 {
            let factorial: f64 = (1..=k).map(|j| j as f64).product();
            derivative(var, usize::from(order) + k, AT) / factorial
        }

        fn time(&self) -> f64 {
            AT
        }
    }

    impl Environment for Given {
        fn value(&self, var: VarId, order: u16) -> f64 {
            derivative(var, usize::from(order), AT)
        }

        fn time(&self) -> f64 {
            AT
        }
    }

    /// Every operation against the symbolic derivatives, four times differentiated.
    #[test]
    fn coefficients_are_those_of_the_symbolic_derivatives() {
        let mut g = Graph::default();
        let (x, y, t) = (g.var(VarId(0)), g.var(VarId(1)), g.time());
        let dx = g.der(VarId(0), 1);
        let mut roots = Vec::new();
        for op in [
            UnaryOp::Neg,
            UnaryOp::Abs,
            UnaryOp::Sqrt,
            UnaryOp::Exp,
            UnaryOp::Log,
            UnaryOp::Log10,
            UnaryOp::Sin,
            UnaryOp::Cos,
            UnaryOp::Tan,
            UnaryOp::Asin,
            UnaryOp::Acos,
            UnaryOp::Atan,
            UnaryOp::Sinh,
            UnaryOp::Cosh,
            UnaryOp::Tanh,
        ] {
            let inner = g.mul(y, y);
            let one = g.unary(op, inner);
            roots.push(g.mul(one, x));
        }
        for op in [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Pow, BinaryOp::Atan2] {
            let two = g.binary(op, x, y);
            roots.push(g.add(two, dx));
            roots.push(g.binary(op, two, t));
        }
        for op in [BinaryOp::Min, BinaryOp::Max, BinaryOp::Modulo, BinaryOp::Remainder] {
            roots.push(g.binary(op, x, y));
        }
        for exponent in [3.0, 0.5, -2.0, 1.7] {
            let p = g.number(exponent);
            roots.push(g.pow(x, p));
        }
        let order = 4;
        let found = TaylorEvaluator::new().evaluate(&g, &roots, order, &Given);
        for (at, &root) in roots.iter().enumerate() {
            let (mut expr, mut factorial) = (root, 1.0);
            for k in 0..=order {
                if k > 0 {
                    expr = g.total_time_derivative(expr, &|_| VariableKind::Continuous);
                    factorial *= k as f64;
                }
                let expected = Evaluator::new().evaluate_one(&g, expr, &Given) / factorial;
                let got = found[at * (order + 1) + k];
                let size = expected.abs().max(1.0);
                assert!((expected - got).abs() < 1e-9 * size, "root {at}, coefficient {k}: {expected} and {got}");
            }
        }
    }
}
