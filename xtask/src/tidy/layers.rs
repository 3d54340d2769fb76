//! Which crate may use which: the table of the house, enforced from the crates' manifests.

use serde_json::Value;

use crate::problem::Problem;

/// A crate and the crates of the house it may use.
struct Layer {
    name: &'static str,
    may_use: &'static [&'static str],
}

const LAYERS: &[Layer] = &[
    Layer { name: "daesy-graph", may_use: &[] },
    Layer { name: "daesy-model", may_use: &["daesy-graph"] },
    Layer { name: "daesy-pencil", may_use: &[] },
    Layer { name: "daesy-random", may_use: &[] },
    Layer { name: "daesy-structure", may_use: &["daesy-graph", "daesy-pencil"] },
    Layer { name: "daesy-system", may_use: &[] },
    Layer { name: "daesy-compile", may_use: &["daesy-graph", "daesy-system"] },
    Layer { name: "daesy-integrate", may_use: &["daesy-system"] },
    Layer { name: "daesy-estimate", may_use: &["daesy-system", "daesy-integrate", "daesy-pencil", "daesy-random"] },
    Layer { name: "daesy-chaos", may_use: &["daesy-graph", "daesy-pencil", "daesy-structure", "daesy-random"] },
    Layer {
        name: "daesy-transfer",
        may_use: &[
            "daesy-graph",
            "daesy-pencil",
            "daesy-structure",
            "daesy-system",
            "daesy-compile",
            "daesy-integrate",
        ],
    },
    Layer { name: "daesy-foreign", may_use: &["daesy-graph"] },
    Layer {
        name: "daesy-study",
        may_use: &[
            "daesy-graph",
            "daesy-model",
            "daesy-pencil",
            "daesy-structure",
            "daesy-system",
            "daesy-compile",
            "daesy-integrate",
            "daesy-estimate",
            "daesy-chaos",
            "daesy-transfer",
            "daesy-foreign",
        ],
    },
    Layer {
        name: "daesy-report",
        may_use: &["daesy-graph", "daesy-model", "daesy-structure", "daesy-transfer", "daesy-study"],
    },
    Layer {
        name: "daesy-analysis",
        may_use: &[
            "daesy-graph",
            "daesy-structure",
            "daesy-system",
            "daesy-integrate",
            "daesy-pencil",
            "daesy-transfer",
            "daesy-foreign",
            "daesy-study",
            "daesy-report",
        ],
    },
    Layer {
        name: "daesy-inference",
        may_use: &[
            "daesy-graph",
            "daesy-structure",
            "daesy-system",
            "daesy-integrate",
            "daesy-pencil",
            "daesy-estimate",
            "daesy-study",
            "daesy-report",
        ],
    },
    Layer {
        name: "daesy-uq",
        may_use: &[
            "daesy-graph",
            "daesy-model",
            "daesy-structure",
            "daesy-system",
            "daesy-compile",
            "daesy-integrate",
            "daesy-chaos",
            "daesy-study",
            "daesy-report",
            "daesy-analysis",
        ],
    },
    Layer { name: "daesy-lsp", may_use: &["daesy-graph", "daesy-model", "daesy-study", "daesy-analysis"] },
    // A unit may hold the filter of a study, which is written once.
    Layer {
        name: "daesy-fmu",
        may_use: &[
            "daesy-graph",
            "daesy-system",
            "daesy-compile",
            "daesy-integrate",
            "daesy-estimate",
            "daesy-transfer",
            "daesy-study",
        ],
    },
    Layer { name: "daesy-fmu-library", may_use: &["daesy-fmu"] },
    Layer {
        name: "daesy",
        may_use: &[
            "daesy-graph",
            "daesy-model",
            "daesy-pencil",
            "daesy-random",
            "daesy-structure",
            "daesy-system",
            "daesy-compile",
            "daesy-integrate",
            "daesy-estimate",
            "daesy-chaos",
            "daesy-transfer",
            "daesy-foreign",
            "daesy-study",
            "daesy-report",
            "daesy-analysis",
            "daesy-inference",
            "daesy-uq",
            "daesy-lsp",
            "daesy-fmu",
            "daesy-fmu-library",
        ],
    },
    Layer { name: "daesy-py", may_use: &["daesy"] },
    Layer { name: "xtask", may_use: &[] },
];

/// Crates that nothing below may use, not even in tests.
const FACADES: [&str; 2] = ["daesy", "daesy-py"];

/// What a manifest says about one dependency.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The package's name, also where it is renamed.
    pub name: String,
    /// Whether only tests, examples and benchmarks see it.
    pub is_dev: bool,
    /// Whether it comes from a git repository.
    pub is_git: bool,
}

/// A package of the workspace with what it depends on.
#[derive(Clone, Debug)]
pub struct Package {
    /// Name of the package.
    pub name: String,
    /// All dependencies of all kinds and targets.
    pub dependencies: Vec<Dependency>,
}

