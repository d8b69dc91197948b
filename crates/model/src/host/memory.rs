//! Where a host's memory lies, and what it takes to reach it.

use super::cpus::Cpus;
use des::Span;

/// A host's memory: a part of it on each node of its CPUs. What is allocated lies on the node of the CPU that does it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Memory {
    /// The node that the adapter is attached to.
    pub adapter_node: u32,
    /// What an adapter's access to another node's memory takes more.
    pub remote_dma: Span,
    /// Bytes of a cache line.
    pub line_bytes: u64,
    /// What a CPU takes more for each line that it copies from another node.
    pub remote_line: Span,
    /// What it takes to copy a byte between an application and the kernel, in picoseconds.
    pub copy_ps_per_byte: f64,
}

impl Memory {
    /// What a CPU takes to copy bytes that lie on a node.
    pub(crate) fn copy(&self, cpus: &Cpus, cpu: u32, from: u32, bytes: u64) -> Span {
        let copied = Span::from_ps_f64(self.copy_ps_per_byte * bytes as f64);
        if cpus.node(cpu) == from {
            return copied;
        }
        let lines = bytes.div_ceil(self.line_bytes) as f64;
        copied + Span::from_ps_f64(self.remote_line.as_ps_f64() * lines)
    }

    /// What an adapter's access to memory on a node takes more.
    pub(crate) fn dma(&self, node: u32) -> Span {
        if node == self.adapter_node { Span::ZERO } else { self.remote_dma }
    }
}
