//! Histories: what signals were, written by a simulation while it runs and read by the model.
//!
//! A history holds pairs of a key and a value, the key growing: for `delay(u, T)` time and u(t), read at t - T
//! [@modelica36, sec. 3.7.4.1]. Between events a signal is smooth, and a history is a list of smooth pieces
//!
//! ```text
//! piece 0:  keys up to k0, the value at the start
//! piece j:  keys from k_j to k_(j+1), polynomials between the ends of steps
//! ```
//!
//! The model asks for three things, all of them constant as long as a step lasts:
//!
//! ```text
//! value(j, k)    the value of piece j at key k, and its derivative by k
//! end(j)         the key where piece j ends; FAR as long as that is not known
//! piece(k)       the number of the piece that holds k and what follows it
//! ```
//!
//! so that a reader that holds the number of its piece between events meets the end of a piece as an event. A key that
//! has not been written yet has no value: the step that asks for it must be shorter.
//!
//! Runs on different threads have histories of their own.

use crate::foreign::{ForeignFailure, ForeignUnit, Remembered};
use crate::per_thread::PerThread;

/// A key that is not reached.
pub(crate) const FAR: f64 = 1e60;

/// Points of a step through which a polynomial is laid.
pub const NODES: usize = 9;

/// Points between them at which it must agree.
pub const CHECKS: usize = 2;

/// Keys and times beyond the last one written by this fraction of the last stretch are rounding.
const SLACK: f64 = 1e-9;

/// What a unit of histories can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// The value of a piece at a key.
    Value,
    /// The key where a piece ends.
    End,
    /// The piece that holds a key and what follows it.
    Piece,
}

impl Question {
    /// Its number as a foreign function, its name, and how many inputs it has.
    #[must_use]
    pub const fn signature(self) -> (u32, &'static str, usize) {
        match self {
            Self::Value => (0, "history", 2),
            Self::End => (1, "history_end", 1),
            Self::Piece => (2, "history_piece", 1),
        }
    }
}

/// A polynomial in Newton's form through (key, value) pairs, over the keys `from ..= to`.
#[derive(Clone, Debug)]
pub(crate) struct Polynomial {
    pub(crate) from: f64,
    pub(crate) to: f64,
    nodes: Vec<f64>,
    coefficients: Vec<f64>,
}

impl Polynomial {
    /// Divided differences [@hairer1993, sec. II.6].
    pub(crate) fn through(pairs: &[(f64, f64)]) -> Self {
        let nodes: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        let mut coefficients: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        for order in 1..nodes.len() {
            for at in (order..nodes.len()).rev() {
                coefficients[at] = (coefficients[at] - coefficients[at - 1]) / (nodes[at] - nodes[at - order]);
            }
        }
        let from = nodes.iter().copied().fold(f64::INFINITY, f64::min);
        let to = nodes.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { from, to, nodes, coefficients }
    }

    /// Value and derivative by Horner's rule.
    pub(crate) fn at(&self, key: f64) -> (f64, f64) {
        let (mut value, mut slope) = (0.0, 0.0);
        for (node, coefficient) in self.nodes.iter().zip(&self.coefficients).rev() {
            slope = slope * (key - node) + value;
            value = value * (key - node) + coefficient;
        }
        (value, slope)
    }
}

/// A smooth part of a history.
#[derive(Clone, Debug, Default)]
struct Piece {
    stretches: Vec<Polynomial>,
}

impl Piece {
    fn begin(&self) -> f64 {
        self.stretches.first().map_or(f64::NEG_INFINITY, |stretch| stretch.from)
    }

    /// Where what has been written ends, with the rounding of keys.
    fn reach(&self) -> f64 {
        self.stretches
            .last()
            .map_or(f64::NEG_INFINITY, |last| last.to + SLACK * (last.to - last.from).min(last.to.abs().max(1.0)))
    }

    /// Value and slope; none beyond what has been written.
    fn at(&self, key: f64, is_last: bool) -> Option<(f64, f64)> {
        if is_last && key > self.reach() {
            return None;
        }
        let at = self.stretches.partition_point(|stretch| stretch.to < key).min(self.stretches.len() - 1);
        Some(self.stretches[at].at(key))
    }
}

