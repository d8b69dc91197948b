//! A request that a task has, with its buffer.

use super::AsyncQueue;
use crate::prp::Piece;
use dma::{MemoryAddress, NoMemory};
use std::future::Future;
use std::mem::forget;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A request of a queue, with its buffer, until it is dropped. No command uses the buffer.
///
/// The buffer is no slice: the controller can reach it at any time, and a slice promises that nobody else writes. [`read`](Self::read) and
/// [`write`](Self::write) copy; for a view of it take [`AsyncQueue::ram`]'s words at [`memory`](Self::memory).
#[derive(Debug)]
pub struct Lease<'q> {
    pub(super) queue: &'q AsyncQueue,
    pub(super) request: u16,
}

impl<'q> Lease<'q> {
    /// The address of its buffer for the CPU.
    pub fn memory(&self) -> MemoryAddress {
        self.queue.memory(self.request)
    }

    /// Bytes of its buffer.
    pub fn bytes(&self) -> u64 {
        self.queue.request_bytes
    }

    /// Copies from its buffer, from offset `from` on.
    ///
    /// # Errors
    /// If the buffer is too short.
    pub fn read(&self, from: u64, into: &mut [u8]) -> Result<(), NoMemory> {
        self.queue.ram.read(self.address(from, into.len())?, into)
    }

    /// Copies into its buffer, from offset `to` on.
    ///
    /// # Errors
    /// If the buffer is too short.
    pub fn write(&self, to: u64, from: &[u8]) -> Result<(), NoMemory> {
        self.queue.ram.write(self.address(to, from.len())?, from)
    }

    /// The address of a part of its buffer.
    fn address(&self, offset: u64, bytes: usize) -> Result<MemoryAddress, NoMemory> {
        let bytes = bytes as u64;
        let at = MemoryAddress(self.memory().0.saturating_add(offset));
        let is_within = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes());
        is_within.then_some(at).ok_or(NoMemory { at, bytes })
    }

    /// Its buffer's first bytes, by the controller's address.
    pub(super) fn piece(&self, bytes: u64) -> Result<Piece, NoMemory> {
        self.address(0, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        self.queue.buffer.piece(u64::from(self.request) * self.bytes(), bytes)
    }

    /// Its parts: somebody else releases the request.
    pub(super) fn into_parts(self) -> (&'q AsyncQueue, u16) {
        let parts = (self.queue, self.request);
        forget(self);
        parts
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.queue.change(|state| state.release(self.request));
    }
}

/// A task that takes a request.
pub(super) struct Acquire<'q> {
    queue: &'q AsyncQueue,
    ticket: Option<u64>,
}

impl<'q> Acquire<'q> {
    pub(super) fn new(queue: &'q AsyncQueue) -> Self {
        Self { queue, ticket: None }
    }
}

impl<'q> Future for Acquire<'q> {
    type Output = Lease<'q>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Lease<'q>> {
        let queue = self.queue;
        match queue.change(|state| state.acquire(&mut self.ticket, context.waker())) {
            Some(request) => Poll::Ready(Lease { queue, request }),
            None => Poll::Pending,
        }
    }
}

impl Drop for Acquire<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.queue.state().stop_waiting(ticket);
        }
    }
}
