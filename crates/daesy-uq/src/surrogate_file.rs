//! The series in a file: written once, evaluated for any parameter values without the model.

use daesy_chaos::{Basis, Distribution, IndexSet, RandomParameter, Series, Surrogate};
use daesy_graph::finding::nearest;
use serde_json::{Map, Value, json};

use daesy_report::table::Table;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::study::JointRandom;

use crate::joint::germ_name;

/// A series with the name of its model.
#[derive(Clone, Debug)]
pub struct SurrogateFile {
    /// Full name of the model.
    pub model: String,
    /// The series.
    pub surrogate: Surrogate,
    /// Correlated parameters, which the series has germs in the place of.
    pub joint: Option<JointMap>,
}

/// Correlated normal parameters p = mean + factor g of independent standard normal germs g.
#[derive(Clone, PartialEq, Debug)]
pub struct JointMap {
    /// The parameters.
    pub names: Vec<String>,
    /// Their means.
    pub mean: Vec<f64>,
    /// The lower triangular factor of their covariance.
    pub factor: Vec<Vec<f64>>,
}

/// A value of a parameter that no germs give is off by no more than this, in its standard deviation.
const REACHED: f64 = 1e-9;

impl JointMap {
    /// The map of correlated parameters; samples of them have none.
    #[must_use]
    pub fn new(joint: &JointRandom) -> Option<Self> {
        let names = joint.names.iter().map(|name| name.name.clone()).collect();
        joint.samples.is_none().then(|| Self { names, mean: joint.mean.clone(), factor: joint.factor.clone() })
    }

    /// The germs of given values by forward substitution, those of parameters without a spread of their own being zero.
    ///
    /// # Errors
    /// The parameter whose value follows from those before it, with the value that follows.
    fn germs(&self, values: &[f64]) -> Result<Vec<f64>, (usize, f64)> {
        let mut germs: Vec<f64> = Vec::with_capacity(values.len());
        for (row, (&value, &mean)) in values.iter().zip(&self.mean).enumerate() {
            let weights = &self.factor[row];
            let follows = mean + weights.iter().zip(&germs).map(|(weight, germ)| weight * germ).sum::<f64>();
            let spread = weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
            let own = weights[row];
            if own.abs() > REACHED * spread {
                germs.push((value - follows) / own);
            } else if (value - follows).abs() <= REACHED * spread.max(mean.abs()) {
                germs.push(0.0);
            } else {
                return Err((row, follows));
            }
        }
        Ok(germs)
    }
}

/// A series evaluated.
#[derive(Clone, Debug)]
pub struct Evaluated {
    /// Values of the random parameters.
    pub parameters: Vec<(String, f64)>,
    /// Values of all variables over time.
    pub table: Table,
    /// What is to be told.
    pub diagnostics: Vec<Diagnostic>,
}

const KIND: &str = "daesy-surrogate";

/// A number by its shortest text that reads back to the same double, or a word for infinities.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(format!("{value:e}")) } else { json!(if value > 0.0 { "inf" } else { "-inf" }) }
}

fn numbers(values: &[f64]) -> Value {
    Value::Array(values.iter().map(|&value| number(value)).collect())
}

fn distribution_json(distribution: &Distribution) -> Value {
    let object = |family: &str, values: &[(&str, f64)]| {
        let mut inner = Map::new();
        for (name, value) in values {
            inner.insert((*name).to_owned(), number(*value));
        }
        json!({ "family": family, "numbers": inner })
    };
    match distribution {
        Distribution::Uniform { min, max } => object("uniform", &[("min", *min), ("max", *max)]),
        Distribution::Normal { mean, std } => object("normal", &[("mean", *mean), ("std", *std)]),
        Distribution::TruncatedNormal { mean, std, min, max } => {
            object("truncated", &[("mean", *mean), ("std", *std), ("min", *min), ("max", *max)])
        }
        Distribution::Lognormal { mean, std } => object("lognormal", &[("mean", *mean), ("std", *std)]),
        Distribution::Beta { alpha, beta, min, max } => {
            object("beta", &[("alpha", *alpha), ("beta", *beta), ("min", *min), ("max", *max)])
        }
        Distribution::Gamma { shape, scale } => object("gamma", &[("shape", *shape), ("scale", *scale)]),
        Distribution::Triangular { min, mode, max } => {
            object("triangular", &[("min", *min), ("mode", *mode), ("max", *max)])
        }
        Distribution::Samples(values) => json!({ "family": "samples", "values": numbers(values) }),
    }
}

fn read_number(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_f64(),
        _ => None,
    }
}

fn read_numbers(value: &Value) -> Option<Vec<f64>> {
    value.as_array()?.iter().map(read_number).collect()
}

