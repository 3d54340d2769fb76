//! A system in other hands: a point that an outside solver moves, or that own steps move on request.
//!
//! To an outside solver the system is an ordinary differential equation z' = f(t, z, u) in all states, those that
//! constraints bind included. The solver knows nothing of the constraints g(t, s) = 0 and drifts off them. Therefore
//!
//! ```text
//! f(t, z, u) = S(s, v)   with s the point of g(t, s) = 0 next to z, and v from F(t, s, v) = 0
//! ```
//!
//! so that everything ever read satisfies all equations, and an offset z - s neither grows nor feeds back: its rate
//! is zero to first order. [`Exchange::offset`] says how far z is off; a solver that takes over s at the end of steps
//! where that is more than its tolerance follows the constraints for any length of time.
//!
//! Event functions are told with a margin on the side they were on after the last event: a crossing is seen only when
//! the function is beyond zero for certain, and never again for the same one.

use std::cell::RefCell;

use daesy_system::{DaeSystem, Part};

use super::{Course, Inputs, Rules, Run, SimulateOptions, Simulation};
use crate::chatter::History;
use crate::error::IntegrateError;
use crate::event_iteration::{HybridStart, initialize_with_events};
use crate::initialize::{InitializeOptions, Initialized};
use crate::linear::LinearSolver;
use crate::stepper::Stepper;

/// The margin of event functions relative to how far they may be off by the tolerances, and at least.
const MARGIN: f64 = 1e-3;
const LEAST_MARGIN: f64 = 1e-13;

/// Inputs that are set from outside: straight lines from the time they were set.
#[derive(Debug, Default)]
pub struct SettableInputs {
    lines: RefCell<Lines>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Lines {
    since: f64,
    values: Vec<f64>,
    slopes: Vec<f64>,
}

impl SettableInputs {
    /// So many inputs, derivatives included, all zero.
    #[must_use]
    pub fn new(n: usize) -> Self {
        Self { lines: RefCell::new(Lines { since: 0.0, values: vec![0.0; n], slopes: vec![0.0; n] }) }
    }

    /// Values and slopes at a time.
    #[must_use]
    pub fn at(&self, time: f64) -> (Vec<f64>, Vec<f64>) {
        let slopes = self.lines.borrow().slopes.clone();
        let mut values = vec![0.0; slopes.len()];
        self.fill(time, true, &mut values);
        (values, slopes)
    }

    /// Sets all of them from a time on.
    pub fn set(&self, since: f64, values: &[f64], slopes: &[f64]) {
        let mut lines = self.lines.borrow_mut();
        lines.since = since;
        lines.values.copy_from_slice(values);
        lines.slopes.copy_from_slice(slopes);
    }
}

impl Inputs for SettableInputs {
    fn fill(&self, time: f64, _is_after: bool, values: &mut [f64]) {
        let lines = self.lines.borrow();
        for ((value, start), slope) in values.iter_mut().zip(&lines.values).zip(&lines.slopes) {
            *value = if *slope == 0.0 { *start } else { start + slope * (time - lines.since) };
        }
    }

    fn breaks(&self) -> &[f64] {
        &[]
    }
}

/// What an event did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Happened {
    /// States are not what they were.
    pub has_new_states: bool,
    /// The model ends the simulation.
    pub is_end: bool,
}

/// How far own steps led.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Advanced {
    /// The time reached.
    pub time: f64,
    /// An event happened there.
    pub has_event: bool,
    /// The model ended the simulation.
    pub is_end: bool,
}

/// Everything that determines what follows, apart from the inputs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Snapshot {
    /// Time.
    pub time: f64,
    /// States as they were set.
    pub states: Vec<f64>,
    /// Unknowns.
    pub unknowns: Vec<f64>,
    /// Parameters.
    pub parameters: Vec<f64>,
    /// Modes.
    pub modes: Vec<f64>,
    /// 1 for each event function that was above zero since the last event.
    pub sides: Vec<f64>,
    /// Margins of event functions.
    pub margins: Vec<f64>,
    /// The last tick of each clock.
    pub ticks: Vec<f64>,
}

