//! Points with weights, and the hypotheses that they make: one for each discrete state.

use daesy_integrate::Waypoint;
use daesy_integrate::ensemble::EnsembleError;
use daesy_system::Events;
use faer::Mat;

use crate::nonlinear::moments::{Moments, log_determinant, pseudo_inverse, root};

/// Hypotheses that are kept, and the weight below which one is given up in any case.
const MAX_HYPOTHESES: usize = 24;
pub(super) const LEAST_WEIGHT: f64 = 1e-6;

/// Real numbers closer than this, relative to the largest, are the same value.
const SAME_VALUE: f64 = 1e-9;

/// A value that this share of the points has, and two at least, is one that a discrete variable jumps to.
const SHARED: f64 = 1.0 / 64.0;

/// A point.
#[derive(Clone, Debug)]
pub struct Particle {
    /// Its weight; those of all points add up to 1.
    pub weight: f64,
    /// Where it is, with its discrete state.
    pub at: Waypoint,
    /// Components of the disturbances.
    pub components: Vec<f64>,
    /// Observed quantities there.
    pub observed: Vec<f64>,
}

/// A discrete state with what is believed of all else.
#[derive(Clone, Debug)]
pub struct Hypothesis {
    /// Its weight.
    pub weight: f64,
    /// Mean and covariance of states, real discrete variables and components of disturbances.
    pub moments: Moments,
    /// The discrete state; its states and real discrete variables mean nothing.
    pub(super) origin: Waypoint,
    /// By position among the modes: whether a condition or held value is what the states say.
    pub follows: Vec<bool>,
}

/// What is part of a state, and where.
#[derive(Clone, Debug)]
pub struct Layout {
    n_states: usize,
    n_components: usize,
    /// Modes that the states may decide: conditions and held values.
    decided: std::ops::Range<usize>,
    /// Where values before of discrete variables begin.
    before: Option<usize>,
    /// Discrete variables that are real numbers, and the others.
    reals: Vec<usize>,
    others: Vec<usize>,
}

/// What measurements said of all hypotheses together.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The logarithm of the density of what was measured.
    pub log_density: f64,
    /// Whether one hypothesis alone counts, before and after.
    pub is_normal: bool,
    /// Measured less expected, over all hypotheses.
    pub errors: Mat<f64>,
    /// The covariance of that.
    pub covariance: Mat<f64>,
}

/// Measured values at a sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// When.
    pub time: f64,
    /// All outputs; NaN where missing.
    pub measured: &'a [f64],
    /// Variances of their errors.
    pub variances: &'a [f64],
}

/// One hypothesis counts alone if the others weigh less.
const NEGLIGIBLE: f64 = 1e-3;

impl Layout {
    /// The layout of a system with so many states, and disturbances of so many components.
    #[must_use]
    pub fn new(events: &Events, n_states: usize, n_components: usize) -> Self {
        let n_discrete = events.discrete.len();
        let (reals, others) = (0..n_discrete).partition(|&at| events.discrete[at].is_real);
        let decided = if events.has_layout { n_discrete..events.n_updated() } else { 0..0 };
        let before = events.has_layout.then(|| events.switched_before());
        Self { n_states, n_components, decided, before, reals, others }
    }

    /// Number of numbers in a state.
    #[must_use]
    pub fn n(&self) -> usize {
        self.n_states + self.reals.len() + self.n_components
    }

    /// The state of a point.
    #[must_use]
    pub fn state(&self, particle: &Particle) -> Vec<f64> {
        let mut all = particle.at.states.clone();
        all.extend(self.reals.iter().map(|&at| particle.at.modes[at]));
        all.extend_from_slice(&particle.components);
        all
    }

