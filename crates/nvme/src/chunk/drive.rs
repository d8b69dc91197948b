//! Requests by a queue pair of a controller, and what is done when it fails.

use super::{Asked, ChunkError, Wait};
use crate::controller::{Buffer, Controller, Namespace, NvmeError, PAGE_BYTES, QueueOptions};
use crate::queue_pair::{CommandId, QueueError, QueuePair};
use crate::spec::status::Status;
use dma::{MemoryAddress, Ram};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long a controller has, and how often it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// A command that has not come back after so long is aborted; after as long again the controller is reset. Linux has 30 s
    /// (`nvme_core.io_timeout`).
    pub timeout: Duration,
    /// A command that failed for a time is tried so often again. Linux has 5 (`nvme_core.max_retries`).
    pub retries: u32,
    /// Resets one after the other, without a completion between them, after which it is given up.
    pub resets: u32,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), retries: 5, resets: 3 }
    }
}

/// How a thread waits for completions.
#[derive(Debug)]
pub enum Waiting {
    /// It looks again and again, and its CPU does nothing else.
    Polling,
    /// It sleeps until the controller interrupts by this vector.
    #[cfg(target_os = "linux")]
    Interrupt {
        /// Of the queue's completions.
        vector: u16,
        /// The vector's.
        interrupt: Arc<dma::vfio::Interrupt>,
    },
}

/// What was done about failures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Events {
    /// Commands that failed for a time and were sent again.
    pub retries: u64,
    /// Commands whose abortion was asked for.
    pub aborts: u64,
    /// Resets of the controller by this thread.
    pub resets: u64,
    /// Commands that began once more after a reset, by whomever.
    pub begun_again: u64,
}

/// Ticks of a queue in a timeout.
const TICKS: u32 = 8;
/// Between two looks at whether a controller that completes nothing still works.
const LOOK: Duration = Duration::from_millis(10);
/// Polls between two looks at the clock.
const POLLS: u32 = 64;

/// A command of a slot.
#[derive(Debug, Clone, Copy)]
struct Sent {
    slot: u16,
    asked: Asked,
    retries: u32,
    /// Resets after which it began once more.
    resets: u32,
    was_aborted: bool,
}

/// A queue pair of a controller, with a buffer for each of its requests.
#[derive(Debug)]
pub struct Drive {
    controller: Arc<Mutex<Controller>>,
    queue: QueuePair,
    namespace: Namespace,
    ram: Arc<Ram>,
    buffer: Buffer,
    request_bytes: usize,
    /// By id.
    sent: Vec<Option<Sent>>,
    retry_policy: RetryPolicy,
    waiting: Waiting,
    events: Events,
    /// Since a command was completed.
    resets_in_vain: u32,
    /// Why it was given up: what was in flight may still reach its buffers.
    given_up: Option<String>,
    /// Slots whose requests have begun as often as they may.
    spent: Vec<u16>,
    looked: Instant,
    /// What was completed; kept so that polling asks for no memory.
    done: Vec<(Sent, Status)>,
    next_tick: Instant,
}

