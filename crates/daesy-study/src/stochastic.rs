//! Well-posedness of estimation: do all measured and estimated signals have finite variance?
//!
//! A disturbance whose spectrum has pole excess `2 p` may be differentiated `p - 1` times on its way to a signal
//! [@gerdin2007, theorems 3 and 5]. For constant coefficients the way is read off the canonical form. For coefficients that depend on
//! time it is read off the state transfer: a signal holds derivative `k` of a disturbance exactly if a jump in that derivative makes
//! the signal jump.

use daesy_graph::Evaluator;
use daesy_graph::finding::Finding;
use daesy_graph::{Span, VarId};
use daesy_pencil::{
    DescriptorSystem, Discontinuity, DisturbancePath, Mat, PencilError, PencilOptions, ShapingFilter, TransferOptions,
    state_transfer_time_varying, well_posedness,
};
use daesy_structure::words::enumerate;

use crate::load::{Loaded, quantity_expression};
use crate::prepare::study_start_time as start_time;
use crate::study::{DisturbanceProcess, Matrix, Named, Quantity, Study};
use daesy_structure::linearize::{LinearKind, LinearMatrices, LinearModel};

/// What a signal is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It is measured.
    Measured,
    /// It is to be estimated.
    Estimated,
}

/// The verdict on one signal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignalVerdict {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: Role,
    /// Whether its variance is finite.
    pub finite_variance: bool,
    /// The disturbance at fault.
    pub disturbance: Option<String>,
    /// Pole excess of the disturbance at fault, or of the one that comes nearest to it.
    pub pole_excess: Option<i32>,
    /// The pole excess that is enough.
    pub pole_excess_needed: Option<i32>,
    /// How often the disturbance is differentiated on its way.
    pub differentiations: Option<usize>,
    /// How many first-order lags in front of the measurement would repair it.
    pub presampling_order: usize,
}

/// The verdict on an estimation problem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stochastic {
    /// Whether all signals have finite variance.
    pub is_well_posed: bool,
    /// One per measured signal, then one per estimated signal.
    pub signals: Vec<SignalVerdict>,
}

/// A verdict with what is to be told; places are in the study.
#[derive(Clone, Debug, Default)]
pub struct StochasticCheck {
    /// The verdict; nothing where it is not known.
    pub verdict: Option<Stochastic>,
    /// Findings.
    pub findings: Vec<Finding>,
}

/// Judges the estimation problem of a study; nothing is said of studies without disturbances.
#[must_use]
pub fn judge(loaded: &mut Loaded) -> StochasticCheck {
    let Some(study) = loaded.study.clone().filter(|study| !study.disturbances.is_empty()) else {
        return StochasticCheck::default();
    };
    match try_judge(loaded, &study) {
        Ok(check) => check,
        Err(findings) => StochasticCheck { verdict: None, findings },
    }
}

