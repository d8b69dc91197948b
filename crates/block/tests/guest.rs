//! The library in a guest, on QEMU's NVMe controller: through VFIO, and through the kernel's driver. This test program itself is copied into the
//! guest.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/mod.rs"]
mod chunks;

#[path = "../../lab/tests/support/driver.rs"]
mod driver;

#[path = "../../lab/tests/support/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "other tests use more of it")]
mod support;

use block::c_types::{CBLK_ARW_WAIT_CMD_FLAGS, CBLK_OPN_VIRT_LUN};
use block::interface::own::{iotoll_block_error, iotoll_block_flush};
use chunks::{BLOCK, Chunk, pattern};
use dma::vfio::Interface;
use driver::bind_to;
use lab::{Arch, kernel::Series};
use nvme::broker::{Broker, EventHandler, Limits, Share};
use nvme::chunk::DiskPath;
use nvme::{Adapter, Controller};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, fs, thread};
use support::{Guest, GuestKernel, MODE, cache};

const ADAPTER: &str = "0000:00:05.0";
/// The first namespace has blocks of 512 bytes, the second of 4096.
const SECOND: &str = "0000:00:05.0/2";
const DEVICE: &str = "/dev/nvme0n1";
const DISK_BYTES: u64 = 64 << 20;

#[test]
#[ignore = "only in a guest that has the controller"]
fn in_the_guest() {
    match env::var(MODE).unwrap().as_str() {
        "kernel" => through_the_kernel(),
        "vfio" => through_vfio(),
        "serve" => return serve(),
        "broker" => through_a_broker(),
        "paths" => through_two_paths(),
        "removal" => while_a_controller_is_removed(),
        other => panic!("{other}"),
    }
    println!("{} is as it should be", env::var(MODE).unwrap());
}

fn error_text() -> String {
    let mut text = [0; 512];
    // SAFETY: the memory has as many bytes.
    #[allow(unsafe_code, reason = "a C function")]
    let length = unsafe { iotoll_block_error(text.as_mut_ptr().cast(), text.len()) };
    String::from_utf8(text[..length.min(511)].to_vec()).unwrap()
}

/// The kernel's driver has the disk: its block device is read and written, the controller is refused.
fn through_the_kernel() {
    assert_eq!(Chunk::open(ADAPTER, 0, libc::O_RDWR, 0).unwrap_err(), libc::ENODEV);
    let why = error_text();
    assert!(why.contains(ADAPTER) && why.contains("vfio"), "{why}");
    let chunk = Chunk::open(DEVICE, 0, libc::O_RDWR, 0).unwrap();
    assert_eq!(chunk.stats().max_transfer_size, 4096);
    write_by_threads(&chunk, 0);
    holds(&chunk, 0);
    // The device is opened once for all chunks of a process, and for this process alone.
    let other = Chunk::open(DEVICE, 0, libc::O_RDONLY, 0).unwrap();
    holds(&other, 0);
    assert_eq!(iotoll_block_flush(chunk.0), 0);
    let exclusive = fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(DEVICE);
    assert_eq!(exclusive.unwrap_err().raw_os_error(), Some(libc::EBUSY), "nor can it be mounted meanwhile");
    drop((chunk, other));
    let _held = fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(DEVICE).unwrap();
    assert_eq!(Chunk::open(DEVICE, 0, libc::O_RDWR, 0).unwrap_err(), libc::EBUSY, "as if it were mounted");
}

fn through_vfio() {
    let chunk = Chunk::open(ADAPTER, 0, libc::O_RDWR, 0).unwrap();
    holds(&chunk, 0);
    write_by_threads(&chunk, 1000);
    holds(&chunk, 1000);
    assert_eq!(chunk.unmap(5, 3), Ok(3));
    assert_eq!(
        chunk.read(4, 5).map(|read| read.iter().filter(|byte| **byte == 0).count() >= 3 * BLOCK),
        Ok(true)
    );
    assert_eq!(chunk.read(5, 3), Ok(vec![0; 3 * BLOCK]));
    assert_eq!(iotoll_block_flush(chunk.0), 0);
    // A command of 4 MiB, which is many requests of the controller.
    let long: Vec<u8> = (0..1024).flat_map(pattern).collect();
    assert_eq!((chunk.write(2000, &long), chunk.read(2000, 1024)), (Ok(1024), Ok(long)));
    let [one, other] = [0, 1].map(|_| Chunk::open(ADAPTER, 0, libc::O_RDWR, CBLK_OPN_VIRT_LUN).unwrap());
    one.set_size(100).unwrap();
    other.set_size(100).unwrap();
    for block in 0..100 {
        one.write(block, &pattern(block as u64)).unwrap();
        other.write(block, &pattern(500 + block as u64)).unwrap();
    }
    assert!((0..100).all(|block| one.read(block, 1) == Ok(pattern(block as u64))));
    for chunk in [one, other, chunk] {
        assert_eq!(chunk.close(), Ok(0));
    }
    assert_eq!(Chunk::open("0000:00:05.0/9", 0, libc::O_RDWR, 0).unwrap_err(), libc::ENODEV);
    let second = Chunk::open(SECOND, 0, libc::O_RDWR, 0).unwrap();
    write_by_threads(&second, 7);
    holds(&second, 7);
}

