//! Solvers side by side: what a tolerance costs each of them, what it reaches with it, and costs at equal errors.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use super::diffsol_peer::Method;
use super::emit::{ReducedModel, reduced_model};
use super::native::NativeModel;
use super::{Problem, Reached, Unreached, diffsol_peer, ida};
use crate::clock::Stopwatch;

/// Who solves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Solver {
    /// daesy, on the problem in its original form.
    Daesy,
    /// SUNDIALS IDA, on the hand-reduced form.
    Ida,
    /// diffsol with backward differentiation formulas, likewise.
    DiffsolBdf,
    /// diffsol with implicit Runge-Kutta steps, likewise.
    DiffsolEsdirk,
}

/// All of them.
pub const SOLVERS: [Solver; 4] = [Solver::Daesy, Solver::Ida, Solver::DiffsolBdf, Solver::DiffsolEsdirk];

impl Solver {
    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daesy => "daesy",
            Self::Ida => "IDA",
            Self::DiffsolBdf => "diffsol BDF",
            Self::DiffsolEsdirk => "diffsol ESDIRK",
        }
    }

    /// One run.
    ///
    /// # Errors
    /// When the solver gives up.
    #[inline(always)]
    pub fn solve(self, problem: &Problem, models: &Models, rtol: f64) -> Result<Reached, Unreached> {
        match self {
            Self::Daesy => models.native.solve(problem, rtol),
            Self::Ida => ida::solve(problem, &models.reduced, rtol),
            Self::DiffsolBdf => diffsol_peer::solve(problem, &models.reduced, rtol, Method::Bdf),
            Self::DiffsolEsdirk => diffsol_peer::solve(problem, &models.reduced, rtol, Method::Esdirk),
        }
    }
}

/// A problem in both forms.
pub struct Models {
    native: NativeModel,
    reduced: ReducedModel,
}

impl Models {
    /// Reads and compiles both.
    ///
    /// # Errors
    /// When one of them is not what it should be.
    pub fn load(problem: &Problem) -> Result<Self, Unreached> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(std::env::temp_dir, PathBuf::from).join("ivp");
        Ok(Self { native: NativeModel::new(problem, &root)?, reduced: reduced_model(problem, &root, &target)? })
    }
}

/// What a solver reached, and the processor time of its fastest run.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// What it reached.
    pub reached: Reached,
    /// Processor seconds.
    pub seconds: f64,
}

/// All solvers at one tolerance, the fastest of nine runs of each, four of long ones. They run by turns, so that a
/// processor that changes its speed does so for all.
#[must_use]
pub fn at_tolerance(problem: &Problem, models: &Models, rtol: f64) -> [Result<Timed, Unreached>; 4] {
    let mut found = SOLVERS.map(|solver| run(solver, problem, models, rtol));
    for round in 1..9 {
        for (best, solver) in found.iter_mut().zip(SOLVERS) {
            let Ok(best) = best else { continue };
            if round > 3 && best.seconds > 0.2 {
                continue;
            }
            if let Ok(again) = run(solver, problem, models, rtol) {
                best.seconds = best.seconds.min(again.seconds);
            }
        }
    }
    found
}

fn run(solver: Solver, problem: &Problem, models: &Models, rtol: f64) -> Result<Timed, Unreached> {
    let clock = Stopwatch::start();
    let reached = black_box(solver.solve(problem, models, rtol))?;
    Ok(Timed { reached, seconds: clock.seconds() })
}

/// A point of a curve of work and precision.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// What was reached.
    pub error: f64,
    /// What it cost.
    pub cost: f64,
}

/// The least cost for an error not larger, between points by straight lines of logarithms; nothing outside the curve.
#[must_use]
pub fn cost_at(curve: &[Point], error: f64) -> Option<f64> {
    // Points that another one beats in both are no part of the curve.
    let mut points: Vec<Point> = curve.iter().copied().filter(|point| point.error > 0.0).collect();
    points.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let mut front: Vec<Point> = Vec::new();
    for point in points {
        if front.last().is_none_or(|last| point.error < last.error) {
            front.push(point);
        }
    }
    let first = front.first()?;
    if first.error <= error {
        return Some(first.cost);
    }
    front.windows(2).find(|pair| pair[1].error <= error).map(|pair| {
        let (a, b) = (pair[0], pair[1]);
        let x = (error / a.error).ln() / (b.error / a.error).ln();
        (a.cost.ln() + x * (b.cost / a.cost).ln()).exp()
    })
}
