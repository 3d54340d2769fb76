//! What is in the unit that the library is in, read and compiled once however often it is instantiated.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use daesy_fmu::instance::{Instance, Role};
use daesy_fmu::model::{self, Model, token};
use daesy_fmu::observer::{self, ObserverInstance, ObserverModel};
use daesy_fmu::running::Running;

/// What a unit holds.
#[derive(Clone)]
pub(crate) enum Content {
    /// A model.
    Model(Arc<Model>),
    /// The filter of a study.
    Observer(Arc<ObserverModel>),
}

impl Content {
    fn token(&self) -> &str {
        match self {
            Self::Model(model) => &model.token,
            Self::Observer(observer) => &observer.token,
        }
    }

    /// Something that runs.
    ///
    /// # Errors
    /// In words: when it is not for this.
    pub(crate) fn instance(self, role: Role, may_return_early: bool) -> Result<Box<dyn Running>, String> {
        match self {
            Self::Model(model) => Ok(Box::new(Instance::new(model, role, may_return_early))),
            Self::Observer(observer) if role == Role::CoSimulation => Ok(Box::new(ObserverInstance::new(observer))),
            Self::Observer(_) => Err("the unit is a filter, which is for Co-Simulation alone".to_owned()),
        }
    }
}

/// What was instantiated last, and where it was.
struct Kept {
    path: PathBuf,
    content: Content,
}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// Gives the memory of the model back when the library is unloaded.
extern "C" fn release() {
    drop(KEPT.lock().unwrap_or_else(PoisonError::into_inner).take());
}

#[cfg(target_os = "linux")]
#[used]
// SAFETY: The loader calls the functions in this section without arguments, once, when the library is unloaded or the
// process ends; `release` needs none and touches nothing but a static of this library.
#[unsafe(link_section = ".fini_array")]
static RELEASE: extern "C" fn() = release;

/// What the resources of a unit hold.
///
/// # Errors
/// In words: when there is nothing, or something else than the caller means.
pub(crate) fn content_of(resources: &Path, expected: &str) -> Result<Content, String> {
    let observer = resources.join(observer::RESOURCE);
    let is_observer = observer.is_file();
    let path = if is_observer { observer } else { resources.join(model::RESOURCE) };
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let other =
        |found: &str| format!("the unit was asked for by `{expected}`, but what is in its resources is `{found}`");
    if let Some(kept) = kept.as_ref()
        && kept.path == path
    {
        let found = kept.content.token();
        return if found == expected { Ok(kept.content.clone()) } else { Err(other(found)) };
    }
    let bytes = std::fs::read(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let found = token(&bytes);
    if found != expected {
        return Err(other(&found));
    }
    let content = if is_observer {
        ObserverModel::read(&bytes).map(|observer| Content::Observer(Arc::new(observer)))
    } else {
        Model::read(&bytes).map(|model| Content::Model(Arc::new(model)))
    };
    let content = content.map_err(|error| error.to_string())?;
    *kept = Some(Kept { path, content: content.clone() });
    Ok(content)
}

/// The folder that a URI such as `file:///tmp/unit/resources` means; anything else is taken for a path.
pub(crate) fn folder_of_uri(uri: &str) -> PathBuf {
    let Some(rest) = uri.strip_prefix("file:") else { return PathBuf::from(uri) };
    let rest = match rest.strip_prefix("//") {
        // What stands before the next slash is the host.
        Some(after) => after.find('/').map_or("", |slash| &after[slash..]),
        None => rest,
    };
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.bytes();
    while let Some(byte) = left.next() {
        let code = left.code_ahead();
        match code.filter(|_| byte == b'%') {
            Some(code) => {
                bytes.push(code);
                left.nth(1);
            }
            None => bytes.push(byte),
        }
    }
    PathBuf::from(String::from_utf8_lossy(&bytes).into_owned())
}

/// Looking ahead in a text.
trait TwoDigits {
    /// The number that the next two characters are in base sixteen.
    fn code_ahead(&self) -> Option<u8>;
}

impl TwoDigits for std::str::Bytes<'_> {
    fn code_ahead(&self) -> Option<u8> {
        let mut ahead = self.clone();
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let (first, second) = (digit(ahead.next()?)?, digit(ahead.next()?)?);
        u8::try_from(16 * first + second).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read_as_importers_write_them() {
        for (uri, path) in [
            ("file:///tmp/a%20b/resources", "/tmp/a b/resources"),
            ("file:/tmp/x", "/tmp/x"),
            ("file://localhost/tmp/x", "/tmp/x"),
            ("/tmp/x", "/tmp/x"),
            ("file:///tmp/100%", "/tmp/100%"),
        ] {
            assert_eq!(folder_of_uri(uri), PathBuf::from(path), "{uri}");
        }
    }
}
