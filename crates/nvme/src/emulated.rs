//! A controller in this process, for tests: it reaches memory through an IOMMU in software and in no other way, does what the
//! specification says as soon as a doorbell is rung, and fails where it is told to.

use crate::prp::Piece;
use crate::registers::Registers;
use crate::spec::command::{COMMAND_BYTES, Command, RANGE_BYTES, admin, nvm};
use crate::spec::completion::{COMPLETION_BYTES, Completion};
use crate::spec::identify::{self, Namespace, STRUCTURE_BYTES, Structure};
use crate::spec::registers::{self as register, Capabilities, Configuration};
use crate::spec::status::Status;
use crate::walk;
use dma::{Adapter, BusAddress};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What goes wrong with an I/O command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is done, and nobody is told.
    LostCompletion,
    /// It is not done, and completed with this.
    Status(Status),
    /// It is completed under an identifier that nobody has given.
    WrongIdentifier,
    /// The controller fails (`CSTS.CFS`), and does nothing until it is reset.
    Fatal,
    /// The adapter is pulled out.
    Gone,
}

/// The only namespace's number.
pub const NAMESPACE: u32 = 1;
/// I/O queues of either kind.
pub const QUEUES_MAX: u16 = 16;
const QUEUE_ENTRIES_MAX: u64 = 1024;
/// 128 pages of data: 512 KiB.
const TRANSFER_PAGES_SHIFT: u8 = 7;
/// Commands of a queue that are done for one doorbell at most: as many as it can have.
const COMMANDS_MAX: u64 = QUEUE_ENTRIES_MAX;

/// An emulated controller with one namespace.
pub struct Emulated {
    adapter: Adapter,
    state: Mutex<State>,
}

struct State {
    namespace: Namespace,
    disk: Vec<u8>,
    configuration: Configuration,
    status: u32,
    admin_entries: u32,
    admin_at: [u64; 2],
    submissions: BTreeMap<u16, Submissions>,
    completions: BTreeMap<u16, Completions>,
    faults: BTreeMap<u64, Fault>,
    /// I/O commands so far.
    commands: u64,
    is_gone: bool,
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
}

impl fmt::Debug for Emulated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Emulated").field("commands", &self.state().commands).finish_non_exhaustive()
    }
}

impl Emulated {
    /// A controller whose disk has so many blocks of `1 << block_shift` bytes, all zero, and which reaches memory by these hands.
    pub fn new(adapter: Adapter, blocks: u64, block_shift: u8) -> Self {
        let namespace = Namespace { blocks, block_shift, metadata_bytes: 0 };
        let state = State {
            namespace,
            disk: vec![0; namespace.bytes() as usize],
            configuration: Configuration::default(),
            status: 0,
            admin_entries: 0,
            admin_at: [0; 2],
            submissions: BTreeMap::new(),
            completions: BTreeMap::new(),
            faults: BTreeMap::new(),
            commands: 0,
            is_gone: false,
        };
        Self { adapter, state: Mutex::new(state) }
    }

    /// The I/O command with this number, counted from 0 since the beginning of time, fails so.
    pub fn fail(&self, number: u64, fault: Fault) {
        self.state().faults.insert(number, fault);
    }

    /// I/O commands that were begun.
    pub fn commands(&self) -> u64 {
        self.state().commands
    }

    /// What is on the disk.
    pub fn disk(&self) -> Vec<u8> {
        self.state().disk.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic elsewhere has left is looked at all the same: it is a test's.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn capabilities() -> Capabilities {
    // Contiguous queues, two seconds, the NVM command set, pages of 4 KiB alone.
    Capabilities((QUEUE_ENTRIES_MAX - 1) | 1 << 16 | 4 << 24 | 1 << 37)
}

impl Registers for Emulated {
    fn read_u32(&self, at: u64) -> u32 {
        let state = self.state();
        if state.is_gone {
            return u32::MAX;
        }
        match at {
            register::VERSION => 2 << 16,
            register::CONFIGURATION => state.configuration.0,
            register::STATUS => state.status,
            register::ADMIN_QUEUES => state.admin_entries,
            _ => 0,
        }
    }

    fn read_u64(&self, at: u64) -> u64 {
        let state = self.state();
        match at {
            _ if state.is_gone => u64::MAX,
            register::CAPABILITIES => capabilities().0,
            register::ADMIN_SUBMISSION_QUEUE => state.admin_at[0],
            register::ADMIN_COMPLETION_QUEUE => state.admin_at[1],
            _ => 0,
        }
    }

