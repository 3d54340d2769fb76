//! Ensembles of the disturbed pendulum against SUNDIALS IDA.
//!
//! The model comes through the front end in its index-3 form; IDA gets it by hand, reduced to index 1 with stabilized
//! constraints [@abdalmoaty2021, eq. (8)], dense, with an analytic Jacobian. Both read the same disturbances and the
//! same known force, linear between points of a grid of 0.01 s, and give the angle every 0.1 s. Errors are against a
//! fine-step solution in the angle alone. Times are those of one core. IDA reads ready-made disturbances and its time
//! contains nothing of their making; those of the ensemble contain it in full, by itself or, in lines that say so,
//! shared by a grid of parameter points, as a cost curve does.
//!
//! Three more models follow, for which IDA gets ordinary differential equations in minimal coordinates: a crane of index
//! 3, a car's suspension, and a circuit with 30 states, whose Jacobian is a band for IDA.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use daesy_bench::clock::best_of;
use daesy_bench::plants::{Circuit, Crane, Model, Plant, Suspension, ida};
use daesy_compile::compile;
use daesy_estimate::noise::jet::JetMatrix;
use daesy_estimate::noise::{DiscreteProcess, Interpolation, ShapedNoise, ShapingFilter};
use daesy_integrate::Inputs;
use daesy_integrate::ensemble::{
    DisturbanceRow, Disturbances, Ensemble, EnsembleOptions, EnsemblePoint, EnsembleStart, Experiment, Grid,
    InputTable, Wanted, start_of,
};
use daesy_model::flatten::{FlattenOptions, flatten};
use daesy_model::library::Library;
use daesy_pencil::Mat;
use daesy_structure::regularize;
use daesy_system::{DaeSystem, ReferencePoint, StepMethod, StepRequest, Watch};
use sundials_sys::{
    IDACreate, IDAFree, IDAInit, IDASStolerances, IDASetJacFn, IDASetLinearSolver, IDASetMaxNumSteps, IDASetUserData,
    IDASolve, N_VDestroy, N_VGetArrayPointer, N_VNew_Serial, N_Vector, SUNContext, SUNContext_Create, SUNContext_Free,
    SUNDenseMatrix, SUNDenseMatrix_Data, SUNLinSol_Dense, SUNLinSolFree, SUNMatDestroy, SUNMatrix,
};

const MASS: f64 = 0.3;
const GRAVITY: f64 = 9.81;
const DRAG: f64 = 0.05;
const LENGTH: f64 = 6.25;
const STEP: f64 = 0.01;
const LANES: usize = 64;
const SECONDS: usize = 50;
const N_POINTS: usize = SECONDS * 100 + 2;
const N_SAMPLES: usize = SECONDS * 10;
/// Lengths of a grid, a hundredth apart; one of them is that of the data.
const N_LENGTHS: usize = 16;

/// The known force: straight lines between grid points.
struct Force {
    values: Vec<f64>,
    slot: usize,
}

impl Inputs for Force {
    fn fill(&self, time: f64, _is_after: bool, values: &mut [f64]) {
        values.fill(0.0);
        let position = (time / STEP).clamp(0.0, (self.values.len() - 2) as f64);
        let at = position as usize;
        values[self.slot] = self.values[at] + (position - at as f64) * (self.values[at + 1] - self.values[at]);
    }

    fn breaks(&self) -> &[f64] {
        &[]
    }
}

fn noise(seed: u64, scale: f64, slots: &[usize]) -> ShapedNoise {
    let constant = |rows: &[&[f64]]| JetMatrix::constant(Mat::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j]), 0);
    let filter = || ShapingFilter {
        dynamics: constant(&[&[0.0, 1.0], &[-16.0, -0.8]]),
        input: constant(&[&[0.0], &[1.0]]),
        output: constant(&[&[scale, 0.0]]),
        starts_at_zero: true,
        derivatives_needed: vec![0],
    };
    let filters: Vec<ShapingFilter> = slots.iter().map(|_| filter()).collect();
    let process = DiscreteProcess::new(&filters, STEP, 0).expect("the process is stable and smooth");
    ShapedNoise {
        seed,
        is_antithetic: false,
        interpolation: Interpolation::Linear,
        slots: slots.to_vec(),
        points: vec![Arc::new(process)],
        first_step: 0,
    }
}