/// A change of what is given.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Seed {
    /// Of the states.
    pub states: Vec<f64>,
    /// Of the inputs, derivatives included.
    pub inputs: Vec<f64>,
    /// Of all parameters.
    pub parameters: Vec<f64>,
}

/// The change that follows.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Tangent {
    /// Of the rates of the states.
    pub rates: Vec<f64>,
    /// Of observed quantities.
    pub observed: Vec<f64>,
    /// Of the states themselves, on the constraints.
    pub states: Vec<f64>,
    /// Of the unknowns.
    pub unknowns: Vec<f64>,
}

/// A system at a point.
pub struct Exchange<'s> {
    run: Run<'s, 's>,
    simulation: Simulation,
    inputs: &'s SettableInputs,
    system: &'s dyn DaeSystem,
    /// States as they were set from outside.
    given: Vec<f64>,
    is_solved: bool,
    /// Observed quantities at the end of own steps that slid to it, until the point is solved anew: the equations of
    /// either side alone do not give them.
    slid_to: Option<Vec<f64>>,
    /// Inputs or parameters were set since the last event or own step.
    is_broken: bool,
    /// Inputs before an event, which those that are set in it jump from; kept where a rule asks for them.
    inputs_before: Vec<f64>,
    /// By event function.
    margins: Vec<f64>,
    /// Factored where `is_factored`.
    solver: Option<LinearSolver<f64>>,
    is_factored: bool,
}

impl<'s> Exchange<'s> {
    /// Begins at a consistent start, with the inputs as they are set; `rules` say how states cross jumps of inputs and
    /// relations.
    ///
    /// # Errors
    /// When there is no consistent start.
    pub fn begin(
        system: &'s dyn DaeSystem,
        parameters: &[f64],
        inputs: &'s SettableInputs,
        rules: Rules<'s>,
        options: &'s SimulateOptions,
    ) -> Result<Self, IntegrateError> {
        let mut values = vec![0.0; system.description().n_inputs];
        inputs.fill(options.start, true, &mut values);
        let start = initialize_with_events(
            system,
            options.start,
            parameters,
            &values,
            &InitializeOptions::watched(&options.watch),
        )?;
        Self::at(system, inputs, rules, options, start, values)
    }

    fn at(
        system: &'s dyn DaeSystem,
        inputs: &'s SettableInputs,
        rules: Rules<'s>,
        options: &'s SimulateOptions,
        start: HybridStart,
        values: Vec<f64>,
    ) -> Result<Self, IntegrateError> {
        let HybridStart { initialized, modes } = start;
        let given = initialized.states.clone();
        let simulation = Simulation::begin(initialized, 0, system.description().observed.len());
        let stepper = Stepper::new(system, inputs, options, options.start, &simulation.start, values, modes)?;
        let mut run = Run::new(system, inputs, rules, options, stepper);
        if run.has_events {
            run.events.mark_sides(&run.stepper);
        }
        let mut exchange = Self {
            run,
            simulation,
            inputs,
            system,
            given,
            is_solved: true,
            slid_to: None,
            is_broken: false,
            inputs_before: Vec::new(),
            margins: vec![LEAST_MARGIN; system.description().n_roots],
            solver: None,
            is_factored: false,
        };
        exchange.run.check_assertions(&mut exchange.simulation)?;
        exchange.set_margins();
        exchange.mark_inputs();
        Ok(exchange)
    }

    /// Takes note of the inputs as they are: those that are set from now on jump, until the event is settled.
    pub fn mark_inputs(&mut self) {
        if self.run.rules.transfer.is_some() {
            self.inputs_before.resize(self.system.description().n_inputs, 0.0);
            self.inputs.fill(self.run.stepper.now.time, true, &mut self.inputs_before);
        }
    }

