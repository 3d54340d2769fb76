//! Decides by the ranks of hypothesis 1 at a consistent point how many differentiations a model needs, and what is
//! redundant or free in it.
//!
//! [@campbell2011, hypothesis 1]

use daesy_graph::VarId;
use daesy_graph::regular::Derivative;
use daesy_pencil::{
    CoefficientJet, InputRole, PencilError, RankTolerance, RedundantEquations, StrangenessFree, StrangenessOptions,
    Wishes, reinterpret, strangeness_free,
};

use super::consistent::PointRequest;
use super::{ArrayError, ArrayInputs, ArrayModel, JetPoint};
use crate::verify::RankRow;

/// How arrays are looked at.
#[derive(Clone, Debug)]
pub struct ArrayOptions {
    /// What inputs are.
    pub inputs: ArrayInputs,
    /// Largest number of differentiations.
    pub max_differentiations: usize,
    /// Largest number of rows of an array.
    pub max_rows: usize,
    /// Variables whose values stay as they are at the start.
    pub held: Vec<VarId>,
    /// Variables whose start values were given, so that others rather change.
    pub given: Vec<VarId>,
    /// How ranks are decided.
    pub tolerance: RankTolerance,
}

impl Default for ArrayOptions {
    fn default() -> Self {
        Self {
            inputs: ArrayInputs::Given,
            max_differentiations: 7,
            max_rows: 700,
            held: Vec::new(),
            given: Vec::new(),
            tolerance: RankTolerance { relative: 1e-10, ..RankTolerance::default() },
        }
    }
}

/// What arrays say.
#[derive(Clone, Debug)]
pub struct ArrayAnalysis {
    /// The linearized strangeness-free form at the point; d, a, v and mu are those of the model.
    pub form: StrangenessFree,
    /// The point.
    pub point: JetPoint,
    /// The largest scaled residual of the equations and their derivatives there.
    pub residual: f64,
    /// Equations of the flat model that take part in redundant combinations.
    pub redundant: Vec<usize>,
    /// Of these, as many as are redundant, which the others imply.
    pub left_out: Vec<usize>,
    /// A choice of free variables, as many as nothing determines.
    pub free: Vec<VarId>,
    /// Variables that are not determined.
    pub undetermined: Vec<VarId>,
    /// A choice of free start values, where solutions are unique.
    pub free_starts: Vec<Derivative>,
    /// Columns of the first-order form.
    pub n_columns: usize,
    /// What each of them is.
    pub columns: Vec<Derivative>,
    /// Variables left out of the array, each with an equation of its own.
    pub n_eliminated: usize,
    /// Whether solutions are unique.
    pub is_regular: bool,
    /// Whether some rank was decided by a small gap.
    pub is_doubtful: bool,
    /// Whether the coefficients are constant.
    pub is_constant: bool,
    /// Ranks and gaps.
    pub rank_decisions: Vec<RankRow>,
}

impl ArrayAnalysis {
    /// Whether the point was hardly reached. Newton's method reaches a point of solutions to rounding errors, but creeps
    /// where it has to run off, or where there is none; residuals then are larger than what decides ranks.
    #[must_use]
    pub fn is_rough(&self) -> bool {
        self.residual > 1e-12
    }

    /// Differentiations that make an ordinary differential equation; `None` for singular models.
    #[must_use]
    pub fn differentiation_index(&self) -> Option<usize> {
        self.is_regular.then(|| if self.form.a == 0 { 0 } else { self.form.mu + 1 })
    }
}