/// Values of a signal at all grid points, `[lane][point]`.
fn paths(noise: &ShapedNoise, signal: usize, n_lanes: usize) -> Vec<Vec<f64>> {
    let mut lanes = noise.block(0, 0, n_lanes, 0..1).swap_remove(0);
    let rows = [DisturbanceRow { row: 0, signal, direction: None }];
    let mut values = vec![0.0; n_lanes];
    let mut paths = vec![Vec::with_capacity(N_POINTS); n_lanes];
    for interval in 0..N_POINTS {
        lanes.advance(interval);
        lanes.fill(0.0, &rows, n_lanes, &mut values);
        paths.iter_mut().zip(&values).for_each(|(path, value)| path.push(*value));
    }
    paths
}

struct Signals<'s> {
    force: &'s [f64],
    disturbance: &'s [f64],
}

impl Signals<'_> {
    fn push(&self, time: f64) -> f64 {
        let position = time / STEP;
        let at = (position as usize).min(self.force.len() - 2);
        let share = position - at as f64;
        let force = self.force[at] + share * (self.force[at + 1] - self.force[at]);
        let w = self.disturbance[at] + share * (self.disturbance[at + 1] - self.disturbance[at]);
        force + w * w
    }
}

/// The angle by small Runge-Kutta steps that end on grid points.
fn reference(signals: &Signals<'_>) -> Vec<f64> {
    const PER_INTERVAL: usize = 16;
    let h = STEP / PER_INTERVAL as f64;
    let rate = |time: f64, angle: f64, speed: f64| {
        let (sine, cosine) = angle.sin_cos();
        let (vx, vy) = (LENGTH * cosine * speed, LENGTH * sine * speed);
        let fx = -DRAG * vx.abs() * vx + signals.push(time);
        let fy = -DRAG * vy.abs() * vy - MASS * GRAVITY;
        (fx * cosine + fy * sine) / (MASS * LENGTH)
    };
    let (mut angle, mut speed) = (0.0, 0.0);
    let mut samples = Vec::with_capacity(N_SAMPLES);
    for step in 0..SECONDS * 100 * PER_INTERVAL {
        let t = step as f64 * h;
        let (a1, v1) = (rate(t, angle, speed), speed);
        let (a2, v2) = (rate(t + 0.5 * h, angle + 0.5 * h * v1, speed + 0.5 * h * a1), speed + 0.5 * h * a1);
        let (a3, v3) = (rate(t + 0.5 * h, angle + 0.5 * h * v2, speed + 0.5 * h * a2), speed + 0.5 * h * a2);
        let (a4, v4) = (rate(t + h, angle + h * v3, speed + h * a3), speed + h * a3);
        angle += h / 6.0 * (v1 + 2.0 * v2 + 2.0 * v3 + v4);
        speed += h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4);
        if (step + 1) % (10 * PER_INTERVAL) == 0 {
            samples.push(angle);
        }
    }
    samples
}

