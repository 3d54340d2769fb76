//! What nonlinear models do where an input or a relation jumps: jumps and impulses by balances across the moment.
//!
//! Let the equations be F_i(x, x', .., u, m) = 0, linear in everything that has an impulse: at the moment of a jump,
//! x_j is
//!
//! ```text
//! x_j = smooth + jump_j H + I_j0 delta + I_j1 delta' + ..
//! ```
//!
//! and the coefficients of delta, delta', .. in every equation must vanish, with dF_i/dx_j^(k) as it is at that moment.
//! This is the integral of the equations across the event [@barton2002, sec. 4.2 and 4.4]; together with all
//! constraints, explicit and hidden, at the values just after it makes the overdetermined system of sec. 4.4, which is
//! solved by the Gauss-Newton method.
//!
//! How far x_j can be thrown follows from the offsets c_i, d_j of the Sigma-method [@pryce2001]: a jump in equation i
//! reaches the derivative of order d_j - c_i of x_j, so that x_j is continuous where that is 1 or more. Where a factor
//! of an impulse jumps itself, the product has no meaning; such models, [@barton2002, eq. (4.12)] among them, are
//! refused by name.

use daesy_compile::CompiledSystem;
use daesy_graph::{Differentiator, Environment, Evaluator, ExprId, Graph, Leaf, Reach, VarId};
use daesy_integrate::{Crossed, Crossing, JumpError, JumpRule};
use daesy_pencil::largest_dense;
use daesy_system::{DaeSystem, Part, Point};
use rustc_hash::FxHashMap;

use crate::least_squares::least_squares;
use crate::simulate::{Event, EventKind, ImpulseAt, ImpulseOf};
use daesy_structure::straighten::watched_equation;
use daesy_structure::words::{Term, combination_text};

/// Gauss-Newton steps.
const MAX_STEPS: usize = 25;

/// Impulses below this fraction of the sizes they are made of are rounding.
const ROUNDING: f64 = 1e-9;

/// More unknowns than this are not balanced densely.
const DENSE: usize = largest_dense(1);

/// An equation of the model, not differentiated, with the derivatives of it.
struct Balance {
    /// How often the regular form differentiates it.
    offset: i32,
    /// dF/dx^(k) for each leaf that is an unknown or a derivative of one.
    terms: Vec<BalanceTerm>,
    /// dF/du^(k) for each input, by position of the input.
    input_terms: Vec<BalanceTerm>,
    /// Inputs and modes in it.
    sources: Vec<Leaf>,
    block: usize,
}

#[derive(Clone, Copy)]
struct BalanceTerm {
    variable: usize,
    order: i32,
    coefficient: ExprId,
}

struct Variable {
    var: VarId,
    /// d_j
    offset: i32,
    /// First of its states.
    first_state: usize,
    block: usize,
}

/// The transfer of a model of any kind.
pub(crate) struct BalanceTransfer<'a> {
    system: &'a CompiledSystem,
    graph: Graph,
    balances: Vec<Balance>,
    variables: Vec<Variable>,
    n_blocks: usize,
    impulses: &'a [ImpulseAt],
    /// What happened so far.
    pub(crate) events: Vec<Event>,
    /// Whether anybody asks what happened.
    keeps_events: bool,
}

/// The rule by which the states of a system of any kind cross jumps of inputs and relations, where constraints are
/// hidden; `None` where states go on as they are, or the system is too large. The balances are made at the first jump:
/// whoever has many instances of a system need not pay for those that never meet one.
#[must_use]
pub fn transfer_rule(system: &CompiledSystem) -> Option<Box<dyn JumpRule + '_>> {
    is_asked_for(system, &[]).then(|| Box::new(AtFirstJump { system, balances: None }) as Box<dyn JumpRule + '_>)
}

/// Whether constraints, inputs that are differentiated or impulses make balances necessary, and the size allows them.
fn is_asked_for(system: &CompiledSystem, impulses: &[ImpulseAt]) -> bool {
    let regular = system.regular();
    let is_plain = regular.constraints.is_empty() && regular.inputs.iter().all(|input| input.derivatives_needed == 0);
    !(is_plain && impulses.is_empty() || regular.unknowns.len() > DENSE)
}

