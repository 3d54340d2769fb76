//! Identified parameters as text and as a page.

use super::{ASKED, Fit, Identification, LINEAR, Method, ParameterEstimate, ResidualSummary, validation};
use daesy_report::Page;
use daesy_report::chart::{Chart, HeatMap, Mark, Series, TIME};
use daesy_report::glossary::{Glossary, with_unit};
use daesy_report::words::{all_unknowns, counted, short, text_table, with_error};

/// A factor in words.
pub(super) fn factor_words(factor: f64) -> String {
    if factor == 0.0 {
        "zero, which is smaller than".to_owned()
    } else if factor > 1.0 {
        format!("{} times as large as", short(factor, 3))
    } else {
        format!("{} times smaller than", short(1.0 / factor, 3))
    }
}

/// How much of a signal's variation is predicted; nothing where it has none.
fn percent_words(percent: f64) -> Option<String> {
    if !percent.is_finite() {
        return None;
    }
    Some(if percent < 0.0 {
        format!("predicted worse than by its mean ({percent:.1} %)")
    } else {
        format!("{percent:.1} % of its variation is predicted")
    })
}

impl Identification {
    fn parameter_rows(&self) -> Vec<Vec<String>> {
        let with_profile = self.parameters.iter().any(|parameter| parameter.profile95.is_some());
        self.parameters
            .iter()
            .map(|parameter| {
                let interval = |ends: [f64; 2]| {
                    if ends.iter().all(|end| !end.is_finite()) {
                        "-".to_owned()
                    } else {
                        format!("[{}, {}]", short(ends[0], 5), short(ends[1], 5))
                    }
                };
                let mut row = vec![
                    parameter.name.clone(),
                    short(parameter.estimate, 6),
                    short(parameter.std_error, 3),
                    interval(parameter.ci95),
                ];
                if with_profile {
                    row.push(parameter.profile95.map_or_else(|| "-".to_owned(), interval));
                }
                row.push(short(parameter.start, 6));
                row.push(if parameter.at_bound.is_some() { "at its bound" } else { "" }.to_owned());
                row
            })
            .collect()
    }

