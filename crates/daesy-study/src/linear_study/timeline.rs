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
/// An error that is none: towards numbers that a double does not hold, as in the tails of a pulse, derivatives lose digits.
const NOTHING: f64 = 1e-200;
/// From so many halvings on a segment is so short that its error counts by its share of the whole.
const MANY_HALVINGS: usize = 12;
/// Halvings of a segment at most, and segments that a stretch between two points is divided into.
const MAX_HALVINGS: usize = 48;
const MAX_SEGMENTS: usize = 8192;
/// Where an interpolation is compared with its function, as shares of a segment.
const COMPARED: [f64; 3] = [0.07, 0.5, 0.81];

/// How functions of time become a polynomial on a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// From values and derivatives at both ends.
    Ends,
    /// From values inside: at an end a derivative may be infinite, as that of a root is.
    Values,
    /// From values and derivatives at the start itself, where a simulation has its first row: a function of time in the
    /// model that turns right after it, such as `if time > 0 then 1 else 0`, still has the value before.
    Start,
}

/// A stretch of time on which all inputs are polynomials.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: f64,
    to: f64,
    by: By,
}

/// The inputs of all experiments.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub signals: Vec<Signal>,
    /// Times at which functions of time break, ascending.
    pub breaks: Vec<f64>,
    /// Signals before this are inputs, those from here on functions of time in the model.
    n_known: usize,
    /// Whether experiments begin where the model does, and not in the middle of a record.
    begins: bool,
    degree: usize,
    /// By experiment.
    spans: Vec<Vec<Stretch>>,
    times: Vec<Vec<f64>>,
    /// A time at which a function of time is too rough to be followed.
    pub too_rough: Option<f64>,
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
    pub fn new(signals: Vec<Signal>, n_known: usize, mut breaks: Vec<f64>) -> Self {
        let degree = signals.iter().map(Signal::degree).max().unwrap_or(0);
        breaks.retain(|time| time.is_finite());
        breaks.sort_by(f64::total_cmp);
        breaks.dedup();
        let (spans, times) = (Vec::new(), Vec::new());
        Self { signals, breaks, n_known, begins: true, degree, spans, times, too_rough: None }
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
            n_known: self.n_known,
            begins: after == f64::NEG_INFINITY,
            degree: self.degree,
            spans: Vec::new(),
            times: Vec::new(),
            too_rough: self.too_rough,
        }
    }

    /// Lays out an experiment: samples at those of the `times` of the columns that are not before `start`.
    pub fn lay_out(
        &mut self,
        symbols: &Symbols,
        theta: &[f64],
        start: f64,
        times: &[f64],
        measurements: &[f64],
        first_counted: usize,
    ) -> Experiment {
        let first = times.partition_point(|&time| time < start).min(first_counted);
        let n_measured = measurements.len() / times.len();
        let sampled = &times[first..];
        let start = start.min(sampled[0]);
        let last = times[times.len() - 1];
        let mut points: Vec<f64> = sampled.to_vec();
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
        let mut spans: Vec<Stretch> = Vec::new();
        // An impulse right at the start acts before everything else, and what turns right after the start has not turned.
        let has_kick = kicks.iter().any(|kick| kick.0 == start);
        if has_kick || self.begins && self.is_break(start) {
            let by = if self.begins { By::Start } else { By::Ends };
            spans.push(Stretch { from: start, to: start, by });
        }
        for pair in points.windows(2) {
            let whole = Whole::new(self, symbols, theta, pair[0], pair[1]);
            if let Err(time) = whole.divide(pair[0], pair[1], 0, spans.len() + MAX_SEGMENTS, &mut spans) {
                self.too_rough.get_or_insert(time);
            }
        }
        spans.push(Stretch { from: last, to: last, by: By::Ends });
        let n_inputs = self.signals.len();
        let segments: Vec<Segment> = spans
            .iter()
            .map(|&Stretch { from, to, .. }| {
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
        let segment_of = sampled
            .iter()
            .map(|&time| {
                let first = spans.partition_point(|span| span.from < time);
                let is_last = time == last && spans[first].to == time && first + 1 < spans.len();
                first + usize::from(if time == start { has_kick } else { is_last })
            })
            .collect();
        let at = self.spans.len();
        self.spans.push(spans);
        self.times.push(times.to_vec());
        let mut experiment = Experiment {
            times: sampled.to_vec(),
            measurements: measurements[first * n_measured..].to_vec(),
            segments,
            segment_of,
            inputs: Vec::new(),
            n_inputs,
            degree: self.degree,
            first_counted: first_counted - first,
        };
        experiment.inputs = self.polynomials(symbols, at, theta, None);
        experiment
    }

    fn is_break(&self, time: f64) -> bool {
        // The two zeros are the same time.
        let time = time + 0.0;
        self.breaks.binary_search_by(|candidate| (candidate + 0.0).total_cmp(&time)).is_ok()
    }

    /// Times at breaks are read a little inside of the segment.
    fn read_time(&self, time: f64, is_from: bool) -> f64 {
        let nudge = 1e-12 * time.abs().max(1e-3);
        match (self.is_break(time), is_from) {
            (false, _) => time,
            (true, true) => time + nudge,
            (true, false) => time - nudge,
        }
    }

    /// The polynomial of a function of time on a stretch; for an empty one the derivatives themselves.
    fn path_polynomial(&self, symbols: &Symbols, rates: &[ExprId], theta: &[f64], stretch: Stretch) -> Vec<f64> {
        let Stretch { from, to, by } = stretch;
        let (n, h) = (rates.len(), to - from);
        let at = |time: f64| -> Vec<f64> { rates.iter().map(|&rate| symbols.evaluate(rate, theta, time)).collect() };
        if h == 0.0 {
            let mut c = at(if by == By::Start { from } else { self.read_time(from, true) });
            // Where a derivative is infinite, the function has a value all the same.
            c[1..].iter_mut().filter(|rate| !rate.is_finite()).for_each(|rate| *rate = 0.0);
            return c;
        }
        let factorial = |k: usize| (1..=k).map(|i| i as f64).product::<f64>();
        match by {
            By::Ends | By::Start => {
                let mut c = at(self.read_time(from, true));
                let end = at(self.read_time(to, false));
                let scaled: Vec<f64> = (0..n).map(|j| c[j] * h.powi(j as i32)).collect();
                let rest: Vec<f64> = (0..n)
                    .map(|i| end[i] * h.powi(i as i32) - (i..n).map(|j| scaled[j] / factorial(j - i)).sum::<f64>())
                    .collect();
                for (j, row) in hermite(n).iter().enumerate() {
                    let value: f64 = row.iter().zip(&rest).map(|(a, b)| a * b).sum();
                    c.push(value / h.powi((n + j) as i32));
                }
                c
            }
            By::Values => {
                // Divided differences at the roots of a Chebyshev polynomial, all of them inside.
                let m = 2 * n;
                let share = |j: usize| 0.5 - 0.5 * ((2 * j + 1) as f64 * std::f64::consts::PI / (2 * m) as f64).cos();
                let nodes: Vec<f64> = (0..m).map(share).collect();
                let mut divided: Vec<f64> =
                    nodes.iter().map(|node| symbols.evaluate(rates[0], theta, from + node * h)).collect();
                for order in 1..m {
                    for j in (order..m).rev() {
                        divided[j] = (divided[j] - divided[j - 1]) / (nodes[j] - nodes[j - order]);
                    }
                }
                // From Newton's form to powers of the share of the segment.
                let mut powers = vec![0.0; m];
                for j in (0..m).rev() {
                    for k in (1..m).rev() {
                        powers[k] = powers[k - 1] - nodes[j] * powers[k];
                    }
                    powers[0] = divided[j] - nodes[j] * powers[0];
                }
                powers.iter().enumerate().map(|(j, value)| value * factorial(j) / h.powi(j as i32)).collect()
            }
        }
    }

    /// `[segment][power][input]` of one experiment, or its derivative with respect to an unknown.
    fn polynomials(&self, symbols: &Symbols, experiment: usize, theta: &[f64], unknown: Option<usize>) -> Vec<f64> {
        let n_inputs = self.signals.len();
        let width = (self.degree + 1) * n_inputs;
        let spans = &self.spans[experiment];
        let mut all = vec![0.0; spans.len() * width];
        for (input, signal) in self.signals.iter().enumerate() {
            for (segment, &stretch) in spans.iter().enumerate() {
                let is_input = input < self.n_known && stretch.by == By::Start;
                let stretch = if is_input { Stretch { by: By::Ends, ..stretch } } else { stretch };
                let c = match (signal, unknown) {
                    (Signal::Column { hold, samples, curvatures }, None) => {
                        let curvatures = curvatures.get(experiment).map_or(&[][..], |list| &list[..]);
                        held(*hold, &self.times[experiment], &samples[experiment], curvatures, stretch.from, stretch.to)
                    }
                    (Signal::Path { rates, is_varying, .. }, None) => {
                        self.path(symbols, rates, *is_varying, theta, stretch)
                    }
                    (Signal::Path { partials, is_varying, .. }, Some(unknown)) => {
                        match partials.iter().find(|entry| entry.0 == unknown) {
                            Some((_, rates)) => self.path(symbols, rates, *is_varying, theta, stretch),
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

    fn path(&self, symbols: &Symbols, rates: &[ExprId], is_varying: bool, theta: &[f64], stretch: Stretch) -> Vec<f64> {
        if is_varying {
            return self.path_polynomial(symbols, rates, theta, stretch);
        }
        // What is constant between breaks is read between them: at their ends it may have a value of its own, as
        // `sign` has.
        let time = match stretch {
            Stretch { from, by: By::Start, .. } => from,
            Stretch { from, to, .. } if to > from => 0.5 * (from + to),
            Stretch { from, .. } => self.read_time(from, true),
        };
        vec![symbols.evaluate(rates[0], theta, time)]
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

/// Functions of time between two points at which nothing breaks.
struct Whole<'a> {
    timeline: &'a Timeline,
    symbols: &'a Symbols,
    theta: &'a [f64],
    length: f64,
    /// By signal, its size there.
    sizes: Vec<f64>,
}

impl<'a> Whole<'a> {
    fn new(timeline: &'a Timeline, symbols: &'a Symbols, theta: &'a [f64], from: f64, to: f64) -> Self {
        let size = |signal: &Signal| match signal {
            Signal::Path { rates, is_varying: true, .. } => {
                let value = |share: &f64| symbols.evaluate(rates[0], theta, from + share * (to - from)).abs();
                COMPARED.iter().map(value).fold(f64::MIN_POSITIVE, f64::max)
            }
            Signal::Path { .. } | Signal::Column { .. } | Signal::Impulses(_) => 0.0,
        };
        Self { timeline, symbols, theta, length: to - from, sizes: timeline.signals.iter().map(size).collect() }
    }

    /// Halves a stretch until functions of time are well interpolated on it; else a time at which they are not.
    ///
    /// A polynomial from both ends is best for smooth functions, and has their derivatives at samples. Towards a root, whose derivatives are infinite, values
    /// inside are all there is: their error falls with the square root of the length only, but what an input does is
    /// its integral, so that from some length on the error may be larger by as much as the stretch is shorter.
    fn divide(&self, from: f64, to: f64, depth: usize, most: usize, spans: &mut Vec<Stretch>) -> Result<(), f64> {
        let by = if self.has_rates(from, to) { By::Ends } else { By::Values };
        let stretch = Stretch { from, to, by };
        if self.is_good(stretch, depth) {
            spans.push(stretch);
            return Ok(());
        }
        let middle = 0.5 * (from + to);
        if depth == MAX_HALVINGS || spans.len() >= most || middle <= from || middle >= to {
            spans.push(Stretch { from, to, by: By::Values });
            return Err(middle);
        }
        let first = self.divide(from, middle, depth + 1, most, spans);
        first.and(self.divide(middle, to, depth + 1, most, spans))
    }

    /// Whether all functions of time have finite derivatives at both ends.
    fn has_rates(&self, from: f64, to: f64) -> bool {
        let stretch = Stretch { from, to, by: By::Ends };
        self.timeline.signals.iter().all(|signal| match signal {
            Signal::Path { rates, is_varying: true, .. } => {
                let c = self.timeline.path_polynomial(self.symbols, rates, self.theta, stretch);
                c.iter().all(|c| c.is_finite())
            }
            Signal::Path { .. } | Signal::Column { .. } | Signal::Impulses(_) => true,
        })
    }

    fn is_good(&self, stretch: Stretch, depth: usize) -> bool {
        let share = if depth < MANY_HALVINGS { 1.0 } else { (stretch.to - stretch.from) / self.length };
        self.timeline.signals.iter().zip(&self.sizes).all(|(signal, &whole)| match signal {
            Signal::Path { rates, is_varying: true, .. } => {
                let c = self.timeline.path_polynomial(self.symbols, rates, self.theta, stretch);
                COMPARED.iter().all(|at| {
                    let inside = at * (stretch.to - stretch.from);
                    let exact = self.symbols.evaluate(rates[0], self.theta, stretch.from + inside);
                    let here = exact.abs().max(c[0].abs());
                    let size = if depth < MANY_HALVINGS { here } else { here.max(whole) };
                    (horner(&c, inside) - exact).abs() * share <= INTERPOLATION * size + NOTHING
                })
            }
            Signal::Path { .. } | Signal::Column { .. } | Signal::Impulses(_) => true,
        })
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
