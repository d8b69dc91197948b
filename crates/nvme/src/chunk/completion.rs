//! Results of requests in the order in which they end.

use super::{Chunk, ChunkError, Request, RequestState, Wait};
#[cfg(target_os = "linux")]
use std::os::fd::BorrowedFd;

/// A request that has ended.
#[derive(Debug)]
pub struct Completion<'a> {
    chunk: &'a Chunk,
    request: Request,
    bytes: usize,
    result: Option<Result<(), ChunkError>>,
}

impl Completion<'_> {
    /// The request. Its slot is free after this.
    pub fn request(&self) -> Request {
        self.request
    }

    /// Its result: the number of bytes read, of which as many as fit are copied to `into`.
    ///
    /// # Errors
    /// The request's error
    pub fn finish(mut self, into: &mut [u8]) -> Result<usize, ChunkError> {
        self.result.take().unwrap_or(Err(ChunkError::NoRequest))?;
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
    pub fn poll(&mut self, mut each: impl FnMut(Completion<'_>)) -> usize {
        self.process_completions(Wait::No);
        let mut ended = std::mem::take(&mut self.ended);
        let mut number = 0;
        for request in ended.drain(..) {
            let Some(slot) = self.slots.get_mut(request.slot()) else { continue };
            if slot.generation != request.generation {
                continue;
            }
            let RequestState::Ended(result) = std::mem::replace(&mut slot.state, RequestState::Free) else {
                continue;
            };
            slot.generation += 1;
            let bytes = slot.read_bytes;
            self.free.push(request.slot);
            number += 1;
            each(Completion { chunk: self, request, bytes, result: Some(result) });
        }
        self.ended = ended;
        number
    }

    /// Prepares for a sleep on [`as_fd`](Self::as_fd). Returns false if requests have ended already: then don't sleep, but
    /// [`poll`](Self::poll).
    #[cfg(target_os = "linux")]
    pub fn announce_sleep(&mut self) -> bool {
        match &mut self.disk {
            super::Backend::Served(queue) => queue.announce_sleep(),
            _ => true,
        }
    }

    /// Can be read when requests may have ended, so that a thread can sleep until then, after [`announce_sleep`](Self::announce_sleep). `None` if completions must be polled for.
    #[cfg(target_os = "linux")]
    pub fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.disk {
            super::Backend::FileRing(file) => Some(file.as_fd()),
            super::Backend::Served(queue) => Some(queue.as_fd()),
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
