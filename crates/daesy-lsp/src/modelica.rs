//! Models in an editor.

use daesy_graph::{FileId, SourceFile, SourceMap, Span};
use daesy_model::library::Library;
use daesy_model::name::Name;
use daesy_model::parser::parse;
use daesy_model::syntax::{ClassBody, ClassDef, ClassKind, ComponentDecl, ElementKind, Path, StoredDefinition};
use serde_json::{Value, json};

use crate::text::{Lines, Word, uri_of, word_before};
use crate::{Analysis, Document, names_after};
use daesy_analysis::check;
use daesy_study::diagnostic::Diagnostic;
use daesy_study::embedded;
use daesy_study::load::{LoadOptions, load_source};
use daesy_study::source::{ModelText, Place, Source};

/// Models of a file that are looked at.
const MOST_MODELS: usize = 20;

/// Models with more unknowns are flattened, but not checked, while a user types.
const MOST_CHECKED: usize = 2000;

/// Findings about all models of a file.
pub(super) fn analyze(document: &Document) -> Analysis {
    let parsed = parse(FileId(0), &document.text);
    let mut sources = SourceMap::default();
    sources.add(SourceFile::new(document.name(), document.text.clone()));
    let mut diagnostics: Vec<Diagnostic> =
        parsed.findings.iter().map(|finding| Diagnostic::resolve(finding, &sources)).collect();
    let is_broken = parsed.findings.iter().any(|finding| finding.level == daesy_graph::finding::Level::Error);
    // A part of a package means nothing without the rest of it.
    let is_part = parsed.definition.within.as_ref().is_some_and(|within| !within.parts.is_empty());
    if is_broken || is_part {
        return Analysis { diagnostics, models: None };
    }
    let mut names = Vec::new();
    parsed.definition.classes.iter().for_each(|class| models_of(class, "", &mut names));
    let mut models = Vec::new();
    for name in names.into_iter().take(MOST_MODELS) {
        let text = ModelText { name: document.name(), text: document.text.clone() };
        let source = Source { place: Place::Model(text), data: Vec::new() };
        let options = LoadOptions { class: Some(name), ..LoadOptions::default() };
        let found = match load_source(&source, &options) {
            Ok(loaded) => {
                let is_small = loaded.flat.size().unknowns <= MOST_CHECKED;
                let found = if is_small { check::check(&loaded).diagnostics } else { loaded.diagnostics.clone() };
                models.push(loaded);
                found
            }
            Err(found) => found,
        };
        for diagnostic in found {
            let is_same = |known: &Diagnostic| known.place == diagnostic.place && known.message == diagnostic.message;
            if !diagnostics.iter().any(is_same) {
                diagnostics.push(diagnostic);
            }
        }
    }
    let models = if models.is_empty() { None } else { Some(models) };
    Analysis { diagnostics, models }
}

/// Full names of what can be simulated in a class.
fn models_of(class: &ClassDef, outer: &str, names: &mut Vec<String>) {
    let name = if outer.is_empty() {
        class.name.name.text().to_owned()
    } else {
        format!("{outer}.{}", class.name.name.text())
    };
    if class.kind == ClassKind::Package {
        nested(class).for_each(|inner| models_of(inner, &name, names));
    } else if matches!(class.kind, ClassKind::Model | ClassKind::Block) && !class.is_partial {
        names.push(name);
    }
}

fn elements(class: &ClassDef) -> impl Iterator<Item = &ElementKind> {
    let elements = match &class.body {
        ClassBody::Long { composition, .. } => &composition.elements[..],
        _ => &[],
    };
    elements.iter().map(|element| &element.kind)
}

fn nested(class: &ClassDef) -> impl Iterator<Item = &ClassDef> {
    elements(class).filter_map(|element| match element {
        ElementKind::Class { class, .. } => Some(&**class),
        _ => None,
    })
}

