//! The study file: what the engineer knows about a model and asks of it.

mod matrix;
mod read;
mod section;

use std::path::PathBuf;

use daesy_estimate::horizon::Horizon;
use daesy_graph::{SourceMap, Span};
use daesy_integrate::Method;

use crate::data::{Conversion, Format, TimeAxis};

pub(crate) use matrix::read_matrix_market;
pub use matrix::{LinearMatrix, MatrixEntry, SparseMatrix};
pub use read::{ReadStudy, read_study, study_keys};
pub use section::KnownSection;

/// A number, or an expression in parameters and unknowns that gives one.
#[derive(Clone, PartialEq, Debug)]
pub struct Quantity {
    /// What was written.
    pub value: QuantityValue,
    /// Where.
    pub span: Span,
}

/// The two ways to write a number.
#[derive(Clone, PartialEq, Debug)]
pub enum QuantityValue {
    /// A number.
    Number(f64),
    /// The text of an expression.
    Expression(String),
}

/// A name of the model with its place in the study.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Named<T> {
    /// The name.
    pub name: String,
    /// Where the name stands.
    pub span: Span,
    /// What is said of it.
    pub item: T,
}

/// A matrix as rows of numbers or expressions.
pub type Matrix = Vec<Vec<Quantity>>;

/// `[model]`: a class in a file.
#[derive(Clone, Debug)]
pub struct ModelSource {
    /// The file, relative to the study.
    pub file: PathBuf,
    /// Place of the file name.
    pub file_span: Span,
    /// The class; the only model of the file when left out.
    pub class: Option<String>,
    /// Place of the class name, or of the section.
    pub class_span: Span,
}

/// `[linear]`: E z' = F z + G u + J w, y = H z.
#[derive(Clone, Debug)]
pub struct LinearSource {
    /// Coefficients of the derivatives.
    pub e: LinearMatrix,
    /// Coefficients of the variables.
    pub f: LinearMatrix,
    /// Coefficients of the inputs.
    pub g: Option<LinearMatrix>,
    /// Coefficients of the disturbances.
    pub j: Option<LinearMatrix>,
    /// Measured combinations.
    pub h: Option<LinearMatrix>,
    /// Names of z, u, w and y where given.
    pub names: LinearNames,
    /// Place of the section.
    pub span: Span,
}

/// Names of the signals of a linear model.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinearNames {
    /// Variables.
    pub z: Option<Vec<String>>,
    /// Inputs.
    pub u: Option<Vec<String>>,
    /// Disturbances.
    pub w: Option<Vec<String>>,
    /// Outputs.
    pub y: Option<Vec<String>>,
}

/// An unknown parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct UnknownParameter {
    /// Where the search starts.
    pub start: Option<Quantity>,
    /// Lower bound.
    pub min: Option<Quantity>,
    /// Upper bound.
    pub max: Option<Quantity>,
    /// Typical size, for scaling.
    pub nominal: Option<Quantity>,
    /// What is known of it before there are data.
    pub prior: Option<RandomParameter>,
}

/// How an input runs between samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hold {
    /// Constant until the next sample; no derivative.
    Zero,
    /// Straight lines; no derivative at the samples.
    First,
    /// Cubic spline; two continuous derivatives.
    Cubic,
}

impl Hold {
    /// The number of continuous derivatives plus one: how many differentiations make a function of it.
    #[must_use]
    pub const fn derivatives_available(self) -> u16 {
        match self {
            Self::Zero => 0,
            Self::First => 1,
            Self::Cubic => 3,
        }
    }
}

/// A known input.
#[derive(Clone, PartialEq, Debug)]
pub enum InputSource {
    /// A column of the data.
    Column {
        /// Its header.
        column: String,
        /// Between samples.
        hold: Hold,
    },
    /// An expression in `time` and parameters.
    Expression {
        /// The expression.
        expression: Quantity,
        /// Times at which it or a derivative jumps.
        breaks: Vec<Quantity>,
    },
    /// Impulses.
    Impulses(Vec<Impulse>),
}

