//! The machines of guests, and how they boot.

use lab::{
    Arch,
    kernel::Kernel,
    qemu::{self, Limits, QemuError},
};
use std::{ffi::OsString, fs, sync::atomic::AtomicBool, time::Duration};

/// QEMU's machine with no more than a processor and memory, its CPU, and the kernel's console.
#[allow(dead_code, reason = "guests with devices have machines of their own")]
pub(crate) fn machine(arch: Arch) -> (&'static str, &'static str, &'static str) {
    match arch {
        Arch::X86 => ("q35", "max", "ttyS0"),
        Arch::Arm => ("virt", "cortex-a72", "ttyAMA0"),
        // TCG implements none of the Spectre workarounds that pseries announces by default.
        Arch::Ppc => {
            let pseries = "pseries,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off";
            (pseries, "power9", "hvc0")
        }
    }
}

/// Boots a kernel with an initramfs on a machine, by QEMU's arguments for it and its devices, and further words of the kernel's command
/// line. Returns the console's output; `None` without QEMU. Panics if it takes longer than `time`.
pub(crate) fn boot(
    kernel: &Kernel,
    archive: &[u8],
    machine: &str,
    command_line: &str,
    time: Duration,
) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let [guest, console] = ["guest", "console"].map(|name| folder.path().join(name));
    fs::write(&guest, archive).unwrap();
    let arguments = format!("{machine} -m 1G -nodefaults -display none -no-reboot");
    let mut arguments: Vec<OsString> = arguments.split_ascii_whitespace().map(OsString::from).collect();
    arguments.extend(["-serial".into(), format!("file:{}", console.display()).into()]);
    arguments.extend(["-kernel".into(), kernel.image.clone().into(), "-initrd".into(), guest.into()]);
    // x86's test of its timer counts ticks in real time, and fails now and then on a busy machine.
    let command_line = format!("{command_line} no_timer_check panic=-1 quiet");
    arguments.extend(["-append".into(), command_line.into()]);
    let limits = Limits { time, stop: &AtomicBool::new(false) };
    match qemu::run(kernel.arch, &arguments, &console, limits, &mut |_| {}) {
        Ok(()) => Some(String::from_utf8_lossy(&fs::read(console).unwrap()).into_owned()),
        Err(QemuError::Missing { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}
