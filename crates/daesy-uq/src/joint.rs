//! Correlated normal parameters as a linear map of independent ones.
//!
//! With the mean m and the covariance C = L L', parameters p = m + L g of independent standard normal germs g have just
//! this distribution. The germs become parameters of the model and the p are computed from them, so that every method
//! that knows independent random parameters knows correlated ones too.

use std::borrow::Cow;

use daesy_graph::VarId;
use daesy_graph::flat::{Variable, VariableKind};

use daesy_study::load::Loaded;
use daesy_study::study::JointRandom;

/// The name of a germ.
pub(super) fn germ_name(at: usize) -> String {
    format!("joint[{}]", at + 1)
}

/// The model with the germs of its correlated parameters.
pub(super) fn with_germs(loaded: &Loaded) -> Cow<'_, Loaded> {
    // Samples need no germs: their rows are points.
    let joint = loaded.study.as_ref().and_then(|study| study.joint.clone()).filter(|joint| joint.samples.is_none());
    let Some(joint) = joint else { return Cow::Borrowed(loaded) };
    let mut larger = loaded.clone();
    let flat = &mut larger.flat;
    let first = flat.variables.len() as u32;
    for at in 0..joint.names.len() {
        let mut germ = Variable::new(germ_name(at), VariableKind::Parameter, joint.span);
        germ.binding = Some(flat.graph.number(0.0));
        flat.variables.push(germ);
    }
    let JointRandom { names, mean, factor, .. } = &joint;
    for (row, name) in names.iter().enumerate() {
        let Some(var) = flat.find(&name.name) else { continue };
        let mut value = flat.graph.number(mean[row]);
        for (column, weight) in factor[row].iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
            let germ = flat.graph.var(VarId(first + column as u32));
            let weight = flat.graph.number(*weight);
            let term = flat.graph.mul(weight, germ);
            value = flat.graph.add(value, term);
        }
        flat.variables[var.index()].binding = Some(value);
    }
    Cow::Owned(larger)
}
