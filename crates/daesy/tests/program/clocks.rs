//! Clocks and clocked equations through the program, against values worked out by hand.

use crate::session::Session;

fn close(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= 1e-7 * (1.0 + expected.abs()), "{what}: {found} instead of {expected}");
}

/// The value of a variable in the last row at each time.
fn values(model: &str, name: &str, times: &[f64]) -> Vec<f64> {
    let run = Session::with_model(model).run(&["simulate", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let table = run.table();
    let (t, column) = (table.column("t"), table.column(name));
    let last = |time: f64| t.iter().rposition(|t| (t - time).abs() < 1e-9).unwrap();
    times.iter().map(|&time| column[last(time)]).collect()
}

fn refusal(model: &str) -> (String, String) {
    let run = Session::with_model(model).run(&["check", "model.mo", "--json"]);
    assert_eq!(run.status, 1);
    let finding = run.json()["findings"][0].clone();
    let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    (text("code"), text("message"))
}

/// x' = x + u with u = hold(-3 sample(x)): x((k+1)T) = e^T x(kT) + (e^T - 1) u, as by `when sample(..)`.
#[test]
fn a_clocked_controller_acts_at_its_ticks() {
    let times: Vec<f64> = (0..=10).map(|k| 0.1 * f64::from(k)).collect();
    let found = values(
        "model M Real x(start=1, fixed=true), y, u;
         equation der(x) = x + hold(u); y = sample(x, Clock(0.1)); u = -3*y;
         annotation(experiment(StopTime=1, Interval=0.1, Tolerance=1e-9)); end M;",
        "x",
        &times,
    );
    let mut expected = 1.0;
    for value in found {
        close(value, expected, "state at a tick");
        expected = 0.1f64.exp() * expected - 3.0 * (0.1f64.exp() - 1.0) * expected;
    }
}

/// Equations of a clock need no direction: a + b = k and a - b = 1 give a = (k + 1)/2 at the k-th tick, counted by
/// `previous`.
#[test]
fn clocked_equations_are_solved_together() {
    let model = "model M Real a, b; Integer k(start=0);
         equation when Clock(1, 2) then k = previous(k) + 1; a + b = k; a - b = 1; end when;
         annotation(experiment(StopTime=1.4, Interval=0.1)); end M;";
    assert_eq!(values(model, "k", &[0.0, 0.4, 0.5, 1.2]), [1.0, 1.0, 2.0, 3.0]);
    assert_eq!(values(model, "a", &[0.0, 0.5, 1.2]), [1.0, 1.5, 2.0]);
}

/// k counts ticks of 0.1 s: every second of them, shifted by half an interval, and three ticks in the interval.
#[test]
fn rates_follow_from_one_clock() {
    let model = "model M Integer k(start=0), second, late, early(start=7), n(start=0); Real dense, h;
         equation when Clock(0.1) then k = previous(k) + 1; end when;
           second = subSample(k, 2); late = shiftSample(k, 1, 2); early = backSample(shiftSample(k, 3), 2);
           when Clock() then dense = superSample(k, 4); n = previous(n) + 1; h = interval(dense); end when;
         annotation(experiment(StopTime=0.5, Interval=0.025)); end M;";
    assert_eq!(values(model, "k", &[0.0, 0.1, 0.4]), [1.0, 2.0, 5.0]);
    assert_eq!(values(model, "second", &[0.0, 0.1, 0.2, 0.3, 0.4]), [1.0, 1.0, 3.0, 3.0, 5.0]);
    assert_eq!(values(model, "late", &[0.025, 0.05, 0.125, 0.15]), [0.0, 1.0, 1.0, 2.0]);
    assert_eq!(values(model, "n", &[0.0, 0.025, 0.075, 0.1]), [1.0, 2.0, 4.0, 5.0]);
    assert_eq!(values(model, "h", &[0.1]), [0.025]);
    // Three intervals late and two early: the first tick is at 0.1 s, when k has not come that far yet.
    assert_eq!(values(model, "early", &[0.075, 0.1, 0.3, 0.4]), [7.0, 0.0, 4.0, 5.0]);
}

/// A factor that is left out follows from the clocks on both sides.
#[test]
fn a_factor_is_inferred() {
    let model = "model M Integer k(start=0); Real slow;
         equation when Clock(0.1) then k = previous(k) + 1; end when;
           when Clock(0.3) then slow = subSample(k); end when;
         annotation(experiment(StopTime=0.7, Interval=0.1)); end M;";
    assert_eq!(values(model, "slow", &[0.0, 0.2, 0.3, 0.5, 0.6]), [1.0, 1.0, 4.0, 4.0, 7.0]);
}

/// What jumps at a tick is sampled before it jumps, and a held value is the start value before the first tick.
#[test]
fn sampling_takes_the_left_limit() {
    let model = "model M Real step, y(start=5), z; Clock c = shiftSample(Clock(0.2), 1);
         equation step = if time < 0.4 then 0 else 1; y = sample(step, c); z = hold(y);
         annotation(experiment(StopTime=0.9, Interval=0.1)); end M;";
    assert_eq!(values(model, "z", &[0.0, 0.1, 0.2, 0.4, 0.6]), [5.0, 5.0, 0.0, 0.0, 1.0]);
}

/// sin(2 pi t) rises through 0.5 at t = 1/12 + n: a clock of events ticks then, one second after the other.
#[test]
fn events_make_a_clock_tick() {
    let model = "model M Real u, y(start=0), h; Integer n(start=0);
         equation u = sin(6.283185307179586*time);
           when Clock(u > 0.5, startInterval=0.25) then n = previous(n) + 1; y = sample(time); h = interval(); end when;
         annotation(experiment(StopTime=3, Interval=0.5, Tolerance=1e-10)); end M;";
    assert_eq!(values(model, "n", &[0.0, 0.5, 1.5, 3.0]), [0.0, 1.0, 2.0, 3.0]);
    close(values(model, "y", &[2.5])[0], 2.0 + 1.0 / 12.0, "time of the last tick");
    close(values(model, "h", &[0.5])[0], 0.25, "interval before the first tick");
    close(values(model, "h", &[2.5])[0], 1.0, "interval");
}

/// 2 cos(pi t) > 1 holds at the start and again from t = 5/3 on: the condition becomes true at both times.
#[test]
fn a_condition_that_holds_at_the_start_makes_a_tick_there() {
    let model = "model M Real u, y(start=-1); Integer n(start=0);
         equation u = 2*cos(3.141592653589793*time);
           when Clock(u > 1) then n = previous(n) + 1; y = sample(time); end when;
         annotation(experiment(StopTime=2, Interval=0.5, Tolerance=1e-10)); end M;";
    assert_eq!(values(model, "n", &[0.5, 1.5, 2.0]), [1.0, 1.0, 2.0]);
    assert_eq!(values(model, "y", &[1.0]), [0.0]);
    close(values(model, "y", &[2.0])[0], 5.0 / 3.0, "time of the last tick");
}

/// A clock whose ticks move what its condition compares with: |x - offset| > 1 with x = 3 t ticks at t = 1/3, 2/3, 1,
/// ..
#[test]
fn a_tick_may_end_its_own_condition() {
    let model = "model M Real x, offset(start=0); Integer n(start=0); Clock c = Clock(abs(x - hold(offset)) > 1);
         equation x = 3*time; when c then offset = sample(x); n = previous(n) + 1; end when;
         annotation(experiment(StopTime=1.2, Interval=0.1)); end M;";
    assert_eq!(values(model, "n", &[0.3, 0.4, 0.7, 1.2]), [0.0, 1.0, 2.0, 3.0]);
}

/// x' = -x by Euler's methods with h = 0.1: x_k = (1 - h)^k and (1 + h)^-k.
#[test]
fn derivatives_in_clocked_equations_are_discretized() {
    for (method, factor) in [("ExplicitEuler", 0.9), ("ImplicitEuler", 1.0 / 1.1)] {
        let model = format!(
            "model M Real x(start=1, fixed=true), u;
             equation der(x) = -x + u; u = sample(0*time, Clock(Clock(0.1), solverMethod=\"{method}\"));
             annotation(experiment(StopTime=0.5, Interval=0.1)); end M;"
        );
        let found = values(&model, "x", &[0.0, 0.1, 0.3, 0.5]);
        for (value, power) in found.into_iter().zip([0, 1, 3, 5]) {
            close(value, f64::powi(factor, power), method);
        }
    }
}

#[test]
fn clocks_that_cannot_be_are_refused_by_name() {
    let (code, message) = refusal("model M Real y; equation y = sample(time) + 1; end M;");
    assert_eq!(code, "clock-rate");
    assert!(message.contains("nothing says when"), "{message}");
    let (code, message) =
        refusal("model M Real y; equation y = sample(time, Clock(0.1)) + sample(time, Clock(0.2)); end M;");
    assert_eq!(code, "clock-rate");
    assert!(message.contains("contradict"), "{message}");
    let (code, _) = refusal("model M Real x; equation der(x) = sample(time, Clock(0.1)); end M;");
    assert_eq!(code, "clocked-derivative");
    let (code, message) = refusal(
        "model M Real x(start=0), u; equation der(x) = -x + u;
         x = sample(time, Clock(Clock(0.1), solverMethod=\"ExplicitEuler\")); end M;",
    );
    assert_eq!(code, "unsupported");
    assert!(message.contains("index is higher than 1") && message.contains("section 16.8.2"), "{message}");
    let (code, _) = refusal("model M Real y; equation sin(y) + y = sample(time, Clock(0.1)); end M;");
    assert_eq!(code, "clocked-loop");
}
