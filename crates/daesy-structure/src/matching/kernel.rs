//! The start of a maximum matching by rules that lose nothing, and by guesses only where no rule applies.
//!
//! The rules of Karp and Sipser [@karp1981; @kaya2020]:
//!
//! 1. who has one possible partner left is paired with it;
//! 2. who has two possible partners a and b left is taken out, and a and b become one. Whichever of them is paired in
//!    the end leaves the other to the one taken out.
//!
//! Both keep the size of the maximum matching. Where each has three or more possible partners, one with the fewest is
//! paired with the partner that has the fewest. Rule 2 is what finds the way through algebraic loops hidden in a
//! triangular system, where one wrong guess can only be undone along very long paths.
//!
//! Equations and variables are the two sides of one graph and are treated alike. Merging is done only while lists are
//! short, so that the whole costs O(nonzeros) up to the depth of the merge trees, log n.

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
    nodes: Vec<Node>,
    spans: Vec<Span>,
    /// Lists of neighbours; those of merged nodes are appended.
    lists: Vec<u32>,
    current_mark: u32,
}

/// What is asked of a node when it is met as a neighbour, in one place.
#[derive(Clone, Copy)]
struct Node {
    /// The node it was merged into, itself if it was not.
    merged_into: u32,
    n_merged: u32,
    /// Number of different neighbours that are not gone; [`GONE`] for a node that is gone itself.
    degree: u32,
    mark: u32,
}

/// Degree of a node that is paired or taken out.
const GONE: u32 = u32::MAX;

/// Where the list of a node's neighbours is.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    len: u32,
}

impl Side {
    fn new(rows: &Incidence) -> Self {
        let n = rows.n_equations();
        let span = |row| Span { start: rows.entry_range(row).start as u32, len: rows.entry_range(row).len() as u32 };
        let spans: Vec<Span> = (0..n).map(span).collect();
        let node = |(number, span): (u32, &Span)| Node { merged_into: number, n_merged: 1, degree: span.len, mark: 0 };
        let nodes = (0u32..).zip(&spans).map(node).collect();
        Self { nodes, spans, lists: rows.variables().to_vec(), current_mark: 0 }
    }

    /// The merged node that a node is part of.
    #[inline]
    fn whole(&self, node: u32) -> u32 {
        let mut node = node;
        loop {
            let parent = self.nodes[node as usize].merged_into;
            if parent == node {
                return node;
            }
            node = parent;
        }
    }

    fn list(&self, node: u32) -> &[u32] {
        let span = self.spans[node as usize];
        &self.lists[span.start as usize..(span.start + span.len) as usize]
    }
}

