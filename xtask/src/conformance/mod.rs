//! `cargo xtask conformance`: the examples of a library against the reference results that its makers publish.

mod outcome;
mod reference;
mod tube;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process;
use crate::workspace::Workspace;
use outcome::{Outcome, Verdict};
use reference::{Case, Columns};
use tube::Signal;

/// How much longer than its processor time a program may take on a busy machine.
const BUSY: u32 = 30;

/// What the command line says.
struct Options {
    library: PathBuf,
    references: PathBuf,
    /// A folder of libraries that is looked in before the others.
    first: Option<PathBuf>,
    only: Option<String>,
    limit: Duration,
    output: PathBuf,
    earlier: Option<PathBuf>,
    program: Option<PathBuf>,
    page: Option<PathBuf>,
}

fn options(workspace: &Workspace, arguments: &[String]) -> Result<Options, String> {
    let mut places = Vec::new();
    let mut options = Options {
        library: PathBuf::new(),
        references: PathBuf::new(),
        first: None,
        only: None,
        limit: Duration::from_secs(60),
        output: workspace.target.join("conformance/results.tsv"),
        earlier: None,
        program: None,
        page: None,
    };
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if !argument.starts_with("--") {
            places.push(PathBuf::from(argument));
            continue;
        }
        let value = rest.next().ok_or_else(|| format!("`{argument}` needs a value"))?;
        match argument.as_str() {
            "--first" => options.first = Some(PathBuf::from(value)),
            "--only" => options.only = Some(value.clone()),
            "--limit" => {
                let seconds = value.parse().map_err(|_| format!("`{value}` is not a number of seconds"))?;
                options.limit = Duration::from_secs(seconds);
            }
            "--output" => options.output = PathBuf::from(value),
            "--earlier" => options.earlier = Some(PathBuf::from(value)),
            "--program" => options.program = Some(PathBuf::from(value)),
            "--page" => options.page = Some(PathBuf::from(value)),
            other => return Err(format!("there is no option `{other}`")),
        }
    }
    let [library, references] = places.as_slice() else {
        return Err("say where the library and its references are".to_owned());
    };
    let full = |path: &Path| path.canonicalize().map_err(|e| format!("cannot find {}: {e}", path.display()));
    (options.library, options.references) = (full(library)?, full(references)?);
    options.first = options.first.as_deref().map(full).transpose()?;
    Ok(options)
}

/// Runs the comparison; true if no example differs or crashes.
pub fn run(workspace: &Workspace, arguments: &[String]) -> bool {
    match compare(workspace, arguments) {
        Ok(outcomes) => !outcomes.iter().any(|one| matches!(one.verdict, Verdict::Differs | Verdict::Crashed)),
        Err(message) => {
            eprintln!("{message}");
            false
        }
    }
}

fn compare(workspace: &Workspace, arguments: &[String]) -> Result<Vec<Outcome>, String> {
    let options = options(workspace, arguments)?;
    let earlier = match &options.earlier {
        Some(path) => outcome::from_text(&read(path)?)?,
        None => Vec::new(),
    };
    let program = match &options.program {
        Some(program) => program.clone(),
        None => {
            process::run(process::cargo().args(["build", "--release", "--bin", "daesy"]).current_dir(&workspace.root))?;
            workspace.target.join("release/daesy")
        }
    };
    let (cases, n_without) = reference::cases(&options.references)?;
    let mut outcomes = Vec::new();
    for case in &cases {
        if options.only.as_ref().is_some_and(|only| !only.split(',').any(|part| case.name.contains(part))) {
            // What is not run again is as it was.
            outcomes.extend(earlier.iter().find(|one| one.name == case.name).cloned());
            continue;
        }
        let one = example(case, &program, &options, workspace)?;
        println!("{:9} {:7.2} s  {}  {}", one.verdict.word(), one.seconds, one.name, shortened(&one.reason));
        outcomes.push(one);
    }
    let summary = summary(&outcomes, n_without);
    println!("\n{summary}");
    outcome::changes(&earlier, &outcomes).iter().for_each(|line| println!("{line}"));
    write(&options.output, &outcome::to_text(&outcomes))?;
    println!("results are in {}", options.output.display());
    if let Some(page) = &options.page {
        write(page, &book_page(&outcomes, n_without, &options))?;
    }
    Ok(outcomes)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let explain = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(explain)?;
    }
    std::fs::write(path, text).map_err(explain)
}

fn shortened(text: &str) -> String {
    text.chars().take(120).collect()
}

