//! The amplifier of [@pulch2008, sec. 4] against dense Gauss quadrature: largest errors of means and variances over the
//! whole time span, relative to their largest values, for the linearized model with degree 5 and 2 and the nonlinear
//! one with degree 2. Run it by `cargo xtask study amplifier_chaos`.

use std::path::Path;
use std::time::Instant;

use daesy::load::{LoadOptions, Loaded, load};
use daesy::uq::{Uq, UqSettings, uq};

/// Points of the reference.
const DENSE: u64 = 15;

fn solve(study: &str, method: &str, degree: u64) -> Result<Uq, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/amplifier").join(study);
    let mut loaded: Loaded = load(&path, &LoadOptions::default()).map_err(|wrong| format!("{wrong:?}"))?;
    if let Some(study) = &mut loaded.study {
        study.uq.method = Some(method.to_owned());
        study.uq.degree = Some(degree);
        study.uq.validation = Some(0);
        study.simulate.rtol = Some(1e-10);
        study.simulate.atol = Some(1e-12);
    }
    uq(&loaded, &UqSettings::default()).map_err(|failure| failure.to_string())
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |most, value| most.max(value.abs()))
}

fn main() -> Result<(), String> {
    for (study, degrees) in
        [("figure_2.toml", &[2, 5][..]), ("figure_5.toml", &[2, 5]), ("figure_6.toml", &[2]), ("figure_7.toml", &[2])]
    {
        let begin = Instant::now();
        let dense = solve(study, "collocation", DENSE - 1)?;
        println!("{study}: reference of {DENSE} points in {:.1} s", begin.elapsed().as_secs_f64());
        for &degree in degrees {
            let begin = Instant::now();
            let found = solve(study, "galerkin", degree)?;
            println!("  galerkin, degree {degree}, in {:.1} s", begin.elapsed().as_secs_f64());
            for (at, name) in found.variables.iter().enumerate() {
                let (mine, reference) = (&found.moments[at], &dense.moments[at]);
                let mean = largest(mine.mean.iter().zip(&reference.mean).map(|(a, b)| a - b));
                let variance = largest(mine.std.iter().zip(&reference.std).map(|(a, b)| a * a - b * b));
                let (size, spread) =
                    (largest(reference.mean.iter().copied()), largest(reference.std.iter().map(|std| std * std)));
                println!(
                    "    {name}: mean off by {:.1e} of {size:.2e}, variance by {:.1e} of {spread:.2e}",
                    mean / size,
                    if spread > 1e-15 { variance / spread } else { 0.0 }
                );
            }
        }
    }
    Ok(())
}
