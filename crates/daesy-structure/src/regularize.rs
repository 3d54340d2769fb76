//! From the flat model to its regular form: which equations to differentiate, what is solved for what, what
//! constrains the start.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::jacobian::Differentiator;
use daesy_graph::regular::{
    Derivative, DiscreteEquation, Eliminated, InputUse, Rate, RegularDae, RegularEquation, SolveBlock,
    StructuralVerdict,
};
use daesy_graph::substitute::Substitution;
use daesy_graph::traverse::{Leaf, Reach};
use daesy_graph::{ExprId, Node, VarId};
use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::alias::{Elimination, Standing, eliminate_aliases};
use crate::bound::put_in_bound_parameters;
use crate::definitions::{guesses, inline_definitions};
use crate::discrete::{DiscreteSplit, split_discrete};
use crate::explain;
use crate::held_rates::analysis_with_held_rates;
use crate::incidence::{Entry, Incidence, IncidenceBuilder, IncidenceError};
use crate::matching::maximum_matching;
use crate::offsets::{SigmaAnalysis, sigma_analysis};
use crate::parameters::order_parameters;

/// Why a model has no regular form.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum RegularizeError {
    /// Equations and unknowns do not fit; the findings say which.
    #[error("the model is structurally singular")]
    Singular {
        /// The culprits.
        findings: Vec<Finding>,
        /// Potentials whose level nothing fixes: a reference is missing.
        open_levels: Vec<VarId>,
        /// The model, so that what is known of it can be reported.
        flat: Box<FlatDae>,
    },
    /// The model exceeds what positions can count.
    #[error(transparent)]
    TooLarge(#[from] IncidenceError),
}

/// Which equations and variables an incidence speaks of.
pub(crate) struct Scope {
    /// Equation of the flat model for each row.
    pub(crate) equations: Vec<u32>,
    /// Variable of the flat model for each column.
    pub(crate) variables: Vec<VarId>,
    /// The incidence.
    pub(crate) incidence: Incidence,
}

/// Derives the regular form of a flat model.
///
/// # Errors
/// When equations and unknowns do not fit structurally; the findings name the smallest sets at fault.
pub fn regularize(flat: FlatDae) -> Result<RegularDae, RegularizeError> {
    regularize_in(flat, Form::Complete)
}

/// Derives the regular form with definitions put in (module `definitions`): fewer states, unknowns and hidden
/// constraints for the same solutions, for methods that only need these.
///
/// # Errors
/// As [`regularize`].
pub fn condense(flat: FlatDae) -> Result<RegularDae, RegularizeError> {
    regularize_in(flat, Form::Condensed)
}

/// Which variables the regular form keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// All but aliases.
    Complete,
    /// Those that no equation defines.
    Condensed,
}

