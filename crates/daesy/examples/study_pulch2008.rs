//! Figures 2 to 7 of [@pulch2008] and the conditions of its theorems, on the amplifier with random capacitors.
//!
//! `cargo xtask study pulch2008` writes `book/studies/pulch2008`. Expected time: 15 s.
#![forbid(unsafe_code)]

mod study;

use daesy::program::Answer;
use daesy::report::chart::{Chart, Series};
use daesy::table::Table;
use serde_json::Value;
use study::{Record, at, column, digits};

const NODES: [&str; 5] = ["U1", "U2", "U3", "U4", "U5"];

/// Expected values and variances over time.
struct Moments {
    t: Vec<f64>,
    mean: Vec<Vec<f64>>,
    variance: Vec<Vec<f64>>,
}

impl Moments {
    fn of(answer: &Answer) -> Self {
        let table = answer.table.as_ref().expect("an expansion has a table");
        let squares = |name: &str| column(table, name).iter().map(|std| std * std).collect();
        Self {
            t: column(table, "t").to_vec(),
            mean: NODES.iter().map(|node| column(table, &format!("{node}.mean")).to_vec()).collect(),
            variance: NODES.iter().map(|node| squares(&format!("{node}.std"))).collect(),
        }
    }

    fn charts(&self, what: &str) -> [Chart; 2] {
        let lines = |values: &[Vec<f64>]| {
            NODES
                .iter()
                .zip(values)
                .enumerate()
                .map(|(color, (node, y))| Series::line(node, &self.t, y, color))
                .collect()
        };
        let chart = |title: String, y_label: &str, series| Chart {
            title,
            x_label: "time, s".to_owned(),
            y_label: y_label.to_owned(),
            series,
            ..Chart::default()
        };
        [
            chart(format!("Expected values, {what}"), "V", lines(&self.mean)),
            chart(format!("Variances, {what}"), "V^2", lines(&self.variance)),
        ]
    }

    /// The largest variance of each node.
    fn largest(&self) -> Vec<f64> {
        self.variance.iter().map(|values| largest(values)).collect()
    }

    /// The second half of the time span: no transient.
    fn settled(&self) -> Self {
        let half = |values: &[Vec<f64>]| values.iter().map(|of| of[of.len() / 2..].to_vec()).collect();
        let t = self.t[self.t.len() / 2..].to_vec();
        Self { t, mean: half(&self.mean), variance: half(&self.variance) }
    }

    /// The largest difference of means and of variances, relative to the largest of their kind.
    fn distance(&self, other: &Self) -> (f64, f64) {
        let distance = |ours: &[Vec<f64>], theirs: &[Vec<f64>]| {
            let size = ours.iter().map(|values| largest(values)).fold(0.0, f64::max);
            let off = ours.iter().zip(theirs).flat_map(|(a, b)| a.iter().zip(b)).map(|(a, b)| (a - b).abs());
            off.fold(0.0, f64::max) / size
        };
        (distance(&self.mean, &other.mean), distance(&self.variance, &other.variance))
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| f64::max(most, value.abs()))
}

/// The nodes whose variance matters.
fn noticed(moments: &Moments) -> String {
    let all = moments.largest();
    let top = all.iter().copied().fold(0.0, f64::max);
    let named: Vec<(f64, &str)> = all.iter().copied().zip(NODES).filter(|(size, _)| *size > 0.01 * top).collect();
    let texts: Vec<String> = named.iter().map(|(size, node)| format!("{node} {}", digits(*size, 2))).collect();
    format!("{} V^2; the others below 1 % of that", texts.join(", "))
}

/// The coefficients of a surrogate over time, by node and degree.
fn coefficients(text: &str) -> Option<Vec<Vec<Vec<f64>>>> {
    let document: Value = serde_json::from_str(text).ok()?;
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let series = document["series"].as_array()?;
    let of = |series: &Value| -> Option<Vec<Vec<f64>>> {
        series["coefficients"].as_array()?.iter().map(|of| of.as_array()?.iter().map(number).collect()).collect()
    };
    series.iter().map(of).collect()
}

