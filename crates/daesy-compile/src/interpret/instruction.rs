//! Instructions of the interpreter: a function and the places it works on.
//!
//! The function is generic over the lanes and over what it computes, and compiled once for each combination.
//! Constants of sums and products are read once per step, slots once per group of lanes.

use super::Backend;
use super::fuse::{Form, Kind, Term};
use crate::kernels::circular;
use crate::lanes::twin::Twin;
use crate::lanes::{Lanes, portable};
use crate::memory::REPETITIONS;
use crate::operation::{BinaryKernel, Opcode, OpcodeVisitor, TernaryKernel, UnaryKernel, visit};
use crate::tape::{Operand, Source, Tape};
use std::cell::RefCell;
use std::marker::PhantomData;

/// What all steps of one run share.
pub(super) struct Frame<'a> {
    pub(super) cells: *mut f64,
    pub(super) constants: *const f64,
    pub(super) stride: usize,
    /// Lanes to be computed: all of them, and some more to fill groups.
    pub(super) n_computed: usize,
    pub(super) n_lanes: usize,
    pub(super) tape: &'a Tape,
    pub(super) scratch: RefCell<&'a mut [f64]>,
}

/// Places of a step: up to three factors in each of two terms.
const MOST_OPERANDS: usize = 6;

/// # Safety
/// The frame must belong to the tape of the step, with a stride and lanes to be computed as memory has them: 1 for
/// one lane, else multiples of 8. The processor must have the instructions the step was made for.
type Run = unsafe fn(&Frame<'_>, &Places);

/// Where a step reads and writes.
#[derive(Clone, Copy, Debug)]
struct Places {
    target: u32,
    operands: [Operand; MOST_OPERANDS],
}

impl Places {
    fn of(form: &Form) -> Self {
        let mut operands = [Operand::NONE; MOST_OPERANDS];
        let mut fill = |factors: &mut dyn Iterator<Item = Operand>| {
            for (operand, factor) in operands.iter_mut().zip(factors) {
                *operand = factor;
            }
        };
        let target = match form {
            Form::Plain(instruction) => {
                fill(&mut [instruction.a, instruction.b, instruction.c].into_iter());
                instruction.target
            }
            Form::Product { target, term } => {
                fill(&mut term.factors().iter().copied());
                *target
            }
            Form::Sum { target, first, second, .. } => {
                fill(&mut first.factors().iter().chain(second.factors()).copied());
                *target
            }
        };
        Self { target, operands }
    }

    /// The same with the places of constants after the slots.
    #[inline(always)]
    fn for_one_lane(self, n_slots: usize) -> Self {
        let place = |operand: Operand| match operand.source() {
            Source::Slot(_) => operand,
            Source::Constant(index) => Operand::slot((n_slots + index) as u32),
        };
        Self { target: self.target, operands: self.operands.map(place) }
    }
}

/// One step of a program for several lanes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaneInstruction {
    run: Run,
    places: Places,
}

impl LaneInstruction {
    /// # Safety
    /// As [`Run`].
    #[inline(always)]
    pub(super) unsafe fn run(&self, frame: &Frame<'_>) {
        // SAFETY: the caller's.
        unsafe { (self.run)(frame, &self.places) }
    }

    fn new<F: Flavor>(form: &Form) -> Self {
        let run = match form {
            Form::Plain(instruction) => {
                let mut run: Run = call;
                visit(instruction.opcode, Choose::<F> { run: &mut run, flavor: PhantomData });
                run
            }
            Form::Product { term, .. } => product::<F>(kind(term)),
            Form::Sum { first, second, is_difference, .. } => sum::<F>(kind(first), kind(second), *is_difference),
        };
        Self { run, places: Places::of(form) }
    }
}

fn kind(term: &Term) -> Kind {
    term.kind().expect("only terms of known kinds are fused")
}

/// A step for several lanes.
pub(super) fn for_form(form: &Form, backend: Backend) -> LaneInstruction {
    match backend {
        #[cfg(target_arch = "x86_64")]
        Backend::Avx2 | Backend::Native => LaneInstruction::new::<avx2::Eight>(form),
        #[cfg(target_arch = "x86_64")]
        Backend::Native512 => LaneInstruction::new::<avx512::Eight>(form),
        _ => LaneInstruction::new::<plain::Eight>(form),
    }
}

