//! Starts at which the equations do not determine all unknowns though beside them they do, as `y x = sin(x)` where
//! x(0) = 0: the start is the limit of the solution that begins there.
//!
//! With x the variables whose derivatives occur, x_0 their values at the start t_0, and h_j = h_0 / 2^j, j = 0..4, the
//! solution beside the start satisfies
//!
//! ```text
//! x(t_0 + h_j) = x_0 + integral from 0 to h_j of p,     p the polynomial through (h_j, x'(t_0 + h_j)),
//! ```
//!
//! where the equations at t_0 + h_j, which determine all unknowns there, give x' and everything else from x. This is a
//! collocation method whose nodes leave out the start, as Radau's do [@hairer1999]; it is solved by fixed-point
//! iteration. An iteration that does not converge proves no limit, as that of q' = y + 1, y x = q, x' = 1, whose
//! solutions are y = c + log(t). The polynomial through the values v(h_j) of an unknown has the value v(0) + O(h_0^5)
//! at zero (Neville's scheme).
//!
//! What is taken for the limit must be settled:
//!
//! 1. the last two columns of Neville's scheme agree;
//! 2. so do the limits with two values of h_0, where the second iteration begins with other rates, so that a solution
//!    among many, such as x = 1 + c t of t x' = x - 1, is found out;
//! 3. the start that is found with the limits as start values is where they lead, in all variables. What has no power
//!    series at the start, such as the cubic root of h, must approach the start as a power of h does.
//!
//! How often the equations would have to be differentiated at t_0 itself does not matter.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, Variable, VariableKind};
use daesy_graph::{Span, VarId};
use daesy_integrate::HybridStart;
use daesy_system::DaeSystem as _;
use rustc_hash::FxHashMap;

use crate::prepare::{Prepared, Road};

/// Nodes as fractions of the largest distance h_0.
const NODES: [f64; 5] = [1.0, 1.0 / 2.0, 1.0 / 4.0, 1.0 / 8.0, 1.0 / 16.0];

/// Largest distances from the start as fractions of the run; two that follow each other must agree.
const DISTANCES: [f64; 5] = [1.0 / 4.0, 1.0 / 32.0, 1.0 / 256.0, 1.0 / 2048.0, 1.0 / 16384.0];

/// Values at fewer distances do not tell what they approach.
const LEAST_DISTANCES: usize = 4;

/// How well a limit must be determined, relative to what is extrapolated.
const SETTLED: f64 = 1e-6;

/// How well limits from two distances must agree.
const AGREES: f64 = 1e-5;

/// Differences below this fraction of the largest value of the start are rounding.
const ROUNDING: f64 = 1e-14;

/// Where a power of h is extrapolated, it must meet the start to within this fraction of its distance.
const APPROACHES: f64 = 1e-3;

/// Iterations for the rates beside the start, and by how much these may change in the last one.
const MAX_ITERATIONS: usize = 60;
const CONVERGED: f64 = 1e-10;

/// By how much the rates with which a second iteration begins differ.
const KICK: f64 = 0.1;

/// How often start values are renewed.
const MAX_ROUNDS: usize = 6;

