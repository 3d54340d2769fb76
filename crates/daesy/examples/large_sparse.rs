//! How long `daesy check` takes on large sparse linear models: `cargo run --release --example large_sparse [UNKNOWNS]`.
//!
//! Dense pencils are out of reach here. Structure finds what to differentiate and which unknowns belong together;
//! numbers verify the blocks. Two models: a chain of masses whose end is moved by a given motion (index 3, blocks of
//! size one) and a ladder whose node voltages form one block.

use std::time::Instant;

use daesy::check::check;
use daesy::load::{LoadOptions, load};

/// A chain of `n` masses; the last one follows `motion`.
fn chain(n: usize) -> String {
    format!(
        "model Chain\n  constant Integer n = {n};\n  parameter Real c = 4;\n  input Real motion;\n  Real x[n];\n  Real v[n];\n  Real f[n + 1];\n  \
         Real push;\nequation\n  for i in 1:n loop\n    der(x[i]) = v[i];\n    der(v[i]) = f[i] - f[i + 1];\n  end for;\n  f[1] = -c*x[1];\n  \
         for i in 2:n loop\n    f[i] = c*(x[i - 1] - x[i]);\n  end for;\n  f[n + 1] = c*x[n] + push;\n  x[n] = motion;\nend Chain;\n"
    )
}

/// A ladder of `n` nodes: resistors between neighbours and to ground, the first node at a source behind a capacitor.
fn ladder(n: usize) -> String {
    format!(
        "model Ladder\n  constant Integer n = {n};\n  input Real source;\n  Real q;\n  Real v[n];\nequation\n  der(q) = source - v[1];\n  \
         v[1] - q + 2*(v[1] - v[2]) = 0;\n  for i in 2:n - 1 loop\n    2*(v[i] - v[i - 1]) + 2*(v[i] - v[i + 1]) + 0.5*v[i] = 0;\n  end for;\n  \
         2*(v[n] - v[n - 1]) + v[n] = 0;\nend Ladder;\n"
    )
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let n: usize = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    let folder = std::env::temp_dir().join(format!("daesy-large-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    for (name, text) in [("chain", chain(n / 3)), ("ladder", ladder(n))] {
        let path = folder.join(format!("{name}.mo"));
        std::fs::write(&path, text)?;
        let clock = Instant::now();
        let loaded = load(&path, &LoadOptions::default()).map_err(|diagnostics| format!("{diagnostics:?}"))?;
        let flattened = clock.elapsed().as_secs_f64();
        let check = check(&loaded);
        let checked = clock.elapsed().as_secs_f64() - flattened;
        let verdict = check.verdict.as_ref().ok_or_else(|| format!("{:?}", check.diagnostics))?;
        let regularity = verdict.regularity.as_ref().ok_or_else(|| format!("{:?}", check.diagnostics))?;
        println!(
            "{name}: {} unknowns, index {}, {} free start values, largest block {}, confirmed: {}; read in {flattened:.2} s, checked in \
             {checked:.2} s",
            check.size.unknowns,
            regularity.differentiation_index,
            regularity.d,
            verdict.block_sizes.first().copied().unwrap_or(0),
            regularity.agrees_with_structure,
        );
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