/// The program for several lanes.
pub(super) fn for_lanes(forms: &[Form], backend: Backend) -> Box<[LaneInstruction]> {
    forms.iter().map(|form| for_form(form, backend)).collect()
}

/// Lanes of an operand: lane k is at `start + (k & mask)`, so that the mask 0 reads a constant again and again.
#[derive(Clone, Copy)]
struct Row {
    start: *const f64,
    mask: usize,
}

impl Row {
    /// # Safety
    /// `lane + L::WIDTH` must not exceed the stride, unless the row is a constant.
    #[inline(always)]
    unsafe fn load<L: Lanes>(self, lane: usize) -> L {
        // SAFETY: within the row by the caller; a constant is repeated as often as the widest lanes need.
        unsafe { L::load(self.start.add(lane & self.mask)) }
    }
}

impl Frame<'_> {
    /// The row of an operand; at width 1 of an operand of the program for one lane.
    ///
    /// # Safety
    /// The operand must be one of the tape of the frame, and the width 1 exactly when the frame has one lane.
    #[inline(always)]
    unsafe fn row<L: Lanes>(&self, operand: Operand) -> Row {
        // SAFETY: the caller's.
        unsafe {
            if L::WIDTH == 1 || !operand.is_constant() {
                Row { start: self.target::<L>(operand.raw()), mask: usize::MAX }
            } else {
                Row { start: self.constant::<L>(operand), mask: 0 }
            }
        }
    }

    /// The row of a slot.
    ///
    /// # Safety
    /// As [`Frame::row`].
    #[inline(always)]
    unsafe fn target<L: Lanes>(&self, slot: u32) -> *mut f64 {
        let stride = if L::WIDTH == 1 { 1 } else { self.stride };
        // SAFETY: the tape is sound, so the slot exists, and for one lane the constants follow the slots.
        unsafe { self.cells.add(slot as usize * stride) }
    }

    /// Where a constant is; at width 1 it has a place like a slot.
    ///
    /// # Safety
    /// As [`Frame::row`].
    #[inline(always)]
    unsafe fn constant<L: Lanes>(&self, operand: Operand) -> *const f64 {
        if L::WIDTH == 1 {
            // SAFETY: the caller's.
            return unsafe { self.target::<L>(operand.raw()) };
        }
        let index = (operand.raw() & !Operand::CONSTANT) as usize;
        // SAFETY: the tape is sound, so the constant exists.
        unsafe { self.constants.add(index * REPETITIONS) }
    }
}

/// Stores a value in all lanes of a row, one group of lanes after the other.
///
/// Rows are equal or disjoint and a group is stored after it was read, so a row may be computed from itself. To be
/// used in an unsafe block, with the promises of `Run`: then all groups lie within their rows.
macro_rules! sweep {
    ($lanes:ident, $frame:expr, $target:expr, |$lane:ident| $value:expr) => {
        if $lanes::WIDTH == 1 {
            let $lane = 0;
            $value.store($target);
        } else {
            let mut $lane = 0;
            while $lane < $frame.n_computed {
                $value.store($target.add($lane));
                $lane += $lanes::WIDTH;
            }
        }
    };
}

/// As `sweep`, two groups of lanes at a time while there are so many, for values that cost little more than the loop.
macro_rules! sweep_pairs {
    ($lanes:ident, $frame:expr, $target:expr, |$lane:ident| $value:expr) => {
        if $lanes::WIDTH == 1 {
            let $lane = 0;
            $value.store($target);
        } else {
            let mut start = 0;
            while start + 2 * $lanes::WIDTH <= $frame.n_computed {
                let $lane = start;
                let first: $lanes = $value;
                let $lane = start + $lanes::WIDTH;
                let second: $lanes = $value;
                first.store($target.add(start));
                second.store($target.add(start + $lanes::WIDTH));
                start += 2 * $lanes::WIDTH;
            }
            if start < $frame.n_computed {
                let $lane = start;
                $value.store($target.add(start));
            }
        }
    };
}

/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn copy_body<L: Lanes>(frame: &Frame<'_>, places: &Places) {
    // SAFETY: the caller makes the promises of `Run`.
    unsafe {
        let a = frame.row::<L>(places.operands[0]);
        let target = frame.target::<L>(places.target);
        sweep!(L, frame, target, |lane| a.load::<L>(lane));
    }
}

