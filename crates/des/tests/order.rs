//! The order in which events happen is that of the plain heap, whatever is scheduled.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use des::{Calendar, Entry, Heap, InThePast, Span, Stream, Time, Wheel};
use proptest::prelude::*;

/// Both calendars, told the same.
#[derive(Default)]
struct Pair {
    wheel: Calendar<u32, Wheel<u32>>,
    heap: Calendar<u32, Heap<u32>>,
    scheduled: u32,
}

fn told(entry: Option<Entry<u32>>) -> Option<(Time, u64, u32)> {
    entry.map(|entry| (entry.time, entry.sequence, entry.event))
}

impl Pair {
    fn schedule_in(&mut self, delay: Span) {
        self.wheel.schedule_in(delay, self.scheduled);
        self.heap.schedule_in(delay, self.scheduled);
        self.scheduled += 1;
    }

    /// What happened, from both alike.
    fn pop(&mut self) -> Option<(Time, u64, u32)> {
        let (next, expected) = (told(self.wheel.pop()), told(self.heap.pop()));
        assert_eq!(next, expected);
        self.same();
        next
    }

    fn pop_until(&mut self, limit: Time) -> Option<(Time, u64, u32)> {
        let (next, expected) = (told(self.wheel.pop_until(limit)), told(self.heap.pop_until(limit)));
        assert_eq!(next, expected, "until {limit}");
        self.same();
        next
    }

    fn same(&self) {
        assert_eq!((self.wheel.now(), self.wheel.pending()), (self.heap.now(), self.heap.pending()));
    }

    fn drain(&mut self) {
        while self.pop().is_some() {}
        assert_eq!(self.wheel.pending(), 0);
    }
}

#[derive(Debug, Clone)]
enum Step {
    Schedule(u64),
    /// So many with the same delay.
    Ties(u16, u64),
    /// So many, each so much after the one before.
    Train(u16, u64),
    Pop(u16),
    /// Pops up to so much later, so many at most.
    PopUntil(u16, u64),
    /// Each that happens schedules another.
    Hold(u16, u64),
}

/// Picoseconds, all magnitudes alike, up to what is beyond the end of time.
fn delay() -> impl Strategy<Value = u64> {
    (0u32..=64, any::<u64>()).prop_map(|(bits, random)| random.checked_shr(64 - bits).unwrap_or(0))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => delay().prop_map(Step::Schedule),
        1 => (1u16..300, delay()).prop_map(|(count, delay)| Step::Ties(count, delay)),
        1 => (1u16..300, delay()).prop_map(|(count, delay)| Step::Train(count, delay)),
        3 => (1u16..20).prop_map(Step::Pop),
        2 => (1u16..20, delay()).prop_map(|(count, delay)| Step::PopUntil(count, delay)),
        2 => (1u16..600, delay()).prop_map(|(count, delay)| Step::Hold(count, delay)),
    ]
}

