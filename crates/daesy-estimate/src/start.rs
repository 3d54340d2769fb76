//! The distribution of the state at the start of an experiment, with its derivatives.
//!
//! As many conditions as there are degrees of freedom determine the state: `R x = rho`. They are, in this order, the
//! states of shaping filters, the conditions that are insisted on, and, where freedom is left, conditions that are
//! wished for. Which ones are taken is decided once, by the independence of their rows, and kept for the whole search,
//! so that what is estimated has the same meaning at all parameters. With `T = R^-1`, filters of covariance `Pi` and
//! free conditions `delta`:
//!
//! ```text
//! x = T rho + T_filter w_0 + T_free delta,     w_0 ~ N(0, Pi)
//! ```
//!
//! `delta` is zero, an unknown vector, or has infinite prior variance.   [@gerdin2007, sec. 5; @dejong1991]
//!
//! Conditions that are insisted on hold with the noise in them, in every realization, as in a simulation. So do wishes
//! of [`StartMode::Given`]. In all other modes a wish `c z = value` speaks of the free part of `z` only (`free_start`):
//! `x_s(t_0)` is free and independent of the disturbances, which set `x_a(t_0)`. What is left free is then the same
//! whatever wishes are taken; their choice only says in which variables an estimate is reported. Where it is zero,
//! `x_s(t_0)` is.

use faer::Mat;
use faer::linalg::solvers::Solve;

use crate::descriptor::{Coefficients, FilterBlock, ModelLayout, StartMode, StartRows};
use crate::discretize::{ContinuousModel, stationary_covariance};
use crate::error::EstimateError;
use crate::free_start::FreeProjector;
use crate::kernel::{is_zero, product};
use crate::state_space::{SignalTerms, StateSpace, StateSpaceJet};

/// Mean, covariance and unknown directions of the first state; also a derivative of them.
#[derive(Clone, Debug)]
pub struct StartState {
    /// Mean.
    pub mean: Vec<f64>,
    /// Covariance.
    pub covariance: Mat<f64>,
    /// Directions in which the state is not known at all, one column each.
    pub directions: Mat<f64>,
}

/// The first state with derivatives.
#[derive(Clone, Debug)]
pub struct StartJet {
    /// The first state.
    pub value: StartState,
    /// Derivatives, one for each unknown parameter.
    pub derivatives: Vec<StartState>,
}

/// A condition that takes part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartCondition {
    /// A variable that is the state of a filter.
    Filter(usize),
    /// A row that is insisted on.
    Insisted(usize),
    /// A row that is wished for.
    Wished(usize),
}

/// Which conditions determine the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartPlan {
    /// As many as there are degrees of freedom.
    pub conditions: Vec<StartCondition>,
    /// Rows that are insisted on and follow from the others.
    pub implied: Vec<usize>,
}

/// `u, u', ..` at the start, and their derivatives with respect to the unknowns (empty where there are none).
pub(crate) struct StartInputs<'a> {
    pub value: &'a [f64],
    pub derivatives: Vec<&'a [f64]>,
    pub n_inputs: usize,
}

/// What a start is made of besides the inputs of an experiment.
pub(crate) struct StartModel<'a> {
    pub layout: &'a ModelLayout,
    pub coefficients: &'a Coefficients,
    pub derivatives: &'a [Coefficients],
    pub jet: &'a StateSpaceJet,
    pub projector: Option<&'a FreeProjector>,
}

