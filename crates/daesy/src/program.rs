//! The program: one verb per question.

mod designing;
mod edge;
mod estimation;
mod first_steps;
mod instructions;
mod linearizing;
mod live;
mod simulating;

use std::ffi::OsString;
use std::io::{IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory, Parser, Subcommand};
use daesy_estimate::alarm::RATES;
use daesy_fmu::description::{Kinds, Version};
use daesy_foreign::process::WORKER_VERB;
use daesy_graph::VarId;
use daesy_graph::finding::Level;
use daesy_graph::source::Place;
use daesy_study::limits;
use daesy_system::Watch;
use serde_json::{Map, Value, json};

use crate::diagnostic::{Diagnostic, visible};
use crate::distribute::Elsewhere;
use crate::export::{ExportOptions, ObserverOptions, export, export_observer};
use crate::failure::Failure;
use crate::file::{check_target, write_whole};
use crate::json::ToJson as _;
use crate::linearization::At;
use crate::load::{LoadOptions, Loaded, Native, check_types, load_source};
use crate::reduced::regularize_model;
use crate::regularize::RegularizeOptions;
use crate::report::Page;
use crate::report::provenance::{Provenance, files_read};
use crate::simulate::asserted::failing_assertions;
use crate::source::Source;
use crate::start_report::{StartReport, changed_to_json};
use crate::table::{Table, TableKind, to_bytes};
use crate::uq::{JointMap, SurrogateFile, UqSettings, read_surrogate};
use crate::{check, cost, demo, describe, flat_text, identify, uq};

const AFTER_HELP: &str = "\
FILE is a Modelica file (.mo), a package folder, a class of the built-in library or on MODELICAPATH,
a unit of another tool (.fmu), or a study (.toml) that names one of these.
Exit status: 0 done; 1 the model, study or data is at fault; 2 wrong usage;
             3 the numerical method gave up.

Begin with:  daesy demo";

/// Physical models and data: is the model sound, how does it behave, what are its parameters?
#[derive(Parser)]
#[command(
    name = "daesy",
    bin_name = "daesy",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = AFTER_HELP
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Is this model sound? Index, hidden constraints, start values, inputs
    #[command(mut_arg("output", |arg| arg.hide(true)))]
    Check(FileArgs),
    /// Trajectories of all variables
    #[command(mut_arg("set", |arg| {
        arg.value_name("NAME=VALUE|NAME=FROM:TO:N").help("Gives a parameter another value, or a range of N values; may be repeated")
    }))]
    Simulate(SimulateArgs),
    /// The model to first order at a point: A, B, C, D, poles, and their frequency response
    #[command(mut_arg("output", |arg| {
        arg.value_name("OUT").help("Writes the matrices (.json, or .py for python-control)")
    }))]
    Linearize(LinearizeArgs),
    /// The strangeness-free form of a model: differential equations and all constraints, explicit and hidden
    #[command(mut_arg("output", |arg| arg.hide(true)))]
    Regularize(RegularizeArgs),
    /// Unknown parameters from data, with uncertainty
    Identify(IdentifyArgs),
    /// The identification cost or log-likelihood over a parameter grid
    Cost(CostArgs),
    /// Unmeasured signals from data: filter and smoother, with standard deviations
    Estimate(EstimateArgs),
    /// Which experiment would tell most: identifiability, expected errors, a better input or choice of sensors
    Design(DesignArgs),
    /// The filter live: samples on standard input, estimates and alarms out, line by line
    #[command(mut_arg("output", |arg| arg.hide(true)), mut_arg("report", |arg| arg.hide(true)))]
    Watch(WatchArgs),
    /// Moments, quantiles and Sobol indices under random parameters
    Uq(UqArgs),
    /// What is in this model: parameters, inputs, outputs and variables, with value, unit, bounds and description
    #[command(mut_arg("output", |arg| arg.hide(true)), mut_arg("report", |arg| arg.hide(true)))]
    Describe(FileArgs),
    /// A folder with a model, a study and a data file to begin with
    New(NewArgs),
    /// The flat model, as Base Modelica or JSON: what the other verbs work on
    #[command(mut_arg("output", |arg| arg.hide(true)), mut_arg("report", |arg| arg.hide(true)))]
    Flatten(FileArgs),
    /// The model as a Functional Mock-up Unit, which needs no compiler and no daesy to run
    #[command(mut_arg("report", |arg| arg.hide(true)))]
    Export(ExportArgs),
    /// The whole workflow on an embedded example; no other file needed
    Demo(DemoArgs),
    /// Prints what a shell needs to complete verbs and options
    Completions(CompletionsArgs),
    /// Writes the manual pages, one per verb
    Man(ManArgs),
    /// The language server for editors, over standard input and output
    Lsp(LspArgs),
}

