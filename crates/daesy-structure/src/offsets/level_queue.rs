//! A queue by integer level for searches whose levels never fall.
//!
//! Levels are sums of a few small integers, so that few distinct ones are alive: one list per level.

use std::collections::BTreeMap;

/// A node waiting at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) level: i64,
    pub(super) node: u32,
}

/// Serves nodes by ascending level and, within a level, in the order of arrival, which keeps searches close to their start. A node may wait at several levels; the caller skips what is settled.
#[derive(Debug)]
pub(super) struct LevelQueue {
    current_level: i64,
    current: Vec<u32>,
    n_served: usize,
    later: BTreeMap<i64, Vec<u32>>,
}

impl LevelQueue {
    pub(super) fn new() -> Self {
        Self { current_level: i64::MIN, current: Vec::new(), n_served: 0, later: BTreeMap::new() }
    }

    /// Forgets all that waits; the next search may start at any level.
    pub(super) fn clear(&mut self) {
        self.current_level = i64::MIN;
        self.current.clear();
        self.n_served = 0;
        self.later.clear();
    }

    /// Adds a node at a level that is not below the one last served.
    pub(super) fn push(&mut self, level: i64, node: u32) {
        if level == self.current_level {
            self.current.push(node);
        } else {
            self.later.entry(level).or_default().push(node);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        if self.n_served == self.current.len() {
            let (level, list) = self.later.pop_first()?;
            self.current_level = level;
            self.current = list;
            self.n_served = 0;
        }
        let node = *self.current.get(self.n_served)?;
        self.n_served += 1;
        Some(Waiting { level: self.current_level, node })
    }
}