fn main() {
    let mut record = Record::new("pulch2008");
    let ask = |record: &mut Record, number: usize| {
        Moments::of(&record.must(&format!("uq problems/amplifier/figure_{number}.toml")))
    };

    let two = ask(&mut record, 2);
    record.compare(
        "variances, C2 random",
        "Figure 2",
        "three of five nearly zero",
        &noticed(&two),
        "largest over time",
    );
    record.picture(
        "figure_2",
        "Figure 2: linearized amplifier, emitter capacitor C2 uniform within 20 %, degree 2.",
        &two.charts("C2 random"),
    );
    let three = ask(&mut record, 3);
    let (mean, variance) = two.distance(&three);
    record.number("figure 3, difference of means", mean);
    record.number("figure 3, difference of variances", variance);
    let ours = format!("means {} %, variances {} %", digits(100.0 * mean, 2), digits(100.0 * variance, 2));
    record.compare(
        "against Monte Carlo with 1000 samples",
        "Figure 3",
        "good agreement",
        &ours,
        "largest difference over time of the largest value",
    );
    record.picture("figure_3", "Figure 3: the same by Monte Carlo with 1000 samples.", &three.charts("Monte Carlo"));

    let folder = std::env::temp_dir().join(format!("daesy-pulch2008-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let file = folder.join("figure_4.json");
    let four = record.must(&format!("uq problems/amplifier/figure_4.toml --surrogate {}", file.display()));
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_dir_all(&folder);
    let series = coefficients(&text).expect("a surrogate has coefficients");
    let t = column(four.table.as_ref().expect("an expansion has a table"), "t").to_vec();
    let degree = |degree: usize| -> Chart {
        let line = |(color, node): (usize, &&str)| Series::line(node, &t, &series[color][degree], color);
        Chart {
            title: format!("Coefficients of degree {degree}, C2 random"),
            x_label: "time, s".to_owned(),
            y_label: "V".to_owned(),
            series: NODES.iter().enumerate().map(line).collect(),
            ..Chart::default()
        }
    };
    let sizes: Vec<f64> =
        (1..=2).map(|degree| series.iter().map(|of| largest(&of[degree])).fold(0.0, f64::max)).collect();
    record.number("figure 4, largest coefficient of degree 1", sizes[0]);
    record.number("figure 4, largest coefficient of degree 2", sizes[1]);
    let ours = format!("{} V and {} V", digits(sizes[0], 2), digits(sizes[1], 2));
    record.compare(
        "largest coefficients of degree 1 and 2",
        "Figure 4",
        "periodic, degree 2 suffices",
        &ours,
        "for polynomials of norm 1",
    );
    record.picture("figure_4", "Figure 4: the coefficient functions of degree 1 and 2.", &[degree(1), degree(2)]);

    let five = ask(&mut record, 5);
    let last = |moments: &Moments| {
        let from = moments.t.len() * 9 / 10;
        moments.variance.iter().map(|values| largest(&values[from..])).fold(0.0, f64::max)
    };
    let peak = five.largest().into_iter().fold(0.0, f64::max);
    record.number("figure 5, largest variance", peak);
    record.number("figure 5, variance at the end over the largest", last(&five) / peak);
    let ours = format!("{}; at the end {} % of it", noticed(&five), digits(100.0 * last(&five) / peak, 1));
    record.compare("variances, C3 random", "Figure 5", "rise for two nodes, then damped out", &ours, "0.4 s");
    record.picture("figure_5", "Figure 5: the capacitor at the output, C3, random.", &five.charts("C3 random"));

    let six = ask(&mut record, 6);
    let (linear, nonlinear) = (two.settled(), six.settled());
    let (mean, _) = linear.distance(&nonlinear);
    let ratio = nonlinear.largest().into_iter().fold(0.0, f64::max) / linear.largest().into_iter().fold(0.0, f64::max);
    record.number("figure 6, largest variance over that of figure 2", ratio);
    let ours = format!(
        "means within {} % of the largest; variance {} times the linear one, after the transient",
        digits(100.0 * mean, 2),
        digits(ratio, 2)
    );
    record.compare("nonlinear, C2 random", "Figure 6", "same magnitudes, other variances", &ours, "");
    record.picture("figure_6", "Figure 6: the nonlinear amplifier, C2 random.", &six.charts("nonlinear, C2 random"));
    let seven = ask(&mut record, 7);
    let ratio = seven.largest().into_iter().fold(0.0, f64::max) / peak;
    record.number("figure 7, largest variance over that of figure 5", ratio);
    let ours = format!(
        "variance {} times the linear one, at the end {} % of it",
        digits(ratio, 3),
        digits(100.0 * last(&seven) / peak, 1)
    );
    record.compare("nonlinear, C3 random", "Figure 7", "as the linear one", &ours, "");
    record.picture("figure_7", "Figure 7: the nonlinear amplifier, C3 random.", &seven.charts("nonlinear, C3 random"));

    for (study, what, theirs) in [
        ("right_side.toml", "signal random: Theorem 1", "index kept, always"),
        ("paper.toml", "C2 and C3 random: Theorems 2 and 3", "(27) and (30) hold"),
        ("second_matrix.toml", "resistors random: Theorem 4", "holds for index 1, always"),
        ("violated_first.toml", "index 2, nilpotent part random", "sufficient, not necessary"),
        ("violated_second.toml", "index 2, second matrix random", "sufficient, not necessary"),
    ] {
        let answer = record.must(&format!("uq problems/amplifier/{study}"));
        let conditions = at(&answer, &["index", "conditions"]).as_array().cloned().unwrap_or_default();
        let told: Vec<String> = conditions
            .iter()
            .map(|of| {
                format!("Theorem {} {}", of["theorem"], if of["holds"] == true { "holds" } else { "does not apply" })
            })
            .collect();
        let witness = conditions.iter().find_map(|of| of["witness"].as_str()).unwrap_or_default();
        let (original, expanded) = (at(&answer, &["index", "original"]), at(&answer, &["index", "expanded"]));
        let start = if at(&answer, &["initial_consistent"]) == true {
            "the start (16) is consistent"
        } else {
            "the start (16) is not consistent"
        };
        let (d, expanded_d) = (at(&answer, &["index", "original_d"]), at(&answer, &["index", "expanded_d"]));
        let terms = at(&answer, &["basis", "terms"]);
        let is_kept = expanded_d.as_u64() == d.as_u64().zip(terms.as_u64()).map(|(d, terms)| d * terms);
        let sign = if is_kept { "=" } else { "instead of" };
        let ours = format!(
            "{}; index {original}, expanded {expanded}; d = {expanded_d} {sign} {terms} * {d}; {start}",
            told.join(", ")
        );
        record.compare(what, "sec. 3", theirs, &ours, witness);
    }
    let table = Table {
        names: ["node", "figure 2", "figure 5", "figure 6", "figure 7"].map(str::to_owned).to_vec(),
        columns: vec![vec![1.0, 2.0, 3.0, 4.0, 5.0], two.largest(), five.largest(), six.largest(), seven.largest()],
    };
    record.table("largest_variances", &table);
    record.write();
}
