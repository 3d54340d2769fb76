//! Coordinates without bounds for unknowns with bounds.

/// How an unknown follows from its coordinate q.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Transform {
    /// x = q.
    Free,
    /// x = min + e^q.
    Above {
        /// The bound.
        min: f64,
        /// The least distance from the bound where a chain may begin.
        least: f64,
    },
    /// x = max - e^q.
    Below {
        /// The bound.
        max: f64,
        /// The least distance from the bound where a chain may begin.
        least: f64,
    },
    /// x = min + (max - min) / (1 + e^-q).
    Between {
        /// Lower bound.
        min: f64,
        /// Upper bound.
        max: f64,
    },
}

/// The part of a typical size, or of the room between bounds, that a chain begins away from a bound at least.
const INSIDE: f64 = 1e-3;

fn logistic(q: f64) -> f64 {
    if q >= 0.0 { 1.0 / (1.0 + (-q).exp()) } else { q.exp() / (1.0 + q.exp()) }
}

impl Transform {
    /// The transform for bounds, infinite where there is none, and a typical size.
    #[must_use]
    pub fn new(min: f64, max: f64, nominal: f64) -> Self {
        let least = INSIDE * nominal;
        match (min.is_finite(), max.is_finite()) {
            (false, false) => Self::Free,
            (true, false) => Self::Above { min, least },
            (false, true) => Self::Below { max, least },
            (true, true) => Self::Between { min, max },
        }
    }

    /// The unknown at a coordinate.
    #[must_use]
    pub fn value(&self, q: f64) -> f64 {
        match *self {
            Self::Free => q,
            Self::Above { min, .. } => min + q.exp(),
            Self::Below { max, .. } => max - q.exp(),
            Self::Between { min, max } => min + (max - min) * logistic(q),
        }
    }

    /// The coordinate of a value, brought inside the bounds.
    #[must_use]
    pub fn coordinate(&self, x: f64) -> f64 {
        match *self {
            Self::Free => x,
            Self::Above { min, least } => (x - min).max(least).ln(),
            Self::Below { max, least } => (max - x).max(least).ln(),
            Self::Between { min, max } => {
                let part = ((x - min) / (max - min)).clamp(INSIDE, 1.0 - INSIDE);
                (part / (1.0 - part)).ln()
            }
        }
    }

    /// A value that may be at a bound, moved inside by as much as the mode of a normal density with this standard
    /// deviation moves in coordinates without bounds; between two bounds to the middle at most.
    #[must_use]
    pub fn moved_inside(&self, x: f64, std: f64) -> f64 {
        let distance = |from_bound: f64| 0.5 * (from_bound + from_bound.hypot(2.0 * std));
        match *self {
            Self::Free => x,
            Self::Above { min, .. } => min + distance(x - min),
            Self::Below { max, .. } => max - distance(max - x),
            Self::Between { min, max } => {
                let middle = 0.5 * (min + max);
                if x < middle { (min + distance(x - min)).min(middle) } else { (max - distance(max - x)).max(middle) }
            }
        }
    }

    /// dx/dq.
    #[must_use]
    pub fn derivative(&self, q: f64) -> f64 {
        match *self {
            Self::Free => 1.0,
            Self::Above { .. } => q.exp(),
            Self::Below { .. } => -q.exp(),
            Self::Between { min, max } => (max - min) * logistic(q) * logistic(-q),
        }
    }

    /// log |dx/dq| and its derivative.
    #[must_use]
    pub fn log_derivative(&self, q: f64) -> (f64, f64) {
        match *self {
            Self::Free => (0.0, 0.0),
            Self::Above { .. } | Self::Below { .. } => (q, 1.0),
            Self::Between { min, max } => {
                // log s(q) + log s(-q), without overflow.
                let log_sum = -q.abs() - 2.0 * (-q.abs()).exp().ln_1p();
                ((max - min).ln() + log_sum, 1.0 - 2.0 * logistic(q))
            }
        }
    }

    /// The second derivative of log |dx/dq|.
    #[must_use]
    pub fn log_bend(&self, q: f64) -> f64 {
        match *self {
            Self::Free | Self::Above { .. } | Self::Below { .. } => 0.0,
            Self::Between { .. } => -2.0 * logistic(q) * logistic(-q),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_lead_back_and_derivatives_are_right() {
        let cases = [
            Transform::Free,
            Transform::new(1.0, f64::INFINITY, 1.0),
            Transform::new(f64::NEG_INFINITY, 7.0, 1.0),
            Transform::new(-1.0, 4.0, 1.0),
        ];
        for transform in cases {
            for q in [-3.0, -0.2, 0.7, 5.0] {
                let x = transform.value(q);
                assert!((transform.coordinate(x) - q).abs() < 1e-9, "{transform:?} {q}");
                let h = 1e-5;
                let slope = (transform.value(q + h) - transform.value(q - h)) / (2.0 * h);
                assert!((transform.derivative(q) - slope).abs() < 1e-6 * slope.abs().max(1.0), "{transform:?} {q}");
                let (log, bend) = transform.log_derivative(q);
                assert!((log - slope.abs().ln()).abs() < 1e-6);
                let change = (transform.log_derivative(q + h).0 - transform.log_derivative(q - h).0) / (2.0 * h);
                assert!((bend - change).abs() < 1e-6, "{transform:?} {q}");
                let change = (transform.log_derivative(q + h).1 - transform.log_derivative(q - h).1) / (2.0 * h);
                assert!((transform.log_bend(q) - change).abs() < 1e-6, "{transform:?} {q}");
            }
        }
        assert!(Transform::new(0.0, f64::INFINITY, 2.0).coordinate(0.0).is_finite());
    }
}
