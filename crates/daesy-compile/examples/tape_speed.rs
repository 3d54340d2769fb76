//! Nanoseconds per operation and lane of the interpreter, by operation, backend and number of lanes.
//!
//! `cargo run --release -p daesy-compile --example tape_speed`

use daesy_compile::{Backend, Binary, Executor, Interpreter, Tape, TapeBuilder, TapeOptions, Ternary, Unary, Value};
use std::sync::Arc;
use std::time::Instant;

/// The fastest of several repetitions, in nanoseconds per execution.
fn time(executor: &Interpreter, n_lanes: usize, n_operations: usize) -> f64 {
    let mut memory = executor.memory(n_lanes);
    let mut rng = fastrand::Rng::with_seed(1);
    for k in 0..executor.tape().n_inputs() {
        memory.input_mut(k).fill_with(|| 0.1 + 0.8 * rng.f64());
    }
    // Short runs, many times: the best one was not interrupted by other work on the machine.
    let n_runs = (30_000 / (n_operations * n_lanes)).max(1);
    let mut best = f64::INFINITY;
    for _ in 0..300 {
        let start = Instant::now();
        for _ in 0..n_runs {
            executor.execute(&mut memory).expect("the memory is made for this tape");
        }
        best = best.min(start.elapsed().as_nanos() as f64 / n_runs as f64);
    }
    best
}

/// A tape of `n` equal operations, each result an output.
fn repeat(n: usize, op: impl Fn(&mut TapeBuilder, Value, Value, Value) -> Value) -> Tape {
    let mut builder = TapeBuilder::new(24, TapeOptions::default());
    let inputs: Vec<Value> = (0..24).map(|k| builder.input(k)).collect();
    let results: Vec<Value> =
        (0..n).map(|k| op(&mut builder, inputs[k % 24], inputs[(k / 24 + k + 1) % 24], inputs[(k + 7) % 24])).collect();
    builder.finish(&results).expect("a short tape")
}

/// A right-hand side like that of a chain of masses, springs and dampers: sums, products, differences.
fn chain(n: usize, contract: bool) -> Tape {
    let options = if contract { TapeOptions::default().with_contraction() } else { TapeOptions::default() };
    let mut b = TapeBuilder::new(2 * n + 2, options);
    let (stiffness, damping) = (b.input(2 * n), b.input(2 * n + 1));
    let zero = b.constant(0.0);
    let (mut force, mut outputs) = (zero, Vec::new());
    for k in 0..n {
        let (x, v) = (b.input(2 * k), b.input(2 * k + 1));
        let next = if k + 1 < n {
            let (y, w) = (b.input(2 * k + 2), b.input(2 * k + 3));
            let (dx, dv) = (b.sub(y, x), b.sub(w, v));
            let (elastic, viscous) = (b.mul(stiffness, dx), b.mul(damping, dv));
            b.add(elastic, viscous)
        } else {
            b.neg(x)
        };
        let total = b.sub(next, force);
        let mass = b.constant(1.0 + k as f64);
        let acceleration = b.div(total, mass);
        outputs.extend([v, acceleration]);
        force = next;
    }
    b.finish(&outputs).expect("a short tape")
}

fn report(name: &str, tape: Tape, n_operations: usize) {
    let tape = Arc::new(tape);
    print!("{name:<22}");
    for (backend, n_lanes) in [
        (Backend::Avx2, 1),
        (Backend::Avx2, 64),
        (Backend::Avx2, 128),
        (Backend::Portable, 1),
        (Backend::Portable, 128),
    ] {
        match Interpreter::with_backend(tape.clone(), backend) {
            Ok(executor) => {
                print!("{:>12.3}", time(&executor, n_lanes, n_operations) / (n_operations * n_lanes) as f64);
            }
            Err(_) => print!("{:>12}", "-"),
        }
    }
    println!("{:>8}", tape.n_slots());
}

fn main() {
    println!("nanoseconds per operation and lane");
    println!(
        "{:<22}{:>12}{:>12}{:>12}{:>12}{:>12}{:>8}",
        "", "AVX2 x1", "AVX2 x64", "AVX2 x128", "plain x1", "plain x128", "slots"
    );
    let n = 24;
    for op in
        [Binary::Add, Binary::Mul, Binary::Div, Binary::Max, Binary::Less, Binary::Modulo, Binary::Pow, Binary::Atan2]
    {
        report(&format!("{op:?}"), repeat(n, |b, x, y, _| b.binary(op, x, y)), n);
    }
    for op in [Ternary::Select, Ternary::MulThenAdd, Ternary::FusedMulAdd] {
        report(&format!("{op:?}"), repeat(n, |b, x, y, z| b.ternary(op, x, y, z)), n);
    }
    for &op in Unary::ALL {
        report(&format!("{op:?}"), repeat(n, |b, x, _, _| b.unary(op, x)), n);
    }
    let sin_cos = repeat(n, |b, x, _, _| {
        let (s, c) = (b.unary(Unary::Sin, x), b.unary(Unary::Cos, x));
        b.add(s, c)
    });
    report("sin + cos", sin_cos, n);
    for n in [10, 100, 1000] {
        // Two differences, two products, sum, difference, quotient per mass.
        report(&format!("chain of {n}"), chain(n, false), 7 * n);
        report(&format!("chain of {n}, fused"), chain(n, true), 7 * n);
    }
}
