//! A study as one problem: what is unknown and within which bounds, what was measured and when.
//!
//! It is read once, whatever method is asked for; the linear, the filter and the ensemble formulations are made from
//! it, so that they search the same space, use the same samples and refuse the same mistakes.

use daesy_compile::switching_functions;
use daesy_estimate::prior::Prior;
use daesy_estimate::search::SearchSpace;
use daesy_graph::finding::{Finding, nearest};
use daesy_graph::flat::{FlatDae, VariableKind, WhenAction};
use daesy_graph::{ExprId, Graph, Leaf, LinearExtractor, Reach, Span, VarId};
use daesy_structure::linearize::{LinearKind, LinearModel, parameter_values};

use crate::data::Data;
use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::linear_study::with_computed;
use crate::load::{Loaded, quantity_expression};
use crate::prepare::{start_time, study_number};
use crate::study::{InitialMode, InputSource, Measurement, Named, Quantity, Study};

/// An unknown of a study.
#[derive(Clone, PartialEq, Debug)]
pub struct Unknown {
    /// Its name.
    pub name: String,
    /// Where the study names it.
    pub span: Span,
    /// The parameter or free symbol of the flat model.
    pub var: VarId,
    /// Where a search starts.
    pub start: f64,
    /// What is known of it before there are data.
    pub prior: Option<Prior>,
}

/// A measured signal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MeasuredSignal {
    /// Its name.
    pub name: String,
    /// The variable of the model that is read: the last of its presampling filter, if it has one.
    pub variable: String,
    /// The column of the data.
    pub column: String,
    /// Where the study names it.
    pub span: Span,
}

/// One experiment: what was measured, and when.
#[derive(Clone, Debug)]
pub struct Record {
    /// The data.
    pub data: Data,
    /// When the experiment begins.
    pub start: f64,
    /// `[row * n_measured + signal]`; NaN where nothing was measured.
    pub measured: Vec<f64>,
    /// The first row that counts: none before `start + transient`.
    pub first_counted: usize,
}

/// Whether a model is linear in its variables.
#[derive(Debug)]
pub enum Linearity {
    /// It is, with constant coefficients.
    Constant(Box<LinearModel>),
    /// It is, with coefficients that depend on time.
    TimeVarying(Box<LinearModel>),
    /// It is not, and why.
    Nonlinear(Box<Finding>),
}

/// What all methods of estimation begin with.
#[derive(Debug)]
pub struct Problem {
    /// Unknowns.
    pub unknowns: Vec<Unknown>,
    /// Their bounds, those of the model included, and typical sizes.
    pub space: SearchSpace,
    /// Measured signals.
    pub measured: Vec<MeasuredSignal>,
    /// Experiments.
    pub records: Vec<Record>,
    /// Whether the model is linear.
    pub linearity: Linearity,
}

impl Problem {
    /// Reads the problem of a study.
    ///
    /// # Errors
    /// Everything that is wrong with unknowns, measurements and data, with places in study, model or data.
    pub fn read(loaded: &Loaded) -> Result<Self, Failure> {
        Self::with_records(loaded, records)
    }