/// Whether a leaf is the residual of an equation as it was written.
fn is_watched(system: &CompiledSystem, leaf: Leaf) -> bool {
    let variables = &system.regular().flat.variables;
    let name = |var: VarId| variables.get(var.index()).map(|variable| variable.name.as_str());
    matches!(leaf, Leaf::Var { var, .. } if name(var).is_some_and(|name| watched_equation(name).is_some()))
}

/// Balances that are made when they are first needed; nothing in place of those that cannot be made.
struct AtFirstJump<'a> {
    system: &'a CompiledSystem,
    balances: Option<Option<Box<BalanceTransfer<'a>>>>,
}

impl JumpRule for AtFirstJump<'_> {
    fn acts_at_start(&self, _: f64) -> bool {
        false
    }

    fn cross(&mut self, crossing: &Crossing<'_>, states: &mut [f64]) -> Result<Crossed, JumpError> {
        let is_still = crossing.inputs_before == crossing.inputs_after && crossing.modes == crossing.modes_after;
        if is_still {
            return Ok(Crossed::Smoothly);
        }
        let system = self.system;
        let prepared = || {
            let balances = BalanceTransfer::prepare(system, &[])?;
            Some(Box::new(BalanceTransfer { keeps_events: false, ..balances }))
        };
        match self.balances.get_or_insert_with(prepared) {
            Some(balances) => balances.cross(crossing, states),
            None => Ok(Crossed::Smoothly),
        }
    }
}

/// What jumps, by leaf: the lowest derivative that does.
struct Jumping {
    orders: FxHashMap<Leaf, i32>,
    /// By input: the jumps of its value and derivatives.
    steps: Vec<Vec<f64>>,
    /// By input: the area of its impulse.
    areas: Vec<f64>,
}

impl Jumping {
    /// The coefficient of delta^(p) in an input; with p = -1, -2, .. the jump of its value, its derivative, ..
    fn of_input(&self, input: usize, p: i32) -> f64 {
        match p {
            0 => self.areas[input],
            p if p < 0 => self.steps[input].get((-1 - p) as usize).copied().unwrap_or(0.0),
            _ => 0.0,
        }
    }
}

/// The moment of an event as the balances see it.
struct Moment<'m> {
    time: f64,
    parameters: &'m [f64],
    inputs_before: &'m [f64],
    inputs_after: &'m [f64],
    modes_before: &'m [f64],
    modes_after: &'m [f64],
    unknowns: &'m [f64],
}

/// What the balances say.
struct Answer {
    /// Coefficients of delta, delta', .. by variable.
    impulses: Vec<Vec<f64>>,
    /// Combinations that stay continuous.
    continuous: Vec<Vec<Term>>,
}

impl<'a> BalanceTransfer<'a> {
    /// Prepares the balances; `None` where no constraint makes them necessary or the model is too large.
    pub(crate) fn prepare(system: &'a CompiledSystem, impulses: &'a [ImpulseAt]) -> Option<Self> {
        if !is_asked_for(system, impulses) {
            return None;
        }
        let regular = system.regular();
        let mut block_of = vec![0; regular.unknowns.len()];
        for (at, block) in regular.blocks.iter().enumerate() {
            block_of[block.start as usize..(block.start + block.len) as usize].fill(at);
        }
        let mut first_state: FxHashMap<VarId, usize> = FxHashMap::default();
        for (at, state) in regular.states.iter().enumerate() {
            if state.order == 0 {
                first_state.insert(state.var, at);
            }
        }
        let mut variables = Vec::new();
        let mut position: FxHashMap<VarId, usize> = FxHashMap::default();
        for (at, unknown) in regular.unknowns.iter().enumerate() {
            position.insert(unknown.var, at);
            variables.push(Variable {
                var: unknown.var,
                offset: i32::from(unknown.order),
                first_state: first_state.get(&unknown.var).copied().unwrap_or(usize::MAX),
                block: block_of[at],
            });
        }
        let mut graph = system.graph().clone();
        let leaves: Vec<Leaf> = regular
            .unknowns
            .iter()
            .map(|unknown| (unknown.var, unknown.order))
            .chain(regular.inputs.iter().map(|input| (input.var, input.derivatives_needed)))
            .flat_map(|(var, highest)| (0..=highest).map(move |order| Leaf::der(var, order)))
            .collect();
        let input_position: FxHashMap<VarId, usize> =
            regular.inputs.iter().enumerate().map(|(at, input)| (input.var, at)).collect();
        let mut differentiator = Differentiator::new(&mut graph, &leaves);
        let (mut reach, mut below) = (Reach::new(), Vec::new());
        let mut balances = Vec::new();
        for (at, equation) in regular.equations.iter().enumerate() {
            let residual = if equation.differentiated == 0 {
                system.residual_rows()[at]
            } else {
                let is_it = |constraint: &daesy_graph::regular::RegularEquation| {
                    constraint.source == equation.source && constraint.differentiated == 0
                };
                let row = regular.constraints.iter().position(is_it)?;
                system.constraint_rows()[row]
            };
            let offset = i32::from(equation.differentiated);
            let (mut terms, mut input_terms) = (Vec::new(), Vec::new());
            reach.leaves(&graph, &[residual], &mut below);
            // The residuals that a run is compared by say nothing of its own.
            if below.iter().any(|leaf| is_watched(system, *leaf)) {
                balances.push(Balance { offset, terms, input_terms, sources: Vec::new(), block: block_of[at] });
                continue;
            }
            let gradient = differentiator.gradient(&mut graph, residual);
            for entry in gradient {
                let Leaf::Var { var, order } = leaves[entry.column as usize] else { continue };
                let (order, coefficient) = (i32::from(order), entry.value);
                if let Some(&variable) = position.get(&var) {
                    terms.push(BalanceTerm { variable, order, coefficient });
                } else if let Some(&variable) = input_position.get(&var) {
                    input_terms.push(BalanceTerm { variable, order, coefficient });
                }
            }
            let is_source = |leaf: &&Leaf| matches!(leaf, Leaf::Var { var, .. } if !position.contains_key(var));
            let sources = below.iter().filter(is_source).copied().collect();
            balances.push(Balance { offset, terms, input_terms, sources, block: block_of[at] });
        }
        Some(Self {
            system,
            graph,
            balances,
            variables,
            n_blocks: regular.blocks.len(),
            impulses,
            events: Vec::new(),
            keeps_events: true,
        })
    }