impl Drive {
    /// A queue pair of its own for a namespace of a controller that others may use too, with room for so many requests, each with a buffer of at least so many
    /// bytes, or as many as the controller takes.
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
        let request_bytes = request_bytes.min(namespace.transfer_bytes_max).max(namespace.is.block_bytes());
        let request_bytes = request_bytes.next_multiple_of(PAGE_BYTES.max(namespace.is.block_bytes()));
        let vector = match &waiting {
            Waiting::Polling => None,
            #[cfg(target_os = "linux")]
            Waiting::Interrupt { vector, .. } => Some(*vector),
        };
        let mut guard = Controller::lock(&controller);
        let queue = guard.queue_pair_with(QueueOptions { entries: requests + 1, vector })?;
        let buffer = match guard.allocate(queue.available() as u64 * request_bytes) {
            Ok(buffer) => buffer,
            Err(error) => {
                guard.delete(queue)?;
                return Err(error.into());
            }
        };
        let ram = guard.ram();
        drop(guard);
        let tick = retry_policy.timeout / TICKS;
        Ok(Self {
            sent: vec![None; queue.available()],
            controller,
            queue,
            namespace,
            ram,
            buffer,
            request_bytes: request_bytes as usize,
            retry_policy,
            waiting,
            events: Events::default(),
            resets_in_vain: 0,
            given_up: None,
            spent: Vec::new(),
            looked: Instant::now(),
            done: Vec::new(),
            next_tick: Instant::now() + tick,
        })
    }

    /// What it reads and writes.
    pub fn namespace(&self) -> Namespace {
        self.namespace
    }

    pub(super) fn requests(&self) -> u16 {
        self.sent.len() as u16
    }

    pub(super) fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    pub(super) fn events(&self) -> Events {
        self.events
    }

    /// Puts a request into the queue, of which the controller hears with the next [`ring`](Self::ring).
    pub(super) fn begin(&mut self, slot: u16, asked: Asked, from: &[u8]) -> Result<(), ChunkError> {
        if let Some(why) = &self.given_up {
            return Err(ChunkError::GivenUp { why: why.clone() });
        }
        if !from.is_empty() {
            self.ram.write(self.memory(slot), from)?;
        }
        self.send(Sent { slot, asked, retries: 0, resets: 0, was_aborted: false })
    }

    pub(super) fn ring(&mut self) {
        self.queue.ring_doorbell();
    }

    fn send(&mut self, sent: Sent) -> Result<(), ChunkError> {
        let of = &self.namespace;
        let at = u64::from(sent.slot) * self.request_bytes as u64;
        let id = match sent.asked {
            Asked::Read { first, blocks } => {
                let piece = self.buffer.piece(at, blocks << of.is.block_shift)?;
                self.queue.read(of, first, &[piece])?
            }
            Asked::Write { first, blocks } => {
                let piece = self.buffer.piece(at, blocks << of.is.block_shift)?;
                self.queue.write(of, first, &[piece])?
            }
            Asked::WriteZeroes { first, blocks } => self.queue.write_zeroes(of, first, blocks)?,
            Asked::Deallocate { first, blocks } => {
                let range = first..first + blocks;
                self.queue.deallocate(of, std::slice::from_ref(&range))?
            }
            Asked::Flush => self.queue.flush(of)?,
        };
        self.sent[id.slot()] = Some(sent);
        Ok(())
    }

    pub(super) fn copy_out(&self, slot: u16, into: &mut [u8]) -> Result<(), ChunkError> {
        Ok(self.ram.read(self.memory(slot), into)?)
    }

    fn memory(&self, slot: u16) -> MemoryAddress {
        MemoryAddress(self.buffer.memory().0 + u64::from(slot) * self.request_bytes as u64)
    }

    /// Takes what is completed, and does what is to be done about the rest; if it is waited for, until a request has ended.
    pub(super) fn attend(&mut self, wait: Wait, ended: &mut impl FnMut(u16, Result<(), ChunkError>)) {
        self.ring();
        loop {
            let result = self.take(ended).and_then(|taken| {
                if taken == 0 {
                    self.see_to()?;
                }
                Ok(taken)
            });
            match result {
                Ok(0) if wait == Wait::Yes && self.queue.in_flight() > 0 => self.rest(),
                Ok(_) => return,
                // Nothing of what is in flight will end any more.
                Err(error) => return self.give_up(error, ended),
            }
        }
    }

    /// Takes what is completed; says how many requests have ended.
    fn take(&mut self, ended: &mut impl FnMut(u16, Result<(), ChunkError>)) -> Result<usize, ChunkError> {
        let mut done = std::mem::take(&mut self.done);
        // A id that has come back may be the next command's at once: whose it was is looked up first.
        let sent = &mut self.sent;
        let polled = self.queue.poll(usize::MAX, |one| {
            done.extend(sent[one.id.slot()].take().map(|sent| (sent, one.status)));
        });
        let (mut taken, mut is_sent) = (self.spent.len(), false);
        for slot in self.spent.drain(..) {
            ended(slot, Err(ChunkError::GaveUp { resets: self.retry_policy.resets }));
        }
        for (sent, status) in done.drain(..) {
            self.resets_in_vain = 0;
            if !status.is_success() && status.may_retry() && sent.retries < self.retry_policy.retries {
                let again = self.send(Sent { retries: sent.retries + 1, was_aborted: false, ..sent });
                self.events.retries += 1;
                is_sent = true;
                let Err(error) = again else { continue };
                ended(sent.slot, Err(error));
            } else {
                let result = if status.is_success() { Ok(()) } else { Err(ChunkError::Status(status)) };
                ended(sent.slot, result);
            }
            taken += 1;
        }
        self.done = done;
        if is_sent {
            self.queue.ring_doorbell();
        }
        match polled {
            Ok(_) => {}
            // Another thread has reset it, or what it says makes no sense.
            Err(QueueError::Reset | QueueError::Unknown(_)) => self.reset()?,
            Err(error) => return Err(error.into()),
        }
        Ok(taken)
    }

    /// Looks now and then at whether the controller works, and at what has been in flight for long.
    fn see_to(&mut self) -> Result<(), ChunkError> {
        let now = Instant::now();
        if now.duration_since(self.looked) >= LOOK.min(self.retry_policy.timeout / TICKS) {
            self.looked = now;
            let working = Controller::lock(&self.controller).working();
            match working {
                Err(NvmeError::Gone) => return Err(NvmeError::Gone.into()),
                Err(_) => self.reset()?,
                Ok(()) => {}
            }
        }
        if now < self.next_tick {
            return Ok(());
        }
        self.next_tick = now + self.retry_policy.timeout / TICKS;
        self.queue.tick();
        let overdue: Vec<CommandId> = self.queue.overdue(TICKS).collect();
        for id in overdue {
            let sent = self.sent[id.slot()].as_mut();
            let Some(sent) = sent.filter(|sent| !sent.was_aborted) else { continue };
            sent.was_aborted = true;
            self.events.aborts += 1;
            let asked = Controller::lock(&self.controller).abort(&self.queue, id, self.retry_policy.timeout);
            // One that does not even abort wants a reset.
            if asked.is_err() {
                return self.reset();
            }
        }
        if self.queue.overdue(2 * TICKS).next().is_some() { self.reset() } else { Ok(()) }
    }

    /// Resets the controller, unless another thread did so meanwhile, and takes the queue up again.
    fn reset(&mut self) -> Result<(), ChunkError> {
        let controller = Arc::clone(&self.controller);
        let mut controller = Controller::lock(&controller);
        let mut wants_reset = !self.queue.is_stale();
        loop {
            let result = if wants_reset || controller.working().is_err() {
                if self.resets_in_vain == self.retry_policy.resets {
                    return Err(ChunkError::GaveUp { resets: self.resets_in_vain });
                }
                self.resets_in_vain += 1;
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

    /// Takes the queue up again on a controller that has forgotten it, and so reaches no buffer.
    fn renew(&mut self, controller: &mut Controller) -> Result<(), NvmeError> {
        for (place, sent) in self.sent.iter_mut().enumerate() {
            // One that brings it down each time is not begun for ever.
            if let Some(spent) = sent.take_if(|sent| sent.resets == self.retry_policy.resets) {
                self.queue.abandon_slot(place);
                self.spent.push(spent.slot);
            }
        }
        let begun_again = controller.renew(&mut self.queue)?;
        self.events.begun_again += begun_again as u64;
        for sent in self.sent.iter_mut().flatten() {
            sent.was_aborted = false;
            sent.resets += 1;
        }
        Ok(())
    }

    /// All that is in flight ends so.
    fn give_up(&mut self, error: ChunkError, ended: &mut impl FnMut(u16, Result<(), ChunkError>)) {
        let why = error.to_string();
        self.queue.abandon();
        let mut first = Some(error);
        let slots = self.sent.iter_mut().filter_map(Option::take).map(|sent| sent.slot);
        for slot in slots.chain(self.spent.drain(..)) {
            ended(slot, Err(first.take().unwrap_or_else(|| ChunkError::GivenUp { why: why.clone() })));
        }
        self.given_up = Some(why);
    }

    /// Waits for a moment.
    fn rest(&self) {
        match &self.waiting {
            Waiting::Polling => {
                for _ in 0..POLLS {
                    if self.queue.pending_completions() > 0 {
                        return;
                    }
                    std::hint::spin_loop();
                }
            }
            #[cfg(target_os = "linux")]
            Waiting::Interrupt { interrupt, .. } => {
                // One that can't be waited for is polled.
                let _ = interrupt.wait(LOOK.min(self.retry_policy.timeout / TICKS));
            }
        }
    }

    pub(super) fn close(self) -> Result<(), ChunkError> {
        let mut controller = Controller::lock(&self.controller);
        controller.delete(self.queue)?;
        Ok(controller.free(self.buffer)?)
    }
}
