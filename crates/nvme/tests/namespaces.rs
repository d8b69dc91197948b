//! Namespaces of an emulated subsystem with two controllers: created, attached, detached and deleted, and compared with a plain model.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use nvme::chunk::{Drive, RetryPolicy, Waiting};
use nvme::emulated::{Fault, Machine};
use nvme::prp::Piece;
use nvme::spec::command::admin;
use nvme::spec::identify;
use nvme::spec::status::Status;
use nvme::{AsyncQueue, BlockError, Controller, Namespace, NamespaceError, NewNamespace, NvmeError};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

const BLOCK: usize = 512;
/// Blocks of the first namespace.
const FIRST: u64 = 8;
const UNALLOCATED: u64 = 24;
/// Most blocks of a new one.
const BLOCKS_MAX: u64 = 12;

fn machines(paths: usize) -> Vec<Machine> {
    Machine::builder(FIRST, 9).unallocated_bytes(UNALLOCATED << 9).open_paths(paths).unwrap()
}

fn machine() -> Machine {
    Machine::builder(FIRST, 9).unallocated_bytes(UNALLOCATED << 9).open().unwrap()
}

fn numbers(controller: &Controller) -> Vec<u32> {
    controller.namespaces().iter().map(|one| one.number).collect()
}

/// Whether nothing was sent that changes namespaces.
fn is_untouched(machine: &Machine) -> bool {
    let sent = machine.emulated.admin_opcodes();
    !sent.contains(&admin::NAMESPACE_MANAGEMENT) && !sent.contains(&admin::NAMESPACE_ATTACHMENT)
}

#[test]
fn a_namespace_is_created_attached_used_detached_and_deleted() {
    let mut machine = machine();
    let controller = &mut machine.controller;
    assert_eq!(controller.identity().unallocated_bytes, u128::from(UNALLOCATED) << 9);
    let number = controller.create_namespace(&NewNamespace::private(4, 9)).unwrap();
    assert_eq!((number, numbers(controller)), (2, vec![1]));
    assert_eq!(controller.allocated_namespaces().unwrap(), [1, 2]);
    assert_eq!(controller.attached_controllers(2).unwrap(), []);
    assert_eq!(controller.identity().unallocated_bytes, u128::from(UNALLOCATED - 4) << 9);
    let this = controller.identity().controller;
    controller.attach_namespace(2, &[this]).unwrap();
    assert_eq!((numbers(controller), controller.attached_controllers(2).unwrap()), (vec![1, 2], vec![this]));
    let disk = controller.namespaces()[1];
    assert_eq!((disk.format.blocks, disk.format.block_shift, disk.format.is_shared), (4, 9, false));
    assert_ne!(disk.format.names, controller.namespaces()[0].format.names);
    let queue = AsyncQueue::polled(controller, disk, 4, 4096).unwrap();
    queue.block_on(queue.write(3, &[7; BLOCK])).unwrap();
    // The first namespace is not written, and this one is refused while it has a queue.
    for refused in [controller.detach_namespace(2, &[this]), controller.delete_namespace(2)] {
        assert!(matches!(refused, Err(NamespaceError::InUse { namespace: 2, queues: 1 })), "{refused:?}");
    }
    queue.close(controller).unwrap();
    controller.detach_namespace(2, &[this]).unwrap();
    assert_eq!((numbers(controller), controller.allocated_namespaces().unwrap()), (vec![1], vec![1, 2]));
    let content = machine.emulated.content(2).unwrap();
    assert_eq!((content[3 * BLOCK], content.len()), (7, 4 * BLOCK), "detachment loses nothing");
    machine.controller.delete_namespace(2).unwrap();
    assert_eq!(machine.emulated.content(2), None);
    assert!(machine.emulated.disk().iter().all(|byte| *byte == 0));
    assert_eq!(machine.controller.identity().unallocated_bytes, u128::from(UNALLOCATED) << 9);
}

