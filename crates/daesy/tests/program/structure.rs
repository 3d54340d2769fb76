//! Index, degrees of freedom, hidden constraints and free start values of models that were worked out by hand.

use serde_json::{Value, json};

use crate::session::{Session, codes, texts};

/// What was worked out.
struct Facts {
    equations: usize,
    index: u64,
    degrees_of_freedom: u64,
    hidden_constraints: u64,
    free: &'static [&'static str],
}

fn assert_facts(document: &Value, facts: &Facts) {
    let faults = codes(document).into_iter().filter(|code| *code != "start-changed");
    assert_eq!(faults.collect::<Vec<_>>(), Vec::<&str>::new(), "{document:#}");
    assert_eq!(document["size"]["equations"], facts.equations);
    assert_eq!(document["size"]["unknowns"], facts.equations);
    let structure = &document["structure"];
    assert_eq!(structure["structural_index"], facts.index);
    assert_eq!(structure["degrees_of_freedom"], facts.degrees_of_freedom);
    assert_eq!(structure["hidden_constraints"], facts.hidden_constraints);
    let regularity = &document["regularity"];
    assert_eq!(regularity["differentiation_index"], facts.index);
    assert_eq!(regularity["strangeness_index"], facts.index.saturating_sub(1));
    assert_eq!(regularity["d"], facts.degrees_of_freedom);
    assert_eq!(regularity["a"], facts.equations as u64 - facts.degrees_of_freedom);
    assert_eq!(regularity["v"], 0);
    assert_eq!(regularity["agrees_with_structure"], true);
    assert_eq!(document["initial"]["consistent"], true);
    assert_eq!(texts(&document["initial"]["free"]), facts.free);
}

/// x'' = -lambda x, y'' = -lambda y - g, x^2 + y^2 = 1 as five first-order equations. The length is a constraint on (x,
/// y); its first derivative x vx + y vy = 0 and its second, which contains lambda, are hidden. The derivative of the
/// second gives lambda' after the third differentiation: index 3. Of (x, y, vx, vy) two are constrained: 2 degrees of
/// freedom. The derivatives have rank 4 and 2 are free, so 2 constraints are hidden that a start value can violate
/// (length' and the definition of lambda).
#[test]
fn a_pendulum_in_cartesian_coordinates_has_index_3() {
    let session = Session::with_model(
        "model Pendulum
           Real x(start=0.6, fixed=true), y(start=-0.8), vx(start=0, fixed=true), vy, lambda;
         equation
           der(x) = vx;
           der(y) = vy;
           der(vx) = -lambda*x;
           der(vy) = -lambda*y - 9.81;
           x^2 + y^2 = 1;
         end Pendulum;",
    );
    let document = session.check();
    assert_facts(
        &document,
        &Facts { equations: 5, index: 3, degrees_of_freedom: 2, hidden_constraints: 2, free: &["x", "vx"] },
    );
    // The length is differentiated twice, the two definitions of velocities once each.
    let differentiated = document["structure"]["differentiated"].as_array().unwrap();
    let times: Vec<(&str, u64)> =
        differentiated.iter().map(|it| (it["equation"].as_str().unwrap(), it["times"].as_u64().unwrap())).collect();
    assert_eq!(times, [("der(x) = vx", 1), ("der(y) = vy", 1), ("x^2 + y^2 = 1", 2)]);
}

const ELECTRICAL: &str = "
package E
  connector Pin Real v; flow Real i; end Pin;
  partial model OnePort
    Pin p; Pin n; Real v; Real i;
  equation
    v = p.v - n.v;
    i = p.i;
    p.i + n.i = 0;
  end OnePort;
  model Resistor extends OnePort; parameter Real R = 100; equation v = R*i; end Resistor;
  model Capacitor extends OnePort; parameter Real C = 1e-3; equation i = C*der(v); end Capacitor;
  model Inductor extends OnePort; parameter Real L = 0.1; equation v = L*der(i); end Inductor;
  model Source extends OnePort; parameter Real A = 1; equation v = A*sin(time); end Source;
  model Ground Pin p; equation p.v = 0; end Ground;
";

