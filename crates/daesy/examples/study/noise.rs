//! Normal numbers for artificial records.

/// Normal numbers from a seed.
pub struct Noise(fastrand::Rng);

impl Noise {
    /// A sequence of its own for each seed.
    pub fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// A standard normal number.
    pub fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.0.f64(), self.0.f64());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// A process dw = -rate w dt + size dv, in its stationary distribution at first, at points a step apart: exact, since
    /// w(t + h) = exp(-rate h) w(t) + a normal number of variance size^2 (1 - exp(-2 rate h)) / (2 rate).
    #[allow(dead_code, reason = "every study is a program of its own and uses what it needs")]
    pub fn lag(&mut self, rate: f64, size: f64, step: f64, n_points: usize) -> Vec<f64> {
        let spread = size / (2.0 * rate).sqrt();
        let kept = (-rate * step).exp();
        let mut value = spread * self.normal();
        (0..n_points)
            .map(|_| {
                let here = value;
                value = kept * value + spread * (1.0 - kept * kept).sqrt() * self.normal();
                here
            })
            .collect()
    }
}
