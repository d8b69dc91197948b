//! Checks a driver's use of the DMA API: what is mapped, and who owns it. The counterpart of the kernel's dma-debug
//! (`kernel/dma/debug.c`).

use crate::{Access, BusAddress, Direction, Element, MemoryAddress};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Kind of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A single buffer.
    Single,
    /// Part of a scatter list.
    List,
    /// Coherent memory, which both sides own.
    Coherent,
}

/// A violation of the DMA API. The call that violated it did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Misuse {
    /// Nothing is mapped at the address.
    #[error("this adapter has no mapping at {at}")]
    NotMapped {
        /// The address passed to unmap or sync.
        at: BusAddress,
    },
    /// The size differs from the mapping's.
    #[error("the mapping at {at} has {mapped_bytes:#x} bytes, but the call says {bytes:#x}")]
    OtherSize {
        /// Address of the mapping.
        at: BusAddress,
        /// Size in the call.
        bytes: u64,
        /// Size of the mapping.
        mapped_bytes: u64,
    },
    /// The direction differs from the mapping's.
    #[error("the mapping at {at} is {mapped}, but the call says {named}")]
    OtherDirection {
        /// Address of the mapping.
        at: BusAddress,
        /// Direction in the call.
        named: Direction,
        /// Direction of the mapping.
        mapped: Direction,
    },
    /// The kind differs from the mapping's.
    #[error("{at} is mapped {mapped}, but the call says {named}")]
    OtherKind {
        /// Address of the mapping.
        at: BusAddress,
        /// Kind in the call.
        named: Kind,
        /// Kind of the mapping.
        mapped: Kind,
    },
    /// A sync reaches beyond the mapping.
    #[error(
        "{bytes:#x} bytes at offset {offset:#x} reach beyond the mapping at {at}, which has {mapped_bytes:#x} bytes"
    )]
    SyncOutside {
        /// Address of the mapping.
        at: BusAddress,
        /// Offset in the call.
        offset: u64,
        /// Size in the call.
        bytes: u64,
        /// Size of the mapping.
        mapped_bytes: u64,
    },
    /// The CPU accesses memory that the adapter owns.
    #[error("the CPU may not {access} {memory}: it is mapped {direction} at {at}, and the adapter owns it")]
    DeviceOwns {
        /// The memory accessed.
        memory: MemoryAddress,
        /// The CPU's access.
        access: Access,
        /// Address of the mapping.
        at: BusAddress,
        /// Direction of the mapping.
        direction: Direction,
    },
    /// Mappings remain although none should.
    #[error(
        "mappings that were not unmapped: {mappings}, the first at {first} of {bytes:#x} bytes {direction}"
    )]
    Leaked {
        /// How many.
        mappings: usize,
        /// Lowest address of them.
        first: BusAddress,
        /// Size of that mapping.
        bytes: u64,
        /// Direction of that mapping.
        direction: Direction,
    },
}

/// A mapping.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// The memory mapped. Elements of a list that were merged are contiguous only on the bus.
    pub(crate) pieces: Vec<Element>,
    pub(crate) bytes: u64,
    pub(crate) direction: Direction,
    pub(crate) kind: Kind,
    pub(crate) owner: Owner,
}

/// Who may access a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The CPU, since the last `sync_for_cpu`.
    Cpu,
    /// The adapter.
    Device,
}

/// A part of a mapping, as a sync call passes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Address of the mapping.
    pub(crate) at: BusAddress,
    /// Offset within.
    pub(crate) offset: u64,
    /// Size.
    pub(crate) bytes: u64,
}

/// The arguments of a call that unmaps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) at: BusAddress,
    pub(crate) bytes: u64,
    pub(crate) direction: Direction,
    pub(crate) kind: Kind,
}

/// All mappings of an adapter. Without translation, memory that is mapped twice has one bus address.
#[derive(Debug, Default)]
pub(crate) struct DebugEntries {
    entries: Mutex<BTreeMap<BusAddress, Vec<Entry>>>,
}

impl DebugEntries {
    /// Records a mapping.
    pub(crate) fn add(&self, at: BusAddress, entry: Entry) {
        self.entries().entry(at).or_default().push(entry);
    }

