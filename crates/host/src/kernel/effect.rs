//! What options of the kernel's command line ask for.

use serde::Deserialize;

/// One thing that an option asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Default domains are identity (true) or translated (false).
    Passthrough(bool),
    /// Invalidation at each unmap (true) or in batches (false).
    Strict(bool),
    /// The IOMMU is turned on or off.
    Iommu(bool),
    /// Never try IOVAs below 4 GiB first.
    ForceDac(bool),
    /// Slots of 2 KiB in the bounce buffer.
    SwiotlbSlots(u64),
    /// Areas, each with a lock of its own, in the bounce buffer.
    SwiotlbAreas(u64),
    /// All streaming DMA is bounced (true) or none is (false).
    SwiotlbForce(bool),
    /// The bounce buffer exists, whether or not it is needed.
    SwiotlbActive,
    /// POWER: 64-bit DMA windows are used.
    DirectWindow(bool),
    /// POWER: hypercalls that write many translation entries are used.
    MultiTce(bool),
    /// POWER: frozen adapters are recovered.
    Eeh(bool),
    /// A change of the memory map, as written.
    Memmap(String),
    /// Memory beyond this many bytes is not used.
    MemoryLimit(u64),
    /// Address translation services are not used.
    NoAts,
    /// Link power states: the policy.
    Aspm(String),
    /// PCIe payload sizes: the policy.
    BusTuning(String),
    /// Isolation is pretended for these functions (a patch outside the kernel).
    AcsOverride(String),
    /// Ports whose isolation bits are changed.
    AcsRedirectOff(String),
    /// User space may drive devices without an IOMMU.
    UnsafeNoIommu(bool),
    /// User space may drive devices without interrupt remapping.
    UnsafeInterrupts(bool),
    /// Devices of this ID go to vfio-pci.
    UserOwned(String),
    /// The page attribute table is not used.
    NoPat,
}

impl Effect {
    /// Whether two effects set the same thing: then only one of them can count.
    ///
    /// Effects that add to a list (memory map, ports, IDs) never do.
    pub fn sets_same(&self, other: &Self) -> bool {
        use std::mem::discriminant;
        let grows = matches!(
            self,
            Self::Memmap(_) | Self::AcsOverride(_) | Self::AcsRedirectOff(_) | Self::UserOwned(_)
        );
        !grows && discriminant(self) == discriminant(other)
    }
}
