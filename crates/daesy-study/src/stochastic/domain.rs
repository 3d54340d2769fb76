//! Well-posedness for all values of the unknowns, not only where a search starts [@gerdin2007, definition 1].
//!
//! The terms by which noise reaches a signal are rational functions of the unknowns as far as coefficients are
//! polynomials. Such a function is zero nowhere but on a thin set, or everywhere; so a few points in general position
//! decide for almost all values. Thin sets remain: the faces of the box, values such as 0 and 1 at which coefficients
//! vanish, and values between which the leading coefficient of `det(s E - F)` changes its sign, where a degree of
//! freedom is lost. A signal that is infinite for almost all values is an error, wherever the search starts; one that
//! is infinite on a thin set only is a warning with its place.

use daesy_graph::finding::Finding;
use daesy_graph::{Evaluator, ExprId, VarId};
use daesy_pencil::{Mat, PencilOptions, split_finite_infinite};
use daesy_structure::linearize::{LinearKind, LinearModel, parameter_values};

use super::{PointVerdict, SignalVerdict, judge_point};
use crate::load::Loaded;
use crate::prepare::study_number;
use crate::study::{Quantity, Study};

/// Larger models are judged where the search starts only.
const LARGEST: usize = 120;

/// Points in general position.
const GENERAL: usize = 4;

/// Points of a line through the box on which degrees of freedom may be lost in between.
const ON_A_LINE: usize = 9;

/// An unknown and its bounds.
struct Side {
    name: String,
    var: VarId,
    lower: f64,
    upper: f64,
    /// Whether the bounds are part of the domain; otherwise they only say where to look.
    has_lower: bool,
    has_upper: bool,
}

/// Extends verdicts at the start of a search to all values of the unknowns, and tells where it is otherwise.
pub(super) fn widen(loaded: &Loaded, study: &Study, verdicts: &mut [SignalVerdict]) -> Vec<Finding> {
    let sides = sides(loaded, study);
    if sides.is_empty() || loaded.flat.size().unknowns > LARGEST || verdicts.is_empty() {
        return Vec::new();
    }
    let mut moved = loaded.clone();
    let mut findings = Vec::new();
    for number in 0..GENERAL {
        let theta = general_point(&sides, number);
        let Some(mut there) = judge_at(&mut moved, study, &sides, &theta) else { continue };
        for (verdict, other) in verdicts.iter_mut().zip(&mut there.signals) {
            if verdict.finite_variance && !other.finite_variance {
                other.at = named(&sides, &theta);
                findings.push(told(study, other));
                *verdict = other.clone();
            }
        }
    }
    let mut seen: Vec<String> = Vec::new();
    for theta in special_points(&mut moved, &sides) {
        let Some(mut there) = judge_at(&mut moved, study, &sides, &theta) else { continue };
        for (verdict, other) in verdicts.iter().zip(&mut there.signals) {
            if verdict.finite_variance && !other.finite_variance && !seen.contains(&verdict.name) {
                other.at = named(&sides, &theta);
                seen.push(verdict.name.clone());
                findings.push(thin(study, other));
            }
        }
    }
    findings
}

/// Unknowns that the model has, with finite ranges to look at.
fn sides(loaded: &Loaded, study: &Study) -> Vec<Side> {
    let Ok(values) = parameter_values(&loaded.flat) else { return Vec::new() };
    let mut sides = Vec::new();
    for unknown in &study.unknown {
        let Some(var) = loaded.flat.find(&unknown.name) else { continue };
        let variable = loaded.flat.variables[var.index()].clone();
        let number = |given: &Option<Quantity>, declared: Option<ExprId>| -> Option<f64> {
            let known = |var: VarId, _: u16| values[var.index()];
            let value = match given {
                Some(quantity) => study_number(loaded, quantity, &|var| known(var, 0)).ok()?,
                None => Evaluator::new().evaluate_one(&loaded.flat.graph, declared?, &known),
            };
            value.is_finite().then_some(value)
        };
        let (lower, upper) = (number(&unknown.item.min, variable.min), number(&unknown.item.max, variable.max));
        let start = values[var.index()];
        let reach = 2.0 * start.abs().max(if start == 0.0 { 1.0 } else { 0.0 });
        sides.push(Side {
            name: unknown.name.clone(),
            var,
            lower: lower.unwrap_or(upper.unwrap_or(start).min(start) - reach),
            upper: upper.unwrap_or(lower.unwrap_or(start).max(start) + reach),
            has_lower: lower.is_some(),
            has_upper: upper.is_some(),
        });
    }
    sides.retain(|side| side.upper > side.lower);
    sides
}

