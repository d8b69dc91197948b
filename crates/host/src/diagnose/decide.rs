//! Which DMA path an adapter's DMA takes, from the facts alone.
//!
//! The order of the questions is that of the kernel: who owns the function, whether its DMA passes
//! the platform's translation at all, what the platform translates with, and only then how the domain
//! is run. Where the facts end, so does the answer: `unknown`, with the reason.

use super::power_dma_path;
use super::verdict::{unknown, verdict};
use super::{DmaPath, Verdict};
use crate::facts::fault::Fault;
use crate::facts::hypervisor::Hypervisor;
use crate::facts::iommu::DomainType;
use crate::facts::log::MaskOverflow;
use crate::facts::traced_mapping::{TracedMapping, TracedPath};
use crate::facts::{Adapter, Host, HostEncryption};
use crate::{Bdf, Citation, Cited};
use std::fmt;

/// Drivers that hand a function to user space, by the start of their names.
const USER_DRIVERS: [&str; 5] = ["uio", "igb_uio", "nic_uio", "xen-pciback", "pciback"];
/// What identity domains give up.
const NO_PROTECTION: &str =
    "bus addresses are physical addresses: mappings cost nothing, and nothing confines its DMA";
/// What copying rests on where only the command line asks for memory encryption.
const ENCRYPTION_CONDITION: &str =
    "processor and firmware have memory encryption (SME), for which the command line asks";
/// A driver that holds a function without using it.
const STUB_DRIVER: &str = "pci-stub";

/// Decides the DMA path of an adapter.
pub(super) fn decide(host: &Host, adapter: &Adapter) -> Verdict {
    let Some(driver) = &adapter.function.driver else { return without_known_driver(host, adapter) };
    without_kernel_driver(host, adapter, driver).unwrap_or_else(|| of_kernel_driver(host, adapter))
}

/// The verdict on an adapter that a driver of the kernel uses.
fn of_kernel_driver(host: &Host, adapter: &Adapter) -> Verdict {
    if let Some(hypervisor) = host.platform.hypervisor.as_ref().filter(|cited| cited.value.hides_iommu()) {
        return behind_xen(host, adapter, &hypervisor.at);
    }
    virtio_without_dma_api(host, adapter).unwrap_or_else(|| match host.is_power() {
        true => power_dma_path::decide(host, adapter),
        false => by_group(host, adapter),
    })
}

/// The verdict on an adapter whose IOMMU Xen drives.
fn behind_xen(host: &Host, adapter: &Adapter, dom0: &Citation) -> Verdict {
    let is_this = |fault: &&Fault| fault.by_xen && fault.address == Some(adapter.function.address);
    let refused = host.log.faults.iter().filter(is_this).find(|fault| fault.is_of_an_address());
    if let Some(fault) = refused {
        let reason = "Xen translates its DMA: its hypervisor refused an access of it; whether the translation is lazy, Xen does \
                      not tell";
        return unknown(reason, vec![fault.at.clone()]);
    }
    match &host.log.xen_translates {
        Some(Cited { value: false, at }) => {
            let reason = "Xen does not use the IOMMU: bus addresses are machine addresses, and nothing confines its DMA";
            verdict(DmaPath::NoIommu, Some(reason.to_owned()), vec![at.clone()])
        }
        Some(Cited { value: true, at }) => unknown(
            "Xen drives the IOMMU and uses it; whether for this adapter, `xl dmesg` tells under \"Dom0 mode\"",
            vec![at.clone()],
        ),
        None => unknown(
            "Xen drives the IOMMU, and this kernel does not see it: `xl dmesg` on the host tells whether it translates",
            vec![dom0.clone()],
        ),
    }
}

/// The verdict on an adapter for which nothing read names a driver.
fn without_known_driver(host: &Host, adapter: &Adapter) -> Verdict {
    if let Some(unread) = unreadable_link(host, adapter, "driver") {
        return unread;
    }
    if host.shows_drivers && adapter.function.shows_driver {
        let at = Citation::of_file(&adapter.function.source, "no driver is bound");
        return verdict(DmaPath::Unbound, None, vec![at]);
    }
    // A log, lspci without -k and some captures say nothing of drivers: silence is not absence.
    if host.is_power() {
        return power_dma_path::without_known_driver(host, adapter);
    }
    of_kernel_driver(host, adapter).provided_that("a driver of the kernel uses it")
}

