//! From the file a user names to the flat model and the study.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use daesy_foreign::description::{Scalar, ScalarType, UnitDescription};
use daesy_foreign::unit::start_name;
use daesy_foreign::{ForeignError, Residence, Unit, Uses, described, flat_model, read_archive, read_description};
use daesy_graph::finding::{Finding, Level, nearest};
use daesy_graph::flat::{Equation, FlatDae, LARGEST_INTEGER, Origin, ValueType, Variable, VariableKind, WhenAction};
use daesy_graph::print::number_text;
use daesy_graph::{ExprId, Graph, Leaf, Node, Reach, Span, VarId};
use daesy_integrate::Method;
use daesy_model::file::{MAX_TEXT_BYTES, read_text};
use daesy_model::flatten::{FlattenError, FlattenOptions, flatten_library};
use daesy_model::library::Library;
use daesy_model::name::Name;
use daesy_model::parser::parse;
use daesy_model::syntax::{ClassBody, ClassDef, ElementKind};
use daesy_structure::straighten::{ADDED, close_modes};
use daesy_system::Watch;
use rustc_hash::FxHashSet;

use crate::data::{Data, Reading, TimeAxis};
use crate::diagnostic::Diagnostic;
use crate::distribute::Elsewhere;
use crate::embedded;
use crate::expression::read_expression;
use crate::initial::apply_initial_mode;
use crate::linear_model;
use crate::prepare::start_time;
use crate::presampling;
use crate::source::{ModelText, Place, Source, looked_for};
use crate::study::{
    InputSource, ModelSource, Named, Quantity, QuantityValue, Study, StudyModel, UnknownParameter, read_study,
};
use crate::table::Table;
use crate::varying::vary_parameters;

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

fn is_unit(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("fmu"))
}

/// A unit of another tool as a model.
struct UnitModel {
    flat: FlatDae,
    unit: Option<Arc<Unit>>,
    notes: Vec<Diagnostic>,
}

fn unit_model(
    path: &Path,
    values: &[(String, f64)],
    uses: &Uses<'_>,
    native: Native,
    study: Option<&Study>,
) -> Result<UnitModel, Vec<Diagnostic>> {
    let shown = path.display().to_string();
    let refused = |error: ForeignError| {
        vec![Diagnostic::about_file(error.code(), &shown, error.to_string()).with_help(error.help())]
    };
    let (archive, description) = read_description(path).map_err(refused)?;
    match native {
        Native::Describe => {
            return Ok(UnitModel { flat: described(&description, values), unit: None, notes: Vec::new() });
        }
        Native::Forbidden => return Err(refused(ForeignError::Forbidden)),
        Native::Run => {}
    }
    let unit = Arc::new(Unit::open(&archive, description, uses, Residence::Apart).map_err(refused)?);
    drop(archive);
    if let Some(study) = study {
        let wrong = values_of_unit(unit.description(), study);
        if !wrong.is_empty() {
            return Err(wrong.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)).collect());
        }
    }
    let flat = flat_model(&unit, values).map_err(|failure| {
        vec![Diagnostic::about_file(failure.code, &shown, failure.message).with_help(failure.help)]
    })?;
    let tool = unit.description().tool.as_deref().map_or_else(String::new, |tool| format!(" (made by {tool})"));
    let message = format!("the model is third-party native code{tool}, which ran in processes of its own");
    let mut note = Diagnostic::about_file("foreign-code", &shown, message).with_level(Level::Note);
    note = note.with_help("run units of people you trust only; `--no-native` forbids it");
    let mut notes = vec![note];
    for remark in unit.remarks() {
        let told = Diagnostic::about_file(remark.code, &shown, remark.message).with_level(Level::Warning);
        notes.push(told.with_help(remark.help));
    }
    Ok(UnitModel { flat, unit: Some(unit), notes })
}

/// Start values that a study gives as numbers, by the names of the parameters that hold them.
fn numbers_of_starts(study: &Study) -> Vec<(String, f64)> {
    let number = |value: &Named<Quantity>| match value.item.value {
        QuantityValue::Number(number) => Some((start_name(&value.name), number)),
        QuantityValue::Expression(_) => None,
    };
    study.initial.values.iter().filter_map(number).collect()
}

