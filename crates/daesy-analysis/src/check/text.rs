//! The check as a report for a person.

use std::fmt::Write as _;

use daesy_structure::Verification;
use daesy_structure::words::enumerate;

use super::{Check, Verdict};
use daesy_study::stochastic::Stochastic;

/// What there is to say about a singular model.
const NOT_UNIQUE: &str =
    "The equations depend on each other, whatever the start: the model has no unique solution; see the findings.";

/// More lines than this are counted instead of listed.
const MAX_LINES: usize = 12;

/// `once`, `twice`, `3 times`.
pub(super) fn times(n: u16) -> String {
    match n {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        n => format!("{n} times"),
    }
}

fn plural(n: usize, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

impl Check {
    /// The report for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let title = self.description.as_ref().map_or(String::new(), |description| format!(": {description}"));
        let _ = writeln!(text, "Model {}{title}", self.model);
        let size = self.size;
        let _ = writeln!(
            text,
            "  {} for {}; {}, {}",
            plural(size.equations, "equation", "equations"),
            plural(size.unknowns, "unknown", "unknowns"),
            plural(size.parameters, "parameter", "parameters"),
            plural(size.inputs, "input", "inputs"),
        );
        let Some(verdict) = &self.verdict else {
            let _ = writeln!(text, "\nThere is no verdict on the model; see the errors.");
            return text;
        };
        let estimation = self.stochastic.as_ref().map(Stochastic::paragraph);
        for paragraph in verdict.paragraphs().into_iter().chain(estimation) {
            let _ = writeln!(text, "\n{paragraph}");
        }
        text
    }
}

impl Verdict {
    /// The verdict in words, a paragraph for each question; lines after the first are items of a list.
    #[must_use]
    pub fn paragraphs(&self) -> Vec<String> {
        if self.regularity.as_ref().is_some_and(|regularity| regularity.is_singular) {
            return vec![NOT_UNIQUE.to_owned()];
        }
        let mut paragraphs = vec![self.kind()];
        paragraphs.extend(self.hidden());
        paragraphs.extend(self.start());
        paragraphs.extend(self.events());
        for input in self.inputs.iter().filter(|input| input.derivatives_needed > 0) {
            paragraphs.push(format!(
                "The input `{}` is differentiated {}: it must be that smooth.",
                input.name,
                times(input.derivatives_needed)
            ));
        }
        let loops: Vec<usize> = self.block_sizes.iter().copied().filter(|&size| size > 1).collect();
        paragraphs.extend(match &loops[..] {
            [] => None,
            [size] => Some(format!("One set of {size} equations must be solved together.")),
            [largest, ..] => Some(format!(
                "{} sets of equations must be solved together; the largest has {largest} unknowns.",
                loops.len()
            )),
        });
        paragraphs
    }

    /// What kind of equations these are.
    fn kind(&self) -> String {
        let index =
            self.regularity.as_ref().map_or(self.structural_index, |regularity| regularity.differentiation_index);
        let is_static = self.degrees_of_freedom == 0 && index <= 1;
        let kind = match index {
            0 => "an ordinary differential equation (index 0)".to_owned(),
            1 if is_static => "a set of algebraic equations (index 1): nothing in it has a memory".to_owned(),
            1 => "a differential-algebraic equation of index 1: the algebraic unknowns follow directly from the states"
                .to_owned(),
            n => {
                format!("a differential-algebraic equation of index {n}: some constraints between variables are hidden")
            }
        };
        format!("It is {kind}.{}", self.confirmation())
    }

    /// Whether numbers agree.
    fn confirmation(&self) -> String {
        match &self.regularity {
            None => " Numbers could not confirm this: no consistent start was found.".to_owned(),
            Some(regularity) if regularity.agrees_with_structure => match smallest_gap(regularity) {
                Some(gap) => format!(" Numbers at the start confirm it (smallest rank gap {gap:.0e})."),
                None => String::new(),
            },
            Some(_) => " Numbers at the start disagree with what structure suggests; see the findings.".to_owned(),
        }
    }

