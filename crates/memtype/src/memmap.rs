//! The kernel parameter `memmap=`, and what each kernel makes of it.
//!
//! Sources: arch/x86_64/kernel/e820.c of 2.6.18 (RHEL 5's is the same there), arch/x86/kernel/e820.c
//! of 2.6.32, arch/x86/kernel/e820.c of 4.4 and later.

use super::{
    mtrr::KernelVersion,
    range::{PhysRange, parse_size},
};
use crate::{Citation, Text};
use serde::Serialize;
use std::fmt;

/// What one area of a `memmap=` parameter asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemmapRequest {
    /// `nn@ss`: RAM.
    Ram {
        /// The addresses.
        range: PhysRange,
    },
    /// `nn#ss`: ACPI tables.
    Acpi {
        /// The addresses.
        range: PhysRange,
    },
    /// `nn$ss`: reserved.
    Reserved {
        /// The addresses.
        range: PhysRange,
    },
    /// `nn!ss`: persistent memory of the legacy kind.
    Pmem {
        /// The addresses.
        range: PhysRange,
    },
    /// `nn%ss-old+new`: another type. The numbers are those of the firmware's map.
    Retype {
        /// The addresses.
        range: PhysRange,
        /// Only where the type was this one.
        from: Option<u64>,
        /// To this type; without one the range is removed.
        to: Option<u64>,
    },
    /// `nn`: use no RAM from this address up.
    CutAbove {
        /// First address not used.
        limit: u64,
    },
    /// `exactmap`: forget the firmware's map, use what the other parameters say.
    ExactMap,
    /// Nothing the kernel understands.
    Malformed,
}

impl MemmapRequest {
    /// The addresses asked for.
    pub fn range(&self) -> Option<PhysRange> {
        match *self {
            Self::Ram { range }
            | Self::Acpi { range }
            | Self::Reserved { range }
            | Self::Pmem { range }
            | Self::Retype { range, .. } => Some(range),
            Self::CutAbove { limit } => PhysRange::from_first_to_last(limit, u64::MAX),
            Self::ExactMap | Self::Malformed => None,
        }
    }
}

/// What the kernel does with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum MemmapEffect {
    /// As asked. Where areas overlap the higher type number wins: `#` (3) over `$` (2) over RAM (1).
    Done,
    /// The area joins the map, but the RAM under it stays in use: this kernel (before 2.6.32) does
    /// not resolve overlaps in the user's map. Only with `exactmap` or `mem=` below it is it free.
    RamStaysInUse,
    /// RAM on top of what firmware reserved stays reserved: the higher type number wins.
    OnlyWhereNotReserved,
    /// Not looked at: this kernel takes one area per parameter (up to 3.9), or could not read it.
    Ignored,
    /// Another kernel might understand it; this one cuts RAM above the size instead, which is rarely
    /// what was meant.
    TakenAsCut,
    /// Understood by some kernels of this version (RHEL 7's) and not by others.
    DependsOnVendor,
}

impl fmt::Display for MemmapEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done as asked",
            Self::RamStaysInUse => {
                "added to the map, but this kernel does not resolve overlaps: the RAM stays in use unless exactmap or mem= takes it away"
            }
            Self::OnlyWhereNotReserved => "RAM only where firmware reserves nothing: without exactmap the reservation wins",
            Self::Ignored => "ignored by this kernel",
            Self::TakenAsCut => "not understood by this kernel, which uses no RAM above the size instead",
            Self::DependsOnVendor => "understood by RHEL 7's kernel of this version, not by every other",
        })
    }
}

/// One area of a `memmap=` parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemmapArea {
    /// What is asked for.
    pub request: MemmapRequest,
    /// What this kernel does with it.
    pub effect: MemmapEffect,
    /// The parameter.
    pub at: Citation,
}

impl MemmapArea {
    /// The range, where it is kept from the kernel for a device.
    pub fn set_aside(&self) -> Option<PhysRange> {
        match (self.request, self.effect) {
            (MemmapRequest::Reserved { range }, effect) if effect != MemmapEffect::Ignored => Some(range),
            _ => None,
        }
    }
}

