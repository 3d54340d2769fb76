//! How well a model fits: pictures of measured and modelled signals, of residuals and of their autocorrelation.

use daesy::program::Answer;
use daesy::report::chart::{Chart, Mark, Series};

use super::{Record, column, digits, estimates, number_at};

/// Lags of the autocorrelation.
const N_LAGS: usize = 25;

/// What a measured signal and the model's answer to the same input look like.
pub struct Fit {
    /// Times.
    pub t: Vec<f64>,
    /// What was measured.
    pub measured: Vec<f64>,
    /// What the model says.
    pub modelled: Vec<f64>,
}

impl Fit {
    /// The part of a table of `identify` that speaks of one output.
    pub fn of(answer: &Answer, output: &str) -> Self {
        let table = answer.table.as_ref().expect("an identification has a table");
        Self {
            t: column(table, "t").to_vec(),
            measured: column(table, output).to_vec(),
            modelled: column(table, &format!("{output}.predicted")).to_vec(),
        }
    }

    /// The experiments of a table one by one: time goes back where the next begins.
    pub fn experiments(&self) -> Vec<Self> {
        let mut starts: Vec<usize> = (1..self.t.len()).filter(|&at| self.t[at] < self.t[at - 1]).collect();
        starts.insert(0, 0);
        starts.push(self.t.len());
        let part = |from: usize, to: usize| Self {
            t: self.t[from..to].to_vec(),
            measured: self.measured[from..to].to_vec(),
            modelled: self.modelled[from..to].to_vec(),
        };
        starts.windows(2).map(|pair| part(pair[0], pair[1])).collect()
    }

    /// Measured less modelled.
    pub fn residuals(&self) -> Vec<f64> {
        self.measured.iter().zip(&self.modelled).map(|(a, b)| a - b).collect()
    }

    /// The root of the mean squared residual.
    pub fn rms(&self) -> f64 {
        let residuals: Vec<f64> = self.residuals().into_iter().filter(|value| value.is_finite()).collect();
        (residuals.iter().map(|value| value * value).sum::<f64>() / residuals.len() as f64).sqrt()
    }

    /// Signals, residuals and the autocorrelation of the residuals, below each other.
    pub fn charts(&self, name: &str, unit: &str, word: &str) -> Vec<Chart> {
        let residuals = self.residuals();
        let (lags, correlations) = autocorrelation(&residuals);
        let bound = 1.96 / (residuals.len() as f64).sqrt();
        // A place before the first and after the last, so that no stem stands on the frame.
        let ends = [0.0, (N_LAGS + 1) as f64];
        let stems: Vec<f64> = lags.iter().flat_map(|&lag| [lag, lag, f64::NAN]).collect();
        let heights: Vec<f64> = correlations.iter().flat_map(|&height| [0.0, height, f64::NAN]).collect();
        let time = "time, s".to_owned();
        vec![
            Chart {
                title: format!("{name}: measured and {word}"),
                x_label: time.clone(),
                y_label: unit.to_owned(),
                series: vec![
                    Series::line("measured", &self.t, &self.measured, 7).with_mark(if self.t.len() > 600 {
                        Mark::Line
                    } else {
                        Mark::Dots
                    }),
                    Series::line(word, &self.t, &self.modelled, 1),
                ],
                ..Chart::default()
            },
            Chart {
                title: format!("Residuals, root mean square {} {unit}", digits(self.rms(), 3)),
                x_label: time,
                y_label: unit.to_owned(),
                series: vec![Series::line("", &self.t, &residuals, 0)],
                ..Chart::default()
            },
            Chart {
                title: "Autocorrelation of the residuals, with the 95 % band of white noise".to_owned(),
                x_label: "lag, samples".to_owned(),
                series: vec![
                    Series::line("", &ends, &[f64::NAN; 2], 0),
                    Series::line("", &stems, &heights, 0),
                    Series::line("", &lags, &correlations, 0).with_mark(Mark::Dots),
                ],
                levels: vec![-bound, bound],
                ..Chart::default()
            },
        ]
    }
}

fn autocorrelation(residuals: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let n = residuals.len();
    let mean = residuals.iter().filter(|value| value.is_finite()).sum::<f64>() / n as f64;
    let centred: Vec<f64> = residuals.iter().map(|value| if value.is_finite() { value - mean } else { 0.0 }).collect();
    let power: f64 = centred.iter().map(|value| value * value).sum();
    let at = |lag: usize| centred.iter().zip(&centred[lag..]).map(|(a, b)| a * b).sum::<f64>() / power;
    ((1..=N_LAGS).map(|lag| lag as f64).collect(), (1..=N_LAGS).map(at).collect())
}

/// Notes all estimates, and the figures of the residuals of one output.
pub fn note(record: &mut Record, answer: &Answer, output: &str) {
    for of in estimates(answer) {
        record.number(&format!("{}, estimate", of.name), of.estimate);
        record.number(&format!("{}, standard error", of.name), of.std_error);
    }
    record.number("fit, percent", number_at(answer, &["fit_percent", output]));
    record.number("residuals, mean", number_at(answer, &["residuals", output, "mean"]));
    record.number("residuals, standard deviation", number_at(answer, &["residuals", output, "std"]));
    record.number("residuals, whiteness p", number_at(answer, &["residuals", output, "whiteness_p"]));
}

/// An estimate with its standard error.
pub fn with_error(estimate: f64, std_error: f64) -> String {
    let error = if std_error.is_finite() { digits(std_error, 2) } else { "unknown".to_owned() };
    format!("{} +- {error}", digits(estimate, 5))
}
