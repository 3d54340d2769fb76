//! The state-space form of a descriptor model with its derivatives with respect to parameters.
//!
//! At given parameters `P E Q = diag(I, N)`, `P F Q = diag(A, I)` [@gerdin2007, eq. (C.2)]. When `E` and `F` change by
//! `dE` and `dF`, transformations `P + U P` and `Q + Q V` keep the form to first order if, with `e = P dE Q`,
//! `f = P dF Q`,
//!
//! ```text
//! U diag(I, N) + e + diag(I, N) V = diag(0, dN)        U diag(A, I) + f + diag(A, I) V = diag(dA, 0)
//! ```
//!
//! The diagonal blocks of `V` may be chosen zero: `U_11 = -e_11`, `U_22 = -f_22`, `dA = f_11 - e_11 A`,
//! `dN = e_22 - f_22 N`. The others solve generalized Sylvester equations, which end after `index` terms since `N` is
//! nilpotent:
//!
//! ```text
//! V_12 = sum over k of A^k (f_12 N - e_12) N^k,   U_12 = -f_12 - A V_12
//! V_21 = sum over k of N^k (e_21 A - f_21) A^k,   U_21 = -e_21 - N V_21
//! ```
//!
//! The state is then `x' = A x + B u + L v` with `z = Q_s x - sum over k of Q_a N^k G_a u^(k)`; likelihoods do not
//! depend on the choice of its basis.

use daesy_pencil::{DescriptorSystem, FiniteInfiniteSplit, Pencil, PencilOptions, StandardForm, standard_form};
use faer::{Mat, MatRef};

use crate::descriptor::{Coefficients, SignalRows, StartRows};
use crate::error::{EstimateError, SignalRole, StructureChange};
use crate::kernel::{is_zero, product};

/// `signal = state x + sum over k of inputs[k] u^(k)`.
#[derive(Clone, Debug)]
pub struct SignalTerms {
    /// Coefficients of the state.
    pub state: Mat<f64>,
    /// Coefficients of the inputs and their derivatives.
    pub inputs: Vec<Mat<f64>>,
}

/// A model as `x' = A x + B u + L v`, with the maps to signals; also a derivative of one.
#[derive(Clone, Debug)]
pub struct StateSpace {
    /// `A`.
    pub dynamics: Mat<f64>,
    /// `B`.
    pub input: Mat<f64>,
    /// `L`.
    pub noise: Mat<f64>,
    /// `Q = L W L^T` with the intensities `W`.
    pub intensity: Mat<f64>,
    /// Measured signals.
    pub measured: SignalTerms,
    /// Signals to estimate.
    pub estimated: SignalTerms,
    /// All variables.
    pub variables: SignalTerms,
    /// Sizes of the variables by which the pencil was balanced: entries of a variable's row are right to rounding
    /// relative to its size.
    pub sizes: Vec<f64>,
}

/// What must not change during a search.
#[derive(Clone, PartialEq, Debug)]
pub struct Structure {
    /// Free start values.
    pub degrees_of_freedom: usize,
    /// Nilpotency index.
    pub index: usize,
    /// Sizes of the Jordan blocks at infinity.
    pub infinite_blocks: Vec<usize>,
    /// Sign of the leading coefficient of `det(s E - F)`: it is continuous in the parameters and zero where degrees of
    /// freedom are lost.
    pub orientation: f64,
}

impl Structure {
    /// Fails when the other structure differs from this one.
    ///
    /// # Errors
    /// The difference.
    pub fn require(&self, other: &Self) -> Result<(), EstimateError> {
        let change = if self.degrees_of_freedom != other.degrees_of_freedom {
            StructureChange::DegreesOfFreedom { was: self.degrees_of_freedom, is: other.degrees_of_freedom }
        } else if self.index != other.index {
            StructureChange::Index { was: self.index, is: other.index }
        } else if self.infinite_blocks != other.infinite_blocks {
            StructureChange::InfiniteBlocks { was: self.infinite_blocks.clone(), is: other.infinite_blocks.clone() }
        } else if self.orientation * other.orientation < 0.0 {
            StructureChange::Crossed
        } else {
            return Ok(());
        };
        Err(EstimateError::StructureDiffers(change))
    }
}