    /// Lets the states cross the jump of the inputs since they were marked, as the rules say; nothing if there are no
    /// rules or no jump.
    fn cross_inputs(&mut self) -> Result<Option<Course>, IntegrateError> {
        if self.run.rules.transfer.is_none() {
            return Ok(None);
        }
        let mut after = self.inputs_before.clone();
        self.inputs.fill(self.run.stepper.now.time, true, &mut after);
        if after == self.inputs_before {
            return Ok(None);
        }
        // The point before the jump, whatever was looked at since.
        let stepper = &mut self.run.stepper;
        stepper.now.states.copy_from_slice(&self.given);
        stepper.model.input_values.copy_from_slice(&self.inputs_before);
        stepper.solve_here(None)?;
        let course = self.run.cross_break(&mut self.simulation)?;
        self.given.copy_from_slice(&self.run.stepper.now.states);
        self.inputs_before = after;
        (self.is_solved, self.is_factored, self.is_broken) = (true, false, false);
        Ok(Some(course))
    }

    /// The time.
    #[must_use]
    pub fn time(&self) -> f64 {
        self.run.stepper.now.time
    }

    /// Parameters, those that the start determined included.
    #[must_use]
    pub fn parameters(&self) -> &[f64] {
        &self.run.stepper.model.parameters
    }

    /// The states as they were set, or as the last event or own step left them.
    #[must_use]
    pub fn states(&self) -> &[f64] {
        &self.given
    }

    /// Moves to a time.
    pub fn set_time(&mut self, time: f64) {
        self.is_solved &= self.run.stepper.now.time == time;
        self.run.stepper.now.time = time;
    }

    /// Sets the states.
    pub fn set_states(&mut self, states: &[f64]) {
        self.given.copy_from_slice(states);
        self.is_solved = false;
    }

    /// Takes note that inputs were set.
    pub fn note_inputs(&mut self) {
        (self.is_solved, self.is_broken) = (false, true);
    }

    /// Sets all parameters.
    pub fn set_parameters(&mut self, parameters: &[f64]) {
        self.run.stepper.model.parameters.copy_from_slice(parameters);
        self.run.stepper.model.unknown_solver.forget_matrix();
        (self.is_solved, self.is_broken) = (false, true);
    }

    /// Solves all equations at the point set.
    ///
    /// # Errors
    /// When they have no solution there.
    pub fn solve(&mut self) -> Result<(), IntegrateError> {
        if self.is_solved {
            return Ok(());
        }
        self.slid_to = None;
        let stepper = &mut self.run.stepper;
        let time = stepper.now.time;
        let before = stepper.now.unknowns.clone();
        self.inputs.fill(time, true, &mut stepper.model.input_values);
        stepper.now.states.copy_from_slice(&self.given);
        if let Err(error) = stepper.solve_here(None) {
            stepper.now.unknowns.copy_from_slice(&before);
            stepper.model.unknown_solver.forget_matrix();
            return Err(error);
        }
        (self.is_solved, self.is_factored) = (true, false);
        Ok(())
    }

    /// How far the states that were set are off the constraints, in units of the tolerance. [`Exchange::solve`] comes
    /// before.
    #[must_use]
    pub fn offset(&self) -> f64 {
        let stepper = &self.run.stepper;
        if !stepper.has_constraints() {
            return 0.0;
        }
        let off = self.given.iter().zip(&stepper.now.states).zip(&stepper.model.state_weights);
        off.map(|((given, on), weight)| ((given - on) / weight).abs()).fold(0.0, f64::max)
    }

    /// Refuses a point at which an assertion of the model does not hold.
    ///
    /// # Errors
    /// The assertion.
    pub fn check_assertions(&mut self) -> Result<(), IntegrateError> {
        self.solve()?;
        self.run.check_assertions(&mut self.simulation)
    }

    /// Rates of the states at the point solved.
    #[must_use]
    pub fn rates(&self) -> &[f64] {
        &self.run.stepper.now.rates
    }

