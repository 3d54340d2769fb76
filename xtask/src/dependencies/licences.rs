//! Licence expressions of dependencies, held against the list of allowed licences.

use super::{ForeignPackage, POLICY};
use crate::problem::Problem;

/// Checks every package's licence expression.
pub fn check(packages: &[ForeignPackage], policy: &toml::Table) -> Vec<Problem> {
    let allowed: Vec<&str> = policy
        .get("licences")
        .and_then(|section| section.get("allow"))
        .and_then(toml::Value::as_array)
        .map(|list| list.iter().filter_map(toml::Value::as_str).collect())
        .unwrap_or_default();
    let mut problems = Vec::new();
    for package in packages {
        let place = format!("{} {}", package.name, package.version);
        match &package.licence {
            None => problems.push(Problem::of_file("Cargo.lock", format!("{place} states no licence"))),
            Some(expression) => match is_allowed(expression, &allowed) {
                Ok(true) => {}
                Ok(false) => problems.push(Problem::of_file(
                    "Cargo.lock",
                    format!("{place} is under {expression}, which the list in {POLICY} does not allow"),
                )),
                Err(reason) => problems.push(Problem::of_file("Cargo.lock", format!("{place}: {reason}"))),
            },
        }
    }
    problems
}

/// Evaluates an SPDX expression; OR needs one allowed side, AND both. The old `A/B` reads as OR.
fn is_allowed(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { tokens: &tokens, position: 0, allowed };
    let verdict = reader.either().ok_or_else(|| format!("cannot read the licence `{expression}`"))?;
    if reader.position == tokens.len() { Ok(verdict) } else { Err(format!("cannot read the licence `{expression}`")) }
}

struct Reader<'a> {
    tokens: &'a [&'a str],
    position: usize,
    allowed: &'a [&'a str],
}

impl Reader<'_> {
    fn accept(&mut self, word: &str) -> bool {
        let is_next = self.tokens.get(self.position).is_some_and(|token| *token == word);
        self.position += usize::from(is_next);
        is_next
    }

    fn either(&mut self) -> Option<bool> {
        let mut verdict = self.both()?;
        while self.accept("OR") {
            verdict |= self.both()?;
        }
        Some(verdict)
    }

    fn both(&mut self) -> Option<bool> {
        let mut verdict = self.single()?;
        while self.accept("AND") {
            verdict &= self.single()?;
        }
        Some(verdict)
    }

    fn single(&mut self) -> Option<bool> {
        if self.accept("(") {
            let verdict = self.either()?;
            return self.accept(")").then_some(verdict);
        }
        let mut name = (*self.tokens.get(self.position)?).to_owned();
        if ["OR", "AND", "WITH", ")"].contains(&name.as_str()) {
            return None;
        }
        self.position += 1;
        if self.accept("WITH") {
            name = format!("{name} WITH {}", self.tokens.get(self.position)?);
            self.position += 1;
        }
        Some(self.allowed.contains(&name.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::package;
    use super::*;

    const ALLOWED: [&str; 4] = ["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];

    #[test]
    fn expressions_are_evaluated() {
        for (expression, verdict) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("MIT OR GPL-3.0 AND MPL-2.0", true),
            ("MIT/Apache-2.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
        ] {
            assert_eq!(is_allowed(expression, &ALLOWED), Ok(verdict), "{expression}");
        }
        for broken in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "AND MIT"] {
            assert!(is_allowed(broken, &ALLOWED).is_err(), "{broken}");
        }
    }

    #[test]
    fn packages_without_or_with_other_licences_are_named() {
        let policy: toml::Table = "[licences]\nallow = [\"MIT\"]".parse().expect("valid policy");
        let mut nameless = package("nameless", "1.0.0", "");
        nameless.licence = None;
        let packages = [package("fine", "1.0.0", "MIT"), package("viral", "2.0.0", "GPL-3.0"), nameless];
        let problems = check(&packages, &policy);
        assert_eq!(problems.len(), 2);
        assert!(problems[0].message.starts_with("viral 2.0.0 is under GPL-3.0"));
        assert!(problems[1].message.starts_with("nameless 1.0.0 states no licence"));
    }
}