    fn head(&self) -> Vec<&'static str> {
        let mut head = vec!["parameter", "estimate", "std. error", "95 % interval"];
        if self.parameters.iter().any(|parameter| parameter.profile95.is_some()) {
            head.push("profile interval");
        }
        head.extend(["start", ""]);
        head
    }

    fn summary(&self) -> Vec<String> {
        let how = match self.method {
            Method::MaximumLikelihood => "maximum likelihood",
            Method::PredictionError => "prediction errors",
            Method::OutputError => "least squares of output errors",
        };
        let state = if self.converged { "converged" } else { "did not converge" };
        let mut lines = vec![if self.parameters.is_empty() {
            format!("Applied {} to {}: nothing was unknown.", self.model, counted(self.n_samples, "value"))
        } else {
            let (values, steps) = (counted(self.n_samples, "value"), counted(self.iterations, "step"));
            format!("Identified {} by {how} from {values}: {state} after {steps}.", self.model)
        }];
        if self.method_reason != ASKED && self.method_reason != LINEAR {
            lines.push(format!("This method because {}.", self.method_reason));
        }
        let mut figures = Vec::new();
        if let Some(value) = self.log_likelihood {
            figures.push(format!("log-likelihood {}", short(value, 8)));
        }
        if self.method != Method::MaximumLikelihood {
            figures.push(format!("cost {}", short(self.cost, 6)));
        }
        if let (Some(aic), Some(bic)) = (self.aic, self.bic) {
            figures.push(format!("AIC {}, BIC {}", short(aic, 8), short(bic, 8)));
        }
        let mut line = figures.join(", ");
        if let Some(first) = line.get_mut(0..1) {
            first.make_ascii_uppercase();
        }
        lines.push(format!("{line}."));
        if let Some(approximation) = &self.approximation {
            lines.push(format!("The likelihood is that of an approximation ({approximation})."));
        }
        lines
    }

    fn judgement(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let id = &self.identifiability;
        let at_bound: Vec<String> = (self.parameters.iter().filter(|parameter| parameter.at_bound.is_some()))
            .map(|parameter| format!("`{}`", parameter.name))
            .collect();
        let mut vague: Vec<String> = (self.parameters.iter().filter(|parameter| parameter.is_vague()))
            .map(|parameter| format!("`{}`", parameter.name))
            .collect();
        if !at_bound.is_empty() {
            let verb = if at_bound.len() == 1 { "is at its bound" } else { "are at their bounds" };
            lines.push(format!("{} {verb}: the data give a limit, not a value.", at_bound.join(", ")));
        } else if !id.flat_directions.is_empty() {
            lines.push(format!("The data determine {} of {} directions.", id.rank, id.n_unknown));
        } else if id.n_unknown > 0 && !vague.is_empty() {
            let size = if vague.len() == 1 { "its own size" } else { "their own size" };
            let all = all_unknowns(id.n_unknown);
            lines.push(format!("The data determine {all}, but {} only to within {size}.", vague.join(", ")));
            vague.clear();
        } else if id.n_unknown > 0 {
            lines.push(format!("The data determine {}.", all_unknowns(id.n_unknown)));
        }
        match &vague[..] {
            [] => {}
            [one] => lines.push(format!("{one} is known only to within its own size.")),
            _ => lines.push(format!("{} are known only to within their own size.", vague.join(", "))),
        }
        for (name, percent) in &self.fit_percent {
            let residual = self.residuals.iter().find(|residual| residual.name == *name);
            let mut line = match percent_words(*percent) {
                Some(words) => format!("`{name}`: {words}"),
                None => format!("`{name}`: it does not vary"),
            };
            if let Some(residual) = residual {
                line.push_str(&format!("; {}", self.verdict(residual)));
            }
            line.push('.');
            lines.push(line);
        }
        lines
    }

    /// Size, whiteness, normality and what inputs still explain, as one sentence: either all is as the model says, or
    /// what is not, the weightiest first. Only size counts where the model itself makes errors correlated.
    fn verdict(&self, residual: &ResidualSummary) -> String {
        let (mut against, mut in_favour) = (Vec::new(), Vec::new());
        let size = residual.size;
        if size.is_doubtful() {
            against.push(format!("{} predicted", factor_words(size.normalized_variance.sqrt())));
        } else if size.normalized_variance.is_finite() {
            in_favour.push("of the predicted size".to_owned());
        }
        let mut test = |p: f64, passed: &str, failed: String| {
            if p < FAILED {
                against.push(format!("{failed} (p = {})", short(p, 2)));
            } else if p.is_finite() && !passed.is_empty() {
                in_favour.push(format!("{passed} (p = {})", short(p, 2)));
            }
        };
        if self.errors_are_independent {
            test(residual.whiteness, "white", "not white".to_owned());
            for (input, p) in &residual.input_correlation {
                test(*p, "", format!("correlated with the input `{input}`"));
            }
            test(residual.normality, "normal", "not normal".to_owned());
        }
        match (against.is_empty(), in_favour.is_empty()) {
            (true, true) => "nothing can be said of its residuals".to_owned(),
            (true, false) => format!("the residuals agree with the model: {}", in_favour.join(", ")),
            _ => format!("the residuals contradict the model: {}", against.join(", ")),
        }
    }

    /// A summary for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = self.summary().join("\n");
        text.push_str("\n\n");
        if !self.parameters.is_empty() {
            let mut rows: Vec<Vec<String>> = vec![self.head().into_iter().map(str::to_owned).collect()];
            rows.extend(self.parameter_rows());
            text.push_str(&text_table(&rows));
            text.push('\n');
        }
        for line in self.judgement() {
            text.push_str(&line);
            text.push('\n');
        }
        for (list, title) in [(&self.validation, VALIDATION), (&self.predictions, PREDICTIONS)] {
            if !list.is_empty() {
                let mut rows: Vec<Vec<String>> = vec![validation::HEAD.map(str::to_owned).to_vec()];
                rows.extend(validation::rows(list));
                text.push_str(&format!("\n{title}:\n{}", text_table(&rows)));
            }
        }
        for (experiment, values) in self.initial.iter().enumerate() {
            let list: Vec<String> =
                values.iter().map(|(name, value)| format!("{name} = {}", short(*value, 5))).collect();
            text.push_str(&format!("Estimated start of experiment {}: {}.\n", experiment + 1, list.join(", ")));
        }
        text
    }

    /// The regions in which pairs of strongly correlated unknowns lie together, the most correlated first.
    fn add_regions(&self, page: &mut Page, correlation: &[Vec<f64>]) {
        const MAX_CHARTS: usize = 4;
        let n = self.parameters.len();
        let all = (0..n).flat_map(|i| (0..i).map(move |j| (j, i)));
        let mut pairs: Vec<(usize, usize)> = all.filter(|&(j, i)| correlation[i][j].abs() > LARGE).collect();
        pairs.sort_by(|a, b| correlation[b.0][b.1].abs().total_cmp(&correlation[a.0][a.1].abs()));
        for &(j, i) in pairs.iter().take(MAX_CHARTS) {
            let (across, up) = (&self.parameters[j], &self.parameters[i]);
            let labels = [across, up].map(|parameter| page.glossary().label(&parameter.name));
            page.figure(
                &region_chart(across, up, correlation[i][j], labels),
                &format!(
                    "{} and {} are determined together better than each by itself (correlation {:.3}): where both lie with \
                     95 % probability.",
                    across.name, up.name, correlation[i][j]
                ),
            );
        }
    }

    /// The result as a part of a page: what was found in a few sentences, pictures, then tables.
    pub fn add_to(&self, page: &mut Page) {
        let found = self.found(page.glossary());
        for line in self.summary().into_iter().take(1).chain(found).chain(self.judgement()) {
            page.paragraph(&line);
        }
        for diagnostic in &self.diagnostics {
            page.remark(diagnostic.level.word(), &diagnostic.message);
        }
        self.add_fits(page);
        if !self.parameters.is_empty() {
            page.heading("Parameters");
            self.add_parameters(page);
        }
        if self.parameters.len() > 1 {
            self.add_correlation(page);
        }
        validation::add_to_page(&self.validation, VALIDATION, page);
        validation::add_to_page(&self.predictions, PREDICTIONS, page);
        page.fold("How it was found", |page| {
            for line in self.summary() {
                page.paragraph(&line);
            }
            for (experiment, values) in self.initial.iter().enumerate() {
                let list: Vec<String> =
                    values.iter().map(|(name, value)| format!("{name} = {}", short(*value, 5))).collect();
                page.paragraph(&format!("Estimated start of experiment {}: {}.", experiment + 1, list.join(", ")));
            }
        });
    }

    /// What was found, in one sentence.
    fn found(&self, glossary: &Glossary) -> Option<String> {
        const MOST: usize = 12;
        let said = |parameter: &ParameterEstimate| {
            let value = with_error(parameter.estimate, parameter.std_error);
            let bound = if parameter.at_bound.is_some() { " (at its bound)" } else { "" };
            let unit = glossary.unit(&parameter.name);
            format!("`{}` = {value}{}{unit}{bound}", parameter.name, if unit.is_empty() { "" } else { " " })
        };
        let mut list: Vec<String> = self.parameters.iter().take(MOST).map(said).collect();
        if self.parameters.len() > MOST {
            list.push(format!("and {} more", self.parameters.len() - MOST));
        }
        (!list.is_empty()).then(|| format!("Found, with standard errors: {}.", list.join(", ")))
    }

    /// Data with predictions, and what residuals look like.
    fn add_fits(&self, page: &mut Page) {
        const MOST: usize = 8;
        let n_experiments = self.fits.iter().map(|fit| fit.experiment + 1).max().unwrap_or(0);
        for fit in self.fits.iter().take(MOST) {
            let glossary = page.glossary();
            let (label, words) = (glossary.label(&fit.name), glossary.words(&fit.name));
            let unit = glossary.unit(&fit.name).to_owned();
            let place = glossary.experiment(fit.experiment, n_experiments);
            page.figure(
                &fit_chart(fit, &label, &place),
                &format!("{words} as measured and as predicted one sample ahead{place}, with two standard deviations."),
            );
            page.figure(
                &residual_chart(fit, &with_unit("residual", &unit), &place),
                &format!("Residuals of {}{place} with two standard deviations.", fit.name),
            );
        }
        if self.fits.len() > MOST {
            page.paragraph(&format!("{} more records are in the table of `-o`.", self.fits.len() - MOST));
        }
        for residual in &self.residuals {
            let of = |fit: &&Fit| fit.name == residual.name;
            let records: Vec<Vec<f64>> = self.fits.iter().filter(of).map(normalized_residuals).collect();
            let n = records.iter().flatten().filter(|value| value.is_finite()).count();
            if n < FEW {
                continue;
            }
            page.figure(
                &autocorrelation_chart(&residual.name, &records, n),
                &format!(
                    "Autocorrelation of the residuals of {}. If nothing is left to predict, 95 of 100 bars stay between the \
                     dashed lines.",
                    residual.name
                ),
            );
            page.figure(
                &histogram_chart(&residual.name, &records),
                &format!(
                    "Residuals of {} over their predicted standard deviation. The line is what the model says.",
                    residual.name
                ),
            );
        }
    }

    /// The table of parameters, with what the model says of them.
    fn add_parameters(&self, page: &mut Page) {
        let mut head = self.head();
        let has_bounds = self.parameters.iter().any(|parameter| parameter.at_bound.is_some());
        if !has_bounds {
            head.pop();
        }
        head.insert(1, "unit");
        head.push("description");
        let glossary = page.glossary();
        let rows: Vec<Vec<String>> = self
            .parameter_rows()
            .into_iter()
            .map(|mut row| {
                let (unit, words) = (glossary.unit(&row[0]).to_owned(), glossary.description(&row[0]).to_owned());
                row.truncate(row.len() - usize::from(!has_bounds));
                row.insert(1, unit);
                row.push(words);
                row
            })
            .collect();
        page.table(&head, &rows);
    }

    /// How estimates depend on each other, as a picture and as numbers.
    fn add_correlation(&self, page: &mut Page) {
        let correlation = self.correlation();
        let names: Vec<String> = self.parameters.iter().map(|it| it.name.clone()).collect();
        let text = |value: &f64| if value.is_finite() { format!("{value:.3}") } else { "-".to_owned() };
        let words = |row: usize| {
            (0..names.len())
                .map(|at| format!("{} and {}: {}", names[row], names[at], text(&correlation[row][at])))
                .collect()
        };
        let short_text = |value: &f64| if value.is_finite() { format!("{value:.2}") } else { String::new() };
        let map = HeatMap {
            title: "Correlation of the estimates".to_owned(),
            columns: names.clone(),
            rows: names.clone(),
            shades: correlation.clone(),
            words: (0..names.len()).map(words).collect(),
            texts: correlation.iter().map(|row| row.iter().map(short_text).collect()).collect(),
            ..HeatMap::default()
        };
        page.map(
            &map,
            "Near 1 or -1 the data tell two unknowns apart badly; only a combination of them is known well.",
        );
        self.add_regions(page, &correlation);
        let head: Vec<&str> = std::iter::once("correlation").chain(names.iter().map(String::as_str)).collect();
        let rows: Vec<Vec<String>> = (names.iter().zip(&correlation))
            .map(|(name, row)| std::iter::once(name.clone()).chain(row.iter().map(text)).collect())
            .collect();
        page.fold("Correlations as numbers", |page| page.table(&head, &rows));
    }
}

