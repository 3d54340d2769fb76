//! The anti-aliasing filters of measurements as parts of the model.
//!
//! A sensor that is read by sampling has a presampling filter in front of it. Its model, `order` equal lags in series,
//!
//! ```text
//! T v_1' = y - v_1,    T v_2' = v_1 - v_2,    ..        what is measured is the last of them
//! ```
//!
//! also gives signals a finite variance that would have none: each lag adds 2 to the pole excess of what it passes
//! [@gerdin2007, sec. 4]. The lags are variables of the model like all others; at the start they have settled on the
//! signal.

use std::sync::Arc;

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, Origin, Variable, VariableKind};
use daesy_graph::{ExprId, Span, VarId};

use crate::diagnostic::Diagnostic;
use crate::load::{Loaded, quantity_expression};
use crate::stochastic;
use crate::study::{Presampling, Study};

/// The share of the sampling interval that `auto` takes for the time constant.
const AUTO_SHARE: f64 = 0.2;

/// A filter with its numbers found.
struct Filter {
    measurement: usize,
    time_constant: ExprId,
    order: usize,
}

/// Puts the presampling filters of the study into the model and lets their measurements read them.
///
/// # Errors
/// Diagnostics, when a number is wrong or `auto` cannot be worked out.
pub(crate) fn insert(loaded: &mut Loaded) -> Result<(), Vec<Diagnostic>> {
    let Some(study) = loaded.study.clone() else { return Ok(()) };
    if study.measurements.iter().all(|measurement| measurement.item.presampling.is_none()) {
        return Ok(());
    }
    let resolve = |findings: Vec<Finding>| -> Vec<Diagnostic> {
        findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)).collect()
    };
    let filters = filters(loaded, &study).map_err(resolve)?;
    for filter in filters {
        let last = add_lags(loaded, &study, &filter);
        if let Some(study) = &mut loaded.study {
            study.measurements[filter.measurement].item.variable = Some(last);
        }
    }
    Ok(())
}

fn filters(loaded: &mut Loaded, study: &Study) -> Result<Vec<Filter>, Vec<Finding>> {
    let mut filters = Vec::new();
    let mut findings = Vec::new();
    for (at, measurement) in study.measurements.iter().enumerate() {
        match &measurement.item.presampling {
            None => {}
            Some(Presampling::Given { time_constant, order }) => {
                match quantity_expression(&mut loaded.flat.graph, &loaded.flat.variables, time_constant) {
                    Ok(time_constant) => {
                        filters.push(Filter { measurement: at, time_constant, order: *order as usize });
                    }
                    Err(errors) => findings.extend(errors),
                }
            }
            Some(Presampling::Auto(span)) => match automatic(loaded, at, *span) {
                Ok(filter) => filters.extend(filter),
                Err(finding) => findings.push(*finding),
            },
        }
    }
    if findings.is_empty() { Ok(filters) } else { Err(findings) }
}

/// The least order that gives the signal a finite variance, with a fifth of the sampling interval; `None` if it needs
/// none.
fn automatic(loaded: &mut Loaded, at: usize, span: Span) -> Result<Option<Filter>, Box<Finding>> {
    let Some(study) = &loaded.study else { return Ok(None) };
    let name = study.measurements[at].name.clone();
    let judged = stochastic::judge(loaded);
    let Some(verdict) = judged.verdict else {
        let message = format!("how much filtering `{name}` needs cannot be worked out: its variance is not known");
        return Err(Box::new(
            Finding::error("presampling", span, message)
                .with_names([&name])
                .with_help("say `presampling = { time_constant = .., order = .. }`"),
        ));
    };
    let is_meant =
        |signal: &&stochastic::SignalVerdict| signal.name == name && signal.role == stochastic::Role::Measured;
    let order = verdict.signals.iter().find(is_meant).map_or(0, |signal| signal.presampling_order);
    if order == 0 {
        return Ok(None);
    }
    // Without data nothing is measured: any time constant gives the same verdict.
    let interval = if loaded.n_experiments() > 0 { sampling_interval(loaded) } else { Some(1.0) };
    let Some(interval) = interval else {
        let message = format!("the time constant for `{name}` is a share of the sampling interval, which is not known");
        return Err(Box::new(
            Finding::error("presampling", span, message)
                .with_names([&name])
                .with_help("say `presampling = { time_constant = .., order = .. }`"),
        ));
    };
    let time_constant = loaded.flat.graph.number(AUTO_SHARE * interval);
    Ok(Some(Filter { measurement: at, time_constant, order }))
}

/// The median distance of samples.
fn sampling_interval(loaded: &Loaded) -> Option<f64> {
    let data = loaded.experiments().ok()?;
    let mut steps: Vec<f64> =
        data.iter().flat_map(|data| data.times.windows(2).map(|pair| pair[1] - pair[0])).filter(|h| *h > 0.0).collect();
    steps.sort_by(f64::total_cmp);
    steps.get(steps.len() / 2).copied()
}

/// The name of the last lag of a measurement's filter.
pub(crate) fn last_lag(measurement: &str) -> String {
    format!("presampled({measurement})")
}

/// Adds the lags of a filter to the model; gives the name of the last.
fn add_lags(loaded: &mut Loaded, study: &Study, filter: &Filter) -> String {
    let measurement = &study.measurements[filter.measurement];
    let flat = &mut loaded.flat;
    let mut name = measurement.name.clone();
    let Some(signal) = flat.find(&name) else { return name };
    let unit = flat.variables[signal.index()].clone();
    let (value, mut before) = (flat.graph.var(signal), flat.graph.var(signal));
    for lag in 1..=filter.order {
        name = if lag == filter.order {
            last_lag(&measurement.name)
        } else {
            format!("presampled({}, {lag})", measurement.name)
        };
        let var = VarId(flat.variables.len() as u32);
        flat.variables.push(Variable {
            description: Some(format!("presampling filter of {}, lag {lag}", measurement.name).into()),
            nominal: unit.nominal,
            unit: unit.unit.clone(),
            ..Variable::new(name.clone(), VariableKind::Continuous, measurement.span)
        });
        let graph = &mut flat.graph;
        let rate = graph.der(var, 1);
        let lhs = graph.mul(filter.time_constant, rate);
        let own = graph.var(var);
        let rhs = graph.sub(before, own);
        let equation = |lhs: ExprId, rhs: ExprId| Equation {
            lhs,
            rhs,
            origin: Origin::Equation,
            component: Arc::from(""),
            span: Span::NONE,
        };
        flat.equations.push(equation(lhs, rhs));
        flat.initial_equations.push(equation(own, value));
        before = own;
    }
    name
}
