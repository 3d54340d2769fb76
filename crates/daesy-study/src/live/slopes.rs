//! Quantities that hold the derivative of an input which runs in straight lines.
//!
//! Such a derivative jumps at every sample. A record tells the slope after a sample, which all filters of records take;
//! a stream does not, and the slope before the sample is all there is. States do not jump with it, so that everything
//! but these quantities is the same live.

use daesy_compile::CompiledSystem;
use daesy_estimate::descriptor::ParametricModel as _;
use daesy_estimate::state_space::state_space;
use daesy_graph::{Leaf, Reach};

use super::LiveForm;
use crate::study::{Hold, InputSource, Study};

/// The input whose slope a quantity holds, by name; nothing for most.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HeldSlopes {
    /// By measurement.
    pub measurements: Vec<Option<String>>,
    /// By signal.
    pub signals: Vec<Option<String>>,
}

impl HeldSlopes {
    /// Those of a filter's form.
    pub(super) fn of(study: Option<&Study>, form: &LiveForm, theta: &[f64]) -> Self {
        let is_straight = |name: &str| {
            let mut inputs = study.into_iter().flat_map(|study| &study.inputs);
            inputs
                .any(|input| input.name == name && matches!(input.item, InputSource::Column { hold: Hold::First, .. }))
        };
        match form {
            LiveForm::Linear(study) => {
                let Ok(found) = study.coefficients(theta).and_then(|all| state_space(&all, &[])) else {
                    return Self::default();
                };
                let held = |row: usize, terms: &[faer::Mat<f64>]| {
                    let holds = |&at: &usize| terms.iter().skip(1).any(|term| term[(row, at)] != 0.0);
                    let mut inputs = (0..study.inputs.len()).filter(holds).map(|at| &study.inputs[at].name);
                    inputs.find(|name| is_straight(name)).cloned()
                };
                let (measured, estimated) = (&found.value.measured.inputs, &found.value.estimated.inputs);
                Self {
                    measurements: (0..study.measured.len()).map(|row| held(row, measured)).collect(),
                    signals: (0..study.estimated.len()).map(|row| held(row, estimated)).collect(),
                }
            }
            LiveForm::Nonlinear(study, _) => {
                let held = Held::new(&study.system, &is_straight);
                let (measured, signals) = study.observed_places();
                let by_place = |places: &[u32]| places.iter().map(|&place| held.of_observed(place)).collect();
                Self { measurements: by_place(measured), signals: by_place(signals) }
            }
        }
    }

    /// All quantities and inputs that are meant, by name and in order.
    #[must_use]
    pub fn named<'n>(&'n self, measurements: &'n [String], signals: &'n [String]) -> Vec<[&'n str; 2]> {
        let pairs = |held: &'n [Option<String>], names: &'n [String]| {
            let pairs = held.iter().zip(names);
            pairs.filter_map(|(input, name)| Some([name.as_str(), input.as_deref()?])).collect::<Vec<_>>()
        };
        let mut all = pairs(&self.measurements, measurements);
        all.extend(pairs(&self.signals, signals));
        all.dedup();
        all
    }
}

/// Which unknowns of a system hold slopes.
struct Held<'s> {
    system: &'s CompiledSystem,
    is_straight: &'s dyn Fn(&str) -> bool,
    /// By unknown, in the order of solution.
    unknowns: Vec<Option<String>>,
}

impl<'s> Held<'s> {
    fn new(system: &'s CompiledSystem, is_straight: &'s dyn Fn(&str) -> bool) -> Self {
        let regular = system.regular();
        let mut held = Self { system, is_straight, unknowns: vec![None; regular.unknowns.len()] };
        for block in &regular.blocks {
            let range = block.start as usize..(block.start + block.len) as usize;
            let input = range.clone().find_map(|row| held.of(system.residual_rows()[row]));
            held.unknowns[range].fill(input);
        }
        held
    }

    /// The input whose slope an expression holds.
    fn of(&self, expr: daesy_graph::ExprId) -> Option<String> {
        let regular = self.system.regular();
        let mut leaves = Vec::new();
        Reach::new().leaves(self.system.graph(), &[expr], &mut leaves);
        leaves.into_iter().find_map(|leaf| {
            let Leaf::Var { var, order } = leaf else { return None };
            if let Some(at) = regular.unknowns.iter().position(|known| (known.var, known.order) == (var, order)) {
                return self.unknowns[at].clone();
            }
            let name = &regular.flat.variables.get(var.index())?.name;
            let is_input = regular.inputs.iter().any(|input| input.var == var);
            (order > 0 && is_input && (self.is_straight)(name)).then(|| name.clone())
        })
    }

    fn of_observed(&self, place: u32) -> Option<String> {
        self.of(*self.system.observed_rows().get(place as usize)?)
    }
}
