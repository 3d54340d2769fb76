//! Transport: what flows through a pipe, written by a simulation while it runs and read by the model.
//!
//! A quantity z that is carried along a pipe of length 1 by x(t) pipe lengths [@modelica36, sec. 3.7.4.2],
//!
//! ```text
//! dz/dt + dx/dt dz/dy = 0,   0 <= y <= 1,     z(0, t) = in0 if x grows,   z(1, t) = in1 if it falls
//! ```
//!
//! is a function of the material alone, z(y, t) = w(k) with the key k = y - x(t). The pipe holds the keys from -x to
//! 1 - x. Where x grows, w(-x(t)) = in0(t) is added at the low end and w(1 - x) leaves at the high one; where it
//! falls, the other way round. What has left is forgotten where the flow turns. w is a list of smooth pieces, each of
//! them a list of stretches
//!
//! ```text
//! k = p(t),  w = q(t)      polynomials over one step of the run, k monotone
//! ```
//!
//! so that w keeps its accuracy also where the flow turns, and dw/dk = q'/p' has no limit. The model asks for, all of
//! them constant as long as a step lasts and with the direction -1 where x grows and +1 where it falls, in which the
//! keys that leave move,
//!
//! ```text
//! value(j, k, d)    the value of piece j at key k, and its derivative by k
//! border(j, d)      the key where piece j ends in the direction d; d FAR as long as that is not known
//! piece(k, d)       the number of the piece that holds k and what follows it in the direction d
//! excess(k, d)      how far k lies outside of the pipe at the end that it leaves by
//! ```
//!
//! Runs on different threads have pipes of their own.

use std::collections::VecDeque;

use crate::foreign::{ForeignFailure, ForeignUnit, Remembered};
use crate::history::{FAR, NODES, Polynomial};
use crate::per_thread::PerThread;

/// Keys closer than this, relative to their size, are the same.
const SAME_KEY: f64 = 1e-12;

/// Halvings of an interval until it is as short as rounding allows.
const MAX_HALVINGS: usize = 60;

/// What a pipe can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// The value of a piece at a key.
    Value,
    /// The key where a piece ends.
    Border,
    /// The piece that holds a key and what follows it.
    Piece,
    /// How far a key lies outside of the pipe.
    Excess,
}

impl Question {
    /// Its number as a foreign function, its name, and how many inputs it has.
    #[must_use]
    pub const fn signature(self) -> (u32, &'static str, usize) {
        match self {
            Self::Value => (0, "transport", 3),
            Self::Border => (1, "transport_border", 2),
            Self::Piece => (2, "transport_piece", 2),
            Self::Excess => (3, "transport_excess", 2),
        }
    }
}

/// Keys `from ..= to` that entered during a step, with the value as a function of the time at which they did.
#[derive(Clone, Debug)]
struct Stretch {
    from: f64,
    to: f64,
    key: Polynomial,
    value: Polynomial,
}

impl Stretch {
    /// Triples of time, key and value.
    fn through(triples: &[(f64, f64, f64)]) -> Self {
        let keys: Vec<(f64, f64)> = triples.iter().map(|&(time, key, _)| (time, key)).collect();
        let values: Vec<(f64, f64)> = triples.iter().map(|&(time, _, value)| (time, value)).collect();
        let from = keys.iter().map(|pair| pair.1).fold(f64::INFINITY, f64::min);
        let to = keys.iter().map(|pair| pair.1).fold(f64::NEG_INFINITY, f64::max);
        Self { from, to, key: Polynomial::through(&keys), value: Polynomial::through(&values) }
    }

    /// The time at which a key entered: the root of a monotone polynomial, by Newton's method within an interval that
    /// holds it.
    fn time_of(&self, key: f64) -> f64 {
        let (mut before, mut after) = (self.key.from, self.key.to);
        let is_falling = self.key.at(before).0 > self.key.at(after).0;
        let mut time = 0.5 * (before + after);
        for _ in 0..MAX_HALVINGS {
            let (here, slope) = self.key.at(time);
            if here == key {
                break;
            }
            if (here > key) == is_falling {
                before = time
            } else {
                after = time
            }
            let next = time - (here - key) / slope;
            let next = if next > before && next < after { next } else { 0.5 * (before + after) };
            if next == time || after - before <= f64::EPSILON * (before.abs() + after.abs()) {
                break;
            }
            time = next;
        }
        time
    }