    /// The states on the constraints at the point solved.
    #[must_use]
    pub fn solved_states(&self) -> &[f64] {
        &self.run.stepper.now.states
    }

    /// The unknowns at the point solved.
    #[must_use]
    pub fn unknowns(&self) -> &[f64] {
        &self.run.stepper.now.unknowns
    }

    /// Observed quantities at the point solved.
    #[must_use]
    pub fn observed(&mut self) -> Vec<f64> {
        match &self.slid_to {
            Some(row) => row.clone(),
            None => self.run.stepper.observe_here(),
        }
    }

    /// Event functions with their margins at the point solved.
    #[must_use]
    pub fn indicators(&mut self) -> Vec<f64> {
        if !self.run.has_events {
            return vec![1.0; self.margins.len()];
        }
        let values = self.run.events.values_here(&self.run.stepper).to_vec();
        let sides = self.run.events.sides.iter().zip(&self.margins);
        values
            .iter()
            .zip(sides)
            .map(|(value, (above, margin))| if *above { value + margin } else { value - margin })
            .collect()
    }

    fn set_margins(&mut self) {
        if !self.run.has_events || self.margins.is_empty() {
            return;
        }
        let noise = self.run.events.noise(&self.run.stepper);
        for (margin, noise) in self.margins.iter_mut().zip(noise) {
            *margin = (MARGIN * noise).max(LEAST_MARGIN);
        }
    }

    /// Settles an event at the point set.
    ///
    /// # Errors
    /// When it does not settle, an assertion fails, or the equations have no solution.
    pub fn settle(&mut self, is_end: bool) -> Result<Happened, IntegrateError> {
        let before = self.given.clone();
        let crossed = self.cross_inputs()?;
        self.solve()?;
        let mut happened = Happened { is_end: crossed == Some(Course::Ends), ..Happened::default() };
        if self.run.has_events && !happened.is_end {
            let course = self.run.happen(&mut self.simulation, is_end, true)?;
            happened.is_end = course == Course::Ends;
            self.set_margins();
        }
        if !self.simulation.events.is_empty() {
            self.slid_to = None;
        }
        self.forget_rows();
        let states = &self.run.stepper.now.states;
        happened.has_new_states = before != *states;
        self.given.copy_from_slice(states);
        (self.is_solved, self.is_factored, self.is_broken) = (true, false, false);
        Ok(happened)
    }

    /// The next time at which an event is scheduled, as far as `until`; infinite if there is none.
    #[must_use]
    pub fn next_event(&mut self, until: f64) -> f64 {
        if self.run.has_events { self.run.events.next_scheduled(&self.run.stepper, until) } else { f64::INFINITY }
    }