/// Two controllers of a subsystem, with one namespace.
const PATHS: [&str; 2] = ["0000:00:06.0", "0000:00:07.0"];

/// One of two controllers stops answering under load: nothing is lost, and nothing is seen of it. Threads sleep until interrupts.
fn through_two_paths() {
    let chunk = Chunk::open(&PATHS.join("+"), 0, libc::O_RDWR, 0).unwrap();
    assert_eq!(chunk.stats().num_paths, 2);
    write_by_threads(&chunk, 0);
    let pulled = std::time::Instant::now();
    thread::scope(|scope| {
        let busy = scope.spawn(|| {
            let mut rounds = 0;
            while pulled.elapsed().as_secs() < 20 {
                write_by_threads(&chunk, 1000 * rounds);
                holds(&chunk, 1000 * rounds);
                rounds += 1;
            }
            rounds
        });
        thread::sleep(std::time::Duration::from_millis(500));
        // Neither registers nor memory: the command register of configuration space is 0.
        let config = format!("/sys/bus/pci/devices/{}/config", PATHS[1]);
        let config = fs::OpenOptions::new().write(true).open(config).unwrap();
        config.write_all_at(&[0, 0], 4).unwrap();
        println!("{} rounds of {THREADS} threads, a path pulled in the first", busy.join().unwrap());
    });
    drop(chunk);
    let wrong = format!("{ADAPTER}+{}", PATHS[0]);
    assert_eq!(Chunk::open(&wrong, 0, libc::O_RDWR, 0).unwrap_err(), libc::EINVAL);
    let why = error_text();
    assert!(why.contains("different subsystems"), "{why}");
}

/// The system removes one of two controllers that a broker drives: it gets that back at once, and nothing is lost.
fn while_a_controller_is_removed() {
    let mut adapters =
        PATHS.map(|path| Some(Adapter::open(path, Interface::of_this_host(path), 32 << 20).unwrap()));
    let path = |adapter: &Option<Adapter>| {
        let adapter = adapter.as_ref().unwrap();
        let namespace = Controller::lock(&adapter.controller()).namespaces()[0];
        DiskPath {
            controller: adapter.controller(),
            namespace,
            interrupts: Some(adapter.queue_interrupts(1).unwrap()),
        }
    };
    let paths: Vec<DiskPath> = adapters.iter().map(path).collect();
    let blocks = paths[0].namespace.format.blocks;
    let share = Share { socket: SOCKET.into(), first: 0, blocks, is_writable: true };
    let (broker, stop) =
        (Broker::new(paths, vec![share], Limits::default()).unwrap(), Arc::new(AtomicBool::new(false)));
    let its_stop = Arc::clone(&stop);
    let serving = thread::spawn(move || broker.serve(&its_stop, &(Arc::new(|_| {}) as EventHandler)));
    let chunk = Chunk::open(SOCKET, 0, libc::O_RDWR, 0).unwrap();
    write_by_threads(&chunk, 0);
    let device = Path::new("/sys/bus/pci/devices").join(PATHS[1]);
    let remove = device.join("remove");
    let removing = thread::spawn(move || fs::write(remove, "1"));
    let begun = std::time::Instant::now();
    let mut rounds = 0;
    while adapters[1].as_ref().is_some_and(Adapter::is_in_use) {
        rounds += 1;
        write_by_threads(&chunk, 1000 * rounds);
        assert!(begun.elapsed().as_secs() < 60);
    }
    adapters[1].take().unwrap().shut_down().unwrap();
    removing.join().unwrap().unwrap();
    assert!(!device.exists());
    println!("removed in {} ms, {rounds} rounds of {THREADS} threads meanwhile", begun.elapsed().as_millis());
    // All that the other controller had in its cache was flushed.
    assert_eq!(iotoll_block_flush(chunk.0), 0);
    holds(&chunk, 1000 * rounds);
    write_by_threads(&chunk, 7);
    holds(&chunk, 7);
    drop(chunk);
    stop.store(true, Ordering::Relaxed);
    serving.join().unwrap().unwrap();
    adapters[0].take().unwrap().shut_down().unwrap();
}

const SOCKET: &str = "/tmp/disk";

