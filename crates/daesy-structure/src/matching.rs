//! Maximum matching of equations with variables.
//!
//! A matching pairs equations with variables that occur in them, each at most once; a maximum matching has as many pairs as
//! possible. Its size is the structural rank of the pattern.
//!
//! The start is the greedy rule of Karp and Sipser [@karp1981]: whoever has a single possible partner left is paired with it at
//! once, which loses nothing; only when nobody is in that position a pair is guessed. What it leaves is completed by the phases
//! of Hopcroft and Karp [@hopcroft1973]: a breadth-first search from all unmatched equations finds the length of the shortest
//! augmenting paths, a depth-first search a maximal set of disjoint ones. After each phase, equations that are still unmatched
//! try any augmenting path disjoint from the others [@duff2011], so that few paths of many lengths do not cost a phase each.
//! At most O(sqrt(n)) phases of cost O(nonzeros), in practice a handful. No recursion.

use crate::incidence::{Incidence, LocalOrder};

/// Marks a missing partner in the compact arrays.
pub(crate) const UNMATCHED: u32 = u32::MAX;

/// Pairs of equations and variables, each in at most one pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Matching {
    variable_of_equation: Vec<u32>,
    equation_of_variable: Vec<u32>,
    n_pairs: usize,
}

impl Matching {
    /// No pairs.
    pub fn empty(n_equations: usize, n_variables: usize) -> Self {
        Self {
            variable_of_equation: vec![UNMATCHED; n_equations],
            equation_of_variable: vec![UNMATCHED; n_variables],
            n_pairs: 0,
        }
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.n_pairs
    }

    /// Whether there is no pair at all.
    pub fn is_empty(&self) -> bool {
        self.n_pairs == 0
    }

    /// Whether every equation and every variable has a partner.
    pub fn is_perfect(&self) -> bool {
        self.n_pairs == self.variable_of_equation.len() && self.n_pairs == self.equation_of_variable.len()
    }

    /// The variable paired with an equation.
    #[inline]
    pub fn variable_of(&self, equation: usize) -> Option<u32> {
        Some(self.variable_of_equation[equation]).filter(|&variable| variable != UNMATCHED)
    }

    /// The equation paired with a variable.
    #[inline]
    pub fn equation_of(&self, variable: usize) -> Option<u32> {
        Some(self.equation_of_variable[variable]).filter(|&equation| equation != UNMATCHED)
    }

    /// Equations without a partner, ascending.
    pub fn unmatched_equations(&self) -> Vec<u32> {
        unmatched(&self.variable_of_equation)
    }

    /// Variables without a partner, ascending.
    pub fn unmatched_variables(&self) -> Vec<u32> {
        unmatched(&self.equation_of_variable)
    }

    /// The same pairs with the roles of equations and variables exchanged.
    pub fn transpose(self) -> Matching {
        Matching {
            variable_of_equation: self.equation_of_variable,
            equation_of_variable: self.variable_of_equation,
            n_pairs: self.n_pairs,
        }
    }

    /// Compact arrays with [`UNMATCHED`] for "none".
    #[inline]
    pub(crate) fn variable_slots(&self) -> &[u32] {
        &self.variable_of_equation
    }

    /// Compact arrays with [`UNMATCHED`] for "none".
    #[inline]
    pub(crate) fn equation_slots(&self) -> &[u32] {
        &self.equation_of_variable
    }

    /// The pairs in original numbers, when those of `self` are numbers of `order`.
    pub(crate) fn in_original_numbers(&self, order: &LocalOrder) -> Matching {
        let mut original = Matching::empty(self.variable_of_equation.len(), self.equation_of_variable.len());
        for (place, &variable) in self.variable_of_equation.iter().enumerate() {
            if variable != UNMATCHED {
                original.pair(order.equations[place], order.variables[variable as usize]);
            }
        }
        original
    }

    /// Flips an augmenting path, given as its (equation, new variable) pairs: one more pair than before.
    pub(crate) fn flip(&mut self, path: impl IntoIterator<Item = (u32, u32)>) {
        for (equation, variable) in path {
            self.variable_of_equation[equation as usize] = variable;
            self.equation_of_variable[variable as usize] = equation;
        }
        self.n_pairs += 1;
    }

