//! The program as a user runs it: its verdicts, its words, its exit status and its files.

mod campbell;
mod discontinuities;
mod estimation;
mod events;
mod json;
mod misled;
mod prediction;
mod problems;
mod session;
mod structure;
mod study_files;
mod traps;
mod uq;
