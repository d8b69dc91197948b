//! A broker that serves in a thread of a test.

use nvme::broker::{Broker, BrokerError, EventHandler};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// Serves until it is stopped or dropped.
pub(crate) struct Serving {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), BrokerError>>>,
}

impl Serving {
    pub(crate) fn start(broker: Broker, on_event: EventHandler) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let its_stop = Arc::clone(&stop);
        let thread = thread::spawn(move || broker.serve(&its_stop, &on_event));
        Self { stop, thread: Some(thread) }
    }

    /// How serving ends by itself.
    #[allow(dead_code, reason = "other tests stop it")]
    pub(crate) fn end(&mut self) -> Result<(), BrokerError> {
        self.thread.take().map_or(Ok(()), |thread| thread.join().unwrap())
    }

    /// How serving has ended; `None` if it was stopped before.
    pub(crate) fn stop(&mut self) -> Option<Result<(), BrokerError>> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(|thread| thread.join().unwrap())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let ended = self.stop();
        // A second panic would hide the first.
        assert!(thread::panicking() || !matches!(ended, Some(Err(_))), "{ended:?}");
    }
}
