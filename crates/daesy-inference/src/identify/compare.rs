//! Several studies of the same data, side by side.
//!
//! Likelihoods, AIC and BIC can be compared if they are densities of the same measured values. That of a study with a
//! diffuse start is a density of fewer: the start takes as many as it has directions, and a density of n values in mm is
//! 1000^-n times that in m, so that the unit of the data would choose between densities of different n. Errors on records for
//! validation if the same signals of the same records are predicted.

use daesy_estimate::horizon::Horizon;
use daesy_graph::finding::Level;
use serde_json::{Map, Value, json};

use super::{Identification, Validated, number, validation};
use daesy_report::Page;
use daesy_report::words::{percent, short, text_table};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::load::Loaded;
use daesy_study::problem::Problem;

/// One of the studies.
#[derive(Clone, Debug)]
pub struct Compared {
    /// Its file.
    pub file: String,
    /// What it found.
    pub found: Identification,
}

/// Several studies of the same data.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// In the order of the command.
    pub studies: Vec<Compared>,
}

/// One record as it is counted: times, and values by column.
#[derive(PartialEq)]
struct Counted {
    file: String,
    times: Vec<f64>,
    columns: Vec<(String, Vec<f64>)>,
}

fn counted(loaded: &Loaded) -> Result<Vec<Counted>, Failure> {
    let problem = Problem::read(loaded)?;
    let m = problem.measured.len();
    let of = |record: &daesy_study::problem::Record| {
        let values = &record.measured[record.first_counted * m..];
        let mut columns: Vec<(String, Vec<f64>)> = (problem.measured.iter().enumerate())
            .map(|(at, signal)| (signal.column.clone(), values.iter().skip(at).step_by(m).copied().collect()))
            .collect();
        columns.sort_by(|a, b| a.0.cmp(&b.0));
        let times = record.data.times[record.first_counted..].to_vec();
        Counted { file: record.data.file.clone(), times, columns }
    };
    Ok(problem.records.iter().map(of).collect())
}

/// What differs between the records of two studies, if anything does.
fn difference(ours: &[Counted], theirs: &[Counted]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("one has {} experiments, the other {}", ours.len(), theirs.len()));
    }
    let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
    for (one, other) in ours.iter().zip(theirs) {
        let files = format!("`{}` and `{}`", one.file, other.file);
        let names = |record: &Counted| record.columns.iter().map(|column| column.0.clone()).collect::<Vec<_>>();
        if names(one) != names(other) {
            let (a, b) = (names(one).join(", "), names(other).join(", "));
            return Some(format!("one measures {a}, the other {b}"));
        }
        if one.times != other.times {
            let first = one.times.iter().zip(&other.times).find(|(a, b)| a != b);
            let at = first.map_or_else(String::new, |(a, b)| format!(": t = {a} and t = {b}"));
            return Some(format!("{files} have other samples that count{at}"));
        }
        for ((name, a), (_, b)) in one.columns.iter().zip(&other.columns) {
            if let Some(at) = a.iter().zip(b).position(|(a, b)| !same(*a, *b)) {
                let (time, a, b) = (one.times[at], a[at], b[at]);
                return Some(format!("`{name}` at t = {time} is {a} in `{}` and {b} in `{}`", one.file, other.file));
            }
        }
    }
    None
}

/// Refuses to compare likelihoods of different data.
///
/// # Errors
/// When a study cannot be read, or two have different data.
pub fn require_same_data(studies: &[(String, Loaded)]) -> Result<(), Failure> {
    let Some(((first, loaded), others)) = studies.split_first() else { return Ok(()) };
    let ours = counted(loaded)?;
    for (name, loaded) in others {
        if let Some(difference) = difference(&ours, &counted(loaded)?) {
            let message = format!(
                "likelihoods of `{first}` and `{name}` cannot be compared: they are those of different data; {difference}"
            );
            let help = "give both the same files, columns and `transient`; records that only one of them uses belong \
                        into `validation = [..]` of `[data]`";
            return Err(Failure::Input(vec![Diagnostic::error("different-data", message).with_help(help)]));
        }
    }
    Ok(())
}

