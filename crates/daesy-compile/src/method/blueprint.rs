//! What all programs of a method share: which states are carried, which unknowns are needed, and how they are solved
//! for.

use std::ops::Range;

use daesy_graph::regular::{Derivative, Rate as RegularRate};
use daesy_graph::{Differentiator, ExprId, FunctionId, GradientEntry, Graph, Leaf, Node, Reach};
use daesy_system::{
    DaeSystem, Direction, Evaluator, InputTangent, Part, Point, ReferencePoint, StepLayout, StepMethod,
    StepProgramError, StepRequest,
};
use rustc_hash::FxHashMap;

use super::eliminate::{Factors, PivotOrder, Place, Watch, solve_semidefinite};
use super::{lane_explicit, lane_implicit};
use crate::lower::{CompiledSystem, Lowering};
use crate::operation::{Binary, Unary};
use crate::tape::{TapeBuilder, TapeOptions, Value};

/// A state in terms of those that are carried: `sign * carried[row]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct StateSource {
    pub(super) row: usize,
    pub(super) sign: f64,
}

/// The rate of a carried state.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum CarriedRate {
    State(StateSource),
    Unknown(usize),
}

/// Expressions that are lowered together.
pub(super) struct Batch {
    order: Vec<ExprId>,
    roots: Vec<ExprId>,
}

impl Batch {
    fn new(graph: &Graph, roots: Vec<ExprId>) -> Self {
        let order = Reach::new().below(graph, &roots).to_vec();
        Self { order, roots }
    }
}

/// A block of unknowns.
struct BlockPlan {
    start: usize,
    len: usize,
    is_linear: bool,
    residual: Batch,
    jacobian: Batch,
    places: Vec<Place>,
    order: PivotOrder,
    /// Unknowns of earlier blocks that it needs.
    needs: Vec<usize>,
}

/// The values around a point of a program.
#[derive(Clone)]
pub(super) struct Around {
    pub(super) time: Value,
    pub(super) inputs: Vec<Value>,
}

/// All unknown-solving iterations of nonlinear blocks in a step.
pub(super) const NEWTON_STEPS: usize = 3;
/// The same at a start, where the values are less well known.
pub(super) const NEWTON_STEPS_AT_START: usize = 8;
/// A growth that is not trusted.
const UNTRUSTED_GROWTH: f64 = 1e8;
/// A Newton step at the end of a millionth of the unknown is not trusted either.
const NEWTON_DEFECT: f64 = 1e6 * UNTRUSTED_GROWTH;

/// What all programs of a method share.
pub(super) struct Blueprint<'a> {
    pub(super) system: &'a CompiledSystem,
    pub(super) request: &'a StepRequest<'a>,
    graph: Graph,
    pub(super) sources: Vec<StateSource>,
    pub(super) rates: Vec<CarriedRate>,
    /// Unknowns among the carried rows, in order.
    pub(super) carried_unknowns: Vec<usize>,
    /// Unknowns that a step determines.
    pub(super) step_unknowns: Vec<bool>,
    blocks: Blocks,
    constraints: Batch,
    constraint_jacobian: Batch,
    constraint_places: Vec<Place>,
    pub(super) implicit: Option<lane_implicit::NewtonPlan>,
    /// Whether equations depend on time other than through states and inputs.
    pub(super) depends_on_time: bool,
    observed: Batch,
    observed_needs: Vec<usize>,
    tangent_functions: FxHashMap<FunctionId, FunctionId>,
    pub(super) layout: StepLayout,
    /// Positions, among all parameters' tangents, that are inputs of the programs: by direction.
    pub(super) n_parameters: usize,
}

fn leaf(derivative: &Derivative) -> Leaf {
    Leaf::der(derivative.var, derivative.order)
}

