//! The table of contents: a Markdown list of links, one per chapter, in reading order.

/// An entry of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The chapter's title.
    pub title: String,
    /// The chapter's file.
    pub file: String,
    /// Line in SUMMARY.md, counted from one.
    pub line: usize,
}

/// The table of contents.
pub struct Summary {
    /// Chapters in reading order.
    pub items: Vec<Item>,
}

impl Summary {
    /// Reads lines of the form `- [Title](file.md)`; other lines are prose.
    pub fn parse(text: &str) -> Self {
        let items = text
            .lines()
            .enumerate()
            .filter_map(|(line_idx, line)| {
                let link = line.trim().strip_prefix("- [")?;
                let (title, rest) = link.split_once("](")?;
                let file = rest.strip_suffix(')')?;
                Some(Item { title: title.to_owned(), file: file.to_owned(), line: line_idx + 1 })
            })
            .collect();
        Self { items }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_chapters_in_order() {
        let summary = Summary::parse("# Contents\n\n- [One](one.md)\n- [Two](two.md)\n");
        let files: Vec<&str> = summary.items.iter().map(|item| item.file.as_str()).collect();
        assert_eq!(files, ["one.md", "two.md"]);
        assert_eq!(summary.items[1].line, 4);
    }
}
