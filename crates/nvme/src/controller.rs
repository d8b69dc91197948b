//! A controller that this process drives: brought up, asked what it is, and given queues.

use crate::bring_up::{disable, limit_of, wait_for, wait_until};
use crate::link::Link;
use crate::prp::Piece;
use crate::queue_pair::{COMMANDS_MAX, Done, LIST_BYTES, QueueError, QueueLayout, QueuePair};
use crate::registers::Registers;
use crate::spec::command::{COMMAND_BYTES, Command, Identify};
use crate::spec::completion::COMPLETION_BYTES;
use crate::spec::identify::{self, STRUCTURE_BYTES, Structure};
use crate::spec::registers::{self as register, Capabilities, Configuration};
use crate::spec::status::Status;
use dma::{Coherent, DmaCounters, DmaError, Mapper, MemoryAddress, NoMemory, Ram};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Why a controller can't be driven, or has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum NvmeError {
    /// Its registers read as ones: the adapter is gone.
    #[error("the adapter is gone: its registers read as ones")]
    Gone,
    /// It has failed, and wants a reset.
    #[error("the controller has failed (CSTS.CFS), and wants a reset")]
    Fatal,
    /// It was reset by somebody else, or by its link, and wants to be brought up again.
    #[error(
        "the controller has stopped (CSTS.RDY is clear): it, or its link, was reset, and it wants to be brought up again"
    )]
    Stopped,
    /// It is another one after a reset.
    #[error("{what} is not what it was before the reset")]
    Changed {
        /// What of it.
        what: &'static str,
    },
    /// It has not done something in time.
    #[error("the controller has not {what} within {} ms", limit.as_millis())]
    Late {
        /// What it should have done.
        what: &'static str,
        /// How long it had.
        limit: Duration,
    },
    /// It can't do something that is needed here.
    #[error("the controller has no {0}")]
    Lacks(&'static str),
    /// It has refused a command.
    #[error("{what}: {status}")]
    Refused {
        /// What was asked for.
        what: &'static str,
        /// What it said.
        status: Status,
    },
    /// A queue can't go on.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// Memory for it could not be mapped.
    #[error("memory for the controller")]
    Dma(#[from] DmaError),
    /// What was mapped is not there.
    #[error(transparent)]
    Memory(#[from] NoMemory),
}

/// Bytes of the controller's memory pages here, which every controller has had so far.
pub const PAGE_BYTES: u64 = 4096;
const ADMIN_ENTRIES: u16 = 32;
/// What was written may have to go to flash first; Linux has 5 s and more (`shutdown_timeout`, `RTD3E`).
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(30);
/// An admin command takes no longer, as Linux has it (`admin_timeout`).
const ADMIN_LIMIT: Duration = Duration::from_secs(60);

/// A namespace: a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Its number.
    pub number: u32,
    /// What it is.
    pub is: identify::Namespace,
    /// Bytes of one command at most.
    pub transfer_bytes_max: u64,
    /// Its controller takes scatter-gather lists.
    pub has_sgl: bool,
}

/// Memory that stays mapped for the controller until it is [freed](Controller::free): no command that uses it maps anything.
#[derive(Debug, PartialEq, Eq)]
pub struct Buffer(Coherent);

impl Buffer {
    /// Where the CPU finds it.
    pub fn memory(&self) -> MemoryAddress {
        self.0.memory
    }

    /// Its bytes, whole pages.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// A part of it, as the controller finds it.
    ///
    /// # Errors
    /// If part of that is beyond it.
    pub fn piece(&self, from: u64, bytes: u64) -> Result<Piece, NoMemory> {
        let is_within = from.checked_add(bytes).is_some_and(|end| end <= self.0.bytes);
        let none = NoMemory { at: MemoryAddress(self.0.memory.0.saturating_add(from)), bytes };
        let at = self.0.at.checked_add(from).filter(|_| is_within).ok_or(none)?;
        Ok(Piece { at, bytes })
    }
}

/// A queue pair that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueOptions {
    /// Entries of its rings: as many commands, less one, can be in flight. A controller may have fewer.
    pub entries: u16,
    /// The MSI-X vector by which completions interrupt; without one the queue is polled.
    pub vector: Option<u16>,
}

