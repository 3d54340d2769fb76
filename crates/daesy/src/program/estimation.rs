//! The verbs that need data: `identify`, `cost` and `estimate`.

use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use daesy_graph::finding::Level;
use daesy_graph::source::Place;
use daesy_system::Watch;
use signal_hook::consts::SIGINT;
use signal_hook::flag::{register, register_conditional_shutdown};

use super::{
    Answer, CostArgs, EstimateArgs, FileArgs, IdentifyArgs, Status, cannot_write, load_for, missing_folder, table_kind,
};
use crate::cost::{CostOptions, cost};
use crate::diagnostic::Diagnostic;
use crate::estimate::{estimate, estimate_identified};
use crate::failure::Failure;
use crate::file::write_whole;
use crate::identify::compare::{self, Compared, Comparison};
use crate::identify::posterior::{PosteriorOptions, posterior};
use crate::identify::{Identification, IdentifyOptions, identify};
use crate::load::Loaded;
use crate::report::Page;
use crate::report::words::text_table;
use crate::table::{Table, TableKind, to_bytes};
use crate::watch::{WatchSettings, Watched, future_inputs, predict_beyond};

/// Time between two lines of progress where standard error is not a terminal.
const PAUSE: Duration = Duration::from_secs(10);

/// Progress on standard error: a line that is written over and over in a terminal, else a line now and then.
struct Line {
    kind: LineKind,
    width: usize,
}

enum LineKind {
    Nothing,
    Terminal,
    /// When the last line was written, or the work begun.
    File(Instant),
}

impl Line {
    fn new(args: &FileArgs) -> Self {
        let kind = if args.common.quiet || args.caller.source.is_some() {
            LineKind::Nothing
        } else if std::io::stderr().is_terminal() {
            LineKind::Terminal
        } else {
            LineKind::File(Instant::now())
        };
        Self { kind, width: 0 }
    }

    fn show(&mut self, text: &str) {
        match &mut self.kind {
            LineKind::Nothing => {}
            LineKind::Terminal => {
                let padding = " ".repeat(self.width.saturating_sub(text.chars().count()));
                let _ = write!(std::io::stderr(), "\r{text}{padding}");
                self.width = text.chars().count();
            }
            LineKind::File(last) if last.elapsed() >= PAUSE => {
                let _ = writeln!(std::io::stderr(), "{text}");
                *last = Instant::now();
            }
            LineKind::File(_) => {}
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.width > 0 {
            let _ = write!(std::io::stderr(), "\r{}\r", " ".repeat(self.width));
        }
    }
}

/// A watch that an interrupt (Ctrl-C) stops as the one given does, so that what was found so far can be told; the next one ends the program
/// at once, with the status of shells for it.
fn interruptible(limit: Watch) -> Watch {
    const STATUS: i32 = 130;
    let is_interrupted = Arc::new(AtomicBool::new(false));
    let registered = register_conditional_shutdown(SIGINT, STATUS, is_interrupted.clone())
        .and_then(|_| register(SIGINT, is_interrupted.clone()));
    match registered {
        Ok(_) => Watch::asking(move || is_interrupted.load(Ordering::Relaxed) || limit.is_stopped()),
        Err(_) => limit,
    }
}

impl IdentifyArgs {
    pub(super) fn options(&self) -> IdentifyOptions {
        IdentifyOptions {
            method: self.method.clone(),
            n_starts: self.starts,
            with_profiles: self.profile,
            seed: self.file.common.seed,
            checkpoint: self.checkpoint.clone(),
            threads: self.file.common.threads,
        }
    }
}

impl CostArgs {
    pub(super) fn options(&self) -> CostOptions {
        CostOptions {
            method: self.method.clone(),
            seed: self.file.common.seed,
            checkpoint: self.checkpoint.clone(),
            threads: self.file.common.threads,
        }
    }
}

/// What all verbs of this kind begin with.
pub(super) struct Begun {
    pub(super) answer: Answer,
    pub(super) kind: TableKind,
    pub(super) loaded: Loaded,
}

impl Begun {
    pub(super) fn new(verb: &'static str, args: &FileArgs) -> Result<Self, Box<Answer>> {
        let mut answer = Answer::new(verb);
        let kind = match table_kind(args.output.as_deref()) {
            Ok(kind) => kind,
            Err(diagnostic) => return Err(Box::new(answer.fail(Status::Usage, vec![*diagnostic]))),
        };
        if let Some(diagnostic) = missing_folder([&args.output, &args.report]) {
            return Err(Box::new(answer.fail(Status::Fault, vec![diagnostic])));
        }
        let loaded = match load_for(args, verb) {
            Ok(loaded) => loaded,
            Err(failure) => return Err(Box::new(answer.refused(failure))),
        };
        answer.model = Some(loaded.flat.model.clone());
        answer.diagnostics = loaded.diagnostics.clone();
        Ok(Self { answer, kind, loaded })
    }
}

impl Answer {
    /// A search that did not converge always says so, with how far it came.
    fn explain_the_end(&mut self, found: &Identification) {
        if self.diagnostics.iter().any(|diagnostic| diagnostic.level != Level::Note) {
            return;
        }
        let place: Vec<String> =
            found.parameters.iter().map(|parameter| format!("{} = {}", parameter.name, parameter.estimate)).collect();
        let message = format!(
            "the search did not converge: its value is {2:e} at {1} after {0} iterations",
            found.iterations,
            place.join(", "),
            found.cost
        );
        let warning = Diagnostic::new(Level::Warning, "not-converged", message);
        self.diagnostics.push(warning.with_help(
            "start closer, narrow the bounds, or look at the start values: the measurements may be far from any \
                 prediction",
        ));
    }

