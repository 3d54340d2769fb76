//! How fast the fastest part of a system is: the spectral radius of the Jacobian of its rates.
//!
//! The states follow s' = f(t, s) = S(s, V(t, s)). Where a stiff part sits beside smooth ones and follows what drives
//! it, nothing that a step computes shows it: its states hardly move, and the ratio of differences |f(a) - f(b)| / |a -
//! b| along the solution is that of the smooth parts. A power iteration asks in the direction that grows most
//! [@sommeijer1998, sec. 3],
//!
//! ```text
//! w_k = (f(t, s + delta D d_k) - f(t, s)) / (delta D),  g_k = |w_k|,  d_(k+1) = w_k / g_k,  D = diag(sizes of s)
//! ```
//!
//! and sqrt(g_k g_(k+1)) tends to the spectral radius, exactly after two steps where J^2 is a multiple of the identity,
//! as it is for an oscillator in whatever units. The direction is kept from one look to the next, with a little of an
//! arbitrary one added, so that a part that becomes fast is seen. A look takes two evaluations; only where it finds a
//! rate that matters the iteration goes on until the radius settles.

use crate::model::{Model, Moment};
use crate::unknowns::Care;

/// Explicit steps after which the radius is looked at again.
const STEPS_BETWEEN_LOOKS: usize = 20;

/// Explicit steps after which it is where steps are as long as the border allows.
const STEPS_AT_BORDER: usize = 4;

/// States are moved by this part of their size.
const DISTANCE: f64 = 1e-7;

/// The part of an arbitrary direction that is added at each look.
const FRESH: f64 = 0.3;

/// Iterations until the radius has to settle.
const MAX_ITERATIONS: usize = 16;

/// Radii that differ by less, relative to their size, have settled.
const SETTLED: f64 = 0.1;

/// h times the largest rate where the border of stability is near, and where it must not be passed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Borders {
    pub(crate) near: f64,
    pub(crate) last: f64,
}

/// The spectral radius where it was last looked at.
pub(crate) struct Spectral {
    direction: Vec<f64>,
    sizes: Vec<f64>,
    states: Vec<f64>,
    unknowns: Vec<f64>,
    rates: Vec<f64>,
    seed: u64,
    radius: f64,
    /// Whether the radius is more than a first guess.
    has_settled: bool,
    /// Steps since the last look; none was taken yet where there is no number.
    n_steps: Option<usize>,
}

impl Spectral {
    pub(crate) fn new(n_states: usize, n_unknowns: usize) -> Self {
        Self {
            direction: vec![0.0; n_states],
            sizes: vec![1.0; n_states],
            states: vec![0.0; n_states],
            unknowns: vec![0.0; n_unknowns],
            rates: vec![0.0; n_states],
            seed: 0x2545_f491_4f6c_dd1d,
            radius: 0.0,
            has_settled: false,
            n_steps: None,
        }
    }

    /// The largest rate as last seen, in magnitude.
    pub(crate) const fn radius(&self) -> f64 {
        self.radius
    }

    /// Takes note of a step.
    pub(crate) fn count_step(&mut self) {
        self.n_steps = self.n_steps.map(|n| n + 1);
    }

    /// The next look comes earlier: of two rejected steps one has a look.
    pub(crate) fn hasten(&mut self) {
        self.n_steps = self.n_steps.map(|n| n + STEPS_BETWEEN_LOOKS / 2);
    }

    /// The next step begins with a look.
    pub(crate) fn forget(&mut self) {
        self.n_steps = None;
    }

    /// Whether it is time for a look before a step of the given length.
    pub(crate) fn is_due(&self, step: f64, borders: Borders) -> bool {
        let is_guessed = !self.has_settled && step * self.radius > borders.near;
        let wait = if step * self.radius > 0.5 * borders.last { STEPS_AT_BORDER } else { STEPS_BETWEEN_LOOKS };
        is_guessed || self.n_steps.is_none_or(|n| n >= wait)
    }

    /// The longest step up to the given one that does not go beyond the border.
    pub(crate) fn limit(&self, step: f64, borders: Borders) -> f64 {
        if step * self.radius > borders.last { borders.last / self.radius } else { step }
    }

    /// Looks at the radius at a point with the inputs at hand; it is made precise where steps of the given length come
    /// near the border.
    pub(crate) fn look(&mut self, model: &mut Model<'_, '_>, now: &Moment, step: f64, borders: Borders) {
        self.n_steps = Some(0);
        self.has_settled = false;
        self.set_sizes(model, now, step);
        self.refresh_direction();
        model.set_scales(step);
        let (Some(mut last), Some(mut growth)) = (self.iterate(model, now), self.iterate(model, now)) else {
            // Nothing is known where the rates have no values on either side.
            self.radius = 0.0;
            return;
        };
        self.radius = (last * growth).sqrt();
        for _ in 2..MAX_ITERATIONS {
            if step * self.radius <= borders.near {
                return;
            }
            let Some(next) = self.iterate(model, now) else { break };
            (last, growth) = (growth, next);
            let radius = (last * growth).sqrt();
            let is_close = (radius - self.radius).abs() <= SETTLED * radius;
            self.radius = radius;
            if is_close {
                break;
            }
        }
        self.has_settled = true;
    }

    /// By what states are measured: their values, what a step changes them by, and what errors of them are allowed
    /// anyway.
    fn set_sizes(&mut self, model: &Model<'_, '_>, now: &Moment, step: f64) {
        let description = model.equations.system.description();
        let floor = if model.rtol > 0.0 { model.atol / model.rtol } else { 1.0 };
        for (at, size) in self.sizes.iter_mut().enumerate() {
            let moved = (step * now.rates[at]).abs();
            *size = now.states[at].abs().max(moved) + floor * description.states[at].nominal;
        }
    }

    /// Adds a little of an arbitrary direction.
    fn refresh_direction(&mut self) {
        let part = if self.direction.iter().all(|value| *value == 0.0) { 1.0 } else { FRESH };
        let share = part / (self.direction.len().max(1) as f64).sqrt();
        for value in &mut self.direction {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *value += if self.seed >> 63 == 0 { share } else { -share };
        }
        normalize(&mut self.direction);
    }

    /// One iteration: the growth, and none where the rates have no values beside the point.
    fn iterate(&mut self, model: &mut Model<'_, '_>, now: &Moment) -> Option<f64> {
        for distance in [DISTANCE, -DISTANCE] {
            for (at, state) in self.states.iter_mut().enumerate() {
                *state = now.states[at] + distance * self.sizes[at] * self.direction[at];
            }
            self.unknowns.copy_from_slice(&now.unknowns);
            if model.solve_unknowns(now.time, &self.states, &mut self.unknowns, Care::Quick).is_err() {
                model.unknown_solver.forget_matrix();
                continue;
            }
            model.equations.rates(&self.states, &self.unknowns, &mut self.rates);
            for (at, rate) in self.rates.iter_mut().enumerate() {
                *rate = (*rate - now.rates[at]) / (distance * self.sizes[at]);
            }
            if !self.rates.iter().all(|rate| rate.is_finite()) {
                continue;
            }
            let growth = norm(&self.rates);
            if growth > 0.0 {
                self.direction.copy_from_slice(&self.rates);
                normalize(&mut self.direction);
            }
            return Some(growth);
        }
        None
    }
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
}

fn normalize(values: &mut [f64]) {
    let size = norm(values);
    if size > 0.0 && size.is_finite() {
        values.iter_mut().for_each(|value| *value /= size);
    }
}
