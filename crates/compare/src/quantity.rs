//! What is compared.

use serde::Serialize;

/// What is compared. Where it is not a rate already, it is per I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Quantity {
    /// Completed requests or packets, always per second.
    Io,
    /// CPU nanoseconds of DMA mapping with what watching added, of all stages or of one.
    CpuNs,
    /// CPU nanoseconds of DMA mapping without what watching added, of all stages or of one.
    CpuWithoutWatchingNs,
    /// Calls that mapped memory.
    Maps,
    /// Calls that unmapped memory.
    Unmaps,
    /// Allocated IOVAs.
    Iovas,
    /// Calls that wrote entries of an I/O page table.
    TableWrites,
    /// Invalidations.
    Invalidations,
    /// Bytes that were mapped through bounce buffers.
    BouncedBytes,
    /// Elapsed nanoseconds of an allocation or mapping and its undoing, times CPUs in use.
    NsPerPair,
    /// CPU nanoseconds of an allocation and its free.
    CpuNsPerPair,
    /// Nanoseconds of a memory access.
    NsPerAccess,
    /// Reads of a disk per second.
    ReadsPerSecond,
    /// Reads of a disk per second of CPU time.
    ReadsPerCpuSecond,
    /// Writes to a disk per second.
    WritesPerSecond,
    /// Writes to a disk per second of CPU time.
    WritesPerCpuSecond,
    /// Answered requests per second.
    TransactionsPerSecond,
    /// Bytes of streams per second, without headers.
    StreamBytesPerSecond,
    /// Bytes per second to or from memory.
    TransferBytesPerSecond,
    /// Nanoseconds of the median round trip.
    RoundTripNs,
    /// CPU nanoseconds of the measuring program.
    ProcessCpuNs,
    /// CPU nanoseconds of a whole host.
    HostCpuNs,
    /// Of these, nanoseconds in interrupts and softirqs.
    InterruptsCpuNs,
}

/// What a quantity is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Requests of block devices.
    Request,
    /// Packets of network devices.
    Packet,
    /// Requests and packets together.
    Io,
    /// Transactions of the network: a request and its answer.
    Transaction,
    /// Messages of a stream.
    Message,
    /// Seconds.
    Second,
    /// Nothing: the quantity is a rate already.
    None,
}

impl Unit {
    /// One of it, in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Packet => "packet",
            Self::Io => "I/O",
            Self::Transaction => "transaction",
            Self::Message => "message",
            Self::Second => "second",
            Self::None => "",
        }
    }
}