impl<'a> Blueprint<'a> {
    pub(super) fn new(system: &'a CompiledSystem, request: &'a StepRequest<'a>) -> Result<Self, StepProgramError> {
        check(system, request)?;
        let regular = &system.regular;
        let mut graph = (*system.graph).clone();
        let aliases = find_aliases(system, &mut graph);
        let slopes = Slopes::new(system, &mut graph, &aliases, request.method);
        let observed: Vec<ExprId> = request.observed.iter().map(|&at| system.rows.observed[at as usize]).collect();
        let mut tangent_functions = FxHashMap::default();
        if !request.directions.is_empty() {
            tangent_functions = differentiate_functions(&mut graph, &slopes.roots(system, &observed));
        }
        let rates = carried_rates(system, &aliases);
        let samples = sample_points(system, request.reference);
        let blocks = Blocks::new(system, &graph, &slopes.by_unknowns, &samples);
        let observed_needs = unknowns_in(&graph, &unknown_places(system), &observed);
        let observed = Batch::new(&graph, observed);
        let depends_on_time = depends_on_time(system, &graph);
        let is_implicit = request.method == StepMethod::Implicit3;
        let Needed { step_unknowns, carried_unknowns } = blocks.needed(&rates, &observed_needs, is_implicit);
        let implicit = if is_implicit {
            let parts = lane_implicit::Parts {
                graph: &graph,
                sources: &aliases.sources,
                rates: &rates,
                step_unknowns: &step_unknowns,
                by_unknowns: &slopes.by_unknowns,
                by_states: &slopes.by_states,
                samples: &samples,
            };
            Some(lane_implicit::NewtonPlan::new(system, request, &parts)?)
        } else {
            None
        };
        Ok(Self {
            system,
            request,
            constraints: Batch::new(&graph, slopes.constraints),
            constraint_jacobian: Batch::new(&graph, slopes.constraint_entries),
            graph,
            layout: layout(system, request, &aliases, &carried_unknowns, depends_on_time),
            sources: aliases.sources,
            rates,
            carried_unknowns,
            step_unknowns,
            blocks,
            constraint_places: slopes.constraint_places,
            implicit,
            depends_on_time,
            observed,
            observed_needs,
            tangent_functions,
            n_parameters: regular.parameters.len(),
        })
    }

    /// Carried rows of unknowns in nonlinear blocks, with their nominal values.
    pub(super) fn searched_rows(&self) -> Vec<(usize, f64)> {
        let rows = self.carried_unknowns.iter().enumerate().filter(|(_, unknown)| !self.blocks.is_linear(**unknown));
        let n_states = self.n_states();
        rows.map(|(at, &unknown)| (n_states + at, self.system.description.unknowns[unknown].nominal)).collect()
    }

    pub(super) fn n_states(&self) -> usize {
        self.rates.len()
    }
}

/// Refuses what no program of this system can do.
fn check(system: &CompiledSystem, request: &StepRequest<'_>) -> Result<(), StepProgramError> {
    let refused = |reason: &str| Err(StepProgramError::Unsupported { reason: reason.to_owned() });
    let (regular, description) = (&system.regular, &system.description);
    if !regular.discrete.is_empty() || !regular.flat.when_clauses.is_empty() {
        return refused("models with discrete variables or when-clauses cannot be advanced in lanes");
    }
    let have = |positions: &[u32], n: usize| positions.iter().all(|&at| (at as usize) < n);
    let are_known = |along: &Direction| {
        have(&along.parameters, regular.parameters.len()) && have(&along.inputs, description.inputs.len())
    };
    if !have(request.observed, system.rows.observed.len()) || !request.directions.iter().all(are_known) {
        return refused("steps are asked for observed variables, parameters or inputs that the model does not have");
    }
    Ok(())
}

/// Derivatives of the rows of a system.
struct Slopes {
    /// Those of the residuals with respect to v.
    by_unknowns: Vec<Vec<GradientEntry>>,
    /// Those of the residuals with respect to s, for an implicit method.
    by_states: Vec<Vec<GradientEntry>>,
    /// Constraints that no alias is spent on, and their derivatives with respect to s.
    constraints: Vec<ExprId>,
    constraint_places: Vec<Place>,
    constraint_entries: Vec<ExprId>,
}

impl Slopes {
    fn new(system: &CompiledSystem, graph: &mut Graph, aliases: &Aliases, method: StepMethod) -> Self {
        let (regular, rows) = (&system.regular, &system.rows);
        let states: Vec<Leaf> = regular.states.iter().map(leaf).collect();
        let unknowns: Vec<Leaf> = regular.unknowns.iter().map(leaf).collect();
        let mut by_unknowns = Differentiator::new(graph, &unknowns);
        let by_unknowns = rows.residual.iter().map(|&row| by_unknowns.gradient(graph, row)).collect();
        let kept = rows.constraint.iter().zip(&aliases.used).filter(|&(_, &is_used)| !is_used);
        let constraints: Vec<ExprId> = kept.map(|(&constraint, _)| constraint).collect();
        let mut along_states = Differentiator::new(graph, &states);
        let (mut constraint_places, mut constraint_entries) = (Vec::new(), Vec::new());
        for (row, &constraint) in constraints.iter().enumerate() {
            for entry in along_states.gradient(graph, constraint) {
                constraint_places.push(Place { row, column: entry.column as usize });
                constraint_entries.push(entry.value);
            }
        }
        let by_states = match method {
            StepMethod::Implicit3 => rows.residual.iter().map(|&row| along_states.gradient(graph, row)).collect(),
            _ => Vec::new(),
        };
        Self { by_unknowns, by_states, constraints, constraint_places, constraint_entries }
    }

