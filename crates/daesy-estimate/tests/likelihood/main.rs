//! Likelihoods, gradients, filters and smoothers against the joint distribution of all samples.
// Entries of several matrices are taken at the same place.
#![allow(clippy::needless_range_loop)]

mod random_model;

use daesy_estimate::descriptor::{ParametricModel, StartMode};
use daesy_estimate::error::EstimateError;
use daesy_estimate::filter::FilterOptions;
use daesy_estimate::horizon::Horizon;
use daesy_estimate::likelihood::{Likelihood, LikelihoodExpansion};
use faer::Mat;
use faer::linalg::solvers::Solve;
use random_model::{N_UNKNOWN, RandomModel, Rearranged, WithTables};

/// Log-density of the joint distribution with the start estimated or diffuse where asked for.
fn dense_log_likelihood(model: &RandomModel, theta: &[f64], start: StartMode) -> f64 {
    let mut total = 0.0;
    for at in 0..model.experiments().len() {
        let joint = model.joint(theta, at);
        let values = model.present(at);
        let n = values.len();
        let factor = joint.covariance.llt(faer::Side::Lower).expect("the joint covariance is definite");
        let e = Mat::from_fn(n, 1, |i, _| values[i].1 - joint.mean[i]);
        let weighted = factor.solve(&e);
        let square: f64 = (0..n).map(|i| e[(i, 0)] * weighted[(i, 0)]).sum();
        let log_det: f64 = (0..n).map(|i| 2.0 * factor.L()[(i, i)].ln()).sum();
        total -= 0.5 * (n as f64 * (2.0 * std::f64::consts::PI).ln() + log_det + square);
        if matches!(start, StartMode::Estimated | StartMode::Diffuse) {
            let x = &joint.columns;
            let normal = x.transpose() * factor.solve(x);
            let b = x.transpose() * &weighted;
            let delta = normal.partial_piv_lu().solve(&b);
            total += 0.5 * (0..b.nrows()).map(|i| b[(i, 0)] * delta[(i, 0)]).sum::<f64>();
            if start == StartMode::Diffuse {
                total -= 0.5 * normal.determinant().ln();
                total += unit_of_the_start(&joint, &values);
            }
        }
    }
    total
}

/// `log |det X_1|` of the first values that determine the start; at each sample those of largest leverage given the
/// ones before.
fn unit_of_the_start(joint: &random_model::Joint, values: &[(usize, f64)]) -> f64 {
    let (n, q) = (joint.columns.nrows(), joint.columns.ncols());
    let weighted = Mat::from_fn(n, q, |i, j| joint.columns[(i, j)] / joint.deviations[i]);
    // Leverages are squared lengths of the rows of an orthonormal basis.
    let mut rows = weighted.qr().compute_thin_Q();
    let whole: Vec<f64> = (0..n).map(|i| rows.row(i).norm_l2()).collect();
    let mut chosen: Vec<usize> = Vec::new();
    for sample in 0..=values[n - 1].0 {
        while chosen.len() < q {
            let length = |i: usize| rows.row(i).norm_l2();
            let best = (0..n)
                .filter(|&i| values[i].0 == sample && !chosen.contains(&i) && length(i) > 1e-6 * whole[i])
                .max_by(|&a, &b| length(a).total_cmp(&length(b)));
            let Some(best) = best else { break };
            chosen.push(best);
            let size = length(best);
            let unit: Vec<f64> = (0..q).map(|j| rows[(best, j)] / size).collect();
            let along: Vec<f64> = (0..n).map(|i| (0..q).map(|j| rows[(i, j)] * unit[j]).sum()).collect();
            rows = Mat::from_fn(n, q, |i, j| rows[(i, j)] - along[i] * unit[j]);
        }
    }
    let triangle = Mat::from_fn(q, q, |i, j| joint.columns[(chosen[i], j)]).qr();
    (0..q).map(|i| triangle.R()[(i, i)].abs().ln()).sum()
}