fn no_boolean(value: &Named<Quantity>) -> Finding {
    let message = format!("`{}` is no Boolean and cannot be true or false", value.name);
    Finding::error("wrong-type", value.item.span, message).with_names([&value.name])
}

/// Findings about values that variables of a unit cannot have.
fn values_of_unit(description: &UnitDescription, study: &Study) -> Vec<Finding> {
    let given = study.parameters.iter().chain(&study.initial.values);
    let problem = |value: &Named<Quantity>| {
        let QuantityValue::Number(number) = value.item.value else { return None };
        let is_boolean = |scalar: &Scalar| scalar.name == value.name && scalar.block.scalar_type == ScalarType::Boolean;
        if study.initial.truths.contains(&value.name) && !description.scalars.iter().any(is_boolean) {
            return Some(no_boolean(value));
        }
        let message = description.value_problem(&value.name, number)?;
        Some(Finding::error("wrong-type", value.item.span, message).with_names([&value.name]))
    };
    given.filter_map(problem).collect()
}

/// Start values that a study gives are set in the unit before it is initialized, or after that where they are of states
/// that it computes; what the unit makes of them is where it starts.
fn take_back_starts(flat: &mut FlatDae, study: &Study) {
    for value in &study.initial.values {
        let (parameter, variable) = (flat.find(&start_name(&value.name)), flat.find(&value.name));
        if let (Some(parameter), Some(variable)) = (parameter, variable) {
            flat.variables[parameter.index()].binding = flat.variables[variable.index()].start;
            let variable = &mut flat.variables[variable.index()];
            (variable.fixed, variable.is_start_of_type) = (None, false);
        }
    }
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

/// A warning about connectors of the model's components that are connected to nothing. An open flange or port is the
/// end of a shaft or a wall, unless all of its component are open; an open pin is mostly a connection that was
/// forgotten.
fn open_connectors(flat: &FlatDae) -> Option<Finding> {
    const MOST_SHOWN: usize = 8;
    let connector_of = |side: ExprId| match flat.graph.node(side) {
        Node::Var { var, .. } => {
            let variable = &flat.variables[var.index()];
            // Deeper ones belong to the components of others.
            let (connector, _) = variable.name.rsplit_once('.').filter(|_| variable.name.matches('.').count() == 2)?;
            Some((connector, variable.unit.as_ref().is_some_and(|unit| &*unit.text == "A")))
        }
        _ => None,
    };
    let component = |connector: &str| connector.split('.').next().map(str::to_owned);
    let mut joined: FxHashSet<String> = FxHashSet::default();
    let of_origin = |origin: Origin| flat.equations.iter().filter(move |equation| equation.origin == origin);
    for equation in of_origin(Origin::Connection) {
        let ends = [equation.lhs, equation.rhs].into_iter().filter_map(connector_of);
        joined.extend(ends.filter_map(|(connector, _)| component(connector)));
    }
    if joined.is_empty() {
        return None;
    }
    let mut open: Vec<&str> = Vec::new();
    for equation in of_origin(Origin::UnconnectedFlow) {
        let Some((connector, is_pin)) = connector_of(equation.lhs) else { continue };
        let is_alone = component(connector).is_some_and(|component| !joined.contains(&component));
        if (is_pin || is_alone) && !open.contains(&connector) {
            open.push(connector);
        }
    }
    let &first = open.first()?;
    let span = declaration_of(flat, first.split('.').next()?).unwrap_or(Span::NONE);
    let shown: Vec<String> = open.iter().take(MOST_SHOWN).map(|one| format!("`{one}`")).collect();
    let more = if open.len() > MOST_SHOWN { format!(" and {} more", open.len() - MOST_SHOWN) } else { String::new() };
    let (verb, whose) = if open.len() == 1 { ("is", "its flow is") } else { ("are", "their flows are") };
    let message = format!("{}{more} {verb} connected to nothing: {whose} 0", shown.join(", "));
    let finding = Finding::warning("unconnected", span, message).with_names(open.iter().copied());
    Some(finding.with_help(format!("connect it, such as by `connect({first}, ..)`, unless this is meant")))
}

/// Where a component of the model is declared, as far as that is in the file of its connections.
fn declaration_of(flat: &FlatDae, component: &str) -> Option<Span> {
    let file = flat.equations.iter().find(|equation| equation.origin == Origin::Connection)?.span.file;
    let text = &flat.sources.file(file)?.text;
    let name = flat.model.rsplit('.').next()?;
    let definition = parse(file, text).definition;
    definition.classes.iter().find_map(|class| declared_in(class, name, component))
}

fn declared_in(class: &ClassDef, name: &str, component: &str) -> Option<Span> {
    let ClassBody::Long { composition, .. } = &class.body else { return None };
    composition.elements.iter().find_map(|element| match &element.kind {
        ElementKind::Component { component: declared, .. } => {
            let is_it = class.name.name.text() == name && declared.name.name.text() == component;
            is_it.then_some(declared.name.span)
        }
        ElementKind::Class { class, .. } => declared_in(class, name, component),
        _ => None,
    })
}

/// A library with the file, what `MODELICAPATH` names, and daesy's own components.
fn library_of_file(path: &Path) -> Result<Library, Vec<Diagnostic>> {
    let shown = path.display().to_string();
    let mut library = Library::with_embedded(embedded::FILES);
    library
        .add_path(path)
        .map_err(|error| vec![Diagnostic::about_file("file", &shown, format!("`{shown}` cannot be read: {error}"))])?;
    library.use_modelica_path();
    Ok(library)
}

/// The library that a full class name belongs to, where it knows its first part: the built-in one, or one on
/// `MODELICAPATH`.
fn library_with(class: &str) -> Option<Library> {
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
    };
    if !class.split('.').all(is_name) {
        return None;
    }
    let mut library = Library::with_embedded(embedded::FILES);
    library.use_modelica_path();
    let first = Name::new(class.split('.').next()?);
    library.find_top(first).is_some().then_some(library)
}

