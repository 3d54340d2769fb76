//! Explicit steps of order 8 for systems that are not stiff.
//!
//! The states follow s' = S(s, V(t, s)) with the unknowns V solved from F(t, s, V) = 0 at every stage, which for
//! mechanics is one linear system. The method is that of Dormand and Prince (module `dop853`), its error estimate the
//! combination of two embedded ones [@hairer1993, sec. II.10]:
//!
//! ```text
//! error = h |e5|^2 / sqrt(|e5|^2 + 0.01 |e3|^2)
//! ```
//!
//! A step comes near the border of the region of stability where h times the largest rate is large: the estimate
//! |k13 - k12| / |y13 - y12| [@hairer1996, sec. IV.2], which costs nothing but sees only what moves, and the spectral radius (module
//! `spectral`), which sees all. Steps beyond the border are not tried: what grows there is seen by the estimate of the
//! error only once it has reached the tolerance, and between the ends of steps it is larger than at the ends.

use std::sync::LazyLock;

use daesy_system::{ExplicitMethod, ExplicitStart, ExplicitSteps, Offer};

use crate::dop853::{A, C, CONTINUOUS, ERROR_3, ERROR_5, EXTENDED, STAGES};
use crate::error::IntegrateError;
use crate::model::{Model, Moment, Trial};
use crate::spectral::Borders;
use crate::stepper::Place;
use crate::unknowns::Care;

/// Order of the error estimate plus one.
pub(crate) const ERROR_ORDER: f64 = 8.0;

/// h times the largest rate from which on the implicit method is worth a trial; the border of stability is at about 6.
pub(crate) const NEAR_BORDER: f64 = 1.0;

/// h times the largest rate that no step goes beyond: a little within the border of stability.
const LARGEST_RATE: f64 = 4.0;

/// 8!: a smooth solution of rate r has steps of about (8! tol)^(1/8) / r by accuracy alone, which loose tolerances
/// bring near the border.
const FACTORIAL_OF_ORDER: f64 = 40_320.0;

/// The method as systems see it that make programs of its steps.
const METHOD: ExplicitMethod<'static> =
    ExplicitMethod { nodes: C.split_at(STAGES).0, rows: A.split_at(STAGES + 1).0, estimates: &[&ERROR_5, &ERROR_3] };

/// A coefficient other than zero.
#[derive(Clone, Copy)]
struct Term {
    stage: usize,
    coefficient: f64,
}

fn terms(row: &[f64]) -> Vec<Term> {
    let all = row.iter().enumerate().map(|(stage, &coefficient)| Term { stage, coefficient });
    all.filter(|term| term.coefficient != 0.0).collect()
}

/// The coefficients other than zero.
struct Terms {
    rows: Vec<Vec<Term>>,
    error_3: Vec<Term>,
    error_5: Vec<Term>,
    continuous: Vec<Vec<Term>>,
}

static TERMS: LazyLock<Terms> = LazyLock::new(|| Terms {
    rows: A.iter().map(|row| terms(row)).collect(),
    error_3: terms(&ERROR_3),
    error_5: terms(&ERROR_5),
    continuous: CONTINUOUS.iter().map(|row| terms(row)).collect(),
});

/// Where a step of a tolerance is near the border of stability, and where it goes beyond.
pub(crate) fn borders(rtol: f64) -> Borders {
    let by_accuracy = (FACTORIAL_OF_ORDER * rtol).powf(1.0 / ERROR_ORDER);
    Borders { near: NEAR_BORDER.max(by_accuracy), last: LARGEST_RATE.max(2.0 * by_accuracy) }
}

/// |k13 - k12| / |y13 - y12|
pub(crate) fn largest_rate(states: &[f64], last_states: &[f64], rates: &[f64], last_rates: &[f64]) -> f64 {
    let distance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let moved = distance(states, last_states);
    if moved > 0.0 { (distance(rates, last_rates) / moved).sqrt() } else { 0.0 }
}

/// The combination of the two embedded estimates.
pub(crate) fn combined_error(fifth: f64, third: f64) -> f64 {
    let denominator = (fifth * fifth + 0.01 * third * third).sqrt();
    if denominator > 0.0 { fifth * fifth / denominator } else { 0.0 }
}