fn all_models() -> Vec<(RandomModel, StartMode, String)> {
    let mut models = Vec::new();
    for index in 1..=3 {
        for (seed, start) in [
            (1, StartMode::Given),
            (2, StartMode::Estimated),
            (3, StartMode::Diffuse),
            (4, StartMode::Given),
            (5, StartMode::Zero),
            (6, StartMode::Stationary),
        ] {
            let noise_free = seed == 4;
            let model = RandomModel::new(100 * index as u64 + seed, index, start, noise_free);
            models.push((model, start, format!("index {index}, {start:?}, seed {seed}")));
        }
    }
    models
}

#[test]
fn the_likelihood_is_the_joint_density() {
    let theta = RandomModel::theta();
    for (model, start, label) in all_models() {
        let likelihood = Likelihood::new(&model, &theta, FilterOptions::default()).expect(&label);
        let found = likelihood.evaluate(&theta).expect(&label).log_likelihood;
        let expected = dense_log_likelihood(&model, &theta, start);
        let error = ((found - expected) / expected).abs();
        assert!(error < 1e-9, "{label}: {found} instead of {expected}, relative error {error:e}");
    }
}

#[test]
fn neither_order_nor_units_of_the_variables_change_the_likelihood() {
    let theta = RandomModel::theta();
    let rng = &mut fastrand::Rng::with_seed(2007);
    let is_stable = |seed: u64, index: usize| {
        let model = RandomModel::new(seed, index, StartMode::Stationary, false);
        let likelihood = Likelihood::new(&model, &theta, FilterOptions::default()).expect("it has a structure");
        !matches!(likelihood.evaluate(&theta), Err(EstimateError::NotStable { .. }))
    };
    let systems = (1000u64..).map(|seed| (seed, 1 + (seed % 3) as usize));
    for (seed, index) in systems.filter(|&(seed, index)| is_stable(seed, index)).take(100) {
        for start in [StartMode::Estimated, StartMode::Diffuse, StartMode::Zero, StartMode::Stationary] {
            let model = RandomModel::new(seed, index, start, false);
            let expected = dense_log_likelihood(&model, &theta, start);
            for arrangement in 0..8 {
                let label = format!("seed {seed}, index {index}, {start:?}, arrangement {arrangement}");
                let decades = [0.0, 3.0][arrangement % 2];
                let other = Rearranged::new(&model, start, rng, decades);
                let likelihood = Likelihood::new(&other, &theta, FilterOptions::default()).expect(&label);
                let found = likelihood.evaluate(&theta).expect(&label).log_likelihood;
                let error = (found - expected).abs() / expected.abs().max(1.0);
                assert!(error < 1e-8, "{label}: {found} instead of {expected}, error {error:e}");
            }
        }
    }
}

#[test]
fn gradients_do_not_depend_on_order_and_units_either() {
    let theta = RandomModel::theta();
    let rng = &mut fastrand::Rng::with_seed(14);
    for index in 1..=3 {
        for start in [StartMode::Estimated, StartMode::Diffuse, StartMode::Zero] {
            let model = RandomModel::new(500 + index as u64, index, start, false);
            let gradient = |decades: f64, rng: &mut fastrand::Rng| {
                let other = Rearranged::new(&model, start, rng, decades);
                let likelihood =
                    Likelihood::new(&other, &theta, FilterOptions::default()).expect("it has a likelihood");
                likelihood.expand(&theta).expect("it has a gradient").gradient
            };
            let (first, second) = (gradient(0.0, rng), gradient(2.0, rng));
            for (a, b) in first.iter().zip(&second) {
                assert!((a - b).abs() < 1e-7 * a.abs().max(1.0), "index {index}, {start:?}: {first:?}, {second:?}");
            }
        }
    }
}

