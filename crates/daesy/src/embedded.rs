//! Files that are part of the program: the component library and the demo.

pub use daesy_study::embedded::FILES;

/// The files of the demo: names and texts.
pub const DEMO: &[(&str, &str)] = &[
    ("model.mo", include_str!("../demo/model.mo")),
    ("study.toml", include_str!("../demo/study.toml")),
    ("identify.toml", include_str!("../demo/identify.toml")),
    ("servo.csv", include_str!("../demo/servo.csv")),
];

/// The study to simulate among them.
pub const DEMO_STUDY: &str = "study.toml";

/// The study to identify among them.
pub const DEMO_DATA_STUDY: &str = "identify.toml";

/// What the data of the demo were made with.
pub const DEMO_TRUTH: &[(&str, f64)] = &[("spring.c", 20.0), ("motor.d", 2e-4), ("sigma", 0.1)];

/// Pictures of the demo: title, unit and the variables shown.
pub const DEMO_CHARTS: &[(&str, &str, &[&str])] = &[
    ("Angle of the disk", "rad", &["phi"]),
    ("Speeds of motor and disk", "rad/s", &["motor.rotor.w", "disk.w"]),
    ("Torque in the spring", "N.m", &["spring.tau"]),
    ("Current of the motor", "A", &["motor.inductor.i"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demo_has_its_study() {
        for study in [DEMO_STUDY, DEMO_DATA_STUDY] {
            assert!(DEMO.iter().any(|(name, text)| *name == study && !text.is_empty()));
        }
    }
}
