//! The allocators that a benchmark compares.

use crate::peer::Peer;
use iova::{
    Allocator, Audited, BitTree, Bitmap, Checked, Cpus, Depot, Direct, FreeCheck, GapTree, Magazines, Percpu,
    Pools, Rbtree, Sharded, Space, Trusting, host_cpus, host_percpu,
};
use std::sync::{Arc, LazyLock};

/// Constructor of an allocator for a space. The error says why it does not support the space.
pub type Make = fn(&Space) -> Result<Box<dyn Allocator + Send + Sync>, String>;

/// The allocators of `iova`: name, description, constructor.
const BUILT_IN: &[(&str, &str, Make)] = &[
    (DIRECT, "direct mapping: allocates nothing, so it shows the cost of the loop and the calls", |_| {
        Ok(Box::new(Direct::new(0)))
    }),
    (
        "percpu",
        "this project's: per-CPU stacks of free ranges, without atomic instructions (with locks if there is no rseq)",
        host::<Trusting>,
    ),
    ("percpu-audited", "the same; wrong frees may be found when free ranges leave a CPU", host::<Audited>),
    ("percpu-checked", "the same; wrong frees are found at once", host::<Checked>),
    ("percpu-locks", "percpu with locks, as on systems without restartable sequences", |space| {
        boxed(Percpu::trusting(space, PAGE_4GIB, Sharded::by_thread()))
    }),
    (MAGAZINE, "Linux 6.12: red-black tree, per-CPU magazines, unlimited depot", |space| {
        boxed(Magazines::new(space, PAGE_4GIB - 1, cpu_count(), current_cpu, Depot::Unbounded))
    }),
    ("magazine-6.1", "Linux 6.1: the same with a depot of 32 magazines", |space| {
        boxed(Magazines::new(space, PAGE_4GIB - 1, cpu_count(), current_cpu, Depot::Bounded))
    }),
    ("pool", "powerpc since Linux 3.6: a bitmap in pools, one lock per pool", |space| {
        boxed(Pools::new(space, GRANULE_BYTES, current_cpu))
    }),
    ("bitmap", "powerpc before Linux 3.6: one bitmap, one lock", |space| boxed(Bitmap::new(space))),
    ("rbtree", "Linux before 4.7: red-black tree, one lock, searches from the last found range", |space| {
        boxed(Rbtree::new(space, PAGE_4GIB - 1))
    }),
    ("gap-tree", "a tree of free ranges with the largest range below each node, one lock", |space| {
        boxed(GapTree::new(space))
    }),
    ("bit-tree", "a bitmap as a tree of words with 64 children per node, one lock", |space| {
        boxed(BitTree::new(space))
    }),
];

/// The page size that all IOMMUs support.
const GRANULE_BYTES: u64 = 4096;
/// The first page above 4 GiB.
const PAGE_4GIB: u64 = (4 << 30) / GRANULE_BYTES;

/// The per-CPU allocator as this host supports it.
fn host<F: FreeCheck + 'static>(space: &Space) -> Result<Box<dyn Allocator + Send + Sync>, String> {
    match host_percpu::<F>(space, PAGE_4GIB) {
        Ok(allocator) => Ok(allocator),
        Err(why) => Err(why.to_string()),
    }
}

/// Boxes an allocator and turns its error into text.
fn boxed<A: Allocator + Send + Sync + 'static, E: ToString>(
    allocator: Result<A, E>,
) -> Result<Box<dyn Allocator + Send + Sync>, String> {
    allocator.map(|allocator| Box::new(allocator) as Box<_>).map_err(|why| why.to_string())
}

/// The host's CPUs, for allocators that need the current CPU.
static HOST: LazyLock<Box<dyn Cpus + Send>> = LazyLock::new(host_cpus);

/// The number of the host's CPUs.
fn cpu_count() -> u32 {
    HOST.count() as u32
}

