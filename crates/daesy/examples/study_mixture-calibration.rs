//! Does the mixture filter know what it does not know? At the parameters that data are made with: innovations, estimates
//! of what nobody measures, and the score of the likelihood, over many data sets of three models whose events a
//! disturbance moves.
//!
//! Arguments: number of data sets of each model (200), and the name of a model if only one is wanted.
//!
//! With s the gradient of the log-likelihood at the truth and I its information, s' I^-1 s is chi-square of as many degrees
//! of freedom as there are unknowns if both are right. Data are made by other means than those of the filter.
#![forbid(unsafe_code)]

mod coverage;
mod study;

use coverage::{Noise, runge_kutta, side_by_side};
use daesy::prediction_study::{PredictionStudy, filter_kind};
use daesy::table::Table;
use daesy::{Model, Watch};
use daesy_estimate::pem::FilterLikelihood;
use faer::Mat;
use faer::linalg::solvers::Solve as _;
use study::Record;

/// Data sets of a model where nobody says how many.
const N_SETS: u64 = 200;

/// Differences of the likelihood are taken over this part of a standard error to either side.
const WIDTH: f64 = 0.3;

/// A quantile of the normal distribution: 95 % lie within so many standard deviations.
const NORMAL_95: f64 = 1.959_964;

/// A data set: what is measured, and what is true of the signals of the study at the same times.
struct Made {
    table: Table,
    truth: Vec<Vec<f64>>,
}

/// A model with its study.
struct Case {
    name: &'static str,
    model: &'static str,
    study: &'static str,
    /// Unknowns and signals of the study.
    unknowns: &'static [&'static str],
    signals: &'static [&'static str],
    /// The unknowns at their true values.
    theta: &'static [f64],
    /// The 95 % quantile of chi-square with as many degrees of freedom.
    chi_square_95: f64,
    data: fn(u64) -> Made,
}

const CASES: [Case; 3] = [
    Case {
        name: "thermostat",
        model: "model Room
  parameter Real C = 4, G = 0.5, P = 12, low = 19, high = 21, sigma = 2;
  input Real outside;
  Real T(start = 20, fixed = true);
  Boolean on(start = true, fixed = true);
equation
  C*der(T) = (if on then P else 0) - G*(T - 5 - outside);
  when {T > high, T < low} then
    on = T < low;
  end when;
end Room;
",
        study: r#"
[model]
file = "model.mo"
[disturbances]
outside = { A = [[-0.5]], B = [[1]], C = [["sigma"]] }
[unknown]
G = { start = 0.5, min = 0.01 }
low = { start = 19 }
sigma = { start = 2, min = 0.01 }
[measurements]
T = { column = "T", std = 0.1 }
[estimate]
signals = ["outside"]
[data]
file = "data"
[identify]
noise_step = 0.2
"#,
        unknowns: &["G", "low", "sigma"],
        signals: &["outside"],
        theta: &[0.5, 19.0, 2.0],
        chi_square_95: 7.815,
        data: thermostat,
    },
    Case {
        name: "belt",
        model: "model Belt \"A mass on a belt that drags it along until its spring tears it off\"
  parameter Real k = 4, d = 0.3, Fs = 1.5, Fc = 0.8, belt = 0.5, sigma = 1;
  input Real w;
  Real x(start = 0, fixed = true), v(start = 0.5, fixed = true);
  Boolean stuck(start = true, fixed = true);
equation
  der(x) = v;
  der(v) = if stuck then 0 else w - k*x - d*v + Fc;
  when k*x + d*v - w > Fs then
    stuck = false;
  elsewhen v > belt then
    stuck = true;
    reinit(v, belt);
  end when;
end Belt;
",
        study: r#"
[model]
file = "model.mo"
[disturbances]
w = { A = [[-2, 1], [0, -2]], B = [[0], [1]], C = [["sigma", 0]] }
[unknown]
Fs = { start = 1.5, min = 0.01 }
Fc = { start = 0.8, min = 0.01 }
sigma = { start = 1, min = 0.01 }
[measurements]
x = { column = "x", std = 0.02 }
[estimate]
signals = ["v", "w"]
[data]
file = "data"
[identify]
noise_step = 0.1
"#,
        unknowns: &["Fs", "Fc", "sigma"],
        signals: &["v", "w"],
        theta: &[1.5, 0.8, 1.0],
        chi_square_95: 7.815,
        data: belt,
    },
    Case {
        name: "controller",
        model: "model Loop \"A controller that sees the plant every half second\"
  parameter Real a = 0.4, b = 1, r = 2, Kp = 0.8, Ki = 0.5, sigma = 0.5;
  input Real w;
  Real x(start = 0, fixed = true);
  discrete Real i(start = 0, fixed = true), u(start = 0, fixed = true);
equation
  der(x) = b*u + w - a*x;
  when sample(0, 0.5) then
    i = pre(i) + 0.5*Ki*(r - x);
    u = Kp*(r - x) + i;
  end when;
end Loop;
",
        study: r#"
[model]
file = "model.mo"
[disturbances]
w = { A = [[-1]], B = [[1]], C = [["sigma"]] }
[unknown]
a = { start = 0.4 }
Kp = { start = 0.8 }
sigma = { start = 0.5, min = 0.01 }
[measurements]
x = { column = "x", std = 0.05 }
[estimate]
signals = ["w"]
[data]
file = "data"
[identify]
noise_step = 0.125
"#,
        unknowns: &["a", "Kp", "sigma"],
        signals: &["w"],
        theta: &[0.4, 0.8, 0.5],
        chi_square_95: 7.815,
        data: controller,
    },
];

