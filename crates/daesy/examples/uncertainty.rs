//! How uncertain the charge of a capacitor is when its parts have tolerances:
//! `cargo run --release --example uncertainty`.
use daesy::prelude::*;

const CIRCUIT: &str = "model Circuit
  parameter Real R = 1000, C = 1e-6;
  Real v(start = 0, fixed = true), i;
equation
  C*der(v) = i;
  1 - v = R*i;
end Circuit;";

const STUDY: &str = r#"
[model]
file = "model.mo"
[random]
R = { uniform = { mean = 1000, relative = 0.05 } }
C = { normal = { mean = 1e-6, std = 1e-7, min = 5e-7, max = 2e-6 } }
[simulate]
stop = 1e-3
step = 1e-4
"#;

fn main() -> Result<(), Failure> {
    let spread = Model::parse_study(STUDY, CIRCUIT)?.uq(&UqSettings::default())?;
    let v = spread.variables.iter().position(|name| name == "v").unwrap_or(0);
    let (moments, band) = (&spread.moments[v], &spread.bands[v]);
    for (at, t) in spread.times.iter().enumerate() {
        println!(
            "t = {t:.4}  v = {:.4} +- {:.4}  90 %: {:.4} to {:.4}",
            moments.mean[at], moments.std[at], band.low[at], band.high[at]
        );
    }
    Ok(())
}