    /// Where hidden constraints come from.
    fn hidden(&self) -> Option<String> {
        if self.hidden_constraints == 0 {
            return None;
        }
        let is_confirmed =
            self.regularity.as_ref().is_none_or(|regularity| regularity.differentiation_index >= self.structural_index);
        if self.differentiated.is_empty() && self.n_differentiated_equalities == 0 {
            let hidden = plural(self.hidden_constraints, "hidden constraint follows", "hidden constraints follow");
            return Some(format!("{hidden} from combinations of equations, which structure does not see."));
        }
        let mut words = if is_confirmed {
            let hidden = plural(self.hidden_constraints, "hidden constraint comes", "hidden constraints come");
            let n_equations = self.differentiated.len() + self.n_differentiated_equalities;
            let equations =
                if n_equations == 1 { "this equation".to_owned() } else { format!("these {n_equations} equations") };
            format!("{hidden} from differentiating {equations}:")
        } else {
            "Structure alone differentiates more than the values ask for:".to_owned()
        };
        for equation in self.differentiated.iter().take(MAX_LINES) {
            let place = if equation.place.is_empty() { String::new() } else { format!("  [{}]", equation.place) };
            let _ = write!(words, "\n  {}  ({}){place}", equation.text, times(equation.times));
        }
        if self.differentiated.len() > MAX_LINES {
            let _ = write!(words, "\n  and {} more", self.differentiated.len() - MAX_LINES);
        }
        if self.n_differentiated_equalities > 0 {
            let more = plural(self.n_differentiated_equalities, "plain equality", "plain equalities");
            let _ = write!(words, "\n  {more} from connections and declarations");
        }
        Some(words)
    }

    /// Which start values are free, follow, had to change.
    fn start(&self) -> Vec<String> {
        let mut paragraphs = Vec::new();
        let names: Vec<&str> = self.free.iter().map(String::as_str).collect();
        paragraphs.push(match (self.degrees_of_freedom, names.is_empty()) {
            (0, _) => "No start value is free: the solution follows from the equations and inputs alone.".to_owned(),
            (n, true) => format!("{} free.", plural(n, "start value is", "start values are")),
            // Without constraints every state is free and there is nothing to choose.
            (n, false) if self.following.is_empty() => {
                format!("{} free: {}.", plural(n, "start value is", "start values are"), enumerate(&names, MAX_LINES))
            }
            (n, false) => format!(
                "{} free, for instance {}.",
                plural(n, "start value is", "start values are"),
                enumerate(&names, MAX_LINES)
            ),
        });
        if !self.following.is_empty() && self.degrees_of_freedom > 0 {
            let names: Vec<&str> = self.following.iter().map(String::as_str).collect();
            let words = if names.len() == 1 { "This start value follows" } else { "These start values follow" };
            paragraphs.push(format!("{words} from the free ones: {}.", enumerate(&names, MAX_LINES)));
        }
        if !self.changed.is_empty() {
            let mut words = "These start values had to change to fit the equations:".to_owned();
            for changed in self.changed.iter().take(MAX_LINES) {
                let _ =
                    write!(words, "\n  {}: {} given, {} used", changed.name, changed.given, six_digits(changed.used));
            }
            if self.changed.len() > MAX_LINES {
                let _ = write!(words, "\n  and {} more", self.changed.len() - MAX_LINES);
            }
            paragraphs.push(words);
        }
        paragraphs
    }

    fn events(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.n_when_clauses > 0 {
            parts.push(plural(self.n_when_clauses, "when-clause", "when-clauses"));
        }
        if self.n_discrete > 0 {
            parts.push(plural(
                self.n_discrete,
                "variable that changes at events only",
                "variables that change at events only",
            ));
        }
        if parts.is_empty() { None } else { Some(format!("It has events: {}.", parts.join(" and "))) }
    }
}

fn smallest_gap(regularity: &Verification) -> Option<f64> {
    regularity.rank_decisions.iter().map(|decision| decision.gap).filter(|gap| gap.is_finite()).reduce(f64::min)
}

/// A number with six significant digits; what is left of rounding is zero.
fn six_digits(value: f64) -> String {
    if value.abs() < 1e-12 {
        return "0".to_owned();
    }
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    let size = rounded.abs();
    if rounded != 0.0 && !(1e-4..1e6).contains(&size) { format!("{rounded:e}") } else { format!("{rounded}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_six_digits_at_most() {
        assert_eq!(six_digits(0.1 + 0.2), "0.3");
        assert_eq!(six_digits(-1.0 / 3.0), "-0.333333");
        assert_eq!(six_digits(0.0), "0");
        assert_eq!(six_digits(1.5e-9), "1.5e-9");
        assert_eq!(six_digits(123_456_789.0), "1.23457e8");
    }
}
