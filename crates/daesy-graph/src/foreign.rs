//! Functions whose body is not known here: those of a model that runs elsewhere.
//!
//! A [`Foreign`] function f: R^n -> R^m belongs to a unit, which evaluates it, says which output depends on which
//! input, and knows its derivative along a direction,
//!
//! ```text
//! T(x, dx) = (d f / d x)(x) dx
//! ```
//!
//! The tangent is a foreign function again, of 2 n inputs. Derivatives of tangents, which no unit offers, are central
//! differences of them: with e = (e1, e2) the direction,
//!
//! ```text
//! (T(x + h e1, dx + h e2) - T(x - h e1, dx - h e2)) / (2 h)
//! ```

use std::fmt;
use std::sync::Arc;

use crate::history::History;
use crate::transport::Transport;

/// Why a foreign function has no value, or a unit none any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForeignFailure {
    /// A short stable word for the kind.
    pub code: &'static str,
    /// The cause.
    pub message: String,
    /// The remedy.
    pub help: String,
}

/// A model that runs elsewhere. Its functions must be pure: the same inputs give the same outputs.
pub trait ForeignUnit: Send + Sync + fmt::Debug {
    /// The outputs of one of its functions.
    ///
    /// # Errors
    /// When there are none at these inputs.
    fn evaluate(&self, function: u32, inputs: &[f64], outputs: &mut [f64]) -> Result<(), ForeignFailure>;

    /// The derivatives of the outputs along a direction.
    ///
    /// # Errors
    /// When there are none at these inputs.
    fn tangent(
        &self,
        function: u32,
        inputs: &[f64],
        direction: &[f64],
        outputs: &mut [f64],
    ) -> Result<(), ForeignFailure>;

    /// Outputs at many points, one point after the other in both lists; NaN where there are none. A unit for which a
    /// question costs more than its answer takes them all at once.
    fn evaluate_all(&self, function: u32, n_points: usize, inputs: &[f64], outputs: &mut [f64]) {
        for (inputs, outputs) in points(n_points, inputs, outputs) {
            if self.evaluate(function, inputs, outputs).is_err() {
                outputs.fill(f64::NAN);
            }
        }
    }

    /// Derivatives at many points, each followed by its direction; NaN where there are none.
    fn tangent_all(&self, function: u32, n_points: usize, inputs: &[f64], outputs: &mut [f64]) {
        for (inputs, outputs) in points(n_points, inputs, outputs) {
            let (point, direction) = inputs.split_at(inputs.len() / 2);
            if self.tangent(function, point, direction, outputs).is_err() {
                outputs.fill(f64::NAN);
            }
        }
    }

    /// Whether an output can depend on an input in a differentiable way.
    fn depends(&self, function: u32, output: usize, input: usize) -> bool;

    /// Why the unit runs no more, or was found to be another one than it seemed: all that was computed is void.
    fn failure(&self) -> Option<ForeignFailure>;

    /// How much its outputs are off by noise, relative to their size; zero where that is rounding.
    fn noise(&self) -> f64 {
        0.0
    }

    /// Names of variables of the unit that have values of no Real type.
    fn whole_variables(&self) -> Vec<&str> {
        Vec::new()
    }

    /// What the unit remembers of a run, where it is the memory of one.
    fn remembered(&self) -> Option<Remembered<'_>> {
        None
    }
}

/// A unit that a simulation writes while it runs, and that its model reads.
#[derive(Clone, Copy, Debug)]
pub enum Remembered<'u> {
    /// What a signal was.
    History(&'u History),
    /// What is in a pipe.
    Transport(&'u Transport),
}

/// The lists of many points, point by point.
pub fn points<'a>(
    n_points: usize,
    inputs: &'a [f64],
    outputs: &'a mut [f64],
) -> impl Iterator<Item = (&'a [f64], &'a mut [f64])> {
    let (n_inputs, n_outputs) = (inputs.len() / n_points.max(1), outputs.len() / n_points.max(1));
    inputs.chunks(n_inputs.max(1)).zip(outputs.chunks_mut(n_outputs.max(1)))
}

/// A function of a unit, or a derivative of it.
#[derive(Clone, Debug)]
pub struct Foreign {
    /// The unit.
    pub unit: Arc<dyn ForeignUnit>,
    /// Which of its functions.
    pub function: u32,
    /// Its name, such as `derivatives`.
    pub name: &'static str,
    /// Inputs of the function itself.
    pub n_inputs: usize,
    /// Outputs.
    pub n_outputs: usize,
    /// How often it is differentiated: 0 is the function itself, 1 its tangent.
    pub order: u8,
}

impl PartialEq for Foreign {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.unit, &other.unit) && (self.function, self.order) == (other.function, other.order)
    }
}

impl Foreign {
    /// Inputs with all directions.
    #[must_use]
    pub const fn n_all_inputs(&self) -> usize {
        self.n_inputs << self.order
    }

    /// The tangent, whose inputs are all inputs of this and then their directions.
    #[must_use]
    pub fn tangent(&self) -> Self {
        Self { order: self.order + 1, ..self.clone() }
    }

    /// Whether an output can depend on one of all inputs.
    #[must_use]
    pub fn depends(&self, output: usize, input: usize) -> bool {
        self.unit.depends(self.function, output, input % self.n_inputs.max(1))
    }