fn read_distribution(value: &Value) -> Option<Distribution> {
    let get = |name: &str| read_number(value.get("numbers")?.get(name)?);
    Some(match value.get("family")?.as_str()? {
        "uniform" => Distribution::Uniform { min: get("min")?, max: get("max")? },
        "normal" => Distribution::Normal { mean: get("mean")?, std: get("std")? },
        "truncated" => {
            Distribution::TruncatedNormal { mean: get("mean")?, std: get("std")?, min: get("min")?, max: get("max")? }
        }
        "lognormal" => Distribution::Lognormal { mean: get("mean")?, std: get("std")? },
        "beta" => Distribution::Beta { alpha: get("alpha")?, beta: get("beta")?, min: get("min")?, max: get("max")? },
        "gamma" => Distribution::Gamma { shape: get("shape")?, scale: get("scale")? },
        "triangular" => Distribution::Triangular { min: get("min")?, mode: get("mode")?, max: get("max")? },
        "samples" => Distribution::from_samples(read_numbers(value.get("values")?)?),
        _ => return None,
    })
}

impl SurrogateFile {
    /// The text of the file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let surrogate = &self.surrogate;
        let parameters: Vec<Value> = surrogate
            .basis
            .parameters
            .iter()
            .map(|parameter| {
                json!({ "name": parameter.name, "distribution": distribution_json(&parameter.distribution) })
            })
            .collect();
        let series: Vec<Value> = surrogate
            .series
            .iter()
            .map(|series| {
                let coefficients: Vec<Value> = series.coefficients.iter().map(|values| numbers(values)).collect();
                json!({ "name": series.name, "coefficients": coefficients })
            })
            .collect();
        let mut document = json!({
            "kind": KIND,
            "version": 1,
            "model": self.model,
            "parameters": parameters,
            "indices": surrogate.basis.indices.indices(),
            "times": numbers(&surrogate.times),
            "series": series,
        });
        if let Some(joint) = &self.joint {
            let factor: Vec<Value> = joint.factor.iter().map(|row| numbers(row)).collect();
            document["joint"] = json!({ "names": joint.names, "mean": numbers(&joint.mean), "factor": factor });
        }
        format!("{document}\n")
    }

    /// Values of the correlated parameters as values of their germs, and what is wrong with them.
    fn joint_germs(&self, set: &[(String, f64)]) -> Result<Vec<(String, f64)>, Box<Diagnostic>> {
        let Some(joint) = &self.joint else { return Ok(set.to_vec()) };
        let place = |name: &str| joint.names.iter().position(|own| own == name);
        let (named, mut others): (Vec<_>, Vec<_>) = set.iter().cloned().partition(|(name, _)| place(name).is_some());
        if named.is_empty() {
            return Ok(others);
        }
        let is_germ = |name: &String| (0..joint.names.len()).any(|at| *name == germ_name(at));
        if let Some((germ, _)) = others.iter().find(|(name, _)| is_germ(name)) {
            let message = format!(
                "--set: `{germ}` is what {} are made of, and has no value beside theirs",
                joint.names.join(", ")
            );
            return Err(Box::new(Diagnostic::error("set", message).with_help("give one or the other")));
        }
        let mut values = joint.mean.clone();
        for (name, value) in &named {
            if let Some(at) = place(name) {
                values[at] = *value;
            }
        }
        match joint.germs(&values) {
            Ok(germs) => {
                others.extend(germs.into_iter().enumerate().map(|(at, germ)| (germ_name(at), germ)));
                Ok(others)
            }
            Err((at, follows)) => {
                let message = format!(
                    "--set: {} = {} cannot be: it follows from the other correlated parameters and is {follows}",
                    joint.names[at], values[at]
                );
                let help = "give values that the covariance allows; those that are not given are at their means";
                Err(Box::new(Diagnostic::error("surrogate-support", message).with_help(help)))
            }
        }
    }

    /// Names that values can be given of.
    fn names(&self) -> Vec<&str> {
        let parameters = self.surrogate.basis.parameters.iter().map(|parameter| parameter.name.as_str());
        match &self.joint {
            Some(joint) => {
                let independent = parameters.take(self.surrogate.basis.parameters.len() - joint.names.len());
                independent.chain(joint.names.iter().map(String::as_str)).collect()
            }
            None => parameters.collect(),
        }
    }

    /// Values of all variables at parameter values; parameters that are not given are at their means.
    ///
    /// # Errors
    /// Diagnostics for names that are no random parameters and values outside their supports.
    pub fn evaluate(&self, set: &[(String, f64)]) -> Result<Evaluated, Vec<Diagnostic>> {
        let basis = &self.surrogate.basis;
        let mut diagnostics = Vec::new();
        let mut values = match basis.means() {
            Ok(means) => means,
            Err(error) => return Err(vec![Diagnostic::error("surrogate", error.to_string())]),
        };
        let set = self.joint_germs(set).map_err(|diagnostic| vec![*diagnostic])?;
        for (name, value) in &set {
            match basis.parameters.iter().position(|parameter| parameter.name == *name) {
                Some(at) => {
                    let (low, high) = basis.parameters[at].distribution.support();
                    if *value < low || *value > high {
                        let message = format!(
                            "--set: {name} = {value} is outside the support [{low}, {high}] of the distribution"
                        );
                        diagnostics.push(Diagnostic::error("surrogate-support", message).with_help(
                            "the polynomials say nothing there; make a new surrogate with a wider distribution",
                        ));
                    }
                    values[at] = *value;
                }
                None => {
                    let names = self.names();
                    let mut diagnostic =
                        Diagnostic::error("set", format!("--set: the surrogate has no random parameter `{name}`"));
                    diagnostic.names = vec![name.clone()];
                    diagnostic.help = Some(match nearest(name, names.iter().copied()) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("it has: {}", names.join(", ")),
                    });
                    diagnostics.push(diagnostic);
                }
            }
        }
        if !diagnostics.is_empty() {
            return Err(diagnostics);
        }
        let germ = basis.germ_values(&values);
        let mut table = Table { names: vec!["t".to_owned()], columns: vec![self.surrogate.times.clone()] };
        for series in &self.surrogate.series {
            table.names.push(series.name.clone());
            table.columns.push(self.surrogate.evaluate(series, &germ));
        }
        let n_own = basis.parameters.len() - self.joint.as_ref().map_or(0, |joint| joint.names.len());
        let names = basis.parameters.iter().map(|parameter| parameter.name.clone());
        let mut parameters: Vec<(String, f64)> = names.zip(values.iter().copied()).take(n_own).collect();
        if let Some(joint) = &self.joint {
            let value = |(mean, weights): (&f64, &Vec<f64>)| {
                mean + weights.iter().zip(&values[n_own..]).map(|(weight, germ)| weight * germ).sum::<f64>()
            };
            parameters.extend(joint.names.iter().cloned().zip(joint.mean.iter().zip(&joint.factor).map(value)));
        }
        Ok(Evaluated { parameters, table, diagnostics })
    }
}

