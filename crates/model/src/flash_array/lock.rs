//! The kernel's locks and who shares them.

use super::path::PathId;
use super::setup::Setup;

/// What a lock protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// A disk in the disk driver: shared by all who use the disk.
    Disk,
    /// A port in the protocol module: shared by all who use the path.
    Port,
    /// An adapter's queue: shared by all disks assigned to it. Fibre Channel has one for all.
    Queue,
    /// An adapter's DMA window: shared by all who use the adapter.
    Window,
}

impl LockKind {
    /// All kinds, in the order of their lock numbers.
    pub const ALL: [Self; 4] = [Self::Disk, Self::Port, Self::Queue, Self::Window];

    /// Its name in reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Disk => "a disk's lock",
            Self::Port => "a port's lock",
            Self::Queue => "a queue's lock",
            Self::Window => "a window's lock",
        }
    }
}

/// Numbers of all locks, in the order disks, ports, queues, windows.
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

    /// The number of a disk's lock.
    pub(super) fn disk(self, disk: u32) -> u32 {
        disk
    }

    /// The number of a port's lock.
    pub(super) fn port(self, path: PathId) -> u32 {
        self.disks + path.0
    }

    /// The number of a queue's lock.
    pub(super) fn queue(self, queue: u32) -> u32 {
        self.disks + self.ports + queue
    }

    /// The first lock of an adapter's window.
    pub(super) fn window(self, adapter: u32) -> u32 {
        self.disks + self.ports + self.queues + adapter * self.window_locks
    }

    /// Number of locks of each kind, in the order of their numbers.
    pub(super) fn counts(self) -> [(LockKind, u32); 4] {
        let windows = self.windows * self.window_locks;
        let counts = [self.disks, self.ports, self.queues, windows];
        std::array::from_fn(|kind| (LockKind::ALL[kind], counts[kind]))
    }

    /// Cache lines that move with each lock.
    pub(super) fn lines(self, setup: &Setup) -> impl Iterator<Item = f64> {
        let stack = setup.stack;
        let lines_of = move |kind| match kind {
            LockKind::Disk => stack.disk.lines,
            LockKind::Port => stack.protocol.map_or(1.0, |protocol| protocol.lines),
            LockKind::Queue => stack.adapter.lines,
            LockKind::Window => {
                setup.translation.as_ref().map_or(1.0, |translation| translation.cost.lock_lines)
            }
        };
        self.counts()
            .into_iter()
            .flat_map(move |(kind, count)| std::iter::repeat_n(lines_of(kind), count as usize))
    }
}
