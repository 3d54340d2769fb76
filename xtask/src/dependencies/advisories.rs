//! Known advisories against locked versions, from the list kept in the tree.

use semver::VersionReq;
use toml::Value;

use super::{ForeignPackage, POLICY};
use crate::problem::Problem;

/// An advisory of the list.
struct Advisory {
    id: String,
    package: String,
    /// Version ranges it holds for; empty means every version.
    affected: Vec<VersionReq>,
    summary: String,
}

/// Names every locked package an advisory holds for, unless it is accepted with a reason.
pub fn check(packages: &[ForeignPackage], policy: &toml::Table) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut advisories = Vec::new();
    for table in tables(policy, "advisory") {
        match read(table) {
            Ok(advisory) => advisories.push(advisory),
            Err(reason) => problems.push(Problem::of_file(POLICY, reason)),
        }
    }
    let accepted: Vec<Accepted> = tables(policy, "accepted")
        .map(|table| Accepted { id: text(table, "id"), reason: text(table, "reason") })
        .collect();
    let mut hits = Vec::new();
    for advisory in &advisories {
        for package in packages.iter().filter(|package| advisory.holds_for(package)) {
            hits.push(advisory.id.as_str());
            if !accepted.iter().any(|entry| entry.id == advisory.id) {
                problems.push(Problem::of_file(
                    "Cargo.lock",
                    format!("{} {}: {} {}", package.name, package.version, advisory.id, advisory.summary),
                ));
            }
        }
    }
    for entry in &accepted {
        if entry.reason.is_empty() {
            problems.push(Problem::of_file(POLICY, format!("{} is accepted without a reason", entry.id)));
        }
        if !hits.contains(&entry.id.as_str()) {
            problems
                .push(Problem::of_file(POLICY, format!("{} is accepted but holds for nothing; remove it", entry.id)));
        }
    }
    problems
}

struct Accepted {
    id: String,
    reason: String,
}

impl Advisory {
    fn holds_for(&self, package: &ForeignPackage) -> bool {
        self.package == package.name
            && (self.affected.is_empty() || self.affected.iter().any(|range| range.matches(&package.version)))
    }
}

fn tables<'a>(policy: &'a toml::Table, name: &str) -> impl Iterator<Item = &'a toml::Table> {
    policy.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_table)
}

fn text(table: &toml::Table, key: &str) -> String {
    table.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn read(table: &toml::Table) -> Result<Advisory, String> {
    let id = text(table, "id");
    let package = text(table, "package");
    if id.is_empty() || package.is_empty() {
        return Err("an advisory needs `id` and `package`".to_owned());
    }
    let ranges = table.get("affected").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let affected = ranges
        .map(|range| VersionReq::parse(range).map_err(|e| format!("{id}: the range `{range}`: {e}")))
        .collect::<Result<_, _>>()?;
    Ok(Advisory { id, package, affected, summary: text(table, "summary") })
}

#[cfg(test)]
mod tests {
    use super::super::package;
    use super::*;

    const LIST: &str = r#"
        [[advisory]]
        id = "A-1"
        package = "smallvec"
        affected = [">=0.6.3, <0.6.14", ">=1.0.0, <1.6.1"]
        summary = "buffer overflow"

        [[advisory]]
        id = "A-2"
        package = "paste"
        summary = "unmaintained"
    "#;

    fn problems(list: &str, packages: &[ForeignPackage]) -> Vec<String> {
        let policy: toml::Table = list.parse().expect("valid policy");
        check(packages, &policy).into_iter().map(|problem| problem.message).collect()
    }

    #[test]
    fn ranges_decide() {
        assert_eq!(problems(LIST, &[package("smallvec", "1.6.1", "MIT")]), Vec::<String>::new());
        assert_eq!(problems(LIST, &[package("smallvec", "1.6.0", "MIT")]), ["smallvec 1.6.0: A-1 buffer overflow"]);
        assert_eq!(problems(LIST, &[package("smallvec", "0.6.13", "MIT")]).len(), 1);
        assert_eq!(problems(LIST, &[package("paste", "1.0.15", "MIT")]), ["paste 1.0.15: A-2 unmaintained"]);
    }

    #[test]
    fn acceptance_needs_a_reason_and_a_use() {
        let accepted = format!("{LIST}\n[[accepted]]\nid = \"A-2\"\nreason = \"build time only\"\n");
        assert_eq!(problems(&accepted, &[package("paste", "1.0.15", "MIT")]), Vec::<String>::new());
        assert_eq!(problems(&accepted, &[]), ["A-2 is accepted but holds for nothing; remove it"]);
        let unreasoned = format!("{LIST}\n[[accepted]]\nid = \"A-2\"\n");
        assert_eq!(problems(&unreasoned, &[package("paste", "1.0.15", "MIT")]), ["A-2 is accepted without a reason"]);
    }

    #[test]
    fn broken_entries_are_named() {
        let broken = "[[advisory]]\nid = \"A-3\"\npackage = \"x\"\naffected = [\"what\"]\n";
        assert_eq!(problems(broken, &[]).len(), 1);
    }
}
