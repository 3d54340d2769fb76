//! Problems with published values at the end: the error falls with the tolerance, for every index.

use std::path::Path;

use crate::session::{Session, Table};

struct Problem {
    folder: &'static str,
    class: &'static str,
    stop: f64,
    /// Errors are relative to this plus the value.
    scale: f64,
    /// Values at the end, from the Test Set for IVP Solvers.
    end: &'static [(&'static str, f64)],
}

/// The largest mixed error at the end.
fn error(problem: &Problem, rtol: f64) -> f64 {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems").join(problem.folder).join("model.mo");
    let study = format!(
        "[model]\nfile = {:?}\nclass = \"{}\"\n[simulate]\nstop = {:e}\nstep = {:e}\nrtol = {rtol:e}\natol = {:e}\n",
        model,
        problem.class,
        problem.stop,
        problem.stop,
        rtol * problem.scale
    );
    let run = Session::new().with("study.toml", &study).run(&["simulate", "study.toml"]);
    assert_eq!(run.status, 0, "{} at {rtol:e}: {}", problem.folder, run.stderr);
    let table = Table::parse(&run.stdout);
    let errors = problem.end.iter().map(|&(name, value)| {
        let found = *table.column(name).last().unwrap();
        (found - value).abs() / (problem.scale + value.abs())
    });
    errors.fold(0.0, f64::max)
}

fn sweep(problem: &Problem) {
    let errors: Vec<f64> = [1e-3, 1e-4, 1e-6, 1e-8, 1e-10].into_iter().map(|rtol| error(problem, rtol)).collect();
    // The published values have nine to twelve digits.
    for pair in errors[1..].windows(2) {
        assert!(pair[1] < (0.5 * pair[0]).max(1e-9), "{}: {errors:?}", problem.folder);
    }
    assert!(errors[0] < 0.1 && errors[4] < 1e-6, "{}: {errors:?}", problem.folder);
}

#[test]
fn chemical_akzo_nobel() {
    let end = &[
        ("y1", 0.1150794920661702),
        ("y2", 0.001203831471567715),
        ("y3", 0.1611562887407974),
        ("y4", 0.0003656156421249283),
        ("y5", 0.01708010885264404),
        ("y6", 0.004873531310307455),
    ];
    sweep(&Problem { folder: "akzo_nobel", class: "AkzoNobel", stop: 180.0, scale: 1e-3, end });
}

#[test]
fn robertson() {
    let end = &[("y1", 2.083340149701255e-8), ("y2", 8.333360770334713e-14), ("y3", 0.999999979166505)];
    sweep(&Problem { folder: "robertson", class: "Robertson", stop: 1e11, scale: 1e-6, end });
}

#[test]
fn transistor_amplifier() {
    let end = &[
        ("y1", -0.005562145012262709),
        ("y2", 3.006522471903042),
        ("y3", 2.849958788608128),
        ("y4", 2.926422536206241),
        ("y5", 2.704617865010554),
        ("y6", 2.761837778393145),
        ("y7", 4.770927631616772),
        ("y8", 1.236995868091548),
    ];
    for class in ["TransistorAmplifier.Branches", "TransistorAmplifier.Nodes"] {
        sweep(&Problem { folder: "transistor_amplifier", class, stop: 0.2, scale: 1.0, end });
    }
}

#[test]
fn car_axis_of_index_3() {
    let end = &[
        ("xl", 0.04934557842754028),
        ("yl", 0.49698946023017115),
        ("xr", 1.0417425248854215),
        ("yr", 0.37391102726536124),
        ("vxl", -0.07705836840409723),
        ("vyl", 0.007446866587237785),
        ("vxr", 0.017556815753723223),
        ("vyr", 0.7703410437792519),
    ];
    sweep(&Problem { folder: "car_axis", class: "CarAxis", stop: 3.0, scale: 1.0, end });
}

/// Eighteen tubes in which flow becomes turbulent and laminar again; pressures relative to their size.
#[test]
fn water_tubes_of_index_2() {
    let end = &[
        ("phi[1]", 0.00229848829647743),
        ("phi[4]", 0.0001589620100314825),
        ("phi[7]", 0.003243571480903489),
        ("phi[12]", 0.003403428519096511),
        ("phi[18]", 0.005746220741193575),
        ("lambda[7]", 0.04311196778792902),
        ("p[5]", 111126.8591478108),
        ("p[13]", 111129.8338971779),
    ];
    let problem = Problem { folder: "water_tubes", class: "WaterTubes", stop: 61200.0, scale: 1e-3, end };
    let errors: Vec<f64> = [1e-5, 1e-7, 1e-9].into_iter().map(|rtol| error(&problem, rtol)).collect();
    assert!(errors[0] < 1e-2 && errors[2] < 1e-6 && errors[2] < errors[0], "{errors:?}");
}

