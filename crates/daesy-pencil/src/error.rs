//! What can be wrong with a question about a linear descriptor system.

use crate::kronecker::KroneckerStructure;
use thiserror::Error;

/// Why a question about a linear descriptor system has no answer.
///
/// Every variant names the matrix at fault and the reason.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PencilError {
    /// A matrix or vector has the wrong shape.
    #[error("matrix {matrix} is {rows} x {cols}, but {expected} is needed ({reason})")]
    WrongShape {
        /// Name of the matrix as the caller knows it.
        matrix: &'static str,
        /// Rows found.
        rows: usize,
        /// Columns found.
        cols: usize,
        /// Shape that would fit, as text.
        expected: String,
        /// What dictates the shape.
        reason: &'static str,
    },
    /// A matrix holds NaN or an infinity.
    #[error("matrix {matrix} has {value} at row {row}, column {col} (counted from 1)")]
    NotFinite {
        /// Name of the matrix.
        matrix: &'static str,
        /// Row, counted from 1.
        row: usize,
        /// Column, counted from 1.
        col: usize,
        /// The value found there.
        value: f64,
    },
    /// The determinant of `s E - F` vanishes for every `s`.
    #[error(
        "the pencil s E - F is singular: {} equations are redundant and {} variables are free",
        .structure.left_minimal_indices.len(),
        .structure.right_minimal_indices.len()
    )]
    SingularPencil {
        /// Full Kronecker structure: which equations are redundant, which variables free.
        structure: Box<KroneckerStructure>,
    },
    /// Values the caller insists on contradict the equations.
    #[error(
        "the values insisted on for variables {variables:?} (counted from 1) contradict the constraints by {residual:e}"
    )]
    InconsistentValues {
        /// Variables, counted from 1, that take part in the contradiction.
        variables: Vec<usize>,
        /// Largest violated constraint, relative to the size of its terms.
        residual: f64,
    },
    /// Redundant left-hand sides meet right-hand sides that do not agree.
    #[error(
        "equations {equations:?} (counted from 1) contradict each other: the redundant combination leaves {residual:e}"
    )]
    InconsistentEquations {
        /// Equations, counted from 1, that take part in the contradiction.
        equations: Vec<usize>,
        /// Norm of the contradiction relative to the forcing.
        residual: f64,
    },
    /// The derivative array did not settle within the allowed number of differentiations.
    #[error(
        "no strangeness-free form after {tried} differentiations: the ranks at this time are not those of a neighbourhood, or the limit is too low"
    )]
    NotSettled {
        /// Number of differentiations tried.
        tried: usize,
    },
    /// The response to a discontinuity is not unique.
    #[error(
        "the response of variables {variables:?} (counted from 1) to the discontinuity is not determined by the equations"
    )]
    TransferNotUnique {
        /// Variables, counted from 1, that are not determined.
        variables: Vec<usize>,
    },
    /// The forcing cannot be answered by any distribution solution.
    #[error("no solution answers the discontinuity: the equations leave a residual of {residual:e}")]
    TransferImpossible {
        /// Relative residual of the best answer.
        residual: f64,
    },
    /// Wishes about states and inputs cannot be met.
    #[error(
        "the wishes about states and inputs cannot be met: {missing} more states are needed than the permitted variables offer"
    )]
    WishesImpossible {
        /// How many states are missing.
        missing: usize,
    },
    /// No feedback makes the closed loop regular and strangeness-free.
    #[error("no feedback u = K x + w regularizes the system: {reason}")]
    NotRegularizable {
        /// Why not.
        reason: &'static str,
    },
    /// A pole excess that no spectrum has.
    #[error("pole excess {pole_excess} of disturbance {disturbance} (counted from 1) must be even and not negative")]
    BadPoleExcess {
        /// Disturbance, counted from 1.
        disturbance: usize,
        /// The value given.
        pole_excess: i32,
    },
    /// An option is outside its domain.
    #[error("option {option} = {value} is outside its domain: {expected}")]
    BadOption {
        /// Name of the option.
        option: &'static str,
        /// The value given.
        value: f64,
        /// The domain.
        expected: &'static str,
    },
    /// A derivative of an input has an effect but was not given.
    #[error("derivative {needed} of the inputs has an effect, but only {given} values u, u', .. are given")]
    MissingDerivatives {
        /// Order of the first missing derivative.
        needed: usize,
        /// Number of derivatives given, the input itself included.
        given: usize,
    },
    /// A matrix iteration gave up; this needs matrices near overflow.
    #[error("the {what} iteration did not converge")]
    NoConvergence {
        /// Which iteration.
        what: &'static str,
    },
    /// A caller's coefficient function could not be evaluated.
    #[error("the coefficients at time {time} cannot be evaluated: {reason}")]
    Coefficients {
        /// Time asked for.
        time: f64,
        /// The caller's reason.
        reason: String,
    },
}
