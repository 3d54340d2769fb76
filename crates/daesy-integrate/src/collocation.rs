//! Coefficients of the Radau IIA methods: collocation at the right Radau points, order 2 s - 1 with s stages, L-stable.
//!
//! With p_j the Legendre polynomials on [0, 1] and c the zeros of p_s - p_(s-1), the coefficients are A = I P^-1 with
//! P_ij = p_j(c_i) and I_ij the integral of p_j from 0 to c_i. The eigenvectors of A part the s stages of an implicit
//! step into one real and (s - 1)/2 complex systems of the size of one stage [@hairer1996, sec. IV.8].

use faer::Mat;
use faer::c64;
use faer::prelude::*;
use std::sync::OnceLock;

/// A pair of complex eigenvalues of A, one of both.
#[derive(Clone, Debug)]
pub(crate) struct ComplexPair {
    pub(crate) eigenvalue: c64,
    /// Column of T.
    pub(crate) vector: Vec<c64>,
    /// Row of the inverse of T.
    pub(crate) left: Vec<c64>,
}

/// Coefficients of one method.
#[derive(Clone, Debug)]
pub(crate) struct Collocation {
    pub(crate) n_stages: usize,
    /// Abscissas.
    pub(crate) c: Vec<f64>,
    /// A, row by row.
    pub(crate) a: Vec<Vec<f64>>,
    /// The real eigenvalue, its column of T and its row of the inverse.
    pub(crate) eigenvalue: f64,
    pub(crate) vector: Vec<f64>,
    pub(crate) left: Vec<f64>,
    pub(crate) pairs: Vec<ComplexPair>,
    /// 1 / product of the distances of each node, 0 first, from all others.
    spreads: Vec<f64>,
    /// Weights of the error estimate beside that of the rates at the old point, which is the real eigenvalue.
    pub(crate) error: Vec<f64>,
    pub(crate) probe: Probe,
}

/// Where within a step the polynomial through its nodes is worst, and the weights of its value and of its derivative
/// there.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) at: f64,
    pub(crate) values: Vec<f64>,
    pub(crate) rates: Vec<f64>,
}

/// The method with 3, 5 or 7 stages.
pub(crate) fn radau(n_stages: usize) -> &'static Collocation {
    static METHODS: [OnceLock<Collocation>; 3] = [const { OnceLock::new() }; 3];
    let n_stages = n_stages.clamp(3, 7) | 1;
    METHODS[(n_stages - 3) / 2].get_or_init(|| Collocation::new(n_stages))
}

/// p_0 .. p_n at x.
fn legendre(n: usize, x: f64) -> Vec<f64> {
    let y = 2.0 * x - 1.0;
    let mut p = vec![1.0, y];
    for k in 1..n {
        let m = k as f64;
        p.push(((2.0 * m + 1.0) * y * p[k] - m * p[k - 1]) / (m + 1.0));
    }
    p
}

/// Zeros of p_s - p_(s-1), ascending; the last is 1.
fn nodes(n_stages: usize) -> Vec<f64> {
    let value = |x: f64| {
        let p = legendre(n_stages, x);
        p[n_stages] - p[n_stages - 1]
    };
    let mut nodes = Vec::with_capacity(n_stages);
    const GRID: usize = 400;
    for cell in 0..GRID {
        let (mut low, mut high) = (cell as f64 / GRID as f64, (cell as f64 + 1.0) / GRID as f64 - 1e-9);
        let is_positive = value(low) > 0.0;
        if is_positive == (value(high) > 0.0) {
            continue;
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if (value(middle) > 0.0) == is_positive { low = middle } else { high = middle }
        }
        nodes.push(0.5 * (low + high));
    }
    nodes.push(1.0);
    nodes
}

