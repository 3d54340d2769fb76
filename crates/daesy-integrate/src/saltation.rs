//! How changes of a trajectory cross events.
//!
//! An event at a time t that is itself the solution of g(t, s(t), v(t); p) = 0 moves with the parameters. With f- and
//! f+ the rates just before and after it, R what it does to the states, and (ds, dv) the change just before,
//!
//! ```text
//! dt  = -(g_s ds + g_v dv + g_p dp) / g'-             g' = the rate of g along the trajectory
//! ds+ = R_s (ds + f- dt) + R_b (d before) + R_t dt + R_p dp - f+ dt
//! ```
//!
//! so that a relation that changes nothing but the rates makes a jump (f- - f+) dt (the saltation matrix [@leine2004]).
//! The time of a scheduled event follows the parameters directly; that of a break of the inputs does not.

use daesy_system::{ActionKind, Before, DaeSystem, Part};

use crate::error::IntegrateError;
use crate::event_iteration::{EventLoop, Settled};
use crate::simulate::Inputs;
use crate::start_tangents::StartTangent;
use crate::stepper::{Place, Stepper};

/// A rate of an event function below this, relative to its largest possible one, is a touch.
const GRAZING: f64 = 1e-10;

/// Times of simultaneous crossings that differ by more, relative to their size, lead to no one derivative.
const SAME_CHANGE: f64 = 1e-6;

/// Distance over which inputs are differentiated, relative to the time span.
const INPUT_STEP: f64 = 1e-7;

/// What is known just before an event.
pub(crate) struct Verge {
    place: Place,
    modes: Vec<f64>,
    rates: Vec<f64>,
    /// Rates of the unknowns along the trajectory.
    unknown_rates: Vec<f64>,
    /// Rates of the inputs.
    input_rates: Vec<f64>,
}

/// What makes an event happen.
pub(crate) enum Cause<'a> {
    /// Event functions cross zero.
    Roots(&'a [usize]),
    /// A time of the schedule.
    Scheduled,
    /// Something that does not follow the parameters.
    Fixed,
}

impl Verge {
    /// At the point reached, before anything happens there.
    pub(crate) fn new(
        stepper: &mut Stepper<'_, '_>,
        inputs: &dyn Inputs,
        solve: &mut dyn FnMut(&mut Stepper<'_, '_>, &mut [f64]) -> bool,
    ) -> Result<Self, IntegrateError> {
        let place = stepper.place_here();
        let rates = stepper.rates_here();
        let system = stepper.model.equations.system;
        let step = INPUT_STEP * stepper.span();
        let mut earlier = place.inputs.clone();
        inputs.fill(place.time - step, true, &mut earlier);
        let input_rates: Vec<f64> =
            place.inputs.iter().zip(&earlier).map(|(now, earlier)| (now - earlier) / step).collect();
        // F_v v' = -(F_t + F_s s' + F_u u')
        let mut unknown_rates = vec![0.0; place.unknowns.len()];
        for (part, vector) in [
            (Part::ResidualByTime, &[1.0][..]),
            (Part::ResidualByStates, &rates),
            (Part::ResidualByInputs, &input_rates),
        ] {
            let values = entries(stepper, part, &place);
            add_product(system, part, &values, vector, &mut unknown_rates);
        }
        unknown_rates.iter_mut().for_each(|value| *value = -*value);
        if !solve(stepper, &mut unknown_rates) {
            return Err(IntegrateError::Singular { time: place.time, variable: String::new() });
        }
        Ok(Self { modes: stepper.model.modes.clone(), place, rates, unknown_rates, input_rates })
    }

    /// Rates of the states before the event.
    pub(crate) fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// How the time of the event follows the parameters, by direction.
    pub(crate) fn time_changes(
        &self,
        stepper: &mut Stepper<'_, '_>,
        events: &EventLoop<'_>,
        cause: &Cause<'_>,
        tangents: &[StartTangent],
    ) -> Result<Vec<f64>, IntegrateError> {
        match cause {
            Cause::Fixed => Ok(vec![0.0; tangents.len()]),
            Cause::Scheduled => Ok(self.scheduled_changes(stepper, events, tangents)),
            Cause::Roots(roots) => {
                let mut changes: Option<Vec<f64>> = None;
                for &root in *roots {
                    let own = self.root_changes(stepper, events, root, tangents)?;
                    let Some(known) = &changes else {
                        changes = Some(own);
                        continue;
                    };
                    let differ = |(a, b): (&f64, &f64)| (a - b).abs() > SAME_CHANGE * a.abs().max(b.abs()).max(1e-9);
                    if known.iter().zip(&own).any(differ) {
                        return Err(self.not_differentiable("several relations change at once", events, root));
                    }
                }
                Ok(changes.unwrap_or_else(|| vec![0.0; tangents.len()]))
            }
        }
    }

