//! A PCI Express link: bytes and time of each kind of transfer.
//!
//! The packet arithmetic follows Neugebauer and others, "Understanding PCIe performance for end host networking",
//! 2018. Each transaction layer packet (TLP) has framing, a sequence number and a link CRC (8 bytes), and a header of
//! 12 or 16 bytes. Acknowledgements and flow control take a constant share of the link.

use des::Span;
use serde::{Deserialize, Serialize};

/// A generation of PCI Express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "u8", into = "u8")]
pub enum Generation {
    /// 2.5 GT/s.
    Gen1,
    /// 5 GT/s.
    Gen2,
    /// 8 GT/s.
    Gen3,
    /// 16 GT/s.
    Gen4,
    /// 32 GT/s.
    Gen5,
    /// 64 GT/s.
    Gen6,
}

/// An unknown generation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no PCIe generation {0}: 1 to 6")]
pub struct UnknownGeneration(u8);

impl TryFrom<u8> for Generation {
    type Error = UnknownGeneration;

    fn try_from(number: u8) -> Result<Self, Self::Error> {
        let all = [Self::Gen1, Self::Gen2, Self::Gen3, Self::Gen4, Self::Gen5, Self::Gen6];
        let place = usize::from(number).checked_sub(1);
        place.and_then(|place| all.get(place)).copied().ok_or(UnknownGeneration(number))
    }
}

impl From<Generation> for u8 {
    fn from(generation: Generation) -> Self {
        generation as Self + 1
    }
}

impl Generation {
    /// Bit rate of a lane after line coding (PCI Express Base Specification: 8b/10b, 128b/130b, 242B/256B).
    fn lane_bits_per_second(self) -> f64 {
        match self {
            Self::Gen1 => 2.5e9 * 8.0 / 10.0,
            Self::Gen2 => 5e9 * 8.0 / 10.0,
            Self::Gen3 => 8e9 * 128.0 / 130.0,
            Self::Gen4 => 16e9 * 128.0 / 130.0,
            Self::Gen5 => 32e9 * 128.0 / 130.0,
            Self::Gen6 => 64e9 * 242.0 / 256.0,
        }
    }
}

/// A trained link.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Generation.
    pub generation: Generation,
    /// Lanes in use.
    pub lanes: u32,
    /// Maximum payload size (MPS).
    pub payload_bytes_max: u64,
    /// Maximum read request size (MRRS).
    pub read_request_bytes_max: u64,
    /// Read completion boundary (RCB).
    pub completion_boundary_bytes: u64,
    /// Share used by acknowledgements, flow control and skips, 0 to 1.
    pub overhead_share: f64,
}

/// Framing, sequence number and link CRC.
const ENVELOPE: u64 = 8;
/// First dword of each header.
const HEADER: u64 = 4;
/// Rest of a request's header, with a 64-bit address.
const REQUEST: u64 = 12;
/// Rest of a completion's header.
const COMPLETION: u64 = 8;

impl Link {
    /// Bit rate after line coding.
    pub fn raw_bits_per_second(&self) -> f64 {
        self.generation.lane_bits_per_second() * f64::from(self.lanes)
    }

    /// Bit rate available for TLPs.
    pub fn packet_bits_per_second(&self) -> f64 {
        self.raw_bits_per_second() * (1.0 - self.overhead_share)
    }

    /// Time that bytes of TLPs take.
    pub fn time_of(&self, wire_bytes: u64) -> Span {
        Span::from_ps_f64(wire_bytes as f64 * 8e12 / self.packet_bits_per_second())
    }

    /// Bytes on the link towards memory for a write.
    pub fn write_bytes(&self, address: u64, bytes: u64) -> u64 {
        // A TLP may not cross 4 KiB, which is a multiple of every payload size.
        let packets = pieces(address, bytes, self.payload_bytes_max);
        bytes + packets * (ENVELOPE + HEADER + REQUEST)
    }

    /// Number of read requests.
    pub fn read_requests(&self, address: u64, bytes: u64) -> u64 {
        pieces(address, bytes, self.read_request_bytes_max)
    }

    /// Bytes on the link towards memory for the requests of a read.
    pub fn read_request_bytes(&self, address: u64, bytes: u64) -> u64 {
        self.read_requests(address, bytes) * (ENVELOPE + HEADER + REQUEST)
    }

    /// Bytes on the link from memory for the completions of a read. Completions are as large as the payload size
    /// allows, and end at a read completion boundary.
    pub fn completion_bytes(&self, address: u64, bytes: u64) -> u64 {
        bytes + self.completions(address, bytes) * (ENVELOPE + HEADER + COMPLETION)
    }

    /// Number of completions of a read. The first ends at a boundary, so the others begin at one.
    pub fn completions(&self, address: u64, bytes: u64) -> u64 {
        let unit = self.payload_bytes_max.max(self.completion_boundary_bytes);
        pieces(address % self.completion_boundary_bytes.max(1), bytes, unit)
    }
}

