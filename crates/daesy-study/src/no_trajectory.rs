//! Why there is no trajectory, in the same words whoever asked for it.

use daesy_compile::CompiledSystem;
use daesy_graph::EvaluationError;
use daesy_graph::flat::VariableKind;
use daesy_integrate::IntegrateError;
use daesy_structure::words::enumerate;
use daesy_system::{DaeSystem, EventLabel};

use crate::diagnostic::Diagnostic;
use crate::failure::Failure;

/// A model that was to be followed.
pub(crate) struct NoTrajectory<'a> {
    pub system: &'a CompiledSystem,
    pub start_time: f64,
}

impl NoTrajectory<'_> {
    /// A failed integration with place and names.
    pub(crate) fn failure(&self, error: &IntegrateError) -> Failure {
        if let Some(failure) = self.system.regular().flat.graph.foreign_failure() {
            let told = Diagnostic::error(failure.code, failure.message).with_help(failure.help);
            let own = Diagnostic::error("integration", error.to_string());
            return Failure::Method(vec![
                told,
                own.with_help("the unit gave no values any more: see the other finding"),
            ]);
        }
        if let Some(diagnostic) = self.endless_function() {
            return Failure::Input(vec![diagnostic]);
        }
        let mut is_of_model = false;
        let mut names = Vec::new();
        let declared: String;
        let definition = match error {
            IntegrateError::ObservedNotFinite { variable, .. } => self.definition_of(variable),
            _ => None,
        };
        let (code, place, help) = match error {
            IntegrateError::NoConsistentStart { place, equation, also, .. } => {
                let off: Vec<&str> =
                    std::iter::once(equation).chain(also.iter().map(|of| &of.equation)).map(String::as_str).collect();
                let help = if let Some(asked) = self.excess_of_start_conditions(&off) {
                    is_of_model = true;
                    asked
                } else {
                    "the equations may have no solution there: look at the values at which the search ended; a start value that is \
                     `fixed = true`, an initial equation or a parameter may ask too much, or the search needs a better guess in \
                     `start`"
                        .to_owned()
                };
                ("no-consistent-start", place.as_str(), help)
            }
            IntegrateError::NotFinite { time, place, variable, .. } => {
                names.extend((!variable.is_empty()).then(|| variable.clone()));
                ("not-finite", place.as_str(), self.domain_help(variable, *time))
            }
            IntegrateError::ObservedNotFinite { time, variable } => {
                names.push(variable.clone());
                let place = definition.as_ref().map_or("", |definition| &definition.place);
                ("not-finite", place, self.domain_help("", *time))
            }
            IntegrateError::IntegerOverflow { variable, .. } => {
                names.push(variable.clone());
                let help = "declare it Real if it need not be exact, or keep it smaller";
                ("integer-range", "", help.to_owned())
            }
            IntegrateError::StepTooSmall { variable, place, .. } => {
                names.push(variable.clone());
                let help = "the solution may have a singularity or a discontinuity here; look at the variables around this time, \
                            or loosen rtol";
                ("step-too-small", place.as_str(), help.to_owned())
            }
            IntegrateError::Singular { variable, .. } => {
                names.push(variable.clone());
                let help = "`daesy check` names equations that depend on each other at the start";
                ("singular-equations", "", help.to_owned())
            }
            IntegrateError::InfiniteSlope { variable, place, .. } => {
                names.push(variable.clone());
                let help = format!(
                    "linearize where the equation can be differentiated: give another `start` value of `{variable}`, or --at"
                );
                ("singular-slope", place.as_str(), help)
            }
            IntegrateError::Unsolved { variable, place, .. } => {
                names.push(variable.clone());
                let help = "the equations may have no solution beyond this time: look at the values at which the search ended, end the \
                            simulation before, or tighten rtol";
                ("unsolved-equations", place.as_str(), help.to_owned())
            }
            IntegrateError::SingularMode { variable, place, .. } => {
                names.push(variable.clone());
                let help = "the equations of this branch do not determine all unknowns: either one is missing, or the branch has \
                            another index than the others (an ideal switch that cuts the current of a coil, or shorts a \
                            capacitor); give an open switch a small conductance and a closed one a small resistance";
                ("singular-mode", place.as_str(), help.to_owned())
            }
            IntegrateError::Unsettled { names: changing, place, .. } => {
                is_of_model = true;
                names.extend(changing.iter().cloned());
                declared = changing.iter().find_map(|name| self.declared_at(name)).unwrap_or_default();
                let help = "relations and discrete variables that depend on each other need `pre` in a when-clause, or a hysteresis";
                ("event-unsettled", if place.is_empty() { declared.as_str() } else { place }, help.to_owned())
            }
            IntegrateError::ContradictingReinit { variable, place, .. } => {
                is_of_model = true;
                names.push(variable.clone());
                ("contradicting-reinit", place.as_str(), "`reinit` one of them: the others follow".to_owned())
            }
            IntegrateError::Chattering { place, .. } => {
                let help = "no mixture of both sides of the relation stays where it changes, along which the solution could slide; use a \
                            wider hysteresis, a smooth transition, or an equation for the sliding motion";
                ("chattering", place.as_str(), help.to_owned())
            }
            IntegrateError::Accumulating { place, .. } => {
                let help = "infinitely many events happen in finite time; add a state of rest that begins when the motion has become \
                            small, or end the simulation before";
                ("accumulating-events", place.as_str(), help.to_owned())
            }
            IntegrateError::Assertion { place, .. } => {
                is_of_model = true;
                let help = "an `assert` of the model, or a limit of something that it uses there, such as a subscript, is violated";
                ("assertion", place.as_str(), help.to_owned())
            }
            IntegrateError::NoTransfer { .. } => {
                is_of_model = true;
                ("state-transfer", "", "make the inputs smooth, or let only one of them jump at a time".to_owned())
            }
            IntegrateError::TooManySteps { .. } => (
                "too-many-steps",
                "",
                "shorten the time span, loosen rtol, or allow more by `max_steps` below `[simulate]`".to_owned(),
            ),
            IntegrateError::TooShortSteps { .. } => {
                let help = "the solution may stay at a jump that makes no event, as `sign`, `abs` and `noEvent` make none: write it as \
                            an if-expression with a relation; or something is very fast: shorten the time span, loosen rtol, or \
                            allow more steps by `max_steps` below `[simulate]`";
                ("too-many-steps", "", help.to_owned())
            }
            IntegrateError::TooManyTicks { .. } => {
                let help = "lengthen the interval, or shorten the time span";
                ("too-many-steps", "", help.to_owned())
            }
            IntegrateError::Stopped { .. } => ("stopped", "", "run it again to go on from the start".to_owned()),
            _ => ("integration", "", "look at the variables around this time".to_owned()),
        };
        let mut message = error.to_string();
        if let Some(definition) = &definition {
            message = format!("{message}, where {}", definition.text);
        }
        let mut diagnostic = Diagnostic::error(code, message).with_help(help);
        diagnostic.names = names;
        let all = vec![diagnostic.at_place(place)];
        if is_of_model { Failure::Input(all) } else { Failure::Method(all) }
    }

    /// Where a variable is declared.
    fn declared_at(&self, name: &str) -> Option<String> {
        let flat = &self.system.regular().flat;
        let var = flat.find(name)?;
        flat.sources.place(flat.variables[var.index()].span).map(|place| place.to_string())
    }

    /// What to do where an equation has no value: that depends on who gives its variable the value it has.
    fn domain_help(&self, variable: &str, time: f64) -> String {
        let causes = "a division by zero, a root or logarithm of a negative number, or an overflow";
        let flat = &self.system.regular().flat;
        let kind = flat.find(variable).map(|var| flat.variables[var.index()].kind);
        let is_start = time <= self.start_time;
        match kind {
            Some(VariableKind::Parameter | VariableKind::Constant) => {
                format!("{causes}: give the parameter `{variable}` another value")
            }
            Some(VariableKind::Input) => format!("{causes}: keep the input `{variable}` where the equation is defined"),
            Some(_) if is_start => {
                format!("{causes}: give `{variable}` a `start` value at which the equation is defined")
            }
            None if is_start => format!("{causes}; give a `start` value at which the equation is defined"),
            _ => format!(
                "{causes}: the solution left what the equation is defined for; end the simulation before, or write the \
                 equation so that it goes on, such as with `max({}, 1e-9)`",
                if variable.is_empty() { "x" } else { variable }
            ),
        }
    }

    /// A function whose evaluation did not end: it has no value, and whatever failed then failed because of it.
    fn endless_function(&self) -> Option<Diagnostic> {
        let flat = &self.system.regular().flat;
        let endless = flat.graph.endless()?;
        let diagnostic = Diagnostic::error("limit", endless.to_string())
            .with_help("a loop or a recursion in it does not end for the arguments that it is given");
        let EvaluationError::StepLimit { function: name, .. } = endless else { return Some(diagnostic) };
        let function = flat.graph.functions().iter().find(|function| function.name == *name);
        let place = function.and_then(|function| flat.sources.place(function.span));
        Some(diagnostic.at_place(&place.map_or_else(String::new, |place| place.to_string())))
    }

    /// The equation that a variable which is no unknown any more was eliminated by.
    fn definition_of(&self, name: &str) -> Option<EventLabel> {
        let regular = self.system.regular();
        let flat = &regular.flat;
        let is_it =
            |eliminated: &&daesy_graph::regular::Eliminated| flat.variables[eliminated.var.index()].name == name;
        let equation = &flat.equations[regular.eliminated.iter().find(is_it)?.source as usize];
        let place = flat.sources.place(equation.span).map_or(String::new(), |place| place.to_string());
        Some(EventLabel { text: flat.equation_text(equation), place })
    }

    /// What to say when more is asked of the start than is free. Where the search ends nearest to all of it, what does
    /// not hold contradicts each other; the other conditions have no part in it.
    fn excess_of_start_conditions(&self, off: &[&str]) -> Option<String> {
        let description = self.system.description();
        let n_asked = description.initial.len();
        let n_free = self.system.regular().verdict.degrees_of_freedom + description.free_parameters.len();
        if n_asked <= n_free {
            return None;
        }
        let mut asked: Vec<&str> = description.initial.iter().map(|label| label.text.as_str()).collect();
        if asked.iter().any(|text| off.contains(text)) {
            asked.retain(|text| off.contains(text));
        }
        Some(format!(
            "{n_asked} conditions are set for the start, but only {n_free} can be: take back `fixed = true` or an initial \
             equation among {}",
            enumerate(&asked, 12)
        ))
    }
}
