//! QEMU's command line for a preset.

use crate::Arch;
use crate::preset::{Adapter, Preset};
use crate::qemu::Release;
use crate::trace;
use crate::window::Layout;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Guest memory.
pub const MEMORY_MIB: u64 = 1024;
/// Where the measured disk is on the PCI bus.
pub const DISK_SLOT: &str = "0000:00:04.0";
/// Where the disk is to which the guest writes its symbols.
pub const SYMBOLS_SLOT: &str = "0000:00:05.0";

/// The files of one run.
#[derive(Debug, Clone)]
pub struct Files {
    /// The kernel's image.
    pub kernel: PathBuf,
    /// The first file system.
    pub initramfs: PathBuf,
    /// What the guest prints.
    pub console: PathBuf,
    /// The socket of the measured disk.
    pub disk: PathBuf,
    /// The socket on which the plugin talks to it.
    pub disk_control: PathBuf,
    /// A raw disk for the guest's symbols.
    pub symbols: PathBuf,
    /// The plugin.
    pub plugin: PathBuf,
    /// The plugin's record.
    pub record: PathBuf,
    /// QEMU's log with its trace events.
    pub log: PathBuf,
}

/// The CPU that QEMU emulates.
pub fn cpu(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "max",
        Arch::Arm => "neoverse-n1",
        Arch::Ppc => "power9",
    }
}

fn console(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "ttyS0",
        Arch::Arm => "ttyAMA0",
        Arch::Ppc => "hvc0",
    }
}

fn machine(preset: &Preset) -> String {
    let own = match preset.arch {
        Arch::X86 => "q35,kernel-irqchip=split",
        Arch::Arm => "virt,gic-version=3",
        // TCG has none of the workarounds that these would promise.
        Arch::Ppc => "pseries,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off",
    };
    match preset.machine.as_str() {
        "" => own.to_owned(),
        more => format!("{own},{more}"),
    }
}

/// Whether the kernel boots with one virtual CPU and the guest's program brings up the others. x86 waits for each of
/// them in a loop that in QEMU 7.2 leaves them no turn: see the program's `online`.
pub fn starts_alone(arch: Arch) -> bool {
    arch == Arch::X86
}

/// The kernel's command line.
pub fn kernel_command_line(preset: &Preset, vcpus: u32) -> String {
    // Randomised places would change the path from run to run; the idle states of firmware are not of interest
    // here, and would choose by the time that the last idling took. QEMU 10.0's NVMe controllers say that
    // they may be one of several to a namespace, for which the kernel puts a multipath disk in front of the disk.
    let own = format!(
        "console={} nokaslr cpuidle.off=1 panic=-1 ipv6.disable=1 nvme_core.multipath=N",
        console(preset.arch)
    );
    // Of several, emulated time-stamp counters pass for unsynchronised, and the kernel would read a slow clock.
    let alone = if vcpus > 1 && starts_alone(preset.arch) { "maxcpus=1 tsc=reliable" } else { "" };
    let polled = match preset.poll_queues {
        0 => String::new(),
        queues => format!("nvme.poll_queues={queues}"),
    };
    let words = [own.as_str(), preset.append.as_str(), &polled, alone];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The slots of the network adapters of a kind, which a hub joins.
pub fn network_slots(adapter: Adapter) -> Option<[&'static str; 2]> {
    match adapter {
        Adapter::E1000e | Adapter::E1000 => Some(["0000:00:06.0", "0000:00:07.0"]),
        Adapter::VirtioNet => Some(["0000:00:08.0", "0000:00:09.0"]),
        Adapter::Nvme | Adapter::None => None,
    }
}

/// A preset's device with what this release of QEMU has to be told of it.
fn of_release(device: &str, release: Release) -> String {
    /// The first with the property, by the source of 10.2.0. In 10.0 the emulated AMD-Vi takes hold of adapters' DMA
    /// and interrupts without translating them right, and nothing can be told it: guests don't boot.
    const DMA_REMAP: Release = Release(10, 2);
    match device.split(',').next() {
        Some("amd-iommu") if release >= DMA_REMAP => format!("{device},dma-remap=on"),
        _ => device.to_owned(),
    }
}

/// QEMU's arguments.
pub fn arguments(preset: &Preset, vcpus: u32, files: &Files, release: Release) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    arguments.add("-machine", machine(preset));
    arguments.add("-cpu", cpu(preset.arch));
    arguments.add("-smp", vcpus.to_string());
    arguments.add("-m", format!("{MEMORY_MIB}M"));
    arguments.clock();
    if preset.arch == Arch::X86 {
        // Else the firmware drives the disks too, and waits for them in loops whose turns nobody can foresee.
        arguments.add("-boot", "strict=on");
    }
    arguments.quiet(&files.console);
    arguments.add("-kernel", &files.kernel);
    arguments.add("-initrd", &files.initramfs);
    arguments.add("-append", kernel_command_line(preset, vcpus));
    for device in &preset.devices {
        arguments.add("-device", of_release(device, release));
    }
    arguments.disks(&files.disk, &files.symbols);
    for adapter in &preset.adapters {
        arguments.network(*adapter);
    }
    arguments.recording(preset.arch, files);
    arguments.0
}

