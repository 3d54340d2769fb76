//! What derivative arrays say about a nonlinear model at its start: index, redundant equations, free variables.

use crate::arrays::{ArrayAnalysis, ArrayError, ArrayInputs, ArrayModel, ArrayOptions, ArrayScope, JetPoint, analyze};
use crate::linear_verdict::LinearVerdict;
use crate::parameters::order_parameters;
use crate::words::{enumerate, equation_text};
use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, Origin, VariableKind};
use daesy_graph::regular::{Derivative, RegularDae};
use daesy_graph::{Environment, Evaluator, Span, TaylorEvaluator, VarId};
use daesy_pencil::{Mat, Vectors, svd};

/// Models with more unknowns than this, without those that are mere aliases, are not looked at by arrays.
pub const MAX_UNKNOWNS: usize = 220;

/// Models with more unknowns than this are looked at without aliases, which may lower the strangeness index.
const WHOLE: usize = 40;

/// Derivatives of inputs that arrays may ask for.
const INPUT_DERIVATIVES: u16 = 8;

/// What is known of all variables at the start before anything is solved.
#[derive(Clone, Debug)]
pub struct StartPoint {
    /// Parameters, inputs with their derivatives, start values.
    pub point: JetPoint,
    /// Variables whose start value is insisted on.
    pub held: Vec<VarId>,
    /// Variables with a start value.
    pub given: Vec<VarId>,
}

/// Inputs at the start, with what their values may depend on.
#[derive(Clone, Copy, Debug)]
pub struct InputsAtStart<'a> {
    /// The inputs.
    pub inputs: &'a [VarId],
    /// How often each is differentiated at most.
    pub n_derivatives: u16,
    /// Parameters in the order of their values.
    pub parameters: &'a [VarId],
    /// Their values.
    pub values: &'a [f64],
}

