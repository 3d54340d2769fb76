//! Sliding along the surface where a relation changes [@filippov1988].
//!
//! Where the equations with a relation false, F0, and with it true, F1, both lead to the surface g = 0 of the relation,
//! no solution in the usual sense goes on. Filippov's does: on the surface, with the rates of both sides mixed so that
//! it stays there,
//!
//! ```text
//! (1 - w) F0(t, s, v) + w F1(t, s, v) = 0        n equations for v
//! dg/dt (t, s, v) = 0                            one more for the weight w,   0 <= w <= 1
//! g(t, s) = 0                                    a constraint of the states
//! ```
//!
//! until w leaves its interval and the solution the surface, to the side whose equations are left alone [@dieci2012;
//! @acary2008]. Where F0 and F1 have the same dF/dv, as forces that jump do in mechanics, mixed residuals are mixed
//! rates. The mixture is a system like any other, with one unknown more and one constraint more, so that every method
//! goes on as it is; a second surface on the way is a mixture of the mixture. A surface that both sides reach with a
//! finite rate is needed: the relation must depend on states, and its rate on the unknowns that the relation changes.
//! Discrete variables that follow from the relation alone, as `on` does in `on = x > 0`, belong to its sides.
//!
//! Relations may share a border, as `x > y` and `y > x` do: their event functions are multiples of each other. Such
//! partners turn over with the relation, so that F0 and F1 are the equations on the two sides of the surface.

use std::collections::BTreeMap;

use daesy_system::{
    DaeSystem, Description, EquationLabel, Evaluator, EventLabel, GivenParameter, LaneEvaluator, ParameterError, Part,
    Pattern, Persistence, Point, Quantity, Root, StartOrigin,
};

/// A system on the surface of one of its relations.
pub(crate) struct SlidingSystem<'s> {
    base: &'s dyn DaeSystem,
    description: Description,
    /// Patterns of the parts that differ from those of the base.
    patterns: BTreeMap<Part, Pattern>,
    root: usize,
    /// Position of the relation among the modes.
    mode: usize,
    /// The modes that differ between both sides, with their values where the relation is false and where it is true.
    sides: Vec<ModeOfSides>,
    /// Event functions of other relations with the same border.
    partners: Vec<usize>,
    /// Observed quantities that are discrete variables: these are not mixed.
    discrete: Vec<usize>,
    /// What w may be beyond 0 and 1 before the surface is left.
    slack: f64,
}

/// A mode that differs between both sides of a relation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModeOfSides {
    pub(crate) mode: usize,
    pub(crate) when_false: f64,
    pub(crate) when_true: f64,
}

/// Parts of which the residuals' rows are made, with what gives the last row.
const RESIDUAL_PARTS: [(Part, Part); 5] = [
    (Part::ResidualByUnknowns, Part::RootRatesByUnknowns),
    (Part::ResidualByStates, Part::RootRatesByStates),
    (Part::ResidualByTime, Part::RootRatesByTime),
    (Part::ResidualByParameters, Part::RootRatesByParameters),
    (Part::ResidualByInputs, Part::RootRatesByInputs),
];

/// Parts of the event functions and their rates, to which the exits add rows without entries.
const ROOT_PARTS: [Part; 10] = [
    Part::RootsByUnknowns,
    Part::RootsByStates,
    Part::RootsByTime,
    Part::RootsByParameters,
    Part::RootsByInputs,
    Part::RootRatesByUnknowns,
    Part::RootRatesByStates,
    Part::RootRatesByTime,
    Part::RootRatesByParameters,
    Part::RootRatesByInputs,
];

/// The same of constraints.
const CONSTRAINT_PARTS: [(Part, Part); 4] = [
    (Part::ConstraintByStates, Part::RootsByStates),
    (Part::ConstraintByTime, Part::RootsByTime),
    (Part::ConstraintByParameters, Part::RootsByParameters),
    (Part::ConstraintByInputs, Part::RootsByInputs),
];

/// Event functions that a sliding system has beside those of its base: w and 1 - w, both with their slack.
pub(crate) const N_EXITS: usize = 2;