    /// All expressions that a program may lower.
    fn roots(&self, system: &CompiledSystem, observed: &[ExprId]) -> Vec<ExprId> {
        let mut roots = system.rows.residual.clone();
        roots.extend(&self.constraints);
        roots.extend(observed);
        roots.extend(self.by_unknowns.iter().flatten().map(|entry| entry.value));
        roots.extend(&self.constraint_entries);
        roots.extend(self.by_states.iter().flatten().map(|entry| entry.value));
        roots
    }
}

/// The tangents of all functions that are called below some expressions.
fn differentiate_functions(graph: &mut Graph, roots: &[ExprId]) -> FxHashMap<FunctionId, FunctionId> {
    let mut tangents = FxHashMap::default();
    let below: Vec<ExprId> = Reach::new().below(graph, roots).to_vec();
    for expr in below {
        if let Node::Call { function, args, .. } = graph.node(expr)
            && !tangents.contains_key(&function)
        {
            let active = vec![true; graph.args(args).len()];
            let tangent = graph.differentiate_function(function, &active);
            tangents.insert(function, tangent);
        }
    }
    tangents
}

fn carried_rates(system: &CompiledSystem, aliases: &Aliases) -> Vec<CarriedRate> {
    let rate = |&state: &usize| match system.regular.rates[state] {
        RegularRate::State(of) => CarriedRate::State(aliases.sources[of as usize]),
        RegularRate::Unknown(unknown) => CarriedRate::Unknown(unknown as usize),
    };
    aliases.kept.iter().map(rate).collect()
}

/// The unknowns by their leaves.
fn unknown_places(system: &CompiledSystem) -> FxHashMap<Leaf, usize> {
    system.regular.unknowns.iter().enumerate().map(|(at, unknown)| (leaf(unknown), at)).collect()
}

/// The unknowns that expressions hold.
fn unknowns_in(graph: &Graph, unknown_at: &FxHashMap<Leaf, usize>, exprs: &[ExprId]) -> Vec<usize> {
    let mut leaves = Vec::new();
    Reach::new().leaves(graph, exprs, &mut leaves);
    leaves.iter().filter_map(|leaf| unknown_at.get(leaf).copied()).collect()
}

/// Whether the residuals hold time itself.
fn depends_on_time(system: &CompiledSystem, graph: &Graph) -> bool {
    let mut leaves = Vec::new();
    Reach::new().leaves(graph, &system.rows.residual, &mut leaves);
    leaves.contains(&Leaf::Time)
}

/// The blocks of unknowns in the order of solution.
struct Blocks {
    plans: Vec<BlockPlan>,
    /// By unknown, the block that it is in.
    of: Vec<usize>,
}

/// Which unknowns a step determines, and which it carries.
struct Needed {
    step_unknowns: Vec<bool>,
    carried_unknowns: Vec<usize>,
}

impl Blocks {
    fn new(
        system: &CompiledSystem,
        graph: &Graph,
        gradients: &[Vec<GradientEntry>],
        samples: &[ReferencePoint],
    ) -> Self {
        let regular = &system.regular;
        let sampled: Vec<Vec<f64>> = samples
            .iter()
            .map(|sample| evaluate(system, Part::ResidualByUnknowns, sample))
            .filter(|values| values.iter().all(|value| value.is_finite()))
            .collect();
        let unknown_at = unknown_places(system);
        let (mut plans, mut of) = (Vec::new(), vec![0; regular.unknowns.len()]);
        for block in &regular.blocks {
            let range = block.start as usize..(block.start + block.len) as usize;
            of[range.clone()].fill(plans.len());
            plans.push(BlockPlan::new(system, graph, gradients, &sampled, &unknown_at, range, block.is_linear));
        }
        Self { plans, of }
    }

    fn is_linear(&self, unknown: usize) -> bool {
        self.plans[self.of[unknown]].is_linear
    }

    /// What the rates and the observed quantities need.
    fn needed(&self, rates: &[CarriedRate], observed_needs: &[usize], is_implicit: bool) -> Needed {
        let rate_unknown = |rate: &CarriedRate| match rate {
            CarriedRate::Unknown(unknown) => Some(*unknown),
            CarriedRate::State(_) => None,
        };
        let rate_unknowns: Vec<usize> = rates.iter().filter_map(rate_unknown).collect();
        let n = self.of.len();
        // Unknowns of nonlinear blocks that are observed need a value to start from, and hence a place among the
        // carried rows.
        let mut seen = vec![false; n];
        self.mark(observed_needs, &mut seen);
        let mut roots = rate_unknowns.clone();
        roots.extend((0..n).filter(|&at| seen[at] && !self.is_linear(at)));
        let mut step_unknowns = vec![false; n];
        self.mark(&roots, &mut step_unknowns);
        let is_carried =
            |&at: &usize| step_unknowns[at] && (is_implicit || rate_unknowns.contains(&at) || !self.is_linear(at));
        let carried_unknowns = (0..n).filter(is_carried).collect();
        Needed { step_unknowns, carried_unknowns }
    }