/// Four one-ports of 6 variables each and a ground of 2: 26 equations. Current of the coil and voltage of the capacitor
/// are the states.
#[test]
fn an_rlc_circuit_of_components_has_index_1() {
    let session = Session::with_model(&format!(
        "{ELECTRICAL}
         model Rlc
           Source s; Resistor r; Inductor l(i(start=0.5, fixed=true)); Capacitor c(v(start=2, fixed=true)); Ground g;
         equation
           connect(s.p, r.p); connect(r.n, l.p); connect(l.n, c.p); connect(c.n, s.n); connect(s.n, g.p);
         end Rlc;
         end E;"
    ));
    let document = session.run(&["check", "model.mo", "--json", "--class", "E.Rlc"]).json();
    assert_facts(
        &document,
        &Facts { equations: 26, index: 1, degrees_of_freedom: 2, hidden_constraints: 0, free: &["l.i", "c.v"] },
    );
    assert_eq!(document["initial"]["changed"], json!({}));
}

/// The source fixes the capacitor's voltage: C v' = i needs one derivative of v = A sin(t), and i' one more. Nothing is
/// free; the only derivative is constrained by one hidden constraint.
#[test]
fn a_capacitor_across_a_source_has_index_2_and_nothing_free() {
    let session = Session::with_model(&format!(
        "{ELECTRICAL}
         model Across
           Source s; Capacitor c(v(start=3)); Ground g;
         equation
           connect(s.p, c.p); connect(s.n, c.n); connect(s.n, g.p);
         end Across;
         end E;"
    ));
    let document = session.run(&["check", "model.mo", "--json", "--class", "E.Across"]).json();
    assert_facts(
        &document,
        &Facts { equations: 14, index: 2, degrees_of_freedom: 0, hidden_constraints: 1, free: &[] },
    );
    // The capacitor's voltage follows from the source, which is zero at the start.
    assert_eq!(document["initial"]["changed"]["c.v"], json!([3.0, 0.0]));
}

const REACTOR: &str = "
  Real c(start=1), T(start=300), R(start=1), T_C(start=300);
  parameter Real c0 = 2, T0 = 350, k1 = 0.1, k2 = 5, k3 = 0.5, k4 = 300;
equation
  der(c) = k1*(c0 - c) - R;
  der(T) = k1*(T0 - T) + k2*R - k3*(T - T_C);
  R = k3*exp(-k4/T)*c;
";

/// campbell2011, example 2 with the cooling T_C given: R and T_C follow from (c, T, u) directly.
#[test]
fn the_cooled_reactor_has_index_1() {
    let session =
        Session::with_model(&format!("model Reactor input Real u(start=300); {REACTOR} T_C = u; end Reactor;"));
    let document = session.check();
    assert_facts(
        &document,
        &Facts { equations: 4, index: 1, degrees_of_freedom: 2, hidden_constraints: 0, free: &["c", "T"] },
    );
    assert_eq!(document["inputs"]["u"]["derivatives_needed"], 0);
}

/// campbell2011, example 2 with c = u prescribed: c' gives R (one derivative of u), R' gives T' (two), hence T_C; T_C'
/// needs a third. So index 3, the start is fixed by u and its derivatives, and T_C contains u''.
#[test]
fn the_reactor_with_prescribed_concentration_has_index_3_and_differentiates_its_input_twice() {
    let session = Session::with_model(&format!("model Reactor input Real u; {REACTOR} c = u; end Reactor;"))
        .with("study.toml", "[model]\nfile = \"model.mo\"\n[inputs]\nu = { expression = \"1 + 0.01*sin(time)\" }\n");
    let document = session.run(&["check", "study.toml", "--json"]).json();
    assert_facts(&document, &Facts { equations: 4, index: 3, degrees_of_freedom: 0, hidden_constraints: 2, free: &[] });
    assert_eq!(document["inputs"]["u"]["derivatives_needed"], 2);
    assert_eq!(document["inputs"]["u"]["derivatives_available"], Value::Null);
    // Samples held in between cannot be differentiated at all: every jump is an impulse in T_C.
    let session = session.with(
        "held.toml",
        "[model]\nfile = \"model.mo\"\n[inputs]\nu = { column = \"u\", hold = \"zoh\" }\n[data]\nfile = \"later.csv\"\n",
    );
    let run = session.run(&["check", "held.toml", "--json"]);
    let document = run.json();
    assert_eq!(document["inputs"]["u"], json!({ "derivatives_needed": 2, "derivatives_available": 0 }));
    let warning = crate::session::finding(&document, "input-not-smooth");
    assert_eq!((&warning["level"], &warning["line"], &warning["column"]), (&json!("warning"), &json!(4), &json!(1)));
}

