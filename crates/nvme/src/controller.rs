//! A controller that this process drives: brought up, asked what it is, and given queues.

use crate::prp::Piece;
use crate::queue_pair::{Done, LIST_BYTES, Place, QueueError, QueuePair, Tag};
use crate::registers::Registers;
use crate::spec::command::{COMMAND_BYTES, Command, Identify};
use crate::spec::completion::COMPLETION_BYTES;
use crate::spec::identify::{self, STRUCTURE_BYTES, Structure};
use crate::spec::registers::{self as register, Capabilities, Configuration};
use crate::spec::status::Status;
use dma::{Bill, Coherent, DmaError, Mapper, MemoryAddress, NoMemory, Ram};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Why a controller can't be driven, or has not done what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum NvmeError {
    /// Its registers read as ones: the adapter is gone.
    #[error("the adapter is gone: its registers read as ones")]
    Gone,
    /// It has failed, and wants a reset.
    #[error("the controller has failed (CSTS.CFS), and wants a reset")]
    Fatal,
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
/// An admin command takes no longer, as Linux has it (`admin_timeout`).
const ADMIN_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks at what takes long.
const LOOK: Duration = Duration::from_micros(50);

/// A namespace: a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Its number.
    pub number: u32,
    /// What it is.
    pub is: identify::Namespace,
    /// Bytes of one command at most.
    pub transfer_bytes_max: u64,
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

