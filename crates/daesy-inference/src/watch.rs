//! `daesy watch`: the filter of a study live, sample by sample.
//!
//! A `Watcher` takes lines of a stream and gives one JSON object for each sample: estimates, normalized innovations,
//! alarms, and what is wrong with the sample. What a sample that cannot be used does is always the same: nothing, and
//! its line says so.
//!
//! Where parameters may jump (`faults` of `[watch]`), a filter runs at each value that they may jump to, and a test
//! compares what samples are worth to it with what they are worth to the first.
//!
//! Where parameters are uncertain (`[random.joint]`, or what was identified), filters run at points around their values
//! too, and standard deviations hold what these differ by (`estimate/spread`).

use std::path::Path;

use daesy_estimate::alarm::{Alarm, AlarmTests};
use daesy_estimate::online::{Estimate, Innovation};
use daesy_graph::SourceMap;
use daesy_graph::finding::Level;
use serde_json::{Map, Value, json};

use crate::estimate::Uncertain;
use crate::estimate::spread::{Spread, SpreadPoints};
use crate::identify::Identification;
use daesy_report::checkpoint::{Checkpoint, Run};
use daesy_report::json::ToJson as _;
use daesy_study::data::{Data, LineRead, ReadSample, Repeated, SampleReader};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::live::{
    Live, LiveError, LiveMark, LiveModel, LiveNames, LiveSample, LiveUpdate, STAND_IN_SAMPLES, shortest_distance,
    unknown_step,
};
use daesy_study::load::Loaded;
use daesy_study::prepare::start_time;
use daesy_study::problem::{Linearity, Problem, refuse_unsaid_accuracy, study_of};

/// The square of a measured value beyond this, in units of a standard deviation, may be no number.
const LARGEST: f64 = 1e120;

/// False alarms of each test per sample when nobody says.
pub const FALSE_ALARM_RATE: f64 = 1e-4;

/// Points of a prediction at most.
const MAX_POINTS: usize = 1000;

/// How to watch.
#[derive(Clone, Debug, Default)]
pub struct WatchSettings {
    /// False alarms of each test per sample; what the study says when left out.
    pub false_alarm_rate: Option<f64>,
    /// How far to predict beyond each sample, in seconds.
    pub horizon: Option<f64>,
    /// Future inputs: times and columns. Held as they are when left out.
    pub future: Option<Data>,
    /// The usual distance of samples; what study or data say when left out.
    pub step: Option<f64>,
    /// Seed of what is random.
    pub seed: u64,
}

/// A study that can be watched, made before the first sample where that is possible.
pub struct Watched {
    /// With uncertain parameters among the unknowns.
    loaded: Loaded,
    settings: WatchSettings,
    names: LiveNames,
    theta: Option<Vec<f64>>,
    spread: Option<Spread>,
    faults: Vec<Fault>,
    /// Whether unknowns of the study have no better values than those that a search starts from.
    is_at_start: bool,
    /// The usual distance of samples, where study or data say it.
    step: Option<f64>,
    model: Option<LiveModel>,
}

/// A parameter at another value.
#[derive(Clone, PartialEq, Debug)]
struct Fault {
    name: String,
    /// Among the unknowns.
    position: usize,
    value: f64,
}

/// The faults of a study, whose parameters can then be chosen like unknowns.
fn choose_faults(loaded: &mut Loaded) -> Vec<Fault> {
    let Some(study) = &mut loaded.study else { return Vec::new() };
    let mut faults = Vec::new();
    for parameter in study.watch.faults.clone() {
        let position = study.choose(&parameter.name, parameter.span);
        let at = |value: f64| Fault { name: parameter.name.clone(), position, value };
        faults.extend(parameter.item.iter().copied().map(at));
    }
    faults
}

impl Watched {
    /// Reads a study for watching, at the start of the unknowns; what `[random.joint]` says of parameters is part of
    /// the standard deviations.
    ///
    /// # Errors
    /// Diagnostics, when the study is at fault.
    pub fn new(loaded: &Loaded, settings: WatchSettings) -> Result<Self, Failure> {
        Self::build_for(Uncertain::of(loaded, None)?, settings, None)
    }

    /// Reads a study for watching with the unknowns that were identified, which are uncertain themselves.
    ///
    /// # Errors
    /// As [`Watched::new`].
    pub fn identified(loaded: &Loaded, settings: WatchSettings, found: &Identification) -> Result<Self, Failure> {
        let theta = found.parameters.iter().map(|parameter| parameter.estimate).collect();
        Self::build_for(Uncertain::of(loaded, Some(found))?, settings, Some(theta))
    }

