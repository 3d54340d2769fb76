//! The strangeness-free form of a linear system with constant or time-varying coefficients, from its derivative array.
#![allow(non_snake_case)]
//!
//! The system is read as `E z' = A z + phi`, where `z` holds the variables and, unless they are given functions, the
//! inputs. Its derivative array in Taylor coefficients is `M zeta_(1..mu+1) = N z + phi_(0..mu)` with
//!
//! ```text
//! M_(i,j) = (j + 1) E_(i-j) - A_(i-j-1),     N_i = A_i,      i, j = 0 .. mu,      X_k = X^(k) / k!
//! ```
//!
//! which is (21) with rows divided by `i!` and unknowns by `(j+1)!`. Three null spaces give the form (22):
//!
//! ```text
//! Z^T M = 0;   rank Z^T N = a, Z = [Z_2 Z_3], Z_3^T N = 0;   A_2 = Z_2^T N, A_2 T_2 = 0;   rank E T_2 = d = rank Z_1^T E T_2
//!
//! E_1 z' = A_1 z + f_1      d equations
//!      0 = A_2 z + f_2      a equations: every constraint, hidden ones included
//!      0 =         f_3      redundant equations
//! ```
//!
//! For constant coefficients the ranks are taken from the Kronecker structure, which is decided more safely than those
//! of an array. `mu` is the smallest number with `d = L - a - v`, where `v` is the growth of the number of redundant
//! combinations from `mu - 1` to `mu`. [@campbell2011, hypotheses 1 and 2, theorem 8]

use crate::balance::{Balancing, balance, power_of_two};
use crate::combination::reduce_rows;
use crate::dense::{Vectors, beside, block, check_vector, norm, set_block, svd, times};
use crate::error::PencilError;
use crate::initial::{ConsistencyRequest, ConsistentValues, nearest_consistent};
use crate::jet::{CoefficientJet, LinearCoefficients, derivative};
use crate::kronecker::{KroneckerStructure, independent_rows, kronecker_structure};
use crate::pencil::Pencil;
use crate::rank::{RankDecision, RankQuestion, RankTolerance, decide, describe};
use crate::split::PencilOptions;
use faer::Mat;

/// What the inputs are in the analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InputRole {
    /// Inputs are variables like the others; no derivative of an input is needed.   [@campbell2011, sec. 3]
    #[default]
    Behaviour,
    /// Inputs are given functions of time; their derivatives may enter the constraints.
    Given,
}

/// What to do with redundant equations whose right-hand sides disagree (`f_3 != 0`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RedundantEquations {
    /// Report the contradiction as an error.
    #[default]
    Report,
    /// Leave the redundant equations out, as if `f_3` were zero.
    Remove,
}

/// How the strangeness-free form is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StrangenessOptions {
    /// How ranks are decided.
    pub tolerance: RankTolerance,
    /// What the inputs are.
    pub inputs: InputRole,
    /// What to do with contradicting redundant equations.
    pub redundant: RedundantEquations,
    /// Relative size from which `f_3` counts as a contradiction.
    pub contradiction: f64,
    /// Largest number of differentiations tried.
    pub max_differentiations: usize,
    /// Whether the differential equations are made of original ones and all rows are combined to a reduced form that
    /// people can read.
    pub readable: bool,
}

impl Default for StrangenessOptions {
    fn default() -> Self {
        Self {
            tolerance: RankTolerance::default(),
            inputs: InputRole::Behaviour,
            redundant: RedundantEquations::Report,
            contradiction: 1e-9,
            max_differentiations: 8,
            readable: false,
        }
    }
}

