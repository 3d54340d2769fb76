//! The smallest sets of equations and variables that explain why a pattern is not well-determined.
//!
//! Call a set of equations dependent if they cannot all be paired. A minimal dependent set has k + 1 equations which
//! hold only k variables, and without any one of them the rest is in order; these sets are the circuits of a
//! transversal matroid [@krysander2008]. Given a maximum matching, the equations on alternating paths from one
//! unmatched equation are exactly such a circuit: the only one within the matched equations and that one.
//!
//! If one equation is too many, there is no other circuit, and this one is the smallest. If several are, other
//! circuits may be smaller. Each contains an unmatched equation. So the neighbourhood of each unmatched equation is
//! added ring by ring, equations with few variables first, until a circuit closes: a circuit that fits in a small
//! neighbourhood is found.
//!
//! The same on the transposed pattern gives k + 1 variables that occur in only k equations.

use crate::incidence::Incidence;
use crate::matching::UNMATCHED;

use super::{DulmageMendelsohn, Part};

/// Equations and variables that cannot be right together; both lists ascend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CulpritSet {
    /// Equations of the set.
    pub equations: Vec<u32>,
    /// Variables of the set.
    pub variables: Vec<u32>,
}

/// Minimal explanations, smallest first.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Culprits {
    /// Each set: k + 1 equations that contain only these k variables; with any one equation removed, the others can
    /// be paired.
    pub over_determined: Vec<CulpritSet>,
    /// Each set: k + 1 variables that occur only in these k equations; with any one variable given, the others can be
    /// paired.
    pub under_determined: Vec<CulpritSet>,
}

/// How far to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CulpritOptions {
    /// At most so many sets of each kind are returned.
    pub max_sets: usize,
    /// At most so many unmatched equations or variables are taken as starting points.
    pub max_starts: usize,
    /// Neighbourhoods are searched up to this number of equations or variables.
    pub max_neighbourhood: usize,
}

impl Default for CulpritOptions {
    fn default() -> Self {
        Self { max_sets: 8, max_starts: 64, max_neighbourhood: 256 }
    }
}

pub(super) fn find(parts: &DulmageMendelsohn, incidence: &Incidence, options: &CulpritOptions) -> Culprits {
    if parts.is_regular() {
        return Culprits::default();
    }
    let transposed = incidence.transpose();
    let over = CircuitSearch {
        rows: incidence,
        columns: &transposed,
        row_of_column: parts.matching.equation_slots(),
        row_parts: &parts.equation_parts,
        part: Part::Over,
    }
    .circuits(&parts.matching.unmatched_equations(), options);
    let under = CircuitSearch {
        rows: &transposed,
        columns: incidence,
        row_of_column: parts.matching.variable_slots(),
        row_parts: &parts.variable_parts,
        part: Part::Under,
    }
    .circuits(&parts.matching.unmatched_variables(), options);
    Culprits {
        over_determined: over
            .into_iter()
            .map(|circuit| CulpritSet { equations: circuit.rows, variables: circuit.columns })
            .collect(),
        under_determined: under
            .into_iter()
            .map(|circuit| CulpritSet { equations: circuit.columns, variables: circuit.rows })
            .collect(),
    }
}

/// k + 1 rows that hold only k columns.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Circuit {
    rows: Vec<u32>,
    columns: Vec<u32>,
}

/// Search for circuits among the rows of one part.
struct CircuitSearch<'a> {
    rows: &'a Incidence,
    columns: &'a Incidence,
    row_of_column: &'a [u32],
    row_parts: &'a [Part],
    part: Part,
}

impl CircuitSearch<'_> {
    fn circuits(&self, unmatched: &[u32], options: &CulpritOptions) -> Vec<Circuit> {
        let mut found = Vec::new();
        let mut marks = Marks::new(self.rows.n_equations());
        let mut neighbourhood = Neighbourhood::new(self.rows.n_equations(), self.rows.n_variables());
        for &start in unmatched.iter().take(options.max_starts) {
            let fundamental = reach(self.rows, start, &mut marks, |column| self.row_of_column[column as usize]);
            let limit = options.max_neighbourhood;
            let mut is_smaller_found = false;
            if unmatched.len() > 1
                && fundamental.len() > 2
                && let Some(rows) = neighbourhood.first_circuit(self, start, limit, &mut marks)
            {
                is_smaller_found = rows.len() < fundamental.len() && rows.contains(&start);
                found.push(self.circuit(rows));
            }
            if !is_smaller_found {
                found.push(self.circuit(fundamental));
            }
        }
        found.sort_unstable_by(|a, b| (a.rows.len(), &a.rows).cmp(&(b.rows.len(), &b.rows)));
        found.dedup();
        found.truncate(options.max_sets);
        found
    }

    fn circuit(&self, mut rows: Vec<u32>) -> Circuit {
        rows.sort_unstable();
        let mut columns: Vec<u32> =
            rows.iter().flat_map(|&row| self.rows.variables_of(row as usize)).copied().collect();
        columns.sort_unstable();
        columns.dedup();
        Circuit { rows, columns }
    }
}

/// Marks that are cleared by counting up.
struct Marks {
    mark: Vec<u32>,
    current: u32,
}

impl Marks {
    fn new(n: usize) -> Self {
        Self { mark: vec![0; n], current: 0 }
    }

    fn clear(&mut self) {
        self.current += 1;
    }

