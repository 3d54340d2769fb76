//! Functions that are neither expressions nor programs: lookups in tables and generators of random numbers.
//!
//! An intrinsic is called like a user function (a [`crate::Node::Call`] of a function whose body is one
//! [`crate::function::Statement::Intrinsic`]). Its partial derivatives are intrinsics again, so that the tangent of a
//! call is
//!
//! ```text
//! dy = sum over inputs i of (d f / d u_i)(u) du_i
//! ```
//!
//! with exact derivatives of any order.

use std::cell::RefCell;
use std::sync::Arc;

use crate::foreign::{Foreign, ForeignFailure, ForeignUnit};
use crate::function::{Function, FunctionId, Statement};
use crate::graph::Graph;
use crate::node::ExprId;
use crate::source::Span;
use crate::table::{TableCurve, TableError, TableSurface, TimeTable};
use crate::whole::Whole;

/// What an intrinsic computes.
#[derive(Clone, PartialEq, Debug)]
pub enum Intrinsic {
    /// The `order`-th derivative of a curve; one input.
    Curve {
        /// The curve.
        curve: Arc<TableCurve>,
        /// How often it is differentiated.
        order: u8,
    },
    /// A partial derivative of a surface; two inputs.
    Surface {
        /// The surface.
        surface: Arc<TableSurface>,
        /// How often it is differentiated by each input.
        orders: [u8; 2],
    },
    /// The `order`-th derivative of a column of a table over time; inputs are the time and that of the next event.
    Signal {
        /// The table.
        table: Arc<TimeTable>,
        /// The column, from 0.
        column: usize,
        /// How often it is differentiated by time.
        order: u8,
    },
    /// The time of the next event of a table; the input is the time.
    NextEvent {
        /// The table.
        table: Arc<TimeTable>,
    },
    /// One step of a generator of random numbers: the inputs are its state as signed 32-bit integers; the outputs are a
    /// number in (0, 1] and the new state.
    Random(Generator),
    /// Sizes and phases of a real signal at `n` points of one period, `n` even. With
    /// `X_k = sum over j of u_j exp(-2 pi i j k / n)`, `k` from 0 to `n / 2`, the outputs are `|X_k| / (n / 2 + 1)`, as
    /// the function of the Standard Library has them, then the angles of `X_k`. The amplitude of a wave is
    /// `2 |X_k| / n`, a little more.
    Fourier {
        /// Number of points.
        n: usize,
    },
    /// A function of a model that runs elsewhere.
    Foreign(Foreign),
    /// An operation on Integers that one double does not hold; see [`crate::whole`].
    Whole(Whole),
}

/// Generators of the xorshift family [@vigna2016].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Generator {
    /// `xorshift64*`: 64 bits of state.
    Xorshift64Star,
    /// `xorshift128+`: 128 bits of state.
    Xorshift128Plus,
    /// `xorshift1024*`: 1024 bits of state and an index.
    Xorshift1024Star,
}

impl Generator {
    /// Number of integers in the state.
    #[must_use]
    pub const fn n_state(self) -> usize {
        match self {
            Self::Xorshift64Star => 2,
            Self::Xorshift128Plus => 4,
            Self::Xorshift1024Star => 33,
        }
    }

