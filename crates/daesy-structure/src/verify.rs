//! The numeric verification of what structure says, at one consistent point.
//!
//! Structure decides by where entries are, not by their values. Two things can go wrong: the system Jacobian of the
//! highest derivatives may be singular although its pattern is not (equations cancel, a loop has no unique solution),
//! and the structural index may be larger than the index (entries cancel that structure cannot see, [@reissig2000]).
//! The first is seen in the singular values of the Jacobian's diagonal blocks, the second in the Kronecker structure
//! of the pencil: for constant coefficients always, for others where the pencil at the point has index 1.

mod blocks;

use std::cmp::{Ordering, Reverse};

use daesy_graph::finding::Finding;
use daesy_graph::flat::VariableKind;
use daesy_graph::regular::{Derivative, RegularDae, SolveBlock, StructuralVerdict};
use daesy_graph::{
    CoefficientKind, Differentiator, Environment, Evaluator, ExprId, Graph, Leaf, Node, Reach, Span, VarId,
};
use daesy_pencil::{KroneckerStructure, Pencil, PencilOptions, kronecker_structure, split_finite_infinite};
use faer::Mat;
use rustc_hash::FxHashMap;

use crate::explain::{self, References};
use crate::linear_verdict::DENSE;
use crate::words::enumerate;
use blocks::{BlockVerdict, verify_blocks};

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
    /// Whether the equations have no unique solution whatever the start; decided for constant coefficients only.
    pub is_singular: bool,
    /// Whether numbers confirm what structure says.
    pub agrees_with_structure: bool,
    /// Whether the equations are linear with constant coefficients, so that the index is exact.
    pub is_linear: bool,
    /// A choice of free start values, where values decide otherwise than structure.
    pub free: Option<Vec<Derivative>>,
    /// Ranks and gaps.
    pub rank_decisions: Vec<RankRow>,
    /// What is to be told to the user.
    pub findings: Vec<Finding>,
}

/// Whether the system Jacobian of the highest derivatives is regular at a point, block by block.
pub fn is_leading_regular(regular: &RegularDae, point: &dyn Environment) -> bool {
    verify_blocks(regular, point).are_regular
}

/// The number of free start values that the regular form promises, and has where its blocks are regular. The verdict of
/// structure may count derivatives that cancelled when variables were eliminated.
#[must_use]
pub const fn promised(regular: &RegularDae) -> usize {
    regular.states.len() - regular.constraints.len()
}

/// Blocks of the system Jacobian that are singular at a point.
#[derive(Clone, PartialEq, Debug)]
pub struct SingularBlocks {
    /// Their positions.
    pub blocks: Vec<usize>,
    /// The same in words.
    pub findings: Vec<Finding>,
}

/// The blocks of the system Jacobian that are singular at a point.
pub fn singular_blocks(regular: &RegularDae, point: &dyn Environment) -> SingularBlocks {
    let BlockVerdict { singular, findings, .. } = verify_blocks(regular, point);
    SingularBlocks { blocks: singular, findings }
}

/// The blocks that may be singular somewhere: all but single equations whose coefficient is a number other than zero.
#[must_use]
pub fn doubtful_blocks(regular: &RegularDae) -> Vec<usize> {
    let mut graph = regular.flat.graph.clone();
    let leaves: Vec<Leaf> = regular.unknowns.iter().map(|unknown| Leaf::der(unknown.var, unknown.order)).collect();
    let mut differentiator = Differentiator::new(&mut graph, &leaves);
    let mut is_sure = |block: &SolveBlock| {
        let gradient = differentiator.gradient(&mut graph, regular.equations[block.start as usize].residual).to_vec();
        let own = gradient.iter().find(|entry| entry.column == block.start);
        own.and_then(|entry| graph.as_number(entry.value)).is_some_and(|value| value != 0.0)
    };
    let all = regular.blocks.iter().enumerate();
    all.filter(|(_, block)| block.len > 1 || !is_sure(block)).map(|(at, _)| at).collect()
}

