//! Nonlinear models whose structure misleads: derivative arrays decide, and simulations follow them.

use crate::session::{Session, codes, finding, texts};

fn last(session: &Session, name: &str) -> f64 {
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    *run.table().column(name).last().unwrap()
}

fn assert_near(got: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((got - expected).abs() <= tolerance * expected.abs().max(1.0), "{what}: {got} instead of {expected}");
}

/// The arm of Campbell and Griepentrog on the path x1 = 1 - exp(t), x3 = exp(t) - t. Structure differentiates twice and
/// promises two free start values; the torques enter the equations of v1 and v3 by their difference only, so that the
/// index is 5 and nothing is free.
const ROBOT_ARM: &str = "model RobotArm
  Real x1(start=0), x2(start=-1), x3(start=1), v1, v2, v3, u1, u2, a, b, c, d;
equation
  a = 2/(2 - cos(x3)^2);
  b = cos(x3)/(2 - cos(x3)^2);
  c = sin(x3)/(2 - cos(x3)^2);
  d = sin(x3)*cos(x3)/(2 - cos(x3)^2);
  der(x1) = v1;
  der(x2) = v2;
  der(x3) = v3;
  der(v1) = 2*c*(v1 + v3)^2 + v1^2*d + (2*x3 - x2)*(a + 2*b) + a*(u1 - u2);
  der(v2) = -2*c*(v1 + v3)^2 - v1^2*d + (2*x3 - x2)*(1 - 3*a - 2*b) - a*u1 + (a + 1)*u2;
  der(v3) = -2*c*(v1 + v3)^2 - v1^2*d + (2*x3 - x2)*(a - 9*b) - 2*v1^2*c - d*(v1 + v3)^2 - (a + b)*(u1 - u2);
  0 = cos(x1) + cos(x1 + x3) - (cos(1 - exp(time)) + cos(1 - time));
  0 = sin(x1) + sin(x1 + x3) - (sin(1 - exp(time)) + sin(1 - time));
  annotation (experiment(StopTime=0.8, Interval=0.1));
end RobotArm;
";

#[test]
fn a_robot_arm_whose_structure_differentiates_too_little() {
    let session = Session::with_model(ROBOT_ARM);
    let document = session.check();
    assert_eq!(document["structure"]["structural_index"], 3);
    let regularity = &document["regularity"];
    assert_eq!(regularity["strangeness_index"], 4);
    assert_eq!(regularity["differentiation_index"], 5);
    assert_eq!([&regularity["d"], &regularity["a"], &regularity["v"]], [0, 12, 0]);
    assert_eq!(regularity["agrees_with_structure"], false);
    let note = finding(&document, "structure-misleads");
    assert!(note["message"].as_str().unwrap().contains("derivative array"), "{note}");
    assert_near(last(&session, "x1"), 1.0 - 0.8f64.exp(), 1e-6, "x1");
    assert_near(last(&session, "x3"), 0.8f64.exp() - 0.8, 1e-6, "x3");
    assert_near(last(&session, "v3"), 0.8f64.exp() - 1.0, 1e-6, "v3");
    // With x1 and x3 known, the equations of v1 and v3 give x2 and the difference of the torques.
    let run = session.run(&["simulate", "model.mo", "--json"]);
    assert_eq!(codes(&run.json()), ["structure-misleads", "start-changed"]);
    let table = session.run(&["simulate", "model.mo"]).table();
    for (row, &t) in table.column("t").iter().enumerate() {
        let at = |name: &str| table.column(name)[row];
        let (x3, v1, v3) = (t.exp() - t, -t.exp(), t.exp() - 1.0);
        let q = 2.0 - x3.cos().powi(2);
        let (a, b, c, d) = (2.0 / q, x3.cos() / q, x3.sin() / q, x3.sin() * x3.cos() / q);
        let spring = 2.0 * x3 - at("x2");
        let difference = at("u1") - at("u2");
        let first = 2.0 * c * (v1 + v3).powi(2) + v1 * v1 * d + spring * (a + 2.0 * b) + a * difference;
        assert_near(first, -t.exp(), 1e-6, "acceleration of x1");
        let third = -2.0 * c * (v1 + v3).powi(2) - v1 * v1 * d + spring * (a - 9.0 * b)
            - 2.0 * v1 * v1 * c
            - d * (v1 + v3).powi(2)
            - (a + b) * difference;
        assert_near(third, t.exp(), 1e-6, "acceleration of x3");
    }
    assert!(table.names.iter().all(|name| !name.contains('$')), "{:?}", table.names);
}