#[test]
fn many_samples_at_once_are_the_same_as_one_by_one() {
    let theta = RandomModel::theta();
    let mut n_other = 0;
    for index in 1..=3 {
        for seed in 0..4 {
            let label = format!("index {index}, seed {seed}");
            let model = RandomModel::new(7 * index as u64 + seed, index, StartMode::Given, false);
            let model = model.with_even_samples(seed, 900);
            let value = |steady_tolerance: f64| {
                let likelihood = Likelihood::new(&model, &theta, FilterOptions { steady_tolerance }).expect(&label);
                likelihood.evaluate(&theta).expect(&label)
            };
            let (fast, slow) = (value(1e-12), value(0.0));
            assert_eq!(fast.n_counted, slow.n_counted, "{label}");
            assert_eq!(fast.n_counted, 1799, "{label}");
            n_other += usize::from(fast.log_likelihood.to_bits() != slow.log_likelihood.to_bits());
            let error = ((fast.log_likelihood - slow.log_likelihood) / slow.log_likelihood).abs();
            assert!(error < 1e-11, "{label}: {fast:?} instead of {slow:?}, relative error {error:e}");
        }
    }
    // Not the same way: where the last bit agrees, that is chance.
    assert!(n_other > 9, "{n_other} of 12");
}

#[test]
fn slopes_of_many_samples_at_once_are_those_of_one_by_one() {
    let theta = RandomModel::theta();
    for index in 1..=3 {
        for seed in 0..4 {
            let label = format!("index {index}, seed {seed}");
            let model = RandomModel::new(7 * index as u64 + seed, index, StartMode::Given, false);
            let model = model.with_even_samples(seed, 900);
            let at = |steady_tolerance: f64| {
                Likelihood::new(&model, &theta, FilterOptions { steady_tolerance }).expect(&label)
            };
            let (fast, every) = (at(1e-12).slope(&theta).expect(&label), at(0.0).expand(&theta).expect(&label));
            assert_eq!(fast.value.n_counted, every.value.n_counted, "{label}");
            let (value, expected) = (fast.value.log_likelihood, every.value.log_likelihood);
            assert!((value - expected).abs() < 1e-11 * expected.abs(), "{label}: {value} instead of {expected}");
            assert_ne!(fast.gradient, every.gradient, "{label}: not the same way");
            for at in 0..N_UNKNOWN {
                // In units of what the data tell about the unknown.
                let unit = every.information[(at, at)].sqrt().max(every.gradient[at].abs());
                let error = (fast.gradient[at] - every.gradient[at]).abs() / unit;
                assert!(error < 1e-9, "{label}, unknown {at}: {:?} instead of {:?}", fast.gradient, every.gradient);
            }
        }
    }
}

/// How far a gradient is from another, in units of what the data tell about the unknowns.
fn gradient_error(found: &[f64], expected: &LikelihoodExpansion) -> f64 {
    (0..N_UNKNOWN)
        .map(|at| {
            let unit = expected.information[(at, at)].sqrt().max(expected.gradient[at].abs());
            (found[at] - expected.gradient[at]).abs() / unit
        })
        .fold(0.0, f64::max)
}

/// Two records with gaps, impulses, polynomial inputs, an unknown standard deviation, and all kinds of starts.
#[test]
fn gradients_backwards_are_those_forwards() {
    let theta = RandomModel::theta();
    for (model, _, label) in all_models() {
        for steady_tolerance in [0.0, 1e-12] {
            let likelihood = Likelihood::new(&model, &theta, FilterOptions { steady_tolerance }).expect(&label);
            let (back, forward) =
                (likelihood.gradient(&theta).expect(&label), likelihood.expand(&theta).expect(&label));
            let (value, expected) = (back.value.log_likelihood, forward.value.log_likelihood);
            assert!((value - expected).abs() < 1e-11 * expected.abs(), "{label}: {value} instead of {expected}");
            let error = gradient_error(&back.gradient, &forward);
            assert!(error < 1e-10, "{label}: {:?} instead of {:?}, error {error:e}", back.gradient, forward.gradient);
        }
    }
}

