//! Files that are part of the program: the component library and the demo.

/// The component library, by path.
pub const FILES: &[(&str, &str)] = &[];

/// The files of the demo.
pub const DEMO: &[(&str, &str)] = &[("servo.mo", ""), ("servo.toml", "")];

/// The study among them.
pub const DEMO_STUDY: &str = "servo.toml";

/// Pictures of the demo: title, unit and the variables shown.
pub const DEMO_CHARTS: &[(&str, &str, &[&str])] = &[];