/// A run of the program on an example.
struct Finish {
    finished: process::Finished,
    /// Of the processor.
    seconds: f64,
    table: PathBuf,
}

/// How a run of an example deviates from the settings of its reference.
#[derive(Clone, Copy)]
struct Deviation<'f> {
    /// The tolerance, as a multiple of the reference's.
    tolerance: f64,
    /// A folder of libraries that is looked in before all others.
    first: Option<&'f Path>,
}

/// Simulates an example.
fn simulate(
    case: &Case,
    deviation: Deviation<'_>,
    options: &Options,
    program: &Path,
    folder: &Path,
) -> Result<Finish, String> {
    let (study, table) = (folder.join("study.toml"), folder.join("table.mat"));
    let top = case.name.split('.').next().unwrap_or_default();
    write(&study, &case.study(&options.library.join(top), deviation.tolerance))?;
    let _ = std::fs::remove_file(&table);
    // The limit is on processor time: how busy the machine is decides nothing.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -t $0; exec \"$@\"", &options.limit.as_secs().to_string()]).arg(program);
    command.arg("simulate").arg(&study).arg("-o").arg(&table).args(["--quiet", "--json"]);
    let folders = deviation.first.into_iter().chain([options.library.as_path()]);
    let search = std::env::join_paths(folders).map_err(|e| format!("a folder cannot be searched: {e}"))?;
    command.env("MODELICAPATH", search).env("NO_COLOR", "1");
    let (before, began) = (children_seconds(), Instant::now());
    let finished = process::run_captured(&mut command, folder, options.limit * BUSY)?;
    let seconds = match (before, children_seconds()) {
        (Some(before), Some(after)) => after - before,
        _ => began.elapsed().as_secs_f64(),
    };
    Ok(Finish { finished, seconds, table })
}

/// Simulates an example and compares its signals.
fn example(case: &Case, program: &Path, options: &Options, workspace: &Workspace) -> Result<Outcome, String> {
    let folder = workspace.target.join("conformance/run");
    let as_given = Deviation { tolerance: 1.0, first: options.first.as_deref() };
    let Finish { finished, seconds, table } = simulate(case, as_given, options, program, &folder)?;
    let make = |verdict: Verdict, reason: String| Outcome { name: case.name.clone(), verdict, seconds, reason };
    if finished.is_timed_out || (finished.status.is_none() && seconds >= 0.8 * options.limit.as_secs_f64()) {
        return Ok(make(Verdict::TooSlow, format!("more than {} s", options.limit.as_secs())));
    }
    // Where the library lies on this machine is nobody else's business.
    let reason = first_error(&finished.stdout).replace(&format!("{}/", options.library.display()), "");
    Ok(match finished.status {
        Some(0) => {
            let ours = read_table(case, &table)?;
            let judged = judge(case, &ours, &finished.stdout)?;
            match judged.spread_to_explain {
                Some(worst) => {
                    let services = other_rounding(options, &folder)?;
                    let again = |deviation: Deviation<'_>| -> Result<Option<Columns>, String> {
                        let Finish { finished, table, .. } = simulate(case, deviation, options, program, &folder)?;
                        (finished.status == Some(0)).then(|| read_table(case, &table)).transpose()
                    };
                    match explanation(case, &ours, worst, options.first.as_deref(), services.as_deref(), again)? {
                        Some(more) => make(Verdict::Sensitive, format!("{}; {more}", judged.reason)),
                        None => make(Verdict::Differs, judged.reason),
                    }
                }
                None => make(judged.verdict, judged.reason),
            }
        }
        Some(3) => make(Verdict::Failed, reason),
        Some(1 | 2) if !finished.stderr.contains("panicked at") => make(Verdict::Refused, reason),
        _ => make(Verdict::Crashed, finished.stderr.lines().last().unwrap_or_default().to_owned()),
    })
}

/// The time and the signals that count in a table of the program.
fn read_table(case: &Case, table: &Path) -> Result<Columns, String> {
    let bytes = std::fs::read(table).map_err(|e| format!("cannot read {}: {e}", table.display()))?;
    let wanted = |name: &str| name == "t" || case.signals.iter().any(|signal| signal == name);
    Ok(reference::matlab(&bytes, &wanted))
}

/// A signal of a table of the program.
fn signal<'c>(columns: &'c Columns, name: &str) -> Option<Signal<'c>> {
    let (times, values) = (columns.get("t")?, columns.get(name)?);
    (times.len() == values.len()).then_some(Signal { times, values })
}

/// Our solution is settled where a tolerance a hundred times tighter moves it by no more than this, in tubes.
const SETTLED: f64 = 0.2;

