//! The GART of old AMD processors: mappings that found its bus addresses used up.

use super::{Rule, add_kernel_argument, by_address, counted};
use crate::Bdf;
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::facts::log::PoolFull;
use toll::grouped;

/// The aperture of order 0 (`iommu=memaper=ORDER`, Documentation/arch/x86/x86_64/boot-options.rst).
const APERTURE_MEBIBYTES_MIN: u64 = 32;
/// Of order 5: what firmware offers at most, too.
const ORDER_MAX: u32 = 5;
/// Where nothing tells its size: 256 MiB, four times the kernel's own.
const ORDER_UNTOLD: u32 = 3;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find: |case: &Case<'_>| find(case.host),
    explains: &[Explanation {
        id: Id::GartFull,
        meaning: "The bus addresses of the GART, with which Linux on AMD processors before AMD-Vi remaps memory that a \
                  device can't reach, ran out: mappings failed.",
        severity: "critical",
        evidence: "the kernel's lines `PCI-DMA: Out of IOMMU space`",
        fix: "give the GART a larger aperture, in the firmware's setup or with `iommu=memaper=ORDER` (32 MiB, doubled ORDER \
              times); or use an adapter and driver with a 64-bit mask",
        risk: "without an aperture of firmware's the kernel takes that much memory",
        verify: "no new such line in `dmesg` under load",
    }],
};

/// Mappings that failed, by adapter.
fn find(host: &Host) -> Vec<Finding> {
    let by_adapter = by_address(&host.log.gart_full, |full| full.address);
    by_adapter.into_iter().map(|(address, lines)| finding(host, address, &lines)).collect()
}

/// A finding on an adapter whose mappings failed.
fn finding(host: &Host, address: Option<Bdf>, lines: &[&PoolFull]) -> Finding {
    let reserved = host.log.gart_mebibytes.as_ref();
    let of = reserved.map_or_else(String::new, |size| format!(" of {} MiB", grouped(size.value)));
    let bytes_max = lines.iter().filter_map(|full| full.bytes).max().unwrap_or(0);
    let evidence = lines.first().map(|full| full.at.clone()).into_iter();
    Finding {
        id: Id::GartFull,
        severity: Severity::Critical,
        address,
        what: format!(
            "the GART's bus addresses{of} ran out ({}): mappings of up to {} bytes failed, of memory that the device can't reach \
             by itself",
            counted(lines.len(), "line"),
            grouped(bytes_max)
        ),
        evidence: evidence.chain(reserved.map(|size| size.at.clone())).collect(),
        fix: larger_aperture(host),
        risk: "where firmware gives it no such aperture the kernel takes that much memory".to_owned(),
        verify: "no new such line in `dmesg` under load".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// How the GART gets at least twice as many bus addresses.
fn larger_aperture(host: &Host) -> Advice {
    const WIDE_MASK: &str = "use an adapter and driver with a 64-bit mask, which needs no remapping";
    let order = host.log.gart_mebibytes.as_ref().map_or(ORDER_UNTOLD, |size| {
        (size.value / APERTURE_MEBIBYTES_MIN).checked_ilog2().map_or(1, |order| order + 1)
    });
    if order > ORDER_MAX {
        return WIDE_MASK.into();
    }
    add_kernel_argument(host, &format!("iommu=memaper={order}"))
        .and_say(", or enlarge the aperture in the firmware's setup if it has that setting (AGP or IOMMU aperture)")
        .or_else(WIDE_MASK)
}
