//! From the file a user names to the flat model and the study.

mod apply;
mod classes;
mod connectors;
mod types;
mod unit_model;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use daesy_foreign::{ForeignError, Residence, Unit, Uses, flat_model, read_archive};
use daesy_graph::finding::{Finding, Level};
use daesy_graph::flat::{FlatDae, Variable, VariableKind};
use daesy_graph::{ExprId, Graph, Span, VarId};
use daesy_integrate::Method;
use daesy_model::file::{MAX_TEXT_BYTES, read_text};
use daesy_model::library::Library;
use daesy_structure::straighten::{ADDED, close_modes};
use daesy_system::Watch;

use self::apply::{apply_study, read_joint_samples};
use self::classes::{flatten_class, library_of_file, library_of_study, library_of_text, library_with};
use self::connectors::open_connectors;
use self::types::check_set;
use self::unit_model::{UnitModel, is_unit, numbers_of_starts, take_back_starts, unit_model};
use crate::data::Data;
use crate::diagnostic::Diagnostic;
use crate::distribute::Elsewhere;
use crate::expression::read_expression;
use crate::initial::apply_initial_mode;
use crate::prepare::start_time;
use crate::source::{ModelText, Place, Source, looked_for};
use crate::study::{InputSource, Named, Quantity, QuantityValue, Study, StudyModel, UnknownParameter, read_study};
use crate::table::Table;
use crate::{linear_model, presampling};

pub use self::classes::resolve_all;
pub use self::types::check_types;
pub(crate) use self::types::type_problem;

/// What a user asks for on the command line besides the file.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LoadOptions {
    /// `--set name=value`
    pub set: Vec<(String, f64)>,
    /// `--class`: which class of a Modelica file.
    pub class: Option<String>,
    /// Whether a unit of another tool may be run.
    pub native: Native,
}

/// What is done with the native code of a unit of another tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Native {
    /// It runs.
    #[default]
    Run,
    /// It is not needed: what the unit says of itself is enough.
    Describe,
    /// It must not run (`--no-native`).
    Forbidden,
}

/// A model with what is known about it.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The flat model, parameter values of the study and the command line put in.
    pub flat: FlatDae,
    /// The study, where the file is one.
    pub study: Option<Study>,
    /// The folder that paths in the study are relative to.
    pub folder: PathBuf,
    /// Warnings and notes so far.
    pub diagnostics: Vec<Diagnostic>,
    /// Data in memory, one table per experiment, used instead of the study's files. Read it by [`Loaded::experiment`].
    pub data: Vec<Table>,
    /// Long computations ask it whether to stop.
    pub watch: Watch,
    /// Who runs independent evaluations instead of this process.
    pub elsewhere: Option<Elsewhere>,
    /// The unit of another tool that the model is.
    pub unit: Option<Arc<Unit>>,
    /// How whoever asks wants it integrated, instead of what the study says.
    pub integration: Integration,
    /// How many of the study's unknowns, the last ones, are start values that it did not name itself.
    pub n_unknown_starts: usize,
}

impl Loaded {
    /// The same with errors that are divided by the `std` of their measurements. `None` where there is no study.
    #[must_use]
    pub fn with_weighed_errors(&self) -> Option<Self> {
        let mut changed = self.clone();
        changed.study.as_mut()?.identify.weighting = Some("std".to_owned());
        Some(changed)
    }

    /// The same with accuracies of measurements as unknowns: for each the position of the measurement, a name that is
    /// free, and the standard deviation to start from. `None` where there is no study, or a name is taken.
    #[must_use]
    pub fn with_unknown_accuracies(&self, asked: &[(usize, String, f64)]) -> Option<Self> {
        // An executor knows the unknowns of the study itself.
        let mut changed = Self { elsewhere: None, ..self.clone() };
        let study = changed.study.as_mut()?;
        for (at, name, start) in asked {
            let signal = study.measurements.get_mut(*at)?;
            if changed.flat.find(name).is_some() {
                return None;
            }
            let (span, number) =
                (signal.span, |value: f64| Quantity { value: QuantityValue::Number(value), span: signal.span });
            let unknown = UnknownParameter {
                start: Some(number(*start)),
                min: Some(number(0.0)),
                max: None,
                nominal: Some(number(*start)),
                prior: None,
            };
            signal.item.variance = None;
            signal.item.std = Some(Quantity { value: QuantityValue::Expression(name.clone()), span });
            study.unknown.push(Named { name: name.clone(), span, item: unknown });
            let binding = changed.flat.graph.number(*start);
            linear_model::add_parameter(&mut changed.flat, name, Some(binding), span);
        }
        Some(changed)
    }
}

