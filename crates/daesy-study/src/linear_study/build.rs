//! From a loaded study to a [`LinearStudy`].

use daesy_estimate::descriptor::{FilterBlock, ModelLayout, StartMode};
use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::{ExprId, Graph, Leaf, LinearExtractor, Span, Substitution, VarId};
use daesy_structure::parameters::order_parameters;
use daesy_structure::{RegularizeError, regularize};
use rustc_hash::FxHashSet;

use super::computed::with_computed;
use super::parametric::{Elimination, EliminationProblem, ParametricMatrix, Symbols, Term};
use super::timeline::{Signal, Timeline};
use super::{KnownInput, LinearStudy, Matrices, ParametricRows, VaryingVariance};
use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::inputs::{derivatives_available, find_breaks, find_breaks_between};
use crate::load::{Loaded, quantity_expression};
use crate::prepare::{DataUse, Prepared, Purpose, prepare, start_time};
use crate::problem::{Linearity, Problem, Record, study_of};
use crate::study::{Disturbance, DisturbanceProcess, InitialMode, InputSource, Matrix, Quantity, Study};
use daesy_structure::linearize::{CoefficientExpressions, LinearModel, parameter_values};

/// Whether the signals of `[estimate]` are part of the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalsWanted {
    /// They are.
    Yes,
    /// They are not.
    No,
}

/// Quantities of the study, read into the graph of the model before anything is made of it.
struct Read {
    disturbances: Vec<ReadProcess>,
    variances: Vec<ExprId>,
    inputs: Vec<ReadInput>,
    initial_values: Vec<(VarId, ExprId)>,
}

enum ReadProcess {
    Filter { a: Vec<Vec<ExprId>>, b: Vec<Vec<ExprId>>, c: Vec<Vec<ExprId>> },
    White(ExprId),
    Factor { num: Vec<ExprId>, den: Vec<ExprId> },
}

enum ReadInput {
    Column,
    Expression { value: ExprId, breaks: Vec<ExprId> },
    Impulses(Vec<(ExprId, ExprId)>),
}

/// Builds the estimation problem of a study whose model is linear with constant coefficients.
///
/// # Errors
/// Diagnostics with places in study, model or data.
pub fn build_linear_study(
    loaded: &Loaded,
    problem: &Problem,
    model: &LinearModel,
    wanted: SignalsWanted,
) -> Result<LinearStudy, Failure> {
    let study = study_of(loaded)?;
    let in_study = |findings: Vec<Finding>| -> Vec<Diagnostic> {
        findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)).collect()
    };
    if model.equations.len() != model.n_variables() {
        return Err(Failure::Input(unbalanced(&loaded.flat)));
    }
    let bound = with_computed(&loaded.flat, &problem.unknown_variables())
        .map_err(|findings| Failure::Input(in_model(&loaded.flat, &findings)))?;
    let mut builder = Builder::new(&bound, study, problem, model)
        .map_err(|finding| vec![Diagnostic::resolve(&finding, &loaded.flat.sources)])?;
    let read = read_quantities(&mut builder.symbols.graph, &loaded.flat, study).map_err(in_study)?;
    builder.counting = counting_starts(loaded, problem);
    Ok(builder.build(&read, wanted).map_err(|refusal| in_study(refusal.findings))?)
}

/// The start values that count when the model is simulated with the parameters where a search begins. They are taken
/// here too, so that a value that coefficients nearly determine is dropped by all methods or by none. Empty where
/// start values are not taken as written, or a simulation has no start: then ranks decide alone.
fn counting_starts(loaded: &Loaded, problem: &Problem) -> FxHashSet<String> {
    if loaded.study.as_ref().is_none_or(|study| study.initial.mode != InitialMode::Model) {
        return FxHashSet::default();
    }
    let names = prepare(loaded, Purpose { data: DataUse::Optional, ..Purpose::SIMULATION }).ok().and_then(|prepared| {
        let given: Vec<(VarId, f64)> = problem.unknown_variables().into_iter().zip(problem.start()).collect();
        let parameters = prepared.parameters_at(&given).ok()?;
        let time = start_time(loaded, prepared.data.as_deref());
        Prepared { parameters, ..prepared }.counting_starts(time)
    });
    names.unwrap_or_default()
}

/// Findings about the model.
fn in_model(flat: &FlatDae, findings: &[Finding]) -> Vec<Diagnostic> {
    findings.iter().map(|finding| Diagnostic::resolve(finding, &flat.sources)).collect()
}

/// Why equations and variables do not fit.
fn unbalanced(flat: &FlatDae) -> Vec<Diagnostic> {
    match regularize(flat.clone()) {
        Err(RegularizeError::Singular { findings, .. }) if !findings.is_empty() => in_model(flat, &findings),
        _ => vec![
            Diagnostic::error("structure", "the model has not as many equations as variables")
                .with_help("`daesy check` says which are too many or missing"),
        ],
    }
}

impl LinearStudy {
    /// Reads a study and builds its estimation problem.
    ///
    /// # Errors
    /// Diagnostics with places in study, model or data; also when the model is not linear with constant coefficients.
    pub fn of(loaded: &Loaded, wanted: SignalsWanted) -> Result<Self, Failure> {
        let problem = Problem::read(loaded)?;
        match &problem.linearity {
            Linearity::Constant(model) => build_linear_study(loaded, &problem, model, wanted),
            Linearity::TimeVarying(_) => {
                let message = "the coefficients of the model depend on time";
                Err(Failure::Input(vec![Diagnostic::error("nonlinear", message)]))
            }
            Linearity::Nonlinear(finding) => {
                Err(Failure::Input(vec![Diagnostic::resolve(finding, &loaded.flat.sources)]))
            }
        }
    }
}