    fn pair(&mut self, equation: u32, variable: u32) {
        self.variable_of_equation[equation as usize] = variable;
        self.equation_of_variable[variable as usize] = equation;
        self.n_pairs += 1;
    }
}

fn unmatched(partners: &[u32]) -> Vec<u32> {
    (0u32..).zip(partners).filter(|&(_, &partner)| partner == UNMATCHED).map(|(position, _)| position).collect()
}

/// A maximum matching of the pattern, whatever the derivative orders.
pub fn maximum_matching(incidence: &Incidence) -> Matching {
    let mut matching = greedy_matching(incidence);
    let mut free = matching.unmatched_equations();
    Augmenter::new(incidence.n_equations()).complete(incidence, &mut matching, &mut free, |_, _| true);
    matching
}

/// The matching of the Karp-Sipser rule: maximal, usually very nearly maximum, in time O(nonzeros).
pub(crate) fn greedy_matching(incidence: &Incidence) -> Matching {
    let transposed = incidence.transpose();
    let n_equations = incidence.n_equations();
    let n_variables = incidence.n_variables();
    let mut matching = Matching::empty(n_equations, n_variables);
    let mut equation_degree: Vec<u32> = (0..n_equations).map(|e| incidence.entry_range(e).len() as u32).collect();
    let mut variable_degree: Vec<u32> = (0..n_variables).map(|v| transposed.entry_range(v).len() as u32).collect();
    // Those with one possible partner: equations as they are, variables shifted by n_equations.
    let mut forced: Vec<u64> = Vec::new();
    forced.extend((0..n_equations).filter(|&e| equation_degree[e] == 1).map(|e| e as u64));
    forced.extend((0..n_variables).filter(|&v| variable_degree[v] == 1).map(|v| (n_equations + v) as u64));

    let mut next_guess = 0usize;
    loop {
        let (equation, variable) = if let Some(node) = forced.pop() {
            let node = node as usize;
            if node < n_equations {
                if matching.variable_of(node).is_some() {
                    continue;
                }
                let partner =
                    incidence.variables_of(node).iter().find(|&&v| matching.equation_of(v as usize).is_none());
                let Some(&variable) = partner else { continue };
                (node as u32, variable)
            } else {
                let variable = node - n_equations;
                if matching.equation_of(variable).is_some() {
                    continue;
                }
                let partner =
                    transposed.variables_of(variable).iter().find(|&&e| matching.variable_of(e as usize).is_none());
                let Some(&equation) = partner else { continue };
                (equation, variable as u32)
            }
        } else {
            while next_guess < n_equations
                && (matching.variable_of(next_guess).is_some() || equation_degree[next_guess] == 0)
            {
                next_guess += 1;
            }
            if next_guess == n_equations {
                break;
            }
            // A guess: the variable that has the fewest other chances.
            let partner = incidence
                .variables_of(next_guess)
                .iter()
                .filter(|&&v| matching.equation_of(v as usize).is_none())
                .min_by_key(|&&v| variable_degree[v as usize]);
            let Some(&variable) = partner else {
                next_guess += 1;
                continue;
            };
            (next_guess as u32, variable)
        };

        matching.pair(equation, variable);
        for &other in incidence.variables_of(equation as usize) {
            let degree = &mut variable_degree[other as usize];
            *degree -= 1;
            if *degree == 1 && matching.equation_of(other as usize).is_none() {
                forced.push((n_equations + other as usize) as u64);
            }
        }
        for &other in transposed.variables_of(variable as usize) {
            let degree = &mut equation_degree[other as usize];
            *degree -= 1;
            if *degree == 1 && matching.variable_of(other as usize).is_none() {
                forced.push(u64::from(other));
            }
        }
    }
    matching
}

/// Work space of the augmenting searches.
///
/// Marks carry the number of the search that set them, so that a search touches only what it visits.
pub(crate) struct Augmenter {
    layer: Vec<u32>,
    layer_mark: Vec<u32>,
    visit_mark: Vec<u32>,
    cursor: Vec<u32>,
    queue: Vec<u32>,
    path: Vec<u32>,
    phase: u32,
}

