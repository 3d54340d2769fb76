//! Lists that copies share until one of them changes.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A list that is cheap to clone. Copies share its elements; the first change of a copy makes its own.
///
/// ```
/// use daesy_graph::Shared;
/// let first: Shared<String> = vec!["x".to_owned(), "y".to_owned()].into();
/// let mut second = first.clone();
/// second.push("z".to_owned());
/// assert_eq!((first.len(), second.len()), (2, 3));
/// ```
#[derive(Debug)]
pub struct Shared<T>(Arc<Vec<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T> Deref for Shared<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        Arc::make_mut(&mut self.0)
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(elements: Vec<T>) -> Self {
        Self(Arc::new(elements))
    }
}

impl<T> FromIterator<T> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        elements.into_iter().collect::<Vec<T>>().into()
    }
}

impl<'a, T> IntoIterator for &'a Shared<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut Shared<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::Shared;

    #[test]
    fn copies_share_their_elements_until_one_changes() {
        let first: Shared<u32> = (0..3).collect();
        let mut second = first.clone();
        assert!(std::ptr::eq(first.as_slice(), second.as_slice()));
        for element in &mut second {
            *element += 1;
        }
        assert_eq!((first.as_slice(), second.as_slice()), (&[0, 1, 2][..], &[1, 2, 3][..]));
    }
}
