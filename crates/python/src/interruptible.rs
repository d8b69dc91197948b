//! Calls that let other Python threads run, and that Ctrl-C ends.

use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How often signals are looked for: a person waits no longer for Ctrl-C to work.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// What the threads are called that do the work, in /proc and in debuggers.
pub(crate) const THREAD_NAME: &str = "iotoll";

/// Tells work that nobody waits for its result any more.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Whether the caller was interrupted.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Ends the calling thread, without a message, if the caller was interrupted: for work whose callbacks can't end it otherwise.
    pub(crate) fn end_thread_if_set(&self) {
        if self.is_set() {
            std::panic::resume_unwind(Box::new("interrupted"));
        }
    }
}

/// Does work in a thread of its own, without the interpreter's lock. Only the main thread of Python handles signals, so it may not be the one that works.
///
/// If a signal's handler raises, as that of Ctrl-C does, its exception is the result at once. The work ends when it next looks at its [`Interrupt`].
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Interrupt) -> T + Send + 'static,
) -> PyResult<T> {
    let (sender, receiver) = channel();
    let interrupt = Interrupt::default();
    let given = interrupt.clone();
    let worker = thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(move || {
        // After an interrupt nobody receives.
        let _ = sender.send(work(&given));
    })?;
    let receiver = std::sync::Mutex::new(receiver);
    loop {
        let received = py.detach(|| match receiver.lock() {
            Ok(receiver) => receiver.recv_timeout(SIGNAL_INTERVAL),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match received {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(raised) = py.check_signals() {
                    interrupt.0.store(true, Ordering::Relaxed);
                    return Err(raised);
                }
            }
            // The thread has panicked: pyo3 raises that as an exception.
            Err(RecvTimeoutError::Disconnected) => match worker.join() {
                Ok(()) => unreachable!("a thread that ended has sent its result"),
                Err(panic) => std::panic::resume_unwind(panic),
            },
        }
    }
}
