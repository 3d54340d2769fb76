//! The numeric verification of what structure says, at one consistent point.
//!
//! Structure decides by where entries are, not by their values. Two things can go wrong: the system Jacobian of the highest derivatives
//! may be singular although its pattern is not (equations cancel, a loop has no unique solution), and the structural index may be
//! larger than the index (entries cancel that structure cannot see, [@reissig2000]). The first is seen in the singular values of the
//! Jacobian's diagonal blocks, the second, for models with constant coefficients, in the Kronecker structure of the pencil.

use daesy_graph::finding::Finding;
use daesy_graph::flat::VariableKind;
use daesy_graph::regular::RegularDae;
use daesy_graph::{CoefficientKind, Differentiator, Environment, Evaluator, ExprId, Leaf, Reach, VarId};
use daesy_pencil::{KroneckerStructure, Pencil, PencilOptions, kronecker_structure};
use faer::Mat;

use crate::words::{enumerate, equation_text};

/// A rank with the gap that supports it.
#[derive(Clone, PartialEq, Debug)]
pub struct RankRow {
    /// What the rank is of.
    pub what: String,
    /// The rank.
    pub rank: usize,
    /// Smallest value that counts over largest that does not; large is good.
    pub gap: f64,
}

/// The verdict at a point.
#[derive(Clone, PartialEq, Debug)]
pub struct Verification {
    /// Number of differentiations that make an ordinary differential equation of the model.
    pub differentiation_index: u32,
    /// Number of differentiations that bring all constraints to light.
    pub strangeness_index: u32,
    /// Differential equations: free start values.
    pub d: usize,
    /// Algebraic equations, hidden ones included.
    pub a: usize,
    /// Redundant equations.
    pub v: usize,
    /// Whether numbers confirm what structure says.
    pub agrees_with_structure: bool,
    /// Whether the equations are linear with constant coefficients, so that the index is exact.
    pub is_linear: bool,
    /// Ranks and gaps.
    pub rank_decisions: Vec<RankRow>,
    /// What is to be told to the user.
    pub findings: Vec<Finding>,
}

/// Blocks up to this size are decided by singular values, larger ones by the estimated norm of the inverse.
const DENSE_BLOCK: usize = 200;

/// Linear models up to this size are decided by their pencil.
const DENSE_PENCIL: usize = 240;

/// Singular values below this fraction of the largest count as zero, after scaling rows and columns.
const RANK_TOLERANCE: f64 = 1e-11;

/// Verifies the structural verdict where `point` gives the values of all leaves.
pub fn verify(regular: &RegularDae, point: &dyn Environment) -> Verification {
    let mut findings = Vec::new();
    let mut rank_decisions = Vec::new();
    let blocks_are_regular = verify_blocks(regular, point, &mut rank_decisions, &mut findings);
    let n_unknowns = regular.flat.variables.iter().filter(|variable| variable.kind == VariableKind::Continuous).count();
    let structural = &regular.verdict;
    if n_unknowns <= DENSE_PENCIL
        && let Some(kronecker) = constant_pencil(regular, point)
    {
        let d = kronecker.n_finite;
        let v = kronecker.left_minimal_indices.len();
        let index = kronecker.index as u32;
        let agrees = kronecker.is_regular
            && index == structural.structural_index
            && d == structural.degrees_of_freedom
            && blocks_are_regular;
        rank_decisions.extend(kronecker.rank_decisions.iter().map(|decision| RankRow {
            what: decision.question.to_string(),
            rank: decision.rank,
            gap: decision.gap,
        }));
        if !kronecker.is_regular {
            findings.push(singular_pencil(regular, &kronecker));
        } else if index != structural.structural_index {
            findings.push(Finding::note(
                "index-by-values",
                daesy_graph::Span::NONE,
                format!(
                    "structure alone suggests index {}, but with the values of the coefficients the index is {index}: \
                     derivatives cancel that structure cannot see",
                    structural.structural_index
                ),
            ));
        }
        return Verification {
            differentiation_index: index,
            strangeness_index: index.saturating_sub(1),
            d,
            a: n_unknowns.saturating_sub(d),
            v,
            agrees_with_structure: agrees,
            is_linear: true,
            rank_decisions,
            findings,
        };
    }
    Verification {
        differentiation_index: structural.structural_index,
        strangeness_index: structural.structural_index.saturating_sub(1),
        d: structural.degrees_of_freedom,
        a: n_unknowns.saturating_sub(structural.degrees_of_freedom),
        v: 0,
        agrees_with_structure: blocks_are_regular,
        is_linear: false,
        rank_decisions,
        findings,
    }
}

