//! The bounce buffers (swiotlb): how large, how full, and whether all DMA goes through them.

use super::log::LogFacts;
use crate::kernel::Requests;
use crate::{Citation, Cited, Tree};

/// Bytes of a slot (`IO_TLB_SHIFT`, include/linux/swiotlb.h).
pub const SLOT_BYTES: u64 = 2048;

/// The bounce buffers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bounce {
    /// Size of the pool in bytes.
    pub pool_bytes: Option<Cited<u64>>,
    /// Slots in use when looked at (debugfs, needs root).
    pub used_slots: Option<Cited<u64>>,
    /// Most slots ever in use (6.4 and later, debugfs).
    pub used_slots_max: Option<Cited<u64>>,
    /// All streaming DMA that the kernel maps directly is copied: by option, or for encrypted memory.
    pub forced: Option<Citation>,
    /// Never used, whatever the mask: an adapter that can't reach a buffer fails instead.
    pub never: Option<Citation>,
}

/// Reads debugfs, the log and the command line.
pub(super) fn read(tree: &Tree, log: &LogFacts, requests: &Requests) -> Bounce {
    let slots = |name: &str| {
        let cited = tree.value(&format!("sys/kernel/debug/swiotlb/{name}"))?;
        Some(Cited::new(cited.value.parse::<u64>().ok()?, cited.at))
    };
    let pool =
        slots("io_tlb_nslabs").map(|cited| Cited::new(cited.value.saturating_mul(SLOT_BYTES), cited.at));
    let by_option = |wanted: bool| {
        requests.swiotlb_force.as_ref().filter(|cited| cited.value == wanted).map(|cited| cited.at.clone())
    };
    Bounce {
        pool_bytes: pool.or_else(|| log.swiotlb_bytes.clone()),
        used_slots: slots("io_tlb_used"),
        used_slots_max: slots("io_tlb_used_hiwater"),
        forced: by_option(true).or_else(|| log.memory_encryption.clone()),
        never: by_option(false),
    }
}
