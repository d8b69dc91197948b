//! Where the IOMMU protects less than it could.

use super::{
    DefaultDomain, LineEdit, Maker, Rule, counted, iommu_maker, is_surely_adapter, translate_adapter,
    turn_iommu_on,
};
use crate::Citation;
use crate::diagnose::decide::{beyond_mask, domain_type};
use crate::diagnose::{Advice, Case, DmaPath, Explanation, Finding, Id, Severity, Verdict};
use crate::facts::iommu::{DomainType, Group};
use crate::facts::{Adapter, Host};
use crate::kernel::Effect;
use crate::pci::Kind;
use escape::shell::Command;
use std::collections::BTreeSet;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[
        Explanation {
            id: Id::PassthroughExposed,
            meaning: "A port that can be reached from outside (Thunderbolt, USB4, ExpressCard) has an \
                      adapter whose DMA nothing confines: what is plugged in there can read and write all \
                      memory.",
            severity: "warning",
            evidence: "the adapter's DMA path, and `removable` in sysfs or a Thunderbolt port above it",
            fix: "let the IOMMU translate: remove `iommu=pt`, or turn the IOMMU on",
            risk: "each I/O then pays for a mapping; untrusted devices also run in strict mode and are \
                   bounced",
            verify: "`iotoll inspect` shows it translated-strict or translated-lazy",
        },
        Explanation {
            id: Id::UserWithoutIommu,
            meaning: "A program in user space drives the adapter (UIO, or VFIO without an IOMMU), and no \
                      IOMMU confines it: a wrong address in that program reads or overwrites any memory.",
            severity: "warning",
            evidence: "the bound driver, and the kernel's taint line for VFIO without an IOMMU",
            fix: "turn the IOMMU on and bind the adapter to vfio-pci: `driverctl set-override ADDRESS \
                  vfio-pci`",
            risk: "the program must map its memory through VFIO first (DPDK: `--iova-mode=va`; SPDK does it \
                   by itself); locked memory counts against RLIMIT_MEMLOCK",
            verify: "`readlink /sys/bus/pci/devices/ADDRESS/driver` ends in vfio-pci, and the device has an \
                     `iommu_group`",
        },
        Explanation {
            id: Id::UserAttachRefused,
            meaning: "Firmware keeps memory mapped for the adapter (RMRR on Intel, IVMD on AMD, RMR on Arm), so \
                      the kernel refuses to give it to a guest or to a program of user space.",
            severity: "warning",
            evidence: "the kernel's line on the refusal",
            fix: "a firmware update or setting that no longer reserves memory for this slot or device; no \
                  kernel option of mainline helps",
            risk: "options of patched kernels (`intel_iommu=relax_rmrr`) ignore what firmware asks for: \
                   management processors may then write into memory of the guest",
            verify: "the program or guest starts, and no new such line in `dmesg`",
        },
        Explanation {
            id: Id::SnpRefused,
            meaning: "SEV-SNP was refused, because it needs an IOMMU that translates, and this one is off or \
                      passes addresses through.",
            severity: "warning",
            evidence: "the kernel's line, and the option that turns translation off",
            fix: "remove `iommu=pt` or the option that turns the IOMMU off",
            risk: "each I/O of the host then pays for a mapping",
            verify: "`dmesg` announces SNP after the reboot",
        },
        Explanation {
            id: Id::GroupShared,
            meaning: "Adapters of different cards share an IOMMU group: they can reach each other's buffers, \
                      and only all of them together can go to a guest or to user space.",
            severity: "note",
            evidence: "the members of the group in sysfs",
            fix: "put the adapter to be given away into a slot of its own root port, or below a switch with \
                  ACS; some firmware has an ACS setting",
            risk: "`pcie_acs_override=` (a patch outside the kernel) only pretends isolation: the hardware \
                   still does not isolate",
            verify: "`ls /sys/kernel/iommu_groups/GROUP/devices` lists one card",
        },
        Explanation {
            id: Id::IommuOff,
            meaning: "The machine has an IOMMU, or the command line asks for one, and none works: firmware \
                      keeps it off or describes it wrongly, an option turns it off, or the kernel does not \
                      use it without an option.",
            severity: "warning where firmware is the cause; note where it is a choice",
            evidence: "the ACPI tables in the kernel log (DMAR, IVRS, IORT), the kernel's complaints about \
                       them, and the command line",
            fix: "by the cause: update the firmware or enable VT-d, AMD-Vi or SMMU in its setup; remove the \
                  option; add `intel_iommu=on iommu=pt`",
            risk: "with translation each I/O pays for a mapping; `iommu=pt` beside it costs kernel drivers \
                   nothing, and protects for guests and user space only",
            verify: "`/sys/class/iommu` lists an IOMMU after the reboot",
        },
    ],
};

