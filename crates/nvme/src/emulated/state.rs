//! The emulated controller's state: registers, queues, and admin commands.

use super::Fault;
use super::maintenance::Maintenance;
use super::media::{TRANSFER_PAGES_SHIFT, data_pieces, dwords, first_block, read_memory, write_memory};
use super::subsystem::{NAMESPACES_MAX, Subsystem};
use super::zones::Zones;
use crate::spec::command::{COMMAND_BYTES, Command, admin};
use crate::spec::completion::{COMPLETION_BYTES, Completion};
use crate::spec::error_log::ErrorEntry;
use crate::spec::identify::{self, STRUCTURE_BYTES, Structure};
use crate::spec::registers::{self as register, Capabilities, Configuration};
use crate::spec::status::Status;
use dma::{BusAddress, SoftwareAdapter};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most I/O queues of each kind.
pub const QUEUES_MAX: u16 = 16;
const QUEUE_ENTRIES_MAX: u64 = 1024;
/// Most commands executed per doorbell: all that a queue can hold.
const COMMANDS_MAX: u64 = QUEUE_ENTRIES_MAX;
const ERROR_LOG_ENTRIES: usize = 8;
/// Log page identifier of the error log.
const LOG_ERRORS: u8 = 1;

pub(super) struct State {
    /// Its namespaces, and the other controllers that may have them too.
    pub(super) subsystem: Arc<Mutex<Subsystem>>,
    /// Its identifier in the subsystem (CNTLID).
    pub(super) controller: u16,
    /// What Identify Controller reports, but for the serial number of another controller.
    pub(super) identity: identify::Controller,
    pub(super) maintenance: Maintenance,
    pub(super) configuration: Configuration,
    pub(super) status: u32,
    pub(super) admin_entries: u32,
    pub(super) admin_at: [u64; 2],
    submissions: BTreeMap<u16, Submissions>,
    completions: BTreeMap<u16, Completions>,
    pub(super) faults: BTreeMap<u64, Fault>,
    /// Faults by a command's starting LBA.
    pub(super) block_faults: BTreeMap<u64, Fault>,
    pub(super) is_another: bool,
    /// Commands with [`Fault::Stuck`], which complete when they are aborted.
    stuck: Vec<(Origin, Command)>,
    /// The error log, newest first.
    errors: VecDeque<ErrorEntry>,
    /// I/O commands fetched so far.
    pub(super) commands: u64,
    pub(super) doorbells: u64,
    pub(super) interrupt_handler: Option<Box<dyn Fn(u16) + Send>>,
    pub(super) is_gone: bool,
}

/// The queue and identifier that a completion reports.
#[derive(Debug, Clone, Copy)]
struct Origin {
    queue: u16,
    identifier: u16,
    /// The completion queue.
    completions: u16,
}

#[derive(Debug, Clone, Copy)]
struct Submissions {
    at: u64,
    entries: u16,
    head: u16,
    tail: u16,
    completions: u16,
}

#[derive(Debug, Clone, Copy)]
struct Completions {
    at: u64,
    entries: u16,
    tail: u16,
    head: u16,
    phase: bool,
    vector: Option<u16>,
}

const READY: u32 = 1;
const FATAL: u32 = 1 << 1;
const SHUT_DOWN: u32 = 2 << 2;

impl State {
    /// The CAP register: contiguous queues required, a timeout of two seconds, the NVM command set and perhaps further ones, pages of 4 KiB only.
    pub(super) fn capabilities(&self) -> Capabilities {
        let further = u64::from(self.subsystem().is_zoned()) << 43;
        Capabilities((QUEUE_ENTRIES_MAX - 1) | 1 << 16 | 4 << 24 | 1 << 37 | further)
    }