/// A strangeness-free system at one time:
/// `E_1 x' = A_1 x + B_1 u + f_1`, `0 = A_2 x + sum_k B_2,k u^(k) + f_2`.
#[derive(Debug, Clone)]
pub struct StrangenessFree {
    /// Strangeness index: number of differentiations needed.
    pub mu: usize,
    /// Number of differential equations.
    pub d: usize,
    /// Number of algebraic equations.
    pub a: usize,
    /// Number of redundant equations.
    pub v: usize,
    /// `E_1`, `d x n`.
    pub e1: Mat<f64>,
    /// `A_1`, `d x n`.
    pub a1: Mat<f64>,
    /// `B_1`, `d x inputs`.
    pub b1: Mat<f64>,
    /// `f_1`.
    pub f1: Vec<f64>,
    /// `A_2`, `a x n`.
    pub a2: Mat<f64>,
    /// `B_2`, `a x inputs`: the coefficient of `u` itself.
    pub b2: Mat<f64>,
    /// Coefficients of `u', u'', ..` in the constraints; empty unless the inputs are given functions.
    pub b2_derivatives: Vec<Mat<f64>>,
    /// `f_2`.
    pub f2: Vec<f64>,
    /// `f_3`: zero up to rounding if the redundant equations agree.
    pub f3: Vec<f64>,
    /// Size of `f_3` relative to the forcing that enters it.
    pub contradiction: f64,
    /// The sum of the sizes of the terms of `f_3`.
    pub f3_size: Vec<f64>,
    /// Coefficients of `u, u', ..` in the redundant combinations; empty unless the inputs are given functions.
    pub b3: Vec<Mat<f64>>,
    /// Equations (from 0) that take part in redundant combinations.
    pub redundant_equations: Vec<usize>,
    /// `Z_1^T`: how the differential equations are made of the original ones, `d x L`.
    pub differential_multipliers: Mat<f64>,
    /// How the constraints are made of the original equations and their derivatives: entry `k` multiplies derivative
    /// `k`.
    pub algebraic_multipliers: Vec<Mat<f64>>,
    /// All rank decisions with their gaps.
    pub rank_decisions: Vec<RankDecision>,
    /// Units of the variables (and, after them, of inputs that are variables), from balancing.
    pub units: Vec<f64>,
}

impl StrangenessFree {
    /// Number of variables.
    pub fn n_variables(&self) -> usize {
        self.e1.ncols()
    }

    /// Number of inputs.
    pub fn n_inputs(&self) -> usize {
        self.b1.ncols()
    }

    /// Size of `f_3 + sum over k of B_3,k u^(k)` relative to its terms, for given `u, u', ..`: zero up to rounding if
    /// the redundant equations agree.
    pub fn contradiction_with(&self, inputs: &[Vec<f64>]) -> f64 {
        let (mut value, mut size) = (self.f3.clone(), self.f3_size.clone());
        for (b, u) in self.b3.iter().zip(inputs) {
            let magnitude: Vec<f64> = u.iter().map(|x| x.abs()).collect();
            value.iter_mut().zip(times(b, u)).for_each(|(sum, term)| *sum += term);
            size.iter_mut().zip(times(&crate::standard_form::absolute(b), &magnitude)).for_each(|(sum, t)| *sum += t);
        }
        let largest = |x: &[f64]| x.iter().fold(0.0f64, |s, v| s.max(v.abs()));
        if largest(&size) > 0.0 { largest(&value) / largest(&size) } else { 0.0 }
    }

    /// The nearest values `(x, u)` to a guess that satisfy all constraints.   [@campbell2011, eq. (25)]
    ///
    /// The guess holds the variables and then the inputs; inputs that are given functions belong among the insisted
    /// ones, and `input_derivatives` holds `u', u'', ..` as far as the constraints need them.
    pub fn consistent_values(
        &self,
        input_derivatives: &[Vec<f64>],
        request: &ConsistencyRequest<'_>,
    ) -> Result<ConsistentValues, PencilError> {
        let mut target: Vec<f64> = self.f2.iter().map(|x| -x).collect();
        for (k, b) in self.b2_derivatives.iter().enumerate() {
            let Some(u) = input_derivatives.get(k) else {
                let given = input_derivatives.len() + 1;
                return Err(PencilError::MissingDerivatives { needed: k + 1, given });
            };
            check_vector("u", u, self.n_inputs(), "one value per input")?;
            for (t, x) in target.iter_mut().zip(times(b, u)) {
                *t -= x;
            }
        }
        nearest_consistent(&beside(&self.a2, &self.b2), &target, request)
    }
}

/// The integers of a time-varying system at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StructureAt {
    /// The time.
    pub time: f64,
    /// Strangeness index.
    pub mu: usize,
    /// Number of differential equations.
    pub d: usize,
    /// Number of algebraic equations.
    pub a: usize,
    /// Number of redundant equations.
    pub v: usize,
}

