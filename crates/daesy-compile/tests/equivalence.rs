//! Tapes against direct evaluation, bit for bit: one trajectory, plain lanes, AVX2 lanes, any number of lanes.

use daesy_compile::{Backend, Binary, Executor, Interpreter, Tape, TapeBuilder, TapeOptions, Ternary, Unary, Value};
use std::sync::Arc;

/// NaN are all alike.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// Whether valgrind simulates the processor, as `cargo xtask test memory` says. It gives some zeros of fused products
/// the wrong sign, which quotients turn into infinities of the wrong sign and so on: such a run looks at memory, and
/// comparisons of bits that fused products enter are left out of it.
fn is_under_valgrind() -> bool {
    std::env::var_os("DAESY_UNDER_VALGRIND").is_some()
}

/// Whether every instruction is simulated, so that fewer cases must do.
fn is_simulated() -> bool {
    cfg!(miri) || is_under_valgrind()
}

fn backends() -> Vec<Backend> {
    [Backend::Portable, Backend::Avx2, Backend::Native, Backend::Native512]
        .into_iter()
        .filter(|backend| backend.is_available())
        .collect()
}

const SPECIAL: [f64; 22] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    3.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MIN_POSITIVE,
    -5e-324,
    1e-310,
    f64::MAX,
    f64::MIN,
    1e300,
    1e22,
    2e6,
    std::f64::consts::PI,
    710.0,
    -745.5,
];

fn number(rng: &mut fastrand::Rng) -> f64 {
    match rng.usize(..8) {
        0 => SPECIAL[rng.usize(..SPECIAL.len())],
        1 => f64::from_bits(rng.u64(..)),
        2 => f64::from(rng.i32(-20..20)),
        3 => (rng.f64() - 0.5) * 2e3,
        4 => (rng.f64() - 0.5) * 2f64.powi(rng.i32(-60..60)),
        _ => (rng.f64() - 0.5) * 4.0,
    }
}

/// A program as a plain list, evaluated without any change.
#[derive(Clone, Copy)]
enum Step {
    Constant(f64),
    Unary(Unary, usize),
    Binary(Binary, usize, usize),
    Ternary(Ternary, usize, usize, usize),
    /// First or second result of the function `of_two`.
    Call(usize, usize, usize),
}

fn of_two(arguments: &[f64], results: &mut [f64]) {
    // A loop whose length depends on the arguments, as in functions of a model.
    let (mut a, mut n) = (arguments[0], 0.0);
    while a.abs() > 1.0 && n < 50.0 {
        a = 0.5 * a + 0.01 * arguments[1];
        n += 1.0;
    }
    results[0] = a;
    results[1] = n;
}

struct Plan {
    n_inputs: usize,
    steps: Vec<Step>,
    outputs: Vec<usize>,
}

