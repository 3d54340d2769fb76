//! Realizations of disturbances against the exact law of the process.

use std::sync::Arc;

use daesy_estimate::discretize::{ContinuousModel, discretize, stationary_covariance};
use daesy_estimate::noise::jet::JetMatrix;
use daesy_estimate::noise::{DiscreteProcess, Interpolation, NoiseError, ShapedNoise, ShapingFilter};
use daesy_integrate::ensemble::{CHUNK, DisturbanceRow, Disturbances};
use faer::Mat;

fn matrix<const M: usize, const N: usize>(rows: [[f64; N]; M]) -> Mat<f64> {
    Mat::from_fn(M, N, |i, j| rows[i][j])
}

/// Two correlated signals from two sources of noise; `sigma` scales the second source.
fn filter(sigma: f64, frequency: f64) -> ShapingFilter {
    let dynamics = matrix([[0.0, 1.0, 0.0], [-frequency * frequency, -0.8, 0.3], [0.0, 0.0, -2.0]]);
    let by_frequency = matrix([[0.0; 3], [-2.0 * frequency, 0.0, 0.0], [0.0; 3]]);
    let input = matrix([[0.0, 0.0], [1.0, 0.0], [0.0, sigma]]);
    let by_sigma = matrix([[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]]);
    let zero = |m: &Mat<f64>| Mat::zeros(m.nrows(), m.ncols());
    let output = matrix([[1.0, 0.0, 0.0], [0.5, 0.0, 1.0]]);
    ShapingFilter {
        dynamics: JetMatrix { derivatives: vec![zero(&dynamics), by_frequency], value: dynamics },
        input: JetMatrix { derivatives: vec![by_sigma, zero(&input)], value: input },
        output: JetMatrix::constant(output, 2),
        starts_at_zero: false,
        derivatives_needed: vec![1, 0],
    }
}

const STEP: f64 = 0.1;

fn noise(sigma: f64, frequency: f64, interpolation: Interpolation) -> ShapedNoise {
    let process = DiscreteProcess::new(&[filter(sigma, frequency)], STEP, interpolation.depth()).unwrap();
    ShapedNoise {
        seed: 20,
        is_antithetic: false,
        interpolation,
        slots: vec![0, 1, 2],
        points: vec![Arc::new(process)],
        first_step: 0,
    }
}

/// Values `[time][row * n_lanes + lane]` of w1, w1', w2 at times in grid steps, asked for in the order given within
/// each interval.
fn sample(noise: &ShapedNoise, first: usize, n_lanes: usize, times: &[f64], direction: Option<usize>) -> Vec<Vec<f64>> {
    let rows: Vec<DisturbanceRow> = (0..3).map(|signal| DisturbanceRow { row: signal, signal, direction }).collect();
    let mut lanes = noise.block(0, first, n_lanes, 0..1).remove(0);
    let mut values = vec![vec![0.0; 3 * n_lanes]; times.len()];
    for interval in 0..=times.iter().fold(0.0f64, |a, &b| a.max(b)) as usize {
        lanes.advance(interval);
        for (time, values) in times.iter().zip(&mut values) {
            if *time as usize == interval {
                lanes.fill(time - interval as f64, &rows, n_lanes, values);
            }
        }
    }
    values
}

#[test]
fn covariances_at_any_times_are_those_of_the_process() {
    let noise = noise(0.7, 3.0, Interpolation::Exact);
    let filter = filter(0.7, 3.0);
    let intensity = &filter.input.value * filter.input.value.transpose();
    let model = ContinuousModel { dynamics: filter.dynamics.value.clone(), input: Mat::zeros(3, 0), intensity };
    let stationary = stationary_covariance(&model, &[]).unwrap().value;
    let rows = matrix([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.0, 1.0]]);
    // Grid points, dyadic points and others, not in order.
    let times = [0.5, 0.25, 0.0, 0.613, 1.0, 1.375, 1.9, 0.75];
    const LANES: usize = 10_000;
    let values = sample(&noise, 0, LANES, &times, None);
    for (a, &first) in times.iter().enumerate() {
        for (b, &second) in times.iter().enumerate().filter(|(_, second)| **second >= first) {
            let transition = discretize(&model, (second - first) * STEP, 0).transition;
            // E w(second) w(first)'
            let exact = &rows * transition * &stationary * rows.transpose();
            let variances = &rows * &stationary * rows.transpose();
            for i in 0..3 {
                for j in 0..3 {
                    let products = values[b][i * LANES..(i + 1) * LANES].iter().zip(&values[a][j * LANES..]);
                    let mean = products.map(|(x, y)| x * y).sum::<f64>() / LANES as f64;
                    // Four and a half standard errors of a product of normal variables.
                    let allowed = 4.5 * (2.0 * variances[(i, i)] * variances[(j, j)] / LANES as f64).sqrt();
                    let difference = mean - exact[(i, j)];
                    assert!(difference.abs() < allowed, "{first} {second} {i} {j}: {mean} {}", exact[(i, j)]);
                }
            }
        }
    }
}