/// Headings.
const VALIDATION: &str = "Records that were not used";
const PREDICTIONS: &str = "Predictions of the data themselves";

/// Tests of residuals count as failed below this probability.
const FAILED: f64 = 0.01;

fn series(name: &str, x: &[f64], y: Vec<f64>, mark: Mark, color: usize) -> Series {
    Series { name: name.to_owned(), x: x.to_vec(), y, mark, color }
}

/// Correlations above this are shown as pictures.
const LARGE: f64 = 0.8;

/// The 95 % quantile of chi square with two degrees of freedom.
const CHI_SQUARE_95: f64 = 5.991_464_547_107_98;

/// The ellipse `mean + sqrt(chi^2) L (cos, sin)` with `L L'` the covariance of a pair.
fn region_chart(
    across: &ParameterEstimate,
    up: &ParameterEstimate,
    correlation: f64,
    [x_label, y_label]: [String; 2],
) -> Chart {
    let reach = CHI_SQUARE_95.sqrt();
    let rest = (1.0 - correlation * correlation).max(0.0).sqrt();
    let angles = (0..=120).map(|step| f64::from(step) * std::f64::consts::TAU / 120.0);
    let (x, y) = angles
        .map(|angle| {
            let (sin, cos) = angle.sin_cos();
            let along = correlation * cos + rest * sin;
            (across.estimate + reach * across.std_error * cos, up.estimate + reach * up.std_error * along)
        })
        .unzip();
    let ellipse = Series { name: "95 % together".to_owned(), x, y, mark: Mark::Line, color: 0 };
    Chart {
        title: format!("{} and {}", across.name, up.name),
        x_label,
        y_label,
        series: vec![ellipse, series("estimate", &[across.estimate], vec![up.estimate], Mark::Dots, 1)],
        ..Chart::default()
    }
}

