//! What can be written on the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use daesy_estimate::alarm::RATES;
use daesy_study::limits;
use daesy_system::Watch;

use crate::cost;
use crate::diagnostic::Diagnostic;
use crate::distribute::Elsewhere;
use crate::failure::Failure;
use crate::linearization::At;
use crate::report::provenance::Provenance;
use crate::source::Source;

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
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) verb: Verb,
}

#[derive(Subcommand)]
pub(super) enum Verb {
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
pub(super) struct FileArgs {
    /// A Modelica file (.mo), a package folder, a class name, a unit (.fmu), or a study (.toml)
    pub(super) file: PathBuf,
    /// The class, when a Modelica file holds several
    #[arg(long, value_name = "NAME")]
    pub(super) class: Option<String>,
    /// Gives a parameter another value; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = Setting::parse)]
    pub(super) set: Vec<Setting>,
    /// Data files to use instead of those the study names, one per experiment; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) data: Vec<PathBuf>,
    /// Writes the table of results (.csv, .parquet or .mat)
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: Option<PathBuf>,
    /// Writes a self-contained page
    #[arg(long, value_name = "OUT.html")]
    pub(super) report: Option<PathBuf>,
    /// Refuses to run units of other tools (.fmu), which are native code
    #[arg(long)]
    pub(super) no_native: bool,
    /// Ends long work in good order after so many seconds, with what was found so far
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive)]
    pub(super) time_limit: Option<f64>,
    /// When the work began
    #[arg(skip = std::time::Instant::now())]
    pub(super) begun: std::time::Instant,
    #[command(flatten)]
    pub(super) common: CommonArgs,
    /// What a caller in the same process hands over instead of the file
    #[arg(skip)]
    pub(super) caller: Caller,
}

/// What only a caller in the same process can give.
#[derive(Clone, Default)]
pub(super) struct Caller {
    pub(super) source: Option<Source>,
    pub(super) watch: Watch,
    pub(super) elsewhere: Option<Elsewhere>,
}

/// `--set`: a parameter and its value, or the values it runs through.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Setting {
    pub(super) name: String,
    pub(super) values: Vec<f64>,
    pub(super) is_range: bool,
}

impl Setting {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
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
    pub(super) fn is_late(&self) -> bool {
        self.time_limit.is_some_and(|limit| self.begun.elapsed().as_secs_f64() >= limit)
    }

    /// The caller's watch, which the time limit stops too.
    pub(super) fn watch(&self) -> Watch {
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
    pub(super) fn provenance(&self) -> Provenance {
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
    pub(super) fn settings(&self) -> Result<Vec<(String, f64)>, Failure> {
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
pub(super) struct SimulateArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// auto, explicit, rosenbrock or radau; what the study says when left out
    #[arg(long, value_name = "NAME", value_parser = ["auto", "explicit", "rosenbrock", "radau"])]
    pub(super) method: Option<String>,
    /// The longest step of the integration
    #[arg(long, value_name = "H", value_parser = parse_positive)]
    pub(super) max_step: Option<f64>,
}

#[derive(Args, Clone)]
pub(super) struct LinearizeArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// The point: a time of the simulation, `rest` where no variable changes, or the value of an input or a variable;
    /// may be repeated. The start of the simulation when left out
    #[arg(long, value_name = "TIME|rest|NAME=VALUE", value_parser = At::parse, allow_hyphen_values = true)]
    pub(super) at: Vec<At>,
    /// Inputs, separated by commas; all when left out
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) inputs: Option<Vec<String>>,
    /// Outputs, separated by commas: any variables; those of the model, of the study, or the states when left out
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) outputs: Option<Vec<String>>,
}

#[derive(Args, Clone)]
pub(super) struct RegularizeArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Takes time-varying coefficients at this time; the start of the simulation when left out
    #[arg(long, value_name = "T", allow_negative_numbers = true)]
    pub(super) time: Option<f64>,
    /// Makes outputs states where an input feeds through to them
    #[arg(long, conflicts_with_all = ["feedback", "given_inputs"])]
    pub(super) remove_feedthrough: bool,
    /// Keeps states and inputs and finds a feedback u = K x + w that makes the system regular
    #[arg(long, conflicts_with_all = ["state", "input", "given_inputs"])]
    pub(super) feedback: bool,
    /// Variables or inputs that must be states
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "given_inputs")]
    pub(super) state: Vec<String>,
    /// Variables or inputs that must be inputs
    #[arg(long, value_name = "NAME", num_args = 1.., conflicts_with = "given_inputs")]
    pub(super) input: Vec<String>,
    /// Leaves redundant equations out even if they contradict the others
    #[arg(long)]
    pub(super) drop_redundant: bool,
    /// Takes the inputs as given functions of time, whose derivatives may enter, instead of as variables
    #[arg(long)]
    pub(super) given_inputs: bool,
}