fn made(names: [&str; 2], columns: [Vec<f64>; 2], truth: Vec<Vec<f64>>) -> Made {
    Made { table: Table { names: names.map(str::to_owned).to_vec(), columns: columns.to_vec() }, truth }
}

/// As in the study of coverage: small steps with a disturbance that is exact at their ends.
fn thermostat(seed: u64) -> Made {
    let mut noise = Noise::new(seed);
    let (c, g, power, low, high, outside) = (4.0, 0.5, 12.0, 19.0, 21.0, 5.0);
    let (step, n_steps, n_samples) = (0.4, 300usize, 60usize);
    let fine = step / n_steps as f64;
    let disturbance = noise.lag(0.5, 2.0, fine, n_samples * n_steps + 1);
    let (mut temperature, mut is_on) = (20.0f64, true);
    let (mut times, mut seen, mut truth) = (Vec::new(), Vec::new(), Vec::new());
    for sample in 0..n_samples {
        times.push(sample as f64 * step);
        seen.push(temperature + 0.1 * noise.normal());
        truth.push(disturbance[sample * n_steps]);
        for at in 0..n_steps {
            let here = sample * n_steps + at;
            let level =
                outside + 0.5 * (disturbance[here] + disturbance[here + 1]) + if is_on { power / g } else { 0.0 };
            temperature = level + (temperature - level) * (-fine * g / c).exp();
            is_on = temperature < low || is_on && temperature <= high;
        }
    }
    made(["t", "T"], [times, seen], vec![truth])
}

/// Steps of a fifth of a millisecond, between which nothing sticks or tears off; the disturbance by two lags one after the
/// other, after ten seconds of its own.
fn belt(seed: u64) -> Made {
    const N_STEPS: usize = 500;
    let mut noise = Noise::new(seed);
    let (k, d, most, least, belt, sigma) = (4.0, 0.3, 1.5, 0.8, 0.5, 1.0);
    let (step, n_samples) = (0.1, 100usize);
    let fine = step / N_STEPS as f64;
    let driving = noise.lag(2.0, 1.0, fine, (n_samples + 100) * N_STEPS + 1);
    let mut force = 0.0;
    let lagged = |force: f64, at: usize| {
        let kept = (-2.0 * fine).exp();
        kept * force + 0.5 * (1.0 - kept) * 0.5 * (driving[at] + driving[at + 1])
    };
    for at in 0..100 * N_STEPS {
        force = lagged(force, at);
    }
    let (mut state, mut is_stuck) = ([0.0, belt], true);
    let (mut times, mut seen, mut truth) = (Vec::new(), Vec::new(), vec![Vec::new(), Vec::new()]);
    for sample in 0..n_samples {
        times.push(sample as f64 * step);
        seen.push(state[0] + 0.02 * noise.normal());
        truth[0].push(state[1]);
        truth[1].push(sigma * force);
        for at in 0..N_STEPS {
            let next = lagged(force, (sample + 100) * N_STEPS + at);
            if is_stuck {
                state[0] += belt * fine;
            } else {
                let pull = |part: f64| sigma * (force + part * (next - force));
                runge_kutta(&mut state, fine, |part, at| [at[1], pull(part) - k * at[0] - d * at[1] + least]);
            }
            force = next;
            if is_stuck && k * state[0] + d * state[1] - sigma * force > most {
                is_stuck = false;
            } else if !is_stuck && state[1] > belt {
                is_stuck = true;
                state[1] = belt;
            }
        }
    }
    made(["t", "x"], [times, seen], truth)
}

