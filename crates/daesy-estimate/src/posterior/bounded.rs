//! Whether bounds on single unknowns close directions that nothing else determines.
//!
//! Where a density does not change along a subspace F from a point, it has a finite integral only if the part of F within
//! the box of bounds is bounded. A convex set is bounded if no ray stays in it [@rockafellar1970, thm. 8.4]: if F and the
//! recession cone of the box,
//!
//! ```text
//! C = { d : d_i >= 0 with a lower bound only, d_i <= 0 with an upper one only, d_i = 0 with both }
//! ```
//!
//! have nothing in common but zero. With the columns of V a basis of the part of F that is zero where both bounds are, and
//! the rows of M those of V with one bound, turned towards the open side, `d = V c` is in C if `M c >= 0`. There is such a
//! `c` other than zero if M has a kernel, or if its range meets the simplex:
//!
//! ```text
//! min |(I - P) u|^2 + (1^T u - 1)^2   over u >= 0,     P: the projection on the range of M
//! ```
//!
//! is zero then and only then. The minimum is that of a least-squares problem without negative unknowns, found in finitely
//! many steps by [@lawson1974, ch. 23].

use faer::Mat;
use faer::linalg::solvers::{SelfAdjointEigen, SolveLstsq};

use crate::search::SearchSpace;

/// Lengths of unit vectors below this are zero but for rounding. What is nearly a ray counts as one.
const ZERO: f64 = 1e-5;

/// Whether a ray from any point in the box stays in it and goes along these directions, the columns of a matrix, which
/// are to be orthonormal in some units of the unknowns.
#[must_use]
pub fn have_ray_in_box(directions: &Mat<f64>, space: &SearchSpace) -> bool {
    let n = directions.nrows();
    let is_bounded = |i: usize| [space.lower[i].is_finite(), space.upper[i].is_finite()];
    let closed: Vec<usize> = (0..n).filter(|&i| is_bounded(i) == [true, true]).collect();
    let rows = |of: &[usize]| Mat::from_fn(of.len(), directions.ncols(), |a, k| directions[(of[a], k)]);
    let Some(kernel) = kernel_and_range(&rows(&closed)).map(|[kernel, _]| kernel) else { return true };
    if kernel.ncols() == 0 {
        return false;
    }
    let half: Vec<usize> = (0..n).filter(|&i| is_bounded(i)[0] != is_bounded(i)[1]).collect();
    let inwards = rows(&half) * kernel;
    let turned = Mat::from_fn(half.len(), inwards.ncols(), |a, k| {
        if is_bounded(half[a])[0] { inwards[(a, k)] } else { -inwards[(a, k)] }
    });
    let Some([kernel, range]) = kernel_and_range(&turned) else { return true };
    if kernel.ncols() > 0 {
        return true;
    }
    let m = half.len();
    let projection = &range * range.transpose();
    let system =
        Mat::from_fn(m + 1, m, |i, j| if i == m { 1.0 } else { f64::from(u8::from(i == j)) - projection[(i, j)] });
    let goal = Mat::from_fn(m + 1, 1, |i, _| f64::from(u8::from(i == m)));
    let nearest = least_squares_without_negative(&system, &goal);
    (goal - system * nearest).norm_l2() < ZERO
}

/// Orthonormal bases of the kernel and of the range of a matrix, whose singular values are one at most.
fn kernel_and_range(a: &Mat<f64>) -> Option<[Mat<f64>; 2]> {
    let n = a.ncols();
    let eigen = SelfAdjointEigen::new((a.transpose() * a).as_ref(), faer::Side::Lower).ok()?;
    let (values, vectors) = (eigen.S().column_vector(), eigen.U());
    let (large, small): (Vec<usize>, Vec<usize>) = (0..n).partition(|&k| values[k] > ZERO * ZERO);
    let of = |columns: &[usize]| Mat::from_fn(n, columns.len(), |i, k| vectors[(i, columns[k])]);
    let range = a * of(&large);
    let unit = Mat::from_fn(a.nrows(), large.len(), |i, k| range[(i, k)] / values[large[k]].sqrt());
    Some([of(&small), unit])
}