/// What was done, to be undone in reverse order.
enum Reduction {
    Pair { equation: u32, variable: u32 },
    Merge { side: usize, absorbed: u32, kept: u32, middle: u32, span_of_kept: Span },
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
            for (number, node) in (0u32..).zip(&nodes.nodes) {
                self.queue.push(node.degree, side, number);
            }
        }
        while let Some(Waiting { degree, side, number }) = self.queue.pop() {
            let node = self.sides[side].nodes[number as usize];
            if node.merged_into != number || node.degree == GONE || (node.degree as usize).min(HIGH_DEGREE) != degree {
                continue;
            }
            self.collect_neighbours(side, number);
            let other = &self.sides[1 - side];
            if let &[a, b] = self.neighbours.as_slice()
                && other.spans[a as usize].len + other.spans[b as usize].len <= LONGEST_MERGE
            {
                self.merge(side, number, a, b);
            } else if let Some(&partner) = self.neighbours.iter().min_by_key(|&&p| other.nodes[p as usize].degree) {
                self.pair(side, number, partner);
            }
        }
    }

    /// Puts the different neighbours of a node that are not gone in `neighbours`, and marks them.
    fn collect_neighbours(&mut self, side: usize, number: u32) {
        let [equations, variables] = &mut self.sides;
        let (own, other) = if side == 0 { (equations, variables) } else { (variables, equations) };
        self.neighbours.clear();
        other.current_mark += 1;
        // A list may name the parts of a merged neighbour one by one: hence the marks.
        for &neighbour in own.list(number) {
            let neighbour = other.whole(neighbour);
            let node = &mut other.nodes[neighbour as usize];
            if node.degree != GONE && node.mark != other.current_mark {
                node.mark = other.current_mark;
                self.neighbours.push(neighbour);
            }
        }
    }

    fn pair(&mut self, side: usize, number: u32, partner: u32) {
        let (equation, variable) = if side == 0 { (number, partner) } else { (partner, number) };
        self.log.push(Reduction::Pair { equation, variable });
        self.sides[0].nodes[equation as usize].degree = GONE;
        self.sides[1].nodes[variable as usize].degree = GONE;
        for (side, number) in [(0, equation), (1, variable)] {
            self.collect_neighbours(side, number);
            let other = &mut self.sides[1 - side];
            for &neighbour in &self.neighbours {
                let degree = &mut other.nodes[neighbour as usize].degree;
                *degree -= 1;
                self.queue.push_fallen(*degree, 1 - side, neighbour);
            }
        }
    }

    /// Takes out a node whose only neighbours are a and b on the other side, and makes one node of these two.
    fn merge(&mut self, side: usize, middle: u32, a: u32, b: u32) {
        let merging = 1 - side;
        self.sides[side].nodes[middle as usize].degree = GONE;
        let n_merged = |node: u32| self.sides[merging].nodes[node as usize].n_merged;
        let (absorbed, kept) = if n_merged(a) <= n_merged(b) { (a, b) } else { (b, a) };
        self.collect_neighbours(merging, absorbed);

        let [equations, variables] = &mut self.sides;
        let (own, other) = if merging == 0 { (equations, variables) } else { (variables, equations) };
        let mark_of_absorbed = other.current_mark;
        other.current_mark += 1;
        for &neighbour in own.list(kept) {
            let neighbour = other.whole(neighbour);
            let node = &mut other.nodes[neighbour as usize];
            if node.degree == GONE || node.mark == other.current_mark {
                continue;
            }
            if node.mark == mark_of_absorbed {
                // A neighbour of both has one neighbour less now.
                node.degree -= 1;
                self.queue.push_fallen(node.degree, side, neighbour);
            } else {
                self.neighbours.push(neighbour);
            }
            node.mark = other.current_mark;
        }

        let span_of_kept = own.spans[kept as usize];
        self.log.push(Reduction::Merge { side: merging, absorbed, kept, middle, span_of_kept });
        let degree = self.neighbours.len() as u32;
        own.spans[kept as usize] = Span { start: own.lists.len() as u32, len: degree };
        own.lists.extend_from_slice(&self.neighbours);
        let absorbed = &mut own.nodes[absorbed as usize];
        absorbed.merged_into = kept;
        let n_absorbed = absorbed.n_merged;
        let node = &mut own.nodes[kept as usize];
        node.n_merged += n_absorbed;
        node.degree = degree;
        self.queue.push(degree, merging, kept);
    }

    /// Undoes the reductions in reverse order, which turns the pairs into pairs of the original nodes.
    fn expand(mut self) -> Matching {
        let mut partners = [vec![UNMATCHED; self.sides[0].nodes.len()], vec![UNMATCHED; self.sides[1].nodes.len()]];
        while let Some(reduction) = self.log.pop() {
            match reduction {
                Reduction::Pair { equation, variable } => {
                    partners[0][equation as usize] = variable;
                    partners[1][variable as usize] = equation;
                }
                Reduction::Merge { side, absorbed, kept, middle, span_of_kept } => {
                    let nodes = &mut self.sides[side];
                    nodes.nodes[absorbed as usize].merged_into = absorbed;
                    nodes.spans[kept as usize] = span_of_kept;
                    let partner = partners[side][kept as usize];
                    let (nodes, other) = (&self.sides[side], &self.sides[1 - side]);
                    let is_partner_of_kept =
                        partner == UNMATCHED || nodes.list(kept).iter().any(|&n| other.whole(n) == partner);
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

/// A node with the degree it had when it was put in the queue.
struct Waiting {
    degree: usize,
    side: usize,
    number: u32,
}

/// Nodes by the number of partners they have left, fewest first. Outdated ones are skipped by the caller.
#[derive(Default)]
struct DegreeQueue {
    lists: [[Vec<u32>; 2]; HIGH_DEGREE + 1],
    lowest: usize,
}

impl DegreeQueue {
    fn push(&mut self, degree: u32, side: usize, number: u32) {
        let list = (degree as usize).min(HIGH_DEGREE);
        if list > 0 {
            self.lists[list][side].push(number);
            self.lowest = self.lowest.min(list);
        }
    }

    /// Puts a node in again whose degree has fallen by one.
    fn push_fallen(&mut self, degree: u32, side: usize, number: u32) {
        if (degree as usize) < HIGH_DEGREE {
            self.push(degree, side, number);
        }
    }

    fn pop(&mut self) -> Option<Waiting> {
        while self.lowest <= HIGH_DEGREE {
            for side in 0..2 {
                if let Some(number) = self.lists[self.lowest][side].pop() {
                    return Some(Waiting { degree: self.lowest, side, number });
                }
            }
            self.lowest += 1;
        }
        None
    }
}