/// A reference may be this much farther off than our solution is moved by what may explain it.
const COMPARABLE: f64 = 5.0;

/// What explains that the reference is off by `worst` tubes, if something does that is no property of the model: errors
/// of the size of the reference's tolerance, or the rounding unit of the tool that the library asks for. What errors of
/// that size do is shown by a run with ten times the tolerance, against one with a hundredth of it, on which ours has
/// settled; what the unit does, by a run with another one.
fn explanation(
    case: &Case,
    ours: &Columns,
    worst: f64,
    first: Option<&Path>,
    services: Option<&Path>,
    again: impl Fn(Deviation<'_>) -> Result<Option<Columns>, String>,
) -> Result<Option<String>, String> {
    let Some(tight) = again(Deviation { tolerance: 0.01, first })? else { return Ok(None) };
    let settled = moved(&case.signals, ours, &tight).max(moved(&case.signals, &tight, ours));
    if settled > SETTLED {
        return Ok(None);
    }
    let explains = |moved: f64| moved >= 1.0 && worst <= COMPARABLE * moved;
    if let Some(loose) = again(Deviation { tolerance: 10.0, first })? {
        let scattered = moved(&case.signals, &tight, &loose);
        if explains(scattered) {
            return Ok(Some(format!(
                "a hundredth of the tolerance moves ours by {settled:.2} tubes, ten times the tolerance by {scattered:.2}"
            )));
        }
    }
    let Some(services) = services else { return Ok(None) };
    let Some(other) = again(Deviation { tolerance: 1.0, first: Some(services) })? else { return Ok(None) };
    let scattered = moved(&case.signals, ours, &other);
    Ok(explains(scattered).then(|| {
        format!(
            "a hundredth of the tolerance moves ours by {settled:.2} tubes, {ROUNDING} times `Machine.eps` by {scattered:.2}"
        )
    }))
}

/// The largest distance in tubes of a run from another that takes the place of the reference: a tube is wide where its
/// middle is steep, so who has which part decides.
fn moved(signals: &[String], run: &Columns, reference: &Columns) -> f64 {
    signals.iter().fold(0.0, |largest: f64, name| match (signal(run, name), signal(reference, name)) {
        (Some(run), Some(reference)) => largest.max(tube::distance(run, reference).worst),
        _ => largest,
    })
}

/// The factor between the rounding unit of a library and another that a tool may have.
const ROUNDING: f64 = 4.0;

/// A folder with the library's `ModelicaServices`, in which the rounding unit of the tool is another one.
fn other_rounding(options: &Options, folder: &Path) -> Result<Option<PathBuf>, String> {
    let place = "ModelicaServices/package.mo";
    let files = options.first.iter().chain([&options.library]).map(|folder| folder.join(place));
    let Some(text) = files.into_iter().find(|file| file.is_file()).map(|file| read(&file)).transpose()? else {
        return Ok(None);
    };
    let Some((eps, value)) = machine_eps(&text).and_then(|eps| Some((eps, eps.parse::<f64>().ok()?))) else {
        return Ok(None);
    };
    let services = folder.join("services");
    write(&services.join(place), &text.replacen(eps, &format!("{:e}", ROUNDING * value), 1))?;
    Ok(Some(services))
}

/// The first error among the findings: `[code] message`.
fn first_error(document: &str) -> String {
    let document: Value = serde_json::from_str(document).unwrap_or_default();
    let findings = document["findings"].as_array().map_or(&[][..], Vec::as_slice);
    let error = findings.iter().find(|finding| finding["level"] == "error");
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    error.map_or_else(String::new, |finding| format!("[{}] {}", text(finding, "code"), text(finding, "message")))
}

/// How a run compares with its reference.
struct Judged {
    verdict: Verdict,
    reason: String,
    /// The largest distance in tubes, where a signal is outside.
    spread_to_explain: Option<f64>,
}

/// Compares every signal of a reference with the table; parameters are in the document beside it.
fn judge(case: &Case, ours: &Columns, document: &str) -> Result<Judged, String> {
    let reference = case.table()?;
    let document: Value = serde_json::from_str(document).map_err(|e| format!("{}: {e}", case.name))?;
    let differs = |reason: String| Judged { verdict: Verdict::Differs, reason, spread_to_explain: None };
    let (Some(times), Some(reference_times)) = (ours.get("t"), reference.get("time").or_else(|| reference.get("Time")))
    else {
        return Ok(differs("there is no time".to_owned()));
    };
    let mut worst: Option<(tube::Distance, &str)> = None;
    let mut n_outside = 0;
    for name in &case.signals {
        // Some lists name signals that their own table does not have.
        let Some(reference_values) = reference.get(name) else { continue };
        let constant = document["parameters"][name].as_f64().map(|value| vec![value; times.len()]);
        let Some(values) = ours.get(name).or(constant.as_ref()) else {
            return Ok(differs(format!("`{name}` is not in the table")));
        };
        if values.len() != times.len() || reference_values.len() != reference_times.len() {
            return Ok(differs(format!("`{name}` has {} rows, time has {}", values.len(), times.len())));
        }
        let reference = Signal { times: reference_times, values: reference_values };
        let found = tube::distance(Signal { times, values }, reference);
        n_outside += usize::from(found.worst > 1.0);
        if worst.is_none_or(|(known, _)| found.worst > known.worst) {
            worst = Some((found, name));
        }
    }
    Ok(match worst {
        Some((distance, name)) if distance.worst > 1.0 => {
            let (n, at) = (case.signals.len(), distance.time);
            let reason = format!("{n_outside} of {n} signals; {name} by {:.3} tubes at {at}", distance.worst);
            Judged { spread_to_explain: Some(distance.worst), ..differs(reason) }
        }
        Some(_) => Judged { verdict: Verdict::Agrees, reason: String::new(), spread_to_explain: None },
        None => differs("none of the signals is in the table".to_owned()),
    })
}

/// Processor seconds of all children that have ended, where the system tells.
fn children_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // User and system time of children, in hundredths of a second on every Linux in use.
    Some((fields.get(13)?.parse::<f64>().ok()? + fields.get(14)?.parse::<f64>().ok()?) / 100.0)
}

