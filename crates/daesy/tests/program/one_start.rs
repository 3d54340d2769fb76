//! A start means the same on every road: which written values hold, what a sample there is of, and whether there is one.

use crate::session::{Run, Session, codes, finding};

/// The cost of a parameter at its own value, from samples `(t, value)` of one variable with a standard deviation of one.
fn cost(model: &str, (parameter, value): (&str, f64), measured: &str, samples: &[(f64, f64)], method: &str) -> Run {
    let study = format!(
        "[model]\nfile = \"model.mo\"\n[unknown]\n{parameter} = {{ start = {value:e} }}\n\
         [measurements]\n{measured} = {{ column = \"y\", std = 1 }}\n[data]\nfile = \"data.csv\"\n"
    );
    let rows: String = samples.iter().map(|(t, y)| format!("{t:e},{y:e}\n")).collect();
    let session = Session::with_model(model).with("study.toml", &study).with("data.csv", &format!("t,y\n{rows}"));
    let grid = format!("{parameter}={value:e}:{value:e}:1");
    session.run(&["cost", "study.toml", "--json", "--method", method, "--grid", &grid])
}

/// The root of the mean square error of a road at the truth.
fn error(model: &str, parameter: (&str, f64), measured: &str, samples: &[(f64, f64)], method: &str) -> f64 {
    let run = cost(model, parameter, measured, samples, method);
    assert_eq!(run.status, 0, "{method}: {}", run.stderr);
    let value = run.json()["values"][0].as_f64().unwrap();
    // log L = -n log(2 pi) / 2 - sum e^2 / 2
    let likely = |value: f64| -2.0 * value / samples.len() as f64 - (2.0 * std::f64::consts::PI).ln();
    let square = if method == "ml" { likely(value) } else { value };
    square.max(0.0).sqrt()
}

const METHODS: [&str; 3] = ["output-error", "ml", "pem"];

/// Two nodes over a capacitor, of which one is as good as shorted by the conductance G.
fn shorted(conductance: f64) -> String {
    format!(
        "model Shorted
  parameter Real G = {conductance:e};
  Real a(start = 0), b(start = 3), e(start = 2.8);
  Real i;
equation
  i = 3e-4 + 0.012*(b - e - 0.15);
  1e-6*(der(b) - der(a)) = a/1000;
  1e-6*(der(a) - der(b)) = G*b + 0.01*i - 6/9000;
  -2e-6*der(e) = e/9000 - i;
  annotation(experiment(StopTime = 0.01, Interval = 0.0005));
end Shorted;
"
    )
}

#[test]
fn a_start_value_that_coefficients_nearly_determine_is_decided_alike() {
    let mut n_dropped = 0;
    for conductance in [4.5e-4, 4.5, 4.5e3, 4.5e5] {
        let model = shorted(conductance);
        let session = Session::with_model(&model);
        let table = session.run(&["simulate", "model.mo"]).table();
        let (times, [a, b, e]) = (table.column("t"), ["a", "b", "e"].map(|name| table.column(name)));
        // The equations of both nodes add up to a constraint: 0 = a/1000 + G b + 0.01 i - 6/9000.
        let terms = [a[0] / 1000.0, conductance * b[0], 0.01 * (3e-4 + 0.012 * (b[0] - e[0] - 0.15)), -6.0 / 9000.0];
        let size = terms.iter().fold(0.0f64, |size, term| size.max(term.abs()));
        assert!(terms.iter().sum::<f64>().abs() < 1e-9 * size, "G = {conductance}: {terms:?}");
        let document = session.run(&["simulate", "model.mo", "--json"]).json();
        assert!(codes(&document).contains(&"start-changed"), "{document}");
        n_dropped += usize::from((b[0] - 3.0).abs() > 1.0);
        for (name, column) in [("a", &a), ("b", &b), ("e", &e)] {
            let samples: Vec<(f64, f64)> = times.iter().copied().zip(column.iter().copied()).collect();
            let size = column.iter().fold(0.0f64, |size, value| size.max(value.abs()));
            for method in METHODS {
                let off = error(&model, ("G", conductance), name, &samples, method);
                assert!(off <= 1e-5 * size + 1e-7, "`{name}` with G = {conductance} by {method}: {off:e} of {size:e}");
            }
        }
    }
    assert!(n_dropped > 0);
}