/// Why there is no estimation problem, with places in the study.
struct Refusal {
    findings: Vec<Finding>,
}

impl From<Finding> for Refusal {
    fn from(finding: Finding) -> Self {
        Self { findings: vec![finding] }
    }
}

fn read_quantities(graph: &mut Graph, flat: &FlatDae, study: &Study) -> Result<Read, Vec<Finding>> {
    let mut findings = Vec::new();
    let zero = graph.number(0.0);
    let mut quantity = |quantity: &Quantity| -> ExprId {
        quantity_expression(graph, &flat.variables, quantity).unwrap_or_else(|errors| {
            findings.extend(errors);
            zero
        })
    };
    let mut matrix = |matrix: &Matrix| -> Vec<Vec<ExprId>> {
        matrix.iter().map(|row| row.iter().map(&mut quantity).collect()).collect()
    };
    let disturbances = study
        .disturbances
        .iter()
        .map(|disturbance| match &disturbance.item.process {
            DisturbanceProcess::Filter { a, b, c } => ReadProcess::Filter { a: matrix(a), b: matrix(b), c: matrix(c) },
            DisturbanceProcess::White(intensity) => ReadProcess::White(matrix(&vec![vec![intensity.clone()]])[0][0]),
            DisturbanceProcess::Factor { num, den } => {
                let mut rows = matrix(&vec![num.clone(), den.clone()]);
                let den = rows.pop().unwrap_or_default();
                ReadProcess::Factor { num: rows.pop().unwrap_or_default(), den }
            }
        })
        .collect();
    let inputs = study
        .inputs
        .iter()
        .map(|input| match &input.item {
            InputSource::Column { .. } => ReadInput::Column,
            InputSource::Expression { expression, breaks } => ReadInput::Expression {
                value: quantity(expression),
                breaks: breaks.iter().map(&mut quantity).collect(),
            },
            InputSource::Impulses(list) => ReadInput::Impulses(
                list.iter().map(|impulse| (quantity(&impulse.time), quantity(&impulse.area))).collect(),
            ),
        })
        .collect();
    let initial: Vec<ExprId> = study.initial.values.iter().map(|value| quantity(&value.item)).collect();
    let variances: Vec<ExprId> = study
        .measurements
        .iter()
        .map(|measurement| match (&measurement.item.std, &measurement.item.variance) {
            (Some(std), _) => {
                let std = quantity(std);
                // Squared below, where the graph is at hand again.
                std
            }
            (None, Some(variance)) => quantity(variance),
            (None, None) => zero,
        })
        .collect();
    let variances = study
        .measurements
        .iter()
        .zip(variances)
        .map(|(measurement, value)| if measurement.item.std.is_some() { graph.mul(value, value) } else { value })
        .collect();
    let find = |name: &str| flat.find(name);
    let initial_values =
        study.initial.values.iter().zip(initial).filter_map(|(value, expr)| Some((find(&value.name)?, expr))).collect();
    if findings.is_empty() { Ok(Read { disturbances, variances, inputs, initial_values }) } else { Err(findings) }
}

struct Builder<'a> {
    /// The model, parameters that are computed at the start bound to what determines them.
    flat: &'a FlatDae,
    study: &'a Study,
    problem: &'a Problem,
    model: &'a LinearModel,
    symbols: Symbols,
    expressions: CoefficientExpressions,
    theta: Vec<f64>,
    /// Columns of the model's inputs among the known ones.
    known_column: Vec<Option<usize>>,
    n_known: usize,
    /// Names of the start values that come before all others.
    counting: FxHashSet<String>,
}

/// The finding for every unknown that nothing depends on.
fn idle_unknowns(study: &LinearStudy) -> Vec<Finding> {
    let idle = (0..study.unknowns.len()).filter(|&at| !study.depends_on(at));
    idle.map(|at| {
        let unknown = &study.unknowns[at];
        let message = format!("nothing depends on the unknown `{}`", unknown.name);
        Finding::error("idle-unknown", unknown.span, message)
            .with_names([&unknown.name])
            .with_help("take it out of `[unknown]`, or use it in the model, a disturbance or an accuracy")
    })
    .collect()
}

/// The finding for a start of infinite variance.
pub(super) fn white_start(condition: &str, disturbance: &str) -> Finding {
    let message = format!(
        "{condition} sets the start by the disturbance `{disturbance}`, which is white noise there: the start would have \
         infinite variance"
    );
    Finding::error("ill-posed", Span::NONE, message).with_names([disturbance]).with_help(
        "give the disturbance a spectrum that falls off (a shaping filter), or take it out of the initial equation",
    )
}

/// E x' = F x + G u + J v of the model and its shaping filters.
struct Assembled {
    e: ParametricMatrix,
    f: ParametricMatrix,
    g: ParametricMatrix,
    j: ParametricMatrix,
    n_model: usize,
    /// Forcing that changes with time, an input each: row and value.
    varying: Vec<(usize, ExprId)>,
}

