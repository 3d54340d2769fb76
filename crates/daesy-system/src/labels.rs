//! The words for equations, made when somebody asks for them.
//!
//! Words are wanted of the few equations that a message speaks of, and a model has up to millions. So a list of labels
//! is a function from rows to labels, followed by labels that were made beforehand.

use std::fmt;
use std::sync::Arc;

use crate::EquationLabel;

/// Gives the label of a row.
type Words = Arc<dyn Fn(usize) -> EquationLabel + Send + Sync>;

/// Labels of equations, by row.
///
/// ```
/// use daesy_system::{EquationLabel, Labels};
/// let label = |row: usize| EquationLabel { text: format!("x[{row}] = 0"), place: String::new(), differentiated: 0 };
/// let mut labels = Labels::on_demand(1_000_000, label);
/// labels.push(label(7));
/// assert_eq!(labels.len(), 1_000_001);
/// assert_eq!(labels.get(3).map(|label| label.text), Some("x[3] = 0".into()));
/// assert_eq!(labels.get(1_000_000).map(|label| label.text), Some("x[7] = 0".into()));
/// assert_eq!(labels.get(1_000_001), None);
/// ```
#[derive(Clone, Default)]
pub struct Labels {
    words: Option<Words>,
    /// Rows that `words` knows.
    n_on_demand: usize,
    /// Labels of the rows after those.
    made: Vec<EquationLabel>,
}

impl Labels {
    /// Labels of `n_rows` rows that `words` gives, for rows below that number, always the same.
    pub fn on_demand(n_rows: usize, words: impl Fn(usize) -> EquationLabel + Send + Sync + 'static) -> Self {
        Self { words: Some(Arc::new(words)), n_on_demand: n_rows, made: Vec::new() }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n_on_demand + self.made.len()
    }

    /// Whether there are no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The label of a row, if there are so many.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<EquationLabel> {
        match (&self.words, row.checked_sub(self.n_on_demand)) {
            (Some(words), None) => Some(words(row)),
            (_, after) => self.made.get(after?).cloned(),
        }
    }

    /// Adds a row.
    pub fn push(&mut self, label: EquationLabel) {
        self.made.push(label);
    }

    /// All labels, each made when its turn comes.
    pub fn iter(&self) -> impl Iterator<Item = EquationLabel> + '_ {
        (0..self.len()).filter_map(|row| self.get(row))
    }
}

impl From<Vec<EquationLabel>> for Labels {
    fn from(made: Vec<EquationLabel>) -> Self {
        Self { made, ..Self::default() }
    }
}

impl FromIterator<EquationLabel> for Labels {
    fn from_iter<I: IntoIterator<Item = EquationLabel>>(labels: I) -> Self {
        Self::from(labels.into_iter().collect::<Vec<_>>())
    }
}

impl PartialEq for Labels {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
