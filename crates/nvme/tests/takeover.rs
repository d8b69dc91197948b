//! What speaks against driving a disk, on trees that look like hosts.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![cfg(target_os = "linux")]

#[path = "takeover/steps.rs"]
mod steps;

use nvme::takeover::{Accepted, Candidate, Refusal, Root, Takeover, TakeoverError, Usage};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ADDRESS: &str = "0000:03:00.0";
const UNBIND: Accepted = Accepted { unbind: true, no_iommu: false };

/// A host with one controller, its disk and a partition, and a bridge in the same group.
struct Tree {
    folder: TempDir,
}

impl Tree {
    fn new() -> Self {
        let tree = Self { folder: tempfile::tempdir().unwrap() };
        tree.file("proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
        tree.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n");
        tree.file("sys/bus/pci/drivers_probe", "");
        for driver in ["nvme", "vfio-pci"] {
            tree.file(&format!("sys/bus/pci/drivers/{driver}/bind"), "");
        }
        tree.adapter(ADDRESS, "0x010802", Some("nvme"));
        tree.adapter("0000:00:01.0", "0x060400", Some("pcieport"));
        tree.group(&[ADDRESS, "0000:00:01.0"]);
        tree.file(&format!("sys/bus/pci/devices/{ADDRESS}/nvme/nvme0/model"), "Disk of Test  \n");
        tree.file(&format!("sys/bus/pci/devices/{ADDRESS}/nvme/nvme0/nvme0n1/uevent"), "");
        tree.file("sys/block/nvme0n1/size", "2048\n");
        tree.file("sys/block/nvme0n1/dev", "259:0\n");
        tree.file("sys/block/nvme0n1/nvme0n1p1/dev", "259:1\n");
        tree.file("sys/block/nvme0n1/nvme0n1p1/partition", "1\n");
        tree.file("dev/nvme0n1", "");
        tree
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    fn file(&self, inside: &str, text: &str) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn link(&self, inside: &str, to: &Path) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(to, path).unwrap();
    }

    fn adapter(&self, address: &str, class: &str, driver: Option<&str>) {
        let folder = format!("sys/bus/pci/devices/{address}");
        self.file(&format!("{folder}/class"), class);
        self.file(&format!("{folder}/driver_override"), "(null)\n");
        if let Some(driver) = driver {
            self.file(&format!("sys/bus/pci/drivers/{driver}/unbind"), "");
            self.link(&format!("{folder}/driver"), &self.path(&format!("sys/bus/pci/drivers/{driver}")));
        }
    }

    fn group(&self, addresses: &[&str]) {
        let group = self.path("sys/kernel/iommu_groups/7");
        for address in addresses {
            self.file(&format!("sys/kernel/iommu_groups/7/devices/{address}"), "");
            self.link(&format!("sys/bus/pci/devices/{address}/iommu_group"), &group);
        }
    }

    fn root(&self) -> Root {
        Root::at(self.folder.path())
    }

    fn candidate(&self) -> Candidate {
        Candidate::at(&self.root(), ADDRESS).unwrap().unwrap()
    }

    fn refusals(&self, accepted: Accepted) -> Vec<Refusal> {
        self.candidate().refusals(&self.root(), accepted)
    }
}

#[test]
fn an_adapter_whose_disk_is_unused_can_be_unbound() {
    let tree = Tree::new();
    let candidate = tree.candidate();
    assert_eq!(Candidate::all(&tree.root()).unwrap(), std::slice::from_ref(&candidate));
    assert_eq!((candidate.model.as_deref(), candidate.group), (Some("Disk of Test"), Some(7)));
    assert_eq!((candidate.disks[0].name.as_str(), candidate.disks[0].bytes), ("nvme0n1", 1 << 20));
    assert_eq!((candidate.group_members.len(), candidate.driver_override), (0, None));
    let is_zoned = |zoned: &str| {
        tree.file("sys/block/nvme0n1/queue/zoned", zoned);
        tree.candidate().disks[0].is_zoned
    };
    assert!(!candidate.disks[0].is_zoned && is_zoned("host-managed\n") && !is_zoned("none\n"));
    assert_eq!(tree.refusals(UNBIND), []);
    assert_eq!(Candidate::at(&tree.root(), "0000:00:01.0").unwrap(), None);
    assert_eq!(Candidate::at(&tree.root(), "../../../../etc").unwrap(), None);
    assert_eq!(Candidate::all(&Root::at("/no/such/tree")).unwrap(), []);
}

#[test]
fn without_consent_the_refusal_lists_the_steps() {
    let tree = Tree::new();
    let [refusal] = &tree.refusals(Accepted::default())[..] else { panic!() };
    let told = refusal.to_string().replace(tree.folder.path().to_str().unwrap(), "");
    let device = format!("/sys/bus/pci/devices/{ADDRESS}");
    let expected = format!(
        "{ADDRESS} is bound to the kernel's driver nvme; `--unbind` unbinds it while this program runs, by: \
         echo vfio-pci > {device}/driver_override && echo {ADDRESS} > /sys/bus/pci/drivers/nvme/unbind && \
         echo {ADDRESS} > /sys/bus/pci/drivers_probe"
    );
    assert_eq!(told, expected);
}

#[test]
fn an_adapter_whose_disk_is_in_use_is_refused_even_with_consent() {
    let check = |change: &dyn Fn(&Tree), expected: Usage, words: &str| {
        let tree = Tree::new();
        change(&tree);
        assert_eq!(tree.candidate().disks[0].usages, std::slice::from_ref(&expected));
        let refusals = tree.refusals(UNBIND);
        assert!(matches!(&refusals[..], [Refusal::InUse { .. }]), "{refusals:?}");
        assert!(refusals[0].to_string().contains(words), "{}", refusals[0]);
    };
    let mounted = |device: &str, at: &str| Usage::Mounted { device: device.to_owned(), at: at.to_owned() };
    check(
        &|tree| tree.file("proc/self/mountinfo", "36 22 259:1 / /data rw shared:1 - ext4 /dev/root rw\n"),
        mounted("nvme0n1p1", "/data"),
        "/dev/nvme0n1p1 is mounted at /data",
    );
    // A file system with a number of its own.
    check(
        &|tree| tree.file("proc/self/mountinfo", "36 22 0:45 /@ /b\\040c rw - btrfs /dev/nvme0n1 rw\n"),
        mounted("nvme0n1", "/b c"),
        "/dev/nvme0n1 is mounted at /b c",
    );
    check(
        &|tree| tree.file("proc/swaps", "Filename\n/dev/nvme0n1p1 partition 1 0 -2\n"),
        Usage::Swap { device: "nvme0n1p1".to_owned() },
        "the kernel swaps to /dev/nvme0n1p1",
    );
    check(
        &|tree| tree.file("sys/block/nvme0n1/nvme0n1p1/holders/dm-3", ""),
        Usage::Holder { device: "nvme0n1p1".to_owned(), holder: "dm-3".to_owned() },
        "/dev/dm-3 is made of /dev/nvme0n1p1",
    );
    check(
        &|tree| tree.file("sys/block/nvme0n1/holders/md0", ""),
        Usage::Holder { device: "nvme0n1".to_owned(), holder: "md0".to_owned() },
        "/dev/md0 is made of /dev/nvme0n1",
    );
}

/// What keeps nobody else from a disk is a use all the same.
#[test]
fn openers_of_a_disk_are_seen() {
    let check = |change: &dyn Fn(&Tree), by: &str| {
        let tree = Tree::new();
        change(&tree);
        let expected = Usage::Open { device: "nvme0n1p1".to_owned(), by: by.to_owned() };
        assert_eq!(tree.candidate().disks[0].usages, [expected]);
    };
    check(
        &|tree| {
            tree.file("proc/77/comm", "qemu-system-x86\n");
            tree.link("proc/77/fd/3", Path::new("/dev/nvme0n1p1"));
        },
        "process 77 (qemu-system-x86)",
    );
    check(&|tree| tree.file("sys/block/loop3/loop/backing_file", "/dev/nvme0n1p1\n"), "/dev/loop3");
    check(
        &|tree| {
            let file = "sys/kernel/config/nvmet/subsystems/nqn.a/namespaces/1/device_path";
            tree.file(file, "/dev/nvme0n1p1\n");
        },
        "the NVMe target nqn.a",
    );
}

/// Files that this process has open do not count as a use.
#[test]
fn this_process_does_not_count_as_a_user() {
    let tree = Tree::new();
    for process in [std::process::id().to_string(), "self".to_owned()] {
        tree.file(&format!("proc/{process}/comm"), "iotoll\n");
        tree.link(&format!("proc/{process}/fd/3"), Path::new("/dev/nvme0n1"));
    }
    assert_eq!(tree.refusals(UNBIND), []);
}

/// An unreadable source must not make a disk appear unused.
#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let check = |change: &dyn Fn(&Tree), expected: &str| {
        let tree = Tree::new();
        change(&tree);
        let error = Candidate::at(&tree.root(), ADDRESS).unwrap_err();
        assert_eq!(error.file, tree.path(expected));
    };
    // A folder where a file should be, and the other way round: root may read whatever has no such fault.
    let folder_instead = |tree: &Tree, file: &str| {
        let _ = fs::remove_file(tree.path(file));
        fs::create_dir_all(tree.path(file)).unwrap();
    };
    check(&|tree| folder_instead(tree, "proc/self/mountinfo"), "proc/self/mountinfo");
    check(&|tree| folder_instead(tree, "proc/swaps"), "proc/swaps");
    check(&|tree| tree.file("sys/block/nvme0n1/holders", ""), "sys/block/nvme0n1/holders");
}