/// What the shaping filters are called, where they are, and how strong their noise is.
struct Shaped {
    filters: Vec<FilterBlock>,
    filter_names: Vec<String>,
    noises: Vec<String>,
    intensities: ParametricMatrix,
}

impl<'a> Builder<'a> {
    fn new(
        flat: &'a FlatDae,
        study: &'a Study,
        problem: &'a Problem,
        model: &'a LinearModel,
    ) -> Result<Self, Box<Finding>> {
        let unknowns = problem.unknown_variables();
        let values = parameter_values(flat)?;
        let expressions = model.expressions();
        let order = order_parameters(flat)?;
        let parameters = order.into_iter().map(|var| (var, values[var.index()], flat.variables[var.index()].binding));
        let theta = problem.start();
        let symbols = Symbols::new(expressions.graph.clone(), unknowns, parameters);
        let is_disturbance = |name: &String| study.disturbances.iter().any(|known| known.item.signals.contains(name));
        let mut n_known = 0;
        let known_column = model
            .inputs
            .iter()
            .map(|name| {
                (!is_disturbance(name)).then(|| {
                    n_known += 1;
                    n_known - 1
                })
            })
            .collect();
        let counting = FxHashSet::default();
        Ok(Self { flat, study, problem, model, symbols, expressions, theta, known_column, n_known, counting })
    }

    fn term(&mut self, expr: ExprId) -> Term {
        let resolved = self.symbols.resolve(expr);
        self.symbols.term(resolved)
    }

    fn product(&mut self, a: ExprId, b: ExprId) -> Term {
        let (a, b) = (self.symbols.resolve(a), self.symbols.resolve(b));
        let product = self.symbols.graph.mul(a, b);
        self.symbols.term(product)
    }

    fn build(&mut self, read: &Read, wanted: SignalsWanted) -> Result<LinearStudy, Refusal> {
        let processes = self.processes(read)?;
        let mut assembled = self.assemble(&processes);
        let Shaped { mut filters, filter_names, noises, intensities } = self.shape(&processes, &mut assembled);
        let Assembled { e, f, g, j, n_model, varying } = assembled;
        let (n, n_inputs) = (e.constant.nrows(), g.constant.ncols());

        // Signals.
        let mut measured = ParametricMatrix::zeros(self.study.measurements.len(), n);
        for (row, signal) in self.study.measurements.iter().enumerate() {
            let column = self.variable(signal.variable(), signal.span)?;
            measured.add(row, column, Term::Number(1.0));
        }
        let signals = if wanted == SignalsWanted::Yes { &self.study.signals[..] } else { &[] };
        let mut estimated = ParametricMatrix::zeros(signals.len(), n);
        for (row, signal) in signals.iter().enumerate() {
            let column = self.variable(&signal.name, signal.span)?;
            estimated.add(row, column, Term::Number(1.0));
        }
        let (variances, varying_variances) = self.variances(read)?;

        let start = self.start_conditions(read, &processes, n, n_inputs)?;
        let problem = EliminationProblem {
            e: &e,
            f: &f,
            g: &g,
            j: &j,
            start_derivatives: &[&start.insisted.derivatives],
            n_model,
        };
        let elimination = Elimination::find(&problem);
        let shift = n - elimination.kept_variables.len();
        for filter in &mut filters {
            filter.states = filter.states.start - shift..filter.states.end - shift;
        }
        let no_inputs = |rows: usize| ParametricMatrix::zeros(rows, n_inputs);
        let reduce = |rows: &ParametricRows| ParametricRows {
            variables: elimination.reduce_rows(&rows.variables),
            derivatives: elimination.reduce_rows(&rows.derivatives),
            inputs: elimination.reduce_row_inputs(&rows.variables, &rows.inputs),
            values: rows.values.clone(),
        };
        let matrices = Matrices {
            e: elimination.reduce(&e),
            f: elimination.reduce(&f),
            g: elimination.reduce_inputs(&f, &g),
            j: elimination.reduce_noise(&j),
            intensities,
            measured_inputs: elimination.reduce_row_inputs(&measured, &no_inputs(self.study.measurements.len())),
            measured: elimination.reduce_rows(&measured),
            estimated_inputs: elimination.reduce_row_inputs(&estimated, &no_inputs(signals.len())),
            estimated: elimination.reduce_rows(&estimated),
            variances,
            insisted: reduce(&start.insisted),
            wished: reduce(&start.wished),
        };

        let (mut timeline, inputs) = self.timeline(read, &varying);
        let experiments = self.experiments(&mut timeline);
        if let Some(time) = timeline.too_rough {
            return Err(too_rough(time));
        }
        let study = LinearStudy {
            layout: ModelLayout {
                n_unknown: self.problem.unknowns.len(),
                filters,
                start: match self.study.initial.mode {
                    InitialMode::Model => StartMode::Given,
                    InitialMode::Zero => StartMode::Zero,
                    InitialMode::Estimate => StartMode::Estimated,
                    InitialMode::Diffuse => StartMode::Diffuse,
                    InitialMode::Stationary => StartMode::Stationary,
                },
            },
            has_disturbances: !self.study.disturbances.is_empty(),
            unknowns: self.problem.unknowns.clone(),
            space: self.problem.space.clone(),
            measured: self.problem.measured.clone(),
            estimated: signals.iter().map(|signal| signal.name.clone()).collect(),
            inputs,
            noises,
            filter_names,
            insisted_names: start.insisted_names,
            wished_names: start.wished_names,
            experiments,
            symbols: self.symbols.clone(),
            timeline,
            matrices,
            varying_variances,
            is_noise_free: false,
        };
        let idle = idle_unknowns(&study);
        if idle.is_empty() { Ok(study) } else { Err(Refusal { findings: idle }) }
    }

