//! The guest's first program: a script that loads modules, runs workloads and says how they ended.

use super::program;
use crate::dma_path::{DEFAULT_WINDOW, DIRECT_WINDOW, DYNAMIC_WINDOW};
use crate::kernel::Module;
use crate::machine::{DISK_SLOT, SYMBOLS_SLOT, network_slots, starts_alone};
use crate::preset::{Access, Adapter};
use crate::workload::{USER_DRIVER, Workload};
use std::fmt::Write;

/// Where the workload program is in the guest.
pub const AGENT: &str = "/lab/agent";
/// The last line of a guest that did everything.
pub const DONE: &str = "lab: done";
/// What a guest prints before each workload's name and exit status.
pub const ENDED: &str = "lab: ended";
/// What a guest prints before each adapter's address, driver and DMA path.
pub const FOUND: &str = "lab: found";

/// The kernel's function that gives a virtual CPU up, where that is a hypercall.
pub fn idle_function(arch: crate::Arch) -> Option<&'static str> {
    match arch {
        crate::Arch::Ppc => Some("plpar_hcall_norets_notrace"),
        crate::Arch::X86 | crate::Arch::Arm => None,
    }
}

/// In a workload's command: the character device of the measured disk's namespace.
const GENERIC: &str = "{generic}";

/// The part that is the same for all: devices by the address on their bus, never by the order in which the
/// kernel found them.
const BEGIN: &str = r#"#!/bin/sh
export PATH=/bin:/lab
for tool in $(/bin/busybox --list); do [ -e /bin/$tool ] || /bin/busybox ln -s busybox /bin/$tool; done
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
echo
bind() {
    [ -e /sys/bus/pci/devices/$2/driver ] || agent bind $1 $2 >&2 || fail "$1 does not take $2"
}
wait_for() { tries=0; while [ ! -e "$1" ] && [ $tries -lt 100 ]; do usleep 20000; tries=$((tries + 1)); done; [ -e "$1" ]; }
fail() { echo "lab: failed: $*"; poweroff -f; }
parameters() {
    for word in $(cat /proc/cmdline); do
        case $word in "$1".*) echo ${word#*.};; esac
    done
}
disk() {
    bind nvme $1
    wait_for /sys/bus/pci/devices/$1/nvme || fail "no NVMe controller at $1"
    controller=$(ls /sys/bus/pci/devices/$1/nvme)
    wait_for /sys/block/${controller}n1 || fail "no namespace on $controller"
    wait_for /dev/${controller}n1 || fail "no device node for $controller"
    echo none > /sys/block/${controller}n1/queue/scheduler
    echo /dev/${controller}n1
}
interface() {
    bind $2 $1
    for net in /sys/bus/pci/devices/$1/net /sys/bus/pci/devices/$1/virtio*/net; do
        wait_for $net && ls $net && return
    done
    fail "no network interface at $1"
}
"#;

/// Takes the adapter at an address from the kernel's own drivers.
const GIVE_AWAY: &str = r#"give_away() {
    echo $1 > /sys/bus/pci/devices/$2/driver_override
    bind $1 $2
    echo $2
}
"#;

/// What a guest is to do.
#[derive(Debug, Clone, Copy)]
pub struct Errand<'a> {
    /// Its architecture.
    pub arch: crate::Arch,
    /// Modules in the order in which they load.
    pub modules: &'a [Module],
    /// Virtual CPUs.
    pub vcpus: u32,
    /// How workloads reach the measured disk.
    pub access: Access,
    /// How many of the modules, from the first, take their devices as they find them.
    pub early: usize,
    /// What runs, each with its number.
    pub workloads: &'a [(u64, Workload)],
}

