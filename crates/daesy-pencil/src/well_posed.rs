//! Well-posedness of parameter and state estimation under disturbances of any pole excess.
//!
//! A disturbance `w_l` whose spectrum has pole excess `2 p_l` has finite variance if it is differentiated at most
//! `p_l - 1` times. A signal `h z` therefore has finite variance if and only if
//!
//! ```text
//! h Q_a N^j J_a,l = 0      for all j >= p_l and all l
//! ```
//!
//! which is the condition of [@gerdin2007, theorems 3 and 5] in the coordinates of the canonical form; the powers of
//! `Ebar = (lambda E + F)^-1 E` on `N(Ebar^n)` and of `N` span the same spaces.

use crate::dense::set_block;
use crate::error::PencilError;
use crate::pencil::{DescriptorSystem, Pencil};
use crate::rank::RankDecision;
use crate::split::{PencilOptions, split_finite_infinite};
use crate::standard_form::{Chain, absolute, graded_absolute, standard_form};
use faer::Mat;

/// What a signal is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignalRole {
    /// A row of `H`.
    Measured,
    /// A row of `M`.
    Estimated,
}

/// How one disturbance reaches one signal other than through the states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisturbancePath {
    /// Position of the disturbance (from 0).
    pub disturbance: usize,
    /// Highest derivative of it in the signal.
    pub differentiations: usize,
    /// Its pole excess `2 p`.
    pub pole_excess: i32,
    /// The pole excess that would be enough, `2 (differentiations + 1)`.
    pub pole_excess_needed: i32,
}

impl DisturbancePath {
    /// Whether the signal has finite variance as far as this disturbance is concerned.
    pub fn is_harmless(&self) -> bool {
        self.pole_excess >= self.pole_excess_needed
    }
}

/// The verdict on one signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignalVerdict {
    /// Measured or estimated.
    pub role: SignalRole,
    /// Row of `H` or `M` (from 0).
    pub signal: usize,
    /// Whether its variance is finite.
    pub finite_variance: bool,
    /// All disturbances that reach it directly.
    pub paths: Vec<DisturbancePath>,
    /// The disturbance most at fault, if any.
    pub culprit: Option<DisturbancePath>,
    /// Variables (from 0) with infinite variance that the signal is made of.
    pub infinite_variables: Vec<usize>,
    /// How many first-order presampling lags make its variance finite: 0 if none is needed.
    pub presampling_order: usize,
}

/// The verdict on an estimation problem.
#[derive(Debug, Clone, PartialEq)]
pub struct WellPosedness {
    /// Whether all measured and estimated signals have finite variance.
    pub is_well_posed: bool,
    /// One verdict per measured signal, then one per estimated signal.
    pub signals: Vec<SignalVerdict>,
    /// Variables (from 0) whose own variance is infinite, measured or not.
    pub infinite_variables: Vec<usize>,
    /// Rank decisions of the split it follows from.
    pub rank_decisions: Vec<RankDecision>,
}

/// Decides whether estimation from `y = H z + e`, of parameters or of `M z`, is well-posed.
///
/// `pole_excess[l]` is `2 p_l` of disturbance `l`: 0 for white noise.   [@gerdin2007, definitions 1 and 4]
pub fn well_posedness(
    system: &DescriptorSystem,
    pole_excess: &[i32],
    options: &PencilOptions,
) -> Result<WellPosedness, PencilError> {
    let n_disturbances = system.disturbance.ncols();
    if pole_excess.len() != n_disturbances {
        return Err(PencilError::WrongShape {
            matrix: "pole_excess",
            rows: pole_excess.len(),
            cols: 1,
            expected: format!("{n_disturbances} x 1"),
            reason: "one pole excess per column of J",
        });
    }
    if let Some(l) = pole_excess.iter().position(|p| *p < 0 || p % 2 != 0) {
        return Err(PencilError::BadPoleExcess { disturbance: l + 1, pole_excess: pole_excess[l] });
    }
    let split = split_finite_infinite(&system.pencil, options)?;
    let chain = Chain::new(&split, &system.disturbance);
    let n = system.pencil.n_variables();
    let own = paths_of(&chain.seen_by(&Mat::identity(n, n)), n, pole_excess);
    let infinite_variables: Vec<usize> = (0..n).filter(|&i| own[i].iter().any(|p| !p.is_harmless())).collect();
    let mut signals = Vec::new();
    for (role, h) in [(SignalRole::Measured, &system.measured), (SignalRole::Estimated, &system.estimated)] {
        for (signal, paths) in paths_of(&chain.seen_by(h), h.nrows(), pole_excess).into_iter().enumerate() {
            let lack = |p: &DisturbancePath| p.pole_excess_needed - p.pole_excess;
            let culprit = paths.iter().filter(|p| !p.is_harmless()).max_by_key(|p| lack(p)).copied();
            let made_of = |i: &&usize| h[(signal, **i)] != 0.0;
            signals.push(SignalVerdict {
                role,
                signal,
                finite_variance: culprit.is_none(),
                presampling_order: culprit.map_or(0, |p| (lack(&p) / 2) as usize),
                infinite_variables: if culprit.is_some() {
                    infinite_variables.iter().filter(made_of).copied().collect()
                } else {
                    Vec::new()
                },
                culprit,
                paths,
            });
        }
    }
    Ok(WellPosedness {
        is_well_posed: signals.iter().all(|s| s.finite_variance),
        signals,
        infinite_variables,
        rank_decisions: split.rank_decisions,
    })
}

