//! The guest's init: a shell script that loads modules, runs the workloads and prints their exit status.

use super::program;
use crate::boots;
use crate::dma_path::{ADAPTER, DEFAULT_WINDOW, DIRECT_WINDOW, DYNAMIC_WINDOW};
use crate::kernel::Module;
use crate::preset::{Access, EmulatedAdapter};
use crate::qemu_command::{DISK_SLOT, SYMBOLS_SLOT, boots_with_one_cpu, network_slots};
use crate::workload::{USER_DRIVER, Workload};
use std::fmt::Write;
use toll::{Boot, DmaPath};

/// The agent's path in the guest.
pub const AGENT: &str = "/lab/agent";
/// The console's last line when the whole script has run.
pub const DONE: &str = "lab: done";
/// Prefix of the console's line with a workload's name and exit status.
pub const ENDED: &str = "lab: ended";

/// The kernel function through which an idle virtual CPU yields, where it does so by a hypercall.
pub fn idle_function(arch: crate::Arch) -> Option<&'static str> {
    match arch {
        crate::Arch::Ppc => Some("plpar_hcall_norets_notrace"),
        crate::Arch::X86 | crate::Arch::Arm => None,
    }
}

/// Placeholder in a workload's command for the character device of the measured disk's namespace.
const GENERIC: &str = "{generic}";

/// The script's fixed beginning. Its functions find devices by PCI address, because the order in which the kernel
/// numbers them varies.
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

/// Shell function that binds the device at an address to another driver than the kernel's own, as `vfio-pci`.
const OVERRIDE_DRIVER: &str = r#"override_driver() {
    echo $1 > /sys/bus/pci/devices/$2/driver_override
    bind $1 $2
    echo $2
}
"#;

/// The machine and workloads that the init script is written for.
#[derive(Debug, Clone, Copy)]
pub struct ScriptPlan<'a> {
    /// Its architecture.
    pub arch: crate::Arch,
    /// Modules in the order in which they load.
    pub modules: &'a [Module],
    /// Virtual CPUs.
    pub vcpus: u32,
    /// How workloads reach the measured disk.
    pub access: Access,
    /// How many modules, counted from the first, may bind to devices as soon as they load.
    pub early: usize,
    /// The workloads in the order in which they run, each with its number.
    pub workloads: &'a [(u64, Workload)],
    /// What is different in this boot.
    pub boot: Boot,
    /// The DMA path of its adapters.
    pub dma_path: DmaPath,
}

