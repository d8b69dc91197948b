//! Namespaces of a subsystem of QEMU's with two controllers, attached and detached through VFIO in a guest. QEMU and the emulated subsystem get the same
//! random requests, and must have the same namespaces afterwards. Then Linux's driver, and nvme-cli where it is installed, find what was left.
//!
//! As in `real_iommu`, this test program itself is copied into the guest. QEMU 7.2 attaches and detaches namespaces, and does not create them, though it
//! says so (OACS bit 3).

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/driver.rs"]
mod driver;
#[path = "support/random.rs"]
mod random;
#[path = "support/mod.rs"]
mod support;

use driver::bind_to;
use lab::{Arch, kernel::Series};
use nvme::emulated::Machine;
use nvme::spec::status::Status;
use nvme::{Adapter, AsyncError, AsyncQueue, Controller, Namespace, NamespaceError, NewNamespace};
use random::Random;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::{env, fs};
use support::{Guest, GuestKernel, MODE, cache, skip_part};

const ADAPTERS: [&str; 2] = ["0000:00:05.0", "0000:00:06.0"];
const BLOCK: usize = 4096;
/// Blocks of the namespaces, by their NSID less one. The first and the last may be shared, and the first alone is attached.
const BLOCKS: [u64; 3] = [256, 128, 64];
const ROUNDS: usize = 500;

type Shared = Arc<Mutex<Controller>>;

#[test]
#[ignore = "only in a guest that has the controllers"]
fn in_the_guest() {
    assert_eq!(env::var(MODE).unwrap(), "namespaces");
    let adapters = ADAPTERS.map(|address| Adapter::open(address, "vfio".parse().unwrap(), 8 << 20).unwrap());
    let qemu = adapters.each_ref().map(Adapter::controller);
    let emulated = emulated();
    for side in [&qemu, &emulated] {
        println!("{:?}", Controller::lock(&side[0]).identity());
    }
    let outcomes = random_changes(&qemu, &emulated);
    println!("outcomes: {outcomes:?}");
    let count = |words: &str| -> usize {
        outcomes.iter().filter(|(outcome, _)| outcome.contains(words)).map(|(_, count)| count).sum()
    };
    for words in ["done", "already", "is not attached", "is private", "no namespace 4", "no controller 2"] {
        assert!(count(words) >= 10, "{words}: {outcomes:?}");
    }
    leave_known(&qemu);
    refuse_creation(&qemu[0]);
    keep_data(&qemu[0]);
    drop(qemu);
    adapters.into_iter().for_each(|adapter| adapter.shut_down().unwrap());
    println!("namespaces: all as expected");
}

/// Two emulated controllers, whose subsystem has the same namespaces as QEMU's.
fn emulated() -> [Shared; 2] {
    let builder = Machine::builder(BLOCKS[0], 12).unallocated_bytes((BLOCKS[1] + BLOCKS[2]) << 12);
    let mut machines = builder.open_paths(2).unwrap();
    let first = &mut machines[0].controller;
    assert_eq!(first.create_namespace(&NewNamespace::private(BLOCKS[1], 12)).unwrap(), 2);
    assert_eq!(first.create_namespace(&NewNamespace::shared(BLOCKS[2], 12)).unwrap(), 3);
    let machines: [Machine; 2] = machines.try_into().unwrap();
    machines.map(|machine| Arc::new(Mutex::new(machine.controller)))
}

/// A subsystem as a controller reports it: its controllers, and each namespace's size, whether it may be shared, and where it is attached.
type Reported = (Vec<u16>, Vec<(u32, u64, u64, bool, Vec<u16>)>, Vec<u32>);

fn reported(shared: &Shared) -> Reported {
    let mut controller = Controller::lock(shared);
    controller.refresh_namespaces().unwrap();
    let allocated = controller.allocated_namespaces().unwrap();
    let rows = allocated.into_iter().map(|number| {
        let format = controller.allocated_namespace(number).unwrap().unwrap();
        let attached = controller.attached_controllers(number).unwrap();
        (number, format.blocks, format.block_bytes(), format.is_shared, attached)
    });
    let rows = rows.collect();
    let controllers = controller.subsystem_controllers().unwrap();
    let active = controller.namespaces().iter().map(|one| one.number).collect();
    (controllers, rows, active)
}

/// Reads the first block of a namespace that may be detached. The driver's view of it is that of another one.
fn read(shared: &Shared, disk: Namespace) -> Result<(), Status> {
    let mut controller = Controller::lock(shared);
    let queue = AsyncQueue::polled(&mut controller, disk, 1, BLOCK as u64).unwrap();
    let outcome = match queue.block_on(queue.read(0, &mut [0; BLOCK])) {
        Ok(()) => Ok(()),
        Err(AsyncError::Status(status)) => Err(status),
        Err(error) => panic!("{error}"),
    };
    queue.close(&mut controller).unwrap();
    outcome
}