/// How fast white noise `v_l` falls off on its way to every measured signal: `s^-r` for large `s`. `r >= 1` is a
/// relative degree, `r = 0` white noise itself, `r < 0` its derivative of order `-r`; `None` if the noise does not
/// reach the signal.
///
/// A signal has finite variance if and only if all `r` are positive. With the shaping filters of all disturbances in
/// the system ([`with_shaping_filter`](crate::with_shaping_filter)) this judges their joint spectrum: what cancels
/// between correlated disturbances counts as cancelled. From the standard form, `h z = C x + sum_k K_k v^(k)`,
/// `x' = A x + L v`: the highest `k` with `K_k != 0` gives `r = -k`, else the lowest `k` with `C A^k L != 0` gives
/// `r = k + 1`. [@gerdin2007, theorem 5]
pub fn relative_degrees(
    system: &DescriptorSystem,
    options: &PencilOptions,
) -> Result<Vec<Vec<Option<i32>>>, PencilError> {
    let form = standard_form(system, options)?;
    let (n_signals, n_noise) = (system.measured.nrows(), system.disturbance.ncols());
    let direct = &form.measured.disturbance_terms;
    let mut degrees = vec![vec![None; n_noise]; n_signals];
    for (signal, row) in degrees.iter_mut().enumerate() {
        for (noise, degree) in row.iter_mut().enumerate() {
            *degree = (0..direct.len()).rev().find(|&k| direct[k][(signal, noise)] != 0.0).map(|k| -(k as i32));
        }
    }
    let (mut reach, mut bound) = (form.measured.state.clone(), absolute(&form.measured.state));
    let (a_abs, l_abs) = (graded_absolute(&form.dynamics), graded_absolute(&form.noise));
    for k in 0..form.dynamics.nrows() {
        let (value, size) = (&reach * &form.noise, &bound * &l_abs);
        for (signal, row) in degrees.iter_mut().enumerate() {
            for (noise, degree) in row.iter_mut().enumerate() {
                if degree.is_none() && value[(signal, noise)].abs() > options.negligible * size[(signal, noise)] {
                    *degree = Some(k as i32 + 1);
                }
            }
        }
        reach = &reach * &form.dynamics;
        bound = &bound * &a_abs;
    }
    Ok(degrees)
}

/// Per signal, the disturbances with a nonzero term and their highest derivative.
fn paths_of(terms: &[Mat<f64>], n_signals: usize, pole_excess: &[i32]) -> Vec<Vec<DisturbancePath>> {
    (0..n_signals)
        .map(|i| {
            (0..pole_excess.len())
                .filter_map(|l| {
                    let k = (0..terms.len()).rev().find(|&k| terms[k][(i, l)] != 0.0)?;
                    Some(DisturbancePath {
                        disturbance: l,
                        differentiations: k,
                        pole_excess: pole_excess[l],
                        pole_excess_needed: 2 * (k as i32 + 1),
                    })
                })
                .collect()
        })
        .collect()
}

/// A presampling filter on one signal: `order` equal lags `1 / (time_constant s + 1)` in series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PresamplingFilter {
    /// Measured or estimated.
    pub role: SignalRole,
    /// Row of `H` or `M` (from 0).
    pub signal: usize,
    /// Time constant of each lag, greater than zero.
    pub time_constant: f64,
    /// Number of lags, at least 1.
    pub order: usize,
}

/// The system with a presampling filter in front of one signal: the lags are new variables at the end of `z`, and the
/// signal is the last of them.   [@gerdin2007, sec. 4]
pub fn insert_presampling_filter(
    system: &DescriptorSystem,
    filter: &PresamplingFilter,
) -> Result<DescriptorSystem, PencilError> {
    let (m, n) = (system.pencil.n_equations(), system.pencil.n_variables());
    let k = filter.order;
    if !(filter.time_constant > 0.0 && filter.time_constant.is_finite()) {
        return Err(PencilError::BadOption {
            option: "time_constant",
            value: filter.time_constant,
            expected: "greater than zero",
        });
    }
    if k == 0 {
        return Err(PencilError::BadOption { option: "order", value: 0.0, expected: "at least 1" });
    }
    let rows = match filter.role {
        SignalRole::Measured => &system.measured,
        SignalRole::Estimated => &system.estimated,
    };
    if filter.signal >= rows.nrows() {
        return Err(PencilError::BadOption {
            option: "signal",
            value: filter.signal as f64,
            expected: "a row of H or M",
        });
    }
    let rate = 1.0 / filter.time_constant;
    let mut e = Mat::zeros(m + k, n + k);
    let mut f = Mat::zeros(m + k, n + k);
    set_block(&mut e, 0, 0, system.pencil.e());
    set_block(&mut f, 0, 0, system.pencil.f());
    for lag in 0..k {
        e[(m + lag, n + lag)] = 1.0;
        f[(m + lag, n + lag)] = -rate;
        if lag == 0 {
            for j in 0..n {
                f[(m, j)] = rate * rows[(filter.signal, j)];
            }
        } else {
            f[(m + lag, n + lag - 1)] = rate;
        }
    }
    let lengthen = |a: &Mat<f64>| {
        let mut out = Mat::zeros(m + k, a.ncols());
        set_block(&mut out, 0, 0, a);
        out
    };
    let widen = |h: &Mat<f64>, is_filtered: bool| {
        let mut out = Mat::zeros(h.nrows(), n + k);
        set_block(&mut out, 0, 0, h);
        if is_filtered {
            for j in 0..n {
                out[(filter.signal, j)] = 0.0;
            }
            out[(filter.signal, n + k - 1)] = 1.0;
        }
        out
    };
    DescriptorSystem::new(Pencil::new(e, f)?)
        .with_input(lengthen(&system.input))?
        .with_disturbance(lengthen(&system.disturbance))?
        .with_measured(widen(&system.measured, filter.role == SignalRole::Measured))?
        .with_estimated(widen(&system.estimated, filter.role == SignalRole::Estimated))
}