/// Gathers parameters, inputs and start values; None if one of them has no value. `signals` gives the inputs:
/// `[input * (n_derivatives + 1) + order]`.
#[must_use]
pub fn start_point(
    flat: &FlatDae,
    time: f64,
    signals: &mut dyn FnMut(&InputsAtStart<'_>) -> Option<Vec<f64>>,
) -> Option<StartPoint> {
    let order = order_parameters(flat).ok()?;
    let mut point = JetPoint::new(time, flat.variables.len());
    let mut evaluator = Evaluator::new();
    let mut values = Vec::with_capacity(order.len());
    for &var in &order {
        let variable = &flat.variables[var.index()];
        let expr = variable.binding.or(variable.start);
        let value = expr.map_or(0.0, |expr| evaluator.evaluate_one(&flat.graph, expr, &point));
        if !value.is_finite() {
            return None;
        }
        point.set(var, 0, value);
        values.push(value);
    }
    let of_kind = |kind: VariableKind| -> Vec<VarId> {
        let all = (0..flat.variables.len() as u32).map(VarId);
        all.filter(|var| flat.variables[var.index()].kind == kind).collect()
    };
    let inputs = of_kind(VariableKind::Input);
    let per_input = usize::from(INPUT_DERIVATIVES) + 1;
    let slots = signals(&InputsAtStart {
        inputs: &inputs,
        n_derivatives: INPUT_DERIVATIVES,
        parameters: &order,
        values: &values,
    })?;
    for (&var, slots) in inputs.iter().zip(slots.chunks(per_input)) {
        for (order, &value) in slots.iter().enumerate() {
            point.set(var, order, if value.is_finite() { value } else { 0.0 });
        }
    }
    let (mut held, mut given) = (Vec::new(), Vec::new());
    for kind in [VariableKind::Discrete, VariableKind::Continuous] {
        for var in of_kind(kind) {
            let variable = &flat.variables[var.index()];
            let value = variable.start.map_or(0.0, |start| evaluator.evaluate_one(&flat.graph, start, &point));
            point.set(var, 0, if value.is_finite() { value } else { 0.0 });
            if variable.start.is_some() && kind == VariableKind::Continuous {
                given.push(var);
                if variable.fixed == Some(true) {
                    held.push(var);
                }
            }
        }
    }
    Some(StartPoint { point, held, given })
}

impl StartPoint {
    /// The same with the values that a search in the regular form found.
    #[must_use]
    pub fn with_values(&self, regular: &RegularDae, found: &dyn Environment) -> Self {
        let mut moved = self.clone();
        for it in regular.states.iter().chain(&regular.unknowns) {
            moved.point.set(it.var, usize::from(it.order), found.value(it.var, it.order));
        }
        let mut evaluator = Evaluator::new();
        for eliminated in &regular.eliminated {
            let value = evaluator.evaluate_one(&regular.flat.graph, eliminated.value, found);
            moved.point.set(eliminated.var, 0, value);
        }
        moved
    }

    /// A point that is nobody's: all values moved by some hundredths, those that are zero away from it. Where a
    /// consistent point is known, its values move along the constraints, A_2 dx = 0: what is redundant only where the
    /// constraints hold stays so.
    #[must_use]
    pub fn aside(&self, flat: &FlatDae, consistent: Option<&ArrayAnalysis>, seed: u32) -> Self {
        let mut moved = self.clone();
        (moved.held, moved.given) = (Vec::new(), Vec::new());
        let mut state = seed.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f64::from(state >> 8) / f64::from(1u32 << 24)
        };
        if let Some(known) = consistent {
            for var in (0..flat.variables.len() as u32).map(VarId) {
                if flat.variables[var.index()].kind == VariableKind::Continuous {
                    moved.point.set(var, 0, known.point.derivative(var, 0));
                }
            }
            let value = |column: &Derivative| known.point.derivative(column.var, usize::from(column.order));
            let sizes: Vec<f64> = known.columns.iter().map(|column| 0.1 * value(column).abs().max(0.5)).collect();
            let wish: Vec<f64> = sizes.iter().map(|_| 2.0 * random() - 1.0).collect();
            for (column, change) in known.columns.iter().zip(tangent(&known.form.a2, &sizes, &wish)) {
                moved.point.set(column.var, usize::from(column.order), value(column) + change);
            }
            return moved;
        }
        for var in (0..flat.variables.len() as u32).map(VarId) {
            if flat.variables[var.index()].kind == VariableKind::Continuous {
                let value = moved.point.derivative(var, 0);
                let value = if value == 0.0 { 0.05 + 0.1 * random() } else { value * (0.93 + 0.14 * random()) };
                moved.point.set(var, 0, value);
            }
        }
        moved
    }

    /// The same with the values that nobody gave moved away from zero.
    #[must_use]
    pub fn stirred(&self, flat: &FlatDae, seed: u32) -> Self {
        let mut moved = self.clone();
        let mut state = seed.wrapping_mul(747_796_405);
        for var in (0..flat.variables.len() as u32).map(VarId) {
            if flat.variables[var.index()].kind == VariableKind::Continuous && !self.given.contains(&var) {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let random = f64::from(state >> 8) / f64::from(1u32 << 24);
                moved.point.set(var, 0, 0.1 + 0.9 * random);
            }
        }
        moved
    }
}

/// The part of diag(sizes) wish that changes nothing in A_2 dx: with A_2 diag(sizes) = U S V^T, what is left without
/// the rows of V^T that belong to singular values which are not zero.
fn tangent(a2: &Mat<f64>, sizes: &[f64], wish: &[f64]) -> Vec<f64> {
    /// Singular values below this fraction of the largest are zero.
    const ZERO: f64 = 1e-9;
    let n = sizes.len();
    let scaled = Mat::from_fn(a2.nrows(), n.min(a2.ncols()), |row, column| a2[(row, column)] * sizes[column]);
    let mut left = wish.to_vec();
    if let Ok(parts) = svd(scaled.as_ref(), Vectors::Right) {
        let largest = parts.s.first().copied().unwrap_or(0.0);
        for at in (0..parts.s.len()).filter(|&at| parts.s[at] > ZERO * largest) {
            let along: f64 = (0..scaled.ncols()).map(|column| parts.v[(column, at)] * left[column]).sum();
            (0..scaled.ncols()).for_each(|column| left[column] -= along * parts.v[(column, at)]);
        }
    }
    left.iter().zip(sizes).map(|(value, size)| value * size).collect()
}

/// Number of continuous unknowns.
fn n_continuous(flat: &FlatDae) -> usize {
    flat.variables.iter().filter(|variable| variable.kind == VariableKind::Continuous).count()
}

