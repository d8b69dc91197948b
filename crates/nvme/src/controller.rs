//! A controller that this process drives: initialisation, identification, memory, and queue pairs.

use crate::bring_up::{disable, ready_timeout, wait_for_completion, wait_for_status};
use crate::controller_error::NvmeError;
use crate::link::Link;
use crate::prp::Piece;
use crate::queue_pair::{COMMANDS_MAX, Done, LIST_BYTES, QueueLayout, QueuePair};
use crate::registers::Registers;
use crate::spec::command::{COMMAND_BYTES, Command, Identify};
use crate::spec::completion::COMPLETION_BYTES;
use crate::spec::identify::{self, CopyLimits, STRUCTURE_BYTES, Structure};
use crate::spec::registers::{self as register, Capabilities, Configuration};
use crate::spec::status::Status;
use crate::spec::zone::{self, ZonedNamespace};
use crate::unflushed::Unflushed;
use crate::zones::Zones;
#[cfg(target_os = "linux")]
use dma::vfio::Interrupt;
use dma::{Coherent, DmaCounters, Mapper, MemoryAddress, NoMemory, Ram};
use std::collections::BTreeMap;
#[cfg(target_os = "linux")]
use std::sync::TryLockError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
#[cfg(target_os = "linux")]
use std::time::Instant;

/// The memory page size (CC.MPS) that this driver uses.
pub const PAGE_BYTES: u64 = 4096;
const ADMIN_ENTRIES: u16 = 32;
/// A shutdown may first write the cache to flash. Linux waits 5 s or longer (`shutdown_timeout`, `RTD3E`).
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two tries to lock a controller that another thread uses.
#[cfg(target_os = "linux")]
const LOCK_INTERVAL: Duration = Duration::from_millis(1);
/// Timeout of admin commands, as in Linux (`admin_timeout`).
const ADMIN_TIMEOUT: Duration = Duration::from_secs(60);

/// A namespace of a controller, with the controller's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace {
    /// Namespace identifier (NSID).
    pub number: u32,
    /// Its Identify data.
    pub format: identify::Namespace,
    /// Most bytes of one command.
    pub transfer_bytes_max: u64,
    /// The controller takes SGLs, of any alignment.
    pub has_sgl: bool,
    /// The controller takes Compare.
    pub has_compare: bool,
    /// The controller takes Verify.
    pub has_verify: bool,
    /// What one Copy takes; `None` if the controller lacks it.
    pub copy_limits: Option<CopyLimits>,
    /// Its zones; `None` for a namespace that can be written in any order.
    pub zones: Option<Zones>,
}

impl Namespace {
    /// A namespace of a controller with this identity.
    fn new(
        number: u32,
        format: identify::Namespace,
        transfer_bytes_max: u64,
        identity: &identify::Controller,
    ) -> Self {
        // The driver describes source ranges by format 0. A limit of 0 is a fault of the controller.
        let limits = format.copy_limits;
        let can_copy = identity.can_copy && identity.copy_formats & 1 == 1;
        let can_copy = can_copy && limits.range_blocks_max > 0 && limits.blocks_max > 0;
        Self {
            number,
            format,
            transfer_bytes_max,
            has_sgl: identity.has_sgl,
            has_compare: identity.can_compare,
            has_verify: identity.can_verify,
            copy_limits: can_copy.then_some(limits),
            zones: None,
        }
    }
}

/// Memory that stays mapped for the controller until it is [freed](Controller::free), so that no I/O has to map
/// anything. A buffer that is dropped stays mapped as long as the controller is open.
#[derive(Debug, PartialEq, Eq)]
pub struct Buffer(Coherent);

impl Buffer {
    /// Its address for the CPU.
    pub fn memory(&self) -> MemoryAddress {
        self.0.memory
    }

    /// Its size, a multiple of the page size.
    pub fn bytes(&self) -> u64 {
        self.0.bytes
    }

    /// `bytes` of it from offset `from`, by the controller's address.
    ///
    /// # Errors
    /// If the range reaches beyond the buffer.
    pub fn piece(&self, from: u64, bytes: u64) -> Result<Piece, NoMemory> {
        let is_within = from.checked_add(bytes).is_some_and(|end| end <= self.0.bytes);
        let none = NoMemory { at: MemoryAddress(self.0.memory.0.saturating_add(from)), bytes };
        let at = self.0.at.checked_add(from).filter(|_| is_within).ok_or(none)?;
        Ok(Piece { at, bytes })
    }
}