/// Exact steps between the samples of the controller but for the disturbance, which is so at the ends of small steps.
fn controller(seed: u64) -> Made {
    const N_STEPS: usize = 250;
    let mut noise = Noise::new(seed);
    let (a, b, r, proportional, integral) = (0.4, 1.0, 2.0, 0.8, 0.5);
    let (step, n_samples) = (0.25, 80usize);
    let fine = step / N_STEPS as f64;
    let disturbance = noise.lag(1.0, 0.5, fine, n_samples * N_STEPS + 1);
    let (mut x, mut sum, mut u) = (0.0f64, 0.0, 0.0);
    let (mut times, mut seen, mut truth) = (Vec::new(), Vec::new(), Vec::new());
    for sample in 0..n_samples {
        times.push(sample as f64 * step);
        seen.push(x + 0.05 * noise.normal());
        truth.push(disturbance[sample * N_STEPS]);
        if sample % 2 == 0 {
            sum += 0.5 * integral * (r - x);
            u = proportional * (r - x) + sum;
        }
        for at in 0..N_STEPS {
            let here = sample * N_STEPS + at;
            let level = (b * u + 0.5 * (disturbance[here] + disturbance[here + 1])) / a;
            x = level + (x - level) * (-a * fine).exp();
        }
    }
    made(["t", "x"], [times, seen], vec![truth])
}

/// What one data set gave.
struct Found {
    /// Innovations over their stated standard deviations.
    normalized: Vec<f64>,
    /// `[signal]`: errors over stated standard deviations, filtered and smoothed.
    errors: Vec<[Vec<f64>; 2]>,
    score: Vec<f64>,
    information: Mat<f64>,
}

impl Case {
    /// What one data set gives, with differences over these widths; over fine ones where none are given, and nothing but
    /// the likelihood then.
    fn one(&self, set: u64, widths: Option<&[f64]>) -> Found {
        let Made { table, truth } = (self.data)(5000 + set);
        let refused = |what: &dyn std::fmt::Display| -> ! { panic!("{}, data set {set}: {what}", self.name) };
        let study = Model::parse_study(self.study, self.model).unwrap_or_else(|failure| refused(&failure));
        let model = study.with_data(vec![table]).unwrap_or_else(|failure| refused(&failure));
        let loaded = model.loaded();
        let kind = filter_kind(loaded.study.as_ref());
        // Every data set has points of its own, so that their errors are counted too.
        let study = PredictionStudy::of(loaded, 100 + set).unwrap_or_else(|failure| refused(&failure));
        let problem = study.problem(study.settings.clone(), self.theta).unwrap_or_else(|refusal| refused(&refusal));
        let mut likelihood = FilterLikelihood::new(&problem, kind, &study.space, Watch::default());
        likelihood.widths = widths.map(<[f64]>::to_vec);
        let expansion = likelihood.expansion(self.theta).unwrap_or_else(|refusal| refused(&refusal));
        let mut found = Found {
            normalized: Vec::new(),
            errors: Vec::new(),
            score: expansion.gradient.iter().map(|slope| -slope).collect(),
            information: expansion.information,
        };
        if widths.is_none() {
            return found;
        }
        let signals = study.signal_problem(self.theta).unwrap_or_else(|refusal| refused(&refusal));
        let estimates =
            study.filter(&signals, self.theta, 0, &kind, &Watch::default()).unwrap_or_else(|refusal| refused(&refusal));
        let n_signals = truth.len();
        found.normalized =
            estimates.innovations.iter().zip(&estimates.innovation_std).map(|(error, std)| error / std).collect();
        let errors = (0..n_signals).map(|signal| {
            let largest = truth[signal].iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
            let of = |means: &[f64], stds: &[f64]| -> Vec<f64> {
                let rows = truth[signal].iter().enumerate().map(|(row, truth)| (row * n_signals + signal, truth));
                // What is known exactly has rounding to be compared with.
                rows.map(|(at, truth)| (means[at] - truth) / stds[at].max(1e-6 * largest)).collect()
            };
            [of(&estimates.filtered, &estimates.filtered_std), of(&estimates.smoothed, &estimates.smoothed_std)]
        });
        found.errors = errors.collect();
        found
    }