    /// The next number in (0, 1] and the new state.
    fn step(self, state: &[f64], out: &mut [f64]) {
        let words = |count: usize| -> Vec<u64> {
            (0..count).map(|at| join(state[2 * at] as i32, state[2 * at + 1] as i32)).collect()
        };
        match self {
            Self::Xorshift64Star => {
                let mut s = words(1)[0];
                s ^= s >> 12;
                s ^= s << 25;
                s ^= s >> 27;
                s = s.wrapping_mul(2_685_821_657_736_338_717);
                out[0] = unit(s);
                split(s, &mut out[1..3]);
            }
            Self::Xorshift128Plus => {
                let old = words(2);
                let (mut a, b) = (old[0], old[1]);
                a ^= a << 23;
                a = (a ^ b ^ (a >> 17) ^ (b >> 26)).wrapping_add(b);
                out[0] = unit(a);
                split(b, &mut out[1..3]);
                split(a, &mut out[3..5]);
            }
            Self::Xorshift1024Star => {
                let mut s = words(16);
                // Seeds make any integer of it, negative ones too; its lowest bits count.
                let at = (state[32] as i64 & 15) as usize;
                let next = (at + 1) & 15;
                let first = s[at];
                let mut second = s[next];
                second ^= second << 31;
                s[next] = second ^ first ^ (second >> 11) ^ (first >> 30);
                out[0] = unit(s[next].wrapping_mul(1_181_783_497_276_652_981));
                for (word, place) in s.iter().zip(out[1..33].chunks_exact_mut(2)) {
                    split(*word, place);
                }
                out[33] = next as f64;
            }
        }
    }
}

/// A signal with its amplitudes and phases, and the roots of unity for its length.
#[derive(Default)]
struct Transformed {
    signal: Vec<f64>,
    roots: Vec<[f64; 2]>,
    out: Vec<f64>,
}

thread_local! {
    /// The last transform: what a when-clause assigns is evaluated at every event, also where it does not fire and its
    /// signal has not changed.
    static LAST: RefCell<Transformed> = RefCell::default();
}

/// Amplitudes and phases; see [`Intrinsic::Fourier`].
fn fourier(signal: &[f64], out: &mut [f64]) {
    LAST.with_borrow_mut(|last| {
        // The phase of a negative zero is another one.
        let is_known = last.signal.iter().map(|x| x.to_bits()).eq(signal.iter().map(|x| x.to_bits()));
        if !is_known || last.out.len() != out.len() {
            last.set(signal, out.len());
        }
        out.copy_from_slice(&last.out);
    });
}

impl Transformed {
    fn set(&mut self, signal: &[f64], n_values: usize) {
        let n = signal.len();
        if self.roots.len() != n {
            let angle = |k: usize| -2.0 * std::f64::consts::PI * k as f64 / n as f64;
            self.roots = (0..n).map(|k| [libm::cos(angle(k)), libm::sin(angle(k))]).collect();
        }
        let spectrum = transform(signal, 0, 1, n, &self.roots);
        let n_out = n / 2 + 1;
        self.out = vec![0.0; n_values];
        for (k, [re, im]) in spectrum.into_iter().take(n_out).enumerate() {
            self.out[k] = libm::hypot(re, im) / n_out as f64;
            self.out[n_out + k] = libm::atan2(im, re);
        }
        self.signal = signal.to_vec();
    }
}

/// The transform of the points `from, from + stride, ..`, `n` of them, by the smallest prime factor of `n` at a time
/// [@cooley1965]. `roots` are the powers of the root of unity for all points.
fn transform(signal: &[f64], from: usize, stride: usize, n: usize, roots: &[[f64; 2]]) -> Vec<[f64; 2]> {
    if n <= 1 {
        return (0..n).map(|_| [signal[from], 0.0]).collect();
    }
    let prime = (2..n).find(|factor| n.is_multiple_of(*factor)).unwrap_or(n);
    let part = n / prime;
    let parts: Vec<Vec<[f64; 2]>> =
        (0..prime).map(|at| transform(signal, from + at * stride, stride * prime, part, roots)).collect();
    let step = roots.len() / n;
    (0..n)
        .map(|k| {
            let mut sum = [0.0; 2];
            for (at, part_values) in parts.iter().enumerate() {
                let [c, s] = roots[(at * k * step) % roots.len()];
                let [re, im] = part_values[k % part];
                sum = [sum[0] + c * re - s * im, sum[1] + c * im + s * re];
            }
            sum
        })
        .collect()
}