#[derive(Args, Clone)]
pub(super) struct UqArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Writes the polynomials in the random parameters; a FILE so written is evaluated by
    /// `daesy uq FILE --set NAME=VALUE`
    #[arg(long, value_name = "FILE")]
    pub(super) surrogate: Option<PathBuf>,
    /// Keeps what is computed; the same command run again goes on where the file ends
    #[arg(long, value_name = "FILE")]
    pub(super) checkpoint: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub(super) struct IdentifyArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// More studies of the same data, to be compared with the first
    #[arg(value_name = "STUDY.toml")]
    pub(super) others: Vec<PathBuf>,
    /// auto, ml, pem or output-error; what the study says when left out
    #[arg(long, value_name = "NAME")]
    pub(super) method: Option<String>,
    /// Searches from this many points spread over the bounds
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_starts)]
    pub(super) starts: usize,
    /// Also finds profile-likelihood intervals
    #[arg(long)]
    pub(super) profile: bool,
    /// Data files to validate with instead of those the study names; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) validation: Vec<PathBuf>,
    /// Draws this many samples of the posterior by each chain
    #[arg(long, value_name = "N", value_parser = parse_draws, conflicts_with = "others")]
    pub(super) posterior: Option<usize>,
    /// Chains of the posterior
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = parse_chains, requires = "posterior")]
    pub(super) chains: usize,
    /// Writes the samples of the posterior (.csv, .parquet or .mat)
    #[arg(long, value_name = "OUT", requires = "posterior")]
    pub(super) posterior_file: Option<PathBuf>,
    /// Writes the study with the estimates in the place of the unknowns, to be applied to other data
    #[arg(long, value_name = "STUDY.toml")]
    pub(super) save: Option<PathBuf>,
    /// Keeps what was computed, so that the same command goes on where it ended
    #[arg(long, value_name = "FILE")]
    pub(super) checkpoint: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub(super) struct CostArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Values of an unknown; may be repeated, the last runs fastest
    #[arg(long, value_name = "NAME=FROM:TO:N", required = true)]
    pub(super) grid: Vec<String>,
    /// auto, ml, pem or output-error; what the study says when left out
    #[arg(long, value_name = "NAME")]
    pub(super) method: Option<String>,
    /// Keeps what was computed, so that the same command goes on where it ended
    #[arg(long, value_name = "FILE")]
    pub(super) checkpoint: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub(super) struct EstimateArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Identifies the unknowns first, instead of taking their start values
    #[arg(long)]
    pub(super) identify: bool,
    /// Predicts this many seconds beyond each record, with standard deviations
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive)]
    pub(super) horizon: Option<f64>,
    /// Known inputs of that time: a table of times and columns; held as they are at the end when left out
    #[arg(long, value_name = "FILE", requires = "horizon")]
    pub(super) future: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub(super) struct DesignArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Writes a study that is ready to run with the input that `-o` writes
    #[arg(long, value_name = "STUDY.toml", requires = "output")]
    pub(super) save: Option<PathBuf>,
}

#[derive(Args, Clone)]
pub(super) struct WatchArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Reads samples from a file that grows, until stopped, instead of standard input
    #[arg(long, value_name = "FILE")]
    pub(super) follow: Option<PathBuf>,
    /// Keeps where the filter is; the same command goes on there
    #[arg(long, value_name = "FILE")]
    pub(super) state: Option<PathBuf>,
    /// False alarms of each test per sample; what the study says, or 1e-4
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub(super) false_alarm_rate: Option<f64>,
    /// Predicts this many seconds beyond each sample, with standard deviations
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive)]
    pub(super) horizon: Option<f64>,
    /// Known inputs of that time: a table of times and columns; held as they are when left out
    #[arg(long, value_name = "FILE", requires = "horizon")]
    pub(super) future: Option<PathBuf>,
    /// The usual distance of samples in seconds; what study or data say when left out
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive)]
    pub(super) step: Option<f64>,
}

#[derive(Args, Clone)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    pub(super) file: FileArgs,
    /// Version of the interface
    #[arg(long, value_name = "2|3", default_value = "2", value_parser = ["2", "3"])]
    pub(super) fmi: String,
    /// Who integrates: the importer (me), the unit (cs), or either
    #[arg(long, value_name = "me|cs|both", default_value = "both", value_parser = ["me", "cs", "both"])]
    pub(super) kind: String,
    /// The filter of the study: known inputs and measurements in, estimates and standard deviations out
    #[arg(long)]
    pub(super) observer: bool,
    /// The usual distance of samples in seconds; what study or data say when left out
    #[arg(long, value_name = "SECONDS", value_parser = parse_positive, requires = "observer")]
    pub(super) step: Option<f64>,
}

#[derive(Args, Clone, Default)]
pub(super) struct CommonArgs {
    /// One JSON document on standard output, nothing else there
    #[arg(long)]
    pub(super) json: bool,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) seed: u64,
    /// Number of threads; all cores when left out
    #[arg(long, value_name = "N", value_parser = parse_threads)]
    pub(super) threads: Option<usize>,
    /// No progress, no notes
    #[arg(long)]
    pub(super) quiet: bool,
}

#[derive(Args, Clone)]
pub(super) struct NewArgs {
    /// Name of the folder and the model
    pub(super) name: String,
    /// Makes model and study from the header of this data file
    #[arg(long, value_name = "FILE")]
    pub(super) data: Option<PathBuf>,
    /// A column of the data file that drives the model (repeatable); headers decide if none is named
    #[arg(long, value_name = "COLUMN", requires = "data")]
    pub(super) input: Vec<String>,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

#[derive(Args, Clone)]
pub(super) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(super) shell: clap_complete::Shell,
}

#[derive(Args, Clone)]
pub(super) struct LspArgs {
    /// Speaks over standard input and output, which it does in any case; editors pass it
    #[arg(long)]
    pub(super) stdio: bool,
}

#[derive(Args, Clone)]
pub(super) struct ManArgs {
    /// Folder for the pages
    #[arg(value_name = "FOLDER")]
    pub(super) folder: PathBuf,
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

#[derive(Args, Clone)]
pub(super) struct DemoArgs {
    /// Folder for the report and the pictures
    #[arg(short, long, value_name = "FOLDER", default_value = "daesy-demo")]
    pub(super) output: PathBuf,
    #[command(flatten)]
    pub(super) common: CommonArgs,
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
