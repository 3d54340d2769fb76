//! A queue by integer level for searches whose levels never fall.
//!
//! Levels are sums of a few small integers: a ring of lists holds the next ones, a tree the few that are further away.

use std::collections::BTreeMap;

/// A node waiting at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) level: i64,
    pub(super) node: u32,
}

const RING: usize = 16;

/// Serves nodes by ascending level and, within a level, in the order of arrival, which keeps searches close to their
/// start. A node may wait at several levels; the caller skips what is settled.
#[derive(Debug)]
pub(super) struct LevelQueue {
    level: i64,
    /// The list of a level within the ring's reach is at its remainder.
    ring: [Vec<u32>; RING],
    n_served: usize,
    far: BTreeMap<i64, Vec<u32>>,
}

impl LevelQueue {
    pub(super) fn new() -> Self {
        Self { level: 0, ring: Default::default(), n_served: 0, far: BTreeMap::new() }
    }

    /// Forgets all that waits; the next search has levels from `level` on.
    pub(super) fn restart(&mut self, level: i64) {
        self.level = level;
        self.ring.iter_mut().for_each(Vec::clear);
        self.n_served = 0;
        self.far.clear();
    }

    /// Adds a node at a level that is not below the one last served.
    pub(super) fn push(&mut self, level: i64, node: u32) {
        if level - self.level < RING as i64 {
            self.ring[slot(level)].push(node);
        } else {
            self.far.entry(level).or_default().push(node);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        if self.n_served == self.ring[slot(self.level)].len() {
            self.ring[slot(self.level)].clear();
            self.n_served = 0;
            self.advance()?;
        }
        let node = *self.ring[slot(self.level)].get(self.n_served)?;
        self.n_served += 1;
        Some(Waiting { level: self.level, node })
    }

    /// Goes to the next level at which something waits.
    fn advance(&mut self) -> Option<()> {
        let next_near = (self.level + 1..self.level + RING as i64).find(|&level| !self.ring[slot(level)].is_empty());
        let next_far = self.far.first_key_value().map(|(&level, _)| level);
        self.level = next_near.into_iter().chain(next_far).min()?;
        if next_far == Some(self.level)
            && let Some((_, mut list)) = self.far.pop_first()
        {
            self.ring[slot(self.level)].append(&mut list);
        }
        Some(())
    }
}

fn slot(level: i64) -> usize {
    level.rem_euclid(RING as i64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_served_by_level_whatever_the_distance() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut queue = LevelQueue::new();
        for _ in 0..200 {
            let start = rng.i64(-1000..1000);
            queue.restart(start);
            let mut waiting: Vec<i64> = Vec::new();
            let mut level = start;
            let mut n_left = 300;
            loop {
                if n_left > 0 && (waiting.is_empty() || rng.bool()) {
                    n_left -= 1;
                    let reach = [1, 20, 300][rng.usize(0..3)];
                    let pushed = level + rng.i64(0..reach);
                    queue.push(pushed, pushed.rem_euclid(7) as u32);
                    waiting.push(pushed);
                    continue;
                }
                let expected = waiting.iter().copied().min();
                let served = queue.pop();
                assert_eq!(served.map(|item| item.level), expected);
                let Some(item) = served else { break };
                assert_eq!(item.node, item.level.rem_euclid(7) as u32);
                level = item.level;
                waiting.remove(waiting.iter().position(|&l| l == level).unwrap());
            }
        }
    }
}
