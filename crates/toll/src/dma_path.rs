//! The ways in which an adapter's DMA reaches memory.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A way in which an adapter's DMA reaches memory. Serialised names are stable, because scripts match on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DmaPath {
    /// No translation hardware in use: bus address = physical address.
    NoIommu,
    /// IOMMU on, this adapter's domain is identity.
    Identity,
    /// POWER: a 64-bit window maps all memory at an offset.
    DirectWindow,
    /// POWER: a 64-bit window that can't hold all memory; entries written per mapping.
    DynamicWindow,
    /// POWER: the default 32-bit window, entries written per mapping.
    TceWindow,
    /// IOVA and page table per mapping, invalidations batched.
    TranslatedLazy,
    /// IOVA and page table per mapping, one invalidation per unmap.
    TranslatedStrict,
    /// Streaming DMA is copied through swiotlb.
    Bounce,
    /// Owned by user space.
    User,
    /// No driver.
    Unbound,
    /// Not known; the verdict has the reason.
    Unknown,
}

impl DmaPath {
    /// All DMA paths, from the cheapest to the most expensive per I/O; those that are unknown or without a driver last.
    pub const ALL: [Self; 11] = [
        Self::NoIommu,
        Self::Identity,
        Self::DirectWindow,
        Self::User,
        Self::TranslatedLazy,
        Self::DynamicWindow,
        Self::TceWindow,
        Self::TranslatedStrict,
        Self::Bounce,
        Self::Unknown,
        Self::Unbound,
    ];

    /// Its name in reports, documents and options.
    pub fn word(self) -> &'static str {
        match self {
            Self::NoIommu => "no-iommu",
            Self::Identity => "identity",
            Self::DirectWindow => "direct-window",
            Self::DynamicWindow => "dynamic-window",
            Self::TceWindow => "tce-window",
            Self::TranslatedLazy => "translated-lazy",
            Self::TranslatedStrict => "translated-strict",
            Self::Bounce => "bounce",
            Self::User => "user",
            Self::Unbound => "unbound",
            Self::Unknown => "unknown",
        }
    }

    /// The cost of one I/O on it, in words.
    pub fn toll(self) -> &'static str {
        match self {
            Self::NoIommu => "nothing: bus address = physical address, and no protection",
            Self::Identity => "nothing in software: the IOMMU passes addresses through, and does not protect",
            Self::DirectWindow => "an offset added: all memory is mapped once",
            Self::DynamicWindow => "an address allocated, entries written by hypercall at map and unmap",
            Self::TceWindow => {
                "an address allocated in a 32-bit window, entries written by hypercall at map and unmap"
            }
            Self::TranslatedLazy => {
                "an address allocated, page table written and cleared, invalidations in batches"
            }
            Self::TranslatedStrict => {
                "an address allocated, page table written and cleared, an invalidation waited for"
            }
            Self::Bounce => "a bounce slot and a copy of the data",
            Self::User => "the cost of its user-space driver: the kernel maps its memory once",
            Self::Unbound => "no DMA: no driver",
            Self::Unknown => "unknown",
        }
    }

    /// Whether a mapping costs nothing but arithmetic. The other DMA paths are compared with these.
    pub fn is_untranslated(self) -> bool {
        matches!(self, Self::NoIommu | Self::Identity | Self::DirectWindow)
    }

    /// Whether each mapping gets an IOVA and table entries.
    pub fn is_translated(self) -> bool {
        matches!(self, Self::DynamicWindow | Self::TceWindow | Self::TranslatedLazy | Self::TranslatedStrict)
    }
}

impl fmt::Display for DmaPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// A word that is not the name of a DMA path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is not a DMA path; expected one of {}", DmaPath::ALL.map(DmaPath::word).join(", "))]
pub struct UnknownDmaPath {
    /// The word.
    pub word: String,
}

impl FromStr for DmaPath {
    type Err = UnknownDmaPath;

    fn from_str(word: &str) -> Result<Self, UnknownDmaPath> {
        let known = Self::ALL.into_iter().find(|dma_path| dma_path.word() == word);
        known.ok_or_else(|| UnknownDmaPath { word: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_the_serialised_name() {
        for dma_path in DmaPath::ALL {
            assert_eq!(dma_path.word().parse(), Ok(dma_path));
            assert_eq!(serde_json::to_value(dma_path).unwrap(), dma_path.word());
            assert_eq!(serde_json::from_value::<DmaPath>(dma_path.word().into()).unwrap(), dma_path);
        }
        let words = "Direct-Window".parse::<DmaPath>().unwrap_err().to_string();
        assert!(
            words.starts_with("`Direct-Window` is not a DMA path; expected one of no-iommu, "),
            "{words}"
        );
    }

    #[test]
    fn no_dma_path_is_both_translated_and_untranslated() {
        assert!(
            DmaPath::ALL.iter().all(|dma_path| !(dma_path.is_translated() && dma_path.is_untranslated()))
        );
    }
}
