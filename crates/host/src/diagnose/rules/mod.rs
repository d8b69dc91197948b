//! The rules: each derives findings from the facts about a host and the DMA paths of its adapters.

mod boot_loader;
mod bounce;
mod device_gone;
mod errors;
mod fault_remedy;
mod faults;
mod gart;
mod group_not_viable;
mod interrupt_remapping;
mod invalidation;
mod invalidation_timeout;
mod iova_width;
mod isolation;
mod line_edit;
mod link;
mod memory_type;
mod mtrr_layout;
mod numa;
mod options;
mod peer;
mod power;
mod protection;
mod rdma;
mod refused_allocation;
mod sources;
mod unplaced;
mod unusable_iommu;

use super::advice::Advice;
use super::decide::domain_type;
use super::{Case, Explanation, Finding};
use crate::Bdf;
use crate::facts::iommu::{DomainType, Group, Instance, Kind};
use crate::facts::{Adapter, Host};
use crate::kernel::{Architecture, CpuVendor, Effect};
use escape::shell::Command;
use line_edit::{LineEdit, add_kernel_argument, remove_kernel_argument};
use std::collections::BTreeMap;

/// A rule: a function that returns findings, and the explanations of these findings.
pub(super) struct Rule {
    find: fn(&Case<'_>) -> Vec<Finding>,
    pub(super) explains: &'static [Explanation],
}

pub(super) const RULES: &[Rule] = &[
    bounce::RULE,
    device_gone::RULE,
    errors::RULE,
    faults::RULE,
    gart::RULE,
    group_not_viable::RULE,
    interrupt_remapping::RULE,
    invalidation::RULE,
    invalidation_timeout::RULE,
    iova_width::RULE,
    isolation::RULE,
    link::RULE,
    memory_type::RULE,
    mtrr_layout::RULE,
    numa::RULE,
    options::RULE,
    peer::RULE,
    power::RULE,
    protection::RULE,
    rdma::RULE,
    refused_allocation::RULE,
    sources::RULE,
    unplaced::RULE,
    unusable_iommu::RULE,
];

/// The findings of all rules, in no particular order.
pub(super) fn find_all(case: &Case<'_>) -> Vec<Finding> {
    RULES.iter().flat_map(|rule| (rule.find)(case)).collect()
}

/// `1 adapter`, `3 adapters`.
fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

/// Whether it is known to be an adapter: of a function whose class nothing read tells, it may be a bridge.
fn is_surely_adapter(host: &Host, adapter: &Adapter) -> bool {
    adapter.function.ids.class.is_some() || host.iommus.visible
}

/// Lines of the log by the adapter that they are about, if they name one.
fn by_address<T>(
    lines: impl IntoIterator<Item = T>,
    address: impl Fn(&T) -> Option<Bdf>,
) -> BTreeMap<Option<Bdf>, Vec<T>> {
    let mut by_address: BTreeMap<_, Vec<T>> = BTreeMap::new();
    for line in lines {
        by_address.entry(address(&line)).or_default().push(line);
    }
    by_address
}

/// The vendor of an x86 machine's IOMMU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    Intel,
    Amd,
    Unknown,
}

/// The vendor of the machine's IOMMU, by the processor's vendor or else by the name of the ACPI table in the log.
pub(super) fn iommu_maker(host: &Host) -> Maker {
    let table = host.log.iommu_tables.as_ref().map_or("", |at| at.text.as_str());
    match host.platform.cpu_vendor.as_ref().map(|cited| &cited.value) {
        Some(CpuVendor::Intel) => Maker::Intel,
        Some(vendor) if vendor.has_amd_vi() => Maker::Amd,
        _ if table.contains("DMAR") => Maker::Intel,
        _ if table.contains("IVRS") => Maker::Amd,
        // Only AMD has this way to encrypt memory.
        _ if host.log.host_encryption.is_some() => Maker::Amd,
        _ => Maker::Unknown,
    }
}

/// What default domains are to be once the IOMMU is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DefaultDomain {
    /// What the line says today.
    AsIs,
    /// Addresses pass through for drivers of the kernel.
    Identity,
    /// Addresses are translated.
    Translated,
}

/// How an IOMMU that is not in use is turned on.
fn turn_iommu_on(host: &Host, domain: DefaultDomain) -> Advice {
    // A guest whose firmware lists an IOMMU has one.
    let hypervisor = host.platform.hypervisor.as_ref().filter(|_| host.log.iommu_tables.is_none());
    if let Some(hypervisor) = hypervisor {
        let prose = format!(
            "nothing from inside: this is a guest of {}, whose administrator decides whether it has an IOMMU",
            hypervisor.value.name()
        );
        return prose.into();
    }

    let off = [Effect::Iommu(false)];
    let argument = |option: &str| {
        let on = LineEdit::of(host).stop_asking(&off).add(option);
        match domain {
            DefaultDomain::AsIs => on,
            DefaultDomain::Identity => pass_through(on),
            DefaultDomain::Translated => on.stop_asking(&[Effect::Passthrough(true)]),
        }
        .advice()
    };
    let in_firmware = |place: &str| {
        let enable = format!("enable {place} in the firmware's setup");
        match LineEdit::asks(host, &off) {
            true => argument("").and_say("; if none is in use then, ").and_say(enable),
            false => Advice::say(enable),
        }
    };
    const UNASKED: &str = ": the kernel then uses it without an option";
    let is_asked = LineEdit::asks(host, &[Effect::Iommu(true)]) && !LineEdit::asks(host, &off);
    match iommu_maker(host) {
        Maker::Intel if is_asked => in_firmware("VT-d").and_say(": the command line asks for it already"),
        Maker::Intel => argument("intel_iommu=on"),
        // AMD-Vi needs no option, and `amd_iommu=on` is none; `force_enable` is for one chipset that the kernel distrusts.
        Maker::Amd => in_firmware("IOMMU (AMD-Vi)").and_say(UNASKED),
        Maker::Unknown => in_firmware("the IOMMU (VT-d, AMD-Vi or SMMU)"),
    }
}

