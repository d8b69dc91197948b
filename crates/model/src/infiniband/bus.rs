//! The bus between adapter and host memory: PCI Express, or PCI-X, which is half-duplex.

use crate::link::Link;
use crate::serial_server::SerialServer;
use des::{Span, Time};

/// Parameters of a bus.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bus {
    /// PCI Express.
    Pcie(Link),
    /// PCI-X.
    PciX(PciX),
}

/// A PCI-X bus, shared by both directions. A read takes two transactions, request and split completion; everything
/// else waits during a transaction (PCI-X Addendum to the PCI Local Bus Specification, revision 1.0a, 2000).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PciX {
    /// Clock rate.
    pub clock_hz: f64,
    /// Bytes per clock.
    pub bytes_per_clock: u64,
    /// Clocks of a transaction without data: arbitration, address, attributes, target response, turnaround.
    pub overhead_clocks: u64,
    /// Most bytes of a transaction; longer ones are split at multiples of this.
    pub burst_bytes_max: u64,
}

impl PciX {
    /// Time to transfer data, in transactions of their own.
    fn data(&self, address: u64, bytes: u64) -> Span {
        let unit = self.burst_bytes_max.max(1);
        let pieces = (address % unit + bytes).div_ceil(unit);
        self.clocks(pieces * self.overhead_clocks + bytes.div_ceil(self.bytes_per_clock.max(1)))
    }

    /// Time of the read requests for data.
    fn requests(&self, address: u64, bytes: u64) -> Span {
        let unit = self.burst_bytes_max.max(1);
        self.clocks((address % unit + bytes).div_ceil(unit) * self.overhead_clocks)
    }

    fn clocks(&self, clocks: u64) -> Span {
        Span::from_ps_f64(clocks as f64 * 1e12 / self.clock_hz)
    }
}

impl Bus {
    /// Peak rate in one direction, including the overhead of packets or transactions.
    pub fn bytes_per_second(&self) -> f64 {
        match self {
            Self::Pcie(link) => link.packet_bits_per_second() / 8.0,
            Self::PciX(bus) => bus.clock_hz * bus.bytes_per_clock as f64,
        }
    }
}

/// State of a bus.
#[derive(Debug, Clone)]
pub(super) struct Lanes {
    bus: Bus,
    /// Towards memory; for PCI-X both directions.
    up: SerialServer,
    down: SerialServer,
}

impl Lanes {
    pub(super) fn new(bus: Bus) -> Self {
        Self { bus, up: SerialServer::default(), down: SerialServer::default() }
    }

    /// Sends the requests of a read towards memory. Returns when they arrive.
    pub(super) fn request(&mut self, now: Time, address: u64, bytes: u64) -> Time {
        match &self.bus {
            Bus::Pcie(link) => self.up.occupy(now, link.time_of(link.read_request_bytes(address, bytes))),
            Bus::PciX(bus) => self.up.occupy(now, bus.requests(address, bytes)),
        }
    }

    /// Transfers the data of a read.
    pub(super) fn completion(&mut self, now: Time, address: u64, bytes: u64) -> Time {
        match &self.bus {
            Bus::Pcie(link) => self.down.occupy(now, link.time_of(link.completion_bytes(address, bytes))),
            Bus::PciX(bus) => self.up.occupy(now, bus.data(address, bytes)),
        }
    }

    /// Transfers a DMA write.
    pub(super) fn write(&mut self, now: Time, address: u64, bytes: u64) -> Time {
        match &self.bus {
            Bus::Pcie(link) => self.up.occupy(now, link.time_of(link.write_bytes(address, bytes))),
            Bus::PciX(bus) => self.up.occupy(now, bus.data(address, bytes)),
        }
    }

    /// Transfers a CPU's write to the adapter.
    pub(super) fn doorbell(&mut self, now: Time, bytes: u64) -> Time {
        match &self.bus {
            Bus::Pcie(link) => self.down.occupy(now, link.time_of(link.write_bytes(0, bytes))),
            Bus::PciX(bus) => self.up.occupy(now, bus.data(0, bytes)),
        }
    }

    /// Busy time towards memory and from memory; for PCI-X both are that of the whole bus.
    pub(super) fn busy(&self, now: Time) -> [Span; 2] {
        match &self.bus {
            Bus::Pcie(_) => [self.up.busy(now), self.down.busy(now)],
            Bus::PciX(_) => [self.up.busy(now); 2],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pcix() -> Bus {
        Bus::PciX(PciX { clock_hz: 125e6, bytes_per_clock: 8, overhead_clocks: 8, burst_bytes_max: 512 })
    }

    #[test]
    fn a_shared_bus_carries_one_thing_after_another() {
        // Clocks of 8 ns.
        let mut lanes = Lanes::new(pcix());
        let at = Time::from_ps;
        assert_eq!(lanes.request(at(0), 0, 1024), at(2 * 8 * 8_000));
        assert_eq!(lanes.completion(at(0), 0, 1024), at((2 * 8 + 2 * 8 + 128) * 8_000));
        assert_eq!(lanes.write(at(0), 504, 16), at((160 + 2 * 8 + 2) * 8_000));
        assert_eq!(lanes.doorbell(at(0), 8), at((178 + 9) * 8_000));
        assert_eq!(lanes.busy(at(187 * 8_000)).map(|span| span.as_ps()), [187 * 8_000; 2]);
        assert!((pcix().bytes_per_second() - 1e9).abs() < 1.0);
    }
}