    pub(super) fn refused(self, failure: Failure) -> Self {
        match failure {
            Failure::Usage(diagnostics) => self.fail(Status::Usage, diagnostics),
            Failure::Input(diagnostics) => self.fail(Status::Fault, diagnostics),
            Failure::Method(diagnostics) => self.fail(Status::GaveUp, diagnostics),
        }
    }

    /// Writes table and report; the first that fails is told.
    fn write_outputs(self, args: &FileArgs, kind: TableKind, table: Table, page: &Page) -> Self {
        self.write_files(args, kind, table, page, Vec::new())
    }

    /// Writes these files, table and report; the first that fails is told.
    pub(super) fn write_files<'a>(
        mut self,
        args: &'a FileArgs,
        kind: TableKind,
        mut table: Table,
        page: &Page,
        mut files: Vec<(&'a Path, Vec<u8>)>,
    ) -> Self {
        self.distinct(&mut table);
        if let Some(path) = &args.output {
            files.push((path, to_bytes(&table, kind)));
        }
        if let Some(path) = &args.report {
            files.push((
                path,
                page.clone().warning(&self.diagnostics).from_run(args.provenance()).to_html().into_bytes(),
            ));
        }
        for (path, bytes) in files {
            if let Err(error) = write_whole(path, &bytes) {
                return self.fail(Status::Fault, vec![cannot_write(path, &error)]);
            }
            self.text.push_str(&format!("Wrote {}.\n", path.display()));
        }
        self.table = Some(table);
        self
    }
}

/// Identifies several studies of the same data and compares them.
fn compare_verb(args: &IdentifyArgs) -> Answer {
    let mut answer = Answer::new("identify");
    let without = [
        ("-o", args.file.output.is_some()),
        ("--save", args.save.is_some()),
        ("--checkpoint", args.checkpoint.is_some()),
    ];
    if let Some((option, _)) = without.iter().find(|(_, is_asked)| *is_asked) {
        let message = format!("a comparison of several studies has no use for `{option}`");
        let diagnostic = Diagnostic::error("option", message).with_help("leave it out, or name one study");
        return answer.fail(Status::Usage, vec![diagnostic]);
    }
    let mut studies = Vec::new();
    for file in std::iter::once(&args.file.file).chain(&args.others) {
        let own = FileArgs { file: file.clone(), ..args.file.clone() };
        match load_for(&own, "identify").and_then(|loaded| with_validation(loaded, args)) {
            Ok(loaded) => studies.push((file.display().to_string(), loaded)),
            Err(failure) => return answer.refused(failure),
        }
    }
    if let Err(failure) = compare::require_same_data(&studies) {
        return answer.refused(failure);
    }
    let mut compared = Vec::new();
    for (file, loaded) in studies {
        let mut line = Line::new(&args.file);
        let found = identify(&loaded, &args.options(), &mut |text| line.show(&format!("{file}: {text}")));
        drop(line);
        // Which study a finding without a place is about.
        let told = |diagnostic: &Diagnostic| {
            let mut told = diagnostic.clone();
            told.place.get_or_insert_with(|| Place { file: file.clone(), line: 1, column: 1 });
            told
        };
        answer.diagnostics.extend(loaded.diagnostics.iter().cloned());
        match found {
            Ok(found) => {
                answer.diagnostics.extend(found.diagnostics.iter().map(told));
                if !found.converged {
                    answer.status = Status::GaveUp;
                    answer.explain_the_end(&found);
                }
                compared.push(Compared { file, found });
            }
            Err(failure) => return answer.refused(failure),
        }
    }
    let comparison = Comparison { studies: compared };
    let mut models: Vec<&str> = comparison.studies.iter().map(|study| study.found.model.as_str()).collect();
    models.dedup();
    answer.model = Some(models.join(", "));
    answer.diagnostics.extend(comparison.diagnostics());
    answer.keys = comparison.to_json();
    answer.text = comparison.to_text();
    if let Some(path) = &args.file.report {
        if let Err(error) = write_whole(path, comparison.page().to_html().as_bytes()) {
            return answer.fail(Status::Fault, vec![cannot_write(path, &error)]);
        }
        answer.text.push_str(&format!("Wrote {}.\n", path.display()));
    }
    answer
}

/// What was loaded, with the records for validation that the command names.
fn with_validation(mut loaded: Loaded, args: &IdentifyArgs) -> Result<Loaded, Failure> {
    if !args.validation.is_empty() {
        loaded.use_validation_files(&args.validation).map_err(Failure::Input)?;
    }
    Ok(loaded)
}

fn folder(path: &Path) -> Option<PathBuf> {
    std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_path_buf))
}

