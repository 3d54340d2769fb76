//! A compiled model as methods see it: evaluators of its parts, and the programs that it offers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use daesy_graph::VarId;
use daesy_graph::foreign::{ForeignUnit, Remembered};
use daesy_graph::history::History;
use daesy_graph::transport::{Flowing, Transport};
use daesy_system::{
    ConstraintStep, DaeSystem, Description, Evaluator, ExplicitMethod, ExplicitSteps, GivenParameter, LaneEvaluator,
    LanePoint, LinearUnknowns, Offer, ParameterError, Part, Past, Pattern, Point, StepProgram, StepProgramError,
    StepRequest,
};

use crate::interpret::Executor;
use crate::lower::{
    CompiledSystem, N_PARTS, compile_start, differentiate_parameters, evaluate_parameters, follow_free_parameters,
};
use crate::memory::LaneMemory;
use crate::method::{self, ConstraintProgram, ExplicitProgram, UnknownsProgram};
use crate::pool::Lent;

/// Explicit steps after which a program for them is worth it.
const MANY_STEPS: u32 = 120;

impl DaeSystem for CompiledSystem {
    fn description(&self) -> &Description {
        &self.description
    }

    fn pattern(&self, part: Part) -> &Pattern {
        &self.part(part).pattern
    }

    fn evaluator(&self) -> Box<dyn Evaluator + '_> {
        let memories = self.memories.lend(|| (0..N_PARTS).map(|_| None).collect());
        Box::new(PointEvaluator { system: self, memories })
    }

    fn lane_evaluator(&self, n_lanes: usize) -> Box<dyn LaneEvaluator + '_> {
        Box::new(TapeLanes { system: self, memories: (0..N_PARTS).map(|_| None).collect(), n_lanes })
    }

    fn parameter_values(&self, given: &[GivenParameter]) -> Result<Vec<f64>, ParameterError> {
        evaluate_parameters(&self.regular, given)
    }

    fn follow_free_parameters(&self, parameters: &mut [f64]) {
        follow_free_parameters(&self.regular, parameters);
    }

    fn start_system(&self) -> Option<&dyn DaeSystem> {
        if !self.is_literal {
            return None;
        }
        self.start.get_or_init(|| compile_start(self)).as_deref().map(|system| system as &dyn DaeSystem)
    }

    fn parameter_tangent(&self, given: &[GivenParameter], by: u32) -> Result<Vec<f64>, ParameterError> {
        let values = evaluate_parameters(&self.regular, given)?;
        Ok(differentiate_parameters(&self.regular, given, &values, by))
    }

    fn linear_unknowns(&self, reference: &Point<'_>) -> Option<Box<dyn LinearUnknowns + '_>> {
        let program = self.unknowns.get_or_init(|| UnknownsProgram::new(self, reference)).as_ref()?;
        Some(Box::new(program.solver()))
    }

    fn constraint_step(&self) -> Option<Box<dyn ConstraintStep + '_>> {
        let program = self.constraints.get_or_init(|| ConstraintProgram::new(self)).as_ref()?;
        Some(Box::new(program.step()))
    }

    fn explicit_steps(&self, method: &ExplicitMethod<'_>) -> Offer<Box<dyn ExplicitSteps + '_>> {
        let Some(Some(unknowns)) = self.unknowns.get() else { return Offer::Never };
        if self.explicit.get().is_none() {
            // Lost counts do no harm.
            let n_asked = self.n_explicit_asked.load(Ordering::Relaxed);
            if n_asked < MANY_STEPS {
                self.n_explicit_asked.store(n_asked + 1, Ordering::Relaxed);
                return Offer::NotYet;
            }
        }
        let program = self.explicit.get_or_init(|| ExplicitProgram::new(self, unknowns, method));
        match program {
            Some(program) if program.is_for(method) => Offer::Ready(Box::new(program.steps())),
            _ => Offer::Never,
        }
    }

    fn next_switch(&self, point: &Point<'_>, until: f64) -> f64 {
        let Some(switches) = &self.switches else { return f64::INFINITY };
        let groups: [&[f64]; 6] =
            [&[point.time], point.states, point.unknowns, point.parameters, point.inputs, point.modes];
        let value = |place: u32| {
            let mut at = place as usize;
            for group in groups {
                match group.get(at) {
                    Some(&value) => return value,
                    None => at -= group.len(),
                }
            }
            f64::NAN
        };
        let place = |var: &VarId| self.places.of_leaf.get(&(*var, 0)).copied();
        let leaves: Vec<f64> = switches.leaves().iter().map(|var| place(var).map_or(f64::NAN, value)).collect();
        switches.next(&leaves, point.time, until).map_or(f64::INFINITY, |change| change.after)
    }

    fn is_elsewhere(&self) -> bool {
        self.graph.calls_foreign()
    }

    fn whole_observed(&self) -> Vec<usize> {
        let whole = self.graph.whole_variables();
        let observed = self.description.observed.iter().enumerate();
        observed.filter(|(_, name)| whole.contains(&name.as_str())).map(|(at, _)| at).collect()
    }

    fn noise(&self) -> f64 {
        self.graph.noise()
    }

    fn pasts(&self) -> Vec<Box<dyn Past + '_>> {
        let observed = &self.description.observed;
        let place = |name: &str| observed.iter().position(|known| known == name);
        let past = |unit: Arc<dyn ForeignUnit>| -> Option<Box<dyn Past>> {
            Some(match unit.remembered()? {
                Remembered::History(history) => {
                    let (signal, reading) = (place(&history.signal)?, place(&history.reading)?);
                    Box::new(WrittenHistory { unit, signal, reading })
                }
                Remembered::Transport(pipe) => {
                    let initial = pipe.initial.iter().map(|(point, value)| Some((place(point)?, place(value)?)));
                    let initial = initial.collect::<Option<Vec<_>>>()?;
                    let (moved, is_forward) = (place(&pipe.moved)?, place(&pipe.is_forward)?);
                    let (low, high) = (place(&pipe.low)?, place(&pipe.high)?);
                    Box::new(WrittenTransport { unit, moved, is_forward, low, high, initial })
                }
            })
        };
        self.graph.histories().into_iter().filter_map(past).collect()
    }

    fn step_program(&self, request: &StepRequest<'_>) -> Result<Box<dyn StepProgram>, StepProgramError> {
        Ok(Box::new(method::build(self, request)?))
    }
}

