//! The emulated controllers' subsystem: its namespaces, which controllers each is attached to, and the capacity that no namespace has.

use super::media::{APPEND_PAGES_SHIFT, COPY_LIMITS, Media, NAMESPACE};
use super::zones::Zones;
use crate::spec::command::Command;
use crate::spec::identify::{self, Controller, Namespace, NamespaceNames, STRUCTURE_BYTES, Structure};
use crate::spec::namespace::{
    self, ALL_NAMESPACES, ATTACH, CONTROLLERS_MAX, CREATE, CreateFields, DELETE, DETACH,
};
use crate::spec::status::Status;
use crate::spec::zone;
use dma::SoftwareAdapter;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// Highest NSID.
pub(super) const NAMESPACES_MAX: u32 = 16;
/// Block sizes of namespaces besides that of the first one.
const BLOCK_SHIFTS: [u8; 2] = [9, 12];

/// What all controllers of a subsystem have in common.
#[derive(Debug)]
pub(super) struct Subsystem {
    /// Bytes that no namespace has.
    pub(super) unallocated_bytes: u128,
    /// Block sizes of the LBA formats, by their number.
    block_shifts: Vec<u8>,
    namespaces: BTreeMap<u32, Allocated>,
    controllers: BTreeSet<u16>,
}

/// A namespace, and the controllers that it is attached to.
#[derive(Debug)]
struct Allocated {
    media: Media,
    attached: BTreeSet<u16>,
}