impl Plan {
    fn random(rng: &mut fastrand::Rng, n_inputs: usize, n_steps: usize) -> Self {
        // Tapes without calls are single functions of machine code for one lane.
        let has_calls = rng.u8(..3) == 0;
        let arithmetic = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div];
        let mut steps: Vec<Step> = Vec::new();
        for k in 0..n_steps {
            let n = n_inputs + k;
            let mut pick = || if rng.bool() { rng.usize(n.saturating_sub(12)..n) } else { rng.usize(..n) };
            let (a, b, c) = (pick(), pick(), pick());
            steps.push(match rng.usize(..20) {
                0 | 1 => {
                    let constants = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, f64::NAN];
                    Step::Constant(if rng.bool() { constants[rng.usize(..constants.len())] } else { number(rng) })
                }
                2..=5 => Step::Unary(Unary::ALL[rng.usize(..Unary::ALL.len())], a),
                6 | 7 => Step::Unary(Unary::Neg, a),
                8 | 9 => Step::Binary(Binary::ALL[rng.usize(..Binary::ALL.len())], a, b),
                10 => Step::Ternary(Ternary::ALL[rng.usize(..Ternary::ALL.len())], a, b, c),
                11 => Step::Unary(if rng.bool() { Unary::Sin } else { Unary::Cos }, a),
                12 if has_calls && rng.bool() => Step::Call(a, b, rng.usize(..2)),
                _ => Step::Binary(arithmetic[rng.usize(..4)], a, b),
            });
        }
        let n = n_inputs + n_steps;
        let outputs = (0..8).map(|_| rng.usize(..n)).chain([n - 1, n - 1, 0]).collect();
        Self { n_inputs, steps, outputs }
    }

    fn evaluate(&self, inputs: &[f64]) -> Vec<f64> {
        let mut values = inputs.to_vec();
        for step in &self.steps {
            values.push(match *step {
                Step::Constant(value) => value,
                Step::Unary(op, a) => op.evaluate(values[a]),
                Step::Binary(op, a, b) => op.evaluate(values[a], values[b]),
                Step::Ternary(op, a, b, c) => op.evaluate(values[a], values[b], values[c]),
                Step::Call(a, b, position) => {
                    let mut results = [0.0; 2];
                    of_two(&[values[a], values[b]], &mut results);
                    results[position]
                }
            });
        }
        self.outputs.iter().map(|&output| values[output]).collect()
    }

    fn tape(&self) -> Tape {
        let mut builder = TapeBuilder::new(self.n_inputs, TapeOptions::default());
        let function = builder.register(2, Arc::new(of_two));
        let mut values: Vec<Value> = (0..self.n_inputs).map(|k| builder.input(k)).collect();
        for step in &self.steps {
            let value = match *step {
                Step::Constant(value) => builder.constant(value),
                Step::Unary(op, a) => builder.unary(op, values[a]),
                Step::Binary(op, a, b) => builder.binary(op, values[a], values[b]),
                Step::Ternary(op, a, b, c) => builder.ternary(op, values[a], values[b], values[c]),
                Step::Call(a, b, position) => builder.call(function, &[values[a], values[b]])[position],
            };
            values.push(value);
        }
        let outputs: Vec<Value> = self.outputs.iter().map(|&output| values[output]).collect();
        builder.finish(&outputs).unwrap()
    }
}

fn assert_equal(plan: &Plan, executor: &impl Executor, lanes: &[Vec<f64>], what: &str) {
    let mut memory = executor.memory(lanes.len());
    for (lane, inputs) in lanes.iter().enumerate() {
        for (k, &value) in inputs.iter().enumerate() {
            memory.input_mut(k)[lane] = value;
        }
    }
    // Twice: a run must not depend on what an earlier one left behind.
    for _ in 0..2 {
        executor.execute(&mut memory).unwrap();
        for (lane, inputs) in lanes.iter().enumerate() {
            for (k, expected) in plan.evaluate(inputs).into_iter().enumerate() {
                let got = memory.output(k)[lane];
                let is_same = same(got, expected) || is_under_valgrind();
                assert!(is_same, "{what}, lane {lane}, output {k}: {got:e} instead of {expected:e}");
            }
        }
    }
}

#[test]
fn random_tapes_equal_direct_evaluation() {
    let (n_tapes, n_steps) = if is_simulated() { (3, 30) } else { (400, 120) };
    for seed in 0..n_tapes {
        let mut rng = fastrand::Rng::with_seed(seed);
        let plan = Plan::random(&mut rng, 5, n_steps);
        let tape = Arc::new(plan.tape());
        let is_tame = seed % 2 == 0;
        let mut draw = |n: usize| -> Vec<Vec<f64>> {
            let mut value = || if is_tame { rng.f64() * 4.0 - 2.0 } else { number(&mut rng) };
            (0..n).map(|_| (0..5).map(|_| value()).collect()).collect()
        };
        for backend in backends() {
            let interpreter = Interpreter::with_backend(tape.clone(), backend).unwrap();
            for n_lanes in [1, 2, 3, 4, 5, 7, 8, 9, 13, 64, 67] {
                let n_lanes = if cfg!(miri) { n_lanes.min(9) } else { n_lanes };
                let lanes = draw(n_lanes);
                assert_equal(&plan, &interpreter, &lanes, &format!("seed {seed}, {backend:?}, {n_lanes} lanes"));
            }
            let one = draw(1).remove(0);
            let outputs = interpreter.evaluate(&one).unwrap();
            assert!(outputs.iter().zip(plan.evaluate(&one)).all(|(&a, b)| same(a, b) || is_under_valgrind()));
            let cut = [seed as usize % 6, seed as usize / 6 % 6];
            assert_equal_scattered(&plan, &interpreter, &one, cut, &format!("seed {seed}, {backend:?}"));
        }
    }
}