/// Two integers as one word, the first of them with the low bits.
const fn join(low: i32, high: i32) -> u64 {
    (low as u32 as u64) | ((high as u32 as u64) << 32)
}

fn split(word: u64, out: &mut [f64]) {
    out[0] = f64::from(word as u32 as i32);
    out[1] = f64::from((word >> 32) as u32 as i32);
}

/// A word as a number in (0, 1].
fn unit(word: u64) -> f64 {
    (word as i64 as f64 / 18_446_744_073_709_551_616.0 + 0.5).clamp(f64::MIN_POSITIVE, 1.0)
}

impl Intrinsic {
    /// Number of inputs.
    #[must_use]
    pub const fn n_inputs(&self) -> usize {
        match self {
            Self::Curve { .. } | Self::NextEvent { .. } => 1,
            Self::Surface { .. } | Self::Signal { .. } => 2,
            Self::Random(generator) => generator.n_state(),
            Self::Fourier { n } => *n,
            Self::Foreign(foreign) => foreign.n_all_inputs(),
            Self::Whole(whole) => whole.n_inputs(),
        }
    }

    /// Number of outputs.
    #[must_use]
    pub const fn n_outputs(&self) -> usize {
        match self {
            Self::Random(generator) => generator.n_state() + 1,
            Self::Fourier { n } => 2 * (*n / 2 + 1),
            Self::Foreign(foreign) => foreign.n_outputs,
            Self::Whole(whole) => whole.n_outputs(),
            _ => 1,
        }
    }

    /// A name for it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Curve { .. } => "table",
            Self::Surface { .. } => "table2",
            Self::Signal { .. } => "timeTable",
            Self::NextEvent { .. } => "nextTimeEvent",
            Self::Random(_) => "random",
            Self::Fourier { .. } => "fourier",
            Self::Foreign(foreign) => foreign.name,
            Self::Whole(_) => "integer",
        }
    }

    /// The outputs at a point.
    ///
    /// # Errors
    /// Outside of a table that is not to be extrapolated, and where a foreign function has no value.
    pub fn evaluate(&self, inputs: &[f64], outputs: &mut [f64]) -> Result<(), TableError> {
        match self {
            Self::Curve { curve, order } => outputs[0] = curve.value(*order, inputs[0])?,
            Self::Surface { surface, orders } => outputs[0] = surface.value(*orders, [inputs[0], inputs[1]])?,
            Self::Signal { table, column, order } => {
                outputs[0] = table.value(*column, *order, inputs[0], inputs[1])?;
            }
            Self::NextEvent { table } => outputs[0] = table.next_event(inputs[0]),
            Self::Random(generator) => generator.step(inputs, outputs),
            Self::Fourier { n } => fourier(&inputs[..*n], outputs),
            Self::Foreign(foreign) => {
                let evaluated = foreign.evaluate(inputs, outputs);
                evaluated.map_err(|failure| TableError::Foreign { message: failure.message })?;
            }
            Self::Whole(whole) => whole.evaluate(inputs, outputs).map_err(TableError::Whole)?,
        }
        Ok(())
    }

    /// The partial derivative by an input; `None` where it is zero wherever it exists, or is not known: that of random
    /// numbers, of Integers, and of amplitudes and phases, which only ever change at events. Foreign functions have a tangent
    /// instead ([`Foreign::tangent`]).
    #[must_use]
    pub fn partial(&self, input: usize) -> Option<Self> {
        match (self, input) {
            (Self::Curve { curve, order }, 0) => Some(Self::Curve { curve: curve.clone(), order: order + 1 }),
            (Self::Surface { surface, orders }, 0 | 1) => {
                let mut orders = *orders;
                orders[input] += 1;
                Some(Self::Surface { surface: surface.clone(), orders })
            }
            (Self::Signal { table, column, order }, 0) => {
                Some(Self::Signal { table: table.clone(), column: *column, order: order + 1 })
            }
            _ => None,
        }
    }
}

