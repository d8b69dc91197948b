//! Disks behind an IOMMU: refused, written, rebound, killed and failing.

use super::support::Guest;
use super::{
    A, Disk, FIRST, REMAPPED, SLOW, SharedGuest, WRITTEN_BYTES, case, disk_file, expect, is_untouched,
    is_untouched_around, kernel, shared, shell_functions, stripped,
};
use std::fs;
use std::sync::OnceLock;

/// A disk with injected errors.
const FAILING: &str = "0000:00:06.0";
/// A disk that shares its IOMMU group with a network adapter.
const SHARED: &str = "0000:01:00.0";

/// The results of the guest.
struct Driven {
    console: String,
    /// The slow disk is unchanged outside the blocks that were written.
    is_slow_disk_untouched_around: bool,
    /// The disk that shares its IOMMU group is unchanged.
    is_shared_disk_untouched: bool,
}

static GUEST: SharedGuest<Driven> = OnceLock::new();

fn guest() -> Option<&'static Driven> {
    shared(&GUEST, boot)
}

/// Boots a guest with four disks and runs all commands of this module's tests in it.
fn boot() -> Option<Driven> {
    let (cache, kernel) = kernel()?;
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let file = |name: &str| disk_file(folder.path(), name);
    // A read error that occurs once, a permanent read error, a permanent write error, and a flush error that occurs once.
    let errors = "driver=blkdebug,inject-error.0.event=none,inject-error.0.iotype=read,inject-error.0.once=on,inject-error.0.sector=900,\
                  inject-error.1.event=none,inject-error.1.iotype=read,inject-error.1.sector=2000,\
                  inject-error.2.event=none,inject-error.2.iotype=write,inject-error.2.sector=4000,\
                  inject-error.3.event=none,inject-error.3.iotype=flush,inject-error.3.once=on";
    let a = Disk { slot: 5, file: file("a"), options: "" };
    let failing = Disk { slot: 6, file: file("failing"), options: errors };
    let slow = Disk { slot: 7, file: file("slow"), options: ",throttling.iops-total=50" };
    let shared_disk = Disk { slot: 8, file: file("shared"), options: "" };
    let devices = [&a, &failing, &slow].map(Disk::device).join(" ");
    // Two functions of one device without ACS: they can reach each other, so they share an IOMMU group.
    let shared_device = shared_disk.device().replace("addr=8", "bus=root_port,addr=0.0,multifunction=on");
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
iotoll blk read {A} --unbind --blocks 1 -o /dev/null
iotoll bench blk {A} --unbind
umount /mnt
about swap
mkswap $(disk {A}) > /dev/null
swapon $(disk {A})
iotoll blk read {A} --unbind --blocks 1 -o /dev/null
swapoff $(disk {A})
about consent
iotoll blk read {A} --blocks 1 -o /dev/null
driver {A}
about permission
su -s /bin/sh nobody -c '{program} blk read {A} --unbind --blocks 1 -o /dev/null; echo "status $?"'
about group
iotoll blk read {SHARED} --unbind --blocks 1 -o /dev/null
about serve
iotoll blk serve {A}
iotoll blk serve {A} --unbind --overwrite disk5
{program} blk serve {A} --unbind --share /tmp/one=0+64 --share /tmp/other=64+64 & server=$!
until [ -S /tmp/other ]; do usleep 20000; done
iotoll blk read /tmp/one -o /tmp/one.read
iotoll blk read /tmp/other -o /tmp/other.read
kill $server; wait $server; echo "ended $?"
back {A}
cat /tmp/one.read /tmp/other.read | cmp -n 65536 - $(disk {A}) && echo served as the kernel reads it
ls /tmp/one /tmp/other
about write
iotoll blk write {A} --unbind --overwrite disk5 --wipe swap --first {FIRST} -i /tmp/data
back {A}
same {A}
about log
iotoll blk log {A} --unbind
back {A}
about health
iotoll blk health {A} --unbind
back {A}
iotoll blk health {A} --unbind --json
about "no self-test"
back {A}
iotoll blk test {A} --unbind
about firmware
back {A}
iotoll blk firmware {A} --unbind
back {A}
iotoll blk firmware {A} --unbind --image /tmp/data --activate at-reset --replace disk6
driver {A}
about killed
back {A}
for delay in 1 2; do
    killed {SLOW} $delay --unbind --overwrite disk7
    back {SLOW}
done
about preferred
echo vfio-pci > /sys/bus/pci/devices/{A}/driver_override
iotoll blk read {A} --unbind --blocks 1 -o /dev/null
driver {A}
cat /sys/bus/pci/devices/{A}/driver_override
echo > /sys/bus/pci/devices/{A}/driver_override
back {A}
about "no helper process"
(iotoll blk write {SLOW} --unbind --overwrite disk7 --first {FIRST} -i /tmp/data) &
writer=$!
wait_for_vfio {SLOW}
kill -9 $(rebind_process); wait $writer
back {SLOW}
about "errors that go away"
iotoll blk read {FAILING} --unbind --first 896 --blocks 8 -o /dev/null
about "errors that stay"
iotoll blk read {FAILING} --unbind --first 1900 --blocks 200 -o /tmp/nothing
ls /tmp/nothing
iotoll blk write {FAILING} --unbind --overwrite disk6 --first 3900 -i /tmp/data
iotoll blk write {FAILING} --unbind --overwrite disk6 --wipe unreadable --first 3900 -i /tmp/data
about timeouts
iotoll blk write {SLOW} --unbind --overwrite disk7 --first {FIRST} -i /tmp/data --timeout-ms 400
back {SLOW}
same {SLOW}
about resets
head -c 2097152 /tmp/data > /tmp/some
iotoll blk write {SLOW} --unbind --overwrite disk7 --first {FIRST} -i /tmp/some --timeout-ms 200
back {SLOW}
about bench
echo 1 > /sys/module/nvme/parameters/poll_queues
echo {A} > /sys/bus/pci/drivers/nvme/unbind
echo {A} > /sys/bus/pci/drivers/nvme/bind
back {A}
iotoll bench blk {A} --unbind --depth 1,8 --rounds 2 --round-ms 100 2> /tmp/told; cat /tmp/told
about end
dmesg | grep -e 'DMAR: .DMA' && echo BLOCKED
"#,
        program = program.display(),
    );
    let guest = Guest {
        modules: &["vfio_pci", "vfio_iommu_type1", "crc32c_generic", "ext4", "e1000e", "nvme"],
        programs: &[&program],
        before: String::new(),
        modes: &[],
        after: &format!("{}{script}", shell_functions(&program)),
        devices: &devices,
        command_line: REMAPPED,
    };
    let console = guest.run(&cache, &kernel)?.replace('\r', "");
    Some(Driven {
        console,
        is_slow_disk_untouched_around: is_untouched_around(&slow),
        is_shared_disk_untouched: is_untouched(&fs::read(&shared_disk.file).unwrap()),
    })
}

