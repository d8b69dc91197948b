//! What a queue did, for the chunk's statistics.

use crate::c_types::ChunkStats;
use crate::queue::Kind;

/// Commands of one kind.
#[derive(Debug, Clone, Copy, Default)]
struct Activity {
    begun: u64,
    active: u32,
    active_max: u32,
}

/// Counts of a queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    reads: Activity,
    writes: Activity,
    areads: Activity,
    awrites: Activity,
    blocks_read: u64,
    blocks_written: u64,
    errors: u64,
    /// Commands that were sent to the disk again.
    pub(crate) retries: u64,
    /// Commands that took too long.
    pub(crate) timeouts: u64,
}

impl Activity {
    fn begin(&mut self) {
        self.begun += 1;
        self.active += 1;
        self.active_max = self.active_max.max(self.active);
    }

    fn end(&mut self) {
        self.active = self.active.saturating_sub(1);
    }
}

impl Counts {
    fn activity(&mut self, kind: Kind, is_async: bool) -> &mut Activity {
        match (kind, is_async) {
            (Kind::Read, false) => &mut self.reads,
            (Kind::Read, true) => &mut self.areads,
            (_, false) => &mut self.writes,
            (_, true) => &mut self.awrites,
        }
    }

    pub(crate) fn begin(&mut self, kind: Kind, is_async: bool) {
        self.activity(kind, is_async).begin();
    }

    /// `blocks` is `None` for a command that failed.
    pub(crate) fn end(&mut self, kind: Kind, is_async: bool, blocks: Option<usize>) {
        self.activity(kind, is_async).end();
        match (blocks, kind) {
            (None, _) => self.errors += 1,
            (Some(blocks), Kind::Read) => self.blocks_read += blocks as u64,
            (Some(blocks), _) => self.blocks_written += blocks as u64,
        }
    }

    /// Blocking commands whose threads have not fetched their results.
    pub(crate) fn blocking(&self) -> u32 {
        self.reads.active + self.writes.active
    }

    /// Adds them to a chunk's statistics. The most commands at once are added too, which is more than there were if queues had their
    /// most at different times.
    pub(crate) fn add_to(&self, stats: &mut ChunkStats) {
        stats.num_reads += self.reads.begun;
        stats.num_writes += self.writes.begun;
        stats.num_areads += self.areads.begun;
        stats.num_awrites += self.awrites.begun;
        stats.num_act_reads += self.reads.active;
        stats.num_act_writes += self.writes.active;
        stats.num_act_areads += self.areads.active;
        stats.num_act_awrites += self.awrites.active;
        stats.max_num_act_reads += self.reads.active_max;
        stats.max_num_act_writes += self.writes.active_max;
        stats.max_num_act_areads += self.areads.active_max;
        stats.max_num_act_awrites += self.awrites.active_max;
        stats.num_blocks_read += self.blocks_read;
        stats.num_blocks_written += self.blocks_written;
        stats.num_errors += self.errors;
        stats.num_retries += self.retries;
        stats.num_timeouts += self.timeouts;
    }
}
