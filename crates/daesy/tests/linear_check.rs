//! `daesy check` on linear studies: singular and time-varying models, well-posed and ill-posed estimation, large sparse
//! models.

use std::path::{Path, PathBuf};

use daesy::check::{Check, check};
use daesy::load::{LoadOptions, load, load_study_text};
use daesy::stochastic::Role;

fn of_text(text: &str) -> Check {
    let loaded = load_study_text("study.toml", text, Path::new(""), &LoadOptions::default())
        .unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
    check(&loaded)
}

fn problem(file: &str) -> Check {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/gerdin_ill_posed").join(file);
    check(&load(&path, &LoadOptions::default()).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}")))
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

/// A chain of masses between two walls, the last one moved by a given motion: index 3 at its end, thousands of
/// variables.
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
    let loaded = load(&path, &LoadOptions::default()).expect("flattens");
    let check = check(&loaded);
    assert_eq!(check.size.unknowns, 3 * n + 2);
    assert!(!check.has_errors(), "{:?}", check.diagnostics);
    let verdict = check.verdict.expect("sound");
    let regularity = verdict.regularity.expect("verified");
    assert_eq!((regularity.differentiation_index, regularity.d), (3, 2 * n - 2));
    assert!(regularity.agrees_with_structure);
    assert_eq!((verdict.inputs[0].name.as_str(), verdict.inputs[0].derivatives_needed), ("motion", 2));
    std::fs::remove_dir_all(&folder).expect("removable");
}

/// The heat equation on a rod of `n` cells, both ends insulated, and the mean of its ends; the three ways to write
/// matrices.
struct Rod {
    n: usize,
}

impl Rod {
    fn entries(&self) -> Vec<(usize, usize, f64)> {
        let mut entries = Vec::new();
        for i in 1..self.n {
            entries.extend([(i, i, -1.0), (i, i + 1, 1.0), (i + 1, i, 1.0), (i + 1, i + 1, -1.0)]);
        }
        entries
    }

    fn listed(&self, size: (usize, usize), entries: &[(usize, usize, f64)]) -> String {
        let join = |text: Vec<String>| text.join(", ");
        format!(
            "{{ size = [{}, {}], rows = [{}], columns = [{}], values = [{}] }}",
            size.0,
            size.1,
            join(entries.iter().map(|entry| entry.0.to_string()).collect()),
            join(entries.iter().map(|entry| entry.1.to_string()).collect()),
            join(entries.iter().map(|entry| entry.2.to_string()).collect()),
        )
    }

    fn study(&self, f: &str) -> String {
        let n = self.n;
        let unit: Vec<_> = (1..=n).map(|i| (i, i, 1.0)).collect();
        format!(
            "[linear]\nE = {}\nF = {f}\nH = {}\n[initial]\nz1 = 1.0\n[simulate]\nstop = 1.0\nstep = 0.5\n",
            self.listed((n, n), &unit),
            self.listed((1, n), &[(1, 1, 0.5), (1, n, 0.5)]),
        )
    }
}