/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn unary_body<L: Lanes, K: UnaryKernel>(frame: &Frame<'_>, places: &Places) {
    // SAFETY: the caller makes the promises of `Run`.
    unsafe {
        let a = frame.row::<L>(places.operands[0]);
        let target = frame.target::<L>(places.target);
        sweep!(L, frame, target, |lane| K::apply(a.load::<L>(lane)));
    }
}

/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn binary_body<L: Lanes, K: BinaryKernel>(frame: &Frame<'_>, places: &Places) {
    // SAFETY: the caller makes the promises of `Run`.
    unsafe {
        // One by one: `map` of an array is not inlined into functions with instructions of their own.
        let (a, b) = (frame.row::<L>(places.operands[0]), frame.row::<L>(places.operands[1]));
        let target = frame.target::<L>(places.target);
        sweep!(L, frame, target, |lane| K::apply(a.load::<L>(lane), b.load::<L>(lane)));
    }
}

/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn ternary_body<L: Lanes, K: TernaryKernel>(frame: &Frame<'_>, places: &Places) {
    // SAFETY: the caller makes the promises of `Run`.
    unsafe {
        let (a, b) = (frame.row::<L>(places.operands[0]), frame.row::<L>(places.operands[1]));
        let c = frame.row::<L>(places.operands[2]);
        let target = frame.target::<L>(places.target);
        sweep!(L, frame, target, |lane| K::apply(a.load::<L>(lane), b.load::<L>(lane), c.load::<L>(lane)));
    }
}

/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn sin_cos_body<L: Lanes>(frame: &Frame<'_>, places: &Places) {
    let end = if L::WIDTH == 1 { 1 } else { frame.n_computed };
    // SAFETY: the caller makes the promises of `Run`.
    unsafe {
        let a = frame.row::<L>(places.operands[0]);
        let sine = frame.target::<L>(places.target);
        let cosine = frame.target::<L>(places.operands[1].raw());
        let mut lane = 0;
        while lane < end {
            let both = circular::sin_cos(a.load::<L>(lane));
            both.sin.store(sine.add(lane));
            both.cos.store(cosine.add(lane));
            lane += L::WIDTH;
        }
    }
}

/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn product_body<L: Lanes, T: Product>(frame: &Frame<'_>, places: &Places) {
    // SAFETY: the caller makes the promises of `Run`.
    unsafe {
        let term = T::Held::<L>::hold(frame, &places.operands);
        let target = frame.target::<L>(places.target);
        sweep_pairs!(L, frame, target, |lane| term.value(lane));
    }
}

/// # Safety
/// As [`Run`].
#[inline(always)]
unsafe fn sum_body<L: Lanes, T: Product, U: Product, const IS_DIFFERENCE: bool>(frame: &Frame<'_>, places: &Places) {
    // SAFETY: the caller makes the promises of `Run`.
    unsafe {
        let first = T::Held::<L>::hold(frame, &places.operands);
        let second = U::Held::<L>::hold(frame, &places.operands[T::Held::<L>::N_FACTORS..]);
        let target = frame.target::<L>(places.target);
        sweep_pairs!(L, frame, target, |lane| if IS_DIFFERENCE {
            first.value(lane) - second.value(lane)
        } else {
            first.value(lane) + second.value(lane)
        });
    }
}

