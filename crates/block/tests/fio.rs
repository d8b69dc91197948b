//! fio on the library, by the engine in `fio/`: fio writes, reads and checks its own sums. With `FIO_SOURCE`, a checkout of fio in which `./configure`
//! and `make` have run.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/fio.rs"]
mod engine;

#[path = "../../nvme/tests/support/serving.rs"]
mod serving;

#[path = "../../../tests/skip.rs"]
mod skip;

use engine::Fio;
use nvme::broker::{Broker, Limits, Share};
use nvme::chunk::DiskPath;
use nvme::emulated::{Emulated, Fault, Machine};
use nvme::spec::status::Status;
use serving::Serving;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::{fs, thread};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 4096;
const SIZE: u64 = BLOCKS * BLOCK as u64;
/// fio takes a colon for the end of a name.
const EMULATED: &str = r"emulated\:4096";

/// fio and the engine; `None` without a source of fio, which is reported.
fn fio() -> Option<&'static Fio> {
    let fio = Fio::of_source();
    if fio.is_none() {
        skip::skip("FIO_SOURCE names no source of fio in which it was built");
    }
    fio
}

/// A disk of an emulated controller that this process serves.
struct Served {
    _folder: tempfile::TempDir,
    path: String,
    emulated: Arc<Emulated>,
    serving: Serving,
    has_power: bool,
}

impl Served {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("disk");
        let path = socket.to_str().unwrap().to_owned();
        let machine = Machine::builder(BLOCKS, 12).memory_bytes(64 << 20).open().unwrap();
        let namespace = machine.namespace().unwrap();
        let shares = vec![Share { socket, first: 0, blocks: BLOCKS, is_writable: true }];
        let controller = Arc::new(Mutex::new(machine.controller));
        let broker =
            Broker::new(vec![DiskPath::polled(controller, namespace)], shares, Limits::default()).unwrap();
        let serving = Serving::start(broker, Arc::new(|_| {}));
        Self { _folder: folder, path, emulated: machine.emulated, serving, has_power: true }
    }

    /// Afterwards the broker's controller does not work.
    fn lose_power(&mut self) {
        self.emulated.lose_power();
        self.has_power = false;
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let ended = self.serving.stop();
        // A second panic would hide the first.
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))) == self.has_power, "{ended:?}");
    }
}

fn file(folder: &Path, byte: u8) -> String {
    let path = folder.join("file");
    fs::write(&path, vec![byte; SIZE as usize]).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Every block is written, and read back as it was written: alone, 32 at a time, and by threads or processes with a part of the disk each.
#[test]
fn what_fio_writes_it_reads() {
    let Some(fio) = fio() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, served) = (file(folder.path(), 0xff), Served::new());
    let threads = ["--thread=1"].as_slice();
    let disks = [
        (&*file, threads),
        (&*file, &[]),
        (EMULATED, threads),
        (EMULATED, &["--thread=1", "--interface=cblk"]),
        (&*served.path, threads),
        (&*served.path, &[]),
    ];
    for (disk, options) in disks {
        for (depth, jobs) in [(1, 1), (32, 1), (1, 4), (32, 4)] {
            let part = SIZE / jobs;
            let job = format!(
                "--filename={disk} --rw=randwrite --bs=4k --verify=crc32c --iodepth={depth} --numjobs={jobs} --size={part} \
                 --offset_increment={part}"
            );
            let run = fio.run(&job, options);
            let expected = format!("{disk} {options:?}, depth {depth}, {jobs} jobs");
            assert_eq!((run.errors, run.bytes("read"), run.bytes("write")), (0, SIZE, SIZE), "{expected}");
        }
    }
}

/// Sizes from one block to a command that is many of the controller's, with flushes between.
#[test]
fn all_sizes_are_as_they_were_written() {
    let Some(fio) = fio() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, served) = (file(folder.path(), 0xff), Served::new());
    let disks = [
        (&*file, "1m", "auto"),
        (&*served.path, "1m", "auto"),
        (EMULATED, "1m", "cblk"),
        (EMULATED, "64k", "queue"),
    ];
    for (disk, most, interface) in disks {
        let job = format!(
            "--filename={disk} --rw=randwrite --bsrange=4k-{most} --bs_unaligned=0 --verify=sha256 --iodepth=16 --fsync=8 \
             --interface={interface} --size={SIZE}"
        );
        let run = fio.run(&job, &["--thread=1"]);
        assert_eq!(
            (run.errors, run.bytes("read"), run.bytes("write")),
            (0, SIZE, SIZE),
            "{disk} {interface}"
        );
        assert!(run.number("sync", "total_ios") > 0, "{disk} {interface}: {}", run.output);
    }
}

