//! The machines of guests that have no more than a processor and memory.

use lab::Arch;

/// QEMU's machine, its CPU and the kernel's console for an architecture.
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