/// The same with a text instead of a file.
fn library_of_text(model: &ModelText) -> Library {
    let mut library = Library::with_embedded(embedded::FILES);
    library.add_text(&model.name, &model.text);
    library.use_modelica_path();
    library
}

/// The library that a study's model is in: a given text, a file, or classes that are installed.
fn library_of_study(source: &ModelSource, path: &Path, given: Option<&ModelText>) -> Result<Library, Vec<Diagnostic>> {
    match given {
        Some(model) => Ok(library_of_text(model)),
        None if path.exists() => library_of_file(path),
        None => library_with(&source.file.display().to_string()).map_or_else(|| library_of_file(path), Ok),
    }
}

fn flatten_class(
    library: &Library,
    class: Option<&str>,
    values: &[(String, f64)],
    moved: &[String],
) -> Result<FlatDae, FlattenError> {
    let mut options = FlattenOptions::default();
    (options.values, options.moved) = (values.iter().cloned().collect(), moved.to_vec());
    flatten_library(library, class, &options)
}

/// The diagnostics of a model that was refused.
#[must_use]
pub fn resolve_all(error: &FlattenError) -> Vec<Diagnostic> {
    error.findings.iter().map(|finding| Diagnostic::resolve(finding, &error.sources)).collect()
}

/// That a parameter which must be able to take all values of an interval is no Real.
fn no_real(variable: &Variable, span: Span, what: &str) -> Option<Finding> {
    let kind = match &variable.value_type {
        ValueType::Real => return None,
        ValueType::Integer => "an Integer",
        ValueType::Boolean => "a Boolean",
        ValueType::Enumeration(_) => "of an enumeration",
        ValueType::String => "a String",
    };
    let message =
        format!("`{}` is {kind} and cannot be {what}: values between those of its type mean nothing", variable.name);
    let help = "give its value in `[parameters]`, and compare studies with different ones";
    Some(Finding::error("wrong-type", span, message).with_names([&variable.name]).with_help(help))
}

