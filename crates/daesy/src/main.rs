//! The program `daesy`.
#![forbid(unsafe_code)]

fn main() {}
