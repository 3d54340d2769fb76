//! Implicit steps for stiff systems: collocation at the Radau points, of order 5, 9 or 13.
//!
//! With V_i the unknowns and S_i the states at the stages t + c_i h, a step solves
//!
//! ```text
//! F(t + c_i h, S_i, V_i) = 0,     S_i = s + h sum_j a_ij S'(S_j, V_j),     i = 1 .. stages
//! ```
//!
//! for V by simplified Newton iterations. As rates are states or unknowns, S follows from V without solving anything,
//! chain by chain, and the eigenvectors of A part the iteration into systems with the matrices dF/dv + sum of (h
//! alpha)^m dF/ds, alpha an eigenvalue of A (module `collocation`); they have the size of v and the pattern of the
//! model. The last stage is the step.
//!
//! The error is estimated by the difference to an embedded method of order s, through the filter (1 - h alpha_0 J)^-1
//! that keeps it small for stiff components. That order is lower than the method's, so that the tolerance of steps is
//! 0.1 tol^((s+1)/(2 s)) for the error asked for [@hairer1996, sec. IV.8; @hairer1999].

use daesy_system::Rate;
use faer::c64;

use crate::collocation::{Collocation, radau};
use crate::equations::{StageMatrix, StagePattern, Surroundings};
use crate::error::IntegrateError;
use crate::gauge::Gauge;
use crate::linear::SingularMatrix;
use crate::model::{Model, Moment, Trial};
use crate::stepper::Place;

/// The matrix is kept while the iteration contracts faster than this.
const KEEP_MATRIX: f64 = 1e-3;

/// Step sizes may grow by this factor without a new factorization.
const KEEP_STEP: f64 = 1.2;

/// What became of an attempt.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Attempt {
    /// The equations of the step were solved.
    Solved(Trial),
    /// They were not; a step smaller by this factor may do.
    Failed {
        /// The factor.
        reduction: f64,
    },
}

/// Memory of the method.
pub(crate) struct Radau {
    pub(crate) method: &'static Collocation,
    pattern: StagePattern,
    real: StageMatrix<f64>,
    complex: Vec<StageMatrix<c64>>,
    /// The step size the matrices were made for.
    factored_step: Option<f64>,
    /// Whether dF/dv and dF/ds are those of the point where the step begins.
    has_new_jacobian: bool,
    has_jacobian: bool,
    /// Values of the stages, stage by stage.
    pub(crate) stage_states: Vec<Vec<f64>>,
    pub(crate) stage_unknowns: Vec<Vec<f64>>,
    stage_inputs: Vec<Vec<f64>>,
    residuals: Vec<Vec<f64>>,
    real_rhs: Vec<f64>,
    complex_rhs: Vec<Vec<c64>>,
    /// The last step: where it began, its size, and its method.
    old_unknowns: Vec<f64>,
    old_stage_unknowns: Vec<Vec<f64>>,
    last: Option<LastStep>,
    gauge: Gauge,
    weights: Vec<f64>,
    raw_error: Vec<f64>,
    error: Vec<f64>,
    /// Contraction of the last iteration, as a forecast of the next one's.
    contraction: f64,
    pub(crate) theta: f64,
    pub(crate) n_iterations: usize,
}

#[derive(Clone, Copy)]
struct LastStep {
    step: f64,
    method: &'static Collocation,
}

impl Radau {
    pub(crate) fn new(model: &Model<'_, '_>, n_stages: usize) -> Result<Self, IntegrateError> {
        let description = model.equations.system.description();
        let (n_states, n_unknowns) = (description.states.len(), description.unknowns.len());
        let pattern = StagePattern::new(&model.equations);
        let mut radau = Self {
            method: radau(n_stages),
            real: StageMatrix::new(&model.equations, &pattern)?,
            complex: Vec::new(),
            pattern,
            factored_step: None,
            has_new_jacobian: false,
            has_jacobian: false,
            stage_states: Vec::new(),
            stage_unknowns: Vec::new(),
            stage_inputs: Vec::new(),
            residuals: Vec::new(),
            real_rhs: vec![0.0; n_unknowns],
            complex_rhs: Vec::new(),
            old_unknowns: vec![0.0; n_unknowns],
            old_stage_unknowns: Vec::new(),
            last: None,
            gauge: Gauge::new(n_states, n_unknowns, model.input_values.len()),
            weights: Vec::new(),
            raw_error: vec![0.0; n_states],
            error: vec![0.0; n_states],
            contraction: 1.0,
            theta: 1.0,
            n_iterations: 0,
        };
        radau.set_stages(model, n_stages)?;
        Ok(radau)
    }

