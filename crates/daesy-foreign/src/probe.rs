//! What is found out about a unit before anything is differentiated: how much noise its functions carry, and whether
//! they depend on more than it says.
//!
//! A unit with solvers of its own gives f(x) + e(x), where e is rough and small. Along seven points next to each other
//! the differences of order k of the smooth part vanish, and those of the noise remain, with
//!
//! ```text
//! sigma^2 = (k!)^2 / (2 k)! * mean of (difference of order k)^2                  [@more2011, sec. 2]
//! ```
//!
//! Central differences over h have the error sigma / h + h^2 |f'''| / 6, least near the cube root of sigma relative to
//! the size of f: that is the distance they are taken over.
//!
//! What a derivative or an output does not depend on must not move it. Every state and input is moved, by one distance
//! and by twice that; a change that doubles with the distance is a dependency, whatever the unit says.

use crate::unit::{Arguments, Question, Unit, function, part_of};

/// Points along a line, and the order of their differences that is looked at.
const N_POINTS: usize = 7;
const ORDER: usize = 4;
/// (4!)^2 / 8!
const SHARE: f64 = 576.0 / 40_320.0;
/// Distance of these points, and of those that show how a function changes, in typical sizes of arguments.
const NEAR: f64 = 1e-9;
const FAR: f64 = 1e-2;
/// Noise below this, relative to the size of a function, is rounding.
pub(crate) const ROUNDING: f64 = 1e-12;
/// States and inputs are moved in so many groups at most.
const MOST_GROUPS: usize = 128;
/// How far, in typical sizes.
const MOVE: f64 = 1e-4;
/// A change that is no rounding, relative to the value.
const CHANGE: f64 = 1e-11;

/// What was found.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Probed {
    /// Noise relative to the size of the functions; zero where it is no more than rounding.
    pub(crate) noise: f64,
    /// An unknown that depends on what it should not: both names.
    pub(crate) hidden_dependency: Option<(String, String)>,
}

impl Unit {
    /// Looks at the derivatives and values near a point; where the unit fails, nothing is found.
    pub(crate) fn probe(&self, arguments: &[f64]) -> Probed {
        let noise = self.noise_near(arguments).filter(|noise| *noise > ROUNDING).unwrap_or(0.0);
        Probed { noise, hidden_dependency: self.hidden_dependency(arguments) }
    }

    /// States and inputs, as arguments.
    fn movable(&self) -> std::ops::Range<usize> {
        let Arguments { n_states, n_inputs, .. } = self.arguments;
        2..2 + n_states + n_inputs
    }

    /// Arguments of which some are moved, in typical sizes.
    fn moved_by(&self, arguments: &[f64], distance: f64, along: &dyn Fn(usize) -> f64) -> Vec<f64> {
        let mut moved = arguments.to_vec();
        for at in self.movable().filter(|&at| !self.is_discrete_argument(at)) {
            let scale = self.scale(function::DERIVATIVES, at, arguments[at]);
            moved[at] += distance * along(at) * scale;
        }
        moved
    }

    /// The largest noise of a derivative relative to its size.
    fn noise_near(&self, arguments: &[f64]) -> Option<f64> {
        // Any direction will do that no function is constant along.
        let along = |at: usize| 0.5 + 0.5 * (0.618_033_988_75 * at as f64).fract();
        let places = (0..N_POINTS).map(|at| NEAR * at as f64).chain([FAR]);
        let question = |distance: f64| Question::Evaluate {
            part: part_of(function::DERIVATIVES),
            arguments: self.moved_by(arguments, distance, &along),
        };
        let questions: Vec<Question> = places.map(question).collect();
        let rows: Option<Vec<Vec<f64>>> = self.answers(&questions).into_iter().map(Result::ok).collect();
        let rows = rows?;
        let (far, rows) = rows.split_last()?;
        let mut largest = 0f64;
        for at in 0..self.arguments.n_states {
            let mut differences: Vec<f64> = rows.iter().map(|row| row[at]).collect();
            let size = rows[0][at].abs().max((far[at] - rows[0][at]).abs() / FAR);
            for _ in 0..ORDER {
                differences = differences.windows(2).map(|pair| pair[1] - pair[0]).collect();
            }
            let mean = differences.iter().map(|one| one * one).sum::<f64>() / differences.len() as f64;
            if size > 0.0 {
                largest = largest.max((SHARE * mean).sqrt() / size);
            }
        }
        Some(largest).filter(|noise| noise.is_finite())
    }

