//! The hypercalls that change entries, with their arguments, for whoever carries them to the hypervisor.

use super::{Entry, Hypervisor, Status};
use crate::{BusAddress, MemoryAddress};

/// A hypercall of a partition that changes entries. Its fields are what the registers hold; `at` is a bus address, not an
/// index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hypercall {
    /// `H_PUT_TCE`
    PutTce {
        /// The window.
        liobn: u32,
        /// The page.
        at: BusAddress,
        /// Its entry.
        entry: Entry,
    },
    /// `H_STUFF_TCE`
    StuffTce {
        /// The window.
        liobn: u32,
        /// The first page.
        at: BusAddress,
        /// The entry of all pages.
        entry: Entry,
        /// The number of pages.
        count: u64,
    },
    /// `H_PUT_TCE_INDIRECT`
    PutTceIndirect {
        /// The window.
        liobn: u32,
        /// The first page.
        at: BusAddress,
        /// The page with the list of entries.
        list: MemoryAddress,
        /// The number of pages.
        count: u64,
    },
}

impl Hypervisor {
    /// Serves a hypercall.
    pub fn serve(&self, call: Hypercall) -> Status {
        match call {
            Hypercall::PutTce { liobn, at, entry } => self.put_tce(liobn, at, entry),
            Hypercall::StuffTce { liobn, at, entry, count } => self.stuff_tce(liobn, at, entry, count),
            Hypercall::PutTceIndirect { liobn, at, list, count } => {
                self.put_tce_indirect(liobn, at, list, count)
            }
        }
    }
}
