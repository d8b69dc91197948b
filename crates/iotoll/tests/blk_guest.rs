//! `iotoll blk` on a real kernel: what it refuses, that it gives disks back however it ends, and what it does when they fail.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../lab/tests/support/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "other tests use more of it")]
mod support;

use lab::Arch;
use lab::kernel::{Kernel, KernelChoice, Series};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Guest, cache, skip, ubuntu_kernel};

const DISK_BYTES: usize = 16 << 20;
const UNTOUCHED: u8 = 0xee;
/// Blocks before the first that is written.
const FIRST: usize = 64;
const WRITTEN_BYTES: usize = 8 << 20;

/// A disk of the guest's: its slot, and what QEMU does with it besides.
struct Disk<'a> {
    slot: u32,
    file: PathBuf,
    manner: &'a str,
}

impl Disk<'_> {
    fn device(&self) -> String {
        let Self { slot, file, manner } = self;
        let file = file.display();
        let backend = if manner.starts_with("driver=blkdebug") {
            // Errors come between the device and the file.
            format!(
                "-blockdev {manner},node-name=disk{slot},image.driver=file,image.cache.no-flush=on,image.filename={file}"
            )
        } else {
            format!("-drive file={file},if=none,format=raw,cache=unsafe,id=disk{slot}{manner}")
        };
        format!("{backend} -device nvme,serial=disk{slot},drive=disk{slot},addr={slot}")
    }
}

fn disk_file(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, vec![UNTOUCHED; DISK_BYTES]).unwrap();
    path
}

/// Without what debuggers want: the guest unpacks it into memory.
fn stripped(folder: &Path) -> PathBuf {
    let program = folder.join("iotoll");
    let mut strip = Command::new("strip");
    strip.args(["--strip-debug", "-o"]).arg(&program).arg(env!("CARGO_BIN_EXE_iotoll"));
    assert!(strip.status().unwrap().success());
    program
}

fn kernel() -> Option<(lab::kernel::Cache, Kernel)> {
    let cache = cache()?;
    match Kernel::newest(&cache, KernelChoice { arch: Arch::X86, series: Series::V6_1 }) {
        Ok(kernel) => Some((cache, kernel)),
        Err(why) => {
            skip(&why.to_string());
            None
        }
    }
}

/// What was said between a case's name and the next.
fn case<'a>(console: &'a str, name: &str) -> &'a str {
    let begin =
        console.find(&format!("case: {name}\n")).unwrap_or_else(|| panic!("{name} is not in {console}"));
    let rest = &console[begin..];
    rest[1..].find("case: ").map_or(rest, |end| &rest[..=end])
}

fn expect(console: &str, name: &str, words: &[&str]) {
    let said = case(console, name);
    for word in words {
        assert!(said.contains(word), "{name}: {word:?} is not in\n{said}");
    }
}

/// The script's beginning: short names.
fn head(program: &Path) -> String {
    format!(
        "export PATH=/bin:/sbin NO_COLOR=1\nbusybox mkdir -p /sbin /mnt /etc\necho 'nobody:x:65534:65534::/:/bin/sh' > /etc/passwd\n\
         for tool in $(busybox --list); do [ -e /bin/$tool ] || busybox ln -s busybox /bin/$tool; done\n\
         iotoll() {{ {program} \"$@\"; echo \"status $?\"; }}\n\
         about() {{ echo \"case: $1\"; }}\n\
         driver() {{ basename $(readlink /sys/bus/pci/devices/$1/driver || echo none); }}\n\
         disk() {{ echo /dev/$(ls /sys/bus/pci/devices/$1/nvme/nvme*/ | grep -x 'nvme[0-9]*n1'); }}\n\
         lent() {{ while [ \"$(driver $1)\" != vfio-pci ]; do usleep 20000; done; }}\n\
         killed() {{ slot=$1; delay=$2; shift 2; {program} blk write $slot \"$@\" --first {FIRST} -i /tmp/data & writer=$!; lent $slot; sleep $delay; \
         kill -9 $writer; wait $writer; echo \"killed $?\"; }}\n\
         same() {{ dd if=$(disk $1) bs=512 skip={FIRST} count={blocks} 2>/dev/null | cmp - /tmp/data && echo the kernel reads the same; }}\n\
         keeper() {{ (cd /proc; for process in [0-9]*; do grep -q give-back $process/cmdline 2>/dev/null && echo $process; done); }}\n\
         back() {{ while [ \"$(driver $1)\" != nvme ] || [ ! -e \"$(disk $1)\" ]; do usleep 20000; done; echo \"back with $(driver $1)\"; }}\n",
        program = program.display(),
        blocks = WRITTEN_BYTES / 512,
    )
}