fn try_judge(loaded: &mut Loaded, study: &Study) -> Result<StochasticCheck, Vec<Finding>> {
    let model = match LinearModel::new(&loaded.flat) {
        Ok(model) => model,
        Err(finding) => {
            let message =
                format!("whether the estimation is well-posed is decided for linear models only: {}", finding.message);
            return Err(vec![Finding::note("well-posedness-unknown", Span::NONE, message)]);
        }
    };
    let time = start_time(loaded);
    let mut excess = Vec::new();
    let mut findings = Vec::new();
    for disturbance in &study.disturbances {
        match pole_excess(loaded, &model, disturbance) {
            Ok(found) => excess.extend(found),
            Err(errors) => findings.extend(errors),
        }
    }
    if !findings.is_empty() {
        return Err(findings);
    }
    let disturbed: Vec<&String> = study.disturbances.iter().flat_map(|disturbance| &disturbance.item.signals).collect();
    let columns: Vec<Option<usize>> =
        disturbed.iter().map(|signal| model.inputs.iter().position(|name| name == *signal)).collect();
    let measured = study.measurements.iter().map(|signal| (signal.name.as_str(), signal.span, Role::Measured));
    let estimated = study.signals.iter().map(|signal| (signal.name.as_str(), signal.span, Role::Estimated));
    let signals: Vec<AskedSignal<'_>> = measured
        .chain(estimated)
        .filter_map(|(name, span, role)| {
            let column = model.variables.iter().position(|variable| variable.name == name)?;
            Some(AskedSignal { name, span, role, column })
        })
        .collect();
    let estimated = study.signals.iter().map(|signal| (&signal.name, signal.span));
    for asked in study.measurements.iter().map(|signal| (&signal.name, signal.span)).chain(estimated) {
        if model.computed.iter().any(|computed| computed.name == *asked.0) {
            let message =
                format!("whether `{}` has finite variance is not known, since it is computed nonlinearly", asked.0);
            findings.push(Finding::note("well-posedness-unknown", asked.1, message).with_names([asked.0]));
        }
    }
    let matrices = model.matrices(time);
    let question = Question { model: &model, matrices: &matrices, columns: &columns, excess: &excess, time };
    let paths = match question.paths() {
        Ok(paths) => paths,
        // A singular model is told elsewhere.
        Err(
            PencilError::SingularPencil { .. } | PencilError::WrongShape { .. } | PencilError::TransferNotUnique { .. },
        ) => {
            return Err(Vec::new());
        }
        Err(error) => return Err(vec![Finding::warning("well-posedness-unknown", Span::NONE, error.to_string())]),
    };
    let is_infinite = |column: usize| paths[column].iter().any(|path| !path.is_harmless());
    let mut verdicts = Vec::new();
    for signal in &signals {
        let lack = |path: &&DisturbancePath| path.pole_excess_needed - path.pole_excess;
        let worst = paths[signal.column].iter().max_by_key(lack).copied();
        let culprit = worst.filter(|path| !path.is_harmless());
        let verdict = SignalVerdict {
            name: signal.name.to_owned(),
            role: signal.role,
            finite_variance: culprit.is_none(),
            disturbance: culprit.map(|path| disturbed[path.disturbance].clone()),
            pole_excess: worst.map(|path| path.pole_excess),
            pole_excess_needed: worst.map(|path| path.pole_excess_needed),
            differentiations: worst.map(|path| path.differentiations),
            presampling_order: culprit.map_or(0, |path| (lack(&&path) / 2) as usize),
        };
        if !verdict.finite_variance {
            let sources = infinite_sources(&model, &matrices, signal.column, &is_infinite);
            findings.push(ill_posed(&verdict, &sources, signal.span));
        }
        verdicts.push(verdict);
    }
    let is_well_posed = verdicts.iter().all(|verdict| verdict.finite_variance);
    Ok(StochasticCheck { verdict: Some(Stochastic { is_well_posed, signals: verdicts }), findings })
}

struct AskedSignal<'a> {
    name: &'a str,
    span: Span,
    role: Role,
    column: usize,
}

struct Question<'a> {
    model: &'a LinearModel,
    matrices: &'a LinearMatrices,
    /// By signal of the disturbances: its column of `G`.
    columns: &'a [Option<usize>],
    /// By signal of the disturbances: pole excess.
    excess: &'a [i32],
    time: f64,
}

