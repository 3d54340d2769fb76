//! The start of a maximum matching by rules that lose nothing, and by guesses only where no rule applies.
//!
//! The rules of Karp and Sipser [@karp1981; @kaya2020]:
//!
//! 1. who has one possible partner left is paired with it;
//! 2. who has two possible partners a and b left is taken out, and a and b become one. Whichever of them is paired in the end
//!    leaves the other to the one taken out.
//!
//! Both keep the size of the maximum matching. Where everybody has three or more possible partners, somebody with the fewest is
//! paired with the partner that has the fewest. Rule 2 is what finds the way through algebraic loops hidden in a triangular
//! system, where one wrong guess can only be undone along very long paths.
//!
//! Equations and variables are the two sides of one graph and are treated alike. Merging is done only while lists are short, so
//! that the whole costs O(nonzeros) up to the depth of the merge trees, log n.

use crate::incidence::Incidence;

use super::{BothWays, Matching, UNMATCHED};

/// Degrees from here on are not told apart.
const HIGH_DEGREE: usize = 8;

/// Two nodes are merged only if their lists of neighbours have together at most this length.
const LONGEST_MERGE: u32 = 64;

/// A matching that is maximal and usually maximum or very nearly so.
pub(crate) fn kernel_matching(pattern: BothWays<'_>) -> Matching {
    let mut kernel = Kernel {
        sides: [Side::new(pattern.by_equation), Side::new(pattern.by_variable)],
        queue: DegreeQueue::default(),
        log: Vec::new(),
        neighbours: Vec::new(),
    };
    kernel.reduce();
    kernel.expand()
}

/// One side of the graph. Nodes are numbers of equations (side 0) or variables (side 1).
struct Side {
    /// Lists of neighbours; those of merged nodes are appended.
    lists: Vec<u32>,
    list_start: Vec<u32>,
    list_len: Vec<u32>,
    /// The node a node was merged into, itself if it was not.
    merged_into: Vec<u32>,
    n_merged: Vec<u32>,
    /// Number of different neighbours that are not gone.
    degree: Vec<u32>,
    is_gone: Vec<bool>,
    mark: Vec<u32>,
    current_mark: u32,
}

impl Side {
    fn new(rows: &Incidence) -> Self {
        let n = rows.n_equations();
        Self {
            lists: rows.variables().to_vec(),
            list_start: (0..n).map(|row| rows.entry_range(row).start as u32).collect(),
            list_len: (0..n).map(|row| rows.entry_range(row).len() as u32).collect(),
            merged_into: (0..n as u32).collect(),
            n_merged: vec![1; n],
            degree: (0..n).map(|row| rows.entry_range(row).len() as u32).collect(),
            is_gone: vec![false; n],
            mark: vec![0; n],
            current_mark: 0,
        }
    }

    /// The merged node that a node is part of.
    #[inline]
    fn whole(&self, node: u32) -> u32 {
        let mut node = node;
        loop {
            let parent = self.merged_into[node as usize];
            if parent == node {
                return node;
            }
            node = parent;
        }
    }

    fn list_range(&self, node: u32) -> core::ops::Range<usize> {
        let start = self.list_start[node as usize] as usize;
        start..start + self.list_len[node as usize] as usize
    }
}

/// What was done, to be undone in reverse order.
enum Reduction {
    Pair { equation: u32, variable: u32 },
    Merge { side: usize, absorbed: u32, kept: u32, middle: u32, kept_list_start: u32, kept_list_len: u32 },
}

struct Kernel {
    sides: [Side; 2],
    queue: DegreeQueue,
    log: Vec<Reduction>,
    neighbours: Vec<u32>,
}

impl Kernel {
    fn reduce(&mut self) {
        for (side, nodes) in self.sides.iter().enumerate() {
            for (node, &degree) in (0u32..).zip(&nodes.degree) {
                self.queue.push(degree, Node { side, node });
            }
        }
        while let Some(Waiting { degree, node: Node { side, node } }) = self.queue.pop() {
            let nodes = &self.sides[side];
            let at = node as usize;
            let is_current = nodes.merged_into[at] == node && (nodes.degree[at] as usize).min(HIGH_DEGREE) == degree;
            if !is_current || nodes.is_gone[at] {
                continue;
            }
            self.collect_neighbours(side, node);
            let other = &self.sides[1 - side];
            if let &[a, b] = self.neighbours.as_slice()
                && other.list_len[a as usize] + other.list_len[b as usize] <= LONGEST_MERGE
            {
                self.merge(side, node, a, b);
            } else if let Some(&partner) = self.neighbours.iter().min_by_key(|&&partner| other.degree[partner as usize])
            {
                self.pair(side, node, partner);
            }
        }
    }

    /// Puts the different neighbours of a node that are not gone in `neighbours`, and marks them.
    fn collect_neighbours(&mut self, side: usize, node: u32) {
        let [equations, variables] = &mut self.sides;
        let (own, other) = if side == 0 { (equations, variables) } else { (variables, equations) };
        self.neighbours.clear();
        other.current_mark += 1;
        // A list may name the parts of a merged neighbour one by one: hence the marks.
        for &neighbour in &own.lists[own.list_range(node)] {
            let neighbour = other.whole(neighbour);
            let mark = &mut other.mark[neighbour as usize];
            if !other.is_gone[neighbour as usize] && *mark != other.current_mark {
                *mark = other.current_mark;
                self.neighbours.push(neighbour);
            }
        }
    }

