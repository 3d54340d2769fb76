//! The programs of a method and their memory.

use std::sync::{Arc, OnceLock};

use daesy_system::{LaneSteps, StepLayout, StepMethod, StepProgram, StepProgramError};

use super::blueprint::{Blueprint, Draft, NEWTON_STEPS_AT_START};
use super::{lane_explicit, lane_implicit};
use crate::interpret::{Executor, Interpreter};
use crate::memory::{Exchange, LaneMemory};
use crate::switches::Switches;
use crate::tape::{Tape, TapeError, Value};

/// A search for unknowns at a start goes on where they still move by this part of their size and nominal value: from
/// there on Newton's steps of one run square their distance to the solution until it is rounding.
const UNSETTLED: f64 = 1e-6;

/// Runs of the program of a start at most.
const MAX_RUNS_AT_START: usize = 8;

/// Newton steps of the projection at a start.
const PROJECTIONS_AT_START: usize = 2;

/// A program whose uniform part runs once for all lanes.
struct Program {
    prelude: Interpreter,
    /// The rest, with what the prelude gives as constants.
    main: Interpreter,
    /// Constants of the main part before those.
    n_constants: usize,
    /// The rest, with what the prelude gives as rows of lanes.
    rows: Tape,
    /// The same, ready to run when lanes have parameters of their own.
    each: OnceLock<Interpreter>,
    n_lane_inputs: usize,
    /// By lane input, whether the main part reads it.
    is_read: Vec<bool>,
}

impl Program {
    fn new(draft: Draft<'_>, outputs: &[Value]) -> Result<Self, StepProgramError> {
        let n_lane_inputs = draft.n_lane_inputs;
        let split = draft
            .builder
            .finish_split(outputs, n_lane_inputs)
            .map_err(|error: TapeError| StepProgramError::Unsupported { reason: error.to_string() })?;
        let mut is_read = split.main.read_slots();
        is_read.truncate(n_lane_inputs);
        Ok(Self {
            prelude: Interpreter::new(split.prelude),
            main: Interpreter::new(split.main.with_constants_for_inputs(n_lane_inputs)),
            n_constants: split.main.constants().len(),
            rows: split.main,
            each: OnceLock::new(),
            n_lane_inputs,
            is_read,
        })
    }
}

/// The programs of a method.
pub(crate) struct CompiledSteps {
    layout: StepLayout,
    step: Program,
    start: Program,
    observe: Program,
    all_states: Program,
    /// The parameters that vary, direction by direction.
    seeds: Vec<Vec<u32>>,
    /// Carried rows that a start searches for, with nominal values: unknowns of nonlinear blocks. Where the search
    /// begins is not part of what it finds.
    searched: Vec<(usize, f64)>,
    /// Whether a step has eliminations to watch.
    is_watched: bool,
    /// What changes with time alone, with the parameters it depends on.
    switches: Option<(Arc<Switches>, Vec<Option<usize>>)>,
}

impl CompiledSteps {
    pub(super) fn new(blueprint: &Blueprint<'_>) -> Result<Self, StepProgramError> {
        let mut layout = blueprint.layout.clone();
        let mut draft = Draft::new(blueprint, layout.nodes.len(), true);
        let outputs = match blueprint.request.method {
            StepMethod::Implicit3 => lane_implicit::step(&mut draft, blueprint),
            method => lane_explicit::step(&mut draft, method),
        };
        let growth = draft.watch.growth(&mut draft.builder);
        let mut rows = draft.with_tangents(&outputs.carried);
        rows.push(outputs.error);
        rows.extend(growth);
        let step = Program::new(draft, &rows)?;
        layout.n_operations = step.main.tape().instructions().len();

        let mut draft = Draft::new(blueprint, 1, false);
        let around = draft.around(0, draft.time);
        let (mut states, guess) = (draft.states(), draft.carried_unknowns());
        // States that come from a correction, or meet an input that has jumped, may be far from the constraints.
        for _ in 0..PROJECTIONS_AT_START {
            states = draft.project(&around, &states);
        }
        let unknowns = draft.solve(&around, &states, &guess, &blueprint.step_unknowns, NEWTON_STEPS_AT_START);
        let carried = draft.carry(&states, &unknowns);
        let rows = draft.with_tangents(&carried);
        let start = Program::new(draft, &rows)?;

        let mut draft = Draft::new(blueprint, 1, false);
        let observed = draft.observed();
        let rows = draft.with_tangents(&observed);
        let observe = Program::new(draft, &rows)?;

        let mut draft = Draft::new(blueprint, 1, false);
        let rows = draft.all_states();
        let all_states = Program::new(draft, &rows)?;
        let seeds = blueprint.request.directions.iter().map(|direction| direction.parameters.clone()).collect();
        let is_watched = growth.is_some();
        let parameters = &blueprint.system.regular.parameters;
        let switches = blueprint.system.switches.as_ref().map(|switches| {
            let place = |var: &daesy_graph::VarId| parameters.iter().position(|parameter| parameter == var);
            (switches.clone(), switches.leaves().iter().map(place).collect())
        });
        let searched = blueprint.searched_rows();
        Ok(Self { layout, step, start, observe, all_states, seeds, searched, is_watched, switches })
    }
}

