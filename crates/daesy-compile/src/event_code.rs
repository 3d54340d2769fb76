//! What a model does at events, as expressions: held relations, event functions, schedules, new values of discrete
//! variables.
//!
//! Every relation between numbers that vary continuously, and every `floor`, `ceil`, `div`, `mod` and `rem` of such,
//! outside of `noEvent` and `smooth`, is replaced by a mode that keeps its value between events [@modelica36, sec.
//! 8.5]. A relation that is affine in time with coefficients that change at events only is scheduled, all others have
//! an event function. `abs`, `sign`, `min` and `max` make no events; they are evaluated as they stand. Event functions
//! of time alone are searched beforehand too (module `switches`), so that no step passes over a change. Variables that
//! equations give as functions of time alone are put into relations: where `phase = mod(time, period)` jumps,
//! `phase < width` follows before anything is solved in a mode that is over.
//!
//! `when c then x = e` becomes x = if (c and not pre(c)) then e else pre(x), with a mode for c [@modelica36, sec.
//! 8.3.5.2]. What only such an e needs is not followed between events.

use std::borrow::Cow;

use daesy_graph::flat::{ValueType, VariableKind, WhenAction};
use daesy_graph::print::LONGEST_SHOWN;
use daesy_graph::regular::RegularDae;
use daesy_graph::{BinaryOp, ExprId, Graph, Leaf, Node, Printer, Reach, Span, Substitution, UnaryOp, VarId};
use daesy_system::{Action, ActionKind, AssertionLabel, Before, DiscreteVariable, EventLabel, Events, Root};
use rustc_hash::FxHashMap;

use crate::discrete_start::DiscreteInitial;
use crate::lower::{CompileError, PartRows, evaluate_parameters};
use crate::switches::{Kind, Switch};
use crate::timed::{Timed, is_elsewhere};

/// Scheduled times closer than this, relative to their size, are one event.
const SAME_TIME: f64 = 1e-13;

/// Whole numbers of time are met this closely, relative to their size.
const SAME_NUMBER: f64 = 1e-12;

/// Events of a model with the variables that stand for modes.
pub(crate) struct Built {
    pub(crate) events: Events,
    /// The variable of each mode beside the discrete ones, with its position among all modes.
    pub(crate) modes: Vec<(VarId, usize)>,
    /// Functions of time alone among the event functions.
    pub(crate) switches: Vec<Switch>,
}

/// How a held value changes.
enum Change {
    /// At sign changes of these functions; the flag says whether zero counts as above.
    Roots(Vec<(ExprId, bool)>),
    /// At this time.
    At(ExprId),
}

struct Held {
    value: ExprId,
    var: VarId,
    change: Change,
    label: EventLabel,
}

