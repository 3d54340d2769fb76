//! Samples of the posterior: against closed forms, and what has no posterior.

use serde_json::Value;

use crate::session::{Session, Table, finding};

/// x' = b - x from rest, so that x = b (1 - e^-t): the unknown enters linearly.
const LAG: &str = "model Lag parameter Real b = 1; parameter Real c = 0; Real x(start = 0, fixed = true);
equation der(x) = b + c - x; end Lag;";

const ERROR: f64 = 0.2;

/// Samples at 0.25, 0.5, .. with errors that are no multiple of each other.
fn samples() -> Vec<[f64; 2]> {
    let sample = |k: u32| {
        let time = 0.25 * f64::from(k);
        [time, 0.6 * (1.0 - (-time).exp()) + ERROR * (1.7 * f64::from(k * k)).sin()]
    };
    (1..=20).map(sample).collect()
}

fn session(unknown: &str) -> Session {
    let mut data = "t,x\n".to_owned();
    for [time, value] in samples() {
        data.push_str(&format!("{time},{value}\n"));
    }
    let study = format!(
        "[model]\nfile = \"model.mo\"\n[unknown]\n{unknown}\n[measurements]\nx = {{ std = {ERROR} }}\n\
         [data]\nfile = \"data.csv\"\n[simulate]\nstart = 0\n"
    );
    Session::with_model(LAG).with("data.csv", &data).with("study.toml", &study)
}

/// The sums of the normal equation for b: precision and precision times mean.
fn normal_equation() -> [f64; 2] {
    samples().into_iter().fold([0.0; 2], |[a, b], [time, value]| {
        let gain = 1.0 - (-time).exp();
        [a + gain * gain / ERROR.powi(2), b + gain * value / ERROR.powi(2)]
    })
}

fn number(posterior: &Value, key: &str, name: &str) -> f64 {
    posterior[key][name].as_f64().unwrap_or_else(|| panic!("{key} {name} in {posterior}"))
}

/// Mean and standard deviation within four Monte Carlo errors.
fn agrees(posterior: &Value, mean: f64, std: f64) {
    let ess = number(posterior, "ess", "b");
    assert!(number(posterior, "rhat", "b") < 1.01 && ess > 400.0, "{posterior}");
    assert_eq!(posterior["divergences"], 0, "{posterior}");
    let found = [number(posterior, "mean", "b"), number(posterior, "std", "b")];
    assert!((found[0] - mean).abs() < 4.0 * std / ess.sqrt(), "{found:?} of {mean}");
    // Squares of normal draws are worth less than the draws.
    assert!((found[1] - std).abs() < 8.0 * std / (2.0 * ess).sqrt(), "{found:?} of {std}");
}

#[test]
fn a_linear_gaussian_posterior_is_the_closed_form() {
    let session = session("b = { start = 1, prior = { normal = { mean = 1, std = 0.1 } } }");
    let arguments = ["identify", "study.toml", "--posterior", "1000", "--posterior-file", "draws.csv", "--json"];
    let run = session.run(&arguments);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let posterior = &document["posterior"];
    let [precision, moment] = normal_equation();
    let precision = precision + 100.0;
    agrees(posterior, (moment + 100.0) / precision, precision.sqrt().recip());
    assert_eq!(
        (&posterior["chains"], &posterior["draws"], &posterior["file"]),
        (&4.into(), &1000.into(), &"draws.csv".into())
    );
    let table = Table::parse(&std::fs::read_to_string(session.path("draws.csv")).unwrap());
    assert_eq!(table.names, ["chain", "draw", "log_density", "b"]);
    assert_eq!(table.rows.len(), 4000);
    let mean = table.column("b").iter().sum::<f64>() / 4000.0;
    assert!((mean - number(posterior, "mean", "b")).abs() < 1e-12);
    // The same bytes on one thread, others with another seed.
    let again = session.run(&[&arguments[..], &["--threads", "1"]].concat());
    assert_eq!(again.json()["posterior"], *posterior);
    let other = session.run(&[&arguments[..], &["--seed", "5"]].concat());
    assert_ne!(other.json()["posterior"]["mean"], posterior["mean"]);
}

