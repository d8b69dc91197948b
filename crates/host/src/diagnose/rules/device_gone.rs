//! Devices that no longer answer.

use super::Rule;
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::{Bdf, Citation, Cited};
use escape::shell::Command;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find: |case: &Case<'_>| {
        let gone =
            case.host.log.inaccessible.iter().map(|(address, silent)| finding(case.host, *address, silent));
        let slow = case.host.log.slow_resets.iter().map(|(address, at)| not_back(*address, at));
        gone.chain(slow).collect()
    },
    explains: &[Explanation {
        id: Id::DeviceGone,
        meaning: "A device did not answer: its driver, a reset or a change of its power state read all ones. Its link is down, it \
                  has no power, it sleeps where nothing wakes it, or its firmware hangs. What its driver says afterwards follows from that.",
        severity: "critical; warning where the log ends while the kernel still waits for it after a reset; note where its slot became empty",
        evidence: "the first such line of the PCI core or of its driver",
        fix: "look at what the log says just before, of it and of the port above it (AER, DPC, hot-plug, power states); take it off the \
              bus and scan again, or cut its power; keep it and its link from sleeping as a test (`pcie_aspm.policy=performance`, \
              `pcie_port_pm=off`). Of a GPU look at its power connectors, temperature and seat, too",
        risk: "what uses it ends when it is taken off the bus; without ASPM and power states of ports the machine draws more power",
        verify: "`lspci -vvs ADDRESS` shows no `!!! Unknown header type`, and no such line comes again",
    }],
};

/// What to try with a device that a reset does not bring back.
const ANOTHER_RESET: &str = "another way to reset it may help (since Linux 5.15 `reset_method` of it in sysfs; some GPUs need one that \
                             the kernel does not have), else only a cold boot";

/// A finding on a device that was not back after a reset when the log ended.
fn not_back(address: Bdf, at: &Citation) -> Finding {
    Finding {
        id: Id::DeviceGone,
        severity: Severity::Warning,
        address: Some(address),
        what: "it was not back a second after a reset, and the log does not show that it came back"
            .to_owned(),
        evidence: vec![at.clone()],
        fix: format!("wait a minute for the kernel's last word; if it gives up: {ANOTHER_RESET}").into(),
        risk: "none in waiting".to_owned(),
        verify: "`dmesg` says how many milliseconds after the reset it was ready".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// A finding on a device that did not come back from D3cold.
fn not_awake(address: Bdf, at: &Citation) -> Finding {
    let keep_on = Command::write("on", format!("/sys/bus/pci/devices/{address}/power/control"));
    Finding {
        id: Id::DeviceGone,
        severity: Severity::Critical,
        address: Some(address),
        what: "it did not answer when it was to wake up from D3cold: its power (runtime power management) did not come back, or it was pulled out or hangs".to_owned(),
        evidence: vec![at.clone()],
        fix: Advice::say("boot cold; then, as a test, keep it awake before it sleeps again: ")
            .and_run(keep_on)
            .and_say(
                " (NVIDIA's driver: `NVreg_DynamicPowerManagement=0x00`; of one that waits for a guest `vfio_pci.disable_idle_d3=1`). If that ends it, \
                 firmware or the driver fails at waking it: update both",
            ),
        risk: "awake it draws power all the time".to_owned(),
        verify: "no new such line in `dmesg` after it was idle".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// The line by which a slot above a function became empty. Where the log does not tell what is below which port, the only slot that did.
fn emptied_slot(host: &Host, address: Bdf) -> Option<&Citation> {
    let emptied = &host.log.emptied_slots;
    match host.adapter(address).map_or(&[][..], |adapter| &adapter.function.upstream) {
        [] if emptied.len() == 1 => emptied.values().next(),
        ports => ports.iter().find_map(|port| emptied.get(port)),
    }
}

/// A finding on a device whose slot became empty.
fn unplugged(address: Bdf, silent: &Citation, slot: &Citation) -> Finding {
    Finding {
        id: Id::DeviceGone,
        severity: Severity::Note,
        address: Some(address),
        what: "its slot became empty, or was switched off by its button: what its driver says of it follows from that"
            .to_owned(),
        evidence: vec![slot.clone(), silent.clone()],
        fix: "nothing, if somebody pulled it out or pressed the button. If nobody did, the card, its cable or its power lost contact: seat them anew"
            .into(),
        risk: "what uses the device ended with it".to_owned(),
        verify: "`Card present` and `Link Up` of that slot in `dmesg`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// A finding on a device that did not answer.
fn finding(host: &Host, address: Bdf, silent: &Cited<bool>) -> Finding {
    if let Some(slot) = emptied_slot(host, address) {
        return unplugged(address, &silent.at, slot);
    }
    let is_for_guest = host.adapter(address).is_some_and(|adapter| adapter.function.vfio_driver().is_some());
    if silent.value && !is_for_guest {
        return not_awake(address, &silent.at);
    }
    // NVIDIA's driver waits for the users of a GPU when it is taken off the bus, and they do not end.
    let is_nvidia = host.adapter(address).is_some_and(|adapter| adapter.function.has_driver("nvidia"));
    let first = match is_for_guest {
        true => format!("after a reset for a guest it did not come back: {ANOTHER_RESET}"),
        false if is_nvidia => "look at what the log says just before, of it and of the port above it; then boot cold".to_owned(),
        false => "look at what the log says just before, of it and of the port above it; then take it off the bus and scan again (`remove` \
                  of it, `rescan` of /sys/bus/pci), or boot cold"
            .to_owned(),
    };
    // NVIDIA, "Xid Errors": the event 79 may come of the bus, of heat or of the card itself.
    let of_gpu = match is_nvidia {
        true => "; look at the GPU's power connectors, temperature and seat (or riser), too",
        false => "",
    };
    Finding {
        id: Id::DeviceGone,
        severity: Severity::Critical,
        address: Some(address),
        what: "it did not answer any more: its link is down, it has no power, it sleeps, or its firmware hangs".to_owned(),
        evidence: vec![silent.at.clone()],
        fix: format!(
            "{first}. If it comes again, keep links and ports from sleeping for one boot (`pcie_aspm.policy=performance pcie_port_pm=off`): whether that ends \
             it tells; update the card's and the machine's firmware{of_gpu}"
        )
        .into(),
        risk: "what uses the device ends when it is taken off the bus".to_owned(),
        verify: "no new such line in `dmesg`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}
