//! A queue whose commands are futures, with data as slices. No runtime is needed, and any can be used.
//!
//! ```text
//!   task         read(first, &mut bytes).await
//!     | takes a request, which has a buffer for the controller; copies; submits; rings the doorbell
//!     v
//!   AsyncQueue   step(): polls completions and wakes tasks
//!     ^
//!     | calls it: block_on, a thread, or an event loop that watches interrupt()
//! ```

mod error;
mod in_flight;
mod lease;
mod state;

pub use error::AsyncError;
pub use lease::Lease;

use crate::blocks::BlockError;
use crate::chunk::Waiting;
use crate::controller::{Buffer, Controller, Namespace, PAGE_BYTES, QueueOptions};
use crate::controller_error::NvmeError;
use crate::prp::Piece;
use crate::queue_pair::{CommandId, QueueError, QueuePair};
use crate::spec::zone::{self, Zone, ZoneAction, ZoneState};
use dma::{MemoryAddress, Ram};
use in_flight::InFlight;
use lease::Acquire;
use state::State;
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

/// Most zones that are returned at once; a disk of 1 EiB with zones of 1 TiB has as many.
const ZONES_MAX: usize = 1 << 20;
/// Longest wait of [`AsyncQueue::block_on`] before it polls again: interrupts may be lost, and wakers may be called by others.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A queue pair for one namespace, with a number of requests that each have a buffer.
///
/// Commands are futures. They are submitted when they are first polled, so that several are in flight if several are polled. They complete in
/// [`step`](Self::step), which somebody has to call:
///
/// - [`block_on`](Self::block_on) runs a future on this thread, polling or waiting for interrupts in between.
/// - An event loop watches the [`interrupt`](Self::interrupt), clears it, and calls `step`: `AsyncFd` of tokio, `Async` of async-io.
/// - Any loop may call it again and again.
///
/// A future that is dropped while its command is in flight is no danger: the controller writes to the request's buffer, which belongs to
/// the queue. The request is free again when the command completes. If a future is forgotten, its request is lost until the queue is closed.
///
/// Data longer than a request are transferred by several commands, one after the other; a failure in between leaves the first ones done.
///
/// ```
/// use nvme::{AsyncQueue, emulated::Machine};
///
/// let mut machine = Machine::open(512, 9)?;
/// let disk = machine.controller.namespaces()[0];
/// let queue = AsyncQueue::polled(&mut machine.controller, disk, 16, 8192)?;
/// queue.block_on(async {
///     queue.write(7, &[0xa5; 512]).await?;
///     let mut read = [0; 512];
///     queue.read(7, &mut read).await?;
///     assert_eq!(read, [0xa5; 512]);
///     queue.compare(7, &read).await?;
///     queue.flush().await
/// })?;
/// queue.close(&mut machine.controller)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AsyncQueue {
    state: Mutex<State>,
    waiting: Mutex<Waiting>,
    #[cfg(target_os = "linux")]
    interrupt: Option<Arc<dma::vfio::Interrupt>>,
    namespace: Namespace,
    ram: Arc<Ram>,
    buffer: Buffer,
    request_bytes: u64,
}

/// Submits a command with data from a block on.
type Transfer = fn(&mut QueuePair, &Namespace, u64, &[Piece]) -> Result<CommandId, BlockError>;