/// Two wheels J1 w1' = tau - t1, J2 w2' = t2 on a gear phi1 = r phi2, t2 = r t1. The gear is differentiated twice to
/// meet the accelerations, which contain the torque; its derivative needs a third: index 3. One angle and one speed are
/// free.
#[test]
fn wheels_coupled_by_a_gear_have_index_3_and_move_as_one() {
    let session = Session::with_model(
        "model Gear
           input Real tau;
           parameter Real r = 10, J1 = 0.01, J2 = 0.5;
           Real phi1(start=0, fixed=true), w1(start=0, fixed=true), phi2, w2, t1, t2;
         equation
           der(phi1) = w1;
           der(phi2) = w2;
           J1*der(w1) = tau - t1;
           J2*der(w2) = t2;
           phi1 = r*phi2;
           t2 = r*t1;
         end Gear;",
    );
    assert_facts(
        &session.check(),
        &Facts { equations: 6, index: 3, degrees_of_freedom: 2, hidden_constraints: 2, free: &["phi1", "w1"] },
    );
}

/// Two rigidly coupled inertias without a gear: the angles are equal, so alias elimination removes one, but the verdict
/// is about the model as written.
#[test]
fn inertias_on_one_shaft_have_index_3_although_the_equality_is_eliminated() {
    let session = Session::with_model(
        "model Shaft
           Real phi1(start=1, fixed=true), w1(start=2, fixed=true), phi2, w2, tau;
         equation
           der(phi1) = w1;
           der(phi2) = w2;
           2*der(w1) = -tau;
           3*der(w2) = tau - w2;
           phi1 = phi2;
         end Shaft;",
    );
    assert_facts(
        &session.check(),
        &Facts { equations: 5, index: 3, degrees_of_freedom: 2, hidden_constraints: 2, free: &["phi1", "w1"] },
    );
}

/// A slider-crank: two rods couple a pin (x, y) and a slider at height zero (z), all with mass: x, y, z and their
/// velocities, two constraints of length with forces a and b. Three coordinates less two constraints leave one: an
/// angle and its speed are free, 2 degrees of freedom; the 6 derivatives leave 4 hidden constraints.
#[test]
fn a_slider_crank_has_index_3_and_one_way_to_move() {
    let session = Session::with_model(
        "model Crank
           Real x(start=0.6, fixed=true), y(start=0.8), z(start=2.4), vx(start=0, fixed=true), vy, vz, a, b;
         equation
           der(x) = vx;
           der(y) = vy;
           der(z) = vz;
           der(vx) = -a*x - b*(x - z);
           der(vy) = -a*y - b*y - 9.81;
           der(vz) = -b*(z - x);
           x^2 + y^2 = 1;
           (z - x)^2 + y^2 = 4;
         end Crank;",
    );
    let document = session.check();
    assert_facts(
        &document,
        &Facts { equations: 8, index: 3, degrees_of_freedom: 2, hidden_constraints: 4, free: &["x", "vx"] },
    );
    // z = 0.6 + sqrt(4 - 0.64)
    let changed = &document["initial"]["changed"]["z"];
    assert_eq!(changed[0], 2.4);
    assert!((changed[1].as_f64().unwrap() - (0.6 + 3.36f64.sqrt())).abs() < 1e-8, "{changed}");
}

/// No derivatives at all, and no equations at all.
#[test]
fn algebraic_and_empty_models_are_sound() {
    let session = Session::with_model("model A Real x, y; equation x + y = time; x - y = 1; end A;");
    assert_facts(
        &session.check(),
        &Facts { equations: 2, index: 1, degrees_of_freedom: 0, hidden_constraints: 0, free: &[] },
    );
    let session = Session::with_model("model B parameter Real p = 1; end B;");
    assert_facts(
        &session.check(),
        &Facts { equations: 0, index: 0, degrees_of_freedom: 0, hidden_constraints: 0, free: &[] },
    );
}