/// Lets a model begin at the limit of the solution that begins at a special start: variables that do not are given
/// start values.
///
/// # Errors
/// When there is no limit that is settled, which the finding says.
pub(crate) fn start_at_limits(flat: &mut FlatDae, road: &Road<'_>, time: f64, span: f64) -> Result<(), Finding> {
    let mut beside = Beside::new(flat, road).ok_or_else(|| no_limit(flat, time, None))?;
    for _ in 0..MAX_ROUNDS {
        let prepared = road.compiled(flat).ok();
        let start = prepared.as_ref().and_then(|prepared| Some((prepared, prepared.start(time).ok()?)));
        let Some((prepared, start)) = start else { return Err(no_limit(flat, time, None)) };
        let columns = &prepared.system.description().observed;
        let row = prepared.observed(time, &start);
        let limits = beside.limits(prepared, &start, &row, time, span).ok_or_else(|| no_limit(flat, time, None))?;
        let largest = row.iter().filter(|value| value.is_finite()).fold(0.0f64, |most, value| most.max(value.abs()));
        let mut moved = Vec::new();
        let mut off = None;
        for (name, &here) in columns.iter().zip(&row) {
            let Some(limit) = limits.get(name) else { continue };
            let var = flat.find(name).filter(|var| flat.variables[var.index()].kind == VariableKind::Continuous);
            match (var, limit.value) {
                (_, Some(value)) if (value - here).abs() <= SETTLED * limit.size + ROUNDING * largest => {}
                (Some(var), Some(value)) if flat.variables[var.index()].fixed != Some(true) => moved.push((var, value)),
                (None, None) => {}
                (Some(_), None) if limit.is_approaching(here) => {}
                _ => off = off.or(Some(name.clone())),
            }
        }
        if moved.is_empty() {
            return off.map_or(Ok(()), |name| Err(no_limit(flat, time, Some(&name))));
        }
        for (var, value) in moved {
            flat.variables[var.index()].start = Some(flat.graph.number(value));
        }
    }
    Err(no_limit(flat, time, None))
}

/// The refusal of a start without a limit.
fn no_limit(flat: &FlatDae, time: f64, name: Option<&str>) -> Finding {
    let of = name.map_or_else(String::new, |name| format!(" for `{name}`"));
    let message = format!(
        "at the start, t = {time}, the equations do not determine all unknowns, but beside it they do; no limit of \
         the solution that begins there was found{of}"
    );
    let var = name.and_then(|name| flat.find(name));
    let first = flat.equations.iter().map(|equation| equation.span).min().unwrap_or(Span::NONE);
    let place = var.map_or(first, |var| flat.variables[var.index()].span);
    let help = "begin a little later, or write the equations so that they determine all unknowns at the start; what is \
                `fixed` there must be where the solution leads";
    Finding::error("special-start", place, message).with_names(name).with_help(help)
}

/// The refusal of limits that other values of parameters would move: they were put into the model as numbers. `kept`
/// is the model at other values with the numbers it was given, `own` the one with the limits there; states and
/// parameters that the start determines tell them apart. What is no state is not followed from there: without a
/// value, it is refused where it is asked for.
pub(crate) fn moving_limit(kept: &FlatDae, own: &FlatDae, road: &Road<'_>, time: f64) -> Option<Finding> {
    let started = |flat: &FlatDae| {
        let prepared = road.compiled(flat).ok()?;
        let start = prepared.start(time).ok()?.initialized;
        let regular = prepared.system.regular();
        let parameters = regular.parameters.iter().map(|var| regular.flat.variables[var.index()].name.clone());
        let states = prepared.system.description().states.iter().map(|state| state.name.clone());
        let named: Vec<(String, f64)> = states.zip(start.states).chain(parameters.zip(start.parameters)).collect();
        Some(named)
    };
    let own_values = started(own)?;
    let kept_values = started(kept).unwrap_or_default();
    let largest = own_values.iter().fold(0.0f64, |most, (_, value)| most.max(value.abs()));
    let moves = |(at, (_, there)): &(usize, &(String, f64))| {
        kept_values
            .get(*at)
            .is_none_or(|(_, here)| (here - there).abs() > AGREES * here.abs().max(there.abs()) + ROUNDING * largest)
    };
    let (_, (name, _)) = own_values.iter().enumerate().find(moves)?;
    let message = format!(
        "at the start, t = {time}, the equations do not determine `{name}`; the limit of solutions beside it, which a \
         simulation takes, depends on parameters that the study varies"
    );
    let help = "begin a little later: leave out the samples at the start, or give `start` in `[simulate]`";
    let place = own.find(name).map_or(Span::NONE, |var| own.variables[var.index()].span);
    Some(Finding::error("special-start", place, message).with_names([name]).with_help(help))
}

