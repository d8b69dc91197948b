//! NUMA distances of a host's memory.

use super::cpus::Cpus;
use des::Span;

/// NUMA memory: each node has a part. Memory is allocated on the node of the allocating CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// Node of the adapter.
    pub adapter_node: u32,
    /// Addition to an adapter's access to another node.
    pub remote_dma: Span,
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// Addition per cache line that a CPU copies from another node.
    pub remote_line: Span,
    /// Time to copy a byte between application and kernel, in picoseconds.
    pub copy_ps_per_byte: f64,
}

impl Memory {
    /// Time for a CPU to copy bytes that are on a node.
    pub(crate) fn copy(&self, cpus: &Cpus, cpu: u32, from: u32, bytes: u64) -> Span {
        let copied = Span::from_ps_f64(self.copy_ps_per_byte * bytes as f64);
        if cpus.node(cpu) == from {
            return copied;
        }
        let lines = bytes.div_ceil(self.line_bytes) as f64;
        copied + Span::from_ps_f64(self.remote_line.as_ps_f64() * lines)
    }

    /// Addition to an adapter's access to memory on a node.
    pub(crate) fn dma(&self, node: u32) -> Span {
        if node == self.adapter_node { Span::ZERO } else { self.remote_dma }
    }
}
