//! A table of the study file with the keys that have been read, so that the rest can be reported.

use daesy_graph::finding::{Finding, nearest};
use daesy_graph::{FileId, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Quantity, QuantityValue};
use crate::limits;

/// Collects findings while a study is read.
pub(super) struct Reader {
    pub(super) file: FileId,
    /// The text of the study.
    pub(super) source: String,
    pub(super) findings: Vec<Finding>,
    /// Tables that were read, with the keys they may have.
    pub(super) sections: Vec<KnownSection>,
}

/// A table of a study with the keys that it may have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KnownSection {
    /// Its name; empty for the study itself.
    pub name: String,
    /// The keys.
    pub keys: Vec<String>,
}

impl Reader {
    pub(super) fn span<T>(&self, spanned: &Spanned<T>) -> Span {
        let range = spanned.span();
        Span::new(self.file, range.start as u32, range.end as u32)
    }

    /// The whole name, where a key is the first part of a name with dots that stands without quotes: TOML reads
    /// `r.R = 1` as a table `r` with the key `R`.
    fn dotted_name(&self, key: Span) -> Option<&str> {
        let line = self.source.get(key.start as usize..)?.lines().next()?;
        let (name, _) = line.split_once('=')?;
        let rest = self.source.get(key.end as usize..)?.trim_start();
        rest.starts_with('.').then(|| name.trim())
    }

