//! Scenarios: the patterns of allocations and frees that threads execute.

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

/// A pattern of allocations and frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// Allocates a page and frees it.
    Pairs,
    /// Holds ranges: frees the oldest, allocates a new one.
    Held,
    /// Half of the threads allocate, and pass the ranges to the others, which free them.
    Handoff,
    /// Holds ranges with a network adapter's sizes.
    Network,
    /// Holds ranges with a disk controller's sizes.
    Storage,
    /// A nearly full, fragmented window.
    Full,
    /// A nearly full, fragmented window, with ranges too large for per-CPU caches.
    FullLarge,
    /// Allocates many ranges, then frees them all.
    Bursts,
    /// Like `handoff`, with a number of ranges in flight that grows and shrinks.
    Drift,
}

/// The name of an unknown scenario.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scenario {name:?}; expected one of {}", Scenario::names())]
pub struct UnknownScenario {
    name: String,
}

impl Scenario {
    /// All scenarios.
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

    /// Name on the command line and in documents.
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

    /// All names, separated by commas.
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

    /// Whether the space is nearly full.
    pub(crate) fn is_full(self) -> bool {
        matches!(self, Self::Full | Self::FullLarge)
    }

    /// Whether half of the threads allocate and the others free.
    pub(crate) fn hands_over(self) -> bool {
        matches!(self, Self::Handoff | Self::Drift)
    }

    /// Number of rounds; at least one period for a scenario that grows and shrinks.
    pub(crate) fn rounds(self, requested: usize) -> usize {
        if self == Self::Drift { requested.max(handoff::CYCLE_ROUNDS as usize) } else { requested }
    }

    /// A sentence that describes it.
    pub(crate) fn describe(self, setup: &Setup) -> String {
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
                "as handoff, with mixed sizes, while the ranges in flight of each two threads grow from {} to {} and shrink \
                 again within {} rounds",
                handoff::IN_FLIGHT_MIN,
                handoff::in_flight_max(setup),
                handoff::CYCLE_ROUNDS
            ),
        }
    }

    /// The worker of each thread; `None` if the scenario needs an even number of threads and this is odd.
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
            Self::Handoff => Some(handoff::workers(setup, handoff::InFlight::Constant)),
            Self::Drift => Some(handoff::workers(setup, handoff::InFlight::Drifting)),
        }
    }
}

/// A share as a percentage.
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

/// Parameters of a scenario.
pub(crate) struct Setup {
    pub(crate) threads: usize,
    pub(crate) space: Space,
    /// Ranges that a thread should hold.
    pub(crate) held_max: u64,
    /// Pages that a burst should have.
    pub(crate) burst_max: u64,
    pub(crate) seed: u64,
}

/// Largest share of the space in use, except in the full scenarios.
const USED_MAX_INVERSE: u64 = 4;

impl Setup {
    /// Ranges that each thread holds: reduced if all threads together would use too much of the space.
    pub(crate) fn held(&self, sizes: Sizes) -> u64 {
        self.held_max.min(self.thread_pages() / sizes.mean_pages()).max(1)
    }

    /// Pages of a burst: reduced if those of all threads would use too much of the space.
    fn burst(&self) -> u64 {
        self.burst_max.min(self.thread_pages()).max(1)
    }

    /// Most pages that a thread holds.
    fn thread_pages(&self) -> u64 {
        self.space.pages() / USED_MAX_INVERSE / self.threads as u64
    }

    /// The page number of the memory that a thread maps, which the allocator `direct` returns.
    fn memory(&self, thread: usize) -> u64 {
        self.space.first.next_multiple_of(MEMORY_PAGES) + thread as u64 % MEMORY_THREADS * MEMORY_PAGES
    }

    /// The highest page that requests allow.
    fn limit(&self) -> u64 {
        self.space.last
    }
}

/// Pages of a thread's memory: those of the largest request.
const MEMORY_PAGES: u64 = 512;
/// Threads with memory of their own: as many as fit into the smallest space.
const MEMORY_THREADS: u64 = 64;

/// One thread's part of a scenario. It keeps its ranges from round to round.
pub(crate) trait Worker: Send {
    /// Prepares the allocator's state before the first round. Not timed.
    fn fill(&mut self, _caller: &mut Caller<'_>) {}

    /// The timed part: about `pairs` allocations and frees.
    fn work(&mut self, caller: Caller<'_>, pairs: u64) -> Counts;
}
