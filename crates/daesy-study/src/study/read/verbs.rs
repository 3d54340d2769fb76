//! Reads the options of the verbs.

use daesy_estimate::alarm::RATES;
use daesy_estimate::horizon::Horizon;
use daesy_graph::finding::Finding;
use daesy_integrate::Method;
use toml::Spanned;
use toml::de::DeValue;

use super::super::section::{Reader, Section};
use super::super::{
    DesignCriterion, DesignInput, DesignOptions, IdentifyOptions, InputKind, Named, SimulateOptions, UqOptions,
    WatchOptions,
};
use super::read_named;
use crate::limits;

pub(super) fn read_simulate(reader: &mut Reader, root: &mut Section<'_, '_>) -> SimulateOptions {
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

pub(super) fn read_identify(reader: &mut Reader, root: &mut Section<'_, '_>) -> IdentifyOptions {
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
pub(super) fn read_watch(reader: &mut Reader, root: &mut Section<'_, '_>) -> WatchOptions {
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
pub(super) fn read_design(reader: &mut Reader, root: &mut Section<'_, '_>) -> DesignOptions {
    let Some(mut section) = root.take("design").and_then(|value| reader.table("design", value, "a table")) else {
        return DesignOptions::default();
    };
    let criterion = section.take("criterion").and_then(|value| read_criterion(reader, value));
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

/// A word, or `{ unknown = "D" }` for an unknown that has the name of another criterion.
fn read_criterion(reader: &mut Reader, value: &Spanned<DeValue<'_>>) -> Option<Named<DesignCriterion>> {
    let span = reader.span(value);
    if value.get_ref().as_table().is_none() {
        return reader.text("criterion", value).map(|name| Named { name, span, item: DesignCriterion::Word });
    }
    let mut section = reader.table("criterion", value, "a text, or a table")?;
    let unknown = section.take("unknown").and_then(|value| reader.text("unknown", value));
    section.finish(reader);
    if unknown.is_none() {
        let finding = Finding::error("design", span, "the table `criterion` names no unknown");
        reader.findings.push(finding.with_help("write it as `criterion = { unknown = \"D\" }`"));
    }
    unknown.map(|name| Named { name, span, item: DesignCriterion::Unknown })
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
pub(super) fn read_report(reader: &mut Reader, root: &mut Section<'_, '_>) -> Option<Vec<Named<()>>> {
    let mut section = root.take("report").and_then(|value| reader.table("report", value, "a table"))?;
    let items = section.take("signals").and_then(|value| reader.list("signals", value, "a list of signal names"));
    section.finish(reader);
    let named = |item: &Spanned<DeValue<'_>>| {
        let span = reader.span(item);
        reader.text("signals", item).map(|name| Named { name, span, item: () })
    };
    items.map(|items| items.into_iter().filter_map(named).collect())
}

pub(super) fn read_uq(reader: &mut Reader, root: &mut Section<'_, '_>) -> UqOptions {
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