/// Memory of the method.
pub(crate) struct DormandPrince<'s> {
    n_states: usize,
    /// Rates of the stages, one after the other.
    rates: Vec<f64>,
    /// The states of the stage at hand, in the end those of the new point.
    pub(crate) states: Vec<f64>,
    pub(crate) unknowns: Vec<f64>,
    last_stage: Vec<f64>,
    estimates: [Vec<f64>; 2],
    /// The new states before they were moved onto the constraints.
    end: Vec<f64>,
    has_continuous: bool,
    /// Whole steps, where the system has them as one program.
    program: Option<StepProgram<'s>>,
    /// Whether there may be one.
    is_program_possible: bool,
    /// The stages, where they are asked for.
    pub(crate) is_recording: bool,
    pub(crate) recorded: Vec<Place>,
}

/// A program for whole steps with its inputs and results.
struct StepProgram<'s> {
    steps: Box<dyn ExplicitSteps + 's>,
    inputs: Vec<f64>,
    results: Vec<f64>,
}

/// Whether all values are finite.
fn are_finite(values: &[f64]) -> bool {
    // Zero times a value is zero just where it is finite; four sums need not wait for each other.
    let chunks = values.chunks_exact(4);
    let rest: f64 = chunks.remainder().iter().map(|value| 0.0 * value).sum();
    let mut sums = [rest; 4];
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += 0.0 * value;
        }
    }
    sums.iter().sum::<f64>() == 0.0
}

impl<'s> DormandPrince<'s> {
    pub(crate) fn new(n_states: usize, n_unknowns: usize) -> Self {
        let states = vec![0.0; n_states];
        Self {
            n_states,
            rates: vec![0.0; EXTENDED * n_states],
            unknowns: vec![0.0; n_unknowns],
            last_stage: states.clone(),
            estimates: [states.clone(), states.clone()],
            end: states.clone(),
            states,
            has_continuous: false,
            program: None,
            is_program_possible: true,
            is_recording: false,
            recorded: Vec::new(),
        }
    }

    fn rates_of(&self, stage: usize) -> &[f64] {
        &self.rates[stage * self.n_states..][..self.n_states]
    }

    fn rates_of_mut(&mut self, stage: usize) -> &mut [f64] {
        &mut self.rates[stage * self.n_states..][..self.n_states]
    }

    /// states = old + step * sum of coefficients times rates
    fn set_stage(&mut self, old: &[f64], step: f64, stage: usize) {
        self.states.copy_from_slice(old);
        for term in &TERMS.rows[stage] {
            let factor = step * term.coefficient;
            let rates = &self.rates[term.stage * self.n_states..][..self.n_states];
            for (state, rate) in self.states.iter_mut().zip(rates) {
                *state += factor * rate;
            }
        }
    }

    /// Tries a step. The new states are in `states`, a guess of the new unknowns in `unknowns`.
    pub(crate) fn try_step(
        &mut self,
        model: &mut Model<'s, '_>,
        old: &Moment,
        step: f64,
        new_time: f64,
        is_at_break: bool,
    ) -> Result<Trial, IntegrateError> {
        self.has_continuous = false;
        model.set_scales(step);
        self.rates_of_mut(0).copy_from_slice(&old.rates);
        if self.is_recording || !self.run_program(model, old, step, new_time, is_at_break) {
            self.take_stages(model, old, step, new_time, is_at_break)?;
        }
        let mut size = |which: usize| {
            let errors: Vec<f64> = self.estimates[which].iter().map(|estimate| step * estimate).collect();
            let of_unknowns = model.unknown_errors(new_time, &self.states, &errors, &self.unknowns)?;
            Ok(model.size_of_error(errors.into_iter(), &self.states, &of_unknowns))
        };
        let (fifth, third) = (size(0)?, size(1)?);
        Ok(Trial { error: combined_error(fifth.error, third.error), worst: fifth.worst })
    }

    /// Takes all stages of a step one after the other.
    fn take_stages(
        &mut self,
        model: &mut Model<'_, '_>,
        old: &Moment,
        step: f64,
        new_time: f64,
        is_at_break: bool,
    ) -> Result<(), IntegrateError> {
        self.unknowns.copy_from_slice(&old.unknowns);
        if self.is_recording {
            self.recorded.clear();
            self.record(model, old.time, &old.states, &old.unknowns);
        }
        for stage in 1..STAGES {
            self.set_stage(&old.states, step, stage);
            let is_end = stage == STAGES - 1;
            let time = if is_end { new_time } else { old.time + C[stage] * step };
            model.fill_inputs(time, !(is_at_break && is_end));
            model.solve_unknowns(time, &self.states, &mut self.unknowns, Care::Quick)?;
            let rates = &mut self.rates[stage * self.n_states..][..self.n_states];
            model.equations.rates(&self.states, &self.unknowns, rates);
            if self.is_recording {
                let (states, unknowns) = (self.states.clone(), self.unknowns.clone());
                self.record(model, time, &states, &unknowns);
            }
        }
        self.last_stage.copy_from_slice(&self.states);
        self.set_stage(&old.states, step, STAGES);
        self.end.copy_from_slice(&self.states);
        // Sums over stages state by state would read all rates n times.
        for (estimates, weights) in self.estimates.iter_mut().zip([&TERMS.error_5, &TERMS.error_3]) {
            estimates.fill(0.0);
            for term in weights {
                let rates = &self.rates[term.stage * self.n_states..][..self.n_states];
                for (estimate, rate) in estimates.iter_mut().zip(rates) {
                    *estimate += term.coefficient * rate;
                }
            }
        }
        Ok(())
    }