/// The integers at several times: a strangeness-free form holds on an interval only where they do not change.
pub fn strangeness_over(
    coefficients: &dyn LinearCoefficients,
    times: &[f64],
    options: &StrangenessOptions,
) -> Result<Vec<StructureAt>, PencilError> {
    times
        .iter()
        .map(|&time| {
            let form = strangeness_free(coefficients, time, options)?;
            Ok(StructureAt { time, mu: form.mu, d: form.d, a: form.a, v: form.v })
        })
        .collect()
}

/// Computes the strangeness-free form at one time.
///
/// Guarantees: the same solutions as the original system wherever the decided ranks hold in a neighbourhood of `time`;
/// over- and underdetermined systems included; no variable is transformed.
pub fn strangeness_free(
    coefficients: &dyn LinearCoefficients,
    time: f64,
    options: &StrangenessOptions,
) -> Result<StrangenessFree, PencilError> {
    let first = coefficients.jet(time, 0)?;
    first.check()?;
    let shape = Shape::new(&first, options.inputs);
    let start = shape.behaviour(&first, 0);
    let balancing = balance(&Pencil::new(start.e, start.a)?);
    if let Some(known) = KnownRanks::of(coefficients, time, &shape, options)? {
        let mut decisions = known.structure.rank_decisions.clone();
        let jet = coefficients.jet(time, known.mu + 1)?;
        let (v, mu) = (known.structure.left_minimal_indices.len(), known.mu);
        let array = Array::build(&jet, &shape, &balancing, mu, &options.tolerance, Some(&known), &mut decisions)?;
        return finish(&jet, &shape, &balancing, array, v, decisions, options);
    }
    let mut decisions = Vec::new();
    let mut redundant_before = 0;
    for mu in 0..=options.max_differentiations {
        let jet = coefficients.jet(time, mu + 1)?;
        jet.check()?;
        let array = Array::build(&jet, &shape, &balancing, mu, &options.tolerance, None, &mut decisions)?;
        let v = array.redundant.ncols() - redundant_before.min(array.redundant.ncols());
        redundant_before = array.redundant.ncols();
        let (a, d) = (array.constraints.ncols(), array.dynamics.ncols());
        if d + a + v == shape.L {
            return finish(&jet, &shape, &balancing, array, v, decisions, options);
        }
    }
    Err(PencilError::NotSettled { tried: options.max_differentiations })
}

/// Ranks of the array of a system with constant coefficients, known from its Kronecker structure: an infinite block of
/// size `k` takes `k - 1` differentiations and gives `k` constraints, a left block of minimal index `k` takes `k` and
/// gives `k` constraints and one redundancy, a right block of minimal index `k` gives `k` differential equations.
struct KnownRanks {
    mu: usize,
    constraints: usize,
    dynamics: usize,
    /// Redundant combinations in the array with `mu` differentiations.
    redundant: usize,
    structure: KroneckerStructure,
}

impl KnownRanks {
    /// `None` if the coefficients vary or the limit of differentiations is too low.
    fn of(
        coefficients: &dyn LinearCoefficients,
        time: f64,
        shape: &Shape,
        options: &StrangenessOptions,
    ) -> Result<Option<Self>, PencilError> {
        let jet = coefficients.jet(time, options.max_differentiations + 1)?;
        jet.check()?;
        if jet.e.len() > 1 || jet.f.len() > 1 || jet.input.len() > 1 {
            return Ok(None);
        }
        let pair = shape.behaviour(&jet, 0);
        let pencil_options = PencilOptions { tolerance: options.tolerance, ..Default::default() };
        let structure = kronecker_structure(&Pencil::new(pair.e, pair.a)?, &pencil_options)?;
        let left = &structure.left_minimal_indices;
        let mu = structure.index.saturating_sub(1).max(left.last().copied().unwrap_or(0));
        if mu > options.max_differentiations {
            return Ok(None);
        }
        let infinite: usize = structure.infinite_block_sizes.iter().sum();
        Ok(Some(Self {
            mu,
            constraints: infinite + left.iter().sum::<usize>(),
            dynamics: structure.n_finite + structure.right_minimal_indices.iter().sum::<usize>(),
            redundant: left.iter().map(|k| mu + 1 - k).sum(),
            structure,
        }))
    }
}

/// Sizes of the behaviour system.
struct Shape {
    L: usize,
    n: usize,
    inputs: usize,
    /// Number of columns of the behaviour system.
    N: usize,
    role: InputRole,
}

struct BehaviourPair {
    e: Mat<f64>,
    a: Mat<f64>,
}