/// A state-space form with its structure and derivatives.
#[derive(Clone, Debug)]
pub struct StateSpaceJet {
    /// The form.
    pub value: StateSpace,
    /// Its derivatives, one for each derivative of the coefficients.
    pub derivatives: Vec<StateSpace>,
    /// Its structure.
    pub structure: Structure,
}

/// Brings a model to state-space form.
///
/// # Errors
/// When the pencil is singular, or white noise reaches a signal.
pub fn state_space(value: &Coefficients, derivatives: &[Coefficients]) -> Result<StateSpaceJet, EstimateError> {
    if let Some(noise) = value.intensities.iter().position(|intensity| *intensity < 0.0) {
        return Err(EstimateError::NegativeIntensity { noise, value: value.intensities[noise] });
    }
    let system = DescriptorSystem::new(Pencil::new(value.e.clone(), value.f.clone())?)
        .with_input(value.g.clone())?
        .with_disturbance(value.j.clone())?
        .with_measured(value.measured.variables.clone())?
        .with_estimated(value.estimated.variables.clone())?;
    let form = standard_form(&system, &PencilOptions::default())?;
    for (role, map) in [(SignalRole::Measured, &form.measured), (SignalRole::Estimated, &form.estimated)] {
        for term in &map.disturbance_terms {
            for noise in 0..term.ncols() {
                if let Some(signal) = (0..term.nrows()).find(|&signal| term[(signal, noise)] != 0.0) {
                    return Err(EstimateError::InfiniteVariance { role, signal, noise });
                }
            }
        }
    }
    for term in &form.variables.disturbance_terms {
        refuse_white_start(&value.insisted, term)?;
    }
    let structure = Structure {
        degrees_of_freedom: form.split.n_finite,
        index: form.split.index,
        infinite_blocks: form.split.infinite_block_sizes.clone(),
        orientation: orientation(&form.split.left, &form.split.right, form.split.n_infinite),
    };
    let n_inputs = value.g.ncols();
    let with_direct = |state: Mat<f64>, terms: &[Mat<f64>], rows: &SignalRows| {
        let mut inputs = terms.to_vec();
        if inputs.is_empty() {
            inputs.push(Mat::zeros(state.nrows(), n_inputs));
        }
        inputs[0] += &rows.inputs;
        SignalTerms { state, inputs }
    };
    let no_direct = SignalRows { variables: Mat::zeros(0, 0), inputs: Mat::zeros(value.e.ncols(), n_inputs) };
    let state_space = StateSpace {
        dynamics: form.dynamics.clone(),
        input: form.input.clone(),
        noise: form.noise.clone(),
        intensity: &form.noise * weighted(&form.noise, &value.intensities).transpose(),
        measured: with_direct(form.measured.state.clone(), &form.measured.input_terms, &value.measured),
        estimated: with_direct(form.estimated.state.clone(), &form.estimated.input_terms, &value.estimated),
        variables: with_direct(form.variables.state.clone(), &form.variables.input_terms, &no_direct),
        sizes: form.split.balancing.variable_sizes(),
    };
    let derivatives = if derivatives.is_empty() {
        Vec::new()
    } else {
        let factors = Factors::new(&form, value);
        derivatives.iter().map(|direction| factors.derivative(value, direction, &state_space)).collect()
    };
    Ok(StateSpaceJet { value: state_space, derivatives, structure })
}

/// Fails when a condition on the start that is insisted on has white noise in it, which `term` is in the variables.
fn refuse_white_start(insisted: &StartRows, term: &Mat<f64>) -> Result<(), EstimateError> {
    let rows = &insisted.variables;
    for (condition, noise) in (0..rows.nrows()).flat_map(|row| (0..term.ncols()).map(move |noise| (row, noise))) {
        let parts = || (0..rows.ncols()).map(|at| rows[(condition, at)] * term[(at, noise)]);
        // What cancels is rounding.
        if parts().sum::<f64>().abs() > 1e-9 * parts().map(f64::abs).sum::<f64>() {
            return Err(EstimateError::WhiteStart { condition, noise });
        }
    }
    Ok(())
}