    /// Value and slope by the key; beyond its ends, a stretch goes on as a line.
    fn at(&self, key: f64) -> (f64, f64) {
        let within = key.clamp(self.from, self.to);
        let time = self.time_of(within);
        let ((value, by_time), (_, pace)) = (self.value.at(time), self.key.at(time));
        let slope = if pace == 0.0 { 0.0 } else { by_time / pace };
        if key == within { (value, slope) } else { (value + slope * (key - within), slope) }
    }
}

type Piece = VecDeque<Stretch>;

/// What the pipe of one run holds, in the order of its keys.
#[derive(Debug, Default)]
struct Record {
    /// None of them is empty.
    pieces: VecDeque<Piece>,
    /// The number of the first piece.
    first: i64,
    /// The ends of the pipe.
    low: f64,
    high: f64,
    /// Whether an event happened, or nothing entered for a while, since the last stretch was written.
    is_after_event: bool,
    /// The largest size of the value.
    size: f64,
    /// How fast the content moved when the last stretch was written, in lengths of the pipe.
    pace: f64,
}

fn same_key(key: f64) -> f64 {
    SAME_KEY * key.abs().max(1.0)
}

impl Record {
    fn place(&self, piece: f64) -> Option<usize> {
        usize::try_from(piece as i64 - self.first).ok().filter(|&place| place < self.pieces.len())
    }

    fn low_of(piece: &Piece) -> f64 {
        piece.front().map_or(f64::NAN, |stretch| stretch.from)
    }

    fn high_of(piece: &Piece) -> f64 {
        piece.back().map_or(f64::NAN, |stretch| stretch.to)
    }

    fn value(&self, piece: f64, key: f64, direction: f64) -> Option<(f64, f64)> {
        let place = self.place(piece)?;
        // What has not entered yet has no value.
        let is_new = if direction < 0.0 {
            place == 0 && key < self.low - same_key(key)
        } else {
            place + 1 == self.pieces.len() && key > self.high + same_key(key)
        };
        if is_new {
            return None;
        }
        let stretches = &self.pieces[place];
        let at = stretches.partition_point(|stretch| stretch.to < key).min(stretches.len() - 1);
        Some(stretches[at].at(key))
    }

    fn border(&self, piece: f64, direction: f64) -> Option<f64> {
        let place = self.place(piece)?;
        Some(match direction < 0.0 {
            true if place == 0 => -FAR,
            true => Self::low_of(&self.pieces[place]),
            false if place + 1 == self.pieces.len() => FAR,
            false => Self::high_of(&self.pieces[place]),
        })
    }

    fn piece(&self, key: f64, direction: f64) -> f64 {
        let place = if direction < 0.0 {
            self.pieces.partition_point(|piece| Self::low_of(piece) < key - same_key(key)).saturating_sub(1)
        } else {
            let place = self.pieces.partition_point(|piece| Self::high_of(piece) <= key + same_key(key));
            place.min(self.pieces.len().saturating_sub(1))
        };
        (self.first + place as i64) as f64
    }

    fn excess(&self, key: f64, direction: f64) -> f64 {
        (if direction < 0.0 { key - self.high } else { self.low - key }).max(0.0)
    }

    /// Forgets what lies below a key. The last stretch stays.
    fn cut_below(&mut self, key: f64) {
        while let Some(piece) = self.pieces.front_mut() {
            while piece.len() > 1 && piece[0].to <= key + same_key(key) {
                piece.pop_front();
            }
            let is_over = Self::high_of(piece) <= key + same_key(key);
            if !is_over || self.pieces.len() == 1 {
                break;
            }
            self.pieces.pop_front();
            self.first += 1;
        }
        if let Some(stretch) = self.pieces.front_mut().and_then(VecDeque::front_mut) {
            stretch.from = stretch.from.max(key.min(stretch.to));
        }
    }

