//! The nonlinear examples of campbell2011 behave as the paper says.

use crate::session::{Session, codes, texts};

/// Examples 1, 5 and 6: three links with point masses at their ends; the last link stays level and its end on a line.
/// Absolute angles p, relative ones theta. M(p) p'' + .. = u + G^T lambda, g(p) = 0.
const MANIPULATOR: &str = "model Manipulator
  parameter Real l1 = 1, l2 = 0.8, l3 = 0.5, l = 1.6, m1 = 2, m2 = 1.5, m3 = 1, g = 9.81;
  Real theta1(start=0.9), theta2(start=-1), theta3(start=0.1), p1, p2, p3, v1(start=0, fixed=true), v2, v3, lambda1, lambda2;
  Real energy, height;
  input Real u1, u2, u3;
equation
  p1 = theta1;
  p2 = theta1 + theta2;
  p3 = theta1 + theta2 + theta3;
  der(p1) = v1;
  der(p2) = v2;
  der(p3) = v3;
  (m1 + m2 + m3)*l1^2*der(v1) + (m2 + m3)*l1*l2*cos(p1 - p2)*der(v2) + m3*l1*l3*cos(p1 - p3)*der(v3)
    + (m2 + m3)*l1*l2*sin(p1 - p2)*v2^2 + m3*l1*l3*sin(p1 - p3)*v3^2 + (m1 + m2 + m3)*g*l1*cos(p1)
    = u1 - u2 - l1*sin(p1)*lambda1;
  (m2 + m3)*l1*l2*cos(p1 - p2)*der(v1) + (m2 + m3)*l2^2*der(v2) + m3*l2*l3*cos(p2 - p3)*der(v3)
    - (m2 + m3)*l1*l2*sin(p1 - p2)*v1^2 + m3*l2*l3*sin(p2 - p3)*v3^2 + (m2 + m3)*g*l2*cos(p2)
    = u2 - u3 - l2*sin(p2)*lambda1;
  m3*l1*l3*cos(p1 - p3)*der(v1) + m3*l2*l3*cos(p2 - p3)*der(v2) + m3*l3^2*der(v3)
    - m3*l1*l3*sin(p1 - p3)*v1^2 - m3*l2*l3*sin(p2 - p3)*v2^2 + m3*g*l3*cos(p3)
    = u3 - l3*sin(p3)*lambda1 + lambda2;
  0 = l1*cos(p1) + l2*cos(p2) + l3*cos(p3) - l;
  0 = p3;
  height = l1*sin(p1) + l2*sin(p2) + l3*sin(p3);
  energy = 0.5*m1*l1^2*v1^2
    + 0.5*m2*(l1^2*v1^2 + l2^2*v2^2 + 2*l1*l2*cos(p1 - p2)*v1*v2)
    + 0.5*m3*(l1^2*v1^2 + l2^2*v2^2 + l3^2*v3^2 + 2*l1*l2*cos(p1 - p2)*v1*v2 + 2*l1*l3*cos(p1 - p3)*v1*v3
      + 2*l2*l3*cos(p2 - p3)*v2*v3)
    + g*(m1*l1*sin(p1) + m2*(l1*sin(p1) + l2*sin(p2)) + m3*height);
  annotation (experiment(StopTime=0.5, Interval=0.05));
end Manipulator;
";

#[test]
fn the_three_link_manipulator_has_strangeness_index_2_and_keeps_its_energy() {
    let session = Session::with_model(MANIPULATOR);
    let document = session.check();
    // With theta1 given, the constraints determine theta2 and theta3.
    assert_eq!(codes(&document), ["start-changed", "start-changed"]);
    let regularity = &document["regularity"];
    assert_eq!(regularity["strangeness_index"], 2);
    assert_eq!(regularity["differentiation_index"], 3);
    assert_eq!(regularity["d"], 2);
    assert_eq!(regularity["v"], 0);
    // Example 6: g(p) = 0 and g_p v = 0 bind the start values of p and v; lambda follows.
    assert_eq!(document["initial"]["consistent"], true);
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    let energy = table.column("energy");
    assert!(energy.iter().all(|e| (e - energy[0]).abs() < 1e-4 * energy[0].abs()), "{energy:?}");
    for row in 0..energy.len() {
        let at = |name: &str| table.column(name)[row];
        assert!((at("p1").cos() + 0.8 * at("p2").cos() + 0.5 * at("p3").cos() - 1.6).abs() < 1e-7);
        assert!((at("p1").sin() * at("v1") + 0.8 * at("p2").sin() * at("v2")).abs() < 1e-6);
        assert!(at("p3").abs() < 1e-9);
    }
    // All constraints, explicit and hidden, for given torques: two on positions, two on velocities, two for the
    // multipliers.
    let form = session.run(&["regularize", "model.mo", "--given-inputs", "--json"]).json();
    assert_eq!([&form["mu"], &form["d"], &form["v"]], [2, 2, 0]);
    assert_eq!(form["hidden"], 4, "{form:#}");
    assert_eq!(texts(&form["algebraic"]).len() as u64, form["a"].as_u64().unwrap());
}