    /// The equations of the model, with disturbances w = C x_w + D v where their inputs enter.
    fn assemble(&mut self, processes: &[Process]) -> Assembled {
        let n_model = self.model.n_variables();
        let n_filter: usize = processes.iter().map(|process| process.a.len()).sum();
        let n_noise: usize = processes.iter().map(|process| process.n_noise).sum();
        let n = n_model + n_filter;
        // Forcing: one input that is always one, and one for every forcing that changes with time.
        let forcing: Vec<(usize, ExprId)> = self
            .expressions
            .forcing
            .clone()
            .into_iter()
            .map(|entry| (entry.row, self.symbols.resolve(entry.value)))
            .collect();
        let varying: Vec<(usize, ExprId)> =
            forcing.iter().copied().filter(|entry| self.symbols.is_varying(entry.1)).collect();
        let one = self.n_known;
        let n_inputs = self.n_known + 1 + varying.len();

        let mut e = ParametricMatrix::zeros(n, n);
        let mut f = ParametricMatrix::zeros(n, n);
        let mut g = ParametricMatrix::zeros(n, n_inputs);
        let mut j = ParametricMatrix::zeros(n, n_noise);
        for entry in self.expressions.e.clone() {
            let term = self.term(entry.value);
            e.add(entry.row, entry.column, term);
        }
        for entry in self.expressions.f.clone() {
            let term = self.term(entry.value);
            f.add(entry.row, entry.column, term);
        }
        for &(row, value) in &forcing {
            match varying.iter().position(|entry| *entry == (row, value)) {
                Some(at) => g.add(row, one + 1 + at, Term::Number(1.0)),
                None => {
                    let term = self.symbols.term(value);
                    g.add(row, one, term);
                }
            }
        }
        // Disturbances: w = C x_w + D v enters where its input does.
        let row_of = |disturbance: &Disturbance, column: usize| {
            disturbance.signals.iter().position(|signal| *signal == self.model.inputs[column])
        };
        for entry in self.expressions.g.clone() {
            if let Some(column) = self.known_column[entry.column] {
                let term = self.term(entry.value);
                g.add(entry.row, column, term);
                continue;
            }
            let (mut state, mut noise) = (n_model, 0);
            for (process, disturbance) in processes.iter().zip(&self.study.disturbances) {
                if let Some(row) = row_of(&disturbance.item, entry.column) {
                    for (at, &c) in process.c.get(row).into_iter().flatten().enumerate() {
                        let term = self.product(entry.value, c);
                        f.add(entry.row, state + at, term);
                    }
                    for (at, &d) in process.d.iter().enumerate() {
                        let term = self.product(entry.value, d);
                        j.add(entry.row, noise + at, term);
                    }
                }
                state += process.a.len();
                noise += process.n_noise;
            }
        }
        Assembled { e, f, g, j, n_model, varying }
    }

    /// The equations of the shaping filters, after those of the model.
    fn shape(&mut self, processes: &[Process], assembled: &mut Assembled) -> Shaped {
        let Assembled { e, f, j, n_model, .. } = assembled;
        let mut filters = Vec::new();
        let mut filter_names = Vec::new();
        let mut noises = Vec::new();
        let mut intensities = ParametricMatrix::zeros(j.constant.ncols(), 1);
        let (mut state, mut noise) = (*n_model, 0);
        for (process, disturbance) in processes.iter().zip(&self.study.disturbances) {
            let size = process.a.len();
            for i in 0..size {
                e.add(state + i, state + i, Term::Number(1.0));
                for k in 0..size {
                    let term = self.term(process.a[i][k]);
                    f.add(state + i, state + k, term);
                }
                for k in 0..process.n_noise {
                    let term = self.term(process.b[i][k]);
                    j.add(state + i, noise + k, term);
                }
            }
            if size > 0 {
                filter_names.push(disturbance.name.clone());
                filters
                    .push(FilterBlock { states: state..state + size, starts_at_zero: disturbance.item.starts_at_zero });
            }
            for k in 0..process.n_noise {
                let term = process.intensity.map_or(Term::Number(1.0), |value| self.symbols.term(value));
                intensities.add(noise + k, 0, term);
            }
            noises.extend((0..process.n_noise).map(|_| disturbance.name.clone()));
            state += size;
            noise += process.n_noise;
        }
        Shaped { filters, filter_names, noises, intensities }
    }

    /// Variances of the measurements: numbers and parameters, or functions of time.
    fn variances(&mut self, read: &Read) -> Result<(ParametricMatrix, Option<Vec<VaryingVariance>>), Refusal> {
        let mut variances = ParametricMatrix::zeros(self.study.measurements.len(), 1);
        let resolved: Vec<ExprId> = read.variances.iter().map(|&value| self.symbols.resolve(value)).collect();
        let mut varying_variances = None;
        if resolved.iter().any(|&value| self.symbols.is_varying(value)) {
            let list = resolved
                .iter()
                .map(|&value| VaryingVariance { value, partials: self.symbols.gradient(value) })
                .collect();
            varying_variances = Some(list);
        } else {
            for (row, &value) in resolved.iter().enumerate() {
                let term = self.symbols.term(value);
                variances.add(row, 0, term);
            }
        }
        self.check_variances(&resolved)?;
        Ok((variances, varying_variances))
    }

