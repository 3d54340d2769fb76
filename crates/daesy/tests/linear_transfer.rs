//! Jumps and impulses in simulations of linear models, against solutions worked out by hand.

use std::path::Path;

use daesy::load::{LoadOptions, Loaded, load_study_text};
use daesy::simulate::{Trajectory, simulate};
use daesy::transfer::{Event, EventKind};

fn study(text: &str) -> Loaded {
    load_study_text("study.toml", text, Path::new(""), &LoadOptions::default())
        .unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"))
}

fn run(text: &str) -> Trajectory {
    simulate(&study(text)).unwrap_or_else(|failure| panic!("{failure:?}"))
}

fn jump(event: &Event, name: &str) -> [f64; 2] {
    let jump = event.jumps.iter().find(|jump| jump.name == name).unwrap_or_else(|| panic!("{name} in {event:?}"));
    [jump.before, jump.after]
}

fn impulse(event: &Event, name: &str) -> Vec<f64> {
    event
        .impulses
        .iter()
        .find(|impulse| impulse.name == name)
        .map_or_else(Vec::new, |impulse| impulse.coefficients.clone())
}

fn assert_close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{found:?} {expected:?}");
    for (a, b) in found.iter().zip(expected) {
        assert!((a - b).abs() <= tolerance, "{found:?} {expected:?}");
    }
}

/// Values of a column at a time; two at a discontinuity.
fn at(trajectory: &Trajectory, name: &str, time: f64) -> Vec<f64> {
    let table = &trajectory.table;
    let column = table.column(name).expect("a column");
    let rows = (0..table.n_rows()).filter(|&row| (table.columns[0][row] - time).abs() < 1e-9);
    rows.map(|row| column[row]).collect()
}

const SPAN: &str = "[simulate]\nstop = 3.0\nstep = 0.5\nrtol = 1e-8\natol = 1e-10\n";

#[test]
fn a_unit_step_in_barton_3_1_makes_both_variables_jump() {
    let trajectory = run(&format!(
        "[linear]\nE = [[1, 2], [0, 0]]\nF = [[0, 0], [-1, -1]]\nG = [[0], [1]]\nnames = {{ z = [\"x1\", \"x2\"], u = [\"f\"] }}\n\
         [inputs]\nf = {{ expression = \"if time < 1 then 0 else 1\" }}\n{SPAN}"
    ));
    let [event] = &trajectory.events[..] else { panic!("{:?}", trajectory.events) };
    assert_eq!((event.time, event.kind), (1.0, EventKind::InputBreak));
    assert_eq!(event.continuous, ["x1 + 2*x2"]);
    let ([x1, y1], [x2, y2]) = (jump(event, "x1"), jump(event, "x2"));
    assert_close(&[y1 - x1, y2 - x2], &[2.0, -1.0], 1e-9);
    assert!(event.impulses.is_empty());
    // Two rows at the break, and the new values stay.
    assert_close(&at(&trajectory, "x1", 1.0), &[0.0, 2.0], 1e-8);
    assert_close(&at(&trajectory, "x2", 1.0), &[0.0, -1.0], 1e-8);
    assert_close(&at(&trajectory, "x1", 3.0), &[2.0], 1e-7);
}

/// z2' = z1, z3' = z2, z4' = z3, 0 = z4 - u, and x' = -x + z1: a chain of index 4 that drives a lag.
fn chain(input: &str) -> Trajectory {
    run(&format!(
        "[linear]\n\
         E = [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1]]\n\
         F = [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [1, 0, 0, 0, -1]]\n\
         G = [[0], [0], [0], [-1], [0]]\n\
         names = {{ z = [\"z1\", \"z2\", \"z3\", \"z4\", \"x\"], u = [\"u\"] }}\n\
         [inputs]\nu = {input}\n{SPAN}"
    ))
}

#[test]
fn a_step_through_a_chain_of_index_4_is_answered_by_derivatives_of_delta() {
    let trajectory = chain("{ expression = \"if time < 1 then 0 else 1\" }");
    let [event] = &trajectory.events[..] else { panic!("{:?}", trajectory.events) };
    assert_close(&jump(event, "z4"), &[0.0, 1.0], 1e-9);
    assert_eq!(impulse(event, "z4"), Vec::<f64>::new());
    assert_close(&impulse(event, "z3"), &[1.0], 1e-9);
    assert_close(&impulse(event, "z2"), &[0.0, 1.0], 1e-9);
    assert_close(&impulse(event, "z1"), &[0.0, 0.0, 1.0], 1e-9);
    // x' = -x + delta'': x = delta' - delta + exp(-(t - 1)).
    assert_close(&jump(event, "x"), &[0.0, 1.0], 1e-9);
    assert_close(&impulse(event, "x"), &[-1.0, 1.0], 1e-9);
    assert_close(&at(&trajectory, "x", 3.0), &[(-2.0f64).exp()], 1e-6);
    // x - u'' + u' - u satisfies an ordinary differential equation: no step and no later derivative moves it.
    assert!(event.continuous.contains(&"z2 - z3 + z4 - x".to_owned()), "{:?}", event.continuous);
}