/// The verdict on adapters for which the kernel does no DMA; `None` if the driver is one that does.
fn without_kernel_driver(host: &Host, adapter: &Adapter, driver: &Cited<String>) -> Option<Verdict> {
    if driver.value == STUB_DRIVER {
        let reason = "pci-stub holds the function and does no DMA".to_owned();
        return Some(verdict(DmaPath::Unbound, Some(reason), vec![driver.at.clone()]));
    }
    let by_vfio = adapter.function.vfio_driver().is_some();
    let by_user = by_vfio || USER_DRIVERS.iter().any(|prefix| driver.value.starts_with(prefix));
    // VFIO alone asks the IOMMU for a domain of its own.
    let refused = host.log.user_attach_refused.get(&Some(adapter.function.address));
    if let Some(refused) = refused.filter(|_| by_vfio) {
        let verdict = verdict(DmaPath::User, None, vec![driver.at.clone(), refused.clone()]);
        return Some(verdict.provided_that("the kernel lets user space have it, which it refused so far"));
    }
    let by_xen = driver.value.ends_with("pciback");
    let reason = by_xen.then(|| {
        "held for another domain of Xen, which drives the IOMMU itself: `xl dmesg` on the host tells about it".to_owned()
    });
    by_user.then(|| verdict(DmaPath::User, reason, vec![driver.at.clone()]))
}

/// The verdict "unknown" if a sysfs link of the adapter exists and could not be read.
fn unreadable_link(host: &Host, adapter: &Adapter, link: &str) -> Option<Verdict> {
    let file = format!("{}/{link}", adapter.function.source);
    let why = host.unread.get(&file)?;
    Some(unknown(&format!("{file} could not be read: {why}"), Vec::new()))
}

/// The verdict on a virtio device that bypasses the IOMMU and bounce buffers.
///
/// Without `VIRTIO_F_ACCESS_PLATFORM` the driver gives the device physical addresses (drivers/virtio/virtio_ring.c,
/// `vring_use_dma_api`), although sysfs shows an IOMMU group and its type.
fn virtio_without_dma_api(host: &Host, adapter: &Adapter) -> Option<Verdict> {
    let access_platform = &adapter.virtio.as_ref()?.access_platform;
    let bounced = host.bounce.forced.is_some();
    let beside_what = adapter.function.iommu_group.is_some() || host.is_power() || bounced;
    // With encrypted memory such a device does not probe at all; what is bound then uses the DMA API.
    if !beside_what || access_platform.value || host.log.memory_encryption.is_some() {
        return None;
    }
    let reason = "a virtio device without VIRTIO_F_ACCESS_PLATFORM (feature bit 33) is given physical \
                  addresses: its DMA passes neither an IOMMU nor bounce buffers, whatever its group says";
    Some(verdict(DmaPath::NoIommu, Some(reason.to_owned()), vec![access_platform.at.clone()]))
}

/// The verdict by the adapter's IOMMU group.
fn by_group(host: &Host, adapter: &Adapter) -> Verdict {
    match domain_type(host, adapter) {
        Some(domain) => by_domain_type(host, adapter, &domain),
        None => proven_by_log(host, adapter)
            .or_else(|| shown_by_call_trace(host, adapter))
            .or_else(|| untranslated_graphics(host, adapter))
            .unwrap_or_else(|| without_domain_type(host, adapter)),
    }
}

/// The verdict on integrated graphics that VT-d leaves out (`intel_iommu=igfx_off`): it is at 00:02.0 of every such machine.
fn untranslated_graphics(host: &Host, adapter: &Adapter) -> Option<Verdict> {
    let at = host.log.graphics_untranslated.as_ref()?;
    let address = adapter.function.address;
    let is_integrated = (address.domain, address.bus, address.device) == (0, 0, 2);
    is_integrated.then(|| untranslated(host, adapter, DmaPath::NoIommu, vec![at.clone()]))
}