/// How a simulation takes its steps; what is left out is as the study says.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Integration {
    /// The method.
    pub method: Option<Method>,
    /// The longest step.
    pub max_step: Option<f64>,
}

/// Reads a model or a study from wherever it is.
///
/// # Errors
/// All diagnostics, when something is wrong.
pub fn load_source(source: &Source, options: &LoadOptions) -> Result<Loaded, Vec<Diagnostic>> {
    let mut loaded = match &source.place {
        Place::File(path) => load_file(path, options)?,
        Place::Model(model) => {
            let library = library_of_text(model);
            load_model(&library, PathBuf::new(), options)?
        }
        Place::Study { name, text, folder, models } => load_study(name, text, folder, models, options)?,
    };
    loaded.data.clone_from(&source.data);
    loaded.finished()
}

/// Reads a Modelica file or a study.
///
/// # Errors
/// All diagnostics, when something is wrong.
pub fn load(path: &Path, options: &LoadOptions) -> Result<Loaded, Vec<Diagnostic>> {
    load_file(path, options)?.finished()
}

fn load_file(path: &Path, options: &LoadOptions) -> Result<Loaded, Vec<Diagnostic>> {
    let shown = path.display().to_string();
    let is_study = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("toml"));
    let is_modelica = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("mo")) || path.is_dir();
    if is_unit(path) {
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
        let UnitModel { flat, unit, notes } = unit_model(path, &options.set, &Uses::default(), options.native, None)?;
        check_set(&flat, &options.set)?;
        return Ok(Loaded { unit, ..Loaded::new(flat, None, folder, notes) });
    }
    if !is_study
        && !is_modelica
        && !path.exists()
        && let Some(library) = library_with(&shown)
    {
        let options = LoadOptions { class: Some(shown), ..options.clone() };
        return load_model(&library, PathBuf::new(), &options);
    }
    if !is_study && !is_modelica {
        return Err(vec![
            Diagnostic::about_file("file-kind", &shown, "a model ends in `.mo` or `.fmu` and a study in `.toml`")
                .with_help("rename the file, or name another one; a class is looked for in the built-in library and on MODELICAPATH"),
        ]);
    }
    let folder = path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    if is_modelica {
        return load_model(&library_of_file(path)?, folder, options);
    }
    let text = read_text(path, MAX_TEXT_BYTES)
        .map_err(|error| vec![Diagnostic::about_file("file", &shown, format!("`{shown}` cannot be read: {error}"))])?;
    load_study(&shown, &text, &folder, &[], options)
}

/// Reads the text of a study whose paths are relative to `folder`.
///
/// # Errors
/// All diagnostics, when something is wrong.
pub fn load_study_text(
    shown: &str,
    text: &str,
    folder: &Path,
    options: &LoadOptions,
) -> Result<Loaded, Vec<Diagnostic>> {
    load_study(shown, text, folder, &[], options)?.finished()
}

fn load_model(library: &Library, folder: PathBuf, options: &LoadOptions) -> Result<Loaded, Vec<Diagnostic>> {
    let flat =
        flatten_class(library, options.class.as_deref(), &options.set, &[]).map_err(|error| resolve_all(&error))?;
    check_set(&flat, &options.set)?;
    Ok(Loaded::new(flat, None, folder, Vec::new()))
}

