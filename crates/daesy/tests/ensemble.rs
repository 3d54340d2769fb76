//! Ensembles of models from the front end against independent references.

use std::path::{Path, PathBuf};

use daesy::load::{LoadOptions, load, load_source};
use daesy::prediction_study::PredictionStudy;
use daesy::prepare::{DataUse, Prepared, Purpose, prepare};
use daesy::source::{Place, Source};
use daesy::table::Table;
use daesy_estimate::memory::Forgetful;
use daesy_estimate::pem::{GrowingSearch, PredictionUncertainty};
use daesy_integrate::Inputs;
use daesy_integrate::ensemble::{
    Ensemble, EnsembleOptions, EnsemblePoint, EnsembleStart, Experiment, Grid, InputTable, Undisturbed, Wanted,
    directions, start_of,
};
use daesy_system::{DaeSystem, GivenParameter, ReferencePoint, StepMethod, StepRequest, Watch};

fn problem(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems").join(name)
}

fn prepared(name: &str) -> Prepared {
    let loaded = load(&problem(name), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors:?}"));
    prepare(&loaded, Purpose { data: DataUse::Optional, ..Purpose::LANES }).unwrap_or_else(|error| panic!("{error}"))
}

/// Outputs and their derivatives at the samples: `[sample][output, then derivatives]`.
fn run(
    prepared: &Prepared,
    given: &[(&str, f64)],
    by: &[&str],
    observed: &[&str],
    method: StepMethod,
    grid: &Grid,
) -> Vec<Vec<f64>> {
    let system = &prepared.system;
    let description = system.description();
    let place = |name: &str| description.parameters.iter().position(|known| known == name).unwrap() as u32;
    let given: Vec<GivenParameter> =
        given.iter().map(|&(name, value)| GivenParameter { parameter: place(name), value }).collect();
    let parameters = system.parameter_values(&given).unwrap();
    let tangents: Vec<Vec<f64>> =
        by.iter().map(|name| system.parameter_tangent(&given, place(name)).unwrap()).collect();
    let observed: Vec<u32> = observed
        .iter()
        .map(|name| description.observed.iter().position(|known| known == name).unwrap() as u32)
        .collect();
    let mut inputs = vec![0.0; description.n_inputs];
    prepared.inputs.fill(grid.start, true, &mut inputs);
    let start = start_of(system, grid.start, &parameters, &inputs, &tangents, &[]).unwrap();
    let reference = ReferencePoint {
        time: grid.start,
        states: start.states.clone(),
        unknowns: start.unknowns.clone(),
        parameters: parameters.clone(),
        inputs,
        step: grid.step,
    };
    let directions = directions(&tangents, &vec![Vec::new(); by.len()]);
    let request = StepRequest { method, directions: &directions, observed: &observed, reference: &reference };
    let program = system.step_program(&request).unwrap();
    let table = InputTable::new(grid, &prepared.inputs, program.layout());
    let experiments = [Experiment { grid, inputs: &prepared.inputs, table: &table }];
    let point = EnsemblePoint { parameters, tangents, starts: vec![EnsembleStart { lanes: vec![start] }] };
    let ensemble = Ensemble {
        program: program.as_ref(),
        experiments: &experiments,
        n_realizations: 3,
        options: EnsembleOptions { rtol: 1e-7, atol: 1e-10, max_halvings: 16, n_threads: 0 },
    };
    let result = ensemble
        .run(&[point], &Undisturbed, &Wanted::default(), &Watch::default())
        .unwrap_or_else(|error| panic!("{method:?}: {error}"))
        .remove(0);
    assert!(result.failures.is_empty(), "{:?}", result.failures);
    let n_rows = observed.len() * (1 + by.len());
    let sums = &result.experiments[0];
    sums.sums.chunks(n_rows).map(|row| row.iter().map(|sum| sum / 3.0).collect()).collect()
}

fn grid(step: f64, samples: &[f64]) -> Grid {
    Grid { start: 0.0, step, samples: samples.to_vec() }
}

#[test]
fn the_pendulum_follows_its_reference_with_every_method() {
    let prepared = prepared("pendulum/study.toml");
    // From problems/pendulum/reference.toml.
    let exact = [
        [0.0, -6.25, -0.47088, 0.0],
        [0.5241687657573937, -6.227980981426033, -0.4802712585213561, 0.08396563054142159],
        [-1.4657894399605595, -6.075686077942153, -0.5362926465499505, -0.23673125947464843],
    ];
    for method in [StepMethod::Explicit3, StepMethod::Explicit4, StepMethod::Implicit3] {
        let found =
            run(&prepared, &[("L", 6.25)], &[], &["x1", "x2", "x3", "y"], method, &grid(0.02, &[0.0, 1.0, 10.0]));
        for (found, exact) in found.iter().zip(exact) {
            for (found, exact) in found.iter().zip(exact) {
                assert!((found - exact).abs() < 3e-6, "{method:?}: {found} {exact}");
            }
        }
    }
}

