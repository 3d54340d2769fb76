//! Which method goes on: the one that advances further for the same work.
//!
//! Work is counted, not timed, so that the same run takes the same steps everywhere. An explicit method that comes near
//! the border of its stability lets the implicit one try a few steps; an implicit one lets the explicit one try now and
//! then, more and more rarely where that never pays.

/// The method at work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Explicit,
    Implicit,
}

impl Kind {
    fn other(self) -> Self {
        match self {
            Self::Explicit => Self::Implicit,
            Self::Implicit => Self::Explicit,
        }
    }
}

/// Steps in a row near the border of stability before the implicit method may try.
const STEPS_NEAR_BORDER: usize = 3;

/// Steps before the explicit method may try for the first time.
const FIRST_WAIT: usize = 50;

/// Steps before the implicit method may try again, at most.
const LONGEST_WAIT: usize = 200;

/// Steps of a method that are not counted yet: the first ones find their size.
const WARM_UP: usize = 2;

/// Steps after which a trial is judged.
const TRIAL: usize = 7;

/// A trial that goes badly ends after so many steps.
const PATIENCE: usize = 4;

/// Steps after which the pace of the leading method is measured anew.
const WINDOW: usize = 8;

/// Steps of the implicit method so many times longer than those at which the explicit one met its border leave that no
/// chance ..
const HOPELESS: f64 = 30.0;

/// .. unless so many times the usual number of steps has gone by.
const RARELY: usize = 8;

/// A method on trial has to be better by this factor.
const ADVANTAGE: f64 = 1.1;

/// An explicit method that has become slower than this part of the pace that won the last trial has to win another one.
const SLOWED: f64 = 0.3;

/// Where a stretch of steps began.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    time: f64,
    work: f64,
}

/// The other method takes over, with this step size where it has one to come back to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Change {
    pub(crate) kind: Kind,
    pub(crate) step: Option<f64>,
}

/// A step that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The time reached.
    pub(crate) time: f64,
    /// Work since the beginning.
    pub(crate) work: f64,
    /// The size of the next step.
    pub(crate) next_step: f64,
    /// Whether the step came near the border of stability.
    pub(crate) is_near_border: bool,
}

/// The state of the contest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contest {
    kind: Kind,
    /// Whether both methods may be used.
    is_open: bool,
    mark: Mark,
    n_steps: usize,
    /// Time per work of the leading method, and the work of one step.
    pace: f64,
    work_of_step: f64,
    /// The step size to come back to, while the other method is on trial.
    leader_step: Option<f64>,
    n_near_border: usize,
    n_since_trial: usize,
    wait: usize,
    /// The step at which the explicit method came to its border.
    border_step: f64,
    /// The pace that won the last trial.
    winning_pace: f64,
}