unsafe extern "C" fn residual(time: f64, y: N_Vector, rates: N_Vector, out: N_Vector, data: *mut c_void) -> c_int {
    // SAFETY: IDA hands back the pointer it was given and vectors of length 6.
    unsafe {
        let signals = &*data.cast::<Signals<'_>>();
        let x = std::slice::from_raw_parts(N_VGetArrayPointer(y), 6);
        let d = std::slice::from_raw_parts(N_VGetArrayPointer(rates), 6);
        let r = std::slice::from_raw_parts_mut(N_VGetArrayPointer(out), 6);
        r[0] = d[0] - x[3] + 2.0 * d[5] * x[0];
        r[1] = d[1] - x[4] + 2.0 * d[5] * x[1];
        r[2] = MASS * d[3] - d[2] * x[0] + DRAG * x[3].abs() * x[3] - signals.push(time);
        r[3] = MASS * d[4] - d[2] * x[1] + DRAG * x[4].abs() * x[4] + MASS * GRAVITY;
        r[4] = x[0] * x[0] + x[1] * x[1] - LENGTH * LENGTH;
        r[5] = x[3] * x[0] + x[4] * x[1];
    }
    0
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn jacobian(
    _time: f64,
    c: f64,
    y: N_Vector,
    rates: N_Vector,
    _residual: N_Vector,
    matrix: SUNMatrix,
    _data: *mut c_void,
    _a: N_Vector,
    _b: N_Vector,
    _c: N_Vector,
) -> c_int {
    // SAFETY: as above; the matrix is dense, 6 by 6, column by column, and zero.
    unsafe {
        let x = std::slice::from_raw_parts(N_VGetArrayPointer(y), 6);
        let d = std::slice::from_raw_parts(N_VGetArrayPointer(rates), 6);
        let m = std::slice::from_raw_parts_mut(SUNDenseMatrix_Data(matrix), 36);
        let mut set = |row: usize, column: usize, value: f64| m[column * 6 + row] = value;
        set(0, 0, c + 2.0 * d[5]);
        set(0, 3, -1.0);
        set(0, 5, 2.0 * c * x[0]);
        set(1, 1, c + 2.0 * d[5]);
        set(1, 4, -1.0);
        set(1, 5, 2.0 * c * x[1]);
        set(2, 0, -d[2]);
        set(2, 2, -c * x[0]);
        set(2, 3, MASS * c + 2.0 * DRAG * x[3].abs());
        set(3, 1, -d[2]);
        set(3, 2, -c * x[1]);
        set(3, 4, MASS * c + 2.0 * DRAG * x[4].abs());
        set(4, 0, 2.0 * x[0]);
        set(4, 1, 2.0 * x[1]);
        set(5, 0, x[3]);
        set(5, 1, x[4]);
        set(5, 3, x[0]);
        set(5, 4, x[1]);
    }
    0
}

fn by_ida(signals: &Signals<'_>) -> Vec<f64> {
    let mut samples = Vec::with_capacity(N_SAMPLES);
    // SAFETY: objects are made, used and freed as IDA's manual says; all outlive the solve.
    unsafe {
        let mut context: SUNContext = std::ptr::null_mut();
        SUNContext_Create(0, &mut context);
        let (y, yp) = (N_VNew_Serial(6, context), N_VNew_Serial(6, context));
        let x = std::slice::from_raw_parts_mut(N_VGetArrayPointer(y), 6);
        let d = std::slice::from_raw_parts_mut(N_VGetArrayPointer(yp), 6);
        x.copy_from_slice(&[0.0, -LENGTH, 0.0, 0.0, 0.0, 0.0]);
        d.copy_from_slice(&[0.0, 0.0, -MASS * GRAVITY / LENGTH, signals.push(0.0) / MASS, 0.0, 0.0]);
        let mut ida = IDACreate(context);
        let matrix = SUNDenseMatrix(6, 6, context);
        let solver = SUNLinSol_Dense(y, matrix, context);
        IDAInit(ida, Some(residual), 0.0, y, yp);
        IDASStolerances(ida, 1e-6, 1e-9);
        IDASetUserData(ida, std::ptr::from_ref(signals).cast_mut().cast());
        IDASetLinearSolver(ida, solver, matrix);
        IDASetJacFn(ida, Some(jacobian));
        IDASetMaxNumSteps(ida, 10_000_000);
        for sample in 1..=N_SAMPLES {
            let mut reached = 0.0;
            let flag = IDASolve(ida, sample as f64 * 0.1, &mut reached, y, yp, 1);
            assert!(flag >= 0, "IDA returned {flag} at t = {reached}");
            samples.push((x[0] / -x[1]).atan());
        }
        IDAFree(&mut ida);
        SUNLinSolFree(solver);
        SUNMatDestroy(matrix);
        N_VDestroy(y);
        N_VDestroy(yp);
        SUNContext_Free(&mut context);
    }
    samples
}

const METHODS: [(&str, StepMethod); 3] = [
    ("explicit of order 3", StepMethod::Explicit3),
    ("explicit of order 4", StepMethod::Explicit4),
    ("implicit of order 3", StepMethod::Implicit3),
];

/// A plant by IDA and as an ensemble.
fn plant<P: Plant>() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut library = Library::new();
    library.add_path(&root.join("library/Modelica")).expect("the library is there");
    match P::MODEL {
        Model::File(path) => library.add_path(&root.join("problems").join(path)).expect("the model is there"),
        Model::Text(text) => library.add_text("model.mo", text),
    };
    let flat = flatten(&library, P::CLASS, &FlattenOptions::default()).expect("the model flattens");
    let system = compile(regularize(flat).expect("the model is regular")).expect("the model compiles");
    let description = system.description();
    let slot = |name: &str| description.inputs.iter().find(|input| input.name == name).expect("an input").start;
    let slots: Vec<usize> = P::DISTURBANCES.iter().map(|name| slot(name)).collect();
    let [known_size, size] = P::SIZES;
    let known = paths(&noise(1, known_size, &[0]), 0, 1).swap_remove(0);
    let disturbances = noise(2, size, &slots);
    let w: Vec<Vec<Vec<f64>>> = (0..slots.len()).map(|signal| paths(&disturbances, signal, LANES)).collect();
    let signals: Vec<ida::Signals<'_>> = (0..LANES)
        .map(|lane| {
            let disturbances = w.iter().map(|paths| paths[lane].as_slice()).collect();
            ida::Signals { step: STEP, known: &known, disturbances }
        })
        .collect();
    let exact: Vec<Vec<f64>> = signals.iter().map(|signals| ida::reference::<P>(signals, 10, N_SAMPLES)).collect();
    let largest = exact.iter().flatten().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let worst = |of: &dyn Fn(usize, usize) -> f64| {
        let errors = (0..LANES).flat_map(|lane| (0..N_SAMPLES).map(move |sample| (lane, sample)));
        errors.map(|(lane, sample)| (of(lane, sample) - exact[lane][sample]).abs()).fold(0.0, f64::max)
    };
    let per_second = 1e6 / (LANES * SECONDS) as f64;
    let mut found = vec![Vec::new(); LANES];
    let each = signals
        .iter()
        .zip(&mut found)
        .map(|(signals, found)| best_of(3, || *found = ida::solve::<P>(signals, 0.1, N_SAMPLES)));
    let ida = each.sum::<f64>() * per_second;
    let ida_error = worst(&|lane, sample| found[lane][sample]);
    println!("{} ({} up to {largest:.2}), {} states", P::CLASS, P::OUTPUT, P::N);
    println!("{:<44} {ida:>9.2} {ida_error:>10.1e} {:>10}", "SUNDIALS IDA, rtol 1e-6, atol 1e-9", 1);
    let parameters = system.parameter_values(&[]).expect("all parameters have values");
    let grid = Grid { start: 0.0, step: STEP, samples: (1..=N_SAMPLES).map(|sample| sample as f64 * 0.1).collect() };
    let inputs = Force { values: known.clone(), slot: slot("u") };
    let mut first = vec![0.0; description.n_inputs];
    inputs.fill(0.0, true, &mut first);
    let start = start_of(&system, 0.0, &parameters, &first, &[], &[]).expect("a consistent start");
    let reference = ReferencePoint {
        time: 0.0,
        states: start.states.clone(),
        unknowns: start.unknowns.clone(),
        parameters: parameters.clone(),
        inputs: first.clone(),
        step: STEP,
    };
    let point = EnsemblePoint { parameters, tangents: Vec::new(), starts: vec![EnsembleStart { lanes: vec![start] }] };
    let observed = [description.observed.iter().position(|name| name == P::OUTPUT).expect("the output") as u32];
    for (name, method) in METHODS {
        let request = StepRequest { method, directions: &[], observed: &observed, reference: &reference };
        let program = match system.step_program(&request) {
            Ok(program) => program,
            Err(error) => {
                println!("ensemble, {name}: {error}");
                continue;
            }
        };
        let table = InputTable::new(&grid, &inputs, program.layout());
        let experiments = [Experiment { grid: &grid, inputs: &inputs, table: &table }];
        let ensemble = Ensemble {
            program: program.as_ref(),
            experiments: &experiments,
            n_realizations: LANES,
            options: EnsembleOptions { n_threads: 1, ..EnsembleOptions::default() },
        };
        let wanted = Wanted { keeps_lanes: true, functionals: &[] };
        let mut outcome = Vec::new();
        let seconds = best_of(20, || {
            outcome = ensemble
                .run(std::slice::from_ref(&point), &disturbances, &wanted, &Watch::default())
                .expect("no realization breaks down");
        });
        let micros = seconds * per_second;
        let lanes = &outcome[0].experiments[0].lanes;
        let error = worst(&|lane, sample| lanes[sample][lane]);
        let n_operations = program.layout().n_operations;
        let line = format!("ensemble, {name}");
        println!("{line:<44} {micros:>9.2} {error:>10.1e} {:>10.0} {n_operations:>11}", ida / micros);
    }
}

