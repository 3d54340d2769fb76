//! The program: one verb per question.

mod answering;
mod arguments;
mod designing;
mod edge;
mod estimation;
mod examining;
mod first_steps;
mod instructions;
mod linearizing;
mod live;
mod quantifying;
mod simulating;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};
use daesy_foreign::process::WORKER_VERB;
use daesy_system::Watch;
use serde_json::Value;

use self::arguments::{
    Caller, Cli, CommonArgs, CompletionsArgs, CostArgs, DemoArgs, DesignArgs, EstimateArgs, FileArgs, IdentifyArgs,
    LinearizeArgs, ManArgs, NewArgs, Setting, SimulateArgs, Verb, WatchArgs,
};
use self::examining::{check_verb, describe_verb, export_verb, flatten_verb, regularize_verb};
use self::quantifying::uq_verb;
use crate::diagnostic::Diagnostic;
use crate::distribute::Elsewhere;
use crate::failure::Failure;
use crate::file::{check_target, write_whole};
use crate::load::{LoadOptions, Loaded, Native, check_types, load_source};
use crate::report::Page;
use crate::report::provenance::files_read;
use crate::source::Source;
use crate::table::TableKind;
use crate::uq::UqSettings;
use crate::{cost, demo, identify, uq};

pub use self::answering::{Answer, Status};
pub(crate) use self::examining::add_check;

/// Says how the program is started from a process that is another one, such as Python: units of other tools run in
/// processes of it.
pub fn set_program(words: Vec<OsString>) {
    daesy_foreign::process::set_program(words);
}

/// Lets the allocator keep up to 16 MiB of memory that was given back for what is asked for next.
///
/// That of the GNU library returns whatever is free at the end of its heaps to the system once it is more than 128 KiB,
/// and asks for the same pages again with the next matrices; programs of many short-lived matrices spend a quarter of
/// their time on that. From the largest block that was ever given back it learns better: twice as much is kept from
/// then on. Such a block is given back here. Nothing of it is touched, so that it costs no memory, and other allocators
/// take no notice.
pub fn keep_memory() {
    const LARGE: usize = 8 << 20;
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGE)));
}

/// Runs the program with the given arguments, the first of which is its own name.
pub fn run<I: IntoIterator<Item = OsString>>(arguments: I) -> Status {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|verb| verb == WORKER_VERB) {
        daesy_foreign::worker::serve();
        return Status::Done;
    }
    let mut cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            return edge::print_help(&error);
        }
        Err(error) => {
            edge::print_wrong_usage(&error);
            if arguments.iter().any(|argument| argument == "--json") {
                return wrong_usage(&arguments, &error).write_json();
            }
            return Status::Usage;
        }
    };
    let common = cli.verb.common();
    let command = cli.verb.word();
    if let Err(wrong) = instructions::limit() {
        return Answer::new(command).fail(Status::Usage, vec![*wrong]).tell(&common);
    }
    edge::quiet_panics();
    let answered = cli.verb.file_args().map(|args| edge::end_in_time(command, args, &common));
    let answer = edge::guard(command, || cli.verb.answer());
    if let Some(answered) = answered {
        edge::leave_to_clock(&answered);
    }
    answer.tell(&common)
}

/// Asks one question in this process: the answer is what the program would print for `daesy VERB FILE ARGUMENTS..`,
/// with the source in the place of the file. Nothing is printed. Long computations stop soon after the watch says so.
#[must_use]
pub fn ask(verb: &str, source: Source, arguments: &[String], watch: &Watch) -> Answer {
    ask_with(verb, source, arguments, watch, None)
}

/// The same question, with an executor to run independent evaluations.
#[must_use]
pub fn ask_with(
    verb: &str,
    source: Source,
    arguments: &[String],
    watch: &Watch,
    elsewhere: Option<Elsewhere>,
) -> Answer {
    match parse(verb, source, arguments, watch, elsewhere) {
        Ok(verb) => edge::guard(verb.word(), || verb.answer()),
        Err(wrong) => *wrong,
    }
}