/// A record, a signal and a horizon.
type Place<'a> = (&'a str, &'a str, Horizon);

fn place(one: &Validated) -> Place<'_> {
    (&one.file, &one.fit.name, one.horizon)
}

impl Comparison {
    /// All records, signals and horizons that were predicted by any of the studies.
    fn places(&self) -> Vec<Place<'_>> {
        let mut places: Vec<Place<'_>> = Vec::new();
        for one in self.studies.iter().flat_map(|study| &study.found.validation) {
            if !places.contains(&place(one)) {
                places.push(place(one));
            }
        }
        places
    }

    /// The share of the variation that a study does not predict, mean over what all studies predict.
    fn missed(&self, study: &Compared) -> Option<f64> {
        let of = |study: &Compared, at: &Place<'_>| {
            let found = study.found.validation.iter().find(|one| place(one) == *at);
            found.map(|one| 1.0 - one.fit_percent() / 100.0).filter(|share| share.is_finite())
        };
        let common = |at: &&Place<'_>| self.studies.iter().all(|study| of(study, at).is_some());
        let places = self.places();
        let shares: Vec<f64> = places.iter().filter(common).filter_map(|at| of(study, at)).collect();
        (!shares.is_empty()).then(|| shares.iter().sum::<f64>() / shares.len() as f64)
    }

    /// The study with the smallest figure, where all have one.
    fn best(&self, figure: impl Fn(&Compared) -> Option<f64>) -> Option<&str> {
        let figures: Option<Vec<f64>> =
            self.studies.iter().map(|study| figure(study).filter(|it| it.is_finite())).collect();
        let figures = figures?;
        let least = (0..figures.len()).min_by(|&a, &b| figures[a].total_cmp(&figures[b]))?;
        Some(&self.studies[least].file)
    }

    /// Two studies whose likelihoods are densities of different numbers of values, if there are.
    fn different_densities(&self) -> Option<[(&str, usize); 2]> {
        let mut counted =
            self.studies.iter().filter_map(|study| Some((study.file.as_str(), study.found.n_density_values?)));
        let first = counted.next()?;
        counted.find(|other| other.1 != first.1).map(|other| [first, other])
    }

    /// What is to be told about the comparison.
    #[must_use]
    pub fn diagnostics(&self) -> Vec<Diagnostic> {
        let told = self.different_densities().map(|[(first, n), (second, m)]| {
            let message = format!(
                "AIC and BIC of `{first}` and `{second}` cannot be compared: their likelihoods are densities of {n} and of \
                 {m} values, and the unit of the data decides which is larger"
            );
            let help = "a diffuse start takes as many values as it has directions: give all studies the same `mode` in \
                        `[initial]`, or compare errors on records that are not used (`validation` in `[data]`)";
            Diagnostic::new(Level::Warning, "different-densities", message).with_help(help)
        });
        told.into_iter().collect()
    }

    fn bests(&self) -> [(&'static str, Option<&str>); 3] {
        let with_density = |figure: Option<f64>| figure.filter(|_| self.different_densities().is_none());
        [
            ("aic", self.best(|study| with_density(study.found.aic))),
            ("bic", self.best(|study| with_density(study.found.bic))),
            ("validation", self.best(|study| self.missed(study))),
        ]
    }

    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let study = |study: &Compared| {
            let mut keys = Map::new();
            keys.insert("file".into(), json!(study.file));
            keys.insert("model".into(), json!(study.found.model));
            keys.insert("n_unknown".into(), json!(study.found.parameters.len()));
            let mut all = study.found.to_json();
            for key in [
                "method",
                "method_reason",
                "converged",
                "n_samples",
                "n_density_values",
                "cost",
                "log_likelihood",
                "aic",
                "bic",
            ] {
                keys.insert(key.into(), all.remove(key).unwrap_or_default());
            }
            for key in ["validation", "parameters"] {
                keys.insert(key.into(), all.remove(key).unwrap_or_default());
            }
            keys.insert("unpredicted".into(), self.missed(study).map_or(Value::Null, number));
            Value::Object(keys)
        };
        let best: Map<String, Value> = self.bests().into_iter().map(|(key, file)| (key.into(), json!(file))).collect();
        let mut keys = Map::new();
        keys.insert("studies".into(), self.studies.iter().map(study).collect());
        keys.insert("best".into(), Value::Object(best));
        keys
    }

    fn head() -> [&'static str; 8] {
        ["study", "model", "method", "unknowns", "log-likelihood", "AIC", "BIC", "not predicted"]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| short(value, 7));
        let row = |study: &Compared| {
            let found = &study.found;
            vec![
                study.file.clone(),
                found.model.clone(),
                found.method.word().to_owned(),
                found.parameters.len().to_string(),
                figure(found.log_likelihood),
                figure(found.aic),
                figure(found.bic),
                self.missed(study).map_or_else(|| "-".to_owned(), |share| percent(100.0 * share)),
            ]
        };
        self.studies.iter().map(row).collect()
    }

    fn validation_rows(&self) -> Vec<Vec<String>> {
        let places = self.places();
        let row = |at: &Place<'_>| {
            let any = self.studies.iter().flat_map(|study| &study.found.validation).find(|one| place(one) == *at);
            let words = any.map_or_else(String::new, Validated::horizon_words);
            let error = |study: &Compared| {
                let found = study.found.validation.iter().find(|one| place(one) == *at);
                found.map_or_else(|| "-".to_owned(), |one| short(one.rmse(), 4))
            };
            [at.0.to_owned(), at.1.to_owned(), words].into_iter().chain(self.studies.iter().map(error)).collect()
        };
        places.iter().map(row).collect()
    }

    fn validation_head(&self) -> Vec<&str> {
        validation::HEAD[..3].iter().copied().chain(self.studies.iter().map(|study| study.file.as_str())).collect()
    }

    fn verdict(&self) -> String {
        let words = [("aic", "AIC"), ("bic", "BIC"), ("validation", "the error on other records")];
        let bests = self.bests();
        let named = words.iter().filter_map(|(key, words)| {
            let (_, file) = bests.iter().find(|(known, _)| known == key)?;
            file.map(|file| format!("{words}: {file}"))
        });
        let named: Vec<String> = named.collect();
        if named.is_empty() {
            return "Not all of these studies have a figure to compare by.".to_owned();
        }
        format!("Smallest by {}.", named.join("; by "))
    }

    /// A summary for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut rows: Vec<Vec<String>> = vec![Self::head().map(str::to_owned).to_vec()];
        rows.extend(self.rows());
        let mut text = text_table(&rows);
        let of_records = self.validation_rows();
        if !of_records.is_empty() {
            let mut rows: Vec<Vec<String>> = vec![self.validation_head().iter().map(|&it| it.to_owned()).collect()];
            rows.extend(of_records);
            text.push_str(&format!("\nRms errors on records that were not used:\n{}", text_table(&rows)));
        }
        text.push_str(&format!("\n{}\n", self.verdict()));
        text
    }

    /// The result as a page: the comparison, then each study.
    #[must_use]
    pub fn page(&self) -> Page {
        let mut page = Page::new(&format!("{} studies of the same data", self.studies.len()));
        page.table(&Self::head(), &self.rows());
        let of_records = self.validation_rows();
        if !of_records.is_empty() {
            page.paragraph("Rms errors on records that were not used:");
            page.table(&self.validation_head(), &of_records);
        }
        page.paragraph(&self.verdict());
        for study in &self.studies {
            page.heading(&study.file);
            study.found.add_to(&mut page);
        }
        page
    }
}