impl Shape {
    fn new(jet: &CoefficientJet, role: InputRole) -> Self {
        let (L, n, inputs) = (jet.n_equations(), jet.n_variables(), jet.n_inputs());
        Self { L, n, inputs, N: if role == InputRole::Behaviour { n + inputs } else { n }, role }
    }

    /// Derivative `k` of `([E 0], [F G])`, or of `(E, F)` if the inputs are given.
    fn behaviour(&self, jet: &CoefficientJet, k: usize) -> BehaviourPair {
        let e = derivative(&jet.e, k, self.L, self.n);
        let f = derivative(&jet.f, k, self.L, self.n);
        if self.role == InputRole::Given {
            return BehaviourPair { e, a: f };
        }
        let g = derivative(&jet.input, k, self.L, self.inputs);
        BehaviourPair { e: beside(&e, &Mat::zeros(self.L, self.inputs)), a: beside(&f, &g) }
    }
}

/// `1 / k!`.
fn inverse_factorial(k: usize) -> f64 {
    (1..=k).fold(1.0, |c, i| c / i as f64)
}

/// The null spaces of one derivative array in balanced Taylor coordinates.
struct Array {
    /// `Z_2`.
    constraints: Mat<f64>,
    /// `Z_3`.
    redundant: Mat<f64>,
    /// `Z_1`.
    dynamics: Mat<f64>,
    mu: usize,
}

impl Array {
    fn build(
        jet: &CoefficientJet,
        shape: &Shape,
        balancing: &Balancing,
        mu: usize,
        tolerance: &RankTolerance,
        known: Option<&KnownRanks>,
        decisions: &mut Vec<RankDecision>,
    ) -> Result<Self, PencilError> {
        let (L, N) = (shape.L, shape.N);
        let scaled = |x: &Mat<f64>, k: usize, is_e: bool| {
            let factor = power_of_two(balancing.time * (i32::from(is_e) - k as i32)) * inverse_factorial(k);
            let y = balancing.apply(x);
            Mat::from_fn(L, N, |i, j| y[(i, j)] * factor)
        };
        let pairs: Vec<BehaviourPair> = (0..=mu)
            .map(|k| {
                let pair = shape.behaviour(jet, k);
                BehaviourPair { e: scaled(&pair.e, k, true), a: scaled(&pair.a, k, false) }
            })
            .collect();
        let rows = (mu + 1) * L;
        let mut M = Mat::<f64>::zeros(rows, (mu + 1) * N);
        let mut right = Mat::<f64>::zeros(rows, N);
        for i in 0..=mu {
            set_block(&mut right, i * L, 0, &pairs[i].a);
            for j in 0..=i {
                let mut entry = &pairs[i - j].e * faer::Scale((j + 1) as f64);
                if i > j {
                    entry -= &pairs[i - j - 1].a;
                }
                set_block(&mut M, i * L, j * N, &entry);
            }
        }
        let size_e = norm(pairs[0].e.as_ref());
        let size_a = norm(pairs[0].a.as_ref());
        let reference = size_e.max(size_a);
        let dec = svd(M.as_ref(), Vectors::Left)?;
        let question = RankQuestion::DerivativeArray { level: mu };
        let decision = match known {
            Some(k) => {
                let rank = rows - (k.constraints + k.redundant).min(rows);
                describe(&dec.s, rank, rows, M.ncols(), reference, tolerance, question)
            }
            None => decide(&dec.s, rows, M.ncols(), reference, tolerance, question),
        };
        decisions.push(decision);
        // Null vectors are known up to rounding over the smallest singular value that counts.
        let blur = |pivot: f64| {
            let relative = tolerance.relative.max((8.0 * f64::EPSILON / pivot).min(1e-8));
            RankTolerance { relative, ..*tolerance }
        };
        let careful = blur(decision.smallest_kept);
        let Z = block(&dec.u, 0, rows, decision.rank, rows);
        let algebraic = Z.transpose() * &right;
        let dec = svd(algebraic.as_ref(), Vectors::Both)?;
        let question = RankQuestion::Constraints { level: mu };
        let decision = match known {
            Some(k) => describe(&dec.s, k.constraints, algebraic.nrows(), N, size_a, &careful, question),
            None => decide(&dec.s, algebraic.nrows(), N, size_a, &careful, question),
        };
        decisions.push(decision);
        let careful = blur(decision.smallest_kept);
        let a = decision.rank;
        let constraints = &Z * &block(&dec.u, 0, Z.ncols(), 0, a);
        let redundant = &Z * &block(&dec.u, 0, Z.ncols(), a, Z.ncols());
        let T2 = block(&dec.v, 0, N, a, N);
        let moving = &pairs[0].e * &T2;
        let dec = svd(moving.as_ref(), Vectors::Left)?;
        let question = RankQuestion::Dynamics { level: mu };
        let decision = match known {
            Some(k) => describe(&dec.s, k.dynamics, L, T2.ncols(), size_e, &careful, question),
            None => decide(&dec.s, L, T2.ncols(), size_e, &careful, question),
        };
        decisions.push(decision);
        let dynamics = block(&dec.u, 0, L, 0, decision.rank);
        Ok(Self { constraints, redundant, dynamics, mu })
    }

