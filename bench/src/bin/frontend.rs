//! Parsing and flattening of growing chains of components, against rumoca on the same texts.
//!
//! `cargo xtask bench frontend`
#![forbid(unsafe_code)]

use std::fmt::Write;

use daesy_bench::clock::{Measurement, best_of, memory_high_water, reset_memory_high_water};
use daesy_bench::peer;
use daesy_graph::FileId;
use daesy_model::{flatten_text, parser};

/// How a chain is written down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Arrays of components, connected in loops.
    Arrays,
    /// Every component and connection on its own.
    WrittenOut,
}

const COMPONENTS: &str = "\
connector Pin
  Real v(unit = \"V\");
  flow Real i(unit = \"A\");
end Pin;
connector PositivePin = Pin;
connector NegativePin = Pin;
partial model OnePort
  PositivePin p;
  NegativePin n;
  Real v(unit = \"V\");
  Real i(unit = \"A\");
equation
  v = p.v - n.v;
  0 = p.i + n.i;
  i = p.i;
end OnePort;
model Resistor
  extends OnePort;
  parameter Real R(unit = \"Ohm\") = 1;
equation
  v = R * i;
end Resistor;
model Capacitor
  extends OnePort;
  parameter Real C(unit = \"F\") = 1;
equation
  C * der(v) = i;
end Capacitor;
model Source
  extends OnePort;
  parameter Real V(unit = \"V\") = 1;
equation
  v = V;
end Source;
model Ground
  Pin p;
equation
  p.v = 0;
end Ground;
";

/// A source, then n resistors with a capacitor to ground behind each.
fn chain(n: usize, style: Style) -> String {
    let mut text = String::from(COMPONENTS);
    text.push_str("model Chain\n  Source source;\n  Ground ground;\n");
    // Writing to a string does not fail.
    match style {
        Style::Arrays => {
            let _ = write!(
                text,
                "  parameter Integer n = {n};
  Resistor r[n](R = {{1 + 0.001 * k for k in 1:n}});
  Capacitor c[n](each C = 0.01);
equation
  connect(source.n, ground.p);
  connect(source.p, r[1].p);
  for k in 1:n loop
    connect(r[k].n, c[k].p);
    connect(c[k].n, ground.p);
  end for;
  for k in 1:n - 1 loop
    connect(r[k].n, r[k + 1].p);
  end for;
"
            );
        }
        Style::WrittenOut => {
            for k in 1..=n {
                let _ = writeln!(text, "  Resistor r{k}(R = 1 + 0.001 * {k});\n  Capacitor c{k}(C = 0.01);");
            }
            text.push_str("equation\n  connect(source.n, ground.p);\n  connect(source.p, r1.p);\n");
            for k in 1..=n {
                let _ = writeln!(text, "  connect(r{k}.n, c{k}.p);\n  connect(c{k}.n, ground.p);");
            }
            for k in 1..n {
                let _ = writeln!(text, "  connect(r{k}.n, r{}.p);", k + 1);
            }
        }
    }
    text.push_str("end Chain;\n");
    text
}

/// What the peer says of a text: seconds and peak memory.
struct PeerAnswer {
    seconds: f64,
    peak: f64,
}

fn ask_peer(text: &str) -> Result<PeerAnswer, String> {
    let answer = peer::run("frontend.py", text)?;
    let numbers: Vec<f64> = answer.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [seconds, peak, ..] => Ok(PeerAnswer { seconds, peak }),
        _ => Err(format!("the peer's answer is odd: {answer}")),
    }
}

const MEBI: f64 = 1024.0 * 1024.0;

/// Largest chain that the peer is asked to do: the next would take minutes or overflow its stack.
const LARGEST_FOR_PEER: usize = 1000;

fn report(name: &str, style: Style) {
    let (mut ours_before, mut peer_before): (Option<Measurement>, Option<Measurement>) = (None, None);
    for n in [100, 300, 1000, 3000, 10_000] {
        let text = chain(n, style);
        let parse_seconds = best_of(3, || parser::parse(FileId(0), &text));
        reset_memory_high_water();
        let flat = match flatten_text("chain.mo", &text, Some("Chain")) {
            Ok(flat) => flat,
            Err(error) => {
                println!("{name:<12} {n:>7} is refused: {error}");
                return;
            }
        };
        let peak = memory_high_water().map_or(f64::NAN, |bytes| bytes as f64);
        let size = flat.size();
        drop(flat);
        let seconds = best_of(3, || flatten_text("chain.mo", &text, Some("Chain")));
        let ours = Measurement { size: n as f64, seconds };
        let growth = |now: Measurement, before: Option<Measurement>| {
            before.map_or_else(|| "-".to_owned(), |before| format!("{:.2}", now.growth_since(before)))
        };
        // 12 unknowns per section, 6 in the source, 2 in the ground.
        let is_right = size.equations == 12 * n + 8 && size.unknowns == size.equations;
        print!(
            "{name:<12} {n:>7} {:>9} {:>9.1} {seconds:>9.4} {:>7} {:>9.1}",
            if is_right { size.unknowns.to_string() } else { format!("{}: WRONG", size.unknowns) },
            text.len() as f64 / MEBI / parse_seconds,
            growth(ours, ours_before),
            peak / MEBI,
        );
        ours_before = Some(ours);
        if n <= LARGEST_FOR_PEER {
            match ask_peer(&text) {
                Ok(answer) => {
                    let theirs = Measurement { size: n as f64, seconds: answer.seconds };
                    print!(
                        " {:>9.3} {:>7} {:>9.1} {:>8.0}",
                        answer.seconds,
                        growth(theirs, peer_before),
                        answer.peak / MEBI,
                        answer.seconds / seconds
                    );
                    peer_before = Some(theirs);
                }
                Err(message) => print!(" {message}"),
            }
        }
        println!();
    }
}

fn main() {
    println!(
        "Chains of n resistors and capacitors, parsed and flattened; best of three. Memory is the process's peak."
    );
    println!("rumoca is timed up to its compiled model, which includes a structural analysis.");
    println!(
        "{:<12} {:>7} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7} {:>9} {:>8}",
        "", "n", "unknowns", "parse", "flatten", "growth", "memory", "rumoca", "growth", "memory", "ratio"
    );
    println!(
        "{:<12} {:>7} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7} {:>9} {:>8}",
        "", "", "", "MiB/s", "s", "", "MiB", "s", "", "MiB", ""
    );
    report("arrays", Style::Arrays);
    report("written out", Style::WrittenOut);
}