/// Ranges that a kernel's memory map has room for: those of the firmware and three for each of 1,024 NUMA
/// nodes (arch/x86/include/asm/e820/types.h, `E820_MAX_ENTRIES`). It ignores what comes after.
const AREAS_MAX: usize = 128 + 3 * 1024;

/// Finds the `memmap=` parameters of a kernel command line (`proc/cmdline`), as many as a kernel could
/// follow.
pub fn parse_cmdline(cmdline: &Text, kernel: KernelVersion) -> Vec<MemmapArea> {
    let words =
        cmdline.lines().flat_map(|(line, body)| body.split_whitespace().map(move |word| (line, word)));
    let values = words.filter_map(|(line, word)| {
        let word = word.trim_matches('"');
        Some((line, word, word.strip_prefix("memmap=")?))
    });
    let values: Vec<_> = values.collect();
    let exact = values.iter().any(|(_, _, value)| value.split(',').any(|area| area == "exactmap"));
    let areas =
        |(line, word, value): (u32, &str, &str)| parse_value(value, &cmdline.cite(line, word), kernel, exact);
    values.into_iter().flat_map(areas).take(AREAS_MAX).collect()
}

/// Reads the value of one `memmap=` parameter. `exact` tells whether any parameter is `exactmap`.
fn parse_value(value: &str, at: &Citation, kernel: KernelVersion, exact: bool) -> Vec<MemmapArea> {
    let takes_lists = kernel >= (3, 10, 0);
    let area = |(index, text)| {
        let request = parse_request(text).unwrap_or(MemmapRequest::Malformed);
        let ignored = request == MemmapRequest::Malformed || (index > 0 && !takes_lists);
        let effect = if ignored { MemmapEffect::Ignored } else { effect_of(&request, kernel, exact) };
        MemmapArea { request, effect, at: at.clone() }
    };
    value.split(',').enumerate().map(area).collect()
}

/// What this kernel does with a request of `memmap=`; `exact` with `memmap=exactmap`.
fn effect_of(request: &MemmapRequest, kernel: KernelVersion, exact: bool) -> MemmapEffect {
    let resolves_overlaps = kernel >= (2, 6, 32) || exact;
    match request {
        MemmapRequest::Reserved { .. } | MemmapRequest::Acpi { .. } if !resolves_overlaps => {
            MemmapEffect::RamStaysInUse
        }
        MemmapRequest::Ram { .. } if !exact => MemmapEffect::OnlyWhereNotReserved,
        MemmapRequest::Pmem { .. } if kernel < (3, 10, 0) => MemmapEffect::TakenAsCut,
        MemmapRequest::Pmem { .. } if kernel < (4, 0, 0) => MemmapEffect::DependsOnVendor,
        MemmapRequest::Retype { .. } if kernel < (4, 19, 0) => MemmapEffect::TakenAsCut,
        MemmapRequest::Malformed => MemmapEffect::Ignored,
        _ => MemmapEffect::Done,
    }
}

/// Parses one request of `memmap=`, such as `512M$4G`.
fn parse_request(text: &str) -> Option<MemmapRequest> {
    if text == "exactmap" {
        return Some(MemmapRequest::ExactMap);
    }
    let (size_bytes, rest) = parse_size(text)?;
    let mut behind = rest.chars();
    let Some(sign) = behind.next() else {
        return Some(MemmapRequest::CutAbove { limit: size_bytes });
    };
    let (base, rest) = parse_size(behind.as_str())?;
    let range = PhysRange::from_base_and_size(base, size_bytes)?;
    match (sign, rest) {
        ('@', "") => Some(MemmapRequest::Ram { range }),
        ('#', "") => Some(MemmapRequest::Acpi { range }),
        ('$', "") => Some(MemmapRequest::Reserved { range }),
        ('!', "") => Some(MemmapRequest::Pmem { range }),
        ('%', types) => retype(range, types),
        _ => None,
    }
}

