//! Tearing: a few variables of an algebraic loop are guessed, all others follow explicitly, the remaining equations
//! are residuals.
//!
//! For a block f(z) = 0 the result is an order of the variables z = (t, e) and of the equations such that
//!
//! ```text
//! e_1 = g_1(t),  e_2 = g_2(t, e_1),  ..,  e_m = g_m(t, e_1 .. e_(m-1)),    0 = r(t, e),   dim r = dim t,
//! ```
//!
//! where e_k is taken only from an equation that can be solved for it explicitly. A smallest t is hard to find; the
//! rules here are greedy, in the manner of [@cellier2006, sec. 7.4]:
//!
//! 1. an equation with one unknown left, solvable for it, gives that unknown;
//! 2. a variable that occurs in one remaining equation only, solvable for it, is computed from it at the end;
//! 3. otherwise tear the variable which leaves most equations with one solvable unknown, among those the one in most
//!    equations.
//!
//! Counters are kept up to date as variables become known: O(nonzeros log n). Explicit chains may be long and then
//! amplify errors; the caller must look at the conditioning of the torn system.

use std::collections::BinaryHeap;

use crate::blocks::BlockTriangularForm;
use crate::incidence::{Incidence, LocalOrder};

/// An explicit step of a torn block: the equation is solved for the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Equation that is solved.
    pub equation: u32,
    /// Variable it gives.
    pub variable: u32,
}

/// A block with its iteration variables and the explicit steps for all others.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TornBlock {
    /// Variables to iterate on.
    pub tearing_variables: Vec<u32>,
    /// Explicit steps in the order of evaluation, given the tearing variables.
    pub assignments: Vec<Assignment>,
    /// Equations to be driven to zero, as many as tearing variables.
    pub residual_equations: Vec<u32>,
}

/// Tears one block after the other, reusing its work space.
///
/// Inside, equations and variables are numbered by their places in the block-triangular form, so that a block is
/// contiguous.
pub struct Tearer<'a> {
    form: &'a BlockTriangularForm,
    /// Entries inside the blocks, with order 1 where the equation can be solved for the variable and 0 elsewhere.
    inner: Incidence,
    transposed: Incidence,
    /// Unknowns left in an equation of the block at hand.
    n_unknowns: Vec<u32>,
    is_open_equation: Vec<bool>,
    is_unknown: Vec<bool>,
    /// Open equations of the block that hold a variable.
    n_occurrences: Vec<u32>,
    /// Equations with two unknowns that would give the other one.
    n_released: Vec<u32>,
    single_unknown: Vec<u32>,
    single_occurrence: Vec<u32>,
    candidates: BinaryHeap<Candidate>,
}

/// A variable that may be torn; the order of the fields is the order of preference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    n_released: u32,
    n_occurrences: u32,
    variable: u32,
}

impl<'a> Tearer<'a> {
    /// `is_solvable` says for each entry of `incidence` whether its equation can be solved explicitly for its
    /// variable; entries beyond its length cannot. `form` is the block-triangular form of `incidence`, or of a part
    /// of it.
    pub fn new(incidence: &Incidence, is_solvable: &[bool], form: &'a BlockTriangularForm) -> Self {
        let order = LocalOrder { equations: form.equations().to_vec(), variables: form.variables().to_vec() };
        let solvable = incidence.with_orders(|entry| u8::from(is_solvable.get(entry).copied().unwrap_or(false)));
        let local = solvable.renumber(&order);
        let mut block_of_place = Vec::with_capacity(form.equations().len());
        for (block_idx, block) in (0u32..).zip(form.blocks()) {
            block_of_place.resize(block_of_place.len() + block.size(), block_idx);
        }
        let inner =
            local.filter(|place, entry| block_of_place[local.variables()[entry] as usize] == block_of_place[place]);
        let n = form.equations().len();
        Self {
            form,
            transposed: inner.transpose(),
            inner,
            n_unknowns: vec![0; n],
            is_open_equation: vec![false; n],
            is_unknown: vec![false; n],
            n_occurrences: vec![0; n],
            n_released: vec![0; n],
            single_unknown: Vec::new(),
            single_occurrence: Vec::new(),
            candidates: BinaryHeap::new(),
        }
    }

