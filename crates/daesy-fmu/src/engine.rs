//! A running model that owns what it runs on.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;

use daesy_compile::CompiledSystem;
use daesy_integrate::{Exchange, IntegrateError, Rules, SettableInputs, SimulateOptions, Snapshot};
use daesy_transfer::transfer_rule;

use crate::model::Model;

/// A model at a point, with the inputs and options that it refers to.
pub(crate) struct Engine {
    /// Refers to what the other fields own, and is dropped before them: fields are dropped in this order.
    exchange: Exchange<'static>,
    inputs: Rc<SettableInputs>,
    _options: Rc<SimulateOptions>,
    _model: Arc<Model>,
}

/// Where an engine begins.
pub(crate) enum Beginning<'a> {
    /// At a consistent start with these parameters.
    Start(&'a [f64]),
    /// Where it was.
    Snapshot(&'a Snapshot),
}

impl Engine {
    /// Begins with inputs as they are set.
    pub(crate) fn begin(
        model: &Arc<Model>,
        inputs: SettableInputs,
        options: SimulateOptions,
        beginning: &Beginning<'_>,
    ) -> Result<Self, IntegrateError> {
        let (model, inputs, options) = (Arc::clone(model), Rc::new(inputs), Rc::new(options));
        // SAFETY: All three are on the heap, where they stay until the last owner goes, and nobody hands out a mutable
        // reference to what `Arc` and `Rc` share. The engine owns one of each until after `exchange`, which alone
        // holds these references, has been dropped; `exchange` never leaves the engine, and what its methods lend
        // lives no longer than the borrow of the engine.
        let (system, lent_inputs, lent_options): (
            &'static CompiledSystem,
            &'static SettableInputs,
            &'static SimulateOptions,
        ) = unsafe { (&(*Arc::as_ptr(&model)).system, &*Rc::as_ptr(&inputs), &*Rc::as_ptr(&options)) };
        let rules = Rules { transfer: transfer_rule(system) };
        let exchange = match beginning {
            Beginning::Start(parameters) => Exchange::begin(system, parameters, lent_inputs, rules, lent_options)?,
            Beginning::Snapshot(snapshot) => Exchange::resume(system, lent_inputs, rules, lent_options, snapshot)?,
        };
        Ok(Self { exchange, inputs, _options: options, _model: model })
    }

    /// The inputs as they are now, with their slopes.
    pub(crate) fn inputs(&self) -> (Vec<f64>, Vec<f64>) {
        self.inputs.at(self.exchange.time())
    }

    /// Sets the inputs from now on.
    pub(crate) fn set_inputs(&mut self, values: &[f64], slopes: &[f64]) {
        self.inputs.set(self.exchange.time(), values, slopes);
        self.exchange.note_inputs();
    }
}

impl Deref for Engine {
    type Target = Exchange<'static>;

    fn deref(&self) -> &Self::Target {
        &self.exchange
    }
}

impl DerefMut for Engine {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.exchange
    }
}