/// Verifies the structural verdict where `point` gives the values of all leaves.
pub fn verify(regular: &RegularDae, point: &dyn Environment) -> Verification {
    let blocks = verify_blocks(regular, point);
    let structural = &regular.verdict;
    let first_order = FirstOrder::new(regular);
    let n_unknowns = first_order.n_columns;
    let mut verification = Verification {
        differentiation_index: structural.structural_index,
        strangeness_index: structural.structural_index.saturating_sub(1),
        d: structural.degrees_of_freedom,
        a: n_unknowns.saturating_sub(structural.degrees_of_freedom),
        v: 0,
        is_singular: false,
        agrees_with_structure: blocks.are_regular,
        is_linear: false,
        free: None,
        rank_decisions: blocks.rank_decisions,
        findings: blocks.findings,
    };
    if let Some(parts) = first_order.parts(regular, point) {
        verification.judge_by_pencils(regular, &first_order, &parts, &blocks.singular);
    }
    verification
}

impl Verification {
    /// Whether values decide another index or another number of free start values than structure; a finding says so.
    #[must_use]
    pub fn overrules(&self, structural: &StructuralVerdict) -> bool {
        let is_as_claimed =
            self.differentiation_index == structural.structural_index && self.d == structural.degrees_of_freedom;
        !self.is_singular && !is_as_claimed
    }

    /// Where the Kronecker structure can be trusted it is the truth, part by part; elsewhere structure is.
    ///
    /// Away from constant coefficients only index 1 can be read off the pencil at a point: there it says that the
    /// equations without derivatives determine what the derivatives leave open. Where all blocks are regular, the number
    /// of free start values is what structure says [@pryce2001]: another one is a matter of sizes, such as those of
    /// der(x) = -1e12 x, not of ranks.
    fn judge_by_pencils(
        &mut self,
        regular: &RegularDae,
        first_order: &FirstOrder,
        parts: &[LocalPencil],
        singular: &[usize],
    ) {
        let structural = &regular.verdict;
        let claims = first_order.claims(regular, parts, singular);
        let mut whole = PencilVerdict::default();
        let mut work = 0;
        for (part, claim) in parts.iter().zip(&claims) {
            let is_asked = part.is_constant || claim.is_singular || claim.index > 1;
            work += part.columns.len().pow(3);
            let kronecker = (is_asked && part.columns.len() <= DENSE && work <= MAX_WORK)
                .then(|| kronecker_structure(&part.pencil()?, &PencilOptions::default()).ok())
                .flatten();
            let is_trusted = |found: &KroneckerStructure| {
                let is_decided = found.n_finite == claim.promised || claim.is_singular;
                is_decided && (part.is_constant || found.is_regular && found.index <= 1)
            };
            match kronecker.filter(is_trusted) {
                Some(found) => whole.add(part, &found),
                None => whole.add_claim(claim),
            }
        }
        if whole.n_judged == 0 {
            return;
        }
        self.is_linear = whole.n_judged == parts.len() && parts.iter().all(|part| part.is_constant);
        self.is_singular = whole.is_singular;
        self.differentiation_index = whole.index as u32;
        self.strangeness_index = self.differentiation_index.saturating_sub(1);
        self.d = whole.d;
        self.a = first_order.n_columns.saturating_sub(self.d + whole.n_free);
        self.v = whole.v;
        self.agrees_with_structure &= !whole.is_singular
            && self.differentiation_index == structural.structural_index
            && self.d == structural.degrees_of_freedom;
        whole.rank_decisions.sort_by(|a, b| a.gap.total_cmp(&b.gap));
        whole.rank_decisions.truncate(MAX_LISTED);
        self.rank_decisions.append(&mut whole.rank_decisions);
        if whole.is_singular {
            // The pencil tells the whole story of which the blocks see a part.
            self.findings = vec![singular_pencil(regular, first_order, &whole)];
            return;
        }
        if self.overrules(structural) {
            self.findings.push(decided_by_values(regular, self.differentiation_index, self.d));
        }
        if self.d != structural.degrees_of_freedom {
            self.free =
                parts.iter().map(|part| first_order.free(regular, part)).collect::<Option<Vec<_>>>().map(|free| {
                    let mut free: Vec<Derivative> = free.into_iter().flatten().collect();
                    free.sort_unstable();
                    free
                });
        }
    }
}