    /// Reads the problem of a study for samples that are still to come, with some data in their place: the same names,
    /// columns and start.
    ///
    /// # Errors
    /// As [`Problem::read`].
    pub fn for_stream(loaded: &Loaded, stand_in: &Data) -> Result<Self, Failure> {
        Self::with_records(loaded, |loaded, study, measured| {
            let in_study = |findings: Vec<Finding>| -> Vec<Diagnostic> {
                findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)).collect()
            };
            let values = values(stand_in, measured).map_err(in_study)?;
            let start = start_time(loaded, Some(stand_in));
            Ok(vec![Record { data: stand_in.clone(), start, measured: values, first_counted: 0 }])
        })
    }

    /// The problem of a study with a record in the place of its data, of which `transient` leaves out what it would of
    /// data.
    ///
    /// # Errors
    /// As [`Problem::for_stream`].
    pub fn for_record(loaded: &Loaded, record: &Data) -> Result<Self, Failure> {
        let mut problem = Self::for_stream(loaded, record)?;
        let transient = study_of(loaded)?.identify.transient;
        for record in &mut problem.records {
            record.first_counted = first_counted(&record.data, record.start, transient);
        }
        Ok(problem)
    }

    fn with_records(
        loaded: &Loaded,
        records: impl FnOnce(&Loaded, &Study, &[MeasuredSignal]) -> Result<Vec<Record>, Failure>,
    ) -> Result<Self, Failure> {
        let study = study_of(loaded)?;
        let resolve = |findings: Vec<Finding>| -> Failure {
            Failure::Input(findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)).collect())
        };
        let values = parameter_values(&loaded.flat)
            .map_err(|finding| Failure::Input(vec![Diagnostic::resolve(&finding, &loaded.flat.sources)]))?;
        let mut unknowns = unknowns(&loaded.flat, study, &values).map_err(resolve)?;
        read_priors(loaded, study, &mut unknowns, &values)?;
        let space = space(loaded, study, &unknowns, &values)?;
        let measured = measured(study).map_err(resolve)?;
        let records = records(loaded, study, &measured)?;
        let vars: Vec<VarId> = unknowns.iter().map(|unknown| unknown.var).collect();
        let linearity = match linearity(&loaded.flat, &vars, &measured) {
            Linearity::Constant(model) => {
                let start = || match study.initial.mode {
                    InitialMode::Model => nonlinear_start(&loaded.flat, &vars, &model),
                    _ => None,
                };
                match moving_break(loaded, study, &unknowns).or_else(start) {
                    Some(finding) => Linearity::Nonlinear(Box::new(finding)),
                    None => Linearity::Constant(model),
                }
            }
            other => other,
        };
        Ok(Self { unknowns, space, measured, records, linearity })
    }

    /// The starting point of a search.
    #[must_use]
    pub fn start(&self) -> Vec<f64> {
        self.unknowns.iter().map(|unknown| unknown.start).collect()
    }

    /// The unknowns as variables of the flat model.
    #[must_use]
    pub fn unknown_variables(&self) -> Vec<VarId> {
        self.unknowns.iter().map(|unknown| unknown.var).collect()
    }

    /// Which unknowns the model's motion depends on; the others are sizes of disturbances and measurement errors.
    #[must_use]
    pub fn motion_depends_on(&self, loaded: &Loaded) -> Vec<bool> {
        self.unknowns.iter().map(|unknown| moves(loaded, unknown.var)).collect()
    }

    /// Refuses records with fewer values than there are unknowns to be found from them alone.
    ///
    /// # Errors
    /// When there are too few.
    pub fn refuse_short_records(&self) -> Result<(), Failure> {
        let n_unknowns = self.unknowns.iter().filter(|unknown| unknown.prior.is_none()).count();
        let n_values = self.n_samples();
        if n_values >= n_unknowns {
            return Ok(());
        }
        let values = if n_values == 1 { "1 value counts".to_owned() } else { format!("{n_values} values count") };
        let message = format!("the record is too short: {values}, but {n_unknowns} unknowns are to be found");
        let help = "measure longer, shorten `transient`, or give unknowns a value in `[parameters]` or a `prior`";
        Err(Failure::Input(vec![Diagnostic::error("too-few-samples", message).with_help(help)]))
    }

    /// The number of measured values that count.
    #[must_use]
    pub fn n_samples(&self) -> usize {
        let counted = |record: &Record| {
            let first = record.first_counted * self.measured.len();
            record.measured[first..].iter().filter(|value| value.is_finite()).count()
        };
        self.records.iter().map(counted).sum()
    }
}

