//! Inputs of a simulation: expressions of time and columns of data, with the derivatives the model asks for.

use daesy_graph::evaluate::{AtTime, Listed};
use daesy_graph::finding::{Finding, Level, nearest};
use daesy_graph::flat::{FlatDae, ValueType, Variable, VariableKind};
use daesy_graph::{BinaryOp, Evaluator, ExprId, Graph, Leaf, Node, Reach, SourceMap, Span, VarId};
use daesy_integrate::Inputs;
use daesy_system::{Description, Input};

use crate::data::Data;
use crate::diagnostic::Diagnostic;
use crate::load::{Loaded, quantity_expression, type_problem};
use crate::prepare::DataUse;
use crate::study::{Hold, InputSource, Quantity, Study};
use daesy_transfer::ImpulseAt;

/// How one input is given.
#[derive(Clone)]
enum Signal {
    /// Nothing is said: its start value, constant.
    Constant(f64),
    /// The value and its derivatives as expressions of time and parameters.
    Expression(Listed),
    /// Samples.
    Samples { times: Vec<f64>, values: Vec<f64>, hold: Hold, curvatures: Vec<f64> },
}

/// The inputs of a study over time.
#[derive(Clone)]
pub struct StudyInputs {
    graph: Graph,
    parameter_of: Vec<f64>,
    signals: Vec<(usize, u16, Signal)>,
    breaks: Vec<f64>,
    /// Breaks that are not samples.
    own_breaks: Vec<f64>,
    impulses: Vec<ImpulseAt>,
    /// Whether nothing is asked beyond the last sample.
    ends_with_samples: bool,
}

/// Values of parameters of the flat model.
#[derive(Clone, Copy, Debug)]
pub struct ParameterValues<'a> {
    /// The parameters.
    pub variables: &'a [VarId],
    /// Their values.
    pub values: &'a [f64],
}

/// What is known about an input before any simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputFacts {
    /// Its name.
    pub name: String,
    /// Derivatives of it that the model needs.
    pub derivatives_needed: u16,
    /// Differentiations after which it is still a function; `None` where that is not known or not limited.
    pub derivatives_available: Option<u16>,
}

/// The declared smoothness of an input in a study.
#[must_use]
pub fn derivatives_available(study: Option<&Study>, name: &str) -> Option<u16> {
    let input = study?.inputs.iter().find(|input| input.name == name)?;
    match &input.item {
        InputSource::Column { hold, .. } => Some(hold.derivatives_available()),
        InputSource::Expression { breaks, .. } if breaks.is_empty() => None,
        InputSource::Expression { .. } | InputSource::Impulses(_) => Some(0),
    }
}

/// A parameter of an expression that is known only when the start is solved: `fixed = false`, or bound to such a one.
fn late_parameter<'f>(flat: &'f FlatDae, graph: &Graph, expr: ExprId) -> Option<&'f str> {
    let mut is_late: Vec<bool> = (flat.variables.iter())
        .map(|variable| variable.kind == VariableKind::Parameter && variable.fixed == Some(false))
        .collect();
    if !is_late.contains(&true) {
        return None;
    }
    let mut reach = Reach::new();
    loop {
        let follows = |(at, variable): (usize, &Variable)| {
            let binding = variable.binding.filter(|_| !is_late[at])?;
            let late = |leaf: Leaf| matches!(leaf, Leaf::Var { var, .. } if is_late[var.index()]);
            reach.depends_on(&flat.graph, binding, late).then_some(at)
        };
        let more: Vec<usize> = flat.variables.iter().enumerate().filter_map(follows).collect();
        if more.is_empty() {
            break;
        }
        more.into_iter().for_each(|at| is_late[at] = true);
    }
    let mut leaves = Vec::new();
    reach.leaves(graph, &[expr], &mut leaves);
    leaves.iter().find_map(|leaf| match *leaf {
        Leaf::Var { var, .. } if is_late.get(var.index()) == Some(&true) => {
            Some(flat.variables[var.index()].name.as_str())
        }
        _ => None,
    })
}

fn known_late(input: &str, parameter: &str, sources: &SourceMap, span: Span) -> Diagnostic {
    let message =
        format!("the input `{input}` needs the parameter `{parameter}`, which is known only when the start is");
    let finding = Finding::error("input-parameter", span, message)
        .with_names([input, parameter])
        .with_help("write what gives the input as an equation of the model, or give the parameter a value");
    Diagnostic::resolve(&finding, sources)
}

