//! A command in flight, as a future.

use super::error::AsyncError;
use super::lease::Lease;
use super::{AsyncQueue, state::State};
use crate::blocks::BlockError;
use crate::controller::Namespace;
use crate::queue_pair::{CommandId, QueuePair};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A command in flight. Its request is the controller's until the command completes, also if this is dropped before.
pub(super) struct InFlight<'q> {
    queue: &'q AsyncQueue,
    /// `None` when it has ended.
    request: Option<u16>,
}

impl<'q> InFlight<'q> {
    /// Submits a command of a leased request.
    pub(super) fn submit(
        lease: Lease<'q>,
        submit: impl FnOnce(&mut QueuePair, &Namespace) -> Result<CommandId, BlockError>,
    ) -> Result<Self, AsyncError> {
        let begin = |state: &mut State| {
            if let Some(error) = state.failed() {
                return Err(AsyncError::Queue(error));
            }
            let id = submit(&mut state.queue, &lease.queue.namespace)?;
            state.begin(lease.request, id);
            Ok(())
        };
        // An error ends the lease.
        lease.queue.change(begin)?;
        let (queue, request) = lease.into_parts();
        Ok(Self { queue, request: Some(request) })
    }
}

impl<'q> Future for InFlight<'q> {
    type Output = Result<(Lease<'q>, u64), AsyncError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (queue, Some(request)) = (self.queue, self.request) else { return Poll::Pending };
        match queue.change(|state| state.result(request, context.waker())) {
            None => Poll::Pending,
            Some(result) => {
                self.request = None;
                // The lease is dropped if the command failed.
                let lease = Lease { queue, request };
                Poll::Ready(result.map(|result| (lease, result)))
            }
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        if let Some(request) = self.request {
            self.queue.change(|state| state.forget(request));
        }
    }
}