/// The history of one run.
#[derive(Debug, Default)]
struct Record {
    pieces: Vec<Piece>,
    /// Whether an event happened since the last stretch was written.
    is_after_event: bool,
    /// The largest size of the value.
    size: f64,
}

impl Record {
    fn end(&self, piece: usize) -> f64 {
        self.pieces.get(piece + 1).map_or(FAR, Piece::begin)
    }

    fn piece(&self, key: f64) -> usize {
        self.pieces.partition_point(|piece| piece.begin() <= key).saturating_sub(1)
    }

    fn value(&self, piece: usize, key: f64) -> Option<(f64, f64)> {
        self.pieces.get(piece)?.at(key, piece + 1 == self.pieces.len())
    }

    /// Appends a stretch; where an event came before it and value or slope differ, a new piece begins.
    fn push(&mut self, stretch: Polynomial, tolerance: f64) {
        let (value, slope) = stretch.at(stretch.from);
        let is_smooth = !std::mem::take(&mut self.is_after_event)
            || self.pieces.last().and_then(|piece| piece.stretches.last()).is_some_and(|last| {
                let (value_before, slope_before) = last.at(last.to);
                let allowed = tolerance * self.size;
                let length = stretch.to - stretch.from;
                (value - value_before).abs() <= allowed && (slope - slope_before).abs() * length <= allowed
            });
        match self.pieces.last_mut() {
            Some(piece) if is_smooth => piece.stretches.push(stretch),
            _ => self.pieces.push(Piece { stretches: vec![stretch] }),
        }
    }
}

/// The history of a signal; every thread has its own.
#[derive(Debug)]
pub struct History {
    /// The variable whose values are written.
    pub signal: String,
    /// The variable that holds the key that is read at.
    pub reading: String,
    records: PerThread<Record>,
}

impl History {
    /// The history of a variable, read at the key that another one holds.
    #[must_use]
    pub fn new(signal: String, reading: String) -> Self {
        Self { signal, reading, records: PerThread::default() }
    }

    /// Begins anew on this thread: up to the key, the value was as it is there.
    pub fn begin(&self, key: f64, value: f64) {
        let first = Polynomial { from: f64::NEG_INFINITY, to: key, nodes: vec![key], coefficients: vec![value] };
        let pieces = vec![Piece { stretches: vec![first] }];
        self.records.begin(Record { pieces, is_after_event: true, size: value.abs() });
    }

    /// Ends the run of this thread.
    pub fn end(&self) {
        self.records.end();
    }

    /// Says that an event happened: what follows may be another piece.
    pub fn note_event(&self) {
        self.records.with(|record| record.is_after_event = true);
    }

    /// How far a key lies beyond what has been written; not above zero where it does not.
    pub fn excess(&self, key: f64) -> f64 {
        self.records.with(|record| record.pieces.last().map_or(0.0, |piece| key - piece.reach())).unwrap_or(0.0)
    }

    /// Writes a stretch: `NODES` pairs of key and value, then `CHECKS` pairs that the polynomial through those must
    /// meet to within the tolerance, relative to the largest value so far. False, and nothing is written, where it does
    /// not and `is_final` is not said. A stretch without length is none.
    pub fn write(&self, pairs: &[(f64, f64)], tolerance: f64, is_final: bool) -> bool {
        let written = self.records.with(|record| {
            let (nodes, checks) = pairs.split_at(NODES);
            let (first, last) = (nodes[0].0, nodes[NODES - 1].0);
            record.size = nodes.iter().fold(record.size, |size, pair| size.max(pair.1.abs()));
            let rounding = 1e3 * f64::EPSILON * (first.abs() + last.abs());
            if last - first <= rounding {
                return true;
            }
            let stretch = Polynomial::through(nodes);
            let allowed = tolerance * record.size;
            if !is_final && !checks.iter().all(|&(key, value)| (stretch.at(key).0 - value).abs() <= allowed) {
                return false;
            }
            record.push(stretch, tolerance.sqrt());
            true
        });
        written.unwrap_or(true)
    }

    fn failure(message: &str) -> ForeignFailure {
        ForeignFailure {
            code: "no-history",
            message: message.to_owned(),
            help: "only `simulate` can run models with `delay` of signals that vary continuously".to_owned(),
        }
    }