/// Replaces what is held and writes the rows that say what happens at events.
pub(crate) fn build(
    regular: &RegularDae,
    graph: &mut Graph,
    rows: &mut PartRows,
    initial: &DiscreteInitial,
) -> Result<Built, CompileError> {
    let mut builder = Builder::new(regular, graph);
    let discrete: Vec<VarId> = regular.discrete.clone();
    let flat = &regular.flat;
    builder.timed = Timed::find(regular, graph, rows.residual.iter().chain(&rows.constraint).copied());

    // The continuous rows first, so that modes are counted in the order of the equations.
    let spans = |equations: &[daesy_graph::regular::RegularEquation]| -> Vec<Span> {
        equations.iter().map(|equation| flat.equations[equation.source as usize].span).collect()
    };
    builder.hold_all(graph, &mut rows.residual, &spans(&regular.equations));
    builder.hold_all(graph, &mut rows.constraint, &spans(&regular.constraints));

    let mut clauses = when_clauses(&mut builder, graph)?;
    let mut values = Vec::with_capacity(regular.discrete_equations.len());
    for equation in &regular.discrete_equations {
        values.push((equation.variable, builder.hold(graph, equation.value, equation.span)));
    }
    let mut first_values = Vec::with_capacity(initial.values.len());
    for &(var, value) in &initial.values {
        first_values.push((var, builder.hold(graph, value, flat.variables[var.index()].span)));
    }
    let no_spans = vec![Span::NONE; rows.observed.len().max(rows.initial.len())];
    builder.hold_all(graph, &mut rows.observed, &no_spans);
    builder.hold_all(graph, &mut rows.initial, &no_spans);
    for row in &mut rows.start {
        *row = builder.literal(graph, *row);
    }
    let mut assertions = Vec::new();
    for assertion in &flat.assertions {
        assertions.push(AssertionLabel {
            label: builder.label(graph, assertion.condition, assertion.span),
            message: assertion.message.clone(),
            is_warning: assertion.is_warning,
        });
        let condition = builder.literal(graph, assertion.condition);
        rows.assertions.push(condition);
    }

    let described = values_before(&mut builder, graph, initial, rows)?;
    let followed = [&rows.residual, &rows.constraint, &rows.observed, &rows.initial, &rows.modes_before];
    let followed = followed.into_iter().flatten().copied();
    let followed = followed.chain(values.iter().chain(&first_values).map(|&(_, value)| value)).collect();
    builder.let_go(graph, followed, &mut clauses);
    let Clauses { condition_values, conditions, mut assigned, actions } = clauses;
    assigned.extend(values);
    for (var, value) in first_values {
        let otherwise = assigned.get(&var).copied().unwrap_or_else(|| builder.before(graph, var));
        let is_initial = graph.var(builder.initial);
        assigned.insert(var, graph.select(is_initial, value, otherwise));
    }
    let discrete_values: Vec<ExprId> =
        discrete.iter().map(|var| assigned.get(var).copied().unwrap_or_else(|| builder.before(graph, *var))).collect();
    let mut events = Events {
        discrete: described,
        conditions,
        held: builder.held.iter().map(|held| held.label.clone()).collect(),
        before: builder.continuous_before.iter().map(|&(_, before)| before).collect(),
        n_clocks: builder.clocks.len(),
        assertions,
        has_terminal: graph.find(&Node::Terminal).is_some(),
        has_homotopy: builder.has_homotopy,
        has_layout: true,
        ..Events::default()
    };
    rows.modes.extend(discrete_values);
    rows.modes.extend(condition_values.iter().map(|&(value, ..)| value));
    builder.add_held(rows, &mut events);
    for &(_, start, interval) in &builder.clocks {
        rows.schedule.extend([start, interval]);
    }
    for (kind, label, acts, value) in actions {
        rows.actions.extend([acts, value]);
        events.actions.push(Action { kind, label });
    }

    crate::roots::expand(regular, graph, &rows.residual, &mut rows.roots);
    let unknowns: rustc_hash::FxHashSet<Leaf> =
        regular.unknowns.iter().map(|unknown| Leaf::der(unknown.var, unknown.order)).collect();
    let mut leaves = Vec::new();
    let watched: Vec<ExprId> = rows.roots.iter().chain(&rows.assertions).copied().collect();
    builder.reach.leaves(graph, &watched, &mut leaves);
    events.roots_need_unknowns = leaves.iter().any(|leaf| unknowns.contains(leaf));
    let modes = builder.modes(&discrete, &condition_values, &events);
    Ok(Built { events, modes, switches: builder.switches })
}

impl Builder<'_> {
    /// The rows of what is held: its value, and the functions or the time at which that changes.
    fn add_held(&self, rows: &mut PartRows, events: &mut Events) {
        for (at, held) in self.held.iter().enumerate() {
            rows.modes.push(held.value);
            match &held.change {
                Change::Roots(roots) => {
                    for &(root, is_zero_above) in roots {
                        rows.roots.push(root);
                        events.roots.push(Root { held: at as u32, is_zero_above });
                    }
                }
                Change::At(time) => {
                    rows.schedule.push(*time);
                    events.scheduled.push(at as u32);
                }
            }
        }
    }

    /// The place of every mode in their list.
    fn modes(&self, discrete: &[VarId], conditions: &[(ExprId, VarId, VarId)], events: &Events) -> Vec<(VarId, usize)> {
        let n_discrete = discrete.len();
        let mut modes = Vec::new();
        for (at, &(_, now, before)) in conditions.iter().enumerate() {
            modes.push((now, n_discrete + at));
            modes.push((before, events.switched_before() + n_discrete + at));
        }
        modes.extend(self.held.iter().enumerate().map(|(at, held)| (held.var, events.n_switched() + at)));
        for (at, var) in discrete.iter().enumerate() {
            modes.push((self.discrete_before[var], events.switched_before() + at));
        }
        for (at, &(var, _)) in self.continuous_before.iter().enumerate() {
            modes.push((var, events.continuous_before() + at));
        }
        modes.extend(self.clocks.iter().enumerate().map(|(at, &(var, ..))| (var, events.clocks() + at)));
        modes.push((self.initial, events.initial()));
        modes.push((self.terminal, events.terminal()));
        modes
    }
}

/// What when-clauses come to.
#[derive(Default)]
struct Clauses {
    /// Conditions, with the modes that hold their values now and before.
    condition_values: Vec<(ExprId, VarId, VarId)>,
    conditions: Vec<EventLabel>,
    /// By variable: what clauses make it.
    assigned: FxHashMap<VarId, ExprId>,
    /// What is done, and when.
    actions: Vec<(ActionKind, EventLabel, ExprId, ExprId)>,
}

