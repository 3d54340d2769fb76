//! The bibliography and the citations that point into it.

use crate::problem::Problem;

const CITING_FILES: [&str; 5] = [".rs", ".md", ".py", ".mo", ".ipynb"];

/// One entry of the bibliography.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key it is cited by.
    pub key: String,
    /// Line of its beginning, counted from one.
    pub line: usize,
    /// Field names in lower case with their texts, braces removed.
    fields: Vec<(String, String)>,
}

impl Entry {
    /// The text of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, text)| text.as_str())
    }
}

/// All entries of a BibTeX file.
#[derive(Clone, Debug, Default)]
pub struct Bibliography {
    /// The entries in the file's order.
    pub entries: Vec<Entry>,
}

impl Bibliography {
    /// Reads BibTeX: `@kind{key, name = {text}, ..}` with braces or quotes around texts.
    pub fn parse(text: &str) -> Self {
        let mut entries = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('@') {
            let line = text[..text.len() - rest.len() + at].matches('\n').count() + 1;
            rest = &rest[at + 1..];
            let Some(open) = rest.find('{') else { break };
            let Some(body) = balanced(&rest[open + 1..]) else { break };
            let (key, fields) = body.split_once(',').unwrap_or((body, ""));
            entries.push(Entry { key: key.trim().to_owned(), line, fields: parse_fields(fields) });
            rest = &rest[open + 1 + body.len()..];
        }
        Self { entries }
    }

    /// The entry with this key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// Keys given twice and entries without author, title or year.
    pub fn problems(&self, path: &str) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (position, entry) in self.entries.iter().enumerate() {
            if self.entries[..position].iter().any(|earlier| earlier.key == entry.key) {
                problems.push(Problem::at(path, entry.line, format!("the key {} is there twice", entry.key)));
            }
            for field in ["author", "title", "year"] {
                if entry.field(field).is_none_or(str::is_empty) {
                    problems.push(Problem::at(path, entry.line, format!("{} has no {field}", entry.key)));
                }
            }
        }
        problems
    }

    /// Citations of a file whose keys are not in the bibliography.
    pub fn check_citations(&self, path: &str, text: &str) -> Vec<Problem> {
        if !CITING_FILES.iter().any(|ending| path.ends_with(ending)) {
            return Vec::new();
        }
        let mut problems = Vec::new();
        for (line_idx, line) in text.lines().enumerate() {
            for citation in citations_in(line) {
                for key in citation.keys.iter().filter(|key| self.entry(key).is_none()) {
                    problems.push(Problem::at(path, line_idx + 1, format!("{key} is not in references.bib")));
                }
            }
        }
        problems
    }
}

/// A citation in brackets: an at sign, a key, perhaps a place; several divided by semicolons. A bracket that is still
/// open at the end of the line ends there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// Byte offset of the opening bracket.
    pub start: usize,
    /// Byte offset after the closing bracket.
    pub end: usize,
    /// The keys it names.
    pub keys: Vec<String>,
}

/// Finds the citations of a line.
pub fn citations_in(line: &str) -> Vec<Citation> {
    let mut citations = Vec::new();
    let mut from = 0;
    while let Some(offset) = line[from..].find("[@") {
        let start = from + offset;
        let inside = line[start + 1..].split(']').next().unwrap_or_default();
        let end = (start + inside.len() + 2).min(line.len());
        let keys = inside
            .split(';')
            .filter_map(|part| part.trim().strip_prefix('@'))
            .map(|part| part.chars().take_while(|c| c.is_alphanumeric() || "_:-".contains(*c)).collect())
            .filter(|key: &String| !key.is_empty())
            .collect();
        citations.push(Citation { start, end, keys });
        from = end;
    }
    citations
}

/// The text up to the brace that closes one already open.
fn balanced(text: &str) -> Option<&str> {
    let mut depth = 1;
    for (position, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&text[..position]);
        }
    }
    None
}

fn parse_fields(mut text: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    while let Some((name, rest)) = text.split_once('=') {
        let name = name.trim().trim_start_matches(',').trim().to_lowercase();
        let rest = rest.trim_start();
        let (value, after) = if let Some(inner) = rest.strip_prefix('{') {
            let Some(value) = balanced(inner) else { break };
            (value, &inner[value.len() + 1..])
        } else if let Some(inner) = rest.strip_prefix('"') {
            inner.split_once('"').unwrap_or((inner, ""))
        } else {
            rest.split_once(',').unwrap_or((rest, ""))
        };
        let plain: String = value.chars().filter(|c| !"{}".contains(*c)).collect();
        fields.push((name, plain.split_whitespace().collect::<Vec<_>>().join(" ")));
        text = after;
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    const BIB: &str = "@article{pryce2001,\n  author = {Pryce, John D.},\n  title = {A {Simple} method},\n  year = 2001,\n}\n\
                       @book{broken,\n  title = \"No author\",\n year = {1999}\n}\n";

    #[test]
    fn entries_are_read() {
        let bibliography = Bibliography::parse(BIB);
        assert_eq!(bibliography.entries.len(), 2);
        let pryce = bibliography.entry("pryce2001").expect("the first entry");
        assert_eq!(pryce.field("title"), Some("A Simple method"));
        assert_eq!(pryce.field("year"), Some("2001"));
        let problems = bibliography.problems("references.bib");
        assert_eq!(problems, [Problem::at("references.bib", 6, "broken has no author")]);
    }

    #[test]
    fn unknown_keys_are_found_with_their_line() {
        let bibliography = Bibliography::parse(BIB);
        let text = format!("fine [@{0}, eq. (3); @{2}]\nnot fine [@{1}]\n", "pryce2001", "nobody1900", "broken");
        let problems = bibliography.check_citations("crates/a/src/lib.rs", &text);
        assert_eq!(problems, [Problem::at("crates/a/src/lib.rs", 2, "nobody1900 is not in references.bib")]);
        assert_eq!(bibliography.check_citations("data.csv", &text), []);
    }

    #[test]
    fn several_keys_in_one_bracket() {
        let line = format!("see [@{}, sec. 2; @{}] there", "one2001", "two2002");
        let citations = citations_in(&line);
        assert_eq!(citations.len(), 1);
        assert_eq!(citations[0].keys, ["one2001", "two2002"]);
        assert_eq!(&line[citations[0].end..], " there");
        let broken = format!("a bracket that closes on the next line [@{};", "one2001");
        assert_eq!(citations_in(&broken)[0].keys, ["one2001"]);
    }
}
