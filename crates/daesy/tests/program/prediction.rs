//! Identification by prediction errors of ensembles: the same bytes however it is run, and clear words about wrong
//! input.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::session::{Session, finding};

/// The pendulum of problems/pendulum with its data, its study changed by `edit`.
fn pendulum(edit: impl Fn(String) -> String) -> Session {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/pendulum");
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    Session::new()
        .with("model.mo", &read("model.mo"))
        .with("experiment.csv", &read("experiment.csv"))
        .with("study.toml", &edit(read("experiment.toml")))
}

const GRID: &str = "L=3.85:10.25:9";

#[test]
fn the_cost_has_the_same_bytes_on_any_number_of_threads_and_after_a_kill() {
    let session = pendulum(|text| text.replace("realizations = 20", "realizations = 70"));
    let arguments = ["cost", "study.toml", "--grid", GRID, "--json"];
    let first = session.run(&arguments);
    assert_eq!(first.status, 0, "{}", first.stderr);
    assert_eq!(first.json()["kind"], "prediction-error");
    let values: Vec<f64> =
        first.json()["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
    finding(&first.json(), "interpolation-error");
    let lowest = (0..9).min_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap();
    assert!((2..=5).contains(&lowest), "{values:?}");
    for threads in ["1", "2", "5"] {
        let run = session.run(&[&arguments[..], &["--threads", threads]].concat());
        assert_eq!(run.stdout, first.stdout, "{threads} threads");
    }
    let with_file = [&arguments[..], &["--checkpoint", "run.txt"]].concat();
    assert_eq!(session.run(&with_file).stdout, first.stdout);
    let kept = std::fs::read_to_string(session.path("run.txt")).unwrap();
    // As if killed before the fifth result.
    let cut: usize = kept.split_inclusive('\n').take(5).map(str::len).sum();
    std::fs::write(session.path("run.txt"), &kept[..cut]).unwrap();
    assert_eq!(session.run(&with_file).stdout, first.stdout);
    // A line that is not whole is damage, which no kill leaves.
    std::fs::write(session.path("run.txt"), &kept[..cut + 20]).unwrap();
    let damaged = session.run(&with_file);
    assert_eq!(damaged.status, 1, "{}", damaged.stderr);
    assert_eq!(finding(&damaged.json(), "checkpoint")["line"], 6);
    std::fs::write(session.path("run.txt"), &kept).unwrap();
    assert_eq!(std::fs::read_to_string(session.path("run.txt")).unwrap().lines().count(), kept.lines().count());
    let other = session.run(&[&with_file[..], &["--seed", "3"]].concat());
    assert_eq!(other.status, 1);
    finding(&other.json(), "checkpoint");
}

/// Machine code for eight lanes, for four, the interpreter in registers and the portable one, on one thread and on
/// many: one answer. 21 realizations fill no group of lanes, 70 more than a block.
#[test]
fn the_cost_has_the_same_bytes_with_all_instructions() {
    for realizations in ["21", "70"] {
        let session = pendulum(|text| {
            let text = text.replace("realizations = 20", &format!("realizations = {realizations}"));
            text.replace("noise_step = 0.01", "noise_step = 0.02")
        });
        let run = |instructions: &str, threads: &str| {
            let arguments = ["cost", "study.toml", "--grid", "L=5:7:2", "--json", "--threads", threads];
            let run = session.run_in(&[("DAESY_INSTRUCTIONS", instructions)], &arguments);
            assert_eq!(run.status, 0, "{}", run.stderr);
            run.stdout
        };
        let widest = run("avx512", "1");
        for (instructions, threads) in [("portable", "1"), ("avx2-interpreter", "8"), ("avx2", "2"), ("avx512", "8")] {
            assert_eq!(run(instructions, threads), widest, "{instructions} on {threads} threads");
        }
    }
}

#[test]
fn instructions_that_do_not_exist_are_refused() {
    let session = Session::with_model("model M Real x = 1; end M;");
    let run = session.run_in(&[("DAESY_INSTRUCTIONS", "avx3")], &["check", "model.mo", "--json"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
    let message = finding(&run.json(), "usage")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("DAESY_INSTRUCTIONS") && message.contains("avx3"), "{message}");
}

#[test]
fn the_length_is_found_with_its_error_and_goes_on_from_a_checkpoint() {
    let session = pendulum(|text| text);
    let arguments = ["identify", "study.toml", "--json", "--checkpoint", "run.txt"];
    let run = session.run(&arguments);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["method"], "pem");
    assert_eq!(document["converged"], true);
    let length = &document["parameters"][0];
    let (estimate, error) = (length["estimate"].as_f64().unwrap(), length["std_error"].as_f64().unwrap());
    assert!((estimate - 6.25).abs() < 3.0 * error && error > 0.01 && error < 2.0, "{estimate} {error}");
    finding(&document, "interpolation-error");
    let kept = std::fs::read_to_string(session.path("run.txt")).unwrap();
    let half: Vec<&str> = kept.split_inclusive('\n').take(kept.lines().count() / 2).collect();
    std::fs::write(session.path("run.txt"), half.concat()).unwrap();
    assert_eq!(session.run(&arguments).stdout, run.stdout);
    let by_output = session.run(&["identify", "study.toml", "--json", "--method", "output-error"]);
    assert_eq!(by_output.status, 0, "{}", by_output.stderr);
    assert_eq!(by_output.json()["method"], "output-error");
}

#[test]
fn a_killed_search_goes_on_to_the_same_bytes() {
    let session = pendulum(|text| text.replace("realizations = 20", "realizations = 400"));
    let arguments = ["identify", "study.toml", "--json", "--threads", "2", "--checkpoint", "run.txt"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_daesy"))
        .args(arguments)
        .current_dir(session.path("."))
        .env_remove("MODELICAPATH")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let n_kept = || std::fs::read_to_string(session.path("run.txt")).map_or(0, |text| text.lines().count());
    let begun = Instant::now();
    while n_kept() < 4 && begun.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    // The operating system ends it wherever it is; it gets no word in.
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(!status.success(), "the search ended before it could be killed");
    let n_at_death = n_kept();
    assert!(n_at_death >= 4, "{n_at_death}");
    let resumed = session.run(&arguments);
    assert_eq!(resumed.status, 0, "{}", resumed.stderr);
    assert!(n_kept() > n_at_death);
    for threads in ["1", "2", "5"] {
        let whole = session.run(&["identify", "study.toml", "--json", "--threads", threads]);
        assert_eq!(whole.stdout, resumed.stdout, "{threads} threads");
    }
}

#[test]
fn an_interrupt_tells_the_best_so_far_and_how_to_go_on() {
    for method in ["pem", "ml"] {
        let session = pendulum(|text| text.replace("realizations = 20", "realizations = 400"));
        let arguments = ["identify", "study.toml", "--json", "--method", method, "--checkpoint", "run.txt"];
        let child = Command::new(env!("CARGO_BIN_EXE_daesy"))
            .args(arguments)
            .current_dir(session.path("."))
            .env_remove("MODELICAPATH")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let n_kept = || std::fs::read_to_string(session.path("run.txt")).map_or(0, |text| text.lines().count());
        let begun = Instant::now();
        while n_kept() < 4 && begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{method}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let told = finding(&document, "stopped");
        let message = told["message"].as_str().unwrap();
        assert!(message.contains("best so far") && message.contains("L = "), "{method}: {message}");
        assert!(told["help"].as_str().unwrap().contains("run.txt"), "{method}: {told}");
        let (resumed, whole) = (session.run(&arguments), session.run(&arguments[..5]));
        assert_eq!(resumed.status, 0, "{}", resumed.stderr);
        assert_eq!(resumed.stdout, whole.stdout, "{method}");
    }
}

#[test]
fn wrong_input_is_told_with_its_place() {
    let code = |edit: &dyn Fn(String) -> String, code: &str, words: &str| {
        let session = pendulum(edit);
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{code}: {}", run.stderr);
        let document = run.json();
        let found = finding(&document, code);
        assert!(found["message"].as_str().unwrap().contains(words), "{found}");
        assert!(found["line"].as_u64().unwrap() >= 1, "{found}");
    };
    let filter = "A = [[0, 1], [-16, -0.8]], B = [[0], [1]], C = [[0.2, 0]], initial = \"zero\"";
    code(&|text| text.replace(filter, "white = 0.1"), "pole-excess", "infinite variance");
    code(&|text| text.replace(filter, "num = [1, 2], den = [1, 3]"), "pole-excess", "infinite variance");
    code(&|text| text.replace("C = [[0.2, 0]]", "C = [[0.2, 0], [0, 0.1]]"), "matrix-shape", "one row");
    code(&|text| text.replace("noise_step = 0.01", "noise_step = 0.2"), "noise-step", "longer than the distance");
    code(&|text| text.replace("realizations = 20", "realizations = 0"), "out-of-range", "realizations");
    code(
        &|text| text.replace("[inputs]", "idle = { start = 1.0 }\n[inputs]"),
        "idle-unknown",
        "nothing depends on the unknown `idle`",
    );
    code(
        &|text| text.replace("-16, -0.8", "16, -0.8").replace(", initial = \"zero\"", ""),
        "disturbance-unstable",
        "not stable",
    );
    code(&|text| text.replace("transient = 0.0", "transient = 50.0"), "no-samples", "no sample is left");
}

/// An oscillator of unknown stiffness under a disturbance of unknown size; hidden, it does not look linear.
fn unknown_oscillator(is_hidden: bool, filter: &str) -> Session {
    let force = if is_hidden { "max(w, -1e9)" } else { "w" };
    let model = format!(
        "model M\n  parameter Real c = 4;\n  input Real w;\n  input Real u;\n  Real x(start=0.3, fixed=true);\n  Real v(start=0, fixed=true);\n\
         equation\n  der(x) = v;\n  der(v) = -c*x - 0.5*v + {force} + u;\nend M;\n"
    );
    let study = format!(
        "[model]\nfile = \"model.mo\"\n[unknown]\nc = {{ start = 3.0, min = 0.1, max = 20.0 }}\n\
         sigma = {{ start = 1.0, min = 0.01, max = 20.0 }}\nr = {{ start = 0.1, min = 0.001, max = 1.0 }}\n\
         [inputs]\nu = {{ expression = \"sin(1.3*time)\" }}\n\
         [disturbances]\nw = {{ num = [\"sigma\"], den = [1, 2, 5] }}\n[measurements]\nx = {{ std = \"r\" }}\n\
         {filter}\n[data]\nfile = \"data.csv\"\n\
         [simulate]\nstart = 0.0\n[identify]\nmethod = \"ml\"\nnoise_step = 0.02\n"
    );
    let mut data = "t,x\n".to_owned();
    for at in 1..=120 {
        let time = 0.1 * f64::from(at);
        let value = 0.5 * (1.3 * time - 0.4).sin() + 0.3 * (0.7 * time).cos() + 0.05 * (37.0 * time).cos();
        // Every seventh sample is missing.
        let cell = if at % 7 == 0 { String::new() } else { value.to_string() };
        data.push_str(&format!("{time:.1},{cell}\n"));
    }
    Session::new().with("model.mo", &model).with("study.toml", &study).with("data.csv", &data)
}

#[test]
fn likelihoods_by_filters_find_what_the_exact_likelihood_finds_where_the_model_is_linear() {
    let run = |is_hidden: bool, filter: &str| {
        let session = unknown_oscillator(is_hidden, filter);
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{filter}: {}", run.stderr);
        let document = run.json();
        assert_eq!(document["converged"], true);
        assert_eq!(document["method"], "ml");
        document
    };
    let exact = run(false, "");
    assert!(exact["approximation"].is_null());
    for filter in ["", "[estimate]\nsignals = [\"v\"]\nfilter = \"extended\""] {
        let found = run(true, filter);
        assert!(found["approximation"].as_str().unwrap().contains("Kalman filter"));
        finding(&found, "approximation");
        let number = |document: &serde_json::Value, key: &str| document[key].as_f64().unwrap();
        let difference = number(&found, "log_likelihood") - number(&exact, "log_likelihood");
        assert!(difference.abs() < 0.05, "{filter}: {difference}");
        for at in 0..3 {
            let of = |document: &serde_json::Value, key: &str| document["parameters"][at][key].as_f64().unwrap();
            let error = of(&exact, "std_error");
            let moved = (of(&found, "estimate") - of(&exact, "estimate")) / error;
            assert!(moved.abs() < 0.05, "{filter} {at}: {moved}");
            assert!((of(&found, "std_error") / error - 1.0).abs() < 0.05, "{filter} {at}");
        }
    }
    let rough = unknown_oscillator(true, "[estimate]\nsignals = [\"v\"]\nfilter = \"particles\"");
    let refused = rough.run(&["identify", "study.toml", "--json"]);
    assert_eq!(refused.status, 1);
    finding(&refused.json(), "method");
    let grid = unknown_oscillator(true, "").run(&["cost", "study.toml", "--grid", "c=2:6:3", "--json"]);
    assert_eq!(grid.status, 0, "{}", grid.stderr);
    assert_eq!(grid.json()["kind"], "log-likelihood");
}

/// A linear oscillator under a disturbance, and the same equations in a form that hides that they are linear.
fn oscillator(filter: &str, is_hidden: bool) -> Session {
    let force = if is_hidden { "max(w, -1e9)" } else { "w" };
    let model = format!(
        "model M\n  input Real w;\n  input Real u;\n  Real x(start=0.3, fixed=true);\n  Real v(start=0, fixed=true);\n  Real f;\n  Real e;\n\
         equation\n  der(x) = v;\n  der(v) = -4*x - 0.5*v + f + u;\n  f = {force};\n  e = 2*x;\nend M;\n"
    );
    let study = format!(
        "[model]\nfile = \"model.mo\"\n[inputs]\nu = {{ expression = \"sin(1.3*time)\" }}\n\
         [disturbances]\nw = {{ num = [2], den = [1, 2, 5] }}\n[measurements]\nx = {{ std = 0.05 }}\n\
         [estimate]\nsignals = [\"v\", \"f\"]\n{filter}\n[data]\nfile = \"data.csv\"\n\
         [simulate]\nstart = 0.0\n[identify]\nnoise_step = 0.01\n"
    );
    let mut data = "t,x\n".to_owned();
    for at in 1..=60 {
        let time = 0.1 * f64::from(at);
        data.push_str(&format!("{time:.1},{}\n", 0.4 * (1.1 * time).sin() + 0.05 * (37.0 * time).cos()));
    }
    Session::new().with("model.mo", &model).with("study.toml", &study).with("data.csv", &data)
}

#[test]
fn filters_of_nonlinear_models_agree_with_the_exact_one_where_the_model_is_linear() {
    let run = |filter: &str, is_hidden: bool| {
        let session = oscillator(filter, is_hidden);
        let run = session.run(&["estimate", "study.toml", "--json", "-o", "out.csv"]);
        assert_eq!(run.status, 0, "{filter}: {}", run.stderr);
        let document = run.json();
        let table = crate::session::Table::parse(&std::fs::read_to_string(session.path("out.csv")).unwrap());
        (document["log_likelihood"].as_f64().unwrap(), document["approximation"].clone(), table)
    };
    let (exact, approximation, truth) = run("", false);
    assert!(approximation.is_null());
    // Noise enters at grid points and disturbances run straight between them: a hundredth of the standard deviations.
    for (filter, allowed) in
        [("", 0.05), ("filter = \"extended\"", 0.05), ("filter = \"particles\"\nparticles = 8000", 0.6)]
    {
        let (value, approximation, table) = run(filter, true);
        assert!(approximation.as_str().unwrap().contains("filter"));
        assert!((value - exact).abs() < 5.0 * allowed, "{filter}: {value} {exact}");
        for name in ["v", "f", "v.smoothed", "f.smoothed"] {
            let (found, exact) = (table.column(name), truth.column(name));
            let deviation = truth.column(&format!("{name}.std"));
            // Paths of particles have few ancestors far back.
            let allowed = if name.ends_with("smoothed") { 2.0 * allowed } else { allowed };
            for at in (5..60).step_by(9) {
                let difference = (found[at] - exact[at]).abs() / deviation[at];
                assert!(difference < allowed, "{filter} {name} {at}: {} {} {}", found[at], exact[at], deviation[at]);
            }
        }
    }
}

/// Two lags under forces that depend on each other: as one process of two signals, or as independent ones mixed by
/// equations.
fn correlated(is_mixed_by_model: bool, measured: &str, options: &str) -> Session {
    let (inputs, forces, disturbances) = if is_mixed_by_model {
        (
            "input Real v1; input Real v2;",
            "f1 = v1; f2 = r*v1 + 0.6*v2;",
            "v1 = { num = [1], den = [1, 1] }\nv2 = { num = [1], den = [1, 3] }",
        )
    } else {
        (
            "input Real w1; input Real w2;",
            "f1 = w1; f2 = w2;",
            "wind = { signals = [\"w2\", \"w1\"], A = [[-1, 0], [0, -3]], B = [[1, 0], [0, 1]], C = [[\"r\", 0.6], [1, 0]] }",
        )
    };
    let model = format!(
        "model M\n  parameter Real r = 0.8;\n  {inputs}\n  Real f1; Real f2;\n  Real x1(start=0, fixed=true);\n  Real x2(start=0, fixed=true);\n\
         Real y;\nequation\n  {forces}\n  der(x1) = -x1 + f1;\n  der(x2) = -2*x2 + f2;\n  y = x1*x2;\nend M;\n"
    );
    let study = format!(
        "[model]\nfile = \"model.mo\"\n[unknown]\nr = {{ start = 0.8, min = -2, max = 2 }}\n[disturbances]\n{disturbances}\n\
         [measurements]\n{measured}\n[data]\nfile = \"data.csv\"\n[simulate]\nstart = 0.0\n[identify]\n{options}\n"
    );
    let mut data = "t,x1,x2,y\n".to_owned();
    for at in 1..=40 {
        let time = 0.1 * f64::from(at);
        data.push_str(&format!("{time:.1},{},{},0\n", 0.3 * (1.1 * time).sin(), 0.2 * (1.3 * time).sin()));
    }
    Session::new().with("model.mo", &model).with("study.toml", &study).with("data.csv", &data)
}

#[test]
fn a_disturbance_of_several_signals_is_independent_ones_mixed() {
    let measured = "x1 = { std = 0.05 }\nx2 = { std = 0.05 }";
    let identify = |is_mixed_by_model: bool| {
        let session = correlated(is_mixed_by_model, measured, "method = \"ml\"");
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        (document["log_likelihood"].as_f64().unwrap(), document["parameters"][0]["estimate"].as_f64().unwrap())
    };
    let (together, mixed) = (identify(false), identify(true));
    assert!(((together.0 - mixed.0) / mixed.0).abs() < 1e-9, "{together:?} {mixed:?}");
    assert!((together.1 - mixed.1).abs() < 1e-5, "{together:?} {mixed:?}");
    // The mean of the product is the covariance of the two: measured as zero, it makes the cost.
    let cost = |is_mixed_by_model: bool| -> Vec<f64> {
        let options = "method = \"pem\"\nrealizations = 4000\nnoise_step = 0.05";
        let session = correlated(is_mixed_by_model, "y = { std = 1 }", options);
        let run = session.run(&["cost", "study.toml", "--grid", "r=-0.8:0.8:3", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.json()["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
    };
    let (together, mixed) = (cost(false), cost(true));
    for (a, b) in together.iter().zip(&mixed) {
        assert!((a.sqrt() - b.sqrt()).abs() < 0.01, "{together:?} {mixed:?}");
    }
    assert!(together[0].sqrt() > 0.05 && together[1].sqrt() < 0.01 && together[2].sqrt() > 0.05, "{together:?}");
}

#[test]
fn signals_of_a_disturbance_are_checked() {
    let message = |from: &str, to: &str| {
        let session = correlated(false, "x1 = { std = 0.05 }", "");
        let text = std::fs::read_to_string(session.path("study.toml")).unwrap().replace(from, to);
        let run = session.with("study.toml", &text).run(&["identify", "study.toml"]);
        assert_eq!(run.status, 1, "{to}");
        run.stderr
    };
    let rows = message("[\"w2\", \"w1\"]", "[\"w2\"]");
    assert!(rows.contains("`C` must have one row, one for each signal; it has 2"), "{rows}");
    assert!(rows.contains("study.toml:6:"), "{rows}");
    let twice = message("[\"w2\", \"w1\"]", "[\"w2\", \"w2\"]");
    assert!(twice.contains("names `w2` twice"), "{twice}");
    let unknown = message("[\"w2\", \"w1\"]", "[\"w2\", \"w3\"]");
    assert!(unknown.contains("`w3`"), "{unknown}");
    let shared = message("[measurements]", "w1 = { white = 1 }\n[measurements]");
    assert!(shared.contains("`w1` belongs to the disturbances `wind` and `w1`"), "{shared}");
}

/// A model `M` with k = 1, its own simulation as data, and a study that starts the search of k at `guess`.
fn own_data(equations: &str, start: f64, guess: f64) -> Session {
    let model = format!(
        "model M parameter Real k = 1; Real x(start = {start}, fixed = true); {equations}
         annotation(experiment(StopTime = 2, Interval = 0.1, Tolerance = 1e-9)); end M;"
    );
    let session = Session::with_model(&model);
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    let (t, x) = (table.column("t"), table.column("x"));
    let mut data = "t,x\n".to_owned();
    for row in 0..t.len() {
        // Rows at events between are left out; of two rows at a jump the second counts.
        let is_sample = |time: f64| (10.0 * time - (10.0 * time).round()).abs() < 1e-6;
        if is_sample(t[row]) && t.get(row + 1).is_none_or(|next| next - t[row] > 1e-6) {
            data.push_str(&format!("{},{}\n", t[row], x[row]));
        }
    }
    session.with("data.csv", &data).with(
        "study.toml",
        &format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\nk = {{ start = {guess}, min = 0.1, max = 3.0 }}\n\
             [measurements]\nx = {{ column = \"x\", std = 0.01 }}\n[data]\nfile = \"data.csv\"\n"
        ),
    )
}

/// What `simulate` does about relations and times, lanes do too: the parameter comes back from the program's own
/// simulation, or stays where the search begins at it: where relations of states change, the cost has no derivative to
/// follow.
#[test]
fn ensembles_and_filters_agree_with_simulations() {
    for (equations, start, guess) in [
        // Relations of algebraic variables.
        ("Real l; equation l = 2*x; der(x) = k*(if l > 1 then 0.4 else 1);", 0.2, 1.0),
        ("Real e; equation e = x - 0.5; der(x) = -k*(if e > 0 then 1 else x);", 1.0, 1.0),
        // Rates that depend on time alone.
        ("equation der(x) = k*100*cos(100*time);", 0.0, 0.8),
        ("equation der(x) = -0.01*x + k*60*cos(60*time);", 0.0, 0.8),
        // Jumps in time between the points of any grid, on them, and at the start.
        ("equation der(x) = k*floor(3.3*time);", 0.0, 0.8),
        ("equation der(x) = k*sign(1.05 - time);", 0.0, 0.8),
        ("equation der(x) = k*(if sin(30*time) > 0 then 1 else 0);", 0.0, 0.8),
        ("equation der(x) = k*(if time > 1 then -1 else 1);", 0.0, 0.8),
        ("equation der(x) = k*(if time > 0 and time < 0.55 then 1 else 0);", 0.0, 0.8),
        ("Real phase; equation phase = mod(time, 0.37); der(x) = k*(if phase < 0.1 then 2 else -1);", 0.0, 0.8),
    ] {
        let session = own_data(equations, start, guess);
        for method in ["pem", "ml"] {
            let run = session.run(&["identify", "study.toml", "--method", method, "--json"]);
            // A search without a derivative to follow need not say that it has converged.
            assert!(run.status == 0 || guess == 1.0, "{method}, {equations}: {}", run.stderr);
            let estimate = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
            assert!((estimate - 1.0).abs() < 2e-3, "{method}, {equations}: k = {estimate}");
        }
    }
}

/// The mean of nearly equal samples is the trajectory itself, also where rates depend on time alone.
#[test]
fn samples_in_lanes_agree_with_a_simulation() {
    for equation in ["k*1000*cos(1000*time)", "k*sign(1.05 - time)", "k*abs(sin(40*time))", "k*min(time, 0.3)"] {
        let session = Session::with_model(&format!(
            "model M parameter Real k = 1; Real x(start = 0, fixed = true); equation der(x) = {equation};
             annotation(experiment(StopTime = 2, Tolerance = 1e-8)); end M;"
        ))
        .with(
            "study.toml",
            "[model]\nfile = \"model.mo\"\n[random]\nk = { uniform = { min = 1, max = 1.0000001 } }\n\
             [simulate]\nstop = 2\nstep = 0.25\nrtol = 1e-8\n[uq]\nmethod = \"monte-carlo\"\nsamples = 8\n",
        );
        let run = session.run(&["uq", "study.toml", "-o", "out.csv"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let alone = session.run(&["simulate", "model.mo"]);
        assert_eq!(alone.status, 0, "{}", alone.stderr);
        let expected = *alone.table().column("x").last().unwrap();
        let text = std::fs::read_to_string(session.path("out.csv")).unwrap();
        let mut lines = text.lines();
        let column = lines.next().unwrap().split(',').position(|name| name == "x.mean");
        let last: Vec<&str> = lines.next_back().unwrap().split(',').collect();
        let mean: f64 = last[column.expect("the mean of x has a column")].parse().unwrap();
        assert!((mean - expected).abs() < 2e-5, "{equation}: {mean} instead of {expected}");
    }
}

#[test]
fn the_default_for_disturbed_nonlinear_models_finds_the_truth_and_its_saved_study_applies_elsewhere() {
    // A tank that empties through a hole, with a disturbed inflow: height and flow are not proportional.
    let model = "model Tank parameter Real a = 1; input Real q; input Real w; Real h(start = 1, fixed = true); equation \
                 der(h) = q + w - a*sqrt(max(h, 1e-6)); end Tank;";
    let (truth, sigma, std) = (1.2, 0.3, 0.01);
    let record = |seed: u64| {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut normal = || (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos();
        let (mut h, mut w, fine) = (1.0f64, sigma / 2f64.sqrt() * normal(), 0.002);
        let mut text = "t,q,h\n".to_owned();
        for at in 0..200 {
            let q = if (at / 25) % 2 == 0 { 1.5 } else { 1.0 };
            text.push_str(&format!("{},{q},{}\n", 0.1 * f64::from(at), h + std * normal()));
            for _ in 0..50 {
                h += fine * (q + w - truth * h.max(1e-6).sqrt());
                w += -w * fine + sigma * fine.sqrt() * normal();
            }
        }
        text
    };
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\na = { start = 0.8, min = 0.1, max = 5.0 }\nsigma = { start = \
                 0.1, min = 0.0 }\n[inputs]\nq = { column = \"q\", hold = \"zoh\" }\n[disturbances]\nw = { A = [[-1]], B = \
                 [[1]], C = [[\"sigma\"]] }\n[measurements]\nh = { column = \"h\", std = 0.01 }\n[data]\nfile = \
                 \"data.csv\"\n[identify]\nnoise_step = 0.05\n";
    let session =
        Session::with_model(model).with("study.toml", study).with("data.csv", &record(1)).with("other.csv", &record(2));
    let run = session.run(&["identify", "study.toml", "--json", "--save", "saved.toml"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    assert_eq!(document["method"], "ml");
    assert!(document["method_reason"].as_str().unwrap().contains("disturbance `w`"), "{document}");
    for (at, value) in [truth, sigma].into_iter().enumerate() {
        let parameter = &document["parameters"][at];
        let number = |key: &str| parameter[key].as_f64().unwrap();
        assert!((number("estimate") - value).abs() < 4.0 * number("std_error"), "{parameter}");
        assert!(number("robust_std_error") < 2.0 * number("std_error"), "{parameter}");
        assert!((document["covariance"][at][at].as_f64().unwrap().sqrt() / number("std_error") - 1.0).abs() < 1e-9);
        assert!((document["correlation"][at][at].as_f64().unwrap() - 1.0).abs() < 1e-12);
    }
    // Only what moves the model is saved as random; the method is.
    let saved = std::fs::read_to_string(session.path("saved.toml")).unwrap();
    assert!(saved.contains("[random.joint]\nnames = [\"a\"]") && saved.contains("method = \"ml\""), "{saved}");
    let applied = session.run(&["identify", "saved.toml", "--data", "other.csv", "--json"]);
    assert_eq!(applied.status, 0, "{}", applied.stderr);
    let applied = applied.json();
    assert!(applied["residuals"]["h"]["whiteness_p"].as_f64().unwrap() > 1e-4, "{applied}");
    assert_eq!(applied["parameters"].as_array().unwrap().len(), 0);
    for method in ["pem", "output-error"] {
        let run = session.run(&["identify", "saved.toml", "--data", "other.csv", "--json", "--method", method]);
        assert_eq!(run.status, 0, "{method}: {}", run.stderr);
    }
    // Without a disturbance, nothing but errors of measurement is random.
    let plain = study.replace("sigma = { start = 0.1, min = 0.0 }\n", "").replace("\"sigma\"", "0.0");
    let plain = plain.replace("[disturbances]\nw = { A = [[-1]], B = [[1]], C = [[0.0]] }\n", "");
    let session = Session::with_model(model).with("study.toml", &plain).with("data.csv", &record(1));
    let document = session.run(&["identify", "study.toml", "--json"]).json();
    assert_eq!(document["method"], "output-error");
    let unknown = plain
        .replace("std = 0.01", "std = \"s\"")
        .replace("[unknown]\n", "[unknown]\ns = { start = 0.1, min = 0.0 }\n");
    let session = Session::with_model(model).with("study.toml", &unknown).with("data.csv", &record(1));
    let document = session.run(&["identify", "study.toml", "--json"]).json();
    assert_eq!(document["method"], "ml");
    assert!(document["method_reason"].as_str().unwrap().contains("accuracy of `h`"));
}

/// Two tanks with a disturbed inflow: the size of the disturbance is unknown too, and the opening is found within its
/// error. Errors that leave the disturbance out would be a tenth of that.
#[test]
fn an_opening_is_found_beside_a_disturbance_of_unknown_size() {
    let mut state = 12_345u64;
    let mut normal = || {
        let uniform = (0..12).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        });
        uniform.sum::<f64>() - 6.0
    };
    let (opening, size, area) = (1.3e-4, 2e-5, 0.0154);
    let (mut upper, mut lower, mut wave) = (0.2f64, 0.15f64, 0.0f64);
    let mut record = "t,q,h2\n".to_owned();
    for k in 0..300 {
        let inflow = if (k / 60) % 2 == 0 { 6e-5 } else { 9e-5 };
        record.push_str(&format!("{k},{inflow},{}\n", lower + 0.001 * normal()));
        for _ in 0..20 {
            let step = 0.05;
            wave += -wave / 20.0 * step + (0.1 * step).sqrt() * normal();
            let (between, out) = (opening * (19.62 * upper).sqrt(), 1.1e-4 * (19.62 * lower).sqrt());
            upper += step / area * (inflow + size * wave - between);
            lower += step / area * (between - out);
        }
    }
    let model = "model Tanks parameter Real a1 = 1e-4; parameter Real a2 = 1.1e-4; parameter Real A = 0.0154;
        input Real q, w; Real h1(start = 0.2, fixed = true), h2(start = 0.15, fixed = true);
        equation A*der(h1) = q + w - a1*sqrt(19.62*h1); A*der(h2) = a1*sqrt(19.62*h1) - a2*sqrt(19.62*h2); end Tanks;";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\na1 = { start = 1.1e-4, min = 1e-5 }\n\
                 sigma = { start = 1e-5, min = 0.0 }\n[inputs]\nq = { column = \"q\", hold = \"zoh\" }\n[disturbances]\n\
                 w = { A = [[-0.05]], B = [[0.31622776601683794]], C = [[\"sigma\"]] }\n[measurements]\n\
                 h2 = { column = \"h2\", std = 0.001 }\n[data]\nfile = \"record.csv\"\n";
    let session = Session::with_model(model).with("study.toml", study).with("record.csv", &record);
    let run = session.run(&["identify", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    for (at, truth, largest) in [(0, opening, 3e-6), (1, size, 6e-6)] {
        let [found, error] =
            ["estimate", "std_error"].map(|key| document["parameters"][at][key].as_f64().unwrap_or(f64::NAN));
        assert!((found - truth).abs() < 3.0 * error && error < largest, "{found} +- {error} at {truth}");
    }
}
