//! What each thread does.

mod bursts;
mod full;
mod handoff;
mod pairs;
mod ring;

use crate::caller::{Caller, Counts};
use crate::sizes::Sizes;
use iova::Space;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// What threads do with an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// Allocate a page, free it.
    Pairs,
    /// Ranges are held: free the oldest, allocate the newest.
    Held,
    /// Half of the threads allocate, the others free.
    Handoff,
    /// A network adapter's sizes, held.
    Network,
    /// A disk controller's sizes, held.
    Storage,
    /// A window of which hardly anything is free, in crumbs.
    Full,
    /// The same with ranges larger than caches take.
    FullLarge,
    /// Allocate many, then free them all.
    Bursts,
    /// As `handoff`, while the ranges in flight grow and shrink.
    Drift,
}

/// A scenario that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no scenario {name:?}; there are {}", Scenario::names())]
pub struct UnknownScenario {
    name: String,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Pairs,
        Self::Held,
        Self::Handoff,
        Self::Network,
        Self::Storage,
        Self::Full,
        Self::FullLarge,
        Self::Bursts,
        Self::Drift,
    ];

    /// Its name on the command line and in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pairs => "pairs",
            Self::Held => "held",
            Self::Handoff => "handoff",
            Self::Network => "network",
            Self::Storage => "storage",
            Self::Full => "full",
            Self::FullLarge => "full-large",
            Self::Bursts => "bursts",
            Self::Drift => "drift",
        }
    }

    fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// Sizes of its requests.
    pub fn sizes(self) -> Sizes {
        match self {
            Self::Network => Sizes::Network,
            Self::Storage | Self::Drift => Sizes::Storage,
            Self::Pairs | Self::Held | Self::Handoff | Self::Full | Self::FullLarge | Self::Bursts => {
                Sizes::One
            }
        }
    }

    /// Whether it is played in a window that is nearly full.
    pub(crate) fn is_full(self) -> bool {
        matches!(self, Self::Full | Self::FullLarge)
    }

    /// Whether half of the threads allocate and the others free.
    pub(crate) fn hands_over(self) -> bool {
        matches!(self, Self::Handoff | Self::Drift)
    }

    /// How many rounds it takes: where something goes up and down, once at least.
    pub(crate) fn rounds(self, asked: usize) -> usize {
        if self == Self::Drift { asked.max(handoff::CYCLE_ROUNDS as usize) } else { asked }
    }

    /// What is done, in a sentence.
    pub(crate) fn what(self, setup: &Setup) -> String {
        let held = setup.held(self.sizes());
        match self {
            Self::Pairs => "allocate a page, free it".to_owned(),
            Self::Held | Self::Network | Self::Storage => {
                format!("each thread holds {held} ranges: it frees the oldest and allocates another")
            }
            Self::Handoff => format!(
                "half of the threads allocate, each for another that frees; batches of {} through a queue of {}",
                handoff::BATCH,
                handoff::CAPACITY
            ),
            Self::Full => format!(
                "{} of a window of {} pages in use, in ranges of 1 and {} pages: free up to {} of the single pages at \
                 random, allocate as many",
                percent(full::IN_USE),
                setup.space.pages(),
                full::LONG_PAGES,
                full::BATCH_MAX
            ),
            Self::FullLarge => format!(
                "{} of a window of {} pages in use, half in single pages that stay, half in ranges of {} pages: free up to {} \
                 of those at random, allocate as many",
                percent(full::IN_USE),
                setup.space.pages(),
                full::LARGE_PAGES,
                full::LARGE_BATCH_MAX
            ),
            Self::Bursts => {
                format!("allocate {} pages one by one, free them all", setup.burst())
            }
            Self::Drift => format!(
                "as handoff, mixed sizes, while the ranges in flight of each two threads go from {} to {} and back within \
                 {} rounds",
                handoff::IN_FLIGHT_MIN,
                handoff::in_flight_max(setup),
                handoff::CYCLE_ROUNDS
            ),
        }
    }

    /// Every thread's part, its random choices made; `None` if it takes an even number of
    /// threads, and this is none.
    pub(crate) fn workers(self, setup: &Setup) -> Option<Vec<Box<dyn Worker>>> {
        let each = |make: &dyn Fn(usize) -> Box<dyn Worker>| Some((0..setup.threads).map(make).collect());
        match self {
            Self::Pairs => each(&|thread| Box::new(pairs::Pairs::new(setup, thread))),
            Self::Held | Self::Network | Self::Storage => {
                each(&|thread| Box::new(ring::Ring::new(setup, self.sizes(), thread)))
            }
            Self::Full => each(&|thread| Box::new(full::Full::singles(setup, thread))),
            Self::FullLarge => each(&|thread| Box::new(full::Full::large(setup, thread))),
            Self::Bursts => each(&|thread| Box::new(bursts::Bursts::new(setup, thread))),
            Self::Handoff | Self::Drift if !setup.threads.is_multiple_of(2) => None,
            Self::Handoff => Some(handoff::workers(setup, handoff::Flight::Level)),
            Self::Drift => Some(handoff::workers(setup, handoff::Flight::Waves)),
        }
    }
}

fn percent(share: f64) -> String {
    format!("{} %", share * 100.0)
}

impl fmt::Display for Scenario {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Scenario {
    type Err = UnknownScenario;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|known| known.name() == name);
        known.ok_or_else(|| UnknownScenario { name: name.to_owned() })
    }
}

/// What a scenario is played with.
pub(crate) struct Setup {
    pub(crate) threads: usize,
    pub(crate) space: Space,
    /// Ranges that a thread is asked to hold.
    pub(crate) held_max: u64,
    /// Pages that a burst is asked to have.
    pub(crate) burst_max: u64,
    pub(crate) seed: u64,
}

/// Of the space this much is in use at most (but where it is to be full): there is always room.
const USED_MAX_INVERSE: u64 = 4;

impl Setup {
    /// Ranges that each thread holds: fewer than asked where all threads together would take too much of the space.
    pub(crate) fn held(&self, sizes: Sizes) -> u64 {
        self.held_max.min(self.thread_pages() / sizes.mean_pages()).max(1)
    }

    /// Pages of a burst: fewer than asked where all threads' would take too much of the space.
    fn burst(&self) -> u64 {
        self.burst_max.min(self.thread_pages()).max(1)
    }

    /// Pages that a thread has out at most.
    fn thread_pages(&self) -> u64 {
        self.space.pages() / USED_MAX_INVERSE / self.threads as u64
    }

    /// Memory that a thread maps, in the space where it is mapped directly.
    fn memory(&self, thread: usize) -> u64 {
        self.space.first.next_multiple_of(MEMORY_PAGES) + thread as u64 % MEMORY_THREADS * MEMORY_PAGES
    }

    fn limit(&self) -> u64 {
        self.space.last
    }
}

/// The largest request.
const MEMORY_PAGES: u64 = 512;
/// Threads with memory of their own: so many that the smallest space has room for it.
const MEMORY_THREADS: u64 = 64;

/// One thread's part of a scenario. What it holds stays with it from round to round.
pub(crate) trait Worker: Send {
    /// Brings the allocator into the state that rounds begin with. Not timed.
    fn fill(&mut self, _caller: &mut Caller<'_>) {}

    /// Allocates and frees about `pairs` times. Timed.
    fn work(&mut self, caller: Caller<'_>, pairs: u64) -> Counts;
}