/// Columns times weights.
fn weighted(a: &Mat<f64>, weights: &[f64]) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] * weights[j])
}

/// Sign of `(-1)^n_infinite / (det P det Q)`.
fn orientation(left: &Mat<f64>, right: &Mat<f64>, n_infinite: usize) -> f64 {
    let sign = |a: MatRef<'_, f64>| {
        if a.nrows() == 0 {
            return 1.0;
        }
        let is_diagonal =
            a.col_iter().enumerate().all(|(j, column)| column.iter().enumerate().all(|(i, x)| i == j || *x == 0.0));
        if is_diagonal {
            let sign = |i: usize| if a[(i, i)] == 0.0 { 0.0 } else { a[(i, i)].signum() };
            return (0..a.nrows()).map(sign).product();
        }
        // Rows of unit length keep the determinant within the range of doubles.
        let lengths: Vec<f64> = (0..a.nrows()).map(|i| a.row(i).norm_l2().max(f64::MIN_POSITIVE)).collect();
        let scaled = Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] / lengths[i]);
        let determinant = scaled.determinant();
        if determinant == 0.0 { 0.0 } else { determinant.signum() }
    };
    let parity = if n_infinite.is_multiple_of(2) { 1.0 } else { -1.0 };
    parity * sign(left.as_ref()) * sign(right.transpose())
}

/// The transformations of a split and how they move with the pencil.
pub(crate) struct Couplings {
    index: usize,
    pub p_s: Mat<f64>,
    pub p_a: Mat<f64>,
    pub q_s: Mat<f64>,
    pub q_a: Mat<f64>,
    a: Mat<f64>,
    nilpotent: Mat<f64>,
}

/// The blocks of `e` and `f` that are needed, and the solution of the Sylvester equations.
pub(crate) struct CouplingDirections {
    e11: Mat<f64>,
    f22: Mat<f64>,
    d_dynamics: Mat<f64>,
    d_nilpotent: Mat<f64>,
    u12: Mat<f64>,
    u21: Mat<f64>,
    pub v12: Mat<f64>,
    pub v21: Mat<f64>,
}

impl Couplings {
    pub fn new(split: &FiniteInfiniteSplit) -> Self {
        let (n, nf) = (split.left.nrows(), split.n_finite);
        Self {
            index: split.index,
            p_s: split.left.as_ref().submatrix(0, 0, nf, n).to_owned(),
            p_a: split.left.as_ref().submatrix(nf, 0, n - nf, n).to_owned(),
            q_s: split.finite_basis(),
            q_a: split.infinite_basis(),
            a: split.dynamics.clone(),
            nilpotent: split.nilpotent.clone(),
        }
    }

    /// How the transformations move when `E` and `F` do.
    pub fn directions(&self, d_e: &Mat<f64>, d_f: &Mat<f64>) -> CouplingDirections {
        if is_zero(d_e) && is_zero(d_f) {
            let (n_s, n_a) = (self.a.nrows(), self.nilpotent.nrows());
            let square = |n: usize| Mat::zeros(n, n);
            let (right, left) = (Mat::zeros(n_s, n_a), Mat::zeros(n_a, n_s));
            return CouplingDirections {
                e11: square(n_s),
                f22: square(n_a),
                d_dynamics: square(n_s),
                d_nilpotent: square(n_a),
                u12: right.clone(),
                u21: left.clone(),
                v12: right,
                v21: left,
            };
        }
        let block = |p: &Mat<f64>, d: &Mat<f64>, q: &Mat<f64>| product(&product(p, d), q);
        let (e11, e12) = (block(&self.p_s, d_e, &self.q_s), block(&self.p_s, d_e, &self.q_a));
        let (e21, e22) = (block(&self.p_a, d_e, &self.q_s), block(&self.p_a, d_e, &self.q_a));
        let (f11, f12) = (block(&self.p_s, d_f, &self.q_s), block(&self.p_s, d_f, &self.q_a));
        let (f21, f22) = (block(&self.p_a, d_f, &self.q_s), block(&self.p_a, d_f, &self.q_a));
        let (a, nil) = (&self.a, &self.nilpotent);
        let v12 = self.geometric(a, product(&f12, nil) - &e12, nil);
        let v21 = self.geometric(nil, product(&e21, a) - &f21, a);
        CouplingDirections {
            d_dynamics: &f11 - product(&e11, a),
            d_nilpotent: &e22 - product(&f22, nil),
            u12: -&f12 - product(a, &v12),
            u21: -&e21 - product(nil, &v21),
            e11,
            f22,
            v12,
            v21,
        }
    }

