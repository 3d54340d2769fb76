//! The Galerkin way: the expanded model, its index, its start, its solution.

use std::collections::HashMap;

use daesy_chaos::{Basis, ExpandOptions, Expanded, Ramp, Series, Surrogate, expand, ramped};
use daesy_graph::finding::Level;
use daesy_graph::flat::{Equation, FlatDae, Origin, VariableKind};
use daesy_graph::{Graph, Span, VarId};
use daesy_structure::verify;
use daesy_structure::words::equation_text;
use daesy_system::DaeSystem;

use crate::points::{Ensemble, depends_on, depends_on_random, set_parameters};
use crate::request::{Request, StartKind};
use crate::{grid, remove_rounding};
use daesy_analysis::simulate::Simulator;
use daesy_analysis::start_report::StartReport;
use daesy_chaos::inheritance::{Condition, conditions};
use daesy_structure::linear_verdict::{self, DENSE};
use daesy_structure::linearize::{LinearKind, LinearModel};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::linear_study::with_computed;
use daesy_study::load::{Loaded, quantity_expression};
use daesy_study::prepare::{Prepared, Purpose, prepare};
use daesy_study::study::InputSource;

/// What the expansion needs.
pub(super) struct Galerkin<'a> {
    pub(super) loaded: &'a Loaded,
    pub(super) request: &'a Request,
    pub(super) basis: &'a Basis,
    pub(super) ensemble: &'a Ensemble,
}

/// What it gives.
pub(super) struct Solved {
    pub(super) surrogate: Surrogate,
    pub(super) kind: Option<Kind>,
    pub(super) conditions: Vec<Condition>,
    pub(super) simple_start_is_consistent: Option<bool>,
    pub(super) start: &'static str,
    pub(super) n_unknowns: usize,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Expanded models up to this size are also started from (x_0, 0, .. 0) to see whether that is consistent.
const MAX_SIZE_FOR_START_TEST: usize = 4000;

/// What kind of problem a model is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Kind {
    /// The differentiation index.
    pub(super) index: usize,
    /// Differential equations: free start values.
    pub(super) d: usize,
}

/// The kind of a model at its start: by matrices for linear models that are not too large, by structure and its numeric
/// verification otherwise.
pub(super) fn kind_at_start(loaded: &Loaded, prepared: &Prepared, time: f64) -> Option<Kind> {
    if loaded.flat.size().unknowns <= DENSE
        && let Ok(model) = LinearModel::new(&loaded.flat)
        && let Ok(verdict) = linear_verdict::judge(&model, time)
    {
        return verdict.differentiation_index.map(|index| Kind { index, d: verdict.d });
    }
    let start = prepared.start(time).ok()?;
    let point = prepared.point(time, &start);
    let verification = verify(prepared.system.regular(), &point);
    Some(Kind { index: verification.differentiation_index as usize, d: verification.d })
}

/// Why inputs that depend on random parameters keep a model from being expanded, if they do.
pub(super) fn refused_inputs(loaded: &Loaded, random: &[VarId]) -> Option<String> {
    for input in &loaded.study.as_ref()?.inputs {
        let name = &input.name;
        match &input.item {
            InputSource::Expression { expression, breaks } => {
                let varies = depends_on(&loaded.flat, expression, random);
                let breaks_vary = breaks.iter().any(|time| depends_on(&loaded.flat, time, random));
                if !varies && !breaks_vary {
                    continue;
                }
                let mut graph = Graph::default();
                let Ok(expr) = quantity_expression(&mut graph, &loaded.flat.variables, expression) else { continue };
                if breaks_vary || !breaks.is_empty() || graph.may_make_events(expr) {
                    return Some(format!("the input `{name}` depends on random parameters and has breaks"));
                }
            }
            InputSource::Impulses(impulses) => {
                let varies = impulses.iter().any(|impulse| {
                    depends_on(&loaded.flat, &impulse.time, random) || depends_on(&loaded.flat, &impulse.area, random)
                });
                if varies {
                    return Some(format!("the impulses of `{name}` depend on random parameters"));
                }
            }
            InputSource::Column { .. } => {}
        }
    }
    None
}