    /// Forgets what lies above a key. The last stretch stays.
    fn cut_above(&mut self, key: f64) {
        while let Some(piece) = self.pieces.back_mut() {
            while piece.len() > 1 && piece[piece.len() - 1].from >= key - same_key(key) {
                piece.pop_back();
            }
            let is_over = Self::low_of(piece) >= key - same_key(key);
            if !is_over || self.pieces.len() == 1 {
                break;
            }
            self.pieces.pop_back();
        }
        if let Some(stretch) = self.pieces.back_mut().and_then(VecDeque::back_mut) {
            stretch.to = stretch.to.min(key.max(stretch.from));
        }
    }

    /// Appends a stretch at one end; where something happened before it and value or slope differ, a new piece begins.
    fn push(&mut self, stretch: Stretch, is_low: bool, tolerance: f64) {
        let (neighbour, joint) = if is_low {
            (self.pieces.front().and_then(VecDeque::front), stretch.to)
        } else {
            (self.pieces.back().and_then(VecDeque::back), stretch.from)
        };
        let is_smooth = !std::mem::take(&mut self.is_after_event)
            || neighbour.is_some_and(|neighbour| {
                let ((value, slope), (value_before, slope_before)) = (stretch.at(joint), neighbour.at(joint));
                let allowed = tolerance * self.size;
                let length = stretch.to - stretch.from;
                (value - value_before).abs() <= allowed && (slope - slope_before).abs() * length <= allowed
            });
        let piece = if is_low { self.pieces.front_mut() } else { self.pieces.back_mut() };
        match piece.filter(|_| is_smooth) {
            Some(piece) if is_low => piece.push_front(stretch),
            Some(piece) => piece.push_back(stretch),
            None if is_low => {
                self.pieces.push_front(VecDeque::from([stretch]));
                self.first -= 1;
            }
            None => self.pieces.push_back(VecDeque::from([stretch])),
        }
    }
}

/// What a pipe is told at a time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Flowing {
    /// The time.
    pub time: f64,
    /// How far the content has moved, in lengths of the pipe.
    pub moved: f64,
    /// What enters at the low end where the content moves on.
    pub low: f64,
    /// What enters at the high end where it moves back.
    pub high: f64,
}

/// A pipe with what is in it; every thread has its own.
#[derive(Debug)]
pub struct Transport {
    /// Variables: how far the content has moved, whether it moves on, and what enters at the low and at the high end.
    pub moved: String,
    /// Whether the content moves on.
    pub is_forward: String,
    /// What enters at the low end.
    pub low: String,
    /// What enters at the high end.
    pub high: String,
    /// Places from 0 to 1, and what is there at the start.
    pub initial: Vec<(String, String)>,
    records: PerThread<Record>,
}

impl Transport {
    /// A pipe whose variables have names that begin with `name`, with so many places that are given at the start.
    #[must_use]
    pub fn new(name: &str, n_places: usize) -> Self {
        let of = |part: &str| format!("{name}.{part}");
        let initial =
            (1..=n_places).map(|place| (of(&format!("point[{place}]")), of(&format!("value[{place}]")))).collect();
        Self {
            moved: of("x"),
            is_forward: of("forward"),
            low: of("in0"),
            high: of("in1"),
            initial,
            records: PerThread::default(),
        }
    }

    /// Begins anew on this thread: the content has moved so far, and between places and values it is linear. The piece
    /// from place j to the next has the number j.
    pub fn begin(&self, moved: f64, initial: &[(f64, f64)]) {
        let pieces: VecDeque<Piece> = initial
            .windows(2)
            .map(|ends| {
                let [before, after] = [ends[0], ends[1]];
                let triples = [(0.0, before.0 - moved, before.1), (1.0, after.0 - moved, after.1)];
                VecDeque::from([Stretch::through(&triples)])
            })
            .collect();
        let size = initial.iter().fold(0.0_f64, |size, pair| size.max(pair.1.abs()));
        let record = Record { pieces, first: 0, low: -moved, high: 1.0 - moved, is_after_event: true, size, pace: 0.0 };
        self.records.begin(record);
    }

    /// Ends the run of this thread.
    pub fn end(&self) {
        self.records.end();
    }

    /// How long the content takes through the pipe at the pace of the last stretch.
    #[must_use]
    pub fn transit(&self) -> f64 {
        self.records.with(|record| record.pace.recip()).unwrap_or(f64::INFINITY)
    }