/// Options of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueOptions {
    /// Entries of each ring. One less can be in flight. A controller's limit (CAP.MQES) reduces it.
    pub entries: u16,
    /// MSI-X vector of the completion queue; without one the queue is polled.
    pub vector: Option<u16>,
    /// The namespace (NSID) that the queue is for. While the queue exists, that one is neither attached, detached nor deleted; where `None`,
    /// none that is attached is detached or deleted.
    pub namespace: Option<u32>,
}

impl QueueOptions {
    /// A queue pair whose completion queue is polled.
    pub fn polled(entries: u16) -> Self {
        Self { entries, vector: None, namespace: None }
    }
}

/// What is mapped for a queue.
#[derive(Debug)]
struct Mapped {
    memory: Vec<Coherent>,
    /// The namespace that it is for; `None` if it may be for any.
    namespace: Option<u32>,
}

/// A controller. [Shut it down](Self::shut_down) before it is dropped, else it may lose what is in its volatile cache.
#[derive(Debug)]
pub struct Controller {
    pub(crate) link: Arc<Link>,
    mapper: Mapper,
    pub(crate) ram: Arc<Ram>,
    pub(crate) capabilities: Capabilities,
    pub(crate) admin: QueuePair,
    identity: identify::Controller,
    namespaces: Vec<Namespace>,
    /// I/O queue pairs that the controller granted.
    pairs_max: u16,
    /// Each queue's memory, and what it is for, by QID. The controller may use it until the queue is deleted.
    mapped: BTreeMap<u16, Mapped>,
    /// Buffers and QIDs of commands that failed or timed out. The controller may still write to them, so they are
    /// reused only after a reset.
    pub(crate) abandoned: (Vec<Buffer>, Vec<u16>),
    counters: DmaCounters,
    pub(crate) admin_timeout: Duration,
    /// By namespace.
    unflushed: BTreeMap<u32, Arc<Unflushed>>,
    /// This driver has enabled the controller, and not disabled it since.
    is_enabled: bool,
    /// Is signalled when the system wants the adapter back.
    #[cfg(target_os = "linux")]
    removal_request: Option<Interrupt>,
}