#[derive(Args, Clone)]
struct FileArgs {
    /// A Modelica file (.mo), a package folder, a class name, a unit (.fmu), or a study (.toml)
    file: PathBuf,
    /// The class, when a Modelica file holds several
    #[arg(long, value_name = "NAME")]
    class: Option<String>,
    /// Gives a parameter another value; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = Setting::parse)]
    set: Vec<Setting>,
    /// Data files to use instead of those the study names, one per experiment; may be repeated
    #[arg(long, value_name = "FILE")]
    data: Vec<PathBuf>,
    /// Writes the table of results (.csv, .parquet or .mat)
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Writes a self-contained page
    #[arg(long, value_name = "OUT.html")]
    report: Option<PathBuf>,
    /// Refuses to run units of other tools (.fmu), which are native code
    #[arg(long)]
    no_native: bool,
    /// Ends long work in good order after so many seconds, with what was found so far
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive)]
    time_limit: Option<f64>,
    /// When the work began
    #[arg(skip = std::time::Instant::now())]
    begun: std::time::Instant,
    #[command(flatten)]
    common: CommonArgs,
    /// What a caller in the same process hands over instead of the file
    #[arg(skip)]
    caller: Caller,
}

/// What only a caller in the same process can give.
#[derive(Clone, Default)]
struct Caller {
    source: Option<Source>,
    watch: Watch,
    elsewhere: Option<Elsewhere>,
}

/// `--set`: a parameter and its value, or the values it runs through.
#[derive(Clone, PartialEq, Debug)]
struct Setting {
    name: String,
    values: Vec<f64>,
    is_range: bool,
}

impl Setting {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("write it as name=value")?;
        if value.contains(':') {
            let axis = cost::GridAxis::parse(text).map_err(|wrong| {
                let (_, message) = wrong.message.split_once(": ").unwrap_or(("", &wrong.message));
                format!("{message}; write it as name=from:to:n")
            })?;
            return Ok(Self { name: axis.name, values: axis.values, is_range: true });
        }
        let value: f64 = value.trim().parse().map_err(|_| format!("`{}` is not a number", value.trim()))?;
        if !value.is_finite() {
            return Err("the value must be finite".to_owned());
        }
        Ok(Self { name: name.trim().to_owned(), values: vec![value], is_range: false })
    }
}

impl FileArgs {
    /// Whether the time that the work may take is over.
    fn is_late(&self) -> bool {
        self.time_limit.is_some_and(|limit| self.begun.elapsed().as_secs_f64() >= limit)
    }

    /// The caller's watch, which the time limit stops too.
    fn watch(&self) -> Watch {
        let caller = self.caller.watch.clone();
        match self.time_limit {
            None => caller,
            Some(limit) => {
                let begun = self.begun;
                Watch::asking(move || caller.is_stopped() || begun.elapsed().as_secs_f64() >= limit)
            }
        }
    }

    /// Where a page about this file comes from.
    fn provenance(&self) -> Provenance {
        if self.caller.source.is_some() {
            return Provenance::of_run("asked by a program in the same process".to_owned(), &self.file, &self.data);
        }
        let quoted = |word: OsString| {
            let word = word.to_string_lossy().into_owned();
            let is_plain = !word.is_empty() && !word.contains(|letter: char| letter.is_whitespace() || letter == '"');
            if is_plain { word } else { format!("\"{}\"", word.replace('"', "\\\"")) }
        };
        let words: Vec<String> = std::env::args_os().skip(1).map(quoted).collect();
        Provenance::of_run(format!("daesy {}", words.join(" ")), &self.file, &self.data)
    }

    /// The values that `--set` gives; a range is refused.
    fn settings(&self) -> Result<Vec<(String, f64)>, Failure> {
        let one = |setting: &Setting| match setting {
            Setting { name, values, is_range: false } => Ok((name.clone(), values[0])),
            Setting { name, .. } => {
                let message = format!("--set {name}: only `daesy simulate` takes a range of values");
                Err(Failure::Usage(vec![Diagnostic::error("usage", message).with_help("give one value")]))
            }
        };
        self.set.iter().map(one).collect()
    }
}

#[derive(Args, Clone)]
struct SimulateArgs {
    #[command(flatten)]
    file: FileArgs,
    /// auto, explicit, rosenbrock or radau; what the study says when left out
    #[arg(long, value_name = "NAME", value_parser = ["auto", "explicit", "rosenbrock", "radau"])]
    method: Option<String>,
    /// The longest step of the integration
    #[arg(long, value_name = "H", value_parser = parse_positive)]
    max_step: Option<f64>,
}