/// What values beside the start tend to.
struct Limit {
    /// None where it is not settled.
    value: Option<f64>,
    /// The largest of the values.
    size: f64,
    /// Values at distances that shrink by the same factor, where it is not.
    values: Vec<f64>,
}

impl Limit {
    /// The value at 0 of the polynomial through values at h, h/2, h/4 ..
    fn of(values: Vec<f64>) -> Self {
        let size = values.iter().fold(0.0f64, |size, value| size.max(value.abs()));
        let mut column = values.clone();
        let mut before = f64::NAN;
        for order in 1..values.len() {
            let factor = f64::from(1u32 << order) - 1.0;
            before = column.last().copied().unwrap_or(f64::NAN);
            column = column.windows(2).map(|pair| pair[1] + (pair[1] - pair[0]) / factor).collect();
        }
        let value = column.last().copied().filter(|limit| (limit - before).abs() <= SETTLED * size);
        Self { value, size, values: Vec::new() }
    }

    /// Whether values have the limit c as those of the form c + b h^a, a > 0, have: of three of them, h shrinking by
    /// the same factor, Aitken's formula gives c. What the iteration for the rates gives has this form too where
    /// rates have it, for its error is the same fraction at all distances.
    fn is_approaching(&self, c: f64) -> bool {
        let distance = self.values.iter().fold(0.0f64, |most, value| most.max((value - c).abs()));
        let limits = self.values.windows(3).map(|three| {
            let (first, second) = (three[1] - three[0], three[2] - three[1]);
            three[2] - second * second / (second - first)
        });
        let is_near = |limit: f64| (limit - c).abs() <= APPROACHES * distance;
        let is_shrinking = self.values.windows(2).all(|pair| (pair[1] - c).abs() < (pair[0] - c).abs());
        self.values.len() > 2 && is_shrinking && limits.skip(1).all(is_near)
    }
}

/// A variable that is followed from the start on.
struct Followed {
    /// The parameter that its start is.
    start: VarId,
    /// Columns of its value and of its rate.
    value: usize,
    rate: usize,
}

/// The equations beside the start, where variables begin at parameters.
struct Beside {
    prepared: Prepared,
    followed: Vec<Followed>,
    /// Parameters that the start determines.
    determined: Vec<VarId>,
    /// By column: whether it is a variable or derivative that has a limit.
    is_continuous: Vec<bool>,
}

impl Beside {
    fn new(flat: &FlatDae, road: &Road<'_>) -> Option<Self> {
        let mut moved = flat.clone();
        let known = road.compiled(flat).ok()?;
        let names = &known.system.description().observed;
        let column = |name: &str| names.iter().position(|known| known == name);
        // What holds at the start alone does not hold beside it.
        moved.initial_equations.clear();
        let mut determined = Vec::new();
        for (at, variable) in moved.variables.iter_mut().enumerate() {
            if variable.kind == VariableKind::Parameter && variable.fixed == Some(false) {
                variable.fixed = None;
                variable.binding = Some(moved.graph.number(0.0));
                determined.push(VarId(at as u32));
            }
        }
        let mut followed = Vec::new();
        let mut is_followed = vec![false; moved.variables.len()];
        for &var in &known.system.regular().differentiated {
            let name = flat.variables[var.index()].name.clone();
            let Some((value, rate)) = column(&name).zip(column(&format!("der({name})"))) else { continue };
            let start = VarId(moved.variables.len() as u32);
            let mut parameter = Variable::new(format!("@start({name})"), VariableKind::Parameter, Span::NONE);
            parameter.binding = Some(moved.graph.number(0.0));
            moved.variables.push(parameter);
            moved.variables[var.index()].start = Some(moved.graph.var(start));
            is_followed[var.index()] = true;
            followed.push(Followed { start, value, rate });
        }
        for (variable, is_followed) in moved.variables.iter_mut().zip(is_followed) {
            if variable.kind == VariableKind::Continuous && !is_followed {
                variable.fixed = None;
            }
        }
        let prepared = road.compiled(&moved).ok()?;
        if prepared.system.description().observed != *names {
            return None;
        }
        let is_continuous = names
            .iter()
            .map(|name| flat.find(name).is_none_or(|var| flat.variables[var.index()].kind == VariableKind::Continuous));
        let is_continuous = is_continuous.collect();
        Some(Self { prepared, followed, determined, is_continuous })
    }