#[test]
fn a_block_size_of_its_own() {
    let mut machine = machine();
    let number = machine.controller.create_namespace(&NewNamespace::private(2, 12)).unwrap();
    machine.controller.attach_namespace(number, &[0]).unwrap();
    let disk = machine.controller.namespaces()[1];
    assert_eq!((disk.format.blocks, disk.format.block_bytes()), (2, 4096));
    let formats = machine.controller.namespace_formats().unwrap();
    assert_eq!(formats.iter().map(|format| format.block_shift).collect::<Vec<_>>(), [9, 12]);
}

#[test]
fn what_can_t_be_created_is_not_sent() {
    let mut machine = machine();
    let mut refused = |new| machine.controller.create_namespace(&new).unwrap_err().to_string();
    assert_eq!(
        refused(NewNamespace::private(UNALLOCATED + 1, 9)),
        "the namespace needs 12800 bytes, and 12288 are unallocated (UNVMCAP)"
    );
    assert_eq!(
        refused(NewNamespace::private(1, 10)),
        "no format has blocks of 2^10 bytes without metadata; the controller has 2^9, 2^12"
    );
    for (blocks, block_shift) in [(0, 9), (1 << 55, 9), (1, 64)] {
        let words = refused(NewNamespace::private(blocks, block_shift));
        assert!(words.contains("expected one at least"), "{words}");
    }
    assert!(is_untouched(&machine));
    let refused = |change: fn(&mut identify::Controller)| {
        let mut machine =
            Machine::builder(FIRST, 9).open_prepared(|emulated| emulated.change_controller(change)).unwrap();
        let refused = machine.controller.create_namespace(&NewNamespace::private(1, 9)).unwrap_err();
        assert!(is_untouched(&machine));
        refused.to_string()
    };
    let words = refused(|identity| identity.can_manage_namespaces = false);
    assert_eq!(words, "the controller can't manage namespaces (OACS bit 3 is clear)");
    let words = "1 namespaces are allocated, and the controller allows no more (NN, MNAN)";
    assert_eq!(refused(|identity| identity.namespaces_max = 1), words);
    assert_eq!(refused(|identity| identity.allocated_max = 1), words);
}

#[test]
fn what_can_t_be_attached_or_deleted_is_not_sent() {
    let mut machines = machines(2);
    let mut other = machines.pop().unwrap();
    let private = other.controller.create_namespace(&NewNamespace::private(1, 9)).unwrap();
    other.controller.attach_namespace(private, &[1]).unwrap();
    let mut machine = machines.pop().unwrap();
    let controller = &mut machine.controller;
    let mut words = Vec::new();
    for (namespace, controllers) in [
        (1, &[0][..]),
        (9, &[0]),
        (0, &[0]),
        (u32::MAX, &[0]),
        (private, &[0]),
        (private, &[]),
        (private, &[7]),
    ] {
        words.push(controller.attach_namespace(namespace, controllers).unwrap_err().to_string());
    }
    words.push(controller.detach_namespace(private, &[0]).unwrap_err().to_string());
    words.push(controller.detach_namespace(private, &[1, 2]).unwrap_err().to_string());
    words.push(controller.delete_namespace(private).unwrap_err().to_string());
    words.push(controller.delete_namespace(u32::MAX).unwrap_err().to_string());
    assert_eq!(
        words,
        [
            "namespace 1 is attached to controller 0 already",
            "no namespace 9 is allocated",
            "no namespace 0 is allocated",
            "no namespace 4294967295 is allocated",
            "namespace 2 is private (NMIC bit 0 is clear), so one controller at a time may attach it; it is attached to 1",
            "0 controllers; expected 1 to 2047",
            "the subsystem has no controller 7 (CNTLID)",
            "namespace 2 is not attached to controller 0",
            "the subsystem has no controller 2 (CNTLID)",
            "namespace 2 is attached to other controllers (1); detach it there first",
            "no namespace 4294967295 is allocated",
        ]
    );
    assert!(is_untouched(&machine));
}

