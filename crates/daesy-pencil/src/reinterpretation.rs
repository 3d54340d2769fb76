//! From a strangeness-free form to a regular system: choice of states and inputs, removal of feed-through, feedback.
#![allow(non_snake_case)]

use crate::dense::{
    Vectors, above, beside, block, check_finite, check_shape, norm, pick_columns, set_block, svd, times,
};
use crate::error::PencilError;
use crate::rank::{RankDecision, RankQuestion, RankTolerance, decide};
use crate::strangeness::StrangenessFree;
use faer::Mat;

/// What the caller wants to be states and inputs. Positions count the variables from 0 and then the inputs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wishes {
    /// Must become or stay inputs.
    pub inputs: Vec<usize>,
    /// Must become or stay states.
    pub states: Vec<usize>,
}

/// `y = C x + D u + g`.
#[derive(Debug, Clone)]
pub struct OutputEquation {
    /// `C`, `outputs x states`.
    pub c: Mat<f64>,
    /// `D`, `outputs x inputs`.
    pub d: Mat<f64>,
    /// `g`.
    pub g: Vec<f64>,
}

/// A strangeness-free system with states and inputs chosen so that it is regular and strangeness-free as a free system:
/// `E_1 x' + E_13 u' = A_1 x + B_1 u + f_1`, `0 = A_2 x + B_2 u + f_2`, square in `x`. [@campbell2011, eq. (26), (27)]
#[derive(Debug, Clone)]
pub struct Reinterpretation {
    /// Positions chosen as states, ascending: `d + a` of them.
    pub states: Vec<usize>,
    /// Positions chosen as inputs, ascending.
    pub inputs: Vec<usize>,
    /// Variables that became inputs.
    pub moved_to_inputs: Vec<usize>,
    /// Inputs that became states.
    pub moved_to_states: Vec<usize>,
    /// States (positions) that may carry the dynamics: `d` of them.
    pub differential_states: Vec<usize>,
    /// States (positions) that the constraints determine: `a` of them.
    pub algebraic_states: Vec<usize>,
    /// `E_1` in the chosen states.
    pub e1: Mat<f64>,
    /// `A_1` in the chosen states.
    pub a1: Mat<f64>,
    /// `B_1` in the chosen inputs.
    pub b1: Mat<f64>,
    /// `f_1`.
    pub f1: Vec<f64>,
    /// `A_2` in the chosen states.
    pub a2: Mat<f64>,
    /// `B_2` in the chosen inputs.
    pub b2: Mat<f64>,
    /// `f_2`.
    pub f2: Vec<f64>,
    /// `E_13`: coefficients of derivatives of the chosen inputs.
    pub input_derivatives: Mat<f64>,
    /// Whether derivatives of inputs appear.
    pub needs_input_derivatives: bool,
    /// The output equation in the chosen states and inputs.
    pub output: Option<OutputEquation>,
    /// Singular values of the chosen state columns decide their independence.
    pub rank_decision: RankDecision,
}

