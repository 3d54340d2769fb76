//! `daesy check` on linear studies: singular and time-varying models, well-posed and ill-posed estimation, large sparse models.

use std::path::{Path, PathBuf};

use daesy::check::{Check, check};
use daesy::load::{LoadOptions, load, load_study_text};
use daesy::stochastic::Role;

fn of_text(text: &str) -> Check {
    let mut loaded = load_study_text("study.toml", text, Path::new(""), &LoadOptions::default())
        .unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
    check(&mut loaded)
}

fn problem(file: &str) -> Check {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/gerdin_ill_posed").join(file);
    check(&mut load(&path, &LoadOptions::default()).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}")))
}

#[test]
fn gerdin_10_is_ill_posed_because_of_z2() {
    let check = problem("study.toml");
    let stochastic = check.stochastic.as_ref().expect("disturbed");
    assert!(!stochastic.is_well_posed);
    let [signal] = &stochastic.signals[..] else { panic!("{stochastic:?}") };
    assert_eq!((signal.name.as_str(), signal.role, signal.finite_variance), ("y", Role::Measured, false));
    assert_eq!(signal.disturbance.as_deref(), Some("v1"));
    assert_eq!((signal.pole_excess, signal.pole_excess_needed, signal.presampling_order), (Some(0), Some(2), 1));
    let error = check.diagnostics.iter().find(|diagnostic| diagnostic.code == "ill-posed").expect("an error");
    assert!(check.has_errors() && error.names.iter().any(|name| name == "z2"), "{error:?}");
    assert!(error.help.as_ref().is_some_and(|help| help.contains("presampling") && help.contains("at least 2")));
}

#[test]
fn a_presampling_filter_or_coloured_noise_repairs_gerdin_10() {
    let check = problem("repaired.toml");
    let stochastic = check.stochastic.as_ref().expect("disturbed");
    assert!(stochastic.is_well_posed && !check.has_errors(), "{:?}", check.diagnostics);
    assert_eq!(
        stochastic.signals.iter().map(|signal| signal.role).collect::<Vec<_>>(),
        [Role::Measured, Role::Estimated]
    );
    let check = problem("coloured.toml");
    let stochastic = check.stochastic.as_ref().expect("disturbed");
    assert!(stochastic.is_well_posed && !check.has_errors());
    assert_eq!((stochastic.signals[0].pole_excess, stochastic.signals[0].pole_excess_needed), (Some(2), Some(2)));
}

#[test]
fn every_differentiation_asks_for_two_more_of_pole_excess() {
    // z1 = w, z2 = w', z3 = w''.
    let chain = |process: &str, signal: &str| {
        of_text(&format!(
            "[unknown]\nsigma = {{ start = 0.3 }}\n[linear]\nE = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]\nF = [[-1, 0, 0], [0, 1, 0], [0, 0, 1]]\n\
             J = [[1], [0], [0]]\n[disturbances]\nw1 = {process}\n[estimate]\nsignals = [\"{signal}\"]\n"
        ))
    };
    let second = "{ A = [[0, 1], [-16, -0.8]], B = [[0], [1]], C = [[\"sigma\", 0]] }";
    for (signal, is_finite) in [("z1", true), ("z2", true), ("z3", false)] {
        let check = chain(second, signal);
        let stochastic = check.stochastic.as_ref().expect("disturbed");
        assert_eq!(stochastic.is_well_posed, is_finite, "{signal}");
        assert_eq!(stochastic.signals[0].pole_excess, Some(4));
    }
    let check = chain("{ num = [0, 1, \"sigma\"], den = [1, 3, 3, 1] }", "z2");
    assert!(check.stochastic.expect("disturbed").is_well_posed);
    let check = chain("{ num = [1, 1], den = [3] }", "z1");
    assert!(check.diagnostics.iter().any(|diagnostic| diagnostic.code == "disturbance"));
}

