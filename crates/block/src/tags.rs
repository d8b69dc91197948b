//! Tags of a chunk: the numbers that commands have while they are in flight or their results were not fetched.

#[cfg(loom)]
use loom::sync::{
    Condvar, Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
use std::collections::BTreeSet;
use std::sync::PoisonError;
#[cfg(not(loom))]
use std::sync::{
    Condvar, Mutex,
    atomic::{AtomicU32, AtomicU64, Ordering},
};
use std::time::Duration;

/// Ends the list of free tags.
const NONE: u64 = 0xffff;
/// The most tags, for the bits that count them.
const TAGS_MAX: u16 = 0x7fff;

/// Tags from 0 up to their number. Any thread takes and frees them without a lock.
///
/// ```text
///   head   a thread waits, 1 bit | free tags, 15 bits | first free tag, 16 bits | changes, 32 bits
///   next   after each free tag the next free one
/// ```
///
/// The number of changes makes a head that was free, taken and freed again differ from what it was, so that a thread that read it in
/// between tries again.
#[derive(Debug)]
pub(crate) struct Tags {
    head: AtomicU64,
    next: Box<[AtomicU32]>,
    /// For each tag in use the queue that its command is in, plus 1; 0 if it is free.
    owners: Box<[AtomicU32]>,
    /// Tags that callers chose, with those that their commands have here.
    chosen: Mutex<BTreeSet<(i32, u32)>>,
    /// Held by a thread that is about to wait, until it sleeps.
    freed: (Mutex<()>, Condvar),
}

/// What the head says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    /// In the same word as the tags: whoever frees one sees it, without a fence.
    has_waiter: bool,
    free: u64,
    first: u64,
    changes: u64,
}

impl Head {
    fn of(word: u64) -> Self {
        Self {
            has_waiter: word >> 63 != 0,
            free: word >> 48 & 0x7fff,
            first: word >> 32 & 0xffff,
            changes: word & 0xffff_ffff,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.has_waiter) << 63 | self.free << 48 | self.first << 32 | (self.changes & 0xffff_ffff)
    }
}

impl Tags {
    /// As many free tags, at most 32,767.
    pub(crate) fn new(number: u16) -> Self {
        let number = u32::from(number.min(TAGS_MAX));
        let next = |tag| if tag + 1 == number { NONE as u32 } else { tag + 1 };
        let first = if number == 0 { NONE } else { 0 };
        Self {
            head: AtomicU64::new(Head { has_waiter: false, free: number.into(), first, changes: 0 }.word()),
            next: (0..number).map(|tag| AtomicU32::new(next(tag))).collect(),
            owners: (0..number).map(|_| AtomicU32::new(0)).collect(),
            chosen: Mutex::new(BTreeSet::new()),
            freed: (Mutex::new(()), Condvar::new()),
        }
    }

    /// How many there are, free or not.
    pub(crate) fn number(&self) -> usize {
        self.next.len()
    }

    /// How many are in use.
    pub(crate) fn in_use(&self) -> usize {
        self.number() - Head::of(self.head.load(Ordering::Acquire)).free as usize
    }

    /// Takes a free tag.
    #[inline]
    pub(crate) fn take(&self) -> Option<u32> {
        let mut word = self.head.load(Ordering::Acquire);
        loop {
            let head = Head::of(word);
            let next = self.next.get(head.first as usize)?.load(Ordering::Relaxed);
            let taken = Head { free: head.free - 1, first: next.into(), changes: head.changes + 1, ..head };
            match self.head.compare_exchange_weak(word, taken.word(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(head.first as u32),
                Err(now) => word = now,
            }
        }
    }

    /// Notes that a tag's command is in this queue.
    #[inline]
    pub(crate) fn assign(&self, tag: u32, queue: usize) {
        self.owners[tag as usize].store(queue as u32 + 1, Ordering::Release);
    }

    /// The queue that a tag's command is in; `None` if the tag is free, or does not exist.
    #[inline]
    pub(crate) fn queue_of(&self, tag: u32) -> Option<usize> {
        let owner = self.owners.get(tag as usize)?.load(Ordering::Acquire);
        (owner as usize).checked_sub(1)
    }

    /// Notes the tag that the caller chose for a command.
    #[cold]
    pub(crate) fn choose(&self, chosen: i32, tag: u32) {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).insert((chosen, tag));
    }

    /// The tag of a command for which the caller chose this one.
    pub(crate) fn of_chosen(&self, chosen: i32) -> Option<u32> {
        let tags = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        tags.range((chosen, 0)..=(chosen, u32::MAX)).next().map(|&(_, tag)| tag)
    }