/// Most work on pencils that nobody asked for, in third powers of their sizes.
const MAX_WORK: usize = 2 * DENSE * DENSE * DENSE;

/// Most ranks of pencils that are listed, the smallest gaps first.
const MAX_LISTED: usize = 40;

/// What pencils of parts say together.
#[derive(Default)]
struct PencilVerdict {
    n_judged: usize,
    is_singular: bool,
    index: usize,
    d: usize,
    v: usize,
    n_free: usize,
    undetermined: Vec<usize>,
    involved: Vec<usize>,
    rank_decisions: Vec<RankRow>,
}

impl PencilVerdict {
    fn add(&mut self, part: &LocalPencil, found: &KroneckerStructure) {
        self.n_judged += 1;
        self.is_singular |= !found.is_regular;
        self.index = self.index.max(found.index);
        self.d += found.n_finite;
        self.v += found.left_minimal_indices.len();
        self.n_free += found.right_minimal_indices.len();
        self.undetermined.extend(found.undetermined_variables.iter().map(|&column| part.columns[column]));
        self.involved.extend(found.equations_involved.iter().map(|&row| part.rows[row]));
        self.rank_decisions.extend(found.rank_decisions.iter().map(|decision| RankRow {
            what: decision.question.to_string(),
            rank: decision.rank,
            gap: decision.gap,
        }));
    }

    fn add_claim(&mut self, claim: &PartClaim) {
        self.index = self.index.max(claim.index);
        self.d += claim.promised;
    }
}

/// What structure says of a part.
#[derive(Clone, Debug, Default)]
struct PartClaim {
    index: usize,
    promised: usize,
    /// Whether a block of it is singular.
    is_singular: bool,
}

/// The finding that values decide otherwise than structure.
fn decided_by_values(regular: &RegularDae, index: u32, d: usize) -> Finding {
    let structural = &regular.verdict;
    let flat = &regular.flat;
    let mut equations: Vec<usize> =
        (0..flat.equations.len()).filter(|&at| structural.differentiations[at] > 0).collect();
    let cancels = "derivatives cancel between equations, which structure cannot see";
    let depends = "equations that look independent are not, which structure cannot see";
    let message = match index.cmp(&structural.structural_index) {
        Ordering::Less => format!(
            "structure alone suggests index {}, but with the values of the coefficients the index is {index}: {cancels}",
            structural.structural_index
        ),
        Ordering::Greater => format!(
            "structure alone suggests index {}, but with the values of the coefficients the index is {index}: {depends}",
            structural.structural_index
        ),
        Ordering::Equal => format!(
            "structure alone suggests {} free start values, but with the values of the coefficients there are {d}: {cancels}",
            structural.degrees_of_freedom
        ),
    };
    if index >= structural.structural_index {
        equations = (0..flat.equations.len().min(1)).collect();
    }
    let first = equations.iter().map(|&at| flat.equations[at].span).min().unwrap_or(Span::NONE);
    Finding::note("index-by-values", first, message)
}