    fn build_for(uncertain: Uncertain, settings: WatchSettings, theta: Option<Vec<f64>>) -> Result<Self, Failure> {
        let Uncertain { mut loaded, spread, n_unknown, .. } = uncertain;
        let (spread, is_at_start) = (spread.map(Spread::without_draws), n_unknown > 0 && theta.is_none());
        refuse_unsaid_accuracy(study_of(&loaded)?)?;
        let faults = choose_faults(&mut loaded);
        let names = LiveNames::of(&loaded)?;
        let mut step = settings.step.or(study_of(&loaded)?.watch.step);
        let mut watched = Self { settings, names, theta, spread, faults, is_at_start, step, model: None, loaded };
        let loaded = &watched.loaded;
        let zeros = vec![0.0; watched.names.inputs.len()];
        let stand_in = watched.names.stand_in(start_time(loaded, None), step.unwrap_or(1.0), 1, &zeros);
        let problem = Problem::for_stream(loaded, &stand_in)?;
        let mut model = None;
        if let Linearity::Constant(_) = problem.linearity {
            model = Some(watched.build(&problem)?);
        } else if step.is_none() && loaded.has_data() {
            let problem = Problem::for_stream(loaded, &loaded.experiment(0)?)?;
            step = shortest_distance(&problem.records[0].data.times);
            model = Some(watched.build(&problem)?);
        } else if step.is_none() {
            return Err(unknown_step(study_of(loaded)?));
        }
        let of_data = || loaded.has_data().then(|| shortest_distance(&loaded.experiment(0).ok()?.times)).flatten();
        (watched.step, watched.model) = (step.or_else(of_data), model);
        Ok(watched)
    }

    /// What goes in and out.
    #[must_use]
    pub fn names(&self) -> &LiveNames {
        &self.names
    }

    /// Findings about the whole.
    #[must_use]
    pub fn notes(&self) -> Vec<Diagnostic> {
        let mut notes = self.loaded.open_inputs();
        if self.is_at_start {
            notes.push(unknowns_at_start());
        }
        notes
    }

    fn build(&self, problem: &Problem) -> Result<LiveModel, Failure> {
        let mut theta = problem.start();
        if let Some(found) = &self.theta {
            theta[..found.len()].copy_from_slice(found);
        }
        LiveModel::build(&self.loaded, self.names.clone(), problem, theta, self.settings.seed)
    }

    /// The model, made with the inputs of the first sample if they are needed for that.
    fn model(&mut self, first: &ReadSample) -> Result<&LiveModel, Failure> {
        if self.model.is_none() {
            let step = self.step.unwrap_or(1.0);
            let inputs = &first.values[..self.names.inputs.len()];
            let stand_in = self.names.stand_in(first.time, step, STAND_IN_SAMPLES, inputs);
            self.model = Some(self.build(&Problem::for_stream(&self.loaded, &stand_in)?)?);
        }
        match &self.model {
            Some(model) => Ok(model),
            None => Err(Failure::Method(vec![Diagnostic::error("watch", "the filter could not be made")])),
        }
    }

    fn sources(&self) -> SourceMap {
        self.loaded.study.as_ref().map(|study| study.sources.clone()).unwrap_or_default()
    }

    /// Columns that the stream must have: inputs, then measurements.
    #[must_use]
    pub fn columns(&self) -> Vec<String> {
        self.names.inputs.iter().chain(&self.names.measurements).map(|column| column.column.clone()).collect()
    }