/// `u` turns right after the start.
fn turning(equations: &str) -> String {
    format!(
        "model Turning
  parameter Real k = 1;
  Real x, u, y;
equation
  u = if time > 0 then 2 else 5;
  y = x + u;
  {equations}
  annotation(experiment(StopTime = 1, Interval = 0.1));
end Turning;
"
    )
}

#[test]
fn a_sample_at_the_start_is_of_the_first_row_of_a_simulation() {
    // x' = k (u - x) from 1, and from the rest under what u is before it turns.
    let from_one = turning("der(x) = k*(u - x);\ninitial equation\n  x = 1;");
    let from_rest = turning("der(x) = k*(u - x);\ninitial equation\n  der(x) = 0;");
    let curved = turning("der(x) = k*(u - x) + 1e-12*x^3;\ninitial equation\n  x = 1;");
    for (model, start) in [(from_one, 1.0), (from_rest, 5.0), (curved, 1.0)] {
        let later = |t: f64| 2.0 + (start - 2.0) * (-t).exp() + 2.0;
        let samples: Vec<(f64, f64)> = (0..=10u32)
            .map(|row| 0.1 * f64::from(row))
            .map(|t| (t, if t == 0.0 { start + 5.0 } else { later(t) }))
            .collect();
        let simulated = Session::with_model(&model).run(&["simulate", "model.mo"]).table();
        assert!((simulated.column("y")[0] - samples[0].1).abs() < 1e-9);
        for method in METHODS {
            let off = error(&model, ("k", 1.0), "y", &samples, method);
            assert!(off < 1e-5, "{model} by {method}: {off:e}");
        }
    }
}

#[test]
fn a_start_that_is_only_approached_is_refused_on_every_road() {
    // Quotients of two numbers that are zero at the start, by written, free and fixed values.
    let quotients = [
        "Real a, b, c(start = 1);\nequation\n der(c) = -k*a/b;",
        "Real a, b, c(start = 1, fixed = true), p = a*c, q = b*c;\nequation\n der(c) = -k*p/q;",
        "Real a(start = 1), b(start = 2), c, p = a*c, q = b*c;\nequation\n der(c) = -k*p/q;",
        "Real a(start = 1), b(start = 2), c(start = 0, fixed = true), p = a*c, q = b*c;\nequation\n der(c) = -k*p/q;",
        "Real a, b, c, p = a*c, q = b*c;\nequation\n der(c) = -k*p/q;",
    ];
    let samples: Vec<(f64, f64)> = (0..=10u32).map(|row| (0.1 * f64::from(row), 0.0)).collect();
    for quotient in quotients {
        let model =
            format!("model M\n  parameter Real k = 1;\n  {quotient}\n  der(a) = c - a;\n  der(b) = 1 - b;\nend M;\n");
        let study = |method: &str| {
            format!(
                "[model]\nfile = \"model.mo\"\n[random]\nk = {{ uniform = {{ mean = 1, relative = 1e-6 }} }}\n\
                 [uq]\nmethod = \"{method}\"\ndegree = 1\nsamples = 4\nvalidation = 0\n"
            )
        };
        let mut runs = vec![("simulate", Session::with_model(&model).run(&["simulate", "model.mo", "--json"]))];
        for method in ["monte-carlo", "collocation", "galerkin"] {
            let session = Session::with_model(&model).with("study.toml", &study(method));
            runs.push((method, session.run(&["uq", "study.toml", "--json"])));
        }
        for method in METHODS {
            runs.push((method, cost(&model, ("k", 1.0), "a", &samples, method)));
        }
        for (road, run) in runs {
            assert_ne!(run.status, 0, "{road} of {model}");
            let document = run.json();
            let message = finding(&document, "not-finite")["message"].as_str().unwrap();
            assert!(message.contains("has no finite value at t = 0"), "{road}: {message}");
        }
    }
}

/// A model of index 2 whose one start value follows from its equations.
fn of_index_two(start: f64) -> String {
    format!(
        "model J
  parameter Real c = 2;
  input Real u;
  Real x(start = {start:?}, fixed = true), z, q;
equation
  der(x) = q;
  x = c*z;
  z = (1 + u)/c;
end J;
"
    )
}