fn singular_pencil(regular: &RegularDae, first_order: &FirstOrder, whole: &PencilVerdict) -> Finding {
    let flat = &regular.flat;
    let mut open: Vec<VarId> = whole.undetermined.iter().map(|&column| first_order.variable_of[column]).collect();
    open.dedup();
    let equations: Vec<usize> =
        whole.involved.iter().filter_map(|&row| first_order.equations.get(row).copied()).collect();
    let names: Vec<&str> = open.iter().map(|var| flat.variables[var.index()].name.as_str()).collect();
    if let Some(twins) = explain::twins(flat, &equations) {
        return explain::written_twice(flat, &twins, &names);
    }
    let references = References::new(flat);
    let potentials: Vec<VarId> = open.iter().copied().filter(|&var| references.is_potential(var)).collect();
    if potentials.len() == open.len() && equations.iter().any(|&at| explain::is_balance_of_flows(flat, at)) {
        return references.missing(&potentials, None);
    }
    let first = equations.iter().map(|&at| flat.equations[at].span).min().unwrap_or(Span::NONE);
    let message = format!("the equations depend on each other and leave {} undetermined", enumerate(&names, 8));
    let finding = Finding::error("singular-model", first, message).with_names(names.iter().copied());
    explain::with_equations(finding, flat, &equations)
        .with_help("one of these equations follows from the others; replace it by one that says something new")
}

/// The flat model as a first-order system: a column for each unknown and each derivative of it below the highest.
struct FirstOrder {
    /// Equations of the flat model, row by row; rows that define derivatives follow.
    equations: Vec<usize>,
    /// The variable of each column.
    variable_of: Vec<VarId>,
    /// First column of each variable.
    column_of: Vec<usize>,
    /// Number of columns of each variable: its highest derivative, at least 1.
    n_orders: Vec<u16>,
    n_columns: usize,
}

impl FirstOrder {
    fn new(regular: &RegularDae) -> Self {
        let flat = &regular.flat;
        let mut is_discrete = vec![false; flat.equations.len()];
        for equation in &regular.discrete_equations {
            is_discrete[equation.source as usize] = true;
        }
        let equations: Vec<usize> = (0..flat.equations.len()).filter(|&at| !is_discrete[at]).collect();
        let mut n_orders = vec![1u16; flat.variables.len()];
        let (mut reach, mut leaves) = (Reach::new(), Vec::new());
        for &at in &equations {
            let equation = &flat.equations[at];
            reach.leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
            for &leaf in &leaves {
                if let Leaf::Var { var, order } = leaf {
                    n_orders[var.index()] = n_orders[var.index()].max(order);
                }
            }
        }
        let mut variable_of = Vec::new();
        let mut column_of = vec![usize::MAX; flat.variables.len()];
        for var in (0..flat.variables.len() as u32).map(VarId) {
            if flat.variables[var.index()].kind == VariableKind::Continuous {
                column_of[var.index()] = variable_of.len();
                variable_of.extend(std::iter::repeat_n(var, usize::from(n_orders[var.index()])));
            }
        }
        let n_columns = variable_of.len();
        Self { equations, variable_of, column_of, n_orders, n_columns }
    }

