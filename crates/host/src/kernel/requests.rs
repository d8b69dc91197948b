//! What the command line asks of the kernel's DMA code.

use super::verdict::{TokenVerdict, Verdict};
use crate::Cited;

/// One thing that an option asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Default domains are identity (true) or translated (false).
    Passthrough(bool),
    /// Invalidation at each unmap (true) or in batches (false).
    Strict(bool),
    /// The IOMMU is turned on or off.
    Iommu(bool),
    /// Never try I/O addresses below 4 GiB first.
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
    /// Whether two effects set the same thing, so that one of them must lose.
    ///
    /// Lists (memory map, ports, IDs) grow instead.
    pub fn sets_same(&self, other: &Self) -> bool {
        use std::mem::discriminant;
        let grows = matches!(
            self,
            Self::Memmap(_) | Self::AcsOverride(_) | Self::AcsRedirectOff(_) | Self::UserOwned(_)
        );
        !grows && discriminant(self) == discriminant(other)
    }
}

/// Everything that the command line asks for and that this kernel understands, with the option that
/// asked. Where two options set the same thing, the one that counts is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    /// Identity (true) or translated (false) default domains.
    pub passthrough: Option<Cited<bool>>,
    /// Invalidation at each unmap (true) or in batches (false).
    pub strict: Option<Cited<bool>>,
    /// The IOMMU on or off.
    pub iommu_enabled: Option<Cited<bool>>,
    /// No I/O addresses below 4 GiB first.
    pub forcedac: Option<Cited<bool>>,
    /// Slots of 2 KiB in the bounce buffer.
    pub swiotlb_slots: Option<Cited<u64>>,
    /// Areas in the bounce buffer.
    pub swiotlb_areas: Option<Cited<u64>>,
    /// All (true) or no (false) DMA is bounced.
    pub swiotlb_force: Option<Cited<bool>>,
    /// The bounce buffer exists whether or not it is needed.
    pub swiotlb_active: Option<Cited<bool>>,
    /// POWER: 64-bit windows are used.
    pub direct_window: Option<Cited<bool>>,
    /// POWER: multi-entry hypercalls are used.
    pub multi_tce: Option<Cited<bool>>,
    /// POWER: error recovery.
    pub eeh: Option<Cited<bool>>,
    /// Changes of the memory map, as written.
    pub memmap: Vec<Cited<String>>,
    /// Bytes of memory that may be used.
    pub memory_limit: Option<Cited<u64>>,
    /// Address translation services are forbidden.
    pub no_ats: Option<Cited<bool>>,
    /// Link power policy.
    pub aspm: Option<Cited<String>>,
    /// Payload size policy.
    pub bus_tuning: Option<Cited<String>>,
    /// Pretended isolation.
    pub acs_override: Vec<Cited<String>>,
    /// Ports with changed isolation bits.
    pub acs_redirect_off: Vec<Cited<String>>,
    /// User space without an IOMMU.
    pub unsafe_no_iommu: Option<Cited<bool>>,
    /// User space without interrupt remapping.
    pub unsafe_interrupts: Option<Cited<bool>>,
    /// Device IDs for vfio-pci.
    pub user_owned: Vec<Cited<String>>,
    /// No page attribute table.
    pub no_pat: Option<Cited<bool>>,
}

impl Requests {
    /// Collects what understood options ask for. Options that are ineffective or invalid ask nothing.
    pub fn collect(verdicts: &[TokenVerdict]) -> Self {
        let mut requests = Self::default();
        for judged in verdicts {
            if let Verdict::Understood { effects, .. } = &judged.verdict {
                for effect in effects {
                    requests.add(Cited::new(effect.clone(), judged.token.at.clone()));
                }
            }
        }
        requests
    }

    fn add(&mut self, effect: Cited<Effect>) {
        let Cited { value, at } = effect;
        match value {
            Effect::Passthrough(on) => self.passthrough = Some(Cited::new(on, at)),
            Effect::Strict(on) => self.strict = Some(Cited::new(on, at)),
            Effect::Iommu(on) => self.iommu_enabled = Some(Cited::new(on, at)),
            Effect::ForceDac(on) => self.forcedac = Some(Cited::new(on, at)),
            Effect::SwiotlbSlots(slots) => self.swiotlb_slots = Some(Cited::new(slots, at)),
            Effect::SwiotlbAreas(areas) => self.swiotlb_areas = Some(Cited::new(areas, at)),
            Effect::SwiotlbForce(on) => self.swiotlb_force = Some(Cited::new(on, at)),
            Effect::SwiotlbActive => self.swiotlb_active = Some(Cited::new(true, at)),
            Effect::DirectWindow(on) => self.direct_window = Some(Cited::new(on, at)),
            Effect::MultiTce(on) => self.multi_tce = Some(Cited::new(on, at)),
            Effect::Eeh(on) => self.eeh = Some(Cited::new(on, at)),
            Effect::Memmap(change) => self.memmap.push(Cited::new(change, at)),
            Effect::MemoryLimit(bytes) => self.memory_limit = Some(Cited::new(bytes, at)),
            Effect::NoAts => self.no_ats = Some(Cited::new(true, at)),
            Effect::Aspm(policy) => self.aspm = Some(Cited::new(policy, at)),
            Effect::BusTuning(policy) => self.bus_tuning = Some(Cited::new(policy, at)),
            Effect::AcsOverride(which) => self.acs_override.push(Cited::new(which, at)),
            Effect::AcsRedirectOff(ports) => self.acs_redirect_off.push(Cited::new(ports, at)),
            Effect::UnsafeNoIommu(on) => self.unsafe_no_iommu = Some(Cited::new(on, at)),
            Effect::UnsafeInterrupts(on) => self.unsafe_interrupts = Some(Cited::new(on, at)),
            Effect::UserOwned(id) => self.user_owned.push(Cited::new(id, at)),
            Effect::NoPat => self.no_pat = Some(Cited::new(true, at)),
        }
    }
}
