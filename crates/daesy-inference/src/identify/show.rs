//! Identified parameters as text and as a page.

use super::{ASKED, Fit, Identification, LINEAR, Method, ParameterEstimate, ResidualSummary, validation};
use daesy_report::Page;
use daesy_report::chart::{Chart, Mark, Series};
use daesy_report::words::{short, text_table};

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
            format!("Applied {} to {} values: nothing was unknown.", self.model, self.n_samples)
        } else {
            let (n, steps) = (self.n_samples, self.iterations);
            format!("Identified {} by {how} from {n} values: {state} after {steps} steps.", self.model)
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
        if !at_bound.is_empty() {
            let verb = if at_bound.len() == 1 { "is at its bound" } else { "are at their bounds" };
            lines.push(format!("{} {verb}: the data give a limit, not a value.", at_bound.join(", ")));
        } else if !id.flat_directions.is_empty() {
            lines.push(format!("The data determine {} of {} directions.", id.rank, id.n_unknown));
        } else if id.n_unknown > 0 {
            let what = match id.n_unknown {
                1 => "the unknown".to_owned(),
                2 => "both unknowns".to_owned(),
                n => format!("all {n} unknowns"),
            };
            lines.push(format!("The data determine {what}."));
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
            page.figure(
                &region_chart(across, up, correlation[i][j]),
                &format!(
                    "{} and {} are determined together better than each by itself (correlation {:.3}): where both lie with \
                     95 % probability.",
                    across.name, up.name, correlation[i][j]
                ),
            );
        }
    }

    /// The result as a part of a page.
    pub fn add_to(&self, page: &mut Page) {
        for line in self.summary() {
            page.paragraph(&line);
        }
        if !self.parameters.is_empty() {
            page.table(&self.head(), &self.parameter_rows());
        }
        if self.parameters.len() > 1 {
            let head: Vec<&str> =
                std::iter::once("correlation").chain(self.parameters.iter().map(|it| it.name.as_str())).collect();
            let correlation = self.correlation();
            let row = |(parameter, row): (&ParameterEstimate, &Vec<f64>)| {
                let cells =
                    row.iter().map(|value| if value.is_finite() { format!("{value:.3}") } else { "-".to_owned() });
                std::iter::once(parameter.name.clone()).chain(cells).collect()
            };
            let rows: Vec<Vec<String>> = self.parameters.iter().zip(&correlation).map(row).collect();
            page.table(&head, &rows);
            self.add_regions(page, &correlation);
        }
        for line in self.judgement() {
            page.paragraph(&line);
        }
        for diagnostic in &self.diagnostics {
            page.remark(diagnostic.level.word(), &diagnostic.message);
        }
        validation::add_to_page(&self.validation, VALIDATION, page);
        validation::add_to_page(&self.predictions, PREDICTIONS, page);
        for fit in self.fits.iter().take(8) {
            page.figure(
                &fit_chart(fit),
                &format!("{} as measured and as predicted one sample ahead, with two standard deviations.", fit.name),
            );
            page.figure(&residual_chart(fit), &format!("Residuals of {} with two standard deviations.", fit.name));
        }
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
fn region_chart(across: &ParameterEstimate, up: &ParameterEstimate, correlation: f64) -> Chart {
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
        x_label: across.name.clone(),
        y_label: up.name.clone(),
        series: vec![ellipse, series("estimate", &[across.estimate], vec![up.estimate], Mark::Dots, 1)],
        ..Chart::default()
    }
}

fn fit_chart(fit: &Fit) -> Chart {
    let edge =
        |sign: f64| -> Vec<f64> { fit.predicted.iter().zip(&fit.std).map(|(p, s)| p + sign * 2.0 * s).collect() };
    Chart {
        title: format!("{}: data and prediction", fit.name),
        x_label: "time".to_owned(),
        y_label: fit.name.clone(),
        series: vec![
            series("two standard deviations", &fit.times, edge(-1.0), Mark::BandTo(edge(1.0)), 0),
            series("predicted", &fit.times, fit.predicted.clone(), Mark::Line, 0),
            series("measured", &fit.times, fit.measured.clone(), Mark::Dots, 1),
        ],
        ..Chart::default()
    }
}

fn residual_chart(fit: &Fit) -> Chart {
    let residuals = fit.measured.iter().zip(&fit.predicted).map(|(a, b)| a - b).collect();
    let edge = |sign: f64| -> Vec<f64> { fit.std.iter().map(|s| sign * 2.0 * s).collect() };
    Chart {
        title: format!("{}: residuals", fit.name),
        x_label: "time".to_owned(),
        y_label: "residual".to_owned(),
        series: vec![
            series("two standard deviations", &fit.times, edge(-1.0), Mark::BandTo(edge(1.0)), 0),
            series("residuals", &fit.times, residuals, Mark::Dots, 1),
        ],
        ..Chart::default()
    }
}
