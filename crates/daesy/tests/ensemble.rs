//! Ensembles of models from the front end against independent references.

use std::path::{Path, PathBuf};

use daesy::load::{LoadOptions, load};
use daesy::prepare::{DataUse, Prepared, prepare};
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
    let mut loaded = load(&problem(name), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors:?}"));
    prepare(&mut loaded, DataUse::Optional).unwrap_or_else(|error| panic!("{:?}", error.diagnostics))
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
            watch: Watch::default(),
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