fn load_study(
    shown: &str,
    text: &str,
    folder: &Path,
    models: &[ModelText],
    options: &LoadOptions,
) -> Result<Loaded, Vec<Diagnostic>> {
    let read = read_study(shown, text);
    let mut diagnostics: Vec<Diagnostic> =
        read.findings.iter().map(|finding| Diagnostic::resolve(finding, &read.sources)).collect();
    let Some(mut study) = read.study else { return Err(diagnostics) };
    let mut unit = None;
    let flat = match &study.model {
        StudyModel::Modelica(source) => {
            let mut values = values_of(&study, &options.set);
            let file = folder.join(&source.file);
            let given = models.iter().find(|model| Path::new(&model.name) == source.file);
            let class_name = source.file.display().to_string();
            let is_class = given.is_none() && !file.exists() && library_with(&class_name).is_some();
            if given.is_none() && !file.exists() && !is_class {
                let finding = Finding::error(
                    "model-file",
                    source.file_span,
                    format!("the model file `{}` does not exist", source.file.display()),
                )
                .with_help(looked_for(&file));
                diagnostics.push(Diagnostic::resolve(&finding, &read.sources));
                return Err(diagnostics);
            }
            if is_unit(&file) {
                let (starts, moved) = (starts_of(&study), moved_of(&study));
                let uses = Uses { starts: &starts, moved: Some(&moved) };
                values.extend(numbers_of_starts(&study));
                unit_model(&file, &values, &uses, options.native, Some(&study)).map(|model| {
                    unit = model.unit;
                    diagnostics.extend(model.notes);
                    model.flat
                })
            } else {
                let class = source.class.as_deref().or(is_class.then_some(class_name.as_str()));
                library_of_study(source, &file, given).and_then(|library| {
                    let moved = moved_of(&study);
                    let flat = flatten_class(&library, class, &values, &moved).or_else(|error| {
                        // Free symbols have no place in the model: they are given their values below.
                        let is_symbol = |name: &String| {
                            study.unknown.iter().any(|unknown| unknown.name == *name) || study.mentions(name)
                        };
                        let refused = &error.refused_values;
                        if refused.len() < error.findings.len() || !refused.iter().all(is_symbol) {
                            return Err(error);
                        }
                        values.retain(|(name, _)| !refused.contains(name));
                        flatten_class(&library, class, &values, &moved)
                    });
                    flat.map_err(|error| resolve_all(&error))
                })
            }
        }
        StudyModel::Linear(source) => {
            let names = study.unknown.iter().map(|unknown| unknown.name.clone()).collect::<Vec<_>>();
            linear_model::build(source, &study, &names, folder)
        }
    };
    let mut flat = flat.map_err(|mut errors| {
        place_in_study(&mut errors, &study);
        errors.splice(0..0, diagnostics.iter().cloned());
        errors
    })?;
    apply_all(&mut flat, &mut study, unit.is_some(), options, &mut diagnostics)?;
    read_joint_samples(&mut study, folder)?;
    Ok(Loaded { unit, ..Loaded::new(flat, Some(study), folder.to_path_buf(), diagnostics) })
}

/// Lets a study have its say about a model.
fn apply_all(
    flat: &mut FlatDae,
    study: &mut Study,
    is_unit: bool,
    options: &LoadOptions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(), Vec<Diagnostic>> {
    let findings = apply_study(flat, study, options);
    let has_error = findings.iter().any(|finding| finding.level == Level::Error);
    diagnostics.extend(findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)));
    if has_error {
        return Err(std::mem::take(diagnostics));
    }
    check_set(flat, &options.set)?;
    if is_unit {
        take_back_starts(flat, study);
    }
    apply_initial_mode(flat, study);
    Ok(())
}

/// Values of parameters that a study gives as numbers, then those that were asked for.
fn values_of(study: &Study, set: &[(String, f64)]) -> Vec<(String, f64)> {
    let number = |parameter: &Named<Quantity>| match parameter.item.value {
        QuantityValue::Number(value) => Some((parameter.name.clone(), value)),
        QuantityValue::Expression(_) => None,
    };
    study.parameters.iter().filter_map(number).chain(set.iter().cloned()).collect()
}

