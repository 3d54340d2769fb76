//! Words that do not belong into the tree: unfinished work, switched-off tests, paths of one machine.

use crate::problem::Problem;

const TEXT_FILES: [&str; 12] =
    [".rs", ".md", ".toml", ".py", ".mo", ".sh", ".css", ".html", ".bib", ".ipynb", ".yml", ".yaml"];

/// Words that promise work instead of doing it. Written apart, so that this file passes its own check.
const UNFINISHED: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const UNFINISHED_MACROS: [&str; 2] = [concat!("to", "do!"), concat!("unimple", "mented!")];
const SWITCHED_OFF: &str = concat!("#[", "ignore");
const MACHINE_PATHS: [&str; 4] =
    [concat!("/", "work/"), concat!("/", "root/"), concat!("/", "home/"), concat!("/", "Users/")];

/// Checks the lines of a text file.
pub fn check(path: &str, text: &str) -> Vec<Problem> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_text = !name.trim_start_matches('.').contains('.') || TEXT_FILES.iter().any(|ending| name.ends_with(ending));
    if !is_text {
        return Vec::new();
    }
    let is_rust = path.ends_with(".rs");
    let mut problems = Vec::new();
    for (line_idx, line) in text.lines().enumerate() {
        let mut complain = |message: String| problems.push(Problem::at(path, line_idx + 1, message));
        for word in UNFINISHED.iter().filter(|word| has_word(line, word)) {
            complain(format!("`{word}`: do it, or leave it out and say so in the change log"));
        }
        for place in MACHINE_PATHS.iter().filter(|place| has_absolute(line, place)) {
            complain(format!("`{place}..` exists on one machine only"));
        }
        if is_rust {
            for word in UNFINISHED_MACROS.iter().filter(|word| has_word(line, word)) {
                complain(format!("`{word}` panics instead of working"));
            }
            if line.contains(SWITCHED_OFF) {
                complain("a test runs or is deleted".to_owned());
            }
        }
    }
    problems
}

fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether `word` stands in `line` with no letter, digit or underscore on either side.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        !before.is_some_and(is_word_character) && !after.is_some_and(is_word_character)
    })
}

/// Whether an absolute path that begins with `place` stands in `line`.
fn has_absolute(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| is_word_character(c) || ".~-/}*>".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        check(path, text).into_iter().map(|problem| problem.line).collect()
    }

    #[test]
    fn unfinished_work_is_found_as_a_word_only() {
        let text = format!("// {}: later\nlet {}_LIST = 1;\n// {}\n", UNFINISHED[0], UNFINISHED[0], UNFINISHED[1]);
        assert_eq!(lines_of("crates/a/src/lib.rs", &text), [1, 3]);
        assert_eq!(lines_of("notes.md", UNFINISHED[2]), [1]);
        assert_eq!(lines_of("table.csv", UNFINISHED[2]), Vec::<usize>::new());
    }

    #[test]
    fn panicking_stand_ins_and_switched_off_tests_are_found() {
        let text = format!(
            "fn f() {{ {}() }}\nfn g() {{ {}() }}\n{}]\nfn h() {{}}",
            UNFINISHED_MACROS[0], UNFINISHED_MACROS[1], SWITCHED_OFF
        );
        assert_eq!(lines_of("crates/a/src/lib.rs", &text), [1, 2, 3]);
        assert_eq!(lines_of("book/src/a.md", &text), Vec::<usize>::new());
    }

    #[test]
    fn machine_paths_are_found_and_relative_ones_are_not() {
        let text = format!("cd {0}main\nhttps://x.org{0}a\nbench{0}b\n\"{1}me\"\n", MACHINE_PATHS[0], MACHINE_PATHS[2]);
        assert_eq!(lines_of(".ci/run", &text), [1, 4]);
    }
}
