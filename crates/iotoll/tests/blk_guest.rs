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
use support::{Guest, cache, skip, skip_part, ubuntu_kernel};

const DISK_BYTES: usize = 16 << 20;
const UNTOUCHED: u8 = 0xee;
/// Blocks before the first that is written.
const FIRST: usize = 64;
const WRITTEN_BYTES: usize = 8 << 20;

/// The kernel's test of its timer counts ticks in real time, and fails now and then on a busy machine.
const UNTIMED: &str = "no_timer_check";
const REMAPPED: &str = "intel_iommu=on no_timer_check";

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
iotoll blk read {A} --take --blocks 1 -o /dev/null
iotoll bench blk {A} --take
umount /mnt
about swap
mkswap $(disk {A}) > /dev/null
swapon $(disk {A})
iotoll blk read {A} --take --blocks 1 -o /dev/null
swapoff $(disk {A})
about consent
iotoll blk read {A} --blocks 1 -o /dev/null
driver {A}
about permission
su -s /bin/sh nobody -c '{program} blk read {A} --take --blocks 1 -o /dev/null; echo "status $?"'
about group
iotoll blk read {SHARED} --take --blocks 1 -o /dev/null
about write
iotoll blk write {A} --take --overwrite disk5 --wipe swap --first {FIRST} -i /tmp/data
back {A}
same {A}
about log
iotoll blk log {A} --take
about killed
back {A}
for delay in 1 2; do
    killed {SLOW} $delay --take --overwrite disk7
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
(iotoll blk write {SLOW} --take --overwrite disk7 --first {FIRST} -i /tmp/data) &
writer=$!
lent {SLOW}
kill -9 $(keeper); wait $writer
back {SLOW}
about "errors that go away"
iotoll blk read {FAILING} --take --first 896 --blocks 8 -o /dev/null
about "errors that stay"
iotoll blk read {FAILING} --take --first 1900 --blocks 200 -o /tmp/nothing
ls /tmp/nothing
iotoll blk write {FAILING} --take --overwrite disk6 --first 3900 -i /tmp/data
iotoll blk write {FAILING} --take --overwrite disk6 --wipe unreadable --first 3900 -i /tmp/data
about timeouts
iotoll blk write {SLOW} --take --overwrite disk7 --first {FIRST} -i /tmp/data --timeout-ms 400
back {SLOW}
same {SLOW}
about resets
head -c 2097152 /tmp/data > /tmp/some
iotoll blk write {SLOW} --take --overwrite disk7 --first {FIRST} -i /tmp/some --timeout-ms 200
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
        command_line: REMAPPED,
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    expect(&console, "list", &[A, "can be driven  yes", "QEMU NVMe Ctrl", "shares IOMMU group"]);
    expect(
        &console,
        "mounted",
        &["is mounted at /mnt. An adapter in use is never unbound", "status 2\niotoll"],
    );
    expect(&console, "swap", &["the kernel swaps to /dev/nvme", "status 2"]);
    expect(&console, "consent", &["`--take` unbinds it", "/drivers/nvme/unbind", "status 2\nnvme\n"]);
    expect(&console, "permission", &["no permission to write", "run it as root", "status 2"]);
    expect(
        &console,
        "group",
        &["0000:01:00.1 (e1000e), so each can reach the memory of the others", "status 2"],
    );
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
        &[
            "unrecovered read error",
            "No such file",
            "--wipe does not name what is on it (unreadable)",
            "write fault",
            "status 2",
        ],
    );
    expect(&console, "timeouts", &[" aborted", written, "status 0", "the kernel reads the same"]);
    expect(&console, "resets", &[" aborted", "4096 blocks written, flushed, and read again", "status 0"]);
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

const TWO: &str = "0000:00:06.0";
const SUBSYSTEM: &str = "0000:00:07.0";
const KILLED: &str = "0000:00:09.0";

/// A program of this machine for the guest, where it is installed.
fn tool(name: &str) -> Option<PathBuf> {
    let found = ["/usr/sbin", "/sbin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        skip_part(&format!("no {name} here, which is not run in the guest"));
    }
    found
}