const A: &str = "0000:00:05.0";
const FAILING: &str = "0000:00:06.0";
const SLOW: &str = "0000:00:07.0";
const SHARED: &str = "0000:01:00.0";

#[test]
fn disks_are_refused_driven_and_given_back() {
    let Some((cache, kernel)) = kernel() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let file = |name: &str| disk_file(folder.path(), name);
    // Once an error that goes away, for ever one at a place each, and once a flush that fails.
    let errors = "driver=blkdebug,inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.once=on,inject-error.0.sector=900,\
                  inject-error.1.event=none,inject-error.1.iotype=read,inject-error.1.sector=2000,\
                  inject-error.2.event=none,inject-error.2.iotype=write,inject-error.2.sector=4000,\
                  inject-error.3.event=none,inject-error.3.iotype=flush,inject-error.3.once=on";
    let a = Disk { slot: 5, file: file("a"), manner: "" };
    let failing = Disk { slot: 6, file: file("failing"), manner: errors };
    let slow = Disk { slot: 7, file: file("slow"), manner: ",throttling.iops-total=50" };
    let shared = Disk { slot: 8, file: file("shared"), manner: "" };
    let devices = [&a, &failing, &slow].map(Disk::device).join(" ");
    // Functions of one adapter, which could reach each other.
    let shared_device = shared.device().replace("addr=8", "bus=root_port,addr=0.0,multifunction=on");
    let devices = format!(
        "-device intel-iommu,intremap=on {devices} -device pcie-root-port,id=root_port,addr=8 {shared_device} -device e1000e,bus=root_port,addr=0.1"
    );
    let script = format!(
        r#"head -c {WRITTEN_BYTES} /dev/urandom > /tmp/data
sleep 2
about list
iotoll blk list
about mounted
mke2fs -q $(disk {A}) > /dev/null 2>&1
mount -t ext4 $(disk {A}) /mnt || echo NOT MOUNTED
iotoll blk read {A} --take --blocks 1
iotoll bench blk {A} --take
umount /mnt
about swap
mkswap $(disk {A}) > /dev/null
swapon $(disk {A})
iotoll blk read {A} --take --blocks 1
swapoff $(disk {A})
about consent
iotoll blk read {A} --blocks 1
driver {A}
about permission
su -s /bin/sh nobody -c '{program} blk read {A} --take --blocks 1; echo "status $?"'
about group
iotoll blk read {SHARED} --take --blocks 1
about write
iotoll blk write {A} --take --first {FIRST} -i /tmp/data
back {A}
same {A}
about log
iotoll blk log {A} --take
about killed
back {A}
for delay in 1 2; do
    killed {SLOW} $delay --take
    back {SLOW}
done
about preferred
echo vfio-pci > /sys/bus/pci/devices/{A}/driver_override
iotoll blk read {A} --take --blocks 1 -o /dev/null
driver {A}
cat /sys/bus/pci/devices/{A}/driver_override
echo > /sys/bus/pci/devices/{A}/driver_override
back {A}
about "nobody to give it back"
(iotoll blk write {SLOW} --take --first {FIRST} -i /tmp/data) &
writer=$!
lent {SLOW}
kill -9 $(keeper); wait $writer
back {SLOW}
about "errors that go away"
iotoll blk read {FAILING} --take --first 896 --blocks 8 -o /dev/null
about "errors that stay"
iotoll blk read {FAILING} --take --first 1900 --blocks 200 -o /tmp/nothing
ls /tmp/nothing
iotoll blk write {FAILING} --take --first 3900 -i /tmp/data
about timeouts
iotoll blk write {SLOW} --take --first {FIRST} -i /tmp/data --timeout-ms 400
back {SLOW}
same {SLOW}
about resets
head -c 1572864 /tmp/data > /tmp/some
iotoll blk write {SLOW} --take --first {FIRST} -i /tmp/some --timeout-ms 200
back {SLOW}
about bench
echo 1 > /sys/module/nvme/parameters/poll_queues
echo {A} > /sys/bus/pci/drivers/nvme/unbind
echo {A} > /sys/bus/pci/drivers/nvme/bind
back {A}
iotoll bench blk {A} --take --depth 1,8 --rounds 2 --round-ms 100 2> /tmp/told; cat /tmp/told
about end
dmesg | grep -e 'DMAR: .DMA' && echo BLOCKED
"#,
        program = program.display(),
    );
    let guest = Guest {
        modules: &["vfio_pci", "vfio_iommu_type1", "crc32c_generic", "ext4", "e1000e", "nvme"],
        programs: &[&program],
        before: String::new(),
        ways: &[],
        after: &format!("{}{script}", head(&program)),
        devices: &devices,
        command_line: "intel_iommu=on",
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    expect(&console, "list", &[A, "can be driven  yes", "QEMU NVMe Ctrl", "shares IOMMU group"]);
    expect(&console, "mounted", &["is mounted at /mnt; it is not taken away", "status 2\niotoll"]);
    expect(&console, "swap", &["the kernel swaps to /dev/nvme", "status 2"]);
    expect(&console, "consent", &["`--take` lets it be taken", "/drivers/nvme/unbind", "status 2\nnvme\n"]);
    expect(&console, "permission", &["no permission to write", "run it as root", "status 2"]);
    expect(&console, "group", &["0000:01:00.1 (e1000e): whoever drives one", "status 2"]);
    let written = "16384 blocks written, flushed, and read again as they were written";
    expect(
        &console,
        "write",
        &[written, "is nvme's again", "status 0", "back with nvme", "the kernel reads the same"],
    );
    expect(
        &console,
        "log",
        &["QEMU NVMe Ctrl, serial number disk5", "namespace 1: 32768 blocks of 512 bytes"],
    );
    assert_eq!(case(&console, "killed").matches("killed 137").count(), 2, "{console}");
    assert_eq!(case(&console, "killed").matches("back with nvme").count(), 3, "{console}");
    expect(
        &console,
        "preferred",
        &["is nvme's again\n1 blocks read\nstatus 0\nnvme\nvfio-pci\nback with nvme"],
    );
    expect(&console, "nobody to give it back", &[written, "status 0", "back with nvme"]);
    expect(&console, "errors that go away", &["1 commands tried again", "8 blocks read", "status 0"]);
    expect(
        &console,
        "errors that stay",
        &["unrecovered read error", "write fault", "No such file", "status 2"],
    );
    expect(&console, "timeouts", &[" aborted", written, "status 0", "the kernel reads the same"]);
    expect(&console, "resets", &[" aborted", "3072 blocks written, flushed, and read again", "status 0"]);
    assert!(!case(&console, "timeouts").contains(" 0 aborted"), "{console}");
    assert!(!case(&console, "resets").contains(" 0 resets"), "{console}");
    expect(&console, "bench", &["pread", "io_uring registered", "nvme  ", "Reads in a second", "status 0"]);
    assert_eq!(case(&console, "bench").matches("not measured").count(), 1, "pread at depth 8: {console}");
    assert!(!console.contains("BLOCKED"), "{console}");
    for disk in [&a, &slow] {
        let bytes = fs::read(&disk.file).unwrap();
        let is_untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == UNTOUCHED);
        // The first disk had a file system before, in its beginning.
        assert!(disk.slot == 5 || is_untouched(&bytes[..FIRST * 512]), "blocks before the first");
        assert!(
            disk.slot == 5 || is_untouched(&bytes[FIRST * 512 + WRITTEN_BYTES..]),
            "blocks behind the last"
        );
    }
    let shared = fs::read(&shared.file).unwrap();
    assert!(shared.iter().all(|byte| *byte == UNTOUCHED), "what was refused is as it was");
}

