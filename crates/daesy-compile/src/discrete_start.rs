//! Which equation gives each discrete variable at the start, and which its value before.
//!
//! At the start a discrete variable d and its value before, pre(d), are two unknowns [@modelica36, sec. 8.6]. They have
//! the equation of d, which is d = pre(d) where a when-clause without `initial()` assigns it, the initial equations,
//! and pre(d) = start, which must hold where the start is fixed and fills gaps elsewhere. An equation gives an unknown
//! that stands alone, or negated, on one of its sides: `localActive = pre(newActive)` gives either. Equations find
//! unknowns by augmenting paths, those that must hold first; an equation that has an unknown keeps having one, so that
//! later ones only take what earlier ones can do without. An initial equation that is left over determines something
//! continuous.

use daesy_graph::flat::{FlatDae, VariableKind, WhenAction};
use daesy_graph::regular::RegularDae;
use daesy_graph::{ExprId, Graph, Leaf, Node, Span, Substitution, UnaryOp, VarId};
use daesy_system::EventLabel;
use rustc_hash::FxHashMap;

use crate::lower::{CompileError, evaluate_parameters};

/// Equations that are moved for another one at most: chains of equal variables are short.
const MAX_PATH: usize = 1000;

/// What initial equations say of discrete variables.
pub(crate) struct DiscreteInitial {
    /// By initial equation: whether it gives a discrete variable or its value before.
    pub(crate) is_discrete: Vec<bool>,
    /// Variables that something else than their own equation gives at the start.
    pub(crate) values: Vec<(VarId, ExprId)>,
    /// Variables whose value before follows from something else than their `start`.
    pub(crate) before: Vec<(VarId, ExprId, EventLabel)>,
}

/// A way to use an equation: it gives an unknown this value.
#[derive(Clone, Copy)]
struct Way {
    unknown: usize,
    value: ExprId,
}

/// Where an equation comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The equation of a variable, which is this one.
    Own(VarId),
    /// The `start` of this variable.
    Start,
    /// An initial equation, by its number.
    Initial(usize),
}

struct Equation {
    origin: Origin,
    ways: Vec<Way>,
}

/// Unknowns of the start: variable k has numbers 2 k, and 2 k + 1 for its value before.
struct Unknowns {
    of_variable: FxHashMap<VarId, usize>,
}

impl Unknowns {
    fn now(&self, var: VarId) -> Option<usize> {
        self.of_variable.get(&var).map(|at| 2 * at)
    }

    /// The unknown that an expression is, and whether negated.
    fn of(&self, graph: &Graph, expr: ExprId) -> Option<(usize, bool)> {
        match graph.node(expr) {
            Node::Var { var, order: 0 } => self.now(var).map(|unknown| (unknown, false)),
            Node::Pre(var) => self.now(var).map(|unknown| (unknown + 1, false)),
            Node::Unary { op: UnaryOp::Not, arg } => {
                self.of(graph, arg).map(|(unknown, is_negated)| (unknown, !is_negated))
            }
            _ => None,
        }
    }

    /// The ways to use lhs = rhs.
    fn ways(&self, graph: &mut Graph, lhs: ExprId, rhs: ExprId) -> Vec<Way> {
        let mut ways = Vec::new();
        for (side, other) in [(lhs, rhs), (rhs, lhs)] {
            if let Some((unknown, is_negated)) = self.of(graph, side) {
                let value = if is_negated { graph.not(other) } else { other };
                ways.push(Way { unknown, value });
            }
        }
        ways
    }
}

/// Finds what gives discrete variables and their values before at the start.
pub(crate) fn split_initial(regular: &RegularDae, graph: &mut Graph) -> Result<DiscreteInitial, CompileError> {
    let flat = &regular.flat;
    let mut found = DiscreteInitial {
        is_discrete: vec![false; flat.initial_equations.len()],
        values: Vec::new(),
        before: Vec::new(),
    };
    if flat.initial_equations.is_empty() || regular.discrete.is_empty() {
        return Ok(found);
    }
    let of_variable = regular.discrete.iter().enumerate().map(|(at, &var)| (var, at)).collect();
    let unknowns = Unknowns { of_variable };
    let equations = collect(regular, graph, &unknowns);
    let mut matching = Matching { used: vec![None; 2 * regular.discrete.len()], equations: &equations };
    let mut left_over = Vec::new();
    for (at, equation) in equations.iter().enumerate() {
        let mut is_seen = vec![false; matching.used.len()];
        if !matching.place(at, &mut is_seen, MAX_PATH)
            && let Origin::Initial(number) = equation.origin
        {
            left_over.push((number, at));
        }
    }
    for (number, at) in left_over {
        refuse_contradiction(regular, graph, number, &equations[at], &matching)?;
    }
    for (unknown, used) in matching.used.iter().enumerate() {
        let var = regular.discrete[unknown / 2];
        let Some((equation, way)) = *used else { continue };
        let Equation { origin, ways } = &equations[equation];
        let value = ways[way].value;
        if let Origin::Initial(number) = *origin {
            found.is_discrete[number] = true;
        }
        match (unknown % 2 == 1, *origin) {
            (false, Origin::Own(own)) if own == var => {}
            (false, _) => found.values.push((var, value)),
            (true, Origin::Start) => {}
            (true, origin) => found.before.push((var, value, label(flat, origin, var))),
        }
    }
    Ok(found)
}