    fn write_u32(&self, at: u64, value: u32) {
        let mut state = self.state();
        if state.is_gone {
            return;
        }
        match at {
            register::CONFIGURATION => state.configure(Configuration(value)),
            register::ADMIN_QUEUES => state.admin_entries = value,
            at if at >= register::DOORBELLS => state.rung(&self.adapter, at, value),
            _ => {}
        }
    }

    fn write_u64(&self, at: u64, value: u64) {
        let mut state = self.state();
        match at {
            register::ADMIN_SUBMISSION_QUEUE => state.admin_at[0] = value,
            register::ADMIN_COMPLETION_QUEUE => state.admin_at[1] = value,
            _ => {}
        }
    }
}

const READY: u32 = 1;
const FATAL: u32 = 1 << 1;
const SHUT_DOWN: u32 = 2 << 2;

impl State {
    fn configure(&mut self, configuration: Configuration) {
        let was_enabled = self.configuration.is_enabled();
        self.configuration = configuration;
        if configuration.is_shutting_down() {
            self.status |= SHUT_DOWN;
        }
        match (was_enabled, configuration.is_enabled()) {
            (false, true) => self.enable(),
            (true, false) => {
                self.submissions.clear();
                self.completions.clear();
                self.status = 0;
            }
            _ => {}
        }
    }

    fn enable(&mut self) {
        let entries = [0, 16].map(|bit| (self.admin_entries >> bit & 0xfff) as u16 + 1);
        let [submissions, completions] = self.admin_at;
        let queue = Submissions { at: submissions, entries: entries[0], head: 0, tail: 0, completions: 0 };
        self.submissions.insert(0, queue);
        self.completions.insert(0, Completions::new(completions, entries[1]));
        self.status = READY;
    }

    fn is_working(&self) -> bool {
        self.status & (READY | FATAL) == READY && !self.is_gone
    }

    fn rung(&mut self, adapter: &Adapter, at: u64, value: u32) {
        let number = (at - register::DOORBELLS) / capabilities().doorbell_stride();
        let (queue, value) = ((number / 2) as u16, value as u16);
        if !self.is_working() {
            return;
        }
        if number % 2 == 1 {
            if let Some(known) = self.completions.get_mut(&queue).filter(|known| value < known.entries) {
                known.head = value;
            }
        } else if let Some(known) = self.submissions.get_mut(&queue).filter(|known| value < known.entries) {
            known.tail = value;
        }
        // Room for completions may let any queue go on.
        let queues: Vec<u16> = self.submissions.keys().copied().collect();
        for queue in queues {
            for _ in 0..COMMANDS_MAX {
                if !self.is_working() || !self.go_on(adapter, queue) {
                    break;
                }
            }
        }
    }

    /// Does the next command of a queue, if there is one and room for what comes of it.
    fn go_on(&mut self, adapter: &Adapter, queue: u16) -> bool {
        let Some(known) = self.submissions.get(&queue).copied().filter(|known| known.head != known.tail)
        else {
            return false;
        };
        if self.completions.get(&known.completions).is_none_or(Completions::is_full) {
            return false;
        }
        let mut bytes = [0; COMMAND_BYTES];
        if adapter
            .read(BusAddress(known.at + u64::from(known.head) * COMMAND_BYTES as u64), &mut bytes)
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
        let fault = if queue == 0 { None } else { self.next_fault() };
        let (status, result) = match fault {
            Some(Fault::Gone) => {
                self.is_gone = true;
                return false;
            }
            Some(Fault::Fatal) => {
                self.status |= FATAL;
                return false;
            }
            Some(Fault::Status(status)) => (status, 0),
            _ if queue == 0 => self.administer(adapter, &command),
            _ => (self.transfer(adapter, &command), 0),
        };
        if fault == Some(Fault::LostCompletion) {
            return true;
        }
        let wrong = if fault == Some(Fault::WrongIdentifier) { 0x8000 } else { 0 };
        self.complete(adapter, known.completions, |phase| {
            Completion::new(command.identifier() ^ wrong, status, result, queue, head, phase)
        })
    }

    fn next_fault(&mut self) -> Option<Fault> {
        let number = self.commands;
        self.commands += 1;
        self.faults.remove(&number)
    }

    fn complete(
        &mut self,
        adapter: &Adapter,
        queue: u16,
        completion: impl FnOnce(bool) -> Completion,
    ) -> bool {
        let Some(known) = self.completions.get_mut(&queue) else { return false };
        let completion = completion(known.phase);
        let at = known.at + u64::from(known.tail) * COMPLETION_BYTES as u64;
        known.tail += 1;
        if known.tail == known.entries {
            (known.tail, known.phase) = (0, !known.phase);
        }
        // The word with the phase last.
        let written = [0, 1].map(|word| {
            adapter.write(BusAddress(at + 8 * word), &completion.0[word as usize].to_le_bytes()).is_ok()
        });
        if written != [true; 2] {
            self.status |= FATAL;
        }
        written == [true; 2]
    }

