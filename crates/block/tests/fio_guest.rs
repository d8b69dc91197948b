//! fio in a guest with NVMe controllers of QEMU: one has the kernel's driver, another is driven by the library through VFIO. One run of fio has
//! both. With `FIO_SOURCE`, as for the tests on the host.
//!
//! And fio beside `iotoll bench blk`, on one controller in one boot. With `IOTOLL_PROGRAM`, a built `iotoll`, else the one beside this program.

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
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
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

/// Boots the guest, which has these programs beside fio, and runs these lines. `options` are QEMU's.
fn boot(fio: &Fio, more: &[&Path], options: &str, script: &str) -> Option<String> {
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
        format!("{options}-device intel-iommu,intremap=on "),
        drive("kernel", 5, ""),
        drive("iotoll", 6, ""),
        drive("failing", 7, &fails),
    ];
    let devices = devices.concat();
    let mut programs: Vec<&Path> = vec![&fio.program, &fio.engine];
    programs.extend(more);
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
    let Some(console) = boot(fio, &[], "", &script.concat()) else { return };
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

/// How many are in flight, in fio and in `bench blk`.
const DEPTHS: [u16; 2] = [1, 32];
/// Reads or writes of one of fio's jobs.
const IOS: u32 = 2000;
/// fio's rounds of all of its jobs: the kernel's driver and the library in turn.
const ROUNDS: usize = 2;
/// The guest's clock counts instructions, one a nanosecond, also those of a thread. It skips what an idle CPU waits.
const CLOCK_OF_INSTRUCTIONS: &str = "-icount shift=0,sleep=off ";
/// What fio and `bench blk` count for a read by io_uring may be this far apart: their own loops are in it, and the interrupts that come
/// while they run.
const APART_MAX: f64 = 2.0;

/// A copy of `iotoll` without debugging symbols; `None` if none was built.
fn iotoll(folder: &Path) -> Option<PathBuf> {
    let beside = env::current_exe().unwrap().parent()?.parent()?.join("iotoll");
    let built = env::var_os("IOTOLL_PROGRAM").map_or(beside, PathBuf::from);
    if !built.is_file() {
        return None;
    }
    let program = folder.join("iotoll");
    let mut strip = Command::new("strip");
    assert!(strip.arg("--strip-debug").arg("-o").args([&program, &built]).status().unwrap().success());
    Some(program)
}

/// Shell lines for fio's jobs of one kind: reads and writes, at each depth, each with the name `KIND DIRECTION DEPTH`.
fn jobs(fio: &Fio, kind: &str, options: &str) -> String {
    let job = |direction: &str, depth: u16| {
        format!(
            "{} --minimal --name='{kind} {direction} {depth}' --thread=1 --rw=rand{direction} --bs=4k --iodepth={depth} --size={DISK_BYTES} \
             --number_ios={IOS} --norandommap=1 {options}\n",
            fio.program.display()
        )
    };
    DEPTHS.iter().flat_map(|depth| ["read", "write"].map(|direction| job(direction, *depth))).collect()
}

/// The thread's instructions for each read or write by `KIND DIRECTION DEPTH`, one number for each round, from fio's lines.
fn counts_of_fio(console: &str) -> BTreeMap<String, Vec<f64>> {
    let mut counts: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for fields in console.lines().map(|line| line.split(';').collect::<Vec<_>>()) {
        // The version of fio's format, then the name and an error.
        let [Some("3"), Some(name), Some(error)] = [0, 2, 4].map(|at| fields.get(at).copied()) else {
            continue;
        };
        assert_eq!(error, "0", "{name}");
        let number = |at: usize| fields[at].trim_end_matches('%').parse::<f64>().unwrap();
        // KiB and milliseconds of the direction, and the shares of the CPU in user mode and in the kernel.
        let (kib, ms) = if name.contains(" read ") { (5, 8) } else { (46, 49) };
        let ios = number(kib) / 4.0;
        assert_eq!(ios, f64::from(IOS), "{name}");
        let instructions = (number(87) + number(88)) / 100.0 * number(ms) * 1e6 / ios;
        counts.entry(name.to_owned()).or_default().push(instructions);
    }
    counts
}