/// Chooses `d + a` of all variables and inputs as states.
///
/// The choice is a basis of the columns of `[E_1 0; A_2 B_2]` that respects, in this order: the wishes; no derivatives
/// of inputs (columns of `E_1` go to the states); the caller's own roles. Among equals the better conditioned column
/// wins.
pub fn reinterpret(
    form: &StrangenessFree,
    output: Option<&OutputEquation>,
    wishes: &Wishes,
    tolerance: &RankTolerance,
) -> Result<Reinterpretation, PencilError> {
    let (n, m) = (form.n_variables(), form.n_inputs());
    let total = n + m;
    for &p in wishes.inputs.iter().chain(&wishes.states) {
        if p >= total || (wishes.inputs.contains(&p) && wishes.states.contains(&p)) {
            return Err(PencilError::BadOption {
                option: "wishes",
                value: p as f64,
                expected: "positions of variables and inputs, each with one wish",
            });
        }
    }
    if let Some(o) = output {
        check_shape("C", &o.c, o.c.nrows(), n, "C has one column per variable")?;
        check_shape("D", &o.d, o.c.nrows(), m, "D has one row per output and one column per input")?;
        crate::dense::check_vector("g", &o.g, o.c.nrows(), "one value per output")?;
    }
    let E = beside(&form.e1, &Mat::zeros(form.d, m));
    let A1 = beside(&form.a1, &form.b1);
    let A2 = beside(&form.a2, &form.b2);
    let unit = |p: usize| form.units.get(p).copied().unwrap_or(1.0);
    let K = normalized(&above(&E, &A2), &unit);
    let has_derivative = |p: usize| column_size(&K, p, 0, form.d) > 1e-10;
    let class = |p: usize| -> usize {
        if wishes.states.contains(&p) {
            0
        } else if has_derivative(p) {
            1
        } else if p < n {
            2
        } else {
            3
        }
    };
    let needed = form.d + form.a;
    let mut basis = ColumnBasis::new(&K);
    for priority in 0..4 {
        let members: Vec<usize> = (0..total).filter(|&p| class(p) == priority && !wishes.inputs.contains(&p)).collect();
        basis.extend(&members, needed);
    }
    if basis.chosen.len() < needed {
        return Err(PencilError::WishesImpossible { missing: needed - basis.chosen.len() });
    }
    if let Some(p) = wishes.states.iter().find(|p| !basis.chosen.contains(p)) {
        return Err(PencilError::BadOption {
            option: "wishes.states",
            value: *p as f64,
            expected: "states that are independent of the other wished states",
        });
    }
    let mut states = basis.chosen;
    states.sort_unstable();
    let inputs: Vec<usize> = (0..total).filter(|p| !states.contains(p)).collect();
    let square = pick_columns(&K, &states);
    let s = svd(square.as_ref(), Vectors::None)?.s;
    let question = RankQuestion::StateChoice;
    let rank_decision = decide(&s, needed, needed, norm(square.as_ref()), tolerance, question);
    if rank_decision.rank < needed {
        return Err(PencilError::WishesImpossible { missing: needed - rank_decision.rank });
    }

    // Algebraic states: independent in A_2, those without derivatives first.
    let A2_scaled = normalized(&A2, &unit);
    let mut algebraic = ColumnBasis::new(&A2_scaled);
    let (plain, moving): (Vec<usize>, Vec<usize>) = states.iter().partition(|&&p| !has_derivative(p));
    algebraic.extend(&plain, form.a);
    algebraic.extend(&moving, form.a);
    let mut algebraic_states = algebraic.chosen;
    algebraic_states.sort_unstable();
    let differential_states = states.iter().copied().filter(|p| !algebraic_states.contains(p)).collect();
    let input_derivatives = pick_columns(&E, &inputs);
    let output = output.map(|o| {
        let all = beside(&o.c, &o.d);
        OutputEquation { c: pick_columns(&all, &states), d: pick_columns(&all, &inputs), g: o.g.clone() }
    });
    Ok(Reinterpretation {
        moved_to_inputs: inputs.iter().copied().filter(|p| *p < n).collect(),
        moved_to_states: states.iter().copied().filter(|p| *p >= n).collect(),
        differential_states,
        algebraic_states,
        e1: pick_columns(&E, &states),
        a1: pick_columns(&A1, &states),
        b1: pick_columns(&A1, &inputs),
        f1: form.f1.clone(),
        a2: pick_columns(&A2, &states),
        b2: pick_columns(&A2, &inputs),
        f2: form.f2.clone(),
        needs_input_derivatives: inputs.iter().any(|&p| has_derivative(p)),
        input_derivatives,
        output,
        rank_decision,
        states,
        inputs,
    })
}

/// Columns in their units, rows of unit length.
fn normalized(a: &Mat<f64>, unit: &dyn Fn(usize) -> f64) -> Mat<f64> {
    let mut x = Mat::from_fn(a.nrows(), a.ncols(), |i, j| a[(i, j)] * unit(j));
    for i in 0..x.nrows() {
        let length = (0..x.ncols()).map(|j| x[(i, j)].powi(2)).sum::<f64>().sqrt();
        if length > 0.0 {
            for j in 0..x.ncols() {
                x[(i, j)] /= length;
            }
        }
    }
    x
}

fn column_size(a: &Mat<f64>, j: usize, r0: usize, r1: usize) -> f64 {
    (r0..r1).map(|i| a[(i, j)].powi(2)).sum::<f64>().sqrt()
}

/// Greedy selection of independent columns by Gram-Schmidt with pivoting; earlier candidates have priority over later
/// ones.
struct ColumnBasis {
    rest: Mat<f64>,
    original: Vec<f64>,
    /// The size of the largest column.
    whole: f64,
    chosen: Vec<usize>,
}

impl ColumnBasis {
    /// Columns whose independent part is smaller than this fraction of themselves count as dependent.
    const INDEPENDENT: f64 = 1e-8;
    /// Columns smaller than this fraction of the largest are rounding errors, which are independent of everything.
    const NOTHING: f64 = 1e-11;

    fn new(a: &Mat<f64>) -> Self {
        let original: Vec<f64> = (0..a.ncols()).map(|j| column_size(a, j, 0, a.nrows())).collect();
        let whole = original.iter().fold(0.0f64, |largest, &size| largest.max(size));
        Self { rest: a.clone(), original, whole, chosen: Vec::new() }
    }

