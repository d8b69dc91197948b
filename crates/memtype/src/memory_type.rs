//! The x86 memory types, and how MTRR and page table combine.

use serde::Serialize;
use std::{fmt, str::FromStr};

/// An x86 memory type. MTRRs have all but [`MemoryType::UncachedMinus`], page tables (PAT) have all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemoryType {
    /// UC: every access goes to the bus, in order.
    Uncacheable,
    /// UC-: uncacheable, but an MTRR of type WC makes it write-combining.
    UncachedMinus,
    /// WC: uncached, writes are gathered into bursts.
    WriteCombining,
    /// WT: reads are cached, writes go through.
    WriteThrough,
    /// WP: reads are cached, writes go to the bus and invalidate.
    WriteProtect,
    /// WB: reads and writes are cached.
    WriteBack,
}

use MemoryType::{
    Uncacheable as Uc, UncachedMinus as UcMinus, WriteBack as Wb, WriteCombining as Wc, WriteProtect as Wp,
    WriteThrough as Wt,
};

/// A word that names no memory type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no memory type; expected uncachable, write-combining, write-through, write-protect or \
     write-back, or uc, wc, wt, wp or wb"
)]
pub struct MemoryTypeError(String);

impl MemoryType {
    /// The types an MTRR can hold.
    pub const OF_MTRR: [Self; 5] = [Uc, Wc, Wt, Wp, Wb];

    /// All types.
    pub const ALL: [Self; 6] = [Uc, UcMinus, Wc, Wt, Wp, Wb];

    /// The word of `/proc/mtrr` (arch/x86/kernel/cpu/mtrr/if.c; the spelling is the kernel's), `None`
    /// for UC-, which no MTRR can hold.
    pub fn mtrr_keyword(self) -> Option<&'static str> {
        match self {
            Uc => Some("uncachable"),
            Wc => Some("write-combining"),
            Wt => Some("write-through"),
            Wp => Some("write-protect"),
            Wb => Some("write-back"),
            UcMinus => None,
        }
    }

    /// The type a word of `/proc/mtrr` stands for.
    pub fn from_mtrr_keyword(word: &str) -> Option<Self> {
        Self::OF_MTRR.into_iter().find(|kind| kind.mtrr_keyword() == Some(word))
    }

    /// The word of `/sys/kernel/debug/x86/pat_memtype_list` (arch/x86/mm/pat/memtype.c).
    pub fn memtype_name(self) -> &'static str {
        match self {
            Uc => "uncached",
            UcMinus => "uncached-minus",
            Wc => "write-combining",
            Wt => "write-through",
            Wp => "write-protected",
            Wb => "write-back",
        }
    }

    /// The abbreviation of Intel's and AMD's manuals: `UC-`.
    pub fn abbreviation(self) -> &'static str {
        match self {
            Uc => "UC",
            UcMinus => "UC-",
            Wc => "WC",
            Wt => "WT",
            Wp => "WP",
            Wb => "WB",
        }
    }

    /// The number in a field of the PAT register (Intel SDM vol. 3, table 11-10).
    pub fn from_pat_encoding(number: u8) -> Option<Self> {
        match number {
            0 => Some(Uc),
            1 => Some(Wc),
            4 => Some(Wt),
            5 => Some(Wp),
            6 => Some(Wb),
            7 => Some(UcMinus),
            _ => None,
        }
    }

    /// Whether the CPU may read it into a cache, also without being told to.
    pub fn is_cacheable(self) -> bool {
        matches!(self, Wt | Wp | Wb)
    }

    /// What the CPU does with memory whose MTRR says `mtrr` when the page table says `page` (Intel SDM
    /// vol. 3, table 11-7, "Effective Page-Level Memory Types for Pentium III and More Recent
    /// Processor Families"). An MTRR cannot hold UC-; it is read as UC.
    pub fn effective(mtrr: Self, page: Self) -> Self {
        match (mtrr, page) {
            (_, Wc) => Wc,
            (_, Uc) => Uc,
            (Wc | Wp, UcMinus) => Wc,
            (_, UcMinus) => Uc,
            (Uc | UcMinus, _) => Uc,
            (Wc, Wb) => Wc,
            (Wc, _) => Uc,
            (Wt | Wb, Wt) | (Wt, Wb) | (Wp, Wt) => Wt,
            (Wb, Wb) => Wb,
            (Wt | Wb | Wp, Wp) | (Wp, Wb) => Wp,
        }
    }
}

impl fmt::Display for MemoryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.abbreviation())
    }
}

impl FromStr for MemoryType {
    type Err = MemoryTypeError;

    /// Accepts the words of `/proc/mtrr` and the abbreviations in either case.
    fn from_str(text: &str) -> Result<Self, MemoryTypeError> {
        let short = |kind: &Self| kind.abbreviation().eq_ignore_ascii_case(text);
        Self::from_mtrr_keyword(text)
            .or_else(|| (text == "uncacheable").then_some(Uc))
            .or_else(|| Self::ALL.into_iter().find(short))
            .ok_or_else(|| MemoryTypeError(text.chars().take(40).collect()))
    }
}

/// A set of memory types: those of all MTRRs that hold one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "Vec<MemoryType>"))]
pub struct TypeSet(u8);

impl TypeSet {
    /// No type.
    pub const EMPTY: Self = Self(0);

    /// This set with `kind`.
    #[must_use]
    pub fn with(self, kind: MemoryType) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Whether `kind` is in.
    pub fn has(self, kind: MemoryType) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// The types in it.
    pub fn iter(self) -> impl Iterator<Item = MemoryType> {
        MemoryType::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

impl FromIterator<MemoryType> for TypeSet {
    fn from_iter<I: IntoIterator<Item = MemoryType>>(kinds: I) -> Self {
        kinds.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl Serialize for TypeSet {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intels_table() {
        let rows = [
            (Uc, [Uc, Uc, Wc, Uc, Uc, Uc]),
            (Wc, [Uc, Wc, Wc, Uc, Uc, Wc]),
            (Wt, [Uc, Uc, Wc, Wt, Wp, Wt]),
            (Wp, [Uc, Wc, Wc, Wt, Wp, Wp]),
            (Wb, [Uc, Uc, Wc, Wt, Wp, Wb]),
        ];
        for (mtrr, row) in rows {
            for (page, expect) in MemoryType::ALL.into_iter().zip(row) {
                assert_eq!(MemoryType::effective(mtrr, page), expect, "MTRR {mtrr}, page {page}");
            }
        }
    }

    #[test]
    fn words() {
        assert_eq!("uncachable".parse(), Ok(Uc));
        assert_eq!("uc-".parse(), Ok(UcMinus));
        assert_eq!("WC".parse(), Ok(Wc));
        assert_eq!("write-protect".parse(), Ok(Wp));
        assert!("?".parse::<MemoryType>().is_err());
        assert_eq!(MemoryType::from_mtrr_keyword("uc"), None);
    }
}
