//! Two emulated controllers that lead to one disk. Each has a write cache of its own, which it loses with its power.

#![allow(dead_code, reason = "each test uses what it needs")]

use dma::vfio::Interrupt;
use nvme::Controller;
use nvme::broker::{Broker, Limits, Share};
use nvme::chunk::{Chunk, ChunkError, DiskPath, RetryPolicy};
use nvme::emulated::{Emulated, Fault, Machine};
use std::path::Path;
use std::sync::{Arc, Mutex};

pub(crate) const BLOCKS: u64 = 256;
pub(crate) const BLOCK: usize = 512;

pub(crate) struct TwoPaths {
    pub(crate) emulated: Vec<Arc<Emulated>>,
    pub(crate) controllers: Vec<Arc<Mutex<Controller>>>,
}

impl TwoPaths {
    /// Two controllers with one disk.
    pub(crate) fn new() -> Self {
        let machines = Machine::builder(BLOCKS, 9).open_paths(2).unwrap().into_iter();
        let both = machines.map(|machine| (machine.emulated, Arc::new(Mutex::new(machine.controller))));
        let (emulated, controllers) = both.unzip();
        Self { emulated, controllers }
    }

    /// The same; the system wants the second one back when the interrupt is signalled.
    pub(crate) fn with_removal() -> (Self, Interrupt) {
        let (bench, request) = (Self::new(), Interrupt::new().unwrap());
        Controller::lock(&bench.controllers[1]).on_removal_request(request.try_clone().unwrap());
        (bench, request)
    }

    pub(crate) fn path(&self, place: usize) -> DiskPath {
        let controller = Arc::clone(&self.controllers[place]);
        let namespace = controller.lock().unwrap().namespaces()[0];
        DiskPath::polled(controller, namespace)
    }

    pub(crate) fn paths(&self) -> Vec<DiskPath> {
        vec![self.path(0), self.path(1)]
    }

    pub(crate) fn chunk(&self) -> Chunk {
        Self::open(&self.paths())
    }

    pub(crate) fn open(paths: &[DiskPath]) -> Chunk {
        Chunk::open(paths, 8, 4096, RetryPolicy::default()).unwrap()
    }

    /// Has the next command of a controller fail.
    pub(crate) fn inject(&self, place: usize, fault: Fault) {
        let emulated = &self.emulated[place];
        emulated.inject(emulated.commands(), fault);
    }

    /// The second controller loses its cache. Then the flush must have failed, or else the blocks of ones are there.
    pub(crate) fn check(&self, flush: &Result<(), ChunkError>, blocks: std::ops::Range<usize>) {
        self.emulated[1].lose_power();
        let disk = self.emulated[0].disk();
        let is_lost = blocks.into_iter().any(|at| disk[at * BLOCK..][..BLOCK] != [1; BLOCK]);
        assert_eq!(flush.is_err(), is_lost, "{flush:?}");
    }

    /// A broker that serves all blocks by both controllers.
    pub(crate) fn broker(&self, socket: &Path) -> Broker {
        let mut limits = Limits::default();
        (limits.threads, limits.requests) = (2, 8);
        let share = Share { socket: socket.to_owned(), first: 0, blocks: BLOCKS, is_writable: true };
        Broker::new(self.paths(), vec![share], limits).unwrap()
    }
}