impl<'s> SlidingSystem<'s> {
    /// A system on the surface of an event function, which those of other relations may share.
    pub(crate) fn new(
        base: &'s dyn DaeSystem,
        root: usize,
        partners: Vec<usize>,
        sides: Vec<ModeOfSides>,
        slack: f64,
    ) -> Self {
        let mut description = base.description().clone();
        let is_discrete =
            |name: &String| description.events.discrete.iter().any(|known| !known.is_real && known.name == *name);
        let whole = base.whole_observed();
        let observed = description.observed.iter().enumerate();
        let discrete =
            observed.filter(|(at, name)| is_discrete(name) || whole.contains(at)).map(|(at, _)| at).collect();
        let events = &mut description.events;
        let held = events.roots[root].held;
        let mode = events.n_switched() + held as usize;
        let label: EventLabel = events.held[held as usize].clone();
        events.roots.extend([Root { held, is_zero_above: true }; N_EXITS]);
        events.roots_need_unknowns = true;
        description.n_roots += N_EXITS;
        let n = description.unknowns.len();
        description.unknowns.push(Quantity {
            name: format!("weight of `{}`", label.text),
            nominal: 1.0,
            start: 0.5,
            start_origin: StartOrigin::Guess,
            min: 0.0,
            max: 1.0,
            persistence: Persistence::Default,
        });
        let equation = |differentiated: u16| EquationLabel {
            text: format!("border of {}", label.text),
            place: label.place.clone(),
            differentiated,
        };
        description.residuals.push(equation(1));
        description.constraints.push(equation(0));
        description.blocks = vec![daesy_system::Block { start: 0, len: n as u32 + 1, is_linear: false }];
        let mut patterns = BTreeMap::new();
        for (part, last) in RESIDUAL_PARTS {
            let own = base.pattern(part);
            let mut pattern = if part == Part::ResidualByUnknowns { with_column(own) } else { own.clone() };
            pattern.n_rows += 1;
            let rates = base.pattern(last);
            pattern.columns.extend(&rates.columns[rates.row(root)]);
            pattern.row_starts.push(pattern.columns.len() as u32);
            patterns.insert(part, pattern);
        }
        for (part, last) in CONSTRAINT_PARTS {
            let (mut pattern, roots) = (base.pattern(part).clone(), base.pattern(last));
            pattern.n_rows += 1;
            pattern.columns.extend(&roots.columns[roots.row(root)]);
            pattern.row_starts.push(pattern.columns.len() as u32);
            patterns.insert(part, pattern);
        }
        for (part, n_more) in [(Part::Residual, 1), (Part::Constraint, 1), (Part::Roots, N_EXITS)] {
            let n_rows = base.pattern(part).n_rows + n_more;
            let pattern =
                Pattern { n_rows, n_cols: 1, row_starts: (0..=n_rows as u32).collect(), columns: vec![0; n_rows] };
            patterns.insert(part, pattern);
        }
        patterns.insert(Part::ObservedByUnknowns, with_column(base.pattern(Part::ObservedByUnknowns)));
        for part in ROOT_PARTS {
            let mut pattern = base.pattern(part).clone();
            pattern.n_rows += N_EXITS;
            let end = pattern.columns.len() as u32;
            pattern.row_starts.extend([end; N_EXITS]);
            if matches!(part, Part::RootsByUnknowns | Part::RootRatesByUnknowns) {
                pattern.n_cols += 1;
            }
            patterns.insert(part, pattern);
        }
        Self { base, description, patterns, root, mode, sides, partners, discrete, slack }
    }

    /// Whether the surface is not left with a weight.
    pub(crate) fn is_inside(&self, weight: f64) -> bool {
        weight >= -self.slack && weight <= 1.0 + self.slack
    }

    /// The event functions that end sliding.
    pub(crate) fn exits(&self) -> std::ops::Range<usize> {
        self.description.n_roots - N_EXITS..self.description.n_roots
    }

    /// Gives modes the values of a side.
    pub(crate) fn take_side(&self, is_true: bool, modes: &mut [f64]) {
        for side in &self.sides {
            modes[side.mode] = if is_true { side.when_true } else { side.when_false };
        }
    }
}

/// A pattern with an entry in a column more at the end of every row.
fn with_column(pattern: &Pattern) -> Pattern {
    let mut wider = Pattern {
        n_rows: pattern.n_rows,
        n_cols: pattern.n_cols + 1,
        row_starts: vec![0],
        columns: Vec::with_capacity(pattern.columns.len() + pattern.n_rows),
    };
    for row in 0..pattern.n_rows {
        wider.columns.extend(&pattern.columns[pattern.row(row)]);
        wider.columns.push(pattern.n_cols as u32);
        wider.row_starts.push(wider.columns.len() as u32);
    }
    wider
}

