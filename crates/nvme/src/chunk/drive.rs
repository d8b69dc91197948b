//! Requests on a queue pair of a controller, with timeouts, retries, aborts and resets.

use super::{ChunkError, Operation, Wait};
#[cfg(target_os = "linux")]
use crate::adaptive::Adaptive;
use crate::controller::{Buffer, Controller, Namespace, PAGE_BYTES, QueueOptions};
use crate::controller_error::NvmeError;
use crate::queue_pair::{CommandId, QueueError, QueuePair};
use crate::spec::status::Status;
use crate::unflushed::{Carried, LossReader, LossTeller, Unflushed};
use dma::{MemoryAddress, Ram};
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// Timeouts and retries of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// A command that takes this long is aborted; after twice as long the controller is reset. Linux: 30 s
    /// (`nvme_core.io_timeout`).
    pub timeout: Duration,
    /// Retries of a command whose status allows a retry. Linux: 5 (`nvme_core.max_retries`).
    pub retries: u32,
    /// Resets in a row, without a completion between them, after which the controller is given up.
    pub resets: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), retries: 5, resets: 3 }
    }
}

/// How a thread waits for completions.
#[derive(Debug)]
#[non_exhaustive]
pub enum Waiting {
    /// It polls, and keeps its CPU busy.
    Polling,
    /// It sleeps until the completion queue's interrupt.
    #[cfg(target_os = "linux")]
    Interrupt {
        /// The interrupt of `vector`.
        vector: u16,
        /// MSI-X vector of the completion queue.
        interrupt: Arc<dma::vfio::Interrupt>,
    },
    /// It polls for a time that follows how long recent completions took, and then sleeps until the interrupt.
    #[cfg(target_os = "linux")]
    Adaptive {
        /// MSI-X vector of the completion queue.
        vector: u16,
        /// The interrupt of `vector`.
        interrupt: Arc<dma::vfio::Interrupt>,
        /// How long it polls.
        adaptive: Adaptive,
    },
}

/// Counts of retries, aborts and resets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events {
    /// Commands that failed with a status that allows a retry, and were submitted again.
    pub retries: u64,
    /// Abort commands submitted.
    pub aborts: u64,
    /// Controller resets by this thread.
    pub resets: u64,
    /// Commands submitted again after a reset by any thread.
    pub resubmitted: u64,
    /// Requests that went on through another [path](super::Paths).
    pub moved: u64,
}

impl std::ops::Add for Events {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            retries: self.retries + other.retries,
            aborts: self.aborts + other.aborts,
            resets: self.resets + other.resets,
            resubmitted: self.resubmitted + other.resubmitted,
            moved: self.moved + other.moved,
        }
    }
}

/// Queue ticks per timeout.
const TICKS: u32 = 8;
/// Time between two checks of CSTS while no completion arrives.
pub(super) const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// The longest wait for a controller that is left, and for its commands: requests of other paths wait too.
#[cfg(target_os = "linux")]
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// The clock is read after this many polls that all found completions, and after each that found none.
const BUSY_POLLS: u32 = 64;

/// The command that a slot of the queue has in flight.
#[derive(Debug, Clone, Copy)]
struct Pending {
    slot: u16,
    operation: Operation,
    retries: u32,
    /// Resets after which it was submitted again.
    resets: u32,
    was_aborted: bool,
}

/// A queue pair with one buffer per request slot.
#[derive(Debug)]
pub struct Drive {
    controller: Arc<Mutex<Controller>>,
    queue: QueuePair,
    namespace: Namespace,
    ram: Arc<Ram>,
    buffer: Buffer,
    request_bytes: usize,
    /// Commands in flight, by the queue's slot.
    pending: Vec<Option<Pending>>,
    retry_policy: RetryPolicy,
    waiting: Waiting,
    events: Events,
    /// Resets since the last completion.
    resets_without_completion: u32,
    /// Why the controller was given up. It may still write to the buffers, so nothing is submitted any more.
    lost: Option<String>,
    /// Request slots whose command was resubmitted too often.
    exhausted: Vec<u16>,
    /// Length of a queue tick: the [`TICKS`]th part of the timeout.
    tick: Duration,
    /// Time between two checks of CSTS, and the longest wait for a completion.
    check_interval: Duration,
    last_check: Instant,
    /// Commands that one poll finds failed; kept to avoid an allocation per poll.
    failed: Vec<(Pending, Status)>,
    next_tick: Instant,
    /// Polls since the last one without a completion.
    busy_polls: u32,
    /// What is known of writes in the controller's cache; `None` for one without a volatile cache.
    unflushed: Option<Arc<Unflushed>>,
    /// Has the next flush say that writes may be lost, whichever queue they came from. `None` where somebody else says so.
    losses: Option<LossTeller>,
    /// Flushes in flight that have something to flush, by request slot.
    flushes: Vec<(u16, Carried)>,
    /// The controller works, but the system wants it back.
    is_leaving: bool,
}

