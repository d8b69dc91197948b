//! Disks that must not be overwritten, because they are in use, not named or hold data.
//!
//! Each is written in two ways: by unbinding the adapter, and through the kernel's block device.

use super::support::{Guest, skip, skip_part};
use super::{
    A, Disk, FIRST, REMAPPED, SharedGuest, WRITTEN_BYTES, case, disk_file, expect, is_untouched, kernel,
    shared, shell_functions, stripped,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A controller with two namespaces.
const TWO: &str = "0000:00:06.0";
/// A controller whose namespace is shared.
const SUBSYSTEM: &str = "0000:00:07.0";
/// A slow disk, whose program and rebinding process are killed.
const KILLED: &str = "0000:00:09.0";

/// The path of a program of the host that is copied into the guest. `None` if it is not installed, which is reported.
fn tool(name: &str) -> Option<PathBuf> {
    let found = ["/usr/sbin", "/sbin", "/usr/bin"].map(|folder| Path::new(folder).join(name));
    let found = found.into_iter().find(|path| path.exists());
    if found.is_none() {
        skip_part(&format!("{name} is not installed, so its cases do not run in the guest"));
    }
    found
}

/// The results of the guest.
pub(super) struct Overwrite {
    console: String,
    /// The host has the programs mdadm, lvm, cryptsetup and wipefs, whose cases ran.
    md: bool,
    lvm: bool,
    luks: bool,
    wipefs: bool,
    /// Namespace 1, which no command named, is unchanged.
    is_first_namespace_untouched: bool,
    /// Namespace 2 was written, but not before block [`FIRST`].
    is_second_namespace_written_from_first: bool,
}

static GUEST: SharedGuest<Overwrite> = OnceLock::new();

pub(super) fn guest() -> Option<&'static Overwrite> {
    shared(&GUEST, boot)
}

/// Boots a guest whose disks are in use in many ways, and tries to overwrite each in it.
fn boot() -> Option<Overwrite> {
    let (cache, kernel) = kernel()?;
    let folder = tempfile::tempdir().unwrap();
    let program = stripped(folder.path());
    let file = |name: &str| disk_file(folder.path(), name);
    let a = Disk { slot: 5, file: folder.path().join("a"), options: "" };
    fs::File::create(&a.file).unwrap().set_len(64 << 20).unwrap();
    let slow = Disk { slot: 9, file: file("slow"), options: ",throttling.iops-total=50" };
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
adapter() {{ echo "to the adapter"; iotoll blk write {A} --unbind --first {FIRST} -i /tmp/data "$@"; driver {A}; }}
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
echo '{program} blk write {A} --unbind --overwrite disk5 --first {FIRST} -i /tmp/data; echo "status $?"' >> /tmp/both
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
iotoll blk write {TWO} --unbind --overwrite two --first {FIRST} -i /tmp/data
iotoll blk read {TWO} --unbind --blocks 1 -o /dev/null
driver {TWO}
iotoll blk write {TWO} --unbind --overwrite two --namespace 2 --first {FIRST} -i /tmp/data
about shared
iotoll blk write {SUBSYSTEM} --unbind --overwrite shared --first {FIRST} -i /tmp/data
back {SUBSYSTEM}
S=/dev/$(ls /sys/bus/pci/devices/{SUBSYSTEM}/nvme/nvme*/ | sed -n 's/^\(nvme[0-9]*\)c[0-9]*n1$/\1n1/p')
iotoll blk write $S --overwrite $S --first {FIRST} -i /tmp/data
iotoll blk write {SUBSYSTEM} --unbind --overwrite shared --accept-shared --first {FIRST} -i /tmp/data
about "bound to vfio"
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
{program} blk write {KILLED} --unbind --overwrite disk9 --first {FIRST} -i /tmp/data 2> /tmp/told &
writer=$!
wait_for_vfio {KILLED}
kill -9 $(rebind_process) $writer; wait $writer
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
        modes: &[],
        after: &format!("{}{script}", shell_functions(&program)),
        devices: &devices.join(" "),
        command_line: REMAPPED,
    };
    let console = guest.run(&cache, &kernel)?.replace('\r', "");
    let second = fs::read(folder.path().join("second")).unwrap();
    Some(Overwrite {
        console,
        md,
        lvm,
        luks,
        wipefs: has("wipefs"),
        is_first_namespace_untouched: is_untouched(&fs::read(folder.path().join("first")).unwrap()),
        is_second_namespace_written_from_first: !is_untouched(&second)
            && is_untouched(&second[..FIRST * 512]),
    })
}