impl Contest {
    pub(crate) fn new(kind: Kind, is_open: bool) -> Self {
        Self {
            kind,
            is_open,
            mark: Mark::default(),
            n_steps: 0,
            pace: 0.0,
            work_of_step: 0.0,
            leader_step: None,
            n_near_border: 0,
            n_since_trial: 0,
            wait: if kind == Kind::Explicit { 0 } else { FIRST_WAIT },
            border_step: f64::INFINITY,
            winning_pace: 0.0,
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// After an interruption paces are measured anew; a trial ends.
    pub(crate) fn restart(&mut self) {
        self.n_steps = 0;
        self.n_near_border = 0;
        self.leader_step = None;
    }

    /// After a trial that did not pay. A model that is not stiff yet may become so, which is seen early enough this
    /// way.
    fn lengthen_wait(&mut self) {
        let longest = if self.kind == Kind::Implicit { LONGEST_WAIT } else { usize::MAX / 8 };
        self.wait = (4 * self.wait).clamp(FIRST_WAIT, longest);
    }

    fn turn(&mut self, step: Option<f64>) -> Option<Change> {
        self.kind = self.kind.other();
        self.n_steps = 0;
        self.n_near_border = 0;
        self.n_since_trial = 0;
        Some(Change { kind: self.kind, step })
    }

    /// Whether the other method takes over after a step.
    pub(crate) fn after_step(&mut self, progress: Progress) -> Option<Change> {
        if !self.is_open {
            return None;
        }
        self.n_steps += 1;
        self.n_since_trial += 1;
        self.n_near_border = if progress.is_near_border { self.n_near_border + 1 } else { 0 };
        if self.n_steps <= WARM_UP {
            self.mark = Mark { time: progress.time, work: progress.work };
            return None;
        }
        if let Some(step) = self.leader_step {
            // Steps may still be growing: the last one counts.
            let work = (progress.work - self.mark.work).max(1.0);
            let pace = (progress.time - self.mark.time) / work;
            self.mark = Mark { time: progress.time, work: progress.work };
            if self.n_steps < TRIAL && (self.n_steps < PATIENCE || pace > 0.25 * self.pace) {
                return None;
            }
            self.leader_step = None;
            self.winning_pace = self.pace.max(pace);
            if pace > ADVANTAGE * self.pace {
                self.wait = FIRST_WAIT;
                return None;
            }
            self.lengthen_wait();
            return self.turn(Some(step));
        }
        let work = (progress.work - self.mark.work).max(1.0);
        self.pace = (progress.time - self.mark.time) / work;
        self.work_of_step = work / (self.n_steps - WARM_UP) as f64;
        if self.n_steps >= WARM_UP + WINDOW {
            self.mark = Mark { time: progress.time, work: progress.work };
            self.n_steps = WARM_UP;
        }
        let is_time = match self.kind {
            Kind::Explicit => self.n_near_border >= STEPS_NEAR_BORDER,
            Kind::Implicit => {
                progress.next_step <= HOPELESS * self.border_step || self.n_since_trial >= RARELY * self.wait
            }
        };
        let has_slowed = self.kind == Kind::Explicit
            && self.pace < SLOWED * self.winning_pace
            && self.n_since_trial >= WARM_UP + WINDOW;
        if is_time && (self.n_since_trial >= self.wait || has_slowed) {
            self.leader_step = Some(progress.next_step);
            if self.kind == Kind::Explicit {
                self.border_step = progress.next_step;
            }
            self.mark = Mark { time: progress.time, work: progress.work };
            return self.turn(None);
        }
        None
    }

    /// Whether a trial is given up after a rejected step.
    pub(crate) fn after_rejection(&mut self, work: f64) -> Option<Change> {
        let step = self.leader_step?;
        let spent = work - self.mark.work;
        if spent <= 8.0 * self.work_of_step.max(1.0) {
            return None;
        }
        self.leader_step = None;
        self.lengthen_wait();
        self.turn(Some(step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds steps whose size and work depend on the method, and counts those of each.
    fn run(explicit: [f64; 2], implicit: [f64; 2], is_near_border: bool) -> [usize; 2] {
        let mut contest = Contest::new(Kind::Explicit, true);
        let (mut time, mut work, mut counts) = (0.0, 0.0, [0, 0]);
        for _ in 0..300 {
            let [step, cost] = if contest.kind() == Kind::Explicit { explicit } else { implicit };
            counts[contest.kind() as usize] += 1;
            time += step;
            work += cost;
            contest.after_step(Progress { time, work, next_step: step, is_near_border });
        }
        counts
    }

    #[test]
    fn the_faster_method_does_most_steps() {
        let stiff = run([1.0, 10.0], [50.0, 40.0], true);
        assert!(stiff[1] > 250, "{stiff:?}");
        let slow_implicit = run([1.0, 10.0], [1.0, 40.0], true);
        assert!(slow_implicit[0] > 250, "{slow_implicit:?}");
        let smooth = run([1.0, 10.0], [50.0, 40.0], false);
        assert_eq!(smooth[1], 0, "far from the border nothing is tried");
    }
}