    /// Whether anything can happen at all.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.run.has_events
    }

    /// Lets inputs and parameters that were set since the last own step jump.
    fn cross(&mut self) -> Result<Option<Course>, IntegrateError> {
        let mut crossed = self.cross_inputs()?;
        if self.is_broken || !self.is_solved {
            self.run.stepper.now.states.copy_from_slice(&self.given);
            crossed = Some(self.run.cross_break(&mut self.simulation)?);
        }
        // What was seen where the last steps slid to is of use to what crosses there only.
        self.run.observed_before = None;
        Ok(crossed)
    }

    /// Lets what was set since the last own step jump, as the next step would before it begins; true where the model
    /// ends the simulation.
    ///
    /// # Errors
    /// As [`Exchange::advance`].
    pub fn take_inputs(&mut self) -> Result<bool, IntegrateError> {
        let is_end = self.cross()? == Some(Course::Ends);
        Ok(self.reached(true, is_end).is_end)
    }

    /// Takes own steps to a time, through all events on the way, or to the first of them. Inputs that were set since
    /// the last step jump now.
    ///
    /// # Errors
    /// When the method gives up; the error says when and where.
    pub fn advance(&mut self, end: f64, stops_at_events: bool) -> Result<Advanced, IntegrateError> {
        if self.cross()? == Some(Course::Ends) {
            return Ok(self.reached(true, true));
        }
        let mut has_event = false;
        while self.run.stepper.now.time < end {
            let scheduled = self.next_event(end);
            let n_events = self.simulation.events.len();
            let course = self.run.run_to(end, &mut self.simulation)?;
            if course == Course::Ends {
                return Ok(self.reached(true, true));
            }
            let is_due = scheduled - end <= 1e-13 * (end.abs() + scheduled.abs());
            if self.run.has_events && self.run.stepper.now.time >= end && is_due && scheduled.is_finite() {
                let course = self.run.happen(&mut self.simulation, false, true)?;
                return Ok(self.reached(true, course == Course::Ends));
            }
            has_event |= self.simulation.events.len() > n_events;
            if has_event && stops_at_events {
                break;
            }
        }
        Ok(self.reached(has_event, false))
    }

    fn reached(&mut self, has_event: bool, is_end: bool) -> Advanced {
        self.forget_rows();
        self.slid_to.clone_from(&self.run.observed_before);
        self.given.copy_from_slice(&self.run.stepper.now.states);
        (self.is_solved, self.is_factored, self.is_broken) = (true, false, false);
        self.set_margins();
        self.mark_inputs();
        Advanced { time: self.run.stepper.now.time, has_event, is_end }
    }

    /// Rows around jumps are of no use here.
    fn forget_rows(&mut self) {
        let Simulation { times, rows, jumps, events, slides, warnings, .. } = &mut self.simulation;
        times.clear();
        rows.clear();
        jumps.clear();
        events.clear();
        slides.clear();
        warnings.clear();
    }

    /// What determines all that follows, apart from the inputs.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let stepper = &self.run.stepper;
        Snapshot {
            time: stepper.now.time,
            states: self.given.clone(),
            unknowns: stepper.now.unknowns.clone(),
            parameters: stepper.model.parameters.clone(),
            modes: stepper.model.modes.clone(),
            sides: self.run.events.sides.iter().map(|&above| f64::from(u8::from(above))).collect(),
            margins: self.margins.clone(),
            ticks: self.run.events.last_ticks().to_vec(),
        }
    }

    /// Goes on from a snapshot of the same system. Inputs are set before.
    ///
    /// # Errors
    /// When the equations have no solution there.
    pub fn resume(
        system: &'s dyn DaeSystem,
        inputs: &'s SettableInputs,
        rules: Rules<'s>,
        options: &'s SimulateOptions,
        snapshot: &Snapshot,
    ) -> Result<Self, IntegrateError> {
        let mut values = vec![0.0; system.description().n_inputs];
        inputs.fill(snapshot.time, true, &mut values);
        let initialized = Initialized {
            states: snapshot.states.clone(),
            unknowns: snapshot.unknowns.clone(),
            parameters: snapshot.parameters.clone(),
            iterations: 0,
            residual: 0.0,
        };
        let start = HybridStart { initialized, modes: snapshot.modes.clone() };
        let simulation = Simulation::begin(start.initialized.clone(), 0, system.description().observed.len());
        let stepper = Stepper::new(system, inputs, options, snapshot.time, &start.initialized, values, start.modes)?;
        let mut exchange = Self {
            run: Run::new(system, inputs, rules, options, stepper),
            simulation,
            inputs,
            system,
            given: snapshot.states.clone(),
            is_solved: false,
            slid_to: None,
            is_broken: false,
            inputs_before: Vec::new(),
            margins: snapshot.margins.clone(),
            solver: None,
            is_factored: false,
        };
        for (side, &above) in exchange.run.events.sides.iter_mut().zip(&snapshot.sides) {
            *side = above != 0.0;
        }
        exchange.run.events.set_last_ticks(&snapshot.ticks);
        exchange.run.history = History::new(exchange.margins.len(), options.stop - options.start);
        exchange.solve()?;
        exchange.mark_inputs();
        Ok(exchange)
    }

    /// How rates and observed quantities change with what is given, exactly: with the point solved,
    ///
    /// ```text
    /// G ds + g_u du + g_p dp = 0         ds from the given change by the least change
    /// F_v dv = -(F_s ds + F_u du + F_p dp)
    /// dh = h_s ds + h_v dv + h_u du + h_p dp
    /// ```
    ///
    /// # Errors
    /// When the equations do not determine the unknowns to first order.
    pub fn tangent(&mut self, seed: &Seed) -> Result<Tangent, IntegrateError> {
        self.solve()?;
        let n_constraints = self.system.description().constraints.len();
        let mut states = seed.states.clone();
        if n_constraints > 0 {
            let mut drive = vec![0.0; n_constraints];
            self.add_product(Part::ConstraintByInputs, &seed.inputs, &mut drive);
            self.add_product(Part::ConstraintByParameters, &seed.parameters, &mut drive);
            self.run.stepper.project_change(&mut states, &drive)?;
        }
        let mut unknowns = vec![0.0; self.system.description().unknowns.len()];
        self.factor()?;
        self.run.stepper.model.equations.subtract_by_states(&states, &mut unknowns);
        let mut drive = vec![0.0; unknowns.len()];
        self.add_product(Part::ResidualByInputs, &seed.inputs, &mut drive);
        self.add_product(Part::ResidualByParameters, &seed.parameters, &mut drive);
        unknowns.iter_mut().zip(&drive).for_each(|(unknown, drive)| *unknown -= drive);
        if let Some(solver) = &mut self.solver {
            let solved = solver.solve(&mut unknowns);
            solved.map_err(|singular| {
                let stepper = &self.run.stepper;
                stepper.model.equations.singular(stepper.now.time, singular)
            })?;
        }
        let mut observed = vec![0.0; self.system.description().observed.len()];
        self.add_product(Part::ObservedByStates, &states, &mut observed);
        self.add_product(Part::ObservedByUnknowns, &unknowns, &mut observed);
        self.add_product(Part::ObservedByInputs, &seed.inputs, &mut observed);
        self.add_product(Part::ObservedByParameters, &seed.parameters, &mut observed);
        let mut rates = vec![0.0; states.len()];
        self.run.stepper.model.equations.rates(&states, &unknowns, &mut rates);
        Ok(Tangent { rates, observed, states, unknowns })
    }

    /// Makes dF/dv and dF/ds at the point solved, the first of them factored.
    fn factor(&mut self) -> Result<(), IntegrateError> {
        if self.is_factored || self.system.description().unknowns.is_empty() {
            return Ok(());
        }
        let stepper = &mut self.run.stepper;
        let now = stepper.now.clone();
        stepper.model.differentiate(&now)?;
        let equations = &stepper.model.equations;
        let mut solver = match self.solver.take() {
            Some(solver) => solver,
            None => LinearSolver::new(self.system.pattern(Part::ResidualByUnknowns))
                .map_err(|singular| equations.singular(now.time, singular))?,
        };
        solver.factor(&equations.by_unknowns).map_err(|singular| equations.singular(now.time, singular))?;
        self.solver = Some(solver);
        self.is_factored = true;
        Ok(())
    }

    /// product += matrix * factors at the point solved.
    fn add_product(&mut self, part: Part, factors: &[f64], product: &mut [f64]) {
        let pattern = self.system.pattern(part);
        if pattern.n_entries() == 0 || factors.iter().all(|factor| *factor == 0.0) {
            return;
        }
        let mut values = vec![0.0; pattern.n_entries()];
        let here = self.run.stepper.place_here();
        self.run.stepper.evaluate_into(part, &here, &mut values);
        for (entry, (row, column)) in pattern.entries().enumerate() {
            if factors[column] != 0.0 {
                product[row] += values[entry] * factors[column];
            }
        }
    }
}