    /// The variables that have columns.
    fn unknowns(&self) -> impl Iterator<Item = VarId> + '_ {
        let is_first = |at: usize| at == 0 || self.variable_of[at - 1] != self.variable_of[at];
        (0..self.n_columns).filter(move |&at| is_first(at)).map(|at| self.variable_of[at])
    }

    /// The derivatives of all equations by all variables at the point, in parts that share no variable; `None` if one is
    /// not finite, or if all parts are too large for their pencils to be judged, so that no value is of use.
    fn parts(&self, regular: &RegularDae, point: &dyn Environment) -> Option<Vec<LocalPencil>> {
        let mut graph = regular.flat.graph.clone();
        let coefficients = self.coefficients(regular, &mut graph);
        let n_rows = self.equations.len() + self.n_columns - self.unknowns().count();
        let mut parting = hanging_together(self.n_columns, n_rows, &coefficients);
        if parting.parts.iter().all(|part| part.columns.len() > DENSE) {
            return None;
        }
        let everywhere = Everywhere::new(regular, &mut graph, &coefficients, point);
        let variables = &regular.flat.variables;
        let (mut reach, mut evaluator) = (Reach::new(), Evaluator::new());
        for &Coefficient { row, column, value, sign, is_rate } in &coefficients {
            let part = &mut parting.parts[parting.part_of[column]];
            let value = match graph.as_number(value) {
                Some(number) => number,
                None => {
                    let kind = reach.coefficient_kind(&graph, value, &|var| variables[var.index()].kind);
                    part.is_constant &= kind <= CoefficientKind::Parameter;
                    evaluator.evaluate_one(&graph, value, &everywhere)
                }
            };
            if !value.is_finite() {
                return None;
            }
            let (row, column) = (parting.place[self.n_columns + row], parting.place[column]);
            part.entries.push(PencilEntry { row, column, value: sign * value, is_rate });
        }
        Some(parting.parts)
    }

    /// The derivatives of all equations by all variables as expressions, and the rows that define derivatives.
    fn coefficients(&self, regular: &RegularDae, graph: &mut Graph) -> Vec<Coefficient> {
        // Leaves x, .., x^(m) of each variable, whose highest belongs to E and whose others belong to F.
        let leaves: Vec<Leaf> = self
            .unknowns()
            .flat_map(|var| (0..=self.n_orders[var.index()]).map(move |order| Leaf::der(var, order)))
            .collect();
        let mut differentiator = Differentiator::new(graph, &leaves);
        let mut coefficients = Vec::new();
        for (row, &at) in self.equations.iter().enumerate() {
            let equation = &regular.flat.equations[at];
            let residual = graph.sub(equation.lhs, equation.rhs);
            for entry in differentiator.gradient(graph, residual) {
                let Leaf::Var { var, order } = leaves[entry.column as usize] else { continue };
                let (column, value) = (self.column_of[var.index()] + usize::from(order), entry.value);
                coefficients.push(if order == self.n_orders[var.index()] {
                    Coefficient { row, column: column - 1, value, sign: 1.0, is_rate: true }
                } else {
                    Coefficient { row, column, value, sign: -1.0, is_rate: false }
                });
            }
        }
        let (one, mut row) = (graph.number(1.0), self.equations.len());
        for var in self.unknowns() {
            for order in 1..usize::from(self.n_orders[var.index()]) {
                let column = self.column_of[var.index()] + order;
                coefficients.push(Coefficient { row, column: column - 1, value: one, sign: 1.0, is_rate: true });
                coefficients.push(Coefficient { row, column, value: one, sign: 1.0, is_rate: false });
                row += 1;
            }
        }
        coefficients
    }

    /// What structure says of the parts.
    fn claims(&self, regular: &RegularDae, parts: &[LocalPencil], singular: &[usize]) -> Vec<PartClaim> {
        let mut part_of_column = vec![0; self.n_columns];
        let mut part_of_row = vec![0; self.equations.len()];
        let mut row_of = vec![usize::MAX; regular.flat.equations.len()];
        self.equations.iter().enumerate().for_each(|(row, &at)| row_of[at] = row);
        for (at, part) in parts.iter().enumerate() {
            part.columns.iter().for_each(|&column| part_of_column[column] = at);
            for &row in part.rows.iter().filter(|row| **row < self.equations.len()) {
                part_of_row[row] = at;
            }
        }
        let part_of = |var: VarId| part_of_column[self.column_of[var.index()]];
        let of_equation = |source: u32| part_of_row[row_of[source as usize]];
        let mut claims = vec![PartClaim::default(); parts.len()];
        let (mut n_states, mut n_constraints) = (vec![0; parts.len()], vec![0; parts.len()]);
        regular.states.iter().for_each(|state| n_states[part_of(state.var)] += 1);
        regular.constraints.iter().for_each(|constraint| n_constraints[of_equation(constraint.source)] += 1);
        let mut is_algebraic = vec![false; parts.len()];
        regular.unknowns.iter().for_each(|unknown| is_algebraic[part_of(unknown.var)] |= unknown.order == 0);
        regular.eliminated.iter().for_each(|eliminated| is_algebraic[part_of(eliminated.var)] = true);
        for equation in &regular.equations {
            let claim = &mut claims[of_equation(equation.source)];
            claim.index = claim.index.max(usize::from(equation.differentiated));
        }
        for (at, claim) in claims.iter_mut().enumerate() {
            claim.index += usize::from(is_algebraic[at]);
            claim.promised = n_states[at] - usize::min(n_states[at], n_constraints[at]);
        }
        for &block in singular {
            let first = regular.blocks[block].start as usize;
            claims[of_equation(regular.equations[first].source)].is_singular = true;
        }
        claims
    }

    /// A choice of free start values: variables whose values tell the directions apart in which solutions may start.
    /// What the user insists on comes first, then start values that were written, those of variables that are
    /// differentiated before others, then what is differentiated. A variable that an equation determines has no part in
    /// the directions but rounding: rows far below the largest are looked at last.
    fn free(&self, regular: &RegularDae, part: &LocalPencil) -> Option<Vec<Derivative>> {
        let split = split_finite_infinite(&part.pencil()?, &PencilOptions::default()).ok()?;
        let directions = split.finite_basis();
        let mut is_differentiated = vec![false; regular.flat.variables.len()];
        for var in &regular.differentiated {
            is_differentiated[var.index()] = true;
        }
        let n_columns = part.columns.len();
        let mut order: Vec<usize> = (0..n_columns).collect();
        order.sort_by_key(|&column| {
            let var = self.variable_of[part.columns[column]];
            let variable = &regular.flat.variables[var.index()];
            let rank = (variable.fixed == Some(true), variable.start.is_some(), is_differentiated[var.index()]);
            (Reverse(rank), column)
        });
        let row_of = |column: usize| (0..directions.ncols()).map(|at| directions[(column, at)]).collect::<Vec<f64>>();
        let largest = (0..n_columns).map(|column| norm(&row_of(column))).fold(0.0, f64::max);
        let mut chosen: Vec<usize> = Vec::new();
        let mut basis: Vec<Vec<f64>> = Vec::new();
        for smallest in [1e-8, 1e-13] {
            for &column in &order {
                let mut row = row_of(column);
                let before = norm(&row);
                for known in basis.iter().chain(&basis) {
                    let product: f64 = known.iter().zip(&row).map(|(known, value)| known * value).sum();
                    row.iter_mut().zip(known).for_each(|(value, known)| *value -= product * known);
                }
                let after = norm(&row);
                let is_new = basis.len() < directions.ncols() && !chosen.contains(&column);
                if is_new && before > smallest * largest && after > 1e-8 * before {
                    row.iter_mut().for_each(|value| *value /= after);
                    basis.push(row);
                    chosen.push(column);
                }
            }
        }
        chosen.sort_unstable();
        let derivative = |column: usize| {
            let column = part.columns[column];
            let var = self.variable_of[column];
            Derivative { var, order: (column - self.column_of[var.index()]) as u16 }
        };
        Some(chosen.into_iter().map(derivative).collect())
    }
}