    /// How far the key that leaves lies beyond what has entered, where the content has moved so far; not above zero
    /// where it has entered: a step may lead on by the length of the pipe.
    #[must_use]
    pub fn excess(&self, moved: f64, is_forward: bool) -> f64 {
        let beyond = |record: &Record| {
            let (leaving, ahead) = match is_forward {
                true => (1.0 - moved, record.low - (1.0 - moved)),
                false => (-moved, -moved - record.high),
            };
            ahead - same_key(leaving)
        };
        self.records.with(|record| beyond(record)).unwrap_or(0.0)
    }

    /// Says that an event happened: what follows may be another piece.
    pub fn note_event(&self) {
        self.records.with(|record| record.is_after_event = true);
    }

    /// Writes what entered during a step in one direction: rows at as many times as a polynomial needs, then some that
    /// the polynomials through those must meet to within the tolerance, relative to the largest value so far and to the
    /// length of the pipe. False, and nothing is written, where they do not and `is_final` is not said.
    pub fn write(&self, rows: &[Flowing], is_forward: bool, tolerance: f64, is_final: bool) -> bool {
        let written = self.records.with(|record| {
            let triple = |row: &Flowing| match is_forward {
                true => (row.time, -row.moved, row.low),
                false => (row.time, 1.0 - row.moved, row.high),
            };
            let triples: Vec<(f64, f64, f64)> = rows.iter().map(triple).collect();
            let (nodes, checks) = triples.split_at(NODES);
            record.size = nodes.iter().fold(record.size, |size, one| size.max(one.2.abs()));
            let ((_, first, _), (_, last, _)) = (nodes[0], nodes[NODES - 1]);
            let entered = if is_forward { first - last } else { last - first };
            let pace = entered.max(0.0) / (nodes[NODES - 1].0 - nodes[0].0);
            if entered <= 1e3 * f64::EPSILON * (first.abs() + last.abs() + 1.0) {
                record.is_after_event = true;
                record.pace = pace;
                return true;
            }
            let stretch = Stretch::through(nodes);
            let is_met = |&(time, key, value): &(f64, f64, f64)| {
                (stretch.key.at(time).0 - key).abs() <= tolerance
                    && (stretch.value.at(time).0 - value).abs() <= tolerance * record.size
            };
            if !is_final && !checks.iter().all(is_met) {
                return false;
            }
            // What had left by this end is replaced. What leaves by the other one may still be asked for, between the ends of
            // the last step, which leads on by the length of the pipe at most (`excess`).
            if is_forward {
                record.cut_below(first);
                record.push(stretch, true, tolerance.sqrt());
                record.cut_above(last + 2.0);
                (record.low, record.high) = (last, last + 1.0);
            } else {
                record.cut_above(first);
                record.push(stretch, false, tolerance.sqrt());
                record.cut_below(last - 2.0);
                (record.low, record.high) = (last - 1.0, last);
            }
            record.pace = pace;
            true
        });
        written.unwrap_or(true)
    }

    fn failure(message: &str) -> ForeignFailure {
        ForeignFailure {
            code: "no-history",
            message: message.to_owned(),
            help: "only `simulate` can run models with `spatialDistribution`".to_owned(),
        }
    }

    fn ask<T>(&self, question: impl FnOnce(&Record) -> Option<T>) -> Result<T, ForeignFailure> {
        let answer = self.records.with(|record| question(record)).ok_or_else(|| Self::failure("nothing flows yet"))?;
        answer.ok_or_else(|| Self::failure("this has not entered yet"))
    }
}