/// Why a parameter cannot have a value: its type has no such value.
pub(crate) fn type_problem(variable: &Variable, value: f64) -> Option<String> {
    let name = &variable.name;
    let is_whole = value.fract() == 0.0;
    match &variable.value_type {
        ValueType::Integer if !is_whole => Some(format!("`{name}` is an Integer and cannot be {value}")),
        ValueType::Integer if value.abs() > LARGEST_INTEGER => Some(format!(
            "`{name}` is an Integer and cannot be {}: it is set to at most {LARGEST_INTEGER} in magnitude, and larger \
             ones are exact where the model gives them",
            number_text(value)
        )),
        ValueType::Boolean if value != 0.0 && value != 1.0 => {
            Some(format!("`{name}` is a Boolean and cannot be {value}: 0 is false, 1 is true"))
        }
        ValueType::Enumeration(enumeration)
            if !is_whole || value < 1.0 || value > enumeration.literals.len() as f64 =>
        {
            let literals: Vec<String> = enumeration
                .literals
                .iter()
                .enumerate()
                .map(|(at, literal)| format!("{} is {literal}", at + 1))
                .collect();
            Some(format!(
                "`{name}` is of the type `{}` and cannot be {value}: {}",
                enumeration.name,
                literals.join(", ")
            ))
        }
        ValueType::String => Some(format!("`{name}` is a String and cannot be given a number")),
        _ => None,
    }
}

/// Values given with `--set` must be values of the parameters' types.
///
/// # Errors
/// A diagnostic for each that is not.
pub fn check_types(loaded: &Loaded, set: &[(String, f64)]) -> Result<(), Vec<Diagnostic>> {
    let problem = |(name, value): &(String, f64)| {
        let variable = &loaded.flat.variables[loaded.flat.find(name)?.index()];
        let of_unit = || loaded.unit.as_ref().and_then(|unit| unit.description().value_problem(name, *value));
        let message = type_problem(variable, *value).or_else(of_unit)?;
        let mut diagnostic = Diagnostic::error("set", format!("--set: {message}"));
        diagnostic.names = vec![name.clone()];
        Some(diagnostic)
    };
    let diagnostics: Vec<Diagnostic> = set.iter().filter_map(problem).collect();
    if diagnostics.is_empty() { Ok(()) } else { Err(diagnostics) }
}