fn regularize_in(mut flat: FlatDae, form: Form) -> Result<RegularDae, RegularizeError> {
    let mut findings = Vec::new();
    let discrete = split_discrete(&flat);
    let ordered = discrete.and_then(|discrete| match order_parameters(&flat) {
        Ok(parameters) => Ok((discrete, parameters)),
        Err(finding) => Err(vec![*finding]),
    });
    let (discrete, parameters) = match ordered {
        Ok(ordered) => ordered,
        Err(findings) => {
            return Err(RegularizeError::Singular { findings, open_levels: Vec::new(), flat: Box::new(flat) });
        }
    };
    let bound = put_in_bound_parameters(&mut flat, &parameters);
    let residuals: Vec<ExprId> = {
        let graph = &mut flat.graph;
        flat.equations.iter().map(|equation| graph.sub(equation.lhs, equation.rhs)).collect()
    };
    let whole = scope(&flat, &residuals, |at| discrete.is_continuous[at], |var| is_unknown(&flat, var))?;
    let whole_analysis = match sigma_analysis(&whole.incidence) {
        Ok(analysis) => analysis,
        Err(error) => {
            let explain::Explanation { findings, open_levels } = explain::singular(&flat, &whole, &error);
            return Err(RegularizeError::Singular { findings, open_levels, flat: Box::new(flat) });
        }
    };

    let differentiated = differentiated_variables(&whole);
    let mut elimination = eliminate_aliases(&mut flat, &discrete.is_continuous);
    let guesses = {
        let mut replace = Replacement::new(&mut flat, &elimination);
        let without_aliases: Vec<ExprId> =
            residuals.iter().map(|&residual| replace.apply(&mut flat, residual)).collect();
        let candidates = elimination.is_used.iter().zip(&discrete.is_continuous);
        let is_candidate: Vec<bool> = candidates.map(|(used, continuous)| *continuous && !used).collect();
        match form {
            Form::Complete => guesses(&mut flat, &without_aliases, |at| is_candidate[at], &elimination),
            Form::Condensed => {
                inline_definitions(&mut flat, &without_aliases, |at| is_candidate[at], &mut elimination);
                Vec::new()
            }
        }
    };
    let mut replace = Replacement::new(&mut flat, &elimination);
    let reduced: Vec<ExprId> = residuals
        .iter()
        .enumerate()
        .map(|(at, &residual)| if elimination.is_used[at] { residual } else { replace.apply(&mut flat, residual) })
        .collect();
    let remaining = scope(
        &flat,
        &reduced,
        |at| discrete.is_continuous[at] && !elimination.is_used[at],
        |var| is_unknown(&flat, var) && elimination.standings[var.index()] == Standing::Remains,
    )?;
    let analysis = match analysis_with_held_rates(&flat, &reduced, &remaining, &elimination) {
        Ok(analysis) => analysis,
        Err(error) => {
            let explain::Explanation { findings, open_levels } =
                explain::singular_after_elimination(&flat, &remaining, &elimination, &error);
            return Err(RegularizeError::Singular { findings, open_levels, flat: Box::new(flat) });
        }
    };
    let verdict = verdict(&flat, &whole, &whole_analysis);
    let layout = lay_out(&mut flat, &reduced, &remaining, &analysis);
    let eliminated = elimination
        .eliminated
        .iter()
        .map(|by| {
            let variable = flat.graph.var(by.var);
            Eliminated { var: by.var, value: replace.apply(&mut flat, variable), source: by.equation }
        })
        .collect();
    let discrete_equations = replace_discrete(&mut flat, &mut replace, &discrete);
    replace_in_events(&mut flat, &mut replace);
    let initial_equations = replace_initial(&mut flat, &mut replace);
    let inputs = input_uses(&flat, &layout);
    findings.append(&mut flat.findings);
    let discrete_variables = variables_of_kind(&flat, VariableKind::Discrete);
    Ok(RegularDae {
        states: layout.states,
        rates: layout.rates,
        unknowns: layout.unknowns,
        equations: layout.equations,
        constraints: layout.constraints,
        blocks: layout.blocks,
        eliminated,
        guesses,
        inputs,
        parameters,
        bound,
        discrete_equations,
        discrete: discrete_variables,
        differentiated,
        initial_equations,
        verdict,
        findings,
        flat,
    })
}

/// Initial equations without what was eliminated.
fn replace_initial(flat: &mut FlatDae, replace: &mut Replacement<'_>) -> Vec<RegularEquation> {
    (0..flat.initial_equations.len())
        .map(|at| {
            let equation = &flat.initial_equations[at];
            let (lhs, rhs) = (equation.lhs, equation.rhs);
            let residual = flat.graph.sub(lhs, rhs);
            let residual = replace.apply(flat, residual);
            RegularEquation { residual, source: at as u32, differentiated: 0 }
        })
        .collect()
}

fn variables_of_kind(flat: &FlatDae, kind: VariableKind) -> Vec<VarId> {
    flat.variables
        .iter()
        .enumerate()
        .filter(|(_, variable)| variable.kind == kind)
        .map(|(at, _)| VarId(at as u32))
        .collect()
}

fn is_unknown(flat: &FlatDae, var: VarId) -> bool {
    flat.variables[var.index()].kind == VariableKind::Continuous
}