impl Drive {
    /// Creates a queue pair for a namespace, with `requests` slots. Each has a buffer of at least `request_bytes`, or
    /// of the most that the controller transfers at once. Other threads may use the same controller.
    ///
    /// # Errors
    /// [`ChunkError::Nvme`]
    pub fn open(
        controller: Arc<Mutex<Controller>>,
        namespace: Namespace,
        requests: u16,
        request_bytes: u64,
        waiting: Waiting,
        retry_policy: RetryPolicy,
    ) -> Result<Self, ChunkError> {
        let requests = requests.clamp(1, u16::MAX - 1);
        let request_bytes =
            request_bytes.min(namespace.transfer_bytes_max).max(namespace.format.block_bytes());
        let request_bytes = request_bytes.next_multiple_of(PAGE_BYTES.max(namespace.format.block_bytes()));
        let vector = waiting.vector();
        let mut guard = Controller::lock(&controller);
        let options = QueueOptions { entries: requests + 1, vector, namespace: Some(namespace.number) };
        let queue = guard.queue_pair_with(options)?;
        let buffer = match guard.allocate(queue.available() as u64 * request_bytes) {
            Ok(buffer) => buffer,
            Err(error) => {
                guard.delete(queue)?;
                return Err(error.into());
            }
        };
        let ram = guard.ram();
        let unflushed = guard.unflushed(namespace.number);
        drop(guard);
        let losses = unflushed.clone().map(|unflushed| LossTeller::new(LossReader::new(vec![unflushed])));
        let (tick, now) = (retry_policy.timeout / TICKS, Instant::now());
        Ok(Self {
            pending: vec![None; queue.available()],
            controller,
            queue,
            namespace,
            ram,
            buffer,
            request_bytes: request_bytes as usize,
            retry_policy,
            waiting,
            events: Events::default(),
            resets_without_completion: 0,
            lost: None,
            exhausted: Vec::new(),
            tick,
            check_interval: CHECK_INTERVAL.min(tick),
            last_check: now,
            failed: Vec::new(),
            next_tick: now + tick,
            busy_polls: 0,
            unflushed,
            losses,
            flushes: Vec::new(),
            is_leaving: false,
        })
    }

    /// The namespace that it reads and writes.
    pub fn namespace(&self) -> Namespace {
        self.namespace
    }

    /// Its controller.
    #[cfg(target_os = "linux")]
    pub(super) fn controller(&self) -> &Arc<Mutex<Controller>> {
        &self.controller
    }

    /// Why the controller was given up, once nothing is in flight any more.
    #[cfg(target_os = "linux")]
    pub(super) fn lost(&self) -> Option<&str> {
        self.lost.as_deref().filter(|_| self.queue.in_flight() == 0 && self.exhausted.is_empty())
    }

    /// The number of slots.
    pub(super) fn requests(&self) -> u16 {
        self.pending.len() as u16
    }

    /// The most bytes of a request.
    pub(super) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// How often commands were retried, aborted or resubmitted.
    pub(super) fn events(&self) -> Events {
        self.events
    }

    /// Submits a request. The controller sees it after the next [`ring_doorbell`](Self::ring_doorbell).
    #[inline(always)]
    pub(super) fn begin(&mut self, slot: u16, operation: Operation, from: &[u8]) -> Result<(), ChunkError> {
        if let Some(why) = &self.lost {
            // A controller that is being left is flushed as long as it has not been.
            if !self.is_leaving || operation != Operation::Flush {
                return Err(ChunkError::Abandoned { why: why.clone() });
            }
        }
        if !from.is_empty() {
            self.ram.write(self.buffer_address(slot), from)?;
        }
        let pending = Pending { slot, operation, retries: 0, resets: 0, was_aborted: false };
        if operation == Operation::Flush {
            return self.begin_flush(pending);
        }
        self.submit(pending)
    }

    /// Submits a flush, after a note of what it carries: what is written later may not be in it.
    fn begin_flush(&mut self, pending: Pending) -> Result<(), ChunkError> {
        let carried = self.unflushed.as_ref().and_then(Unflushed::begin_flush);
        self.submit(pending)?;
        self.flushes.extend(carried.map(|carried| (pending.slot, carried)));
        Ok(())
    }

