//! Time and memory of the program on families of models that grow, and the exponents they grow with.
//!
//! `cargo xtask bench large FOLDER [--family TEXT] [--largest N] [--seconds S] [--peer FILE]` takes a folder with a
//! package such as the ScalableTestSuite [@casella2015], which is no part of this project: every model in a package
//! `ScaledExperiments` whose name ends with sizes (`_N_640`, `_N_40_M_40`) belongs to a family. Libraries that the
//! package needs are found through MODELICAPATH. A family ends at the first model that takes longer than S seconds
//! (60 when left out). FILE has lines `model,seconds` with what another tool took to simulate; it is shown beside.
//!
//! Times are those of the processor, user and system together, so that other work on the machine does not count.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A model of a family.
#[derive(Clone, Debug)]
struct Member {
    /// Its full name.
    class: String,
    /// The product of its sizes.
    size: u64,
}

/// What a run of the program took.
#[derive(Clone, Copy, Debug)]
struct Cost {
    seconds: f64,
    megabytes: f64,
    is_done: bool,
}

/// What the command line asks for.
struct Options {
    folder: PathBuf,
    family: String,
    largest: u64,
    limit: Duration,
    peer: BTreeMap<String, f64>,
}

fn options() -> Option<Options> {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let mut options = Options {
        folder: PathBuf::from(arguments.next()?),
        family: String::new(),
        largest: u64::MAX,
        limit: Duration::from_secs(60),
        peer: BTreeMap::new(),
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--family" => options.family = value,
            "--largest" => options.largest = value.parse().ok()?,
            "--seconds" => options.limit = Duration::from_secs(value.parse().ok()?),
            "--peer" => {
                let text = std::fs::read_to_string(&value).ok()?;
                let line =
                    |line: &str| Some((line.split_once(',')?.0.to_owned(), line.split_once(',')?.1.parse().ok()?));
                options.peer = text.lines().filter_map(line).collect();
            }
            _ => return None,
        }
    }
    Some(options)
}

/// The family and the size that a name says, as in `Line_N_40_M_20`.
fn family_of(name: &str) -> Option<(&str, u64)> {
    let (family, sizes) = name.split_once("_N_")?;
    let numbers: Option<Vec<u64>> = sizes
        .split('_')
        .filter(|part| !part.chars().all(|c| c.is_ascii_uppercase()))
        .map(|part| part.parse().ok())
        .collect();
    Some((family, numbers?.iter().product()))
}

/// Adds the models of a file, which is found at `path` below the folder of its package.
fn read_models(file: &Path, prefix: &str, families: &mut BTreeMap<String, Vec<Member>>) {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let Some(scaled) = text.split_once("package ScaledExperiments").map(|(_, after)| after) else { return };
    let scaled = scaled.split("end ScaledExperiments").next().unwrap_or_default();
    let mut in_comment = false;
    for line in scaled.lines().map(str::trim) {
        in_comment |= line.starts_with("/*");
        if line.ends_with("*/") {
            in_comment = false;
            continue;
        }
        let name = line.strip_prefix("model ").and_then(|rest| rest.split_whitespace().next());
        if let (false, Some((family, size))) = (in_comment, name.and_then(family_of)) {
            let class = format!("{prefix}.ScaledExperiments.{}", name.unwrap_or_default());
            families.entry(family.to_owned()).or_default().push(Member { class, size });
        }
    }
}

fn collect(folder: &Path, prefix: &str, families: &mut BTreeMap<String, Vec<Member>>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let Some(stem) = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()) else { continue };
        if path.is_dir() {
            collect(&path, &format!("{prefix}.{stem}"), families);
        } else if path.extension().is_some_and(|e| e == "mo") && stem != "package" {
            read_models(&path, &format!("{prefix}.{stem}"), families);
        }
    }
}

/// The number after a key in a file of the process, such as `VmHWM:  1234 kB`.
fn number_after(text: &str, key: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.split_whitespace().next()?.parse().ok())
}

/// Ticks of the processor per second in the files of processes.
const TICKS: f64 = 100.0;