    /// Takes all stages of a step at once, which gives the same bits; false where there is no program for it, or a
    /// value is not finite.
    fn run_program(
        &mut self,
        model: &mut Model<'s, '_>,
        old: &Moment,
        step: f64,
        new_time: f64,
        is_at_break: bool,
    ) -> bool {
        if !self.is_program_possible || !model.unknown_solver.has_closed_form() {
            return false;
        }
        let n = self.n_states;
        let program = match &mut self.program {
            Some(program) => program,
            None => match model.equations.system.explicit_steps(&METHOD) {
                Offer::Ready(steps) => self.program.insert(StepProgram {
                    steps,
                    inputs: vec![0.0; (STAGES - 1) * model.input_values.len()],
                    results: vec![0.0; (STAGES + 3) * n + self.unknowns.len()],
                }),
                Offer::NotYet => return false,
                Offer::Never => {
                    self.is_program_possible = false;
                    return false;
                }
            },
        };
        let n_inputs = model.input_values.len();
        if n_inputs > 0 {
            for (before, values) in program.inputs.chunks_exact_mut(n_inputs).enumerate() {
                let stage = before + 1;
                let is_end = stage == STAGES - 1;
                let time = if is_end { new_time } else { old.time + C[stage] * step };
                model.inputs().fill(time, !(is_at_break && is_end), values);
            }
        }
        let start = ExplicitStart {
            time: old.time,
            step,
            end: new_time,
            states: &old.states,
            rates: &old.rates,
            parameters: &model.parameters,
            inputs: &program.inputs,
            modes: &model.modes,
        };
        program.steps.run(&start, &mut program.results);
        if !are_finite(&program.results) {
            return false;
        }
        model.unknown_solver.count_closed(&mut model.equations, STAGES - 1);
        let (rates, rest) = program.results.split_at((STAGES - 1) * n);
        let (last_stage, rest) = rest.split_at(n);
        let (end, rest) = rest.split_at(n);
        let (unknowns, rest) = rest.split_at(self.unknowns.len());
        let (fifth, third) = rest.split_at(n);
        self.rates[n..STAGES * n].copy_from_slice(rates);
        self.last_stage.copy_from_slice(last_stage);
        self.states.copy_from_slice(end);
        self.end.copy_from_slice(end);
        self.unknowns.copy_from_slice(unknowns);
        self.estimates[0].copy_from_slice(fifth);
        self.estimates[1].copy_from_slice(third);
        true
    }

    fn record(&mut self, model: &Model<'_, '_>, time: f64, states: &[f64], unknowns: &[f64]) {
        self.recorded.push(Place {
            time,
            states: states.to_vec(),
            unknowns: unknowns.to_vec(),
            inputs: model.input_values.clone(),
        });
    }

    /// The largest rate that the end of a step to `new` shows, in magnitude.
    fn stiffness(&self, new: &Moment) -> f64 {
        largest_rate(&new.states, &self.last_stage, &new.rates, self.rates_of(STAGES - 1))
    }

    /// Whether a step to `new` came near the border of stability.
    pub(crate) fn is_near_border(&self, new: &Moment, step: f64, rtol: f64, radius: f64) -> bool {
        step * self.stiffness(new).max(radius) > borders(rtol).near
    }

