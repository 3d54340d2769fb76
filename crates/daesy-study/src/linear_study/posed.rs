//! A linear study whose question has an answer.

use daesy_estimate::descriptor::ParametricModel;
use daesy_estimate::state_space::state_space;
use daesy_graph::finding::{Finding, Level};
use daesy_structure::linearize::LinearModel;

use super::refusal::failure;
use super::{LinearStudy, SignalsWanted, build_linear_study};
use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::load::Loaded;
use crate::problem::Problem;
use crate::stochastic;

/// Builds a linear study and makes sure that its question has an answer: finite variances, inputs that are smooth
/// enough.
///
/// # Errors
/// Diagnostics with places in study, model or data.
pub fn posed(
    loaded: &Loaded,
    problem: &Problem,
    model: &LinearModel,
    wanted: SignalsWanted,
) -> Result<LinearStudy, Failure> {
    let mut asked = loaded.clone();
    if wanted == SignalsWanted::No
        && let Some(study) = &mut asked.study
    {
        study.signals.clear();
    }
    let judged = stochastic::judge(&asked);
    let sources = loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
    let wrong: Vec<Diagnostic> = judged
        .findings
        .iter()
        .filter(|finding| finding.level == Level::Error)
        .map(|finding| Diagnostic::resolve(finding, &sources))
        .collect();
    if !wrong.is_empty() {
        return Err(Failure::Input(wrong));
    }
    let study = build_linear_study(loaded, problem, model, wanted)?;
    let theta = study.start();
    let coefficients = study.coefficients(&theta).map_err(|error| failure(loaded, &study, &theta, &error))?;
    let jet = state_space(&coefficients, &[]).map_err(|error| failure(loaded, &study, &theta, &error))?;
    let mut findings = Vec::new();
    let maps = [(&jet.value.measured, "measured"), (&jet.value.estimated, "estimated")];
    for (map, role) in maps {
        for (order, term) in map.inputs.iter().enumerate().skip(1) {
            for (column, input) in study.inputs.iter().enumerate() {
                let Some(available) = input.derivatives_available.filter(|&available| order > usize::from(available))
                else {
                    continue;
                };
                if let Some(row) = (0..term.nrows()).find(|&row| term[(row, column)] != 0.0) {
                    let signal = if role == "measured" { &study.measured[row].name } else { &study.estimated[row] };
                    let message = format!(
                        "the {role} `{signal}` holds derivative {order} of the input `{}`, which has {available} as declared",
                        input.name
                    );
                    findings.push(
                        Finding::error("input-not-smooth", input.span, message)
                            .with_names([signal, &input.name])
                            .with_help("declare how it runs between samples: `hold = \"foh\"` has one derivative, `\"cubic\"` three"),
                    );
                }
            }
        }
    }
    if findings.is_empty() {
        Ok(study)
    } else {
        Err(Failure::Input(findings.iter().map(|finding| Diagnostic::resolve(finding, &sources)).collect()))
    }
}