    /// Rings the doorbell for the submitted requests.
    #[inline]
    pub(super) fn ring_doorbell(&mut self) {
        self.queue.ring_doorbell();
    }

    /// Submits the command of a request, and notes its identifier.
    #[inline(always)]
    fn submit(&mut self, pending: Pending) -> Result<(), ChunkError> {
        let namespace = &self.namespace;
        let at = u64::from(pending.slot) * self.request_bytes as u64;
        let id = match pending.operation {
            Operation::Read { first, blocks } => {
                let piece = self.buffer.piece(at, blocks << namespace.format.block_shift)?;
                self.queue.read(namespace, first, &[piece])?
            }
            Operation::Write { first, blocks } => {
                let piece = self.buffer.piece(at, blocks << namespace.format.block_shift)?;
                self.queue.write(namespace, first, &[piece])?
            }
            Operation::WriteZeroes { first, blocks } => self.queue.write_zeroes(namespace, first, blocks)?,
            Operation::Deallocate { first, blocks } => {
                let range = first..first + blocks;
                self.queue.deallocate(namespace, std::slice::from_ref(&range))?
            }
            Operation::Flush => self.queue.flush(namespace)?,
        };
        self.pending[id.slot()] = Some(pending);
        Ok(())
    }

    /// Copies the data in a slot's buffer.
    #[inline]
    pub(super) fn copy_out(&self, slot: u16, into: &mut [u8]) -> Result<(), ChunkError> {
        Ok(self.ram.read(self.buffer_address(slot), into)?)
    }

    /// The address of a slot's buffer.
    #[inline]
    fn buffer_address(&self, slot: u16) -> MemoryAddress {
        MemoryAddress(self.buffer.memory().0 + u64::from(slot) * self.request_bytes as u64)
    }

    /// Processes completions, then checks for timeouts. With [`Wait::Yes`] it returns when a request has ended, or
    /// when none is in flight.
    #[inline]
    pub(super) fn process_completions(
        &mut self,
        wait: Wait,
        ended: &mut impl FnMut(u16, Result<(), ChunkError>),
    ) {
        self.ring_doorbell();
        loop {
            let result = self.poll_completions(ended).and_then(|taken| {
                self.busy_polls = if taken == 0 { 0 } else { self.busy_polls.wrapping_add(1) };
                if self.busy_polls % BUSY_POLLS == 0 {
                    self.check_timeouts(Instant::now())?;
                }
                Ok(taken)
            });
            match result {
                Ok(0) if wait == Wait::Yes && self.queue.in_flight() > 0 => self.wait_for_completion(),
                Ok(_) => return,
                // The controller is lost: the requests in flight can't complete any more.
                Err(error) => return self.fail_all(error, ended),
            }
        }
    }

    /// Processes completions and retries failed commands. Returns the number of requests that have ended.
    fn poll_completions(
        &mut self,
        ended: &mut impl FnMut(u16, Result<(), ChunkError>),
    ) -> Result<usize, ChunkError> {
        let mut taken = self.exhausted.len();
        for slot in self.exhausted.drain(..) {
            take_flush(&mut self.flushes, slot);
            ended(slot, Err(ChunkError::TooManyResets { resets: self.retry_policy.resets }));
        }
        // A retry may reuse a completed identifier at once, so collect all failures before sending anything.
        let (pending, failed, resets) =
            (&mut self.pending, &mut self.failed, &mut self.resets_without_completion);
        let (unflushed, flushes, losses) = (&self.unflushed, &mut self.flushes, &mut self.losses);
        let polled = self.queue.poll(usize::MAX, |one| {
            let place = &mut pending[one.id.slot()];
            let Some(command) = place else { return };
            *resets = 0;
            if one.status.is_success() {
                let Pending { slot, operation, .. } = *command;
                *place = None;
                taken += 1;
                if operation.writes() {
                    unflushed.iter().for_each(|unflushed| unflushed.note_write());
                } else if operation == Operation::Flush {
                    take_flush(flushes, slot).into_iter().for_each(Carried::succeed);
                    if losses.as_mut().is_some_and(|losses| losses.has_news(slot)) {
                        return ended(slot, Err(ChunkError::PathLost));
                    }
                }
                ended(slot, Ok(()));
            } else {
                failed.extend(place.take().map(|command| (command, one.status)));
            }
        });
        if !self.failed.is_empty() {
            taken += self.retry_failed(ended);
        }
        match polled {
            Ok(_) => {}
            // Another thread reset the controller, or it completed a command that is not in flight.
            Err(QueueError::Reset | QueueError::Unknown(_)) => self.reset()?,
            Err(error) => return Err(error.into()),
        }
        Ok(taken)
    }

