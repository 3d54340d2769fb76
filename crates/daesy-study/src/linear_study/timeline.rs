//! Inputs between samples as polynomials.

use daesy_estimate::experiment::{Experiment, InputJet, Segment};
use daesy_graph::ExprId;

use super::parametric::Symbols;
use crate::inputs::natural_spline;
use crate::study::Hold;

/// How an input runs, one for each column of the model's input matrix.
#[derive(Clone, Debug)]
pub(crate) enum Signal {
    /// A column of the data: by experiment, its samples.
    Column { hold: Hold, samples: Vec<Vec<f64>>, curvatures: Vec<Vec<f64>> },
    /// A function of time and unknowns with its time derivatives, and the derivatives of these with respect to
    /// unknowns.
    Path { rates: Vec<ExprId>, partials: Vec<(usize, Vec<ExprId>)>, is_varying: bool },
    /// Impulses: times and areas.
    Impulses(Vec<(f64, f64)>),
}

impl Signal {
    pub fn column(hold: Hold, times: &[Vec<f64>], samples: Vec<Vec<f64>>) -> Self {
        let curvatures = match hold {
            Hold::Cubic => times.iter().zip(&samples).map(|(times, values)| natural_spline(times, values)).collect(),
            Hold::Zero | Hold::First => Vec::new(),
        };
        Self::Column { hold, samples, curvatures }
    }

    /// A function of time; `n_rates` derivatives are needed at the ends of every segment.
    pub fn path(symbols: &mut Symbols, value: ExprId, n_rates: usize) -> Self {
        let is_varying = symbols.is_varying(value);
        let rates_of = |symbols: &mut Symbols, value: ExprId| {
            let mut rates = vec![value];
            for at in 0..n_rates {
                let next = symbols.rate(rates[at]);
                rates.push(next);
            }
            rates
        };
        let partials = symbols.gradient(value);
        let partials = partials.into_iter().map(|(unknown, value)| (unknown, rates_of(symbols, value))).collect();
        Self::Path { rates: rates_of(symbols, value), partials, is_varying }
    }

    fn degree(&self) -> usize {
        match self {
            Self::Column { hold: Hold::Zero, .. } | Self::Impulses(_) => 0,
            Self::Column { hold: Hold::First, .. } => 1,
            Self::Column { hold: Hold::Cubic, .. } => 3,
            Self::Path { rates, is_varying, .. } => {
                if *is_varying {
                    2 * rates.len() - 1
                } else {
                    0
                }
            }
        }
    }

    fn depends_on_unknowns(&self) -> bool {
        matches!(self, Self::Path { partials, .. } if !partials.is_empty())
    }
}

/// Interpolation error of a function of time, relative to its size, above which a segment is halved.
const INTERPOLATION: f64 = 1e-10;
/// Halvings of a segment at most.
const MAX_HALVINGS: usize = 12;

/// The inputs of all experiments.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub signals: Vec<Signal>,
    /// Times at which functions of time break, ascending.
    pub breaks: Vec<f64>,
    degree: usize,
    /// By experiment, the beginning of every segment and its end.
    spans: Vec<Vec<(f64, f64)>>,
    times: Vec<Vec<f64>>,
}

/// The inverse of the matrix that gives the upper half of a polynomial's coefficients from the values at the end.
fn hermite(n_rates: usize) -> Vec<Vec<f64>> {
    use daesy_pencil::Mat;
    use faer::linalg::solvers::Solve;
    let n = n_rates;
    let factorial = |k: usize| (1..=k).map(|i| i as f64).product::<f64>();
    let matrix = Mat::from_fn(n, n, |i, j| 1.0 / factorial(n + j - i));
    let inverse = matrix.partial_piv_lu().solve(Mat::<f64>::identity(n, n));
    (0..n).map(|i| (0..n).map(|j| inverse[(i, j)]).collect()).collect()
}

impl Timeline {
    pub fn new(signals: Vec<Signal>, mut breaks: Vec<f64>) -> Self {
        let degree = signals.iter().map(Signal::degree).max().unwrap_or(0);
        breaks.retain(|time| time.is_finite());
        breaks.sort_by(f64::total_cmp);
        breaks.dedup();
        Self { signals, breaks, degree, spans: Vec::new(), times: Vec::new() }
    }

    /// The same inputs with other samples of the columns, one experiment, and impulses after a time only.
    pub fn with_samples(&self, after: f64, samples_of: &dyn Fn(usize) -> Vec<f64>) -> Self {
        let signal = |(at, signal): (usize, &Signal)| match signal {
            Signal::Column { hold, .. } => {
                Signal::Column { hold: *hold, samples: vec![samples_of(at)], curvatures: Vec::new() }
            }
            Signal::Impulses(list) => Signal::Impulses(list.iter().filter(|kick| kick.0 > after).copied().collect()),
            Signal::Path { .. } => signal.clone(),
        };
        Self {
            signals: self.signals.iter().enumerate().map(signal).collect(),
            breaks: self.breaks.clone(),
            degree: self.degree,
            spans: Vec::new(),
            times: Vec::new(),
        }
    }