/// Inputs that depend on unknowns, with and without variances that change over time; even records, long enough for
/// constant gains.
#[test]
fn gradients_backwards_know_of_inputs_and_variances_that_move() {
    let theta = RandomModel::theta();
    for (seed, start) in [(1, StartMode::Given), (2, StartMode::Diffuse), (3, StartMode::Estimated)] {
        let model = RandomModel::new(40 + seed, 1 + (seed % 3) as usize, start, false).with_even_samples(seed, 300);
        for moves_variances in [false, true] {
            let label = format!("seed {seed}, {start:?}, variances that move: {moves_variances}");
            let model = WithTables { model: &model, moves_variances };
            let at = |steady_tolerance: f64| {
                Likelihood::new(&model, &theta, FilterOptions { steady_tolerance }).expect(&label)
            };
            let (back, forward) = (at(1e-12).gradient(&theta).expect(&label), at(0.0).expand(&theta).expect(&label));
            let error = gradient_error(&back.gradient, &forward);
            assert!(error < 1e-10, "{label}: {:?} instead of {:?}, error {error:e}", back.gradient, forward.gradient);
        }
    }
}

/// Long even records: with a known start most samples are taken as a whole, with an unknown one with constant gains.
#[test]
fn gradients_of_long_records_backwards_are_those_of_every_sample() {
    let theta = RandomModel::theta();
    for index in 1..=3 {
        for (seed, start) in [
            (0, StartMode::Given),
            (1, StartMode::Given),
            (2, StartMode::Zero),
            (3, StartMode::Estimated),
            (4, StartMode::Diffuse),
        ] {
            let label = format!("index {index}, seed {seed}, {start:?}");
            let mut model = RandomModel::new(7 * index as u64 + seed, index, start, false).with_even_samples(seed, 900);
            let records = &mut model.experiments;
            // A second record whose step changes where gains are constant, and with an impulse.
            let mut second = records[0].clone();
            second.segments[700..720].iter_mut().for_each(|segment| segment.length = 0.1);
            second.segments[800].kick = vec![0.4, -0.3];
            second.measurements[2 * 600..2 * 603].fill(f64::NAN);
            records.push(second);
            let at = |steady_tolerance: f64| {
                Likelihood::new(&model, &theta, FilterOptions { steady_tolerance }).expect(&label)
            };
            let (back, forward) = (at(1e-12).gradient(&theta).expect(&label), at(0.0).expand(&theta).expect(&label));
            assert_eq!(back.value.n_counted, forward.value.n_counted, "{label}");
            let (value, expected) = (back.value.log_likelihood, forward.value.log_likelihood);
            assert!((value - expected).abs() < 1e-11 * expected.abs(), "{label}: {value} instead of {expected}");
            let error = gradient_error(&back.gradient, &forward);
            assert!(error < 1e-9, "{label}: {:?} instead of {:?}, error {error:e}", back.gradient, forward.gradient);
        }
    }
}

/// An impulse that ends a segment between samples one step apart, where gains are constant already.
#[test]
fn impulses_act_where_gains_are_constant() {
    let theta = RandomModel::theta();
    let mut model = RandomModel::new(31, 1, StartMode::Estimated, false).with_even_samples(5, 900);
    model.experiments[0].segments[800].kick = vec![40.0, -30.0];
    let value = |steady_tolerance: f64| {
        let likelihood =
            Likelihood::new(&model, &theta, FilterOptions { steady_tolerance }).expect("it has a likelihood");
        likelihood.evaluate(&theta).expect("it has a value").log_likelihood
    };
    let (fast, slow) = (value(1e-12), value(0.0));
    assert!((fast - slow).abs() < 1e-10 * slow.abs(), "{fast} instead of {slow}");
}