/// The model of the arrays of a flat model; large ones without aliases.
fn array_model(flat: &FlatDae, regular: Option<&RegularDae>, inputs: ArrayInputs) -> Result<ArrayModel, ArrayError> {
    let n = n_continuous(flat) - regular.map_or(0, |regular| regular.eliminated.len());
    if n > MAX_UNKNOWNS {
        return Err(ArrayError::TooLarge { rows: n, limit: MAX_UNKNOWNS });
    }
    let Some(regular) = regular else {
        return ArrayModel::new(flat, &ArrayScope { inputs, ..ArrayScope::default() });
    };
    let mut residuals = vec![None; regular.flat.equations.len()];
    for equation in regular.equations.iter().chain(&regular.constraints) {
        if equation.differentiated == 0 {
            residuals[equation.source as usize] = Some(equation.residual);
        }
    }
    let without: Vec<VarId> = regular.eliminated.iter().map(|eliminated| eliminated.var).collect();
    let scope = ArrayScope { inputs, residuals: Some(&residuals), without: &without };
    ArrayModel::new(&regular.flat, &scope)
}

/// Looks at a model by its derivative arrays near points at which nothing is insisted on, one answer for each.
#[must_use]
pub fn analyze_aside(
    flat: &FlatDae,
    regular: Option<&RegularDae>,
    points: &[StartPoint],
) -> Vec<Result<ArrayAnalysis, ArrayError>> {
    let regular = regular.filter(|_| n_continuous(flat) > WHOLE);
    let mut model = match array_model(flat, regular, ArrayInputs::Given) {
        Ok(model) => model,
        Err(error) => return vec![Err(error)],
    };
    model.forget_initial();
    let look = |aside: &StartPoint| {
        model.set_nominal(flat, &aside.point);
        let mut analysis = analyze(&mut model, &aside.point, &ArrayOptions::default())?;
        if let Some(regular) = regular {
            restore(regular, &mut analysis);
        }
        Ok(analysis)
    };
    points.iter().map(look).collect()
}

/// Looks at a model by its derivative arrays, from several starts if need be.
///
/// # Errors
/// What the first start says.
pub fn analyze_at(
    flat: &FlatDae,
    regular: Option<&RegularDae>,
    starts: &[StartPoint],
    inputs: ArrayInputs,
) -> Result<ArrayAnalysis, ArrayError> {
    let regular = regular.filter(|_| n_continuous(flat) > WHOLE);
    let mut model = array_model(flat, regular, inputs)?;
    let mut first = None;
    for seed in 0..3 {
        for start in starts {
            let start = if seed == 0 { start.clone() } else { start.stirred(flat, seed) };
            model.set_nominal(flat, &start.point);
            let options = ArrayOptions {
                inputs,
                held: start.held.clone(),
                given: start.given.clone(),
                ..ArrayOptions::default()
            };
            match analyze(&mut model, &start.point, &options) {
                Ok(mut analysis) => {
                    if let Some(regular) = regular {
                        restore(regular, &mut analysis);
                    }
                    return Ok(analysis);
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
    }
    Err(first.unwrap_or(ArrayError::NotSettled { tried: 0 }))
}

/// Puts the aliases back.
fn restore(regular: &RegularDae, analysis: &mut ArrayAnalysis) {
    let order = analysis.point.coefficients.iter().map(Vec::len).max().unwrap_or(1).saturating_sub(1);
    let values: Vec<_> = regular.eliminated.iter().map(|eliminated| eliminated.value).collect();
    let series = TaylorEvaluator::new().evaluate(&regular.flat.graph, &values, order, &analysis.point);
    for (eliminated, series) in regular.eliminated.iter().zip(series.chunks_exact(order + 1)) {
        analysis.point.coefficients[eliminated.var.index()] = series.to_vec();
    }
    analysis.n_eliminated = regular.eliminated.len();
}

/// What structure says of a model, to be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StructuralClaim {
    /// Structural index.
    pub index: usize,
    /// Free start values.
    pub degrees_of_freedom: usize,
}

/// The analysis as a verdict, in words.
#[must_use]
pub fn verdict(flat: &FlatDae, analysis: &ArrayAnalysis, claim: Option<StructuralClaim>) -> LinearVerdict {
    let form = &analysis.form;
    let index = analysis.differentiation_index();
    let mut verdict = LinearVerdict {
        is_regular: analysis.is_regular,
        differentiation_index: index,
        strangeness_index: form.mu,
        d: form.d,
        a: form.a + analysis.n_eliminated,
        v: form.v,
        agrees_with_structure: claim
            .is_some_and(|claim| index == Some(claim.index) && form.d == claim.degrees_of_freedom),
        redundant_equations: analysis.left_out.iter().map(|&at| equation_text(flat, at)).collect(),
        free_variables: names(flat, &analysis.free).into_iter().map(str::to_owned).collect(),
        rank_decisions: analysis.rank_decisions.clone(),
        findings: Vec::new(),
    };
    if form.v > 0 {
        verdict.findings.push(redundant(flat, analysis));
    }
    if !analysis.free.is_empty() {
        verdict.findings.push(free(flat, analysis));
    }
    verdict
}

fn names<'a>(flat: &'a FlatDae, vars: &[VarId]) -> Vec<&'a str> {
    let mut names: Vec<&str> = vars.iter().map(|var| flat.variables[var.index()].name.as_str()).collect();
    names.dedup();
    names
}