/// One trajectory with its inputs in groups, some of them empty, and its outputs elsewhere.
fn assert_equal_scattered(plan: &Plan, interpreter: &Interpreter, inputs: &[f64], cut: [usize; 2], what: &str) {
    let mut memory = interpreter.memory(1);
    let (first, rest) = inputs.split_at(cut[0].min(cut[1]));
    let (second, third) = rest.split_at(cut[0].max(cut[1]) - first.len());
    let mut outputs = vec![0.5; plan.outputs.len()];
    for groups in [&[first, &[], second, third][..], &[first, &[], second, third], &[inputs]] {
        interpreter.execute_one(&mut memory, groups, &mut outputs).unwrap();
        for (k, (&got, expected)) in outputs.iter().zip(plan.evaluate(inputs)).enumerate() {
            let is_same = same(got, expected) || is_under_valgrind();
            assert!(is_same, "{what}, scattered, output {k}: {got:e} instead of {expected:e}");
        }
    }
}

fn assert_equal_everywhere(plan: &Plan, rng: &mut fastrand::Rng, what: &str) {
    let tape = Arc::new(plan.tape());
    for backend in backends() {
        let interpreter = Interpreter::with_backend(tape.clone(), backend).unwrap();
        for n_lanes in [1, 7, 24, 40] {
            let lanes: Vec<Vec<f64>> =
                (0..n_lanes).map(|_| (0..plan.n_inputs).map(|_| number(rng)).collect()).collect();
            assert_equal(plan, &interpreter, &lanes, &format!("{what}, {backend:?}, {n_lanes} lanes"));
            assert_equal_scattered(plan, &interpreter, &lanes[0], [1, 3], &format!("{what}, {backend:?}"));
        }
    }
}

/// The sums and differences of products that interpreters compute at once: all numbers of factors, constants at all
/// places.
#[test]
fn every_sum_of_products_keeps_its_bits() {
    let mut rng = fastrand::Rng::with_seed(5);
    // Bit k of a mask says that factor k is a constant.
    let terms: Vec<(usize, usize)> = (1..=3).flat_map(|n| (0..1 << n).map(move |mask| (n, mask))).collect();
    let every = if is_simulated() { 3 } else { 1 };
    for &(n_first, first) in terms.iter().step_by(every) {
        for &(n_second, second) in terms.iter().step_by(every) {
            for op in [Binary::Add, Binary::Sub] {
                let mut plan = Plan { n_inputs: 6, steps: Vec::new(), outputs: Vec::new() };
                let mut roots = [0; 2];
                for (term, (n_factors, mask)) in [(n_first, first), (n_second, second)].into_iter().enumerate() {
                    for factor in 0..n_factors {
                        let mut value = 3 * term + factor;
                        if mask >> factor & 1 == 1 {
                            plan.steps.push(Step::Constant(0.1 + factor as f64 + 5.0 * term as f64));
                            value = plan.n_inputs + plan.steps.len() - 1;
                        }
                        if factor > 0 {
                            plan.steps.push(Step::Binary(Binary::Mul, roots[term], value));
                            value = plan.n_inputs + plan.steps.len() - 1;
                        }
                        roots[term] = value;
                    }
                }
                plan.outputs = roots.into_iter().filter(|_| rng.u8(..4) == 0).collect();
                plan.steps.push(Step::Binary(op, roots[0], roots[1]));
                plan.outputs.push(plan.n_inputs + plan.steps.len() - 1);
                let what = format!("{op:?} of {n_first} factors {first:b} and {n_second} factors {second:b}");
                assert_equal_everywhere(&plan, &mut rng, &what);
            }
        }
    }
}

/// Trees whose inner values are used once: nearly everything is joined, and slots are reused at once.
#[test]
fn joined_products_survive_the_reuse_of_slots() {
    let operations = [Binary::Mul, Binary::Mul, Binary::Mul, Binary::Add, Binary::Sub];
    for seed in 0..if is_simulated() { 3 } else { 300 } {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut plan = Plan { n_inputs: 5, steps: Vec::new(), outputs: Vec::new() };
        let mut unused: Vec<usize> = Vec::new();
        for _ in 0..60 {
            let mut pick = |rng: &mut fastrand::Rng| match unused.len() {
                0 => rng.usize(..5),
                n if rng.u8(..3) > 0 => unused.swap_remove(rng.usize(..n)),
                _ => rng.usize(..5),
            };
            let (a, b) = (pick(&mut rng), pick(&mut rng));
            let op = operations[rng.usize(..operations.len())];
            if rng.u8(..6) == 0 {
                plan.steps.push(Step::Constant(rng.f64()));
                unused.push(plan.n_inputs + plan.steps.len() - 1);
            }
            plan.steps.push(Step::Binary(op, a, b));
            unused.push(plan.n_inputs + plan.steps.len() - 1);
        }
        plan.outputs = unused;
        assert_equal_everywhere(&plan, &mut rng, &format!("seed {seed}"));
    }
}