/// Which variables are one of these parameters or bound to them.
pub(crate) fn reached(flat: &FlatDae, vars: impl Iterator<Item = VarId>) -> Vec<bool> {
    let mut is_reached = vec![false; flat.variables.len()];
    vars.for_each(|var| is_reached[var.index()] = true);
    let mut reach = Reach::new();
    loop {
        let follows = |at: &usize| !is_reached[*at] && flat.variables[*at].binding.is_some();
        let next = (0..flat.variables.len()).filter(follows).find(|&at| {
            let meant = |leaf| matches!(leaf, Leaf::Var { var, .. } if is_reached[var.index()]);
            flat.variables[at].binding.is_some_and(|binding| reach.depends_on(&flat.graph, binding, meant))
        });
        match next {
            Some(at) => is_reached[at] = true,
            None => return is_reached,
        }
    }
}

/// What happens at a time that depends on an unknown. A linear model is discretized between times that stay where they
/// are, so that it is none for such an unknown.
fn moving_break(loaded: &Loaded, study: &Study, unknowns: &[Unknown]) -> Option<Finding> {
    if unknowns.is_empty() {
        return None;
    }
    let flat = &loaded.flat;
    let is_reached = reached(flat, unknowns.iter().map(|unknown| unknown.var));
    let is_unknown = |leaf: Leaf| matches!(leaf, Leaf::Var { var, .. } if is_reached[var.index()]);
    let mut reach = Reach::new();
    let mut moves = |graph: &mut Graph, exprs: &[ExprId]| {
        switching_functions(graph, exprs).into_iter().any(|function| {
            reach.depends_on(graph, function, |leaf| leaf == Leaf::Time)
                && reach.depends_on(graph, function, is_unknown)
        })
    };
    let mut graph = flat.graph.clone();
    if let Some(equation) = flat.equations.iter().find(|equation| moves(&mut graph, &[equation.lhs, equation.rhs])) {
        let message = format!("the equation {} switches at a time that is unknown", flat.equation_text(equation));
        return Some(Finding::error("nonlinear", equation.span, message));
    }
    let mut graph = Graph::default();
    let read = |graph: &mut Graph, quantity: &Quantity| quantity_expression(graph, &flat.variables, quantity).ok();
    let moved = study.inputs.iter().find(|input| match &input.item {
        InputSource::Column { .. } => false,
        InputSource::Expression { expression, breaks } => {
            let value = read(&mut graph, expression);
            let breaks: Vec<ExprId> = breaks.iter().filter_map(|time| read(&mut graph, time)).collect();
            value.is_some_and(|value| moves(&mut graph, &[value]))
                || breaks.into_iter().any(|time| Reach::new().depends_on(&graph, time, is_unknown))
        }
        InputSource::Impulses(list) => {
            let parts = list.iter().flat_map(|impulse| [&impulse.time, &impulse.area]);
            let parts: Vec<ExprId> = parts.filter_map(|part| read(&mut graph, part)).collect();
            parts.into_iter().any(|part| Reach::new().depends_on(&graph, part, is_unknown))
        }
    })?;
    let message = format!("the input `{}` changes at a time, or by an impulse, that is unknown", moved.name);
    Some(Finding::error("nonlinear", Span::NONE, message).with_names([&moved.name]))
}

