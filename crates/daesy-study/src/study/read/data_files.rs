//! Reads `[data]`.

use daesy_graph::finding::Finding;
use toml::Spanned;
use toml::de::DeValue;

use super::super::section::{Reader, Section};
use super::super::{ColumnName, DataSource, Named};
use super::read_named;
use crate::data::{Conversion, Encoding, Format, Origin, Repeated, Stamp, TimeAxis};
use crate::limits;

pub(super) fn read_data(reader: &mut Reader, root: &mut Section<'_, '_>) -> Option<DataSource> {
    let mut section = reader.table("data", root.take("data")?, "a table")?;
    let span = section.span;
    let file = section.take("file");
    let files = section.take("files");
    let validation = section.take("validation");
    let column = section.take("time");
    let step = section.take("step");
    let format = read_format(reader, &mut section)?;
    let time_unit = section.take("time_unit");
    let seconds = match time_unit {
        Some(value) => match reader.word("time_unit", value, &["ms", "s", "min", "h", "d"])? {
            "ms" => 1e-3,
            "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => 1.0,
        },
        None => 1.0,
    };
    let mut by_header = |reader: &mut Reader, key| -> Vec<(String, f64)> {
        let expected = "a table of numbers by column, such as { power_kW = 1000 }";
        let read = read_named(reader, &mut section, key, expected, |reader, name, value| reader.number(name, value));
        read.into_iter().map(|named| (named.name, named.item)).collect()
    };
    let scale = by_header(reader, "scale");
    let offset = by_header(reader, "offset");
    section.finish(reader);
    let time = match (column, step) {
        (None, None) => TimeAxis::Column("t".to_owned()),
        (Some(column), None) => TimeAxis::Column(reader.text("time", column)?),
        (None, Some(step)) => {
            let place = reader.span(step);
            match reader.number("step", step)? {
                step if step > 0.0 && step.is_finite() => TimeAxis::Step(step),
                step => {
                    let message = format!("the step between rows must be positive, not {step}");
                    reader.findings.push(Finding::error("data-source", place, message));
                    return None;
                }
            }
        }
        (Some(_), Some(_)) => {
            reader.findings.push(
                Finding::error("data-source", span, "`[data]` has both `time` and `step`")
                    .with_help("`time` names a column of times; `step` is for files without one"),
            );
            return None;
        }
    };
    let mut named = Vec::new();
    let items = match (file, files) {
        (Some(file), None) => vec![file],
        (None, Some(files)) => {
            reader.list("files", files, "a list of files, each a name or `{ file = .., columns = { .. } }`")?
        }
        _ => {
            reader
                .findings
                .push(Finding::error("data-source", span, "`[data]` must have one of `file` and `files`").with_help(
                    "`file = \"run.csv\"` for one experiment, `files = [\"a.csv\", \"b.csv\"]` for several",
                ));
            return None;
        }
    };
    for item in items {
        named.extend(read_data_file(reader, item));
    }
    let mut held_out = Vec::new();
    if let Some(value) = validation {
        let expected = "a list of files, each a name or `{ file = .., columns = { .. } }`";
        for item in reader.list("validation", value, expected)? {
            held_out.extend(read_data_file(reader, item));
        }
    }
    refuse_training_data(reader, &named, &held_out);
    let conversion = Conversion { seconds, scale, offset };
    let has_time_unit = time_unit.is_some();
    Some(DataSource { files: named, validation: held_out, time, format, has_time_unit, conversion })
}

/// A record that parameters are found from says nothing about records they are not found from.
fn refuse_training_data(reader: &mut Reader, files: &[Named<Vec<ColumnName>>], validation: &[Named<Vec<ColumnName>>]) {
    let is_used = |held: &&Named<Vec<ColumnName>>| files.iter().any(|it| it.name == held.name && it.item == held.item);
    for held in validation.iter().filter(is_used) {
        let message = format!("`{}` is both among the data and in `validation`", held.name);
        let finding = Finding::error("data-source", held.span, message);
        reader.findings.push(finding.with_help("a file for validation must be one that parameters are not found from"));
    }
}

