//! An NVMe controller emulated in this process, for tests. It reaches memory only through a software IOMMU, executes
//! commands as soon as a doorbell is written, in the order of the queue, and injects faults. So a command is "in flight" only in
//! that it was not polled yet. It has a volatile write cache, which a [loss of power](Emulated::lose_power) empties.
//!
//! [`Machine::open`] makes the controller, its memory and its IOMMU, and opens it.

mod disk_name;
mod machine;
mod maintenance;
mod media;
mod state;
mod subsystem;
mod write_cache;
mod zones;

use crate::registers::Registers;
use crate::spec::health::Health;
use crate::spec::identify::{self, CopyLimits};
use crate::spec::registers::{self as register, Configuration};
use crate::spec::self_test::SelfTestResult;
use crate::spec::status::Status;
use crate::spec::zone::ZoneState;
pub use disk_name::{DiskName, DiskNameError};
use dma::SoftwareAdapter;
pub use machine::{Machine, MachineBuilder, MachineError};
pub use maintenance::firmware_image;
use media::Media;
pub use media::NAMESPACE;
pub use state::QUEUES_MAX;
use state::State;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use subsystem::Subsystem;
pub use zones::ZoneOptions;

/// A fault injected into an I/O command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The command is executed, but no completion is written.
    LostCompletion,
    /// The completion is written with the wrong phase tag: a poller does not see it, nor any completion behind it.
    WrongPhase,
    /// The command is not executed, and completes with this status.
    Status(Status),
    /// The completion carries an identifier that is not in flight.
    WrongIdentifier,
    /// The completion is written twice.
    Twice,
    /// The command is not executed until it is aborted or the controller is reset.
    Stuck,
    /// The controller sets CSTS.CFS and does nothing until a reset.
    Fatal,
    /// The link is reset: the controller is as after power-on, without queues.
    LinkReset,
    /// The adapter is removed: its registers read as all ones.
    Gone,
}

/// An emulated controller. Its subsystem has one namespace at first.
pub struct Emulated {
    adapter: SoftwareAdapter,
    state: Mutex<State>,
}

impl fmt::Debug for Emulated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Emulated").field("commands", &self.commands()).finish_non_exhaustive()
    }
}

impl Emulated {
    /// Creates a controller whose disk has `blocks` zeroed blocks of `1 << block_shift` bytes. It does its DMA as
    /// `adapter`.
    pub fn new(adapter: SoftwareAdapter, blocks: u64, block_shift: u8) -> Self {
        Self::of_subsystem(adapter, Arc::new(Mutex::new(Subsystem::new(blocks, block_shift))))
    }

    fn of_subsystem(adapter: SoftwareAdapter, subsystem: Arc<Mutex<Subsystem>>) -> Self {
        Self { adapter, state: Mutex::new(State::new(subsystem)) }
    }

    /// Another controller of the same subsystem, with the same disk, which says from now on that it may be shared. It does its DMA as `adapter`.
    pub fn another_path(&self, adapter: SoftwareAdapter) -> Self {
        self.share();
        let subsystem = Arc::clone(&self.state().subsystem);
        Self::of_subsystem(adapter, subsystem)
    }

    /// The disk says from now on that several controllers may attach it.
    pub(crate) fn share(&self) {
        self.change_disk(|media| media.namespace.is_shared = true);
    }

    /// Adds media that no namespace has, so that namespaces can be created.
    pub fn add_unallocated(&self, bytes: u64) {
        self.state().subsystem().unallocated_bytes += u128::from(bytes);
    }

    /// The same with a disk that has zones, which must be written sequentially. What is written to a zone is on the media at once.
    pub fn with_zones(adapter: SoftwareAdapter, blocks: u64, block_shift: u8, zones: ZoneOptions) -> Self {
        let emulated = Self::new(adapter, blocks, block_shift);
        emulated.change_disk(|media| media.divide(zones));
        emulated
    }

    /// Changes the disk that there is at first, unless it was deleted.
    fn change_disk(&self, change: impl FnOnce(&mut Media)) {
        if let Some(media) = self.state().subsystem().media(NAMESPACE) {
            change(media);
        }
    }