/// Another controller of the subsystem may have the same namespaces.
#[test]
fn a_subsystem_with_several_controllers_is_refused() {
    let tree = Tree::new();
    tree.file(&format!("sys/bus/pci/devices/{ADDRESS}/nvme/nvme0/subsysnqn"), "nqn.a\n");
    tree.file("sys/class/nvme/nvme0/subsysnqn", "nqn.a\n");
    tree.file("sys/class/nvme/nvme1/subsysnqn", "nqn.b\n");
    assert_eq!(tree.refusals(UNBIND), []);
    tree.file("sys/class/nvme/nvme1/subsysnqn", "nqn.a\n");
    let [refusal] = &tree.refusals(UNBIND)[..] else { panic!() };
    assert!(refusal.to_string().contains("is in the same NVMe subsystem as nvme1"), "{refusal}");
}

#[test]
fn an_adapter_that_changed_after_the_check_is_not_unbound() {
    let check = |change: &dyn Fn(&Tree)| {
        let tree = Tree::new();
        let candidate = tree.candidate();
        change(&tree);
        let error = Takeover::unbind_from_kernel(&tree.root(), &candidate, || panic!("nothing was unbound"))
            .unwrap_err();
        let driver_override = tree.path(&format!("sys/bus/pci/devices/{ADDRESS}/driver_override"));
        assert_eq!(fs::read_to_string(driver_override).unwrap(), "(null)\n", "{error}");
    };
    // Another disk, a mount, another process that unbound it, and a disk without its device file.
    check(&|tree| {
        tree.file(&format!("sys/bus/pci/devices/{ADDRESS}/nvme/nvme0/nvme0n2/uevent"), "");
        tree.file("sys/block/nvme0n2/dev", "259:9\n");
    });
    check(&|tree| tree.file("proc/self/mountinfo", "36 22 259:1 / /data rw - ext4 /dev/root rw\n"));
    check(&|tree| tree.adapter(ADDRESS, "0x010802", Some("vfio-pci")));
    check(&|tree| fs::remove_file(tree.path("dev/nvme0n1")).unwrap());
}