/// Most random parameters that enter one equation together, counted over whole terms.
pub(super) fn most_parameters_together(flat: &FlatDae, random: &[VarId]) -> usize {
    let count = |equation: &Equation| {
        random
            .iter()
            .filter(|&&var| {
                depends_on_random(flat, equation.lhs, &[var]) || depends_on_random(flat, equation.rhs, &[var])
            })
            .count()
    };
    // Terms of a sum are projected one by one, so that an equation with many parameters may still be easy; products are
    // what counts.
    let is_sum = |equation: &Equation| {
        use daesy_graph::{BinaryOp, Node};
        let is_plus = |expr| matches!(flat.graph.node(expr), Node::Binary { op: BinaryOp::Add | BinaryOp::Sub, .. });
        is_plus(equation.lhs) || is_plus(equation.rhs)
    };
    flat.equations.iter().filter(|equation| !is_sum(equation)).map(count).max().unwrap_or(0)
}

impl Galerkin<'_> {
    pub(super) fn solve(&self) -> Result<Solved, Failure> {
        let loaded = self.with_written_inputs()?;
        let start_time = self.ensemble.options().start;
        let mut diagnostics = Vec::new();
        let judged: Vec<f64> = [0.0, 0.13, 0.37, 0.5, 0.71, 1.0]
            .iter()
            .map(|share| start_time + share * (self.ensemble.options().stop - start_time))
            .collect();
        let means = self.basis.means()?;
        let ramp = self.ramp();
        let mean_start = self.ensemble.start(&means)?;
        let simple_guesses = self.simple_guesses(&loaded, &mean_start);
        let guesses = match ramp {
            Some(_) => simple_guesses.clone(),
            None => self.projected_guesses(&loaded)?,
        };
        let is_simple = are_alike(&guesses, &simple_guesses);
        let mut expand_options = ExpandOptions {
            random: self.request.random.clone(),
            random_inputs: Vec::new(),
            guesses,
            points: self.request.points,
            times: judged,
            ramp,
        };
        let expanded = expand(&loaded.flat, self.basis, &expand_options)?;
        self.tell_facts(&loaded, &expanded, &mut diagnostics);
        let solution = self.integrate(&loaded, &expanded, start_time)?;
        diagnostics.extend(solution.diagnostics);
        let simple = if ramp.is_none() && expanded.flat.equations.len() <= MAX_SIZE_FOR_START_TEST {
            expand_options.guesses = simple_guesses;
            self.simple_start_is_consistent(&loaded, &expand_options, start_time)
        } else {
            ramp.map(|_| true)
        };
        let conditions = self.conditions(&means, start_time).unwrap_or_default();
        let original = kind_at_start(self.ensemble.loaded(), self.ensemble.prepared(), start_time);
        if let (Some(original), Some(found)) = (original, solution.kind) {
            diagnostics.extend(changed_kind(original, found, self.basis.len(), &conditions));
        }
        let start = match (ramp, simple) {
            (Some(_), _) => "ramp",
            (None, Some(true)) if is_simple => "simple",
            (None, _) => "projected",
        };
        if simple == Some(false) {
            let message = "the start values (x_0, 0, .. 0) are not consistent for the expanded model: consistent values at parameter \
                           values were projected";
            diagnostics.push(Diagnostic::note("projected-start", message));
        }
        if let Some(ramp) = ramp {
            let message = format!(
                "the random parameters take effect smoothly until t = {}: results before that are not those of the model",
                ramp.start + ramp.duration
            );
            diagnostics.push(Diagnostic::note("ramp-start", message));
        }
        let surrogate = self.read_series(&solution.names, &solution.times, &solution.rows)?;
        Ok(Solved {
            surrogate,
            kind: solution.kind,
            conditions,
            simple_start_is_consistent: simple,
            start,
            n_unknowns: expanded.flat.size().unknowns,
            diagnostics,
        })
    }

    /// The transition at the start, where the study wants one.
    /// The theorems on the index, for a model that is small enough for dense matrices.
    fn conditions(&self, means: &[f64], time: f64) -> Option<Vec<Condition>> {
        if self.loaded.flat.size().unknowns > DENSE {
            return None;
        }
        conditions(&self.request.parameters, means, &|values| {
            let mut loaded = self.loaded.clone();
            set_parameters(&mut loaded, &self.request.random, values);
            let model = LinearModel::new(&loaded.flat).ok().filter(|model| model.kind == LinearKind::Constant)?;
            let matrices = model.matrices(time);
            Some((model, matrices))
        })
    }

    fn ramp(&self) -> Option<Ramp> {
        let StartKind::Ramp(duration) = self.request.start else { return None };
        let (start, stop) = (self.ensemble.options().start, self.ensemble.options().stop);
        Some(Ramp { start, duration: if duration > 0.0 { duration } else { 0.01 * (stop - start) } })
    }

    /// The model with the same transition at the start, where there is one: what the series is to be compared with.
    pub(super) fn compared(&self) -> Result<Option<Ensemble>, Failure> {
        let Some(ramp) = self.ramp() else { return Ok(None) };
        let mut loaded = self.with_written_inputs()?;
        let means = self.basis.means()?;
        loaded.flat = ramped(&loaded.flat, &self.request.random, &means, ramp)?;
        Ensemble::new(&loaded, self.request, &means).map(Some)
    }

    /// The model with inputs that depend on random parameters written as equations.
    fn with_written_inputs(&self) -> Result<Loaded, Failure> {
        if let Some(reason) = refused_inputs(self.loaded, &self.request.random) {
            let diagnostic = Diagnostic::error("not-expandable", reason);
            return Err(Failure::Input(vec![diagnostic.with_help("say `method = \"collocation\"` in `[uq]`")]));
        }
        let mut loaded = self.loaded.clone();
        // Parameters that initial equations give in terms of others are series like these.
        if let Ok(bound) = with_computed(&loaded.flat, &self.request.random) {
            let mut bound = bound.into_owned();
            let computed = bound
                .variables
                .iter_mut()
                .filter(|variable| variable.kind == VariableKind::Parameter && variable.fixed == Some(false));
            computed.for_each(|variable| variable.fixed = None);
            loaded.flat = bound;
        }
        let Some(study) = loaded.study.clone() else { return Ok(loaded) };
        for input in &study.inputs {
            if let InputSource::Expression { expression, .. } = &input.item
                && depends_on(&loaded.flat, expression, &self.request.random)
                && let Some(var) = loaded.flat.find(&input.name)
                && let Ok(rhs) = quantity_expression(&mut loaded.flat.graph, &loaded.flat.variables, expression)
            {
                loaded.flat.variables[var.index()].kind = VariableKind::Continuous;
                let lhs = loaded.flat.graph.var(var);
                loaded.flat.equations.push(Equation {
                    lhs,
                    rhs,
                    origin: Origin::Equation,
                    component: "".into(),
                    span: Span::NONE,
                });
            }
        }
        Ok(loaded)
    }

    /// By variable that becomes a series, its place among all variables of the model.
    fn observed_places(&self, loaded: &Loaded) -> Vec<(VarId, usize)> {
        let observed = self.ensemble.all_variables();
        let place: HashMap<&str, usize> = observed.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let variables = loaded.flat.variables.iter().enumerate();
        variables
            .filter(|(_, variable)| variable.kind == VariableKind::Continuous)
            .filter_map(|(at, variable)| Some((VarId(at as u32), *place.get(variable.name.as_str())?)))
            .collect()
    }

    /// (x_0, 0, .. 0)
    fn simple_guesses(&self, loaded: &Loaded, mean_start: &[f64]) -> HashMap<VarId, Vec<f64>> {
        let guess = |(var, place): (VarId, usize)| {
            let mut values = vec![0.0; self.basis.len()];
            values[0] = mean_start[place];
            (var, values)
        };
        self.observed_places(loaded).into_iter().map(guess).collect()
    }

    /// Consistent start values at the points of a grid, projected.
    fn projected_guesses(&self, loaded: &Loaded) -> Result<HashMap<VarId, Vec<f64>>, Failure> {
        let projection = grid(self.request, self.basis)?;
        let points: Vec<Vec<f64>> = projection.points.iter().map(|germ| self.basis.parameter_values(germ)).collect();
        let starts = self.ensemble.starts(&points)?;
        Ok(self
            .observed_places(loaded)
            .into_iter()
            .map(|(var, place)| {
                let first = starts[0][place];
                let coefficient = |(term, weights): (usize, &Vec<f64>)| {
                    // Relative to the first point, so that what does not vary is exact.
                    let sum: f64 = weights.iter().zip(&starts).map(|(w, start)| w * (start[place] - first)).sum();
                    if term == 0 { first + sum } else { sum }
                };
                (var, projection.weights.iter().enumerate().map(coefficient).collect())
            })
            .collect())
    }

    fn tell_facts(&self, loaded: &Loaded, expanded: &Expanded, diagnostics: &mut Vec<Diagnostic>) {
        let facts = &expanded.facts;
        if let Some(&row) = facts.nonlinear.first() {
            let message = format!(
                "{} of {} equations are not linear (the first is {}): they are evaluated at {} points of the random parameters",
                facts.nonlinear.len(),
                loaded.flat.equations.len(),
                equation_text(&loaded.flat, row),
                facts.n_points
            );
            diagnostics.push(Diagnostic::note("nonlinear-expansion", message));
        }
        if !facts.unsettled.is_empty() {
            let message = format!(
                "quadrature of {} coefficients did not settle to rounding (they depend on {})",
                facts.unsettled.len(),
                facts.unsettled[0]
            );
            diagnostics.push(
                Diagnostic::new(Level::Warning, "quadrature", message)
                    .with_help("a coefficient may have a pole or a kink near the supports of the random parameters"),
            );
        }
    }

    fn integrate(&self, loaded: &Loaded, expanded: &Expanded, start_time: f64) -> Result<Solution, Failure> {
        let mut larger = loaded.clone();
        larger.flat = expanded.flat.clone();
        let in_words = |failure: Failure| failure.within("the expanded model");
        let simulator = Simulator::new(&larger).map_err(in_words)?;
        let prepared = simulator.prepared();
        // What merely keeps derivatives to be read belongs to no kind of problem.
        let mut judged = larger.clone();
        judged.flat.equations.truncate(judged.flat.equations.len() - expanded.n_kept);
        let n_variables = judged.flat.variables.len() - expanded.n_kept;
        judged.flat.variables.truncate(n_variables);
        let kind = kind_at_start(&judged, prepared, start_time);
        let traced = simulator.trace(&simulator.options).map_err(in_words)?;
        let diagnostics = simulator.diagnostics(&traced, &StartReport::default());
        let simulation = traced.simulation;
        Ok(Solution {
            names: prepared.system.description().observed.clone(),
            times: simulation.times,
            rows: simulation.rows,
            kind,
            diagnostics,
        })
    }

    /// Whether the expanded model accepts (x_0, 0, .. 0) as it is, up to the accuracy of consistent start values.
    fn simple_start_is_consistent(&self, loaded: &Loaded, options: &ExpandOptions, time: f64) -> Option<bool> {
        let mut free = loaded.clone();
        // Nothing is insisted on: the search may keep everything, and does if it can.
        free.flat.initial_equations.clear();
        for variable in &mut free.flat.variables {
            if variable.kind == VariableKind::Continuous {
                variable.fixed = None;
            }
        }
        let expanded = expand(&free.flat, self.basis, options).ok()?;
        free.flat = expanded.flat.clone();
        let prepared = prepare(&free, Purpose::TRAJECTORY).ok()?;
        let found = prepared.start(time).ok()?;
        let values = observed_values(&prepared, time, &found);
        let names = &prepared.system.description().observed;
        let place: HashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        for (var, guess) in &options.guesses {
            let size = guess[0].abs().max(1e-6 * nominal_size(loaded, *var));
            for (&term, guess) in expanded.terms[var.index()].iter().zip(guess) {
                let name = expanded.flat.variables[term.index()].name.as_str();
                let value = values[*place.get(name)?];
                if (value - guess).abs() > 1e-7 * size.max(1e-3) {
                    return Some(false);
                }
            }
        }
        Some(true)
    }

    /// The series of the model's variables from the expanded model's.
    fn read_series(&self, names: &[String], times: &[f64], rows: &[Vec<f64>]) -> Result<Surrogate, Failure> {
        let place: HashMap<&str, usize> = names.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
        let n_terms = self.basis.len();
        let read = |name: String| {
            // A derivative that the expanded equations do not hold has variables of its own.
            let column = |term: usize| {
                let names = [term_name(&name, term), format!("{name}#{term}")];
                names.iter().find_map(|name| place.get(name.as_str()).copied())
            };
            let columns: Option<Vec<Option<usize>>> = match (column(0), place.get(name.as_str())) {
                (None, None) => None,
                // What is no series, such as an input, is its own mean.
                (None, Some(&plain)) => Some((0..n_terms).map(|term| (term == 0).then_some(plain)).collect()),
                (Some(_), _) => (0..n_terms).map(|term| column(term).map(Some)).collect(),
            };
            let columns = columns.ok_or_else(|| unread(&name))?;
            let values = |at: Option<usize>| rows.iter().map(|row| at.map_or(0.0, |at| row[at])).collect();
            let mut series = Series { coefficients: columns.into_iter().map(values).collect(), name };
            remove_rounding(&mut series);
            Ok(series)
        };
        let series = self.ensemble.variables().into_iter().map(read).collect::<Result<_, Failure>>()?;
        Ok(Surrogate { basis: self.basis.clone(), times: times.to_vec(), series })
    }
}

