//! Coefficients from values at points: tensor grids, sparse grids, adaptive grids and regression.
//!
//! Every method gives points and, for every polynomial, weights: coefficient = sum over points of weight times value.
//! A sparse grid sums full tensor projections with the signs of the combination technique, so that no polynomial is
//! aliased by another one of the same tensor ([@conrad2013]; a sparse quadrature rule applied to every coefficient
//! would do that).

use std::collections::HashMap;

use faer::Mat;

use crate::basis::Basis;
use crate::distribution::Distribution;
use crate::error::ChaosError;
use crate::index_set::{IndexSet, MultiIndex};
use crate::recurrence::{Rule, clenshaw_curtis};

/// Which one-dimensional rules grids are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RuleFamily {
    /// Gauss rules: most accurate by number of points.
    #[default]
    Gauss,
    /// Rules whose points are kept when they are refined: Clenshaw-Curtis for uniform distributions, Leja for others.
    Nested,
}

/// Points and how coefficients come from values there.
#[derive(Clone, PartialEq, Debug)]
pub struct Projection {
    /// The polynomials whose coefficients are found.
    pub basis: Basis,
    /// Germ values of the points.
    pub points: Vec<Vec<f64>>,
    /// By polynomial, then by point.
    pub weights: Vec<Vec<f64>>,
}

/// More points than this are refused.
pub const MAX_POINTS: f64 = 5e6;

/// One-dimensional rules by parameter and level, made when needed. Level k integrates squares of polynomials of
/// degree k.
struct Rules<'a> {
    basis: &'a Basis,
    family: RuleFamily,
    known: HashMap<(usize, u16), Rule>,
}

impl<'a> Rules<'a> {
    fn new(basis: &'a Basis, family: RuleFamily) -> Self {
        Self { basis, family, known: HashMap::new() }
    }

    fn get(&mut self, parameter: usize, level: u16) -> &Rule {
        let (basis, family) = (self.basis, self.family);
        self.known.entry((parameter, level)).or_insert_with(|| {
            let is_discrete = basis.parameters[parameter].distribution.max_degree().is_some();
            match (family, &basis.parameters[parameter].distribution) {
                (RuleFamily::Nested, Distribution::Uniform { .. }) => {
                    // The smallest of the nested rules that is good enough for the degree.
                    let mut fine = 0;
                    while clenshaw_curtis(fine).degree < usize::from(level) {
                        fine += 1;
                    }
                    clenshaw_curtis(fine)
                }
                (RuleFamily::Nested, _) if !is_discrete => basis.recurrence(parameter).leja(2 * usize::from(level) + 1),
                _ => basis.gauss(parameter, usize::from(level) + 1),
            }
        })
    }
}

/// Points found so far by their germ values.
#[derive(Default)]
struct PointList {
    points: Vec<Vec<f64>>,
    place: HashMap<Vec<u64>, usize>,
}

impl PointList {
    fn position(&mut self, point: &[f64]) -> usize {
        let key: Vec<u64> = point.iter().map(|value| (value + 0.0).to_bits()).collect();
        *self.place.entry(key).or_insert_with(|| {
            self.points.push(point.to_vec());
            self.points.len() - 1
        })
    }
}

/// One tensor grid: its points' positions and weights, and the polynomials it may project on.
struct Tensor {
    points: Vec<usize>,
    weights: Vec<f64>,
    germs: Vec<Vec<f64>>,
}

fn tensor(rules: &mut Rules<'_>, level: &[u16], list: &mut PointList) -> Tensor {
    let single: Vec<Rule> = level.iter().enumerate().map(|(at, &level)| rules.get(at, level).clone()).collect();
    let mut made = Tensor { points: Vec::new(), weights: Vec::new(), germs: Vec::new() };
    let mut counter = vec![0usize; level.len()];
    loop {
        let germ: Vec<f64> = counter.iter().zip(&single).map(|(&at, rule)| rule.points[at]).collect();
        made.points.push(list.position(&germ));
        made.weights.push(counter.iter().zip(&single).map(|(&at, rule)| rule.weights[at]).product());
        made.germs.push(germ);
        let mut at = 0;
        loop {
            if at == counter.len() {
                return made;
            }
            counter[at] += 1;
            if counter[at] < single[at].points.len() {
                break;
            }
            counter[at] = 0;
            at += 1;
        }
    }
}