impl InputSource {
    /// Its numbers.
    #[must_use]
    pub fn quantities(&self) -> Vec<&Quantity> {
        match self {
            Self::Column { .. } => Vec::new(),
            Self::Expression { expression, breaks } => std::iter::once(expression).chain(breaks).collect(),
            Self::Impulses(list) => list.iter().flat_map(|impulse| [&impulse.time, &impulse.area]).collect(),
        }
    }
}

/// One impulse of an input.
#[derive(Clone, PartialEq, Debug)]
pub struct Impulse {
    /// When.
    pub time: Quantity,
    /// Its area.
    pub area: Quantity,
}

/// What a disturbance is.
#[derive(Clone, PartialEq, Debug)]
pub struct Disturbance {
    /// Inputs of the model that it acts on, one for each row of `C`; the input it is named after where nothing else is
    /// said.
    pub signals: Vec<String>,
    /// Its process.
    pub process: DisturbanceProcess,
    /// Whether its filter starts at rest instead of stationary.
    pub starts_at_zero: bool,
}

/// The process that makes a disturbance.
#[derive(Clone, PartialEq, Debug)]
pub enum DisturbanceProcess {
    /// dx = A x dt + B dv, w = C x, with unit white noise.
    Filter {
        /// Dynamics.
        a: Matrix,
        /// Entry of the noise.
        b: Matrix,
        /// Exit.
        c: Matrix,
    },
    /// White noise of an intensity.
    White(Quantity),
    /// A spectral factor num / den, highest power first.
    Factor {
        /// Numerator.
        num: Vec<Quantity>,
        /// Denominator.
        den: Vec<Quantity>,
    },
}

/// A measured signal.
#[derive(Clone, PartialEq, Debug)]
pub struct Measurement {
    /// The column of the data; the signal's name when left out.
    pub column: Option<String>,
    /// Standard deviation of the measurement error.
    pub std: Option<Quantity>,
    /// Variance of the measurement error.
    pub variance: Option<Quantity>,
    /// The anti-aliasing filter in front of it.
    pub presampling: Option<Presampling>,
    /// The variable that is read, where it is not the one it is named after: the output of its filter.
    pub variable: Option<String>,
}

/// An anti-aliasing filter.
#[derive(Clone, PartialEq, Debug)]
pub enum Presampling {
    /// Equal lags in series.
    Given {
        /// Time constant of each.
        time_constant: Quantity,
        /// How many.
        order: u64,
    },
    /// The least order that is needed, and a time constant that fits the samples; and where this is asked for.
    Auto(Span),
}

impl Named<Measurement> {
    /// The variable of the model that is read.
    #[must_use]
    pub fn variable(&self) -> &str {
        self.item.variable.as_deref().unwrap_or(&self.name)
    }
}

/// What the study calls a column of one data file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ColumnName {
    /// The name in the study.
    pub name: String,
    /// The header in the file.
    pub header: String,
    /// Where the study says so.
    pub span: Span,
}

/// `[data]`
#[derive(Clone, Debug)]
pub struct DataSource {
    /// One file per experiment, relative to the study, with other names for its columns.
    pub files: Vec<Named<Vec<ColumnName>>>,
    /// Files that parameters are not found from, but that predictions are compared with.
    pub validation: Vec<Named<Vec<ColumnName>>>,
    /// Where the times of the rows come from.
    pub time: TimeAxis,
    /// How the files are written.
    pub format: Format,
    /// Whether the study says in which unit times are.
    pub has_time_unit: bool,
    /// How the file's numbers become the model's.
    pub conversion: Conversion,
}

/// How start values are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InitialMode {
    /// As the model says.
    #[default]
    Model,
    /// The free part is estimated with the unknowns.
    Estimate,
    /// Nothing is known of the free part: its prior variance is infinite.
    Diffuse,
    /// At rest under the initial inputs.
    Stationary,
    /// Zero wherever free.
    Zero,
}

/// `[initial]`
#[derive(Clone, Debug, Default)]
pub struct Initial {
    /// How.
    pub mode: InitialMode,
    /// Where that is said.
    pub mode_span: Option<Span>,
    /// Values that are insisted on.
    pub values: Vec<Named<Quantity>>,
    /// Names of those that were written as true or false.
    pub truths: Vec<String>,
}