/// Layer of an equation from which no augmenting path is left in this phase.
const DEAD: u32 = u32::MAX;

impl Augmenter {
    pub(crate) fn new(n_equations: usize) -> Self {
        Self {
            layer: vec![0; n_equations],
            layer_mark: vec![0; n_equations],
            visit_mark: vec![0; n_equations],
            cursor: vec![0; n_equations],
            queue: Vec::new(),
            path: Vec::new(),
            phase: 0,
        }
    }

    /// Enlarges `matching` by augmenting paths that start at the `free` equations and use only entries for which
    /// `admissible(equation, entry position)` holds, until there is none; `free` keeps the equations that remain unmatched.
    pub(crate) fn complete(
        &mut self,
        incidence: &Incidence,
        matching: &mut Matching,
        free: &mut Vec<u32>,
        admissible: impl Fn(usize, usize) -> bool,
    ) {
        free.retain(|&equation| matching.variable_of(equation as usize).is_none());
        while !free.is_empty() {
            self.phase += 1;
            if !self.layer_search(incidence, matching, free, &admissible) {
                break;
            }
            for &equation in free.iter() {
                self.layered_path(incidence, matching, equation, &admissible);
            }
            free.retain(|&equation| matching.variable_of(equation as usize).is_none());
            for &equation in free.iter() {
                self.any_path(incidence, matching, equation, &admissible);
            }
            free.retain(|&equation| matching.variable_of(equation as usize).is_none());
        }
    }

    /// Breadth-first layers of equations from the free ones; `true` when an unmatched variable is within reach.
    fn layer_search(
        &mut self,
        incidence: &Incidence,
        matching: &Matching,
        free: &[u32],
        admissible: &impl Fn(usize, usize) -> bool,
    ) -> bool {
        self.queue.clear();
        for &equation in free {
            self.enter(incidence, equation, 0);
        }
        let mut shortest = u32::MAX;
        let mut head = 0;
        while head < self.queue.len() {
            let equation = self.queue[head] as usize;
            head += 1;
            let layer = self.layer[equation];
            if layer >= shortest {
                break;
            }
            for entry in incidence.entry_range(equation) {
                if !admissible(equation, entry) {
                    continue;
                }
                let next = matching.equation_of_variable[incidence.variables()[entry] as usize];
                if next == UNMATCHED {
                    shortest = layer + 1;
                } else if self.layer_mark[next as usize] != self.phase {
                    self.enter(incidence, next, layer + 1);
                }
            }
        }
        shortest != u32::MAX
    }

    fn enter(&mut self, incidence: &Incidence, equation: u32, layer: u32) {
        let position = equation as usize;
        self.layer_mark[position] = self.phase;
        self.layer[position] = layer;
        self.cursor[position] = incidence.entry_range(position).start as u32;
        self.queue.push(equation);
    }

    /// Follows the layers from a free equation to an unmatched variable and flips the path.
    fn layered_path(
        &mut self,
        incidence: &Incidence,
        matching: &mut Matching,
        start: u32,
        admissible: &impl Fn(usize, usize) -> bool,
    ) {
        self.path.clear();
        self.path.push(start);
        while let Some(&equation) = self.path.last() {
            let position = equation as usize;
            let end = incidence.entry_range(position).end;
            let mut entry = self.cursor[position] as usize;
            let mut step = None;
            while entry < end {
                if admissible(position, entry) {
                    let next = matching.equation_of_variable[incidence.variables()[entry] as usize];
                    if next == UNMATCHED {
                        step = Some(next);
                        break;
                    }
                    let at = next as usize;
                    if self.layer_mark[at] == self.phase
                        && self.layer[at] != DEAD
                        && self.layer[at] == self.layer[position] + 1
                    {
                        step = Some(next);
                        break;
                    }
                }
                entry += 1;
            }
            self.cursor[position] = entry as u32;
            match step {
                Some(UNMATCHED) => {
                    for &equation in &self.path {
                        self.layer[equation as usize] = DEAD;
                    }
                    self.flip(incidence, matching);
                    return;
                }
                Some(next) => self.path.push(next),
                None => {
                    self.layer[position] = DEAD;
                    self.path.pop();
                }
            }
        }
    }

