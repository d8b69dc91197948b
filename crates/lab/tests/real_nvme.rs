//! Tests of the user-space NVMe driver in a guest, with the kernel's VFIO and QEMU's NVMe controller. Afterwards the
//! kernel's driver is bound again.
//!
//! As in `real_iommu`, this test program itself is copied into the guest.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../nvme/examples/verify.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example, whose main is not called here")]
mod verify;

#[path = "../../nvme/examples/safety.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example, whose main is not called here")]
mod safety;

#[path = "support/driver.rs"]
mod driver;
#[path = "support/mod.rs"]
mod support;

use driver::bind_to;
use lab::{
    Arch,
    kernel::{Cache, Kernel, Series},
};
use std::{env, fs};
use support::{Guest, GuestKernel, MODE, cache, takes_too_long};

/// PCI address of the controller.
const ADAPTER: &str = "0000:00:05.0";
const BLOCK_BYTES: usize = 512;
const DISK_BYTES: usize = 32 << 20;
/// Size of the disk for the test that kills the program.
const KILLED_DISK_BYTES: usize = 8 << 20;
const GUARD_BYTES: usize = 64 * BLOCK_BYTES;
/// The content of blocks that must not be overwritten.
const UNTOUCHED: u8 = 0xee;

#[test]
#[ignore = "only in a guest that has the controller"]
fn in_the_guest() {
    let mode = env::var(MODE).unwrap();
    match mode.strip_prefix("safety ") {
        Some(words) => safety::run(&words.split(' ').collect::<Vec<_>>()).unwrap(),
        None => verify::run(ADAPTER, &mode).unwrap(),
    }
}

#[test]
fn a_disk_is_written_through_vfio_and_rebound() {
    let Some(cache) = cache() else { return };
    let Some(kernel) = GuestKernel::Debian(Series::V6_1).find(&cache, Arch::X86) else { return };
    check(&cache, &kernel, &["vfio_pci", "vfio_iommu_type1", "nvme"], &["vfio"]);
}

#[test]
fn a_disk_is_written_through_iommufd() {
    if takes_too_long() {
        return;
    }
    let Some(cache) = cache() else { return };
    let Some(kernel) = GuestKernel::Ubuntu("ubuntu").find(&cache, Arch::X86) else { return };
    check(&cache, &kernel, &["vfio_pci", "vfio_iommu_type1", "iommufd", "nvme"], &["iommufd"]);
}

/// A writing program is killed several times. Acknowledged blocks must be on the disk; others may be old or new.
#[test]
fn acknowledged_writes_survive_when_the_program_is_killed() {
    let Some(cache) = cache() else { return };
    let Some(kernel) = GuestKernel::Debian(Series::V6_1).find(&cache, Arch::X86) else { return };
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::write(&disk, vec![UNTOUCHED; KILLED_DISK_BYTES]).unwrap();
    let program = env::current_exe().unwrap();
    let run = format!("{} --ignored --exact in_the_guest --nocapture", program.display());
    let safety = |words: &str, to: &str| format!("{MODE}=\"safety {ADAPTER} {words}\" {run} {to}");
    // Round 1 writes everything. The program is killed in the rounds after it.
    let mut after = format!("{}\n", safety("write 1", "> /tmp/all; busybox tail -n 3 /tmp/all"));
    for round in 2..5 {
        after += &format!(
            "{} &\nwriter=$!\nuntil busybox grep -q 'acknowledged {round} {}' /tmp/acks{round}; do busybox usleep 20000; done\n\
             kill -9 $writer\nwait $writer\necho \"killed: $?\"\n\
             last=$(busybox grep acknowledged /tmp/acks{round} | busybox tail -n 1)\necho \"last: $last\"\n{}\n",
            safety(&format!("write {round}"), &format!("> /tmp/acks{round}")),
            round * 20,
            safety(&format!("check {round} ${{last##* }}"), ""),
        );
        // The next round starts with all blocks of this one on the disk.
        after += &format!("{}\n", safety(&format!("write {round}"), "> /tmp/all"));
    }
    let guest = Guest {
        modules: &["vfio_pci", "vfio_iommu_type1", "nvme"],
        programs: &[],
        before: format!("busybox sleep 1\n{}", bind_to(ADAPTER, "vfio-pci")),
        modes: &[],
        after: &format!(
            "{after}{}busybox sleep 2\nbusybox dmesg | busybox grep -e DMAR -e nvme\n",
            bind_to(ADAPTER, "nvme")
        ),
        devices: &devices(&disk),
        command_line: "intel_iommu=on",
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    assert_eq!(console.matches("killed: 137").count(), 3, "{console}");
    assert_eq!(console.matches("safety: check: all as expected").count(), 3, "{console}");
    assert!(!console.contains("[DMA Read") && !console.contains("[DMA Write"), "{console}");
    assert!(console.contains("nvme nvme"), "the kernel's driver is bound again: {console}");
    let bytes = fs::read(&disk).unwrap();
    let is_untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == UNTOUCHED);
    assert!(is_untouched(&bytes[..GUARD_BYTES]) && is_untouched(&bytes[KILLED_DISK_BYTES - GUARD_BYTES..]));
}