/// The inputs of a study while they are read.
struct Reading<'a> {
    loaded: &'a Loaded,
    data: Option<&'a Data>,
    data_use: DataUse,
    parameter_of: &'a [f64],
    graph: Graph,
    /// Where expressions break, and where impulses act.
    breaks: Vec<f64>,
    sample_times: Vec<f64>,
    impulses: Vec<ImpulseAt>,
    diagnostics: Vec<Diagnostic>,
}

impl Reading<'_> {
    /// What an input of a system is; `None` where a diagnostic says why it cannot be read.
    fn signal(&mut self, input: &Input) -> Option<Signal> {
        let given = self.loaded.study.as_ref().and_then(|study| {
            study.inputs.iter().find(|given| given.name == input.name).map(|given| (&study.sources, given))
        });
        let Some((sources, given)) = given else {
            return Some(Signal::Constant(start_value(&self.loaded.flat, &input.name, self.parameter_of)));
        };
        match &given.item {
            InputSource::Expression { expression, breaks } => self.expression(input, expression, breaks, sources),
            InputSource::Column { column, hold } => self.column(&input.name, column, *hold, given.span, sources),
            InputSource::Impulses(impulses) => {
                for impulse in impulses {
                    let (time, area) = (self.read(&impulse.time, sources), self.read(&impulse.area, sources));
                    if let (Some(time), Some(area)) = (time, area) {
                        let number = |value| evaluate(&self.graph, value, 0.0, self.parameter_of);
                        let (time, area) = (number(time), number(area));
                        self.breaks.push(time);
                        self.impulses.push(ImpulseAt { input: input.name.clone(), time, area });
                    }
                }
                Some(Signal::Constant(0.0))
            }
        }
    }

    fn read(&mut self, quantity: &Quantity, sources: &SourceMap) -> Option<ExprId> {
        let read = quantity_expression(&mut self.graph, &self.loaded.flat.variables, quantity);
        read.map_err(|findings| {
            let resolve = |finding: &Finding| Diagnostic::resolve(finding, sources);
            self.diagnostics.extend(findings.iter().map(resolve));
        })
        .ok()
    }

    fn expression(
        &mut self,
        input: &Input,
        expression: &Quantity,
        breaks: &[Quantity],
        sources: &SourceMap,
    ) -> Option<Signal> {
        let value = self.read(expression, sources)?;
        let times: Vec<ExprId> = breaks.iter().filter_map(|time| self.read(time, sources)).collect();
        if let Some(name) = late_parameter(&self.loaded.flat, &self.graph, value) {
            self.diagnostics.push(known_late(&input.name, name, sources, expression.span));
            return None;
        }
        let mut own: Vec<f64> = times.iter().map(|&time| evaluate(&self.graph, time, 0.0, self.parameter_of)).collect();
        find_breaks(&mut self.graph, value, self.parameter_of, &mut own);
        if let Some(data) = self.data {
            let times = std::slice::from_ref(&data.times);
            find_breaks_between(&mut self.graph, value, self.parameter_of, times, &mut own);
        }
        let at = |time: f64| evaluate(&self.graph, value, time, self.parameter_of);
        if let Some(message) = wrong_expression(self.loaded, &input.name, &own, at) {
            let finding = Finding::error("wrong-type", expression.span, message);
            let finding = finding.with_names([&input.name]).with_help(VALUES_OF_TYPES);
            self.diagnostics.push(Diagnostic::resolve(&finding, sources));
            return None;
        }
        self.breaks.extend(own);
        let values = derivatives(&mut self.graph, &self.loaded.flat.variables, value, input.derivatives_needed);
        Some(Signal::Expression(Listed::new(&self.graph, values)))
    }

    fn column(&mut self, name: &str, column: &str, hold: Hold, span: Span, sources: &SourceMap) -> Option<Signal> {
        let (loaded, data) = (self.loaded, self.data);
        let Some(values) = data.and_then(|data| data.column(column)) else {
            if data.is_none() && self.data_use == DataUse::Optional {
                return Some(Signal::Constant(start_value(&loaded.flat, name, self.parameter_of)));
            }
            let message = match data {
                Some(data) => format!("the data file `{}` has no column `{column}`", data.file),
                None => format!("the input `{name}` needs data, but the study has none"),
            };
            let help = match data {
                None => "add `[data]` with `file = \"name.csv\"`".to_owned(),
                Some(data) => match nearest(column, data.names.iter().map(String::as_str)) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("its columns: {}", data.names.join(", ")),
                },
            };
            let finding = Finding::error("data-column", span, message).with_names([name]).with_help(help);
            self.diagnostics.push(Diagnostic::resolve(&finding, sources));
            return None;
        };
        if let Some(message) = wrong_sample(loaded, name, column, data, hold) {
            let finding = Finding::error("wrong-type", span, message).with_names([name]).with_help(SAMPLES_OF_TYPES);
            self.diagnostics.push(Diagnostic::resolve(&finding, sources));
            return None;
        }
        let times = data.map(|data| data.times.clone()).unwrap_or_default();
        self.sample_times.clone_from(&times);
        let curvatures = if hold == Hold::Cubic { natural_spline(&times, values) } else { Vec::new() };
        Some(Signal::Samples { times, values: values.to_vec(), hold, curvatures })
    }
}