/// Variables whose start a study gives.
fn starts_of(study: &Study) -> Vec<String> {
    study.initial.values.iter().map(|value| value.name.clone()).collect()
}

/// Parameters that a study does not hold at a number: unknown, random, disturbed, computed from others, or such that may
/// jump.
fn moved_of(study: &Study) -> Vec<String> {
    let is_computed = |parameter: &&Named<Quantity>| matches!(parameter.item.value, QuantityValue::Expression(_));
    let computed = study.parameters.iter().filter(is_computed).map(|parameter| &parameter.name);
    let disturbed = study.disturbances.iter().flat_map(|disturbance| &disturbance.item.signals);
    let random = study.random.iter().map(|parameter| &parameter.name);
    let joint = study.joint.iter().flat_map(|joint| &joint.names).map(|parameter| &parameter.name);
    let faults = study.watch.faults.iter().map(|parameter| &parameter.name);
    let unknown = study.unknown.iter().map(|unknown| &unknown.name);
    unknown.chain(faults).chain(random).chain(joint).chain(disturbed).chain(computed).cloned().collect()
}

/// Findings about values that the study gives, and that the model has no place for, are about the study's lines.
fn place_in_study(errors: &mut [Diagnostic], study: &Study) {
    for error in errors.iter_mut().filter(|error| error.place.is_none()) {
        let given = study.parameters.iter().find(|parameter| error.names.contains(&parameter.name));
        if let Some(parameter) = given {
            let mut finding = Finding::error("wrong-value", parameter.span, error.message.clone());
            finding.help.clone_from(&error.help);
            let placed = Diagnostic::resolve(&finding.with_names(&error.names), &study.sources);
            *error = Diagnostic { code: std::mem::take(&mut error.code), ..placed };
        }
    }
}

impl Loaded {
    /// What every model gets at the end, wherever it came from: filters before samples, and values for what nothing
    /// determines in some modes, which is said.
    fn finished(mut self) -> Result<Self, Vec<Diagnostic>> {
        presampling::insert(&mut self)?;
        if let Some(closed) = close_modes(&self.flat) {
            let resolved = closed.findings.iter().map(|finding| Diagnostic::resolve(finding, &self.flat.sources));
            self.diagnostics.extend(resolved.collect::<Vec<_>>());
            self.flat = closed.flat;
        }
        Ok(self)
    }

    /// Whether the study gives a parameter a distribution.
    #[must_use]
    pub fn is_random(&self, name: &str) -> bool {
        self.study.as_ref().is_some_and(|study| study.random_names().any(|known| known == name))
    }

    /// A finding about the study, with its place there.
    #[must_use]
    pub fn in_study(&self, finding: &Finding) -> Diagnostic {
        match &self.study {
            Some(study) => Diagnostic::resolve(finding, &study.sources),
            None => Diagnostic::resolve(finding, &self.flat.sources),
        }
    }

    fn new(mut flat: FlatDae, study: Option<Study>, folder: PathBuf, mut diagnostics: Vec<Diagnostic>) -> Self {
        let open = open_connectors(&flat);
        flat.findings.extend(open);
        diagnostics.extend(flat.findings.iter().map(|finding| Diagnostic::resolve(finding, &flat.sources)));
        Self {
            flat,
            study,
            folder,
            diagnostics,
            data: Vec::new(),
            watch: Watch::default(),
            elsewhere: None,
            integration: Integration::default(),
            unit: None,
            n_unknown_starts: 0,
        }
    }

