//! A pendulum in Cartesian coordinates, as its equations stand (index 3): `cargo run --release --example simulate`.
use daesy::prelude::*;

const PENDULUM: &str = "model Pendulum
  Real x(start = 1, fixed = true), y, vx(start = 0, fixed = true), vy, force;
equation
  der(x) = vx;              der(y) = vy;
  der(vx) = -force*x;       der(vy) = -force*y - 9.81;
  x^2 + y^2 = 1;
end Pendulum;";

fn main() -> Result<(), Failure> {
    let run = Model::parse(PENDULUM)?.simulate_to(2.0)?;
    let (t, x, y) = (run.table.column("t"), run.table.column("x"), run.table.column("y"));
    for ((t, x), y) in t.into_iter().flatten().zip(x.into_iter().flatten()).zip(y.into_iter().flatten()).step_by(50) {
        println!("t = {t:4.2}  x = {x:7.4}  y = {y:7.4}  length = {:.9}", x.hypot(*y));
    }
    Ok(())
}