/// Conditions and what they make.
fn when_clauses(builder: &mut Builder<'_>, graph: &mut Graph) -> Result<Clauses, CompileError> {
    let mut clauses = Clauses::default();
    for clause in &builder.regular.flat.when_clauses {
        let mut earlier: Option<ExprId> = None;
        for branch in &clause.branches {
            let Some(edge) = clauses.edge(builder, graph, &branch.conditions, clause.span) else { continue };
            let acts = match earlier {
                None => edge,
                Some(earlier) => {
                    let not_earlier = graph.not(earlier);
                    graph.and(edge, not_earlier)
                }
            };
            earlier = Some(earlier.map_or(edge, |earlier| graph.or(earlier, edge)));
            for action in &branch.actions {
                clauses.act(builder, graph, acts, action)?;
            }
        }
    }
    Ok(clauses)
}

impl Clauses {
    /// Whether one of the conditions becomes true.
    fn edge(
        &mut self,
        builder: &mut Builder<'_>,
        graph: &mut Graph,
        conditions: &[ExprId],
        span: Span,
    ) -> Option<ExprId> {
        let mut edge: Option<ExprId> = None;
        for &condition in conditions {
            let this = if graph.node(condition) == Node::Initial {
                graph.var(builder.initial)
            } else {
                let label = builder.label(graph, condition, span);
                let value = builder.hold(graph, condition, span);
                let (now, before) = (builder.fresh(), builder.fresh());
                self.condition_values.push((value, now, before));
                self.conditions.push(label);
                let (now, before) = (graph.var(now), graph.var(before));
                let is_initial = graph.var(builder.initial);
                let off = graph.or(before, is_initial);
                let not_before = graph.not(off);
                graph.and(now, not_before)
            };
            edge = Some(edge.map_or(this, |edge| graph.or(edge, this)));
        }
        edge
    }

    /// What an action makes of variables, or does, when `acts` is true.
    fn act(
        &mut self,
        builder: &mut Builder<'_>,
        graph: &mut Graph,
        acts: ExprId,
        action: &WhenAction,
    ) -> Result<(), CompileError> {
        match action {
            WhenAction::Assign { variable, value, span } => {
                let value = builder.hold(graph, *value, *span);
                let otherwise = self.assigned.get(variable).copied();
                let otherwise = otherwise.unwrap_or_else(|| builder.before(graph, *variable));
                self.assigned.insert(*variable, graph.select(acts, value, otherwise));
            }
            WhenAction::Reinit { variable, value, span } => {
                let kind = builder.reinit(graph, *variable, *span)?;
                let value = builder.hold(graph, *value, *span);
                let text = format!("reinit of `{}`", builder.regular.flat.variables[variable.index()].name);
                self.actions.push((kind, EventLabel { text, place: builder.place(*span) }, acts, value));
            }
            WhenAction::Assert(assertion) => {
                let label = builder.label(graph, assertion.condition, assertion.span);
                let value = builder.literal(graph, assertion.condition);
                let (message, is_warning) = (assertion.message.clone(), assertion.is_warning);
                self.actions.push((ActionKind::Assert { message, is_warning }, label, acts, value));
            }
            WhenAction::Terminate { message, span } => {
                let label = EventLabel { text: "terminate".to_owned(), place: builder.place(*span) };
                self.actions.push((ActionKind::Terminate { message: message.clone() }, label, acts, acts));
            }
        }
        Ok(())
    }
}

/// Values of the discrete variables before the start: `pre(d) = value` among the initial equations, or the `start`
/// attribute.
fn values_before(
    builder: &mut Builder<'_>,
    graph: &mut Graph,
    initial: &DiscreteInitial,
    rows: &mut PartRows,
) -> Result<Vec<DiscreteVariable>, CompileError> {
    let regular = builder.regular;
    let flat = &regular.flat;
    let parameters = evaluate_parameters(regular, &[])?;
    let mut by_variable = vec![0.0; flat.variables.len()];
    for (&var, &value) in regular.parameters.iter().zip(&parameters) {
        by_variable[var.index()] = value;
    }
    let environment = |var: VarId, _: u16| by_variable.get(var.index()).copied().unwrap_or(0.0);
    let mut evaluator = daesy_graph::Evaluator::new();
    let mut described = Vec::with_capacity(regular.discrete.len());
    for &var in &regular.discrete {
        let variable = &flat.variables[var.index()];
        let first = if matches!(variable.value_type, ValueType::Enumeration(_)) { 1.0 } else { 0.0 };
        let attribute = variable.start.unwrap_or_else(|| graph.number(first));
        let start = evaluator.evaluate_one(graph, attribute, &environment);
        let given = initial.before.iter().find(|(known, ..)| *known == var);
        let (value, before) = match given {
            Some((_, value, label)) => (builder.hold(graph, *value, Span::NONE), label.clone()),
            None => {
                let text = format!("start of `{}`", variable.name);
                (attribute, EventLabel { text, place: builder.place(variable.span) })
            }
        };
        rows.modes_before.push(value);
        let start = if start.is_finite() { start } else { first };
        let (is_real, largest) = (variable.value_type == ValueType::Real, variable.value_type.largest());
        described.push(DiscreteVariable { name: variable.name.clone(), start, is_real, largest, before });
    }
    Ok(described)
}