    /// How far the polynomial of a step that came near the border of stability is from the solution in the middle, in
    /// units of the tolerance: stages are off there though their sums at the end are not. The defect of the slope over
    /// the largest rate is the distance.
    pub(crate) fn gap(
        &mut self,
        model: &mut Model<'_, '_>,
        old: &Moment,
        new: &Moment,
        radius: f64,
    ) -> Result<f64, IntegrateError> {
        let step = new.time - old.time;
        self.extend(model, old, new)?;
        let middle: Vec<Inner> = (0..self.n_states).map(|at| self.inner(old, new, 0.5, at)).collect();
        let states: Vec<f64> = middle.iter().map(|inner| inner.value).collect();
        let (time, mut unknowns, mut rates) = (old.time + 0.5 * step, new.unknowns.clone(), states.clone());
        model.fill_inputs(time, true);
        model.solve_unknowns(time, &states, &mut unknowns, Care::Checked)?;
        model.equations.rates(&states, &unknowns, &mut rates);
        let fastest = self.stiffness(new).max(radius).max(1.0 / step);
        let defects = rates.iter().zip(&middle).map(|(rate, inner)| rate - inner.slope / step);
        let errors: Vec<f64> = defects.map(|defect| defect / fastest).collect();
        let of_unknowns = model.unknown_errors(time, &states, &errors, &unknowns)?;
        Ok(model.size_of_error(errors.into_iter(), &states, &of_unknowns).error)
    }

    /// The states at a fraction `x` of the last step from `old` to `new`, to order 7; the inputs at hand are those of
    /// some stage.
    pub(crate) fn between(
        &mut self,
        model: &mut Model<'_, '_>,
        old: &Moment,
        new: &Moment,
        x: f64,
        states: &mut [f64],
    ) -> Result<(), IntegrateError> {
        self.extend(model, old, new)?;
        for (at, state) in states.iter_mut().enumerate() {
            *state = self.inner(old, new, x, at).value;
        }
        Ok(())
    }

    /// Takes the stages that the polynomial between step ends needs beside those of the step.
    fn extend(&mut self, model: &mut Model<'_, '_>, old: &Moment, new: &Moment) -> Result<(), IntegrateError> {
        let step = new.time - old.time;
        if !self.has_continuous {
            self.rates_of_mut(STAGES).copy_from_slice(&new.rates);
            model.set_scales(step);
            for stage in STAGES + 1..EXTENDED {
                self.set_stage(&old.states, step, stage);
                let time = old.time + C[stage] * step;
                model.fill_inputs(time, true);
                let ends = old.unknowns.iter().zip(&new.unknowns);
                let guess: Vec<f64> = ends.map(|(old, new)| old + C[stage] * (new - old)).collect();
                let mut unknowns = guess.clone();
                if model.solve_unknowns(time, &self.states, &mut unknowns, Care::Quick).is_err() {
                    // Within a long step unknowns may be far from the line between its ends.
                    unknowns = guess;
                    model.search_unknowns(time, &self.states, &mut unknowns)?;
                }
                let rates = &mut self.rates[stage * self.n_states..][..self.n_states];
                model.equations.rates(&self.states, &unknowns, rates);
            }
            self.has_continuous = true;
        }
        Ok(())
    }

    /// The polynomial between step ends, s + x (d + y (f + x (g + y (h_0 + x (h_1 + y (h_2 + x h_3)))))) with y = 1 - x.
    fn inner(&self, old: &Moment, new: &Moment, x: f64, at: usize) -> Inner {
        let step = new.time - old.time;
        let difference = self.end[at] - old.states[at];
        let first = step * old.rates[at] - difference;
        let second = 2.0 * difference - step * (new.rates[at] + old.rates[at]);
        let higher = |which: usize| -> f64 {
            let row = &TERMS.continuous[which];
            let product = |term: &Term| term.coefficient * self.rates[term.stage * self.n_states + at];
            step * row.iter().map(product).sum::<f64>()
        };
        let with_x =
            |base: f64, rest: Inner| Inner { value: base + x * rest.value, slope: rest.value + x * rest.slope };
        let with_y = |base: f64, rest: Inner| {
            let y = 1.0 - x;
            Inner { value: base + y * rest.value, slope: y * rest.slope - rest.value }
        };
        let last = with_x(higher(2), Inner { value: higher(3), slope: 0.0 });
        let inner = with_y(second, with_x(higher(0), with_y(higher(1), last)));
        with_x(old.states[at], with_y(difference, with_x(first, inner)))
    }
}

/// The value of a polynomial within a step, and its slope times the length of the step.
#[derive(Clone, Copy)]
struct Inner {
    value: f64,
    slope: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row sums, and the conditions of order 8 on quadrature.
    #[test]
    fn conditions_on_quadrature_hold() {
        for stage in 0..EXTENDED {
            assert!((A[stage].iter().sum::<f64>() - C[stage]).abs() < 1e-14, "stage {stage}");
        }
        for power in 0..8 {
            let sum: f64 = A[STAGES].iter().zip(&C).map(|(weight, c)| weight * c.powi(power)).sum();
            assert!((sum - 1.0 / (f64::from(power) + 1.0)).abs() < 1e-13, "power {power}");
        }
    }
}
