//! IDs of the capabilities that are decoded here. Conventional and extended IDs are separate number spaces.

/// Conventional capability IDs (`PCI_CAP_ID_*`).
pub(super) mod conventional {
    pub(in crate::pci) const POWER_MANAGEMENT: u16 = 0x01;
    pub(in crate::pci) const MSI: u16 = 0x05;
    pub(in crate::pci) const PCI_X: u16 = 0x07;
    /// Subsystem IDs of a bridge (`PCI_CAP_ID_SSVID`).
    pub(in crate::pci) const SUBSYSTEM: u16 = 0x0d;
    pub(in crate::pci) const EXPRESS: u16 = 0x10;
    pub(in crate::pci) const MSI_X: u16 = 0x11;
}

/// Extended capability IDs (`PCI_EXT_CAP_ID_*`).
pub(super) mod extended {
    pub(in crate::pci) const AER: u16 = 0x01;
    pub(in crate::pci) const ACS: u16 = 0x0d;
    pub(in crate::pci) const ARI: u16 = 0x0e;
    pub(in crate::pci) const ATS: u16 = 0x0f;
    pub(in crate::pci) const SRIOV: u16 = 0x10;
    pub(in crate::pci) const PRI: u16 = 0x13;
    pub(in crate::pci) const REBAR: u16 = 0x15;
    pub(in crate::pci) const PASID: u16 = 0x1b;
    pub(in crate::pci) const DPC: u16 = 0x1d;
}