    /// Depth-first search, looking for an unmatched variable one step ahead, through equations not yet visited in this phase.
    fn any_path(
        &mut self,
        incidence: &Incidence,
        matching: &mut Matching,
        start: u32,
        admissible: &impl Fn(usize, usize) -> bool,
    ) {
        self.path.clear();
        if self.visit_mark[start as usize] != self.phase {
            self.visit(incidence, start);
        }
        while let Some(&equation) = self.path.last() {
            let position = equation as usize;
            let range = incidence.entry_range(position);
            if self.cursor[position] as usize == range.start {
                let ahead = range.clone().find(|&entry| {
                    admissible(position, entry)
                        && matching.equation_of_variable[incidence.variables()[entry] as usize] == UNMATCHED
                });
                if let Some(entry) = ahead {
                    self.cursor[position] = entry as u32;
                    self.flip(incidence, matching);
                    return;
                }
            }
            let mut entry = self.cursor[position] as usize;
            let mut step = None;
            while entry < range.end {
                if admissible(position, entry) {
                    let next = matching.equation_of_variable[incidence.variables()[entry] as usize];
                    // Unmatched ones do not occur: looking ahead would have found them.
                    if next != UNMATCHED && self.visit_mark[next as usize] != self.phase {
                        step = Some(next);
                        break;
                    }
                }
                entry += 1;
            }
            match step {
                Some(next) => {
                    self.cursor[position] = entry as u32;
                    self.visit(incidence, next);
                }
                None => {
                    self.cursor[position] = range.end as u32;
                    self.path.pop();
                }
            }
        }
    }

    fn visit(&mut self, incidence: &Incidence, equation: u32) {
        self.visit_mark[equation as usize] = self.phase;
        self.cursor[equation as usize] = incidence.entry_range(equation as usize).start as u32;
        self.path.push(equation);
    }

    /// Pairs every equation of the path with the variable under its cursor.
    fn flip(&mut self, incidence: &Incidence, matching: &mut Matching) {
        matching.flip(self.path.iter().map(|&row| (row, incidence.variables()[self.cursor[row as usize] as usize])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidence::{Entry, IncidenceBuilder};

    fn pattern(n_variables: usize, rows: &[&[u32]]) -> Incidence {
        let mut builder = IncidenceBuilder::new(n_variables).unwrap();
        for row in rows {
            builder.push_equation(row.iter().map(|&variable| Entry { variable, order: 0 })).unwrap();
        }
        builder.finish()
    }

    #[test]
    fn empty_patterns_have_empty_matchings() {
        let matching = maximum_matching(&pattern(0, &[]));
        assert!(matching.is_empty() && matching.is_perfect());
        let matching = maximum_matching(&pattern(2, &[&[], &[]]));
        assert!(matching.is_empty() && !matching.is_perfect());
        assert_eq!(matching.unmatched_equations(), [0, 1]);
    }

    #[test]
    fn a_wrong_greedy_pair_is_corrected_along_a_long_path() {
        // Equation i holds variables i and i + 1; the last equation holds only variable 0: one perfect matching exists.
        let n = 2000u32;
        let mut rows: Vec<Vec<u32>> = (0..n - 1).map(|i| vec![i, i + 1]).collect();
        rows.push(vec![0]);
        let rows: Vec<&[u32]> = rows.iter().map(Vec::as_slice).collect();
        let incidence = pattern(n as usize, &rows);
        // Start from the diagonal, where only the path through all equations is left.
        let mut matching = Matching::empty(n as usize, n as usize);
        for i in 0..n - 1 {
            matching.pair(i, i);
        }
        let mut free = matching.unmatched_equations();
        Augmenter::new(n as usize).complete(&incidence, &mut matching, &mut free, |_, _| true);
        assert!(free.is_empty() && matching.is_perfect());
        assert_eq!(matching.variable_of(n as usize - 1), Some(0));
        assert_eq!(matching.variable_of(0), Some(1));
    }
}