/// Adds `factor` times the projection on all polynomials up to `degrees` by a tensor grid.
fn add_tensor(basis: &Basis, tensor: &Tensor, degrees: &[u16], factor: f64, weights: &mut [Vec<f64>], n_points: usize) {
    let inside: Vec<usize> = (0..basis.len())
        .filter(|&term| basis.indices.indices()[term].iter().zip(degrees).all(|(have, most)| have <= most))
        .collect();
    for ((&point, &weight), germ) in tensor.points.iter().zip(&tensor.weights).zip(&tensor.germs) {
        let values = basis.evaluate(germ);
        for &term in &inside {
            weights[term].resize(n_points, 0.0);
            weights[term][point] += factor * weight * values[term];
        }
    }
}

/// Projection on a basis by a full tensor grid with the given number of points per parameter.
///
/// # Errors
/// When there would be too many points.
pub fn tensor_projection(basis: &Basis, points_each: &[usize], family: RuleFamily) -> Result<Projection, ChaosError> {
    let n_points: f64 = points_each.iter().map(|&n| n as f64).product();
    if n_points > MAX_POINTS {
        let most = points_each.iter().copied().max().unwrap_or(0);
        return Err(ChaosError::TooManyPoints {
            n_parameters: points_each.len(),
            points_each: most,
            n_points,
            limit: MAX_POINTS,
        });
    }
    let level: MultiIndex = points_each.iter().map(|&n| n.saturating_sub(1) as u16).collect();
    let mut rules = Rules::new(basis, family);
    let mut list = PointList::default();
    let tensor = tensor(&mut rules, &level, &mut list);
    let mut weights = vec![Vec::new(); basis.len()];
    add_tensor(basis, &tensor, &level, 1.0, &mut weights, list.points.len());
    finish(basis.clone(), list.points, weights)
}

fn finish(basis: Basis, points: Vec<Vec<f64>>, mut weights: Vec<Vec<f64>>) -> Result<Projection, ChaosError> {
    for row in &mut weights {
        row.resize(points.len(), 0.0);
    }
    Ok(Projection { basis, points, weights })
}

/// The signs of the combination technique: sum over z in {0, 1}^n with index + z in the set of (-1)^|z|.
fn combination_factor(set: &IndexSet, index: &[u16]) -> f64 {
    fn descend(set: &IndexSet, index: &mut MultiIndex, from: usize, sign: f64) -> f64 {
        let mut sum = sign;
        for at in from..index.len() {
            index[at] += 1;
            if set.position(index).is_some() {
                sum += descend(set, index, at + 1, -sign);
            }
            index[at] -= 1;
        }
        sum
    }
    descend(set, &mut index.to_vec(), 0, 1.0)
}

/// Projection on a basis by a sparse grid: for every polynomial of the (downward closed) basis the grid has the
/// differences of one-dimensional rules of the same degrees.
///
/// # Errors
/// When there would be too many points.
pub fn sparse_projection(basis: &Basis, family: RuleFamily) -> Result<Projection, ChaosError> {
    sparse_projection_by(basis, &mut Rules::new(basis, family))
}

/// The same by given rules, which may be those of a larger basis.
fn sparse_projection_by(basis: &Basis, rules: &mut Rules<'_>) -> Result<Projection, ChaosError> {
    let mut list = PointList::default();
    let mut weights = vec![Vec::new(); basis.len()];
    for index in basis.indices.indices() {
        let factor = combination_factor(&basis.indices, index);
        if factor == 0.0 {
            continue;
        }
        let grid = tensor(rules, index, &mut list);
        if list.points.len() as f64 > MAX_POINTS {
            return Err(ChaosError::TooManyPoints {
                n_parameters: basis.n_parameters(),
                points_each: index.iter().map(|&k| usize::from(k) + 1).max().unwrap_or(1),
                n_points: list.points.len() as f64,
                limit: MAX_POINTS,
            });
        }
        add_tensor(basis, &grid, index, factor, &mut weights, list.points.len());
    }
    finish(basis.clone(), list.points, weights)
}

/// How an adaptive grid grows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdaptiveOptions {
    /// It stops when no refinement promises more than this share of a variable's standard deviation.
    pub tolerance: f64,
    /// It stops before it has more points than this.
    pub max_points: usize,
    /// Highest degree in one parameter.
    pub max_degree: usize,
    /// Rules.
    pub family: RuleFamily,
}

/// Values of all variables at a point, variable by variable with `n_rows` each.
pub type PointValues = std::sync::Arc<Vec<f64>>;