/// y1' and y2' enter by their difference: one start value is free, and twice the first equation less the second is
/// algebraic.
#[test]
fn derivatives_that_enter_by_their_difference() {
    let misled = Session::with_model(
        "model M
           Real y1(start=1, fixed=true), y2(start=-1);
         equation
           der(y1) - der(y2) = -y1 + y2^3;
           2*der(y1) - 2*der(y2) = y2 - exp(y1) + sin(y2);
           annotation (experiment(StopTime=1, Interval=0.1));
         end M;",
    );
    let by_hand = Session::with_model(
        "model M
           Real y1(start=1, fixed=true), y2(start=-1), u;
         equation
           u = y1 - y2;
           der(u) = -y1 + y2^3;
           2*(-y1 + y2^3) = y2 - exp(y1) + sin(y2);
           annotation (experiment(StopTime=1, Interval=0.1));
         end M;",
    );
    for name in ["y1", "y2"] {
        assert_near(last(&misled, name), last(&by_hand, name), 1e-5, name);
    }
    let form = misled.run(&["regularize", "model.mo", "--json"]).json();
    assert_eq!(form["kind"], "nonlinear");
    assert_eq!([&form["mu"], &form["d"], &form["a"], &form["v"]], [0, 1, 1, 0]);
    assert_eq!(texts(&form["differential"]).len(), 1);
}

