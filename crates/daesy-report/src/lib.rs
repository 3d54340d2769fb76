//! What is shown and written: pages with charts, tables and their files, objects of JSON documents, flat models as text,
//! and the checkpoints of long runs.
#![forbid(unsafe_code)]

pub mod chart;
pub mod checkpoint;
pub mod file;
pub mod flat_text;
pub mod glossary;
pub mod json;
pub mod page;
pub mod provenance;
pub mod table;
pub mod words;

pub use page::Page;