    /// Reads what is said of a name. What is wrong with a name that lacks its quotes is only that.
    pub(super) fn named<T>(
        &mut self,
        key: &Spanned<toml::de::DeString<'_>>,
        read: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<T> {
        let n_before = self.findings.len();
        let item = read(self);
        let span = self.span(key);
        if self.findings.len() > n_before
            && let Some(name) = self.dotted_name(span).map(|name| name.replace(['"', ' '], ""))
        {
            self.findings.truncate(n_before);
            let message = format!("the name `{name}` has dots and no quotes: TOML reads it as tables within tables");
            let finding = Finding::error("unquoted-name", span, message).with_names([&name]);
            self.findings.push(finding.with_help(format!("write it in quotes: \"{name}\" = ..")));
            return None;
        }
        item
    }

    pub(super) fn wrong_type(&mut self, key: &str, value: &Spanned<DeValue<'_>>, expected: &str) {
        let found = describe(value.get_ref());
        let span = self.span(value);
        self.findings.push(
            Finding::error("wrong-type", span, format!("`{key}` must be {expected}, but this is {found}"))
                .with_names([key]),
        );
    }

    /// A finite number.
    pub(super) fn number(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<f64> {
        match value.get_ref() {
            DeValue::Integer(_) | DeValue::Float(_) => {}
            _ => {
                self.wrong_type(key, value, "a number");
                return None;
            }
        }
        let number = parse_number(value.get_ref());
        if number.is_none() {
            let span = self.span(value);
            self.findings.push(
                Finding::error("not-finite", span, format!("`{key}` must be a finite number")).with_help(
                    if matches!(key, "min" | "max") {
                        "leave the key out if there is no limit"
                    } else {
                        "write a number"
                    },
                ),
            );
        }
        number
    }

    /// A positive finite number.
    pub(super) fn positive(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<f64> {
        let number = self.number(key, value)?;
        if number > 0.0 {
            return Some(number);
        }
        let span = self.span(value);
        let finding = Finding::error("out-of-range", span, format!("`{key}` must be greater than zero"));
        self.findings
            .push(finding.with_names([key]).with_help(format!("write a positive number, or leave `{key}` out")));
        None
    }

    /// A count between 1 and `most`.
    pub(super) fn count(&mut self, key: &str, value: &Spanned<DeValue<'_>>, most: u64) -> Option<u64> {
        self.whole_between(key, value, 1, most)
    }

    /// A count between 0 and `most`.
    pub(super) fn whole(&mut self, key: &str, value: &Spanned<DeValue<'_>>, most: u64) -> Option<u64> {
        self.whole_between(key, value, 0, most)
    }

    fn whole_between(&mut self, key: &str, value: &Spanned<DeValue<'_>>, least: u64, most: u64) -> Option<u64> {
        let DeValue::Integer(integer) = value.get_ref() else {
            self.wrong_type(key, value, "a whole number");
            return None;
        };
        let span = self.span(value);
        // Whole numbers of a study have 64 bits with a sign; one that does not fit is beyond every limit.
        let number = i128::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).unwrap_or(i128::MAX);
        if number < i128::from(least) {
            let message = format!("`{key}` must be {least} or more, but this is {number}");
            let help = format!("write a whole number from {least} to {most}, or leave `{key}` out");
            self.findings.push(Finding::error("out-of-range", span, message).with_names([key]).with_help(help));
            return None;
        }
        let count = u64::try_from(number).unwrap_or(u64::MAX);
        match limits::at_most(&format!("`{key}`"), count, most) {
            Ok(()) => Some(count),
            Err(refusal) => {
                self.findings.push(refusal.at(span).with_names([key]));
                None
            }
        }
    }

    /// A relative tolerance.
    pub(super) fn tolerance(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<f64> {
        let number = self.positive(key, value)?;
        match limits::tolerance(&format!("`{key}`"), number) {
            Ok(()) => Some(number),
            Err(refusal) => {
                let span = self.span(value);
                self.findings.push(refusal.at(span).with_names([key]));
                None
            }
        }
    }

    /// A text.
    pub(super) fn text(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<String> {
        if let Some(text) = value.get_ref().as_str() {
            return Some(text.to_owned());
        }
        self.wrong_type(key, value, "a text in quotes");
        None
    }

    /// `true` or `false`.
    pub(super) fn truth(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<bool> {
        if let DeValue::Boolean(truth) = value.get_ref() {
            return Some(*truth);
        }
        self.wrong_type(key, value, "true or false, without quotes");
        None
    }

    /// One of several words.
    pub(super) fn word(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let text = self.text(key, value)?;
        if let Some(&word) = words.iter().find(|&&word| word == text) {
            return Some(word);
        }
        let span = self.span(value);
        let mut finding = Finding::error("unknown-value", span, format!("`{key}` cannot be \"{text}\""));
        finding = finding.with_help(match nearest(&text, words.iter().copied()) {
            Some(word) => format!("did you mean \"{word}\"? One of: {}", words.join(", ")),
            None => format!("one of: {}", words.join(", ")),
        });
        self.findings.push(finding);
        None
    }

    /// A number or a text that holds an expression.
    pub(super) fn quantity(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Quantity> {
        let span = self.span(value);
        if let Some(text) = value.get_ref().as_str() {
            return Some(Quantity { value: QuantityValue::Expression(text.to_owned()), span });
        }
        if !matches!(value.get_ref(), DeValue::Integer(_) | DeValue::Float(_)) {
            self.wrong_type(key, value, "a number or an expression in quotes");
            return None;
        }
        Some(Quantity { value: QuantityValue::Number(self.number(key, value)?), span })
    }

    /// A list of things.
    pub(super) fn list<'a, 'i>(
        &mut self,
        key: &str,
        value: &'a Spanned<DeValue<'i>>,
        expected: &str,
    ) -> Option<Vec<&'a Spanned<DeValue<'i>>>> {
        if let Some(array) = value.get_ref().as_array() {
            return Some(array.iter().collect());
        }
        self.wrong_type(key, value, expected);
        None
    }

    /// A list of numbers or expressions.
    pub(super) fn quantities(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Vec<Quantity>> {
        let items = self.list(key, value, "a list of numbers")?;
        let n_items = items.len();
        let read: Vec<Quantity> = items.into_iter().filter_map(|item| self.quantity(key, item)).collect();
        (read.len() == n_items).then_some(read)
    }

    /// A list of texts.
    pub(super) fn texts(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Vec<String>> {
        let items = self.list(key, value, "a list of texts")?;
        let n_items = items.len();
        let read: Vec<String> = items.into_iter().filter_map(|item| self.text(key, item)).collect();
        (read.len() == n_items).then_some(read)
    }

    /// A matrix: a list of rows of equal length.
    pub(super) fn matrix(&mut self, key: &str, value: &Spanned<DeValue<'_>>) -> Option<Vec<Vec<Quantity>>> {
        let rows = self.list(key, value, "a matrix: a list of rows, each a list of numbers")?;
        let n_rows = rows.len();
        let mut matrix: Vec<Vec<Quantity>> = Vec::with_capacity(n_rows);
        for row in rows {
            if !row.get_ref().is_array() {
                self.wrong_type(key, row, "a matrix: each of its rows a list of numbers");
                return None;
            }
            let read = self.quantities(key, row)?;
            if let Some(first) = matrix.first()
                && first.len() != read.len()
            {
                let span = self.span(row);
                self.findings.push(Finding::error(
                    "ragged-matrix",
                    span,
                    format!(
                        "row {} of `{key}` has {} entries, the rows before it have {}",
                        matrix.len() + 1,
                        read.len(),
                        first.len()
                    ),
                ));
                return None;
            }
            matrix.push(read);
        }
        Some(matrix)
    }

    /// A table.
    pub(super) fn table<'a, 'i>(
        &mut self,
        key: &str,
        value: &'a Spanned<DeValue<'i>>,
        expected: &str,
    ) -> Option<Section<'a, 'i>> {
        if let Some(table) = value.get_ref().as_table() {
            return Some(Section { name: key.to_owned(), table, span: self.span(value), read: Vec::new() });
        }
        self.wrong_type(key, value, expected);
        None
    }
}

/// A finite number of the file.
fn parse_number(value: &DeValue<'_>) -> Option<f64> {
    let number = match value {
        DeValue::Integer(integer) => {
            i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()? as f64
        }
        DeValue::Float(float) => float.as_str().replace('_', "").parse::<f64>().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

fn describe(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// A table whose keys are taken one by one.
pub(super) struct Section<'a, 'i> {
    pub(super) name: String,
    pub(super) table: &'a DeTable<'i>,
    pub(super) span: Span,
    read: Vec<&'static str>,
}

impl<'a, 'i> Section<'a, 'i> {
    pub(super) fn root(table: &'a DeTable<'i>, span: Span) -> Self {
        Self { name: String::new(), table, span, read: Vec::new() }
    }

    /// The value of a key, which counts as known from now on.
    pub(super) fn take(&mut self, key: &'static str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.read.push(key);
        self.table.get(key)
    }

    /// Reports every key that was not taken.
    pub(super) fn finish(self, reader: &mut Reader) {
        let keys = self.read.iter().map(|&key| key.to_owned()).collect();
        reader.sections.push(KnownSection { name: self.name.clone(), keys });
        for (key, _) in self.table {
            let text: &str = key.get_ref();
            if self.read.contains(&text) {
                continue;
            }
            let place = if self.name.is_empty() { "a study".to_owned() } else { format!("`{}`", self.name) };
            let finding = Finding::error("unknown-key", reader.span(key), format!("`{text}` is not a key of {place}"))
                .with_names([text]);
            reader.findings.push(finding.with_help(match nearest(text, self.read.iter().copied()) {
                Some(known) => format!("did you mean `{known}`? Known keys: {}", self.read.join(", ")),
                None => format!("known keys: {}", self.read.join(", ")),
            }));
        }
    }
}
