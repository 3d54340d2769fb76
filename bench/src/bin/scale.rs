//! How time and memory grow with the size of a model, and how fast sparse matrices are factored.
//!
//! `cargo xtask bench scale [--largest N]`
//!
//! A circuit ladder and a square grid of resistors and capacitors, built from components, go through the whole path:
//! flatten, structure, compile, simulate, each size in a process of its own whose largest memory is read at the end.
//! The growth exponent between two sizes is log(t2/t1)/log(n2/n1). Then matrices of both patterns are analysed,
//! factored, factored anew along the known pattern, and solved with, by daesy and by KLU in the same run.

use std::hint::black_box;
use std::process::Command;

use daesy_bench::clock::{Stopwatch, best_of};
use daesy_compile::compile_with_events;
use daesy_integrate::linear::LinearSolver;
use daesy_integrate::{Inputs, SimulateOptions, simulate};
use daesy_structure::condense;
use daesy_system::{DaeSystem, Pattern};
use klu_rs::{KluMatrixSpec, KluSettings};

const COMPONENTS: &str = "\
connector Pin Real v; flow Real i; end Pin;
model Resistor Pin p; Pin n; parameter Real R = 1; equation p.v - n.v = R*p.i; p.i + n.i = 0; end Resistor;
model Capacitor Pin p; Pin n; parameter Real C = 1; Real v(start = 0, fixed = true);
equation v = p.v - n.v; C*der(v) = p.i; p.i + n.i = 0; end Capacitor;
model Source Pin p; Pin n; equation p.v - n.v = sin(time); p.i + n.i = 0; end Source;
model Ground Pin p; equation p.v = 0; end Ground;
";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Circuit {
    Ladder,
    Grid,
}

impl Circuit {
    const fn name(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Grid => "grid",
        }
    }

    /// A model with about `n` unknowns.
    fn text(self, n: usize) -> String {
        match self {
            Self::Ladder => format!(
                "{COMPONENTS}model M constant Integer N = {}; Resistor r[N]; Capacitor c[N]; Source s; Ground g;
equation connect(s.p, r[1].p); connect(s.n, g.p);
for i in 1:N loop connect(r[i].n, c[i].p); connect(c[i].n, g.p); end for;
for i in 2:N loop connect(r[i - 1].n, r[i].p); end for; end M;",
                n / 9
            ),
            Self::Grid => format!(
                "{COMPONENTS}model M constant Integer N = {}; Resistor h[N, N]; Resistor d[N, N]; Capacitor c[N, N]; Source s; Ground g;
equation connect(s.n, g.p);
for i in 1:N loop
  connect(s.p, h[i, 1].p);
  for j in 1:N loop connect(h[i, j].n, c[i, j].p); connect(c[i, j].n, g.p); connect(d[i, j].p, c[i, j].p); end for;
  for j in 2:N loop connect(h[i, j].p, c[i, j - 1].p); end for;
end for;
for j in 1:N loop
  for i in 1:N - 1 loop connect(d[i, j].n, c[i + 1, j].p); end for;
  connect(d[N, j].n, g.p);
end for; end M;",
                ((n as f64 / 13.0).sqrt()) as usize
            ),
        }
    }

    /// Rows and columns of the entries of a matrix with n rows, as conductances make it.
    fn pattern(self, n: usize) -> Pattern {
        let width = match self {
            Self::Ladder => n,
            Self::Grid => (n as f64).sqrt() as usize,
        };
        let n = if self == Self::Grid { width * width } else { n };
        let mut pattern = Pattern { n_rows: n, n_cols: n, row_starts: vec![0], columns: Vec::new() };
        for row in 0..n {
            let mut columns = vec![row];
            if row % width > 0 {
                columns.push(row - 1);
            }
            if row % width + 1 < width {
                columns.push(row + 1);
            }
            if row >= width {
                columns.push(row - width);
            }
            if row + width < n {
                columns.push(row + width);
            }
            columns.sort_unstable();
            pattern.columns.extend(columns.into_iter().map(|column| column as u32));
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        pattern
    }
}

/// Values with a dominant diagonal, slightly unsymmetric, another set each round.
fn values(pattern: &Pattern, round: usize) -> Vec<f64> {
    let value = |(at, (row, column)): (usize, (usize, usize))| {
        let noise = ((at * 7919 + round * 104_729) % 1000) as f64 / 1000.0;
        if row == column { 4.1 + noise } else { -1.0 + 0.1 * noise }
    };
    pattern.entries().enumerate().map(value).collect()
}