/// Watches a stream in this process, as `daesy watch FILE ARGUMENTS..` does: `lines` gives its lines, `tell` takes the
/// object of each sample and says whether to go on. The answer comes when the stream ends.
#[must_use]
pub fn watch_stream(
    source: Source,
    arguments: &[String],
    watch: &Watch,
    lines: &mut dyn Iterator<Item = std::io::Result<String>>,
    tell: &mut dyn FnMut(&Value) -> bool,
) -> Answer {
    match parse("watch", source, arguments, watch, None) {
        Ok(Verb::Watch(args)) => edge::guard("watch", || live::watch_lines(&args, "the stream", lines, tell)),
        Ok(other) => other.answer(),
        Err(wrong) => *wrong,
    }
}

/// A question whose evaluations are asked for in shares: what is read and compiled once for all of them.
pub struct Share {
    verb: Verb,
    kept: Kept,
}

/// What a question keeps from share to share.
enum Kept {
    /// The model and the study.
    Loaded(Box<Loaded>),
    /// The compiled model.
    Simulations(Box<uq::Shares>),
}

impl Share {
    /// Reads a question; long work on it stops soon after the watch says so.
    ///
    /// # Errors
    /// The answer that the whole question would end with.
    pub fn new(verb: &str, source: Source, arguments: &[String], watch: &Watch) -> Result<Self, Box<Answer>> {
        let verb = parse(verb, source, arguments, watch, None)?;
        alone(|| {
            let (args, command) = verb.shared()?;
            let failed = |failure: Failure| Box::new(Answer::new(command).refused(failure).about(args));
            let loaded = load_for(args, command).map_err(failed)?;
            let kept = match &verb {
                Verb::Uq(args) => {
                    let settings = UqSettings { seed: args.file.common.seed, threads: Some(1), checkpoint: None };
                    Kept::Simulations(Box::new(uq::Shares::new(&loaded, &settings).map_err(failed)?))
                }
                _ => Kept::Loaded(Box::new(loaded)),
            };
            Ok(kept)
        })
        .map(|kept| Self { verb, kept })
    }

    /// For each point the numbers that its evaluation gives.
    ///
    /// # Errors
    /// The answer that the whole question would end with.
    pub fn evaluate(&self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Box<Answer>> {
        let (args, command) = self.verb.shared()?;
        let found = alone(|| match (&self.verb, &self.kept) {
            (_, Kept::Simulations(shares)) => shares.evaluate(points),
            (Verb::Cost(args), Kept::Loaded(loaded)) => cost::evaluate_at(loaded, &args.grid, &args.options(), points),
            (Verb::Identify(args), Kept::Loaded(loaded)) => identify::evaluate_at(loaded, &args.options(), points),
            (_, Kept::Loaded(_)) => Ok(Vec::new()),
        });
        found.map_err(|failure| Box::new(Answer::new(command).refused(failure).about(args)))
    }
}

/// Work on one thread. Whoever hands out shares uses all processors; and a process that was forked has none of the
/// threads that others expect.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(pool) => pool.install(work),
        Err(_) => work(),
    }
}

fn parse(
    verb: &str,
    source: Source,
    arguments: &[String],
    watch: &Watch,
    elsewhere: Option<Elsewhere>,
) -> Result<Verb, Box<Answer>> {
    let mut words = vec![OsString::from("daesy"), OsString::from(verb), source.name().into_os_string()];
    words.extend(arguments.iter().map(OsString::from));
    let mut cli = Cli::try_parse_from(&words).map_err(|error| Box::new(wrong_usage(&words, &error)))?;
    if let Some(args) = cli.verb.file_args() {
        args.caller = Caller { source: Some(source), watch: watch.clone(), elsewhere };
    }
    Ok(cli.verb)
}

impl Verb {
    /// What was told to a verb whose evaluations can be shared out, and its word.
    fn shared(&self) -> Result<(&FileArgs, &'static str), Box<Answer>> {
        match self {
            Self::Uq(args) => Ok((&args.file, "uq")),
            Self::Cost(args) => Ok((&args.file, "cost")),
            Self::Identify(args) => Ok((&args.file, "identify")),
            _ => Err(Box::new(refuse("evaluate", "this verb has no evaluations to share out".to_owned()))),
        }
    }

