//! Interrupts that no IOMMU remaps.

use super::{Maker, Rule, iommu_maker, remove_kernel_argument};
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::kernel::Architecture;
use crate::kernel::message::InterruptRemappingMessage as Said;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find: |case: &Case<'_>| finding(case.host).into_iter().collect(),
    explains: &[Explanation {
        id: Id::InterruptsNotRemapped,
        meaning: "The IOMMU does not check interrupts: a device that writes to the right address raises any interrupt it likes. DMA is not \
                  concerned. VFIO gives no device away on such a host.",
        severity: "warning where VFIO refused a device or has one; note otherwise",
        evidence: "the kernel's lines at boot, or VFIO's refusal",
        fix: "update the machine's firmware, whose table of IOMMUs lacks an I/O APIC; remove the option that turns it off",
        risk: "`allow_unsafe_interrupts` of vfio_iommu_type1 gives devices away all the same: a guest can then stop the host",
        verify: "`dmesg` says that interrupt remapping is enabled after the reboot",
    }],
};

/// The finding, if a line says that interrupts are not remapped.
fn finding(host: &Host) -> Option<Finding> {
    let said = &host.log.interrupts_not_remapped;
    let is_refused = said.contains_key(&Said::UserRefused);
    if said.is_empty() || (host.log.remaps_interrupts && !is_refused) {
        return None;
    }
    let off =
        host.options.iter().find(|judged| matches!(judged.part.as_str(), "intremap=off" | "nointremap"));
    let is_given_away = || host.adapters.iter().any(|adapter| adapter.function.vfio_driver().is_some());
    let (why, fix) = if let Some(off) = off {
        ("the command line turns that off", remove_kernel_argument(host, &off.token.at.text))
    } else if host.platform.is_guest() {
        (
            "this guest's IOMMU does not offer that",
            Advice::say(
                "nothing from inside: the hypervisor decides (QEMU: `intremap=on` of its IOMMU, with `kernel-irqchip=split`)",
            ),
        )
    } else if host.platform.architecture.as_ref().is_some_and(Architecture::is_arm) {
        let fix = "nothing, where the interrupt controller does not tell devices apart (GICv2m): of Arm's only one with an ITS (GICv3 and later) does";
        ("the interrupt controller does not tell devices apart", Advice::say(fix))
    } else if said.contains_key(&Said::TableLacksApic) {
        ("firmware's table of IOMMUs lacks an I/O APIC", update_firmware(host))
    } else if said.contains_key(&Said::ChipsetErratum) {
        let fix = "nothing on this machine: firmware can only leave it off, and later steppings of the chipset do not need that";
        ("this chipset has an erratum", Advice::say(fix))
    } else {
        let fix = "look in the boot log for the lines before this one, which name the cause; update the machine's firmware";
        ("the cause is not among the lines read", Advice::say(fix))
    };
    let user = if is_refused { "; so VFIO refuses to give a device to a guest or to user space" } else { "" };
    Some(Finding {
        id: Id::InterruptsNotRemapped,
        severity: if is_refused || is_given_away() { Severity::Warning } else { Severity::Note },
        address: None,
        what: format!("the IOMMU does not check interrupts, DMA is not concerned: {why}{user}"),
        evidence: off.map(|off| off.token.at.clone()).into_iter().chain(said.values().cloned()).collect(),
        fix,
        risk: "`allow_unsafe_interrupts=1` of vfio_iommu_type1 only makes VFIO give devices away all the same: a guest that is not trusted can \
               then raise any interrupt of the host and stop it"
            .to_owned(),
        verify: match iommu_maker(host) {
            Maker::Intel => "`dmesg` says \"Enabled IRQ remapping\" after the reboot",
            Maker::Amd => "`dmesg` says \"Interrupt remapping enabled\" after the reboot",
            Maker::Unknown => "`dmesg` says that interrupt remapping is enabled after the reboot",
        }
        .into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// What to do where firmware's table is wrong.
fn update_firmware(host: &Host) -> Advice {
    let update = Advice::say(
        "update the machine's firmware, or take a build of it whose table is right: it is no fault of the kernel or of a driver",
    );
    match iommu_maker(host) {
        Maker::Amd => update.and_say("; until then `ivrs_ioapic[ID]=ADDRESS` on the command line can name what the table lacks (ID from the line, ADDRESS of the \
                  south bridge's function, often 00:14.0)"),
        Maker::Intel | Maker::Unknown => update,
    }
}