    fn name(&self, var: VarId) -> &str {
        self.system.regular().flat.variables.get(var.index()).map_or("a relation", |variable| variable.name.as_str())
    }

    /// Which inputs and modes jump.
    fn jumping(&self, moment: &Moment<'_>) -> Jumping {
        let regular = self.system.regular();
        let mut orders = FxHashMap::default();
        let description = self.system.description();
        let mut steps = Vec::with_capacity(regular.inputs.len());
        for (input, place) in regular.inputs.iter().zip(&description.inputs) {
            let len = usize::from(input.derivatives_needed) + 1;
            let mut jumps = vec![0.0; len];
            let mut has_jump = false;
            for (order, jump) in jumps.iter_mut().enumerate() {
                let at = place.start + order;
                let (before, after) = (moment.inputs_before[at], moment.inputs_after[at]);
                // The sides are read a little apart: what a slope makes of that distance is no jump.
                let slope = if order + 1 < len {
                    moment.inputs_before[at + 1].abs().max(moment.inputs_after[at + 1].abs())
                } else {
                    0.0
                };
                let distance = 4e-12 * moment.time.abs().max(1e-3);
                if (after - before).abs() <= 1e-9 * before.abs().max(after.abs()) + distance * slope {
                    continue;
                }
                *jump = after - before;
                if !std::mem::replace(&mut has_jump, true) {
                    // In an equation, der(u) jumps one order earlier than u.
                    for leaf_order in 0..len {
                        let jumps_at = order as i32 - leaf_order as i32;
                        orders.insert(Leaf::der(input.var, leaf_order as u16), jumps_at);
                    }
                }
            }
            steps.push(jumps);
        }
        let mut areas = vec![0.0; regular.inputs.len()];
        for impulse in self.impulses.iter().filter(|impulse| impulse.time == moment.time) {
            if let Some(at) = regular.inputs.iter().position(|input| self.name(input.var) == impulse.input) {
                areas[at] += impulse.area;
                let input = &regular.inputs[at];
                for leaf_order in 0..=input.derivatives_needed {
                    orders.insert(Leaf::der(input.var, leaf_order), -1 - i32::from(leaf_order));
                }
            }
        }
        for (position, (before, after)) in moment.modes_before.iter().zip(moment.modes_after).enumerate() {
            if before != after
                && let Some(var) = self.system.mode_variable(position)
            {
                orders.insert(Leaf::var(var), 0);
            }
        }
        Jumping { orders, steps, areas }
    }

