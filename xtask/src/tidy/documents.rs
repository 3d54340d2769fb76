//! Documents stay true: their links lead somewhere and they name what exists.

use pulldown_cmark::{Event, Options, Parser, Tag};

use crate::problem::Problem;

/// The two commands a newcomer types.
const README_COMMANDS: [&str; 2] = ["cargo run --release -- demo", "cargo xtask test"];

/// Checks that relative links and pictures of a Markdown file exist.
pub fn check_links(path: &str, text: &str, exists: impl Fn(&str) -> bool) -> Vec<Problem> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut problems = Vec::new();
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        let (Event::Start(Tag::Link { dest_url, .. }) | Event::Start(Tag::Image { dest_url, .. })) = event else {
            continue;
        };
        let target = dest_url.split('#').next().unwrap_or_default();
        if target.is_empty() || target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        if !exists(&join(folder, target)) {
            let line = text[..range.start].matches('\n').count() + 1;
            problems.push(Problem::at(path, line, format!("the link to {target} leads nowhere")));
        }
    }
    problems
}

/// Checks what the documents promise to hold.
pub fn check_promises(crates: &[&str], read: impl Fn(&str) -> Option<String>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut demand = |path: &str, wanted: &str| match read(path) {
        None => problems.push(Problem::of_file(path, "is missing")),
        Some(text) if !text.contains(wanted) => {
            problems.push(Problem::of_file(path, format!("does not mention {wanted}")))
        }
        Some(_) => {}
    };
    for command in README_COMMANDS {
        demand("README.md", command);
    }
    for name in crates {
        demand("ARCHITECTURE.md", &format!("`{name}`"));
    }
    demand("CHANGELOG.md", "## Unreleased");
    demand("CONTRIBUTING.md", "cargo xtask test");
    demand("LICENSE-MIT", "MIT License");
    demand("LICENSE-APACHE", "Apache License");
    problems
}

/// A path relative to a folder, with `..` resolved.
fn join(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_are_found_with_their_line() {
        let text = "[a](there.md#x)\n\n[b](../gone.md) and [c](https://example.org) and [d](#here)\n";
        let problems = check_links("book/src/x.md", text, |path| path == "book/src/there.md");
        assert_eq!(problems, [Problem::at("book/src/x.md", 3, "the link to ../gone.md leads nowhere")]);
    }

    #[test]
    fn promises_are_held() {
        let read = |path: &str| match path {
            "README.md" => Some(README_COMMANDS.join("\n")),
            "ARCHITECTURE.md" => Some("`daesy-graph`".to_owned()),
            "CHANGELOG.md" => Some("## Unreleased".to_owned()),
            "CONTRIBUTING.md" => Some("cargo xtask test".to_owned()),
            "LICENSE-MIT" => Some("MIT License".to_owned()),
            _ => None,
        };
        let problems = check_promises(&["daesy-graph", "daesy-new"], read);
        assert_eq!(
            problems,
            [
                Problem::of_file("ARCHITECTURE.md", "does not mention `daesy-new`"),
                Problem::of_file("LICENSE-APACHE", "is missing"),
            ]
        );
    }
}