    /// Watches a stream: `lines` gives its lines, `tell` takes an object for each sample and says whether to go on.
    /// With a file, the filter goes on where the file ends, and keeps where it is.
    ///
    /// # Errors
    /// When the study or the head of the stream is at fault.
    pub fn run(
        &mut self,
        shown: &str,
        lines: &mut dyn Iterator<Item = std::io::Result<String>>,
        state: Option<&Path>,
        tell: &mut dyn FnMut(&Value) -> bool,
    ) -> Result<WatchSummary, Failure> {
        let source = self.loaded.study.as_ref().and_then(|study| study.data.as_ref());
        let keeps_last = source.is_some_and(|source| source.format.repeated == Some(Repeated::Last));
        let mut reader = SampleReader::new(shown, self.columns(), source);
        let mut kept = match state {
            None => Checkpoint::none(),
            Some(path) => {
                let run = self.run_key()?;
                Checkpoint::open(path, run).map_err(|wrong| Failure::Input(vec![wrong]))?
            }
        };
        let mut summary = WatchSummary::default();
        // The first sample with values for all inputs.
        let first = loop {
            let Some(line) = next_line(lines, shown)? else { return Ok(summary) };
            match reader.read(&line)? {
                LineRead::Nothing => {}
                LineRead::Unusable(told) => {
                    if !summary.leave_out(tell, None, vec![*told]) {
                        return Ok(summary);
                    }
                }
                LineRead::Sample(sample) => match self.missing_input(&sample, None) {
                    Some(told) if kept.get(STATE).is_none() => {
                        if !summary.leave_out(tell, Some(sample.time), vec![told]) {
                            return Ok(summary);
                        }
                    }
                    _ => break sample,
                },
            }
        };
        let settings = self.settings.clone();
        let rate = settings.false_alarm_rate;
        let rate = rate.or(self.loaded.study.as_ref().and_then(|study| study.watch.false_alarm_rate));
        let n_measured = self.names.measurements.len();
        let (names, usual, stop) = (self.names.clone(), self.step, self.loaded.watch.clone());
        let (spread, faults, sources) = (self.spread.clone(), self.faults.clone(), self.sources());
        let model = self.model(&first)?;
        let run = with_filters(model, &faults, spread.as_ref(), |filters| -> Result<(), Failure> {
            let tests = AlarmTests::new(rate.unwrap_or(FALSE_ALARM_RATE), n_measured, faults.len());
            let before = None;
            let mut watcher = Watcher {
                filters,
                names: &names,
                faults: &faults,
                tests,
                settings: &settings,
                usual,
                keeps_last,
                before,
            };
            watcher.resume(&kept, &mut summary)?;
            let mut next = Some(first);
            loop {
                let sample = match next.take() {
                    Some(sample) => sample,
                    None => {
                        if stop.is_stopped() {
                            break;
                        }
                        let Some(line) = next_line(lines, shown)? else { break };
                        match reader.read(&line)? {
                            LineRead::Nothing => continue,
                            LineRead::Unusable(told) => {
                                if summary.leave_out(tell, None, vec![*told]) {
                                    continue;
                                }
                                break;
                            }
                            LineRead::Sample(sample) => sample,
                        }
                    }
                };
                if !watcher.take(&sample, reader.line(), shown, &mut summary, tell) {
                    break;
                }
                watcher.keep(&mut kept)?;
            }
            kept.save().map_err(|wrong| Failure::Input(vec![wrong]))
        });
        run.map_err(|error| explained(model, &sources, error))??;
        Ok(summary)
    }

    /// What a state belongs to: model, study and settings, not the data.
    fn run_key(&self) -> Result<Run, Failure> {
        let mut bare = self.loaded.clone();
        bare.data.clear();
        if let Some(study) = &mut bare.study {
            study.data = None;
        }
        let WatchSettings { false_alarm_rate, seed, .. } = &self.settings;
        let command = format!("watch {false_alarm_rate:?} {seed} {:?} {:?}", self.step, self.theta);
        Run::new(&bare, &command).map_err(Failure::Input)
    }

    /// An input without a value where none was known before.
    fn missing_input(&self, sample: &ReadSample, line: Option<usize>) -> Option<Diagnostic> {
        let missing = self.names.inputs.iter().zip(&sample.values).find(|(_, value)| value.is_nan())?.0;
        let at = line.map_or_else(String::new, |line| format!(" in line {line}"));
        let message = format!(
            "the input `{}` has no value at t = {}{at} and had none before: the sample is left out",
            missing.name, sample.time
        );
        Some(Diagnostic::new(Level::Warning, "input-missing-sample", message))
    }
}

/// A note where unknowns have no better values than those that a search starts from.
#[must_use]
pub fn unknowns_at_start() -> Diagnostic {
    let note = Diagnostic::note("unknowns-at-start", "the unknowns are taken at their start");
    note.with_help("give values with `--set name=value`, or save them with `identify --save`")
}

/// Lends out the filter of a model, those under faults, and those at points around uncertain parameters: the widest that
/// can begin.
fn with_filters<R>(
    model: &LiveModel,
    faults: &[Fault],
    spread: Option<&Spread>,
    of: impl FnOnce(Filters<'_, '_>) -> R,
) -> Result<R, LiveError> {
    let theta = &model.theta;
    let can_begin = |around: &SpreadPoints| model.with_filters(&around.points, |_| ()).is_ok();
    let around = spread.and_then(|spread| spread.points(theta).find(can_begin));
    let points = around.iter().flat_map(|around| around.points.iter().cloned());
    let under = |fault: &Fault| {
        let mut theta = theta.clone();
        theta[fault.position] = fault.value;
        theta
    };
    let thetas: Vec<Vec<f64>> = std::iter::once(theta.clone()).chain(faults.iter().map(under)).chain(points).collect();
    model.with_filters(&thetas, |lives| of(Filters { lives, n_faults: faults.len(), around }))
}