    /// An unknown that moves with a state or an input that it is said not to depend on.
    fn hidden_dependency(&self, arguments: &[f64]) -> Option<(String, String)> {
        let movable: Vec<usize> = self.movable().filter(|&at| !self.is_discrete_argument(at)).collect();
        let functions = [function::DERIVATIVES, function::VALUES];
        let n_unknowns = |which: u32| if self.declares_dependencies(which) { self.n_outputs(which) } else { 0 };
        if movable.is_empty() || functions.iter().all(|&which| n_unknowns(which) == 0) {
            return None;
        }
        let groups: Vec<&[usize]> = movable.chunks(movable.len().div_ceil(MOST_GROUPS)).collect();
        for which in functions.into_iter().filter(|&which| n_unknowns(which) > 0) {
            let ask = |distance: f64, group: &[usize]| Question::Evaluate {
                part: part_of(which),
                arguments: self.moved_by(arguments, distance, &|at| f64::from(u8::from(group.contains(&at)))),
            };
            let mut questions = vec![ask(0.0, &[])];
            questions.extend(groups.iter().flat_map(|group| [ask(MOVE, group), ask(2.0 * MOVE, group)]));
            let answers = self.answers(&questions);
            let Some((Ok(here), moved)) = answers.split_first() else { continue };
            for (group, pair) in groups.iter().zip(moved.chunks(2)) {
                let [Ok(once), Ok(twice)] = pair else { continue };
                let moves = |unknown: usize| {
                    let (first, second) = (once[unknown] - here[unknown], twice[unknown] - here[unknown]);
                    let is_change = first.abs() > CHANGE * here[unknown].abs().max(f64::MIN_POSITIVE);
                    is_change && (1.5..3.0).contains(&(second / first))
                };
                let depends = |unknown: usize| group.iter().any(|&at| self.is_said_to_depend(which, unknown, at));
                if let Some(unknown) = (0..n_unknowns(which)).find(|&unknown| moves(unknown) && !depends(unknown)) {
                    return Some((self.unknown_name(which, unknown), self.argument_name(group[0])));
                }
            }
        }
        None
    }

    /// What whoever uses derivatives of the unit should know.
    #[must_use]
    pub fn remarks(&self) -> Vec<Remark> {
        let Some(probed) = self.probed() else { return Vec::new() };
        let mut remarks = Vec::new();
        if let Some((unknown, on)) = &probed.hidden_dependency {
            remarks.push(Remark {
                code: "fmu-dependencies",
                message: format!(
                    "`{unknown}` of the unit changes with `{on}`, though its description says that it does not"
                ),
                help: "every unknown is taken to depend on everything instead; report this to the maker of the unit",
            });
        }
        if probed.noise > 0.0 {
            remarks.push(Remark {
                code: "fmu-noise",
                message: format!(
                    "derivatives of the unit are noisy to {:.0e} of their size: differences are taken over {:.0e} of \
                     typical values, and are right to about {:.0e}",
                    probed.noise,
                    probed.noise.cbrt(),
                    probed.noise.powf(2.0 / 3.0)
                ),
                help: "a solver inside the unit has a loose tolerance: export it with a tighter one if searches are \
                       slow or standard errors matter",
            });
        }
        remarks
    }
}

/// Something to be told about a unit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remark {
    /// A short stable word for the kind.
    pub code: &'static str,
    /// What was found.
    pub message: String,
    /// What to do.
    pub help: &'static str,
}