fn fit_chart(fit: &Fit, label: &str, place: &str) -> Chart {
    let edge =
        |sign: f64| -> Vec<f64> { fit.predicted.iter().zip(&fit.std).map(|(p, s)| p + sign * 2.0 * s).collect() };
    Chart {
        title: format!("{}: data and prediction{place}", fit.name),
        x_label: TIME.to_owned(),
        y_label: label.to_owned(),
        series: vec![
            series("two standard deviations", &fit.times, edge(-1.0), Mark::BandTo(edge(1.0)), 0),
            series("predicted", &fit.times, fit.predicted.clone(), Mark::Line, 0),
            series("measured", &fit.times, fit.measured.clone(), Mark::Dots, 1),
        ],
        ..Chart::default()
    }
}

fn residual_chart(fit: &Fit, label: &str, place: &str) -> Chart {
    let residuals = fit.measured.iter().zip(&fit.predicted).map(|(a, b)| a - b).collect();
    let edge = |sign: f64| -> Vec<f64> { fit.std.iter().map(|s| sign * 2.0 * s).collect() };
    Chart {
        title: format!("{}: residuals{place}", fit.name),
        x_label: TIME.to_owned(),
        y_label: label.to_owned(),
        series: vec![
            series("two standard deviations", &fit.times, edge(-1.0), Mark::BandTo(edge(1.0)), 0),
            series("residuals", &fit.times, residuals, Mark::Dots, 1),
        ],
        ..Chart::default()
    }
}