/// A queue without a namespace of its own may be for any. One of a drive is for its own alone, until it is closed.
#[test]
fn what_is_open_is_neither_detached_nor_deleted() {
    let mut machine = machine();
    machine.controller.create_namespace(&NewNamespace::private(1, 9)).unwrap();
    machine.controller.attach_namespace(2, &[0]).unwrap();
    let disks = machine.controller.namespaces().to_vec();
    let any = machine.controller.queue_pair(4).unwrap();
    for namespace in [1, 2] {
        let error = machine.controller.delete_namespace(namespace).unwrap_err();
        assert!(matches!(error, NamespaceError::InUse { queues: 1, .. }), "{error}");
    }
    machine.controller.delete(any).unwrap();
    let shared = Arc::new(Mutex::new(machine.controller));
    let open = |disk| {
        Drive::open(Arc::clone(&shared), disk, 2, 4096, Waiting::Polling, RetryPolicy::default()).unwrap()
    };
    let (one, two) = (open(disks[0]), open(disks[1]));
    let error = Controller::lock(&shared).detach_namespace(2, &[0]).unwrap_err();
    assert!(matches!(error, NamespaceError::InUse { namespace: 2, queues: 1 }), "{error}");
    nvme::chunk::Chunk::from(two).close().unwrap();
    Controller::lock(&shared).detach_namespace(2, &[0]).unwrap();
    // A reset finds what the change left.
    Controller::lock(&shared).reset().unwrap();
    let mut one = nvme::chunk::Chunk::from(one);
    one.write(3, &[9; BLOCK]).unwrap();
    one.close().unwrap();
    assert_eq!(machine.emulated.disk()[3 * BLOCK], 9);
    Controller::lock(&shared).delete_namespace(1).unwrap();
}

/// Another controller detaches a namespace from under a queue of this one.
#[test]
fn what_a_queue_is_left_of_is_neither_deleted_nor_attached_again() {
    let mut machines = machines(2);
    let mut other = machines.pop().unwrap();
    let mut machine = machines.pop().unwrap();
    let controller = &mut machine.controller;
    controller.create_namespace(&NewNamespace::private(1, 9)).unwrap();
    controller.attach_namespace(2, &[0]).unwrap();
    let queue = AsyncQueue::polled(controller, controller.namespaces()[1], 4, 4096).unwrap();
    let any = controller.queue_pair(4).unwrap();
    other.controller.detach_namespace(2, &[0]).unwrap();
    for refused in [controller.attach_namespace(2, &[0]), controller.delete_namespace(2)] {
        assert!(matches!(refused, Err(NamespaceError::InUse { namespace: 2, queues: 1 })), "{refused:?}");
    }
    controller.attach_namespace(2, &[1]).unwrap();
    controller.detach_namespace(2, &[1]).unwrap();
    queue.close(controller).unwrap();
    controller.attach_namespace(2, &[0]).unwrap();
    controller.delete(any).unwrap();
    controller.delete_namespace(2).unwrap();
}

#[test]
fn a_controller_that_is_gone_is_said_so() {
    let mut machine = machine();
    let disk = machine.controller.namespaces()[0];
    let mut queue = machine.controller.queue_pair(4).unwrap();
    machine.emulated.inject(0, Fault::Gone);
    queue.flush(&disk).unwrap();
    queue.ring_doorbell();
    let error = machine.controller.create_namespace(&NewNamespace::private(1, 9)).unwrap_err();
    assert!(matches!(error, NamespaceError::Nvme(NvmeError::Gone)), "{error}");
}

#[derive(Debug, Clone)]
enum Step {
    Create { blocks: u64, is_shared: bool },
    Attach { namespace: u32, controllers: BTreeSet<u16> },
    Detach { namespace: u32, controllers: BTreeSet<u16> },
    Delete { namespace: u32 },
    Write { namespace: u32, block: u64, byte: u8 },
    Read { namespace: u32, block: u64 },
    Reset,
}

fn steps() -> impl Strategy<Value = (usize, Step)> {
    let namespace = || 1_u32..6;
    let controllers = || prop::collection::btree_set(0_u16..2, 1..=2);
    let block = || 0..BLOCKS_MAX;
    let step = prop_oneof![
        3 => (1..=BLOCKS_MAX, any::<bool>()).prop_map(|(blocks, is_shared)| Step::Create { blocks, is_shared }),
        4 => (namespace(), controllers()).prop_map(|(namespace, controllers)| Step::Attach { namespace, controllers }),
        2 => (namespace(), controllers()).prop_map(|(namespace, controllers)| Step::Detach { namespace, controllers }),
        2 => namespace().prop_map(|namespace| Step::Delete { namespace }),
        6 => (namespace(), block(), 1_u8..).prop_map(|(namespace, block, byte)| Step::Write { namespace, block, byte }),
        6 => (namespace(), block()).prop_map(|(namespace, block)| Step::Read { namespace, block }),
        1 => Just(Step::Reset),
    ];
    (0_usize..2, step)
}