    /// Lays out an experiment: samples at `times`, from `start` on.
    pub fn lay_out(
        &mut self,
        symbols: &Symbols,
        theta: &[f64],
        start: f64,
        times: &[f64],
        measurements: Vec<f64>,
        first_counted: usize,
    ) -> Experiment {
        let start = start.min(times[0]);
        let last = times[times.len() - 1];
        let mut points: Vec<f64> = times.to_vec();
        points.push(start);
        let kicks: Vec<(f64, usize, f64)> = self
            .signals
            .iter()
            .enumerate()
            .flat_map(|(input, signal)| match signal {
                Signal::Impulses(list) => list.iter().map(|&(time, area)| (time, input, area)).collect(),
                Signal::Column { .. } | Signal::Path { .. } => Vec::new(),
            })
            .filter(|kick| kick.0 >= start && kick.0 <= last)
            .collect();
        points.extend(kicks.iter().map(|kick| kick.0));
        points.extend(self.breaks.iter().copied().filter(|&time| time > start && time < last));
        points.sort_by(f64::total_cmp);
        points.dedup();
        let mut spans: Vec<(f64, f64)> = Vec::new();
        // An impulse right at the start acts before everything else.
        if kicks.iter().any(|kick| kick.0 == start) {
            spans.push((start, start));
        }
        for pair in points.windows(2) {
            self.divide(symbols, theta, pair[0], pair[1], 0, &mut spans);
        }
        spans.push((last, last));
        let n_inputs = self.signals.len();
        let segments: Vec<Segment> = spans
            .iter()
            .map(|&(from, to)| {
                let mut kick = Vec::new();
                for &(time, input, area) in kicks.iter().filter(|kick| kick.0 == to && (to > from || to == start)) {
                    debug_assert!(time == to);
                    kick.resize(n_inputs, 0.0);
                    kick[input] += area;
                }
                Segment { length: to - from, kick }
            })
            .collect();
        // The segment that begins at a sample; after an impulse at the start, the second of the two there.
        let segment_of = times
            .iter()
            .map(|&time| {
                let first = spans.partition_point(|span| span.0 < time);
                let is_kick = time == start && time != last && spans.get(first).is_some_and(|span| span.1 == time);
                let is_last = time == last && spans[first].1 == time && first + 1 < spans.len();
                first + usize::from(is_kick || is_last)
            })
            .collect();
        let at = self.spans.len();
        self.spans.push(spans);
        self.times.push(times.to_vec());
        let mut experiment = Experiment {
            times: times.to_vec(),
            measurements,
            segments,
            segment_of,
            inputs: Vec::new(),
            n_inputs,
            degree: self.degree,
            first_counted,
        };
        experiment.inputs = self.polynomials(symbols, at, theta, None);
        experiment
    }

    /// Halves a span until functions of time are well interpolated on it.
    fn divide(&self, symbols: &Symbols, theta: &[f64], from: f64, to: f64, depth: usize, spans: &mut Vec<(f64, f64)>) {
        let is_good = depth == MAX_HALVINGS
            || self.signals.iter().all(|signal| match signal {
                Signal::Path { rates, is_varying: true, .. } => {
                    let middle = 0.5 * (to - from);
                    let c = self.path_polynomial(symbols, rates, theta, from, to);
                    let exact = symbols.evaluate(rates[0], theta, from + middle);
                    let size = exact.abs().max(c[0].abs()) + f64::MIN_POSITIVE;
                    {
                        let error = (horner(&c, middle) - exact).abs();
                        error <= INTERPOLATION * size || error.is_nan()
                    }
                }
                Signal::Path { .. } | Signal::Column { .. } | Signal::Impulses(_) => true,
            });
        if is_good {
            spans.push((from, to));
        } else {
            let middle = 0.5 * (from + to);
            self.divide(symbols, theta, from, middle, depth + 1, spans);
            self.divide(symbols, theta, middle, to, depth + 1, spans);
        }
    }

    /// Times at breaks are read a little inside of the segment.
    fn read_time(&self, time: f64, is_from: bool) -> f64 {
        let nudge = 1e-12 * time.abs().max(1e-3);
        let is_break = self.breaks.binary_search_by(|candidate| candidate.total_cmp(&time)).is_ok();
        match (is_break, is_from) {
            (false, _) => time,
            (true, true) => time + nudge,
            (true, false) => time - nudge,
        }
    }