#[test]
fn the_order_of_requests_and_the_company_of_lanes_do_not_matter() {
    let noise = noise(0.7, 3.0, Interpolation::Exact);
    let all = sample(&noise, 0, 20, &[0.1, 0.5, 0.9, 1.3], None);
    let backwards = sample(&noise, 0, 20, &[0.9, 0.5, 0.1, 1.3], None);
    assert_eq!(all[0], backwards[2]);
    assert_eq!(all[2], backwards[0]);
    assert_eq!(all[3], backwards[3]);
    let alone = sample(&noise, 7, 1, &[1.3], None);
    for row in 0..3 {
        assert_eq!(alone[0][row], all[3][row * 20 + 7]);
    }
}

#[test]
fn realizations_are_smooth_in_the_parameters_even_where_the_covariance_is_singular() {
    let times = [0.0, 0.25, 0.4, 1.0, 7.5, 30.0];
    for sigma in [0.0, 0.6] {
        for (direction, change) in [(0, [1.0, 0.0]), (1, [0.0, 1.0])] {
            let exact = sample(&noise(sigma, 3.0, Interpolation::Exact), 0, 5, &times, Some(direction));
            let at = |step: f64| {
                let changed = noise(sigma + step * change[0], 3.0 + step * change[1], Interpolation::Exact);
                sample(&changed, 0, 5, &times, None)
            };
            let (after, before) = (at(1e-4), at(-1e-4));
            for (time, exact) in exact.iter().enumerate() {
                for (entry, exact) in exact.iter().enumerate() {
                    let difference = (after[time][entry] - before[time][entry]) / 2e-4;
                    let close = (difference - exact).abs() < 1e-6 * (1.0 + exact.abs());
                    assert!(close, "{sigma} {direction} {time} {entry}: {difference} {exact}");
                }
            }
        }
    }
}

#[test]
fn too_rough_a_disturbance_is_refused_with_its_numbers() {
    let mut rough = filter(1.0, 3.0);
    rough.derivatives_needed = vec![2, 0];
    let error = DiscreteProcess::new(&[rough], STEP, 0).unwrap_err();
    assert_eq!(error, NoiseError::TooRough { filter: 0, signal: 0, needed: 2, available: 2 });
    let mut unstable = filter(1.0, 3.0);
    unstable.dynamics.value[(2, 2)] = 0.5;
    assert_eq!(DiscreteProcess::new(&[unstable], STEP, 0).unwrap_err(), NoiseError::Unstable { filter: 0 });
}

#[test]
fn the_error_of_straight_lines_is_what_is_reported() {
    let exact = noise(0.7, 3.0, Interpolation::Exact);
    const LANES: usize = 10_000;
    let values = sample(&exact, 0, LANES, &[0.0, 0.5, 1.0], None);
    let reported = exact.points[0].interpolation_error();
    for row in 0..3 {
        let at = |time: usize, lane: usize| values[time][row * LANES + lane];
        let sum: f64 = (0..LANES).map(|lane| (at(1, lane) - 0.5 * (at(0, lane) + at(2, lane))).powi(2)).sum();
        let rms = (sum / LANES as f64).sqrt();
        assert!((rms / reported[row].rms - 1.0).abs() < 4.0 * (0.5 / LANES as f64).sqrt(), "{rms} {:?}", reported[row]);
    }
}

#[test]
fn what_a_point_gets_does_not_depend_on_the_points_beside_it() {
    const LANES: usize = 13;
    const N_INTERVALS: usize = 2 * CHUNK + 5;
    for interpolation in [Interpolation::Linear, Interpolation::Exact] {
        for is_antithetic in [false, true] {
            // Same filters, other weights of the same filters, other filters.
            let points = [(0.7, 3.0), (0.7, 3.0), (0.2, 3.0), (0.7, 2.0), (0.7, 3.0)];
            let points = points.map(|(sigma, frequency)| noise(sigma, frequency, interpolation).points.remove(0));
            let together = ShapedNoise { is_antithetic, points: points.to_vec(), ..noise(0.7, 3.0, interpolation) };
            // Values at the start, then inside and at the end of each interval, chunk by chunk.
            let walk = |range: std::ops::Range<usize>| {
                let rows: Vec<DisturbanceRow> = (0..3)
                    .flat_map(|signal| [None, Some(1)].map(|direction| (signal, direction)))
                    .enumerate()
                    .map(|(row, (signal, direction))| DisturbanceRow { row, signal, direction })
                    .collect();
                let mut lanes = together.block(1, 4, LANES, range);
                let mut values = vec![vec![0.0; rows.len() * LANES]; lanes.len()];
                let mut seen: Vec<Vec<u64>> = vec![Vec::new(); lanes.len()];
                for lanes in &mut lanes {
                    lanes.advance(0);
                    lanes.fill(0.0, &rows, LANES, &mut values[0]);
                }
                for chunk in (0..N_INTERVALS).step_by(CHUNK) {
                    for ((lanes, values), seen) in lanes.iter_mut().zip(&mut values).zip(&mut seen) {
                        for interval in chunk..(chunk + CHUNK).min(N_INTERVALS) {
                            lanes.advance(interval);
                            for fraction in [0.5, 1.0] {
                                lanes.fill(fraction, &rows, LANES, values);
                                seen.extend(values.iter().map(|value| value.to_bits()));
                            }
                        }
                    }
                }
                seen
            };
            let all = walk(0..points.len());
            for (point, all) in all.iter().enumerate() {
                assert_eq!(&walk(point..point + 1)[0], all, "point {point}, {interpolation:?}");
            }
        }
    }
}