impl StartModel<'_> {
    /// The wishes, on the free part of the variables where they speak of nothing else.
    fn wished(&self) -> StartRows {
        let wished = &self.coefficients.wished;
        self.projector.map_or_else(|| wished.clone(), |projector| projector.rows(wished))
    }

    /// Whether the conditions are the same at all values of a parameter, as where it is the size of a disturbance.
    fn is_still(&self, inputs: &StartInputs<'_>, parameter: usize) -> bool {
        let Coefficients { e, f, insisted, wished, .. } = &self.derivatives[parameter];
        let space = &self.jet.derivatives[parameter];
        let terms = space.variables.inputs.iter().chain([&space.variables.state, &space.dynamics, &space.input]);
        let rows = [insisted, wished].into_iter();
        rows.clone().flat_map(|rows| [&rows.variables, &rows.derivatives, &rows.inputs]).all(is_zero)
            && rows.flat_map(|rows| &rows.values).all(|value| *value == 0.0)
            && terms.chain([e, f]).all(is_zero)
            && inputs.derivatives.get(parameter).is_none_or(|list| list.iter().all(|value| *value == 0.0))
    }
}

/// Rows on the state that are independent of each other, by orthogonalization.
///
/// The columns of `Q_s`, balanced, are scaled to unit length, so that a row of ordinary size is about as large as the
/// sizes of its variables, and a row that is zero but for rounding is told from a small one.
struct IndependentRows {
    column_sizes: Vec<f64>,
    /// Size of the rates of the state, in its scaled units.
    rate: f64,
    /// Entries that are not zero: rows speak of few states.
    basis: Vec<Vec<(usize, f64)>>,
}

/// Relative size below which a row on the state is rounding.
const NEGLIGIBLE: f64 = 1e-10;

impl IndependentRows {
    fn new(space: &StateSpace) -> Self {
        let q = &space.variables.state;
        let column_sizes: Vec<f64> = (0..q.ncols())
            .map(|j| (0..q.nrows()).map(|i| (q[(i, j)] / space.sizes[i]).powi(2)).sum::<f64>().sqrt())
            .map(|size| if size > 0.0 && size.is_finite() { size } else { 1.0 })
            .collect();
        let a = &space.dynamics;
        let scaled = |i: usize, j: usize| (a[(i, j)] * column_sizes[i] / column_sizes[j]).powi(2);
        let rate =
            (0..a.nrows()).flat_map(|i| (0..a.ncols()).map(move |j| (i, j))).map(|(i, j)| scaled(i, j)).sum::<f64>();
        Self { rate: rate.sqrt(), column_sizes, basis: Vec::new() }
    }

    /// The size a condition would have if nothing in it cancelled.
    fn size(&self, rows: &StartRows, at: usize, sizes: &[f64]) -> f64 {
        let sum = |a: &Mat<f64>| sizes.iter().enumerate().map(|(j, size)| a[(at, j)].abs() * size).sum::<f64>();
        sum(&rows.variables) + self.rate * sum(&rows.derivatives)
    }

    /// Adds a row if the part of it that is independent of the others is larger than `threshold` of it.
    fn add(&mut self, row: &[f64], size: f64, threshold: f64) -> bool {
        let norm = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>().sqrt();
        let mut left: Vec<f64> = row.iter().zip(&self.column_sizes).map(|(x, unit)| x / unit).collect();
        let before = norm(&left);
        // A comparison with NaN refuses.
        let is_seen = before.partial_cmp(&(NEGLIGIBLE * size)) == Some(std::cmp::Ordering::Greater);
        if !is_seen || self.basis.len() == row.len() {
            return false;
        }
        for _ in 0..2 {
            for known in &self.basis {
                let along: f64 = known.iter().map(|&(at, k)| k * left[at]).sum();
                known.iter().for_each(|&(at, k)| left[at] -= along * k);
            }
        }
        let after = norm(&left);
        if after <= threshold * before {
            return false;
        }
        self.basis.push(left.iter().map(|x| x / after).enumerate().filter(|(_, x)| *x != 0.0).collect());
        true
    }
}

impl StartInputs<'_> {
    fn order(list: &[f64], n_inputs: usize, order: usize) -> Vec<f64> {
        (0..n_inputs).map(|i| list.get(order * n_inputs + i).copied().unwrap_or(0.0)).collect()
    }
}

