//! Whether chains agree, and what their draws are worth.
//!
//! Split R-hat and effective sizes on rank-normalized draws [@vehtari2021]: chains are cut in halves, draws replaced by
//! normal quantiles of their ranks, and with `W` the mean variance within and `B` the variance between,
//!
//! ```text
//! R^2 = ((n - 1)/n W + B/n) / W        ess = m n / (1 + 2 sum over t of rho_t)
//! ```
//!
//! where `rho_t` combines the autocovariances of all chains and the sum ends by Geyer's initial monotone sequence. The
//! R-hat that counts is the larger one of draws and of their distances from the median; the effective size of tails is
//! the smaller one of the indicators of the 5 % and 95 % quantiles.

use daesy_random::special_functions::normal_quantile;

/// How far chains have come.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Convergence {
    /// Split R-hat; 1 where chains agree.
    pub rhat: f64,
    /// Effective number of draws for means.
    pub ess_bulk: f64,
    /// Effective number of draws for the 5 % and 95 % quantiles.
    pub ess_tail: f64,
}

/// Looks at the draws of one quantity, `[chain][draw]`.
#[must_use]
pub fn convergence(chains: &[Vec<f64>]) -> Convergence {
    let halves = split(chains);
    let n_draws = halves.first().map_or(0, Vec::len);
    if n_draws < 4 || halves.iter().flatten().any(|value| !value.is_finite()) {
        return Convergence { rhat: f64::NAN, ess_bulk: f64::NAN, ess_tail: f64::NAN };
    }
    let normal = rank_normalized(&halves);
    let mut sorted: Vec<f64> = halves.concat();
    sorted.sort_by(f64::total_cmp);
    let quantile = |p: f64| sorted[((sorted.len() - 1) as f64 * p).round() as usize];
    let median = quantile(0.5);
    let folded: Vec<Vec<f64>> =
        halves.iter().map(|chain| chain.iter().map(|value| (value - median).abs()).collect()).collect();
    let rhat = potential_scale(&normal).max(potential_scale(&rank_normalized(&folded)));
    let tail = |p: f64| {
        let limit = quantile(p);
        let below: Vec<Vec<f64>> = halves
            .iter()
            .map(|chain| chain.iter().map(|value| f64::from(u8::from(*value <= limit))).collect())
            .collect();
        effective_size(&below)
    };
    Convergence { rhat, ess_bulk: effective_size(&normal), ess_tail: tail(0.05).min(tail(0.95)) }
}

fn split(chains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    chains
        .iter()
        .flat_map(|chain| {
            let half = chain.len() / 2;
            [chain[..half].to_vec(), chain[chain.len() - half..].to_vec()]
        })
        .collect()
}

/// Normal quantiles of the ranks, equal values at their mean rank.
fn rank_normalized(chains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let n = chains.first().map_or(0, Vec::len);
    let all: Vec<f64> = chains.concat();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|&a, &b| all[a].total_cmp(&all[b]));
    let mut normal = vec![0.0; all.len()];
    let mut from = 0;
    while from < order.len() {
        let mut to = from + 1;
        while to < order.len() && all[order[to]] == all[order[from]] {
            to += 1;
        }
        let rank = 0.5 * (from + to + 1) as f64;
        let value = normal_quantile((rank - 0.375) / (all.len() as f64 + 0.25));
        for &at in &order[from..to] {
            normal[at] = value;
        }
        from = to;
    }
    normal.chunks(n.max(1)).map(<[f64]>::to_vec).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn variance(values: &[f64]) -> f64 {
    let center = mean(values);
    values.iter().map(|value| (value - center).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0)
}

fn potential_scale(chains: &[Vec<f64>]) -> f64 {
    let n = chains[0].len() as f64;
    let means: Vec<f64> = chains.iter().map(|chain| mean(chain)).collect();
    let within = mean(&chains.iter().map(|chain| variance(chain)).collect::<Vec<_>>());
    if within == 0.0 {
        return if variance(&means) == 0.0 { 1.0 } else { f64::INFINITY };
    }
    (((n - 1.0) / n * within + variance(&means)) / within).sqrt()
}

fn effective_size(chains: &[Vec<f64>]) -> f64 {
    let (m, n) = (chains.len() as f64, chains[0].len());
    let means: Vec<f64> = chains.iter().map(|chain| mean(chain)).collect();
    let within = mean(&chains.iter().map(|chain| variance(chain)).collect::<Vec<_>>());
    let all = (n as f64 - 1.0) / n as f64 * within + variance(&means);
    if within == 0.0 || all == 0.0 {
        return m * n as f64;
    }
    // Mean over the chains of the autocovariance at a lag.
    let covariance = |lag: usize| {
        let of = |(chain, center): (&Vec<f64>, &f64)| {
            let pairs = chain.iter().zip(&chain[lag..]);
            pairs.map(|(a, b)| (a - center) * (b - center)).sum::<f64>() / n as f64
        };
        chains.iter().zip(&means).map(of).sum::<f64>() / m * n as f64 / (n as f64 - 1.0)
    };
    let rho = |lag: usize| 1.0 - (within - covariance(lag)) / all;
    let mut sum = -1.0;
    let mut least = f64::INFINITY;
    let mut lag = 0;
    while lag + 1 < n {
        let first = if lag == 0 { 1.0 } else { rho(lag) };
        let pair = first + rho(lag + 1);
        if pair < 0.0 {
            break;
        }
        least = least.min(pair);
        sum += 2.0 * least;
        lag += 2;
    }
    let total = m * n as f64;
    // An estimate above this has no ground [@vehtari2021].
    (total / sum.max(1.0 / total.log10())).min(total * total.log10())
}

#[cfg(test)]
mod tests {
    use super::*;
    use daesy_random::philox::philox_words;

    fn normals(chain: u32, n: u32) -> Vec<f64> {
        let uniform = |word: u64| (word as f64 + 0.5) / 4_294_967_296.0;
        (0..n).map(|at| normal_quantile(uniform(philox_words([at, chain, 0, 0], [5, 0])[0]))).collect()
    }

    #[test]
    fn independent_draws_count_fully_and_correlated_ones_as_they_should() {
        let white: Vec<Vec<f64>> = (0..4).map(|chain| normals(chain, 2000)).collect();
        let found = convergence(&white);
        assert!((found.rhat - 1.0).abs() < 5e-3, "{found:?}");
        assert!((found.ess_bulk / 8000.0 - 1.0).abs() < 0.15, "{found:?}");
        // x_k = a x_k-1 + e: the effective size is n (1 - a) / (1 + a).
        let a = 0.8;
        let colored: Vec<Vec<f64>> = white
            .iter()
            .map(|chain| {
                let mut x = 0.0;
                chain
                    .iter()
                    .map(|e| {
                        x = a * x + e;
                        x
                    })
                    .collect()
            })
            .collect();
        let found = convergence(&colored);
        assert!((found.ess_bulk / (8000.0 / 9.0) - 1.0).abs() < 0.25, "{found:?}");
    }

    #[test]
    fn chains_that_differ_are_told() {
        let mut chains: Vec<Vec<f64>> = (0..4).map(|chain| normals(chain, 500)).collect();
        chains[0].iter_mut().for_each(|x| *x += 1.0);
        assert!(convergence(&chains).rhat > 1.05);
        let mut scales: Vec<Vec<f64>> = (0..4).map(|chain| normals(chain, 500)).collect();
        scales[0].iter_mut().for_each(|x| *x *= 3.0);
        assert!(convergence(&scales).rhat > 1.05);
    }
}