/// Rounding of terms that cancel is no contradiction, and a millionth of them is one, on all roads.
#[test]
fn a_start_that_follows_holds_but_for_rounding_on_all_roads() {
    let samples: Vec<(f64, f64, f64)> = (0..41)
        .map(|k| {
            let t = 0.1 * f64::from(k);
            let level = 1.0 + 0.5 * t.sin();
            (t, level, level / 2.0 + 0.01 * (7.3 * f64::from(k * k)).sin())
        })
        .collect();
    let rows: String = samples.iter().map(|(t, _, z)| format!("{t:e},{z:e}\n")).collect();
    // z = level / c, by least squares.
    let sum = |of: fn(&(f64, f64, f64)) -> f64| samples.iter().map(of).sum::<f64>();
    let by_hand = sum(|(_, level, _)| level * level) / sum(|(_, level, z)| level * z);
    let study = |c: f64, of: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n{of}\n[inputs]\nu = {{ expression = \"0.5*sin(time)\" }}\n[measurements]\n\
             z = {{ column = \"z\", std = 0.01 }}\n[simulate]\nstop = 1\nstep = 0.5\n[data]\nfile = \"data.csv\"\n"
        )
        .replace("$c", &format!("{c:?}"))
    };
    let unknown = "[unknown]\nc = { start = $c, min = 1, max = 4 }";
    let known = "[parameters]\nc = $c\n[estimate]\nsignals = [\"x\"]";
    for (start, holds) in [(1.0, true), (1.0 + f64::EPSILON, true), (1.0 - f64::EPSILON, true), (1.0 + 1e-6, false)] {
        for c in [1.5, 2.0, 2.1, 2.7, 3.0, 3.3, 3.9] {
            let session = Session::with_model(&of_index_two(start))
                .with("study.toml", &study(c, unknown))
                .with("known.toml", &study(c, known))
                .with("data.csv", &format!("t,z\n{rows}"));
            let grid = format!("c={c:?}:{c:?}:1");
            let roads: [&[&str]; 4] = [
                &["simulate", "known.toml", "--json"],
                &["estimate", "known.toml", "--json"],
                &["cost", "study.toml", "--json", "--method", "ml", "--grid", &grid],
                &["identify", "study.toml", "--json"],
            ];
            for road in roads {
                let run = session.run(road);
                let document = run.json();
                // A point that is refused leaves the others of a grid.
                let code = if road[0] == "cost" { "refused" } else { "no-consistent-start" };
                assert_eq!(run.status == 0, holds || road[0] == "cost", "{road:?} from {start:?}: {}", run.stderr);
                let is_refused = codes(&document).contains(&code);
                assert_eq!(is_refused, !holds, "{road:?} from {start:?} at c = {c}: {document}");
                if holds && road[0] == "identify" {
                    let found = document["parameters"][0]["estimate"].as_f64().unwrap();
                    assert!((found - by_hand).abs() < 1e-6, "{found} {by_hand}");
                }
            }
        }
    }
}

/// A model whose structure misleads, with what the order of start values gives, computed in rational numbers.
struct Misled {
    declarations: &'static str,
    equations: &'static str,
    start: &'static [f64],
    changed: &'static [&'static str],
}

