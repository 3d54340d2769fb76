//! `daesy uq`: series in random parameters against closed forms, the conditions of the theorems, start values, bad
//! input.

use std::path::Path;

use serde_json::Value;

use crate::session::{Run, Session, Table, codes};

/// Runs a study of the repository's problems.
fn problem(name: &str, study: &str, arguments: &[&str]) -> Run {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems").join(name);
    let path = folder.join(study);
    let mut all = vec!["uq", path.to_str().unwrap()];
    all.extend(arguments);
    Session::new().run(&all)
}

fn number(value: &Value, path: &[&str]) -> f64 {
    let found = path.iter().fold(value, |value, key| &value[*key]);
    found.as_f64().unwrap_or_else(|| panic!("{path:?} is {found} in {value}"))
}

fn close(found: f64, expected: f64, relative: f64) {
    assert!((found - expected).abs() <= relative * expected.abs().max(1e-300), "{found} instead of {expected}");
}

/// A study of matrices with one random parameter p and the input u = sin(t).
fn linear(e: &str, f: &str, g: &str, random: &str, uq: &str) -> String {
    format!(
        "[linear]\nE = {e}\nF = {f}\nG = {g}\n[parameters]\np = 0.5\n[inputs]\nu1 = {{ expression = \"sin(time)\" }}\n\
         [random]\np = {random}\n[simulate]\nstop = 1\nstep = 0.25\nrtol = 1e-9\natol = 1e-12\n[uq]\n{uq}\n"
    )
}

const UNIFORM: &str = "{ uniform = { min = 0.2, max = 0.8 } }";
const AROUND_ZERO: &str = "{ uniform = { min = -1, max = 1 } }";
const GALERKIN: &str = "method = \"galerkin\"\ndegree = 4";

struct Answer {
    document: Value,
    table: Table,
}

/// Runs a study; the document and the table.
fn ask(study: &str) -> Answer {
    let session = Session::new().with("study.toml", study);
    let run = session.run(&["uq", "study.toml", "--json", "-o", "out.csv"]);
    assert_eq!(run.status, 0, "{}\n{}", run.stderr, study);
    let table = std::fs::read_to_string(session.path("out.csv")).unwrap();
    Answer { document: run.json(), table: Table::parse_sparse(&table) }
}

impl Answer {
    fn last(&self, column: &str) -> f64 {
        let at = self.table.names.iter().position(|name| name == column).unwrap_or_else(|| panic!("no {column}"));
        self.table.rows.last().unwrap()[at]
    }

    fn holds(&self, theorem: u64) -> bool {
        let conditions = self.document["index"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|condition| condition["theorem"] == theorem);
        found.unwrap_or_else(|| panic!("no theorem {theorem} in {conditions:?}"))["holds"].as_bool().unwrap()
    }

    fn index(&self) -> (u64, u64) {
        let index = &self.document["index"];
        (index["original"].as_u64().unwrap(), index["expanded"].as_u64().unwrap())
    }
}

#[test]
fn the_ishigami_function_has_its_closed_form() {
    let document = problem("ishigami", "study.toml", &["--json"]).json();
    close(number(&document, &["final", "y", "mean"]), 3.5, 1e-8);
    close(number(&document, &["final", "y", "std"]).powi(2), 13.844_587_940_719_254, 1e-7);
    let sobol = &document["sobol"]["y"];
    let expected = [
        ("X1", 0.313_905_191_147_811_46, 0.557_588_855_209_959_2),
        ("X2", 0.442_411_144_790_040_9, 0.442_411_144_790_040_9),
        ("X3", 0.0, 0.243_683_664_062_147_7),
    ];
    for (name, first, total) in expected {
        assert!((number(sobol, &[name, "first"]) - first).abs() < 1e-7, "{sobol}");
        assert!((number(sobol, &[name, "total"]) - total).abs() < 1e-7, "{sobol}");
    }
}

#[test]
fn the_borehole_has_the_moments_of_dense_quadrature() {
    let document = problem("borehole", "study.toml", &["--json"]).json();
    close(number(&document, &["final", "Q", "mean"]), 73.738_936_470, 1e-5);
    close(number(&document, &["final", "Q", "std"]).powi(2), 817.722_662_43, 1e-3);
    let sobol = &document["sobol"]["Q"];
    let expected =
        [("rw", 0.663_706_57, 0.694_129), ("Hu", 0.094_879_62, 0.106_119_96), ("L", 0.090_648_65, 0.102_788_23)];
    for (name, first, total) in expected {
        assert!((number(sobol, &[name, "first"]) - first).abs() < 2e-4, "{sobol}");
        assert!((number(sobol, &[name, "total"]) - total).abs() < 2e-4, "{sobol}");
    }
}

#[test]
fn random_start_and_rate_of_a_decay() {
    let session = Session::new();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/random_decay/study.toml");
    let run = session.run(&["uq", path.to_str().unwrap(), "--json", "-o", "out.csv"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.json()["method"], "galerkin");
    let table = Table::parse_sparse(&std::fs::read_to_string(session.path("out.csv")).unwrap());
    let column = |name: &str| table.names.iter().position(|known| known == name).unwrap();
    let (mean, std) = (column("u.mean"), column("u.std"));
    for row in &table.rows[1..] {
        let t = row[0];
        let exact = 1.5 * ((-0.1 * t).exp() - (-0.2 * t).exp()) / (0.1 * t);
        let second = (2.25 + 0.04) * ((-0.2 * t).exp() - (-0.4 * t).exp()) / (0.2 * t);
        close(row[mean], exact, 1e-7);
        close(row[std].powi(2), second - exact * exact, 1e-5);
    }
}

#[test]
fn a_voltage_divider_by_every_method() {
    let text = problem("voltage_divider", "study.toml", &["--json"]).json();
    close(number(&text, &["final", "v", "mean"]), 6.664_191_472_885_078, 1e-9);
    close(number(&text, &["final", "v", "std"]).powi(2), 0.033_025_861_043_802_15, 1e-7);
    let model = "model D parameter Real R1 = 1000; parameter Real R2 = 2000; Real i; Real v; equation i = (10 - v)/R1; v = R2*i; end D;";
    for (method, tolerance) in [("collocation", 1e-9), ("quasi-monte-carlo", 1e-3), ("monte-carlo", 0.02)] {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[random]\nR1 = {{ uniform = {{ min = 900, max = 1100 }} }}\n\
             R2 = {{ uniform = {{ mean = 2000, relative = 0.1 }} }}\n[simulate]\nstop = 0\n[uq]\nmethod = \"{method}\"\ndegree = 6\nsamples = 2000\n"
        );
        let session = Session::with_model(model).with("study.toml", &study);
        let found = session.run(&["uq", "study.toml", "--json", "--seed", "5"]).json();
        close(number(&found, &["final", "v", "mean"]), 6.664_191_472_885_078, tolerance);
        close(number(&found, &["final", "v", "std"]), 0.033_025_861_043_802_15f64.sqrt(), 3.0 * tolerance);
        close(number(&found, &["sobol", "v", "R1", "first"]), 0.5, 0.05);
    }
}