const ALL_WRITTEN: &str = "16384 blocks written, flushed, and read again as they were written";

#[test]
fn the_list_shows_which_disks_can_be_driven() {
    let Some(Driven { console, .. }) = guest() else { return };
    expect(console, "list", &[A, "can be driven  yes", "QEMU NVMe Ctrl", "shares IOMMU group"]);
}

#[test]
fn a_disk_in_use_is_not_unbound() {
    let Some(Driven { console, .. }) = guest() else { return };
    expect(
        console,
        "mounted",
        &["is mounted at /mnt. An adapter in use is never unbound", "status 2\niotoll"],
    );
    expect(console, "swap", &["the kernel swaps to /dev/nvme", "status 2"]);
}

#[test]
fn a_disk_is_unbound_only_with_consent_and_permission() {
    let Some(Driven { console, .. }) = guest() else { return };
    expect(console, "consent", &["`--unbind` unbinds it", "/drivers/nvme/unbind", "status 2\nnvme\n"]);
    expect(console, "permission", &["no permission to write", "run it as root", "status 2"]);
}

#[test]
fn a_disk_that_shares_its_iommu_group_is_refused_and_unchanged() {
    let Some(Driven { console, is_shared_disk_untouched, .. }) = guest() else { return };
    let words = ["0000:01:00.1 (e1000e), so each can reach the memory of the others", "status 2"];
    expect(console, "group", &words);
    assert!(is_shared_disk_untouched);
}