/// What a subsystem should have.
#[derive(Debug, Default)]
struct Model {
    namespaces: BTreeMap<u32, Disk>,
}

#[derive(Debug)]
struct Disk {
    content: Vec<u8>,
    is_shared: bool,
    attached: BTreeSet<u16>,
}

impl Disk {
    fn new(blocks: u64, is_shared: bool, attached: BTreeSet<u16>) -> Self {
        Self { content: vec![0; blocks as usize * BLOCK], is_shared, attached }
    }
}

impl Model {
    fn unallocated(&self) -> u64 {
        let allocated: usize = self.namespaces.values().map(|disk| disk.content.len()).sum();
        ((FIRST + UNALLOCATED) << 9) - allocated as u64
    }

    /// Executes a change by one controller. False if it is to be refused.
    fn change(&mut self, by: u16, step: &Step) -> bool {
        match step {
            Step::Create { blocks, is_shared } => {
                let is_possible = blocks << 9 <= self.unallocated();
                if is_possible {
                    let free = (1..).find(|number| !self.namespaces.contains_key(number)).unwrap();
                    self.namespaces.insert(free, Disk::new(*blocks, *is_shared, BTreeSet::new()));
                }
                is_possible
            }
            Step::Attach { namespace, controllers } => {
                let Some(disk) = self.namespaces.get_mut(namespace) else { return false };
                let after: BTreeSet<u16> = disk.attached.union(controllers).copied().collect();
                let is_possible =
                    disk.attached.is_disjoint(controllers) && (disk.is_shared || after.len() == 1);
                if is_possible {
                    disk.attached = after;
                }
                is_possible
            }
            Step::Detach { namespace, controllers } => {
                let Some(disk) = self.namespaces.get_mut(namespace) else { return false };
                let is_possible = disk.attached.is_superset(controllers);
                if is_possible {
                    disk.attached.retain(|controller| !controllers.contains(controller));
                }
                is_possible
            }
            Step::Delete { namespace } => {
                let Some(disk) = self.namespaces.get(namespace) else { return false };
                let is_possible = disk.attached.iter().all(|controller| *controller == by);
                if is_possible {
                    self.namespaces.remove(namespace);
                }
                is_possible
            }
            _ => true,
        }
    }

    /// The bytes of a block as a controller reaches it, or the status.
    fn block(&mut self, by: u16, namespace: u32, block: u64) -> Result<&mut [u8], Status> {
        let disk = self.namespaces.get_mut(&namespace).filter(|disk| disk.attached.contains(&by));
        let disk = disk.ok_or(Status::INVALID_FIELD.with_do_not_retry())?;
        let at = block as usize * BLOCK;
        disk.content.get_mut(at..at + BLOCK).ok_or(Status::LBA_OUT_OF_RANGE.with_do_not_retry())
    }

    fn attached_to(&self, controller: u16) -> Vec<u32> {
        let attached = self.namespaces.iter().filter(|(_, disk)| disk.attached.contains(&controller));
        attached.map(|(number, _)| *number).collect()
    }
}

