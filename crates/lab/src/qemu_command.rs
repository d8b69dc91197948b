//! Builds QEMU's command line, and the kernel's, for a preset.

use crate::Arch;
use crate::preset::{EmulatedAdapter, Preset};
use crate::qemu::Release;
use crate::trace;
use crate::window::Layout;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use toll::Boot;

/// PCI address of the measured disk.
pub const DISK_SLOT: &str = "0000:00:04.0";
/// PCI address of the disk to which the guest writes its symbols.
pub const SYMBOLS_SLOT: &str = "0000:00:05.0";

/// The files of one run.
#[derive(Debug, Clone)]
pub struct Files {
    /// The kernel's image.
    pub kernel: PathBuf,
    /// The guest's initramfs.
    pub initramfs: PathBuf,
    /// The output of the guest's serial console.
    pub console: PathBuf,
    /// The NBD socket of the measured disk.
    pub disk: PathBuf,
    /// The socket to which the plugin sends messages for the measured disk.
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

/// The CPU model that QEMU emulates.
pub fn cpu(preset: &Preset) -> &str {
    let own = match preset.arch {
        Arch::X86 => "max",
        Arch::Arm => "neoverse-n1",
        Arch::Ppc => "power9",
    };
    preset.cpu.as_deref().unwrap_or(own)
}

/// The kernel's name of the serial console.
fn console(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "ttyS0",
        Arch::Arm => "ttyAMA0",
        Arch::Ppc => "hvc0",
    }
}

/// The value of `-machine`: the lab's own options and the preset's.
fn machine(preset: &Preset) -> String {
    let own = match preset.arch {
        Arch::X86 => "q35,kernel-irqchip=split",
        Arch::Arm => "virt,gic-version=3",
        // TCG implements none of these Spectre workarounds and refuses to start if they are requested.
        Arch::Ppc => "pseries,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off",
    };
    match preset.machine.as_str() {
        "" => own.to_owned(),
        more => format!("{own},{more}"),
    }
}

/// Whether the kernel boots with one CPU and the agent's `online` starts the others. On x86 the booting CPU polls for each
/// of them, and in QEMU 7.2 that loop never lets the other CPU run.
pub fn boots_with_one_cpu(arch: Arch) -> bool {
    arch == Arch::X86
}

