//! Events through the program, against solutions worked out by hand.

use crate::session::{Session, finding};
use serde_json::Value;

fn events(document: &Value) -> &Vec<Value> {
    document["events"].as_array().unwrap()
}

/// Times of the events at which a variable jumps.
fn jump_times(document: &Value, name: &str) -> Vec<f64> {
    let jumps = events(document).iter().filter(|event| event["jumps"].get(name).is_some());
    jumps.map(|event| event["time"].as_f64().unwrap()).collect()
}

fn assert_close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found} instead of {expected}");
}

fn simulate(model: &str) -> Value {
    let run = Session::with_model(model).run(&["simulate", "model.mo", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.json()
}

/// The finding of a run that fails.
fn failure(model: &str, status: i32) -> Value {
    let session = Session::with_model(model);
    let run = session.run(&["simulate", "model.mo", "--json", "-o", "out.csv"]);
    assert_eq!(run.status, status, "{}", run.stderr);
    // What the method gives up on keeps its table; what is refused has none.
    assert!(status == 3 || session.files() == ["model.mo"], "{:?}", session.files());
    run.json()["findings"][0].clone()
}

/// T' = -(T - 10)/10 + 2 heats towards 30, without heating towards 10: 18 to 22 takes 10 ln(12/8), 22 to 20 takes 10
/// ln(12/10).
#[test]
fn a_thermostat_switches_when_it_should() {
    let document = simulate(
        "model M Real T(start=18, fixed=true); Boolean on(start=true, fixed=true);
         equation der(T) = -0.1*(T - 10) + (if on then 2 else 0);
           on = if pre(on) then T < 22 else T < 20;
         annotation(experiment(StopTime=9, Interval=0.5)); end M;",
    );
    let times = jump_times(&document, "on");
    let up = 10.0 * (10.0f64 / 8.0).ln();
    let down = 10.0 * (12.0f64 / 10.0).ln();
    let first = 10.0 * 1.5f64.ln();
    for (time, expected) in times.iter().zip([first, first + down, first + down + up]) {
        assert_close(*time, expected, 1e-6, "switching time");
    }
    assert_eq!(times.len(), 3);
}

/// x' = x + u with u = -3 x(kT): x((k+1)T) = e^T x(kT) + (e^T - 1) u.
#[test]
fn a_sampled_controller_acts_at_its_ticks() {
    let run = Session::with_model(
        "model M Real x(start=1, fixed=true); discrete Real u(start=0); Integer k(start=0);
         equation der(x) = x + u; when sample(0, 0.1) then u = -3*x; k = pre(k) + 1; end when;
         annotation(experiment(StopTime=1, Interval=0.1, Tolerance=1e-9)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    let table = run.table();
    let (t, x, k) = (table.column("t"), table.column("x"), table.column("k"));
    let mut expected = 1.0;
    for tick in 0..=10 {
        let row = t.iter().rposition(|time| (time - 0.1 * f64::from(tick)).abs() < 1e-9).unwrap();
        assert_close(x[row], expected, 1e-8, "state at a tick");
        assert_eq!(k[row], f64::from(tick + 1));
        expected = 0.1f64.exp() * expected - 3.0 * (0.1f64.exp() - 1.0) * expected;
    }
}

/// x' = -0.1 x from 1: what a clock rounds and compares is looked at when it ticks, and nothing happens in between.
#[test]
fn what_a_clock_alone_reads_makes_no_events_of_its_own() {
    let session = Session::with_model(
        "model M Real x(start=1, fixed=true); discrete Real q(start=0, fixed=true), r(start=0, fixed=true);
           discrete Boolean big(start=false, fixed=true);
         equation der(x) = -0.1*x;
           when sample(0, 0.25) then
             q = floor(1000*x)/1000; r = mod(x, 0.01); big = x > 0.95;
           end when;
         annotation(experiment(StopTime=1.1, Interval=0.55, Tolerance=1e-9)); end M;",
    );
    let events = session.run(&["simulate", "model.mo", "--json"]).json()["events"].as_array().unwrap().clone();
    let times: Vec<f64> = events.iter().map(|event| event["time"].as_f64().unwrap()).collect();
    assert_eq!(times, [0.0, 0.25, 0.5, 0.75, 1.0]);
    let run = session.run(&["simulate", "model.mo"]);
    let table = run.table();
    let x = (-0.1f64).exp();
    assert_close(*table.column("q").last().unwrap(), (1000.0 * x).floor() / 1000.0, 1e-12, "rounded value");
    assert_close(*table.column("r").last().unwrap(), x - (x / 0.01).floor() * 0.01, 1e-8, "rest");
    assert_eq!(*table.column("big").last().unwrap(), 0.0);
}

/// A relation that starts a when-clause has one value there, in its condition and in what it does.
#[test]
fn a_relation_is_true_in_the_clause_that_it_starts() {
    let run = Session::with_model(
        "model M Real x(start=0, fixed=true); discrete Integer n(start=0, fixed=true);
         equation der(x) = 1 + x;
           when x > 0.3 then n = if x > 0.3 then 1 else 2; end when;
         end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(*run.table().column("n").last().unwrap(), 1.0);
}

/// Every row keeps the ideal diode's law, and the capacitor is charged where the source is above it.
#[test]
fn an_ideal_diode_blocks_or_conducts() {
    let run = Session::with_model(
        "model M Real vs, vd, id, s, vc(start=0, fixed=true); Boolean off;
         equation vs = 10*sin(6.283185307179586*time); off = s < 0;
           vd = s*(if off then 1 else 0); id = s*(if off then 0 else 1);
           vs = id + vd + vc; 0.01*der(vc) = id - vc/10;
         annotation(experiment(StopTime=1.2, Interval=0.01)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    let table = run.table();
    let (vd, id, off) = (table.column("vd"), table.column("id"), table.column("off"));
    for row in 0..vd.len() {
        assert!(
            vd[row] < 1e-9 && id[row] > -1e-9 && (vd[row] * id[row]).abs() < 1e-9,
            "row {row}: {} {}",
            vd[row],
            id[row]
        );
    }
    assert!(off.contains(&1.0) && off.contains(&0.0));
    // Blocking, the capacitor discharges by exp(-t/0.1).
    let (t, vc) = (table.column("t"), table.column("vc"));
    let from = t.iter().position(|time| *time > 0.5).unwrap();
    let to = t.iter().position(|time| *time > 0.9).unwrap();
    assert_close(vc[to], vc[from] * (-(t[to] - t[from]) / 0.1).exp(), 1e-5, "voltage");
}

/// Stuck until k x = Fs at t = 1, then x'' = Fd - k x until the speed is that of the belt again: w t = 2 pi - 2
/// atan((Fs - Fd) w/(k vb)).
#[test]
fn a_block_on_a_belt_sticks_and_slips() {
    let document = simulate(
        "model M parameter Real k=10, vb=0.2, Fs=2, Fd=1.5;
           Real x(start=0, fixed=true), v(start=0.2, fixed=true); Boolean stuck(start=true, fixed=true);
         equation der(x) = v; der(v) = if stuck then 0 else Fd - k*x;
           when pre(stuck) and k*x > Fs then stuck = false;
           elsewhen not pre(stuck) and v > vb then stuck = true; reinit(v, vb); end when;
         annotation(experiment(StopTime=3, Interval=0.05, Tolerance=1e-8)); end M;",
    );
    let times = jump_times(&document, "stuck");
    let w = 10.0f64.sqrt();
    let slip = (2.0 * std::f64::consts::PI - 2.0 * (0.05 * w / 0.2).atan()) / w;
    assert_close(times[0], 1.0, 1e-7, "first slip");
    assert_close(times[1], 1.0 + slip, 1e-6, "sticking again");
}

/// A pendulum of index 3 falls from 0.2 above its lowest point against a wall there: speed sqrt(2 g 0.2), then 0.8 of
/// it, and a rise of 0.64 times 0.2.
#[test]
fn a_pendulum_of_index_three_bounces_from_a_wall() {
    let model = "model M parameter Real g=9.81;
           Real x(start=0.6, fixed=true), y(start=-0.8), vx(start=0, fixed=true), vy, F;
         equation der(x) = vx; der(y) = vy; der(vx) = -F*x; der(vy) = -F*y - g; x^2 + y^2 = 1;
           when x <= 0 then reinit(vx, -0.8*pre(vx)); end when;
         annotation(experiment(StopTime=1.4, Interval=0.01, Tolerance=1e-8)); end M;";
    let document = simulate(model);
    let jump = &events(&document)[0]["jumps"]["vx"];
    let speed = (2.0f64 * 9.81 * 0.2).sqrt();
    assert_close(jump[0].as_f64().unwrap(), -speed, 1e-6, "speed before");
    assert_close(jump[1].as_f64().unwrap(), 0.8 * speed, 1e-6, "speed after");
    let continuous = &events(&document)[0]["continuous"];
    assert_eq!(continuous, &serde_json::json!(["x", "y", "vy"]));
    let table = Session::with_model(model).run(&["simulate", "model.mo"]).table();
    let highest = table.column("y").into_iter().zip(table.column("t")).filter(|(_, t)| *t > 0.52);
    let highest = highest.map(|(y, _)| y).fold(f64::NEG_INFINITY, f64::max);
    assert_close(highest, -1.0 + 0.64 * 0.2, 1e-4, "rise");
    for (x, y) in table.column("x").into_iter().zip(table.column("y")) {
        assert_close(x * x + y * y, 1.0, 1e-9, "length");
    }
}

/// Red 3 s, green 2 s, yellow 1 s.
#[test]
fn a_state_machine_changes_at_computed_times() {
    let document = simulate(
        "model M type Light = enumeration(red, green, yellow);
           Light s(start=Light.red, fixed=true); discrete Real t0(start=0, fixed=true);
         equation when time >= pre(t0) + (if pre(s) == Light.red then 3 elseif pre(s) == Light.green then 2 else 1) then
             s = if pre(s) == Light.red then Light.green elseif pre(s) == Light.green then Light.yellow else Light.red;
             t0 = time; end when;
         annotation(experiment(StopTime=13)); end M;",
    );
    assert_eq!(jump_times(&document, "s"), [3.0, 5.0, 6.0, 9.0, 11.0, 12.0]);
    assert!(events(&document).iter().all(|event| event["kind"] == "time-event"));
    assert_eq!(events(&document)[2]["jumps"]["s"], serde_json::json!([3.0, 1.0]));
}

/// A tank that overflows from t = 2 on, and one that is empty from t = 2 on, beyond which sqrt(h) has no value.
#[test]
fn tanks_overflow_and_run_empty() {
    let document = simulate(
        "model M Real h(start=0, fixed=true), over; Boolean full;
         equation full = h >= 1; over = if full then 0.5 else 0; der(h) = 0.5 - over;
         annotation(experiment(StopTime=4)); end M;",
    );
    assert_close(jump_times(&document, "over")[0], 2.0, 1e-9, "overflow");
    let table = Session::with_model(
        "model M Real h(start=1, fixed=true); equation der(h) = if h > 0 then -sqrt(h) else 0;
         annotation(experiment(StopTime=4, Interval=0.1)); end M;",
    )
    .run(&["simulate", "model.mo"])
    .table();
    for (t, h) in table.column("t").into_iter().zip(table.column("h")) {
        assert_close(h, (1.0 - 0.5 * t.min(2.0)).powi(2), 2e-6, "level");
    }
}

/// sin(t) crosses 0.5 and -0.5 at odd multiples of pi/6; nothing but the relations limits the steps.
#[test]
fn a_hysteresis_of_a_signal_of_time_misses_no_crossing() {
    let document = simulate(
        "model M Boolean y; Real u; initial equation pre(y) = false;
         equation u = sin(time); y = not pre(y) and u > 0.5 or pre(y) and u >= -0.5;
         annotation(experiment(StopTime=12, Interval=4)); end M;",
    );
    let sixth = std::f64::consts::PI / 6.0;
    let times = jump_times(&document, "y");
    assert_eq!(times.len(), 4);
    for (time, multiple) in times.iter().zip([1.0, 7.0, 13.0, 19.0]) {
        assert_close(*time, multiple * sixth, 1e-9, "crossing");
    }
}

/// Two crossings close together: sin(2 pi t) is above 0.9999 for 4.5 ms around t = 0.25 and 1.25.
#[test]
fn a_short_excursion_is_seen() {
    let document = simulate(
        "model M Real x(start=0, fixed=true), v(start=6.283185307179586, fixed=true); Integer n(start=0, fixed=true);
         equation der(x) = v; der(v) = -39.47841760435743*x; when x > 0.9999 then n = pre(n) + 1; end when;
         annotation(experiment(StopTime=2, Interval=0.5, Tolerance=1e-8)); end M;",
    );
    let times = jump_times(&document, "n");
    let half_width = 0.9999f64.acos() / (2.0 * std::f64::consts::PI);
    assert_eq!(times.len(), 2);
    assert_close(times[0], 0.25 - half_width, 1e-5, "first");
    assert_close(times[1], 1.25 - half_width, 1e-5, "second");
}

/// A signal at rest at the border of a relation that makes no difference there: rounding moves it over the border and
/// back, which is no reason to stop, nor to take small steps. z' = -z + y with y negligible after a moment.
#[test]
fn a_signal_at_rest_on_a_border_makes_no_events() {
    let document = simulate(
        "model M Real a[3](start={3, 2, 0.3}, each fixed=true), y, z(start=1, fixed=true);
         equation for k in 1:3 loop der(a[k]) = -50*k*(a[k] - 0.7) + (if a[k] >= 0.7 then 1 else 0.5)*(a[k] - 0.7)^2; end for;
           y = sum(if a[k] >= 0.7 then a[k] - 0.7 else -(a[k] - 0.7)^2 for k in 1:3);
           der(z) = -z + 1e-9*y;
         annotation(experiment(StopTime=20, Interval=0.5)); end M;",
    );
    assert!(events(&document).len() < 20, "{} events", events(&document).len());
    assert!(document["steps"].as_u64().unwrap() < 600, "{} steps", document["steps"]);
}

#[test]
fn whole_numbers_of_time_change_at_exact_times() {
    let document = simulate(
        "model M Real y, z, x(start=0, fixed=true); Integer k;
         equation y = if mod(time, 0.4) < 0.1 then 1 else 0; k = integer(time/0.3); z = floor(2*sin(time)); der(x) = y;
         annotation(experiment(StopTime=1.15)); end M;",
    );
    assert_eq!(jump_times(&document, "y").len(), 5);
    for (time, expected) in jump_times(&document, "y").iter().zip([0.1, 0.4, 0.5, 0.8, 0.9]) {
        assert_close(*time, expected, 1e-15, "y");
    }
    for (time, expected) in jump_times(&document, "k").iter().zip([0.3, 0.6, 0.9]) {
        assert_close(*time, expected, 1e-15, "k");
    }
    assert_close(jump_times(&document, "z")[0], std::f64::consts::PI / 6.0, 1e-9, "z");
}

/// x' = v, v' = -2 sign(x + v) from (1, 0): v = -2 t until 1 - t^2 - 2 t = 0, then x = x0 exp(-(t - t0)) on x + v = 0.
#[test]
fn a_relay_slides_along_its_border() {
    let session = Session::with_model(
        "model M Real x(start=1, fixed=true), v(start=0, fixed=true), u;
         equation der(x) = v; der(v) = u; u = if x + v > 0 then -2 else 2;
         annotation(experiment(StopTime=4, Interval=0.5, Tolerance=1e-8)); end M;",
    );
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = crate::session::Table::parse(&run.stdout);
    let (t, x, u) = (table.column("t"), table.column("x"), table.column("u"));
    let reached = 2.0f64.sqrt() - 1.0;
    let x0 = 1.0 - reached * reached;
    for at in (0..t.len()).filter(|&at| t[at] > reached + 1e-9) {
        let expected = x0 * (reached - t[at]).exp();
        assert_close(x[at], expected, 1e-7, "position");
        assert_close(u[at], expected, 1e-6, "mean input");
    }
    assert!(run.stderr.contains("sliding") && run.stderr.contains("`x + v > 0`"), "{}", run.stderr);
}

/// x' = -2, y' = 3/2 above x = y and x' = 2, y' = -3 below it: from (3/2, 1) they meet at t = 1/7. A share w above and
/// 1 - w below stays on the border if -7/2 w + 5 (1 - w) = 0, w = 10/17, and both go down with 2 - 4 w = -6/17. That is
/// so however the two relations, which have one border, are written; `y - x > 0` and `2 x > 2 y` too.
#[test]
fn relations_that_share_a_border_turn_over_together() {
    for (first, second) in [("x > y", "y > x"), ("2*x > 2*y", "y - x > 0"), ("x > y", "not x >= y")] {
        let session = Session::with_model(&format!(
            "model M Real x(start=1.5, fixed=true), y(start=1, fixed=true);
             equation der(x) = if {first} then -2 else 2; der(y) = if {second} then -3 else 1.5;
             annotation(experiment(StopTime=1, Interval=0.1)); end M;"
        ));
        let run = session.run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{first}, {second}: {}", run.stderr);
        let table = crate::session::Table::parse(&run.stdout);
        let (t, x, y) = (table.column("t"), table.column("x"), table.column("y"));
        let met = 1.0 / 7.0;
        for at in (0..t.len()).filter(|&at| t[at] > met + 1e-9) {
            let expected = 1.5 - 2.0 * met - 6.0 / 17.0 * (t[at] - met);
            assert_close(x[at], expected, 1e-7, first);
            assert_close(y[at], expected, 1e-7, second);
        }
        assert!(run.stderr.contains("sliding"), "{}", run.stderr);
    }
}

/// A block on a table with speed (A/w) sin(w t): it sticks while |A cos(w t)| <= mu g, slips at the rate -mu g or mu g
/// else, until its speed is that of the table again.
#[test]
fn a_block_on_a_shaken_table_sticks_and_slips() {
    let (mu_g, a, w) = (0.3 * 9.81, 4.0, 2.0f64);
    let session = Session::with_model(
        "model M parameter Real mu=0.3, A=4, w=2, g=9.81; Real v(start=0, fixed=true), table, f;
         equation table = A*sin(w*time)/w; der(v) = f; f = if v > table then -mu*g else mu*g;
         annotation(experiment(StopTime=3, Interval=0.05, Tolerance=1e-8)); end M;",
    );
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = crate::session::Table::parse(&run.stdout);
    let (t, v, f) = (table.column("t"), table.column("v"), table.column("f"));
    let speed = |t: f64| a * (w * t).sin() / w;
    // Stuck from the end of the first slip on until A cos(w t) = -mu g.
    let slips = (std::f64::consts::PI - (mu_g / a).acos()) / w;
    let meets = |from: f64, rate: f64| {
        let (mut low, mut high) = (from + 0.05, from + 1.4);
        let gap = |t: f64| (speed(from) + rate * (t - from) - speed(t)) * rate.signum();
        assert!(gap(low) < 0.0 && gap(high) > 0.0);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if gap(middle) < 0.0 { low = middle } else { high = middle }
        }
        low
    };
    let (first, second) = (meets(0.0, mu_g), meets(slips, -mu_g));
    let expected = |t: f64| match t {
        t if t < first => (mu_g * t, mu_g),
        t if t < slips => (speed(t), a * (w * t).cos()),
        t if t < second => (speed(slips) - mu_g * (t - slips), -mu_g),
        t => (speed(t), a * (w * t).cos()),
    };
    let leaves_again = slips + std::f64::consts::PI / w;
    let borders = [first, slips, second];
    let inner = (0..t.len()).filter(|&at| t[at] < leaves_again && borders.iter().all(|b| (t[at] - b).abs() > 1e-6));
    for at in inner {
        let (speed, force) = expected(t[at]);
        assert_close(v[at], speed, 1e-6, "speed");
        assert_close(f[at], force, 1e-5, "force");
    }
}

/// A pendulum of index 3 with dry friction comes to rest aside of its lowest point, where friction holds it: the weight
/// g x is less than the friction there, and the constraint holds.
#[test]
fn a_pendulum_of_index_three_with_dry_friction_comes_to_rest() {
    let session = Session::with_model(
        "model M Real x(start=0.6), y(start=-0.8), vx, vy, lambda, s, f;
         equation der(x) = vx; der(y) = vy; der(vx) = -lambda*x - f*y; der(vy) = -lambda*y + f*x - 9.81;
           x^2 + y^2 = 1; s = x*vy - y*vx; f = if s > 0 then -2 else 2;
         initial equation x = 0.6; vx = 0;
         annotation(experiment(StopTime=6, Interval=0.1, Tolerance=1e-8)); end M;",
    );
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = crate::session::Table::parse(&run.stdout);
    let last = |name: &str| *table.column(name).last().unwrap();
    assert_close(last("vx"), 0.0, 1e-9, "speed");
    assert_close(last("x").hypot(last("y")), 1.0, 1e-10, "length");
    // At rest s' = -g x + f vanishes.
    assert_close(last("f"), 9.81 * last("x"), 1e-7, "friction that holds");
    assert!(last("f").abs() < 2.0 && last("x").abs() > 0.01);
    // Energy between turning points: g (y1 - y0) = -2 times the arc, twice: from angle 0.6435 by equal losses.
    let mut angle = 0.6f64.asin();
    let mut side = 1.0;
    while 9.81 * angle.sin() > 2.0 {
        // -g cos(end) + 2 end = -g cos(angle) - 2 angle ... solved for the turning point on the other side.
        let loss = |end: f64| 9.81 * (end.cos() - angle.cos()) - 2.0 * (angle + end);
        let (mut low, mut high) = (-angle, angle);
        for _ in 0..200 {
            let middle = 0.5 * (low + high);
            if loss(middle) > 0.0 { low = middle } else { high = middle }
        }
        angle = low;
        side = -side;
    }
    assert_close(last("x"), side * angle.sin(), 1e-6, "place of rest");
}

/// A disc thrown along a wavy floor slips until it rolls: m v + I w/R = m v0 whatever the pressure, hence v = 2/3 v0,
/// and friction vanishes.
#[test]
fn a_disc_that_slips_on_a_wavy_floor_comes_to_roll() {
    let session = Session::with_model(
        "model M parameter Real m=1, R=0.2, g=9.81, mu=0.2; Real x(start=0, fixed=true), v(start=3, fixed=true), w(start=0, fixed=true),
           f, slip, z(start=0.2), N;
         equation der(x) = v; m*der(v) = f; 0.5*m*R^2*der(w) = -R*f; m*der(der(z)) = N - m*g; z = R + 0.01*sin(3*x);
           slip = v - R*w; f = if slip > 0 then -mu*N else mu*N;
         annotation(experiment(StopTime=2, Interval=0.1, Tolerance=1e-8)); end M;",
    );
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = crate::session::Table::parse(&run.stdout);
    let last = |name: &str| *table.column(name).last().unwrap();
    assert_close(last("v"), 2.0, 1e-7, "speed");
    assert_close(last("w"), 10.0, 1e-6, "spin");
    assert_close(last("f"), 0.0, 1e-7, "friction");
}

/// A gate of transistors without a voltage of its own when it is off: its output falls to zero and rests there, and
/// rises with the time constant of its load.
#[test]
fn a_gate_of_transistors_switches_and_rests() {
    let session = Session::with_model(
        "model M parameter Real beta=1.7e-3, C=5e-5, G=1e-3; Real y(start=5, fixed=true), x(start=5, fixed=true), gate, i1, i2, on1, on2;
           function current input Real on, vds, beta; output Real i;
           algorithm i := if on <= 0 then 0 elseif on <= vds then beta*on^2 else beta*vds*(2*on - vds); end current;
         equation gate = if time < 1 then 0 elseif time < 3 then 5 else 0;
           on1 = if y >= x then gate - x - 0.7 else gate - y - 0.7; on2 = if x >= 0 then gate - 0.7 else gate - x - 0.7;
           i1 = if y >= x then current(on1, y - x, beta) else -current(on1, x - y, beta);
           i2 = if x >= 0 then current(on2, x, beta) else -current(on2, -x, beta);
           C*der(y) = G*(5 - y)*(if time < 3 then 0 else 1) - i1; C*der(x) = i1 - i2;
         annotation(experiment(StopTime=3.2, Interval=0.1)); end M;",
    );
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = crate::session::Table::parse(&run.stdout);
    let (t, y) = (table.column("t"), table.column("y"));
    let at = |time: f64| t.iter().rposition(|&known| (known - time).abs() < 1e-9).unwrap();
    assert_close(y[at(0.9)], 5.0, 1e-5, "on");
    assert_close(y[at(2.9)], 0.0, 1e-4, "off");
    assert_close(y[at(3.1)], 5.0 * (1.0 - (-0.1f64 * 1e-3 / 5e-5).exp()), 1e-3, "rising");
}

/// A relation that moves its own border is a hysteresis, not a surface to slide along: x falls to -0.5, rises to 0.5,
/// and so on.
#[test]
fn a_relation_with_feedback_is_a_hysteresis() {
    let document = simulate(
        "model M Real x(start=1, fixed=true), y; equation y = if x - 0.5*y > 0 then -1 else 1; der(x) = y;
         annotation(experiment(StopTime=4, Interval=0.5)); end M;",
    );
    for (time, expected) in jump_times(&document, "y").iter().zip([1.5, 2.5, 3.5]) {
        assert_close(*time, expected, 1e-9, "switching time");
    }
    assert_eq!(jump_times(&document, "y").len(), 3);
}

#[test]
fn what_cannot_go_on_is_told_by_name() {
    let ball = failure(
        "model M Real h(start=1, fixed=true), v(start=0, fixed=true);
         equation der(h) = v; der(v) = -9.81; when h <= 0 then reinit(v, -0.7*pre(v)); end when;
         annotation(experiment(StopTime=3)); end M;",
        3,
    );
    assert_eq!(ball["code"], "accumulating-events");
    // t1 (1 + 2 e/(1 - e)) with t1 = sqrt(2/g)
    let limit = (2.0f64 / 9.81).sqrt() * (1.0 + 1.4 / 0.3);
    assert!(ball["message"].as_str().unwrap().contains(&format!("{limit:.5}")), "{ball}");
    assert!(ball["message"].as_str().unwrap().contains("`h <= 0`"), "{ball}");
    // The variable of the relation is the solution of an equation, whose rate is not at hand.
    let slide = failure(
        "model M Real x(start=1, fixed=true), z; equation z + z^3 = x; der(x) = if z > 0 then -1 else 1;
         annotation(experiment(StopTime=3)); end M;",
        3,
    );
    assert_eq!(slide["code"], "chattering");
    assert!(slide["message"].as_str().unwrap().contains("`z > 0`"), "{slide}");
    let loops = failure(
        "model M Boolean b; Real x(start=0, fixed=true); equation b = not pre(b) or x > 2; der(x) = 1; end M;",
        1,
    );
    assert_eq!(loops["code"], "event-unsettled");
    let clutch = failure(
        "model M Real w1(start=4, fixed=true), w2(start=0, fixed=true), tau;
         equation der(w1) = -tau; 3*der(w2) = tau; if time >= 1 then w1 = w2; else tau = 0; end if;
         annotation(experiment(StopTime=2)); end M;",
        3,
    );
    assert_eq!(clutch["code"], "singular-mode");
    assert!(clutch["message"].as_str().unwrap().contains("time >= 1"), "{clutch}");
}

#[test]
fn assertions_stop_or_warn_and_terminate_ends() {
    let broken = failure(
        "model M\n Real x(start=0, fixed=true);\nequation\n der(x) = 1;\n assert(x < 0.5, \"x is too large\");\nend M;",
        1,
    );
    assert_eq!(broken["code"], "assertion");
    assert_eq!(broken["line"], 5);
    assert!(broken["message"].as_str().unwrap().contains("t = 0.5: x is too large"), "{broken}");
    let warned = simulate(
        "model M Real x(start=0, fixed=true); equation der(x) = 1;
         assert(x < 0.25, \"x is getting large\", AssertionLevel.warning); end M;",
    );
    assert_eq!(warned["findings"][0]["level"], "warning");
    let ended = Session::with_model(
        "model M Real x(start=0, fixed=true); equation der(x) = 1;
         when x > 0.5 then terminate(\"half way\"); end when; annotation(experiment(StopTime=1, Interval=0.2)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    let times = ended.table().column("t");
    assert_close(times[times.len() - 1], 0.5, 1e-9, "end");
    assert!(ended.stderr.contains("half way"));
}

/// A step inside the model, seen by a capacitor that is bound to it: the current has an impulse of C times the step.
#[test]
fn a_step_inside_a_model_of_index_two_makes_an_impulse() {
    let document = simulate(
        "model M parameter Real C=2; Real v, i, u;
         equation u = if time < 1 then 0 else 3; v = u; C*der(v) = i; annotation(experiment(StopTime=2)); end M;",
    );
    assert_eq!(events(&document)[0]["impulses"]["i"], serde_json::json!([6.0]));
    assert_eq!(events(&document)[0]["jumps"]["v"], serde_json::json!([0.0, 3.0]));
}

fn with_study(model: &str, inputs: &str) -> Session {
    let study =
        format!("[model]\nfile = \"model.mo\"\n[inputs]\n{inputs}[simulate]\nstop = 2\nstep = 0.5\nrtol = 1e-8\n");
    Session::with_model(model).with("study.toml", &study)
}

/// Barton and Lee (4.12): with both inputs stepping the product of a jump and an impulse has no meaning; with one, x1 +
/// x3 x2 stays.
#[test]
fn products_of_jumps_and_impulses_are_refused() {
    let model = "model M input Real u1, u2; Real x1(start=0, fixed=true), x2, x3;
        equation der(x1) + x3*der(x2) = 0; x2 = u1; x3 = u2; end M;";
    let step = "{ expression = \"if time < 1 then 0 else 1\" }\n";
    let run = with_study(model, &format!("u1 = {step}u2 = {step}")).run(&["simulate", "study.toml", "--json"]);
    assert_eq!(run.status, 1);
    let finding = &run.json()["findings"][0];
    assert_eq!(finding["code"], "state-transfer");
    assert!(finding["message"].as_str().unwrap().contains("der(x1) + x3*der(x2) = 0"), "{finding}");
    let session = with_study(model, &format!("u1 = {step}u2 = {{ expression = \"2 + time\" }}\n"));
    let table = session.run(&["simulate", "study.toml"]).table();
    assert_close(table.column("x1")[5], -3.0, 1e-9, "x1");
    // The same where the model itself steps.
    let model = "model M Real x1(start=0, fixed=true), x2, x3;
        equation der(x1) + x3*der(x2) = 0; x2 = if time < 1 then 0 else 1; x3 = if time < 1 then 0 else 1; end M;";
    let session = with_study(model, "");
    let run = session.run(&["simulate", "study.toml", "--json", "-o", "out.csv"]);
    assert_eq!(run.status, 1);
    assert_eq!(run.json()["findings"][0]["code"], "state-transfer");
}

/// Barton and Lee (4.11): positions and velocities of a pendulum stay where the force on it jumps; its tension jumps.
#[test]
fn a_step_of_a_force_leaves_positions_and_velocities() {
    let model = "model M input Real u; Real x(start=0.6, fixed=true), y(start=-0.8), v(start=0, fixed=true), w, T;
        equation der(x) = v; der(v) = -T*x; der(y) = w; der(w) = -T*y - u; x^2 + y^2 = 1; end M;";
    let session = with_study(model, "u = { expression = \"if time < 1 then 9.81 else -5\" }\n");
    let document = session.run(&["simulate", "study.toml", "--json"]).json();
    let event = &events(&document)[0];
    let mut continuous: Vec<&str> = event["continuous"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    continuous.sort_unstable();
    assert_eq!(continuous, ["v", "w", "x", "y"]);
    let jumps = event["jumps"].as_object().unwrap();
    assert_eq!(jumps.len(), 2);
    assert!(jumps.contains_key("u"));
    // T = v^2 + w^2 - u y jumps by 14.81 y.
    let table = session.run(&["simulate", "study.toml"]).table();
    let row = table.column("t").iter().position(|&time| time == 1.0).unwrap();
    let y = table.column("y")[row];
    let jump = jumps["T"][1].as_f64().unwrap() - jumps["T"][0].as_f64().unwrap();
    assert_close(jump, 14.81 * y, 1e-6, "tension");
}

/// Barton and Lee (3.1) beside a nonlinear equation: x1 + 2 x2 stays, so that a unit step gives 2 and -1.
#[test]
fn a_nonlinear_model_of_index_two_crosses_a_step_by_balances() {
    let model = "model M input Real f; Real x1(start=0), x2(start=0, fixed=true), z(start=1, fixed=true);
        equation der(x1) + 2*der(x2) = 0; x1 + x2 = f; der(z) = -z^2; end M;";
    let session = with_study(model, "f = { expression = \"if time < 1 then 0 else 1\" }\n");
    let document = session.run(&["simulate", "study.toml", "--json"]).json();
    let event = &events(&document)[0];
    assert_eq!(event["continuous"], serde_json::json!(["z", "x1 + 2*x2"]));
    assert_close(event["jumps"]["x1"][1].as_f64().unwrap(), 2.0, 1e-9, "x1");
    assert_close(event["jumps"]["x2"][1].as_f64().unwrap(), -1.0, 1e-9, "x2");
    let check = session.run(&["check", "study.toml", "--json"]).json();
    let smooth = check["findings"].as_array().unwrap().iter().find(|finding| finding["code"] == "input-not-smooth");
    assert!(smooth.is_some(), "{check}");
}

/// u = 4: at rest x = 2 and y = 2; from zero with y given.
#[test]
fn a_study_says_how_a_simulation_starts() {
    let model = "model M input Real u(start=4); Real x(start=7, fixed=true), y(start=1, fixed=true), z;
        equation der(x) = u - x^2; der(y) = x - y; z = x + y; end M;";
    let study = |initial: &str| format!("[model]\nfile = \"model.mo\"\n[initial]\n{initial}[simulate]\nstop = 1\n");
    let session = Session::with_model(model)
        .with("rest.toml", &study("mode = \"stationary\"\n"))
        .with("zero.toml", &study("mode = \"zero\"\ny = 2\n"))
        .with("model.toml", &study("mode = \"model\"\nx = 3\n"));
    let start = |name: &str| session.run(&["simulate", name, "--json"]).json()["initial"].clone();
    let rest = start("rest.toml");
    assert_close(rest["derived"]["x"].as_f64().unwrap(), 2.0, 1e-9, "x at rest");
    assert_close(rest["derived"]["z"].as_f64().unwrap(), 4.0, 1e-9, "z at rest");
    let zero = start("zero.toml");
    assert_eq!(zero["guessed"]["x"], 0.0);
    assert_eq!(zero["fixed"]["y"], 2.0);
    let given = start("model.toml");
    assert_eq!((given["fixed"]["x"].as_f64(), given["fixed"]["y"].as_f64()), (Some(3.0), Some(1.0)));
    assert_eq!(given["derived"]["z"], 4.0);
}

/// atan(10 (x - 3)) sends Newton's method from 0.1 far away; the simplified expression leads to 3.
#[test]
fn homotopy_leads_to_the_start() {
    let document = simulate("model M Real x(start=0.1); equation homotopy(atan(10*(x - 3)), x - 3) = 0; end M;");
    assert_close(document["initial"]["derived"]["x"].as_f64().unwrap(), 3.0, 1e-9, "x");
}

#[test]
fn tables_are_written_as_asked() {
    let session = Session::with_model("model M Real x(start=1, fixed=true); equation der(x) = -x; end M;");
    for name in ["out.parquet", "out.mat", "out.csv"] {
        let run = session.run(&["simulate", "model.mo", "-o", name]);
        assert_eq!(run.status, 0, "{}", run.stderr);
    }
    let parquet = std::fs::read(session.path("out.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    // Three columns of 501 doubles under their names.
    let mat = std::fs::read(session.path("out.mat")).unwrap();
    assert_eq!(mat.len(), 3 * (20 + 501 * 8) + "t\0x\0der(x)\0".len());
    assert_eq!(session.run(&["simulate", "model.mo", "-o", "out.xlsx"]).status, 2);
}

#[test]
fn a_failed_start_names_the_equations_that_are_off() {
    let finding = failure("model M\n Real x(start=1), y(start=1);\nequation\n x^2 + y^2 = -1;\n x = y;\nend M;", 3);
    assert_eq!(finding["code"], "no-consistent-start");
    assert!(finding["message"].as_str().unwrap().contains("= -1"), "{finding}");
    assert_eq!(finding["line"], 4);
    let division = failure("model M\n Real x(start=0, fixed=true);\nequation\n der(x) = 1/x;\nend M;", 3);
    assert_eq!((division["code"].as_str(), division["line"].as_u64()), (Some("not-finite"), Some(4)));
    let blow_up = failure(
        "model M\n Real x(start=1, fixed=true);\nequation\n der(x) = x^2;\n annotation(experiment(StopTime=2));\nend M;",
        3,
    );
    assert_eq!((blow_up["code"].as_str(), blow_up["line"].as_u64()), (Some("step-too-small"), Some(4)));
    assert_eq!(blow_up["names"][0], "x");
}

/// Where the phase jumps back, v would be 240 in the mode that is over, and the root would not exist.
#[test]
fn a_relation_of_a_phase_follows_where_the_phase_jumps() {
    for last in ["i = x^2", "i = der(x)"] {
        let session = Session::with_model(&format!(
            "model M Real phase, v, x, i;
             equation phase = mod(time, 1.2);
               v = if phase < 0.5 then 0 elseif phase < 0.6 then 200*(phase - 0.5) elseif phase < 1.1 then 20 else 200*(1.2 - phase);
               x = sqrt(30 - v); {last};
             annotation(experiment(StopTime=3, Interval=0.05)); end M;"
        ));
        let table = session.run(&["simulate", "model.mo"]).table();
        for (time, x) in table.column("t").iter().zip(table.column("x")) {
            let phase = time.rem_euclid(1.2);
            let v = (200.0 * (phase - 0.5)).clamp(0.0, 20.0).min((200.0 * (1.2 - phase)).max(0.0));
            assert!((x - (30.0 - v).sqrt()).abs() < 1e-6, "x({time}) = {x} with {last}");
        }
    }
}

/// A clock ticks once though another event lies within rounding of each tick.
#[test]
fn a_tick_beside_another_event_happens_once() {
    let run = Session::with_model(
        "model M discrete Real y(start=0, fixed=true); discrete Integer n(start=0, fixed=true);
           Real x(start=0, fixed=true); Boolean b;
         equation der(x) = 1; b = sin(2*3.14159265358979323846*50*time) > 0;
           when sample(0.01, 0.01) then y = pre(x); n = pre(n) + 1; reinit(x, 0); end when;
         annotation(experiment(StopTime=0.1, Interval=0.001)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    let table = run.table();
    assert_eq!(*table.column("n").last().unwrap(), 10.0);
    assert_close(*table.column("y").last().unwrap(), 0.01, 1e-9, "time between ticks");
}

/// At the start a discrete variable and its value before are two unknowns: the chain of bare equations is solved for
/// both.
#[test]
fn initial_equations_reach_values_before_through_other_equations() {
    let run = Session::with_model(
        "model M Boolean active, localActive, newActive;
         initial equation pre(newActive) = pre(localActive); active = true;
         equation localActive = pre(newActive); newActive = localActive and time < 0.5; active = localActive;
         end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    let (t, active) = (table.column("t"), table.column("active"));
    for (time, active) in t.iter().zip(&active) {
        if (*time - 0.5).abs() > 1e-9 {
            assert_eq!(*active, f64::from(u8::from(*time < 0.5)), "at t = {time}");
        }
    }
}

/// The fixed start of a discrete variable holds; the initial equation then gives the continuous one.
#[test]
fn a_fixed_discrete_start_is_not_overridden() {
    let run = Session::with_model(
        "model M Integer a(start=1, fixed=true); Real b(start=2); initial equation a = b;
         equation der(b) = 0; when time > 0.5 then a = 0; end when; end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    assert_eq!((table.column("a")[0], table.column("b")[0]), (1.0, 1.0));
}

#[test]
fn an_initial_equation_against_a_fixed_start_is_refused() {
    let finding = failure(
        "model M Integer a(start=1, fixed=true); Real x(start=0, fixed=true); initial equation a = 3;
         equation der(x) = 1; when time > 0.5 then a = 0; end when; end M;",
        1,
    );
    assert_eq!(finding["code"], "initial-equations");
}

/// Relations of time alone are scheduled whatever their form: none of these is as long as a step.
#[test]
fn short_pulses_of_time_alone_are_not_missed() {
    for (condition, expected) in [
        ("abs(time - 37.123) < 1e-3", 2.0),
        ("(time - 50)^2 < 1e-6", 2.0),
        ("sin(0.1*time) > 1 - 1e-10", 2.0 * 1e4 * (2e-10f64).sqrt() * 2.0),
        ("exp(-(time - 20)^2) > 1 - 1e-8", 0.2),
        ("min(time - 60, 60.002 - time) > 0", 2.0),
    ] {
        let run = Session::with_model(&format!(
            "model M Real x(start=0, fixed=true); equation der(x) = if {condition} then 1000 else 0;
             annotation(experiment(StopTime=100, Interval=1, Tolerance=1e-8)); end M;"
        ))
        .run(&["simulate", "model.mo"]);
        let found = *run.table().column("x").last().unwrap();
        assert_close(found, expected, 1e-5 * expected, condition);
    }
}

/// A relation that changes many times within what would be one step.
#[test]
fn every_change_of_an_oscillating_relation_of_time_is_met() {
    let run = Session::with_model(
        "model M Real x(start=0, fixed=true); Integer n(start=0, fixed=true); Boolean b;
         equation b = sin(700*time) > 0.2; der(x) = if b then 1 else 0; when b then n = pre(n) + 1; end when;
         annotation(experiment(StopTime=1, Interval=1)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    let table = run.table();
    let width = (std::f64::consts::PI - 2.0 * 0.2f64.asin()) / 700.0;
    // 700 / (2 pi) = 111.4 periods; the end cuts the last pulse short.
    assert_eq!(*table.column("n").last().unwrap(), 112.0);
    let last = (700.0 - 111.0 * 2.0 * std::f64::consts::PI - 0.2f64.asin()).min(700.0 * width) / 700.0;
    assert_close(*table.column("x").last().unwrap(), 111.0 * width + last, 1e-8, "time that the relation holds");
}

#[test]
fn the_last_row_knows_that_it_is_the_last() {
    let run = Session::with_model(
        "model M Real x(start=0, fixed=true), y; equation der(x) = 1; y = if terminal() then 7 else x; end M;",
    )
    .run(&["simulate", "model.mo"]);
    let table = run.table();
    let y = table.column("y");
    assert_eq!(*y.last().unwrap(), 7.0);
    assert_eq!(y.iter().filter(|value| **value == 7.0).count(), 1);
}

/// z and the derivatives depend on each other at a tick and are solved for together. The values were computed with the
/// loop solved by hand at every tick: z = q y with (z + sin(y)/2) q + q (1 + 0.9 e cos y)/(1 - e sin y) = 2 sin t, e =
/// exp(-0.9 x), q = der(x).
#[test]
fn discrete_and_continuous_unknowns_in_a_loop_are_solved_together() {
    let run = Session::with_model(
        "model M Real x(start=0.9, fixed=true); Real y(fixed=false), z; parameter Real a = 2;
         equation (z + 0.5*sin(y))*der(x) + der(y) = a*sin(time); x - y = exp(-0.9*x)*cos(y);
           when sample(0, 0.01) then z = der(x)*y; end when; end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    assert_close(*table.column("x").last().unwrap(), 1.2754, 5e-4, "x");
    assert_close(*table.column("y").last().unwrap(), 1.1440, 5e-4, "y");
}

#[test]
fn a_loop_of_assignments_is_solved() {
    let run = Session::with_model(
        "model M discrete Real a(start=0, fixed=true), b(start=0, fixed=true);
         equation when time >= 1 then a = b + 1; b = 2*a - 5; end when;
         annotation(experiment(StopTime=2)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    assert_close(*table.column("a").last().unwrap(), 4.0, 1e-9, "a");
    assert_close(*table.column("b").last().unwrap(), 3.0, 1e-9, "b");
}

/// Whole numbers in a loop without a solution are named.
#[test]
fn a_loop_without_a_solution_is_told_by_name() {
    let finding = failure(
        "model M Integer a(start=0, fixed=true), b(start=0, fixed=true);
         equation when time >= 1 then a = b + 1; b = a + 1; end when; annotation(experiment(StopTime=2)); end M;",
        1,
    );
    assert_eq!(finding["code"], "event-unsettled");
    let message = finding["message"].as_str().unwrap();
    assert!(message.contains("`a`") && message.contains("`b`"), "{message}");
}

/// x = cos(2 t) begins at 3 x = 3 with slope zero: the first steps change it by less than its rounding. integer(3 x)
/// falls from 3 to -3 and rises to 2 until t = 3: at cos(2 t) = 1 at once, at 2/3, 1/3, 0, -1/3, -2/3 on both ways and
/// at 1/3, 2/3 once more.
#[test]
fn a_whole_number_is_left_where_the_slope_is_zero() {
    let run = Session::with_model(
        "model M Real x(start=1, fixed=true), v(start=0, fixed=true); Integer i;
         equation der(x) = v; der(v) = -4*x; i = integer(3*x); annotation(experiment(StopTime=3)); end M;",
    )
    .run(&["simulate", "model.mo", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let times: Vec<f64> =
        document["events"].as_array().unwrap().iter().map(|event| event["time"].as_f64().unwrap()).collect();
    let level = |x: f64| f64::acos(x) / 2.0;
    let down = [2.0 / 3.0, 1.0 / 3.0, 0.0, -1.0 / 3.0, -2.0 / 3.0].map(level);
    let up = [-2.0 / 3.0, -1.0 / 3.0, 0.0, 1.0 / 3.0, 2.0 / 3.0].map(|x| std::f64::consts::PI - level(x));
    assert!(times[0] < 1e-3, "{times:?}");
    assert_eq!(times.len(), 11, "{times:?}");
    for (time, expected) in times[1..].iter().zip(down.iter().chain(&up)) {
        assert_close(*time, *expected, 1e-5, "crossing");
    }
}

/// A wheel with dry friction whose path `sa` is a torque at rest and an acceleration in motion: J a = drive - tau with
/// J = 1/100 and friction 1. From -10 with a drive of 1/2 it comes to rest after 10/150; a drive of 2 from 0.2 on moves
/// it with an acceleration of 100. Turning over whatever relation disagrees leads from one sliding motion to the other
/// and never to rest.
#[test]
fn a_wheel_comes_to_rest_although_both_sliding_motions_point_away_from_it() {
    let run = Session::with_model(
        "model M parameter Real J = 0.01, tau0 = 1; Real w(start=-10, fixed=true), a, tau, sa;
         Real drive = if time < 0.2 then 0.5 else 2;
         Boolean forward(start=false, fixed=true), backward(start=false, fixed=true), locked;
         Integer mode(start=-1, fixed=true);
         equation der(w) = a; J*a = drive - tau;
           forward = pre(mode) == 0 and sa > tau0; backward = pre(mode) == 0 and sa < -tau0;
           locked = not (pre(mode) == 1 or forward or pre(mode) == -1 or backward);
           a = if locked then 0 else if forward or pre(mode) == 1 then sa - tau0 else sa + tau0;
           tau = if locked then sa else if forward or pre(mode) == 1 then tau0 else -tau0;
           mode = if (pre(mode) == 1 or forward) and w > 0 then 1
             else if (pre(mode) == -1 or backward) and w < 0 then -1 else 0;
         annotation(experiment(StopTime=0.3, Interval=0.05)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    let times = table.column("t");
    for (t, w) in times.iter().zip(table.column("w")) {
        let expected = if *t < 10.0 / 150.0 { 150.0 * t - 10.0 } else { 100.0 * (t - 0.2).max(0.0) };
        assert_close(w, expected, 1e-6, "speed");
    }
    for pair in times.windows(2) {
        // Letting go and beginning to turn are one event.
        assert!(pair[0] == pair[1] || pair[1] - pair[0] > 1e-9, "{pair:?}");
    }
}

/// What follows from parameters one after the other is known before anything is guessed: 1/A and 1/C have no value at
/// the guess of zero, and flux is a state whose constraint has R as a factor.
#[test]
fn reciprocals_of_what_parameters_determine_start_from_zero() {
    let run = Session::with_model(
        "model M parameter Real a = 2, b = 3; Real A, G, R, C, u, phi, v; equation A = a*b; G = 1e-6*A; R = 1/G;
         R = 1/C + 5; u = R*phi; u = 3e5*time; v = der(phi);
         annotation(experiment(StopTime=1, Interval=0.5)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    for (t, phi) in table.column("t").iter().zip(table.column("phi")) {
        assert_close(phi, 1.8 * t, 1e-9, "flux");
    }
    assert_close(table.column("C")[0], 1.0 / (1e6 / 6.0 - 5.0), 1e-9, "capacity");
}

/// R = 1/G with G = 2 + phi^2/100 in a loop with phi = 6/R: a guess of zero for G has no reciprocal.
#[test]
fn a_loop_through_a_reciprocal_starts_from_zero() {
    let run = Session::with_model(
        "model M Real R, G, phi; equation R = 1/G; G = 2 + (phi/10)^2*time; phi*R = 6;
         annotation(experiment(StopTime=0.3, Interval=0.1)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    for (t, phi) in table.column("t").iter().zip(table.column("phi")) {
        // phi = 6 (2 + phi^2 t / 100): the smaller root.
        let expected = if *t == 0.0 { 12.0 } else { (1.0 - (1.0 - 2.88 * t).sqrt()) / (0.12 * t) };
        assert_close(phi, expected, 1e-6, "flux");
    }
}

/// A pulse that rises at 0.3, 1.3, .. and falls 0.1 later, delayed by 0.25 and by 2.25: two changes are under way, or
/// six.
#[test]
fn changes_of_a_signal_arrive_late() {
    let run = Session::with_model(
        "model M Real u, y, late;
         equation u = if mod(time + 0.7, 1) < 0.1 then 3 else 1; y = delay(u, 0.25); late = delay(u, 2.25);
         annotation(experiment(StopTime=4, Interval=0.05)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    let (t, y, late) = (table.column("t"), table.column("y"), table.column("late"));
    let pulse = |t: f64| if t > 0.0 && (t + 0.7).rem_euclid(1.0) < 0.1 { 3.0 } else { 1.0 };
    for (row, &t) in t.iter().enumerate() {
        // At the instants of change both sides are right.
        let is_change = |lag: f64| ((t - lag + 0.7) * 10.0).fract().min(1.0 - ((t - lag + 0.7) * 10.0).fract()) < 1e-6;
        if !is_change(0.25) {
            assert_eq!(y[row], pulse(t - 0.25), "t = {t}");
        }
        if !is_change(2.25) {
            assert_eq!(late[row], pulse(t - 2.25), "t = {t}");
        }
    }
}

/// A capacitor of no capacity: v = u, and no state is left.
#[test]
fn a_factor_of_zero_takes_a_derivative_out() {
    let run = Session::with_model(
        "model M parameter Real C = k*0.0; parameter Real k = 2; Real v, i, c;
         equation c = C*(1 + v^2); i = c*der(v); sin(3*time) - v = 10*i;
         annotation(experiment(StopTime=1, Interval=0.25)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    for (t, v) in table.column("t").iter().zip(table.column("v")) {
        assert_close(v, (3.0 * t).sin(), 1e-9, "voltage");
    }
}

/// Two ports with enthalpies 3 and 5 and a flow of 1 - t between them: the port upstream gives the value, and at rest
/// there is one too.
#[test]
fn what_a_flow_carries_is_known_at_rest() {
    let run = Session::with_model(
        "model M Real m, h, H1, H2;
         equation m = max(1 - time, 0) - max(time - 2, 0);
           H1 = semiLinear(m, h, 3); H2 = semiLinear(-m, h, 5); H1 + H2 = 0;
         annotation(experiment(StopTime=3, Interval=0.25)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    for (t, h) in table.column("t").iter().zip(table.column("h")) {
        let expected = if *t < 0.99 {
            5.0
        } else if *t > 2.01 {
            3.0
        } else {
            4.0
        };
        assert_close(h, expected, 1e-6, "enthalpy");
    }
}

/// A clock with an interval longer than any run ticks once, at its start and not before.
#[test]
fn a_clock_with_an_endless_interval_waits_for_its_start() {
    for interval in ["3", "1e9", "1e60", "1.7976931348623157e308"] {
        let session = Session::with_model(&format!(
            "model M
               discrete Real t0(start = -1, fixed = true);
             equation
               when sample(0.2, {interval}) then t0 = time; end when;
               annotation (experiment(StopTime = 1, Interval = 0.1));
             end M;"
        ));
        let table = session.run(&["simulate", "model.mo"]).table();
        for (t, t0) in table.column("t").iter().zip(table.column("t0")) {
            assert!(t0 == if *t < 0.2 { -1.0 } else { 0.2 } || *t == 0.2, "{interval}: {t0} at {t}");
        }
        assert_eq!(table.column("t0").last(), Some(&0.2), "{interval}");
    }
}

/// The table of a model that runs.
fn table_of(model: &str) -> crate::session::Table {
    let run = Session::with_model(model).run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    run.table()
}

/// x' = -x(t - 1) with x = 1 before 0, by the method of steps: x = sum (-1)^k (t - k + 1)^k / k! over k < t + 1.
#[test]
fn a_delayed_state_follows_the_method_of_steps() {
    let table = table_of(
        "model M Real x(start=1, fixed=true); equation der(x) = -delay(x, 1);
         annotation(experiment(StopTime=4, Interval=0.125, Tolerance=1e-8)); end M;",
    );
    for (&t, x) in table.column("t").iter().zip(table.column("x")) {
        let (mut expected, mut factorial) = (1.0, 1.0);
        for k in 1..=5 {
            factorial *= -f64::from(k);
            let since = t - f64::from(k - 1);
            if since > 0.0 {
                expected += since.powi(k) / factorial;
            }
        }
        assert_close(x, expected, 1e-6, "delayed decay");
    }
}

/// A delay by nothing is the signal itself [MLS 3.6, 3.7.4.1: 0 <= delayTime], also in a loop: x' = -x, and
/// y = 1 + y/2 = 2.
#[test]
fn a_delay_of_zero_is_the_signal() {
    let table = table_of(
        "model M parameter Real T = 0; Real x(start=1, fixed=true), y; Integer n, m;
         equation der(x) = -delay(x, T); y = 1 + 0.5*delay(y, 0); n = integer(4*x); m = integer(delay(n, 2*T));
         annotation(experiment(StopTime=1, Interval=0.1, Tolerance=1e-9)); end M;",
    );
    for (row, &t) in table.column("t").iter().enumerate() {
        assert_close(table.column("x")[row], (-t).exp(), 1e-8, "decay");
        assert_close(table.column("y")[row], 2.0, 1e-12, "loop");
        assert_eq!(table.column("m")[row], table.column("n")[row]);
    }
}

/// What jumps at 1 jumps 0.3 later, and the delay of a signal by a time that varies is its value then.
#[test]
fn jumps_of_a_varying_signal_arrive_late() {
    let table = table_of(
        "model M Real u, y, w, lag;
         equation u = if time < 1 then sin(time) else 5 + time^2; y = delay(u, 0.3);
           lag = 0.5 + 0.25*sin(time); w = delay(time^3, lag, 1);
         annotation(experiment(StopTime=2, Interval=0.05, Tolerance=1e-9)); end M;",
    );
    let (t, y, w) = (table.column("t"), table.column("y"), table.column("w"));
    for (row, &t) in t.iter().enumerate() {
        let then = t - 0.3;
        let before = then.clamp(0.0, 1.0).sin();
        let expected = if then < 1.0 { before } else { 5.0 + then * then };
        let is_jump = (then - 1.0).abs() < 1e-9;
        assert!((y[row] - expected).abs() < 1e-7 || is_jump && (y[row] - before).abs() < 1e-7, "t = {t}: {}", y[row]);
        let then = (t - 0.5 - 0.25 * t.sin()).max(0.0);
        assert_close(w[row], then.powi(3), 1e-7, "varying delay");
    }
    let jumps = t.windows(2).filter(|pair| pair[0] == pair[1]).filter(|pair| (pair[0] - 1.3).abs() < 1e-9).count();
    assert_eq!(jumps, 1, "the jump of y at 1.3 has two rows");
}

/// At a constant velocity a pipe delays what enters by 1/v, jumps and corners too, after what was in it at the start.
#[test]
fn a_pipe_of_constant_velocity_delays() {
    let table = table_of(
        "model M Real x(start=3, fixed=true), y0, y1, u = if time < 1 then sin(3*time) else 2 + time;
         equation der(x) = 0.5; (y0, y1) = spatialDistribution(u, 7, x, true, {0, 0.5, 0.5, 1}, {0, 1, 2, 3});
         annotation(experiment(StopTime=6, Interval=0.25, Tolerance=1e-8)); end M;",
    );
    let (t, y0, y1) = (table.column("t"), table.column("y0"), table.column("y1"));
    let entered = |t: f64| if t < 1.0 { (3.0 * t).sin() } else { 2.0 + t };
    let left = |t: f64| match 1.0 - 0.5 * t {
        place if place >= 0.5 => 1.0 + 2.0 * place,
        place if place >= 0.0 => 2.0 * place,
        _ => entered(t - 2.0),
    };
    let is_close = |value: f64, of: &dyn Fn(f64) -> f64, t: f64| {
        [t - 1e-9, t, t + 1e-9].iter().any(|&t| (value - of(t)).abs() < 1e-6)
    };
    for (row, &t) in t.iter().enumerate() {
        assert!(is_close(y1[row], &left, t), "y1 at {t}: {}", y1[row]);
        assert!(is_close(y0[row], &entered, t), "y0 at {t}: {}", y0[row]);
    }
    // The content at the start jumps in the middle, and the signal at 1.
    for jump in [1.0, 3.0] {
        let n_rows = t.iter().zip(&y1).filter(|(t, _)| (**t - jump).abs() < 1e-9).count();
        assert!(n_rows >= 2, "the jump of y1 at {jump} has {n_rows} rows");
    }
}

/// sin(t)/t has no value at t = 0, where `time > 0` does not hold yet: x(1) is the sine integral of 1.
#[test]
fn what_begins_at_a_time_need_not_have_a_value_there() {
    for (begin, stop) in [(0.0, 1.0), (0.5, 1.5)] {
        let table = table_of(&format!(
            "model M Real x(start = 0, fixed = true), y;
             equation der(x) = if time > {begin} then sin(time - {begin})/(time - {begin}) else 1; y = der(x);
             annotation(experiment(StopTime = {stop}, Interval = 0.1)); end M;"
        ));
        let last = *table.column("x").last().unwrap();
        assert_close(last, 0.946_083_070_367_183 + begin, 1e-6, "sine integral");
        assert!(table.column("y").iter().all(|y| (0.8..=1.0).contains(y)));
    }
    // From 1 on there is no value: not even right after it.
    let model = "model M Real x(start = 0, fixed = true); equation der(x) = if time >= 1 then sqrt(0.5 - time) else 1;
        annotation(experiment(StopTime = 2)); end M;";
    assert_ne!(Session::with_model(model).run(&["simulate", "model.mo"]).status, 0);
}

/// What only rows and relations read leaves a pipe as late as what states read, in both directions, at constant and at
/// growing velocities: no step leads on by more than the length of the pipe.
#[test]
fn what_leaves_a_pipe_is_right_where_no_state_reads_it() {
    type Entered = fn(f64) -> f64;
    type Case<'a> = (&'a str, &'a str, &'a str, Entered, &'a dyn Fn(f64) -> f64);
    let wave: Entered = |t| (6.0 * t).sin();
    let square: Entered = |t| t * t;
    // With x' = 1 + 6 t, what leaves at t entered at (sqrt(1 + 12 (x(t) - 1)) - 1)/6.
    let late = |t: f64| ((1.0 + 12.0 * (t + 3.0 * t * t - 1.0)).max(0.0).sqrt() - 1.0) / 6.0;
    let cases: [Case<'_>; 5] = [
        ("2", "(y0, y1) = spatialDistribution(sin(6*time), 0, x, true, {0, 1}, {0, 0})", "y1", wave, &|t| t - 0.5),
        ("-2", "(y0, y1) = spatialDistribution(0, sin(6*time), x, false, {0, 1}, {0, 0})", "y0", wave, &|t| t - 0.5),
        ("0.5", "(y0, y1) = spatialDistribution(time^2, 0, x, true, {0, 1}, {0, 0})", "y1", square, &|t| t - 2.0),
        ("1 + 6*time", "(y0, y1) = spatialDistribution(sin(6*time), 0, x, true)", "y1", wave, &late),
        ("1 + w", "(y0, y1) = spatialDistribution(sin(6*time), 0, x, true); der(w) = 6", "y1", wave, &late),
    ];
    for (velocity, pipe, column, entered, entry) in cases {
        for relation in ["", "when y0 + y1 > 1e9 then n = pre(n) + 1; end when;"] {
            let table = table_of(&format!(
                "model M Real x(start = 0, fixed = true), w(start = 0, fixed = true), y0, y1;
                   discrete Real n(start = 0, fixed = true);
                 equation der(x) = {velocity}; {pipe}; {} {}
                 annotation(experiment(StopTime = 5, Interval = 0.01)); end M;",
                if pipe.contains("der(w)") { "" } else { "der(w) = 0;" },
                if relation.is_empty() { "when time > 9 then n = 1; end when;" } else { relation },
            ));
            for (&t, left) in table.column("t").iter().zip(table.column(column)) {
                let then = entry(t);
                assert_close(left, if then > 0.0 { entered(then) } else { 0.0 }, 1e-4, &format!("{velocity} at {t}"));
            }
        }
    }
}

/// With x = sin(t), what entered at the low end at t leaves by it at pi - t. By then the pipe was filled whole, so that
/// what enters at the high end from pi/2 on, where sin(t) = 1 + x, follows, and leaves by it again after 3 pi/2.
#[test]
fn a_pipe_gives_back_what_entered_when_the_flow_turns() {
    use std::f64::consts::{FRAC_PI_2, PI};
    let table = table_of(
        "model M Real y0, y1, v = cos(time);
         equation (y0, y1) = spatialDistribution(time, -time, sin(time), v > 0, {0, 1}, {9, 9});
         annotation(experiment(StopTime=6, Interval=0.05, Tolerance=1e-8)); end M;",
    );
    for ((&t, y0), y1) in table.column("t").iter().zip(table.column("y0")).zip(table.column("y1")) {
        if [FRAC_PI_2, PI, 3.0 * FRAC_PI_2].iter().any(|turn| (t - turn).abs() < 1e-6) {
            continue;
        }
        let (low, high) = match t {
            t if t < FRAC_PI_2 => (t, 9.0),
            t if t < PI => (PI - t, -t),
            t if t < 3.0 * FRAC_PI_2 => (-(PI - (1.0 + t.sin()).asin()), -t),
            t => (t, -(3.0 * PI - t)),
        };
        assert_close(y0, low, 1e-6, &format!("y0 at {t}"));
        assert_close(y1, high, 1e-6, &format!("y1 at {t}"));
    }
}

/// Two pipes in a ring, closed by what enters the first: what leaves the second enters the first again.
#[test]
fn pipes_in_a_ring_carry_their_content_round() {
    let table = table_of(
        "model M Real x = 2*time, a0, a1, b0, b1;
         equation (a0, a1) = spatialDistribution(b1, b0, x, true, {0, 1}, {0, 1});
           (b0, b1) = spatialDistribution(a1, a0, x, true, {0, 1}, {1, 2});
         annotation(experiment(StopTime=4, Interval=0.1, Tolerance=1e-8)); end M;",
    );
    // The ring holds 0 to 2 over its length of 2 and turns once in a time of 1: b1 = 2 (1 - frac(t)).
    for (&t, b1) in table.column("t").iter().zip(table.column("b1")) {
        if (t - t.round()).abs() > 1e-6 {
            assert_close(b1, 2.0 * (1.0 - t.fract()), 1e-6, &format!("b1 at {t}"));
        }
    }
}

#[test]
fn a_pipe_whose_flow_contradicts_its_direction_is_told() {
    let run = |call: &str| {
        let model = format!(
            "model M Real x = 1 - time, y; equation (, y) = {call}; annotation(experiment(StopTime=0.5)); end M;"
        );
        let run = Session::with_model(&model).run(&["simulate", "model.mo", "--json"]);
        let finding = run.json()["findings"][0].clone();
        (run.status, format!("{} {}", finding["code"], finding["message"]))
    };
    let (status, said) = run("spatialDistribution(1, 2, x, true)");
    assert!(status == 1 && said.contains("assertion") && said.contains("against its `positiveVelocity`"), "{said}");
    let (status, said) = run("spatialDistribution(1, 2, x, false, {0, 0.5}, {1, 1})");
    assert!(status == 1 && said.contains("begin with 0 and end with 1"), "{said}");
    let (status, said) = run("spatialDistribution(1, 2, x, false, {0, 1}, {1, 1, 1})");
    assert!(status == 1 && said.contains("wrong-size") && said.contains("2 `initialPoints` and 3"), "{said}");
}

/// An ideal diode without voltage in one mode and without current in the other, s = x + e below 0 and x - e above, where
/// e stands for rounding: no mode agrees with itself at x = 0, where it switches once, and y = max(0, x).
#[test]
fn a_diode_that_rounding_alone_turns_settles() {
    let table = table_of(
        "model M Real x(start=-1, fixed=true), s, y; Boolean off(start=true);
         equation der(x) = 1; off = s < 0; s = x + (if off then 1e-12 else -1e-12); y = if off then 0 else x;
         annotation(experiment(StopTime=2, Interval=0.25, Tolerance=1e-6)); end M;",
    );
    for ((&t, y), off) in table.column("t").iter().zip(table.column("y")).zip(table.column("off")) {
        assert_close(y, (t - 1.0).max(0.0), 1e-9, &format!("y at {t}"));
        assert!(off == f64::from(u8::from(t < 1.0)) || (t - 1.0).abs() < 1e-9, "off at {t}");
    }
}

/// Other verbs have no past to read.
#[test]
fn only_a_simulation_keeps_the_past() {
    let model = "model M Real x(start=1, fixed=true); parameter Real k = 1; equation der(x) = -k*delay(x, 1); end M;";
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nk = { start = 1, min = 0, max = 2 }\n
                 [measurements]\nx = { column = \"x\", std = 0.1 }\n[estimate]\nsignals = [\"x\"]\n
                 [data]\nfile = \"data.csv\"\ntime = \"t\"\n";
    let session = Session::with_model(model).with("study.toml", study).with("data.csv", "t,x\n0,1\n0.5,0.5\n1,0\n");
    for (verb, file) in
        [("linearize", "model.mo"), ("regularize", "model.mo"), ("identify", "study.toml"), ("estimate", "study.toml")]
    {
        let run = session.run(&[verb, file, "--json"]);
        let code = run.json()["findings"][0]["code"].as_str().map(str::to_owned);
        assert_eq!((run.status, code.as_deref()), (1, Some("past-needed")), "{verb}");
    }
    let pipe = Session::with_model("model M Real y; equation (, y) = spatialDistribution(1, 0, time, true); end M;");
    let run = pipe.run(&["linearize", "model.mo", "--json"]);
    assert_eq!(run.json()["findings"][0]["code"], "past-needed");
    assert!(run.json()["findings"][0]["message"].as_str().unwrap().contains("`spatialDistribution`"));
    // x = 1 - k t until t = 1, so that its mean and spread at 1 are those of 1 - k.
    let random = "[model]\nfile = \"model.mo\"\n[random]\nk = { normal = { mean = 0.5, std = 0.1 } }\n
                  [simulate]\nstop = 1.0\nstep = 1.0\n[uq]\ndegree = 2\n";
    let run = session.with("random.toml", random).run(&["uq", "random.toml", "-o", "out.csv", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let last = &run.json()["final"]["x"];
    assert_close(last["mean"].as_f64().unwrap(), 0.5, 1e-6, "mean");
    assert_close(last["std"].as_f64().unwrap(), 0.1, 1e-6, "spread");
}

/// x slides at 0, whatever chain of Boolean and Integer variables holds the relation.
#[test]
fn a_solution_slides_along_a_relation_that_variables_hold() {
    for text in [
        "Boolean on; equation on = x > 0; der(x) = if on then -1 else 1;",
        "Boolean on, off; Real u; equation on = x > 0; off = not on; u = if off then 1 else -1; der(x) = u;",
        "Boolean on = x > 0; Integer n; equation n = if on then 1 else -1; der(x) = -n;",
        "Boolean on = x > 0, late = time > 0.3; equation der(x) = if on then -1 else if late then 2 else 1;",
    ] {
        let session = Session::with_model(&format!(
            "model M Real x(start=1, fixed=true); {text} annotation(experiment(StopTime=3, Interval=0.25)); end M;"
        ));
        let run = session.run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{text}: {}", run.stderr);
        let table = run.table();
        for (t, x) in table.column("t").into_iter().zip(table.column("x")) {
            assert!((x - (1.0 - t).max(0.0)).abs() < 1e-5, "{text}: x({t}) = {x}");
        }
        if text.contains("on") {
            assert!(table.column("on").iter().all(|on| *on == 0.0 || *on == 1.0), "{text}");
        }
    }
}

/// A pull that grows takes x away from the border again: 1 - t/2 + .. while both sides lead to it.
#[test]
fn sliding_by_a_held_relation_ends_where_one_side_leads_away() {
    let session = Session::with_model(
        "model M Real x(start=0.5, fixed=true); Boolean on;
         equation on = x > 0; der(x) = (if on then -2 else 2) + time;
         annotation(experiment(StopTime=4, Interval=0.1)); end M;",
    );
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    // Down along 0.5 - 2 t + t^2/2 until it is zero, at rest until t = 2, then up along (t - 2)^2/2.
    let down = 2.0 - 3f64.sqrt();
    for (t, x) in table.column("t").into_iter().zip(table.column("x")) {
        let exact = if t < down { 0.5 - 2.0 * t + t * t / 2.0 } else { (t - 2.0).max(0.0).powi(2) / 2.0 };
        assert!((x - exact).abs() < 1e-5, "x({t}) = {x} instead of {exact}");
    }
}

/// A hysteresis has a memory and no border to slide along; one too narrow to be followed is told soon.
#[test]
fn a_hysteresis_that_is_too_narrow_is_chattering() {
    let text = |width: &str| {
        format!(
            "model M Real x(start=1, fixed=true); Boolean on(start=true, fixed=true);
             equation on = if pre(on) then x > -{width} else x > {width}; der(x) = if on then -1 else 1;
             annotation(experiment(StopTime=3)); end M;"
        )
    };
    let run = Session::with_model(&text("1e-9")).run(&["simulate", "model.mo", "--json"]);
    assert_eq!(run.status, 3, "{}", run.stderr);
    finding(&run.json(), "chattering");
    assert_eq!(Session::with_model(&text("1e-2")).run(&["simulate", "model.mo"]).status, 0);
}

/// sign makes no event: x stays at its jump, and the run ends soon, with a word.
#[test]
fn steps_that_lead_nowhere_are_told() {
    let run = Session::with_model(
        "model M Real x(start=1, fixed=true); equation der(x) = -sign(x) + 0.5*sin(time);
         annotation(experiment(StopTime=3)); end M;",
    )
    .run(&["simulate", "model.mo", "--json"]);
    if run.status != 0 {
        assert_eq!(run.status, 3, "{}", run.stderr);
        finding(&run.json(), "too-many-steps");
    }
}

/// A mass that meets its stop sticks there for good: it would leave only if it were before the stop, and it is at it. A
/// spring whose other end goes on moving, and positions that differ by constants, must not move it by a last digit.
#[test]
fn what_rests_at_a_border_stays_there() {
    for (stop, offset, stiffness) in [(0.35, 0.1, 300.0), (0.3, 0.07, 120.0), (1.0 / 3.0, 0.2, 800.0)] {
        let run = Session::with_model(&format!(
            "model M parameter Real stop = {stop}; parameter Real offset = {offset};
               Real s(start=0, fixed=true), v(start=1, fixed=true), tip(start=0.1, fixed=true), w(start=1, fixed=true);
               Real right, length, f; Boolean stuck(start=false, fixed=true), go;
             equation
               right = s + offset/2; length = tip - right; f = {stiffness}*length + 5*der(length);
               v = der(s); w = der(tip); der(w) = -20*(tip - 0.7) - 2*w - 0.1*f;
               go = pre(stuck) and f > 0.5 and s < stop; stuck = (pre(stuck) or s >= stop) and not go;
               der(v) = if stuck and not go then 0 else f - v;
               when s >= stop then reinit(s, stop); reinit(v, 0); end when;
               annotation(experiment(StopTime=3)); end M;"
        ))
        .run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = run.table();
        let stuck = table.column("stuck");
        let n_changes = stuck.windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert_eq!((n_changes, stuck.last()), (1, Some(&1.0)), "{stop}");
        let (first, s) = (stuck.iter().position(|it| *it == 1.0).unwrap(), table.column("s"));
        assert!(s[first..].iter().all(|s| (s - stop).abs() < 1e-14), "{stop}");
    }
}

/// x' = 1 meets 1 at t = 1 and goes back to 0; from t = 2 on it goes back to -1 instead, so that it is 0 at t = 3 and,
/// after t = 4, -0.5 at 4.5. The variable without `reinit` in a branch goes on.
#[test]
fn when_statements_may_reinit_under_conditions() {
    let run = Session::with_model(
        "model M Real x(start=0, fixed=true), y(start=0, fixed=true); Integer n(start=0, fixed=true);
         equation der(x) = 1; der(y) = 2;
         algorithm
           when x > 1 then
             n := pre(n) + 1;
             if time < 1.5 then reinit(x, 0); assert(n < 2, \"too often\"); else reinit(x, -1); reinit(y, n); end if;
           end when;
         annotation(experiment(StopTime=4.5, Interval=0.5)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    let at = |name: &str, time: f64| {
        let row = table.column("t").iter().rposition(|t| (t - time).abs() < 1e-9).unwrap();
        table.column(name)[row]
    };
    for (time, x, y) in [(1.5, 0.5, 3.0), (3.0, 0.0, 4.0), (3.5, 0.5, 5.0), (4.5, -0.5, 4.0)] {
        assert!((at("x", time) - x).abs() < 1e-9 && (at("y", time) - y).abs() < 1e-9, "{time}: {}", at("y", time));
    }
}

/// Twelve samples of 5 + 3 sin(2 pi t / 6): |X_0| = 60 and |X_2| = 18, over seven; the transform is taken with the last.
#[test]
fn a_sampled_signal_is_transformed_at_an_event() {
    let run = Session::with_model(
        "package P
           function transform input Real u[:]; output Integer info; output Real a[div(size(u, 1), 2) + 1];
             output Real phase[div(size(u, 1), 2) + 1];
           protected Real work[3*size(u, 1) + 2*(div(size(u, 1), 2) + 1)];
             external \"C\" info = ModelicaFFT_kiss_fftr(u, size(u, 1), work, size(work, 1), a, phase); end transform;
           model M Integer tick(start=0, fixed=true), info(start=7, fixed=true); Real y(start=0, fixed=true);
             Real buffer[12](each start=0, each fixed=true), a[7](each start=0, each fixed=true);
           algorithm
             when sample(0, 1) then
               tick := pre(tick) + 1; y := 5 + 3*sin(2*3.14159265358979323846*time/6);
               if tick <= 12 then buffer[tick] := y; end if;
               if tick == 12 then (info, a) := transform(buffer); end if;
             end when;
           annotation(experiment(StopTime=12.5, Interval=0.5)); end M; end P;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    let last = |name: &str| *table.column(name).last().unwrap();
    assert_eq!(last("info"), 0.0);
    for (at, size) in [60.0, 0.0, 18.0, 0.0, 0.0, 0.0, 0.0].into_iter().enumerate() {
        assert!((last(&format!("a[{}]", at + 1)) - size / 7.0).abs() < 1e-12, "{at}");
    }
    let before = table.column("t").iter().position(|t| *t == 10.5).unwrap();
    assert_eq!(table.column("a[1]")[before], 0.0);
}

/// The hidden generator draws the numbers that the open one draws from the same state, one after the other.
#[test]
fn the_hidden_generator_of_random_numbers_draws_what_the_open_one_does() {
    let text = |body: &str| {
        format!(
            "package P
               function set input Integer seed; output Integer id; protected Integer s[33] = cat(1, {{seed*i for i in 1:32}}, {{0}});
                 function store input Integer s[33]; input Integer id;
                   external \"C\" ModelicaRandom_setInternalState_xorshift1024star(s, size(s, 1), id); end store;
                 algorithm id := 1; store(s, id); end set;
               function draw input Integer id; output Real r;
                 external \"C\" r = ModelicaRandom_impureRandom_xorshift1024star(id); end draw;
               function step input Integer s[33]; output Real r; output Integer t[33];
                 external \"C\" ModelicaRandom_xorshift1024star(s, t, r); end step;
               model M parameter Integer id = set(12345); discrete Real r, q, a, b;
                 Integer s[33](start = cat(1, {{12345*i for i in 1:32}}, {{0}}), each fixed = true); Integer z[33];
               {body}
               annotation(experiment(StopTime=3.5, Interval=0.5)); end M; end P;"
        )
    };
    let whole = "algorithm when sample(0, 1) then r := draw(id); q := draw(id); end when;
                 equation when sample(0, 1) then (a, z) = step(pre(s)); (b, s) = step(z); end when;";
    let run = Session::with_model(&text(whole)).run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    assert_eq!((table.column("r"), table.column("q")), (table.column("a"), table.column("b")));
    let (r, q) = (table.column("r"), table.column("q"));
    assert!(r[1..].iter().all(|it| *it > 0.0 && *it <= 1.0) && r[1] != q[1] && r.first() != r.last());
    for wrong in [
        "equation r = draw(id); q = 1; a = 1; b = 1; s = z; z = s;",
        "equation when sample(0, 1) then r = draw(id); end when;
        when sample(0, 2) then q = draw(id); end when; a = 1; b = 1; s = z; z = fill(1, 33);",
    ] {
        let run = Session::with_model(&text(wrong)).run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 1, "{}", run.stderr);
        assert!(run.stderr.contains("hidden generator"), "{}", run.stderr);
    }
}

/// x = 2 - t falls to 1 at t = 1; the border that is stored there is x itself, and x > border must not hold after it, so
/// that only one crossing of the falling signal counts, however often the equations of y are solved again.
#[test]
fn a_border_that_an_event_stores_is_not_crossed_by_rounding() {
    for factor in [0.1, 1.0 / 3.0, 7.0] {
        let run = Session::with_model(&format!(
            "model M Real x(start=2, fixed=true), y(start=1), w(start=0, fixed=true); discrete Real border(start=10, fixed=true);
               Integer n(start=0, fixed=true); Boolean above, low(start=false, fixed=true);
             equation der(x) = -1; der(w) = 1; y^3 + y = {factor}*x; low = x < 1; above = y > pre(border);
               when low then border = y; end when;
               when above then n = pre(n) + 1; end when;
               when {{low, above}} then reinit(w, 0); end when;
             annotation(experiment(StopTime=1.5, Interval=0.1)); end M;"
        ))
        .run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = run.table();
        assert_eq!(table.column("n").last(), Some(&0.0), "{factor}");
    }
}

/// x = min(t, 2 - t) is above x(0.75) from 0.75 to 1.25, where `v > 0.5` turns too and the event stores y, the border's
/// own value: y falls, is below it a moment later, and has come above it once, not twice.
#[test]
fn a_border_that_is_stored_where_a_signal_falls_through_it_is_not_met_again() {
    for factor in [0.7, 1.0, 2.1, 7.0] {
        for (rtol, step) in [(1e-4, 0.1), (1e-6, 0.03), (1e-8, 0.1)] {
            let run = Session::with_model(&format!(
                "model M Real x(start=0, fixed=true), v(start=0, fixed=true), y(start=1);
                   discrete Real border(start=10, fixed=true); Integer n(start=0, fixed=true);
                   Boolean back(start=false, fixed=true), above(start=false, fixed=true);
                 equation der(x) = if time < 1 then 1 else -1; der(v) = if time < 1 then 0 else 2; y^3 + y = {factor}*x;
                   back = v > 0.5; above = y >= pre(border);
                   when {{time > 0.75, change(back) and pre(above)}} then border = y; end when;
                   when above and not pre(above) then n = pre(n) + 1; end when;
                 annotation(experiment(StopTime=2, Interval={step}, Tolerance={rtol})); end M;"
            ))
            .run(&["simulate", "model.mo"]);
            assert_eq!(run.status, 0, "{}", run.stderr);
            assert_eq!(run.table().column("n").last(), Some(&1.0), "{factor} {rtol}");
        }
    }
}

/// An encoder whose lines are closer than the tolerance: the angle grows from 1000 by 1 and passes 10,000 of them.
#[test]
fn lines_closer_than_the_tolerance_are_counted() {
    let run = Session::with_model(
        "model M Real phi(start=1000.00005, fixed=true); discrete Real next(start=1000.0001, fixed=true);
           Integer n(start=0, fixed=true);
         equation der(phi) = 1;
           when phi >= pre(next) then n = pre(n) + 1; next = 1000.0001 + 1e-4*(pre(n) + 1); end when;
         annotation(experiment(StopTime=1, Interval=0.1, Tolerance=1e-4)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.table().column("n").last(), Some(&1e4));
}

/// The angle y of a phasor at -1 is pi or -pi as the last digits of p and q have it, which change with every step of
/// Newton's method; its cosine is -1 at all times, and x = -t.
#[test]
fn an_angle_that_jumps_with_the_last_digit_is_solved_for() {
    for interval in [1.0, 0.01, 0.001] {
        let run = Session::with_model(&format!(
            "model M constant Real pi = 3.141592653589793; Real p(start=1), q(start=1.2), y, x(start=0, fixed=true);
             equation der(x) = cos(y); p + q^3 = 2 + time; p*q = 1 - 1e-8*(1 + time);
               y*(2 + x^2) = (2 + x^2)*noEvent(if p*q - 1 + 1e-8*(1 + time) > 0 then -pi else pi);
             annotation(experiment(StopTime=5, Interval={interval})); end M;"
        ))
        .run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let x = run.table().column("x").last().copied().unwrap_or(f64::NAN);
        assert!((x + 5.0).abs() < 5e-6, "{x}");
    }
}

/// Four disks with clutches between them, the last two at rest, exactly, until 0.4: relations between them say nothing
/// there, and no band is so narrow that it holds them. The torque 10 sin(5 t) on the first disk gives all of them
/// together 2 (1 - cos(5 t)); the first clutch slips from the start on and gives the second disk the integral of
/// 2 sin(2 pi t). With other numbers, a crossing was looked for before the step in which it lay, and time ran backwards.
#[test]
fn disks_that_rest_exactly_between_clutches_hold_nothing_up() {
    for (inertia, torque, force) in [(1.0, 5.0, std::f64::consts::TAU), (0.3, 20.0, 0.3)] {
        let clutch = format!(
            "connector Flange Real phi; flow Real tau; end Flange;
        model Disk Flange a, b; Real w(start=0, fixed=true);
        equation a.phi = b.phi; w = der(a.phi); {inertia}*der(w) = a.tau + b.tau; end Disk;
        model Torque Flange a; equation a.tau = -10*sin({torque}*time); end Torque;
        model Clutch Flange a, b; input Real force; Boolean forward(start=false, fixed=true), locked, free;
          Boolean backward(start=false, fixed=true); Integer mode(start=3, fixed=true); Real s, tau;
          Real rel(stateSelect=StateSelect.prefer), w(stateSelect=StateSelect.prefer);
        equation rel = b.phi - a.phi; w = der(rel); b.tau = tau; a.tau = -tau; free = force <= 0;
          forward = pre(mode) == 0 and s > force or initial() and w > 0;
          backward = pre(mode) == 0 and s < -force or initial() and w < 0;
          locked = not free and not (pre(mode) == 1 or forward or pre(mode) == -1 or backward);
          der(w) = if locked then 0 elseif free then s elseif forward or pre(mode) == 1 then s - force else s + force;
          tau = if locked then s elseif free then 0 elseif forward or pre(mode) == 1 then force else -force;
          mode = if free then 2 elseif (pre(mode) == 1 or pre(mode) == 2 or forward) and w > 0 then 1
            elseif (pre(mode) == -1 or pre(mode) == 2 or backward) and w < 0 then -1 else 0;
        end Clutch;"
        );
        let run = Session::with_model(&format!(
            "model M {clutch} Torque t; Disk d1(a(phi(start=0, fixed=true))), d2(a(phi(start=0, fixed=true)));
           Disk d3(a(phi(start=0, fixed=true))), d4(a(phi(start=0, fixed=true))); Clutch c1(force=2*sin({force}*time));
           Clutch c2(force=if time < 0.4 then 0 else 1), c3(force=if time < 0.9 then 0 else 1);
         equation connect(t.a, d1.a); connect(d1.b, c1.a); connect(c1.b, d2.a); connect(d2.b, c2.a);
           connect(c2.b, d3.a); connect(d3.b, c3.a); connect(c3.b, d4.a);
         annotation(experiment(StopTime=1.5, Interval=0.01, Tolerance=1e-6)); end M;"
        ))
        .run(&["simulate", "model.mo"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = run.table();
        let [w1, w2, w3, w4] = ["d1.w", "d2.w", "d3.w", "d4.w"].map(|name| table.column(name));
        for (at, t) in table.column("t").iter().enumerate() {
            let all = 10.0 / torque / inertia * (1.0 - (torque * t).cos());
            assert!((w1[at] + w2[at] + w3[at] + w4[at] - all).abs() < 1e-4, "{t}");
            if *t < 0.4 && force > 1.0 {
                assert!((w2[at] - (1.0 - (force * t).cos()) * 2.0 / force).abs() < 1e-5, "{t}");
                assert!(w3[at].abs().max(w4[at].abs()) < 1e-6, "{t}");
            }
        }
    }
}

/// `reinit(b, ..)` breaks `e = x + 2*b`. e was written as a consequence of the others and follows: x goes on with
/// exp(-t), and j, whose derivative is that of e, with exp(-t) - 1.
#[test]
fn what_is_defined_by_states_follows_a_reinit_and_states_do_not() {
    let table = Session::with_model(
        "model M Real x(start=1, fixed=true); Real b(start=0, fixed=true); Real e; Real j(start=0, fixed=true);
         equation der(x) = -x; der(b) = 0; e = x + 2*b; der(j) = der(e); when time >= 1 then reinit(b, 1); end when;
         annotation(experiment(StopTime=2, Interval=1, Tolerance=1e-8)); end M;",
    )
    .run(&["simulate", "model.mo"])
    .table();
    let (after, last) = (table.rows.len() - 2, table.rows.len() - 1);
    for (row, x) in [(after, (-1f64).exp()), (last, (-2f64).exp())] {
        for (name, value) in [("x", x), ("b", 1.0), ("e", x + 2.0), ("j", x - 1.0)] {
            let found = table.column(name)[row];
            assert!((found - value).abs() < 1e-7, "{name} = {found}, not {value}");
        }
    }
}

/// Two free bodies with v1 = 1 and v2 = 3; the second stops. With nothing said, the velocity of the first stays. Where
/// the model prefers relative coordinates as states, their velocity of 2 stays, and the first body goes on with -2.
#[test]
fn a_reinit_holds_what_the_model_prefers_as_states() {
    for (select, v1, relative) in [("default", 1.0, -1.0), ("prefer", -2.0, 2.0)] {
        let model = format!(
            "model M Real s1(start=0, fixed=true); Real v1(start=1, fixed=true); Real s2(start=5, fixed=true);
               Real v2(start=3, fixed=true); Real d(stateSelect=StateSelect.{select});
               Real v(stateSelect=StateSelect.{select});
             equation der(s1) = v1; der(s2) = v2; der(v1) = 0; der(v2) = 0; d = s2 - s1; v = der(d);
               when time >= 1 then reinit(v2, 0); end when;
             annotation(experiment(StopTime=2, Interval=2)); end M;"
        );
        let table = Session::with_model(&model).run(&["simulate", "model.mo"]).table();
        let last = table.rows.len() - 1;
        for (name, value) in [("v1", v1), ("v2", 0.0), ("v", relative), ("d", 7.0 + relative)] {
            let found = table.column(name)[last];
            assert!((found - value).abs() < 1e-9, "{select}: {name} = {found}, not {value}");
        }
    }
}

/// Two when-statements that assign k, of which nothing reads what the other has assigned, in a component that others
/// come after.
#[test]
fn when_statements_of_a_component_leave_those_after_it_alone() {
    let model = "model M
  model Counter Integer k(start = 0, fixed = true);
  algorithm
    when time > 0.3 then k := 1; end when;
    when time > 0.6 then k := 2; end when;
  end Counter;
  model Lag Real x(start = 0, fixed = true); Boolean b; Real y;
  equation
    b = x > 0.25;
    der(x) = if b then 2 else 1;
    when b then y = time; end when;
  end Lag;
  Counter a, c;
  Lag l;
  Counter d;
  annotation (experiment(StopTime = 1, Interval = 0.5));
end M;
";
    let run = Session::with_model(model).run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    for name in ["a.k", "c.k", "d.k"] {
        assert_eq!((table.column(name)[0], *table.column(name).last().unwrap()), (0.0, 2.0), "{name}");
    }
    assert!((table.column("l.x").last().unwrap() - 1.75).abs() < 1e-9);
    assert!((table.column("l.y").last().unwrap() - 0.25).abs() < 1e-9);
    let flat = Session::with_model(model).run(&["flatten", "model.mo"]).stdout;
    assert!(!flat.contains('@'), "{flat}");
}

/// What changes right after the end of a run does not change within it; what changes at the end does, also where the
/// times agree only to rounding.
#[test]
fn at_the_end_relations_have_their_values_there() {
    for stop in ["1", "3*0.1", "1e5/3"] {
        let model = format!(
            "model M parameter Real T = {stop}; Real x(start = 0, fixed = true); Real c, f, s;
             Integer n(start = 0, fixed = true), m(start = 0, fixed = true);
             equation der(x) = 1; s = if time > T then 5 else 2; c = ceil(time/T); f = floor(time/T);
             when time > T then n = pre(n) + 1; end when; when time >= T then m = pre(m) + 1; end when; end M;"
        );
        let study = format!("[model]\nfile = \"model.mo\"\n[simulate]\nstop = \"{stop}\"\nstep = \"({stop})/2\"\n");
        let run = Session::with_model(&model).with("study.toml", &study).run(&["simulate", "study.toml"]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let table = run.table();
        let last = ["n", "m", "s", "c", "f"].map(|name| *table.column(name).last().unwrap());
        assert_eq!(last, [0.0, 1.0, 2.0, 1.0, 1.0], "{stop}");
    }
}

/// Two variables that are equal cannot be given two values; given the same one, both begin there: x = 3 exp(-(t - 0.5)/2).
#[test]
fn equal_variables_are_not_given_two_values() {
    let model = |second: &str| {
        format!(
            "model M Real x(start = 1), y, q; equation der(x) = -x + q; der(y) = -q; x = y;
             when time >= 0.5 then reinit(x, 3); reinit(y, {second}); end when; end M;"
        )
    };
    let run = Session::with_model(&model("4")).run(&["simulate", "model.mo", "--json"]);
    assert_eq!(run.status, 1, "{}", run.stderr);
    finding(&run.json(), "contradicting-reinit");
    let table = table_of(&model("3"));
    let x = *table.column("x").last().unwrap();
    assert_close(x, 3.0 * (-0.25f64).exp(), 1e-5, "equal values");
}

/// Both velocities of a pendulum cannot be given at a place where x v + y w is not zero: that it moves is told. With one
/// given, the other follows and the place stays, which is as it should be.
#[test]
fn what_reinit_displaces_is_told() {
    let model = |given: &str| {
        format!(
            "model M Real x(start = 1), y(start = 0), v, w, L; equation x^2 + y^2 = 1; der(x) = v; der(y) = w;
             der(v) = -L*x; der(w) = -L*y - 9.81; when time >= 0.2 then {given} end when; end M;"
        )
    };
    let run = Session::with_model(&model("reinit(v, 1); reinit(w, 1);")).run(&["simulate", "model.mo", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let document = run.json();
    let told = finding(&document, "reinit-displaces");
    assert_eq!((&told["level"], &told["names"]), (&"warning".into(), &serde_json::json!(["x", "y"])), "{told}");
    assert!(document["events"][0]["jumps"]["x"].is_array());
    let run = Session::with_model(&model("reinit(v, 1);")).run(&["simulate", "model.mo", "--json"]);
    let document = run.json();
    assert!(!document["findings"].to_string().contains("reinit-displaces"), "{}", document["findings"]);
    assert!(document["events"][0]["jumps"]["x"].is_null() && document["events"][0]["jumps"]["w"].is_array());
}
/// The equations are monotone and have one solution; after t = 1 it is a = 3, b = 0.1, and Newton's steps from the values
/// before overflow the exponential or run to and fro.
#[test]
fn unknowns_that_jump_farther_than_newtons_method_leads_are_followed() {
    let table = Session::with_model(
        "model M Real a; Real b; Real x(start=0, fixed=true);
         equation
           27*a*abs(a) + 0.001*a + 2.5*b = if time < 1 then -0.4 else 243.253;
           0.001*exp(100*b) + 0.001*b - 2.5*a = if time < 1 then -0.2 else 0.001*exp(10) - 7.4999;
           der(x) = a;
         annotation(experiment(StopTime=2, Interval=0.5)); end M;",
    )
    .run(&["simulate", "model.mo"])
    .table();
    assert_close(*table.column("a").last().unwrap(), 3.0, 1e-9, "a");
    assert_close(*table.column("b").last().unwrap(), 0.1, 1e-9, "b");
}

/// y = x^2 by an equation that Newton's method solves only from within 1.4/200 of the root, while the state is a straight
/// line that asks for no short step: rows within steps need unknowns far from those at their ends. The root is simple
/// everywhere.
#[test]
fn unknowns_that_bend_within_long_steps_are_found() {
    let run = Session::with_model(
        "model M Real x(start=0, fixed=true); Real y;
         equation der(x) = 1; atan(200*(y - x^2)) = 0;
         annotation(experiment(StopTime=3, Interval=0.1)); end M;",
    )
    .run(&["simulate", "model.mo"]);
    let table = run.table();
    assert!(!run.stderr.contains("multiple-root"), "{}", run.stderr);
    assert_eq!(table.rows.len(), 31);
    for (t, y) in table.column("t").iter().zip(table.column("y")) {
        // Unknowns are solved for to a hundredth of the tolerance.
        assert_close(y, t * t, 1e-8 * f64::max(1.0, t * t), "y");
    }
}

/// sin(1000 t) is above c = 0.99999 for 2 acos(c)/1000 around each of its 159 peaks up to t = 1, much shorter than any step.
#[test]
fn relations_of_time_by_way_of_a_variable_are_scheduled_wherever_they_stand() {
    let session = Session::with_model(
        "model Pulses
  Real s = sin(1000*time), x(start=0, fixed=true);
  Boolean b = s > 0.99999;
  Integer n(start=0, fixed=true);
equation
  der(x) = if b then 1000 else 0;
  when s > 0.99999 then
    n = pre(n) + 1;
  end when;
end Pulses;
",
    );
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let (x, n) = (run.table().column("x").to_vec(), run.table().column("n").to_vec());
    let expected = 159.0 * 2.0 * 0.99999f64.acos();
    assert!((x[x.len() - 1] - expected).abs() < 1e-6 * expected, "{}", x[x.len() - 1]);
    assert_eq!(n[n.len() - 1], 159.0);
}

/// A piecewise function of time stands still on its flat parts, wherever its borders would be: other events, and the end,
/// are no reason to turn relations with it.
#[test]
fn relations_of_what_stands_still_for_now_do_not_turn_at_other_events() {
    for (ramp, low) in [("time", 0.0), ("-time", -3.0)] {
        // u is flat until 1, moves until 2, and is flat from there on; n sees it at a whole number at first.
        let model = format!(
            "model Flat
  Real u = if time < 1 then {low:?} elseif time < 2 then {ramp} else 5, tick = if time < 0.3 then 1 else 2;
  Integer n = integer(u);
  Real a = if u <= {low:?} then 1 else 2, b = if u < 0.5 then 1 else 2, c = if u >= {low:?} then 1 else 2,
    d = if u > 4.5 then 1 else 2, x(start = 0, fixed = true);
equation
  der(x) = a + 10*b + 100*c + 1000*d + 0*tick;
  annotation(experiment(StopTime = 2.5, Interval = 0.25));
end Flat;
"
        );
        for stop in [0.2, 0.8, 1.5, 2.2, 2.5] {
            let session = Session::with_model(&model)
                .with("study.toml", &format!("[model]\nfile = \"model.mo\"\n[simulate]\nstop = {stop}\nstep = 0.1\n"));
            let run = session.run(&["simulate", "study.toml"]);
            assert_eq!(run.status, 0, "{}", run.stderr);
            let table = run.table();
            let column = |name: &str| table.column(name).to_vec();
            let (times, u) = (column("t"), column("u"));
            let side = |holds: bool| if holds { 1.0 } else { 2.0 };
            let (a, b, c, d, n) = (column("a"), column("b"), column("c"), column("d"), column("n"));
            for (row, (&time, &u)) in times.iter().zip(&u).enumerate() {
                // At the times at which something changes each side has its row.
                if [0.5, 1.0, 2.0].iter().any(|change| (time - change).abs() < 1e-9) {
                    continue;
                }
                let expected = [side(u <= low), side(u < 0.5), side(u >= low), side(u > 4.5), u.floor()];
                assert_eq!([a[row], b[row], c[row], d[row], n[row]], expected, "u = {u} at {time} of {stop}, {ramp}");
            }
        }
    }
}

#[test]
fn an_assertion_that_only_warns_tells_when_it_first_did_not_hold() {
    let session = Session::with_model(
        "model Warns
  Real x(start=0, fixed=true);
equation
  der(x) = 1;
  assert(abs(x - 0.5) > 0.1, \"near the middle\", AssertionLevel.warning);
end Warns;
",
    );
    let run = session.run(&["simulate", "model.mo", "--json"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let told = run.json()["findings"][0].clone();
    assert_eq!(told["code"], "assertion", "{told}");
    assert!(told["message"].as_str().unwrap().contains("t = 0.4"), "{told}");
}

/// Three phases add up to zero but for rounding errors of 1e-14; that these differ after an event is no jump.
#[test]
fn rounding_errors_of_large_terms_are_no_jump_of_their_sum() {
    let model = "model Phases\n  Real x(start = 0, fixed = true);\n  Real v[2];\n  Real u[3];\n  \
                 Real zero = (u[1] + u[2] + u[3])/3;\n  \
                 Integer n = if time > 100 then (if sin(7*x) > 0.3 then 1 else 2) else 0;\nequation\n  \
                 der(x) = 1 + 0.5*sin(x);\n  \
                 v[1] + 1e-4*v[1]^3 = 500*cos(3*x);\n  v[2] + 1e-4*v[2]^3 = 500*sin(3*x);\n  \
                 u[1] = v[1];\n  u[2] = -0.5*v[1] + 0.5*sqrt(3)*v[2];\n  u[3] = -0.5*v[1] - 0.5*sqrt(3)*v[2];\n  \
                 annotation (experiment(StopTime = 20));\nend Phases;\n";
    let document = simulate(model);
    assert!(events(&document).len() > 30, "the relation changes side where it cannot matter");
    for event in events(&document) {
        assert_eq!(event["jumps"], serde_json::json!({}), "at {}", event["time"]);
    }
}

/// `when initial() then reinit(x, 5)` is the initial equation x = 5, alone and beside other conditions; a fixed start
/// contradicts it.
#[test]
fn what_is_reinitialized_at_the_start_starts_there() {
    for condition in ["initial()", "{initial(), time > 0.5}"] {
        let model = |start: &str| {
            format!(
                "model M\n  Real x{start};\nequation\n  der(x) = 1;\n  when {condition} then\n    reinit(x, 5);\n  \
                 end when;\n  annotation (experiment(StopTime = 0.4));\nend M;\n"
            )
        };
        let session = Session::with_model(&model(""));
        let run = session.run(&["simulate", "model.mo"]);
        let x = run.table().column("x");
        assert_close(x[0], 5.0, 1e-12, condition);
        assert_close(x[x.len() - 1], 5.4, 1e-9, condition);
        // The printed model says the same.
        let text = session.run(&["flatten", "model.mo"]).stdout;
        let again = Session::with_model(&text).run(&["simulate", "model.mo"]);
        assert_close(again.table().column("x")[0], 5.0, 1e-12, condition);
        let refused = Session::with_model(&model("(start = 0, fixed = true)")).run(&["simulate", "model.mo", "--json"]);
        assert_eq!(refused.status, 1, "{}", refused.stderr);
    }
}
