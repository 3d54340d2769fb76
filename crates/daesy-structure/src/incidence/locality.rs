//! An order in which neighbours are stored near each other.
//!
//! The algorithms of this crate follow entries from equation to variable to equation. If the numbering is arbitrary, each step of
//! a large system waits for main memory. Renumbering once by a breadth-first search over the pattern, as in the ordering of
//! Cuthill and McKee [@cuthill1969], makes all later passes run within the caches for anything like a chain, a grid or a network.

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

impl LocalOrder {
    /// Numbers equations and variables by a breadth-first search, one connected part after the other.
    pub fn breadth_first(incidence: &Incidence) -> Self {
        let transposed = incidence.transpose();
        let mut equations = Vec::with_capacity(incidence.n_equations());
        let mut variables = Vec::with_capacity(incidence.n_variables());
        let mut is_numbered_equation = vec![false; incidence.n_equations()];
        let mut is_numbered_variable = vec![false; incidence.n_variables()];
        let mut head = 0;
        for start in 0..incidence.n_equations() {
            if is_numbered_equation[start] {
                continue;
            }
            is_numbered_equation[start] = true;
            equations.push(start as u32);
            while head < equations.len() {
                let equation = equations[head] as usize;
                head += 1;
                for &variable in incidence.variables_of(equation) {
                    if core::mem::replace(&mut is_numbered_variable[variable as usize], true) {
                        continue;
                    }
                    variables.push(variable);
                    for &next in transposed.variables_of(variable as usize) {
                        if !core::mem::replace(&mut is_numbered_equation[next as usize], true) {
                            equations.push(next);
                        }
                    }
                }
            }
        }
        // Variables that occur nowhere come last.
        variables.extend((0u32..).zip(&is_numbered_variable).filter(|&(_, &is_numbered)| !is_numbered).map(|(v, _)| v));
        Self { equations, variables }
    }
}

impl Incidence {
    /// The matrix with equations and variables renumbered; those which `order` does not list are left out.
    pub fn renumber(&self, order: &LocalOrder) -> Incidence {
        let mut places = vec![UNNUMBERED; self.n_variables()];
        for (place, &variable) in (0u32..).zip(&order.variables) {
            places[variable as usize] = place;
        }
        let mut row_starts = Vec::with_capacity(order.equations.len() + 1);
        let mut variables = Vec::with_capacity(self.n_entries());
        let mut orders = Vec::with_capacity(self.n_entries());
        let mut row = Vec::new();
        row_starts.push(0);
        for &equation in &order.equations {
            row.clear();
            row.extend(self.entries_of(equation as usize).map(|entry| (places[entry.variable as usize], entry.order)));
            row.sort_unstable();
            for &(variable, order) in row.iter().filter(|&&(variable, _)| variable != UNNUMBERED) {
                variables.push(variable);
                orders.push(order);
            }
            row_starts.push(variables.len() as u32);
        }
        Incidence { n_variables: order.variables.len() as u32, row_starts, variables, orders }
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
        let order = LocalOrder::breadth_first(&incidence);
        let local = incidence.renumber(&order);
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
    fn everything_is_numbered_once() {
        let mut builder = IncidenceBuilder::new(4).unwrap();
        builder.push_equation([]).unwrap();
        builder.push_equation([Entry { variable: 2, order: 0 }]).unwrap();
        let mut order = LocalOrder::breadth_first(&builder.finish());
        order.equations.sort_unstable();
        order.variables.sort_unstable();
        assert_eq!(order, LocalOrder { equations: vec![0, 1], variables: vec![0, 1, 2, 3] });
    }
}
