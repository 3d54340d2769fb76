//! The same model down other roads: whatever `simulate` gives, `uq` with a parameter that hardly varies and the cost at
//! the truth on the simulation's own data must give too, or refuse.

use std::time::{Duration, Instant};

use daesy::Watch;
use daesy::cost::{CostKind, CostOptions, cost};
use daesy::failure::Failure;
use daesy::identify::{IdentifyOptions, identify};
use daesy::load::{LoadOptions, Loaded, load_source};
use daesy::simulate::{Trajectory, simulate};
use daesy::source::{ModelText, Place, Source};
use daesy::table::Table;
use daesy::uq::{UqSettings, uq};
use daesy_graph::flat::{ValueType, Variable, VariableKind};

/// Relative width of the random parameter.
const WIDTH: f64 = 1e-6;

/// Rows of the data made of a simulation.
const MAX_SAMPLES: usize = 40;

/// What came of one model.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// It does not simulate, or has no parameter to vary.
    Unusable,
    /// All roads agree or refuse; how many of them answered.
    Agree(usize),
    /// A road gives something else, and so does `simulate` itself with a smaller tolerance; or it gives nearly the same,
    /// and the same with a smaller tolerance.
    Sensitive(String),
    /// A road gives something else.
    Differ(String),
}

/// A model as text, with the name of its class where the text has several.
pub struct Model<'a> {
    /// The text.
    pub text: &'a str,
    /// The class.
    pub class: Option<&'a str>,
    /// Which of its parameters and variables are looked at: these, counted round and round.
    pub pick: usize,
    /// Which share of its time is looked at.
    pub share: f64,
    /// Whether the parameter is also identified from the model's own data.
    pub identifies: bool,
    /// So long a road may take; one that takes longer is refused.
    pub patience: Duration,
}

impl Model<'_> {
    /// A study of the model up to a time; `simulate` are lines of its table of that name, `rest` other tables.
    fn study(&self, stop: Option<f64>, simulate: &str, rest: &str, data: Vec<Table>) -> Result<Loaded, Failure> {
        let class = self.class.map_or(String::new(), |class| format!("class = \"{class}\"\n"));
        let stop = stop.map_or(String::new(), |stop| format!("stop = {stop:e}\n"));
        let place = Place::Study {
            name: "study.toml".into(),
            text: format!("[model]\nfile = \"model.mo\"\n{class}{rest}[simulate]\n{stop}{simulate}"),
            folder: ".".into(),
            models: vec![ModelText { name: "model.mo".into(), text: self.text.to_owned() }],
        };
        let mut loaded = load_source(&Source { place, data }, &LoadOptions::default())?;
        let (begun, patience) = (Instant::now(), self.patience);
        loaded.watch = Watch::asking(move || begun.elapsed() > patience);
        Ok(loaded)
    }

    /// A difference is the model's own if tolerances a thousand times smaller move the same variable by a tenth of it, or
    /// by what would be a disagreement: solutions that part so fast depend on every rounding error, and `simulate`
    /// itself does not know them. So is one that parameters with another twelfth digit make: there a relation is decided
    /// by rounding errors. It is one of tolerances if it is small and gone with the smaller ones: a column such
    /// as the derivative of a fast state at rest is that state's error, divided by its short time constant.
    fn judge(&self, asked: &Asked<'_>, way: Way, difference: &Difference) -> Outcome {
        let words =
            format!("{}: `{}` is off by {:.1e} of its size", asked.words(way), difference.variable, difference.off);
        let run = |simulate_lines: &str, rest: &str| {
            self.study(asked.stop, simulate_lines, rest, Vec::new()).ok().and_then(|loaded| simulate(&loaded).ok())
        };
        let Some(sharp) = run(SHARP, "") else { return Outcome::Differ(words) };
        let own = moved(asked.trajectory, &sharp, &difference.variable);
        if own.is_nan() || 10.0 * own >= difference.off || own >= ALIKE {
            return Outcome::Sensitive(format!("{words}, and by {own:.1e} with a smaller tolerance"));
        }
        if let Some(nearby) = run("", &nearby(asked.parameters)) {
            let own = moved(asked.trajectory, &nearby, &difference.variable);
            if own.is_nan() || 10.0 * own >= difference.off {
                return Outcome::Sensitive(format!("{words}, and by {own:.1e} with other rounding errors"));
            }
        }
        let again = Asked { trajectory: &sharp, tolerance: SHARP, ..*asked };
        match again.take(way) {
            Road::Same if difference.off <= 10.0 * ALIKE => {
                Outcome::Sensitive(format!("{words}, and alike with a smaller tolerance"))
            }
            _ => Outcome::Differ(words),
        }
    }
}