fn components(class: &ClassDef) -> impl Iterator<Item = &ComponentDecl> {
    elements(class).filter_map(|element| match element {
        ElementKind::Component { component, .. } => Some(&**component),
        _ => None,
    })
}

fn is_in(span: Span, offset: usize) -> bool {
    (span.start as usize..=span.end as usize).contains(&offset)
}

/// The classes around an offset, the innermost first.
fn around(definition: &StoredDefinition, offset: usize) -> Vec<&ClassDef> {
    let mut classes: Vec<&ClassDef> = Vec::new();
    let mut next = definition.classes.iter().map(|class| &**class).find(|class| is_in(class.span, offset));
    while let Some(class) = next {
        classes.insert(0, class);
        next = nested(class).find(|inner| is_in(inner.span, offset));
    }
    classes
}

fn path_text(path: &Path) -> String {
    path.parts.iter().map(|part| part.name.text()).collect::<Vec<_>>().join(".")
}

/// The declaration of a name in the classes around it.
fn declaration<'d>(definition: &'d StoredDefinition, word: &Word<'_>) -> Option<&'d ComponentDecl> {
    let first = word.text.split('.').next()?;
    around(definition, word.start)
        .into_iter()
        .find_map(|class| components(class).find(|one| one.name.name.text() == first))
}

/// A class of the same file by its name: around the place, or from the top.
fn class_here<'d>(definition: &'d StoredDefinition, word: &Word<'_>) -> Option<&'d ClassDef> {
    let mut parts = word.text.split('.');
    let first = parts.next()?;
    let is_first = |class: &&ClassDef| class.name.name.text() == first;
    let mut class = around(definition, word.start)
        .into_iter()
        .find_map(|class| nested(class).find(is_first))
        .or_else(|| definition.classes.iter().map(|class| &**class).find(is_first))?;
    for part in parts {
        class = nested(class).find(|inner| inner.name.name.text() == part)?;
    }
    Some(class)
}

fn class_text(class: &ClassDef, name: &str) -> String {
    let description = class.description.as_ref().map_or_else(String::new, |text| format!("\n\n{text}"));
    format!("**{name}** ({}){description}", kind_word(class.kind))
}

fn kind_word(kind: ClassKind) -> &'static str {
    match kind {
        ClassKind::Model => "model",
        ClassKind::Block => "block",
        ClassKind::Connector | ClassKind::ExpandableConnector => "connector",
        ClassKind::Record | ClassKind::OperatorRecord => "record",
        ClassKind::Type => "type",
        ClassKind::Package => "package",
        ClassKind::Function => "function",
        _ => "class",
    }
}

/// A declaration or class of this file, or a class of a library.
pub(super) fn hover(document: &Document, word: &Word<'_>) -> Option<String> {
    let definition = parse(FileId(0), &document.text).definition;
    if let Some(component) = declaration(&definition, word).filter(|_| !word.text.contains('.')) {
        let description = component.description.as_ref().map_or_else(String::new, |text| format!("\n\n{text}"));
        return Some(format!("**{}** ({}){description}", word.text, path_text(&component.type_name)));
    }
    if let Some(class) = class_here(&definition, word) {
        return Some(class_text(class, word.text));
    }
    let mut library = Library::with_embedded(embedded::FILES);
    library.use_modelica_path();
    in_library(&library, word.text, |class, _| class_text(class, word.text))
}

/// Does something with a class of a library and the names of what is in it.
fn in_library<T>(library: &Library, name: &str, use_it: impl Fn(&ClassDef, Vec<(String, bool)>) -> T) -> Option<T> {
    let mut parts = name.split('.');
    let mut found = library.find_top(Name::new(parts.next()?))?;
    for part in parts {
        found = found.nested(library, Name::new(part))?;
    }
    Some(use_it(found.class, found.nested_names()))
}

