//! Nanoseconds per evaluation and lane of residuals: the interpreter against hand-written Rust for the same model.
//!
//! `cargo xtask bench tape`
#![deny(unsafe_code)]

use std::hint::black_box;

use daesy_bench::clock::race;
use daesy_bench::lanes::{Inline, Literal, Mathematics, Parameters, PerLane, Row, Standard};
use daesy_bench::models::amplifier::Amplifier;
use daesy_bench::models::ladder::Ladder;
use daesy_bench::models::pendulum::Pendulum;
use daesy_bench::models::squeezer::Squeezer;
use daesy_bench::models::{Model, ParameterKind};
use daesy_compile::{Backend, CompiledSystem, Executor, compile};
use daesy_graph::regular::Derivative;
use daesy_structure::regularize;
use daesy_system::{DaeSystem, LanePoint, Part};

/// What an interpreter of vectors costs at most, compared with hand-written code.
const GOAL: f64 = 2.6;

const TIME: f64 = 0.37;

/// The rows that a residual reads, in the order of the hand-written code.
struct Data<const LANES: usize> {
    states: Vec<Row<LANES>>,
    unknowns: Vec<Row<LANES>>,
    parameters: Vec<Row<LANES>>,
}

impl<const LANES: usize> Data<LANES> {
    fn random<M: Model>() -> Self {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut near = |value: f64, spread: f64| Row(std::array::from_fn(|_| value + spread * (rng.f64() - 0.5)));
        Self {
            states: M::typical_states().into_iter().map(|value| near(value, 0.2)).collect(),
            unknowns: (0..M::N_UNKNOWNS).map(|_| near(1.0, 1.0)).collect(),
            parameters: M::VALUES.iter().map(|&value| near(value, 0.0)).collect(),
        }
    }
}

/// Nanoseconds per evaluation and lane.
struct Cost {
    interpreter: f64,
    contract: f64,
    inline: f64,
    standard: f64,
}

impl Cost {
    fn ratio(&self) -> f64 {
        self.interpreter / self.inline.min(self.standard)
    }
}

/// Runs hand-written code with the instructions that the interpreter uses.
fn hand_written<Md: Model, P: Parameters<LANES>, M: Mathematics, const LANES: usize>(
    backend: Backend,
    data: &Data<LANES>,
    parameters: &P,
    out: &mut [Row<LANES>],
) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn with_avx2<Md: Model, P: Parameters<LANES>, M: Mathematics, const LANES: usize>(
        data: &Data<LANES>,
        parameters: &P,
        out: &mut [Row<LANES>],
    ) {
        Md::residual::<LANES, P, M>(black_box(TIME), &data.states, &data.unknowns, parameters, out);
    }
    match backend {
        #[cfg(target_arch = "x86_64")]
        #[allow(unsafe_code)]
        // SAFETY: this backend is chosen only where the processor has AVX2 and FMA.
        Backend::Avx2 | Backend::Native => unsafe { with_avx2::<Md, P, M, LANES>(black_box(data), parameters, out) },
        _ => Md::residual::<LANES, P, M>(black_box(TIME), &black_box(data).states, &data.unknowns, parameters, out),
    }
}

/// Positions of the compiled system's derivatives among those of the hand-written code, variable by variable.
fn hand_order(derivatives: &[Derivative]) -> Vec<usize> {
    let mut sorted = derivatives.to_vec();
    sorted.sort_unstable();
    let position = |derivative| sorted.binary_search(derivative).expect("a sorted list holds what it was made from");
    derivatives.iter().map(position).collect()
}

fn flatten<const LANES: usize>(rows: &[Row<LANES>], order: &[usize]) -> Vec<f64> {
    order.iter().flat_map(|&at| rows[at].0).collect()
}