/// With identity as the default domain.
fn pass_through(edit: LineEdit<'_>) -> LineEdit<'_> {
    let is_arm = edit.host().platform.architecture.as_ref().is_some_and(Architecture::is_arm);
    let option = if is_arm { "iommu.passthrough=1" } else { "iommu=pt" };
    edit.stop_asking(&[Effect::Passthrough(false)]).add(option)
}

/// How the DMA of an adapter gets translated. If the IOMMU passes addresses through, it is on already.
fn translate_adapter(host: &Host, adapter: &Adapter) -> Advice {
    match domain_type(host, adapter).map(|domain| domain.value) {
        Some(DomainType::Identity) => replace_identity_domain(host, adapter),
        _ if host.log.translation_active.is_some() => replace_identity_domain(host, adapter),
        _ => turn_iommu_on(host, DefaultDomain::Translated),
    }
}

/// How an adapter with an identity domain gets a translating domain.
fn replace_identity_domain(host: &Host, adapter: &Adapter) -> Advice {
    let identity = [Effect::Passthrough(true)];
    let is_asked = LineEdit::asks(host, &identity);
    // The line that tells the default came before what the IOMMU's driver then made of this device.
    if !is_asked && host.log.default_passthrough.as_ref().is_some_and(|said| !said.value) {
        return "no option: domains are translated by default, and the IOMMU's driver passes this device through by itself (of \
                AMD devices with PASID, for graphics `igfx_off` of `intel_iommu=`, or as firmware asks)"
            .into();
    }
    // x86 and Arm ask the core for the default since 5.4 and 4.14.
    let is_x86 = host.platform.architecture.as_ref().is_none_or(Architecture::is_x86);
    let known = if is_x86 { ((4, 19), (5, 4)) } else { ((4, 9), (4, 14)) };
    let is_known = host.kernel().is_none_or(|kernel| kernel.knows(known.0, known.1) == Some(true));
    let for_all = match (is_asked, is_known) {
        (true, _) => LineEdit::of(host).stop_asking(&identity).advice(),
        (false, true) => add_kernel_argument(host, "iommu.passthrough=0"),
        (false, false) => {
            return "nothing read asks for identity, and this kernel has no option against it: look into its configuration \
                    and the boot log for what does"
                .into();
        }
    };
    match adapter.function.iommu_group.as_ref().filter(|group| takes_type(host, group.value)) {
        Some(group) => for_all
            .and_say("; or, for its group alone, ")
            .and_run(Command::write("DMA", group_type_file(group.value)))
            .and_say(" with the drivers of all its members unbound, which stops them"),
        None => for_all,
    }
}

/// Whether the kernel lets the type of a group be changed: since 5.11 and in RHEL 8; of groups with several members it refuses it
/// in 6.1, and no longer in 6.12 (drivers/iommu/iommu.c, `iommu_group_store_type`).
///
/// Only of IOMMUs whose drivers have batches and both kinds of domain.
fn takes_type(host: &Host, group: u32) -> bool {
    let Some(kernel) = host.kernel() else { return false };
    let has_both =
        |instance: &Instance| matches!(instance.kind, Kind::VtD | Kind::AmdVi | Kind::SmmuV3 | Kind::Smmu);
    if !host.iommus.instances.iter().all(has_both) {
        return false;
    }
    let is_alone = host.iommus.groups.get(&group).is_some_and(Group::is_single);
    let writable = kernel.at_least(5, 11) || kernel.rhel() == Some(8);
    writable && (is_alone || kernel.knows((6, 1), (6, 12)) == Some(true))
}

/// Whether an adapter, or another of its group, is on a port that can be reached from outside: the kernel then takes it for
/// untrusted (drivers/pci/probe.c, `set_pcie_untrusted`), and gives the group no other domain than a strict one.
fn is_untrusted(host: &Host, adapter: &Adapter) -> bool {
    let is_removable = |other: &Adapter| other.cite_removable().is_some();
    let group = adapter.function.iommu_group.as_ref().and_then(|group| host.iommus.groups.get(&group.value));
    let members = group.iter().flat_map(|group| &group.members).filter_map(|address| host.adapter(*address));
    is_removable(adapter) || members.into_iter().any(is_removable)
}

/// The sysfs file that shows and sets the domain type of an IOMMU group.
fn group_type_file(group: u32) -> String {
    format!("/sys/kernel/iommu_groups/{group}/type")
}

/// A command that prints one register of a device.
fn lspci_register(address: Bdf, register: &'static str) -> Command {
    Command::new("lspci").arg("-vvs").arg(address.to_string()).pipe(Command::new("grep").arg(register))
}
