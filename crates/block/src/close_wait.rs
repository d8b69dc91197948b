//! How long a close waits for a chunk's commands.

use std::time::{Duration, Instant};

/// For commands in flight.
const IN_FLIGHT_MAX: Duration = Duration::from_secs(5);
/// For results to be fetched while nothing is in flight. Most likely nobody fetches them.
const UNFETCHED_MAX: Duration = Duration::from_millis(100);

/// The wait of one close.
#[derive(Debug)]
pub(crate) struct CloseWait {
    begun: Instant,
    /// Since when only results that were not fetched are left.
    idle_since: Option<Instant>,
}

impl CloseWait {
    pub(crate) fn new(now: Instant) -> Self {
        Self { begun: now, idle_since: None }
    }

    /// Whether it has taken too long.
    pub(crate) fn is_over(&mut self, is_busy: bool, now: Instant) -> bool {
        if is_busy {
            self.idle_since = None;
            return now.duration_since(self.begun) >= IN_FLIGHT_MAX;
        }
        now.duration_since(*self.idle_since.get_or_insert(now)) >= UNFETCHED_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_waited_for_shortly_and_commands_longer() {
        let begun = Instant::now();
        let mut wait = CloseWait::new(begun);
        let mut is_over = |is_busy, after_ms| wait.is_over(is_busy, begun + Duration::from_millis(after_ms));
        assert!(!is_over(true, 0) && !is_over(true, 4_000));
        assert!(!is_over(false, 4_100) && !is_over(false, 4_199));
        assert!(!is_over(true, 4_200), "another thread has begun a flush before");
        assert!(!is_over(false, 4_800) && is_over(false, 4_900), "it was idle for 0.1 s");
        assert!(!is_over(true, 4_999) && is_over(true, 5_000));
    }
}
