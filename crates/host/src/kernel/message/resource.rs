//! Room for functions' registers in the address space: drivers/pci/setup-res.c; NVIDIA's driver (`NVRM:`).

use super::{Device, scan};
use crate::Bdf;

/// A message about a base address register (BAR).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceMessage {
    /// The function, where the message itself names it.
    pub device: Option<Bdf>,
    /// Which register: 0 to 5, from 7 on one of the virtual functions.
    pub bar: u8,
    /// What it needs.
    pub need: Need,
    /// It has a place; else there was no room for it.
    pub is_placed: bool,
}

/// What a BAR needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// So many bytes of memory, if the message tells how many.
    Memory(Option<u64>),
    /// I/O ports, which drivers seldom need.
    Ports,
}

impl Need {
    /// The bytes of memory, if it needs memory and the message tells how many.
    pub fn memory(self) -> Option<Option<u64>> {
        match self {
            Self::Memory(bytes) => Some(bytes),
            Self::Ports => None,
        }
    }
}

/// The number here of the first BAR of virtual functions.
pub const FIRST_VIRTUAL: u8 = 7;

/// Reads a message about a BAR. Expansion ROMs and windows of bridges are left out: the latter show in what is below them. Up to 6.8
/// windows and BARs of virtual functions have numbers from 7 on, which mean one or the other by how the kernel was built: they are left out.
pub(super) fn read(body: &str, device: Option<&Device>) -> Option<ResourceMessage> {
    match body.as_bytes().first()? {
        b'B' | b'V' if device.is_some_and(|device| device.bdf.is_some()) => parse_assignment(body),
        b'N' => parse_nvidia(body),
        _ => None,
    }
}

/// `BAR 1: no space for [mem size 0x10000000 64bit pref]`, `BAR 1: assigned [mem 0x...]`; since 6.9
/// `BAR 1 [mem size 0x10000000 64bit pref]: failed to assign`, `VF BAR 0 [mem ...]: assigned`.
fn parse_assignment(body: &str) -> Option<ResourceMessage> {
    let (first, rest) = match body.strip_prefix("VF BAR ") {
        Some(rest) => (FIRST_VIRTUAL, rest),
        None => (0, body.strip_prefix("BAR ")?),
    };
    let (number, rest) = rest.split_at_checked(rest.find([':', ' '])?)?;
    let bar = number.parse::<u8>().ok()?.checked_add(first)?;
    let is_of_function = (first..first + 6).contains(&bar);
    let (_, resource) = rest.split_once('[').filter(|_| is_of_function)?;
    let need = match resource.trim_start_matches("??? ") {
        memory if memory.starts_with("mem") => Need::Memory(scan::hex_after(memory, "size ")),
        ports if ports.starts_with("io") => Need::Ports,
        _ => return None,
    };
    // "reassigned" and "old value restored" end an enlargement.
    let is_placed =
        [": assigned", "reassigned", "old value restored"].iter().any(|words| rest.contains(words));
    let has_no_room =
        ["no space", "failed to assign", "can't assign"].iter().any(|words| rest.contains(words));
    (is_placed || has_no_room).then_some(ResourceMessage { device: None, bar, need, is_placed })
}

/// `NVRM: BAR1 is 0M @ 0x0 (PCI:0000:0a:00.0)`.
fn parse_nvidia(body: &str) -> Option<ResourceMessage> {
    let (bar, rest) = body.strip_prefix("NVRM: BAR")?.split_once(" is 0M @ 0x0 (PCI:")?;
    let device = scan::bdf(rest.split_once(')')?.0);
    Some(ResourceMessage { device, bar: bar.parse().ok()?, need: Need::Memory(None), is_placed: false })
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Resource", &format!("ResourceMessage {expect}"));
    }

    #[test]
    fn messages() {
        let lacks = "{ device: None, bar: 1, need: Memory(Some(268435456)), is_placed: false }";
        check("pci 0000:01:00.0: BAR 1: no space for [mem size 0x10000000 64bit pref]", lacks);
        check("pci 0000:01:00.0: BAR 1: failed to assign [mem size 0x10000000 64bit pref]", lacks);
        check("pci 0000:01:00.0: BAR 1 [mem size 0x10000000 64bit pref]: can't assign; no space", lacks);
        check("pci 0000:01:00.0: BAR 1 [mem size 0x10000000 64bit pref]: failed to assign", lacks);
        check(
            "pci 0000:01:00.0: BAR 1: assigned [mem 0x4000000000-0x400fffffff 64bit pref]",
            "{ device: None, bar: 1, need: Memory(None), is_placed: true }",
        );
        check(
            "amdgpu 0000:03:00.0: BAR 0 [mem 0xbffe0000000-0xbffefffffff 64bit pref]: old value restored",
            "{ device: None, bar: 0, need: Memory(None), is_placed: true }",
        );
        check(
            "pci 0000:01:00.0: VF BAR 0 [mem size 0x00200000 64bit pref]: can't assign; no space",
            "{ device: None, bar: 7, need: Memory(Some(2097152)), is_placed: false }",
        );
        check(
            "pci 0000:01:00.0: BAR 2: no space for [io  size 0x0020]",
            "{ device: None, bar: 2, need: Ports, is_placed: false }",
        );
        check(
            "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:0a:00.0)",
            "{ device: Some(0000:0a:00.0), bar: 1, need: Memory(None), is_placed: false }",
        );
    }

    #[test]
    fn what_is_no_register_of_a_function() {
        for message in [
            "pci 0000:00:01.0: BAR 14: no space for [mem size 0x00100000]",
            "pci 0000:00:00.0: BAR 8: no space for [mem size 0x01800000]",
            "pci 0000:01:00.0: BAR 6: no space for [mem size 0x00080000 pref]",
            "pci 0000:01:00.0: BAR 0 [mem 0xfe000000-0xfe0fffff 64bit]",
            "BAR 1: no space for [mem size 0x10000000 64bit pref]",
        ] {
            assert!(
                !matches!(super::super::read(message), Some((_, super::super::Message::Resource(_)))),
                "{message}"
            );
        }
    }
}