/// The incidence of chosen equations and variables.
fn scope(
    flat: &FlatDae,
    residuals: &[ExprId],
    has_equation: impl Fn(usize) -> bool,
    has_variable: impl Fn(VarId) -> bool,
) -> Result<Scope, IncidenceError> {
    let mut column_of = vec![u32::MAX; flat.variables.len()];
    let mut variables = Vec::new();
    for var in (0..flat.variables.len() as u32).map(VarId) {
        if has_variable(var) {
            column_of[var.index()] = variables.len() as u32;
            variables.push(var);
        }
    }
    let mut builder = IncidenceBuilder::new(variables.len())?;
    let mut equations = Vec::new();
    let mut reach = Reach::new();
    let (mut row, mut leaves) = (Vec::new(), Vec::new());
    for (at, &residual) in residuals.iter().enumerate() {
        if !has_equation(at) {
            continue;
        }
        equations.push(at as u32);
        row.clear();
        reach.leaves(&flat.graph, &[residual], &mut leaves);
        for &leaf in &leaves {
            if let Leaf::Var { var, order } = leaf
                && column_of[var.index()] != u32::MAX
            {
                row.push(Entry { variable: column_of[var.index()], order: u8::try_from(order).unwrap_or(u8::MAX) });
            }
        }
        builder.push_equation(row.iter().copied())?;
    }
    Ok(Scope { equations, variables, incidence: builder.finish() })
}

/// The variables of which a derivative occurs.
fn differentiated_variables(whole: &Scope) -> Vec<VarId> {
    let mut is_differentiated = vec![false; whole.variables.len()];
    for (&column, &order) in whole.incidence.variables().iter().zip(whole.incidence.orders()) {
        is_differentiated[column as usize] |= order > 0;
    }
    let chosen = whole.variables.iter().zip(is_differentiated).filter(|(_, is_differentiated)| *is_differentiated);
    chosen.map(|(&var, _)| var).collect()
}

/// What structure says about the flat model before any elimination.
///
/// The first-order form has as many algebraic equations, explicit and hidden, as unknowns less degrees of freedom;
/// those written down are the unknowns less the rank of the derivative incidence. Hidden are the rest: rank less
/// degrees of freedom.
fn verdict(flat: &FlatDae, whole: &Scope, analysis: &SigmaAnalysis) -> StructuralVerdict {
    let derivatives = whole.incidence.filter(|_, entry| whole.incidence.orders()[entry] > 0);
    let rank = maximum_matching(&derivatives).len();
    let degrees_of_freedom = analysis.degrees_of_freedom as usize;
    let mut differentiations = vec![0; flat.equations.len()];
    for (&equation, &offset) in whole.equations.iter().zip(&analysis.equation_offsets) {
        differentiations[equation as usize] = offset as u16;
    }
    StructuralVerdict {
        structural_index: analysis.structural_index,
        degrees_of_freedom,
        hidden_constraints: rank.saturating_sub(degrees_of_freedom),
        differentiations,
    }
}

/// Replaces eliminated variables and their derivatives, as they are met.
struct Replacement<'a> {
    elimination: &'a Elimination,
    substitution: Substitution,
    reach: Reach,
    leaves: Vec<Leaf>,
    /// Whether `pre` of an eliminated variable occurs.
    has_values_before: bool,
}

impl<'a> Replacement<'a> {
    fn new(flat: &mut FlatDae, elimination: &'a Elimination) -> Self {
        let mut substitution = Substitution::new();
        let of_eliminated: Vec<VarId> = flat
            .graph
            .nodes()
            .filter_map(|node| match node {
                Node::Pre(var) if elimination.standings[var.index()] != Standing::Remains => Some(var),
                _ => None,
            })
            .collect();
        for &var in &of_eliminated {
            let before = flat.graph.pre(var);
            let value = value_before(elimination, flat, var);
            substitution.replace(before, value);
        }
        let has_values_before = !of_eliminated.is_empty();
        Self { elimination, substitution, reach: Reach::new(), leaves: Vec::new(), has_values_before }
    }

