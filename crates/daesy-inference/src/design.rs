//! `daesy design`: what an experiment would tell about the unknowns, before there are any data, and a better one.
//!
//! The information of an experiment is that of its likelihood, `I = E sum ( de' de / s + ds' ds / (2 s^2) )` over the
//! innovations e of variance s; standard errors are the roots of the diagonal of `(I + P)^-1` with the precision P of
//! priors. For a linear model
//!
//! ```text
//! I(u) = I at the expected record under u  +  a part that is the same for all inputs
//! ```
//!
//! because the random part of a record does not depend on the input and has mean zero. Both are exact; the second is zero
//! without disturbances (`daesy_estimate::expected`). For other models, and linear ones so large that this is too much
//! work, the information of the filter's likelihood is averaged over artificial records, and the error of standard errors
//! that this leaves is told: with `s_(k)` what all records but the k-th of n would give, its square is
//! `(n - 1)/n sum of (s_(k) - mean)^2` [@efron1981]. Derivatives are differences there: what may be all error of these is
//! no information (`noise`).
//!
//! Where the start is found with the unknowns, its part of the information is eliminated. Expected and artificial records
//! then begin where the model itself does, as start values say: a start that nobody knows moves somewhere, too.
//!
//! Where unknowns have priors, what is minimized is the mean of the criterion's logarithm over points `theta` of the
//! priors, `+- sqrt(p)` standard deviations along each of the p unknowns that have one: an experiment that is good
//! wherever the truth may be [@chaloner1995, sec. 4]. Standard errors are told for the start.
//!
//! An input is searched for by exchange of its pieces at the limits, from coarse to fine (`search`): where information
//! is a convex function of the input, as for linear models, the best one lies at the limits [@goodwin1977].

mod affine;
mod noise;
mod search;

use daesy_estimate::filter::FilterOptions;
use daesy_estimate::likelihood::Likelihood;
use daesy_estimate::noise::normal::{Draw, pair};
use daesy_estimate::noise::philox;
use daesy_estimate::pem::FilterLikelihood;
use daesy_estimate::prior::{Prior, precisions};
use daesy_estimate::scores::ScoreSeries;
use daesy_estimate::search::SearchSpace;
use daesy_estimate::uncertainty::{Certainty, Uncertainty};
use daesy_graph::Span;
use daesy_graph::finding::Finding;
use daesy_pencil::Mat;
use faer::linalg::solvers::SelfAdjointEigen;
use serde_json::{Map, Value, json};

use daesy_study::prediction_study::filter_kind;

use daesy_report::Page;
use daesy_report::chart::{Chart, Mark, Series, TIME};
use daesy_report::table::Table;
use daesy_report::words::{all_unknowns, counted, short, text_table};
use daesy_structure::linearize::parameter_values;
use daesy_study::data::Data;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::linear_study::SignalsWanted;
use daesy_study::linear_study::posed;
use daesy_study::live::{LiveColumn, LiveNames};
use daesy_study::load::Loaded;
use daesy_study::prediction_study::PredictionStudy;
use daesy_study::prepare::{start_time, study_number};
use daesy_study::problem::{Linearity, Problem, refuse_unsaid_accuracy, study_of};
use daesy_study::study::{DesignCriterion, DesignInput, DesignOptions, InitialMode, Named, Study};

/// Artificial records that information is averaged over.
const N_SETS: usize = 16;

/// Points over the bounds at which identifiability is looked at, besides the start.
const N_POINTS: usize = 4;

/// The code of a likelihood without a finite value.
const NO_LIKELIHOOD: &str = "no-likelihood";

/// An experiment to come.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// Times of the samples.
    pub times: Vec<f64>,
    /// Known inputs by input and sample.
    pub inputs: Vec<Vec<f64>>,
    /// At which of the times something is measured.
    pub is_sampled: Vec<bool>,
    /// Cells that are empty in the record that is judged: of these measurements there is no value, `[time][measurement]`;
    /// empty where no record is judged.
    pub is_missing: Vec<bool>,
}

impl Plan {
    /// Whether there is a value of a measurement, one of so many, at a time.
    fn has_value(&self, time: usize, measurement: usize, n_measured: usize) -> bool {
        let is_missing = self.is_missing.get(time * n_measured + measurement);
        self.is_sampled[time] && !is_missing.copied().unwrap_or(false)
    }
}

/// What a plan is good for.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The criterion.
    pub criterion: String,
    /// Expected standard errors by unknown; infinite where it is not determined.
    pub std_errors: Vec<f64>,
    /// Errors of these by the choice of artificial records; empty where none are needed.
    pub std_errors_mc: Vec<f64>,
    /// The number that is minimized.
    pub value: f64,
}

/// What data of a plan could tell at all.
#[derive(Clone, PartialEq, Debug)]
pub struct Determined {
    /// Directions that are determined, the least over the points.
    pub rank: usize,
    /// Directions that are not, by unknown with their weights, at the point of the least rank.
    pub flat_directions: Vec<Vec<(String, f64)>>,
    /// The points, the start first.
    pub points: Vec<DeterminedAt>,
}

/// What data of a plan could tell at a point.
#[derive(Clone, PartialEq, Debug)]
pub struct DeterminedAt {
    /// The unknowns.
    pub theta: Vec<f64>,
    /// Directions that are determined.
    pub rank: usize,
    /// Unknowns that are determined, but with a standard error larger than their whole range.
    pub lost: Vec<String>,
}

impl Determined {
    /// The point of the least rank.
    fn weakest(&self) -> Option<&DeterminedAt> {
        self.points.iter().min_by_key(|point| point.rank)
    }
}

/// A designed experiment.
#[derive(Clone, Debug)]
pub struct Design {
    /// The model.
    pub model: String,
    /// Unknowns.
    pub unknowns: Vec<String>,
    /// Known inputs that samples bring: name and column.
    pub inputs: Vec<(String, String)>,
    /// What the planned experiment determines.
    pub identifiable: Determined,
    /// The planned experiment.
    pub plan: Plan,
    /// What it tells.
    pub planned: Verdict,
    /// A better one, where `[design]` says what may be changed.
    pub better: Option<(Plan, Verdict)>,
    /// Sensors that are used.
    pub sensors: Vec<String>,
    /// Times at which one of them has a value.
    pub n_samples: usize,
    /// Points of the priors that the design is good for on average; one where there are no priors.
    pub n_prior_points: usize,
    /// What is to be told.
    pub diagnostics: Vec<Diagnostic>,
}

/// Says what experiments of a study would tell.
///
/// # Errors
/// Diagnostics, when the study is at fault.
pub fn design(loaded: &Loaded, seed: u64) -> Result<Design, Failure> {
    let study = study_of(loaded)?;
    refuse_unsaid_accuracy(study)?;
    let names = LiveNames::planned(loaded)?;
    let designer = Designer::new(loaded, study, names, seed)?;
    designer.design()
}

struct Designer<'a> {
    loaded: &'a Loaded,
    /// The same where records begin; it is another one where the start is not known.
    begun: Option<Loaded>,
    study: &'a Study,
    names: LiveNames,
    options: DesignOptions,
    theta: Vec<f64>,
    priors: Vec<Option<Prior>>,
    /// Typical sizes of the unknowns.
    sizes: Vec<f64>,
    unknowns: Vec<String>,
    points: Vec<Vec<f64>>,
    space: SearchSpace,
    /// Points of the priors, which a design must be good for.
    prior_points: Vec<Vec<f64>>,
    criterion: Criterion,
    seed: u64,
}

