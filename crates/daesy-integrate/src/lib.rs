//! Consistent start, stepping, events.