    /// Column of a variable by name.
    fn variable(&self, name: &str, span: Span) -> Result<usize, Refusal> {
        if let Some(column) = self.model.variables.iter().position(|variable| variable.name == name) {
            return Ok(column);
        }
        let message = format!("`{name}` is computed nonlinearly from the other variables");
        Err(Finding::error("nonlinear", span, message).with_names([name]).into())
    }

    fn check_variances(&self, variances: &[ExprId]) -> Result<(), Refusal> {
        let mut findings = Vec::new();
        for (measurement, &value) in self.study.measurements.iter().zip(variances) {
            let at_start = self.symbols.evaluate(value, &self.theta, 0.0);
            let given = measurement.item.std.as_ref().or(measurement.item.variance.as_ref());
            let span = given.map_or(measurement.span, |quantity| quantity.span);
            let is_negative_std = matches!(
                measurement.item.std.as_ref().map(|std| &std.value),
                Some(crate::study::QuantityValue::Number(number)) if *number < 0.0
            );
            let name = &measurement.name;
            if at_start < 0.0 || is_negative_std {
                let what = if is_negative_std { "standard deviation" } else { "variance" };
                let message = format!("the {what} of the measurement `{name}` is negative");
                let help = "give its absolute value, or the unknowns that it depends on a start and bounds that keep it \
                            greater than zero";
                findings.push(Finding::error("negative-variance", span, message).with_names([name]).with_help(help));
            } else if !at_start.is_finite() && !self.symbols.is_varying(value) {
                let message = format!("the variance of the measurement `{name}` has no finite value");
                findings.push(Finding::error("not-finite", span, message).with_names([name]));
            }
        }
        if findings.is_empty() { Ok(()) } else { Err(Refusal { findings }) }
    }

    /// Disturbances as filters driven by unit white noise.
    fn processes(&mut self, read: &Read) -> Result<Vec<Process>, Refusal> {
        let mut processes = Vec::new();
        let mut findings = Vec::new();
        for (disturbance, process) in self.study.disturbances.iter().zip(&read.disturbances) {
            let name = &disturbance.name;
            let mut refuse = |message: String| {
                findings.push(Finding::error("disturbance", disturbance.span, message).with_names([name]));
            };
            match process {
                ReadProcess::White(intensity) => {
                    let value = self.symbols.resolve(*intensity);
                    if self.symbols.evaluate(value, &self.theta, 0.0) < 0.0 {
                        refuse(format!("the intensity of `{name}` is negative"));
                    }
                    let one = self.symbols.graph.number(1.0);
                    processes.push(Process {
                        a: Vec::new(),
                        b: Vec::new(),
                        c: Vec::new(),
                        d: vec![one],
                        n_noise: 1,
                        intensity: Some(value),
                    });
                }
                ReadProcess::Filter { a, b, c } => {
                    let size = a.len();
                    let n_noise = b.first().map_or(0, Vec::len);
                    let is_right = a.iter().all(|row| row.len() == size)
                        && b.len() == size
                        && b.iter().all(|row| row.len() == n_noise)
                        && c.len() == disturbance.item.signals.len()
                        && c.iter().all(|row| row.len() == size);
                    if !is_right {
                        refuse(format!(
                            "the shaping filter of `{name}` needs `A` {size} x {size}, `B` with {size} rows and `C` {} x {size}",
                            disturbance.item.signals.len()
                        ));
                        continue;
                    }
                    processes.push(Process {
                        a: a.clone(),
                        b: b.clone(),
                        c: c.clone(),
                        d: Vec::new(),
                        n_noise,
                        intensity: None,
                    });
                }
                ReadProcess::Factor { num, den } => match self.companion(num, den) {
                    Some(process) => processes.push(process),
                    None => refuse(format!(
                        "the spectral factor of `{name}` needs a denominator that is not zero, and a numerator of no higher degree"
                    )),
                },
            }
        }
        if findings.is_empty() { Ok(processes) } else { Err(Refusal { findings }) }
    }

    /// `num / den`, highest power first, as `x_n' = -a x + v`, `w = c x + d v` in companion form.
    fn companion(&mut self, num: &[ExprId], den: &[ExprId]) -> Option<Process> {
        let is_zero = |graph: &Graph, expr: ExprId| graph.as_number(expr) == Some(0.0);
        let mut strip = |list: &[ExprId]| -> Vec<ExprId> {
            let resolved: Vec<ExprId> = list.iter().map(|&expr| self.symbols.resolve(expr)).collect();
            let first = resolved.iter().position(|&expr| !is_zero(&self.symbols.graph, expr)).unwrap_or(resolved.len());
            resolved[first..].to_vec()
        };
        let (num, den) = (strip(num), strip(den));
        if den.is_empty() || num.len() > den.len() {
            return None;
        }
        let graph = &mut self.symbols.graph;
        let order = den.len() - 1;
        let (zero, one) = (graph.number(0.0), graph.number(1.0));
        let lead = den[0];
        let monic: Vec<ExprId> = den.iter().map(|&a| graph.div(a, lead)).collect();
        // Coefficients of the numerator over the leading one, padded to the length of the denominator.
        let mut b = vec![zero; den.len() - num.len()];
        b.extend(num.iter().map(|&b| graph.div(b, lead)));
        let direct = b[0];
        let a =
            (0..order)
                .map(|i| {
                    (0..order)
                        .map(|k| {
                            if i + 1 < order {
                                if k == i + 1 { one } else { zero }
                            } else {
                                graph.neg(monic[order - k])
                            }
                        })
                        .collect()
                })
                .collect();
        let c = (0..order)
            .map(|k| {
                let fed = graph.mul(direct, monic[order - k]);
                graph.sub(b[order - k], fed)
            })
            .collect();
        let noise = (0..order).map(|i| vec![if i + 1 == order { one } else { zero }]).collect();
        Some(Process { a, b: noise, c: vec![c], d: vec![direct], n_noise: 1, intensity: None })
    }