/// Where a declaration or class of this file is.
pub(super) fn definition(document: &Document, word: &Word<'_>) -> Value {
    let definition = parse(FileId(0), &document.text).definition;
    let span = declaration(&definition, word)
        .map(|component| component.name.span)
        .or_else(|| class_here(&definition, word).map(|class| class.name.span));
    span.map_or(Value::Null, |span| {
        let range = Lines::new(&document.text).range(span.start as usize, span.end as usize);
        json!({ "uri": uri_of(&document.path), "range": range })
    })
}

/// Names of variables and components, classes, and keywords.
pub(super) fn completions(document: &Document, offset: usize) -> Vec<Value> {
    let word = word_before(&document.text, offset);
    let definition = parse(FileId(0), &document.text).definition;
    if let Some((outer, _)) = word.text.rsplit_once('.') {
        let mut items = names_after(document, &format!("{outer}."), &|_| true);
        let mut library = Library::with_embedded(embedded::FILES);
        library.use_modelica_path();
        let inner = in_library(&library, outer, |_, inner| inner).unwrap_or_default();
        items.extend(inner.into_iter().map(|(label, is_package)| class_item(&label, is_package)));
        return items;
    }
    let mut items = names_after(document, "", &|_| true);
    for class in around(&definition, offset) {
        let known: Vec<Value> = components(class)
            .map(|component| {
                let description = component.description.as_ref().map(|text| text.to_string());
                json!({
                    "label": component.name.name.text(),
                    "kind": 6,
                    "detail": path_text(&component.type_name),
                    "documentation": description,
                })
            })
            .collect();
        items.extend(known.into_iter().filter(|new| !items_have(&items, new)).collect::<Vec<_>>());
        items.extend(nested(class).map(|inner| class_item(inner.name.name.text(), inner.kind == ClassKind::Package)));
    }
    items.extend(
        definition.classes.iter().map(|class| class_item(class.name.name.text(), class.kind == ClassKind::Package)),
    );
    let mut library = Library::with_embedded(embedded::FILES);
    library.use_modelica_path();
    items.extend(library.top_names().map(|name| class_item(name.text(), true)));
    items.extend(KEYWORDS.iter().map(|word| json!({ "label": word, "kind": 14 })));
    items
}

fn items_have(items: &[Value], new: &Value) -> bool {
    items.iter().any(|item| item["label"] == new["label"])
}

fn class_item(label: &str, is_package: bool) -> Value {
    json!({ "label": label, "kind": if is_package { 9 } else { 7 }, "detail": if is_package { "package" } else { "class" } })
}

/// Words that begin something.
const KEYWORDS: [&str; 33] = [
    "Boolean",
    "Integer",
    "Real",
    "String",
    "algorithm",
    "annotation",
    "block",
    "connect",
    "connector",
    "constant",
    "der",
    "discrete",
    "else",
    "elseif",
    "end",
    "equation",
    "extends",
    "flow",
    "for",
    "function",
    "if",
    "import",
    "initial equation",
    "input",
    "loop",
    "model",
    "output",
    "package",
    "parameter",
    "record",
    "then",
    "type",
    "when",
];

/// Classes with their components.
pub(super) fn symbols(document: &Document) -> Vec<Value> {
    let definition = parse(FileId(0), &document.text).definition;
    let lines = Lines::new(&document.text);
    definition.classes.iter().map(|class| class_symbol(class, &lines)).collect()
}

fn class_symbol(class: &ClassDef, lines: &Lines<'_>) -> Value {
    let range = |span: Span| lines.range(span.start as usize, span.end as usize);
    let mut children: Vec<Value> = components(class)
        .map(|component| {
            json!({
                "name": component.name.name.text(),
                "detail": path_text(&component.type_name),
                "kind": 13,
                "range": range(component.span),
                "selectionRange": range(component.name.span),
            })
        })
        .collect();
    children.extend(nested(class).map(|inner| class_symbol(inner, lines)));
    json!({
        "name": class.name.name.text(),
        "detail": kind_word(class.kind),
        "kind": if class.kind == ClassKind::Package { 4 } else { 5 },
        "range": range(class.span),
        "selectionRange": range(class.name.span),
        "children": children,
    })
}
