//! Study files in an editor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use daesy_study::study::study_keys;
use serde_json::{Value, json};

use crate::text::{Lines, word_before};
use crate::{Analysis, Document, names_after};
use daesy_analysis::check;
use daesy_study::load::{LoadOptions, load_source};
use daesy_study::source::{ModelText, Place, Source};

/// Sections whose keys are names of the model, with the kinds of names they take.
const NAMED: [(&str, &[&str]); 7] = [
    ("parameters", &["parameter"]),
    ("unknown", &["parameter"]),
    ("random", &["parameter"]),
    ("inputs", &["input"]),
    ("disturbances", &["input"]),
    ("measurements", &["variable"]),
    ("initial", &["variable"]),
];

/// Findings about a study; models that are open in the editor are taken from there.
pub(super) fn analyze(document: &Document, open: &BTreeMap<PathBuf, String>) -> Analysis {
    if !looks_like_study(&document.text) {
        return Analysis { diagnostics: Vec::new(), models: None };
    }
    let folder = document.path.parent().map_or_else(PathBuf::new, Path::to_path_buf);
    let model = model_file(&document.text);
    let text = model.as_ref().and_then(|file| open.get(&folder.join(file)));
    let models = match (model, text) {
        (Some(name), Some(text)) => vec![ModelText { name, text: text.clone() }],
        _ => Vec::new(),
    };
    let place = Place::Study { name: document.name(), text: document.text.clone(), folder, models };
    match load_source(&Source { place, data: Vec::new() }, &LoadOptions::default()) {
        Ok(loaded) => {
            let diagnostics = check::check(&loaded).diagnostics;
            Analysis { diagnostics, models: Some(vec![loaded]) }
        }
        Err(diagnostics) => Analysis { diagnostics, models: None },
    }
}

/// Whether a TOML file is meant for daesy: editors send the settings of other programs too.
fn looks_like_study(text: &str) -> bool {
    text.lines().any(|line| matches!(line.trim(), "[model]" | "[linear]"))
}

/// What `file` of `[model]` says.
fn model_file(text: &str) -> Option<String> {
    let lines = text.lines().skip_while(|line| line.trim() != "[model]").skip(1);
    let inside = lines.take_while(|line| !line.trim_start().starts_with('['));
    let value = inside.filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "file")?.1.trim();
    let quote = value.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    value[1..].split(quote).next().map(str::to_owned)
}

/// The section that an offset is in.
fn section_at(text: &str, offset: usize) -> Option<&str> {
    let header = |line: &'_ str| -> Option<(usize, usize)> {
        let line = line.trim_end();
        (line.starts_with('[') && line.ends_with(']')).then(|| (1, line.len() - 1))
    };
    let mut section = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if at > offset {
            break;
        }
        if let Some((start, end)) = header(line) {
            section = Some(&text[at + start..at + end]);
        }
        at += line.len();
    }
    section
}

fn item(label: &str, kind: u8, detail: &str) -> Value {
    json!({ "label": label, "kind": kind, "detail": detail })
}

/// Sections after `[`, keys at the beginning of a line, and names of the model where they belong.
pub(super) fn completions(document: &Document, offset: usize) -> Vec<Value> {
    let text = &document.text;
    let line = &text[text[..offset].rfind('\n').map_or(0, |at| at + 1)..offset];
    let keys = study_keys();
    let root = keys.iter().find(|section| section.name.is_empty());
    if let Some(begun) =
        line.trim_start().strip_prefix('[').filter(|begun| !begun.contains(']') && !begun.contains('='))
    {
        let sections = root.map(|root| &root.keys[..]).unwrap_or_default();
        return sections.iter().filter(|name| name.starts_with(begun)).map(|name| item(name, 3, "section")).collect();
    }
    let Some(section) = section_at(text, offset) else { return Vec::new() };
    let is_inside = line.contains('=');
    let named = NAMED.iter().find(|(name, _)| *name == section).map(|(_, kinds)| *kinds);
    let known = |name: &str| {
        let known = keys.iter().find(|known| known.name == name);
        known.into_iter().flat_map(|known| known.keys.iter().map(|key| item(key, 10, "key"))).collect::<Vec<_>>()
    };
    let prefix = word_before(text, offset).text;
    let outer = prefix.rsplit_once('.').map_or_else(String::new, |(outer, _)| format!("{outer}."));
    match (named, is_inside) {
        (Some(kinds), false) => names_after(document, &outer, &|kind| kinds.contains(&kind)),
        (Some(_), true) => known(&format!("{section}.NAME")),
        (None, true) if line.contains("signals") => names_after(document, &outer, &|kind| kind != "parameter"),
        (None, true) => Vec::new(),
        (None, false) => known(section),
    }
}

/// The sections.
pub(super) fn symbols(document: &Document) -> Vec<Value> {
    let lines = Lines::new(&document.text);
    let mut symbols = Vec::new();
    let mut at = 0;
    for line in document.text.split_inclusive('\n') {
        let trimmed = line.trim_end();
        if trimmed.starts_with('[') && trimmed.ends_with(']') {
            let range = lines.range(at, at + trimmed.len());
            symbols.push(json!({
                "name": trimmed.trim_matches(['[', ']']),
                "kind": 3,
                "range": range,
                "selectionRange": range,
            }));
        }
        at += line.len();
    }
    symbols
}
