//! Derivatives of the functions of a unit, by itself or by differences.

use std::sync::atomic::Ordering;

use daesy_graph::foreign::{ForeignFailure, ForeignUnit as _};

use super::function;
use super::{
    Arguments, AskedColumns, Columns, Company, LEAST_REMEMBERED, MOST_NUMBERS, MOST_REMEMBERED, Question, Sum, Unit,
    lock, part_of, partner,
};
use crate::worker::n_values;

impl Unit {
    /// Typical sizes of the arguments, for differences.
    pub(crate) fn scale(&self, function: u32, at: usize, value: f64) -> f64 {
        let Arguments { n_states, n_inputs, .. } = self.arguments;
        let offset = if function == function::START { n_states + 1 } else { 0 };
        let scalars = &self.description.scalars;
        let place = if at == 0 { 0 } else { at + offset };
        let nominal = match place {
            0 => {
                let experiment = &self.description.experiment;
                let span = experiment.stop.unwrap_or(1.0) - experiment.start.unwrap_or(0.0);
                return span.abs().max(value.abs()).max(f64::MIN_POSITIVE);
            }
            1 => return 1.0,
            at if at < 2 + n_states => scalars[self.description.states[at - 2].state].nominal,
            at if at < 2 + n_states + n_inputs => scalars[self.inputs[at - 2 - n_states]].nominal,
            at => {
                // A parameter has the size that it has.
                let given = scalars[self.parameters[at - 2 - n_states - n_inputs]].nominal;
                let size = if value == 0.0 { given.unwrap_or(1.0) } else { value };
                return size.abs();
            }
        };
        nominal.unwrap_or(1.0).abs().max(value.abs())
    }

    /// The derivative of a function along a direction, as a sum of answers.
    ///
    /// Along states and inputs the unit is asked, where it offers that. Parameters are moved alone and always by the same
    /// step, so that the instances at these values are used again.
    pub(super) fn derivative(&self, function: u32, inputs: &[f64], direction: &[f64]) -> Sum {
        let n_before = direction.len() - self.arguments.n_parameters;
        let (mut along, mut of_parameters) = (direction.to_vec(), direction.to_vec());
        along[n_before..].fill(0.0);
        of_parameters[..n_before].fill(0.0);
        if function != function::START {
            // A mode is a name, not a number.
            along[1] = 0.0;
        }
        let is_offered = function == function::DERIVATIVES && self.has_directional.load(Ordering::Relaxed);
        let mut sum = Sum::new();
        if is_offered && along[0] == 0.0 {
            sum.extend(self.directional(inputs, &along));
        } else {
            self.differences(function, inputs, &along, &mut sum);
        }
        self.differences(function, inputs, &of_parameters, &mut sum);
        sum
    }

    /// Derivatives along a direction in states and inputs, from the unit.
    pub(super) fn directional(&self, arguments: &[f64], along: &[f64]) -> Option<(Question, f64)> {
        let scalars = &self.description.scalars;
        let direction = self.arguments.point(along);
        let (mut knowns, mut seed) = (Vec::new(), Vec::new());
        let states = self.description.states.iter().map(|state| state.state).zip(direction.states);
        let inputs = self.inputs.iter().copied().zip(direction.inputs);
        for (at, &change) in states.chain(inputs).filter(|(_, change)| **change != 0.0) {
            knowns.push(scalars[at].block.reference);
            seed.push(change);
        }
        let arguments = arguments.to_vec();
        (!knowns.is_empty()).then_some((Question::Directional { arguments, knowns, seed }, 1.0))
    }

    /// Central differences along a direction: the largest move in units of typical sizes is the cube root of the
    /// rounding unit, or of the noise of the unit if that is more.
    fn differences(&self, function: u32, inputs: &[f64], direction: &[f64], sum: &mut Sum) {
        let moves = inputs.iter().zip(direction).enumerate().filter(|(_, (_, change))| **change != 0.0);
        let largest =
            moves.map(|(at, (&value, change))| change.abs() / self.scale(function, at, value)).fold(0.0, f64::max);
        if largest == 0.0 {
            return;
        }
        let step = self.noise().max(f64::EPSILON).cbrt() / largest;
        let part = part_of(function);
        for sign in [1.0, -1.0] {
            let arguments = inputs.iter().zip(direction).map(|(at, change)| at + sign * step * change).collect();
            sum.push((Question::Evaluate { part, arguments }, sign / (2.0 * step)));
        }
    }