impl ForeignUnit for Transport {
    fn evaluate(&self, function: u32, inputs: &[f64], outputs: &mut [f64]) -> Result<(), ForeignFailure> {
        outputs[0] = self.ask(|record| match function {
            0 => record.value(inputs[0], inputs[1], inputs[2]).map(|at| at.0),
            1 => record.border(inputs[0], inputs[1]),
            2 => Some(record.piece(inputs[0], inputs[1])),
            _ => Some(record.excess(inputs[0], inputs[1])),
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
            let at = self.ask(|record| record.value(inputs[0], inputs[1], inputs[2]))?;
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
        Some(Remembered::Transport(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of a flow over a step, at Chebyshev's points and two between them.
    fn rows(from: f64, to: f64, moved: impl Fn(f64) -> f64, entering: impl Fn(f64) -> f64) -> Vec<Flowing> {
        let places = (0..NODES).map(|k| 0.5 - 0.5 * (std::f64::consts::PI * k as f64 / (NODES - 1) as f64).cos());
        let times = places.chain([0.1, 0.6]).map(|x| from + x * (to - from));
        times.map(|time| Flowing { time, moved: moved(time), low: entering(time), high: -entering(time) }).collect()
    }

    fn ask(pipe: &Transport, question: Question, inputs: &[f64]) -> Option<f64> {
        let mut out = [f64::NAN];
        pipe.evaluate(question.signature().0, inputs, &mut out).ok().map(|()| out[0])
    }

    /// x = t - t^2/2 turns at t = 1, where it is 1/2: the upper half of the pipe has left by then, and t entered.
    #[test]
    fn what_entered_comes_back_when_the_flow_turns() {
        let pipe = Transport::new("p", 3);
        assert_eq!(ask(&pipe, Question::Piece, &[0.5, -1.0]), None, "nothing is known before a run");
        pipe.begin(0.0, &[(0.0, 2.0), (0.5, 4.0), (1.0, 4.0)]);
        assert_eq!(ask(&pipe, Question::Value, &[1.0, 0.75, -1.0]), Some(4.0));
        assert_eq!(ask(&pipe, Question::Value, &[0.0, 0.25, -1.0]), Some(3.0));
        assert_eq!(ask(&pipe, Question::Border, &[1.0, -1.0]), Some(0.5));
        assert_eq!(ask(&pipe, Question::Value, &[0.0, -0.1, -1.0]), None, "not entered yet");
        let moved = |t: f64| t - 0.5 * t * t;
        assert_eq!(pipe.transit(), f64::INFINITY);
        assert!(pipe.excess(0.9, true) < 0.0 && (pipe.excess(1.1, true) - 0.1).abs() < 1e-9);
        assert!(pipe.write(&rows(0.0, 0.5, moved, |t| t), true, 1e-9, false));
        // 0.375 of the length in 0.5.
        assert!((pipe.transit() - 0.5 / 0.375).abs() < 1e-9);
        assert!(pipe.excess(1.3, true) < 0.0 && (pipe.excess(1.4, true) - 0.025).abs() < 1e-9);
        assert!(pipe.excess(-0.1, false) < 0.0 && (pipe.excess(-0.7, false) - 0.075).abs() < 1e-9);
        assert!(pipe.write(&rows(0.5, 1.0, moved, |t| t), true, 1e-9, false));
        pipe.note_event();
        // The low end is at -1/2 and leaves now; k = -x(t) was filled at t = 1 - sqrt(1 - 2 x).
        let piece = ask(&pipe, Question::Piece, &[-0.5, 1.0]).unwrap();
        assert_eq!(piece, -1.0);
        for x in [0.499_999, 0.4, 0.3, 0.01] {
            let value = ask(&pipe, Question::Value, &[piece, -x, 1.0]).unwrap();
            assert!((value - (1.0 - (1.0 - 2.0 * x).sqrt())).abs() < 1e-9, "{x}: {value}");
        }
        assert_eq!(ask(&pipe, Question::Border, &[piece, 1.0]), Some(0.0));
        // -t enters at the high end, k = 1 - x, while the flow goes back.
        assert!(pipe.write(&rows(1.0, 1.5, moved, |t| t), false, 1e-9, false));
        let high = 1.0 - moved(1.2);
        let last = ask(&pipe, Question::Piece, &[high, -1.0]).unwrap();
        let value = ask(&pipe, Question::Value, &[last, high, -1.0]).unwrap();
        assert!((value + 1.2).abs() < 1e-9, "{value}");
        assert_eq!(ask(&pipe, Question::Border, &[last, -1.0]), Some(0.5), "what was above has left");
        assert!(ask(&pipe, Question::Excess, &[-0.375, 1.0]).unwrap() < 1e-12);
        assert!((ask(&pipe, Question::Excess, &[-0.475, 1.0]).unwrap() - 0.1).abs() < 1e-12);
        pipe.end();
        assert_eq!(ask(&pipe, Question::Border, &[0.0, 1.0]), None);
    }
}