/// Grows a basis and its sparse grid together where the coefficients decay slowest ([@gerstner2003] for the growth,
/// [@conrad2013] for the projection), from the index set of `start`: interactions of parameters that show in no
/// smaller part must be in it to be seen. `evaluate` gives the values at points; a point is asked for once. Gives the
/// values at the points of the projection too.
///
/// # Errors
/// What `evaluate` says, or that the polynomials do not exist.
pub fn adaptive_projection<E: From<ChaosError>>(
    start: &Basis,
    options: &AdaptiveOptions,
    n_rows: usize,
    mut evaluate: impl FnMut(&[Vec<f64>]) -> Result<Vec<PointValues>, E>,
) -> Result<(Projection, Vec<PointValues>), E> {
    let n_parameters = start.n_parameters();
    let largest: Vec<u16> = start
        .parameters
        .iter()
        .map(|parameter| {
            parameter.distribution.max_degree().map_or(options.max_degree, |most| most.min(options.max_degree)) as u16
        })
        .collect();
    // Rules depend on how far polynomials are known, and points that were asked for must stay points: all rules are
    // those of the largest basis.
    let axes = (0..n_parameters).map(|at| {
        let mut index: MultiIndex = vec![0; n_parameters];
        index[at] = largest[at].max(start.indices.max_degrees()[at] as u16);
        index
    });
    let widest = start.with_indices(IndexSet::from_indices(axes.collect()))?;
    let mut rules = Rules::new(&widest, options.family);
    // Everything in the basis, and what of it may still grow.
    let mut inside = IndexSet::from_indices(Vec::new());
    let mut active: Vec<(MultiIndex, f64)> = Vec::new();
    let mut list = PointList::default();
    let mut values: Vec<PointValues> = Vec::new();
    // Sums of squares of all coefficients but the constant's, by variable.
    let mut energy: Vec<f64> = Vec::new();
    let mut gains: HashMap<MultiIndex, f64> = HashMap::new();
    let mut waiting: Vec<MultiIndex> = start.indices.indices().to_vec();
    loop {
        for index in waiting.drain(..) {
            let mut all: Vec<MultiIndex> = inside.indices().to_vec();
            all.push(index.clone());
            inside = IndexSet::from_indices(all);
            // Only polynomials below the new index get anything from it.
            let below = inside.indices().iter().filter(|other| other.iter().zip(&index).all(|(a, b)| a <= b));
            let basis = start.with_indices(IndexSet::from_indices(below.cloned().collect()))?;
            let mut weights = vec![Vec::new(); basis.len()];
            let known = list.points.len();
            let mut grids = Vec::new();
            for_each_corner(&index, |corner, sign| {
                let grid = tensor(&mut rules, corner, &mut list);
                grids.push((grid, corner.clone(), sign));
            });
            for (grid, corner, sign) in &grids {
                add_tensor(&basis, grid, corner, *sign, &mut weights, list.points.len());
            }
            values.extend(evaluate(&list.points[known..])?);
            let gain = surplus(&basis, &weights, &values, n_rows);
            energy.resize(gain.len(), 0.0);
            for (sum, more) in energy.iter_mut().zip(&gain) {
                *sum += more;
            }
            // What is rounding beside the largest variance counts for nothing.
            let share = |(more, sum): (&f64, &f64)| if *sum > 0.0 { (more / sum).sqrt() } else { 0.0 };
            let indicator = gain.iter().zip(&energy).map(share).fold(0.0, f64::max);
            gains.insert(index.clone(), indicator);
            // Odd or even coefficients may vanish altogether: what comes before counts as well.
            let before = (0..index.len()).filter(|&at| index[at] > 0).filter_map(|at| {
                let mut lower = index.clone();
                lower[at] -= 1;
                gains.get(&lower).copied()
            });
            let indicator = before.fold(indicator, f64::max);
            active.push((index, indicator));
        }
        let Some(best) = (0..active.len()).max_by(|&a, &b| active[a].1.total_cmp(&active[b].1)) else { break };
        if active[best].1 <= options.tolerance || list.points.len() >= options.max_points {
            break;
        }
        let (index, _) = active.swap_remove(best);
        for parameter in 0..n_parameters {
            let mut next = index.clone();
            next[parameter] += 1;
            if next[parameter] <= largest[parameter] {
                let missing = inside.missing_below(&next);
                waiting.extend(missing.into_iter().filter(|index| !waiting.contains(index)).collect::<Vec<_>>());
            }
        }
    }
    let basis = start.with_indices(inside)?;
    let projection = sparse_projection_by(&basis, &mut rules)?;
    let known = list.points.len();
    let places: Vec<usize> = projection.points.iter().map(|point| list.position(point)).collect();
    values.extend(evaluate(&list.points[known..])?);
    let values = places.into_iter().map(|place| values[place].clone()).collect();
    Ok((projection, values))
}

