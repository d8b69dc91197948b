//! An adapter between a host and an array.

use des::Span;

/// An adapter, of Fibre Channel or CAPI.
#[derive(Debug, Clone, PartialEq)]
pub struct Adapter {
    /// Its ports, each with a cable to a port of the array.
    pub ports: u32,
    /// Queues that the kernel's driver takes, each with a lock and an interrupt of its own: one of Fibre Channel, of CAPI one for each
    /// context. Disks take turns with them.
    pub kernel_queues: u32,
    /// Queues of all; what the kernel leaves, processes may have: one for each of their threads.
    pub queues_max: u32,
    /// What it takes for a command besides memory, bus and wire.
    pub latency: Span,
    /// From its request of memory to the answer, besides the bus.
    pub memory: Span,
    /// A write on its way, either way: doorbells, completions, interrupts.
    pub posted: Span,
    /// Bytes in a second to and from memory, each.
    pub bus_bytes_per_second: f64,
    /// Bytes of data in a second that a port sends and receives, each.
    pub port_bytes_per_second: f64,
    /// From port to port.
    pub wire: Span,
    /// A command whose link was lost is given up so long after.
    pub detection: Span,
}

impl Adapter {
    /// Queues that are left for processes.
    pub(super) fn user_queues(&self) -> u32 {
        self.queues_max - self.kernel_queues
    }
}

/// How long bytes take at a rate.
pub(super) fn time_of(bytes: u64, bytes_per_second: f64) -> Span {
    Span::from_ps_f64(bytes as f64 * 1e12 / bytes_per_second)
}
