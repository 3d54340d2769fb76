//! The examples of [@barton2002]: what jumps, what goes on, which impulses there are.
//!
//! `cargo xtask study barton2002` writes `book/studies/barton2002`. Expected time: 2 s.
#![forbid(unsafe_code)]

mod study;

use daesy::program::{Answer, Status};
use daesy::report::chart::{Chart, Series};
use serde_json::Value;
use study::{Record, at, column, digits, number_at};

/// How far a variable jumps at the event of this number.
fn jump(answer: &Answer, event: &str, name: &str) -> f64 {
    let value = |side: &str| number_at(answer, &["events", event, "jumps", name, side]);
    let jump = value("1") - value("0");
    if jump.is_nan() { 0.0 } else { jump }
}

/// Coefficients of delta, delta', .. of a variable at the first event.
fn impulses(answer: &Answer, name: &str) -> String {
    let coefficients = at(answer, &["events", "0", "impulses", name]).as_array().cloned().unwrap_or_default();
    let mut terms = Vec::new();
    for (order, coefficient) in coefficients.iter().enumerate().rev() {
        let value = coefficient.as_f64().unwrap_or(f64::NAN);
        if value.abs() > 1e-9 {
            terms.push(format!(
                "{} delta{}",
                digits(value, 6).trim_end_matches('0').trim_end_matches('.'),
                "'".repeat(order)
            ));
        }
    }
    if terms.is_empty() { "none".to_owned() } else { terms.join(" + ") }
}