/// A controller.
#[derive(Debug)]
pub struct Controller {
    registers: Arc<dyn Registers>,
    mapper: Mapper,
    ram: Arc<Ram>,
    capabilities: Capabilities,
    admin: QueuePair,
    identity: identify::Controller,
    namespaces: Vec<Namespace>,
    /// I/O queue pairs that it has, and that were created.
    queues: [u16; 2],
    /// Memory of queues, which is the controller's until it is shut down.
    mapped: Vec<Coherent>,
    bill: Bill,
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
        let (mut bill, mut mapped) = (Bill::default(), Vec::new());
        let place = allocate(&mapper, ADMIN_ENTRIES, 0, capabilities, &mut mapped, &mut bill)?;
        registers.write_u32(register::ADMIN_QUEUES, register::admin_queues(ADMIN_ENTRIES, ADMIN_ENTRIES));
        registers.write_u64(register::ADMIN_SUBMISSION_QUEUE, place.submissions.1.0);
        registers.write_u64(register::ADMIN_COMPLETION_QUEUE, place.completions.1.0);
        registers.write_u32(register::CONFIGURATION, Configuration::enabled(PAGE_BYTES).0);
        wait_until(&*registers, capabilities, "become ready", register::Status::is_ready)?;
        let admin = QueuePair::new(Arc::clone(&registers), Arc::clone(&ram), place);
        let unknown = identify::Controller::read(&[0; STRUCTURE_BYTES]);
        let (namespaces, queues) = (Vec::new(), [0; 2]);
        let mut controller = Self {
            registers,
            mapper,
            ram,
            capabilities,
            admin,
            identity: unknown,
            namespaces,
            queues,
            mapped,
            bill,
        };
        controller.ask()?;
        Ok(controller)
    }

    /// Asks what it is, how many queues it has, and which namespaces.
    fn ask(&mut self) -> Result<(), NvmeError> {
        self.identity = identify::Controller::read(&self.identify(Identify::Controller)?);
        let granted = self.administer("asking for queues", Command::set_queues(u16::MAX, u16::MAX))?;
        let less_one = [granted.result as u16, (granted.result >> 16) as u16];
        self.queues[0] = less_one[0].min(less_one[1]).saturating_add(1);
        let transfer_bytes_max = self.transfer_bytes_max();
        let list = self.identify(Identify::NamespacesAfter(0))?;
        for number in identify::active_namespaces(&list) {
            let structure = self.identify(Identify::Namespace(number))?;
            if let Some(is) = identify::Namespace::read(&structure) {
                self.namespaces.push(Namespace { number, is, transfer_bytes_max });
            }
        }
        Ok(())
    }

    /// By what the controller says, and by what a command's list has room for.
    fn transfer_bytes_max(&self) -> u64 {
        // The first entry is in the command.
        let listed = (LIST_BYTES / crate::prp::ENTRY_BYTES) * PAGE_BYTES;
        let pages = 1_u64.checked_shl(self.identity.transfer_pages_shift.into()).unwrap_or(u64::MAX);
        match self.identity.transfer_pages_shift {
            0 => listed,
            _ => pages.saturating_mul(self.capabilities.page_bytes()[0]).min(listed),
        }
    }

    fn identify(&mut self, what: Identify) -> Result<Structure, NvmeError> {
        let buffer = self.allocate(STRUCTURE_BYTES as u64)?;
        let mut structure = [0; STRUCTURE_BYTES];
        let command = Command::identify(what, [buffer.0.at.0, 0]);
        let done = self.administer("identifying", command);
        // A controller that may still write keeps its memory.
        if !matches!(done, Err(NvmeError::Late { .. })) {
            self.ram.read(buffer.memory(), &mut structure)?;
            self.free(buffer)?;
        }
        done.map(|_| structure)
    }

    /// Carries out an admin command, and waits for it.
    fn administer(&mut self, what: &'static str, command: Command) -> Result<Done, NvmeError> {
        let tag = self.admin.submit(command)?;
        self.admin.ring();
        let done = wait_for(&mut self.admin, &*self.registers, tag, ADMIN_LIMIT)?;
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

    /// Its active namespaces.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// Memory of whole pages, at least `bytes`, that stays mapped.
    ///
    /// # Errors
    /// [`NvmeError::Dma`]
    pub fn allocate(&mut self, bytes: u64) -> Result<Buffer, NvmeError> {
        Ok(Buffer(self.mapper.allocate_coherent(bytes, &mut self.bill)?))
    }

    /// Gives such memory back, which no command uses any more.
    ///
    /// # Errors
    /// [`NvmeError::Dma`]
    pub fn free(&mut self, buffer: Buffer) -> Result<(), NvmeError> {
        Ok(self.mapper.free_coherent(buffer.0, &mut self.bill)?)
    }

    /// A queue pair of its own for a thread, which is polled; it has room for `entries` less one commands.
    ///
    /// # Errors
    /// [`NvmeError`]; also if it has no further queue.
    pub fn queue_pair(&mut self, entries: u16) -> Result<QueuePair, NvmeError> {
        let [most, created] = self.queues;
        if created == most {
            return Err(NvmeError::Lacks("further I/O queue"));
        }
        let entries_max = self.capabilities.queue_entries_max().min(u16::MAX.into()) as u16;
        let (number, entries) = (created + 1, entries.clamp(2, entries_max));
        let place =
            allocate(&self.mapper, entries, number, self.capabilities, &mut self.mapped, &mut self.bill)?;
        let command = Command::create_completion_queue(number, entries, place.completions.1.0, None);
        self.administer("creating a completion queue", command)?;
        let command = Command::create_submission_queue(number, entries, place.submissions.1.0, number);
        self.administer("creating a submission queue", command)?;
        self.queues[1] = number;
        Ok(QueuePair::new(Arc::clone(&self.registers), Arc::clone(&self.ram), place))
    }

    /// What has been mapped for it, and what that cost.
    pub fn bill(&self) -> Bill {
        self.bill
    }

    /// Shuts it down, so that all that was written stays, and gives its queues' memory back.
    ///
    /// # Errors
    /// [`NvmeError`]; then their memory stays the controller's.
    pub fn shut_down(mut self) -> Result<(), NvmeError> {
        let configuration = Configuration(self.registers.read_u32(register::CONFIGURATION));
        self.registers.write_u32(register::CONFIGURATION, configuration.shutting_down().0);
        let is_down = register::Status::is_shut_down;
        wait_until(&*self.registers, self.capabilities, "shut down", is_down)?;
        disable(&*self.registers, self.capabilities)?;
        for coherent in std::mem::take(&mut self.mapped) {
            self.mapper.free_coherent(coherent, &mut self.bill)?;
        }
        Ok(())
    }
}