/// The `x >= 0` with the least `|A x - b|`, by active sets [@lawson1974, ch. 23].
fn least_squares_without_negative(a: &Mat<f64>, b: &Mat<f64>) -> Mat<f64> {
    const ROUNDING: f64 = 1e-13;
    let m = a.ncols();
    let mut x = Mat::<f64>::zeros(m, 1);
    let mut free: Vec<usize> = Vec::new();
    // Every round lowers the distance; the limit is for rounding.
    for _ in 0..10 * (m + 1) {
        let slope = a.transpose() * (b - a * &x);
        let steepest = (0..m).filter(|j| !free.contains(j)).max_by(|&i, &j| slope[(i, 0)].total_cmp(&slope[(j, 0)]));
        let Some(next) = steepest.filter(|&j| slope[(j, 0)] > ROUNDING) else { break };
        free.push(next);
        while !free.is_empty() {
            let best = Mat::from_fn(a.nrows(), free.len(), |i, k| a[(i, free[k])]).qr().solve_lstsq(b);
            let to_zero = |k: usize| {
                let (here, there) = (x[(free[k], 0)], best[(k, 0)]);
                if there > 0.0 { 1.0 } else { here / (here - there).max(f64::MIN_POSITIVE) }
            };
            let part = (0..free.len()).map(to_zero).fold(1.0, f64::min);
            let is_whole = (0..free.len()).all(|k| best[(k, 0)] > 0.0);
            for (k, &j) in free.iter().enumerate() {
                x[(j, 0)] += part * (best[(k, 0)] - x[(j, 0)]);
            }
            if is_whole {
                break;
            }
            let has_ended = |j: &usize| x[(*j, 0)] <= ROUNDING;
            let ended: Vec<usize> = free.iter().copied().filter(has_ended).collect();
            free.retain(|j| !ended.contains(j));
            ended.into_iter().for_each(|j| x[(j, 0)] = 0.0);
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: f64 = f64::INFINITY;

    fn space(bounds: &[(f64, f64)]) -> SearchSpace {
        SearchSpace {
            lower: bounds.iter().map(|bound| bound.0).collect(),
            upper: bounds.iter().map(|bound| bound.1).collect(),
            nominal: vec![1.0; bounds.len()],
        }
    }

    fn orthonormal(columns: &[&[f64]]) -> Mat<f64> {
        Mat::from_fn(columns[0].len(), columns.len(), |i, k| columns[k][i]).qr().compute_thin_Q()
    }

    #[test]
    fn what_is_left_of_a_sum_is_bounded_by_half_of_the_bounds() {
        let difference = orthonormal(&[&[1.0, -1.0]]);
        for (bounds, is_open) in [
            ([(0.0, OPEN), (0.0, OPEN)], false),
            ([(-OPEN, 0.0), (-OPEN, 0.0)], false),
            ([(0.0, OPEN), (-OPEN, 0.0)], true),
            ([(0.0, OPEN), (-OPEN, OPEN)], true),
            ([(0.0, 1.0), (-OPEN, OPEN)], false),
            ([(-OPEN, OPEN), (-OPEN, OPEN)], true),
        ] {
            assert_eq!(have_ray_in_box(&difference, &space(&bounds)), is_open, "{bounds:?}");
        }
        // Three non-negative unknowns with a known sum, and one of which nothing is said.
        let positive = [(0.0, OPEN); 3];
        let triangle = orthonormal(&[&[1.0, -1.0, 0.0], &[0.0, 1.0, -1.0]]);
        assert!(!have_ray_in_box(&triangle, &space(&positive)));
        assert!(have_ray_in_box(&triangle, &space(&[(0.0, OPEN), (0.0, OPEN), (-OPEN, OPEN)])));
        let unseen = orthonormal(&[&[1.0, -1.0, 0.0], &[0.0, 0.0, 1.0]]);
        assert!(have_ray_in_box(&unseen, &space(&positive)));
    }

    /// In the plane of two directions every ray is tried, a degree apart.
    #[test]
    fn planes_meet_orthants_where_one_of_their_rays_does() {
        let mut rng = fastrand::Rng::with_seed(4);
        let mut n_open = 0;
        for _ in 0..200 {
            let n = 3 + rng.usize(..4);
            let columns: Vec<Vec<f64>> = (0..2).map(|_| (0..n).map(|_| rng.f64() - 0.5).collect()).collect();
            let plane = orthonormal(&[&columns[0], &columns[1]]);
            let least = |angle: f64| {
                let along = |i: usize| angle.cos() * plane[(i, 0)] + angle.sin() * plane[(i, 1)];
                (0..n).map(along).fold(f64::INFINITY, f64::min)
            };
            let best = (0..3600).map(|k| least(f64::from(k) * std::f64::consts::PI / 1800.0)).fold(-1.0, f64::max);
            if best.abs() < 0.01 {
                // Too near to call by so coarse a look.
                continue;
            }
            let is_open = have_ray_in_box(&plane, &space(&vec![(0.0, OPEN); n]));
            assert_eq!(is_open, best > 0.0, "{plane:?}");
            n_open += usize::from(is_open);
        }
        assert!((20..180).contains(&n_open), "{n_open}");
    }
}
