//! From RegularDae to a fast DaeSystem.
