//! Models whose structure misleads, or whose equations degenerate at the start only: what was written holds on the
//! whole run.

#[path = "../../examples/hidden/mod.rs"]
mod hidden;

use crate::session::{Session, Table, codes, finding};
use hidden::{Hidden, Outcome, largest_error, nonlinear, time_varying};

fn simulated(text: &str) -> Table {
    let run = Session::with_model(text).run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.table()
}

fn assert_column(table: &Table, name: &str, exact: impl Fn(f64) -> f64, tolerance: f64) {
    for (t, value) in table.column("t").into_iter().zip(table.column(name)) {
        assert!((value - exact(t)).abs() <= tolerance, "{name}({t}) = {value} instead of {}", exact(t));
    }
}

/// (z1 + z2)' = -(z1 + z2) twice, once multiplied by the time: z1 is the input for all times. At the start the factor
/// is zero.
#[test]
fn a_multiplier_that_is_zero_at_the_start_is_not_dropped() {
    let study = "[linear]
E = [[1, 1], [\"time\", \"time\"]]
F = [[-1, -1], [\"1-time\", \"-time\"]]
G = [[0], [-1]]
[inputs]
u1 = { expression = \"1\" }
[initial]
z2 = 0
[simulate]
stop = 2
step = 0.5
";
    let run = Session::new().with("s.toml", study).run(&["simulate", "s.toml"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_column(&run.table(), "z1", |_| 1.0, 1e-6);
    let by_state = simulated(
        "model M
           Real x(start=1), y(start=0, fixed=true), p(start=0, fixed=true);
         equation
           der(p) = 1;
           der(x) + der(y) = -(x + y);
           p*(der(x) + der(y)) = -p*(x + y) + x - 1;
           annotation (experiment(StopTime=2, Interval=0.5));
         end M;",
    );
    assert_column(&by_state, "x", |_| 1.0, 1e-6);
    assert_column(&by_state, "y", |t| (-t).exp() - 1.0, 1e-5);
}

#[test]
fn an_equation_that_degenerates_at_the_start_is_kept() {
    let table = simulated("model M Real x; equation time*x = time^2; end M;");
    assert_column(&table, "x", |t| t, 1e-6);
    let table = simulated("model M Real x, y; equation x + y = time; x + (1 + time)*y = 3*time; end M;");
    assert_column(&table, "y", |_| 2.0, 1e-6);
    assert_column(&table, "x", |t| t - 2.0, 1e-6);
}

/// x^3 = time has a vertical tangent at the start: solved or refused, but x does not stay at zero.
#[test]
fn a_root_with_a_vertical_tangent_is_not_dropped() {
    let run =
        Session::with_model("model M Real x(start=0); equation x^3 = time; end M;").run(&["simulate", "model.mo"]);
    if run.status == 0 {
        assert!((run.table().column("x").last().unwrap() - 1.0).abs() < 1e-6);
    }
}

/// b = 2 and b = time + 2 agree at the start only.
#[test]
fn equations_that_agree_at_the_start_only_are_a_contradiction() {
    let session = Session::with_model("model M Real a, b; equation b = 2; a = 2*b; b = time + 2; end M;");
    let run = session.run(&["simulate", "model.mo", "--json"]);
    assert_eq!(run.status, 1, "{}", run.stdout);
    let session = Session::with_model(
        "model M
           Real x(start=1, fixed=true), y;
         equation
           der(x) = -x;
           y = 2*x;
           der(x) = -y/2 + sin(time);
         end M;",
    );
    let run = session.run(&["regularize", "model.mo", "--json"]);
    assert_eq!(run.status, 1, "{}", run.stdout);
    finding(&run.json(), "contradicting-equations");
}

/// An equation that says nothing before a switch must not be forgotten after it.
#[test]
fn an_equation_that_is_empty_before_a_switch_is_not_dropped() {
    let session = Session::with_model(
        "model M
           Real i, s, u(start=0, fixed=true);
         equation
           s = if time > 0.5 then 1 else 0;
           s*i = s*(1 - u);
           der(u) = i;
         end M;",
    );
    let run = session.run(&["simulate", "model.mo"]);
    if run.status == 0 {
        let table = run.table();
        for (row, &t) in table.column("t").iter().enumerate().filter(|(_, t)| **t > 0.5) {
            let (i, u) = (table.column("i")[row], table.column("u")[row]);
            assert!((i - (1.0 - u)).abs() < 1e-6, "i({t}) = {i}, u = {u}");
        }
    }
}

fn outcome(hidden: &Hidden) -> Outcome {
    let session = Session::with_model(&hidden.text);
    let run = session.run(&["simulate", "model.mo"]);
    if run.status != 0 {
        return Outcome::Refused(run.stderr);
    }
    let table = run.table();
    let columns: Vec<Vec<f64>> = table.names.iter().map(|name| table.column(name)).collect();
    Outcome::Solved(largest_error(hidden, &table.names, &columns))
}

/// None may be wrong; few may be refused. The example `hidden_structure` runs hundreds.
fn campaign(make: fn(u64) -> Hidden, seeds: std::ops::Range<u64>) {
    let n = seeds.end - seeds.start;
    let mut refused = Vec::new();
    for seed in seeds {
        let hidden = make(seed);
        let what = format!("seed {seed}, index {}, {} unknowns", hidden.index, hidden.n());
        match outcome(&hidden) {
            Outcome::Solved(error) => assert!(error <= 1e-6, "{what}: wrong by {error:.1e}\n{}", hidden.text),
            Outcome::Refused(said) => refused.push(format!("{what}: {said}")),
        }
    }
    assert!(2 * (refused.len() as u64) < n, "{refused:?}");
}

#[test]
fn random_time_varying_models_with_hidden_structure() {
    campaign(time_varying, 1..5);
}

#[test]
fn random_nonlinear_models_with_hidden_structure() {
    campaign(nonlinear, 1..5);
}

/// What is computed without derivatives is a computation; what alone says how a variable moves is not.
#[test]
fn equations_of_motion_are_no_computations() {
    let form = |text: &str| Session::with_model(text).run(&["regularize", "model.mo", "--json"]).json();
    let pushed = form("model M input Real u; Real x(start=0.5), y; equation der(x) = x^2 + y; 0 = u; end M;");
    assert_eq!([&pushed["d"], &pushed["a"]], [1, 1], "{pushed}");
    assert_eq!(pushed["variables"]["inputs"], serde_json::json!(["y"]));
    let hidden =
        form("model M Real x1(start=0.28), x2(start=-0.06); equation der(x1) = 0; x1 + x2*der(x1) = 0; end M;");
    assert_eq!(hidden["kind"], "nonlinear", "{hidden}");
}

#[test]
fn forcing_stays_a_function_of_time() {
    let session =
        Session::with_model("model M Real x(start=1), y; equation der(x) = -x + 3*sin(time); y = x + 2*time; end M;");
    let text = session.run(&["regularize", "model.mo"]).stdout;
    assert!(text.contains("sin(time)") && text.contains("2*time"), "{text}");
}

#[test]
fn ranks_that_change_beside_the_time_are_told() {
    let study = "[linear]
E = [[\"1\", \"0\", \"0\"], [\"0\", \"time\", \"0\"], [\"0\", \"0\", \"0\"]]
F = [[\"0\", \"1\", \"0\"], [\"1\", \"0\", \"1\"], [\"0\", \"1\", \"time\"]]
G = [[\"0\"], [\"0\"], [\"1\"]]
";
    let session = Session::new().with("s.toml", study);
    let at_start = session.run(&["regularize", "s.toml", "--json"]).json();
    assert!(codes(&at_start).contains(&"ranks-change"), "{at_start}");
    let later = session.run(&["regularize", "s.toml", "--time", "0.7", "--json"]).json();
    assert!(!codes(&later).contains(&"ranks-change"), "{later}");
}

#[test]
fn given_inputs_can_contradict_equations() {
    let study = "[linear]
E = [[1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]]
F = [[-1, 0, 0], [0, -2, 1], [-1, -2, 1], [1, 1, 1]]
G = [[0], [0], [1], [0]]
[inputs]
u1 = { expression = \"U\" }
";
    for (value, status) in [("1", 1), ("0", 0)] {
        let session = Session::new().with("s.toml", &study.replace('U', value));
        let run = session.run(&["regularize", "s.toml", "--given-inputs", "--json"]);
        assert_eq!(run.status, status, "u = {value}: {}", run.stdout);
    }
}

#[test]
fn the_chosen_states_make_a_regular_square() {
    let study = "[linear]
E = [[1, 0, 0], [1, -1, 0], [-1, 1, 0]]
F = [[0, 0, 1], [0, -1, 0], [0, 0, 0]]
G = [[0], [0], [1]]
";
    let form = Session::new().with("s.toml", study).run(&["regularize", "s.toml", "--json"]).json();
    assert_eq!(form["variables"]["inputs"], serde_json::json!(["z3"]), "{form}");
    assert!(form["variables"]["states"].as_array().unwrap().contains(&"u1".into()));
}

#[test]
fn feedthrough_keeps_derivatives_of_inputs_and_sees_nonlinear_outputs() {
    let moved = Session::with_model(
        "model M
           input Real u; Real z1, z2; output Real y;
         equation
           der(z1) + der(z2) = -z1 - 2*z2 + 2*u;
           y = z1 + 3*z2 + u;
         end M;",
    );
    let form = moved.run(&["regularize", "model.mo", "--remove-feedthrough", "--json"]).json();
    if form["matrices"].get("E13").is_some() {
        assert!(form["feedthrough"]["matrices"].get("E13").is_some(), "{form}");
    }
    let nonlinear = Session::with_model(
        "model M input Real u; Real x(start=1); output Real y; equation der(x) = -x + u; y = x^2 + u; end M;",
    );
    let run = nonlinear.run(&["regularize", "model.mo", "--remove-feedthrough", "--json"]);
    assert_eq!(run.status, 1, "{}", run.stdout);
    finding(&run.json(), "feedthrough");
}

/// At t = 1 the equations of these models have no value, and a limit: rows exactly there hold it, and say so.
#[test]
fn a_row_where_equations_have_no_value_holds_the_limit() {
    let span = "annotation(experiment(StopTime = 2, Interval = 0.25));";
    let (cos, sinc) = (
        f64::cos as fn(f64) -> f64,
        (|t: f64| if t == 1.0 { 1.0 } else { (t - 1.0).sin() / (t - 1.0) }) as fn(f64) -> f64,
    );
    for (equation, exact) in [
        ("(time - 1)*x = (time - 1)*cos(time)", cos),
        ("(time - 1)^2*x = (time - 1)^2*cos(time)", cos),
        ("x = sin(time - 1)/(time - 1)", sinc),
    ] {
        let model =
            format!("model M Real x, y(start = 0, fixed = true); equation {equation}; der(y) = x; {span} end M;");
        let session = Session::with_model(&model);
        let run = session.run(&["simulate", "model.mo", "--json", "-o", "out.csv"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        let limit = finding(&document, "limit-value");
        assert!(limit["level"] == "note" && limit["message"].as_str().unwrap().contains("t = 1"), "{limit}");
        let table = Table::parse(&std::fs::read_to_string(session.path("out.csv")).unwrap());
        assert_eq!(table.column("t").len(), 9);
        assert_column(&table, "x", exact, 1e-6);
    }
    // A pole and a jump have none.
    for equation in ["(time - 1)*x = 1", "(time - 1)*x = abs(time - 1)"] {
        let model =
            format!("model M Real x, y(start = 0, fixed = true); equation {equation}; der(y) = time; {span} end M;");
        let run = Session::with_model(&model).run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 3, "{equation}: {}{}", run.stdout, run.stderr);
    }
}

/// Linear models with coefficients in time of index 3 and 4, made from canonical ones by unimodular transformations,
/// in which coefficients cancel: what rounding leaves of them, which may stay the same at neighbouring points, is
/// none. The rows stand for the left sides, T for the time and d1 for the derivative of x1; the right sides are those
/// of x_k = sin((1 + k/4) t + 0.3 k).
#[test]
fn rounding_errors_that_stay_the_same_are_no_coefficients() {
    let of_index_3 = [
        "d0 + x0",
        "(0.25 - T + T^2)*d1 + (0.5 - T + 2*T^2)*x1 + (-0.125 + 0.75*T - 1.5*T^2 + T^3)*d3 + 2*T^3*x3 + x5",
        "x2 + d3 - x3",
        "-2*T*d0 - 2*x0 + x3 + d4",
        "d1 + 2*x1 + (-0.5 + T)*d3 + 2*T*x3",
        "-2*T*x0 + T*d1 + x1 + (-0.5*T + 2*T^2)*d3 + (-0.5 + 4*T)*x3 + x4 + d5",
    ];
    let of_index_4 = [
        "x2 + d3",
        "d0 + 0.5*x0 + 2*T*d2 + (2 - T)*x2 + T*d3 - x4 - d5 + x5",
        "2*T*d2 + (2 - 2*T)*x2 - x4 - d5 + x5",
        "x3 + d4",
        "d1 + x1 + T^2*x2 + T^2*d3 + (-0.5 + T)*d4 + (0.5 + T)*x4",
        "T^2*d1 + T^2*x1 - 2*T*d2 - 2*x2 + (-0.5*T^2 + T^3)*d4 + (1 + 0.5*T^2 + T^3)*x4 + d5",
    ];
    let rate = |k: usize| 1.0 + 0.25 * k as f64;
    let phase = |k: usize| 0.3 * k as f64;
    for rows in [of_index_3, of_index_4] {
        let mut equations = String::new();
        for row in rows {
            let (mut left, mut right) = (row.to_owned(), row.to_owned());
            for k in 0..6 {
                let angle = format!("({}*time + {})", rate(k), phase(k));
                left = left.replace(&format!("d{k}"), &format!("der(x{k})"));
                right = right.replace(&format!("d{k}"), &format!("{}*cos{angle}", rate(k)));
                right = right.replace(&format!("x{k}"), &format!("sin{angle}"));
            }
            equations.push_str(&format!("{left} = {right};\n").replace('T', "time"));
        }
        let starts: Vec<String> = (0..6).map(|k| format!("x{k}(start = {})", phase(k).sin())).collect();
        let table = simulated(&format!(
            "model M Real {}; equation {equations} annotation(experiment(StopTime = 2, Interval = 0.02)); end M;",
            starts.join(", ")
        ));
        for k in 0..6 {
            assert_column(&table, &format!("x{k}"), |t| (rate(k) * t + phase(k)).sin(), 1e-5);
        }
    }
}
