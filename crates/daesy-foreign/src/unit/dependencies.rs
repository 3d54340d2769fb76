//! What depends on what, as a unit says.

use super::function;
use super::{Arguments, Unit};

impl Unit {
    /// What the description says that an unknown depends on; `None`: on everything.
    fn said_dependencies(&self, function: u32, output: usize) -> Option<&Vec<usize>> {
        if function == function::DERIVATIVES {
            return self.description.states[output].derivative.dependencies.as_ref();
        }
        let scalar = self.values[output];
        self.description.outputs.iter().find(|unknown| unknown.scalar == scalar)?.dependencies.as_ref()
    }

    /// The same, unless the unit was found to leave some out.
    pub(super) fn believed_dependencies(&self, function: u32, output: usize) -> Option<&Vec<usize>> {
        let is_wrong = self.probed().is_some_and(|probed| probed.hidden_dependency.is_some());
        self.said_dependencies(function, output).filter(|_| !is_wrong)
    }

    /// Whether the description says that some unknown does not depend on everything.
    pub(crate) fn declares_dependencies(&self, function: u32) -> bool {
        (0..self.n_outputs(function)).any(|output| self.said_dependencies(function, output).is_some())
    }

    /// Whether the description lets an unknown depend on an argument.
    pub(crate) fn is_said_to_depend(&self, function: u32, output: usize, argument: usize) -> bool {
        self.depends_on(self.said_dependencies(function, output), argument)
    }

    /// The name of an unknown.
    pub(crate) fn unknown_name(&self, function: u32, output: usize) -> String {
        let scalars = &self.description.scalars;
        match function {
            function::DERIVATIVES => format!("der({})", scalars[self.description.states[output].state].name),
            _ => scalars[self.values[output]].name.clone(),
        }
    }

    /// The name of a state or input among the arguments.
    pub(crate) fn argument_name(&self, at: usize) -> String {
        let place = at - 2;
        let states = self.description.states.iter().map(|state| state.state);
        let scalar = states.chain(self.inputs.iter().copied()).nth(place);
        scalar.map_or_else(String::new, |scalar| self.description.scalars[scalar].name.clone())
    }

    /// Whether an unknown of the model structure depends on an argument of the functions of a point.
    pub(super) fn depends_on(&self, dependencies: Option<&Vec<usize>>, input: usize) -> bool {
        let Arguments { n_states, n_inputs, .. } = self.arguments;
        let is_listed = |scalar: usize| dependencies.is_none_or(|list| list.contains(&scalar));
        match input {
            0 => true,
            1 => false,
            at if at < 2 + n_states => is_listed(self.description.states[at - 2].state),
            at if at < 2 + n_states + n_inputs => is_listed(self.inputs[at - 2 - n_states]),
            at => self.moved.contains(&(at - 2 - n_states - n_inputs)),
        }
    }
}
