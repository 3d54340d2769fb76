//! daesy on a problem in its original form, index 3 included.

use std::path::Path;

use daesy_compile::{CompiledSystem, compile};
use daesy_integrate::{Inputs, SimulateOptions, simulate};
use daesy_model::flatten::{FlattenOptions, flatten};
use daesy_model::library::Library;
use daesy_structure::condense;
use daesy_system::DaeSystem;

use super::{Problem, Reached, Unreached};

/// A compiled problem.
pub struct NativeModel {
    system: CompiledSystem,
    parameters: Vec<f64>,
}

/// The known force of the pendulum's study; `None` for the others.
struct StudyInputs;

impl Inputs for StudyInputs {
    fn fill(&self, time: f64, _is_after: bool, values: &mut [f64]) {
        if let [force, disturbance] = values {
            *force = 0.5 * (1.1 * time).sin() + 0.3 * (3.7 * time).sin();
            *disturbance = 0.0;
        }
    }

    fn breaks(&self) -> &[f64] {
        &[]
    }
}

impl NativeModel {
    /// Reads and compiles a problem.
    ///
    /// # Errors
    /// When the model is not what it should be.
    pub fn new(problem: &Problem, root: &Path) -> Result<Self, Unreached> {
        let unreached = |reason: String| Unreached { reason };
        let mut library = Library::new();
        let file = root.join("problems").join(problem.folder).join("model.mo");
        library.add_path(&root.join("library/Modelica")).map_err(|error| unreached(error.to_string()))?;
        library.add_path(&file).map_err(|error| unreached(error.to_string()))?;
        let flat = flatten(&library, problem.class, &FlattenOptions::default())
            .map_err(|error| unreached(format!("{error:?}")))?;
        let regular = condense(flat).map_err(|error| unreached(error.to_string()))?;
        let system = compile(regular).map_err(|error| unreached(error.to_string()))?;
        let parameters = system.parameter_values(&[]).map_err(|error| unreached(error.to_string()))?;
        Ok(Self { system, parameters })
    }

    /// Solves from the start values, which are made consistent, to the end.
    ///
    /// # Errors
    /// When the integration gives up.
    pub fn solve(&self, problem: &Problem, rtol: f64) -> Result<Reached, Unreached> {
        let options = SimulateOptions {
            start: 0.0,
            stop: problem.stop,
            output_times: vec![problem.stop],
            rtol,
            atol: rtol * problem.scale,
            max_steps: 10_000_000,
            ..SimulateOptions::default()
        };
        let simulation = simulate(&self.system, &self.parameters, &StudyInputs, &options)
            .map_err(|error| Unreached { reason: error.to_string() })?;
        let observed = &self.system.description().observed;
        let row = simulation.rows.last().map_or(&[][..], Vec::as_slice);
        let at = |name: &str| observed.iter().position(|known| known == name).and_then(|at| row.get(at).copied());
        Ok(Reached { error: problem.error(at), n_steps: simulation.steps })
    }
}