    /// Sets the state of the zone that holds a block, as wear of the media may.
    pub fn set_zone_state(&self, block: u64, state: ZoneState) {
        self.change_disk(|media| {
            if let Some(zones) = &mut media.zones {
                zones.set_state(block, state);
            }
        });
    }

    /// Injects a fault into I/O command `number`, counted from 0 since the controller was created.
    pub fn inject(&self, number: u64, fault: Fault) {
        self.state().faults.insert(number, fault);
    }

    /// Injects a fault into every command that starts at this block.
    pub fn inject_at_block(&self, block: u64, fault: Fault) {
        self.state().block_faults.insert(block, fault);
    }

    /// Reports another serial number and other namespaces from now on.
    pub fn change_identity(&self) {
        self.state().is_another = true;
    }

    /// Detaches all namespaces from this controller, as another one may.
    pub fn remove_namespace(&self) {
        let state = self.state();
        state.subsystem().detach_all(state.controller);
    }

    /// Changes what Identify Controller reports from now on. It is read when the controller is opened.
    pub fn change_controller(&self, change: impl FnOnce(&mut identify::Controller)) {
        change(&mut self.state().identity);
    }

    /// Sets what one Copy takes. It is read when the controller is opened.
    pub fn set_copy_limits(&self, limits: CopyLimits) {
        self.change_disk(|media| media.namespace.copy_limits = limits);
    }

    /// Loses power and has it again. Writes that completed are lost, unless they were flushed or had Force Unit Access, and the controller
    /// is as after power-on.
    pub fn lose_power(&self) {
        self.state().lose_power();
    }

    /// Changes the health log.
    pub fn change_health(&self, change: impl FnOnce(&mut Health)) {
        change(&mut self.state().maintenance.health);
    }

    /// Has self-tests advance by so many percent at each read of their log, and end with this result.
    pub fn plan_self_test(&self, step_percent: u8, result: SelfTestResult) {
        let maintenance = &mut self.state().maintenance;
        (maintenance.test_step, maintenance.test_result) = (step_percent, result);
    }

    /// Reports these bytes as the log page of an identifier from now on, as a broken or hostile controller may.
    pub fn make_up_log_page(&self, identifier: u8, bytes: Vec<u8>) {
        self.state().maintenance.made_up.insert(identifier, bytes);
    }

    /// Firmware images committed so far, as they arrived.
    pub fn downloads(&self) -> Vec<Vec<u8>> {
        self.state().maintenance.downloads.clone()
    }

    /// Opcodes of the admin commands executed so far.
    pub fn admin_opcodes(&self) -> Vec<u8> {
        self.state().maintenance.opcodes.clone()
    }

    /// Sets the interrupt handler: it is called with the vector of a completion queue. It must not access this
    /// controller.
    pub fn on_interrupt(&self, interrupt_handler: impl Fn(u16) + Send + 'static) {
        self.state().interrupt_handler = Some(Box::new(interrupt_handler));
    }

    /// I/O commands fetched so far.
    pub fn commands(&self) -> u64 {
        self.state().commands
    }

    /// Doorbell writes so far, of both kinds.
    pub fn doorbells(&self) -> u64 {
        self.state().doorbells
    }

    /// A copy of the content of the disk that there is at first, as reads see it; empty if it was deleted.
    pub fn disk(&self) -> Vec<u8> {
        self.content(NAMESPACE).unwrap_or_default()
    }

    /// A copy of a namespace's content, attached to this controller or not; `None` if it is not allocated.
    pub fn content(&self, namespace: u32) -> Option<Vec<u8>> {
        self.state().subsystem().media(namespace).map(|media| media.bytes().to_vec())
    }

    /// The controller's state, locked.
    fn state(&self) -> MutexGuard<'_, State> {
        // A test that panicked elsewhere poisons the lock; its state is still worth reading.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            register::CAPABILITIES => state.capabilities().0,
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
            register::CONFIGURATION => state.write_configuration(Configuration(value)),
            register::ADMIN_QUEUES => state.admin_entries = value,
            at if at >= register::DOORBELLS => state.write_doorbell(&self.adapter, at, value),
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