/// Lines of a study that ask for a thousandth of the usual tolerances.
const SHARP: &str = "rtol = 1e-9\natol = 1e-12\n";

/// A way to what `simulate` gives.
#[derive(Clone, Copy)]
enum Way {
    /// `uq` by a method.
    Moments(&'static str),
    /// `cost` by a method, at the truth.
    Cost(&'static str),
    /// `identify`, from the truth.
    Identify,
}

/// Where a road leads elsewhere.
struct Difference {
    variable: String,
    /// By how much, in units of the variable's size.
    off: f64,
}

/// Simulates a model and compares all other roads with that.
#[must_use]
pub fn compare(model: &Model<'_>) -> Outcome {
    let Ok(whole) = model.study(None, "", "", Vec::new()) else { return Outcome::Unusable };
    let start = whole.flat.experiment.start.unwrap_or(0.0);
    let end = whole.flat.experiment.stop.filter(|_| model.share < 1.0);
    let stop = end.map(|end| start + model.share * (end - start));
    let Ok(loaded) = model.study(stop, "", "", Vec::new()) else { return Outcome::Unusable };
    let Ok(trajectory) = simulate(&loaded) else { return Outcome::Unusable };
    let parameters = plain_parameters(&loaded);
    let Some((name, value)) = parameters.get(model.pick % parameters.len().max(1)) else { return Outcome::Unusable };
    let asked =
        Asked { model, stop, trajectory: &trajectory, tolerance: "", parameters: &parameters, name, value: *value };
    let uq = ["monte-carlo", "collocation", "galerkin"].map(Way::Moments);
    let costs = ["output-error", "pem", "ml"].map(Way::Cost);
    let mut n_answers = 0;
    for way in uq.into_iter().chain(costs).chain(model.identifies.then_some(Way::Identify)) {
        match asked.take(way) {
            Road::Refused => {}
            Road::Same => n_answers += 1,
            Road::Elsewhere(difference) => return model.judge(&asked, way, &difference),
        }
    }
    Outcome::Agree(n_answers)
}

/// Where a road leads.
enum Road {
    /// It is refused.
    Refused,
    /// To where `simulate` leads.
    Same,
    /// Elsewhere.
    Elsewhere(Difference),
}

/// Real parameters that have a value and may be given another.
fn plain_parameters(loaded: &Loaded) -> Vec<(String, f64)> {
    let Ok(values) = daesy::linearize::parameter_values(&loaded.flat) else { return Vec::new() };
    let is_plain = |variable: &Variable| {
        variable.kind == VariableKind::Parameter
            && variable.value_type == ValueType::Real
            && !variable.is_structural
            && !variable.is_final
            && variable.fixed != Some(false)
    };
    let all = loaded.flat.variables.iter().zip(values);
    all.filter(|(variable, value)| is_plain(variable) && value.is_finite() && *value != 0.0)
        .map(|(variable, value)| (variable.name.clone(), value))
        .collect()
}

/// A table of a study in which parameters differ in the twelfth digit, each by another amount.
fn nearby(parameters: &[(String, f64)]) -> String {
    let lines = parameters.iter().enumerate().map(|(at, (name, value))| {
        let change = 1e-12 * (1 + at % 5) as f64;
        format!("\"{name}\" = {:e}\n", value * (1.0 + change))
    });
    format!("[parameters]\n{}", lines.collect::<String>())
}

/// By how much a variable differs between two trajectories, in units of its size; 0 if one has no such column.
fn moved(first: &Trajectory, second: &Trajectory, variable: &str) -> f64 {
    match (first.table.column(variable), second.table.column(variable)) {
        (Some(mine), Some(its)) => distance(&first.table.columns[0], mine, &second.table.columns[0], its),
        _ => 0.0,
    }
}

/// How many rows a table has at a time or within rounding of it.
fn n_rows_at(times: &[f64], time: f64) -> usize {
    let rounding = 1e-12 * time.abs().max(f64::MIN_POSITIVE);
    times.partition_point(|row| *row <= time + rounding) - times.partition_point(|row| *row < time - rounding)
}

/// The largest difference between two curves at common times, in units of the first one's size.
fn distance(times: &[f64], values: &[f64], other_times: &[f64], other: &[f64]) -> f64 {
    let size = values.iter().fold(0.0f64, |size, value| size.max(value.abs())).max(1e-6);
    let mut worst = 0.0f64;
    for (time, value) in times.iter().zip(values) {
        // Both sides of a jump are left out, which may come a rounding error sooner or later on another road.
        let at = other_times.partition_point(|row| row <= time);
        if at == 0 || other_times[at - 1] != *time || n_rows_at(times, *time) > 1 || n_rows_at(other_times, *time) > 1 {
            continue;
        }
        worst = worst.max((other[at - 1] - value).abs() / size);
    }
    worst
}

/// Differences between roads that are no disagreement: what tolerances of integration leave of algebraic variables at a
/// row between steps, and the width of the parameter.
const ALIKE: f64 = 1e-2;

/// So many standard deviations may be the parameter's: fast parts show its width where the model is at rest.
const DEVIATIONS: f64 = 4.0;

/// A question about a parameter of a model with a known answer.
#[derive(Clone, Copy)]
struct Asked<'a> {
    model: &'a Model<'a>,
    stop: Option<f64>,
    trajectory: &'a Trajectory,
    /// Lines that the table `simulate` of a study has for tolerances.
    tolerance: &'a str,
    /// All that may be given other values.
    parameters: &'a [(String, f64)],
    name: &'a str,
    value: f64,
}

/// A variable of a trajectory as data.
struct OwnData {
    loaded: Loaded,
    variable: String,
    size: f64,
    n_rows: usize,
}

impl Asked<'_> {
    fn take(&self, way: Way) -> Road {
        match way {
            Way::Moments(method) => self.moments(method),
            Way::Cost(method) => self.cost_at_truth(method),
            Way::Identify => self.identified_from_truth(),
        }
    }