/// Calls a function lane by lane, or for all lanes at once.
///
/// # Safety
/// As [`Run`].
unsafe fn call(frame: &Frame<'_>, places: &Places) {
    let call = &frame.tape.calls()[places.operands[0].raw() as usize];
    let repetitions = if frame.n_lanes == 1 { 1 } else { REPETITIONS };
    let read = |lane: usize, arguments: &mut [f64]| {
        let mut rest = arguments;
        for stretch in call.stretches() {
            let (own, after) = std::mem::take(&mut rest).split_at_mut(stretch.len as usize);
            rest = after;
            // SAFETY: the tape is sound, so the slots or the constant exist, and so does the lane. Cells and arguments
            // do not overlap.
            unsafe {
                match stretch.first.source() {
                    Source::Slot(slot) if frame.stride == 1 => {
                        std::ptr::copy_nonoverlapping(frame.cells.add(slot), own.as_mut_ptr(), own.len());
                    }
                    Source::Slot(slot) => {
                        for (slot, argument) in (slot..).zip(own) {
                            *argument = frame.cells.add(slot * frame.stride + lane).read();
                        }
                    }
                    Source::Constant(index) => own.fill(frame.constants.add(index * repetitions).read()),
                }
            }
        }
    };
    let write = |lane: usize, results: &[f64]| {
        for (&result, target) in results.iter().zip(call.targets()) {
            if let Some(slot) = target {
                // SAFETY: the tape is sound, so the slot exists, and so does the lane.
                unsafe { frame.cells.add(*slot as usize * frame.stride + lane).write(result) };
            }
        }
    };
    let (n_arguments, n_results) = (call.arguments().len(), call.targets().len());
    if frame.n_lanes > 1 && call.function().takes_all() {
        let mut arguments = vec![0.0; frame.n_lanes * n_arguments];
        let mut results = vec![0.0; frame.n_lanes * n_results];
        for lane in 0..frame.n_lanes {
            read(lane, &mut arguments[lane * n_arguments..(lane + 1) * n_arguments]);
        }
        call.function().call_all(frame.n_lanes, &arguments, &mut results);
        for lane in 0..frame.n_lanes {
            write(lane, &results[lane * n_results..(lane + 1) * n_results]);
        }
        return;
    }
    let mut scratch = frame.scratch.borrow_mut();
    let (arguments, results) = scratch.split_at_mut(n_arguments);
    let results = &mut results[..n_results];
    for lane in 0..frame.n_lanes {
        read(lane, arguments);
        results.fill(0.0);
        call.function().call(arguments, results);
        write(lane, results);
    }
}

/// A product of constants and slots, as a type.
trait Product {
    /// The product while a step runs.
    type Held<L: Lanes>: Held<L>;
}

/// A product while a step runs: constants in registers, slots by their rows.
trait Held<L: Lanes>: Copy {
    /// Number of factors.
    const N_FACTORS: usize;
    /// Looks up the factors, with which the operands begin.
    ///
    /// # Safety
    /// As [`Frame::row`].
    unsafe fn hold(frame: &Frame<'_>, operands: &[Operand]) -> Self;
    /// The product in the lanes from `lane` on.
    ///
    /// # Safety
    /// `lane + L::WIDTH` must not exceed the stride.
    unsafe fn value(self, lane: usize) -> L;
}

/// A slot.
#[derive(Clone, Copy)]
struct Slot(*const f64);

/// A constant.
#[derive(Clone, Copy)]
struct Constant<L>(L);

/// A product from the left.
#[derive(Clone, Copy)]
struct Times<A, B>(A, B);

impl<L: Lanes> Held<L> for Slot {
    const N_FACTORS: usize = 1;
    #[inline(always)]
    unsafe fn hold(frame: &Frame<'_>, operands: &[Operand]) -> Self {
        // SAFETY: the caller's.
        Self(unsafe { frame.target::<L>(operands[0].raw()) })
    }
    #[inline(always)]
    unsafe fn value(self, lane: usize) -> L {
        // SAFETY: within the row by the caller.
        unsafe { L::load(self.0.add(lane)) }
    }
}

impl<L: Lanes> Held<L> for Constant<L> {
    const N_FACTORS: usize = 1;
    #[inline(always)]
    unsafe fn hold(frame: &Frame<'_>, operands: &[Operand]) -> Self {
        // SAFETY: the caller's; the tape is sound, so the constant exists.
        Self(L::splat(unsafe { frame.constant::<L>(operands[0]).read() }))
    }
    #[inline(always)]
    unsafe fn value(self, _lane: usize) -> L {
        self.0
    }
}

impl<L: Lanes, A: Held<L>, B: Held<L>> Held<L> for Times<A, B> {
    const N_FACTORS: usize = A::N_FACTORS + B::N_FACTORS;
    #[inline(always)]
    unsafe fn hold(frame: &Frame<'_>, operands: &[Operand]) -> Self {
        // SAFETY: the caller's.
        unsafe { Self(A::hold(frame, operands), B::hold(frame, &operands[A::N_FACTORS..])) }
    }
    #[inline(always)]
    unsafe fn value(self, lane: usize) -> L {
        // SAFETY: the caller's.
        unsafe { self.0.value(lane) * self.1.value(lane) }
    }
}

macro_rules! products {
    ($( $name:ident = $held:ty; )*) => {
        $(
            struct $name;
            impl Product for $name {
                type Held<L: Lanes> = $held;
            }
        )*

        /// The function that computes a product.
        fn product<F: Flavor>(kind: Kind) -> Run {
            match kind {
                $( Kind::$name => F::product::<$name>(), )*
            }
        }

        /// The function that computes the sum or difference of two products.
        fn sum<F: Flavor>(first: Kind, second: Kind, is_difference: bool) -> Run {
            fn with_first<F: Flavor, T: Product>(second: Kind, is_difference: bool) -> Run {
                match (second, is_difference) {
                    $( (Kind::$name, false) => F::sum::<T, $name, false>(), )*
                    $( (Kind::$name, true) => F::sum::<T, $name, true>(), )*
                }
            }
            match first {
                $( Kind::$name => with_first::<F, $name>(second, is_difference), )*
            }
        }
    };
}

products! {
    S = Slot;
    K = Constant<L>;
    Ks = Times<Constant<L>, Slot>;
    Ss = Times<Slot, Slot>;
    Kss = Times<Times<Constant<L>, Slot>, Slot>;
    Ssk = Times<Times<Slot, Slot>, Constant<L>>;
    Sss = Times<Times<Slot, Slot>, Slot>;
}

/// How steps are compiled: for which lanes, with which instructions of the processor.
trait Flavor {
    fn copy() -> Run;
    fn unary<K: UnaryKernel>() -> Run;
    fn binary<K: BinaryKernel>() -> Run;
    fn ternary<K: TernaryKernel>() -> Run;
    fn sin_cos() -> Run;
    fn product<T: Product>() -> Run;
    fn sum<T: Product, U: Product, const IS_DIFFERENCE: bool>() -> Run;
}

/// Finds the function of an instruction.
struct Choose<'r, F> {
    run: &'r mut Run,
    flavor: PhantomData<F>,
}

