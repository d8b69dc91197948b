//! Work on many things on all cores.

use rayon::prelude::*;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Results that wait to be taken, at most: then the cores wait, so that memory is bounded.
const WAITING_MAX: usize = 256;
/// How often [`on_all_cores`] calls `take` while there is nothing new.
const TAKE_INTERVAL: Duration = Duration::from_millis(200);

/// Does `work` for each of `items` on all cores. The calling thread takes each result as soon as there is one, in no order, and `None` now and then while there is none: one long
/// item does not keep the others' results from being written.
///
/// # Errors
/// That of `take`, which ends the work: items that have begun are still done.
pub(crate) fn on_all_cores<I: Sync, R: Send>(
    items: &[I],
    work: impl Fn(&I) -> R + Sync,
    mut take: impl FnMut(Option<R>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let (sender, receiver) = sync_channel(WAITING_MAX);
    let work = &work;
    // The receiver is dropped before the threads are waited for, so that none of them waits for room.
    thread::scope(move |scope| {
        scope.spawn(move || {
            // One by one, so that no core has several left while others have none.
            let each = items.par_iter().with_max_len(1);
            _ = each.try_for_each_with(sender, |sender, item| sender.send(work(item)));
        });
        loop {
            match receiver.recv_timeout(TAKE_INTERVAL) {
                Ok(result) => take(Some(result))?,
                Err(RecvTimeoutError::Timeout) => take(None)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::skip::skip;
    use std::sync::mpsc::channel;
    use std::sync::{Mutex, atomic::AtomicUsize, atomic::Ordering};

    /// The first item ends when the result of another was taken, which a batch of both would not do.
    #[test]
    fn a_long_item_holds_no_result_back() {
        if rayon::current_num_threads() < 2 {
            return skip("one core");
        }
        let (others_taken, wait) = channel();
        let wait = Mutex::new(wait);
        let work = |item: &usize| match item {
            0 => wait.lock().unwrap().recv_timeout(Duration::from_secs(60)).is_ok(),
            _ => true,
        };
        let (mut results, mut pauses) = (Vec::new(), 0);
        let items: Vec<usize> = (0..1000).collect();
        on_all_cores(&items, work, |result| {
            match result {
                Some(result) => results.push(result),
                None => pauses += 1,
            }
            // All but the long one, after a look at the clock.
            if results.len() == items.len() - 1 && pauses > 0 {
                others_taken.send(()).unwrap();
            }
            Ok(())
        })
        .unwrap();
        assert!(results.len() == items.len() && results.iter().all(|is_in_time| *is_in_time));
    }

    #[test]
    fn an_error_ends_the_work() {
        let (items, done) = (vec![(); 100_000], AtomicUsize::new(0));
        let work = |(): &()| done.fetch_add(1, Ordering::Relaxed);
        let taken = on_all_cores(&items, work, |_| anyhow::bail!("no room"));
        assert_eq!(taken.unwrap_err().to_string(), "no room");
        assert!(done.into_inner() < items.len());
    }
}
