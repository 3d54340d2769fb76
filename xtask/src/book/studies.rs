//! What studies wrote, put into chapters: a line `{{study NAME}}` or `{{study NAME PART}}`.
//!
//! A study writes the folder `book/studies/NAME`, or several that begin with its name. PART is `commands`, `comparison`,
//! `numbers` or a picture's file; without one, commands, pictures and comparison are shown. So no figure of a study is
//! typed by hand.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::Chapter;
use crate::problem::Problem;

/// Where studies write, from the root.
pub const FOLDER: &str = "book/studies";

/// All studies that left something for the book.
pub struct Shelf {
    root: PathBuf,
    studies: Vec<Study>,
}

/// What one study left.
struct Study {
    name: String,
    commands: Option<String>,
    comparison: Option<String>,
    numbers: Option<String>,
    pictures: Vec<Picture>,
}

struct Picture {
    file: String,
    caption: String,
}

impl Shelf {
    /// Reads the folder of studies.
    pub fn new(root: &Path) -> Self {
        let mut studies = Vec::new();
        for entry in fs::read_dir(root.join(FOLDER)).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                studies.push(Study::read(&entry.path(), entry.file_name().to_string_lossy().into_owned()));
            }
        }
        studies.sort_by(|a, b| a.name.cmp(&b.name));
        Self { root: root.to_path_buf(), studies }
    }

    /// The chapter with directives replaced; a directive that cannot be followed is a problem.
    pub fn expand(&self, path: &str, text: &str, problems: &mut Vec<Problem>) -> String {
        let mut shown = String::with_capacity(text.len());
        for (at, line) in text.lines().enumerate() {
            match directive(line) {
                None => shown.push_str(line),
                Some((name, part)) => match self.find(name).and_then(|study| study.part(part)) {
                    Ok(part) => shown.push_str(&part),
                    Err(message) => problems.push(Problem::at(path, at + 1, message)),
                },
            }
            shown.push('\n');
        }
        shown
    }

    fn find(&self, name: &str) -> Result<&Study, String> {
        self.studies
            .iter()
            .find(|study| study.name == name)
            .ok_or_else(|| format!("there is no {FOLDER}/{name}; `cargo xtask study {name}` writes it"))
    }

    /// Where the program of a study may be: one of that name, or one that writes several folders, whose names begin with
    /// its own.
    fn programs(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        let crates = fs::read_dir(self.root.join("crates")).into_iter().flatten().flatten();
        let examples = crates.map(|entry| entry.path().join("examples"));
        let folders: Vec<PathBuf> = examples.chain([self.root.join("bench/src/bin")]).collect();
        let shorter = name.match_indices('-').map(|(at, _)| name[..at].to_owned());
        let names: Vec<String> = shorter.chain([name.to_owned()]).collect();
        names.into_iter().flat_map(move |name| {
            folders.clone().into_iter().map(move |folder| folder.join(format!("study_{name}.rs")))
        })
    }

    /// Every folder is complete, has a program that wrote it, and is shown in some chapter.
    pub fn check(&self, chapters: &[Chapter]) -> Vec<Problem> {
        let mut problems = Vec::new();
        for study in &self.studies {
            let folder = format!("{FOLDER}/{}", study.name);
            let mut demand = |is_met: bool, message: &str| {
                if !is_met {
                    problems.push(Problem::of_file(&folder, message.to_owned()));
                }
            };
            demand(study.numbers.is_some(), "has no numbers.csv");
            demand(study.comparison.is_some(), "has no comparison.md");
            for picture in &study.pictures {
                let is_there = self.root.join(&folder).join(&picture.file).is_file();
                demand(is_there, &format!("lists {}, which is not there", picture.file));
            }
            let has_program = self.programs(&study.name).any(|path| path.is_file());
            demand(has_program, "was written by no study of this tree");
            let mut lines = chapters.iter().flat_map(|chapter| chapter.text.lines());
            let is_shown = lines.any(|line| directive(line).is_some_and(|(name, _)| name == study.name));
            demand(is_shown, "is shown in no chapter");
        }
        problems
    }
}

impl Study {
    fn read(folder: &Path, name: String) -> Self {
        let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let pictures = text("pictures.txt").unwrap_or_default();
        let pictures = pictures.lines().filter_map(|line| line.split_once('\t'));
        Self {
            name,
            commands: text("commands.txt"),
            comparison: text("comparison.md"),
            numbers: text("numbers.csv"),
            pictures: pictures
                .map(|(file, caption)| Picture { file: file.to_owned(), caption: caption.to_owned() })
                .collect(),
        }
    }