/// A variable whose series the expanded model does not have.
fn unread(name: &str) -> Failure {
    let message = format!("the expanded model has no series of `{name}`");
    let help = "take `method = \"collocation\"`, which needs no expanded model";
    let diagnostic = Diagnostic::error("no-series", message).with_help(help);
    Failure::Method(vec![Diagnostic { names: vec![name.to_owned()], ..diagnostic }])
}

/// A warning where the expanded model is another kind of problem than the model at the means: every one of its
/// polynomials should have the same index and as many free start values [@pulch2008, sec. 3].
fn changed_kind(original: Kind, found: Kind, n_terms: usize, conditions: &[Condition]) -> Option<Diagnostic> {
    let message = if original.index != found.index {
        let violated: Vec<String> = conditions
            .iter()
            .filter(|condition| !condition.holds)
            .map(|condition| {
                let witness = condition.witness.as_deref().unwrap_or("its condition is violated");
                format!("theorem {}: {witness}", condition.theorem)
            })
            .collect();
        let why = if violated.is_empty() { String::new() } else { format!(" ({})", violated.join("; ")) };
        format!(
            "the expanded model has index {}, the model at the means has index {}: the solution is that of a different kind of \
             problem{why}",
            found.index, original.index
        )
    } else if found.d != n_terms * original.d {
        format!(
            "the expanded model has {} differential equations, but {n_terms} polynomials with {} each make {}: ranks were decided \
             differently, and the solution may be wrong",
            found.d,
            original.d,
            n_terms * original.d
        )
    } else {
        return None;
    };
    let help = if original.index == found.index {
        "take a lower degree, or `method = \"collocation\"`, which solves the model itself at parameter values"
    } else {
        "check that the model has the same index for all values of its random parameters; narrow their supports"
    };
    Some(Diagnostic::new(Level::Warning, "index-changed", message).with_help(help))
}