#[test]
fn a_ramp_through_a_chain_of_index_4_is_one_order_milder() {
    let trajectory = chain("{ expression = \"if time < 1 then 0 else time - 1\" }");
    let [event] = &trajectory.events[..] else { panic!("{:?}", trajectory.events) };
    assert!(event.jumps.iter().all(|jump| jump.name != "z4"));
    assert_close(&jump(event, "z3"), &[0.0, 1.0], 1e-9);
    assert_close(&impulse(event, "z2"), &[1.0], 1e-9);
    assert_close(&impulse(event, "z1"), &[0.0, 1.0], 1e-9);
    // x' = -x + delta': x = delta - exp(-(t - 1)).
    assert_close(&jump(event, "x"), &[0.0, -1.0], 1e-9);
    assert_close(&impulse(event, "x"), &[1.0], 1e-9);
    assert_close(&at(&trajectory, "z4", 3.0), &[2.0], 1e-7);
    assert_close(&at(&trajectory, "x", 3.0), &[-(-2.0f64).exp()], 1e-6);
}

#[test]
fn an_impulse_through_a_chain_of_index_4_is_one_order_harsher() {
    let trajectory = chain("{ impulses = [{ time = 1.0, area = 0.5 }] }");
    let [event] = &trajectory.events[..] else { panic!("{:?}", trajectory.events) };
    assert_eq!(event.kind, EventKind::Impulse);
    assert_close(&impulse(event, "u"), &[0.5], 0.0);
    assert_close(&impulse(event, "z4"), &[0.5], 1e-9);
    assert_close(&impulse(event, "z1"), &[0.0, 0.0, 0.0, 0.5], 1e-9);
    // x' = -x + 0.5 delta''': x = 0.5 (delta'' - delta' + delta - exp(-(t - 1))).
    assert_close(&jump(event, "x"), &[0.0, -0.5], 1e-9);
    assert_close(&impulse(event, "x"), &[0.5, -0.5, 0.5], 1e-9);
    assert_close(&at(&trajectory, "x", 3.0), &[-0.5 * (-2.0f64).exp()], 1e-6);
}

#[test]
fn an_impulse_at_the_start_moves_the_state_of_a_lag() {
    let trajectory = run(&format!(
        "[linear]\nE = [[1]]\nF = [[-1]]\nG = [[1]]\n[inputs]\nu1 = {{ impulses = [{{ time = 0.0, area = 2.0 }}, {{ time = 2.0, \
         area = -1.0 }}] }}\n{SPAN}"
    ));
    assert_eq!(trajectory.events.len(), 2);
    assert_close(&at(&trajectory, "z1", 0.0), &[0.0, 2.0], 1e-9);
    let before = 2.0 * (-2.0f64).exp();
    assert_close(&at(&trajectory, "z1", 2.0), &[before, before - 1.0], 1e-6);
}

#[test]
fn time_varying_constraints_move_the_multiplier_by_their_own_rate() {
    // x1' = l, x2' = l, 0 = t x1 + x2 - u: after a step at t = 1 both x are 1/(1 + t) and l is -1/(1 + t)^2. With
    // frozen coefficients l would not jump at all.
    let trajectory = run(&format!(
        "[linear]\nE = [[1, 0, 0], [0, 1, 0], [0, 0, 0]]\nF = [[0, 0, 1], [0, 0, 1], [\"time\", 1, 0]]\nG = [[0], [0], [-1]]\n\
         names = {{ z = [\"x1\", \"x2\", \"l\"], u = [\"u\"] }}\n\
         [inputs]\nu = {{ expression = \"if time < 1 then 0 else 1\" }}\n{SPAN}"
    ));
    let [event] = &trajectory.events[..] else { panic!("{:?}", trajectory.events) };
    assert_close(&jump(event, "x1"), &[0.0, 0.5], 1e-8);
    assert_close(&jump(event, "x2"), &[0.0, 0.5], 1e-8);
    assert_close(&jump(event, "l"), &[0.0, -0.25], 1e-8);
    assert_close(&impulse(event, "l"), &[0.5], 1e-8);
    assert_eq!(event.continuous, ["x1 - x2"]);
    assert_close(&at(&trajectory, "x1", 3.0), &[0.25], 1e-6);
    assert_close(&at(&trajectory, "l", 3.0), &[-1.0 / 16.0], 1e-6);
}

