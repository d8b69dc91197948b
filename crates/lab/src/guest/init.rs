//! The guest's first program: a script that loads modules, runs workloads and says how they ended.

use crate::kernel::Module;
use crate::machine::{DISK_SLOT, SYMBOLS_SLOT, network_slots};
use crate::preset::Adapter;
use crate::workload::Workload;
use std::fmt::Write;

/// Where the workload program is in the guest.
pub const AGENT: &str = "/lab/agent";
/// The last line of a guest that did everything.
pub const DONE: &str = "lab: done";
/// What a guest prints before each workload's name and exit status.
pub const ENDED: &str = "lab: ended";
/// What a guest prints before each adapter's address and driver.
pub const FOUND: &str = "lab: found";

/// The kernel's function that gives a virtual CPU up, where that is a hypercall.
pub fn idle_function(arch: crate::Arch) -> Option<&'static str> {
    match arch {
        crate::Arch::Ppc => Some("plpar_hcall_norets_notrace"),
        crate::Arch::X86 | crate::Arch::Arm => None,
    }
}

/// The part that is the same for all: devices by the address on their bus, never by the order in which the
/// kernel found them.
const BEGIN: &str = r#"#!/bin/sh
export PATH=/bin:/lab
for tool in $(/bin/busybox --list); do [ -e /bin/$tool ] || /bin/busybox ln -s busybox /bin/$tool; done
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
echo
wait_for() { tries=0; while [ ! -e "$1" ] && [ $tries -lt 100 ]; do usleep 20000; tries=$((tries + 1)); done; [ -e "$1" ]; }
fail() { echo "lab: failed: $*"; poweroff -f; }
disk() {
    wait_for /sys/bus/pci/devices/$1/nvme || fail "no NVMe controller at $1"
    controller=$(ls /sys/bus/pci/devices/$1/nvme)
    wait_for /sys/block/${controller}n1 || fail "no namespace on $controller"
    wait_for /dev/${controller}n1 || fail "no device node for $controller"
    echo none > /sys/block/${controller}n1/queue/scheduler
    echo /dev/${controller}n1
}
interface() {
    for net in /sys/bus/pci/devices/$1/net /sys/bus/pci/devices/$1/virtio*/net; do
        wait_for $net && ls $net && return
    done
    fail "no network interface at $1"
}
"#;

/// The script.
pub fn script(arch: crate::Arch, modules: &[Module], workloads: &[(u64, Workload)]) -> String {
    let mut script = BEGIN.to_owned();
    for (position, module) in modules.iter().enumerate() {
        let path = super::initramfs::module_path(position, module);
        line(&mut script, &format!("insmod {path} || fail 'module {} does not load'", module.name));
    }
    line(&mut script, &format!("disk=$(disk {DISK_SLOT}); symbols=$(disk {SYMBOLS_SLOT})"));
    line(&mut script, "for device in /sys/bus/pci/devices/*; do");
    line(&mut script, "    [ -e $device/driver ] || continue");
    line(
        &mut script,
        "    type=none; [ -e $device/iommu_group/type ] && type=$(cat $device/iommu_group/type)",
    );
    line(
        &mut script,
        &format!(r#"    echo "{FOUND} ${{device##*/}} $(readlink $device/driver | sed 's|.*/||') $type""#),
    );
    line(&mut script, "done");
    for adapter in [Adapter::E1000e, Adapter::E1000, Adapter::VirtioNet] {
        if workloads.iter().any(|(_, workload)| workload.adapter == adapter) {
            let [first, second] = network_slots(adapter).unwrap_or_default();
            let name = adapter.driver();
            line(
                &mut script,
                &format!("{name}_first=$(interface {first}); {name}_second=$(interface {second})"),
            );
        }
    }
    line(&mut script, &format!("{AGENT} arm {} || fail arm", idle_function(arch).unwrap_or_default()));
    for (phase, workload) in workloads {
        let command = command(workload, *phase);
        line(&mut script, &format!(r#"{AGENT} {command}; echo "{ENDED} {} $?""#, workload.name));
    }
    line(&mut script, &format!("{AGENT} disarm"));
    line(&mut script, &format!("{AGENT} symbols $symbols || fail symbols"));
    line(&mut script, &format!("echo; echo '{DONE}'"));
    line(&mut script, "poweroff -f");
    script
}

fn command(workload: &Workload, phase: u64) -> String {
    let driver = workload.adapter.driver();
    workload
        .command
        .replace("{phase}", &phase.to_string())
        .replace("{disk}", "$disk")
        .replace("{first}", &format!("${driver}_first"))
        .replace("{second}", &format!("${driver}_second"))
}

fn line(script: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(script, "{text}");
}
