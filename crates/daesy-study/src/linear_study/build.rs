//! From a loaded study to a [`LinearStudy`].

use daesy_estimate::descriptor::{FilterBlock, ModelLayout, StartMode};
use daesy_estimate::search::SearchSpace;
use daesy_graph::finding::{Finding, nearest};
use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::{ExprId, Leaf, LinearExtractor, Span, VarId};
use daesy_structure::parameters::order_parameters;
use daesy_structure::{RegularizeError, regularize};

use super::computed::bind_computed;
use super::parametric::{Elimination, EliminationProblem, ParametricMatrix, Symbols, Term};
use super::timeline::{Signal, Timeline};
use super::{KnownInput, LinearStudy, Matrices, MeasuredSignal, ParametricRows, Unknown, VaryingVariance};
use crate::data::Data;
use crate::diagnostic::Diagnostic;
use crate::inputs::{derivatives_available, find_breaks};
use crate::load::{Loaded, quantity_expression};
use crate::study::{Disturbance, DisturbanceProcess, InitialMode, InputSource, Matrix, Quantity, Study};
use daesy_structure::linearize::{CoefficientExpressions, LinearKind, LinearModel, parameter_values};

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
    start_time: Option<ExprId>,
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

/// Builds the estimation problem of a linear study with its data.
///
/// # Errors
/// Diagnostics; one with the code `nonlinear` when the model is not linear with constant coefficients.
pub fn build_linear_study(loaded: &mut Loaded, wanted: SignalsWanted) -> Result<LinearStudy, Vec<Diagnostic>> {
    let Some(study) = loaded.study.clone() else {
        return Err(vec![
            Diagnostic::error("no-study", "a model alone says nothing about data, unknowns and measurements")
                .with_help("write a study (.toml) that names the model"),
        ]);
    };
    let in_study = |findings: Vec<Finding>| -> Vec<Diagnostic> {
        findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)).collect()
    };
    let unknown_vars = unknown_variables(&loaded.flat, &study).map_err(in_study)?;
    let mut with_computed;
    let loaded = if loaded.flat.variables.iter().any(|variable| variable.fixed == Some(false)) {
        with_computed = loaded.clone();
        bind_computed(&mut with_computed.flat, &unknown_vars).map_err(|findings| in_model(&loaded.flat, &findings))?;
        &mut with_computed
    } else {
        loaded
    };
    let read = read_quantities(loaded, &study).map_err(in_study)?;
    let model = LinearModel::with_unknowns(&loaded.flat, &unknown_vars)
        .map_err(|finding| vec![Diagnostic::resolve(&finding, &loaded.flat.sources)])?;
    if model.kind == LinearKind::TimeVarying {
        return Err(vec![Diagnostic::error("nonlinear", "the coefficients of the model depend on time")]);
    }
    if model.equations.len() != model.n_variables() {
        return Err(unbalanced(&loaded.flat));
    }
    let data = read_data(loaded, &study)?;
    let mut builder = Builder::new(loaded, &study, &model, unknown_vars)
        .map_err(|finding| vec![Diagnostic::resolve(&finding, &loaded.flat.sources)])?;
    builder.build(&read, &data, wanted).map_err(|problem| match problem {
        Problem::Study(findings) => in_study(findings),
        Problem::Ready(diagnostics) => diagnostics,
    })
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

enum Problem {
    Study(Vec<Finding>),
    Ready(Vec<Diagnostic>),
}

impl From<Finding> for Problem {
    fn from(finding: Finding) -> Self {
        Self::Study(vec![finding])
    }
}

fn unknown_variables(flat: &FlatDae, study: &Study) -> Result<Vec<VarId>, Vec<Finding>> {
    let mut findings = Vec::new();
    let mut variables = Vec::new();
    for unknown in &study.unknown {
        let Some(var) = flat.find(&unknown.name) else { continue };
        if flat.variables[var.index()].is_structural {
            let message =
                format!("`{}` shapes the equations (an array size or a condition) and cannot be unknown", unknown.name);
            findings.push(Finding::error("structural-unknown", unknown.span, message).with_names([&unknown.name]));
        }
        variables.push(var);
    }
    if findings.is_empty() { Ok(variables) } else { Err(findings) }
}

fn read_data(loaded: &Loaded, study: &Study) -> Result<Vec<Data>, Vec<Diagnostic>> {
    if loaded.n_experiments() == 0 {
        let finding = Finding::error("no-data", Span::NONE, "the study has no data")
            .with_help("add `[data]` with `file = \"name.csv\"`");
        return Err(vec![Diagnostic::resolve(&finding, &study.sources)]);
    }
    loaded.experiments()
}

