//! An order in which neighbours are stored near each other.
//!
//! The algorithms of this crate follow entries from equation to variable to equation. If the numbering is arbitrary,
//! each step of a large system waits for main memory. Renumbering once by a breadth-first search over the pattern, as
//! in the ordering of Cuthill and McKee [@cuthill1969], makes all later passes run within the caches for anything
//! like a chain, a grid or a network.

use super::Incidence;

/// A numbering of equations and variables: position k of each list holds the original number of the new k-th.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalOrder {
    /// Original equations in the new order.
    pub equations: Vec<u32>,
    /// Original variables in the new order.
    pub variables: Vec<u32>,
}

const UNNUMBERED: u32 = u32::MAX;

/// An incidence in a new numbering, with the way back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renumbered {
    /// The matrix in new numbers.
    pub incidence: Incidence,
    /// The original numbers.
    pub order: LocalOrder,
}

impl Renumbered {
    /// Numbers equations and variables by a breadth-first search, one connected part after the other.
    ///
    /// Rows are written as the search passes them, while they are at hand.
    pub fn breadth_first(original: &Incidence) -> Self {
        let columns = Columns::of(original);
        let mut equations = Vec::with_capacity(original.n_equations());
        let mut variables = Vec::with_capacity(original.n_variables());
        let mut is_numbered = vec![false; original.n_equations()];
        let mut places = vec![UNNUMBERED; original.n_variables()];
        let mut rows = Rows::with_capacity(original.n_equations(), original.n_entries());
        let mut head = 0;
        for start in 0..original.n_equations() {
            if is_numbered[start] {
                continue;
            }
            is_numbered[start] = true;
            equations.push(start as u32);
            while head < equations.len() {
                let equation = equations[head] as usize;
                head += 1;
                for entry in original.entries_of(equation) {
                    let place = &mut places[entry.variable as usize];
                    if *place == UNNUMBERED {
                        *place = variables.len() as u32;
                        variables.push(entry.variable);
                        for &next in columns.equations_of(entry.variable) {
                            if !core::mem::replace(&mut is_numbered[next as usize], true) {
                                equations.push(next);
                            }
                        }
                    }
                    rows.add(*place, entry.order);
                }
                rows.end_row();
            }
        }
        // Variables that occur nowhere come last.
        variables
            .extend((0u32..).zip(&places).filter(|&(_, &place)| place == UNNUMBERED).map(|(variable, _)| variable));
        Self { incidence: rows.finish(original.n_variables), order: LocalOrder { equations, variables } }
    }
}

/// The equations of each variable, without orders.
struct Columns {
    starts: Vec<u32>,
    equations: Vec<u32>,
}

impl Columns {
    fn of(incidence: &Incidence) -> Self {
        let mut starts = vec![0u32; incidence.n_variables() + 1];
        for &variable in incidence.variables() {
            starts[variable as usize + 1] += 1;
        }
        for variable in 0..incidence.n_variables() {
            starts[variable + 1] += starts[variable];
        }
        // Filled from the back, so that `starts` ends as it should.
        let mut ends = starts[1..].to_vec();
        let mut equations = vec![0u32; incidence.n_entries()];
        for equation in (0..incidence.n_equations()).rev() {
            for &variable in incidence.variables_of(equation) {
                let end = &mut ends[variable as usize];
                *end -= 1;
                equations[*end as usize] = equation as u32;
            }
        }
        Self { starts, equations }
    }

    fn equations_of(&self, variable: u32) -> &[u32] {
        let at = variable as usize;
        &self.equations[self.starts[at] as usize..self.starts[at + 1] as usize]
    }
}

/// Rows under construction.
struct Rows {
    row_starts: Vec<u32>,
    variables: Vec<u32>,
    orders: Vec<u8>,
    row: Vec<(u32, u8)>,
}

impl Rows {
    fn with_capacity(n_rows: usize, n_entries: usize) -> Self {
        let mut row_starts = Vec::with_capacity(n_rows + 1);
        row_starts.push(0);
        Self {
            row_starts,
            variables: Vec::with_capacity(n_entries),
            orders: Vec::with_capacity(n_entries),
            row: Vec::new(),
        }
    }

    fn add(&mut self, variable: u32, order: u8) {
        self.row.push((variable, order));
    }

    /// Stores the row by ascending variable.
    fn end_row(&mut self) {
        self.row.sort_unstable();
        for (variable, order) in self.row.drain(..) {
            self.variables.push(variable);
            self.orders.push(order);
        }
        self.row_starts.push(self.variables.len() as u32);
    }