/// Every operation on all pairs and triples of special values and on random ones, all backends against width one.
#[test]
fn every_operation_gives_the_same_bits_everywhere() {
    let mut rng = fastrand::Rng::with_seed(11);
    let n_random = if is_simulated() { 5 } else { 3000 };
    let mut triples: Vec<[f64; 3]> = Vec::new();
    let step = if is_simulated() { 7 } else { 1 };
    for &a in SPECIAL.iter().step_by(step) {
        for &b in SPECIAL.iter().step_by(step) {
            triples.push([a, b, SPECIAL[rng.usize(..SPECIAL.len())]]);
        }
    }
    triples.extend((0..n_random).map(|_| [number(&mut rng), number(&mut rng), number(&mut rng)]));
    let mut builder = TapeBuilder::new(3, TapeOptions::default());
    let (a, b, c) = (builder.input(0), builder.input(1), builder.input(2));
    let mut outputs = Vec::new();
    outputs.extend(Unary::ALL.iter().map(|&op| builder.unary(op, a)));
    outputs.extend(Binary::ALL.iter().map(|&op| builder.binary(op, a, b)));
    outputs.extend(Ternary::ALL.iter().map(|&op| builder.ternary(op, a, b, c)));
    let tape = Arc::new(builder.finish(&outputs).unwrap());
    for backend in backends() {
        let interpreter = Interpreter::with_backend(tape.clone(), backend).unwrap();
        for n_lanes in [1, triples.len()] {
            let mut memory = interpreter.memory(n_lanes);
            for chunk in triples.chunks(n_lanes) {
                for (lane, triple) in chunk.iter().enumerate() {
                    for (k, &value) in triple.iter().enumerate() {
                        memory.input_mut(k)[lane] = value;
                    }
                }
                interpreter.execute(&mut memory).unwrap();
                for (lane, &[a, b, c]) in chunk.iter().enumerate() {
                    let expected = (Unary::ALL.iter().map(|&op| (format!("{op:?}"), op.evaluate(a))))
                        .chain(Binary::ALL.iter().map(|&op| (format!("{op:?}"), op.evaluate(a, b))))
                        .chain(Ternary::ALL.iter().map(|&op| (format!("{op:?}"), op.evaluate(a, b, c))));
                    for (k, (name, value)) in expected.enumerate() {
                        let got = memory.output(k)[lane];
                        let is_same = same(got, value) || is_under_valgrind();
                        assert!(is_same, "{backend:?} {name}({a:e}, {b:e}, {c:e}): {got:e}, alone {value:e}");
                    }
                }
            }
        }
    }
}