#[test]
fn random_right_hand_side_at_index_three() {
    // z1 = z2', z2 = z3', 0 = z3 + p u: all follow from the input, z1 = p sin t.
    let study =
        linear("[[0,1,0],[0,0,1],[0,0,0]]", "[[1,0,0],[0,1,0],[0,0,1]]", "[[0],[0],[\"p\"]]", UNIFORM, GALERKIN);
    let found = ask(&study);
    assert_eq!(found.index(), (3, 3));
    assert!(found.holds(1));
    close(found.last("z1.mean"), 0.5 * 1f64.sin(), 1e-9);
    close(found.last("z1.std"), 0.6 / 12f64.sqrt() * 1f64.sin(), 1e-9);
    close(found.last("z2.mean"), -0.5 * 1f64.cos(), 1e-9);
    // Random algebraic values at the start: (x_0, 0, ..) cannot be consistent.
    assert_eq!(found.document["initial_consistent"], false);
}

#[test]
fn random_matrix_of_derivatives_at_index_one() {
    // (1 + p) z1' = -z1 + z2, 0 = z2 - u: conditions (24) and (28) hold.
    let study = linear("[[\"1+p\",0],[0,0]]", "[[-1,1],[0,1]]", "[[0],[-1]]", UNIFORM, GALERKIN);
    let galerkin = ask(&study);
    assert_eq!(galerkin.index(), (1, 1));
    assert!(galerkin.holds(2) && galerkin.holds(3), "{}", galerkin.document["index"]);
    assert_eq!(galerkin.document["initial_consistent"], true);
    let collocation = ask(&study.replace("galerkin", "collocation").replace("degree = 4", "degree = 8"));
    close(galerkin.last("z1.mean"), collocation.last("z1.mean"), 1e-7);
    close(galerkin.last("z1.std"), collocation.last("z1.std"), 1e-5);
    assert!(galerkin.last("z2.std").abs() < 1e-12);
    close(galerkin.last("z1.q05"), collocation.last("z1.q05"), 1e-4);
}

#[test]
fn a_violated_condition_may_leave_the_index() {
    // z1' + p z2' = -z1, 0 = z2 - u: kern(A_0) is not in kern(A_1), yet the index is 1 for every p.
    let study = linear("[[1,\"p\"],[0,0]]", "[[-1,0],[0,1]]", "[[0],[-1]]", AROUND_ZERO, GALERKIN);
    let found = ask(&study);
    assert_eq!(found.index(), (1, 1));
    assert!(!found.holds(2) && !found.holds(3));
    assert_eq!(found.document["index"]["inherited"], true);
    let witness = found.document["index"]["conditions"][0]["witness"].as_str().unwrap();
    assert!(witness.contains("`p`") && witness.contains("z2"), "{witness}");
    let collocation = ask(&study.replace("galerkin", "collocation"));
    close(found.last("z1.std"), collocation.last("z1.std"), 1e-6);
}

#[test]
fn a_violated_condition_may_change_the_index() {
    // z2' = z1, p z2' = z2 - u: index 2 at the mean p = 0, index 1 elsewhere. The polynomials of degree 0 and 1 see no
    // p = 0.
    let uq = "method = \"galerkin\"\ndegree = 1\nvalidation = 0";
    let random = "{ uniform = { min = -1, max = 1 } }";
    let study = linear("[[0,1],[0,\"p\"]]", "[[1,0],[0,1]]", "[[0],[-1]]", random, uq).replace("p = 0.5", "p = 0");
    let session = Session::new().with("study.toml", &study);
    let run = session.run(&["uq", "study.toml", "--json"]);
    let document = run.json();
    assert_eq!(document["index"]["original"], 2, "{document}");
    assert_eq!(document["index"]["expanded"], 1, "{document}");
    assert_eq!(document["index"]["inherited"], false);
    assert_eq!(document["index"]["conditions"][0]["holds"], false);
    let findings = document["findings"].as_array().unwrap();
    let warning = findings.iter().find(|finding| finding["code"] == "index-changed").unwrap();
    assert_eq!(warning["level"], "warning");
}

#[test]
fn random_second_matrix_at_index_two() {
    // z2' = z1 + p z2, 0 = z2 - u: z1 = cos t - p sin t. kern(A) in kern(B_1): condition (33) holds.
    let study = linear("[[0,1],[0,0]]", "[[1,\"p\"],[0,1]]", "[[0],[-1]]", UNIFORM, GALERKIN);
    let found = ask(&study);
    assert_eq!(found.index(), (2, 2));
    assert!(found.holds(4));
    close(found.last("z1.mean"), 1f64.cos() - 0.5 * 1f64.sin(), 1e-9);
    close(found.last("z1.std"), 0.6 / 12f64.sqrt() * 1f64.sin(), 1e-8);
    // z2' = (1 + p) z1: the condition is violated, the index stays; E 1/(1 + p) = ln(1.8/1.2)/0.6.
    let study =
        linear("[[0,1],[0,0]]", "[[\"1+p\",0],[0,1]]", "[[0],[-1]]", UNIFORM, "method = \"galerkin\"\ndegree = 9");
    let found = ask(&study);
    assert_eq!(found.index(), (2, 2));
    assert!(!found.holds(4));
    close(found.last("z1.mean"), 1f64.cos() * (1.8f64 / 1.2).ln() / 0.6, 1e-8);
}

