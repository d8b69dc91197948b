//! An NVMe adapter.

use crate::link::Link;
use des::Span;

/// An NVMe adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// Its link to memory.
    pub link: Link,
    /// Queue pairs. CPUs that follow each other share one where there are fewer than CPUs; more are not used.
    pub queues: u32,
    /// Commands that a queue has room for, and one more.
    pub queue_entries: u32,
    /// Data of a command at most (MDTS); what is longer is several commands.
    pub transfer_bytes_max: u64,
    /// What it takes for a command besides link, memory and media.
    pub latency: Span,
    /// From a read request of the adapter at the host to its answer, besides the link.
    pub read: Span,
    /// A write on its way, either way, besides the link: doorbells, completions, interrupts.
    pub posted: Span,
    /// An interrupt comes so long after the first completion that it tells of,
    pub coalescing: Span,
    /// or with this many.
    pub coalesced: u32,
}

/// Of an entry of a submission queue.
pub(super) const COMMAND_BYTES: u64 = 64;
/// Of an entry of a completion queue.
pub(super) const COMPLETION_BYTES: u64 = 16;
/// Of a doorbell, and of an interrupt's message.
pub(super) const WORD_BYTES: u64 = 4;
/// What an entry of a PRP list speaks of.
pub(super) const PAGE_BYTES: u64 = 4096;
const PRP_BYTES: u64 = 8;

impl Adapter {
    /// Queues that are in use.
    pub(super) fn queues_of(&self, cpus: u32) -> u32 {
        self.queues.min(cpus)
    }

    /// The queue of a CPU.
    pub(super) fn queue_of(&self, cpu: u32, cpus: u32) -> u32 {
        let queue = u64::from(cpu) * u64::from(self.queues_of(cpus)) / u64::from(cpus);
        queue as u32
    }

    /// The CPU that a queue's interrupts come to: the first of those that it is for.
    pub(super) fn cpu_of(&self, queue: u32, cpus: u32) -> u32 {
        let first = (u64::from(queue) * u64::from(cpus)).div_ceil(u64::from(self.queues_of(cpus)));
        first as u32
    }

    /// Bytes of the list that a command points to, where its data has more pages than the two that a command has room for.
    pub(super) fn list_bytes(bytes: u64) -> u64 {
        match pages(bytes) {
            0..=2 => 0,
            pages => (pages - 1) * PRP_BYTES,
        }
    }
}

/// Pages of a buffer, which begins at one.
pub(super) fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(queues: u32) -> Adapter {
        Adapter {
            link: Link {
                generation: 3.try_into().unwrap(),
                lanes: 4,
                payload_bytes_max: 256,
                read_request_bytes_max: 512,
                completion_boundary_bytes: 64,
                overhead_share: 0.0,
            },
            queues,
            queue_entries: 2,
            transfer_bytes_max: PAGE_BYTES,
            latency: Span::ZERO,
            read: Span::ZERO,
            posted: Span::ZERO,
            coalescing: Span::ZERO,
            coalesced: 1,
        }
    }

    #[test]
    fn a_queue_interrupts_the_first_of_its_cpus() {
        for (queues, cpus) in [(1, 1), (1, 7), (3, 7), (7, 7), (9, 7), (64, 96)] {
            let adapter = adapter(queues);
            let all: Vec<u32> = (0..cpus).map(|cpu| adapter.queue_of(cpu, cpus)).collect();
            for queue in 0..adapter.queues_of(cpus) {
                let first = all.iter().position(|of_cpu| *of_cpu == queue).unwrap();
                assert_eq!(adapter.cpu_of(queue, cpus) as usize, first, "{queues} {cpus} {queue}");
            }
            assert_eq!(all.last(), Some(&(queues.min(cpus) - 1)));
        }
    }

    #[test]
    fn two_pages_need_no_list() {
        let lists = [512, 4096, 8192, 8193, 128 << 10].map(Adapter::list_bytes);
        assert_eq!(lists, [0, 0, 0, 16, 31 * 8]);
    }
}