    /// Changes the number of stages.
    pub(crate) fn set_stages(&mut self, model: &Model<'_, '_>, n_stages: usize) -> Result<(), IntegrateError> {
        let (n_states, n_unknowns) = (self.error.len(), self.real_rhs.len());
        self.method = radau(n_stages);
        let s = self.method.n_stages;
        self.stage_states.resize(s, vec![0.0; n_states]);
        self.stage_unknowns.resize(s, vec![0.0; n_unknowns]);
        self.stage_inputs.resize(s, vec![0.0; model.input_values.len()]);
        self.residuals.resize(s, vec![0.0; n_unknowns]);
        self.complex_rhs.resize(s / 2, vec![c64::new(0.0, 0.0); n_unknowns]);
        while self.complex.len() < s / 2 {
            self.complex.push(StageMatrix::new(&model.equations, &self.pattern)?);
        }
        self.factored_step = None;
        self.contraction = 1.0;
        Ok(())
    }

    /// The number of stages to begin with: more for more digits.
    pub(crate) fn first_stages(rtol: f64) -> usize {
        if rtol > 2e-5 {
            3
        } else if rtol > 1e-12 {
            5
        } else {
            7
        }
    }

    /// Forgets everything about earlier steps.
    pub(crate) fn restart(&mut self) {
        self.factored_step = None;
        self.has_jacobian = false;
        self.last = None;
        self.contraction = 1.0;
    }

    /// The tolerance of steps for a tolerance asked for.
    pub(crate) fn tolerance(&self, asked: f64) -> f64 {
        let s = self.method.n_stages as f64;
        0.1 * asked.powf((s + 1.0) / (2.0 * s))
    }

    /// Whether a step of another size than the last would need no new matrices.
    pub(crate) fn may_keep_step(&self, factor: f64) -> bool {
        (1.0..=KEEP_STEP).contains(&factor) && self.theta <= KEEP_MATRIX.max(1e-2)
    }

    /// Guesses the unknowns of the stages by the polynomial through those of the last step.
    fn guess(&mut self, old: &Moment, step: f64) {
        let Some(last) = self.last else {
            for unknowns in &mut self.stage_unknowns {
                unknowns.copy_from_slice(&old.unknowns);
            }
            return;
        };
        let mut weights = std::mem::take(&mut self.weights);
        for (&c, unknowns) in self.method.c.iter().zip(&mut self.stage_unknowns) {
            last.method.interpolation(1.0 + c * step / last.step, &mut weights);
            for (at, unknown) in unknowns.iter_mut().enumerate() {
                let mut value = weights[0] * self.old_unknowns[at];
                for (weight, stage) in weights[1..].iter().zip(&self.old_stage_unknowns) {
                    value += weight * stage[at];
                }
                *unknown = value;
            }
        }
        self.weights = weights;
    }

    /// S_i = s + h sum_j a_ij S'_j
    fn set_states(&mut self, model: &Model<'_, '_>, old: &Moment, step: f64) {
        let s = self.method.n_stages;
        let mut rates = [0.0; 7];
        for (state, source) in model.equations.chain() {
            match source {
                Rate::State(next) => (0..s).for_each(|j| rates[j] = self.stage_states[j][next as usize]),
                Rate::Unknown(unknown) => (0..s).for_each(|j| rates[j] = self.stage_unknowns[j][unknown as usize]),
            }
            for i in 0..s {
                let row = &self.method.a[i];
                let sum: f64 = row.iter().zip(&rates).map(|(a, rate)| a * rate).sum();
                self.stage_states[i][state] = old.states[state] + step * sum;
            }
        }
    }

