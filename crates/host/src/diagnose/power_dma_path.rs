//! The DMA path of an adapter in a POWER machine: which DMA window it got.

use super::verdict::{unknown, verdict};
use super::{DmaPath, Verdict};
use crate::facts::log::{DdwCreate, DdwLog, DdwQuery};
use crate::facts::power::Endpoint;
use crate::facts::{Adapter, Host};
use crate::power::partition::Platform;
use crate::power::window::{Ddw, DdwKind};
use crate::{Citation, Cited};
use toll::grouped;

/// Masks up to this many bits are served from the default window.
const DEFAULT_WINDOW_BITS: u32 = 32;

/// Decides the DMA path of an adapter in a POWER machine.
pub(super) fn decide(host: &Host, adapter: &Adapter) -> Verdict {
    let platform = host.power.as_ref().and_then(|power| power.platform.as_ref());
    match (platform, find_bypass_line(host, adapter)) {
        (Some(Cited { value: Platform::PowerNv, at }), _) | (_, Some(at)) => on_bare_metal(host, adapter, at),
        _ => in_partition(host, adapter),
    }
}

/// The verdict on an adapter for which nothing read names a driver: only a driver asks for a window.
pub(super) fn without_known_driver(host: &Host, adapter: &Adapter) -> Verdict {
    if find_bypass_line(host, adapter).is_some() {
        return decide(host, adapter).provided_that("a driver of the kernel uses it");
    }
    let query = host.log.ddw.get(&adapter.function.address).and_then(|log| log.query.as_ref());
    let offered = query.and_then(|query| largest_window(&query.value)).map_or_else(String::new, |bytes| {
        format!("; firmware offers windows of up to {} GiB to this endpoint", grouped(bytes >> 30))
    });
    let reason = format!(
        "nothing read tells whether a driver is bound, and only a driver asks for a DMA window{offered}"
    );
    unknown(&reason, query.map(|query| query.at.clone()).into_iter().collect())
}

/// The bytes of the largest window that firmware offers, in pages of 64 KiB, which all kernels use at least.
fn largest_window(query: &DdwQuery) -> Option<u64> {
    query.block_tces?.checked_mul(64 << 10)
}

/// The line of the log that says that the function, or its whole endpoint, got the bypass window.
pub(super) fn find_bypass_line<'h>(host: &'h Host, adapter: &Adapter) -> Option<&'h Citation> {
    let at = adapter.function.address;
    host.log.bypass.get(&at).or_else(|| host.log.bypass_buses.get(&(at.domain, at.bus)))
}

/// Bare metal has no hypercalls and no DDW: a bypass window maps all memory at 2^59 for 64-bit masks
/// (arch/powerpc/platforms/powernv/pci-ioda.c).
fn on_bare_metal(host: &Host, adapter: &Adapter, platform: &Citation) -> Verdict {
    let bypass = find_bypass_line(host, adapter);
    let mask = adapter.dma_mask_bits.as_ref();
    match (bypass, mask) {
        (_, Some(mask)) if mask.value <= DEFAULT_WINDOW_BITS => {
            verdict(DmaPath::TceWindow, None, vec![mask.at.clone(), platform.clone()])
        }
        (Some(bypass), mask) => {
            let evidence = std::iter::once(bypass.clone()).chain(mask.map(|mask| mask.at.clone())).collect();
            let reason = "bare metal: the bypass window maps all memory at an offset".to_owned();
            verdict(DmaPath::DirectWindow, Some(reason), evidence)
        }
        (None, _) => unknown(
            "bare metal, and the log does not say whether this function got the bypass",
            vec![platform.clone()],
        ),
    }
}