    fn words(&self, way: Way) -> String {
        let Self { name, value, .. } = self;
        match way {
            Way::Moments(method) => format!("uq by {method} with {name} = {value}"),
            Way::Cost(method) => format!("cost by {method} of {name} = {value}"),
            Way::Identify => format!("identify of {name} = {value}"),
        }
    }

    fn moments(&self, method: &str) -> Road {
        let random = format!(
            "[random]\n\"{}\" = {{ uniform = {{ mean = {:e}, relative = {WIDTH:e} }} }}\n\
             [uq]\nmethod = \"{method}\"\ndegree = 1\nsamples = 4\nvalidation = 0\n",
            self.name, self.value
        );
        let Ok(loaded) = self.model.study(self.stop, self.tolerance, &random, Vec::new()) else { return Road::Refused };
        let Ok(found) = uq(&loaded, &UqSettings::default()) else { return Road::Refused };
        let table = &self.trajectory.table;
        for (variable, moments) in found.variables.iter().zip(&found.moments) {
            let Some(column) = table.column(variable) else {
                return Road::Elsewhere(Difference { variable: variable.clone(), off: f64::NAN });
            };
            let off = distance(&table.columns[0], column, &found.times, &moments.mean);
            let size = column.iter().fold(1e-6f64, |size, value| size.max(value.abs()));
            let width = moments.std.iter().fold(0.0f64, |most, std| most.max(*std)) / size;
            if off.is_nan() || off > ALIKE + DEVIATIONS * width {
                return Road::Elsewhere(Difference { variable: variable.clone(), off });
            }
        }
        Road::Same
    }