    fn answer(self) -> Answer {
        match self {
            Self::Check(args) => refuse_output(&args, "check").unwrap_or_else(|| check_verb(&args).about(&args)),
            Self::Simulate(args) => simulating::simulate_verb(&args).about(&args.file),
            Self::Linearize(args) => linearizing::linearize_verb(&args).about(&args.file),
            Self::Regularize(args) => {
                let refused = refuse_output(&args.file, "regularize");
                refused.unwrap_or_else(|| regularize_verb(&args).about(&args.file))
            }
            Self::Identify(args) => estimation::identify_verb(&args).about(&args.file),
            Self::Cost(args) => estimation::cost_verb(&args).about(&args.file),
            Self::Estimate(args) => estimation::estimate_verb(&args).about(&args.file),
            Self::Design(args) => designing::design_verb(&args).about(&args.file),
            Self::Watch(args) => {
                let refused = refuse_output(&args.file, "watch").or_else(|| refuse_report(&args.file, "watch"));
                refused.unwrap_or_else(|| live::watch_verb(&args).about(&args.file))
            }
            Self::Uq(args) => uq_verb(&args).about(&args.file),
            Self::Flatten(args) => {
                let refused = refuse_output(&args, "flatten").or_else(|| refuse_report(&args, "flatten"));
                refused.unwrap_or_else(|| flatten_verb(&args).about(&args))
            }
            Self::Export(args) => {
                let refused = refuse_report(&args.file, "export");
                refused.unwrap_or_else(|| export_verb(&args).about(&args.file))
            }
            Self::Describe(args) => {
                let refused = refuse_output(&args, "describe").or_else(|| refuse_report(&args, "describe"));
                refused.unwrap_or_else(|| describe_verb(&args).about(&args))
            }
            Self::New(args) => first_steps::new_verb(&args),
            Self::Demo(args) => demo_verb(&args),
            Self::Completions(args) => first_steps::completions_verb(&args),
            Self::Man(args) => first_steps::man_verb(&args),
            Self::Lsp(_) => first_steps::lsp_verb(),
        }
    }

    /// Its word on the command line.
    const fn word(&self) -> &'static str {
        match self {
            Self::Check(_) => "check",
            Self::Simulate(_) => "simulate",
            Self::Linearize(_) => "linearize",
            Self::Regularize(_) => "regularize",
            Self::Identify(_) => "identify",
            Self::Cost(_) => "cost",
            Self::Estimate(_) => "estimate",
            Self::Design(_) => "design",
            Self::Watch(_) => "watch",
            Self::Uq(_) => "uq",
            Self::Flatten(_) => "flatten",
            Self::Export(_) => "export",
            Self::Describe(_) => "describe",
            Self::New(_) => "new",
            Self::Demo(_) => "demo",
            Self::Completions(_) => "completions",
            Self::Man(_) => "man",
            Self::Lsp(_) => "lsp",
        }
    }

    /// What a verb that reads a file was told about it.
    fn file_args(&mut self) -> Option<&mut FileArgs> {
        match self {
            Self::Check(args) | Self::Flatten(args) => Some(args),
            Self::Simulate(args) => Some(&mut args.file),
            Self::Linearize(args) => Some(&mut args.file),
            Self::Regularize(args) => Some(&mut args.file),
            Self::Identify(args) => Some(&mut args.file),
            Self::Cost(args) => Some(&mut args.file),
            Self::Estimate(args) => Some(&mut args.file),
            Self::Design(args) => Some(&mut args.file),
            Self::Watch(args) => Some(&mut args.file),
            Self::Uq(args) => Some(&mut args.file),
            Self::Export(args) => Some(&mut args.file),
            Self::Describe(args) => Some(args),
            Self::New(_) | Self::Demo(_) | Self::Completions(_) | Self::Man(_) | Self::Lsp(_) => None,
        }
    }

    fn common(&self) -> CommonArgs {
        match self {
            Self::Check(args) | Self::Flatten(args) => args.common.clone(),
            Self::Simulate(args) => args.file.common.clone(),
            Self::Linearize(args) => args.file.common.clone(),
            Self::Regularize(args) => args.file.common.clone(),
            Self::Identify(args) => args.file.common.clone(),
            Self::Cost(args) => args.file.common.clone(),
            Self::Estimate(args) => args.file.common.clone(),
            Self::Design(args) => args.file.common.clone(),
            Self::Watch(args) => args.file.common.clone(),
            Self::Uq(args) => args.file.common.clone(),
            Self::Export(args) => args.file.common.clone(),
            Self::Describe(args) => args.common.clone(),
            Self::New(args) => args.common.clone(),
            Self::Demo(args) => args.common.clone(),
            Self::Completions(_) | Self::Lsp(_) => CommonArgs::default(),
            Self::Man(args) => args.common.clone(),
        }
    }
}