impl DaeSystem for SlidingSystem<'_> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn pattern(&self, part: Part) -> &Pattern {
        self.patterns.get(&part).unwrap_or_else(|| self.base.pattern(part))
    }

    fn evaluator(&self) -> Box<dyn Evaluator + '_> {
        Box::new(SlidingEvaluator {
            system: self,
            base: self.base.evaluator(),
            modes: Vec::new(),
            low: Vec::new(),
            high: Vec::new(),
        })
    }

    fn lane_evaluator(&self, n_lanes: usize) -> Box<dyn LaneEvaluator + '_> {
        self.base.lane_evaluator(n_lanes)
    }

    fn is_elsewhere(&self) -> bool {
        self.base.is_elsewhere()
    }

    fn whole_observed(&self) -> Vec<usize> {
        self.base.whole_observed()
    }

    fn noise(&self) -> f64 {
        self.base.noise()
    }

    fn next_switch(&self, point: &Point<'_>, until: f64) -> f64 {
        let unknowns = point.unknowns.split_last().map_or(point.unknowns, |(_, unknowns)| unknowns);
        self.base.next_switch(&Point { unknowns, ..*point }, until)
    }

    fn parameter_values(&self, given: &[GivenParameter]) -> Result<Vec<f64>, ParameterError> {
        self.base.parameter_values(given)
    }

    fn follow_free_parameters(&self, parameters: &mut [f64]) {
        self.base.follow_free_parameters(parameters);
    }
}

struct SlidingEvaluator<'s> {
    system: &'s SlidingSystem<'s>,
    base: Box<dyn Evaluator + 's>,
    modes: Vec<f64>,
    /// Values with the relation false and true.
    low: Vec<f64>,
    high: Vec<f64>,
}

impl SlidingEvaluator<'_> {
    /// Evaluates a part of the base with the relation false and true.
    fn both(&mut self, part: Part, point: &Point<'_>) {
        let n = self.system.base.pattern(part).n_entries();
        self.low.resize(n, 0.0);
        self.high.resize(n, 0.0);
        self.modes.clear();
        self.modes.extend_from_slice(point.modes);
        self.system.take_side(false, &mut self.modes);
        self.base.evaluate(part, &Point { modes: &self.modes, ..*point }, &mut self.low);
        self.system.take_side(true, &mut self.modes);
        self.base.evaluate(part, &Point { modes: &self.modes, ..*point }, &mut self.high);
    }

    /// (1 - w) low + w high
    fn mix(&mut self, weight: f64) {
        for (low, high) in self.low.iter_mut().zip(&self.high) {
            *low += weight * (high - *low);
        }
    }

    /// Rows that were mixed, each with its derivative by the weight: the jump between both sides.
    fn with_jumps(&self, part: Part, jumps: &[f64], values: &mut [f64]) {
        let (base, own) = (self.system.base.pattern(part), &self.system.patterns[&part]);
        for (row, jump) in jumps.iter().enumerate() {
            let entries = own.row(row);
            values[entries.start..entries.end - 1].copy_from_slice(&self.low[base.row(row)]);
            values[entries.end - 1] = *jump;
        }
    }

    /// The entries of the row of the event function in a part of the base.
    fn row_of_root(&mut self, part: Part, point: &Point<'_>, values: &mut [f64]) {
        let pattern = self.system.base.pattern(part);
        self.low.resize(pattern.n_entries(), 0.0);
        self.base.evaluate(part, point, &mut self.low);
        values.copy_from_slice(&self.low[pattern.row(self.system.root)]);
    }
}

