//! Coefficients that depend on random parameters, projected on pairs of polynomials.

use std::collections::HashMap;

use daesy_graph::{BinaryOp, Environment, Evaluator, ExprId, Graph, Leaf, Node, Reach, Substitution, UnaryOp, VarId};

use super::{ExpansionFacts, ParameterFacts};
use crate::basis::Basis;
use crate::error::ChaosError;
use crate::index_set::MultiIndex;

/// A coefficient, or a part of one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Coefficient {
    /// Without random parameters.
    Plain(ExprId),
    /// `factor`, without random parameters, times a function of them.
    Random { factor: ExprId, projection: usize },
}

/// An entry of <c Phi_l Phi_k>.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct ProjectedEntry {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) value: ExprId,
}

/// What <c phi_l phi_k> is for the polynomials of the parameters that c depends on.
#[derive(Clone, Debug)]
enum Values {
    /// Numbers: c does not depend on time.
    Numbers(Vec<f64>),
    /// c at the points of a grid as expressions of time, and the products of weights and polynomials there.
    OverTime { at_points: Vec<ExprId>, factors: Vec<Vec<f64>> },
}

#[derive(Clone, Debug)]
struct Projection {
    /// The parameters that c depends on.
    parameters: Vec<usize>,
    /// By pair of sub-indices, row by row.
    values: Values,
    /// c at the means of the parameters.
    expr: ExprId,
}

/// The polynomials of a basis as products of those of some parameters and of all others.
#[derive(Clone, Debug)]
struct Grouping {
    /// Different indices of the parameters at hand.
    inside: Vec<MultiIndex>,
    /// By index of all others: (polynomial, position in `inside`).
    groups: Vec<Vec<(usize, usize)>>,
}

/// Projects coefficients and remembers them.
pub(super) struct Projector<'a> {
    basis: &'a Basis,
    random: &'a [VarId],
    means: &'a [f64],
    parameters: ParameterFacts,
    times: &'a [f64],
    projections: Vec<Projection>,
    known: HashMap<ExprId, usize>,
    groupings: HashMap<Vec<usize>, Grouping>,
    reach: Reach,
    evaluator: Evaluator,
    values: HashMap<VarId, f64>,
}

/// A tensor grid over some parameters.
pub(super) struct TensorGrid {
    pub(super) germs: Vec<Vec<f64>>,
    pub(super) weights: Vec<f64>,
}

/// A Gauss grid over some parameters with a number of points for each.
pub(super) fn tensor_grid(basis: &Basis, parameters: &[usize], each: &[usize]) -> TensorGrid {
    let mut grid = TensorGrid { germs: vec![Vec::new()], weights: vec![1.0] };
    for (&parameter, &n) in parameters.iter().zip(each) {
        let rule = basis.gauss(parameter, n);
        let mut next = TensorGrid { germs: Vec::new(), weights: Vec::new() };
        for (germ, weight) in grid.germs.iter().zip(&grid.weights) {
            for (&point, &factor) in rule.points.iter().zip(&rule.weights) {
                let mut germ = germ.clone();
                germ.push(point);
                next.germs.push(germ);
                next.weights.push(weight * factor);
            }
        }
        grid = next;
    }
    grid
}

/// Most points of a grid for one coefficient.
const MAX_POINTS: f64 = 3e5;

/// Changes below this share of the largest entry are rounding.
const SETTLED: f64 = 1e-12;

/// Entries below this share of the largest one are zero.
const NEGLIGIBLE: f64 = 1e-14;

struct AtPoint<'a> {
    random: &'a [VarId],
    values: &'a [f64],
    fixed: &'a HashMap<VarId, f64>,
    time: f64,
}

impl Environment for AtPoint<'_> {
    fn value(&self, var: VarId, _order: u16) -> f64 {
        match self.random.iter().position(|&random| random == var) {
            Some(at) => self.values[at],
            None => self.fixed.get(&var).copied().unwrap_or(f64::NAN),
        }
    }

    fn time(&self) -> f64 {
        self.time
    }
}