/// The verdict in a partition (PowerVM or KVM), where firmware offers windows.
fn in_partition(host: &Host, adapter: &Adapter) -> Verdict {
    let endpoint = endpoint(host, adapter);
    let log = host.log.ddw.get(&adapter.function.address);
    if let Some(mask) = &adapter.dma_mask_bits
        && mask.value <= DEFAULT_WINDOW_BITS
    {
        let mut evidence = vec![mask.at.clone()];
        evidence.extend(cite_default_window(endpoint));
        return verdict(DmaPath::TceWindow, None, evidence);
    }
    if let Some(verdict) = verdict_on_narrow_mask(host, adapter, endpoint) {
        return verdict;
    }
    let by_property = endpoint.and_then(|endpoint| endpoint.windows.last());
    match (by_property, log) {
        (Some(window), Some(log)) if contradicts(window, log) => disagreement(window, log),
        (Some(window), log) => by_window(window, log),
        (None, Some(log)) => by_log(host, adapter, endpoint, log),
        (None, None) => without_a_window(host, adapter, endpoint),
    }
}

/// The verdict on a mask that is too narrow for this kernel to use a 64-bit window. Before 6.12 only a mask of exactly 64 bits
/// does, even if another function of the endpoint made one (`iommu_bypass_supported_pSeriesLP`, before it `dma_set_mask_pSeriesLP`).
fn verdict_on_narrow_mask(host: &Host, adapter: &Adapter, endpoint: Option<&Endpoint>) -> Option<Verdict> {
    let mask = adapter.narrow_mask()?;
    let kernel = host.kernel()?;
    let takes_any = kernel.knows((6, 1), (6, 12)) != Some(false) && kernel.rhel().is_none_or(|rhel| rhel > 8);
    let reason = format!(
        "its mask has {} bits, and this kernel makes 64-bit windows for masks of 64 bits only",
        mask.value
    );
    let evidence = std::iter::once(mask.at.clone()).chain(cite_default_window(endpoint)).collect();
    (!takes_any).then(|| verdict(DmaPath::TceWindow, Some(reason), evidence))
}

/// The node whose windows serve the adapter.
pub(super) fn endpoint<'h>(host: &'h Host, adapter: &Adapter) -> Option<&'h Endpoint> {
    let endpoints = &host.power.as_ref()?.endpoints;
    let mut node = adapter.device_tree_node.as_deref()?;
    loop {
        if let Some(endpoint) = endpoints.get(node) {
            return Some(endpoint);
        }
        node = node.rsplit_once('/')?.0;
    }
}

/// Cites the endpoint's default window.
fn cite_default_window(endpoint: Option<&Endpoint>) -> Option<Citation> {
    endpoint.and_then(|endpoint| endpoint.default_window.as_ref()).map(|window| window.at.clone())
}

/// Whether the log says that the window in the device tree was not created.
fn contradicts(window: &Cited<Ddw>, log: &DdwLog) -> bool {
    log.create.as_ref().is_some_and(|create| {
        create.value.returned != 0 || create.value.base != window.value.base && create.value.base != 0
    })
}

/// The verdict where the device tree and the log contradict each other.
fn disagreement(window: &Cited<Ddw>, log: &DdwLog) -> Verdict {
    let evidence =
        std::iter::once(window.at.clone()).chain(log.create.iter().map(|create| create.at.clone()));
    unknown("the device tree shows a 64-bit window that the log says was not created", evidence.collect())
}

/// The verdict by the 64-bit window in the device tree.
fn by_window(window: &Cited<Ddw>, log: Option<&DdwLog>) -> Verdict {
    let dma_path = match window.value.kind {
        DdwKind::Direct => DmaPath::DirectWindow,
        DdwKind::Dynamic => DmaPath::DynamicWindow,
    };
    let mut evidence = vec![window.at.clone()];
    evidence.extend(log.and_then(|log| log.create.as_ref()).map(|create| create.at.clone()));
    verdict(dma_path, None, evidence)
}