impl StartPlan {
    /// Chooses the conditions at the parameters where a search starts.
    #[must_use]
    pub(crate) fn choose(
        layout: &ModelLayout,
        coefficients: &Coefficients,
        space: &StateSpace,
        projector: Option<&FreeProjector>,
    ) -> Self {
        let mut plan = Self { conditions: Vec::new(), implied: Vec::new() };
        if layout.start == StartMode::Stationary {
            return plan;
        }
        let mut chosen = IndependentRows::new(space);
        for variable in layout.filters.iter().flat_map(|filter| filter.states.clone()) {
            if chosen.add(&row_of(&space.variables.state, variable), space.sizes[variable], 1e-12) {
                plan.conditions.push(StartCondition::Filter(variable));
            }
        }
        let insisted = state_rows(&coefficients.insisted, space);
        for at in 0..insisted.nrows() {
            let size = chosen.size(&coefficients.insisted, at, &space.sizes);
            if chosen.add(&row_of(&insisted, at), size, 1e-9) {
                plan.conditions.push(StartCondition::Insisted(at));
            } else {
                plan.implied.push(at);
            }
        }
        let wished = projector.map(|projector| projector.rows(&coefficients.wished));
        let wished = state_rows(wished.as_ref().unwrap_or(&coefficients.wished), space);
        // Where the values count, they hold in their order; where they are free, well-conditioned ones are taken first.
        let thresholds: &[f64] = if layout.start == StartMode::Given { &[1e-9] } else { &[3e-2, 1e-4, 1e-9] };
        for &threshold in thresholds {
            for at in 0..wished.nrows() {
                let size = chosen.size(&coefficients.wished, at, &space.sizes);
                if chosen.add(&row_of(&wished, at), size, threshold) {
                    plan.conditions.push(StartCondition::Wished(at));
                }
            }
        }
        plan
    }

    /// Positions of the conditions whose values are estimated or diffuse.
    fn free(&self, layout: &ModelLayout) -> Vec<usize> {
        if !matches!(layout.start, StartMode::Estimated | StartMode::Diffuse) {
            return Vec::new();
        }
        (0..self.conditions.len()).filter(|&at| matches!(self.conditions[at], StartCondition::Wished(_))).collect()
    }

    /// The rows of the wished conditions whose values are estimated or diffuse, in the order of the directions.
    #[must_use]
    pub fn free_rows(&self, layout: &ModelLayout) -> Vec<usize> {
        self.free(layout)
            .into_iter()
            .filter_map(|at| match self.conditions[at] {
                StartCondition::Wished(row) => Some(row),
                StartCondition::Filter(_) | StartCondition::Insisted(_) => None,
            })
            .collect()
    }

    /// The first state.
    pub(crate) fn start(&self, model: &StartModel<'_>, inputs: &StartInputs<'_>) -> Result<StartJet, EstimateError> {
        let StartModel { layout, coefficients, derivatives, jet, .. } = *model;
        if layout.start == StartMode::Stationary {
            return stationary(jet, inputs);
        }
        let space = &jet.value;
        let n = space.dynamics.nrows();
        self.check_filters(layout)?;
        let rows = Rows::new(self, model, inputs);
        if self.conditions.len() < n {
            return Err(EstimateError::NotFinite { what: "the state at the start".to_owned() });
        }
        let lu = rows.matrix.partial_piv_lu();
        let solve = |values: &[f64]| -> Vec<f64> {
            let x = lu.solve(Mat::from_fn(n, 1, |i, _| values[i]));
            (0..n).map(|i| x[(i, 0)]).collect()
        };
        // Columns of T = R^-1.
        let inverse =
            |which: &[usize]| lu.solve(Mat::from_fn(n, which.len(), |i, j| f64::from(u8::from(i == which[j]))));
        let mean: Vec<f64> = solve(&rows.values);
        self.check_implied(coefficients, space, inputs, &mean)?;
        let filters = filter_covariance(&layout.filters, coefficients, derivatives)?;
        let n_filter = self.conditions.iter().filter(|c| matches!(c, StartCondition::Filter(_))).count();
        let t_filter = inverse(&(0..n_filter).collect::<Vec<_>>());
        let free = self.free(layout);
        let value =
            StartState { covariance: &t_filter * &filters[0] * t_filter.transpose(), directions: inverse(&free), mean };
        let derivatives = (0..jet.derivatives.len())
            .map(|at| {
                if model.is_still(inputs, at) {
                    return StartState {
                        mean: vec![0.0; n],
                        covariance: &t_filter * &filters[at + 1] * t_filter.transpose(),
                        directions: Mat::zeros(n, free.len()),
                    };
                }
                let d_rows = Rows::derivative(self, model, inputs, at);
                let moved: Vec<f64> =
                    times(&d_rows.matrix, &value.mean).iter().zip(&d_rows.values).map(|(a, b)| b - a).collect();
                // dT = -T dR T
                let dt = |columns: &Mat<f64>| -lu.solve(&d_rows.matrix * columns);
                let dt_filter = dt(&t_filter);
                let half = &dt_filter * &filters[0] * t_filter.transpose();
                StartState {
                    mean: solve(&moved),
                    covariance: &t_filter * &filters[at + 1] * t_filter.transpose() + &half + half.transpose(),
                    directions: dt(&value.directions),
                }
            })
            .collect();
        Ok(StartJet { value, derivatives })
    }