/// The corners index - z, z in {0, 1}^n, with the sign (-1)^|z|.
fn for_each_corner(index: &[u16], mut visit: impl FnMut(&MultiIndex, f64)) {
    let moving: Vec<usize> = (0..index.len()).filter(|&at| index[at] > 0).collect();
    for mask in 0..1u32 << moving.len() {
        let mut corner = index.to_vec();
        for (bit, &at) in moving.iter().enumerate() {
            corner[at] -= (mask >> bit & 1) as u16;
        }
        visit(&corner, if mask.count_ones() % 2 == 0 { 1.0 } else { -1.0 });
    }
}

/// Sums of squares of the coefficients that weights give, without the constant's, by variable.
fn surplus(basis: &Basis, weights: &[Vec<f64>], values: &[PointValues], n_rows: usize) -> Vec<f64> {
    let n_values = values.first().map_or(0, |values| values.len());
    let mut sums = vec![0.0; n_values / n_rows.max(1)];
    let mut coefficient = vec![0.0; n_values];
    for weights in weights[1..basis.len()].iter().filter(|weights| !weights.is_empty()) {
        coefficient.fill(0.0);
        for (weight, values) in weights.iter().zip(values).filter(|(weight, _)| **weight != 0.0) {
            for (sum, value) in coefficient.iter_mut().zip(values.iter()) {
                *sum += weight * value;
            }
        }
        for (sum, rows) in sums.iter_mut().zip(coefficient.chunks(n_rows.max(1))) {
            *sum += rows.iter().map(|value| value * value).sum::<f64>();
        }
    }
    sums
}

