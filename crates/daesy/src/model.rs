//! The door for Rust programs: a model with what is known about it, and one method per question.

use std::path::{Path, PathBuf};

use crate::check::{self, Check};
use crate::cost::{self, CostGrid, CostOptions};
use crate::estimate::{self, Estimates};
use crate::failure::Failure;
use crate::identify::{self, Identification, IdentifyOptions};
use crate::load::{LoadOptions, Loaded, load_source};
use crate::simulate::{self, Simulator, Trajectory, output_times};
use crate::source::{ModelText, Place, Source};
use crate::table::Table;
use crate::uq::{self, Uq, UqSettings};

/// Rows of a table between the first and the last time where nobody says how many.
const ROWS: f64 = 500.0;

/// A model with what is known about it: parameter values, and the study and its data where there is one.
///
/// It is read once and not changed by asking. [`Model::with`] and [`Model::with_data`] give another model.
#[derive(Clone, Debug)]
pub struct Model {
    source: Source,
    options: LoadOptions,
    loaded: Loaded,
}

impl Model {
    /// Reads a Modelica file (`.mo`), the folder of a package, or a study (`.toml`).
    ///
    /// # Errors
    /// All that is wrong with it, with places.
    ///
    /// ```no_run
    /// # use daesy::prelude::*;
    /// let model = Model::open("problems/servo/study.toml")?;
    /// assert!(!model.check().has_errors());
    /// # Ok::<(), Failure>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Failure> {
        Self::read(Source::file(path.as_ref()), LoadOptions::default())
    }

    /// Reads one class of a Modelica file or package.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn open_class(path: impl AsRef<Path>, class: &str) -> Result<Self, Failure> {
        Self::read(Source::file(path.as_ref()), LoadOptions { class: Some(class.to_owned()), ..LoadOptions::default() })
    }

    /// Reads a model from Modelica text.
    ///
    /// # Errors
    /// All that is wrong with it, with places.
    ///
    /// ```
    /// use daesy::prelude::*;
    ///
    /// let wrong = Model::parse("model Decay\n  Real x(start = 1);\nequation\n  der(x) = -y;\nend Decay;");
    /// let Err(Failure::Input(findings)) = wrong else { panic!("`y` is not declared") };
    /// assert_eq!(findings[0].place.as_ref().map(|place| place.line), Some(4));
    /// ```
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let model = ModelText { name: "model.mo".to_owned(), text: text.to_owned() };
        Self::read(Source { place: Place::Model(model), data: Vec::new() }, LoadOptions::default())
    }

    /// Reads a study from text, with the text of the model it is about: the study names it `file = "model.mo"`.
    ///
    /// # Errors
    /// All that is wrong with them, with places.
    ///
    /// ```
    /// use daesy::prelude::*;
    ///
    /// let decay = "model Decay parameter Real k = 1; Real x(start = 1, fixed = true); equation der(x) = -k*x; end Decay;";
    /// let study = "[model]\nfile = 'model.mo'\n[random]\nk = { uniform = { min = 0.5, max = 1.5 } }\n[simulate]\nstop = 1.0\n";
    /// let spread = Model::parse_study(study, decay)?.uq(&UqSettings::default())?;
    /// let last = spread.times.len() - 1;
    /// let mean = f64::exp(-0.5) - f64::exp(-1.5);
    /// assert!((spread.moments[0].mean[last] - mean).abs() < 1e-3);
    /// # Ok::<(), Failure>(())
    /// ```
    pub fn parse_study(study: &str, model: &str) -> Result<Self, Failure> {
        let models = vec![ModelText { name: "model.mo".to_owned(), text: model.to_owned() }];
        let place =
            Place::Study { name: "study.toml".to_owned(), text: study.to_owned(), folder: PathBuf::new(), models };
        Self::read(Source { place, data: Vec::new() }, LoadOptions::default())
    }

    fn read(source: Source, options: LoadOptions) -> Result<Self, Failure> {
        let loaded = load_source(&source, &options)?;
        Ok(Self { source, options, loaded })
    }

    /// The same model with another value of a parameter.
    ///
    /// # Errors
    /// When the model has no such parameter.
    ///
    /// ```
    /// # use daesy::prelude::*;
    /// let decay = "model Decay parameter Real k = 1; Real x(start = 1, fixed = true); equation der(x) = -k*x; end Decay;";
    /// let run = Model::parse(decay)?.with("k", 2.0)?.simulate_to(1.0)?;
    /// let x = run.table.column("x").expect("the model has a variable x");
    /// assert!((x[x.len() - 1] - f64::exp(-2.0)).abs() < 1e-5);
    /// # Ok::<(), Failure>(())
    /// ```
    pub fn with(&self, parameter: &str, value: f64) -> Result<Self, Failure> {
        let mut options = self.options.clone();
        options.set.push((parameter.to_owned(), value));
        Self::read(self.source.clone(), options)
    }

    /// The same study with data in memory, one table per experiment, instead of the files it names.
    ///
    /// # Errors
    /// As [`Model::open`].
    pub fn with_data(&self, data: Vec<Table>) -> Result<Self, Failure> {
        Self::read(Source { data, ..self.source.clone() }, self.options.clone())
    }

    /// What the other modules of this crate work on.
    #[must_use]
    pub fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// Is this model sound?
    ///
    /// ```
    /// # use daesy::prelude::*;
    /// let pendulum = "model Pendulum
    ///   Real x(start = 1), y, vx, vy, force;
    /// equation
    ///   der(x) = vx; der(y) = vy;
    ///   der(vx) = -force*x; der(vy) = -force*y - 9.81;
    ///   x^2 + y^2 = 1;
    /// end Pendulum;";
    /// let verdict = Model::parse(pendulum)?.check().verdict.expect("the model has a structure");
    /// assert_eq!(verdict.structural_index, 3);
    /// # Ok::<(), Failure>(())
    /// ```
    #[must_use]
    pub fn check(&self) -> Check {
        check::check(&self.loaded)
    }

    /// The trajectory over the time span of the study, or of the model's `experiment` annotation.
    ///
    /// # Errors
    /// When the model is at fault or the method gives up.
    pub fn simulate(&self) -> Result<Trajectory, Failure> {
        simulate::simulate(&self.loaded)
    }

    /// The trajectory up to a time.
    ///
    /// # Errors
    /// As [`Model::simulate`].
    pub fn simulate_to(&self, stop: f64) -> Result<Trajectory, Failure> {
        let simulator = self.simulator()?;
        let mut options = simulator.options.clone();
        options.output_times = output_times(options.start, stop, (stop - options.start) / ROWS)?;
        options.stop = stop;
        simulator.run(&options)
    }

    /// The compiled model, for many runs with options of their own.
    ///
    /// # Errors
    /// As [`Model::simulate`].
    pub fn simulator(&self) -> Result<Simulator, Failure> {
        Simulator::new(&self.loaded)
    }

    /// The unknowns of the study from its data, with their uncertainty.
    ///
    /// # Errors
    /// When the model, study or data is at fault, or the method gives up.
    ///
    /// ```
    /// # use daesy::prelude::*;
    /// let decay = "model Decay parameter Real k = 1; Real x(start = 1, fixed = true); equation der(x) = -k*x; end Decay;";
    /// let study = "[model]\nfile = 'model.mo'\n[unknown]\nk = { start = 1.0, min = 0.1 }\n\
    ///   [measurements]\nx = { column = 'x', std = 0.01 }\n[data]\nfile = 'decay.csv'\ntime = 't'\n";
    /// let times: Vec<f64> = (0..20).map(|at| 0.1 * f64::from(at)).collect();
    /// let values = times.iter().map(|t| f64::exp(-2.0 * t)).collect();
    /// let data = Table { names: vec!["t".into(), "x".into()], columns: vec![times, values] };
    /// let found = Model::parse_study(study, decay)?.with_data(vec![data])?.identify(&IdentifyOptions::default())?;
    /// assert!((found.parameters[0].estimate - 2.0).abs() < 1e-3);
    /// # Ok::<(), Failure>(())
    /// ```
    pub fn identify(&self, options: &IdentifyOptions) -> Result<Identification, Failure> {
        identify::identify(&self.loaded, options, &mut |_| {})
    }

    /// Signals that nobody measured, at the given values of the unknowns or at their start values.
    ///
    /// # Errors
    /// As [`Model::identify`].
    pub fn estimate(&self, unknowns: Option<&[f64]>) -> Result<Estimates, Failure> {
        estimate::estimate(&self.loaded, unknowns, 0)
    }

    /// The cost or log-likelihood over a grid; each axis is written `name=from:to:n`.
    ///
    /// # Errors
    /// As [`Model::identify`].
    pub fn cost(&self, grid: &[&str], options: &CostOptions) -> Result<CostGrid, Failure> {
        let grid: Vec<String> = grid.iter().map(|&axis| axis.to_owned()).collect();
        cost::cost(&self.loaded, &grid, options, &mut |_| {})
    }

    /// Moments, quantiles and Sobol indices under the random parameters of the study.
    ///
    /// # Errors
    /// As [`Model::identify`].
    pub fn uq(&self, settings: &UqSettings) -> Result<Uq, Failure> {
        uq::uq(&self.loaded, settings)
    }
}
