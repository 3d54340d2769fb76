//! Events that come faster and faster, or faster than anything in the model.
//!
//! A ball that loses a part of its speed at each bounce has infinitely many bounces before a finite time; a relation
//! that pushes its own event function back from both sides switches at every step. Neither can be simulated on: both
//! are told, with the relation at fault.
//!
//! A relation that changes back only where its function is a little beyond zero, as those of units of other tools do,
//! has no such series to its end: the bounce that does not reach the margin any more is the last, and the ball falls
//! through its floor. This is told where the time that the series leads to has passed and the function is farther from
//! zero than it ever was on this side.
//!
//! An event function that comes to rest at zero is another matter: rounding makes it cross again and again, as the
//! voltage of a transistor that has been switched off does, while nothing depends on its side. Where it never was
//! farther from zero than the error of the states lets it be, and the equations give the same rates on both sides, it
//! counts as crossed only when it leaves that band.

use daesy_system::EventLabel;

use crate::error::IntegrateError;
use crate::event_iteration::EventLoop;
use crate::stepper::Stepper;

/// So many crossings of one event function within [`TINY`] of the time span are chattering; many functions may cross
/// once at a time.
const MANY: usize = 40;

/// See [`MANY`].
const TINY: f64 = 1e-11;

/// So many crossings of one event function in a row whose mean distance is below [`ENDLESS`] of the time span are
/// chattering too: a hysteresis of 1e-9 would take hours.
const RUN: u32 = 2000;

/// See [`RUN`].
const ENDLESS: f64 = 1e-8;

/// So many intervals that shrink in a row are looked at.
const SHRINKING: usize = 12;

/// Events that would come to an end within this fraction of the time span accumulate.
const NEAR: f64 = 1e-6;

/// Intervals of a series that accumulates are shorter by nearly the same factor each; it may be off by this much.
const STEADY: f64 = 0.2;

/// A side is shallow if the event function goes this much less far there than on the other one, and it is left where
/// it goes farther than the inverse of that.
const SHALLOW: f64 = 0.1;

/// Why events cannot go on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Trouble {
    /// They come faster than anything in the model.
    Chattering,
    /// Their intervals shrink to nothing at this time.
    Accumulating { until: f64 },
}

impl Trouble {
    /// As an error that names the relation.
    pub(crate) fn told(self, time: f64, label: &EventLabel) -> IntegrateError {
        let (relation, place) = (label.text.clone(), label.place.clone());
        match self {
            Self::Chattering => IntegrateError::Chattering { time, relation, place },
            Self::Accumulating { until } => IntegrateError::Accumulating { time, until, relation, place },
        }
    }
}

/// A crossing of an event function.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    time: f64,
    /// How far the function was from zero since the crossing before.
    peak: f64,
}

/// Crossings whose intervals shrink, and that ought to go on to the end of the series.
#[derive(Clone, Copy, Debug)]
struct Series {
    until: f64,
    /// How far the function was from zero, so far, on the shallow side that it has just come to.
    depth: f64,
}

/// Times of past state events.
pub(crate) struct History {
    span: f64,
    /// By event function: its last crossings.
    crossings: Vec<Vec<Crossing>>,
    /// By event function: when the present run of crossings began, and how many it has.
    runs: Vec<(f64, u32)>,
    /// By event function: what its crossings so far lead to.
    series: Vec<Option<Series>>,
    /// By event function: how far it was from zero since its last crossing.
    peaks: Vec<f64>,
    /// By event function: crossings in a row that were no more than noise.
    n_noisy: Vec<usize>,
}

/// An event function is dulled after so many crossings in a row that were no more than noise.
const NOISY: usize = 2;

impl History {
    pub(crate) fn new(n_roots: usize, span: f64) -> Self {
        Self {
            span,
            crossings: vec![Vec::new(); n_roots],
            runs: vec![(0.0, 0); n_roots],
            series: vec![None; n_roots],
            peaks: vec![f64::INFINITY; n_roots],
            n_noisy: vec![0; n_roots],
        }
    }

    /// Notes values of all event functions at a point passed.
    pub(crate) fn note_values(&mut self, values: &[f64]) {
        for (peak, value) in self.peaks.iter_mut().zip(values) {
            *peak = peak.max(value.abs());
        }
    }

    /// Whether a function was no farther from zero since its last crossing than this.
    pub(crate) fn is_within(&self, root: usize, noise: f64) -> bool {
        self.peaks[root] <= noise
    }

    /// Notes a crossing that made no difference to the rates, of a function known to within `noise`. True where the
    /// function is to be dulled.
    pub(crate) fn note_idle(&mut self, root: usize, noise: f64) -> bool {
        let is_noisy = std::mem::replace(&mut self.peaks[root], 0.0) <= noise;
        self.n_noisy[root] = if is_noisy { self.n_noisy[root] + 1 } else { 0 };
        if self.n_noisy[root] < NOISY {
            return false;
        }
        self.crossings[root].clear();
        self.series[root] = None;
        true
    }

    /// Notes a crossing that made a difference.
    pub(crate) fn note_busy(&mut self, root: usize) {
        self.peaks[root] = 0.0;
        self.n_noisy[root] = 0;
    }

