//! What a study says about random parameters and asks about them, checked.

use daesy_chaos::{
    Basis, ChaosError, Distribution, IndexSet, RandomParameter, RuleFamily, hyperbolic_terms, total_degree_terms,
};
use daesy_graph::finding::{Finding, nearest};
use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::{Graph, Span, VarId};

use crate::joint::germ_name;
use crate::points::derivative;
use daesy_structure::linearize::parameter_values;
use daesy_study::data::Data;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::load::{Loaded, quantity_expression};
use daesy_study::study::{Named, RandomParameter as StudyRandom, Study, UqOptions};

/// How coefficients are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Whatever suits the model.
    Auto,
    /// The expanded model.
    Galerkin,
    /// The model at the points of a grid.
    Collocation,
    /// The model at random points.
    MonteCarlo,
    /// The model at low-discrepancy points.
    QuasiMonteCarlo,
}

impl Method {
    /// The word of the study file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Galerkin => "galerkin",
            Self::Collocation => "collocation",
            Self::MonteCarlo => "monte-carlo",
            Self::QuasiMonteCarlo => "quasi-monte-carlo",
        }
    }

    fn from_word(word: &str) -> Self {
        match word {
            "galerkin" => Self::Galerkin,
            "collocation" => Self::Collocation,
            "monte-carlo" => Self::MonteCarlo,
            "quasi-monte-carlo" => Self::QuasiMonteCarlo,
            _ => Self::Auto,
        }
    }
}

/// Which polynomials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BasisKind {
    /// Total degree.
    Total,
    /// Hyperbolic cross.
    Hyperbolic,
    /// Grown where coefficients decay slowly.
    Adaptive,
}

/// Which grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GridKind {
    /// Tensor for few parameters, sparse for many.
    Auto,
    /// Full tensor.
    Tensor,
    /// Sparse.
    Sparse,
}

/// How the expanded model starts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum StartKind {
    /// From consistent values at parameter values, projected.
    Project,
    /// From the values at the means, with a smooth transition of this duration.
    Ramp(f64),
}

/// A checked request.
#[derive(Clone, Debug)]
pub struct Request {
    /// The parameters.
    pub parameters: Vec<RandomParameter>,
    /// Their variables in the flat model.
    pub random: Vec<VarId>,
    /// How.
    pub method: Method,
    /// Which polynomials.
    pub basis: BasisKind,
    /// Their degree.
    pub degree: usize,
    /// Highest degree of an adaptive basis.
    pub max_degree: usize,
    /// Where an adaptive basis stops.
    pub tolerance: f64,
    /// Samples of Monte Carlo methods.
    pub samples: usize,
    /// Which grid.
    pub grid: GridKind,
    /// Which rules.
    pub rules: RuleFamily,
    /// Points per parameter.
    pub points: Option<usize>,
    /// How the expanded model starts.
    pub start: StartKind,
    /// Held-out samples that judge the series; as many as are cheap where nobody says.
    pub validation: Option<usize>,
    /// Variables to report.
    pub variables: Option<Vec<String>>,
    /// Samples of the last parameters together, if there are any.
    pub joint_rows: Vec<Vec<f64>>,
    /// Seed of everything random.
    pub seed: u64,
    /// Place of `[uq]` in the study.
    pub span: Span,
}