#[test]
fn special_values_follow_the_documentation() {
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let unary: &[(Unary, f64, f64)] = &[
        (Unary::Sign, -0.0, 0.0),
        (Unary::Sign, -3.0, -1.0),
        (Unary::Sign, nan, nan),
        (Unary::Not, 0.0, 1.0),
        (Unary::Not, nan, 0.0),
        (Unary::Exp, -inf, 0.0),
        (Unary::Exp, inf, inf),
        (Unary::Exp, -745.2, 0.0),
        (Unary::Exp, 709.79, inf),
        (Unary::Log, -0.0, -inf),
        (Unary::Log, inf, inf),
        (Unary::Log, -1.0, nan),
        (Unary::Log, 1.0, 0.0),
        (Unary::Log10, 1000.0, 3.0),
        (Unary::Log10, 1e-5, -5.0),
        (Unary::Sin, -0.0, -0.0),
        (Unary::Sin, inf, nan),
        (Unary::Cos, -inf, nan),
        (Unary::Cos, 0.0, 1.0),
        (Unary::Tan, -0.0, -0.0),
        (Unary::Tan, inf, nan),
        (Unary::Asin, -0.0, -0.0),
        (Unary::Asin, 1.0, std::f64::consts::FRAC_PI_2),
        (Unary::Asin, 1.0000000000000002, nan),
        (Unary::Acos, 1.0, 0.0),
        (Unary::Acos, -1.0, std::f64::consts::PI),
        (Unary::Acos, -1.5, nan),
        (Unary::Atan, -0.0, -0.0),
        (Unary::Atan, -inf, -std::f64::consts::FRAC_PI_2),
        (Unary::Sinh, -0.0, -0.0),
        (Unary::Sinh, -inf, -inf),
        (Unary::Sinh, 5e-324, 5e-324),
        (Unary::Cosh, -inf, inf),
        (Unary::Cosh, 0.0, 1.0),
        (Unary::Tanh, -0.0, -0.0),
        (Unary::Tanh, -inf, -1.0),
        (Unary::Tanh, 5e-324, 5e-324),
        (Unary::Ceil, -0.5, -0.0),
        (Unary::Trunc, -1.5, -1.0),
    ];
    for &(op, a, expected) in unary {
        let got = op.evaluate(a);
        assert!(same(got, expected), "{op:?}({a}) = {got}, not {expected}");
    }
    for &op in Unary::ALL.iter().filter(|&&op| op != Unary::Not) {
        assert!(op.evaluate(nan).is_nan(), "{op:?}(NaN)");
    }
    let pi = std::f64::consts::PI;
    let binary: &[(Binary, f64, f64, f64)] = &[
        (Binary::Min, nan, 1.0, nan),
        (Binary::Min, 1.0, nan, nan),
        (Binary::Max, nan, 1.0, nan),
        (Binary::Max, 1.0, nan, nan),
        (Binary::Min, 0.0, -0.0, -0.0),
        (Binary::Max, -0.0, 0.0, 0.0),
        (Binary::Less, nan, 1.0, 0.0),
        (Binary::GreaterEqual, 1.0, nan, 0.0),
        (Binary::Equal, nan, nan, 0.0),
        (Binary::NotEqual, nan, nan, 1.0),
        (Binary::And, nan, 1.0, 1.0),
        (Binary::Or, 0.0, -0.0, 0.0),
        (Binary::Quotient, -7.0, 2.0, -3.0),
        (Binary::Modulo, -7.0, 2.0, 1.0),
        (Binary::Modulo, 7.0, -2.0, -1.0),
        (Binary::Remainder, -7.0, 2.0, -1.0),
        (Binary::Pow, 0.0, 0.0, 1.0),
        (Binary::Pow, nan, 0.0, 1.0),
        (Binary::Pow, 1.0, nan, 1.0),
        (Binary::Pow, nan, 1.0, nan),
        (Binary::Pow, -2.0, 3.0, -8.0),
        (Binary::Pow, -2.0, -2.0, 0.25),
        (Binary::Pow, -2.0, 0.5, nan),
        (Binary::Pow, -0.0, -3.0, -inf),
        (Binary::Pow, -0.0, 0.5, 0.0),
        (Binary::Pow, 0.0, -0.5, inf),
        (Binary::Pow, -inf, 3.0, -inf),
        (Binary::Pow, -inf, -3.0, -0.0),
        (Binary::Pow, -inf, 0.5, inf),
        (Binary::Pow, -1.0, inf, 1.0),
        (Binary::Pow, 0.5, inf, 0.0),
        (Binary::Pow, 2.0, -inf, 0.0),
        (Binary::Pow, 2.0, -1074.0, 5e-324),
        (Binary::Pow, 2.0, 1024.0, inf),
        (Binary::Pow, 1.0 + f64::EPSILON, 1e300, inf),
        (Binary::Pow, 10.0, 22.0, 1e22),
        (Binary::Atan2, 0.0, -0.0, pi),
        (Binary::Atan2, -0.0, -0.0, -pi),
        (Binary::Atan2, -0.0, 0.0, -0.0),
        (Binary::Atan2, 0.0, 1.0, 0.0),
        (Binary::Atan2, -1.0, -0.0, -pi / 2.0),
        (Binary::Atan2, inf, inf, pi / 4.0),
        (Binary::Atan2, -inf, -inf, -3.0 * pi / 4.0),
        (Binary::Atan2, 1.0, -inf, pi),
        (Binary::Atan2, -1.0, inf, -0.0),
        (Binary::Atan2, 0.0, nan, nan),
    ];
    for &(op, a, b, expected) in binary {
        let got = op.evaluate(a, b);
        assert!(same(got, expected), "{op:?}({a}, {b}) = {got}, not {expected}");
    }
    assert_eq!(Ternary::Select.evaluate(0.0, 1.0, 2.0), 2.0);
    assert_eq!(Ternary::Select.evaluate(nan, 1.0, 2.0), 1.0);
}
