//! Units of measurement: the text a user wrote and the SI dimension it stands for.

use std::sync::Arc;

/// A unit: as written, with its dimension where the text could be read.
#[derive(Clone, PartialEq, Debug)]
pub struct Unit {
    /// As written, such as `N.m/rad`.
    pub text: Arc<str>,
}