#[derive(Args, Clone)]
struct LinearizeArgs {
    #[command(flatten)]
    file: FileArgs,
    /// The point: a time of the simulation, `rest` where no variable changes, or the value of an input or a variable;
    /// may be repeated. The start of the simulation when left out
    #[arg(long, value_name = "TIME|rest|NAME=VALUE", value_parser = At::parse, allow_hyphen_values = true)]
    at: Vec<At>,
    /// Inputs, separated by commas; all when left out
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    inputs: Option<Vec<String>>,
    /// Outputs, separated by commas: any variables; those of the model, of the study, or the states when left out
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    outputs: Option<Vec<String>>,
}

#[derive(Args, Clone)]
struct RegularizeArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Takes time-varying coefficients at this time; the start of the simulation when left out
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    time: Option<f64>,
    /// Makes outputs states where an input feeds through to them
    #[arg(long, conflicts_with_all = ["feedback", "given_inputs"])]
    remove_feedthrough: bool,
    /// Keeps states and inputs and finds a feedback u = K x + w that makes the system regular
    #[arg(long, conflicts_with_all = ["state", "input", "given_inputs"])]
    feedback: bool,
    /// Variables or inputs that must be states
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "given_inputs")]
    state: Vec<String>,
    /// Variables or inputs that must be inputs
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "given_inputs")]
    input: Vec<String>,
    /// Leaves redundant equations out even if they contradict the others
    #[arg(long)]
    drop_redundant: bool,
    /// Takes the inputs as given functions of time, whose derivatives may enter, instead of as variables
    #[arg(long)]
    given_inputs: bool,
}

#[derive(Args, Clone)]
struct UqArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Writes the polynomials in the random parameters; a FILE so written is evaluated by
    /// `daesy uq FILE --set NAME=VALUE`
    #[arg(long, value_name = "FILE")]
    surrogate: Option<PathBuf>,
    /// Keeps what is computed; the same command run again goes on where the file ends
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

#[derive(Args, Clone)]
struct IdentifyArgs {
    #[command(flatten)]
    file: FileArgs,
    /// More studies of the same data, to be compared with the first
    #[arg(value_name = "STUDY.toml")]
    others: Vec<PathBuf>,
    /// auto, ml, pem or output-error; what the study says when left out
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// Searches from this many points spread over the bounds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_starts)]
    starts: usize,
    /// Also finds profile-likelihood intervals
    #[arg(long)]
    profile: bool,
    /// Data files to validate with instead of those the study names; may be repeated
    #[arg(long, value_name = "FILE")]
    validation: Vec<PathBuf>,
    /// Draws this many samples of the posterior by each chain
    #[arg(long, value_name = "N", value_parser = parse_draws, conflicts_with = "others")]
    posterior: Option<usize>,
    /// Chains of the posterior
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_chains, requires = "posterior")]
    chains: usize,
    /// Writes the samples of the posterior (.csv, .parquet or .mat)
    #[arg(long, value_name = "OUT", requires = "posterior")]
    posterior_file: Option<PathBuf>,
    /// Writes the study with the estimates in the place of the unknowns, to be applied to other data
    #[arg(long, value_name = "STUDY.toml")]
    save: Option<PathBuf>,
    /// Keeps what was computed, so that the same command goes on where it ended
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

#[derive(Args, Clone)]
struct CostArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Values of an unknown; may be repeated, the last runs fastest
    #[arg(long, value_name = "NAME=FROM:TO:N", required = true)]
    grid: Vec<String>,
    /// auto, ml, pem or output-error; what the study says when left out
    #[arg(long, value_name = "NAME")]
    method: Option<String>,
    /// Keeps what was computed, so that the same command goes on where it ended
    #[arg(long, value_name = "FILE")]
    checkpoint: Option<PathBuf>,
}

#[derive(Args, Clone)]
struct EstimateArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Identifies the unknowns first, instead of taking their start values
    #[arg(long)]
    identify: bool,
    /// Predicts this many seconds beyond each record, with standard deviations
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive)]
    horizon: Option<f64>,
    /// Known inputs of that time: a table of times and columns; held as they are at the end when left out
    #[arg(long, value_name = "FILE", requires = "horizon")]
    future: Option<PathBuf>,
}

#[derive(Args, Clone)]
struct DesignArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Writes a study that is ready to run with the input that `-o` writes
    #[arg(long, value_name = "STUDY.toml", requires = "output")]
    save: Option<PathBuf>,
}

