//! Disks without an IOMMU, which are driven only if the user accepts that they can reach all memory.

use super::support::{Guest, GuestKernel, cache};
use super::{
    A, Disk, FIRST, SLOW, SharedGuest, UNTIMED, WRITTEN_BYTES, case, disk_file, expect, is_untouched_around,
    kernel, shared, shell_functions, stripped,
};
use lab::Arch;
use std::sync::OnceLock;

/// Debian's kernels lack VFIO's no-IOMMU mode.
#[test]
fn a_kernel_without_no_iommu_mode_drives_no_disk() {
    let Some((cache, kernel)) = kernel() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let disk = Disk { slot: 5, file: disk_file(folder.path(), "disk"), options: "" };
    let script = format!(
        "sleep 2\nabout none\niotoll blk read {A} --unbind --blocks 1 -o /dev/null\ndriver {A}\n\
         about accepted\niotoll blk read {A} --unbind --accept-no-iommu --blocks 1 -o /dev/null\ndriver {A}\nabout end\n"
    );
    let guest = Guest {
        modules: &["vfio_pci", "nvme"],
        programs: &[&program],
        before: String::new(),
        modes: &[],
        after: &format!("{}{script}", shell_functions(&program)),
        devices: &disk.device(),
        command_line: UNTIMED,
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    expect(
        &console,
        "none",
        &["is in no IOMMU group", "can reach all memory", "--accept-no-iommu", "status 2\nnvme\n"],
    );
    expect(&console, "accepted", &["CONFIG_VFIO_NOIOMMU", "status 2\nnvme\n"]);
}

/// The results of a guest whose kernel has the no-IOMMU mode.
struct NoIommu {
    console: String,
    /// Both disks are unchanged outside the blocks that were written.
    are_disks_untouched_around: bool,
}

static GUEST: SharedGuest<NoIommu> = OnceLock::new();

fn guest() -> Option<&'static NoIommu> {
    shared(&GUEST, boot)
}

/// Boots a guest with the no-IOMMU mode and runs all commands of the tests below in it.
fn boot() -> Option<NoIommu> {
    let cache = cache()?;
    let kernel = GuestKernel::Ubuntu("ubuntu").find(&cache, Arch::X86)?;
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let file = |name: &str| disk_file(folder.path(), name);
    let a = Disk { slot: 5, file: file("a"), options: "" };
    let slow = Disk { slot: 7, file: file("slow"), options: ",throttling.iops-total=50" };
    let script = format!(
        r#"free() {{ grep HugePages_Free /proc/meminfo; }}
all_free() {{ until free | grep -q 20; do usleep 20000; done; echo all are free; }}
bind_to_vfio() {{
    echo vfio-pci > /sys/bus/pci/devices/$1/driver_override
    echo $1 > /sys/bus/pci/drivers/nvme/unbind
    echo $1 > /sys/bus/pci/drivers_probe
}}
head -c {WRITTEN_BYTES} /dev/urandom > /tmp/data
sleep 2
about off
iotoll blk read {A} --unbind --accept-no-iommu --blocks 1 -o /dev/null
driver {A}
echo Y > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode
about "not accepted"
iotoll blk read {A} --unbind --blocks 1 -o /dev/null
driver {A}
about "no memory"
iotoll blk read {A} --unbind --accept-no-iommu --blocks 1 -o /dev/null
driver {A}
echo 20 > /proc/sys/vm/nr_hugepages
about "no right"
su -s /bin/sh nobody -c '{program} blk read {A} --unbind --accept-no-iommu --blocks 1 -o /dev/null; echo "status $?"'
driver {A}
about "no pin"
echo 2 > /proc/sys/kernel/io_uring_disabled
iotoll blk read {A} --unbind --accept-no-iommu --blocks 1 -o /dev/null
echo 0 > /proc/sys/kernel/io_uring_disabled
driver {A}
about write
iotoll blk write {A} --unbind --accept-no-iommu --overwrite disk5 --first {FIRST} -i /tmp/data
back {A}
same {A}
all_free
about killed
for delay in 1 2; do
    killed {SLOW} $delay --unbind --accept-no-iommu --overwrite disk7
    back {SLOW}
    all_free
done
about kept
mkdir /frozen && mount -t cgroup2 none /frozen && mkdir /frozen/rebind
{program} blk write {SLOW} --unbind --accept-no-iommu --overwrite disk7 --first {FIRST} -i /tmp/data &
writer=$!
wait_for_vfio {SLOW}
sleep 1
echo $(rebind_process) > /frozen/rebind/cgroup.procs
echo 1 > /frozen/rebind/cgroup.freeze
kill -9 $writer; wait $writer; echo "killed $?"
sleep 1
driver {SLOW}
free
echo 0 > /frozen/rebind/cgroup.freeze
back {SLOW}
all_free
about shared
(iotoll blk write {SLOW} --unbind --accept-no-iommu --overwrite disk7 --first {FIRST} -i /tmp/data) &
writer=$!
wait_for_vfio {SLOW}
sleep 1
iotoll blk read {SLOW} --accept-no-iommu --blocks 1 -o /dev/null
wait $writer
back {SLOW}
about "bound to vfio"
bind_to_vfio {A}
iotoll blk read {A} --blocks 1 -o /dev/null
iotoll blk read {A} --accept-no-iommu --first {FIRST} --blocks {blocks} -o /tmp/read
cmp /tmp/read /tmp/data && echo it reads the same
driver {A}
all_free
bind_to_vfio {SLOW}
{program} blk read {SLOW} --accept-no-iommu -o /dev/null &
reader=$!
sleep 1
kill -9 $reader; wait $reader; echo "killed $?"
all_free
wait_for_vfio {SLOW}
echo reader ended
about measured
iotoll bench blk {A} --accept-no-iommu --depth 1,8 --rounds 2 --round-ms 100 2> /tmp/told; cat /tmp/told
about transferred
mount -t debugfs none /sys/kernel/debug
iotoll bench transfer {A} --accept-no-iommu --size 256K --rounds 2 --round-ms 20 --area 0x10000000+16M 2> /tmp/told; cat /tmp/told
dd if=/dev/mem bs=4096 skip=65536 count=64 of=/tmp/area 2>/dev/null
iotoll blk read {A} --accept-no-iommu --blocks 512 -o /tmp/blocks
cmp /tmp/area /tmp/blocks && echo the area holds the blocks
about end
"#,
        blocks = WRITTEN_BYTES / 512,
        program = program.display(),
    );
    let guest = Guest {
        modules: &["vfio_pci", "nvme"],
        programs: &[&program],
        before: String::new(),
        modes: &[],
        after: &format!("{}{script}", shell_functions(&program)),
        devices: &[&a, &slow].map(Disk::device).join(" "),
        command_line: &format!("{UNTIMED} memmap=16M$0x10000000"),
    };
    let console = guest.run(&cache, &kernel)?.replace('\r', "");
    Some(NoIommu { console, are_disks_untouched_around: [&a, &slow].into_iter().all(is_untouched_around) })
}