/// Whether equations, start values or known inputs depend on a parameter, directly or through other parameters.
fn moves(loaded: &Loaded, var: VarId) -> bool {
    let flat = &loaded.flat;
    let is_reached = reached(flat, std::iter::once(var));
    let mut reach = Reach::new();
    let is_meant = |leaf: Leaf| matches!(leaf, Leaf::Var { var, .. } if is_reached[var.index()]);
    let equations = flat.equations.iter().chain(&flat.initial_equations);
    let mut exprs: Vec<ExprId> = equations.flat_map(|equation| [equation.lhs, equation.rhs]).collect();
    exprs.extend(flat.variables.iter().filter_map(|variable| variable.start));
    for branch in flat.when_clauses.iter().flat_map(|clause| &clause.branches) {
        exprs.extend(&branch.conditions);
        exprs.extend(branch.actions.iter().filter_map(|action| match action {
            WhenAction::Assign { value, .. } | WhenAction::Reinit { value, .. } => Some(*value),
            _ => None,
        }));
    }
    if exprs.into_iter().any(|expr| reach.depends_on(&flat.graph, expr, is_meant)) {
        return true;
    }
    let mut graph = Graph::default();
    let inputs = loaded.study.iter().flat_map(|study| &study.inputs);
    let expressions = inputs.filter_map(|input| match &input.item {
        InputSource::Expression { expression, .. } => quantity_expression(&mut graph, &flat.variables, expression).ok(),
        _ => None,
    });
    let expressions: Vec<ExprId> = expressions.collect();
    expressions.into_iter().any(|expr| reach.depends_on(&graph, expr, is_meant))
}

/// The first measurement whose accuracy depends on an unknown.
#[must_use]
pub fn unknown_accuracy<'s>(loaded: &Loaded, study: &'s Study, unknowns: &[Unknown]) -> Option<&'s str> {
    let mut graph = Graph::default();
    let mut reach = Reach::new();
    let is_unknown = |leaf: Leaf| matches!(leaf, Leaf::Var { var, .. } if unknowns.iter().any(|it| it.var == var));
    let mut depends = |quantity: &Quantity| {
        let expr = quantity_expression(&mut graph, &loaded.flat.variables, quantity);
        expr.is_ok_and(|expr| reach.depends_on(&graph, expr, is_unknown))
    };
    let mut signals = study.measurements.iter();
    let found = signals.find(|signal| signal.item.std.iter().chain(&signal.item.variance).any(&mut depends));
    found.map(|signal| signal.name.as_str())
}

/// The study, without which there is no question.
///
/// # Errors
/// When there is only a model.
pub fn study_of(loaded: &Loaded) -> Result<&Study, Failure> {
    loaded.study.as_ref().ok_or_else(|| {
        Failure::Input(vec![
            Diagnostic::error("no-study", "a model alone says nothing about data, unknowns and measurements")
                .with_help("write a study (.toml) that names the model"),
        ])
    })
}

/// Whether a study says how accurate a measurement is.
#[must_use]
pub fn says_accuracy(signal: &Named<Measurement>) -> bool {
    signal.item.std.is_some() || signal.item.variance.is_some()
}

/// Methods that weigh measurements need their accuracy.
///
/// # Errors
/// One finding for each measurement without.
pub fn refuse_unsaid_accuracy(study: &Study) -> Result<(), Failure> {
    let is_unsaid = |signal: &&Named<Measurement>| !says_accuracy(signal);
    let refuse = |signal: &Named<Measurement>| {
        let message = format!("the measurement `{}` says nothing about its accuracy", signal.name);
        let finding = Finding::error("no-accuracy", signal.span, message)
            .with_names([&signal.name])
            .with_help("add `std` or `variance`; a number, an expression, or the name of an unknown; 0 means exact");
        Diagnostic::resolve(&finding, &study.sources)
    };
    let diagnostics: Vec<Diagnostic> = study.measurements.iter().filter(is_unsaid).map(refuse).collect();
    if diagnostics.is_empty() { Ok(()) } else { Err(Failure::Input(diagnostics)) }
}

fn unknowns(flat: &FlatDae, study: &Study, values: &[f64]) -> Result<Vec<Unknown>, Vec<Finding>> {
    let mut findings = Vec::new();
    let mut unknowns = Vec::new();
    for unknown in &study.unknown {
        let Some(var) = flat.find(&unknown.name) else { continue };
        let name = &unknown.name;
        if flat.variables[var.index()].is_structural {
            let message = format!("`{name}` shapes the equations (an array size or a condition) and cannot be unknown");
            findings.push(Finding::error("structural-unknown", unknown.span, message).with_names([name]));
        }
        let start = values[var.index()];
        unknowns.push(Unknown { name: name.clone(), span: unknown.span, var, start, prior: None });
    }
    if findings.is_empty() { Ok(unknowns) } else { Err(findings) }
}