/// The verdict by the kernel's messages, where the device tree shows no window.
fn by_log(host: &Host, adapter: &Adapter, endpoint: Option<&Endpoint>, log: &DdwLog) -> Verdict {
    if let Some(refused) = &log.refused {
        return verdict(DmaPath::TceWindow, None, vec![refused.clone()]);
    }
    if let Some(direct) = &log.direct {
        return verdict(DmaPath::DirectWindow, None, vec![direct.at.clone()]);
    }
    match &log.create {
        Some(create) if create.value.returned == 0 => by_created_window(host, create, log),
        Some(create) => {
            let reason =
                format!("firmware refused to create a 64-bit window (status {})", create.value.returned);
            let evidence = std::iter::once(create.at.clone()).chain(cite_default_window(endpoint)).collect();
            verdict(DmaPath::TceWindow, Some(reason), evidence)
        }
        None => without_a_window(host, adapter, endpoint),
    }
}

/// Without the device tree, a window is direct if it holds the partition's maximum memory. Kernels
/// before 6.1 create no other.
fn by_created_window(host: &Host, create: &Cited<DdwCreate>, log: &DdwLog) -> Verdict {
    let memory_max = host.power.as_ref().and_then(|power| power.memory_max.as_ref());
    let kernel_makes_dynamic = host.kernel().is_none_or(|kernel| kernel.at_least(5, 13));
    let window_bytes = 1_u64.checked_shl(create.value.window_shift).unwrap_or(u64::MAX);
    let evidence = vec![create.at.clone()];
    let with = |at: &Citation| vec![create.at.clone(), at.clone()];
    // enable_ddw (arch/powerpc/platforms/pseries/iommu.c) goes on after this message with a window as large as it gets.
    if let Some(too_small) = &log.too_small {
        let reason = "the window offered can't hold the partition's maximum memory: its entries are written per mapping";
        return verdict(DmaPath::DynamicWindow, Some(reason.to_owned()), with(too_small));
    }
    // dma_iommu_bypass_supported prints the limit of a window that holds memory, where persistent memory lies beyond it.
    if let Some(limit) = &log.limited {
        let reason = format!(
            "memory is mapped once, at {:#x}; what lies beyond it, such as persistent memory, goes by the default window",
            create.value.base
        );
        return verdict(DmaPath::DirectWindow, Some(reason), with(&limit.at));
    }
    match memory_max {
        _ if !kernel_makes_dynamic => verdict(DmaPath::DirectWindow, None, evidence),
        Some(memory_max) if window_bytes >= memory_max.bytes => {
            verdict(DmaPath::DirectWindow, None, evidence)
        }
        Some(memory_max) => {
            let reason = format!(
                "a window of 2^{} bytes can't hold the partition's maximum memory of {:#x} bytes",
                create.value.window_shift, memory_max.bytes
            );
            verdict(DmaPath::DynamicWindow, Some(reason), evidence)
        }
        None => unknown(
            "a 64-bit window was created; whether it maps all memory is told by the device tree or the \
             partition's maximum memory, and neither was there to read",
            evidence,
        ),
    }
}

/// The verdict where neither the device tree nor the log shows a 64-bit window.
fn without_a_window(host: &Host, adapter: &Adapter, endpoint: Option<&Endpoint>) -> Verdict {
    let mut evidence: Vec<Citation> = cite_default_window(endpoint).into_iter().collect();
    evidence.extend(host.log.ddw.get(&adapter.function.address).into_iter().flat_map(cite_exhaustion));
    evidence.extend(cite_disabled_windows(host));
    if evidence.is_empty() && !host.log.covers_boot {
        return unknown(
            "neither the device tree nor a log of the whole boot was there to tell of its windows",
            evidence,
        );
    }
    if evidence.is_empty() {
        evidence
            .push(Citation::of_file(&host.log.file, "covers the whole boot and tells of no 64-bit window"));
    }
    verdict(DmaPath::TceWindow, None, evidence)
}

/// Cites the first mapping that failed because the window was full.
fn cite_exhaustion(log: &DdwLog) -> Option<Citation> {
    log.exhausted.first().cloned()
}

/// Cites the option or message that turns 64-bit windows off.
pub(super) fn cite_disabled_windows(host: &Host) -> Option<Citation> {
    let by_option =
        host.requests.direct_window.as_ref().filter(|cited| !cited.value).map(|cited| cited.at.clone());
    by_option.or_else(|| host.log.ddw_disabled.clone())
}