/// Writes the init script.
pub fn script(plan: ScriptPlan<'_>) -> String {
    let mut script = BEGIN.to_owned();
    online_cpus(&mut script, plan);
    load_modules(&mut script, plan);
    for adapter in [EmulatedAdapter::E1000e, EmulatedAdapter::E1000, EmulatedAdapter::VirtioNet] {
        if plan.workloads.iter().any(|(_, workload)| workload.adapter == adapter) {
            set_interface_variables(&mut script, adapter);
        }
    }
    // From here on the plugin makes the disk's completions arrive at the same instruction in each boot. Network adapters
    // are initialised before: they don't need it, and some poll in loops that are slow while the plugin records.
    let idle = idle_function(plan.arch).unwrap_or_default();
    line(&mut script, &format!("{AGENT} arm {idle} || fail arm"));
    bind_measured_disk(&mut script, plan);
    script.push_str(&print_adapters());
    for (phase, workload) in plan.workloads {
        let (program, command) = (program_path(workload), command_words(workload, *phase));
        let more = boots::more_warm_up(plan.boot, workload, plan.dma_path);
        line(&mut script, &format!(r#"{program} +{more} {command}; echo "{ENDED} {} $?""#, workload.name));
    }
    line(&mut script, &format!("{AGENT} disarm"));
    // This disk completes requests in its own time, so it is used only after recording has ended.
    line(&mut script, &format!("symbols=$(disk {SYMBOLS_SLOT})"));
    line(&mut script, &format!("{AGENT} symbols $symbols || fail symbols"));
    line(&mut script, &format!("echo; echo '{DONE}'"));
    line(&mut script, "poweroff -f");
    script
}

/// Binds the measured disk to the kernel's NVMe driver or to VFIO, and stores its device node or address in `$disk`.
fn bind_measured_disk(script: &mut String, plan: ScriptPlan<'_>) {
    if plan.access == Access::User {
        script.push_str(OVERRIDE_DRIVER);
        line(script, &format!("disk=$(override_driver {USER_DRIVER} {DISK_SLOT})"));
        return;
    }
    line(script, &format!("disk=$(disk {DISK_SLOT})"));
    if plan.workloads.iter().any(|(_, workload)| workload.command.contains(GENERIC)) {
        // The namespace's character device (kernel: drivers/nvme/host/core.c, nvme_add_ns_cdev).
        line(script, r#"generic=/dev/ng${disk#/dev/nvme}"#);
        line(script, r#"wait_for $generic || fail "no character device beside $disk""#);
    }
}

/// Path in the guest of the program that runs a workload.
fn program_path(workload: &Workload) -> &'static str {
    match workload.access {
        Access::Kernel | Access::Ways => AGENT,
        Access::User => program::GUEST_PATH,
    }
}

/// Brings the CPUs online that the kernel did not start, before a driver derives its number of queues from them.
fn online_cpus(script: &mut String, plan: ScriptPlan<'_>) {
    if boots_with_one_cpu(plan.arch) {
        for cpu in 1..plan.vcpus {
            line(script, &format!("{AGENT} online cpu{cpu} || fail \"cpu{cpu} does not come up\""));
        }
    }
}

/// Loads the modules. Drivers after the early ones don't bind by themselves: adapters are bound later, one by one, so
/// that their initialisation does not interleave in a different order in each boot.
fn load_modules(script: &mut String, plan: ScriptPlan<'_>) {
    for (position, module) in plan.modules.iter().enumerate() {
        if position == plan.early {
            line(script, "echo 0 > /sys/bus/pci/drivers_autoprobe");
        }
        let path = super::initramfs::module_path(position, module);
        let name = &module.name;
        // insmod does not apply module parameters from the kernel's command line; modprobe would.
        line(script, &format!("insmod {path} $(parameters {name}) || fail 'module {name} does not load'"));
    }
}

/// Binds both ports of a network adapter and stores their interface names in `$DRIVER_first` and `$DRIVER_second`.
fn set_interface_variables(script: &mut String, adapter: EmulatedAdapter) {
    let [first, second] = network_slots(adapter).unwrap_or_default();
    let name = adapter.driver();
    let bus_driver = if adapter == EmulatedAdapter::VirtioNet { "virtio-pci" } else { name };
    for (end, slot) in [("first", first), ("second", second)] {
        line(script, &format!("{name}_{end}=$(interface {slot} {bus_driver})"));
    }
}

/// Shell code that prints the console line of each bound adapter, from which its DMA path is recognised. It starts as few
/// processes as possible: on a loaded host, more of them shifted counts by a few instructions from run to run.
fn print_adapters() -> String {
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
    echo "{ADAPTER} ${{device##*/}} ${{driver##*/}} $type $mask$windows"
done
"#
    )
}

/// A workload's command with its placeholders replaced; `phase` is the workload's number.
fn command_words(workload: &Workload, phase: u64) -> String {
    let driver = workload.adapter.driver();
    workload
        .command
        .replace("{phase}", &phase.to_string())
        .replace("{disk}", "$disk")
        .replace(GENERIC, "$generic")
        .replace("{first}", &format!("${driver}_first"))
        .replace("{second}", &format!("${driver}_second"))
}

/// Appends a line to the script.
fn line(script: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(script, "{text}");
}