fn main() {
    pendulum();
    plant::<Crane>();
    plant::<Suspension>();
    plant::<Circuit>();
}

fn pendulum() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut library = Library::new();
    library.add_path(&root.join("library/Modelica")).expect("the library is there");
    library.add_path(&root.join("problems/pendulum/model.mo")).expect("the model is there");
    let flat = flatten(&library, "Pendulum", &FlattenOptions::default()).expect("the model flattens");
    let system = compile(regularize(flat).expect("the model is regular")).expect("the model compiles");
    let description = system.description();
    let slot = |name: &str| description.inputs.iter().find(|input| input.name == name).expect("an input").start;
    let force: Vec<f64> = paths(&noise(1, 0.6, &[0]), 0, 1).swap_remove(0);
    let disturbances = noise(2, 0.2, &[slot("w")]);
    let w = paths(&disturbances, 0, LANES);
    let inputs = Force { values: force.clone(), slot: slot("u") };
    let signals: Vec<Signals<'_>> = w.iter().map(|w| Signals { force: &force, disturbance: w }).collect();
    let exact: Vec<Vec<f64>> = signals.iter().map(reference).collect();
    let worst = |of: &dyn Fn(usize, usize) -> f64| {
        let errors = (0..LANES).flat_map(|lane| (0..N_SAMPLES).map(move |sample| (lane, sample)));
        errors.map(|(lane, sample)| (of(lane, sample) - exact[lane][sample]).abs()).fold(0.0, f64::max)
    };
    let per_second = 1e6 / (LANES * SECONDS) as f64;
    // Runs of about the same length on both sides, so that the best of them are equally undisturbed.
    let mut found = vec![Vec::new(); LANES];
    let each = signals.iter().zip(&mut found).map(|(signals, found)| best_of(10, || *found = by_ida(signals)));
    let ida = each.sum::<f64>() * per_second;
    let ida_error = worst(&|lane, sample| found[lane][sample]);
    println!(
        "IDA reads ready-made disturbances, its time contains none of their making. Times of the ensemble contain it: in full"
    );
    println!(
        "in the first three lines; once for all lengths in the lines for a grid of {N_LENGTHS} lengths, which are per length."
    );
    println!("{:<44} {:>9} {:>10} {:>10} {:>11}", "", "us per s", "max error", "times IDA", "operations");
    println!("{:<44} {ida:>9.2} {ida_error:>10.1e} {:>10}", "SUNDIALS IDA, rtol 1e-6, atol 1e-9", 1);
    let parameters = system.parameter_values(&[]).expect("all parameters have values");
    let grid = Grid { start: 0.0, step: STEP, samples: (1..=N_SAMPLES).map(|sample| sample as f64 * 0.1).collect() };
    let mut first = vec![0.0; description.n_inputs];
    inputs.fill(0.0, true, &mut first);
    let length = description.parameters.iter().position(|name| name == "L").expect("the length");
    let point = |factor: f64| {
        let mut parameters = parameters.clone();
        parameters[length] *= factor;
        let start = start_of(&system, 0.0, &parameters, &first, &[], &[]).expect("a consistent start");
        EnsemblePoint { parameters, tangents: Vec::new(), starts: vec![EnsembleStart { lanes: vec![start] }] }
    };
    let middle = N_LENGTHS / 2;
    let points: Vec<EnsemblePoint> = (0..N_LENGTHS).map(|at| point(1.0 + 0.01 * (at as f64 - middle as f64))).collect();
    let start = &points[middle].starts[0].lanes[0];
    let reference = ReferencePoint {
        time: 0.0,
        states: start.states.clone(),
        unknowns: start.unknowns.clone(),
        parameters: parameters.clone(),
        inputs: first.clone(),
        step: STEP,
    };
    let observed = [description.observed.iter().position(|name| name == "y").expect("the angle") as u32];
    // The same random numbers and filters for all lengths.
    let process = disturbances.points[0].clone();
    let shared = ShapedNoise { points: vec![process; N_LENGTHS], ..noise(2, 0.2, &[slot("w")]) };
    let alone = (&points[middle..=middle], &disturbances, "");
    let grid_of_lengths = (&points[..], &shared, ", grid of lengths");
    let mut best = [[0.0f64; 2]; 2];
    for ((points, disturbances, label), (name, method)) in
        [alone, grid_of_lengths].into_iter().flat_map(|how| METHODS.map(|method| (how, method)))
    {
        let request = StepRequest { method, directions: &[], observed: &observed, reference: &reference };
        let program = system.step_program(&request).expect("the model can be advanced in lanes");
        let table = InputTable::new(&grid, &inputs, program.layout());
        let experiments = [Experiment { grid: &grid, inputs: &inputs, table: &table }];
        let ensemble = Ensemble {
            program: program.as_ref(),
            experiments: &experiments,
            n_realizations: LANES,
            options: EnsembleOptions { n_threads: 1, ..EnsembleOptions::default() },
        };
        let wanted = Wanted { keeps_lanes: true, functionals: &[] };
        let mut outcome = Vec::new();
        let seconds = best_of(if points.len() > 1 { 12 } else { 150 }, || {
            outcome =
                ensemble.run(points, disturbances, &wanted, &Watch::default()).expect("no realization breaks down");
        });
        let micros = seconds * per_second / points.len() as f64;
        let lanes = &outcome[points.len() / 2].experiments[0].lanes;
        let error = worst(&|lane, sample| lanes[sample][lane]);
        let n_operations = program.layout().n_operations;
        let line = format!("ensemble, {name}{label}");
        println!("{line:<44} {micros:>9.2} {error:>10.1e} {:>10.0} {n_operations:>11}", ida / micros);
        // Only what is no less accurate than IDA counts.
        if error <= ida_error {
            let best = &mut best[usize::from(points.len() > 1)][usize::from(method == StepMethod::Implicit3)];
            *best = best.max(ida / micros);
        }
    }
    let [[explicit, implicit], [explicit_shared, implicit_shared]] = best;
    println!(
        "at no more error than IDA: explicit {explicit:.0} times, implicit {implicit:.0} times (goals 250 and 100); \
         with the disturbances shared by {N_LENGTHS} lengths {explicit_shared:.0} and {implicit_shared:.0} times"
    );
}