    fn finish(self, n_variables: u32) -> Incidence {
        Incidence { n_variables, row_starts: self.row_starts, variables: self.variables, orders: self.orders }
    }
}

/// From this share of far entries on a pattern counts as scattered. A shuffled pattern has nearly 1; blocks stored
/// together, with other entries anywhere, have about one half, and a breadth-first search would tear them apart.
const SCATTERED_SHARE: f64 = 0.6;

impl Incidence {
    /// Whether most entries, row by row, lie far from all recent ones, so that renumbering may help: counted as the
    /// misses of a small cache of 512 lines with 16 variables each.
    pub fn is_scattered(&self) -> bool {
        const LINES: usize = 512;
        let mut lines = [UNNUMBERED; LINES];
        let mut n_misses = 0usize;
        for &variable in self.variables() {
            let line = variable / 16;
            let slot = &mut lines[line as usize % LINES];
            n_misses += usize::from(core::mem::replace(slot, line) != line);
        }
        n_misses as f64 > SCATTERED_SHARE * self.n_entries() as f64
    }

    /// The matrix with equations and variables renumbered; those which `order` does not list are left out.
    pub fn renumber(&self, order: &LocalOrder) -> Incidence {
        let mut places = vec![UNNUMBERED; self.n_variables()];
        for (place, &variable) in (0u32..).zip(&order.variables) {
            places[variable as usize] = place;
        }
        let mut rows = Rows::with_capacity(order.equations.len(), self.n_entries());
        for &equation in &order.equations {
            for entry in self.entries_of(equation as usize) {
                let place = places[entry.variable as usize];
                if place != UNNUMBERED {
                    rows.add(place, entry.order);
                }
            }
            rows.end_row();
        }
        rows.finish(order.variables.len() as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidence::{Entry, IncidenceBuilder};

    #[test]
    fn a_shuffled_chain_becomes_a_band() {
        let n = 500usize;
        let mut rng = fastrand::Rng::with_seed(3);
        let mut places: Vec<u32> = (0..n as u32).collect();
        rng.shuffle(&mut places);
        let mut rows: Vec<usize> = (0..n).collect();
        rng.shuffle(&mut rows);
        let mut builder = IncidenceBuilder::new(n).unwrap();
        for &row in &rows {
            let near = row.saturating_sub(1)..=(row + 1).min(n - 1);
            builder.push_equation(near.map(|k| Entry { variable: places[k], order: (row % 3) as u8 })).unwrap();
        }
        let incidence = builder.finish();
        let Renumbered { incidence: local, order } = Renumbered::breadth_first(&incidence);
        assert_eq!(local, incidence.renumber(&order));
        assert_eq!(local.n_entries(), incidence.n_entries());
        for equation in 0..n {
            for entry in local.entries_of(equation) {
                assert!((equation as i64 - i64::from(entry.variable)).abs() <= 6);
                let original = order.variables[entry.variable as usize];
                assert_eq!(incidence.order(order.equations[equation] as usize, original), Some(entry.order));
            }
        }
    }

    #[test]
    fn only_a_shuffled_order_is_scattered() {
        let n = 50_000u32;
        let mut places: Vec<u32> = (0..n).collect();
        let mut rows: Vec<usize> = (0..n as usize - 1).collect();
        for is_shuffled in [false, true] {
            if is_shuffled {
                let mut rng = fastrand::Rng::with_seed(4);
                rng.shuffle(&mut places);
                rng.shuffle(&mut rows);
            }
            let mut builder = IncidenceBuilder::new(n as usize).unwrap();
            for &k in &rows {
                builder.push_equation([k, k + 1].map(|k| Entry { variable: places[k], order: 0 })).unwrap();
            }
            let incidence = builder.finish();
            assert_eq!(incidence.is_scattered(), is_shuffled);
            assert!(!Renumbered::breadth_first(&incidence).incidence.is_scattered());
        }
    }

    #[test]
    fn everything_is_numbered_once() {
        let mut builder = IncidenceBuilder::new(4).unwrap();
        builder.push_equation([]).unwrap();
        builder.push_equation([Entry { variable: 2, order: 0 }]).unwrap();
        let mut order = Renumbered::breadth_first(&builder.finish()).order;
        order.equations.sort_unstable();
        order.variables.sort_unstable();
        assert_eq!(order, LocalOrder { equations: vec![0, 1], variables: vec![0, 1, 2, 3] });
    }
}