    /// Notes that an event function crossed zero.
    pub(crate) fn note(&mut self, time: f64, root: usize) -> Option<Trouble> {
        let crossings = &mut self.crossings[root];
        if crossings.len() == MANY {
            crossings.remove(0);
        }
        crossings.push(Crossing { time, peak: self.peaks[root] });
        if crossings.len() == MANY && time - crossings[0].time <= TINY * self.span {
            return Some(Trouble::Chattering);
        }
        let (began, count) = &mut self.runs[root];
        if *count == 0 {
            *began = time;
        }
        *count += 1;
        if *count > RUN {
            *count = 0;
            if time - *began <= f64::from(RUN) * ENDLESS * self.span {
                return Some(Trouble::Chattering);
            }
        }
        self.series[root] = series(crossings);
        // An event may lead back to the side before it, or there may be one on the way back.
        let left = [1, 2].into_iter().filter_map(|every| left(crossings, every)).find(|left| *left <= NEAR * self.span);
        left.map(|left| Trouble::Accumulating { until: time + left })
    }

    /// An event function that crossed zero ever faster and has stopped before the time this led to, to go on to where
    /// it never was, at the point reached.
    pub(crate) fn fallen(
        &self,
        values: &[f64],
        events: &mut EventLoop<'_>,
        stepper: &Stepper<'_, '_>,
    ) -> Option<(usize, Trouble)> {
        let time = stepper.now.time;
        let is_far = |root: &usize| {
            let is_beyond = |series: Series| time > series.until && values[*root].abs() > series.depth / SHALLOW;
            self.series[*root].is_some_and(is_beyond)
        };
        let root = (0..self.series.len()).find(is_far)?;
        let until = self.series[root]?.until;
        let is_certain = values[root].abs() > events.noise(stepper)[root];
        is_certain.then_some((root, Trouble::Accumulating { until }))
    }
}

/// The time that is left until every second, or every, crossing accumulates: intervals that shrink by a factor q add
/// up to `q / (1 - q)` times the last of them.
fn left(crossings: &[Crossing], every: usize) -> Option<f64> {
    let times: Vec<f64> = crossings.iter().rev().step_by(every).take(SHRINKING + 1).map(|one| one.time).collect();
    if times.len() <= SHRINKING {
        return None;
    }
    // From the last one back.
    let intervals: Vec<f64> = times.windows(2).map(|pair| pair[0] - pair[1]).collect();
    let is_shrinking = intervals.windows(2).all(|pair| pair[0] < 0.999 * pair[1]);
    let (last, first) = (intervals[0], intervals[SHRINKING - 1]);
    let ratio = (last / first).powf(1.0 / (SHRINKING - 1) as f64);
    is_shrinking.then_some(last * ratio / (1.0 - ratio))
}

/// The series that crossings of two kinds make, where the last one led to a side on which the function does not go far.
fn series(crossings: &[Crossing]) -> Option<Series> {
    let left = left(crossings, 2)?;
    let last: Vec<&Crossing> = crossings.iter().rev().take(2 * SHRINKING + 1).collect();
    let ratio = |at: usize| (last[at].time - last[at + 2].time) / (last[at + 2].time - last[at + 4].time);
    let ratios: Vec<f64> = (0..2 * SHRINKING - 3).step_by(2).map(ratio).collect();
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let is_steady = ratios.iter().all(|ratio| (ratio / mean - 1.0).abs() <= STEADY);
    let far = |first: usize| last.iter().skip(first).step_by(2).map(|one| one.peak).fold(0.0, f64::max);
    let (own, other) = (far(1), far(0));
    let is_series = is_steady && own <= SHALLOW * other;
    is_series.then_some(Series { until: last[0].time + left, depth: own })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bouncing_ball_accumulates_where_the_series_ends() {
        let mut history = History::new(1, 10.0);
        let (mut time, mut flight) = (0.45, 0.63);
        let limit = 0.45 + 0.63 / (1.0 - 0.7);
        for _ in 0..100 {
            if let Some(trouble) = history.note(time, 0) {
                let Trouble::Accumulating { until } = trouble else { panic!("{trouble:?}") };
                assert!((until - limit).abs() < 1e-9);
                return;
            }
            time += flight;
            flight *= 0.7;
        }
        panic!("not noticed");
    }

    /// A thousand relations that change twice at the start, and one that never stops.
    #[test]
    fn many_relations_at_once_are_no_chattering() {
        let mut history = History::new(1001, 100.0);
        assert!((0..2000).all(|at| history.note(1e-15 * f64::from(at), at as usize % 1000).is_none()));
        assert!((0..100).any(|_| history.note(1e-12, 1000) == Some(Trouble::Chattering)));
    }

    #[test]
    fn a_steady_oscillator_is_left_alone() {
        let mut history = History::new(1, 1.0);
        assert!((0..100_000).all(|at| history.note(1e-5 * f64::from(at), 0).is_none()));
    }

    #[test]
    fn a_hysteresis_of_a_billionth_is_chattering_and_a_switch_at_a_megahertz_is_none() {
        let (mut slow, mut fast) = (History::new(1, 1.0), History::new(1, 1.0));
        for at in 0..10_000u32 {
            assert_eq!(slow.note(1e-6 * f64::from(at), 0), None);
        }
        assert!((0..10_000u32).any(|at| fast.note(1e-9 * f64::from(at), 0) == Some(Trouble::Chattering)));
    }
}
