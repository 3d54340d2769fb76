//! The series in a file: written once, evaluated for any parameter values without the model.

use daesy_chaos::{Basis, Distribution, IndexSet, RandomParameter, Series, Surrogate};
use daesy_graph::finding::nearest;
use serde_json::{Map, Value, json};

use daesy_report::table::Table;
use daesy_study::diagnostic::Diagnostic;

/// A series with the name of its model.
#[derive(Clone, Debug)]
pub struct SurrogateFile {
    /// Full name of the model.
    pub model: String,
    /// The series.
    pub surrogate: Surrogate,
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
        let document = json!({
            "kind": KIND,
            "version": 1,
            "model": self.model,
            "parameters": parameters,
            "indices": surrogate.basis.indices.indices(),
            "times": numbers(&surrogate.times),
            "series": series,
        });
        format!("{document}\n")
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
        for (name, value) in set {
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
                    let names = basis.parameters.iter().map(|parameter| parameter.name.as_str());
                    let mut diagnostic =
                        Diagnostic::error("set", format!("--set: the surrogate has no random parameter `{name}`"));
                    diagnostic.names = vec![name.clone()];
                    let all: Vec<&str> = names.clone().collect();
                    diagnostic.help = Some(match nearest(name, names) {
                        Some(near) => format!("did you mean `{near}`?"),
                        None => format!("it has: {}", all.join(", ")),
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
        let parameters = basis.parameters.iter().map(|parameter| parameter.name.clone()).zip(values).collect();
        Ok(Evaluated { parameters, table, diagnostics })
    }
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
        Some(SurrogateFile { model, surrogate: Surrogate { basis, times, series } })
    };
    read().ok_or_else(|| wrong("something is missing or damaged"))
}