/// Decides the rank of every block of the system Jacobian; true if all are regular.
fn verify_blocks(
    regular: &RegularDae,
    point: &dyn Environment,
    rank_decisions: &mut Vec<RankRow>,
    findings: &mut Vec<Finding>,
) -> bool {
    let mut graph = regular.flat.graph.clone();
    let leaves: Vec<Leaf> = regular.unknowns.iter().map(|unknown| Leaf::der(unknown.var, unknown.order)).collect();
    let mut differentiator = Differentiator::new(&mut graph, &leaves);
    let mut evaluator = Evaluator::new();
    let mut values = Vec::new();
    let mut all_regular = true;
    let mut n_scalar = 0;
    for block in &regular.blocks {
        let (start, len) = (block.start as usize, block.len as usize);
        let mut matrix = Mat::<f64>::zeros(len, len);
        let mut is_finite = true;
        for row in 0..len {
            let entries = differentiator.gradient(&mut graph, regular.equations[start + row].residual);
            let inside: Vec<_> =
                entries.iter().filter(|entry| (start..start + len).contains(&(entry.column as usize))).collect();
            let roots: Vec<ExprId> = inside.iter().map(|entry| entry.value).collect();
            evaluator.evaluate(&graph, &roots, point, &mut values);
            for (entry, &value) in inside.iter().zip(&values) {
                is_finite &= value.is_finite();
                matrix[(row, entry.column as usize - start)] = value;
            }
        }
        let decision = if is_finite { block_rank(matrix) } else { BlockRank { rank: 0, gap: 0.0 } };
        if len == 1 && decision.rank == 1 {
            n_scalar += 1;
            continue;
        }
        let names: Vec<String> = regular.unknowns[start..start + len]
            .iter()
            .map(|unknown| {
                let name = &regular.flat.variables[unknown.var.index()].name;
                (0..unknown.order).fold(name.clone(), |name, _| format!("der({name})"))
            })
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        rank_decisions.push(RankRow {
            what: format!("equations for {}", enumerate(&names, 6)),
            rank: decision.rank,
            gap: decision.gap,
        });
        if decision.rank < len {
            all_regular = false;
            findings.push(singular_block(regular, start, len, &names, is_finite));
        }
    }
    if n_scalar > 0 {
        rank_decisions.insert(
            0,
            RankRow { what: format!("{n_scalar} unknowns with an equation of their own"), rank: n_scalar, gap: 1e16 },
        );
    }
    all_regular
}

fn singular_block(regular: &RegularDae, start: usize, len: usize, names: &[&str], is_finite: bool) -> Finding {
    let first = &regular.equations[start];
    let span = regular.flat.equations[first.source as usize].span;
    let message = if !is_finite {
        format!("the equations for {} have no finite derivatives at the start", enumerate(names, 6))
    } else if len == 1 {
        format!("at the start this equation does not determine {}", enumerate(names, 6))
    } else {
        format!(
            "at the start these {len} equations do not determine {}: they depend on each other",
            enumerate(names, 6)
        )
    };
    let mut finding = Finding::warning("numerically-singular", span, message).with_names(names.iter().copied());
    for equation in regular.equations[start..start + len].iter().take(8) {
        let at = equation.source as usize;
        let times = match equation.differentiated {
            0 => String::new(),
            1 => ", differentiated once".to_owned(),
            n => format!(", differentiated {n} times"),
        };
        finding =
            finding.with_label(regular.flat.equations[at].span, format!("{}{times}", equation_text(&regular.flat, at)));
    }
    finding.with_help(
        "structure sees as many equations as unknowns, but their values make some of them equal: look for a missing ground or \
         reference, an equation written twice in other words, or start values at a singular position",
    )
}

fn singular_pencil(regular: &RegularDae, kronecker: &KroneckerStructure) -> Finding {
    let continuous = continuous_equations(regular);
    let unknowns = continuous_unknowns(regular);
    let names: Vec<&str> = kronecker
        .undetermined_variables
        .iter()
        .map(|&at| regular.flat.variables[unknowns[at].index()].name.as_str())
        .collect();
    let span = kronecker
        .equations_involved
        .first()
        .map_or(daesy_graph::Span::NONE, |&at| regular.flat.equations[continuous[at]].span);
    let mut finding = Finding::error(
        "singular-model",
        span,
        format!("the equations depend on each other and leave {} undetermined", enumerate(&names, 8)),
    )
    .with_names(names.iter().copied());
    for &at in kronecker.equations_involved.iter().take(8) {
        let equation = continuous[at];
        finding = finding.with_label(regular.flat.equations[equation].span, equation_text(&regular.flat, equation));
    }
    finding.with_help(
        "one of these equations follows from the others; replace it by one that says something new, such as a ground",
    )
}

struct BlockRank {
    rank: usize,
    gap: f64,
}