/// A controller.
#[derive(Debug)]
pub struct Controller {
    pub(crate) link: Arc<Link>,
    mapper: Mapper,
    ram: Arc<Ram>,
    pub(crate) capabilities: Capabilities,
    pub(crate) admin: QueuePair,
    identity: identify::Controller,
    namespaces: Vec<Namespace>,
    /// I/O queue pairs that it has.
    pairs_max: u16,
    /// Memory of queues by their numbers, which is the controller's until it has deleted them.
    mapped: BTreeMap<u16, Vec<Coherent>>,
    /// Memory and queues, by their numbers, that commands which have not ended well left with the controller. It lets go of them when it is reset.
    left: (Vec<Buffer>, Vec<u16>),
    counters: DmaCounters,
    admin_limit: Duration,
}

impl Controller {
    /// Resets a controller, brings it up, and asks what it is. `mapper` maps for it, with a pool of coherent memory in `ram`.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn open(registers: Arc<dyn Registers>, mapper: Mapper, ram: Arc<Ram>) -> Result<Self, NvmeError> {
        let capabilities = Capabilities(registers.read_u64(register::CAPABILITIES));
        check(capabilities)?;
        disable(&*registers, capabilities)?;
        let mut counters = DmaCounters::default();
        let options = QueueOptions { entries: ADMIN_ENTRIES, vector: None };
        let (layout, memory) = allocate(&mapper, options, 0, capabilities, &mut counters)?;
        let link = Arc::new(Link::new(registers));
        let mut controller = Self {
            admin: QueuePair::new(Arc::clone(&link), Arc::clone(&ram), layout),
            link,
            mapper,
            ram,
            capabilities,
            identity: identify::Controller::read(&[0; STRUCTURE_BYTES]),
            namespaces: Vec::new(),
            pairs_max: 0,
            mapped: BTreeMap::from([(0, memory)]),
            left: (Vec::new(), Vec::new()),
            counters,
            admin_limit: ADMIN_LIMIT,
        };
        controller.enable()?;
        (controller.identity, controller.namespaces) = controller.ask()?;
        Ok(controller)
    }

    /// Brings it up with its admin queue.
    pub(crate) fn enable(&mut self) -> Result<(), NvmeError> {
        let (registers, layout) = (self.link.registers(), self.admin.layout);
        registers.write_u32(register::ADMIN_QUEUES, register::admin_queues(layout.entries, layout.entries));
        registers.write_u64(register::ADMIN_SUBMISSION_QUEUE, layout.submissions.1.0);
        registers.write_u64(register::ADMIN_COMPLETION_QUEUE, layout.completions.1.0);
        registers.write_u32(register::CONFIGURATION, Configuration::enabled(PAGE_BYTES).0);
        wait_until(registers, limit_of(self.capabilities), "become ready", register::Status::is_ready)
    }

    /// Asks what it is, how many queues it has, and which namespaces.
    pub(crate) fn ask(&mut self) -> Result<(identify::Controller, Vec<Namespace>), NvmeError> {
        let identity = identify::Controller::read(&self.identify(Identify::Controller)?);
        let granted = self.administer("asking for queues", Command::set_queues(u16::MAX, u16::MAX))?;
        let less_one = [granted.result as u16, (granted.result >> 16) as u16];
        self.pairs_max = less_one[0].min(less_one[1]).saturating_add(1);
        let transfer_bytes_max = self.transfer_bytes_max(identity.transfer_pages_shift);
        let list = self.identify(Identify::NamespacesAfter(0))?;
        let mut namespaces = Vec::new();
        for number in identify::active_namespaces(&list) {
            let structure = self.identify(Identify::Namespace(number))?;
            // Blocks with metadata are not what their size says, and protection information would have to be made.
            if let Some(is) = identify::Namespace::read(&structure).filter(|is| is.metadata_bytes == 0) {
                let has_sgl = identity.has_sgl;
                namespaces.push(Namespace { number, is, transfer_bytes_max, has_sgl });
            }
        }
        Ok((identity, namespaces))
    }

    /// By what the controller says, and by what a command's list has room for.
    fn transfer_bytes_max(&self, shift: u8) -> u64 {
        // The first entry is in the command.
        let listed = (LIST_BYTES / crate::prp::ENTRY_BYTES) * PAGE_BYTES;
        let pages = 1_u64.checked_shl(shift.into()).unwrap_or(u64::MAX);
        match shift {
            0 => listed,
            _ => pages.saturating_mul(self.capabilities.page_bytes()[0]).min(listed),
        }
    }

    fn identify(&mut self, what: Identify) -> Result<Structure, NvmeError> {
        self.told_by("identifying", |data| Command::identify(what, data))
    }

    /// Carries out a command that writes a page, and reads that.
    pub(crate) fn told_by(
        &mut self,
        what: &'static str,
        command: impl FnOnce([u64; 2]) -> Command,
    ) -> Result<Structure, NvmeError> {
        let buffer = self.allocate(STRUCTURE_BYTES as u64)?;
        let mut structure = [0; STRUCTURE_BYTES];
        let done = self.administer(what, command([buffer.0.at.0, 0]));
        if matches!(done, Ok(_) | Err(NvmeError::Refused { .. })) {
            self.ram.read(buffer.memory(), &mut structure)?;
            self.free(buffer)?;
        } else {
            // It may still write.
            self.left.0.push(buffer);
        }
        done.map(|_| structure)
    }

    /// Takes back what was left with the controller, which reaches nothing any more.
    pub(crate) fn take_back_what_was_left(&mut self) -> Result<(), NvmeError> {
        let (buffers, queues) = std::mem::take(&mut self.left);
        buffers.into_iter().try_for_each(|buffer| self.free(buffer))?;
        queues.into_iter().try_for_each(|number| self.give_back(number))
    }

    /// Carries out an admin command, and waits for it.
    pub(crate) fn administer(&mut self, what: &'static str, command: Command) -> Result<Done, NvmeError> {
        self.administer_within(self.admin_limit, what, command)
    }

    /// The same for so long at most.
    pub(crate) fn administer_within(
        &mut self,
        limit: Duration,
        what: &'static str,
        command: Command,
    ) -> Result<Done, NvmeError> {
        let id = self.admin.submit(command)?;
        self.admin.ring_doorbell();
        let done = wait_for(&mut self.admin, self.link.registers(), id, limit)?;
        if done.status.is_success() {
            Ok(done)
        } else {
            Err(NvmeError::Refused { what, status: done.status })
        }
    }

    /// What it says of itself.
    pub fn identity(&self) -> &identify::Controller {
        &self.identity
    }

    /// Its active namespaces, but those whose blocks have metadata.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// Memory of whole pages, at least `bytes`, that stays mapped.
    ///
    /// # Errors
    /// [`NvmeError::Dma`]
    pub fn allocate(&mut self, bytes: u64) -> Result<Buffer, NvmeError> {
        Ok(Buffer(self.mapper.allocate_coherent(bytes, &mut self.counters)?))
    }

    /// Gives such memory back, which no command uses any more.
    ///
    /// # Errors
    /// [`NvmeError::Dma`]
    pub fn free(&mut self, buffer: Buffer) -> Result<(), NvmeError> {
        Ok(self.mapper.free_coherent(buffer.0, &mut self.counters)?)
    }

    /// A queue pair of its own for a thread, which is polled; it has room for `entries` less one commands.
    ///
    /// # Errors
    /// [`NvmeError`]; also if it has no further queue.
    pub fn queue_pair(&mut self, entries: u16) -> Result<QueuePair, NvmeError> {
        self.queue_pair_with(QueueOptions { entries, vector: None })
    }

    /// A queue pair of its own for a thread, by what is wanted of it.
    ///
    /// # Errors
    /// As of [`queue_pair`](Self::queue_pair).
    pub fn queue_pair_with(&mut self, options: QueueOptions) -> Result<QueuePair, NvmeError> {
        let number = (1..=self.pairs_max).find(|number| !self.mapped.contains_key(number));
        let number = number.ok_or(NvmeError::Lacks("further I/O queue"))?;
        let entries_max = self.capabilities.queue_entries_max().min(u32::from(COMMANDS_MAX) + 1) as u16;
        let options = QueueOptions { entries: options.entries.clamp(2, entries_max), ..options };
        let (layout, memory) =
            allocate(&self.mapper, options, number, self.capabilities, &mut self.counters)?;
        // From here on it may be the controller's, whatever it answers.
        self.mapped.insert(number, memory);
        if let Err(error) = self.create(layout) {
            self.left.1.push(number);
            return Err(error);
        }
        Ok(QueuePair::new(Arc::clone(&self.link), Arc::clone(&self.ram), layout))
    }

    /// Has the controller take a queue pair.
    pub(crate) fn create(&mut self, layout: QueueLayout) -> Result<(), NvmeError> {
        let QueueLayout { number, entries, vector, .. } = layout;
        let command = Command::create_completion_queue(number, entries, layout.completions.1.0, vector);
        self.administer("creating a completion queue", command)?;
        let command = Command::create_submission_queue(number, entries, layout.submissions.1.0, number);
        self.administer("creating a submission queue", command).map(|_| ())
    }

    /// Has the controller let a queue pair go, with all that is in flight in it, and takes its memory back.
    ///
    /// # Errors
    /// [`NvmeError`]; then its memory stays the controller's until that is reset.
    pub fn delete(&mut self, queue: QueuePair) -> Result<(), NvmeError> {
        let number = queue.layout.number;
        let commands = [
            ("deleting a submission queue", Command::delete_submission_queue(number)),
            ("deleting a completion queue", Command::delete_completion_queue(number)),
        ];
        for (what, command) in commands {
            match self.administer(what, command) {
                Ok(_) => {}
                // It was reset since, and has no such queue any more.
                Err(NvmeError::Refused { status, .. }) if is_no_queue(status) => {}
                Err(error) => {
                    self.left.1.push(number);
                    return Err(error);
                }
            }
        }
        drop(queue);
        self.give_back(number)
    }

    fn give_back(&mut self, number: u16) -> Result<(), NvmeError> {
        for coherent in self.mapped.remove(&number).unwrap_or_default() {
            self.mapper.free_coherent(coherent, &mut self.counters)?;
        }
        Ok(())
    }

    /// The memory that it shares with this process.
    pub fn ram(&self) -> Arc<Ram> {
        Arc::clone(&self.ram)
    }

    /// From now on admin commands have so long; it is 60 s otherwise.
    pub fn wait_at_most(&mut self, limit: Duration) {
        self.admin_limit = limit;
    }

    /// One that threads share. What a thread that has panicked was doing with it is looked at all the same: how it is, its own registers say.
    pub fn lock(shared: &Mutex<Self>) -> MutexGuard<'_, Self> {
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has been mapped for it, and what that cost.
    pub fn counters(&self) -> DmaCounters {
        self.counters
    }

    /// Shuts it down, so that all that was written stays, and gives its queues' memory back.
    ///
    /// # Errors
    /// [`NvmeError`]; then their memory stays the controller's.
    pub fn shut_down(mut self) -> Result<(), NvmeError> {
        let registers = self.link.registers();
        let configuration = Configuration(registers.read_u32(register::CONFIGURATION));
        registers.write_u32(register::CONFIGURATION, configuration.shutting_down().0);
        let is_down = register::Status::is_shut_down;
        wait_until(registers, SHUTDOWN_LIMIT, "shut down", is_down)?;
        self.link.forget();
        disable(self.link.registers(), self.capabilities)?;
        let numbers: Vec<u16> = self.mapped.keys().copied().collect();
        numbers.into_iter().try_for_each(|number| self.give_back(number))
    }
}