    fn not_differentiable(&self, what: &str, events: &EventLoop<'_>, root: usize) -> IntegrateError {
        let held = events.events.roots[root].held as usize;
        let label = &events.events.held[held];
        IntegrateError::NotDifferentiable {
            time: self.place.time,
            reason: format!("{what}, `{}` among them", label.text),
            place: label.place.clone(),
        }
    }

    /// dt = -(g_s ds + g_v dv + g_p dp) / (g_t + g_s s' + g_v v' + g_u u')
    fn root_changes(
        &self,
        stepper: &mut Stepper<'_, '_>,
        events: &EventLoop<'_>,
        root: usize,
        tangents: &[StartTangent],
    ) -> Result<Vec<f64>, IntegrateError> {
        let system = stepper.model.equations.system;
        let parts = [
            Part::RootsByStates,
            Part::RootsByUnknowns,
            Part::RootsByParameters,
            Part::RootsByTime,
            Part::RootsByInputs,
        ];
        let values = parts.map(|part| entries(stepper, part, &self.place));
        let row = |which: usize, vector: &[f64]| -> f64 {
            let pattern = system.pattern(parts[which]);
            pattern.row(root).map(|entry| values[which][entry] * vector[pattern.columns[entry] as usize]).sum()
        };
        let terms = [row(0, &self.rates), row(1, &self.unknown_rates), row(3, &[1.0]), row(4, &self.input_rates)];
        let rate: f64 = terms.iter().sum();
        let size: f64 = terms.iter().map(|term| term.abs()).sum();
        if !rate.is_finite() || rate.abs() <= GRAZING * size || rate == 0.0 {
            return Err(self.not_differentiable("an event function only touches zero", events, root));
        }
        let change = |tangent: &StartTangent| {
            -(row(0, &tangent.states) + row(1, &tangent.unknowns) + row(2, &tangent.parameters)) / rate
        };
        Ok(tangents.iter().map(change).collect())
    }

    /// The scheduled time that is now, and how it follows the parameters; clocks by their first tick and interval.
    fn scheduled_changes(
        &self,
        stepper: &mut Stepper<'_, '_>,
        events: &EventLoop<'_>,
        tangents: &[StartTangent],
    ) -> Vec<f64> {
        let system = stepper.model.equations.system;
        let times = stepper.evaluate_at(Part::Schedule, &self.place);
        let values = entries(stepper, Part::ScheduleByParameters, &self.place);
        let pattern = system.pattern(Part::ScheduleByParameters);
        let row = |row: usize, vector: &[f64]| -> f64 {
            pattern.row(row).map(|entry| values[entry] * vector[pattern.columns[entry] as usize]).sum()
        };
        let now = self.place.time;
        let is_now = |time: f64| (time - now).abs() <= 1e-9 * (1.0 + now.abs());
        let n = events.events.scheduled.len();
        let change = |tangent: &StartTangent| {
            if let Some(at) = (0..n).find(|&at| is_now(times[at])) {
                return row(at, &tangent.parameters);
            }
            for (clock, pair) in times[n..].chunks_exact(2).enumerate() {
                let n_ticks = if pair[1] > 0.0 { ((now - pair[0]) / pair[1]).round() } else { 0.0 };
                if is_now(pair[0] + n_ticks * pair[1]) {
                    let at = n + 2 * clock;
                    return row(at, &tangent.parameters) + n_ticks * row(at + 1, &tangent.parameters);
                }
            }
            0.0
        };
        tangents.iter().map(change).collect()
    }