    /// A disabled controller of a subsystem, to which it is added.
    pub(super) fn new(subsystem: Arc<Mutex<Subsystem>>) -> Self {
        let identity = controller();
        let controller = lock(&subsystem).add_controller();
        Self {
            controller,
            subsystem,
            maintenance: Maintenance::new(&identity.firmware),
            identity,
            configuration: Configuration::default(),
            status: 0,
            admin_entries: 0,
            admin_at: [0; 2],
            submissions: BTreeMap::new(),
            completions: BTreeMap::new(),
            faults: BTreeMap::new(),
            block_faults: BTreeMap::new(),
            is_another: false,
            stuck: Vec::new(),
            errors: VecDeque::new(),
            commands: 0,
            doorbells: 0,
            interrupt_handler: None,
            is_gone: false,
        }
    }

    /// The subsystem, locked.
    pub(super) fn subsystem(&self) -> MutexGuard<'_, Subsystem> {
        lock(&self.subsystem)
    }

    /// Writes the CC register, which enables, disables or shuts down the controller.
    pub(super) fn write_configuration(&mut self, configuration: Configuration) {
        let was_enabled = self.configuration.is_enabled();
        self.configuration = configuration;
        if configuration.is_shutting_down() {
            self.subsystem().all_media_mut().for_each(|media| media.flush(self.controller));
            self.status |= SHUT_DOWN;
        }
        match (was_enabled, configuration.is_enabled()) {
            (false, true) => self.enable(),
            (true, false) => self.clear_state(),
            _ => {}
        }
    }

    /// Loses power and has it again: the write cache is lost, and the controller is disabled.
    pub(super) fn lose_power(&mut self) {
        self.configuration = Configuration::default();
        self.clear_state();
        self.subsystem().all_media_mut().for_each(|media| media.lose_cache(self.controller));
    }

    /// Resets registers and queues as at power-on. The disk and the logs stay.
    fn clear_state(&mut self) {
        self.submissions.clear();
        self.completions.clear();
        self.stuck.clear();
        self.status = 0;
        self.maintenance.reset();
        self.subsystem().all_media_mut().filter_map(|media| media.zones.as_mut()).for_each(Zones::close_all);
    }

    /// Creates the admin queues and sets CSTS.RDY.
    fn enable(&mut self) {
        let entries = [0, 16].map(|bit| (self.admin_entries >> bit & 0xfff) as u16 + 1);
        let [submissions, completions] = self.admin_at;
        let queue = Submissions { at: submissions, entries: entries[0], head: 0, tail: 0, completions: 0 };
        self.submissions.insert(0, queue);
        self.completions.insert(0, Completions::new(completions, entries[1], Some(0)));
        self.status = READY;
    }

    /// Whether the controller is enabled, and neither failed nor removed.
    fn is_working(&self) -> bool {
        self.status & (READY | FATAL) == READY && !self.is_gone
    }

    /// Writes a doorbell register and executes the commands that were submitted.
    pub(super) fn write_doorbell(&mut self, adapter: &SoftwareAdapter, at: u64, value: u32) {
        self.doorbells += 1;
        let number = (at - register::DOORBELLS) / self.capabilities().doorbell_stride();
        let value = value as u16;
        let Some(queue) = u16::try_from(number / 2).ok().filter(|_| self.is_working()) else { return };
        if number % 2 == 1 {
            if let Some(known) = self.completions.get_mut(&queue).filter(|known| value < known.entries) {
                known.head = value;
            }
        } else if let Some(known) = self.submissions.get_mut(&queue).filter(|known| value < known.entries) {
            known.tail = value;
        }
        // A completion queue head has moved: any submission queue may have been waiting for that.
        let queues: Vec<u16> = self.submissions.keys().copied().collect();
        for queue in queues {
            for _ in 0..COMMANDS_MAX {
                if !self.is_working() || !self.process_next_command(adapter, queue) {
                    break;
                }
            }
        }
    }

    /// Executes the queue's next command. False if there is none or the completion queue is full.
    fn process_next_command(&mut self, adapter: &SoftwareAdapter, queue: u16) -> bool {
        let Some(known) = self.submissions.get(&queue).copied().filter(|known| known.head != known.tail)
        else {
            return false;
        };
        if self.completions.get(&known.completions).is_none_or(Completions::is_full) {
            return false;
        }
        let mut bytes = [0; COMMAND_BYTES];
        if adapter
            .read(BusAddress(known.at.wrapping_add(u64::from(known.head) * COMMAND_BYTES as u64)), &mut bytes)
            .is_err()
        {
            self.status |= FATAL;
            return false;
        }
        let head = if known.head + 1 == known.entries { 0 } else { known.head + 1 };
        if let Some(known) = self.submissions.get_mut(&queue) {
            known.head = head;
        }
        let command = Command(words(&bytes));
        let origin = Origin { queue, identifier: command.identifier(), completions: known.completions };
        if queue == 0 {
            let (status, result) = self.execute_admin(adapter, &command);
            return self.complete(adapter, origin, status, result.into(), &command);
        }
        let fault = self.next_fault().or(self.block_faults.get(&first_block(&command)).copied());
        self.execute(adapter, origin, &command, fault)
    }

    /// Executes an I/O command, with the fault injected into it.
    fn execute(
        &mut self,
        adapter: &SoftwareAdapter,
        origin: Origin,
        command: &Command,
        fault: Option<Fault>,
    ) -> bool {
        let (status, result) = match fault {
            Some(Fault::Gone) => {
                self.is_gone = true;
                return false;
            }
            Some(Fault::Fatal) => {
                self.status |= FATAL;
                return false;
            }
            Some(Fault::LinkReset) => {
                self.configuration = Configuration::default();
                self.clear_state();
                return false;
            }
            Some(Fault::Stuck) => {
                self.stuck.push((origin, *command));
                return true;
            }
            Some(Fault::Status(status)) => (status, 0),
            _ => self.subsystem().execute(adapter, &self.identity, self.controller, command),
        };
        match fault {
            Some(Fault::LostCompletion) => true,
            Some(Fault::WrongIdentifier) => {
                let origin = Origin { identifier: origin.identifier ^ 0x8000, ..origin };
                self.complete(adapter, origin, status, result, command)
            }
            Some(Fault::WrongPhase) => self.write_completion(adapter, origin, |phase, head| {
                completion(origin, status, result, head, !phase)
            }),
            Some(Fault::Twice) => {
                self.complete(adapter, origin, status, result, command)
                    && self.complete(adapter, origin, status, result, command)
            }
            _ => self.complete(adapter, origin, status, result, command),
        }
    }

    /// The fault injected into the next I/O command; counts the command.
    fn next_fault(&mut self) -> Option<Fault> {
        let number = self.commands;
        self.commands += 1;
        self.faults.remove(&number)
    }

    /// Writes a completion, and logs an error status.
    fn complete(
        &mut self,
        adapter: &SoftwareAdapter,
        origin: Origin,
        status: Status,
        result: u64,
        command: &Command,
    ) -> bool {
        if !status.is_success() {
            let count = self.errors.front().map_or(0, |newest| newest.count) + 1;
            self.errors.push_front(ErrorEntry {
                count,
                queue: origin.queue,
                identifier: origin.identifier,
                status,
                block: first_block(command),
                namespace: command.namespace(),
            });
            self.errors.truncate(ERROR_LOG_ENTRIES);
        }
        self.write_completion(adapter, origin, |phase, head| completion(origin, status, result, head, phase))
    }

    /// Writes a completion to its queue and raises its interrupt. Returns `false` if the queue is full.
    fn write_completion(
        &mut self,
        adapter: &SoftwareAdapter,
        origin: Origin,
        completion: impl FnOnce(bool, u16) -> Completion,
    ) -> bool {
        let Some(known) = self.completions.get_mut(&origin.completions).filter(|known| !known.is_full())
        else {
            return false;
        };
        // The current submission queue head.
        let head = self.submissions.get(&origin.queue).map_or(0, |queue| queue.head);
        let completion = completion(known.phase, head);
        let at = known.at.wrapping_add(u64::from(known.tail) * COMPLETION_BYTES as u64);
        known.tail += 1;
        if known.tail == known.entries {
            (known.tail, known.phase) = (0, !known.phase);
        }
        // Write the word with the phase tag last.
        let written = [0, 1].map(|word| {
            let at = BusAddress(at.wrapping_add(8 * word));
            adapter.write(at, &completion.0[word as usize].to_le_bytes()).is_ok()
        });
        if written != [true; 2] {
            self.status |= FATAL;
        }
        if let (Some(interrupt_handler), Some(vector)) = (&self.interrupt_handler, known.vector) {
            interrupt_handler(vector);
        }
        written == [true; 2]
    }

    /// Executes an admin command. Returns its status and result.
    fn execute_admin(&mut self, adapter: &SoftwareAdapter, command: &Command) -> (Status, u32) {
        let [low, high] = [command.word(10) as u16, (command.word(10) >> 16) as u16];
        self.maintenance.opcodes.push(command.opcode());
        let status = match command.opcode() {
            admin::IDENTIFY => self.identify(adapter, command),
            admin::CREATE_COMPLETION_QUEUE => self.create_completions(command, low, high),
            admin::CREATE_SUBMISSION_QUEUE => self.create_submissions(command, low, high),
            admin::DELETE_SUBMISSION_QUEUE if low != 0 && self.submissions.remove(&low).is_some() => {
                self.stuck.retain(|(stuck, _)| stuck.queue != low);
                Status::SUCCESS
            }
            admin::DELETE_SUBMISSION_QUEUE => Status::INVALID_QUEUE,
            admin::DELETE_COMPLETION_QUEUE => {
                let is_used = self.submissions.values().any(|queue| queue.completions == low);
                match self.completions.get(&low) {
                    Some(_) if is_used => Status::of(1, 0x0c),
                    Some(_) if low != 0 => {
                        self.completions.remove(&low);
                        Status::SUCCESS
                    }
                    _ => Status::INVALID_QUEUE,
                }
            }
            admin::SET_FEATURES if command.word(10) as u8 == 7 => {
                let granted = |wanted: u32| u32::from(QUEUES_MAX - 1).min(wanted);
                let [submissions, completions] = [0, 16].map(|bit| granted(command.word(11) >> bit & 0xffff));
                return (Status::SUCCESS, submissions | completions << 16);
            }
            admin::GET_LOG_PAGE => self.log_page(adapter, command),
            admin::SELF_TEST => self.maintenance.self_test(&self.identity, command),
            admin::FIRMWARE_DOWNLOAD => self.download_firmware(adapter, command),
            admin::FIRMWARE_COMMIT => self.maintenance.commit(&self.identity, command),
            admin::NAMESPACE_MANAGEMENT => match self.manage_namespaces(adapter, command) {
                Ok(number) => return (Status::SUCCESS, number),
                Err(status) => status,
            },
            admin::NAMESPACE_ATTACHMENT => self.change_attachment(adapter, command),
            admin::ABORT => return (Status::SUCCESS, u32::from(!self.abort(adapter, low, high))),
            _ => Status::INVALID_OPCODE.with_do_not_retry(),
        };
        (status, 0)
    }

    /// Aborts a stuck command. Any other command has already completed.
    fn abort(&mut self, adapter: &SoftwareAdapter, queue: u16, identifier: u16) -> bool {
        let is_it = |(stuck, _): &(Origin, Command)| (stuck.queue, stuck.identifier) == (queue, identifier);
        let Some(place) = self.stuck.iter().position(is_it) else { return false };
        let (origin, command) = self.stuck.swap_remove(place);
        self.complete(adapter, origin, Status::ABORTED, 0, &command)
    }

    /// Executes Get Log Page. A page is cut to its end; what is beyond it reads as zero.
    fn log_page(&mut self, adapter: &SoftwareAdapter, command: &Command) -> Status {
        let bytes = (u64::from(command.word(10) >> 16) + 1) * 4;
        let page = match command.word(10) as u8 {
            LOG_ERRORS => Some(self.errors.iter().flat_map(ErrorEntry::write).collect()),
            identifier => self.maintenance.log_page(identifier),
        };
        let Some(mut page) = page.filter(|_| command.word(11) == 0 && bytes <= STRUCTURE_BYTES as u64) else {
            return Status::INVALID_FIELD.with_do_not_retry();
        };
        page.resize(bytes as usize, 0);
        match data_pieces(adapter, command, bytes) {
            Ok(pieces) => write_memory(adapter, &pieces, &page),
            Err(status) => status,
        }
    }

    /// Executes Firmware Image Download.
    fn download_firmware(&mut self, adapter: &SoftwareAdapter, command: &Command) -> Status {
        let part = Maintenance::download_bytes(&self.identity, command)
            .and_then(|bytes| data_pieces(adapter, command, bytes as u64))
            .and_then(|pieces| read_memory(adapter, &pieces));
        match part {
            Ok(part) => self.maintenance.download(command, part),
            Err(status) => status,
        }
    }

    /// Executes Namespace Management. Returns the NSID of a new namespace.
    fn manage_namespaces(&self, adapter: &SoftwareAdapter, command: &Command) -> Result<u32, Status> {
        if !self.identity.can_manage_namespaces {
            return Err(Status::INVALID_OPCODE.with_do_not_retry());
        }
        self.subsystem().manage(command, || read_structure(adapter, command))
    }

    /// Executes Namespace Attachment.
    fn change_attachment(&self, adapter: &SoftwareAdapter, command: &Command) -> Status {
        if !self.identity.can_manage_namespaces {
            return Status::INVALID_OPCODE.with_do_not_retry();
        }
        let changed = self.subsystem().change_attachment(command, || read_structure(adapter, command));
        changed.err().unwrap_or(Status::SUCCESS)
    }

    /// Executes Create I/O Completion Queue.
    fn create_completions(&mut self, command: &Command, queue: u16, entries_less_one: u16) -> Status {
        let is_number = (1..=QUEUES_MAX).contains(&queue) && !self.completions.contains_key(&queue);
        if let Some(status) = check_queue_fields(command, is_number, entries_less_one) {
            return status;
        }
        let vector = (command.word(11) >> 1 & 1 == 1).then_some((command.word(11) >> 16) as u16);
        self.completions.insert(queue, Completions::new(command.data()[0], entries_less_one + 1, vector));
        Status::SUCCESS
    }

    /// Executes Create I/O Submission Queue.
    fn create_submissions(&mut self, command: &Command, queue: u16, entries_less_one: u16) -> Status {
        let is_number = (1..=QUEUES_MAX).contains(&queue) && !self.submissions.contains_key(&queue);
        if let Some(status) = check_queue_fields(command, is_number, entries_less_one) {
            return status;
        }
        let completions = (command.word(11) >> 16) as u16;
        if completions == 0 || !self.completions.contains_key(&completions) {
            return Status::of(1, 0x00);
        }
        let (at, entries) = (command.data()[0], entries_less_one + 1);
        self.submissions.insert(queue, Submissions { at, entries, head: 0, tail: 0, completions });
        Status::SUCCESS
    }

    /// The Identify data: of the active firmware, and with another serial number if it is another controller.
    fn identity(&self) -> identify::Controller {
        let mut identity = self.identity.clone();
        if self.is_another {
            "another".clone_into(&mut identity.serial);
        }
        let slots = &self.maintenance.slots;
        identity.firmware = slots.revision(slots.active).unwrap_or_default().to_owned();
        identity.controller = self.controller;
        if identity.can_manage_namespaces {
            let subsystem = self.subsystem();
            identity.capacity_bytes = subsystem.capacity_bytes();
            identity.unallocated_bytes = subsystem.unallocated_bytes;
        }
        identity
    }

    /// Executes Identify.
    fn identify(&self, adapter: &SoftwareAdapter, command: &Command) -> Status {
        let can_manage = self.identity.can_manage_namespaces;
        let structure = match command.word(10) as u8 {
            1 => Ok(self.identity().write()),
            _ => self.subsystem().identify(self.controller, can_manage, command),
        };
        let pieces = || data_pieces(adapter, command, STRUCTURE_BYTES as u64);
        match structure.and_then(|structure| Ok((pieces()?, structure))) {
            Ok((pieces, structure)) => write_memory(adapter, &pieces, &structure),
            Err(status) => status,
        }
    }
}

