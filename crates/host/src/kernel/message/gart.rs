//! The GART of AMD processors before AMD-Vi, which remaps what a device can't reach: arch/x86/kernel/{pci-,amd_}gart_64.c and
//! arch/x86/kernel/aperture_64.c, in 2.6 below arch/x86_64/kernel.

use super::scan;
use crate::Bdf;

/// A message about the GART.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GartMessage {
    /// The kernel remaps with it.
    InUse,
    /// Bus addresses were set aside for it.
    Reserved {
        /// How many.
        mebibytes: u64,
    },
    /// They ran out: a mapping failed.
    Full {
        /// The device, where the message ends with it (up to 2.6.25).
        device: Option<Bdf>,
        /// What was asked for.
        bytes: u64,
    },
}

/// Reads a message about the GART.
pub(super) fn read(body: &str) -> Option<GartMessage> {
    let rest = body.strip_prefix("PCI-DMA: ")?;
    if rest.starts_with("using GART IOMMU") || rest.starts_with("Using GART IOMMU") {
        return Some(GartMessage::InUse);
    }
    // "Reserving 64MB of IOMMU area in the AGP aperture"
    if let Some(size) = rest.strip_prefix("Reserving ") {
        let mebibytes = scan::decimal(size).filter(|_| size.contains("MB of IOMMU area"))?;
        return Some(GartMessage::Reserved { mebibytes });
    }
    // "Out of IOMMU space for 57344 bytes", up to 2.6.25 with " at device 0000:00:08.0"
    let bytes = scan::decimal(rest.strip_prefix("Out of IOMMU space for ")?)?;
    Some(GartMessage::Full { device: scan::after(rest, " at device ").and_then(scan::bdf), bytes })
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Gart", expect);
    }

    #[test]
    fn messages() {
        check("PCI-DMA: using GART IOMMU.", "InUse");
        check("PCI-DMA: Reserving 64MB of IOMMU area in the AGP aperture", "Reserved { mebibytes: 64 }");
        check(
            "sata_nv 0000:00:08.0: PCI-DMA: Out of IOMMU space for 57344 bytes",
            "Full { device: None, bytes: 57344 }",
        );
        check(
            "PCI-DMA: Out of IOMMU space for 65536 bytes at device 0000:00:08.0",
            "Full { device: Some(0000:00:08.0), bytes: 65536 }",
        );
    }
}
