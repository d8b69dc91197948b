//! What the tasks of a queue share: its requests, and who waits for them.

use super::error::AsyncError;
use crate::controller::Controller;
use crate::controller_error::NvmeError;
use crate::queue_pair::{CommandId, Done, QueueError, QueuePair};
use std::collections::BTreeMap;
use std::mem::{replace, take};
use std::task::Waker;

/// A request of a queue.
#[derive(Debug)]
enum Request {
    /// In the list of free requests, or leased to a task.
    Idle,
    /// Its command is in flight. Its task is woken when it completes.
    InFlight(Option<Waker>),
    /// Its command is in flight, and nobody waits for it any more.
    Dropped,
    /// Its command has ended, and its task has not seen that yet.
    Ended(Result<u64, AsyncError>),
}

/// The queue pair and its requests.
#[derive(Debug)]
pub(super) struct State {
    pub(super) queue: QueuePair,
    requests: Vec<Request>,
    free: Vec<u16>,
    /// The request of each slot of the queue pair.
    by_slot: Vec<u16>,
    /// Tasks that wait for a free request, by their ticket.
    waiting: BTreeMap<u64, Waker>,
    tickets: u64,
    /// Tasks to wake when the state is no longer locked.
    woken: Vec<Waker>,
    /// Callers of `block_on` that poll their future, and ring the doorbell afterwards.
    deferring: u32,
    failed: Option<QueueError>,
}

impl State {
    /// As many free requests as the queue pair has slots.
    pub(super) fn new(queue: QueuePair) -> Self {
        let count = queue.available() as u16;
        Self {
            queue,
            requests: (0..count).map(|_| Request::Idle).collect(),
            free: (0..count).rev().collect(),
            by_slot: vec![0; count.into()],
            waiting: BTreeMap::new(),
            tickets: 0,
            woken: Vec::new(),
            deferring: 0,
            failed: None,
        }
    }

    /// The tasks to wake.
    pub(super) fn take_woken(&mut self) -> Vec<Waker> {
        take(&mut self.woken)
    }

    /// Takes a free request. A task that finds none is woken when there may be one; it keeps its ticket.
    pub(super) fn acquire(&mut self, ticket: &mut Option<u64>, waker: &Waker) -> Option<u16> {
        if let Some(request) = self.free.pop() {
            if let Some(ticket) = ticket.take() {
                self.waiting.remove(&ticket);
            }
            return Some(request);
        }
        let ticket = *ticket.get_or_insert_with(|| {
            self.tickets += 1;
            self.tickets
        });
        self.waiting.insert(ticket, waker.clone());
        None
    }

    /// A task no longer waits for a free request.
    pub(super) fn stop_waiting(&mut self, ticket: u64) {
        self.waiting.remove(&ticket);
    }

    /// Makes a request free. All tasks that wait for one are woken: one of them may have been dropped without a word.
    pub(super) fn release(&mut self, request: u16) {
        self.requests[usize::from(request)] = Request::Idle;
        self.free.push(request);
        self.woken.extend(take(&mut self.waiting).into_values());
    }

    /// Notes a command that was submitted for a request, and rings the doorbell.
    pub(super) fn begin(&mut self, request: u16, id: CommandId) {
        self.by_slot[id.slot()] = request;
        self.requests[usize::from(request)] = Request::InFlight(None);
        if self.deferring == 0 {
            self.queue.ring_doorbell();
        }
    }

    /// Why nothing can be submitted.
    pub(super) fn failed(&self) -> Option<QueueError> {
        self.failed
    }

    /// The result of a request's command, once it has ended. Else its task is woken when it ends.
    pub(super) fn result(&mut self, request: u16, waker: &Waker) -> Option<Result<u64, AsyncError>> {
        match replace(&mut self.requests[usize::from(request)], Request::Idle) {
            Request::Ended(result) => Some(result),
            _ => {
                self.requests[usize::from(request)] = Request::InFlight(Some(waker.clone()));
                None
            }
        }
    }

    /// Nobody waits for a request's command any more.
    pub(super) fn forget(&mut self, request: u16) {
        match self.requests[usize::from(request)] {
            Request::InFlight(_) => self.requests[usize::from(request)] = Request::Dropped,
            _ => self.release(request),
        }
    }

    /// Ends a request's command.
    fn end(&mut self, request: u16, result: Result<u64, AsyncError>) {
        match replace(&mut self.requests[usize::from(request)], Request::Ended(result)) {
            Request::InFlight(waker) => self.woken.extend(waker),
            Request::Dropped => self.release(request),
            other => self.requests[usize::from(request)] = other,
        }
    }

    /// Defers doorbells while a future is polled, and rings them after it.
    pub(super) fn defer_doorbell(&mut self, is_polling: bool) {
        if is_polling {
            self.deferring += 1;
        } else {
            self.deferring -= 1;
            self.queue.ring_doorbell();
        }
    }

    /// Polls completions.
    pub(super) fn step(&mut self) -> Result<usize, QueueError> {
        let mut completed: Vec<Done> = Vec::new();
        let polled = self.queue.poll(usize::MAX, |done| completed.push(done));
        for Done { id, status, result } in completed {
            let result = if status.is_success() { Ok(result) } else { Err(AsyncError::Status(status)) };
            self.end(self.by_slot[id.slot()], result);
        }
        polled
    }

    /// Ends everything in flight with an error. A request's buffer is not used again before the queue is renewed, because nothing is
    /// submitted: the controller may still write to it.
    pub(super) fn fail(&mut self, error: QueueError) {
        self.failed = Some(error);
        for request in 0..self.requests.len() as u16 {
            if matches!(self.requests[usize::from(request)], Request::InFlight(_) | Request::Dropped) {
                self.end(request, Err(AsyncError::Queue(error)));
            }
        }
    }

    /// Creates the queue pair again after a reset.
    pub(super) fn renew(&mut self, controller: &mut Controller) -> Result<usize, NvmeError> {
        if self.failed.is_some() {
            // Nobody waits for the commands in flight any more, and their requests may be other tasks'.
            self.queue.abandon();
        }
        let resubmitted = controller.renew(&mut self.queue)?;
        self.failed = None;
        for id in self.queue.take_cut_off() {
            self.end(self.by_slot[id.slot()], Err(AsyncError::CutOff));
        }
        Ok(resubmitted)
    }
}