/// A controller that is dropped is none of the subsystem's any more.
impl Drop for State {
    fn drop(&mut self) {
        self.subsystem().remove_controller(self.controller);
    }
}

/// A subsystem, locked. A test that panicked elsewhere poisons the lock; its state is still worth reading.
fn lock(subsystem: &Mutex<Subsystem>) -> MutexGuard<'_, Subsystem> {
    subsystem.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Completions {
    /// An empty completion queue.
    fn new(at: u64, entries: u16, vector: Option<u16>) -> Self {
        Self { at, entries, tail: 0, head: 0, phase: true, vector }
    }

    /// Whether it has no free entry.
    fn is_full(&self) -> bool {
        (self.tail + 1) % self.entries == self.head
    }
}

/// The completion of a command.
fn completion(origin: Origin, status: Status, result: u64, head: u16, phase: bool) -> Completion {
    Completion::new(origin.identifier, status, result, origin.queue, head, phase)
}

/// The structure that a command's data are.
fn read_structure(adapter: &SoftwareAdapter, command: &Command) -> Result<Structure, Status> {
    let bytes = data_pieces(adapter, command, STRUCTURE_BYTES as u64)
        .and_then(|pieces| read_memory(adapter, &pieces))?;
    bytes.try_into().map_err(|_| Status::DATA_TRANSFER)
}