/// Reads the workspace's packages from `cargo metadata`.
pub fn packages(metadata: &Value) -> Vec<Package> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list(&metadata["packages"])
        .iter()
        .map(|package| Package {
            name: text(&package["name"]),
            dependencies: list(&package["dependencies"])
                .iter()
                .map(|dependency| Dependency {
                    name: text(&dependency["name"]),
                    is_dev: dependency["kind"] == "dev",
                    is_git: text(&dependency["source"]).starts_with("git+"),
                })
                .collect(),
        })
        .collect()
}

/// Compares the packages with the table.
pub fn check(packages: &[Package]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for package in packages {
        let manifest = match package.name.as_str() {
            "xtask" => "xtask/Cargo.toml".to_owned(),
            name => format!("crates/{name}/Cargo.toml"),
        };
        let Some(layer) = LAYERS.iter().find(|layer| layer.name == package.name) else {
            problems.push(Problem::of_file(&manifest, "the crate is not in the layer table of `cargo xtask tidy`"));
            continue;
        };
        for dependency in &package.dependencies {
            if dependency.is_git {
                problems
                    .push(Problem::of_file(&manifest, format!("{} comes from git, not a registry", dependency.name)));
            }
            let is_ours = LAYERS.iter().any(|layer| layer.name == dependency.name);
            let is_allowed = layer.may_use.contains(&dependency.name.as_str());
            if !is_ours || is_allowed {
                continue;
            }
            if !dependency.is_dev {
                let allowed =
                    if layer.may_use.is_empty() { "no crate of ours".to_owned() } else { layer.may_use.join(", ") };
                problems.push(Problem::of_file(
                    &manifest,
                    format!("{} may not use {}; it may use {allowed}", package.name, dependency.name),
                ));
            } else if FACADES.contains(&dependency.name.as_str()) {
                problems.push(Problem::of_file(
                    &manifest,
                    format!("{} may not use the facade {}, not even in tests", package.name, dependency.name),
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, bool)]) -> Package {
        let dependencies = dependencies
            .iter()
            .map(|(name, is_dev)| Dependency { name: (*name).to_owned(), is_dev: *is_dev, is_git: false })
            .collect();
        Package { name: name.to_owned(), dependencies }
    }

    #[test]
    fn what_the_table_allows_passes() {
        let packages = [
            package("daesy-structure", &[("daesy-graph", false), ("daesy-pencil", false), ("faer", false)]),
            package("daesy-structure", &[("daesy-model", true)]),
            package("daesy", &[("daesy-model", false), ("daesy-compile", false)]),
            package("daesy-py", &[("daesy", false), ("pyo3", false)]),
        ];
        assert_eq!(check(&packages), []);
    }

    #[test]
    fn a_step_up_or_aside_is_refused() {
        let up = check(&[package("daesy-graph", &[("daesy-model", false)])]);
        assert_eq!(up.len(), 1);
        assert!(up[0].message.contains("daesy-graph may not use daesy-model"), "{}", up[0]);
        assert_eq!(check(&[package("daesy-integrate", &[("daesy-compile", false)])]).len(), 1);
        assert_eq!(check(&[package("daesy-py", &[("daesy-graph", false)])]).len(), 1);
        assert_eq!(check(&[package("xtask", &[("daesy-graph", false)])]).len(), 1);
    }

    #[test]
    fn tests_may_look_aside_but_not_at_the_facade() {
        assert_eq!(check(&[package("daesy-graph", &[("daesy-model", true)])]), []);
        assert_eq!(check(&[package("daesy-graph", &[("daesy", true)])]).len(), 1);
    }

    #[test]
    fn unknown_crates_and_git_sources_are_refused() {
        assert_eq!(check(&[package("daesy-new", &[])]).len(), 1);
        let mut odd = package("daesy-graph", &[("smallvec", false)]);
        odd.dependencies[0].is_git = true;
        assert_eq!(check(&[odd]).len(), 1);
    }

    #[test]
    fn metadata_is_read() {
        let metadata: Value = serde_json::from_str(
            r#"{"packages": [{"name": "daesy-model", "dependencies": [
                {"name": "daesy-graph", "kind": null, "source": null},
                {"name": "fastrand", "kind": "dev", "source": "git+somewhere"}]}]}"#,
        )
        .expect("valid JSON");
        let packages = packages(&metadata);
        assert_eq!(packages[0].name, "daesy-model");
        assert!(!packages[0].dependencies[0].is_dev);
        assert!(packages[0].dependencies[1].is_dev && packages[0].dependencies[1].is_git);
    }

    #[test]
    fn the_table_itself_has_no_cycle() {
        for (position, layer) in LAYERS.iter().enumerate() {
            for used in layer.may_use {
                let below = LAYERS.iter().position(|other| other.name == *used);
                assert!(below.is_some_and(|below| below < position), "{} uses {used}", layer.name);
            }
        }
    }
}
