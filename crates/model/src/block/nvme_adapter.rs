//! The NVMe adapter's parameters.

use crate::link::Link;
use des::Span;

/// An NVMe adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct NvmeAdapter {
    /// Its PCIe link.
    pub link: Link,
    /// Queue pairs. With fewer than CPUs, consecutive CPUs share one; more than CPUs are not used.
    pub queues: u32,
    /// Entries of a queue; one less can be in flight.
    pub queue_entries: u32,
    /// Most data of a command (MDTS). Longer requests are split.
    pub transfer_bytes_max: u64,
    /// Processing time of a command, without link, memory and media.
    pub latency: Span,
    /// Latency of a memory read by the adapter, without the link.
    pub read: Span,
    /// Latency of a posted write in either direction, without the link: doorbell, completion, interrupt.
    pub posted: Span,
    /// Interrupt coalescing: longest delay after the first completion,
    pub coalescing: Span,
    /// and number of completions that end the delay.
    pub coalesced: u32,
}

/// Bytes of a submission queue entry.
pub(super) const COMMAND_BYTES: u64 = 64;
/// Bytes of a completion queue entry.
pub(super) const COMPLETION_BYTES: u64 = 16;
/// Bytes of a doorbell write and of an MSI-X message.
pub(super) const WORD_BYTES: u64 = 4;
/// Bytes that a PRP entry covers.
pub(super) const PAGE_BYTES: u64 = 4096;
const PRP_BYTES: u64 = 8;

impl NvmeAdapter {
    /// Queues in use.
    pub(super) fn queues_of(&self, cpus: u32) -> u32 {
        self.queues.min(cpus)
    }

    /// The queue of a CPU.
    pub(super) fn queue_of(&self, cpu: u32, cpus: u32) -> u32 {
        let queue = u64::from(cpu) * u64::from(self.queues_of(cpus)) / u64::from(cpus);
        queue as u32
    }

    /// The CPU that handles a queue's interrupts: the first of those that share it.
    pub(super) fn cpu_of(&self, queue: u32, cpus: u32) -> u32 {
        let first = (u64::from(queue) * u64::from(cpus)).div_ceil(u64::from(self.queues_of(cpus)));
        first as u32
    }

    /// Bytes of a command's PRP list; 0 if its data fits into the command's two entries.
    pub(super) fn list_bytes(bytes: u64) -> u64 {
        match pages(bytes) {
            0..=2 => 0,
            pages => (pages - 1) * PRP_BYTES,
        }
    }
}

/// Number of pages of a page-aligned buffer.
pub(super) fn pages(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(queues: u32) -> NvmeAdapter {
        NvmeAdapter {
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
        let lists = [512, 4096, 8192, 8193, 128 << 10].map(NvmeAdapter::list_bytes);
        assert_eq!(lists, [0, 0, 0, 16, 31 * 8]);
    }
}