    /// For each variable the lowest derivative that can jump.
    fn reach_of(&self, jumping: &Jumping) -> Vec<i32> {
        const NEVER: i32 = i32::MIN / 2;
        // By block: the offset of the equation that is hit, less the order of the jump in it.
        let mut hits = vec![NEVER; self.n_blocks];
        for block in 0..self.n_blocks {
            let mut hit = NEVER;
            for balance in self.balances.iter().filter(|balance| balance.block == block) {
                for source in &balance.sources {
                    if let Some(order) = jumping.orders.get(source) {
                        hit = hit.max(balance.offset - order);
                    }
                }
                for term in &balance.terms {
                    let variable = &self.variables[term.variable];
                    if variable.block != block && hits[variable.block] > NEVER {
                        let jumps_at = variable.offset - hits[variable.block] - term.order;
                        hit = hit.max(balance.offset - jumps_at);
                    }
                }
            }
            hits[block] = hit;
        }
        let never = i32::MAX / 2;
        let of = |variable: &Variable| {
            let hit = hits[variable.block];
            if hit == NEVER { never } else { variable.offset - hit }
        };
        self.variables.iter().map(of).collect()
    }

    /// The states after the moment, in place, and what happens at it; `None` where nothing jumps that matters.
    fn solve(&self, moment: &Moment<'_>, states: &mut [f64]) -> Result<Option<Answer>, JumpError> {
        let jumping = self.jumping(moment);
        if jumping.orders.is_empty() {
            return Ok(None);
        }
        let lowest = self.reach_of(&jumping);
        // Unknowns: states that can jump, then impulses.
        let mut columns: Vec<usize> = Vec::new();
        let mut column_of_state = vec![usize::MAX; states.len()];
        let mut first_impulse = vec![usize::MAX; self.variables.len()];
        let mut n_impulses = vec![0usize; self.variables.len()];
        for (at, variable) in self.variables.iter().enumerate() {
            for order in 0..variable.offset {
                if lowest[at] - order <= 0 {
                    let state = variable.first_state + order as usize;
                    column_of_state[state] = columns.len();
                    columns.push(state);
                }
            }
        }
        let mut n_unknowns = columns.len();
        for at in 0..self.variables.len() {
            if lowest[at] < 0 {
                first_impulse[at] = n_unknowns;
                n_impulses[at] = (-lowest[at]) as usize;
                n_unknowns += n_impulses[at];
            }
        }
        if n_unknowns == 0 {
            let continuous = self.continuous_variables(&lowest);
            return Ok(Some(Answer { impulses: vec![Vec::new(); self.variables.len()], continuous }));
        }
        if n_unknowns > DENSE {
            return Err(JumpError { reason: format!("{n_unknowns} values may jump, too many for dense matrices") });
        }
        let before = states.to_vec();
        let environment = At { system: self.system, moment, states: &before };
        let mut evaluator = Evaluator::new();
        // The linear rows: coefficients of delta^(q) in each equation.
        let mut rows: Vec<Vec<f64>> = Vec::new();
        let mut targets: Vec<f64> = Vec::new();
        let mut is_balanced: Vec<bool> = Vec::new();
        let mut products: Vec<Product> = Vec::new();
        for (equation, balance) in self.balances.iter().enumerate() {
            let worst = balance.terms.iter().map(|term| lowest[term.variable] - term.order).min().unwrap_or(0);
            let source_worst =
                balance.sources.iter().filter_map(|source| jumping.orders.get(source)).min().copied().unwrap_or(0);
            for q in 0..(-worst.min(source_worst)).max(0) {
                let mut row = vec![0.0; n_unknowns];
                let mut constant = 0.0;
                let (mut has_terms, mut has_known) = (false, false);
                for term in &balance.terms {
                    let p = q - term.order;
                    let column = if p >= 0 {
                        if (p as usize) >= n_impulses[term.variable] {
                            continue;
                        }
                        first_impulse[term.variable] + p as usize
                    } else {
                        let state = self.variables[term.variable].first_state + (-1 - p) as usize;
                        let column = column_of_state[state];
                        if column == usize::MAX {
                            continue;
                        }
                        column
                    };
                    let value = evaluator.evaluate_one(&self.graph, term.coefficient, &environment);
                    row[column] += value;
                    if column < columns.len() {
                        constant += value * before[columns[column]];
                    }
                    has_terms = true;
                    let strength = Strength::Unknown(column);
                    products.push(Product { equation, coefficient: term.coefficient, strength, q });
                }
                for term in &balance.input_terms {
                    let known = jumping.of_input(term.variable, q - term.order);
                    if known != 0.0 {
                        let value = evaluator.evaluate_one(&self.graph, term.coefficient, &environment);
                        constant -= value * known;
                        has_known = true;
                        let strength = Strength::Known;
                        products.push(Product { equation, coefficient: term.coefficient, strength, q });
                    }
                }
                if has_terms {
                    is_balanced.push(!has_known);
                    rows.push(row);
                    targets.push(constant);
                }
            }
        }
        let mut y: Vec<f64> = columns.iter().map(|&state| before[state]).collect();
        y.resize(n_unknowns, 0.0);
        self.gauss_newton(moment, states, &columns, &column_of_state, &rows, &targets, &mut y)?;
        let answer =
            self.answer(&before, states, &columns, &rows, &is_balanced, &y, &first_impulse, &n_impulses, &lowest);
        self.refuse_products(moment, &jumping, &lowest, &products, &columns, &before, &y)?;
        Ok(Some(answer))
    }