/// The CPU that the calling thread runs on.
pub(crate) fn current_cpu() -> u32 {
    HOST.current() as u32
}

/// The allocator that allocates nothing, which shows the cost of the loop and the calls.
pub(crate) const DIRECT: &str = "direct";
/// The usual name of a peer with Linux's own allocator.
const LINUX: &str = "linux";
/// The allocator modelled on Linux's.
const MAGAZINE: &str = "magazine";

/// An allocator that is measured.
#[derive(Debug, Clone)]
pub struct Contestant {
    /// Its name.
    pub name: String,
    /// Its one-line description.
    pub what: String,
    origin: Origin,
}

#[derive(Debug, Clone)]
enum Origin {
    Made(Make),
    Peer(Arc<Peer>),
}

/// The name of an unknown contestant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown contestant {name:?}; expected one of {known} (--peer NAME=LIB.so adds others)")]
pub struct UnknownContestant {
    name: String,
    known: String,
}

/// The allocators of `iova`.
pub fn built_in_contestants() -> Vec<Contestant> {
    BUILT_IN.iter().map(|(name, what, make)| Contestant::new(name, what, *make)).collect()
}

/// The contestants with these names, in the order of the names; all if there are no names.
///
/// # Errors
/// If no contestant has one of the names.
pub fn select(all: &[Contestant], names: &[String]) -> Result<Vec<Contestant>, UnknownContestant> {
    if names.is_empty() {
        return Ok(all.to_vec());
    }
    names.iter().map(|name| find(all, name).cloned()).collect()
}

/// The contestant of a name.
fn find<'c>(all: &'c [Contestant], name: &str) -> Result<&'c Contestant, UnknownContestant> {
    all.iter().find(|known| known.name == name).ok_or_else(|| UnknownContestant {
        name: name.to_owned(),
        known: all.iter().map(|known| known.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

/// The name of the contestant that the others are compared with: the requested one; else Linux's own, else the one modelled
/// on it, else the first.
pub(crate) fn baseline(all: &[Contestant], requested: Option<&str>) -> Result<String, UnknownContestant> {
    if let Some(requested) = requested {
        return find(all, requested).map(|known| known.name.clone());
    }
    let usual = [LINUX, MAGAZINE].iter().find_map(|name| find(all, name).ok());
    Ok(usual.or(all.first()).map(|known| known.name.clone()).unwrap_or_default())
}

impl Contestant {
    /// A contestant with the caller's constructor.
    pub fn new(name: &str, what: &str, make: Make) -> Self {
        Self { name: name.to_owned(), what: what.to_owned(), origin: Origin::Made(make) }
    }

    /// A contestant with a peer's allocator, under the user's name for it.
    pub fn peer(name: &str, peer: &Arc<Peer>) -> Self {
        let what = peer.description().unwrap_or("a peer without a description").to_owned();
        Self { name: name.to_owned(), what, origin: Origin::Peer(Arc::clone(peer)) }
    }

    /// Creates an allocator for a space.
    ///
    /// # Errors
    /// Why it does not support the space.
    pub fn allocator(&self, space: &Space) -> Result<Box<dyn Allocator + Send + Sync>, String> {
        match &self.origin {
            Origin::Made(make) => make(space),
            Origin::Peer(peer) => match peer.allocator(space) {
                Some(allocator) => Ok(Box::new(allocator)),
                None => Err(format!(
                    "the peer does not support a space of pages {:#x} to {:#x}",
                    space.first, space.last
                )),
            },
        }
    }

    /// Whether it reports its memory use.
    pub(crate) fn reports_memory(&self) -> bool {
        match &self.origin {
            Origin::Made(_) => true,
            Origin::Peer(peer) => peer.reports_memory(),
        }
    }

    /// Whether it reports the pages in its caches.
    pub(crate) fn reports_caches(&self) -> bool {
        matches!(self.origin, Origin::Made(_))
    }
}