/// What filters make of a sample.
struct Update {
    /// At the values of the parameters, as uncertain as these are.
    first: LiveUpdate,
    /// By fault: how much larger the log-density of the sample is under it; zero where that is not known.
    ratios: Vec<f64>,
    /// Why uncertain parameters are no longer counted.
    no_longer: Option<LiveError>,
    /// Faults whose filter cannot take the sample.
    not_looked_for: Vec<(usize, LiveError)>,
}

/// The filter at the values of the parameters, those under faults, and those around the values.
struct Filters<'w, 'p> {
    /// The first is at the values; faults follow.
    lives: &'w mut [Live<'p>],
    n_faults: usize,
    /// What the others are; nothing if there are none, or one of them broke.
    around: Option<SpreadPoints>,
}

impl<'p> Filters<'_, 'p> {
    fn live(&self) -> &Live<'p> {
        &self.lives[0]
    }

    /// Where all filters are.
    fn marks(&self) -> Vec<LiveMark> {
        self.lives.iter().map(Live::mark).collect()
    }

    /// Returns to where all filters were.
    fn return_to(&mut self, marks: Vec<LiveMark>) {
        self.lives.iter_mut().zip(marks).for_each(|(live, mark)| live.return_to(mark));
    }

    /// Takes a sample. Only the filter at the values of the parameters must be able to.
    fn update(&mut self, sample: &LiveSample<'_>) -> Result<Update, LiveError> {
        let (first, others) = self.lives.split_at_mut(1);
        let (faults, others) = others.split_at_mut(self.n_faults);
        let first = first[0].update(sample)?;
        let mut update = Update { first, ratios: Vec::new(), no_longer: None, not_looked_for: Vec::new() };
        for (at, fault) in faults.iter_mut().enumerate() {
            let ratio = match fault.update(sample) {
                Ok(found) => log_ratio(&found.innovations, &update.first.innovations),
                Err(error) => {
                    update.not_looked_for.push((at, error));
                    0.0
                }
            };
            update.ratios.push(ratio);
        }
        let Some(around) = &self.around else { return Ok(update) };
        let others: Result<Vec<LiveUpdate>, LiveError> = others.iter_mut().map(|live| live.update(sample)).collect();
        match others {
            Ok(others) => {
                let rows: Vec<&Vec<Estimate>> = others.iter().map(|other| &other.estimates).collect();
                widen(around, &mut update.first.estimates, &rows);
            }
            Err(error) => {
                self.around = None;
                update.no_longer = Some(error);
            }
        }
        Ok(update)
    }

    fn predict(&mut self, times: &[f64], inputs: &[Vec<f64>]) -> Result<Vec<Vec<Estimate>>, LiveError> {
        let (first, others) = self.lives.split_at_mut(1);
        let others = &mut others[self.n_faults..];
        let mut found = first[0].predict(times, inputs)?;
        if let Some(around) = &self.around {
            let others: Vec<Vec<Vec<Estimate>>> =
                others.iter_mut().map(|live| live.predict(times, inputs)).collect::<Result<_, _>>()?;
            for (row, found) in found.iter_mut().enumerate() {
                let rows: Vec<&Vec<Estimate>> = others.iter().map(|other| &other[row]).collect();
                widen(around, found, &rows);
            }
        }
        Ok(found)
    }

    /// All numbers that are carried on; empty before the first sample.
    fn numbers(&self) -> Vec<Vec<f64>> {
        let n = if self.around.is_some() { self.lives.len() } else { 1 + self.n_faults };
        let mut lists: Vec<Vec<f64>> = self.lives[..n].iter().flat_map(Live::numbers).collect();
        if !lists.is_empty() {
            lists.push(vec![n as f64]);
        }
        lists
    }

    /// Goes on from numbers that were kept; `false` where they do not fit.
    fn restore(&mut self, mut lists: Vec<Vec<f64>>) -> Result<bool, LiveError> {
        let Some(n) = lists.pop().and_then(|list| list.first().map(|n| *n as usize)) else { return Ok(false) };
        if n <= self.n_faults || n > self.lives.len() || !lists.len().is_multiple_of(n) {
            return Ok(false);
        }
        self.around = self.around.take().filter(|_| n == self.lives.len());
        for (live, lists) in self.lives.iter_mut().zip(lists.chunks(lists.len() / n)) {
            if !live.restore(lists)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// By how much the log-density of a sample is larger under a fault; zero where one of them is not known.
fn log_ratio(under: &[Innovation], without: &[Innovation]) -> f64 {
    let pairs = under.iter().zip(without);
    let difference = |(under, without): (&Innovation, &Innovation)| Some(under.log_density()? - without.log_density()?);
    pairs.filter(|(_, without)| !without.value.is_nan()).map(difference).sum::<Option<f64>>().unwrap_or(0.0)
}

/// Adds what estimates at points around uncertain parameters differ by.
fn widen(around: &SpreadPoints, estimates: &mut [Estimate], others: &[&Vec<Estimate>]) {
    for (at, estimate) in estimates.iter_mut().enumerate() {
        let there = others.iter().map(|row| (row[at].mean, row[at].std));
        estimate.std = around.std((estimate.mean, estimate.std), there);
    }
}

/// Where a state is in its file.
const STATE: &str = "watch";

fn next_line(lines: &mut dyn Iterator<Item = std::io::Result<String>>, shown: &str) -> Result<Option<String>, Failure> {
    match lines.next() {
        None => Ok(None),
        Some(Ok(line)) => Ok(Some(line)),
        Some(Err(error)) => {
            let message = format!("the stream cannot be read: {error}");
            Err(Failure::Input(vec![Diagnostic::about_file("data-file", shown, message)]))
        }
    }
}

/// Why there is no filter, in the words of the study where it is at fault.
fn explained(model: &LiveModel, sources: &SourceMap, error: LiveError) -> Failure {
    match model.finding(&error) {
        Some(finding) => Failure::Input(vec![Diagnostic::resolve(&finding, sources)]),
        None => refused(error),
    }
}

fn refused(error: LiveError) -> Failure {
    Failure::Method(vec![Diagnostic::error("watch", error.to_string()).with_help("`daesy estimate` says more")])
}

/// What was seen.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WatchSummary {
    /// Samples that were taken.
    pub n_samples: usize,
    /// Lines and samples that were left out.
    pub n_left_out: usize,
    /// Alarms.
    pub n_alarms: usize,
    /// Samples that a state had seen already.
    pub n_known: usize,
    /// Where the filter went on, if a state was read.
    pub resumed_at: Option<f64>,
}

impl WatchSummary {
    /// Tells of a sample that is left out.
    fn leave_out(
        &mut self,
        tell: &mut dyn FnMut(&Value) -> bool,
        time: Option<f64>,
        findings: Vec<Diagnostic>,
    ) -> bool {
        self.n_left_out += 1;
        tell(&object(time, Map::new(), Map::new(), Vec::new(), &findings))
    }

    /// The keys of the document at the end.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut keys = Map::new();
        keys.insert("n_samples".into(), json!(self.n_samples));
        keys.insert("n_left_out".into(), json!(self.n_left_out));
        keys.insert("n_known".into(), json!(self.n_known));
        keys.insert("n_alarms".into(), json!(self.n_alarms));
        keys.insert("resumed_at".into(), json!(self.resumed_at));
        keys
    }

    /// The same for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let resumed = self.resumed_at.map_or_else(String::new, |time| format!("; went on from t = {time}"));
        format!(
            "{} samples, {} alarms, {} left out, {} known already{resumed}",
            self.n_samples, self.n_alarms, self.n_left_out, self.n_known
        )
    }
}

