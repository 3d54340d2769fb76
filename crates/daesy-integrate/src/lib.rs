//! Consistent start, stepping, events.
#![forbid(unsafe_code)]
