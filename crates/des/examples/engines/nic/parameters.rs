//! The numbers of the NIC model, as `bench/nic.toml` has them.

use des::Span;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    pub(crate) rings: u16,
    pub(crate) think_ns_per_flow: u64,
    pub(crate) memory_read_ns: u64,
    pub(crate) echo_ns: u64,
    pub(crate) link: Line,
    pub(crate) wire: Line,
    pub(crate) bytes: Bytes,
    pub(crate) cpu: Cpu,
    pub(crate) moderation: Moderation,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Line {
    pub(crate) ps_per_byte: u64,
    pub(crate) latency_ns: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bytes {
    pub(crate) doorbell: u32,
    pub(crate) request: u32,
    pub(crate) descriptor: u32,
    pub(crate) payload: u32,
    pub(crate) frame: u32,
    pub(crate) delivery: u32,
    pub(crate) interrupt: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cpu {
    pub(crate) write_ns: u64,
    pub(crate) interrupt_ns: u64,
    pub(crate) poll_ns: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Moderation {
    pub(crate) frames: usize,
    pub(crate) wait_ns: u64,
}

impl Parameters {
    /// The mean.
    pub(crate) fn think(&self, flows: u32) -> Span {
        Span::from_ns(self.think_ns_per_flow * u64::from(flows))
    }
}