/// Executes an I/O command by a namespace that the driver may know no more, with a queue of its own.
fn io(machine: &mut Machine, disk: Namespace, block: u64, written: Option<u8>) -> Result<Vec<u8>, Status> {
    let controller = &mut machine.controller;
    let buffer = controller.allocate(4096).unwrap();
    let mut queue = controller.queue_pair(2).unwrap();
    machine.ram.write(buffer.memory(), &[written.unwrap_or(0xee); BLOCK]).unwrap();
    let piece: Piece = buffer.piece(0, BLOCK as u64).unwrap();
    let sent: Result<_, BlockError> = match written {
        Some(_) => queue.write_fua(&disk, block, &[piece]),
        None => queue.read(&disk, block, &[piece]),
    };
    sent.unwrap();
    queue.ring_doorbell();
    let mut status = None;
    while status.is_none() {
        queue.poll(1, |done| status = Some(done.status)).unwrap();
    }
    let mut bytes = vec![0; BLOCK];
    machine.ram.read(buffer.memory(), &mut bytes).unwrap();
    controller.delete(queue).unwrap();
    controller.free(buffer).unwrap();
    let status = status.unwrap();
    if status.is_success() { Ok(bytes) } else { Err(status) }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_subsystem_does_as_a_plain_model_does(steps in prop::collection::vec(steps(), 1..60)) {
        let mut machines = machines(2);
        let mut model = Model::default();
        model.namespaces.insert(1, Disk::new(FIRST, true, BTreeSet::from([0, 1])));
        let template = machines[0].controller.namespaces()[0];
        for (by, step) in steps {
            let (controller, machine) = (by as u16, &mut machines[by]);
            let disk = |number| Namespace {
                number,
                format: identify::Namespace { blocks: BLOCKS_MAX, ..template.format },
                ..template
            };
            let expected = model.change(controller, &step);
            let done = match &step {
                Step::Create { blocks, is_shared } => {
                    let mut new = NewNamespace::private(*blocks, 9);
                    new.is_shared = *is_shared;
                    machine.controller.create_namespace(&new).map(|_| ())
                }
                Step::Attach { namespace, controllers } => {
                    let controllers: Vec<u16> = controllers.iter().copied().collect();
                    machine.controller.attach_namespace(*namespace, &controllers)
                }
                Step::Detach { namespace, controllers } => {
                    let controllers: Vec<u16> = controllers.iter().copied().collect();
                    machine.controller.detach_namespace(*namespace, &controllers)
                }
                Step::Delete { namespace } => machine.controller.delete_namespace(*namespace),
                Step::Write { namespace, block, byte } => {
                    let written = io(machine, disk(*namespace), *block, Some(*byte)).map(|_| ());
                    let block = model.block(controller, *namespace, *block);
                    prop_assert_eq!(written, block.map(|block| block.fill(*byte)));
                    Ok(())
                }
                Step::Read { namespace, block } => {
                    let read = io(machine, disk(*namespace), *block, None);
                    let block = model.block(controller, *namespace, *block);
                    prop_assert_eq!(read, block.map(|block| block.to_vec()));
                    Ok(())
                }
                // It fails where the other controller has changed this one's namespaces, as it should: then it is another disk.
                Step::Reset => {
                    let known = machine.controller.namespaces().to_vec();
                    let known = numbers(&machine.controller) == model.attached_to(controller)
                        && known.iter().all(|one| {
                            machine.controller.allocated_namespace(one.number).unwrap() == Some(one.format)
                        });
                    if known {
                        machine.controller.reset().unwrap();
                    }
                    Ok(())
                }
            };
            prop_assert_eq!(done.is_ok(), expected, "{:?} {:?}", step, done);
            if let Err(error) = done {
                prop_assert!(!matches!(error, NamespaceError::Nvme(_) | NamespaceError::Unread { .. }), "{}", error);
            } else if !matches!(step, Step::Write { .. } | Step::Read { .. } | Step::Reset) {
                prop_assert_eq!(numbers(&machine.controller), model.attached_to(controller));
                prop_assert_eq!(machine.controller.identity().unallocated_bytes, u128::from(model.unallocated()));
            }
            let controller = &mut machine.controller;
            let allocated: Vec<u32> = model.namespaces.keys().copied().collect();
            prop_assert_eq!(controller.allocated_namespaces().unwrap(), allocated);
            for (number, disk) in &model.namespaces {
                let attached: Vec<u16> = disk.attached.iter().copied().collect();
                prop_assert_eq!(controller.attached_controllers(*number).unwrap(), attached);
                let format = controller.allocated_namespace(*number).unwrap().unwrap();
                prop_assert_eq!((format.bytes(), format.is_shared), (disk.content.len() as u64, disk.is_shared));
            }
        }
        for (number, disk) in &model.namespaces {
            let content = machines[0].emulated.content(*number);
            prop_assert_eq!(content.as_deref(), Some(&disk.content[..]));
        }
    }
}