#[test]
fn a_disk_is_written_and_rebound_to_the_kernel_s_driver() {
    let Some(Driven { console, .. }) = guest() else { return };
    let words =
        [ALL_WRITTEN, "is bound to nvme again", "status 0", "back with nvme", "the kernel reads the same"];
    expect(console, "write", &words);
    expect(
        console,
        "log",
        &["QEMU NVMe Ctrl, serial number disk5", "namespace 1: 32768 blocks of 512 bytes"],
    );
}

#[test]
fn a_disk_is_served_and_rebound() {
    let Some(Driven { console, .. }) = guest() else { return };
    let words = [
        "`--unbind` unbinds it",
        "--wipe does not name what is on it (swap)",
        "/tmp/one: 32.00 KiB from block 0 of namespace 1, read only",
        "/tmp/other: 32.00 KiB from block 64 of namespace 1, read only",
        "64 blocks read",
        "has left a queue",
        "ended 0",
        "back with nvme",
        "served as the kernel reads it",
        "/tmp/one: No such file",
        "/tmp/other: No such file",
    ];
    expect(console, "serve", &words);
}

#[test]
fn health_self_test_and_firmware_slots_of_a_disk() {
    let Some(Driven { console, .. }) = guest() else { return };
    let words = [
        "QEMU NVMe Ctrl, serial number disk5",
        "none: no critical warning is set",
        "50 °C",
        "\"schema\": \"iotoll.blk-health/1\"",
        "\"temperature_celsius\": 50",
        "status 0",
    ];
    expect(console, "health", &words);
    expect(console, "no self-test", &["the controller has no self-test (OACS bit 4 is clear)", "status 2"]);
    let words = [
        "slot 1",
        "active",
        "--replace \"disk6\" is not its name",
        "add: --replace disk5",
        "status 2\nnvme\n",
    ];
    expect(console, "firmware", &words);
}

#[test]
fn only_the_named_blocks_are_written_and_the_iommu_blocks_nothing() {
    let Some(Driven { console, is_slow_disk_untouched_around, .. }) = guest() else { return };
    assert!(is_slow_disk_untouched_around);
    assert!(!console.contains("BLOCKED"), "{console}");
}

#[test]
fn a_disk_is_rebound_when_the_program_is_killed() {
    let Some(Driven { console, .. }) = guest() else { return };
    assert_eq!(case(console, "killed").matches("killed 137").count(), 2, "{console}");
    assert_eq!(case(console, "killed").matches("back with nvme").count(), 3, "{console}");
}

#[test]
fn a_disk_is_rebound_when_the_process_that_rebinds_is_killed() {
    let Some(Driven { console, .. }) = guest() else { return };
    expect(console, "no helper process", &[ALL_WRITTEN, "status 0", "back with nvme"]);
}

#[test]
fn the_driver_override_that_the_user_set_stays() {
    let Some(Driven { console, .. }) = guest() else { return };
    let words = "is bound to nvme again\n1 blocks read\nstatus 0\nnvme\nvfio-pci\nback with nvme";
    expect(console, "preferred", &[words]);
}

#[test]
fn transient_errors_are_retried_and_permanent_ones_reported() {
    let Some(Driven { console, .. }) = guest() else { return };
    expect(console, "errors that go away", &["1 commands retried", "8 blocks read", "status 0"]);
    let words = [
        "unrecovered read error",
        "No such file",
        "--wipe does not name what is on it (unreadable)",
        "write fault",
        "status 2",
    ];
    expect(console, "errors that stay", &words);
}

#[test]
fn commands_that_time_out_are_aborted_and_the_controller_is_reset() {
    let Some(Driven { console, .. }) = guest() else { return };
    expect(console, "timeouts", &[" aborted", ALL_WRITTEN, "status 0", "the kernel reads the same"]);
    expect(console, "resets", &[" aborted", "4096 blocks written, flushed, and read again", "status 0"]);
    assert!(!case(console, "timeouts").contains(" 0 aborted"), "{console}");
    assert!(!case(console, "resets").contains(" 0 resets"), "{console}");
}

#[test]
fn the_benchmark_compares_the_kernel_s_interfaces_with_the_driver() {
    let Some(Driven { console, .. }) = guest() else { return };
    expect(
        console,
        "bench",
        &["pread", "io_uring registered", "nvme, read", "Completed in a second", "status 0"],
    );
    assert_eq!(case(console, "bench").matches("not measured").count(), 1, "pread at depth 8: {console}");
}
