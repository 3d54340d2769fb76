//! Which variable occurs in which equation, and how often it is differentiated there.
//!
//! The signature matrix of a DAE [@pryce2001] has one row per equation and one column per variable,
//!
//! ```text
//! sigma_ij = highest order of a derivative of variable j in equation i,   -inf if j does not occur in i.
//! ```
//!
//! Only the finite entries are stored, row by row (compressed sparse rows). Nothing here knows expressions.

use thiserror::Error;

mod locality;

pub use locality::{LocalOrder, Renumbered};

/// The sparse signature matrix: rows are equations, columns are variables, values are derivative orders.
///
/// Within a row the columns ascend and occur once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incidence {
    n_variables: u32,
    row_starts: Vec<u32>,
    variables: Vec<u32>,
    orders: Vec<u8>,
}

/// One finite entry of the signature matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Column of the entry.
    pub variable: u32,
    /// Highest derivative order of the variable in the equation.
    pub order: u8,
}

/// Why an incidence cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IncidenceError {
    /// An equation names a variable that does not exist.
    #[error("equation {equation} refers to variable {variable}, but there are only {n_variables} variables")]
    VariableOutOfRange {
        /// Equation at fault.
        equation: usize,
        /// Variable it names.
        variable: u32,
        /// Number of variables there are.
        n_variables: u32,
    },
    /// Positions are 32-bit numbers and there are too many of them.
    #[error("the incidence has more than {limit} equations, variables or entries")]
    TooLarge {
        /// Largest number that can be stored.
        limit: u32,
    },
}

/// `u32::MAX` marks "no partner" in matchings, so that positions end one below it.
const LARGEST_COUNT: u32 = u32::MAX - 1;

impl Incidence {
    /// Number of equations (rows).
    pub fn n_equations(&self) -> usize {
        self.row_starts.len() - 1
    }

    /// Number of variables (columns).
    pub fn n_variables(&self) -> usize {
        self.n_variables as usize
    }

    /// Number of finite entries.
    pub fn n_entries(&self) -> usize {
        self.variables.len()
    }

    /// Positions of the entries of an equation in [`Incidence::variables`] and [`Incidence::orders`].
    #[inline]
    pub fn entry_range(&self, equation: usize) -> core::ops::Range<usize> {
        self.row_starts[equation] as usize..self.row_starts[equation + 1] as usize
    }

    /// The variables of all entries, row after row.
    #[inline]
    pub fn variables(&self) -> &[u32] {
        &self.variables
    }

    /// The derivative orders of all entries, row after row.
    #[inline]
    pub fn orders(&self) -> &[u8] {
        &self.orders
    }

    /// The variables of one equation, ascending.
    #[inline]
    pub fn variables_of(&self, equation: usize) -> &[u32] {
        &self.variables[self.entry_range(equation)]
    }

    /// The entries of one equation, by ascending variable.
    pub fn entries_of(&self, equation: usize) -> impl ExactSizeIterator<Item = Entry> + '_ {
        self.entry_range(equation).map(|entry| Entry { variable: self.variables[entry], order: self.orders[entry] })
    }

    /// The order of a variable in an equation, `None` where it does not occur.
    pub fn order(&self, equation: usize, variable: u32) -> Option<u8> {
        let range = self.entry_range(equation);
        let start = range.start;
        self.variables[range].binary_search(&variable).ok().map(|offset| self.orders[start + offset])
    }

    /// The same matrix by columns: rows of the result are variables, its columns are equations.
    pub fn transpose(&self) -> Incidence {
        let mut row_starts = vec![0u32; self.n_variables() + 1];
        for &variable in &self.variables {
            row_starts[variable as usize + 1] += 1;
        }
        for variable in 0..self.n_variables() {
            row_starts[variable + 1] += row_starts[variable];
        }
        let mut next = row_starts.clone();
        let mut variables = vec![0u32; self.n_entries()];
        let mut orders = vec![0u8; self.n_entries()];
        for equation in 0..self.n_equations() {
            for entry in self.entry_range(equation) {
                let position = &mut next[self.variables[entry] as usize];
                variables[*position as usize] = equation as u32;
                orders[*position as usize] = self.orders[entry];
                *position += 1;
            }
        }
        Incidence { n_variables: self.n_equations() as u32, row_starts, variables, orders }
    }

    /// The matrix of those entries for which `keep(equation, entry position)` holds.
    pub fn filter(&self, mut keep: impl FnMut(usize, usize) -> bool) -> Incidence {
        let mut row_starts = Vec::with_capacity(self.row_starts.len());
        let mut variables = Vec::with_capacity(self.n_entries());
        let mut orders = Vec::with_capacity(self.n_entries());
        row_starts.push(0);
        for equation in 0..self.n_equations() {
            for entry in self.entry_range(equation) {
                if keep(equation, entry) {
                    variables.push(self.variables[entry]);
                    orders.push(self.orders[entry]);
                }
            }
            row_starts.push(variables.len() as u32);
        }
        Incidence { n_variables: self.n_variables, row_starts, variables, orders }
    }
}