/// Looks for the smallest number of differentiations for which hypothesis 1 holds near a start.
///
/// # Errors
/// When no point satisfies the array, or its ranks do not settle.
pub fn analyze(model: &mut ArrayModel, start: &JetPoint, options: &ArrayOptions) -> Result<ArrayAnalysis, ArrayError> {
    let is_among = |vars: &[VarId]| -> Vec<bool> { model.variables.iter().map(|var| vars.contains(var)).collect() };
    // Values change only where they must: first none, then those that were not given, then guesses, and what is
    // insisted on last.
    let stages = [vec![true; model.variables.len()], is_among(&options.given), is_among(&options.held)];
    let ease: Vec<f64> =
        model.variables.iter().map(|var| if options.given.contains(var) { 1.0 } else { 10.0 }).collect();
    let mut point = start.clone();
    let mut settled: Option<ArrayAnalysis> = None;
    let mut with_initial = !model.initial.is_empty();
    for level in 0..=options.max_differentiations {
        let rows = (level + 1) * model.n_equations().max(model.n_columns());
        if rows > options.max_rows {
            return settled.ok_or(ArrayError::TooLarge { rows, limit: options.max_rows });
        }
        let mut found = Err(ArrayError::NotSettled { tried: 0 });
        for (at, held) in stages.iter().enumerate() {
            let request = PointRequest { level, held, ease: &ease, with_initial, is_patient: at == 2 };
            found = model.consistent(&point, &request);
            if model.is_near(&point, &found) {
                break;
            }
        }
        if !model.is_near(&point, &found) && (with_initial || stages[2].contains(&true)) {
            // What is asked of the start may be too much; the index does not depend on it.
            let held = vec![false; model.variables.len()];
            let request = PointRequest { level, held: &held, ease: &ease, with_initial: false, is_patient: true };
            let freed = model.consistent(&point, &request);
            if found.is_err() || model.is_near(&point, &freed) {
                (found, with_initial) = (freed, false);
            }
        }
        let residual = match found {
            Ok(found) => {
                point = found.point;
                found.residual
            }
            // A point was found with fewer differentiations already, and the form there settled.
            Err(error) => return settled.ok_or(error),
        };
        match ranks(model, &point, level, options) {
            Ok(mut analysis) => {
                analysis.residual = residual;
                // One more differentiation must not change the answer.
                let form = &analysis.form;
                let is_same = settled.as_ref().is_some_and(|before: &ArrayAnalysis| {
                    (before.form.mu, before.form.d, before.form.a, before.form.v) == (form.mu, form.d, form.a, form.v)
                });
                if is_same {
                    return Ok(analysis);
                }
                settled = Some(analysis);
            }
            Err(PencilError::NotSettled { .. }) => settled = None,
            Err(error) => return Err(error.into()),
        }
    }
    settled.ok_or(ArrayError::NotSettled { tried: options.max_differentiations })
}

fn form_at(
    model: &mut ArrayModel,
    point: &JetPoint,
    level: usize,
    options: &ArrayOptions,
) -> Result<StrangenessFree, PencilError> {
    let jet = model.linearization(point, level);
    let coefficients = move |_: f64, _: usize| -> Result<CoefficientJet, PencilError> { Ok(jet.clone()) };
    let role = match options.inputs {
        ArrayInputs::Given => InputRole::Given,
        ArrayInputs::Behaviour => InputRole::Behaviour,
    };
    let options = StrangenessOptions {
        tolerance: options.tolerance,
        inputs: role,
        redundant: RedundantEquations::Remove,
        max_differentiations: level,
        ..StrangenessOptions::default()
    };
    strangeness_free(&coefficients, point.time, &options)
}