/// A page of the book: what agrees by package, and one entry for each example that does not, with its reason.
fn book_page(outcomes: &[Outcome], n_without: usize, options: &Options) -> String {
    let mut text = format!(
        "# Conformance\n\nThis page was written by `cargo xtask conformance`. It simulates the examples of a library and compares\n\
         their signals with the reference results that the makers of the library publish: all of them must stay in a tube of\n\
         2e-3 of the time span by 2e-3 of the range of the reference. The library here is `{}`, version {}.\n\n",
        outcomes.first().map_or("", |one| one.name.split('.').next().unwrap_or_default()),
        version(&options.library, outcomes).unwrap_or_else(|| "unknown".to_owned()),
    );
    let services = options.first.as_deref().and_then(|folder| read(&folder.join("ModelicaServices/package.mo")).ok());
    if let Some(eps) = services.as_deref().and_then(machine_eps) {
        text.push_str(&format!(
            "The results here were made with a `ModelicaServices` in front of the library's whose `Machine.eps` is {eps}, as the\n\
             tool of the references seems to have.\n\n"
        ));
    }
    text.push_str(&outcome::table(outcomes));
    text.push_str(
        "\nAn example is *sensitive*, and not counted as agreeing, if a signal is outside of the tube, a hundredth of the\n\
         tolerance does not move our solution, and ten times the tolerance of the reference, or another rounding unit\n\
         of the tool (`Machine.eps`), moves it by a fifth of the difference or more: there the comparison decides nothing.\n",
    );
    let n_agree = outcomes.iter().filter(|one| one.verdict == Verdict::Agrees).count();
    text.push_str(&format!(
        "\n{n_agree} of {} examples agree; {n_without} more have no stored table. All took {:.0} s of processor time.\n",
        outcomes.len(),
        outcomes.iter().map(|one| one.seconds).sum::<f64>()
    ));
    text.push_str(&slowest(outcomes));
    text.push_str("\n## Those that do not agree\n\n");
    for one in outcomes.iter().filter(|one| one.verdict != Verdict::Agrees) {
        text.push_str(&format!("- `{}`: {}\n", one.name, one.verdict.word()));
        for part in one.reason.split("; ").filter(|part| !part.is_empty()) {
            let reason: String = part.chars().take(110).collect();
            let cut = if reason.len() < part.len() { " .." } else { "" };
            // A cut may fall into a quotation.
            let close = if reason.matches('`').count() % 2 == 1 { "`" } else { "" };
            text.push_str(&format!("  {reason}{cut}{close}\n"));
        }
    }
    text
}

/// The rounding unit in the text of a `ModelicaServices`.
fn machine_eps(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once("Real eps=")?;
    rest.split([' ', ';', '\n']).next()
}