    fn extend(&mut self, candidates: &[usize], limit: usize) {
        let rows = self.rest.nrows();
        while self.chosen.len() < limit {
            let size = |j: usize| column_size(&self.rest, j, 0, rows);
            let best = candidates
                .iter()
                .copied()
                .filter(|j| !self.chosen.contains(j))
                .max_by(|&a, &b| size(a).total_cmp(&size(b)));
            let bar = |j: usize| (Self::INDEPENDENT * self.original[j]).max(Self::NOTHING * self.whole).max(1e-300);
            let Some(pivot) = best.filter(|&j| size(j) > bar(j)) else { return };
            let length = size(pivot);
            let direction: Vec<f64> = (0..rows).map(|i| self.rest[(i, pivot)] / length).collect();
            for j in 0..self.rest.ncols() {
                let dot: f64 = direction.iter().enumerate().map(|(i, d)| d * self.rest[(i, j)]).sum();
                for (i, d) in direction.iter().enumerate() {
                    self.rest[(i, j)] -= dot * d;
                }
            }
            self.chosen.push(pivot);
        }
    }
}

/// A system without feed-through: `E x' = A x + B u + f`, `y = C x + g`, where `x` holds the old states and `n_added`
/// combinations of outputs.   [@campbell2011, eq. (28)]
#[derive(Debug, Clone)]
pub struct FeedthroughFree {
    /// Number of output combinations that became states: the rank of `D`.
    pub n_added: usize,
    /// The added states are `added_outputs y`, `n_added x outputs`, with orthonormal rows.
    pub added_outputs: Mat<f64>,
    /// `E`.
    pub e: Mat<f64>,
    /// `A`.
    pub a: Mat<f64>,
    /// `B`.
    pub b: Mat<f64>,
    /// `f`.
    pub f: Vec<f64>,
    /// `C`, for all outputs.
    pub c: Mat<f64>,
    /// `g`.
    pub g: Vec<f64>,
    /// How the rank of `D` was decided.
    pub rank_decision: RankDecision,
}

/// Removes the feed-through of `E x' = A x + B u + f`, `y = C x + D u + g` by making outputs states.
///
/// With `P^T D = [D_1; 0]`, `D_1` of full row rank, the combinations `y_1 = P_1^T y` are added as states with the
/// equation `0 = P_1^T C x - y_1 + D_1 u + g_1`; then `y = P_1 y_1 + P_2 P_2^T (C x + g)`. All inputs and all outputs
/// stay: the printed (28) drops those that belong to `D_1`.
pub fn remove_feedthrough(
    e: &Mat<f64>,
    a: &Mat<f64>,
    b: &Mat<f64>,
    f: &[f64],
    output: &OutputEquation,
    tolerance: &RankTolerance,
) -> Result<FeedthroughFree, PencilError> {
    let (l, n, m, p) = (e.nrows(), e.ncols(), b.ncols(), output.c.nrows());
    check_shape("A", a, l, n, "E and A multiply the same states")?;
    check_shape("B", b, l, m, "B has one row per equation")?;
    check_shape("C", &output.c, p, n, "C has one column per state")?;
    check_shape("D", &output.d, p, m, "D has one row per output and one column per input")?;
    for (name, x) in [("E", e), ("A", a), ("B", b), ("C", &output.c), ("D", &output.d)] {
        check_finite(name, x)?;
    }
    crate::dense::check_vector("f", f, l, "one value per equation")?;
    crate::dense::check_vector("g", &output.g, p, "one value per output")?;
    let dec = svd(output.d.as_ref(), Vectors::Left)?;
    let rank_decision = decide(&dec.s, p, m, norm(output.d.as_ref()), tolerance, RankQuestion::FeedThrough);
    let k = rank_decision.rank;
    let P1 = block(&dec.u, 0, p, 0, k);
    let P2 = block(&dec.u, 0, p, k, p);
    let P1t = P1.transpose().to_owned();
    let mut e_new = Mat::zeros(l + k, n + k);
    set_block(&mut e_new, 0, 0, e);
    let mut a_new = Mat::zeros(l + k, n + k);
    set_block(&mut a_new, 0, 0, a);
    set_block(&mut a_new, l, 0, &(&P1t * &output.c));
    for i in 0..k {
        a_new[(l + i, n + i)] = -1.0;
    }
    let b_new = above(b, &(&P1t * &output.d));
    let mut f_new = f.to_vec();
    f_new.extend(times(&P1t, &output.g));
    let project = &P2 * P2.transpose();
    let c_new = beside(&(&project * &output.c), &P1);
    Ok(FeedthroughFree {
        n_added: k,
        added_outputs: P1t,
        e: e_new,
        a: a_new,
        b: b_new,
        f: f_new,
        c: c_new,
        g: times(&project, &output.g),
        rank_decision,
    })
}

