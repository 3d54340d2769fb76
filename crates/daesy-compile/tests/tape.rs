//! What the builder does with a program: sharing, pruning, joining, slots, limits.

use daesy_compile::{
    Backend, Binary, ExecutionError, Executor, Interpreter, LaneMemory, Opcode, TapeBuilder, TapeOptions, Ternary,
    Unary,
};
use std::sync::Arc;

fn opcodes(tape: &daesy_compile::Tape) -> Vec<Opcode> {
    tape.instructions().iter().map(|instruction| instruction.opcode).collect()
}

#[test]
fn equal_expressions_are_shared_and_unused_ones_dropped() {
    let mut b = TapeBuilder::new(2, TapeOptions::default());
    let (x, y) = (b.input(0), b.input(1));
    let first = b.mul(x, y);
    let second = b.mul(y, x);
    assert_eq!(first, second);
    assert_eq!(b.binary(Binary::Greater, x, y), b.binary(Binary::Less, y, x));
    let _unused = b.unary(Unary::Exp, x);
    let root = b.unary(Unary::Sqrt, first);
    let tape = b.finish(&[root]).unwrap();
    assert_eq!(opcodes(&tape), [Opcode::Mul, Opcode::Sqrt]);
}

#[test]
fn constants_fold_and_identities_keep_every_bit() {
    let mut b = TapeBuilder::new(1, TapeOptions::default());
    let x = b.input(0);
    let (zero, minus_zero, one, minus_one) = (b.constant(0.0), b.constant(-0.0), b.constant(1.0), b.constant(-1.0));
    let two = b.constant(2.0);
    let logarithm = b.unary(Unary::Log, two);
    assert_eq!(b.as_constant(logarithm), Some(Unary::Log.evaluate(2.0)));
    assert_eq!(b.mul(x, one), x);
    assert_eq!(b.div(x, one), x);
    assert_eq!(b.sub(x, zero), x);
    assert_eq!(b.add(x, minus_zero), x);
    // -0 + 0 = +0 and inf * 0 = NaN: these must stay.
    assert_ne!(b.add(x, zero), x);
    assert_eq!(b.mul(x, zero), b.mul(zero, x));
    let product = b.mul(x, zero);
    assert_eq!(b.as_constant(product), None);
    let negative = b.mul(x, minus_one);
    assert_eq!(negative, b.neg(x));
    assert_eq!(b.neg(negative), x);
    assert_eq!(b.select(one, x, two), x);
    assert_eq!(b.select(x, two, two), two);
    let nan = b.constant(f64::NAN);
    let other_nan = b.constant(f64::from_bits(0xfff8_0000_0000_0001));
    assert_eq!(nan, other_nan);
}

#[test]
fn structural_zeros_vanish_when_asked() {
    let mut b = TapeBuilder::new(1, TapeOptions::default().with_structural_zeros());
    let x = b.input(0);
    let zero = b.constant(0.0);
    assert_eq!(b.add(x, zero), x);
    assert_eq!(b.mul(x, zero), zero);
    assert_eq!(b.sub(zero, x), b.neg(x));
    assert_eq!(b.ternary(Ternary::FusedMulAdd, zero, x, x), x);
}

#[test]
fn products_join_the_sum_that_alone_uses_them() {
    let build = |options: TapeOptions| {
        let mut b = TapeBuilder::new(3, options);
        let (x, y, z) = (b.input(0), b.input(1), b.input(2));
        let product = b.mul(x, y);
        let sum = b.add(product, z);
        let shared = b.mul(x, z);
        let left = b.sub(shared, y);
        let right = b.sub(sum, shared);
        b.finish(&[left, right]).unwrap()
    };
    let plain = build(TapeOptions::default());
    assert_eq!(opcodes(&plain).iter().filter(|&&o| o == Opcode::MulThenAdd).count(), 1);
    assert_eq!(opcodes(&plain).iter().filter(|&&o| o == Opcode::Mul).count(), 1);
    let contracted = build(TapeOptions::default().with_contraction());
    assert_eq!(opcodes(&contracted).iter().filter(|&&o| o == Opcode::FusedMulAdd).count(), 1);
    let inputs = [1.0 + f64::EPSILON, 1.0 - f64::EPSILON, -1.0];
    let left = Interpreter::new(plain).evaluate(&inputs).unwrap();
    let right = Interpreter::new(contracted).evaluate(&inputs).unwrap();
    assert_eq!(left[1], (inputs[0] * inputs[1] + inputs[2]) - inputs[0] * inputs[2]);
    assert_eq!(right[1], inputs[0].mul_add(inputs[1], inputs[2]) - inputs[0] * inputs[2]);
}

