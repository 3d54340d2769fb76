//! Coefficients of the implicit Runge-Kutta method.
//!
//! ESDIRK4(3)6L[2]SA, the implicit part of ARK4(3)6L[2]SA [@kennedy2003, sec. 3.1]: six stages of which the first is explicit, order 4,
//! embedded order 3, L-stable and stiffly accurate (the last stage is the step).

/// Number of stages.
pub(crate) const STAGES: usize = 6;

/// The diagonal coefficient.
pub(crate) const GAMMA: f64 = 0.25;

/// Abscissas.
pub(crate) const C: [f64; STAGES] = [0.0, 0.5, 83.0 / 250.0, 31.0 / 50.0, 17.0 / 20.0, 1.0];

/// Strictly lower part of the coefficients; the diagonal is [`GAMMA`] but for the first stage.
pub(crate) const A: [[f64; STAGES]; STAGES] = [
    [0.0; STAGES],
    [0.25, 0.0, 0.0, 0.0, 0.0, 0.0],
    [8611.0 / 62500.0, -1743.0 / 31250.0, 0.0, 0.0, 0.0, 0.0],
    [5012029.0 / 34652500.0, -654441.0 / 2922500.0, 174375.0 / 388108.0, 0.0, 0.0, 0.0],
    [
        15267082809.0 / 155376265600.0,
        -71443401.0 / 120774400.0,
        730878875.0 / 902184768.0,
        2285395.0 / 8070912.0,
        0.0,
        0.0,
    ],
    [82889.0 / 524892.0, 0.0, 15625.0 / 83664.0, 69875.0 / 102672.0, -2260.0 / 8211.0, 0.0],
];

/// Weights of the step less those of the embedded method of order 3.
pub(crate) const ERROR: [f64; STAGES] = [
    82889.0 / 524892.0 - 4586570599.0 / 29645900160.0,
    0.0,
    15625.0 / 83664.0 - 178811875.0 / 945068544.0,
    69875.0 / 102672.0 - 814220225.0 / 1159782912.0,
    -2260.0 / 8211.0 + 3700637.0 / 11593932.0,
    0.25 - 61727.0 / 225920.0,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn weights() -> ([f64; STAGES], [f64; STAGES]) {
        let mut b = A[STAGES - 1];
        b[STAGES - 1] = GAMMA;
        let mut embedded = b;
        for stage in 0..STAGES {
            embedded[stage] -= ERROR[stage];
        }
        (b, embedded)
    }

    /// Row `stage` of the full matrix applied to a vector.
    fn apply(x: &[f64; STAGES]) -> [f64; STAGES] {
        let mut y = [0.0; STAGES];
        for stage in 1..STAGES {
            y[stage] = GAMMA * x[stage] + (0..stage).map(|j| A[stage][j] * x[j]).sum::<f64>();
        }
        y
    }

    fn dot(a: &[f64; STAGES], b: &[f64; STAGES]) -> f64 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    /// The eight conditions of order 4 for the step and the four of order 3 for the embedded method.
    #[test]
    fn order_conditions_hold() {
        let (b, embedded) = weights();
        let one = [1.0; STAGES];
        let row_sums = apply(&one);
        for stage in 0..STAGES {
            assert!((row_sums[stage] - C[stage]).abs() < 1e-14);
        }
        let power = |n: i32| C.map(|c| c.powi(n));
        let times_c = |x: [f64; STAGES]| std::array::from_fn(|at| x[at] * C[at]);
        let of_order_3 = [(one, 1.0), (power(1), 0.5), (power(2), 1.0 / 3.0), (apply(&power(1)), 1.0 / 6.0)];
        let of_order_4 = [
            (power(3), 0.25),
            (times_c(apply(&power(1))), 0.125),
            (apply(&power(2)), 1.0 / 12.0),
            (apply(&apply(&power(1))), 1.0 / 24.0),
        ];
        for (vector, value) in of_order_3 {
            assert!((dot(&b, &vector) - value).abs() < 1e-14);
            assert!((dot(&embedded, &vector) - value).abs() < 1e-14);
        }
        for (vector, value) in of_order_4 {
            assert!((dot(&b, &vector) - value).abs() < 1e-14);
        }
    }
}