/// Compares results, then measures. `P` is either `Literal` or `PerLane`.
fn measure<Md: Model, P: Parameters<LANES>, const LANES: usize>(
    system: &CompiledSystem,
    data: &Data<LANES>,
    parameters: &P,
) -> Cost {
    let regular = system.regular();
    let (states, unknowns) = (hand_order(&regular.states), hand_order(&regular.unknowns));
    let states = flatten(&data.states, &states);
    let unknowns = flatten(&data.unknowns, &unknowns);
    let parameter_rows = match regular.parameters.len() {
        0 => Vec::new(),
        n => flatten(&data.parameters, &(0..n).collect::<Vec<_>>()),
    };
    let point = LanePoint {
        n_lanes: LANES,
        time: TIME,
        states: &states,
        unknowns: &unknowns,
        parameters: &parameter_rows,
        inputs: &[],
        modes: &[],
    };
    let mut evaluator = system.lane_evaluator(LANES);
    let mut values = vec![0.0; Md::N_UNKNOWNS * LANES];
    evaluator.evaluate(Part::Residual, &point, &mut values);

    let executor = system.program(Part::Residual);
    let mut memory = executor.memory(LANES);
    memory.input_mut(0).fill(TIME);
    for (at, row) in [&states, &unknowns, &parameter_rows].into_iter().flat_map(|v| v.chunks_exact(LANES)).enumerate() {
        memory.input_mut(at + 1).copy_from_slice(row);
    }
    let backend = executor.backend();
    let mut out = vec![Row([0.0; LANES]); Md::N_UNKNOWNS];
    hand_written::<Md, P, Inline, LANES>(backend, data, parameters, &mut out);
    executor.execute(&mut memory).expect("the memory is made for this program");
    for (at, equation) in regular.equations.iter().enumerate() {
        let by_hand = out[equation.source as usize].0;
        for lane in 0..LANES {
            let (contract, program) = (values[at * LANES + lane], memory.output(at)[lane]);
            assert!(contract.to_bits() == program.to_bits(), "{}: contract and program differ", Md::NAME);
            assert!(
                (program - by_hand[lane]).abs() <= 1e-9 * (1.0 + program.abs()),
                "{}, equation {}: {program} compiled, {} by hand",
                Md::NAME,
                equation.source,
                by_hand[lane]
            );
        }
    }

    let mut other_out = out.clone();
    let costs = race([
        &mut || executor.execute(black_box(&mut memory)).expect("the memory is made for this program"),
        &mut || evaluator.evaluate(Part::Residual, black_box(&point), black_box(&mut values)),
        &mut || hand_written::<Md, P, Inline, LANES>(backend, data, parameters, black_box(&mut out)),
        &mut || hand_written::<Md, P, Standard, LANES>(backend, data, parameters, black_box(&mut other_out)),
    ]);
    let [interpreter, contract, inline, standard] = costs.map(|cost| cost / LANES as f64);
    Cost { interpreter, contract, inline, standard }
}

fn measure_lanes<Md: Model + Default, const LANES: usize, const N: usize>(
    system: &CompiledSystem,
    kind: ParameterKind,
) -> Cost {
    let data = Data::<LANES>::random::<Md>();
    match kind {
        ParameterKind::Literal => measure::<Md, _, LANES>(system, &data, &Literal(Md::default())),
        ParameterKind::PerLane => {
            let rows: &[Row<LANES>; N] = data.parameters.as_slice().try_into().expect("as many rows as parameters");
            measure::<Md, _, LANES>(system, &data, &PerLane(rows))
        }
    }
}

/// Prints the rows of one model; returns the ratio at 128 lanes.
fn report<Md: Model + Default, const N: usize>(kind: ParameterKind) -> f64 {
    let regular = regularize(Md::flat(kind)).expect("the models of this benchmark are regular");
    let system = compile(regular).expect("the models of this benchmark compile");
    let tape = system.program(Part::Residual).tape();
    println!(
        "{}, parameters {}: {} residuals, {} instructions, {} slots",
        Md::NAME,
        match kind {
            ParameterKind::Literal => "literal",
            ParameterKind::PerLane => "per lane",
        },
        Md::N_UNKNOWNS,
        tape.instructions().len(),
        tape.n_slots()
    );
    let costs = [
        (1, measure_lanes::<Md, 1, N>(&system, kind)),
        (64, measure_lanes::<Md, 64, N>(&system, kind)),
        (128, measure_lanes::<Md, 128, N>(&system, kind)),
    ];
    for (n_lanes, cost) in &costs {
        println!(
            "    {n_lanes:>5} lanes {:>10.2} {:>10.2} {:>10.2} {:>10.2} {:>9.2}",
            cost.interpreter,
            cost.contract,
            cost.inline,
            cost.standard,
            cost.ratio()
        );
    }
    costs[2].1.ratio()
}

fn main() {
    println!("Nanoseconds per evaluation and lane of all residuals; best of many short bursts, by turns.");
    println!(
        "program: the interpreter on its own rows; contract: the same through `DaeSystem`, rows copied in and out;"
    );
    println!("inline, std: hand-written Rust, elementary functions as inlined polynomials or the standard library's.");
    println!("ratio: program / faster of the two.");
    println!("    {:>5}       {:>10} {:>10} {:>10} {:>10} {:>9}", "", "program", "contract", "inline", "std", "ratio");
    let mut worst = 0.0f64;
    for kind in [ParameterKind::Literal, ParameterKind::PerLane] {
        for ratio in [
            report::<Pendulum, 3>(kind),
            report::<Amplifier, 19>(kind),
            report::<Squeezer, 42>(kind),
            report::<Ladder, 7>(kind),
        ] {
            worst = worst.max(ratio);
        }
    }
    println!("worst ratio at 128 lanes {worst:.2}, goal at most {GOAL}");
}