/// Whatever keeps a disk from being overwritten, on a real kernel: an adapter that is to be taken, and the same disk by the kernel's device.
#[test]
fn what_is_used_or_not_named_is_not_overwritten() {
    let Some((cache, kernel)) = kernel() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let file = |name: &str| disk_file(folder.path(), name);
    let a = Disk { slot: 5, file: folder.path().join("a"), manner: "" };
    fs::File::create(&a.file).unwrap().set_len(64 << 20).unwrap();
    let slow = Disk { slot: 9, file: file("slow"), manner: ",throttling.iops-total=50" };
    let drive =
        |id: &str| format!("-drive file={},if=none,format=raw,cache=unsafe,id={id}", file(id).display());
    let devices = [
        "-device intel-iommu,intremap=on".to_owned(),
        a.device(),
        slow.device(),
        format!("{} {} -device nvme,id=two,serial=two,addr=6", drive("first"), drive("second")),
        "-device nvme-ns,drive=first,bus=two,nsid=1 -device nvme-ns,drive=second,bus=two,nsid=2".to_owned(),
        "-device nvme-subsys,id=subsystem,nqn=shared".to_owned(),
        format!("{} -device nvme,id=one,serial=shared,subsys=subsystem,addr=7", drive("shared")),
        "-device nvme-ns,drive=shared,bus=one,nsid=1,shared=on".to_owned(),
    ];
    let tools: Vec<PathBuf> =
        ["mdadm", "lvm", "cryptsetup", "wipefs"].iter().filter_map(|name| tool(name)).collect();
    let has = |name: &str| tools.iter().any(|path| path.ends_with(name));
    let (md, lvm, luks) = (has("mdadm"), has("lvm"), has("cryptsetup"));
    let script = format!(
        r#"export PATH=$PATH:/usr/sbin:/usr/bin
head -c 65536 /dev/urandom > /tmp/data
mkdir -p /run/lock /run/mdadm /run/cryptsetup /run/lvm /etc/lvm
sleep 2
D=$(disk {A})
adapter() {{ echo "to the adapter"; iotoll blk write {A} --take --first {FIRST} -i /tmp/data "$@"; driver {A}; }}
device() {{ echo "to the device"; iotoll blk write $D --first {FIRST} -i /tmp/data "$@"; }}
both() {{ adapter --overwrite disk5 "$@"; device --overwrite $D "$@"; }}
types() {{ wipefs --no-act --noheadings -O TYPE $D | sort -u | sed 's/^/wipefs: /'; }}
clean() {{ dd if=/dev/zero of=$D bs=1M 2>/dev/null; }}
about "not named"
adapter
device
about "wrong name"
adapter --overwrite disk6
device --overwrite /dev/zero
about "mounted"
mke2fs -q $D > /dev/null 2>&1
mount -t ext4 $D /mnt || echo NOT MOUNTED
both --wipe ext2
about "swap file"
dd if=/dev/zero of=/mnt/swap bs=64k count=32 2>/dev/null; chmod 600 /mnt/swap; mkswap /mnt/swap > /dev/null
ln /mnt/swap /mnt/link
swapon /mnt/swap || echo NO SWAP
iotoll blk write /mnt/link --overwrite /mnt/link --wipe swap --first 0 -i /tmp/data
swapoff /mnt/swap
about "unmounted"
umount /mnt
both
about "wrong type"
both --wipe ext4
about "another mount namespace"
unshare -m sh -c "mount -t ext4 $D /mnt && touch /tmp/mounted; sleep 1000" &
until [ -e /tmp/mounted ]; do usleep 20000; done
grep -q /mnt /proc/mounts && echo MOUNTED HERE
both --wipe ext2
kill $!; killall sleep
sleep 1
about "swap"
mkswap $D > /dev/null
swapon $D || echo NO SWAP
both --wipe swap
swapoff $D
both
about "loop on the device"
losetup /dev/loop1 $D
both --wipe swap
losetup -d /dev/loop1
clean
about "loop on a file"
dd if=/dev/zero of=/tmp/image bs=1M count=8 2>/dev/null
losetup -o 1048576 /dev/loop0 /tmp/image
mke2fs -q /dev/loop0 > /dev/null 2>&1
iotoll blk write /tmp/image --overwrite /tmp/image --first 0 -i /tmp/data
mount -t ext4 /dev/loop0 /mnt || echo NOT MOUNTED
ln /tmp/image /tmp/link
mv /tmp/link /tmp/moved
rm /tmp/image
iotoll blk write /tmp/moved --overwrite /tmp/moved --first 0 -i /tmp/data
umount /mnt
losetup -d /dev/loop0
about "loop is gone"
iotoll blk write /tmp/moved --overwrite /tmp/moved --first 0 -i /tmp/data
about "exclusive"
{program} blk read $D | sleep 1000 &
sleep 1
both
about "exclusive and not seen"
echo 'mount -t proc proc /proc' > /tmp/both
echo '{program} blk write {A} --take --overwrite disk5 --first {FIRST} -i /tmp/data; echo "status $?"' >> /tmp/both
echo "{program} blk write $D --overwrite $D --first {FIRST} -i /tmp/data; echo \"status \$?\"" >> /tmp/both
unshare -p -f -m sh /tmp/both
driver {A}
killall sleep
sleep 1
about "read-only"
blockdev --setro $D
device --overwrite $D
blockdev --setrw $D
if {md}; then
for version in 0.90 1.0 1.1 1.2; do
about "md $version"
clean
mdadm --create /dev/md7 --level=1 --raid-devices=2 --metadata=$version --run --assume-clean --quiet $D missing
[ $version != 1.2 ] || both --wipe linux_raid_member
mdadm --stop --quiet /dev/md7
about "md $version stopped"
types
both
done
fi
if {lvm}; then
about lvm
clean
config='devices {{ use_devicesfile=0 }} activation {{ udev_sync=0 udev_rules=0 }} global {{ event_activation=0 }}'
lvm pvcreate --config "$config" -q -y $D 2>&1
lvm vgcreate --config "$config" -q -y group $D 2>&1
lvm lvcreate --config "$config" -q -y -Zn -Wn -L 8M -n volume group 2>&1
both --wipe LVM2_member
lvm vgchange --config "$config" -q -an group 2>&1
about "lvm stopped"
types
both
fi
if {luks}; then
about luks
clean
echo secret > /tmp/secret
cryptsetup luksFormat -q --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $D /tmp/secret 2>&1
cryptsetup open --key-file /tmp/secret $D opened 2>&1
both --wipe crypto_LUKS
cryptsetup close opened 2>&1
about "luks closed"
types
both
fi
about zfs
clean
for label in 0 262144 66584576 66846720; do
    for block in 0 1 2 3 4 5 6 7; do
        printf '\014\261\272\0\0\0\0\0' | dd of=$D bs=1024 seek=$(((label + 131072) / 1024 + block)) conv=notrunc 2>/dev/null
    done
done
types
both
about "two namespaces"
iotoll blk write {TWO} --take --overwrite two --first {FIRST} -i /tmp/data
iotoll blk read {TWO} --take --blocks 1 -o /dev/null
driver {TWO}
iotoll blk write {TWO} --take --overwrite two --namespace 2 --first {FIRST} -i /tmp/data
about shared
iotoll blk write {SUBSYSTEM} --take --overwrite shared --first {FIRST} -i /tmp/data
back {SUBSYSTEM}
S=/dev/$(ls /sys/bus/pci/devices/{SUBSYSTEM}/nvme/nvme*/ | sed -n 's/^\(nvme[0-9]*\)c[0-9]*n1$/\1n1/p')
iotoll blk write $S --overwrite $S --first {FIRST} -i /tmp/data
iotoll blk write {SUBSYSTEM} --take --overwrite shared --accept-shared --first {FIRST} -i /tmp/data
about lent
echo vfio-pci > /sys/bus/pci/devices/{A}/driver_override
echo {A} > /sys/bus/pci/drivers/nvme/unbind
echo {A} > /sys/bus/pci/drivers_probe
iotoll blk write {A} --overwrite disk5 --first {FIRST} -i /tmp/data
iotoll blk write {A} --overwrite disk5 --wipe zfs_member --first {FIRST} -i /tmp/data
echo {A} > /sys/bus/pci/drivers/vfio-pci/unbind
echo > /sys/bus/pci/devices/{A}/driver_override
echo {A} > /sys/bus/pci/drivers/nvme/bind
back {A}
about "written"
both --wipe zfs_member
about "both killed"
head -c {WRITTEN_BYTES} /dev/urandom > /tmp/data
{program} blk write {KILLED} --take --overwrite disk9 --first {FIRST} -i /tmp/data 2> /tmp/told &
writer=$!
lent {KILLED}
kill -9 $(keeper) $writer; wait $writer
sleep 1
driver {KILLED}
grep '^  echo' /tmp/told | sed 's/^  //' > /tmp/recipe
cat /tmp/recipe
sh /tmp/recipe
back {KILLED}
cat /sys/bus/pci/devices/{KILLED}/driver_override
about end
"#,
        program = program.display(),
    );
    let programs: Vec<&Path> =
        std::iter::once(program.as_path()).chain(tools.iter().map(PathBuf::as_path)).collect();
    let guest = Guest {
        modules: &[
            "vfio_pci",
            "vfio_iommu_type1",
            "crc32c_generic",
            "ext4",
            "nvme",
            "loop",
            "raid1",
            "dm_mod",
            "dm_crypt",
            "xts",
            "algif_skcipher",
            "sha256_generic",
        ],
        programs: &programs,
        before: String::new(),
        ways: &[],
        after: &format!("{}{script}", head(&program)),
        devices: &devices.join(" "),
        command_line: REMAPPED,
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    // Each of them: what is said to whoever writes to the adapter, and to the kernel's device of the same disk.
    let refused = |name: &str, adapter: &[&str], device: &[&str]| {
        let said = case(&console, name);
        let begin = said.find("to the device\n").unwrap_or_else(|| panic!("{name}: {said}"));
        let (to_adapter, to_device) = said.split_at(begin);
        for (said, words) in [(to_adapter, adapter), (to_device, device)] {
            words.iter().for_each(|word| assert!(said.contains(word), "{name}: {word:?} is not in\n{said}"));
            assert!(said.contains("status 2") && !said.contains("blocks written"), "{name}: {said}");
        }
        // Nothing was taken for it.
        let was_left = to_adapter.contains("status 2\nnvme\n") && !to_adapter.contains("nvme's again");
        assert!(was_left, "{name}: {to_adapter}");
    };
    let named = |name: &str, words: &[&str]| refused(name, words, words);
    refused(
        "not named",
        &["--overwrite does not name it", "serial number disk5", "add: --overwrite disk5\n"],
        &["--overwrite does not name it", "add: --overwrite /dev/nvme", "only zeros in what was read"],
    );
    named("wrong name", &["is not its name"]);
    named("mounted", &["is mounted at /mnt"]);
    expect(&console, "swap file", &["the kernel swaps to /mnt/link", "status 2"]);
    named("unmounted", &["--wipe does not name what is on it (ext2)", "ext2: file system at byte 1080"]);
    named("wrong type", &["(ext2)", "--wipe names what is not on it (ext4)"]);
    named("another mount namespace", &["is mounted at /mnt (in the mount namespace of process "]);
    assert!(!case(&console, "another mount namespace").contains("MOUNTED HERE"), "{console}");
    let swap = case(&console, "swap");
    assert_eq!(swap.matches("the kernel swaps to /dev/nvme").count(), 2, "{swap}");
    assert_eq!(swap.matches("--wipe does not name what is on it (swap)").count(), 2, "{swap}");
    named("loop on the device", &["/dev/loop1 has /dev/nvme"]);
    expect(
        &console,
        "loop on a file",
        &["/dev/loop0 has /tmp/image open\nstatus 2", "/dev/loop0 has /tmp/moved open\nstatus 2"],
    );
    // Its file system begins behind the first MiB.
    expect(&console, "loop is gone", &["16 blocks written", "status 0"]);
    named("exclusive", &["process ", "(iotoll) has /dev/nvme"]);
    let unseen = case(&console, "exclusive and not seen");
    for words in ["is in use: something has it open exclusively", "the kernel refuses to open it exclusively"]
    {
        assert!(unseen.contains(words), "{words}: {unseen}");
    }
    assert!(unseen.matches("status 2").count() == 2 && unseen.contains("\nnvme\n"), "{unseen}");
    expect(&console, "read-only", &["is read-only", "status 2"]);
    let stopped = |name: &str, word: &str| {
        named(name, &[&format!("--wipe does not name what is on it ({word})")]);
        if has("wipefs") {
            expect(&console, name, &[&format!("wipefs: {word}\nto the adapter")]);
        }
    };
    if md {
        named("md 1.2", &["/dev/md7 is made of /dev/nvme"]);
        for version in ["0.90", "1.0", "1.1", "1.2"] {
            stopped(&format!("md {version} stopped"), "linux_raid_member");
        }
    }
    if lvm {
        named("lvm", &["/dev/dm-0 is made of /dev/nvme"]);
        stopped("lvm stopped", "LVM2_member");
    }
    if luks {
        named("luks", &["/dev/dm-0 is made of /dev/nvme"]);
        stopped("luks closed", "crypto_LUKS");
    }
    stopped("zfs", "zfs_member");
    let several = "the controller has 2 namespaces: 1, 2; `--namespace N` says which one";
    let two = case(&console, "two namespaces");
    assert_eq!(two.matches(several).count(), 2, "{two}");
    assert!(two.contains("status 2\nnvme\n") && two.contains("128 blocks written"), "{two}");
    let shared = case(&console, "shared");
    let may_be = "another controller or another host may use it at the same time";
    assert_eq!(shared.matches(may_be).count(), 2, "{shared}");
    assert_eq!(shared.matches("--overwrite shared --accept-shared").count(), 1, "{shared}");
    assert!(shared.contains("back with nvme") && shared.ends_with("status 0\n"), "{shared}");
    // The disk is read by this program's own driver.
    let lent = case(&console, "lent");
    assert!(lent.contains("--wipe does not name what is on it (zfs_member)"), "{lent}");
    assert_eq!(lent.matches("128 blocks written").count(), 1, "{lent}");
    let written = case(&console, "written");
    assert_eq!(written.matches("128 blocks written").count(), 2, "{written}");
    let killed = case(&console, "both killed");
    assert!(killed.contains("\nvfio-pci\necho ") && killed.contains("back with nvme\n(null)"), "{killed}");
    // The namespace that was not asked for, and what is before the first block of the other one.
    let is_untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == UNTOUCHED);
    assert!(is_untouched(&fs::read(folder.path().join("first")).unwrap()));
    let second = fs::read(folder.path().join("second")).unwrap();
    assert!(!is_untouched(&second) && is_untouched(&second[..FIRST * 512]));
}

