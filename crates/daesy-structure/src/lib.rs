//! From FlatDae to RegularDae: incidence, matching, offsets, blocks, verification.