    /// Carries the change of the states over an event that has settled; the unknowns' follow from the equations
    /// afterwards.
    pub(crate) fn cross(
        &self,
        stepper: &mut Stepper<'_, '_>,
        events: &EventLoop<'_>,
        settled: &Settled,
        time_changes: &[f64],
        tangents: &mut [StartTangent],
    ) -> Result<(), IntegrateError> {
        self.refuse_discrete(stepper, events)?;
        let system = stepper.model.equations.system;
        let after = stepper.rates_here();
        let is_kept = |state: usize| {
            let is_given = settled.reinitialized.contains(&(state as u32));
            is_given || settled.reinits.iter().all(|reinit| reinit.kept[state])
        };
        let kept: Vec<bool> = (0..after.len()).map(is_kept).collect();
        let parts = [
            Part::ActionsByStates,
            Part::ActionsByUnknowns,
            Part::ActionsByParameters,
            Part::ActionsByTime,
            Part::ActionsByBefore,
        ];
        for (tangent, &dt) in tangents.iter_mut().zip(time_changes) {
            add_scaled(dt, &self.rates, &mut tangent.states);
            add_scaled(dt, &self.unknown_rates, &mut tangent.unknowns);
            let before: Vec<f64> = events
                .events
                .before
                .iter()
                .map(|before| match *before {
                    Before::State(state) => tangent.states[state as usize],
                    Before::Unknown(unknown) => tangent.unknowns[unknown as usize],
                    Before::Input(input) => dt * self.input_rates[input as usize],
                })
                .collect();
            for reinit in &settled.reinits {
                let place = Place {
                    time: self.place.time,
                    states: reinit.states.clone(),
                    unknowns: reinit.unknowns.clone(),
                    inputs: self.place.inputs.clone(),
                };
                let here = std::mem::replace(&mut stepper.model.modes, reinit.modes.clone());
                let values = parts.map(|part| entries(stepper, part, &place));
                stepper.model.modes = here;
                let vectors: [&[f64]; 5] = [&tangent.states, &tangent.unknowns, &tangent.parameters, &[dt], &before];
                let mut new = Vec::new();
                for &action in &reinit.actions {
                    let ActionKind::Reinit { state, sign } = events.events.actions[action].kind else { continue };
                    let mut sum = 0.0;
                    for ((part, values), vector) in parts.iter().zip(&values).zip(vectors) {
                        let pattern = system.pattern(*part);
                        // The value of an action is its second row.
                        let row = pattern.row(2 * action + 1);
                        sum += row.map(|entry| values[entry] * vector[pattern.columns[entry] as usize]).sum::<f64>();
                    }
                    new.push((state as usize, sign * sum));
                }
                for (state, value) in new {
                    tangent.states[state] = value;
                }
            }
            add_scaled(-dt, &after, &mut tangent.states);
            stepper.project_tangent_keeping(&kept, &mut tangent.states, &tangent.parameters)?;
        }
        Ok(())
    }

    /// Discrete variables that take values of continuous ones would have to be followed too.
    fn refuse_discrete(&self, stepper: &Stepper<'_, '_>, events: &EventLoop<'_>) -> Result<(), IntegrateError> {
        for (at, discrete) in events.events.discrete.iter().enumerate() {
            let (before, after) = (self.modes[at], stepper.model.modes[at]);
            if before != after && after.fract() != 0.0 {
                return Err(IntegrateError::NotDifferentiable {
                    time: self.place.time,
                    reason: format!(
                        "the discrete variable `{}` takes a value that may depend on states",
                        discrete.name
                    ),
                    place: discrete.before.place.clone(),
                });
            }
        }
        Ok(())
    }
}

/// The entries of a matrix-valued part at a place with the modes at hand.
fn entries(stepper: &mut Stepper<'_, '_>, part: Part, place: &Place) -> Vec<f64> {
    let mut values = vec![0.0; stepper.model.equations.system.pattern(part).n_entries()];
    stepper.evaluate_into(part, place, &mut values);
    values
}

/// out += matrix * vector
pub(crate) fn add_product(system: &dyn DaeSystem, part: Part, values: &[f64], vector: &[f64], out: &mut [f64]) {
    let pattern = system.pattern(part);
    for (row, out) in out.iter_mut().enumerate() {
        for entry in pattern.row(row) {
            *out += values[entry] * vector[pattern.columns[entry] as usize];
        }
    }
}

/// out += factor * vector
pub(crate) fn add_scaled(factor: f64, vector: &[f64], out: &mut [f64]) {
    for (out, value) in out.iter_mut().zip(vector) {
        *out += factor * value;
    }
}