    /// What is known about the start.
    fn start_conditions(
        &mut self,
        read: &Read,
        processes: &[Process],
        n: usize,
        n_inputs: usize,
    ) -> Result<StartConditions, Refusal> {
        let flat = self.flat;
        let mode = self.study.initial.mode;
        let one = self.n_known;
        let position = |name: &str| self.model.variables.iter().position(|variable| variable.name == name);
        let mut insisted: Vec<(usize, ExprId, String)> = Vec::new();
        let mut wished: Vec<(usize, usize, ExprId, String)> = Vec::new();
        let zero = self.symbols.graph.number(0.0);
        for (at, variable) in flat.variables.iter().enumerate() {
            if variable.kind != VariableKind::Continuous {
                continue;
            }
            let Some(column) = position(&variable.name) else { continue };
            let given = read.initial_values.iter().find(|(var, _)| var.index() == at);
            let start = variable.start.unwrap_or(zero);
            match given {
                Some(&(_, value)) => insisted.push((column, value, variable.name.clone())),
                None if mode == InitialMode::Model && variable.fixed == Some(true) => {
                    insisted.push((column, start, variable.name.clone()));
                }
                None => {
                    // The order of a simulation's start: a default zero gives way to everything that was written.
                    let is_state = self.expressions.e.iter().any(|entry| entry.column == column);
                    let rank = match (is_state, variable.start.is_some()) {
                        (true, true) => 0,
                        (false, true) => 1,
                        (true, false) => 2,
                        (false, false) => 3,
                    };
                    let value = if mode == InitialMode::Zero { zero } else { start };
                    wished.push((rank, column, value, variable.name.clone()));
                }
            }
        }
        // Derivatives that became variables have no start value of their own.
        for (column, variable) in self.model.variables.iter().enumerate() {
            if flat.find(&variable.name).is_none() {
                wished.push((2, column, zero, variable.name.clone()));
            }
        }
        wished.sort_by_key(|entry| (!self.counting.contains(&entry.3), entry.0));
        let mut rows = Vec::new();
        if mode == InitialMode::Model {
            rows = self.initial_equations(processes)?;
        }
        let n_fixed = insisted.len();
        let n_insisted = n_fixed + rows.len();
        let mut made = StartConditions {
            insisted: ParametricRows::zeros(n_insisted, n, n_inputs),
            wished: ParametricRows::zeros(wished.len(), n, n_inputs),
            insisted_names: Vec::new(),
            wished_names: wished.iter().map(|entry| entry.3.clone()).collect(),
        };
        for (row, (column, value, name)) in insisted.into_iter().enumerate() {
            made.insisted.variables.add(row, column, Term::Number(1.0));
            let term = self.at_start(value)?;
            made.insisted.values.add(row, 0, term);
            made.insisted_names.push(format!("the start value of `{name}`"));
        }
        for (at, equation) in rows.into_iter().enumerate() {
            let row = n_fixed + at;
            for (target, column, value) in equation.entries {
                let term = self.at_start(value)?;
                match target {
                    Target::Variable => made.insisted.variables.add(row, column, term),
                    Target::Derivative => made.insisted.derivatives.add(row, column, term),
                    Target::Input => made.insisted.inputs.add(row, column, term),
                    // Replaced by the states of its filter.
                    Target::Disturbance => {}
                }
            }
            let remainder = self.at_start(equation.remainder)?;
            made.insisted.inputs.add(row, one, remainder);
            made.insisted_names.push(equation.text);
        }
        for (row, (_, column, value, _)) in wished.into_iter().enumerate() {
            made.wished.variables.add(row, column, Term::Number(1.0));
            let term = self.at_start(value)?;
            made.wished.values.add(row, 0, term);
        }
        Ok(made)
    }

    /// A term for the start, where time has the value it starts with, in all experiments the same.
    fn at_start(&mut self, expr: ExprId) -> Result<Term, Refusal> {
        let resolved = self.symbols.resolve(expr);
        if !self.symbols.is_varying(resolved) {
            return Ok(self.symbols.term(resolved));
        }
        let mut starts = self.problem.records.iter().map(|record| record.start);
        let start = starts.next().unwrap_or(0.0);
        if let Some(other) = starts.find(|other| *other != start) {
            let message = format!(
                "start values depend on the time, and experiments begin at different times: at {start} and at {other}"
            );
            let finding = Finding::error("start-time", Span::NONE, message)
                .with_help("let all experiments begin at the same time, or write what they start from in `[initial]`");
            return Err(finding.into());
        }
        let graph = &mut self.symbols.graph;
        let start = graph.number(start);
        let mut substitution = Substitution::new();
        substitution.replace_leaf(graph, Leaf::Time, start);
        let at_start = substitution.apply(graph, resolved);
        Ok(self.symbols.term(at_start))
    }