/// Builds an [`Incidence`] equation by equation.
#[derive(Clone, Debug)]
pub struct IncidenceBuilder {
    incidence: Incidence,
    row: Vec<Entry>,
}

impl IncidenceBuilder {
    /// An incidence of `n_variables` variables and no equation yet.
    pub fn new(n_variables: usize) -> Result<Self, IncidenceError> {
        let n_variables = checked_count(n_variables)?;
        let incidence = Incidence { n_variables, row_starts: vec![0], variables: Vec::new(), orders: Vec::new() };
        Ok(Self { incidence, row: Vec::new() })
    }

    /// Reserves room for what is to come.
    pub fn reserve(&mut self, n_equations: usize, n_entries: usize) {
        self.incidence.row_starts.reserve(n_equations);
        self.incidence.variables.reserve(n_entries);
        self.incidence.orders.reserve(n_entries);
    }

    /// Appends an equation; a variable named several times counts with its highest order.
    pub fn push_equation(&mut self, entries: impl IntoIterator<Item = Entry>) -> Result<(), IncidenceError> {
        let n_variables = self.incidence.n_variables;
        self.row.clear();
        self.row.extend(entries);
        self.row.sort_unstable();
        for position in 0..self.row.len() {
            let Entry { variable, order } = self.row[position];
            if variable >= n_variables {
                let equation = self.incidence.n_equations();
                self.incidence.variables.truncate(self.incidence.row_starts[equation] as usize);
                self.incidence.orders.truncate(self.incidence.row_starts[equation] as usize);
                return Err(IncidenceError::VariableOutOfRange { equation, variable, n_variables });
            }
            // Sorted by variable, then order: the last of its kind carries the highest order.
            if self.row.get(position + 1).is_none_or(|next| next.variable != variable) {
                self.incidence.variables.push(variable);
                self.incidence.orders.push(order);
            }
        }
        checked_count(self.incidence.row_starts.len())?;
        let end = checked_count(self.incidence.variables.len())?;
        self.incidence.row_starts.push(end);
        Ok(())
    }

    /// The finished matrix.
    pub fn finish(self) -> Incidence {
        self.incidence
    }
}

fn checked_count(count: usize) -> Result<u32, IncidenceError> {
    match u32::try_from(count) {
        Ok(count) if count <= LARGEST_COUNT => Ok(count),
        _ => Err(IncidenceError::TooLarge { limit: LARGEST_COUNT }),
    }
}

/// The incidence of equations in the given variables, for tests.
#[cfg(test)]
pub(crate) fn pattern(n_variables: usize, rows: &[&[u32]]) -> Incidence {
    let mut builder = IncidenceBuilder::new(n_variables).unwrap();
    for row in rows {
        builder.push_equation(row.iter().map(|&variable| Entry { variable, order: 0 })).unwrap();
    }
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(variable: u32, order: u8) -> Entry {
        Entry { variable, order }
    }

    #[test]
    fn rows_are_sorted_and_merged_to_the_highest_order() {
        let mut builder = IncidenceBuilder::new(3).unwrap();
        builder.push_equation([entry(2, 0), entry(0, 1), entry(2, 2), entry(0, 0)]).unwrap();
        builder.push_equation([]).unwrap();
        let incidence = builder.finish();
        assert_eq!(incidence.n_equations(), 2);
        assert_eq!(incidence.entries_of(0).collect::<Vec<_>>(), [entry(0, 1), entry(2, 2)]);
        assert_eq!(incidence.entries_of(1).len(), 0);
        assert_eq!(incidence.order(0, 2), Some(2));
        assert_eq!(incidence.order(0, 1), None);
    }

    #[test]
    fn a_refused_equation_leaves_no_trace() {
        let mut builder = IncidenceBuilder::new(2).unwrap();
        let refused = builder.push_equation([entry(0, 0), entry(5, 0)]);
        assert_eq!(refused, Err(IncidenceError::VariableOutOfRange { equation: 0, variable: 5, n_variables: 2 }));
        builder.push_equation([entry(1, 3)]).unwrap();
        let incidence = builder.finish();
        assert_eq!((incidence.n_equations(), incidence.n_entries()), (1, 1));
    }

    #[test]
    fn transposing_twice_changes_nothing() {
        let mut builder = IncidenceBuilder::new(4).unwrap();
        builder.push_equation([entry(3, 1), entry(0, 2)]).unwrap();
        builder.push_equation([entry(1, 0), entry(3, 0), entry(0, 0)]).unwrap();
        let incidence = builder.finish();
        let transposed = incidence.transpose();
        assert_eq!(transposed.n_equations(), 4);
        assert_eq!(transposed.variables_of(3), [0, 1]);
        assert_eq!(transposed.variables_of(2), [0u32; 0]);
        assert_eq!(transposed.transpose(), incidence);
    }
}