impl Overwrite {
    /// Asserts that a case refuses to write through the adapter, with the words `adapter`, and through the kernel's block
    /// device of the same disk, with the words `device`; and that the adapter was not unbound.
    fn expect_refused(&self, name: &str, adapter: &[&str], device: &[&str]) {
        let output = case(&self.console, name);
        let begin = output.find("to the device\n").unwrap_or_else(|| panic!("{name}: {output}"));
        let (to_adapter, to_device) = output.split_at(begin);
        for (output, words) in [(to_adapter, adapter), (to_device, device)] {
            words
                .iter()
                .for_each(|word| assert!(output.contains(word), "{name}: {word:?} is not in\n{output}"));
            assert!(output.contains("status 2") && !output.contains("blocks written"), "{name}: {output}");
        }
        let stayed_bound =
            to_adapter.contains("status 2\nnvme\n") && !to_adapter.contains("bound to nvme again");
        assert!(stayed_bound, "{name}: {to_adapter}");
    }

    /// Like [`Overwrite::expect_refused`], with the same words for both.
    fn expect_both_refused(&self, name: &str, words: &[&str]) {
        self.expect_refused(name, words, words);
    }

    /// Asserts that a disk with a signature that `--wipe` does not name is refused, and that wipefs finds the same one.
    fn expect_signature(&self, name: &str, signature: &str) {
        let words = format!("--wipe does not name what is on it ({signature})");
        self.expect_both_refused(name, &[&words]);
        if self.wipefs {
            expect(&self.console, name, &[&format!("wipefs: {signature}\nto the adapter")]);
        }
    }
}

#[test]
fn a_disk_is_overwritten_only_by_its_name() {
    let Some(guest) = guest() else { return };
    guest.expect_refused(
        "not named",
        &["--overwrite does not name it", "serial number disk5", "add: --overwrite disk5\n"],
        &["--overwrite does not name it", "add: --overwrite /dev/nvme", "only zeros were read"],
    );
    guest.expect_both_refused("wrong name", &["is not its name"]);
}

#[test]
fn a_mounted_disk_is_refused_in_every_mount_namespace() {
    let Some(guest) = guest() else { return };
    guest.expect_both_refused("mounted", &["is mounted at /mnt"]);
    let name = "another mount namespace";
    guest.expect_both_refused(name, &["is mounted at /mnt (in the mount namespace of process "]);
    assert!(!case(&guest.console, name).contains("MOUNTED HERE"), "{}", guest.console);
}

#[test]
fn a_file_system_is_overwritten_only_if_wipe_names_it() {
    let Some(guest) = guest() else { return };
    let words = ["--wipe does not name what is on it (ext2)", "ext2: file system at byte 1080"];
    guest.expect_both_refused("unmounted", &words);
    guest.expect_both_refused("wrong type", &["(ext2)", "--wipe names what is not on it (ext4)"]);
}

#[test]
fn swap_is_refused_while_used_and_afterwards_unless_wipe_names_it() {
    let Some(guest) = guest() else { return };
    expect(&guest.console, "swap file", &["the kernel swaps to /mnt/link", "status 2"]);
    let swap = case(&guest.console, "swap");
    assert_eq!(swap.matches("the kernel swaps to /dev/nvme").count(), 2, "{swap}");
    assert_eq!(swap.matches("--wipe does not name what is on it (swap)").count(), 2, "{swap}");
}

#[test]
fn a_disk_or_file_under_a_loop_device_is_refused() {
    let Some(guest) = guest() else { return };
    guest.expect_both_refused("loop on the device", &["/dev/loop1 has /dev/nvme"]);
    let words = ["/dev/loop0 has /tmp/image open\nstatus 2", "/dev/loop0 has /tmp/moved open\nstatus 2"];
    expect(&guest.console, "loop on a file", &words);
    // Its file system begins behind the first MiB.
    expect(&guest.console, "loop is gone", &["16 blocks written", "status 0"]);
}