fn ranks(
    model: &mut ArrayModel,
    point: &JetPoint,
    level: usize,
    options: &ArrayOptions,
) -> Result<ArrayAnalysis, PencilError> {
    let form = form_at(model, point, level, options)?;
    let n_columns = model.n_columns();
    let source = |model: &ArrayModel, rows: &[usize]| -> Vec<usize> {
        rows.iter().filter_map(|&row| model.equation(row)).collect()
    };
    let redundant = source(model, &form.redundant_equations);
    let left_out = if form.v > 0 { leave_out(model, point, level, options, &form, &redundant) } else { Vec::new() };
    let n_free = n_columns.saturating_sub(form.d + form.a);
    let (mut free, mut undetermined, mut free_starts) = (Vec::new(), Vec::new(), Vec::new());
    if options.inputs == ArrayInputs::Given {
        if let Ok(choice) = reinterpret(&form, None, &Wishes::default(), &options.tolerance) {
            free = choice.moved_to_inputs.iter().map(|&column| model.column(column).0).collect();
            let derivative = |&column: &usize| {
                let (var, order) = model.column(column);
                Derivative { var, order: order as u16 }
            };
            free_starts = choice.differential_states.iter().map(derivative).collect();
        }
        if n_free > 0 {
            undetermined = undetermined_variables(model, &form);
        }
    }
    let rank_decisions: Vec<RankRow> = form
        .rank_decisions
        .iter()
        .map(|decision| RankRow { what: decision.question.to_string(), rank: decision.rank, gap: decision.gap })
        .collect();
    Ok(ArrayAnalysis {
        is_regular: form.v == 0 && n_free == 0,
        is_doubtful: form.rank_decisions.iter().any(|decision| decision.is_doubtful),
        is_constant: model.is_constant,
        point: point.clone(),
        residual: 0.0,
        redundant,
        left_out,
        free,
        undetermined,
        free_starts,
        n_columns,
        columns: (0..n_columns)
            .map(|column| {
                let (var, order) = model.column(column);
                Derivative { var, order: order as u16 }
            })
            .collect(),
        n_eliminated: 0,
        rank_decisions,
        form,
    })
}

/// As many redundant equations as there are, each of which can go without changing d and a: the last written first,
/// those without derivatives before others.
fn leave_out(
    model: &ArrayModel,
    point: &JetPoint,
    level: usize,
    options: &ArrayOptions,
    form: &StrangenessFree,
    redundant: &[usize],
) -> Vec<usize> {
    /// More candidates than this are not tried out.
    const MAX_TRIED: usize = 60;
    let mut model = model.clone();
    let has_rates = |model: &ArrayModel, equation: usize| {
        model.rows.iter().any(|row| row.source == equation && row.entries.iter().any(|entry| entry.order > 0))
    };
    let mut candidates: Vec<usize> = redundant.to_vec();
    candidates.sort_by_key(|&equation| (has_rates(&model, equation), std::cmp::Reverse(equation)));
    let mut left_out = Vec::new();
    let mut v = form.v;
    for equation in candidates.into_iter().take(MAX_TRIED) {
        if v == 0 {
            break;
        }
        let mut without = model.clone();
        without.remove(equation);
        let Ok(rest) = form_at(&mut without, point, level, options) else { continue };
        if rest.d == form.d && rest.a == form.a && rest.v + 1 == v {
            (model, v) = (without, rest.v);
            left_out.push(equation);
        }
    }
    left_out.sort_unstable();
    left_out
}

/// Variables that a homogeneous solution of the reduced system can move: the kernel of [E_1; A_2] moves them at once.
fn undetermined_variables(model: &ArrayModel, form: &StrangenessFree) -> Vec<VarId> {
    let (n, d) = (form.e1.ncols(), form.d);
    let unit = |column: usize| form.units.get(column).copied().unwrap_or(1.0);
    let mut stacked = daesy_pencil::Mat::<f64>::zeros(d + form.a, n);
    for column in 0..n {
        for row in 0..d {
            stacked[(row, column)] = form.e1[(row, column)] * unit(column);
        }
        for row in 0..form.a {
            stacked[(d + row, column)] = form.a2[(row, column)] * unit(column);
        }
    }
    for row in 0..stacked.nrows() {
        let length = (0..n).map(|column| stacked[(row, column)].powi(2)).sum::<f64>().sqrt();
        if length > 0.0 {
            (0..n).for_each(|column| stacked[(row, column)] /= length);
        }
    }
    let Ok(parts) = daesy_pencil::svd(stacked.as_ref(), daesy_pencil::Vectors::Right) else { return Vec::new() };
    let rank = parts.s.iter().filter(|&&value| value > 1e-9).count();
    let mut found: Vec<VarId> = (0..n)
        .filter(|&column| (rank..n).any(|at| parts.v[(column, at)].abs() > 1e-6))
        .map(|column| model.column(column).0)
        .collect();
    found.dedup();
    found
}