/// The script.
pub fn script(errand: Errand<'_>) -> String {
    let mut script = BEGIN.to_owned();
    bring_up(&mut script, errand);
    load(&mut script, errand);
    for adapter in [Adapter::E1000e, Adapter::E1000, Adapter::VirtioNet] {
        if errand.workloads.iter().any(|(_, workload)| workload.adapter == adapter) {
            interfaces(&mut script, adapter);
        }
    }
    // The plugin makes a disk's answers come at the same instruction in each boot, from here on; network adapters need
    // no such help, and some wait in loops that would take long while all is watched.
    let idle = idle_function(errand.arch).unwrap_or_default();
    line(&mut script, &format!("{AGENT} arm {idle} || fail arm"));
    measured_disk(&mut script, errand);
    script.push_str(&tell_dma_paths());
    for (phase, workload) in errand.workloads {
        let (program, command) = (program(workload), command(workload, *phase));
        line(&mut script, &format!(r#"{program} {command}; echo "{ENDED} {} $?""#, workload.name));
    }
    line(&mut script, &format!("{AGENT} disarm"));
    // Nobody holds this disk's answers: it comes when nothing is counted any more.
    line(&mut script, &format!("symbols=$(disk {SYMBOLS_SLOT})"));
    line(&mut script, &format!("{AGENT} symbols $symbols || fail symbols"));
    line(&mut script, &format!("echo; echo '{DONE}'"));
    line(&mut script, "poweroff -f");
    script
}

/// Makes the measured disk ready for those who use it, and keeps where they find it.
fn measured_disk(script: &mut String, errand: Errand<'_>) {
    if errand.access == Access::User {
        script.push_str(GIVE_AWAY);
        line(script, &format!("disk=$(give_away {USER_DRIVER} {DISK_SLOT})"));
        return;
    }
    line(script, &format!("disk=$(disk {DISK_SLOT})"));
    if errand.workloads.iter().any(|(_, workload)| workload.command.contains(GENERIC)) {
        // The namespace's character device (kernel: drivers/nvme/host/core.c, nvme_add_ns_cdev).
        line(script, r#"generic=/dev/ng${disk#/dev/nvme}"#);
        line(script, r#"wait_for $generic || fail "no character device beside $disk""#);
    }
}

/// Who carries out a workload.
fn program(workload: &Workload) -> &'static str {
    match workload.access {
        Access::Kernel | Access::Ways => AGENT,
        Access::User => program::PLACE,
    }
}

/// Brings up the virtual CPUs that the kernel left, before any driver decides how many queues it needs.
fn bring_up(script: &mut String, errand: Errand<'_>) {
    if starts_alone(errand.arch) {
        for cpu in 1..errand.vcpus {
            line(script, &format!("{AGENT} online cpu{cpu} || fail \"cpu{cpu} does not come up\""));
        }
    }
}

/// Loads modules. Adapters are bound later and one by one: two that initialise at the same time get their answers
/// in an order that nobody can foresee.
fn load(script: &mut String, errand: Errand<'_>) {
    for (position, module) in errand.modules.iter().enumerate() {
        if position == errand.early {
            line(script, "echo 0 > /sys/bus/pci/drivers_autoprobe");
        }
        let path = super::initramfs::module_path(position, module);
        let name = &module.name;
        // What the kernel's command line says to a module, insmod has to be told.
        line(script, &format!("insmod {path} $(parameters {name}) || fail 'module {name} does not load'"));
    }
}

fn interfaces(script: &mut String, adapter: Adapter) {
    let [first, second] = network_slots(adapter).unwrap_or_default();
    let name = adapter.driver();
    let bus_driver = if adapter == Adapter::VirtioNet { "virtio-pci" } else { name };
    for (end, slot) in [("first", first), ("second", second)] {
        line(script, &format!("{name}_{end}=$(interface {slot} {bus_driver})"));
    }
}

/// Of each adapter with a driver: what its DMA path shows in. With as few processes as can be: under load, what they
/// leave behind was seen to shift counts by a few instructions from run to run.
fn tell_dma_paths() -> String {
    let windows = [DIRECT_WINDOW, DYNAMIC_WINDOW, DEFAULT_WINDOW].join(" ");
    format!(
        r#"windows() {{
    windows=
    [ -e $1/of_node ] || return
    node=$(readlink -f $1/of_node)
    while [ -n "$node" ]; do
        for window in {windows}; do [ -e $node/$window ] && windows="$windows $window"; done
        node=${{node%/*}}
    done
}}
for device in /sys/bus/pci/devices/*; do
    [ -e $device/driver ] || continue
    type=none; [ -e $device/iommu_group/type ] && read -r type < $device/iommu_group/type
    read -r mask < $device/dma_mask_bits
    driver=$(readlink $device/driver)
    windows $device
    echo "{FOUND} ${{device##*/}} ${{driver##*/}} $type $mask$windows"
done
"#
    )
}

fn command(workload: &Workload, phase: u64) -> String {
    let driver = workload.adapter.driver();
    workload
        .command
        .replace("{phase}", &phase.to_string())
        .replace("{disk}", "$disk")
        .replace(GENERIC, "$generic")
        .replace("{first}", &format!("${driver}_first"))
        .replace("{second}", &format!("${driver}_second"))
}

fn line(script: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(script, "{text}");
}
