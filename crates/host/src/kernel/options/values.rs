//! Values of kernel options, parsed as the kernel parses them.

use crate::kernel::effect::Effect;
use serde::Deserialize;

/// How the program parses a value that is neither a boolean nor a list of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parser {
    /// Any value that is not empty; without an effect.
    Any,
    /// A size; without an effect.
    Size,
    /// Slots, areas and use of the bounce buffer.
    Swiotlb,
    /// A size beyond which memory is not used.
    MemoryLimit,
    /// A change of the firmware's memory map, as written.
    MemoryMap,
    /// PCI device IDs, separated by commas, for vfio-pci.
    DeviceIds,
    /// Functions for which the ACS override patch pretends isolation, as written.
    AcsOverride,
}

impl Parser {
    /// The effects of `value`; `None` if the kernel refuses it.
    pub fn parse(self, value: &str) -> Option<Vec<Effect>> {
        match self {
            Self::Any => (!value.is_empty()).then(Vec::new),
            Self::Size => parse_size(value).map(|_| Vec::new()),
            Self::Swiotlb => parse_swiotlb(value),
            Self::MemoryLimit => Some(vec![Effect::MemoryLimit(parse_size(value)?)]),
            Self::MemoryMap => (!value.is_empty()).then(|| vec![Effect::Memmap(value.to_owned())]),
            Self::DeviceIds => Some(value.split(',').map(|id| Effect::UserOwned(id.to_owned())).collect()),
            Self::AcsOverride => Some(vec![Effect::AcsOverride(value.to_owned())]),
        }
    }
}

/// An effect that a boolean option switches on or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BooleanEffect {
    /// [`Effect::Passthrough`].
    Passthrough,
    /// [`Effect::Strict`].
    Strict,
    /// [`Effect::ForceDac`].
    ForceDac,
    /// [`Effect::UnsafeNoIommu`].
    UnsafeNoIommu,
    /// [`Effect::UnsafeInterrupts`].
    UnsafeInterrupts,
}

impl BooleanEffect {
    /// The effect of the value `on`.
    pub fn with(self, on: bool) -> Effect {
        match self {
            Self::Passthrough => Effect::Passthrough(on),
            Self::Strict => Effect::Strict(on),
            Self::ForceDac => Effect::ForceDac(on),
            Self::UnsafeNoIommu => Effect::UnsafeNoIommu(on),
            Self::UnsafeInterrupts => Effect::UnsafeInterrupts(on),
        }
    }
}

/// An effect that takes the text after a word's `=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TextEffect {
    /// [`Effect::AcsRedirectOff`].
    AcsRedirectOff,
}

impl TextEffect {
    /// The effect of the value `text`.
    pub fn with(self, text: &str) -> Effect {
        match self {
            Self::AcsRedirectOff => Effect::AcsRedirectOff(text.to_owned()),
        }
    }
}

/// Parses `slots[,areas][,force|noforce]`, every part optional (kernel/dma/swiotlb.c).
fn parse_swiotlb(value: &str) -> Option<Vec<Effect>> {
    let mut effects = Vec::new();
    for (position, part) in value.split(',').enumerate() {
        effects.push(match (part, position) {
            ("force", _) => Effect::SwiotlbForce(true),
            ("noforce", _) => Effect::SwiotlbForce(false),
            (slots, 0) => Effect::SwiotlbSlots(parse_number(slots)?),
            (areas, 1) => Effect::SwiotlbAreas(parse_number(areas)?),
            _ => return None,
        });
    }
    Some(effects)
}

/// Parses a number whose prefix tells its base (`0x`, `0` or none), like `simple_strtoul` with base 0.
pub fn parse_number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return (!digits.starts_with('+')).then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match text.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}

/// Parses a size in bytes with an optional suffix K, M, G, T, P or E, like lib/cmdline.c `memparse`.
pub fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().next_back() {
        // In hexadecimal E is a digit.
        Some((_, 'e' | 'E')) if text.starts_with("0x") => (text, 0),
        Some((at, suffix)) => match suffix.to_ascii_uppercase() {
            'K' => (text.get(..at)?, 10),
            'M' => (text.get(..at)?, 20),
            'G' => (text.get(..at)?, 30),
            'T' => (text.get(..at)?, 40),
            'P' => (text.get(..at)?, 50),
            'E' => (text.get(..at)?, 60),
            _ => (text, 0),
        },
        None => return None,
    };
    parse_number(digits)?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_suffixes_and_bases_of_memparse() {
        let check = |text: &str, expect: Option<u64>| assert_eq!(parse_size(text), expect, "{text}");
        check("4G", Some(4 << 30));
        check("0x10M", Some(16 << 20));
        check("0x1E", Some(0x1e));
        check("010k", Some(8 << 10));
        check("99999E", None);
        check("G", None);
        check("", None);
        check("+4G", None);
    }

    #[test]
    fn swiotlb_takes_slots_then_areas_and_force_anywhere() {
        let check = |text: &str, expect: Option<&[Effect]>| {
            assert_eq!(parse_swiotlb(text).as_deref(), expect, "{text}")
        };
        check("65536", Some(&[Effect::SwiotlbSlots(65536)]));
        check(
            "64,4,force",
            Some(&[Effect::SwiotlbSlots(64), Effect::SwiotlbAreas(4), Effect::SwiotlbForce(true)]),
        );
        check("noforce", Some(&[Effect::SwiotlbForce(false)]));
        check("64,4,8", None);
        check("", None);
        check("all", None);
    }
}