impl StepProgram for CompiledSteps {
    fn layout(&self) -> &StepLayout {
        &self.layout
    }

    fn breaks(&self, parameters: &[f64], from: f64, until: f64, limit: usize) -> Option<Vec<f64>> {
        let Some((switches, places)) = &self.switches else { return Some(Vec::new()) };
        let leaves: Vec<f64> = places.iter().map(|place| place.map_or(f64::NAN, |place| parameters[place])).collect();
        let mut breaks = Vec::new();
        let mut from = from;
        while let Some(change) = switches.next(&leaves, from, until) {
            if breaks.len() >= limit {
                return None;
            }
            breaks.push(change.after);
            from = change.after;
        }
        Some(breaks)
    }

    fn lanes(&self, n_lanes: usize) -> Box<dyn LaneSteps + '_> {
        Box::new(Lanes {
            programs: self,
            step: Running::new(&self.step, n_lanes),
            is_exchanged: false,
            start: Running::new(&self.start, n_lanes),
            observe: Running::new(&self.observe, n_lanes),
            all_states: Running::new(&self.all_states, n_lanes),
        })
    }
}

/// A program with its memory.
struct Running<'p> {
    program: &'p Program,
    /// The main part, in the form that is in use.
    main: &'p Interpreter,
    memory: LaneMemory,
    prelude: LaneMemory,
}

impl<'p> Running<'p> {
    fn new(program: &'p Program, n_lanes: usize) -> Self {
        let main = &program.main;
        Self { program, main, memory: main.memory(n_lanes), prelude: program.prelude.memory(1) }
    }

    /// Goes over to another form of the main part.
    fn have_main(&mut self, main: &'p Interpreter) {
        if !self.memory.is_for(main.tape()) {
            let mut memory = main.memory(self.memory.n_lanes());
            let n = self.program.n_lane_inputs * memory.stride();
            memory.inputs_mut()[..n].copy_from_slice(&self.memory.inputs()[..n]);
            self.memory = memory;
            self.main = main;
        }
    }

    /// Runs the prelude for all lanes.
    fn prepare(&mut self, uniform: &[f64]) {
        self.have_main(&self.program.main);
        self.have_prelude_lanes(1);
        self.prelude.inputs_mut().copy_from_slice(uniform);
        self.program.prelude.run_lanes(&mut self.prelude);
        for (at, &value) in self.prelude.outputs().iter().enumerate() {
            self.memory.set_constant(self.program.n_constants + at, value);
        }
    }

    fn have_prelude_lanes(&mut self, n_lanes: usize) {
        if self.prelude.n_lanes() != n_lanes {
            self.prelude = self.program.prelude.memory(n_lanes);
        }
    }

