//! Which locks there are, and who shares them.

use super::path::PathId;
use super::setup::Setup;

/// What a lock guards, and so who shares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// A disk, in its driver: all who read and write it.
    Disk,
    /// A port, in the protocol's module: all who use the path.
    Port,
    /// A queue of an adapter: all whose disks have it. Of Fibre Channel, everybody.
    Queue,
    /// The table of an adapter's translations: likewise everybody.
    Window,
}

impl LockKind {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Disk, Self::Port, Self::Queue, Self::Window];

    /// The words used for it everywhere.
    pub fn words(self) -> &'static str {
        match self {
            Self::Disk => "a disk's lock",
            Self::Port => "a port's lock",
            Self::Queue => "a queue's lock",
            Self::Window => "a window's lock",
        }
    }
}

/// The numbers of all locks: disks', ports', queues', windows'.
#[derive(Debug, Clone, Copy)]
pub(super) struct Locks {
    disks: u32,
    ports: u32,
    queues: u32,
    windows: u32,
    window_locks: u32,
}

impl Locks {
    pub(super) fn of(setup: &Setup) -> Self {
        let window_locks = setup.translation.map_or(0, |translation| translation.dma_path.locks());
        Self {
            disks: setup.disks,
            ports: if setup.stack.protocol.is_some() { setup.paths() } else { 0 },
            queues: setup.kernel_queues(),
            windows: if setup.translation.is_some() { setup.adapters } else { 0 },
            window_locks,
        }
    }

    pub(super) fn disk(self, disk: u32) -> u32 {
        disk
    }

    pub(super) fn port(self, path: PathId) -> u32 {
        self.disks + path.0
    }

    pub(super) fn queue(self, queue: u32) -> u32 {
        self.disks + self.ports + queue
    }

    /// The first of an adapter's window.
    pub(super) fn window(self, adapter: u32) -> u32 {
        self.disks + self.ports + self.queues + adapter * self.window_locks
    }

    /// How many there are of each kind, in the order of their numbers.
    pub(super) fn counts(self) -> [(LockKind, u32); 4] {
        let windows = self.windows * self.window_locks;
        let counts = [self.disks, self.ports, self.queues, windows];
        std::array::from_fn(|kind| (LockKind::ALL[kind], counts[kind]))
    }

    /// Cache lines that go with each.
    pub(super) fn lines(self, setup: &Setup) -> impl Iterator<Item = f64> {
        let stack = setup.stack;
        let lines_of = move |kind| match kind {
            LockKind::Disk => stack.disk.lines,
            LockKind::Port => stack.protocol.map_or(1.0, |protocol| protocol.lines),
            LockKind::Queue => stack.adapter.lines,
            LockKind::Window => 1.0,
        };
        self.counts()
            .into_iter()
            .flat_map(move |(kind, count)| std::iter::repeat_n(lines_of(kind), count as usize))
    }
}
