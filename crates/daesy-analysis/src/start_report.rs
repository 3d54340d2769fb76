//! Where the values at the start of a simulation come from: insisted on, guessed and kept, or computed; and which had
//! to change.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, ValueType, VariableKind};
use daesy_graph::regular::{Derivative, RegularDae};
use daesy_graph::{Evaluator, ExprId, Node, UnaryOp, VarId};
use daesy_integrate::IntegrateError;
use daesy_structure::words::enumerate;
use daesy_system::DaeSystem as _;
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::{Map, Value, json};

use daesy_study::failure::Failure;
use daesy_study::load::Loaded;
use daesy_study::prepare::{DataUse, Prepared, Purpose, prepare, start_time};
use daesy_study::study::InitialMode;

/// A variable with its value at the start.
#[derive(Clone, PartialEq, Debug)]
pub struct StartValue {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
}

/// A start value that had to change.
#[derive(Clone, PartialEq, Debug)]
pub struct ChangedStart {
    /// The variable.
    pub name: String,
    /// As given.
    pub given: f64,
    /// As used.
    pub used: f64,
    /// What it is about.
    pub kind: ChangedKind,
}

/// What a value that had to change is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ChangedKind {
    /// A parameter that the start determines, though a value was given to it.
    Parameter,
    /// A variable whose derivative occurs in the model.
    Differential,
    /// Another variable.
    Other,
    /// A state without a `start`, which nothing determines.
    Free,
}

/// Why there is no start.
pub(crate) enum NoStart {
    /// The study leaves it open, or something other than the start is at fault.
    Open,
    /// No values satisfy the equations that are solved and all that is asked for at the start.
    Refused(Failure),
}

/// A start value counts as changed if it differs by more than this, relative to its size.
const CHANGED: f64 = 1e-9;

/// So many changed start values are told one by one, the others together.
const TOLD: usize = 20;

/// All variables at the start by where their values come from.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StartReport {
    /// `fixed = true`, or given by the study.
    pub fixed: Vec<StartValue>,
    /// Guesses (a `start`, or zero for a state) that could be kept.
    pub guessed: Vec<StartValue>,
    /// Everything that followed from the equations.
    pub derived: Vec<StartValue>,
    /// Variables that do not start where their `start` says.
    pub changed: Vec<ChangedStart>,
    /// Parameters with the values that were used, computed ones included.
    pub parameters: Vec<(String, Value)>,
}

/// Which variables are states, under their own names or as derivatives that they were defined to be.
struct States<'m> {
    regular: &'m RegularDae,
    states: FxHashSet<Derivative>,
    eliminated: FxHashMap<VarId, ExprId>,
}

impl<'m> States<'m> {
    fn new(regular: &'m RegularDae) -> Self {
        Self {
            regular,
            states: regular.states.iter().copied().collect(),
            eliminated: regular.eliminated.iter().map(|eliminated| (eliminated.var, eliminated.value)).collect(),
        }
    }

    fn contains(&self, var: VarId) -> bool {
        let graph = &self.regular.flat.graph;
        let is_state = |var: VarId, order: u16| self.states.contains(&Derivative { var, order });
        match self.eliminated.get(&var).map(|&value| graph.node(value)) {
            None => is_state(var, 0),
            Some(Node::Var { var, order: order @ 1.. }) => is_state(var, order),
            Some(Node::Unary { op: UnaryOp::Neg, arg }) => {
                matches!(graph.node(arg), Node::Var { var, order: order @ 1.. } if is_state(var, order))
            }
            Some(_) => false,
        }
    }
}