#[test]
fn sine_and_cosine_of_one_angle_are_computed_together() {
    let mut b = TapeBuilder::new(1, TapeOptions::default());
    let x = b.input(0);
    let (c, s) = (b.unary(Unary::Cos, x), b.unary(Unary::Sin, x));
    let tape = b.finish(&[s, c]).unwrap();
    assert_eq!(opcodes(&tape), [Opcode::SinCos]);
    let interpreter = Interpreter::new(tape);
    assert_eq!(interpreter.evaluate(&[0.3]).unwrap(), [Unary::Sin.evaluate(0.3), Unary::Cos.evaluate(0.3)]);
}

#[test]
fn slots_are_reused_in_long_programs() {
    let n = if cfg!(miri) { 200 } else { 1_000_000 };
    let mut b = TapeBuilder::new(2, TapeOptions::default());
    let (x, y) = (b.input(0), b.input(1));
    let (mut u, mut v) = (x, y);
    for _ in 0..n / 2 {
        let next = b.sub(u, v);
        v = b.binary(Binary::Max, next, u);
        u = next;
    }
    let tape = b.finish(&[u, v]).unwrap();
    assert_eq!(tape.instructions().len(), n);
    assert!(tape.n_slots() < 10, "{} slots", tape.n_slots());
    let (mut p, mut q) = (0.5, 0.25);
    for _ in 0..n / 2 {
        let next = p - q;
        q = Binary::Max.evaluate(next, p);
        p = next;
    }
    assert_eq!(Interpreter::new(tape).evaluate(&[0.5, 0.25]).unwrap(), [p, q]);
}

/// All terms first, then their sum: as built, every term needs a slot at the same time.
#[test]
fn order_follows_need() {
    let mut b = TapeBuilder::new(1, TapeOptions::default());
    let x = b.input(0);
    let n = if cfg!(miri) { 50 } else { 1000 };
    let terms: Vec<_> = (0..n)
        .map(|k| {
            let shift = b.constant(f64::from(k));
            let sum = b.add(x, shift);
            b.unary(Unary::Sqrt, sum)
        })
        .collect();
    let total = terms.into_iter().reduce(|sum, term| b.add(sum, term)).unwrap();
    let tape = b.finish(&[total]).unwrap();
    assert!(tape.n_slots() <= 6, "{} slots", tape.n_slots());
    let expected = (0..n).map(|k| (2.0 + f64::from(k)).sqrt()).reduce(|sum, term| sum + term).unwrap();
    assert_eq!(Interpreter::new(tape).evaluate(&[2.0]).unwrap(), [expected]);
}

#[test]
fn functions_run_per_lane_and_once_per_set_of_arguments() {
    let mut b = TapeBuilder::new(2, TapeOptions::default());
    let (x, y) = (b.input(0), b.input(1));
    let gcd = b.register(
        2,
        Arc::new(|arguments: &[f64], results: &mut [f64]| {
            let (mut a, mut b) = (arguments[0], arguments[1]);
            let mut n = 0.0;
            while b != 0.0 {
                (a, b) = (b, a % b);
                n += 1.0;
            }
            results[0] = a;
            results[1] = n;
        }),
    );
    let first = b.call(gcd, &[x, y]);
    let again = b.call(gcd, &[x, y]);
    assert_eq!(first, again);
    let sum = b.add(first[0], again[0]);
    let tape = b.finish(&[sum]).unwrap();
    assert_eq!(tape.calls().len(), 1);
    assert_eq!(tape.calls()[0].targets()[1], None);
    let interpreter = Interpreter::new(tape);
    let mut memory = interpreter.memory(3);
    memory.input_mut(0).copy_from_slice(&[12.0, 35.0, 81.0]);
    memory.input_mut(1).copy_from_slice(&[18.0, 14.0, 27.0]);
    interpreter.execute(&mut memory).unwrap();
    assert_eq!(memory.output(0), [12.0, 14.0, 54.0]);
}