/// The kind of the file of draws. What is to be written must be of use before anything is computed for it: a study that
/// is saved must find its files, and know their kind.
fn draws_kind(args: &IdentifyArgs) -> Result<TableKind, Box<Diagnostic>> {
    let kind = table_kind(args.posterior_file.as_deref())?;
    let Some(save) = &args.save else { return Ok(kind) };
    // Paths in a study are relative to it.
    if args.file.caller.source.is_none() && folder(save) != folder(&args.file.file) {
        let diagnostic = Diagnostic::error("save", "a study that was identified is saved beside the original");
        return Err(Box::new(diagnostic.with_help("its paths are relative to its folder")));
    }
    if kind == TableKind::Mat && args.posterior_file.is_some() {
        let message = "a study that is saved names its draws, and reads them from .csv or .parquet only";
        let help = "give `--posterior-file` another ending, or leave out `--save`";
        return Err(Box::new(Diagnostic::error("save", message).with_help(help)));
    }
    Ok(kind)
}

pub(super) fn identify_verb(args: &IdentifyArgs) -> Answer {
    if !args.others.is_empty() {
        return compare_verb(args);
    }
    let Begun { mut answer, kind, loaded } = match Begun::new("identify", &args.file) {
        Ok(begun) => begun,
        Err(answer) => return *answer,
    };
    let draws_kind = match draws_kind(args) {
        Ok(kind) => kind,
        Err(diagnostic) => return answer.fail(Status::Usage, vec![*diagnostic]),
    };
    if let Some(diagnostic) = missing_folder([&args.posterior_file, &args.save]) {
        return answer.fail(Status::Fault, vec![diagnostic]);
    }
    let mut loaded = match with_validation(loaded, args) {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    if args.file.caller.source.is_none() {
        loaded.watch = interruptible(loaded.watch.clone());
    }
    let mut line = Line::new(&args.file);
    let mut options = args.options();
    let is_open = |study: &crate::study::Study| study.identify.method.as_deref().is_none_or(|method| method == "auto");
    if args.posterior.is_some() && options.method.is_none() && loaded.study.as_ref().is_some_and(is_open) {
        // A posterior needs a likelihood.
        options.method = Some("ml".to_owned());
    }
    let found = identify(&loaded, &options, &mut |text| line.show(text));
    drop(line);
    let found = match found {
        Ok(found) => found,
        Err(failure) => return answer.refused_of(&loaded, failure),
    };
    answer.keys = found.to_json();
    answer.text = found.to_text();
    answer.diagnostics.extend(loaded.open_inputs());
    answer.diagnostics.extend(found.diagnostics.iter().cloned());
    let estimates: Vec<(&str, f64)> =
        found.parameters.iter().map(|parameter| (parameter.name.as_str(), parameter.estimate)).collect();
    answer.tell_start(&loaded, &estimates);
    answer.tell_assertions(&loaded, &estimates);
    let mut page = Page::new(&format!("Identification of {}", found.model)).about(&loaded);
    found.add_to(&mut page);
    let mut files: Vec<(&Path, Vec<u8>)> = Vec::new();
    if let Some(n_draws) = args.posterior {
        let options = PosteriorOptions { n_draws, n_chains: args.chains, seed: args.file.common.seed };
        let mut line = Line::new(&args.file);
        line.show("sampling the posterior");
        let sampled = posterior(&loaded, &found, options);
        drop(line);
        let sampled = match sampled {
            Ok(sampled) => sampled,
            Err(failure) => return answer.refused(failure),
        };
        let shown = args.posterior_file.as_ref().map(|path| path.display().to_string());
        answer.keys.insert("posterior".into(), sampled.to_json(shown));
        answer.text.push_str(&text_table(&sampled.rows()));
        answer.diagnostics.extend(sampled.diagnostics.iter().cloned());
        if sampled.is_stopped {
            answer.status = Status::GaveUp;
        }
        sampled.add_to(&mut page);
        if let Some(path) = &args.posterior_file {
            files.push((path, to_bytes(&sampled.table(), draws_kind)));
        }
    }
    if !found.converged {
        answer.status = Status::GaveUp;
        answer.explain_the_end(&found);
    }
    if let (Some(path), Some(study)) = (&args.save, &loaded.study) {
        // Draws beside the study are named by their file.
        let draws = args.posterior_file.as_ref().filter(|_| args.posterior.is_some()).map(|draws| {
            let beside = draws.file_name().filter(|_| folder(draws) == folder(path)).map(Path::new);
            beside.map_or_else(|| std::path::absolute(draws).unwrap_or_default(), Path::to_path_buf)
        });
        let draws = draws.map(|draws| draws.display().to_string());
        if draws.is_none() {
            answer.diagnostics.extend(found.saved_beyond_bounds(&loaded));
        }
        match found.study_text(study, draws.as_deref()) {
            Ok(text) => files.push((path, text.into_bytes())),
            Err(diagnostic) => return answer.fail(Status::Fault, vec![*diagnostic]),
        }
    }
    answer.write_files(&args.file, kind, found.table(), &page, files)
}

pub(super) fn estimate_verb(args: &EstimateArgs) -> Answer {
    let Begun { mut answer, kind, loaded } = match Begun::new("estimate", &args.file) {
        Ok(begun) => begun,
        Err(answer) => return *answer,
    };
    let mut identified = None;
    if args.identify {
        let options = IdentifyOptions { seed: args.file.common.seed, ..IdentifyOptions::default() };
        let mut line = Line::new(&args.file);
        match identify(&loaded, &options, &mut |text| line.show(text)) {
            Ok(found) => {
                answer.diagnostics.extend(found.diagnostics.iter().cloned());
                identified = Some(found);
            }
            Err(failure) => {
                drop(line);
                return answer.refused(failure);
            }
        }
    }
    let seed = args.file.common.seed;
    let found = match &identified {
        Some(identified) => estimate_identified(&loaded, identified, seed),
        None => estimate(&loaded, None, seed),
    };
    let mut found = match found {
        Ok(found) => found,
        Err(failure) => return answer.refused(failure),
    };
    if let Some(horizon) = args.horizon {
        let settings = future_inputs(&loaded, args.future.as_deref()).map(|future| WatchSettings {
            horizon: Some(horizon),
            future,
            seed,
            ..WatchSettings::default()
        });
        let watched = settings.and_then(|settings| match &identified {
            None => Watched::new(&loaded, settings),
            Some(found) => Watched::identified(&loaded, settings, found),
        });
        match watched.and_then(|watched| predict_beyond(&loaded, watched)) {
            Ok(ahead) => found.extend(ahead),
            Err(failure) => return answer.refused(failure),
        }
    }
    answer.keys = found.to_json();
    answer.text = found.to_text();
    answer.diagnostics.extend(loaded.open_inputs());
    answer.diagnostics.extend(found.diagnostics.iter().cloned());
    let values: Vec<(&str, f64)> = (identified.iter().flat_map(|found| &found.parameters))
        .map(|parameter| (parameter.name.as_str(), parameter.estimate))
        .collect();
    answer.tell_start(&loaded, &values);
    answer.tell_assertions(&loaded, &values);
    let mut page = Page::new(&format!("Estimates of {}", found.model)).about(&loaded);
    found.add_to(&mut page);
    let mut table = found.table();
    answer.distinct(&mut table);
    if args.file.output.is_none()
        && !args.file.common.json
        && args.file.report.is_none()
        && args.file.caller.source.is_none()
    {
        answer.text = table.to_csv();
    }
    answer.write_outputs(&args.file, kind, table, &page)
}

pub(super) fn cost_verb(args: &CostArgs) -> Answer {
    let Begun { mut answer, kind, loaded } = match Begun::new("cost", &args.file) {
        Ok(begun) => begun,
        Err(answer) => return *answer,
    };
    let mut line = Line::new(&args.file);
    let found = cost(&loaded, &args.grid, &args.options(), &mut |text| line.show(text));
    drop(line);
    let found = match found {
        Ok(found) => found,
        Err(failure) => return answer.refused_of(&loaded, failure),
    };
    answer.keys = found.to_json();
    answer.text = found.to_text();
    answer.diagnostics.extend(loaded.open_inputs());
    answer.diagnostics.extend(found.diagnostics.iter().cloned());
    let first = found.axes.iter().filter_map(|axis| Some((axis.name.as_str(), *axis.values.first()?)));
    let first: Vec<(&str, f64)> = first.collect();
    answer.tell_start(&loaded, &first);
    answer.tell_assertions(&loaded, &first);
    let mut page = Page::new(&format!("Cost of {}", found.model)).about(&loaded);
    found.add_to(&mut page);
    answer.write_outputs(&args.file, kind, found.table(), &page)
}
