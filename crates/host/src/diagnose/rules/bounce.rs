//! Bounce buffers: who is sent through them, and whether there are enough.

use super::{
    DefaultDomain, LineEdit, Rule, add_kernel_argument, by_address, counted, is_untrusted, translate_adapter,
    turn_iommu_on,
};
use crate::diagnose::advice::shown_argument;
use crate::diagnose::decide::{Beyond, beyond_mask, domain_type, memory_beyond_mask};
use crate::diagnose::{Advice, Case, DmaPath, Explanation, Finding, Id, Severity, Verdict};
use crate::facts::bounce::SLOT_BYTES;
use crate::facts::host_encryption;
use crate::facts::iommu::DomainType;
use crate::facts::log::{InboundRange, MaskOverflow, PoolFull};
use crate::facts::refused_allocation::{RefusedAllocation, Wanted};
use crate::facts::{Adapter, Host};
use crate::kernel::{Effect, TokenVerdict};
use crate::memory::range::describe_bytes;
use crate::pci::Kind;
use crate::{Bdf, Citation, Cited};
use escape::shell::Command;
use std::collections::BTreeMap;
use toll::grouped;

/// A pool this full will soon be full: a mapping takes up to 128 slots in a row.
const USED_PERCENT_MAX: u64 = 80;
/// Wider masks have I/O addresses enough, wherever memory ends.
const SHARED_BITS_MAX: u32 = 32;
/// The kernel's own default, 64 MiB, in slots.
const SLOTS_DEFAULT: u64 = 32_768;
/// The largest mapping, 128 slots in a row (`IO_TLB_SEGSIZE`, include/linux/swiotlb.h).
const MAPPING_BYTES_MAX: u64 = 128 * SLOT_BYTES;
/// A larger pool hardly ever fits below 4 GiB, where x86 takes it from.
const LOW_POOL_MEBIBYTES_MAX: u64 = 1024;
/// What translation costs that is to end the need for bounce buffers.
const TRANSLATION_RISK: &str = "each I/O then pays for a mapping; passthrough would not help";

/// What it costs to have a device reach encrypted memory, or to give the encryption up.
const ENCRYPTION_RISK: &str =
    "translation costs a mapping per I/O; without encryption whoever takes memory modules out can read them";

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[
        Explanation {
            id: Id::Mask32Bit,
            meaning: "The driver asked for a DMA mask that does not reach the end of memory. Where nothing \
                      translates, buffers beyond the mask are copied through swiotlb. Where an IOMMU \
                      translates, all mappings of the adapter share the IOVAs below 4 GiB. POWER serves \
                      such masks from its default window: see power-default-window. With AMD's memory encryption \
                      (SME) each buffer's address has the encryption bit (47 or 51): a mask that does not reach it has all \
                      buffers copied.",
            severity: "warning where buffers are copied; critical where bounce buffers are off and such \
                       mappings fail; note where an IOMMU translates",
            evidence: "`dma_mask_bits` of the device in sysfs, and the end of memory from `/proc/iomem` or \
                       the kernel log; the kernel's line on memory encryption, or the command line",
            fix: "let the IOMMU translate for the adapter, or use an adapter and driver with a 64-bit mask; \
                  where bounce buffers are off, remove `noforce` from `swiotlb=`; or give memory encryption up (`mem_encrypt=off`)",
            risk: "translation costs a mapping per I/O; the bounce buffer pool takes 64 MiB below 4 GiB",
            verify: "`cat /sys/bus/pci/devices/ADDRESS/dma_mask_bits`, and `iotoll inspect` shows another \
                     DMA path",
        },
        Explanation {
            id: Id::SwiotlbForced,
            meaning: "Every DMA that no IOMMU translates is copied through bounce buffers, by \
                      `swiotlb=force` or because the memory of a confidential guest (SEV, TDX) is \
                      encrypted.",
            severity: "warning; note where no adapter takes that DMA path, or where encrypted memory \
                       requires it",
            evidence: "the kernel command line, or the kernel's line on memory encryption",
            fix: "remove `force` from `swiotlb=`; in a confidential guest there is no fix: keep I/Os large \
                  and queues few, and give the pool room with `swiotlb=SLOTS`",
            risk: "none, unless it was set for a device that can't reach its buffers; without bouncing no \
                   device of a confidential guest works",
            verify: "`/sys/kernel/debug/swiotlb/io_tlb_used` stays near 0 under load",
        },
        Explanation {
            id: Id::SwiotlbFull,
            meaning: "Bounce buffers ran out, and those transfers failed; or 80 % of them are in use.",
            severity: "critical where transfers failed; warning where the pool is nearly full; note where a driver asks again with less",
            evidence: "the kernel's lines `swiotlb buffer is full`, or `io_tlb_used` against `io_tlb_nslabs` \
                       in debugfs",
            fix: "first stop the need for bounce buffers (a 64-bit mask, or translation); else give the pool \
                  twice as many slots with `swiotlb=SLOTS`. A request of more than 256 KiB fails in a pool \
                  of any size: let the driver ask for less at a time",
            risk: "the pool is taken from memory at boot, on x86 from below 4 GiB; where a driver leaks \
                   mappings, a larger one only fills later",
            verify: "`/sys/kernel/debug/swiotlb/io_tlb_used` against `io_tlb_nslabs` under load",
        },
        Explanation {
            id: Id::SwiotlbSmall,
            meaning: "The kernel refused mappings beyond a device's mask, because there was no bounce \
                      buffer for them: the pool is off, could not be allocated, or the request was for more \
                      than 256 KiB, such as another device's memory. Or an option that is configured or talked about asks for less \
                      than the kernel's own pool.",
            severity: "critical; note of an option",
            evidence: "the kernel's lines on mappings that overflow the mask, those on the pool, and the \
                       command line",
            fix: "by the cause: remove `iommu=off`, or `noforce` from `swiotlb=`; else let the IOMMU \
                  translate for the device",
            risk: "translation costs a mapping per I/O; the pool takes 64 MiB, on x86 below 4 GiB",
            verify: "no new `overflow` line in `dmesg`",
        },
    ],
};