    /// The polynomial with the same derivatives at both ends; for an empty span the derivatives themselves.
    fn path_polynomial(&self, symbols: &Symbols, rates: &[ExprId], theta: &[f64], from: f64, to: f64) -> Vec<f64> {
        let n = rates.len();
        let at = |time: f64| -> Vec<f64> { rates.iter().map(|&rate| symbols.evaluate(rate, theta, time)).collect() };
        let mut c = at(self.read_time(from, true));
        let h = to - from;
        c.resize(2 * n, 0.0);
        if h > 0.0 {
            let end = at(self.read_time(to, false));
            let factorial = |k: usize| (1..=k).map(|i| i as f64).product::<f64>();
            let scaled: Vec<f64> = (0..n).map(|j| c[j] * h.powi(j as i32)).collect();
            let rest: Vec<f64> = (0..n)
                .map(|i| end[i] * h.powi(i as i32) - (i..n).map(|j| scaled[j] / factorial(j - i)).sum::<f64>())
                .collect();
            for (j, row) in hermite(n).iter().enumerate() {
                let value: f64 = row.iter().zip(&rest).map(|(a, b)| a * b).sum();
                c[n + j] = value / h.powi((n + j) as i32);
            }
        }
        c
    }

    /// `[segment][power][input]` of one experiment, or its derivative with respect to an unknown.
    fn polynomials(&self, symbols: &Symbols, experiment: usize, theta: &[f64], unknown: Option<usize>) -> Vec<f64> {
        let n_inputs = self.signals.len();
        let width = (self.degree + 1) * n_inputs;
        let spans = &self.spans[experiment];
        let mut all = vec![0.0; spans.len() * width];
        for (input, signal) in self.signals.iter().enumerate() {
            for (segment, &(from, to)) in spans.iter().enumerate() {
                let c = match (signal, unknown) {
                    (Signal::Column { hold, samples, curvatures }, None) => {
                        let curvatures = curvatures.get(experiment).map_or(&[][..], |list| &list[..]);
                        held(*hold, &self.times[experiment], &samples[experiment], curvatures, from, to)
                    }
                    (Signal::Path { rates, is_varying, .. }, None) => {
                        self.path(symbols, rates, *is_varying, theta, from, to)
                    }
                    (Signal::Path { partials, is_varying, .. }, Some(unknown)) => {
                        match partials.iter().find(|entry| entry.0 == unknown) {
                            Some((_, rates)) => self.path(symbols, rates, *is_varying, theta, from, to),
                            None => continue,
                        }
                    }
                    (Signal::Impulses(_), _) | (Signal::Column { .. }, Some(_)) => continue,
                };
                for (power, value) in c.into_iter().take(self.degree + 1).enumerate() {
                    all[segment * width + power * n_inputs + input] = value;
                }
            }
        }
        all
    }

    fn path(
        &self,
        symbols: &Symbols,
        rates: &[ExprId],
        is_varying: bool,
        theta: &[f64],
        from: f64,
        to: f64,
    ) -> Vec<f64> {
        if is_varying {
            self.path_polynomial(symbols, rates, theta, from, to)
        } else {
            vec![symbols.evaluate(rates[0], theta, self.read_time(from, true))]
        }
    }

    /// Inputs at other values of the unknowns, where they depend on them.
    pub fn inputs(&self, symbols: &Symbols, experiment: usize, theta: &[f64]) -> Option<InputJet> {
        if !self.signals.iter().any(Signal::depends_on_unknowns) {
            return None;
        }
        Some(InputJet {
            value: self.polynomials(symbols, experiment, theta, None),
            derivatives: (0..theta.len())
                .map(|unknown| self.polynomials(symbols, experiment, theta, Some(unknown)))
                .collect(),
        })
    }

    /// Whether some input depends on an unknown.
    pub fn depends_on(&self, unknown: usize) -> bool {
        self.signals.iter().any(
            |signal| matches!(signal, Signal::Path { partials, .. } if partials.iter().any(|entry| entry.0 == unknown)),
        )
    }
}

fn horner(c: &[f64], s: f64) -> f64 {
    let mut sum = 0.0;
    let mut factor = 1.0;
    for (j, c) in c.iter().enumerate() {
        sum += c * factor;
        factor *= s / (j + 1) as f64;
    }
    sum
}

/// A sampled input on a span; before the samples the first value holds, at the last sample the derivatives before it.
fn held(hold: Hold, times: &[f64], values: &[f64], curvatures: &[f64], from: f64, to: f64) -> Vec<f64> {
    let n = times.len();
    let after = times.partition_point(|&time| time <= from);
    if after == 0 || n == 1 {
        return vec![values[0]];
    }
    let at = after - 1;
    if hold == Hold::Zero {
        return vec![values[at]];
    }
    // At the end the last interval is continued.
    let at = if at + 1 == n { n - 2 } else { at };
    debug_assert!(to >= from);
    let step = times[at + 1] - times[at];
    let x = from - times[at];
    let slope = (values[at + 1] - values[at]) / step;
    let (m0, m1) = if hold == Hold::Cubic { (curvatures[at], curvatures[at + 1]) } else { (0.0, 0.0) };
    let linear = slope - step * (2.0 * m0 + m1) / 6.0;
    let cubic = (m1 - m0) / (6.0 * step);
    let mut c = vec![values[at] + x * (linear + x * (0.5 * m0 + x * cubic)), linear + x * (m0 + x * 3.0 * cubic)];
    if hold == Hold::Cubic {
        c.extend([m0 + x * 6.0 * cubic, 6.0 * cubic]);
    }
    c
}
