//! The contract between models and methods.