impl StartReport {
    /// Sorts the values of the first row of a table with the given names; `parameters` are those of the start.
    #[must_use]
    pub fn new(flat: &FlatDae, prepared: &Prepared, parameters: &[f64], names: &[String], row: &[f64]) -> Self {
        let regular = prepared.system.regular();
        let mut by_variable = vec![0.0; flat.variables.len()];
        for (&var, &value) in regular.parameters.iter().zip(parameters) {
            if let Some(place) = by_variable.get_mut(var.index()) {
                *place = value;
            }
        }
        let environment = |var: VarId, _: u16| by_variable.get(var.index()).copied().unwrap_or(0.0);
        let mut evaluator = Evaluator::new();
        let states = States::new(regular);
        let found: FxHashSet<VarId> = regular.differentiated.iter().copied().collect();
        // Of a rewritten model the equations that were written say it.
        let written_order = |var: VarId| regular.flat.variables.get(var.index()).and_then(|it| it.written_order);
        let is_differential = |var: VarId| match written_order(var) {
            Some(order) => order > 0,
            None => found.contains(&var),
        };
        let differentiated: FxHashSet<VarId> =
            (0..flat.variables.len() as u32).map(VarId).filter(|&var| is_differential(var)).collect();
        let used = used_parameters(flat, &by_variable);
        let mut report = Self { parameters: used, ..Self::default() };
        report.changed = changed_parameters(flat, prepared, parameters);
        let mut values = names.iter().zip(row);
        let is_foreign = flat.graph.calls_foreign();
        let mut moved = Vec::new();
        for (at, variable) in flat.variables.iter().enumerate() {
            if variable.kind != VariableKind::Continuous || variable.is_hidden() {
                continue;
            }
            // Both lists are in the order of the flat model.
            let Some((name, &value)) = values.find(|(name, _)| **name == variable.name) else { break };
            let var = VarId(at as u32);
            let start = variable.start.map(|start| evaluator.evaluate_one(&flat.graph, start, &environment));
            let has_default = written_order(var).map_or_else(|| states.contains(var), |order| order > 0);
            let guess = start.or_else(|| has_default.then_some(0.0));
            let nominal =
                variable.nominal.map_or(1.0, |it| evaluator.evaluate_one(&flat.graph, it, &environment).abs());
            let is_same = |given: f64| {
                let size = if given == 0.0 { nominal } else { given.abs() };
                (given - value).abs() <= CHANGED * size
            };
            let list = if variable.fixed == Some(true) {
                &mut report.fixed
            } else if guess.is_some_and(is_same) {
                &mut report.guessed
            } else {
                &mut report.derived
            };
            list.push(StartValue { name: name.clone(), value });
            if variable.fixed != Some(true) && start.is_none() && guess.is_some_and(|guess| !is_same(guess)) {
                let kind = ChangedKind::Free;
                moved.push(ChangedStart { name: name.clone(), given: 0.0, used: value, kind });
            }
            // What a type says, such as 288.15 K of a temperature, is a guess that nobody made for this variable.
            // A unit of another tool computes its start: what its description says is a guess too, and what a study says
            // is not.
            let is_told = !variable.is_start_of_type || !is_foreign && differentiated.contains(&var);
            if let Some(given) = start.filter(|&given| is_told && !is_same(given)) {
                let kind = if differentiated.contains(&var) { ChangedKind::Differential } else { ChangedKind::Other };
                report.changed.push(ChangedStart { name: name.clone(), given, used: value, kind });
            }
        }
        if report.fixed.len() + report.guessed.len() < n_free(flat, prepared) {
            report.changed.extend(moved);
        }
        report
    }

    /// Where all experiments of a study start, as every verb starts them, at other values of some parameters; the
    /// values are those of the first experiment, with what changes in any. `None` where the study estimates its start,
    /// or has none: whoever needs it says why.
    #[must_use]
    pub fn of_study(loaded: &Loaded, given: &[(VarId, f64)]) -> Option<Self> {
        Self::of_solved(loaded, given).ok()
    }

    /// The same, or why there is no start.
    pub(crate) fn of_solved(loaded: &Loaded, given: &[(VarId, f64)]) -> Result<Self, NoStart> {
        let mode = loaded.study.as_ref().map(|study| study.initial.mode);
        if matches!(mode, Some(InitialMode::Estimate | InitialMode::Diffuse)) {
            return Err(NoStart::Open);
        }
        let purpose = Purpose { data: DataUse::Optional, ..Purpose::SIMULATION };
        let mut prepared = prepare(loaded, purpose).map_err(|failure| {
            let is_of_start = failure.diagnostics().iter().any(|one| one.code == "special-start");
            if is_of_start { NoStart::Refused(failure) } else { NoStart::Open }
        })?;
        prepared.parameters = prepared.parameters_at(given).map_err(|_| NoStart::Open)?;
        let mut all: Option<Self> = None;
        let n_experiments = if loaded.has_data() { loaded.n_experiments() } else { 0 };
        for experiment in 0..n_experiments.max(1) {
            if n_experiments > 0 {
                prepared.use_experiment(loaded, experiment).map_err(|_| NoStart::Open)?;
            }
            let time = start_time(loaded, prepared.data.as_deref());
            let start = prepared.start(time).map_err(|error| match error {
                IntegrateError::NoConsistentStart { .. } => NoStart::Refused(prepared.failure(&error)),
                _ => NoStart::Open,
            })?;
            let row = prepared.observed(time, &start);
            let names = &prepared.system.description().observed;
            let report = Self::new(&loaded.flat, &prepared, &start.initialized.parameters, names, &row);
            match &mut all {
                None => all = Some(report),
                Some(all) => all.add_changed(report.changed),
            }
        }
        all.ok_or(NoStart::Open)
    }

    /// Adds start values that had to change elsewhere.
    fn add_changed(&mut self, changed: Vec<ChangedStart>) {
        let known: FxHashSet<String> = self.changed.iter().map(|changed| changed.name.clone()).collect();
        self.changed.extend(changed.into_iter().filter(|changed| !known.contains(&changed.name)));
    }