#[test]
fn a_disk_that_is_open_exclusively_is_refused() {
    let Some(guest) = guest() else { return };
    guest.expect_both_refused("exclusive", &["process ", "(iotoll) has /dev/nvme"]);
    let hidden = case(&guest.console, "exclusive and not seen");
    for words in ["is in use: something has it open exclusively", "the kernel refuses to open it exclusively"]
    {
        assert!(hidden.contains(words), "{words}: {hidden}");
    }
    assert!(hidden.matches("status 2").count() == 2 && hidden.contains("\nnvme\n"), "{hidden}");
}

#[test]
fn a_read_only_device_is_refused() {
    let Some(guest) = guest() else { return };
    expect(&guest.console, "read-only", &["is read-only", "status 2"]);
}

#[test]
fn members_of_md_arrays_are_refused() {
    let Some(guest) = guest() else { return };
    if !guest.md {
        return skip("mdadm is not installed");
    }
    guest.expect_both_refused("md 1.2", &["/dev/md7 is made of /dev/nvme"]);
    for version in ["0.90", "1.0", "1.1", "1.2"] {
        guest.expect_signature(&format!("md {version} stopped"), "linux_raid_member");
    }
}

#[test]
fn members_of_lvm_volume_groups_are_refused() {
    let Some(guest) = guest() else { return };
    if !guest.lvm {
        return skip("lvm is not installed");
    }
    guest.expect_both_refused("lvm", &["/dev/dm-0 is made of /dev/nvme"]);
    guest.expect_signature("lvm stopped", "LVM2_member");
}

#[test]
fn luks_volumes_are_refused() {
    let Some(guest) = guest() else { return };
    if !guest.luks {
        return skip("cryptsetup is not installed");
    }
    guest.expect_both_refused("luks", &["/dev/dm-0 is made of /dev/nvme"]);
    guest.expect_signature("luks closed", "crypto_LUKS");
}

#[test]
fn members_of_zfs_pools_are_refused() {
    let Some(guest) = guest() else { return };
    guest.expect_signature("zfs", "zfs_member");
}

#[test]
fn of_two_namespaces_only_the_named_one_is_written() {
    let Some(guest) = guest() else { return };
    let several = "the controller has 2 namespaces: 1, 2; `--namespace N` chooses one";
    let two = case(&guest.console, "two namespaces");
    assert_eq!(two.matches(several).count(), 2, "{two}");
    assert!(two.contains("status 2\nnvme\n") && two.contains("128 blocks written"), "{two}");
    assert!(guest.is_first_namespace_untouched && guest.is_second_namespace_written_from_first);
}

#[test]
fn a_shared_namespace_is_written_only_if_that_is_accepted() {
    let Some(guest) = guest() else { return };
    let shared = case(&guest.console, "shared");
    let may_be = "another controller or another host may use it at the same time";
    assert_eq!(shared.matches(may_be).count(), 2, "{shared}");
    assert_eq!(shared.matches("--overwrite shared --accept-shared").count(), 1, "{shared}");
    assert!(shared.contains("back with nvme") && shared.ends_with("status 0\n"), "{shared}");
}

/// The kernel has no block device of such a disk, so this program's own driver reads the signatures.
#[test]
fn a_disk_that_is_already_bound_to_vfio_is_checked_too() {
    let Some(guest) = guest() else { return };
    let bound = case(&guest.console, "bound to vfio");
    assert!(bound.contains("--wipe does not name what is on it (zfs_member)"), "{bound}");
    assert_eq!(bound.matches("128 blocks written").count(), 1, "{bound}");
}

#[test]
fn a_signature_that_wipe_names_is_overwritten() {
    let Some(guest) = guest() else { return };
    let written = case(&guest.console, "written");
    assert_eq!(written.matches("128 blocks written").count(), 2, "{written}");
}

#[test]
fn the_printed_commands_rebind_a_disk_after_both_processes_are_killed() {
    let Some(guest) = guest() else { return };
    let killed = case(&guest.console, "both killed");
    assert!(killed.contains("\nvfio-pci\necho ") && killed.contains("back with nvme\n(null)"), "{killed}");
}