    /// The outputs.
    ///
    /// # Errors
    /// When there are none at these inputs.
    pub fn evaluate(&self, inputs: &[f64], outputs: &mut [f64]) -> Result<(), ForeignFailure> {
        self.at_order(self.order, inputs, outputs)
    }

    /// The outputs at many points, one after the other in both lists; NaN where there are none.
    pub fn evaluate_all(&self, n_points: usize, inputs: &[f64], outputs: &mut [f64]) {
        let is_sound = inputs.iter().all(|input| input.is_finite());
        match self.order {
            0 if is_sound => self.unit.evaluate_all(self.function, n_points, inputs, outputs),
            1 if is_sound => self.unit.tangent_all(self.function, n_points, inputs, outputs),
            _ => {
                for (inputs, outputs) in points(n_points, inputs, outputs) {
                    let is_sound = inputs.iter().all(|input| input.is_finite());
                    if !is_sound || self.evaluate(inputs, outputs).is_err() {
                        outputs.fill(f64::NAN);
                    }
                }
            }
        }
    }

    fn at_order(&self, order: u8, inputs: &[f64], outputs: &mut [f64]) -> Result<(), ForeignFailure> {
        let (point, direction) = inputs.split_at(inputs.len() / 2);
        match order {
            0 => self.unit.evaluate(self.function, inputs, outputs),
            _ if direction.iter().all(|&change| change == 0.0) => {
                outputs.fill(0.0);
                Ok(())
            }
            1 => self.unit.tangent(self.function, point, direction, outputs),
            _ => {
                let step = difference_step(point, direction);
                let moved = |sign: f64| -> Vec<f64> {
                    point.iter().zip(direction).map(|(at, change)| at + sign * step * change).collect()
                };
                let mut behind = vec![0.0; outputs.len()];
                self.at_order(order - 1, &moved(1.0), outputs)?;
                self.at_order(order - 1, &moved(-1.0), &mut behind)?;
                for (output, behind) in outputs.iter_mut().zip(behind) {
                    *output = (*output - behind) / (2.0 * step);
                }
                Ok(())
            }
        }
    }
}

/// The step h of a central difference along a direction: the largest move |h d_i| / max(|x_i|, 1) is the cube root of
/// the rounding unit, where truncation and rounding errors balance [@griewank2008, sec. 1.1].
#[must_use]
pub fn difference_step(point: &[f64], direction: &[f64]) -> f64 {
    let largest = point.iter().zip(direction).map(|(at, change)| change.abs() / at.abs().max(1.0)).fold(0.0, f64::max);
    if largest > 0.0 { f64::EPSILON.cbrt() / largest } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Graph;
    use crate::Leaf;
    use crate::evaluate::Evaluator;
    use crate::intrinsic::Intrinsic;
    use crate::node::VarId;

    /// f(x, y) = (x^2 y, 3 x); the second output does not depend on y.
    #[derive(Debug)]
    struct Product;

    impl ForeignUnit for Product {
        fn evaluate(&self, _: u32, inputs: &[f64], outputs: &mut [f64]) -> Result<(), ForeignFailure> {
            outputs.copy_from_slice(&[inputs[0] * inputs[0] * inputs[1], 3.0 * inputs[0]]);
            Ok(())
        }

        fn tangent(&self, _: u32, x: &[f64], d: &[f64], outputs: &mut [f64]) -> Result<(), ForeignFailure> {
            outputs.copy_from_slice(&[2.0 * x[0] * x[1] * d[0] + x[0] * x[0] * d[1], 3.0 * d[0]]);
            Ok(())
        }

        fn depends(&self, _: u32, output: usize, input: usize) -> bool {
            output == 0 || input == 0
        }

        fn failure(&self) -> Option<ForeignFailure> {
            None
        }
    }

    #[test]
    fn a_foreign_function_is_differentiated_by_its_tangent_and_along_its_dependencies() {
        let unit: Arc<dyn ForeignUnit> = Arc::new(Product);
        let foreign = Foreign { unit, function: 0, name: "product", n_inputs: 2, n_outputs: 2, order: 0 };
        let mut graph = Graph::default();
        let (x, y) = (graph.var(VarId(0)), graph.var(VarId(1)));
        let intrinsic = Intrinsic::Foreign(foreign);
        let rows = [0, 1].map(|output| graph.call_intrinsic(&intrinsic, output, &[x, y]));
        let leaves = [0, 1].map(|var| Leaf::Var { var: VarId(var), order: 0 });
        let entries = graph.jacobian(&rows, &leaves);
        let places: Vec<(u32, u32)> = entries.iter().map(|entry| (entry.row, entry.column)).collect();
        assert_eq!(places, [(0, 0), (0, 1), (1, 0)]);
        let at = |var: VarId, _: u16| [2.0, 5.0][var.index()];
        let values: Vec<f64> =
            entries.iter().map(|entry| Evaluator::new().evaluate_one(&graph, entry.value, &at)).collect();
        assert_eq!(values, [20.0, 4.0, 3.0]);
        let second = graph.jacobian(&[entries[0].value], &leaves);
        let values: Vec<f64> =
            second.iter().map(|entry| Evaluator::new().evaluate_one(&graph, entry.value, &at)).collect();
        assert!((values[0] - 10.0).abs() < 1e-8 && (values[1] - 4.0).abs() < 1e-8, "{values:?}");
    }
}
