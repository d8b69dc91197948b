//! Interrupt moderation: delays an interrupt to combine it with later ones.

/// The moderation timer of a ring or queue. A number tells the current timer from one that an interrupt has made
/// obsolete.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moderation {
    number: u32,
    is_running: bool,
}

impl Moderation {
    /// Starts the timer, if none is running. Returns the number of the timer to schedule.
    pub(crate) fn begin(&mut self) -> Option<u32> {
        if self.is_running {
            return None;
        }
        (self.is_running, self.number) = (true, self.number.wrapping_add(1));
        Some(self.number)
    }

    /// An interrupt was raised: stops the timer.
    pub(crate) fn end(&mut self) {
        self.is_running = false;
    }

    /// Whether an expired timer is the current one.
    pub(crate) fn is_over(&self, number: u32) -> bool {
        self.is_running && self.number == number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outdated_timer_has_no_effect() {
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