/// Whether a controller has said that there is no such queue, whatever it says of trying again.
fn is_no_queue(status: Status) -> bool {
    (status.kind(), status.code()) == (Status::INVALID_QUEUE.kind(), Status::INVALID_QUEUE.code())
}

fn check(capabilities: Capabilities) -> Result<(), NvmeError> {
    if capabilities.0 == u64::MAX {
        return Err(NvmeError::Gone);
    }
    let [low, high] = capabilities.page_bytes();
    match capabilities {
        _ if !(low..=high).contains(&PAGE_BYTES) => Err(NvmeError::Lacks("memory pages of 4 KiB")),
        // One entry stays free: the least that a controller may have is two (Base, 3.1.3.1).
        _ if capabilities.queue_entries_max() < 2 => Err(NvmeError::Lacks("queues of two entries")),
        _ if !capabilities.has_nvm_commands() => Err(NvmeError::Lacks("NVM command set")),
        _ => Ok(()),
    }
}

/// Memory for both rings of a queue, and for the lists of its commands.
fn allocate(
    mapper: &Mapper,
    options: QueueOptions,
    number: u16,
    capabilities: Capabilities,
    counters: &mut DmaCounters,
) -> Result<(QueueLayout, Vec<Coherent>), NvmeError> {
    let QueueOptions { entries, vector } = options;
    let mut memory: Vec<Coherent> = Vec::new();
    for entry_bytes in [COMMAND_BYTES as u64, COMPLETION_BYTES as u64, LIST_BYTES] {
        match mapper.allocate_coherent(u64::from(entries) * entry_bytes, counters) {
            Ok(coherent) => memory.push(coherent),
            Err(error) => {
                memory.into_iter().try_for_each(|coherent| mapper.free_coherent(coherent, counters))?;
                return Err(error.into());
            }
        }
    }
    let of_each = |index: usize| (memory[index].memory, memory[index].at);
    let layout = QueueLayout {
        number,
        submissions: of_each(0),
        completions: of_each(1),
        entries,
        vector,
        doorbells: [capabilities.submission_doorbell(number), capabilities.completion_doorbell(number)],
        lists: of_each(2),
    };
    Ok((layout, memory))
}
