//! When what depends on time alone jumps or bends: relations, whole numbers, absolute values, the smaller and larger of
//! two.
//!
//! `abs(time - 37) < 1e-3` is true for so short a time that no step sees it, and `sin(30*time) > 0` changes between the
//! points that one looks at. Bounds over intervals (module `enclosure`) tell for certain where nothing changes. An
//! interval in which something may change is searched from the left: where the functions in question are monotonous, by
//! bisection down to two neighbouring numbers, or near zero to a part of 1e-18 of the span, else in its halves: at a time
//! of 1e-320, sources that are zero at zero have values without digits. A change and back again within a part of 1e-9 of
//! the span is not looked for.

use daesy_graph::flat::VariableKind;
use daesy_graph::regular::RegularDae;
use daesy_graph::{BinaryOp, ExprId, Graph, Leaf, Node, Reach, Substitution, UnaryOp, VarId};
use rustc_hash::FxHashSet;

use crate::enclosure::{Bound, Range, TimeProgram};
use crate::timed::Timed;

/// Times that are closer, relative to the whole, are not told apart.
const RESOLUTION: f64 = 1e-18;

/// Intervals of the search, relative to the whole, that are not halved further where functions are not monotonous.
const FINEST: f64 = 1e-9;

/// The same once the search has become long.
const COARSE: f64 = 1e-3;

/// Intervals looked at before the search is coarse.
const MAX_BOXES: usize = 4000;

/// What changes with a function.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    /// Its sign; the flag says whether zero counts as above.
    Sign { is_zero_above: bool },
    /// The largest whole number that is not above it.
    Whole,
}

impl Kind {
    /// The value that stays the same between changes.
    fn level(self, value: f64) -> f64 {
        match self {
            Self::Sign { is_zero_above } => f64::from(u8::from(value > 0.0 || is_zero_above && value == 0.0)),
            Self::Whole => value.floor(),
        }
    }

    fn is_certain(self, value: Range) -> bool {
        let (low, high) = (self.level(value.low), self.level(value.high));
        value.low.is_finite() && value.high.is_finite() && low == high
    }
}

/// A function of time with what changes with it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Switch {
    pub(crate) function: ExprId,
    pub(crate) kind: Kind,
}

/// The last time before a change and the first after it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Change {
    pub(crate) before: f64,
    pub(crate) after: f64,
}

/// Functions of time, ready to be searched.
pub(crate) struct Switches {
    program: TimeProgram,
    kinds: Vec<Kind>,
}

impl Switches {
    /// Those of the functions that can be bounded: functions that call others are left out.
    pub(crate) fn new(graph: &Graph, switches: &[Switch], is_constant: &dyn Fn(VarId) -> bool) -> Option<Self> {
        let can_be_bounded = |switch: &&Switch| TimeProgram::new(graph, &[switch.function], is_constant).is_some();
        let kept: Vec<Switch> = switches.iter().filter(can_be_bounded).copied().collect();
        if kept.is_empty() {
            return None;
        }
        let functions: Vec<ExprId> = kept.iter().map(|switch| switch.function).collect();
        let program = TimeProgram::new(graph, &functions, is_constant)?;
        Some(Self { program, kinds: kept.iter().map(|switch| switch.kind).collect() })
    }

    /// The variables that are constant between events.
    pub(crate) fn leaves(&self) -> &[VarId] {
        &self.program.leaves
    }

    /// The first change between two times.
    pub(crate) fn next(&self, leaves: &[f64], from: f64, until: f64) -> Option<Change> {
        let span = until - from;
        let resolution = if span.is_finite() { RESOLUTION * span } else { 0.0 };
        let mut search = Search { switches: self, leaves, resolution, bounds: Vec::new(), values: Vec::new() };
        let mut open = vec![(from, until)];
        let mut n_boxes = 0;
        while let Some((low, high)) = open.pop() {
            if low >= high {
                continue;
            }
            n_boxes += 1;
            let finest = if n_boxes > MAX_BOXES { COARSE } else { FINEST };
            match search.look(low, high) {
                Look::Nothing => {}
                Look::Monotonous => {
                    if let Some(change) = search.bisect(low, high) {
                        return Some(change);
                    }
                }
                Look::Unknown if high - low <= finest * span => {
                    if let Some(change) = search.bisect(low, high) {
                        return Some(change);
                    }
                }
                Look::Unknown => {
                    let middle = 0.5 * (low + high);
                    if middle <= low || middle >= high {
                        if let Some(change) = search.bisect(low, high) {
                            return Some(change);
                        }
                        continue;
                    }
                    open.extend([(middle, high), (low, middle)]);
                }
            }
        }
        None
    }
}

