//! Why a question has no answer.

use std::fmt;

use daesy_chaos::ChaosError;

use crate::diagnostic::Diagnostic;

/// Why there is no answer, with everything that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The question makes no sense.
    Usage(Vec<Diagnostic>),
    /// The model, study or data is at fault.
    Input(Vec<Diagnostic>),
    /// The numerical method gave up.
    Method(Vec<Diagnostic>),
}

impl Failure {
    /// What is wrong.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        let (Self::Usage(diagnostics) | Self::Input(diagnostics) | Self::Method(diagnostics)) = self;
        diagnostics
    }

    /// The same with every finding changed.
    #[must_use]
    pub fn map(self, change: impl FnMut(Diagnostic) -> Diagnostic) -> Self {
        let all = |diagnostics: Vec<Diagnostic>| diagnostics.into_iter().map(change).collect();
        match self {
            Self::Usage(diagnostics) => Self::Usage(all(diagnostics)),
            Self::Input(diagnostics) => Self::Input(all(diagnostics)),
            Self::Method(diagnostics) => Self::Method(all(diagnostics)),
        }
    }

    /// The same with words before every message.
    #[must_use]
    pub fn within(self, words: &str) -> Self {
        self.map(|mut diagnostic| {
            diagnostic.message = format!("{words}: {}", diagnostic.message);
            diagnostic
        })
    }
}

impl From<Vec<Diagnostic>> for Failure {
    fn from(diagnostics: Vec<Diagnostic>) -> Self {
        Self::Input(diagnostics)
    }
}

impl From<ChaosError> for Failure {
    fn from(error: ChaosError) -> Self {
        let (code, help) = match &error {
            ChaosError::TooManyPoints { .. } => (
                "too-many-points",
                "take a lower degree, `grid = \"sparse\"`, `basis = \"adaptive\"`, or `method = \"quasi-monte-carlo\"`",
            ),
            ChaosError::TooFewValues { .. } => ("too-few-samples", "take a lower degree or more samples"),
            ChaosError::NotFinite { .. } => (
                "not-finite",
                "a division by zero or a root of a negative number within the distribution's support: narrow it",
            ),
            _ => (
                "not-expandable",
                "say `method = \"collocation\"` in `[uq]`: it needs the solutions at parameter values only",
            ),
        };
        Self::Input(vec![Diagnostic::error(code, error.to_string()).with_help(help)])
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for diagnostic in self.diagnostics() {
            formatter.write_str(&diagnostic.render(false))?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}