    /// Makes what is missing of Jacobians and factors.
    fn factor(&mut self, model: &mut Model<'_, '_>, old: &Moment, step: f64) -> Result<(), IntegrateError> {
        if !self.has_jacobian {
            model.differentiate(old)?;
            self.has_jacobian = true;
            self.has_new_jacobian = true;
            self.factored_step = None;
        }
        if self.factored_step != Some(step) {
            let equations = &mut model.equations;
            let result = self.real.factor(equations, &self.pattern, step * self.method.eigenvalue).and_then(|()| {
                self.method.pairs.iter().zip(&mut self.complex).try_for_each(|(pair, matrix)| {
                    let eta = c64::new(step * pair.eigenvalue.re, step * pair.eigenvalue.im);
                    matrix.factor(equations, &self.pattern, eta)
                })
            });
            result.map_err(|singular| model.equations.singular(old.time, singular))?;
            self.factored_step = Some(step);
        }
        Ok(())
    }

    /// One simplified Newton iteration; the size of the change, or None if a residual is not finite.
    fn iterate(
        &mut self,
        model: &mut Model<'_, '_>,
        old: &Moment,
        step: f64,
        new_time: f64,
    ) -> Result<Option<f64>, IntegrateError> {
        let method = self.method;
        let s = method.n_stages;
        self.set_states(model, old, step);
        for i in 0..s {
            let around = Surroundings {
                time: if i + 1 == s { new_time } else { old.time + method.c[i] * step },
                parameters: &model.parameters,
                inputs: &self.stage_inputs[i],
                modes: &model.modes,
            };
            let point = around.point(&self.stage_states[i], &self.stage_unknowns[i]);
            if !model.equations.residual(&point, &mut self.residuals[i]) {
                return Ok(None);
            }
        }
        let n = self.real_rhs.len();
        self.real_rhs.fill(0.0);
        for (residuals, left) in self.residuals.iter().zip(&method.left) {
            for (rhs, residual) in self.real_rhs.iter_mut().zip(residuals) {
                *rhs += left * residual;
            }
        }
        for (pair, rhs) in method.pairs.iter().zip(&mut self.complex_rhs) {
            rhs.fill(c64::new(0.0, 0.0));
            for (residuals, left) in self.residuals.iter().zip(&pair.left) {
                for (rhs, residual) in rhs.iter_mut().zip(residuals) {
                    rhs.re += left.re * residual;
                    rhs.im += left.im * residual;
                }
            }
        }
        let equations = &mut model.equations;
        let solved = self.real.solve(equations, &mut self.real_rhs).and_then(|()| {
            let systems = self.complex.iter_mut().zip(&mut self.complex_rhs);
            systems.into_iter().try_for_each(|(matrix, rhs)| matrix.solve(equations, rhs))
        });
        solved.map_err(|singular| model.equations.singular(old.time, singular))?;
        let mut sum_of_squares = 0.0;
        let mut largest = 0.0f64;
        for (i, unknowns) in self.stage_unknowns.iter_mut().enumerate() {
            let change = &mut self.residuals[i];
            for (change, real) in change.iter_mut().zip(&self.real_rhs) {
                *change = method.vector[i] * real;
            }
            for (pair, rhs) in method.pairs.iter().zip(&self.complex_rhs) {
                let (re, im) = (2.0 * pair.vector[i].re, 2.0 * pair.vector[i].im);
                for (change, rhs) in change.iter_mut().zip(rhs) {
                    *change += re * rhs.re - im * rhs.im;
                }
            }
            for ((unknown, change), scale) in unknowns.iter_mut().zip(&*change).zip(&model.scales) {
                *unknown -= change;
                let scaled = (change * scale).abs();
                largest = largest.max(scaled);
                sum_of_squares += scaled * scaled;
            }
        }
        let mean = (sum_of_squares / (s * n).max(1) as f64).sqrt();
        Ok(Some(mean.max(0.3 * largest)))
    }