/// What is minimized.
#[derive(Clone, PartialEq, Debug)]
enum Criterion {
    /// The volume of the ellipsoid of errors.
    D,
    /// The mean of their squares, in units of the unknowns' sizes.
    A,
    /// Their largest one.
    E,
    /// That of one unknown.
    One(usize),
}

impl<'a> Designer<'a> {
    fn new(loaded: &'a Loaded, study: &'a Study, names: LiveNames, seed: u64) -> Result<Self, Failure> {
        let zeros = vec![0.0; names.inputs.len()];
        let stand_in = names.stand_in(start_time(loaded, None), 1.0, 4, &zeros);
        let problem = Problem::for_stream(loaded, &stand_in)?;
        let wrong = |span: Span, code: &'static str, message: String, help: &str| {
            let finding = Finding::error(code, span, message).with_help(help);
            Failure::Input(vec![Diagnostic::resolve(&finding, &study.sources)])
        };
        if problem.unknowns.is_empty() {
            let help = "add `[unknown]` with the parameters that are to be found";
            return Err(wrong(Span::NONE, "no-unknowns", "the study has no unknowns".to_owned(), help));
        }
        let options = study.design.clone();
        let unknowns: Vec<String> = problem.unknowns.iter().map(|unknown| unknown.name.clone()).collect();
        let criterion = match &options.criterion {
            None => Criterion::D,
            Some(word) => match (word.item, word.name.as_str()) {
                (DesignCriterion::Word, "D") => Criterion::D,
                (DesignCriterion::Word, "A") => Criterion::A,
                (DesignCriterion::Word, "E") => Criterion::E,
                (_, name) => match unknowns.iter().position(|known| known == name) {
                    Some(at) => Criterion::One(at),
                    None => {
                        let message = format!("there is no criterion `{name}`");
                        let help = "say \"D\", \"A\", \"E\" or the name of an unknown";
                        return Err(wrong(word.span, "design", message, help));
                    }
                },
            },
        };
        for input in &options.inputs {
            if !names.inputs.iter().any(|known| known.name == input.name) {
                let message = format!("`{}` is no input that samples bring", input.name);
                let help = "`[design] inputs` names inputs of `[inputs]` with a `column`";
                return Err(wrong(input.span, "design", message, help));
            }
        }
        for sensor in options.sensors.iter().flatten() {
            if !names.measurements.iter().any(|known| known.name == sensor.name) {
                let message = format!("the sensor `{}` is none of `[measurements]`", sensor.name);
                return Err(wrong(sensor.span, "design", message, "say there how accurate it would be"));
            }
        }
        let listed: Vec<&Named<()>> = options.sensors.iter().flatten().collect();
        if let Some((_, again)) =
            listed.iter().enumerate().find(|(at, it)| listed[..*at].iter().any(|other| other.name == it.name))
        {
            let message = format!("the sensor `{}` is listed twice in `sensors`", again.name);
            return Err(wrong(again.span, "design", message, "list each sensor once: there is one of each"));
        }
        let n_candidates = options.sensors.as_ref().map_or(names.measurements.len(), Vec::len);
        if let Some(choose) = options.choose.filter(|choose| *choose > n_candidates as u64) {
            let message = format!("{choose} sensors are to be chosen of {n_candidates}");
            let help = "say a smaller `choose` in `[design]`, or list more `sensors`";
            return Err(wrong(Span::NONE, "design", message, help));
        }
        let theta = problem.start();
        let space = &problem.space;
        let sizes = theta.iter().zip(&space.nominal).map(|(value, nominal)| value.abs().max(1e-3 * nominal)).collect();
        // The same points whatever the seed of artificial records: a verdict does not depend on that.
        let points = space.starts(&theta, 1 + N_POINTS, 0);
        let space = space.clone();
        let priors: Vec<Option<Prior>> = problem.unknowns.iter().map(|unknown| unknown.prior).collect();
        let prior_points = prior_points(&theta, &priors, &space);
        let is_free = matches!(study.initial.mode, InitialMode::Estimate | InitialMode::Diffuse);
        let begun = is_free.then(|| {
            let mut begun = loaded.clone();
            if let Some(study) = &mut begun.study {
                study.initial.mode = InitialMode::Model;
            }
            begun
        });
        Ok(Self {
            loaded,
            begun,
            study,
            names,
            options,
            theta,
            priors,
            sizes,
            unknowns,
            points,
            space,
            prior_points,
            criterion,
            seed,
        })
    }

    fn design(&self) -> Result<Design, Failure> {
        let mut diagnostics: Vec<Diagnostic> = self.two_meanings().into_iter().collect();
        let plan = self.plain(&mut diagnostics)?;
        let all: Vec<bool> = self.names.measurements.iter().map(|signal| self.is_candidate(&signal.name)).collect();
        self.refuse_exact(&plan, &all)?;
        let ranked = self.ranked_sets(&plan, &all)?;
        let changes = !self.options.inputs.is_empty() || plan.is_sampled.iter().any(|is_sampled| !is_sampled);
        let (goal, found) = if changes {
            let Designed { goal, plan } = self.inputs_and_sensors(&plan, &all, ranked)?;
            (goal, Some(plan))
        } else {
            (self.goal(&plan, ranked.into_iter().next().unwrap_or(all))?, None)
        };
        diagnostics.extend(goal.left_out.iter().cloned());
        let sensors = goal.sensors.clone();
        let identifiable = self.determined(&plan, &sensors, &mut diagnostics)?;
        let planned = self.verdict(&plan, &goal)?;
        diagnostics.extend(self.told_of(&identifiable, &planned));
        let better = if let Some(found) = found {
            let verdict = self.verdict(&found, &goal)?;
            // What is no better is not offered.
            Some(if verdict.value < planned.value { (found, verdict) } else { (plan.clone(), planned.clone()) })
        } else {
            None
        };
        let kept = self.names.measurements.iter().zip(&sensors).filter(|(_, is_used)| **is_used);
        let n_measured = sensors.len();
        let has_value = |at: usize| (0..n_measured).any(|of| sensors[of] && plan.has_value(at, of, n_measured));
        let n_samples = (0..plan.times.len()).filter(|&at| has_value(at)).count();
        Ok(Design {
            model: self.loaded.flat.model.clone(),
            unknowns: self.unknowns.clone(),
            inputs: self.names.inputs.iter().map(|input| (input.name.clone(), input.column.clone())).collect(),
            identifiable,
            plan,
            planned,
            better,
            sensors: kept.map(|(signal, _)| signal.name.clone()).collect(),
            n_samples,
            n_prior_points: goal.points.len(),
            diagnostics,
        })
    }

    /// A criterion whose letter is the name of an unknown, too.
    fn two_meanings(&self) -> Option<Diagnostic> {
        let word = self.options.criterion.as_ref().filter(|word| word.item == DesignCriterion::Word)?;
        let name = &word.name;
        if matches!(self.criterion, Criterion::One(_)) || !self.unknowns.contains(name) {
            return None;
        }
        let message =
            format!("`criterion = \"{name}\"` is about the errors of all unknowns, not about the unknown `{name}`");
        let note = Finding::note("design-criterion", word.span, message).with_names([name]);
        let note = note.with_help(format!("for the unknown write `criterion = {{ unknown = \"{name}\" }}`"));
        Some(Diagnostic::resolve(&note, &self.study.sources))
    }

    fn is_candidate(&self, name: &str) -> bool {
        self.options.sensors.as_ref().is_none_or(|list| list.iter().any(|sensor| sensor.name == name))
    }

    fn number(&self, quantity: Option<&daesy_study::study::Quantity>) -> Result<Option<f64>, Failure> {
        let Some(quantity) = quantity else { return Ok(None) };
        let values = parameter_values(&self.loaded.flat)
            .map_err(|finding| Failure::Input(vec![Diagnostic::resolve(&finding, &self.loaded.flat.sources)]))?;
        study_number(self.loaded, quantity, &|var| values[var.index()]).map(Some).map_err(Failure::Input)
    }

    /// The experiment as planned: the record of the study, or one by `[design]` and `[simulate]` with plain steps.
    fn plain(&self, diagnostics: &mut Vec<Diagnostic>) -> Result<Plan, Failure> {
        let has_times = self.options.duration.is_some() || self.options.step.is_some();
        let record = if self.loaded.has_data() { Some(self.loaded.experiment(0)?) } else { None };
        if let Some(data) = record.as_ref().filter(|_| !has_times && self.options.inputs.is_empty()) {
            let n_records = self.loaded.n_experiments();
            if n_records > 1 {
                let message = format!("the first of {n_records} records is judged, not all of them together");
                let note = Finding::warning("design-record", Span::NONE, message);
                let note = note.with_help("`identify` says what all of them tell; or name one `file` in `[data]`");
                diagnostics.push(Diagnostic::resolve(&note, &self.study.sources));
            }
            let column =
                |column: &String| data.column(column).map_or_else(|| vec![0.0; data.times.len()], <[f64]>::to_vec);
            let inputs = self.names.inputs.iter().map(|input| column(&input.column)).collect();
            let is_sampled = self.sampling(data.times.len())?;
            // A sensor that the record has no column of is one to come.
            let columns: Vec<Option<&[f64]>> =
                self.names.measurements.iter().map(|signal| data.column(&signal.column)).collect();
            let is_empty = |at: usize, column: &Option<&[f64]>| column.is_some_and(|values| !values[at].is_finite());
            let rows = 0..data.times.len();
            let is_missing = rows.flat_map(|at| columns.iter().map(move |column| is_empty(at, column))).collect();
            return Ok(Plan { inputs, is_sampled, is_missing, times: data.times.clone() });
        }
        let start = start_time(self.loaded, None);
        let simulate = &self.study.simulate;
        let stop = self.number(simulate.stop.as_ref())?.or(self.loaded.flat.experiment.stop);
        let duration = self.options.duration.or(stop.map(|stop| stop - start));
        let step = match self.options.step {
            Some(step) => Some(step),
            None => self.number(simulate.step.as_ref())?.or(self.loaded.flat.experiment.interval),
        };
        let (Some(duration), Some(step)) = (duration.filter(|it| *it > 0.0), step.filter(|it| *it > 0.0)) else {
            let finding = Finding::error("design", Span::NONE, "the planned experiment has no length or no step")
                .with_help("say `duration = ..` and `step = ..` in `[design]`");
            return Err(Failure::Input(vec![Diagnostic::resolve(&finding, &self.study.sources)]));
        };
        let n = self.steps_within(duration, step, diagnostics)?;
        let times: Vec<f64> = (0..=n).map(|k| start + k as f64 * step).collect();
        let mut inputs = Vec::with_capacity(self.names.inputs.len());
        for input in &self.names.inputs {
            inputs.push(match self.options.inputs.iter().find(|given| given.name == input.name) {
                Some(given) => search::steps(&times, &given.item),
                None => self.recorded(input, record.as_ref(), &times, diagnostics),
            });
        }
        Ok(Plan { is_sampled: self.sampling(times.len())?, is_missing: Vec::new(), times, inputs })
    }

    /// How many steps there are in an experiment, which is never longer than asked.
    fn steps_within(&self, duration: f64, step: f64, diagnostics: &mut Vec<Diagnostic>) -> Result<usize, Failure> {
        let n = (duration / step * (1.0 + SAME_LENGTH)).floor();
        let refused = |message: String, help: &str| {
            let finding = Finding::error("design", Span::NONE, message).with_help(help);
            Failure::Input(vec![Diagnostic::resolve(&finding, &self.study.sources)])
        };
        if n < 1.0 {
            let message = format!("the step {step} of the planned experiment is longer than its duration {duration}");
            return Err(refused(message, "say a shorter `step` or a longer `duration` in `[design]`"));
        }
        if n >= MAX_SAMPLES {
            let message =
                format!("the planned experiment has {n:.3e} samples, and a design takes {MAX_SAMPLES:.0e} at most");
            return Err(refused(message, "say a longer `step` or a shorter `duration` in `[design]`"));
        }
        let last = n * step;
        if duration - last > SAME_LENGTH * duration {
            let message = format!(
                "the duration {duration} of the planned experiment is no multiple of its step {step}: the last sample is \
                 {last} after the first"
            );
            let note = Finding::note("design-duration", Span::NONE, message);
            diagnostics.push(Diagnostic::resolve(&note, &self.study.sources));
        }
        Ok(n as usize)
    }

    /// An input that nobody designs: as it was in the record as far as that goes, else zero, which is said.
    fn recorded(
        &self,
        input: &LiveColumn,
        record: Option<&Data>,
        times: &[f64],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<f64> {
        let known = record.and_then(|data| Some((&data.times, data.column(&input.column)?)));
        let value = |time: &f64| {
            let (known_at, values) = known?;
            let until = *known_at.last()?;
            let after = known_at.partition_point(|known| *known <= time + 1e-9 * time.abs());
            (after > 0 && *time <= until + 1e-9 * until.abs()).then(|| values[after - 1])
        };
        let found: Vec<Option<f64>> = times.iter().map(value).collect();
        let missing = found.iter().filter(|value| value.is_none()).count();
        if missing > 0 {
            let message = format!(
                "`{}` has no values at {} of {} planned times: it is zero there",
                input.name,
                missing,
                times.len()
            );
            let warning = Finding::warning("design-input", Span::NONE, message).with_names([&input.name]);
            let warning = warning.with_help(format!(
                "say in `[design]` what it may be, such as `inputs = {{ {} = {{ min = 0, max = 1 }} }}`, or give it an \
                 `expression` in `[inputs]`",
                input.name
            ));
            diagnostics.push(Diagnostic::resolve(&warning, &self.study.sources));
        }
        found.into_iter().map(|value| value.unwrap_or(0.0)).collect()
    }

    /// Where samples are taken when nobody has thought about it: as many as there may be, evenly spread.
    fn sampling(&self, n_times: usize) -> Result<Vec<bool>, Failure> {
        let n = self.options.samples.map_or(n_times, |samples| samples as usize).max(1);
        if n > n_times {
            let message = format!("{n} samples are to be taken at {n_times} times");
            let finding = Finding::error("design", Span::NONE, message)
                .with_help("say fewer `samples` in `[design]`, or a shorter `step`");
            return Err(Failure::Input(vec![Diagnostic::resolve(&finding, &self.study.sources)]));
        }
        let mut is_sampled = vec![false; n_times];
        (1..=n).for_each(|at| is_sampled[at * n_times / n - 1] = true);
        Ok(is_sampled)
    }

    fn data(&self, plan: &Plan) -> Data {
        let zeros = vec![0.0; self.names.inputs.len()];
        let mut data = self.names.stand_in(plan.times[0], 1.0, plan.times.len(), &zeros);
        data.times.clone_from(&plan.times);
        for (input, values) in self.names.inputs.iter().zip(&plan.inputs) {
            if let Some(at) = data.names.iter().position(|name| *name == input.column) {
                data.columns[at].clone_from(values);
            }
        }
        data
    }

    /// A point of the priors, with what is the same there for all inputs.
    fn goal_point(&self, plan: &Plan, sensors: &[bool], theta: &[f64]) -> Result<GoalPoint, Failure> {
        let fixed = self.information(plan, sensors, theta, N_SETS)? - self.information(plan, sensors, theta, 0)?;
        Ok(GoalPoint { theta: theta.to_vec(), fixed, told: self.told(plan, sensors, theta)? })
    }

    /// What experiments of this kind tell of the unknowns at all, see [`noise::told`]: by that one of the plan and others
    /// with random inputs that tells most. `None` where that is everything, or nothing is a difference.
    fn told(&self, plan: &Plan, sensors: &[bool], theta: &[f64]) -> Result<Option<Mat<f64>>, Failure> {
        let others = if self.options.inputs.is_empty() { Vec::new() } else { search::random_plans(self, plan) };
        let mut most: Option<Mat<f64>> = None;
        for (at, plan) in std::iter::once(plan).chain(&others).enumerate() {
            let expected = match self.expected(plan, sensors, theta, Asked { n_sets: 1, with_noise: true }) {
                Err(failure) if at == 0 => return Err(failure),
                // An input that the model cannot follow tells nothing.
                Err(_) => continue,
                Ok(expected) => expected,
            };
            let Expected { information, noise: Some(noise), .. } = expected else { return Ok(None) };
            let Some(told) = noise::told(&(information + self.prior_information()), &noise, &self.sizes) else {
                return Ok(None);
            };
            if most.as_ref().is_none_or(|most| told.ncols() > most.ncols()) {
                most = Some(told);
            }
        }
        Ok(most)
    }

    fn prior_information(&self) -> Mat<f64> {
        let precision = precisions(&self.priors, &self.theta);
        let n = precision.len();
        Mat::from_fn(n, n, |i, j| if i == j { precision[i] } else { 0.0 })
    }

    fn information(&self, plan: &Plan, sensors: &[bool], theta: &[f64], n_sets: usize) -> Result<Mat<f64>, Failure> {
        Ok(self.expected(plan, sensors, theta, Asked { n_sets, with_noise: false })?.information)
    }

    /// The information without what may be all error of its derivatives.
    fn sure_information(
        &self,
        plan: &Plan,
        sensors: &[bool],
        theta: &[f64],
        n_sets: usize,
    ) -> Result<Mat<f64>, Failure> {
        Ok(self.expected(plan, sensors, theta, Asked { n_sets, with_noise: true })?.sure())
    }

    /// What is expected of a plan, averaged over artificial records, of which some are asked for; where these are none, of
    /// the expected record (linear models), or of one artificial record (others). For linear models the average over all
    /// records there are is known where some are asked for.
    fn expected(&self, plan: &Plan, sensors: &[bool], theta: &[f64], asked: Asked) -> Result<Expected, Failure> {
        let n_sets = asked.n_sets;
        let problem = Problem::for_record(self.loaded, &self.data(plan))?;
        let masked = |mut values: Vec<f64>| -> Vec<f64> {
            for (at, value) in values.iter_mut().enumerate() {
                let (time, of) = (at / sensors.len(), at % sensors.len());
                if !sensors[of] || !plan.has_value(time, of, sensors.len()) {
                    *value = f64::NAN;
                }
            }
            values
        };
        let n = theta.len();
        let Linearity::Constant(model) = &problem.linearity else {
            return self.expected_of_filter(&problem, theta, asked, &masked);
        };
        let study = posed(self.loaded, &problem, model, SignalsWanted::No)?;
        let refused = |error| daesy_study::linear_study::refusal::failure(self.loaded, &study, theta, &error);
        let begun = match &self.begun {
            Some(begun) => posed(begun, &problem, model, SignalsWanted::No)?,
            None => study.clone(),
        };
        let likelihood = Likelihood::new(&begun, theta, FilterOptions::default()).map_err(refused)?;
        let empty = vec![f64::NAN; plan.times.len() * sensors.len()];
        let mut added = None;
        if n_sets > 0 && study.has_disturbances {
            let seen = study.clone().with_measurements(vec![masked(vec![0.0; empty.len()])]);
            let likelihood = Likelihood::new(&seen, theta, FilterOptions::default()).map_err(refused)?;
            added = likelihood.information_of_disturbances(theta).map_err(refused)?;
        }
        let mut records = Vec::new();
        if n_sets == 0 || !study.has_disturbances || added.is_some() {
            let unseen = begun.clone().with_measurements(vec![empty]);
            let likelihood = Likelihood::new(&unseen, theta, FilterOptions::default()).map_err(refused)?;
            let predictions = likelihood.innovations(theta).map_err(refused)?;
            records.push(predictions.into_iter().next().map(|run| run.predictions).unwrap_or_default());
        } else {
            for set in 0..n_sets {
                let mut step = 0;
                let mut normal = || {
                    step += 1;
                    let key = philox::key(self.seed);
                    let purpose = philox::Purpose::Measurement.word();
                    pair(Draw { key, step, pair: philox::experiment_and_pair(0, 0), purpose }, set as u32)[0]
                };
                records.extend(likelihood.sample(theta, &mut normal).map_err(refused)?.into_iter().next());
            }
        }
        let mut sets = Vec::with_capacity(records.len());
        let mut slopes = Vec::new();
        for record in &records {
            let seen = study.clone().with_measurements(vec![masked(record.clone())]);
            let likelihood = Likelihood::new(&seen, theta, FilterOptions::default()).map_err(refused)?;
            let found = likelihood.expand(theta).map_err(refused)?;
            sets.push(found.information);
            slopes = found.scores.experiments.into_iter().next().map(|scores| scores.by_error).unwrap_or_default();
        }
        let mut information = mean_of(&sets, None, n);
        information += added.unwrap_or_else(|| Mat::zeros(n, n));
        let slopes = Some(slopes).filter(|_| records.len() == 1);
        Ok(Expected { information, noise: None, slopes, sets })
    }

    fn expected_of_filter(
        &self,
        problem: &Problem,
        theta: &[f64],
        asked: Asked,
        masked: &dyn Fn(Vec<f64>) -> Vec<f64>,
    ) -> Result<Expected, Failure> {
        let (n, n_sets) = (theta.len(), asked.n_sets.max(1));
        let loaded = self.loaded.with_record(&problem.records[0].data);
        let study = PredictionStudy::new(&loaded, problem, self.seed)?;
        let refused = |refusal| study.failure(&loaded, &refusal);
        let watch = &self.loaded.watch;
        let sets = study.artificial_data(theta, n_sets, self.seed.wrapping_add(1), watch).map_err(refused)?;
        let mut filtered = study.problem(study.settings.clone(), theta).map_err(refused)?;
        let mut informations = Vec::with_capacity(n_sets);
        let mut noise = None;
        for set in sets {
            filtered.set_measured(set.into_iter().map(masked).collect());
            let mut likelihood =
                FilterLikelihood::new(&filtered, filter_kind(Some(self.study)), &study.space, watch.clone());
            let found = likelihood.expansion(theta).map_err(refused)?;
            if !found.value.is_finite() {
                return Err(Failure::Input(vec![
                    Diagnostic::error(NO_LIKELIHOOD, "the likelihood has no finite value at the start")
                        .with_help("look whether measurements are that accurate"),
                ]));
            }
            if asked.with_noise && noise.is_none() {
                let widths = (0..n).map(|at| 2.0 * likelihood.width(theta, at)).collect();
                likelihood.widths = Some(widths);
                let other = likelihood.expansion(theta).map_err(refused)?;
                noise = Some(noise::noise(&found.scores, &other.scores));
            }
            informations.push(found.information);
        }
        Ok(Expected { information: mean_of(&informations, None, n), noise, slopes: None, sets: informations })
    }

    /// Refuses sensors without errors of which nothing is uncertain: their information has no bound.
    fn refuse_exact(&self, plan: &Plan, candidates: &[bool]) -> Result<(), Failure> {
        let mut diagnostics = Vec::new();
        for (at, signal) in self.study.measurements.iter().enumerate().filter(|(at, _)| candidates[*at]) {
            // One that changes with time is no number, and not zero throughout.
            let is_zero = |quantity| self.number(quantity).is_ok_and(|number| number == Some(0.0));
            // The square of a tiny standard deviation is zero, too.
            let is_exact =
                |quantity| self.number(quantity).is_ok_and(|number| number.is_some_and(|std| std * std == 0.0));
            if !is_exact(signal.item.std.as_ref()) && !is_zero(signal.item.variance.as_ref()) {
                continue;
            }
            let alone: Vec<bool> = (0..candidates.len()).map(|other| other == at).collect();
            let Err(failure) = self.information(plan, &alone, &self.theta, 0) else { continue };
            if failure.diagnostics().iter().any(|told| [NO_LIKELIHOOD, "all-missing"].contains(&told.code.as_str())) {
                let message = format!(
                    "`{}` is said to be measured without error where the model determines it exactly, as at a known start: \
                     what that tells has no bound",
                    signal.name
                );
                let help = "give the accuracy of the sensor as `std`, or say in `[disturbances]` what moves it";
                let finding = Finding::error("exact-measurement", signal.span, message).with_names([&signal.name]);
                diagnostics.push(Diagnostic::resolve(&finding.with_help(help), &self.study.sources));
            }
        }
        if diagnostics.is_empty() { Ok(()) } else { Err(Failure::Input(diagnostics)) }
    }

    fn uncertainty(&self, information: &Mat<f64>, with_priors: bool) -> Uncertainty {
        let prior_precision = if with_priors { precisions(&self.priors, &self.theta) } else { Vec::new() };
        let scores = ScoreSeries { n_unknown: self.theta.len(), experiments: Vec::new() };
        Uncertainty::new(&Certainty {
            information,
            scores: &scores,
            prior_precision: &prior_precision,
            sizes: &self.sizes,
            at_bound: &vec![None; self.theta.len()],
        })
    }

    fn verdict(&self, plan: &Plan, goal: &Goal<'_, '_>) -> Result<Verdict, Failure> {
        let asked = Asked { n_sets: N_SETS, with_noise: true };
        let expected = self.expected(plan, &goal.sensors, &self.theta, asked)?;
        let information = expected.sure();
        let criterion = match &self.criterion {
            Criterion::D => "D".to_owned(),
            Criterion::A => "A".to_owned(),
            Criterion::E => "E".to_owned(),
            Criterion::One(at) => match self.unknowns[*at].as_str() {
                letter @ ("D" | "A" | "E") => format!("unknown {letter}"),
                name => name.to_owned(),
            },
        };
        let std_errors = self.uncertainty(&information, true).std;
        let n_sets = expected.sets.len();
        let mut std_errors_mc = Vec::new();
        if n_sets > 1 {
            let without = |set: usize| {
                let information = mean_of(&expected.sets, Some(set), self.theta.len());
                self.uncertainty(&expected.without_noise(information), true).std
            };
            let all: Vec<Vec<f64>> = (0..n_sets).map(without).collect();
            let n = n_sets as f64;
            let error = |at: usize| {
                let mean = all.iter().map(|std| std[at]).sum::<f64>() / n;
                ((n - 1.0) / n * all.iter().map(|std| (std[at] - mean).powi(2)).sum::<f64>()).sqrt()
            };
            std_errors_mc = (0..self.theta.len()).map(error).collect();
        }
        Ok(Verdict { criterion, std_errors, std_errors_mc, value: goal.value(plan)? })
    }

    /// What is minimized: logarithms, so that all criteria are alike. Of what is not told of the unknowns nothing counts.
    fn value(&self, information: &Mat<f64>, told: Option<&Mat<f64>>) -> f64 {
        let n = self.theta.len();
        let information = information + self.prior_information();
        let scaled = Mat::from_fn(n, n, |i, j| {
            0.5 * (information[(i, j)] + information[(j, i)]) * self.sizes[i] * self.sizes[j]
        });
        let seen = told.map_or_else(|| scaled.clone(), |told| told.transpose() * &scaled * told);
        let n = seen.nrows();
        if n == 0 {
            return 0.0;
        }
        let Ok(eigen) = SelfAdjointEigen::new(seen.as_ref(), faer::Side::Lower) else { return f64::INFINITY };
        let values = eigen.S().column_vector();
        let vectors = told.map_or_else(|| eigen.U().to_owned(), |told| told * eigen.U());
        let largest = (0..n).fold(0.0f64, |largest, k| largest.max(values[k]));
        let floored = |k: usize| values[k].max(1e-14 * largest).max(f64::MIN_POSITIVE);
        let value = match self.criterion {
            Criterion::D => -(0..n).map(|k| floored(k).ln()).sum::<f64>() / n as f64,
            Criterion::A => (0..n).map(|k| 1.0 / floored(k)).sum::<f64>().ln(),
            Criterion::E => -floored(0).ln(),
            Criterion::One(at) => (0..n).map(|k| vectors[(at, k)].powi(2) / floored(k)).sum::<f64>().ln(),
        };
        if value.is_finite() { value } else { f64::INFINITY }
    }

    /// What data of a plan determine, at the start and at points over the bounds.
    fn determined(
        &self,
        plan: &Plan,
        sensors: &[bool],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Result<Determined, Failure> {
        let mut found = Determined { rank: usize::MAX, flat_directions: Vec::new(), points: Vec::new() };
        for (at, theta) in self.points.iter().enumerate() {
            let information = match self.sure_information(plan, sensors, theta, 1) {
                Ok(information) => information,
                Err(failure) if at == 0 => return Err(failure),
                Err(failure) => {
                    diagnostics.push(left_out(&failure, "the bounds"));
                    continue;
                }
            };
            let judged = self.uncertainty(&information, false);
            if judged.rank < found.rank {
                found.rank = judged.rank;
                let named = |weights: &Vec<f64>| {
                    let pairs = self.unknowns.iter().cloned().zip(weights.iter().copied());
                    pairs.filter(|(_, weight)| *weight != 0.0).collect::<Vec<_>>()
                };
                found.flat_directions = judged.flat_directions.iter().map(named).collect();
            }
            let range = |at: usize| self.space.upper[at] - self.space.lower[at];
            let is_lost = |at: &usize| judged.std[*at].is_finite() && judged.std[*at] > range(*at);
            let lost = (0..theta.len()).filter(is_lost).map(|at| self.unknowns[at].clone()).collect();
            found.points.push(DeterminedAt { theta: theta.clone(), rank: judged.rank, lost });
        }
        Ok(found)
    }

    /// A goal for some sensors.
    fn goal(&self, plan: &Plan, sensors: Vec<bool>) -> Result<Goal<'_, 'a>, Failure> {
        let mut goal = Goal { designer: self, sensors, points: Vec::new(), left_out: Vec::new() };
        for theta in &self.prior_points {
            match self.goal_point(plan, &goal.sensors, theta) {
                Ok(point) => goal.points.push(point),
                Err(failure) if self.prior_points.len() == 1 => return Err(failure),
                Err(failure) => goal.left_out.push(left_out(&failure, "the priors")),
            }
        }
        Ok(goal)
    }

    /// Inputs and times of samples for the sensors, and sensors for them: the best sets for the plain input are tried,
    /// as many as the work allows; from each of them on, the input is found for the sensors and the sensors for that input,
    /// until these are known already. The best pair of all is taken.
    fn inputs_and_sensors(
        &self,
        plan: &Plan,
        candidates: &[bool],
        ranked: Vec<Vec<bool>>,
    ) -> Result<Designed<'_, 'a>, Failure> {
        let n_pieces = |input: &DesignInput| input.pieces.unwrap_or(plan.times.len()).min(plan.times.len());
        let n_runs = self.options.inputs.iter().map(|input| n_pieces(&input.item)).sum::<usize>().max(1);
        let work = n_runs * plan.times.len() * self.prior_points.len();
        let mut tried: Vec<Vec<bool>> = Vec::new();
        let mut best: Option<(Worth, Designed<'_, 'a>)> = None;
        let mut n_begun = 1;
        for (at, first) in ranked.into_iter().enumerate() {
            if at >= n_begun {
                break;
            }
            let mut set = first;
            for _ in 0..MOST_ROUNDS {
                if tried.contains(&set) || best.is_some() && self.loaded.watch.is_stopped() {
                    break;
                }
                tried.push(set.clone());
                let goal = match self.goal(plan, set) {
                    Ok(goal) => goal,
                    Err(failure) if best.is_none() => return Err(failure),
                    // Sensors that have no likelihood are no better than others.
                    Err(_) => break,
                };
                if best.is_none() && goal.is_linear(plan)? {
                    n_begun = (SEARCHED / work).clamp(FEWEST_SETS, MOST_SETS);
                }
                let plan = search::better(&goal, plan)?;
                let worth = goal.worth(&plan)?;
                set = self.ranked_sets(&plan, candidates)?.into_iter().next().unwrap_or_else(|| candidates.to_vec());
                if best.as_ref().is_none_or(|(least, _)| worth.is_better_than(least)) {
                    best = Some((worth, Designed { goal, plan }));
                }
            }
        }
        match best {
            Some((_, best)) => Ok(best),
            None => Ok(Designed { goal: self.goal(plan, candidates.to_vec())?, plan: plan.clone() }),
        }
    }

    /// What is to be said of unknowns that a plan does not determine, or as good as not.
    fn told_of(&self, identifiable: &Determined, planned: &Verdict) -> Vec<Diagnostic> {
        let Some(weakest) = identifiable.weakest() else { return Vec::new() };
        let is_known = |name: &&str| {
            let at = self.unknowns.iter().position(|known| known == *name);
            at.is_some_and(|at| planned.std_errors[at].is_finite())
        };
        let place = self.named_point(&weakest.theta);
        let is_everywhere = identifiable.points.iter().all(|point| point.rank == weakest.rank);
        let place = if is_everywhere { String::new() } else { format!(" at {place}") };
        let mut all = Vec::new();
        for direction in &identifiable.flat_directions {
            let names: Vec<&str> = direction.iter().map(|(name, _)| name.as_str()).collect();
            let is_prior = names.iter().all(|name| {
                let at = self.unknowns.iter().position(|known| known == *name);
                at.is_some_and(|at| self.priors[at].is_some())
            });
            let words = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let note = if is_prior && names.iter().all(is_known) {
                let message = format!("only the prior would determine {words}{place}: the planned data do not");
                Finding::note("prior-only", Span::NONE, message)
            } else {
                let message = format!("the planned data would not determine {words}{place}");
                let warning = Finding::warning("flat-direction", Span::NONE, message);
                warning.with_help("fix one of them, or plan to measure more")
            };
            all.push(Diagnostic::resolve(&note.with_names(names), &self.study.sources));
        }
        for point in identifiable.points.iter().filter(|point| !point.lost.is_empty()) {
            let words = point.lost.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let message = format!(
                "the planned data would determine {words} at {}, but with a standard error larger than the range between its \
                 bounds",
                self.named_point(&point.theta)
            );
            let note = Finding::note("interval-over-bound", Span::NONE, message).with_names(&point.lost);
            all.push(Diagnostic::resolve(&note, &self.study.sources));
        }
        all
    }

    fn named_point(&self, theta: &[f64]) -> String {
        let pairs = self.unknowns.iter().zip(theta);
        pairs.map(|(name, value)| format!("{name} = {}", short(*value, 3))).collect::<Vec<_>>().join(", ")
    }

    /// Sets of sensors of the number asked for, the best one first; all candidates where no number is.
    ///
    /// Where there are few sets all are tried. Else sensors are taken one after the other, each the one that adds most,
    /// and then exchanged one for one as long as that helps: the best set need not hold the best single one.
    fn ranked_sets(&self, plan: &Plan, candidates: &[bool]) -> Result<Vec<Vec<bool>>, Failure> {
        let all: Vec<usize> = (0..candidates.len()).filter(|&at| candidates[at]).collect();
        let wanted = self.options.choose.map_or(all.len(), |choose| choose as usize).min(all.len());
        if wanted == all.len() {
            return Ok(vec![candidates.to_vec()]);
        }
        let told = self.told(plan, candidates, &self.theta)?;
        let value = |chosen: &[bool]| -> Result<f64, Failure> {
            Ok(self.value(&self.information(plan, chosen, &self.theta, 4)?, told.as_ref()))
        };
        let with = |chosen: &[bool], out: Option<usize>, into: usize| {
            let mut other = chosen.to_vec();
            out.into_iter().for_each(|at| other[at] = false);
            other[into] = true;
            other
        };
        if let Some(sets) = sets_of(&all, wanted, candidates.len(), MAX_SETS) {
            let mut ranked = Vec::with_capacity(sets.len());
            for set in sets {
                ranked.push((value(&set)?, set));
            }
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
            return Ok(ranked.into_iter().map(|(_, set)| set).collect());
        }
        let (mut chosen, mut best) = (vec![false; candidates.len()], f64::INFINITY);
        for _ in 0..wanted {
            let larger = all.iter().filter(|&&at| !chosen[at]).map(|&at| with(&chosen, None, at));
            if let Some((set, value)) = least(larger.collect::<Vec<_>>().into_iter(), &value)? {
                (chosen, best) = (set, value);
            }
        }
        loop {
            let (inside, outside): (Vec<usize>, Vec<usize>) = all.iter().partition(|&&at| chosen[at]);
            let pairs = inside.iter().flat_map(|&out| outside.iter().map(move |&into| (out, into)));
            let exchanged = pairs.map(|(out, into)| with(&chosen, Some(out), into)).collect::<Vec<_>>();
            match least(exchanged.into_iter(), &value)? {
                Some((set, value)) if value < best => (chosen, best) = (set, value),
                _ => return Ok(vec![chosen]),
            }
        }
    }
}

/// Sets of sensors that an input is searched for, at least and at most, in linear models, and how much work that may be:
/// pieces of inputs times samples.
const FEWEST_SETS: usize = 3;
const MOST_SETS: usize = 20;
const SEARCHED: usize = 100_000;

/// How often sensors are chosen again for the input that was found for others.
const MOST_ROUNDS: usize = 4;

/// Sensors, in their goal, and a plan for them.
struct Designed<'d, 'a> {
    goal: Goal<'d, 'a>,
    plan: Plan,
}

/// What a plan with its sensors is worth.
struct Worth {
    /// How many combinations of unknowns are told, the least over the points.
    n_told: usize,
    /// The criterion of these.
    value: f64,
}

impl Worth {
    /// What tells more combinations is better, whatever their errors are.
    fn is_better_than(&self, other: &Self) -> bool {
        self.n_told > other.n_told || self.n_told == other.n_told && self.value < other.value
    }
}

/// So many sets of sensors are tried, all of them.
const MAX_SETS: usize = 100;

/// All sets of so many of some positions, as marks among `n`; `None` if there are more than `most`.
fn sets_of(all: &[usize], wanted: usize, n: usize, most: usize) -> Option<Vec<Vec<bool>>> {
    let mut sets: Vec<(usize, Vec<usize>)> = vec![(0, Vec::new())];
    for _ in 0..wanted {
        let longer = sets.iter().flat_map(|(from, set)| {
            (*from..all.len()).map(move |at| (at + 1, set.iter().copied().chain([all[at]]).collect()))
        });
        sets = longer.take(most * all.len() + 1).collect();
        if sets.len() > most * all.len() {
            return None;
        }
    }
    let marks = |set: &Vec<usize>| (0..n).map(|at| set.contains(&at)).collect();
    (sets.len() <= most).then(|| sets.iter().map(|(_, set)| marks(set)).collect())
}

/// The set with the least value, the first of those that are alike.
fn least(
    sets: impl Iterator<Item = Vec<bool>>,
    value: &impl Fn(&[bool]) -> Result<f64, Failure>,
) -> Result<Option<(Vec<bool>, f64)>, Failure> {
    let mut best: Option<(Vec<bool>, f64)> = None;
    for set in sets {
        let value = value(&set)?;
        if best.as_ref().is_none_or(|(_, least)| value < *least) {
            best = Some((set, value));
        }
    }
    Ok(best)
}

/// What is minimized: the mean of the criterion over points of the priors, each with the part of its information that
/// does not depend on the input.
struct Goal<'d, 'a> {
    designer: &'d Designer<'a>,
    sensors: Vec<bool>,
    points: Vec<GoalPoint>,
    /// Points without a likelihood.
    left_out: Vec<Diagnostic>,
}

/// A point of the priors.
struct GoalPoint {
    theta: Vec<f64>,
    /// The part of the information that does not depend on the input.
    fixed: Mat<f64>,
    /// What is told of the unknowns at all, if not everything.
    told: Option<Mat<f64>>,
}

impl Goal<'_, '_> {
    fn worth(&self, plan: &Plan) -> Result<Worth, Failure> {
        let n_unknown = self.designer.theta.len();
        let n_told = self.points.iter().map(|point| point.told.as_ref().map_or(n_unknown, Mat::ncols)).min();
        Ok(Worth { n_told: n_told.unwrap_or(0), value: self.value(plan)? })
    }

    fn value(&self, plan: &Plan) -> Result<f64, Failure> {
        self.value_with(plan, Asked { n_sets: 0, with_noise: true })
    }

    /// The same where errors of derivatives count, too, at half the price: it may promise too much.
    fn promised_value(&self, plan: &Plan) -> Result<f64, Failure> {
        self.value_with(plan, Asked::default())
    }

    fn value_with(&self, plan: &Plan, asked: Asked) -> Result<f64, Failure> {
        let mut all = Vec::with_capacity(self.points.len());
        let priors = self.designer.prior_information();
        for GoalPoint { theta, fixed, told } in &self.points {
            let Expected { information, noise, .. } = self.designer.expected(plan, &self.sensors, theta, asked)?;
            let information = &information + fixed;
            // What other plans tell of the unknowns this one must tell, too.
            let n_told = told.as_ref().map_or(theta.len(), Mat::ncols);
            if noise.is_some_and(|noise| noise::without_noise(&(&information + &priors), &noise).n_told < n_told) {
                return Ok(f64::INFINITY);
            }
            all.push(information);
        }
        Ok(self.mean(all.into_iter()))
    }

    /// Whether the model is linear, at the first of the points.
    fn is_linear(&self, plan: &Plan) -> Result<bool, Failure> {
        let Some(GoalPoint { theta, .. }) = self.points.first() else { return Ok(false) };
        Ok(self.designer.expected(plan, &self.sensors, theta, Asked::default())?.slopes.is_some())
    }

    /// The mean of the criterion over the points, by their information.
    fn mean(&self, all: impl Iterator<Item = Mat<f64>>) -> f64 {
        let values = all.zip(&self.points);
        let values = values.map(|(information, point)| self.designer.value(&information, point.told.as_ref()));
        values.sum::<f64>() / self.points.len() as f64
    }
}

/// What is to be expected of a plan.
#[derive(Clone, Copy, Default)]
struct Asked {
    /// Artificial records to average over.
    n_sets: usize,
    /// Whether errors of derivatives are wanted.
    with_noise: bool,
}

/// What is expected of a plan at a point.
struct Expected {
    /// The information.
    information: Mat<f64>,
    /// How much of it may be errors of derivatives, where these are differences; see [`noise`].
    noise: Option<Mat<f64>>,
    /// Of linear models, by one record: slopes of normalized innovations by the unknowns, `[value][unknown]`.
    slopes: Option<Vec<f64>>,
    /// The information of every record.
    sets: Vec<Mat<f64>>,
}

impl Expected {
    /// The information without what may be all error of its derivatives.
    fn sure(&self) -> Mat<f64> {
        self.without_noise(self.information.clone())
    }

    fn without_noise(&self, information: Mat<f64>) -> Mat<f64> {
        match &self.noise {
            Some(noise) => noise::without_noise(&information, noise).information,
            None => information,
        }
    }
}

/// The mean of several matrices, of all but one where that is said.
fn mean_of(all: &[Mat<f64>], without: Option<usize>, n: usize) -> Mat<f64> {
    let kept: Vec<&Mat<f64>> = (0..all.len()).filter(|at| Some(*at) != without).map(|at| &all[at]).collect();
    Mat::from_fn(n, n, |i, j| kept.iter().map(|of| of[(i, j)]).sum::<f64>() / kept.len() as f64)
}

fn left_out(failure: &Failure, over: &str) -> Diagnostic {
    let cause = failure.diagnostics().first().map(|it| it.message.clone()).unwrap_or_default();
    Diagnostic::note("design-point", format!("a point over {over} has no likelihood and is left out: {cause}"))
}

/// Points of the priors with their mean and covariance, within the bounds; the start where there are no priors.
fn prior_points(theta: &[f64], priors: &[Option<Prior>], space: &SearchSpace) -> Vec<Vec<f64>> {
    let known: Vec<(usize, Prior)> = priors.iter().enumerate().filter_map(|(at, it)| Some((at, (*it)?))).collect();
    let reach = (known.len() as f64).sqrt();
    let moved = |at: usize, z: f64| {
        let mut point = theta.to_vec();
        for (other, prior) in &known {
            let value = prior.at(if *other == at { z } else { 0.0 });
            point[*other] = value.clamp(space.lower[*other], space.upper[*other]);
        }
        point
    };
    if known.is_empty() {
        return vec![theta.to_vec()];
    }
    known.iter().flat_map(|(at, _)| [moved(*at, reach), moved(*at, -reach)]).collect()
}

/// Samples of a plan at most.
const MAX_SAMPLES: f64 = 1e6;

/// Lengths that differ by less than this fraction are the same.
const SAME_LENGTH: f64 = 1e-9;

impl Design {
    fn verdict_json(&self, verdict: &Verdict) -> Value {
        let errors = self
            .unknowns
            .iter()
            .zip(&verdict.std_errors)
            .map(|(name, std)| (name.clone(), if std.is_finite() { json!(std) } else { Value::Null }));
        let number = |x: &f64| if x.is_finite() { json!(x) } else { Value::Null };
        let mc = self.unknowns.iter().zip(&verdict.std_errors_mc).map(|(name, error)| (name.clone(), number(error)));
        let mc = if verdict.std_errors_mc.is_empty() { Value::Null } else { Value::Object(mc.collect()) };
        json!({
            "criterion": verdict.criterion,
            "std_errors": errors.collect::<Map<String, Value>>(),
            "std_errors_mc": mc,
        })
    }

    /// The keys of the JSON document; `input` is where the designed input is written.
    #[must_use]
    pub fn to_json(&self, input: Option<String>) -> Map<String, Value> {
        let direction = |direction: &Vec<(String, f64)>| {
            Value::Object(direction.iter().map(|(name, weight)| (name.clone(), json!(weight))).collect())
        };
        let point = |DeterminedAt { theta, rank, lost }: &DeterminedAt| {
            let values = self.unknowns.iter().cloned().zip(theta.iter().map(|x| json!(x)));
            json!({ "values": values.collect::<Map<String, Value>>(), "rank": rank, "lost": lost })
        };
        let mut keys = Map::new();
        keys.insert(
            "identifiable".into(),
            json!({
                "rank": self.identifiable.rank,
                "n_unknown": self.unknowns.len(),
                "flat_directions": self.identifiable.flat_directions.iter().map(direction).collect::<Vec<_>>(),
                "points": self.identifiable.points.iter().map(point).collect::<Vec<_>>(),
            }),
        );
        keys.insert("planned".into(), self.verdict_json(&self.planned));
        let designed = self.better.as_ref().map(|(_, verdict)| self.verdict_json(verdict));
        keys.insert("designed".into(), designed.unwrap_or(Value::Null));
        keys.insert("input".into(), json!(input));
        keys.insert("sensors".into(), json!(self.sensors));
        keys.insert("n_samples".into(), json!(self.n_samples));
        if self.has_sampling() {
            keys.insert("sampling".into(), json!(self.sampling()));
        }
        keys.insert("prior_points".into(), json!(self.n_prior_points));
        keys
    }

    /// The designed plan, or the planned one.
    fn chosen(&self) -> &Plan {
        self.better.as_ref().map_or(&self.plan, |(plan, _)| plan)
    }

    /// Whether samples are taken at some of the times only.
    fn has_sampling(&self) -> bool {
        self.plan.is_sampled.iter().any(|is_sampled| !is_sampled)
    }

    /// The times at which something is measured.
    fn sampling(&self) -> Vec<f64> {
        let plan = self.chosen();
        plan.times.iter().zip(&plan.is_sampled).filter(|(_, is_sampled)| **is_sampled).map(|(time, _)| *time).collect()
    }

    /// The designed input, or the planned one: `t` and the columns of the inputs; `sampled` says by 1 or 0 where to
    /// measure, unless that is everywhere.
    #[must_use]
    pub fn table(&self) -> Table {
        let plan = self.chosen();
        let mut table = Table { names: vec!["t".to_owned()], columns: vec![plan.times.clone()] };
        for ((_, column), values) in self.inputs.iter().zip(&plan.inputs) {
            table.names.push(column.clone());
            table.columns.push(values.clone());
        }
        if self.has_sampling() {
            table.names.push("sampled".to_owned());
            table.columns.push(plan.is_sampled.iter().map(|is_sampled| f64::from(u8::from(*is_sampled))).collect());
        }
        table
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["unknown", "planned", "designed", "gain"].map(str::to_owned).to_vec()];
        for (at, name) in self.unknowns.iter().enumerate() {
            let planned = self.planned.std_errors[at];
            let designed = self.better.as_ref().map(|(_, verdict)| verdict.std_errors[at]);
            rows.push(vec![
                name.clone(),
                short(planned, 3),
                designed.map_or_else(|| "-".to_owned(), |std| short(std, 3)),
                designed.map_or_else(|| "-".to_owned(), |std| short(planned / std, 3)),
            ]);
        }
        rows
    }

    /// The same for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let n = self.unknowns.len();
        let Determined { rank, flat_directions, points } = &self.identifiable;
        let mut text = if *rank == n {
            let samples = counted(self.n_samples, "sample");
            format!("{samples} would determine {} of {}.\n", all_unknowns(n), self.model)
        } else {
            format!("Only {rank} of {n} combinations of unknowns of {} are determined.\n", self.model)
        };
        if let (Some(weakest), Some(start)) = (self.identifiable.weakest(), points.first())
            && weakest.rank < start.rank
        {
            let values: Vec<String> = self
                .unknowns
                .iter()
                .zip(&weakest.theta)
                .map(|(name, value)| format!("{name} = {}", short(*value, 3)))
                .collect();
            text.push_str(&format!("  so at {}; at the start {} are.\n", values.join(", "), start.rank));
        }
        for direction in flat_directions {
            let parts: Vec<String> =
                direction.iter().map(|(name, weight)| format!("{} {name}", short(*weight, 3))).collect();
            text.push_str(&format!("  not told apart: {}\n", parts.join(" + ")));
        }
        text.push_str(&format!("Expected standard errors (criterion {}):\n", self.planned.criterion));
        text.push_str(&text_table(&self.rows()));
        let verdicts = [Some(&self.planned), self.better.as_ref().map(|(_, verdict)| verdict)];
        let relative = verdicts.into_iter().flatten().flat_map(|it| it.std_errors_mc.iter().zip(&it.std_errors));
        let doubt = relative.map(|(error, std)| error / std).filter(|x| x.is_finite()).fold(0.0, f64::max);
        if doubt > 0.0 {
            text.push_str(&format!(
                "They are averages over {N_SETS} artificial records, which leaves an error of up to {} %.\n",
                short(100.0 * doubt, 2)
            ));
        }
        text.push_str(&format!("Sensors: {}.\n", self.sensors.join(", ")));
        if self.n_prior_points > 1 {
            text.push_str(&format!("Chosen for {} points of the priors on average.\n", self.n_prior_points));
        }
        if self.has_sampling() {
            let times: Vec<String> = self.sampling().iter().map(|time| short(*time, 5)).collect();
            text.push_str(&format!("Samples at: {}.\n", times.join(", ")));
        }
        text
    }

    /// The result as a part of a page: plain against designed.
    pub fn add_to(&self, page: &mut Page) {
        page.paragraph(self.to_text().lines().next().unwrap_or_default());
        let rows = self.rows();
        let head: Vec<&str> = rows[0].iter().map(String::as_str).collect();
        page.table(&head, &rows[1..]);
        for (at, (name, _)) in self.inputs.iter().enumerate() {
            let series = |label: &str, plan: &Plan, color: usize| Series {
                name: label.to_owned(),
                x: plan.times.clone(),
                y: plan.inputs[at].clone(),
                mark: Mark::Line,
                color,
            };
            let mut all = vec![series("planned", &self.plan, 0)];
            all.extend(self.better.iter().map(|(plan, _)| series("designed", plan, 1)));
            let (label, words) = (page.glossary().label(name), page.glossary().words(name));
            let chart = Chart {
                title: name.clone(),
                x_label: TIME.to_owned(),
                y_label: label,
                series: all,
                ..Chart::default()
            };
            let how = if self.better.is_some() { "as planned and as designed" } else { "as planned" };
            page.figure(&chart, &format!("The input {words}, {how}."));
        }
    }

    /// A study that is ready to run with the designed input: the same with `[data]` of another file.
    #[must_use]
    pub fn study_text(&self, study: &Study, file: &str) -> String {
        let text = study.sources.files().first().map_or("", |file| file.text.as_str());
        let mut written = String::new();
        let mut is_left_out = false;
        for line in text.lines() {
            let header = line.trim_start();
            if header.starts_with('[') {
                let name = header.trim_start_matches('[').trim_start();
                let is =
                    |word: &str| name.strip_prefix(word).is_some_and(|rest| rest.trim_start().starts_with([']', '.']));
                is_left_out = is("data") || is("design");
            }
            if !is_left_out {
                written.push_str(line);
                written.push('\n');
            }
        }
        written.push_str(&format!("\n[data]\nfile = {file:?}\ntime = \"t\"\n"));
        written
    }
}