/// The curvature of a slope is the information of the filter but for what variances tell at the beginning of a stretch,
/// where it takes the gains for constant. So the two differ by as much however long the record is, and what later
/// samples add to either is the same.
#[test]
fn the_curvature_of_a_slope_differs_from_the_information_at_the_beginning_only() {
    let theta = RandomModel::theta();
    for index in 1..=3 {
        for seed in 0..2 {
            let label = format!("index {index}, seed {seed}");
            let pair = |n_samples: usize| {
                let model = RandomModel::new(7 * index as u64 + seed, index, StartMode::Given, false);
                let model = model.with_even_samples(seed, 2400).before(n_samples);
                let at = |steady_tolerance: f64| {
                    Likelihood::new(&model, &theta, FilterOptions { steady_tolerance }).expect(&label)
                };
                let curvature = at(1e-12).slope(&theta).expect(&label).curvature;
                (curvature, at(0.0).expand(&theta).expect(&label).information)
            };
            // The record has a gap at half its length; what follows it is a beginning, too.
            let (shorter, longer) = (pair(1800), pair(2400));
            for a in 0..N_UNKNOWN {
                for b in 0..=a {
                    let more = longer.0[(a, b)] - shorter.0[(a, b)];
                    let expected = longer.1[(a, b)] - shorter.1[(a, b)];
                    let unit = (longer.1[(a, a)] * longer.1[(b, b)]).sqrt();
                    assert!((more - expected).abs() < 1e-9 * unit, "{label}: {more} instead of {expected} ({a}, {b})");
                }
                let ratio = longer.0[(a, a)] / longer.1[(a, a)];
                assert!((0.25..4.0).contains(&ratio), "{label}, unknown {a}: curvature off by {ratio}");
            }
        }
    }
}

#[test]
fn many_samples_at_once_have_the_joint_density() {
    let theta = RandomModel::theta();
    for index in 1..=3 {
        let model = RandomModel::new(7 * index as u64, index, StartMode::Given, false).with_even_samples(3, 300);
        let likelihood = Likelihood::new(&model, &theta, FilterOptions::default()).expect("it has a likelihood");
        let found = likelihood.evaluate(&theta).expect("it has a value").log_likelihood;
        let expected = dense_log_likelihood(&model, &theta, StartMode::Given);
        let error = ((found - expected) / expected).abs();
        assert!(error < 1e-9, "index {index}: {found} instead of {expected}, relative error {error:e}");
    }
}

#[test]
fn gradients_equal_central_differences() {
    let theta = RandomModel::theta();
    for (model, _, label) in all_models() {
        let likelihood = Likelihood::new(&model, &theta, FilterOptions::default()).expect(&label);
        let exact = likelihood.expand(&theta).expect(&label);
        let backwards = likelihood.gradient(&theta).expect(&label).gradient;
        let value = likelihood.evaluate(&theta).expect(&label).log_likelihood;
        assert!((exact.value.log_likelihood - value).abs() < 1e-10 * value.abs(), "{label}");
        for at in 0..N_UNKNOWN {
            let moved = |by: f64| {
                let mut theta = theta.clone();
                theta[at] += by;
                likelihood.evaluate(&theta).expect(&label).log_likelihood
            };
            // Fourth order, so that rounding and truncation both stay below what is asked for.
            let h = 1e-3;
            let difference = (8.0 * (moved(h) - moved(-h)) - (moved(2.0 * h) - moved(-2.0 * h))) / (12.0 * h);
            for found in [exact.gradient[at], backwards[at]] {
                let error = (found - difference).abs() / difference.abs().max(1.0);
                assert!(error < 1e-6, "{label}, unknown {at}: {found} instead of {difference}, error {error:e}");
            }
        }
    }
}

