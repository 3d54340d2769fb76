//! The program as a user runs it: its verdicts, its words, its exit status and its files.

mod attack;
mod campbell;
mod checkpoints;
mod clocks;
mod data_files;
mod discontinuities;
mod estimation;
mod estimation_starts;
mod events;
mod hidden_structure;
mod json;
mod language;
mod limits;
mod misled;
mod mistakes;
mod prediction;
mod problems;
mod session;
mod starts;
mod structure;
mod study_files;
mod terminal;
mod tolerances;
mod traps;
mod units;
mod uq;
