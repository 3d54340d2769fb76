//! `daesy regularize` on the examples of the papers and on models that are not square, not constant, not linear.

use std::path::Path;

use daesy::linearize::LinearKind;
use daesy::load::{LoadOptions, Loaded, load_study_text};
use daesy::regular_form::linear::{LinearForm, RegularizeOptions, linear_form};

fn study(text: &str) -> Loaded {
    load_study_text("study.toml", text, Path::new(""), &LoadOptions::default())
        .unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"))
}

fn form(text: &str, options: &RegularizeOptions) -> LinearForm {
    linear_form(&study(text), options).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"))
}

fn integers(form: &LinearForm) -> [usize; 4] {
    [form.mu, form.d, form.a, form.v]
}

/// campbell2011, example 4, with the capacitor voltage as output.
const CIRCUIT: &str = r#"
[parameters]
L = 2.0
C = 0.5
R = 3.0
[linear]
E = [["L", 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
F = [[0, 1, 0, 0], ["1/C", 0, 0, 0], ["-R", 0, 0, 1], [0, 1, 1, 1]]
G = [[0], [0], [0], [-1]]
H = [[0, 0, 1, 0]]
names = { z = ["I", "vL", "vC", "vR"], u = ["vs"], y = ["y"] }
"#;

#[test]
fn the_circuit_of_campbell_example_4_keeps_its_variables() {
    let form = form(CIRCUIT, &RegularizeOptions::default());
    assert_eq!(form.kind, LinearKind::Constant);
    assert_eq!(integers(&form), [0, 2, 2, 0]);
    assert_eq!(form.states, ["I", "vL", "vC", "vR"]);
    assert_eq!(form.inputs, ["vs"]);
    assert!(form.moved.is_empty());
    assert_eq!(form.differential, ["der(I) = 0.5*vL", "der(vC) = 2*I"]);
    assert_eq!(form.outputs, ["y = vC"]);
    // Both Kirchhoff's and Ohm's law hold at a point that satisfies them: I = 1, vR = 3, vL = 4, vC = 5, vs = 12.
    let (m, x) = (&form.matrices, [1.0, 4.0, 5.0, 3.0]);
    for row in 0..2 {
        let sum: f64 = (0..4).map(|at| m.a2[(row, at)] * x[at]).sum::<f64>() + 12.0 * m.b2[(row, 0)];
        assert!(sum.abs() < 1e-12, "{}", form.algebraic[row]);
    }
}

#[test]
fn the_inductor_voltage_may_be_the_input_as_in_campbell_example_9() {
    let options = RegularizeOptions { inputs: vec!["vL".into()], ..RegularizeOptions::default() };
    let form = form(CIRCUIT, &options);
    assert_eq!(form.inputs, ["vL"]);
    assert!(form.states.contains(&"vs".to_owned()));
    assert_eq!(form.moved.len(), 2);
    // Now vs follows from the others: vs = vL + vC + vR with vR = R I.
    assert!(form.algebraic.iter().any(|text| text.contains("vs")));
}

#[test]
fn a_wish_for_an_unknown_name_is_answered_with_the_nearest() {
    let options = RegularizeOptions { inputs: vec!["vl".into()], ..RegularizeOptions::default() };
    let errors = linear_form(&study(CIRCUIT), &options).expect_err("no such name");
    assert_eq!(errors[0].code, "unknown-name");
    assert_eq!(errors[0].help.as_deref(), Some("did you mean `vL`?"));
}

/// z2' = z1, z3' = z2, 0 = z3 - u.
const CHAIN: &str = r#"
[linear]
E = [[0, 1, 0], [0, 0, 1], [0, 0, 0]]
F = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
G = [[0], [0], [-1]]
"#;

#[test]
fn a_chain_with_a_given_input_needs_its_derivatives() {
    let options = RegularizeOptions { given_inputs: true, ..RegularizeOptions::default() };
    let form = form(CHAIN, &options);
    assert_eq!(integers(&form), [2, 0, 3, 0]);
    assert_eq!(form.algebraic, ["0 = z1 - der(der(u1))", "0 = z2 - der(u1)", "0 = z3 - u1"]);
}

#[test]
fn a_chain_as_behaviour_makes_its_end_the_input() {
    let form = form(CHAIN, &RegularizeOptions::default());
    assert_eq!(integers(&form), [0, 2, 1, 0]);
    assert_eq!(form.inputs, ["z1"]);
    assert_eq!(form.states, ["z2", "z3", "u1"]);
    assert_eq!(form.differential, ["der(z2) = z1", "der(z3) = z2"]);
}

#[test]
fn a_feedback_makes_a_free_variable_follow() {
    // z1' = z2, 0 = z1 - u: z2 is not determined unless the input reacts to it.
    let text = "[linear]\nE = [[1, 0], [0, 0]]\nF = [[0, 1], [1, 0]]\nG = [[0], [-1]]\n";
    let options = RegularizeOptions { feedback: true, ..RegularizeOptions::default() };
    let form = form(text, &options);
    let feedback = form.feedback.as_ref().expect("asked for");
    assert_eq!(feedback.n_repaired, 1);
    let m = &form.matrices;
    // det [E1; A2 + B2 K] != 0: regular and strangeness-free.
    let closed = |at: usize| m.a2[(0, at)] + m.b2[(0, 0)] * feedback.k[(0, at)];
    let determinant = m.e1[(0, 0)] * closed(1) - m.e1[(0, 1)] * closed(0);
    assert!(determinant.abs() > 0.1, "{determinant}");
}

#[test]
fn feed_through_is_removed_by_making_the_output_a_state() {
    // With vL as input, y = vL feeds through.
    let text = CIRCUIT.replace("H = [[0, 0, 1, 0]]", "H = [[0, 1, 0, 0]]");
    let options =
        RegularizeOptions { inputs: vec!["vL".into()], remove_feedthrough: true, ..RegularizeOptions::default() };
    let form = form(&text, &options);
    let free = form.feedthrough.as_ref().expect("asked for");
    assert_eq!(free.added, ["y"]);
    assert_eq!(free.e.nrows(), 5);
    // y is the last state, whatever the sign of the singular vector.
    let last = free.c[(0, 4)];
    assert!((last.abs() - 1.0).abs() < 1e-12 && (0..4).all(|at| free.c[(0, at)].abs() < 1e-12));
}

#[test]
fn contradicting_equations_are_named_and_left_out_on_request() {
    // Three equations for two unknowns; the last two contradict each other for the known forcing of a Modelica model.
    let folder = std::env::temp_dir().join(format!("daesy-linear-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("twice.mo");
    let model =
        "model Twice\n  Real x;\n  Real y;\nequation\n  der(x) = -x + y;\n  x + y = 1;\n  2*x + 2*y = 3;\nend Twice;\n";
    std::fs::write(&path, model).expect("writable");
    let loaded = daesy::load::load(&path, &LoadOptions::default()).expect("flattens");
    let errors = linear_form(&loaded, &RegularizeOptions::default()).expect_err("contradiction");
    let error = errors.iter().find(|error| error.code == "contradicting-equations").expect("named");
    assert!(error.names.iter().any(|name| name == "x + y = 1"), "{:?}", error.names);
    let options = RegularizeOptions { drop_redundant: true, ..RegularizeOptions::default() };
    let form = linear_form(&loaded, &options).expect("left out");
    assert_eq!([form.d, form.a, form.v], [1, 1, 1]);
    // A nonlinear model has no matrices.
    let path = folder.join("square.mo");
    std::fs::write(&path, "model Square\n  Real x;\nequation\n  der(x) = -x*x;\nend Square;\n").expect("writable");
    let loaded = daesy::load::load(&path, &LoadOptions::default()).expect("flattens");
    let errors = linear_form(&loaded, &RegularizeOptions::default()).expect_err("nonlinear");
    assert!(errors[0].code == "nonlinear" && errors[0].message.contains("`x`"));
    std::fs::remove_dir_all(&folder).expect("removable");
}

#[test]
fn a_modelica_model_of_second_order_gets_its_derivative_as_variable() {
    let folder = std::env::temp_dir().join(format!("daesy-second-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let path = folder.join("spring.mo");
    let model = "model Spring\n  parameter Real m = 2;\n  parameter Real c = 8;\n  input Real force;\n  Real x;\n  Real v;\n\
                 equation\n  v = der(x);\n  m*der(v) + c*x = force;\nend Spring;\n";
    std::fs::write(&path, model).expect("writable");
    let loaded = daesy::load::load(&path, &LoadOptions::default()).expect("flattens");
    let form = linear_form(&loaded, &RegularizeOptions::default()).expect("linear");
    assert_eq!(form.differential, ["der(x) = v", "der(v) = -4*x + 0.5*force"]);
    std::fs::remove_dir_all(&folder).expect("removable");
}

#[test]
fn time_varying_coefficients_are_differentiated() {
    // barton2002, section 4.3, in spirit: x1' + t x2' = 0, 0 = x1 + t x2 + u. Freezing t would give a regular index-1
    // system; but (x1 + t x2)' = x1' + t x2' + x2, hence x2 = -u' and the system has no dynamics.
    let text = r#"
[linear]
E = [[1, "time"], [0, 0]]
F = [[0, 0], [1, "time"]]
G = [[0], [1]]
"#;
    let options = RegularizeOptions { given_inputs: true, time: Some(0.7), ..RegularizeOptions::default() };
    let form = form(text, &options);
    assert_eq!(form.kind, LinearKind::TimeVarying);
    assert_eq!(integers(&form), [1, 0, 2, 0]);
    assert_eq!(form.algebraic, ["0 = z1 + u1 - 0.7*der(u1)", "0 = z2 + der(u1)"]);
}
