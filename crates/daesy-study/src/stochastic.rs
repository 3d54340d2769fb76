//! Well-posedness of estimation: do all measured and estimated signals have finite variance?
//!
//! A disturbance whose spectrum has pole excess `2 p` may be differentiated `p - 1` times on its way to a signal
//! [@gerdin2007, theorems 3 and 5]. For constant coefficients the way is read off the canonical form. For coefficients
//! that depend on time it is read off the state transfer: a signal holds derivative `k` of a disturbance exactly if a
//! jump in that derivative makes the signal jump. Signals that one disturbance makes together are judged by their joint
//! spectrum, with the shaping filter as a part of the model: what cancels between them is not there.
//!
//! The verdict holds for all values of the unknowns within their bounds [@gerdin2007, definition 1] (`domain`).

mod domain;

use daesy_graph::finding::Finding;
use daesy_graph::{Evaluator, Graph, Span, VarId};
use daesy_pencil::{
    DescriptorSystem, Discontinuity, DisturbancePath, Mat, PencilError, PencilOptions, ShapingFilter, TransferOptions,
    relative_degrees, state_transfer_time_varying, well_posedness, with_shaping_filter,
};
use daesy_structure::words::enumerate;

use crate::load::{Loaded, quantity_expression};
use crate::prepare::start_time;
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
#[derive(Clone, PartialEq, Debug)]
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
    /// Values of the unknowns this verdict is about, where they are not those of the study.
    pub at: Vec<(String, f64)>,
}

/// The verdict on an estimation problem.
#[derive(Clone, PartialEq, Debug)]
pub struct Stochastic {
    /// Whether all signals have finite variance.
    pub is_well_posed: bool,
    /// One per measured signal, then one per estimated signal.
    pub signals: Vec<SignalVerdict>,
}

/// A verdict with what is to be told; places are in the study.
#[derive(Clone, Debug, Default)]
pub struct StochasticCheck {
    /// The verdict; `None` where it is not known.
    pub verdict: Option<Stochastic>,
    /// Findings.
    pub findings: Vec<Finding>,
}

/// Judges the estimation problem of a study; nothing is said of studies without disturbances.
#[must_use]
pub fn judge(loaded: &Loaded) -> StochasticCheck {
    let Some(study) = loaded.study.clone().filter(|study| !study.disturbances.is_empty()) else {
        return StochasticCheck::default();
    };
    match try_judge(loaded, &study) {
        Ok(check) => check,
        Err(findings) => StochasticCheck { verdict: None, findings },
    }
}

fn try_judge(loaded: &Loaded, study: &Study) -> Result<StochasticCheck, Vec<Finding>> {
    let model = match LinearModel::with_unknowns(&loaded.flat, &[]) {
        Ok(model) => model,
        Err(finding) => {
            let message =
                format!("whether the estimation is well-posed is decided for linear models only: {}", finding.message);
            return Err(vec![Finding::note("well-posedness-unknown", Span::NONE, message)]);
        }
    };
    let mut findings = Vec::new();
    let estimated = study.signals.iter().map(|signal| (&signal.name, signal.span));
    for asked in study.measurements.iter().map(|signal| (&signal.name, signal.span)).chain(estimated) {
        if model.computed.iter().any(|computed| computed.name == *asked.0) {
            let message =
                format!("whether `{}` has finite variance is not known, since it is computed nonlinearly", asked.0);
            findings.push(Finding::note("well-posedness-unknown", asked.1, message).with_names([asked.0]));
        }
    }
    let mut here = match judge_point(loaded, study, &model) {
        Ok(here) => here,
        Err(PointProblem::Findings(found)) => return Err(found),
        // A singular model is told elsewhere.
        Err(PointProblem::Singular) => return Err(Vec::new()),
    };
    findings.append(&mut here.findings);
    let mut verdicts = here.signals;
    findings.extend(domain::widen(loaded, study, &mut verdicts));
    let is_well_posed = verdicts.iter().all(|verdict| verdict.finite_variance);
    Ok(StochasticCheck { verdict: Some(Stochastic { is_well_posed, signals: verdicts }), findings })
}

/// The verdict at some values of the unknowns.
struct PointVerdict {
    signals: Vec<SignalVerdict>,
    findings: Vec<Finding>,
}

/// Why there is none.
enum PointProblem {
    Singular,
    Findings(Vec<Finding>),
}