    /// Runs the prelude in lanes, each with parameters of its own.
    fn prepare_each(&mut self, step: f64, parameters: &[&[f64]]) {
        let n_lanes = parameters.len();
        self.have_main(self.program.each.get_or_init(|| Interpreter::new(self.program.rows.clone())));
        self.have_prelude_lanes(n_lanes);
        let stride = self.prelude.stride();
        let inputs = self.prelude.inputs_mut();
        inputs.fill(0.0);
        for (lane, parameters) in parameters.iter().enumerate() {
            inputs[lane] = step;
            for (at, &value) in parameters.iter().enumerate() {
                inputs[(1 + at) * stride + lane] = value;
            }
        }
        self.program.prelude.run_lanes(&mut self.prelude);
        let from = self.program.n_lane_inputs;
        let rows = self.memory.stride();
        let targets = self.memory.inputs_mut()[from * rows..].chunks_exact_mut(rows);
        for (target, values) in targets.zip(self.prelude.outputs().chunks_exact(stride)) {
            target[..n_lanes].copy_from_slice(&values[..n_lanes]);
        }
    }

    fn run(&mut self) {
        self.main.run_lanes(&mut self.memory);
    }

    fn rows(&self, first: usize, n: usize) -> &[f64] {
        let stride = self.memory.stride();
        &self.memory.inputs()[first * stride..(first + n) * stride]
    }

    fn rows_mut(&mut self, first: usize, n: usize) -> &mut [f64] {
        let stride = self.memory.stride();
        &mut self.memory.inputs_mut()[first * stride..(first + n) * stride]
    }
}

struct Lanes<'p> {
    programs: &'p CompiledSteps,
    step: Running<'p>,
    /// Whether the carried rows are where a step writes them: the next one then writes them where it usually reads
    /// them.
    is_exchanged: bool,
    start: Running<'p>,
    observe: Running<'p>,
    all_states: Running<'p>,
}

impl Lanes<'_> {
    /// First row of the signals of a node.
    fn signals_at(&self, node: usize) -> usize {
        let layout = &self.programs.layout;
        1 + layout.n_carried_rows() + node * layout.n_signal_rows()
    }

    /// The carried rows before and after a step.
    fn exchange(&self) -> Exchange {
        Exchange { input: 1, output: self.step.program.rows.n_inputs(), n: self.programs.layout.n_carried_rows() }
    }

    /// Whether what a start found is where it began to search, in all lanes that have numbers.
    fn is_settled(&self) -> bool {
        let (stride, n_lanes) = (self.stride(), self.step.memory.n_lanes());
        self.programs.searched.iter().all(|&(row, nominal)| {
            let (before, after) = (self.step.rows(1 + row, 1), &self.start.memory.outputs()[row * stride..]);
            let moves = |(before, after): (&f64, &f64)| (after - before).abs() > UNSETTLED * (after.abs() + nominal);
            !before[..n_lanes].iter().zip(after).any(moves)
        })
    }

    /// Brings the carried rows to their own places.
    fn settle(&mut self) {
        if std::mem::take(&mut self.is_exchanged) {
            self.step.memory.feed_back(0, 1, self.programs.layout.n_carried_rows());
        }
    }
}

impl Running<'_> {
    /// Takes over carried rows and the signals of a node from a step's program, as far as they are read.
    fn take_over(&mut self, step: &Running<'_>, layout: &StepLayout, first_signal: usize, time: f64) {
        let stride = self.memory.stride();
        let n_carried = layout.n_carried_rows();
        let sources = (1..=n_carried).chain(first_signal..first_signal + layout.n_signal_rows());
        let is_read = &self.program.is_read;
        let rows = self.memory.inputs_mut();
        if is_read[0] {
            rows[..stride].fill(time);
        }
        for ((row, source), &is_read) in rows.chunks_exact_mut(stride).skip(1).zip(sources).zip(&is_read[1..]) {
            if is_read {
                row.copy_from_slice(step.rows(source, 1));
            }
        }
    }
}