    /// Marks unknowns with all that their blocks need.
    fn mark(&self, roots: &[usize], is_marked: &mut [bool]) {
        let mut open = roots.to_vec();
        while let Some(unknown) = open.pop() {
            if is_marked[unknown] {
                continue;
            }
            let block = &self.plans[self.of[unknown]];
            is_marked[block.start..block.start + block.len].fill(true);
            open.extend(block.needs.iter().copied().filter(|&need| !is_marked[need]));
        }
    }
}

impl BlockPlan {
    fn new(
        system: &CompiledSystem,
        graph: &Graph,
        gradients: &[Vec<GradientEntry>],
        sampled: &[Vec<f64>],
        unknown_at: &FxHashMap<Leaf, usize>,
        range: Range<usize>,
        is_linear: bool,
    ) -> Self {
        let pattern = system.pattern(Part::ResidualByUnknowns);
        let (start, len) = (range.start, range.len());
        let (mut places, mut entries, mut positions) = (Vec::new(), Vec::new(), Vec::new());
        for row in range.clone() {
            for (at, entry) in gradients[row].iter().enumerate() {
                let column = entry.column as usize;
                if range.contains(&column) {
                    places.push(Place { row: row - start, column: column - start });
                    entries.push(entry.value);
                    positions.push(pattern.row(row).start + at);
                }
            }
        }
        // A relation needs its unknowns though no derivative says so.
        let mut needs = unknowns_in(graph, unknown_at, &system.rows.residual[range.clone()]);
        needs.retain(|need| !range.contains(need));
        needs.sort_unstable();
        needs.dedup();
        let order = if len == 1 {
            PivotOrder::choose(1, &places, &[], &[])
        } else {
            let values: Vec<Vec<f64>> =
                sampled.iter().map(|sample| positions.iter().map(|&at| sample[at]).collect()).collect();
            let is_fixed = |expr: &ExprId| is_parameter_only(graph, *expr, &system.regular);
            let uniform: Vec<bool> = entries.iter().map(is_fixed).collect();
            PivotOrder::choose(len, &places, &values, &uniform)
        };
        Self {
            start,
            len,
            is_linear,
            residual: Batch::new(graph, system.rows.residual[range].to_vec()),
            jacobian: Batch::new(graph, entries),
            places,
            order,
            needs,
        }
    }
}

fn layout(
    system: &CompiledSystem,
    request: &StepRequest<'_>,
    aliases: &Aliases,
    carried_unknowns: &[usize],
    depends_on_time: bool,
) -> StepLayout {
    let mut input_tangents = Vec::new();
    for (direction, along) in request.directions.iter().enumerate() {
        for &input in &along.inputs {
            let input = &system.description.inputs[input as usize];
            for slot in input.start..=input.start + usize::from(input.derivatives_needed) {
                input_tangents.push(InputTangent { direction: direction as u32, slot: slot as u32 });
            }
        }
    }
    let (nodes, order, estimate_order) = match request.method {
        StepMethod::Explicit3 => (lane_explicit::nodes(depends_on_time), 3, 2),
        StepMethod::Implicit3 => (lane_implicit::NODES.to_vec(), 3, 2),
        _ => (lane_explicit::nodes(depends_on_time), 4, 3),
    };
    StepLayout {
        states: aliases.kept.iter().map(|&state| state as u32).collect(),
        unknowns: carried_unknowns.iter().map(|&unknown| unknown as u32).collect(),
        nominal: aliases.kept.iter().map(|&state| system.description.states[state].nominal).collect(),
        n_carried: aliases.kept.len() + carried_unknowns.len(),
        n_directions: request.directions.len(),
        nodes,
        n_inputs: system.description.n_inputs,
        input_tangents,
        n_observed: request.observed.len(),
        n_operations: 0,
        order,
        estimate_order,
    }
}

/// Whether an expression holds parameters and numbers only.
pub(super) fn is_parameter_only(graph: &Graph, expr: ExprId, regular: &daesy_graph::regular::RegularDae) -> bool {
    use daesy_graph::flat::VariableKind;
    let mut leaves = Vec::new();
    Reach::new().leaves(graph, &[expr], &mut leaves);
    leaves.iter().all(|leaf| match leaf {
        Leaf::Time => false,
        Leaf::Var { var, .. } => {
            matches!(regular.flat.variables[var.index()].kind, VariableKind::Parameter | VariableKind::Constant)
        }
    })
}

/// States that a constraint makes equal or opposite.
struct Aliases {
    kept: Vec<usize>,
    sources: Vec<StateSource>,
    /// Constraints that are spent on it.
    used: Vec<bool>,
}