    /// A study of a unit of another tool, whose instances live in this process: from the bytes of its file, the text of
    /// the study and values that were set.
    ///
    /// # Errors
    /// All diagnostics, when something is wrong.
    pub fn joined_unit(bytes: Vec<u8>, text: &str, set: Vec<(String, f64)>) -> Result<Self, Vec<Diagnostic>> {
        let read = read_study("study", text);
        let mut told: Vec<Diagnostic> =
            read.findings.iter().map(|finding| Diagnostic::resolve(finding, &read.sources)).collect();
        let Some(mut study) = read.study else { return Err(told) };
        study.data = None;
        let options = LoadOptions { set, ..LoadOptions::default() };
        let refused = |error: ForeignError| vec![Diagnostic::error(error.code(), error.to_string())];
        let (archive, description) = read_archive(bytes).map_err(refused)?;
        let (starts, moved) = (starts_of(&study), moved_of(&study));
        let uses = Uses { starts: &starts, moved: Some(&moved) };
        let unit = Unit::open(&archive, description, &uses, Residence::Inside).map_err(refused)?;
        let unit = Arc::new(unit);
        let mut values = values_of(&study, &options.set);
        values.extend(numbers_of_starts(&study));
        let mut flat =
            flat_model(&unit, &values).map_err(|failure| vec![Diagnostic::error(failure.code, failure.message)])?;
        apply_all(&mut flat, &mut study, true, &options, &mut told)?;
        Self { unit: Some(unit), ..Self::new(flat, Some(study), PathBuf::new(), told) }.finished()
    }

    /// A model that was loaded for a study, with the text of that study, as they were.
    ///
    /// # Errors
    /// All diagnostics, when the text is no study.
    pub fn joined(flat: FlatDae, text: &str) -> Result<Self, Vec<Diagnostic>> {
        let read = read_study("study", text);
        let Some(mut study) = read.study else {
            return Err(read.findings.iter().map(|finding| Diagnostic::resolve(finding, &read.sources)).collect());
        };
        // Samples come one by one; there is no record.
        study.data = None;
        // What loading renamed in the study, the model shows by its names.
        for signal in study.disturbances.iter_mut().flat_map(|disturbance| &mut disturbance.item.signals) {
            let hidden = format!("{ADDED}{signal}");
            if flat.find(&hidden).is_some() {
                *signal = hidden;
            }
        }
        for measurement in &mut study.measurements {
            let last = presampling::last_lag(&measurement.name);
            measurement.item.variable = flat.find(&last).is_some().then_some(last);
        }
        Ok(Self::new(flat, Some(study), PathBuf::new(), Vec::new()))
    }

    /// What a study leaves open about the inputs of the model.
    #[must_use]
    pub fn open_inputs(&self) -> Vec<Diagnostic> {
        let open = self.held_inputs().into_iter().chain(self.inputs_before_records());
        open.chain(self.breaks_of_records()).collect()
    }

    /// A note for disturbances, where a single run or many without them stand for the motion: what they do is not in it.
    #[must_use]
    pub fn held_disturbances(&self) -> Option<Diagnostic> {
        let study = self.study.as_ref()?;
        let first = study.disturbances.first()?;
        let names: Vec<String> =
            study.disturbances.iter().map(|disturbance| format!("`{}`", disturbance.name)).collect();
        let message = match &names[..] {
            [one] => format!("the disturbance {one} is left out: the result is what happens without it"),
            _ => format!("the disturbances {} are left out: the result is what happens without them", names.join(", ")),
        };
        let note = Finding::note("disturbance-left-out", first.span, message)
            .with_names(study.disturbances.iter().map(|disturbance| &disturbance.name))
            .with_help("`estimate` and `identify` take them into account, `estimate --horizon` in predictions");
        Some(Diagnostic::resolve(&note, &study.sources))
    }

    /// A warning for each record that has a long break in which inputs are held.
    fn breaks_of_records(&self) -> Vec<Diagnostic> {
        let inputs = self.study.iter().flat_map(|study| &study.inputs);
        let read: Vec<&String> = inputs
            .filter_map(|input| matches!(input.item, InputSource::Column { .. }).then_some(&input.name))
            .collect();
        if read.is_empty() {
            return Vec::new();
        }
        let warning = |record: &Data| {
            let (row, times) = record.longest_break()?;
            let names: Vec<String> = read.iter().map(|name| format!("`{name}`")).collect();
            let message = format!(
                "there are no rows between {} (t = {}) and {} (t = {}), {times:.0} times as long as usual: in that time {} \
                 {} held or interpolated",
                record.row_text(row),
                record.times[row],
                record.row_text(row + 1),
                record.times[row + 1],
                names.join(", "),
                if names.len() == 1 { "is" } else { "are" },
            );
            let help = "if that is not what they were, split the file there and list the parts in `files = [..]`";
            let found = record.problem_at(row + 1, "data-break", message).with_help(help);
            Some(found.with_level(Level::Warning))
        };
        self.experiments().unwrap_or_default().iter().filter_map(warning).collect()
    }

