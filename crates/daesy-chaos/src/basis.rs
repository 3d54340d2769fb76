//! Orthonormal polynomials in several independent random parameters.

use crate::distribution::Distribution;
use crate::error::ChaosError;
use crate::index_set::IndexSet;
use crate::recurrence::{Recurrence, Rule};

/// A random parameter.
#[derive(Clone, PartialEq, Debug)]
pub struct RandomParameter {
    /// Its name.
    pub name: String,
    /// Its distribution.
    pub distribution: Distribution,
}

/// Orthonormal polynomials Phi_0 = 1, Phi_1, .. Phi_m in independent random parameters, each a product of polynomials
/// of the germs.
#[derive(Clone, PartialEq, Debug)]
pub struct Basis {
    /// The parameters.
    pub parameters: Vec<RandomParameter>,
    /// By parameter.
    recurrences: Vec<Recurrence>,
    /// One multi-index per polynomial.
    pub indices: IndexSet,
}

/// How many recurrence coefficients beyond the degree are kept, for quadrature.
const SPARE: usize = 136;

impl Basis {
    /// The basis of an index set.
    ///
    /// # Errors
    /// When samples have too few values for the degree.
    pub fn new(parameters: Vec<RandomParameter>, indices: IndexSet) -> Result<Self, ChaosError> {
        let degrees = indices.max_degrees();
        let mut recurrences = Vec::with_capacity(parameters.len());
        for (parameter, &degree) in parameters.iter().zip(&degrees) {
            let available = parameter.distribution.max_degree();
            if let Some(available) = available.filter(|&available| available < degree) {
                return Err(ChaosError::TooFewValues { available, needed: degree });
            }
            let n = available.map_or(degree + SPARE, |available| (available + 1).min(degree + SPARE));
            recurrences.push(parameter.distribution.recurrence(n)?);
        }
        Ok(Self { parameters, recurrences, indices })
    }

    /// The same parameters with other polynomials.
    ///
    /// # Errors
    /// When samples have too few values for the degree.
    pub fn with_indices(&self, indices: IndexSet) -> Result<Self, ChaosError> {
        Self::new(self.parameters.clone(), indices)
    }

    /// Polynomials of the same degrees that are orthonormal on samples instead: those of each parameter with respect
    /// to the values that it takes there. What is fitted to samples has its variance with respect to them; far out,
    /// where there are none, a fit says nothing, though a distribution with long tails has weight there.
    ///
    /// # Errors
    /// When the samples have too few values for the degrees.
    pub fn on_samples(&self, germs: &[Vec<f64>]) -> Result<Self, ChaosError> {
        let weights = vec![1.0; germs.len()];
        let recurrence = |(at, degree): (usize, usize)| {
            let values: Vec<f64> = germs.iter().map(|germ| germ[at]).collect();
            Recurrence::of_points(degree + 1, &values, &weights)
        };
        let recurrences =
            self.indices.max_degrees().into_iter().enumerate().map(recurrence).collect::<Result<_, _>>()?;
        Ok(Self { parameters: self.parameters.clone(), recurrences, indices: self.indices.clone() })
    }

    /// Number of polynomials, m + 1.
    #[must_use]
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are no polynomials.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Number of parameters.
    #[must_use]
    pub fn n_parameters(&self) -> usize {
        self.parameters.len()
    }

    /// The recurrence of a parameter's polynomials.
    #[must_use]
    pub fn recurrence(&self, parameter: usize) -> &Recurrence {
        &self.recurrences[parameter]
    }

    /// A Gauss rule of a parameter; discrete distributions give at most one point per value.
    #[must_use]
    pub fn gauss(&self, parameter: usize, n: usize) -> Rule {
        let recurrence = &self.recurrences[parameter];
        recurrence.gauss(n.min(recurrence.max_degree()))
    }

    /// Values of all polynomials at germ values.
    #[must_use]
    pub fn evaluate(&self, germ: &[f64]) -> Vec<f64> {
        let degrees = self.indices.max_degrees();
        let single: Vec<Vec<f64>> = (0..germ.len())
            .map(|at| {
                let mut values = Vec::new();
                self.recurrences[at].evaluate(germ[at], degrees[at], &mut values);
                values
            })
            .collect();
        let product = |index: &Vec<u16>| index.iter().zip(&single).map(|(&k, values)| values[usize::from(k)]).product();
        self.indices.indices().iter().map(product).collect()
    }

    /// Parameter values for germ values.
    #[must_use]
    pub fn parameter_values(&self, germ: &[f64]) -> Vec<f64> {
        self.parameters.iter().zip(germ).map(|(parameter, &germ)| parameter.distribution.parameter(germ)).collect()
    }

    /// Germ values for parameter values.
    #[must_use]
    pub fn germ_values(&self, values: &[f64]) -> Vec<f64> {
        self.parameters.iter().zip(values).map(|(parameter, &value)| parameter.distribution.germ(value)).collect()
    }

    /// Germ values for a point of the unit cube.
    #[must_use]
    pub fn germ_of_unit(&self, unit: &[f64]) -> Vec<f64> {
        self.parameters.iter().zip(unit).map(|(parameter, &p)| parameter.distribution.germ_quantile(p)).collect()
    }

    /// Means of the parameters.
    ///
    /// # Errors
    /// For samples with too few values.
    pub fn means(&self) -> Result<Vec<f64>, ChaosError> {
        self.parameters.iter().map(|parameter| parameter.distribution.mean()).collect()
    }
}