    fn administer(&mut self, adapter: &Adapter, command: &Command) -> (Status, u32) {
        let [low, high] = [command.word(10) as u16, (command.word(10) >> 16) as u16];
        let status = match command.opcode() {
            admin::IDENTIFY => self.identify(adapter, command),
            admin::CREATE_COMPLETION_QUEUE => self.create_completions(command, low, high),
            admin::CREATE_SUBMISSION_QUEUE => self.create_submissions(command, low, high),
            admin::DELETE_SUBMISSION_QUEUE => match self.submissions.remove(&low).filter(|_| low != 0) {
                Some(_) => Status::SUCCESS,
                None => Status::INVALID_QUEUE,
            },
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
            // What is under way here is done before anybody can ask.
            admin::ABORT => return (Status::SUCCESS, 1),
            _ => Status::INVALID_OPCODE.for_good(),
        };
        (status, 0)
    }

    fn create_completions(&mut self, command: &Command, queue: u16, entries_less_one: u16) -> Status {
        let is_number = (1..=QUEUES_MAX).contains(&queue) && !self.completions.contains_key(&queue);
        if let Some(status) = wrong_queue(command, is_number, entries_less_one) {
            return status;
        }
        self.completions.insert(queue, Completions::new(command.data()[0], entries_less_one + 1));
        Status::SUCCESS
    }

