//! Jobs that this machine can carry out.

use super::adapter::Adapter;
use crate::fio::Job;
use crate::host::Cpus;

/// Something that jobs may say and this model can't do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotModelled {
    /// More threads than make sense.
    #[error("the jobs have {threads} threads; expected {THREADS_MAX} at most: the sum of their numjobs")]
    Threads {
        /// Of all jobs.
        threads: u64,
    },
    /// More in flight than a queue has room for: threads would sleep until there is, which is not modelled.
    #[error(
        "a queue of the adapter has up to {commands} commands in flight: iodepth of all threads whose CPUs share it, in \
         pieces of adapter.transfer_bytes_max; expected {room} at most, one less than adapter.queue_entries"
    )]
    Depth {
        /// What may be in flight.
        commands: u64,
        /// What there is room for.
        room: u64,
    },
    /// More data in flight than a simulation has room for.
    #[error("the jobs have {bytes} bytes in flight: bs x iodepth x numjobs; expected {BYTES_MAX} at most")]
    Bytes {
        /// Of all threads.
        bytes: u64,
    },
}

/// Threads of all jobs.
const THREADS_MAX: u64 = 4096;
/// Data of all that may be in flight.
const BYTES_MAX: u64 = 4 << 30;

/// What of the jobs can't be carried out.
pub(super) fn not_modelled(jobs: &[Job], adapter: &Adapter, cpus: &Cpus) -> Option<NotModelled> {
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
