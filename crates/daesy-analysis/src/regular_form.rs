//! The regular form of a model: of a linear one as matrices, of any other as equations of a reduced system.

pub mod linear;
pub mod nonlinear;