    /// A warning where an experiment starts before the record that its inputs are read from.
    fn inputs_before_records(&self) -> Option<Diagnostic> {
        let study = self.study.as_ref()?;
        // Where nobody says, an experiment starts with its record.
        study.simulate.start.as_ref()?;
        study.inputs.iter().find(|input| matches!(input.item, InputSource::Column { .. }))?;
        let records = self.experiments().ok()?;
        let (record, start) = records
            .iter()
            .map(|record| (record, start_time(self, Some(record))))
            .find(|(record, start)| record.times.first().is_some_and(|first| start < first))?;
        let message = format!(
            "the experiment starts at t = {start}, before the first row of `{}` at t = {}: until then inputs have the \
             values of that row",
            record.file, record.times[0]
        );
        let warning = Finding::warning("input-before-record", Span::NONE, message)
            .with_help("take `start` out of `[simulate]`, or give the inputs from the start on");
        Some(Diagnostic::resolve(&warning, &study.sources))
    }

    /// A note for the inputs of the model that a study says nothing about: who forgets one asks about another
    /// experiment.
    fn held_inputs(&self) -> Option<Diagnostic> {
        let (flat, study) = (&self.flat, self.study.as_ref()?);
        let is_given = |name: &String| {
            study.input(name).is_some() || study.disturbances.iter().any(|given| given.item.signals.contains(name))
        };
        let inputs = flat.variables.iter().filter(|variable| variable.kind == VariableKind::Input);
        let held: Vec<&Variable> = inputs.filter(|variable| !is_given(&variable.name)).collect();
        if held.is_empty() {
            return None;
        }
        let value = |variable: &Variable| match variable.start.map(|start| flat.graph.as_number(start)) {
            None => "0".to_owned(),
            Some(Some(value)) => value.to_string(),
            Some(None) => "its start value".to_owned(),
        };
        let texts: Vec<String> = held.iter().take(8).map(|one| format!("`{}` at {}", one.name, value(one))).collect();
        let more = if held.len() > 8 { format!(" and {} more", held.len() - 8) } else { String::new() };
        let message = format!("inputs that the study does not give are held: {}{more}", texts.join(", "));
        let note = Finding::note("input-held", Span::NONE, message)
            .with_names(held.iter().map(|held| &held.name))
            .with_help("give them in `[inputs]`, or as `[disturbances]`, if they are not constant");
        Some(Diagnostic::resolve(&note, &study.sources))
    }
}

/// The expression a quantity of the study stands for, in a graph of the caller and in parameters and free symbols of
/// the flat model.
///
/// # Errors
/// Findings with places in the study.
pub fn quantity_expression(
    graph: &mut Graph,
    variables: &[Variable],
    quantity: &Quantity,
) -> Result<ExprId, Vec<Finding>> {
    match &quantity.value {
        QuantityValue::Number(value) => Ok(graph.number(*value)),
        QuantityValue::Expression(text) => {
            let is_allowed = |kind| matches!(kind, VariableKind::Parameter | VariableKind::Constant);
            let find =
                |name: &str| variables.iter().position(|variable| is_allowed(variable.kind) && variable.name == name);
            let mut resolve = |graph: &mut Graph, name: &str| find(name).map(|at| graph.var(VarId(at as u32)));
            let names = || {
                let known = variables.iter().filter(|variable| is_allowed(variable.kind));
                known.map(|variable| variable.name.clone()).collect()
            };
            read_expression(graph, text, quantity.span, &mut resolve, &names)
        }
    }
}
