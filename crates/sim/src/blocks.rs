//! The KV blocks: a pool, and in it the blocks whose content is known by its hash and can be reused.
//!
//! Only blocks with a hash need an identity; the others are counted. Every block is one of
//!
//! - free: holds nothing;
//! - private: held by one sequence, content not (yet) known by hash;
//! - cached: known by hash, held by `refs` sequences; with none it is idle, and evicted least recently used first.

use std::collections::{HashMap, VecDeque};

#[derive(Debug)]
struct Cached {
    refs: u32,
    /// When it became idle; tells a stale entry of the eviction queue.
    idle_since: u64,
}

/// The pool.
#[derive(Debug)]
pub(crate) struct BlockPool {
    total: u32,
    free: u32,
    private: u32,
    cached: HashMap<u64, Cached>,
    idle: u32,
    /// Idle blocks, least recently used first, with stale entries among them.
    eviction: VecDeque<(u64, u64)>,
    clock: u64,
}

impl BlockPool {
    pub(crate) fn new(total: u32) -> Self {
        BlockPool {
            total,
            free: total,
            private: 0,
            cached: HashMap::new(),
            idle: 0,
            eviction: VecDeque::new(),
            clock: 0,
        }
    }

    /// Blocks that can be taken, those that must be evicted first included.
    pub(crate) fn available(&self) -> u32 {
        self.free + self.idle
    }

    /// Share of blocks that sequences hold, 0..=1.
    pub(crate) fn usage(&self) -> f64 {
        if self.total == 0 {
            return 0.0;
        }
        f64::from(self.total - self.available()) / f64::from(self.total)
    }

    /// How many of these blocks, from the first on, are cached; and how many of those are idle.
    pub(crate) fn longest_prefix(&self, hashes: &[u64]) -> (u32, u32) {
        let mut found = 0;
        let mut idle = 0;
        for hash in hashes {
            let Some(block) = self.cached.get(hash) else { break };
            found += 1;
            idle += u32::from(block.refs == 0);
        }
        (found, idle)
    }

    /// Takes `count` private blocks, evicting idle ones as needed. Takes none when there are too few.
    pub(crate) fn take(&mut self, count: u32) -> bool {
        if count > self.available() {
            return false;
        }
        while self.free < count {
            self.evict_one();
        }
        self.free -= count;
        self.private += count;
        true
    }

    /// Gives `count` private blocks back.
    pub(crate) fn give_back(&mut self, count: u32) {
        self.private -= count;
        self.free += count;
    }

    /// Holds a cached block.
    pub(crate) fn hold(&mut self, hash: u64) {
        if let Some(block) = self.cached.get_mut(&hash) {
            if block.refs == 0 {
                self.idle -= 1;
            }
            block.refs += 1;
        }
    }

    /// Makes one private block a cached one, held once. `false` when that content is cached already: the block
    /// then stays private.
    pub(crate) fn publish(&mut self, hash: u64) -> bool {
        if self.cached.contains_key(&hash) {
            return false;
        }
        self.cached.insert(
            hash,
            Cached {
                refs: 1,
                idle_since: 0,
            },
        );
        self.private -= 1;
        true
    }

    /// Lets go of a cached block.
    pub(crate) fn release(&mut self, hash: u64) {
        let Some(block) = self.cached.get_mut(&hash) else {
            return;
        };
        block.refs -= 1;
        if block.refs == 0 {
            self.clock += 1;
            block.idle_since = self.clock;
            self.idle += 1;
            self.eviction.push_back((hash, self.clock));
            if self.eviction.len() > 1_024 + 2 * self.idle as usize {
                self.drop_stale();
            }
        }
    }

    fn is_current(cached: &HashMap<u64, Cached>, (hash, since): (u64, u64)) -> bool {
        cached
            .get(&hash)
            .is_some_and(|block| block.refs == 0 && block.idle_since == since)
    }

    fn drop_stale(&mut self) {
        let cached = &self.cached;
        self.eviction.retain(|entry| Self::is_current(cached, *entry));
    }

    fn evict_one(&mut self) {
        while let Some(entry) = self.eviction.pop_front() {
            if Self::is_current(&self.cached, entry) {
                self.cached.remove(&entry.0);
                self.idle -= 1;
                self.free += 1;
                return;
            }
        }
    }

    /// Panics when blocks leaked or were counted twice.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let idle = self.cached.values().filter(|block| block.refs == 0).count();
        assert_eq!(idle, self.idle as usize, "idle blocks");
        let sum = u64::from(self.free) + u64::from(self.private) + self.cached.len() as u64;
        assert_eq!(sum, u64::from(self.total), "every block is one thing");
    }

    /// Blocks that sequences hold.
    #[cfg(test)]
    pub(crate) fn held(&self) -> u32 {
        self.total - self.available()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_idle_block_goes_first() {
        let mut pool = BlockPool::new(3);
        assert!(pool.take(3));
        for hash in [1, 2, 3] {
            assert!(pool.publish(hash));
        }
        assert_eq!(pool.available(), 0);
        for hash in [1, 2, 3] {
            pool.release(hash);
        }
        // Using block 1 again makes block 2 the oldest.
        pool.hold(1);
        pool.release(1);
        assert!(pool.take(1));
        assert_eq!(pool.longest_prefix(&[1]), (1, 1));
        assert_eq!(pool.longest_prefix(&[2]), (0, 0));
        assert_eq!(pool.longest_prefix(&[3]), (1, 1));
        pool.check();
    }

    #[test]
    fn a_held_block_is_never_evicted() {
        let mut pool = BlockPool::new(2);
        assert!(pool.take(1));
        assert!(pool.publish(7));
        assert!(!pool.take(2));
        assert!(pool.take(1));
        assert_eq!(pool.longest_prefix(&[7]), (1, 0));
        pool.check();
    }

    #[test]
    fn the_eviction_queue_does_not_grow_with_reuse() {
        let mut pool = BlockPool::new(1);
        assert!(pool.take(1));
        assert!(pool.publish(7));
        for _ in 0..10_000 {
            pool.release(7);
            pool.hold(7);
        }
        assert!(pool.eviction.len() <= 1_026);
    }
}
