//! The emulated controller's volatile write cache.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Most blocks in the cache. Beyond that the one with the lowest address goes to the media.
const BLOCKS_MAX: usize = 1024;

/// The volatile write cache. Reads see what it has, so it keeps only what the media still hold of those blocks: what a loss of power brings
/// back.
#[derive(Debug, Default)]
pub(super) struct WriteCache {
    media: BTreeMap<u64, Vec<u8>>,
}

impl WriteCache {
    /// Takes a block that is about to be written. `media` is its content until now.
    pub(super) fn take_block(&mut self, block: u64, media: &[u8]) {
        if let Entry::Vacant(entry) = self.media.entry(block) {
            entry.insert(media.to_vec());
        }
        if self.media.len() > BLOCKS_MAX {
            self.media.pop_first();
        }
    }

    /// Writes the cached ones of these blocks to the media.
    pub(super) fn write_back(&mut self, blocks: Range<u64>) {
        for block in blocks {
            self.media.remove(&block);
        }
    }

    /// Writes all blocks to the media.
    pub(super) fn flush(&mut self) {
        self.media.clear();
    }

    /// Loses all blocks. Returns what the media hold of them.
    pub(super) fn lose(&mut self) -> BTreeMap<u64, Vec<u8>> {
        std::mem::take(&mut self.media)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_cache_writes_blocks_back() {
        let mut cache = WriteCache::default();
        (0..BLOCKS_MAX as u64 + 2).for_each(|block| cache.take_block(block, &[block as u8]));
        cache.take_block(5, &[99]);
        let media = cache.lose();
        assert_eq!(media.len(), BLOCKS_MAX);
        assert!(!media.contains_key(&1) && media.contains_key(&2), "the lowest went to the media");
        assert_eq!(media[&5], [5], "what the media hold is what they held first");
        assert!(cache.lose().is_empty());
    }
}