    /// A filter whose states are no free states of the model is too fast for its equations to be told from algebraic
    /// ones.
    fn check_filters(&self, layout: &ModelLayout) -> Result<(), EstimateError> {
        let is_state = |variable: usize| self.conditions.contains(&StartCondition::Filter(variable));
        match layout.filters.iter().position(|filter| !filter.states.clone().all(is_state)) {
            Some(filter) => Err(EstimateError::FilterNotDynamic { filter }),
            None => Ok(()),
        }
    }

    fn check_implied(
        &self,
        coefficients: &Coefficients,
        space: &StateSpace,
        inputs: &StartInputs<'_>,
        mean: &[f64],
    ) -> Result<(), EstimateError> {
        if self.implied.is_empty() {
            return Ok(());
        }
        let matrix = state_rows(&coefficients.insisted, space);
        let values = state_values(&coefficients.insisted, space, inputs.value, inputs.n_inputs);
        let sizes = condition_sizes(&coefficients.insisted, space, inputs, mean);
        for &at in &self.implied {
            let residual = (0..mean.len()).map(|j| matrix[(at, j)] * mean[j]).sum::<f64>() - values[at];
            // A comparison with NaN refuses.
            let holds = residual.abs() <= START_HOLDS * sizes[at].max(SMALLEST_CONDITION);
            if !holds {
                return Err(EstimateError::InconsistentStart { condition: at, residual });
            }
        }
        Ok(())
    }
}

/// A condition that follows from others holds if it is off by no more than this fraction of the terms it is made of: what
/// a simulation accepts of a start.
const START_HOLDS: f64 = 1e-7;

/// Terms that are smaller are rounding of larger ones.
const SMALLEST_CONDITION: f64 = 1e-9;

/// The sum of the absolute values of all terms that make the residual of a condition at a state,
///
/// ```text
/// |value| + |c| (|Q_s| |x| + sum over k of |Z_k| |u^(k)|) + |b| (..) + |d| |u|
/// ```
///
/// Rounding is relative to these terms, not to their sum: where a known part cancels the value that was written, as in
/// `x = 1` and `x = c (1 + u)/c`, what is left is rounding itself.   [@higham2002]
fn condition_sizes(rows: &StartRows, space: &StateSpace, inputs: &StartInputs<'_>, mean: &[f64]) -> Vec<f64> {
    let positive = |a: &Mat<f64>| Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)].abs());
    let all = |list: &[f64]| list.iter().map(|x| x.abs()).collect::<Vec<f64>>();
    let rows = StartRows {
        variables: positive(&rows.variables),
        derivatives: positive(&rows.derivatives),
        inputs: positive(&rows.inputs),
        values: all(&rows.values),
    };
    let mut space = space.clone();
    for term in
        space.variables.inputs.iter_mut().chain([&mut space.variables.state, &mut space.dynamics, &mut space.input])
    {
        *term = positive(term);
    }
    let mut sizes = known_part(&rows, &space.variables, &space.input, &all(inputs.value), inputs.n_inputs);
    add(&mut sizes, &times(&state_rows(&rows, &space), &all(mean)));
    add(&mut sizes, &rows.values);
    sizes
}

