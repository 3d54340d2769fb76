//! A study of a linear model with disturbances and data, as the estimation methods see it.
//!
//! All coefficients are expressions in the unknowns, so that their derivatives are exact. Disturbances become shaping
//! filters whose states are further variables; constant and time-varying forcing in the equations become inputs.
//! Equations that merely say that one variable is another one are used up before anything numerical begins.

mod build;
mod computed;
mod parametric;
mod posed;
pub mod refusal;
mod timeline;

use daesy_estimate::descriptor::{Coefficients, ModelLayout, ParametricModel, SignalRows, StartRows};
use daesy_estimate::error::EstimateError;
use daesy_estimate::experiment::{Experiment, InputJet, VarianceJet};
use daesy_estimate::search::SearchSpace;
use daesy_graph::{ExprId, Span};

use crate::problem::{MeasuredSignal, Unknown};
pub use build::{SignalsWanted, build_linear_study};
pub use computed::with_computed;
use parametric::{ParametricMatrix, Symbols, Values};
pub use posed::posed;
use timeline::Timeline;

/// A known input of the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownInput {
    /// Its name.
    pub name: String,
    /// Differentiations after which it is still a function; `None` where that is not limited.
    pub derivatives_available: Option<u16>,
    /// Where the study names it, or nowhere.
    pub span: Span,
}

/// A linear study: model, unknowns and data.
#[derive(Clone, Debug)]
pub struct LinearStudy {
    /// Unknown parameters.
    pub unknowns: Vec<Unknown>,
    /// Their bounds and sizes.
    pub space: SearchSpace,
    /// Measured signals.
    pub measured: Vec<MeasuredSignal>,
    /// Names of the signals to estimate.
    pub estimated: Vec<String>,
    /// Known inputs, forcing of the equations not counted: the first columns of the input matrix.
    pub inputs: Vec<KnownInput>,
    /// Names of the disturbances by noise.
    pub noises: Vec<String>,
    /// Names of the disturbances by shaping filter.
    pub filter_names: Vec<String>,
    /// Variables whose start is insisted on, in words.
    pub insisted_names: Vec<String>,
    /// Variables whose start is wished for.
    pub wished_names: Vec<String>,
    /// Whether the model has disturbances.
    pub has_disturbances: bool,
    layout: ModelLayout,
    experiments: Vec<Experiment>,
    symbols: Symbols,
    timeline: Timeline,
    matrices: Matrices,
    /// Variances that change with time: by measurement, the expression and its partial derivatives.
    varying_variances: Option<Vec<VaryingVariance>>,
    /// Whether disturbances and measurement noise are left out, as an output-error fit does.
    is_noise_free: bool,
}

#[derive(Clone, Debug)]
struct VaryingVariance {
    value: ExprId,
    partials: Vec<(usize, ExprId)>,
}

/// All matrices, reduced.
#[derive(Clone, Debug)]
struct Matrices {
    e: ParametricMatrix,
    f: ParametricMatrix,
    g: ParametricMatrix,
    j: ParametricMatrix,
    intensities: ParametricMatrix,
    measured: ParametricMatrix,
    measured_inputs: ParametricMatrix,
    estimated: ParametricMatrix,
    estimated_inputs: ParametricMatrix,
    variances: ParametricMatrix,
    insisted: ParametricRows,
    wished: ParametricRows,
}

/// Start conditions.
#[derive(Clone, Debug)]
struct ParametricRows {
    variables: ParametricMatrix,
    derivatives: ParametricMatrix,
    inputs: ParametricMatrix,
    values: ParametricMatrix,
}

impl Matrices {
    fn assemble(&self, of: &dyn Fn(&ParametricMatrix) -> daesy_pencil::Mat<f64>) -> Coefficients {
        let column = |matrix: &ParametricMatrix| {
            let matrix = of(matrix);
            (0..matrix.nrows()).map(|row| matrix[(row, 0)]).collect()
        };
        let rows = |rows: &ParametricRows| StartRows {
            variables: of(&rows.variables),
            derivatives: of(&rows.derivatives),
            inputs: of(&rows.inputs),
            values: column(&rows.values),
        };
        Coefficients {
            e: of(&self.e),
            f: of(&self.f),
            g: of(&self.g),
            j: of(&self.j),
            intensities: column(&self.intensities),
            measured: SignalRows { variables: of(&self.measured), inputs: of(&self.measured_inputs) },
            estimated: SignalRows { variables: of(&self.estimated), inputs: of(&self.estimated_inputs) },
            variances: column(&self.variances),
            insisted: rows(&self.insisted),
            wished: rows(&self.wished),
        }
    }
}

