//! Events that come faster and faster, or faster than anything in the model.
//!
//! A ball that loses a part of its speed at each bounce has infinitely many bounces before a finite time; a relation that pushes its
//! own event function back from both sides switches at every step. Neither can be simulated on: both are told, with the relation at fault.

/// So many crossings of one event function within [`TINY`] of the time span are chattering; many functions may cross once at a time.
const MANY: usize = 40;

/// See [`MANY`].
const TINY: f64 = 1e-11;

/// So many intervals that shrink in a row are looked at.
const SHRINKING: usize = 12;

/// Events that would come to an end within this fraction of the time span accumulate.
const NEAR: f64 = 1e-6;

/// Why events cannot go on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Trouble {
    /// They come faster than anything in the model.
    Chattering,
    /// Their intervals shrink to nothing at this time.
    Accumulating { until: f64 },
}

/// Times of past state events.
pub(crate) struct History {
    span: f64,
    /// By event function: times of its last crossings.
    crossings: Vec<Vec<f64>>,
    /// By event function and side: times of the last crossings to it.
    by_root: Vec<[Vec<f64>; 2]>,
}

impl History {
    pub(crate) fn new(n_roots: usize, span: f64) -> Self {
        Self { span, crossings: vec![Vec::new(); n_roots], by_root: vec![[Vec::new(), Vec::new()]; n_roots] }
    }

    /// Notes that an event function crossed to a side.
    pub(crate) fn note(&mut self, time: f64, root: usize, is_above: bool) -> Option<Trouble> {
        let crossings = &mut self.crossings[root];
        push(crossings, time, MANY);
        if crossings.len() == MANY && time - crossings[0] <= TINY * self.span {
            return Some(Trouble::Chattering);
        }
        let times = &mut self.by_root[root][usize::from(is_above)];
        push(times, time, SHRINKING + 1);
        if times.len() <= SHRINKING {
            return None;
        }
        let intervals: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let is_shrinking = intervals.windows(2).all(|pair| pair[1] < 0.999 * pair[0]);
        let (first, last) = (intervals[0], intervals[intervals.len() - 1]);
        let ratio = (last / first).powf(1.0 / (intervals.len() - 1) as f64);
        let left = last * ratio / (1.0 - ratio);
        (is_shrinking && left <= NEAR * self.span).then_some(Trouble::Accumulating { until: time + left })
    }
}

fn push(times: &mut Vec<f64>, time: f64, limit: usize) {
    if times.len() == limit {
        times.remove(0);
    }
    times.push(time);
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
            if let Some(trouble) = history.note(time, 0, false) {
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
        assert!((0..2000).all(|at| history.note(1e-15 * f64::from(at), at as usize % 1000, at < 1000).is_none()));
        assert!((0..100).any(|at| history.note(1e-12, 1000, at % 2 == 0) == Some(Trouble::Chattering)));
    }

    #[test]
    fn a_steady_oscillator_is_left_alone() {
        let mut history = History::new(1, 1.0);
        assert!((0..100_000).all(|at| history.note(1e-5 * f64::from(at), 0, at % 2 == 0).is_none()));
    }
}
