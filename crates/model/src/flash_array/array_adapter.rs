//! The adapters between host and array.

use des::Span;

/// Parameters of a Fibre Channel or CAPI adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayAdapter {
    /// Ports, each with a cable to a port of the array.
    pub ports: u32,
    /// Queues of the kernel's driver, each with its own lock and interrupt: one for Fibre Channel, one per context
    /// for CAPI. Disks are assigned to them in turn.
    pub kernel_queues: u32,
    /// All queues. Those that the kernel does not use are for processes, one per thread.
    pub queues_max: u32,
    /// Processing time of a command, without memory, bus and wire.
    pub latency: Span,
    /// Latency of a memory read, without the bus.
    pub memory: Span,
    /// Latency of a posted write in either direction: doorbell, completion, interrupt.
    pub posted: Span,
    /// Bandwidth to memory, and from memory.
    pub bus_bytes_per_second: f64,
    /// Bandwidth of a port for data, in each direction.
    pub port_bytes_per_second: f64,
    /// Latency from port to port.
    pub wire: Span,
    /// Time from the loss of a link until its commands fail.
    pub detection: Span,
}

impl ArrayAdapter {
    /// Queues for processes.
    pub(super) fn user_queues(&self) -> u32 {
        self.queues_max - self.kernel_queues
    }
}

/// Transfer time of `bytes` at a rate.
pub(super) fn time_of(bytes: u64, bytes_per_second: f64) -> Span {
    Span::from_ps_f64(bytes as f64 * 1e12 / bytes_per_second)
}