/// Has both attach and detach at random. Returns how often each outcome was.
fn random_changes(qemu: &[Shared; 2], emulated: &[Shared; 2]) -> BTreeMap<String, usize> {
    let (mut random, mut outcomes) = (Random(0x9e37_79b9_7f4a_7c15), BTreeMap::new());
    let first = Controller::lock(&qemu[0]).namespaces()[0];
    for _ in 0..ROUNDS {
        let (by, namespace) = (random.below(2) as usize, 1 + random.below(4) as u32);
        let controllers: &[u16] = [&[0][..], &[1], &[0, 1], &[2]][random.below(4) as usize];
        let attaches = random.below(2) == 0;
        let change = |side: &[Shared; 2]| {
            let mut controller = Controller::lock(&side[by]);
            let changed = match attaches {
                true => controller.attach_namespace(namespace, controllers),
                false => controller.detach_namespace(namespace, controllers),
            };
            changed.map_or_else(|error| error.to_string(), |()| "done".to_owned())
        };
        let outcome = change(qemu);
        assert_eq!(outcome, change(emulated), "{namespace} {controllers:?}");
        *outcomes.entry(outcome).or_insert(0) += 1;
        for (one, other) in qemu.iter().zip(emulated) {
            let report = reported(one);
            assert_eq!(report, reported(other));
            let is_active = report.2.contains(&namespace);
            let [of_qemu, of_emulated] =
                [one, other].map(|side| read(side, Namespace { number: namespace, ..first }));
            assert_eq!((of_qemu.is_ok(), of_emulated.is_ok()), (is_active, is_active), "{of_qemu:?}");
            // Both tell inactive namespaces from NSIDs that can't be.
            if let (Err(of_qemu), Err(of_emulated)) = (of_qemu, of_emulated) {
                for status in [of_qemu, of_emulated] {
                    assert!(status.has_code_of(Status::INVALID_FIELD), "{status}");
                }
            }
        }
    }
    outcomes
}

/// QEMU says that it manages namespaces, and has no command for it.
fn refuse_creation(shared: &Shared) {
    let before = reported(shared);
    let mut controller = Controller::lock(shared);
    assert!(controller.identity().can_manage_namespaces);
    let error = controller.create_namespace(&NewNamespace::private(1, 12)).unwrap_err();
    println!("creation: {error}");
    assert!(error.to_string().starts_with("creating a namespace: invalid command opcode"), "{error}");
    let error = controller.delete_namespace(1).unwrap_err();
    println!("deletion: {error}");
    assert!(error.to_string().starts_with("deleting a namespace: invalid command opcode"), "{error}");
    drop(controller);
    assert_eq!(reported(shared), before);
}

/// Leaves the second namespace with the first controller, the third one with both, and the first with none.
fn leave_known(qemu: &[Shared; 2]) {
    let mut controller = Controller::lock(&qemu[0]);
    for namespace in 1..=3 {
        let attached = controller.attached_controllers(namespace).unwrap();
        if !attached.is_empty() {
            controller.detach_namespace(namespace, &attached).unwrap();
        }
    }
    controller.attach_namespace(2, &[0]).unwrap();
    controller.attach_namespace(3, &[0, 1]).unwrap();
}

/// What is written stays over a detachment, which a queue of this process prevents.
fn keep_data(shared: &Shared) {
    let mut controller = Controller::lock(shared);
    let open = |controller: &mut Controller| {
        let disk = *controller.namespaces().iter().find(|one| one.number == 2).unwrap();
        AsyncQueue::polled(controller, disk, 1, BLOCK as u64).unwrap()
    };
    let queue = open(&mut controller);
    queue.block_on(queue.write(3, &[7; BLOCK])).unwrap();
    let error = controller.detach_namespace(2, &[0]).unwrap_err();
    assert!(matches!(error, NamespaceError::InUse { namespace: 2, queues: 1 }), "{error}");
    queue.close(&mut controller).unwrap();
    controller.detach_namespace(2, &[0]).unwrap();
    controller.attach_namespace(2, &[0]).unwrap();
    let queue = open(&mut controller);
    let mut data = [0; BLOCK];
    queue.block_on(queue.read(3, &mut data)).unwrap();
    assert_eq!(data, [7; BLOCK]);
    queue.close(&mut controller).unwrap();
}

/// nvme-cli of this host.
fn nvme_cli() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join("nvme")).find(|path| path.is_file())
}