impl<F: Flavor> OpcodeVisitor for Choose<'_, F> {
    fn copy(self) {
        *self.run = F::copy();
    }
    fn unary<K: UnaryKernel>(self) {
        *self.run = F::unary::<K>();
    }
    fn binary<K: BinaryKernel>(self) {
        *self.run = F::binary::<K>();
    }
    fn ternary<K: TernaryKernel>(self) {
        *self.run = F::ternary::<K>();
    }
    fn sin_cos(self) {
        *self.run = F::sin_cos();
    }
    fn call(self) {
        *self.run = call;
    }
}

/// Compiles every function for lanes of a type; `$feature` goes before each.
macro_rules! flavor {
    ($(#[$doc:meta])* $name:ident, $lanes:ty $(, #[$feature:meta])?) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl Flavor for $name {
            flavor!(@function copy, copy_body, $lanes, [], [] $(, #[$feature])?);
            flavor!(@function sin_cos, sin_cos_body, $lanes, [], [] $(, #[$feature])?);
            flavor!(@function unary, unary_body, $lanes, [K], [K: UnaryKernel] $(, #[$feature])?);
            flavor!(@function binary, binary_body, $lanes, [K], [K: BinaryKernel] $(, #[$feature])?);
            flavor!(@function ternary, ternary_body, $lanes, [K], [K: TernaryKernel] $(, #[$feature])?);
            flavor!(@function product, product_body, $lanes, [T], [T: Product] $(, #[$feature])?);
            flavor!(@function sum, sum_body, $lanes, [T, U, D], [T: Product, U: Product, const D: bool]
                $(, #[$feature])?);
        }
    };
    (@function $name:ident, $body:ident, $lanes:ty, [$($argument:ident),*], [$($generic:tt)*] $(, #[$feature:meta])?) => {
        fn $name<$($generic)*>() -> Run {
            $(#[$feature])?
            unsafe fn run<$($generic)*>(frame: &Frame<'_>, places: &Places) {
                // SAFETY: the caller's.
                unsafe { $body::<$lanes $(, $argument)*>(frame, places) }
            }
            run::<$($argument),*>
        }
    };
}

mod plain {
    use super::*;

    flavor!(
        /// Eight lanes at a time.
        Eight,
        Twin<portable::Quad>
    );
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;

    flavor!(
        /// Eight lanes at a time, in registers.
        Eight,
        Twin<crate::lanes::avx2::Quad>,
        #[target_feature(enable = "avx2,fma")]
    );
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;

    flavor!(
        /// Eight lanes at a time, in one register.
        Whole,
        crate::lanes::avx512::Oct,
        #[target_feature(enable = "avx512f,avx512dq")]
    );

    /// Elementary functions in wide registers. Sums and products become machine code where they run often, so that
    /// they are not compiled once more for this.
    pub(super) struct Eight;

    impl Flavor for Eight {
        fn copy() -> Run {
            avx2::Eight::copy()
        }
        fn unary<K: UnaryKernel>() -> Run {
            Whole::unary::<K>()
        }
        fn binary<K: BinaryKernel>() -> Run {
            Whole::binary::<K>()
        }
        fn ternary<K: TernaryKernel>() -> Run {
            Whole::ternary::<K>()
        }
        fn sin_cos() -> Run {
            Whole::sin_cos()
        }
        fn product<T: Product>() -> Run {
            avx2::Eight::product::<T>()
        }
        fn sum<T: Product, U: Product, const IS_DIFFERENCE: bool>() -> Run {
            avx2::Eight::sum::<T, U, IS_DIFFERENCE>()
        }
    }
}

/// What a step for one lane does. Constants have places like slots, so that only numbers of factors matter.
#[derive(Clone, Copy, Debug)]
enum SingleCode {
    Plain(Opcode),
    Product2,
    Product3,
    Sum11,
    Sum12,
    Sum13,
    Sum22,
    Sum23,
    Sum33,
    Difference11,
    Difference12,
    Difference13,
    Difference21,
    Difference22,
    Difference23,
    Difference31,
    Difference32,
    Difference33,
}

/// One step of a program for one lane.
///
/// With so little to do the way to the code decides: one `match` in a loop is predicted better than calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct SingleInstruction {
    code: SingleCode,
    places: Places,
}

/// The program for one lane: constants have the places after the slots.
pub(super) fn for_one_lane(forms: &[Form], n_slots: usize) -> Box<[SingleInstruction]> {
    let step =
        |form: &Form| SingleInstruction { code: SingleCode::of(form), places: Places::of(form).for_one_lane(n_slots) };
    forms.iter().map(step).collect()
}

impl SingleCode {
    fn of(form: &Form) -> Self {
        match form {
            Form::Plain(instruction) => Self::Plain(instruction.opcode),
            Form::Product { term, .. } => match term.factors().len() {
                3 => Self::Product3,
                _ => Self::Product2,
            },
            Form::Sum { first, second, is_difference, .. } => {
                match (is_difference, first.factors().len(), second.factors().len()) {
                    (false, 1, 1) => Self::Sum11,
                    (false, 1, 2) => Self::Sum12,
                    (false, 1, _) => Self::Sum13,
                    (false, 2, 2) => Self::Sum22,
                    (false, 2, _) => Self::Sum23,
                    (false, _, _) => Self::Sum33,
                    (true, 1, 1) => Self::Difference11,
                    (true, 1, 2) => Self::Difference12,
                    (true, 1, _) => Self::Difference13,
                    (true, 2, 1) => Self::Difference21,
                    (true, 2, 2) => Self::Difference22,
                    (true, 2, _) => Self::Difference23,
                    (true, _, 1) => Self::Difference31,
                    (true, _, 2) => Self::Difference32,
                    (true, _, _) => Self::Difference33,
                }
            }
        }
    }
}

/// Runs a program for one lane.
///
/// # Safety
/// The frame must belong to the tape of the steps and have one lane.
#[inline(always)]
unsafe fn run_single(steps: &[SingleInstruction], frame: &Frame<'_>) {
    for SingleInstruction { code, places } in steps {
        // SAFETY: the caller's; width 1 is right for one lane.
        unsafe {
            match code {
                SingleCode::Plain(opcode) => visit(*opcode, RunSingle::new(frame, places)),
                SingleCode::Product2 => product_body::<f64, Ss>(frame, places),
                SingleCode::Product3 => product_body::<f64, Sss>(frame, places),
                SingleCode::Sum11 => sum_body::<f64, S, S, false>(frame, places),
                SingleCode::Sum12 => sum_body::<f64, S, Ss, false>(frame, places),
                SingleCode::Sum13 => sum_body::<f64, S, Sss, false>(frame, places),
                SingleCode::Sum22 => sum_body::<f64, Ss, Ss, false>(frame, places),
                SingleCode::Sum23 => sum_body::<f64, Ss, Sss, false>(frame, places),
                SingleCode::Sum33 => sum_body::<f64, Sss, Sss, false>(frame, places),
                SingleCode::Difference11 => sum_body::<f64, S, S, true>(frame, places),
                SingleCode::Difference12 => sum_body::<f64, S, Ss, true>(frame, places),
                SingleCode::Difference13 => sum_body::<f64, S, Sss, true>(frame, places),
                SingleCode::Difference21 => sum_body::<f64, Ss, S, true>(frame, places),
                SingleCode::Difference22 => sum_body::<f64, Ss, Ss, true>(frame, places),
                SingleCode::Difference23 => sum_body::<f64, Ss, Sss, true>(frame, places),
                SingleCode::Difference31 => sum_body::<f64, Sss, S, true>(frame, places),
                SingleCode::Difference32 => sum_body::<f64, Sss, Ss, true>(frame, places),
                SingleCode::Difference33 => sum_body::<f64, Sss, Sss, true>(frame, places),
            }
        }
    }
}

/// Runs a program for one lane as it stands, without steps made for it: for programs that run once.
///
/// # Safety
/// As [`run_single`].
#[inline(always)]
unsafe fn run_unprepared(frame: &Frame<'_>) {
    let n_slots = frame.tape.n_slots();
    for instruction in frame.tape.instructions() {
        let places = Places::of(&Form::Plain(*instruction)).for_one_lane(n_slots);
        // SAFETY: the caller's.
        visit(instruction.opcode, unsafe { RunSingle::new(frame, &places) });
    }
}

/// Runs a program for one lane as it stands with any processor.
///
/// # Safety
/// As [`run_single`].
pub(super) unsafe fn run_unprepared_plain(frame: &Frame<'_>) {
    // SAFETY: the caller's.
    unsafe { run_unprepared(frame) }
}

/// Runs a program for one lane as it stands with the fused multiply-add of the processor.
///
/// # Safety
/// As [`run_single`]; the processor must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run_unprepared_avx2(frame: &Frame<'_>) {
    // SAFETY: the caller's.
    unsafe { run_unprepared(frame) }
}

/// Runs a program for one lane with any processor.
///
/// # Safety
/// As [`run_single`].
pub(super) unsafe fn run_single_plain(steps: &[SingleInstruction], frame: &Frame<'_>) {
    // SAFETY: the caller's.
    unsafe { run_single(steps, frame) }
}

/// Runs a program for one lane with the fused multiply-add of the processor.
///
/// # Safety
/// As [`run_single`]; the processor must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn run_single_avx2(steps: &[SingleInstruction], frame: &Frame<'_>) {
    // SAFETY: the caller's.
    unsafe { run_single(steps, frame) }
}

/// An instruction for one lane on its way to its kernel.
struct RunSingle<'r, 'f> {
    frame: &'r Frame<'f>,
    places: &'r Places,
}

impl<'r, 'f> RunSingle<'r, 'f> {
    /// # Safety
    /// The promises of [`run_single`]; what visits the instruction relies on them.
    #[inline(always)]
    unsafe fn new(frame: &'r Frame<'f>, places: &'r Places) -> Self {
        Self { frame, places }
    }
}

impl OpcodeVisitor for RunSingle<'_, '_> {
    #[inline(always)]
    fn copy(self) {
        // SAFETY: the promises of `new`; width 1 is right for one lane.
        unsafe { copy_body::<f64>(self.frame, self.places) }
    }
    #[inline(always)]
    fn unary<K: UnaryKernel>(self) {
        // SAFETY: the promises of `new`; width 1 is right for one lane.
        unsafe { unary_body::<f64, K>(self.frame, self.places) }
    }
    #[inline(always)]
    fn binary<K: BinaryKernel>(self) {
        // SAFETY: the promises of `new`; width 1 is right for one lane.
        unsafe { binary_body::<f64, K>(self.frame, self.places) }
    }
    #[inline(always)]
    fn ternary<K: TernaryKernel>(self) {
        // SAFETY: the promises of `new`; width 1 is right for one lane.
        unsafe { ternary_body::<f64, K>(self.frame, self.places) }
    }
    #[inline(always)]
    fn sin_cos(self) {
        // SAFETY: the promises of `new`; width 1 is right for one lane.
        unsafe { sin_cos_body::<f64>(self.frame, self.places) }
    }
    #[inline(always)]
    fn call(self) {
        // SAFETY: the promises of `new`; width 1 is right for one lane.
        unsafe { call(self.frame, self.places) }
    }
}