    /// Checks that there is such a mapping.
    pub(crate) fn check(&self, named: Named) -> Result<(), Misuse> {
        let entries = self.entries();
        let mapped = entries.get(&named.at).into_iter().flatten();
        let verdicts = mapped.map(|entry| entry.check_matches(named));
        verdicts.reduce(Result::or).unwrap_or(Err(Misuse::NotMapped { at: named.at }))
    }

    /// Removes a mapping that was checked.
    pub(crate) fn remove(&self, named: Named) {
        let mut entries = self.entries();
        let Some(mapped) = entries.get_mut(&named.at) else { return };
        if let Some(place) = mapped.iter().position(|entry| entry.check_matches(named).is_ok()) {
            mapped.swap_remove(place);
        }
        if mapped.is_empty() {
            entries.remove(&named.at);
        }
    }

    /// Passes ownership of a part of a mapping to the CPU or to the adapter.
    pub(crate) fn transfer_ownership(
        &self,
        part: Part,
        direction: Direction,
        to: Owner,
    ) -> Result<(), Misuse> {
        let Part { at, offset, bytes } = part;
        let mut entries = self.entries();
        let mapped = entries.get_mut(&at).ok_or(Misuse::NotMapped { at })?;
        let same = mapped.iter().position(|entry| entry.direction == direction).unwrap_or(0);
        let entry = &mut mapped[same];
        entry.check_direction(at, direction)?;
        if offset.checked_add(bytes).is_none_or(|end| end > entry.bytes) {
            return Err(Misuse::SyncOutside { at, offset, bytes, mapped_bytes: entry.bytes });
        }
        entry.owner = to;
        Ok(())
    }

    /// Checks that the CPU may access memory. It may read what the adapter may only read.
    pub(crate) fn check_cpu_access(
        &self,
        memory: MemoryAddress,
        bytes: u64,
        access: Access,
    ) -> Result<(), Misuse> {
        let end = memory.0.saturating_add(bytes);
        let forbidden = |entry: &&Entry| {
            let overlaps = entry
                .pieces
                .iter()
                .any(|piece| piece.memory.0 < end && memory.0 < piece.memory.0.saturating_add(piece.bytes));
            let harmless = entry.direction == Direction::ToDevice && !access.writes();
            overlaps && entry.owner == Owner::Device && entry.kind != Kind::Coherent && !harmless
        };
        let entries = self.entries();
        let mut all = entries.iter().flat_map(|(at, mapped)| mapped.iter().map(move |entry| (at, entry)));
        match all.find(|(_, entry)| forbidden(entry)) {
            None => Ok(()),
            Some((at, entry)) => {
                Err(Misuse::DeviceOwns { memory, access, at: *at, direction: entry.direction })
            }
        }
    }

    /// Checks that nothing is mapped.
    pub(crate) fn check_empty(&self) -> Result<(), Misuse> {
        let entries = self.entries();
        let first = entries.first_key_value().and_then(|(at, mapped)| Some((*at, mapped.first()?)));
        match first {
            None => Ok(()),
            Some((first, Entry { bytes, direction, .. })) => Err(Misuse::Leaked {
                mappings: entries.values().map(Vec::len).sum(),
                first,
                bytes: *bytes,
                direction: *direction,
            }),
        }
    }

    /// All mappings by bus address, locked.
    fn entries(&self) -> MutexGuard<'_, BTreeMap<BusAddress, Vec<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Checks that a call names the kind, size and direction of the mapping.
    fn check_matches(&self, named: Named) -> Result<(), Misuse> {
        let Named { at, bytes, direction, kind } = named;
        if self.kind != kind {
            return Err(Misuse::OtherKind { at, named: kind, mapped: self.kind });
        }
        if self.bytes != bytes {
            return Err(Misuse::OtherSize { at, bytes, mapped_bytes: self.bytes });
        }
        self.check_direction(at, direction)
    }

    /// Checks that a call names the direction of the mapping.
    fn check_direction(&self, at: BusAddress, named: Direction) -> Result<(), Misuse> {
        match self.direction == named {
            true => Ok(()),
            false => Err(Misuse::OtherDirection { at, named, mapped: self.direction }),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Single => "by itself",
            Self::List => "in a scatter list",
            Self::Coherent => "as coherent memory",
        })
    }
}