/// A namespace with a name of its own.
fn new_namespace(blocks: u64, block_shift: u8, is_shared: bool) -> Namespace {
    static NAMES: AtomicU64 = AtomicU64::new(1);
    let mut names = NamespaceNames::default();
    names.nguid[8..].copy_from_slice(&NAMES.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    Namespace { blocks, block_shift, metadata_bytes: 0, is_shared, copy_limits: COPY_LIMITS, names }
}

/// A command that fails with a status, however often it is sent.
fn failed<T>(status: Status) -> Result<T, Status> {
    Err(status.with_do_not_retry())
}

impl Subsystem {
    /// A subsystem with one namespace, and no controller yet.
    pub(super) fn new(blocks: u64, block_shift: u8) -> Self {
        let media = Media::new(new_namespace(blocks, block_shift, false));
        let others = BLOCK_SHIFTS.into_iter().filter(|shift| *shift != block_shift);
        Self {
            unallocated_bytes: 0,
            block_shifts: std::iter::once(block_shift).chain(others).collect(),
            namespaces: BTreeMap::from([(NAMESPACE, Allocated { media, attached: BTreeSet::new() })]),
            controllers: BTreeSet::new(),
        }
    }

    /// Adds a controller, to which the first namespace is attached if it may be. Returns its identifier (CNTLID).
    pub(super) fn add_controller(&mut self) -> u16 {
        let controller = (0..u16::MAX).find(|free| !self.controllers.contains(free)).unwrap_or(u16::MAX);
        self.controllers.insert(controller);
        if let Some(first) = self.namespaces.get_mut(&NAMESPACE) {
            if first.media.namespace.is_shared || first.attached.is_empty() {
                first.attached.insert(controller);
            }
        }
        controller
    }

    /// Removes a controller.
    pub(super) fn remove_controller(&mut self, controller: u16) {
        self.controllers.remove(&controller);
        self.detach_all(controller);
    }

    /// Detaches all namespaces from a controller.
    pub(super) fn detach_all(&mut self, controller: u16) {
        self.namespaces.values_mut().for_each(|one| {
            one.attached.remove(&controller);
        });
    }

    /// All bytes, of namespaces and unallocated ones.
    pub(super) fn capacity_bytes(&self) -> u128 {
        let allocated = self.all_media().map(|media| u128::from(media.namespace.bytes()));
        self.unallocated_bytes + allocated.sum::<u128>()
    }

    fn all_media(&self) -> impl Iterator<Item = &Media> {
        self.namespaces.values().map(|one| &one.media)
    }

    /// The blocks of all namespaces.
    pub(super) fn all_media_mut(&mut self) -> impl Iterator<Item = &mut Media> {
        self.namespaces.values_mut().map(|one| &mut one.media)
    }

    /// The blocks of a namespace; `None` if it is not allocated.
    pub(super) fn media(&mut self, namespace: u32) -> Option<&mut Media> {
        self.namespaces.get_mut(&namespace).map(|one| &mut one.media)
    }

    /// Whether a namespace has zones, so that there is a further command set.
    pub(super) fn is_zoned(&self) -> bool {
        self.all_media().any(|media| media.zones.is_some())
    }

    /// A namespace that is attached to a controller.
    fn active(&self, controller: u16, namespace: u32) -> Option<&Allocated> {
        self.namespaces.get(&namespace).filter(|one| one.attached.contains(&controller))
    }

    /// Executes an I/O command of a controller with this identity. Returns its status, and the result of an append.
    pub(super) fn execute(
        &mut self,
        adapter: &SoftwareAdapter,
        identity: &Controller,
        controller: u16,
        command: &Command,
    ) -> (Status, u64) {
        let number = command.namespace();
        let found = self.namespaces.get_mut(&number);
        match found.filter(|one| one.attached.contains(&controller)) {
            Some(one) => one.media.execute(adapter, identity, controller, command),
            // As QEMU's controllers: an NSID that can be, but is not active here, is an invalid field.
            None if (1..=NAMESPACES_MAX).contains(&number) => (Status::INVALID_FIELD.with_do_not_retry(), 0),
            None => (Status::INVALID_NAMESPACE.with_do_not_retry(), 0),
        }
    }

    /// The Identify data that a controller reads of namespaces and controllers; the status of an invalid field.
    pub(super) fn identify(
        &self,
        controller: u16,
        can_manage: bool,
        command: &Command,
    ) -> Result<Structure, Status> {
        let number = command.namespace();
        let active = self.active(controller, number);
        let is_zoned = |one: &&Allocated| one.media.zones.is_some();
        let of_zones = (command.word(11) >> 24) as u8 == zone::COMMAND_SET;
        match command.word(10) as u8 {
            0 if number == ALL_NAMESPACES && can_manage => Ok(self.common()),
            0 => self.data(number, active),
            2 => Self::list(
                number,
                self.namespaces.iter().filter(|(_, one)| one.attached.contains(&controller)),
            ),
            3 if self.is_zoned() => match active {
                Some(one) if is_zoned(&one) => Ok(identify::write_descriptors(zone::COMMAND_SET)),
                Some(_) => Ok(identify::write_descriptors(0)),
                None => failed(Status::INVALID_FIELD),
            },
            5 if of_zones => match active.and_then(|one| one.media.zones.as_ref()).map(Zones::identity) {
                Some(zones) => Ok(zones.write()),
                None => failed(Status::INVALID_FIELD),
            },
            6 if of_zones && self.is_zoned() => {
                let mut structure = [0; STRUCTURE_BYTES];
                structure[0] = APPEND_PAGES_SHIFT;
                Ok(structure)
            }
            0x10..=0x13 if !can_manage => failed(Status::INVALID_FIELD),
            0x10 => Self::list(number, self.namespaces.iter()),
            0x11 => self.data(number, self.namespaces.get(&number)),
            what @ (0x12 | 0x13) => {
                let from = (command.word(10) >> 16) as u16;
                let controllers = match (what, self.namespaces.get(&number)) {
                    (0x12, None) => return failed(Status::INVALID_FIELD),
                    (0x12, Some(one)) => &one.attached,
                    _ => &self.controllers,
                };
                let list: Vec<u16> = controllers.range(from..).copied().collect();
                Ok(namespace::write_controllers(&list))
            }
            _ => failed(Status::INVALID_FIELD),
        }
    }

    /// What all namespaces have in common: LBA formats.
    fn common(&self) -> Structure {
        let mut structure = [0; STRUCTURE_BYTES];
        namespace::write_formats(&mut structure, &self.block_shifts, 0);
        structure
    }

    /// The Identify data of a namespace, zeros if there is none.
    fn data(&self, number: u32, found: Option<&Allocated>) -> Result<Structure, Status> {
        if !(1..=NAMESPACES_MAX).contains(&number) {
            return failed(Status::INVALID_NAMESPACE);
        }
        let Some(Allocated { media, .. }) = found else { return Ok([0; STRUCTURE_BYTES]) };
        let mut structure = media.namespace.write();
        let used = self.block_shifts.iter().position(|shift| *shift == media.namespace.block_shift);
        namespace::write_formats(&mut structure, &self.block_shifts, used.unwrap_or_default() as u8);
        Ok(structure)
    }

    /// A list of the NSIDs greater than one.
    fn list<'a>(
        after: u32,
        namespaces: impl Iterator<Item = (&'a u32, &'a Allocated)>,
    ) -> Result<Structure, Status> {
        if after >= ALL_NAMESPACES - 1 {
            return failed(Status::INVALID_NAMESPACE);
        }
        let mut structure = [0; STRUCTURE_BYTES];
        let numbers = namespaces.map(|(number, _)| *number).filter(|number| *number > after);
        for (into, number) in structure.chunks_exact_mut(4).zip(numbers) {
            into.copy_from_slice(&number.to_le_bytes());
        }
        Ok(structure)
    }

    /// Executes Namespace Management. `read` reads the command's data. Returns the NSID of a new namespace.
    pub(super) fn manage(
        &mut self,
        command: &Command,
        read: impl FnOnce() -> Result<Structure, Status>,
    ) -> Result<u32, Status> {
        let number = command.namespace();
        match command.word(10) & 0xf {
            CREATE if number != 0 => failed(Status::INVALID_FIELD),
            // Only the NVM command set.
            CREATE if command.word(11) >> 24 != 0 => failed(Status::COMMAND_SET_NOT_SUPPORTED),
            CREATE => self.create(&CreateFields::read(&read()?)),
            DELETE if number == ALL_NAMESPACES => {
                self.unallocated_bytes = self.capacity_bytes();
                self.namespaces.clear();
                Ok(0)
            }
            DELETE => match self.namespaces.remove(&number) {
                Some(one) => {
                    self.unallocated_bytes += u128::from(one.media.namespace.bytes());
                    Ok(0)
                }
                None => failed(Status::INVALID_NAMESPACE),
            },
            _ => failed(Status::INVALID_FIELD),
        }
    }

    /// Creates a namespace that is attached to no controller.
    fn create(&mut self, fields: &CreateFields) -> Result<u32, Status> {
        let CreateFields { blocks, capacity_blocks, format, protection, is_shared } = *fields;
        let block_shift = match self.block_shifts.get(usize::from(format)) {
            Some(shift) if protection == 0 => *shift,
            _ => return failed(Status::INVALID_FORMAT),
        };
        match capacity_blocks {
            0 => return failed(Status::INVALID_FIELD),
            _ if capacity_blocks > blocks => return failed(Status::INVALID_FIELD),
            _ if capacity_blocks < blocks => return failed(Status::NO_THIN_PROVISIONING),
            _ => {}
        }
        let bytes = u128::from(blocks) << block_shift;
        if bytes > self.unallocated_bytes {
            return failed(Status::NAMESPACE_CAPACITY);
        }
        let Some(free) = (1..=NAMESPACES_MAX).find(|number| !self.namespaces.contains_key(number)) else {
            return failed(Status::NAMESPACE_UNAVAILABLE);
        };
        self.unallocated_bytes -= bytes;
        let media = Media::new(new_namespace(blocks, block_shift, is_shared));
        self.namespaces.insert(free, Allocated { media, attached: BTreeSet::new() });
        Ok(free)
    }

    /// Executes Namespace Attachment. `read` reads the command's data. All controllers are checked before anything is changed.
    pub(super) fn change_attachment(
        &mut self,
        command: &Command,
        read: impl FnOnce() -> Result<Structure, Status>,
    ) -> Result<(), Status> {
        let number = command.namespace();
        if !(1..=NAMESPACES_MAX).contains(&number) {
            return failed(Status::INVALID_NAMESPACE);
        }
        let Some(one) = self.namespaces.get_mut(&number) else { return failed(Status::INVALID_FIELD) };
        let list = read()?;
        let named: Vec<u16> = namespace::controllers(&list).collect();
        let count = usize::from(u16::from_le_bytes([list[0], list[1]]));
        let is_increasing = named.windows(2).all(|two| two[0] < two[1]);
        let exist = named.iter().all(|controller| self.controllers.contains(controller));
        if !(1..=CONTROLLERS_MAX).contains(&count) || !is_increasing || !exist {
            return failed(Status::INVALID_CONTROLLER_LIST);
        }
        match command.word(10) & 0xf {
            ATTACH if named.iter().any(|controller| one.attached.contains(controller)) => {
                failed(Status::NAMESPACE_ATTACHED)
            }
            ATTACH if !one.media.namespace.is_shared && one.attached.len() + named.len() > 1 => {
                failed(Status::NAMESPACE_PRIVATE)
            }
            ATTACH => {
                one.attached.extend(named);
                Ok(())
            }
            DETACH if !named.iter().all(|controller| one.attached.contains(controller)) => {
                failed(Status::NAMESPACE_NOT_ATTACHED)
            }
            DETACH => {
                one.attached.retain(|controller| !named.contains(controller));
                Ok(())
            }
            _ => failed(Status::INVALID_FIELD),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::super::{Machine, ZoneOptions};
    use super::*;
    use crate::controller_error::NvmeError;
    use crate::spec::command::Identify;
    use dma::MemoryAddress;

    /// Has a controller execute an admin command that its driver would not send. Returns the NSID of a new namespace.
    fn send(
        machine: &mut Machine,
        data: &Structure,
        command: impl FnOnce([u64; 2]) -> Command,
    ) -> Result<u64, Status> {
        let buffer = machine.controller.allocate(4096).unwrap();
        machine.ram.write(MemoryAddress(buffer.memory().0), data).unwrap();
        let at = buffer.piece(0, 4096).unwrap().at.0;
        let sent = machine.controller.execute_admin("sending", command([at, 0]));
        machine.controller.free(buffer).unwrap();
        match sent {
            Ok(done) => Ok(done.result),
            Err(NvmeError::Refused { status, .. }) => Err(status),
            Err(error) => panic!("{error}"),
        }
    }

    const NOTHING: Structure = [0; STRUCTURE_BYTES];
    const FIELDS: CreateFields =
        CreateFields { blocks: 8, capacity_blocks: 8, format: 0, protection: 0, is_shared: false };

    fn create(machine: &mut Machine, fields: CreateFields) -> Result<u64, Status> {
        send(machine, &fields.write(), Command::create_namespace)
    }

    fn attach(machine: &mut Machine, namespace: u32, list: &Structure) -> Result<u64, Status> {
        send(machine, list, |data| Command::attach_namespace(namespace, data))
    }

    fn detach(machine: &mut Machine, namespace: u32, list: &Structure) -> Result<u64, Status> {
        send(machine, list, |data| Command::detach_namespace(namespace, data))
    }

    fn two_paths() -> [Machine; 2] {
        let machines = Machine::builder(64, 9).unallocated_bytes(64 << 9).open_paths(2).unwrap();
        machines.try_into().unwrap()
    }

    /// A command with other bits in dword 10 or 11.
    fn with_words(mut command: Command, low: u64, high: u64) -> Command {
        command.0[5] |= low | high << 32;
        command
    }

    #[test]
    fn invalid_creations_have_their_statuses() {
        let [mut machine, _other] = two_paths();
        let invalid = |change: fn(&mut CreateFields), status| {
            let mut fields = FIELDS;
            change(&mut fields);
            (fields, status)
        };
        for (fields, status) in [
            invalid(|fields| fields.format = 2, Status::INVALID_FORMAT),
            invalid(|fields| fields.format = 63, Status::INVALID_FORMAT),
            invalid(|fields| fields.protection = 1, Status::INVALID_FORMAT),
            invalid(|fields| fields.capacity_blocks = 7, Status::NO_THIN_PROVISIONING),
            invalid(|fields| fields.capacity_blocks = 9, Status::INVALID_FIELD),
            invalid(|fields| (fields.blocks, fields.capacity_blocks) = (0, 0), Status::INVALID_FIELD),
            invalid(|fields| (fields.blocks, fields.capacity_blocks) = (65, 65), Status::NAMESPACE_CAPACITY),
            invalid(
                |fields| (fields.blocks, fields.capacity_blocks) = (u64::MAX, u64::MAX),
                Status::NAMESPACE_CAPACITY,
            ),
        ] {
            assert_eq!(create(&mut machine, fields), Err(status.with_do_not_retry()), "{fields:?}");
        }
        let data = FIELDS.write();
        for (low, high, namespace, status) in [
            (2, 0, 0, Status::INVALID_FIELD),
            (0, 2 << 24, 0, Status::COMMAND_SET_NOT_SUPPORTED),
            (0, 0, 3, Status::INVALID_FIELD),
        ] {
            let sent = send(&mut machine, &data, |data| {
                let mut command = with_words(Command::create_namespace(data), low, high);
                command.0[0] |= u64::from(namespace as u32) << 32;
                command
            });
            assert_eq!(sent, Err(status.with_do_not_retry()));
        }
        // Data that are mapped nowhere.
        let nowhere = send(&mut machine, &NOTHING, |_| Command::create_namespace([0x7000_0000_0000, 0]));
        assert_eq!(nowhere, Err(Status::DATA_TRANSFER));
        assert_eq!(machine.controller.allocated_namespaces().unwrap(), [1]);
    }

    #[test]
    fn namespaces_end_with_the_identifiers_and_the_capacity() {
        let [mut machine, _other] = two_paths();
        let one = CreateFields { blocks: 1, capacity_blocks: 1, ..FIELDS };
        for number in 2..=16 {
            assert_eq!(create(&mut machine, one), Ok(number));
        }
        assert_eq!(create(&mut machine, one), Err(Status::NAMESPACE_UNAVAILABLE.with_do_not_retry()));
        let delete =
            |machine: &mut Machine, number| send(machine, &NOTHING, |_| Command::delete_namespace(number));
        assert_eq!(delete(&mut machine, 7), Ok(0));
        assert_eq!(delete(&mut machine, 7), Err(Status::INVALID_NAMESPACE.with_do_not_retry()));
        assert_eq!(create(&mut machine, one), Ok(7), "the lowest that is free");
        assert_eq!(delete(&mut machine, ALL_NAMESPACES), Ok(0));
        machine.controller.refresh_namespaces().unwrap();
        assert_eq!(machine.controller.identity().unallocated_bytes, 128 << 9);
        assert_eq!((machine.controller.namespaces(), machine.emulated.disk().len()), (&[][..], 0));
    }

    #[test]
    fn invalid_attachments_have_their_statuses() {
        let [mut machine, _other] = two_paths();
        assert_eq!(create(&mut machine, FIELDS), Ok(2));
        let list = namespace::write_controllers;
        let mut longer = list(&[0]);
        longer[..2].copy_from_slice(&2048_u16.to_le_bytes());
        for (namespace, list, status) in [
            (0, list(&[0]), Status::INVALID_NAMESPACE),
            (17, list(&[0]), Status::INVALID_NAMESPACE),
            (ALL_NAMESPACES, list(&[0]), Status::INVALID_NAMESPACE),
            (3, list(&[0]), Status::INVALID_FIELD),
            (2, list(&[]), Status::INVALID_CONTROLLER_LIST),
            (2, list(&[0, 2]), Status::INVALID_CONTROLLER_LIST),
            (2, list(&[1, 0]), Status::INVALID_CONTROLLER_LIST),
            (2, list(&[0, 0]), Status::INVALID_CONTROLLER_LIST),
            (2, longer, Status::INVALID_CONTROLLER_LIST),
            (2, list(&[0, 1]), Status::NAMESPACE_PRIVATE),
            (1, list(&[0]), Status::NAMESPACE_ATTACHED),
        ] {
            assert_eq!(
                attach(&mut machine, namespace, &list),
                Err(status.with_do_not_retry()),
                "{namespace}"
            );
        }
        assert_eq!(
            detach(&mut machine, 2, &list(&[0])),
            Err(Status::NAMESPACE_NOT_ATTACHED.with_do_not_retry())
        );
        assert_eq!(attach(&mut machine, 2, &list(&[1])), Ok(0));
        assert_eq!(attach(&mut machine, 2, &list(&[0])), Err(Status::NAMESPACE_PRIVATE.with_do_not_retry()));
        let both = detach(&mut machine, 2, &list(&[0, 1]));
        assert_eq!(both, Err(Status::NAMESPACE_NOT_ATTACHED.with_do_not_retry()));
        assert_eq!(machine.controller.attached_controllers(2).unwrap(), [1], "all or nothing");
        let reserved =
            send(&mut machine, &list(&[1]), |data| with_words(Command::detach_namespace(2, data), 2, 0));
        assert_eq!(reserved, Err(Status::INVALID_FIELD.with_do_not_retry()));
    }

    #[test]
    fn a_controller_without_management_refuses_all_of_it() {
        let prepare = |emulated: &super::super::Emulated| {
            emulated.change_controller(|identity| identity.can_manage_namespaces = false);
        };
        let mut machine = Machine::builder(64, 9).open_prepared(prepare).unwrap();
        let opcode = Err(Status::INVALID_OPCODE.with_do_not_retry());
        assert_eq!(create(&mut machine, FIELDS), opcode);
        assert_eq!(attach(&mut machine, 1, &namespace::write_controllers(&[0])), opcode);
        for what in [
            Identify::AllocatedAfter(0),
            Identify::Allocated(1),
            Identify::AttachedControllers { namespace: 1, from: 0 },
            Identify::ControllersFrom(0),
        ] {
            assert!(machine.controller.identify(what).is_err(), "{what:?}");
        }
    }

    #[test]
    fn lists_begin_where_they_are_asked_to() {
        let [mut machine, _other] = two_paths();
        for _ in 0..3 {
            create(&mut machine, FIELDS).unwrap();
        }
        let mut numbers = |what| {
            let page = machine.controller.identify(what).ok()?;
            Some(identify::active_namespaces(&page).collect::<Vec<u32>>())
        };
        assert_eq!(numbers(Identify::AllocatedAfter(2)), Some(vec![3, 4]));
        assert_eq!(numbers(Identify::AllocatedAfter(4)), Some(vec![]));
        assert_eq!(numbers(Identify::AllocatedAfter(u32::MAX - 1)), None);
        assert_eq!(numbers(Identify::NamespacesAfter(0)), Some(vec![1]));
        let mut controllers = |what| {
            let page = machine.controller.identify(what).ok()?;
            Some(namespace::controllers(&page).collect::<Vec<u16>>())
        };
        assert_eq!(controllers(Identify::ControllersFrom(0)), Some(vec![0, 1]));
        assert_eq!(controllers(Identify::ControllersFrom(1)), Some(vec![1]));
        assert_eq!(controllers(Identify::AttachedControllers { namespace: 1, from: 1 }), Some(vec![1]));
        assert_eq!(controllers(Identify::AttachedControllers { namespace: 5, from: 0 }), None);
        drop(_other);
        let left = machine.controller.subsystem_controllers().unwrap();
        assert_eq!((left, machine.controller.attached_controllers(1).unwrap()), (vec![0], vec![0]));
    }

    #[test]
    fn a_zoned_controller_has_namespaces_without_zones_too() {
        let builder = Machine::builder(64, 9).zones(ZoneOptions::whole(16)).unallocated_bytes(64 << 9);
        let mut machine = builder.open().unwrap();
        assert_eq!(create(&mut machine, FIELDS), Ok(2));
        machine.controller.attach_namespace(2, &[0]).unwrap();
        let zones: Vec<bool> =
            machine.controller.namespaces().iter().map(|one| one.zones.is_some()).collect();
        assert_eq!(zones, [true, false]);
    }
}