/// The disk of several controllers has its own name; its uses count for each controller.
#[test]
fn a_disk_with_several_paths_is_found_by_its_own_name() {
    let tree = Tree::new();
    let folder = tree.path(&format!("sys/bus/pci/devices/{ADDRESS}/nvme/nvme0"));
    fs::rename(folder.join("nvme0n1"), folder.join("nvme0c4n1")).unwrap();
    tree.file("proc/swaps", "Filename\n/dev/nvme0n1 partition 1 0 -2\n");
    assert!(matches!(tree.refusals(UNBIND)[..], [Refusal::InUse { .. }]));
}

#[test]
fn each_other_obstacle_is_a_refusal() {
    let tree = Tree::new();
    fs::remove_file(tree.path(&format!("sys/bus/pci/devices/{ADDRESS}/iommu_group"))).unwrap();
    let [refusal] = &tree.refusals(UNBIND)[..] else { panic!() };
    assert!(refusal.to_string().contains("is in no IOMMU group"), "{refusal}");
    assert!(refusal.to_string().contains("`--accept-no-iommu`"), "{refusal}");

    let tree = Tree::new();
    tree.adapter("0000:03:00.1", "0x020000", Some("e1000e"));
    tree.adapter("0000:03:00.2", "0x020000", None);
    tree.group(&["0000:03:00.1", "0000:03:00.2"]);
    let [refusal] = &tree.refusals(UNBIND)[..] else { panic!() };
    assert!(refusal.to_string().contains("shares IOMMU group 7 with 0000:03:00.1 (e1000e),"), "{refusal}");

    let tree = Tree::new();
    fs::remove_dir_all(tree.path("sys/bus/pci/drivers/vfio-pci")).unwrap();
    assert_eq!(tree.refusals(UNBIND), [Refusal::NoVfioDriver]);

    let tree = Tree::new();
    tree.adapter(ADDRESS, "0x010802", Some("uio_pci_generic"));
    assert!(
        matches!(&tree.refusals(UNBIND)[..], [Refusal::OtherDriver { driver, .. }] if driver == "uio_pci_generic")
    );

    // It is already bound to vfio-pci, and another user may open its file.
    let tree = Tree::new();
    tree.adapter(ADDRESS, "0x010802", Some("vfio-pci"));
    let refusals = tree.refusals(Accepted::default());
    assert!(
        matches!(&refusals[..], [Refusal::NoPermission { file, .. }] if file.ends_with("dev/vfio/7")),
        "{refusals:?}"
    );
    tree.file("dev/vfio/7", "");
    assert_eq!(tree.refusals(Accepted::default()), []);
}

