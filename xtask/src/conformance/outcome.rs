//! What became of the examples: a file that a later run can be compared with, and tables for reading.

use std::collections::BTreeMap;

/// How far an example came. The order is that of progress.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Verdict {
    /// The program crashed.
    Crashed,
    /// It was refused while flattening or checking.
    Refused,
    /// It took longer than the limit.
    TooSlow,
    /// The simulation gave up.
    Failed,
    /// It ran, and a signal is outside of the tube or missing.
    Differs,
    /// A signal is outside of the tube, but errors of the size of the reference's tolerance, or another rounding unit of
    /// the tool, lead as far, and the solution does not depend on the tolerance of the program: the comparison decides
    /// nothing.
    Sensitive,
    /// All signals are in the tube.
    Agrees,
}

const WORDS: [(Verdict, &str); 7] = [
    (Verdict::Agrees, "agrees"),
    (Verdict::Sensitive, "sensitive"),
    (Verdict::Differs, "differs"),
    (Verdict::Failed, "failed"),
    (Verdict::TooSlow, "too slow"),
    (Verdict::Refused, "refused"),
    (Verdict::Crashed, "crashed"),
];

impl Verdict {
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(verdict, _)| *verdict == self).map_or("", |(_, word)| word)
    }

    fn parse(word: &str) -> Option<Self> {
        WORDS.iter().find(|(_, known)| *known == word).map(|(verdict, _)| *verdict)
    }
}

/// What became of one example.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    pub name: String,
    pub verdict: Verdict,
    /// Processor seconds.
    pub seconds: f64,
    /// The first finding, or the worst signal.
    pub reason: String,
}

/// One line for each example: name, verdict, seconds, reason, with tabs between.
pub fn to_text(outcomes: &[Outcome]) -> String {
    let mut text = String::from("example\tverdict\tseconds\treason\n");
    for one in outcomes {
        let reason = one.reason.replace(['\t', '\n'], " ");
        text.push_str(&format!("{}\t{}\t{:.2}\t{reason}\n", one.name, one.verdict.word(), one.seconds));
    }
    text
}

/// Reads what [`to_text`] wrote.
pub fn from_text(text: &str) -> Result<Vec<Outcome>, String> {
    let parse = |line: &str| {
        let mut cells = line.split('\t');
        let (name, verdict, seconds) = (cells.next()?, cells.next()?, cells.next()?);
        Some(Outcome {
            name: name.to_owned(),
            verdict: Verdict::parse(verdict)?,
            seconds: seconds.parse().ok()?,
            reason: cells.next().unwrap_or_default().to_owned(),
        })
    };
    text.lines().skip(1).map(|line| parse(line).ok_or_else(|| format!("`{line}` is no line of results"))).collect()
}

/// The package that an example is counted under: the two names after that of the library.
fn package(name: &str) -> String {
    let parts: Vec<&str> = name.split('.').skip(1).collect();
    let until = parts.iter().position(|&part| part == "Examples").unwrap_or(parts.len()).clamp(1, 2);
    parts[..until.min(parts.len())].join(".")
}

/// A Markdown table of verdicts by package.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut rows: BTreeMap<String, [usize; 7]> = BTreeMap::new();
    let mut total = [0; 7];
    for one in outcomes {
        let at = WORDS.iter().position(|(verdict, _)| *verdict == one.verdict).unwrap_or(0);
        rows.entry(package(&one.name)).or_default()[at] += 1;
        total[at] += 1;
    }
    let mut text = String::from("| package | examples |");
    WORDS.iter().for_each(|(_, word)| text.push_str(&format!(" {word} |")));
    text.push_str("\n|---|---|---|---|---|---|---|---|---|\n");
    for (name, counts) in rows.into_iter().chain([("all".to_owned(), total)]) {
        let cells: Vec<String> = counts.iter().map(|&n| if n == 0 { String::new() } else { n.to_string() }).collect();
        text.push_str(&format!("| {name} | {} | {} |\n", counts.iter().sum::<usize>(), cells.join(" | ")));
    }
    text
}

/// A reason without the names and numbers of one model.
fn kind_of(reason: &str) -> String {
    let mut kind = String::new();
    let mut is_quoted = false;
    for letter in reason.chars() {
        match letter {
            '`' => {
                kind.push_str(if is_quoted { "_`" } else { "`" });
                is_quoted = !is_quoted;
            }
            _ if is_quoted => {}
            '0'..='9' => {
                if !kind.ends_with('N') {
                    kind.push('N');
                }
            }
            other => kind.push(other),
        }
    }
    kind.chars().take(110).collect()
}

/// Reasons of all that do not agree, by count.
pub fn reasons(outcomes: &[Outcome]) -> Vec<(usize, String)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for one in outcomes.iter().filter(|one| one.verdict != Verdict::Agrees && one.verdict != Verdict::Differs) {
        *counts.entry(format!("{}: {}", one.verdict.word(), kind_of(&one.reason))).or_default() += 1;
    }
    let mut list: Vec<(usize, String)> = counts.into_iter().map(|(reason, n)| (n, reason)).collect();
    list.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    list
}

/// What got better and what broke since an earlier run.
pub fn changes(earlier: &[Outcome], now: &[Outcome]) -> Vec<String> {
    let mut lines = Vec::new();
    for one in now {
        let Some(before) = earlier.iter().find(|before| before.name == one.name) else { continue };
        let word = match one.verdict.cmp(&before.verdict) {
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Greater => "better",
            std::cmp::Ordering::Less => "broken",
        };
        let (from, to) = (before.verdict.word(), one.verdict.word());
        lines.push(format!("{word}: {} {from} -> {to}  {}", one.name, one.reason));
    }
    lines.sort();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, verdict: Verdict, reason: &str) -> Outcome {
        Outcome { name: name.to_owned(), verdict, seconds: 0.25, reason: reason.to_owned() }
    }

    #[test]
    fn results_survive_a_file_and_are_compared() {
        let now = vec![
            outcome("L.A.Examples.X", Verdict::Agrees, ""),
            outcome("L.A.B.Examples.Y", Verdict::Refused, "[unsupported] `delay` at 12"),
        ];
        assert_eq!(from_text(&to_text(&now)).unwrap(), now);
        let earlier =
            vec![outcome("L.A.Examples.X", Verdict::Failed, ""), outcome("L.A.B.Examples.Y", Verdict::Agrees, "")];
        let lines = changes(&earlier, &now);
        assert!(lines[0].starts_with("better: L.A.Examples.X failed -> agrees"), "{lines:?}");
        assert!(lines[1].starts_with("broken: L.A.B.Examples.Y agrees -> refused"), "{lines:?}");
        assert_eq!(reasons(&now), [(1, "refused: [unsupported] `_` at N".to_owned())]);
        assert!(table(&now).contains("| A.B | 1 |  |  |  |  |  | 1 |  |"), "{}", table(&now));
        assert!(from_text("head\nnonsense").is_err());
    }
}