#[test]
fn rows_entries_and_files_mean_the_same_matrix() {
    let rod = Rod { n: 4 };
    let listed = of_text(&rod.study(&rod.listed((4, 4), &rod.entries()))).to_json();
    let rows = "[[-1, 1, 0, 0], [1, -2, 1, 0], [0, 1, -2, 1], [0, 0, 1, -1]]";
    let given = of_text(&rod.study(rows)).to_json();
    let folder = std::env::temp_dir().join(format!("daesy-matrix-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let symmetric =
        "%%MatrixMarket matrix coordinate real symmetric\n4 4 7\n1 1 -1\n2 1 1\n2 2 -2\n3 2 1\n3 3 -2\n4 3 1\n4 4 -1\n";
    std::fs::write(folder.join("F.mtx"), symmetric).expect("writable");
    let study = rod.study("{ file = \"F.mtx\" }");
    let loaded = load_study_text("study.toml", &study, &folder, &LoadOptions::default()).expect("the file is there");
    let filed = check(&loaded).to_json();
    assert_eq!(given["regularity"]["differentiation_index"], 1, "{given:?}");
    for other in [&listed, &filed] {
        for key in ["size", "structure", "regularity", "initial"] {
            assert_eq!(other[key], given[key], "{key}");
        }
    }
    // A wrong line is named where it stands.
    std::fs::write(folder.join("F.mtx"), symmetric.replace("2 1 1\n", "2 9 1\n")).expect("writable");
    let refused = load_study_text("study.toml", &study, &folder, &LoadOptions::default()).expect_err("column 9");
    let place = refused[0].place.as_ref().expect("a place");
    assert!(place.file.ends_with("F.mtx") && place.line == 4 && refused[0].code == "matrix-file", "{refused:?}");
    std::fs::remove_dir_all(&folder).expect("removable");
    let refused = load_study_text("study.toml", &study, &folder, &LoadOptions::default()).expect_err("no file");
    assert_eq!((refused[0].code.as_str(), refused[0].place.as_ref().map(|place| place.line)), ("matrix-file", Some(3)));
    let outside = rod.study(&rod.listed((4, 4), &[(0, 1, 1.0)]));
    let refused = load_study_text("study.toml", &outside, &folder, &LoadOptions::default()).expect_err("row 0");
    assert!(refused[0].code == "matrix-entry" && refused[0].message.contains("row 0, column 1"), "{refused:?}");
}

#[test]
fn ten_thousand_cells_by_their_entries_are_checked_and_simulated() {
    let rod = Rod { n: 10_000 };
    let text = rod.study(&rod.listed((rod.n, rod.n), &rod.entries()));
    let check = of_text(&text);
    assert!(!check.has_errors(), "{:?}", check.diagnostics);
    assert_eq!((check.size.equations, check.size.unknowns), (rod.n + 1, rod.n + 1));
    let regularity = check.verdict.expect("sound").regularity.expect("verified");
    assert_eq!((regularity.differentiation_index, regularity.d), (1, rod.n));
    let loaded = load_study_text("study.toml", &text, Path::new(""), &LoadOptions::default()).expect("sound");
    let trajectory = daesy::simulate::simulate(&loaded).unwrap_or_else(|failure| panic!("{failure:?}"));
    // Insulated: the heat stays. The far end is cold yet: y is half of the first cell.
    let last = |name: &str| trajectory.table.column(name).and_then(|column| column.last().copied()).expect("a column");
    let total: f64 = (1..=rod.n).map(|i| last(&format!("z{i}"))).sum();
    assert!((total - 1.0).abs() < 1e-6, "{total}");
    // Half-space of cells: z1(t) = exp(-2 t) (I0(2 t) + I1(2 t)), here at t = 1.
    let exact = (-2.0f64).exp() * (2.279_585_302_336_067 + 1.590_636_854_637_329);
    assert!((last("z1") - exact).abs() < 1e-4 && (last("y1") - 0.5 * exact).abs() < 1e-4, "{}", last("z1"));
}

/// The folder of shared reference cases, if it is there.
fn shared_cases() -> Option<PathBuf> {
    let given = std::env::var_os("DAESY_CASES").map(PathBuf::from);
    let folder = given.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/cases"));
    folder.is_dir().then_some(folder)
}

#[test]
fn shared_descriptor_cases_as_studies() {
    let Some(folder) = shared_cases() else {
        println!("no shared cases here; nothing to compare with");
        return;
    };
    let text = std::fs::read_to_string(folder.join("descriptor/pencils.json")).expect("readable");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    for case in document["cases"].as_array().expect("cases") {
        let (id, exact) = (case["id"].as_str().expect("id"), &case["exact"]);
        let check = of_text(&format!("[linear]\nE = {}\nF = {}\n", case["E"], case["A"]));
        assert!(!check.has_errors(), "{id}: {:?}", check.diagnostics);
        let json = check.to_json();
        assert_eq!(json["regularity"]["differentiation_index"], exact["index"], "{id}");
        assert_eq!(json["regularity"]["d"], exact["n_finite"], "{id}");
        assert_eq!(json["structure"]["degrees_of_freedom"], exact["n_finite"], "{id}");
    }
}
