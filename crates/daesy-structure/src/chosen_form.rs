//! The strangeness-free form of a linear model in chosen states and inputs, without rounding errors.

use daesy_pencil::{Mat, Reinterpretation, StrangenessFree};

/// Coefficients in the chosen states and inputs: `E1 x' + E13 u' = A1 x + B1 u + f1`,
/// `0 = A2 x + B2 u + sum B2k u^(k) + f2`.
#[derive(Clone, Debug)]
pub struct Matrices {
    /// `E1`.
    pub e1: Mat<f64>,
    /// `A1`.
    pub a1: Mat<f64>,
    /// `B1`.
    pub b1: Mat<f64>,
    /// `f1`.
    pub f1: Vec<f64>,
    /// `A2`.
    pub a2: Mat<f64>,
    /// `B2`.
    pub b2: Mat<f64>,
    /// `f2`.
    pub f2: Vec<f64>,
    /// `E13`, where derivatives of inputs remain.
    pub input_rates: Option<Mat<f64>>,
    /// Coefficients of `u'`, `u''`, .. in the constraints when inputs are given functions.
    pub b2_derivatives: Vec<Mat<f64>>,
}

/// The coefficients in the chosen states and inputs, and the positions of those.
#[must_use]
pub fn in_chosen(form: &StrangenessFree, choice: Option<&Reinterpretation>) -> (Matrices, Vec<usize>, Vec<usize>) {
    let (n, m) = (form.n_variables(), form.n_inputs());
    let matrices = match choice {
        Some(choice) => Matrices {
            e1: choice.e1.clone(),
            a1: choice.a1.clone(),
            b1: choice.b1.clone(),
            f1: choice.f1.clone(),
            a2: choice.a2.clone(),
            b2: choice.b2.clone(),
            f2: choice.f2.clone(),
            input_rates: choice.needs_input_derivatives.then(|| choice.input_derivatives.clone()),
            b2_derivatives: Vec::new(),
        },
        None => Matrices {
            e1: form.e1.clone(),
            a1: form.a1.clone(),
            b1: form.b1.clone(),
            f1: form.f1.clone(),
            a2: form.a2.clone(),
            b2: form.b2.clone(),
            f2: form.f2.clone(),
            input_rates: None,
            b2_derivatives: form.b2_derivatives.clone(),
        },
    };
    let (states, inputs) = match choice {
        Some(choice) => (choice.states.clone(), choice.inputs.clone()),
        None => ((0..n).collect(), (n..n + m).collect()),
    };
    let unit = |position: usize| form.units.get(position).copied().unwrap_or(1.0);
    (matrices.swept(&states, &inputs, &unit), states, inputs)
}

/// A form without its rounding errors.
#[must_use]
pub fn swept_form(form: StrangenessFree) -> StrangenessFree {
    let (matrices, ..) = in_chosen(&form, None);
    StrangenessFree { e1: matrices.e1, a1: matrices.a1, b1: matrices.b1, a2: matrices.a2, b2: matrices.b2, ..form }
}

/// Entries below this fraction of their equation, in balanced units, are rounding errors.
pub const DUST: f64 = 1e-12;

impl Matrices {
    /// The same with rounding errors set to zero.
    fn swept(mut self, states: &[usize], inputs: &[usize], unit: &dyn Fn(usize) -> f64) -> Self {
        let largest = |matrix: &Mat<f64>, row: usize, positions: &[usize]| {
            (0..matrix.ncols()).fold(0.0f64, |size, at| size.max((matrix[(row, at)] * unit(positions[at])).abs()))
        };
        let sweep = |matrix: &mut Mat<f64>, row: usize, positions: &[usize], size: f64| {
            for at in 0..matrix.ncols() {
                if (matrix[(row, at)] * unit(positions[at])).abs() <= DUST * size {
                    matrix[(row, at)] = 0.0;
                }
            }
        };
        for row in 0..self.e1.nrows() {
            let size = largest(&self.e1, row, states);
            sweep(&mut self.e1, row, states, size);
            let size = largest(&self.a1, row, states).max(largest(&self.b1, row, inputs));
            sweep(&mut self.a1, row, states, size);
            sweep(&mut self.b1, row, inputs, size);
        }
        for row in 0..self.a2.nrows() {
            let size = largest(&self.a2, row, states).max(largest(&self.b2, row, inputs));
            sweep(&mut self.a2, row, states, size);
            sweep(&mut self.b2, row, inputs, size);
        }
        self
    }
}