/// Serves the first namespace until this process is killed.
fn serve() {
    let adapter = Adapter::open(ADAPTER, Interface::of_this_host(ADAPTER), 32 << 20).unwrap();
    let namespace = Controller::lock(&adapter.controller()).namespaces()[0];
    let share = Share { socket: SOCKET.into(), first: 0, blocks: namespace.format.blocks, is_writable: true };
    let interrupts = Some(adapter.queue_interrupts(1).unwrap());
    let path = DiskPath { controller: adapter.controller(), namespace, interrupts };
    let broker = Broker::new(vec![path], vec![share], Limits::default()).unwrap();
    let on_event: EventHandler = Arc::new(|event| println!("{event:?}"));
    broker.serve(&Arc::new(AtomicBool::new(false)), &on_event).unwrap();
}

/// A process of its own drives the controller.
fn through_a_broker() {
    let chunk = Chunk::open(SOCKET, 0, libc::O_RDWR, 0).unwrap();
    // What was written through VFIO.
    let long: Vec<u8> = (0..1024).flat_map(pattern).collect();
    assert!(chunk.read(2000, 1024).unwrap() == long);
    write_by_threads(&chunk, 3000);
    holds(&chunk, 3000);
    assert_eq!((chunk.write(3000, &long), chunk.read(3000, 1024)), (Ok(1024), Ok(long)));
    assert_eq!(iotoll_block_flush(chunk.0), 0);
}

const THREADS: u64 = 4;
const BLOCKS: u64 = 64;

/// Threads write blocks that tell their numbers, with `first` added, several at a time.
fn write_by_threads(chunk: &Chunk, first: u64) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                let blocks: Vec<u64> = (thread * BLOCKS..(thread + 1) * BLOCKS).collect();
                for several in blocks.chunks(8) {
                    let data: Vec<Vec<u8>> = several.iter().map(|block| pattern(first + block)).collect();
                    let begin = |(data, block): (&Vec<u8>, &u64)| {
                        let none = std::ptr::null_mut();
                        chunk.awrite(data, *block as i64, 0, none, CBLK_ARW_WAIT_CMD_FLAGS).unwrap()
                    };
                    let tags: Vec<i32> = data.iter().zip(several).map(begin).collect();
                    tags.into_iter().for_each(|tag| assert_eq!(chunk.wait(tag), Ok(1)));
                }
            });
        }
    });
    assert_eq!(chunk.stats().num_errors, 0);
}

fn holds(chunk: &Chunk, first: u64) {
    let read = chunk.read(0, (THREADS * BLOCKS) as usize).unwrap();
    for (block, data) in read.chunks(BLOCK).enumerate() {
        assert!(data == pattern(first + block as u64), "block {block}");
    }
}

/// Boots a guest with a controller that has two namespaces.
fn boot(programs: &[&Path], disk: &Path, disk_bytes: u64, before: &str, after: &str) -> Option<String> {
    let cache = cache()?;
    let kernel = GuestKernel::Debian(Series::V6_1).find(&cache, Arch::X86)?;
    let other = disk.with_extension("second");
    let shared = disk.with_extension("shared");
    for (path, bytes) in [(disk, disk_bytes), (&*other, DISK_BYTES), (&*shared, DISK_BYTES)] {
        fs::File::create(path).unwrap().set_len(bytes).unwrap();
    }
    let drive = |path: &Path, id: &str| {
        format!("-drive file={},if=none,format=raw,cache=unsafe,id={id}", path.display())
    };
    let devices = format!(
        "-device intel-iommu,intremap=on {} {} -device nvme,id=nvme,serial=iotoll,addr=5 -device nvme-ns,bus=nvme,nsid=1,drive=one \
         -device nvme-ns,bus=nvme,nsid=2,drive=two,logical_block_size=4096,physical_block_size=4096 \
         {} -device nvme-subsys,id=subsystem,nqn=shared -device nvme,id=path0,subsys=subsystem,serial=shared,addr=6 \
         -device nvme,id=path1,subsys=subsystem,serial=shared,addr=7 -device nvme-ns,bus=path0,nsid=1,drive=three,shared=on",
        drive(disk, "one"),
        drive(&other, "two"),
        drive(&shared, "three"),
    );
    let guest = Guest {
        modules: &["vfio_pci", "vfio_iommu_type1", "nvme"],
        programs,
        before: before.to_owned(),
        modes: &[],
        after,
        devices: &devices,
        command_line: "intel_iommu=on no_timer_check",
    };
    guest.run(&cache, &kernel)
}

/// Shell lines that start a broker, and wait until it serves.
fn serving(this: &Path) -> String {
    format!(
        "{MODE}=serve {} --ignored --exact in_the_guest --nocapture > /served 2>&1 &\n\
         until [ -S {SOCKET} ]; do busybox usleep 20000; done\n",
        this.display()
    )
}