/// Judges all signals at the values that the parameters of the model have.
fn judge_point(loaded: &Loaded, study: &Study, model: &LinearModel) -> Result<PointVerdict, PointProblem> {
    let time = start_time(loaded, None);
    let mut findings = Vec::new();
    let mut processes = Vec::new();
    for disturbance in &study.disturbances {
        match numeric_process(loaded, model, disturbance) {
            Ok(process) => processes.push(process),
            Err(errors) => findings.extend(errors),
        }
    }
    if !findings.is_empty() {
        return Err(PointProblem::Findings(findings));
    }
    let disturbed: Vec<&String> = study.disturbances.iter().flat_map(|disturbance| &disturbance.item.signals).collect();
    let columns: Vec<Option<usize>> =
        disturbed.iter().map(|signal| model.inputs.iter().position(|name| name == *signal)).collect();
    let matrices = model.matrices(time);
    let excess: Vec<i32> = processes.iter().flat_map(|process| process.excess.iter().copied()).collect();
    let question =
        Question { model, matrices: &matrices, columns: &columns, excess: &excess, processes: &processes, time };
    let paths = question.paths().map_err(|error| match error {
        PencilError::SingularPencil { .. } | PencilError::WrongShape { .. } | PencilError::TransferNotUnique { .. } => {
            PointProblem::Singular
        }
        error => {
            PointProblem::Findings(vec![Finding::warning("well-posedness-unknown", Span::NONE, error.to_string())])
        }
    })?;
    let is_infinite = |column: usize| paths[column].iter().any(|path| !path.is_harmless());
    let mut verdicts = Vec::new();
    for signal in asked_signals(study, model) {
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
            at: Vec::new(),
        };
        if !verdict.finite_variance {
            let sources = infinite_sources(model, &matrices, signal.column, &is_infinite);
            findings.push(ill_posed(&verdict, &sources, signal.span));
        }
        verdicts.push(verdict);
    }
    Ok(PointVerdict { signals: verdicts, findings })
}

/// Signals that are variables of the linear model.
fn asked_signals<'a>(study: &'a Study, model: &LinearModel) -> Vec<AskedSignal<'a>> {
    let measured =
        study.measurements.iter().map(|signal| (&*signal.name, signal.variable(), signal.span, Role::Measured));
    let estimated = study.signals.iter().map(|signal| (&*signal.name, &*signal.name, signal.span, Role::Estimated));
    measured
        .chain(estimated)
        .filter_map(|(name, read, span, role)| {
            let column = model.variables.iter().position(|variable| variable.name == read)?;
            Some(AskedSignal { name, span, role, column })
        })
        .collect()
}