/// Reads and checks what the study asks for.
///
/// # Errors
/// Diagnostics with their place in the study.
pub fn read_request(loaded: &Loaded, seed: u64) -> Result<Request, Vec<Diagnostic>> {
    let Some(study) = loaded.study.clone() else {
        let message = "random parameters are given in a study file, but this is a model";
        return Err(vec![Diagnostic::error("no-random-parameters", message).with_help(
            "write a study (.toml) with `[model] file = ..` and `[random] name = { uniform = { min = .., max = .. } }`",
        )]);
    };
    if study.random.is_empty() && study.joint.is_none() {
        let message = "the study has no random parameters";
        return Err(vec![
            Diagnostic::error("no-random-parameters", message)
                .with_help("add `[random]` with lines such as `R = { uniform = { mean = 100, relative = 0.1 } }`"),
        ]);
    }
    let mut findings = Vec::new();
    let mut diagnostics = Vec::new();
    let mut parameters = Vec::new();
    let mut random = Vec::new();
    for given in &study.random {
        let Some(var) = loaded.flat.find(&given.name) else { continue };
        let variable = &loaded.flat.variables[var.index()];
        if variable.is_final || variable.is_structural {
            let why = if variable.is_final {
                "is final"
            } else {
                "shapes the equations (an array size, or the condition of a component or equation)"
            };
            let message = format!("`{}` {why} and cannot be random", given.name);
            findings.push(Finding::error("random-parameter", given.span, message).with_names([&given.name]));
            continue;
        }
        match distribution(loaded, given) {
            Ok(distribution) => match distribution.check() {
                Ok(()) => {
                    parameters.push(RandomParameter { name: given.name.clone(), distribution });
                    random.push(var);
                }
                Err(error) => findings.push(
                    Finding::error("distribution", given.span, format!("`{}`: {error}", given.name))
                        .with_names([&given.name]),
                ),
            },
            Err(Wrong::Findings(more)) => findings.extend(more),
            Err(Wrong::Diagnostics(more)) => diagnostics.extend(more),
        }
    }
    for (at, name) in study.joint.iter().flat_map(|joint| joint.names.iter().enumerate()) {
        let var = loaded.flat.find(&name.name);
        if var.is_some_and(|var| loaded.flat.variables[var.index()].is_structural) {
            let message = format!("`{}` shapes the equations and cannot be random", name.name);
            findings.push(Finding::error("random-parameter", name.span, message).with_names([&name.name]));
        }
        if let (Some(samples), Some(var)) = (study.joint.as_ref().and_then(|joint| joint.samples.as_ref()), var) {
            let distribution = Distribution::from_samples(samples.rows.iter().map(|row| row[at]).collect());
            parameters.push(RandomParameter { name: name.name.clone(), distribution });
            random.push(var);
            continue;
        }
        let Some(germ) = loaded.flat.find(&germ_name(at)) else { continue };
        let distribution = Distribution::Normal { mean: 0.0, std: 1.0 };
        parameters.push(RandomParameter { name: germ_name(at), distribution });
        random.push(germ);
    }
    findings.extend(unknown_variables(loaded, &study));
    let joint_rows = study.joint.as_ref().and_then(|joint| joint.samples.as_ref()).map(|samples| samples.rows.clone());
    if let (Some(word), Some(_)) = (study.uq.method.as_deref(), &joint_rows)
        && !["auto", "monte-carlo"].contains(&word)
    {
        let message = format!("`{word}` needs independent or normal parameters, not samples of several together");
        let finding = Finding::error("joint-samples", study.uq.span.unwrap_or(Span::NONE), message);
        findings.push(finding.with_help("take `method = \"monte-carlo\"`, which runs the model at the samples"));
    }
    let starts_on_ramp = study.uq.initial.as_deref() == Some("ramp") || study.uq.ramp.is_some();
    if starts_on_ramp && study.uq.method.as_deref() != Some("galerkin") {
        let message = "a ramp at the start is for `method = \"galerkin\"`: the others run the model at values of the parameters \
                       from the start on";
        let finding = Finding::error("ramp", study.uq.span.unwrap_or(Span::NONE), message);
        findings.push(finding.with_help("write `method = \"galerkin\"`, or leave `initial` and `ramp` out"));
    }
    diagnostics.extend(findings.iter().map(|finding| Diagnostic::resolve(finding, &study.sources)));
    if !diagnostics.is_empty() {
        return Err(diagnostics);
    }
    let mut request = request(&study.uq, parameters, random, seed);
    if let Some(rows) = joint_rows {
        request.method = Method::MonteCarlo;
        request.joint_rows = rows;
    }
    Ok(request)
}

/// Variables to report that the model does not have.
fn unknown_variables(loaded: &Loaded, study: &Study) -> Vec<Finding> {
    let mut findings = Vec::new();
    for variable in study.uq.variables.iter().flatten() {
        let of = loaded.flat.find(derivative(&variable.name).of).map(|var| loaded.flat.variables[var.index()].kind);
        let is_there = match of {
            Some(VariableKind::Continuous) => true,
            Some(_) => derivative(&variable.name).order == 0,
            None => false,
        };
        if !is_there {
            let names = loaded.flat.variables.iter().map(|variable| variable.name.as_str());
            let finding =
                Finding::error("unknown-name", variable.span, format!("the model has no variable `{}`", variable.name))
                    .with_names([&variable.name]);
            findings.push(match nearest(&variable.name, names) {
                Some(near) => finding.with_help(format!("did you mean `{near}`?")),
                None => finding,
            });
        }
    }
    findings
}

