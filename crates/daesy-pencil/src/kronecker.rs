//! Kronecker structure of a pencil of any shape: what is redundant, what is free, what is finite, what is infinite.

use crate::balance::balanced;
use crate::dense::{Vectors, block, generalized_eigenvalues, norm, svd};
use crate::error::PencilError;
use crate::pencil::Pencil;
use crate::rank::{RankDecision, RankQuestion, RankTolerance, decide};
use crate::split::{Eigenvalue, PencilOptions};
use crate::staircase::{Staircase, infinite_blocks, minimal_indices, reduce};
use faer::Mat;

/// The structure of `s E - F` under strict equivalence, with the answer in terms of the caller's equations and
/// variables.
#[derive(Debug, Clone, PartialEq)]
pub struct KroneckerStructure {
    /// Number of equations.
    pub n_equations: usize,
    /// Number of variables.
    pub n_variables: usize,
    /// Rank of `s E - F` for almost every `s`.
    pub normal_rank: usize,
    /// Whether the pencil is square with a determinant that is not identically zero.
    pub is_regular: bool,
    /// Number of finite eigenvalues: the degrees of freedom of a regular pencil.
    pub n_finite: usize,
    /// Finite eigenvalues; those of the regular part if the pencil is singular.
    pub finite_eigenvalues: Vec<Eigenvalue>,
    /// Sizes of the Jordan blocks at infinity, ascending.
    pub infinite_block_sizes: Vec<usize>,
    /// Size of the largest infinite block: the index (0 if there is none).
    pub index: usize,
    /// One entry per redundant equation: how often the others must be differentiated to see the redundancy. Ascending.
    pub left_minimal_indices: Vec<usize>,
    /// One entry per free variable: how often its derivatives enter the others. Ascending.
    pub right_minimal_indices: Vec<usize>,
    /// Equations (from 0) that may be left out: as many as are redundant, the best conditioned choice.
    pub redundant_equations: Vec<usize>,
    /// Equations (from 0) that take part in any redundancy.
    pub equations_involved: Vec<usize>,
    /// Variables (from 0) that may be prescribed freely: as many as are free, the best conditioned choice.
    pub free_variables: Vec<usize>,
    /// Variables (from 0) that the equations do not determine.
    pub undetermined_variables: Vec<usize>,
    /// All rank decisions with their gaps.
    pub rank_decisions: Vec<RankDecision>,
}

impl KroneckerStructure {
    /// Whether any rank decision has a doubtful gap.
    pub fn is_doubtful(&self) -> bool {
        self.rank_decisions.iter().any(|d| d.is_doubtful)
    }
}

/// Finds the Kronecker structure of any pencil, singular and rectangular ones included.
pub fn kronecker_structure(pencil: &Pencil, options: &PencilOptions) -> Result<KroneckerStructure, PencilError> {
    let b = if options.balance { balanced(pencil) } else { identity_balanced(pencil) };
    let staircase = reduce(&b.e, &b.f, &options.tolerance)?;
    from_staircase(&b.e, &b.f, &staircase, b.balancing.time, &options.tolerance)
}

/// The pencil as it stands, for callers that do not want balancing.
pub(crate) fn identity_balanced(pencil: &Pencil) -> crate::balance::Balanced {
    crate::balance::Balancing::identity(pencil.n_equations(), pencil.n_variables()).scale(pencil)
}

/// Reads the structure off a staircase of the balanced pencil `(e, f)`.
pub(crate) fn from_staircase(
    e: &Mat<f64>,
    f: &Mat<f64>,
    staircase: &Staircase,
    time_exponent: i32,
    tolerance: &RankTolerance,
) -> Result<KroneckerStructure, PencilError> {
    let (m, n) = e.shape();
    let left = minimal_indices(&staircase.row_rounds);
    let right = minimal_indices(&staircase.column_rounds);
    let infinite = infinite_blocks(&staircase.row_rounds);
    let mut rank_decisions = staircase.rank_decisions.clone();
    let (r0, r1) = staircase.finite_rows;
    let (c0, c1) = staircase.finite_cols;
    let e_f = block(&staircase.TE, r0, r1, c0, c1);
    let f_f = block(&staircase.TF, r0, r1, c0, c1);
    let finite_eigenvalues = eigenvalues(&f_f, &e_f, time_exponent)?;
    let is_regular = left.is_empty() && right.is_empty();
    let normal_rank = m - left.len();
    let mut structure = KroneckerStructure {
        n_equations: m,
        n_variables: n,
        normal_rank,
        is_regular,
        n_finite: r1 - r0,
        finite_eigenvalues,
        index: infinite.last().copied().unwrap_or(0),
        infinite_block_sizes: infinite,
        left_minimal_indices: left,
        right_minimal_indices: right,
        redundant_equations: Vec::new(),
        equations_involved: Vec::new(),
        free_variables: Vec::new(),
        undetermined_variables: Vec::new(),
        rank_decisions: Vec::new(),
    };
    if !is_regular {
        let generic = generic_null_spaces(e, f, normal_rank, tolerance)?;
        rank_decisions.push(generic.decision);
        let rows = Participation::of(&generic.left);
        let cols = Participation::of(&generic.right);
        structure.redundant_equations = rows.selection;
        structure.equations_involved = rows.involved;
        structure.free_variables = cols.selection;
        structure.undetermined_variables = cols.involved;
    }
    structure.rank_decisions = rank_decisions;
    Ok(structure)
}