impl Controller {
    /// Resets, enables and identifies a controller. `mapper` maps memory for it, with a pool of coherent memory in
    /// `ram`.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn open(
        registers: impl Registers + 'static,
        mapper: Mapper,
        ram: Arc<Ram>,
    ) -> Result<Self, NvmeError> {
        Self::open_boxed(Box::new(registers), mapper, ram)
    }

    /// The same, of any registers.
    fn open_boxed(registers: Box<dyn Registers>, mapper: Mapper, ram: Arc<Ram>) -> Result<Self, NvmeError> {
        let capabilities = Capabilities(registers.read_u64(register::CAPABILITIES));
        check_capabilities(capabilities)?;
        disable(&*registers, capabilities)?;
        let mut counters = DmaCounters::default();
        let options = QueueOptions::polled(ADMIN_ENTRIES);
        let (layout, memory) = allocate_queue_memory(&mapper, options, 0, capabilities, &mut counters)?;
        let link = Arc::new(Link::new(registers));
        let mut controller = Self {
            admin: QueuePair::new(Arc::clone(&link), Arc::clone(&ram), layout)?,
            link,
            mapper,
            ram,
            capabilities,
            identity: identify::Controller::read(&[0; STRUCTURE_BYTES]),
            namespaces: Vec::new(),
            pairs_max: 0,
            mapped: BTreeMap::from([(0, Mapped { memory, namespace: None })]),
            abandoned: (Vec::new(), Vec::new()),
            counters,
            admin_timeout: ADMIN_TIMEOUT,
            unflushed: BTreeMap::new(),
            is_enabled: false,
            #[cfg(target_os = "linux")]
            removal_request: None,
        };
        controller.enable()?;
        (controller.identity, controller.namespaces) = controller.read_identity()?;
        Ok(controller)
    }

    /// Enables the controller with its admin queue.
    pub(crate) fn enable(&mut self) -> Result<(), NvmeError> {
        let (registers, layout) = (self.link.registers(), self.admin.layout);
        registers.write_u32(register::ADMIN_QUEUES, register::admin_queues(layout.entries, layout.entries));
        registers.write_u64(register::ADMIN_SUBMISSION_QUEUE, layout.submissions.1.0);
        registers.write_u64(register::ADMIN_COMPLETION_QUEUE, layout.completions.1.0);
        let configuration = Configuration::enabled(PAGE_BYTES);
        let configuration = match self.capabilities.has_further_command_sets() {
            true => configuration.with_all_command_sets(),
            false => configuration,
        };
        registers.write_u32(register::CONFIGURATION, configuration.0);
        self.is_enabled = true;
        wait_for_status(
            registers,
            ready_timeout(self.capabilities),
            "become ready",
            register::Status::is_ready,
        )
    }

    /// Disables the controller. If something else has done so before, it may have lost its power, and with that its cache.
    pub(crate) fn disable(&mut self) -> Result<(), NvmeError> {
        let registers = self.link.registers();
        let configuration = Configuration(registers.read_u32(register::CONFIGURATION));
        if std::mem::take(&mut self.is_enabled) && !configuration.is_enabled() {
            self.unflushed.values().for_each(|unflushed| unflushed.lose());
        }
        disable(registers, self.capabilities)
    }

    /// Requests I/O queues, and identifies the controller and its namespaces.
    pub(crate) fn read_identity(&mut self) -> Result<(identify::Controller, Vec<Namespace>), NvmeError> {
        let granted =
            self.execute_admin("requesting I/O queues", Command::set_queue_count(u16::MAX, u16::MAX))?;
        let less_one = [granted.result as u16, (granted.result >> 16) as u16];
        self.pairs_max = less_one[0].min(less_one[1]).saturating_add(1);
        let identity = self.identify_controller()?;
        let namespaces = self.identify_namespaces(&identity)?;
        Ok((identity, namespaces))
    }

    /// Reads the controller's Identify data.
    fn identify_controller(&mut self) -> Result<identify::Controller, NvmeError> {
        Ok(identify::Controller::read(&self.identify(Identify::Controller)?))
    }

    /// Reads the controller's identity again, and which namespaces are attached to it: another controller of its subsystem may have changed them.
    /// Without that, a [reset](Self::reset) takes such a controller for another one.
    ///
    /// # Errors
    /// [`NvmeError`]
    pub fn refresh_namespaces(&mut self) -> Result<(), NvmeError> {
        let identity = self.identify_controller()?;
        self.namespaces = self.identify_namespaces(&identity)?;
        self.identity = identity;
        Ok(())
    }

    /// Identifies the active namespaces.
    fn identify_namespaces(&mut self, identity: &identify::Controller) -> Result<Vec<Namespace>, NvmeError> {
        let transfer_bytes_max = self.transfer_bytes_max(identity.transfer_pages_shift);
        let mut namespaces = Vec::new();
        for number in self.namespace_list(Identify::NamespacesAfter)? {
            let command_set = self.command_set(number)?;
            // Key-value namespaces and others have no blocks.
            if ![0, zone::COMMAND_SET].contains(&command_set) {
                continue;
            }
            let structure = self.identify(Identify::Namespace(number))?;
            // Skip formats with metadata: each block is larger than its data, and may need protection information.
            let format = identify::Namespace::read(&structure).filter(|format| format.metadata_bytes == 0);
            let Some(format) = format else { continue };
            let mut namespace = Namespace::new(number, format, transfer_bytes_max, identity);
            if command_set == zone::COMMAND_SET {
                let Some(zones) = self.zones(number, identify::lba_format(&structure), transfer_bytes_max)?
                else {
                    continue;
                };
                namespace.zones = Some(zones);
            }
            namespaces.push(namespace);
        }
        Ok(namespaces)
    }

    /// The command set of a namespace: the NVM command set if the controller has no other.
    fn command_set(&mut self, number: u32) -> Result<u8, NvmeError> {
        if !self.capabilities.has_further_command_sets() {
            return Ok(0);
        }
        Ok(identify::command_set(&self.identify(Identify::Descriptors(number))?))
    }

    /// The zones of a zoned namespace; `None` if they have no size.
    fn zones(
        &mut self,
        number: u32,
        format: u8,
        transfer_bytes_max: u64,
    ) -> Result<Option<Zones>, NvmeError> {
        let zoned = ZonedNamespace::read(&self.identify(Identify::ZonedNamespace(number))?, format);
        let append_shift = self.identify(Identify::ZonedController)?[0];
        // Without a limit of its own, that of all transfers holds (ZASL).
        let append_bytes_max = match append_shift {
            0 => transfer_bytes_max,
            _ => self.transfer_bytes_max(append_shift).min(transfer_bytes_max),
        };
        Ok(zoned.map(|zoned| Zones {
            zone_blocks: zoned.zone_blocks,
            active_max: zoned.active_max,
            open_max: zoned.open_max,
            reads_across_zones: zoned.reads_across_zones,
            append_bytes_max,
        }))
    }

    /// The lower of the controller's limit (MDTS) and what a command's PRP list can describe.
    pub(crate) fn transfer_bytes_max(&self, shift: u8) -> u64 {
        // The first PRP entry is in the command.
        let listed = (LIST_BYTES / crate::prp::ENTRY_BYTES) * PAGE_BYTES;
        let pages = 1_u64.checked_shl(shift.into()).unwrap_or(u64::MAX);
        match shift {
            0 => listed,
            _ => pages.saturating_mul(self.capabilities.page_bytes()[0]).min(listed),
        }
    }

    /// Reads a page of Identify data.
    pub(crate) fn identify(&mut self, what: Identify) -> Result<Structure, NvmeError> {
        self.read_page("identifying", |data| Command::identify(what, data))
    }

    /// Executes a command that returns one page of data.
    pub(crate) fn read_page(
        &mut self,
        what: &'static str,
        command: impl FnOnce([u64; 2]) -> Command,
    ) -> Result<Structure, NvmeError> {
        let buffer = self.allocate(STRUCTURE_BYTES as u64)?;
        let mut structure = [0; STRUCTURE_BYTES];
        // A controller that writes less than it should leaves zeros, not what another command had there.
        self.ram.write(buffer.memory(), &structure)?;
        let done = self.execute_admin(what, command([buffer.0.at.0, 0]));
        if matches!(done, Ok(_) | Err(NvmeError::Refused { .. })) {
            self.ram.read(buffer.memory(), &mut structure)?;
            self.free(buffer)?;
        } else {
            // The command may still be executing and write to the page.
            self.abandoned.0.push(buffer);
        }
        done.map(|_| structure)
    }

    /// Frees what failed commands left with the controller. Call it after a reset, when the controller does no DMA.
    pub(crate) fn free_abandoned(&mut self) -> Result<(), NvmeError> {
        let (buffers, queues) = std::mem::take(&mut self.abandoned);
        buffers.into_iter().try_for_each(|buffer| self.free(buffer))?;
        queues.into_iter().try_for_each(|number| self.free_queue_memory(number))
    }

    /// Executes an admin command and waits for it, with the usual timeout.
    pub(crate) fn execute_admin(&mut self, what: &'static str, command: Command) -> Result<Done, NvmeError> {
        self.execute_admin_within(self.admin_timeout, what, command)
    }

    /// Calls `execute` with a shorter timeout of admin commands.
    pub(crate) fn within<T>(&mut self, limit: Duration, execute: impl FnOnce(&mut Self) -> T) -> T {
        let usual = self.admin_timeout;
        self.admin_timeout = limit.min(usual);
        let result = execute(self);
        self.admin_timeout = usual;
        result
    }

    /// Executes an admin command and waits for it, up to `limit`.
    pub(crate) fn execute_admin_within(
        &mut self,
        limit: Duration,
        what: &'static str,
        command: Command,
    ) -> Result<Done, NvmeError> {
        let id = self.admin.submit(command)?;
        self.admin.ring_doorbell();
        let done = wait_for_completion(&mut self.admin, self.link.registers(), id, limit)?;
        if done.status.is_success() {
            Ok(done)
        } else {
            Err(NvmeError::Refused { what, status: done.status })
        }
    }

    /// The controller's Identify data.
    pub fn identity(&self) -> &identify::Controller {
        &self.identity
    }

    /// Active namespaces, without those whose format has metadata.
    pub fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// Allocates at least `bytes` of memory, in whole pages, and maps it.
    ///
    /// # Errors
    /// [`NvmeError::Dma`]
    pub fn allocate(&mut self, bytes: u64) -> Result<Buffer, NvmeError> {
        Ok(Buffer(self.mapper.allocate_coherent(bytes, &mut self.counters)?))
    }

    /// Unmaps and frees a buffer. No command may use it any more.
    ///
    /// # Errors
    /// [`NvmeError::Dma`]
    pub fn free(&mut self, buffer: Buffer) -> Result<(), NvmeError> {
        Ok(self.mapper.free_coherent(buffer.0, &mut self.counters)?)
    }

    /// Creates a polled queue pair, for one thread. It takes `entries - 1` commands at a time.
    ///
    /// # Errors
    /// [`NvmeError`]; also if the controller granted no further queue.
    pub fn queue_pair(&mut self, entries: u16) -> Result<QueuePair, NvmeError> {
        self.queue_pair_with(QueueOptions::polled(entries))
    }

    /// Creates a queue pair with options.
    ///
    /// # Errors
    /// As for [`queue_pair`](Self::queue_pair).
    pub fn queue_pair_with(&mut self, options: QueueOptions) -> Result<QueuePair, NvmeError> {
        let number = (1..=self.pairs_max).find(|number| !self.mapped.contains_key(number));
        let number = number.ok_or(NvmeError::Unsupported("further I/O queue"))?;
        let entries_max = self.capabilities.queue_entries_max().min(u32::from(COMMANDS_MAX) + 1) as u16;
        let options = QueueOptions { entries: options.entries.clamp(2, entries_max), ..options };
        let (layout, memory) =
            allocate_queue_memory(&self.mapper, options, number, self.capabilities, &mut self.counters)?;
        // From here on the controller may use the memory, even if creation fails.
        self.mapped.insert(number, Mapped { memory, namespace: options.namespace });
        let queue = QueuePair::new(Arc::clone(&self.link), Arc::clone(&self.ram), layout);
        let created = queue.map_err(NvmeError::from).and_then(|queue| self.create(layout).map(|()| queue));
        if created.is_err() {
            self.abandoned.1.push(number);
        }
        created
    }

    /// Creates the completion queue and the submission queue on the controller.
    pub(crate) fn create(&mut self, layout: QueueLayout) -> Result<(), NvmeError> {
        let QueueLayout { number, entries, vector, .. } = layout;
        let command = Command::create_completion_queue(number, entries, layout.completions.1.0, vector);
        self.execute_admin("creating a completion queue", command)?;
        let command = Command::create_submission_queue(number, entries, layout.submissions.1.0, number);
        self.execute_admin("creating a submission queue", command).map(|_| ())
    }

    /// Deletes a queue pair with its commands in flight, and frees its memory.
    ///
    /// # Errors
    /// [`NvmeError`]; then the memory stays mapped until the next reset.
    pub fn delete(&mut self, queue: QueuePair) -> Result<(), NvmeError> {
        let number = queue.layout.number;
        let commands = [
            ("deleting a submission queue", Command::delete_submission_queue(number)),
            ("deleting a completion queue", Command::delete_completion_queue(number)),
        ];
        for (what, command) in commands {
            match self.execute_admin(what, command) {
                Ok(_) => {}
                // The reset already deleted the queue.
                Err(NvmeError::Refused { status, .. }) if means_no_queue(status) => {}
                Err(error) => {
                    self.abandoned.1.push(number);
                    return Err(error);
                }
            }
        }
        drop(queue);
        self.free_queue_memory(number)
    }

    /// I/O queues for a namespace, also those whose creation or deletion failed. Those of no namespace may be for any that is attached.
    pub(crate) fn queues_of(&self, namespace: u32, is_attached: bool) -> usize {
        let pairs = self.mapped.iter().filter(|(number, _)| **number != 0);
        let is_for = |its: Option<u32>| its.map_or(is_attached, |its| its == namespace);
        pairs.filter(|(_, mapped)| is_for(mapped.namespace)).count()
    }

    /// Frees the memory of a queue pair.
    fn free_queue_memory(&mut self, number: u16) -> Result<(), NvmeError> {
        for coherent in self.mapped.remove(&number).into_iter().flat_map(|mapped| mapped.memory) {
            self.mapper.free_coherent(coherent, &mut self.counters)?;
        }
        Ok(())
    }

    /// Has queues leave the controller when this is signalled: the system wants the adapter back.
    #[cfg(target_os = "linux")]
    pub fn on_removal_request(&mut self, request: Interrupt) {
        self.removal_request = Some(request);
    }

    /// Whether the system wants the adapter back. It waits until the adapter is closed.
    #[cfg(target_os = "linux")]
    pub fn is_wanted_back(&self) -> bool {
        self.removal_request.as_ref().is_some_and(Interrupt::is_pending)
    }

    /// What this process's queues for a namespace know of its writes that were not flushed; `None` if the controller has no volatile write cache.
    pub(crate) fn unflushed(&mut self, namespace: u32) -> Option<Arc<Unflushed>> {
        let new = || Arc::new(Unflushed::new());
        let has_cache = self.identity.has_write_cache;
        has_cache.then(|| Arc::clone(self.unflushed.entry(namespace).or_insert_with(new)))
    }

    /// The memory shared with the controller.
    pub fn ram(&self) -> Arc<Ram> {
        Arc::clone(&self.ram)
    }

    /// Sets the timeout of admin commands, 60 s by default.
    pub fn set_admin_timeout(&mut self, limit: Duration) {
        self.admin_timeout = limit;
    }

    /// Locks a shared controller, unless another thread has it for longer than until then.
    #[cfg(target_os = "linux")]
    pub(crate) fn lock_until(shared: &Mutex<Self>, end: Instant) -> Option<MutexGuard<'_, Self>> {
        loop {
            match shared.try_lock() {
                Ok(guard) => return Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_INTERVAL),
            }
        }
    }

    /// Keeps a queue's memory until the next reset: the controller may use it until then.
    #[cfg(target_os = "linux")]
    pub(crate) fn abandon(&mut self, queue: &QueuePair, buffer: Buffer) {
        self.abandoned.0.push(buffer);
        self.abandoned.1.push(queue.layout.number);
    }

    /// Locks a shared controller. A lock poisoned by a panic is used all the same: the registers show the
    /// controller's state.
    pub fn lock(shared: &Mutex<Self>) -> MutexGuard<'_, Self> {
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counters of the mappings made for the controller.
    pub fn counters(&self) -> DmaCounters {
        self.counters
    }

    /// Shuts the controller down, which saves its write cache, and frees the queues' memory.
    ///
    /// # Errors
    /// [`NvmeError`]; then the memory stays mapped.
    pub fn shut_down(mut self) -> Result<(), NvmeError> {
        let registers = self.link.registers();
        let configuration = Configuration(registers.read_u32(register::CONFIGURATION));
        let has_cache = configuration.is_enabled();
        registers.write_u32(register::CONFIGURATION, configuration.shutting_down().0);
        let is_down = register::Status::is_shut_down;
        wait_for_status(registers, SHUTDOWN_TIMEOUT, "shut down", is_down)?;
        self.unflushed.values().filter(|_| has_cache).for_each(|unflushed| unflushed.save());
        self.link.start_generation();
        disable(self.link.registers(), self.capabilities)?;
        let numbers: Vec<u16> = self.mapped.keys().copied().collect();
        numbers.into_iter().try_for_each(|number| self.free_queue_memory(number))
    }
}