/// x'' = -x written with der(der(x)): two degrees of freedom in the first-order form.
#[test]
fn second_derivatives_count_in_first_order_form() {
    let session = Session::with_model(
        "model Second Real x(start=1, fixed=true); Real v(start=0, fixed=true); equation v = der(x); der(v) = -x; end Second;",
    );
    let document = session.check();
    assert_eq!(document["structure"]["degrees_of_freedom"], 2);
    assert_eq!(texts(&document["initial"]["free"]), ["x", "v"]);
}

/// Entries of 1e-12 beside those of one are a matter of units, not of rank.
#[test]
fn picofarads_are_no_singularity() {
    let session = Session::with_model(
        "model M parameter Real C = 1.6e-12; Real q, v(start=0, fixed=true), qs, i, u, w;
         equation q = C*v; der(q) = i; i = der(qs); qs = 1e-13*(u - w); u = sin(time) - v; w = v^3; end M;",
    );
    let document = session.check();
    assert_eq!(document["regularity"]["differentiation_index"], 2);
    assert!(!codes(&document).contains(&"numerically-singular"), "{document}");
}

/// The report for a person says the same in words.
#[test]
fn the_report_speaks_of_index_constraints_start_values_and_inputs() {
    let session = Session::with_model(&format!("model Reactor \"Cooled\" input Real u; {REACTOR} c = u; end Reactor;"))
        .with("study.toml", "[model]\nfile = \"model.mo\"\n[inputs]\nu = { expression = \"1 + 0.01*sin(time)\" }\n");
    let run = session.run(&["check", "study.toml"]);
    assert_eq!(run.status, 0);
    for words in [
        "Model Reactor: Cooled\n",
        "4 equations for 4 unknowns; 6 parameters, 1 input\n",
        "It is a differential-algebraic equation of index 3",
        "Numbers at the start confirm it",
        "2 hidden constraints come from differentiating these 3 equations:\n",
        "R = k3*exp(-k4/T)*c  (once)  [model.mo:7:3]",
        "No start value is free",
        "The input `u` is differentiated twice",
    ] {
        assert!(run.stdout.contains(words), "`{words}` is not in\n{}", run.stdout);
    }
}

