//! The answer as a table, a JSON document, a text and a page with pictures.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::{Method, Uq};
use daesy_report::Page;
use daesy_report::chart::{Chart, Mark, Series as Curve, TIME};
use daesy_report::glossary::with_unit;
use daesy_report::table::Table;
use daesy_study::load::Loaded;

/// Variables shown in the text.
const MAX_SHOWN: usize = 40;

/// Variables with pictures.
const MAX_PICTURED: usize = 12;

/// A share for people.
fn share(value: f64) -> String {
    if value.is_finite() { format!("{value:.4}") } else { "-".to_owned() }
}

/// A number for people: six digits.
fn short(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    let size = rounded.abs();
    if size != 0.0 && !(1e-3..1e6).contains(&size) { format!("{rounded:e}") } else { format!("{rounded}") }
}

impl Uq {
    /// `t`, then mean, standard deviation and quantiles of every variable, then the Sobol indices of every variable.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table = Table { names: vec!["t".to_owned()], columns: vec![self.times.clone()] };
        let mut push = |name: String, column: Vec<f64>| {
            table.names.push(name);
            table.columns.push(column);
        };
        for (name, (moments, band)) in self.variables.iter().zip(self.moments.iter().zip(&self.bands)) {
            push(format!("{name}.mean"), moments.mean.clone());
            push(format!("{name}.std"), moments.std.clone());
            push(format!("{name}.q05"), band.low.clone());
            push(format!("{name}.q95"), band.high.clone());
        }
        for (name, by_parameter) in self.variables.iter().zip(self.sobol.iter().flatten()) {
            for (parameter, rows) in self.parameters.iter().zip(by_parameter) {
                push(format!("{name}.first.{parameter}"), rows.iter().map(|row| row.first).collect());
                push(format!("{name}.total.{parameter}"), rows.iter().map(|row| row.total).collect());
            }
        }
        table
    }

    /// The keys of the JSON document beside those that every document has.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let finite = |value: f64| if value.is_finite() { json!(value) } else { Value::Null };
        let mut keys = Map::new();
        keys.insert("method".into(), json!(self.method.word()));
        keys.insert("reason".into(), json!(self.reason));
        let terms = self.surrogate.as_ref().map(|surrogate| surrogate.basis.len());
        keys.insert("basis".into(), json!({ "degree": self.degree, "terms": terms }));
        let conditions: Vec<Value> = self
            .index
            .conditions
            .iter()
            .map(|condition| {
                json!({ "theorem": condition.theorem, "holds": condition.holds, "witness": condition.witness })
            })
            .collect();
        let inherited = self.index.original.zip(self.index.expanded).map(|(original, expanded)| original == expanded);
        keys.insert(
            "index".into(),
            json!({
                "original": self.index.original,
                "expanded": self.index.expanded,
                "inherited": inherited,
                "original_d": self.index.original_d,
                "expanded_d": self.index.expanded_d,
                "conditions": conditions,
            }),
        );
        keys.insert("initial_consistent".into(), json!(self.initial_consistent));
        keys.insert("start".into(), json!(self.start));
        keys.insert("simulations".into(), json!(self.n_simulations));
        keys.insert("unknowns".into(), json!(self.n_unknowns));
        let sobol = &self.sobol;
        let mut by_variable = Map::new();
        let mut finals = Map::new();
        for (at, name) in self.variables.iter().enumerate() {
            let last = |values: &[f64]| values.last().copied().map_or(Value::Null, finite);
            finals.insert(
                name.clone(),
                json!({
                    "mean": last(&self.moments[at].mean),
                    "std": last(&self.moments[at].std),
                    "q05": last(&self.bands[at].low),
                    "q95": last(&self.bands[at].high),
                }),
            );
            let Some(sobol) = sobol else { continue };
            let mut by_parameter = Map::new();
            for (parameter, rows) in self.parameters.iter().zip(&sobol[at]) {
                if let Some(last) = rows.last() {
                    by_parameter
                        .insert(parameter.clone(), json!({ "first": finite(last.first), "total": finite(last.total) }));
                }
            }
            by_variable.insert(name.clone(), Value::Object(by_parameter));
        }
        keys.insert("final".into(), Value::Object(finals));
        keys.insert("sobol".into(), Value::Object(by_variable));
        let error = self.error.as_ref().map(|error| {
            let by_name = |values: &[f64]| -> Map<String, Value> {
                self.variables.iter().zip(values).map(|(name, &value)| (name.clone(), finite(value))).collect()
            };
            let (relative, largest) = (by_name(&error.relative), by_name(&error.largest));
            json!({ "samples": error.n_samples, "relative": relative, "largest": largest, "unseen": error.unseen() })
        });
        keys.insert("error".into(), json!(error));
        keys
    }

    /// Number of parameters that have Sobol indices, the first ones.
    fn n_with_indices(&self) -> usize {
        self.sobol.as_ref().and_then(|sobol| sobol.first()).map_or(0, Vec::len)
    }

    /// A summary for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = self.head();
        let last = self.times.last().copied().unwrap_or(0.0);
        let _ = writeln!(text, "\nAt t = {last}:");
        let sobol = &self.sobol;
        let mut rows: Vec<Vec<String>> = Vec::new();
        let mut head = vec!["variable".to_owned(), "mean".into(), "std".into(), "q05".into(), "q95".into()];
        head.extend(self.parameters.iter().map(|parameter| format!("total {parameter}")));
        rows.push(head);
        let n_shown_parameters = self.n_with_indices().min(8);
        for (at, name) in self.variables.iter().enumerate().take(MAX_SHOWN) {
            let last = |values: &[f64]| values.last().copied().map_or_else(String::new, short);
            let mut row = vec![
                name.clone(),
                last(&self.moments[at].mean),
                last(&self.moments[at].std),
                last(&self.bands[at].low),
                last(&self.bands[at].high),
            ];
            if let Some(sobol) = sobol {
                let indices = sobol[at].iter().take(n_shown_parameters);
                row.extend(indices.map(|rows| rows.last().map_or_else(String::new, |last| share(last.total))));
            }
            rows.push(row);
        }
        rows[0].truncate(5 + if sobol.is_some() { n_shown_parameters } else { 0 });
        let widths: Vec<usize> = (0..rows[0].len())
            .map(|column| {
                rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in &rows {
            let mut line = String::from("  ");
            for (at, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                let _ = if at == 0 { write!(line, "{cell:<width$}") } else { write!(line, "  {cell:>width$}") };
            }
            let _ = writeln!(text, "{}", line.trim_end());
        }
        if self.variables.len() > MAX_SHOWN {
            let _ = writeln!(text, "  .. and {} more variables in the table.", self.variables.len() - MAX_SHOWN);
        }
        text
    }

    /// What was done.
    fn head(&self) -> String {
        let mut text = format!(
            "{} under {} random parameter{} ({}), method {}.\n",
            self.model,
            self.parameters.len(),
            if self.parameters.len() == 1 { "" } else { "s" },
            self.parameters.join(", "),
            self.method.word()
        );
        if let Some(surrogate) = &self.surrogate {
            let from_samples = match self.method {
                Method::MonteCarlo | Method::QuasiMonteCarlo => {
                    ", fitted to the samples: Sobol indices come from this series, moments and quantiles from the samples"
                }
                _ => "",
            };
            let (n_terms, degree) = (surrogate.basis.len(), self.degree);
            let _ = writeln!(text, "{n_terms} polynomials up to degree {degree}{from_samples}.");
        }
        match self.n_unknowns {
            Some(n) => {
                let index = |index: Option<usize>| index.map_or("unknown".to_owned(), |index| index.to_string());
                let _ = writeln!(
                    text,
                    "The expanded model has {n} unknowns and index {}; the model has index {}.",
                    index(self.index.expanded),
                    index(self.index.original)
                );
                for condition in &self.index.conditions {
                    let theorem = condition.theorem;
                    let _ = match (condition.holds, &condition.witness) {
                        (true, _) => writeln!(text, "The condition of theorem {theorem} holds."),
                        (false, Some(why)) => writeln!(text, "Theorem {theorem} does not promise it: {why}."),
                        (false, None) => writeln!(text, "The condition of theorem {theorem} is violated."),
                    };
                }
                let _ = writeln!(
                    text,
                    "{}",
                    match self.start {
                        "simple" => "It starts from (x_0, 0, .. 0), which is consistent.",
                        "ramp" => "It starts from (x_0, 0, .. 0), with a smooth transition to random parameters.",
                        _ => "It starts from consistent values at parameter values, projected.",
                    }
                );
            }
            None => {
                let _ = writeln!(text, "{} simulations of the model.", self.n_simulations);
            }
        }
        if let Some(error) = &self.error {
            let worst = error.relative.iter().copied().fold(0.0, f64::max);
            let _ = writeln!(
                text,
                "At {} held-out samples the series is off by at most {} standard deviations (root mean square); up to {:.1} \
                 % of all cases may be off by more than the worst of them (with a confidence of 95 %).",
                error.n_samples,
                short(worst),
                100.0 * error.unseen()
            );
        }
        text
    }

    /// The page with pictures: mean with band of what matters, Sobol indices, values at the end; closed at first are
    /// variances, coefficient functions and their decay.
    #[must_use]
    pub fn page(&self, loaded: &Loaded) -> Page {
        let mut page = Page::new(&format!("Random parameters of {}", self.model)).about(loaded);
        for line in self.head().lines() {
            page.paragraph(line);
        }
        for diagnostic in &self.diagnostics {
            page.remark(diagnostic.level.word(), &diagnostic.message);
        }
        let mut pictured: Vec<usize> = Vec::new();
        for at in page.glossary().that_matter(&self.variables) {
            if !pictured.iter().any(|&known| self.moments[known] == self.moments[at]) {
                pictured.push(at);
            }
        }
        // What has the same unit stands together, in the order in which units first appear.
        let unit = |at: usize| page.glossary().unit(&self.variables[at]).to_owned();
        let units: Vec<String> = pictured.iter().map(|&at| unit(at)).collect();
        pictured.sort_by_key(|&at| units.iter().position(|known| *known == unit(at)));
        let n_left = pictured.len().saturating_sub(MAX_PICTURED);
        pictured.truncate(MAX_PICTURED);
        if self.times.len() > 1 {
            self.add_bands(&mut page, &pictured);
            self.add_sobol(&mut page, &pictured);
            if n_left > 0 {
                page.paragraph(&format!(
                    "{n_left} more curves are in the table; `[report] signals` of the study chooses."
                ));
            }
        }
        self.add_final(&mut page);
        page.fold("Variances and polynomials", |page| {
            if self.times.len() > 1 {
                self.add_expected(page, &pictured);
                self.add_coefficients(page, &pictured);
            }
            self.add_decay(page, &pictured);
        });
        page
    }

    fn curve(&self, name: &str, y: &[f64], color: usize) -> Curve {
        Curve { name: name.to_owned(), x: self.times.clone(), y: y.to_vec(), mark: Mark::Line, color }
    }

    /// All expected values in one picture and all variances in another, as papers show them.
    fn add_expected(&self, page: &mut Page, pictured: &[usize]) {
        page.heading("Expected values and variances");
        let unit = |at: usize| page.glossary().unit(&self.variables[at]).to_owned();
        let groups: Vec<&[usize]> =
            pictured.chunk_by(|&a, &b| unit(a) == unit(b)).flat_map(|same| same.chunks(8)).collect();
        for chunk in groups {
            let unit = page.glossary().unit(&self.variables[chunk[0]]).to_owned();
            let names: Vec<&str> = chunk.iter().map(|&at| self.variables[at].as_str()).collect();
            let series = |value: &dyn Fn(usize) -> Vec<f64>| -> Vec<Curve> {
                chunk
                    .iter()
                    .enumerate()
                    .map(|(color, &at)| self.curve(&self.variables[at], &value(at), color))
                    .collect()
            };
            let chart = |y_label: &str, series: Vec<Curve>| Chart {
                x_label: TIME.to_owned(),
                y_label: y_label.to_owned(),
                series,
                ..Chart::default()
            };
            let mean = chart(&with_unit("expected value", &unit), series(&|at| self.moments[at].mean.clone()));
            page.figure(&mean, &format!("Expected values of {}.", names.join(", ")));
            let variance = chart("variance", series(&|at| self.moments[at].std.iter().map(|std| std * std).collect()));
            page.figure(&variance, &format!("Variances of {}.", names.join(", ")));
        }
    }

    fn add_bands(&self, page: &mut Page, pictured: &[usize]) {
        page.heading("Mean and band of 90 %");
        for &at in pictured {
            let name = &self.variables[at];
            let band = Curve {
                name: "5 % to 95 %".to_owned(),
                x: self.times.clone(),
                y: self.bands[at].low.clone(),
                mark: Mark::BandTo(self.bands[at].high.clone()),
                color: 0,
            };
            let series = vec![band, self.curve("mean", &self.moments[at].mean, 0)];
            let (y_label, words) = (page.glossary().label(name), page.glossary().words(name));
            let chart = Chart { title: name.clone(), x_label: TIME.to_owned(), y_label, series, ..Chart::default() };
            page.figure(&chart, &format!("{words}: mean, and the band that holds 90 % of all cases."));
        }
    }

    fn add_sobol(&self, page: &mut Page, pictured: &[usize]) {
        let Some(sobol) = &self.sobol else { return };
        if self.parameters.len() < 2 {
            return;
        }
        page.heading("What the variance is due to");
        for &at in pictured {
            if sobol[at].iter().flatten().all(|indices| indices.total.is_nan()) {
                continue;
            }
            let name = &self.variables[at];
            let series = self
                .parameters
                .iter()
                .zip(&sobol[at])
                .enumerate()
                .map(|(color, (parameter, rows))| {
                    let total: Vec<f64> = rows.iter().map(|row| row.total).collect();
                    self.curve(parameter, &total, color)
                })
                .collect();
            let chart = Chart {
                title: name.clone(),
                x_label: TIME.to_owned(),
                y_label: "total Sobol index".to_owned(),
                series,
                ..Chart::default()
            };
            page.figure(&chart, &format!("Share of the variance of {name} that each parameter has a part in."));
        }
    }

    /// Coefficient functions by degree, for few polynomials.
    fn add_coefficients(&self, page: &mut Page, pictured: &[usize]) {
        let Some(surrogate) = &self.surrogate else { return };
        let indices = surrogate.basis.indices.indices();
        if indices.len() > 7 {
            return;
        }
        page.heading("Coefficient functions");
        for (term, index) in indices.iter().enumerate().skip(1) {
            let degrees: Vec<String> = index
                .iter()
                .zip(&self.parameters)
                .filter(|(degree, _)| **degree > 0)
                .map(|(degree, name)| format!("degree {degree} in {name}"))
                .collect();
            for chunk in pictured.chunks(8) {
                let series = chunk
                    .iter()
                    .enumerate()
                    .map(|(color, &at)| {
                        self.curve(&self.variables[at], &surrogate.series[at].coefficients[term], color)
                    })
                    .collect();
                let chart = Chart { x_label: TIME.to_owned(), series, ..Chart::default() };
                page.figure(&chart, &format!("Coefficients of the polynomial of {}.", degrees.join(" and ")));
            }
        }
    }

    fn add_decay(&self, page: &mut Page, pictured: &[usize]) {
        let Some(surrogate) = &self.surrogate else { return };
        page.heading("Decay of the coefficients");
        let degrees: Vec<usize> =
            surrogate.basis.indices.indices().iter().map(|index| index.iter().map(|&k| usize::from(k)).sum()).collect();
        let highest = degrees.iter().copied().max().unwrap_or(0);
        let series: Vec<Curve> = pictured
            .iter()
            .enumerate()
            .filter_map(|(color, &at)| {
                let decay = surrogate.decay(&surrogate.series[at]);
                let most = |degree: usize| {
                    let of_degree = decay.iter().zip(&degrees).filter(|(_, d)| **d == degree).map(|(value, _)| *value);
                    of_degree.fold(0.0, f64::max)
                };
                let values: Vec<(f64, f64)> = (1..=highest)
                    .map(|degree| (degree as f64, most(degree)))
                    .filter(|(_, value)| *value > 0.0)
                    .map(|(degree, value)| (degree, value.log10()))
                    .collect();
                let (x, y): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
                (!x.is_empty()).then(|| Curve { name: self.variables[at].clone(), x, y, mark: Mark::Line, color })
            })
            .take(8)
            .collect();
        if series.is_empty() {
            return;
        }
        let chart = Chart {
            x_label: "degree".to_owned(),
            y_label: "log10 of the largest coefficient".to_owned(),
            series,
            ..Chart::default()
        };
        page.figure(&chart, "Largest coefficient of each degree over time, relative to the standard deviation. A line that falls steadily says that the degree is high enough.");
    }

    fn add_final(&self, page: &mut Page) {
        page.heading("At the end");
        let sobol = &self.sobol;
        let mut head = vec!["variable", "unit", "mean", "std", "q05", "q95"];
        let labels: Vec<String> = (self.parameters.iter().take(self.n_with_indices()))
            .flat_map(|name| [format!("first {name}"), format!("total {name}")])
            .collect();
        if sobol.is_some() {
            head.extend(labels.iter().map(String::as_str));
        }
        let rows: Vec<Vec<String>> = self
            .variables
            .iter()
            .enumerate()
            .take(200)
            .map(|(at, name)| {
                let last = |values: &[f64]| values.last().copied().map_or_else(String::new, short);
                let mut row = vec![
                    name.clone(),
                    page.glossary().unit(name).to_owned(),
                    last(&self.moments[at].mean),
                    last(&self.moments[at].std),
                    last(&self.bands[at].low),
                    last(&self.bands[at].high),
                ];
                if let Some(sobol) = sobol {
                    for rows in &sobol[at] {
                        let last = rows.last();
                        row.push(last.map_or_else(String::new, |last| share(last.first)));
                        row.push(last.map_or_else(String::new, |last| share(last.total)));
                    }
                }
                row
            })
            .collect();
        page.table(&head, &rows);
    }
}