    /// Tries a step. The new states and unknowns are those of the last stage.
    pub(crate) fn try_step(
        &mut self,
        model: &mut Model<'_, '_>,
        old: &Moment,
        step: f64,
        new_time: f64,
        is_at_break: bool,
    ) -> Result<Attempt, IntegrateError> {
        let s = self.method.n_stages;
        self.has_new_jacobian = false;
        self.factor(model, old, step)?;
        for i in 0..s {
            let is_end = i + 1 == s;
            let time = if is_end { new_time } else { old.time + self.method.c[i] * step };
            model.inputs().fill(time, !(is_at_break && is_end), &mut self.stage_inputs[i]);
        }
        self.guess(old, step);
        // What an unknown does to a state in the course of the step.
        model.set_scales(step);
        let goal = (10.0 * f64::EPSILON / model.rtol).max(0.03f64.min(model.rtol.sqrt()));
        let max_iterations = 7 + (5 * (s - 3)) / 2;
        let mut contraction = self.contraction.max(f64::EPSILON).powf(0.8);
        let (mut last_size, mut theta) = (0.0, 2.0 * KEEP_MATRIX);
        let mut iteration = 0;
        loop {
            let Some(size) = self.iterate(model, old, step, new_time)? else {
                return Ok(self.fail(0.3));
            };
            iteration += 1;
            if !size.is_finite() {
                return Ok(self.fail(0.3));
            }
            if iteration > 1 {
                let ratio = size / last_size;
                theta = if iteration == 2 { ratio } else { (ratio * theta).sqrt() };
                if theta >= 0.99 {
                    return Ok(self.fail(0.5));
                }
                contraction = theta / (1.0 - theta);
                let left = max_iterations - iteration.min(max_iterations);
                let forecast = contraction * size * theta.powi(left as i32);
                if forecast > goal && iteration >= 3 {
                    // As large as it may be so that the iteration ends in time.
                    let excess = (forecast / goal).clamp(1e-4, 20.0);
                    let reduction = 0.8 * excess.powf(-1.0 / (4.0 + left as f64));
                    return Ok(self.fail(reduction.min(0.8)));
                }
            }
            if contraction * size <= goal || size == 0.0 {
                break;
            }
            if iteration >= max_iterations {
                return Ok(self.fail(0.5));
            }
            last_size = size;
        }
        self.contraction = contraction;
        self.theta = theta;
        self.n_iterations = iteration;
        self.set_states(model, old, step);
        let trial = self.estimate(model, old, step)?;
        if !trial.error.is_finite() {
            return Ok(self.fail(0.3));
        }
        Ok(Attempt::Solved(trial))
    }

    /// A failed iteration: with an old Jacobian the same step may do with a new one.
    fn fail(&mut self, reduction: f64) -> Attempt {
        self.factored_step = None;
        self.contraction = 1.0;
        let reduction = if self.has_new_jacobian { reduction } else { 1.0 };
        self.has_jacobian = false;
        Attempt::Failed { reduction }
    }

    /// (1 - h alpha_0 J)^-1 (alpha_0 h s'(t) + h sum of d_i S'_i)
    fn estimate(&mut self, model: &mut Model<'_, '_>, old: &Moment, step: f64) -> Result<Trial, IntegrateError> {
        let method = self.method;
        for (state, source) in model.equations.chain() {
            let mut sum = method.eigenvalue * old.rates[state];
            for (weight, stage) in method.error.iter().zip(0..) {
                let stage: usize = stage;
                sum += weight
                    * match source {
                        Rate::State(next) => self.stage_states[stage][next as usize],
                        Rate::Unknown(unknown) => self.stage_unknowns[stage][unknown as usize],
                    };
            }
            self.raw_error[state] = step * sum;
        }
        self.filter(model, old.time, step)?;
        Ok(model.size_of_error(self.error.iter().copied(), &self.stage_states[method.n_stages - 1], &self.real_rhs))
    }

    /// error = (1 - h alpha_0 J)^-1 raw_error
    fn filter(&mut self, model: &mut Model<'_, '_>, time: f64, step: f64) -> Result<(), IntegrateError> {
        self.real_rhs.fill(0.0);
        let (eta, equations) = (step * self.method.eigenvalue, &mut model.equations);
        equations
            .solve_stage(&mut self.real, &self.raw_error, eta, &mut self.error, &mut self.real_rhs)
            .map_err(|singular| equations.singular(time, singular))
    }

