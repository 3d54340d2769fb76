//! Linear descriptor systems on plain matrices.
