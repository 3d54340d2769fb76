//! `daesy export`: a model, or the filter of a study, as a Functional Mock-up Unit that runs without compiler and
//! without daesy.
//!
//! The unit holds its description, the shared library that serves every model, and the model itself: its regular form,
//! as `daesy_fmu` stores it. Start values that were written become parameters of their own, so that an importer can
//! give others. The unit of a filter holds model and study instead.

use std::sync::Arc;

use daesy_fmu::archive::{Entry, pack};
use daesy_fmu::description::{Described, Kinds, LIBRARY_ENDING, Version, describe, identifier, platform};
use daesy_fmu::model::{self, Model, Settings};
use daesy_fmu::observer::{self, CarriedUnit, ObserverInstance, ObserverModel};
use daesy_fmu::running::Running as _;
use daesy_fmu::variable::{ExportedVariable, START};
use daesy_graph::finding::{Finding, Level};
use daesy_graph::flat::{FlatDae, ValueType, Variable, VariableKind};
use daesy_graph::{Span, VarId};
use daesy_system::DaeSystem;
use serde_json::{Map, Value, json};

use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::live::LivePlan;
use crate::load::Loaded;
use crate::prepare::{Changing, DataUse, Prepared, Purpose, prepare, start_time};
use crate::problem::study_of;
use crate::simulate::options;
use crate::study::{Measurement, Named, Presampling, Study, StudyModel};
use crate::watch::unknowns_at_start;

/// The shared library of units, for the machine that the program was compiled for; empty where it was not linked.
static LIBRARY: &[u8] = include_bytes!(env!("DAESY_FMU_LIBRARY"));

/// What to export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportOptions {
    /// The version of the interface.
    pub version: Version,
    /// Who may integrate.
    pub kinds: Kinds,
}

/// Which filter to export.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ObserverOptions {
    /// The version of the interface; 2.0 when left out.
    pub version: Option<Version>,
    /// The usual distance of samples; what study or data say when left out.
    pub step: Option<f64>,
    /// Values that were set, of unknowns too.
    pub set: Vec<(String, f64)>,
}

/// A unit.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The archive.
    pub bytes: Vec<u8>,
    /// Number of variables that it describes.
    pub n_variables: usize,
    /// What was asked for.
    pub options: ExportOptions,
    /// Whether it is the filter of a study.
    pub is_observer: bool,
    /// The machine that it runs on.
    pub platform: &'static str,
    /// What is to be told about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// What travels beside the model in every unit.
struct Carried {
    platform: &'static str,
    folder: &'static str,
}

/// The shared library and where it goes, or why there is none.
fn carried(version: Version) -> Result<Carried, Failure> {
    let refused = |message: &str, help: &str| {
        Failure::Input(vec![Diagnostic::error("export-library", message.to_owned()).with_help(help)])
    };
    let (Some(platform), Some(folder)) = (platform(), version.platform_folder()) else {
        return Err(refused("version 2.0 of the interface has no name for this machine", "export with `--fmi 3`"));
    };
    if LIBRARY.is_empty() {
        return Err(refused(
            "this program was built without the shared library that units carry",
            "build it with `cargo build`, or install it with `pip install`",
        ));
    }
    Ok(Carried { platform, folder })
}

/// Exports a model.
///
/// # Errors
/// Diagnostics, when the model is at fault or has no consistent start.
pub fn export(loaded: &Loaded, wanted: ExportOptions) -> Result<Exported, Failure> {
    let carried = carried(wanted.version)?;
    let mut loaded = loaded.clone();
    name_start_values(&mut loaded.flat);
    let purpose = Purpose { data: DataUse::Optional, changing: Changing::All, ..Purpose::TRAJECTORY };
    let prepared = prepare(&loaded, purpose)?;
    // As simulations do, so that the same start is found.
    let prepared = prepared.condensed(&loaded, purpose)?.unwrap_or(prepared);
    let asked = options(&loaded, &prepared)?;
    prepared.start(start_time(&loaded, prepared.data.as_deref())).map_err(|error| prepared.failure(&error))?;
    let settings = Settings {
        start: asked.start,
        stop: if asked.stop > asked.start { asked.stop } else { asked.start + 1.0 },
        step: asked.output_times.get(1).map_or(0.0, |second| second - asked.start),
        rtol: asked.rtol,
        atol: asked.atol,
    };
    let resource = model::write_resource(prepared.system.regular(), settings);
    let model = Model::read(&resource).map_err(|error| stored_differs(&error))?;
    if wanted.version == Version::Two {
        refuse_wide_integers(&loaded, &model)?;
    }
    let bytes = packed(&carried, (&model).into(), wanted, model::RESOURCE, resource)?;
    Ok(Exported {
        bytes,
        n_variables: model.variables.len(),
        options: wanted,
        is_observer: false,
        platform: carried.platform,
        diagnostics: remarks(&loaded, &prepared),
    })
}

