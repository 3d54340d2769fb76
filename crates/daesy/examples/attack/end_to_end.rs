//! Runs the program on mutated models, studies and data, with bounded memory and time, and judges how it ended.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::mutate::{NUMBERS, Random, change, change_line, change_number};

/// Memory that the program may take, in kilobytes.
const MEMORY: u64 = 2_000_000;

/// Seconds of computing that the program may take.
const SECONDS: u64 = 20;

/// The limit that the program is given, in seconds on the clock: with what it allows itself to end in good order, on two
/// threads, less than those of computing.
const PATIENCE: &str = "3";

/// Files larger than this are no seeds: a run would take its time reading.
const MAX_SEED: u64 = 60_000;

/// Files that belong together, and the one that the program is given.
#[derive(Clone, Debug)]
pub struct Kit {
    /// Name and text.
    pub files: Vec<(String, String)>,
    /// The model or study.
    pub main: String,
}

/// A run of the program.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name and text.
    pub files: Vec<(String, String)>,
    /// Arguments of the program.
    pub arguments: Vec<String>,
}

const DECAY: &str = "\
model M
  input Real u;
  input Real w;
  parameter Real k = 1;
  parameter Integer n = 1;
  Real x(start = 1, fixed = true);
  Real y = x^n;
equation
  der(x) = -k*x + u + w;
end M;
";
const CUBIC: &str = "\
model M
  input Real w;
  parameter Real k = 1;
  Real x(start = 1, fixed = true);
equation
  der(x) = -k*x^3 + w;
end M;
";
const DATA: &str = "t,u,y\n0,0,1\n0.5,1,0.9\n1,1,0.8\n1.5,0,0.75\n2,0,0.6\n2.5,1,0.5\n3,1,0.6\n";
const FIT: &str = r#"
[model]
file = "m.mo"

[unknown]
k = { start = 1.0, min = 0.1, max = 10.0 }

[inputs]
u = { column = "u" }

[disturbances]
w = { std = 0.1, time_constant = 1.0 }

[measurements]
x = { column = "y", std = 0.01 }

[estimate]
signals = ["y"]

[data]
file = "d.csv"

[initial]
mode = "model"

[identify]
realizations = 20
noise_step = 0.1
"#;
const SPREAD: &str = r#"
[model]
file = "m.mo"

[random]
k = { uniform = { min = 1.0, max = 2.0 } }

[inputs]
u = { expression = "sin(time)" }
w = { expression = "0" }

[simulate]
stop = 1
step = 0.1
rtol = 1e-6

[uq]
method = "auto"
degree = 2
samples = 30
"#;
const MATRICES: &str = r#"
[linear]
E = [[1, 0, 0], [0, 0, 1], [0, 0, 0]]
F = [[-1, "a", 0], [0, 1, 0], [1, 0, 1]]
G = [[1], [0], [0]]

[parameters]
a = 2

[inputs]
u1 = { expression = "time" }

[simulate]
stop = 1
"#;

/// Kits that are always there.
#[must_use]
pub fn own_kits() -> Vec<Kit> {
    let kit = |main: &str, files: &[(&str, &str)]| Kit {
        files: files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
        main: main.to_owned(),
    };
    let in_pem = FIT.replace("[inputs]\nu = { column = \"u\" }\n", "").replace("\"y\"]", "\"x\"]");
    vec![
        kit("s.toml", &[("m.mo", DECAY), ("s.toml", FIT), ("d.csv", DATA)]),
        kit("s.toml", &[("m.mo", CUBIC), ("s.toml", &in_pem), ("d.csv", DATA)]),
        kit("s.toml", &[("m.mo", DECAY), ("s.toml", SPREAD)]),
        kit("s.toml", &[("s.toml", MATRICES)]),
        kit("m.mo", &[("m.mo", CUBIC)]),
    ]
}