impl Evaluator for SlidingEvaluator<'_> {
    fn evaluate(&mut self, part: Part, point: &Point<'_>, values: &mut [f64]) {
        let system = self.system;
        // Initial conditions and the like never ask for the weight.
        let (unknowns, weight) = match point.unknowns.split_last() {
            Some((&weight, unknowns)) => (unknowns, weight),
            None => (point.unknowns, 0.0),
        };
        let point = &Point { unknowns, ..*point };
        match part {
            Part::Residual => {
                self.both(part, point);
                self.mix(weight);
                let n = values.len() - 1;
                values[..n].copy_from_slice(&self.low);
                self.row_of_root(Part::RootRates, point, &mut values[n..]);
            }
            Part::ResidualByUnknowns => {
                self.both(Part::Residual, point);
                let jumps: Vec<f64> = self.high.iter().zip(&self.low).map(|(high, low)| high - low).collect();
                self.both(part, point);
                self.mix(weight);
                self.with_jumps(part, &jumps, values);
                let own = &system.patterns[&part];
                self.row_of_root(Part::RootRatesByUnknowns, point, &mut values[own.row(jumps.len())]);
            }
            Part::ResidualByStates | Part::ResidualByTime | Part::ResidualByParameters | Part::ResidualByInputs => {
                self.both(part, point);
                self.mix(weight);
                let n = self.low.len();
                values[..n].copy_from_slice(&self.low);
                if let Some(&(_, last)) = RESIDUAL_PARTS.iter().find(|(own, _)| *own == part) {
                    self.row_of_root(last, point, &mut values[n..]);
                }
            }
            Part::Constraint => {
                let n = values.len() - 1;
                self.base.evaluate(part, point, &mut values[..n]);
                self.row_of_root(Part::Roots, point, &mut values[n..]);
            }
            Part::ConstraintByStates
            | Part::ConstraintByTime
            | Part::ConstraintByParameters
            | Part::ConstraintByInputs => {
                let n = system.base.pattern(part).n_entries();
                self.base.evaluate(part, point, &mut values[..n]);
                if let Some(&(_, last)) = CONSTRAINT_PARTS.iter().find(|(own, _)| *own == part) {
                    self.row_of_root(last, point, &mut values[n..]);
                }
            }
            Part::Observed => {
                self.both(part, point);
                let is_true = point.modes[system.mode] == 1.0;
                let held = if is_true { &self.high } else { &self.low };
                let held: Vec<f64> = system.discrete.iter().map(|&at| held[at]).collect();
                self.mix(weight);
                values.copy_from_slice(&self.low);
                system.discrete.iter().zip(held).for_each(|(&at, held)| values[at] = held);
            }
            Part::ObservedByStates | Part::ObservedByParameters | Part::ObservedByInputs => {
                self.both(part, point);
                self.mix(weight);
                values.copy_from_slice(&self.low);
            }
            Part::ObservedByUnknowns => {
                self.both(Part::Observed, point);
                let mut jumps: Vec<f64> = self.high.iter().zip(&self.low).map(|(high, low)| high - low).collect();
                system.discrete.iter().for_each(|&at| jumps[at] = 0.0);
                self.both(part, point);
                self.mix(weight);
                self.with_jumps(part, &jumps, values);
            }
            Part::Roots => {
                let n = values.len() - N_EXITS;
                self.base.evaluate(part, point, &mut values[..n]);
                // The surface itself is not left by crossing it.
                values[system.root] = 1.0;
                system.partners.iter().for_each(|&partner| values[partner] = 1.0);
                values[n] = weight + system.slack;
                values[n + 1] = 1.0 - weight + system.slack;
            }
            Part::Modes => {
                self.base.evaluate(part, point, values);
                let events = &system.base.description().events;
                let of = |&partner: &usize| events.n_switched() + events.roots[partner].held as usize;
                let turned = system.partners.iter().map(of).chain([system.mode]);
                turned.for_each(|mode| values[mode] = point.modes[mode]);
            }
            _ => self.base.evaluate(part, point, values),
        }
    }
}

/// How an event function moves on both sides of its surface.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Approach {
    /// Rate of the event function with the relation false.
    pub(crate) rate_false: f64,
    /// Rate of the event function with the relation true.
    pub(crate) rate_true: f64,
    /// Whether the relation is true where the event function is above zero.
    pub(crate) is_true_above: bool,
}

impl Approach {
    /// The weight of the equations with the relation true that keeps the event function at zero, where both sides lead
    /// to the surface.
    pub(crate) fn weight(self) -> Option<f64> {
        let (below, above) =
            if self.is_true_above { (self.rate_false, self.rate_true) } else { (self.rate_true, self.rate_false) };
        let leads_to_surface = below > 0.0 && above < 0.0;
        leads_to_surface.then(|| self.rate_false / (self.rate_false - self.rate_true))
    }
}

#[cfg(test)]
mod tests {
    use super::Approach;

    #[test]
    fn only_surfaces_that_both_sides_lead_to_are_slid_along() {
        let approach = |rate_false, rate_true, is_true_above| Approach { rate_false, rate_true, is_true_above };
        assert_eq!(approach(3.0, -1.0, true).weight(), Some(0.75));
        assert_eq!(approach(-1.0, 3.0, false).weight(), Some(0.25));
        assert_eq!(approach(3.0, 1.0, true).weight(), None);
        assert_eq!(approach(-1.0, 3.0, true).weight(), None);
        assert_eq!(approach(f64::NAN, -3.0, true).weight(), None);
    }
}
