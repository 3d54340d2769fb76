//! Mass and friction of a cart from its measured position, although a wind that nobody measured pushes it:
//! `cargo run --release --example identify`.
use daesy::prelude::*;

const CART: &str = "model Cart
  parameter Real m = 1, d = 1;
  input Real force, wind;
  Real position(start = 0, fixed = true), speed(start = 0, fixed = true);
equation
  der(position) = speed;
  m*der(speed) = force + wind - d*speed;
end Cart;";

const STUDY: &str = r#"
[model]
file = "model.mo"
[unknown]
m = { start = 1.0, min = 0.01 }
d = { start = 1.0, min = 0.01 }
[inputs]
force = { column = "force", hold = "zoh" }
[disturbances]
wind = { white = 1e-4 }
[measurements]
position = { column = "position", std = 0.001 }
[data]
file = "cart.csv"
time = "t"
"#;

/// What a cart of mass 2 with friction 0.5 does when it is pushed and pulled in turn; between the samples the force is
/// constant, so that the motion is known in closed form.
fn record() -> Table {
    let (mass, friction, step) = (2.0, 0.5, 0.05);
    let fade = f64::exp(-friction / mass * step);
    let (mut position, mut speed) = (0.0, 0.0);
    let mut columns = vec![Vec::new(), Vec::new(), Vec::new()];
    for row in 0..400 {
        let force = if row / 40 % 2 == 0 { 1.0 } else { -1.0 };
        for (column, value) in columns.iter_mut().zip([f64::from(row) * step, force, position]) {
            column.push(value);
        }
        let last = force / friction;
        position += last * step + (speed - last) * (1.0 - fade) * mass / friction;
        speed = last + (speed - last) * fade;
    }
    Table { names: ["t", "force", "position"].map(str::to_owned).to_vec(), columns }
}

fn main() -> Result<(), Failure> {
    let found = Model::parse_study(STUDY, CART)?.with_data(vec![record()])?.identify(&IdentifyOptions::default())?;
    for parameter in &found.parameters {
        println!("{} = {:.4} +- {:.4}", parameter.name, parameter.estimate, parameter.std_error);
    }
    Ok(())
}
