//! The examples of [@campbell2011]: manipulator, reactor, circuit, feedback, as descriptor systems.
//!
//! `cargo xtask study campbell2011` writes `book/studies/campbell2011`. Expected time: 5 s.
#![forbid(unsafe_code)]

mod study;

use daesy::program::{Answer, Status};
use daesy::report::chart::{Chart, Series};
use serde_json::Value;
use study::{Record, at, column, digits, number_at};

fn shape(answer: &Answer) -> String {
    let of = |key: &str| number_at(answer, &[key]);
    format!("mu = {}, d = {}, a = {}, v = {}", of("mu"), of("d"), of("a"), of("v"))
}

fn names(value: &Value) -> String {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
}

fn main() {
    let mut record = Record::new("campbell2011");

    // Examples 1, 5 and 6: the manipulator.
    let check = record.must("check problems/manipulator/study.toml");
    let index = number_at(&check, &["regularity", "differentiation_index"]);
    let strangeness = number_at(&check, &["regularity", "strangeness_index"]);
    let ours = format!("{strangeness} and {index}");
    record.compare(
        "strangeness and differentiation index",
        "Example 5",
        "2 and 3",
        &ours,
        "three angles, two constraints",
    );
    let hidden = number_at(&check, &["structure", "hidden_constraints"]);
    let remark = "each of the two constraints, differentiated once and twice";
    record.compare("hidden constraints", "Example 5", "g_p v = 0 and its derivative", &digits(hidden, 1), remark);
    let free = number_at(&check, &["structure", "degrees_of_freedom"]);
    record.compare("free start values", "Example 6", "2 (one position, one rate)", &digits(free, 1), "3 - 2 of each");
    let changed = at(&check, &["initial", "changed"]).as_object().cloned().unwrap_or_default();
    let moved: Vec<String> = changed
        .iter()
        .map(|(name, pair)| {
            let value = |at: usize| pair[at].as_f64().unwrap_or(f64::NAN);
            format!("{name}: {} to {}", digits(value(0), 3), digits(value(1), 4))
        })
        .collect();
    let remark = "start angles that leave the wall are moved to it, those asked for are kept";
    record.compare("consistent start", "Example 6, (11)", "H z = z, F2(z) = 0", &moved.join("; "), remark);
    let regular = record.must("regularize problems/manipulator/study.toml");
    let remark = "all constraints and all variables are kept, y among them";
    record.compare("reduced system", "Example 5, (9)", "p1', v1' and g, g', g''", &shape(&regular), remark);
    record.number("manipulator, strangeness index", number_at(&regular, &["mu"]));
    let motion = record.must("simulate problems/manipulator/study.toml");
    let table = motion.table.clone().expect("a simulation has a table");
    // The constraints at every row, worked out anew from the angles.
    let [first, second, third] = ["theta[1]", "theta[2]", "theta[3]"].map(|name| column(&table, name));
    let mut off: f64 = 0.0;
    for ((first, second), third) in first.iter().zip(second).zip(third) {
        let (a, b, c) = (*first, first + second, first + second + third);
        off = off.max((a.cos() + 0.8 * b.cos() + 0.4 * c.cos() - 1.2).abs()).max(c.abs());
    }
    record.compare(
        "distance of the hand from the wall",
        "sec. 1",
        "stays on the manifold",
        if off < 1e-9 { "less than 1e-9 m off" } else { "off by more than 1e-9 m" },
        "projected after every step",
    );

    // Example 2: the reactor.
    let reactor = record.must("check problems/reactor/study.toml");
    let index = number_at(&reactor, &["regularity", "differentiation_index"]);
    let remark = "(5) uses k3 for the cooling and for the reaction; so do we";
    record.compare("reactor, T_C given: index", "Example 2", "(5), semi-explicit", &digits(index, 1), remark);
    let reactor = record.must("check problems/reactor/prescribed.toml");
    let index = number_at(&reactor, &["regularity", "differentiation_index"]);
    record.compare(
        "reactor, c prescribed: index",
        "Example 2",
        "-",
        &digits(index, 1),
        "c is differentiated twice; nothing is free",
    );

    // Example 3: a mechanism linearized along a motion.
    let linearized = record.must("regularize problems/descriptor/linearized.toml --time 0.5");
    record.compare(
        "linearized mechanism",
        "Example 3",
        "linear, coefficients vary",
        &shape(&linearized),
        "at t = 0.5; the constraints turn",
    );

    let motion = record.must("simulate problems/descriptor/linearized.toml");
    let moved = motion.table.clone().expect("a simulation has a table");
    // p = r (-sin t, cos t) on the turning constraint, where r'' + 0.1 r' = -sin(t)^2.
    let off = column(&moved, "t").iter().zip(column(&moved, "p1")).zip(column(&moved, "p2")).map(|((&t, p1), p2)| {
        let (slow, fast) = (5.0 - 0.05 / 4.01, 0.5 / 4.01);
        let r =
            10.0 * slow * (1.0 - (-0.1 * t).exp()) - 5.0 * t + fast * (1.0 + 0.05 * (2.0 * t).sin() - (2.0 * t).cos());
        (p1 + r * t.sin()).abs().max((p2 - r * t.cos()).abs())
    });
    let off = off.fold(0.0, f64::max);
    record.compare(
        "its motion, simulated",
        "Example 3",
        "-",
        if off < 1e-6 { "within 1e-6 of the exact solution" } else { "off by more than 1e-6" },
        "index 3 with constraints that turn; along them r'' + 0.1 r' = -sin(t)^2",
    );

    // Equations that follow from others or contradict them, told by their right-hand sides.
    for (given, theirs, remark) in [
        ("", "no solution", "they agree at the start, where sin(time) is zero, and nowhere else"),
        (" --set a=0", "v = 1, vanishing", "the third equation follows from the two others"),
    ] {
        let answer = record.ask(&format!("regularize problems/descriptor/contradiction.mo{given}"));
        let ours = match answer.status {
            Status::Done => shape(&answer),
            _ => answer.diagnostics.first().map_or_else(String::new, |told| format!("refused: {}", told.code)),
        };
        record.compare("x' = -x, y = 2 x, x' = -y/2 + a sin(t)", "Hypothesis 1", theirs, &ours, remark);
    }

    // Examples 4 and 9: the circuit.
    let circuit = record.must("regularize problems/descriptor/circuit.toml");
    record.compare("circuit", "Example 4", "2 differential, 2 algebraic", &shape(&circuit), "index 1");
    let turned = record.must("regularize problems/descriptor/circuit.toml --input vL");
    let ours = format!(
        "states {}; input {}",
        names(at(&turned, &["variables", "states"])),
        names(at(&turned, &["variables", "inputs"]))
    );
    record.compare(
        "v_L as input",
        "Example 9",
        "as well possible",
        &ours,
        "the source becomes a variable; E1 has no column of the input",
    );

    // Example 7: feedback.
    let behaviour = record.must("regularize problems/descriptor/feedback.mo");
    record.compare(
        "x2' = 0, log x2 + sin u = 0",
        "Example 7",
        "mu = 0, v = 0, a = 1, d = 1",
        &shape(&behaviour),
        "the paper prints l = 1; there are two equations",
    );
    let feedback = record.must("regularize problems/descriptor/feedback.mo --feedback");
    let told = feedback.text.lines().rev().find(|line| line.trim_start().starts_with("u =")).unwrap_or_default().trim();
    let remark = "the constant keeps the start; closed, sin(x1 + w) stands where the paper prints sin x1 + sin w";
    record.compare("feedback", "Example 7", "u = x1 + w", told, remark);

    let t = column(&table, "t");
    let line = |name: &str, color: usize| Series::line(name, t, column(&table, name), color);
    let charts = [
        Chart {
            title: "Manipulator: the height of the hand, its tracking output".to_owned(),
            x_label: "time, s".to_owned(),
            y_label: "m".to_owned(),
            series: vec![line("y", 0)],
            ..Chart::default()
        },
        Chart {
            title: "Force on the wall and torque at the hand: the multipliers".to_owned(),
            x_label: "time, s".to_owned(),
            y_label: "N, N m".to_owned(),
            series: vec![line("lambda[1]", 1), line("lambda[2]", 2)],
            ..Chart::default()
        },
    ];
    record.picture(
        "manipulator",
        "The hand slides along the wall under torques that sway; the multipliers follow from the hidden constraints.",
        &charts,
    );
    record.write();
}
