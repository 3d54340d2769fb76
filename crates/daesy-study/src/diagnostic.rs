//! Findings as a person reads them: place first, then cause, the source line with carets, and the remedy.

use std::borrow::Cow;
use std::fmt::Write as _;

use daesy_graph::finding::{Finding, Level};
use daesy_graph::source::Place;
use daesy_graph::{SourceMap, Span};

/// A text as a terminal may show it: control characters and marks that reorder a line, which could change what a
/// reader sees, are shown by one visible character each; line ends and tabs stay.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    // A table of millions of numbers is looked at byte by byte.
    if text.bytes().all(|byte| matches!(byte, b'\n' | b'\t' | b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let is_plain =
        |character: char| matches!(character, '\n' | '\t' | ' '..='~' | '\u{a0}'..) && !is_reordering(character);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|character| match character {
        character if is_plain(character) => character,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + character as u32).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\u{7f}' => '\u{2421}',
        _ => char::REPLACEMENT_CHARACTER,
    });
    Cow::Owned(shown.collect())
}

/// Marks of the bidirectional algorithm, and separators that some terminals take for line ends.
#[must_use]
pub const fn is_reordering(character: char) -> bool {
    matches!(
        character,
        '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    )
}

/// A source line with the columns a finding is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excerpt {
    /// `file:line:column`
    pub place: Place,
    /// The line, or the part of a very long one around the place.
    pub line: String,
    /// Where in that text the place begins, counted in characters from 0.
    pub start: usize,
    /// Number of columns to underline, at least 1.
    pub width: usize,
    /// Remark beside the underline; may be empty.
    pub remark: String,
}

/// A finding with its places resolved, independent of any source map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// How grave.
    pub level: Level,
    /// A short stable word for the kind.
    pub code: String,
    /// The cause.
    pub message: String,
    /// File, line and column, where there is one.
    pub place: Option<Place>,
    /// Source lines: the main place first.
    pub excerpts: Vec<Excerpt>,
    /// The remedy.
    pub help: Option<String>,
    /// Names of the model.
    pub names: Vec<String>,
}

impl Diagnostic {
    /// Resolves a finding's spans.
    #[must_use]
    pub fn resolve(finding: &Finding, sources: &SourceMap) -> Self {
        let mut excerpts = Vec::new();
        let main_is_labelled = finding.labels.iter().any(|label| label.span == finding.span);
        if !main_is_labelled {
            excerpts.extend(excerpt(sources, finding.span, ""));
        }
        excerpts.extend(finding.labels.iter().filter_map(|label| {
            // What stands above the carets need not be said again beside them.
            let is_repeated = squeezed(sources.text(label.span)) == squeezed(&label.text);
            excerpt(sources, label.span, if is_repeated { "" } else { &label.text })
        }));
        Self {
            level: finding.level,
            code: finding.code.to_owned(),
            message: finding.message.clone(),
            place: sources.place(finding.span),
            excerpts,
            help: finding.help.clone(),
            names: finding.names.clone(),
        }
    }

    /// A finding about a whole file: line and column 1.
    #[must_use]
    pub fn about_file(code: &str, file: &str, message: impl Into<String>) -> Self {
        Self {
            level: Level::Error,
            code: code.to_owned(),
            message: message.into(),
            place: Some(Place { file: file.to_owned(), line: 1, column: 1 }),
            excerpts: Vec::new(),
            help: None,
            names: Vec::new(),
        }
    }

    /// The same at a place, if it has none.
    #[must_use]
    pub fn or_at(mut self, span: Span, sources: &SourceMap) -> Self {
        if self.place.is_none() {
            self.place = sources.place(span);
            self.excerpts.extend(excerpt(sources, span, ""));
        }
        self
    }

    /// An error without a place.
    #[must_use]
    pub fn error(code: &str, message: impl Into<String>) -> Self {
        Self { place: None, ..Self::about_file(code, "", message) }
    }

    /// The same at another level.
    #[must_use]
    pub fn with_level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Adds the place that a text `file:line:column` says; `None` where it says none.
    #[must_use]
    pub fn at_place(mut self, text: &str) -> Self {
        let mut parts = text.rsplitn(3, ':');
        if let (Some(column), Some(line), Some(file)) = (parts.next(), parts.next(), parts.next())
            && let (Ok(line), Ok(column)) = (line.parse(), column.parse())
        {
            self.place = Some(Place { file: file.to_owned(), line, column });
        }
        self
    }

    /// A finding of any level without a place.
    #[must_use]
    pub fn new(level: Level, code: &str, message: impl Into<String>) -> Self {
        Self { level, ..Self::error(code, message) }
    }

    /// A note without a place.
    #[must_use]
    pub fn note(code: &str, message: impl Into<String>) -> Self {
        Self::new(Level::Note, code, message)
    }