    /// The components of disturbances in a state.
    #[must_use]
    pub fn components<'a>(&self, state: &'a [f64]) -> &'a [f64] {
        &state[self.n_states + self.reals.len()..]
    }

    /// The discrete state of every point as numbers that are equal where it is. Real discrete variables take part where
    /// several points have the same value: one that an event gave them.
    fn keys(&self, particles: &[Particle]) -> Vec<Vec<u64>> {
        let mut keys: Vec<Vec<u64>> = particles
            .iter()
            .map(|particle| {
                let modes = self.others.iter().map(|&at| particle.at.modes[at].to_bits());
                modes.chain(particle.at.ticks.iter().map(|tick| tick.to_bits())).collect()
            })
            .collect();
        for &at in &self.reals {
            let values: Vec<f64> = particles.iter().map(|particle| particle.at.modes[at]).collect();
            for (key, atom) in keys.iter_mut().zip(atoms(&values)) {
                key.push(atom);
            }
        }
        keys
    }

    /// Hypotheses that points make, and what their measurements were.
    fn hypotheses(&self, particles: &[Particle], present: &[usize]) -> Vec<Group> {
        let keys = self.keys(particles);
        let mut groups: Vec<(&Vec<u64>, Vec<usize>)> = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            match groups.iter_mut().find(|(known, _)| *known == key) {
                Some((_, members)) => members.push(at),
                None => groups.push((key, vec![at])),
            }
        }
        let of = |(_, members): (&Vec<u64>, Vec<usize>)| self.hypothesis(particles, members, present);
        groups.into_iter().map(of).collect()
    }

    fn hypothesis(&self, particles: &[Particle], members: Vec<usize>, present: &[usize]) -> Group {
        let weight: f64 = members.iter().map(|&at| particles[at].weight).sum();
        let share = |at: usize| particles[at].weight / weight;
        let (n, m) = (self.n(), present.len());
        let rows: Vec<Vec<f64>> = members
            .iter()
            .map(|&at| {
                let mut row = self.state(&particles[at]);
                row.extend(present.iter().map(|&output| particles[at].observed[output]));
                row
            })
            .collect();
        let mut mean = vec![0.0; n + m];
        for (row, &at) in rows.iter().zip(&members) {
            mean.iter_mut().zip(row).for_each(|(mean, value)| *mean += share(at) * value);
        }
        let off = Mat::from_fn(n + m, members.len(), |i, k| rows[k][i] - mean[i]);
        let pulled = Mat::from_fn(members.len(), n + m, |k, i| share(members[k]) * off[(i, k)]);
        let covariance = off * pulled;
        let first = &particles[members[0]].at;
        let mut unknowns = vec![0.0; first.unknowns.len()];
        for &at in &members {
            let own = &particles[at].at.unknowns;
            unknowns.iter_mut().zip(own).for_each(|(mean, value)| *mean += share(at) * value);
        }
        let differs = |mode: usize| members.iter().any(|&at| particles[at].at.modes[mode] != first.modes[mode]);
        let follows = (0..self.decided.end).map(|mode| self.decided.contains(&mode) && differs(mode)).collect();
        let seen = Seen {
            mean: mean[n..].to_vec(),
            covariance: covariance.get(n.., n..).to_owned(),
            cross: covariance.get(..n, n..).to_owned(),
        };
        mean.truncate(n);
        let moments = Moments { mean, covariance: covariance.get(..n, ..n).to_owned() };
        let origin = Waypoint { unknowns, ..first.clone() };
        Group { hypothesis: Hypothesis { weight, moments, origin, follows }, seen, members }
    }
}

/// A hypothesis with the points that make it.
struct Group {
    hypothesis: Hypothesis,
    seen: Seen,
    members: Vec<usize>,
}

/// Moments of what is measured under a hypothesis.
struct Seen {
    mean: Vec<f64>,
    covariance: Mat<f64>,
    cross: Mat<f64>,
}

