//! Interrupt moderation: what has come waits for more of its kind, up to a time.

/// The timer of a ring or a queue. One that an interrupt has overtaken is told by its number from the one that runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moderation {
    number: u32,
    is_running: bool,
}

impl Moderation {
    /// Begins to wait, if it doesn't yet: the number of the timer to be set.
    pub(crate) fn begin(&mut self) -> Option<u32> {
        if self.is_running {
            return None;
        }
        (self.is_running, self.number) = (true, self.number.wrapping_add(1));
        Some(self.number)
    }

    /// An interrupt is raised: nothing waits any more.
    pub(crate) fn end(&mut self) {
        self.is_running = false;
    }

    /// Whether the timer that is over is the one that was waited for.
    pub(crate) fn is_over(&self, number: u32) -> bool {
        self.is_running && self.number == number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_that_was_overtaken_tells_nobody() {
        let mut moderation = Moderation::default();
        let first = moderation.begin().unwrap();
        assert_eq!(moderation.begin(), None);
        assert!(moderation.is_over(first));
        moderation.end();
        assert!(!moderation.is_over(first));
        let second = moderation.begin().unwrap();
        assert!(!moderation.is_over(first) && moderation.is_over(second));
    }
}
