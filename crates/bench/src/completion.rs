//! Polls a queue pair until a command has completed.

use crate::blk::BlkError;
use nvme::{Done, QueuePair};
use std::time::{Duration, Instant};

/// Longer than a drive's error recovery takes.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Polls of the queue between two checks of the time.
const POLLS: u32 = 1 << 16;

/// Polls until a command has completed, and calls `each` for all that have.
///
/// # Errors
/// [`BlkError::Late`] if none completes in time, [`BlkError::Queue`] if the controller misbehaves.
pub(crate) fn wait_for_completion(queue: &mut QueuePair, mut each: impl FnMut(Done)) -> Result<(), BlkError> {
    let mut begin = None;
    loop {
        for _ in 0..POLLS {
            if queue.poll(usize::MAX, &mut each)? > 0 {
                return Ok(());
            }
            std::hint::spin_loop();
        }
        if begin.get_or_insert_with(Instant::now).elapsed() > TIMEOUT {
            return Err(BlkError::Late { limit: TIMEOUT });
        }
    }
}
