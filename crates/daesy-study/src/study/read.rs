//! Reads a study file; every problem is a finding with its place.

use std::path::Path;

use daesy_estimate::alarm::RATES;
use daesy_estimate::horizon::Horizon;
use daesy_graph::finding::{Finding, Level};
use daesy_graph::{SourceFile, SourceMap, Span};
use daesy_integrate::Method;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::section::{KnownSection, Reader, Section};
use crate::data::{Conversion, Encoding, Format, Origin, Repeated, Stamp, TimeAxis};
use crate::limits;

use super::{
    ColumnName, DataSource, DesignInput, DesignOptions, Disturbance, DisturbanceProcess, Hold, IdentifyOptions,
    Impulse, Initial, InitialMode, InputKind, InputSource, JointRandom, JointSamples, LinearNames, LinearSource,
    Measurement, ModelSource, Named, Presampling, Quantity, QuantityValue, RandomParameter, SampleSource,
    SimulateOptions, Study, StudyModel, UnknownParameter, UqOptions, WatchOptions,
};

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

fn read_disturbance(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<Disturbance> {
    let mut section = reader.table(name, value, "a table such as { white = 0.1 } or { A = .., B = .., C = .. }")?;
    let span = section.span;
    let mut matrix = |reader: &mut Reader, key| section.take(key).map(|value| reader.matrix(key, value));
    let a = matrix(reader, "A");
    let b = matrix(reader, "B");
    let c = matrix(reader, "C");
    let signals = section.take("signals").map(|value| reader.texts("signals", value));
    let white = section.take("white").map(|value| reader.quantity("white", value));
    let std = section.take("std").map(|value| reader.quantity("std", value));
    let time_constant = section.take("time_constant").map(|value| reader.quantity("time_constant", value));
    let matern = section.take("matern").map(|value| read_matern(reader, value));
    let walk = section.take("walk").map(|value| reader.quantity("walk", value));
    let num = section.take("num").map(|value| reader.quantities("num", value));
    let den = section.take("den").map(|value| reader.quantities("den", value));
    let starts_at_zero = section
        .take("initial")
        .and_then(|value| reader.word("initial", value, &["stationary", "zero"]))
        .is_some_and(|word| word == "zero");
    section.finish(reader);
    // A walk without a law of its own starts at rest.
    let starts_at_zero = starts_at_zero || walk.is_some() && std.is_none();
    let has_other = a.is_some()
        || b.is_some()
        || c.is_some()
        || white.is_some()
        || num.is_some()
        || den.is_some()
        || std.is_some()
        || walk.is_some();
    let process = match (a, b, c, white, num, den, std, time_constant) {
        _ if matern.is_some() && !has_other => matern??,
        (None, None, None, None, None, None, std, None) if walk.is_some() && matern.is_none() => {
            walk_process(walk??, std.flatten(), span)
        }
        _ if walk.is_some() => return incomplete(reader, name, span),
        (Some(a), Some(b), Some(c), None, None, None, None, None) => DisturbanceProcess::Filter { a: a?, b: b?, c: c? },
        (None, None, None, Some(white), None, None, None, None) => DisturbanceProcess::White(white?),
        (None, None, None, None, Some(num), Some(den), None, None) => {
            DisturbanceProcess::Factor { num: num?, den: den? }
        }
        (None, None, None, None, None, None, Some(std), Some(time_constant)) => {
            let time_constant = time_constant?;
            let of_time_constant = |before: &str, after: &str| {
                let text = format!("{before}{}{after}", written(&time_constant));
                vec![vec![Quantity { value: QuantityValue::Expression(text), span: time_constant.span }]]
            };
            DisturbanceProcess::Filter {
                a: of_time_constant("-1/(", ")"),
                b: of_time_constant("sqrt(2/(", "))"),
                c: vec![vec![std?]],
            }
        }
        _ => return incomplete(reader, name, span),
    };
    let signals = match signals {
        Some(signals) => signals?,
        None => vec![name.to_owned()],
    };
    if let Some(twice) = signals.iter().enumerate().find(|(at, signal)| signals[..*at].contains(signal)) {
        let message = format!("disturbance `{name}`: `signals` names `{}` twice", twice.1);
        reader.findings.push(Finding::error("given-twice", span, message).with_names([name]));
        return None;
    }
    if !matches!(process, DisturbanceProcess::Filter { .. }) && signals.len() != 1 {
        let message = format!("disturbance `{name}`: `signals` names {} signals, this process has one", signals.len());
        reader.findings.push(
            Finding::error("matrix-shape", span, message)
                .with_names([name])
                .with_help("several signals need a shaping filter: `A`, `B`, and a row of `C` for each of them"),
        );
        return None;
    }
    if let DisturbanceProcess::Filter { a, b, c } = &process {
        let n_states = a.len();
        let wrong = if a.iter().any(|row| row.len() != n_states) {
            Some("`A` must be square".to_owned())
        } else if b.len() != n_states {
            Some(format!("`B` must have {n_states} rows, as `A` has"))
        } else if c.iter().any(|row| row.len() != n_states) {
            Some(format!("`C` must have {n_states} columns, as `A` has"))
        } else if c.len() != signals.len() {
            let rows = if signals.len() == 1 { "one row".to_owned() } else { format!("{} rows", signals.len()) };
            Some(format!("`C` must have {rows}, one for each signal; it has {}", c.len()))
        } else {
            None
        };
        if let Some(message) = wrong {
            let mut finding =
                Finding::error("matrix-shape", span, format!("disturbance `{name}`: {message}")).with_names([name]);
            if c.len() != signals.len() {
                finding = finding.with_help(
                    "disturbances that depend on each other are one process: name their inputs in `signals = [..]`",
                );
            }
            reader.findings.push(finding);
            return None;
        }
    }
    Some(Disturbance { signals, process, starts_at_zero })
}

fn incomplete(reader: &mut Reader, name: &str, span: Span) -> Option<Disturbance> {
    let message = format!("the disturbance `{name}` has no complete description");
    let help = "give one of: `std` and `time_constant`; `A`, `B`, `C` (shaping filter); `white` (intensity); `num` and \
                `den` (spectral factor); `matern = { smoothness, std, length }`; `walk` (rate of a random walk), alone \
                or with `std`";
    reader.findings.push(Finding::error("disturbance-form", span, message).with_names([name]).with_help(help));
    None
}

fn written(quantity: &Quantity) -> String {
    match &quantity.value {
        QuantityValue::Number(number) => format!("{number:?}"),
        QuantityValue::Expression(text) => text.clone(),
    }
}

/// `walk = rate`: a random walk of this rate, from zero, or with a `std` one that tends back so slowly that it is
/// stationary (see `varying`).
fn walk_process(rate: Quantity, std: Option<Quantity>, span: Span) -> DisturbanceProcess {
    let one = |quantity: Quantity| vec![vec![quantity]];
    let number = |value: f64| Quantity { value: QuantityValue::Number(value), span };
    let Some(std) = std else {
        return DisturbanceProcess::Filter { a: one(number(0.0)), b: one(number(1.0)), c: one(rate) };
    };
    let text = |text: String| Quantity { value: QuantityValue::Expression(text), span: rate.span };
    let ratio = format!("(({})/({}))", written(&rate), written(&std));
    let a = one(text(format!("-0.5*{ratio}^2")));
    DisturbanceProcess::Filter { a, b: one(text(ratio)), c: one(std) }
}

/// `matern = { smoothness = 1.5, std = .., length = .. }`: a stationary process of covariance
///
/// ```text
/// k(t) = std^2 2^(1-nu) / Gamma(nu) r^nu K_nu(r),    r = sqrt(2 nu) |t| / length
/// ```
///
/// For nu = p + 1/2 its spectrum is rational, `q / (lambda^2 + w^2)^(p+1)` with `lambda = sqrt(2 nu) / length`, and
/// `(d/dt + lambda)^(p+1) w` is white noise [@hartikainen2010]. With time in units of `1 / lambda` and states `w`,
/// `w' / lambda`, .. the filter is
///
/// ```text
/// A = lambda [0 1 0 ..; 0 0 1 ..; -binomials]    B = sqrt(lambda) [0 .. 0 b]    C = std [1 0 ..]
/// b^2 = 2 sqrt(pi) Gamma(p + 1) / Gamma(p + 1/2)
/// ```
fn read_matern(reader: &mut Reader, value: &Spanned<DeValue<'_>>) -> Option<DisturbanceProcess> {
    let expected = "a table { smoothness = 1.5, std = .., length = .. }";
    let mut section = reader.table("matern", value, expected)?;
    let span = section.span;
    let smoothness = section.take("smoothness");
    let smoothness_span = smoothness.map_or(span, |value| reader.span(value));
    let smoothness = smoothness.and_then(|value| reader.number("smoothness", value));
    let std = section.take("std").and_then(|value| reader.quantity("std", value));
    let length = section.take("length").and_then(|value| reader.quantity("length", value));
    section.finish(reader);
    let (Some(smoothness), Some(std), Some(length)) = (smoothness, std, length) else {
        let finding = Finding::error("disturbance-form", span, "`matern` needs `smoothness`, `std` and `length`");
        reader.findings.push(finding.with_help(format!("write it as {expected}")));
        return None;
    };
    let p = smoothness - 0.5;
    if !(0.0..=MOST_MATERN).contains(&p) || p.fract() != 0.0 {
        let message = format!("the smoothness {smoothness} of a Matern process is none of 0.5, 1.5, 2.5, .., 5.5");
        let finding = Finding::error("out-of-range", smoothness_span, message)
            .with_help("only for these is it the output of a filter; 1.5 has one derivative, 2.5 has two");
        reader.findings.push(finding);
        return None;
    }
    let (p, n) = (p as usize, p as usize + 1);
    let written = written(&length);
    let quantity = |text: String| Quantity { value: QuantityValue::Expression(text), span: length.span };
    let number = |value: f64| Quantity { value: QuantityValue::Number(value), span };
    let root = (2.0 * smoothness).sqrt();
    let mut a = vec![vec![number(0.0); n]; n];
    for (i, row) in a.iter_mut().enumerate().take(p) {
        row[i + 1] = quantity(format!("{root:?}/({written})"));
    }
    let mut binomial = 1.0;
    for (j, entry) in a[p].iter_mut().enumerate() {
        *entry = quantity(format!("-{:?}/({written})", binomial * root));
        binomial = binomial * (n - j) as f64 / (j + 1) as f64;
    }
    // Gamma(p + 1) / Gamma(p + 1/2) = p! 2^p / (1 3 5 .. (2p - 1)) / sqrt(pi).
    let ratio: f64 = (1..=p).map(|i| 2.0 * i as f64 / (2 * i - 1) as f64).product();
    let mut b = vec![vec![number(0.0)]; n];
    b[p][0] = quantity(format!("{:?}*sqrt({root:?}/({written}))", (2.0 * ratio).sqrt()));
    let mut c = vec![number(0.0); n];
    c[0] = std;
    Some(DisturbanceProcess::Filter { a, b, c: vec![c] })
}

/// The most derivatives of a Matern process.
const MOST_MATERN: f64 = 5.0;

fn read_measurement(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<Measurement> {
    let mut section = reader.table(name, value, "a table such as { column = \"y\", std = 0.01 }")?;
    let column = section.take("column").and_then(|value| reader.text("column", value));
    let std_value = section.take("std");
    let variance_value = section.take("variance");
    let std = std_value.and_then(|value| reader.quantity("std", value));
    let variance = variance_value.and_then(|value| reader.quantity("variance", value));
    if let (Some(_), Some(second)) = (&std, variance_value) {
        let span = reader.span(second);
        reader.findings.push(
            Finding::error("given-twice", span, format!("`{name}` has both `std` and `variance`"))
                .with_names([name])
                .with_help("keep one of them; the variance is the square of the standard deviation"),
        );
    }
    for (key, quantity) in [("std", &std), ("variance", &variance)] {
        if let Some(Quantity { value: QuantityValue::Number(number), span }) = quantity
            && *number < 0.0
        {
            let help = format!("write `{key} = {}`: it is a size, and greater than zero", -number);
            reader.findings.push(
                Finding::error("out-of-range", *span, format!("the `{key}` of `{name}` is negative"))
                    .with_names([name])
                    .with_help(help),
            );
        }
    }
    let presampling = section.take("presampling").and_then(|value| read_presampling(reader, name, value));
    section.finish(reader);
    Some(Measurement { column, std, variance, presampling, variable: None })
}

/// More lags than this are a mistake.
const MOST_LAGS: u64 = 16;

fn read_presampling(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<Presampling> {
    let span = reader.span(value);
    if let DeValue::String(text) = value.get_ref() {
        if text == "auto" {
            return Some(Presampling::Auto(span));
        }
        let message = format!("the presampling of `{name}` is \"auto\" or a table, not \"{text}\"");
        let finding = Finding::error("presampling", span, message).with_names([name]);
        reader.findings.push(finding.with_help("write { time_constant = 0.01, order = 1 }, or \"auto\""));
        return None;
    }
    let mut section = reader.table("presampling", value, "a table such as { time_constant = 0.01, order = 1 }")?;
    let time_constant = section.take("time_constant").and_then(|value| reader.quantity("time_constant", value));
    let order = section.take("order").map_or(Some(1), |value| reader.count("order", value, limits::MAX_FILTER_ORDER));
    section.finish(reader);
    let Some(time_constant) = time_constant else {
        let message = format!("the presampling filter of `{name}` needs a `time_constant`");
        reader.findings.push(Finding::error("presampling", span, message).with_names([name]));
        return None;
    };
    let order = order?;
    if matches!(time_constant.value, QuantityValue::Number(number) if number.is_nan() || number <= 0.0) {
        let message = format!("the time constant of the presampling filter of `{name}` must be greater than zero");
        reader.findings.push(Finding::error("out-of-range", time_constant.span, message).with_names([name]));
        return None;
    }
    if !(1..=MOST_LAGS).contains(&order) {
        let message = format!("the order of the presampling filter of `{name}` must be from 1 to {MOST_LAGS}");
        reader.findings.push(Finding::error("out-of-range", span, message).with_names([name]));
        return None;
    }
    Some(Presampling::Given { time_constant, order })
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

fn read_data(reader: &mut Reader, root: &mut Section<'_, '_>) -> Option<DataSource> {
    let mut section = reader.table("data", root.take("data")?, "a table")?;
    let span = section.span;
    let file = section.take("file");
    let files = section.take("files");
    let validation = section.take("validation");
    let column = section.take("time");
    let step = section.take("step");
    let format = read_format(reader, &mut section)?;
    let time_unit = section.take("time_unit");
    let seconds = match time_unit {
        Some(value) => match reader.word("time_unit", value, &["ms", "s", "min", "h", "d"])? {
            "ms" => 1e-3,
            "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => 1.0,
        },
        None => 1.0,
    };
    let mut by_header = |reader: &mut Reader, key| -> Vec<(String, f64)> {
        let expected = "a table of numbers by column, such as { power_kW = 1000 }";
        let read = read_named(reader, &mut section, key, expected, |reader, name, value| reader.number(name, value));
        read.into_iter().map(|named| (named.name, named.item)).collect()
    };
    let scale = by_header(reader, "scale");
    let offset = by_header(reader, "offset");
    section.finish(reader);
    let time = match (column, step) {
        (None, None) => TimeAxis::Column("t".to_owned()),
        (Some(column), None) => TimeAxis::Column(reader.text("time", column)?),
        (None, Some(step)) => {
            let place = reader.span(step);
            match reader.number("step", step)? {
                step if step > 0.0 && step.is_finite() => TimeAxis::Step(step),
                step => {
                    let message = format!("the step between rows must be positive, not {step}");
                    reader.findings.push(Finding::error("data-source", place, message));
                    return None;
                }
            }
        }
        (Some(_), Some(_)) => {
            reader.findings.push(
                Finding::error("data-source", span, "`[data]` has both `time` and `step`")
                    .with_help("`time` names a column of times; `step` is for files without one"),
            );
            return None;
        }
    };
    let mut named = Vec::new();
    let items = match (file, files) {
        (Some(file), None) => vec![file],
        (None, Some(files)) => {
            reader.list("files", files, "a list of files, each a name or `{ file = .., columns = { .. } }`")?
        }
        _ => {
            reader
                .findings
                .push(Finding::error("data-source", span, "`[data]` must have one of `file` and `files`").with_help(
                    "`file = \"run.csv\"` for one experiment, `files = [\"a.csv\", \"b.csv\"]` for several",
                ));
            return None;
        }
    };
    for item in items {
        named.extend(read_data_file(reader, item));
    }
    let mut held_out = Vec::new();
    if let Some(value) = validation {
        let expected = "a list of files, each a name or `{ file = .., columns = { .. } }`";
        for item in reader.list("validation", value, expected)? {
            held_out.extend(read_data_file(reader, item));
        }
    }
    refuse_training_data(reader, &named, &held_out);
    let conversion = Conversion { seconds, scale, offset };
    let has_time_unit = time_unit.is_some();
    Some(DataSource { files: named, validation: held_out, time, format, has_time_unit, conversion })
}

/// A record that parameters are found from says nothing about records they are not found from.
fn refuse_training_data(reader: &mut Reader, files: &[Named<Vec<ColumnName>>], validation: &[Named<Vec<ColumnName>>]) {
    let is_used = |held: &&Named<Vec<ColumnName>>| files.iter().any(|it| it.name == held.name && it.item == held.item);
    for held in validation.iter().filter(is_used) {
        let message = format!("`{}` is both among the data and in `validation`", held.name);
        let finding = Finding::error("data-source", held.span, message);
        reader.findings.push(finding.with_help("a file for validation must be one that parameters are not found from"));
    }
}

/// How the files of `[data]` are written.
fn read_format(reader: &mut Reader, section: &mut Section<'_, '_>) -> Option<Format> {
    let decimal = match section.take("decimal") {
        Some(value) => reader.word("decimal", value, &[".", ","])?.chars().next(),
        None => None,
    };
    let separator = match section.take("separator") {
        Some(value) => match reader.word("separator", value, &[",", ";", "\t", " ", "|", "tab", "space"])? {
            "tab" => Some('\t'),
            "space" => Some(' '),
            other => other.chars().next(),
        },
        None => None,
    };
    let encoding = match section.take("encoding") {
        Some(value) => {
            let word = reader.word("encoding", value, &Encoding::WORDS.map(|(word, _)| word))?;
            Encoding::WORDS.iter().find(|(known, _)| *known == word).map(|(_, encoding)| *encoding)
        }
        None => None,
    };
    let skip = match section.take("skip") {
        Some(value) => reader.whole("skip", value, limits::MAX_SKIPPED)? as usize,
        None => 0,
    };
    let missing = match section.take("missing") {
        Some(value) => read_missing(reader, value)?,
        None => Vec::new(),
    };
    let time_format = match section.take("time_format") {
        Some(value) => Some(reader.text("time_format", value)?),
        None => None,
    };
    let repeated = match section.take("repeated") {
        Some(value) => Some(match reader.word("repeated", value, &["first", "last"])? {
            "first" => Repeated::First,
            _ => Repeated::Last,
        }),
        None => None,
    };
    let has_summer_time = match section.take("summer_time") {
        Some(value) => reader.truth("summer_time", value)?,
        None => false,
    };
    let sheet = match section.take("sheet") {
        Some(value) => Some(reader.text("sheet", value)?),
        None => None,
    };
    let origin = match section.take("origin") {
        Some(value) => Some(read_origin(reader, value, time_format.as_deref())?),
        None => None,
    };
    Some(Format { decimal, separator, encoding, skip, missing, time_format, repeated, has_summer_time, sheet, origin })
}

/// Words or numbers that stand for missing values, as they are written in the file.
fn read_missing(reader: &mut Reader, value: &Spanned<DeValue<'_>>) -> Option<Vec<String>> {
    let items = reader.list("missing", value, "a list of words, such as [\"N/A\", \"-9999\"]")?;
    let word = |item: &&Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    };
    items.iter().map(|item| word(item).or_else(|| reader.text("missing", item))).collect()
}

fn read_origin(reader: &mut Reader, value: &Spanned<DeValue<'_>>, pattern: Option<&str>) -> Option<Origin> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Datetime(stamp) => stamp.to_string(),
        _ => return reader.number("origin", value).map(Origin::Number),
    };
    let as_written = || pattern.and_then(|pattern| Stamp::parse_as(&text, pattern));
    if let Some(stamp) = Stamp::parse(&text).or_else(as_written) {
        return Some(Origin::Stamp(stamp));
    }
    let span = reader.span(value);
    let message = format!("`origin` cannot be \"{text}\": it is a date of ISO 8601 or a number");
    let finding = Finding::error("data-source", span, message);
    reader.findings.push(finding.with_help("write it as \"2024-03-01T12:30:00\""));
    None
}

/// `"a.csv"` or `{ file = "a.csv", columns = { u = "u11" } }`: what the study calls `u` is the column `u11` of this
/// file.
fn read_data_file(reader: &mut Reader, item: &Spanned<DeValue<'_>>) -> Option<Named<Vec<ColumnName>>> {
    let span = reader.span(item);
    if !matches!(item.get_ref(), DeValue::Table(_)) {
        return reader.text("file", item).map(|name| Named { name, span, item: Vec::new() });
    }
    let mut section = reader.table("files", item, "a file name or a table")?;
    let place = section.span;
    let file = section.take("file");
    let columns = section.take("columns");
    section.finish(reader);
    let Some(file) = file else {
        let finding = Finding::error("data-source", place, "this entry of `files` names no file");
        reader.findings.push(finding.with_help("write { file = \"run.csv\", columns = { u = \"u11\" } }"));
        return None;
    };
    let name = reader.text("file", file)?;
    let mut names = Vec::new();
    if let Some(columns) = columns {
        for (name, header) in reader.table("columns", columns, "a table of names and headers")?.table {
            let span = reader.span(header);
            if let Some(header) = reader.text(name.get_ref(), header) {
                names.push(ColumnName { name: name.get_ref().to_string(), header, span });
            }
        }
    }
    Some(Named { name, span, item: names })
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

/// The families of distributions with the names of their numbers.
const FAMILIES: [(&str, &[&str]); 8] = [
    ("uniform", &["mean", "relative", "min", "max"]),
    ("normal", &["mean", "std", "min", "max"]),
    ("truncated", &["mean", "std", "min", "max"]),
    ("lognormal", &["mean", "std"]),
    ("beta", &["alpha", "beta", "min", "max"]),
    ("gamma", &["shape", "scale"]),
    ("triangular", &["min", "mode", "max"]),
    ("samples", &["file", "column"]),
];

fn read_random(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<RandomParameter> {
    let mut section = reader.table(name, value, "a table such as { uniform = { min = 0, max = 1 } }")?;
    let span = section.span;
    let given: Vec<_> =
        FAMILIES.iter().filter_map(|&(family, keys)| section.take(family).map(|value| (family, keys, value))).collect();
    section.finish(reader);
    let [(family, keys, value)] = given[..] else {
        reader.findings.push(
            Finding::error("distribution", span, format!("`{name}` must have exactly one distribution"))
                .with_names([name])
                .with_help(
                    "write such as `{ normal = { mean = 2.0, std = 0.3 } }`; the others are uniform, lognormal, beta, \
                     gamma, triangular, truncated and samples",
                ),
        );
        return None;
    };
    let mut table = reader.table(family, value, "a table of the distribution's numbers")?;
    if family == "samples" {
        let span = table.span;
        let file = table.take("file").and_then(|value| reader.text("file", value));
        let column = table.take("column").and_then(|value| reader.text("column", value));
        table.finish(reader);
        let (Some(file), Some(column)) = (file, column) else {
            reader.findings.push(Finding::error("distribution", span, "`samples` needs a `file` and a `column`"));
            return None;
        };
        let samples = Some(SampleSource { file, column });
        return Some(RandomParameter { family: family.to_owned(), arguments: Vec::new(), samples });
    }
    let mut arguments = Vec::new();
    for &key in keys {
        if let Some(value) = table.take(key) {
            let span = reader.span(value);
            if let Some(quantity) = reader.quantity(key, value) {
                arguments.push(Named { name: key.to_owned(), span, item: quantity });
            }
        }
    }
    table.finish(reader);
    Some(RandomParameter { family: family.to_owned(), arguments, samples: None })
}

/// `[random.joint]`: `names`, `mean` and `covariance` of correlated normal parameters, or `names` and `samples`.
fn read_joint(reader: &mut Reader, value: &Spanned<DeValue<'_>>) -> Option<JointRandom> {
    let mut section = reader.table("joint", value, "a table with `names`, `mean` and `covariance`, or `samples`")?;
    let span = section.span;
    let (names, mean, covariance) = (section.take("names"), section.take("mean"), section.take("covariance"));
    let samples = section.take("samples");
    section.finish(reader);
    let refuse = |reader: &mut Reader, message: &str| {
        let finding = Finding::error("joint", span, message).with_help(
            "`[random.joint]` has names = [\"a\", \"b\"], mean = [1.0, 2.0], covariance = [[0.1, 0.0], [0.0, 0.2]]; or \
             names and samples = \"draws.csv\"",
        );
        reader.findings.push(finding);
    };
    if let (Some(names), Some(samples)) = (names, samples) {
        if mean.is_some() || covariance.is_some() {
            refuse(reader, "`samples` have a mean and a covariance of their own");
            return None;
        }
        let file = reader.text("samples", samples)?;
        let names = read_joint_names(reader, names)?;
        let samples = Some(JointSamples { file, rows: Vec::new() });
        return Some(JointRandom {
            names,
            mean: Vec::new(),
            covariance: Vec::new(),
            factor: Vec::new(),
            samples,
            span,
        });
    }
    let (Some(names), Some(mean), Some(covariance)) = (names, mean, covariance) else {
        refuse(reader, "correlated parameters need `names`, `mean` and `covariance`, or `names` and `samples`");
        return None;
    };
    let named = read_joint_names(reader, names)?;
    let mean = read_numbers(reader, "mean", mean)?;
    let mut rows = Vec::new();
    for row in reader.list("covariance", covariance, "a list of rows")? {
        rows.push(read_numbers(reader, "covariance", row)?);
    }
    let n = named.len();
    if n == 0 || mean.len() != n || rows.len() != n || rows.iter().any(|row| row.len() != n) {
        refuse(reader, "`names`, `mean` and the rows and columns of `covariance` must be of the same number");
        return None;
    }
    let is_symmetric =
        |i: usize, j: usize| (rows[i][j] - rows[j][i]).abs() <= 1e-9 * (rows[i][i].abs() * rows[j][j].abs()).sqrt();
    if !(0..n).all(|i| (0..i).all(|j| is_symmetric(i, j))) {
        refuse(reader, "the covariance is not symmetric");
        return None;
    }
    let Some(factor) = semidefinite_factor(&rows) else {
        refuse(reader, "the covariance is not one: it has a negative eigenvalue");
        return None;
    };
    Some(JointRandom { names: named, mean, covariance: rows, factor, samples: None, span })
}

fn read_joint_names(reader: &mut Reader, names: &Spanned<DeValue<'_>>) -> Option<Vec<Named<()>>> {
    let mut named = Vec::new();
    for item in reader.list("names", names, "a list of parameter names")? {
        let span = reader.span(item);
        named.push(Named { name: reader.text("names", item)?, span, item: () });
    }
    Some(named)
}

fn read_numbers(reader: &mut Reader, key: &'static str, value: &Spanned<DeValue<'_>>) -> Option<Vec<f64>> {
    let items = reader.list(key, value, "a list of numbers")?;
    items.into_iter().map(|item| reader.number(key, item)).collect()
}

/// Pivots below this fraction of a variance are zero.
const NO_VARIANCE: f64 = 1e-12;

/// Cholesky's factor of a semidefinite matrix, in units of its diagonal: `A = L L'`, with zero columns where nothing is
/// left. `None` if a pivot is negative beyond rounding, or something is left beside a zero one.
pub(super) fn semidefinite_factor(a: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = a.len();
    let mut l = vec![vec![0.0f64; n]; n];
    for j in 0..n {
        let pivot = a[j][j] - l[j][..j].iter().map(|x| x * x).sum::<f64>();
        if a[j][j] < 0.0 || pivot < -1e-9 * a[j][j] {
            return None;
        }
        let is_zero = pivot <= NO_VARIANCE * a[j][j];
        l[j][j] = if is_zero { 0.0 } else { pivot.sqrt() };
        for i in j + 1..n {
            let left = a[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
            if !is_zero {
                l[i][j] = left / l[j][j];
            } else if left.abs() > 1e-5 * (a[i][i] * a[j][j]).sqrt() {
                return None;
            }
        }
    }
    Some(l)
}

/// A parameter has one distribution.
fn refuse_twice_random(reader: &mut Reader, random: &[Named<RandomParameter>], joint: Option<&JointRandom>) {
    let joined = joint.map(|joint| joint.names.as_slice()).unwrap_or_default();
    for (at, name) in joined.iter().enumerate() {
        let is_twice =
            random.iter().any(|own| own.name == name.name) || joined[..at].iter().any(|other| other.name == name.name);
        if is_twice {
            let message = format!("`{}` has two distributions", name.name);
            reader.findings.push(Finding::error("joint", name.span, message).with_names([&name.name]));
        }
    }
}

fn read_simulate(reader: &mut Reader, root: &mut Section<'_, '_>) -> SimulateOptions {
    let Some(mut section) = root.take("simulate").and_then(|value| reader.table("simulate", value, "a table")) else {
        return SimulateOptions::default();
    };
    let mut quantity = |reader: &mut Reader, key| section.take(key).and_then(|value| reader.quantity(key, value));
    let start = quantity(reader, "start");
    let stop = quantity(reader, "stop");
    let step = quantity(reader, "step");
    let rtol = section.take("rtol").and_then(|value| reader.tolerance("rtol", value));
    let atol = section.take("atol").and_then(|value| reader.positive("atol", value));
    let words = Method::ALL.map(Method::word);
    let method = section.take("method").and_then(|value| reader.word("method", value, &words));
    let method = method.and_then(|word| Method::ALL.into_iter().find(|method| method.word() == word));
    let max_step = section.take("max_step").and_then(|value| reader.positive("max_step", value));
    let max_steps = section.take("max_steps").and_then(|value| reader.positive("max_steps", value));
    section.finish(reader);
    SimulateOptions { start, stop, step, rtol, atol, method, max_step, max_steps }
}

fn read_identify(reader: &mut Reader, root: &mut Section<'_, '_>) -> IdentifyOptions {
    let Some(mut section) = root.take("identify").and_then(|value| reader.table("identify", value, "a table")) else {
        return IdentifyOptions::default();
    };
    let mut given = Vec::new();
    let mut word = |reader: &mut Reader, key, words: &[&'static str]| {
        let value = section.take(key)?;
        given.push((key, reader.span(value)));
        reader.word(key, value, words).map(str::to_owned)
    };
    let method = word(reader, "method", &["auto", "ml", "pem", "output-error"]);
    let weighting = word(reader, "weighting", &["none", "std"]);
    let interpolation = word(reader, "interpolation", &["linear", "exact"]);
    let solver = word(reader, "solver", &["auto", "explicit", "implicit"]);
    let pairing = word(reader, "pairing", &["none", "antithetic"]);
    let mut count = |reader: &mut Reader, key, most| {
        let value = section.take(key)?;
        given.push((key, reader.span(value)));
        reader.count(key, value, most)
    };
    let realizations = count(reader, "realizations", limits::MAX_REALIZATIONS);
    let starts = count(reader, "starts", limits::MAX_STARTS);
    let bootstrap = count(reader, "bootstrap", limits::MAX_BOOTSTRAP);
    let noise_step_value = section.take("noise_step");
    let noise_step_span = noise_step_value.map(|value| reader.span(value));
    given.extend(noise_step_span.map(|span| ("noise_step", span)));
    let noise_step = noise_step_value.and_then(|value| reader.positive("noise_step", value));
    let transient = section.take("transient").and_then(|value| reader.number("transient", value));
    let horizons = section.take("horizons").map(|value| read_horizons(reader, value)).unwrap_or_default();
    section.finish(reader);
    IdentifyOptions {
        given,
        method,
        realizations,
        noise_step,
        noise_step_span,
        transient,
        weighting,
        interpolation,
        solver,
        is_antithetic: pairing.as_deref() == Some("antithetic"),
        starts,
        bootstrap,
        horizons,
    }
}

/// Numbers of samples and `"free"`, each once.
fn read_horizons(reader: &mut Reader, value: &Spanned<DeValue<'_>>) -> Vec<Horizon> {
    let items = reader.list("horizons", value, "a list such as [1, 10, \"free\"]").unwrap_or_default();
    let mut horizons = Vec::new();
    for item in items {
        let horizon = match item.get_ref() {
            DeValue::String(_) => reader.word("horizons", item, &["free"]).map(|_| Horizon::Free),
            _ => reader.count("horizons", item, limits::MAX_HORIZON).map(|n| Horizon::Samples(n as usize)),
        };
        horizons.extend(horizon.filter(|horizon| !horizons.contains(horizon)));
    }
    horizons
}

/// `[watch]`
fn read_watch(reader: &mut Reader, root: &mut Section<'_, '_>) -> WatchOptions {
    let Some(mut section) = root.take("watch").and_then(|value| reader.table("watch", value, "a table")) else {
        return WatchOptions::default();
    };
    let step = section.take("step").and_then(|value| reader.positive("step", value));
    let rate = section.take("false_alarm_rate");
    let faults = read_named(reader, &mut section, "faults", "a table by parameter name", |reader, name, value| {
        if value.get_ref().as_array().is_none() {
            return Some(vec![reader.number(name, value)?]);
        }
        let items = reader.list(name, value, "a number or a list of numbers")?;
        items.into_iter().map(|item| reader.number(name, item)).collect()
    });
    section.finish(reader);
    let false_alarm_rate = rate.and_then(|value| {
        let rate = reader.number("false_alarm_rate", value)?;
        if RATES.contains(&rate) {
            return Some(rate);
        }
        let (least, most) = (RATES.start(), RATES.end());
        let message = format!("`false_alarm_rate` is {rate}, which is not between {least} and {most}");
        let span = reader.span(value);
        reader.findings.push(Finding::error("out-of-range", span, message).with_help("false alarms per sample"));
        None
    });
    WatchOptions { step, false_alarm_rate, faults }
}

/// `[design]`
fn read_design(reader: &mut Reader, root: &mut Section<'_, '_>) -> DesignOptions {
    let Some(mut section) = root.take("design").and_then(|value| reader.table("design", value, "a table")) else {
        return DesignOptions::default();
    };
    let criterion = section.take("criterion").and_then(|value| {
        let span = reader.span(value);
        reader.text("criterion", value).map(|name| Named { name, span, item: () })
    });
    let duration = section.take("duration").and_then(|value| reader.positive("duration", value));
    let step = section.take("step").and_then(|value| reader.positive("step", value));
    let inputs = read_named(reader, &mut section, "inputs", "a table by input name", read_design_input);
    let sensors = section.take("sensors").and_then(|value| reader.list("sensors", value, "a list of measurements"));
    let sensors = sensors.map(|items| {
        let named = |item: &Spanned<DeValue<'_>>| {
            let span = reader.span(item);
            reader.text("sensors", item).map(|name| Named { name, span, item: () })
        };
        items.into_iter().filter_map(named).collect()
    });
    let choose = section.take("choose").and_then(|value| reader.count("choose", value, limits::MAX_STARTS));
    let samples = section.take("samples").and_then(|value| reader.count("samples", value, limits::MAX_SAMPLES));
    section.finish(reader);
    DesignOptions { criterion, duration, step, inputs, sensors, choose, samples }
}

fn read_design_input(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<DesignInput> {
    let expected = "a table such as { kind = \"prbs\", min = -1, max = 1 }";
    let mut section = reader.table(name, value, expected)?;
    let span = section.span;
    let kind = section.take("kind").map(|value| reader.word("kind", value, &["steps", "prbs", "multisine", "levels"]));
    let min = section.take("min").and_then(|value| reader.number("min", value));
    let max = section.take("max").and_then(|value| reader.number("max", value));
    let rate = section.take("rate").and_then(|value| reader.positive("rate", value));
    let pieces = section.take("pieces").and_then(|value| reader.count("pieces", value, limits::MAX_STARTS));
    section.finish(reader);
    let kind = match kind {
        None => InputKind::Steps,
        Some(word) => match word? {
            "prbs" => InputKind::Prbs,
            "multisine" => InputKind::Multisine,
            "levels" => InputKind::Levels,
            _ => InputKind::Steps,
        },
    };
    match (min, max) {
        (Some(min), Some(max)) if min < max => {
            Some(DesignInput { kind, min, max, rate, pieces: pieces.map(|pieces| pieces as usize) })
        }
        _ => {
            let message = format!("the input `{name}` of `[design]` needs `min` and `max`, the first below the second");
            reader.findings.push(Finding::error("design", span, message).with_names([name]).with_help(expected));
            None
        }
    }
}

/// `[report] signals`
fn read_report(reader: &mut Reader, root: &mut Section<'_, '_>) -> Option<Vec<Named<()>>> {
    let mut section = root.take("report").and_then(|value| reader.table("report", value, "a table"))?;
    let items = section.take("signals").and_then(|value| reader.list("signals", value, "a list of signal names"));
    section.finish(reader);
    let named = |item: &Spanned<DeValue<'_>>| {
        let span = reader.span(item);
        reader.text("signals", item).map(|name| Named { name, span, item: () })
    };
    items.map(|items| items.into_iter().filter_map(named).collect())
}

fn read_uq(reader: &mut Reader, root: &mut Section<'_, '_>) -> UqOptions {
    let Some(mut section) = root.take("uq").and_then(|value| reader.table("uq", value, "a table")) else {
        return UqOptions::default();
    };
    let methods = ["auto", "galerkin", "collocation", "monte-carlo", "quasi-monte-carlo"];
    let method = section.take("method");
    let method_span = method.map(|value| reader.span(value));
    let method = method.and_then(|value| reader.word("method", value, &methods)).map(str::to_owned);
    let mut word = |reader: &mut Reader, key, words: &[&'static str]| {
        section.take(key).and_then(|value| reader.word(key, value, words)).map(str::to_owned)
    };
    let basis = word(reader, "basis", &["total", "hyperbolic", "adaptive"]);
    let grid = word(reader, "grid", &["auto", "tensor", "sparse"]);
    let quadrature = word(reader, "quadrature", &["gauss", "nested"]);
    let initial = word(reader, "initial", &["project", "ramp"]);
    let mut count = |reader: &mut Reader, key, most| section.take(key).and_then(|value| reader.count(key, value, most));
    let degree = count(reader, "degree", limits::MAX_DEGREE);
    let max_degree = count(reader, "max_degree", limits::MAX_DEGREE);
    let samples = count(reader, "samples", limits::MAX_SAMPLES);
    let points = count(reader, "points", limits::MAX_QUADRATURE_POINTS);
    let validation =
        section.take("validation").and_then(|value| reader.whole("validation", value, limits::MAX_SAMPLES));
    let tolerance = section.take("tolerance").and_then(|value| reader.positive("tolerance", value));
    let ramp = section.take("ramp").and_then(|value| reader.positive("ramp", value));
    let variables = section.take("variables").and_then(|value| {
        let items = reader.list("variables", value, "a list of names")?;
        let named = |reader: &mut Reader, item: &Spanned<DeValue<'_>>| {
            let span = reader.span(item);
            reader.text("variables", item).map(|name| Named { name, span, item: () })
        };
        Some(items.into_iter().filter_map(|item| named(reader, item)).collect())
    });
    let span = Some(section.span);
    section.finish(reader);
    UqOptions {
        method,
        method_span,
        span,
        basis,
        degree,
        max_degree,
        tolerance,
        samples,
        grid,
        quadrature,
        points,
        initial,
        ramp,
        validation,
        variables,
    }
}