struct Builder<'m> {
    regular: &'m RegularDae,
    next_var: u32,
    initial: VarId,
    terminal: VarId,
    discrete_before: FxHashMap<VarId, VarId>,
    continuous_before: Vec<(VarId, Before)>,
    /// Variable, first tick, interval.
    clocks: Vec<(VarId, ExprId, ExprId)>,
    has_homotopy: bool,
    /// `pre`, `initial()`, `terminal()` and `sample` replaced by modes.
    leaves: Option<Substitution>,
    /// What expressions become when they are held.
    images: FxHashMap<ExprId, ExprId>,
    held: Vec<Held>,
    /// Functions of time alone whose changes are not known beforehand.
    switches: Vec<Switch>,
    /// Variables that are functions of time, and what they become when they are held.
    timed: Timed,
    timed_images: FxHashMap<VarId, ExprId>,
    /// What modes are called in texts.
    names: FxHashMap<VarId, String>,
    reach: Reach,
    dependence: Reach,
}

impl<'m> Builder<'m> {
    fn new(regular: &'m RegularDae, graph: &mut Graph) -> Self {
        let mut builder = Self {
            regular,
            next_var: regular.flat.variables.len() as u32,
            initial: VarId(0),
            terminal: VarId(0),
            discrete_before: FxHashMap::default(),
            continuous_before: Vec::new(),
            clocks: Vec::new(),
            has_homotopy: false,
            leaves: None,
            images: FxHashMap::default(),
            held: Vec::new(),
            switches: Vec::new(),
            timed: Timed::default(),
            timed_images: FxHashMap::default(),
            names: FxHashMap::default(),
            reach: Reach::new(),
            dependence: Reach::new(),
        };
        builder.initial = builder.fresh();
        builder.terminal = builder.fresh();
        for &var in &regular.discrete {
            let before = builder.fresh();
            builder.discrete_before.insert(var, before);
        }
        let text = |graph: &Graph, node: Node| {
            let name = |var: VarId| {
                Cow::Borrowed(regular.flat.variables.get(var.index()).map_or("", |variable| variable.name.as_str()))
            };
            graph
                .find(&node)
                .map_or_else(String::new, |expr| Printer::new(graph, &name).with_max_length(LONGEST_SHOWN).text(expr))
        };
        let nodes: Vec<(usize, Node)> = graph
            .nodes()
            .enumerate()
            .filter(|(_, node)| {
                matches!(
                    node,
                    Node::Pre(_)
                        | Node::Initial
                        | Node::Terminal
                        | Node::Sample { .. }
                        | Node::Binary { op: BinaryOp::Homotopy, .. }
                )
            })
            .collect();
        let mut substitution = Substitution::new();
        let mut has_any = false;
        for (_, node) in nodes {
            let var = match node {
                Node::Pre(var) => match builder.discrete_before.get(&var) {
                    Some(&before) => before,
                    None => match builder.continuous_place(var) {
                        Some(place) => {
                            let before = builder.fresh();
                            builder.continuous_before.push((before, place));
                            before
                        }
                        // Parameters do not change.
                        None => var,
                    },
                },
                Node::Initial => builder.initial,
                Node::Terminal => builder.terminal,
                Node::Sample { start, interval } => {
                    let var = builder.fresh();
                    builder.clocks.push((var, start, interval));
                    var
                }
                _ => {
                    builder.has_homotopy = true;
                    continue;
                }
            };
            has_any = true;
            builder.names.insert(var, text(graph, node));
            let expr = graph.intern(node);
            let replacement = graph.var(var);
            substitution.replace(expr, replacement);
        }
        builder.leaves = has_any.then_some(substitution);
        builder
    }

    fn fresh(&mut self) -> VarId {
        self.next_var += 1;
        VarId(self.next_var - 1)
    }

