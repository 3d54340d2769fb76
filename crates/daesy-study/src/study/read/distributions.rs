//! Reads the distributions of random parameters.

use daesy_graph::finding::Finding;
use toml::Spanned;
use toml::de::DeValue;

use super::super::section::Reader;
use super::super::{JointRandom, JointSamples, Named, RandomParameter, SampleSource};

/// The families of distributions with the names of their numbers.
const FAMILIES: [(&str, &[&str]); 8] = [
    ("uniform", &["mean", "relative", "min", "max"]),
    ("normal", &["mean", "std", "min", "max"]),
    ("truncated", &["mean", "std", "min", "max"]),
    ("lognormal", &["mean", "std"]),
    ("beta", &["alpha", "beta", "min", "max"]),
    ("gamma", &["shape", "scale"]),
    ("triangular", &["min", "mode", "max"]),
    ("samples", &["file", "column"]),
];

pub(super) fn read_random(reader: &mut Reader, name: &str, value: &Spanned<DeValue<'_>>) -> Option<RandomParameter> {
    let mut section = reader.table(name, value, "a table such as { uniform = { min = 0, max = 1 } }")?;
    let span = section.span;
    let given: Vec<_> =
        FAMILIES.iter().filter_map(|&(family, keys)| section.take(family).map(|value| (family, keys, value))).collect();
    section.finish(reader);
    let [(family, keys, value)] = given[..] else {
        reader.findings.push(
            Finding::error("distribution", span, format!("`{name}` must have exactly one distribution"))
                .with_names([name])
                .with_help(
                    "write such as `{ normal = { mean = 2.0, std = 0.3 } }`; the others are uniform, lognormal, beta, \
                     gamma, triangular, truncated and samples",
                ),
        );
        return None;
    };
    let mut table = reader.table(family, value, "a table of the distribution's numbers")?;
    if family == "samples" {
        let span = table.span;
        let file = table.take("file").and_then(|value| reader.text("file", value));
        let column = table.take("column").and_then(|value| reader.text("column", value));
        table.finish(reader);
        let (Some(file), Some(column)) = (file, column) else {
            reader.findings.push(Finding::error("distribution", span, "`samples` needs a `file` and a `column`"));
            return None;
        };
        let samples = Some(SampleSource { file, column });
        return Some(RandomParameter { family: family.to_owned(), arguments: Vec::new(), samples });
    }
    let mut arguments = Vec::new();
    for &key in keys {
        if let Some(value) = table.take(key) {
            let span = reader.span(value);
            if let Some(quantity) = reader.quantity(key, value) {
                arguments.push(Named { name: key.to_owned(), span, item: quantity });
            }
        }
    }
    table.finish(reader);
    Some(RandomParameter { family: family.to_owned(), arguments, samples: None })
}