/// The map of correlated parameters whose germs are the last parameters of a basis.
fn read_joint(value: &Value, basis: &Basis) -> Option<JointMap> {
    let names: Vec<String> =
        value.get("names")?.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?;
    let mean = read_numbers(value.get("mean")?)?;
    let factor = value.get("factor")?.as_array()?.iter().map(read_numbers).collect::<Option<Vec<_>>>()?;
    let n = names.len();
    let n_own = basis.parameters.len().checked_sub(n)?;
    let are_germs = basis.parameters[n_own..].iter().enumerate().all(|(at, germ)| germ.name == germ_name(at));
    let is_whole = mean.len() == n && factor.len() == n && factor.iter().all(|row| row.len() == n);
    let is_finite = mean.iter().chain(factor.iter().flatten()).all(|value| value.is_finite());
    (are_germs && is_whole && is_finite).then_some(JointMap { names, mean, factor })
}

/// Reads a file that [`SurrogateFile::to_text`] made.
///
/// # Errors
/// When it is no such file.
pub fn read_surrogate(text: &str, shown: &str) -> Result<SurrogateFile, Vec<Diagnostic>> {
    let wrong = |message: &str| {
        let message = format!("`{shown}` is no surrogate of daesy: {message}");
        vec![
            Diagnostic::about_file("surrogate", shown, message)
                .with_help("`daesy uq STUDY --surrogate FILE` makes one"),
        ]
    };
    let document: Value = serde_json::from_str(text).map_err(|error| wrong(&error.to_string()))?;
    if document.get("kind").and_then(Value::as_str) != Some(KIND) {
        return Err(wrong("it is another kind of document"));
    }
    let read = || -> Option<SurrogateFile> {
        let parameters = document
            .get("parameters")?
            .as_array()?
            .iter()
            .map(|parameter| {
                Some(RandomParameter {
                    name: parameter.get("name")?.as_str()?.to_owned(),
                    distribution: read_distribution(parameter.get("distribution")?)?,
                })
            })
            .collect::<Option<Vec<_>>>()?;
        let indices = document
            .get("indices")?
            .as_array()?
            .iter()
            .map(|index| {
                let degrees: Option<Vec<u16>> =
                    index.as_array()?.iter().map(|k| u16::try_from(k.as_u64()?).ok()).collect();
                degrees.filter(|degrees| degrees.len() == parameters.len())
            })
            .collect::<Option<Vec<_>>>()?;
        let n_terms = indices.len();
        let set = IndexSet::from_indices(indices);
        let times = read_numbers(document.get("times")?)?;
        let series = document
            .get("series")?
            .as_array()?
            .iter()
            .map(|series| {
                let coefficients =
                    series.get("coefficients")?.as_array()?.iter().map(read_numbers).collect::<Option<Vec<_>>>()?;
                let fits = coefficients.len() == n_terms && coefficients.iter().all(|rows| rows.len() == times.len());
                let name = series.get("name")?.as_str()?.to_owned();
                fits.then_some(Series { name, coefficients })
            })
            .collect::<Option<Vec<_>>>()?;
        let is_sound = set.len() == n_terms && parameters.iter().all(|p| p.distribution.check().is_ok());
        let basis = Basis::new(parameters, set).ok().filter(|_| is_sound && n_terms > 0)?;
        let model = document.get("model")?.as_str()?.to_owned();
        let joint = match document.get("joint") {
            Some(joint) => Some(read_joint(joint, &basis)?),
            None => None,
        };
        Some(SurrogateFile { model, surrogate: Surrogate { basis, times, series }, joint })
    };
    read().ok_or_else(|| wrong("something is missing or damaged"))
}
