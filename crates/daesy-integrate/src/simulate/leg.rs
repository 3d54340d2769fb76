//! Legs of a trajectory with events: from a point with its discrete state to a later time, under any inputs, for
//! filters that move the point between legs.

use daesy_system::DaeSystem;

use super::{Course, Inputs, Rules, Run, SimulateOptions, Simulation};
use crate::error::IntegrateError;
use crate::event_iteration::{HybridStart, initialize_with_events};
use crate::initialize::{InitializeOptions, Initialized};
use crate::stepper::Stepper;

/// A point of a trajectory with all that its model remembers: what follows depends on it and on the inputs alone,
/// unless the model reads the past of a signal.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Waypoint {
    /// Time.
    pub time: f64,
    /// States.
    pub states: Vec<f64>,
    /// Unknowns, or where the search for them begins.
    pub unknowns: Vec<f64>,
    /// Parameters, those that the start determined included.
    pub parameters: Vec<f64>,
    /// Modes, see [`daesy_system::events`].
    pub modes: Vec<f64>,
    /// The number of the last tick of each clock.
    pub ticks: Vec<f64>,
}

/// What a leg led to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Leg {
    /// Observed quantities at its beginning, before anything happens there.
    pub observed_before: Vec<f64>,
    /// Its end, after what happens there.
    pub end: Waypoint,
    /// Observed quantities at its end.
    pub observed: Vec<f64>,
    /// Whether the model ended the simulation on the way.
    pub is_ended: bool,
}

impl Waypoint {
    /// The consistent start of a system, after what happens there.
    ///
    /// # Errors
    /// When there is none.
    pub fn start(
        system: &dyn DaeSystem,
        parameters: &[f64],
        inputs: &dyn Inputs,
        options: &SimulateOptions,
    ) -> Result<Leg, IntegrateError> {
        let mut values = vec![0.0; system.description().n_inputs];
        inputs.fill(options.start, true, &mut values);
        let settings = InitializeOptions::watched(&options.watch);
        let start = initialize_with_events(system, options.start, parameters, &values, &settings)?;
        let HybridStart { initialized, modes } = start;
        let mut simulation = Simulation::begin(initialized, 0, system.description().observed.len());
        let stepper = Stepper::new(system, inputs, options, options.start, &simulation.start, values, modes)?;
        let mut run = Run::new(system, inputs, Rules::default(), options, stepper);
        run.check_assertions(&mut simulation)?;
        let observed_before = run.stepper.observe_here();
        let mut course = Course::Continues;
        if run.has_events {
            run.events.check_clocks(&run.stepper, options.stop, options.max_steps)?;
            run.events.mark_sides(&run.stepper);
            course = run.happen(&mut simulation, false, true)?;
        }
        Ok(run.leg(observed_before, course))
    }

    /// Follows the trajectory from here, which is at `options.start`, to `options.stop`. Steps end at `kinks`, at which
    /// an input has another slope but the same value.
    ///
    /// States may have been moved since the leg before. Where relations do not hold any more, an event happens here; of
    /// the conditions of when-clauses and of held values those that `follows` marks, by position among the modes, are
    /// what the states say, without an event: what a point that was moved has in the place of a history.
    ///
    /// # Errors
    /// When the method gives up; the error says when and where.
    pub fn follow(
        &self,
        system: &dyn DaeSystem,
        inputs: &dyn Inputs,
        kinks: &[f64],
        follows: &[bool],
        options: &SimulateOptions,
    ) -> Result<Leg, IntegrateError> {
        let mut values = vec![0.0; system.description().n_inputs];
        inputs.fill(self.time, true, &mut values);
        let initialized = Initialized {
            states: self.states.clone(),
            unknowns: self.unknowns.clone(),
            parameters: self.parameters.clone(),
            iterations: 0,
            residual: 0.0,
        };
        let mut simulation = Simulation::begin(initialized, 0, system.description().observed.len());
        let modes = self.modes.clone();
        let stepper = Stepper::new(system, inputs, options, self.time, &simulation.start, values, modes)?;
        let mut run = Run::new(system, inputs, Rules::default(), options, stepper);
        run.events.set_last_ticks(&self.ticks);
        run.stepper.restart()?;
        if run.has_events {
            if run.events.adopt_silently(&mut run.stepper, follows) {
                run.stepper.restart()?;
            }
            run.events.mark_sides(&run.stepper);
        }
        let observed_before = run.stepper.observe_here();
        let mut course = Course::Continues;
        if run.has_events {
            course = run.happen(&mut simulation, false, false)?;
        }
        if course != Course::Ends {
            course = run.along(kinks, &mut simulation)?;
        }
        Ok(run.leg(observed_before, course))
    }
}

impl Run<'_, '_> {
    /// To the end of the leg, from one break or kink of the inputs to the next.
    fn along(&mut self, kinks: &[f64], simulation: &mut Simulation) -> Result<Course, IntegrateError> {
        let (start, stop) = (self.options.start, self.options.stop);
        let is_inside = |time: &f64| *time > start && *time < stop;
        let breaks = self.inputs.breaks();
        let mut ends: Vec<(f64, bool)> = breaks.iter().copied().filter(is_inside).map(|time| (time, true)).collect();
        ends.extend(kinks.iter().copied().filter(is_inside).map(|time| (time, false)));
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        if stop > start {
            ends.push((stop, self.jumps_at_stop()));
        }
        for (end, is_break) in ends {
            let mut is_due = false;
            while self.stepper.now.time < end {
                if self.has_events {
                    let scheduled = self.events.next_scheduled(&self.stepper, end);
                    is_due = self.events.is_due(scheduled, end);
                }
                if self.run_to(end, simulation)? == Course::Ends {
                    return Ok(Course::Ends);
                }
            }
            let course = match (is_break, is_due) {
                (true, _) => self.cross_break(simulation)?,
                (false, true) => self.happen(simulation, false, true)?,
                (false, false) => Course::Continues,
            };
            if course == Course::Ends {
                return Ok(course);
            }
        }
        Ok(Course::Continues)
    }

    /// What was reached.
    fn leg(mut self, observed_before: Vec<f64>, course: Course) -> Leg {
        // Along the border of a relation the equations of either side alone do not give what is observed.
        let observed = self.observed_before.take().unwrap_or_else(|| self.stepper.observe_here());
        let stepper = &self.stepper;
        let end = Waypoint {
            time: stepper.now.time,
            states: stepper.now.states.clone(),
            unknowns: stepper.now.unknowns.clone(),
            parameters: stepper.model.parameters.clone(),
            modes: stepper.model.modes.clone(),
            ticks: self.events.last_ticks().to_vec(),
        };
        Leg { observed_before, end, observed, is_ended: course == Course::Ends }
    }
}