fn take(pair: &mut Pair, step: Step) {
    match step {
        Step::Schedule(delay) => pair.schedule_in(Span::from_ps(delay)),
        Step::Ties(count, delay) => (0..count).for_each(|_| pair.schedule_in(Span::from_ps(delay))),
        Step::Train(count, delay) => {
            (0..u64::from(count)).for_each(|car| pair.schedule_in(Span::from_ps(delay.saturating_mul(car))));
        }
        Step::Pop(count) => (0..count).for_each(|_| _ = pair.pop()),
        Step::PopUntil(count, delay) => {
            let limit = pair.wheel.now() + Span::from_ps(delay);
            (0..count).for_each(|_| _ = pair.pop_until(limit));
        }
        Step::Hold(count, delay) => {
            for turn in 0..u64::from(count) {
                if pair.pop().is_some() {
                    // About the delay, by a hash: neighbours are not in order.
                    pair.schedule_in(Span::from_ps(Stream::new(delay, turn).below(delay.max(1))));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn is_that_of_the_heap(steps in prop::collection::vec(step(), 0..120)) {
        let mut pair = Pair::default();
        steps.into_iter().for_each(|step| take(&mut pair, step));
        pair.drain();
    }
}

#[test]
fn is_that_of_the_heap_when_density_and_reach_change() {
    let mut pair = Pair::default();
    let mut stream = Stream::new(7, 0);
    let phases = [(20_000, 1_000), (200, 1_000_000_000_000), (20_000, 3), (0, 5), (3_000, 1 << 50)];
    for (pending, mean_ps) in phases {
        while pair.wheel.pending() < pending {
            pair.schedule_in(stream.exponential(Span::from_ps(mean_ps)));
        }
        for _ in 0..60_000 {
            if pair.pop().is_none() || pair.wheel.pending() < pending {
                pair.schedule_in(stream.exponential(Span::from_ps(mean_ps)));
            }
        }
    }
    pair.drain();
}

#[test]
fn ties_happen_as_they_were_scheduled() {
    let mut calendar: Calendar<u32> = Calendar::new();
    let at = Time::from_ps(5);
    (0..10_000).for_each(|event| calendar.schedule(at, event).unwrap());
    for event in 0..5_000 {
        assert_eq!(told(calendar.pop()), Some((at, u64::from(event), event)));
        calendar.schedule_in(Span::ZERO, 10_000 + event);
    }
    let rest: Vec<u32> = std::iter::from_fn(|| calendar.pop().map(|entry| entry.event)).collect();
    assert_eq!(rest, (5_000..15_000).collect::<Vec<_>>());
}

#[test]
fn past_times_are_refused_and_change_nothing() {
    let mut calendar: Calendar<u32> = Calendar::new();
    let (before, now) = (Time::from_ps(9), Time::from_ps(10));
    calendar.schedule(now, 1).unwrap();
    assert_eq!(told(calendar.pop()), Some((now, 0, 1)));
    assert_eq!(calendar.schedule(before, 2), Err(InThePast { at: before, now }));
    assert_eq!((calendar.pending(), calendar.scheduled()), (0, 1));
    calendar.schedule(now, 3).unwrap();
    assert_eq!(told(calendar.pop()), Some((now, 1, 3)));
    // Time that was waited through is over, too.
    assert_eq!(calendar.pop_until(Time::from_ps(20)), None);
    assert!(calendar.schedule(Time::from_ps(19), 4).is_err());
    assert_eq!(calendar.pop_until(now), None);
    assert_eq!(calendar.now(), Time::from_ps(20));
}

#[test]
fn the_end_of_time_is_a_time() {
    let mut pair = Pair::default();
    (0..100).for_each(|_| pair.schedule_in(Span::MAX));
    (0..100).for_each(|ps| pair.schedule_in(Span::from_ps(u64::MAX - ps)));
    (0..150).for_each(|_| _ = pair.pop());
    (0..50).for_each(|_| pair.schedule_in(Span::MAX));
    pair.drain();
    assert_eq!(pair.wheel.now(), Time::MAX);
}

#[test]
fn memory_follows_the_number_of_pending_entries() {
    let mut calendar: Calendar<u32> = Calendar::new();
    let mut stream = Stream::new(1, 0);
    let mut delay = || stream.exponential(Span::from_us(1));
    (0..100_000).for_each(|event| calendar.schedule_in(delay(), event));
    let mut hold = |calendar: &mut Calendar<u32>| {
        for _ in 0..400_000 {
            let event = calendar.pop().unwrap().event;
            calendar.schedule_in(delay(), event);
        }
    };
    hold(&mut calendar);
    assert!(calendar.bytes() < 100_000 * 64, "{} bytes", calendar.bytes());
    while calendar.pending() > 100 {
        calendar.pop();
    }
    hold(&mut calendar);
    assert!(calendar.bytes() < 100 * 256, "{} bytes", calendar.bytes());
}