    fn continuous_place(&self, var: VarId) -> Option<Before> {
        let is_it = |derivative: &daesy_graph::regular::Derivative| derivative.var == var && derivative.order == 0;
        if let Some(state) = self.regular.states.iter().position(is_it) {
            return Some(Before::State(state as u32));
        }
        if let Some(unknown) = self.regular.unknowns.iter().position(is_it) {
            return Some(Before::Unknown(unknown as u32));
        }
        let mut start = 0;
        for input in &self.regular.inputs {
            if input.var == var {
                return Some(Before::Input(start));
            }
            start += 1 + u32::from(input.derivatives_needed);
        }
        None
    }

    /// The value of a discrete variable before the event.
    fn before(&self, graph: &mut Graph, var: VarId) -> ExprId {
        match self.discrete_before.get(&var) {
            Some(&before) => graph.var(before),
            None => graph.var(var),
        }
    }

    fn place(&self, span: Span) -> String {
        self.regular.flat.sources.place(span).map_or(String::new(), |place| place.to_string())
    }

    fn label(&self, graph: &Graph, expr: ExprId, span: Span) -> EventLabel {
        let variables = &self.regular.flat.variables;
        let name = |var: VarId| match variables.get(var.index()) {
            Some(variable) => Cow::Borrowed(variable.name.as_str()),
            None => Cow::Borrowed(self.names.get(&var).map_or("mode", String::as_str)),
        };
        let text = Printer::new(graph, &name).with_max_length(LONGEST_SHOWN).truth_text(expr);
        EventLabel { text, place: self.place(span) }
    }

    /// The state that a reinit is about.
    fn reinit(&self, graph: &Graph, var: VarId, span: Span) -> Result<ActionKind, CompileError> {
        let eliminated = self.regular.eliminated.iter().find(|eliminated| eliminated.var == var);
        let (var, sign) = match eliminated.map(|eliminated| graph.node(eliminated.value)) {
            None => (var, 1.0),
            Some(Node::Var { var, order: 0 }) => (var, 1.0),
            Some(Node::Unary { op: UnaryOp::Neg, arg }) => match graph.node(arg) {
                Node::Var { var, order: 0 } => (var, -1.0),
                _ => (var, 1.0),
            },
            Some(_) => (var, 1.0),
        };
        match self.continuous_place(var) {
            Some(Before::State(state)) => Ok(ActionKind::Reinit { state, sign }),
            _ => Err(CompileError::NotAState {
                name: self.regular.flat.variables[var.index()].name.clone(),
                place: self.place(span),
            }),
        }
    }

    /// The expression with `pre` and the like replaced and nothing held.
    fn literal(&mut self, graph: &mut Graph, expr: ExprId) -> ExprId {
        match &mut self.leaves {
            Some(leaves) => leaves.apply(graph, expr),
            None => expr,
        }
    }

    fn hold_all(&mut self, graph: &mut Graph, exprs: &mut [ExprId], spans: &[Span]) {
        for (expr, &span) in exprs.iter_mut().zip(spans) {
            *expr = self.hold(graph, *expr, span);
        }
    }

    /// The expression with everything replaced that is held between events.
    fn hold(&mut self, graph: &mut Graph, expr: ExprId, span: Span) -> ExprId {
        let root = self.literal(graph, expr);
        if !graph.may_make_events(root) {
            return root;
        }
        let is_barrier = |node: Node| matches!(node, Node::Unary { op: UnaryOp::NoEvent, .. } | Node::Smooth { .. });
        let order: Vec<ExprId> = self.reach.below_while(graph, &[root], |expr| !is_barrier(graph.node(expr))).to_vec();
        for expr in order {
            if self.images.contains_key(&expr) {
                continue;
            }
            let node = graph.node(expr);
            if is_barrier(node) {
                let image = if graph.keeps_events(expr) { self.hold_kept(graph, expr, span) } else { expr };
                self.images.insert(expr, image);
                continue;
            }
            let children = graph.children(expr);
            let images: Vec<ExprId> =
                children.iter().map(|child| self.images.get(child).copied().unwrap_or(*child)).collect();
            let made = if images[..] == children[..] { expr } else { graph.rebuild(expr, &images) };
            let image = self.hold_node(graph, expr, made, span);
            self.images.insert(expr, image);
        }
        self.images.get(&root).copied().unwrap_or(root)
    }