    /// The same for starts and events, whose answers are recorded as modes and asked one by one.
    pub(super) fn differences_of_history(
        &self,
        function: u32,
        inputs: &[f64],
        direction: &[f64],
        outputs: &mut [f64],
    ) -> Result<(), ForeignFailure> {
        outputs.fill(0.0);
        let mut values = vec![0.0; outputs.len()];
        for (question, weight) in self.derivative(function, inputs, direction) {
            self.evaluate(function, question.arguments(), &mut values)?;
            outputs.iter_mut().zip(&values).for_each(|(output, value)| *output += weight * value);
        }
        Ok(())
    }

    /// The values of sums, each of a function, by as few messages as possible; NaN where there is none.
    pub(super) fn sums(&self, sums: &[(u32, Sum)]) -> Vec<Vec<f64>> {
        let questions = sums.iter().flat_map(|(_, sum)| sum).map(|(question, _)| question.clone());
        self.totals(sums, &mut self.answers(&questions.collect::<Vec<Question>>()).into_iter())
    }

    /// The values of sums from the answers to all their questions, one after the other.
    pub(super) fn totals(
        &self,
        sums: &[(u32, Sum)],
        answers: &mut dyn Iterator<Item = Result<Vec<f64>, ForeignFailure>>,
    ) -> Vec<Vec<f64>> {
        let mut values = Vec::with_capacity(sums.len());
        for (function, sum) in sums {
            let n_outputs = self.n_outputs(*function);
            let mut total = vec![0.0; n_outputs];
            for (_, weight) in sum {
                match answers.next() {
                    Some(Ok(answer)) if answer.len() == n_outputs => {
                        total.iter_mut().zip(answer).for_each(|(total, one)| *total += weight * one);
                    }
                    _ => total.fill(f64::NAN),
                }
            }
            values.push(total);
        }
        values
    }

    /// Derivatives at points; where the unit's own fail, differences take their place.
    pub(super) fn derivatives(&self, function: u32, points: &[(&[f64], &[f64])]) -> Vec<Vec<f64>> {
        self.derivatives_of(&[function], points).pop().unwrap_or_default()
    }

    /// The same for several functions, by one message where possible; function by function.
    fn derivatives_of(&self, functions: &[u32], points: &[(&[f64], &[f64])]) -> Vec<Vec<Vec<f64>>> {
        let is_offered = self.has_directional.load(Ordering::Relaxed);
        let of_function = |&function: &u32| {
            points.iter().map(move |(inputs, direction)| (function, self.derivative(function, inputs, direction)))
        };
        let sums: Vec<(u32, Sum)> = functions.iter().flat_map(of_function).collect();
        let mut values = self.sums(&sums).into_iter();
        let is_bad = |values: &Vec<f64>| values.iter().any(|value| value.is_nan());
        let mut all = Vec::with_capacity(functions.len());
        for &function in functions {
            let mut own: Vec<Vec<f64>> = values.by_ref().take(points.len()).collect();
            if is_offered && function == function::DERIVATIVES && own.iter().any(is_bad) {
                for (value, (inputs, direction)) in own.iter_mut().zip(points).filter(|(value, _)| is_bad(value)) {
                    let mut sum = Sum::new();
                    let mut along = direction.to_vec();
                    along[1] = 0.0;
                    self.differences(function, inputs, &along, &mut sum);
                    *value = self.sums(&[(function, sum)]).pop().unwrap_or_default();
                }
            }
            all.push(own);
        }
        all
    }

    /// Number of results of a function of a point.
    pub(crate) fn n_outputs(&self, function: u32) -> usize {
        match function {
            function::DERIVATIVES => self.arguments.n_states,
            function::INDICATORS => self.opening.n_indicators,
            _ => n_values(&self.opening.values),
        }
    }

    /// The column of a Jacobian that a direction stands for: the state or parameter that moves alone, as an argument,
    /// and how far.
    pub(super) fn column(&self, function: u32, direction: &[f64]) -> Option<(usize, f64)> {
        let is_of_point = matches!(function, function::DERIVATIVES | function::INDICATORS | function::VALUES);
        let mut moved = direction.iter().enumerate().filter(|(_, change)| **change != 0.0);
        let (at, &change) = moved.next().filter(|_| is_of_point)?;
        let is_column = self.columns_with(at).contains(&at);
        (is_column && moved.next().is_none()).then_some((at, change))
    }