/// Kernels without VFIO's no-IOMMU mode, as Debian's, drive none whatever is accepted.
#[test]
fn without_an_iommu_nothing_is_driven() {
    let Some((cache, kernel)) = kernel() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let disk = Disk { slot: 5, file: disk_file(folder.path(), "disk"), manner: "" };
    let script = format!(
        "sleep 2\nabout none\niotoll blk read {A} --take --blocks 1\ndriver {A}\n\
         about accepted\niotoll blk read {A} --take --accept-no-iommu --blocks 1\ndriver {A}\nabout end\n"
    );
    let guest = Guest {
        modules: &["vfio_pci", "nvme"],
        programs: &[&program],
        before: String::new(),
        ways: &[],
        after: &format!("{}{script}", head(&program)),
        devices: &disk.device(),
        command_line: "quiet",
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    expect(
        &console,
        "none",
        &["is in no IOMMU group", "reaches all memory", "--accept-no-iommu", "status 2\nnvme\n"],
    );
    expect(&console, "accepted", &["CONFIG_VFIO_NOIOMMU", "status 2\nnvme\n"]);
}

/// A kernel that has the mode: what it still takes, that the disk is driven then, and that neither disk nor memory is lost.
#[test]
fn without_an_iommu_a_disk_is_driven_if_that_is_accepted() {
    let Some(cache) = cache() else { return };
    let Some(kernel) = ubuntu_kernel(&cache, "no-IOMMU mode") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let file = |name: &str| disk_file(folder.path(), name);
    let a = Disk { slot: 5, file: file("a"), manner: "" };
    let slow = Disk { slot: 7, file: file("slow"), manner: ",throttling.iops-total=50" };
    let script = format!(
        r#"free() {{ grep HugePages_Free /proc/meminfo; }}
all_free() {{ until free | grep -q 20; do usleep 20000; done; echo all are free; }}
lend() {{
    echo vfio-pci > /sys/bus/pci/devices/$1/driver_override
    echo $1 > /sys/bus/pci/drivers/nvme/unbind
    echo $1 > /sys/bus/pci/drivers_probe
}}
head -c {WRITTEN_BYTES} /dev/urandom > /tmp/data
sleep 2
about off
iotoll blk read {A} --take --accept-no-iommu --blocks 1
driver {A}
echo Y > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode
about "not accepted"
iotoll blk read {A} --take --blocks 1
driver {A}
about "no memory"
iotoll blk read {A} --take --accept-no-iommu --blocks 1
driver {A}
echo 20 > /proc/sys/vm/nr_hugepages
about "no right"
su -s /bin/sh nobody -c '{program} blk read {A} --take --accept-no-iommu --blocks 1; echo "status $?"'
driver {A}
about "no pin"
echo 2 > /proc/sys/kernel/io_uring_disabled
iotoll blk read {A} --take --accept-no-iommu --blocks 1
echo 0 > /proc/sys/kernel/io_uring_disabled
driver {A}
about write
iotoll blk write {A} --take --accept-no-iommu --first {FIRST} -i /tmp/data
back {A}
same {A}
all_free
about killed
for delay in 1 2; do
    killed {SLOW} $delay --take --accept-no-iommu
    back {SLOW}
    all_free
done
about kept
mkdir /frozen && mount -t cgroup2 none /frozen && mkdir /frozen/keeper
{program} blk write {SLOW} --take --accept-no-iommu --first {FIRST} -i /tmp/data &
writer=$!
lent {SLOW}
sleep 1
echo $(keeper) > /frozen/keeper/cgroup.procs
echo 1 > /frozen/keeper/cgroup.freeze
kill -9 $writer; wait $writer; echo "killed $?"
sleep 1
driver {SLOW}
free
echo 0 > /frozen/keeper/cgroup.freeze
back {SLOW}
all_free
about shared
(iotoll blk write {SLOW} --take --accept-no-iommu --first {FIRST} -i /tmp/data) &
writer=$!
lent {SLOW}
sleep 1
iotoll blk read {SLOW} --accept-no-iommu --blocks 1
wait $writer
back {SLOW}
about lent
lend {A}
iotoll blk read {A} --blocks 1
iotoll blk read {A} --accept-no-iommu --first {FIRST} --blocks {blocks} -o /tmp/read
cmp /tmp/read /tmp/data && echo it reads the same
driver {A}
all_free
lend {SLOW}
{program} blk read {SLOW} --accept-no-iommu -o /dev/null &
reader=$!
sleep 1
kill -9 $reader; wait $reader; echo "killed $?"
all_free
lent {SLOW}
echo let go
about measured
iotoll bench blk {A} --accept-no-iommu --depth 1,8 --rounds 2 --round-ms 100 2> /tmp/told; cat /tmp/told
about end
"#,
        blocks = WRITTEN_BYTES / 512,
        program = program.display(),
    );
    let guest = Guest {
        modules: &["vfio_pci", "nvme"],
        programs: &[&program],
        before: String::new(),
        ways: &[],
        after: &format!("{}{script}", head(&program)),
        devices: &[&a, &slow].map(Disk::device).join(" "),
        command_line: "",
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    expect(&console, "off", &["no-IOMMU mode is off", "status 2\nnvme\n"]);
    expect(&console, "not accepted", &["reaches all memory", "status 2\nnvme\n"]);
    expect(&console, "no memory", &["left alone", "no 3 huge pages of 2 MiB are free", "status 2\nnvme\n"]);
    expect(&console, "no right", &["no permission to write", "status 2\nnvme\n"]);
    expect(&console, "no pin", &["io_uring", "status 2\nnvme\n"]);
    let written = "16384 blocks written, flushed, and read again as they were written";
    let all_free = "all are free";
    expect(
        &console,
        "write",
        &[
            "has no IOMMU: until",
            written,
            "status 0",
            "back with nvme",
            "the kernel reads the same",
            all_free,
        ],
    );
    for (words, times) in [("killed 137", 2), ("back with nvme", 2), (all_free, 2)] {
        assert_eq!(case(&console, "killed").matches(words).count(), times, "{words}: {console}");
    }
    // Frozen, since the kernel wakes a stopped process whose parent dies. Three pages are neither the dead program's nor anybody else's, as long as the adapter may reach them.
    expect(&console, "kept", &["killed 137\nvfio-pci\nHugePages_Free:       17", "back with nvme", all_free]);
    expect(
        &console,
        "lent",
        &["reaches all memory", "it reads the same\nvfio-pci", all_free, "killed 137", "let go"],
    );
    expect(&console, "measured", &["Reads in a second", "status 0"]);
    for disk in [&a, &slow] {
        let bytes = fs::read(&disk.file).unwrap();
        let is_untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == UNTOUCHED);
        assert!(is_untouched(&bytes[..FIRST * 512]), "blocks before the first");
        assert!(is_untouched(&bytes[FIRST * 512 + WRITTEN_BYTES..]), "blocks behind the last");
    }
}