#[derive(Args, Clone)]
struct WatchArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Reads samples from a file that grows, until stopped, instead of standard input
    #[arg(long, value_name = "FILE")]
    follow: Option<PathBuf>,
    /// Keeps where the filter is; the same command goes on there
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// False alarms of each test per sample; what the study says, or 1e-4
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    false_alarm_rate: Option<f64>,
    /// Predicts this many seconds beyond each sample, with standard deviations
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive)]
    horizon: Option<f64>,
    /// Known inputs of that time: a table of times and columns; held as they are when left out
    #[arg(long, value_name = "FILE", requires = "horizon")]
    future: Option<PathBuf>,
    /// The usual distance of samples in seconds; what study or data say when left out
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive)]
    step: Option<f64>,
}

#[derive(Args, Clone)]
struct ExportArgs {
    #[command(flatten)]
    file: FileArgs,
    /// Version of the interface
    #[arg(long, value_name = "2|3", default_value = "2", value_parser = ["2", "3"])]
    fmi: String,
    /// Who integrates: the importer (me), the unit (cs), or either
    #[arg(long, value_name = "me|cs|both", default_value = "both", value_parser = ["me", "cs", "both"])]
    kind: String,
    /// The filter of the study: known inputs and measurements in, estimates and standard deviations out
    #[arg(long)]
    observer: bool,
    /// The usual distance of samples in seconds; what study or data say when left out
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive, requires = "observer")]
    step: Option<f64>,
}

#[derive(Args, Clone, Default)]
struct CommonArgs {
    /// One JSON document on standard output, nothing else there
    #[arg(long)]
    json: bool,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Number of threads; all cores when left out
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    threads: Option<usize>,
    /// No progress, no notes
    #[arg(long)]
    quiet: bool,
}

#[derive(Args, Clone)]
struct NewArgs {
    /// Name of the folder and the model
    name: String,
    /// Makes model and study from the header of this data file
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// A column of the data file that drives the model (repeatable); headers decide if none is named
    #[arg(long, value_name = "COLUMN", requires = "data")]
    input: Vec<String>,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Args, Clone)]
struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: clap_complete::Shell,
}

#[derive(Args, Clone)]
struct LspArgs {
    /// Speaks over standard input and output, which it does in any case; editors pass it
    #[arg(long)]
    stdio: bool,
}

#[derive(Args, Clone)]
struct ManArgs {
    /// Folder for the pages
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    #[command(flatten)]
    common: CommonArgs,
}

#[derive(Args, Clone)]
struct DemoArgs {
    /// Folder for the report and the pictures
    #[arg(short, long, value_name = "FOLDER", default_value = "daesy-demo")]
    output: PathBuf,
    #[command(flatten)]
    common: CommonArgs,
}

fn parse_positive(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.trim().parse().ok();
    value.filter(|value| value.is_finite() && *value > 0.0).ok_or_else(|| "not a number above zero".to_owned())
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate = parse_positive(text)?;
    if RATES.contains(&rate) {
        return Ok(rate);
    }
    Err(format!("false alarms per sample lie between {} and {}", RATES.start(), RATES.end()))
}

fn parse_threads(text: &str) -> Result<usize, String> {
    parse_count(text, limits::MAX_THREADS)
}

/// Fewer draws say nothing about chains.
const LEAST_DRAWS: usize = 10;

fn parse_draws(text: &str) -> Result<usize, String> {
    let draws = parse_count(text, limits::MAX_DRAWS)?;
    if draws < LEAST_DRAWS { Err(format!("at least {LEAST_DRAWS} draws are needed")) } else { Ok(draws) }
}

fn parse_chains(text: &str) -> Result<usize, String> {
    let chains = parse_count(text, limits::MAX_CHAINS)?;
    if chains == 0 { Err("at least one chain is needed".to_owned()) } else { Ok(chains) }
}

fn parse_starts(text: &str) -> Result<usize, String> {
    parse_count(text, limits::MAX_STARTS)
}

fn parse_count(text: &str, most: u64) -> Result<usize, String> {
    let count: u64 = text.trim().parse().map_err(|_| "not a whole number".to_owned())?;
    limits::at_most("this", count, most).map_err(|refusal| refusal.message)?;
    usize::try_from(count).map_err(|_| "too large for this machine".to_owned())
}

/// What a verb has to say.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The verb; `None` when none could be read.
    pub command: Option<String>,
    /// Full name of the model.
    pub model: Option<String>,
    /// What the JSON document holds beside the keys that every document has.
    pub keys: Map<String, Value>,
    /// The answer for a person.
    pub text: String,
    /// The table that `-o` writes, on verbs that have one.
    pub table: Option<Table>,
    /// Findings.
    pub diagnostics: Vec<Diagnostic>,
    /// How it ended.
    pub status: Status,
}

/// Exit status of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Done.
    Done = 0,
    /// The model, study or data is at fault.
    Fault = 1,
    /// Wrong usage.
    Usage = 2,
    /// The numerical method gave up.
    GaveUp = 3,
}