fn read_quantities(loaded: &mut Loaded, study: &Study) -> Result<Read, Vec<Finding>> {
    let mut findings = Vec::new();
    let zero = loaded.flat.graph.number(0.0);
    let flat = &mut loaded.flat;
    let mut quantity = |quantity: &Quantity| -> ExprId {
        quantity_expression(flat, quantity).unwrap_or_else(|errors| {
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
    let start_time = study.simulate.start.as_ref().map(&mut quantity);
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
    for measurement in &study.measurements {
        if measurement.item.std.is_none() && measurement.item.variance.is_none() {
            let name = &measurement.name;
            let message = format!("the measurement `{name}` says nothing about its accuracy");
            findings.push(Finding::error("no-accuracy", measurement.span, message).with_names([name]).with_help(
                "add `std` or `variance`; a number, an expression, or the name of an unknown; 0 means exact",
            ));
        }
    }
    let variances = study
        .measurements
        .iter()
        .zip(variances)
        .map(
            |(measurement, value)| {
                if measurement.item.std.is_some() { loaded.flat.graph.mul(value, value) } else { value }
            },
        )
        .collect();
    let find = |name: &str| loaded.flat.find(name);
    let initial_values =
        study.initial.values.iter().zip(initial).filter_map(|(value, expr)| Some((find(&value.name)?, expr))).collect();
    if findings.is_empty() {
        Ok(Read { disturbances, variances, inputs, initial_values, start_time })
    } else {
        Err(findings)
    }
}

struct Builder<'a> {
    loaded: &'a Loaded,
    study: &'a Study,
    model: &'a LinearModel,
    symbols: Symbols,
    expressions: CoefficientExpressions,
    theta: Vec<f64>,
    /// Columns of the model's inputs among the known ones.
    known_column: Vec<Option<usize>>,
    n_known: usize,
}

impl<'a> Builder<'a> {
    fn new(
        loaded: &'a Loaded,
        study: &'a Study,
        model: &'a LinearModel,
        unknowns: Vec<VarId>,
    ) -> Result<Self, Box<Finding>> {
        let flat = &loaded.flat;
        let values = parameter_values(flat)?;
        let expressions = model.expressions();
        let order = order_parameters(flat)?;
        let parameters = order.into_iter().map(|var| (var, values[var.index()], flat.variables[var.index()].binding));
        let theta = unknowns.iter().map(|var| values[var.index()]).collect();
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
        Ok(Self { loaded, study, model, symbols, expressions, theta, known_column, n_known })
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

    fn build(&mut self, read: &Read, data: &[Data], wanted: SignalsWanted) -> Result<LinearStudy, Problem> {
        let processes = self.processes(read)?;
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
        let mut filters = Vec::new();
        let mut filter_names = Vec::new();
        let mut noises = Vec::new();
        let mut intensities = ParametricMatrix::zeros(n_noise, 1);
        let (mut state, mut noise) = (n_model, 0);
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

        let start = self.start_conditions(read, n, n_inputs)?;
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

        let (mut timeline, inputs) = self.timeline(read, data, &varying)?;
        let experiments = self.experiments(read, data, &mut timeline)?;
        let unknowns: Vec<Unknown> = self
            .study
            .unknown
            .iter()
            .zip(&self.theta)
            .map(|(unknown, &start)| Unknown { name: unknown.name.clone(), span: unknown.span, start })
            .collect();
        let space = self.space(&unknowns)?;
        let measured = self
            .study
            .measurements
            .iter()
            .map(|signal| MeasuredSignal {
                name: signal.name.clone(),
                column: signal.item.column.clone().unwrap_or_else(|| signal.name.clone()),
                span: signal.span,
            })
            .collect();
        let study = LinearStudy {
            layout: ModelLayout {
                n_unknown: unknowns.len(),
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
            unknowns,
            space,
            measured,
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
        let idle: Vec<Finding> = (0..study.unknowns.len())
            .filter(|&at| !study.depends_on(at))
            .map(|at| {
                let unknown = &study.unknowns[at];
                let message = format!("nothing depends on the unknown `{}`", unknown.name);
                Finding::error("idle-unknown", unknown.span, message)
                    .with_names([&unknown.name])
                    .with_help("take it out of `[unknown]`, or use it in the model, a disturbance or an accuracy")
            })
            .collect();
        if idle.is_empty() { Ok(study) } else { Err(Problem::Study(idle)) }
    }

    /// Column of a variable by name.
    fn variable(&self, name: &str, span: Span) -> Result<usize, Problem> {
        if let Some(column) = self.model.variables.iter().position(|variable| variable.name == name) {
            return Ok(column);
        }
        let message = format!("`{name}` is computed nonlinearly from the other variables");
        Err(Finding::error("nonlinear", span, message).with_names([name]).into())
    }

    fn check_variances(&self, variances: &[ExprId]) -> Result<(), Problem> {
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
                findings.push(Finding::error("negative-variance", span, message).with_names([name]));
            } else if !at_start.is_finite() && !self.symbols.is_varying(value) {
                let message = format!("the variance of the measurement `{name}` has no finite value");
                findings.push(Finding::error("not-finite", span, message).with_names([name]));
            }
        }
        if findings.is_empty() { Ok(()) } else { Err(Problem::Study(findings)) }
    }

    /// Disturbances as filters driven by unit white noise.
    fn processes(&mut self, read: &Read) -> Result<Vec<Process>, Problem> {
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
        if findings.is_empty() { Ok(processes) } else { Err(Problem::Study(findings)) }
    }

    /// `num / den`, highest power first, as `x_n' = -a x + v`, `w = c x + d v` in companion form.
    fn companion(&mut self, num: &[ExprId], den: &[ExprId]) -> Option<Process> {
        let is_zero = |graph: &daesy_graph::Graph, expr: ExprId| graph.as_number(expr) == Some(0.0);
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
    fn start_conditions(&mut self, read: &Read, n: usize, n_inputs: usize) -> Result<StartConditions, Problem> {
        let flat = &self.loaded.flat;
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
                    let is_state = self.expressions.e.iter().any(|entry| entry.column == column);
                    let rank = match (is_state, variable.start.is_some()) {
                        (true, true) => 0,
                        (true, false) => 1,
                        (false, _) => 2,
                    };
                    let value = if mode == InitialMode::Zero { zero } else { start };
                    wished.push((rank, column, value, variable.name.clone()));
                }
            }
        }
        // Derivatives that became variables have no start value of their own.
        for (column, variable) in self.model.variables.iter().enumerate() {
            if flat.find(&variable.name).is_none() {
                wished.push((1, column, zero, variable.name.clone()));
            }
        }
        wished.sort_by_key(|entry| entry.0);
        let mut rows = Vec::new();
        if mode == InitialMode::Model {
            rows = self.initial_equations();
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
            let term = self.time_free(value);
            made.insisted.values.add(row, 0, term);
            made.insisted_names.push(format!("the start value of `{name}`"));
        }
        for (at, equation) in rows.into_iter().enumerate() {
            let row = n_fixed + at;
            for (target, column, value) in equation.entries {
                let term = self.term(value);
                match target {
                    Target::Variable => made.insisted.variables.add(row, column, term),
                    Target::Derivative => made.insisted.derivatives.add(row, column, term),
                    Target::Input => made.insisted.inputs.add(row, column, term),
                }
            }
            let remainder = self.time_free(equation.remainder);
            made.insisted.inputs.add(row, one, remainder);
            made.insisted_names.push(equation.text);
        }
        for (row, (_, column, value, _)) in wished.into_iter().enumerate() {
            made.wished.variables.add(row, column, Term::Number(1.0));
            let term = self.time_free(value);
            made.wished.values.add(row, 0, term);
        }
        Ok(made)
    }

    /// A term for the start, where time has the value it starts with.
    fn time_free(&mut self, expr: ExprId) -> Term {
        let resolved = self.symbols.resolve(expr);
        if !self.symbols.is_varying(resolved) {
            return self.symbols.term(resolved);
        }
        Term::Number(self.symbols.evaluate(resolved, &self.theta, 0.0))
    }

    /// Initial equations that are linear.
    fn initial_equations(&mut self) -> Vec<InitialEquation> {
        let flat = &self.loaded.flat;
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
                    if let Some(column) = column.and_then(|column| self.known_column[column]) {
                        leaves.push(Leaf::var(var));
                        targets.push((Target::Input, column));
                    }
                }
                VariableKind::Constant | VariableKind::Parameter | VariableKind::Discrete => {}
            }
        }
        let graph = &mut self.symbols.graph;
        let mut extractor = LinearExtractor::new(graph, &leaves);
        let mut found = Vec::new();
        for (row, equation) in flat.initial_equations.iter().enumerate() {
            let residual = graph.sub(equation.lhs, equation.rhs);
            let Ok(form) = extractor.extract(graph, residual) else { continue };
            if form.coefficients.is_empty() {
                continue;
            }
            let entries = form
                .coefficients
                .iter()
                .map(|entry| {
                    let (target, column) = targets[entry.column as usize];
                    (target, column, entry.value)
                })
                .collect();
            let text = format!("initial equation {}", row + 1);
            found.push(InitialEquation { entries, remainder: form.remainder, text });
        }
        found
    }

    /// Inputs over time.
    fn timeline(
        &mut self,
        read: &Read,
        data: &[Data],
        forcing: &[(usize, ExprId)],
    ) -> Result<(Timeline, Vec<KnownInput>), Problem> {
        let times: Vec<Vec<f64>> = data.iter().map(|data| data.times.clone()).collect();
        let mut signals = Vec::new();
        let mut known = Vec::new();
        let mut breaks = Vec::new();
        let mut findings = Vec::new();
        let mut diagnostics = Vec::new();
        let parameter_of = self.model.parameter_of().to_vec();
        // Two derivatives at both ends of a stretch give polynomials of degree five.
        const N_RATES: usize = 3;
        for (column, name) in self.model.inputs.iter().enumerate() {
            if self.known_column[column].is_none() {
                continue;
            }
            let given = self.study.inputs.iter().position(|input| input.name == *name);
            let span = given.map_or(Span::NONE, |at| self.study.inputs[at].span);
            let signal = match given.map(|at| (&self.study.inputs[at].item, &read.inputs[at])) {
                None => {
                    let flat = &self.loaded.flat;
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
                    let mut flat = self.loaded.flat.clone();
                    find_breaks(&mut flat, *value, &parameter_of, &mut breaks);
                    let value = self.symbols.resolve(*value);
                    let n_rates = if self.symbols.is_varying(value) && !self.is_steps(value) { N_RATES - 1 } else { 0 };
                    self.path(value, n_rates)
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
                    let mut samples = Vec::new();
                    for data in data {
                        match data.column(column) {
                            Some(values) => {
                                if let Some(at) = values.iter().position(|value| !value.is_finite()) {
                                    let message = format!(
                                        "the input `{name}` has no value at t = {} (column `{column}`)",
                                        data.times[at]
                                    );
                                    let mut diagnostic =
                                        Diagnostic::about_file("input-missing-sample", &data.file, message);
                                    diagnostic.names = vec![name.clone()];
                                    diagnostics.push(
                                        diagnostic
                                            .with_help("fill it in: between samples the input is held, not guessed"),
                                    );
                                }
                                samples.push(values.to_vec());
                            }
                            None => {
                                findings.push(missing_column(data, column, span, name));
                                samples.push(vec![0.0; data.times.len()]);
                            }
                        }
                    }
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
        if !diagnostics.is_empty() {
            return Err(Problem::Ready(diagnostics));
        }
        if !findings.is_empty() {
            return Err(Problem::Study(findings));
        }
        let one = self.symbols.graph.number(1.0);
        signals.push(Signal::path(&mut self.symbols, one, 0));
        for &(_, value) in forcing {
            let mut flat = self.loaded.flat.clone();
            flat.graph = self.symbols.graph.clone();
            let mut parameters = parameter_of.clone();
            for (var, &value) in self.symbols.unknowns().iter().zip(&self.theta) {
                parameters[var.index()] = value;
            }
            find_breaks(&mut flat, value, &parameters, &mut breaks);
            let n_rates = if self.is_steps(value) { 0 } else { N_RATES - 1 };
            signals.push(self.path(value, n_rates));
        }
        Ok((Timeline::new(signals, breaks), known))
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
    fn experiments(
        &mut self,
        read: &Read,
        data: &[Data],
        timeline: &mut Timeline,
    ) -> Result<Vec<daesy_estimate::experiment::Experiment>, Problem> {
        let mut findings = Vec::new();
        let mut diagnostics = Vec::new();
        let start = read.start_time.map(|expr| {
            let expr = self.symbols.resolve(expr);
            self.symbols.evaluate(expr, &self.theta, 0.0)
        });
        if self.study.measurements.is_empty() {
            findings.push(
                Finding::error("no-measurements", Span::NONE, "the study measures nothing")
                    .with_help("add `[measurements]` with a signal of the model and its accuracy"),
            );
        }
        let transient = self.study.identify.transient.unwrap_or(0.0);
        let mut all = Vec::new();
        for data in data {
            let m = self.study.measurements.len();
            let mut values = vec![f64::NAN; m * data.times.len()];
            for (at, measurement) in self.study.measurements.iter().enumerate() {
                let column = measurement.item.column.as_deref().unwrap_or(&measurement.name);
                let Some(samples) = data.column(column) else {
                    findings.push(missing_column(data, column, measurement.span, &measurement.name));
                    continue;
                };
                for (sample, value) in samples.iter().enumerate() {
                    values[sample * m + at] = if value.is_finite() { *value } else { f64::NAN };
                }
            }
            let begin = start.unwrap_or(data.times[0]);
            let first_counted = data.times.partition_point(|&time| time < begin + transient);
            if findings.is_empty() && values[first_counted * m..].iter().all(|value| value.is_nan()) {
                let columns: Vec<&str> = self
                    .study
                    .measurements
                    .iter()
                    .map(|signal| signal.item.column.as_deref().unwrap_or(&signal.name))
                    .collect();
                let message = format!("`{}` has no measured value in {}", data.file, columns.join(", "));
                let mut diagnostic = Diagnostic::about_file("all-missing", &data.file, message);
                diagnostic.names = columns.iter().map(|name| (*name).to_owned()).collect();
                diagnostics.push(diagnostic.with_help("every cell is empty, NaN, or within the transient"));
                continue;
            }
            if findings.is_empty() {
                all.push(timeline.lay_out(&self.symbols, &self.theta, begin, &data.times, values, first_counted));
            }
        }
        if !findings.is_empty() {
            return Err(Problem::Study(findings));
        }
        if diagnostics.is_empty() { Ok(all) } else { Err(Problem::Ready(diagnostics)) }
    }

    /// Bounds and sizes of the unknowns.
    fn space(&mut self, unknowns: &[Unknown]) -> Result<SearchSpace, Problem> {
        let flat = &mut self.loaded.flat.clone();
        let parameter_of = self.model.parameter_of().to_vec();
        let mut space = SearchSpace { lower: Vec::new(), upper: Vec::new(), nominal: Vec::new() };
        let mut findings = Vec::new();
        for (unknown, given) in unknowns.iter().zip(&self.study.unknown) {
            let mut number = |quantity: &Option<Quantity>, declared: Option<ExprId>| -> Option<f64> {
                let expr = match quantity {
                    Some(quantity) => {
                        quantity_expression(flat, quantity).map_err(|errors| findings.extend(errors)).ok()?
                    }
                    None => declared?,
                };
                let environment = |var: VarId, _: u16| parameter_of.get(var.index()).copied().unwrap_or(f64::NAN);
                Some(daesy_graph::Evaluator::new().evaluate_one(&flat.graph, expr, &environment))
                    .filter(|value| !value.is_nan())
            };
            let declared = self.loaded.flat.find(&unknown.name).map(|var| &self.loaded.flat.variables[var.index()]);
            let lower =
                number(&given.item.min, declared.and_then(|variable| variable.min)).unwrap_or(f64::NEG_INFINITY);
            let upper = number(&given.item.max, declared.and_then(|variable| variable.max)).unwrap_or(f64::INFINITY);
            let nominal = number(&given.item.nominal, declared.and_then(|variable| variable.nominal));
            if lower > upper {
                let message = format!("the bounds of `{}` contradict each other: {lower} > {upper}", unknown.name);
                findings.push(Finding::error("bounds", unknown.span, message).with_names([&unknown.name]));
            } else if unknown.start < lower || unknown.start > upper {
                let message = format!(
                    "the start of `{}` is outside of its bounds: {} is not in [{lower}, {upper}]",
                    unknown.name, unknown.start
                );
                findings.push(Finding::error("bounds", unknown.span, message).with_names([&unknown.name]));
            }
            let reach = if lower.is_finite() && upper.is_finite() { 0.1 * (upper - lower) } else { 1.0 };
            let size = nominal.unwrap_or(if unknown.start != 0.0 { unknown.start } else { reach }).abs();
            space.lower.push(lower);
            space.upper.push(upper);
            space.nominal.push(if size > 0.0 && size.is_finite() { size } else { 1.0 });
        }
        if findings.is_empty() { Ok(space) } else { Err(Problem::Study(findings)) }
    }
}

fn missing_column(data: &Data, column: &str, span: Span, name: &str) -> Finding {
    let finding =
        Finding::error("data-column", span, format!("the data file `{}` has no column `{column}`", data.file))
            .with_names([name]);
    match nearest(column, data.names.iter().map(String::as_str)) {
        Some(near) => finding.with_help(format!("did you mean `{near}`?")),
        None => finding.with_help(format!("columns: {}", data.names.join(", "))),
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