impl StudyInputs {
    /// Prepares the inputs of a system of which all parameters are given.
    ///
    /// # Errors
    /// Diagnostics for data that cannot be read and expressions that cannot be evaluated.
    pub fn new(
        loaded: &Loaded,
        description: &Description,
        parameters: &ParameterValues<'_>,
        data: Option<&Data>,
        data_use: DataUse,
    ) -> Result<Self, Vec<Diagnostic>> {
        let mut parameter_of = vec![f64::NAN; loaded.flat.variables.len()];
        for (var, &value) in parameters.variables.iter().zip(parameters.values) {
            // A model that was rewritten may have more parameters than the study can name.
            if let Some(place) = parameter_of.get_mut(var.index()) {
                *place = value;
            }
        }
        let mut reading = Reading {
            loaded,
            data,
            data_use,
            parameter_of: &parameter_of,
            graph: Graph::default(),
            breaks: Vec::new(),
            sample_times: Vec::new(),
            impulses: Vec::new(),
            diagnostics: Vec::new(),
        };
        let signals: Vec<_> = description
            .inputs
            .iter()
            .filter_map(|input| Some((input.start, input.derivatives_needed, reading.signal(input)?)))
            .collect();
        let Reading { graph, breaks, sample_times, impulses, diagnostics, .. } = reading;
        if diagnostics.iter().any(|diagnostic| diagnostic.level == Level::Error) {
            return Err(diagnostics);
        }
        let mut inputs = Self {
            graph,
            parameter_of,
            signals,
            breaks: Vec::new(),
            own_breaks: breaks,
            impulses,
            ends_with_samples: false,
        };
        inputs.collect_breaks(&sample_times);
        Ok(inputs)
    }

    /// The same for those who ask nothing beyond the last sample: slopes there are those before it.
    #[must_use]
    pub fn ending_with_samples(self) -> Self {
        Self { ends_with_samples: true, ..self }
    }

    /// All breaks, ascending.
    fn collect_breaks(&mut self, sample_times: &[f64]) {
        self.breaks.clone_from(&self.own_breaks);
        self.breaks.extend_from_slice(sample_times);
        self.breaks.retain(|time| time.is_finite());
        self.breaks.sort_by(f64::total_cmp);
        self.breaks.dedup();
    }

    /// Puts other samples in the place of those of all columns; `values_of` gives those of the input whose values begin
    /// at a slot.
    pub fn set_samples(&mut self, sample_times: &[f64], values_of: impl Fn(usize) -> Vec<f64>) {
        for (slot, _, signal) in &mut self.signals {
            if let Signal::Samples { times, values, curvatures, .. } = signal {
                *times = sample_times.to_vec();
                *values = values_of(*slot);
                curvatures.clear();
            }
        }
        self.collect_breaks(sample_times);
    }

    /// How often an input that is given by an expression can be differentiated before something jumps at a break;
    /// `None` if that is not seen in the derivatives that the model needs.
    #[must_use]
    pub fn smoothness_at_breaks(&self, input: &Input) -> Option<u16> {
        let is_expression = |(start, _, signal): &&(usize, u16, Signal)| {
            *start == input.start && matches!(signal, Signal::Expression(_))
        };
        self.signals.iter().find(is_expression)?;
        self.first_jump(input)
    }