fn refuse_output(args: &FileArgs, verb: &'static str) -> Option<Answer> {
    args.output.as_ref()?;
    Some(refuse(verb, format!("`daesy {verb}` has no table to write with `-o`")))
}

fn refuse_report(args: &FileArgs, verb: &'static str) -> Option<Answer> {
    args.report.as_ref()?;
    Some(refuse(verb, format!("`daesy {verb}` has no report to write with `--report`")))
}

fn refuse(verb: &'static str, message: String) -> Answer {
    let diagnostic = Diagnostic::error("usage", message).with_help(format!("see `daesy {verb} --help`"));
    Answer::new(verb).fail(Status::Usage, vec![diagnostic])
}

/// The answer to arguments that cannot be read, whose words are on standard error already.
fn wrong_usage(arguments: &[OsString], error: &clap::Error) -> Answer {
    let command = Cli::command();
    let named = arguments.iter().skip(1).filter_map(|argument| argument.to_str());
    let verb = named.into_iter().find_map(|word| command.get_subcommands().find(|known| known.get_name() == word));
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    let message = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    let mut answer = Answer::new("");
    answer.command = verb.map(|known| known.get_name().to_owned());
    answer.fail(Status::Usage, vec![Diagnostic::error("usage", message)])
}

/// Loads a model for a verb that may have to refuse units of other tools.
fn load_for(args: &FileArgs, verb: &str) -> Result<Loaded, Failure> {
    load_native(args, verb, if args.no_native { Native::Forbidden } else { Native::Run })
}

/// What a unit of another tool cannot be asked: its equations are not known, and one that integrates itself has only
/// trajectories.
fn refuse_unit(loaded: &Loaded, verb: &str) -> Result<(), Failure> {
    let Some(unit) = &loaded.unit else { return Ok(()) };
    let message = match verb {
        "flatten" | "regularize" => format!("`{verb}` needs equations, and those of a unit are not known"),
        "export" => "the model is a unit already".to_owned(),
        "simulate" | "describe" => return Ok(()),
        _ if unit.kind() == daesy_foreign::description::Kind::CoSimulation => {
            format!("the unit offers Co-Simulation alone, and `{verb}` needs its right-hand side")
        }
        _ => return Ok(()),
    };
    let help =
        "`daesy describe` says what the unit says of itself; export it for Model Exchange, or use its Modelica model";
    Err(Failure::Input(vec![Diagnostic::error("fmu-unsupported", message).with_help(help)]))
}

/// Refuses files to write before any work is done: those that cannot be written, that the run itself reads, or that are
/// named twice.
fn refuse_targets(args: &FileArgs) -> Result<(), Failure> {
    let targets: Vec<&Path> = [&args.output, &args.report].into_iter().flatten().map(PathBuf::as_path).collect();
    if targets.is_empty() {
        return Ok(());
    }
    let usage = |message: String, help: &str| {
        Failure::Usage(vec![Diagnostic::error("output-file", message).with_help(help.to_owned())])
    };
    let same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    };
    if let [table, page] = targets[..]
        && same(table, page)
    {
        let message = format!("`{}` is named both by `-o` and by `--report`", table.display());
        return Err(usage(message, "give each of them a file of its own"));
    }
    if let Some(page) = args.report.as_deref() {
        let is_device = page.exists() && !page.is_file();
        let is_page =
            page.extension().is_some_and(|found| ["html", "htm"].iter().any(|it| found.eq_ignore_ascii_case(it)));
        if !is_page && !is_device {
            let message = format!("`{}` is not an .html file", page.display());
            return Err(usage(message, "`--report` writes a page: name a file that ends in .html"));
        }
    }
    let read = if args.caller.source.is_some() { Vec::new() } else { files_read(&args.file, &args.data) };
    for target in targets {
        if read.iter().any(|file| file.is_file() && same(file, target)) {
            let message = format!("`{}` is a file that this run reads, and would be lost", target.display());
            return Err(usage(message, "write to another file"));
        }
        check_target(target).map_err(|error| Failure::Input(vec![cannot_write(target, &error)]))?;
    }
    Ok(())
}