    /// Sends an error of something that was carried along the last step through the filter of the step's own.
    pub(crate) fn filter_other(
        &mut self,
        model: &mut Model<'_, '_>,
        time: f64,
        step: f64,
        error: &mut [f64],
    ) -> Result<(), IntegrateError> {
        self.raw_error.copy_from_slice(error);
        self.filter(model, time, step)?;
        error.copy_from_slice(&self.error);
        Ok(())
    }

    /// How far the polynomial through the stages is from the solution where it is worst (module `gauge`).
    pub(crate) fn gap(&mut self, model: &mut Model<'_, '_>, old: &Moment, step: f64) -> Result<f64, IntegrateError> {
        let (method, gauge) = (self.method, &mut self.gauge);
        let probe = &method.probe;
        let mix = |weights: &[f64], old: f64, stages: &[Vec<f64>], at: usize| {
            weights[1..].iter().zip(stages).fold(weights[0] * old, |sum, (weight, stage)| sum + weight * stage[at])
        };
        for at in 0..gauge.states.len() {
            gauge.states[at] = mix(&probe.values, old.states[at], &self.stage_states, at);
            gauge.slopes[at] = mix(&probe.rates, old.states[at], &self.stage_states, at);
        }
        for at in 0..gauge.unknowns.len() {
            gauge.unknowns[at] = mix(&probe.values, old.unknowns[at], &self.stage_unknowns, at);
        }
        gauge.distance(model, &mut self.real, old, step, method.eigenvalue, probe.at)
    }

    /// Takes note that the step was accepted.
    pub(crate) fn accept(&mut self, old: &Moment, step: f64) {
        self.old_unknowns.copy_from_slice(&old.unknowns);
        std::mem::swap(&mut self.old_stage_unknowns, &mut self.stage_unknowns);
        if self.stage_unknowns.len() != self.method.n_stages {
            self.stage_unknowns.resize(self.method.n_stages, vec![0.0; self.real_rhs.len()]);
        }
        self.last = Some(LastStep { step, method: self.method });
        if self.theta > KEEP_MATRIX {
            self.has_jacobian = false;
        }
        self.has_new_jacobian = false;
    }

    /// After a rejected step the Jacobian is that of the point where the next one begins.
    pub(crate) fn reject(&mut self) {
        self.contraction = 1.0;
    }

    /// The stages of the last step.
    pub(crate) fn points(&self, old: &Moment) -> Vec<Place> {
        let Some(last) = self.last else { return Vec::new() };
        let stages = self.stage_states.iter().zip(&self.old_stage_unknowns).zip(&self.stage_inputs);
        stages
            .zip(&last.method.c)
            .map(|(((states, unknowns), inputs), c)| Place {
                time: old.time + c * last.step,
                states: states.clone(),
                unknowns: unknowns.clone(),
                inputs: inputs.clone(),
            })
            .collect()
    }

    /// Solves the real and the complex systems with the matrices of the last step.
    pub(crate) fn solve_stages(
        &mut self,
        model: &mut Model<'_, '_>,
        real: &mut [f64],
        complex: &mut [Vec<c64>],
    ) -> Result<(), SingularMatrix> {
        let equations = &mut model.equations;
        self.real.solve(equations, real)?;
        let systems = self.complex.iter_mut().zip(complex);
        systems.into_iter().try_for_each(|(matrix, rhs)| matrix.solve(equations, rhs))
    }

    /// The states at a fraction `x` of the last step, by the collocation polynomial.
    pub(crate) fn between(&mut self, old: &Moment, x: f64, states: &mut [f64]) {
        let Some(last) = self.last else { return };
        let mut weights = std::mem::take(&mut self.weights);
        last.method.interpolation(x, &mut weights);
        for (at, state) in states.iter_mut().enumerate() {
            let mut value = weights[0] * old.states[at];
            for (weight, stage) in weights[1..].iter().zip(&self.stage_states) {
                value += weight * stage[at];
            }
            *state = value;
        }
        self.weights = weights;
    }
}