fn norm(vector: &[f64]) -> f64 {
    vector.iter().map(|value| value * value).sum::<f64>().sqrt()
}

/// An entry of E or of F as an expression, up to its sign.
#[derive(Clone, Copy, Debug)]
struct Coefficient {
    row: usize,
    column: usize,
    value: ExprId,
    sign: f64,
    /// Whether it is of E.
    is_rate: bool,
}

/// An entry of E or of F.
#[derive(Clone, Copy, Debug)]
struct PencilEntry {
    row: usize,
    column: usize,
    value: f64,
    /// Whether it is of E.
    is_rate: bool,
}

/// The linearization of a part of a model at a point.
struct LocalPencil {
    /// Rows and columns of the whole.
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// With rows and columns of the part.
    entries: Vec<PencilEntry>,
    /// Whether it is the same at every point.
    is_constant: bool,
}

impl LocalPencil {
    fn pencil(&self) -> Option<Pencil> {
        let zero = || Mat::<f64>::zeros(self.rows.len(), self.columns.len());
        let (mut e, mut f) = (zero(), zero());
        for entry in &self.entries {
            let matrix = if entry.is_rate { &mut e } else { &mut f };
            matrix[(entry.row, entry.column)] = entry.value;
        }
        Pencil::new(e, f).ok()
    }
}