/// The name of a coefficient's variable, or of its derivative: `der(x#2)` for the third coefficient of `der(x)`.
fn term_name(name: &str, term: usize) -> String {
    match name.strip_prefix("der(").and_then(|rest| rest.strip_suffix(')')) {
        Some(inner) => format!("der({})", term_name(inner, term)),
        None => format!("{name}#{term}"),
    }
}

/// Whether start values differ by no more than rounding.
fn are_alike(one: &HashMap<VarId, Vec<f64>>, other: &HashMap<VarId, Vec<f64>>) -> bool {
    one.iter().all(|(var, values)| {
        let Some(others) = other.get(var) else { return false };
        let size = values[0].abs().max(others[0].abs());
        values.iter().zip(others).all(|(a, b)| (a - b).abs() <= 1e-9 * size.max(1e-9))
    })
}

struct Solution {
    names: Vec<String>,
    times: Vec<f64>,
    rows: Vec<Vec<f64>>,
    kind: Option<Kind>,
    diagnostics: Vec<Diagnostic>,
}

fn nominal_size(loaded: &Loaded, var: VarId) -> f64 {
    let nominal = loaded.flat.variables[var.index()].nominal;
    nominal.and_then(|expr| loaded.flat.graph.as_number(expr)).map_or(1.0, f64::abs)
}

/// All observed quantities at a start.
fn observed_values(prepared: &Prepared, time: f64, found: &daesy_integrate::HybridStart) -> Vec<f64> {
    use daesy_integrate::Inputs as _;
    let description = prepared.system.description();
    let mut inputs = vec![0.0; description.n_inputs];
    prepared.inputs.fill(time, true, &mut inputs);
    let daesy_integrate::HybridStart { initialized: found, modes } = found;
    let mut row = vec![0.0; description.observed.len()];
    let point = daesy_system::Point {
        time,
        states: &found.states,
        unknowns: &found.unknowns,
        parameters: &found.parameters,
        inputs: &inputs,
        modes,
    };
    prepared.system.evaluator().evaluate(daesy_system::Part::Observed, &point, &mut row);
    row
}