#[test]
fn random_everything_at_once() {
    let study = linear(
        "[[\"1+p\",0,0],[0,\"exp(p)\",0],[0,0,0]]",
        "[[\"-p\",1,0],[0,-1,\"p^2\"],[1,0,\"-1-p\"]]",
        "[[0],[\"p\"],[\"sin(p)\"]]",
        "{ normal = { mean = 0.4, std = 0.1, min = 0.1, max = 0.9 } }",
        "method = \"galerkin\"\ndegree = 6",
    );
    let galerkin = ask(&study);
    assert_eq!(galerkin.index(), (1, 1));
    let collocation = ask(&study.replace("galerkin", "collocation").replace("degree = 6", "degree = 10"));
    for name in ["z1", "z2", "z3"] {
        close(galerkin.last(&format!("{name}.mean")), collocation.last(&format!("{name}.mean")), 1e-6);
        close(galerkin.last(&format!("{name}.std")), collocation.last(&format!("{name}.std")), 1e-4);
    }
}

#[test]
fn a_ramp_starts_from_the_mean_and_is_told() {
    let uq = "method = \"galerkin\"\ndegree = 3\ninitial = \"ramp\"\nramp = 0.25";
    let study = linear("[[1,0],[0,0]]", "[[-1,1],[0,1]]", "[[0],[\"-p\"]]", UNIFORM, uq);
    let found = ask(&study);
    let column = |name: &str| found.table.names.iter().position(|known| known == name).unwrap();
    assert_eq!(found.table.rows[0][column("z2.std")], 0.0);
    close(found.last("z2.std"), 0.6 / 12f64.sqrt() * 1f64.sin(), 1e-8);
    assert!(found.document["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == "ramp-start"));
}

#[test]
fn nonlinear_models_by_quadrature_agree_with_collocation() {
    let model = "model N parameter Real k = 1; Real x(start = 1, fixed = true); Real y; equation der(x) = -k*x^2; y = x^3; end N;";
    let study = |method: &str, degree: usize| {
        format!(
            "[model]\nfile = \"model.mo\"\n[random]\nk = {{ gamma = {{ shape = 40, scale = 0.025 }} }}\n\
             [simulate]\nstop = 1\nstep = 0.5\nrtol = 1e-9\natol = 1e-12\n[uq]\nmethod = \"{method}\"\ndegree = {degree}\n"
        )
    };
    let run = |text: String| {
        let session = Session::with_model(model).with("study.toml", &text);
        let run = session.run(&["uq", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.json()
    };
    let (galerkin, collocation) = (run(study("galerkin", 4)), run(study("collocation", 12)));
    for name in ["x", "y"] {
        close(number(&galerkin, &["final", name, "mean"]), number(&collocation, &["final", name, "mean"]), 1e-6);
        close(number(&galerkin, &["final", name, "std"]), number(&collocation, &["final", name, "std"]), 1e-4);
    }
    // The choice is the program's: collocation, and why.
    let chosen = run(study("auto", 4));
    assert_eq!(chosen["method"], "collocation");
    assert!(chosen["reason"].as_str().unwrap().contains("not linear"));
}

#[test]
fn the_amplifier_of_the_paper() {
    // As matrices: conditions (27) and (30) hold, the index is 1, (x_0, 0, ..) is consistent; degree 2 is good to 1 %.
    let quick = |text: String| text.replace("stop = 0.2", "stop = 0.02");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/amplifier");
    let matrices = ask(&quick(std::fs::read_to_string(folder.join("paper.toml")).unwrap()));
    assert_eq!(matrices.index(), (1, 1));
    assert!(matrices.holds(2) && matrices.holds(3), "{}", matrices.document["index"]);
    assert_eq!(matrices.document["initial_consistent"], true);
    // By components of its own, and nonlinear.
    for (file, model) in [("figure_2.toml", "linear.mo"), ("figure_6.toml", "model.mo")] {
        let study = quick(std::fs::read_to_string(folder.join(file)).unwrap());
        let text = std::fs::read_to_string(folder.join(model)).unwrap();
        let run = |study: &str| {
            let session = Session::new().with(model, &text).with("study.toml", study);
            let run = session.run(&["uq", "study.toml", "--json"]);
            assert_eq!(run.status, 0, "{}", run.stderr);
            run.json()
        };
        let degree_2 = run(&study);
        let dense = run(&study.replace("\"galerkin\"", "\"collocation\"").replace("degree = 2", "degree = 9"));
        for name in ["U2", "U3", "U5"] {
            close(number(&degree_2, &["final", name, "mean"]), number(&dense, &["final", name, "mean"]), 1e-2);
            close(number(&degree_2, &["final", name, "std"]), number(&dense, &["final", name, "std"]), 1e-2);
        }
    }
}

#[test]
fn a_mean_that_is_zero_but_for_rounding_is_zero_to_the_theorems() {
    // E = diag(1, p - 1) with p around 1: at the mean the second equation is algebraic, and p acts on its direction.
    for (around, factor, width) in
        [("1", "", 0.5), ("0.1", " / 3", 0.5), ("0.7", " * 1e5", 0.5), ("0.7", " * 5e6", 1e-7)]
    {
        let e = format!("[[1, 0], [0, \"(p - {around}){factor}\"]]");
        let center: f64 = around.parse().unwrap();
        let random = format!("{{ uniform = {{ min = {}, max = {} }} }}", center - width, center + width);
        let study = linear(&e, "[[-1, 1], [1, -2]]", "[[1], [0]]", &random, "method = \"galerkin\"\ndegree = 3");
        let answer = ask(&study.replace("p = 0.5", &format!("p = {around}")));
        assert!(!answer.holds(2) && !answer.holds(3), "{}", answer.document["index"]);
    }
}

#[test]
fn derivatives_of_known_functions_are_reported_by_an_expansion() {
    let model = "model A parameter Real k = 1; Real x = time; Real z = k*der(x^3); end A;";
    let study = "[model]\nfile = \"model.mo\"\n[random]\nk = { uniform = { min = 1, max = 1.2 } }\n\
                 [simulate]\nstop = 2\nstep = 1\n[uq]\nmethod = \"galerkin\"\ndegree = 2\n";
    let session = Session::with_model(model).with("study.toml", study);
    let run = session.run(&["uq", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    close(number(&document, &["final", "der(x)", "mean"]), 1.0, 1e-9);
    close(number(&document, &["final", "z", "mean"]), 1.1 * 12.0, 1e-9);
    assert!(number(&document, &["final", "der(x)", "std"]).abs() < 1e-9);
}

#[test]
fn sobol_indices_of_samples_do_not_depend_on_the_tail_that_no_sample_meets() {
    // sqrt(k) c with k of a gamma distribution of shape 3/2 and scale 1/2: the total index of k is 0.69836.
    let model = "model A parameter Real k = 1; parameter Real c = 1; Real y = sqrt(k)*c*(1 + 0*time); end A;";
    for method in ["quasi-monte-carlo", "monte-carlo"] {
        for degree in [3, 8] {
            let study = format!(
                "[model]\nfile = \"model.mo\"\n[random]\nk = {{ gamma = {{ shape = 1.5, scale = 0.5 }} }}\n\
                 c = {{ uniform = {{ min = 0.5, max = 1.5 }} }}\n[simulate]\nstop = 1\n[uq]\nmethod = \"{method}\"\n\
                 samples = 4000\ndegree = {degree}\nvalidation = 0\n"
            );
            let run = Session::with_model(model).with("study.toml", &study).run(&["uq", "study.toml", "--json"]);
            assert_eq!(run.status, 0, "{}", run.stderr);
            let total = number(&run.json(), &["sobol", "y", "k", "total"]);
            assert!((total - 0.698_36).abs() < 0.02, "{method} of degree {degree}: {total}");
        }
    }
}

#[test]
fn a_peak_that_few_samples_miss_is_found() {
    // The peak holds 3 % of all cases, the points of the grid and 8 samples of this seed none of them.
    let model = "model A parameter Real k = 0.5; Real x(start = 1, fixed = true), y; equation der(x) = -x; \
                 y = x*(1 + exp(-((k - 0.37)/0.01)^2)); end A;";
    let error = |basis: &str, validation: &str| {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[random]\nk = {{ uniform = {{ min = 0, max = 1 }} }}\n\
             [uq]\nmethod = \"collocation\"\nbasis = \"{basis}\"\ndegree = 2\n{validation}"
        );
        let run = Session::with_model(model).with("study.toml", &study).run(&["uq", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        let is_told = document["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == "uq-error");
        let unseen = number(&document, &["error", "unseen"]);
        let samples = number(&document, &["error", "samples"]);
        assert!(((1.0 - unseen).powf(samples) - 0.05).abs() < 1e-12, "{samples} samples leave {unseen}");
        (is_told, number(&document, &["error", "largest", "y"]), unseen)
    };
    for basis in ["adaptive", "total"] {
        let (is_told, largest, unseen) = error(basis, "");
        assert!(is_told && largest > 1.0 && unseen < 0.011, "{basis}: {is_told}, {largest}, {unseen}");
    }
    let (is_told, largest, unseen) = error("total", "validation = 8\n");
    assert!(!is_told && largest < 0.01 && unseen > 0.3, "{largest}, {unseen}");
}

#[test]
fn a_series_that_is_right_gets_no_warning_where_hardly_anything_varies() {
    let study = |width: &str, degree: u32| {
        format!(
            "[model]\nfile = \"model.mo\"\n[random]\nk = {{ uniform = {{ min = 1, max = {width} }} }}\n\
             [simulate]\nstop = 5\nstep = 0.5\n[uq]\nmethod = \"collocation\"\ndegree = {degree}\n"
        )
    };
    let warned = |model: &str, study: &str| {
        let run = Session::with_model(model).with("study.toml", study).run(&["uq", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.json()["findings"].as_array().unwrap().iter().any(|finding| finding["code"] == "uq-error")
    };
    let decay = "model A parameter Real k = 1; Real x(start = 1, fixed = true), y; \
                 equation der(x) = -x + 1e-7*k*sin(time); y = x - x*x; end A;";
    assert!(!warned(decay, &study("1.0000001", 2)));
    let resonance = "model A parameter Real k = 1; Real x(start = 1, fixed = true), v(start = 0, fixed = true); \
                     equation der(x) = v; der(v) = -k*k*x; end A;";
    assert!(!warned(resonance, &study("1.1", 4)));
    assert!(warned(resonance, &study("9", 2)), "a series of degree 2 cannot follow phases that differ by turns");
}

#[test]
fn products_of_known_variables_keep_the_equation_that_gives_them() {
    let model = "model A parameter Real k = 1; Real a = 1; Real b = 2*time; Real c = a*b; Real d = c*c + b; \
                 Real y = k*d; end A;";
    for method in ["galerkin", "collocation"] {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[random]\nk = {{ uniform = {{ min = 1, max = 2 }} }}\n[simulate]\nstop = 2\n\
             [uq]\nmethod = \"{method}\"\n"
        );
        let run = Session::with_model(model).with("study.toml", &study).run(&["uq", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        close(number(&document, &["final", "c", "mean"]), 4.0, 1e-9);
        close(number(&document, &["final", "d", "mean"]), 20.0, 1e-9);
        close(number(&document, &["final", "y", "mean"]), 30.0, 1e-9);
    }
}

#[test]
fn derivatives_that_the_solution_does_not_hold_are_computed_when_asked_for() {
    // a = c - time, though both equations with der(a) look like differential ones.
    let rewritten = "model P parameter Real p = 1; Real a, b, c(start = 0, fixed = true); equation der(c) = -p*c + time; \
                     der(a) - der(c) = -a - b + c; der(a) - der(c) = -b + time; end P;";
    let algebraic = "model P parameter Real p = 1; Real a = -exp(-time)*(1 + 0*p); end P;";
    for model in [rewritten, algebraic] {
        for method in ["collocation", "galerkin", "monte-carlo"] {
            let study = format!(
                "[model]\nfile = \"model.mo\"\n[random]\np = {{ uniform = {{ min = 0.999999, max = 1.000001 }} }}\n\
                 [simulate]\nstop = 0.2\nstep = 0.1\n[uq]\nmethod = \"{method}\"\nsamples = 40\nvariables = [\"der(a)\"]\n"
            );
            let run = Session::with_model(model).with("study.toml", &study).run(&["uq", "study.toml", "--json"]);
            assert_eq!(run.status, 0, "{}", run.stderr);
            let expected = if model == rewritten { -(-0.2f64).exp() } else { (-0.2f64).exp() };
            close(number(&run.json(), &["final", "der(a)", "mean"]), expected, 1e-5);
        }
    }
    let study = "[model]\nfile = \"model.mo\"\n[random]\np = { uniform = { min = 0.9, max = 1.1 } }\n[uq]\n\
                 variables = [\"der(z)\"]\n";
    let run = Session::with_model(algebraic).with("study.toml", study).run(&["uq", "study.toml"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("no variable `der(z)`"), "{}", run.stderr);
}

#[test]
fn a_ramp_is_compared_with_the_model_on_the_same_ramp() {
    let model = "model R parameter Real p = 1; parameter Real q = 1; Real x(start = 0, fixed = true), y(start = q); \
                 equation der(x) = p - x; der(y) = -q*y + sqrt(p)*x; end R;";
    let study = "[model]\nfile = \"model.mo\"\n[random]\np = { uniform = { min = 1, max = 3 } }\n\
                 q = { normal = { mean = 1, std = 0.1 } }\n[simulate]\nstop = 2\nstep = 0.1\nrtol = 1e-9\natol = 1e-11\n\
                 [uq]\nmethod = \"galerkin\"\ndegree = 4\ninitial = \"ramp\"\nramp = 0.5\n";
    let run = Session::with_model(model).with("study.toml", study).run(&["uq", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    assert!(document["findings"].as_array().unwrap().iter().all(|finding| finding["code"] != "uq-error"));
    assert!(number(&document, &["error", "relative", "x"]) < 1e-6, "{}", document["error"]);
    assert!(number(&document, &["error", "relative", "y"]) < 1e-2, "{}", document["error"]);
}

#[test]
fn results_are_the_same_on_any_number_of_threads_and_after_a_stop() {
    let model = "model D parameter Real a = 1; Real x(start = 1, fixed = true); equation der(x) = -a*x; end D;";
    let study = "[model]\nfile = \"model.mo\"\n[random]\na = { lognormal = { mean = 1, std = 0.3 } }\n[simulate]\nstop = 1\nstep = 0.5\n\
                 [uq]\nmethod = \"monte-carlo\"\nsamples = 200\ndegree = 2\n";
    let session = Session::with_model(model).with("study.toml", study);
    let table = |arguments: &[&str]| {
        let mut all = vec!["uq", "study.toml", "-o", "out.csv", "--seed", "11"];
        all.extend(arguments);
        let run = session.run(&all);
        assert_eq!(run.status, 0, "{}", run.stderr);
        std::fs::read_to_string(session.path("out.csv")).unwrap()
    };
    let one = table(&["--threads", "1"]);
    assert_eq!(one, table(&["--threads", "3"]));
    assert_eq!(one, table(&["--checkpoint", "kept"]));
    // Half of the checkpoint is lost, as if the run had been stopped.
    let kept = std::fs::read_to_string(session.path("kept")).unwrap();
    let half: Vec<&str> = kept.lines().take(100).collect();
    std::fs::write(session.path("kept"), half.join("\n") + "\n").unwrap();
    assert_eq!(one, table(&["--checkpoint", "kept"]));
    let other = session.run(&["uq", "study.toml", "--checkpoint", "kept", "--seed", "12"]);
    assert_eq!(other.status, 1);
    assert!(other.stderr.contains("belongs to another"), "{}", other.stderr);
}

#[test]
fn a_surrogate_is_saved_and_evaluated() {
    let model = "model D parameter Real a = 1; parameter Real b = 2; Real x(start = b, fixed = true); equation der(x) = -a*x; end D;";
    let study = "[model]\nfile = \"model.mo\"\n[random]\na = { uniform = { min = 0.5, max = 1.5 } }\nb = { triangular = { min = 1, mode = 2, max = 4 } }\n\
                 [simulate]\nstop = 1\nstep = 0.5\nrtol = 1e-9\natol = 1e-12\n[uq]\ndegree = 8\n";
    let session = Session::with_model(model).with("study.toml", study);
    let run = session.run(&["uq", "study.toml", "--surrogate", "s.json", "--report", "r.html"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let page = std::fs::read_to_string(session.path("r.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Variances of x") && page.contains("total Sobol index"));
    let table = session.run(&["uq", "s.json", "--set", "a=0.8", "--set", "b=3"]).table();
    let last = table.rows.last().unwrap();
    close(last[1], 3.0 * (-0.8f64).exp(), 1e-6);
    let wrong = session.run(&["uq", "s.json", "--set", "a=3"]);
    assert_eq!(wrong.status, 1);
    assert!(wrong.stderr.contains("outside the support"), "{}", wrong.stderr);
    assert_eq!(session.run(&["uq", "s.json", "--set", "c=3"]).status, 1);
    assert_eq!(session.with("no.json", "{}").run(&["uq", "no.json"]).status, 1);
}

#[test]
fn a_surrogate_of_correlated_parameters_is_asked_by_their_names() {
    let model = "model D parameter Real k = 1, c = 2, b = 1; Real x(start = b, fixed = true); equation der(x) = c - k*x; end D;";
    let study = "[model]\nfile = \"model.mo\"\n[random]\nb = { uniform = { min = 0.5, max = 1.5 } }\n[random.joint]\n\
                 names = [\"k\", \"c\"]\nmean = [1.0, 2.0]\ncovariance = [[0.01, 0.009], [0.009, 0.04]]\n\
                 [simulate]\nstop = 2\nstep = 1\nrtol = 1e-9\natol = 1e-12\n[uq]\ndegree = 7\n";
    let session = Session::with_model(model).with("study.toml", study);
    let run = session.run(&["uq", "study.toml", "--surrogate", "s.json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    // The closed form, with what is not given at its mean.
    for (set, [k, c, b]) in [
        (vec!["k=1.1"], [1.1, 2.0, 1.0]),
        (vec!["c=1.9", "b=0.7", "k=0.9"], [0.9, 1.9, 0.7]),
        (vec![], [1.0, 2.0, 1.0]),
    ] {
        let words = ["uq", "s.json", "--json"].into_iter().chain(set.iter().flat_map(|it| ["--set", it]));
        let document = session.run(&words.collect::<Vec<&str>>()).json();
        close(number(&document, &["parameters", "k"]), k, 1e-12);
        close(number(&document, &["parameters", "c"]), c, 1e-12);
        close(number(&document, &["final", "x"]), c / k + (b - c / k) * (-2.0f64 * k).exp(), 1e-5);
    }
    let wrong = session.run(&["uq", "s.json", "--set", "cc=1"]);
    assert!(wrong.stderr.contains("did you mean `c`?"), "{}", wrong.stderr);
    let wrong = session.run(&["uq", "s.json", "--set", "c=1", "--set", "joint[1]=1"]);
    assert!(wrong.stderr.contains("has no value beside theirs"), "{}", wrong.stderr);

    let exact = study.replace("[0.009, 0.04]", "[0.009, 0.0081]");
    let session = session.with("exact.toml", &exact);
    assert_eq!(session.run(&["uq", "exact.toml", "--surrogate", "e.json"]).status, 0);
    assert_eq!(session.run(&["uq", "e.json", "--set", "k=1.1", "--set", "c=2.09"]).status, 0);
    let wrong = session.run(&["uq", "e.json", "--set", "k=1.1"]);
    assert!(wrong.stderr.contains("follows from the other correlated parameters"), "{}", wrong.stderr);

    let draws = (0..40).fold("k,c\n".to_owned(), |text, at| {
        text + &format!("{},{}\n", 1.0 + 0.01 * f64::from(at % 7), 2.0 + 0.01 * f64::from(at % 11))
    });
    let (head, tail) = study.split_once("mean = ").unwrap();
    let sampled = format!("{head}samples = \"draws.csv\"\n[simulate]{}", tail.split_once("[simulate]").unwrap().1);
    let sampled = sampled.replace("[uq]\ndegree = 7\n", "");
    let wrong = session.with("sampled.toml", &sampled).with("draws.csv", &draws);
    let wrong = wrong.run(&["uq", "sampled.toml", "--surrogate", "d.json"]);
    assert!(wrong.stderr.contains("`draws.csv` has samples of together"), "{}", wrong.stderr);
}

#[test]
fn samples_of_a_file_make_a_distribution() {
    let model = "model D parameter Real a = 1; Real y; equation y = a^2; end D;";
    let values: Vec<f64> = (0..50).map(|k| 1.0 + 0.01 * f64::from(k % 13)).collect();
    let csv = values.iter().fold(String::from("k,a\n"), |text, value| text + &format!("1,{value}\n"));
    let study = "[model]\nfile = \"model.mo\"\n[random]\na = { samples = { file = \"a.csv\", column = \"a\" } }\n[simulate]\nstop = 0\n[uq]\ndegree = 2\n";
    let session = Session::with_model(model).with("study.toml", study).with("a.csv", &csv);
    let document = session.run(&["uq", "study.toml", "--json"]).json();
    let mean = values.iter().map(|value| value * value).sum::<f64>() / 50.0;
    close(number(&document, &["final", "y", "mean"]), mean, 1e-10);
    let variance = values.iter().map(|value| (value * value - mean).powi(2)).sum::<f64>() / 50.0;
    close(number(&document, &["final", "y", "std"]).powi(2), variance, 1e-8);
}

#[test]
fn bad_requests_are_refused_with_place_and_remedy() {
    let model = "model D parameter Real alpha = 1; Real x(start = 1, fixed = true); equation der(x) = -alpha*x; end D;";
    let refused = |random: &str, uq: &str, words: &[&str]| {
        let study = format!("[model]\nfile = \"model.mo\"\n[random]\n{random}\n[uq]\n{uq}\n");
        let session = Session::with_model(model).with("study.toml", &study);
        let run = session.run(&["uq", "study.toml", "-o", "out.csv"]);
        assert_eq!(run.status, 1, "{}", run.stderr);
        assert!(run.stderr.contains("study.toml:"), "{}", run.stderr);
        for word in words {
            assert!(run.stderr.contains(word), "no `{word}` in\n{}", run.stderr);
        }
        assert_eq!(session.files(), ["model.mo", "study.toml"]);
    };
    refused("alpah = { uniform = { min = 0, max = 1 } }", "degree = 2", &["alpah", "alpha"]);
    refused("alpha = { uniform = { min = 2, max = 1 } }", "degree = 2", &["study.toml:4", "support is empty"]);
    refused("alpha = { normal = { mean = 2 } }", "degree = 2", &["`mean` and `std`"]);
    refused("alpha = { triangular = { min = 0, mode = 3, max = 2 } }", "degree = 2", &["mode"]);
    refused("alpha = { uniform = { min = 1, max = 2 } }", "degree = 2\nmehtod = \"auto\"", &["mehtod", "method"]);
    refused("alpha = { uniform = { min = 1, max = 2 } }", "degree = 2\nvariables = [\"y\"]", &["no variable `y`"]);
    let uniform = "alpha = { uniform = { min = 1, max = 2 } }";
    refused(uniform, "method = \"galerkin\"\ndegree = 100000000", &["limit is 200"]);
    for method in ["collocation", "monte-carlo", "quasi-monte-carlo", "auto"] {
        refused(uniform, &format!("method = \"{method}\"\ninitial = \"ramp\""), &["error[ramp]", "galerkin"]);
    }
    refused(uniform, "method = \"monte-carlo\"\nsamples = 100000000", &["would need", "a longer `step`"]);
    let run = Session::with_model(model).run(&["uq", "model.mo"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("[random]"), "{}", run.stderr);
}

#[test]
fn correlated_parameters_have_their_joint_distribution_by_every_method() {
    let model = "model A parameter Real a = 1; parameter Real b = 1; Real x(start = 0, fixed = true); Real y(start = 1, \
                 fixed = true); equation der(x) = a + 2*b; der(y) = -a*y; end A;";
    let (va, vab, vb) = (0.04f64, -0.03f64, 0.09f64);
    for method in ["monte-carlo", "quasi-monte-carlo", "collocation", "galerkin"] {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[random.joint]\nnames = [\"a\", \"b\"]\nmean = [1.0, 2.0]\n\
             covariance = [[{va}, {vab}], [{vab}, {vb}]]\n[simulate]\nstop = 1.0\nstep = 0.5\n[uq]\nmethod = \
             \"{method}\"\nsamples = 2000\n"
        );
        let session = Session::with_model(model).with("study.toml", &study);
        let run = session.run(&["uq", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{method}: {}", run.stderr);
        let document = run.json();
        crate::session::finding(&document, "sobol-joint");
        let last = |name: &str, key: &str| document["final"][name][key].as_f64().unwrap();
        let tolerance = if method.ends_with("monte-carlo") { 0.05 } else { 1e-3 };
        let expected = (va + 4.0 * vab + 4.0 * vb).sqrt();
        assert!((last("x", "std") / expected - 1.0).abs() < tolerance, "{method}: {} {expected}", last("x", "std"));
        assert!((last("x", "mean") - 5.0).abs() < 2.0 * tolerance, "{method}");
        // The mean of exp(-a) is exp(-1 + var a / 2).
        let expected = (-1.0f64 + va / 2.0).exp();
        assert!((last("y", "mean") / expected - 1.0).abs() < tolerance, "{method}: {}", last("y", "mean"));
        assert_eq!(document["sobol"].as_object().map(serde_json::Map::len), Some(0));
    }
    let refused = |covariance: &str| {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[random.joint]\nnames = [\"a\", \"b\"]\nmean = [1.0, 2.0]\ncovariance = \
             {covariance}\n[simulate]\nstop = 1.0\n"
        );
        let run = Session::with_model(model).with("study.toml", &study).run(&["uq", "study.toml", "--json"]);
        assert_eq!(run.status, 1, "{}", run.stdout);
        crate::session::finding(&run.json(), "joint");
    };
    refused("[[1.0, 2.0], [2.0, 1.0]]");
    refused("[[1.0, 0.5], [0.0, 1.0]]");
    refused("[[1.0]]");
}

/// Rates of 1e300 leave nothing to compute: every method says so, and soon.
#[test]
fn numbers_beyond_all_scales_end_an_expansion_soon() {
    let model = "model A parameter Real k = 1; Real x(start = 0, fixed = true); equation der(x) = 2 - k*x; end A;";
    for method in ["galerkin", "collocation", "monte-carlo"] {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[random]\nk = {{ normal = {{ mean = 1e300, std = 1e300 }} }}\n[simulate]\n\
             stop = 1\nstep = 0.1\n[uq]\nmethod = \"{method}\"\nsamples = 10\ndegree = 2\n"
        );
        let run = Session::with_model(model).with("study.toml", &study).run(&["uq", "study.toml", "--json"]);
        assert!(run.status == 1 || run.status == 3, "{method}: {}", run.stdout);
        assert!(!run.json()["findings"].as_array().unwrap().is_empty(), "{method}");
    }
}

/// x' = -a x from b, with normal a and b: the mean is E b exp(-m t + s^2 t^2 / 2). What grows an expansion must end where
/// a fixed one does, also in parameters that have no part.
#[test]
fn an_expansion_that_grows_has_the_moments_of_the_solution() {
    let model = "model A parameter Real a = 1, b = 1, c = 0, d = 1; Real x(start = b, fixed = true); Real y = d*x;
                 equation der(x) = -a*x + c; end A;";
    let normal = |mean: f64, std: f64| format!("{{ normal = {{ mean = {mean}, std = {std} }} }}");
    let two = format!("a = {}\nb = {}\n", normal(1.0, 0.1), normal(2.0, 0.2));
    let four = format!("{two}c = {{ uniform = {{ min = -0.1, max = 0.1 }} }}\nd = {}\n", normal(1.0, 0.05));
    for random in [two, four] {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[random]\n{random}[simulate]\nstop = 2\nstep = 1\nrtol = 1e-9\n[uq]\n\
             method = \"collocation\"\nbasis = \"adaptive\"\n"
        );
        let session = Session::with_model(model).with("study.toml", &study);
        let run = session.run(&["uq", "study.toml", "-o", "o.csv"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = Table::parse(&std::fs::read_to_string(session.path("o.csv")).unwrap());
        let (mean, std) = (table.column("x.mean"), table.column("x.std"));
        for (t, mean) in [0.0f64, 1.0, 2.0].into_iter().zip(mean) {
            let expected = 2.0 * (-t + 0.005 * t * t).exp();
            assert!((mean - expected).abs() < 1e-4 * expected, "E x({t}) = {mean} for {expected}");
        }
        assert!((std[0] - 0.2).abs() < 1e-6, "std of x(0) = {}", std[0]);
    }
}

/// What would be ignored is refused: a value for what is random, and a distribution that depends on what is random.
#[test]
fn values_beside_distributions_are_refused() {
    let model = "model A parameter Real a = 1, b = 1; Real x(start = a*b, fixed = true); equation der(x) = -x; end A;";
    let study = |mean: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[random]\nb = {{ normal = {{ mean = 3, std = 0.1 }} }}\n\
             a = {{ normal = {{ mean = {mean}, std = 0.1 }} }}\n[simulate]\nstop = 1\nstep = 1\n"
        )
    };
    let session = Session::with_model(model).with("study.toml", &study("1")).with("other.toml", &study("\"2*b\""));
    let run = session.run(&["uq", "study.toml", "--set", "a=7"]);
    assert_eq!(run.status, 2, "{}", run.stdout);
    assert!(run.stderr.contains("`a` is random in this study"), "{}", run.stderr);
    let run = session.run(&["uq", "other.toml"]);
    assert_eq!(run.status, 1, "{}", run.stdout);
    assert!(run.stderr.contains("`mean` of `a` depends on `b`, which is random itself"), "{}", run.stderr);
    assert!(run.stderr.contains("other.toml:5"), "{}", run.stderr);
}
/// (1 + 2 k) x' = -x with k uniform in [0.1, 0.5] and 0 in the model: x(1) = exp(-1/(1 + 2 k)). A factor of a derivative
/// that is zero in the model does not shape the equations of a study that varies it; so for unknowns.
#[test]
fn a_factor_of_a_derivative_that_is_zero_in_the_model_may_vary() {
    let model = "model M parameter Real k = 0; Real x(start = 1, fixed = true), y; equation der(x) + k*der(y) = -x;
        y = 2*x; end M;";
    let exact = |k: f64| (-1.0 / (1.0 + 2.0 * k)).exp();
    let n = 2000;
    let mean = (0..n).map(|at| exact(0.1 + 0.4 * (f64::from(at) + 0.5) / f64::from(n))).sum::<f64>() / f64::from(n);
    for method in ["collocation", "galerkin"] {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[random]\nk = {{ uniform = {{ min = 0.1, max = 0.5 }} }}\n\
             [simulate]\nstop = 1\nstep = 0.5\n[uq]\nmethod = \"{method}\"\ndegree = 5\n"
        );
        let session = Session::with_model(model).with("study.toml", &study);
        let run = session.run(&["uq", "study.toml", "-o", "out.csv"]);
        assert_eq!(run.status, 0, "{method}: {}", run.stderr);
        let table = Table::parse_sparse(&std::fs::read_to_string(session.path("out.csv")).unwrap());
        let found = *table.column("x.mean").last().unwrap();
        assert!((found - mean).abs() < 1e-5, "{method}: {found} instead of {mean}");
    }
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 0.1, min = 0.0 }\n[measurements]\n\
                 x = { std = 0.01 }\n[data]\nfile = \"record.csv\"\n";
    let mut record = "t,x\n".to_owned();
    (0..11).map(|at| 0.1 * f64::from(at)).for_each(|t| record.push_str(&format!("{t},{}\n", (-t / 1.6).exp())));
    let session = Session::with_model(model).with("study.toml", study).with("record.csv", &record);
    for method in ["ml", "output-error", "pem"] {
        let run = session.run(&["identify", "study.toml", "--json", "--method", method]);
        assert_eq!(run.status, 0, "{method}: {}", run.stderr);
        let found = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
        assert!((found - 0.3).abs() < 1e-5, "{method}: {found}");
    }
}

/// a b with lognormal a: the variance rests on few samples, and so do shares of it. Uniform parameters have no tails.
#[test]
fn heavy_tails_of_samples_are_told() {
    let model = "model M parameter Real a = 1, b = 1; Real x; equation x = a*b; end M;";
    for (distribution, is_heavy) in
        [("lognormal = { mean = 1, std = 3 }", true), ("uniform = { min = 0.5, max = 1.5 }", false)]
    {
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[random]\na = {{ {distribution} }}\nb = {{ uniform = {{ min = 1, max = 2 }} }}\n\
             [simulate]\nstop = 1\nstep = 1\n[uq]\nmethod = \"quasi-monte-carlo\"\nsamples = 512\n"
        );
        let run = Session::with_model(model).with("study.toml", &study).run(&["uq", "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        let told = document["findings"].as_array().unwrap().iter().find(|told| told["code"] == "heavy-tails").cloned();
        assert_eq!(told.is_some(), is_heavy, "{}", document["findings"]);
        assert!(told.is_none_or(|told| told["level"] == "warning" && told["names"][0] == "x"));
    }
}

/// The mean of a lognormal distribution with a standard deviation of a thousand means lies far beyond the points of a small
/// rule; shapes next to zero leave nothing but a border.
#[test]
fn tails_that_a_rule_does_not_reach_and_shapes_without_a_middle_are_told() {
    let plain = || Session::with_model("model Plain\n  parameter Real a = 1;\n  Real y = a;\nend Plain;\n");
    let study = |distribution: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[random]\na = {distribution}\n[uq]\nmethod = \"collocation\"\ndegree = 2\n"
        )
    };
    let session = plain().with("study.toml", &study("{ lognormal = { mean = 1, std = 1000 } }"));
    let document = session.run(&["uq", "study.toml", "--json"]).json();
    assert!(codes(&document).contains(&"heavy-tails"), "{document}");
    let session = plain().with("study.toml", &study("{ lognormal = { mean = 1, std = 0.3 } }"));
    let document = session.run(&["uq", "study.toml", "--json"]).json();
    assert!(!codes(&document).contains(&"heavy-tails"), "{document}");
    for tiny in
        ["{ gamma = { shape = 1e-300, scale = 1 } }", "{ beta = { alpha = 0.5, beta = 1e-300, min = 0, max = 1 } }"]
    {
        let session = plain().with("study.toml", &study(tiny));
        let run = session.run(&["uq", "study.toml"]);
        assert_eq!(run.status, 1, "{tiny}: {}", run.stderr);
        assert!(run.stderr.contains("is less than 1e-3"), "{tiny}: {}", run.stderr);
    }
}

/// The matrix E has an entry so much larger than all others that rounding decides, at each value of C, which derivatives the
/// equations determine.
#[test]
fn values_at_which_fewer_variables_are_determined_are_refused() {
    let session = Session::new().with(
        "study.toml",
        r#"
[linear]
E = [["-C1", "C1", 0, 0, 0], ["C1", "-C1", 0, 0, 0], [0, 1e9, "-C2", 0, 0], [0, 0, 0, "-C3", "C3"], [0, 0, 0, "C3", "-C3"]]
F = [
  [1e-3, 0, 0, 0, 0],
  [0, 3.4e-4, -1.2e-4, 0, 0],
  [0, -1.2e-2, 1.23e-2, 0, 0],
  [0, 1.2e-2, -1.2e-2, 1.1e-4, 0],
  [0, 0, 0, 0, 1.1e-4],
]
G = [[-1e-3], [0], [0], [0], [0]]
[parameters]
C1 = 1e-6
C2 = 2e-6
C3 = 3e-6
[inputs]
u1 = { expression = "0.4*sin(628*time)" }
[random]
C2 = { uniform = { mean = 2e-6, relative = 0.2 } }
C3 = { uniform = { mean = 3e-6, relative = 0.2 } }
[simulate]
stop = 0.02
step = 0.001
[uq]
method = "galerkin"
degree = 2
"#,
    );
    let run = session.run(&["uq", "study.toml", "--json"]);
    let document = run.json();
    let all = codes(&document);
    assert!(run.status == 0 || all.contains(&"structure-changes"), "{}: {document}", run.status);
    assert!(!all.contains(&"internal-error"), "{document}");
}
