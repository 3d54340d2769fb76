//! `daesy simulate`: one trajectory, or one for each point of a sweep over parameters.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use daesy_integrate::Method;
use daesy_study::limits;
use daesy_system::Watch;
use rayon::prelude::*;
use serde_json::{Map, Value, json};

use super::{Answer, FileArgs, Setting, SimulateArgs, Status, cannot_write, load_for, table_kind, write_report};
use crate::diagnostic::Diagnostic;
use crate::failure::Failure;
use crate::file::write_whole;
use crate::load::Loaded;
use crate::report::Page;
use crate::report::chart::{Chart, Series, TIME};
use crate::simulate::page::SimulationPage;
use crate::simulate::{self, Broken, PassedRows, Simulator, Trajectory};
use crate::table::{RowWriter, Table, TableKind, to_bytes};

pub(super) fn simulate_verb(args: &SimulateArgs) -> Answer {
    let answer = Answer::new("simulate");
    match table_kind(args.file.output.as_deref()) {
        Ok(kind) if args.file.set.iter().any(|setting| setting.is_range) => sweep(args, kind, answer),
        Ok(kind) => simulate_one(args, kind, answer),
        Err(diagnostic) => answer.fail(Status::Usage, vec![*diagnostic]),
    }
}

/// Reads the model with the method and the longest step that the command line asks for.
fn load(args: &SimulateArgs) -> Result<Loaded, Failure> {
    let mut loaded = load_for(&args.file, "simulate")?;
    loaded.integration.method = Method::ALL.into_iter().find(|method| Some(method.word()) == args.method.as_deref());
    loaded.integration.max_step = args.max_step;
    Ok(loaded)
}