#[test]
fn derivatives_are_those_of_the_numbers() {
    let prepared = prepared("pendulum/study.toml");
    for method in [StepMethod::Explicit4, StepMethod::Implicit3] {
        let at = |by: &[&str], length: f64, drag: f64| {
            run(&prepared, &[("L", length), ("k", drag)], by, &["x1", "y"], method, &grid(0.02, &[0.0, 0.5, 5.0]))
        };
        let exact = at(&["L", "k"], 5.0, 0.05);
        for (direction, change) in [[1.0, 0.0], [0.0, 1.0]].into_iter().enumerate() {
            let step = 1e-5;
            let after = at(&[], 5.0 + step * change[0], 0.05 + step * change[1]);
            let before = at(&[], 5.0 - step * change[0], 0.05 - step * change[1]);
            for sample in 0..3 {
                for output in 0..2 {
                    let difference = (after[sample][output] - before[sample][output]) / (2.0 * step);
                    let exact = exact[sample][2 + 2 * direction + output];
                    assert!(
                        (difference - exact).abs() < 2e-6 * (1.0 + exact.abs()),
                        "{method:?} {sample} {output} {direction}: {difference} {exact}"
                    );
                }
            }
        }
    }
}

#[test]
fn stiff_and_stepped_models_follow_the_single_trajectory() {
    const ALL: &[StepMethod] = &[StepMethod::Explicit4, StepMethod::Implicit3];
    for (name, observed, step, stop, methods) in [
        ("reactor/study.toml", "T", 0.1, 5.0, ALL),
        ("slider_crank/study.toml", "x", 0.01, 1.0, ALL),
        ("robertson/study.toml", "y1", 0.001, 0.2, &ALL[1..]),
    ] {
        let prepared = prepared(name);
        let description = prepared.system.description();
        let observed =
            description.observed.iter().find(|known| *known == observed).unwrap_or(&description.observed[0]).clone();
        let options = daesy_integrate::SimulateOptions {
            start: 0.0,
            stop,
            output_times: vec![stop],
            rtol: 1e-9,
            atol: 1e-12,
            max_steps: 1_000_000,
            ..daesy_integrate::SimulateOptions::default()
        };
        let single =
            daesy_integrate::simulate(&prepared.system, &prepared.parameters, &prepared.inputs, &options).unwrap();
        let at = description.observed.iter().position(|known| *known == observed).unwrap();
        let exact = single.rows.last().unwrap()[at];
        for &method in methods {
            let found = run(&prepared, &[], &[], &[&observed], method, &grid(step, &[stop]));
            let found = found[0][0];
            assert!(
                (found - exact).abs() < 1e-5 * (exact.abs() + 0.1),
                "{name} {observed} {method:?}: {found} {exact}"
            );
        }
    }
}

/// The force of the experiments below, at points 0.01 s apart.
fn force(point: usize) -> f64 {
    let time = point as f64 * 0.01;
    0.05 * (1.1 * time).sin() + 0.04 * (2.3 * time + 1.0).cos()
}

/// The pendulum whose drag is sought, with samples every 0.1 s; the disturbance ten times as strong as in the study, so
/// that it shows soon.
fn drag_study(n_samples: usize, n_realizations: u64, noise_step: f64, rtol: f64) -> PredictionStudy {
    let n_points = 10 * n_samples + 1;
    let is_sample = |at: usize| at > 0 && at.is_multiple_of(10);
    let data = Table {
        names: ["t", "u", "y"].map(str::to_owned).to_vec(),
        columns: vec![
            (0..n_points).map(|at| at as f64 * 0.01).collect(),
            (0..n_points).map(force).collect(),
            (0..n_points).map(|at| if is_sample(at) { 0.0 } else { f64::NAN }).collect(),
        ],
    };
    let source = Source { place: Place::File(problem("pendulum/drag.toml")), data: vec![data] };
    let mut loaded = load_source(&source, &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors:?}"));
    let study = loaded.study.as_mut().unwrap();
    study.identify.transient = Some(0.0);
    study.identify.realizations = Some(n_realizations);
    study.identify.noise_step = Some(noise_step);
    study.simulate.rtol = Some(rtol);
    let daesy::study::DisturbanceProcess::Filter { c, .. } = &mut study.disturbances[0].item.process else { panic!() };
    c[0][0].value = daesy::study::QuantityValue::Number(6.0);
    PredictionStudy::of(&loaded, 5).unwrap_or_else(|errors| panic!("{errors:?}"))
}