/// What bounds say of an interval.
enum Look {
    /// Nothing changes.
    Nothing,
    /// All that may change is monotonous.
    Monotonous,
    Unknown,
}

struct Search<'s> {
    switches: &'s Switches,
    leaves: &'s [f64],
    resolution: f64,
    bounds: Vec<Bound>,
    values: Vec<f64>,
}

impl Search<'_> {
    fn look(&mut self, low: f64, high: f64) -> Look {
        let bounds = self.switches.program.bounds(Range { low, high }, self.leaves, &mut self.bounds);
        let mut is_any_uncertain = false;
        for (bound, kind) in bounds.iter().zip(&self.switches.kinds) {
            if kind.is_certain(bound.value) {
                continue;
            }
            if bound.slope.holds(0.0) || !(bound.slope.low.is_finite() && bound.slope.high.is_finite()) {
                return Look::Unknown;
            }
            is_any_uncertain = true;
        }
        if is_any_uncertain { Look::Monotonous } else { Look::Nothing }
    }

    fn levels(&mut self, time: f64) -> Vec<f64> {
        let values = self.switches.program.values(time, self.leaves, &mut self.values);
        // Where a function has no value, nothing is said.
        let level = |(value, kind): (&f64, &Kind)| if value.is_nan() { f64::MAX } else { kind.level(*value) };
        values.iter().zip(&self.switches.kinds).map(level).collect()
    }

    /// Closes in the first change of levels that differ at both ends.
    fn bisect(&mut self, mut low: f64, mut high: f64) -> Option<Change> {
        let first = self.levels(low);
        if self.levels(high) == first {
            return None;
        }
        loop {
            let middle = 0.5 * (low + high);
            if middle <= low || middle >= high || high - low <= self.resolution {
                return Some(Change { before: low, after: high });
            }
            if self.levels(middle) == first { low = middle } else { high = middle }
        }
    }
}

/// Finds what depends on time alone in rows that are evaluated as they stand, directly or through variables that are
/// functions of time.
pub(crate) fn find(regular: &RegularDae, graph: &mut Graph, rows: &[ExprId]) -> Vec<Switch> {
    let below: Vec<ExprId> = Reach::new().below(graph, rows).to_vec();
    if !below.iter().any(|&expr| !pieces(graph.node(expr)).is_empty()) {
        return Vec::new();
    }
    let timed = Timed::of(regular, graph, rows);
    let mut found = Vec::new();
    let mut seen = FxHashSet::default();
    for expr in below {
        for piece in pieces(graph.node(expr)) {
            let function = piece.function(graph);
            let function = in_time(graph, &timed, function);
            if !is_of_time(regular, graph, function) {
                continue;
            }
            let switch = Switch { function, kind: piece.kind() };
            if seen.insert(switch) {
                found.push(switch);
            }
        }
    }
    found
}

/// Times after `from` and not after `until` at which an expression of time jumps or bends, ascending, with all
/// variables in it constant; no more than `limit`.
#[must_use]
pub fn breaks_in_time(
    graph: &mut Graph,
    expr: ExprId,
    value_of: &dyn Fn(VarId) -> f64,
    span: std::ops::RangeInclusive<f64>,
    limit: usize,
) -> Vec<f64> {
    let below: Vec<ExprId> = Reach::new().below(graph, &[expr]).to_vec();
    let mut found = Vec::new();
    for expr in below {
        for piece in pieces(graph.node(expr)) {
            let function = piece.function(graph);
            found.push(Switch { function, kind: piece.kind() });
        }
    }
    let Some(switches) = Switches::new(graph, &found, &|_| true) else { return Vec::new() };
    let leaves: Vec<f64> = switches.leaves().iter().map(|&var| value_of(var)).collect();
    let (mut from, until) = (*span.start(), *span.end());
    let mut breaks = Vec::new();
    while let Some(change) = switches.next(&leaves, from, until).filter(|_| breaks.len() < limit) {
        breaks.push(change.after);
        from = change.after;
    }
    breaks
}