/// Reads the priors of the unknowns.
fn read_priors(loaded: &Loaded, study: &Study, unknowns: &mut [Unknown], values: &[f64]) -> Result<(), Failure> {
    let mut diagnostics = Vec::new();
    for (unknown, given) in unknowns.iter_mut().zip(&study.unknown) {
        let Some(prior) = &given.item.prior else { continue };
        let mut numbers = Vec::new();
        for argument in &prior.arguments {
            match study_number(loaded, &argument.item, &|var| values[var.index()]) {
                Ok(value) => numbers.push((argument.name.as_str(), value)),
                Err(wrong) => diagnostics.extend(wrong),
            }
        }
        unknown.prior = prior_of(&prior.family, &numbers);
        if unknown.prior.is_none() {
            let message = format!("the prior of `{}` is none", unknown.name);
            let finding = Finding::error("prior", given.span, message).with_names([&unknown.name]).with_help(
                "priors: normal and lognormal with `mean` and `std`, gamma with `shape` and `scale`, uniform with `min` \
                 and `max`, sizes greater than zero; `min` and `max` of others belong to the unknown",
            );
            diagnostics.push(Diagnostic::resolve(&finding, &study.sources));
        } else if unknown.prior.is_some_and(|prior| !prior.has_numbers_at(unknown.start)) {
            let message = format!(
                "the density of the prior of `{}` is no number at its start, {}: the prior is too narrow, or too far away",
                unknown.name, unknown.start
            );
            let finding = Finding::error("prior", given.span, message)
                .with_names([&unknown.name])
                .with_help("give it other numbers, or take what is known exactly out of `[unknown]`");
            diagnostics.push(Diagnostic::resolve(&finding, &study.sources));
        }
    }
    if diagnostics.is_empty() { Ok(()) } else { Err(Failure::Input(diagnostics)) }
}

/// A prior by its family and numbers; `None` where these do not make one.
fn prior_of(family: &str, numbers: &[(&str, f64)]) -> Option<Prior> {
    if numbers.iter().any(|(_, value)| !value.is_finite()) {
        return None;
    }
    let given = |names: [&str; 2]| {
        let value = |name: &str| numbers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        let pair = value(names[0]).zip(value(names[1]));
        pair.filter(|_| numbers.len() == 2)
    };
    match family {
        "normal" => given(["mean", "std"]).filter(|(_, std)| *std > 0.0).map(|(mean, std)| Prior::Normal { mean, std }),
        "lognormal" => given(["mean", "std"])
            .filter(|(mean, std)| *mean > 0.0 && *std > 0.0)
            .map(|(mean, std)| Prior::lognormal(mean, std)),
        "gamma" => given(["shape", "scale"])
            .filter(|(shape, scale)| *shape > 0.0 && *scale > 0.0)
            .map(|(shape, scale)| Prior::Gamma { shape, scale }),
        "uniform" => {
            let by_mean = given(["mean", "relative"]).map(|(mean, relative)| {
                let half = mean.abs() * relative;
                (mean - half, mean + half)
            });
            let (min, max) = given(["min", "max"]).or(by_mean).filter(|(min, max)| min < max)?;
            Some(Prior::Uniform { min, max })
        }
        _ => None,
    }
}