/// Fewer residuals make no picture of their distribution.
const FEW: usize = 10;

/// Residuals over their predicted standard deviations, or over their own where none is predicted; NaN where missing.
fn normalized_residuals(fit: &Fit) -> Vec<f64> {
    let residuals: Vec<f64> = fit.measured.iter().zip(&fit.predicted).map(|(a, b)| a - b).collect();
    let known: Vec<f64> = residuals.iter().copied().filter(|value| value.is_finite()).collect();
    let own = (known.iter().map(|value| value * value).sum::<f64>() / known.len().max(1) as f64).sqrt();
    let scaled = |(at, value): (usize, &f64)| {
        let std = fit.std.get(at).copied().filter(|std| *std > 0.0).unwrap_or(own);
        value / std
    };
    residuals.iter().enumerate().map(scaled).collect()
}

/// Correlations of residuals that lie `k` samples apart,
///
/// ```text
/// r_k = sum e_i e_(i+k) / sum e_i^2
/// ```
///
/// over all records, pairs with a missing sample left out; for white ones |r_k| is below 1.96/sqrt(n) in 95 % of cases.
pub(super) fn autocorrelation(records: &[Vec<f64>], n_lags: usize) -> Vec<f64> {
    let total: f64 = records.iter().flatten().filter(|value| value.is_finite()).map(|value| value * value).sum();
    let at_lag = |lag: usize| {
        let pairs = records.iter().flat_map(|record| record.iter().zip(record.iter().skip(lag)));
        pairs.map(|(a, b)| a * b).filter(|product| product.is_finite()).sum::<f64>() / total
    };
    (1..=n_lags).map(at_lag).collect()
}

