//! IDs of the capabilities that are decoded here. Conventional and extended IDs are separate number spaces.

/// Conventional capability IDs (`PCI_CAP_ID_*`).
pub(super) mod conventional {
    pub(crate) const POWER_MANAGEMENT: u16 = 0x01;
    pub(crate) const MSI: u16 = 0x05;
    pub(crate) const PCI_X: u16 = 0x07;
    /// Subsystem IDs of a bridge (`PCI_CAP_ID_SSVID`).
    pub(crate) const SUBSYSTEM: u16 = 0x0d;
    pub(crate) const EXPRESS: u16 = 0x10;
    pub(crate) const MSI_X: u16 = 0x11;
}

/// Extended capability IDs (`PCI_EXT_CAP_ID_*`).
pub(super) mod extended {
    pub(crate) const AER: u16 = 0x01;
    pub(crate) const ACS: u16 = 0x0d;
    pub(crate) const ARI: u16 = 0x0e;
    pub(crate) const ATS: u16 = 0x0f;
    pub(crate) const SRIOV: u16 = 0x10;
    pub(crate) const PRI: u16 = 0x13;
    pub(crate) const REBAR: u16 = 0x15;
    pub(crate) const PASID: u16 = 0x1b;
    pub(crate) const DPC: u16 = 0x1d;
}