    fn pair(&mut self, side: usize, node: u32, partner: u32) {
        let (equation, variable) = if side == 0 { (node, partner) } else { (partner, node) };
        self.log.push(Reduction::Pair { equation, variable });
        self.sides[0].is_gone[equation as usize] = true;
        self.sides[1].is_gone[variable as usize] = true;
        for (side, node) in [(0, equation), (1, variable)] {
            self.collect_neighbours(side, node);
            let other = &mut self.sides[1 - side];
            for &neighbour in &self.neighbours {
                other.degree[neighbour as usize] -= 1;
                self.queue.push_fallen(other.degree[neighbour as usize], Node { side: 1 - side, node: neighbour });
            }
        }
    }

    /// Takes out a node whose only neighbours are a and b on the other side, and makes one node of these two.
    fn merge(&mut self, side: usize, middle: u32, a: u32, b: u32) {
        let merging = 1 - side;
        self.sides[side].is_gone[middle as usize] = true;
        let n_merged = &self.sides[merging].n_merged;
        let (absorbed, kept) = if n_merged[a as usize] <= n_merged[b as usize] { (a, b) } else { (b, a) };
        self.collect_neighbours(merging, absorbed);

        let [equations, variables] = &mut self.sides;
        let (own, other) = if merging == 0 { (equations, variables) } else { (variables, equations) };
        let mark_of_absorbed = other.current_mark;
        other.current_mark += 1;
        for &neighbour in &own.lists[own.list_range(kept)] {
            let neighbour = other.whole(neighbour);
            let at = neighbour as usize;
            if other.is_gone[at] || other.mark[at] == other.current_mark {
                continue;
            }
            if other.mark[at] == mark_of_absorbed {
                // A neighbour of both has one neighbour less now.
                other.degree[at] -= 1;
                self.queue.push_fallen(other.degree[at], Node { side, node: neighbour });
            } else {
                self.neighbours.push(neighbour);
            }
            other.mark[at] = other.current_mark;
        }

        self.log.push(Reduction::Merge {
            side: merging,
            absorbed,
            kept,
            middle,
            kept_list_start: own.list_start[kept as usize],
            kept_list_len: own.list_len[kept as usize],
        });
        own.list_start[kept as usize] = own.lists.len() as u32;
        own.list_len[kept as usize] = self.neighbours.len() as u32;
        own.lists.extend_from_slice(&self.neighbours);
        own.merged_into[absorbed as usize] = kept;
        own.n_merged[kept as usize] += own.n_merged[absorbed as usize];
        own.degree[kept as usize] = self.neighbours.len() as u32;
        self.queue.push(own.degree[kept as usize], Node { side: merging, node: kept });
    }

    /// Undoes the reductions in reverse order, which turns the pairs into pairs of the original nodes.
    fn expand(mut self) -> Matching {
        let mut partners = [vec![UNMATCHED; self.sides[0].degree.len()], vec![UNMATCHED; self.sides[1].degree.len()]];
        while let Some(reduction) = self.log.pop() {
            match reduction {
                Reduction::Pair { equation, variable } => {
                    partners[0][equation as usize] = variable;
                    partners[1][variable as usize] = equation;
                }
                Reduction::Merge { side, absorbed, kept, middle, kept_list_start, kept_list_len } => {
                    let nodes = &mut self.sides[side];
                    nodes.merged_into[absorbed as usize] = absorbed;
                    nodes.list_start[kept as usize] = kept_list_start;
                    nodes.list_len[kept as usize] = kept_list_len;
                    let partner = partners[side][kept as usize];
                    let (nodes, other) = (&self.sides[side], &self.sides[1 - side]);
                    let list = &nodes.lists[nodes.list_range(kept)];
                    let is_partner_of_kept = partner == UNMATCHED || list.iter().any(|&n| other.whole(n) == partner);
                    let left = if is_partner_of_kept {
                        absorbed
                    } else {
                        partners[side][absorbed as usize] = partner;
                        partners[1 - side][partner as usize] = absorbed;
                        kept
                    };
                    partners[side][left as usize] = middle;
                    partners[1 - side][middle as usize] = left;
                }
            }
        }
        let [variable_of_equation, equation_of_variable] = partners;
        Matching::from_partners(variable_of_equation, equation_of_variable)
    }
}

/// A node of either side.
#[derive(Clone, Copy)]
struct Node {
    side: usize,
    node: u32,
}

/// A node with the degree it had when it was put in the queue.
struct Waiting {
    degree: usize,
    node: Node,
}

/// Nodes by the number of partners they have left, fewest first. Outdated ones are skipped by the caller.
#[derive(Default)]
struct DegreeQueue {
    lists: [[Vec<u32>; 2]; HIGH_DEGREE + 1],
    lowest: usize,
}

impl DegreeQueue {
    fn push(&mut self, degree: u32, node: Node) {
        let list = (degree as usize).min(HIGH_DEGREE);
        if list > 0 {
            self.lists[list][node.side].push(node.node);
            self.lowest = self.lowest.min(list);
        }
    }

    /// Puts a node in again whose degree has fallen by one.
    fn push_fallen(&mut self, degree: u32, node: Node) {
        if (degree as usize) < HIGH_DEGREE {
            self.push(degree, node);
        }
    }

    fn pop(&mut self) -> Option<Waiting> {
        while self.lowest <= HIGH_DEGREE {
            for side in 0..2 {
                if let Some(node) = self.lists[self.lowest][side].pop() {
                    return Some(Waiting { degree: self.lowest, node: Node { side, node } });
                }
            }
            self.lowest += 1;
        }
        None
    }
}
