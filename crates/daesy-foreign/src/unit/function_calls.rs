//! The functions of a unit as those of a graph.

use daesy_graph::foreign::{ForeignFailure, ForeignUnit, points};

use super::function;
use super::{Columns, Company, Question, Remembered, Unit, garbled, lock, part_of, partner};
use crate::description::Variability;
use crate::error::ForeignError;
use crate::message::part;

impl ForeignUnit for Unit {
    fn evaluate(&self, function: u32, inputs: &[f64], outputs: &mut [f64]) -> Result<(), ForeignFailure> {
        let partner = partner(function);
        {
            let mut remembered = lock(&self.remembered);
            let is_this = |one: &&mut Remembered| one.function == function && one.arguments == inputs;
            if let Some(known) = remembered.iter_mut().find(is_this) {
                if std::mem::take(&mut known.is_fetched) {
                    self.pairs.is_seen();
                }
                outputs.copy_from_slice(&known.values);
                return Ok(());
            }
            if remembered.iter().any(|one| Some(one.function) == partner && one.arguments == inputs) {
                self.pairs.is_seen();
            }
        }
        let values = match function {
            function::START => {
                let (given, parameters) = inputs[1..].split_at(self.arguments.n_inputs);
                self.start(inputs[0], given, parameters)?
            }
            function::EVENT => self.event(&self.arguments.point(inputs))?,
            _ => {
                let fetched = partner.filter(|_| self.pairs.fetches());
                let question =
                    |function: u32| Question::Evaluate { part: part_of(function), arguments: inputs.to_vec() };
                let mut questions: Vec<Question> = std::iter::once(function).chain(fetched).map(question).collect();
                let has_columns = function == function::DERIVATIVES && self.pairs_with_columns.fetches();
                let columns = if has_columns { self.all_columns(inputs) } else { Vec::new() };
                let sums = columns.iter().flat_map(|(_, sums)| sums).flat_map(|(_, sum)| sum);
                questions.extend(sums.map(|(question, _)| question.clone()));
                let mut answers = self.answers_of_different(&questions).into_iter();
                let values = answers.next().unwrap_or_else(|| Err(self.note(&garbled())))?;
                if let Some(function) = fetched
                    && let Some(Ok(values)) = answers.next()
                {
                    self.remember(Remembered { function, arguments: inputs.to_vec(), values, is_fetched: true });
                }
                for (by, sums) in columns {
                    let values = self.totals(&sums, &mut answers);
                    // What failed is asked again, in other ways.
                    if values.iter().flatten().all(|value| !value.is_nan()) {
                        let (arguments, fetched_with) = (inputs.to_vec(), Some(Company::Function));
                        let values = values.into_iter().map(Some).collect();
                        self.remember_columns(Columns { function, arguments, by, values, fetched_with });
                    }
                }
                values
            }
        };
        if values.len() != outputs.len() {
            return Err(self.note(&ForeignError::Changed { what: "the unit gave another number of values".to_owned() }));
        }
        outputs.copy_from_slice(&values);
        self.remember(Remembered { function, arguments: inputs.to_vec(), values, is_fetched: false });
        Ok(())
    }

    fn tangent(
        &self,
        function: u32,
        inputs: &[f64],
        direction: &[f64],
        outputs: &mut [f64],
    ) -> Result<(), ForeignFailure> {
        if matches!(function, function::START | function::EVENT) {
            return self.differences_of_history(function, inputs, direction, outputs);
        }
        let values = match self.column(function, direction) {
            Some((at, change)) => {
                let column = self.column_at(function, inputs, at);
                column.map(|column| column.iter().map(|value| change * value).collect())
            }
            None => self.derivatives(function, &[(inputs, direction)]).pop(),
        };
        let Some(values) = values.filter(|values: &Vec<f64>| !values.iter().any(|value| value.is_nan())) else {
            return Err(self.no_derivative());
        };
        outputs.copy_from_slice(&values);
        Ok(())
    }

    fn evaluate_all(&self, function: u32, n_points: usize, inputs: &[f64], outputs: &mut [f64]) {
        let part = match function {
            function::DERIVATIVES => part::DERIVATIVES,
            function::INDICATORS => part::INDICATORS,
            function::VALUES => part::VALUES,
            _ => u8::MAX,
        };
        if n_points < 2 || part == u8::MAX {
            for (inputs, outputs) in points(n_points, inputs, outputs) {
                if self.evaluate(function, inputs, outputs).is_err() {
                    outputs.fill(f64::NAN);
                }
            }
            return;
        }
        let lists = inputs.chunks(inputs.len() / n_points);
        let questions: Vec<Question> =
            lists.map(|arguments| Question::Evaluate { part, arguments: arguments.to_vec() }).collect();
        let n_outputs = outputs.len() / n_points;
        for (answer, outputs) in self.answers(&questions).into_iter().zip(outputs.chunks_mut(n_outputs.max(1))) {
            match answer {
                Ok(values) if values.len() == outputs.len() => outputs.copy_from_slice(&values),
                _ => outputs.fill(f64::NAN),
            }
        }
    }

    fn tangent_all(&self, function: u32, n_points: usize, inputs: &[f64], outputs: &mut [f64]) {
        if n_points < 2 || matches!(function, function::START | function::EVENT) {
            for (inputs, outputs) in points(n_points, inputs, outputs) {
                let (point, direction) = inputs.split_at(inputs.len() / 2);
                let is_still = direction.iter().all(|&change| change == 0.0);
                if is_still {
                    outputs.fill(0.0);
                } else if self.tangent(function, point, direction, outputs).is_err() {
                    outputs.fill(f64::NAN);
                }
            }
            return;
        }
        let (n_inputs, n_outputs) = (inputs.len() / n_points, outputs.len() / n_points);
        let lists: Vec<(&[f64], &[f64])> = inputs.chunks(n_inputs).map(|all| all.split_at(n_inputs / 2)).collect();
        let values = self.derivatives(function, &lists);
        for (values, outputs) in values.into_iter().zip(outputs.chunks_mut(n_outputs.max(1))) {
            outputs.copy_from_slice(&values);
        }
    }

    fn depends(&self, function: u32, output: usize, input: usize) -> bool {
        match function {
            function::DERIVATIVES => self.depends_on(self.believed_dependencies(function, output), input),
            function::INDICATORS => input != 1 && self.depends_on(None, input),
            function::VALUES => {
                self.description.scalars[self.values[output]].variability == Variability::Continuous
                    && self.depends_on(self.believed_dependencies(function, output), input)
            }
            // Time, inputs and parameters, no mode and no states.
            function::START => {
                output >= 3 && (input == 0 || self.depends_on(None, input + 1 + self.arguments.n_states))
            }
            _ => output >= 3 && input != 1 && self.depends_on(None, input),
        }
    }

    fn whole_variables(&self) -> Vec<&str> {
        let scalars = self.values.iter().map(|&at| &self.description.scalars[at]);
        scalars.filter(|scalar| !scalar.block.scalar_type.is_real()).map(|scalar| scalar.name.as_str()).collect()
    }

    fn noise(&self) -> f64 {
        self.probed().map_or(0.0, |probed| probed.noise)
    }

    fn failure(&self) -> Option<ForeignFailure> {
        lock(&self.trouble).last.clone()
    }
}
