//! What a driver has mapped, and who may touch it: what the kernel's dma-debug looks after (`kernel/dma/debug.c`).

use crate::{Access, BusAddress, Direction, Element, MemoryAddress};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How memory was mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By itself.
    Single,
    /// As part of a scatter list.
    List,
    /// As coherent memory, which nobody owns.
    Coherent,
}

/// A rule of the DMA API that was broken. The call that broke it did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misuse {
    /// Nothing is mapped there.
    #[error("nothing of this adapter is mapped at {at}")]
    NotMapped {
        /// Where something was to be unmapped or handed over.
        at: BusAddress,
    },
    /// It is mapped with another size.
    #[error("{at} is mapped with {mapped_bytes:#x} bytes, not {bytes:#x}")]
    OtherSize {
        /// Where.
        at: BusAddress,
        /// The size that was named.
        bytes: u64,
        /// The size that it is mapped with.
        mapped_bytes: u64,
    },
    /// It is mapped in another direction.
    #[error("{at} is mapped {mapped}, not {named}")]
    OtherDirection {
        /// Where.
        at: BusAddress,
        /// The direction that was named.
        named: Direction,
        /// The direction that it is mapped in.
        mapped: Direction,
    },
    /// It is mapped in another way.
    #[error("{at} is mapped {mapped}, not {named}")]
    OtherKind {
        /// Where.
        at: BusAddress,
        /// The way that was named.
        named: Kind,
        /// The way that it is mapped in.
        mapped: Kind,
    },
    /// More is handed over than is mapped.
    #[error(
        "{bytes:#x} bytes from offset {offset:#x} are not within the {mapped_bytes:#x} that are mapped at {at}"
    )]
    SyncOutside {
        /// Where.
        at: BusAddress,
        /// From where in it.
        offset: u64,
        /// How much.
        bytes: u64,
        /// What is mapped.
        mapped_bytes: u64,
    },
    /// The CPU touches what the adapter owns.
    #[error("the CPU may not {access} {memory}: it is mapped {direction} at {at} and the adapter's")]
    DeviceOwns {
        /// What is touched.
        memory: MemoryAddress,
        /// What the CPU wants.
        access: Access,
        /// Where it is mapped.
        at: BusAddress,
        /// In which direction.
        direction: Direction,
    },
    /// Mappings are left where there should be none.
    #[error("{mappings} mappings were not unmapped, the first at {first} of {bytes:#x} bytes {direction}")]
    Leaked {
        /// How many.
        mappings: usize,
        /// The lowest address.
        first: BusAddress,
        /// Its bytes.
        bytes: u64,
        /// Its direction.
        direction: Direction,
    },
}

/// A mapping.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    /// Its memory, which is in one piece on the bus alone where elements of a list were merged.
    pub(crate) pieces: Vec<Element>,
    pub(crate) bytes: u64,
    pub(crate) direction: Direction,
    pub(crate) kind: Kind,
    pub(crate) owner: Owner,
}

/// Who may touch a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The CPU, to which it was handed and from which it is not back yet.
    Cpu,
    /// The adapter.
    Device,
}

/// A part of a mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Where the mapping begins.
    pub(crate) at: BusAddress,
    /// From where in it.
    pub(crate) offset: u64,
    /// How much.
    pub(crate) bytes: u64,
}

/// What is said of a mapping by whoever unmaps it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Named {
    pub(crate) at: BusAddress,
    pub(crate) bytes: u64,
    pub(crate) direction: Direction,
    pub(crate) kind: Kind,
}

/// All mappings of an adapter. Where nothing translates, memory mapped twice has one bus address.
#[derive(Debug, Default)]
pub(crate) struct DebugEntries {
    entries: Mutex<BTreeMap<BusAddress, Vec<Entry>>>,
}

impl DebugEntries {
    pub(crate) fn add(&self, at: BusAddress, entry: Entry) {
        self.entries().entry(at).or_default().push(entry);
    }

    /// Whether what is to be unmapped was mapped so.
    pub(crate) fn check(&self, named: Named) -> Result<(), Misuse> {
        let entries = self.entries();
        let mapped = entries.get(&named.at).into_iter().flatten();
        let verdicts = mapped.map(|entry| entry.is_as_named(named));
        verdicts.reduce(Result::or).unwrap_or(Err(Misuse::NotMapped { at: named.at }))
    }

    /// Forgets a mapping that was checked.
    pub(crate) fn remove(&self, named: Named) {
        let mut entries = self.entries();
        let Some(mapped) = entries.get_mut(&named.at) else { return };
        if let Some(place) = mapped.iter().position(|entry| entry.is_as_named(named).is_ok()) {
            mapped.swap_remove(place);
        }
        if mapped.is_empty() {
            entries.remove(&named.at);
        }
    }

    /// Hands a part of a mapping to the CPU or back.
    pub(crate) fn hand_over(&self, part: Part, direction: Direction, to: Owner) -> Result<(), Misuse> {
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

    /// Whether the CPU may touch memory. It may read what an adapter only reads too.
    pub(crate) fn touch(&self, memory: MemoryAddress, bytes: u64, access: Access) -> Result<(), Misuse> {
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

    /// Whether all is unmapped.
    pub(crate) fn is_clean(&self) -> Result<(), Misuse> {
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

    fn entries(&self) -> MutexGuard<'_, BTreeMap<BusAddress, Vec<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn is_as_named(&self, named: Named) -> Result<(), Misuse> {
        let Named { at, bytes, direction, kind } = named;
        if self.kind != kind {
            return Err(Misuse::OtherKind { at, named: kind, mapped: self.kind });
        }
        if self.bytes != bytes {
            return Err(Misuse::OtherSize { at, bytes, mapped_bytes: self.bytes });
        }
        self.check_direction(at, direction)
    }

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