fn row_of(a: &Mat<f64>, row: usize) -> Vec<f64> {
    (0..a.ncols()).map(|j| a[(row, j)]).collect()
}

fn times(a: &Mat<f64>, x: &[f64]) -> Vec<f64> {
    let mut sum = vec![0.0; a.nrows()];
    for (column, x) in a.col_iter().zip(x) {
        sum.iter_mut().zip(column.iter()).for_each(|(sum, a)| *sum += a * x);
    }
    sum
}

/// `c Q_s + b Q_s A`: what conditions say about the state.
fn state_rows(rows: &StartRows, space: &StateSpace) -> Mat<f64> {
    let basis = &space.variables.state;
    let sum = product(&rows.variables, basis);
    if is_zero(&rows.derivatives) {
        return sum;
    }
    sum + product(&product(&rows.derivatives, basis), &space.dynamics)
}

/// `value - d u - sum over k of (c Z_k u^(k) + b Z_k u^(k+1)) - b Q_s B u`
fn state_values(rows: &StartRows, space: &StateSpace, inputs: &[f64], n_inputs: usize) -> Vec<f64> {
    let known = known_part(rows, &space.variables, &space.input, inputs, n_inputs);
    rows.values.iter().zip(known).map(|(value, known)| value - known).collect()
}

/// `d u + sum over k of (c Z_k u^(k) + b Z_k u^(k+1)) + b Q_s B u`, linear in every argument.
fn known_part(rows: &StartRows, terms: &SignalTerms, input: &Mat<f64>, inputs: &[f64], n_inputs: usize) -> Vec<f64> {
    if rows.values.is_empty() {
        return Vec::new();
    }
    let u = |order: usize| StartInputs::order(inputs, n_inputs, order);
    let n = terms.state.nrows();
    let (mut variables, mut rates) = (vec![0.0; n], times(&terms.state, &times(input, &u(0))));
    for (k, term) in terms.inputs.iter().enumerate() {
        add(&mut variables, &times(term, &u(k)));
        add(&mut rates, &times(term, &u(k + 1)));
    }
    let mut known = times(&rows.inputs, &u(0));
    add(&mut known, &times(&rows.variables, &variables));
    add(&mut known, &times(&rows.derivatives, &rates));
    known
}

/// Conditions without their values: what is estimated of them then is the values themselves, which a large one that was
/// written would cancel.
fn unvalued(rows: &StartRows) -> StartRows {
    StartRows { values: vec![0.0; rows.values.len()], ..rows.clone() }
}

fn add(sum: &mut [f64], term: &[f64]) {
    sum.iter_mut().zip(term).for_each(|(a, b)| *a += b);
}

/// `R` and `rho`, or their derivatives.
struct Rows {
    matrix: Mat<f64>,
    values: Vec<f64>,
}

impl Rows {
    fn new(plan: &StartPlan, model: &StartModel<'_>, inputs: &StartInputs<'_>) -> Self {
        let (coefficients, space) = (model.coefficients, &model.jet.value);
        let insisted = state_rows(&coefficients.insisted, space);
        let wished = state_rows(&model.wished(), space);
        let insisted_values = state_values(&coefficients.insisted, space, inputs.value, inputs.n_inputs);
        let wished_values = match model.layout.start {
            StartMode::Zero => vec![0.0; coefficients.wished.len()],
            StartMode::Estimated => state_values(&unvalued(&coefficients.wished), space, inputs.value, inputs.n_inputs),
            _ => state_values(&coefficients.wished, space, inputs.value, inputs.n_inputs),
        };
        Self::pick(plan, &space.variables.state, (&insisted, &insisted_values), (&wished, &wished_values))
    }

