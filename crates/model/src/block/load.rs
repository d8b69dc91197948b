//! Checks that jobs are within what is modelled.

use super::nvme_adapter::NvmeAdapter;
use crate::fio::Job;
use crate::host::Cpus;

/// A property of the jobs that is not modelled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotModelled {
    /// Too many threads.
    #[error("the jobs have {threads} threads, the sum of their numjobs; expected at most {THREADS_MAX}")]
    Threads {
        /// Threads of all jobs.
        threads: u64,
    },
    /// More commands than a queue holds. Threads would sleep until an entry is free, which is not modelled.
    #[error(
        "a queue of the adapter has up to {commands} commands in flight (iodepth of all threads whose CPUs share it, split \
         by adapter.transfer_bytes_max); expected at most {room}, one less than adapter.queue_entries"
    )]
    Depth {
        /// Most commands in flight.
        commands: u64,
        /// Most that fit.
        room: u64,
    },
    /// Too much data in flight for the simulation's memory.
    #[error("the jobs have {bytes} bytes in flight (bs x iodepth x numjobs); expected at most {BYTES_MAX}")]
    Bytes {
        /// Bytes of all threads.
        bytes: u64,
    },
}

/// Most threads of all jobs.
const THREADS_MAX: u64 = 4096;
/// Most bytes in flight.
const BYTES_MAX: u64 = 4 << 30;

/// The first property of the jobs that is not modelled.
pub(super) fn not_modelled(jobs: &[Job], adapter: &NvmeAdapter, cpus: &Cpus) -> Option<NotModelled> {
    let threads: u64 = jobs.iter().map(|job| u64::from(job.threads)).sum();
    if threads > THREADS_MAX {
        return Some(NotModelled::Threads { threads });
    }
    let bytes = jobs.iter().map(|job| {
        let each = job.block_bytes.saturating_mul(job.depth.into());
        each.saturating_mul(job.threads.into())
    });
    let bytes = bytes.fold(0, u64::saturating_add);
    if bytes > BYTES_MAX {
        return Some(NotModelled::Bytes { bytes });
    }
    let mut commands = vec![0_u64; adapter.queues_of(cpus.threads()) as usize];
    let of_threads = jobs.iter().flat_map(|job| (0..job.threads).map(move |_| job));
    for (thread, job) in (0..).zip(of_threads) {
        let queue = adapter.queue_of(cpus.of_thread(thread), cpus.threads());
        let each = job.block_bytes.div_ceil(adapter.transfer_bytes_max);
        commands[queue as usize] += each * u64::from(job.depth);
    }
    let room = u64::from(adapter.queue_entries) - 1;
    let commands = commands.into_iter().max().unwrap_or_default();
    (commands > room).then_some(NotModelled::Depth { commands, room })
}