const ALL_WRITTEN: &str = "16384 blocks written, flushed, and read again as they were written";
/// Printed when every huge page is free again.
const ALL_FREE: &str = "all are free";

#[test]
fn without_an_iommu_a_disk_is_driven_only_if_every_condition_is_met() {
    let Some(NoIommu { console, .. }) = guest() else { return };
    expect(console, "off", &["no-IOMMU mode is off", "status 2\nnvme\n"]);
    expect(console, "not accepted", &["can reach all memory", "status 2\nnvme\n"]);
    expect(console, "no memory", &["left alone", "3 huge pages of 2 MiB are needed", "status 2\nnvme\n"]);
    expect(console, "no right", &["no permission to write", "status 2\nnvme\n"]);
    expect(console, "no pin", &["io_uring", "status 2\nnvme\n"]);
}

#[test]
fn without_an_iommu_a_disk_is_written_and_the_memory_is_freed() {
    let Some(NoIommu { console, are_disks_untouched_around }) = guest() else { return };
    let words = [
        "has no IOMMU: until",
        ALL_WRITTEN,
        "status 0",
        "back with nvme",
        "the kernel reads the same",
        ALL_FREE,
    ];
    expect(console, "write", &words);
    assert!(are_disks_untouched_around);
}

#[test]
fn without_an_iommu_a_killed_program_s_disk_is_rebound_and_its_memory_freed() {
    let Some(NoIommu { console, .. }) = guest() else { return };
    for (words, times) in [("killed 137", 2), ("back with nvme", 2), (ALL_FREE, 2)] {
        assert_eq!(case(console, "killed").matches(words).count(), times, "{words}: {console}");
    }
}

/// The program is killed while the process that rebinds is frozen: as long as the adapter may reach the program's three
/// huge pages, they are not free. It is frozen, because the kernel wakes a stopped process when its parent dies.
#[test]
fn without_an_iommu_memory_is_kept_until_the_disk_is_rebound() {
    let Some(NoIommu { console, .. }) = guest() else { return };
    expect(console, "kept", &["killed 137\nvfio-pci\nHugePages_Free:       17", "back with nvme", ALL_FREE]);
}

#[test]
fn without_an_iommu_a_disk_that_is_already_bound_to_vfio_is_read() {
    let Some(NoIommu { console, .. }) = guest() else { return };
    let words =
        ["can reach all memory", "it reads the same\nvfio-pci", ALL_FREE, "killed 137", "reader ended"];
    expect(console, "bound to vfio", &words);
}

#[test]
fn without_an_iommu_the_benchmark_runs() {
    let Some(NoIommu { console, .. }) = guest() else { return };
    expect(console, "measured", &["Completed in a second", "status 0"]);
}

/// The adapter writes to the physical addresses of the area themselves.
#[test]
fn without_an_iommu_an_area_of_memmap_is_transferred() {
    let Some(NoIommu { console, .. }) = guest() else { return };
    let words = [
        "what iotoll's own driver read first",
        "each access snoops the CPU's caches unless the controller asks not to",
        "memmap= at 0x10000000, WB",
        "memmap= at 0x10800000, UC",
        "no byte differed",
        "status 0",
        "the area holds the blocks",
    ];
    expect(console, "transferred", &words);
}