    /// Frees a tag that was taken, and the one that the caller chose for the command.
    #[inline]
    pub(crate) fn free(&self, tag: u32, chosen: Option<i32>) {
        if let Some(chosen) = chosen {
            self.forget_chosen(chosen, tag);
        }
        self.owners[tag as usize].store(0, Ordering::Release);
        let mut word = self.head.load(Ordering::Acquire);
        loop {
            let head = Head::of(word);
            self.next[tag as usize].store(head.first as u32, Ordering::Relaxed);
            let (free, changes) = (head.free + 1, head.changes + 1);
            let freed = Head { has_waiter: false, free, first: tag.into(), changes };
            match self.head.compare_exchange_weak(word, freed.word(), Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if head.has_waiter => return self.wake(),
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    #[cold]
    fn forget_chosen(&self, chosen: i32, tag: u32) {
        self.chosen.lock().unwrap_or_else(PoisonError::into_inner).remove(&(chosen, tag));
    }

    /// Wakes all threads that wait. With the lock held, none is between its note and its sleep.
    #[cold]
    fn wake(&self) {
        drop(self.freed.0.lock().unwrap_or_else(PoisonError::into_inner));
        self.freed.1.notify_all();
    }

    /// Takes a free tag, or waits for one that is freed, at most for so long, and returns `None`.
    pub(crate) fn take_or_wait(&self, at_most: Duration) -> Option<u32> {
        let lock = self.freed.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(tag) = self.take() {
                return Some(tag);
            }
            let word = self.head.load(Ordering::Acquire);
            let noted = Head { has_waiter: true, ..Head::of(word) }.word();
            let exchange =
                || self.head.compare_exchange(word, noted, Ordering::AcqRel, Ordering::Acquire).is_ok();
            if Head::of(word).free == 0 && exchange() {
                break;
            }
        }
        drop(self.freed.1.wait_timeout(lock, at_most));
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_tag_is_taken_once() {
        let tags = Tags::new(3);
        let mut taken: Vec<u32> = std::iter::from_fn(|| tags.take()).collect();
        taken.sort_unstable();
        assert_eq!((taken, tags.in_use(), tags.number()), (vec![0, 1, 2], 3, 3));
        tags.assign(1, 5);
        assert_eq!((tags.queue_of(1), tags.queue_of(2), tags.queue_of(3)), (Some(5), None, None));
        tags.choose(-9, 1);
        assert_eq!((tags.of_chosen(-9), tags.of_chosen(9)), (Some(1), None));
        tags.free(1, Some(-9));
        assert_eq!((tags.queue_of(1), tags.of_chosen(-9), tags.in_use()), (None, None, 2));
        assert_eq!((tags.take(), tags.take()), (Some(1), None));
        assert_eq!(Tags::new(0).take(), None);
    }

    /// As many as there can be, by threads that take and free them all the time: none is lost, and none is had twice.
    #[test]
    fn threads_never_have_the_same_tag() {
        let tags = Tags::new(7);
        let owners: Vec<AtomicU32> = (0..7).map(|_| AtomicU32::new(0)).collect();
        std::thread::scope(|scope| {
            for thread in 1..=4 {
                let (tags, owners) = (&tags, &owners);
                scope.spawn(move || {
                    for _ in 0..20_000 {
                        let Some(tag) = tags.take() else { continue };
                        assert_eq!(owners[tag as usize].swap(thread, Ordering::Relaxed), 0);
                        assert_eq!(owners[tag as usize].swap(0, Ordering::Relaxed), thread);
                        tags.free(tag, None);
                    }
                });
            }
        });
        assert_eq!((tags.in_use(), std::iter::from_fn(|| tags.take()).count()), (0, 7));
    }
}

/// All orders in which threads can meet.
#[cfg(all(test, loom))]
mod orders {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    /// Two threads take and free tags, `rounds` times each, and none has one that the other has.
    fn check(number: u16, rounds: usize, take: fn(&Tags) -> Option<u32>) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let shared =
                Arc::new((Tags::new(number), (0..number).map(|_| AtomicU32::new(0)).collect::<Vec<_>>()));
            let work = move |shared: Arc<(Tags, Vec<AtomicU32>)>| {
                let (tags, owned) = &*shared;
                for _ in 0..rounds {
                    let Some(tag) = take(tags) else { continue };
                    assert_eq!(owned[tag as usize].fetch_add(1, Ordering::Relaxed), 0);
                    owned[tag as usize].fetch_sub(1, Ordering::Relaxed);
                    tags.free(tag, None);
                }
            };
            let other = thread::spawn({
                let shared = Arc::clone(&shared);
                move || work(shared)
            });
            work(Arc::clone(&shared));
            other.join().expect("it does not panic");
            assert_eq!(shared.0.in_use(), 0);
        });
    }

    #[test]
    fn no_tag_is_had_twice() {
        check(1, 2, Tags::take);
        check(2, 2, Tags::take);
    }

    /// A thread that waits is woken by the free of the other: loom fails where both sleep.
    #[test]
    fn a_freed_tag_wakes_who_waits() {
        check(1, 1, |tags| {
            loop {
                if let Some(tag) = tags.take_or_wait(Duration::MAX) {
                    return Some(tag);
                }
            }
        });
    }
}