/// The kernel's command line.
pub fn kernel_command_line(preset: &Preset, vcpus: u32) -> String {
    // nokaslr: random addresses would change the counts from run to run. cpuidle.off: the idle governor chooses by the
    // duration of the last idle time. nvme_core.multipath=N: QEMU 10.0's NVMe controllers report that a namespace may
    // have several controllers, for which the kernel creates a multipath disk.
    let own = format!(
        "console={} nokaslr cpuidle.off=1 panic=-1 ipv6.disable=1 nvme_core.multipath=N",
        console(preset.arch)
    );
    // tsc=reliable: the kernel takes the emulated time-stamp counters of several CPUs for unsynchronised and would use
    // a slower clock.
    let alone = if vcpus > 1 && boots_with_one_cpu(preset.arch) { "maxcpus=1 tsc=reliable" } else { "" };
    let polled = match preset.poll_queues {
        0 => String::new(),
        queues => format!("nvme.poll_queues={queues}"),
    };
    let words = [own.as_str(), preset.append.as_str(), &polled, alone];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// PCI addresses of the two network adapters of a kind, which a hub connects; `None` for other adapters.
pub fn network_slots(adapter: EmulatedAdapter) -> Option<[&'static str; 2]> {
    match adapter {
        EmulatedAdapter::E1000e | EmulatedAdapter::E1000 => Some(["0000:00:06.0", "0000:00:07.0"]),
        EmulatedAdapter::VirtioNet => Some(["0000:00:08.0", "0000:00:09.0"]),
        EmulatedAdapter::Nvme | EmulatedAdapter::None => None,
    }
}

/// A preset's device with the options that this release of QEMU needs.
fn device_for_release(device: &str, release: Release) -> String {
    /// The first release with the property, by the source of 10.2.0. In 10.0 the emulated AMD-Vi intercepts DMA and
    /// interrupts but translates them wrongly, and has no option to prevent it: guests don't boot.
    const DMA_REMAP: Release = Release(10, 2);
    match device.split(',').next() {
        Some("amd-iommu") if release >= DMA_REMAP => format!("{device},dma-remap=on"),
        _ => device.to_owned(),
    }
}

/// QEMU's complete arguments.
pub fn arguments(preset: &Preset, vcpus: u32, boot: Boot, files: &Files, release: Release) -> Vec<OsString> {
    let mut arguments = Arguments::default();
    arguments.add("-machine", machine(preset));
    arguments.add("-cpu", cpu(preset));
    arguments.add("-smp", vcpus.to_string());
    arguments.add("-m", format!("{}M", boot.memory_mib));
    arguments.add_clock(boot.seed);
    if preset.arch == Arch::X86 {
        // Otherwise the firmware also initialises the disks, and polls them a varying number of times.
        arguments.add("-boot", "strict=on");
    }
    arguments.add_console(&files.console);
    arguments.add("-kernel", &files.kernel);
    arguments.add("-initrd", &files.initramfs);
    arguments.add("-append", kernel_command_line(preset, vcpus));
    for device in &preset.devices {
        arguments.add("-device", device_for_release(device, release));
    }
    arguments.add_disks(&files.disk, &files.symbols);
    for adapter in &preset.adapters {
        arguments.add_network(*adapter);
    }
    arguments.add_recording(preset.arch, files);
    arguments.0
}

/// A command line under construction.
#[derive(Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.extend([option.into(), value.into()]);
    }

    fn flag(&mut self, option: &str) {
        self.0.push(option.into());
    }

    /// Makes runs repeatable: one virtual CPU runs at a time, the clock counts instructions, and random numbers
    /// follow from a seed.
    fn add_clock(&mut self, seed: u64) {
        self.add("-accel", "tcg,thread=single");
        self.add("-icount", "shift=0,sleep=off");
        self.add("-rtc", "base=2024-01-01,clock=vm");
        self.add("-seed", seed.to_string());
    }

    /// Removes all default devices, and writes the serial console to a file.
    fn add_console(&mut self, console: &Path) {
        self.flag("-nodefaults");
        self.flag("-no-user-config");
        self.flag("-no-reboot");
        self.add("-display", "none");
        self.add("-monitor", "none");
        self.add("-chardev", with_path("file,id=console,path=", console));
        self.add("-serial", "chardev:console");
    }

    /// Adds the measured disk and the disk for the guest's symbols.
    fn add_disks(&mut self, disk: &Path, symbols: &Path) {
        let served = with_path("driver=nbd,node-name=measured,export=,server.type=unix,server.path=", disk);
        self.add("-blockdev", served);
        self.add(
            "-device",
            format!("nvme,drive=measured,serial=measured,addr={}", device_function(DISK_SLOT)),
        );
        self.add("-blockdev", with_path("driver=file,node-name=symbols-file,filename=", symbols));
        self.add("-blockdev", "driver=raw,node-name=symbols,file=symbols-file");
        self.add(
            "-device",
            format!("nvme,drive=symbols,serial=symbols,addr={}", device_function(SYMBOLS_SLOT)),
        );
    }

    /// Adds two network adapters of a kind, connected by a hub; nothing for other adapters.
    fn add_network(&mut self, adapter: EmulatedAdapter) {
        let (Some(device), Some(slots)) = (adapter.network_device(), network_slots(adapter)) else { return };
        // Otherwise another thread takes packets from the transmit queue, a varying number each time.
        let in_guest_time =
            if adapter == EmulatedAdapter::VirtioNet { ",ioeventfd=off,tx=timer" } else { "" };
        let hub = adapter as usize;
        for (end, slot) in slots.iter().enumerate() {
            let id = format!("hub{hub}end{end}");
            self.add("-netdev", format!("hubport,id={id},hubid={hub}"));
            let mac = format!("52:54:00:00:{hub:02x}:{end:02x}");
            self.add(
                "-device",
                format!(
                    "{device}{in_guest_time},netdev={id},mac={mac},romfile=,addr={}",
                    device_function(slot)
                ),
            );
        }
    }

    /// Loads the plugin with its options, and enables QEMU's trace events.
    fn add_recording(&mut self, arch: Arch, files: &Files) {
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

/// An option that ends in a path, with the path's commas doubled as QEMU requires.
fn with_path(option: &str, path: &Path) -> OsString {
    let mut whole = OsString::from(option);
    match path.to_str() {
        Some(text) => whole.push(text.replace(',', ",,")),
        None => whole.push(path),
    }
    whole
}

/// Device and function of a PCI address: `04.0` of `0000:00:04.0`.
fn device_function(slot: &str) -> &str {
    slot.rsplit(':').next().unwrap_or(slot)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::preset::Presets;

    #[test]
    fn x86_boots_with_one_cpu() {
        let presets = Presets::built_in().unwrap();
        let line = |preset: &str, vcpus| kernel_command_line(presets.get(preset).unwrap(), vcpus);
        assert_eq!(line("x86-vtd-strict", 2), line("x86-vtd-strict", 1) + " maxcpus=1 tsc=reliable");
        assert_eq!(line("arm-smmu-strict", 2), line("arm-smmu-strict", 1));
    }

    #[test]
    fn poll_queues_are_requested_on_the_command_line() {
        let presets = Presets::built_in().unwrap();
        let line = |preset: &str| kernel_command_line(presets.get(preset).unwrap(), 1);
        assert_eq!(line("x86-vtd-strict-ways"), line("x86-vtd-strict") + " nvme.poll_queues=1");
    }

    #[test]
    fn amd_iommu_gets_dma_remap_in_releases_that_have_it() {
        let check = |device: &str, release: Release, expected: &str| {
            assert_eq!(device_for_release(device, release), expected, "{release:?}");
        };
        check("amd-iommu", Release(7, 2), "amd-iommu");
        check("amd-iommu,xtsup=on", Release(11, 1), "amd-iommu,xtsup=on,dma-remap=on");
        check("intel-iommu,intremap=on", Release(11, 1), "intel-iommu,intremap=on");
    }
}
