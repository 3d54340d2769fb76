//! SUNDIALS IDA on a plant: x' - f = 0, with an exact Jacobian, dense or banded.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::marker::PhantomData;

use sundials_sys::{
    IDACreate, IDAFree, IDAInit, IDASStolerances, IDASetJacFn, IDASetLinearSolver, IDASetMaxNumSteps, IDASetUserData,
    IDASolve, N_VDestroy, N_VGetArrayPointer, N_VNew_Serial, N_Vector, SUNBandMatrix, SUNBandMatrix_Column, SUNContext,
    SUNContext_Create, SUNContext_Free, SUNDenseMatrix, SUNDenseMatrix_Data, SUNLinSol_Band, SUNLinSol_Dense,
    SUNLinSolFree, SUNMatDestroy, SUNMatrix,
};

use super::{Dual, Plant};

/// Signals at the points of a grid, straight lines between them.
pub struct Signals<'s> {
    /// Distance of the points.
    pub step: f64,
    /// The known input.
    pub known: &'s [f64],
    /// The disturbances.
    pub disturbances: Vec<&'s [f64]>,
}

impl Signals<'_> {
    /// Known input and disturbances at a time.
    pub fn at(&self, time: f64, w: &mut [f64]) -> f64 {
        let position = time / self.step;
        let at = (position as usize).min(self.known.len() - 2);
        let share = position - at as f64;
        let read = |values: &[f64]| values[at] + share * (values[at + 1] - values[at]);
        w.iter_mut().zip(&self.disturbances).for_each(|(w, values)| *w = read(values));
        read(self.known)
    }
}

/// More disturbances than any plant has.
const MOST_DISTURBANCES: usize = 4;

struct Memory<'m, P> {
    signals: &'m Signals<'m>,
    plant: PhantomData<P>,
}

unsafe extern "C" fn residual<P: Plant>(
    time: f64,
    y: N_Vector,
    rates: N_Vector,
    out: N_Vector,
    data: *mut c_void,
) -> c_int {
    // SAFETY: IDA hands back the pointer it was given and vectors of length N.
    unsafe {
        let memory = &*data.cast::<Memory<'_, P>>();
        let x = std::slice::from_raw_parts(N_VGetArrayPointer(y), P::N);
        let rates = std::slice::from_raw_parts(N_VGetArrayPointer(rates), P::N);
        let out = std::slice::from_raw_parts_mut(N_VGetArrayPointer(out), P::N);
        let mut w = [0.0; MOST_DISTURBANCES];
        let u = memory.signals.at(time, &mut w);
        P::rates(x, u, &w, out);
        out.iter_mut().zip(rates).for_each(|(out, rate)| *out = rate - *out);
    }
    0
}

#[allow(clippy::too_many_arguments)]
unsafe extern "C" fn jacobian<P: Plant>(
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
    // SAFETY: as above; the matrix is N by N, dense column by column or banded, and zero.
    unsafe {
        let memory = &*data.cast::<Memory<'_, P>>();
        let x = std::slice::from_raw_parts(N_VGetArrayPointer(y), P::N);
        let mut w = [0.0; MOST_DISTURBANCES];
        let u = memory.signals.at(time, &mut w);
        let mut point: Vec<Dual> = x.iter().map(|&value| Dual { value, slope: 0.0 }).collect();
        let mut rates = point.clone();
        for column in 0..P::N {
            point[column].slope = 1.0;
            P::rates(&point, u, &w, &mut rates);
            point[column].slope = 0.0;
            let reach = P::BAND.unwrap_or(P::N);
            for (row, rate) in rates.iter().enumerate() {
                let entry = -rate.slope + if row == column { factor } else { 0.0 };
                if P::BAND.is_none() {
                    *SUNDenseMatrix_Data(matrix).add(column * P::N + row) = entry;
                } else if row.abs_diff(column) <= reach {
                    let diagonal = SUNBandMatrix_Column(matrix, column as i64);
                    *diagonal.offset(row as isize - column as isize) = entry;
                }
            }
        }
    }
    0
}

