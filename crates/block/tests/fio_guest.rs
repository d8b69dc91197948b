//! fio in a guest with NVMe controllers of QEMU: one has the kernel's driver, another is driven by the library through VFIO. One run of fio has
//! both. With `FIO_SOURCE`, as for the tests on the host.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../lab/tests/support/driver.rs"]
mod driver;

#[path = "support/fio.rs"]
#[allow(dead_code, reason = "jobs run on the host, too")]
mod engine;

#[path = "../../lab/tests/support/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "other tests use more of it")]
mod support;

use driver::bind_to;
use engine::Fio;
use lab::{Arch, kernel::Series};
use std::path::Path;
use std::{env, fs};
use support::{Guest, GuestKernel, cache};

const KERNEL_S: &str = "/dev/nvme0n1";
const ADAPTER: &str = "0000:00:06.0";
const DISK_BYTES: u64 = 32 << 20;
/// Has a block that can't be read.
const FAILING: &str = "0000:00:07.0";
const FAILING_BLOCK: u64 = 100;

/// Shell lines that put a job file of `fio/examples` into the guest.
fn job_file(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fio/examples").join(name);
    format!("busybox cat > /{name} <<'END'\n{}END\n", fs::read_to_string(path).unwrap())
}

/// Boots the guest, which runs these lines.
fn boot(fio: &Fio, script: &str) -> Option<String> {
    let cache = cache()?;
    let kernel = GuestKernel::Debian(Series::V6_1).find(&cache, Arch::X86)?;
    let folder = tempfile::tempdir().unwrap();
    let drive = |name: &str, place: u8, more: &str| {
        let path = folder.path().join(name);
        fs::File::create(&path).unwrap().set_len(DISK_BYTES).unwrap();
        format!(
            "-drive if=none,driver=raw,cache=unsafe,discard=unmap,id={name},file.driver=blkdebug,file.image.filename={}{more} \
             -device nvme,serial={name},addr={place},drive={name},logical_block_size=4096,physical_block_size=4096 ",
            path.display()
        )
    };
    let fails =
        format!(",file.inject-error.0.event=read_aio,file.inject-error.0.sector={}", FAILING_BLOCK * 8);
    let devices = [
        "-device intel-iommu,intremap=on ".to_owned(),
        drive("kernel", 5, ""),
        drive("iotoll", 6, ""),
        drive("failing", 7, &fails),
    ];
    let devices = devices.concat();
    let programs: [&Path; 2] = [&fio.program, &fio.engine];
    let guest = Guest {
        modules: &["vfio_pci", "vfio_iommu_type1", "nvme"],
        programs: &programs,
        before: "busybox sleep 2\n".to_owned(),
        modes: &[],
        after: script,
        devices: &devices,
        command_line: "intel_iommu=on no_timer_check",
    };
    guest.run(&cache, &kernel)
}

/// What fio writes through VFIO it reads there, and by the kernel's driver. Then the same reads by io_uring and by the library, in turn.
#[test]
fn fio_has_io_uring_and_the_library_in_one_run() {
    let Some(fio) = Fio::of_source() else {
        support::skip("FIO_SOURCE names no source of fio in which it was built");
        return;
    };
    let (program, engine) = (fio.program.display(), fio.engine.display());
    let name = ADAPTER.replace(':', r"\:");
    let ends = |what: &str| format!(" && echo '{what} ended' || echo '{what} failed'\n");
    let variables = format!(
        "export ENGINE={engine} DISK='{name}' IOTOLL='{name}' KERNEL={KERNEL_S} DIRECT=1 SECONDS=3\n"
    );
    let own = format!(
        "{program} --name=job --ioengine=external:{engine} --filename='{name}' --thread=1 --iodepth=8"
    );
    let script = [
        job_file("verify.fio"),
        job_file("compare.fio"),
        bind_to(ADAPTER, "vfio-pci"),
        variables,
        format!("{program} --verify_state_save=0 /verify.fio{}", ends("verify")),
        format!("{program} /compare.fio{}", ends("compare")),
        format!("{own} --rw=trimwrite --bs=16k --size=4m{}", ends("trim")),
        format!(
            "{own} --rw=randwrite --bs=4k --size=32m --numjobs=2 --verify=crc32c --do_verify=0 --fsync=32{}",
            ends("write")
        ),
        bind_to(FAILING, "vfio-pci"),
        format!(
            "{program} --name=job --ioengine=external:{engine} --filename='{}' --thread=1 --iodepth=8 --rw=read --bs=4k{}",
            FAILING.replace(':', r"\:"),
            ends("read")
        ),
        bind_to(ADAPTER, "nvme"),
        "until [ -b /dev/nvme1n1 ]; do busybox usleep 20000; done\n".to_owned(),
        format!(
            "{program} --name=job --ioengine=io_uring --direct=1 --filename=/dev/nvme1n1 --thread=1 --iodepth=8 --rw=randwrite --bs=4k \
             --size=32m --verify=crc32c --verify_only=1{}",
            ends("kernel")
        ),
        "busybox dmesg | busybox grep -e DMAR: -e 'nvme nvme'\n".to_owned(),
    ];
    let Some(console) = boot(fio, &script.concat()) else { return };
    for what in ["verify", "compare", "trim", "write", "kernel"] {
        assert!(console.contains(&format!("{what} ended")), "{console}");
    }
    let error = format!("iotoll: read of 4096 bytes at {} failed with NVMe's status", FAILING_BLOCK * 4096);
    for expected in ["read failed", &*error, "Input/output error"] {
        assert!(console.contains(expected), "{expected}: {console}");
    }
    assert!(!console.contains("[DMA Read") && !console.contains("[DMA Write"), "{console}");
    println!("The guest's rates are those of an emulated CPU and emulated controllers, not of hardware:");
    let is_rate = |line: &&str| line.contains("IOPS=") || line.contains("groupid=");
    console.lines().filter(is_rate).for_each(|line| println!("{line}"));
}