    /// Tears a block, given by its place in the order of solution; variables outside of it count as known.
    pub fn tear(&mut self, block_idx: usize) -> TornBlock {
        let places = self.form.places(block_idx);
        self.open(places.clone());
        let original_equation = |place: u32| self.form.equations()[place as usize];
        let original_variable = |place: u32| self.form.variables()[place as usize];
        let assignment = |equation: u32, variable: u32| Assignment {
            equation: original_equation(equation),
            variable: original_variable(variable),
        };
        let mut torn = TornBlock::default();
        let mut at_the_end: Vec<Assignment> = Vec::new();
        loop {
            if let Some(equation) = self.single_unknown.pop() {
                if let Some(variable) = self.only_unknown(equation) {
                    torn.assignments.push(assignment(equation, variable));
                    self.close(equation);
                    self.learn(variable);
                }
            } else if let Some(variable) = self.single_occurrence.pop() {
                if let Some(equation) = self.only_occurrence(variable) {
                    at_the_end.push(assignment(equation, variable));
                    self.close(equation);
                    self.is_unknown[variable as usize] = false;
                }
            } else if let Some(candidate) = self.candidates.pop() {
                let variable = candidate.variable;
                if !self.is_unknown[variable as usize] {
                    continue;
                }
                let current = self.candidate(variable);
                if current == candidate {
                    torn.tearing_variables.push(original_variable(variable));
                    self.learn(variable);
                } else {
                    self.candidates.push(current);
                }
            } else {
                break;
            }
        }
        torn.assignments.extend(at_the_end.into_iter().rev());
        for place in places {
            if core::mem::replace(&mut self.is_open_equation[place], false) {
                torn.residual_equations.push(original_equation(place as u32));
            }
        }
        torn
    }

    fn open(&mut self, places: core::ops::Range<usize>) {
        for place in places.clone() {
            self.is_open_equation[place] = true;
            self.is_unknown[place] = true;
            self.n_unknowns[place] = self.inner.entry_range(place).len() as u32;
            self.n_occurrences[place] = self.transposed.entry_range(place).len() as u32;
            self.n_released[place] = 0;
        }
        self.candidates.clear();
        for place in places.clone() {
            match self.n_unknowns[place] {
                1 => self.single_unknown.push(place as u32),
                2 => self.count_pair(place as u32, true),
                _ => {}
            }
            if self.n_occurrences[place] == 1 {
                self.single_occurrence.push(place as u32);
            }
        }
        // Candidates pushed by the pairs above are superseded, since counts may have risen further.
        self.candidates.clear();
        for place in places {
            let candidate = self.candidate(place as u32);
            self.candidates.push(candidate);
        }
    }

    fn candidate(&self, variable: u32) -> Candidate {
        let at = variable as usize;
        Candidate { n_released: self.n_released[at], n_occurrences: self.n_occurrences[at], variable }
    }

    /// The last unknown of an open equation, if it can be solved for it.
    fn only_unknown(&self, equation: u32) -> Option<u32> {
        if !self.is_open_equation[equation as usize] || self.n_unknowns[equation as usize] != 1 {
            return None;
        }
        let unknown =
            self.inner.entries_of(equation as usize).find(|entry| self.is_unknown[entry.variable as usize])?;
        (unknown.order == 1).then_some(unknown.variable)
    }

    /// The last open equation of an unknown, if it can be solved for it.
    fn only_occurrence(&self, variable: u32) -> Option<u32> {
        if !self.is_unknown[variable as usize] || self.n_occurrences[variable as usize] != 1 {
            return None;
        }
        let mut occurrences = self.transposed.entries_of(variable as usize);
        let occurrence = occurrences.find(|entry| self.is_open_equation[entry.variable as usize])?;
        (occurrence.order == 1).then_some(occurrence.variable)
    }

    /// Takes an equation out of the count of open ones.
    fn close(&mut self, equation: u32) {
        if self.n_unknowns[equation as usize] == 2 {
            self.count_pair(equation, false);
        }
        self.is_open_equation[equation as usize] = false;
        for &variable in self.inner.variables_of(equation as usize) {
            if self.is_unknown[variable as usize] {
                let count = &mut self.n_occurrences[variable as usize];
                *count -= 1;
                if *count == 1 {
                    self.single_occurrence.push(variable);
                }
            }
        }
    }

    /// A variable has become known: its open equations have one unknown less.
    fn learn(&mut self, variable: u32) {
        for entry in self.transposed.entry_range(variable as usize) {
            let equation = self.transposed.variables()[entry];
            if !self.is_open_equation[equation as usize] {
                continue;
            }
            if self.n_unknowns[equation as usize] == 2 {
                self.count_pair(equation, false);
            }
            self.n_unknowns[equation as usize] -= 1;
        }
        self.is_unknown[variable as usize] = false;
        for entry in self.transposed.entry_range(variable as usize) {
            let equation = self.transposed.variables()[entry];
            if !self.is_open_equation[equation as usize] {
                continue;
            }
            match self.n_unknowns[equation as usize] {
                1 => self.single_unknown.push(equation),
                2 => self.count_pair(equation, true),
                _ => {}
            }
        }
    }

    /// Counts (or takes back) what an equation with two unknowns promises: knowing one gives the other, if solvable
    /// for it.
    fn count_pair(&mut self, equation: u32, is_added: bool) {
        let mut unknowns = self.inner.entries_of(equation as usize).filter(|e| self.is_unknown[e.variable as usize]);
        let (Some(first), Some(second)) = (unknowns.next(), unknowns.next()) else { return };
        for (own, other) in [(first, second), (second, first)] {
            if other.order == 0 {
                continue;
            }
            let n_released = &mut self.n_released[own.variable as usize];
            if is_added {
                *n_released += 1;
                let candidate = self.candidate(own.variable);
                self.candidates.push(candidate);
            } else {
                *n_released -= 1;
            }
        }
    }
}