#[test]
fn filter_and_smoother_are_conditional_expectations() {
    let theta = RandomModel::theta();
    for (model, start, label) in all_models() {
        let likelihood = Likelihood::new(&model, &theta, FilterOptions::default()).expect(&label);
        let estimates = likelihood.estimate(&theta).expect(&label);
        for (at, estimate) in estimates.iter().enumerate() {
            let joint = model.joint(&theta, at);
            let values = model.present(at);
            let n_samples = estimate.times.len();
            for sample in 0..n_samples {
                for (is_smoothed, until) in [(false, sample), (true, n_samples)] {
                    let n = values.iter().filter(|(k, _)| *k <= until).count();
                    let expected = conditional(&joint, &values, n, sample, start);
                    for signal in 0..2 {
                        let (mean, std) = if is_smoothed {
                            (estimate.smoothed[signal][sample], estimate.smoothed_std[signal][sample])
                        } else {
                            (estimate.filtered[signal][sample], estimate.filtered_std[signal][sample])
                        };
                        match expected[signal] {
                            Some((expected_mean, expected_std)) => {
                                assert!(
                                    (mean - expected_mean).abs() < 1e-7 * (1.0 + expected_mean.abs() + expected_std),
                                    "{label}, sample {sample}, smoothed {is_smoothed}: mean {mean} instead of {expected_mean}"
                                );
                                assert!(
                                    (std - expected_std).abs() < 2e-6 * (1.0 + expected_std),
                                    "{label}, sample {sample}, smoothed {is_smoothed}: std {std} instead of {expected_std}"
                                );
                            }
                            None => assert!(mean.is_nan() && std.is_nan(), "{label}, sample {sample}: {mean} {std}"),
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn looking_ahead_is_filtering_with_the_last_samples_missing() {
    let theta = RandomModel::theta();
    for (mut model, start, label) in all_models() {
        if matches!(start, StartMode::Estimated | StartMode::Diffuse) {
            continue;
        }
        let horizons = [Horizon::Samples(1), Horizon::Samples(3), Horizon::Free];
        let likelihood = Likelihood::new(&model, &theta, FilterOptions::default()).expect(&label);
        let ahead = likelihood.ahead(&theta, &horizons).expect(&label);
        let own: Vec<Vec<f64>> = model.experiments.iter().map(|experiment| experiment.measurements.clone()).collect();
        for sample in [0usize, 2, 5] {
            for (at, horizon) in horizons.iter().enumerate() {
                for (experiment, measured) in model.experiments.iter_mut().zip(&own) {
                    let m = measured.len() / experiment.times.len();
                    let first = match horizon {
                        Horizon::Samples(n) => (sample + 1).saturating_sub(*n),
                        Horizon::Free => 0,
                    };
                    experiment.measurements.clone_from(measured);
                    experiment.measurements[first * m..(sample + 1) * m].fill(f64::NAN);
                }
                let masked = Likelihood::new(&model, &theta, FilterOptions::default()).expect(&label);
                for (experiment, found) in masked.innovations(&theta).expect(&label).iter().enumerate() {
                    let m = own[experiment].len() / model.experiments[experiment].times.len();
                    for place in sample * m..(sample + 1) * m {
                        let (one, other) = (ahead[experiment][at].means[place], found.predictions[place]);
                        let slack = 1e-8 * (1.0 + other.abs());
                        assert!((one - other).abs() < slack, "{label}, {sample}, {horizon:?}: {one} {other}");
                    }
                }
            }
        }
    }
}

/// Mean and standard deviation of the signals given the first `n` values; `None` where an unknown start leaves them
/// open.
fn conditional(
    joint: &random_model::Joint,
    values: &[(usize, f64)],
    n: usize,
    sample: usize,
    start: StartMode,
) -> [Option<(f64, f64)>; 2] {
    let has_unknown = matches!(start, StartMode::Estimated | StartMode::Diffuse);
    let covariance = joint.covariance.as_ref().submatrix(0, 0, n, n).to_owned();
    let e = Mat::from_fn(n, 1, |i, _| values[i].1 - joint.mean[i]);
    let q = joint.columns.ncols();
    [0, 1].map(|signal| {
        let row = 2 * sample + signal;
        let cross = Mat::from_fn(n, 1, |i, _| joint.signal_cross[(row, i)]);
        let (weights, explained) = if n == 0 {
            (Mat::zeros(0, 1), 0.0)
        } else {
            let weights = covariance.llt(faer::Side::Lower).expect("definite").solve(&cross);
            let explained = (0..n).map(|i| cross[(i, 0)] * weights[(i, 0)]).sum::<f64>();
            (weights, explained)
        };
        let mut mean = joint.signal_mean[row] + (0..n).map(|i| weights[(i, 0)] * e[(i, 0)]).sum::<f64>();
        let mut variance = joint.signal_variance[row] - explained;
        if has_unknown {
            if n < q {
                return None;
            }
            let x = joint.columns.as_ref().subrows(0, n).to_owned();
            let solved = covariance.llt(faer::Side::Lower).expect("definite").solve(&x);
            let normal = x.transpose() * &solved;
            let b = solved.transpose() * &e;
            let lu = normal.partial_piv_lu();
            let delta = lu.solve(&b);
            let along = Mat::from_fn(q, 1, |k, _| {
                joint.signal_columns[(row, k)] - (0..n).map(|i| weights[(i, 0)] * x[(i, k)]).sum::<f64>()
            });
            mean += (0..q).map(|k| along[(k, 0)] * delta[(k, 0)]).sum::<f64>();
            let spread = lu.solve(&along);
            variance += (0..q).map(|k| along[(k, 0)] * spread[(k, 0)]).sum::<f64>();
        }
        Some((mean, variance.max(0.0).sqrt()))
    })
}

/// `dmu_i' S^-1 dmu_j + tr(S^-1 dS_i S^-1 dS_j) / 2` of the joint density of all samples. Where a start is estimated, the
/// information of a filter counts what values tell of variances less, on purpose.
#[test]
fn expected_information_is_that_of_the_joint_density() {
    let theta = RandomModel::theta();
    for (mut model, start, label) in all_models() {
        if matches!(start, StartMode::Estimated | StartMode::Diffuse) {
            continue;
        }
        // The expected record, with the cells that are empty.
        for at in 0..model.experiments.len() {
            let mut means = model.joint(&theta, at).mean.into_iter();
            for value in model.experiments[at].measurements.iter_mut().filter(|value| !value.is_nan()) {
                *value = means.next().unwrap();
            }
        }
        let likelihood = Likelihood::new(&model, &theta, FilterOptions::default()).expect(&label);
        let random = likelihood.information_of_disturbances(&theta).expect(&label).expect(&label);
        let found = likelihood.expand(&theta).expect(&label).information + &random;
        let mut expected = Mat::<f64>::zeros(N_UNKNOWN, N_UNKNOWN);
        for at in 0..model.experiments.len() {
            let joint = model.joint(&theta, at);
            let n = joint.mean.len();
            let factor = joint.covariance.llt(faer::Side::Lower).expect("the joint covariance is definite");
            let weight = factor.solve(Mat::<f64>::identity(n, n));
            let slopes: Vec<(Mat<f64>, Mat<f64>)> = (0..N_UNKNOWN)
                .map(|unknown| {
                    let moved = |by: f64| {
                        let mut theta = theta.clone();
                        theta[unknown] += by;
                        model.joint(&theta, at)
                    };
                    let (up, down) = (moved(1e-5), moved(-1e-5));
                    let mean = Mat::from_fn(n, 1, |i, _| (up.mean[i] - down.mean[i]) / 2e-5);
                    (mean, (up.covariance - down.covariance) * faer::Scale(1.0 / 2e-5))
                })
                .collect();
            for i in 0..N_UNKNOWN {
                for j in 0..N_UNKNOWN {
                    let mean = slopes[i].0.transpose() * &weight * &slopes[j].0;
                    let spread = (&weight * &slopes[i].1) * (&weight * &slopes[j].1);
                    expected[(i, j)] += mean[(0, 0)] + 0.5 * (0..n).map(|k| spread[(k, k)]).sum::<f64>();
                }
            }
        }
        for i in 0..N_UNKNOWN {
            for j in 0..N_UNKNOWN {
                let unit = (expected[(i, i)] * expected[(j, j)]).sqrt();
                let error = (found[(i, j)] - expected[(i, j)]).abs();
                let (found, expected) = (found[(i, j)], expected[(i, j)]);
                assert!(error <= 1e-6 * unit, "{label}: {found} instead of {expected} ({i}, {j})");
            }
        }
    }
}
