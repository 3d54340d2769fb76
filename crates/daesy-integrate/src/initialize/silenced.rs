//! Columns that keep their guesses because the equations that determine them say nothing in the modes at hand.
//!
//! The branch of an equation that a mode selects may lack a variable that another branch has: with friction stuck,
//! `a = if locked then 0 else s - s_max` leaves the path parameter s open. If initial equations determine a as well,
//! the equation repeats what is known, and the friction force and everything that balances it are open too. Over all
//! modes together structure says which variable is meant: the demanded rows with the entries of all branches have a
//! part in which rows and columns match one to one, and it falls into blocks that can be solved one after the other
//! [@dulmage1958]. A block with fewer matches in the modes at hand leaves columns of its own open, s here; what comes
//! after it, the motor's current here, follows. Any order of solution that knows the structure ends there, so that a
//! wish for the current does not count.
//!
//! Which columns of the block stay open, its own wishes decide, in their order.

use super::choice::{GreedyMatching, NONE};
use super::problem::Problem;

/// What blocks leave open in the modes at hand.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Silenced {
    /// Wishes for columns of such blocks, which come before all others.
    pub(crate) wishes: Vec<usize>,
    /// Columns that keep their guesses.
    pub(crate) columns: Vec<usize>,
}

impl Silenced {
    /// All rows in the order in which they count.
    pub(crate) fn order(&self, problem: &Problem<'_>) -> impl Iterator<Item = usize> {
        let others = (problem.n_demanded..problem.n_rows()).filter(|row| self.wishes.binary_search(row).is_err());
        (0..problem.n_demanded).chain(self.wishes.iter().copied()).chain(others)
    }

    /// Finds them from the entries that are not zero.
    pub(crate) fn find(problem: &Problem<'_>, is_entry: &[bool]) -> Self {
        let mut here = GreedyMatching::new(&problem.pattern, is_entry);
        let n_here = (0..problem.n_demanded).filter(|&row| here.add(row)).count();
        if n_here == problem.n_demanded {
            return Self::default();
        }
        let everything = vec![true; is_entry.len()];
        let mut all = GreedyMatching::new(&problem.pattern, &everything);
        let n_all = (0..problem.n_demanded).filter(|&row| all.add(row)).count();
        if n_here == n_all {
            return Self::default();
        }
        let mut silenced = Self::default();
        let blocks = blocks(problem, &all);
        let mut block_of = vec![NONE; problem.n_cols()];
        for (number, block) in blocks.iter().enumerate() {
            block.iter().for_each(|&row| block_of[all.column_of[row]] = number);
        }
        let mut wishes: Vec<Vec<usize>> = vec![Vec::new(); blocks.len()];
        for row in problem.n_demanded..problem.n_rows() {
            let block = problem.only_column(row).map_or(NONE, |column| block_of[column]);
            if block != NONE {
                wishes[block].push(row);
            }
        }
        // Blocks share neither rows nor columns, so that one matching serves all of them.
        let mut is_own = vec![false; is_entry.len()];
        for (number, block) in blocks.iter().enumerate() {
            for entry in block.iter().chain(&wishes[number]).flat_map(|&row| problem.pattern.row(row)) {
                let column = problem.pattern.columns[entry] as usize;
                is_own[entry] = is_entry[entry] && block_of[column] == number;
            }
        }
        let mut matching = GreedyMatching::new(&problem.pattern, &is_own);
        for (block, wishes) in blocks.iter().zip(wishes) {
            let n_matched = block.iter().filter(|&&row| matching.add(row)).count();
            if n_matched < block.len() {
                silenced.wishes.extend(wishes.iter().filter(|&&row| matching.add(row)));
                let columns = block.iter().map(|&row| all.column_of[row]);
                silenced.columns.extend(columns.filter(|&column| matching.row_of[column] == NONE));
            }
        }
        silenced.wishes.sort_unstable();
        silenced.columns.sort_unstable();
        silenced
    }
}

/// The blocks of demanded rows in the part where these and columns match one to one.
fn blocks(problem: &Problem<'_>, matching: &GreedyMatching<'_>) -> Vec<Vec<usize>> {
    let pattern = &problem.pattern;
    let columns_of = |row: usize| pattern.columns[pattern.row(row)].iter().map(|&column| column as usize);
    let mut rows_of: Vec<Vec<usize>> = vec![Vec::new(); pattern.n_cols];
    for row in 0..problem.n_demanded {
        columns_of(row).for_each(|column| rows_of[column].push(row));
    }
    // Columns that some match leaves out, with the rows they are in, and rows that some match leaves out.
    let mut is_outside: Vec<bool> = (0..problem.n_demanded).map(|row| matching.column_of[row] == NONE).collect();
    let mut queue: Vec<usize> = (0..problem.n_demanded).filter(|&row| is_outside[row]).collect();
    while let Some(row) = queue.pop() {
        for column in columns_of(row) {
            let partner = matching.row_of[column];
            if partner != NONE && !std::mem::replace(&mut is_outside[partner], true) {
                queue.push(partner);
            }
        }
    }
    let mut queue: Vec<usize> = (0..pattern.n_cols).filter(|&column| matching.row_of[column] == NONE).collect();
    while let Some(column) = queue.pop() {
        for &row in &rows_of[column] {
            if !std::mem::replace(&mut is_outside[row], true) {
                queue.push(matching.column_of[row]);
            }
        }
    }
    let next = |row: usize| {
        let partners = columns_of(row).map(|column| matching.row_of[column]);
        partners.filter(|&partner| partner != NONE && !is_outside[partner]).collect::<Vec<usize>>()
    };
    strong_components(problem.n_demanded, |row| !is_outside[row], next)
}

/// Tarjan's strongly connected components, without recursion [@tarjan1972].
fn strong_components(n: usize, is_in: impl Fn(usize) -> bool, next: impl Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
    let (mut number, mut low, mut is_stacked) = (vec![NONE; n], vec![0; n], vec![false; n]);
    let (mut stack, mut found, mut n_numbered) = (Vec::new(), Vec::new(), 0);
    for root in (0..n).filter(|&node| is_in(node)) {
        if number[root] != NONE {
            continue;
        }
        let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut entered = Some(root);
        loop {
            if let Some(node) = entered.take() {
                (number[node], low[node], is_stacked[node]) = (n_numbered, n_numbered, true);
                n_numbered += 1;
                stack.push(node);
                path.push((node, next(node)));
            }
            let Some((node, rest)) = path.last_mut() else { break };
            let node = *node;
            match rest.pop() {
                Some(other) if number[other] == NONE => entered = Some(other),
                Some(other) if is_stacked[other] => low[node] = low[node].min(number[other]),
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((before, _)) = path.last() {
                        low[*before] = low[*before].min(low[node]);
                    }
                    if low[node] == number[node] {
                        let first = stack.iter().rposition(|&other| other == node).unwrap_or(0);
                        let component = stack.split_off(first);
                        component.iter().for_each(|&other| is_stacked[other] = false);
                        found.push(component);
                    }
                }
            }
        }
    }
    found
}