/// Bounds and sizes of the unknowns: those of the study, else those of the model.
fn space(loaded: &Loaded, study: &Study, unknowns: &[Unknown], values: &[f64]) -> Result<SearchSpace, Failure> {
    let mut space = SearchSpace { lower: Vec::new(), upper: Vec::new(), nominal: Vec::new() };
    let mut diagnostics = Vec::new();
    for (unknown, given) in unknowns.iter().zip(&study.unknown) {
        let declared = &loaded.flat.variables[unknown.var.index()];
        let mut number = |quantity: &Option<Quantity>, declared: Option<ExprId>| -> Option<f64> {
            let value = match quantity {
                Some(quantity) => match study_number(loaded, quantity, &|var| values[var.index()]) {
                    Ok(value) => value,
                    Err(wrong) => {
                        diagnostics.extend(wrong);
                        return None;
                    }
                },
                None => evaluate(&loaded.flat.graph, declared?, values),
            };
            (!value.is_nan()).then_some(value)
        };
        let (least, most) = unknown.prior.map_or((f64::NEG_INFINITY, f64::INFINITY), |prior| prior.support());
        let lower = number(&given.item.min, declared.min).map_or(least, |lower| lower.max(least));
        let upper = number(&given.item.max, declared.max).map_or(most, |upper| upper.min(most));
        let nominal = number(&given.item.nominal, declared.nominal);
        if let Some(message) = outside(unknown, lower, upper) {
            let help = "the start of an unknown must lie between `min` and `max`: change one of the three";
            let finding = Finding::error("bounds", unknown.span, message).with_names([&unknown.name]).with_help(help);
            diagnostics.push(Diagnostic::resolve(&finding, &study.sources));
        }
        let reach = if lower.is_finite() && upper.is_finite() { 0.1 * (upper - lower) } else { 1.0 };
        let size = nominal.unwrap_or(if unknown.start != 0.0 { unknown.start } else { reach }).abs();
        space.lower.push(lower);
        space.upper.push(upper);
        space.nominal.push(if size > 0.0 && size.is_finite() { size } else { 1.0 });
    }
    if diagnostics.is_empty() { Ok(space) } else { Err(Failure::Input(diagnostics)) }
}

/// What is wrong with the bounds of an unknown, if anything is.
fn outside(unknown: &Unknown, lower: f64, upper: f64) -> Option<String> {
    let Unknown { name, start, .. } = unknown;
    if lower > upper {
        Some(format!("the bounds of `{name}` contradict each other: {lower} > {upper}"))
    } else if *start < lower || *start > upper {
        Some(format!("the start of `{name}` is outside of its bounds: {start} is not in [{lower}, {upper}]"))
    } else {
        None
    }
}

fn evaluate(graph: &Graph, expr: ExprId, values: &[f64]) -> f64 {
    daesy_graph::Evaluator::new().evaluate_one(graph, expr, &|var: VarId, _: u16| values[var.index()])
}

fn measured(study: &Study) -> Result<Vec<MeasuredSignal>, Vec<Finding>> {
    if study.measurements.is_empty() {
        let finding = Finding::error("no-measurements", Span::NONE, "the study measures nothing")
            .with_help("add `[measurements]` with a signal of the model and its accuracy");
        return Err(vec![finding]);
    }
    let signal = |signal: &Named<Measurement>| MeasuredSignal {
        name: signal.name.clone(),
        variable: signal.variable().to_owned(),
        column: signal.item.column.clone().unwrap_or_else(|| signal.name.clone()),
        span: signal.span,
    };
    Ok(study.measurements.iter().map(signal).collect())
}

/// Times that differ by less than this fraction are the same: `start + transient` is a rounded sum.
pub(crate) const SAME_TIME: f64 = 1e-12;