    /// Submits failed commands again that may be retried, and ends the requests of the others. Returns the number of those.
    fn retry_failed(&mut self, ended: &mut impl FnMut(u16, Result<(), ChunkError>)) -> usize {
        let mut failed = std::mem::take(&mut self.failed);
        let (mut number, mut is_sent) = (0, false);
        for (pending, status) in failed.drain(..) {
            let error = if status.may_retry() && pending.retries < self.retry_policy.retries {
                let again =
                    self.submit(Pending { retries: pending.retries + 1, was_aborted: false, ..pending });
                self.events.retries += 1;
                is_sent = true;
                let Err(error) = again else { continue };
                error
            } else {
                ChunkError::Status(status)
            };
            take_flush(&mut self.flushes, pending.slot);
            ended(pending.slot, Err(error));
            number += 1;
        }
        self.failed = failed;
        if is_sent {
            self.queue.ring_doorbell();
        }
        number
    }

    /// Checks CSTS at most once per check interval. At most once per tick it aborts overdue commands, or resets the
    /// controller if one is overdue for twice as long.
    fn check_timeouts(&mut self, now: Instant) -> Result<(), ChunkError> {
        if now.duration_since(self.last_check) >= self.check_interval {
            self.last_check = now;
            self.check_controller()?;
        }
        if now < self.next_tick {
            return Ok(());
        }
        self.next_tick = now + self.tick;
        self.queue.tick();
        let overdue: Vec<CommandId> = self.queue.overdue(TICKS).collect();
        for id in overdue {
            let pending = self.pending[id.slot()].as_mut();
            let Some(pending) = pending.filter(|pending| !pending.was_aborted) else { continue };
            pending.was_aborted = true;
            self.events.aborts += 1;
            let operation =
                Controller::lock(&self.controller).abort(&self.queue, id, self.retry_policy.timeout);
            // A controller that does not even answer the abort needs a reset.
            if operation.is_err() {
                return self.reset();
            }
        }
        if self.queue.overdue(2 * TICKS).next().is_some() { self.reset() } else { Ok(()) }
    }

    /// Checks that the controller works, and is not wanted back. While another thread executes an admin command, which may take long, it does not look.
    fn check_controller(&mut self) -> Result<(), ChunkError> {
        let controller = match self.controller.try_lock() {
            Ok(controller) => controller,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(()),
        };
        let working = controller.check_working();
        #[cfg(target_os = "linux")]
        let is_wanted_back = controller.is_wanted_back();
        drop(controller);
        #[cfg(target_os = "linux")]
        if is_wanted_back && self.lost.is_none() {
            // What is in flight ends, but nothing more is begun.
            self.lost = Some(NvmeError::WantedBack.to_string());
            self.is_leaving = true;
        }
        match working {
            Err(NvmeError::Gone) => Err(NvmeError::Gone.into()),
            Err(_) => self.reset(),
            Ok(()) => Ok(()),
        }
    }

    /// Resets the controller, unless another thread already did, and renews the queue.
    fn reset(&mut self) -> Result<(), ChunkError> {
        let controller = Arc::clone(&self.controller);
        let mut controller = Controller::lock(&controller);
        let mut wants_reset = !self.queue.is_stale();
        loop {
            let result = if wants_reset || controller.check_working().is_err() {
                if self.resets_without_completion == self.retry_policy.resets {
                    return Err(ChunkError::TooManyResets { resets: self.resets_without_completion });
                }
                self.resets_without_completion += 1;
                self.events.resets += 1;
                controller.reset()
            } else {
                Ok(())
            };
            match result.and_then(|()| self.renew(&mut controller)) {
                Ok(()) => return Ok(()),
                Err(error @ (NvmeError::Gone | NvmeError::Changed { .. })) => return Err(error.into()),
                Err(_) => wants_reset = true,
            }
        }
    }

