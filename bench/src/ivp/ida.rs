//! SUNDIALS IDA on a hand-reduced model: dense matrices, analytic Jacobian.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use sundials_sys::{
    IDACreate, IDAFree, IDAGetNumSteps, IDAInit, IDASStolerances, IDASetJacFn, IDASetLinearSolver, IDASetMaxNumSteps,
    IDASetStopTime, IDASetUserData, IDASolve, N_VDestroy, N_VGetArrayPointer, N_VNew_Serial, N_Vector, SUNContext,
    SUNContext_Create, SUNContext_Free, SUNDenseMatrix, SUNDenseMatrix_Data, SUNLinSol_Dense, SUNLinSolFree,
    SUNMatDestroy, SUNMatrix,
};

use super::emit::ReducedModel;
use super::{Problem, Reached, Unreached};

struct Memory<'m> {
    model: &'m ReducedModel,
    n: usize,
}

unsafe extern "C" fn residual(time: f64, y: N_Vector, rates: N_Vector, out: N_Vector, data: *mut c_void) -> c_int {
    // SAFETY: IDA hands back the pointer it was given and vectors of length n.
    unsafe {
        let memory = &*data.cast::<Memory<'_>>();
        let y = std::slice::from_raw_parts(N_VGetArrayPointer(y), memory.n);
        let rates = std::slice::from_raw_parts(N_VGetArrayPointer(rates), memory.n);
        let out = std::slice::from_raw_parts_mut(N_VGetArrayPointer(out), memory.n);
        memory.model.right_side(time, y, out);
        for value in out.iter_mut() {
            *value = -*value;
        }
        for entry in &memory.model.mass {
            out[entry.row] += entry.value * rates[entry.column];
        }
        if out.iter().all(|value| value.is_finite()) { 0 } else { 1 }
    }
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn jacobian(
    time: f64,
    factor: f64,
    y: N_Vector,
    _rates: N_Vector,
    _residual: N_Vector,
    matrix: SUNMatrix,
    data: *mut c_void,
    _a: N_Vector,
    _b: N_Vector,
    _c: N_Vector,
) -> c_int {
    // SAFETY: as above; the matrix is dense, n by n, column by column, and zero.
    unsafe {
        let memory = &*data.cast::<Memory<'_>>();
        let n = memory.n;
        let y = std::slice::from_raw_parts(N_VGetArrayPointer(y), n);
        let values = std::slice::from_raw_parts_mut(SUNDenseMatrix_Data(matrix), n * n);
        memory.model.jacobian(time, y, values);
        for value in values.iter_mut() {
            *value = -*value;
        }
        for entry in &memory.model.mass {
            values[entry.column * n + entry.row] += factor * entry.value;
        }
        0
    }
}

/// Solves from the start values to the end.
///
/// # Errors
/// When IDA gives up.
pub fn solve(problem: &Problem, model: &ReducedModel, rtol: f64) -> Result<Reached, Unreached> {
    let n = model.n;
    let mut rates = vec![0.0; n];
    if problem.start_rates.is_empty() {
        let mut right_side = vec![0.0; n];
        model.right_side(0.0, &model.start, &mut right_side);
        for entry in &model.mass {
            rates[entry.column] = right_side[entry.row] / entry.value;
        }
    } else {
        rates.copy_from_slice(problem.start_rates);
    }
    let memory = Memory { model, n };
    // SAFETY: objects are made, used and freed as IDA's manual says; all outlive the solve.
    unsafe {
        let mut context: SUNContext = std::ptr::null_mut();
        SUNContext_Create(0, &mut context);
        let (y, yp) = (N_VNew_Serial(n as i64, context), N_VNew_Serial(n as i64, context));
        std::slice::from_raw_parts_mut(N_VGetArrayPointer(y), n).copy_from_slice(&model.start);
        std::slice::from_raw_parts_mut(N_VGetArrayPointer(yp), n).copy_from_slice(&rates);
        let mut ida = IDACreate(context);
        let matrix = SUNDenseMatrix(n as i64, n as i64, context);
        let solver = SUNLinSol_Dense(y, matrix, context);
        IDAInit(ida, Some(residual), 0.0, y, yp);
        IDASStolerances(ida, rtol, rtol * problem.scale);
        IDASetUserData(ida, std::ptr::from_ref(&memory).cast_mut().cast());
        IDASetLinearSolver(ida, solver, matrix);
        IDASetJacFn(ida, Some(jacobian));
        IDASetMaxNumSteps(ida, 10_000_000);
        IDASetStopTime(ida, problem.stop);
        let mut reached = 0.0;
        let flag = IDASolve(ida, problem.stop, &mut reached, y, yp, 1);
        let mut n_steps = 0;
        IDAGetNumSteps(ida, &mut n_steps);
        let values = std::slice::from_raw_parts(N_VGetArrayPointer(y), n);
        let at = |name: &str| model.names.iter().position(|known| known == name).map(|at| values[at]);
        let error = problem.error(at);
        IDAFree(&mut ida);
        SUNLinSolFree(solver);
        SUNMatDestroy(matrix);
        N_VDestroy(y);
        N_VDestroy(yp);
        SUNContext_Free(&mut context);
        if flag < 0 {
            return Err(Unreached { reason: format!("IDA returned {flag} at t = {reached}") });
        }
        Ok(Reached { error, n_steps: n_steps as usize })
    }
}