/// What nvme-cli is asked: a name, its arguments, and what it says.
fn questions() -> Vec<(&'static str, &'static str, String)> {
    let refused = |status: Status| format!("({:#x})", status.with_do_not_retry().0);
    vec![
        ("allocated", "list-ns --all /dev/nvme0", "[   0]:0x1\n[   1]:0x2\n[   2]:0x3\n".to_owned()),
        ("active", "list-ns /dev/nvme0", "[   0]:0x2\n[   1]:0x3\n".to_owned()),
        ("controllers", "list-ctrl -n 3 /dev/nvme0", "[   0]:0\n[   1]:0x1\n".to_owned()),
        ("private", "attach-ns -n 2 -c 1 /dev/nvme0", refused(Status::NAMESPACE_PRIVATE)),
        ("already", "attach-ns -n 3 -c 0 /dev/nvme0", refused(Status::NAMESPACE_ATTACHED)),
        ("not attached", "detach-ns -n 1 -c 0 /dev/nvme0", refused(Status::NAMESPACE_NOT_ATTACHED)),
        ("no such", "attach-ns -n 3 -c 9 /dev/nvme0", refused(Status::INVALID_CONTROLLER_LIST)),
        ("unallocated", "attach-ns -n 4 -c 0 /dev/nvme0", refused(Status::INVALID_FIELD)),
        ("creation", "create-ns -s 1 -c 1 -f 0 /dev/nvme0", refused(Status::INVALID_OPCODE)),
    ]
}

#[test]
fn qemu_and_the_emulated_subsystem_attach_alike() {
    let Some(cache) = cache() else { return };
    let Some(kernel) = GuestKernel::Debian(Series::V6_1).find(&cache, Arch::X86) else { return };
    let folder = tempfile::tempdir().unwrap();
    let drive = |number: usize| {
        let path = folder.path().join(format!("disk{number}"));
        fs::File::create(&path).unwrap().set_len(BLOCKS[number - 1] * BLOCK as u64).unwrap();
        format!("-drive file={},if=none,format=raw,cache=unsafe,id=disk{number}", path.display())
    };
    let size = "logical_block_size=4096,physical_block_size=4096";
    let devices = format!(
        "-device intel-iommu,intremap=on {} {} {} -device nvme-subsys,id=subsystem,nqn=shared \
         -device nvme,id=one,subsys=subsystem,serial=shared,addr=5 -device nvme,id=two,subsys=subsystem,serial=shared,addr=6 \
         -device nvme-ns,bus=one,nsid=1,drive=disk1,{size},shared=on \
         -device nvme-ns,bus=one,nsid=2,drive=disk2,{size},shared=off,detached=on \
         -device nvme-ns,bus=one,nsid=3,drive=disk3,{size},shared=on,detached=on",
        drive(1),
        drive(2),
        drive(3),
    );
    let to = |driver| ADAPTERS.map(|adapter| bind_to(adapter, driver)).concat();
    let mut after = to("nvme")
        + "busybox sleep 3\nfor disk in /sys/block/nvme*n?; do\n\
           echo \"disk $(busybox cat $disk/nsid) $(busybox cat $disk/size)\"; done\n\
           busybox dmesg | busybox grep -e DMAR -e nvme\n";
    let cli = nvme_cli();
    if let (Some(cli), questions) = (&cli, questions()) {
        after += &format!("export LD_LIBRARY_PATH={}\n", env::var("LD_LIBRARY_PATH").unwrap_or_default());
        for (name, arguments, _) in questions {
            after += &format!("echo \"<{name}>\"; {} {arguments} 2>&1; echo \"</{name}>\"\n", cli.display());
        }
    } else {
        skip_part("no nvme-cli, so that only Linux's driver looks at what was left");
    }
    let guest = Guest {
        modules: &["vfio_pci", "vfio_iommu_type1", "nvme"],
        programs: &cli.iter().map(PathBuf::as_path).collect::<Vec<_>>(),
        before: format!("busybox sleep 1\n{}", to("vfio-pci")),
        modes: &["namespaces"],
        after: &after,
        devices: &devices,
        command_line: "intel_iommu=on",
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    println!("{console}");
    assert!(console.contains("namespaces: all as expected"), "{console}");
    assert!(!console.contains("[DMA Read") && !console.contains("[DMA Write"), "{console}");
    // Sectors of 512 bytes. With or without the kernel's multipath, no disk is the first namespace.
    for words in ["disk 2 1024\n", "disk 3 512\n"] {
        assert!(console.contains(words), "{words}: {console}");
    }
    assert!(!console.contains("disk 1 "), "{console}");
    for (name, _, expected) in questions().into_iter().filter(|_| cli.is_some()) {
        let answer = console.split_once(&format!("<{name}>\n")).and_then(|(_, rest)| rest.split_once("</"));
        let answer = answer.map(|(answer, _)| answer.to_owned()).unwrap_or_default();
        assert!(answer.contains(&expected), "{name}: {answer:?}, expected {expected:?}");
    }
}