fn autocorrelation_chart(name: &str, records: &[Vec<f64>], n: usize) -> Chart {
    const MOST_LAGS: usize = 40;
    let shortest = records.iter().map(Vec::len).min().unwrap_or(0);
    let values = autocorrelation(records, MOST_LAGS.min(shortest / 2).max(1));
    let lags: Vec<f64> = (1..=values.len()).map(|lag| lag as f64).collect();
    let limit = 1.96 / (n as f64).sqrt();
    Chart {
        title: format!("{name}: autocorrelation of the residuals"),
        x_label: "samples apart".to_owned(),
        y_label: "correlation".to_owned(),
        series: vec![series("", &lags, values, Mark::Bars(0.6), 0)],
        levels: vec![-limit, limit],
        ..Chart::default()
    }
}

fn histogram_chart(name: &str, records: &[Vec<f64>]) -> Chart {
    let values: Vec<f64> = records.iter().flatten().copied().filter(|value| value.is_finite()).collect();
    let reach = values.iter().fold(4.0, |most: f64, value| most.max(value.abs()));
    let n_bins = ((values.len() as f64).sqrt().ceil() as usize).clamp(8, 40);
    let width = 2.0 * reach / n_bins as f64;
    let mut counts = vec![0usize; n_bins];
    for value in &values {
        counts[(((value + reach) / width) as usize).min(n_bins - 1)] += 1;
    }
    let middles: Vec<f64> = (0..n_bins).map(|bin| (bin as f64 + 0.5).mul_add(width, -reach)).collect();
    let density = counts.iter().map(|count| *count as f64 / (values.len() as f64 * width)).collect();
    let fine: Vec<f64> = (0..=160).map(|at| reach * (f64::from(at) / 80.0 - 1.0)).collect();
    let normal = fine.iter().map(|z| (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt()).collect();
    Chart {
        title: format!("{name}: distribution of the residuals"),
        x_label: "residual over its predicted standard deviation".to_owned(),
        y_label: "density".to_owned(),
        series: vec![
            series("residuals", &middles, density, Mark::Bars(0.96 * width), 0),
            series("normal distribution", &fine, normal, Mark::Line, 1),
        ],
        ..Chart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autocorrelation_is_that_of_a_known_sequence() {
        // 1, -1, 1, -1, ..: neighbours are opposite, every other one is the same.
        let record: Vec<f64> = (0..100).map(|at| if at % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let values = autocorrelation(&[record], 2);
        assert!((values[0] + 0.99).abs() < 1e-12 && (values[1] - 0.98).abs() < 1e-12, "{values:?}");
        // A missing sample leaves out the pairs it is in, and records are not joined.
        let values = autocorrelation(&[vec![1.0, f64::NAN, 1.0], vec![1.0, 1.0]], 1);
        assert!((values[0] - 0.25).abs() < 1e-12, "{values:?}");
    }
}