/// A point in general position: fractional parts of multiples of irrational numbers.
fn general_point(sides: &[Side], number: usize) -> Vec<f64> {
    sides
        .iter()
        .enumerate()
        .map(|(at, side)| {
            let fraction = (0.5 + (number + 1) as f64 * (2.0 + at as f64).sqrt() * 0.618_033_988_749_895).fract();
            side.lower + (0.05 + 0.9 * fraction) * (side.upper - side.lower)
        })
        .collect()
}

/// Points where something special may happen, one unknown special at a time and the others in general position.
fn special_points(loaded: &mut Loaded, sides: &[Side]) -> Vec<Vec<f64>> {
    let base = general_point(sides, GENERAL);
    let mut points = Vec::new();
    for (at, side) in sides.iter().enumerate() {
        let with = |value: f64| {
            let mut theta = base.clone();
            theta[at] = value;
            theta
        };
        let faces = [(side.lower, side.has_lower), (side.upper, side.has_upper)];
        points.extend(faces.iter().filter(|face| face.1).map(|face| with(face.0)));
        points.extend([-1.0, 0.0, 1.0].iter().filter(|&&x| side.lower < x && x < side.upper).map(|&x| with(x)));
        points.extend(losses(loaded, sides, at, &base).into_iter().map(with));
    }
    points
}

/// Values of one unknown at which the leading coefficient of `det(s E - F)` changes its sign.
fn losses(loaded: &mut Loaded, sides: &[Side], at: usize, base: &[f64]) -> Vec<f64> {
    let side = &sides[at];
    let mut sign = |value: f64| -> Option<f64> {
        let mut theta = base.to_vec();
        theta[at] = value;
        put(loaded, sides, &theta);
        let model = LinearModel::new(&loaded.flat).ok().filter(|model| model.kind == LinearKind::Constant)?;
        let split = split_finite_infinite(&model.matrices(0.0).pencil().ok()?, &PencilOptions::default()).ok()?;
        let parity = if split.n_infinite % 2 == 0 { 1.0 } else { -1.0 };
        Some(parity * determinant_sign(&split.left) * determinant_sign(&split.right))
    };
    let place = |k: usize| side.lower + (side.upper - side.lower) * k as f64 / (ON_A_LINE - 1) as f64;
    let signs: Vec<Option<f64>> = (0..ON_A_LINE).map(|k| sign(place(k))).collect();
    let mut found = Vec::new();
    for k in 1..ON_A_LINE {
        let (Some(before), Some(after)) = (signs[k - 1], signs[k]) else { continue };
        if before * after >= 0.0 {
            continue;
        }
        let (mut low, mut high) = (place(k - 1), place(k));
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            match sign(middle) {
                Some(here) if here * before > 0.0 => low = middle,
                Some(here) if here != 0.0 => high = middle,
                _ => {
                    low = middle;
                    high = middle;
                }
            }
        }
        found.push(0.5 * (low + high));
    }
    found
}

fn determinant_sign(a: &Mat<f64>) -> f64 {
    let lengths: Vec<f64> = (0..a.nrows()).map(|i| a.as_ref().row(i).norm_l2().max(f64::MIN_POSITIVE)).collect();
    let scaled = Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] / lengths[i]);
    let determinant = scaled.determinant();
    if determinant == 0.0 { 0.0 } else { determinant.signum() }
}

/// Gives the unknowns values.
fn put(loaded: &mut Loaded, sides: &[Side], theta: &[f64]) {
    for (side, &value) in sides.iter().zip(theta) {
        let number = loaded.flat.graph.number(value);
        loaded.flat.variables[side.var.index()].binding = Some(number);
    }
}

fn judge_at(loaded: &mut Loaded, study: &Study, sides: &[Side], theta: &[f64]) -> Option<PointVerdict> {
    put(loaded, sides, theta);
    let model = LinearModel::new(&loaded.flat).ok()?;
    judge_point(loaded, study, &model).ok()
}

fn named(sides: &[Side], theta: &[f64]) -> Vec<(String, f64)> {
    sides.iter().zip(theta).map(|(side, &value)| (side.name.clone(), value)).collect()
}

/// The error of a signal that is infinite for almost all values.
fn told(study: &Study, verdict: &SignalVerdict) -> Finding {
    let mut finding = super::ill_posed(verdict, &[], super::span_of(study, verdict));
    finding
        .message
        .push_str("; it is finite where the search starts, but not for almost all other values within the bounds");
    finding
}

/// The warning for a thin set.
fn thin(study: &Study, verdict: &SignalVerdict) -> Finding {
    let disturbance = verdict.disturbance.clone().unwrap_or_default();
    let message = format!(
        "`{}` has infinite variance{}, which the bounds allow: there the disturbance `{disturbance}` reaches it as white noise or \
         differentiated",
        verdict.name,
        verdict.place()
    );
    Finding::warning("ill-posed-at", super::span_of(study, verdict), message)
        .with_names([&verdict.name, &disturbance])
        .with_help("keep the unknowns away from these values by `min` and `max`")
}