    /// The lowest derivative of an input that jumps at a break, of those that the model needs.
    #[must_use]
    pub fn first_jump(&self, input: &Input) -> Option<u16> {
        let n = self.signals.iter().map(|(start, needed, _)| start + usize::from(*needed) + 1).max().unwrap_or(0);
        let (mut before, mut after) = (vec![0.0; n], vec![0.0; n]);
        let mut smoothness = None;
        for &time in &self.breaks {
            self.fill(time, false, &mut before);
            self.fill(time, true, &mut after);
            let jump = (0..=input.derivatives_needed).find(|&order| {
                let at = input.start + usize::from(order);
                (after[at] - before[at]).abs() > 1e-8 * before[at].abs().max(after[at].abs()).max(1e-3)
            });
            smoothness = match (smoothness, jump) {
                (Some(known), Some(jump)) => Some(jump.min(known)),
                (known, jump) => known.or(jump),
            };
        }
        smoothness
    }

    /// The impulses of all inputs.
    #[must_use]
    pub fn impulses(&self) -> &[ImpulseAt] {
        &self.impulses
    }
}

/// What to do about an expression that has values that a type does not have.
const VALUES_OF_TYPES: &str = "write an expression of whole numbers that changes by jumps only, such as `if time < 1 then \
                               0 else 2`, or declare the input as a Real; false is 0, true is 1, and values of an \
                               enumeration count from 1";

/// Fractions of the time between breaks at which an expression is looked at.
const LOOKS: [f64; 4] = [0.0137, 0.377, 0.619, 0.9871];

/// A value of an expression that the type of an input does not have: looked for between breaks, where an expression of
/// whole numbers is constant.
fn wrong_expression(loaded: &Loaded, input: &str, breaks: &[f64], at: impl Fn(f64) -> f64) -> Option<String> {
    let variable = &loaded.flat.variables[loaded.flat.find(input)?.index()];
    if variable.value_type == ValueType::Real {
        return None;
    }
    let mut ends: Vec<f64> = breaks.iter().copied().filter(|time| time.is_finite()).collect();
    ends.sort_by(f64::total_cmp);
    let (first, last) = (ends.first().copied().unwrap_or(0.0), ends.last().copied().unwrap_or(0.0));
    ends.insert(0, first.min(0.0));
    ends.push(last + 1.0);
    let times = ends.windows(2).flat_map(|pair| LOOKS.map(|part| pair[0] + part * (pair[1] - pair[0])));
    let wrong = |time: f64| {
        let value = Some(at(time)).filter(|value| !value.is_nan())?;
        let problem = type_problem(variable, value)?;
        Some(format!("the input {problem}, the value of its expression at t = {time}"))
    };
    times.into_iter().find_map(wrong)
}

/// What to do about values that a type does not have.
const SAMPLES_OF_TYPES: &str = "round the column beforehand, or declare the input as a Real; false is 0, true is 1, and \
                                values of an enumeration count from 1";

/// A sample that the type of an input does not have, or a hold that makes such values between samples.
fn wrong_sample(loaded: &Loaded, input: &str, column: &str, data: Option<&Data>, hold: Hold) -> Option<String> {
    let variable = &loaded.flat.variables[loaded.flat.find(input)?.index()];
    let word = match &variable.value_type {
        ValueType::Integer => "an Integer",
        ValueType::Boolean => "a Boolean",
        ValueType::Enumeration(_) => "of an enumeration",
        ValueType::Real | ValueType::String => return None,
    };
    let data = data?;
    let samples = data.times.iter().zip(data.column(column)?);
    let mut wrong = samples.filter(|(_, value)| value.is_finite() && !variable.value_type.holds(**value));
    let of_unit = || {
        let description = loaded.unit.as_ref()?.description();
        let mut problems = data.column(column)?.iter().filter(|value| value.is_finite());
        problems.find_map(|value| description.value_problem(input, *value))
    };
    match wrong.next() {
        Some((time, value)) => Some(format!(
            "the input `{input}` is {word} and cannot be {value}, as the column `{column}` says at t = {time}"
        )),
        None if hold != Hold::Zero => Some(format!(
            "the input `{input}` is {word} and has no values between samples: it must be held, `hold = \"zoh\"`"
        )),
        None => of_unit(),
    }
}

