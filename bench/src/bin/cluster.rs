//! Studies split into tasks for Dask clusters on this machine: time on one thread without executor and on one, two and
//! four workers, what a task costs beside its simulations, and whether all answers are the same, bit for bit.
//!
//! With `million`, a million simulations on two workers, one of which is killed when half of the tasks are done.
//!
//! What a task costs is (time on one worker - time without executor) / tasks; what Dask itself takes for it is the time
//! of tasks that do nothing. Both are wall time: other work on the machine shows.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use daesy::Watch;
use daesy::program;
use daesy::source::Source;
use daesy_bench::peer;
use serde_json::{Value, json};

/// A study and on how many workers it is asked.
struct Case {
    name: &'static str,
    model: &'static str,
    study: &'static str,
    workers: &'static [usize],
    /// Tasks that the study is known to have, where a worker is killed when half of them are done.
    kill: usize,
}

const BALL: Case = Case {
    name: "20000 bouncing balls, each on its own",
    model: include_str!("../../../problems/bouncing_ball/model.mo"),
    study: r#"
[model]
file = "model.mo"
[random]
e = { uniform = { min = 0.65, max = 0.8 } }
h0 = { uniform = { min = 0.9, max = 1.1 } }
[simulate]
stop = 2
step = 0.1
[uq]
method = "monte-carlo"
samples = 20000
variables = ["h"]
"#,
    workers: &[1, 2, 4],
    kill: 0,
};

const PENDULUM: Case = Case {
    name: "200000 pendulums, side by side in lanes",
    model: include_str!("../../../problems/pendulum/model.mo"),
    study: r#"
[model]
file = "model.mo"
[random]
L = { uniform = { min = 6.0, max = 6.5 } }
k = { uniform = { min = 0.05, max = 0.15 } }
[inputs]
u = { expression = "0.5*sin(1.1*time) + 0.3*sin(3.7*time)" }
w = { expression = "0" }
[simulate]
stop = 10
step = 2
rtol = 1e-6
atol = 1e-9
[uq]
method = "monte-carlo"
samples = 200000
variables = ["x1"]
"#,
    workers: &[1, 2, 4],
    kill: 0,
};

/// Simulations of the long run.
const MILLION: usize = 1_000_000;

/// Points of its tasks at most, as `python/daesy/tasks.py` cuts them.
const MOST_POINTS: usize = 4096;

fn main() -> ExitCode {
    let is_long = std::env::args().skip(1).any(|word| word == "million");
    match compare(is_long) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn compare(is_long: bool) -> Result<bool, String> {
    let mut cases = vec![(BALL, BALL.study.to_owned()), (PENDULUM, PENDULUM.study.to_owned())];
    if is_long {
        let name = "1000000 pendulums, a worker killed at half of the tasks";
        let kill = MILLION.div_ceil(MOST_POINTS);
        let study = PENDULUM.study.replace("samples = 200000", &format!("samples = {MILLION}"));
        cases = vec![(Case { name, workers: &[2], kill, ..PENDULUM }, study)];
    }
    let folder = std::env::temp_dir().join(format!("daesy-cluster-{}", std::process::id()));
    let asked = cases.iter().enumerate().map(|(at, (case, study))| {
        let path = write(&folder.join(at.to_string()), case, study)?;
        Ok((path, case))
    });
    let asked: Vec<(PathBuf, &Case)> = asked.collect::<Result<_, String>>()?;
    let studies = asked
        .iter()
        .map(|(path, case)| json!({ "path": path.to_string_lossy(), "workers": case.workers, "kill": case.kill }));
    let printed = peer::run("cluster.py", &json!({ "studies": studies.collect::<Vec<_>>() }).to_string())?;
    let told: Vec<Value> = serde_json::from_str(&printed).map_err(|error| format!("{error}: {printed}"))?;
    let mut is_met = told.len() == asked.len();
    for ((path, case), told) in asked.iter().zip(&told) {
        is_met &= report(case, path, told)?;
    }
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    println!(
        "{}",
        if is_met { "all answers are the same, bit for bit" } else { "answers DIFFER, or no worker was lost" }
    );
    Ok(is_met)
}

fn write(folder: &Path, case: &Case, study: &str) -> Result<PathBuf, String> {
    let path = folder.join("study.toml");
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    std::fs::write(folder.join("model.mo"), case.model).map_err(|error| error.to_string())?;
    std::fs::write(&path, study).map_err(|error| error.to_string())?;
    Ok(path)
}

/// Prints the times of a case, and says whether its answers are those of this process.
fn report(case: &Case, path: &Path, told: &Value) -> Result<bool, String> {
    let begun = Instant::now();
    let arguments = ["--threads=1".to_owned()];
    let answer = program::ask("uq", Source::file(path), &arguments, &Watch::new());
    let seconds = begun.elapsed().as_secs_f64();
    let Some(table) = &answer.table else { return Err(format!("{}: no table: {}", case.name, answer.text)) };
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap_or(f64::NAN);
    let alone = number(told, "seconds");
    println!("{}: {seconds:.2} s in Rust, {alone:.2} s from Python, both without executor on one thread", case.name);
    let mut is_same = table.names.iter().zip(&table.columns).all(|(name, column)| {
        let bytes: String =
            column.iter().flat_map(|value| value.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect();
        told["columns"][name.as_str()].as_str() == Some(&bytes)
    });
    for run in told["runs"].as_array().into_iter().flatten() {
        let (time, n_tasks) = (number(run, "seconds"), number(run, "tasks"));
        println!(
            "  {} workers: {time:.2} s, {:.2} of that without executor; {n_tasks} tasks, {:.2} ms each if empty; at most {:.0} kB to a \
             task and {:.0} kB from it; {:.0} MB in the calling process, {:.0} MB in a worker{}",
            run["workers"],
            time / alone,
            1e3 * number(run, "empty"),
            1e-3 * number(run, "sent"),
            1e-3 * number(run, "received"),
            1e-6 * number(run, "memory"),
            1e-6 * number(run, "worker_memory"),
            if run["lost"] == true { "; one was killed on the way" } else { "" }
        );
        if run["workers"] == 1 {
            println!("    {:.2} ms of each task beside its simulations", 1e3 * (time - alone) / n_tasks);
        }
        is_same &= run["same"] == true && (case.kill == 0 || run["lost"] == true);
    }
    if case.kill > 0 {
        println!(
            "  {:.0} MB at most in the calling process, the run without executor included",
            1e-6 * number(told, "memory")
        );
    }
    Ok(is_same)
}
