//! Interned names: comparing two identifiers is comparing two numbers.

use std::fmt;
use std::sync::{OnceLock, RwLock};

use rustc_hash::FxHashMap;

/// An identifier, by its number in the process-wide table of names.
///
/// Quoted identifiers keep their quotes: `'a b'` is the name `'a b'`, as the specification says that `'x'` and `x` differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

#[derive(Default)]
struct Table {
    numbers: FxHashMap<&'static str, u32>,
    texts: Vec<&'static str>,
}

fn table() -> &'static RwLock<Table> {
    static TABLE: OnceLock<RwLock<Table>> = OnceLock::new();
    TABLE.get_or_init(RwLock::default)
}

impl Name {
    /// The name with the given text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        if let Some(&number) = read().numbers.get(text) {
            return Self(number);
        }
        let mut table = table().write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(&number) = table.numbers.get(text) {
            return Self(number);
        }
        let number = table.texts.len() as u32;
        let text: &'static str = Box::leak(text.into());
        table.texts.push(text);
        table.numbers.insert(text, number);
        Self(number)
    }

    /// Its text.
    #[must_use]
    pub fn text(self) -> &'static str {
        read().texts[self.0 as usize]
    }
}

fn read() -> std::sync::RwLockReadGuard<'static, Table> {
    table().read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.text())
    }
}