#[test]
fn bounds_cut_the_posterior() {
    let session = session("b = { start = 0.4, min = 0.3, max = 0.5 }");
    let run = session.run(&["identify", "study.toml", "--posterior", "1500", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let [precision, moment] = normal_equation();
    let n = 100_000;
    let mut sums = [0.0; 3];
    for k in 0..n {
        let b = 0.3 + 0.2 * (f64::from(k) + 0.5) / f64::from(n);
        let density = (-0.5 * precision * (b - moment / precision).powi(2)).exp();
        sums = [sums[0] + density, sums[1] + b * density, sums[2] + b * b * density];
    }
    let mean = sums[1] / sums[0];
    agrees(&run.json()["posterior"], mean, (sums[2] / sums[0] - mean * mean).sqrt());
}

/// Where nobody names a method, one is taken that has what was asked for: also for a model that is not linear.
#[test]
fn a_posterior_is_drawn_by_a_method_that_has_a_likelihood() {
    let model = "model M parameter Real a = 0.5; Real x(start = 1, fixed = true); equation der(x) = -a*x*x; end M;";
    let rows: Vec<String> =
        (0..15).map(|k| 0.2 * f64::from(k)).map(|t| format!("{t},{}", 1.0 / (1.0 + 0.6 * t))).collect();
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\na = { start = 0.5, min = 0.1, max = 3 }\n[measurements]\n\
                 x = { column = \"x\", std = 0.01 }\n[data]\nfile = \"d.csv\"\n";
    let session = Session::with_model(model).with("study.toml", study);
    let session = session.with("d.csv", &format!("t,x\n{}\n", rows.join("\n")));
    let run = session.run(&["identify", "study.toml", "--posterior", "100", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let posterior = &run.json()["posterior"];
    assert!((number(posterior, "mean", "a") - 0.6).abs() < 0.02, "{posterior}");
}

#[test]
fn what_has_no_posterior_is_refused() {
    let flat = session("b = { start = 1 }\nc = { start = 0 }");
    let run = flat.run(&["identify", "study.toml", "--posterior", "100", "--json"]);
    assert_eq!(run.status, 1, "{}", run.stdout);
    let document = run.json();
    let told = finding(&document, "improper-posterior");
    let mut names: Vec<&str> = told["names"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["b", "c"]);
    // A prior on one of the two makes it proper.
    let held = session("b = { start = 1 }\nc = { start = 0, prior = { normal = { mean = 0, std = 0.1 } } }");
    let run = held.run(&["identify", "study.toml", "--posterior", "500", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let std = number(&run.json()["posterior"], "std", "c");
    assert!((std - 0.1).abs() < 0.02, "{std}");
    let plain = session("b = { start = 1 }");
    let run = plain.run(&["identify", "study.toml", "--method", "pem", "--posterior", "100", "--json"]);
    assert_eq!(run.status, 1);
    finding(&run.json(), "posterior");
    assert_eq!(plain.run(&["identify", "study.toml", "--posterior", "1"]).status, 2);
    assert_eq!(plain.run(&["identify", "study.toml", "--chains", "2"]).status, 2);
}

/// What is to be written is looked at before the work, and what a study could not read is not written.
#[test]
fn outputs_of_no_use_are_refused_beforehand() {
    let session = session("b = { start = 1 }");
    let run = |more: &[&str]| session.run(&[&["identify", "study.toml", "--posterior", "100"], more].concat());
    for (more, status) in [
        (&["--posterior-file", "draws.mat", "--save", "found.toml"][..], 2),
        (&["--posterior-file", "draws.csv", "--save", "elsewhere/found.toml"], 2),
        (&["--posterior-file", "elsewhere/draws.csv"], 1),
        (&["--report", "elsewhere/page.html"], 1),
    ] {
        let refused = run(more);
        assert_eq!(refused.status, status, "{more:?}: {}", refused.stderr);
        assert_eq!(refused.stdout, "", "{more:?}");
    }
    let written = ["draws.mat", "draws.csv", "found.toml"].iter().any(|name| session.path(name).exists());
    assert!(!written);
    assert_eq!(run(&["--posterior-file", "draws.mat"]).status, 0);
}

/// x = c^2 (1 - e^-t) is as well explained by -c. Chains of one mode alone would agree with each other.
#[test]
fn two_modes_are_told() {
    let mut data = "t,x\n".to_owned();
    for [time, value] in samples() {
        data.push_str(&format!("{time},{value}\n"));
    }
    let model = "model Lag parameter Real c = 1; Real x(start = 0, fixed = true); equation der(x) = c^2 - x; end Lag;";
    let study = format!(
        "[model]\nfile = \"model.mo\"\n[unknown]\nc = {{ start = 1 }}\n[measurements]\nx = {{ std = {ERROR} }}\n\
         [data]\nfile = \"data.csv\"\n[simulate]\nstart = 0\n"
    );
    let session = Session::with_model(model).with("data.csv", &data).with("study.toml", &study);
    let run = session.run(&["identify", "study.toml", "--posterior", "300", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let told = finding(&document, "posterior-modes")["message"].as_str().unwrap();
    let [precision, moment] = normal_equation();
    assert!(told.contains(&format!("c = -{:.3}", (moment / precision).sqrt())), "{told}");
    finding(&document, "posterior-chains");
    assert!(number(&document["posterior"], "mean", "c").abs() < 0.4, "{document}");
    let bounded = study.replace("start = 1 }", "start = 1, min = 0 }");
    let session = session.with("study.toml", &bounded);
    let run = session.run(&["identify", "study.toml", "--posterior", "300", "--json"]);
    assert!(!run.stdout.contains("posterior-modes"), "{}", run.stdout);
}

/// Errors that are as small as they are said to be leave nothing for a disturbance: at its size 0 the likelihood has
/// neither slope nor curvature, but it falls away from there.
#[test]
fn a_size_of_noise_that_is_zero_has_a_posterior() {
    let rows: Vec<String> =
        (0..60).map(|k| format!("{},{}", 0.1 * f64::from(k), 0.05 * f64::from(k * k).sin())).collect();
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\ns = { start = 0.2 }\n[measurements]\nx = { std = 0.05 }\n\
                 [disturbances]\nw = { A = [[-2.0]], B = [[1.0]], C = [[\"s\"]] }\n[data]\nfile = \"data.csv\"\n";
    let model = "model M input Real w; Real x(start = 0, fixed = true); equation der(x) = w - x; end M;";
    let session = Session::with_model(model).with("data.csv", &format!("t,x\n{}\n", rows.join("\n")));
    let run = session.with("study.toml", study).run(&["identify", "study.toml", "--posterior", "500", "--json"]);
    let document = run.json();
    let posterior = &document["posterior"];
    assert!(number(posterior, "rhat", "s") < 1.05, "{document}");
    // As likely with either sign.
    let (mean, std) = (number(posterior, "mean", "s"), number(posterior, "std", "s"));
    assert!(mean.abs() < 0.3 * std && std < 2.0, "{mean} {std}");
}

/// Draws of two parameters together: what they make of the model keeps how they go with each other.
#[test]
fn joint_samples_go_on_to_uq_and_estimate() {
    let model = "model Sum parameter Real a = 1, b = 1; Real x(start = 0, fixed = true); Real y;
equation der(x) = a - b; y = a + b; end Sum;";
    let mut draws = "chain,draw,log_density,a,b\n".to_owned();
    for at in 0..200 {
        let value = 1.0 + 0.1 * (f64::from(at) * 2.399).sin();
        draws.push_str(&format!("1,{},0,{value},{value}\n", at + 1));
    }
    let study = "[model]\nfile = \"model.mo\"\n[random.joint]\nnames = [\"a\", \"b\"]\nsamples = \"draws.csv\"\n\
                 [simulate]\nstop = 1\nstep = 0.5\n[uq]\nsamples = 200\n";
    let session = Session::with_model(model).with("draws.csv", &draws).with("study.toml", study);
    let run = session.run(&["uq", "study.toml", "-o", "moments.csv", "--json"]);
    assert_eq!(run.status, 0, "{} {}", run.stderr, run.stdout);
    let document = run.json();
    assert_eq!(document["method"], "monte-carlo");
    let table = Table::parse(&std::fs::read_to_string(session.path("moments.csv")).unwrap());
    let last = |name: &str| *table.column(name).last().unwrap();
    // a - b is zero in every draw; a + b has twice the deviation of a, 0.1 / sqrt 2.
    assert!(last("x.std").abs() < 1e-9, "{:?}", table.names);
    assert!((last("y.std") - 0.2 / 2f64.sqrt()).abs() < 0.003, "{}", last("y.std"));
    for (old, new, code) in [
        ("samples = 200", "method = \"collocation\"", "joint-samples"),
        ("\"b\"]", "\"b\"]\nmean = [1.0, 1.0]", "joint"),
        ("draws.csv", "nothing.csv", "data-file"),
        ("names = [\"a\", \"b\"]", "names = [\"a\", \"x\"]", "wrong-kind"),
    ] {
        let session = Session::with_model(model).with("draws.csv", &draws).with("study.toml", &study.replace(old, new));
        let run = session.run(&["uq", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{new}: {}", run.stdout);
        finding(&run.json(), code);
    }
    // `estimate` at the draws: these have the moments of the covariance below, and so give the same bands.
    let ramp = "model Ramp parameter Real b = 2; Real x(start = 0, fixed = true); equation der(x) = b; end Ramp;";
    let text = |joint: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[measurements]\nx = {{ std = 0.1 }}\n[estimate]\nsignals = [\"x\"]\n\
             [random.joint]\nnames = [\"b\"]\n{joint}\n[data]\nfile = \"record.csv\"\n[simulate]\nstart = 0\n"
        )
    };
    let session = Session::with_model(ramp)
        .with("record.csv", "t,x\n1,2.1\n2,4.2\n")
        .with("two.csv", "b\n1.7\n2.3\n")
        .with("samples.toml", &text("samples = \"two.csv\""))
        .with("normal.toml", &text("mean = [2.0]\ncovariance = [[0.09]]"));
    let tables = ["samples", "normal"].map(|name| {
        let run = session.run(&["estimate", &format!("{name}.toml"), "-o", &format!("{name}.csv")]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        Table::parse(&std::fs::read_to_string(session.path(&format!("{name}.csv"))).unwrap())
    });
    for (a, b) in tables[0].column("x.std").iter().zip(tables[1].column("x.std")) {
        assert!((a - b).abs() < 1e-9 && *a > 0.25, "{a} {b}");
    }
}

/// Of two unknowns that are not negative data know the sum s. With a flat prior it has the density s times that of the
/// likelihood, and each of the two is uniform between 0 and s.
#[test]
fn bounds_on_one_side_close_what_is_flat() {
    let closed = session("b = { start = 1, min = 0 }\nc = { start = 0.5, min = 0 }");
    let run = closed.run(&["identify", "study.toml", "--posterior", "2000", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let [precision, product] = normal_equation();
    let (mean, variance) = (product / precision, 1.0 / precision);
    let expected = 0.5 * (mean + variance / mean);
    let posterior = &run.json()["posterior"];
    for name in ["b", "c"] {
        let (found, ess) = (number(posterior, "mean", name), number(posterior, "ess", name));
        assert!((found - expected).abs() < 5.0 * 0.2 / ess.sqrt(), "{found} instead of {expected}: {posterior}");
    }
    // One may grow without end where the other falls without end, and a product stays as it is along a hyperbola.
    let open = session("b = { start = 1, min = 0 }\nc = { start = -0.5, max = 0 }");
    let bent = session("b = { start = 1, min = 0 }\nc = { start = 0.6, min = 0 }")
        .with("model.mo", &LAG.replace("b + c", "b*c"));
    for refused in [open, bent] {
        let run = refused.run(&["identify", "study.toml", "--posterior", "100", "--json"]);
        assert_eq!(run.status, 1, "{}", run.stdout);
        finding(&run.json(), "improper-posterior");
    }
}

/// More draws than there is time for: those that there are, or a word that there are none.
#[test]
fn a_time_limit_keeps_the_draws_that_there_are() {
    let session = session("b = { start = 1, prior = { normal = { mean = 1, std = 0.1 } } }");
    let run = session.run(&["identify", "study.toml", "--posterior", "1000000", "--time-limit", "6", "--json"]);
    assert_eq!(run.status, 3, "{}", run.stderr);
    let document = run.json();
    finding(&document, "stopped");
    finding(&document, "time-limit");
    if let Some(n_draws) = document["posterior"]["draws"].as_u64() {
        assert!(n_draws > 0 && n_draws < 1_000_000);
        assert!(number(&document["posterior"], "mean", "b").is_finite());
    }
}

#[test]
fn a_prior_whose_density_is_no_number_is_refused() {
    for prior in ["mean = 0, std = 1e-160", "mean = 1e160, std = 1"] {
        let session = session(&format!("b = {{ start = 1, prior = {{ normal = {{ {prior} }} }} }}"));
        let run = session.run(&["identify", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{prior}");
        finding(&run.json(), "prior");
    }
}