struct NoInputs;

impl Inputs for NoInputs {
    fn fill(&self, _time: f64, _is_after: bool, _values: &mut [f64]) {}

    fn breaks(&self) -> &[f64] {
        &[]
    }
}

/// Seconds of each stage, and what came out.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    flatten: f64,
    structure: f64,
    compile: f64,
    simulate: f64,
    equations: f64,
    unknowns: f64,
    steps: f64,
    megabytes: f64,
}

impl Measured {
    const fn seconds(&self) -> f64 {
        self.flatten + self.structure + self.compile + self.simulate
    }

    fn to_line(self) -> String {
        let Self { flatten, structure, compile, simulate, equations, unknowns, steps, megabytes } = self;
        format!("{flatten} {structure} {compile} {simulate} {equations} {unknowns} {steps} {megabytes}")
    }

    fn parse(line: &str) -> Option<Self> {
        let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let &[flatten, structure, compile, simulate, equations, unknowns, steps, megabytes] = &numbers[..] else {
            return None;
        };
        Some(Self { flatten, structure, compile, simulate, equations, unknowns, steps, megabytes })
    }
}

/// The largest memory of this process so far.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok()).map_or(f64::NAN, |kilo| kilo / 1024.0)
}

/// The whole path once.
fn measure(circuit: Circuit, n: usize) -> Result<Measured, String> {
    let text = circuit.text(n);
    let mut measured = Measured::default();
    let clock = Stopwatch::start();
    let flat = daesy_model::flatten_text("circuit.mo", &text, Some("M")).map_err(|findings| format!("{findings:?}"))?;
    measured.flatten = clock.seconds();
    measured.equations = flat.equations.len() as f64;
    let clock = Stopwatch::start();
    let regular = condense(flat).map_err(|error| error.to_string())?;
    measured.structure = clock.seconds();
    let clock = Stopwatch::start();
    let system = compile_with_events(regular).map_err(|error| error.to_string())?;
    measured.compile = clock.seconds();
    measured.unknowns = system.description().unknowns.len() as f64;
    let parameters = system.parameter_values(&[]).map_err(|error| error.to_string())?;
    let options = SimulateOptions {
        start: 0.0,
        stop: 10.0,
        output_times: vec![10.0],
        rtol: 1e-4,
        atol: 1e-7,
        max_steps: 1_000_000,
        ..SimulateOptions::default()
    };
    let clock = Stopwatch::start();
    let simulation = simulate(&system, &parameters, &NoInputs, &options).map_err(|error| error.to_string())?;
    measured.simulate = clock.seconds();
    measured.steps = simulation.steps as f64;
    measured.megabytes = peak_megabytes();
    Ok(measured)
}

fn in_process(circuit: Circuit, n: usize) -> Result<Measured, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program).args(["--one", circuit.name(), &n.to_string()]).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Measured::parse(&text).ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Milliseconds of analysing, factoring, factoring anew and solving.
struct Factored {
    analyse: f64,
    factor: f64,
    refactor: f64,
    solve: f64,
}

fn factor_own(pattern: &Pattern) -> Option<Factored> {
    let (first, second) = (values(pattern, 0), values(pattern, 1));
    let analyse = best_of(3, || LinearSolver::<f64>::new(pattern));
    let factor = best_of(3, || {
        let mut solver = LinearSolver::<f64>::new(pattern);
        if let Ok(solver) = &mut solver {
            let _ = black_box(solver.factor(&first));
        }
        solver
    }) - analyse;
    let mut solver = LinearSolver::<f64>::new(pattern).ok()?;
    solver.factor(&first).ok()?;
    let refactor = best_of(5, || black_box(solver.factor(&second)));
    let mut rhs = vec![1.0; pattern.n_rows];
    let solve = best_of(5, || {
        rhs.fill(1.0);
        black_box(solver.solve(&mut rhs))
    });
    Some(Factored { analyse, factor, refactor, solve })
}

