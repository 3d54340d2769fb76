//! Random parameters: distributions, orthonormal bases, quadrature, Galerkin expansion and Sobol indices.
#![forbid(unsafe_code)]
