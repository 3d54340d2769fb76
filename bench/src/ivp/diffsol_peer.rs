//! diffsol's methods on a hand-reduced model: dense matrices, exact products with the Jacobian.

use diffsol::{NalgebraLU, NalgebraMat, OdeBuilder, OdeSolverMethod, OdeSolverStopReason};

use super::emit::ReducedModel;
use super::{Problem, Reached, Unreached};

/// Which of its methods.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Backward differentiation formulas.
    Bdf,
    /// ESDIRK of order 4.
    Esdirk,
}

/// Solves from the start values to the end.
///
/// # Errors
/// When diffsol gives up.
pub fn solve(problem: &Problem, model: &ReducedModel, rtol: f64, method: Method) -> Result<Reached, Unreached> {
    let unreached = |error: diffsol::error::DiffsolError| Unreached { reason: error.to_string() };
    let ode = OdeBuilder::<NalgebraMat<f64>>::new()
        .rtol(rtol)
        .atol([rtol * problem.scale])
        .rhs_implicit(
            |y: &[f64], _p: &[f64], t: f64, f: &mut [f64]| model.right_side(t, y, f),
            |y: &[f64], _p: &[f64], t: f64, v: &[f64], f: &mut [f64]| model.product(t, y, v, f),
        )
        .mass(|v: &[f64], _p: &[f64], _t: f64, beta: f64, y: &mut [f64]| {
            for value in y.iter_mut() {
                *value *= beta;
            }
            for entry in &model.mass {
                y[entry.row] += entry.value * v[entry.column];
            }
        })
        .init(|_p: &[f64], _t: f64, y: &mut [f64]| y.copy_from_slice(&model.start), model.n)
        .build()
        .map_err(unreached)?;
    let mut n_steps = 0;
    macro_rules! run {
        ($solver:expr) => {{
            let mut solver = $solver.map_err(unreached)?;
            solver.set_stop_time(problem.stop).map_err(unreached)?;
            loop {
                n_steps += 1;
                match solver.step().map_err(unreached)? {
                    OdeSolverStopReason::TstopReached => break,
                    _ if n_steps > 10_000_000 => return Err(Unreached { reason: "too many steps".to_owned() }),
                    _ => {}
                }
            }
            let state = solver.state();
            let at = |name: &str| model.names.iter().position(|known| known == name).map(|at| state.y[at]);
            problem.error(at)
        }};
    }
    let error = match method {
        Method::Bdf => run!(ode.bdf::<NalgebraLU<f64>>()),
        Method::Esdirk => run!(ode.esdirk34::<NalgebraLU<f64>>()),
    };
    Ok(Reached { error, n_steps })
}