/// Findings about masks and bounce buffers.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let host = case.host;
    let masks = case.working().filter_map(|(adapter, verdict)| narrow_mask(host, adapter, verdict));
    masks
        .chain(forced_bouncing(case))
        .chain(encrypted_host_bounces(case))
        .chain(pool_ran_out(host))
        .chain(pool_missing(host))
        .chain(pool_nearly_full(host))
        .chain(overflows(host))
        .chain(memory_beyond_32_bits(host))
        .chain(small_pool_asked(host))
        .collect()
}

/// The slots that an option asks for.
fn slots_asked(judged: &TokenVerdict) -> Option<u64> {
    judged.asks.iter().find_map(|asked| match asked {
        Effect::SwiotlbSlots(slots) => Some(*slots),
        _ => None,
    })
}

/// Whether an option asks for a pool that is smaller than the kernel's own.
pub(super) fn asks_for_small_pool(judged: &TokenVerdict) -> bool {
    slots_asked(judged).is_some_and(|slots| (1..SLOTS_DEFAULT).contains(&slots))
}

/// A finding on a pool that is configured or talked about, and smaller than the kernel's own.
fn small_pool_asked(host: &Host) -> Option<Finding> {
    let mut others = host.configured.for_next_boot.iter().chain(&host.configured.named);
    let judged = others.find(|judged| asks_for_small_pool(judged))?;
    let bytes = u128::from(slots_asked(judged)?) * u128::from(SLOT_BYTES);
    let shown = shown_argument(&judged.token.words());
    Some(Finding {
        id: Id::SwiotlbSmall,
        severity: Severity::Note,
        address: None,
        what: format!(
            "{shown} asks for {} of bounce buffers, counted in slots of 2 KiB: less than the 64 MiB that the kernel takes by itself",
            describe_bytes(bytes)
        ),
        evidence: vec![judged.token.at.clone()],
        fix: format!(
            "leave {shown} out, unless less memory is what is wanted. Where bounce buffers run out, take more than {SLOTS_DEFAULT} slots, or end \
             the need for them: an IOMMU that translates, or a driver with a wider mask"
        )
        .into(),
        risk: "a larger pool is lost to other uses of memory below 4 GiB".to_owned(),
        verify: "`dmesg` says how large the pool is: `software IO TLB: mapped [mem ...] (64MB)`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// Bridges below which all memory lies beyond 32 bits of bus addresses: a device or driver with a narrower mask reaches none of it, and
/// no bounce buffer lies lower (kernel/dma/direct.c, `dma_coherent_ok`).
fn memory_beyond_32_bits(host: &Host) -> Vec<Finding> {
    let mut by_bridge: BTreeMap<&str, Vec<&InboundRange>> = BTreeMap::new();
    // Nothing is below a link that did not come up.
    let is_up = |range: &&InboundRange| !host.log.links_down.contains(&range.bridge);
    for range in host.log.inbound.iter().filter(is_up) {
        by_bridge.entry(&range.bridge).or_default().push(range);
    }
    by_bridge.into_iter().filter_map(|(bridge, ranges)| beyond_32_bits(host, bridge, &ranges)).collect()
}

/// A finding on a bridge whose memory begins beyond 32 bits.
fn beyond_32_bits(host: &Host, bridge: &str, ranges: &[&InboundRange]) -> Option<Finding> {
    let first =
        ranges.iter().min_by_key(|range| range.bus.0).filter(|range| range.bus.0 > u64::from(u32::MAX))?;
    let domain = host.log.bridge_domains.get(bridge);
    let below = |adapter: &&Adapter| domain.is_some_and(|domain| adapter.function.address.domain == *domain);
    let masks = |adapter: &Adapter| [adapter.dma_mask_bits.clone(), adapter.coherent_mask_bits.clone()];
    let below: Vec<&Adapter> = host.adapters.iter().filter(below).collect();
    let mut masks = below.iter().copied().flat_map(masks).flatten();
    let narrow = masks.find(|mask| mask.value <= SHARED_BITS_MAX).map(|mask| mask.at);
    let refused = || below.iter().find_map(|adapter| host.log.masks_refused.get(&adapter.function.address));
    let narrow = narrow.or_else(|| refused().cloned());
    let all_known = !below.is_empty() && below.iter().all(|adapter| adapter.dma_mask_bits.is_some());
    if narrow.is_none() && all_known {
        return None;
    }
    let of_domain = domain.map_or_else(String::new, |domain| format!(" (domain {domain:04x})"));
    Some(Finding {
        id: Id::Mask32Bit,
        severity: if narrow.is_some() { Severity::Critical } else { Severity::Note },
        address: None,
        what: format!(
            "below {bridge}{of_domain} memory begins at bus address {:#x}: a device, or a driver that leaves its streaming or \
             coherent mask at 32 bits, reaches none of it, and its allocations fail whatever `cma=`, `coherent_pool=` or `swiotlb=` say",
            first.bus.0
        ),
        evidence: std::iter::once(first.at.clone()).chain(narrow).collect(),
        fix: "for such a device, have the bridge's window begin at 0 (`dma-ranges` in the device tree; on a Raspberry Pi 4 \
              `dtoverlay=pcie-32bit-dma`, on a Raspberry Pi 5 `dtoverlay=pcie-32bit-dma-pi5`); for one that can do more, have the \
              driver set both masks to what it can"
            .into(),
        risk: "memory beyond the smaller window is then reached through bounce buffers".to_owned(),
        verify: "the line `IB MEM` of the bridge ends in `-> 0x0000000000`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// A finding if the adapter's mask does not reach all memory.
fn narrow_mask(host: &Host, adapter: &Adapter, verdict: &Verdict) -> Option<Finding> {
    // I/O addresses have no encryption bit.
    let (mask, beyond) = match verdict.dma_path.is_translated() {
        true => memory_beyond_mask(host, adapter).map(|(mask, end)| (mask, Beyond::Memory(end)))?,
        false => beyond_mask(host, adapter)?,
    };
    // POWER serves narrow masks from its default window: that is its own finding.
    if host.is_power() {
        return None;
    }
    let never = host.bounce.never.as_ref();
    let (severity, what, fix, risk) = match (verdict.dma_path, never) {
        (DmaPath::Bounce, _) if host.bounce.forced.is_none() => {
            let (copied, or_else, risk) = copied_beyond(host, beyond);
            let wider = Advice::say("let the IOMMU translate for it (")
                .and(translate_adapter(host, adapter))
                .and_say("), or use an adapter and driver with a 64-bit mask");
            (Severity::Warning, copied, wider.and(or_else), risk)
        }
        (DmaPath::NoIommu | DmaPath::Identity, Some(_)) => (
            Severity::Critical,
            "bounce buffers are off: mapping a buffer beyond it fails",
            let_bounce(host),
            "the pool takes 64 MiB of memory below 4 GiB, and buffers beyond the mask are copied",
        ),
        (dma_path, _) if dma_path.is_translated() && mask.value <= SHARED_BITS_MAX => (
            Severity::Note,
            "all its mappings share the I/O addresses below 4 GiB, which fill and fragment under load",
            "use an adapter and driver with a 64-bit mask where load is high".into(),
            "none",
        ),
        _ => return None,
    };
    Some(Finding {
        id: Id::Mask32Bit,
        severity,
        address: Some(adapter.function.address),
        what: format!(
            "its driver asked for a {}-bit DMA mask, {}: {what}",
            mask.value,
            match beyond {
                Beyond::Memory(end) => format!("and memory reaches {:#x}", end.value),
                Beyond::EncryptionBit(_) => format!("which does not reach {beyond}"),
            }
        ),
        evidence: vec![mask.at.clone(), beyond.cite().clone()],
        fix,
        risk: risk.to_owned(),
        verify: Advice::run(
            Command::new("cat")
                .arg(format!("/sys/bus/pci/devices/{}/dma_mask_bits", adapter.function.address)),
        )
        .and_say(", and `iotoll inspect`"),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// What is copied of an adapter whose mask does not reach this, another remedy than translation, and the risk of all.
fn copied_beyond(host: &Host, beyond: Beyond<'_>) -> (&'static str, Advice, &'static str) {
    match beyond {
        Beyond::Memory(_) => (
            "buffers beyond it are copied through swiotlb at each I/O",
            Advice::default(),
            "translation costs a mapping per I/O; it protects memory at the same time",
        ),
        Beyond::EncryptionBit(encryption) => (
            match encryption.is_in_effect {
                true => "all its buffers are copied through swiotlb at each I/O",
                false => {
                    "if the encryption is in effect, all its buffers are copied through swiotlb at each I/O"
                }
            },
            Advice::say("; or ").and(end_encryption(host)),
            ENCRYPTION_RISK,
        ),
    }
}

/// How a host stops encrypting its memory. Kernels may be built to begin with it, so that it does not do to take the option away.
fn end_encryption(host: &Host) -> Advice {
    let asked = host.options.iter().filter(|judged| judged.token.is(host_encryption::OPTION));
    let line = asked.fold(LineEdit::of(host), |line, judged| line.remove(&judged.token.at.text));
    Advice::say("give the encryption up: ")
        .and(line.add("mem_encrypt=off").advice())
        .and_say(" (where firmware's setup has TSME, that encrypts all memory without such a bit)")
}

/// How the IOMMU translates by default. If it is in use and no option asks for passthrough, it does (drivers/iommu/iommu.c,
/// `iommu_subsys_init`).
fn translate_by_default(host: &Host) -> Advice {
    let identity = [Effect::Passthrough(true)];
    match (LineEdit::asks(host, &identity), host.log.translation_active.is_some()) {
        (true, _) => Advice::say(": ").and(LineEdit::of(host).stop_asking(&identity).advice()),
        (false, true) => Advice::default(),
        (false, false) => Advice::say(": ").and(turn_iommu_on(host, DefaultDomain::Translated)),
    }
}

/// A finding on bounce buffers of a host with encrypted memory, where no adapter with a narrow mask is known.
fn encrypted_host_bounces(case: &Case<'_>) -> Option<Finding> {
    let host = case.host;
    let at = host.log.encrypted_bounce.as_ref().filter(|_| host.bounce.forced.is_none())?;
    let explains = |(adapter, verdict): (&Adapter, &Verdict)| {
        verdict.dma_path == DmaPath::Bounce
            && matches!(beyond_mask(host, adapter), Some((_, Beyond::EncryptionBit(_))))
    };
    if case.working().any(explains) {
        return None;
    }
    let encryption = host.host_encryption.as_ref().filter(|encryption| encryption.is_in_effect);
    let by_mask = "a device whose DMA mask does not reach the encryption bit in addresses (47 or 51), such as a mask of 32 bits, where no \
                   IOMMU translates for it";
    let what = match encryption {
        Some(_) => format!(
            "memory is encrypted (SME), and buffers were copied through swiotlb: as a rule those of {by_mask}"
        ),
        None => format!(
            "memory is encrypted, and buffers were copied through swiotlb: on a host with AMD's SME as a rule those of {by_mask}; in a \
             confidential guest (SEV, TDX) those of all DMA that is not translated"
        ),
    };
    Some(Finding {
        id: Id::Mask32Bit,
        severity: if encryption.is_some() { Severity::Warning } else { Severity::Note },
        address: None,
        what,
        evidence: vec![at.clone()].into_iter().chain(encryption.map(|encryption| encryption.at.clone())).collect(),
        fix: match encryption {
            Some(_) => Advice::say("let the IOMMU translate for it")
                .and(translate_by_default(host))
                .and_say("; or ")
                .and(end_encryption(host)),
            None => "on a host let the IOMMU translate for such devices, not pass addresses through; in a guest nothing from inside".into(),
        },
        risk: ENCRYPTION_RISK.to_owned(),
        verify: "/sys/kernel/debug/swiotlb/io_tlb_used stays near 0 under load".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// A finding if all DMA is bounced, by an option or by memory encryption.
fn forced_bouncing(case: &Case<'_>) -> Option<Finding> {
    let at = case.host.bounce.forced.as_ref()?;
    let users = case.working().filter(|(_, verdict)| verdict.dma_path == DmaPath::Bounce).count();
    let by_encryption = case.host.log.memory_encryption.is_some();
    let (severity, fix, risk, verify) = match by_encryption {
        true => (
            Severity::Note,
            "none from inside: devices can't reach a confidential guest's encrypted memory; keep I/O large and \
             queues few, and give the pool room (swiotlb=<slots>)"
                .into(),
            "without bouncing no device works".to_owned(),
            "/sys/kernel/debug/swiotlb/io_tlb_used stays well below io_tlb_nslabs under load",
        ),
        false => (
            // Where all adapters are translated nobody pays for it yet.
            if users == 0 { Severity::Note } else { Severity::Warning },
            LineEdit::of(case.host).stop_asking(&[Effect::SwiotlbForce(true)]).advice(),
            "none, unless it was set to work around a device that can't reach its buffers".to_owned(),
            "/sys/kernel/debug/swiotlb/io_tlb_used stays near 0 under load",
        ),
    };
    Some(Finding {
        id: Id::SwiotlbForced,
        severity,
        address: None,
        what: {
            let pool = case.host.bounce.pool_bytes.as_ref();
            let of_pool =
                pool.map_or_else(String::new, |pool| format!(" of {} MiB", grouped(pool.value >> 20)));
            let by = if by_encryption { ", as this guest's memory is encrypted" } else { "" };
            let of_users = match case.host.adapters.is_empty() {
                true => String::new(),
                false => format!(": {}", counted(users, "adapter")),
            };
            format!("all DMA that is not translated is copied through bounce buffers{of_pool}{by}{of_users}")
        },
        evidence: vec![at.clone()],
        fix,
        risk,
        verify: verify.into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// A finding for each adapter that found the pool full.
fn pool_ran_out(host: &Host) -> Vec<Finding> {
    let full = host.log.swiotlb_full.iter().filter(|full| !full.lacks_pool());
    let by_adapter = by_address(full, |full| full.address);
    by_adapter.into_iter().map(|(address, lines)| pool_ran_out_for(host, address, &lines)).collect()
}

/// A finding on an adapter that found the pool full, with the lines that say so.
fn pool_ran_out_for(host: &Host, address: Option<Bdf>, lines: &[&PoolFull]) -> Finding {
    let bytes_max = lines.iter().filter_map(|full| full.bytes).max();
    let used = lines.iter().filter_map(|full| Some((full.used_slots?, full.slots?))).max();
    let of_bytes = bytes_max.map_or_else(String::new, |bytes| format!(" of up to {} bytes", grouped(bytes)));
    let of_slots = used.map_or_else(String::new, |(used, slots)| {
        let percent = used.saturating_mul(100).checked_div(slots).unwrap_or(100);
        format!(" with {} of {} slots ({percent} %) in use", grouped(used), grouped(slots))
    });
    let other = lines.iter().find_map(|full| full.other_device.as_deref());
    let whose = other.map_or_else(String::new, |name| format!("of {name} "));
    let mut what = format!(
        "no bounce buffer for requests {whose}({}): those{of_bytes} failed{of_slots}",
        counted(lines.len(), "time")
    );
    let too_large = bytes_max.is_some_and(|bytes| bytes > MAPPING_BYTES_MAX);
    if too_large {
        what.push_str(&format!(
            "; one mapping can have at most {} bytes, so the largest request fails in a pool of any size",
            grouped(MAPPING_BYTES_MAX)
        ));
    }
    let encryption = host.host_encryption.as_ref().filter(|encryption| encryption.is_in_effect);
    if encryption.is_some() {
        what.push_str(
            "; memory is encrypted (SME), which has all buffers copied of a device whose mask does not reach the encryption bit (47 or 51)",
        );
    }
    let mask = address.and_then(|address| host.adapter(address)).and_then(Adapter::narrow_mask);
    if let Some(mask) = mask {
        what.push_str(&format!("; its driver set a DMA mask of {} bits", mask.value));
    }
    // The kernel tells of one request for memory in up to two lines.
    let is_same =
        |refused: &&RefusedAllocation| bytes_max.is_some_and(|bytes| refused.wanted == Wanted::Bytes(bytes));
    let refused = host.log.refused_allocations.iter().find(is_same).and_then(|refused| refused.at.first());
    let first = lines.first().map(|full| &full.at);
    let evidence = first.into_iter().chain(refused).cloned().chain(pool_citation(host));
    let evidence = evidence.chain(encryption.map(|encryption| encryption.at.clone()));
    let evidence = evidence.chain(mask.map(|mask| mask.at.clone()));
    let adapter = address.and_then(|address| host.adapter(address));
    if adapter.is_some_and(|adapter| is_tried_with_less(host, adapter, lines)) {
        return tried_with_less(address, lines.len(), evidence.collect());
    }
    let split = if too_large { smaller_requests(adapter) } else { Advice::default() };
    let slots = used.map_or_else(|| pool_slots(host), |(_, slots)| slots.max(pool_slots(host)));
    let finding = Finding {
        severity: Severity::Critical,
        address,
        what,
        evidence: evidence.collect(),
        ..pool_finding()
    };
    // The pool was far from full: only the size of the request mattered.
    if too_large && used.is_some_and(|(used, slots)| used < slots / 2) {
        let verify = "no new such line in `dmesg` under load";
        return Finding { fix: split, risk: "none".to_owned(), verify: verify.into(), ..finding };
    }
    // No pool helps any of them.
    if too_large && lines.iter().all(|full| full.bytes.is_some_and(|bytes| bytes > MAPPING_BYTES_MAX)) {
        let (fix, risk) = match must_bounce(host, adapter) {
            true => (split, "none"),
            false => (split.and_say(", or ").and(need_less(host, adapter)), TRANSLATION_RISK),
        };
        return Finding { fix, risk: risk.to_owned(), ..finding };
    }
    let fix = match (too_large, bytes_max) {
        (true, _) => split.and_say(". Besides, ").and(bounce_less(host, adapter, slots)),
        (false, Some(_)) => bounce_less(host, adapter, slots),
        (false, None) => Advice::say("find the size of the requests, which the line has lost: above 256 KiB no pool helps. Up to that, ")
            .and(bounce_less(host, adapter, slots)),
    };
    Finding { fix, ..finding }
}

/// Whether these are the requests of graphics drivers (TTM) for 2 MiB in one piece, which Linux 4.15 warned of although the drivers do with
/// single pages when they fail (Christian König, "swiotlb: suppress warning when __GFP_NOWARN is set", 2018).
fn is_tried_with_less(host: &Host, adapter: &Adapter, lines: &[&PoolFull]) -> bool {
    const HUGE_PAGE_BYTES: u64 = 2 << 20;
    let uses_ttm = |driver: &Cited<String>| matches!(driver.value.as_str(), "amdgpu" | "nouveau" | "radeon");
    let release = host.platform.kernel.as_ref().map(|kernel| &kernel.value);
    release.is_some_and(|release| release.at_least(4, 15) && !release.at_least(4, 17))
        && adapter.function.driver.as_ref().is_some_and(uses_ttm)
        && lines.iter().all(|full| full.bytes == Some(HUGE_PAGE_BYTES))
}

/// A finding on requests that a driver makes again in smaller pieces.
fn tried_with_less(address: Option<Bdf>, count: usize, evidence: Vec<Citation>) -> Finding {
    Finding {
        severity: Severity::Note,
        address,
        what: format!(
            "no bounce buffer for requests of 2 MiB ({}): no mapping is as large, and the driver does with single pages then",
            counted(count, "time")
        ),
        evidence,
        fix: "nothing: no request is lost. Linux 4.17 and later don't print such lines".into(),
        risk: "none".to_owned(),
        verify: "no such line in `dmesg` names another size".into(),
        ..pool_finding()
    }
}

/// How a driver asks for less than a mapping can have.
fn smaller_requests(adapter: Option<&Adapter>) -> Advice {
    const SPLIT: &str = "let the driver ask for at most 256 KiB at a time";
    let class = adapter.and_then(|adapter| adapter.function.ids.class);
    match class.map(|class| class.kind()) {
        Some(Kind::Storage(_)) => {
            Advice::say(SPLIT).and_say(" (of a disk, `max_sectors_kb` of its queue in sysfs)")
        }
        _ => SPLIT.into(),
    }
}

/// A finding on mappings that needed a bounce buffer on a machine that has no pool of them.
fn pool_missing(host: &Host) -> Vec<Finding> {
    // Where the kernel also tells of the mask, that finding says it.
    let is_told = |full: &PoolFull| host.log.mask_overflows.iter().any(|line| line.address == full.address);
    let lacking = host.log.swiotlb_full.iter().filter(|full| full.lacks_pool() && !is_told(full));
    let of_adapter = |(address, lines): (Option<Bdf>, Vec<&PoolFull>)| {
        let bytes = lines.iter().filter_map(|full| full.bytes).max().unwrap_or(0);
        let what = format!(
            "mappings of up to {} bytes needed a bounce buffer and failed ({})",
            grouped(bytes),
            counted(lines.len(), "line")
        );
        let finding = no_pool(host, address).finding(address, &what, &lines.first()?.at);
        Some(Finding { verify: "no new such line in `dmesg`".into(), ..finding })
    };
    by_address(lacking, |full| full.address).into_iter().filter_map(of_adapter).collect()
}

/// Why there is no pool, and what helps. x86 sets one up where memory that was there at boot, or may be added, lies beyond
/// 4 GiB, or an option forces it (arch/x86/kernel/pci-dma.c, `pci_swiotlb_detect`).
fn no_pool(host: &Host, address: Option<Bdf>) -> NoBounce {
    if let Some(cause) = switched_off(host) {
        return cause;
    }
    const LOOK: &str = "look for `iommu=off` on the kernel command line; else boot with the memory in place that is added later, or use \
                        an adapter and driver with a 64-bit mask";
    let adapter = address.and_then(|address| host.adapter(address));
    NoBounce {
        why: "there is no pool of bounce buffers, because an option (`iommu=off`, which need not be in what was read) keeps it away, \
              or because all memory lay below 4 GiB when the kernel booted and more was added later; a larger number for \
              `swiotlb=` makes no pool",
        evidence: None,
        fix: match host.platform.hypervisor {
            Some(_) => LOOK.into(),
            None => Advice::say(LOOK).and_say("; or ").and(have_translated(host, adapter)),
        },
        risk: "with translation each I/O pays for a mapping",
    }
}

/// A finding if the pool is nearly full.
fn pool_nearly_full(host: &Host) -> Option<Finding> {
    let pool = host.bounce.pool_bytes.as_ref()?;
    let used = host.bounce.used_slots_max.as_ref().or(host.bounce.used_slots.as_ref())?;
    let slots = pool.value / SLOT_BYTES;
    let percent = used.value.saturating_mul(100).checked_div(slots)?;
    (percent >= USED_PERCENT_MAX).then(|| Finding {
        what: format!(
            "bounce buffers are {percent} % in use: {} of {} slots",
            grouped(used.value),
            grouped(slots)
        ),
        evidence: vec![used.at.clone(), pool.at.clone()],
        fix: bounce_less(host, None, pool_slots(host)),
        ..pool_finding()
    })
}

/// What all findings on a pool that is too small have in common.
fn pool_finding() -> Finding {
    Finding {
        id: Id::SwiotlbFull,
        severity: Severity::Warning,
        address: None,
        what: String::new(),
        evidence: Vec::new(),
        fix: Advice::default(),
        risk: "the pool is taken from memory at boot, on x86 from below 4 GiB; where a driver leaks mappings, a larger \
               one only fills later"
            .to_owned(),
        verify: "/sys/kernel/debug/swiotlb/io_tlb_used against io_tlb_nslabs under load".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// Cites the size of the pool.
fn pool_citation(host: &Host) -> Option<Citation> {
    host.bounce.pool_bytes.as_ref().map(|pool| pool.at.clone())
}

/// Slots that the pool has, or that the command line asks for if that is more.
fn pool_slots(host: &Host) -> u64 {
    let pool = host.bounce.pool_bytes.as_ref().map_or(SLOTS_DEFAULT, |pool| pool.value / SLOT_BYTES);
    pool.max(host.requests.swiotlb_slots.as_ref().map_or(0, |slots| slots.value))
}

/// How the need for bounce buffers goes away, and else a larger pool; only the pool in a confidential guest, which can't do
/// without bounce buffers.
fn bounce_less(host: &Host, adapter: Option<&Adapter>, slots: u64) -> Advice {
    if let Some(said) = translated_now(host, adapter) {
        return said;
    }
    match must_bounce(host, adapter) {
        true => larger_pool(host, slots),
        false => need_less(host, adapter).or_else(larger_pool(host, slots)),
    }
}

/// Whether nothing but bounce buffers will do.
fn must_bounce(host: &Host, adapter: Option<&Adapter>) -> bool {
    host.log.memory_encryption.is_some() || adapter.is_some_and(|adapter| is_untrusted(host, adapter))
}

/// How the need for bounce buffers goes away.
fn need_less(host: &Host, adapter: Option<&Adapter>) -> Advice {
    if let Some(said) = translated_now(host, adapter) {
        return said;
    }
    let need_less = match adapter {
        Some(adapter) => have_translated(host, Some(adapter)).and_say(", or use a driver with a wider mask"),
        None => Advice::say("first stop the need (a wider mask, or translation)"),
    };
    match host.host_encryption.as_ref().is_some_and(|encryption| encryption.is_in_effect) {
        true => need_less.and_say("; or ").and(end_encryption(host)),
        false => need_less,
    }
}

/// A pool of twice as many slots, if one may be had.
fn larger_pool(host: &Host, slots: u64) -> Advice {
    let wanted = slots.saturating_mul(2).next_power_of_two();
    let mebibytes = wanted.saturating_mul(SLOT_BYTES) >> 20;
    let is_low = host.platform.architecture.as_ref().is_none_or(|architecture| architecture.is_x86());
    if is_low && mebibytes > LOW_POOL_MEBIBYTES_MAX {
        let prose = format!(
            "no larger pool: twice as many slots take {mebibytes} MiB, and they must lie below 4 GiB"
        );
        return prose.into();
    }
    Advice::say(format!("a pool of {mebibytes} MiB: "))
        .and(add_kernel_argument(host, &format!("swiotlb={wanted}")))
}

/// What is said of a fault of bounce buffers where the IOMMU translates for the adapter by now.
fn translated_now(host: &Host, adapter: Option<&Adapter>) -> Option<Advice> {
    let domain = domain_type(host, adapter?)?.value;
    // What a device on a port for strangers writes is copied although it is translated (drivers/iommu/dma-iommu.c,
    // `dev_use_swiotlb`).
    let is_translated =
        matches!(domain, DomainType::Dma | DomainType::DmaFq) && !is_untrusted(host, adapter?);
    is_translated.then(|| {
        "nothing to do: the IOMMU translates for this adapter now, and the lines in the log are older".into()
    })
}

/// How the DMA of an adapter, or of an unnamed one, gets translated.
fn have_translated(host: &Host, adapter: Option<&Adapter>) -> Advice {
    let how = adapter.map_or_else(
        || turn_iommu_on(host, DefaultDomain::Translated),
        |adapter| translate_adapter(host, adapter),
    );
    Advice::say("let the IOMMU translate for it, not pass addresses through: ").and(how)
}

/// How a line that forbids bounce buffers is changed.
fn let_bounce(host: &Host) -> Advice {
    LineEdit::of(host).stop_asking(&[Effect::SwiotlbForce(false)]).advice()
}

/// Mappings refused because nothing could bring them within the mask, by adapter.
fn overflows(host: &Host) -> Vec<Finding> {
    let by_adapter = by_address(&host.log.mask_overflows, |overflow| overflow.address);
    by_adapter.values().filter_map(|lines| overflow(host, lines)).collect()
}

/// A finding on the mappings of one adapter that overflowed its mask.
fn overflow(host: &Host, lines: &[&MaskOverflow]) -> Option<Finding> {
    let first = lines.first()?;
    let reach = first.mask.map_or_else(String::new, |mask| {
        format!(" of {} bits, which reaches {mask:#x}", u64::BITS - mask.leading_zeros())
    });
    let wanted = first.bus_address.map_or_else(String::new, |address| {
        let bytes = first.bytes.map_or_else(String::new, |bytes| format!("{} bytes at ", grouped(bytes)));
        format!("; it wanted {bytes}{address:#x}")
    });
    let lines = counted(lines.len(), "line");
    let beyond = match first.bus_limit {
        Some(limit) => format!("what its bus reaches ({limit:#x})"),
        None => format!("the device's mask{reach}"),
    };
    let what = format!("mappings beyond {beyond} failed ({lines}){wanted}");
    let finding = no_bounce_buffer(host, first).finding(first.address, &what, &first.at);
    let adapter = first.address.and_then(|address| host.adapter(address));
    Some(Finding { fix: translated_now(host, adapter).unwrap_or(finding.fix), ..finding })
}

/// Why nothing bounced a mapping, and what helps.
struct NoBounce {
    why: &'static str,
    evidence: Option<Citation>,
    fix: Advice,
    risk: &'static str,
}

impl NoBounce {
    /// A finding on mappings that failed for this cause, and the first line that tells of them.
    fn finding(self, address: Option<Bdf>, failed: &str, first: &Citation) -> Finding {
        Finding {
            id: Id::SwiotlbSmall,
            severity: Severity::Critical,
            address,
            what: format!("{failed}: {}", self.why),
            evidence: std::iter::once(first.clone()).chain(self.evidence).collect(),
            fix: self.fix,
            risk: self.risk.to_owned(),
            verify: "no new `overflow` line in `dmesg`".into(),
            gain: None,
            predicted: Vec::new(),
            forecast: None,
        }
    }
}

/// The option that keeps bounce buffers away, if the command line that was read has one.
fn switched_off(host: &Host) -> Option<NoBounce> {
    // arch/x86/kernel/pci-swiotlb.c sets no pool up with `iommu=off` (`no_iommu`) alone; it keeps the IOMMU off too.
    let is_pool_asked = host.requests.swiotlb_active.is_some() || host.bounce.forced.is_some();
    let off = host.requests.iommu_enabled.as_ref();
    let off = off.filter(|asked| !asked.value && asked.at.text == "iommu=off" && !is_pool_asked);
    if let Some(off) = off {
        return Some(NoBounce {
            why: "`iommu=off` keeps the kernel from translating and from setting bounce buffers up",
            evidence: Some(off.at.clone()),
            fix: LineEdit::of(host).stop_asking(&[Effect::Iommu(false)]).advice().and_say(
                "; where the IOMMU itself must stay off, `intel_iommu=off` or `amd_iommu=off` leaves the bounce buffers",
            ),
            risk: "the IOMMU is then used again: each I/O pays for a mapping unless `iommu=pt` stands beside it",
        });
    }
    host.bounce.never.as_ref().map(|never| NoBounce {
        why: "the command line keeps bounce buffers off",
        evidence: Some(never.clone()),
        fix: Advice::say("let bounce buffers exist: ").and(let_bounce(host)),
        risk: "the pool takes 64 MiB of memory below 4 GiB, and buffers beyond the mask are copied",
    })
}

/// A mapping beyond the mask, or beyond what the bus reaches, that is larger than any bounce buffer.
fn too_large_to_bounce(host: &Host, overflow: &MaskOverflow) -> NoBounce {
    /// Masks from this one on reach all memory of nearly all machines.
    const WIDE_MASK: u64 = (1 << 38) - 1;
    let adapter = overflow.address.and_then(|address| host.adapter(address));
    if overflow.bus_limit.is_some() {
        return NoBounce {
            why: "its bus reaches less memory than its mask, and no bounce buffer has that many bytes",
            evidence: None,
            fix: "have the bus reach more (`dma-ranges` of the device tree, `_DMA` of ACPI: an update of the kernel's device tree or of firmware), or \
                  the driver ask for at most 256 KiB at a time; until then keep memory below that address with `mem=`"
                .into(),
            risk: "with `mem=` the memory beyond is not used at all",
        };
    }
    let fix = have_translated(host, adapter);
    if overflow.mask.is_none_or(|mask| mask < WIDE_MASK) {
        return NoBounce {
            why: "no bounce buffer has that many bytes, so only translation brings it within reach",
            evidence: None,
            fix: fix.and_say("; or have its driver ask for at most 256 KiB at a time"),
            risk: TRANSLATION_RISK,
        };
    }
    NoBounce {
        why: "no bounce buffer has that many bytes, so only translation brings it within reach; such requests are \
              mostly for another device's memory, which firmware placed too high",
        evidence: None,
        fix: fix.and_say(
            "; or have firmware place the other device's memory lower (`MMIO High Base`, `Above 4G Decoding`)",
        ),
        risk: TRANSLATION_RISK,
    }
}

/// Why nothing bounced this mapping.
fn no_bounce_buffer(host: &Host, overflow: &MaskOverflow) -> NoBounce {
    let adapter = overflow.address.and_then(|address| host.adapter(address));
    if overflow.is_bounced {
        return NoBounce {
            why: "that is the bounce buffer itself: on this bus memory begins beyond what the device can reach, so no \
                  transfer works",
            evidence: None,
            fix: Advice::say(
                "if the device can do more, have its driver set a wider mask; else give the bus a window to memory within the mask \
                 (a setting of firmware or the device tree; on a Raspberry Pi 4 `dtoverlay=pcie-32bit-dma`, on a Raspberry Pi 5 \
                 `dtoverlay=pcie-32bit-dma-pi5`)",
            ),
            risk: "other devices behind the same bridge may reach less memory directly, and are bounced more",
        };
    }
    if overflow.is_nommu {
        return NoBounce {
            why: "the kernel maps DMA with neither an IOMMU nor bounce buffers (`nommu`)",
            evidence: None,
            fix: "use a kernel that has bounce buffers and sets them up below the device's mask, or one with an IOMMU; until then \
                  keep memory within the mask with `mem=`, or use an adapter with a wider one"
                .into(),
            risk: "with `mem=` the memory beyond is not used at all",
        };
    }
    if let Some(cause) = switched_off(host) {
        return cause;
    }
    let mut full = host.log.swiotlb_full.iter().filter(|full| full.address == overflow.address);
    if full.any(PoolFull::lacks_pool) {
        return no_pool(host, overflow.address);
    }
    // kernel/dma/swiotlb.c, `IO_TLB_SEGSIZE`: a mapping takes at most 128 slots in a row.
    if overflow.bytes.is_some_and(|bytes| bytes > MAPPING_BYTES_MAX) {
        return too_large_to_bounce(host, overflow);
    }
    if let Some(failed) = &host.log.swiotlb_failed {
        return NoBounce {
            why: "the kernel found no memory for the bounce buffers",
            evidence: Some(failed.clone()),
            fix: have_translated(host, adapter)
                .and_say("; or free memory below 4 GiB at boot (a smaller `crashkernel=`)"),
            risk: TRANSLATION_RISK,
        };
    }
    NoBounce {
        why: "nothing bounced or translated them, and what was read does not say why",
        evidence: None,
        fix: have_translated(host, adapter)
            .and_say("; the lines `software IO TLB` of the boot log say why there is no bounce buffer"),
        risk: TRANSLATION_RISK,
    }
}
