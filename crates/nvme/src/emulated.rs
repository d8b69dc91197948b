//! A controller in this process, for tests: it reaches memory through an IOMMU in software and in no other way, does what the
//! specification says as soon as a doorbell is rung, and fails where it is told to.

mod media;
mod state;

use crate::registers::Registers;
use crate::spec::identify::Namespace;
use crate::spec::registers::{self as register, Configuration};
use crate::spec::status::Status;
use dma::Adapter;
use media::Media;
use state::State;
pub use state::{NAMESPACE, QUEUES_MAX};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What goes wrong with an I/O command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is done, and nobody is told.
    LostCompletion,
    /// It is done, and its completion has the phase of the round before: who polls does not see it, nor what comes behind it.
    WrongPhase,
    /// It is not done, and completed with this.
    Status(Status),
    /// It is completed under an identifier that nobody has given.
    WrongIdentifier,
    /// It is completed twice.
    Twice,
    /// It is not done until somebody asks to abort it, or resets the controller.
    Stuck,
    /// The controller fails (`CSTS.CFS`), and does nothing until it is reset.
    Fatal,
    /// The link is reset: the controller is as after power-on, and has forgotten all queues.
    LinkReset,
    /// The adapter is pulled out.
    Gone,
}

/// An emulated controller with one namespace.
pub struct Emulated {
    adapter: Adapter,
    state: Mutex<State>,
}

impl fmt::Debug for Emulated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Emulated").field("commands", &self.commands()).finish_non_exhaustive()
    }
}

impl Emulated {
    /// A controller whose disk has so many blocks of `1 << block_shift` bytes, all zero, and which reaches memory by these hands.
    pub fn new(adapter: Adapter, blocks: u64, block_shift: u8) -> Self {
        let media = Media::new(Namespace { blocks, block_shift, metadata_bytes: 0, is_shared: false });
        Self { adapter, state: Mutex::new(State::new(media)) }
    }

    /// The I/O command with this number, counted from 0 since the beginning of time, fails so.
    pub fn fail(&self, number: u64, fault: Fault) {
        self.state().faults.insert(number, fault);
    }

    /// Every command that begins with this block fails so.
    pub fn fail_block(&self, block: u64, fault: Fault) {
        self.state().block_faults.insert(block, fault);
    }

    /// From now on it says that it is another controller, with other disks.
    pub fn become_another(&self) {
        self.state().is_another = true;
    }

    /// From now on it has no namespace.
    pub fn lose_namespace(&self) {
        self.state().has_namespace = false;
    }

    /// What is done when a completion queue interrupts, with its vector. It must not reach for this controller.
    pub fn on_interrupt(&self, signal: impl Fn(u16) + Send + 'static) {
        self.state().signal = Some(Box::new(signal));
    }

    /// I/O commands that were begun.
    pub fn commands(&self) -> u64 {
        self.state().commands
    }

    /// Writes of doorbells, of submissions and completions.
    pub fn doorbells(&self) -> u64 {
        self.state().doorbells
    }

    /// What is on the disk.
    pub fn disk(&self) -> Vec<u8> {
        self.state().media.bytes().to_vec()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic elsewhere has left is looked at all the same: it is a test's.
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
            register::CAPABILITIES => state::capabilities().0,
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
