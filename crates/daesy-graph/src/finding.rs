//! Findings: what daesy has to say about a model, with place, cause and remedy.

use crate::source::Span;

/// How grave a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Good to know.
    Note,
    /// Suspicious; the work goes on.
    Warning,
    /// The work cannot go on.
    Error,
}

impl Level {
    /// The word used in messages and in JSON.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// A further place that belongs to a finding, with its own remark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What is to be seen there.
    pub text: String,
}

/// One thing to tell the user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How grave it is.
    pub level: Level,
    /// A short stable word for the kind of finding, such as `unknown-name`.
    pub code: &'static str,
    /// The cause in one sentence.
    pub message: String,
    /// The place it is about; [`Span::NONE`] where there is none.
    pub span: Span,
    /// Further places.
    pub labels: Vec<Label>,
    /// What the user can do about it.
    pub help: Option<String>,
    /// Names of the model that are concerned.
    pub names: Vec<String>,
}

impl Finding {
    /// A finding of the given level.
    #[must_use]
    pub fn new(level: Level, code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self { level, code, message: message.into(), span, labels: Vec::new(), help: None, names: Vec::new() }
    }

    /// An error.
    #[must_use]
    pub fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(Level::Error, code, span, message)
    }

    /// A warning.
    #[must_use]
    pub fn warning(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(Level::Warning, code, span, message)
    }

    /// A note.
    #[must_use]
    pub fn note(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self::new(Level::Note, code, span, message)
    }

    /// Adds the remedy.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a further place.
    #[must_use]
    pub fn with_label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    /// Adds names of the model.
    #[must_use]
    pub fn with_names<I: IntoIterator<Item = S>, S: Into<String>>(mut self, names: I) -> Self {
        self.names.extend(names.into_iter().map(Into::into));
        self
    }
}

/// The known word nearest to `word` by edit distance, if one is near enough to be meant.
///
/// "Near enough" is at most a third of the longer word's letters, at least one; but a letter for another is no slip.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .filter(|candidate| !candidate.is_empty())
        .filter_map(|candidate| {
            let longer = word.chars().count().max(candidate.chars().count());
            let distance = edit_distance(word, candidate, (longer / 3).max(1))?;
            (distance < longer).then_some((distance, candidate))
        })
        .min_by_key(|&(distance, candidate)| (distance, candidate.len(), candidate))
        .map(|(_, candidate)| candidate)
}

/// Optimal string alignment distance (case costs half a letter, rounded down to zero), or nothing above `limit`.
fn edit_distance(left: &str, right: &str, limit: usize) -> Option<usize> {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    if left.len().abs_diff(right.len()) > limit {
        return None;
    }
    let mut before_last = vec![0; right.len() + 1];
    let mut last: Vec<usize> = (0..=right.len()).collect();
    let mut current = vec![0; right.len() + 1];
    for i in 1..=left.len() {
        current[0] = i;
        for j in 1..=right.len() {
            let substitution = last[j - 1] + usize::from(left[i - 1] != right[j - 1]);
            current[j] = substitution.min(last[j] + 1).min(current[j - 1] + 1);
            if i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1] {
                current[j] = current[j].min(before_last[j - 2] + 1);
            }
        }
        std::mem::swap(&mut before_last, &mut last);
        std::mem::swap(&mut last, &mut current);
    }
    (last[right.len()] <= limit).then_some(last[right.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_finds_typing_slips_and_leaves_strangers_alone() {
        let known = ["resistor", "capacitor", "inductor", "R"];
        assert_eq!(nearest("resitsor", known), Some("resistor"));
        assert_eq!(nearest("Capacitor", known), Some("capacitor"));
        assert_eq!(nearest("r", known), Some("R"));
        assert_eq!(nearest("temperature", known), None);
        assert_eq!(nearest("q", known), None);
    }
}