    /// All constraints at the values after, and the balances, in the least-squares sense.
    #[allow(clippy::too_many_arguments, reason = "one kernel, called once")]
    fn gauss_newton(
        &self,
        moment: &Moment<'_>,
        states: &mut [f64],
        columns: &[usize],
        column_of_state: &[usize],
        rows: &[Vec<f64>],
        targets: &[f64],
        y: &mut [f64],
    ) -> Result<(), JumpError> {
        let description = self.system.description();
        let pattern = self.system.pattern(Part::ConstraintByStates);
        let mut evaluator = self.system.evaluator();
        let mut residual = vec![0.0; pattern.n_rows];
        let mut values = vec![0.0; pattern.n_entries()];
        let scales: Vec<f64> = columns.iter().map(|&state| description.states[state].nominal).collect();
        let scale = |column: usize| scales.get(column).copied().unwrap_or(1.0);
        let mut last = f64::INFINITY;
        for step in 0..MAX_STEPS {
            let point = Point {
                time: moment.time,
                states,
                unknowns: moment.unknowns,
                parameters: moment.parameters,
                inputs: moment.inputs_after,
                modes: moment.modes_after,
            };
            evaluator.evaluate(Part::Constraint, &point, &mut residual);
            evaluator.evaluate(Part::ConstraintByStates, &point, &mut values);
            let mut matrix: Vec<Vec<f64>> = Vec::new();
            let mut right: Vec<f64> = Vec::new();
            let mut push = |mut row: Vec<f64>, mut value: f64| {
                for (column, entry) in row.iter_mut().enumerate() {
                    *entry *= scale(column);
                }
                let norm = row.iter().map(|entry| entry * entry).sum::<f64>().sqrt();
                if norm > 0.0 && norm.is_finite() && value.is_finite() {
                    row.iter_mut().for_each(|entry| *entry /= norm);
                    value /= norm;
                    matrix.push(row);
                    right.push(value);
                }
            };
            for (at, value) in residual.iter().enumerate() {
                let mut row = vec![0.0; y.len()];
                for entry in pattern.row(at) {
                    let column = column_of_state[pattern.columns[entry] as usize];
                    if column != usize::MAX {
                        row[column] += values[entry];
                    }
                }
                push(row, -value);
            }
            for (row, target) in rows.iter().zip(targets) {
                let sum: f64 = row.iter().zip(y.iter()).map(|(factor, value)| factor * value).sum();
                push(row.clone(), target - sum);
            }
            let found = least_squares(&matrix, &right, y.len());
            if found.rank < y.len() {
                let free = found.free_columns.iter().find_map(|&column| columns.get(column));
                let name = free.map_or("an impulse", |&state| description.states[state].name.as_str());
                return Err(JumpError { reason: format!("the equations leave open what `{name}` becomes") });
            }
            let mut size = 0.0f64;
            for (column, (value, change)) in y.iter_mut().zip(&found.solution).enumerate() {
                *value += change * scale(column);
                size = size.max(change.abs() / (value.abs() / scale(column)).max(1.0));
            }
            for (column, &state) in columns.iter().enumerate() {
                states[state] = y[column];
            }
            if !size.is_finite() {
                break;
            }
            if size <= 1e-12 || size <= 1e-8 && size >= 0.5 * last {
                let left = found.residual;
                if step > 0 && left > 1e-5 {
                    break;
                }
                return Ok(());
            }
            last = size;
        }
        Err(JumpError { reason: "the constraints and the balances of impulses contradict each other".to_owned() })
    }