fn load_native(args: &FileArgs, verb: &str, native: Native) -> Result<Loaded, Failure> {
    refuse_targets(args)?;
    let set = args.settings()?;
    let options = LoadOptions { set: set.clone(), class: args.class.clone(), native };
    let source = args.caller.source.clone().unwrap_or_else(|| Source::file(&args.file));
    let mut loaded = load_source(&source, &options).map_err(|diagnostics| {
        // Values that a type does not have are a matter of usage: the types are known from the model without them.
        let plain = load_source(&source, &LoadOptions { set: Vec::new(), ..options.clone() });
        match plain.map(|plain| check_types(&plain, &set)) {
            Ok(Err(usage)) => Failure::Usage(usage),
            _ => Failure::Input(diagnostics),
        }
    })?;
    check_types(&loaded, &set).map_err(Failure::Usage)?;
    refuse_unit(&loaded, verb)?;
    if !args.data.is_empty() {
        loaded.use_data_files(&args.data)?;
    }
    loaded.watch = args.watch();
    loaded.elsewhere.clone_from(&args.caller.elsewhere);
    Ok(loaded)
}

/// The kind of table that `-o` asks for; refused where it is none.
fn table_kind(output: Option<&Path>) -> Result<TableKind, Box<Diagnostic>> {
    let Some(path) = output else { return Ok(TableKind::Csv) };
    TableKind::of(path).ok_or_else(|| {
        let message = format!("`{}` is not a .csv, .parquet or .mat file", path.display());
        Box::new(Diagnostic::error("output-kind", message).with_help("tables are written as .csv, .parquet or .mat"))
    })
}

/// The first of some outputs whose folder is not there, said before the work is done.
fn missing_folder<'p>(outputs: impl IntoIterator<Item = &'p Option<PathBuf>>) -> Option<Diagnostic> {
    let is_there = |path: &PathBuf| match path.parent() {
        Some(folder) => folder.as_os_str().is_empty() || folder.is_dir(),
        None => true,
    };
    let missing = outputs.into_iter().flatten().find(|path| !is_there(path))?;
    Some(cannot_write(missing, &std::io::Error::from(std::io::ErrorKind::NotFound)))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Diagnostic {
    let shown = path.display().to_string();
    let help = match error.kind() {
        std::io::ErrorKind::NotFound => "make the folder first, or write to another one",
        std::io::ErrorKind::PermissionDenied => "allow it to be written, or write to another place",
        std::io::ErrorKind::StorageFull => "make room, or write to another place",
        _ => "write to another place",
    };
    Diagnostic::about_file("output-file", &shown, format!("`{shown}` cannot be written: {error}")).with_help(help)
}

fn write_report(args: &FileArgs, path: &Path, page: Page) -> Result<(), Box<Diagnostic>> {
    let page = page.from_run(args.provenance());
    write_whole(path, page.to_html().as_bytes()).map_err(|error| Box::new(cannot_write(path, &error)))
}

fn demo_verb(args: &DemoArgs) -> Answer {
    let mut answer = Answer::new("demo");
    match demo::run(&args.output) {
        Ok(told) => {
            answer.model = Some(told.model);
            answer.text = told.text;
            answer.keys = told.keys;
            answer.diagnostics = told.diagnostics;
            answer
        }
        Err(diagnostics) => answer.fail(Status::Fault, diagnostics),
    }
}