impl Graph {
    /// The function that calls an intrinsic; equal intrinsics have one function.
    pub fn intrinsic(&mut self, intrinsic: &Intrinsic) -> FunctionId {
        let known = self.functions().iter().position(|function| match function.body.as_slice() {
            [Statement::Intrinsic { intrinsic: one, .. }] => **one == *intrinsic,
            _ => false,
        });
        if let Some(known) = known {
            return FunctionId(known as u32);
        }
        let (n_inputs, n_outputs) = (intrinsic.n_inputs() as u32, intrinsic.n_outputs() as u32);
        let results: Vec<u32> = (n_inputs..n_inputs + n_outputs).collect();
        let body = vec![Statement::Intrinsic {
            intrinsic: Arc::new(intrinsic.clone()),
            args: (0..n_inputs).collect(),
            results: results.clone(),
        }];
        let name = format!("{}{}", intrinsic.name(), self.functions().len());
        self.add_function(Function {
            name,
            n_inputs,
            outputs: results,
            n_locals: n_inputs + n_outputs,
            body,
            span: Span::NONE,
        })
    }

    /// The foreign function that a function calls and does nothing else.
    #[must_use]
    pub fn foreign(&self, function: FunctionId) -> Option<&Foreign> {
        match self.function(function).body.as_slice() {
            [Statement::Intrinsic { intrinsic, .. }] => match &**intrinsic {
                Intrinsic::Foreign(foreign) => Some(foreign),
                _ => None,
            },
            _ => None,
        }
    }