    fn pick(plan: &StartPlan, filters: &Mat<f64>, insisted: (&Mat<f64>, &[f64]), wished: (&Mat<f64>, &[f64])) -> Self {
        let n = filters.ncols();
        let matrix = Mat::from_fn(plan.conditions.len(), n, |i, j| match plan.conditions[i] {
            StartCondition::Filter(variable) => filters[(variable, j)],
            StartCondition::Insisted(row) => insisted.0[(row, j)],
            StartCondition::Wished(row) => wished.0[(row, j)],
        });
        let values = plan
            .conditions
            .iter()
            .map(|condition| match *condition {
                StartCondition::Filter(_) => 0.0,
                StartCondition::Insisted(row) => insisted.1[row],
                StartCondition::Wished(row) => wished.1[row],
            })
            .collect();
        Self { matrix, values }
    }

    fn derivative(plan: &StartPlan, model: &StartModel<'_>, inputs: &StartInputs<'_>, parameter: usize) -> Self {
        let (value, direction) = (model.coefficients, &model.derivatives[parameter]);
        let (space, d_space) = (&model.jet.value, &model.jet.derivatives[parameter]);
        let insisted = state_row_derivatives(&value.insisted, &direction.insisted, space, d_space);
        let insisted_values =
            state_value_derivatives(&value.insisted, &direction.insisted, space, d_space, inputs, parameter);
        let d_wished = match model.projector {
            Some(projector) => projector.row_derivatives(&value.wished, &direction.wished, parameter),
            None => direction.wished.clone(),
        };
        let wished = state_row_derivatives(&model.wished(), &d_wished, space, d_space);
        let wished_values = match model.layout.start {
            StartMode::Zero => vec![0.0; value.wished.len()],
            StartMode::Estimated => {
                let (wished, direction) = (unvalued(&value.wished), unvalued(&direction.wished));
                state_value_derivatives(&wished, &direction, space, d_space, inputs, parameter)
            }
            _ => state_value_derivatives(&value.wished, &direction.wished, space, d_space, inputs, parameter),
        };
        Self::pick(plan, &d_space.variables.state, (&insisted, &insisted_values), (&wished, &wished_values))
    }
}

/// The derivative of [`state_rows`].
fn state_row_derivatives(rows: &StartRows, d_rows: &StartRows, space: &StateSpace, d_space: &StateSpace) -> Mat<f64> {
    let (basis, d_basis) = (&space.variables.state, &d_space.variables.state);
    let mut sum = product(&d_rows.variables, basis) + product(&rows.variables, d_basis);
    if !is_zero(&d_rows.derivatives) {
        sum += product(&product(&d_rows.derivatives, basis), &space.dynamics);
    }
    if !is_zero(&rows.derivatives) {
        sum += product(&product(&rows.derivatives, d_basis), &space.dynamics)
            + product(&product(&rows.derivatives, basis), &d_space.dynamics);
    }
    sum
}

/// The derivative of [`state_values`].
fn state_value_derivatives(
    rows: &StartRows,
    d_rows: &StartRows,
    space: &StateSpace,
    d_space: &StateSpace,
    inputs: &StartInputs<'_>,
    parameter: usize,
) -> Vec<f64> {
    let n_inputs = inputs.n_inputs;
    // The known part is linear in rows, in the map and in the inputs; the product Q_s B needs both of its parts.
    let of_value =
        |rows: &StartRows, inputs: &[f64]| known_part(rows, &space.variables, &space.input, inputs, n_inputs);
    let mut known = of_value(d_rows, inputs.value);
    add(&mut known, &known_part(rows, &d_space.variables, &space.input, inputs.value, n_inputs));
    let u = StartInputs::order(inputs.value, n_inputs, 0);
    let driven = times(&space.variables.state, &times(&d_space.input, &u));
    add(&mut known, &times(&rows.derivatives, &driven));
    // `known_part` adds `d u` for the rows given: it was counted twice here.
    let twice = times(&rows.inputs, &u);
    known.iter_mut().zip(twice).for_each(|(a, b)| *a -= b);
    if let Some(d_inputs) = inputs.derivatives.get(parameter) {
        add(&mut known, &of_value(rows, d_inputs));
    }
    d_rows.values.iter().zip(known).map(|(value, known)| value - known).collect()
}

