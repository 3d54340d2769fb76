//! Which states and inputs each rate and each observed quantity depends on, by the structure of the equations.
//!
//! Unknowns are solved block by block: those of a block depend on the states and inputs of its equations and on
//! whatever the unknowns of earlier blocks depend on. Where constraints bind the states, every state moves the point on
//! the constraints at which all others are taken; then nothing can be said, and everything counts as dependent.

use daesy_system::{DaeSystem, Part, Rate};

/// Models with more states and inputs than this are not analysed.
const MAX_KNOWN: usize = 2000;

/// A set of states, then inputs.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Known(Vec<u64>);

impl Known {
    fn new(n: usize) -> Self {
        Self(vec![0; n.div_ceil(64)])
    }

    fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    fn members(&self, n: usize) -> Vec<usize> {
        (0..n).filter(|at| self.0[at / 64] >> (at % 64) & 1 == 1).collect()
    }
}

/// What rates, observed quantities and event functions depend on: states by their position, inputs after them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dependencies {
    /// By state: what its rate depends on.
    pub rates: Vec<Vec<usize>>,
    /// By observed quantity.
    pub observed: Vec<Vec<usize>>,
}

/// The dependencies of a system; none where all may depend on all.
#[must_use]
pub fn dependencies(system: &dyn DaeSystem) -> Option<Dependencies> {
    let description = system.description();
    let (n_states, n_known) = (description.states.len(), description.states.len() + description.n_inputs);
    if !description.constraints.is_empty() || n_known > MAX_KNOWN || description.observed.len() > 100 * MAX_KNOWN {
        return None;
    }
    let direct = |by_states: Part, by_inputs: Part| -> Vec<Known> {
        let (states, inputs) = (system.pattern(by_states), system.pattern(by_inputs));
        let mut rows = vec![Known::new(n_known); states.n_rows];
        states.entries().for_each(|(row, column)| rows[row].insert(column));
        inputs.entries().for_each(|(row, column)| rows[row].insert(n_states + column));
        rows
    };
    let residuals = direct(Part::ResidualByStates, Part::ResidualByInputs);
    let by_unknowns = system.pattern(Part::ResidualByUnknowns);
    let mut unknowns = vec![Known::new(n_known); description.unknowns.len()];
    for block in &description.blocks {
        let members = block.start as usize..(block.start + block.len) as usize;
        let mut all = Known::new(n_known);
        for row in members.clone() {
            all.join(&residuals[row]);
            for entry in by_unknowns.row(row) {
                let column = by_unknowns.columns[entry] as usize;
                if column < members.start {
                    all.join(&unknowns[column].clone());
                }
            }
        }
        members.for_each(|member| unknowns[member] = all.clone());
    }
    let mut observed = direct(Part::ObservedByStates, Part::ObservedByInputs);
    for (row, column) in system.pattern(Part::ObservedByUnknowns).entries() {
        observed[row].join(&unknowns[column]);
    }
    let rate = |rate: &Rate| match *rate {
        Rate::State(state) => vec![state as usize],
        Rate::Unknown(unknown) => unknowns[unknown as usize].members(n_known),
    };
    Some(Dependencies {
        rates: description.rates.iter().map(rate).collect(),
        observed: observed.iter().map(|known| known.members(n_known)).collect(),
    })
}