impl Question<'_> {
    /// For every variable the disturbances that reach it other than through states.
    fn paths(&self) -> Result<Vec<Vec<DisturbancePath>>, PencilError> {
        match self.model.kind {
            LinearKind::Constant => self.constant_paths(),
            LinearKind::TimeVarying => self.varying_paths(),
        }
    }

    fn constant_paths(&self) -> Result<Vec<Vec<DisturbancePath>>, PencilError> {
        let n = self.model.n_variables();
        let g = &self.matrices.g;
        let noise =
            Mat::from_fn(g.nrows(), self.columns.len(), |row, at| self.columns[at].map_or(0.0, |c| g[(row, c)]));
        let system = DescriptorSystem::new(self.matrices.pencil()?)
            .with_disturbance(noise)?
            .with_measured(Mat::identity(n, n))?;
        let verdict = well_posedness(&system, self.excess, &PencilOptions::default())?;
        Ok(verdict.signals.into_iter().map(|signal| signal.paths).collect())
    }

    fn varying_paths(&self) -> Result<Vec<Vec<DisturbancePath>>, PencilError> {
        let n_inputs = self.model.inputs.len();
        let mut paths = vec![Vec::new(); self.model.n_variables()];
        for (disturbance, column) in self.columns.iter().enumerate() {
            let Some(column) = *column else { continue };
            let unit: Vec<f64> = (0..n_inputs).map(|at| f64::from(u8::from(at == column))).collect();
            let mut order = 0;
            loop {
                let kink = Discontinuity::kink(order, &unit);
                let found = state_transfer_time_varying(self.model, self.time, &kink, &TransferOptions::default())?;
                for (variable, jump) in found.transfer.jump.iter().enumerate() {
                    if *jump != 0.0 {
                        paths[variable].retain(|path: &DisturbancePath| path.disturbance != disturbance);
                        paths[variable].push(DisturbancePath {
                            disturbance,
                            differentiations: order,
                            pole_excess: self.excess[disturbance],
                            pole_excess_needed: 2 * (order as i32 + 1),
                        });
                    }
                }
                order += 1;
                if order >= found.index {
                    break;
                }
            }
        }
        Ok(paths)
    }
}

/// Variables of infinite variance in the algebraic equations of a signal: where its noise comes from.
fn infinite_sources(
    model: &LinearModel,
    matrices: &LinearMatrices,
    signal: usize,
    is_infinite: &dyn Fn(usize) -> bool,
) -> Vec<String> {
    let n = model.n_variables();
    let is_algebraic = |row: &usize| (0..n).all(|at| matrices.e[(*row, at)] == 0.0);
    let mut sources: Vec<usize> = (0..model.equations.len())
        .filter(|&row| matrices.f[(row, signal)] != 0.0)
        .filter(is_algebraic)
        .flat_map(|row| (0..n).filter(move |&at| matrices.f[(row, at)] != 0.0))
        .filter(|&at| at != signal && is_infinite(at))
        .collect();
    sources.sort_unstable();
    sources.dedup();
    sources.into_iter().map(|at| model.variables[at].name.clone()).collect()
}

fn ill_posed(verdict: &SignalVerdict, sources: &[String], span: Span) -> Finding {
    let disturbance = verdict.disturbance.clone().unwrap_or_default();
    let needed = verdict.pole_excess_needed.unwrap_or_default();
    let has = verdict.pole_excess.unwrap_or_default();
    let way = match verdict.differentiations.unwrap_or(0) {
        0 => "directly".to_owned(),
        1 => "differentiated once".to_owned(),
        2 => "differentiated twice".to_owned(),
        n => format!("differentiated {n} times"),
    };
    let through = if sources.is_empty() {
        String::new()
    } else {
        let names: Vec<&str> = sources.iter().map(String::as_str).collect();
        format!(" through {}", enumerate(&names, 6))
    };
    let name = &verdict.name;
    let message = format!(
        "`{name}` has infinite variance: the disturbance `{disturbance}` reaches it {way}{through}, which needs a pole excess of \
         {needed}, and its own is {has}"
    );
    let order = verdict.presampling_order;
    let lag = match verdict.role {
        Role::Measured => format!(
            "model the presampling filter of the measurement, for instance T der(y) = {name} - y{}, and measure that",
            if order > 1 { format!(" {order} times in a row") } else { String::new() }
        ),
        Role::Estimated => format!(
            "estimate a filtered signal, for instance T der(y) = {name} - y{}",
            if order > 1 { format!(" {order} times in a row") } else { String::new() }
        ),
    };
    let mut names = vec![name.clone(), disturbance.clone()];
    names.extend(sources.iter().cloned());
    Finding::error("ill-posed", span, message)
        .with_names(names)
        .with_help(format!("{lag}; or give `{disturbance}` a spectrum with a pole excess of at least {needed}"))
}