#[test]
fn time_varying_paths_are_found_by_transfer() {
    // x1' = l + w, x2' = l, 0 = t x1 + x2: l holds w itself, so white noise is too rough for l but not for x1.
    let text = |signal: &str| {
        format!(
            "[linear]\nE = [[1, 0, 0], [0, 1, 0], [0, 0, 0]]\nF = [[0, 0, 1], [0, 0, 1], [\"time\", 1, 0]]\nJ = [[1], [0], [0]]\n\
             names = {{ z = [\"x1\", \"x2\", \"l\"], w = [\"w\"] }}\n\
             [disturbances]\nw = {{ white = 1.0 }}\n[estimate]\nsignals = [\"{signal}\"]\n[simulate]\nstart = 1.0\nstop = 2.0\n"
        )
    };
    assert!(of_text(&text("x1")).stochastic.expect("disturbed").is_well_posed);
    let check = of_text(&text("l"));
    let signal = &check.stochastic.as_ref().expect("disturbed").signals[0];
    assert_eq!((signal.finite_variance, signal.pole_excess_needed), (false, Some(2)));
    let linear = check.linear.as_ref().expect("time-varying");
    assert_eq!((linear.differentiation_index, linear.d, linear.a, linear.v), (Some(2), 1, 2, 0));
}

#[test]
fn a_singular_pencil_names_what_is_redundant_and_what_is_free() {
    // Structure sees nothing wrong: three equations for three unknowns; but the last is the sum of the first two.
    let check = of_text(
        "[linear]\nE = [[1, 0, 0], [0, 1, 0], [1, 1, 0]]\nF = [[-1, 0, 1], [0, -1, 1], [-1, -1, 2]]\nnames = { z = [\"a\", \"b\", \"c\"] }\n",
    );
    assert!(check.has_errors());
    let error = check.diagnostics.iter().find(|diagnostic| diagnostic.code == "singular-model").expect("named");
    assert!(error.names.iter().any(|name| name == "c"), "{error:?}");
}

#[test]
fn more_equations_than_variables_are_judged_by_their_pencil() {
    let check = of_text("[linear]\nE = [[1, 0], [0, 0], [0, 0]]\nF = [[-1, 1], [1, 1], [2, 2]]\n");
    let linear = check.linear.as_ref().expect("not square");
    assert!(!linear.is_regular && check.has_errors());
    assert_eq!((linear.d, linear.a, linear.v), (1, 1, 1));
    assert_eq!(linear.redundant_equations.len(), 1);
    assert!(linear.free_variables.is_empty());
}

#[test]
fn fewer_equations_than_variables_leave_variables_free() {
    let check = of_text("[linear]\nE = [[1, 0, 0]]\nF = [[-1, 1, 0]]\n");
    let linear = check.linear.as_ref().expect("not square");
    assert_eq!((linear.d, linear.a, linear.v), (1, 0, 0));
    assert_eq!(linear.free_variables.len(), 2);
    assert!(linear.free_variables.contains(&"z3".to_owned()));
}

/// A chain of masses between two walls, the last one moved by a given motion: index 3 at its end, thousands of variables.
fn chain_model(n: usize) -> String {
    format!(
        "model Chain\n  constant Integer n = {n};\n  parameter Real c = 4;\n  parameter Real d = 0.1;\n  input Real motion;\n  Real x[n];\n  Real v[n];\n\
         \x20 Real f[n + 1];\n  Real push;\nequation\n  for i in 1:n loop\n    der(x[i]) = v[i];\n  end for;\n\
         \x20 f[1] = -c*x[1] - d*v[1];\n  for i in 2:n loop\n    f[i] = c*(x[i - 1] - x[i]) + d*(v[i - 1] - v[i]);\n  end for;\n\
         \x20 f[n + 1] = c*x[n] + push;\n  for i in 1:n loop\n    der(v[i]) = f[i] - f[i + 1];\n  end for;\n  x[n] = motion;\nend Chain;\n"
    )
}

#[test]
fn a_chain_of_ten_thousand_variables_is_judged_by_structure_and_blocks() {
    let folder = std::env::temp_dir().join(format!("daesy-chain-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("chain.mo");
    let n = 3333;
    std::fs::write(&path, chain_model(n)).expect("writable");
    let mut loaded = load(&path, &LoadOptions::default()).expect("flattens");
    let check = check(&mut loaded);
    assert_eq!(check.size.unknowns, 3 * n + 2);
    assert!(!check.has_errors(), "{:?}", check.diagnostics);
    let verdict = check.verdict.expect("sound");
    let regularity = verdict.regularity.expect("verified");
    assert_eq!((regularity.differentiation_index, regularity.d), (3, 2 * n - 2));
    assert!(regularity.agrees_with_structure);
    assert_eq!((verdict.inputs[0].name.as_str(), verdict.inputs[0].derivatives_needed), ("motion", 2));
    std::fs::remove_dir_all(&folder).expect("removable");
}
