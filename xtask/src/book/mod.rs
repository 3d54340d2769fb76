//! The book: Markdown chapters to self-contained pages, and every command in them run.

mod blocks;
mod check;
mod pages;
mod studies;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};

use crate::problem::{self, Problem};
use crate::process;
use crate::tidy::Bibliography;
use crate::workspace::Workspace;

use summary::Summary;

/// Where the chapters are, from the root.
const SOURCE: &str = "book/src";
/// Where the pages go, from the root.
pub const OUTPUT: &str = "book/output";

/// A chapter with its text.
pub struct Chapter {
    /// Title from the table of contents.
    pub title: String,
    /// File below the source folder, for example `first-hour.md`.
    pub file: String,
    /// Its Markdown.
    pub text: String,
    /// Its Markdown with what studies wrote put in.
    pub shown: String,
}

impl Chapter {
    /// Path from the root, for messages.
    pub fn path(&self) -> String {
        format!("{SOURCE}/{}", self.file)
    }
}

/// Builds the pages and, if asked, runs what the chapters show; returns whether all is well.
pub fn run(workspace: &Workspace, runs_blocks: bool) -> bool {
    let source = workspace.root.join(SOURCE);
    let mut problems = Vec::new();
    let studies = studies::Shelf::new(&workspace.root);
    let chapters = read_chapters(&source, &studies, &mut problems);
    problems.extend(studies.check(&chapters));
    let bibliography = Bibliography::parse(&workspace.read("references.bib").unwrap_or_default());
    if let Err(message) = write_pages(&workspace.root, &source, &chapters, &bibliography) {
        problems.push(Problem::of_file(OUTPUT, message));
    }
    println!("{OUTPUT}: {} chapters", chapters.len());
    if runs_blocks {
        match build_program(workspace) {
            Err(message) => problems.push(Problem::of_file("book", message)),
            Ok(program) => {
                let room = check::Room {
                    program,
                    examples: workspace.root.join("book/examples"),
                    problems: workspace.root.join("problems"),
                    scratch: workspace.scratch("book"),
                };
                for chapter in &chapters {
                    let report = check::run_chapter(&room, chapter);
                    println!("{}: {} blocks checked", chapter.path(), report.n_checked);
                    problems.extend(report.problems);
                }
            }
        }
    }
    problem::report(problems)
}

/// Builds the program `daesy` in the development profile and returns its path.
pub fn build_program(workspace: &Workspace) -> Result<PathBuf, String> {
    // With the features that the tests of the whole workspace have, so that nothing is compiled twice.
    process::run(workspace.cargo().args(["build", "--quiet", "--locked", "--workspace", "--bin", "daesy"]))?;
    Ok(workspace.target.join("debug").join(format!("daesy{}", std::env::consts::EXE_SUFFIX)))
}

/// Reads the table of contents and the chapters; a chapter outside the table is a problem.
fn read_chapters(source: &Path, studies: &studies::Shelf, problems: &mut Vec<Problem>) -> Vec<Chapter> {
    let contents = format!("{SOURCE}/SUMMARY.md");
    let Ok(text) = fs::read_to_string(source.join("SUMMARY.md")) else {
        problems.push(Problem::of_file(&contents, "is missing"));
        return Vec::new();
    };
    let summary = Summary::parse(&text);
    let mut chapters = Vec::new();
    for item in summary.items {
        match fs::read_to_string(source.join(&item.file)) {
            Ok(text) => {
                let shown = studies.expand(&format!("{SOURCE}/{}", item.file), &text, problems);
                chapters.push(Chapter { title: item.title, file: item.file, text, shown });
            }
            Err(_) => problems.push(Problem::at(&contents, item.line, format!("{} is missing", item.file))),
        }
    }
    for entry in fs::read_dir(source).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_chapter = name.ends_with(".md") && name != "SUMMARY.md";
        if is_chapter && chapters.iter().all(|chapter| chapter.file != name) {
            problems.push(Problem::of_file(&format!("{SOURCE}/{name}"), "is not in SUMMARY.md"));
        }
    }
    chapters
}

fn write_pages(root: &Path, source: &Path, chapters: &[Chapter], bibliography: &Bibliography) -> Result<(), String> {
    let output = root.join(OUTPUT);
    let explain = |e: std::io::Error| format!("cannot write: {e}");
    if output.exists() {
        fs::remove_dir_all(&output).map_err(explain)?;
    }
    fs::create_dir_all(&output).map_err(explain)?;
    for page in pages::render(chapters, bibliography) {
        fs::write(output.join(&page.file), page.html).map_err(explain)?;
    }
    for entry in fs::read_dir(source).map_err(explain)?.flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|e| e == "svg" || e == "png") {
            fs::copy(&path, output.join(entry.file_name())).map_err(explain)?;
        }
    }
    check::copy_tree(&root.join(studies::FOLDER), &output.join("studies")).map_err(explain)
}
