//! Random expressions, made twice: raw as written, and through the simplifying constructors.

use daesy_graph::{BinaryOp, Environment, ExprId, Graph, Node, UnaryOp, VarId};
use fastrand::Rng;

/// The same expression in two forms.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    pub raw: ExprId,
    pub simple: ExprId,
}

const SMOOTH_UNARY: &[UnaryOp] = &[
    UnaryOp::Neg,
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
    UnaryOp::NoEvent,
];
const OTHER_UNARY: &[UnaryOp] = &[UnaryOp::Abs, UnaryOp::Sign, UnaryOp::Ceil, UnaryOp::Floor];
const ARITHMETIC: &[BinaryOp] = &[
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Pow,
    BinaryOp::Atan2,
];
const OTHER_BINARY: &[BinaryOp] =
    &[BinaryOp::Min, BinaryOp::Max, BinaryOp::Quotient, BinaryOp::Modulo, BinaryOp::Remainder, BinaryOp::Homotopy];
const RELATIONS: &[BinaryOp] = &[
    BinaryOp::Less,
    BinaryOp::LessEqual,
    BinaryOp::Greater,
    BinaryOp::GreaterEqual,
    BinaryOp::Equal,
    BinaryOp::NotEqual,
];
const NUMBERS: &[f64] = &[0.0, 1.0, -1.0, 2.0, 3.0, 0.5, -2.5, 1.5, 0.0, 1.0];

/// Grows expressions from a pool: a new one takes its arguments from those before, so that parts are shared.
pub struct Grower {
    pub rng: Rng,
    pub values: Vec<Pair>,
    pub truths: Vec<Pair>,
}

fn pick<T: Copy>(rng: &mut Rng, list: &[T]) -> T {
    list[rng.usize(..list.len())]
}

impl Grower {
    /// Starts with the leaves `x0 .. xn`, `der(x0)` and time.
    pub fn new(graph: &mut Graph, seed: u64, n_vars: u32) -> Self {
        let mut values = Vec::new();
        for var in 0..n_vars {
            let expr = graph.var(VarId(var));
            values.push(Pair { raw: expr, simple: expr });
        }
        let (dx, time) = (graph.der(VarId(0), 1), graph.time());
        values.push(Pair { raw: dx, simple: dx });
        values.push(Pair { raw: time, simple: time });
        Self { rng: Rng::with_seed(seed), values, truths: Vec::new() }
    }

    fn value(&mut self, graph: &mut Graph) -> Pair {
        if self.rng.u8(..8) == 0 {
            let number = graph.number(pick(&mut self.rng, NUMBERS));
            return Pair { raw: number, simple: number };
        }
        // Recent ones more often, so that expressions get deep.
        let n = self.values.len();
        let from = if self.rng.bool() { n.saturating_sub(6) } else { 0 };
        self.values[self.rng.usize(from..n)]
    }

    fn truth(&mut self, graph: &mut Graph) -> Pair {
        if self.truths.is_empty() || self.rng.u8(..4) == 0 {
            let op = pick(&mut self.rng, RELATIONS);
            let (a, b) = (self.value(graph), self.value(graph));
            Pair { raw: graph.raw_binary(op, a.raw, b.raw), simple: graph.binary(op, a.simple, b.simple) }
        } else {
            pick(&mut self.rng, &self.truths)
        }
    }

    /// Adds one expression to the pool.
    pub fn grow(&mut self, graph: &mut Graph) -> Pair {
        let choice = self.rng.u8(..20);
        if choice == 0 {
            let (a, b) = (self.truth(graph), self.truth(graph));
            let made = match self.rng.u8(..3) {
                0 => Pair { raw: graph.raw_unary(UnaryOp::Not, a.raw), simple: graph.not(a.simple) },
                1 => Pair { raw: graph.raw_binary(BinaryOp::And, a.raw, b.raw), simple: graph.and(a.simple, b.simple) },
                _ => Pair { raw: graph.raw_binary(BinaryOp::Or, a.raw, b.raw), simple: graph.or(a.simple, b.simple) },
            };
            self.truths.push(made);
            return made;
        }
        let (a, b) = (self.value(graph), self.value(graph));
        let made = match choice {
            1 => {
                let condition = self.truth(graph);
                let raw = Node::Select { condition: condition.raw, then: a.raw, otherwise: b.raw };
                Pair { raw: graph.intern(raw), simple: graph.select(condition.simple, a.simple, b.simple) }
            }
            2 => {
                let raw = graph.intern(Node::Smooth { order: 1, arg: a.raw });
                Pair { raw, simple: graph.smooth(1, a.simple) }
            }
            3 => self.binary(graph, OTHER_BINARY, a, b),
            4 => self.unary(graph, OTHER_UNARY, a),
            5..=9 => self.unary(graph, SMOOTH_UNARY, a),
            _ => self.binary(graph, ARITHMETIC, a, b),
        };
        self.values.push(made);
        made
    }

    fn unary(&mut self, graph: &mut Graph, ops: &[UnaryOp], a: Pair) -> Pair {
        let op = pick(&mut self.rng, ops);
        Pair { raw: graph.raw_unary(op, a.raw), simple: graph.unary(op, a.simple) }
    }

    fn binary(&mut self, graph: &mut Graph, ops: &[BinaryOp], a: Pair, b: Pair) -> Pair {
        let op = pick(&mut self.rng, ops);
        Pair { raw: graph.raw_binary(op, a.raw, b.raw), simple: graph.binary(op, a.simple, b.simple) }
    }
}

/// Values of variables and their first derivatives.
#[derive(Clone, Debug)]
pub struct Point {
    pub time: f64,
    pub values: Vec<f64>,
    pub rates: Vec<f64>,
}

impl Point {
    pub fn random(rng: &mut Rng, n_vars: usize) -> Self {
        let mut number = || 3.0 * rng.f64() - 1.0;
        Self {
            time: number(),
            values: (0..n_vars).map(|_| number()).collect(),
            rates: (0..n_vars).map(|_| number()).collect(),
        }
    }
}

impl Environment for Point {
    fn value(&self, var: VarId, order: u16) -> f64 {
        match order {
            0 => self.values[var.index()],
            1 => self.rates[var.index()],
            _ => f64::NAN,
        }
    }

    fn time(&self) -> f64 {
        self.time
    }
}
