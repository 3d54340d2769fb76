//! Reads what is random in time: disturbances, and the errors of measurements.

use daesy_graph::Span;
use daesy_graph::finding::Finding;
use toml::Spanned;
use toml::de::DeValue;

use super::super::section::Reader;
use super::super::{Disturbance, DisturbanceProcess, Measurement, Presampling, Quantity, QuantityValue};
use crate::limits;

pub(super) fn read_disturbance(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<Disturbance> {
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
    let matern = section.take("matern").map(|value| read_matern(reader, name, value));
    let walk = section.take("walk").map(|value| reader.quantity("walk", value));
    let num = section.take("num").map(|value| reader.quantities("num", value));
    let den = section.take("den").map(|value| reader.quantities("den", value));
    let starts_at_zero = section
        .take("initial")
        .and_then(|value| reader.word("initial", value, &["stationary", "zero"]))
        .is_some_and(|word| word == "zero");
    section.finish(reader);
    for (key, quantity) in [("std", &std), ("walk", &walk)] {
        if let Some(Some(quantity)) = quantity {
            refuse_negative(reader, key, name, quantity);
        }
    }
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
    if let Some(finding) = wrong_shape(name, &signals, &process, span) {
        reader.findings.push(finding);
        return None;
    }
    Some(Disturbance { signals, process, starts_at_zero })
}

/// What does not fit together in a disturbance: its signals, and the sizes of its matrices.
fn wrong_shape(name: &str, signals: &[String], process: &DisturbanceProcess, span: Span) -> Option<Finding> {
    if let Some(twice) = signals.iter().enumerate().find(|(at, signal)| signals[..*at].contains(signal)) {
        let message = format!("disturbance `{name}`: `signals` names `{}` twice", twice.1);
        return Some(Finding::error("given-twice", span, message).with_names([name]));
    }
    if !matches!(process, DisturbanceProcess::Filter { .. }) && signals.len() != 1 {
        let message = format!("disturbance `{name}`: `signals` names {} signals, this process has one", signals.len());
        return Some(
            Finding::error("matrix-shape", span, message)
                .with_names([name])
                .with_help("several signals need a shaping filter: `A`, `B`, and a row of `C` for each of them"),
        );
    }
    let DisturbanceProcess::Filter { a, b, c } = process else { return None };
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
    let finding = Finding::error("matrix-shape", span, format!("disturbance `{name}`: {}", wrong?)).with_names([name]);
    if c.len() == signals.len() {
        return Some(finding);
    }
    let help = "disturbances that depend on each other are one process: name their inputs in `signals = [..]`";
    Some(finding.with_help(help))
}

fn incomplete(reader: &mut Reader, name: &str, span: Span) -> Option<Disturbance> {
    let message = format!("the disturbance `{name}` has no complete description");
    let help = "give one of: `std` and `time_constant`; `A`, `B`, `C` (shaping filter); `white` (intensity); `num` and \
                `den` (spectral factor); `matern = { smoothness, std, length }`; `walk` (rate of a random walk), alone \
                or with `std`";
    reader.findings.push(Finding::error("disturbance-form", span, message).with_names([name]).with_help(help));
    None
}

pub(super) fn written(quantity: &Quantity) -> String {
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
fn read_matern(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<DisturbanceProcess> {
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
    refuse_negative(reader, "std", name, &std);
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

/// A size below zero, written as a number.
fn refuse_negative(reader: &mut Reader, key: &str, name: &str, quantity: &Quantity) {
    if let Quantity { value: QuantityValue::Number(number), span } = quantity
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

pub(super) fn read_measurement(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<Measurement> {
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
        if let Some(quantity) = quantity {
            refuse_negative(reader, key, name, quantity);
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
