//! Where frames land, and when the CPU is told.

use std::collections::VecDeque;

/// Interrupts are moderated by count and by time, and are off from one until the ring was found empty.
#[derive(Default)]
pub(crate) struct ReceiveRing {
    frames: VecDeque<u32>,
    /// From an interrupt on, until the CPU finds nothing more.
    is_served: bool,
    /// How many interrupts there were: a timer of before the last one means nothing any more.
    interrupts: u32,
}

/// What follows when a frame has landed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// The CPU is told, now or soon.
    Nothing,
    /// The CPU is told after a time, if this is still how many interrupts there were.
    Timer(u32),
    /// The CPU is told.
    Interrupt,
}

impl ReceiveRing {
    pub(crate) fn land(&mut self, flow: u32, frames_max: usize) -> Landing {
        self.frames.push_back(flow);
        match self.frames.len() {
            _ if self.is_served => Landing::Nothing,
            frames if frames >= frames_max => {
                self.interrupt();
                Landing::Interrupt
            }
            1 => Landing::Timer(self.interrupts),
            _ => Landing::Nothing,
        }
    }

    /// Whether the CPU is told.
    pub(crate) fn timer_ends(&mut self, interrupts: u32) -> bool {
        let is_due = interrupts == self.interrupts;
        if is_due {
            self.interrupt();
        }
        is_due
    }

    fn interrupt(&mut self) {
        self.is_served = true;
        self.interrupts += 1;
    }

    /// The CPU takes the first frame. If there is none, it is to be told of the next.
    pub(crate) fn poll(&mut self) -> Option<u32> {
        let flow = self.frames.pop_front();
        self.is_served = flow.is_some();
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_by_count_or_by_time_and_never_while_polled() {
        let mut ring = ReceiveRing::default();
        assert_eq!((ring.land(1, 2), ring.land(2, 2)), (Landing::Timer(0), Landing::Interrupt));
        assert!(!ring.timer_ends(0), "the interrupt came before it");
        assert_eq!(
            (ring.poll(), ring.land(3, 2), ring.land(4, 2)),
            (Some(1), Landing::Nothing, Landing::Nothing)
        );
        assert_eq!((ring.poll(), ring.poll(), ring.poll(), ring.poll()), (Some(2), Some(3), Some(4), None));
        assert_eq!(ring.land(5, 2), Landing::Timer(1));
        assert!(!ring.timer_ends(0), "it is of before the last interrupt");
        assert!(ring.timer_ends(1));
        assert_eq!((ring.land(6, 2), ring.poll()), (Landing::Nothing, Some(5)));
    }
}
