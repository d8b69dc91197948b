//! Results of requests in the order in which they end.

use super::{Chunk, ChunkError, Outcome, Request, RequestState, Wait, boxed};
#[cfg(target_os = "linux")]
use std::os::fd::BorrowedFd;

/// A request that has ended.
#[derive(Debug)]
pub struct Completion<'a> {
    chunk: &'a Chunk,
    request: Request,
    bytes: usize,
    outcome: Outcome,
}

impl Completion<'_> {
    /// The request. Its slot is free after this.
    #[inline]
    pub fn request(&self) -> Request {
        self.request
    }

    /// Its result: the number of bytes read, of which as many as fit are copied to `into`.
    ///
    /// # Errors
    /// The request's error
    #[inline]
    pub fn finish(self, into: &mut [u8]) -> Result<usize, ChunkError> {
        if let Some(error) = self.outcome {
            return Err(*error);
        }
        let taken = self.bytes.min(into.len());
        if taken > 0 {
            self.chunk.copy_out(self.request.slot, &mut into[..taken])?;
        }
        Ok(self.bytes)
    }
}

impl Chunk {
    /// Calls `each` for requests that have ended, without waiting, and returns their number. Requests whose results were fetched by
    /// [`aresult`](Self::aresult) are not among them, and after this `aresult` does not know those that were.
    #[inline]
    pub fn poll(&mut self, mut each: impl FnMut(Completion<'_>)) -> usize {
        let mut polled = std::mem::take(&mut self.polled);
        self.drain_ended(&mut polled);
        let mut ended = |place, result: Result<(), ChunkError>| polled.push((place, result.err().map(boxed)));
        self.disk.process_completions(Wait::No, &mut ended);
        let number = polled.len();
        for (place, outcome) in polled.drain(..) {
            let slot = &mut self.slots[usize::from(place)];
            let (request, bytes) = (Request { slot: place, generation: slot.generation }, slot.read_bytes);
            slot.generation += 1;
            slot.state = RequestState::Free;
            self.free.push(place);
            each(Completion { chunk: self, request, bytes, outcome });
        }
        self.polled = polled;
        if number > 0 {
            // All that have ended.
            self.disk.note_fetched(|_| true);
        }
        number
    }

    /// Moves the requests that ended before a poll, and whose results were not fetched.
    fn drain_ended(&mut self, polled: &mut Vec<(u16, Outcome)>) {
        for request in self.ended.drain(..) {
            let slot = &mut self.slots[request.slot()];
            if slot.generation == request.generation {
                // No other poll and no fetch finds it: it is freed in this one.
                if let RequestState::Ended(outcome) = std::mem::replace(&mut slot.state, RequestState::Free) {
                    polled.push((request.slot, outcome));
                }
            }
        }
    }

    /// Prepares for a sleep on [`as_fd`](Self::as_fd). Returns false if requests have ended already: then don't sleep, but
    /// [`poll`](Self::poll).
    #[cfg(target_os = "linux")]
    pub fn announce_sleep(&mut self) -> bool {
        match &mut self.disk {
            super::Backend::Served(queue) => queue.announce_sleep(),
            super::Backend::Drive(drive) => drive.announce_sleep(),
            super::Backend::Paths(paths) => paths.announce_sleep(),
            _ => true,
        }
    }

    /// Can be read when requests may have ended, so that a thread can sleep until then, after [`announce_sleep`](Self::announce_sleep).
    /// `None` if completions must be polled for.
    #[cfg(target_os = "linux")]
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.disk {
            super::Backend::FileRing(file) => Some(file.as_fd()),
            super::Backend::Served(queue) => Some(queue.as_fd()),
            super::Backend::Drive(drive) => drive.as_fd(),
            super::Backend::Paths(paths) => paths.as_fd(),
            _ => None,
        }
    }

    /// Notes a request that ended when it was begun.
    pub(super) fn note_end(&mut self, request: Request) {
        self.ended.push(request);
        self.forget_fetched();
    }

    /// Keeps the list of ended requests as short as there are slots, where the caller fetches results by request.
    pub(super) fn forget_fetched(&mut self) {
        if self.ended.len() > 2 * self.slots.len() {
            let slots = &self.slots;
            self.ended.retain(|request| slots[request.slot()].generation == request.generation);
        }
    }
}