fn factor_klu(pattern: &Pattern) -> Option<Factored> {
    let mut columns: Vec<Vec<i32>> = vec![Vec::new(); pattern.n_cols];
    let mut places: Vec<Vec<usize>> = vec![Vec::new(); pattern.n_cols];
    for (at, (row, column)) in pattern.entries().enumerate() {
        columns[column].push(row as i32);
        places[column].push(at);
    }
    let order: Vec<usize> = places.concat();
    let (first, second) = (values(pattern, 0), values(pattern, 1));
    let analyse = best_of(3, || KluMatrixSpec::new(&columns, KluSettings::new()));
    let mut matrix = KluMatrixSpec::new(&columns, KluSettings::new()).create_matrix::<f64>()?;
    let fill = |matrix: &klu_rs::FixedKluMatrix<i32, f64>, values: &[f64]| {
        for (entry, &at) in matrix.data().iter().zip(&order) {
            entry.set(values[at]);
        }
    };
    fill(&matrix, &first);
    let factor = best_of(3, || black_box(matrix.lu_factorize(None)));
    fill(&matrix, &second);
    let refactor = best_of(5, || black_box(matrix.lu_factorize(Some(f64::INFINITY))));
    let mut rhs = vec![1.0; pattern.n_rows];
    let solve = best_of(5, || {
        rhs.fill(1.0);
        matrix.solve_linear_system(&mut rhs);
    });
    Some(Factored { analyse, factor, refactor, solve })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, circuit, n] = &arguments[..]
        && flag == "--one"
    {
        let circuit = if circuit == "grid" { Circuit::Grid } else { Circuit::Ladder };
        match measure(circuit, n.parse().unwrap_or(1000)) {
            Ok(measured) => println!("{}", measured.to_line()),
            Err(reason) => eprintln!("{reason}"),
        }
        return;
    }
    let largest = match &arguments[..] {
        [flag, n] if flag == "--largest" => n.parse().unwrap_or(100_000),
        _ => 100_000,
    };
    let sizes: Vec<usize> = [1_000, 10_000, 100_000, 1_000_000].into_iter().filter(|&n| n <= largest).collect();
    println!("From text to trajectory, processor seconds; 0 to 10 s at rtol 1e-4, one process for each size.");
    println!(
        "{:<8}{:>10}{:>10}{:>9}{:>10}{:>9}{:>10}{:>9}{:>7}{:>8}",
        "", "equations", "unknowns", "flatten", "structure", "compile", "simulate", "total", "steps", "MB"
    );
    for circuit in [Circuit::Ladder, Circuit::Grid] {
        let mut all: Vec<Measured> = Vec::new();
        for &n in &sizes {
            match in_process(circuit, n) {
                Ok(m) => {
                    println!(
                        "{:<8}{:>10}{:>10}{:>9.3}{:>10.3}{:>9.3}{:>10.3}{:>9.3}{:>7}{:>8.0}",
                        circuit.name(),
                        m.equations,
                        m.unknowns,
                        m.flatten,
                        m.structure,
                        m.compile,
                        m.simulate,
                        m.seconds(),
                        m.steps,
                        m.megabytes
                    );
                    all.push(m);
                }
                Err(reason) => println!("{:<8}{n:>10} failed: {reason}", circuit.name()),
            }
        }
        for pair in all.windows(2) {
            let size = (pair[1].equations / pair[0].equations).ln();
            println!(
                "  growth exponent from {} to {}: time {:.2}, memory {:.2}",
                pair[0].equations,
                pair[1].equations,
                (pair[1].seconds() / pair[0].seconds()).ln() / size,
                (pair[1].megabytes / pair[0].megabytes).ln() / size
            );
        }
    }
    println!("\nSparse factorization, milliseconds (analyse, factor, factor along the known pattern, solve):");
    for circuit in [Circuit::Ladder, Circuit::Grid] {
        for &n in &sizes {
            let pattern = circuit.pattern(n);
            for (name, factored) in [("daesy", factor_own(&pattern)), ("KLU", factor_klu(&pattern))] {
                match factored {
                    Some(f) => println!(
                        "{:<8}{:>8} {name:<6}{:>10.3}{:>10.3}{:>10.3}{:>10.3}",
                        circuit.name(),
                        pattern.n_rows,
                        f.analyse * 1e3,
                        f.factor * 1e3,
                        f.refactor * 1e3,
                        f.solve * 1e3
                    ),
                    None => println!("{:<8}{:>8} {name:<6} failed", circuit.name(), pattern.n_rows),
                }
            }
        }
    }
}