/// The rank of a square matrix after scaling rows and columns to largest entry one.
fn block_rank(mut matrix: Mat<f64>) -> BlockRank {
    let n = matrix.nrows();
    for _ in 0..3 {
        for row in 0..n {
            let size = (0..n).fold(0.0f64, |size, column| size.max(matrix[(row, column)].abs()));
            if size > 0.0 {
                (0..n).for_each(|column| matrix[(row, column)] /= size);
            }
        }
        for column in 0..n {
            let size = (0..n).fold(0.0f64, |size, row| size.max(matrix[(row, column)].abs()));
            if size > 0.0 {
                (0..n).for_each(|row| matrix[(row, column)] /= size);
            }
        }
    }
    if n > DENSE_BLOCK {
        return large_block_rank(&matrix);
    }
    let Ok(singular_values) = matrix.singular_values() else { return BlockRank { rank: 0, gap: 1.0 } };
    let largest = singular_values.first().copied().unwrap_or(0.0);
    let threshold = RANK_TOLERANCE * largest;
    let rank = singular_values.iter().filter(|&&value| value > threshold && value > 0.0).count();
    let kept = if rank == 0 { 0.0 } else { singular_values[rank - 1] };
    let dropped = singular_values.get(rank).copied().unwrap_or(0.0).max(f64::EPSILON * largest);
    BlockRank { rank, gap: if dropped > 0.0 { kept / dropped } else { 0.0 } }
}

/// A large block counts as regular if the estimated norm of its inverse is far from overflow of precision.
fn large_block_rank(matrix: &Mat<f64>) -> BlockRank {
    use faer::linalg::solvers::Solve;
    let n = matrix.nrows();
    let lu = matrix.partial_piv_lu();
    let mut x = Mat::<f64>::from_fn(n, 1, |row, _| if row % 2 == 0 { 1.0 } else { -1.0 });
    let mut inverse_norm = 0.0f64;
    for _ in 0..4 {
        let y = lu.solve(&x);
        let size = y.norm_max();
        if !size.is_finite() {
            return BlockRank { rank: n - 1, gap: 1.0 };
        }
        inverse_norm = inverse_norm.max(size / x.norm_max());
        let z = lu.solve_transpose(&y);
        let scale = z.norm_max();
        if !scale.is_finite() || scale == 0.0 {
            return BlockRank { rank: n - 1, gap: 1.0 };
        }
        x = Mat::from_fn(n, 1, |row, _| z[(row, 0)] / scale);
    }
    let smallest = 1.0 / inverse_norm;
    if smallest > RANK_TOLERANCE {
        BlockRank { rank: n, gap: smallest / f64::EPSILON }
    } else {
        BlockRank { rank: n - 1, gap: 1.0 }
    }
}

fn continuous_unknowns(regular: &RegularDae) -> Vec<VarId> {
    (0..regular.flat.variables.len() as u32)
        .map(VarId)
        .filter(|var| regular.flat.variables[var.index()].kind == VariableKind::Continuous)
        .collect()
}

/// Equations that are not of discrete variables.
fn continuous_equations(regular: &RegularDae) -> Vec<usize> {
    let mut is_discrete = vec![false; regular.flat.equations.len()];
    for equation in &regular.discrete_equations {
        is_discrete[equation.source as usize] = true;
    }
    (0..regular.flat.equations.len()).filter(|&at| !is_discrete[at]).collect()
}

/// The Kronecker structure of a model with constant coefficients; nothing for other models.
fn constant_pencil(regular: &RegularDae, point: &dyn Environment) -> Option<KroneckerStructure> {
    let mut graph = regular.flat.graph.clone();
    let unknowns = continuous_unknowns(regular);
    let equations = continuous_equations(regular);
    let n = unknowns.len();
    let leaves: Vec<Leaf> =
        unknowns.iter().map(|&var| Leaf::var(var)).chain(unknowns.iter().map(|&var| Leaf::der(var, 1))).collect();
    let mut differentiator = Differentiator::new(&mut graph, &leaves);
    let mut reach = Reach::new();
    let mut evaluator = Evaluator::new();
    let variables = &regular.flat.variables;
    let (mut e, mut f) = (Mat::<f64>::zeros(equations.len(), n), Mat::<f64>::zeros(equations.len(), n));
    for (row, &at) in equations.iter().enumerate() {
        let equation = &regular.flat.equations[at];
        let residual = graph.sub(equation.lhs, equation.rhs);
        for entry in differentiator.gradient(&mut graph, residual) {
            let kind = reach.coefficient_kind(&graph, entry.value, &|var| variables[var.index()].kind);
            if kind > CoefficientKind::Parameter {
                return None;
            }
            let value = evaluator.evaluate_one(&graph, entry.value, point);
            let column = entry.column as usize;
            if column < n {
                f[(row, column)] = -value;
            } else {
                e[(row, column - n)] = value;
            }
        }
    }
    let pencil = Pencil::new(e, f).ok()?;
    kronecker_structure(&pencil, &PencilOptions::default()).ok()
}