    /// Multipliers of derivative `k` of the original equations, from balanced Taylor rows.
    fn multipliers(&self, Z: &Mat<f64>, L: usize, balancing: &Balancing) -> Vec<Mat<f64>> {
        (0..=self.mu)
            .map(|k| {
                let factor = power_of_two(-balancing.time * k as i32) * inverse_factorial(k);
                Mat::from_fn(Z.ncols(), L, |r, i| Z[(k * L + i, r)] * power_of_two(balancing.rows[i]) * factor)
            })
            .collect()
    }
}

/// `sum_k multipliers[k] x^(k)` for a vector with derivatives, and the same with absolute values.
fn combine_vectors(multipliers: &[Mat<f64>], derivatives: &[Vec<f64>], rows: usize) -> (Vec<f64>, Vec<f64>) {
    let (mut value, mut size) = (vec![0.0; rows], vec![0.0; rows]);
    for (m, x) in multipliers.iter().zip(derivatives) {
        for (v, t) in value.iter_mut().zip(times(m, x)) {
            *v += t;
        }
        let magnitude: Vec<f64> = x.iter().map(|t| t.abs()).collect();
        for (s, t) in size.iter_mut().zip(times(&crate::standard_form::absolute(m), &magnitude)) {
            *s += t;
        }
    }
    (value, size)
}

/// Coefficient of derivative `order` of a function `x` in `sum_k multipliers[k] (C x)^(k)`.
fn combine_matrices(multipliers: &[Mat<f64>], list: &[Mat<f64>], order: usize, rows: usize, cols: usize) -> Mat<f64> {
    let mut out = Mat::zeros(multipliers.first().map_or(0, |m| m.nrows()), cols);
    for (k, m) in multipliers.iter().enumerate().skip(order) {
        let binomial = (0..order).fold(1.0, |c, l| c * (k - l) as f64 / (l + 1) as f64);
        out += (m * derivative(list, k - order, rows, cols)) * faer::Scale(binomial);
    }
    out
}