/// A distribution of a random parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct RandomParameter {
    /// `uniform`, `normal`, ..
    pub family: String,
    /// Its numbers by name.
    pub arguments: Vec<Named<Quantity>>,
    /// `samples`: file and column.
    pub samples: Option<SampleSource>,
}

/// `[random.joint]`: correlated parameters, normal or by samples of all of them together.
#[derive(Clone, PartialEq, Debug)]
pub struct JointRandom {
    /// The parameters.
    pub names: Vec<Named<()>>,
    /// Their means.
    pub mean: Vec<f64>,
    /// Their covariance.
    pub covariance: Vec<Vec<f64>>,
    /// A lower triangular L with covariance = L L'.
    pub factor: Vec<Vec<f64>>,
    /// Samples, if these and no normal distribution describe them; mean and covariance are theirs.
    pub samples: Option<JointSamples>,
    /// Place of the section.
    pub span: Span,
}

/// Samples of parameters together: the draws of a posterior.
#[derive(Clone, PartialEq, Debug)]
pub struct JointSamples {
    /// The file, relative to the study.
    pub file: String,
    /// By sample, values in the order of the names; empty before the file is read.
    pub rows: Vec<Vec<f64>>,
}

impl JointRandom {
    /// Takes samples, with their mean and covariance; `false` if they have none.
    #[must_use]
    pub fn set_rows(&mut self, rows: Vec<Vec<f64>>) -> bool {
        let (n, count) = (self.names.len(), rows.len() as f64);
        let mean: Vec<f64> = (0..n).map(|i| rows.iter().map(|row| row[i]).sum::<f64>() / count).collect();
        let moment = |i: usize, j: usize| rows.iter().map(|row| (row[i] - mean[i]) * (row[j] - mean[j])).sum::<f64>();
        let covariance: Vec<Vec<f64>> =
            (0..n).map(|i| (0..n).map(|j| moment(i.max(j), i.min(j)) / (count - 1.0)).collect()).collect();
        let Some(factor) = read::semidefinite_factor(&covariance).filter(|_| rows.len() > 1) else { return false };
        (self.mean, self.covariance, self.factor) = (mean, covariance, factor);
        if let Some(samples) = &mut self.samples {
            samples.rows = rows;
        }
        true
    }

    /// At most so many of the samples, from all over the file.
    #[must_use]
    pub fn spread_rows(&self, most: usize) -> Option<Vec<&[f64]>> {
        let rows = &self.samples.as_ref()?.rows;
        let n = most.min(rows.len());
        Some((0..n).map(|at| rows[at * rows.len() / n].as_slice()).collect())
    }
}

/// Samples of a random parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleSource {
    /// The file.
    pub file: String,
    /// Its column.
    pub column: String,
}

/// `[simulate]`
#[derive(Clone, Debug, Default)]
pub struct SimulateOptions {
    /// First time.
    pub start: Option<Quantity>,
    /// Last time.
    pub stop: Option<Quantity>,
    /// Distance of output rows.
    pub step: Option<Quantity>,
    /// Relative tolerance.
    pub rtol: Option<f64>,
    /// Absolute tolerance, multiplied by a variable's nominal value.
    pub atol: Option<f64>,
    /// The method that takes the steps.
    pub method: Option<Method>,
    /// The longest step.
    pub max_step: Option<f64>,
    /// How many steps there may be.
    pub max_steps: Option<f64>,
}