#[test]
fn outputs_may_be_inputs_constants_or_repeated() {
    let mut b = TapeBuilder::new(1, TapeOptions::default());
    let x = b.input(0);
    let three = b.constant(3.0);
    let square = b.mul(x, x);
    let cube = b.mul(square, x);
    let tape = b.finish(&[square, x, three, square, cube]).unwrap();
    assert_eq!(Interpreter::new(tape).evaluate(&[2.0]).unwrap(), [4.0, 2.0, 3.0, 4.0, 8.0]);
}

#[test]
fn rows_are_aligned_and_outputs_feed_back() {
    let mut b = TapeBuilder::new(2, TapeOptions::default());
    let (x, rate) = (b.input(0), b.input(1));
    let next = b.mul(x, rate);
    let interpreter = Interpreter::new(b.finish(&[next]).unwrap());
    let mut memory = interpreter.memory(65);
    assert_eq!(memory.stride(), 72);
    assert_eq!(memory.inputs().as_ptr() as usize % 64, 0);
    memory.input_mut(0).fill(1.0);
    memory.input_mut(1).fill(2.0);
    for _ in 0..10 {
        interpreter.execute(&mut memory).unwrap();
        memory.feed_back(0, 0, 1);
    }
    assert!(memory.input(0).iter().all(|&value| value == 1024.0));
}

#[test]
fn foreign_memory_and_wrong_inputs_are_refused() {
    let mut b = TapeBuilder::new(1, TapeOptions::default());
    let x = b.input(0);
    let y = b.unary(Unary::Exp, x);
    let interpreter = Interpreter::new(b.finish(&[y]).unwrap());
    let b = TapeBuilder::new(5, TapeOptions::default());
    let x = b.input(4);
    let other = b.finish(&[x]).unwrap();
    let mut memory = LaneMemory::new(&other, 4);
    assert_eq!(interpreter.execute(&mut memory), Err(ExecutionError::WrongMemory));
    assert_eq!(interpreter.evaluate(&[1.0, 2.0]), Err(ExecutionError::WrongInputs { expected: 1, found: 2 }));
}

#[test]
fn the_first_run_and_later_ones_give_the_same_bits() {
    for backend in [Backend::Portable, Backend::Avx2] {
        let mut b = TapeBuilder::new(4, TapeOptions::default());
        let inputs: Vec<_> = (0..4).map(|input| b.input(input)).collect();
        let [x, y, z, w] = inputs[..] else { unreachable!("four inputs") };
        let third = b.constant(1.0 / 3.0);
        let (product, other) = (b.mul(x, y), b.mul(z, third));
        let sum = b.add(product, other);
        let longer = b.mul(other, w);
        let difference = b.sub(longer, sum);
        let (sine, cosine) = (b.unary(Unary::Sin, difference), b.unary(Unary::Cos, difference));
        // Arguments in slots one after the other, a constant, and one out of order.
        let weigh = |arguments: &[f64], results: &mut [f64]| {
            results[0] = arguments.iter().fold(0.0, |sum, argument| 3.0 * sum + argument);
        };
        let weighed = b.register(1, Arc::new(weigh));
        let called = b.call(weighed, &[x, y, z, w, third, x])[0];
        let quotient = b.div(called, sine);
        let tape = b.finish(&[quotient, cosine, sum, called]).unwrap();
        let Ok(interpreter) = Interpreter::with_backend(tape, backend) else { continue };
        let at = [0.3, -1.7, 2.9, 1e-3];
        let bits = || -> Vec<u64> { interpreter.evaluate(&at).unwrap().into_iter().map(f64::to_bits).collect() };
        let (first, second) = (bits(), bits());
        assert_eq!(first, second);
        assert_eq!(second, bits());
        let mut expected = [0.0];
        weigh(&[at[0], at[1], at[2], at[3], 1.0 / 3.0, at[0]], &mut expected);
        assert_eq!(first[3], expected[0].to_bits());
    }
}
