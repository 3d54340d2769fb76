//! Functional Mock-up Units: a model as an archive that other programs run, by version 2.0 or 3.0 of their interface.
//!
//! A unit holds a description of the model in XML, one shared library that is the same for every model, and in its
//! resources the model itself: the regular form with its settings as bytes ([`model`]). What the library does with it
//! is an [`instance::Instance`]; how C calls that is the matter of the crate `daesy-fmu-library`. A unit may also hold the
//! filter of a study instead of a model ([`observer`]); to C both are something that runs ([`running::Running`]).
//!
//! The regular form is stored, not the text, because it needs nothing else to run: no parser, no library of classes, no
//! analysis of structure. It is compiled again when a unit is first instantiated, which takes milliseconds, because
//! machine code would be bound to one processor.

pub mod archive;
pub mod dependency;
pub mod description;
mod engine;
pub mod instance;
pub mod model;
pub mod observer;
pub mod running;
pub mod variable;