fn find_aliases(system: &CompiledSystem, graph: &mut Graph) -> Aliases {
    let regular = &system.regular;
    let n = regular.states.len();
    let states: Vec<Leaf> = regular.states.iter().map(leaf).collect();
    let mut of: Vec<(usize, f64)> = (0..n).map(|state| (state, 1.0)).collect();
    let resolve = |of: &[(usize, f64)], mut state: usize| {
        let mut sign = 1.0;
        while of[state].0 != state {
            sign *= of[state].1;
            state = of[state].0;
        }
        (state, sign)
    };
    let mut used = vec![false; system.rows.constraint.len()];
    let mut differentiator = Differentiator::new(graph, &states);
    for (at, &constraint) in system.rows.constraint.iter().enumerate() {
        let gradient = differentiator.gradient(graph, constraint);
        let [first, second] = gradient[..] else { continue };
        let (Some(a), Some(b)) = (graph.as_number(first.value), graph.as_number(second.value)) else { continue };
        if a.abs() != b.abs() || a == 0.0 {
            continue;
        }
        let mut leaves = Vec::new();
        Reach::new().leaves(graph, &[constraint], &mut leaves);
        let pair = [states[first.column as usize], states[second.column as usize]];
        if leaves.iter().any(|leaf| !pair.contains(leaf)) {
            continue;
        }
        let rest = daesy_graph::Evaluator::new().evaluate_one(graph, constraint, &|_: daesy_graph::VarId, _: u16| 0.0);
        if rest != 0.0 {
            continue;
        }
        let (x, x_sign) = resolve(&of, first.column as usize);
        let (y, y_sign) = resolve(&of, second.column as usize);
        if x == y {
            continue;
        }
        // a x_sign x + b y_sign y = 0
        let sign = -(a / b) * x_sign * y_sign;
        let (kept, gone) = (x.min(y), x.max(y));
        of[gone] = (kept, sign);
        used[at] = true;
    }
    let kept: Vec<usize> = (0..n).filter(|&state| of[state].0 == state).collect();
    let row_of: FxHashMap<usize, usize> = kept.iter().enumerate().map(|(row, &state)| (state, row)).collect();
    let sources = (0..n)
        .map(|state| {
            let (root, sign) = resolve(&of, state);
            StateSource { row: row_of[&root], sign }
        })
        .collect();
    Aliases { kept, sources, used }
}

/// Points around the reference at which matrices are looked at.
fn sample_points(system: &CompiledSystem, reference: &ReferencePoint) -> Vec<ReferencePoint> {
    const N_SAMPLES: usize = 8;
    let mut points = vec![reference.clone()];
    // A fixed sequence of numbers in -1..1; any would do.
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    let description = &system.description;
    for _ in 0..N_SAMPLES {
        let mut point = reference.clone();
        let quantities = description.states.iter().chain(&description.unknowns);
        for (value, quantity) in point.states.iter_mut().chain(&mut point.unknowns).zip(quantities) {
            *value += 0.3 * next() * value.abs().max(0.5 * quantity.nominal);
        }
        for value in &mut point.inputs {
            *value += 0.3 * next() * value.abs().max(0.1);
        }
        points.push(point);
    }
    points
}

pub(super) fn evaluate(system: &CompiledSystem, part: Part, at: &ReferencePoint) -> Vec<f64> {
    let mut values = vec![0.0; system.pattern(part).n_entries()];
    let modes = vec![0.0; system.description.n_modes];
    let point = Point {
        time: at.time,
        states: &at.states,
        unknowns: &at.unknowns,
        parameters: &at.parameters,
        inputs: &at.inputs,
        modes: &modes,
    };
    let mut evaluator: Box<dyn Evaluator + '_> = system.evaluator();
    evaluator.evaluate(part, &point, &mut values);
    values
}

/// One program in the making.
pub(super) struct Draft<'b> {
    pub(super) blueprint: &'b Blueprint<'b>,
    pub(super) builder: TapeBuilder,
    pub(super) watch: Watch,
    lowering: Lowering<'b>,
    pub(super) n_lane_inputs: usize,
    pub(super) parameters: Vec<Value>,
    pub(super) step: Value,
    pub(super) time: Value,
    /// Carried rows: the values, then those of each direction.
    pub(super) carried: Vec<Value>,
    /// Signal rows by node.
    pub(super) signals: Vec<Vec<Value>>,
    pub(super) weights: Vec<Value>,
    seeds: Vec<FxHashMap<Value, Value>>,
}