/// Angles of one realization by small steps of both the disturbance and the pendulum in its angle, with other random
/// numbers.
fn fine_steps(random: &mut fastrand::Rng, n_samples: usize) -> Vec<f64> {
    const PER_POINT: usize = 20;
    let h = 0.01 / PER_POINT as f64;
    let (mass, gravity, drag, length) = (0.3, 9.81, 6.25, 6.25);
    let acceleration = |angle: f64, speed: f64, push: f64| {
        let (sine, cosine) = angle.sin_cos();
        let (vx, vy) = (length * cosine * speed, length * sine * speed);
        let (fx, fy) = (push - drag * vx.abs() * vx, -drag * vy.abs() * vy - mass * gravity);
        (fx * cosine + fy * sine) / (mass * length)
    };
    let (mut w, mut rate, mut angle, mut speed) = (0.0, 0.0, 0.0, 0.0);
    let mut samples = Vec::new();
    for step in 0..n_samples * 10 * PER_POINT {
        let (point, within) = (step / PER_POINT, (step % PER_POINT) as f64 / PER_POINT as f64);
        let known = force(point) + within * (force(point + 1) - force(point));
        let push = known + (6.0 * w) * (6.0 * w);
        // Midpoint for the pendulum, Euler and Maruyama for the disturbance.
        let half = speed + 0.5 * h * acceleration(angle, speed, push);
        speed += h * acceleration(angle + 0.5 * h * speed, half, push);
        angle += h * half;
        let normal = (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (2.0 * std::f64::consts::PI * random.f64()).cos();
        w += h * rate;
        rate += h * (-16.0 * w - 0.8 * rate) + h.sqrt() * normal;
        if (step + 1).is_multiple_of(10 * PER_POINT) {
            samples.push(angle);
        }
    }
    samples
}

#[test]
fn means_and_variances_are_those_of_fine_steps_with_other_random_numbers() {
    const N: usize = 256;
    let n_samples = 40;
    let study = drag_study(n_samples, N as u64, 0.01, 1e-6);
    let problem = study.problem(study.settings.clone(), &[6.25]).unwrap();
    let found = problem.predict(&[vec![6.25]], N, &Watch::default()).unwrap().remove(0);
    let mut random = fastrand::Rng::with_seed(11);
    let paths: Vec<Vec<f64>> = (0..N).map(|_| fine_steps(&mut random, n_samples)).collect();
    for sample in (4..n_samples).step_by(5) {
        let values: Vec<f64> = paths.iter().map(|path| path[sample]).collect();
        let mean = values.iter().sum::<f64>() / N as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (N - 1) as f64;
        let fourth = values.iter().map(|value| (value - mean).powi(4)).sum::<f64>() / N as f64;
        let of_mean = (2.0 * variance / N as f64).sqrt();
        let of_variance = (2.0 * (fourth - variance * variance) / N as f64).sqrt();
        let (own_mean, own_variance) = (found.means[0][sample], found.variances[0][sample]);
        assert!((own_mean - mean).abs() < 4.0 * of_mean, "{sample}: {own_mean} {mean} +- {of_mean}");
        assert!(
            (own_variance - variance).abs() < 4.0 * of_variance,
            "{sample}: {own_variance} {variance} +- {of_variance}"
        );
    }
}

#[test]
fn the_search_reaches_the_minimum_of_a_grid_and_finer_steps_do_not_move_it() {
    let watch = Watch::default();
    let data = drag_study(150, 1, 0.01, 1e-6).artificial_data(&[6.25], 1, 99, &watch).unwrap().remove(0);
    let mut ends = Vec::new();
    for (noise_step, rtol) in [(0.02, 1e-5), (0.01, 5e-6)] {
        let study = drag_study(150, 128, noise_step, rtol);
        let mut problem = study.problem(study.settings.clone(), &[5.0]).unwrap();
        problem.set_measured(data.clone());
        let search = GrowingSearch { problem: &problem, space: &study.space, watch: watch.clone() };
        let found = search.run(&[5.0], &mut Forgetful, &mut |_, _| {}).unwrap().result;
        let grid: Vec<Vec<f64>> = (0..9).map(|at| vec![3.85 + 0.8 * f64::from(at)]).collect();
        let costs: Vec<f64> =
            problem.predict(&grid, 128, &watch).unwrap().iter().map(|prediction| problem.cost(prediction)).collect();
        let lowest = (0..grid.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b])).unwrap();
        assert!(found.expansion.value <= costs[lowest] * (1.0 + 1e-12), "{found:?} {costs:?}");
        assert!((found.theta[0] - grid[lowest][0]).abs() <= 0.8, "{found:?} {costs:?}");
        let errors = PredictionUncertainty::new(
            &problem,
            &found.theta,
            &study.space.nominal,
            &[study.measured[0].variance],
            &[found.at_bound[0].is_some()],
            &watch,
        )
        .unwrap();
        ends.push((found.theta[0], errors.std[0]));
    }
    assert!((ends[0].0 - ends[1].0).abs() < ends[1].1, "{ends:?}");
}
