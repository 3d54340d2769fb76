//! Where estimation starts, and for which values of the unknowns it has an answer.

#[path = "../../examples/likelihood/mod.rs"]
mod likelihood;

use std::fmt::Write as _;

use crate::session::{Session, finding};

/// Log-likelihoods of a grid.
fn likelihoods(session: &Session, grid: &str, set: &str) -> Vec<f64> {
    let run = session.run(&["cost", "study.toml", "--json", "--grid", grid, "--set", set]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.json()["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

/// A descriptor study with its variables in some order and in some units: noise in the algebraic part, an input, hidden
/// index 2.
fn arranged(order: [usize; 4], units: [f64; 4], mode: &str) -> Session {
    // z1 = u + w1, z2 = z1', z4 = z1, (z3 - 0.7 z4)' = z1 - a z3, with the first and the third equation added to the
    // second.
    let e = [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, -0.7], [0.0, 0.0, 1.0, -0.7], [0.0; 4]];
    let f = [["0", "1", "0", "0"], ["0", "1", "-a", "1"], ["1", "0", "-a", "0"], ["1", "0", "0", "0"]];
    let h = ["0", "0.5", "1", "0.3"];
    let row = |entries: Vec<String>| format!("[{}]", entries.join(", "));
    let e_rows: Vec<String> =
        e.iter().map(|list| row(order.iter().map(|&at| (list[at] * units[at]).to_string()).collect())).collect();
    let scaled = |list: &[&str; 4]| row(order.iter().map(|&at| format!("\"({})*{}\"", list[at], units[at])).collect());
    let f_rows: Vec<String> = f.iter().map(scaled).collect();
    let study = format!(
        "[linear]\nE = [{}]\nF = [{}]\nG = [[0], [0], [0], [-1]]\nJ = [[0], [0], [0], [-1]]\nH = [{}]\n\
         [unknown]\na = {{ start = 0.5, min = 0.1, max = 3 }}\nq = {{ start = 0.5, min = 0.1, max = 3 }}\n\
         [disturbances]\nw1 = {{ num = [\"q\"], den = [1, 3.5, 4.5, 2.25] }}\n\
         [inputs]\nu1 = {{ column = \"u\", hold = \"cubic\" }}\n[measurements]\ny1 = {{ column = \"y\", std = 0.1 }}\n\
         [data]\nfile = \"data.csv\"\n[initial]\nmode = \"{mode}\"\n",
        e_rows.join(", "),
        f_rows.join(", "),
        scaled(&h)
    );
    let mut data = "t,u,y\n".to_owned();
    for k in 0..20 {
        let t = 0.2 * f64::from(k);
        let _ = writeln!(data, "{t},{},{}", (1.3 * t).sin(), (0.9 * t).cos() + 0.1 * (7.0 * t).sin());
    }
    Session::new().with("study.toml", &study).with("data.csv", &data)
}

#[test]
fn the_order_and_the_units_of_variables_do_not_change_a_likelihood() {
    for mode in ["estimate", "diffuse", "zero"] {
        let of = |order, units| likelihoods(&arranged(order, units, mode), "a=0.3:1.3:3", "q=0.8");
        let first = of([0, 1, 2, 3], [1.0; 4]);
        for (order, units) in
            [([3, 1, 0, 2], [1.0; 4]), ([2, 3, 1, 0], [1e3, 1.0, 1e-2, 10.0]), ([1, 0, 3, 2], [1e-3, 50.0, 1.0, 1e2])]
        {
            for (a, b) in first.iter().zip(of(order, units)) {
                assert!((a - b).abs() < 1e-8 * a.abs().max(1.0), "{mode}, {order:?}: {a} and {b}");
            }
        }
    }
}

#[test]
fn a_variable_that_an_input_sets_is_not_a_free_start() {
    // z1 = u: what is free is z2, whatever their order.
    let study = |e: &str, f: &str, h: &str| {
        format!(
            "[linear]\nE = {e}\nF = {f}\nG = [[0], [-1]]\nH = {h}\n[unknown]\na = {{ start = 0.7, min = 0.1, max = 4 }}\n\
             [inputs]\nu1 = {{ column = \"u\", hold = \"foh\" }}\n[measurements]\ny1 = {{ column = \"y\", std = 0.05 }}\n\
             [data]\nfile = \"data.csv\"\n[initial]\nmode = \"estimate\"\n"
        )
    };
    // z2' = -a z2 - 1 with u = 1 + t.
    let mut data = "t,u,y\n".to_owned();
    for k in 0..40 {
        let t = 0.1 * f64::from(k);
        let _ = writeln!(data, "{t},{},{}", 1.0 + t, -1.0 + 4.0 * (-t).exp());
    }
    let mut found = Vec::new();
    for (e, f, h) in [
        ("[[1, 1], [1, 1]]", "[[0, \"-a\"], [1, \"-a\"]]", "[[0, 1]]"),
        ("[[1, 1], [1, 1]]", "[[\"-a\", 0], [\"-a\", 1]]", "[[1, 0]]"),
    ] {
        let session = Session::new().with("study.toml", &study(e, f, h)).with("data.csv", &data);
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        let a = document["parameters"][0]["estimate"].as_f64().unwrap();
        assert!((a - 1.0).abs() < 1e-5, "{document}");
        found.push(document["log_likelihood"].as_f64().unwrap());
    }
    assert!((found[0] - found[1]).abs() < 1e-8 * found[0].abs(), "{found:?}");
}

const DECAY: &str = "t,x\n0,1\n1,0.4\n2,0.1\n";

#[test]
fn a_disturbance_that_is_hopelessly_fast_is_refused() {
    let model = "model M\n  input Real w;\n  parameter Real k = 1;\n  Real x(start = 1, fixed = true);\nequation\n  der(x) = -k*x + w;\nend M;\n";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1.0, min = 0.1, max = 10.0 }\n\
                 [disturbances]\nw = { std = 0.1, time_constant = 1e-300 }\n[measurements]\nx = { std = 0.1 }\n[data]\nfile = \"data.csv\"\n";
    let session = Session::with_model(model).with("study.toml", study).with("data.csv", DECAY);
    let run = session.run(&["identify", "study.toml", "--json"]);
    assert!(run.status == 1 || run.status == 3, "{}", run.stderr);
    run.json();
}

#[test]
fn an_equation_that_is_there_twice_is_named() {
    let model = "model A\n  parameter Real k = 1;\n  Real x(start = 1, fixed = true);\n  Real y;\nequation\n  der(x) = -k*x;\n  x = -y;\n  x = -y;\nend A;\n";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1.0, min = 0.5, max = 2.0 }\n[measurements]\nx = { std = 0.01 }\n[data]\nfile = \"data.csv\"\n";
    let session = Session::with_model(model).with("study.toml", study).with("data.csv", DECAY);
    let run = session.run(&["identify", "study.toml", "--json", "--method", "ml"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    finding(&run.json(), "duplicate-equation");
}

#[test]
fn a_model_without_states_has_a_likelihood() {
    let model = "model A\n  parameter Real k = 1;\n  Real y;\nequation\n  y^3 + y = k*time;\nend A;\n";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1.0, min = 0.5, max = 2.0 }\n[measurements]\ny = { std = 0.01 }\n[data]\nfile = \"data.csv\"\n";
    let session = Session::with_model(model).with("study.toml", study).with("data.csv", "t,y\n0,0\n1,0.68\n2,1\n");
    let run = session.run(&["cost", "study.toml", "--method", "ml", "--grid", "k=1:1.1:2", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    // y(1) = 0.6823278038280193, y(2) = 1 at k = 1.
    let expected = -1.5 * (2.0 * std::f64::consts::PI * 1e-4).ln() - 0.5 * (0.002_327_803_828_019_3_f64 / 0.01).powi(2);
    let found = run.json()["values"][0].as_f64().unwrap();
    assert!((found - expected).abs() < 1e-6, "{found} instead of {expected}");
}

#[test]
fn a_likelihood_starts_from_computed_parameters() {
    let model = "model A\n  parameter Real k = 1;\n  parameter Real p(fixed = false);\n  parameter Real q = 2*p;\n  Real x(start = q, fixed = true);\n\
                 initial equation\n  3*p = 9;\nequation\n  der(x) = -k*x;\nend A;\n";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 0.7, min = 0.1, max = 3.0 }\n[measurements]\nx = { std = 0.01 }\n[data]\nfile = \"data.csv\"\n";
    let mut data = "t,x\n".to_owned();
    for step in 0..21 {
        let t = 0.1 * f64::from(step);
        let _ = writeln!(data, "{t},{}", 6.0 * (-t).exp());
    }
    let session = Session::with_model(model).with("study.toml", study).with("data.csv", &data);
    let run = session.run(&["identify", "study.toml", "--method", "ml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let k = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
    assert!((k - 1.0).abs() < 1e-6, "{k}");
}

#[test]
fn well_posedness_is_judged_for_all_values_within_the_bounds() {
    let study = "[linear]\nE = [[1, 0], [0, 0]]\nF = [[-2, 0], [0, -1]]\nJ = [[1], [1]]\nH = [[1, \"theta-1\"]]\n\
                 [unknown]\ntheta = { start = 1, min = 0, max = 2 }\n[disturbances]\nw1 = { white = 1.0 }\n[measurements]\ny1 = { std = 0.1 }\n";
    let run = Session::new().with("study.toml", study).run(&["check", "study.toml", "--json"]);
    assert_eq!(run.status, 1, "{}", run.stdout);
    let document = run.json();
    assert_eq!(document["stochastic"]["well_posed"], false);
    assert!(document["stochastic"]["signals"][0]["at"]["theta"].is_number(), "{document}");
    finding(&document, "ill-posed");
}

#[test]
fn values_at_which_a_degree_of_freedom_is_lost_are_named() {
    // At theta = 1.25 the second variable is white noise.
    let study = "[linear]\nE = [[1, 0], [0, \"theta-1.25\"]]\nF = [[-2, 0], [0, -1]]\nJ = [[1], [1]]\nH = [[1, 1]]\n\
                 [unknown]\ntheta = { start = 2, min = 0.5, max = 3 }\n[disturbances]\nw1 = { white = 1.0 }\n[measurements]\ny1 = { std = 0.1 }\n";
    let document = Session::new().with("study.toml", study).run(&["check", "study.toml", "--json"]).json();
    let told = finding(&document, "ill-posed-at");
    assert!(told["message"].as_str().unwrap().contains("theta = 1.25"), "{told}");
}

#[test]
fn what_cancels_between_correlated_disturbances_is_not_there() {
    let study = |c: &str| {
        format!(
            "[linear]\nE = [[1, -1, 0], [0, 0, 0], [0, 0, 0]]\nF = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]\nJ = [[0, 0], [-1, 0], [0, -1]]\n\
             H = [[0, 0, 1]]\n[disturbances]\nd = {{ signals = [\"w1\", \"w2\"], A = [[-1, 0, 0], [0, 0, 1], [0, -4, -2]], \
             B = [[1, 0], [0, 0], [0, 1]], C = {c} }}\n[measurements]\ny1 = {{ std = 0.1 }}\n"
        )
    };
    let check = |c: &str| Session::new().with("study.toml", &study(c)).run(&["check", "study.toml", "--json"]);
    let cancelled = check("[[1, 0, 0], [1, 1, 0]]");
    assert_eq!(cancelled.status, 0, "{}", cancelled.stdout);
    assert_eq!(cancelled.json()["stochastic"]["well_posed"], true);
    let left = check("[[1, 0, 0], [0.9, 1, 0]]");
    assert_eq!(left.status, 1, "{}", left.stdout);
    assert_eq!(left.json()["stochastic"]["signals"][0]["presampling_order"], 1);
}

/// Log-density of values with covariance `variance exp(-|t - s| / tau) + noise`.
fn low_passed_white_noise(values: &[f64], step: f64, variance: f64, tau: f64, noise: f64) -> f64 {
    let n = values.len();
    let entry = |i: usize, j: usize| {
        let distance = step * (i as f64 - j as f64).abs();
        variance * (-distance / tau).exp() + if i == j { noise } else { 0.0 }
    };
    // Cholesky, row by row.
    let mut l = vec![vec![0.0; n]; n];
    let mut left = values.to_vec();
    let mut log_density = 0.0;
    for i in 0..n {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| l[i][k] * l[j][k]).sum();
            l[i][j] = if i == j { (entry(i, i) - sum).sqrt() } else { (entry(i, j) - sum) / l[j][j] };
        }
        let known: f64 = (0..i).map(|k| l[i][k] * left[k]).sum();
        left[i] = (values[i] - known) / l[i][i];
        log_density -= 0.5 * (2.0 * std::f64::consts::PI).ln() + l[i][i].ln() + 0.5 * left[i] * left[i];
    }
    log_density
}

#[test]
fn a_presampling_filter_makes_white_noise_measurable() {
    let values: Vec<f64> = (0..12).map(|k| (1.7 * f64::from(k)).sin() + 0.3).collect();
    let mut data = "t,y1\n".to_owned();
    for (k, value) in values.iter().enumerate() {
        let _ = writeln!(data, "{},{value}", 0.25 * k as f64);
    }
    let study = |presampling: &str| {
        format!(
            "[linear]\nE = [[0]]\nF = [[-1]]\nJ = [[1]]\nH = [[1]]\n[unknown]\nq = {{ start = 2, min = 0.1, max = 9 }}\n\
             [disturbances]\nw1 = {{ white = \"q\" }}\n[measurements]\ny1 = {{ std = 0.1{presampling} }}\n\
             [data]\nfile = \"data.csv\"\n[initial]\nmode = \"stationary\"\n"
        )
    };
    let session = |presampling: &str| Session::new().with("study.toml", &study(presampling)).with("data.csv", &data);
    let without = session("").run(&["check", "study.toml", "--json"]);
    assert_eq!(without.status, 1);
    assert!(finding(&without.json(), "ill-posed")["help"].as_str().unwrap().contains("presampling"));
    for (presampling, tau) in
        [(", presampling = { time_constant = 0.4, order = 1 }", 0.4), (", presampling = \"auto\"", 0.05)]
    {
        let session = session(presampling);
        assert_eq!(session.run(&["check", "study.toml", "--json"]).status, 0, "{presampling}");
        let run = session.run(&["cost", "study.toml", "--json", "--grid", "q=1.5:3:2"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        for (at, q) in [1.5, 3.0].into_iter().enumerate() {
            let expected = low_passed_white_noise(&values, 0.25, q / (2.0 * tau), tau, 0.01);
            let found = run.json()["values"][at].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-8 * expected.abs(), "{presampling}: {found} instead of {expected}");
        }
    }
}

#[test]
fn a_presampling_filter_is_part_of_predictions_too() {
    let model =
        "model A\n  parameter Real k = 1;\n  Real x(start = 1, fixed = true);\nequation\n  der(x) = -k*x;\nend A;\n";
    // T v' = x - v from v(0) = x(0).
    let tau = 0.5;
    let mut data = "t,x\n".to_owned();
    for step in 0..30 {
        let t = 0.1 * f64::from(step);
        let slow = (-t).exp() / (1.0 - tau);
        let _ = writeln!(data, "{t},{}", slow + (1.0 - 1.0 / (1.0 - tau)) * (-t / tau).exp());
    }
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 0.7, min = 0.1, max = 3.0 }\n\
                 [measurements]\nx = { std = 0.01, presampling = { time_constant = 0.5 } }\n[data]\nfile = \"data.csv\"\n";
    let session = Session::with_model(model).with("study.toml", study).with("data.csv", &data);
    for method in ["ml", "pem"] {
        let run = session.run(&["identify", "study.toml", "--json", "--method", method]);
        assert_eq!(run.status, 0, "{method}: {}", run.stderr);
        let k = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
        assert!((k - 1.0).abs() < 1e-4, "{method}: {k}");
    }
}

#[test]
fn a_presampling_filter_with_impossible_numbers_is_refused() {
    for (presampling, code) in [
        ("{ order = 1 }", "presampling"),
        ("{ time_constant = 0, order = 1 }", "out-of-range"),
        ("{ time_constant = 1, order = 99 }", "too-large"),
        ("\"always\"", "presampling"),
    ] {
        let study = format!(
            "[linear]\nE = [[1]]\nF = [[-1]]\n[measurements]\nz1 = {{ std = 1, presampling = {presampling} }}\n"
        );
        let run = Session::new().with("study.toml", &study).run(&["check", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{presampling}");
        finding(&run.json(), code);
    }
}

/// The example `likelihood_invariance` compares hundreds.
#[test]
fn likelihoods_are_joint_densities_in_every_order_and_unit() {
    for seed in 1..4 {
        for mode in likelihood::MODES {
            let off = likelihood::largest_difference(seed, mode).unwrap_or_else(|said| panic!("{mode} {seed}: {said}"));
            assert!(off <= 1e-8, "{mode} {seed}: off by {off:.1e}");
        }
    }
}

/// Initial equations hold at the time an experiment begins, with the unknowns that occur there.
#[test]
fn likelihoods_read_initial_equations_where_experiments_begin() {
    for (initial, rate, first) in [
        ("x = k*(1 + time)", "-k*x", 1.0),
        ("x = 2*time", "-k*x", 1.0),
        ("time*x = 2", "-k*x", 1.0),
        ("x = k*(2 + time)", "-k*x", 0.0),
        ("x = 2*k", "-x", 0.0),
    ] {
        // x = 2 exp(-(t - first)) at k = 1.
        let model = format!(
            "model A parameter Real k = 1; Real x; initial equation {initial}; equation der(x) = {rate}; end A;"
        );
        let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 0.7, min = 0.1, max = 3.0 }\n\
                     [measurements]\nx = { std = 0.01 }\n[data]\nfile = \"data.csv\"\n";
        let mut data = "t,x\n".to_owned();
        for step in 0..21 {
            let t = first + 0.1 * f64::from(step);
            let _ = writeln!(data, "{t},{}", 2.0 * (first - t).exp());
        }
        let session = Session::with_model(&model).with("study.toml", study).with("data.csv", &data);
        for method in ["ml", "pem"] {
            let run = session.run(&["identify", "study.toml", "--method", method, "--json"]);
            assert_eq!(run.status, 0, "{initial}, {method}: {}", run.stderr);
            let k = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
            assert!((k - 1.0).abs() < 1e-4, "{initial}, {method}: {k}");
        }
    }
}

/// x(0) = 2 + 3 v with v stationary of variance 1/8: samples y = exp(-t) x(0) + e have a covariance of rank one and a
/// diagonal, whose density is known. White noise in the start is refused, named directly or through a variable; and an
/// initial equation that is not linear in an input counts.
#[test]
fn disturbances_and_inputs_in_initial_equations_count() {
    let model = "model M input Real v; input Real u(start = 2); Real w, x; initial equation START
        equation w = v; der(x) = -x; end M;";
    let study = "[model]\nfile = \"model.mo\"\n[disturbances]\nv = { A = [[-1]], B = [[1]], C = [[0.5]] }\n\
                 [measurements]\nx = { std = 0.01 }\n[estimate]\nsignals = [\"x\"]\n[data]\nfile = \"record.csv\"\n";
    let times: Vec<f64> = (0..21).map(|k| 0.1 * f64::from(k)).collect();
    let mut record = "t,x\n".to_owned();
    times.iter().for_each(|t| writeln!(record, "{t},{}", (-t).exp()).unwrap());
    let asked = |start: &str, study: &str| {
        let session = Session::with_model(&model.replace("START", start)).with("record.csv", &record);
        session.with("study.toml", study).run(&["estimate", "study.toml", "--json"])
    };
    let square: f64 = times.iter().map(|t| (-2.0 * t).exp()).sum();
    let (n, own, spread) = (21.0, 1e-4, 9.0 / 8.0);
    // Residuals are -exp(-t); by the formula of Sherman and Morrison:
    let quadratic = square / own - spread * square * square / (own * (own + spread * square));
    let determinant = n * f64::ln(own) + (1.0 + spread * square / own).ln();
    let expected = -0.5 * (n * (2.0 * std::f64::consts::PI).ln() + determinant + quadratic);
    for start in ["x = 2 + 3*v;", "x = 2 + 3*w;"] {
        let run = asked(start, study);
        let found = run.json()["log_likelihood"].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-7, "{start}: {found} instead of {expected}");
        let run = asked(start, &study.replace("{ A = [[-1]], B = [[1]], C = [[0.5]] }", "{ white = 0.1 }"));
        assert_eq!(run.status, 1);
        assert!(finding(&run.json(), "ill-posed")["message"].as_str().unwrap().contains("initial equation 1"));
    }
    // x(0) = 4: residuals 3 exp(-t).
    let found = asked("x = u^2;", study).json()["log_likelihood"].as_f64().unwrap();
    let expected = -0.5 * (n * (2.0 * std::f64::consts::PI * own).ln() + 9.0 * square / own);
    assert!((found / expected - 1.0).abs() < 1e-6, "{found} instead of {expected}");
}

/// x' = -k x^2 has the solution x0 / (1 + k x0 t): two records that begin elsewhere than the model.
#[test]
fn the_starts_of_records_of_a_nonlinear_model_are_found() {
    let model = "model M parameter Real k = 1; Real x(start = 1, fixed = true); equation der(x) = -k*x^2; end M;";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1, min = 0.1 }\n[initial]\nmode = \"estimate\"\n\
                 [measurements]\nx = { std = 0.01 }\n[data]\nfiles = [\"a.csv\", \"b.csv\"]\n";
    let (k, starts) = (0.8, [2.0, 0.5]);
    let record = |start: f64, begin: f64| {
        let row = |at: u32| (begin + 0.1 * f64::from(at), start / (1.0 + k * start * 0.1 * f64::from(at)));
        (0..30).map(row).fold("t,x\n".to_owned(), |text, (t, x)| text + &format!("{t},{x}\n"))
    };
    let session = Session::with_model(model)
        .with("study.toml", study)
        .with("a.csv", &record(starts[0], 0.0))
        .with("b.csv", &record(starts[1], 7.0));
    for method in ["output-error", "ml", "pem"] {
        let run = session.run(&["identify", "study.toml", "--json", "--method", method, "--save", "saved.toml"]);
        assert_eq!(run.status, 0, "{method}: {}", run.stderr);
        let document = run.json();
        for (parameter, (name, truth)) in document["parameters"].as_array().unwrap().iter().zip([
            ("k", k),
            ("start(x)[1]", starts[0]),
            ("start(x)[2]", starts[1]),
        ]) {
            assert_eq!(parameter["name"], name);
            let found = parameter["estimate"].as_f64().unwrap();
            assert!((found - truth).abs() < 1e-5, "{method}: {parameter}");
        }
        // What was saved holds for other records, which start elsewhere.
        let saved = session.run(&["identify", "saved.toml", "--json"]);
        assert_eq!(saved.status, 0, "{method}: {}", saved.stderr);
        let again = saved.json();
        let names: Vec<&str> =
            again["parameters"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["start(x)[1]", "start(x)[2]"], "{method}");
    }
    let refused = session.with("given.toml", &study.replace("\"estimate\"\n", "\"estimate\"\nx = 1\n"));
    let refused = refused.run(&["identify", "given.toml"]);
    assert!(refused.stderr.contains("nothing is free at the start"), "{}", refused.stderr);
}

/// A pendulum of index 3 from data in its minimal coordinate: a position and a velocity are free, the others follow from
/// the constraints, hidden ones too.
#[test]
fn a_free_start_meets_hidden_constraints() {
    let model = "model P parameter Real L = 1, d = 0.1; Real x(start = 0.1), y(start = -1), vx, vy, f, phi;\n\
                 equation der(x) = vx; der(y) = vy; der(vx) = -f*x - d*vx; der(vy) = -f*y - 9.81 - d*vy;\n\
                 x^2 + y^2 = L^2; phi = atan2(x, -y); end P;";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nL = { start = 1, min = 0.1 }\nd = { start = 0.1, min = 0 }\n\
                 [initial]\nmode = \"estimate\"\n[measurements]\nphi = { std = 0.01 }\n[data]\nfile = \"data.csv\"\n\
                 [estimate]\nsignals = [\"y\"]\n";
    let (length, damping, angle, rate) = (1.2, 0.2, 0.7f64, -0.4);
    // phi'' = -g / L sin(phi) - d phi' by small steps of the classical Runge-Kutta method.
    let slope = |[p, w]: [f64; 2]| [w, -9.81 / length * p.sin() - damping * w];
    let (mut state, mut data) = ([angle, rate], "t,phi\n".to_owned());
    for row in 0..80 {
        let _ = writeln!(data, "{},{}", 0.05 * f64::from(row), state[0]);
        for _ in 0..50 {
            let h = 0.001;
            let moved = |by: f64, k: [f64; 2]| [state[0] + by * k[0], state[1] + by * k[1]];
            let a = slope(state);
            let b = slope(moved(0.5 * h, a));
            let c = slope(moved(0.5 * h, b));
            let d = slope(moved(h, c));
            state = std::array::from_fn(|i| state[i] + h / 6.0 * (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i]));
        }
    }
    let session = Session::with_model(model).with("study.toml", study).with("data.csv", &data);
    let run = session.run(&["identify", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let expected =
        [("L", length), ("d", damping), ("start(x)", length * angle.sin()), ("start(vx)", length * rate * angle.cos())];
    let found = document["parameters"].as_array().unwrap();
    assert_eq!(found.len(), expected.len());
    for (parameter, (name, truth)) in found.iter().zip(expected) {
        assert_eq!(parameter["name"], name);
        assert!((parameter["estimate"].as_f64().unwrap() - truth).abs() < 1e-4, "{parameter}: {truth}");
    }
    let estimated = session.run(&["estimate", "study.toml", "--identify"]).table();
    let y = estimated.names.iter().position(|name| name == "y").unwrap();
    assert!((estimated.rows[0][y] + length * angle.cos()).abs() < 1e-4);
    let refused = session.run(&["estimate", "study.toml"]);
    assert!(refused.stderr.contains("`estimate --identify` find"), "{}", refused.stderr);
}

/// z1 = w, and z1 + z2 has a start of its own with the disturbance in it: neither z1 nor z2 is free by itself.
#[test]
fn a_start_that_a_disturbance_takes_part_in_is_refused_where_variables_start() {
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/../../problems/noisy_start/study.toml");
    let run = Session::new().run(&["identify", study, "--method", "pem"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    assert!(run.stderr.contains("`w1` takes part in the start"), "{}", run.stderr);
}

/// A study of `model` with one unknown `k`, whose measurement of `name` follows `values` at t = 0, 0.1 ..
fn study_of_k(model: &str, name: &str, settings: &str, value: fn(f64) -> f64) -> Session {
    let mut data = "t,m\n".to_owned();
    for at in 0..=10 {
        let t = f64::from(at) / 10.0;
        writeln!(data, "{t},{}", value(t)).unwrap();
    }
    let study = format!(
        "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = 1.3, min = 0.65, max = 2.6 }}\n[measurements]\n{name} = {{ \
         column = \"m\", std = 0.001 }}\n[data]\nfile = \"data.csv\"\n{settings}"
    );
    Session::with_model(model).with("data.csv", &data).with("study.toml", &study)
}

/// Where a start is 0/0 the value there is a limit that depends on k, and no number that one model has for all k.
#[test]
fn special_starts_that_depend_on_unknowns_are_refused_with_a_remedy() {
    let cost = ["cost", "study.toml", "--grid", "k=1.2:1.4:3", "--json"];
    let quotient = "model M parameter Real k=1.3; Real x; equation time*x = k*sin(time); end M;";
    let sinc = |t: f64| if t == 0.0 { 1.3 } else { 1.3 * t.sin() / t };
    let run = study_of_k(quotient, "x", "", sinc).run(&cost);
    let document = run.json();
    let message = finding(&document, "no-prediction")["message"].as_str().unwrap();
    assert!(["`x`", "`time*x = k*sin(time)`", "t = 0"].iter().all(|part| message.contains(part)), "{message}");
    // The remedy.
    let run = study_of_k(quotient, "x", "[identify]\ntransient = 0.05\n", sinc).run(&cost);
    assert_eq!(run.status, 0, "{}", run.stderr);
    // y = 2 k for t > 0, so that z(0) = 2 k.
    let loop_of_two = "model M parameter Real k=1; Real x, y, z; initial equation z = y;
equation x + y = time; x + (1 + time)*y = (2*k + 1)*time; der(z) = -z; end M;";
    // The same where the coefficient vanishes with a state: z(0) = k.
    let by_state = "model M parameter Real k=1; Real x(start=0, fixed=true), y, z; initial equation z = y;
equation der(x) = 1; y*x = k*sin(x); der(z) = -z; end M;";
    let z_of: [fn(f64) -> f64; 2] = [|t| 2.6 * (-t).exp(), |t| 1.3 * (-t).exp()];
    for (model, z) in [loop_of_two, by_state].into_iter().zip(z_of) {
        let run = study_of_k(model, "z", "", z).run(&cost);
        assert_eq!(run.status, 1, "{}", run.stdout);
        let document = run.json();
        assert_eq!(finding(&document, "special-start")["level"], "error");
    }
    let root = "model M parameter Real k=1; Real x(start=0, fixed=true); equation der(x) = k + sqrt(x); end M;";
    let run = study_of_k(root, "x", "", |t| t).run(&["identify", "study.toml", "--method", "output-error", "--json"]);
    let document = run.json();
    let told = finding(&document, "no-prediction");
    let message = told["message"].as_str().unwrap();
    assert!(message.contains("no finite derivative by `k`") && message.contains("der(x) = k + sqrt(x)"), "{message}");
}

/// A start that is estimated is what the data say, whatever was written: values of 1e19 cancelled in the residuals.
#[test]
fn an_estimated_start_does_not_depend_on_the_one_that_was_written() {
    let found = ["9223372036854775807", "5"].map(|start| {
        let model = format!(
            "model M input Real w; parameter Real k = 1; Real x(start = {start}, fixed = true); equation der(x) = -k*x + w; end M;"
        );
        let settings = "[disturbances]\nw = { std = 0.01, time_constant = 1.0 }\n[initial]\nmode = \"estimate\"\n";
        let session = study_of_k(&model, "x", settings, |t| 0.4 * (-1.7 * t).exp() + 1e-3 * (40.0 * t).sin());
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        let start = document["initial"].to_string();
        (document["parameters"][0]["estimate"].as_f64().unwrap(), start, run.stdout.contains("noise-size"))
    });
    assert!((found[0].0 - found[1].0).abs() < 1e-6, "{found:?}");
    assert_eq!(found[0].1, found[1].1);
    assert_eq!(found[0].2, found[1].2);
}