/// A history over time, written from rows of observed quantities.
struct WrittenHistory {
    unit: Arc<dyn ForeignUnit>,
    /// Positions of the signal and of the time that it is read at.
    signal: usize,
    reading: usize,
}

impl WrittenHistory {
    fn history(&self) -> Option<&History> {
        match self.unit.remembered() {
            Some(Remembered::History(history)) => Some(history),
            _ => None,
        }
    }
}

impl Past for WrittenHistory {
    fn begin(&self, time: f64, row: &[f64]) {
        if let Some(history) = self.history() {
            history.begin(time, row[self.signal]);
        }
    }

    fn write(&self, rows: &[(f64, Vec<f64>)], tolerance: f64, is_final: bool) -> bool {
        let pairs: Vec<(f64, f64)> = rows.iter().map(|(time, row)| (*time, row[self.signal])).collect();
        self.history().is_none_or(|history| history.write(&pairs, tolerance, is_final))
    }

    fn note_event(&self) {
        if let Some(history) = self.history() {
            history.note_event();
        }
    }

    fn longest_step(&self, time: f64, row: &[f64]) -> f64 {
        time - row[self.reading]
    }

    fn excess(&self, row: &[f64]) -> f64 {
        self.history().map_or(0.0, |history| history.excess(row[self.reading]))
    }

    fn end(&self) {
        if let Some(history) = self.history() {
            history.end();
        }
    }
}

/// A pipe, written from rows of observed quantities at these positions.
struct WrittenTransport {
    unit: Arc<dyn ForeignUnit>,
    moved: usize,
    is_forward: usize,
    low: usize,
    high: usize,
    initial: Vec<(usize, usize)>,
}