    /// Adds the remedy.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The text for a terminal.
    #[must_use]
    pub fn render(&self, with_color: bool) -> String {
        let paint = Paint { on: with_color };
        let mut text = String::new();
        if let Some(place) = &self.place {
            let _ = write!(text, "{}: ", visible(&place.to_string()));
        }
        let head = format!("{}[{}]", self.level.word(), self.code);
        let _ = writeln!(text, "{}: {}", paint.level(self.level, &head), visible(&self.message));
        let gutter = self.excerpts.iter().map(|excerpt| excerpt.place.line.to_string().len()).max().unwrap_or(0);
        let mut file_before = self.place.as_ref().map(|place| place.file.clone());
        let mut last_line = None;
        for excerpt in &self.excerpts {
            if file_before.as_deref() != Some(&excerpt.place.file) {
                let _ = writeln!(text, "{:gutter$} --> {}", "", visible(&excerpt.place.to_string()));
                file_before = Some(excerpt.place.file.clone());
                last_line = None;
            }
            if last_line != Some(excerpt.place.line) {
                let bar = paint.dim(&format!("{:>gutter$} |", excerpt.place.line));
                let _ = writeln!(text, "{bar} {}", visible(&excerpt.line));
                last_line = Some(excerpt.place.line);
            }
            let indent: String = excerpt
                .line
                .chars()
                .take(excerpt.start)
                .map(|character| if character == '\t' { '\t' } else { ' ' })
                .collect();
            let carets = paint.level(self.level, &"^".repeat(excerpt.width));
            let bar = paint.dim(&format!("{:gutter$} |", ""));
            let _ = writeln!(text, "{}", format!("{bar} {indent}{carets} {}", visible(&excerpt.remark)).trim_end());
        }
        if let Some(help) = &self.help {
            let _ = writeln!(text, "{:gutter$} {} {}", "", paint.dim("= help:"), visible(help));
        }
        text
    }
}

fn squeezed(text: &str) -> String {
    text.chars().filter(|character| !character.is_whitespace()).collect()
}

fn excerpt(sources: &SourceMap, span: Span, remark: &str) -> Option<Excerpt> {
    let file = sources.file(span.file)?;
    let place = sources.place(span)?;
    let line = file.line(place.line).to_owned();
    let end = file.line_column(span.end);
    let line_width = line.chars().count();
    let start = place.column as usize - 1;
    let width = if end.line == place.line { end.column as usize - 1 - start } else { line_width.saturating_sub(start) };
    let (line, start) = if line_width > MAX_LINE { cut(&line, start) } else { (line, start) };
    let width = width.min(line.chars().count().saturating_sub(start)).max(1);
    Some(Excerpt { place, line, start, width, remark: remark.to_owned() })
}

/// Characters of a line that are shown.
const MAX_LINE: usize = 160;

/// The part of a long line around a place, and where in it the place is.
fn cut(line: &str, start: usize) -> (String, usize) {
    let first = start.saturating_sub(MAX_LINE / 3);
    let part: String = line.chars().skip(first).take(MAX_LINE).collect();
    let before = if first > 0 { "…" } else { "" };
    let after = if line.chars().count() > first + MAX_LINE { "…" } else { "" };
    (format!("{before}{part}{after}"), start - first + before.chars().count())
}

/// Colours of a terminal, or none.
struct Paint {
    on: bool,
}

impl Paint {
    fn level(&self, level: Level, text: &str) -> String {
        let code = match level {
            Level::Error => "1;31",
            Level::Warning => "1;33",
            Level::Note => "1;36",
        };
        self.wrap(code, text)
    }

    fn dim(&self, text: &str) -> String {
        self.wrap("2", text)
    }

    fn wrap(&self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use daesy_graph::SourceFile;

    use super::*;

    #[test]
    fn control_characters_are_shown_and_not_sent() {
        assert_eq!(visible("a\tb\n\u{e4}"), "a\tb\n\u{e4}");
        assert_eq!(
            visible("\u{1b}[31m\u{7}\r\u{7f}\u{9b}\u{202e}"),
            "\u{241b}[31m\u{2407}\u{240d}\u{2421}\u{fffd}\u{fffd}"
        );
        let mut sources = SourceMap::default();
        let file = sources.add(SourceFile::new("\u{1b}a.mo", "model A Real x = y; // \u{1b}]0;title\u{7}\n"));
        let finding = Finding::error("unknown-name", Span::new(file, 17, 18), "\u{1b}c").with_help("\u{8}");
        let text = Diagnostic::resolve(&finding, &sources).render(false);
        assert!(!text.contains(|character: char| character.is_control() && character != '\n'), "{text:?}");
    }

    #[test]
    fn the_place_comes_first_and_carets_stand_under_the_word() {
        let mut sources = SourceMap::default();
        let file = sources.add(SourceFile::new("a.mo", "model A\n\tReal ä = qq;\nend A;\n"));
        let start = "model A\n\tReal ä = ".len() as u32;
        let finding = Finding::error("unknown-name", Span::new(file, start, start + 2), "`qq` is not known")
            .with_help("did you mean `q`?");
        let text = Diagnostic::resolve(&finding, &sources).render(false);
        assert_eq!(
            text,
            "a.mo:2:11: error[unknown-name]: `qq` is not known\n2 | \tReal ä = qq;\n  | \t         ^^\n  = help: did \
                 you mean `q`?\n"
        );
    }
}