/// Names given with `--set` must be parameters that may be changed.
fn check_set(flat: &FlatDae, set: &[(String, f64)]) -> Result<(), Vec<Diagnostic>> {
    let mut diagnostics = Vec::new();
    for (name, _) in set {
        let problem = match flat.find(name).map(|var| &flat.variables[var.index()]) {
            Some(variable) if variable.kind != VariableKind::Parameter => {
                Some((format!("`{name}` is not a parameter"), None))
            }
            Some(variable) if variable.is_final => Some((format!("`{name}` is final and cannot be changed"), None)),
            Some(_) => None,
            None => {
                let known = flat.variables.iter().filter(|variable| variable.kind == VariableKind::Parameter);
                let near = nearest(name, known.map(|variable| variable.name.as_str()));
                Some((format!("the model has no parameter `{name}`"), near.map(str::to_owned)))
            }
        };
        if let Some((message, near)) = problem {
            let mut diagnostic = Diagnostic::error("set", format!("--set: {message}"));
            diagnostic.names = vec![name.clone()];
            diagnostic.help = near.map(|near| format!("did you mean `{near}`?"));
            diagnostics.push(diagnostic);
        }
    }
    if diagnostics.is_empty() { Ok(()) } else { Err(diagnostics) }
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

/// Reads the samples of `[random.joint]`.
fn read_joint_samples(study: &mut Study, folder: &Path) -> Result<(), Vec<Diagnostic>> {
    let Some(joint) = &mut study.joint else { return Ok(()) };
    let Some(samples) = &joint.samples else { return Ok(()) };
    let path = folder.join(&samples.file);
    let shown = path.display().to_string();
    let wanted: Vec<String> = joint.names.iter().map(|name| name.name.clone()).collect();
    let axis = TimeAxis::Step(1.0);
    let data = Data::read(&path, &shown, &Reading { wanted: Some(&wanted), ..Reading::plain(&axis) })?;
    let wrong = |message: String, help: &str| {
        Err(vec![Diagnostic::about_file("joint-samples", &shown, message).with_help(help)])
    };
    let mut columns = Vec::new();
    for name in &wanted {
        let Some(column) = data.column(name) else {
            return wrong(
                format!("the samples have no column `{name}`"),
                &format!("columns: {}", data.names.join(", ")),
            );
        };
        columns.push(column);
    }
    let rows: Vec<Vec<f64>> =
        (0..data.times.len()).map(|row| columns.iter().map(|column| column[row]).collect()).collect();
    if rows.iter().flatten().any(|value| !value.is_finite()) {
        return wrong("a sample has no value".to_owned(), "every row needs a number for each of the names");
    }
    if !joint.set_rows(rows) {
        return wrong(
            "the samples have no covariance".to_owned(),
            "two rows at least are needed, with different values",
        );
    }
    Ok(())
}

/// Puts the study's values into the model and checks every name it uses.
fn apply_study(flat: &mut FlatDae, study: &mut Study, options: &LoadOptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Values that the model has no place for, but expressions of the study do, are free symbols.
    for parameter in &study.parameters {
        if flat.find(&parameter.name).is_none() && study.mentions(&parameter.name) {
            linear_model::add_parameter(flat, &parameter.name, None, parameter.span);
        }
    }
    // Unknowns that are no parameters of the model are free symbols for expressions.
    for unknown in &study.unknown {
        match flat.find(&unknown.name) {
            None if study.mentions(&unknown.name) => {
                linear_model::add_parameter(flat, &unknown.name, None, unknown.span);
            }
            None => findings.push(idle_unknown(flat, study, &unknown.name, unknown.span)),
            Some(var) if flat.variables[var.index()].kind != VariableKind::Parameter => {
                findings.push(not_a(flat, &unknown.name, unknown.span, "parameter"));
            }
            Some(var) if flat.variables[var.index()].is_final => findings.push(
                Finding::error("final", unknown.span, format!("`{}` is final and cannot be unknown", unknown.name))
                    .with_names([&unknown.name]),
            ),
            Some(var) => findings.extend(no_real(&flat.variables[var.index()], unknown.span, "unknown")),
        }
    }
    for unknown in &study.unknown {
        if let Some((_, value)) = options.set.iter().find(|(name, _)| *name == unknown.name) {
            if let Some(var) = flat.find(&unknown.name) {
                let value = flat.graph.number(*value);
                flat.variables[var.index()].binding = Some(value);
            }
            continue;
        }
        if let (Some(start), Some(var)) = (&unknown.item.start, flat.find(&unknown.name)) {
            match quantity_expression(&mut flat.graph, &flat.variables, start) {
                Ok(value) => flat.variables[var.index()].binding = Some(value),
                Err(errors) => findings.extend(errors),
            }
        }
    }
    for parameter in &study.parameters {
        match flat.find(&parameter.name) {
            Some(var) if flat.variables[var.index()].kind == VariableKind::Parameter => {
                if let Some((_, value)) = options.set.iter().find(|(name, _)| *name == parameter.name) {
                    let value = flat.graph.number(*value);
                    flat.variables[var.index()].binding = Some(value);
                } else if flat.variables[var.index()].is_final {
                    findings.push(
                        Finding::error("final", parameter.span, format!("`{}` is final", parameter.name))
                            .with_names([&parameter.name]),
                    );
                } else if let QuantityValue::Number(value) = parameter.item.value
                    && let Some(message) = type_problem(&flat.variables[var.index()], value)
                {
                    findings
                        .push(Finding::error("wrong-type", parameter.item.span, message).with_names([&parameter.name]));
                } else if matches!(parameter.item.value, QuantityValue::Expression(_))
                    || flat.variables[var.index()].binding.is_none()
                {
                    match quantity_expression(&mut flat.graph, &flat.variables, &parameter.item) {
                        Ok(value) => flat.variables[var.index()].binding = Some(value),
                        Err(errors) => findings.extend(errors),
                    }
                }
            }
            Some(_) => findings.push(not_a(flat, &parameter.name, parameter.span, "parameter")),
            None => findings.push(unknown_name(flat, &parameter.name, parameter.span, "parameter", |kind| {
                kind == VariableKind::Parameter
            })),
        }
    }
    let is_unknown = |kind| matches!(kind, VariableKind::Continuous | VariableKind::Discrete);
    findings.extend(vary_parameters(flat, study));
    for input in &study.inputs {
        findings.extend(free_input(flat, &input.name, input.span));
    }
    for (at, disturbance) in study.disturbances.iter().enumerate() {
        for signal in &disturbance.item.signals {
            findings.extend(free_input(flat, signal, disturbance.span));
            let other = study.disturbances[..at].iter().find(|other| other.item.signals.contains(signal));
            let message = if study.inputs.iter().any(|input| input.name == *signal) {
                format!("`{signal}` is both a known input and a disturbance")
            } else if let Some(other) = other {
                format!("`{signal}` belongs to the disturbances `{}` and `{}`", other.name, disturbance.name)
            } else {
                continue;
            };
            let help = "keep one of the two entries: what is known is an input, what is random is a disturbance; for a known input \
                        with an error, let the model add two inputs";
            findings
                .push(Finding::error("given-twice", disturbance.span, message).with_names([signal]).with_help(help));
        }
    }
    show_disturbances(flat, study);
    let signals = study.measurements.iter().map(|signal| (&signal.name, signal.span));
    for (name, span) in signals.chain(study.signals.iter().map(|signal| (&signal.name, signal.span))) {
        match flat.find(name) {
            Some(var) if is_unknown(flat.variables[var.index()].kind) => {}
            Some(_) => findings.push(not_a(flat, name, span, "variable")),
            None => findings.push(unknown_name(flat, name, span, "variable", is_unknown)),
        }
    }
    for signal in study.report_signals.iter().flatten() {
        let is_shown = |kind| is_unknown(kind) || kind == VariableKind::Input;
        match flat.find(&signal.name) {
            Some(var) if is_shown(flat.variables[var.index()].kind) => {}
            Some(_) => findings.push(not_a(flat, &signal.name, signal.span, "variable")),
            None => findings.push(unknown_name(flat, &signal.name, signal.span, "variable", is_shown)),
        }
    }
    let joined = study.joint.iter().flat_map(|joint| joint.names.iter().map(|name| (&name.name, name.span)));
    let is_symbol = |name: &str| study.unknown.iter().any(|unknown| unknown.name == name);
    let faults = study.watch.faults.iter().filter(|fault| !is_symbol(&fault.name));
    let faults = faults.map(|fault| (&fault.name, fault.span));
    for (name, span) in study.random.iter().map(|random| (&random.name, random.span)).chain(joined).chain(faults) {
        match flat.find(name) {
            Some(var) if is_computed_at_start(flat, var) || flat.variables[var.index()].is_final => {
                let message = format!(
                    "the model determines `{name}` (`final`, or `fixed = false` with an initial equation): it cannot be random, \
                     nor jump"
                );
                let finding = Finding::error("computed-parameter", span, message).with_names([name]);
                findings.push(finding.with_help("name what determines it, or take back `final` or `fixed = false`"));
            }
            Some(var) if flat.variables[var.index()].kind == VariableKind::Parameter => {
                findings.extend(no_real(&flat.variables[var.index()], span, "random, nor jump"));
            }
            Some(_) => findings.push(not_a(flat, name, span, "parameter")),
            None => findings.push(unknown_name(flat, name, span, "parameter", |kind| kind == VariableKind::Parameter)),
        }
    }
    for value in &study.initial.values {
        match flat.find(&value.name) {
            Some(var) if is_unknown(flat.variables[var.index()].kind) => {
                // Variables of a unit are Reals here; what they are is known to its description.
                let is_boolean = flat.variables[var.index()].value_type == ValueType::Boolean;
                if !is_boolean && study.initial.truths.contains(&value.name) && !flat.graph.calls_foreign() {
                    findings.push(no_boolean(value));
                }
                if let QuantityValue::Number(number) = value.item.value
                    && let Some(message) = type_problem(&flat.variables[var.index()], number)
                {
                    findings.push(Finding::error("wrong-type", value.item.span, message).with_names([&value.name]));
                }
                if is_given_by_equation(flat, var) {
                    let message = format!(
                        "an equation gives the discrete variable `{}` at the start as at any other time: it cannot start elsewhere",
                        value.name
                    );
                    let finding = Finding::error("computed-start", value.span, message).with_names([&value.name]);
                    findings.push(finding.with_help("leave it out, or give the start of what the equation depends on"));
                    continue;
                }
                match quantity_expression(&mut flat.graph, &flat.variables, &value.item) {
                    Ok(start) => {
                        flat.variables[var.index()].start = Some(start);
                        flat.variables[var.index()].fixed = Some(true);
                    }
                    Err(errors) => findings.extend(errors),
                }
            }
            Some(_) => findings.push(not_a(flat, &value.name, value.span, "variable")),
            None => findings.push(unknown_name(flat, &value.name, value.span, "variable", is_unknown)),
        }
    }
    findings
}

/// Whether a discrete variable is given by an equation that is no when-clause, and nothing reads its value before, which
/// a start would be.
fn is_given_by_equation(flat: &FlatDae, var: VarId) -> bool {
    let actions = flat.when_clauses.iter().flat_map(|clause| &clause.branches).flat_map(|branch| &branch.actions);
    let mut assigned = actions.filter_map(|action| match action {
        WhenAction::Assign { variable, .. } => Some(*variable),
        _ => None,
    });
    let is_read_before = || flat.graph.nodes().any(|node| node == Node::Pre(var));
    flat.variables[var.index()].kind == VariableKind::Discrete
        && !assigned.any(|known| known == var)
        && !is_read_before()
}

/// Lets disturbances be estimated: one that is asked for becomes a variable under its name, equal to an input that
/// nobody sees.
fn show_disturbances(flat: &mut FlatDae, study: &mut Study) {
    let asked: Vec<String> = study.signals.iter().map(|signal| signal.name.clone()).collect();
    for name in asked {
        let Some(input) = flat.find(&name).filter(|var| flat.variables[var.index()].kind == VariableKind::Input) else {
            continue;
        };
        let hidden = format!("{ADDED}{name}");
        let signals = study.disturbances.iter_mut().flat_map(|disturbance| &mut disturbance.item.signals);
        let mut places: Vec<&mut String> = signals.filter(|signal| **signal == name).collect();
        if places.is_empty() {
            continue;
        }
        places.iter_mut().for_each(|place| (**place).clone_from(&hidden));
        let variable = Variable { kind: VariableKind::Continuous, ..flat.variables[input.index()].clone() };
        let span = variable.span;
        flat.variables[input.index()].name = hidden;
        let shown = VarId(flat.variables.len() as u32);
        flat.variables.push(variable);
        let (lhs, rhs) = (flat.graph.var(shown), flat.graph.var(input));
        flat.equations.push(Equation { lhs, rhs, origin: Origin::Binding, component: Arc::from(""), span });
    }
}

/// An unknown that is no parameter of the model, and that no expression of the study uses.
fn idle_unknown(flat: &FlatDae, study: &Study, name: &str, span: Span) -> Finding {
    let is_unknown = |other: &str| study.unknown.iter().any(|unknown| unknown.name == other);
    let parameters = flat.variables.iter().filter(|variable| variable.kind == VariableKind::Parameter);
    let others = parameters.map(|variable| variable.name.as_str()).filter(|other| !is_unknown(other));
    let help = match nearest(name, others) {
        Some(near) => format!("did you mean the parameter `{near}`? Otherwise take it out of `[unknown]`"),
        None => {
            let all: Vec<&str> = parameters_of(flat).take(12).collect();
            let known =
                if all.is_empty() { String::new() } else { format!("; parameters of the model: {}", all.join(", ")) };
            format!("take it out of `[unknown]`, or use it in the model, a disturbance or an accuracy{known}")
        }
    };
    let message = format!("nothing depends on the unknown `{name}`: the model has no such parameter");
    Finding::error("idle-unknown", span, message).with_names([name]).with_help(help)
}

/// Whether initial equations may determine a parameter.
fn is_computed_at_start(flat: &FlatDae, var: VarId) -> bool {
    let variable = &flat.variables[var.index()];
    let is_it = |leaf: Leaf| matches!(leaf, Leaf::Var { var: of, .. } if of == var);
    let mut reach = Reach::new();
    variable.kind == VariableKind::Parameter
        && variable.fixed == Some(false)
        && flat.initial_equations.iter().any(|equation| {
            reach.depends_on(&flat.graph, equation.lhs, is_it) || reach.depends_on(&flat.graph, equation.rhs, is_it)
        })
}

/// Makes a signal an input of the model: it is one already, or it is an unknown whose value only its declaration gives,
/// or whose equation is missing.
fn free_input(flat: &mut FlatDae, name: &str, span: Span) -> Option<Finding> {
    let Some(var) = flat.find(name) else {
        return Some(unknown_name(flat, name, span, "input", |kind| kind == VariableKind::Input));
    };
    match flat.variables[var.index()].kind {
        VariableKind::Input => return None,
        VariableKind::Continuous => {}
        VariableKind::Constant | VariableKind::Parameter | VariableKind::Discrete => {
            return Some(not_a(flat, name, span, "input"));
        }
    }
    let value = flat.graph.var(var);
    let is_declared = |equation: &Equation| {
        matches!(equation.origin, Origin::Binding | Origin::UnconnectedFlow) && equation.lhs == value
    };
    match flat.equations.iter().position(is_declared) {
        Some(at) => {
            flat.equations.remove(at);
        }
        None => {
            let size = flat.size();
            if size.equations >= size.unknowns {
                let finding = Finding::error(
                    "not-an-input",
                    span,
                    format!("`{name}` cannot be given from outside: the equations of the model determine it already"),
                );
                let inputs: Vec<&str> = inputs_of(flat).take(12).collect();
                let listed = if inputs.is_empty() { String::new() } else { format!(": {}", inputs.join(", ")) };
                return Some(finding.with_names([name]).with_help(format!(
                    "name an input of the top-level model{listed}; or a variable that only its declaration gives a \
                     value (`Real w = 0`)"
                )));
            }
        }
    }
    flat.variables[var.index()].kind = VariableKind::Input;
    None
}

fn a(word: &str) -> String {
    if word.starts_with('i') { format!("an {word}") } else { format!("a {word}") }
}

fn inputs_of(flat: &FlatDae) -> impl Iterator<Item = &str> {
    let inputs = flat.variables.iter().filter(|variable| variable.kind == VariableKind::Input);
    inputs.map(|variable| variable.name.as_str())
}

fn parameters_of(flat: &FlatDae) -> impl Iterator<Item = &str> {
    let parameters = flat.variables.iter().filter(|variable| variable.kind == VariableKind::Parameter);
    parameters.map(|variable| variable.name.as_str())
}

fn not_a(flat: &FlatDae, name: &str, span: Span, wanted: &str) -> Finding {
    let kind = flat.find(name).map(|var| flat.variables[var.index()].kind);
    let is = match kind {
        Some(VariableKind::Parameter) => "a parameter",
        Some(VariableKind::Constant) => "a constant",
        Some(VariableKind::Input) => "an input",
        Some(VariableKind::Continuous | VariableKind::Discrete) | None => "an unknown of the model",
    };
    let finding =
        Finding::error("wrong-kind", span, format!("`{name}` must be {} of the model, but it is {is}", a(wanted)))
            .with_names([name]);
    if wanted == "input" {
        let inputs: Vec<&str> = inputs_of(flat).take(12).collect();
        return finding.with_help(if inputs.is_empty() {
            "the model has no inputs: declare one, such as `input Real w;`, and use it in an equation".to_owned()
        } else {
            format!("inputs of the model: {}", inputs.join(", "))
        });
    }
    if wanted == "variable" && kind == Some(VariableKind::Input) {
        return finding
            .with_help(format!("give it a variable in the model, such as `Real seen = {name};`, and name that"));
    }
    if wanted == "parameter" {
        let all: Vec<&str> = parameters_of(flat).take(12).collect();
        return finding.with_help(if all.is_empty() {
            "the model has no parameters: declare one, such as `parameter Real k = 1;`".to_owned()
        } else {
            format!("parameters of the model: {}", all.join(", "))
        });
    }
    finding.with_help("`daesy describe` lists the variables of the model")
}

fn unknown_name(
    flat: &FlatDae,
    name: &str,
    span: Span,
    wanted: &str,
    is_wanted: impl Fn(VariableKind) -> bool,
) -> Finding {
    let candidates: Vec<&str> = flat
        .variables
        .iter()
        .filter(|variable| is_wanted(variable.kind))
        .map(|variable| variable.name.as_str())
        .collect();
    let finding =
        Finding::error("unknown-name", span, format!("the model has no {wanted} `{name}`")).with_names([name]);
    match nearest(name, candidates.iter().copied()) {
        Some(near) => finding.with_help(format!("did you mean `{near}`?")),
        None if candidates.len() <= 12 && !candidates.is_empty() => {
            finding.with_help(format!("there are: {}", candidates.join(", ")))
        }
        None => finding.with_help("`daesy flatten` lists all names of the model"),
    }
}