    /// The arguments whose columns are computed together with that of one: all states, or all parameters that move.
    fn columns_with(&self, at: usize) -> Vec<usize> {
        let Arguments { n_states, n_inputs, .. } = self.arguments;
        if at < 2 + n_states {
            return (2..2 + n_states).collect();
        }
        self.moved.iter().map(|parameter| 2 + n_states + n_inputs + parameter).collect()
    }

    /// A column of the Jacobian at a point. Who asks for one will ask for the others: they come in the same message.
    pub(super) fn column_at(&self, function: u32, inputs: &[f64], at: usize) -> Option<Vec<f64>> {
        let partner = partner(function);
        {
            let mut columns = lock(&self.columns);
            let is_here = |one: &Columns| one.by.contains(&at) && one.arguments == inputs;
            if let Some(known) = columns.iter_mut().find(|one| one.function == function && is_here(one)) {
                match known.fetched_with.take() {
                    Some(Company::Columns) => self.pairs_of_columns.is_seen(),
                    Some(Company::Function) => self.pairs_with_columns.is_seen(),
                    None => {}
                }
                let place = known.by.iter().position(|&by| by == at)?;
                return known.values[place].clone();
            }
            if columns.iter().any(|one| Some(one.function) == partner && is_here(one)) {
                self.pairs_of_columns.is_seen();
            }
        }
        if function == function::DERIVATIVES
            && lock(&self.remembered).iter().any(|one| one.function == function && one.arguments == inputs)
        {
            self.pairs_with_columns.is_seen();
        }
        let fetched = partner.filter(|_| self.pairs_of_columns.fetches());
        let functions: Vec<u32> = std::iter::once(function).chain(fetched).collect();
        let by = self.columns_with(at);
        let directions: Vec<Vec<f64>> = by.iter().map(|&by| unit_direction(inputs.len(), by)).collect();
        let points: Vec<(&[f64], &[f64])> = directions.iter().map(|direction| (inputs, direction.as_slice())).collect();
        let found = self.derivatives_of(&functions, &points);
        let place = by.iter().position(|&by| by == at)?;
        let sound = |values: Vec<f64>| (!values.iter().any(|value| value.is_nan())).then_some(values);
        let mut wanted = None;
        for (of, values) in functions.into_iter().zip(found) {
            let values: Vec<Option<Vec<f64>>> = values.into_iter().map(sound).collect();
            if of == function {
                wanted.clone_from(&values[place]);
            }
            let fetched_with = (of != function).then_some(Company::Columns);
            let arguments = inputs.to_vec();
            self.remember_columns(Columns { function: of, arguments, by: by.clone(), values, fetched_with });
        }
        wanted
    }

    pub(super) fn remember_columns(&self, one: Columns) {
        let n_numbers = one.by.len() * self.n_outputs(one.function);
        let most = (MOST_NUMBERS / n_numbers.max(1)).clamp(LEAST_REMEMBERED, 2 * MOST_REMEMBERED);
        let mut columns = lock(&self.columns);
        if columns.len() >= most {
            columns.remove(0);
        }
        columns.push(one);
    }

    /// The questions whose answers are the columns of the derivatives at a point: by the states, and by the parameters
    /// that move.
    pub(super) fn all_columns(&self, inputs: &[f64]) -> Vec<AskedColumns> {
        let function = function::DERIVATIVES;
        let sum = |&by: &usize| (function, self.derivative(function, inputs, &unit_direction(inputs.len(), by)));
        let Arguments { n_states, n_inputs, .. } = self.arguments;
        let parameters = self.moved.iter().map(|parameter| 2 + n_states + n_inputs + parameter).collect();
        let kinds: [Vec<usize>; 2] = [(2..2 + n_states).collect(), parameters];
        let kinds = kinds.into_iter().filter(|by| !by.is_empty());
        kinds.map(|by| (by.clone(), by.iter().map(sum).collect())).collect()
    }

    /// What the unit said last, for a derivative without a value.
    pub(super) fn no_derivative(&self) -> ForeignFailure {
        lock(&self.trouble).last.clone().unwrap_or_else(|| ForeignFailure {
            code: "fmu-status",
            message: "the unit has no derivative here".to_owned(),
            help: String::new(),
        })
    }
}

/// The direction along one argument.
fn unit_direction(n: usize, along: usize) -> Vec<f64> {
    (0..n).map(|at| f64::from(u8::from(at == along))).collect()
}
