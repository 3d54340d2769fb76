//! Sets of multi-indices: which products of polynomials make the basis.

use std::collections::HashMap;

/// Degrees of the polynomials of each random parameter.
pub type MultiIndex = Vec<u16>;

/// A downward closed set of multi-indices, ordered by total degree; the constant comes first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct IndexSet {
    indices: Vec<MultiIndex>,
    place: HashMap<MultiIndex, usize>,
}

/// The highest degree that polynomials are made for: beyond it, rules of quadrature lose their accuracy.
pub const MAX_DEGREE: usize = 200;

/// Number of terms of total degree at most `degree` in `n` parameters: (n + degree)! / (n! degree!), as a float since
/// it can be huge.
#[must_use]
pub fn total_degree_terms(n: usize, degree: usize) -> f64 {
    // Symmetric in both, and as long as the smaller one.
    let (few, many) = (n.min(degree), n.max(degree) as f64);
    (1..=few).fold(1.0, |product, k| product * (many + k as f64) / k as f64)
}

/// Number of terms of the hyperbolic cross of degrees up to [`MAX_DEGREE`] in `n` parameters: the ways to write each
/// number up to degree + 1 as a product of n ordered factors, summed. Factor by factor: d_n(m) = sum of d_(n-1)(m /
/// f) over divisors f of m.
#[must_use]
pub fn hyperbolic_terms(n: usize, degree: usize) -> f64 {
    let most = degree.min(MAX_DEGREE) + 1;
    let mut ways = vec![0.0; most + 1];
    ways[1] = 1.0;
    for _ in 0..n {
        let mut more = vec![0.0; most + 1];
        for factor in 1..=most {
            for rest in 1..=most / factor {
                more[factor * rest] += ways[rest];
            }
        }
        ways = more;
    }
    ways.iter().sum()
}

impl IndexSet {
    /// The constant alone.
    #[must_use]
    pub fn constant(n_parameters: usize) -> Self {
        Self::from_indices(vec![vec![0; n_parameters]])
    }

    /// Any indices, put in order. The set must be downward closed.
    #[must_use]
    pub fn from_indices(mut indices: Vec<MultiIndex>) -> Self {
        let degree = |index: &MultiIndex| index.iter().map(|&k| u32::from(k)).sum::<u32>();
        // Within a degree, lower parameters come first: (1, 0) before (0, 1).
        indices.sort_by(|a, b| degree(a).cmp(&degree(b)).then_with(|| b.cmp(a)));
        indices.dedup();
        let place = indices.iter().enumerate().map(|(at, index)| (index.clone(), at)).collect();
        Self { indices, place }
    }

    /// All indices with total degree at most `degree`.
    #[must_use]
    pub fn total(n_parameters: usize, degree: usize) -> Self {
        Self::all(n_parameters, degree, &|index| index.iter().map(|&k| usize::from(k)).sum::<usize>() <= degree)
    }

    /// The hyperbolic cross: the product of (k_i + 1) at most degree + 1. Few interactions, high degrees of single
    /// parameters.
    #[must_use]
    pub fn hyperbolic(n_parameters: usize, degree: usize) -> Self {
        Self::all(n_parameters, degree, &|index| {
            index.iter().map(|&k| usize::from(k) + 1).product::<usize>() <= degree + 1
        })
    }

    /// All indices that a downward closed condition admits.
    fn all(n_parameters: usize, degree: usize, admits: &dyn Fn(&[u16]) -> bool) -> Self {
        let mut indices = vec![vec![0; n_parameters]];
        for parameter in 0..n_parameters {
            for at in 0..indices.len() {
                let mut index = indices[at].clone();
                for k in 1..=u16::try_from(degree).unwrap_or(u16::MAX) {
                    index[parameter] = k;
                    if !admits(&index) {
                        break;
                    }
                    indices.push(index.clone());
                }
            }
        }
        Self::from_indices(indices)
    }

    /// The indices in order.
    #[must_use]
    pub fn indices(&self) -> &[MultiIndex] {
        &self.indices
    }

    /// Number of indices.
    #[must_use]
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Position of an index.
    #[must_use]
    pub fn position(&self, index: &[u16]) -> Option<usize> {
        self.place.get(index).copied()
    }

    /// Highest degree in each parameter.
    #[must_use]
    pub fn max_degrees(&self) -> Vec<usize> {
        let n = self.indices.first().map_or(0, Vec::len);
        (0..n).map(|at| self.indices.iter().map(|index| usize::from(index[at])).max().unwrap_or(0)).collect()
    }

    /// Indices outside whose every lower neighbour is inside: what the set can be enlarged by.
    #[must_use]
    pub fn neighbours(&self) -> Vec<MultiIndex> {
        let mut found = Vec::new();
        for index in &self.indices {
            for parameter in 0..index.len() {
                let mut next = index.clone();
                next[parameter] += 1;
                if !self.place.contains_key(&next) && self.admits(&next) {
                    found.push(next);
                }
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// What has to be added so that the set holds an index and stays downward closed, lower degrees first.
    #[must_use]
    pub fn missing_below(&self, index: &[u16]) -> Vec<MultiIndex> {
        let mut found = vec![vec![0; index.len()]];
        for (at, &most) in index.iter().enumerate() {
            for place in 0..found.len() {
                for k in 1..=most {
                    let mut next = found[place].clone();
                    next[at] = k;
                    found.push(next);
                }
            }
        }
        found.retain(|index| !self.place.contains_key(index));
        Self::from_indices(found).indices
    }

    /// Whether adding an index keeps the set downward closed.
    #[must_use]
    pub fn admits(&self, index: &[u16]) -> bool {
        (0..index.len()).filter(|&at| index[at] > 0).all(|at| {
            let mut lower = index.to_vec();
            lower[at] -= 1;
            self.place.contains_key(&lower)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_known_ones() {
        for (n, degree) in [(1, 5), (2, 3), (3, 4), (8, 3)] {
            assert_eq!(IndexSet::total(n, degree).len() as f64, total_degree_terms(n, degree).round());
            assert_eq!(IndexSet::hyperbolic(n, degree).len() as f64, hyperbolic_terms(n, degree));
        }
        let set = IndexSet::total(2, 2);
        assert_eq!(set.indices(), [vec![0, 0], vec![1, 0], vec![0, 1], vec![2, 0], vec![1, 1], vec![0, 2]]);
        let cross = IndexSet::hyperbolic(2, 3);
        assert_eq!(cross.len(), 8);
        assert!(cross.position(&[1, 1]).is_some() && cross.position(&[2, 1]).is_none());
        assert_eq!(cross.max_degrees(), [3, 3]);
    }

    #[test]
    fn huge_sets_are_counted_at_once() {
        assert_eq!(total_degree_terms(1, usize::MAX - 1), usize::MAX as f64);
        assert_eq!(total_degree_terms(2, 1_000_000_000), 500_000_001_500_000_001.0);
        assert!(hyperbolic_terms(40, MAX_DEGREE) > 1e6);
    }

    #[test]
    fn neighbours_keep_a_set_downward_closed() {
        let set = IndexSet::from_indices(vec![vec![0, 0], vec![1, 0]]);
        assert_eq!(set.neighbours(), [vec![0, 1], vec![2, 0]]);
        assert!(!set.admits(&[1, 1]));
        assert_eq!(set.missing_below(&[1, 1]), [vec![0, 1], vec![1, 1]]);
    }
}
