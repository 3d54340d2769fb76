//! The model of the unit that the library is in, read and compiled once however often it is instantiated.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use daesy_fmu::model::{Model, RESOURCE, token};

/// The model that was instantiated last, and where it was.
struct Kept {
    path: PathBuf,
    model: Arc<Model>,
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

/// The model in the resources of a unit.
///
/// # Errors
/// In words: when there is none, or another than the caller means.
pub(crate) fn model_in(resources: &Path, expected: &str) -> Result<Arc<Model>, String> {
    let path = resources.join(RESOURCE);
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let other =
        |found: &str| format!("the unit was asked for by `{expected}`, but what is in its resources is `{found}`");
    if let Some(kept) = kept.as_ref()
        && kept.path == path
    {
        return if kept.model.token == expected { Ok(Arc::clone(&kept.model)) } else { Err(other(&kept.model.token)) };
    }
    let bytes = std::fs::read(&path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
    let found = token(&bytes);
    if found != expected {
        return Err(other(&found));
    }
    let model = Arc::new(Model::read(&bytes).map_err(|error| error.to_string())?);
    *kept = Some(Kept { path, model: Arc::clone(&model) });
    Ok(model)
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