/// The thread's instructions for a read by `KIND read DEPTH`: median, smallest and largest, from the document of `bench blk`.
fn counts_of_bench(document: &serde_json::Value) -> BTreeMap<String, [f64; 3]> {
    let mut counts = BTreeMap::new();
    for row in document["rows"].as_array().unwrap() {
        let kind = match row["way"].as_str().unwrap() {
            "io_uring" => "io_uring",
            "nvme" => "library",
            _ => continue,
        };
        for cell in row["cells"].as_array().unwrap() {
            let instructions = |name: &str| 1e9 / cell["reads_per_cpu_second"][name].as_f64().unwrap();
            counts
                .insert(format!("{kind} read {}", cell["depth"]), ["median", "max", "min"].map(instructions));
        }
    }
    counts
}

/// The same controller in the same boot, by the kernel's driver and by the library. For reads by io_uring, `bench blk` and fio must count about the
/// same. A thread that polls counts its polls, whose number is the host's: that is only printed.
#[test]
fn fio_and_bench_blk_count_the_same_for_io_uring() {
    let folder = tempfile::tempdir().unwrap();
    let (Some(fio), Some(iotoll)) = (Fio::of_source(), iotoll(folder.path())) else {
        support::skip("FIO_SOURCE names no source of fio in which it was built, or no iotoll was built");
        return;
    };
    let kernel = format!(
        "until [ -d /sys/bus/pci/devices/{ADAPTER}/nvme ]; do busybox usleep 20000; done\n\
         disk=/dev/$(busybox ls /sys/bus/pci/devices/{ADAPTER}/nvme)n1\n\
         until [ -b $disk ]; do busybox usleep 20000; done\n"
    );
    let by_library =
        format!("--ioengine=external:{} --filename='{}'", fio.engine.display(), ADAPTER.replace(':', r"\:"));
    let depths = DEPTHS.map(|depth| depth.to_string()).join(",");
    let bench = format!(
        "echo 'bench begins'\n{} bench blk {ADAPTER} --unbind --depth {depths} --rounds 3 --round-ms 50 --json 2> /tmp/errors\n\
         echo 'bench ends'\nbusybox cat /tmp/errors\n",
        iotoll.display()
    );
    let mut script = kernel.clone();
    for round in 0..ROUNDS {
        script += &jobs(fio, "io_uring", "--ioengine=io_uring --direct=1 --filename=$disk");
        script += &bind_to(ADAPTER, "vfio-pci");
        script += &jobs(fio, "library", &by_library);
        script += &bind_to(ADAPTER, "nvme");
        script += &kernel;
        if round == 0 {
            // It measures the kernel's driver, unbinds it, and binds it again.
            script += &format!("echo > /sys/bus/pci/devices/{ADAPTER}/driver_override\n{bench}{kernel}");
        }
    }
    let Some(console) = boot(fio, &[&iotoll], CLOCK_OF_INSTRUCTIONS, &script) else { return };
    let console = console.replace('\r', "");
    let document = console.split_once("bench begins\n").and_then(|(_, rest)| rest.split_once("bench ends"));
    let document = document.and_then(|(document, _)| serde_json::from_str(document).ok());
    let bench = counts_of_bench(&document.unwrap_or_else(|| panic!("{console}")));
    let by_fio = counts_of_fio(&console);
    println!("Instructions of the thread for each: by fio in each round; by bench blk, median (range):");
    for (name, counts) in &by_fio {
        let by_bench =
            bench.get(name).map(|[median, min, max]| format!("{median:.0} ({min:.0} to {max:.0})"));
        println!("{name}: {counts:.0?}; {}", by_bench.as_deref().unwrap_or("reads only"));
    }
    // Two drivers, two directions for fio and one for bench, at each depth.
    assert_eq!((by_fio.len(), bench.len()), (4 * DEPTHS.len(), 2 * DEPTHS.len()), "{console}");
    for (name, counts) in by_fio {
        assert_eq!(counts.len(), ROUNDS, "{name}: {console}");
        if let Some([median, ..]) = bench.get(&name).filter(|_| name.starts_with("io_uring")) {
            let ratio = median * ROUNDS as f64 / counts.iter().sum::<f64>();
            assert!((1.0 / APART_MAX..=APART_MAX).contains(&ratio), "{name}: {ratio}");
        }
    }
    assert!(!console.contains("[DMA Read") && !console.contains("[DMA Write"), "{console}");
}