impl LinearStudy {
    /// Where a search starts.
    #[must_use]
    pub fn start(&self) -> Vec<f64> {
        self.unknowns.iter().map(|unknown| unknown.start).collect()
    }

    /// The study as an output-error fit sees it: no disturbances, and measurement errors of the size given at the start
    /// (one, where that is zero).
    #[must_use]
    pub fn without_noise(mut self, theta: &[f64]) -> Self {
        let variances = self.symbols.values(theta, false).map(|values| self.matrices.variances.value(&values.values));
        let mut constant = ParametricMatrix::zeros(self.measured.len(), 1);
        for row in 0..self.measured.len() {
            let given = variances.as_ref().map_or(1.0, |matrix| matrix[(row, 0)]);
            constant.constant[(row, 0)] = if given > 0.0 { given } else { 1.0 };
        }
        self.matrices.variances = constant;
        let (n_rows, n_noise) = self.matrices.j.constant.shape();
        self.matrices.j = ParametricMatrix::zeros(n_rows, n_noise);
        self.matrices.intensities = ParametricMatrix::zeros(n_noise, 1);
        for filter in &mut self.layout.filters {
            filter.starts_at_zero = true;
            self.matrices.f.detach(filter.states.clone());
        }
        self.varying_variances = None;
        self.is_noise_free = true;
        self
    }

    /// Which unknowns cannot be negative and have to do with disturbances and measurement errors only.
    #[must_use]
    pub fn noise_scales(&self) -> Vec<bool> {
        let plain = self.clone().without_noise(&self.start());
        (0..self.unknowns.len()).map(|at| self.space.lower[at] >= 0.0 && !plain.depends_on(at)).collect()
    }

    /// The study with other measurements, `[sample][measurement]` by experiment, such as artificial ones.
    #[must_use]
    pub fn with_measurements(mut self, measurements: Vec<Vec<f64>>) -> Self {
        for (experiment, values) in self.experiments.iter_mut().zip(measurements) {
            experiment.measurements = values;
        }
        self
    }

    /// The study with a single sample, the last of some `times`, of which the others are from before the start;
    /// `values_of` gives the columns at all of them by the position of the input. Impulses at the start count.
    #[must_use]
    pub fn with_first_sample(
        &self,
        theta: &[f64],
        start: f64,
        times: &[f64],
        values_of: &dyn Fn(usize) -> Vec<f64>,
    ) -> Self {
        let mut timeline = self.timeline.with_samples(f64::NEG_INFINITY, values_of);
        let none = vec![f64::NAN; times.len() * self.measured.len()];
        let experiment = timeline.lay_out(&self.symbols, theta, start, times, &none, times.len() - 1);
        Self { experiments: vec![experiment], timeline, ..self.clone() }
    }

    /// Two samples and what the inputs do between them, impulses at the first one left out; `values_of` gives the
    /// values of the columns at both by the position of the input.
    #[must_use]
    pub fn between_samples(&self, theta: &[f64], times: [f64; 2], values_of: &dyn Fn(usize) -> [f64; 2]) -> Experiment {
        let mut timeline = self.timeline.with_samples(times[0], &|at| values_of(at).to_vec());
        let none = vec![f64::NAN; 2 * self.measured.len()];
        timeline.lay_out(&self.symbols, theta, times[0], &times, &none, 0)
    }

    /// Variances of the measurement errors at a time, where they change with it.
    #[must_use]
    pub fn variances_at(&self, theta: &[f64], time: f64) -> Option<Vec<f64>> {
        let varying = self.varying_variances.as_ref()?;
        Some(varying.iter().map(|variance| self.symbols.evaluate(variance.value, theta, time)).collect())
    }