#[test]
fn inputs_that_a_study_forgets_are_told() {
    let model = "model M input Real u; input Real w(start = 3); parameter Real a = 1; Real x(start = 0, fixed = true); \
                 equation der(x) = -a*x + u + w; end M;";
    let held = |study: &str, verb: &str| {
        let run = Session::with_model(model).with("study.toml", study).run(&[verb, "study.toml", "--json"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let document = run.json();
        let finding = document["findings"].as_array().unwrap().iter().find(|one| one["code"] == "input-held").cloned();
        finding.map(|finding| finding["message"].as_str().unwrap().to_owned())
    };
    let empty = "[model]\nfile = \"model.mo\"\n";
    for verb in ["check", "simulate"] {
        let told = held(empty, verb).unwrap();
        assert!(told.contains("`u` at 0") && told.contains("`w` at 3"), "{told}");
        let one = held(&format!("{empty}[inputs]\nu = {{ expression = \"sin(time)\" }}\n"), verb).unwrap();
        assert!(!one.contains("`u`") && one.contains("`w` at 3"), "{one}");
        let both = "[inputs]\nu = { expression = \"sin(time)\" }\n[disturbances]\nw = { white = 0.1 }\n";
        assert_eq!(held(&format!("{empty}{both}"), verb), None);
    }
}

#[test]
fn derivatives_of_inputs_are_counted_by_numbers_and_smoothness_by_the_expression() {
    // Both equations with der(a) seem to differentiate u; their difference does not hold its derivative.
    let model = "model M input Real u; Real a, b; equation der(a) + a + b = u; der(a) + b = time; end M;";
    let needed = |study: &str, key: &str| {
        let run = Session::with_model(model).with("study.toml", study).run(&["check", "study.toml", "--json"]);
        let document = run.json();
        (document["inputs"]["u"][key].clone(), document["findings"].to_string())
    };
    let given = |expression: &str, breaks: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[inputs]\nu = {{ expression = \"{expression}\", breaks = [{breaks}] }}\n"
        )
    };
    // a = u - time, b = time - der(u) + 1.
    let smooth = given("if time < 1 then 0 else (time - 1)^2", "1.0");
    assert_eq!(needed(&smooth, "derivatives_needed").0, 1);
    assert!(!needed(&smooth, "derivatives_needed").1.contains("input-not-smooth"));
    let step = given("if time < 1 then 0 else 1", "1.0");
    assert_eq!(needed(&step, "derivatives_available").0, 0);
    assert!(needed(&step, "derivatives_needed").1.contains("input-not-smooth"));
    // x2 = 2 x1 = 2 u: structure differentiates both for the third equation, where the derivatives cancel.
    let model =
        "model M input Real u; Real x1, x2, x3; equation x1 = u; x2 - 2*x1 = 0; x3 = 2*der(x1) - der(x2) + u; end M;";
    let study = "[model]\nfile = \"model.mo\"\n[inputs]\nu = { expression = \"sin(time)\" }\n";
    let run = Session::with_model(model).with("study.toml", study).run(&["check", "study.toml", "--json"]);
    assert_eq!(run.json()["inputs"]["u"]["derivatives_needed"], 0, "{}", run.stdout);
}

/// Linear models with coefficients that depend on time, made of z2 = g(t) and z1' = .. by combinations that depend on
/// time: what is free and the index are known by hand. What `check` says of structure and of starts is what its ranks
/// say.
#[test]
fn ranks_of_time_varying_matrices_overrule_structure() {
    for (equations, index, free) in [
        // The second less t times the first is x2 = t^2, so that x1 = 2 t.
        ("der(x2) - x1 = 0; time*der(x2) - time*x1 + x2 = time^2;", 2, 0),
        // The derivative of the second put into the first leaves x1.
        ("(1 - time)*der(x1) - 3*x1 + der(x2) - time*x2 = 1; (1 - time)*x1 + x2 = time;", 2, 0),
        // With y = x2 - t x1: y' = -y and, from the second, x1 = cos(t).
        (
            "der(x2) - x1 - time*der(x1) + x2 - time*x1 = 0;
             2*(der(x2) - x1 - time*der(x1) + x2 - time*x1) + x1 = cos(time);",
            1,
            1,
        ),
    ] {
        let document = Session::with_model(&format!("model M Real x1, x2; equation {equations} end M;")).check();
        let (structure, regularity) = (&document["structure"], &document["regularity"]);
        assert_eq!(regularity["d"], free, "{equations}: {document}");
        assert_eq!(regularity["differentiation_index"], index, "{equations}: {document}");
        assert_eq!(structure["degrees_of_freedom"], free, "{equations}: {document}");
        assert_eq!(document["initial"]["free"].as_array().unwrap().len(), free, "{equations}: {document}");
        assert!(index < 2 || structure["hidden_constraints"].as_u64() > Some(0), "{equations}: {document}");
    }
}

/// With a = b the second equation is c = sin(time), so that a = b = c + der(c) = sin(time) + cos(time).
#[test]
fn derivatives_of_aliases_that_cancel_are_no_fault_of_the_model() {
    let session = Session::with_model(
        "model Aliases
  Real a, b, c;
equation
  der(c) = -c + a;
  der(a) - der(b) = -c + sin(time);
  a - b = 0;
end Aliases;
",
    );
    let document = session.check();
    assert_eq!(document["structure"]["degrees_of_freedom"], 0, "{document}");
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    let b = table.column("b");
    assert!((b[b.len() - 1] - (1f64.sin() + 1f64.cos())).abs() < 1e-6, "{}", b[b.len() - 1]);
}

/// y follows from y^3 + y = x without its derivative, which a force of zero takes out of p.
#[test]
fn a_derivative_that_zero_takes_out_is_not_needed() {
    let model = "model M Real x(start=2, fixed=true), y, tau, p;
                 equation der(x) = -x; y^3 + y = x; tau = 0; p = x + tau*der(y); end M;";
    let run = Session::with_model(model).run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    for ((&t, y), p) in table.column("t").iter().zip(table.column("y")).zip(table.column("p")) {
        assert!((p - 2.0 * (-t).exp()).abs() < 1e-6 && (y * y * y + y - p).abs() < 1e-6, "{t}: {y} {p}");
    }
}
