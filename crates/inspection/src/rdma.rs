//! RDMA devices.

use crate::citation::Citations;
use host::Bdf;
use host::facts::Host;
use host::facts::rdma::{Engine, RdmaDevice as Facts, RdmaPort as PortFacts};
use host::memory::MemoryType;
use serde::Serialize;
use std::collections::BTreeSet;

/// A device that moves data by RDMA.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RdmaDevice {
    /// Its name: `mlx5_0`.
    pub name: String,
    /// The adapter that does its work; null for one of software, and for one of no PCI function.
    pub adapter: Option<Bdf>,
    /// The kernel does its work, not an adapter.
    pub is_software: bool,
    /// The network interface that soft-RoCE uses.
    pub network_interface: Option<String>,
    /// Its ports.
    pub ports: Vec<RdmaPort>,
    /// Queue pairs that exist, those of the kernel included.
    pub queue_pairs: Option<u64>,
    /// Memory registrations that exist.
    pub registrations: Option<u64>,
    /// Types with which parts of its adapter's registers are mapped: doorbells should be `write-combining`. Null if the kernel's list of
    /// mappings was not read.
    pub register_mappings: Option<Vec<MemoryType>>,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RdmaPort {
    /// Its number, from 1.
    pub number: u32,
    /// `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
    /// Whether its link carries data.
    pub is_active: Option<bool>,
    /// Its rate as sysfs has it: `100 Gb/sec (4X EDR)`.
    pub rate: Option<String>,
    /// Data that its link carries at most in one direction, in Mb/s, after line encoding.
    pub data_mbps: Option<u32>,
}

impl RdmaDevice {
    /// All RDMA devices of a host that `wanted` lets through, by their adapters' addresses.
    pub(crate) fn all(host: &Host, wanted: impl Fn(Bdf) -> bool, citations: &mut Citations) -> Vec<Self> {
        let devices = host.rdma.iter().filter(|device| device.adapter().is_none_or(&wanted));
        devices.enumerate().map(|(row, device)| Self::new(row, device, host, citations)).collect()
    }

    /// Converts a device and records its citations. `row` is its index in `rdma_devices`.
    fn new(row: usize, facts: &Facts, host: &Host, citations: &mut Citations) -> Self {
        let at = |name: &str| format!("/rdma_devices/{row}/{name}");
        let interface = match &facts.engine {
            Engine::Software(interface) => interface.as_ref(),
            Engine::Adapter(_) | Engine::Other => None,
        };
        let listed = host.memory.as_ref().map(|memory| &memory.memtypes).filter(|listed| !listed.is_empty());
        let types = |listed: &Vec<_>| facts.mappings(listed).map(|mapping| mapping.value.kind).collect();
        Self {
            name: facts.name.clone(),
            adapter: facts.adapter(),
            is_software: matches!(facts.engine, Engine::Software(_)),
            network_interface: citations.cite_value(at("network_interface"), interface),
            ports: facts.ports.iter().map(RdmaPort::new).collect(),
            queue_pairs: citations.cite_value(at("queue_pairs"), facts.queue_pairs.as_ref()),
            registrations: citations.cite_value(at("registrations"), facts.registrations.as_ref()),
            register_mappings: listed.map(types).map(|types: BTreeSet<_>| types.into_iter().collect()),
        }
    }
}

impl RdmaPort {
    /// Converts a port.
    fn new(facts: &PortFacts) -> Self {
        Self {
            number: facts.number,
            link_layer: facts.link_layer.clone(),
            is_active: facts.is_active,
            rate: facts.rate.as_ref().map(|rate| rate.value.clone()),
            data_mbps: facts.data_mbps(),
        }
    }
}