/// The Identify data of a new controller.
fn controller() -> identify::Controller {
    identify::Controller {
        vendor: 0x1b36,
        serial: "emulated".to_owned(),
        model: "iotoll emulated controller".to_owned(),
        firmware: "1".to_owned(),
        transfer_pages_shift: TRANSFER_PAGES_SHIFT,
        namespaces_max: NAMESPACES_MAX,
        allocated_max: 0,
        controller: 0,
        can_manage_namespaces: true,
        capacity_bytes: 0,
        unallocated_bytes: 0,
        can_compare: true,
        can_deallocate: true,
        can_write_zeroes: true,
        can_verify: true,
        can_copy: true,
        copy_formats: 1,
        has_write_cache: true,
        has_sgl: true,
        aborts_max: 4,
        error_log_entries: ERROR_LOG_ENTRIES as u16,
        can_update_firmware: true,
        can_self_test: true,
        firmware_updates: identify::FirmwareUpdates {
            slots: 3,
            is_first_read_only: true,
            activates_without_reset: true,
            granularity: 2,
            activation_time_max: 10,
        },
        // 70 and 80 degrees Celsius.
        warning_temperature_k: 343,
        critical_temperature_k: 353,
        extended_test_minutes: 1,
        subsystem: "nqn.2026-11.example:iotoll-emulated".to_owned(),
    }
}

/// Checks a Create Queue command; the status of the first invalid field.
fn check_queue_fields(command: &Command, is_number: bool, entries_less_one: u16) -> Option<Status> {
    let is_size = (1..QUEUE_ENTRIES_MAX).contains(&entries_less_one.into());
    let is_contiguous = command.word(11) & 1 == 1 && command.data()[0] % 4096 == 0;
    match (is_number, is_size, is_contiguous) {
        (false, ..) => Some(Status::INVALID_QUEUE),
        (_, false, _) => Some(Status::of(1, 0x02)),
        (.., false) => Some(Status::INVALID_FIELD),
        _ => None,
    }
}

/// A command's bytes as 64-bit words.
fn words(bytes: &[u8; COMMAND_BYTES]) -> [u64; COMMAND_BYTES / 8] {
    std::array::from_fn(|place| {
        let [low, high, ..] = dwords(&bytes[8 * place..]);
        u64::from(low) | u64::from(high) << 32
    })
}
