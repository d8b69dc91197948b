//! The hypercalls that a mapping costs.
//!
//! In a window whose entries are written per mapping, every map and unmap makes hypercalls (LoPAR, TCE hypercalls;
//! arch/powerpc/platforms/pseries/iommu.c). In a direct window neither does.

use serde::Serialize;
use std::ops::{Add, AddAssign};

/// Entries that one multi-entry call writes at most (LoPAR: the list page holds 512).
pub const TCES_PER_CALL_MAX: u64 = 512;

/// Whether the kernel can write several entries in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TceCalls {
    /// One entry per `H_PUT_TCE`.
    Single,
    /// Up to 512 per `H_PUT_TCE_INDIRECT` and `H_STUFF_TCE`.
    Multi,
}

impl TceCalls {
    /// The calls that a kernel uses, by the strings of `/rtas` `ibm,hypertas-functions` and its command line: `multitce=off` disables
    /// multi-entry calls.
    pub fn of<S: AsRef<str>>(hypertas_functions: &[S], command_line: &str) -> Self {
        let offered = hypertas_functions.iter().any(|name| name.as_ref() == "hcall-multi-tce");
        let is_disabled = command_line.split_ascii_whitespace().any(|word| word == "multitce=off");
        if offered && !is_disabled { Self::Multi } else { Self::Single }
    }
}

/// Hypercalls by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Hypercalls {
    /// `H_PUT_TCE` (0x20): one entry.
    pub put: u64,
    /// `H_PUT_TCE_INDIRECT` (0x13c): a list of entries.
    pub put_indirect: u64,
    /// `H_STUFF_TCE` (0x138): one value for a range of entries.
    pub stuff: u64,
}

impl Hypercalls {
    /// The hypercalls that map `tces` entries. For one entry the kernel uses `H_PUT_TCE` even if multi-entry calls are available.
    pub fn map(tces: u64, calls: TceCalls) -> Self {
        match calls {
            TceCalls::Multi if tces > 1 => {
                Self { put_indirect: tces.div_ceil(TCES_PER_CALL_MAX), ..Self::default() }
            }
            _ => Self { put: tces, ..Self::default() },
        }
    }

    /// The hypercalls that unmap `tces` entries.
    pub fn unmap(tces: u64, calls: TceCalls) -> Self {
        match calls {
            TceCalls::Multi => Self { stuff: tces.div_ceil(TCES_PER_CALL_MAX), ..Self::default() },
            TceCalls::Single => Self { put: tces, ..Self::default() },
        }
    }

    /// The number of hypercalls of all kinds.
    pub fn total(&self) -> u64 {
        self.put.saturating_add(self.put_indirect).saturating_add(self.stuff)
    }
}

impl Add for Hypercalls {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            put: self.put.saturating_add(other.put),
            put_indirect: self.put_indirect.saturating_add(other.put_indirect),
            stuff: self.stuff.saturating_add(other.stuff),
        }
    }
}

impl AddAssign for Hypercalls {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The number of entries that map a buffer of `len_bytes` at `address` in a window of this page shift: the number of pages that it
/// touches. `None` for a shift of 64 or more.
pub fn tces_of(address: u64, len_bytes: u64, page_shift: u32) -> Option<u64> {
    let page = 1u64.checked_shl(page_shift)?;
    let within = u128::from(address & (page - 1));
    let pages = (within + u128::from(len_bytes)).div_ceil(u128::from(page));
    u64::try_from(pages).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tces: u64, calls: TceCalls, map: u64, unmap: u64) {
        assert_eq!(Hypercalls::map(tces, calls).total(), map, "map {tces} {calls:?}");
        assert_eq!(Hypercalls::unmap(tces, calls).total(), unmap, "unmap {tces} {calls:?}");
    }

    #[test]
    fn counts() {
        check(0, TceCalls::Multi, 0, 0);
        check(1, TceCalls::Multi, 1, 1);
        check(2, TceCalls::Multi, 1, 1);
        check(512, TceCalls::Multi, 1, 1);
        check(513, TceCalls::Multi, 2, 2);
        check(16, TceCalls::Single, 16, 16);
        check(u64::MAX, TceCalls::Single, u64::MAX, u64::MAX);
        assert_eq!(Hypercalls::map(1, TceCalls::Multi), Hypercalls { put: 1, ..Hypercalls::default() });
        let round_trip = Hypercalls::map(16, TceCalls::Multi) + Hypercalls::unmap(16, TceCalls::Multi);
        assert_eq!(round_trip, Hypercalls { put: 0, put_indirect: 1, stuff: 1 });
    }

    #[test]
    fn multi_tce() {
        let offered = ["hcall-tce", "hcall-multi-tce"];
        assert_eq!(TceCalls::of(&offered, "quiet"), TceCalls::Multi);
        assert_eq!(TceCalls::of(&offered, "quiet multitce=off"), TceCalls::Single);
        assert_eq!(TceCalls::of(&offered[..1], ""), TceCalls::Single);
    }

    #[test]
    fn entries_of_buffers() {
        assert_eq!(tces_of(0x1000, 4096, 12), Some(1));
        assert_eq!(tces_of(0x1800, 4096, 12), Some(2));
        assert_eq!(tces_of(0x10000, 65536, 12), Some(16));
        assert_eq!(tces_of(0x10000, 65536, 16), Some(1));
        assert_eq!(tces_of(0x1000, 0, 12), Some(0));
        assert_eq!(tces_of(u64::MAX, u64::MAX, 63), Some(3));
        assert_eq!(tces_of(0, 1, 64), None);
    }
}