    /// The limits of all variables and derivatives along the solution that begins at a start with this row; none where
    /// there is no solution, or another one with other distances.
    fn limits(
        &mut self,
        prepared: &Prepared,
        start: &HybridStart,
        row: &[f64],
        time: f64,
        span: f64,
    ) -> Option<FxHashMap<String, Limit>> {
        let known = prepared.system.regular().parameters.iter().zip(&start.initialized.parameters);
        let known: FxHashMap<VarId, f64> = known.map(|(&var, &value)| (var, value)).collect();
        let given: Vec<(VarId, f64)> =
            self.determined.iter().filter_map(|&var| Some((var, *known.get(&var)?))).collect();
        let largest = row.iter().filter(|value| value.is_finite()).fold(0.0f64, |most, value| most.max(value.abs()));
        let mut found: Option<Vec<Limit>> = None;
        let mut before: Option<Vec<Limit>> = None;
        let mut farthest = Vec::new();
        for (at, fraction) in DISTANCES.into_iter().enumerate() {
            let place = Place { time, longest: fraction * span, row, given: &given };
            let kick = KICK * (at % 2) as f64 * largest.max(1.0) / span;
            let rows = self.solution(&place, kick);
            match &rows {
                Some(rows) => farthest.extend(rows.first().cloned()),
                None => farthest.clear(),
            }
            let limits: Option<Vec<Limit>> = rows.map(|rows| {
                (0..row.len()).map(|column| Limit::of(rows.iter().map(|row| row[column]).collect())).collect()
            });
            let do_agree = before.iter().zip(&limits).any(|(before, limits)| {
                let mut asked = before.iter().zip(limits).zip(&self.is_continuous).filter(|(_, is_asked)| **is_asked);
                asked.all(|((before, here), _)| agree(before, here, largest))
            });
            if found.is_none() && do_agree {
                found = limits;
            } else {
                before = limits;
            }
            let is_all = |found: &Vec<Limit>| {
                found.iter().zip(&self.is_continuous).all(|(limit, is_asked)| limit.value.is_some() || !is_asked)
            };
            if found.as_ref().is_some_and(is_all) {
                break;
            }
        }
        let mut found = found?;
        if farthest.len() >= LEAST_DISTANCES {
            for (column, limit) in found.iter_mut().enumerate() {
                limit.values = farthest.iter().map(|row| row[column]).collect();
            }
        }
        let names = self.prepared.system.description().observed.iter();
        let limits = names.cloned().zip(found).zip(&self.is_continuous);
        Some(limits.filter(|(_, is_continuous)| **is_continuous).map(|(named, _)| named).collect())
    }

    /// Rows at the nodes beside a start; none if the iteration for the rates does not converge.
    fn solution(&mut self, place: &Place<'_>, kick: f64) -> Option<Vec<Vec<f64>>> {
        let weights = integrals();
        let n = self.followed.len();
        let mut rates = vec![vec![kick; n]; NODES.len()];
        for _ in 0..MAX_ITERATIONS {
            let mut rows = Vec::with_capacity(NODES.len());
            for (node, weights) in NODES.iter().zip(&weights) {
                let mut given = place.given.to_vec();
                for (at, followed) in self.followed.iter().enumerate() {
                    let change: f64 = weights.iter().zip(&rates).map(|(weight, rates)| weight * rates[at]).sum();
                    given.push((followed.start, place.row[followed.value] + place.longest * change));
                }
                rows.push(self.row(place.time + node * place.longest, &given)?);
            }
            let mut is_converged = true;
            for (at, followed) in self.followed.iter().enumerate() {
                let new: Vec<f64> = rows.iter().map(|row| row[followed.rate]).collect();
                let size = new.iter().fold(0.0f64, |size, rate| size.max(rate.abs()));
                let rounding =
                    f64::EPSILON * place.row[followed.value].abs() / (NODES[NODES.len() - 1] * place.longest);
                for (rates, &new) in rates.iter_mut().zip(&new) {
                    is_converged &= (new - rates[at]).abs() <= CONVERGED * size + rounding;
                    rates[at] = new;
                }
            }
            if is_converged {
                return Some(rows);
            }
        }
        None
    }