    /// Takes back what was held for nobody but the actions of when-clauses. These run at events only, where a relation
    /// and `floor` have the values that they have there [@modelica36, sec. 3.7.2]; following them in between would end
    /// a step at each of their changes, for nothing. What another equation or a condition follows too keeps its mode,
    /// so that both see the same value where it changes; so does what is scheduled, which costs nothing and is exact.
    fn let_go(&mut self, graph: &mut Graph, mut followed: Vec<ExprId>, clauses: &mut Clauses) {
        followed.extend(clauses.condition_values.iter().map(|&(value, ..)| value));
        followed.extend(clauses.actions.iter().map(|&(_, _, acts, _)| acts));
        let roots = |held: &Held| match &held.change {
            Change::Roots(roots) => roots.iter().map(|&(root, _)| root).collect(),
            Change::At(time) => vec![*time],
        };
        let is_free = |builder: &mut Self, held: &Held| {
            roots(held).iter().all(|&root| !builder.varies_with_time_only(graph, root))
        };
        let held = std::mem::take(&mut self.held);
        let mut is_kept: Vec<bool> = held.iter().map(|held| !is_free(self, held)).collect();
        for (held, _) in held.iter().zip(&is_kept).filter(|(_, is_kept)| **is_kept) {
            followed.push(held.value);
            followed.extend(roots(held));
        }
        // Modes lead to other modes only through what they are made of.
        loop {
            let mut leaves = Vec::new();
            self.reach.leaves(graph, &followed, &mut leaves);
            let found: rustc_hash::FxHashSet<Leaf> = leaves.into_iter().collect();
            followed.clear();
            for (held, is_kept) in held.iter().zip(&mut is_kept) {
                if !*is_kept && found.contains(&Leaf::var(held.var)) {
                    *is_kept = true;
                    followed.push(held.value);
                    followed.extend(roots(held));
                }
            }
            if followed.is_empty() {
                break;
            }
        }
        let mut substitution = Substitution::new();
        for (held, is_kept) in held.into_iter().zip(is_kept) {
            if is_kept {
                self.held.push(held);
            } else {
                let value = substitution.apply(graph, held.value);
                substitution.replace_leaf(graph, Leaf::var(held.var), value);
            }
        }
        for value in clauses.assigned.values_mut() {
            *value = substitution.apply(graph, *value);
        }
        for (_, _, _, value) in &mut clauses.actions {
            *value = substitution.apply(graph, *value);
        }
    }

    /// What is inside `noEvent` or `smooth`, with those parts held that the `noEvent` does not reach.
    fn hold_kept(&mut self, graph: &mut Graph, root: ExprId, span: Span) -> ExprId {
        let kept = |graph: &Graph, expr: ExprId| match graph.node(expr) {
            Node::Unary { op: UnaryOp::WithEvents, arg } => Some(arg),
            _ => None,
        };
        let below = self.reach.below_while(graph, &[root], |expr| kept(graph, expr).is_none()).to_vec();
        let mut substitution = Substitution::new();
        for expr in below {
            if let Some(arg) = kept(graph, expr) {
                let image = self.hold(graph, arg, span);
                substitution.replace(expr, image);
            }
        }
        substitution.apply(graph, root)
    }

    /// Whether an expression varies between events.
    fn varies(&mut self, graph: &Graph, expr: ExprId) -> bool {
        let variables = &self.regular.flat.variables;
        self.dependence.depends_on(graph, expr, |leaf| match leaf {
            Leaf::Time => true,
            Leaf::Var { var, .. } => variables
                .get(var.index())
                .is_some_and(|variable| matches!(variable.kind, VariableKind::Continuous | VariableKind::Input)),
        })
    }

    /// Whether an expression varies with time alone.
    fn varies_with_time_only(&mut self, graph: &Graph, expr: ExprId) -> bool {
        let variables = &self.regular.flat.variables;
        !self.dependence.depends_on(graph, expr, |leaf| match leaf {
            Leaf::Time => false,
            Leaf::Var { var, .. } => variables
                .get(var.index())
                .is_some_and(|variable| matches!(variable.kind, VariableKind::Continuous | VariableKind::Input)),
        })
    }