/// The finding that the ranks contradict what structure claims.
#[must_use]
pub fn misled(claim: StructuralClaim, verdict: &LinearVerdict) -> Option<Finding> {
    let index = verdict.differentiation_index.filter(|_| !verdict.agrees_with_structure)?;
    let d = verdict.d;
    let message = format!(
        "structure misleads: it suggests index {} with {} free start values; the ranks of the derivative array at the start decide: \
         index {index}, {d} free start values",
        claim.index, claim.degrees_of_freedom
    );
    let reason = if index < claim.index || d > claim.degrees_of_freedom {
        "derivatives cancel between equations, which structure cannot see; simulations follow the derivative array"
    } else {
        "equations that look independent are not, which structure cannot see; simulations follow the derivative array"
    };
    Some(Finding::note("structure-misleads", Span::NONE, message).with_help(reason))
}

/// The finding that equations follow from others.
#[must_use]
pub fn redundant(flat: &FlatDae, analysis: &ArrayAnalysis) -> Finding {
    let shown = if analysis.left_out.is_empty() { &analysis.redundant } else { &analysis.left_out };
    let texts: Vec<String> = shown.iter().map(|&at| equation_text(flat, at)).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let n = analysis.form.v;
    let count = if n == 1 { "one equation is".to_owned() } else { format!("{n} equations are") };
    let message = if analysis.left_out.is_empty() {
        format!("{count} redundant among {}", enumerate(&texts, 8))
    } else {
        format!("{count} redundant and can be left out, for the others say the same: {}", enumerate(&texts, 8))
    };
    let span = shown.first().map_or(Span::NONE, |&at| flat.equations[at].span);
    let mut finding = Finding::warning("redundant-equations", span, message).with_names(texts.iter().copied());
    for &at in analysis.redundant.iter().take(8) {
        finding = finding.with_label(flat.equations[at].span, equation_text(flat, at));
    }
    finding
}

fn free(flat: &FlatDae, analysis: &ArrayAnalysis) -> Finding {
    let chosen = names(flat, &analysis.free);
    let all = names(flat, &analysis.undetermined);
    let n = analysis.free.len();
    let count = if n == 1 { "one variable is".to_owned() } else { format!("{n} variables are") };
    let message = if all == chosen || all.is_empty() {
        format!("{count} free: nothing determines {}", enumerate(&chosen, 8))
    } else {
        format!("{count} free, for instance {}, of the undetermined {}", enumerate(&chosen, 8), enumerate(&all, 12))
    };
    let span = analysis.free.first().map_or(Span::NONE, |var| flat.variables[var.index()].span);
    Finding::warning("free-variables", span, message)
        .with_names(chosen.iter().copied())
        .with_help("add equations for them, or make them inputs; `daesy regularize` shows how")
}

/// Whether a variable is the level of something connected: leaving it open is a missing reference, not a free force.
#[must_use]
pub fn is_potential(flat: &FlatDae, var: VarId) -> bool {
    let (mut reach, mut leaves) = (daesy_graph::Reach::new(), Vec::new());
    flat.equations.iter().filter(|equation| equation.origin == Origin::Connection).any(|equation| {
        reach.leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
        leaves.iter().any(|leaf| matches!(leaf, daesy_graph::Leaf::Var { var: found, .. } if *found == var))
    })
}
