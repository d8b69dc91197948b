//! Speed and width of a PCI Express link.

use serde::{Serialize, Serializer};
use std::fmt;

/// Signalling rate of one lane (Link Capabilities, Max Link Speed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LinkSpeed {
    /// 2.5 GT/s, PCIe 1.0.
    Gt2_5,
    /// 5 GT/s, PCIe 2.0.
    Gt5,
    /// 8 GT/s, PCIe 3.0.
    Gt8,
    /// 16 GT/s, PCIe 4.0.
    Gt16,
    /// 32 GT/s, PCIe 5.0.
    Gt32,
    /// 64 GT/s, PCIe 6.0.
    Gt64,
}

impl LinkSpeed {
    const ALL: [Self; 6] = [Self::Gt2_5, Self::Gt5, Self::Gt8, Self::Gt16, Self::Gt32, Self::Gt64];

    /// The speed with this code in the link registers, where 1 is 2.5 GT/s.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(code.checked_sub(1)?).ok()?).copied()
    }

    /// The highest speed of a Supported Link Speeds Vector, whose bit 0 is 2.5 GT/s.
    pub fn highest_of(vector: u32) -> Option<Self> {
        (vector & 0x3f).checked_ilog2().and_then(|bit| Self::from_code(bit + 1))
    }

    /// Reads `8 GT/s`, `8.0 GT/s PCIe` (sysfs, before and since Linux 5.x) and `8GT/s` (lspci).
    /// Returns `None` for `Unknown` and `Unknown speed`.
    pub fn parse(text: &str) -> Option<Self> {
        let (number, _) = text.trim().split_once("GT/s")?;
        Self::ALL.into_iter().find(|speed| {
            let number = number.trim_end();
            number.strip_suffix(".0").unwrap_or(number) == speed.gigatransfers().to_string()
        })
    }

    /// The rate in GT/s.
    fn gigatransfers(self) -> f64 {
        match self {
            Self::Gt2_5 => 2.5,
            Self::Gt5 => 5.0,
            Self::Gt8 => 8.0,
            Self::Gt16 => 16.0,
            Self::Gt32 => 32.0,
            Self::Gt64 => 64.0,
        }
    }

    /// Bandwidth of a lane after line encoding, in Mb/s as numerator and denominator. The encoding is 8b/10b up
    /// to 5 GT/s and 128b/130b up to 32 GT/s. At 64 GT/s, 242 of a flit's 256 bytes are TLPs and DLLPs.
    pub(super) fn lane_megabits(self) -> (u32, u32) {
        match self {
            Self::Gt2_5 => (2_500 * 8, 10),
            Self::Gt5 => (5_000 * 8, 10),
            Self::Gt8 => (8_000 * 128, 130),
            Self::Gt16 => (16_000 * 128, 130),
            Self::Gt32 => (32_000 * 128, 130),
            Self::Gt64 => (64_000 * 242, 256),
        }
    }
}

impl fmt::Display for LinkSpeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GT/s", self.gigatransfers())
    }
}

impl Serialize for LinkSpeed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.gigatransfers())
    }
}

/// Number of lanes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkWidth(u8);

impl LinkWidth {
    /// `None` unless links can have this many lanes. 0 means that no link trained; sysfs reports 255 without a link.
    pub fn new(lanes: u8) -> Option<Self> {
        matches!(lanes, 1 | 2 | 4 | 8 | 12 | 16 | 32).then_some(Self(lanes))
    }

    /// Reads `8` (sysfs) and `x8` (lspci).
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        text.strip_prefix('x').unwrap_or(text).parse().ok().and_then(Self::new)
    }

    /// Number of lanes.
    pub fn lanes(self) -> u8 {
        self.0
    }
}

impl fmt::Display for LinkWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_speed(text: &str, expect: Option<LinkSpeed>) {
        assert_eq!(LinkSpeed::parse(text), expect, "{text}");
    }

    #[test]
    fn parses_the_speeds_of_sysfs_and_lspci() {
        check_speed("2.5 GT/s", Some(LinkSpeed::Gt2_5));
        check_speed("2.5 GT/s PCIe", Some(LinkSpeed::Gt2_5));
        check_speed("5 GT/s", Some(LinkSpeed::Gt5));
        check_speed("5.0 GT/s PCIe", Some(LinkSpeed::Gt5));
        check_speed("8 GT/s", Some(LinkSpeed::Gt8));
        check_speed("8.0 GT/s PCIe\n", Some(LinkSpeed::Gt8));
        check_speed("8GT/s", Some(LinkSpeed::Gt8));
        check_speed("16.0 GT/s PCIe", Some(LinkSpeed::Gt16));
        check_speed("32GT/s", Some(LinkSpeed::Gt32));
        check_speed("64.0 GT/s PCIe", Some(LinkSpeed::Gt64));
        check_speed("Unknown", None);
        check_speed("Unknown speed", None);
        check_speed("unknown", None);
        check_speed("7 GT/s", None);
        check_speed("", None);
    }

    #[test]
    fn parses_only_widths_that_links_can_have() {
        for (text, expect) in [("16", 16), ("x8", 8), ("4\n", 4), ("x32", 32)] {
            assert_eq!(LinkWidth::parse(text).map(LinkWidth::lanes), Some(expect), "{text}");
        }
        for text in ["0", "x0", "255", "3", "Unknown", "", "x"] {
            assert_eq!(LinkWidth::parse(text), None, "{text}");
        }
    }

    #[test]
    fn decodes_register_codes_and_vectors_of_speeds() {
        assert_eq!(LinkSpeed::from_code(0), None);
        assert_eq!(LinkSpeed::from_code(1), Some(LinkSpeed::Gt2_5));
        assert_eq!(LinkSpeed::from_code(6), Some(LinkSpeed::Gt64));
        assert_eq!(LinkSpeed::from_code(7), None);
        assert_eq!(LinkSpeed::highest_of(0), None);
        assert_eq!(LinkSpeed::highest_of(0b111), Some(LinkSpeed::Gt8));
    }
}