fn start_value(flat: &FlatDae, name: &str, parameter_of: &[f64]) -> f64 {
    let start = flat.find(name).and_then(|var| flat.variables[var.index()].start);
    start.map_or(0.0, |start| evaluate(&flat.graph, start, 0.0, parameter_of))
}

fn evaluate(graph: &Graph, expr: ExprId, time: f64, parameter_of: &[f64]) -> f64 {
    Evaluator::new().evaluate_one(graph, expr, &AtTime { time, parameter_of })
}

/// An expression and its time derivatives.
fn derivatives(graph: &mut Graph, variables: &[Variable], value: ExprId, n: u16) -> Vec<ExprId> {
    let mut made = vec![value];
    for at in 0..usize::from(n) {
        let kind = |var: VarId| variables.get(var.index()).map_or(VariableKind::Parameter, |variable| variable.kind);
        let next = graph.total_time_derivative(made[at], &kind);
        made.push(next);
    }
    made
}

/// The times at which a relation that is linear in time changes.
pub(crate) fn find_breaks(graph: &mut Graph, value: ExprId, parameter_of: &[f64], breaks: &mut Vec<f64>) {
    let mut reach = Reach::new();
    let below: Vec<ExprId> = reach.below(graph, &[value]).to_vec();
    for expr in below {
        if let Node::Binary { op, lhs, rhs } = graph.node(expr)
            && (op.is_relation() || matches!(op, BinaryOp::Min | BinaryOp::Max))
        {
            let difference = graph.sub(lhs, rhs);
            let Ok(form) = graph.linear_coefficients(difference, &[Leaf::Time]) else { continue };
            let slope = graph.partial(difference, Leaf::Time);
            let slope = evaluate(graph, slope, 0.0, parameter_of);
            let offset = evaluate(graph, form.remainder, 0.0, parameter_of);
            if slope != 0.0 {
                // Zeros are told apart by their signs where breaks are looked up.
                breaks.push(-offset / slope + 0.0);
            }
        }
    }
}

/// Breaks of an expression of time that are searched at most.
const MAX_BREAKS: usize = 20_000;

/// Breaks closer than this to a sample or to another break, relative to their size, are at the same time.
const SAME_BREAK: f64 = 1e-10;

/// Adds the times at which an expression of time jumps or bends between the samples, whatever its form.
pub(crate) fn find_breaks_between(
    graph: &mut Graph,
    value: ExprId,
    parameter_of: &[f64],
    times: &[Vec<f64>],
    breaks: &mut Vec<f64>,
) {
    let ends = times.iter().filter_map(|times| Some((*times.first()?, *times.last()?)));
    let (from, until) =
        ends.fold((f64::INFINITY, f64::NEG_INFINITY), |all, (first, last)| (all.0.min(first), all.1.max(last)));
    if from >= until {
        return;
    }
    let known = |var: VarId| parameter_of.get(var.index()).copied().unwrap_or(f64::NAN);
    for found in daesy_compile::breaks_in_time(graph, value, &known, from..=until, MAX_BREAKS) {
        let is_same = |time: f64| (time - found).abs() <= SAME_BREAK * found.abs().max(1e-3);
        let at_sample = times.iter().find_map(|times| {
            let after = times.partition_point(|&time| time < found);
            let near = [after.checked_sub(1), Some(after)].into_iter().flatten().filter_map(|at| times.get(at));
            near.copied().find(|&time| is_same(time))
        });
        let time = at_sample.unwrap_or(found);
        if !breaks.iter().any(|&known| is_same(known)) {
            breaks.push(time);
        }
    }
}

/// Second derivatives of the natural cubic spline through the samples.
pub(crate) fn natural_spline(times: &[f64], values: &[f64]) -> Vec<f64> {
    let n = times.len();
    let mut curvatures = vec![0.0; n];
    if n < 3 {
        return curvatures;
    }
    let mut upper = vec![0.0; n];
    for at in 1..n - 1 {
        let (before, after) = (times[at] - times[at - 1], times[at + 1] - times[at]);
        let slope = (values[at + 1] - values[at]) / after - (values[at] - values[at - 1]) / before;
        let diagonal = 2.0 * (before + after) - before * upper[at - 1];
        upper[at] = after / diagonal;
        curvatures[at] = (6.0 * slope - before * curvatures[at - 1]) / diagonal;
    }
    for at in (1..n - 1).rev() {
        curvatures[at] -= upper[at] * curvatures[at + 1];
    }
    curvatures
}