/// The studies and models below a path, each with the files beside it.
pub fn collect(path: &Path, kits: &mut Vec<Kit>) {
    let entries = |folder: &Path| {
        let mut found: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|one| one.path()).collect();
        found.sort();
        found
    };
    if path.is_dir() {
        entries(path).iter().for_each(|entry| collect(entry, kits));
        return;
    }
    let has_ending = |path: &Path, endings: &[&str]| {
        path.extension().and_then(|ending| ending.to_str()).is_some_and(|ending| endings.contains(&ending))
    };
    let read = |path: &Path| {
        let is_small = fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MAX_SEED);
        let name = path.file_name()?.to_str()?.to_owned();
        Some((name, fs::read_to_string(path).ok().filter(|_| is_small)?))
    };
    if !has_ending(path, &["mo", "toml"]) || path.ends_with("reference.toml") || path.ends_with("facts.toml") {
        return;
    }
    let Some((main, text)) = read(path) else { return };
    let mut files = vec![(main.clone(), text)];
    if has_ending(path, &["toml"]) {
        let folder = path.parent().unwrap_or_else(|| Path::new("."));
        let beside =
            entries(folder).into_iter().filter(|other| other != path && has_ending(other, &["mo", "csv", "mtx"]));
        files.extend(beside.filter_map(|other| read(&other)));
    }
    kits.push(Kit { files, main });
}

/// A run with mutated files and random options.
pub fn make_case(random: &mut Random, kits: &[Kit]) -> Case {
    let kit = &kits[random.below(kits.len())];
    let mut files = kit.files.clone();
    let texts: Vec<String> = files.iter().map(|(_, text)| text.clone()).collect();
    for _ in 0..=random.below(3) {
        let at = if random.below(2) == 0 { 0 } else { random.below(files.len()) };
        let text = &mut files[at].1;
        match random.below(8) {
            0 | 1 => *text = change(random, std::mem::take(text), &texts),
            2 => change_line(random, text),
            _ => change_number(random, text),
        }
    }
    let is_study = kit.main.ends_with(".toml");
    let verb = if is_study {
        random.of(&["check", "simulate", "identify", "estimate", "cost", "uq", "regularize", "flatten"])
    } else {
        random.of(&["check", "simulate", "simulate", "flatten", "regularize"])
    };
    let mut arguments = vec![verb.to_owned(), kit.main.clone()];
    if random.below(8) > 0 {
        arguments.push("--json".to_owned());
    }
    let names = names_of(&files);
    let name = names.get(random.below(names.len())).cloned().unwrap_or_else(|| "k".to_owned());
    if verb == "cost" {
        let n = random.of(&["2", "3", "1", "0", "1000000000000", "5"]);
        let (from, to) = (random.of(&["0.5", "1", "-1", "1e300", "0"]), random.of(&["2", "3", "1e-300"]));
        arguments.extend(["--grid".to_owned(), format!("{name}={from}:{to}:{n}")]);
    }
    arguments.extend(options(random, verb, &name));
    // A trajectory or a search may well take longer, and ends in good order then.
    arguments.extend(["--time-limit".to_owned(), PATIENCE.to_owned()]);
    Case { files, arguments }
}

/// Names at the beginning of lines of the studies.
fn names_of(files: &[(String, String)]) -> Vec<String> {
    let studies = files.iter().filter(|(name, _)| name.ends_with(".toml"));
    let name = |line: &str| {
        let (name, _) = line.split_once('=')?;
        let name = name.trim().trim_matches('"');
        let is_word = !name.is_empty() && name.len() < 40 && !name.contains(char::is_control);
        (is_word && line.contains('{')).then(|| name.to_owned())
    };
    studies.flat_map(|(_, text)| text.lines().filter_map(name).collect::<Vec<_>>()).collect()
}