/// Multipliers that depend on the state, in a dependency of more than two equations: new variables are needed.
#[test]
fn a_dependency_with_varying_multipliers() {
    // z' cos(w) + y' sin(w) is known from the first two, and enters the third: with p = x + z, q = y + z and w' = 1 the
    // third equation says x cos(w)^2 .. = an algebraic relation.
    let misled = Session::with_model(
        "model M
           Real x(start=1), y(start=0.2), z(start=0.3), w(start=0.5, fixed=true);
         equation
           der(w) = 1;
           der(x) + der(z) = -x;
           der(y) + der(z) = -y*w;
           exp(w)*(der(x) + der(z)) + sin(w)*(der(y) + der(z)) = z - 1;
           annotation (experiment(StopTime=1, Interval=0.1));
         end M;",
    );
    let document = misled.check();
    assert_eq!([&document["regularity"]["d"], &document["regularity"]["a"]], [3, 1]);
    let by_hand = Session::with_model(
        "model M
           Real x(start=1), y(start=0.2), z, w(start=0.5, fixed=true), p(start=1, fixed=true), q(start=1, fixed=true);
         equation
           der(w) = 1;
           p = x + z;
           q = y + z;
           der(p) = -x;
           der(q) = -y*w;
           -exp(w)*x - sin(w)*y*w = z - 1;
           annotation (experiment(StopTime=1, Interval=0.1));
         end M;",
    );
    let start = misled.run(&["simulate", "model.mo"]);
    assert_eq!(start.status, 0, "{}", start.stderr);
    let table = start.table();
    let first = |name: &str| table.column(name)[0];
    let (p, q) = (first("x") + first("z"), first("y") + first("z"));
    let sets = [format!("p0={p:?}"), format!("q0={q:?}")];
    let text = std::fs::read_to_string(by_hand.path("model.mo")).unwrap();
    let text = text
        .replace("p(start=1, fixed=true)", "p(start=p0, fixed=true)")
        .replace("q(start=1, fixed=true)", "q(start=q0, fixed=true)")
        .replace("Real x", "parameter Real p0 = 1, q0 = 1; Real x");
    let by_hand = Session::with_model(&text);
    let run = by_hand.run(&["simulate", "model.mo", "--set", &sets[0], "--set", &sets[1]]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    for name in ["x", "y", "z"] {
        let expected = *run.table().column(name).last().unwrap();
        assert_near(*table.column(name).last().unwrap(), expected, 1e-5, name);
    }
}

const PENDULUM: &str = "model Pendulum
  Real x(start=0.6, fixed=true), y(start=-0.8), vx(start=0, fixed=true), vy, F;
equation
  der(x) = vx;
  der(y) = vy;
  der(vx) = -x*F;
  der(vy) = -y*F - 9.81;
  x^2 + y^2 = 1;
  annotation (experiment(StopTime=2, Interval=0.1));
end Pendulum;
";

/// The same rod twice: a redundant constraint, and nobody knows how the two share the force.
#[test]
fn a_redundant_constraint_is_left_out_and_the_motion_is_right() {
    let plain = Session::with_model(PENDULUM);
    let redundant = Session::with_model(
        &PENDULUM
            .replace("vy, F;", "vy, F, G;")
            .replace("-x*F;", "-x*F - 2*x*G;")
            .replace("-y*F - 9.81;", "-y*F - 2*y*G - 9.81;")
            .replace("x^2 + y^2 = 1;", "x^2 + y^2 = 1;\n  2*x^2 + 2*y^2 - 1 = 1;"),
    );
    let document = redundant.check();
    let regularity = &document["regularity"];
    assert_eq!([&regularity["d"], &regularity["a"], &regularity["v"]], [2, 3, 1]);
    let warning = finding(&document, "redundant-equations");
    assert_eq!(warning["line"], 9, "{warning}");
    for name in ["x", "y", "vx", "vy"] {
        assert_near(last(&redundant, name), last(&plain, name), 1e-5, name);
    }
    let run = redundant.run(&["simulate", "model.mo", "--json"]).json();
    assert!(codes(&run).contains(&"redundant-equations") && codes(&run).contains(&"free-variables"), "{run:#}");
}

/// One equation too many that follows from the others.
#[test]
fn an_overdetermined_model_that_is_consistent_is_simulated() {
    let plain = Session::with_model(PENDULUM);
    let over = Session::with_model(&PENDULUM.replace("x^2 + y^2 = 1;", "x^2 + y^2 = 1;\n  x*vx + y*vy = 0;"));
    let document = over.check();
    assert_eq!(codes(&document), ["too-many-equations"]);
    let regularity = &document["regularity"];
    assert_eq!([&regularity["d"], &regularity["a"], &regularity["v"]], [2, 3, 1]);
    assert_eq!(texts(&regularity["redundant_equations"]), ["x*vx + y*vy = 0"]);
    for name in ["x", "y", "F"] {
        assert_near(last(&over, name), last(&plain, name), 1e-5, name);
    }
    // One that contradicts them is refused.
    let wrong = Session::with_model(&PENDULUM.replace("x^2 + y^2 = 1;", "x^2 + y^2 = 1;\n  x*vx + y*vy = 1;"));
    assert_eq!(wrong.run(&["simulate", "model.mo"]).status, 1);
}

/// An equation is missing: the free variable is named, and regularization makes it an input.
#[test]
fn a_free_variable_is_named_and_becomes_an_input() {
    let session = Session::with_model(
        "model Tank
           Real h(start=1, fixed=true), q, u(start=0.5);
         equation
           der(h) = 1 - q^2;
           q = u*sqrt(h);
         end Tank;",
    );
    let document = session.check();
    assert_eq!(codes(&document), ["too-few-equations"]);
    assert_eq!(document["regularity"]["v"], 0);
    assert_eq!(texts(&document["regularity"]["free_variables"]).len(), 1);
    let form = session.run(&["regularize", "model.mo", "--input", "u", "--json"]).json();
    assert_eq!([&form["mu"], &form["d"], &form["a"], &form["v"]], [0, 1, 1, 0]);
    assert_eq!(texts(&form["variables"]["inputs"]), ["u"]);
    assert_eq!(form["variables"]["moved"][0]["to"], "inputs");
    assert_eq!(texts(&form["differential"]), ["der(h) = 1 - q^2"]);
}

/// A beam on three parallel cranks swings like a pendulum. One crank is redundant, and only where the others hold: with
/// x^2 + y^2 = 1 the outer cranks say 1 - cos(phi) = 0, whose derivative vanishes there.
#[test]
fn a_mechanism_with_a_redundant_crank_swings_as_it_should() {
    let cranks = Session::with_model(
        "model ThreeCranks
           parameter Real m = 2, J = 0.7, g = 9.81, s[3] = {-1, 0, 1};
           Real x(start=0.6, fixed=true), y(start=-0.8), phi, vx, vy, w, F[3], dx[3], dy[3];
         equation
           der(x) = vx;
           der(y) = vy;
           der(phi) = w;
           m*der(vx) = -sum(F[i]*dx[i] for i in 1:3);
           m*der(vy) = -sum(F[i]*dy[i] for i in 1:3) - m*g;
           J*der(w) = sum(-F[i]*s[i]*(cos(phi)*dy[i] - sin(phi)*dx[i]) for i in 1:3);
           for i in 1:3 loop
             dx[i] = x + s[i]*cos(phi) - s[i];
             dy[i] = y + s[i]*sin(phi);
             dx[i]^2 + dy[i]^2 = 1;
           end for;
           annotation (experiment(StopTime=2, Interval=0.1));
         end ThreeCranks;",
    );
    let document = cranks.check();
    let regularity = &document["regularity"];
    assert_eq!([&regularity["d"], &regularity["v"]], [2, 1]);
    assert_eq!(finding(&document, "redundant-equations")["line"], 14);
    let plain = Session::with_model(PENDULUM);
    for name in ["x", "y", "vx", "vy"] {
        assert_near(last(&cranks, name), last(&plain, name), 1e-5, name);
    }
    assert!(last(&cranks, "phi").abs() < 1e-9);
}

/// Capacitors without capacity: structure counts them, the value of the parameter does not.
#[test]
fn coefficients_that_vanish_by_their_value() {
    let text = |capacity: &str| {
        format!(
            "model Ring
               parameter Real Cs = 0;
               Real u1, u2, u3, i1(start=0, fixed=true), i2(start=0, fixed=true);
             equation
               {capacity}der(u1)*Cs = i1 - (exp(u1 - u2) - 1);
               {capacity}der(u2)*Cs = -i1 + (exp(u1 - u2) - 1) - i2 + u3;
               u3 = u2 + sin(time);
               der(i1) = -u1 - i1;
               der(i2) = u2 - i2;
               annotation (experiment(StopTime=2, Interval=0.1));
             end Ring;"
        )
    };
    let misled = Session::with_model(&text(""));
    let by_hand = Session::with_model(&text("0*"));
    assert_eq!(misled.check()["regularity"]["d"], 2);
    for name in ["u1", "u2", "i1", "i2"] {
        assert_near(last(&misled, name), last(&by_hand, name), 1e-5, name);
    }
}

/// A junction with a capacitance to the collector of which a share lies outside. At a share of zero, by value, `vx` is
/// no state, and nothing but the value says so.
const JUNCTION: &str = "model Junction
  parameter Real share = 1;
  parameter Real C = 2e-12;
  discrete Real n(start = 0, fixed = true);
  Real vb, vi(start = 0, fixed = true), vx, cx(start = 0), ix, ib, id;
equation
  cx = noEvent(if vx < 0.4 then C*(1 - share)/sqrt(1 - vx/0.8) else C*(1 - share)*(1 + vx));
  vx = vb - 5;
  ix = cx*der(vx);
  (sin(1e3*time) - vb)/1000 = ib + ix;
  ib = (vb - vi)/100;
  ib = id + 1e-9*der(vi);
  id = 1e-14*(exp(vi/0.025) - 1);
  when sample(0.001, 0.001) then
    n = pre(n) + 1;
  end when;
  annotation (experiment(StopTime = 0.002));
end Junction;
";

#[test]
fn a_state_that_the_value_of_a_parameter_makes_none() {
    let session = Session::with_model(JUNCTION);
    let run = session.run(&["simulate", "model.mo", "--json"]);
    let note = finding(&run.json(), "structure-misleads").clone();
    assert!(note["message"].as_str().unwrap().contains("`ix = cx*der(vx)`"), "{note}");
    let plain = JUNCTION.replace("  ix = cx*der(vx);", "  ix = 0;");
    let plain = last(&Session::with_model(&plain), "vi");
    assert_near(last(&session, "vi"), plain, 1e-7, "vi");
    let same = session.run(&["simulate", "model.mo", "--set", "share=0.5"]);
    assert_eq!(same.status, 0, "{}", same.stderr);
}

/// Each of the models holds an equation that is a combination of others in its derivatives, by multipliers whose
/// denominators would vanish on the way if one column were divided by: at p = 1, t = 1, and p = 1/2 and 2. The solutions
/// are polynomials, also in these rows.
#[test]
fn multipliers_do_not_break_down_on_the_way() {
    type Solution = (&'static str, fn(f64) -> f64);
    let cases: [(&str, [Solution; 2]); 3] = [
        (
            "Real p(start = 0, fixed = true), x1, x2; equation der(p) = 1; der(x2) - p*der(x1) - 2*x1 = 0;
             (p - 1)*der(x2) + (p - p^2)*der(x1) - (2*p - 2)*x1 + x2 - p*x1 = p^2;",
            [("x1", |t| 2.0 * t), ("x2", |t| 3.0 * t * t)],
        ),
        (
            "Real x1(start = -1), x2(start = -1); equation
             (1 + time)*der(x1) - (-0.5 + 0.5*time)*x1 + (1 - time^2)*der(x2) - (1.5 + 2*time - 0.5*time^2)*x2
               = -2*time - time^2 + time^3;
             der(x1) + 0.5*x1 + (1 - time)*der(x2) - (0.5 + 0.5*time)*x2 = -1;",
            [
                ("x1", |t| -1.0 - 4.0 * t + 2.0 * t * t + 2.0 * t.powi(3) - t.powi(4)),
                ("x2", |t| -1.0 + 3.0 * t + t * t - t.powi(3)),
            ],
        ),
        (
            "Real x1(start = 1), x3(start = 2), x2(start = 1), p(start = 0, fixed = true); equation der(p) = 1;
             der(x2) - x1 = -1 - 0.5*p + p^2;
             -2*p*x1 + (-4 + 2*p)*der(x2) + 2*der(x3) - x3 = -6 - p^2 + 2*p^3;
             -(p - 2*p^2)*x1 + (-2 + 5*p - 2*p^2)*der(x2) - x2 + (1 - 2*p)*der(x3) + p*x3
               = -3 + 5*p - 0.5*p^2 + 2*p^3 - 2*p^4;",
            [("x1", |t| 1.0 + 0.5 * t - t * t), ("x3", |t| 2.0 - 2.0 * t)],
        ),
    ];
    for (text, expected) in cases {
        let model = format!("model M {text} annotation (experiment(StopTime = 2, Interval = 0.25)); end M;");
        let run = Session::with_model(&model).run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = run.table();
        for (name, solution) in expected {
            for (time, value) in table.column("t").iter().zip(table.column(name)) {
                assert_near(value, solution(*time), 1e-5, &format!("{name}({time})"));
            }
        }
    }
}

/// The second equation less c times the first is y = x/2, so that x = p exp(-p t / 1.5) for all c and p. A model that is
/// rewritten because structure does not see this is right for other values of its parameters than those at hand, where
/// a coefficient may vanish too: for every method of identification, and for a unit that is handed on.
#[test]
fn a_rewritten_model_is_right_for_other_values_of_its_parameters() {
    let truth = 1.4f64;
    let rows: Vec<String> =
        (0..=10).map(|k| f64::from(k) / 10.0).map(|t| format!("{t},{}", truth * (-truth * t / 1.5).exp())).collect();
    let data = format!("t,x\n{}\n", rows.join("\n"));
    for (small, factor, start) in
        [("0", "2", 1.0), ("0", "(p - 1)", 1.0), ("0", "p", 0.9), ("1e-10", "2", 1.0), ("1e-10", "(p - 1)", 1.0)]
    {
        let model = format!(
            "model M parameter Real p = 1; Real x(start = p, fixed = true), y(start = p/2); equation
               der(x) + der(y) = -p*x + {small}*x^3;
               {factor}*(der(x) + der(y) + p*x - {small}*x^3) + y - 0.5*x = 0;
             annotation(experiment(StopTime = 1)); end M;"
        );
        let study = format!(
            "[model]\nfile = \"model.mo\"\n[unknown]\np = {{ start = {start}, min = 0.3, max = 1.9 }}\n[measurements]\n\
             x = {{ column = \"x\", std = 0.01 }}\n[data]\nfile = \"d.csv\"\n"
        );
        let session = Session::with_model(&model).with("d.csv", &data).with("s.toml", &study);
        for method in ["pem", "output-error", "ml"] {
            let run = session.run(&["identify", "s.toml", "--method", method, "--json"]);
            assert_eq!(run.status, 0, "{method} {model}: {}", run.stderr);
            let found = run.json()["parameters"][0]["estimate"].as_f64().unwrap();
            assert_near(found, truth, 1e-4, &format!("{method} {model}"));
        }
    }
    let model = "model M parameter Real p = 1; Real x(start = p, fixed = true), y; equation
           der(x) + der(y) = -p*x; 2*der(x) + 2*der(y) + 2*p*x + y - 0.5*x = 0;
         annotation(experiment(StopTime = 1)); end M;";
    for kind in ["cs", "me"] {
        let session = Session::with_model(model);
        assert_eq!(session.run(&["export", "model.mo", "--kind", kind, "-o", "unit.fmu"]).status, 0);
        let run = session.run(&["simulate", "unit.fmu", "--set", "p=1.4"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let x = run.table().column("x");
        assert_near(x[x.len() - 1], truth * (-truth / 1.5).exp(), 1e-4, kind);
    }
}

/// y = g x with g = 1 + sin(t)/2, or y = x^2, hidden by an equation that is added to another: the disturbance cancels
/// between them and is differentiated nowhere, so that one of pole excess 2 will do. The filter of the model written
/// without the detour must say the same.
#[test]
fn a_disturbance_that_cancels_is_not_differentiated() {
    let study = "[model]\nfile = \"model.mo\"\n[disturbances]\nv = { A = [[-1]], B = [[1]], C = [[0.3]] }\n\
                 [measurements]\nx = { std = 0.05 }\n[estimate]\nsignals = [\"x\", \"y\"]\n[data]\nfile = \"record.csv\"\n";
    let mut record = "t,x\n".to_owned();
    (0..21).map(|k| 0.1 * f64::from(k)).for_each(|t| record.push_str(&format!("{t},{}\n", (-0.4 * t).exp())));
    let head = "model M input Real v; Real x(start = 1, fixed = true), y; equation";
    let pairs = [
        (
            "der(x) + der(y) = v - x; der(x) + der(y) = v - x + y - (1 + sin(time)/2)*x;",
            "der(x) + der(y) = v - x; y = (1 + sin(time)/2)*x;",
        ),
        (
            "(1 + time)*der(x) + der(y) = v - x; (1 + time)^2*der(x) + (1 + time)*der(y) = (1 + time)*(v - x) + y - 2*x;",
            "(1 + time)*der(x) + der(y) = v - x; y = 2*x;",
        ),
        (
            "der(x) + x*der(y) = v - x; x*der(x) + x^2*der(y) = x*(v - x) + y - x^2;",
            "der(x) + x*der(y) = v - x; y = x^2;",
        ),
    ];
    for (hidden, plain) in pairs {
        let [found, expected] = [hidden, plain].map(|equations| {
            let session = Session::with_model(&format!("{head} {equations} end M;"));
            let run = session.with("study.toml", study).with("record.csv", &record).run(&[
                "estimate",
                "study.toml",
                "--json",
            ]);
            assert_eq!(run.status, 0, "{equations}: {}", run.stderr);
            run.json()["log_likelihood"].as_f64().unwrap()
        });
        assert!((found - expected).abs() < 1e-4 * expected.abs().max(1.0), "{hidden}: {found} instead of {expected}");
    }
}

/// y = v, hidden, and x + y keeps its value where v jumps: the residuals that a run is compared by have no part in that.
#[test]
fn inputs_may_jump_in_nonlinear_models_that_were_rewritten() {
    let model = "model M input Real v; Real x(start = 1, fixed = true), y; equation der(x) + der(y) = -x^3;
        x*der(x) + x*der(y) = -x^4 + y - v; end M;";
    let study = "[model]\nfile = \"model.mo\"\n[inputs]\nv = { expression = \"if time < 0.5 then 0 else 0.2\" }\n\
                 [simulate]\nstop = 1\nstep = 0.25\n";
    let run = Session::with_model(model).with("study.toml", study).run(&["simulate", "study.toml", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    finding(&document, "structure-misleads");
    let jumps = &document["events"][0]["jumps"];
    let [before, after] = [0, 1].map(|side| jumps["x"][side].as_f64().unwrap());
    // x' = -x^3 from 1: x = 1/sqrt(1 + 2 t).
    assert!((before - 0.5f64.sqrt()).abs() < 1e-5 && (after - before + 0.2).abs() < 1e-8, "{jumps}");
    assert!((jumps["y"][1].as_f64().unwrap() - 0.2).abs() < 1e-9);
}

/// With r1 = der(y1) - y2 and r2 = y1 - sin(time), the equations are E1 = r1 + m r2 and r2 + n E1, for factors m and n of
/// the variables: the same as r1 = r2 = 0, whatever the factors are. From a start beside y1 = sin(time) Newton's method
/// runs off to where rounding hides r2.
#[test]
fn a_start_that_ran_off_confirms_nothing() {
    let session = Session::with_model(
        "model Factors
  Real y1(start=0.03), y2(start=1.1);
equation
  der(y1) - y2 + (y2 + 2 + time)*(y1 - sin(time)) = 0;
  y1 - sin(time) + (3 + cos(y2))*(der(y1) - y2 + (y2 + 2 + time)*(y1 - sin(time))) = 0;
end Factors;
",
    );
    let document = session.check();
    assert_eq!(document["regularity"]["differentiation_index"], 2, "{document}");
    assert_eq!(document["structure"]["degrees_of_freedom"], 0);
    assert_near(last(&session, "y1"), 1f64.sin(), 1e-6, "y1");
    assert_near(last(&session, "y2"), 1f64.cos(), 1e-6, "y2");
}

/// r1 = der(y1) - y2, r2 = der(y2) - y3, r3 = y1 - sin(time) - 1, mixed by factors that depend on y3. No start is given.
#[test]
fn a_search_that_runs_off_and_finds_no_other_way_is_refused() {
    let session = Session::with_model(
        "model Runaway
  Real y1, y2, y3;
equation
  der(y2) - y3 = 0;
  y1 - sin(time) - 1 - 1.9*(der(y1) - y2) = 0;
  der(y1) - y2 + (exp(-y3/3) + y3)*(y1 - sin(time) - 1 - 1.9*(der(y1) - y2)) = 0;
end Runaway;
",
    );
    let run = session.run(&["simulate", "model.mo", "--json"]);
    if run.status == 0 {
        assert_near(last(&session, "y2"), 1f64.cos(), 1e-5, "y2");
    } else {
        assert!(codes(&run.json()).contains(&"no-consistent-start"), "{}", run.stdout);
    }
}

/// Index 2: y3 needs the derivative of y1 = cos(time), whatever known function of time it is multiplied by.
#[test]
fn a_known_factor_hides_no_differentiation() {
    let session = Session::with_model(
        "model Product
  Real y1, y2, y3;
equation
  der(y1) = y3*y2;
  y1 = cos(time);
  y2 = 2 + sin(time);
end Product;
",
    );
    let document = session.check();
    assert_eq!(document["regularity"]["differentiation_index"], 2, "{document}");
    let run = session.run(&["regularize", "model.mo", "--json"]);
    assert_eq!(run.json()["mu"], 1, "{}", run.stdout);
    assert_near(last(&session, "y3"), -1f64.sin() / (2.0 + 1f64.sin()), 1e-6, "y3");
}

/// What `time` multiplies vanishes at t = 0 alone: it is no reason to leave it out of equations that hold elsewhere too.
#[test]
fn terms_that_vanish_at_the_start_stay_in_the_strangeness_free_form() {
    let session = Session::with_model(
        "model Vanishing
  Real y1, y2(start=1, fixed=true);
equation
  y1 - 1 + time*(der(y2) + y2^3) = 0;
  der(y2) + y2^3 = 0;
end Vanishing;
",
    );
    let document = session.run(&["regularize", "model.mo", "--json"]).json();
    assert_eq!(texts(&document["algebraic"]), ["0 = y1 - 1"]);
    let session = Session::with_model(
        "model Vanishing
  Real y1, y2, y3;
equation
  der(y1) = y3^3 + y3;
  y1 - cos(time) + time*y2 = 0;
  y2 - 2 - sin(time) + time*(der(y1) - y3^3 - y3) = 0;
end Vanishing;
",
    );
    let document = session.run(&["regularize", "model.mo", "--json"]).json();
    assert_eq!(texts(&document["algebraic"])[0], "y1 - cos(time) + time*y2 = 0");
    // At t = 0 y1' = -y2 = -2, so that y3^3 + y3 = -2; y3 = -1 there, and nothing is written that says otherwise.
    assert!(texts(&document["algebraic"]).contains(&"0 = y3 + 1"), "{document}");
    finding(&document, "linearized");
}

/// A variable and its value at a time.
type Exact = (&'static str, fn(f64) -> f64);

/// Models whose structure misleads or whose start is special: declarations, equations, and variables that are known
/// functions of time.
struct Known {
    declarations: &'static str,
    equations: &'static str,
    solution: &'static [Exact],
}

const KNOWN: [Known; 6] = [
    Known {
        declarations: "Real y1, y2, y3;",
        equations: "y1 - cos(time) + 0.5*y2 + y3^2*(y2 - 2 - sin(time)) = 0; der(y1) = y3*y2; y2 = 2 + sin(time);",
        solution: &[
            ("y1", |t| t.cos() - 1.0 - 0.5 * t.sin()),
            ("y3", |t| (-t.sin() - 0.5 * t.cos()) / (2.0 + t.sin())),
        ],
    },
    Known {
        declarations: "Real y1(start=0.02), y2(start=1.057);",
        equations: "y1 - sin(time) + sin(time)*(der(y1) - y2 + y2^2*(y1 - sin(time))) = 0;
            der(y1) - y2 + y2^2*(y1 - sin(time))
              + cos(y2)*(y1 - sin(time) + sin(time)*(der(y1) - y2 + y2^2*(y1 - sin(time)))) = 0;",
        solution: &[("y1", f64::sin), ("y2", f64::cos)],
    },
    Known {
        declarations: "Real x, y, z; initial equation z = y;",
        equations: "x + y = time; x + (1 + time)*y = 3*time; der(z) = -z;",
        solution: &[("y", |_| 2.0), ("z", |t| 2.0 * (-t).exp())],
    },
    // The factors of v are zero along the solutions that begin as they do, not along others.
    Known {
        declarations: "Real x, v, z(start=1, fixed=true);",
        equations: "x - sin(time) + v*(z - exp(-time)) = 0; der(x) = v; der(z) = -z;",
        solution: &[("x", f64::sin), ("v", f64::cos)],
    },
    Known {
        declarations: "Real x, v, a(start=0, fixed=true), b(start=1, fixed=true);",
        equations: "x - sin(time) + v*(a^2 + b^2 - 1) = 0; der(x) = v; der(a) = b; der(b) = -a;",
        solution: &[("x", f64::sin), ("v", f64::cos)],
    },
    Known {
        declarations: "Real y, w, a(start=1, fixed=true);",
        equations: "y*(w - a^2) = w - a*a; w = a*a + time*0; der(a) = -a;",
        solution: &[("w", |t| (-2.0 * t).exp())],
    },
];

impl Known {
    /// The model with states of their own beside it.
    fn padded(&self, n: usize) -> Session {
        let (states, decay) = match n {
            0 => (String::new(), String::new()),
            n => (
                format!("Real q[{n}](each start=1, each fixed=true);"),
                format!("for i in 1:{n} loop der(q[i]) = -i/{n}*q[i]; end for;"),
            ),
        };
        let Self { declarations, equations, .. } = self;
        Session::with_model(&format!(
            "model Padded {states} {declarations} equation {equations} {decay}
  annotation (experiment(StopTime=1, Interval=0.125, Tolerance=1e-8));
end Padded;
"
        ))
    }
}

/// States that nothing else reads change neither the solution of the other equations nor what is said of them, however
/// many there are.
#[test]
fn independent_states_change_nothing() {
    for known in &KNOWN {
        let mut without = None;
        for n in [0, 215, 230, 500] {
            let session = known.padded(n);
            let run = session.run(&["simulate", "model.mo"]);
            assert_eq!(run.status, 0, "{n} beside {}: {}", known.equations, run.stderr);
            let table = run.table();
            let times = table.column("t");
            for (name, exact) in known.solution {
                for (t, value) in times.iter().zip(table.column(name)) {
                    assert_near(value, exact(*t), 1e-6, &format!("{n} states beside it: {name} at {t}"));
                }
            }
            let simulated = session.run(&["simulate", "model.mo", "--json"]).json();
            let checked = session.check();
            let number = |of: &str, key: &str| checked[of][key].as_u64();
            let free: Vec<&str> =
                texts(&checked["initial"]["free"]).into_iter().filter(|name| !name.starts_with("q[")).collect();
            let said = format!(
                "{:?} {:?} index {:?}, {:?} algebraic, {:?} redundant, {:?} free: {free:?}",
                codes(&simulated),
                codes(&checked),
                number("regularity", "differentiation_index"),
                number("regularity", "a"),
                number("regularity", "v"),
                number("structure", "degrees_of_freedom").map(|free| free - n as u64),
            );
            assert_eq!(*without.get_or_insert(said.clone()), said, "{n} beside {}", known.equations);
        }
    }
}

/// Behind a chain of 300 states that reads y3 and gives y1, so that 303 unknowns hang together, y1 is what it is alone.
#[test]
fn a_dependency_is_found_among_the_nearest_equations() {
    let session = Session::with_model(
        "model Chain
  Real y1, y2, y3, c[300](each start=1, each fixed=true);
equation
  y1 - cos(time) + 0.5*y2 + y3^2*(y2 - 2 - sin(time)) = 0;
  der(y1) = y3*y2 + 0.1*c[300];
  y2 = 2 + sin(time);
  der(c[1]) = y3 - c[1];
  for i in 2:300 loop
    der(c[i]) = c[i-1] - c[i];
  end for;
  annotation (experiment(StopTime=1, Interval=0.125, Tolerance=1e-8));
end Chain;
",
    );
    let run = session.run(&["simulate", "model.mo"]);
    let table = run.table();
    for (row, &t) in table.column("t").iter().enumerate() {
        let at = |name: &str| table.column(name)[row];
        assert_near(at("y1"), t.cos() - 1.0 - 0.5 * t.sin(), 1e-9, "y1");
        assert_near(at("y3"), (-t.sin() - 0.5 * t.cos() - 0.1 * at("c[300]")) / (2.0 + t.sin()), 1e-9, "y3");
    }
    let document = session.check();
    assert_eq!(document["regularity"]["differentiation_index"], 2);
    assert_eq!(document["structure"]["degrees_of_freedom"], 300);
}

/// A ring of 300 equations of which one follows from the others, at every time: too many for a derivative array, so
/// that values would be read from rounding errors. Every verb refuses it.
#[test]
fn a_model_that_is_too_large_to_be_rewritten_is_refused() {
    let session = Session::with_model(
        "model Ring
  parameter Integer n = 300;
  Real x[n];
equation
  for i in 1:n-1 loop
    x[i] - x[i+1] = sin(time + i);
  end for;
  x[n] - x[1] = -sum(sin(time + i) for i in 1:n-1) + 0*x[3]^2;
end Ring;
",
    );
    for verb in ["simulate", "check", "linearize"] {
        let run = session.run(&[verb, "model.mo", "--json"]);
        assert_eq!(run.status, 1, "{verb}");
        let document = run.json();
        let told = finding(&document, "numerically-singular");
        assert_eq!(told["level"], "error", "{verb}: {told}");
    }
}

/// What an equation determines linearly may be far from any guess: a flux of 1 over a current of nearly zero.
#[test]
fn large_values_that_equations_determine_linearly_are_no_search_that_ran_off() {
    let session = Session::with_model(
        "model Ratio
  Real i(start=0, fixed=true), inductance;
equation
  der(i) = 1;
  inductance*(abs(i) + 1e-15) = 1;
end Ratio;
",
    );
    assert_near(last(&session, "inductance"), 1.0, 1e-6, "inductance");
    assert_near(session.run(&["simulate", "model.mo"]).table().column("inductance")[0], 1e15, 1e-6, "at the start");
}

/// Where structure promises a free start value and there is none, a value that is insisted on contradicts the
/// equations: `check` says so with the words of `simulate`, and neither says so where the value is right. Twice the
/// first equation from the second leaves y = 2 sin(t) - 1, or y^3 = 2 sin(t) - 5.
#[test]
fn check_refuses_the_starts_that_simulate_refuses() {
    let linear = "-2*der(y) + 2*x - 3*y = sin(time); -4*der(y) + 4*x - 7*y = 1;";
    let cubic = "-2*der(y) + 2*x - 3*y = sin(time); -4*der(y) + 4*x - 6*y - y^3 = 5;";
    let aside = "-2*der(y) + 2*x - 3*y = sin(time); y + z = 1; -4*der(y) + 4*x - 7*y = 1;";
    let y_of_cubic = -5f64.cbrt();
    let x_of_cubic = 1.5 * y_of_cubic + 2.0 / (3.0 * y_of_cubic.powi(2));
    let cases = [
        (linear, "Real x(start = X, fixed = true), y;", "", 0.5),
        (linear, "Real x, y(start = X, fixed = true);", "", -1.0),
        (linear, "Real x, y;", "initial equation x = X;", 0.5),
        (aside, "Real x(start = X, fixed = true), y, z;", "", 0.5),
        (cubic, "Real x(start = -2.3), y(start = X, fixed = true);", "", y_of_cubic),
        (cubic, "Real x, y(start = -1.7);", "initial equation x = X;", x_of_cubic),
    ];
    for (equations, declared, initial, right) in cases {
        for value in [right, right + 1.5] {
            let value_text = format!("({value:?})");
            let model = format!("model M {declared} {initial} equation {equations} end M;").replace('X', &value_text);
            let session = Session::with_model(&model);
            let [checked, simulated] = ["check", "simulate"].map(|verb| session.run(&[verb, "model.mo", "--json"]));
            assert_eq!(checked.status, simulated.status, "{model}\n{}\n{}", checked.stderr, simulated.stderr);
            assert_eq!(simulated.status, i32::from(value != right), "{model}\n{}", simulated.stderr);
            let of_start = |document: &serde_json::Value| {
                let findings = document["findings"].as_array().unwrap();
                let found = findings.iter().filter(|finding| finding["code"] == "no-consistent-start");
                found.map(|finding| finding["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
            };
            let told = of_start(&checked.json());
            assert_eq!(told, of_start(&simulated.json()), "{model}");
            assert_eq!(told.len(), usize::from(value != right), "{model}");
        }
    }
}