impl<'b> Draft<'b> {
    /// A program with signals at some nodes and, if wanted, weights.
    pub(super) fn new(blueprint: &'b Blueprint<'b>, n_nodes: usize, has_weights: bool) -> Self {
        let layout = &blueprint.layout;
        let n_weights = if has_weights { blueprint.n_states() } else { 0 };
        let n_lane_inputs = 1 + layout.n_carried_rows() + n_nodes * layout.n_signal_rows() + n_weights;
        let n_seeds: usize = blueprint.request.directions.iter().map(|direction| direction.parameters.len()).sum();
        let n_inputs = n_lane_inputs + 1 + blueprint.n_parameters + n_seeds;
        let options = TapeOptions::default().with_structural_zeros().with_contraction();
        let builder = TapeBuilder::new(n_inputs, options).with_uniform_inputs(n_lane_inputs);
        let mut next = 0;
        let mut take = |n: usize| -> Vec<Value> {
            next += n;
            (next - n..next).map(|at| builder.input(at)).collect()
        };
        let time = take(1)[0];
        let carried = take(layout.n_carried_rows());
        let signals: Vec<Vec<Value>> = (0..n_nodes).map(|_| take(layout.n_signal_rows())).collect();
        let weights = take(n_weights);
        let step = take(1)[0];
        let parameters = take(blueprint.n_parameters);
        let mut seeds = Vec::new();
        for (at, direction) in blueprint.request.directions.iter().enumerate() {
            let mut seed = FxHashMap::default();
            for row in 0..layout.n_carried {
                seed.insert(carried[row], carried[(1 + at) * layout.n_carried + row]);
            }
            for node in &signals {
                for (row, tangent) in layout.input_tangents.iter().enumerate() {
                    if tangent.direction as usize == at {
                        seed.insert(node[tangent.slot as usize], node[layout.n_inputs + row]);
                    }
                }
            }
            for (&parameter, tangent) in direction.parameters.iter().zip(take(direction.parameters.len())) {
                seed.insert(parameters[parameter as usize], tangent);
            }
            seeds.push(seed);
        }
        let mut lowering = Lowering::new(&blueprint.system.places, &blueprint.graph, &blueprint.system.graph);
        lowering.tangents.clone_from(&blueprint.tangent_functions);
        Self {
            blueprint,
            builder,
            watch: Watch::default(),
            lowering,
            n_lane_inputs,
            parameters,
            step,
            time,
            carried,
            signals,
            weights,
            seeds,
        }
    }

    /// The surroundings at a node, whose time is `time`.
    pub(super) fn around(&self, node: usize, time: Value) -> Around {
        Around { time, inputs: self.signals[node][..self.blueprint.layout.n_inputs].to_vec() }
    }

    /// `t + c h`
    pub(super) fn node_time(&mut self, c: f64) -> Value {
        let c = self.builder.constant(c);
        let offset = self.builder.mul(c, self.step);
        self.builder.add(self.time, offset)
    }

    /// `a + sum of factor * term`
    pub(super) fn combine(&mut self, a: Value, terms: &[(Value, Value)]) -> Value {
        terms.iter().fold(a, |sum, &(factor, term)| {
            let product = self.builder.mul(factor, term);
            self.builder.add(sum, product)
        })
    }

    fn state(&mut self, states: &[Value], source: StateSource) -> Value {
        let value = states[source.row];
        if source.sign < 0.0 { self.builder.neg(value) } else { value }
    }

    /// The rate of a carried state.
    pub(super) fn rate(&mut self, at: usize, states: &[Value], unknowns: &[Value]) -> Value {
        match self.blueprint.rates[at] {
            CarriedRate::State(source) => self.state(states, source),
            CarriedRate::Unknown(unknown) => unknowns[unknown],
        }
    }

    /// Sets what leaves mean.
    pub(super) fn bind(&mut self, around: &Around, states: &[Value], unknowns: &[Value]) {
        let mut bindings = Vec::with_capacity(self.blueprint.system.places.n_inputs);
        bindings.push(around.time);
        for at in 0..self.blueprint.sources.len() {
            let source = self.blueprint.sources[at];
            let value = self.state(states, source);
            bindings.push(value);
        }
        bindings.extend_from_slice(unknowns);
        bindings.extend_from_slice(&self.parameters);
        bindings.extend_from_slice(&around.inputs);
        // Nothing happens in lanes: modes are what they are after the start.
        let modes = self.blueprint.system.description.events.start_modes();
        bindings.extend(modes.into_iter().map(|mode| self.builder.constant(mode)));
        self.lowering.bindings = bindings;
    }

    fn bind_unknown(&mut self, unknown: usize, value: Value) {
        let at = 1 + self.blueprint.sources.len() + unknown;
        self.lowering.bindings[at] = value;
    }

    pub(super) fn lower(&mut self, batch: &Batch) -> Vec<Value> {
        self.lowering.lower(&mut self.builder, &batch.order, &batch.roots)
    }