    /// The expression with eliminated variables replaced. The leaves of every expression are registered before the
    /// expression is looked at, as the substitution asks.
    fn apply(&mut self, flat: &mut FlatDae, expr: ExprId) -> ExprId {
        self.reach.leaves(&flat.graph, &[expr], &mut self.leaves);
        let mut is_affected = false;
        for &leaf in &self.leaves {
            if let Leaf::Var { var, order } = leaf
                && self.elimination.standings[var.index()] != Standing::Remains
            {
                is_affected = true;
                let value = derivative(self.elimination, flat, var, order);
                self.substitution.replace_leaf(&mut flat.graph, leaf, value);
            }
        }
        if is_affected || self.has_values_before { self.substitution.apply(&mut flat.graph, expr) } else { expr }
    }
}

/// A derivative of an eliminated variable in terms of what remains.
fn derivative(elimination: &Elimination, flat: &mut FlatDae, var: VarId, order: u16) -> ExprId {
    match elimination.standings[var.index()] {
        Standing::Remains => flat.graph.der(var, order),
        Standing::Alias { of, is_negated } => {
            let value = flat.graph.der(of, order);
            if is_negated { flat.graph.neg(value) } else { value }
        }
        Standing::Known(value) => (0..order).fold(value, |value, _| total_derivative(flat, value)),
    }
}

/// The value of an eliminated variable just before an event. What is known from parameters stays; an input is taken
/// as it is now.
fn value_before(elimination: &Elimination, flat: &mut FlatDae, var: VarId) -> ExprId {
    match elimination.standings[var.index()] {
        Standing::Remains => flat.graph.pre(var),
        Standing::Alias { of, is_negated } => {
            let value = flat.graph.pre(of);
            if is_negated { flat.graph.neg(value) } else { value }
        }
        Standing::Known(value) => value,
    }
}

/// d/dt of an expression along solutions.
pub(crate) fn total_derivative(flat: &mut FlatDae, expr: ExprId) -> ExprId {
    let variables = &flat.variables;
    flat.graph.total_time_derivative(expr, &|var| variables[var.index()].kind)
}

struct Layout {
    states: Vec<Derivative>,
    rates: Vec<Rate>,
    unknowns: Vec<Derivative>,
    equations: Vec<RegularEquation>,
    constraints: Vec<RegularEquation>,
    blocks: Vec<SolveBlock>,
}

/// Differentiates each equation as often as its offset says and orders what is solved by blocks.
fn lay_out(flat: &mut FlatDae, residuals: &[ExprId], scope: &Scope, analysis: &SigmaAnalysis) -> Layout {
    let mut states = Vec::new();
    let mut first_state = vec![u32::MAX; scope.variables.len()];
    for (column, &var) in scope.variables.iter().enumerate() {
        first_state[column] = states.len() as u32;
        for order in 0..analysis.variable_offsets[column] as u16 {
            states.push(Derivative { var, order });
        }
    }
    let mut constraints = Vec::new();
    let mut highest = Vec::with_capacity(scope.equations.len());
    for (row, &source) in scope.equations.iter().enumerate() {
        let mut residual = residuals[source as usize];
        for differentiated in 0..analysis.equation_offsets[row] as u16 {
            constraints.push(RegularEquation { residual, source, differentiated });
            residual = total_derivative(flat, residual);
        }
        highest.push(residual);
    }
    let mut unknowns = Vec::with_capacity(scope.variables.len());
    let mut equations = Vec::with_capacity(scope.equations.len());
    let mut blocks = Vec::new();
    let mut position = vec![0u32; scope.variables.len()];
    for block in analysis.fine_blocks.blocks() {
        let start = unknowns.len() as u32;
        for &column in block.variables {
            position[column as usize] = unknowns.len() as u32;
            let order = analysis.variable_offsets[column as usize] as u16;
            unknowns.push(Derivative { var: scope.variables[column as usize], order });
        }
        for &row in block.equations {
            let source = scope.equations[row as usize];
            let differentiated = analysis.equation_offsets[row as usize] as u16;
            equations.push(RegularEquation { residual: highest[row as usize], source, differentiated });
        }
        blocks.push(SolveBlock { start, len: unknowns.len() as u32 - start, is_linear: false });
    }
    mark_linear_blocks(flat, &unknowns, &equations, &mut blocks);
    let mut rates = Vec::with_capacity(states.len());
    for (column, &offset) in analysis.variable_offsets.iter().enumerate() {
        for order in 0..offset {
            rates.push(if order + 1 < offset {
                Rate::State(first_state[column] + order + 1)
            } else {
                Rate::Unknown(position[column])
            });
        }
    }
    Layout { states, rates, unknowns, equations, constraints, blocks }
}

