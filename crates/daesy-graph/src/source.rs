//! Source texts and places in them, so that every finding can point at what the user wrote.

use std::fmt;

/// A source file in a [`SourceMap`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FileId(pub u32);

/// A range of bytes in one source file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Span {
    /// The file the range lies in.
    pub file: FileId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The place of what is in no file (built-in classes, generated equations).
    pub const NONE: Self = Self { file: FileId(u32::MAX), start: 0, end: 0 };

    /// A range in a file.
    #[must_use]
    pub const fn new(file: FileId, start: u32, end: u32) -> Self {
        Self { file, start, end }
    }

    /// Whether this is [`Span::NONE`].
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.file.0 == u32::MAX
    }

    /// The smallest range that holds both; `self` when the files differ.
    #[must_use]
    pub fn to(self, other: Self) -> Self {
        if self.is_none() {
            return other;
        }
        if self.file != other.file {
            return self;
        }
        Self { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            write!(formatter, "nowhere")
        } else {
            write!(formatter, "{}:{}..{}", self.file.0, self.start, self.end)
        }
    }
}

/// A place a person can find: line and column count from 1, columns in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineColumn {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

/// One source text with the byte offsets of its lines.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// The name as the user would say it: a path, or `<text>` for text that came from memory.
    pub name: String,
    /// The text.
    pub text: String,
    line_starts: Vec<u32>,
    is_ascii: bool,
}

impl SourceFile {
    /// Takes a text and finds its lines.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let mut line_starts = vec![0];
        line_starts.extend(text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at as u32 + 1));
        let is_ascii = text.is_ascii();
        Self { name: name.into(), text, line_starts, is_ascii }
    }

    /// Line and column of a byte offset.
    #[must_use]
    pub fn line_column(&self, offset: u32) -> LineColumn {
        let offset = offset.min(self.text.len() as u32);
        let line = self.line_starts.partition_point(|&start| start <= offset) - 1;
        let mut start = self.line_starts[line] as usize;
        if self.is_ascii {
            return LineColumn { line: line as u32 + 1, column: offset - start as u32 + 1 };
        }
        let mut column = 1;
        while start < offset as usize {
            start += self.text[start..].chars().next().map_or(1, char::len_utf8);
            column += 1;
        }
        LineColumn { line: line as u32 + 1, column }
    }

    /// The text of a line, counted from 1, without its line break.
    #[must_use]
    pub fn line(&self, line: u32) -> &str {
        let at = line as usize - 1;
        let start = self.line_starts[at] as usize;
        let end = self.line_starts.get(at + 1).map_or(self.text.len(), |&next| next as usize);
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }
}

/// All source texts of one model.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    files: Vec<SourceFile>,
}

impl SourceMap {
    /// Adds a text and gives its number.
    pub fn add(&mut self, file: SourceFile) -> FileId {
        self.files.push(file);
        FileId(self.files.len() as u32 - 1)
    }

    /// The file a span lies in, if it lies in one.
    #[must_use]
    pub fn file(&self, file: FileId) -> Option<&SourceFile> {
        self.files.get(file.0 as usize)
    }

    /// All files in the order they were added.
    #[must_use]
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// The text of a span; empty for [`Span::NONE`].
    #[must_use]
    pub fn text(&self, span: Span) -> &str {
        self.file(span.file).map_or("", |file| &file.text[span.start as usize..span.end as usize])
    }

    /// `file:line:column` of the start of a span, or `None` for [`Span::NONE`].
    #[must_use]
    pub fn place(&self, span: Span) -> Option<Place> {
        let file = self.file(span.file)?;
        let LineColumn { line, column } = file.line_column(span.start);
        Some(Place { file: file.name.clone(), line, column })
    }
}

/// A place as it is printed: `file:line:column`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// File name.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}:{}", self.file, self.line, self.column)
    }
}