    /// Solves for all unknowns that are `wanted`. `guess` has values for those of nonlinear blocks.
    pub(super) fn solve(
        &mut self,
        around: &Around,
        states: &[Value],
        guess: &[Value],
        wanted: &[bool],
        n_newton: usize,
    ) -> Vec<Value> {
        let blueprint = self.blueprint;
        let mut unknowns = guess.to_vec();
        self.bind(around, states, &unknowns);
        let zero = self.builder.constant(0.0);
        for block in &blueprint.blocks.plans {
            if !wanted[block.start] {
                continue;
            }
            let range = block.start..block.start + block.len;
            let n_iterations = if block.is_linear { 1 } else { n_newton };
            for iteration in 0..n_iterations {
                if block.is_linear {
                    for unknown in range.clone() {
                        self.bind_unknown(unknown, zero);
                    }
                }
                let mut residual = self.lower(&block.residual);
                let mut entries = self.lower(&block.jacobian);
                self.scale_rows(&block.places, &mut entries, &mut residual);
                let matrix = collect(&mut self.builder, &block.places, &entries);
                let factors = Factors::new(&mut self.builder, &block.order, matrix, Some(&mut self.watch));
                let step = factors.solve_once(&mut self.builder, &residual);
                for (at, &step) in step.iter().enumerate() {
                    let unknown = block.start + at;
                    let before = if block.is_linear { zero } else { unknowns[unknown] };
                    unknowns[unknown] = self.builder.sub(before, step);
                    self.bind_unknown(unknown, unknowns[unknown]);
                    if !block.is_linear && iteration + 1 == n_iterations {
                        let nominal = blueprint.system.description.unknowns[unknown].nominal;
                        self.note_defect(step, 1.0, unknowns[unknown], nominal);
                    }
                }
            }
        }
        unknowns
    }

    /// Divides rows of a linear system by factors that all their entries have and that are the same for all lanes.
    fn scale_rows(&mut self, places: &[Place], entries: &mut [Value], residual: &mut [Value]) {
        for (row, residual) in residual.iter_mut().enumerate() {
            let of_row: Vec<usize> = (0..places.len()).filter(|&at| places[at].row == row).collect();
            let mut values: Vec<Value> = of_row.iter().map(|&at| entries[at]).collect();
            if let Some(factor) = self.builder.take_common_factor(&mut values) {
                of_row.iter().zip(values).for_each(|(&at, value)| entries[at] = value);
                let one = self.builder.constant(1.0);
                let reciprocal = self.builder.div(one, factor);
                *residual = self.builder.mul(*residual, reciprocal);
            }
        }
    }

    /// Watches the last Newton step of an unknown, relative to the unknown's size and nominal value:
    ///
    /// ```text
    /// d |step| > g (|v| + nominal)   is what   d |step| / nominal - g |v| / nominal > g   says without a quotient
    /// ```
    ///
    /// with g a growth that is not trusted and d what makes a step as bad as that.
    pub(super) fn note_defect(&mut self, step: Value, allowance: f64, value: Value, nominal: f64) {
        let builder = &mut self.builder;
        let (size, step) = (builder.unary(Unary::Abs, value), builder.unary(Unary::Abs, step));
        let of_step = builder.constant(allowance * NEWTON_DEFECT / nominal);
        let of_size = builder.constant(UNTRUSTED_GROWTH / nominal);
        let (step, size) = (builder.mul(step, of_step), builder.mul(size, of_size));
        let defect = builder.sub(step, size);
        self.watch.note(&mut self.builder, defect);
    }

    /// Returns carried states to the constraints.
    pub(super) fn project(&mut self, around: &Around, states: &[Value]) -> Vec<Value> {
        let blueprint = self.blueprint;
        let n = blueprint.constraints.roots.len();
        if n == 0 {
            return states.to_vec();
        }
        let zero = self.builder.constant(0.0);
        let unknowns = vec![zero; blueprint.step_unknowns.len()];
        self.bind(around, states, &unknowns);
        let mut residual = self.lower(&blueprint.constraints);
        let mut entries = self.lower(&blueprint.constraint_jacobian);
        self.scale_rows(&blueprint.constraint_places, &mut entries, &mut residual);
        // G W, by carried state.
        let mut scaled: Vec<FxHashMap<usize, Value>> = vec![FxHashMap::default(); n];
        for (place, &entry) in blueprint.constraint_places.iter().zip(&entries) {
            let source = blueprint.sources[place.column];
            let factor = self.builder.constant(source.sign * blueprint.layout.nominal[source.row]);
            let value = self.builder.mul(entry, factor);
            let sum = match scaled[place.row].get(&source.row) {
                Some(&known) => self.builder.add(known, value),
                None => value,
            };
            scaled[place.row].insert(source.row, sum);
        }
        let mut lower: Vec<Vec<Option<Value>>> = Vec::with_capacity(n);
        for i in 0..n {
            let mut row = Vec::with_capacity(i + 1);
            for j in 0..=i {
                let mut columns: Vec<usize> =
                    scaled[i].keys().copied().filter(|column| scaled[j].contains_key(column)).collect();
                columns.sort_unstable();
                let mut sum: Option<Value> = None;
                for column in columns {
                    let product = self.builder.mul(scaled[i][&column], scaled[j][&column]);
                    sum = Some(sum.map_or(product, |sum| self.builder.add(sum, product)));
                }
                row.push(sum);
            }
            lower.push(row);
        }
        let multipliers = solve_semidefinite(&mut self.builder, &lower, &residual);
        let mut projected = states.to_vec();
        for (row, state) in projected.iter_mut().enumerate() {
            let nominal = self.builder.constant(blueprint.layout.nominal[row]);
            for (constraint, entries) in scaled.iter().enumerate() {
                if let Some(&entry) = entries.get(&row) {
                    let weight = self.builder.mul(entry, nominal);
                    let change = self.builder.mul(weight, multipliers[constraint]);
                    *state = self.builder.sub(*state, change);
                }
            }
        }
        projected
    }