/// The object of a sample.
fn object(
    time: Option<f64>,
    estimates: Map<String, Value>,
    innovations: Map<String, Value>,
    alarms: Vec<Value>,
    findings: &[Diagnostic],
) -> Value {
    let findings: Vec<Value> = findings.iter().map(|finding| finding.to_json()).collect();
    json!({
        "t": time, "estimates": estimates, "innovations": innovations, "alarms": alarms, "findings": findings,
    })
}

/// A filter with its tests.
struct Watcher<'w, 'p> {
    filters: Filters<'w, 'p>,
    names: &'w LiveNames,
    faults: &'w [Fault],
    tests: AlarmTests,
    settings: &'w WatchSettings,
    usual: Option<f64>,
    /// Whether a sample takes the place of one that came with the same time.
    keeps_last: bool,
    /// Filters and tests before the last sample, where another may take its place.
    before: Option<(Vec<LiveMark>, AlarmTests)>,
}

impl Watcher<'_, '_> {
    /// Goes on where a file ends.
    fn resume(&mut self, kept: &Checkpoint, summary: &mut WatchSummary) -> Result<(), Failure> {
        let Some(numbers) = kept.get(STATE) else { return Ok(()) };
        let wrong = || {
            let message = "the state was kept by a filter of another size";
            Failure::Input(vec![Diagnostic::error("checkpoint", message).with_help("name another file for it")])
        };
        let mut lists = unpacked(numbers).ok_or_else(wrong)?;
        let sums = lists.pop().ok_or_else(wrong)?;
        self.tests.set_sums(&sums);
        if !self.filters.restore(lists).map_err(refused)? {
            return Err(wrong());
        }
        summary.resumed_at = self.filters.live().time();
        Ok(())
    }

    /// Keeps where the filter is.
    fn keep(&self, kept: &mut Checkpoint) -> Result<(), Failure> {
        if !kept.is_kept() {
            return Ok(());
        }
        let mut lists = self.filters.numbers();
        if lists.is_empty() {
            return Ok(());
        }
        lists.push(self.tests.sums());
        kept.put(STATE, &packed(&lists)).map_err(|wrong| Failure::Input(vec![wrong]))
    }