fn options(random: &mut Random, verb: &str, name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut add = |some: &[&str]| words.extend(some.iter().map(|word| (*word).to_owned()));
    match random.below(12) {
        0 => add(&["--set", &format!("{name}={}", random.of(NUMBERS))]),
        1 => add(&["--report", "page.html"]),
        2 => add(&["-o", random.of(&["out.csv", "out.mat", "out.parquet", "out.txt", "/dev/full"])]),
        3 => add(&["--threads", random.of(&["1", "0", "3", "1000000000000000000"])]),
        4 => add(&["--seed", random.of(&["1", "18446744073709551615"])]),
        _ => {}
    }
    let mut extra: Vec<&[&str]> = match verb {
        "identify" => vec![
            &["--method", "pem"],
            &["--method", "ml"],
            &["--method", "output-error"],
            &["--starts", "2"],
            &["--starts", "1000000000000000000"],
            &["--profile"],
            &["--checkpoint", "kept.txt"],
            &["--save", "saved.toml"],
        ],
        "cost" => vec![&["--method", "pem"], &["--method", "output-error"], &["--checkpoint", "kept.txt"]],
        "uq" => vec![&["--surrogate", "s.json"], &["--checkpoint", "kept.txt"]],
        "estimate" => vec![&["--identify"]],
        "regularize" => vec![&["--feedback"], &["--remove-feedthrough"], &["--given-inputs"], &["--drop-redundant"]],
        _ => Vec::new(),
    };
    extra.push(&[]);
    words.extend(random.of(&extra).iter().map(|word| (*word).to_owned()));
    words
}

/// Runs a case in a folder; gives what is wrong with how it ended.
///
/// # Errors
/// When the files cannot be written or the program cannot be started.
pub fn run_case(program: &Path, folder: &Path, case: &Case) -> std::io::Result<Option<String>> {
    for (name, text) in &case.files {
        fs::write(folder.join(name), text)?;
    }
    let limited = format!("ulimit -v {MEMORY}; ulimit -t {SECONDS}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limited])
        .arg(program)
        .args(&case.arguments)
        .current_dir(folder)
        .env_remove("MODELICAPATH")
        .env("RAYON_NUM_THREADS", "2")
        .stdin(Stdio::null())
        .stdout(File::create(folder.join("stdout"))?)
        .stderr(File::create(folder.join("stderr"))?)
        .spawn()?;
    // Waiting takes no computing: that is looked for by the clock, with room for a busy machine.
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > Duration::from_secs(20 * SECONDS) {
            child.kill()?;
            child.wait()?;
            return Ok(Some("it waits and does not end".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(3));
    };
    let read = |name: &str| fs::read(folder.join(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(judge(status, &read("stdout")?, &read("stderr")?, case.arguments.iter().any(|word| word == "--json")))
}

/// What is wrong with an end, if anything is.
fn judge(status: ExitStatus, stdout: &str, stderr: &str, is_json: bool) -> Option<String> {
    let first_line = |text: &str| text.lines().next().unwrap_or_default().chars().take(200).collect::<String>();
    let Some(code) = status.code() else {
        return Some(format!("ended by {status}: {}", first_line(stderr)));
    };
    let sign = stderr.lines().find(|line| line.contains("internal-error") || line.contains("panicked"));
    if let Some(line) = sign {
        return Some(first_line(line));
    }
    // 137 and the like are how a shell tells a signal.
    if !(0..=3).contains(&code) {
        return Some(format!("exit status {code}: {}", first_line(stderr)));
    }
    if stderr.contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        return Some("control characters on standard error".to_owned());
    }
    if !is_json {
        return (code != 0 && stderr.trim().is_empty()).then(|| format!("exit status {code} without a word"));
    }
    let document: Value = match serde_json::from_str(stdout) {
        Ok(document) => document,
        Err(error) => return Some(format!("exit status {code}, and standard output is no JSON: {error}")),
    };
    let n_findings = document.get("findings").and_then(Value::as_array).map(Vec::len);
    match n_findings {
        None => Some("the document has no findings".to_owned()),
        Some(0) if code != 0 => Some(format!("exit status {code} without a finding")),
        Some(_) => None,
    }
}
