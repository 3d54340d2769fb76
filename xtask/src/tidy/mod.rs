//! The rules of the house that no compiler checks.

mod bibliography;
mod documents;
mod layers;
mod sources;
mod words;

use crate::problem::{self, Problem};
use crate::workspace::Workspace;

pub use bibliography::{Bibliography, citations_in};

/// Files larger than this do not belong into the tree.
const LARGEST_FILE: u64 = 1 << 20;

/// Checks the whole tree, prints what is wrong, and returns whether nothing is.
pub fn run(workspace: &Workspace) -> bool {
    let problems = check(workspace);
    let n_problems = problems.len();
    let is_tidy = problem::report(problems);
    println!(
        "tidy: {}",
        if is_tidy { "nothing to complain about".to_owned() } else { format!("{n_problems} problems") }
    );
    is_tidy
}

fn check(workspace: &Workspace) -> Vec<Problem> {
    let mut problems = layers::check(&layers::packages(&workspace.metadata));
    let bib_text = workspace.read("references.bib").unwrap_or_default();
    let bibliography = Bibliography::parse(&bib_text);
    problems.extend(bibliography.problems("references.bib"));

    let files = workspace.files();
    for file in &files {
        if file.n_bytes > LARGEST_FILE {
            problems.push(Problem::of_file(&file.path, format!("{} bytes; files stay below 1 MiB", file.n_bytes)));
            continue;
        }
        problems.extend(sources::check_path(&file.path));
        let Some(text) = workspace.read(&file.path) else { continue };
        problems.extend(words::check(&file.path, &text));
        problems.extend(bibliography.check_citations(&file.path, &text));
        if file.path.ends_with(".rs") {
            problems.extend(sources::check_text(&file.path, &text));
        }
        if file.path.ends_with(".md") {
            problems.extend(documents::check_links(&file.path, &text, |path| workspace.root.join(path).exists()));
        }
    }
    let crates: Vec<&str> = files.iter().filter_map(|file| crate_of_manifest(&file.path)).collect();
    for name in &crates {
        let root = ["lib.rs", "main.rs"].iter().find_map(|file| {
            let path = format!("crates/{name}/src/{file}");
            workspace.read(&path).map(|text| (path, text))
        });
        if let Some((path, text)) = root {
            problems.extend(sources::check_crate_root(name, &path, &text));
        }
    }
    problems.extend(documents::check_promises(&crates, |path| workspace.read(path)));
    problems
}

/// The folder name of a crate, from the path of its manifest.
fn crate_of_manifest(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml").filter(|name| !name.contains('/'))
}