    fn run(&self, n_sets: u64, record: &mut Record) {
        let first = inverse(&self.one(0, None).information);
        let widths: Vec<f64> = (0..self.theta.len()).map(|at| WIDTH * first[(at, at)].sqrt()).collect();
        let all = side_by_side(n_sets, |set| {
            let found = self.one(set, Some(&widths));
            if (set + 1).is_multiple_of(20) {
                eprintln!("{}: {} data sets", self.name, set + 1);
            }
            found
        });
        let n = n_sets as f64;
        record.number("data sets", n);
        let values: Vec<f64> = all.iter().flat_map(|found| found.normalized.iter().copied()).collect();
        let count = values.len() as f64;
        record.number("mean of normalized innovations", values.iter().sum::<f64>() / count);
        record.number("standard error of that", 1.0 / count.sqrt());
        record.number("variance of normalized innovations", values.iter().map(|z| z * z).sum::<f64>() / count);
        record.number("standard error of that if they are normal", (2.0 / count).sqrt());
        let lagged = all.iter().flat_map(|found| found.normalized.windows(2).map(|pair| pair[0] * pair[1]));
        record.number("their lag-1 autocorrelation", lagged.sum::<f64>() / count);
        let within = values.iter().filter(|z| z.abs() <= NORMAL_95).count() as f64;
        record.number("innovations within 95 percent bands, percent", 100.0 * within / count);
        for (signal, name) in self.signals.iter().enumerate() {
            for (which, word) in ["filtered", "smoothed"].into_iter().enumerate() {
                let errors: Vec<f64> =
                    all.iter().flat_map(|found| found.errors[signal][which].iter().copied()).collect();
                let within = errors.iter().filter(|error| error.abs() <= NORMAL_95).count() as f64;
                let share = 100.0 * within / errors.len() as f64;
                record.number(&format!("{name} {word}, truth within 95 percent bands, percent"), share);
                let square = errors.iter().map(|error| error * error).sum::<f64>() / errors.len() as f64;
                record.number(&format!("{name} {word}, mean square of normalized errors"), square);
            }
        }
        let distance = |found: &Found| {
            let score = Mat::from_fn(found.score.len(), 1, |i, _| found.score[i]);
            (score.transpose() * inverse(&found.information) * &score)[(0, 0)]
        };
        let distances: Vec<f64> = all.iter().map(distance).collect();
        let p = self.theta.len() as f64;
        record.number("unknowns", p);
        record.number("mean of the score test", distances.iter().sum::<f64>() / n);
        record.number("standard error of the mean of the score test", (2.0 * p / n).sqrt());
        let beyond = distances.iter().filter(|distance| **distance > self.chi_square_95).count() as f64;
        record.number("score tests beyond their 95 percent quantile, percent", 100.0 * beyond / n);
        for (at, name) in self.unknowns.iter().enumerate() {
            let scaled = |found: &Found| found.score[at] / found.information[(at, at)].sqrt();
            let mean = all.iter().map(scaled).sum::<f64>() / n;
            let square = all.iter().map(|found| scaled(found).powi(2)).sum::<f64>() / n;
            record.number(&format!("score of {name}, mean over its root information"), mean);
            record.number(&format!("score of {name}, mean square over its information"), square);
        }
    }
}

fn inverse(matrix: &Mat<f64>) -> Mat<f64> {
    matrix.partial_piv_lu().solve(Mat::<f64>::identity(matrix.nrows(), matrix.ncols()))
}

fn main() {
    let n_sets = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(N_SETS);
    let wanted = std::env::args().nth(2);
    let is_wanted = |case: &&Case| wanted.as_ref().is_none_or(|name| name == case.name);
    for case in CASES.iter().filter(is_wanted) {
        let mut record = Record::new(&format!("mixture-calibration-{}", case.name));
        case.run(n_sets, &mut record);
        record.write();
    }
}