    /// Initial equations that are linear, with disturbances w = C x_w where their inputs enter.
    fn initial_equations(&mut self, processes: &[Process]) -> Result<Vec<InitialEquation>, Refusal> {
        let flat = self.flat;
        let mut leaves = Vec::new();
        let mut targets = Vec::new();
        for (at, variable) in flat.variables.iter().enumerate() {
            let var = VarId(at as u32);
            match variable.kind {
                VariableKind::Continuous => {
                    let find = |name: &str| self.model.variables.iter().position(|known| known.name == name);
                    let Some(column) = find(&variable.name) else { continue };
                    leaves.push(Leaf::var(var));
                    targets.push((Target::Variable, column));
                    leaves.push(Leaf::der(var, 1));
                    targets.push(match find(&format!("der({})", variable.name)) {
                        Some(derivative) => (Target::Variable, derivative),
                        None => (Target::Derivative, column),
                    });
                }
                VariableKind::Input => {
                    let column = self.model.inputs.iter().position(|name| *name == variable.name);
                    let Some(column) = column else { continue };
                    leaves.push(Leaf::var(var));
                    targets.push(match self.known_column[column] {
                        Some(column) => (Target::Input, column),
                        None => (Target::Disturbance, column),
                    });
                }
                VariableKind::Constant | VariableKind::Parameter | VariableKind::Discrete => {}
            }
        }
        let shaped: Vec<Option<Vec<(usize, ExprId)>>> =
            (0..self.model.inputs.len()).map(|input| self.filter_states(processes, input)).collect();
        let graph = &mut self.symbols.graph;
        let mut extractor = LinearExtractor::new(graph, &leaves);
        let mut found = Vec::new();
        for (row, equation) in flat.initial_equations.iter().enumerate() {
            let residual = graph.sub(equation.lhs, equation.rhs);
            let Ok(form) = extractor.extract(graph, residual) else { continue };
            if form.coefficients.is_empty() {
                continue;
            }
            let text = format!("initial equation {}", row + 1);
            let mut entries = Vec::new();
            for entry in &form.coefficients {
                match targets[entry.column as usize] {
                    (Target::Disturbance, input) => {
                        let states = shaped[input].as_ref();
                        for &(state, c) in states.ok_or_else(|| white_start(&text, &self.model.inputs[input]))? {
                            let value = graph.mul(entry.value, c);
                            entries.push((Target::Variable, state, value));
                        }
                    }
                    (target, column) => entries.push((target, column, entry.value)),
                }
            }
            found.push(InitialEquation { entries, remainder: form.remainder, text });
        }
        Ok(found)
    }

    /// A disturbance as a combination of the states of its shaping filter; nothing where white noise is part of it.
    fn filter_states(&self, processes: &[Process], input: usize) -> Option<Vec<(usize, ExprId)>> {
        let mut state = self.model.n_variables();
        for (process, disturbance) in processes.iter().zip(&self.study.disturbances) {
            if let Some(row) = disturbance.item.signals.iter().position(|name| *name == self.model.inputs[input]) {
                let is_zero = |&value: &ExprId| self.symbols.graph.as_number(value) == Some(0.0);
                let combined = process.c.get(row).into_iter().flatten().enumerate();
                let combined = combined.map(|(at, &c)| (state + at, c)).collect();
                return process.d.iter().all(is_zero).then_some(combined);
            }
            state += process.a.len();
        }
        Some(Vec::new())
    }

    /// Derivatives of functions of time at both ends of a stretch: two, which give polynomials of degree five, or as many
    /// as a model of this index may read, so that those at samples are exact.
    fn n_rates(&self) -> usize {
        let index = regularize(self.flat.clone()).map_or(0, |regular| regular.verdict.structural_index as usize);
        index.max(2)
    }

