//! Memory for DMA that drivers did not get.

use super::Rule;
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::facts::refused_allocation::{RefusedAllocation, Wanted};
use crate::kernel::message::driver::PagesRefused;
use crate::memory::range::describe_bytes;
use escape::shell::Command;

/// Bytes of a page where the kernel does not say otherwise: a trace does not tell.
const PAGE_BYTES: u128 = 4096;

/// What the remedies cost.
const RISK: &str =
    "nothing else can use memory that is reserved; while the kernel compacts memory, programs run slower";

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find: |case: &Case<'_>| finding(case.host).into_iter().collect(),
    explains: &[Explanation {
        id: Id::DmaAllocationRefused,
        meaning: "A driver asked for memory for DMA, and there was none: no free piece of that size, or none that its device can reach. Without \
                  an IOMMU that translates, such memory has to be one piece of physical memory.",
        severity: "warning",
        evidence: "`page allocation failure` with its order and zone, and the function in the trace below it that allocates for DMA",
        fix: "of several pages: let the driver allocate right after boot, or reserve memory (`cma=`); of one page below \
              4 GiB: make memory there available",
        risk: RISK,
        verify: "no new such line in `dmesg`",
    }],
};

/// A finding on the largest of them.
fn finding(host: &Host) -> Option<Finding> {
    // Of a function whose bounce buffers ran out, that finding tells it.
    let is_told = host.log.swiotlb_full.iter().any(|full| full.address.is_some());
    let is_untold = |refused: &&RefusedAllocation| !(is_told && matches!(refused.wanted, Wanted::Bytes(_)));
    let worst =
        host.log.refused_allocations.iter().filter(is_untold).max_by_key(|refused| bytes(refused.wanted))?;
    let size = describe_bytes(bytes(worst.wanted));
    let is_page = matches!(worst.wanted, Wanted::Pages(PagesRefused { order: 0, .. }));
    let why = match worst.wanted {
        _ if is_page => "all pages there are in use, or the machine has none there",
        Wanted::Pages(_) => "memory has no such piece free: it is fragmented or used up",
        Wanted::Bytes(_) => {
            "neither the kernel's pool of contiguous memory (CMA) nor the rest has such a piece free; bounce buffers, which it asked last, \
             never hold more than 256 KiB in a row"
        }
    };
    let direct = match (worst.is_direct, is_page) {
        (true, true) => "; nothing translates for its device",
        (true, false) => "; nothing translates for its device, so it has to be one piece",
        (false, _) => "",
    };
    Some(Finding {
        id: Id::DmaAllocationRefused,
        severity: Severity::Warning,
        address: None,
        what: format!("a driver wanted {size}{} for DMA, and {why}{direct}", conditions(worst.wanted)),
        evidence: worst.at.clone(),
        fix: match worst.wanted {
            Wanted::Pages(pages) if is_page => free_pages(pages),
            Wanted::Pages(pages) => free_pieces(pages.is_atomic),
            Wanted::Bytes(_) => free_pieces(false),
        },
        risk: RISK.to_owned(),
        verify: "no new such line in `dmesg`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// How much it was.
fn bytes(wanted: Wanted) -> u128 {
    match wanted {
        Wanted::Pages(pages) => {
            1_u128.checked_shl(pages.order).unwrap_or(u128::MAX).saturating_mul(PAGE_BYTES)
        }
        Wanted::Bytes(bytes) => bytes.into(),
    }
}

/// Where it had to be, and what stood in the way.
fn conditions(wanted: Wanted) -> String {
    let Wanted::Pages(PagesRefused { order, is_below_4gib, is_low, is_atomic }) = wanted else {
        return " in one piece".to_owned();
    };
    let place = match (is_low, is_below_4gib) {
        (true, _) => " of the lowest memory (GFP_DMA)",
        (false, true) => " below 4 GiB (GFP_DMA32)",
        (false, false) => "",
    };
    let how = if is_atomic { ", where it may not wait for the kernel to make room" } else { "" };
    format!("{place} (order {order}, with pages of 4 KiB){how}")
}

/// How single pages with low addresses become free.
fn free_pages(pages: PagesRefused) -> Advice {
    match pages.is_low || pages.is_below_4gib {
        true => "make memory with low addresses available: take reservations out of there (`crashkernel=`, `cma=`, huge pages); on a board, \
                 leave cached memory below 4 GiB to the kernel in the device tree, or give the device a `shared-dma-pool` there; ask the driver's \
                 authors whether the device reaches more than the mask says"
            .into(),
        false => "free memory, or give the machine more".into(),
    }
}

/// How pieces of several pages become free.
fn free_pieces(is_atomic: bool) -> Advice {
    let compact = Command::new("sysctl").arg("vm.compact_memory=1");
    let atomic = match is_atomic {
        true => "have the driver allocate where it may wait (GFP_KERNEL): the kernel then makes room; ",
        false => "",
    };
    Advice::say(format!("{atomic}load the driver and let it allocate right after boot, while memory is in large pieces; until then "))
        .and_complete_by(compact)
        .and_say(
            " may make such pieces. For good: memory that is kept for it (`cma=SIZE`, in kernels that take memory for DMA from there, \
             CONFIG_DMA_CMA), or smaller pieces in the driver",
        )
}