/// By value, which of the values that many share it is; 0 for those that few do.
fn atoms(values: &[f64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let size = values.iter().fold(0.0f64, |size, value| size.max(value.abs()));
    let least = ((SHARED * values.len() as f64) as usize).max(2);
    let mut atoms = vec![0; values.len()];
    let mut number = 0;
    for run in order.chunk_by(|&one, &other| values[other] - values[one] <= SAME_VALUE * size) {
        if run.len() >= least {
            number += 1;
            run.iter().for_each(|&at| atoms[at] = number);
        }
    }
    atoms
}

impl Hypothesis {
    /// The point of a state under this hypothesis.
    #[must_use]
    pub fn point(&self, layout: &Layout, state: &[f64]) -> Waypoint {
        let mut at = self.origin.clone();
        at.states.copy_from_slice(&state[..layout.n_states]);
        for (&mode, &value) in layout.reals.iter().zip(&state[layout.n_states..]) {
            at.modes[mode] = value;
            if let Some(before) = layout.before {
                at.modes[before + mode] = value;
            }
        }
        at
    }

    /// States from standard normal points, `[dimension, point]`, of which the first dimensions are taken:
    /// `[number, point]`.
    #[must_use]
    pub fn states(&self, standard: &Mat<f64>) -> Mat<f64> {
        let n = self.moments.mean.len();
        let spread = root(&self.moments.covariance) * standard.get(..n, ..);
        Mat::from_fn(n, standard.ncols(), |i, point| self.moments.mean[i] + spread[(i, point)])
    }

    /// Takes measurements; gives the logarithm of their density.
    fn correct(&mut self, seen: &Seen, sample: &Sample<'_>, present: &[usize]) -> Result<f64, EnsembleError> {
        let m = present.len();
        let covariance = seen.innovation_covariance(sample, present);
        let errors = seen.errors(sample, present);
        let least = present.iter().fold(f64::INFINITY, |least, &output| least.min(sample.variances[output]));
        let Some(log_determinant) = log_determinant(&covariance, least) else {
            return Err(EnsembleError::NoCovariance { time: sample.time });
        };
        let inverse = pseudo_inverse(&covariance);
        let gain = &seen.cross * &inverse;
        let step = &gain * &errors;
        self.moments.mean.iter_mut().enumerate().for_each(|(i, mean)| *mean += step[(i, 0)]);
        self.moments.covariance = &self.moments.covariance - &gain * &covariance * gain.transpose();
        let distance = (errors.transpose() * inverse * &errors)[(0, 0)];
        Ok(-0.5 * (distance + log_determinant + m as f64 * (2.0 * std::f64::consts::PI).ln()))
    }
}

impl Seen {
    fn innovation_covariance(&self, sample: &Sample<'_>, present: &[usize]) -> Mat<f64> {
        let m = present.len();
        Mat::from_fn(m, m, |i, j| {
            let error = if i == j { sample.variances[present[i]] } else { 0.0 };
            self.covariance[(i, j)] + error
        })
    }

    fn errors(&self, sample: &Sample<'_>, present: &[usize]) -> Mat<f64> {
        Mat::from_fn(present.len(), 1, |i, _| sample.measured[present[i]] - self.mean[i])
    }
}

/// Hypotheses after a grid point.
#[derive(Clone, Debug)]
pub struct Believed {
    /// Those that are kept, their weights adding up to 1.
    pub hypotheses: Vec<Hypothesis>,
    /// The points of each.
    pub members: Vec<Vec<usize>>,
    /// What measurements said, where there were any.
    pub evidence: Option<Evidence>,
    /// The weight of what was given up.
    pub given_up: f64,
}

/// Makes hypotheses of points, and takes the measurements of a sample.
///
/// # Errors
/// Where a measurement would be known better than exactly.
pub fn believe(
    layout: &Layout,
    particles: &[Particle],
    sample: Option<&Sample<'_>>,
) -> Result<Believed, EnsembleError> {
    let present: Vec<usize> = sample.map_or_else(Vec::new, |sample| {
        (0..sample.measured.len()).filter(|&output| sample.measured[output].is_finite()).collect()
    });
    let mut found = layout.hypotheses(particles, &present);
    let mut evidence = None;
    if let Some(sample) = sample.filter(|_| !present.is_empty()) {
        evidence = Some(take(&mut found, sample, &present)?);
    }
    found.sort_by(|one, other| other.hypothesis.weight.total_cmp(&one.hypothesis.weight));
    let is_kept = |(at, group): (usize, &Group)| at < MAX_HYPOTHESES && group.hypothesis.weight >= LEAST_WEIGHT;
    let n_kept = found.iter().enumerate().take_while(|&each| is_kept(each)).count().max(1);
    let given_up: f64 = found[n_kept..].iter().map(|group| group.hypothesis.weight).sum();
    found.truncate(n_kept);
    let sum: f64 = found.iter().map(|group| group.hypothesis.weight).sum();
    let (mut hypotheses, mut members) = (Vec::with_capacity(n_kept), Vec::with_capacity(n_kept));
    for group in found {
        hypotheses.push(Hypothesis { weight: group.hypothesis.weight / sum, ..group.hypothesis });
        members.push(group.members);
    }
    Ok(Believed { hypotheses, members, evidence, given_up })
}

/// Corrects all hypotheses and their weights.
fn take(found: &mut [Group], sample: &Sample<'_>, present: &[usize]) -> Result<Evidence, EnsembleError> {
    let m = present.len();
    let mut expected = Mat::<f64>::zeros(m, 1);
    for Group { hypothesis, seen, .. } in found.iter() {
        (0..m).for_each(|i| expected[(i, 0)] += hypothesis.weight * seen.mean[i]);
    }
    let mut covariance = Mat::<f64>::zeros(m, m);
    for Group { hypothesis, seen, .. } in found.iter() {
        let own = seen.innovation_covariance(sample, present);
        let off: Vec<f64> = (0..m).map(|i| seen.mean[i] - expected[(i, 0)]).collect();
        for i in 0..m {
            for j in 0..m {
                covariance[(i, j)] += hypothesis.weight * (own[(i, j)] + off[i] * off[j]);
            }
        }
    }
    let errors = Mat::from_fn(m, 1, |i, _| sample.measured[present[i]] - expected[(i, 0)]);
    let alone = found.iter().position(|group| group.hypothesis.weight > 1.0 - NEGLIGIBLE);
    let mut logs = Vec::with_capacity(found.len());
    for Group { hypothesis, seen, .. } in found.iter_mut() {
        let log_weight = hypothesis.weight.max(f64::MIN_POSITIVE).ln();
        logs.push(log_weight + hypothesis.correct(seen, sample, present)?);
    }
    let largest = logs.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
    let sum: f64 = logs.iter().map(|log| (log - largest).exp()).sum();
    for (group, log) in found.iter_mut().zip(&logs) {
        group.hypothesis.weight = (log - largest).exp() / sum;
    }
    let is_normal = alone.is_some_and(|at| found[at].hypothesis.weight > 1.0 - NEGLIGIBLE);
    Ok(Evidence { log_density: largest + sum.ln(), is_normal, errors, covariance })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_many_points_share_are_told_from_those_that_spread() {
        let mut values: Vec<f64> = (0..60).map(|i| 0.1 + 0.01 * f64::from(i)).collect();
        values.extend([0.0; 40]);
        values.extend([1.0 + 1e-12, 1.0, 1.0 - 1e-12]);
        let found = atoms(&values);
        assert!(found[..60].iter().all(|atom| *atom == 0));
        assert!(found[60..100].iter().all(|atom| *atom == 1));
        assert!(found[100..].iter().all(|atom| *atom == 2));
    }

    /// Two points at -1 and 3 with the weights 3/4 and 1/4 and discrete states of their own, y = x + e with e of
    /// variance 0.5: all by hand.
    #[test]
    fn weights_of_discrete_states_follow_bayes() {
        let events = Events {
            discrete: vec![daesy_system::DiscreteVariable {
                name: "on".to_owned(),
                start: 0.0,
                is_real: false,
                largest: 1.0,
                before: daesy_system::EventLabel::default(),
            }],
            ..Events::default()
        };
        let layout = Layout::new(&events, 1, 0);
        let particle = |x: f64, on: f64, weight: f64| Particle {
            weight,
            at: Waypoint { states: vec![x], modes: vec![on], ..Waypoint::default() },
            components: Vec::new(),
            observed: vec![x],
        };
        let particles = [particle(-1.0, 0.0, 0.75), particle(3.0, 1.0, 0.25)];
        let sample = Sample { time: 0.0, measured: &[1.5], variances: &[0.5] };
        let found = believe(&layout, &particles, Some(&sample)).unwrap();
        let density = |e: f64| (-e * e / (2.0 * 0.5)).exp() / (2.0 * std::f64::consts::PI * 0.5).sqrt();
        let (off, on) = (0.75 * density(2.5), 0.25 * density(1.5));
        let evidence = found.evidence.unwrap();
        assert!((evidence.log_density - (off + on).ln()).abs() < 1e-12);
        assert!((evidence.errors[(0, 0)] - 1.5).abs() < 1e-12);
        assert!((evidence.covariance[(0, 0)] - 3.5).abs() < 1e-12);
        assert_eq!(found.hypotheses[0].moments.mean, [3.0]);
        assert!((found.hypotheses[0].weight - on / (off + on)).abs() < 1e-12);
    }
}