/// QEMU's arguments for an IOMMU and the NVMe disk.
fn devices(disk: &std::path::Path) -> String {
    format!(
        "-device intel-iommu,intremap=on -drive file={},if=none,format=raw,cache=unsafe,id=disk -device nvme,serial=iotoll,drive=disk,addr=5",
        disk.display()
    )
}

/// Boots a kernel, runs the test once per mode and checks the disk's content afterwards.
fn check(cache: &Cache, kernel: &Kernel, modules: &[&str], modes: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let disk = folder.path().join("disk");
    fs::write(&disk, vec![UNTOUCHED; DISK_BYTES]).unwrap();
    // Before the test, the kernel's driver is bound, as on any host.
    let after = format!(
        "{}busybox sleep 2\nbusybox dd if=/dev/nvme0n1 bs=512 skip=64 count=1 | busybox hexdump -C\n\
         busybox dmesg | busybox grep -e DMAR -e nvme\n",
        bind_to(ADAPTER, "nvme")
    );
    let guest = Guest {
        modules,
        programs: &[],
        before: format!("busybox sleep 1\n{}", bind_to(ADAPTER, "vfio-pci")),
        modes,
        after: &after,
        devices: &devices(&disk),
        command_line: "intel_iommu=on",
    };
    let Some(console) = guest.run(cache, kernel) else { return };
    for mode in modes {
        assert!(console.contains(&format!("verify: {mode}: all as expected")), "{mode}: {console}");
    }
    assert!(
        !console.contains("[DMA Read") && !console.contains("[DMA Write"),
        "the IOMMU blocked DMA: {console}"
    );
    // Block 64 as the kernel's driver reads it: its number is in the third byte of each word.
    assert!(console.contains("00000000  00 00 40 00 00 00 00 00  08 00 40 00"), "{console}");
    let bytes = fs::read(&disk).unwrap();
    let is_untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == UNTOUCHED);
    assert!(is_untouched(&bytes[..GUARD_BYTES]), "blocks before the first are unchanged");
    let chunk = verify::pattern(0, BLOCK_BYTES as u64).len();
    let written = (DISK_BYTES - 2 * GUARD_BYTES) / chunk * chunk;
    let end = GUARD_BYTES + written;
    assert!(is_untouched(&bytes[end..]), "blocks behind the last are unchanged");
    for (number, on_disk) in bytes[GUARD_BYTES..end].chunks_exact(chunk).enumerate() {
        let first = (GUARD_BYTES + number * chunk) / BLOCK_BYTES;
        assert!(on_disk == verify::pattern(first as u64, BLOCK_BYTES as u64), "blocks from {first}");
    }
}