    /// What is to be told about start values that had to change: one finding each, where there are not too many.
    #[must_use]
    pub fn findings(&self, flat: &FlatDae) -> Vec<Finding> {
        let mut changed: Vec<&ChangedStart> = self.changed.iter().collect();
        changed.sort_by_key(|changed| changed.kind);
        let mut findings: Vec<Finding> = changed.iter().take(TOLD).map(|changed| finding(flat, changed)).collect();
        if let Some(others) = changed.get(TOLD..).filter(|others| !others.is_empty()) {
            let names: Vec<&str> = others.iter().map(|changed| changed.name.as_str()).collect();
            let message = format!(
                "{} more variables do not start where their `start` says: {}",
                names.len(),
                enumerate(&names, TOLD)
            );
            let note = Finding::note("start-changed", daesy_graph::Span::NONE, message);
            findings.push(note.with_names(names.iter().copied()));
        }
        findings
    }

    /// The parameters by name.
    #[must_use]
    pub fn parameters_to_json(&self) -> Value {
        Value::Object(self.parameters.iter().cloned().collect())
    }

    /// The object of the JSON document.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let object = |values: &[StartValue]| -> Map<String, Value> {
            values.iter().map(|value| (value.name.clone(), json!(value.value))).collect()
        };
        json!({
            "fixed": object(&self.fixed),
            "guessed": object(&self.guessed),
            "derived": object(&self.derived),
            "changed": changed_to_json(&self.changed),
        })
    }

    /// One line for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        format!(
            "Start: {} fixed, {} guessed and kept, {} derived.\n",
            self.fixed.len(),
            self.guessed.len(),
            self.derived.len()
        )
    }
}

/// Parameters that were given a value, and have another because the start determines them (`fixed = false`).
fn changed_parameters(flat: &FlatDae, prepared: &Prepared, used: &[f64]) -> Vec<ChangedStart> {
    let values = prepared.parameters.iter().zip(used);
    let changed = prepared.system.regular().parameters.iter().zip(values).filter_map(|(&var, (&given, &used))| {
        let variable = flat.variables.get(var.index())?;
        let is_given = variable.fixed == Some(false) && variable.binding.is_some();
        let size = if given == 0.0 { 1.0 } else { given.abs() };
        let has_changed = is_given && (given - used).abs() > CHANGED * size;
        let kind = ChangedKind::Parameter;
        has_changed.then(|| ChangedStart { name: variable.name.clone(), given, used, kind })
    });
    changed.collect()
}

/// Parameters of a model with the values that were used.
fn used_parameters(flat: &FlatDae, values: &[f64]) -> Vec<(String, Value)> {
    let parameters = flat
        .variables
        .iter()
        .zip(values)
        .filter(|(variable, _)| variable.kind == VariableKind::Parameter && !variable.is_hidden());
    parameters
        .map(|(variable, &value)| {
            let shown = match variable.value_type {
                ValueType::Boolean => json!(value != 0.0),
                ValueType::String => json!(variable.text.as_deref()),
                _ => variable.wide_integer(&flat.graph).map_or_else(|| json!(value), |number| json!(number)),
            };
            (variable.name.clone(), shown)
        })
        .collect()
}

/// How many values of states the equations leave free at the start, at least: there are that many wishes that could
/// hold. Where fewer do, some were moved though nothing asks for it but an equation without a value, as 0/0.
fn n_free(flat: &FlatDae, prepared: &Prepared) -> usize {
    let description = prepared.system.description();
    let n_determined = description.constraints.len() + flat.initial_equations.len();
    let n_free = prepared.system.regular().verdict.degrees_of_freedom.saturating_sub(flat.initial_equations.len());
    description.states.len().saturating_sub(n_determined).min(n_free)
}

/// By name the value given and the value used.
#[must_use]
pub fn changed_to_json(changed: &[ChangedStart]) -> Map<String, Value> {
    changed.iter().map(|changed| (changed.name.clone(), json!([changed.given, changed.used]))).collect()
}

/// What is to be told about a start value that had to change.
fn finding(flat: &FlatDae, changed: &ChangedStart) -> Finding {
    let ChangedStart { name, given, used, kind } = changed;
    let span = flat.find(name).map_or(daesy_graph::Span::NONE, |var| flat.variables[var.index()].span);
    let message = format!("`{name}` starts at {used}, not at {given} as its `start` says");
    let finding = match kind {
        ChangedKind::Parameter => {
            let message =
                format!("the start determines the parameter `{name}`: it is {used}, not {given} as was given");
            Finding::warning("start-changed", span, message)
                .with_help("take back `fixed = false`, or the value, which is only a guess")
        }
        ChangedKind::Differential => Finding::warning("start-changed", span, message).with_help(
            "the equations and the start values that count more determine it: take one of those back, or this one",
        ),
        ChangedKind::Free => {
            let message = format!(
                "`{name}` starts at {used}: nothing determines its start, and the equations have no solution at 0"
            );
            Finding::warning("start-changed", span, message).with_help("give it a `start` with `fixed = true`")
        }
        ChangedKind::Other => Finding::note("start-changed", span, message)
            .with_help("the equations and the start values that count more determine it: its `start` was a guess"),
    };
    finding.with_names([name])
}
