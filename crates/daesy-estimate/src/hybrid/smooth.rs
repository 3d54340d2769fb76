//! The way back: what later measurements say of hypotheses.
//!
//! With the points that went from the hypothesis h at a stop to the hypothesis g at the next, of the weight w_hg, the
//! moments m, P of their states before, m', P' after, and the cross-covariance C, and with what is known of g by all
//! measurements, of the weight W_g and the moments m_g, P_g [@kim1994]:
//!
//! ```text
//! G = C P'^-1,   m_hg = m + G (m_g - m'),   P_hg = P + G (P_g - P') G',   W_hg = W_g w_hg / sum over h of w_hg
//! ```
//!
//! and h has the moments of the mixture of its (m_hg, P_hg) with weights W_hg. With one hypothesis at every stop this is
//! the smoother of Rauch, Tung and Striebel.

use faer::Mat;

use super::cloud::{Hypothesis, Layout, Particle};
use crate::nonlinear::moments::{Moments, smoothing_inverse};

/// Points of one hypothesis that went to one of the next.
struct Pair {
    from: usize,
    to: usize,
    weight: f64,
    before: Moments,
    after: Moments,
    cross: Mat<f64>,
}

/// Hypotheses at a stop, and where their points went.
pub(super) struct Passage {
    hypotheses: Vec<Hypothesis>,
    /// By point: its hypothesis, and its state.
    parents: Vec<(usize, Vec<f64>)>,
    pairs: Vec<Pair>,
}

impl Passage {
    pub(super) fn new(hypotheses: Vec<Hypothesis>, parents: Vec<(usize, Vec<f64>)>) -> Self {
        Self { hypotheses, parents, pairs: Vec::new() }
    }

    /// Takes note of where the points are at the next stop: `members` are those of every hypothesis there.
    pub(super) fn arrive(&mut self, layout: &Layout, particles: &[Particle], members: &[Vec<usize>]) {
        for (to, members) in members.iter().enumerate() {
            for from in 0..self.hypotheses.len() {
                let of: Vec<usize> = members.iter().copied().filter(|&at| self.parents[at].0 == from).collect();
                if !of.is_empty() {
                    self.pairs.push(self.pair(layout, particles, &of, (from, to)));
                }
            }
        }
        self.parents = Vec::new();
    }

    fn pair(&self, layout: &Layout, particles: &[Particle], of: &[usize], (from, to): (usize, usize)) -> Pair {
        let n = layout.n();
        // Points of one hypothesis have the same weight.
        let share = 1.0 / of.len() as f64;
        let rows: Vec<Vec<f64>> = of
            .iter()
            .map(|&at| self.parents[at].1.iter().copied().chain(layout.state(&particles[at])).collect())
            .collect();
        let mean: Vec<f64> = (0..2 * n).map(|i| share * rows.iter().map(|row| row[i]).sum::<f64>()).collect();
        let off = Mat::from_fn(2 * n, of.len(), |i, k| rows[k][i] - mean[i]);
        let covariance = &off * off.transpose() * faer::Scale(share);
        let block = |i: usize, j: usize| covariance.get(i..i + n, j..j + n).to_owned();
        Pair {
            from,
            to,
            weight: of.iter().map(|&at| particles[at].weight).sum(),
            before: Moments { mean: mean[..n].to_vec(), covariance: block(0, 0) },
            after: Moments { mean: mean[n..].to_vec(), covariance: block(n, n) },
            cross: block(0, n),
        }
    }
}

/// Hypotheses at all stops given all measurements.
pub(super) fn smoothed(passages: Vec<Passage>) -> Vec<Vec<Hypothesis>> {
    let mut all: Vec<Vec<Hypothesis>> = Vec::with_capacity(passages.len());
    for passage in passages.into_iter().rev() {
        let found = match all.last() {
            None => passage.hypotheses,
            Some(later) => back(&passage, later),
        };
        all.push(found);
    }
    all.reverse();
    all
}

/// Hypotheses at a stop, from those at the next.
fn back(passage: &Passage, later: &[Hypothesis]) -> Vec<Hypothesis> {
    let mut arrived = vec![0.0; later.len()];
    passage.pairs.iter().for_each(|pair| arrived[pair.to] += pair.weight);
    let of = |(at, hypothesis): (usize, &Hypothesis)| {
        let parts: Vec<(f64, Moments)> = passage
            .pairs
            .iter()
            .filter(|pair| pair.from == at && later[pair.to].weight > 0.0)
            .map(|pair| (later[pair.to].weight * pair.weight / arrived[pair.to], pair.back(&later[pair.to].moments)))
            .collect();
        let weight: f64 = parts.iter().map(|(weight, _)| weight).sum();
        // What led to nothing that is possible keeps its place with no weight.
        let moments = if weight > 0.0 { mixed(&parts, weight) } else { hypothesis.moments.clone() };
        Hypothesis { weight, moments, ..hypothesis.clone() }
    };
    passage.hypotheses.iter().enumerate().map(of).collect()
}

impl Pair {
    fn back(&self, known: &Moments) -> Moments {
        let n = known.mean.len();
        let gain = &self.cross * smoothing_inverse(&self.after, known);
        let change = Mat::from_fn(n, 1, |i, _| known.mean[i] - self.after.mean[i]);
        let moved = &gain * change;
        let covariance = &known.covariance - &self.after.covariance;
        Moments {
            mean: (0..n).map(|i| self.before.mean[i] + moved[(i, 0)]).collect(),
            covariance: &self.before.covariance + &gain * covariance * gain.transpose(),
        }
    }
}

/// Moments of a mixture whose weights add up to `sum`.
fn mixed(parts: &[(f64, Moments)], sum: f64) -> Moments {
    let n = parts.first().map_or(0, |(_, part)| part.mean.len());
    let mut mean = vec![0.0; n];
    for (weight, part) in parts {
        mean.iter_mut().zip(&part.mean).for_each(|(mean, value)| *mean += weight / sum * value);
    }
    let mut covariance = Mat::<f64>::zeros(n, n);
    for (weight, part) in parts {
        let off = |i: usize| part.mean[i] - mean[i];
        covariance += Mat::from_fn(n, n, |i, j| weight / sum * (part.covariance[(i, j)] + off(i) * off(j)));
    }
    Moments { mean, covariance }
}