/// Integers of version 2.0 of the interface have 32 bits.
fn refuse_wide_integers(loaded: &Loaded, model: &Model) -> Result<(), Failure> {
    let (least, most) = (f64::from(i32::MIN), f64::from(i32::MAX));
    let is_wide = |variable: &&ExportedVariable| {
        variable.value_type == ValueType::Integer && variable.start.is_some_and(|start| start < least || start > most)
    };
    let told = |variable: &ExportedVariable| {
        let span = loaded.flat.find(&variable.name).map_or(Span::NONE, |var| loaded.flat.variables[var.index()].span);
        let start = variable.start.unwrap_or(0.0);
        let message = format!(
            "`{}` is {start}, and Integers of FMI 2.0 have 32 bits: they hold {least} to {most}",
            variable.name
        );
        let finding = Finding::error("integer-range", span, message).with_names([&variable.name]);
        Diagnostic::resolve(
            &finding.with_help("export with `--fmi 3`, whose Integers have 64 bits"),
            &loaded.flat.sources,
        )
    };
    let wide: Vec<Diagnostic> = model.variables.iter().filter(is_wide).map(told).collect();
    if wide.is_empty() { Ok(()) } else { Err(Failure::Input(wide)) }
}

fn stored_differs(error: &impl std::fmt::Display) -> Failure {
    Failure::Method(vec![Diagnostic::error("export", format!("the stored model differs: {error}"))])
}

/// The archive of a unit.
fn packed(
    carried: &Carried,
    model: Described<'_>,
    wanted: ExportOptions,
    resource: &str,
    content: Vec<u8>,
) -> Result<Vec<u8>, Failure> {
    let description = describe(model, wanted.version, wanted.kinds);
    let name = identifier(model.name);
    let file = |path: String, bytes: Vec<u8>, is_executable: bool| Entry { path, bytes, is_executable };
    let entries = [
        file("modelDescription.xml".to_owned(), description.into_bytes(), false),
        file(format!("binaries/{}/{name}{LIBRARY_ENDING}", carried.folder), LIBRARY.to_vec(), true),
        file(format!("resources/{resource}"), content, false),
    ];
    pack(&entries).map_err(|error| Failure::Input(vec![Diagnostic::error("export", error.to_string())]))
}

/// Exports the filter of a study for Co-Simulation: known inputs and measurements in, estimates and their standard
/// deviations out.
///
/// # Errors
/// Diagnostics, when the study is at fault, or its model has no consistent start.
pub fn export_observer(loaded: &Loaded, wanted: &ObserverOptions) -> Result<Exported, Failure> {
    let version = wanted.version.unwrap_or(Version::Two);
    let carried = carried(version)?;
    let study = study_of(loaded)?;
    if study.signals.is_empty() {
        let finding = Diagnostic::error("no-signals", "the study names no signals to estimate");
        return Err(Failure::Input(vec![finding.with_help("name them: `[estimate]` with `signals = [\"x\"]`")]));
    }
    let carried_unit = carried_unit(loaded, study, &wanted.set)?;
    let plan = LivePlan::new(loaded, wanted.step, None)?;
    let stop = loaded.experiments().ok().and_then(|data| data.first()?.times.last().copied());
    let settings = Settings {
        start: plan.start,
        stop: stop.filter(|stop| *stop > plan.start).unwrap_or(plan.start + 1.0),
        step: plan.step,
        rtol: study.simulate.rtol.unwrap_or(1e-6),
        atol: study.simulate.atol.unwrap_or(1e-9),
    };
    let resource = observer::write_resource(loaded, &plan, settings, carried_unit.as_ref());
    let model = Arc::new(ObserverModel::read(&resource).map_err(|error| stored_differs(&error))?);
    // A filter that cannot begin is told of here, not by the importer.
    let mut first = ObserverInstance::new(Arc::clone(&model));
    let begun = first.enter_initialization().and_then(|()| first.exit_initialization());
    begun.map_err(|error| Failure::Method(vec![Diagnostic::error("export", error.to_string())]))?;
    let options = ExportOptions { version, kinds: Kinds { model_exchange: false, co_simulation: true } };
    let bytes = packed(&carried, model.as_ref().into(), options, observer::RESOURCE, resource)?;
    let mut diagnostics = loaded.diagnostics.clone();
    diagnostics.extend(loaded.open_inputs());
    let is_set = |name: &String| wanted.set.iter().any(|(set, _)| set == name);
    if study.unknown.iter().any(|unknown| !is_set(&unknown.name)) {
        diagnostics.push(unknowns_at_start());
    }
    Ok(Exported {
        bytes,
        n_variables: model.variables.len(),
        options,
        is_observer: true,
        platform: carried.platform,
        diagnostics,
    })
}