fn records(loaded: &Loaded, study: &Study, measured: &[MeasuredSignal]) -> Result<Vec<Record>, Failure> {
    if loaded.n_experiments() == 0 {
        let finding = Finding::error("no-data", Span::NONE, "the study has no data")
            .with_help("add `[data]` with `file = \"name.csv\"`");
        return Err(Failure::Input(vec![Diagnostic::resolve(&finding, &study.sources)]));
    }
    let mut diagnostics = Vec::new();
    let mut records = Vec::new();
    for data in loaded.experiments()? {
        let of_inputs = study.inputs.iter().filter_map(|input| match &input.item {
            InputSource::Column { column, .. } if data.column(column).is_none() => {
                Some(missing_column(&data, column, input.span, &input.name))
            }
            _ => None,
        });
        diagnostics.extend(of_inputs.map(|finding| Diagnostic::resolve(&finding, &study.sources)));
        match values(&data, measured) {
            Err(findings) => {
                diagnostics.extend(findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)));
            }
            Ok(values) => {
                let start = start_time(loaded, Some(&data));
                let first_counted = first_counted(&data, start, study.identify.transient);
                diagnostics.extend(empty(&data, measured, &values, first_counted));
                records.push(Record { data, start, measured: values, first_counted });
            }
        }
    }
    if diagnostics.is_empty() { Ok(records) } else { Err(Failure::Input(diagnostics)) }
}

/// The first row at or after `start + transient`.
fn first_counted(data: &Data, start: f64, transient: Option<f64>) -> usize {
    let counted_from = start + transient.unwrap_or(0.0);
    let slack = SAME_TIME * counted_from.abs();
    data.times.partition_point(|&time| time < counted_from - slack)
}

/// The measured columns of an experiment, row by row.
fn values(data: &Data, measured: &[MeasuredSignal]) -> Result<Vec<f64>, Vec<Finding>> {
    let n_measured = measured.len();
    let mut values = vec![f64::NAN; n_measured * data.times.len()];
    let mut findings = Vec::new();
    for (at, signal) in measured.iter().enumerate() {
        let Some(column) = data.column(&signal.column) else {
            findings.push(missing_column(data, &signal.column, signal.span, &signal.name));
            continue;
        };
        for (row, value) in column.iter().enumerate().filter(|(_, value)| value.is_finite()) {
            values[row * n_measured + at] = *value;
        }
    }
    if findings.is_empty() { Ok(values) } else { Err(findings) }
}

/// A record without a value that counts.
fn empty(data: &Data, measured: &[MeasuredSignal], values: &[f64], first_counted: usize) -> Option<Diagnostic> {
    if values[first_counted * measured.len()..].iter().any(|value| value.is_finite()) {
        return None;
    }
    let columns: Vec<String> = measured.iter().map(|signal| signal.column.clone()).collect();
    let is_all = values.iter().all(|value| value.is_nan());
    let (code, message, help) = if is_all {
        let message = format!("`{}` has no measured value in {}", data.file, columns.join(", "));
        ("all-missing", message, "every cell is empty or NaN: name another column with `column = ..`, or another file")
    } else {
        let message = format!("no sample is left after the transient in `{}`", data.file);
        ("no-samples", message, "shorten `transient`, or measure longer")
    };
    let mut diagnostic = Diagnostic::about_file(code, &data.file, message).with_help(help);
    diagnostic.names = columns;
    Some(diagnostic)
}

/// An accuracy that changes with time, where only a constant one is taken into account.
#[must_use]
pub fn varying_accuracy(measurement: &Named<Measurement>) -> Finding {
    let message = format!(
        "the accuracy of `{}` depends on time, which only linear models by `ml` take into account",
        measurement.name
    );
    let help = "give it without `time`, or measure the parts of the record as signals of their own";
    Finding::error("varying-accuracy", measurement.span, message).with_names([&measurement.name]).with_help(help)
}

/// A column that the data do not have.
pub(crate) fn missing_column(data: &Data, column: &str, span: Span, name: &str) -> Finding {
    let message = format!("the data file `{}` has no column `{column}` for `{name}`", data.file);
    let finding = Finding::error("data-column", span, message).with_names([name]);
    match nearest(column, data.names.iter().map(String::as_str)) {
        Some(near) => finding.with_help(format!("did you mean `{near}`? Say so with `column = \"{near}\"`")),
        None => finding.with_help(format!("its columns: {}", data.names.join(", "))),
    }
}

