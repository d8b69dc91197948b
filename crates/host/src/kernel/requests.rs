//! The settings of the kernel's DMA code that the command line asks for.

use super::effect::Effect;
use super::verdict::{TokenVerdict, Verdict};
use crate::Cited;

/// The settings that the command line asks for and that this kernel understands, each with its option.
/// Where two options set the same thing, the option that counts is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    /// Identity (true) or translated (false) default domains.
    pub passthrough: Option<Cited<bool>>,
    /// Invalidation at each unmap (true) or in batches (false).
    pub strict: Option<Cited<bool>>,
    /// The IOMMU on or off.
    pub iommu_enabled: Option<Cited<bool>>,
    /// No IOVAs below 4 GiB first.
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
    /// Collects the effects of the options that the kernel acts on.
    pub fn collect(verdicts: &[TokenVerdict]) -> Self {
        let mut requests = Self::default();
        for checked in verdicts {
            if let Verdict::Understood { effects, .. } = &checked.verdict {
                for effect in effects {
                    requests.add(Cited::new(effect.clone(), checked.token.at.clone()));
                }
            }
        }
        requests
    }

    /// The option that turns the IOMMU on.
    pub fn iommu_on(&self) -> Option<&Cited<bool>> {
        self.iommu_enabled.as_ref().filter(|asked| asked.value)
    }

    /// The option that turns the IOMMU off.
    pub fn iommu_off(&self) -> Option<&Cited<bool>> {
        self.iommu_enabled.as_ref().filter(|asked| !asked.value)
    }

    /// Stores an effect in its field; a later one replaces an earlier one.
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