/// Pole excess `2 p` of the spectra of a disturbance's signals.
fn pole_excess(
    loaded: &mut Loaded,
    model: &LinearModel,
    disturbance: &Named<crate::study::Disturbance>,
) -> Result<Vec<i32>, Vec<Finding>> {
    let name = &disturbance.name;
    let problem = |message: String| vec![Finding::error("disturbance", disturbance.span, message).with_names([name])];
    // A disturbance that is zero is as smooth as one likes.
    let nothing = 2 * (model.n_variables() as i32 + 1);
    match &disturbance.item.process {
        DisturbanceProcess::White(_) => Ok(vec![0]),
        DisturbanceProcess::Factor { num, den } => {
            let degree = |loaded: &mut Loaded, list: &[Quantity]| -> Result<Option<usize>, Vec<Finding>> {
                let values =
                    list.iter().map(|quantity| number(loaded, model, quantity)).collect::<Result<Vec<f64>, _>>()?;
                Ok(values.iter().position(|value| *value != 0.0).map(|first| values.len() - 1 - first))
            };
            let (num, den) = (degree(loaded, num)?, degree(loaded, den)?);
            match (num, den) {
                (_, None) => Err(problem(format!("the denominator of `{name}` is zero"))),
                (None, _) => Ok(vec![nothing]),
                (Some(num), Some(den)) if num > den => Err(problem(format!(
                    "the numerator of `{name}` has a higher degree ({num}) than its denominator ({den}): no such noise exists"
                ))),
                (Some(num), Some(den)) => Ok(vec![2 * (den - num) as i32]),
            }
        }
        DisturbanceProcess::Filter { a, b, c } => {
            let mut read = |matrix: &Matrix| -> Result<Mat<f64>, Vec<Finding>> {
                let mut rows = Vec::new();
                for row in matrix {
                    rows.push(
                        row.iter().map(|quantity| number(loaded, model, quantity)).collect::<Result<Vec<f64>, _>>()?,
                    );
                }
                let columns = rows.first().map_or(0, Vec::len);
                Ok(Mat::from_fn(rows.len(), columns, |row, column| rows[row][column]))
            };
            let (a, b, c) = (read(a)?, read(b)?, read(c)?);
            let direct = Mat::zeros(c.nrows(), b.ncols());
            let filter = ShapingFilter::new(a, b, c, direct).map_err(|error| problem(format!("`{name}`: {error}")))?;
            Ok(filter.pole_excess().into_iter().map(|excess| excess.unwrap_or(nothing)).collect())
        }
    }
}

/// The value of a number of the study.
fn number(loaded: &mut Loaded, model: &LinearModel, quantity: &Quantity) -> Result<f64, Vec<Finding>> {
    let expr = quantity_expression(&mut loaded.flat, quantity)?;
    let values = model.parameter_of();
    let environment = |var: VarId, _: u16| values.get(var.index()).copied().unwrap_or(f64::NAN);
    let value = Evaluator::new().evaluate_one(&loaded.flat.graph, expr, &environment);
    if value.is_finite() {
        return Ok(value);
    }
    Err(vec![Finding::error("not-finite", quantity.span, "this has no finite value")])
}

impl Stochastic {
    /// The verdict in words.
    #[must_use]
    pub fn paragraph(&self) -> String {
        let infinite: Vec<&str> =
            self.signals.iter().filter(|signal| !signal.finite_variance).map(|signal| signal.name.as_str()).collect();
        if infinite.is_empty() {
            "Estimation is well-posed: all measured and estimated signals have finite variance.".to_owned()
        } else {
            format!("Estimation is ill-posed: {} would have infinite variance.", enumerate(&infinite, 12))
        }
    }
}