/// Whether a model whose parameters have values is linear in its variables for all values of the unknowns, and measured
/// signals are among these variables.
#[must_use]
pub fn linearity(flat: &FlatDae, unknowns: &[VarId], measured: &[MeasuredSignal]) -> Linearity {
    let found = match with_computed(flat, unknowns) {
        Ok(bound) => LinearModel::with_unknowns(&bound, unknowns),
        Err(mut findings) => Err(Box::new(findings.swap_remove(0))),
    };
    let model = match found {
        Ok(model) => model,
        Err(finding) => return Linearity::Nonlinear(finding),
    };
    for signal in measured {
        if model.computed.iter().any(|computed| computed.name == signal.variable) {
            let message = format!("`{}` is computed nonlinearly from the other variables", signal.name);
            let finding = Finding::error("nonlinear", signal.span, message).with_names([&signal.name]);
            return Linearity::Nonlinear(Box::new(finding));
        }
    }
    match model.kind {
        LinearKind::Constant => Linearity::Constant(Box::new(model)),
        LinearKind::TimeVarying => Linearity::TimeVarying(Box::new(model)),
    }
}

/// What makes the start of a linear model nonlinear: an initial equation, or a start value that was written for a
/// variable which is computed nonlinearly from the others, and counts: it is insisted on, or a zero that nobody wrote
/// gives way to it.
fn nonlinear_start(flat: &FlatDae, unknowns: &[VarId], model: &LinearModel) -> Option<Finding> {
    let bound = with_computed(flat, unknowns).ok()?;
    let is_computed = |name: &str| model.computed.iter().any(|computed| computed.name == name);
    let has_default = has_default_start(&bound);
    for variable in bound.variables.iter().filter(|variable| is_computed(&variable.name)) {
        if variable.fixed == Some(true) || variable.start.is_some() && has_default {
            let message = format!("`{}` has a start value and is computed nonlinearly from others", variable.name);
            return Some(Finding::error("nonlinear", variable.span, message).with_names([&variable.name]));
        }
    }
    let is_input = |var: VarId| bound.variables[var.index()].kind == VariableKind::Input;
    let is_variable = |leaf: Leaf| match leaf {
        Leaf::Var { var, .. } => is_input(var) || bound.variables[var.index()].kind == VariableKind::Continuous,
        Leaf::Time => false,
    };
    let leaves: Vec<Leaf> = (0..bound.variables.len() as u32)
        .map(VarId)
        .filter(|var| !is_computed(&bound.variables[var.index()].name))
        .flat_map(|var| [Leaf::var(var), Leaf::der(var, 1)])
        .filter(|&leaf| is_variable(leaf))
        // Derivatives of inputs are no part of the linear form.
        .filter(|leaf| !matches!(leaf, Leaf::Var { var, order: 1 } if is_input(*var)))
        .collect();
    let mut graph = bound.graph.clone();
    let mut extractor = LinearExtractor::new(&mut graph, &leaves);
    let mut reach = Reach::new();
    let nonlinear = bound.initial_equations.iter().find(|equation| {
        let residual = graph.sub(equation.lhs, equation.rhs);
        let Ok(form) = extractor.extract(&mut graph, residual) else {
            return reach.depends_on(&graph, residual, is_variable);
        };
        let parts = form.coefficients.iter().map(|entry| entry.value).chain([form.remainder]);
        parts.into_iter().any(|part| reach.depends_on(&graph, part, is_variable))
    })?;
    let message = format!("the initial equation {} is not linear", bound.equation_text(nonlinear));
    Some(Finding::error("nonlinear", nonlinear.span, message))
}

/// Whether a variable whose derivative occurs has no start value of its own.
fn has_default_start(flat: &FlatDae) -> bool {
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    let sides: Vec<ExprId> = flat.equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]).collect();
    reach.leaves(&flat.graph, &sides, &mut leaves);
    leaves.iter().any(|leaf| match *leaf {
        Leaf::Var { var, order } => order > 0 && flat.variables[var.index()].start.is_none(),
        Leaf::Time => false,
    })
}