#[test]
fn blocks_are_the_same_through_vfio_and_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let this = env::current_exe().unwrap();
    let run =
        |mode: &str| format!("{MODE}={mode} {} --ignored --exact in_the_guest --nocapture\n", this.display());
    let before = format!(
        "busybox sleep 2\n{}{}{}{}{}",
        run("kernel"),
        bind_to(ADAPTER, "vfio-pci"),
        run("vfio"),
        serving(&this),
        run("broker")
    );
    let after = "busybox dmesg | busybox grep -e DMAR: -e 'nvme nvme'\n";
    let Some(console) = boot(&[&this], &folder.path().join("disk"), DISK_BYTES, &before, after) else {
        return;
    };
    for mode in ["kernel", "vfio", "broker"] {
        assert!(console.contains(&format!("{mode} is as it should be")), "{console}");
    }
    assert!(!console.contains("[DMA Read") && !console.contains("[DMA Write"), "{console}");
}

#[test]
fn a_path_is_pulled_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let this = env::current_exe().unwrap();
    let bind: String = [PATHS[0], PATHS[1], ADAPTER].map(|path| bind_to(path, "vfio-pci")).concat();
    let run =
        |mode: &str| format!("{MODE}={mode} {} --ignored --exact in_the_guest --nocapture\n", this.display());
    // The last one comes with all that the second controller has left behind: it is reset when it is opened.
    let before =
        format!("busybox sleep 2\n{bind}IOTOLL_BLOCK_WAIT=interrupt {}{}", run("paths"), run("removal"));
    let after = "busybox dmesg | busybox grep -e vfio\nbusybox cat /proc/interrupts | busybox grep vfio\n";
    let Some(console) = boot(&[&this], &folder.path().join("disk"), DISK_BYTES, &before, after) else {
        return;
    };
    for mode in ["paths", "removal"] {
        assert!(console.contains(&format!("{mode} is as it should be")), "{console}");
    }
    let figures = |line: &&str| line.contains("a path pulled") || line.contains("removed in");
    console.lines().filter(figures).for_each(|line| println!("{line}"));
}

/// With a checkout of Open POWER's capiflash: the block tests of the library that this one follows, on the controller.
#[test]
fn block_tests_have_the_original_library_s_results_on_nvme() {
    let Some(checkout) = env::var_os("CAPIFLASH").map(PathBuf::from) else {
        support::skip("CAPIFLASH names no checkout of Open POWER's capiflash");
        return;
    };
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let shell = |script: &str, arguments: &[&Path]| {
        let output =
            std::process::Command::new("sh").arg(here.join(script)).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    shell("tests/capiflash/build.sh", &[&checkout, folder.path()]);
    shell("build_library.sh", &[&folder.path().join("library"), Path::new("dev")]);
    // The tests know the library by the original's name, and look for it where the original was when they were linked.
    let library = folder.path().join("original/libcflsh_block.so");
    fs::copy(folder.path().join("library/lib/libiotoll_block.so.0"), &library).unwrap();
    let tests = folder.path().join("bin/block_tests");
    let this = env::current_exe().unwrap();
    let run = |name: &str, file: &str, disk: &str| {
        let expected = fs::read_to_string(here.join("tests/capiflash").join(file)).unwrap();
        let mut script = format!("export BLOCK_FILEMODE_ENABLED=1 USER=guest FVT_DEV={disk}\n");
        for test in expected.lines().filter_map(|line| line.split_once(' ')).map(|(test, _)| test) {
            script += &format!(
                "result=failed; {} --gtest_filter={test} > /log 2>&1 && result=passed\n\
                 busybox grep -q SKIPPED /log && result=skipped\n\
                 [ $result = failed ] && busybox tail -n 30 /log\necho \"{name}: {test} $result\"\n",
                tests.display()
            );
        }
        (name.to_owned(), expected, script)
    };
    // Chunks of a controller can't be cloned into a child, those of a broker's disk can, as those of a file.
    let direct = run("direct", "results-block-controller.txt", ADAPTER);
    let served = run("served", "results-block.txt", SOCKET);
    let script =
        [&bind_to(ADAPTER, "vfio-pci"), &direct.2, &serving(&this), &served.2].map(String::as_str).concat();
    let programs: [&Path; 3] = [&tests, &library, &this];
    let disk = folder.path().join("disk");
    let Some(console) = boot(&programs, &disk, 1 << 30, "busybox sleep 2\n", &script) else { return };
    let console = console.replace('\r', "");
    for (name, expected, _) in [direct, served] {
        let results = console.lines().filter_map(|line| line.strip_prefix(&format!("{name}: ")));
        let found: String = results.map(|line| format!("{line}\n")).collect();
        assert!(found == expected, "{name}\n{console}");
    }
}
