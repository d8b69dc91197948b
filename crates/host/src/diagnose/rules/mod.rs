//! The rules: each derives findings from the facts about a host and the DMA paths of its adapters.

mod bounce;
mod errors;
mod faults;
mod invalidation;
mod kernel_argument;
mod link;
mod memory_type;
mod numa;
mod options;
mod peer;
mod power;
mod protection;
mod sources;

use super::advice::Advice;
use super::decide::domain_type;
use super::{Case, Explanation, Finding};
use crate::Bdf;
use crate::facts::iommu::DomainType;
use crate::facts::{Adapter, Host};
use crate::kernel::CpuVendor;
use escape::shell::Command;
use kernel_argument::{add_kernel_argument, remove_kernel_argument, remove_word};

/// A rule: a function that returns findings, and the explanations of these findings.
pub(super) struct Rule {
    find: fn(&Case<'_>) -> Vec<Finding>,
    pub(super) explains: &'static [Explanation],
}

pub(super) const RULES: &[Rule] = &[
    bounce::RULE,
    errors::RULE,
    faults::RULE,
    invalidation::RULE,
    link::RULE,
    memory_type::RULE,
    numa::RULE,
    options::RULE,
    peer::RULE,
    power::RULE,
    protection::RULE,
    sources::RULE,
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
        _ => Maker::Unknown,
    }
}

/// How an IOMMU that is not in use is turned on; `beside` holds arguments that are added with the IOMMU's own.
fn turn_iommu_on(host: &Host, beside: &str) -> Advice {
    // A guest whose firmware lists an IOMMU has one.
    let hypervisor = host.platform.hypervisor.as_ref().filter(|_| host.log.iommu_tables.is_none());
    if let Some(hypervisor) = hypervisor {
        let prose = format!(
            "nothing from inside: this is a guest of {}, whose administrator decides whether it has an IOMMU",
            hypervisor.value.name()
        );
        return prose.into();
    }

    let argument = |option: &str| add_kernel_argument(host, format!("{option} {beside}").trim_end());
    match iommu_maker(host) {
        Maker::Intel => argument("intel_iommu=on"),
        // AMD-Vi needs no option, and `amd_iommu=on` is none. 5.13 brought one for machines whose IOMMU
        // the kernel distrusts.
        Maker::Amd if host.kernel().is_none_or(|kernel| kernel.at_least(5, 13)) => Advice::say(
            "enable IOMMU (AMD-Vi) in the firmware's setup: the kernel then uses it without an option; where it \
             does not, ",
        )
        .and(argument("amd_iommu=force_enable")),
        Maker::Amd => {
            "enable IOMMU (AMD-Vi) in the firmware's setup: the kernel then uses it without an option".into()
        }
        Maker::Unknown => "enable the IOMMU (VT-d, AMD-Vi or SMMU) in the firmware's setup".into(),
    }
}

/// How the DMA of an adapter gets translated. If the IOMMU passes addresses through, it is on already.
fn translate_adapter(host: &Host, adapter: &Adapter) -> Advice {
    let passes_through = domain_type(host, adapter)
        .is_some_and(|domain| domain.value == DomainType::Identity)
        || host.log.translation_active.is_some();
    if passes_through { replace_identity_domain(host, adapter) } else { turn_iommu_on(host, "") }
}

/// How an adapter with an identity domain gets a translating domain.
fn replace_identity_domain(host: &Host, adapter: &Adapter) -> Advice {
    let asked = host.requests.passthrough.as_ref().filter(|cited| cited.value);
    let for_all = match asked {
        Some(asked) => remove_word(host, &asked.at.text, "pt"),
        None => add_kernel_argument(host, "iommu.passthrough=0"),
    };
    // `type` may be written since 5.11, and in RHEL 8.
    let writable = host.kernel().is_some_and(|kernel| kernel.at_least(5, 11) || kernel.rhel() == Some(8));
    match adapter.function.iommu_group.as_ref().filter(|_| writable) {
        Some(group) => for_all
            .and_say("; or, for its group alone, ")
            .and_run(Command::write("DMA", group_type_file(group.value)))
            .and_say(" with the driver unbound"),
        None => for_all,
    }
}

/// The sysfs file that shows and sets the domain type of an IOMMU group.
fn group_type_file(group: u32) -> String {
    format!("/sys/kernel/iommu_groups/{group}/type")
}

/// A command that prints one register of a device.
fn lspci_register(address: Bdf, register: &'static str) -> Command {
    Command::new("lspci").arg("-vvs").arg(address.to_string()).pipe(Command::new("grep").arg(register))
}
