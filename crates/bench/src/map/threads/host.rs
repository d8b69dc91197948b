//! A thread that plays the host of a virtual machine: it serves what guests send it through shared memory.
//!
//! No trap is in it. A guest waits for the answer as a virtual CPU would: it does not sleep, but yields its CPU so that the host
//! gets one where threads are more than CPUs. The host polls, and sleeps after a while without requests.

use dma::tce::{Hypercall, Hypervisor, Status};
use std::hint;
use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, yield_now};

/// Polls of a guest before it first yields its CPU: about the time of an answer from a host on another CPU.
const SPINS: u32 = 1_000;
/// Polls of the host without a request before it sleeps.
const IDLE_POLLS: u32 = 4_000;

/// A hypercall and the place of its answer.
struct Call {
    call: Hypercall,
    answer: Arc<OnceLock<Status>>,
}

/// Starts a host that serves hypercalls, and returns what carries one to it. The thread ends when that is dropped.
pub(super) fn hypercall_host(
    hypervisor: Arc<Hypervisor>,
) -> io::Result<impl Fn(Hypercall) -> Status + Send + Sync + 'static> {
    let calls = start("hypervisor", move |call: Call| {
        // The guest that waits holds the other reference, so nobody else has answered.
        let _ = call.answer.set(hypervisor.serve(call.call));
    })?;
    Ok(move |call| {
        let answer = Arc::new(OnceLock::new());
        match calls.send(Call { call, answer: Arc::clone(&answer) }) {
            Ok(()) => wait_for(|| answer.get().copied()),
            // The host is gone, as if the firmware had no such call.
            Err(_) => Status::Function,
        }
    })
}

/// Starts a host that serves all that is sent to it, until no sender is left.
pub(super) fn start<T: Send + 'static>(
    name: &str,
    mut serve: impl FnMut(T) + Send + 'static,
) -> io::Result<Sender<T>> {
    let (sender, receiver) = channel();
    Builder::new().name(name.to_owned()).spawn(move || {
        while let Some(request) = next(&receiver) {
            serve(request);
        }
    })?;
    Ok(sender)
}

/// The next request; `None` if no sender is left.
fn next<T>(requests: &Receiver<T>) -> Option<T> {
    for poll in 0..IDLE_POLLS {
        match requests.try_recv() {
            Ok(request) => return Some(request),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => pause(poll),
        }
    }
    requests.recv().ok()
}

/// Polls until there is an answer.
pub(super) fn wait_for<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let mut polls = 0;
    loop {
        if let Some(answer) = poll() {
            return answer;
        }
        pause(polls);
        polls = polls.saturating_add(1);
    }
}

/// Lets time pass between two polls.
fn pause(polls: u32) {
    if polls < SPINS { hint::spin_loop() } else { yield_now() }
}
