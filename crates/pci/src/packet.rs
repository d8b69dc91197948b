//! The header of a transaction layer packet, as a port's error registers keep that of the first packet with an error.
//!
//! Source: PCI Express Base Specification 6.0, sections 2.2.1 (format and type), 2.2.4 (routing), 2.2.7 (requests) and 2.2.9 (completions).

use std::fmt;

/// The four dwords of a header, the first byte of each in its highest bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketHeader(pub [u32; 4]);

/// A function, by bus, device and function in 16 bits.
struct RoutingId(u32);

impl fmt::Display for RoutingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02x}:{:02x}.{:x}", self.0 >> 8, self.0 >> 3 & 0x1f, self.0 & 7)
    }
}

impl PacketHeader {
    /// Whether it has data behind its header: a write or a completion with data.
    fn has_data(self) -> bool {
        self.0[0] >> 30 & 1 == 1
    }

    /// Bytes of data, or asked for.
    fn bytes(self) -> u32 {
        match self.0[0] & 0x3ff {
            0 => 4096,
            dwords => dwords * 4,
        }
    }

    /// The address of a request. Headers of four dwords have 64 bits of it.
    fn address(self) -> u64 {
        let [first, _, high, low] = self.0;
        match first >> 29 & 1 {
            0 => u64::from(high & !3),
            _ => u64::from(high) << 32 | u64::from(low & !3),
        }
    }
}

/// What a message of this code is (section 2.2.8).
fn message(code: u32) -> &'static str {
    match code {
        0x10 => "latency message (LTR)",
        0x14 | 0x18..=0x1b => "power management message",
        0x20..=0x27 => "interrupt message (INTx)",
        0x30..=0x33 => "error message",
        0x7e | 0x7f => "vendor's message",
        _ => "message",
    }
}

/// What the packet is, where it leads and who sent it: `memory write of 4 bytes to 0xfee00000 by 01:00.0`.
impl fmt::Display for PacketHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, third, _] = self.0;
        let (sender, target) = (RoutingId(second >> 16), RoutingId(third >> 16));
        let (verb, to) = if self.has_data() { ("write", "to") } else { ("read", "from") };
        let bytes = self.bytes();
        match first >> 24 & 0x1f {
            _ if first >> 31 == 1 => write!(f, "packet with a prefix"),
            0 | 1 => write!(f, "memory {verb} of {bytes} bytes {to} {:#x} by {sender}", self.address()),
            2 => write!(f, "I/O {verb} {to} {:#x} by {sender}", self.address()),
            4 | 5 => write!(f, "configuration {verb} {to} {target} by {sender}"),
            10 | 11 => write!(f, "completion by {sender} for {target}"),
            12..=14 => write!(f, "atomic operation on {:#x} by {sender}", self.address()),
            16..=23 => write!(f, "{} by {sender}", message(second & 0xff)),
            other => write!(f, "packet of type {other:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_packets() {
        for (words, expect) in [
            // Documentation/PCI/pcieaer-howto.rst
            (
                [0x0400_0001, 0x0020_0a03, 0x0501_0000, 0x0005_0100],
                "configuration read from 05:00.1 by 00:04.0",
            ),
            ([0x4000_0001, 0x0100_000f, 0xfee0_0000, 0], "memory write of 4 bytes to 0xfee00000 by 01:00.0"),
            (
                [0x6000_0000, 0x3b08_00ff, 0x12, 0x3456_7000],
                "memory write of 4096 bytes to 0x1234567000 by 3b:01.0",
            ),
            ([0x2000_0040, 0x3b00_00ff, 1, 0], "memory read of 256 bytes from 0x100000000 by 3b:00.0"),
            ([0x4a00_0001, 0x0100_0004, 0x0000_0000, 0], "completion by 01:00.0 for 00:00.0"),
            ([0x3400_0000, 0x0100_0052, 0, 0], "message by 01:00.0"),
            ([0x3400_0000, 0x0500_0010, 0, 0x8845_8845], "latency message (LTR) by 05:00.0"),
            ([0x4c00_0001, 0x4100_000f, 0xd000_0000, 0], "atomic operation on 0xd0000000 by 41:00.0"),
            ([0x0200_0001, 0x0000_000f, 0xcf8, 0], "I/O read from 0xcf8 by 00:00.0"),
        ] {
            assert_eq!(PacketHeader(words).to_string(), expect, "{words:08x?}");
        }
    }
}