    /// Creates the queue again after a reset, and resubmits what was in flight.
    fn renew(&mut self, controller: &mut Controller) -> Result<(), NvmeError> {
        for (place, pending) in self.pending.iter_mut().enumerate() {
            // A command may be what crashes the controller: do not resubmit it for ever.
            if let Some(exhausted) = pending.take_if(|pending| pending.resets == self.retry_policy.resets) {
                self.queue.abandon_slot(place);
                self.exhausted.push(exhausted.slot);
            }
        }
        let resubmitted = controller.renew(&mut self.queue)?;
        self.events.resubmitted += resubmitted as u64;
        for pending in self.pending.iter_mut().flatten() {
            pending.was_aborted = false;
            pending.resets += 1;
        }
        Ok(())
    }

    /// Ends all requests in flight with an error, and accepts no further ones.
    fn fail_all(&mut self, error: ChunkError, ended: &mut impl FnMut(u16, Result<(), ChunkError>)) {
        let why = error.to_string();
        self.queue.abandon();
        self.flushes.clear();
        self.unflushed.iter().for_each(|unflushed| unflushed.lose());
        let mut first = Some(error);
        let slots = self.pending.iter_mut().filter_map(Option::take).map(|pending| pending.slot);
        for slot in slots.chain(self.exhausted.drain(..)) {
            ended(slot, Err(first.take().unwrap_or_else(|| ChunkError::Abandoned { why: why.clone() })));
        }
        self.lost = Some(why);
    }

    /// Waits for a completion, for at most one check interval.
    fn wait_for_completion(&mut self) {
        let queue = &self.queue;
        self.waiting.wait(self.check_interval, || queue.pending_completions() > 0);
    }

    /// The interrupt, for threads that wait for several files; `None` if the queue is polled.
    #[cfg(target_os = "linux")]
    pub(super) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        self.waiting.interrupt().map(|interrupt| interrupt.as_fd())
    }

    /// Prepares for a sleep on the interrupt, which is cleared. Returns false if there is something to process. The sleep should end after
    /// a [check interval](CHECK_INTERVAL): a controller that fails does not interrupt.
    #[cfg(target_os = "linux")]
    pub(super) fn announce_sleep(&mut self) -> bool {
        self.ring_doorbell();
        if let Some(interrupt) = self.waiting.interrupt() {
            // Before the queue is looked at: a later completion signals it again. If it can't be cleared, the thread does not sleep.
            let _ = interrupt.wait(Duration::ZERO);
        }
        self.exhausted.is_empty() && self.queue.pending_completions() == 0
    }

    /// The first `bytes` in the buffers of this many slots, one after the other.
    #[cfg(target_os = "linux")]
    pub(super) fn data_of_slots(&self, slots: usize, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; slots * bytes];
        for (slot, into) in (0..).zip(data.chunks_exact_mut(bytes)) {
            // They are within the memory: what fails is not there.
            let _ = self.copy_out(slot, into);
        }
        data
    }

    /// Lets another one tell of losses.
    #[cfg(target_os = "linux")]
    pub(super) fn tell_no_losses(&mut self) {
        self.losses = None;
    }

    /// Notes that the results of these slots were fetched.
    #[inline]
    pub(super) fn note_fetched(&mut self, is_fetched: impl Fn(u16) -> bool) {
        self.losses.iter_mut().for_each(|losses| losses.note_fetched(&is_fetched));
    }

    /// Leaves the controller when nothing is in flight, without a long wait. Returns whether it works: then its cache is to be flushed.
    #[cfg(target_os = "linux")]
    pub(super) fn leave(self) -> bool {
        let Self { controller, queue, buffer, is_leaving, .. } = self;
        // If another thread has it for longer, the queue and its memory stay with it.
        let Some(mut controller) = Controller::lock_until(&controller, Instant::now() + LEAVE_MAX) else {
            return is_leaving;
        };
        if is_leaving {
            // It is not used any more, whatever comes of this.
            let deleted = controller.within(LEAVE_MAX, |controller| controller.delete(queue));
            let _ = deleted.and_then(|()| controller.free(buffer));
        } else {
            controller.abandon(&queue, buffer);
        }
        is_leaving
    }

    /// Deletes the queue pair and frees the buffers.
    pub(super) fn close(self) -> Result<(), ChunkError> {
        let mut controller = Controller::lock(&self.controller);
        controller.delete(self.queue)?;
        Ok(controller.free(self.buffer)?)
    }
}

/// The flush of a request slot that has ended, if it had something to flush.
fn take_flush(flushes: &mut Vec<(u16, Carried)>, slot: u16) -> Option<Carried> {
    let place = flushes.iter().position(|(of, _)| *of == slot)?;
    Some(flushes.swap_remove(place).1)
}

#[cfg(test)]
mod tests;