/// Coefficients that fit values at given points best in the sense of least squares.
///
/// # Errors
/// When there are fewer points than polynomials.
pub fn regression(basis: &Basis, points: Vec<Vec<f64>>) -> Result<Projection, ChaosError> {
    let (n, m) = (points.len(), basis.len());
    if n < m {
        return Err(ChaosError::NotExpandable {
            reason: format!("{n} samples cannot determine {m} coefficients"),
            name: None,
        });
    }
    let mut matrix = Mat::<f64>::zeros(n, m);
    for (row, point) in points.iter().enumerate() {
        for (column, value) in basis.evaluate(point).into_iter().enumerate() {
            matrix[(row, column)] = value;
        }
    }
    // coefficients = R^-1 Q^T values with Phi = Q R, so that the weights are the rows of R^-1 Q^T.
    let qr = matrix.qr();
    let mut inverse = qr.compute_thin_Q().transpose().to_owned();
    qr.thin_R().solve_upper_triangular_in_place(&mut inverse);
    let weights = (0..m).map(|term| (0..n).map(|point| inverse[(term, point)]).collect()).collect();
    Ok(Projection { basis: basis.clone(), points, weights })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::basis::RandomParameter;
    use std::sync::Arc;

    fn basis(n: usize, degree: usize) -> Basis {
        let parameters = (0..n)
            .map(|at| RandomParameter {
                name: format!("p{at}"),
                distribution: if at % 2 == 0 {
                    Distribution::Uniform { min: 0.0, max: 1.0 }
                } else {
                    Distribution::Normal { mean: 1.0, std: 0.5 }
                },
            })
            .collect();
        Basis::new(parameters, IndexSet::total(n, degree)).unwrap()
    }

    /// A polynomial of the basis itself must come back exactly, whatever the grid.
    fn recovers(projection: &Projection) {
        let m = projection.basis.len();
        for target in [0, m / 3, m - 1] {
            let values: Vec<f64> =
                projection.points.iter().map(|point| projection.basis.evaluate(point)[target]).collect();
            for (term, weights) in projection.weights.iter().enumerate() {
                let coefficient: f64 = weights.iter().zip(&values).map(|(w, v)| w * v).sum();
                let expected = f64::from(u8::from(term == target));
                assert!((coefficient - expected).abs() < 1e-9, "{target} {term} {coefficient}");
            }
        }
    }

    #[test]
    fn every_grid_recovers_polynomials_of_its_basis() {
        let basis = basis(3, 3);
        recovers(&tensor_projection(&basis, &[4, 4, 4], RuleFamily::Gauss).unwrap());
        let sparse = sparse_projection(&basis, RuleFamily::Gauss).unwrap();
        recovers(&sparse);
        let nested = sparse_projection(&basis, RuleFamily::Nested).unwrap();
        recovers(&nested);
        let points = (0..100)
            .map(|k| basis.germ_of_unit(&crate::sampling::random_point(3, crate::sampling::Purpose::Samples, k, 3)));
        recovers(&regression(&basis, points.collect()).unwrap());
        assert!(regression(&basis, vec![vec![0.0; 3]; 5]).is_err());
    }

    #[test]
    fn sparse_grids_are_smaller_than_tensors_in_many_dimensions() {
        let basis = basis(8, 3);
        let sparse = sparse_projection(&basis, RuleFamily::Gauss).unwrap();
        assert!(sparse.points.len() < 1200, "{}", sparse.points.len());
        recovers(&sparse);
        let error = tensor_projection(&basis, &[16; 8], RuleFamily::Gauss).unwrap_err();
        assert!(matches!(error, ChaosError::TooManyPoints { .. }));
    }

    #[test]
    fn adaptive_grids_grow_where_the_function_is_rough() {
        for family in [RuleFamily::Gauss, RuleFamily::Nested] {
            grows_where_the_function_is_rough(family);
        }
    }

    fn grows_where_the_function_is_rough(family: RuleFamily) {
        // Strong in the first parameter, weak in the second, absent in the third.
        let start = basis(3, 2);
        let options = AdaptiveOptions { tolerance: 1e-6, max_points: 400, max_degree: 14, family };
        let function = |point: &[f64]| (2.0 * point[0]).exp() + 0.1 * point[1] * point[0];
        let mut n_evaluated = 0;
        let (projection, values) = adaptive_projection::<ChaosError>(&start, &options, 1, |points| {
            n_evaluated += points.len();
            Ok(points.iter().map(|point| Arc::new(vec![function(point)])).collect())
        })
        .unwrap();
        let degrees = projection.basis.indices.max_degrees();
        assert!(degrees[0] >= 6 && degrees[1] <= 5 && degrees[2] <= 4, "{degrees:?}");
        assert!(n_evaluated >= projection.points.len());
        for (point, value) in projection.points.iter().zip(&values) {
            assert_eq!(value[0], function(point));
        }
        let coefficients: Vec<f64> = projection
            .weights
            .iter()
            .map(|weights| weights.iter().zip(&projection.points).map(|(w, p)| w * function(p)).sum())
            .collect();
        let at = [0.3, -0.8, 0.1];
        let value: f64 = projection.basis.evaluate(&at).iter().zip(&coefficients).map(|(p, c)| p * c).sum();
        assert!((value - function(&at)).abs() < 1e-4);
    }

    #[test]
    fn what_is_fitted_to_samples_has_the_variance_of_the_samples() {
        // sqrt(k) c with k of a gamma distribution of shape 3/2 and scale 1/2, which has a long tail and a root at
        // zero: E k = 3/4, E sqrt(k) = sqrt(1/2) Gamma(2) / Gamma(3/2), so that the total index of k is 0.69836.
        let parameters = vec![
            RandomParameter { name: "k".into(), distribution: Distribution::Gamma { shape: 1.5, scale: 0.5 } },
            RandomParameter { name: "c".into(), distribution: Distribution::Uniform { min: 0.5, max: 1.5 } },
        ];
        let sequence = crate::SobolSequence::new(2, 1).unwrap();
        for degree in [3, 6] {
            let basis = Basis::new(parameters.clone(), IndexSet::total(2, degree)).unwrap();
            let germs: Vec<Vec<f64>> = (0..4000).map(|sample| basis.germ_of_unit(&sequence.point(sample))).collect();
            let value = |germ: &Vec<f64>| {
                let p = basis.parameter_values(germ);
                p[0].sqrt() * p[1]
            };
            let fitted = regression(&basis.on_samples(&germs).unwrap(), germs.clone()).unwrap();
            let values: Vec<f64> = germs.iter().map(value).collect();
            let coefficients = fitted
                .weights
                .iter()
                .map(|weights| vec![weights.iter().zip(&values).map(|(weight, value)| weight * value).sum()])
                .collect();
            let series = crate::Series { name: "y".into(), coefficients };
            let surrogate = crate::Surrogate { basis: fitted.basis, times: vec![0.0], series: vec![series] };
            let total = surrogate.sobol(&surrogate.series[0])[0][0].total;
            assert!((total - 0.698_36).abs() < 5e-3, "degree {degree}: {total}");
        }
    }
}
