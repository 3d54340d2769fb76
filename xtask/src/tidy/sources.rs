//! Rust source rules: names of files, opening sentences, unsafe code, and doors to the outside.

use crate::problem::Problem;

/// Names that say nothing about what a module is for.
const EMPTY_NAMES: [&str; 8] = ["util", "utils", "misc", "helper", "helpers", "common", "stuff", "extra"];

/// The crates that may hold `unsafe`: vector code that runs after a run-time check, a value that refers to what it
/// owns, and the C interface, from either side.
const UNSAFE_CRATES: [&str; 5] = ["daesy-compile", "daesy-fmu", "daesy-fmu-library", "daesy-foreign", "daesy-random"];

/// Crates in which files, processes and the terminal live; units of other tools run in processes of their own.
const CRATES_WITH_DOORS: [&str; 4] = ["daesy", "daesy-foreign", "daesy-lsp", "daesy-py"];

/// Files below the facade that read: packages over folders and MODELICAPATH, because the language says which; studies,
/// their data and how much memory there is; units, the model in their resources. And those that write: files whole or not
/// at all, and where a page comes from.
const FILES_WITH_DOORS: [&str; 9] = [
    "crates/daesy-fmu-library/src/cache.rs",
    "crates/daesy-model/src/file.rs",
    "crates/daesy-model/src/library.rs",
    "crates/daesy-report/src/file.rs",
    "crates/daesy-report/src/provenance.rs",
    "crates/daesy-study/src/data.rs",
    "crates/daesy-study/src/limits.rs",
    "crates/daesy-study/src/linear_model.rs",
    "crates/daesy-study/src/load.rs",
];

const DOORS: [&str; 9] = [
    "println!",
    "eprintln!",
    "print!",
    "eprint!",
    "std::fs",
    "std::net",
    "std::process",
    "std::env::var",
    "std::io::std",
];

/// Checks the name of a Rust or Python module.
pub fn check_path(path: &str) -> Vec<Problem> {
    if !(path.ends_with(".rs") || path.ends_with(".py")) {
        return Vec::new();
    }
    let is_empty_name = |part: &str| {
        let stem = part.split('.').next().unwrap_or(part);
        EMPTY_NAMES.contains(&stem) || stem.ends_with("_extra")
    };
    path.split('/')
        .filter(|part| is_empty_name(part))
        .map(|part| Problem::of_file(path, format!("`{part}` says nothing; name the module after its idea")))
        .collect()
}

/// Checks the text of a Rust file.
pub fn check_text(path: &str, text: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if is_module_file(path) && !opens_with_sentence(text) {
        problems.push(Problem::at(path, 1, "a module opens with a `//!` sentence that says what it is for"));
    }
    for (line_idx, line) in text.lines().enumerate() {
        let declared =
            line.trim_start().trim_start_matches("pub(crate) ").trim_start_matches("pub ").strip_prefix("mod ");
        let declared = declared.map(|rest| rest.trim_end_matches([' ', ';', '{']));
        if let Some(name) = declared.filter(|name| EMPTY_NAMES.contains(name) || name.ends_with("_extra")) {
            problems.push(Problem::at(
                path,
                line_idx + 1,
                format!("`{name}` says nothing; name the module after its idea"),
            ));
        }
    }
    problems.extend(check_doors(path, text));
    problems
}

/// Checks the root file of a crate.
pub fn check_crate_root(name: &str, path: &str, text: &str) -> Vec<Problem> {
    if UNSAFE_CRATES.contains(&name) || text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]") {
        return Vec::new();
    }
    vec![Problem::at(path, 1, "the crate root says #![forbid(unsafe_code)]")]
}

fn is_module_file(path: &str) -> bool {
    let mut parts = path.split('/');
    matches!((parts.next(), parts.next(), parts.next()), (Some("crates"), Some(_), Some("src")))
        || path.starts_with("xtask/src/")
}

/// Whether the file's first item is an inner doc paragraph that ends like a sentence.
fn opens_with_sentence(text: &str) -> bool {
    let mut paragraph = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(sentence) = line.strip_prefix("//!") {
            if sentence.trim().is_empty() && !paragraph.is_empty() {
                break;
            }
            paragraph.push_str(sentence.trim());
        } else if paragraph.is_empty() && (line.is_empty() || line.starts_with("#![")) {
            continue;
        } else {
            break;
        }
    }
    paragraph.ends_with(['.', ':', '!', '?', ')'])
}

/// Input and output in a crate that has none; the file's tests, which come last, are exempt.
fn check_doors(path: &str, text: &str) -> Vec<Problem> {
    let Some((owner, inside)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/")) else {
        return Vec::new();
    };
    let is_test_file = inside.ends_with("tests.rs") || inside.contains("tests/");
    if CRATES_WITH_DOORS.contains(&owner) || FILES_WITH_DOORS.contains(&path) || is_test_file {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for (line_idx, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            break;
        }
        if line.trim_start().starts_with("//") {
            continue;
        }
        if let Some(door) = DOORS.iter().find(|door| line.contains(*door)) {
            problems.push(Problem::at(
                path,
                line_idx + 1,
                format!("`{door}`: input and output live in the crate daesy alone"),
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_refused() {
        assert_eq!(check_path("crates/a/src/utils.rs").len(), 1);
        assert_eq!(check_path("crates/a/src/helpers/mod.rs").len(), 1);
        assert_eq!(check_path("crates/a/src/matching_extra.rs").len(), 1);
        assert_eq!(check_path("crates/a/src/commonality.rs"), []);
        assert_eq!(check_path("problems/common/model.mo"), []);
        let text = "//! One sentence.\npub(crate) mod misc {\n}\nmod matching;\n";
        assert_eq!(check_text("crates/a/src/lib.rs", text).len(), 1);
    }

    #[test]
    fn modules_open_with_a_sentence() {
        assert_eq!(check_text("crates/a/src/b.rs", "//! Solves it.\n"), []);
        assert_eq!(
            check_text("crates/a/src/b.rs", "#![forbid(unsafe_code)]\n\n//! Solves\n//! it.\n//!\n//! more\n"),
            []
        );
        assert_eq!(check_text("crates/a/src/b.rs", "use std::fmt;\n//! Too late.\n").len(), 1);
        assert_eq!(check_text("crates/a/src/b.rs", "//! no full stop\nfn f() {}\n").len(), 1);
        assert_eq!(check_text("crates/a/src/b.rs", "").len(), 1);
        assert_eq!(check_text("crates/a/tests/b.rs", "fn f() {}\n"), []);
    }

    #[test]
    fn unsafe_is_forbidden_but_in_few_crates() {
        assert_eq!(check_crate_root("daesy-graph", "p", "//! A.\n#![forbid(unsafe_code)]\n"), []);
        assert_eq!(check_crate_root("daesy-graph", "p", "//! A.\n").len(), 1);
        assert_eq!(check_crate_root("daesy-compile", "p", "//! A.\n"), []);
    }

    #[test]
    fn doors_are_in_the_facade_only() {
        let text = "//! Prints.\nfn f() {\n    println!(\"x\");\n}\n// println! in a comment\n";
        assert_eq!(check_text("crates/daesy-graph/src/a.rs", text).len(), 1);
        assert_eq!(check_text("crates/daesy/src/a.rs", text), []);
        let tested = "//! Quiet.\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n";
        assert_eq!(check_text("crates/daesy-graph/src/a.rs", tested), []);
    }
}