    fn create_submissions(&mut self, command: &Command, queue: u16, entries_less_one: u16) -> Status {
        let is_number = (1..=QUEUES_MAX).contains(&queue) && !self.submissions.contains_key(&queue);
        if let Some(status) = wrong_queue(command, is_number, entries_less_one) {
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

    fn identify(&self, adapter: &Adapter, command: &Command) -> Status {
        let structure: Structure = match command.word(10) as u8 {
            0 if command.namespace() == NAMESPACE => self.namespace.write(),
            0 => return Status::INVALID_NAMESPACE.for_good(),
            1 => controller().write(),
            2 => {
                let mut bytes = [0; STRUCTURE_BYTES];
                if command.namespace() < NAMESPACE {
                    bytes[..4].copy_from_slice(&NAMESPACE.to_le_bytes());
                }
                bytes
            }
            _ => return Status::INVALID_FIELD.for_good(),
        };
        match data(adapter, command, STRUCTURE_BYTES as u64) {
            Ok(pieces) => give(adapter, &pieces, &structure),
            Err(status) => status,
        }
    }

    fn transfer(&mut self, adapter: &Adapter, command: &Command) -> Status {
        if command.namespace() != NAMESPACE {
            return Status::INVALID_NAMESPACE.for_good();
        }
        let first = u64::from(command.word(10)) | u64::from(command.word(11)) << 32;
        let blocks = u64::from(command.word(12) & 0xffff) + 1;
        match command.opcode() {
            nvm::FLUSH => Status::SUCCESS,
            nvm::DATASET_MANAGEMENT => self.deallocate(adapter, command),
            nvm::READ | nvm::WRITE | nvm::WRITE_ZEROES => match self.place(first, blocks) {
                None => Status::LBA_OUT_OF_RANGE.for_good(),
                Some(place) => self.move_data(adapter, command, place),
            },
            _ => Status::INVALID_OPCODE.for_good(),
        }
    }

    /// Where blocks are on the disk.
    fn place(&self, first: u64, blocks: u64) -> Option<std::ops::Range<usize>> {
        let end = first.checked_add(blocks).filter(|end| *end <= self.namespace.blocks)?;
        let bytes = |block: u64| (block * self.namespace.block_bytes()) as usize;
        Some(bytes(first)..bytes(end))
    }

    fn move_data(&mut self, adapter: &Adapter, command: &Command, place: std::ops::Range<usize>) -> Status {
        if command.opcode() == nvm::WRITE_ZEROES {
            self.disk[place].fill(0);
            return Status::SUCCESS;
        }
        if place.len() as u64 > 4096 << TRANSFER_PAGES_SHIFT {
            return Status::INVALID_FIELD.for_good();
        }
        let pieces = match data(adapter, command, place.len() as u64) {
            Ok(pieces) => pieces,
            Err(status) => return status,
        };
        if command.opcode() == nvm::READ {
            return give(adapter, &pieces, &self.disk[place]);
        }
        // What can't be read whole is not written.
        match take(adapter, &pieces) {
            Ok(bytes) => {
                self.disk[place].copy_from_slice(&bytes);
                Status::SUCCESS
            }
            Err(status) => status,
        }
    }

    fn deallocate(&mut self, adapter: &Adapter, command: &Command) -> Status {
        let ranges = usize::from(command.word(10) as u8) + 1;
        let bytes =
            data(adapter, command, (ranges * RANGE_BYTES) as u64).and_then(|pieces| take(adapter, &pieces));
        let bytes = match bytes {
            Ok(bytes) => bytes,
            Err(status) => return status,
        };
        let range = |range: &[u8]| {
            let [_, blocks, first @ ..] = number4(range);
            self.place(u64::from(first[0]) | u64::from(first[1]) << 32, blocks.into())
        };
        let Some(places) = bytes.chunks_exact(RANGE_BYTES).map(range).collect::<Option<Vec<_>>>() else {
            return Status::LBA_OUT_OF_RANGE.for_good();
        };
        // Only if it was asked to forget them: they read as zero from then on.
        if command.word(11) >> 2 & 1 == 1 {
            places.into_iter().for_each(|place| self.disk[place].fill(0));
        }
        Status::SUCCESS
    }
}

impl Completions {
    fn new(at: u64, entries: u16) -> Self {
        Self { at, entries, tail: 0, head: 0, phase: true }
    }

    fn is_full(&self) -> bool {
        (self.tail + 1) % self.entries == self.head
    }
}

fn controller() -> identify::Controller {
    identify::Controller {
        vendor: 0x1b36,
        serial: "emulated".to_owned(),
        model: "iotoll emulated controller".to_owned(),
        firmware: "1".to_owned(),
        transfer_pages_shift: TRANSFER_PAGES_SHIFT,
        namespaces_max: NAMESPACE,
        can_deallocate: true,
        can_write_zeroes: true,
        has_write_cache: true,
        has_sgl: true,
        aborts_max: 4,
        error_log_entries: 1,
    }
}

/// What is wrong with a queue that is to be created.
fn wrong_queue(command: &Command, is_number: bool, entries_less_one: u16) -> Option<Status> {
    let is_size = (1..QUEUE_ENTRIES_MAX).contains(&entries_less_one.into());
    let is_contiguous = command.word(11) & 1 == 1 && command.data()[0].is_multiple_of(4096);
    match (is_number, is_size, is_contiguous) {
        (false, ..) => Some(Status::INVALID_QUEUE),
        (_, false, _) => Some(Status::of(1, 0x02)),
        (.., false) => Some(Status::INVALID_FIELD),
        _ => None,
    }
}

/// Where a command's data is.
fn data(adapter: &Adapter, command: &Command, bytes: u64) -> Result<Vec<Piece>, Status> {
    let read = |at| {
        let mut word = [0; 8];
        adapter.read(at, &mut word).ok().map(|()| u64::from_le_bytes(word))
    };
    if command.is_by_sgl() {
        walk::sgl(command.data(), bytes, read)
    } else {
        walk::prp(command.data(), bytes, 4096, read)
    }
}

fn give(adapter: &Adapter, pieces: &[Piece], mut bytes: &[u8]) -> Status {
    for piece in pieces {
        let (these, rest) = bytes.split_at(piece.bytes as usize);
        if adapter.write(piece.at, these).is_err() {
            return Status::DATA_TRANSFER;
        }
        bytes = rest;
    }
    Status::SUCCESS
}

fn take(adapter: &Adapter, pieces: &[Piece]) -> Result<Vec<u8>, Status> {
    let mut bytes = vec![0; pieces.iter().map(|piece| piece.bytes as usize).sum()];
    let mut left = bytes.as_mut_slice();
    for piece in pieces {
        let (these, rest) = left.split_at_mut(piece.bytes as usize);
        adapter.read(piece.at, these).map_err(|_| Status::DATA_TRANSFER)?;
        left = rest;
    }
    Ok(bytes)
}

fn words(bytes: &[u8; COMMAND_BYTES]) -> [u64; COMMAND_BYTES / 8] {
    std::array::from_fn(|place| {
        let [low, high, ..] = number4(&bytes[8 * place..]);
        u64::from(low) | u64::from(high) << 32
    })
}

/// The first four numbers of four bytes each, zeros where there are fewer.
fn number4(bytes: &[u8]) -> [u32; 4] {
    let number = |place: usize| bytes.get(4 * place..4 * place + 4)?.try_into().ok().map(u32::from_le_bytes);
    std::array::from_fn(|place| number(place).unwrap_or_default())
}