/// `[random.joint]`: `names`, `mean` and `covariance` of correlated normal parameters, or `names` and `samples`.
pub(super) fn read_joint(reader: &mut Reader, value: &Spanned<DeValue<'_>>) -> Option<JointRandom> {
    let mut section = reader.table("joint", value, "a table with `names`, `mean` and `covariance`, or `samples`")?;
    let span = section.span;
    let (names, mean, covariance) = (section.take("names"), section.take("mean"), section.take("covariance"));
    let samples = section.take("samples");
    section.finish(reader);
    let refuse = |reader: &mut Reader, message: &str| {
        let finding = Finding::error("joint", span, message).with_help(
            "`[random.joint]` has names = [\"a\", \"b\"], mean = [1.0, 2.0], covariance = [[0.1, 0.0], [0.0, 0.2]]; or \
             names and samples = \"draws.csv\"",
        );
        reader.findings.push(finding);
    };
    if let (Some(names), Some(samples)) = (names, samples) {
        if mean.is_some() || covariance.is_some() {
            refuse(reader, "`samples` have a mean and a covariance of their own");
            return None;
        }
        let file = reader.text("samples", samples)?;
        let names = read_joint_names(reader, names)?;
        let samples = Some(JointSamples { file, rows: Vec::new() });
        return Some(JointRandom {
            names,
            mean: Vec::new(),
            covariance: Vec::new(),
            factor: Vec::new(),
            samples,
            span,
        });
    }
    let (Some(names), Some(mean), Some(covariance)) = (names, mean, covariance) else {
        refuse(reader, "correlated parameters need `names`, `mean` and `covariance`, or `names` and `samples`");
        return None;
    };
    let named = read_joint_names(reader, names)?;
    let mean = read_numbers(reader, "mean", mean)?;
    let mut rows = Vec::new();
    for row in reader.list("covariance", covariance, "a list of rows")? {
        rows.push(read_numbers(reader, "covariance", row)?);
    }
    let n = named.len();
    if n == 0 || mean.len() != n || rows.len() != n || rows.iter().any(|row| row.len() != n) {
        refuse(reader, "`names`, `mean` and the rows and columns of `covariance` must be of the same number");
        return None;
    }
    let is_symmetric =
        |i: usize, j: usize| (rows[i][j] - rows[j][i]).abs() <= 1e-9 * (rows[i][i].abs() * rows[j][j].abs()).sqrt();
    if !(0..n).all(|i| (0..i).all(|j| is_symmetric(i, j))) {
        refuse(reader, "the covariance is not symmetric");
        return None;
    }
    let Some(factor) = semidefinite_factor(&rows) else {
        refuse(reader, "the covariance is not one: it has a negative eigenvalue");
        return None;
    };
    Some(JointRandom { names: named, mean, covariance: rows, factor, samples: None, span })
}

fn read_joint_names(reader: &mut Reader, names: &Spanned<DeValue<'_>>) -> Option<Vec<Named<()>>> {
    let mut named = Vec::new();
    for item in reader.list("names", names, "a list of parameter names")? {
        let span = reader.span(item);
        named.push(Named { name: reader.text("names", item)?, span, item: () });
    }
    Some(named)
}

fn read_numbers(reader: &mut Reader, key: &'static str, value: &Spanned<DeValue<'_>>) -> Option<Vec<f64>> {
    let items = reader.list(key, value, "a list of numbers")?;
    items.into_iter().map(|item| reader.number(key, item)).collect()
}

/// Pivots below this fraction of a variance are zero.
const NO_VARIANCE: f64 = 1e-12;

/// Cholesky's factor of a semidefinite matrix, in units of its diagonal: `A = L L'`, with zero columns where nothing is
/// left. `None` if a pivot is negative beyond rounding, or something is left beside a zero one.
pub(in crate::study) fn semidefinite_factor(a: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let n = a.len();
    let mut l = vec![vec![0.0f64; n]; n];
    for j in 0..n {
        let pivot = a[j][j] - l[j][..j].iter().map(|x| x * x).sum::<f64>();
        if a[j][j] < 0.0 || pivot < -1e-9 * a[j][j] {
            return None;
        }
        let is_zero = pivot <= NO_VARIANCE * a[j][j];
        l[j][j] = if is_zero { 0.0 } else { pivot.sqrt() };
        for i in j + 1..n {
            let left = a[i][j] - (0..j).map(|k| l[i][k] * l[j][k]).sum::<f64>();
            if !is_zero {
                l[i][j] = left / l[j][j];
            } else if left.abs() > 1e-5 * (a[i][i] * a[j][j]).sqrt() {
                return None;
            }
        }
    }
    Some(l)
}

/// A parameter has one distribution.
pub(super) fn refuse_twice_random(reader: &mut Reader, random: &[Named<RandomParameter>], joint: Option<&JointRandom>) {
    let joined = joint.map(|joint| joint.names.as_slice()).unwrap_or_default();
    for (at, name) in joined.iter().enumerate() {
        let is_twice =
            random.iter().any(|own| own.name == name.name) || joined[..at].iter().any(|other| other.name == name.name);
        if is_twice {
            let message = format!("`{}` has two distributions", name.name);
            reader.findings.push(Finding::error("joint", name.span, message).with_names([&name.name]));
        }
    }
}
