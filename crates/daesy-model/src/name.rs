//! Interned names: comparing two identifiers is comparing two numbers.
//!
//! One table serves the whole process, so that a [`Name`] means the same in every file and thread. Each thread keeps a
//! mirror of the part of it that it has met: the lock is taken once per thread and name, not once per use.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

/// An identifier, by its number in the process-wide table of names.
///
/// Quoted identifiers keep their quotes: `'a b'` is the name `'a b'`, as the specification says that `'x'` and `x`
/// differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

#[derive(Default)]
struct Table {
    numbers: FxHashMap<&'static str, u32>,
    texts: Vec<&'static str>,
}

impl Table {
    /// The number of a text, with the text as it is kept; a new text gets the next number.
    fn intern(&mut self, text: &str) -> (u32, &'static str) {
        if let Some((&kept, &number)) = self.numbers.get_key_value(text) {
            return (number, kept);
        }
        let number = self.texts.len() as u32;
        let kept: &'static str = Box::leak(text.into());
        self.texts.push(kept);
        self.numbers.insert(kept, number);
        (number, kept)
    }
}

thread_local! {
    /// What this thread has met: some of the numbers, and the texts up to the length of the shared table when last
    /// looked at.
    static MIRROR: RefCell<Table> = RefCell::default();
}

fn shared() -> MutexGuard<'static, Table> {
    static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();
    TABLE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Name {
    /// The name with the given text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        // The mirror is gone only while the thread ends; the shared table answers then.
        MIRROR
            .try_with(|mirror| {
                let mirror = &mut *mirror.borrow_mut();
                if let Some(&number) = mirror.numbers.get(text) {
                    return Self(number);
                }
                let (number, kept) = shared().intern(text);
                mirror.numbers.insert(kept, number);
                Self(number)
            })
            .unwrap_or_else(|_| Self(shared().intern(text).0))
    }

    /// Its text.
    #[must_use]
    pub fn text(self) -> &'static str {
        let at = self.0 as usize;
        MIRROR
            .try_with(|mirror| {
                let mirror = &mut *mirror.borrow_mut();
                if at >= mirror.texts.len() {
                    let known = mirror.texts.len();
                    mirror.texts.extend_from_slice(&shared().texts[known..]);
                }
                mirror.texts[at]
            })
            .unwrap_or_else(|_| shared().texts[at])
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_same_in_every_thread() {
        let texts: Vec<String> = (0..500).map(|number| format!("name_{}", number % 250)).collect();
        let here: Vec<Name> = texts.iter().map(|text| Name::new(text)).collect();
        let there = std::thread::spawn({
            let texts = texts.clone();
            move || texts.iter().rev().map(|text| Name::new(text)).collect::<Vec<_>>()
        })
        .join()
        .expect("the thread only interns");
        assert!(here.iter().eq(there.iter().rev()));
        assert!(here.iter().zip(&texts).all(|(name, text)| name.text() == text));
        let made_there = std::thread::spawn(|| Name::new("made in another thread")).join().expect("interns only");
        assert_eq!(made_there.text(), "made in another thread");
        assert_ne!(Name::new("x"), Name::new("'x'"));
    }
}
