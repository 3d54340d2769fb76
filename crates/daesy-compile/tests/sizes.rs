//! Every safe function with sizes that are zero, huge or do not match: an error, a panic that its documentation
//! promises, or nothing computed; never memory that is not ours. `cargo xtask test memory` runs these tests under
//! valgrind too.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use daesy_compile::{
    Backend, CompiledSystem, ExecutionError, Executor, Interpreter, LaneMemory, Tape, TapeBuilder, TapeError,
    TapeOptions, Unary, compile,
};
use daesy_model::flatten::flatten_text;
use daesy_structure::regularize;
use daesy_system::{
    DaeSystem, Direction, LanePoint, Part, Point, ReferencePoint, StepMethod, StepProgram, StepProgramError,
    StepRequest,
};

/// Runs after which all kinds of code have been made.
const N_RUNS: usize = 70;

fn backends() -> impl Iterator<Item = Backend> {
    [Backend::Portable, Backend::Avx2, Backend::Native, Backend::Native512]
        .into_iter()
        .filter(|backend| backend.is_available())
}

/// `y = exp(x) * (x + p) - p`, `z = 3`, from the inputs x and p.
fn tape() -> Tape {
    let mut b = TapeBuilder::new(2, TapeOptions::default());
    let (x, p) = (b.input(0), b.input(1));
    let (exponential, sum) = (b.unary(Unary::Exp, x), b.add(x, p));
    let product = b.mul(exponential, sum);
    let (y, z) = (b.sub(product, p), b.constant(3.0));
    b.finish(&[y, z]).unwrap()
}