impl Collocation {
    fn new(n_stages: usize) -> Self {
        let s = n_stages;
        let c = nodes(s);
        let values: Vec<Vec<f64>> = c.iter().map(|&x| legendre(s, x)).collect();
        let p = Mat::from_fn(s, s, |i, j| values[i][j]);
        let integrals = Mat::from_fn(s, s, |i, j| match j {
            0 => c[i],
            _ => (values[i][j + 1] - values[i][j - 1]) / (2.0 * (2.0 * j as f64 + 1.0)),
        });
        // A P = I, solved as P^T A^T = I^T.
        let a = p.transpose().partial_piv_lu().solve(integrals.transpose()).transpose().to_owned();
        let eigen = a.eigen().expect("a matrix of finite numbers has eigenvalues");
        let eigenvalues: Vec<c64> = eigen.S().column_vector().iter().copied().collect();
        let vectors = eigen.U().to_owned();
        let inverse = vectors.partial_piv_lu().solve(Mat::<c64>::identity(s, s));
        let column = |at: usize| (0..s).map(|i| vectors[(i, at)]).collect::<Vec<c64>>();
        let row = |at: usize| (0..s).map(|i| inverse[(at, i)]).collect::<Vec<c64>>();
        let real_at = (0..s)
            .min_by(|&i, &j| eigenvalues[i].im.abs().total_cmp(&eigenvalues[j].im.abs()))
            .expect("an odd number of stages has a real eigenvalue");
        // A real eigenvector may come with a complex factor, which the inverse takes back.
        let (vector, left) = (column(real_at), row(real_at));
        let pivot = vector.iter().copied().max_by(|a, b| a.norm().total_cmp(&b.norm())).unwrap_or(c64::new(1.0, 0.0));
        let eigenvalue = eigenvalues[real_at].re;
        let pairs = (0..s)
            .filter(|&at| at != real_at && eigenvalues[at].im > 0.0)
            .map(|at| ComplexPair { eigenvalue: eigenvalues[at], vector: column(at), left: row(at) })
            .collect();
        // Sum of d_i q(c_i) = -gamma q(0) for all polynomials q below degree s.
        let at_zero = legendre(s, 0.0);
        let rhs = Mat::from_fn(s, 1, |k, _| -eigenvalue * at_zero[k]);
        let error = p.transpose().partial_piv_lu().solve(&rhs);
        let all: Vec<f64> = std::iter::once(0.0).chain(c.iter().copied()).collect();
        let spread = |at: usize| {
            let others = all.iter().enumerate().filter(|(other, _)| *other != at);
            1.0 / others.map(|(_, other)| all[at] - other).product::<f64>()
        };
        let mut method = Self {
            n_stages: s,
            a: (0..s).map(|i| (0..s).map(|j| a[(i, j)]).collect()).collect(),
            eigenvalue,
            vector: vector.iter().map(|value| (value / pivot).re).collect(),
            left: left.iter().map(|value| (value * pivot).re).collect(),
            pairs,
            error: (0..s).map(|i| error[(i, 0)]).collect(),
            spreads: (0..=s).map(spread).collect(),
            c,
            probe: Probe { at: 0.0, values: Vec::new(), rates: Vec::new() },
        };
        method.set_probe(&all);
        method
    }

    /// The error of the polynomial is largest where the product of the distances from all nodes is.
    fn set_probe(&mut self, nodes: &[f64]) {
        let product = |x: f64| nodes.iter().map(|node| x - node).product::<f64>().abs();
        let candidates = (1..1000).map(|at| f64::from(at) / 1000.0);
        let at = candidates.max_by(|&a, &b| product(a).total_cmp(&product(b))).unwrap_or(0.5);
        let mut values = Vec::new();
        self.interpolation(at, &mut values);
        let rates = values.iter().zip(nodes).map(|(weight, own)| {
            let others = nodes.iter().filter(|node| *node != own);
            weight * others.map(|node| 1.0 / (at - node)).sum::<f64>()
        });
        let rates = rates.collect();
        self.probe = Probe { at, values, rates };
    }