fn finish(
    jet: &CoefficientJet,
    shape: &Shape,
    balancing: &Balancing,
    array: Array,
    v: usize,
    rank_decisions: Vec<RankDecision>,
    options: &StrangenessOptions,
) -> Result<StrangenessFree, PencilError> {
    let (L, n, m) = (shape.L, shape.n, shape.inputs);
    let (d, a) = (array.dynamics.ncols(), array.constraints.ncols());
    let units: Vec<f64> = balancing.cols.iter().map(|&k| power_of_two(k)).collect();
    let mut differential = Mat::from_fn(d, L, |r, i| array.dynamics[(i, r)] * power_of_two(balancing.rows[i]));
    let mut algebraic = array.multipliers(&array.constraints, L, balancing);
    let redundant = array.multipliers(&array.redundant, L, balancing);
    if options.readable {
        // Range(E T_2) = range(Z_1): independent rows of Z_1 are original equations that say the same.
        let mut own = independent_rows(&array.dynamics, d);
        if own.len() == d {
            own.sort_unstable();
            differential = Mat::from_fn(d, L, |r, i| f64::from(u8::from(own[r] == i)));
        }
        let e1 = &differential * &jet.e[0];
        differential = reduce_rows(&e1, &units[..n]).multiplier * &differential;
        let both =
            beside(&combine_matrices(&algebraic, &jet.f, 0, L, n), &combine_matrices(&algebraic, &jet.input, 0, L, m));
        let wide: Vec<f64> = units.iter().copied().chain(std::iter::repeat(1.0)).take(n + m).collect();
        let multiplier = reduce_rows(&both, &wide).multiplier;
        for level in &mut algebraic {
            *level = &multiplier * &*level;
        }
    }
    let zero = vec![0.0; L];
    let value = jet.forcing.first().unwrap_or(&zero);
    let (mut f2, _) = combine_vectors(&algebraic, &jet.forcing, a);
    sweep_rounding(jet, balancing, &algebraic, &mut f2);
    let (mut f3, f3_size) = combine_vectors(&redundant, &jet.forcing, array.redundant.ncols());
    sweep_rounding(jet, balancing, &redundant, &mut f3);
    let largest = |x: &[f64]| x.iter().fold(0.0f64, |s, v| s.max(v.abs()));
    let contradiction = if largest(&f3_size) > 0.0 { largest(&f3) / largest(&f3_size) } else { 0.0 };
    let redundant_equations: Vec<usize> = (0..L)
        .filter(|&i| {
            (0..=array.mu).any(|k| (0..array.redundant.ncols()).any(|c| array.redundant[(k * L + i, c)].abs() > 1e-8))
        })
        .collect();
    if contradiction > options.contradiction && options.redundant == RedundantEquations::Report {
        return Err(PencilError::InconsistentEquations {
            equations: redundant_equations.iter().map(|i| i + 1).collect(),
            residual: contradiction,
        });
    }
    let b2_derivatives = match options.inputs {
        InputRole::Behaviour => Vec::new(),
        InputRole::Given => {
            let mut list: Vec<Mat<f64>> = (1..=array.mu)
                .map(|k| clean(combine_matrices(&algebraic, &jet.input, k, L, m), &algebraic, jet))
                .collect();
            while list.last().is_some_and(|b| b.norm_max() == 0.0) {
                list.pop();
            }
            list
        }
    };
    let b3 = match options.inputs {
        InputRole::Behaviour => Vec::new(),
        InputRole::Given => {
            (0..=array.mu).map(|k| clean(combine_matrices(&redundant, &jet.input, k, L, m), &redundant, jet)).collect()
        }
    };
    let g0 = derivative(&jet.input, 0, L, m);
    Ok(StrangenessFree {
        mu: array.mu,
        d,
        a,
        v,
        e1: &differential * &jet.e[0],
        a1: &differential * &jet.f[0],
        b1: &differential * &g0,
        f1: times(&differential, value),
        a2: combine_matrices(&algebraic, &jet.f, 0, L, n),
        b2: combine_matrices(&algebraic, &jet.input, 0, L, m),
        b2_derivatives,
        f2,
        f3,
        f3_size,
        b3,
        contradiction,
        redundant_equations,
        differential_multipliers: differential,
        algebraic_multipliers: algebraic,
        rank_decisions,
        units,
    })
}

/// Sets values of combined forcing to zero that are rounding errors.
fn sweep_rounding(jet: &CoefficientJet, balancing: &Balancing, multipliers: &[Mat<f64>], values: &mut [f64]) {
    let L = balancing.rows.len();
    for (r, value) in values.iter_mut().enumerate() {
        // Multipliers and forcing are as large as they are in balanced rows: rounding errors are judged there.
        let rounding: f64 = multipliers
            .iter()
            .zip(&jet.forcing)
            .map(|(level, forcing)| {
                let unit = |i: usize| power_of_two(balancing.rows[i]);
                let row = (0..L).fold(0.0f64, |s, i| s.max((level[(r, i)] / unit(i)).abs()));
                let largest = (0..L).fold(0.0f64, |s, i| s.max((forcing[i] * unit(i)).abs()));
                1e-13 * row * largest
            })
            .sum();
        if value.abs() <= rounding {
            *value = 0.0;
        }
    }
}

/// Sets entries that are rounding errors of the products to zero.
fn clean(b: Mat<f64>, multipliers: &[Mat<f64>], jet: &CoefficientJet) -> Mat<f64> {
    let size = multipliers.iter().map(|m| m.norm_max()).fold(0.0, f64::max)
        * jet.input.iter().map(|g| g.norm_max()).fold(0.0, f64::max);
    Mat::from_fn(b.nrows(), b.ncols(), |i, j| if b[(i, j)].abs() <= 1e-11 * size { 0.0 } else { b[(i, j)] })
}
