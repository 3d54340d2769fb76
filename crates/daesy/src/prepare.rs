//! From the flat model to a compiled system at a consistent start, the way every verb goes.

use daesy_compile::{CompileError, CompiledSystem, compile};
use daesy_graph::flat::FlatDae;
use daesy_graph::regular::RegularDae;
use daesy_graph::{Environment, VarId};
use daesy_integrate::{InitializeOptions, Initialized, Inputs, IntegrateError, initialize};
use daesy_structure::{RegularizeError, regularize};
use daesy_system::DaeSystem;
use rustc_hash::FxHashMap;

use crate::data::Data;
use crate::diagnostic::Diagnostic;
use crate::inputs::StudyInputs;
use crate::load::Loaded;
use crate::study::DataSource;

/// A model that can be evaluated.
pub struct Prepared {
    /// The compiled model.
    pub system: CompiledSystem,
    /// Parameter values.
    pub parameters: Vec<f64>,
    /// Inputs over time.
    pub inputs: StudyInputs,
    /// The first experiment's data, where the study has some.
    pub data: Option<Data>,
}

/// Why a model could not be prepared.
pub struct Unprepared {
    /// What is wrong.
    pub diagnostics: Vec<Diagnostic>,
}

impl From<Vec<Diagnostic>> for Unprepared {
    fn from(diagnostics: Vec<Diagnostic>) -> Self {
        Self { diagnostics }
    }
}

/// Regularizes and compiles a model.
///
/// # Errors
/// Diagnostics in the model's words.
pub fn prepare(loaded: &mut Loaded) -> Result<Prepared, Unprepared> {
    let system = compile_flat(&loaded.flat)?;
    let parameters =
        system.parameter_values(&[]).map_err(|error| vec![Diagnostic::error("parameter-value", error.to_string())])?;
    let source = loaded.study.as_ref().and_then(|study| study.data.clone());
    let data = match source {
        Some(source) => Some(read_data(loaded, &source)?),
        None => None,
    };
    let inputs = StudyInputs::new(loaded, system.description(), &parameters, data.as_ref())?;
    Ok(Prepared { system, parameters, inputs, data })
}

/// The first experiment of a study.
fn read_data(loaded: &Loaded, source: &DataSource) -> Result<Data, Vec<Diagnostic>> {
    let Some(first) = source.files.first() else {
        return Err(vec![Diagnostic::error("data-source", "the study lists no data file")]);
    };
    Data::read(&loaded.folder.join(&first.name), &first.name, &source.time)
}

fn compile_flat(flat: &FlatDae) -> Result<CompiledSystem, Vec<Diagnostic>> {
    let sources = flat.sources.clone();
    let regular: RegularDae = regularize(flat.clone()).map_err(|error| match error {
        RegularizeError::Singular { findings, .. } => {
            findings.iter().map(|finding| Diagnostic::resolve(finding, &sources)).collect()
        }
        other => vec![Diagnostic::error("structure", other.to_string())],
    })?;
    compile(regular).map_err(|error: CompileError| vec![Diagnostic::error("compile", error.to_string())])
}

impl Prepared {
    /// Consistent start values at a time.
    ///
    /// # Errors
    /// What the search says.
    pub fn start(&self, time: f64) -> Result<Initialized, IntegrateError> {
        let description = self.system.description();
        let mut inputs = vec![0.0; description.n_inputs];
        self.inputs.fill(time, true, &mut inputs);
        let modes = vec![0.0; description.n_modes];
        initialize(&self.system, time, &self.parameters, &inputs, &modes, &InitializeOptions::default())
    }

    /// The values of all leaves at the start, for the reference evaluator.
    #[must_use]
    pub fn point(&self, time: f64, start: &Initialized) -> NamedPoint {
        let regular = self.system.regular();
        let description = self.system.description();
        let mut values = FxHashMap::default();
        let derivatives = regular.states.iter().chain(&regular.unknowns);
        for (derivative, &value) in derivatives.zip(start.states.iter().chain(&start.unknowns)) {
            values.insert((derivative.var, derivative.order), value);
        }
        for (&var, &value) in regular.parameters.iter().zip(&start.parameters) {
            values.insert((var, 0), value);
        }
        let mut inputs = vec![0.0; description.n_inputs];
        self.inputs.fill(time, true, &mut inputs);
        for (input, place) in regular.inputs.iter().zip(&description.inputs) {
            for order in 0..=input.derivatives_needed {
                values.insert((input.var, order), inputs[place.start + usize::from(order)]);
            }
        }
        NamedPoint { time, values }
    }
}

/// Values of leaves by variable and order.
pub struct NamedPoint {
    time: f64,
    values: FxHashMap<(VarId, u16), f64>,
}

impl Environment for NamedPoint {
    fn value(&self, var: VarId, order: u16) -> f64 {
        self.values.get(&(var, order)).copied().unwrap_or(0.0)
    }

    fn time(&self) -> f64 {
        self.time
    }
}

/// A failed integration as a diagnostic with place and names.
#[must_use]
pub fn integration_diagnostic(error: &IntegrateError) -> Diagnostic {
    let (code, place, help) = match error {
        IntegrateError::NoConsistentStart { place, .. } => (
            "no-consistent-start",
            place.as_str(),
            "check the start values that are `fixed = true` and the initial equations: together with the equations they ask too much, or \
             the search needs better guesses in `start`",
        ),
        IntegrateError::NotFinite { place, .. } => (
            "not-finite",
            place.as_str(),
            "a division by zero, a root or logarithm of a negative number, or an overflow; give a `start` value at which the \
             equation is defined",
        ),
        IntegrateError::StepTooSmall { .. } => (
            "step-too-small",
            "",
            "the solution may have a singularity or a discontinuity here; look at the variables around this time, or loosen rtol",
        ),
        IntegrateError::Singular { .. } => {
            ("singular-equations", "", "`daesy check` names the equations that depend on each other")
        }
        IntegrateError::TooManySteps { .. } => ("too-many-steps", "", "shorten the time span, or loosen rtol"),
        _ => ("integration", "", "look at the variables around this time"),
    };
    let mut diagnostic = Diagnostic::error(code, error.to_string()).with_help(help);
    let mut parts = place.rsplitn(3, ':');
    if let (Some(column), Some(line), Some(file)) = (parts.next(), parts.next(), parts.next())
        && let (Ok(line), Ok(column)) = (line.parse(), column.parse())
    {
        diagnostic.place = Some(daesy_graph::source::Place { file: file.to_owned(), line, column });
    }
    diagnostic
}