/// Findings about isolation between devices, memory and user space.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let exposed = case.adapters().filter_map(|(adapter, verdict)| exposed(case.host, adapter, verdict));
    let user =
        case.adapters().filter_map(|(adapter, verdict)| user_without_iommu(case.host, adapter, verdict));
    let refused = attach_refused(case.host).chain(snp_refused(case.host));
    exposed.chain(user).chain(refused).chain(shared_groups(case.host)).chain(iommu_off(case)).collect()
}

/// A stranger's device on a port that can be reached from outside reads all memory.
fn exposed(host: &Host, adapter: &Adapter, verdict: &Verdict) -> Option<Finding> {
    // What is copied for a narrow mask is no more confined; only encrypted memory can't be read.
    let open = matches!(verdict.dma_path, DmaPath::Identity | DmaPath::NoIommu | DmaPath::Bounce)
        && host.log.memory_encryption.is_none();
    if !open || adapter.virtio.is_some() {
        return None;
    }
    let at = reachable_from_outside(host, adapter)?;
    let mut evidence = verdict.evidence.clone();
    evidence.push(at);
    Some(Finding {
        id: Id::PassthroughExposed,
        severity: Severity::Warning,
        address: Some(adapter.function.address),
        what: "it is on a port that can be reached from outside, and nothing confines its DMA: what is plugged in \
               there can read and write all memory"
            .to_owned(),
        evidence,
        fix: Advice::say("translate for it: ").and(translate_adapter(host, adapter)),
        risk: "each I/O then pays for a mapping; untrusted devices are also run strict and bounced".to_owned(),
        verify: "`iotoll inspect` shows it translated-strict or translated-lazy".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// Cites what shows that devices can be plugged in from outside.
fn reachable_from_outside(host: &Host, adapter: &Adapter) -> Option<Citation> {
    if let Some(at) = adapter.cite_removable() {
        return Some(at.clone());
    }
    let above = adapter.function.upstream.iter().filter_map(|address| host.bridges.get(address));
    let thunderbolt = |class: crate::pci::ClassCode| class.kind() == Kind::Thunderbolt;
    above
        .filter(|bridge| bridge.ids.class.is_some_and(thunderbolt))
        .map(|bridge| Citation::of_file(&bridge.source, "Thunderbolt or USB4 port above it"))
        .next()
}

/// A finding on an adapter that user space drives without an IOMMU.
fn user_without_iommu(host: &Host, adapter: &Adapter, verdict: &Verdict) -> Option<Finding> {
    if verdict.dma_path != DmaPath::User {
        return None;
    }
    let driver = adapter.function.driver.as_ref()?;
    let no_iommu = host.log.no_iommu_taint(adapter.function.address);
    let group = adapter.function.iommu_group.as_ref().filter(|_| no_iommu.is_none());
    // A UIO driver maps nothing: a translating domain then lets nothing through, others everything.
    let is_open_uio = driver.value.contains("uio")
        && !domain_type(host, adapter)
            .is_some_and(|domain| matches!(domain.value, DomainType::Dma | DomainType::DmaFq));
    let no_group = group.is_none() && host.iommus.visible && host.iommus.instances.is_empty();
    if !is_open_uio && !no_group && no_iommu.is_none() {
        return None;
    }
    // Whether an IOMMU is in use: a text may show neither sysfs nor the boot.
    let is_known = host.iommus.visible || host.log.covers_boot || no_iommu.is_some();
    let mut evidence = vec![driver.at.clone()];
    evidence.extend(no_iommu.cloned());
    Some(Finding {
        id: Id::UserWithoutIommu,
        severity: Severity::Warning,
        address: Some(adapter.function.address),
        what: format!(
            "user space drives it through {}, and no IOMMU confines it{}: a wrong address in that program reads or \
             overwrites any memory",
            driver.value,
            if is_known { "" } else { " unless one translates for the whole host, which then lets nothing through" }
        ),
        evidence,
        fix: match group.is_some() {
            true => Advice::say("give it to vfio-pci, whose mappings the IOMMU enforces: ")
                .and_run(give_to_vfio(adapter)),
            false if host.platform.hypervisor.is_some() => turn_iommu_on(host, DefaultDomain::AsIs),
            false => Advice::say(if is_known { "turn the IOMMU on (" } else { "if no IOMMU is in use, turn it on (" })
                .and(turn_iommu_on(host, DefaultDomain::AsIs))
                .and_say("), then ")
                .and_run(give_to_vfio(adapter)),
        },
        risk: "the program must map its memory through VFIO first (DPDK: --iova-mode=va; SPDK does it by itself); \
               locked memory counts against RLIMIT_MEMLOCK"
            .to_owned(),
        verify: Advice::run(
            Command::new("readlink")
                .arg(format!("/sys/bus/pci/devices/{}/driver", adapter.function.address)),
        )
        .and_say(" ends in vfio-pci, and an iommu_group is there"),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// Findings on adapters that the kernel refused to give to user space.
fn attach_refused(host: &Host) -> impl Iterator<Item = Finding> {
    host.log.user_attach_refused.iter().map(|(address, at)| Finding {
        id: Id::UserAttachRefused,
        severity: Severity::Warning,
        address: *address,
        what: format!(
            "firmware keeps memory mapped for a device ({}), so the kernel refuses to give it to a guest or to a program of user \
             space",
            match iommu_maker(host) {
                Maker::Intel => "RMRR",
                Maker::Amd => "IVMD",
                Maker::Unknown => "Intel calls it RMRR, AMD IVMD, Arm RMR",
            }
        ),
        evidence: vec![at.clone()],
        fix: "update the machine's firmware, or turn off there what reserves memory for this slot or device; no kernel \
              option of mainline helps"
            .into(),
        risk: "patched kernels can ignore what firmware asks for (on Intel `intel_iommu=relax_rmrr`): a management processor may \
               then write into memory of the guest"
            .to_owned(),
        verify: "the guest or program starts, and no new such line in `dmesg`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// A finding if SEV-SNP was refused because the IOMMU does not translate.
fn snp_refused(host: &Host) -> Option<Finding> {
    let at = host.log.snp_refused.as_ref()?;
    let asked = host.requests.passthrough.as_ref().filter(|asked| asked.value);
    let off = host.requests.iommu_off();
    let prevents = [Effect::Passthrough(true), Effect::Iommu(false)];
    let fix = match LineEdit::asks(host, &prevents) {
        true => LineEdit::of(host).stop_asking(&prevents).advice(),
        false => "turn the IOMMU on in the firmware's setup, and have it translate (no `iommu=pt`)".into(),
    };
    let options = [asked, off].into_iter().flatten().map(|asked| asked.at.clone());
    Some(Finding {
        id: Id::SnpRefused,
        severity: Severity::Warning,
        address: None,
        what: "SEV-SNP is not available: it needs an IOMMU that translates, and this one is off or passes addresses through"
            .to_owned(),
        evidence: std::iter::once(at.clone()).chain(options).collect(),
        fix,
        risk: "each I/O of the host then pays for a mapping".to_owned(),
        verify: "`dmesg` announces SNP after the reboot".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// The command that binds the adapter to vfio-pci.
fn give_to_vfio(adapter: &Adapter) -> Command {
    Command::new("driverctl").arg("set-override").arg(adapter.function.address.to_string()).arg("vfio-pci")
}

/// Groups whose members are more than the functions of one card: none of them can be given to user
/// space or a guest alone.
fn shared_groups(host: &Host) -> Vec<Finding> {
    // A POWER group is a partition endpoint; the hypervisor decides what hangs on it.
    if host.is_power() {
        return Vec::new();
    }
    host.iommus.groups.values().filter_map(|group| shared_group(host, group)).collect()
}

/// A finding on a group that several adapters share.
fn shared_group(host: &Host, group: &Group) -> Option<Finding> {
    // Most groups have one member; looking for it among ten thousand adapters would be for nothing.
    if group.members.len() < 2 {
        return None;
    }
    let members: Vec<&Adapter> = host
        .adapters
        .iter()
        .filter(|adapter| group.members.contains(&adapter.function.address))
        .filter(|adapter| is_surely_adapter(host, adapter))
        .collect();
    let cards: BTreeSet<(u32, u8, u8)> = members.iter().filter_map(|adapter| card(adapter)).collect();
    let in_use =
        members.iter().filter(|adapter| adapter.function.driver.is_some() || !host.shows_drivers).count();
    let beside_card =
        members.iter().filter(|adapter| members.iter().any(|other| is_of_card(adapter, other))).count();
    let who = match beside_card {
        _ if cards.len() >= 2 && in_use >= 2 => {
            format!("{} that have nothing to do with each other", counted(members.len(), "adapter"))
        }
        1 => "1 virtual function and its card".to_owned(),
        2.. => format!("{} and their card", counted(beside_card, "virtual function")),
        _ => return None,
    };
    let list: Vec<String> = members.iter().map(|adapter| adapter.function.address.to_string()).collect();
    let group_of = |adapter: &&Adapter| {
        let listed = adapter.function.iommu_group.as_ref();
        listed.or_else(|| host.log.groups.get(&adapter.function.address)).map(|cited| cited.at.clone())
    };
    let evidence = match host.iommus.visible {
        true => {
            let folder = format!("sys/kernel/iommu_groups/{}/devices", group.number);
            vec![Citation::of_file(&folder, &list.join(" "))]
        }
        false => members.iter().filter_map(group_of).collect(),
    };
    Some(Finding {
        id: Id::GroupShared,
        severity: Severity::Note,
        address: members.first().map(|adapter| adapter.function.address),
        what: format!(
            "{who} share IOMMU group {} ({}): they can reach each other's buffers, and only all together can go to a guest or to \
             user space",
            group.number,
            list.join(", ")
        ),
        evidence,
        fix: "put the adapter to be given away into a slot of its own root port, or one below a switch with ACS \
              (lspci -vv: ACSCap); some firmware offers an ACS setting"
            .into(),
        risk: "pcie_acs_override= (a patch outside the kernel) only pretends isolation: the hardware still does \
               not isolate"
            .to_owned(),
        verify: Advice::run(
            Command::new("ls").arg(format!("/sys/kernel/iommu_groups/{}/devices", group.number)),
        )
        .and_say(" lists one card"),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// The domain, bus and device number that all functions of a card share. For a virtual function they are its physical function's;
/// `None` if nothing read names that.
fn card(adapter: &Adapter) -> Option<(u32, u8, u8)> {
    let own = Some(adapter.function.address).filter(|_| !adapter.is_virtual_function());
    adapter.virtualisation.physical.or(own).map(|at| (at.domain, at.bus, at.device))
}

/// Whether an adapter is a virtual function and the other a function of its card; where nothing read names its physical function, one on
/// the same bus.
fn is_of_card(adapter: &Adapter, other: &Adapter) -> bool {
    let is_pair = adapter.is_virtual_function() && !other.is_virtual_function();
    let bus = |adapter: &Adapter| (adapter.function.address.domain, adapter.function.address.bus);
    is_pair && card(adapter).map_or_else(|| bus(adapter) == bus(other), |own| card(other) == Some(own))
}

/// An IOMMU that firmware shows, or that was asked for, and that does not work.
fn iommu_off(case: &Case<'_>) -> Option<Finding> {
    let host = case.host;
    let untranslated = case.shows_no_iommu();
    let active = host.log.translation_active.is_some() || !host.iommus.instances.is_empty();
    let none_in_use =
        host.adapters.is_empty() && (host.iommus.visible || host.requests.iommu_off().is_some());
    if active || !(untranslated || none_in_use) {
        return None;
    }
    // Passed through, these would be where they are.
    let must_translate = |adapter: &Adapter| {
        beyond_mask(host, adapter).is_some() || reachable_from_outside(host, adapter).is_some()
    };
    let domain = match case.working().any(|(adapter, _)| must_translate(adapter)) {
        true => DefaultDomain::Translated,
        false => DefaultDomain::Identity,
    };
    let (severity, what, evidence, fix) = why_iommu_is_off(host, domain)?;
    Some(Finding {
        id: Id::IommuOff,
        severity,
        address: None,
        what,
        evidence,
        fix,
        risk:
            "with translation each I/O pays for a mapping; iommu=pt beside it keeps the price at nothing for \
               kernel drivers, and the protection for guests and user space only"
                .to_owned(),
        verify: "/sys/class/iommu lists an IOMMU after the reboot".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

type WhyOff = (Severity, String, Vec<Citation>, Advice);

/// Why the IOMMU is not in use: severity, words, evidence and fix.
fn why_iommu_is_off(host: &Host, domain: DefaultDomain) -> Option<WhyOff> {
    let off = host.requests.iommu_off();
    // The kernel says that AMD-Vi is disabled where an option asks for it, too.
    // VT-d's lines on firmware are printed for interrupt remapping too, where nobody asked for translation.
    let is_cause = host.log.vt_d_rejected.is_some()
        || iommu_maker(host) != Maker::Intel
        || host.requests.iommu_on().is_some();
    if let Some(trouble) = host.log.iommu_trouble.first().filter(|_| off.is_none() && is_cause) {
        let what = "the machine has an IOMMU, and the kernel could not use it: firmware describes it wrongly"
            .to_owned();
        let fix = "update the firmware; until then look for VT-d, AMD-Vi or SMMU in its setup".into();
        return Some((Severity::Warning, what, vec![trouble.clone()], fix));
    }
    if let Some(off) = off {
        let what = "the kernel command line keeps the IOMMU off".to_owned();
        let evidence = std::iter::once(off.at.clone()).chain(host.log.iommu_tables.clone()).collect();
        let mut fix = LineEdit::of(host).stop_asking(&[Effect::Iommu(false)]).advice();
        if iommu_maker(host) == Maker::Intel && !LineEdit::asks(host, &[Effect::Iommu(true)]) {
            fix = fix.and_say("; add `intel_iommu=on` unless the kernel was built to use VT-d without it");
        }
        return Some((Severity::Note, what, evidence, fix));
    }
    let asked = host.requests.iommu_enabled.as_ref();
    match (asked, &host.log.iommu_tables) {
        (Some(asked), _) => {
            let what =
                "the command line turns the IOMMU on, and none works: firmware does not offer one".to_owned();
            let fix = match &host.platform.hypervisor {
                Some(_) => turn_iommu_on(host, DefaultDomain::AsIs),
                None => "enable VT-d (Intel), IOMMU or AMD-Vi (AMD) in the firmware's setup".into(),
            };
            Some((Severity::Warning, what, vec![asked.at.clone()], fix))
        }
        (None, Some(tables)) => {
            let what = "the machine has an IOMMU that this kernel does not use: adapters reach all \
                        memory, and none can be given safely to a guest or to user space"
                .to_owned();
            let fix = turn_iommu_on(host, domain);
            Some((Severity::Note, what, vec![tables.clone()], fix))
        }
        (None, None) => None,
    }
}