/// All equations of the start, those first that must hold.
fn collect(regular: &RegularDae, graph: &mut Graph, unknowns: &Unknowns) -> Vec<Equation> {
    let flat = &regular.flat;
    let mut own: FxHashMap<VarId, ExprId> =
        regular.discrete_equations.iter().map(|equation| (equation.variable, equation.value)).collect();
    for (var, value) in assigned_at_start(flat) {
        own.insert(var, value);
    }
    let mut equations = Vec::new();
    for &var in &regular.discrete {
        let now = graph.var(var);
        let value = own.get(&var).copied().unwrap_or_else(|| graph.intern(Node::Pre(var)));
        equations.push(Equation { origin: Origin::Own(var), ways: unknowns.ways(graph, now, value) });
    }
    let is_fixed = |var: VarId| flat.variables[var.index()].fixed == Some(true);
    let start = |graph: &mut Graph, var: VarId| {
        let value = flat.variables[var.index()].start.unwrap_or_else(|| graph.number(0.0));
        let ways = unknowns.now(var).map(|now| Way { unknown: now + 1, value }).into_iter().collect();
        Equation { origin: Origin::Start, ways }
    };
    equations.extend(regular.discrete.iter().filter(|&&var| is_fixed(var)).map(|&var| start(graph, var)));
    let mut substitution = Substitution::new();
    for eliminated in &regular.eliminated {
        substitution.replace_leaf(graph, Leaf::var(eliminated.var), eliminated.value);
    }
    for (number, equation) in flat.initial_equations.iter().enumerate() {
        let (lhs, rhs) = (substitution.apply(graph, equation.lhs), substitution.apply(graph, equation.rhs));
        equations.push(Equation { origin: Origin::Initial(number), ways: unknowns.ways(graph, lhs, rhs) });
    }
    equations.extend(regular.discrete.iter().filter(|&&var| !is_fixed(var)).map(|&var| start(graph, var)));
    equations
}

/// What when-clauses with `initial()` assign.
fn assigned_at_start(flat: &FlatDae) -> Vec<(VarId, ExprId)> {
    let mut assigned = Vec::new();
    for clause in &flat.when_clauses {
        let is_active = |condition: &ExprId| flat.graph.node(*condition) == Node::Initial;
        let branch = clause.branches.iter().find(|branch| branch.conditions.iter().any(is_active));
        for action in branch.iter().flat_map(|branch| &branch.actions) {
            if let WhenAction::Assign { variable, value, .. } = action {
                assigned.push((*variable, *value));
            }
        }
    }
    assigned
}

/// A matching of equations with unknowns: which equation gives each unknown, and by which of its ways.
struct Matching<'e> {
    equations: &'e [Equation],
    used: Vec<Option<(usize, usize)>>,
}

impl Matching<'_> {
    /// Finds an unknown for an equation, moving others where need be.
    fn place(&mut self, equation: usize, is_seen: &mut [bool], longest: usize) -> bool {
        if longest == 0 {
            return false;
        }
        let equations = self.equations;
        for (way, &Way { unknown, .. }) in equations[equation].ways.iter().enumerate() {
            if std::mem::replace(&mut is_seen[unknown], true) {
                continue;
            }
            let is_free = match self.used[unknown] {
                None => true,
                Some((other, _)) => self.place(other, is_seen, longest - 1),
            };
            if is_free {
                self.used[unknown] = Some((equation, way));
                return true;
            }
        }
        false
    }
}

/// Refuses an initial equation that gives a discrete variable what something else gives already, unless both are the
/// same number. Where it holds something continuous it determines that.
fn refuse_contradiction(
    regular: &RegularDae,
    graph: &Graph,
    number: usize,
    equation: &Equation,
    matching: &Matching<'_>,
) -> Result<(), CompileError> {
    let flat = &regular.flat;
    let Some(way) = equation.ways.first() else { return Ok(()) };
    let mut leaves = Vec::new();
    daesy_graph::Reach::new().leaves(graph, &[way.value], &mut leaves);
    let is_free = |leaf: &Leaf| match leaf {
        Leaf::Time => false,
        Leaf::Var { var, order } => flat.variables.get(var.index()).is_some_and(|variable| match variable.kind {
            VariableKind::Continuous => *order > 0 || variable.fixed != Some(true),
            VariableKind::Parameter => variable.fixed == Some(false),
            _ => false,
        }),
    };
    if leaves.iter().any(is_free) {
        return Ok(());
    }
    let var = regular.discrete[way.unknown / 2];
    let parameters = evaluate_parameters(regular, &[])?;
    let mut by_variable = vec![f64::NAN; flat.variables.len()];
    for (&var, &value) in regular.parameters.iter().zip(&parameters) {
        by_variable[var.index()] = value;
    }
    let environment = |var: VarId, _: u16| by_variable.get(var.index()).copied().unwrap_or(f64::NAN);
    let mut evaluator = daesy_graph::Evaluator::new();
    let given = evaluator.evaluate_one(graph, way.value, &environment);
    let known = matching.used[way.unknown].map(|(equation, way)| matching.equations[equation].ways[way].value);
    if known.is_some_and(|known| evaluator.evaluate_one(graph, known, &environment) == given) {
        return Ok(());
    }
    Err(CompileError::GivenTwice {
        name: flat.variables[var.index()].name.clone(),
        place: place(flat, flat.initial_equations[number].span),
    })
}

fn place(flat: &FlatDae, span: Span) -> String {
    flat.sources.place(span).map_or(String::new(), |place| place.to_string())
}

/// What gives a value before, in the model's words.
fn label(flat: &FlatDae, origin: Origin, var: VarId) -> EventLabel {
    match origin {
        Origin::Initial(number) => {
            let equation = &flat.initial_equations[number];
            EventLabel { text: flat.equation_text(equation), place: place(flat, equation.span) }
        }
        Origin::Own(_) | Origin::Start => {
            let variable = &flat.variables[var.index()];
            EventLabel { text: format!("pre({})", variable.name), place: place(flat, variable.span) }
        }
    }
}
