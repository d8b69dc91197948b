//! The broker: its shares, and the threads that serve them.

use super::acceptor::{Acceptor, BrokerConfig};
use super::share::{OpenShare, Share};
use super::worker::{Worker, WorkerHandle};
use super::{BrokerError, EventHandler};
use crate::PAGE_BYTES;
use crate::chunk::{Chunk, ChunkError, DiskPath, RetryPolicy};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

/// What a broker takes at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Threads, each with a queue of the disk. Without interrupts each keeps a CPU busy while its commands are in flight.
    pub threads: usize,
    /// Queues of a share's clients: one for each of their threads that does I/O.
    pub queues: usize,
    /// Requests at once, of each queue and of each thread.
    pub requests: u16,
    /// Most bytes of a request.
    pub request_bytes: u64,
    /// Timeouts and retries of commands.
    pub retry_policy: RetryPolicy,
}

impl Default for Limits {
    fn default() -> Self {
        let retry_policy = RetryPolicy::default();
        Self { threads: 1, queues: 256, requests: 128, request_bytes: 32 << 10, retry_policy }
    }
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerEvent {
    /// A process has a queue.
    Came {
        /// Its number.
        process: i32,
        /// Its user's.
        user: u32,
        /// The share's socket.
        socket: PathBuf,
    },
    /// A queue's process is gone or has closed it, and none of its requests is in flight.
    Left {
        /// Its number.
        process: i32,
        /// Its user's.
        user: u32,
    },
    /// A connection was refused.
    Refused {
        /// Why.
        why: String,
    },
}

/// Serves parts of a namespace to other processes.
pub struct Broker {
    paths: Vec<DiskPath>,
    shares: Vec<Arc<OpenShare>>,
    limits: Limits,
    config: Arc<BrokerConfig>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Broker").field("shares", &self.shares).finish_non_exhaustive()
    }
}

impl Broker {
    /// Opens the sockets of shares of a namespace, to which one path leads or several. Shares may overlap: then their processes share blocks, but
    /// know nothing of each other's virtual LUNs.
    ///
    /// # Errors
    /// [`BrokerError::Socket`], [`BrokerError::InUse`], [`BrokerError::NoBlocks`], [`BrokerError::Resource`]; [`BrokerError::Queue`] unless the
    /// paths lead to one disk
    pub fn new(paths: Vec<DiskPath>, shares: Vec<Share>, limits: Limits) -> Result<Self, BrokerError> {
        let nothing = ChunkError::NotOneDisk { what: "no controller" };
        let namespace = paths.first().ok_or(nothing)?.namespace;
        let block_bytes = namespace.format.block_bytes();
        let request_bytes = limits.request_bytes.min(namespace.transfer_bytes_max).max(block_bytes);
        let config = BrokerConfig {
            block_shift: namespace.format.block_shift,
            queues: limits.queues,
            requests: limits.requests,
            request_bytes: request_bytes.next_multiple_of(PAGE_BYTES.max(block_bytes)),
            instance: RandomState::new().build_hasher().finish(),
            turn: AtomicUsize::new(0),
            losses: DiskPath::loss_reader(&paths),
        };
        let mut broker = Self { paths, shares: Vec::new(), limits, config: Arc::new(config) };
        for share in shares {
            // If a later one fails, the earlier ones' sockets are removed.
            broker.shares.push(Arc::new(OpenShare::new(share, namespace.format.blocks)?));
        }
        Ok(broker)
    }

    /// Serves until `stop` is set, which this does itself when the disk is lost. Then commands in flight end, and clients get errors for others. A
    /// controller that is lost, or wanted back by the system, is not kept by this while other paths are left.
    ///
    /// # Errors
    /// [`BrokerError::Lost`]; [`BrokerError::Queue`] if the controller has no queue, or fails to delete one; [`BrokerError::Resource`]
    pub fn serve(mut self, stop: &Arc<AtomicBool>, on_event: &EventHandler) -> Result<(), BrokerError> {
        let (mut workers, mut handles) = (Vec::new(), Vec::new());
        for _ in 0..self.limits.threads.max(1) {
            let (worker, handle) = Worker::with_handle(self.queue()?)?;
            workers.push(worker);
            handles.push(handle);
        }
        // Their queues have the controllers now, as long as they are not lost.
        self.paths.clear();
        let mut threads = Vec::new();
        let begun = self.begin(workers, &handles, &mut threads, stop, on_event);
        if begun.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        let end = |thread: JoinHandle<Result<(), BrokerError>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let ended: Vec<_> = threads.into_iter().map(end).collect();
        begun?;
        ended.into_iter().collect()
    }

    /// Starts the threads that serve. Those of `threads` are to be waited for.
    fn begin(
        &self,
        workers: Vec<Worker>,
        handles: &[WorkerHandle],
        threads: &mut Vec<JoinHandle<Result<(), BrokerError>>>,
        stop: &Arc<AtomicBool>,
        on_event: &EventHandler,
    ) -> Result<(), BrokerError> {
        for worker in workers {
            let (stop, on_event) = (Arc::clone(stop), Arc::clone(on_event));
            threads.push(spawn("iotoll-broker", move || worker.run(&stop, &on_event))?);
        }
        for share in &self.shares {
            let handles = handles.iter().map(WorkerHandle::copy).collect::<Result<_, _>>()?;
            let (share, config) = (Arc::clone(share), Arc::clone(&self.config));
            let acceptor = Acceptor { share, config, handles, on_event: Arc::clone(on_event) };
            let stop = Arc::clone(stop);
            // A client may hold it up, so nobody waits for it.
            drop(spawn("iotoll-acceptor", move || acceptor.run(&stop))?);
        }
        Ok(())
    }

    /// A queue of the controller for a worker.
    fn queue(&self) -> Result<Chunk, BrokerError> {
        let Limits { requests, retry_policy, .. } = self.limits;
        // Each client is told of losses by its session.
        Ok(Chunk::open_with(&self.paths, requests, self.config.request_bytes, retry_policy, None)?)
    }
}

impl Drop for Broker {
    /// Removes the sockets' files.
    fn drop(&mut self) {
        self.shares.iter().for_each(|share| share.listener.remove_file());
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, BrokerError> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map_err(BrokerError::Resource)
}