/// A block is linear if no derivative of its equations by its unknowns contains one of them.
fn mark_linear_blocks(
    flat: &mut FlatDae,
    unknowns: &[Derivative],
    equations: &[RegularEquation],
    blocks: &mut [SolveBlock],
) {
    let leaves: Vec<Leaf> = unknowns.iter().map(|unknown| Leaf::der(unknown.var, unknown.order)).collect();
    let position: FxHashMap<Leaf, u32> = leaves.iter().enumerate().map(|(at, &leaf)| (leaf, at as u32)).collect();
    let mut differentiator = Differentiator::new(&mut flat.graph, &leaves);
    let mut reach = Reach::new();
    for block in blocks {
        let inside = block.start..block.start + block.len;
        block.is_linear = equations[inside.start as usize..inside.end as usize].iter().all(|equation| {
            let gradient = differentiator.gradient(&mut flat.graph, equation.residual);
            gradient.iter().filter(|entry| inside.contains(&entry.column)).all(|entry| {
                !reach.depends_on(&flat.graph, entry.value, |leaf| {
                    position.get(&leaf).is_some_and(|at| inside.contains(at))
                })
            })
        });
    }
}

/// The highest derivative of each input in the regular form.
fn input_uses(flat: &FlatDae, layout: &Layout) -> Vec<InputUse> {
    let mut needed = vec![0u16; flat.variables.len()];
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    for equation in layout.equations.iter().chain(&layout.constraints) {
        reach.leaves(&flat.graph, &[equation.residual], &mut leaves);
        for &leaf in &leaves {
            if let Leaf::Var { var, order } = leaf {
                needed[var.index()] = needed[var.index()].max(order);
            }
        }
    }
    variables_of_kind(flat, VariableKind::Input)
        .into_iter()
        .map(|var| InputUse { var, derivatives_needed: needed[var.index()] })
        .collect()
}

fn replace_discrete(flat: &mut FlatDae, replace: &mut Replacement<'_>, split: &DiscreteSplit) -> Vec<DiscreteEquation> {
    split
        .equations
        .iter()
        .map(|equation| DiscreteEquation { value: replace.apply(flat, equation.value), ..*equation })
        .collect()
}

/// When-clauses and assertions speak of remaining variables from here on.
fn replace_in_events(flat: &mut FlatDae, replace: &mut Replacement<'_>) {
    use daesy_graph::flat::WhenAction;
    let mut clauses = std::mem::take(&mut flat.when_clauses);
    for branch in clauses.iter_mut().flat_map(|clause| &mut clause.branches) {
        for condition in &mut branch.conditions {
            *condition = replace.apply(flat, *condition);
        }
        for action in &mut branch.actions {
            match action {
                WhenAction::Assign { value, .. } | WhenAction::Reinit { value, .. } => {
                    *value = replace.apply(flat, *value);
                }
                WhenAction::Assert(assertion) => assertion.condition = replace.apply(flat, assertion.condition),
                WhenAction::Terminate { .. } => {}
            }
        }
    }
    flat.when_clauses = clauses;
    let mut assertions = std::mem::take(&mut flat.assertions);
    for assertion in &mut assertions {
        assertion.condition = replace.apply(flat, assertion.condition);
    }
    flat.assertions = assertions;
}