impl WrittenTransport {
    fn pipe(&self) -> Option<&Transport> {
        match self.unit.remembered() {
            Some(Remembered::Transport(pipe)) => Some(pipe),
            _ => None,
        }
    }
}

impl Past for WrittenTransport {
    fn begin(&self, _: f64, row: &[f64]) {
        if let Some(pipe) = self.pipe() {
            let initial: Vec<(f64, f64)> =
                self.initial.iter().map(|&(point, value)| (row[point], row[value])).collect();
            pipe.begin(row[self.moved], &initial);
        }
    }

    fn write(&self, rows: &[(f64, Vec<f64>)], tolerance: f64, is_final: bool) -> bool {
        let is_forward = rows[0].1[self.is_forward] != 0.0;
        let flowing: Vec<Flowing> = rows
            .iter()
            .map(|(time, row)| Flowing {
                time: *time,
                moved: row[self.moved],
                low: row[self.low],
                high: row[self.high],
            })
            .collect();
        self.pipe().is_none_or(|pipe| pipe.write(&flowing, is_forward, tolerance, is_final))
    }

    fn note_event(&self) {
        if let Some(pipe) = self.pipe() {
            pipe.note_event();
        }
    }

    /// What enters at the beginning of a step leaves at its end, if the content goes on at the pace of the last one.
    fn longest_step(&self, _: f64, _: &[f64]) -> f64 {
        self.pipe().map_or(f64::INFINITY, Transport::transit)
    }

    fn excess(&self, row: &[f64]) -> f64 {
        self.pipe().map_or(0.0, |pipe| pipe.excess(row[self.moved], row[self.is_forward] != 0.0))
    }

    fn end(&self) {
        if let Some(pipe) = self.pipe() {
            pipe.end();
        }
    }
}

/// Runs the tapes of a system for one trajectory, with memory for each part that was asked for.
struct PointEvaluator<'s> {
    system: &'s CompiledSystem,
    memories: Lent<'s, Box<[Option<LaneMemory>]>>,
}

impl Evaluator for PointEvaluator<'_> {
    fn evaluate(&mut self, part: Part, point: &Point<'_>, values: &mut [f64]) {
        let executor = &self.system.part(part).executor;
        let memory = self.memories[part as usize].get_or_insert_with(|| executor.memory(1));
        let groups: [&[f64]; 6] =
            [&[point.time], point.states, point.unknowns, point.parameters, point.inputs, point.modes];
        executor.evaluate_groups(memory, &groups, values);
    }
}

/// Runs the tapes of a system for many trajectories.
struct TapeLanes<'s> {
    system: &'s CompiledSystem,
    memories: Vec<Option<LaneMemory>>,
    n_lanes: usize,
}

impl LaneEvaluator for TapeLanes<'_> {
    fn evaluate(&mut self, part: Part, point: &LanePoint<'_>, values: &mut [f64]) {
        let executor = &self.system.part(part).executor;
        let (n_lanes, n_rows) = (self.n_lanes, executor.tape().n_inputs());
        assert_eq!(point.n_lanes, n_lanes, "a point has as many lanes as its evaluator");
        if n_lanes == 0 {
            return;
        }
        let memory = self.memories[part as usize].get_or_insert_with(|| executor.memory(n_lanes));
        let stride = memory.stride();
        let inputs = memory.inputs_mut();
        inputs[..n_lanes].fill(point.time);
        let mut row = 1;
        for group in [point.states, point.unknowns, point.parameters, point.inputs, point.modes] {
            assert!(group.len() % n_lanes == 0, "{} values are no rows of {n_lanes} lanes", group.len());
            for lanes in group.chunks_exact(n_lanes) {
                inputs[row * stride..][..n_lanes].copy_from_slice(lanes);
                row += 1;
            }
        }
        assert_eq!(row, n_rows, "a point has as many rows as the system has inputs");
        executor.run_lanes(memory);
        let outputs = memory.outputs();
        for (at, lanes) in values.chunks_exact_mut(n_lanes).enumerate() {
            lanes.copy_from_slice(&outputs[at * stride..][..n_lanes]);
        }
    }
}