/// Runs the program on a model and looks at what it takes until it ends.
fn run(verb: &str, class: &str, options: &Options) -> Cost {
    let path = std::env::var_os("MODELICAPATH").unwrap_or_default();
    let folders = std::iter::once(options.folder.clone()).chain(std::env::split_paths(&path));
    let mut command = Command::new(env!("CARGO_BIN_EXE_daesy"));
    command.args([verb, class, "--quiet", "--threads", "1"]).stdout(Stdio::null()).stderr(Stdio::null());
    if verb != "flatten" {
        command.arg("--json");
    }
    let nothing = Cost { seconds: f64::NAN, megabytes: f64::NAN, is_done: false };
    let Ok(folders) = std::env::join_paths(folders) else { return nothing };
    let Ok(mut child) = command.env("MODELICAPATH", folders).spawn() else { return nothing };
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let begin = Instant::now();
    let mut cost = nothing;
    cost.megabytes = 0.0;
    loop {
        let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
        if let Some(peak) = number_after(&status, "VmHWM:") {
            cost.megabytes = cost.megabytes.max(peak / 1024.0);
        }
        // After the name in parentheses: state, then ten numbers, then the times of user and system.
        let stat = std::fs::read_to_string(process.join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: Vec<f64> = fields.iter().skip(11).take(2).filter_map(|field| field.parse().ok()).collect();
        cost.seconds = if ticks.len() == 2 { (ticks[0] + ticks[1]) / TICKS } else { begin.elapsed().as_secs_f64() };
        // A process that has ended is asked for its times before it is waited for.
        let is_over = fields.first().is_none_or(|state| *state == "Z");
        if is_over || cost.seconds > options.limit.as_secs_f64() {
            let _ = if is_over { Ok(()) } else { child.kill() };
            cost.is_done = child.wait().is_ok_and(|status| status.success()) && is_over;
            return cost;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The exponent between the last two sizes that took long enough to be measured.
fn exponent(costs: &[(u64, f64)]) -> Option<f64> {
    let measured: Vec<&(u64, f64)> = costs.iter().filter(|(_, seconds)| *seconds >= 0.2).collect();
    let [.., a, b] = measured[..] else { return None };
    Some((b.1 / a.1).ln() / (b.0 as f64 / a.0 as f64).ln())
}

fn main() {
    let Some(options) = options() else {
        eprintln!("usage: cargo xtask bench large FOLDER [--family TEXT] [--largest N] [--seconds S] [--peer FILE]");
        std::process::exit(2);
    };
    let mut families = BTreeMap::new();
    for entry in std::fs::read_dir(&options.folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.join("package.mo").is_file() {
            collect(&path, &entry.file_name().to_string_lossy(), &mut families);
        }
    }
    for (family, mut members) in families.into_iter().filter(|(family, _)| family.contains(&options.family)) {
        members.sort_by_key(|member| member.size);
        members.dedup_by_key(|member| member.size);
        println!("{family}");
        let verbs = ["flatten", "check", "simulate"];
        let mut costs: [Vec<(u64, f64)>; 3] = Default::default();
        let mut is_going = [true; 3];
        for member in members.iter().filter(|member| member.size <= options.largest) {
            let mut line = format!("  {:>9}", member.size);
            for (at, verb) in verbs.iter().enumerate() {
                if !is_going[at] {
                    line += &format!("   {verb} -");
                    continue;
                }
                let cost = run(verb, &member.class, &options);
                is_going[at] = cost.is_done;
                let failed = if cost.is_done { "" } else { " (no answer)" };
                line += &format!("   {verb} {:.2} s {:.0} MB{failed}", cost.seconds, cost.megabytes);
                if cost.is_done {
                    costs[at].push((member.size, cost.seconds));
                }
            }
            let name = member.class.rsplit('.').next().unwrap_or_default();
            if let Some(peer) = options.peer.get(name) {
                line += &format!("   peer {peer:.2} s");
            }
            println!("{line}");
            if !is_going.contains(&true) {
                break;
            }
        }
        let shown =
            |(verb, costs): (&&str, &Vec<(u64, f64)>)| exponent(costs).map(|exponent| format!("{verb} {exponent:.2}"));
        let exponents: Vec<String> = verbs.iter().zip(&costs).filter_map(shown).collect();
        println!("  exponents: {}", if exponents.is_empty() { "too small".to_owned() } else { exponents.join(", ") });
    }
}