/// Number of pieces when a range is split at multiples of `unit`.
fn pieces(address: u64, bytes: u64, unit: u64) -> u64 {
    let unit = unit.max(1);
    match bytes {
        0 => 0,
        _ => (address % unit + bytes).div_ceil(unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the authors' program takes off: 8 bytes in so many before an acknowledgement, the same for flow control, 4 in 1,538 for
    /// skips.
    fn overhead(acknowledged: f64, flow_control: f64) -> f64 {
        8.0 / acknowledged + 8.0 / flow_control + 4.0 / 1538.0
    }

    fn link(generation: u8, lanes: u32, payload_bytes_max: u64, overhead_share: f64) -> Link {
        Link {
            generation: generation.try_into().unwrap(),
            lanes,
            payload_bytes_max,
            read_request_bytes_max: 512,
            completion_boundary_bytes: 64,
            overhead_share,
        }
    }

    /// Gigabits in a second of transfers one after the other, the slower direction ruling.
    fn gigabits(link: &Link, bytes: u64, wire: [u64; 2]) -> f64 {
        let share = bytes as f64 / wire[0].max(wire[1]) as f64;
        link.packet_bits_per_second() * share / 1e9
    }

    #[test]
    fn raw_rates_are_those_of_the_specification() {
        let rates = [(1, 8), (2, 8), (3, 8), (4, 16)].map(|(generation, lanes)| {
            (link(generation, lanes, 256, 0.0).raw_bits_per_second() / 1e7).round() / 100.0
        });
        assert_eq!(rates, [16.0, 32.0, 63.02, 252.06]);
        (1..=6).for_each(|number| assert_eq!(u8::from(Generation::try_from(number).unwrap()), number));
        assert!(Generation::try_from(0).is_err() && Generation::try_from(7).is_err());
    }

    /// Writes and reads of 64, 128, 256 and 512 bytes in Gb/s, of so many for packets.
    struct Published {
        link: (u8, u32, u64),
        packets: f64,
        writes: [f64; 4],
        reads: [f64; 4],
    }

    /// Neugebauer and others, program pcie-model, 2018: requests of 512 bytes.
    const PUBLISHED: [Published; 5] = [
        Published {
            link: (1, 8, 128),
            packets: 12.14,
            writes: [8.83, 10.22, 10.22, 10.22],
            reads: [9.25, 10.50, 10.50, 10.50],
        },
        Published {
            link: (1, 8, 256),
            packets: 13.57,
            writes: [9.87, 11.42, 12.40, 12.40],
            reads: [10.34, 11.73, 12.58, 12.58],
        },
        Published {
            link: (2, 8, 128),
            packets: 27.58,
            writes: [20.06, 23.22, 23.22, 23.22],
            reads: [21.01, 23.85, 23.85, 23.85],
        },
        Published {
            link: (3, 8, 256),
            packets: 57.88,
            writes: [42.10, 48.75, 52.92, 52.92],
            reads: [44.10, 50.06, 53.69, 53.69],
        },
        Published {
            link: (4, 16, 256),
            packets: 227.40,
            writes: [165.4, 191.5, 207.9, 207.9],
            reads: [173.3, 196.7, 210.9, 210.9],
        },
    ];

    #[test]
    fn transfers_take_the_time_of_the_published_program() {
        for Published { link: (generation, lanes, payload), packets, writes, reads } in PUBLISHED {
            let raw = link(generation, lanes, payload, 0.0).raw_bits_per_second() / 1e9;
            let link = link(generation, lanes, payload, 1.0 - packets / raw);
            for (bytes, (write, read)) in [64, 128, 256, 512].into_iter().zip(writes.into_iter().zip(reads)) {
                let ours = [
                    gigabits(&link, bytes, [link.write_bytes(0, bytes), 0]),
                    gigabits(
                        &link,
                        bytes,
                        [link.read_request_bytes(0, bytes), link.completion_bytes(0, bytes)],
                    ),
                ];
                // Their program rounds what it prints.
                let is_near = |ours: f64, theirs: f64| (ours / theirs - 1.0).abs() < 1e-3;
                assert!(is_near(ours[0], write) && is_near(ours[1], read), "{generation} {bytes} {ours:?}");
            }
        }
        assert!((overhead(203.0, 203.0) - (1.0 - 57.88 / 63.02)).abs() < 0.003);
    }

    #[test]
    fn packets_end_at_boundaries() {
        let link = link(3, 8, 256, 0.0);
        assert_eq!(link.write_bytes(255, 2), 2 + 2 * 24);
        assert_eq!([0, 1, 256, 257].map(|bytes| link.write_bytes(0, bytes) - bytes), [0, 24, 24, 48]);
        assert_eq!(link.read_requests(4, 512), 2);
        // 64 bytes that begin within a boundary: the rest up to it, and what follows.
        assert_eq!(link.completions(0, 64), 1);
        assert_eq!(link.completions(256 - 4, 64), 1);
        assert_eq!(link.time_of(0), Span::ZERO);
        assert_eq!(link.time_of(1).as_ps(), 127);
    }
}