/// The verdict by a line of the log that can only be printed on one DMA path.
fn proven_by_log(host: &Host, adapter: &Adapter) -> Option<Verdict> {
    let is_this = |address: &Option<Bdf>| *address == Some(adapter.function.address);
    let mut faults = host.log.faults.iter().filter(|fault| is_this(&fault.address));
    if let Some(blocked) = faults.clone().find(|fault| fault.blocks_requester()) {
        let reason = "the IOMMU has no valid entry for it and refuses all its DMA";
        return Some(unknown(reason, vec![blocked.at.clone()]));
    }
    if let Some(full) = host.log.swiotlb_full.iter().find(|full| is_this(&full.address)) {
        let at = vec![full.at.clone()];
        if full.lacks_pool() {
            let reason =
                "nothing translates for it: a mapping needed a bounce buffer, and there is no pool of them";
            return Some(verdict(direct_path(host), Some(reason.to_owned()), at));
        }
        let reason =
            "its mappings go through bounce buffers: the kernel says that there was none for one of them";
        return Some(verdict(DmaPath::Bounce, Some(reason.to_owned()), at));
    }
    if let Some(overflow) = host.log.mask_overflows.iter().find(|line| is_this(&line.address)) {
        let (dma_path, reason) = match overflow.is_bounced {
            true => (DmaPath::Bounce, "the bounce buffer for a mapping lay beyond its mask"),
            false => (direct_path(host), "nothing translates for it: a mapping beyond its mask failed"),
        };
        return Some(verdict(dma_path, Some(reason.to_owned()), vec![overflow.at.clone()]));
    }
    if let Some(full) = host.log.gart_full.iter().find(|full| is_this(&full.address)) {
        let reason = "the GART remaps memory beyond its mask, and nothing else is translated";
        return Some(unknown(reason, vec![full.at.clone()]));
    }
    let fault = faults.find(|fault| fault.shows_translation())?;
    // Under passthrough too a unit refuses what its tables lack, such as an address beyond all memory.
    let passes_through = passthrough(host).is_some_and(|cited| cited.value)
        || host.log.own_mapping.get(&adapter.function.address).is_some_and(|own| own.value);
    (!passes_through).then(|| translated(host, vec![fault.at.clone()]))
}

/// The verdict by the code in call traces: it is an adapter's if the warning names it, or if no other device has the driver that
/// asked. Traces that differ tell of several devices, or of a change.
fn shown_by_call_trace(host: &Host, adapter: &Adapter) -> Option<Verdict> {
    let address = Some(adapter.function.address);
    let module = adapter.function.module().filter(|module| is_only_one_with(host, module));
    let asked = |mapping: &&TracedMapping| match mapping.device {
        Some(_) => mapping.device == address,
        None => module.as_ref().is_some_and(|module| mapping.modules.contains(module)),
    };
    let mappings: Vec<&TracedMapping> = host.log.traced_mappings.iter().filter(asked).collect();
    let first = *mappings.first()?;
    let is_translated = first.path == TracedPath::Translated;
    if mappings.iter().any(|other| (other.path == TracedPath::Translated) != is_translated) {
        return None;
    }
    let bounced = mappings.iter().find(|mapping| mapping.path == TracedPath::Bounced);
    let verdict = match bounced {
        _ if is_translated => translated(host, vec![first.at.clone()]),
        Some(bounced) => {
            let reason = "a call trace shows one of its buffers go through bounce buffers";
            verdict(DmaPath::Bounce, Some(reason.to_owned()), vec![bounced.at.clone()])
        }
        None => traced_direct(host, adapter, first),
    };
    let is_named = mappings.iter().any(|mapping| mapping.device.is_some());
    Some(match is_named {
        true => verdict,
        false => verdict.provided_that("no other device has its driver, whose mapping a call trace shows"),
    })
}

/// The verdict where a call trace shows the code of direct mapping, which runs for identity domains as it does without an IOMMU.
fn traced_direct(host: &Host, adapter: &Adapter, mapping: &TracedMapping) -> Verdict {
    let path = direct_path(host);
    let verdict = untranslated(host, adapter, path, vec![mapping.at.clone()]);
    let shows_none = host.iommus.visible || host.log.covers_boot || host.requests.iommu_off().is_some();
    match path == DmaPath::NoIommu && !shows_none {
        true => verdict.provided_that("no IOMMU is in use that passes its addresses through"),
        false => verdict,
    }
}

/// Whether one adapter alone has a driver of this module, as far as is known.
fn is_only_one_with(host: &Host, module: &str) -> bool {
    let has = |adapter: &&Adapter| adapter.function.module().is_some_and(|own| own == module);
    host.adapters.iter().filter(has).count() == 1
}

/// The DMA path of an adapter for which nothing translates, and nothing copies.
fn direct_path(host: &Host) -> DmaPath {
    let has_iommu = host.log.translation_active.is_some() || !host.iommus.instances.is_empty();
    if has_iommu { DmaPath::Identity } else { DmaPath::NoIommu }
}

/// The type of the adapter's group.
pub(super) fn domain_type(host: &Host, adapter: &Adapter) -> Option<Cited<DomainType>> {
    let group = adapter.function.iommu_group.as_ref()?;
    host.iommus.groups.get(&group.value)?.domain_type.clone()
}