    fn ask<T>(&self, question: impl FnOnce(&Record) -> Option<T>) -> Result<T, ForeignFailure> {
        let answer =
            self.records.with(|record| question(record)).ok_or_else(|| Self::failure("there is no history"))?;
        answer.ok_or_else(|| Self::failure("the key is too new"))
    }
}

impl ForeignUnit for History {
    fn evaluate(&self, function: u32, inputs: &[f64], outputs: &mut [f64]) -> Result<(), ForeignFailure> {
        outputs[0] = self.ask(|record| match function {
            0 => record.value(inputs[0] as usize, inputs[1]).map(|at| at.0),
            1 => Some(record.end(inputs[0] as usize)),
            _ => Some(record.piece(inputs[0]) as f64),
        })?;
        Ok(())
    }

    fn tangent(
        &self,
        function: u32,
        inputs: &[f64],
        direction: &[f64],
        outputs: &mut [f64],
    ) -> Result<(), ForeignFailure> {
        outputs[0] = 0.0;
        if function == 0 {
            let at = self.ask(|record| record.value(inputs[0] as usize, inputs[1]))?;
            outputs[0] = at.1 * direction[1];
        }
        Ok(())
    }

    fn depends(&self, function: u32, _: usize, input: usize) -> bool {
        function == 0 && input == 1
    }

    fn failure(&self) -> Option<ForeignFailure> {
        None
    }

    fn remembered(&self) -> Option<Remembered<'_>> {
        Some(Remembered::History(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of a function over a stretch, at Chebyshev's points and two between them.
    fn pairs(from: f64, to: f64, f: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
        let places = (0..NODES).map(|k| 0.5 - 0.5 * (std::f64::consts::PI * k as f64 / (NODES - 1) as f64).cos());
        places.chain([0.1, 0.6]).map(|x| from + x * (to - from)).map(|key| (key, f(key))).collect()
    }

    #[test]
    fn pieces_end_at_jumps_and_kinks_and_hold_values_and_slopes() {
        let history = History::new("u".to_owned(), "at".to_owned());
        let ask = |question: Question, inputs: &[f64]| {
            let mut out = [f64::NAN];
            history.evaluate(question.signature().0, inputs, &mut out).map(|()| out[0])
        };
        assert!(ask(Question::Value, &[0.0, 0.0]).is_err(), "nothing is known before a run");
        history.begin(0.0, 2.0);
        assert_eq!(ask(Question::Value, &[0.0, -5.0]).unwrap(), 2.0);
        assert!(ask(Question::Value, &[0.0, 0.5]).is_err(), "not written yet");
        assert!(history.excess(-0.5) < 0.0 && history.excess(0.5) > 0.4);
        // 2 + k^2 up to 1 is smooth after the constant before 0 but for its curvature; an event that changes nothing at
        // 0.5 ends no piece, a jump at 1 does.
        assert!(history.write(&pairs(0.0, 0.5, |k| 2.0 + k * k), 1e-9, false));
        history.note_event();
        assert!(history.write(&pairs(0.5, 1.0, |k| 2.0 + k * k), 1e-9, false));
        history.note_event();
        assert!(history.write(&pairs(1.0, 2.0, |k| 5.0 - k), 1e-9, false));
        let last = ask(Question::Piece, &[1.5]).unwrap();
        assert_eq!(ask(Question::End, &[last - 1.0]).unwrap(), 1.0);
        assert_eq!(ask(Question::End, &[last]).unwrap(), FAR);
        assert!((ask(Question::Value, &[last - 1.0, 0.75]).unwrap() - 2.5625).abs() < 1e-14);
        assert!((ask(Question::Value, &[last - 1.0, 1.0]).unwrap() - 3.0).abs() < 1e-14, "just before the jump");
        assert!((ask(Question::Value, &[last, 1.0]).unwrap() - 4.0).abs() < 1e-14, "just after it");
        let mut slope = [0.0];
        history.tangent(0, &[last - 1.0, 0.75], &[0.0, 2.0], &mut slope).unwrap();
        assert!((slope[0] - 3.0).abs() < 1e-12);
        // A signal that is rougher than the stretch is refused.
        assert!(!history.write(&pairs(2.0, 3.0, |k| (40.0 * k).sin()), 1e-9, false));
        history.end();
        assert!(ask(Question::End, &[0.0]).is_err());
    }
}