/// Whether a call panics.
fn panics<T>(call: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

#[test]
fn no_lanes_is_nothing_to_compute() {
    let tape = Arc::new(tape());
    for backend in backends() {
        let interpreter = Interpreter::with_backend(tape.clone(), backend).unwrap();
        let mut memory = LaneMemory::new(&tape, 0);
        assert_eq!((memory.n_lanes(), memory.input(1).len(), memory.output(1).len()), (0, 0, 0));
        for _ in 0..N_RUNS {
            interpreter.execute(&mut memory).unwrap();
        }
        assert_eq!(
            interpreter.execute_one(&mut memory, &[&[1.0, 2.0]], &mut [0.0]),
            Err(ExecutionError::WrongMemory),
            "memory without lanes is no memory for one lane"
        );
        memory.feed_back(0, 0, 2);
    }
    let interpreter = Interpreter::new(tape.clone());
    let mut memory = interpreter.memory(0);
    for _ in 0..N_RUNS {
        interpreter.execute(&mut memory).unwrap();
    }
}

#[test]
fn every_small_number_of_lanes_keeps_to_its_memory() {
    let tape = Arc::new(tape());
    for backend in backends() {
        let interpreter = Interpreter::with_backend(tape.clone(), backend).unwrap();
        for n_lanes in (0..=33).chain([64, 65, 72, 73, 80, 200]) {
            let mut memory = LaneMemory::new(&tape, n_lanes);
            memory.input_mut(0).fill(0.5);
            memory.input_mut(1).fill(2.0);
            for _ in 0..3 {
                interpreter.execute(&mut memory).unwrap();
            }
            let expected = interpreter.evaluate(&[0.5, 2.0]).unwrap();
            for (output, expected) in expected.iter().enumerate() {
                assert_eq!(memory.output(output), vec![*expected; n_lanes]);
            }
        }
    }
}

#[test]
fn more_lanes_than_memory_can_hold_are_refused() {
    let tape = tape();
    let n_slots = tape.n_slots();
    for n_lanes in [usize::MAX, usize::MAX - 7, usize::MAX / 2, usize::MAX / 8, usize::MAX / 64, 1 << 58] {
        let refused = LaneMemory::try_new(&tape, n_lanes).err();
        assert_eq!(refused, Some(ExecutionError::TooLarge { n_slots, n_lanes }), "{n_lanes} lanes");
    }
    assert!(panics(|| LaneMemory::new(&tape, usize::MAX)));
    assert!(panics(|| Interpreter::new(tape.clone()).memory(usize::MAX / 4)));
}

#[test]
fn a_program_of_nothing_takes_any_number_of_lanes() {
    let tape = TapeBuilder::new(0, TapeOptions::default()).finish(&[]).unwrap();
    for backend in backends() {
        let interpreter = Interpreter::with_backend(tape.clone(), backend).unwrap();
        assert_eq!(interpreter.evaluate(&[]), Ok(Vec::new()));
        for n_lanes in [0, 1, 2, 1 << 40] {
            let mut memory = LaneMemory::new(&tape, n_lanes);
            interpreter.execute(&mut memory).unwrap();
            assert!(memory.inputs().is_empty() && memory.outputs().is_empty());
        }
    }
}

#[test]
fn memory_of_no_tape_is_refused_by_all() {
    // The first tape of a process and memory by default must not take each other for their own.
    let interpreter = Interpreter::new(tape());
    let mut memory = LaneMemory::default();
    assert!(!memory.is_for(interpreter.tape()));
    assert_eq!(interpreter.execute(&mut memory), Err(ExecutionError::WrongMemory));
    assert_eq!(interpreter.execute_one(&mut memory, &[&[1.0, 2.0]], &mut []), Err(ExecutionError::WrongMemory));
    assert!(panics(|| memory.input(0).len()));
    let mut memory = LaneMemory::new(&tape(), 8);
    assert_eq!(interpreter.execute(&mut memory), Err(ExecutionError::WrongMemory));
}

#[test]
fn rows_that_do_not_exist_panic() {
    let mut memory = LaneMemory::new(&tape(), 8);
    let far = usize::MAX / memory.stride() + 1;
    for index in [2, 3, far, far + 1, usize::MAX] {
        assert!(panics(|| memory.input(index).len()), "input {index}");
        assert!(panics(|| memory.output(index).len()), "output {index}");
        assert!(panics(|| memory.input_mut(index).fill(0.0)), "input {index}");
    }
    for (output, input, n) in
        [(0, 0, 3), (2, 0, 1), (0, 2, 1), (usize::MAX, 0, 2), (0, usize::MAX, 2), (1, 1, usize::MAX)]
    {
        assert!(panics(|| memory.feed_back(output, input, n)), "{n} rows from output {output} to input {input}");
    }
    memory.feed_back(2, 2, 0);
}

#[test]
fn groups_and_outputs_of_any_length_are_used_or_refused() {
    let tape = Arc::new(tape());
    for backend in backends() {
        let interpreter = Interpreter::with_backend(tape.clone(), backend).unwrap();
        let mut memory = interpreter.memory(1);
        let mut lanes = interpreter.memory(8);
        for _ in 0..3 {
            let whole = interpreter.evaluate(&[0.5, 2.0]).unwrap();
            let empty: [&[f64]; 40] = [&[]; 40];
            for groups in [&[&[0.5, 2.0][..]][..], &[&[0.5], &[2.0]], &[&[], &[0.5, 2.0], &[]], &empty] {
                let mut outputs = [0.0; 2];
                let found = interpreter.execute_one(&mut memory, groups, &mut outputs);
                if groups.len() < 40 {
                    assert_eq!((found, outputs.to_vec()), (Ok(()), whole.clone()));
                } else {
                    assert_eq!(found, Err(ExecutionError::WrongInputs { expected: 2, found: 0 }));
                }
            }
            for n in [0, 1, 3, 100] {
                let wrong = vec![0.5; n];
                let found = interpreter.execute_one(&mut memory, &[&wrong], &mut [0.0; 2]);
                assert_eq!(found, Err(ExecutionError::WrongInputs { expected: 2, found: n }));
                assert!(interpreter.evaluate(&wrong).is_err());
            }
            for n in [0, 1, 2] {
                let mut outputs = vec![0.0; n];
                interpreter.execute_one(&mut memory, &[&[0.5, 2.0]], &mut outputs).unwrap();
                assert_eq!(outputs, whole[..n]);
            }
            for found in [3, 100] {
                let mut outputs = vec![0.0; found];
                let refused = interpreter.execute_one(&mut memory, &[&[0.5, 2.0]], &mut outputs);
                assert_eq!(refused, Err(ExecutionError::WrongOutputs { available: 2, found }));
            }
            let refused = interpreter.execute_one(&mut lanes, &[&[0.5, 2.0]], &mut [0.0]);
            assert_eq!(refused, Err(ExecutionError::WrongMemory));
        }
    }
}

#[test]
fn builders_refuse_what_they_cannot_number() {
    for n_inputs in [usize::MAX, 1 << 31, (1 << 32) + 2] {
        assert!(panics(|| TapeBuilder::new(n_inputs, TapeOptions::default())), "{n_inputs} inputs");
    }
    let mut b = TapeBuilder::new(2, TapeOptions::default());
    assert!(panics(|| b.input(2)));
    assert!(panics(|| b.input(1 << 32)));
    assert!(panics(|| b.register(usize::MAX, Arc::new(|_: &[f64], _: &mut [f64]| {}))));
    let split = |n_lane_inputs| TapeBuilder::new(2, TapeOptions::default()).finish_split(&[], n_lane_inputs).err();
    for n_lane_inputs in [3, usize::MAX] {
        assert_eq!(split(n_lane_inputs), Some(TapeError::TooFewInputs { n_lane_inputs, n_inputs: 2 }));
    }
    assert_eq!([split(0), split(1), split(2)], [None, None, None]);
}

#[test]
fn values_of_another_builder_make_no_tape_that_reads_elsewhere() {
    let foreign = {
        let mut b = TapeBuilder::new(50, TapeOptions::default());
        let (x, y) = (b.input(49), b.input(48));
        b.mul(x, y)
    };
    let new = || TapeBuilder::new(2, TapeOptions::default());
    assert!(panics(|| new().finish(&[foreign])));
    assert!(panics(|| new().finish_split(&[foreign], 1)));
    assert!(panics(|| new().unary(Unary::Exp, foreign)));
    assert!(panics(|| new().is_uniform(foreign)));
    // A call takes its arguments unseen; the tape is refused, or is one that runs within its memory.
    let built = catch_unwind(|| {
        let mut b = new();
        let function = b.register(1, Arc::new(|arguments: &[f64], results: &mut [f64]| results[0] = arguments[0]));
        let mut last = b.call(function, &[foreign])[0];
        for _ in 0..60 {
            last = b.unary(Unary::Sin, last);
        }
        b.finish(&[last]).unwrap()
    });
    if let Ok(tape) = built {
        let interpreter = Interpreter::new(tape);
        assert_eq!(interpreter.evaluate(&[0.0; 2]).map(|values| values.len()), Ok(1));
    }
}

#[test]
fn memory_is_whole_after_a_function_that_panicked() {
    let is_broken = Arc::new(AtomicBool::new(true));
    let seen = is_broken.clone();
    let mut b = TapeBuilder::new(1, TapeOptions::default());
    let function = b.register(
        1,
        Arc::new(move |arguments: &[f64], results: &mut [f64]| {
            assert!(!seen.load(Ordering::Relaxed), "a function of the model broke down");
            results[0] = 2.0 * arguments[0];
        }),
    );
    let x = b.input(0);
    let y = b.call(function, &[x])[0];
    let interpreter = Interpreter::new(b.finish(&[y]).unwrap());
    for n_lanes in [1, 5] {
        is_broken.store(true, Ordering::Relaxed);
        let mut memory = interpreter.memory(n_lanes);
        memory.input_mut(0).fill(4.0);
        assert!(panics(|| interpreter.execute(&mut memory)));
        is_broken.store(false, Ordering::Relaxed);
        interpreter.execute(&mut memory).unwrap();
        assert_eq!(memory.output(0), vec![8.0; n_lanes]);
    }
}

/// A pendulum on a rod: three states, unknowns, a parameter and a constraint.
fn system() -> CompiledSystem {
    let text = "model M
      parameter Real g = 9.8;
      Real x(start = 1, fixed = true), v(start = 0, fixed = true), h;
    equation
      der(x) = v;
      der(v) = -g * sin(x);
      h = v * v / 2 - g * cos(x);
    end M;";
    let flat = flatten_text("m.mo", text, Some("M")).expect("the model is sound");
    compile(regularize(flat).expect("the model is regular")).expect("the model compiles")
}

#[test]
fn evaluators_take_points_of_the_right_size_only() {
    let system = system();
    let description = system.description();
    let (n_states, n_unknowns) = (description.states.len(), description.unknowns.len());
    let values = |n: usize| vec![0.5; n];
    let (states, unknowns) = (values(n_states), values(n_unknowns));
    let n_residuals = system.pattern(Part::Residual).n_entries();
    let evaluate = |states: &[f64], unknowns: &[f64], n_values: usize| {
        let point = Point { time: 0.0, states, unknowns, parameters: &[9.8], inputs: &[], modes: &[] };
        let mut found = vec![f64::NAN; n_values];
        system.evaluator().evaluate(Part::Residual, &point, &mut found);
        assert!(found.iter().all(|value| value.is_finite()));
    };
    for _ in 0..N_RUNS {
        evaluate(&states, &unknowns, n_residuals);
    }
    for wrong in [0, n_states + 1, 500] {
        assert!(panics(|| evaluate(&values(wrong), &unknowns, n_residuals)), "{wrong} states");
    }
    assert!(panics(|| evaluate(&states, &unknowns, n_residuals + 1)), "more values than there are");

    for n_lanes in [0, 1, 3, 8, 9] {
        let mut lanes = system.lane_evaluator(n_lanes);
        let mut evaluate = |n_states: usize, n_values: usize, said: usize| {
            let (states, unknowns, parameters) = (values(n_states), values(n_unknowns * n_lanes), values(n_lanes));
            let point = LanePoint {
                n_lanes: said,
                time: 0.0,
                states: &states,
                unknowns: &unknowns,
                parameters: &parameters,
                inputs: &[],
                modes: &[],
            };
            lanes.evaluate(Part::Residual, &point, &mut vec![0.0; n_values]);
        };
        for _ in 0..N_RUNS {
            evaluate(n_states * n_lanes, n_residuals * n_lanes, n_lanes);
        }
        assert!(panics(|| evaluate(n_states * n_lanes, n_residuals * n_lanes, n_lanes + 1)));
        if n_lanes > 0 {
            assert!(panics(|| evaluate((n_states + 1) * n_lanes, n_residuals * n_lanes, n_lanes)));
            assert!(panics(|| evaluate((n_states - 1) * n_lanes, n_residuals * n_lanes, n_lanes)));
            assert!(panics(|| evaluate(n_states * n_lanes, (n_residuals + 1) * n_lanes, n_lanes)));
        }
    }
    assert!(panics(|| {
        let point = LanePoint {
            n_lanes: usize::MAX,
            time: 0.0,
            states: &[],
            unknowns: &[],
            parameters: &[],
            inputs: &[],
            modes: &[],
        };
        system.lane_evaluator(usize::MAX).evaluate(Part::Residual, &point, &mut []);
    }));
}

fn step_program(
    system: &CompiledSystem,
    directions: &[Direction],
    observed: &[u32],
) -> Result<Box<dyn StepProgram>, StepProgramError> {
    let description = system.description();
    let reference = ReferencePoint {
        time: 0.0,
        states: vec![0.5; description.states.len()],
        unknowns: vec![0.5; description.unknowns.len()],
        parameters: vec![9.8],
        inputs: Vec::new(),
        step: 1e-3,
    };
    let request = StepRequest { method: StepMethod::Explicit4, directions, observed, reference: &reference };
    system.step_program(&request)
}

#[test]
fn steps_take_any_number_of_lanes_and_only_rows_that_fit() {
    let system = system();
    let program = step_program(&system, &[], &[0]).expect("the model can be advanced in lanes");
    let n_nodes = program.layout().nodes.len();
    for n_lanes in [0, 1, 2, 8, 9, 65] {
        let mut lanes = program.lanes(n_lanes);
        lanes.prepare(1e-3, &[9.8], &[]);
        lanes.carried_mut().fill(0.5);
        lanes.weights_mut().fill(1.0);
        lanes.start(0.0);
        for step in 0..N_RUNS {
            lanes.step(1e-3 * step as f64);
            assert_eq!(lanes.error().len(), n_lanes);
            lanes.accept();
        }
        lanes.observe(0.0);
        lanes.all_states(0.0);
        let own = vec![&[9.8][..]; n_lanes];
        lanes.prepare_each(1e-3, &own);
        for step in 0..N_RUNS {
            lanes.step(1e-3 * step as f64);
            lanes.accept();
        }
        let one_more = vec![&[9.8][..]; n_lanes + 1];
        assert!(panics(|| lanes.prepare_each(1e-3, &one_more)), "parameters for {n_lanes} lanes and one more");
        if n_lanes > 0 {
            assert!(panics(|| lanes.prepare_each(1e-3, &[])), "parameters for no lane");
            let long = vec![&[9.8, 1.0, 2.0, 3.0][..]; n_lanes];
            assert!(panics(|| lanes.prepare_each(1e-3, &long)), "parameters that do not exist");
        }
        assert!(panics(|| lanes.prepare(1e-3, &[], &[])), "too few parameters");
        assert!(panics(|| lanes.prepare(1e-3, &[9.8; 3], &[])), "too many parameters");
        assert!(panics(|| lanes.signals_mut(n_nodes).fill(0.0)), "a node that does not exist");
        assert!(panics(|| lanes.signals_mut(usize::MAX).fill(0.0)), "a node that does not exist");
    }
    assert!(panics(|| program.lanes(usize::MAX)));
}

#[test]
fn requests_for_what_does_not_exist_are_refused() {
    let system = system();
    let direction =
        |parameters: &[u32], inputs: &[u32]| Direction { parameters: parameters.to_vec(), inputs: inputs.to_vec() };
    assert!(step_program(&system, &[direction(&[0], &[])], &[0]).is_ok());
    for (directions, observed) in [
        (vec![], [u32::MAX]),
        (vec![direction(&[1], &[])], [0]),
        (vec![direction(&[u32::MAX], &[])], [0]),
        (vec![direction(&[0], &[0])], [0]),
    ] {
        assert!(step_program(&system, &directions, &observed).is_err(), "{directions:?} {observed:?}");
    }
}

#[test]
fn inputs_that_nothing_reads_are_passed_over_in_any_grouping() {
    let mut b = TapeBuilder::new(1000, TapeOptions::default());
    let (x, y, z) = (b.input(3), b.input(500), b.input(999));
    let product = b.mul(x, y);
    let sum = b.add(product, z);
    let tape = Arc::new(b.finish(&[sum]).unwrap());
    for backend in backends() {
        let interpreter = Interpreter::with_backend(tape.clone(), backend).unwrap();
        let mut memory = interpreter.memory(1);
        for run in 0..N_RUNS {
            let inputs: Vec<f64> = (0..1000).map(|at| (at + run) as f64).collect();
            let cut = (13 * run) % 1000;
            let (mut found, (head, tail)) = ([0.0], inputs.split_at(cut));
            interpreter.execute_one(&mut memory, &[head, &[], tail], &mut found).unwrap();
            assert_eq!(found, [inputs[3] * inputs[500] + inputs[999]], "cut at {cut}");
        }
    }
}