/// Where the study names a signal.
fn span_of(study: &Study, verdict: &SignalVerdict) -> Span {
    let measured = study.measurements.iter().map(|signal| (&signal.name, signal.span, Role::Measured));
    let estimated = study.signals.iter().map(|signal| (&signal.name, signal.span, Role::Estimated));
    let found = measured.chain(estimated).find(|(name, _, role)| **name == verdict.name && *role == verdict.role);
    found.map_or(Span::NONE, |(_, span, _)| span)
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
    /// By disturbance.
    processes: &'a [NumericProcess],
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
        let mut paths: Vec<Vec<DisturbancePath>> = verdict.signals.into_iter().map(|signal| signal.paths).collect();
        if self.processes.iter().any(|process| process.excess.len() > 1) {
            self.join_paths(&system, &mut paths)?;
        }
        Ok(paths)
    }

    /// Puts one path in the place of those of signals that a disturbance makes together. With `d` differentiations at
    /// most, and white noise that reaches the variable like `s^-r`, the combination that arrives has the pole excess
    /// `2 (d + r)`.
    fn join_paths(&self, system: &DescriptorSystem, paths: &mut [Vec<DisturbancePath>]) -> Result<(), PencilError> {
        let filters: Vec<ShapingFilter> = self.processes.iter().map(|process| process.filter.clone()).collect();
        let joint = with_shaping_filter(system, &ShapingFilter::side_by_side(&filters))?;
        let degrees = relative_degrees(&joint, &PencilOptions::default())?;
        let (mut signal, mut noise) = (0, 0);
        for process in self.processes {
            let (signals, noises) = (process.excess.len(), process.filter.noise.ncols());
            let is_own = |path: &DisturbancePath| (signal..signal + signals).contains(&path.disturbance);
            for (paths, degrees) in paths.iter_mut().zip(&degrees).filter(|_| signals > 1) {
                let longest =
                    paths.iter().filter(|path| is_own(path)).max_by_key(|path| path.differentiations).copied();
                let degree = degrees[noise..noise + noises].iter().flatten().min().copied();
                paths.retain(|path| !is_own(path));
                if let (Some(path), Some(degree)) = (longest, degree) {
                    let pole_excess = 2 * (path.differentiations as i32 + degree);
                    paths.push(DisturbancePath { pole_excess, ..path });
                }
            }
            signal += signals;
            noise += noises;
        }
        Ok(())
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
        "`{name}` has infinite variance{}: the disturbance `{disturbance}` reaches it {way}{through}, which needs a pole excess of \
         {needed}, and its own is {has}",
        verdict.place()
    );
    let order = verdict.presampling_order;
    let lag = match verdict.role {
        Role::Measured => format!(
            "add the presampling filter of the measurement, `presampling = {{ time_constant = .., order = {order} }}` or `presampling = \
             \"auto\"`"
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

/// A disturbance in numbers.
struct NumericProcess {
    filter: ShapingFilter,
    /// By signal: pole excess `2 p` of its spectrum.
    excess: Vec<i32>,
}

fn numeric_process(
    loaded: &Loaded,
    model: &LinearModel,
    disturbance: &Named<crate::study::Disturbance>,
) -> Result<NumericProcess, Vec<Finding>> {
    let name = &disturbance.name;
    let problem = |message: String| vec![Finding::error("disturbance", disturbance.span, message).with_names([name])];
    // A disturbance that is zero is as smooth as one likes.
    let nothing = 2 * (model.n_variables() as i32 + 1);
    let numbers = |list: &[Quantity]| -> Result<Vec<f64>, Vec<Finding>> {
        list.iter().map(|quantity| number(loaded, model, quantity)).collect()
    };
    match &disturbance.item.process {
        DisturbanceProcess::White(_) => Ok(NumericProcess { filter: ShapingFilter::white(), excess: vec![0] }),
        DisturbanceProcess::Factor { num, den } => {
            let (num, den) = (numbers(num)?, numbers(den)?);
            let degree = |list: &[f64]| list.iter().position(|value| *value != 0.0).map(|first| list.len() - 1 - first);
            let excess = match (degree(&num), degree(&den)) {
                (_, None) => return Err(problem(format!("the denominator of `{name}` is zero"))),
                (None, _) => nothing,
                (Some(num), Some(den)) => 2 * (den as i32 - num as i32),
            };
            let filter = ShapingFilter::from_factor(&num, &den).ok_or_else(|| {
                let (num, den) = (degree(&num).unwrap_or(0), degree(&den).unwrap_or(0));
                problem(format!(
                    "the numerator of `{name}` has a higher degree ({num}) than its denominator ({den}): no such noise exists"
                ))
            })?;
            Ok(NumericProcess { filter, excess: vec![excess] })
        }
        DisturbanceProcess::Filter { a, b, c } => {
            let read = |matrix: &Matrix| -> Result<Mat<f64>, Vec<Finding>> {
                let rows = matrix.iter().map(|row| numbers(row)).collect::<Result<Vec<_>, _>>()?;
                let columns = rows.first().map_or(0, Vec::len);
                let entry = |row: usize, column: usize| rows[row].get(column).copied().unwrap_or(0.0);
                Ok(Mat::from_fn(rows.len(), columns, entry))
            };
            let (a, b, c) = (read(a)?, read(b)?, read(c)?);
            let direct = Mat::zeros(c.nrows(), b.ncols());
            let filter = ShapingFilter::new(a, b, c, direct).map_err(|error| problem(format!("`{name}`: {error}")))?;
            let excess = filter.pole_excess().into_iter().map(|excess| excess.unwrap_or(nothing)).collect();
            Ok(NumericProcess { filter, excess })
        }
    }
}

/// The value of a number of the study.
fn number(loaded: &Loaded, model: &LinearModel, quantity: &Quantity) -> Result<f64, Vec<Finding>> {
    let mut graph = Graph::default();
    let expr = quantity_expression(&mut graph, &loaded.flat.variables, quantity)?;
    let values = model.parameter_of();
    let environment = |var: VarId, _: u16| values.get(var.index()).copied().unwrap_or(f64::NAN);
    let value = Evaluator::new().evaluate_one(&graph, expr, &environment);
    if value.is_finite() {
        return Ok(value);
    }
    Err(vec![Finding::error("not-finite", quantity.span, "this has no finite value")])
}

impl SignalVerdict {
    /// The values of the unknowns it is about, in words.
    fn place(&self) -> String {
        if self.at.is_empty() {
            return String::new();
        }
        let values: Vec<String> = self.at.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        format!(" at {}", values.join(", "))
    }
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