fn simulate_one(args: &SimulateArgs, kind: TableKind, mut answer: Answer) -> Answer {
    let mut loaded = match load(args) {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    let args = &args.file;
    answer.model = Some(loaded.flat.model.clone());
    answer.diagnostics = loaded.diagnostics.clone();
    let mut bar = Bar::start(args, &mut loaded);
    let run = run_one(args, kind, &loaded);
    bar.end();
    let (result, passed) = match run {
        Ok(run) => run,
        Err(failure) => return answer.refused_of(&loaded, failure),
    };
    let (mut trajectory, broken) = match result {
        Ok(trajectory) => (trajectory, None),
        Err(Broken { failure, part: Some(part) }) => (*part, Some(failure)),
        Err(Broken { failure, part: None }) => return answer.refused_of(&loaded, failure),
    };
    answer.keys = trajectory.to_json();
    if broken.is_some() {
        answer.keys.insert("ended_at".into(), json!(trajectory.simulation.times.last()));
    }
    answer.text = trajectory.to_text(&loaded.flat.model);
    answer.diagnostics.extend(loaded.open_inputs());
    answer.diagnostics.extend(loaded.held_disturbances());
    answer.diagnostics.extend(trajectory.diagnostics.iter().cloned());
    answer.distinct(&mut trajectory.table);
    if let Some(path) = &args.output {
        let written = match &passed {
            Some(rows) => rows.end(),
            None => write_whole(path, &to_bytes(&trajectory.table, kind)),
        };
        if let Err(error) = written {
            return answer.fail(Status::Fault, vec![cannot_write(path, &error)]);
        }
        answer.text.push_str(&format!("Wrote {}.\n", path.display()));
    } else if !args.common.json && args.report.is_none() && args.caller.source.is_none() {
        answer.text = trajectory.table.to_csv();
    }
    if let Some(path) = &args.report {
        let data = if loaded.has_data() { loaded.experiment(0).ok() } else { None };
        let about = SimulationPage {
            flat: &loaded.flat,
            study: loaded.study.as_ref(),
            data: data.as_ref(),
            trajectory: &trajectory,
        };
        if let Err(diagnostic) = write_report(args, path, about.page().warning(&answer.diagnostics)) {
            return answer.fail(Status::Fault, vec![*diagnostic]);
        }
        answer.text.push_str(&format!("Wrote {}.\n", path.display()));
    }
    let last = trajectory.simulation.times.last().copied().unwrap_or_default();
    answer.table = passed.is_none().then_some(trajectory.table);
    let Some(failure) = broken else { return answer };
    if args.output.is_some() || args.report.is_some() {
        answer.text.push_str(&format!("The simulation failed: the table ends at t = {last}.\n"));
    }
    answer.refused(failure)
}

/// One trajectory, and where its rows went unless they were kept for a page, for the terminal, or for a caller in the
/// same process.
fn run_one(
    args: &FileArgs,
    kind: TableKind,
    loaded: &Loaded,
) -> Result<(Result<Trajectory, Broken>, Option<PassedRows>), Failure> {
    let is_table_read =
        args.report.is_some() || args.caller.source.is_some() || args.output.is_none() && !args.common.json;
    let is_of_rows = |path: &PathBuf| kind != TableKind::Mat && (path.is_file() || !path.exists());
    let can_pass = !is_table_read && args.output.as_ref().is_none_or(is_of_rows);
    let simulator = Simulator::with_rows(loaded, !can_pass)?;
    let kept = |simulator: Simulator| Ok((simulator.run_as_far_as_possible(&simulator.options), None));
    if !can_pass || simulator.needs_rows() {
        return kept(simulator);
    }
    let Some(path) = &args.output else {
        let rows = PassedRows::default();
        return Ok((simulator.run_passing(&rows), Some(rows)));
    };
    let mut table = Table { names: simulator.names(), columns: Vec::new() };
    table.make_names_distinct();
    let failed = |error: std::io::Error| Failure::Input(vec![cannot_write(path, &error)]);
    let Some(writer) = RowWriter::new(path, kind, table.names).map_err(failed)? else { return kept(simulator) };
    let rows = PassedRows::written(&simulator, writer);
    let result = simulator.run_passing(&rows);
    if rows.has_failed() {
        rows.end().map_err(failed)?;
    }
    Ok((result, Some(rows)))
}

/// The share of a long simulation that is done, on standard error where that is a terminal.
struct Bar {
    worker: Option<std::thread::JoinHandle<()>>,
    is_over: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Bar {
    fn start(args: &FileArgs, loaded: &mut Loaded) -> Self {
        use std::sync::atomic::Ordering;
        let is_over = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        if args.common.quiet || args.caller.source.is_some() || !std::io::stderr().is_terminal() {
            return Self { worker: None, is_over };
        }
        if args.time_limit.is_none() {
            loaded.watch = Watch::new();
        }
        let watch = loaded.watch.clone();
        let flag = is_over.clone();
        let worker = std::thread::spawn(move || {
            let mut has_shown = false;
            for tick in 0u64.. {
                std::thread::sleep(std::time::Duration::from_millis(50));
                if flag.load(Ordering::Relaxed) {
                    break;
                }
                // Short runs show nothing.
                let progress = watch.progress();
                if tick >= 20 && tick % 4 == 0 && progress.n_total > 0 {
                    eprint!("\r{:3} %", 100 * progress.n_done / progress.n_total);
                    has_shown = true;
                }
            }
            if has_shown {
                eprint!("\r      \r");
            }
        });
        Self { worker: Some(worker), is_over }
    }

    fn end(&mut self) {
        self.is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// One point of a sweep.
struct Run {
    values: Vec<f64>,
    trajectory: Option<Trajectory>,
    failure: Option<Failure>,
}

/// The values of the ranges at one point, the last range running fastest.
fn point_of(ranges: &[&Setting], mut number: usize) -> Vec<f64> {
    let mut values = vec![0.0; ranges.len()];
    for (value, range) in values.iter_mut().zip(ranges).rev() {
        *value = range.values[number % range.values.len()];
        number /= range.values.len();
    }
    values
}

/// The arguments at one point of a sweep.
fn args_at(args: &SimulateArgs, ranges: &[&Setting], values: &[f64]) -> SimulateArgs {
    let mut args = args.clone();
    for setting in args.file.set.iter_mut().filter(|setting| setting.is_range) {
        if let Some(at) = ranges.iter().position(|range| range.name == setting.name) {
            *setting = Setting { name: setting.name.clone(), values: vec![values[at]], is_range: false };
        }
    }
    args
}

fn run_at(args: &SimulateArgs, ranges: &[&Setting], number: usize) -> Run {
    let values = point_of(ranges, number);
    let run = load(&args_at(args, ranges, &values)).map_err(|failure| Broken { failure, part: None });
    match run.and_then(|loaded| simulate::simulate_as_far_as_possible(&loaded)) {
        Ok(trajectory) => Run { values, trajectory: Some(trajectory), failure: None },
        Err(Broken { failure, part }) => Run { values, trajectory: part.map(|part| *part), failure: Some(failure) },
    }
}

/// A trajectory for every combination of the values of all ranges, in one table: time, the parameters of the sweep, and
/// all variables.
fn sweep(args: &SimulateArgs, kind: TableKind, mut answer: Answer) -> Answer {
    let ranges: Vec<&Setting> = args.file.set.iter().filter(|setting| setting.is_range).collect();
    let n_runs = ranges.iter().map(|range| range.values.len() as u64).try_fold(1u64, u64::checked_mul);
    let n_runs = n_runs.unwrap_or(u64::MAX);
    let usage = |message: String| Diagnostic::error("usage", message);
    if let Err(refusal) = limits::at_most("the number of simulations", n_runs, limits::MAX_GRID_POINTS) {
        return answer.fail(Status::Usage, vec![usage(refusal.message).with_help(refusal.help)]);
    }
    let names: Vec<&str> = ranges.iter().map(|range| range.name.as_str()).collect();
    let count = |name: &str| args.file.set.iter().filter(|setting| setting.name == name).count();
    if let Some(name) = names.iter().find(|name| count(name) > 1) {
        return answer
            .fail(Status::Usage, vec![usage(format!("--set {name}: it has a range and other values beside it"))]);
    }
    // What is wrong with every point is told once, by the first one.
    let first = run_at(args, &ranges, 0);
    if let Run { trajectory: None, failure: Some(failure), .. } = first {
        return answer.refused(failure);
    }
    let n_cells = first.trajectory.as_ref().map_or(0.0, |one| one.table.n_rows() as f64 * n_runs as f64);
    let n_columns = first.trajectory.as_ref().map_or(0, |one| one.table.names.len() + names.len());
    if let Err(refusal) = limits::output_rows(n_cells, n_columns) {
        let diagnostic = Diagnostic::error(refusal.code, refusal.message).with_help(refusal.help);
        return answer.fail(Status::Fault, vec![diagnostic]);
    }
    let others = (1..n_runs as usize).into_par_iter().map(|number| run_at(args, &ranges, number));
    let runs: Vec<Run> = std::iter::once(first).chain(others.collect::<Vec<Run>>()).collect();
    tell_sweep(args, kind, &names, runs, &mut answer);
    answer
}

/// Puts the runs of a sweep into one table, and what went wrong into findings.
fn tell_sweep(args: &SimulateArgs, kind: TableKind, names: &[&str], runs: Vec<Run>, answer: &mut Answer) {
    let mut told = Vec::new();
    let mut table = Table { names: Vec::new(), columns: Vec::new() };
    let (mut steps, mut rejected) = (0, 0);
    for run in &runs {
        let set: Map<String, Value> =
            names.iter().zip(&run.values).map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let point: Vec<String> =
            names.iter().zip(&run.values).map(|(name, value)| format!("{name} = {value}")).collect();
        let first_row = table.n_rows();
        let mut ended_at = Value::Null;
        if let Some(trajectory) = &run.trajectory {
            append(&mut table, names, run, &trajectory.table);
            steps += trajectory.simulation.steps;
            rejected += trajectory.simulation.rejected;
            if run.failure.is_some() {
                ended_at = json!(trajectory.simulation.times.last());
            }
            for diagnostic in &trajectory.diagnostics {
                if !answer
                    .diagnostics
                    .iter()
                    .any(|known| known.code == diagnostic.code && known.place == diagnostic.place)
                {
                    answer.diagnostics.push(diagnostic.clone());
                }
            }
        }
        if let Some(failure) = &run.failure {
            let status = match failure {
                Failure::Usage(_) => Status::Usage,
                Failure::Input(_) => Status::Fault,
                Failure::Method(_) => Status::GaveUp,
            };
            if answer.status == Status::Done {
                answer.status = status;
            }
            answer.diagnostics.extend(failure.clone().within(&point.join(", ")).diagnostics().iter().cloned());
        }
        told.push(json!({
            "set": set,
            "first_row": first_row,
            "rows": table.n_rows() - first_row,
            "ended_at": ended_at,
        }));
    }
    let axes: Map<String, Value> = args
        .file
        .set
        .iter()
        .filter(|one| one.is_range)
        .map(|range| (range.name.clone(), json!(range.values)))
        .collect();
    answer.keys.insert("sweep".into(), json!({ "parameters": axes, "runs": told }));
    answer.keys.insert("steps".into(), json!(steps));
    answer.keys.insert("rejected".into(), json!(rejected));
    answer.distinct(&mut table);
    answer.text = format!("{} simulations, {} rows, {} columns.\n", runs.len(), table.n_rows(), table.names.len());
    write_sweep(args, kind, names, &table, answer);
    answer.table = Some(table);
}

/// Adds the rows of one run.
fn append(table: &mut Table, names: &[&str], run: &Run, rows: &Table) {
    if table.names.is_empty() {
        let swept = names.iter().map(|name| (*name).to_owned());
        table.names = std::iter::once("t".to_owned()).chain(swept).chain(rows.names[1..].iter().cloned()).collect();
        table.columns = vec![Vec::new(); table.names.len()];
    }
    // A structural parameter may bring variables that earlier runs do not have.
    let known: std::collections::HashSet<&str> = table.names.iter().map(String::as_str).collect();
    let new: Vec<String> = rows.names[1..].iter().filter(|name| !known.contains(name.as_str())).cloned().collect();
    table.columns.resize(table.names.len() + new.len(), vec![f64::NAN; table.n_rows()]);
    table.names.extend(new);
    let n_rows = rows.n_rows();
    for (name, column) in table.names.iter().zip(&mut table.columns) {
        let swept = names.iter().position(|swept| swept == name);
        match (swept, rows.column(name)) {
            (Some(at), _) => column.extend(std::iter::repeat_n(run.values[at], n_rows)),
            (None, Some(values)) => column.extend_from_slice(values),
            // A structural parameter may take variables away.
            (None, None) => column.extend(std::iter::repeat_n(f64::NAN, n_rows)),
        }
    }
}

/// Writes the table and the page of a sweep.
fn write_sweep(whole: &SimulateArgs, kind: TableKind, names: &[&str], table: &Table, answer: &mut Answer) {
    let args = &whole.file;
    let mut wrong = Vec::new();
    if let Some(path) = &args.output {
        match write_whole(path, &to_bytes(table, kind)) {
            Ok(()) => answer.text.push_str(&format!("Wrote {}.\n", path.display())),
            Err(error) => wrong.push(cannot_write(path, &error)),
        }
    } else if !args.common.json && args.report.is_none() && args.caller.source.is_none() {
        answer.text = table.to_csv();
    }
    if let Some(path) = &args.report {
        let ranges: Vec<&Setting> = args.set.iter().filter(|setting| setting.is_range).collect();
        let first = load(&args_at(whole, &ranges, &point_of(&ranges, 0)));
        let mut page = match &first {
            Ok(loaded) => Page::new(&format!("Sweep of {}", loaded.flat.model)).about(loaded),
            Err(_) => Page::new("Sweep"),
        };
        page.paragraph(&format!("Simulations for all combinations of {}.", names.join(", ")));
        add_sweep_charts(&mut page, names, table, answer);
        match write_report(args, path, page.warning(&answer.diagnostics)) {
            Ok(()) => answer.text.push_str(&format!("Wrote {}.\n", path.display())),
            Err(diagnostic) => wrong.push(*diagnostic),
        }
    }
    if !wrong.is_empty() {
        answer.status = Status::Fault;
        answer.diagnostics.extend(wrong);
    }
}

/// One picture per variable that matters with a line for each run, as many as can be told apart.
fn add_sweep_charts(page: &mut Page, names: &[&str], table: &Table, answer: &Answer) {
    const MOST_LINES: usize = 8;
    const MOST_CHARTS: usize = 40;
    let runs = answer.keys.get("sweep").and_then(|sweep| sweep["runs"].as_array()).cloned().unwrap_or_default();
    let stride = runs.len().div_ceil(MOST_LINES).max(1);
    let mut chosen: Vec<usize> = Vec::new();
    for at in page.glossary().that_matter(&table.names[1..]).into_iter().map(|at| at + 1) {
        if !chosen.contains(&at) && !names.contains(&table.names[at].as_str()) {
            chosen.push(at);
        }
    }
    for at in chosen.into_iter().take(MOST_CHARTS) {
        let (name, column) = (&table.names[at], &table.columns[at]);
        let line = |(color, run): (usize, &Value)| {
            let first = run["first_row"].as_u64().unwrap_or(0) as usize;
            let last = first + run["rows"].as_u64().unwrap_or(0) as usize;
            let label: Vec<String> = names.iter().map(|name| format!("{name} = {}", run["set"][*name])).collect();
            Series::line(&label.join(", "), &table.columns[0][first..last], &column[first..last], color)
        };
        let series = runs.iter().step_by(stride).enumerate().map(line).collect();
        let (y_label, words) = (page.glossary().label(name), page.glossary().words(name));
        let chart = Chart { title: name.clone(), x_label: TIME.to_owned(), y_label, series, ..Chart::default() };
        page.figure(&chart, &format!("{words} over time."));
    }
}