impl LaneSteps for Lanes<'_> {
    fn stride(&self) -> usize {
        self.step.memory.stride()
    }

    fn prepare(&mut self, step: f64, parameters: &[f64], tangents: &[Vec<f64>]) {
        self.settle();
        let mut uniform = vec![step];
        uniform.extend_from_slice(parameters);
        for (seeds, tangent) in self.programs.seeds.iter().zip(tangents) {
            uniform.extend(seeds.iter().map(|&parameter| tangent[parameter as usize]));
        }
        for running in [&mut self.step, &mut self.start, &mut self.observe, &mut self.all_states] {
            running.prepare(&uniform);
        }
    }

    fn prepare_each(&mut self, step: f64, parameters: &[&[f64]]) {
        assert_eq!(parameters.len(), self.step.memory.n_lanes(), "there are parameters for each lane");
        let n_seeds: usize = self.programs.seeds.iter().map(Vec::len).sum();
        let n_parameters = self.step.program.prelude.tape().n_inputs() - 1 - n_seeds;
        assert!(parameters.iter().all(|own| own.len() == n_parameters), "each lane has {n_parameters} parameters");
        self.settle();
        for running in [&mut self.step, &mut self.start, &mut self.observe, &mut self.all_states] {
            running.prepare_each(step, parameters);
        }
    }

    fn carried(&self) -> &[f64] {
        let n = self.programs.layout.n_carried_rows();
        if self.is_exchanged { &self.step.memory.outputs()[..n * self.stride()] } else { self.step.rows(1, n) }
    }

    fn carried_mut(&mut self) -> &mut [f64] {
        self.settle();
        let n = self.programs.layout.n_carried_rows();
        self.step.rows_mut(1, n)
    }

    fn signals_mut(&mut self, node: usize) -> &mut [f64] {
        let n_nodes = self.programs.layout.nodes.len();
        assert!(node < n_nodes, "node {node} of a method with {n_nodes}");
        let (first, n) = (self.signals_at(node), self.programs.layout.n_signal_rows());
        self.step.rows_mut(first, n)
    }

    fn weights_mut(&mut self) -> &mut [f64] {
        let layout = &self.programs.layout;
        let (first, n) = (self.signals_at(layout.nodes.len()), layout.states.len());
        self.step.rows_mut(first, n)
    }

    fn start(&mut self, time: f64) {
        self.settle();
        let last = self.signals_at(self.programs.layout.nodes.len() - 1);
        let n = self.programs.layout.n_carried_rows();
        for _ in 0..MAX_RUNS_AT_START {
            self.start.take_over(&self.step, &self.programs.layout, last, time);
            self.start.run();
            let is_settled = self.is_settled();
            let Self { step, start, .. } = self;
            step.rows_mut(1, n).copy_from_slice(start.memory.outputs());
            if is_settled {
                break;
            }
        }
    }

    fn step(&mut self, time: f64) {
        if self.step.program.is_read[0] {
            self.step.rows_mut(0, 1).fill(time);
        }
        let exchange = self.exchange();
        let Self { step, is_exchanged, .. } = self;
        let is_done = *is_exchanged && step.main.execute_exchanged(&mut step.memory, exchange);
        if !is_done {
            self.settle();
            self.step.run();
        }
    }

    fn error(&self) -> &[f64] {
        self.step.memory.output(self.programs.layout.n_carried_rows())
    }

    fn growth(&self) -> &[f64] {
        if self.programs.is_watched { self.step.memory.output(self.programs.layout.n_carried_rows() + 1) } else { &[] }
    }

    fn accept(&mut self) {
        if self.is_exchanged {
            self.is_exchanged = false;
            return;
        }
        let exchange = self.exchange();
        if self.step.main.can_exchange(&self.step.memory, exchange) {
            self.is_exchanged = true;
        } else {
            self.step.memory.feed_back(0, 1, exchange.n);
        }
    }

    fn observe(&mut self, time: f64) -> &[f64] {
        self.settle();
        let last = self.signals_at(self.programs.layout.nodes.len() - 1);
        self.observe.take_over(&self.step, &self.programs.layout, last, time);
        self.observe.run();
        self.observe.memory.outputs()
    }

    fn all_states(&mut self, time: f64) -> &[f64] {
        self.settle();
        let last = self.signals_at(self.programs.layout.nodes.len() - 1);
        self.all_states.take_over(&self.step, &self.programs.layout, last, time);
        self.all_states.run();
        self.all_states.memory.outputs()
    }
}