    /// A part as Markdown.
    fn part(&self, part: Option<&str>) -> Result<String, String> {
        let missing = |file: &str| format!("{FOLDER}/{} has no {file}", self.name);
        match part {
            None => {
                let mut all = self.shown_commands().unwrap_or_default();
                for picture in &self.pictures {
                    all += &self.shown_picture(picture);
                }
                // A table of two lines is a head without rows.
                let comparison = self.comparison.as_deref().ok_or_else(|| missing("comparison.md"))?;
                all += if comparison.lines().count() > 2 { comparison } else { "" };
                Ok(all)
            }
            Some("commands") => self.shown_commands().ok_or_else(|| missing("commands.txt")),
            Some("comparison") => self.comparison.clone().ok_or_else(|| missing("comparison.md")),
            Some("numbers") => self.shown_numbers().ok_or_else(|| missing("numbers.csv")),
            Some(file) => {
                let picture = self.pictures.iter().find(|picture| picture.file == file);
                picture.map(|picture| self.shown_picture(picture)).ok_or_else(|| missing(file))
            }
        }
    }

    fn shown_commands(&self) -> Option<String> {
        Some(format!("```text\n{}```\n\n", self.commands.as_deref()?))
    }

    fn shown_picture(&self, picture: &Picture) -> String {
        let caption = picture.caption.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        format!(
            "<figure><img src=\"studies/{}/{}\" alt=\"{caption}\" style=\"width: 100%\"><figcaption>{caption}</figcaption></figure>\n\n",
            self.name, picture.file
        )
    }

    fn shown_numbers(&self) -> Option<String> {
        let mut table = "| number | value |\n|---|---|\n".to_owned();
        for line in self.numbers.as_deref()?.lines().skip(1) {
            if let Some((name, value)) = line.rsplit_once(',') {
                let _ = writeln!(table, "| {} | {value} |", name.trim_matches('"'));
            }
        }
        Some(table)
    }
}

/// The name and the part that a line asks for.
fn directive(line: &str) -> Option<(&str, Option<&str>)> {
    let inside = line.trim().strip_prefix("{{study ")?.strip_suffix("}}")?.trim();
    Some(inside.split_once(' ').map_or((inside, None), |(name, part)| (name, Some(part.trim()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shelf(name: &str, files: &[(&str, &str)]) -> Shelf {
        let root = std::env::temp_dir().join(format!("daesy-studies-{name}-{}", std::process::id()));
        for (file, text) in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().expect("every path has a folder")).expect("temporary folder");
            fs::write(path, text).expect("temporary file");
        }
        Shelf::new(&root)
    }

    fn chapter(text: &str) -> Chapter {
        Chapter { title: "T".to_owned(), file: "t.md".to_owned(), text: text.to_owned(), shown: String::new() }
    }

    #[test]
    fn what_a_study_wrote_is_put_in() {
        let files = [
            ("book/studies/one/numbers.csv", "name,value\n\"a, b\",3\n"),
            ("book/studies/one/comparison.md", "| what |\n|---|\n| row |\n"),
            ("book/studies/one/commands.txt", "daesy check one.mo\n"),
            ("book/studies/one/pictures.txt", "fit.svg\tA <fit>\n"),
            ("book/studies/one/fit.svg", "<svg/>"),
            ("crates/daesy/examples/study_one.rs", ""),
        ];
        let shelf = shelf("good", &files);
        let mut problems = Vec::new();
        let text = "# T\n\n{{study one}}\n\n{{study one numbers}}\n{{study one fit.svg}}\n";
        let shown = shelf.expand("t.md", text, &mut problems);
        assert!(shown.contains("```text\ndaesy check one.mo\n```"), "{shown}");
        assert!(shown.contains("| row |") && shown.contains("| a, b | 3 |"), "{shown}");
        assert_eq!(shown.matches("studies/one/fit.svg").count(), 2);
        assert!(shown.contains("A &lt;fit>"));
        problems.extend(shelf.check(&[chapter(text)]));
        assert_eq!(problems, []);
        fs::remove_dir_all(&shelf.root).expect("temporary folder");
    }

    #[test]
    fn what_is_missing_is_named() {
        let shelf = shelf("bad", &[("book/studies/one/pictures.txt", "fit.svg\tA fit\n")]);
        let mut problems = Vec::new();
        shelf.expand("t.md", "\n{{study two}}\n{{study one numbers}}\n", &mut problems);
        assert_eq!(problems.iter().map(|problem| problem.line).collect::<Vec<_>>(), [2, 3]);
        let found: Vec<String> = shelf.check(&[]).into_iter().map(|problem| problem.message).collect();
        assert_eq!(found.len(), 5, "{found:?}");
        fs::remove_dir_all(&shelf.root).expect("temporary folder");
    }
}