    /// Inputs over time.
    fn timeline(&mut self, read: &Read, forcing: &[(usize, ExprId)]) -> (Timeline, Vec<KnownInput>) {
        let problem = self.problem;
        let times: Vec<Vec<f64>> = problem.records.iter().map(|record| record.data.times.clone()).collect();
        let since_start = |record: &Record| {
            let start = Some(record.start).filter(|start| record.data.times.first().is_some_and(|first| start < first));
            start.into_iter().chain(record.data.times.iter().copied()).collect()
        };
        let looked: Vec<Vec<f64>> = problem.records.iter().map(since_start).collect();
        let mut signals = Vec::new();
        let mut known = Vec::new();
        let mut breaks = Vec::new();
        let parameter_of = self.model.parameter_of().to_vec();
        let n_rates = self.n_rates();
        for (column, name) in self.model.inputs.iter().enumerate() {
            if self.known_column[column].is_none() {
                continue;
            }
            let given = self.study.inputs.iter().position(|input| input.name == *name);
            let span = given.map_or(Span::NONE, |at| self.study.inputs[at].span);
            let signal = match given.map(|at| (&self.study.inputs[at].item, &read.inputs[at])) {
                None => {
                    let flat = self.flat;
                    let start = flat.find(name).and_then(|var| flat.variables[var.index()].start);
                    let value = start.unwrap_or_else(|| self.symbols.graph.number(0.0));
                    let value = self.symbols.resolve(value);
                    Signal::path(&mut self.symbols, value, 0)
                }
                Some((_, ReadInput::Expression { value, breaks: given })) => {
                    for &time in given {
                        let time = self.symbols.resolve(time);
                        breaks.push(self.symbols.evaluate(time, &self.theta, 0.0));
                    }
                    let mut graph = self.symbols.graph.clone();
                    find_breaks(&mut graph, *value, &parameter_of, &mut breaks);
                    find_breaks_between(&mut graph, *value, &parameter_of, &looked, &mut breaks);
                    let value = self.symbols.resolve(*value);
                    let has_rates = self.symbols.is_varying(value) && !self.is_steps(value);
                    self.path(value, if has_rates { n_rates } else { 0 })
                }
                Some((_, ReadInput::Impulses(list))) => {
                    let list = list.clone();
                    let mut number = |expr: ExprId| {
                        let expr = self.symbols.resolve(expr);
                        self.symbols.evaluate(expr, &self.theta, 0.0)
                    };
                    Signal::Impulses(list.iter().map(|&(time, area)| (number(time), number(area))).collect())
                }
                Some((InputSource::Column { column, hold }, _)) => {
                    // Every record has it: the problem was not posed otherwise.
                    let samples = problem.records.iter().filter_map(|record| record.data.column(column));
                    let samples = samples.map(<[f64]>::to_vec).collect();
                    Signal::column(*hold, &times, samples)
                }
                Some((InputSource::Expression { .. } | InputSource::Impulses(_), ReadInput::Column)) => continue,
            };
            signals.push(signal);
            known.push(KnownInput {
                name: name.clone(),
                derivatives_available: match given {
                    Some(_) => derivatives_available(Some(self.study), name),
                    None => None,
                },
                span,
            });
        }
        let one = self.symbols.graph.number(1.0);
        signals.push(Signal::path(&mut self.symbols, one, 0));
        for &(_, value) in forcing {
            let mut graph = self.symbols.graph.clone();
            let mut parameters = parameter_of.clone();
            for (var, &value) in self.symbols.unknowns().iter().zip(&self.theta) {
                parameters[var.index()] = value;
            }
            find_breaks(&mut graph, value, &parameters, &mut breaks);
            find_breaks_between(&mut graph, value, &parameters, &looked, &mut breaks);
            let has_rates = !self.is_steps(value);
            signals.push(self.path(value, if has_rates { n_rates } else { 0 }));
        }
        (Timeline::new(signals, known.len(), breaks), known)
    }

    fn path(&mut self, value: ExprId, n_rates: usize) -> Signal {
        match Signal::path(&mut self.symbols, value, n_rates) {
            // Between breaks a function without rate is constant.
            Signal::Path { rates, partials, .. } if n_rates == 0 => Signal::Path { rates, partials, is_varying: false },
            other => other,
        }
    }

    /// Whether a function of time is constant between its breaks.
    fn is_steps(&mut self, value: ExprId) -> bool {
        let rate = self.symbols.rate(value);
        self.symbols.graph.as_number(rate) == Some(0.0)
    }

    /// Samples of all experiments.
    fn experiments(&mut self, timeline: &mut Timeline) -> Vec<daesy_estimate::experiment::Experiment> {
        let mut all = Vec::new();
        for Record { data, start, measured, first_counted } in &self.problem.records {
            let theta = &self.theta;
            all.push(timeline.lay_out(&self.symbols, theta, *start, &data.times, measured, *first_counted));
        }
        all
    }
}

/// A disturbance as `x' = a x + b v`, `w = c x + d v`.
struct Process {
    a: Vec<Vec<ExprId>>,
    b: Vec<Vec<ExprId>>,
    /// A row for each signal.
    c: Vec<Vec<ExprId>>,
    d: Vec<ExprId>,
    n_noise: usize,
    /// Intensity of white noise; one where nothing is said.
    intensity: Option<ExprId>,
}

/// Where a coefficient of an initial equation goes.
#[derive(Clone, Copy)]
enum Target {
    Variable,
    Derivative,
    Input,
    /// To the states of the shaping filter of an input of the model.
    Disturbance,
}

struct InitialEquation {
    entries: Vec<(Target, usize, ExprId)>,
    remainder: ExprId,
    text: String,
}

struct StartConditions {
    insisted: ParametricRows,
    wished: ParametricRows,
    insisted_names: Vec<String>,
    wished_names: Vec<String>,
}

impl ParametricRows {
    fn zeros(rows: usize, n: usize, n_inputs: usize) -> Self {
        Self {
            variables: ParametricMatrix::zeros(rows, n),
            derivatives: ParametricMatrix::zeros(rows, n),
            inputs: ParametricMatrix::zeros(rows, n_inputs),
            values: ParametricMatrix::zeros(rows, 1),
        }
    }
}

fn too_rough(time: f64) -> Refusal {
    let message = format!(
        "at t = {} an input or a function of time in the equations is too rough to be followed by polynomials",
        daesy_structure::words::short(time)
    );
    let finding = Finding::error("rough-input", Span::NONE, message).with_help(
        "it may oscillate very fast, or have no finite value there; `method = \"pem\"` of `identify` integrates it \
         step by step",
    );
    Refusal { findings: vec![finding] }
}