    /// Takes a sample and tells of it; says whether to go on.
    fn take(
        &mut self,
        sample: &ReadSample,
        line: usize,
        shown: &str,
        summary: &mut WatchSummary,
        tell: &mut dyn FnMut(&Value) -> bool,
    ) -> bool {
        let ReadSample { time, values, problems } = sample;
        let mut findings = problems.clone();
        let note = |level: Level, code: &str, message: String| {
            let mut note = Diagnostic::about_file(code, shown, message).with_level(level);
            note.place = Some(daesy_graph::source::Place { file: shown.to_owned(), line: line as u32, column: 1 });
            note
        };
        if self.filters.live().time() == Some(*time)
            && let Some((marks, tests)) = self.before.take()
        {
            self.filters.return_to(marks);
            self.tests = tests;
            let message = format!("a sample at t = {time} came already: this one takes its place, as the last one");
            findings.push(note(Level::Note, "repeated-sample", message));
            summary.n_samples -= 1;
            summary.n_left_out += 1;
        }
        if let Some(last) = self.filters.live().time() {
            // What a state has seen already is passed over without a word for each.
            if summary.n_samples == 0 && summary.resumed_at == Some(last) && *time <= last {
                summary.n_known += 1;
                return true;
            }
            if *time == last {
                let message = format!("a sample at t = {time} came already: this one is left out");
                findings.push(note(Level::Warning, "repeated-sample", message));
                return summary.leave_out(tell, Some(*time), findings);
            }
            if *time < last {
                let message = format!(
                    "the clock went back from t = {last} to {time}, or the sample is late: it is left out, and the \
                     filter stays at t = {last}"
                );
                findings.push(note(Level::Warning, "late-sample", message));
                return summary.leave_out(tell, Some(*time), findings);
            }
            if let Some(usual) = self.usual.filter(|usual| *time - last > 1.5 * usual) {
                let n = ((*time - last) / usual).round() - 1.0;
                let message = format!("{n} samples are missing between t = {last} and {time}: predicted across");
                findings.push(note(Level::Note, "missing-samples", message));
            }
            self.usual = self.usual.or(Some(*time - last));
        }
        let n_inputs = self.names.inputs.len();
        let mut inputs = values[..n_inputs].to_vec();
        for (at, input) in inputs.iter_mut().enumerate().filter(|(_, value)| value.is_nan()) {
            let name = &self.names.inputs[at].name;
            *input = self.filters.live().inputs().get(at).copied().unwrap_or(0.0);
            let message = format!("the input `{name}` has no value at t = {time}: the one before, {input}, is held");
            findings.push(note(Level::Warning, "input-missing-sample", message));
        }
        let mut measured = self.names.measurements.iter().zip(&values[n_inputs..]);
        if let Some((signal, value)) = measured.find(|(_, value)| value.abs() > LARGEST) {
            let message = format!(
                "`{}` is {value:e} at t = {time}, too large to be counted with: the sample is left out, and the filter \
                 stays where it was",
                signal.name
            );
            findings.push(note(Level::Error, "value-too-large", message));
            return summary.leave_out(tell, Some(*time), findings);
        }
        let live_sample = LiveSample { time: *time, inputs: &inputs, measurements: &values[n_inputs..] };
        let before = self.keeps_last.then(|| (self.filters.marks(), self.tests.clone()));
        let update = match self.filters.update(&live_sample) {
            Ok(update) => update,
            Err(error @ LiveError::BeforeStart { .. }) => {
                findings.push(note(Level::Note, "early-sample", format!("{error}: it is left out")));
                return summary.leave_out(tell, Some(*time), findings);
            }
            Err(error) => {
                let message = format!("{error}: the sample is left out, and the filter stays where it was");
                findings.push(note(Level::Error, "filter-broke", message));
                return summary.leave_out(tell, Some(*time), findings);
            }
        };
        self.before = before;
        if summary.n_samples == 0 && summary.resumed_at.is_none() {
            let names: Vec<String> = self.names.measurements.iter().map(|column| column.name.clone()).collect();
            let held = self.filters.live().held_slopes().named(&names, &self.names.signals);
            findings.extend(held.iter().map(|[name, input]| {
                let message = format!(
                    "`{name}` holds the derivative of the input `{input}`, which bends at samples: it is taken with the \
                     slope before a sample, and left out at the first; `estimate` knows the slope after it"
                );
                note(Level::Note, "slope-before-sample", message)
            }));
        }
        let Update { first: update, ratios, no_longer, not_looked_for } = update;
        if let Some(error) = no_longer {
            let message = format!("{error}: the uncertainty of parameters is no longer counted");
            findings.push(note(Level::Warning, "parameter-uncertainty", message));
        }
        for (at, error) in not_looked_for {
            let Fault { name, value, .. } = &self.faults[at];
            let message = format!("{error} if `{name}` is {value}: this fault is not looked for in the sample");
            findings.push(note(Level::Warning, "fault-filter", message));
        }
        let normalized: Vec<f64> = update.innovations.iter().map(|innovation| innovation.normalized).collect();
        let mut alarms = self.tests.take(&normalized);
        alarms.extend(self.tests.take_faults(&ratios));
        summary.n_samples += 1;
        summary.n_alarms += alarms.len();
        let estimates = self.named(&update.estimates);
        let innovations = self.names.measurements.iter().zip(&normalized);
        let innovations = innovations.map(|(signal, value)| (signal.name.clone(), number(*value))).collect();
        let alarms = alarms.iter().map(|alarm| self.alarm(alarm, &normalized)).collect();
        let ahead = self.ahead(&mut findings, &note);
        let mut told = object(Some(*time), estimates, innovations, alarms, &findings);
        if let (Some(ahead), Value::Object(keys)) = (ahead, &mut told) {
            keys.insert("horizon".into(), ahead);
        }
        tell(&told)
    }

