//! Real IOMMUs: an adapter in a guest does DMA through VFIO and iommufd, and is kept from what is not mapped.
//!
//! This program goes into the guest itself, with the libraries that it was linked with, and there runs the test that is ignored
//! elsewhere. The kernels are those of `iotoll lab fetch`, and for iommufd, which Debian's lack, what
//! `kernel/fetch_ubuntu.sh` put into the folder `ubuntu` of the same cache.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../dma/examples/edu.rs"]
#[allow(dead_code, unreachable_pub, reason = "an example, whose main is not called here")]
mod edu;

use lab::{
    Arch,
    guest::{Initramfs, PlacedFile, initramfs::module_path},
    kernel::{Cache, Kernel, KernelChoice, Module, ModuleTree, Series, busybox},
    qemu::{self, Limits, QemuError},
};
use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    io::{self, Write},
    path::Path,
    process::Command,
    sync::atomic::AtomicBool,
    time::Duration,
};

/// Where the educational device is.
const ADAPTER: &str = "0000:00:04.0";
/// In the guest: by which interface.
const WAY: &str = "IOTOLL_WAY";
/// A guest under emulation boots in seconds; a busy machine takes some more.
const BOOT_TIME_MAX: Duration = Duration::from_secs(240);

#[allow(clippy::explicit_write, reason = "what eprintln writes is captured")]
fn skip(why: &str) {
    writeln!(io::stderr(), "SKIPPED: {why}").unwrap();
}

#[test]
#[ignore = "only in a guest that has the device"]
fn in_the_guest() {
    edu::run(ADAPTER, &env::var(WAY).unwrap()).unwrap();
}

#[test]
fn an_adapter_does_dma_through_vfio() {
    let Some(cache) = cache() else { return };
    let choice = KernelChoice { arch: Arch::X86, series: Series::V6_1 };
    match Kernel::newest(&cache, choice) {
        Ok(kernel) => check(&cache, &kernel, &["vfio_pci", "vfio_iommu_type1"], &["vfio"]),
        Err(why) => skip(&why.to_string()),
    }
}

#[test]
fn an_adapter_does_dma_through_iommufd_and_vfio_of_a_newer_kernel() {
    let Some(cache) = cache() else { return };
    let folder = cache.root().join("ubuntu");
    if !folder.join("modules").exists() {
        return skip("no kernel with iommufd; crates/lab/tests/kernel/fetch_ubuntu.sh fetches one");
    }
    let kernel = Kernel::of_user(Arch::X86, &folder.join("vmlinuz"), &folder.join("modules")).unwrap();
    check(&cache, &kernel, &["vfio_pci", "vfio_iommu_type1", "iommufd"], &["vfio", "iommufd"]);
}

fn cache() -> Option<Cache> {
    if env::var("IOTOLL_KERNEL_TESTS").is_ok_and(|value| value == "off") {
        skip("IOTOLL_KERNEL_TESTS=off, no guest was booted");
        return None;
    }
    Some(Cache::of_environment().unwrap())
}

fn check(cache: &Cache, kernel: &Kernel, modules: &[&str], ways: &[&str]) {
    let modules = ModuleTree::of_kernel(kernel).unwrap().order(modules).unwrap().load;
    let busybox = fs::read(busybox(cache, kernel.arch).unwrap()).unwrap();
    let program = env::current_exe().unwrap();
    let files: BTreeMap<String, Vec<u8>> = libraries(&program)
        .into_iter()
        .chain([program.to_str().unwrap().to_owned()])
        .map(|path| (path.clone(), fs::read(path).unwrap()))
        .collect();
    let placed: Vec<PlacedFile<'_>> = files
        .iter()
        .map(|(path, bytes)| PlacedFile { path: path.as_str(), permissions: 0o755, bytes: bytes.as_slice() })
        .collect();
    let init = init(&modules, &program, ways);
    let guest = Initramfs {
        release: &kernel.release,
        busybox: &busybox,
        modules: &modules,
        init: &init,
        files: &placed,
    };
    let Some(console) = boot(kernel, &guest.build().unwrap()) else {
        return skip(&format!("no {} here, {} was not booted", kernel.arch.qemu(), kernel.release));
    };
    for way in ways {
        assert!(console.contains(&format!("edu: {way}: all as expected")), "{way}: {console}");
    }
    // The kernel's own word for it that the IOMMU stood in the way, of a write to what was unmapped.
    assert!(console.contains("DMAR: [DMA Write"), "{console}");
}

/// Shared libraries of a program, by their paths.
fn libraries(program: &Path) -> Vec<String> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect()
}

fn init(modules: &[Module], program: &Path, ways: &[&str]) -> String {
    let mut script = "#!/bin/sh\n".to_owned();
    for (kind, place) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        script += &format!("busybox mount -t {kind} {kind} {place}\n");
    }
    for (position, module) in modules.iter().enumerate() {
        script += &format!("busybox insmod {}\n", module_path(position, module));
    }
    script += &format!("echo vfio-pci > /sys/bus/pci/devices/{ADAPTER}/driver_override\n");
    script += &format!("echo {ADAPTER} > /sys/bus/pci/drivers_probe\n");
    for way in ways {
        let program = program.display();
        script += &format!("{WAY}={way} {program} --ignored --exact in_the_guest --nocapture\n");
    }
    script + "busybox dmesg | busybox grep DMAR\nbusybox poweroff -f\n"
}

/// Boots a guest with an IOMMU and the device, and returns what it wrote on its console; `None` without QEMU.
fn boot(kernel: &Kernel, archive: &[u8]) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let [guest, console] = ["guest", "console"].map(|name| folder.path().join(name));
    fs::write(&guest, archive).unwrap();
    let mut arguments: Vec<OsString> = format!(
        "-machine q35,kernel-irqchip=split -cpu max -m 1G -accel tcg -nodefaults -display none -no-reboot -device intel-iommu,\
         intremap=on -device edu,addr=4 -serial file:{}",
        console.display()
    )
    .split(' ')
    .map(OsString::from)
    .collect();
    arguments.extend(["-kernel".into(), kernel.image.clone().into(), "-initrd".into(), guest.into()]);
    arguments.extend(["-append".into(), "console=ttyS0 intel_iommu=on panic=-1 quiet".into()]);
    let limits = Limits { time: BOOT_TIME_MAX, stop: &AtomicBool::new(false) };
    match qemu::run(kernel.arch, &arguments, &console, limits) {
        Ok(()) => Some(String::from_utf8_lossy(&fs::read(console).unwrap()).into_owned()),
        Err(QemuError::Missing { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}
