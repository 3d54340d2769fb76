//! The shared library inside exported Functional Mock-up Units: the C interface to `daesy_fmu::instance::Instance`.
//!
//! One library serves every model and both versions of the interface: it reads the model from the resources of the unit
//! that it is in. What a caller promises is what the interface demands: a component is null or what an `instantiate`
//! function gave and `freeInstance` has not taken back, is used by one thread at a time, and arrays have the lengths
//! that are said with them. Every pointer is compared with null before it is used; no panic leaves the library; memory
//! that the library gives is taken back by the library.
//!
//! Names are those of the interface's headers.
#![allow(non_snake_case, reason = "the interface names its functions")]
#![allow(clippy::missing_safety_doc, reason = "what callers promise is the same for all and stands above")]
#![allow(clippy::too_many_arguments, reason = "the interface says which")]

mod cache;
mod component;
pub mod fmi2;
pub mod fmi3;
