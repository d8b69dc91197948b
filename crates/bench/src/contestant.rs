//! Who takes part.

use crate::peer::Peer;
use iova::{
    Allocator, BitTree, Bitmap, Cpus, Depot, Direct, GapTree, Host, Magazines, Percpu, Pools, Rbtree, Space,
};
use std::sync::{Arc, LazyLock};

/// Makes an allocator of a space; if it can't have that space, why.
pub type Make = fn(&Space) -> Result<Box<dyn Allocator>, String>;

/// The allocators of `iova`: name, what it is, constructor.
const OURS: &[(&str, &str, Make)] = &[
    (DIRECT, "direct mapping: nothing to allocate, what the loop and the call cost", |_| {
        Ok(Box::new(Direct::new(0)))
    }),
    (
        "percpu",
        "ours: stacks of free ranges by CPU, steps without atomic instructions (locks where there are none)",
        percpu,
    ),
    ("percpu-locks", "the same by locks, as where there are no restartable sequences", |space| {
        made(Percpu::new(space, PAGE_4GIB, Host::sharded()))
    }),
    (MAGAZINE, "Linux 6.12: red-black tree, per-CPU magazines, unlimited depot", |space| {
        made(Magazines::new(space, PAGE_4GIB - 1, cpus(), cpu, Depot::Unbounded))
    }),
    ("magazine-6.1", "Linux 6.1: the same with a depot of 32 magazines", |space| {
        made(Magazines::new(space, PAGE_4GIB - 1, cpus(), cpu, Depot::Bounded))
    }),
    ("pool", "powerpc since Linux 3.6: bitmap in pools, a lock for each", |space| {
        made(Pools::new(space, GRANULE_BYTES, cpu))
    }),
    ("bitmap", "powerpc before: one bitmap, one lock", |space| made(Bitmap::new(space))),
    ("rbtree", "Linux before 4.7: red-black tree, one lock, search from the last found", |space| {
        made(Rbtree::new(space, PAGE_4GIB - 1))
    }),
    ("gap-tree", "a tree of free ranges that knows the largest below each node, one lock", |space| {
        made(GapTree::new(space))
    }),
    ("bit-tree", "a tree of words, 64 ways at each level, one lock", |space| made(BitTree::new(space))),
];

/// Pages are of the size that IOMMUs have in common.
const GRANULE_BYTES: u64 = 4096;
/// The first page above 4 GiB.
const PAGE_4GIB: u64 = (4 << 30) / GRANULE_BYTES;

/// Without a look at what the machine has in each call.
fn percpu(space: &Space) -> Result<Box<dyn Allocator>, String> {
    match Host::new() {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        Host::Rseq(cpus) => made(Percpu::new(space, PAGE_4GIB, cpus)),
        Host::Sharded(cpus) => made(Percpu::new(space, PAGE_4GIB, cpus)),
    }
}

fn made<A: Allocator + 'static, E: ToString>(allocator: Result<A, E>) -> Result<Box<dyn Allocator>, String> {
    allocator.map(|allocator| Box::new(allocator) as Box<dyn Allocator>).map_err(|why| why.to_string())
}

/// The machine's CPUs, for allocators that want to know which a thread is on.
static HOST: LazyLock<Host> = LazyLock::new(Host::new);

fn cpus() -> u32 {
    HOST.count() as u32
}

fn cpu() -> u32 {
    HOST.current() as u32
}

/// The one with nothing to allocate, which shows what everything around an allocator costs.
pub(crate) const DIRECT: &str = "direct";
/// The name under which Linux's own joins.
const LINUX: &str = "linux";
/// What Linux's is built like.
const MAGAZINE: &str = "magazine";

/// An allocator that takes part.
#[derive(Debug, Clone)]
pub struct Contestant {
    /// Its name.
    pub name: String,
    /// What it is.
    pub what: String,
    origin: Origin,
}

#[derive(Debug, Clone)]
enum Origin {
    Made(Make),
    Peer(Arc<Peer>),
}

/// A name that no contestant has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no contestant {name:?}; there are {known} (others join by --peer NAME=LIB.so)")]
pub struct UnknownContestant {
    name: String,
    known: String,
}

/// All contestants of `iova`.
pub fn ours() -> Vec<Contestant> {
    OURS.iter().map(|(name, what, make)| Contestant::new(name, what, *make)).collect()
}

/// Those of the contestants that have these names, in the order of the names; all if there are no names.
///
/// # Errors
/// If no contestant has one of the names.
pub fn select(all: &[Contestant], names: &[String]) -> Result<Vec<Contestant>, UnknownContestant> {
    if names.is_empty() {
        return Ok(all.to_vec());
    }
    names.iter().map(|name| find(all, name).cloned()).collect()
}

fn find<'c>(all: &'c [Contestant], name: &str) -> Result<&'c Contestant, UnknownContestant> {
    all.iter().find(|known| known.name == name).ok_or_else(|| UnknownContestant {
        name: name.to_owned(),
        known: all.iter().map(|known| known.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

/// Whom the others are measured against: the one asked for; else Linux's own, else the one built like it, else the first.
pub(crate) fn baseline(all: &[Contestant], asked: Option<&str>) -> Result<String, UnknownContestant> {
    if let Some(asked) = asked {
        return find(all, asked).map(|known| known.name.clone());
    }
    let usual = [LINUX, MAGAZINE].iter().find_map(|name| find(all, name).ok());
    Ok(usual.or(all.first()).map(|known| known.name.clone()).unwrap_or_default())
}

impl Contestant {
    /// An allocator of the caller's.
    pub fn new(name: &str, what: &str, make: Make) -> Self {
        Self { name: name.to_owned(), what: what.to_owned(), origin: Origin::Made(make) }
    }

    /// A peer under a name of the user's choice.
    pub fn peer(name: &str, peer: &Arc<Peer>) -> Self {
        let what = peer.description().unwrap_or("a peer that does not say what it is").to_owned();
        Self { name: name.to_owned(), what, origin: Origin::Peer(Arc::clone(peer)) }
    }

    /// An allocator of a space, or why it has none.
    ///
    /// # Errors
    /// If it can't have such a space.
    pub fn allocator(&self, space: &Space) -> Result<Box<dyn Allocator>, String> {
        match &self.origin {
            Origin::Made(make) => make(space),
            Origin::Peer(peer) => match peer.allocator(space) {
                Some(allocator) => Ok(Box::new(allocator)),
                None => Err(format!(
                    "the peer makes no allocator of pages {:#x} to {:#x}",
                    space.first, space.last
                )),
            },
        }
    }

    /// Whether its memory is known.
    pub(crate) fn tells_memory(&self) -> bool {
        match &self.origin {
            Origin::Made(_) => true,
            Origin::Peer(peer) => peer.tells_memory(),
        }
    }

    /// Whether it is known what it keeps in caches.
    pub(crate) fn tells_caches(&self) -> bool {
        matches!(self.origin, Origin::Made(_))
    }
}