    /// Weights w with q(x) = w_0 q(0) + sum of w_i q(c_i) for polynomials q up to degree s.
    pub(crate) fn interpolation(&self, x: f64, weights: &mut Vec<f64>) {
        // Products of x - node over all nodes before and after each.
        weights.clear();
        weights.push(1.0);
        let mut before = x;
        for &c in &self.c {
            weights.push(before);
            before *= x - c;
        }
        let mut after = 1.0;
        for at in (0..=self.n_stages).rev() {
            weights[at] *= after * self.spreads[at];
            after *= x - if at == 0 { 0.0 } else { self.c[at - 1] };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Conditions of collocation to degree s and of quadrature to degree 2 s - 2, and A = T diag T^-1.
    #[test]
    fn methods_have_their_order() {
        for s in [3, 5, 7] {
            let method = radau(s);
            assert_eq!(method.c.len(), s);
            for power in 0..2 * s - 1 {
                let exact = |x: f64| x.powi(power as i32 + 1) / (power as f64 + 1.0);
                for i in 0..s {
                    let sum: f64 = (0..s).map(|j| method.a[i][j] * method.c[j].powi(power as i32)).sum();
                    let is_exact = (sum - exact(method.c[i])).abs() < 1e-13;
                    assert!(is_exact || power >= s && i < s - 1, "s = {s}, stage {i}, power {power}");
                }
            }
            for i in 0..s {
                for j in 0..s {
                    let real = method.vector[i] * method.eigenvalue * method.left[j];
                    let complex: f64 = method
                        .pairs
                        .iter()
                        .map(|pair| 2.0 * (pair.vector[i] * pair.eigenvalue * pair.left[j]).re)
                        .sum();
                    assert!((real + complex - method.a[i][j]).abs() < 1e-12, "s = {s}");
                }
            }
        }
    }

    #[test]
    fn interpolation_is_exact_for_polynomials() {
        let mut weights = Vec::new();
        for s in [3, 5, 7] {
            let method = radau(s);
            for x in [-0.3, 0.2, 1.0, 1.7] {
                method.interpolation(x, &mut weights);
                let power = |at: f64| at.powi(s as i32) - 2.0 * at + 3.0;
                let nodes = std::iter::once(0.0).chain(method.c.iter().copied());
                let sum: f64 = nodes.zip(&weights).map(|(node, weight)| weight * power(node)).sum();
                assert!((sum - power(x)).abs() < 1e-10, "s = {s}, x = {x}");
            }
        }
    }

    #[test]
    fn probes_differentiate_polynomials() {
        for s in [3, 5, 7] {
            let Probe { at, values, rates } = &radau(s).probe;
            let nodes: Vec<f64> = std::iter::once(0.0).chain(radau(s).c.iter().copied()).collect();
            let sum = |weights: &[f64]| -> f64 {
                weights.iter().zip(&nodes).map(|(weight, node)| weight * (node.powi(s as i32) - 2.0 * node)).sum()
            };
            assert!((sum(values) - (at.powi(s as i32) - 2.0 * at)).abs() < 1e-12, "s = {s}");
            assert!((sum(rates) - (s as f64 * at.powi(s as i32 - 1) - 2.0)).abs() < 1e-11, "s = {s}");
        }
    }

    /// The coefficients with three stages are known in closed form.
    #[test]
    fn three_stages_are_those_of_the_book() {
        let root = 6.0f64.sqrt();
        let method = radau(3);
        assert!((method.c[0] - (4.0 - root) / 10.0).abs() < 1e-15);
        assert!((method.c[1] - (4.0 + root) / 10.0).abs() < 1e-15);
        assert!((method.a[0][0] - (88.0 - 7.0 * root) / 360.0).abs() < 1e-14);
        assert!((1.0 / method.eigenvalue - 3.637_834_252_744_496).abs() < 1e-12);
    }
}