/// Finite eigenvalues of `s e - f` by QZ, in the caller's unit of time.
pub(crate) fn eigenvalues(f: &Mat<f64>, e: &Mat<f64>, time_exponent: i32) -> Result<Vec<Eigenvalue>, PencilError> {
    let t = crate::balance::power_of_two(time_exponent);
    let mut out: Vec<Eigenvalue> = generalized_eigenvalues(f.as_ref(), e.as_ref())?
        .into_iter()
        .map(|[re, im, beta]| Eigenvalue { re: t * re / beta, im: t * im / beta })
        .collect();
    out.sort_by(|a, b| a.re.total_cmp(&b.re).then(a.im.total_cmp(&b.im)));
    Ok(out)
}

struct GenericNullSpaces {
    left: Mat<f64>,
    right: Mat<f64>,
    decision: RankDecision,
}

/// Null spaces of `s E - F` at a generic `s`; the best separated of three points is taken.
fn generic_null_spaces(
    e: &Mat<f64>,
    f: &Mat<f64>,
    normal_rank: usize,
    tolerance: &RankTolerance,
) -> Result<GenericNullSpaces, PencilError> {
    let (m, n) = e.shape();
    let mut best: Option<GenericNullSpaces> = None;
    for s in [0.837_205_7, -1.293_861_4, 1.618_033_9] {
        let a = Mat::from_fn(m, n, |i, j| s * e[(i, j)] - f[(i, j)]);
        let dec = svd(a.as_ref(), Vectors::Both)?;
        let decision = decide(&dec.s, m, n, norm(a.as_ref()), tolerance, RankQuestion::NormalRank);
        let better = best.as_ref().is_none_or(|b| {
            (decision.rank == normal_rank, decision.smallest_kept)
                > (b.decision.rank == normal_rank, b.decision.smallest_kept)
        });
        if better {
            best = Some(GenericNullSpaces {
                left: block(&dec.u, 0, m, normal_rank.min(m), m),
                right: block(&dec.v, 0, n, normal_rank.min(n), n),
                decision,
            });
        }
    }
    // Three points were tried, so one is there.
    best.ok_or(PencilError::NoConvergence { what: "singular value" })
}

struct Participation {
    selection: Vec<usize>,
    involved: Vec<usize>,
}

impl Participation {
    /// Lines whose entry in some null vector is nonzero, and a well conditioned choice of as many lines as there are
    /// vectors.
    fn of(basis: &Mat<f64>) -> Self {
        let (n, k) = basis.shape();
        if k == 0 {
            return Self { selection: Vec::new(), involved: Vec::new() };
        }
        let size = |i: usize| (0..k).map(|j| basis[(i, j)].powi(2)).sum::<f64>().sqrt();
        let involved = (0..n).filter(|&i| size(i) > 1e-8).collect();
        let mut selection = independent_rows(basis, k);
        selection.sort_unstable();
        Self { selection, involved }
    }
}

/// The first `k` pivots of a Gram-Schmidt with pivoting on the rows.
pub(crate) fn independent_rows(a: &Mat<f64>, k: usize) -> Vec<usize> {
    let (n, w) = a.shape();
    let mut rest = a.clone();
    let mut chosen = Vec::new();
    for _ in 0..k {
        let size = |i: usize| (0..w).map(|j| rest[(i, j)].powi(2)).sum::<f64>();
        let Some(pivot) = (0..n).filter(|i| !chosen.contains(i)).max_by(|&a, &b| size(a).total_cmp(&size(b))) else {
            break;
        };
        let length = size(pivot).sqrt();
        if length <= 1e-12 {
            break;
        }
        let direction: Vec<f64> = (0..w).map(|j| rest[(pivot, j)] / length).collect();
        for i in 0..n {
            let dot: f64 = (0..w).map(|j| rest[(i, j)] * direction[j]).sum();
            for j in 0..w {
                rest[(i, j)] -= dot * direction[j];
            }
        }
        chosen.push(pivot);
    }
    chosen
}