/// Rows and columns in parts that share none.
struct Parting {
    /// In the order of their first columns or rows, without entries.
    parts: Vec<LocalPencil>,
    /// By column, then row: its part, and its place there.
    part_of: Vec<usize>,
    place: Vec<usize>,
}

/// Rows and columns in parts that share none, in their order.
fn hanging_together(n_columns: usize, n_rows: usize, coefficients: &[Coefficient]) -> Parting {
    fn root(parent: &mut [usize], mut at: usize) -> usize {
        while parent[at] != at {
            parent[at] = parent[parent[at]];
            at = parent[at];
        }
        at
    }
    // Columns first, then rows.
    let mut parent: Vec<usize> = (0..n_columns + n_rows).collect();
    for entry in coefficients {
        let (a, b) = (root(&mut parent, entry.column), root(&mut parent, n_columns + entry.row));
        parent[a.max(b)] = a.min(b);
    }
    let mut part_of = vec![usize::MAX; parent.len()];
    let mut place = vec![0; parent.len()];
    let mut parts: Vec<LocalPencil> = Vec::new();
    for at in 0..parent.len() {
        let root = root(&mut parent, at);
        if part_of[root] == usize::MAX {
            part_of[root] = parts.len();
            parts.push(LocalPencil { rows: Vec::new(), columns: Vec::new(), entries: Vec::new(), is_constant: true });
        }
        part_of[at] = part_of[root];
        let part = &mut parts[part_of[at]];
        if at < n_columns {
            place[at] = part.columns.len();
            part.columns.push(at);
        } else {
            place[at] = part.rows.len();
            part.rows.push(at - n_columns);
        }
    }
    Parting { parts, part_of, place }
}

/// A point that knows the eliminated variables too that coefficients depend on.
struct Everywhere<'a> {
    base: &'a dyn Environment,
    recovered: FxHashMap<(VarId, u16), f64>,
}

impl<'a> Everywhere<'a> {
    fn new(regular: &RegularDae, graph: &mut Graph, coefficients: &[Coefficient], base: &'a dyn Environment) -> Self {
        let variables = &regular.flat.variables;
        let mut is_asked = vec![false; variables.len()];
        let values: Vec<ExprId> = coefficients.iter().map(|coefficient| coefficient.value).collect();
        for &expr in Reach::new().below(graph, &values) {
            if let Node::Var { var, .. } | Node::Pre(var) = graph.node(expr) {
                is_asked[var.index()] = true;
            }
        }
        let mut evaluator = Evaluator::new();
        let mut recovered = FxHashMap::default();
        for eliminated in regular.eliminated.iter().filter(|eliminated| is_asked[eliminated.var.index()]) {
            let rate = graph.total_time_derivative(eliminated.value, &|var| variables[var.index()].kind);
            for (order, expr) in [(0, eliminated.value), (1, rate)] {
                recovered.insert((eliminated.var, order), evaluator.evaluate_one(graph, expr, base));
            }
        }
        Self { base, recovered }
    }
}

impl Environment for Everywhere<'_> {
    fn value(&self, var: VarId, order: u16) -> f64 {
        self.recovered.get(&(var, order)).copied().unwrap_or_else(|| self.base.value(var, order))
    }

    fn time(&self) -> f64 {
        self.base.time()
    }
}
