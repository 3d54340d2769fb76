//! Normal numbers for artificial records.

/// Normal numbers from a seed.
pub struct Noise(fastrand::Rng);

impl Noise {
    /// A sequence of its own for each seed.
    ///
    /// The generator multiplies its state by itself, so that from seeds that follow each other it gives numbers that do
    /// too: normal ones of neighbours have a correlation of -0.3. Seeds are scattered over all states first, by the last
    /// steps of SplitMix [@steele2014].
    pub fn new(seed: u64) -> Self {
        let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self(fastrand::Rng::with_seed(state ^ (state >> 31)))
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