const MISLED: [Misled; 8] = [
    // Constant coefficients; of z3 no derivative is written, though the solution needs it.
    Misled {
        declarations: "z1, z2, z3(start = 5)",
        equations: "der(z2) = z3 - k; der(z1) + der(z2) = -z1 - z2 + k; -der(z1) - 2*der(z2) = z1 + 2*z2 - z3 + k;",
        start: &[0.0, -1.0, 1.0],
        changed: &["z3"],
    },
    // Both written values can not hold: the one that was declared first does.
    Misled {
        declarations: "z1, z2(start = -1), z3, z4(start = 4)",
        equations: "der(z3) = z1; -2*der(z1) + der(z2) - der(z3) + 3*der(z4) = -3*z1 + 2*z2 - 3*z3 + 6*z4 - 2*k;
                    der(z3) = -z1 + z2 - 2*z3 + 3*z4 - k; -2*der(z3) + der(z4) = 4*z3 - 2*z4 + 2*k;",
        start: &[0.0, -1.0, 0.0, 2.0 / 3.0],
        changed: &["z4"],
    },
    // Coefficients in time: what nobody gave a value starts at zero, in the order of declaration.
    Misled {
        declarations: "z1, z2, z3(start = -3)",
        equations: "-2*time*der(z1) + (2*time + time^2)*der(z2) + time*der(z3) = z1 + k*(1 - time);
                    -2*time*der(z1) + (1 + time)^2*der(z2) + time*der(z3) = -z2 - k*time;
                    (-2 - 4*time)*der(z1) + (3 + 4*time + 2*time^2)*der(z2) + (1 + 2*time)*der(z3)
                    = (1 + time)*z1 + (-1 + time)*z2 - k*time;",
        start: &[-1.0, 0.0, -3.0],
        changed: &[],
    },
    Misled {
        declarations: "z1(start = 3), z2",
        equations: "(1 - time)*der(z1) + (-1 + time)*der(z2) = (-1 + time + time^2)*z1 + (2 - 2*time)*z2 + 2*k*time^3;
                    -der(z1) + der(z2) = (2 + time)*z1 - 2*z2 + k*(2 + 2*time + 2*time^2);",
        start: &[-2.0, 0.0],
        changed: &["z1"],
    },
    Misled {
        declarations: "z1(start = 3), z2, z3, z4(start = 4), z5",
        equations: "2*der(z1) + 2*der(z3) = z1 + z3 + 2*z4 + k*(3 + 2*time + time^2);
                    (-1 - time)*der(z2) + der(z5) = -z1 - 2*z2 + z5 + k*(-2*time + time^2 + time^3);
                    -time*der(z1) + der(z2) + 2*der(z3) = z1 + (2 + time)*z2 + z3 + 2*z4 + (2 + time)*z5 + k*(6 + 3*time);
                    der(z1) + der(z3) = z4 + k*(1 + time);
                    der(z1) + (1 + time)^2*der(z2) + (-1 - time)*der(z5) = (1 + time)*z1 + (1 + 2*time)*z2
                    + (-2 - time)*z5 + k*(-1 + 2*time + time^2 - 2*time^3 - time^4);",
        start: &[3.0, 0.0, -4.0, -1.0, 0.0],
        changed: &["z4"],
    },
    Misled {
        declarations: "z1, z2, z3(start = -3), z4(start = 2), z5",
        equations: "der(z5) = -k; (-2 - time)*der(z1) - 2*der(z2) + der(z4) = (1 + time)*z1 + 2*z2 - z4 - k;
                    -der(z1) - 2*der(z2) = (1 + 2*time)*z1 + z2 - 2*z3 - z5 + k*(-3 - time + time^2);
                    der(z1) + der(z2) = (-1 - time)*z1 + z3 + 2*k; der(z1) = -2*z1 - z5 - k*time;",
        start: &[-1.0, 0.0, -3.0, 2.0, 0.0],
        changed: &[],
    },
    // What is determined at the start is no value that nothing determines.
    Misled {
        declarations: "z1, z2, z3",
        equations: "der(z1) + 8*der(z2) - 4*der(z3) = -z2 + z3 + k*(time - 4*time^2 + 2*time^3);
                    2*der(z2) - der(z3) = z1 + (4 + 2*time)*z2 + (-2 - time)*z3 + k*(-1 - 2*time^2);
                    -der(z1) - 10*der(z2) + 5*der(z3) = z2 - z3 + k*(1 - time + 6*time^2 - 2*time^3);",
        start: &[0.0, -2.0, -4.0],
        changed: &[],
    },
    // At the start the coefficient of z2 in a constraint is zero: rounding errors in its place made z2 -1e15.
    Misled {
        declarations: "z1(start = -3), z2, z3, z4",
        equations: "(3 + time)*der(z1) + (3*time + time^2)*der(z2) + (-3*time - 4*time^2 - time^3)*der(z3)
                    = (-10 - 3*time)*z2 + (-4 + 12*time + 4*time^2)*z3 + (3 + time)*z4 + k*(7 + 2*time);
                    der(z3) = z3 + k;
                    (-2 - time)*der(z1) + (-2*time - time^2)*der(z2) + (-1 + 2*time + 3*time^2 + time^3)*der(z3)
                    = (7 + 3*time)*z2 + (2 - 8*time - 4*time^2)*z3 + (-2 - time)*z4 + k*(-6 - 2*time);
                    (3 + time)*der(z1) + (3*time + time^2)*der(z2) + (-1 - 3*time - 4*time^2 - time^3)*der(z3)
                    = z1 + (-10 - 2*time)*z2 + (-5 + 11*time + 3*time^2)*z3 + (3 + time)*z4 + k*(6 + 2*time);",
        start: &[0.0, 0.0, 1.0, 0.0],
        changed: &["z1"],
    },
];