fn check(capabilities: Capabilities) -> Result<(), NvmeError> {
    if capabilities.0 == u64::MAX {
        return Err(NvmeError::Gone);
    }
    let [low, high] = capabilities.page_bytes();
    match capabilities {
        _ if !(low..=high).contains(&PAGE_BYTES) => Err(NvmeError::Lacks("memory pages of 4 KiB")),
        _ if !capabilities.has_nvm_commands() => Err(NvmeError::Lacks("NVM command set")),
        _ => Ok(()),
    }
}

/// Takes a controller out of work, so that it forgets all queues.
fn disable(registers: &dyn Registers, capabilities: Capabilities) -> Result<(), NvmeError> {
    registers.write_u32(register::CONFIGURATION, 0);
    wait_for_status(registers, capabilities, "stopped", |status| !status.is_ready())
}

/// Waits for a status of a controller that has not failed.
fn wait_until(
    registers: &dyn Registers,
    capabilities: Capabilities,
    what: &'static str,
    holds: impl Fn(register::Status) -> bool,
) -> Result<(), NvmeError> {
    wait_for_status(registers, capabilities, what, |status| status.is_fatal() || holds(status))?;
    working(registers)
}

fn wait_for_status(
    registers: &dyn Registers,
    capabilities: Capabilities,
    what: &'static str,
    holds: impl Fn(register::Status) -> bool,
) -> Result<(), NvmeError> {
    let limit = Duration::from_millis(capabilities.timeout_ms().max(500));
    let begin = Instant::now();
    loop {
        let status = register::Status(registers.read_u32(register::STATUS));
        if status == register::Status::GONE {
            return Err(NvmeError::Gone);
        }
        if holds(status) {
            return Ok(());
        }
        if begin.elapsed() > limit {
            return Err(NvmeError::Late { what, limit });
        }
        thread::sleep(LOOK);
    }
}

/// Whether a controller is there and has not failed.
pub(crate) fn working(registers: &dyn Registers) -> Result<(), NvmeError> {
    match register::Status(registers.read_u32(register::STATUS)) {
        register::Status::GONE => Err(NvmeError::Gone),
        status if status.is_fatal() => Err(NvmeError::Fatal),
        _ => Ok(()),
    }
}

/// Waits for one command of a queue that has no other under way.
pub(crate) fn wait_for(
    queue: &mut QueuePair,
    registers: &dyn Registers,
    tag: Tag,
    limit: Duration,
) -> Result<Done, NvmeError> {
    let begin = Instant::now();
    let mut found = None;
    loop {
        queue.poll(usize::MAX, |done| {
            if done.tag == tag {
                found = Some(done);
            }
        })?;
        if let Some(done) = found {
            return Ok(done);
        }
        working(registers)?;
        if begin.elapsed() > limit {
            return Err(NvmeError::Late { what: "completed a command", limit });
        }
        thread::sleep(LOOK);
    }
}

/// Memory for both rings of a queue, and for the lists of its commands.
fn allocate(
    mapper: &Mapper,
    entries: u16,
    number: u16,
    capabilities: Capabilities,
    mapped: &mut Vec<Coherent>,
    bill: &mut Bill,
) -> Result<Place, NvmeError> {
    let mut of_each = |entry_bytes: u64| -> Result<_, NvmeError> {
        let coherent = mapper.allocate_coherent(u64::from(entries) * entry_bytes, bill)?;
        let place = (coherent.memory, coherent.at);
        mapped.push(coherent);
        Ok(place)
    };
    Ok(Place {
        submissions: of_each(COMMAND_BYTES as u64)?,
        completions: of_each(COMPLETION_BYTES as u64)?,
        entries,
        doorbells: [capabilities.submission_doorbell(number), capabilities.completion_doorbell(number)],
        lists: of_each(LIST_BYTES)?,
    })
}