/// The verdict by the domain type of the group.
fn by_domain_type(host: &Host, adapter: &Adapter, domain: &Cited<DomainType>) -> Verdict {
    let at = || vec![domain.at.clone()];
    match domain.value {
        DomainType::Identity => untranslated(host, adapter, DmaPath::Identity, at()),
        DomainType::DmaFq => verdict(DmaPath::TranslatedLazy, None, at()),
        DomainType::Dma if host.tells_lazy_groups() => verdict(DmaPath::TranslatedStrict, None, at()),
        DomainType::Dma => translated(host, at()),
        DomainType::Unmanaged => unknown(
            "its domain is unmanaged, yet its driver is none of those that hand it to user space",
            at(),
        ),
        DomainType::Blocked => unknown("its domain blocks all DMA", at()),
        DomainType::Unknown => unknown("the kernel itself does not know the type of its domain", at()),
    }
}

/// Groups without a readable type, or no group: kernels before 4.19, captures without sysfs, or no
/// IOMMU at all.
fn without_domain_type(host: &Host, adapter: &Adapter) -> Verdict {
    let group =
        adapter.function.iommu_group.as_ref().or_else(|| host.log.groups.get(&adapter.function.address));
    let active = host.log.translation_active.as_ref();
    // Groups tell their type since 4.19; where a capture left it out, each of them may have its own.
    let type_missing = adapter.function.iommu_group.as_ref().filter(|_| {
        host.kernel().is_some_and(|kernel| kernel.at_least(4, 19)) && passthrough(host).is_none()
    });
    if let Some(group) = type_missing {
        let reason = format!(
            "the type of its IOMMU group was not captured: sys/kernel/iommu_groups/{}/type tells it",
            group.value
        );
        return unknown(&reason, vec![group.at.clone()]);
    }
    if let Some(own) = host.log.own_mapping.get(&adapter.function.address) {
        let at = vec![own.at.clone()];
        return if own.value {
            untranslated(host, adapter, DmaPath::Identity, at)
        } else {
            translated(host, at)
        };
    }
    match (group, active) {
        (None, None) => unreadable_link(host, adapter, "iommu_group")
            .unwrap_or_else(|| without_active_iommu(host, adapter)),
        (None, Some(active)) if host.iommus.visible && host.has_groups() => {
            // Functions outside every group on a host that has groups: their IOMMU, if any, is none
            // that this kernel drives for them.
            untranslated(host, adapter, DmaPath::NoIommu, vec![active.clone(), cite_missing_group(adapter)])
        }
        (group, active) => {
            let mut evidence: Vec<Citation> =
                group.map(|cited| cited.at.clone()).into_iter().chain(active.cloned()).collect();
            match passthrough(host) {
                Some(Cited { value: true, at }) => {
                    evidence.push(at);
                    untranslated(host, adapter, DmaPath::Identity, evidence)
                }
                Some(Cited { value: false, at }) => {
                    evidence.push(at);
                    translated(host, evidence)
                }
                None if may_pass_through_by_default(host) && host.invalidation().is_none() => unknown(
                    "an IOMMU is in use for it, and nothing read tells whether it translates or passes addresses through",
                    evidence,
                ),
                None if may_pass_through_by_default(host) => translated(host, evidence)
                    .provided_that("the kernel translates by default, as most are built to"),
                None => translated(host, evidence),
            }
        }
    }
}

/// Whether the kernel may have been built to pass addresses through (`CONFIG_IOMMU_DEFAULT_PASSTHROUGH`, since 4.12), and
/// a log of the whole boot does not show it. Since 5.4 such a log names the default.
fn may_pass_through_by_default(host: &Host) -> bool {
    let has_option = host.kernel().is_none_or(|kernel| kernel.at_least(4, 12));
    let would_tell = host.kernel().is_some_and(|kernel| kernel.at_least(5, 4)) && host.log.covers_boot;
    has_option && !would_tell
}

/// Cites that the adapter is in no IOMMU group.
fn cite_missing_group(adapter: &Adapter) -> Citation {
    Citation::of_file(&adapter.function.source, "in no IOMMU group")
}

/// Whether domains are identity, by the kernel's own words first, the command line second.
fn passthrough(host: &Host) -> Option<Cited<bool>> {
    host.log.default_passthrough.clone().or_else(|| host.requests.passthrough.clone())
}