    /// The expression with variables that are functions of time replaced by them, where nothing else varies in it.
    fn in_time(&mut self, graph: &mut Graph, expr: ExprId, span: Span) -> ExprId {
        if is_elsewhere(graph, &mut self.reach, expr) {
            return expr;
        }
        let mut leaves = Vec::new();
        self.reach.leaves(graph, &[expr], &mut leaves);
        let variables = &self.regular.flat.variables;
        let varying: Vec<VarId> = leaves
            .iter()
            .filter_map(|leaf| match *leaf {
                Leaf::Var { var, .. }
                    if variables.get(var.index()).is_some_and(|variable| {
                        matches!(variable.kind, VariableKind::Continuous | VariableKind::Input)
                    }) =>
                {
                    Some((*leaf, var))
                }
                _ => None,
            })
            .map(|(leaf, var)| (leaf == Leaf::var(var) && self.timed.value(var).is_some()).then_some(var))
            .collect::<Option<_>>()
            .unwrap_or_default();
        let mut substitution = Substitution::new();
        for var in &varying {
            let Some(value) = self.timed.value(*var) else { continue };
            let image = match self.timed_images.get(var) {
                Some(&image) => image,
                None => {
                    // Definitions go back to earlier ones only.
                    let held = self.hold(graph, value, span);
                    let image = self.in_time(graph, held, span);
                    self.timed_images.insert(*var, image);
                    image
                }
            };
            substitution.replace_leaf(graph, Leaf::var(*var), image);
        }
        if varying.is_empty() { expr } else { substitution.apply(graph, expr) }
    }

    fn hold_node(&mut self, graph: &mut Graph, original: ExprId, made: ExprId, span: Span) -> ExprId {
        match graph.node(made) {
            Node::Binary {
                op: op @ (BinaryOp::Less | BinaryOp::LessEqual | BinaryOp::Greater | BinaryOp::GreaterEqual),
                lhs,
                rhs,
            } if self.varies(graph, made) => {
                let label = self.label(graph, original, span);
                let difference = graph.sub(lhs, rhs);
                let (made, difference) = (self.in_time(graph, made, span), self.in_time(graph, difference, span));
                if !self.varies(graph, made) {
                    return made;
                }
                match self.affine_in_time(graph, difference) {
                    Some(affine) => self.hold_timed_relation(graph, made, op, affine, label),
                    None => {
                        let is_zero_above = matches!(op, BinaryOp::GreaterEqual | BinaryOp::Less);
                        self.watch(graph, difference, Kind::Sign { is_zero_above });
                        self.push(graph, made, Change::Roots(vec![(difference, is_zero_above)]), label)
                    }
                }
            }
            Node::Unary { op: UnaryOp::Floor, arg } if self.varies(graph, arg) => {
                let label = self.label(graph, original, span);
                let arg = self.in_time(graph, arg, span);
                self.hold_floor(graph, arg, label)
            }
            Node::Unary { op: UnaryOp::Ceil, arg } if self.varies(graph, arg) => {
                let label = self.label(graph, original, span);
                let negative = graph.neg(arg);
                let negative = self.in_time(graph, negative, span);
                let floor = self.hold_floor(graph, negative, label);
                graph.neg(floor)
            }
            Node::Binary { op: BinaryOp::Modulo, lhs, rhs } if self.varies(graph, made) => {
                let label = self.label(graph, original, span);
                let quotient = graph.div(lhs, rhs);
                let quotient = self.in_time(graph, quotient, span);
                let whole = self.hold_floor(graph, quotient, label);
                let taken = graph.mul(whole, rhs);
                graph.sub(lhs, taken)
            }
            Node::Binary { op: BinaryOp::Quotient, lhs, rhs } if self.varies(graph, made) => {
                let label = self.label(graph, original, span);
                self.hold_quotient(graph, lhs, rhs, label, span)
            }
            Node::Binary { op: BinaryOp::Remainder, lhs, rhs } if self.varies(graph, made) => {
                let label = self.label(graph, original, span);
                let whole = self.hold_quotient(graph, lhs, rhs, label, span);
                let taken = graph.mul(whole, rhs);
                graph.sub(lhs, taken)
            }
            _ => made,
        }
    }

    fn push(&mut self, graph: &mut Graph, value: ExprId, change: Change, label: EventLabel) -> ExprId {
        let var = self.fresh();
        self.held.push(Held { value, var, change, label });
        graph.var(var)
    }

    /// Takes note of an event function that depends on time alone, so that steps can end where it changes.
    fn watch(&mut self, graph: &Graph, function: ExprId, kind: Kind) {
        if self.varies_with_time_only(graph, function) {
            self.switches.push(Switch { function, kind });
        }
    }

    /// slope and remainder of an expression that is affine in time, both constant between events.
    fn affine_in_time(&mut self, graph: &mut Graph, expr: ExprId) -> Option<Affine> {
        if !self.varies_with_time_only(graph, expr) {
            return None;
        }
        let form = graph.linear_coefficients(expr, &[Leaf::Time]).ok()?;
        let slope = form.coefficients.first()?.value;
        Some(Affine { slope, remainder: form.remainder })
    }