/// How the files of `[data]` are written.
fn read_format(reader: &mut Reader, section: &mut Section<'_, '_>) -> Option<Format> {
    let decimal = match section.take("decimal") {
        Some(value) => reader.word("decimal", value, &[".", ","])?.chars().next(),
        None => None,
    };
    let separator = match section.take("separator") {
        Some(value) => match reader.word("separator", value, &[",", ";", "\t", " ", "|", "tab", "space"])? {
            "tab" => Some('\t'),
            "space" => Some(' '),
            other => other.chars().next(),
        },
        None => None,
    };
    let encoding = match section.take("encoding") {
        Some(value) => {
            let word = reader.word("encoding", value, &Encoding::WORDS.map(|(word, _)| word))?;
            Encoding::WORDS.iter().find(|(known, _)| *known == word).map(|(_, encoding)| *encoding)
        }
        None => None,
    };
    let skip = match section.take("skip") {
        Some(value) => reader.whole("skip", value, limits::MAX_SKIPPED)? as usize,
        None => 0,
    };
    let missing = match section.take("missing") {
        Some(value) => read_missing(reader, value)?,
        None => Vec::new(),
    };
    let time_format = match section.take("time_format") {
        Some(value) => Some(reader.text("time_format", value)?),
        None => None,
    };
    let repeated = match section.take("repeated") {
        Some(value) => Some(match reader.word("repeated", value, &["first", "last"])? {
            "first" => Repeated::First,
            _ => Repeated::Last,
        }),
        None => None,
    };
    let has_summer_time = match section.take("summer_time") {
        Some(value) => reader.truth("summer_time", value)?,
        None => false,
    };
    let sheet = match section.take("sheet") {
        Some(value) => Some(reader.text("sheet", value)?),
        None => None,
    };
    let origin = match section.take("origin") {
        Some(value) => Some(read_origin(reader, value, time_format.as_deref())?),
        None => None,
    };
    Some(Format { decimal, separator, encoding, skip, missing, time_format, repeated, has_summer_time, sheet, origin })
}

/// Words or numbers that stand for missing values, as they are written in the file.
fn read_missing(reader: &mut Reader, value: &Spanned<DeValue<'_>>) -> Option<Vec<String>> {
    let items = reader.list("missing", value, "a list of words, such as [\"N/A\", \"-9999\"]")?;
    let word = |item: &&Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::Integer(number) => Some(number.as_str().to_owned()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        _ => None,
    };
    items.iter().map(|item| word(item).or_else(|| reader.text("missing", item))).collect()
}

fn read_origin(reader: &mut Reader, value: &Spanned<DeValue<'_>>, pattern: Option<&str>) -> Option<Origin> {
    let text = match value.get_ref() {
        DeValue::String(text) => text.to_string(),
        DeValue::Datetime(stamp) => stamp.to_string(),
        _ => return reader.number("origin", value).map(Origin::Number),
    };
    let as_written = || pattern.and_then(|pattern| Stamp::parse_as(&text, pattern));
    if let Some(stamp) = Stamp::parse(&text).or_else(as_written) {
        return Some(Origin::Stamp(stamp));
    }
    let span = reader.span(value);
    let message = format!("`origin` cannot be \"{text}\": it is a date of ISO 8601 or a number");
    let finding = Finding::error("data-source", span, message);
    reader.findings.push(finding.with_help("write it as \"2024-03-01T12:30:00\""));
    None
}

/// `"a.csv"` or `{ file = "a.csv", columns = { u = "u11" } }`: what the study calls `u` is the column `u11` of this
/// file.
fn read_data_file(reader: &mut Reader, item: &Spanned<DeValue<'_>>) -> Option<Named<Vec<ColumnName>>> {
    let span = reader.span(item);
    if !matches!(item.get_ref(), DeValue::Table(_)) {
        return reader.text("file", item).map(|name| Named { name, span, item: Vec::new() });
    }
    let mut section = reader.table("files", item, "a file name or a table")?;
    let place = section.span;
    let file = section.take("file");
    let columns = section.take("columns");
    section.finish(reader);
    let Some(file) = file else {
        let finding = Finding::error("data-source", place, "this entry of `files` names no file");
        reader.findings.push(finding.with_help("write { file = \"run.csv\", columns = { u = \"u11\" } }"));
        return None;
    };
    let name = reader.text("file", file)?;
    let mut names = Vec::new();
    if let Some(columns) = columns {
        for (name, header) in reader.table("columns", columns, "a table of names and headers")?.table {
            let span = reader.span(header);
            if let Some(header) = reader.text(name.get_ref(), header) {
                names.push(ColumnName { name: name.get_ref().to_string(), header, span });
            }
        }
    }
    Some(Named { name, span, item: names })
}