#[test]
fn held_data_make_an_event_at_every_sample_that_differs() {
    let folder = std::env::temp_dir().join(format!("daesy-held-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    std::fs::write(folder.join("u.csv"), "t,u\n0,0\n1,1\n2,1\n3,4\n").expect("writable");
    let text = "[linear]\nE = [[1, 0], [0, 0]]\nF = [[-1, 0], [0, -1]]\nG = [[1], [2]]\n[inputs]\nu1 = { column = \"u\", hold = \"zoh\" }\n\
                [data]\nfile = \"u.csv\"\ntime = \"t\"\n[simulate]\nstop = 4.0\nstep = 0.5\nrtol = 1e-8\n";
    let loaded = load_study_text("study.toml", text, &folder, &LoadOptions::default()).expect("reads");
    let trajectory = simulate(&loaded).unwrap_or_else(|failure| panic!("{failure:?}"));
    let times: Vec<f64> = trajectory.events.iter().map(|event| event.time).collect();
    assert_eq!(times, [1.0, 3.0]);
    assert_eq!(trajectory.events[1].continuous, ["z1"]);
    assert_close(&jump(&trajectory.events[1], "z2"), &[2.0, 8.0], 1e-8);
    assert_close(&jump(&trajectory.events[1], "u1"), &[1.0, 4.0], 0.0);
    std::fs::remove_dir_all(&folder).expect("removable");
}

/// x' = -x^2 + delta(t - 1/2) from x(0) = 1: x(1/2) = 2/3 before the impulse and 5/3 after it.
#[test]
fn an_impulse_on_a_nonlinear_model_adds_its_area() {
    let folder = std::env::temp_dir().join(format!("daesy-kick-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    std::fs::write(
        folder.join("kick.mo"),
        "model Kick\n  input Real u;\n  Real x(start = 1);\nequation\n  der(x) = -x^2 + u;\nend Kick;\n",
    )
    .expect("writable");
    let text = "[model]\nfile = \"kick.mo\"\n[inputs]\nu = { impulses = [{ time = 0.5, area = 1.0 }] }\n[simulate]\nstep = 0.25\n";
    let loaded = load_study_text("study.toml", text, &folder, &LoadOptions::default()).expect("reads");
    let trajectory = simulate(&loaded).unwrap_or_else(|failure| panic!("{failure:?}"));
    assert_close(&jump(&trajectory.events[0], "x"), &[2.0 / 3.0, 5.0 / 3.0], 1e-6);
    std::fs::remove_dir_all(&folder).expect("removable");
}

/// z1' + z2' = -z1, z1' + z2' = z2 - u: structure sees an ordinary differential equation, but z1 + z2 = u, hence z1 =
/// -u' and z2 = u + u'.
fn misleading(input: &str) -> Trajectory {
    run(&format!(
        "[linear]\nE = [[1, 1], [1, 1]]\nF = [[-1, 0], [0, 1]]\nG = [[0], [-1]]\n[inputs]\nu1 = {input}\n{SPAN}"
    ))
}

#[test]
fn a_model_whose_structure_misleads_is_simulated_by_its_values() {
    let trajectory = misleading("{ expression = \"sin(time)\" }");
    assert!(trajectory.diagnostics.iter().any(|diagnostic| diagnostic.code == "structure-misleads"));
    for time in [0.0f64, 1.0, 2.5] {
        assert_close(&at(&trajectory, "z1", time), &[-time.cos()], 1e-7);
        assert_close(&at(&trajectory, "z2", time), &[time.sin() + time.cos()], 1e-7);
    }
}

#[test]
fn a_step_into_a_model_whose_structure_misleads_makes_impulses() {
    let trajectory = misleading("{ expression = \"if time < 1 then 0 else 2\" }");
    let [event] = &trajectory.events[..] else { panic!("{:?}", trajectory.events) };
    assert_close(&impulse(event, "z1"), &[-2.0], 1e-9);
    assert_close(&impulse(event, "z2"), &[2.0], 1e-9);
    assert_close(&jump(event, "z2"), &[0.0, 2.0], 1e-9);
    assert_close(&at(&trajectory, "z2", 3.0), &[2.0], 1e-8);
}