    /// A relation that changes at a known time. Exactly then it has its value just after, but at the start and at the
    /// end, where there is no before or after, the value there.
    fn hold_timed_relation(
        &mut self,
        graph: &mut Graph,
        relation: ExprId,
        op: BinaryOp,
        affine: Affine,
        label: EventLabel,
    ) -> ExprId {
        let negative = graph.neg(affine.remainder);
        let at = graph.div(negative, affine.slope);
        let zero = graph.number(0.0);
        let after = match op {
            BinaryOp::Greater | BinaryOp::GreaterEqual => graph.greater(affine.slope, zero),
            _ => graph.less(affine.slope, zero),
        };
        let time = graph.time();
        let distance = graph.sub(time, at);
        let distance = graph.unary(UnaryOp::Abs, distance);
        let (size, size_at) = (graph.unary(UnaryOp::Abs, time), graph.unary(UnaryOp::Abs, at));
        let size = graph.add(size, size_at);
        let tolerance = graph.number(SAME_TIME);
        let tolerance = graph.mul(tolerance, size);
        let is_near = graph.less_equal(distance, tolerance);
        let there = graph.truth(matches!(op, BinaryOp::GreaterEqual | BinaryOp::LessEqual));
        let value = self.at_change(graph, affine.slope, is_near, [after, there], relation);
        self.push(graph, value, Change::At(at), label)
    }

    /// Where the condition holds and this is not the start, the first value, at the end the second. What stands still
    /// for now, as a piecewise function of time does on its flat parts, changes at no time, wherever it stands.
    fn at_change(
        &self,
        graph: &mut Graph,
        slope: ExprId,
        condition: ExprId,
        [after, there]: [ExprId; 2],
        otherwise: ExprId,
    ) -> ExprId {
        let (is_initial, is_terminal) = (graph.var(self.initial), graph.var(self.terminal));
        let is_running = graph.not(is_initial);
        let condition = graph.and(condition, is_running);
        let (speed, zero) = (graph.unary(UnaryOp::Abs, slope), graph.number(0.0));
        let is_moving = graph.greater(speed, zero);
        let condition = graph.and(condition, is_moving);
        let changed = graph.select(is_terminal, there, after);
        graph.select(condition, changed, otherwise)
    }

    fn hold_floor(&mut self, graph: &mut Graph, arg: ExprId, label: EventLabel) -> ExprId {
        let floor = graph.unary(UnaryOp::Floor, arg);
        if let Some(held) = self.held.iter().find(|held| held.value == floor) {
            return graph.var(held.var);
        }
        let var = self.fresh();
        let (mode, one) = (graph.var(var), graph.number(1.0));
        let next = graph.add(mode, one);
        match self.affine_in_time(graph, arg) {
            Some(Affine { slope, remainder }) => {
                let zero = graph.number(0.0);
                let is_rising = graph.greater(slope, zero);
                let level = graph.select(is_rising, next, mode);
                let distance = graph.sub(level, remainder);
                let at = graph.div(distance, slope);
                // At a whole number the value just after counts, but at the end.
                let half = graph.number(0.5);
                let shifted = graph.add(arg, half);
                let nearest = graph.unary(UnaryOp::Floor, shifted);
                let below = graph.sub(nearest, one);
                let after = graph.select(is_rising, nearest, below);
                let off = graph.sub(arg, nearest);
                let off = graph.unary(UnaryOp::Abs, off);
                let size = graph.unary(UnaryOp::Abs, arg);
                let size = graph.max(size, one);
                let tolerance = graph.number(SAME_NUMBER);
                let tolerance = graph.mul(tolerance, size);
                let is_near = graph.less_equal(off, tolerance);
                let value = self.at_change(graph, slope, is_near, [after, nearest], floor);
                self.held.push(Held { value, var, change: Change::At(at), label });
            }
            None => {
                self.watch(graph, arg, Kind::Whole);
                let (above, below) = (graph.sub(arg, mode), graph.sub(next, arg));
                let change = Change::Roots(vec![(above, true), (below, false)]);
                self.held.push(Held { value: floor, var, change, label });
            }
        }
        mode
    }

    /// `div(a, b)`, the quotient q truncated towards zero: max(floor(q), 0) - max(floor(-q), 0).
    fn hold_quotient(&mut self, graph: &mut Graph, lhs: ExprId, rhs: ExprId, label: EventLabel, span: Span) -> ExprId {
        let quotient = graph.div(lhs, rhs);
        let quotient = self.in_time(graph, quotient, span);
        let zero = graph.number(0.0);
        let parts = [quotient, graph.neg(quotient)].map(|part| {
            let floor = self.hold_floor(graph, part, label.clone());
            graph.max(floor, zero)
        });
        graph.sub(parts[0], parts[1])
    }
}

/// slope * time + remainder
struct Affine {
    slope: ExprId,
    remainder: ExprId,
}
