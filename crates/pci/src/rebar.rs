//! Resizable BARs: how much of a device's memory peers and the CPU can reach.

use super::config::{Structure, field, field8};
use serde::Serialize;

/// A function has at most six BARs.
const BARS_MAX: usize = 6;

/// Resizable BAR capability (`PCI_EXT_CAP_ID_REBAR`; Base Specification 7.8.6).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ResizableBars {
    /// The BARs that can be resized, in register order.
    pub bars: Option<Vec<ResizableBar>>,
}

/// One BAR that can be resized.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct ResizableBar {
    /// Number of the BAR, 0 to 5.
    pub index: Option<u8>,
    /// Its size now, in bytes.
    pub bytes: Option<u64>,
    /// The largest size that it can have, in bytes.
    pub bytes_max: Option<u64>,
}

impl ResizableBars {
    pub(super) fn decode(at: Structure<'_>) -> Self {
        // Only the first control register holds the number of BARs.
        let count = field(at.dword(8), 0xe0).and_then(|count| usize::try_from(count).ok());
        let entry = |bar: usize| ResizableBar::decode(at.dword(4 + 8 * bar), at.dword(8 + 8 * bar));
        Self { bars: count.map(|count| (0..count.min(BARS_MAX)).map(entry).collect()) }
    }
}

impl ResizableBar {
    fn decode(capability: Option<u32>, control: Option<u32>) -> Self {
        Self {
            index: field8(control, 0x7),
            bytes: field(control, 0x3f00).and_then(mebibytes),
            bytes_max: capability.zip(control).and_then(|(capability, control)| {
                // Sizes of 2^0 to 2^27 MiB stand in the capability, larger ones in the control register.
                let sizes = u64::from(capability >> 4) | (u64::from(control >> 16) << 28);
                sizes.checked_ilog2().and_then(mebibytes)
            }),
        }
    }
}

/// A size in MiB, given its logarithm.
fn mebibytes(log2: u32) -> Option<u64> {
    (log2 <= 43).then(|| 1 << (20 + log2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Body, Image};
    use crate::{Capabilities, ConfigSpace};

    fn decode(body: &Body) -> ResizableBars {
        let bytes = Image::endpoint(1, 2, 0x03_0000)
            .capability(0x10, Body::conventional(60).word(2, 0x2).bytes())
            .extended(0x15, 1, body.bytes())
            .bytes();
        Capabilities::decode(ConfigSpace::new(&bytes)).resizable_bars.get().unwrap().clone()
    }

    #[test]
    fn sizes() {
        let found = decode(
            &Body::extended(0x14)
                .dword(4, 0x0003_ff00)
                .dword(8, 0x0840)
                .dword(12, 0x0000_0010)
                .dword(16, 0x0001_0002),
        );
        let first = ResizableBar { index: Some(0), bytes: Some(256 << 20), bytes_max: Some(8 << 30) };
        let second = ResizableBar { index: Some(2), bytes: Some(1 << 20), bytes_max: Some(1 << 48) };
        assert_eq!(found.bars, Some(vec![first, second]));
    }

    #[test]
    fn hostile_counts() {
        assert_eq!(decode(&Body::extended(12)).bars, Some(vec![]));
        assert_eq!(decode(&Body::extended(12).dword(8, 0x3fe0)).bars.map(|bars| bars.len()), Some(6));
    }
}