/// `[identify]`
#[derive(Clone, Debug, Default)]
pub struct IdentifyOptions {
    /// The keys that are given, each with the place of its value.
    pub given: Vec<(&'static str, Span)>,
    /// `auto`, `ml`, `pem` or `output-error`.
    pub method: Option<String>,
    /// Number of realizations.
    pub realizations: Option<u64>,
    /// Grid of the disturbances.
    pub noise_step: Option<f64>,
    /// Where that stands.
    pub noise_step_span: Option<Span>,
    /// Seconds left out of the cost.
    pub transient: Option<f64>,
    /// `none` or `std`.
    pub weighting: Option<String>,
    /// `linear` or `exact`.
    pub interpolation: Option<String>,
    /// `auto`, `explicit` or `implicit`.
    pub solver: Option<String>,
    /// Whether every other realization mirrors the one before it.
    pub is_antithetic: bool,
    /// Number of starting points.
    pub starts: Option<u64>,
    /// Number of data sets of a parametric bootstrap.
    pub bootstrap: Option<u64>,
    /// How far ahead predictions look that are compared with measurements; empty when left out.
    pub horizons: Vec<Horizon>,
}

/// `[uq]`
#[derive(Clone, Debug, Default)]
pub struct UqOptions {
    /// `auto`, `galerkin`, `collocation`, `monte-carlo` or `quasi-monte-carlo`.
    pub method: Option<String>,
    /// Where the method is named.
    pub method_span: Option<Span>,
    /// Place of the section, for what is said about all of it.
    pub span: Option<Span>,
    /// `total`, `hyperbolic` or `adaptive`.
    pub basis: Option<String>,
    /// Degree of the basis.
    pub degree: Option<u64>,
    /// Highest degree of an adaptive basis.
    pub max_degree: Option<u64>,
    /// When an adaptive basis is good enough: share of a variable's standard deviation.
    pub tolerance: Option<f64>,
    /// Number of samples; the most points of an adaptive grid.
    pub samples: Option<u64>,
    /// `auto`, `tensor` or `sparse`.
    pub grid: Option<String>,
    /// `gauss` or `nested`.
    pub quadrature: Option<String>,
    /// Points per parameter.
    pub points: Option<u64>,
    /// `project` or `ramp`.
    pub initial: Option<String>,
    /// Duration of the ramp.
    pub ramp: Option<f64>,
    /// Number of held-out samples.
    pub validation: Option<u64>,
    /// Variables to report; all when left out.
    pub variables: Option<Vec<Named<()>>>,
}

/// How the criterion of a designed experiment is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DesignCriterion {
    /// By a word: one of the letters, or else an unknown.
    Word,
    /// By an unknown, whatever its name.
    Unknown,
}

/// How an input of a designed experiment is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputKind {
    /// Pieces at either limit, chosen one by one.
    Steps,
    /// A random binary sequence.
    Prbs,
    /// A sum of sines.
    Multisine,
    /// Pieces at the limits or between them, chosen one by one.
    Levels,
}

/// An input that may be designed.
#[derive(Clone, PartialEq, Debug)]
pub struct DesignInput {
    /// How it is made.
    pub kind: InputKind,
    /// Lower limit.
    pub min: f64,
    /// Upper limit.
    pub max: f64,
    /// How fast it may change, per second; as fast as samples come if none.
    pub rate: Option<f64>,
    /// Number of pieces; found when left out.
    pub pieces: Option<usize>,
}

/// `[design]`
#[derive(Clone, Debug, Default)]
pub struct DesignOptions {
    /// `D`, `A`, `E`, or the name of an unknown.
    pub criterion: Option<Named<DesignCriterion>>,
    /// How long the experiment may be.
    pub duration: Option<f64>,
    /// Distance of samples.
    pub step: Option<f64>,
    /// Inputs that may be designed.
    pub inputs: Vec<Named<DesignInput>>,
    /// Measurements that may be chosen; all when left out.
    pub sensors: Option<Vec<Named<()>>>,
    /// How many of them.
    pub choose: Option<u64>,
    /// How many samples may be taken; at every step when left out.
    pub samples: Option<u64>,
}

/// `[watch]`
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// The usual distance of samples.
    pub step: Option<f64>,
    /// False alarms of each test per sample.
    pub false_alarm_rate: Option<f64>,
    /// Parameters that may jump, with the values that they may jump to.
    pub faults: Vec<Named<Vec<f64>>>,
}

/// Where the equations come from.
#[derive(Clone, Debug)]
pub enum StudyModel {
    /// A Modelica class.
    Modelica(ModelSource),
    /// Matrices.
    Linear(Box<LinearSource>),
}