impl Inputs for StudyInputs {
    fn fill(&self, time: f64, is_after: bool, values: &mut [f64]) {
        let mut memory = Vec::new();
        // Relations that change exactly now are read a little to the side that is asked for.
        let nudge = 1e-12 * time.abs().max(1e-3);
        let is_break = self.breaks.binary_search_by(|candidate| candidate.total_cmp(&time)).is_ok();
        let read_time = match (is_break, is_after) {
            (false, _) => time,
            (true, true) => time + nudge,
            (true, false) => time - nudge,
        };
        for (start, needed, signal) in &self.signals {
            let slots = &mut values[*start..=*start + usize::from(*needed)];
            match signal {
                Signal::Constant(value) => {
                    slots.fill(0.0);
                    slots[0] = *value;
                }
                Signal::Expression(exprs) => {
                    let environment = AtTime { time: read_time, parameter_of: &self.parameter_of };
                    exprs.evaluate(&self.graph, &environment, &mut memory, slots);
                }
                Signal::Samples { times, values, hold, curvatures } => {
                    let is_end = self.ends_with_samples && *hold != Hold::Zero && times.last() == Some(&time);
                    let is_after = is_after && !is_end;
                    sample(times, values, *hold, curvatures, time, is_after, slots);
                }
            }
        }
    }

    fn breaks(&self) -> &[f64] {
        &self.breaks
    }

    fn is_cubic(&self) -> bool {
        // Samples are joined by constants, straight lines or cubic polynomials, and breaks are at all of them.
        !self.signals.iter().any(|(_, _, signal)| matches!(signal, Signal::Expression(_)))
    }
}

/// A sampled input and its derivatives; beyond the samples the first and last value hold.
fn sample(times: &[f64], values: &[f64], hold: Hold, curvatures: &[f64], time: f64, is_after: bool, slots: &mut [f64]) {
    slots.fill(0.0);
    let n_before = times.partition_point(|&sample| if is_after { sample <= time } else { sample < time });
    if n_before == 0 {
        slots[0] = values[0];
        return;
    }
    let at = n_before - 1;
    if hold == Hold::Zero || at + 1 >= times.len() {
        slots[0] = values[at];
        return;
    }
    let step = times[at + 1] - times[at];
    let x = time - times[at];
    let slope = (values[at + 1] - values[at]) / step;
    let (m0, m1) = if hold == Hold::Cubic { (curvatures[at], curvatures[at + 1]) } else { (0.0, 0.0) };
    let linear = slope - step * (2.0 * m0 + m1) / 6.0;
    let cubic = (m1 - m0) / (6.0 * step);
    let polynomial = [
        values[at] + x * (linear + x * (0.5 * m0 + x * cubic)),
        linear + x * (m0 + x * 3.0 * cubic),
        m0 + x * 6.0 * cubic,
        6.0 * cubic,
    ];
    for (slot, value) in slots.iter_mut().zip(polynomial) {
        *slot = value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_interpolate_as_they_say() {
        let times = [0.0, 1.0, 2.0, 3.5];
        let values = [1.0, 3.0, 2.0, 5.0];
        let curvatures = natural_spline(&times, &values);
        let mut slots = [0.0; 3];
        sample(&times, &values, Hold::Zero, &[], 1.0, true, &mut slots);
        assert_eq!(slots, [3.0, 0.0, 0.0]);
        sample(&times, &values, Hold::Zero, &[], 1.0, false, &mut slots);
        assert_eq!(slots, [1.0, 0.0, 0.0]);
        sample(&times, &values, Hold::First, &[], 1.25, true, &mut slots);
        assert_eq!(slots, [2.75, -1.0, 0.0]);
        // The spline passes through the samples with continuous first and second derivatives.
        for (at, &time) in times.iter().enumerate().skip(1).take(2) {
            let (mut before, mut after) = ([0.0; 3], [0.0; 3]);
            sample(&times, &values, Hold::Cubic, &curvatures, time, false, &mut before);
            sample(&times, &values, Hold::Cubic, &curvatures, time, true, &mut after);
            assert!((before[0] - values[at]).abs() < 1e-12);
            for (before, after) in before.iter().zip(after) {
                assert!((before - after).abs() < 1e-12);
            }
        }
    }
}
