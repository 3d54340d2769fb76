//! Starts that are found with the unknowns, where a run begins at given values.
//!
//! The likelihood of a linear model knows a start of which nothing is known. Trajectories, ensembles and filters of other
//! models begin somewhere. With `[initial] mode = "estimate"` the start values of what is free are parameters, which are
//! found with the unknowns, for each record its own:
//!
//! ```text
//! x(t_0) = sum over records k of r_k start(x)[k],        r_k = 1 in record k, 0 in the others
//! ```
//!
//! Constraints, hidden ones too, hold at every start, so that not all variables whose derivative occurs have a start of
//! their own. Each of them has a wish for its start value, in the order of declaration; those that ranks grant at the
//! first start (`daesy_integrate`) are free, as many as there are degrees of freedom, and the others follow. Where a
//! disturbance takes part in the constraints, some combination of variables is free, with the disturbance on top of it
//! [@gerdin2007, sec. 5], and no variable by itself: this is refused.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, Variable, VariableKind};
use daesy_graph::{Evaluator, ExprId, Span, VarId};
use daesy_integrate::{Direction, HybridStart, Inputs, start_tangents};
use daesy_structure::linearize::parameter_values;
use daesy_system::{DaeSystem, Input, Part};

use crate::data::Data;
use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::initial::{StartRule, apply_rule, highest_derivatives};
use crate::load::Loaded;
use crate::prepare::{Changing, DataUse, Purpose, prepare, start_time};
use crate::study::{InitialMode, Named, Quantity, QuantityValue, Study, UnknownParameter};

/// The name of what is one in a record and zero in the others.
#[must_use]
pub fn record_name(record: usize) -> String {
    format!("@record[{}]", record + 1)
}

/// The name of a start value that is unknown.
fn start_name(variable: &str, record: usize, n_records: usize) -> String {
    match n_records {
        1 => format!("start({variable})"),
        _ => format!("start({variable})[{}]", record + 1),
    }
}

/// A change of the start below this, relative to what it is by, is none.
const MOVED: f64 = 1e-9;

impl Loaded {
    /// The same with the start values of what is free among the unknowns, after those of the study; `None` where the
    /// study does not ask for an estimated start. `is_disturbed` says whether disturbances act.
    ///
    /// # Errors
    /// Diagnostics, where there is no consistent start to begin the search with, or nothing is free.
    pub fn with_unknown_starts(&self, is_disturbed: bool) -> Result<Option<Self>, Failure> {
        let Some(study) = self.study.as_ref().filter(|study| study.initial.mode == InitialMode::Estimate) else {
            return Ok(None);
        };
        let span = study.initial.mode_span.unwrap_or(Span::NONE);
        let refuse = |message: String, help: &str| {
            let finding = Finding::error("start-not-free", span, message).with_help(help);
            Failure::Input(vec![Diagnostic::resolve(&finding, &study.sources)])
        };
        let is_given = |flat: &FlatDae, var: VarId| {
            let name = &flat.variables[var.index()].name;
            study.initial.values.iter().any(|value| value.name == *name)
        };
        let highest = highest_derivatives(&self.flat);
        let wanted: Vec<VarId> = (0..self.flat.variables.len() as u32)
            .map(VarId)
            .filter(|&var| {
                let variable = &self.flat.variables[var.index()];
                variable.kind == VariableKind::Continuous && highest[var.index()] > 0 && !is_given(&self.flat, var)
            })
            .collect();
        if let Some(var) = wanted.iter().find(|var| highest[var.index()] > 1) {
            let name = &self.flat.variables[var.index()].name;
            let help =
                "give the first derivative a name by an equation `v = der(x)`, and write `der(v)` for the second one";
            return Err(refuse(format!("the start of der({name}), which is free, has no name of its own"), help));
        }
        // An executor knows the unknowns of the study itself.
        let mut changed = Self { elsewhere: None, ..self.clone() };
        apply_rule(&mut changed.flat, StartRule::Guesses, &is_given);
        let records: Vec<Data> = (0..self.n_experiments()).map(|at| self.experiment(at)).collect::<Result<_, _>>()?;
        let Granted { free, disturbance } = changed.clone().granted(&wanted, &records)?;
        if let Some(name) = disturbance.filter(|_| is_disturbed) {
            let message =
                format!("the disturbance `{name}` takes part in the start, where no variable is free by itself");
            let help =
                "take `method = \"output-error\"`, which leaves disturbances out, or give start values in `[initial]`";
            return Err(refuse(message, help));
        }
        if free.is_empty() {
            let message =
                "nothing is free at the start: constraints and values in `[initial]` determine all of it".to_owned();
            return Err(refuse(message, "leave `mode = \"estimate\"` out"));
        }
        if let Some(study) = &mut changed.study {
            study.initial.mode = InitialMode::Model;
            insert(&mut changed.flat, study, &free, &records, span);
        }
        changed.n_unknown_starts = free.len() * records.len();
        Ok(Some(changed))
    }