fn request(asked: &UqOptions, parameters: Vec<RandomParameter>, random: Vec<VarId>, seed: u64) -> Request {
    let basis = match asked.basis.as_deref() {
        Some("hyperbolic") => BasisKind::Hyperbolic,
        Some("adaptive") => BasisKind::Adaptive,
        _ => BasisKind::Total,
    };
    let default_degree = if parameters.len() > 8 { 2 } else { 3 };
    let degree = asked.degree.map_or(default_degree, |degree| degree as usize);
    Request {
        parameters,
        random,
        method: asked.method.as_deref().map_or(Method::Auto, Method::from_word),
        basis,
        degree,
        max_degree: asked.max_degree.map_or(degree.max(12), |most| most as usize),
        tolerance: asked.tolerance.unwrap_or(1e-3),
        samples: asked.samples.map_or(1000, |samples| samples as usize),
        grid: match asked.grid.as_deref() {
            Some("tensor") => GridKind::Tensor,
            Some("sparse") => GridKind::Sparse,
            _ => GridKind::Auto,
        },
        rules: if asked.quadrature.as_deref() == Some("nested") { RuleFamily::Nested } else { RuleFamily::Gauss },
        points: asked.points.map(|points| points as usize),
        start: match (asked.initial.as_deref(), asked.ramp) {
            (Some("ramp"), duration) => StartKind::Ramp(duration.unwrap_or(0.0)),
            _ => StartKind::Project,
        },
        validation: asked.validation.map(|count| count as usize),
        variables: asked
            .variables
            .as_ref()
            .map(|variables| variables.iter().map(|variable| variable.name.clone()).collect()),
        joint_rows: Vec::new(),
        seed,
        span: asked.span.unwrap_or(Span::NONE),
    }
}

enum Wrong {
    Findings(Vec<Finding>),
    Diagnostics(Vec<Diagnostic>),
}

/// The distribution of a random parameter of the study; its numbers may be expressions in parameters.
fn distribution(loaded: &Loaded, given: &Named<StudyRandom>) -> Result<Distribution, Wrong> {
    if let Some(samples) = &given.item.samples {
        let path = loaded.folder.join(&samples.file);
        let text = daesy_model::file::read_text(&path, daesy_model::file::MAX_DATA_BYTES).map_err(|error| {
            let message = format!("the samples of `{}` cannot be read from `{}`: {error}", given.name, samples.file);
            Wrong::Findings(vec![
                Finding::error("samples-file", given.span, message).with_help("the path is relative to the study file"),
            ])
        })?;
        let shown = path.display().to_string();
        let values = Data::parse_column(&text, &shown, &samples.column).map_err(Wrong::Diagnostics)?;
        return Ok(Distribution::from_samples(values));
    }
    let mut numbers = Vec::new();
    let mut findings = Vec::new();
    for argument in &given.item.arguments {
        let mut graph = Graph::default();
        match quantity_expression(&mut graph, &loaded.flat.variables, &argument.item) {
            Ok(expr) => match (random_in(loaded, &graph, expr), known_number(&loaded.flat, &graph, expr)) {
                (Some(other), _) => findings.push(
                    Finding::error(
                        "distribution",
                        argument.span,
                        format!("`{}` of `{}` depends on `{other}`, which is random itself", argument.name, given.name),
                    )
                    .with_names([&given.name, &other])
                    .with_help("write a number; parameters that depend on each other stand in `[random.joint]`"),
                ),
                (None, Ok(value)) if value.is_finite() => numbers.push((argument.name.as_str(), value)),
                _ => findings.push(Finding::error(
                    "not-finite",
                    argument.span,
                    format!("`{}` of `{}` is not a finite number", argument.name, given.name),
                )),
            },
            Err(more) => findings.extend(more),
        }
    }
    if !findings.is_empty() {
        return Err(Wrong::Findings(findings));
    }
    let family = given.item.family.as_str();
    let get = |name: &str| numbers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let missing = |names: &str| {
        let message = format!("the {family} distribution of `{}` needs {names}", given.name);
        Wrong::Findings(vec![Finding::error("distribution", given.span, message).with_names([&given.name])])
    };
    let need = |name: &str, names: &str| get(name).ok_or_else(|| missing(names));
    Ok(match family {
        "uniform" => match (get("mean"), get("relative"), get("min"), get("max")) {
            (Some(mean), Some(relative), None, None) => {
                let half = mean.abs() * relative;
                Distribution::Uniform { min: mean - half, max: mean + half }
            }
            (None, None, Some(min), Some(max)) => Distribution::Uniform { min, max },
            _ => return Err(missing("`mean` and `relative`, or `min` and `max`")),
        },
        "normal" | "truncated" => {
            let names = "`mean` and `std`";
            let (mean, std) = (need("mean", names)?, need("std", names)?);
            let (min, max) = (get("min"), get("max"));
            if min.is_none() && max.is_none() {
                if family == "truncated" {
                    return Err(missing("`min` or `max`"));
                }
                Distribution::Normal { mean, std }
            } else {
                let (min, max) = (min.unwrap_or(f64::NEG_INFINITY), max.unwrap_or(f64::INFINITY));
                Distribution::TruncatedNormal { mean, std, min, max }
            }
        }
        "lognormal" => {
            let names = "`mean` and `std` of the variable itself";
            Distribution::Lognormal { mean: need("mean", names)?, std: need("std", names)? }
        }
        "beta" => {
            let names = "`alpha` and `beta`";
            let (alpha, beta) = (need("alpha", names)?, need("beta", names)?);
            Distribution::Beta { alpha, beta, min: get("min").unwrap_or(0.0), max: get("max").unwrap_or(1.0) }
        }
        "gamma" => {
            let names = "`shape` and `scale`";
            Distribution::Gamma { shape: need("shape", names)?, scale: need("scale", names)? }
        }
        "triangular" => {
            let names = "`min`, `mode` and `max`";
            Distribution::Triangular { min: need("min", names)?, mode: need("mode", names)?, max: need("max", names)? }
        }
        _ => {
            let message = format!("`{}` has no distribution that is known here: `{family}`", given.name);
            return Err(Wrong::Findings(vec![Finding::error("distribution", given.span, message)]));
        }
    })
}