    /// The study of one variable, measured without error where it does not jump.
    fn own_data(&self) -> Option<OwnData> {
        let table = &self.trajectory.table;
        let times = &table.columns[0];
        let is_single = |at: usize| n_rows_at(times, times[at]) == 1;
        let stride = times.len().div_ceil(MAX_SAMPLES).max(1);
        let rows: Vec<usize> = (0..times.len()).step_by(stride).filter(|&at| is_single(at)).collect();
        let signals: Vec<usize> = (1..table.names.len())
            .filter(|&at| !table.names[at].starts_with("der("))
            .filter(|&at| table.columns[at].iter().all(|value| value.is_finite()))
            .collect();
        let signal = *signals.get(self.model.pick % signals.len().max(1)).filter(|_| rows.len() > 3)?;
        let column: Vec<f64> = rows.iter().map(|&at| table.columns[signal][at]).collect();
        let size = column.iter().fold(0.0f64, |size, value| size.max(value.abs())).max(1e-6);
        let (n_rows, variable) = (rows.len(), table.names[signal].clone());
        let data = Table {
            names: vec!["t".into(), "y".into()],
            columns: vec![rows.iter().map(|&at| times[at]).collect(), column],
        };
        let rest = format!(
            "[unknown]\n\"{}\" = {{ start = {:e} }}\n[measurements]\n\"{variable}\" = {{ column = \"y\", std = {size:e} }}\n\
             [data]\ntime = \"t\"\nfile = \"data.csv\"\n",
            self.name, self.value
        );
        let loaded =
            self.model.study(None, &format!("start = {:e}\n{}", times[0], self.tolerance), &rest, vec![data]).ok()?;
        Some(OwnData { loaded, variable, size, n_rows })
    }

    fn cost_at_truth(&self, method: &str) -> Road {
        let Some(OwnData { loaded, variable, size, n_rows }) = self.own_data() else { return Road::Refused };
        let options = CostOptions { method: Some(method.to_owned()), ..CostOptions::default() };
        let grid = format!("{}={:e}:{:e}:1", self.name, self.value, self.value);
        let Ok(found) = cost(&loaded, &[grid], &options, &mut |_| {}) else { return Road::Refused };
        let Some(&cost) = found.values.first() else { return Road::Refused };
        if cost.is_nan() && !found.diagnostics.is_empty() {
            return Road::Refused;
        }
        // Of n errors e of standard deviation s, log L = -n log(2 pi s^2) / 2 - sum e^2 / (2 s^2).
        let error = match found.kind {
            CostKind::LogLikelihood => {
                let constant = (2.0 * std::f64::consts::PI * size * size).ln();
                size * size * (-2.0 * cost / n_rows as f64 - constant)
            }
            CostKind::PredictionError | CostKind::OutputError => cost,
        };
        let off = error.max(0.0).sqrt() / size;
        if off.is_nan() || off > ALIKE { Road::Elsewhere(Difference { variable, off }) } else { Road::Same }
    }

    /// The search for the parameter from its own value, by output errors.
    fn identified_from_truth(&self) -> Road {
        let Some(OwnData { loaded, variable, size, .. }) = self.own_data() else { return Road::Refused };
        let options = IdentifyOptions { method: Some("output-error".to_owned()), ..IdentifyOptions::default() };
        let Ok(found) = identify(&loaded, &options, &mut |_| {}) else { return Road::Refused };
        let pairs = found.fits.iter().flat_map(|fit| fit.measured.iter().zip(&fit.predicted));
        let off = pairs.map(|(measured, predicted)| (measured - predicted).abs() / size).fold(0.0, f64::max);
        if off.is_nan() || off > ALIKE { Road::Elsewhere(Difference { variable, off }) } else { Road::Same }
    }
}