    /// Which of the variables have a start of their own, each with its value at the first start.
    fn granted(mut self, wanted: &[VarId], records: &[Data]) -> Result<Granted, Failure> {
        let flat = &mut self.flat;
        let mut wishes = Vec::with_capacity(wanted.len());
        for &var in wanted {
            let name = format!("@wish({})", flat.variables[var.index()].name);
            let start = flat.variables[var.index()].start.unwrap_or_else(|| flat.graph.number(0.0));
            wishes.push(name.clone());
            let wish = push_parameter(flat, name, start, Span::NONE);
            flat.variables[var.index()].start = Some(wish);
        }
        if let Some(study) = &mut self.study {
            study.initial.mode = InitialMode::Model;
        }
        let purpose = Purpose { changing: Changing::Varied, data: DataUse::Needed, ..Purpose::TRAJECTORY };
        let prepared = prepare(&self, purpose)?;
        let time = start_time(&self, records.first());
        let start = prepared.start(time).map_err(|error| {
            let help = "give start values in `[initial]` from which a consistent start can be found";
            vec![Diagnostic::error("no-consistent-start", error.to_string()).with_help(help)]
        })?;
        let row = prepared.observed(time, &start);
        let HybridStart { initialized, modes } = &start;
        let description = prepared.system.description();
        let mut inputs = vec![0.0; description.n_inputs];
        prepared.inputs.fill(time, true, &mut inputs);
        let mut free = Vec::new();
        for (&var, wish) in wanted.iter().zip(&wishes) {
            let Some(place) = description.parameters.iter().position(|name| name == wish) else { continue };
            let mut change = vec![0.0; description.parameters.len()];
            change[place] = 1.0;
            let directions = [Direction::Parameters(change)];
            let tangents = start_tangents(&prepared.system, initialized, time, &inputs, modes, &directions);
            let tangents =
                tangents.map_err(|error| vec![Diagnostic::error("no-consistent-start", error.to_string())])?;
            let moved = tangents.iter().flat_map(|tangent| tangent.states.iter().chain(&tangent.unknowns));
            if moved.into_iter().any(|moved| moved.abs() > MOVED) {
                let name = &self.flat.variables[var.index()].name;
                let at = description.observed.iter().position(|known| known == name);
                free.push((var, at.map_or(0.0, |at| row[at])));
            }
        }
        let columns: Vec<usize> = prepared.system.pattern(Part::ConstraintByInputs).entries().map(|it| it.1).collect();
        let is_disturbance = |name: &String| {
            let mut all = self.study.iter().flat_map(|study| &study.disturbances);
            all.any(|disturbance| disturbance.item.signals.contains(name))
        };
        let takes_part = |input: &&Input| {
            let mut own = input.start..=input.start + usize::from(input.derivatives_needed);
            is_disturbance(&input.name) && own.any(|slot| columns.contains(&slot))
        };
        let disturbance = description.inputs.iter().find(takes_part).map(|input| input.name.clone());
        Ok(Granted { free, disturbance })
    }
}

/// What is free at a start.
struct Granted {
    /// Variables with a start of their own, and their values at the first start.
    free: Vec<(VarId, f64)>,
    /// A disturbance that takes part in the constraints.
    disturbance: Option<String>,
}

/// Adds a parameter and gives what stands for it.
fn push_parameter(flat: &mut FlatDae, name: String, value: ExprId, span: Span) -> ExprId {
    let var = VarId(flat.variables.len() as u32);
    let mut parameter = Variable::new(name, VariableKind::Parameter, span);
    parameter.binding = Some(value);
    flat.variables.push(parameter);
    flat.graph.var(var)
}

/// Puts the unknown starts into model and study. A search begins where a record does, if that was measured, else where
/// the model says.
fn insert(flat: &mut FlatDae, study: &mut Study, free: &[(VarId, f64)], records: &[Data], span: Span) {
    let n_records = records.len();
    let weights: Vec<ExprId> = match n_records {
        1 => Vec::new(),
        _ => (0..n_records)
            .map(|record| {
                let value = flat.graph.number(f64::from(u8::from(record == 0)));
                push_parameter(flat, record_name(record), value, span)
            })
            .collect(),
    };
    let values = parameter_values(flat).unwrap_or_default();
    for &(var, value) in free {
        let variable = flat.variables[var.index()].clone();
        let measured = study.measurements.iter().find(|signal| signal.name == variable.name);
        let column = measured.map(|signal| signal.item.column.clone().unwrap_or_else(|| signal.name.clone()));
        let mut evaluator = Evaluator::new();
        let nominal = variable.nominal.map(|nominal| {
            evaluator
                .evaluate_one(&flat.graph, nominal, &|var: VarId, _: u16| {
                    values.get(var.index()).copied().unwrap_or(f64::NAN)
                })
                .abs()
        });
        let mut start = flat.graph.number(0.0);
        for (record, data) in records.iter().enumerate() {
            let first = column.as_deref().and_then(|column| first_value(data, column));
            let guess = first.unwrap_or(value);
            let name = start_name(&variable.name, record, n_records);
            let binding = flat.graph.number(guess);
            let own = push_parameter(flat, name.clone(), binding, span);
            if let Some(parameter) = flat.variables.last_mut() {
                parameter.unit.clone_from(&variable.unit);
                parameter.display_unit.clone_from(&variable.display_unit);
            }
            let number = |value: f64| Some(Quantity { value: QuantityValue::Number(value), span });
            let nominal = nominal.filter(|size| *size > 0.0 && size.is_finite()).and_then(number);
            let item = UnknownParameter { start: number(guess), min: None, max: None, nominal, prior: None };
            study.unknown.push(Named { name, span, item });
            start = match weights.get(record) {
                Some(&weight) => {
                    let part = flat.graph.mul(weight, own);
                    flat.graph.add(start, part)
                }
                None => own,
            };
        }
        let variable = &mut flat.variables[var.index()];
        variable.start = Some(start);
        variable.fixed = Some(true);
    }
}

/// The first value of a column.
fn first_value(data: &Data, column: &str) -> Option<f64> {
    data.column(column).and_then(|values| values.iter().copied().find(|value| value.is_finite()))
}