/// A feedback `u = K x + w` that makes the closed loop regular and strangeness-free.
#[derive(Debug, Clone)]
pub struct Feedback {
    /// `K`, `inputs x variables`; zero if the system needs no feedback.
    pub k: Mat<f64>,
    /// `A_1 + B_1 K`.
    pub a1: Mat<f64>,
    /// `A_2 + B_2 K`.
    pub a2: Mat<f64>,
    /// How many constraints needed help.
    pub n_repaired: usize,
    /// Rank of `A_2` on the kernel of `E_1`, and the check of the closed loop.
    pub rank_decisions: Vec<RankDecision>,
}

/// Finds a regularizing feedback for a strangeness-free form with `d + a = n`.
///
/// With `T` a basis of the kernel of `E_1` and `A_2 T = U diag(S, 0) V^T`, `U_2^T B_2` has full row rank, and
/// `K = |A_2 T| (U_2^T B_2)^+ V_2^T T^T` gives `U^T (A_2 + B_2 K) T V = [S *; 0 |A_2 T| I]`. [@campbell2011, eq. (29)]
pub fn regularizing_feedback(form: &StrangenessFree, tolerance: &RankTolerance) -> Result<Feedback, PencilError> {
    let (n, m) = (form.n_variables(), form.n_inputs());
    if form.d + form.a != n {
        return Err(PencilError::NotRegularizable {
            reason: "d + a differs from the number of variables; choose states and inputs anew first",
        });
    }
    if !form.b2_derivatives.is_empty() {
        return Err(PencilError::NotRegularizable {
            reason: "the constraints hold derivatives of inputs; analyse the inputs as variables",
        });
    }
    // Balanced units for states and inputs and rows of unit length, so that rank decisions and the size of K make
    // sense.
    let unit = |p: usize| form.units.get(p).copied().unwrap_or(1.0);
    let E1 = normalized(&form.e1, &unit);
    let both = normalized(&beside(&form.a2, &form.b2), &unit);
    let (A2, B2) = (block(&both, 0, form.a, 0, n), block(&both, 0, form.a, n, n + m));
    let T = {
        let dec = svd(E1.as_ref(), Vectors::Right)?;
        block(&dec.v, 0, n, form.d, n)
    };
    let on_kernel = &A2 * &T;
    let dec = svd(on_kernel.as_ref(), Vectors::Both)?;
    let reference = norm(both.as_ref()).max(f64::MIN_POSITIVE);
    // Weakly determined constraints are repaired too: a feedback is there to give a well conditioned loop.
    let careful = RankTolerance { relative: tolerance.relative.max(1e-8), ..*tolerance };
    let decision = decide(&dec.s, form.a, form.a, reference, &careful, RankQuestion::Feedback);
    let r = decision.rank;
    let missing = form.a - r;
    let mut rank_decisions = vec![decision];
    let mut K = Mat::zeros(m, n);
    if missing > 0 {
        let U2 = block(&dec.u, 0, form.a, r, form.a);
        let V2 = block(&dec.v, 0, form.a, r, form.a);
        let reach = U2.transpose() * &B2;
        let inner = svd(reach.as_ref(), Vectors::Both)?;
        let question = RankQuestion::Feedback;
        let decision = decide(&inner.s, missing, m, reference, &careful, question);
        rank_decisions.push(decision);
        if decision.rank < missing {
            return Err(PencilError::NotRegularizable {
                reason: "the inputs do not reach the constraints that leave variables undetermined",
            });
        }
        let gain =
            if norm(on_kernel.as_ref()) > 0.0 { dec.s[0].max(inner.s[missing - 1]) } else { inner.s[missing - 1] };
        // Pseudoinverse of a matrix of full row rank.
        let inverse = Mat::from_fn(missing, missing, |i, j| inner.u[(j, i)] / inner.s[i]);
        let pseudo = &block(&inner.v, 0, m, 0, missing) * &inverse;
        K = (&pseudo * V2.transpose() * T.transpose()) * faer::Scale(gain);
    }
    // Back from balanced units: u = D_u u_b, x = D_x x_b.
    let K = Mat::from_fn(m, n, |i, j| K[(i, j)] * unit(n + i) / unit(j));
    let a1 = &form.a1 + &form.b1 * &K;
    let a2 = &form.a2 + &form.b2 * &K;
    let loop_matrix = above(&E1, &normalized(&a2, &unit));
    let s = svd(loop_matrix.as_ref(), Vectors::None)?.s;
    let check = decide(&s, n, n, norm(loop_matrix.as_ref()), tolerance, RankQuestion::Feedback);
    rank_decisions.push(check);
    if check.rank < n {
        return Err(PencilError::NotRegularizable { reason: "the closed loop is singular" });
    }
    Ok(Feedback { k: K, a1, a2, n_repaired: missing, rank_decisions })
}