/// Reads `-old+new`, each part being optional.
fn retype(range: PhysRange, text: &str) -> Option<MemmapRequest> {
    let number = |sign, text: &str| match text.strip_prefix(sign) {
        Some(rest) => parse_size(rest).map(|(number, rest)| (Some(number), rest.to_owned())),
        None => Some((None, text.to_owned())),
    };
    let (from, rest) = number('-', text)?;
    let (to, rest) = number('+', &rest)?;
    rest.is_empty().then_some(MemmapRequest::Retype { range, from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RHEL_5: KernelVersion = (2, 6, 18);
    const RHEL_6: KernelVersion = (2, 6, 32);
    const DEBIAN_12: KernelVersion = (6, 1, 192);

    fn check(cmdline: &str, kernel: KernelVersion, expect: &[(&str, MemmapEffect)]) {
        let areas = parse_cmdline(&Text::new("proc/cmdline", cmdline), kernel);
        let got: Vec<_> = areas
            .iter()
            .map(|area| {
                let range = area.request.range().map(|r| r.to_string()).unwrap_or_default();
                let kind = format!("{:?}", area.request);
                (format!("{} {range}", kind.split([' ', '{']).next().unwrap_or_default()), area.effect)
            })
            .collect();
        let expect: Vec<_> = expect.iter().map(|(text, effect)| ((*text).to_owned(), *effect)).collect();
        assert_eq!(got, expect, "{cmdline} on {kernel:?}");
    }

    #[test]
    fn the_reserved_area_of_two_kernels() {
        let cmdline = "ro root=/dev/sda1 memmap=80M$256M quiet";
        let area = "Reserved 0x10000000-0x14ffffff";
        check(cmdline, RHEL_5, &[(area, MemmapEffect::RamStaysInUse)]);
        check(cmdline, RHEL_6, &[(area, MemmapEffect::Done)]);
        let exact = "memmap=exactmap memmap=640K@0 memmap=80M$256M";
        check(
            exact,
            RHEL_5,
            &[
                ("ExactMap ", MemmapEffect::Done),
                ("Ram 0x00000000-0x0009ffff", MemmapEffect::Done),
                (area, MemmapEffect::Done),
            ],
        );
    }

    #[test]
    fn lists() {
        let cmdline = "memmap=64K$0x18690000,1M#0x100000";
        let (first, second) = ("Reserved 0x18690000-0x1869ffff", "Acpi 0x00100000-0x001fffff");
        check(cmdline, RHEL_6, &[(first, MemmapEffect::Done), (second, MemmapEffect::Ignored)]);
        check(cmdline, DEBIAN_12, &[(first, MemmapEffect::Done), (second, MemmapEffect::Done)]);
    }

    #[test]
    fn no_more_than_a_kernel_could_follow() {
        let cmdline = format!("memmap={}", "1M$1G,".repeat(10_000));
        assert_eq!(parse_cmdline(&Text::new("proc/cmdline", cmdline), DEBIAN_12).len(), AREAS_MAX);
    }

    #[test]
    fn later_signs() {
        let pmem = "Pmem 0x100000000-0x13fffffff";
        check("memmap=1G!4G", RHEL_6, &[(pmem, MemmapEffect::TakenAsCut)]);
        check("memmap=1G!4G", (3, 10, 0), &[(pmem, MemmapEffect::DependsOnVendor)]);
        check("memmap=1G!4G", DEBIAN_12, &[(pmem, MemmapEffect::Done)]);
        check("memmap=1M%2M-1+2", DEBIAN_12, &[("Retype 0x00200000-0x002fffff", MemmapEffect::Done)]);
        check("memmap=1M%2M+2", (4, 14, 0), &[("Retype 0x00200000-0x002fffff", MemmapEffect::TakenAsCut)]);
    }

    #[test]
    fn hostile_values() {
        for value in [
            "",
            "$",
            "1M$",
            "1M$x",
            "0$0",
            "16E$1",
            "1M$1Mx",
            "1M%1M-",
            "1M%1M+1-1",
            "é",
            "1é1",
            ",",
            "exactmap1",
        ] {
            let areas = parse_cmdline(&Text::new("proc/cmdline", format!("memmap={value}")), DEBIAN_12);
            assert!(areas.iter().all(|area| area.effect == MemmapEffect::Ignored), "{value}: {areas:?}");
        }
        check("memmap=512M", DEBIAN_12, &[("CutAbove 0x20000000-0xffffffffffffffff", MemmapEffect::Done)]);
    }
}