#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.extend([option.into(), value.into()]);
    }

    fn flag(&mut self, option: &str) {
        self.0.push(option.into());
    }

    /// One virtual CPU at a time, a clock that counts instructions, and no other source of chance.
    fn clock(&mut self) {
        self.add("-accel", "tcg,thread=single");
        self.add("-icount", "shift=0,sleep=off");
        self.add("-rtc", "base=2024-01-01,clock=vm");
        self.add("-seed", "1");
    }

    fn quiet(&mut self, console: &Path) {
        self.flag("-nodefaults");
        self.flag("-no-user-config");
        self.flag("-no-reboot");
        self.add("-display", "none");
        self.add("-monitor", "none");
        self.add("-chardev", with_path("file,id=console,path=", console));
        self.add("-serial", "chardev:console");
    }

    fn disks(&mut self, disk: &Path, symbols: &Path) {
        let served = with_path("driver=nbd,node-name=measured,export=,server.type=unix,server.path=", disk);
        self.add("-blockdev", served);
        self.add("-device", format!("nvme,drive=measured,serial=measured,addr={}", on_bus(DISK_SLOT)));
        self.add("-blockdev", with_path("driver=file,node-name=symbols-file,filename=", symbols));
        self.add("-blockdev", "driver=raw,node-name=symbols,file=symbols-file");
        self.add("-device", format!("nvme,drive=symbols,serial=symbols,addr={}", on_bus(SYMBOLS_SLOT)));
    }

    fn network(&mut self, adapter: Adapter) {
        let (Some(device), Some(slots)) = (adapter.network_device(), network_slots(adapter)) else { return };
        // What is to be sent is else taken by another thread, in its own time: how much each time would be chance.
        let in_guest_time = if adapter == Adapter::VirtioNet { ",ioeventfd=off,tx=timer" } else { "" };
        let hub = adapter as usize;
        for (end, slot) in slots.iter().enumerate() {
            let id = format!("hub{hub}end{end}");
            self.add("-netdev", format!("hubport,id={id},hubid={hub}"));
            let mac = format!("52:54:00:00:{hub:02x}:{end:02x}");
            self.add(
                "-device",
                format!("{device}{in_guest_time},netdev={id},mac={mac},romfile=,addr={}", on_bus(slot)),
            );
        }
    }

    fn recording(&mut self, arch: Arch, files: &Files) {
        let mut plugin = files.plugin.clone().into_os_string();
        plugin.push(with_path(",out=", &files.record));
        plugin.push(with_path(",log=", &files.log));
        plugin.push(with_path(",disk=", &files.disk_control));
        for (start, end) in Layout::of(arch).linear_maps {
            plugin.push(format!(",linear={start:x}-{end:x}"));
        }
        for (role, event) in trace::REQUESTS {
            plugin.push(format!(",{role}={event}"));
        }
        plugin.push(format!(",lasting={}", trace::LASTING));
        plugin.push(format!(",parent={}", std::process::id()));
        self.add("-plugin", plugin);
        self.add("-d", "plugin");
        self.add("-D", &files.log);
        for event in trace::events(arch) {
            self.add("-trace", event);
        }
    }
}

/// An option that ends in a file's name, in which QEMU wants commas doubled.
fn with_path(option: &str, path: &Path) -> OsString {
    let mut whole = OsString::from(option);
    match path.to_str() {
        Some(text) => whole.push(text.replace(',', ",,")),
        None => whole.push(path),
    }
    whole
}

/// `04.0` of `0000:00:04.0`.
fn on_bus(slot: &str) -> &str {
    slot.rsplit(':').next().unwrap_or(slot)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::preset::Presets;

    #[test]
    fn x86_leaves_its_other_cpus_to_the_program() {
        let presets = Presets::built_in().unwrap();
        let line = |preset: &str, vcpus| kernel_command_line(presets.get(preset).unwrap(), vcpus);
        assert_eq!(line("x86-vtd-strict", 2), line("x86-vtd-strict", 1) + " maxcpus=1 tsc=reliable");
        assert_eq!(line("arm-smmu-strict", 2), line("arm-smmu-strict", 1));
    }

    #[test]
    fn queues_that_are_polled_are_asked_for() {
        let presets = Presets::built_in().unwrap();
        let line = |preset: &str| kernel_command_line(presets.get(preset).unwrap(), 1);
        assert_eq!(line("x86-vtd-strict-ways"), line("x86-vtd-strict") + " nvme.poll_queues=1");
    }

    #[test]
    fn devices_by_release() {
        let check = |device: &str, release: Release, expected: &str| {
            assert_eq!(of_release(device, release), expected, "{release:?}");
        };
        check("amd-iommu", Release(7, 2), "amd-iommu");
        check("amd-iommu,xtsup=on", Release(11, 1), "amd-iommu,xtsup=on,dma-remap=on");
        check("intel-iommu,intremap=on", Release(11, 1), "intel-iommu,intremap=on");
    }
}