/// The version that the annotation of the package says.
fn version(library: &Path, outcomes: &[Outcome]) -> Option<String> {
    let top = outcomes.first()?.name.split('.').next()?;
    let text = std::fs::read_to_string(library.join(top).join("package.mo")).ok()?;
    let at = text.find("\nversion=\"").or_else(|| text.find(" version=\""))?;
    text[at..].split('"').nth(1).map(str::to_owned)
}

fn summary(outcomes: &[Outcome], n_without: usize) -> String {
    let count = |verdict: Verdict| outcomes.iter().filter(|one| one.verdict == verdict).count();
    let mut text = outcome::table(outcomes);
    text.push_str(&format!(
        "\n{} of {} examples agree; {} more have no stored table. All took {:.0} s of processor time.\n\n",
        count(Verdict::Agrees),
        outcomes.len(),
        n_without,
        outcomes.iter().map(|one| one.seconds).sum::<f64>()
    ));
    text.push_str("| examples | reason |\n|---|---|\n");
    for (n, reason) in outcome::reasons(outcomes).iter().take(40) {
        text.push_str(&format!("| {n} | {} |\n", reason.replace('|', "\\|")));
    }
    text.push_str("\nThose that differ:\n\n");
    for one in outcomes.iter().filter(|one| one.verdict == Verdict::Differs) {
        text.push_str(&format!("- `{}`: {}\n", one.name, one.reason));
    }
    text.push_str(&slowest(outcomes));
    text
}

/// The ten slowest examples.
fn slowest(outcomes: &[Outcome]) -> String {
    let mut slow: Vec<&Outcome> = outcomes.iter().collect();
    slow.sort_by(|left, right| right.seconds.total_cmp(&left.seconds));
    let mut text = "\nThe ten slowest:\n\n".to_owned();
    for one in slow.iter().take(10) {
        text.push_str(&format!("- {:.1} s `{}` ({})\n", one.seconds, one.name, one.verdict.word()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str) -> Case {
        Case::named(name, &["x"])
    }

    fn columns(values: impl Fn(f64) -> f64) -> Columns {
        let times: Vec<f64> = (0..=1000).map(|k| f64::from(k) / 1000.0).collect();
        let x = times.iter().map(|&t| values(t)).collect();
        Columns::from([("t".to_owned(), times), ("x".to_owned(), x)])
    }

    /// x ends steeply: seen from the loose run the tight one is far off, seen from the tight one the loose one is near.
    #[test]
    fn a_deviation_is_measured_in_the_tube_of_what_stands_for_the_reference() {
        let end =
            |x: f64| columns(move |t| if t > 0.998 { 0.002 + (x - 0.002) * (t - 0.998) / 0.002 } else { 1.0 - t });
        let (tight, loose) = (end(-0.02), end(0.0));
        let signals = ["x".to_owned()];
        let (near, far) = (moved(&signals, &loose, &tight), moved(&signals, &tight, &loose));
        assert!(near < 1.0 && far > 5.0, "{near} {far}");
        let again = |deviation: Deviation<'_>| Ok(Some(if deviation.tolerance > 1.0 { end(0.0) } else { end(-0.02) }));
        let found = explanation(&case("L.X"), &tight, 2.0 * far, None, None, again).unwrap();
        assert!(found.is_some_and(|text| text.contains("ten times the tolerance")));
        let none = explanation(&case("L.X"), &tight, 6.0 * far, None, None, again).unwrap();
        assert_eq!(none, None, "the reference is much farther off");
        let unsettled = explanation(&case("L.X"), &end(-0.05), 1.0, None, None, again).unwrap();
        assert_eq!(unsettled, None, "ours is not settled");
    }

    #[test]
    fn a_quotient_by_the_rounding_unit_is_sensitive_to_it() {
        let with = |eps: f64| columns(move |t| if (t - 0.5).abs() < 1e-3 { 1.0 / eps } else { 1.0 });
        let again = |deviation: Deviation<'_>| Ok(Some(with(if deviation.first.is_some() { 4e-6 } else { 1e-6 })));
        let services = Path::new("services");
        let found = explanation(&case("L.X"), &with(1e-6), 1000.0, None, Some(services), again).unwrap();
        assert!(found.is_some_and(|text| text.contains("Machine.eps")));
        let steady = |_: Deviation<'_>| Ok(Some(with(1e-6)));
        let none = explanation(&case("L.X"), &with(1e-6), 1000.0, None, Some(services), steady).unwrap();
        assert_eq!(none, None);
        assert_eq!(machine_eps("final constant Real eps=2.2e-016 \"unit\""), Some("2.2e-016"));
    }
}