/// The verdict where neither sysfs nor the log shows an active IOMMU.
fn without_active_iommu(host: &Host, adapter: &Adapter) -> Verdict {
    let no_instance = || Citation::of_file("sys/class/iommu", "no IOMMU is registered");
    match (host.iommus.visible, host.log.covers_boot) {
        (true, _) if host.iommus.instances.is_empty() && !host.has_groups() => {
            untranslated(host, adapter, DmaPath::NoIommu, vec![no_instance(), cite_missing_group(adapter)])
        }
        (false, true) => {
            let at = Citation::of_file(&host.log.file, "covers the whole boot and names no active IOMMU");
            untranslated(host, adapter, DmaPath::NoIommu, vec![at])
        }
        (true, _) if host.has_groups() => {
            let verdict = untranslated(host, adapter, DmaPath::NoIommu, vec![cite_missing_group(adapter)]);
            // Without an IOMMU in sysfs the groups are those that somebody listed.
            match host.iommus.instances.is_empty() {
                true => verdict.provided_that("the list of groups is whole"),
                false => verdict,
            }
        }
        (true, _) => unknown(
            "an IOMMU is registered, and no IOMMU group was read: what it does for this adapter is not told",
            host.iommus.instances.iter().map(|instance| instance.at.clone()).collect(),
        ),
        (false, false) => by_what_else_is_known(host, adapter),
    }
}

/// The verdict where the kernel rejected the firmware's table of VT-d units.
fn rejected_table(host: &Host, adapter: &Adapter) -> Option<Verdict> {
    let at = host.log.vt_d_rejected.as_ref()?;
    let verdict = untranslated(host, adapter, DmaPath::NoIommu, vec![at.clone()]);
    Some(verdict.provided_that("no later line of the log shows VT-d in use"))
}

/// The verdict where neither sysfs nor a log of the whole boot tells whether an IOMMU is in use.
fn by_what_else_is_known(host: &Host, adapter: &Adapter) -> Verdict {
    if let Some(gart) = &host.log.gart {
        return untranslated(host, adapter, DmaPath::NoIommu, vec![gart.clone()])
            .provided_that("its mask reaches all memory, as the GART remaps what lies beyond");
    }
    if let Some(rejected) = rejected_table(host, adapter) {
        return rejected;
    }
    if let Some(off) = host.requests.iommu_off() {
        return untranslated(host, adapter, DmaPath::NoIommu, vec![off.at.clone()]);
    }
    // The link `iommu_group` lies beside the mask: whoever copied one would have copied the other.
    if adapter.shows_mask() {
        return untranslated(host, adapter, DmaPath::NoIommu, vec![cite_missing_group(adapter)])
            .provided_that("the capture leaves no IOMMU group out");
    }
    // Default domains matter where an IOMMU is in use, which a guest need not have.
    let default = passthrough(host).filter(|_| host.platform.hypervisor.is_none());
    if let Some(default) = default {
        let verdict = match default.value {
            true => untranslated(host, adapter, DmaPath::Identity, vec![default.at]),
            false => translated(host, vec![default.at]),
        };
        return verdict.provided_that("an IOMMU is in use");
    }
    if let Some(at) = hyper_v(host) {
        let reason = "Hyper-V shows its guests no IOMMU, and nothing inside can change that";
        return Verdict {
            reason: Some(reason.to_owned()),
            ..untranslated(host, adapter, DmaPath::NoIommu, vec![at])
        };
    }
    unknown("neither /sys/class/iommu nor a kernel log of the whole boot was there to read", Vec::new())
}

/// Cites what shows that this is a guest of Hyper-V.
fn hyper_v(host: &Host) -> Option<Citation> {
    let hypervisor = host.platform.hypervisor.as_ref()?;
    (hypervisor.value == Hypervisor::HyperV).then(|| hypervisor.at.clone())
}

