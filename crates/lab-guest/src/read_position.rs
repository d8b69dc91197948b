//! Which blocks a workload reads.

/// Bytes read from the beginning of the disk, over and over.
const SPAN_BYTES_MAX: u64 = 256 << 20;

/// Position of the next read.
pub(crate) struct ReadPosition {
    block: u64,
    pub(crate) blocks_per_read: u64,
    end: u64,
}

impl ReadPosition {
    /// Starts at the first of a disk's blocks, for reads of `bytes`.
    pub(crate) fn new(blocks: u64, block_bytes: u64, bytes: u64) -> Self {
        let blocks_per_read = bytes / block_bytes;
        let span = blocks.min(SPAN_BYTES_MAX / block_bytes);
        Self { block: 0, blocks_per_read, end: span / blocks_per_read * blocks_per_read }
    }

    /// Returns the first block of the next read and moves behind it, or back to the disk's beginning.
    pub(crate) fn advance(&mut self) -> u64 {
        let block = self.block;
        self.block += self.blocks_per_read;
        if self.block >= self.end {
            self.block = 0;
        }
        block
    }
}