    /// A product of an impulse with something that jumps has no meaning.
    #[allow(clippy::too_many_arguments, reason = "one question, asked once")]
    fn refuse_products(
        &self,
        moment: &Moment<'_>,
        jumping: &Jumping,
        lowest: &[i32],
        products: &[Product],
        columns: &[usize],
        before: &[f64],
        y: &[f64],
    ) -> Result<(), JumpError> {
        let flat = &self.system.regular().flat;
        let (mut reach, mut leaves) = (Reach::new(), Vec::new());
        let position: FxHashMap<VarId, usize> =
            self.variables.iter().enumerate().map(|(at, variable)| (variable.var, at)).collect();
        for product in products {
            let is_nothing = match product.strength {
                Strength::Known => false,
                Strength::Unknown(column) => match columns.get(column) {
                    Some(&state) => (y[column] - before[state]).abs() <= 1e-7 * before[state].abs().max(1e-3),
                    None => y[column].abs() <= 1e-7,
                },
            };
            if is_nothing {
                continue;
            }
            reach.leaves(&self.graph, &[product.coefficient], &mut leaves);
            for leaf in &leaves {
                let Leaf::Var { var, order } = *leaf else { continue };
                let does_jump = match position.get(&var) {
                    Some(&at) => {
                        let state = self.variables[at].first_state.wrapping_add(usize::from(order));
                        let is_reached = lowest[at] - i32::from(order) <= 0;
                        let column = columns.iter().position(|&known| known == state);
                        let moves = column.is_none_or(|column| {
                            (y[column] - before[state]).abs() > 1e-7 * before[state].abs().max(1e-3)
                        });
                        is_reached && moves
                    }
                    // Equations that switch hold as they are afterwards.
                    None => {
                        let is_input = self.system.regular().inputs.iter().any(|input| input.var == var);
                        is_input && jumping.orders.get(leaf).is_some_and(|&jump| jump <= 0)
                    }
                };
                let varies_under_derivative = product.q > 0 && position.contains_key(&var);
                if does_jump || varies_under_derivative {
                    let equation = self.system.regular().equations[product.equation].source as usize;
                    let text = flat.equation_text(&flat.equations[equation]);
                    let place = flat.sources.place(flat.equations[equation].span);
                    let place = place.map_or(String::new(), |place| format!(" ({place})"));
                    let factor = self.name(var);
                    let why = if does_jump { "jumps" } else { "changes" };
                    return Err(JumpError {
                        reason: format!(
                            "in `{text}`{place} an impulse is multiplied by `{factor}`, which {why} at t = {}; such a product has no \
                             defined value",
                            moment.time
                        ),
                    });
                }
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "sorts one result")]
    fn answer(
        &self,
        before: &[f64],
        states: &[f64],
        columns: &[usize],
        rows: &[Vec<f64>],
        is_balanced: &[bool],
        y: &[f64],
        first_impulse: &[usize],
        n_impulses: &[usize],
        lowest: &[i32],
    ) -> Answer {
        let size = columns.iter().fold(1e-6f64, |size, &state| size.max(states[state].abs()).max(before[state].abs()));
        let impulses = (0..self.variables.len())
            .map(|at| {
                let mut coefficients: Vec<f64> = (0..n_impulses[at])
                    .map(|order| y[first_impulse[at] + order])
                    .map(|value| if value.abs() <= ROUNDING * size { 0.0 } else { value })
                    .collect();
                while coefficients.last() == Some(&0.0) {
                    coefficients.pop();
                }
                coefficients
            })
            .collect();
        let mut continuous = self.continuous_variables(lowest);
        // A balance without impulses says that a combination of variables does not jump.
        let names = &self.system.description().states;
        for (row, _) in rows.iter().zip(is_balanced).filter(|(_, is_balanced)| **is_balanced) {
            if row[columns.len()..].iter().any(|factor| *factor != 0.0) {
                continue;
            }
            let terms: Vec<Term> = columns
                .iter()
                .enumerate()
                .filter(|(column, _)| row[*column] != 0.0)
                .map(|(column, &state)| Term { factor: row[column], name: names[state].name.clone() })
                .collect();
            if !terms.is_empty() {
                continuous.push(terms);
            }
        }
        Answer { impulses, continuous }
    }

    /// Variables with a derivative that no jump reaches.
    fn continuous_variables(&self, lowest: &[i32]) -> Vec<Vec<Term>> {
        let is_continuous = |(variable, lowest): &(&Variable, &i32)| variable.offset > 0 && **lowest >= 1;
        let variables = self.variables.iter().zip(lowest).filter(is_continuous);
        variables.map(|(variable, _)| vec![Term { factor: 1.0, name: self.name(variable.var).to_owned() }]).collect()
    }

    /// Notes an event: jumps are added from the table when it is complete.
    fn note(&mut self, time: f64, answer: &Answer, is_input: bool, areas: &[(String, f64)]) {
        let mut impulses: Vec<ImpulseOf> = answer
            .impulses
            .iter()
            .zip(&self.variables)
            .filter(|(coefficients, _)| !coefficients.is_empty())
            .map(|(coefficients, variable)| ImpulseOf {
                name: self.name(variable.var).to_owned(),
                coefficients: coefficients.clone(),
            })
            .collect();
        impulses.extend(areas.iter().map(|(name, area)| ImpulseOf { name: name.clone(), coefficients: vec![*area] }));
        let kind = match (is_input, areas.is_empty()) {
            (true, true) => EventKind::InputBreak,
            (true, false) => EventKind::Impulse,
            (false, _) => EventKind::State,
        };
        self.events.push(Event {
            time,
            kind,
            continuous: answer.continuous.iter().map(|terms| combination_text(terms)).collect(),
            jumps: Vec::new(),
            impulses,
            relations: Vec::new(),
        });
    }
}

/// A coefficient that multiplies an impulse.
struct Product {
    equation: usize,
    coefficient: ExprId,
    strength: Strength,
    q: i32,
}

/// How strong an impulse is.
enum Strength {
    /// The unknown at this position.
    Unknown(usize),
    /// Of an input that jumps or has an impulse.
    Known,
}

/// Values just before a moment.
struct At<'m> {
    system: &'m CompiledSystem,
    moment: &'m Moment<'m>,
    states: &'m [f64],
}