/// The unit of another tool that a filter of it must carry.
fn carried_unit(loaded: &Loaded, study: &Study, set: &[(String, f64)]) -> Result<Option<CarriedUnit>, Failure> {
    let (Some(_), StudyModel::Modelica(source)) = (&loaded.unit, &study.model) else { return Ok(None) };
    let is_automatic =
        |measurement: &Named<Measurement>| matches!(measurement.item.presampling, Some(Presampling::Auto(_)));
    if let Some(measurement) = study.measurements.iter().find(|measurement| is_automatic(measurement)) {
        let message =
            format!("`presampling = \"auto\"` of `{}` needs the record, which a filter has not", measurement.name);
        let finding = Finding::error("presampling", measurement.span, message).with_names([&measurement.name]);
        let help = "say `presampling = { time_constant = .., order = .. }`";
        return Err(Failure::Input(vec![Diagnostic::resolve(&finding.with_help(help), &study.sources)]));
    }
    let file = loaded.folder.join(&source.file);
    let shown = file.display().to_string();
    let bytes = std::fs::read(&file).map_err(|error| {
        Failure::Input(vec![Diagnostic::about_file("file", &shown, format!("`{shown}` cannot be read: {error}"))])
    })?;
    Ok(Some(CarriedUnit { bytes, set: set.to_vec() }))
}

/// Gives every written start value of an unknown a parameter, by which importers change it.
fn name_start_values(flat: &mut FlatDae) {
    for at in 0..flat.variables.len() {
        let variable = &flat.variables[at];
        let is_unknown = matches!(variable.kind, VariableKind::Continuous | VariableKind::Discrete);
        let is_number = is_unknown && variable.value_type != ValueType::String;
        let Some(start) = variable.start.filter(|_| is_number) else { continue };
        let mut named = Variable::new(format!("{START}{})", variable.name), VariableKind::Parameter, variable.span);
        named.binding = Some(start);
        named.value_type = variable.value_type.clone();
        let parameter = VarId(flat.variables.len() as u32);
        flat.variables.push(named);
        flat.variables[at].start = Some(flat.graph.var(parameter));
    }
}

/// What an importer should know.
fn remarks(loaded: &Loaded, prepared: &Prepared) -> Vec<Diagnostic> {
    let mut told: Vec<Diagnostic> = loaded.diagnostics.clone();
    let sources = &loaded.flat.sources;
    told.extend(prepared.rewritten.iter().map(|finding| Diagnostic::resolve(finding, sources)));
    for input in &prepared.system.description().inputs {
        if input.derivatives_needed > 0 {
            let message = format!(
                "the model needs {} of input `{}`: the unit has {} of their own, which the importer must set",
                if input.derivatives_needed == 1 { "the first derivative" } else { "derivatives" },
                input.name,
                if input.derivatives_needed == 1 { "an input" } else { "inputs" },
            );
            let mut warning = Diagnostic::new(Level::Warning, "export-derivatives", message);
            warning.names = vec![input.name.clone()];
            told.push(warning);
        }
    }
    told
}

impl Exported {
    fn kinds(&self) -> Vec<&'static str> {
        let kinds = self.options.kinds;
        [("me", kinds.model_exchange), ("cs", kinds.co_simulation)]
            .into_iter()
            .filter_map(|(word, is_in)| is_in.then_some(word))
            .collect()
    }

    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut keys = Map::new();
        keys.insert("fmi".into(), json!(self.options.version.text()));
        keys.insert("kinds".into(), json!(self.kinds()));
        keys.insert("platforms".into(), json!([self.platform]));
        keys.insert("size_bytes".into(), json!(self.bytes.len()));
        keys.insert("variables".into(), json!(self.n_variables));
        keys.insert("directional_derivatives".into(), json!(!self.is_observer));
        keys.insert("observer".into(), json!(self.is_observer));
        keys
    }

    /// The same for a person.
    #[must_use]
    pub fn to_text(&self, model: &str) -> String {
        let what = if self.is_observer { "The filter of " } else { "" };
        format!(
            "{what}{model} as a Functional Mock-up Unit, FMI {}, {} ({:.1} MB, {} variables, {}).\n",
            self.options.version.text(),
            self.kinds().join(" and "),
            self.bytes.len() as f64 / 1e6,
            self.n_variables,
            self.platform,
        )
    }
}