fn continuous(answer: &Answer, event: &str) -> String {
    let list = at(answer, &["events", event, "continuous"]).as_array().cloned().unwrap_or_default();
    let names: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

/// A curve that does not join the values before and after a jump.
fn broken(name: &str, x: &[f64], y: &[f64], color: usize) -> Series {
    let (mut times, mut values) = (Vec::new(), Vec::new());
    for at in 0..x.len() {
        if at > 0 && x[at] == x[at - 1] {
            times.push(x[at]);
            values.push(f64::NAN);
        }
        times.push(x[at]);
        values.push(y[at]);
    }
    Series::line(name, &times, &values, color)
}

fn main() {
    let mut record = Record::new("barton2002");

    let section_3 = record.must("simulate problems/jumps/section_3.toml");
    let (x1, x2) = (jump(&section_3, "0", "x1"), jump(&section_3, "0", "x2"));
    record.number("section 3, jump of x1", x1);
    record.number("section 3, jump of x2", x2);
    let goes_on = continuous(&section_3, "0");
    record.compare("what goes on", "(3.6)", "x1 + 2 x2", &goes_on, "found from the pencil by a staircase, as (4.3)");
    record.compare("jump of x1", "(4.6)", "2", &digits(x1, 4), "f = H(t)");
    record.compare("jump of x2", "(4.5)", "-1", &digits(x2, 4), "");
    let check = record.ask("check problems/jumps/section_3.toml");
    let index = number_at(&check, &["regularity", "differentiation_index"]);
    let free = number_at(&check, &["structure", "degrees_of_freedom"]);
    record.compare("index and degrees of freedom", "sec. 3", "1 and 1", &format!("{index} and {free}"), "");

    let chain = record.must("simulate problems/jumps/chain.toml");
    let remark = "by differentiating z4 = 2 H + 3 (t - 1)^2 H; a chain of index 4, our own example for (2.6)";
    record.compare("impulses of z3", "(2.6)", "2 delta", &impulses(&chain, "z3"), remark);
    record.compare("impulses of z2", "(2.6)", "2 delta'", &impulses(&chain, "z2"), "");
    record.compare("impulses of z1", "(2.6)", "2 delta'' + 6 delta", &impulses(&chain, "z1"), "");
    record.number("chain, jump of z2", jump(&chain, "0", "z2"));

    let pendulum = record.must("simulate problems/jumps/pendulum.mo");
    let force = jump(&pendulum, "0", "T");
    record.number("pendulum, jump of T", force);
    let goes_on = continuous(&pendulum, "0");
    let remark = "the sign of y, which the paper finds ambiguous, follows because y is kept as a state of its own";
    record.compare("pendulum: what goes on", "(4.11)", "x and v; y and w by [13]", &goes_on, remark);
    let table = pendulum.table.clone().expect("a simulation has a table");
    let (t, y, tension) = (column(&table, "t"), column(&table, "y"), column(&table, "T"));
    let event = t.windows(2).position(|pair| pair[0] == pair[1]).expect("the weight steps");
    // T = v^2 + w^2 - u y, so that a step of the weight by du moves T by -y du.
    let expected = -(5.0 - 9.81) * y[event];
    let remark = "derived: T = v^2 + w^2 - u y, where only u jumps";
    record.compare("pendulum: jump of the force", "(4.11)", &digits(expected, 5), &digits(force, 5), remark);

    let product = record.ask("simulate problems/jumps/product.toml");
    let refused = product.diagnostics.first().map_or("", |diagnostic| diagnostic.message.as_str());
    let verdict = if product.status != Status::Done && refused.contains("no defined value") {
        "refused, naming the product"
    } else {
        "answered"
    };
    record.compare("x1' + x3 x2' = 0, both step", "(4.12)", "not covered by theory", verdict, "H delta has no meaning");
    let apart = record.must("simulate problems/jumps/apart.toml");
    let jump_apart = jump(&apart, "1", "x1");
    record.compare(
        "the same, one step earlier",
        "(4.12)",
        "-",
        &format!("x1 jumps by {}", digits(jump_apart, 4)),
        "then x3 is constant at the jump",
    );

    let varying = record.must("simulate problems/jumps/varying.toml");
    let frozen = record.must("simulate problems/jumps/frozen.toml");
    let (right, wrong) = (jump(&varying, "0", "x1"), jump(&frozen, "0", "x1"));
    record.number("time-varying, jump of x1", right);
    record.number("frozen, jump of x1", wrong);
    let ours = format!("{} varying, {} frozen", digits(right, 4), digits(wrong, 4));
    let remark = "(x1 - t x2)' = 0 goes on exactly; frozen, x2's impulse moves x1 - x2";
    record.compare("jump of x1 where coefficients vary", "sec. 4.3", "freezing is wrong in general", &ours, remark);

    // x1 = f and x1 + x2 = exp(-t), at every row; at the step one of its two rows is before it.
    let turning = record.must("simulate problems/jumps/turning.toml");
    let table = turning.table.clone().expect("a simulation has a table");
    let mut off: f64 = 0.0;
    let mut n_at_step = 0;
    for ((t, x1), x2) in column(&table, "t").iter().zip(column(&table, "x1")).zip(column(&table, "x2")) {
        n_at_step += usize::from(*t == 1.0);
        let f = f64::from(u8::from(*t > 1.0 || n_at_step == 2 && *t == 1.0));
        off = off.max((x1 - f).abs()).max((x1 + x2 - (-t).exp()).abs());
    }
    record.number("time-varying trajectory, jump of x2", jump(&turning, "0", "x2"));
    record.compare(
        "trajectory where coefficients vary and hide the structure",
        "sec. 4.3",
        "-",
        if off < 1e-6 { "within 1e-6 of the exact solution" } else { "off by more than 1e-6" },
        "our own example: x1 = f, (x1 + x2)' = -(x1 + x2), combined by factors that depend on time",
    );

    let curves = |answer: &Answer, names: &[&str], title: &str| {
        let table = answer.table.clone().expect("a simulation has a table");
        let series = names
            .iter()
            .enumerate()
            .map(|(color, name)| broken(name, column(&table, "t"), column(&table, name), color))
            .collect();
        Chart { title: title.to_owned(), x_label: "time".to_owned(), series, ..Chart::default() }
    };
    let mut first = curves(&section_3, &["x1", "x2"], "Section 3: both variables jump, x1 + 2 x2 does not");
    let table = section_3.table.clone().expect("a simulation has a table");
    let sum: Vec<f64> = column(&table, "x1").iter().zip(column(&table, "x2")).map(|(a, b)| a + 2.0 * b).collect();
    first.series.push(broken("x1 + 2 x2", column(&table, "t"), &sum, 2));
    let second = Chart {
        title: "Pendulum whose weight steps at 0.5: the force in the rod jumps".to_owned(),
        x_label: "time".to_owned(),
        series: vec![
            broken("force T", t, tension, 1),
            broken("10 y", t, &y.iter().map(|y| 10.0 * y).collect::<Vec<_>>(), 0),
        ],
        ..Chart::default()
    };
    let third = {
        let (a, b) = (varying.table.clone().expect("a table"), frozen.table.clone().expect("a table"));
        Chart {
            title: "x1 where the coefficient is t, and with t frozen at the jump".to_owned(),
            x_label: "time".to_owned(),
            series: vec![
                broken("coefficients vary: right", column(&a, "t"), column(&a, "x1"), 2),
                broken("frozen at t = 1: wrong", column(&b, "t"), column(&b, "x1"), 4),
            ],
            ..Chart::default()
        }
    };
    record.picture("jumps", "What jumps and what goes on when the forcing steps.", &[first, second, third]);
    record.write();
}