    /// The operation on whole numbers that a function is.
    #[must_use]
    pub fn whole(&self, function: FunctionId) -> Option<Whole> {
        match self.function(function).body.as_slice() {
            [Statement::Intrinsic { intrinsic, .. }] => match &**intrinsic {
                Intrinsic::Whole(whole) => Some(*whole),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether functions of a model that runs elsewhere are called.
    #[must_use]
    pub fn calls_foreign(&self) -> bool {
        (0..self.functions().len() as u32).any(|function| self.is_elsewhere(FunctionId(function)))
    }

    /// Why a model that runs elsewhere, whose functions are called here, runs no more.
    #[must_use]
    pub fn foreign_failure(&self) -> Option<ForeignFailure> {
        let functions = (0..self.functions().len() as u32).map(FunctionId);
        functions.filter_map(|function| self.foreign(function)).find_map(|foreign| foreign.unit.failure())
    }

    /// Units that remember a run and are read, each once.
    #[must_use]
    pub fn histories(&self) -> Vec<Arc<dyn ForeignUnit>> {
        let functions = (0..self.functions().len() as u32).map(FunctionId);
        let mut found: Vec<Arc<dyn ForeignUnit>> = Vec::new();
        for foreign in functions.filter_map(|function| self.foreign(function)) {
            if foreign.unit.remembered().is_some() && !found.iter().any(|unit| Arc::ptr_eq(unit, &foreign.unit)) {
                found.push(foreign.unit.clone());
            }
        }
        found
    }

    /// Whether a function is one of a model that runs elsewhere, and does not remember a run.
    #[must_use]
    pub fn is_elsewhere(&self, function: FunctionId) -> bool {
        self.foreign(function).is_some_and(|foreign| foreign.unit.remembered().is_none())
    }

    /// The largest noise of functions of models that run elsewhere, relative to their values.
    #[must_use]
    pub fn noise(&self) -> f64 {
        let functions = (0..self.functions().len() as u32).map(FunctionId);
        functions.filter_map(|function| self.foreign(function)).map(|one| one.unit.noise()).fold(0.0, f64::max)
    }

    /// Names of variables of models that run elsewhere that have values of no Real type.
    #[must_use]
    pub fn whole_variables(&self) -> Vec<&str> {
        let mut functions = (0..self.functions().len() as u32).map(FunctionId);
        let foreign = functions.find(|&function| self.is_elsewhere(function)).and_then(|one| self.foreign(one));
        foreign.map_or_else(Vec::new, |foreign| foreign.unit.whole_variables())
    }

    /// One output of an intrinsic.
    pub fn call_intrinsic(&mut self, intrinsic: &Intrinsic, output: u16, args: &[ExprId]) -> ExprId {
        let function = self.intrinsic(intrinsic);
        self.call(function, output, args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amplitudes_and_phases_of_known_waves() {
        // 1.5 + 2 cos(2 pi j / 12) + 0.5 cos(2 pi 3 j / 12 - pi / 2) at twelve points.
        let turn = 2.0 * std::f64::consts::PI / 12.0;
        let signal: Vec<f64> = (0..12)
            .map(|j| 1.5 + 2.0 * (turn * f64::from(j)).cos() + 0.5 * (3.0 * turn * f64::from(j)).sin())
            .collect();
        let mut out = [0.0; 14];
        Intrinsic::Fourier { n: 12 }.evaluate(&signal, &mut out).unwrap();
        // |X_0| is twelve times the mean, |X_k| six times an amplitude; seven sizes come out.
        for (k, size) in [18.0, 12.0, 0.0, 3.0, 0.0, 0.0, 0.0].into_iter().enumerate() {
            assert!((out[k] - size / 7.0).abs() < 1e-14, "{k}: {}", out[k]);
        }
        assert!(out[8].abs() < 1e-14 && (out[10] + std::f64::consts::FRAC_PI_2).abs() < 1e-14);
    }

    /// What a transform gives does not depend on those before it.
    #[test]
    fn a_kept_transform_is_that_of_its_own_signal() {
        let transformed = |signal: &[f64]| {
            let mut out = vec![0.0; 2 * (signal.len() / 2 + 1)];
            Intrinsic::Fourier { n: signal.len() }.evaluate(signal, &mut out).unwrap();
            out.into_iter().map(f64::to_bits).collect::<Vec<u64>>()
        };
        let signals =
            [vec![1.0, 2.0, -1.0, 0.5], vec![1.0, 2.0, -1.0, 0.5, 3.0, 4.0], vec![0.0; 4], vec![-0.0; 4], vec![1.0; 4]];
        // A thread of its own has nothing kept.
        let alone =
            signals.each_ref().map(|signal| std::thread::scope(|s| s.spawn(|| transformed(signal)).join().unwrap()));
        for at in [0, 0, 1, 0, 2, 3, 2, 3, 4, 0, 4, 1] {
            assert_eq!(transformed(&signals[at]), alone[at], "{at}");
        }
    }

    #[test]
    fn only_the_lowest_bits_of_the_index_of_xorshift1024_star_count() {
        let mut state: Vec<f64> = (0..33).map(|at| f64::from(at * at + 7)).collect();
        let numbers = [13.0, -3.0, 13.0 + 16.0 * 1e6, -2_063_533_603.0].map(|index| {
            state[32] = index;
            let mut out = [0.0; 34];
            Generator::Xorshift1024Star.step(&state, &mut out);
            out
        });
        assert!(numbers.iter().all(|number| number == &numbers[0]) && numbers[0][33] == 14.0);
    }

    #[test]
    fn a_step_of_xorshift64_star_by_hand() {
        // s = 1: s ^ s>>12 = 1; ^ s<<25 = 0x2000001; ^ s>>27 = 0x2000001 (33554433 >> 27 = 0).
        let mut out = [0.0; 3];
        Generator::Xorshift64Star.step(&[1.0, 0.0], &mut out);
        let product = 33_554_433_u64.wrapping_mul(2_685_821_657_736_338_717);
        assert_eq!((out[1], out[2]), (f64::from(product as u32 as i32), f64::from((product >> 32) as u32 as i32)));
        assert_eq!(out[0], product as i64 as f64 / 2f64.powi(64) + 0.5);
        assert!(out[0] > 0.0 && out[0] <= 1.0);
    }
}
