//! Data of one experiment: samples, and the inputs between them as polynomials.

/// One experiment.
#[derive(Clone, Debug, Default)]
pub struct Experiment {
    /// Times of the samples, ascending.
    pub times: Vec<f64>,
    /// `[sample][measurement]`; NaN where a value is missing.
    pub measurements: Vec<f64>,
    /// Stretches over which every input is one polynomial, from the start of the experiment to the last sample.
    pub segments: Vec<Segment>,
    /// For every sample, the segment that begins there; the last sample has a segment of length zero. Segments before
    /// the first sample's lead from the start of the experiment to it.
    pub segment_of: Vec<usize>,
    /// `[segment][power][input]`: coefficients `c_j` of `u(s) = sum c_j s^j / j!`, with `s` from the beginning of the
    /// segment.
    pub inputs: Vec<f64>,
    /// Number of inputs.
    pub n_inputs: usize,
    /// Degree of the polynomials.
    pub degree: usize,
    /// Samples before this one teach the filter but are not counted.
    pub first_counted: usize,
}

/// A stretch of time.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Segment {
    /// Its length.
    pub length: f64,
    /// Areas of impulses of the inputs at its end; empty where there are none.
    pub kick: Vec<f64>,
}

/// Inputs that depend on parameters.
#[derive(Clone, Debug)]
pub struct InputJet {
    /// As [`Experiment::inputs`].
    pub value: Vec<f64>,
    /// Derivatives, one for each unknown.
    pub derivatives: Vec<Vec<f64>>,
}

/// Variances of measurements over time.
#[derive(Clone, Debug)]
pub struct VarianceJet {
    /// `[sample][measurement]`.
    pub value: Vec<f64>,
    /// Derivatives, one for each unknown.
    pub derivatives: Vec<Vec<f64>>,
}

impl Experiment {
    /// Samples under inputs that are constant between them: `inputs[sample][input]`.
    #[must_use]
    pub fn with_held_inputs(times: Vec<f64>, measurements: Vec<f64>, inputs: Vec<f64>, n_inputs: usize) -> Self {
        let n = times.len();
        let length = |k: usize| if k + 1 < n { times[k + 1] - times[k] } else { 0.0 };
        Self {
            segments: (0..n).map(|k| Segment { length: length(k), kick: Vec::new() }).collect(),
            segment_of: (0..n).collect(),
            times,
            measurements,
            inputs,
            n_inputs,
            degree: 0,
            first_counted: 0,
        }
    }

    /// An input just before a sample: the last that could act on what was measured there. NaN if nothing is before it.
    #[must_use]
    pub fn input_before(&self, sample: usize, input: usize) -> f64 {
        let Some(segment) = self.segment_of[sample].checked_sub(1) else { return f64::NAN };
        let width = (self.degree + 1) * self.n_inputs;
        let (mut value, mut factor) = (0.0, 1.0);
        for power in 0..=self.degree {
            value += self.inputs[segment * width + power * self.n_inputs + input] * factor;
            factor *= self.segments[segment].length / (power + 1) as f64;
        }
        value
    }

    /// An input at a sample, as it goes on from there.
    #[must_use]
    pub fn input_at(&self, sample: usize, input: usize) -> f64 {
        self.inputs[self.segment_of[sample] * (self.degree + 1) * self.n_inputs + input]
    }

    /// From the start of the experiment to its last sample.
    #[must_use]
    pub fn span(&self) -> f64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    /// Number of values that are there and counted.
    #[must_use]
    pub fn n_counted(&self) -> usize {
        let n_measurements = if self.times.is_empty() { 0 } else { self.measurements.len() / self.times.len() };
        self.measurements[self.first_counted * n_measurements..].iter().filter(|value| !value.is_nan()).count()
    }
}