    fn named(&self, estimates: &[Estimate]) -> Map<String, Value> {
        let pairs = self.names.signals.iter().zip(estimates);
        pairs.map(|(name, found)| (name.clone(), json!([number(found.mean), number(found.std)]))).collect()
    }

    /// An alarm at a sample with these normalized innovations.
    fn alarm(&self, alarm: &Alarm, normalized: &[f64]) -> Value {
        match *alarm {
            Alarm::ChiSquare { value, threshold } => {
                let tested = self.names.measurements.iter().zip(normalized).filter(|(_, z)| z.is_finite());
                let names: Vec<&String> = tested.map(|(signal, _)| &signal.name).collect();
                json!({ "test": "chi-square", "names": names, "value": value, "threshold": threshold })
            }
            Alarm::Fault { fault, value, threshold } => {
                let Fault { name, value: assumed, .. } = &self.faults[fault];
                json!({
                    "test": "fault", "names": [name], "assumed": assumed, "value": value, "threshold": threshold,
                })
            }
            Alarm::Cusum { signal, is_up, value, threshold } => json!({
                "test": "cusum", "names": [self.names.measurements[signal].name],
                "side": if is_up { "above" } else { "below" }, "value": value, "threshold": threshold,
            }),
        }
    }

    /// Predictions from here, where they are asked for.
    fn ahead(
        &mut self,
        findings: &mut Vec<Diagnostic>,
        note: &dyn Fn(Level, &str, String) -> Diagnostic,
    ) -> Option<Value> {
        let horizon = self.settings.horizon?;
        let now = self.filters.live().time()?;
        let Some(points) =
            future_points(self.names, self.settings, self.filters.live().inputs(), now, horizon, self.usual)
        else {
            let message = "nothing is predicted before the distance of samples is known".to_owned();
            findings.push(note(Level::Note, "no-horizon", message));
            return None;
        };
        match self.filters.predict(&points.times, &points.inputs) {
            Ok(found) => {
                let column = |at: usize, of: &dyn Fn(&Estimate) -> f64| -> Vec<Value> {
                    found.iter().map(|row| number(of(&row[at]))).collect()
                };
                let mut estimates = Map::new();
                for (at, name) in self.names.signals.iter().enumerate() {
                    let (value, std) = (column(at, &|found| found.mean), column(at, &|found| found.std));
                    estimates.insert(name.clone(), json!({ "value": value, "std": std }));
                }
                Some(json!({ "t": points.times, "estimates": estimates }))
            }
            Err(error) => {
                findings.push(note(Level::Warning, "no-horizon", format!("{error}: nothing is predicted")));
                None
            }
        }
    }
}

/// Times and inputs of a prediction.
pub(crate) struct FuturePoints {
    pub(crate) times: Vec<f64>,
    pub(crate) inputs: Vec<Vec<f64>>,
}

