//! What a check found wrong, with its place.

use std::fmt;

/// One broken rule at one place of the tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Path from the root, with `/` between folders.
    pub path: String,
    /// Line, counted from one; zero when the problem is the file as a whole.
    pub line: usize,
    /// The rule that is broken, and what to do.
    pub message: String,
}

impl Problem {
    /// A problem of a whole file.
    pub fn of_file(path: &str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: 0, message: message.into() }
    }

    /// A problem at a line counted from one.
    pub fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{}: {}", self.path, line, self.message),
        }
    }
}

/// Prints the problems, sorted by place, and returns whether there were none.
pub fn report(mut problems: Vec<Problem>) -> bool {
    problems.sort();
    problems.dedup();
    for problem in &problems {
        eprintln!("{problem}");
    }
    problems.is_empty()
}
