//! Reads a study file; every problem is a finding with its place.

mod data_files;
mod distributions;
mod noise;
mod verbs;

use std::path::Path;

use daesy_graph::finding::{Finding, Level};
use daesy_graph::{SourceFile, SourceMap, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use self::data_files::read_data;
use self::distributions::{read_joint, read_random, refuse_twice_random};
use self::noise::{read_disturbance, read_measurement};
use self::verbs::{read_design, read_identify, read_report, read_simulate, read_uq, read_watch};
use super::section::{KnownSection, Reader, Section};
use super::{
    Hold, Impulse, Initial, InitialMode, InputSource, LinearNames, LinearSource, ModelSource, Named, Quantity,
    QuantityValue, Study, StudyModel, UnknownParameter,
};
use crate::limits;

pub(super) use self::distributions::semidefinite_factor;

/// What reading a study gave: the study when nothing in it is wrong, and the findings with the text they point into.
#[derive(Debug)]
pub struct ReadStudy {
    /// The study.
    pub study: Option<Study>,
    /// What is wrong with it.
    pub findings: Vec<Finding>,
    /// The text of the study.
    pub sources: SourceMap,
}

/// Reads the text of a study. `name` is the file's name as the user knows it.
#[must_use]
pub fn read_study(name: &str, text: &str) -> ReadStudy {
    let mut sources = SourceMap::default();
    let file = sources.add(SourceFile::new(name, text));
    let mut reader = Reader { file, source: text.to_owned(), findings: Vec::new(), sections: Vec::new() };
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in errors {
        let range = error.span().unwrap_or(0..0);
        let end = range.end.min(text.len());
        let start = range.start.min(end);
        reader.findings.push(
            Finding::error("toml-syntax", Span::new(file, start as u32, end as u32), error.message().to_owned())
                .with_help("a study is a TOML file: `[section]` lines and `key = value` lines; expressions such as \"-1/2000\" stand in quotes"),
        );
    }
    let study = if reader.findings.is_empty() { read_root(&mut reader, &table, &sources) } else { None };
    let failed = reader.findings.iter().any(|finding| finding.level == Level::Error);
    ReadStudy { study: study.filter(|_| !failed), findings: reader.findings, sources }
}

/// The keys of every section, and of what a name has in sections of names (`unknown.NAME`), as they are read.
#[must_use]
pub fn study_keys() -> Vec<KnownSection> {
    let text = "[model]\n[unknown]\n\"unknown.NAME\" = {}\n[inputs]\n\"inputs.NAME\" = {}\n[disturbances]\n\
                \"disturbances.NAME\" = {}\n[measurements]\n\"measurements.NAME\" = {}\n[estimate]\n[data]\n[simulate]\n\
                [identify]\n[uq]\n[report]\n[watch]\n[design]\n";
    let (table, _) = DeTable::parse_recoverable(text);
    let mut sources = SourceMap::default();
    let file = sources.add(SourceFile::new("", text));
    let mut reader = Reader { file, source: text.to_owned(), findings: Vec::new(), sections: Vec::new() };
    read_root(&mut reader, &table, &sources);
    reader.sections
}

/// Reads a table whose keys are names of the model.
fn read_named<T>(
    reader: &mut Reader,
    root: &mut Section<'_, '_>,
    key: &'static str,
    expected: &str,
    mut read: impl FnMut(&mut Reader, &str, &Spanned<DeValue<'_>>) -> Option<T>,
) -> Vec<Named<T>> {
    let Some(value) = root.take(key) else { return Vec::new() };
    let Some(section) = reader.table(key, value, expected) else { return Vec::new() };
    let mut items = Vec::new();
    for (name, value) in section.table {
        let span = reader.span(name);
        if let Some(item) = reader.named(name, |reader| read(reader, name.get_ref(), value)) {
            items.push(Named { name: name.get_ref().to_string(), span, item });
        }
    }
    items
}

fn read_root(reader: &mut Reader, table: &Spanned<DeTable<'_>>, sources: &SourceMap) -> Option<Study> {
    let whole = Span::new(reader.file, 0, 0);
    let mut root = Section::root(table.get_ref(), whole);
    let model = read_model(reader, &mut root);
    let parameters =
        read_named(reader, &mut root, "parameters", "a table of values by parameter name", |reader, name, value| {
            reader.quantity(name, value)
        });
    let unknown = read_named(reader, &mut root, "unknown", "a table by parameter name", read_unknown);
    let inputs = read_named(reader, &mut root, "inputs", "a table by input name", read_input);
    let disturbances = read_named(reader, &mut root, "disturbances", "a table by signal name", read_disturbance);
    let measurements = read_named(reader, &mut root, "measurements", "a table by signal name", read_measurement);
    let EstimateSection { signals, filter, particles } = read_signals(reader, &mut root);
    let data = read_data(reader, &mut root);
    let initial = read_initial(reader, &mut root);
    let mut joint = None;
    let random = read_named(reader, &mut root, "random", "a table by parameter name", |reader, name, value| {
        if name == "joint" {
            joint = read_joint(reader, value);
            return None;
        }
        read_random(reader, name, value)
    });
    refuse_twice_random(reader, &random, joint.as_ref());
    let simulate = read_simulate(reader, &mut root);
    let identify = read_identify(reader, &mut root);
    let uq = read_uq(reader, &mut root);
    let watch = read_watch(reader, &mut root);
    let design = read_design(reader, &mut root);
    let report_signals = read_report(reader, &mut root);
    root.finish(reader);
    for both in unknown.iter().filter(|unknown| parameters.iter().any(|fixed| fixed.name == unknown.name)) {
        reader.findings.push(
            Finding::error("given-twice", both.span, format!("`{}` is both fixed and unknown", both.name))
                .with_names([&both.name])
                .with_help("keep it in `[parameters]` or in `[unknown]`, not in both"),
        );
    }
    Some(Study {
        model: model?,
        parameters,
        unknown,
        inputs,
        disturbances,
        measurements,
        signals,
        filter,
        particles,
        data,
        initial,
        random,
        joint,
        simulate,
        identify,
        uq,
        watch,
        design,
        report_signals,
        sources: sources.clone(),
    })
}

fn read_model(reader: &mut Reader, root: &mut Section<'_, '_>) -> Option<StudyModel> {
    let model = root.take("model");
    let linear = root.take("linear");
    match (model, linear) {
        (None, None) => {
            reader.findings.push(
                Finding::error("no-model", root.span, "the study names no model")
                    .with_help("add `[model]` with `file = \"name.mo\"`, or `[linear]` with matrices `E` and `F`"),
            );
            None
        }
        (Some(_), Some(linear)) => {
            let span = reader.span(linear);
            reader.findings.push(
                Finding::error("two-models", span, "the study has both `[model]` and `[linear]`")
                    .with_help("keep one of the two"),
            );
            None
        }
        (Some(value), None) => {
            let mut section = reader.table("model", value, "a table")?;
            let section_span = section.span;
            let file = section.take("file");
            let class = section.take("class");
            let class_span = class.map_or(section_span, |class| reader.span(class));
            let class = match class {
                Some(class) => Some(reader.text("class", class)?),
                None => None,
            };
            section.finish(reader);
            let Some(file) = file else {
                reader.findings.push(
                    Finding::error("no-model-file", section_span, "`[model]` names no file")
                        .with_help("add `file = \"name.mo\"`; the path is relative to the study"),
                );
                return None;
            };
            let file_span = reader.span(file);
            let file = Path::new(&reader.text("file", file)?).to_owned();
            Some(StudyModel::Modelica(ModelSource { file, file_span, class, class_span }))
        }
        (None, Some(value)) => read_linear(reader, value).map(|source| StudyModel::Linear(Box::new(source))),
    }
}

fn read_linear(reader: &mut Reader, value: &Spanned<DeValue<'_>>) -> Option<LinearSource> {
    let mut section = reader.table("linear", value, "a table of matrices")?;
    let span = section.span;
    let mut matrix = |reader: &mut Reader, key: &'static str| match section.take(key) {
        Some(value) => reader.linear_matrix(key, value).map(Some),
        None => Some(None),
    };
    let e = matrix(reader, "E");
    let f = matrix(reader, "F");
    let g = matrix(reader, "G");
    let j = matrix(reader, "J");
    let h = matrix(reader, "H");
    let mut names = LinearNames::default();
    if let Some(value) = section.take("names")
        && let Some(mut table) = reader.table("names", value, "a table with lists `z`, `u`, `w`, `y`")
    {
        let mut list = |reader: &mut Reader, key| table.take(key).and_then(|value| reader.texts(key, value));
        names = LinearNames { z: list(reader, "z"), u: list(reader, "u"), w: list(reader, "w"), y: list(reader, "y") };
        table.finish(reader);
    }
    section.finish(reader);
    let (Some(e), Some(f)) = (e?, f?) else {
        reader.findings.push(
            Finding::error("no-matrix", span, "`[linear]` needs at least the matrices `E` and `F`")
                .with_help("the model is E z' = F z + G u + J w, y = H z"),
        );
        return None;
    };
    Some(LinearSource { e, f, g: g?, j: j?, h: h?, names, span })
}

fn read_unknown(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<UnknownParameter> {
    let mut section = reader.table(name, value, "a table such as { start = 1.0, min = 0.0 }")?;
    let mut quantity = |reader: &mut Reader, key| section.take(key).and_then(|value| reader.quantity(key, value));
    let unknown = UnknownParameter {
        start: quantity(reader, "start"),
        min: quantity(reader, "min"),
        max: quantity(reader, "max"),
        nominal: quantity(reader, "nominal"),
        prior: section.take("prior").and_then(|value| read_random(reader, "prior", value)),
    };
    section.finish(reader);
    Some(unknown)
}

fn read_input(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<InputSource> {
    let mut section = reader.table(name, value, "a table such as { column = \"u\", hold = \"zoh\" }")?;
    let span = section.span;
    let column = section.take("column");
    let hold = section.take("hold");
    let expression = section.take("expression");
    let breaks = section.take("breaks");
    let impulses = section.take("impulses");
    section.finish(reader);
    let misplaced = [(hold, column, "hold", "column"), (breaks, expression, "breaks", "expression")];
    for (value, owner, key, belongs) in misplaced {
        if let (Some(value), None) = (value, owner) {
            let span = reader.span(value);
            reader.findings.push(Finding::error(
                "misplaced-key",
                span,
                format!("`{key}` belongs to an input given by `{belongs}`"),
            ));
        }
    }
    match (column, expression, impulses) {
        (Some(column), None, None) => {
            let column = reader.text("column", column)?;
            let hold = match hold.map(|value| reader.word("hold", value, &["zoh", "foh", "cubic"])) {
                None => Hold::Zero,
                Some(word) => match word? {
                    "foh" => Hold::First,
                    "cubic" => Hold::Cubic,
                    _ => Hold::Zero,
                },
            };
            Some(InputSource::Column { column, hold })
        }
        (None, Some(expression), None) => {
            let expression = reader.quantity("expression", expression)?;
            let breaks = match breaks {
                Some(value) => reader.quantities("breaks", value)?,
                None => Vec::new(),
            };
            Some(InputSource::Expression { expression, breaks })
        }
        (None, None, Some(impulses)) => {
            let items = reader.list("impulses", impulses, "a list of { time = .., area = .. }")?;
            let impulses = items.into_iter().filter_map(|item| read_impulse(reader, item)).collect();
            Some(InputSource::Impulses(impulses))
        }
        _ => {
            reader.findings.push(
                Finding::error(
                    "input-source",
                    span,
                    format!("the input `{name}` must have one of `column`, `expression` or `impulses`"),
                )
                .with_names([name]),
            );
            None
        }
    }
}

fn read_impulse(reader: &mut Reader, value: &Spanned<DeValue<'_>>) -> Option<Impulse> {
    let mut section = reader.table("impulses", value, "a table { time = .., area = .. }")?;
    let span = section.span;
    let time = section.take("time").and_then(|value| reader.quantity("time", value));
    let area = section.take("area").and_then(|value| reader.quantity("area", value));
    section.finish(reader);
    if let (Some(time), Some(area)) = (time, area) {
        return Some(Impulse { time, area });
    }
    reader.findings.push(Finding::error("impulse", span, "an impulse needs a `time` and an `area`"));
    None
}

/// `[estimate]`
#[derive(Default)]
struct EstimateSection {
    signals: Vec<Named<()>>,
    filter: Option<String>,
    particles: Option<u64>,
}

fn read_signals(reader: &mut Reader, root: &mut Section<'_, '_>) -> EstimateSection {
    let Some(value) = root.take("estimate") else { return EstimateSection::default() };
    let Some(mut section) = reader.table("estimate", value, "a table") else { return EstimateSection::default() };
    let mut signals = Vec::new();
    if let Some(value) = section.take("signals")
        && let Some(items) = reader.list("signals", value, "a list of signal names")
    {
        for item in items {
            let span = reader.span(item);
            if let Some(name) = reader.text("signals", item) {
                signals.push(Named { name, span, item: () });
            }
        }
    }
    let filter = section
        .take("filter")
        .and_then(|value| reader.word("filter", value, &["extended", "unscented", "particles"]))
        .map(str::to_owned);
    let particles = section.take("particles").and_then(|value| reader.count("particles", value, limits::MAX_PARTICLES));
    section.finish(reader);
    EstimateSection { signals, filter, particles }
}

fn read_initial(reader: &mut Reader, root: &mut Section<'_, '_>) -> Initial {
    let mut initial = Initial::default();
    let Some(value) = root.take("initial") else { return initial };
    let Some(section) = reader.table("initial", value, "a table") else { return initial };
    for (name, value) in section.table {
        let span = reader.span(name);
        if name.get_ref() == "mode" {
            initial.mode_span = Some(span);
            initial.mode = match reader.word("mode", value, &["model", "estimate", "diffuse", "stationary", "zero"]) {
                Some("estimate") => InitialMode::Estimate,
                Some("diffuse") => InitialMode::Diffuse,
                Some("stationary") => InitialMode::Stationary,
                Some("zero") => InitialMode::Zero,
                _ => InitialMode::Model,
            };
        } else if let DeValue::Boolean(truth) = value.get_ref() {
            let quantity =
                Quantity { value: QuantityValue::Number(f64::from(u8::from(*truth))), span: reader.span(value) };
            initial.truths.push(name.get_ref().to_string());
            initial.values.push(Named { name: name.get_ref().to_string(), span, item: quantity });
        } else if let Some(quantity) = reader.named(name, |reader| reader.quantity(name.get_ref(), value)) {
            initial.values.push(Named { name: name.get_ref().to_string(), span, item: quantity });
        }
    }
    initial
}