/// The functions whose signs or whole parts decide where an expression jumps or bends.
pub fn switching_functions(graph: &mut Graph, exprs: &[ExprId]) -> Vec<ExprId> {
    let below: Vec<ExprId> = Reach::new().below(graph, exprs).to_vec();
    let found: Vec<Piece> = below.into_iter().flat_map(|expr| pieces(graph.node(expr))).collect();
    found.iter().map(|piece| piece.function(graph)).collect()
}

/// A function that an operation watches.
enum Piece {
    Difference { lhs: ExprId, rhs: ExprId, is_zero_above: bool },
    Quotient { lhs: ExprId, rhs: ExprId },
    Value { arg: ExprId, kind: Kind },
}

impl Piece {
    fn function(&self, graph: &mut Graph) -> ExprId {
        match *self {
            Self::Difference { lhs, rhs, .. } => graph.sub(lhs, rhs),
            Self::Quotient { lhs, rhs } => graph.div(lhs, rhs),
            Self::Value { arg, .. } => arg,
        }
    }

    const fn kind(&self) -> Kind {
        match *self {
            Self::Difference { is_zero_above, .. } => Kind::Sign { is_zero_above },
            Self::Quotient { .. } => Kind::Whole,
            Self::Value { kind, .. } => kind,
        }
    }
}

fn pieces(node: Node) -> Vec<Piece> {
    let sign = Kind::Sign { is_zero_above: true };
    match node {
        Node::Binary { op, lhs, rhs } => match op {
            BinaryOp::Less | BinaryOp::GreaterEqual => vec![Piece::Difference { lhs, rhs, is_zero_above: true }],
            BinaryOp::LessEqual | BinaryOp::Greater | BinaryOp::Min | BinaryOp::Max => {
                vec![Piece::Difference { lhs, rhs, is_zero_above: false }]
            }
            BinaryOp::Modulo | BinaryOp::Quotient | BinaryOp::Remainder => vec![Piece::Quotient { lhs, rhs }],
            _ => Vec::new(),
        },
        Node::Unary { op: UnaryOp::Abs | UnaryOp::Sign, arg } => vec![Piece::Value { arg, kind: sign }],
        Node::Unary { op: UnaryOp::Floor | UnaryOp::Ceil, arg } => vec![Piece::Value { arg, kind: Kind::Whole }],
        _ => Vec::new(),
    }
}

/// The expression with variables that are functions of time replaced by them.
fn in_time(graph: &mut Graph, timed: &Timed, expr: ExprId) -> ExprId {
    let mut expr = expr;
    loop {
        let mut leaves = Vec::new();
        Reach::new().leaves(graph, &[expr], &mut leaves);
        let mut substitution = Substitution::new();
        let mut is_any = false;
        for leaf in leaves {
            if let Leaf::Var { var, order: 0 } = leaf
                && let Some(value) = timed.value(var)
            {
                substitution.replace_leaf(graph, leaf, value);
                is_any = true;
            }
        }
        if !is_any {
            return expr;
        }
        // Definitions go back to earlier ones only, so that this ends.
        expr = substitution.apply(graph, expr);
    }
}

/// Whether an expression depends on time, and on parameters beside it at most.
fn is_of_time(regular: &RegularDae, graph: &Graph, expr: ExprId) -> bool {
    let mut leaves = Vec::new();
    Reach::new().leaves(graph, &[expr], &mut leaves);
    let variables = &regular.flat.variables;
    let is_fixed = |leaf: &Leaf| match leaf {
        Leaf::Time => true,
        Leaf::Var { var, .. } => variables
            .get(var.index())
            .is_some_and(|variable| matches!(variable.kind, VariableKind::Parameter | VariableKind::Constant)),
    };
    leaves.contains(&Leaf::Time) && leaves.iter().all(is_fixed)
}