#[test]
fn andrews_squeezer_of_index_3() {
    let end = &[
        ("q[1]", 15.81077119629904),
        ("q[2]", -15.75637105984298),
        ("q[3]", 0.04082224013073101),
        ("q[4]", -0.5347301163226948),
        ("q[5]", 0.5244099658805303),
        ("q[6]", 0.5347301163226948),
        ("q[7]", 1.048080741042263),
    ];
    sweep(&Problem { folder: "andrews_squeezer", class: "AndrewsSqueezer", stop: 0.03, scale: 1.0, end });
}

/// Twenty bodies on a sphere that come to rest; two of the published positions.
#[test]
fn fekete_points_of_index_3() {
    let end = &[
        ("p[1,1]", -0.4070263380333202),
        ("p[1,2]", 0.3463758772791802),
        ("p[1,3]", 0.8451942450030429),
        ("p[2,1]", 0.0775293475252155),
        ("p[2,2]", -0.2628662719972299),
        ("p[2,3]", 0.9617122871829146),
    ];
    let problem = Problem { folder: "fekete", class: "Fekete", stop: 1e3, scale: 1.0, end };
    assert!(error(&problem, 1e-4) < 1e-3);
    assert!(error(&problem, 1e-7) < 1e-7);
}

/// Oscillations that die out between stiff stretches, tens of thousands of steps.
#[test]
fn ring_modulator() {
    let end = &[
        ("y[1]", -0.2339057358486745e-1),
        ("y[2]", -0.7367485485540825e-2),
        ("y[7]", 0.1106761861269975),
        ("y[10]", 0.7267198267264553e-3),
        ("y[14]", 0.7088495416976114e-4),
    ];
    let problem = Problem { folder: "ring_modulator", class: "RingModulator", stop: 1e-3, scale: 1e-3, end };
    let errors = [1e-4, 1e-7].map(|rtol| error(&problem, rtol));
    assert!(errors[0] < 1e-3 && errors[1] < 1e-6, "{errors:?}");
}

/// Pulses whose edges are met and transistors that change their law at 69 events.
#[test]
fn nand_gate() {
    let end = &[
        ("result.u", 4.970837023296724),
        ("middle.u", -0.20902895838781),
        ("load.rs.n.v", 4.971088699385777),
        ("load.rd.n.v", 4.999752103929311),
        ("upper.rs.n.v", -0.2091214032073855),
        ("upper.rd.n.v", 4.970593243278363),
        ("upper.js.p.v", -2.500077409198803),
        ("lower.rs.n.v", -0.2399999999966269e-3),
    ];
    let problem = Problem { folder: "nand_gate", class: "NandGate.Circuit", stop: 80.0, scale: 1.0, end };
    let errors = [1e-4, 1e-6, 1e-8, 1e-10].map(|rtol| error(&problem, rtol));
    assert!(errors[0] < 1e-3 && errors[1] < 1e-6 && errors[2] < 5e-8 && errors[3] < 1e-9, "{errors:?}");
}

/// Contact of wheels and rails in the published form; the published values have about six digits.
#[test]
fn wheelset_of_index_2() {
    let end = &[
        ("x", 0.86355386965811e-2),
        ("y", 0.13038281022727e-4),
        ("theta", -0.13642299804033e-1),
        ("phi", 0.15292895005422e-2),
        ("vx", -0.76985374142666e-1),
        ("vtheta", -0.23904837703692),
        ("beta", -0.24421377661131),
        ("lambda[1]", -0.10124044903201e-1),
        ("c[1].xi", 0.14173214964613),
    ];
    let problem = Problem { folder: "wheelset", class: "Wheelset.Velocities", stop: 10.0, scale: 1.0, end };
    // At 1e-8 a relation is false for 4e-7 s only, and zero but for rounding when that begins.
    for rtol in [1e-7, 1e-8] {
        let error = error(&problem, rtol);
        assert!(error < 1e-5, "{error:e} at {rtol:e}");
    }
}

