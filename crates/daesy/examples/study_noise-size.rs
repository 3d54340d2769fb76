//! How often a wrong accuracy of a measurement is told, with which factor, and how often a right one is doubted: a lag
//! and a drain, with and without a disturbance of unknown size, by every method.
//!
//! Argument: number of data sets with the right accuracy (500). A tenth of them is identified with accuracies 100 times
//! too small and too large.
#![forbid(unsafe_code)]

mod coverage;
mod study;

use coverage::{Noise, runge_kutta, side_by_side};
use daesy::Model;
use daesy::identify::{Identification, IdentifyOptions};
use daesy::table::Table;

/// A model, and how it is identified.
struct Case {
    name: &'static str,
    is_linear: bool,
    is_disturbed: bool,
    method: &'static str,
    /// Data sets for each of those asked for.
    share: f64,
}

const CASES: [Case; 6] = [
    Case { name: "linear, ml", is_linear: true, is_disturbed: false, method: "ml", share: 1.0 },
    Case { name: "linear with a disturbance, ml", is_linear: true, is_disturbed: true, method: "ml", share: 1.0 },
    Case { name: "nonlinear, output-error", is_linear: false, is_disturbed: false, method: "output-error", share: 1.0 },
    Case { name: "nonlinear, ml", is_linear: false, is_disturbed: false, method: "ml", share: 1.0 },
    Case { name: "nonlinear with a disturbance, ml", is_linear: false, is_disturbed: true, method: "ml", share: 1.0 },
    Case { name: "nonlinear with a disturbance, pem", is_linear: false, is_disturbed: true, method: "pem", share: 0.2 },
];

/// The true standard deviation of the errors of measurement.
const STD: f64 = 0.03;

fn study(case: &Case, std: f64) -> Model {
    let drain = if case.is_linear { "k*x" } else { "k*x*abs(x)" };
    let model = format!(
        "model Drain parameter Real k = 1; input Real u, w; Real x(start = 0.5, fixed = true);
         equation der(x) = u + w - {drain}; end Drain;"
    );
    let (unknown, disturbance) = if case.is_disturbed {
        (
            "sigma = { start = 0.2, min = 0.0, max = 5 }\n",
            "[disturbances]\nw = { A = [[-1]], B = [[1]], C = [['sigma']] }\n",
        )
    } else {
        ("", "")
    };
    let realizations = if case.method == "pem" { "realizations = 200\n" } else { "" };
    let inputs = if case.is_disturbed { "" } else { "w = { expression = '0' }\n" };
    let text = format!(
        "[model]\nfile = 'model.mo'\n[unknown]\nk = {{ start = 0.7, min = 0.05, max = 10 }}\n{unknown}\
         [inputs]\nu = {{ column = 'u', hold = 'zoh' }}\n{inputs}{disturbance}\
         [measurements]\nx = {{ column = 'x', std = {std} }}\n[data]\nfile = 'data'\n\
         [identify]\nmethod = '{}'\nnoise_step = 0.1\n{realizations}",
        case.method
    );
    let text = if case.is_disturbed { text } else { text.replace("noise_step = 0.1\n", "") };
    Model::parse_study(&text, &model).unwrap_or_else(|failure| panic!("{failure}"))
}

fn data(case: &Case, seed: u64) -> Table {
    const N_SMALL: usize = 20;
    let (step, n) = (0.1, 200);
    let mut noise = Noise::new(seed);
    let small = step / N_SMALL as f64;
    let size = if case.is_disturbed { 0.3 } else { 0.0 };
    let flow = noise.lag(1.0, size, small, n * N_SMALL + 1);
    let mut state = [0.5f64];
    let mut columns = vec![Vec::new(); 3];
    for sample in 0..n {
        let u = [1.0, 0.3, 0.7][(sample / 25) % 3];
        let row = [step * sample as f64, u, state[0] + STD * noise.normal()];
        columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        for at in sample * N_SMALL..(sample + 1) * N_SMALL {
            runge_kutta(&mut state, small, |fraction, &[x]| {
                let out = if case.is_linear { x } else { x * x.abs() };
                [u + flow[at] + fraction * (flow[at + 1] - flow[at]) - out]
            });
        }
    }
    Table { names: ["t", "u", "x"].map(str::to_owned).to_vec(), columns }
}

fn identified(study: &Model, data: Table) -> Identification {
    let study = study.with_data(vec![data]).unwrap_or_else(|failure| panic!("{failure}"));
    study.identify(&IdentifyOptions::default()).unwrap_or_else(|failure| panic!("{failure}"))
}

/// The factor that the warning names, if there is one: the last number before the word "times", as the help has it where
/// the message speaks of something else.
fn told(found: &Identification) -> Option<f64> {
    let warning = found.diagnostics.iter().find(|finding| finding.code == "noise-size")?;
    let text = format!("{} {}", warning.message, warning.help.clone().unwrap_or_default());
    let mut factor = None;
    let words: Vec<&str> = text.split_whitespace().collect();
    for triple in words.windows(3).filter(|triple| triple[1] == "times") {
        let number: Option<f64> = triple[0].parse().ok();
        factor = number.map(|number| if triple[2].starts_with("smaller") { 1.0 / number } else { number }).or(factor);
    }
    factor.or(Some(f64::NAN))
}

fn main() {
    let n_sets: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(500);
    let show = |what: &str, value: f64| println!("{what} = {value:.4}");
    for case in &CASES {
        let n = ((n_sets as f64 * case.share) as u64).max(1);
        let right = study(case, STD);
        let is_told = |set: u64| told(&identified(&right, data(case, 1000 + set))).is_some();
        let n_false = side_by_side(n, is_told).into_iter().filter(|is_told| *is_told).count();
        show(&format!("{}: data sets", case.name), n as f64);
        show(&format!("{}: false alarms, percent", case.name), 100.0 * n_false as f64 / n as f64);
        for (words, given) in [("small", 0.01 * STD), ("large", 100.0 * STD)] {
            let wrong = study(case, given);
            let n = (n / 10).max(1);
            let factors = side_by_side(n, |set| told(&identified(&wrong, data(case, 1000 + set))));
            let mut named: Vec<f64> = factors.iter().flatten().copied().collect();
            named.sort_by(f64::total_cmp);
            let of = |what: &str| format!("{}, 100 times too {words}: {what}", case.name);
            show(&of("warnings, percent"), 100.0 * named.len() as f64 / n as f64);
            if let (Some(least), Some(most)) = (named.first(), named.last()) {
                show(&of("smallest factor"), *least);
                show(&of("median factor"), named[named.len() / 2]);
                show(&of("largest factor"), *most);
            }
        }
        eprintln!("{}", case.name);
    }
}