    /// Everything at a time beside the start, at values of parameters.
    fn row(&mut self, time: f64, given: &[(VarId, f64)]) -> Option<Vec<f64>> {
        self.prepared.parameters = self.prepared.parameters_at(given).ok()?;
        let start = self.prepared.sharp_start(time).ok()?;
        let row = self.prepared.observed(time, &start);
        let is_finite =
            row.iter().zip(&self.is_continuous).all(|(value, is_continuous)| !is_continuous || value.is_finite());
        is_finite.then_some(row)
    }
}

/// A start from which variables are followed.
struct Place<'a> {
    time: f64,
    /// The distance of the farthest node.
    longest: f64,
    /// The values there.
    row: &'a [f64],
    /// Parameters that the start determined.
    given: &'a [(VarId, f64)],
}

/// Whether two distances lead to the same limit. What is settled at neither says nothing.
fn agree(one: &Limit, other: &Limit, largest: f64) -> bool {
    match (one.value, other.value) {
        (Some(here), Some(there)) => (here - there).abs() <= AGREES * one.size.max(other.size) + ROUNDING * largest,
        (None, None) => true,
        _ => false,
    }
}

/// The integrals of Lagrange's polynomials over [`NODES`] from 0 to each of them.
fn integrals() -> Vec<Vec<f64>> {
    let polynomial = |own: usize| {
        let mut coefficients = vec![1.0];
        for (_, node) in NODES.iter().enumerate().filter(|(at, _)| *at != own) {
            let scale = 1.0 / (NODES[own] - node);
            let mut next = vec![0.0; coefficients.len() + 1];
            for (power, value) in coefficients.iter().enumerate() {
                next[power + 1] += scale * value;
                next[power] -= scale * node * value;
            }
            coefficients = next;
        }
        coefficients
    };
    let all: Vec<Vec<f64>> = (0..NODES.len()).map(polynomial).collect();
    let integral = |coefficients: &Vec<f64>, node: f64| -> f64 {
        let terms = coefficients.iter().enumerate();
        terms.map(|(power, value)| value * node.powi(power as i32 + 1) / (power + 1) as f64).sum()
    };
    NODES.iter().map(|&node| all.iter().map(|coefficients| integral(coefficients, node)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_of_degree_four_are_integrated_exactly() {
        for (node, weights) in NODES.iter().zip(integrals()) {
            for power in 0..5 {
                let sum: f64 = weights.iter().zip(NODES).map(|(weight, node)| weight * node.powi(power)).sum();
                let exact = node.powi(power + 1) / f64::from(power + 1);
                assert!((sum - exact).abs() < 1e-12, "t^{power} to {node}: {sum} instead of {exact}");
            }
        }
    }

    #[test]
    fn limits_of_power_series_are_settled_and_of_roots_approached() {
        let of = |f: &dyn Fn(f64) -> f64| Limit {
            values: DISTANCES.iter().map(|&h| f(h)).collect(),
            ..Limit::of(NODES.iter().map(|node| f(node / 64.0)).collect())
        };
        let sinc = of(&|h| h.sin() / h);
        assert!((sinc.value.unwrap() - 1.0).abs() < 1e-9);
        let root = of(&|h| 2.0 + h.cbrt());
        assert!(root.value.is_none() && root.is_approaching(2.0) && !root.is_approaching(2.1));
        let logarithm = of(&|h| h.ln());
        assert!(logarithm.value.is_none() && !logarithm.is_approaching(0.0) && !logarithm.is_approaching(-8.0));
    }
}