    /// The measurements whose accuracy changes with time.
    pub fn of_varying_accuracy(&self) -> impl Iterator<Item = usize> + '_ {
        let varying = self.varying_variances.iter().flatten().enumerate();
        varying.filter(|(_, variance)| self.symbols.is_varying(variance.value)).map(|(at, _)| at)
    }

    /// Whether disturbances were left out.
    #[must_use]
    pub fn is_noise_free(&self) -> bool {
        self.is_noise_free
    }

    /// Whether anything depends on an unknown.
    #[must_use]
    pub fn depends_on(&self, unknown: usize) -> bool {
        let Ok(values) = self.symbols.values(&self.start(), true) else { return true };
        let partial: Vec<f64> = (0..values.values.len())
            .map(|at| f64::from(u8::from(values.partials.iter().any(|entry| entry.0 == at && entry.1 == unknown))))
            .collect();
        let moved = self.matrices.assemble(&|matrix| matrix.derivative(&partial));
        let any = |matrix: &daesy_pencil::Mat<f64>| matrix.nrows() > 0 && matrix.ncols() > 0 && matrix.norm_max() > 0.0;
        let varying = self.varying_variances.iter().flatten();
        any(&moved.e)
            || any(&moved.f)
            || any(&moved.g)
            || any(&moved.j)
            || moved.intensities.iter().any(|value| *value != 0.0)
            || moved.variances.iter().any(|value| *value != 0.0)
            || any(&moved.insisted.variables)
            || any(&moved.insisted.derivatives)
            || any(&moved.insisted.inputs)
            || moved.insisted.values.iter().any(|value| *value != 0.0)
            || moved.wished.values.iter().any(|value| *value != 0.0)
            || self.timeline.depends_on(unknown)
            || varying.into_iter().any(|variance| variance.partials.iter().any(|entry| entry.0 == unknown))
    }

    fn partials(&self, values: &Values, unknown: usize) -> Vec<f64> {
        let mut partial = vec![0.0; values.values.len()];
        for &(at, of, derivative) in &values.partials {
            if of == unknown {
                partial[at] = derivative;
            }
        }
        partial
    }
}

impl ParametricModel for LinearStudy {
    fn layout(&self) -> &ModelLayout {
        &self.layout
    }

    fn coefficients(&self, theta: &[f64]) -> Result<Coefficients, EstimateError> {
        let values = self.symbols.values(theta, false)?;
        Ok(self.matrices.assemble(&|matrix| matrix.value(&values.values)))
    }

    fn derivatives(&self, theta: &[f64]) -> Result<Vec<Coefficients>, EstimateError> {
        let values = self.symbols.values(theta, true)?;
        Ok((0..theta.len())
            .map(|unknown| {
                let partial = self.partials(&values, unknown);
                self.matrices.assemble(&|matrix| matrix.derivative(&partial))
            })
            .collect())
    }

    fn experiments(&self) -> &[Experiment] {
        &self.experiments
    }

    fn inputs(&self, experiment: usize, theta: &[f64]) -> Option<InputJet> {
        self.timeline.inputs(&self.symbols, experiment, theta)
    }

    fn variances(&self, experiment: usize, theta: &[f64]) -> Option<VarianceJet> {
        let varying = self.varying_variances.as_ref()?;
        let times = &self.experiments[experiment].times;
        let table = |of: &dyn Fn(&VaryingVariance, f64) -> f64| -> Vec<f64> {
            times
                .iter()
                .flat_map(|&time| varying.iter().map(move |variance| (variance, time)))
                .map(|(v, t)| of(v, t))
                .collect()
        };
        Some(VarianceJet {
            value: table(&|variance, time| self.symbols.evaluate(variance.value, theta, time)),
            derivatives: (0..theta.len())
                .map(|unknown| {
                    table(&|variance, time| {
                        let partial = variance.partials.iter().find(|entry| entry.0 == unknown);
                        partial.map_or(0.0, |entry| self.symbols.evaluate(entry.1, theta, time))
                    })
                })
                .collect(),
        })
    }
}
