//! Modelica text to a flat differential-algebraic equation.