/// Covariance of all filter states, then its derivatives.
fn filter_covariance(
    filters: &[FilterBlock],
    coefficients: &Coefficients,
    derivatives: &[Coefficients],
) -> Result<Vec<Mat<f64>>, EstimateError> {
    let n: usize = filters.iter().map(|filter| filter.states.len()).sum();
    let mut result = vec![Mat::zeros(n, n); derivatives.len() + 1];
    let mut offset = 0;
    for filter in filters {
        let size = filter.states.len();
        if !filter.starts_at_zero {
            let process = |of: &Coefficients, intensity: Mat<f64>| ContinuousModel {
                dynamics: of.f.as_ref().submatrix(filter.states.start, filter.states.start, size, size).to_owned(),
                input: Mat::zeros(size, 0),
                intensity,
            };
            let noise = |of: &Coefficients| of.j.as_ref().subrows(filter.states.start, size).to_owned();
            let b = noise(coefficients);
            let value = process(coefficients, &b * b.transpose());
            let directions: Vec<ContinuousModel> = derivatives
                .iter()
                .map(|of| {
                    let half = noise(of) * b.transpose();
                    process(of, &half + half.transpose())
                })
                .collect();
            let jet =
                stationary_covariance(&value, &directions).ok_or(EstimateError::NotStable { what: "a disturbance" })?;
            for (target, block) in result.iter_mut().zip(std::iter::once(&jet.value).chain(&jet.derivatives)) {
                target.as_mut().submatrix_mut(offset, offset, size, size).copy_from(block);
            }
        }
        offset += size;
    }
    Ok(result)
}

/// Rest under the first inputs, `A x + B u = 0`, with the stationary covariance.
fn stationary(jet: &StateSpaceJet, inputs: &StartInputs<'_>) -> Result<StartJet, EstimateError> {
    let space = &jet.value;
    let n = space.dynamics.nrows();
    let process = |of: &StateSpace| ContinuousModel {
        dynamics: of.dynamics.clone(),
        input: Mat::zeros(n, 0),
        intensity: of.intensity.clone(),
    };
    let directions: Vec<ContinuousModel> = jet.derivatives.iter().map(process).collect();
    let covariance = stationary_covariance(&process(space), &directions)
        .ok_or(EstimateError::NotStable { what: "the model with its disturbances" })?;
    let u = StartInputs::order(inputs.value, inputs.n_inputs, 0);
    let lu = space.dynamics.partial_piv_lu();
    let solve = |force: &[f64]| -> Vec<f64> {
        let x = lu.solve(Mat::from_fn(n, 1, |i, _| -force[i]));
        (0..n).map(|i| x[(i, 0)]).collect()
    };
    let mean = solve(&times(&space.input, &u));
    let none = Mat::zeros(n, 0);
    let derivatives = jet
        .derivatives
        .iter()
        .enumerate()
        .map(|(at, d_space)| {
            let mut force = times(&d_space.input, &u);
            add(&mut force, &times(&d_space.dynamics, &mean));
            if let Some(d_inputs) = inputs.derivatives.get(at) {
                add(&mut force, &times(&space.input, &StartInputs::order(d_inputs, inputs.n_inputs, 0)));
            }
            StartState { mean: solve(&force), covariance: covariance.derivatives[at].clone(), directions: none.clone() }
        })
        .collect();
    Ok(StartJet { value: StartState { mean, covariance: covariance.value, directions: none }, derivatives })
}