/// What the engine writes, io_uring reads, and the other way round; a byte that was changed between is found.
#[test]
fn io_uring_has_the_same_file() {
    let Some(fio) = fio() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), 0);
    let job = format!("--filename={file} --rw=randwrite --bs=4k --verify=crc32c --size={SIZE} --iodepth=8");
    let own = format!("--ioengine=external:{}", fio.engine.display());
    for (writer, reader) in [(&*own, "--ioengine=io_uring"), ("--ioengine=io_uring", &*own)] {
        fs::write(&file, vec![0; SIZE as usize]).unwrap();
        assert_eq!(fio.run_with(writer, &job, &["--do_verify=0"]).errors, 0);
        assert_eq!(fio.run_with(reader, &job, &["--verify_only=1"]).errors, 0);
        let mut data = fs::read(&file).unwrap();
        data[77 * BLOCK + 3000] ^= 1;
        fs::write(&file, data).unwrap();
        let run = fio.run_with(reader, &job, &["--verify_only=1"]);
        assert!(run.errors > 0 && run.output.contains("verify"), "{}", run.output);
    }
}

/// A served disk is written by one process, and checked by others.
#[test]
fn another_process_has_the_same_disk() {
    let Some(fio) = fio() else { return };
    let served = Served::new();
    let job = format!("--filename={} --rw=randwrite --bs=4k --verify=crc32c --size={SIZE}", served.path);
    assert_eq!(fio.run(&job, &["--do_verify=0", "--iodepth=32"]).errors, 0);
    assert_eq!(fio.run(&job, &["--verify_only=1", "--iodepth=4"]).errors, 0);
}

#[test]
fn trimmed_blocks_are_zero() {
    let Some(fio) = fio() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, served) = (file(folder.path(), 0xff), Served::new());
    for disk in [&*file, &*served.path] {
        let job = format!("--filename={disk} --bs=8k --size={SIZE}");
        assert_eq!(fio.run(&job, &["--rw=write"]).errors, 0);
        let run = fio.run(&job, &["--rw=randtrim", "--iodepth=8"]);
        assert_eq!((run.errors, run.bytes("trim")), (0, SIZE), "{disk}");
    }
    assert!(fs::read(file).unwrap().iter().all(|byte| *byte == 0));
    assert!(served.emulated.disk().iter().all(|byte| *byte == 0));
    // On a controller's queue, where a trim goes by the other interface.
    for interface in ["queue", "cblk"] {
        let job =
            format!("--filename={EMULATED} --rw=trimwrite --bs=16k --size={SIZE} --interface={interface}");
        let run = fio.run(&job, &["--thread=1", "--iodepth=8"]);
        assert_eq!((run.errors, run.bytes("trim"), run.bytes("write")), (0, SIZE, SIZE), "{interface}");
    }
}

/// What was written before a flush survives a loss of power, and nothing else does.
#[test]
fn a_flush_empties_the_write_cache() {
    let Some(fio) = fio() else { return };
    for (flushes, survives) in [("--end_fsync=0", false), ("--end_fsync=1", true)] {
        let mut served = Served::new();
        let job = format!("--filename={} --rw=write --bs=64k --iodepth=4 --size={SIZE}", served.path);
        assert_eq!(fio.run(&job, &[flushes]).errors, 0);
        served.lose_power();
        let disk = served.emulated.disk();
        let is_written = disk.chunks(BLOCK).all(|block| block.iter().any(|byte| *byte != 0));
        assert_eq!(is_written, survives, "{flushes}");
    }
}

/// A block that can't be read is an error of fio's job, also among many commands.
#[test]
fn an_error_of_the_disk_is_one_of_the_job() {
    let Some(fio) = fio() else { return };
    let served = Served::new();
    served.emulated.inject_at_block(1234, Fault::Status(Status(0x281).with_do_not_retry()));
    for depth in [1, 32] {
        let run = fio.run(
            &format!("--filename={} --rw=read --bs=4k --size={SIZE} --iodepth={depth}", served.path),
            &[],
        );
        assert!(run.output.contains("Input/output error"), "{}", run.output);
        assert_eq!(run.errors, 5, "EIO");
    }
}