impl<'a> Projector<'a> {
    pub(super) fn new(
        basis: &'a Basis,
        random: &'a [VarId],
        means: &'a [f64],
        parameters: ParameterFacts,
        times: &'a [f64],
    ) -> Self {
        Self {
            basis,
            random,
            means,
            parameters,
            times,
            projections: Vec::new(),
            known: HashMap::new(),
            groupings: HashMap::new(),
            reach: Reach::new(),
            evaluator: Evaluator::new(),
            values: HashMap::new(),
        }
    }

    pub(super) fn means(&self) -> &[f64] {
        self.means
    }

    /// An expression with dependent parameters written out.
    pub(super) fn written_out(&mut self, graph: &mut Graph, expr: ExprId) -> ExprId {
        let mut leaves = Vec::new();
        self.reach.leaves(graph, &[expr], &mut leaves);
        let mut put_in = Substitution::new();
        for leaf in leaves {
            if let Leaf::Var { var, .. } = leaf
                && let Some(&value) = self.parameters.dependent.get(&var)
            {
                put_in.replace_leaf(graph, leaf, value);
            }
        }
        put_in.apply(graph, expr)
    }

    /// The random parameters of an expression.
    fn random_in(&mut self, graph: &Graph, expr: ExprId) -> Vec<usize> {
        let mut leaves = Vec::new();
        self.reach.leaves(graph, &[expr], &mut leaves);
        let place = |leaf: &Leaf| match leaf {
            Leaf::Var { var, .. } => self.random.iter().position(|random| random == var),
            Leaf::Time => None,
        };
        let mut found: Vec<usize> = leaves.iter().filter_map(place).collect();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// A coefficient as a sum of products of something plain and something random.
    pub(super) fn split(
        &mut self,
        graph: &mut Graph,
        expr: ExprId,
        facts: &mut ExpansionFacts,
    ) -> Result<Vec<Coefficient>, ChaosError> {
        let one = graph.number(1.0);
        let mut parts = Vec::new();
        let mut stack = vec![(expr, one)];
        while let Some((expr, factor)) = stack.pop() {
            if self.random_in(graph, expr).is_empty() {
                parts.push(Coefficient::Plain(graph.mul(factor, expr)));
                continue;
            }
            match graph.node(expr) {
                Node::Unary { op: UnaryOp::Neg, arg } => {
                    let negated = graph.neg(factor);
                    stack.push((arg, negated));
                    continue;
                }
                Node::Binary { op: BinaryOp::Add, lhs, rhs } => {
                    stack.push((rhs, factor));
                    stack.push((lhs, factor));
                    continue;
                }
                Node::Binary { op: BinaryOp::Sub, lhs, rhs } => {
                    let negated = graph.neg(factor);
                    stack.push((rhs, negated));
                    stack.push((lhs, factor));
                    continue;
                }
                Node::Binary { op: BinaryOp::Mul, lhs, rhs } => {
                    if self.random_in(graph, lhs).is_empty() {
                        let product = graph.mul(factor, lhs);
                        stack.push((rhs, product));
                        continue;
                    }
                    if self.random_in(graph, rhs).is_empty() {
                        let product = graph.mul(factor, rhs);
                        stack.push((lhs, product));
                        continue;
                    }
                }
                Node::Binary { op: BinaryOp::Div, lhs, rhs } if self.random_in(graph, rhs).is_empty() => {
                    let quotient = graph.div(factor, rhs);
                    stack.push((lhs, quotient));
                    continue;
                }
                // What is plain in the numerator goes outside, so that the rest is a function of parameters alone.
                Node::Binary { op: BinaryOp::Div, lhs, rhs }
                    if graph.as_number(lhs) != Some(1.0) && self.random_in(graph, lhs).is_empty() =>
                {
                    let factor = graph.mul(factor, lhs);
                    let inverse = graph.div(one, rhs);
                    stack.push((inverse, factor));
                    continue;
                }
                _ => {}
            }
            let projection = self.projection(graph, expr, facts)?;
            parts.push(Coefficient::Random { factor, projection });
        }
        Ok(parts)
    }

    fn projection(&mut self, graph: &mut Graph, expr: ExprId, facts: &mut ExpansionFacts) -> Result<usize, ChaosError> {
        if let Some(&at) = self.known.get(&expr) {
            return Ok(at);
        }
        let parameters = self.random_in(graph, expr);
        let grouping = self.grouping(&parameters);
        let degree = self.polynomial_degree(graph, expr);
        let is_over_time = self.fix_values(graph, expr);
        let degrees = self.basis.indices.max_degrees();
        // Gauss rules of n points are exact up to degree 2 n - 1: twice the basis' degree and the coefficient's own.
        let first: Vec<usize> =
            parameters.iter().map(|&at| degrees[at] + 1 + degree.map_or(3, |degree| degree.div_ceil(2))).collect();
        let mut each = first;
        let mut found = self.integrate(graph, expr, &parameters, &grouping, &each)?;
        match degree {
            Some(_) => facts.n_exact += 1,
            None => {
                facts.n_by_quadrature += 1;
                loop {
                    let finer: Vec<usize> = each.iter().map(|n| (n * 3).div_ceil(2) + 2).collect();
                    let n_points: f64 = finer.iter().map(|&n| n as f64).product();
                    let is_longest = finer.iter().any(|&n| n > 128) || n_points > MAX_POINTS;
                    if is_longest {
                        facts.unsettled.push(self.text(graph, expr));
                        break;
                    }
                    let next = self.integrate(graph, expr, &parameters, &grouping, &finer)?;
                    let change = largest_change(&found, &next);
                    (found, each) = (next, finer);
                    if change <= SETTLED {
                        break;
                    }
                }
            }
        }
        let values = if is_over_time {
            self.over_time(graph, expr, &parameters, &grouping, &each)
        } else {
            Values::Numbers(found.into_iter().next().unwrap_or_default())
        };
        self.projections.push(Projection { parameters, values, expr });
        let at = self.projections.len() - 1;
        self.known.insert(expr, at);
        Ok(at)
    }

    fn text(&self, graph: &Graph, expr: ExprId) -> String {
        let mut leaves = Vec::new();
        Reach::new().leaves(graph, &[expr], &mut leaves);
        let names: Vec<&str> = leaves
            .iter()
            .filter_map(|leaf| match leaf {
                Leaf::Var { var, .. } if self.random.contains(var) => Some(self.parameters.names[var.index()].as_str()),
                _ => None,
            })
            .collect();
        names.join(", ")
    }

    /// Gives values to all parameters below an expression; whether it depends on time or inputs.
    fn fix_values(&mut self, graph: &Graph, expr: ExprId) -> bool {
        let mut leaves = Vec::new();
        let mut is_over_time = false;
        let mut stack = vec![expr];
        let mut todo: Vec<VarId> = Vec::new();
        while let Some(expr) = stack.pop() {
            self.reach.leaves(graph, &[expr], &mut leaves);
            for &leaf in &leaves {
                match leaf {
                    Leaf::Time => is_over_time = true,
                    Leaf::Var { var, .. } if self.parameters.is_input[var.index()] => {
                        is_over_time = true;
                        self.values.entry(var).or_insert(0.0);
                    }
                    Leaf::Var { var, .. } if self.random.contains(&var) || self.values.contains_key(&var) => {}
                    Leaf::Var { var, .. } => match self.parameters.bindings[var.index()] {
                        Some(binding) if !todo.contains(&var) => {
                            todo.push(var);
                            stack.push(binding);
                        }
                        Some(_) => {}
                        None => {
                            self.values.insert(var, 0.0);
                        }
                    },
                }
            }
        }
        // Those found last are needed first, as often as there are chains of them.
        for _ in 0..todo.len() {
            let mut is_done = true;
            for &var in todo.iter().rev() {
                let Some(binding) = self.parameters.bindings[var.index()] else { continue };
                let environment = AtPoint { random: self.random, values: self.means, fixed: &self.values, time: 0.0 };
                let value = self.evaluator.evaluate_one(graph, binding, &environment);
                is_done &= self.values.get(&var).is_some_and(|old| old.to_bits() == value.to_bits());
                self.values.insert(var, value);
            }
            if is_done {
                break;
            }
        }
        is_over_time
    }

    /// Values of an expression at the points of a grid, at one time.
    fn sample(
        &mut self,
        graph: &Graph,
        expr: ExprId,
        parameters: &[usize],
        grid: &TensorGrid,
        time: f64,
    ) -> Result<Vec<f64>, ChaosError> {
        let mut values = self.means.to_vec();
        let mut found = Vec::with_capacity(grid.germs.len());
        for germ in &grid.germs {
            for (&at, &germ) in parameters.iter().zip(germ) {
                values[at] = self.basis.parameters[at].distribution.parameter(germ);
            }
            let environment = AtPoint { random: self.random, values: &values, fixed: &self.values, time };
            let value = self.evaluator.evaluate_one(graph, expr, &environment);
            if !value.is_finite() {
                let place: Vec<String> = parameters
                    .iter()
                    .map(|&at| format!("{} = {}", self.basis.parameters[at].name, values[at]))
                    .collect();
                return Err(ChaosError::NotFinite { what: "a coefficient".to_owned(), place: place.join(", ") });
            }
            found.push(value);
        }
        Ok(found)
    }

    /// <c phi_l phi_k> by pair of sub-indices, at every time that counts (once if c does not depend on time).
    fn integrate(
        &mut self,
        graph: &Graph,
        expr: ExprId,
        parameters: &[usize],
        grouping: &Grouping,
        each: &[usize],
    ) -> Result<Vec<Vec<f64>>, ChaosError> {
        let n_points: f64 = each.iter().map(|&n| n as f64).product();
        if n_points > MAX_POINTS {
            return Err(ChaosError::TooManyPoints {
                n_parameters: parameters.len(),
                points_each: each.iter().copied().max().unwrap_or(0),
                n_points,
                limit: MAX_POINTS,
            });
        }
        let is_over_time = self.reach.depends_on(graph, expr, |leaf| leaf == Leaf::Time);
        let grid = tensor_grid(self.basis, parameters, each);
        let polynomials = self.polynomials(parameters, grouping, &grid);
        let times: Vec<f64> = if is_over_time { self.times.to_vec() } else { vec![0.0] };
        let n = grouping.inside.len();
        let mut all = Vec::with_capacity(times.len());
        for time in times {
            let values = self.sample(graph, expr, parameters, &grid, time)?;
            let mut sums = vec![0.0; n * n];
            for ((value, weight), polynomials) in values.iter().zip(&grid.weights).zip(&polynomials) {
                let product = value * weight;
                for l in 0..n {
                    let left = product * polynomials[l];
                    for k in 0..=l {
                        sums[l * n + k] += left * polynomials[k];
                    }
                }
            }
            for l in 0..n {
                for k in 0..l {
                    sums[k * n + l] = sums[l * n + k];
                }
            }
            let largest = sums.iter().fold(0.0f64, |most, value| most.max(value.abs()));
            for value in &mut sums {
                if value.abs() <= NEGLIGIBLE * largest {
                    *value = 0.0;
                }
            }
            all.push(sums);
        }
        Ok(all)
    }

    /// By point, the polynomials of the sub-indices.
    fn polynomials(&self, parameters: &[usize], grouping: &Grouping, grid: &TensorGrid) -> Vec<Vec<f64>> {
        let degrees = self.basis.indices.max_degrees();
        grid.germs
            .iter()
            .map(|germ| {
                let single: Vec<Vec<f64>> = parameters
                    .iter()
                    .zip(germ)
                    .map(|(&at, &germ)| {
                        let mut values = Vec::new();
                        self.basis.recurrence(at).evaluate(germ, degrees[at], &mut values);
                        values
                    })
                    .collect();
                let product =
                    |index: &MultiIndex| index.iter().zip(&single).map(|(&k, values)| values[usize::from(k)]).product();
                grouping.inside.iter().map(product).collect()
            })
            .collect()
    }

    fn over_time(
        &mut self,
        graph: &mut Graph,
        expr: ExprId,
        parameters: &[usize],
        grouping: &Grouping,
        each: &[usize],
    ) -> Values {
        let grid = tensor_grid(self.basis, parameters, each);
        let polynomials = self.polynomials(parameters, grouping, &grid);
        let n = grouping.inside.len();
        let mut at_points = Vec::with_capacity(grid.germs.len());
        for germ in &grid.germs {
            let mut put_in = Substitution::new();
            for (&at, &germ) in parameters.iter().zip(germ) {
                let value = graph.number(self.basis.parameters[at].distribution.parameter(germ));
                put_in.replace_leaf(graph, Leaf::var(self.random[at]), value);
            }
            at_points.push(put_in.apply(graph, expr));
        }
        let factors = polynomials
            .iter()
            .zip(&grid.weights)
            .map(|(polynomials, weight)| {
                (0..n * n).map(|pair| weight * polynomials[pair / n] * polynomials[pair % n]).collect()
            })
            .collect();
        Values::OverTime { at_points, factors }
    }

    fn grouping(&mut self, parameters: &[usize]) -> Grouping {
        if let Some(known) = self.groupings.get(parameters) {
            return known.clone();
        }
        let mut inside: Vec<MultiIndex> = Vec::new();
        let mut place: HashMap<MultiIndex, usize> = HashMap::new();
        let mut groups: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut group_of: HashMap<MultiIndex, usize> = HashMap::new();
        for (term, index) in self.basis.indices.indices().iter().enumerate() {
            let sub: MultiIndex = parameters.iter().map(|&at| index[at]).collect();
            let mut rest = index.clone();
            parameters.iter().for_each(|&at| rest[at] = 0);
            let at = *place.entry(sub.clone()).or_insert_with(|| {
                inside.push(sub);
                inside.len() - 1
            });
            let group = *group_of.entry(rest).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push((term, at));
        }
        let grouping = Grouping { inside, groups };
        self.groupings.insert(parameters.to_vec(), grouping.clone());
        grouping
    }

    /// The entries of <c Phi_l Phi_k> that are not zero, in the first columns.
    pub(super) fn entries(&mut self, graph: &mut Graph, at: usize, n_columns: usize) -> Vec<ProjectedEntry> {
        let projection = self.projections[at].clone();
        let grouping = self.grouping(&projection.parameters);
        let n = grouping.inside.len();
        let mut made: HashMap<usize, ExprId> = HashMap::new();
        let mut entries = Vec::new();
        for group in &grouping.groups {
            for &(column, k) in group.iter().filter(|(column, _)| *column < n_columns) {
                for &(row, l) in group {
                    let pair = l * n + k;
                    let value = match &projection.values {
                        Values::Numbers(values) if values[pair] == 0.0 => continue,
                        Values::Numbers(values) => graph.number(values[pair]),
                        Values::OverTime { at_points, factors } => *made.entry(pair).or_insert_with(|| {
                            let mut sum = Vec::with_capacity(at_points.len());
                            for (&value, factors) in at_points.iter().zip(factors) {
                                if factors[pair] != 0.0 {
                                    let factor = graph.number(factors[pair]);
                                    sum.push(graph.mul(factor, value));
                                }
                            }
                            graph.sum(&sum)
                        }),
                    };
                    entries.push(ProjectedEntry { row, column, value });
                }
            }
        }
        entries
    }

    /// By polynomial, whether <c Phi_l Phi_l> is an entry.
    pub(super) fn diagonal(&mut self, at: usize, n_columns: usize) -> Vec<bool> {
        let projection = self.projections[at].clone();
        let grouping = self.grouping(&projection.parameters);
        let n = grouping.inside.len();
        let mut present = vec![false; self.basis.len().max(n_columns)];
        for &(term, k) in grouping.groups.iter().flatten() {
            present[term] = match &projection.values {
                Values::Numbers(values) => values[k * n + k] != 0.0,
                Values::OverTime { .. } => true,
            };
        }
        present
    }

    /// A coefficient at the means of the random parameters.
    pub(super) fn at_means(&self, graph: &mut Graph, at: usize) -> ExprId {
        let mut put_in = Substitution::new();
        for (&var, &mean) in self.random.iter().zip(self.means) {
            let value = graph.number(mean);
            put_in.replace_leaf(graph, Leaf::var(var), value);
        }
        put_in.apply(graph, self.projections[at].expr)
    }

    /// The number that an expression of parameters is at the means.
    pub(super) fn number_at_means(&mut self, graph: &mut Graph, expr: ExprId, evaluator: &mut Evaluator) -> ExprId {
        if graph.as_number(expr).is_some() {
            return expr;
        }
        let expr = self.written_out(graph, expr);
        self.fix_values(graph, expr);
        let environment = AtPoint { random: self.random, values: self.means, fixed: &self.values, time: 0.0 };
        let value = evaluator.evaluate_one(graph, expr, &environment);
        graph.number(value)
    }

    /// The degree of an expression as a polynomial of random parameters that are polynomials of their germs; `None`
    /// otherwise.
    fn polynomial_degree(&mut self, graph: &Graph, expr: ExprId) -> Option<usize> {
        let mut degrees: HashMap<ExprId, Option<usize>> = HashMap::new();
        let below = self.reach.below(graph, &[expr]).to_vec();
        for node in below {
            let of = |expr: ExprId| degrees.get(&expr).copied().flatten();
            let degree = match graph.node(node) {
                Node::Number(_) | Node::Time => Some(0),
                Node::Var { var, .. } => match self.random.iter().position(|&random| random == var) {
                    Some(at) => self.basis.parameters[at].distribution.is_affine().then_some(1),
                    None => Some(0),
                },
                Node::Unary { op: UnaryOp::Neg, arg } => of(arg),
                Node::Binary { op: BinaryOp::Add | BinaryOp::Sub, lhs, rhs } => {
                    of(lhs).zip(of(rhs)).map(|(a, b)| a.max(b))
                }
                Node::Binary { op: BinaryOp::Mul, lhs, rhs } => of(lhs).zip(of(rhs)).map(|(a, b)| a + b),
                Node::Binary { op: BinaryOp::Div, lhs, rhs } => of(lhs).filter(|_| of(rhs) == Some(0)),
                Node::Binary { op: BinaryOp::Pow, lhs, rhs } => match graph.as_number(rhs) {
                    Some(power) if power >= 0.0 && power.fract() == 0.0 && power < 64.0 => {
                        of(lhs).map(|degree| degree * power as usize)
                    }
                    _ => None,
                },
                _ => None,
            };
            // Functions of what is not random are as good as numbers.
            let degree = degree.or_else(|| {
                let mut is_plain = true;
                graph.for_each_child(node, |child| is_plain &= of(child) == Some(0));
                let is_leaf = graph.as_leaf(node).is_some();
                (is_plain && !is_leaf).then_some(0)
            });
            degrees.insert(node, degree);
        }
        degrees.get(&expr).copied().flatten()
    }
}

/// Largest change of an entry relative to the largest entry.
fn largest_change(before: &[Vec<f64>], after: &[Vec<f64>]) -> f64 {
    let largest = after.iter().flatten().fold(0.0f64, |most, value| most.max(value.abs()));
    if largest == 0.0 {
        return 0.0;
    }
    let change = before
        .iter()
        .flatten()
        .zip(after.iter().flatten())
        .fold(0.0f64, |most, (before, after)| most.max((before - after).abs()));
    change / largest
}