    /// Marks a position; `true` if it was not marked before.
    fn insert(&mut self, position: u32) -> bool {
        let mark = &mut self.mark[position as usize];
        let is_new = *mark != self.current;
        *mark = self.current;
        is_new
    }
}

/// Rows on alternating paths from `start`.
fn reach(incidence: &Incidence, start: u32, marks: &mut Marks, row_of_column: impl Fn(u32) -> u32) -> Vec<u32> {
    marks.clear();
    marks.insert(start);
    let mut reached = vec![start];
    let mut head = 0;
    while head < reached.len() {
        let row = reached[head] as usize;
        head += 1;
        for &column in incidence.variables_of(row) {
            let next = row_of_column(column);
            if next != UNMATCHED && marks.insert(next) {
                reached.push(next);
            }
        }
    }
    reached
}

/// A growing neighbourhood with a matching of its own.
struct Neighbourhood {
    is_inside: Marks,
    row_of_column: Vec<u32>,
    came_from: Vec<u32>,
    touched_columns: Vec<u32>,
}

impl Neighbourhood {
    fn new(n_rows: usize, n_columns: usize) -> Self {
        Self {
            is_inside: Marks::new(n_rows),
            row_of_column: vec![UNMATCHED; n_columns],
            came_from: vec![UNMATCHED; n_columns],
            touched_columns: Vec::new(),
        }
    }

    /// Pairs the rows around `start`, ring by ring, until one cannot be paired: that one closes a circuit.
    fn first_circuit(
        &mut self,
        search: &CircuitSearch<'_>,
        start: u32,
        limit: usize,
        marks: &mut Marks,
    ) -> Option<Vec<u32>> {
        self.is_inside.clear();
        self.is_inside.insert(start);
        let mut ring = vec![start];
        let mut n_inside = 0;
        let mut circuit = None;
        'grow: while !ring.is_empty() {
            for &row in &ring {
                if n_inside == limit {
                    break 'grow;
                }
                n_inside += 1;
                if !self.pair(search.rows, row, marks) {
                    let row_of_column = &self.row_of_column;
                    circuit = Some(reach(search.rows, row, marks, |column| row_of_column[column as usize]));
                    break 'grow;
                }
            }
            let mut next_ring = Vec::new();
            'ring: for &row in &ring {
                for &column in search.rows.variables_of(row as usize) {
                    for &next in search.columns.variables_of(column as usize) {
                        if search.row_parts[next as usize] == search.part && self.is_inside.insert(next) {
                            next_ring.push(next);
                        }
                    }
                    // A variable in very many equations must not make the ring grow beyond what is searched.
                    if next_ring.len() > 16 * limit {
                        break 'ring;
                    }
                }
            }
            next_ring.sort_by_key(|&row| search.rows.entry_range(row as usize).len());
            ring = next_ring;
        }
        for column in self.touched_columns.drain(..) {
            self.row_of_column[column as usize] = UNMATCHED;
        }
        circuit
    }

    /// Pairs a row by a breadth-first augmenting path among the rows paired so far.
    fn pair(&mut self, rows: &Incidence, start: u32, marks: &mut Marks) -> bool {
        marks.clear();
        marks.insert(start);
        let mut queue = vec![start];
        let mut head = 0;
        while head < queue.len() {
            let row = queue[head];
            head += 1;
            for &column in rows.variables_of(row as usize) {
                let next = self.row_of_column[column as usize];
                if next == UNMATCHED {
                    self.touched_columns.push(column);
                    self.came_from[column as usize] = row;
                    self.flip(rows, start, column);
                    return true;
                }
                if marks.insert(next) {
                    self.came_from[column as usize] = row;
                    queue.push(next);
                }
            }
        }
        false
    }

    /// Walks back from an unpaired column to `start`, giving each row on the way its new column.
    fn flip(&mut self, rows: &Incidence, start: u32, last: u32) {
        let mut column = last;
        loop {
            let row = self.came_from[column as usize];
            let previous = rows
                .variables_of(row as usize)
                .iter()
                .copied()
                .find(|&other| other != column && self.row_of_column[other as usize] == row);
            self.row_of_column[column as usize] = row;
            match previous {
                Some(previous) if row != start => column = previous,
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dulmage_mendelsohn::dulmage_mendelsohn;
    use crate::incidence::{Entry, IncidenceBuilder};

    #[test]
    fn a_small_contradiction_is_found_beside_a_large_one() {
        // A ring of 40 equations in 40 variables, one more equation across it, and the relation of variables 3 and 4
        // stated three times in all: three equations in two variables are the smallest contradiction.
        let n = 40u32;
        let mut builder = IncidenceBuilder::new(n as usize).unwrap();
        let mut push = |variables: &[u32]| {
            builder.push_equation(variables.iter().map(|&variable| Entry { variable, order: 0 })).unwrap();
        };
        for i in 0..n {
            push(&[i, (i + 1) % n]);
        }
        push(&[0, 17, 31]);
        push(&[3, 4]);
        push(&[3, 4]);
        let incidence = builder.finish();
        let parts = dulmage_mendelsohn(&incidence);
        assert_eq!((parts.n_excess_equations(), parts.n_missing_equations()), (3, 0));
        let culprits = parts.culprits(&incidence, &CulpritOptions::default());
        assert_eq!(culprits.over_determined[0], CulpritSet { equations: vec![3, 41, 42], variables: vec![3, 4] });
        assert!(culprits.over_determined.len() >= 2);
        for set in &culprits.over_determined {
            assert_eq!(set.equations.len(), set.variables.len() + 1);
        }
    }
}
