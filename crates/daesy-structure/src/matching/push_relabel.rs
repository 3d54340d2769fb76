//! Completion of a matching by pushing.
//!
//! Every variable carries a label, a lower bound for the number of exchanges until a free variable is found,
//! beginning with the equation it is paired with; free variables have 0. An unmatched equation takes the variable of
//! least label l_1 in it and pushes out the equation that had it; the label of that variable rises to l_2 + 1, with
//! l_2 the second least label in the equation [@goldberg1988; @kaya2013]. No path is searched, and a wrong way is not
//! walked twice by all. From time to time all labels are made exact by one breadth-first search from the free
//! variables; an equation with no label left below infinity cannot be matched any more.

use std::collections::VecDeque;

use crate::incidence::{Entry, Incidence};

use super::{Matching, UNMATCHED};

/// Label of a variable from which no free variable can be reached.
const UNREACHABLE: u32 = u32::MAX / 2;

/// A pattern by rows and by columns.
#[derive(Clone, Copy)]
pub(crate) struct BothWays<'a> {
    pub(crate) by_equation: &'a Incidence,
    pub(crate) by_variable: &'a Incidence,
}

/// Work space of the completion.
pub(crate) struct PushRelabel {
    label: Vec<u32>,
    active: VecDeque<u32>,
    reached: Vec<u32>,
}

impl PushRelabel {
    pub(crate) fn new(n_variables: usize) -> Self {
        Self { label: vec![0; n_variables], active: VecDeque::new(), reached: Vec::new() }
    }

    /// Makes `matching` maximum within the entries for which `admissible(equation, entry)` holds. All existing pairs
    /// are of that kind, `free` lists the unmatched equations and, afterwards, those that remain so, and `scope`
    /// lists the variables which these equations and the ones they can push out contain.
    pub(crate) fn complete(
        &mut self,
        pattern: BothWays<'_>,
        scope: &[u32],
        matching: &mut Matching,
        free: &mut Vec<u32>,
        admissible: impl Fn(u32, Entry) -> bool,
    ) {
        let BothWays { by_equation, by_variable } = pattern;
        self.active.clear();
        self.active.extend(free.drain(..));
        // An update looks at every variable and every entry of the scope, however few entries there are.
        let effort_per_update: usize = scope.iter().map(|&v| 1 + by_variable.entry_range(v as usize).len()).sum();
        let mut effort = usize::MAX;
        while let Some(equation) = self.active.pop_front() {
            if effort > effort_per_update {
                self.update_labels(by_variable, scope, matching, &admissible);
                effort = 0;
            }
            let mut best = UNMATCHED;
            let (mut least, mut second) = (UNREACHABLE, UNREACHABLE);
            for entry in by_equation.entries_of(equation as usize) {
                if !admissible(equation, entry) {
                    continue;
                }
                let label = self.label[entry.variable as usize];
                if label < least {
                    (best, least, second) = (entry.variable, label, least);
                } else if label < second {
                    second = label;
                }
            }
            effort += by_equation.entry_range(equation as usize).len() + 1;
            if best == UNMATCHED {
                free.push(equation);
                continue;
            }
            let pushed_out = core::mem::replace(&mut matching.equation_of_variable[best as usize], equation);
            matching.variable_of_equation[equation as usize] = best;
            self.label[best as usize] = if second < UNREACHABLE { second + 1 } else { UNREACHABLE };
            if pushed_out == UNMATCHED {
                matching.n_pairs += 1;
            } else {
                matching.variable_of_equation[pushed_out as usize] = UNMATCHED;
                self.active.push_back(pushed_out);
            }
        }
        free.sort_unstable();
    }

    /// Exact labels by a breadth-first search from the free variables.
    fn update_labels(
        &mut self,
        by_variable: &Incidence,
        scope: &[u32],
        matching: &Matching,
        admissible: &impl Fn(u32, Entry) -> bool,
    ) {
        self.reached.clear();
        for &variable in scope {
            let is_free = matching.equation_of_variable[variable as usize] == UNMATCHED;
            self.label[variable as usize] = if is_free { 0 } else { UNREACHABLE };
            if is_free {
                self.reached.push(variable);
            }
        }
        let mut head = 0;
        while head < self.reached.len() {
            let variable = self.reached[head];
            head += 1;
            let label = self.label[variable as usize] + 1;
            // By columns, the "variable" of an entry is its equation.
            for Entry { variable: equation, order } in by_variable.entries_of(variable as usize) {
                let next = matching.variable_of_equation[equation as usize];
                if next != UNMATCHED
                    && self.label[next as usize] == UNREACHABLE
                    && admissible(equation, Entry { variable, order })
                {
                    self.label[next as usize] = label;
                    self.reached.push(next);
                }
            }
        }
    }
}
