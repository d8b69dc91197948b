//! The rules: each looks at the case and gives findings.

mod bounce;
mod faults;
mod invalidation;
mod link;
mod memory_type;
mod numa;
mod options;
mod peer;
mod power;
mod protection;
mod sources;

use super::advice::{Advice, is_inert_argument, shown_argument};
use super::decide::domain_type;
use super::{Case, Explanation, Finding};
use crate::Bdf;
use crate::facts::iommu::DomainType;
use crate::facts::{Adapter, Host};
use crate::kernel::CpuVendor;
use escape::shell::Command;

/// A rule: the function that finds, and what its findings mean.
pub(super) struct Rule {
    find: fn(&Case<'_>) -> Vec<Finding>,
    pub(super) explains: &'static [Explanation],
}

pub(super) const RULES: &[Rule] = &[
    bounce::RULE,
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

/// All findings, in no particular order.
pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    RULES.iter().flat_map(|rule| (rule.find)(case)).collect()
}

/// `1 adapter`, `3 adapters`.
fn counted(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {noun}{plural}")
}

const GRUB_FILE: &str = ", or GRUB_CMDLINE_LINUX in /etc/default/grub and update-grub) and reboot";
const SAME_FILE: &str = ", or /etc/default/grub and update-grub) and reboot";
const BY_HAND: &str = " by hand, in the boot loader's configuration, and reboot: it has characters that a shell or a boot \
                       loader interprets";

fn grubby() -> Command {
    Command::new("grubby").arg("--update-kernel=ALL")
}

/// Where a kernel argument of iotoll's own is put for good, by what the host's boot loader probably is.
fn kernel_argument(argument: &str) -> Advice {
    Advice::say(format!("add `{argument}` to the kernel command line ("))
        .and_run(grubby().option("--args=", argument))
        .and_say(GRUB_FILE)
}

/// The same for an argument of the host's that must go.
fn without_kernel_argument(argument: &str) -> Advice {
    let take = format!("take {} off the kernel command line", shown_argument(argument));
    if !is_inert_argument(argument) {
        return Advice::say(take + BY_HAND);
    }
    Advice::say(take + " (").and_run(grubby().option("--remove-args=", argument)).and_say(SAME_FILE)
}

/// The same for one word of an argument, whose other words stay: `strict` of `intel_iommu=on,strict`.
fn without_word(argument: &str, word: &str) -> Advice {
    let Some((name, value)) = argument.split_once('=') else { return without_kernel_argument(argument) };
    let kept: Vec<&str> = value.split(',').filter(|other| *other != word).collect();
    if kept.is_empty() || kept.len() == value.split(',').count() {
        return without_kernel_argument(argument);
    }
    let take = format!(
        "take {} out of {} on the kernel command line",
        shown_argument(word),
        shown_argument(argument)
    );
    if !is_inert_argument(argument) {
        return Advice::say(take + BY_HAND);
    }
    let kept = format!("{name}={}", kept.join(","));
    Advice::say(take + " (")
        .and_run(grubby().option("--remove-args=", argument).option("--args=", kept))
        .and_say(SAME_FILE)
}

/// Whose IOMMU the machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Maker {
    Intel,
    Amd,
    Unknown,
}

/// By the processor, or where that was not read, by the firmware's table.
pub(super) fn maker(host: &Host) -> Maker {
    let table = host.log.iommu_tables.as_ref().map_or("", |at| at.text.as_str());
    match host.platform.cpu_vendor.as_ref().map(|cited| &cited.value) {
        Some(CpuVendor::Intel) => Maker::Intel,
        Some(vendor) if vendor.has_amd_vi() => Maker::Amd,
        _ if table.contains("DMAR") => Maker::Intel,
        _ if table.contains("IVRS") => Maker::Amd,
        _ => Maker::Unknown,
    }
}

/// How an IOMMU that is not in use is turned on; `beside` are arguments to give with it.
fn turn_on(host: &Host, beside: &str) -> Advice {
    let argument = |option: &str| kernel_argument(format!("{option} {beside}").trim_end());
    match maker(host) {
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

/// How an untranslated adapter gets translated. An IOMMU that passes addresses through is on already.
fn confine(host: &Host, adapter: &Adapter) -> Advice {
    let passes_through = domain_type(host, adapter)
        .is_some_and(|domain| domain.value == DomainType::Identity)
        || host.log.translation_active.is_some();
    if passes_through { translate(host, adapter) } else { turn_on(host, "") }
}

/// How an adapter of an identity domain gets a translating one.
fn translate(host: &Host, adapter: &Adapter) -> Advice {
    let asked = host.requests.passthrough.as_ref().filter(|cited| cited.value);
    let for_all = match asked {
        Some(asked) => without_word(&asked.at.text, "pt"),
        None => kernel_argument("iommu.passthrough=0"),
    };
    // `type` may be written since 5.11, and in RHEL 8.
    let writable = host.kernel().is_some_and(|kernel| kernel.at_least(5, 11) || kernel.rhel() == Some(8));
    match adapter.function.iommu_group.as_ref().filter(|_| writable) {
        Some(group) => for_all
            .and_say("; or, for its group alone, ")
            .and_run(Command::write("DMA", group_type(group.value)))
            .and_say(" with the driver unbound"),
        None => for_all,
    }
}

/// The file that holds the type of a group's domain.
fn group_type(group: u32) -> String {
    format!("/sys/kernel/iommu_groups/{group}/type")
}

/// Shows a device's registers with lspci, of which `register` is looked at.
fn lspci_register(address: Bdf, register: &'static str) -> Command {
    Command::new("lspci").arg("-vvs").arg(address.to_string()).pipe(Command::new("grep").arg(register))
}
