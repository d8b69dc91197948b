//! Functions whose registers got no room in the address space.

use super::Rule;
use crate::diagnose::{Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::kernel::message::resource::{FIRST_VIRTUAL, Need};
use crate::memory::range::describe_bytes;
use crate::{Bdf, Cited};
use std::collections::BTreeMap;

/// Windows below 4 GiB are rarely larger than this.
const LARGE_BYTES: u64 = 128 << 20;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find: |case: &Case<'_>| {
        case.host
            .log
            .unplaced
            .iter()
            .filter(|(address, _)| !case.host.bridges.contains_key(*address))
            .map(|(address, registers)| finding(case.host, *address, registers))
            .collect()
    },
    explains: &[Explanation {
        id: Id::RegistersUnplaced,
        meaning: "The registers of a device (BARs) got no room in the address space: the windows of the bridges above it are too small, or firmware \
                  assigned none. Its driver can't use it, or not its virtual functions. DMA is not concerned.",
        severity: "warning; note where only I/O ports are lacking, without which most drivers work",
        evidence: "the last word of the PCI core on each BAR, or that of NVIDIA's driver",
        fix: "large BARs: place for them above 4 GiB in the firmware's setup (Above 4G Decoding); then `pci=realloc`; behind a hot-plug port \
              `pci=hpmmioprefsize=SIZE`; in a guest a larger window of the hypervisor; on a board another window in the device tree",
        risk: "with other windows all addresses of devices change; a few old cards and operating systems can't be used above 4 GiB",
        verify: "`dmesg` says `assigned` for each BAR, and `lspci -vs ADDRESS` shows their addresses",
    }],
};

/// A finding on the registers of one function.
fn finding(host: &Host, address: Bdf, registers: &BTreeMap<u8, Cited<Need>>) -> Finding {
    let named = |(bar, need): (&u8, &Cited<Need>)| {
        let name = match bar.checked_sub(FIRST_VIRTUAL) {
            Some(bar) => format!("BAR {bar} of its virtual functions"),
            None => format!("BAR {bar}"),
        };
        match need.value {
            Need::Memory(Some(bytes)) => format!("{name} ({})", describe_bytes(u128::from(bytes))),
            Need::Memory(None) => name,
            Need::Ports => format!("{name} (I/O ports)"),
        }
    };
    let list: Vec<String> = registers.iter().map(named).collect();
    let is_memory = |need: &Cited<Need>| matches!(need.value, Need::Memory(_));
    let only_ports = !registers.values().any(is_memory);
    // Without a size it is NVIDIA's word, whose BAR 1 is as large as a large part of its memory.
    let is_large = registers.values().any(|need| match need.value {
        Need::Memory(bytes) => bytes.is_none_or(|bytes| bytes >= LARGE_BYTES),
        Need::Ports => false,
    });
    let only_virtual = registers.keys().all(|bar| *bar >= FIRST_VIRTUAL);
    let effect = match (only_ports, only_virtual) {
        (true, _) => "most drivers do without",
        (false, true) => "it has no virtual functions",
        (false, false) => "its driver can't use it",
    };
    Finding {
        id: Id::RegistersUnplaced,
        severity: if only_ports { Severity::Note } else { Severity::Warning },
        address: Some(address),
        what: format!(
            "its registers got no room in the address space: {}; {effect}. DMA is not concerned",
            list.join(", ")
        ),
        evidence: registers.values().map(|need| need.at.clone()).collect(),
        fix: if only_ports {
            "nothing, unless its driver says that it needs them: most machines have few ports, and boards often none"
                .into()
        } else {
            fix(host, is_large).into()
        },
        risk: if only_ports { "none" } else { "with other windows all addresses of devices change" }
            .to_owned(),
        verify: if only_ports {
            "its driver takes it"
        } else {
            "`dmesg` says `assigned` for each of them after the reboot"
        }
        .into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// How windows become large enough.
fn fix(host: &Host, is_large: bool) -> &'static str {
    let is_x86 = host.platform.architecture.as_ref().is_none_or(crate::kernel::Architecture::is_x86);
    let is_guest = host.platform.is_guest();
    let is_asked = host
        .options
        .iter()
        .any(|judged| judged.part.starts_with("pci=realloc") && judged.part != "pci=realloc=off");
    if is_asked && !is_guest && is_x86 {
        return "turn on Above 4G Decoding (also: large BARs, MMIO above 4 GiB) in the firmware's setup, if it has that and it is off: the command line has \
                `pci=realloc` already. Else another slot, or fewer cards below the same port";
    }
    match (is_guest, is_x86, is_large) {
        (true, ..) => {
            "nothing from inside: the hypervisor sets how large the windows of this guest are (QEMU: `pci-hole64-size` of the host bridge, \
                       and the firmware's own limit)"
        }
        (false, false, _) => {
            "look at the windows that the device tree or firmware gives the host bridge (`ranges`): where they are smaller than the \
                              card needs, only another device tree or firmware helps"
        }
        (false, true, true) => {
            "turn on Above 4G Decoding (also: large BARs, MMIO above 4 GiB) in the firmware's setup, if it has that and it is off; if \
                                that was it not, boot with `pci=realloc`, by which the kernel lays out the bridges' windows anew. Behind Thunderbolt or another \
                                hot-plug port: have the card there at boot, or give its port more room with `pci=hpmmioprefsize=SIZE` (since Linux 5.5)"
        }
        (false, true, false) => {
            "boot with `pci=realloc`, by which the kernel lays out the bridges' windows anew; behind Thunderbolt or another hot-plug port \
                                 have the card there at boot, or give its port more room with `pci=hpmmiosize=SIZE` (since Linux 5.5)"
        }
    }
}