/// Says how the program is started from a process that is another one, such as Python: units of other tools run in
/// processes of it.
pub fn set_program(words: Vec<OsString>) {
    daesy_foreign::process::set_program(words);
}

/// Runs the program with the given arguments, the first of which is its own name.
pub fn run<I: IntoIterator<Item = OsString>>(arguments: I) -> Status {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.get(1).is_some_and(|verb| verb == WORKER_VERB) {
        daesy_foreign::worker::serve();
        return Status::Done;
    }
    let cli = match Cli::try_parse_from(&arguments) {
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
    edge::guard(command, || cli.verb.answer()).tell(&common)
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

/// One share of the evaluations behind a question: for each point the numbers that its evaluation gives.
///
/// # Errors
/// The answer that the whole question would end with.
pub fn evaluate(
    verb: &str,
    source: Source,
    arguments: &[String],
    points: &[Vec<f64>],
    watch: &Watch,
) -> Result<Vec<Vec<f64>>, Box<Answer>> {
    let verb = parse(verb, source, arguments, watch, None)?;
    // Whoever hands out the shares uses all processors; and a process that was forked has none of the threads that
    // others expect.
    match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
        Ok(pool) => pool.install(|| verb.evaluate(points)),
        Err(_) => verb.evaluate(points),
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
    /// One share of the evaluations behind the answer.
    fn evaluate(&self, points: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, Box<Answer>> {
        let (args, command) = match self {
            Self::Uq(args) => (&args.file, "uq"),
            Self::Cost(args) => (&args.file, "cost"),
            Self::Identify(args) => (&args.file, "identify"),
            _ => return Err(Box::new(refuse("evaluate", "this verb has no evaluations to share out".to_owned()))),
        };
        let failed = |failure: Failure| Box::new(Answer::new(command).refused(failure).about(args));
        let loaded = load_for(args, command).map_err(failed)?;
        match self {
            Self::Cost(args) => cost::evaluate_at(&loaded, &args.grid, &args.options(), points),
            Self::Identify(args) => identify::evaluate_at(&loaded, &args.options(), points),
            _ => {
                let settings = UqSettings { seed: args.common.seed, threads: Some(1), checkpoint: None };
                uq::evaluate_at(&loaded, points, &settings)
            }
        }
        .map_err(failed)
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

impl Answer {
    fn new(verb: &'static str) -> Self {
        Self {
            command: Some(verb.to_owned()),
            model: None,
            keys: Map::new(),
            text: String::new(),
            table: None,
            diagnostics: Vec::new(),
            status: Status::Done,
        }
    }

    /// Gives findings about the whole run the place of the file that the user named.
    fn about(mut self, args: &FileArgs) -> Self {
        if let Some(limit) = args.time_limit.filter(|_| self.status == Status::GaveUp && args.is_late()) {
            let message = format!("the work was ended after {limit} s, as `--time-limit` asks");
            self.diagnostics.push(Diagnostic::note("time-limit", message));
        }
        let file = args.file.display().to_string();
        for diagnostic in self.diagnostics.iter_mut().filter(|diagnostic| diagnostic.place.is_none()) {
            diagnostic.place = Some(Place { file: file.clone(), line: 1, column: 1 });
        }
        self
    }

    /// Refused after the model was read: what the study leaves open may be why.
    fn refused_of(self, loaded: &Loaded, failure: Failure) -> Self {
        let mut answer = self.refused(failure);
        answer.diagnostics.extend(loaded.open_inputs());
        answer
    }

    fn fail(mut self, status: Status, diagnostics: Vec<Diagnostic>) -> Self {
        self.status = status;
        self.diagnostics.extend(diagnostics);
        self
    }

    /// Diagnostics go to standard error, the answer to standard output.
    fn tell(self, common: &CommonArgs) -> Status {
        let mut stderr = std::io::stderr().lock();
        let with_color = stderr.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        for diagnostic in &self.diagnostics {
            if !(common.quiet && diagnostic.level == Level::Note) {
                let _ = write!(stderr, "{}", diagnostic.render(with_color));
            }
        }
        drop(stderr);
        if common.json && self.has_document() {
            return self.write_json();
        }
        edge::print(&visible(&self.text), self.status)
    }

    /// A stream that was followed to its end has a document for every sample, and none for the whole.
    fn has_document(&self) -> bool {
        self.command.as_deref() != Some("watch") || self.status != Status::Done
    }

    /// The one JSON document of a run. Numbers that are not finite are `null`.
    #[must_use]
    pub fn document(&self) -> Value {
        let mut document = Map::new();
        document.insert("daesy".into(), json!(env!("CARGO_PKG_VERSION")));
        document.insert("command".into(), json!(self.command));
        document.insert("model".into(), json!(self.model));
        let findings = self.diagnostics.iter().map(|diagnostic| diagnostic.to_json()).collect();
        document.insert("findings".into(), Value::Array(findings));
        document.extend(self.keys.iter().map(|(key, value)| (key.clone(), value.clone())));
        Value::Object(document)
    }

    fn write_json(self) -> Status {
        edge::print(&edge::json_text(&self.document()), self.status)
    }

    /// Tells which start values had to change, at other values of some parameters. A document that has estimated start
    /// values under `initial` keeps them.
    fn tell_start(&mut self, loaded: &Loaded, values: &[(&str, f64)]) {
        let given: Vec<(VarId, f64)> =
            values.iter().filter_map(|&(name, value)| Some((loaded.flat.find(name)?, value))).collect();
        let Some(report) = StartReport::of_study(loaded, &given) else { return };
        let told = report.findings(&loaded.flat);
        self.diagnostics.extend(told.iter().map(|finding| Diagnostic::resolve(finding, &loaded.flat.sources)));
        if !self.keys.contains_key("initial") {
            self.keys.insert("initial".into(), json!({ "changed": changed_to_json(&report.changed) }));
        }
    }

    /// Tells which assertions of the model do not hold along the records, at other values of some parameters.
    fn tell_assertions(&mut self, loaded: &Loaded, values: &[(&str, f64)]) {
        let given: Vec<(VarId, f64)> =
            values.iter().filter_map(|&(name, value)| Some((loaded.flat.find(name)?, value))).collect();
        self.diagnostics.extend(failing_assertions(loaded, &given));
    }

    /// Gives columns that would be found under the name of another one names of their own, and says so.
    fn distinct(&mut self, table: &mut Table) {
        for (old, new) in table.make_names_distinct() {
            let message = format!("there is a column `{old}` already: this one of the table is called `{new}`");
            let warning = Diagnostic::new(Level::Warning, "column-renamed", message);
            self.diagnostics.push(Diagnostic { names: vec![old], ..warning });
        }
    }
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

fn check_verb(args: &FileArgs) -> Answer {
    let mut answer = Answer::new("check");
    let loaded = match load_for(args, "check") {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    let check = check::check(&loaded);
    answer.model = Some(check.model.clone());
    answer.keys = check.to_json();
    answer.text = check.to_text();
    if let Some(path) = &args.report
        && let Err(diagnostic) = write_report(args, path, check_page(&check))
    {
        return answer.fail(Status::Fault, vec![*diagnostic]);
    }
    let status = if check.has_errors() { Status::Fault } else { Status::Done };
    answer.fail(status, check.diagnostics)
}

fn regularize_verb(args: &RegularizeArgs) -> Answer {
    let mut answer = Answer::new("regularize");
    let loaded = match load_for(&args.file, "regularize") {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    answer.model = Some(loaded.flat.model.clone());
    let options = RegularizeOptions {
        time: args.time,
        remove_feedthrough: args.remove_feedthrough,
        feedback: args.feedback,
        states: args.state.clone(),
        inputs: args.input.clone(),
        drop_redundant: args.drop_redundant,
        given_inputs: args.given_inputs,
    };
    let form = match regularize_model(&loaded, &options) {
        Ok(form) => form,
        Err(diagnostics) => return answer.fail(Status::Fault, diagnostics),
    };
    answer.keys = form.to_json();
    answer.text = form.to_text();
    if let Some(path) = &args.file.report {
        let mut page = Page::new(&format!("Regularization of {}", form.model()));
        page.preformatted(&form.to_text());
        if let Err(diagnostic) = write_report(&args.file, path, page) {
            return answer.fail(Status::Fault, vec![*diagnostic]);
        }
    }
    answer.fail(Status::Done, form.into_diagnostics())
}

fn describe_verb(args: &FileArgs) -> Answer {
    let mut answer = Answer::new("describe");
    match load_native(args, "describe", Native::Describe) {
        Ok(loaded) => {
            let described = describe::describe(&loaded);
            answer.keys = described.to_json();
            answer.text = described.to_text(&loaded.flat.model);
            answer.model = Some(loaded.flat.model);
            answer.diagnostics = loaded.diagnostics;
            answer
        }
        Err(failure) => answer.refused(failure),
    }
}

fn flatten_verb(args: &FileArgs) -> Answer {
    let mut answer = Answer::new("flatten");
    match load_for(args, "flatten") {
        Ok(loaded) => {
            answer.model = Some(loaded.flat.model.clone());
            answer.diagnostics = loaded.diagnostics;
            if args.common.json {
                answer.keys = flat_text::to_json(&loaded.flat);
            } else {
                answer.text = flat_text::to_base_modelica(&loaded.flat);
                let parts = flat_text::not_spelled_out(&loaded.flat, &answer.text);
                if !parts.is_empty() {
                    let message = format!("the text cannot be read again: it has {}", parts.join(", and "));
                    let help = "`--json` says what the variables and equations are; other verbs take the model itself";
                    let warning = Diagnostic::new(Level::Warning, "not-spelled-out", message).with_help(help);
                    answer.diagnostics.push(warning);
                }
            }
            answer
        }
        Err(failure) => answer.refused(failure),
    }
}

fn export_verb(args: &ExportArgs) -> Answer {
    let mut answer = Answer::new("export");
    let Some(path) = &args.file.output else {
        return refuse("export", "say where to write the unit: `-o NAME.fmu`".to_owned());
    };
    if !path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("fmu")) {
        return refuse("export", format!("`{}` is not an .fmu file", path.display()));
    }
    if args.observer && args.kind == "me" {
        return refuse("export", "a filter takes samples: it is for Co-Simulation (`--kind cs`)".to_owned());
    }
    let loaded = match load_for(&args.file, if args.observer { "estimate" } else { "export" }) {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    answer.model = Some(loaded.flat.model.clone());
    let version = if args.fmi == "3" { Version::Three } else { Version::Two };
    let exported = if args.observer {
        match args.file.settings() {
            Ok(set) => export_observer(&loaded, &ObserverOptions { version: Some(version), step: args.step, set }),
            Err(failure) => Err(failure),
        }
    } else {
        let kinds = Kinds { model_exchange: args.kind != "cs", co_simulation: args.kind != "me" };
        export(&loaded, ExportOptions { version, kinds })
    };
    let exported = match exported {
        Ok(exported) => exported,
        Err(failure) => return answer.refused(failure),
    };
    if let Err(error) = write_whole(path, &exported.bytes) {
        return answer.fail(Status::Fault, vec![cannot_write(path, &error)]);
    }
    answer.keys = exported.to_json();
    answer.text = exported.to_text(&loaded.flat.model);
    answer.text.push_str(&format!("Wrote {}.\n", path.display()));
    answer.diagnostics = exported.diagnostics;
    answer
}

/// The kind of table that `-o` asks for; refused where it is none.
fn table_kind(output: Option<&Path>) -> Result<TableKind, Box<Diagnostic>> {
    let Some(path) = output else { return Ok(TableKind::Csv) };
    TableKind::of(path).ok_or_else(|| {
        let message = format!("`{}` is not a .csv, .parquet or .mat file", path.display());
        Box::new(Diagnostic::error("output-kind", message).with_help("tables are written as .csv, .parquet or .mat"))
    })
}

fn uq_verb(args: &UqArgs) -> Answer {
    let mut answer = Answer::new("uq");
    let kind = match table_kind(args.file.output.as_deref()) {
        Ok(kind) => kind,
        Err(diagnostic) => return answer.fail(Status::Usage, vec![*diagnostic]),
    };
    if args.file.file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        return evaluate_surrogate(args, kind, answer);
    }
    let loaded = match load_for(&args.file, "uq") {
        Ok(loaded) => loaded,
        Err(failure) => return answer.refused(failure),
    };
    answer.model = Some(loaded.flat.model.clone());
    answer.diagnostics = loaded.diagnostics.clone();
    if let Some(name) = args.file.set.iter().map(|setting| &setting.name).find(|name| loaded.is_random(name)) {
        let message = format!("`{name}` is random in this study: `--set` gives it no other value");
        let help = "change its distribution below `[random]`, or take it out of there";
        return answer.fail(Status::Usage, vec![Diagnostic::error("random-parameter", message).with_help(help)]);
    }
    let settings = UqSettings {
        seed: args.file.common.seed,
        threads: args.file.common.threads,
        checkpoint: args.checkpoint.clone(),
    };
    let found = match uq::uq(&loaded, &settings) {
        Ok(found) => found,
        Err(failure) => return answer.refused_of(&loaded, failure),
    };
    answer.keys = found.to_json();
    answer.text = found.to_text();
    answer.diagnostics.extend(loaded.open_inputs());
    answer.diagnostics.extend(loaded.held_disturbances());
    answer.diagnostics.extend(found.diagnostics.iter().cloned());
    answer.tell_start(&loaded, &[]);
    let mut table = found.table();
    answer.distinct(&mut table);
    let mut files: Vec<(&Path, Vec<u8>)> = Vec::new();
    if let Some(path) = &args.file.output {
        files.push((path, to_bytes(&table, kind)));
    }
    if let Some(path) = &args.file.report {
        files.push((
            path,
            found.page(&loaded).warning(&answer.diagnostics).from_run(args.file.provenance()).to_html().into_bytes(),
        ));
    }
    if let Some(path) = &args.surrogate {
        let joint = loaded.study.as_ref().and_then(|study| study.joint.as_ref());
        let Some(surrogate) = found.surrogate else {
            let (message, help) = match joint.and_then(|joint| joint.samples.as_ref()) {
                Some(samples) => (
                    format!(
                        "there are no polynomials in parameters that `{}` has samples of together: they are not independent, \
                         nor normal",
                        samples.file
                    ),
                    "give `mean` and `covariance` in `[random.joint]` instead of `samples`",
                ),
                None => (
                    "there are too few samples to fit a surrogate".to_owned(),
                    "take more `samples` or a lower `degree`",
                ),
            };
            return answer.fail(Status::Fault, vec![Diagnostic::error("surrogate", message).with_help(help)]);
        };
        let file = SurrogateFile { model: found.model, surrogate, joint: joint.and_then(JointMap::new) };
        files.push((path, file.to_text().into_bytes()));
    }
    answer.table = Some(table);
    for (path, bytes) in files {
        if let Err(error) = write_whole(path, &bytes) {
            return answer.fail(Status::Fault, vec![cannot_write(path, &error)]);
        }
        answer.text.push_str(&format!("Wrote {}.\n", path.display()));
    }
    answer
}

/// The polynomials of an earlier run at parameter values.
fn evaluate_surrogate(args: &UqArgs, kind: TableKind, mut answer: Answer) -> Answer {
    let path = &args.file.file;
    let shown = path.display().to_string();
    if args.surrogate.is_some() || args.file.report.is_some() {
        let message = "a surrogate is evaluated to a table: `--surrogate` and `--report` have nothing to write";
        return answer.fail(Status::Usage, vec![Diagnostic::error("usage", message)]);
    }
    let set = match args.file.settings() {
        Ok(set) => set,
        Err(failure) => return answer.refused(failure),
    };
    let text = match daesy_model::file::read_text(path, daesy_model::file::MAX_DATA_BYTES) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("`{shown}` cannot be read: {error}");
            return answer.fail(Status::Fault, vec![Diagnostic::about_file("file", &shown, message)]);
        }
    };
    let evaluated = read_surrogate(&text, &shown).and_then(|file| {
        answer.model = Some(file.model.clone());
        file.evaluate(&set)
    });
    let evaluated = match evaluated {
        Ok(evaluated) => evaluated,
        Err(diagnostics) => return answer.fail(Status::Fault, diagnostics),
    };
    let parameters: Map<String, Value> =
        evaluated.parameters.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    answer.keys.insert("parameters".into(), Value::Object(parameters));
    let last = evaluated.table.names.iter().zip(&evaluated.table.columns).skip(1);
    let finals: Map<String, Value> = last.map(|(name, column)| (name.clone(), json!(column.last()))).collect();
    answer.keys.insert("final".into(), Value::Object(finals));
    if let Some(path) = &args.file.output {
        if let Err(error) = write_whole(path, &to_bytes(&evaluated.table, kind)) {
            return answer.fail(Status::Fault, vec![cannot_write(path, &error)]);
        }
        answer.text = format!("Wrote {}.\n", path.display());
    } else {
        answer.text = evaluated.table.to_csv();
    }
    answer.table = Some(evaluated.table);
    answer
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

/// The check as a page.
pub(crate) fn check_page(check: &check::Check) -> Page {
    let mut page = Page::new(&format!("Check of {}", check.model));
    add_check(&mut page, check);
    page
}

/// The check as a part of a page.
pub(crate) fn add_check(page: &mut Page, check: &check::Check) {
    let size = check.size;
    page.table(
        &["equations", "unknowns", "parameters", "inputs"],
        &[vec![
            size.equations.to_string(),
            size.unknowns.to_string(),
            size.parameters.to_string(),
            size.inputs.to_string(),
        ]],
    );
    if let Some(verdict) = &check.verdict {
        for paragraph in verdict.paragraphs() {
            let mut lines = paragraph.lines();
            page.paragraph(lines.next().unwrap_or_default());
            let items: Vec<&str> = lines.map(str::trim).collect();
            if !items.is_empty() {
                page.list(&items);
            }
        }
    }
    for diagnostic in &check.diagnostics {
        let place = diagnostic.place.as_ref().map_or(String::new(), |place| format!("{place}: "));
        let help = diagnostic.help.as_ref().map_or(String::new(), |help| format!(" ({help})"));
        page.remark(diagnostic.level.word(), &format!("{place}{}{help}", diagnostic.message));
    }
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