/// A study file, read and checked in itself; names of the model are checked when the model is there.
#[derive(Clone, Debug)]
pub struct Study {
    /// The model.
    pub model: StudyModel,
    /// Fixed parameter values.
    pub parameters: Vec<Named<Quantity>>,
    /// Unknown parameters.
    pub unknown: Vec<Named<UnknownParameter>>,
    /// Known inputs.
    pub inputs: Vec<Named<InputSource>>,
    /// Disturbances.
    pub disturbances: Vec<Named<Disturbance>>,
    /// Measured signals.
    pub measurements: Vec<Named<Measurement>>,
    /// Signals to estimate.
    pub signals: Vec<Named<()>>,
    /// `extended`, `unscented` or `particles`: how nonlinear models are filtered.
    pub filter: Option<String>,
    /// Number of particles.
    pub particles: Option<u64>,
    /// Data.
    pub data: Option<DataSource>,
    /// Start values.
    pub initial: Initial,
    /// Random parameters.
    pub random: Vec<Named<RandomParameter>>,
    /// Correlated ones.
    pub joint: Option<JointRandom>,
    /// Simulation.
    pub simulate: SimulateOptions,
    /// Identification.
    pub identify: IdentifyOptions,
    /// Uncertainty.
    pub uq: UqOptions,
    /// The filter live.
    pub watch: WatchOptions,
    /// Experiments to come.
    pub design: DesignOptions,
    /// What a page shows, in this order; what matters when left out.
    pub report_signals: Option<Vec<Named<()>>>,
    /// The study's own text.
    pub sources: SourceMap,
}

impl Study {
    /// Parameters that have a distribution, by themselves or together with others.
    pub fn random_names(&self) -> impl Iterator<Item = &String> {
        let joint = self.joint.iter().flat_map(|joint| joint.names.iter().map(|of| &of.name));
        self.random.iter().map(|of| &of.name).chain(joint)
    }

    /// Lets the value of a parameter be chosen like that of an unknown; gives its place among them.
    pub fn choose(&mut self, name: &str, span: Span) -> usize {
        let known = self.unknown.iter().position(|unknown| unknown.name == name);
        known.unwrap_or_else(|| {
            let item = UnknownParameter { start: None, min: None, max: None, nominal: None, prior: None };
            self.unknown.push(Named { name: name.to_owned(), span, item });
            self.unknown.len() - 1
        })
    }

    /// How an input is given, if it is.
    #[must_use]
    pub fn input(&self, name: &str) -> Option<&InputSource> {
        self.inputs.iter().find(|input| input.name == name).map(|input| &input.item)
    }

    /// Whether an expression of the study's inputs, disturbances, accuracies or parameters holds this name.
    #[must_use]
    pub fn mentions(&self, name: &str) -> bool {
        let of_inputs = self.inputs.iter().flat_map(|input| input.item.quantities());
        let of_disturbances = self.disturbances.iter().flat_map(|disturbance| match &disturbance.item.process {
            DisturbanceProcess::Filter { a, b, c } => [a, b, c].into_iter().flatten().flatten().collect(),
            DisturbanceProcess::White(intensity) => vec![intensity],
            DisturbanceProcess::Factor { num, den } => num.iter().chain(den).collect(),
        });
        let of_measurements = self.measurements.iter().flat_map(|signal| [&signal.item.std, &signal.item.variance]);
        let of_filters = self.measurements.iter().filter_map(|signal| match &signal.item.presampling {
            Some(Presampling::Given { time_constant, .. }) => Some(time_constant),
            _ => None,
        });
        let of_parameters = self.parameters.iter().map(|parameter| &parameter.item);
        let of_measurements = of_measurements.flatten().chain(of_filters);
        let of_unknowns =
            self.unknown.iter().flat_map(|unknown| [&unknown.item.start, &unknown.item.min, &unknown.item.max]);
        let of_simulation = [&self.simulate.start, &self.simulate.stop, &self.simulate.step];
        let of_start = self.initial.values.iter().map(|value| &value.item);
        let others = of_unknowns.chain(of_simulation).flatten().chain(of_start).chain(of_parameters);
        let mut all = of_inputs.chain(of_disturbances).chain(of_measurements).chain(others);
        let is_within = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '[' | ']');
        all.any(|quantity| match &quantity.value {
            QuantityValue::Number(_) => false,
            QuantityValue::Expression(text) => text.split(|c| !is_within(c)).any(|word| word == name),
        })
    }
}