/// Several hundred turns: the length and the direction of the velocity stay at rounding.
#[test]
fn a_pendulum_that_turns_over_does_not_drift() {
    let session = Session::with_model(
        "model M Real x(start=0, fixed=true); Real y(start=-1); Real vx(start=7, fixed=true); Real vy; Real lambda; Real energy;
         equation der(x) = vx; der(y) = vy; der(vx) = -lambda*x; der(vy) = -lambda*y - 9.81; x^2 + y^2 = 1;
           energy = (vx^2 + vy^2)/2 + 9.81*y;
         annotation(experiment(StopTime=300, Interval=3, Tolerance=1e-8)); end M;",
    );
    let table = session.run(&["simulate", "model.mo"]).table();
    let [x, y, vx, vy] = ["x", "y", "vx", "vy"].map(|name| table.column(name));
    for row in 0..x.len() {
        assert!((x[row].powi(2) + y[row].powi(2) - 1.0).abs() < 1e-12, "length in row {row}");
        assert!((x[row] * vx[row] + y[row] * vy[row]).abs() < 1e-11, "velocity in row {row}");
    }
    let energy = table.column("energy");
    assert!((energy[energy.len() - 1] - energy[0]).abs() < 1e-4, "{} {}", energy[0], energy[energy.len() - 1]);
}

/// A stiff lag behind a wave has a closed form. Outputs are much closer to each other than steps, and steps that only
/// had to end well would be longer than the wave.
#[test]
fn tolerances_hold_between_steps() {
    let model = "model Lag Real x(start=3, fixed=true); Real y; input Real u; equation der(x) = 1000*(u - x); y = x^2 + u; end Lag;";
    for digits in 2..10 {
        let rtol = 10f64.powi(-digits);
        let study = format!(
            "[model]\nfile = \"lag.mo\"\n[inputs]\nu = {{ expression = \"cos(time)\" }}\n[simulate]\nstop = 6\nstep = 0.01\n\
            rtol = {rtol:e}\natol = {rtol:e}\n"
        );
        let run = Session::new().with("lag.mo", model).with("study.toml", &study).run(&["simulate", "study.toml"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = Table::parse(&run.stdout);
        for ((time, x), y) in table.column("t").iter().zip(table.column("x")).zip(table.column("y")) {
            let wave = |time: f64| (1e6 * time.cos() + 1e3 * time.sin()) / (1e6 + 1.0);
            let exact = wave(*time) + (3.0 - wave(0.0)) * (-1e3 * time).exp();
            assert!((x - exact).abs() < 4.0 * rtol, "x({time}) = {x} instead of {exact} at {rtol:e}");
            assert!((y - (x * x + time.cos())).abs() < 1e-9, "y({time}) = {y} at {rtol:e}");
        }
    }
}

/// (y - s) (y - s - 10) = 0 has two solutions. What begins at y = s stays there, however far s goes between two steps,
/// with a state that does not move or without one.
#[test]
fn equations_with_several_solutions_keep_theirs() {
    for (state, equation) in [("", ""), ("Real x(start=1, fixed=true);", "der(x) = 0;")] {
        let model = format!(
            "model M {state} Real s = 20*sin(12.566370614359172*time), y(start=0);
             equation {equation} (y - s)*(y - s - 10) = 0;
             annotation(experiment(StopTime=10, Interval=0.01)); end M;"
        );
        let run = Session::with_model(&model).run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = run.table();
        let pairs = table.column("s").into_iter().zip(table.column("y"));
        let n_off = pairs.filter(|(s, y)| (s - y).abs() > 1e-6).count();
        assert_eq!(n_off, 0, "{state}");
    }
}

/// Steps, rejected ones too, are the same however many rows are read: of stiff parts, of unknowns that Newton's method
/// finds, of what rests, with events and without.
#[test]
fn steps_do_not_depend_on_the_rows_that_are_read() {
    let stiff = "Real x(start=1, fixed=true), y(start=0, fixed=true);
         equation der(x) = -1000*(x - cos(time)); der(y) = x - y^3;";
    let searched = "Real x(start=1, fixed=true), y(start=1), z(start=0.5);
         equation der(x) = -y*x; y + exp(y) = x + 3; z^3 + z = x*y;";
    let resting = "Real x(start=0, fixed=true), y(start=0);
         equation der(x) = if time < 1 then 1 else 0; y + y^3 = sin(3*time) + x;";
    let without_states = "Real y(start=0); Boolean b = y > 0.5;
         equation y + y^3 = sin(3*time) + (if b then 0.01 else 0);";
    let bouncing = "Real h(start=1, fixed=true), v(start=0, fixed=true);
         equation der(h) = v; der(v) = -9.81 - 0.1*v*abs(v);
         when h < 0 then reinit(v, -0.8*pre(v)); end when;";
    for body in [stiff, searched, resting, without_states, bouncing] {
        let counts = ["0.003", "0.01", "0.25", "2"].map(|interval| {
            let model = format!("model M {body} annotation(experiment(StopTime=2, Interval={interval})); end M;");
            let document = Session::with_model(&model).run(&["simulate", "model.mo", "--json"]).json();
            [document["steps"].as_u64().unwrap(), document["rejected"].as_u64().unwrap()]
        });
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?} for {body}");
    }
}