/// Whether the status says that the queue does not exist. Ignores the Do Not Retry bit.
fn means_no_queue(status: Status) -> bool {
    (status.kind(), status.code()) == (Status::INVALID_QUEUE.kind(), Status::INVALID_QUEUE.code())
}

/// Checks that the controller has what this driver needs: pages of 4 KiB, queues, and the NVM command set.
fn check_capabilities(capabilities: Capabilities) -> Result<(), NvmeError> {
    if capabilities.0 == u64::MAX {
        return Err(NvmeError::Gone);
    }
    let [low, high] = capabilities.page_bytes();
    match capabilities {
        _ if !(low..=high).contains(&PAGE_BYTES) => Err(NvmeError::Unsupported("memory pages of 4 KiB")),
        // One entry always stays unused; the specification's minimum is two (Base, 3.1.3.1).
        _ if capabilities.queue_entries_max() < 2 => Err(NvmeError::Unsupported("queues of two entries")),
        _ if !capabilities.has_nvm_commands() => Err(NvmeError::Unsupported("NVM command set")),
        _ => Ok(()),
    }
}

/// Allocates both rings of a queue and the list memory of its commands.
fn allocate_queue_memory(
    mapper: &Mapper,
    options: QueueOptions,
    number: u16,
    capabilities: Capabilities,
    counters: &mut DmaCounters,
) -> Result<(QueueLayout, Vec<Coherent>), NvmeError> {
    let QueueOptions { entries, vector, .. } = options;
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