impl AsyncQueue {
    /// Creates a queue pair that is polled, with `requests` requests of at least `request_bytes`, or of the most that the controller
    /// transfers at once.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn polled(
        controller: &mut Controller,
        namespace: Namespace,
        requests: u16,
        request_bytes: u64,
    ) -> Result<Self, NvmeError> {
        Self::open(controller, namespace, requests, request_bytes, Waiting::Polling)
    }

    /// The same; [`block_on`](Self::block_on) waits as `waiting` says.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn open(
        controller: &mut Controller,
        namespace: Namespace,
        requests: u16,
        request_bytes: u64,
        waiting: Waiting,
    ) -> Result<Self, NvmeError> {
        let unit = PAGE_BYTES.max(namespace.format.block_bytes());
        let request_bytes = request_bytes.min(namespace.transfer_bytes_max).max(1).next_multiple_of(unit);
        let entries = requests.clamp(1, u16::MAX - 1) + 1;
        let (vector, number) = (waiting.vector(), Some(namespace.number));
        let queue = controller.queue_pair_with(QueueOptions { entries, vector, namespace: number })?;
        let buffer = match controller.allocate(queue.available() as u64 * request_bytes) {
            Ok(buffer) => buffer,
            Err(error) => {
                controller.delete(queue)?;
                return Err(error);
            }
        };
        Ok(Self {
            state: Mutex::new(State::new(queue)),
            #[cfg(target_os = "linux")]
            interrupt: waiting.interrupt().cloned(),
            waiting: Mutex::new(waiting),
            namespace,
            ram: controller.ram(),
            buffer,
            request_bytes,
        })
    }

    /// The namespace that it reads and writes.
    pub fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// The memory that its buffers are in.
    pub fn ram(&self) -> &Arc<Ram> {
        &self.ram
    }

    /// Bytes of a request's buffer.
    pub fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    /// The interrupt of its completions, if it has one. An event loop that sees it readable
    /// [clears](dma::vfio::Interrupt::wait) it first, and then calls [`step`](Self::step).
    #[cfg(target_os = "linux")]
    pub fn interrupt(&self) -> Option<&Arc<dma::vfio::Interrupt>> {
        self.interrupt.as_ref()
    }

    /// The state, locked. A task that panicked elsewhere leaves it whole.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, and wakes tasks when it is no longer locked: a waker may poll its task at once.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let result = change(&mut state);
        let woken = state.take_woken();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// Polls the completions that have arrived, and wakes their tasks. Returns their number, without waiting for any.
    ///
    /// # Errors
    /// [`QueueError`]. Commands stay in flight: [renew](Self::renew) the queue after a reset, or [fail](Self::fail) them.
    pub fn step(&self) -> Result<usize, QueueError> {
        self.change(State::step)
    }

    /// Creates the queue again after a [reset](Controller::reset) of the controller, and resubmits the commands in flight. Appends are
    /// not resubmitted: they end with [`AsyncError::CutOff`].
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn renew(&self, controller: &mut Controller) -> Result<usize, NvmeError> {
        self.change(|state| state.renew(controller))
    }

    /// Ends all commands in flight, and all further ones, with an error, until the queue is [renewed](Self::renew).
    pub fn fail(&self, error: QueueError) {
        self.change(|state| state.fail(error));
    }

    /// Advances the timeout clock by one tick; the caller sets the tick's length.
    pub fn tick(&self) {
        self.state().queue.tick();
    }

    /// Commands that have been in flight for at least `ticks` ticks.
    pub fn overdue(&self, ticks: u32) -> Vec<CommandId> {
        self.state().queue.overdue(ticks).collect()
    }

    /// [Aborts](Controller::abort) a command that takes too long.
    ///
    /// # Errors
    /// As for [`Controller::abort`].
    pub fn abort(
        &self,
        controller: &mut Controller,
        id: CommandId,
        within: Duration,
    ) -> Result<bool, NvmeError> {
        controller.abort(&self.state().queue, id, within)
    }

    /// Runs a future of this queue on this thread. If the queue or the controller fails, the commands in flight end with that error. A command
    /// that is never completed by a controller that works is waited for without end, unless somebody [aborts](Self::abort) it.
    ///
    /// Doorbells are rung once per poll of the future, for all commands that it has submitted.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        let woken = Arc::new(Woken(AtomicBool::new(true)));
        let waker = Waker::from(Arc::clone(&woken));
        let mut context = Context::from_waker(&waker);
        let mut last_check = Instant::now();
        loop {
            if woken.0.swap(false, Ordering::AcqRel) {
                let deferred = Deferred::new(self);
                let polled = future.as_mut().poll(&mut context);
                drop(deferred);
                if let Poll::Ready(output) = polled {
                    return output;
                }
            }
            match self.step() {
                Ok(0) if !woken.0.load(Ordering::Acquire) => {
                    self.wait(&woken);
                    if last_check.elapsed() >= CHECK_INTERVAL {
                        last_check = Instant::now();
                        let checked = self.state().queue.check_working();
                        checked.unwrap_or_else(|error| self.fail(error));
                    }
                }
                Ok(_) => {}
                Err(error) => self.fail(error),
            }
        }
    }

    /// Waits for a completion, or until something else wakes the task.
    fn wait(&self, woken: &Woken) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.wait(CHECK_INTERVAL, || {
            woken.0.load(Ordering::Acquire) || self.state().queue.pending_completions() > 0
        });
    }

    /// Takes a request, and waits for one if all are in use.
    pub async fn lease(&self) -> Lease<'_> {
        Acquire::new(self).await
    }

    /// Submits a command of a request, and waits until it completes. Returns the request, and the command's result.
    async fn execute<'q>(
        &'q self,
        lease: Lease<'q>,
        submit: impl FnOnce(&mut QueuePair, &Namespace) -> Result<CommandId, BlockError>,
    ) -> Result<(Lease<'q>, u64), AsyncError> {
        InFlight::submit(lease, submit)?.await
    }

    /// Executes a command that has no data.
    async fn execute_without_data(
        &self,
        submit: impl FnOnce(&mut QueuePair, &Namespace) -> Result<CommandId, BlockError>,
    ) -> Result<(), AsyncError> {
        self.execute(self.lease().await, submit).await.map(|_| ())
    }

    /// Executes a command on data of one request, copied from `from`. Returns its result.
    async fn send(
        &self,
        from: &[u8],
        submit: impl FnOnce(&mut QueuePair, &Namespace, Piece) -> Result<CommandId, BlockError>,
    ) -> Result<u64, AsyncError> {
        let lease = self.lease().await;
        lease.write(0, from)?;
        let piece = lease.piece(from.len() as u64)?;
        let (_, result) = self.execute(lease, |queue, disk| submit(queue, disk, piece)).await?;
        Ok(result)
    }

    /// Executes a command that returns data of one request, copied to `into`.
    async fn receive(
        &self,
        into: &mut [u8],
        submit: impl FnOnce(&mut QueuePair, &Namespace, Piece) -> Result<CommandId, BlockError>,
    ) -> Result<(), AsyncError> {
        let lease = self.lease().await;
        let piece = lease.piece(into.len() as u64)?;
        let (lease, _) = self.execute(lease, |queue, disk| submit(queue, disk, piece)).await?;
        Ok(lease.read(0, into)?)
    }

    /// Sends data with as many commands as it takes.
    async fn send_all(&self, first: u64, from: &[u8], submit: Transfer) -> Result<(), AsyncError> {
        let parts = self.parts(first, from.len())?;
        for (first, from) in parts.zip(from.chunks(self.request_bytes as usize)) {
            self.send(from, |queue, disk, piece| submit(queue, disk, first, &[piece])).await?;
        }
        Ok(())
    }

    /// Receives data with as many commands as it takes.
    async fn receive_all(&self, first: u64, into: &mut [u8], submit: Transfer) -> Result<(), AsyncError> {
        let parts = self.parts(first, into.len())?;
        for (first, into) in parts.zip(into.chunks_mut(self.request_bytes as usize)) {
            self.receive(into, |queue, disk, piece| submit(queue, disk, first, &[piece])).await?;
        }
        Ok(())
    }

    /// First blocks and lengths of the commands for so many bytes. Fails if there are none, or no whole number of blocks.
    fn parts(&self, first: u64, bytes: usize) -> Result<impl Iterator<Item = u64>, BlockError> {
        let block_bytes = self.namespace.format.block_bytes();
        if bytes == 0 || bytes as u64 % block_bytes != 0 {
            return Err(BlockError::PartialBlock { bytes: bytes as u64, block_bytes });
        }
        let blocks = self.request_bytes / block_bytes;
        Ok((0..).map(move |part: u64| first.saturating_add(part.saturating_mul(blocks))))
    }

    /// Reads blocks.
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn read(&self, first: u64, into: &mut [u8]) -> Result<(), AsyncError> {
        self.receive_all(first, into, QueuePair::read).await
    }

    /// Reads blocks from the media, not from the controller's volatile cache ([`QueuePair::read_fua`]).
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn read_fua(&self, first: u64, into: &mut [u8]) -> Result<(), AsyncError> {
        self.receive_all(first, into, QueuePair::read_fua).await
    }

    /// Writes blocks.
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn write(&self, first: u64, from: &[u8]) -> Result<(), AsyncError> {
        self.send_all(first, from, QueuePair::write).await
    }

    /// Writes blocks to the media ([`QueuePair::write_fua`]).
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn write_fua(&self, first: u64, from: &[u8]) -> Result<(), AsyncError> {
        self.send_all(first, from, QueuePair::write_fua).await
    }

    /// Compares blocks with data; [`AsyncError::is_compare_failure`] if they differ.
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn compare(&self, first: u64, with: &[u8]) -> Result<(), AsyncError> {
        self.send_all(first, with, QueuePair::compare).await
    }

    /// Checks that blocks can be read, without a transfer ([`QueuePair::verify`]).
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn verify(&self, first: u64, blocks: u64) -> Result<(), AsyncError> {
        self.execute_without_data(|queue, disk| queue.verify(disk, first, blocks)).await
    }

    /// Copies ranges of blocks to `to` and the blocks behind it ([`QueuePair::copy`]).
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn copy(&self, to: u64, ranges: &[Range<u64>]) -> Result<(), AsyncError> {
        self.execute_without_data(|queue, disk| queue.copy(disk, to, ranges)).await
    }

    /// Sets blocks to zero.
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn write_zeroes(&self, first: u64, blocks: u64) -> Result<(), AsyncError> {
        self.execute_without_data(|queue, disk| queue.write_zeroes(disk, first, blocks)).await
    }

    /// Deallocates (trims) ranges of blocks.
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn deallocate(&self, ranges: &[Range<u64>]) -> Result<(), AsyncError> {
        self.execute_without_data(|queue, disk| queue.deallocate(disk, ranges)).await
    }

    /// Writes the controller's volatile cache to the media.
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn flush(&self) -> Result<(), AsyncError> {
        self.execute_without_data(|queue, disk| Ok(queue.flush(disk)?)).await
    }

    /// Appends blocks to the zone that begins at `zone`, by one command. Returns the first block that they are at.
    ///
    /// # Errors
    /// [`AsyncError`]; [`BlockError::TooLong`] if they are more than a request.
    pub async fn append(&self, zone: u64, from: &[u8]) -> Result<u64, AsyncError> {
        let bytes = from.len() as u64;
        if bytes > self.request_bytes {
            return Err(BlockError::TooLong { bytes, bytes_max: self.request_bytes }.into());
        }
        self.send(from, |queue, disk, piece| queue.append(disk, zone, &[piece])).await
    }

    /// Executes an action on the zone that begins at `zone`, or on all whose state allows it.
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn manage_zones(&self, zone: Option<u64>, action: ZoneAction) -> Result<(), AsyncError> {
        self.execute_without_data(|queue, disk| match zone {
            Some(zone) => queue.manage_zone(disk, zone, action),
            None => queue.manage_all_zones(disk, action),
        })
        .await
    }

    /// The zones from the one that holds `block`: all, or those in a state. Of more than 2^20 zones, use [`QueuePair::report_zones`].
    ///
    /// # Errors
    /// [`AsyncError`]
    pub async fn zones(&self, block: u64, state: Option<ZoneState>) -> Result<Vec<Zone>, AsyncError> {
        let zone_blocks = self.namespace.zones.ok_or(BlockError::NotZoned)?.zone_blocks;
        let (mut zones, mut next) = (Vec::new(), block);
        let mut bytes = vec![0; self.request_bytes as usize];
        while next < self.namespace.format.blocks {
            self.receive(&mut bytes, |queue, disk, piece| queue.report_zones(disk, next, state, &[piece]))
                .await?;
            let before = zones.len();
            if before > ZONES_MAX {
                return Err(AsyncError::TooManyZones);
            }
            zones.extend(zone::report(&bytes));
            // A report that has no zone ends them. A controller that goes back would never end.
            match zones.get(before..).and_then(<[Zone]>::last) {
                Some(last) if last.first >= next - next % zone_blocks => {
                    next = last.first.saturating_add(zone_blocks);
                }
                _ => break,
            }
        }
        Ok(zones)
    }

    /// Reads blocks into a leased request's buffer, without a copy by the CPU.
    ///
    /// # Errors
    /// [`AsyncError`]; then the lease has ended.
    pub async fn read_leased<'q>(
        &'q self,
        lease: Lease<'q>,
        first: u64,
        bytes: u64,
    ) -> Result<Lease<'q>, AsyncError> {
        let piece = lease.piece(bytes)?;
        Ok(self.execute(lease, |queue, disk| queue.read(disk, first, &[piece])).await?.0)
    }

    /// Writes blocks from a leased request's buffer, without a copy by the CPU.
    ///
    /// # Errors
    /// [`AsyncError`]; then the lease has ended.
    pub async fn write_leased<'q>(
        &'q self,
        lease: Lease<'q>,
        first: u64,
        bytes: u64,
    ) -> Result<Lease<'q>, AsyncError> {
        let piece = lease.piece(bytes)?;
        Ok(self.execute(lease, |queue, disk| queue.write(disk, first, &[piece])).await?.0)
    }

    /// Deletes the queue pair with its commands in flight, and frees the buffers.
    ///
    /// # Errors
    /// [`NvmeError`]; then the memory stays mapped.
    pub fn close(self, controller: &mut Controller) -> Result<(), NvmeError> {
        let state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        controller.delete(state.queue)?;
        controller.free(self.buffer)
    }

    /// Where a request's buffer is, for the CPU.
    fn memory(&self, request: u16) -> MemoryAddress {
        MemoryAddress(self.buffer.memory().0 + u64::from(request) * self.request_bytes)
    }
}

/// While it lives, doorbells are deferred. It ends also if a future panics.
struct Deferred<'q>(&'q AsyncQueue);

impl<'q> Deferred<'q> {
    fn new(queue: &'q AsyncQueue) -> Self {
        queue.state().defer_doorbell(true);
        Self(queue)
    }
}

impl Drop for Deferred<'_> {
    fn drop(&mut self) {
        self.0.state().defer_doorbell(false);
    }
}

/// A task of [`AsyncQueue::block_on`] that was woken.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}