/// A failed step is an error, and the steps before it are undone.
#[test]
fn a_takeover_that_fails_is_undone() {
    let tree = Tree::new();
    let (root, candidate) = (tree.root(), tree.candidate());
    fs::remove_file(tree.path("sys/bus/pci/drivers_probe")).unwrap();
    let error = Takeover::unbind_from_kernel(&root, &candidate, || Ok(())).unwrap_err();
    assert!(matches!(error, TakeoverError::Step { .. }), "{error}");
    let driver_override =
        fs::read_to_string(tree.path(&format!("sys/bus/pci/devices/{ADDRESS}/driver_override")));
    // Of what is no file of the kernel's the rest stays.
    assert!(driver_override.unwrap().starts_with('\n'));
}

#[test]
fn the_previous_state_survives_as_words() {
    let tree = Tree::new();
    let takeover = Takeover::of(&tree.candidate());
    let words = takeover.previous();
    assert_eq!(words, [ADDRESS, "nvme", "-"].map(str::to_owned));
    assert_eq!(Takeover::from_previous(words.each_ref().map(String::as_str)), takeover);
}

/// What was accepted is not all: the kernel has to lend such adapters.
#[test]
fn without_an_iommu_the_kernel_has_to_be_willing() {
    let accepted = Accepted { no_iommu: true, ..UNBIND };
    let without_group = || {
        let tree = Tree::new();
        fs::remove_file(tree.path(&format!("sys/bus/pci/devices/{ADDRESS}/iommu_group"))).unwrap();
        tree
    };
    let mode = "sys/module/vfio/parameters/enable_unsafe_noiommu_mode";
    let check = |change: &dyn Fn(&Tree), expected: Option<&str>| {
        let tree = without_group();
        change(&tree);
        let refusals: Vec<String> = tree.refusals(accepted).iter().map(ToString::to_string).collect();
        assert_eq!(refusals.len(), usize::from(expected.is_some()), "{refusals:?}");
        assert!(refusals.iter().all(|refusal| refusal.contains(expected.unwrap())), "{refusals:?}");
        // What was not accepted is refused before anything else of this.
        assert!(matches!(&tree.refusals(UNBIND)[..], [Refusal::NoIommu { .. }]));
    };
    check(&|_| (), Some("modprobe vfio enable_unsafe_noiommu_mode=1"));
    check(&|tree| tree.file("sys/module/vfio/uevent", ""), Some("CONFIG_VFIO_NOIOMMU"));
    check(&|tree| tree.file(mode, "N\n"), Some("echo Y >"));
    check(&|tree| tree.file(mode, "Y\n"), None);
    let bound_to_vfio = |tree: &Tree| {
        tree.file(mode, "Y\n");
        tree.adapter(ADDRESS, "0x010802", Some("vfio-pci"));
    };
    check(&bound_to_vfio, Some("unbind it and bind it again"));
    let made_up = |tree: &Tree| {
        bound_to_vfio(tree);
        tree.group(&[ADDRESS]);
        tree.file("sys/kernel/iommu_groups/7/name", "vfio-noiommu\n");
        tree.file("dev/vfio/noiommu-7", "");
        let candidate = tree.candidate();
        assert_eq!((candidate.group, candidate.no_iommu_group), (None, Some(7)));
    };
    check(&made_up, None);
    check(
        &|tree| {
            made_up(tree);
            fs::remove_file(tree.path("dev/vfio/noiommu-7")).unwrap();
        },
        Some("dev/vfio/noiommu-7"),
    );
}