    /// The values of carried unknowns in a full list, zero elsewhere.
    pub(super) fn carried_unknowns(&mut self) -> Vec<Value> {
        let zero = self.builder.constant(0.0);
        let mut unknowns = vec![zero; self.blueprint.step_unknowns.len()];
        let n_states = self.blueprint.n_states();
        for (at, &unknown) in self.blueprint.carried_unknowns.iter().enumerate() {
            unknowns[unknown] = self.carried[n_states + at];
        }
        unknowns
    }

    /// Carried rows from states and unknowns.
    pub(super) fn carry(&self, states: &[Value], unknowns: &[Value]) -> Vec<Value> {
        let mut rows = states.to_vec();
        rows.extend(self.blueprint.carried_unknowns.iter().map(|&unknown| unknowns[unknown]));
        rows
    }

    /// The carried states.
    pub(super) fn states(&self) -> Vec<Value> {
        self.carried[..self.blueprint.n_states()].to_vec()
    }

    /// `max of |error| * weight`
    pub(super) fn error_norm(&mut self, errors: &[Value]) -> Value {
        let mut norm: Option<Value> = None;
        for (at, &error) in errors.iter().enumerate() {
            let weighted = self.builder.mul(error, self.weights[at]);
            let size = self.builder.unary(Unary::Abs, weighted);
            norm = Some(norm.map_or(size, |norm| self.builder.binary(Binary::Max, norm, size)));
        }
        norm.unwrap_or_else(|| self.builder.constant(0.0))
    }

    /// The values, followed by their tangents direction by direction.
    pub(super) fn with_tangents(&mut self, values: &[Value]) -> Vec<Value> {
        let zero = self.builder.constant(0.0);
        let mut all = values.to_vec();
        for seeds in &self.seeds {
            let tangents = self.builder.tangents(seeds, values);
            all.extend(tangents.into_iter().map(|tangent| tangent.unwrap_or(zero)));
        }
        all
    }

    /// The observed quantities at the carried states.
    pub(super) fn observed(&mut self) -> Vec<Value> {
        let blueprint = self.blueprint;
        let around = self.around(0, self.time);
        let states = self.states();
        let mut unknowns = self.carried_unknowns();
        let is_carried = |unknown: usize| blueprint.carried_unknowns.contains(&unknown);
        let mut wanted = vec![false; unknowns.len()];
        let needs: Vec<usize> =
            blueprint.observed_needs.iter().copied().filter(|&unknown| !is_carried(unknown)).collect();
        blueprint.blocks.mark(&needs, &mut wanted);
        if !needs.is_empty() {
            unknowns = self.solve(&around, &states, &unknowns, &wanted, NEWTON_STEPS);
        }
        self.bind(&around, &states, &unknowns);
        self.lower(&blueprint.observed)
    }

    /// All states of the system at the carried ones.
    pub(super) fn all_states(&mut self) -> Vec<Value> {
        let states = self.states();
        (0..self.blueprint.sources.len()).map(|at| self.state(&states, self.blueprint.sources[at])).collect()
    }
}

/// A matrix from its entries.
pub(super) fn collect(builder: &mut TapeBuilder, places: &[Place], entries: &[Value]) -> FxHashMap<Place, Value> {
    let mut matrix: FxHashMap<Place, Value> = FxHashMap::default();
    for (&place, &entry) in places.iter().zip(entries) {
        let sum = match matrix.get(&place) {
            Some(&known) => builder.add(known, entry),
            None => entry,
        };
        matrix.insert(place, sum);
    }
    matrix
}

impl Batch {
    /// Expressions of a graph that are lowered together.
    pub(super) fn of(graph: &Graph, roots: Vec<ExprId>) -> Self {
        Self::new(graph, roots)
    }
}
