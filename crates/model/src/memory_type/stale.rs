//! Bytes that were read although a later write was there: which, since when, and why.

use super::line::Version;
use des::Time;
use serde::Serialize;

/// Who reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Party {
    /// The CPU.
    Cpu,
    /// The device, by DMA.
    Device,
}

/// A write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Write {
    /// Its number among all accesses; 0 is what memory held before the first.
    pub access: u64,
    /// Whose; nobody's before the first access.
    pub by: Option<Party>,
    /// When.
    #[serde(rename = "at_ns", serialize_with = "as_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Time,
}

impl Write {
    /// What memory held before.
    pub(super) const NONE: Self = Self { access: 0, by: None, at: Time::ZERO };
}

/// What brought old bytes to memory, over newer ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum OverwriteCause {
    /// A dirty line that had to make room.
    Eviction,
    /// A dirty line that was flushed.
    Flush,
    /// A dirty line that an uncached access of the CPU found in its own cache.
    SelfSnoop,
    /// A dirty line that a device's access snooped.
    Snoop,
    /// A write-combining buffer that was drained.
    Drain,
}

/// Why a byte is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Cause {
    /// The CPU's cache has the line from before the device wrote to memory.
    CachedBefore {
        /// The access that brought the line in.
        filled_at: u64,
    },
    /// The CPU's store is in a dirty line, and memory does not have it yet.
    NotWrittenBack,
    /// The CPU's store is in a write-combining buffer, and memory does not have it yet.
    NotDrained,
    /// The newer byte is nowhere any more: an older one was brought to memory over it.
    WrittenOver {
        /// By what.
        by: OverwriteCause,
        /// The access that made it so.
        access: u64,
    },
}

impl Cause {
    /// The cause in a few words.
    pub fn words(self) -> &'static str {
        match self {
            Self::CachedBefore { .. } => "the line was in the CPU's cache from before the device's write",
            Self::NotWrittenBack => "the CPU's store was in a dirty line that was not written back",
            Self::NotDrained => "the CPU's store was in a write-combining buffer that was not drained",
            Self::WrittenOver { by: OverwriteCause::Eviction, .. } => {
                "a dirty line was evicted over the newer byte"
            }
            Self::WrittenOver { by: OverwriteCause::Flush, .. } => {
                "a dirty line was flushed over the newer byte"
            }
            Self::WrittenOver { by: OverwriteCause::SelfSnoop, .. } => {
                "a dirty line was written over the newer byte before an uncached access"
            }
            Self::WrittenOver { by: OverwriteCause::Snoop, .. } => {
                "a snooped dirty line was written over the newer byte"
            }
            Self::WrittenOver { by: OverwriteCause::Drain, .. } => {
                "a write-combining buffer was drained over the newer byte"
            }
        }
    }
}

/// Neighbouring bytes that one access read stale, for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Stale {
    /// The first.
    pub address: u64,
    /// How many.
    pub bytes: u64,
    /// Who read them.
    pub reader: Party,
    /// The access that read them.
    pub access: u64,
    /// When.
    #[serde(rename = "read_at_ns", serialize_with = "as_ns")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub at: Time,
    /// The write that was read.
    pub seen: Write,
    /// The first write that was not: the bytes are stale since then.
    pub missed: Write,
    /// Why.
    pub cause: Cause,
}

impl Stale {
    /// How long they had been stale, in ns.
    pub fn age_ns(&self) -> f64 {
        self.at.since(self.missed.at).map_or(0.0, |age| age.as_ns_f64())
    }

    /// Whether `next` follows directly and has the same writes and cause.
    pub(super) fn is_extended_by(&self, next: &Self) -> bool {
        self.address.wrapping_add(self.bytes) == next.address
            && (self.seen, self.missed, self.cause) == (next.seen, next.missed, next.cause)
    }
}

/// A byte of memory that was overwritten by older data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loss {
    /// Its index in the line.
    pub(super) byte: usize,
    /// The version that was lost.
    pub(super) version: Version,
    pub(super) by: OverwriteCause,
    pub(super) access: u64,
}

fn as_ns<S: serde::Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_ps() as f64 / 1e3)
}