/// Rebinding an adapter that is still bound to its driver writes nothing.
#[test]
fn a_bound_adapter_is_not_rebound() {
    for driver in ["nvme", "vfio-pci"] {
        let tree = Tree::new();
        tree.adapter(ADDRESS, "0x010802", Some(driver));
        Takeover::of(&tree.candidate()).rebind(&tree.root()).unwrap();
        for file in ["unbind", "bind"] {
            let written =
                fs::read_to_string(tree.path(&format!("sys/bus/pci/drivers/{driver}/{file}"))).unwrap();
            assert_eq!(written, "", "{driver}/{file}");
        }
        let driver_override = tree.path(&format!("sys/bus/pci/devices/{ADDRESS}/driver_override"));
        assert_eq!(fs::read_to_string(driver_override).unwrap(), "(null)\n", "{driver}");
    }
}

/// The mounts of every process's mount namespace count, once each.
#[test]
fn mounts_of_other_namespaces_are_seen() {
    let line = "36 22 259:1 / /data rw - ext4 /dev/nvme0n1p1 rw\n";
    let tree = Tree::new();
    tree.link("proc/self/ns/mnt", Path::new("mnt:[1]"));
    for (process, namespace) in [("70", "mnt:[1]"), ("77", "mnt:[2]"), ("78", "mnt:[2]")] {
        tree.link(&format!("proc/{process}/ns/mnt"), Path::new(namespace));
    }
    // This process's own namespace is read as its own alone.
    tree.file("proc/70/mountinfo", line);
    assert_eq!(tree.refusals(UNBIND), []);
    tree.file("proc/77/mountinfo", line);
    tree.file("proc/78/mountinfo", line);
    let [refusal] = &tree.refusals(UNBIND)[..] else { panic!() };
    let words = "/dev/nvme0n1p1 is mounted at /data (in the mount namespace of process 77)";
    assert!(refusal.to_string().contains(words), "{refusal}");
    // A process whose namespace is unknown is checked, too.
    fs::remove_file(tree.path("proc/70/ns/mnt")).unwrap();
    assert!(tree.refusals(UNBIND)[0].to_string().contains("of process 70"), "{:?}", tree.refusals(UNBIND));
}

/// The steps that a user types if both processes were killed.
#[test]
fn the_steps_that_rebind_are_listed() {
    let check = |change: &dyn Fn(&Tree), steps: &[(&str, &str)]| {
        let tree = Tree::new();
        change(&tree);
        let device = format!("sys/bus/pci/devices/{ADDRESS}/driver_override");
        let told = Takeover::rebind_steps(&tree.root(), &tree.candidate());
        let told: Vec<(PathBuf, &str)> =
            told.iter().map(|step| (step.file.clone(), step.text.trim())).collect();
        let expected = steps.iter().map(|(file, text)| {
            (tree.path(&file.replace("OVERRIDE", &device).replace("DRIVERS", "sys/bus/pci/drivers")), *text)
        });
        assert_eq!(told, expected.collect::<Vec<_>>());
    };
    let unbind = ("DRIVERS/vfio-pci/unbind", ADDRESS);
    let (prefer, bind) = (("OVERRIDE", "nvme"), ("DRIVERS/nvme/bind", ADDRESS));
    check(&|_| (), &[unbind, prefer, bind, ("OVERRIDE", "")]);
    let file = format!("sys/bus/pci/devices/{ADDRESS}/driver_override");
    check(&|tree| tree.file(&file, "mine\n"), &[unbind, prefer, bind, ("OVERRIDE", "mine")]);
    let driver = format!("sys/bus/pci/devices/{ADDRESS}/driver");
    check(&|tree| fs::remove_file(tree.path(&driver)).unwrap(), &[unbind, ("OVERRIDE", "")]);
    let tree = Tree::new();
    tree.file(&format!("sys/bus/pci/devices/{ADDRESS}/nvme/nvme0/serial"), "S4EVNX0R123456      \n");
    assert_eq!(tree.candidate().serial.as_deref(), Some("S4EVNX0R123456"));
}
