//! `daesy export`: a model as a Functional Mock-up Unit that runs without compiler and without daesy.
//!
//! The unit holds its description, the shared library that serves every model, and the model itself: its regular form,
//! as `daesy_fmu` stores it. Start values that were written become parameters of their own, so that an importer can
//! give others.

use daesy_fmu::archive::{Entry, pack};
use daesy_fmu::description::{Kinds, LIBRARY_ENDING, Version, describe, identifier, platform};
use daesy_fmu::model::{Model, RESOURCE, Settings, write_resource};
use daesy_fmu::variable::START;
use daesy_graph::VarId;
use daesy_graph::finding::Level;
use daesy_graph::flat::{FlatDae, ValueType, Variable, VariableKind};
use daesy_system::DaeSystem;
use serde_json::{Map, Value, json};

use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::load::Loaded;
use crate::prepare::{DataUse, Prepared, Purpose, prepare, start_time};
use crate::simulate::options;

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

/// A unit.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The archive.
    pub bytes: Vec<u8>,
    /// Number of variables that it describes.
    pub n_variables: usize,
    /// What was asked for.
    pub options: ExportOptions,
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
    let purpose = Purpose { data: DataUse::Optional, ..Purpose::TRAJECTORY };
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
    let resource = write_resource(prepared.system.regular(), settings);
    let model = Model::read(&resource).map_err(|error| {
        Failure::Method(vec![Diagnostic::error("export", format!("the stored model differs: {error}"))])
    })?;
    let description = describe(&model, wanted.version, wanted.kinds);
    let name = identifier(&model.system.regular().flat.model);
    let file = |path: String, bytes: Vec<u8>, is_executable: bool| Entry { path, bytes, is_executable };
    let entries = [
        file("modelDescription.xml".to_owned(), description.into_bytes(), false),
        file(format!("binaries/{}/{name}{LIBRARY_ENDING}", carried.folder), LIBRARY.to_vec(), true),
        file(format!("resources/{RESOURCE}"), resource, false),
    ];
    let bytes = pack(&entries).map_err(|error| Failure::Input(vec![Diagnostic::error("export", error.to_string())]))?;
    Ok(Exported {
        bytes,
        n_variables: model.variables.len(),
        options: wanted,
        platform: carried.platform,
        diagnostics: remarks(&loaded, &prepared),
    })
}

/// Gives every written start value of an unknown a parameter, by which importers change it.
fn name_start_values(flat: &mut FlatDae) {
    for at in 0..flat.variables.len() {
        let variable = &flat.variables[at];
        let is_real = variable.value_type == ValueType::Real && variable.kind == VariableKind::Continuous;
        let Some(start) = variable.start.filter(|_| is_real) else { continue };
        let mut named = Variable::new(format!("{START}{})", variable.name), VariableKind::Parameter, variable.span);
        named.binding = Some(start);
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
        keys.insert("directional_derivatives".into(), json!(true));
        keys
    }

    /// The same for a person.
    #[must_use]
    pub fn to_text(&self, model: &str) -> String {
        format!(
            "{model} as a Functional Mock-up Unit, FMI {}, {} ({:.1} MB, {} variables, {}).\n",
            self.options.version.text(),
            self.kinds().join(" and "),
            self.bytes.len() as f64 / 1e6,
            self.n_variables,
            self.platform,
        )
    }
}