/// A random parameter of the study that an expression depends on.
fn random_in(loaded: &Loaded, graph: &Graph, expr: daesy_graph::ExprId) -> Option<String> {
    let mut leaves = Vec::new();
    daesy_graph::Reach::new().leaves(graph, &[expr], &mut leaves);
    let is_in =
        |name: &&String| loaded.flat.find(name).is_some_and(|var| leaves.contains(&daesy_graph::Leaf::var(var)));
    loaded.study.as_ref()?.random_names().find(is_in).cloned()
}

/// The value of an expression in parameters.
fn known_number(flat: &FlatDae, graph: &Graph, expr: daesy_graph::ExprId) -> Result<f64, Box<Finding>> {
    if let Some(value) = graph.as_number(expr) {
        return Ok(value);
    }
    let values = parameter_values(flat)?;
    Ok(daesy_graph::Evaluator::new().evaluate_one(graph, expr, &|var: VarId, _: u16| values[var.index()]))
}

impl Request {
    /// Puts samples of parameters together in their places: rows from all over the file, each as often as the others
    /// but for one.
    pub fn set_joint(&self, points: &mut [Vec<f64>]) {
        let (n, n_rows) = (points.len(), self.joint_rows.len());
        let row_of = |at: usize| if n <= n_rows { at * n_rows / n } else { at % n_rows };
        for (at, point) in points.iter_mut().enumerate().take(if n_rows == 0 { 0 } else { n }) {
            let row = &self.joint_rows[row_of(at)];
            let first = point.len() - row.len();
            point[first..].copy_from_slice(row);
        }
    }

    /// Number of polynomials without making them, which may be too many to be made.
    #[must_use]
    pub fn n_terms(&self) -> f64 {
        let n = self.parameters.len();
        match self.basis {
            BasisKind::Hyperbolic => hyperbolic_terms(n, self.degree),
            BasisKind::Total | BasisKind::Adaptive => total_degree_terms(n, self.degree),
        }
    }

    /// The polynomials.
    ///
    /// # Errors
    /// When samples have too few values for the degree.
    pub fn make_basis(&self) -> Result<Basis, ChaosError> {
        let n = self.parameters.len();
        let indices = match self.basis {
            BasisKind::Hyperbolic => IndexSet::hyperbolic(n, self.degree),
            BasisKind::Total | BasisKind::Adaptive => IndexSet::total(n, self.degree),
        };
        Basis::new(self.parameters.clone(), indices)
    }
}