#[test]
fn jobs_that_are_not_possible_say_why() {
    let Some(fio) = fio() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), 0);
    let refused = [
        (
            format!("--filename={file} --bs=512"),
            "a block size of 512 bytes; expected a multiple of this disk's blocks of 4096",
        ),
        (format!("--filename={file} --bs=6k"), "a block size of 6144 bytes; expected"),
        (format!("--filename={file} --bs=4k --size=32m"), "has 16777216 bytes; the job needs 33554432"),
        (format!("--filename={file} --bs=4k --iodepth=9000"), "iodepth=9000; at most 8192"),
        (format!("--filename={file} --bs=4k --interface=queue"), "Operation not supported"),
        (format!("--filename={EMULATED} --bs=4k"), "a controller belongs to one process; add thread=1"),
        (format!("--filename={EMULATED} --bs=512 --thread=1"), "a block size of 512 bytes; expected"),
        (format!("--filename={EMULATED} --bs=4m --thread=1"), "use a smaller bs, or interface=cblk"),
        (
            format!("--filename={EMULATED}:{file} --bs=4k --thread=1 --interface=queue"),
            "takes one controller to a job, not 2",
        ),
        (r"--filename=0000\:ff\:1f.7 --bs=4k --thread=1".to_owned(), "iotoll: 0000:ff:1f.7: "),
        ("--filename=/nowhere --bs=4k".to_owned(), "iotoll: /nowhere: No such file or directory"),
    ];
    for (job, why) in refused {
        let run = fio.run(&format!("{job} --rw=randread"), &[]);
        assert!(!run.has_succeeded && run.output.contains(why), "{job}: {}", run.output);
    }
}

#[test]
fn the_examples_run() {
    let Some(fio) = fio() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), 0);
    let verify = fio.example("verify.fio", &[("DISK", EMULATED)]);
    assert_eq!((verify.errors, verify.bytes("read")), (0, 2 * SIZE), "{}", verify.output);
    let disks = [("KERNEL", &*file), ("IOTOLL", &*file), ("DIRECT", "0"), ("SECONDS", "1")];
    let compare = fio.example("compare.fio", &disks);
    assert_eq!(compare.errors, 0, "{}", compare.output);
    assert!(compare.jobs().iter().all(|job| job.reads_per_second > 0.0), "{}", compare.output);
    for job in compare.jobs() {
        println!("{}: {:.0} reads a second from a file in the page cache", job.name, job.reads_per_second);
    }
}

/// An engine reads fio's structures, which are others in another version. Needs no fio.
#[test]
fn an_engine_is_not_built_for_another_fio() {
    let folder = tempfile::tempdir().unwrap();
    let [source, library] = ["source", "library/lib"].map(|name| folder.path().join(name));
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(&library).unwrap();
    fs::write(library.join("libiotoll_block.a"), "").unwrap();
    let build = |fio: &str| {
        let mut build = Command::new("sh");
        build.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("fio/build.sh")).env("FIO", fio);
        let output =
            build.args([&source, &folder.path().join("library"), &folder.path().join("out")]).output();
        let output = output.unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(build("").ends_with("no ioengines.h; expected fio's source\n"));
    fs::write(source.join("ioengines.h"), "#define FIO_IOOPS_VERSION\t30\n").unwrap();
    assert!(build("").ends_with("no config-host.h; run ./configure there\n"));
    fs::write(source.join("config-host.h"), "").unwrap();
    assert!(build("").ends_with("fio is too old; expected 3.32 or newer\n"));
    let operations = "#define FIO_IOOPS_VERSION\t31\nFIO_ASYNCIO_SETS_ISSUE_TIME\n";
    fs::write(source.join("ioengines.h"), operations).unwrap();
    fs::write(source.join("FIO-VERSION-GEN"), "DEF_VER=fio-3.33\n").unwrap();
    let other = folder.path().join("fio");
    fs::write(&other, "#!/bin/sh\necho fio-3.36\n").unwrap();
    Command::new("chmod").arg("+x").arg(&other).status().unwrap();
    let refused = build(other.to_str().unwrap());
    assert!(
        refused.contains("is fio-3.36, ") && refused.contains("is fio-3.33 (FIO_IOOPS_VERSION 31)"),
        "{refused}"
    );
}