/// The output every `interval` seconds.
///
/// # Panics
/// If IDA gives up.
#[must_use]
pub fn solve<P: Plant>(signals: &Signals<'_>, interval: f64, n_samples: usize) -> Vec<f64> {
    let memory = Memory::<P> { signals, plant: PhantomData };
    let n = P::N as i64;
    let mut samples = Vec::with_capacity(n_samples);
    // SAFETY: objects are made, used and freed as IDA's manual says; all outlive the solve.
    unsafe {
        let mut context: SUNContext = std::ptr::null_mut();
        SUNContext_Create(0, &mut context);
        let (y, yp) = (N_VNew_Serial(n, context), N_VNew_Serial(n, context));
        let x = std::slice::from_raw_parts_mut(N_VGetArrayPointer(y), P::N);
        let rates = std::slice::from_raw_parts_mut(N_VGetArrayPointer(yp), P::N);
        x.fill(0.0);
        let mut w = [0.0; MOST_DISTURBANCES];
        let u = signals.at(0.0, &mut w);
        P::rates(x, u, &w, rates);
        let mut ida = IDACreate(context);
        let (matrix, solver) = match P::BAND {
            None => {
                let matrix = SUNDenseMatrix(n, n, context);
                (matrix, SUNLinSol_Dense(y, matrix, context))
            }
            Some(reach) => {
                let matrix = SUNBandMatrix(n, reach as i64, reach as i64, context);
                (matrix, SUNLinSol_Band(y, matrix, context))
            }
        };
        IDAInit(ida, Some(residual::<P>), 0.0, y, yp);
        IDASStolerances(ida, 1e-6, 1e-9);
        IDASetUserData(ida, std::ptr::from_ref(&memory).cast_mut().cast());
        IDASetLinearSolver(ida, solver, matrix);
        IDASetJacFn(ida, Some(jacobian::<P>));
        IDASetMaxNumSteps(ida, 10_000_000);
        for sample in 1..=n_samples {
            let mut reached = 0.0;
            let flag = IDASolve(ida, sample as f64 * interval, &mut reached, y, yp, 1);
            assert!(flag >= 0, "IDA returned {flag} at t = {reached}");
            samples.push(P::output(x));
        }
        IDAFree(&mut ida);
        SUNLinSolFree(solver);
        SUNMatDestroy(matrix);
        N_VDestroy(y);
        N_VDestroy(yp);
        SUNContext_Free(&mut context);
    }
    samples
}

/// The same by small Runge-Kutta steps that end on grid points.
#[must_use]
pub fn reference<P: Plant>(signals: &Signals<'_>, per_sample: usize, n_samples: usize) -> Vec<f64> {
    const PER_INTERVAL: usize = 16;
    let h = signals.step / PER_INTERVAL as f64;
    let mut x = vec![0.0; P::N];
    let mut samples = Vec::with_capacity(n_samples);
    let rates = |time: f64, x: &[f64]| {
        let mut w = [0.0; MOST_DISTURBANCES];
        let u = signals.at(time, &mut w);
        let mut rates = vec![0.0; P::N];
        P::rates(x, u, &w, &mut rates);
        rates
    };
    let along = |x: &[f64], factor: f64, rates: &[f64]| -> Vec<f64> {
        x.iter().zip(rates).map(|(x, rate)| x + factor * rate).collect()
    };
    for step in 0..n_samples * per_sample * PER_INTERVAL {
        let t = step as f64 * h;
        let k1 = rates(t, &x);
        let k2 = rates(t + 0.5 * h, &along(&x, 0.5 * h, &k1));
        let k3 = rates(t + 0.5 * h, &along(&x, 0.5 * h, &k2));
        let k4 = rates(t + h, &along(&x, h, &k3));
        for (at, x) in x.iter_mut().enumerate() {
            *x += h / 6.0 * (k1[at] + 2.0 * (k2[at] + k3[at]) + k4[at]);
        }
        if (step + 1) % (per_sample * PER_INTERVAL) == 0 {
            samples.push(P::output(&x));
        }
    }
    samples
}