/// The points of a prediction: the rows of future inputs within the horizon, or points at the usual distance under
/// inputs that are held; nothing where that distance is not known.
pub(crate) fn future_points(
    names: &LiveNames,
    settings: &WatchSettings,
    held: &[f64],
    now: f64,
    horizon: f64,
    usual: Option<f64>,
) -> Option<FuturePoints> {
    if let Some(future) = &settings.future {
        let within = |time: &f64| *time > now && *time <= now + horizon * (1.0 + 1e-12);
        let rows: Vec<usize> = (0..future.times.len()).filter(|&row| within(&future.times[row])).collect();
        let value = |row: usize, at: usize| {
            let column = future.column(&names.inputs[at].column);
            column.map_or(held[at], |column| column[row])
        };
        let inputs = rows.iter().map(|&row| (0..held.len()).map(|at| value(row, at)).collect()).collect();
        return Some(FuturePoints { times: rows.iter().map(|&row| future.times[row]).collect(), inputs });
    }
    let n = (horizon / usual? - 1e-9).ceil().clamp(1.0, MAX_POINTS as f64) as usize;
    let step = if horizon / usual? > MAX_POINTS as f64 { horizon / n as f64 } else { usual? };
    let times = (1..=n).map(|at| if at == n { now + horizon } else { now + at as f64 * step }).collect();
    Some(FuturePoints { times, inputs: vec![held.to_vec(); n] })
}

/// Future inputs from a table that is written as the study's data are.
///
/// # Errors
/// When it cannot be read.
pub fn future_inputs(loaded: &Loaded, file: Option<&Path>) -> Result<Option<Data>, Failure> {
    let Some(file) = file else { return Ok(None) };
    let mut loaded = loaded.clone();
    loaded.data.clear();
    if let Some(study) = &mut loaded.study {
        // Nothing is measured there.
        study.measurements.clear();
    }
    loaded.use_data_files(&[file.to_path_buf()])?;
    let data = loaded.experiment(0)?;
    let missing =
        LiveNames::inputs_of(study_of(&loaded)?).into_iter().find(|input| data.column(&input.column).is_none());
    if let Some(input) = missing {
        let message = format!("the future inputs have no column `{}` for `{}`", input.column, input.name);
        let wrong = Diagnostic::about_file("data-column", &file.display().to_string(), message);
        return Err(Failure::Input(vec![wrong.with_help(format!("columns: {}", data.names.join(", ")))]));
    }
    Ok(Some(data))
}

/// Signals beyond a record.
#[derive(Clone, PartialEq, Debug)]
pub struct Prediction {
    /// Times.
    pub times: Vec<f64>,
    /// `[time][signal]`.
    pub estimates: Vec<Vec<Estimate>>,
}

/// Predicts the signals beyond the end of each record, from the filter at its last sample.
///
/// # Errors
/// When the filter gives up.
pub fn predict_beyond(loaded: &Loaded, mut watched: Watched) -> Result<Vec<Prediction>, Failure> {
    let (names, settings, spread) = (watched.names.clone(), watched.settings.clone(), watched.spread.clone());
    let (horizon, sources) = (settings.horizon.unwrap_or(0.0), watched.sources());
    let mut all = Vec::new();
    for data in loaded.experiments()? {
        let columns = watched.columns();
        let row = |at: usize| -> Vec<f64> {
            columns.iter().map(|column| data.column(column).map_or(f64::NAN, |values| values[at])).collect()
        };
        let first = ReadSample { time: data.times[0], values: row(0), problems: Vec::new() };
        let usual = shortest_distance(&data.times);
        let model = watched.model(&first)?;
        let found = with_filters(model, &[], spread.as_ref(), |mut filters| -> Result<Prediction, LiveError> {
            for (at, &time) in data.times.iter().enumerate() {
                let values = row(at);
                let (inputs, measurements) = values.split_at(names.inputs.len());
                filters.update(&LiveSample { time, inputs, measurements })?;
            }
            let now = data.times[data.times.len() - 1];
            let held = filters.live().inputs().to_vec();
            let points = future_points(&names, &settings, &held, now, horizon, usual.or(Some(horizon)));
            let FuturePoints { times, inputs } =
                points.unwrap_or(FuturePoints { times: Vec::new(), inputs: Vec::new() });
            let estimates = filters.predict(&times, &inputs)?;
            Ok(Prediction { times, estimates })
        });
        all.push(found.and_then(|found| found).map_err(|error| explained(model, &sources, error))?);
    }
    Ok(all)
}

fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { Value::Null }
}

/// Lists as one, with their lengths before them.
fn packed(lists: &[Vec<f64>]) -> Vec<f64> {
    let mut all = vec![lists.len() as f64];
    all.extend(lists.iter().map(|list| list.len() as f64));
    all.extend(lists.iter().flatten());
    all
}

fn unpacked(numbers: &[f64]) -> Option<Vec<Vec<f64>>> {
    let (&n, rest) = numbers.split_first()?;
    let lengths = rest.get(..n as usize)?.to_vec();
    let mut rest = &rest[n as usize..];
    let mut lists = Vec::new();
    for length in lengths {
        lists.push(rest.get(..length as usize)?.to_vec());
        rest = &rest[length as usize..];
    }
    rest.is_empty().then_some(lists)
}