const REACTOR: &str = "model Reactor
  parameter Real c0 = 1000, T0 = 350, k1 = 0.1, k2 = 0.05, k3 = 0.5, k4 = 500;
  Real c(start=500), T(start=300), R(start=50);
  input Real T_C(start=300);
equation
  der(c) = k1*(c0 - c) - R;
  der(T) = k1*(T0 - T) + k2*R - k3*(T - T_C);
  R = k3*exp(-k4/T)*c;
end Reactor;
";

/// Example 2: with T_C given the index is 1; with c prescribed and T_C asked for it is 3, and the report says why.
#[test]
fn the_reactor_has_index_1_or_3() {
    let session = Session::with_model(REACTOR);
    let document = session.check();
    assert_eq!(document["regularity"]["differentiation_index"], 1);
    let form = session.run(&["regularize", "model.mo", "--json"]).json();
    assert_eq!([&form["mu"], &form["d"], &form["a"], &form["v"]], [0, 2, 1, 0]);
    assert_eq!(texts(&form["variables"]["inputs"]), ["T_C"]);
    assert_eq!(texts(&form["algebraic"]), ["R = k3*exp(-k4/T)*c"]);
    let prescribed = Session::with_model(
        &REACTOR
            .replace("input Real T_C(start=300);", "Real T_C(start=300);\n  input Real u(start=500);")
            .replace("*c;\nend", "*c;\n  c = u;\nend"),
    );
    let run = prescribed.run(&["check", "model.mo"]);
    assert!(
        run.stdout.contains("index 3") && run.stdout.contains("der(c) = k1*(c0 - c) - R  (once)"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("The input `u` is differentiated twice"), "{}", run.stdout);
    let form = prescribed.run(&["regularize", "model.mo", "--given-inputs", "--json"]).json();
    assert_eq!([&form["mu"], &form["d"], &form["a"], &form["hidden"]], [2, 0, 4, 2]);
    assert_eq!(texts(&form["algebraic"])[2], "0 = k1*(c0 - c) - R - der(u)");
}

/// Example 7: x2' = 0, log x2 + sin u = 0. As a behaviour strangeness-free with d = a = 1; x1 is free. With u = x1 + w
/// it is regular as a free system.
#[test]
fn a_feedback_makes_the_seventh_example_regular() {
    let session = Session::with_model(
        "model Example7
           Real x1, x2(start=1);
           input Real u;
         equation
           der(x2) = 0;
           log(x2) + sin(u) = 0;
         end Example7;",
    );
    let form = session.run(&["regularize", "model.mo", "--json"]).json();
    assert_eq!(form["kind"], "nonlinear");
    assert_eq!([&form["mu"], &form["d"], &form["a"], &form["v"]], [0, 1, 1, 0]);
    assert_eq!(texts(&form["variables"]["states"]), ["x2", "u"]);
    assert_eq!(texts(&form["variables"]["inputs"]), ["x1"]);
    let form = session.run(&["regularize", "model.mo", "--feedback", "--json"]).json();
    assert_eq!(texts(&form["feedback"]["law"]), ["u = x1 + w1"]);
    let k = &form["feedback"]["K"][0];
    assert_eq!((k[0].as_f64(), k[1].as_f64()), (Some(1.0), Some(0.0)));
    // With the feedback in place the model is of index 1.
    let closed = Session::with_model(
        "model Closed
           Real x1, x2(start=1, fixed=true), u;
           input Real w;
         equation
           der(x2) = 0;
           log(x2) + sin(u) = 0;
           u = x1 + w;
         end Closed;",
    );
    assert_eq!(closed.check()["regularity"]["differentiation_index"], 1);
}
