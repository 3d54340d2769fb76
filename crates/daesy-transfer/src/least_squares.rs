//! Small dense least-squares problems by Householder reflections with column pivoting [@golub2013, sec. 5.4.2].

/// A solution of least squares.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct LeastSquares {
    /// The unknowns; those in [`LeastSquares::free_columns`] are zero.
    pub(crate) solution: Vec<f64>,
    /// Number of independent columns.
    pub(crate) rank: usize,
    /// Columns that depend on the others.
    pub(crate) free_columns: Vec<usize>,
    /// Largest entry of the residual.
    pub(crate) residual: f64,
}

/// Columns whose remainder is below this fraction of the largest column depend on those before.
const DEPENDENT: f64 = 1e-10;

/// Minimizes |A x - b| for rows of A; A should be scaled.
pub(crate) fn least_squares(rows: &[Vec<f64>], right: &[f64], n: usize) -> LeastSquares {
    let m = rows.len();
    let mut a: Vec<Vec<f64>> = rows.to_vec();
    let mut b = right.to_vec();
    let mut order: Vec<usize> = (0..n).collect();
    let norm_below =
        |a: &[Vec<f64>], k: usize, column: usize| (k..m).map(|i| a[i][column] * a[i][column]).sum::<f64>().sqrt();
    let largest = (0..n).map(|column| norm_below(&a, 0, column)).fold(0.0, f64::max);
    let mut rank = 0;
    while rank < n.min(m) {
        let best = (rank..n)
            .max_by(|&p, &q| norm_below(&a, rank, order[p]).total_cmp(&norm_below(&a, rank, order[q])).then(q.cmp(&p)));
        let Some(best) = best else { break };
        let norm = norm_below(&a, rank, order[best]);
        if norm.is_nan() || norm <= DEPENDENT * largest {
            break;
        }
        order.swap(rank, best);
        let pivot = order[rank];
        let alpha = -norm.copysign(a[rank][pivot]);
        let mut reflector: Vec<f64> = (rank..m).map(|i| a[i][pivot]).collect();
        reflector[0] -= alpha;
        let square: f64 = reflector.iter().map(|value| value * value).sum();
        if square > 0.0 {
            for &column in &order[rank..] {
                let dot: f64 = reflector.iter().zip(rank..m).map(|(value, i)| value * a[i][column]).sum();
                for (value, i) in reflector.iter().zip(rank..m) {
                    a[i][column] -= 2.0 * dot / square * value;
                }
            }
            let dot: f64 = reflector.iter().zip(rank..m).map(|(value, i)| value * b[i]).sum();
            for (value, i) in reflector.iter().zip(rank..m) {
                b[i] -= 2.0 * dot / square * value;
            }
        }
        rank += 1;
    }
    let mut solution = vec![0.0; n];
    for k in (0..rank).rev() {
        let sum: f64 = (k + 1..rank).map(|l| a[k][order[l]] * solution[order[l]]).sum();
        solution[order[k]] = (b[k] - sum) / a[k][order[k]];
    }
    let residual = b[rank.min(m)..].iter().fold(0.0f64, |size, value| size.max(value.abs()));
    LeastSquares { solution, rank, free_columns: order[rank..].to_vec(), residual }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_through_four_points() {
        let rows: Vec<Vec<f64>> = [0.0, 1.0, 2.0, 3.0].iter().map(|&x| vec![1.0, x]).collect();
        let found = least_squares(&rows, &[1.0, 3.1, 4.9, 7.0], 2);
        assert_eq!(found.rank, 2);
        // Normal equations by hand: slope 1.98, intercept 1.03.
        assert!((found.solution[0] - 1.03).abs() < 1e-12 && (found.solution[1] - 1.98).abs() < 1e-12);
    }

    #[test]
    fn a_column_that_depends_on_others_is_free() {
        let rows = vec![vec![1.0, 2.0, 1.0], vec![0.0, 1.0, 1.0], vec![2.0, 5.0, 3.0]];
        let found = least_squares(&rows, &[3.0, 1.0, 7.0], 3);
        assert_eq!((found.rank, found.free_columns.len()), (2, 1));
        assert!(found.residual < 1e-12);
    }
}