#[test]
fn a_model_that_is_rewritten_starts_as_it_was_written() {
    for Misled { declarations, equations, start, changed } in MISLED {
        let model = format!(
            "model Hidden\n  parameter Real k = 1;\n  Real {declarations};\nequation\n  {equations}\n  \
             annotation(experiment(StopTime = 0.5, Interval = 0.1));\nend Hidden;\n"
        );
        let session = Session::with_model(&model);
        let run = session.run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = run.table();
        let times = table.column("t");
        let names: Vec<String> = (1..=start.len()).map(|at| format!("z{at}")).collect();
        for verb in ["simulate", "check"] {
            let document = session.run(&[verb, "model.mo", "--json"]).json();
            let told: Vec<&str> =
                document["initial"]["changed"].as_object().unwrap().keys().map(String::as_str).collect();
            assert_eq!(told, changed, "{verb} of {model}");
            let findings = codes(&document).into_iter().filter(|code| *code == "start-changed").count();
            assert_eq!(findings, changed.len(), "{verb} of {model}");
        }
        for (name, &start) in names.iter().zip(start) {
            let mut column = table.column(name);
            assert!((column[0] - start).abs() < 1e-9, "{name} starts at {} in {model}", column[0]);
            column[0] = start;
            let samples: Vec<(f64, f64)> = times.iter().copied().zip(column.iter().copied()).collect();
            let size = column.iter().fold(1.0f64, |size, value| size.max(value.abs()));
            for method in METHODS {
                let off = error(&model, ("k", 1.0), name, &samples, method);
                assert!(off <= 1e-5 * size, "`{name}` by {method}: {off:e} in {model}");
            }
        }
    }
}

#[test]
fn a_tick_within_rounding_of_a_sample_is_acted_on_by_every_verb() {
    // Ticks at 4/3, and at 12*0.1, which is not the number 1.2; the number of ticks so far, and a value that is sampled.
    let counted = "when sample(0, interval) then n = pre(n) + k; end when; der(x) = -x;";
    let sampled = "when sample(0, interval) then n = 1 - 0.5*k*x; end when; der(x) = n - x;";
    for (interval, times, n_ticks) in
        [("1/3", [0.0, 0.3333333333, 0.6666666667, 1.0, 1.3333333333], 5.0), ("0.1", [0.8, 0.9, 1.0, 1.1, 1.2], 5.0)]
    {
        for (body, is_count) in [(counted, true), (sampled, false)] {
            let model = format!(
                "model M\n  parameter Real k = 1, interval = {interval};\n  Real x(start = 1, fixed = true), y = n;\n  \
                 discrete Real n(start = 0, fixed = true);\nequation\n  {body}\n  \
                 annotation(experiment(StartTime = {}, StopTime = {}));\nend M;\n",
                times[0], times[4]
            );
            let run = Session::with_model(&model).run(&["simulate", "model.mo"]);
            assert_eq!(run.status, 0, "{}", run.stderr);
            let table = run.table();
            let (rows, y) = (table.column("t"), table.column("y"));
            assert!(!is_count || *y.last().unwrap() == n_ticks, "{model} counts {:?}", y.last());
            // The last row at each time, to rounding, but the first of all.
            let value = |&time: &f64| {
                let last = rows.iter().rposition(|row| (row - time).abs() < 1e-9).unwrap();
                (time, y[if time == times[0] { 0 } else { last }])
            };
            let samples: Vec<(f64, f64)> = [times[0], times[4]].iter().map(value).collect();
            for method in METHODS {
                let off = error(&model, ("k", 1.0), "y", &samples, method);
                assert!(off < 1e-6, "{method}: {off:e} in {model}");
            }
        }
    }
}