/// Direct DMA is bounced when that is forced, or when the mask does not reach all memory
/// (kernel/dma/direct.h, `dma_direct_map_page`).
fn untranslated(host: &Host, adapter: &Adapter, dma_path: DmaPath, mut evidence: Vec<Citation>) -> Verdict {
    if let Some(at) = &host.bounce.forced {
        evidence.push(at.clone());
        let reason = "all streaming DMA that is not translated is copied through swiotlb".to_owned();
        return verdict(DmaPath::Bounce, Some(reason), evidence);
    }
    let is_this = |line: &&MaskOverflow| line.address == Some(adapter.function.address);
    if let Some(overflow) = host.log.mask_overflows.iter().find(is_this) {
        let reason = "mappings beyond its mask failed, so nothing bounces for it".to_owned();
        evidence.push(overflow.at.clone());
        return verdict(dma_path, Some(reason), evidence);
    }
    if let Some((mask, beyond)) = beyond_mask(host, adapter) {
        evidence.extend([mask.at.clone(), beyond.cite().clone()]);
        let condition = match beyond {
            Beyond::EncryptionBit(encryption) if !encryption.is_in_effect => Some(ENCRYPTION_CONDITION),
            _ => None,
        };
        let beyond = format!("its {}-bit mask does not reach {beyond}", mask.value);
        let verdict = match &host.bounce.never {
            Some(never) => {
                evidence.push(never.clone());
                let reason = format!("{beyond}, and bounce buffers are off: mappings above the mask fail");
                verdict(dma_path, Some(reason), evidence)
            }
            None => {
                let reason = format!("{beyond}, and nothing translates: buffers beyond are copied");
                verdict(DmaPath::Bounce, Some(reason), evidence)
            }
        };
        return match condition {
            Some(condition) => verdict.provided_that(condition),
            None => verdict,
        };
    }
    let reason = (dma_path == DmaPath::Identity).then(|| NO_PROTECTION.to_owned());
    let verdict = verdict(dma_path, reason, evidence);
    match adapter.narrow_mask() {
        Some(mask) if host.platform.memory_end.is_none() => {
            verdict.provided_that(&format!("memory ends within its {}-bit mask", mask.value))
        }
        _ => verdict,
    }
}

/// What of memory a mask does not reach.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beyond<'h> {
    /// Memory that ends here.
    Memory(&'h Cited<u64>),
    /// All of it, as the encryption bit is in each address.
    EncryptionBit(&'h HostEncryption),
}

impl Beyond<'_> {
    /// Cites what lies there.
    pub(super) fn cite(&self) -> &Citation {
        match self {
            Self::Memory(end) => &end.at,
            Self::EncryptionBit(encryption) => &encryption.at,
        }
    }
}

impl fmt::Display for Beyond<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(end) => write!(f, "memory up to {:#x}", end.value),
            Self::EncryptionBit(_) => f.write_str(
                "the bit that AMD's memory encryption (SME) sets in the address of each buffer, 47 or 51",
            ),
        }
    }
}

/// The mask and what it does not reach, of the addresses that a device is given where nothing translates.
pub(super) fn beyond_mask<'h>(host: &'h Host, adapter: &'h Adapter) -> Option<(&'h Cited<u32>, Beyond<'h>)> {
    let mask = adapter.dma_mask_bits.as_ref()?;
    let encryption = host.host_encryption.as_ref().filter(|encryption| encryption.is_beyond(mask.value));
    let memory = || memory_beyond_mask(host, adapter).map(|(_, end)| Beyond::Memory(end));
    // What is certain counts first.
    let beyond = match encryption {
        Some(encryption) if encryption.is_in_effect => Some(Beyond::EncryptionBit(encryption)),
        _ => memory().or_else(|| encryption.map(Beyond::EncryptionBit)),
    };
    beyond.map(|beyond| (mask, beyond))
}

/// The mask and the end of memory, if memory goes beyond the mask.
pub(super) fn memory_beyond_mask<'h>(
    host: &'h Host,
    adapter: &'h Adapter,
) -> Option<(&'h Cited<u32>, &'h Cited<u64>)> {
    let mask = adapter.dma_mask_bits.as_ref()?;
    let end = host.platform.memory_end.as_ref()?;
    let reach = 1_u64.checked_shl(mask.value)?;
    (mask.value > 0 && end.value > reach).then_some((mask, end))
}

/// Translated, on a kernel whose groups do not tell lazy from strict: by what the kernel says, what it
/// was told, and its default.
fn translated(host: &Host, mut evidence: Vec<Citation>) -> Verdict {
    match host.invalidation() {
        Some(policy) => {
            let dma_path = if policy.strict { DmaPath::TranslatedStrict } else { DmaPath::TranslatedLazy };
            evidence.extend(policy.evidence);
            let by_default = policy.reason.is_some();
            let verdict = verdict(dma_path, policy.reason, evidence);
            match by_default {
                true => verdict.provided_that("nothing changed how invalidations are run by default"),
                false => verdict,
            }
        }
        None => {
            unknown("translated, but nothing read tells whether invalidations are strict or lazy", evidence)
        }
    }
}