    /// `sum over k < index of left^k start right^k`.
    fn geometric(&self, left: &Mat<f64>, start: Mat<f64>, right: &Mat<f64>) -> Mat<f64> {
        let mut sum = start.clone();
        let mut term = start;
        for _ in 1..self.index {
            term = product(&product(left, &term), right);
            sum += &term;
        }
        sum
    }
}

/// The transformations and what they make of the inputs.
struct Factors {
    n_finite: usize,
    couplings: Couplings,
    /// `N^k G_a`.
    reached: Vec<Mat<f64>>,
}

impl Factors {
    fn new(form: &StandardForm, value: &Coefficients) -> Self {
        let couplings = Couplings::new(&form.split);
        let mut reached = vec![&couplings.p_a * &value.g];
        for k in 1..couplings.index {
            let next = &couplings.nilpotent * &reached[k - 1];
            reached.push(next);
        }
        Self { n_finite: form.split.n_finite, couplings, reached }
    }

    fn derivative(&self, value: &Coefficients, direction: &Coefficients, form: &StateSpace) -> StateSpace {
        let Couplings { index, p_s, p_a, q_s, q_a, nilpotent, .. } = &self.couplings;
        let CouplingDirections { e11, f22, d_dynamics, d_nilpotent, u12, u21, v12, v21 } =
            self.couplings.directions(&direction.e, &direction.f);
        let d_qs = product(q_a, &v21);
        let d_qa = product(q_s, &v12);
        // d(P_s b) and d(P_a b) for b = G and J.
        let finite = |b: &Mat<f64>, db: &Mat<f64>| {
            let (bs, ba) = (p_s * b, p_a * b);
            p_s * db - &e11 * &bs + &u12 * &ba
        };
        let input = finite(&value.g, &direction.g);
        let noise = finite(&value.j, &direction.j);
        let gs = p_s * &value.g;
        let mut d_reached = vec![p_a * &direction.g + &u21 * &gs - &f22 * &self.reached[0]];
        for k in 1..*index {
            let next = &d_nilpotent * &self.reached[k - 1] + nilpotent * &d_reached[k - 1];
            d_reached.push(next);
        }
        // Variables: z = Q_s x - sum Q_a N^k G_a u^(k).
        let n_terms = form.variables.inputs.len();
        let d_inputs: Vec<Mat<f64>> = (0..n_terms)
            .map(|k| {
                if k < *index {
                    -(&d_qa * &self.reached[k] + q_a * &d_reached[k])
                } else {
                    Mat::zeros(value.e.ncols(), value.g.ncols())
                }
            })
            .collect();
        let signal = |rows: &SignalRows, d_rows: &SignalRows| {
            let h = &rows.variables;
            let mut inputs: Vec<Mat<f64>> =
                (0..n_terms).map(|k| h * &d_inputs[k] + &d_rows.variables * &form.variables.inputs[k]).collect();
            inputs[0] += &d_rows.inputs;
            SignalTerms { state: h * &d_qs + &d_rows.variables * q_s, inputs }
        };
        let half = &noise * weighted(&form.noise, &value.intensities).transpose();
        let own = &form.noise * weighted(&form.noise, &direction.intensities).transpose();
        StateSpace {
            dynamics: d_dynamics,
            input,
            intensity: Mat::from_fn(self.n_finite, self.n_finite, |i, j| half[(i, j)] + half[(j, i)] + own[(i, j)]),
            noise,
            measured: signal(&value.measured, &direction.measured),
            estimated: signal(&value.estimated, &direction.estimated),
            variables: SignalTerms { state: d_qs.clone(), inputs: d_inputs.clone() },
            sizes: form.sizes.clone(),
        }
    }
}