impl Environment for At<'_> {
    fn value(&self, var: VarId, order: u16) -> f64 {
        let Some(mut place) = self.system.leaf_place(var, order) else { return f64::NAN };
        let moment = self.moment;
        place -= 1;
        for group in [self.states, moment.unknowns, moment.parameters, moment.inputs_before, moment.modes_after] {
            if place < group.len() {
                return group[place];
            }
            place -= group.len();
        }
        f64::NAN
    }

    fn time(&self) -> f64 {
        self.moment.time
    }
}

impl JumpRule for BalanceTransfer<'_> {
    fn acts_at_start(&self, time: f64) -> bool {
        self.impulses.iter().any(|impulse| impulse.time == time)
    }

    fn cross(&mut self, crossing: &Crossing<'_>, states: &mut [f64]) -> Result<Crossed, JumpError> {
        let moment = Moment {
            time: crossing.time,
            parameters: crossing.parameters,
            inputs_before: crossing.inputs_before,
            inputs_after: crossing.inputs_after,
            modes_before: crossing.modes,
            modes_after: crossing.modes_after,
            unknowns: crossing.unknowns,
        };
        let before = states.to_vec();
        let is_input = crossing.modes == crossing.modes_after;
        let Some(answer) = self.solve(&moment, states)? else { return Ok(Crossed::Smoothly) };
        let has_jump = before
            .iter()
            .zip(&*states)
            .any(|(before, after)| (before - after).abs() > 1e-9 * before.abs().max(after.abs()).max(1e-6));
        let areas: Vec<(String, f64)> = self
            .impulses
            .iter()
            .filter(|impulse| impulse.time == moment.time)
            .map(|impulse| (impulse.input.clone(), impulse.area))
            .collect();
        let has_impulse = answer.impulses.iter().any(|coefficients| !coefficients.is_empty()) || !areas.is_empty();
        let is_same_moment = self.events.last().is_some_and(|event| event.time == moment.time);
        if is_same_moment && !is_input {
            // An event is settled in several rounds; the last one counts.
            self.events.pop();
        }
        if self.keeps_events {
            self.note(moment.time, &answer, is_input, &areas);
        }
        if has_jump || has_impulse {
            return Ok(Crossed::WithJump);
        }
        Ok(Crossed::Smoothly)
    }
}