/// Kernels without VFIO's no-IOMMU mode, as Debian's, drive none whatever is accepted.
#[test]
fn without_an_iommu_nothing_is_driven() {
    let Some((cache, kernel)) = kernel() else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let disk = Disk { slot: 5, file: disk_file(folder.path(), "disk"), manner: "" };
    let script = format!(
        "sleep 2\nabout none\niotoll blk read {A} --take --blocks 1 -o /dev/null\ndriver {A}\n\
         about accepted\niotoll blk read {A} --take --accept-no-iommu --blocks 1 -o /dev/null\ndriver {A}\nabout end\n"
    );
    let guest = Guest {
        modules: &["vfio_pci", "nvme"],
        programs: &[&program],
        before: String::new(),
        ways: &[],
        after: &format!("{}{script}", head(&program)),
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
iotoll blk read {A} --take --accept-no-iommu --blocks 1 -o /dev/null
driver {A}
echo Y > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode
about "not accepted"
iotoll blk read {A} --take --blocks 1 -o /dev/null
driver {A}
about "no memory"
iotoll blk read {A} --take --accept-no-iommu --blocks 1 -o /dev/null
driver {A}
echo 20 > /proc/sys/vm/nr_hugepages
about "no right"
su -s /bin/sh nobody -c '{program} blk read {A} --take --accept-no-iommu --blocks 1 -o /dev/null; echo "status $?"'
driver {A}
about "no pin"
echo 2 > /proc/sys/kernel/io_uring_disabled
iotoll blk read {A} --take --accept-no-iommu --blocks 1 -o /dev/null
echo 0 > /proc/sys/kernel/io_uring_disabled
driver {A}
about write
iotoll blk write {A} --take --accept-no-iommu --overwrite disk5 --first {FIRST} -i /tmp/data
back {A}
same {A}
all_free
about killed
for delay in 1 2; do
    killed {SLOW} $delay --take --accept-no-iommu --overwrite disk7
    back {SLOW}
    all_free
done
about kept
mkdir /frozen && mount -t cgroup2 none /frozen && mkdir /frozen/keeper
{program} blk write {SLOW} --take --accept-no-iommu --overwrite disk7 --first {FIRST} -i /tmp/data &
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
(iotoll blk write {SLOW} --take --accept-no-iommu --overwrite disk7 --first {FIRST} -i /tmp/data) &
writer=$!
lent {SLOW}
sleep 1
iotoll blk read {SLOW} --accept-no-iommu --blocks 1 -o /dev/null
wait $writer
back {SLOW}
about lent
lend {A}
iotoll blk read {A} --blocks 1 -o /dev/null
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
        command_line: UNTIMED,
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    expect(&console, "off", &["no-IOMMU mode is off", "status 2\nnvme\n"]);
    expect(&console, "not accepted", &["can reach all memory", "status 2\nnvme\n"]);
    expect(&console, "no memory", &["left alone", "3 huge pages of 2 MiB are needed", "status 2\nnvme\n"]);
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
        &["can reach all memory", "it reads the same\nvfio-pci", all_free, "killed 137", "let go"],
    );
    expect(&console, "measured", &["Reads in a second", "status 0"]);
    for disk in [&a, &slow] {
        let bytes = fs::read(&disk.file).unwrap();
        let is_untouched = |bytes: &[u8]| bytes.iter().all(|byte| *byte == UNTOUCHED);
        assert!(is_untouched(&bytes[..FIRST * 512]), "blocks before the first");
        assert!(is_untouched(&bytes[FIRST * 512 + WRITTEN_BYTES..]), "blocks behind the last");
    }
}
