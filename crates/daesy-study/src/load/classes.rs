//! Where the classes of a model come from.

use std::path::Path;

use daesy_graph::flat::FlatDae;
use daesy_model::flatten::{FlattenError, FlattenOptions, flatten_library};
use daesy_model::library::Library;
use daesy_model::name::Name;

use crate::diagnostic::Diagnostic;
use crate::embedded;
use crate::source::ModelText;
use crate::study::ModelSource;

/// A library with the file, what `MODELICAPATH` names, and daesy's own components.
pub(super) fn library_of_file(path: &Path) -> Result<Library, Vec<Diagnostic>> {
    let shown = path.display().to_string();
    let mut library = Library::with_embedded(embedded::FILES);
    library
        .add_path(path)
        .map_err(|error| vec![Diagnostic::about_file("file", &shown, format!("`{shown}` cannot be read: {error}"))])?;
    library.use_modelica_path();
    Ok(library)
}

/// The library that a full class name belongs to, where it knows its first part: the built-in one, or one on
/// `MODELICAPATH`.
pub(super) fn library_with(class: &str) -> Option<Library> {
    let is_name = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && part.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
    };
    if !class.split('.').all(is_name) {
        return None;
    }
    let mut library = Library::with_embedded(embedded::FILES);
    library.use_modelica_path();
    let first = Name::new(class.split('.').next()?);
    library.find_top(first).is_some().then_some(library)
}

/// The same with a text instead of a file.
pub(super) fn library_of_text(model: &ModelText) -> Library {
    let mut library = Library::with_embedded(embedded::FILES);
    library.add_text(&model.name, &model.text);
    library.use_modelica_path();
    library
}

/// The library that a study's model is in: a given text, a file, or classes that are installed.
pub(super) fn library_of_study(
    source: &ModelSource,
    path: &Path,
    given: Option<&ModelText>,
) -> Result<Library, Vec<Diagnostic>> {
    match given {
        Some(model) => Ok(library_of_text(model)),
        None if path.exists() => library_of_file(path),
        None => library_with(&source.file.display().to_string()).map_or_else(|| library_of_file(path), Ok),
    }
}

pub(super) fn flatten_class(
    library: &Library,
    class: Option<&str>,
    values: &[(String, f64)],
    moved: &[String],
) -> Result<FlatDae, FlattenError> {
    let mut options = FlattenOptions::default();
    (options.values, options.moved) = (values.iter().cloned().collect(), moved.to_vec());
    flatten_library(library, class, &options)
}

/// The diagnostics of a model that was refused.
#[must_use]
pub fn resolve_all(error: &FlattenError) -> Vec<Diagnostic> {
    error.findings.iter().map(|finding| Diagnostic::resolve(finding, &error.sources)).collect()
}
