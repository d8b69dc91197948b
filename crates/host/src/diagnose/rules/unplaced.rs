//! Functions whose registers got no room in the address space.

use super::Rule;
use crate::diagnose::{Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::kernel::TokenVerdict;
use crate::kernel::message::resource::{FIRST_VIRTUAL, Need};
use crate::memory::range::describe_bytes;
use crate::{Bdf, Cited};
use std::collections::BTreeMap;

/// Windows below 4 GiB are rarely larger than this.
const LARGE_BYTES: u64 = 128 << 20;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
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

/// A register without room: its number, and what it needs.
type Register<'h> = (u8, &'h Cited<Need>);

/// A finding for each function with registers that have no room. Ports do not use registers of their own.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let host = case.host;
    let mut by_function: BTreeMap<Bdf, Vec<Register<'_>>> = BTreeMap::new();
    for ((address, bar), need) in &host.log.unplaced {
        if !host.bridges.contains_key(address) {
            by_function.entry(*address).or_default().push((*bar, need));
        }
    }
    by_function.into_iter().map(|(address, registers)| finding(host, address, &registers)).collect()
}

/// A finding on the registers of one function.
fn finding(host: &Host, address: Bdf, registers: &[Register<'_>]) -> Finding {
    let list: Vec<String> = registers.iter().map(|(bar, need)| shown(*bar, need.value)).collect();
    let memory: Vec<Option<u64>> = registers.iter().filter_map(|(_, need)| need.value.memory()).collect();
    let only_virtual = registers.iter().all(|(bar, _)| *bar >= FIRST_VIRTUAL);
    // Without a size it is NVIDIA's word, whose BAR 1 is as large as a large part of its memory.
    let is_large = memory.iter().any(|bytes| bytes.is_none_or(|bytes| bytes >= LARGE_BYTES));
    let answer = match (memory.is_empty(), only_virtual) {
        (true, _) => PORTS,
        (false, true) => Answer { effect: "it has no virtual functions", ..memory_answer(host, is_large) },
        (false, false) => memory_answer(host, is_large),
    };
    Finding {
        id: Id::RegistersUnplaced,
        severity: answer.severity,
        address: Some(address),
        what: format!(
            "its registers got no room in the address space: {}; {}. DMA is not concerned",
            list.join(", "),
            answer.effect
        ),
        evidence: registers.iter().map(|(_, need)| need.at.clone()).collect(),
        fix: answer.fix.into(),
        risk: answer.risk.to_owned(),
        verify: answer.verify.into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// `BAR 1 (256 MiB)`.
fn shown(bar: u8, need: Need) -> String {
    let name = match bar.checked_sub(FIRST_VIRTUAL) {
        Some(bar) => format!("BAR {bar} of its virtual functions"),
        None => format!("BAR {bar}"),
    };
    match need {
        Need::Memory(Some(bytes)) => format!("{name} ({})", describe_bytes(u128::from(bytes))),
        Need::Memory(None) => name,
        Need::Ports => format!("{name} (I/O ports)"),
    }
}

/// What follows from it, and what to do.
struct Answer {
    severity: Severity,
    effect: &'static str,
    fix: &'static str,
    risk: &'static str,
    verify: &'static str,
}

/// Where only I/O ports are lacking.
const PORTS: Answer = Answer {
    severity: Severity::Note,
    effect: "most drivers do without",
    fix: "nothing, unless its driver says that it needs them: most machines have few ports, and boards often none",
    risk: "none",
    verify: "its driver takes it",
};

/// Where memory is lacking.
fn memory_answer(host: &Host, is_large: bool) -> Answer {
    Answer {
        severity: Severity::Warning,
        effect: "its driver can't use it",
        fix: enlarge_windows(host, is_large),
        risk: "with other windows all addresses of devices change",
        verify: "`dmesg` says `assigned` for each of them after the reboot",
    }
}

/// How windows become large enough.
fn enlarge_windows(host: &Host, is_large: bool) -> &'static str {
    let is_x86 = host.platform.architecture.as_ref().is_none_or(crate::kernel::Architecture::is_x86);
    let is_reallocated =
        |judged: &TokenVerdict| judged.part.starts_with("pci=realloc") && judged.part != "pci=realloc=off";
    match (host.options.iter().any(is_reallocated), is_large) {
        _ if host.platform.is_guest() => IN_GUEST,
        _ if !is_x86 => ON_BOARD,
        (true, _) => REALLOCATED,
        (false, true) => LARGE,
        (false, false) => SMALL,
    }
}

const IN_GUEST: &str = "nothing from inside: the hypervisor sets how large the windows of this guest are (QEMU: `pci-hole64-size` of the host bridge, \
                        and the firmware's own limit)";
const ON_BOARD: &str = "look at the windows that the device tree or firmware gives the host bridge (`ranges`): where they are smaller than the card \
                        needs, only another device tree or firmware helps";
const REALLOCATED: &str = "turn on Above 4G Decoding (also: large BARs, MMIO above 4 GiB) in the firmware's setup, if it has that and it is off: the \
                           command line has `pci=realloc` already. Else another slot, or fewer cards below the same port";
const LARGE: &str = "turn on Above 4G Decoding (also: large BARs, MMIO above 4 GiB) in the firmware's setup, if it has that and it is off; if that was \
                     it not, boot with `pci=realloc`, by which the kernel lays out the bridges' windows anew. Behind Thunderbolt or another hot-plug \
                     port: have the card there at boot, or give its port more room with `pci=hpmmioprefsize=SIZE` (since Linux 5.5)";
const SMALL: &str = "boot with `pci=realloc`, by which the kernel lays out the bridges' windows anew; behind Thunderbolt or another hot-plug port have the \
                     card there at boot, or give its port more room with `pci=hpmmiosize=SIZE` (since Linux 5.5)";
