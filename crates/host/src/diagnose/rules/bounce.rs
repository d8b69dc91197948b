//! Bounce buffers: who is sent through them, and whether there are enough.

use super::{Rule, add_kernel_argument, counted, remove_word, translate_adapter};
use crate::diagnose::decide::beyond_mask;
use crate::diagnose::{Advice, Case, DmaPath, Explanation, Finding, Id, Severity, Verdict};
use crate::facts::bounce::SLOT_BYTES;
use crate::facts::{Adapter, Host};
use crate::{Bdf, Citation};
use escape::shell::Command;
use std::collections::BTreeMap;

/// A pool this full will soon be full: a mapping takes up to 128 slots in a row.
const USED_PERCENT_MAX: u64 = 80;
/// Wider masks have I/O addresses enough, wherever memory ends.
const SHARED_BITS_MAX: u32 = 32;
/// The kernel's own default, 64 MiB, in slots.
const SLOTS_DEFAULT: u64 = 32_768;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[
        Explanation {
            id: Id::Mask32Bit,
            meaning: "The driver asked for a DMA mask that does not reach the end of memory. Where nothing \
                      translates, buffers beyond the mask are copied through swiotlb. Where an IOMMU \
                      translates, all mappings of the adapter share the IOVAs below 4 GiB. POWER serves \
                      such masks from its default window: see power-default-window.",
            severity: "warning where buffers are copied; critical where bounce buffers are off and such \
                       mappings fail; note where an IOMMU translates",
            evidence: "`dma_mask_bits` of the device in sysfs, and the end of memory from `/proc/iomem` or \
                       the kernel log",
            fix: "let the IOMMU translate for the adapter, or use an adapter and driver with a 64-bit mask; \
                  where bounce buffers are off, remove `noforce` from `swiotlb=`",
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
            severity: "critical where transfers failed; warning where the pool is nearly full",
            evidence: "the kernel's lines `swiotlb buffer is full`, or `io_tlb_used` against `io_tlb_nslabs` \
                       in debugfs",
            fix: "first stop the need for bounce buffers (a 64-bit mask, or translation); else give the pool \
                  four times as many slots with `swiotlb=SLOTS`",
            risk: "the pool is taken from memory at boot, on x86 from below 4 GiB",
            verify: "`/sys/kernel/debug/swiotlb/io_tlb_used` against `io_tlb_nslabs` under load",
        },
        Explanation {
            id: Id::SwiotlbSmall,
            meaning: "The kernel refused mappings beyond a device's mask, because there was no bounce \
                      buffer: the pool is off, or could not be allocated.",
            severity: "critical",
            evidence: "the kernel's lines on mappings that overflow the mask, and those on the pool",
            fix: "let bounce buffers exist: remove `noforce` from `swiotlb=`, or add `swiotlb=65536`",
            risk: "the pool takes 64 MiB (128 MiB with 65536 slots), on x86 below 4 GiB",
            verify: "`dmesg` shows `software IO TLB: mapped` and no line with `overflow`",
        },
    ],
};

/// Findings about masks and bounce buffers.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let host = case.host;
    let masks = case.working().filter_map(|(adapter, verdict)| narrow_mask(host, adapter, verdict));
    masks
        .chain(forced_bouncing(case))
        .chain(pool_ran_out(host))
        .chain(pool_nearly_full(host))
        .chain(overflows(host))
        .collect()
}

/// A finding if the adapter's mask does not reach all memory.
fn narrow_mask(host: &Host, adapter: &Adapter, verdict: &Verdict) -> Option<Finding> {
    let (mask, end) = beyond_mask(host, adapter)?;
    // POWER serves narrow masks from its default window: that is its own finding.
    if host.is_power() {
        return None;
    }
    let never = host.bounce.never.as_ref();
    let (severity, what, fix, risk) = match (verdict.dma_path, never) {
        (DmaPath::Bounce, _) if host.bounce.forced.is_none() => (
            Severity::Warning,
            "buffers beyond it are copied through swiotlb at each I/O",
            Advice::say("let the IOMMU translate for it (")
                .and(translate_adapter(host, adapter))
                .and_say("), or use an adapter and driver with a 64-bit mask"),
            "translation costs a mapping per I/O; it protects memory at the same time",
        ),
        (DmaPath::NoIommu | DmaPath::Identity, Some(never)) => (
            Severity::Critical,
            "bounce buffers are off: mapping a buffer beyond it fails",
            remove_word(host, &never.text, "noforce"),
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
            "its driver asked for a {}-bit DMA mask, and memory reaches {:#x}: {what}",
            mask.value, end.value
        ),
        evidence: vec![mask.at.clone(), end.at.clone()],
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

/// A finding if all DMA is bounced, by an option or by memory encryption.
fn forced_bouncing(case: &Case<'_>) -> Option<Finding> {
    let at = case.host.bounce.forced.as_ref()?;
    let users = case.working().filter(|(_, verdict)| verdict.dma_path == DmaPath::Bounce).count();
    let by_encryption = case.host.log.memory_encryption.as_ref() == Some(at);
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
            remove_word(case.host, &at.text, "force"),
            "none, unless it was set to work around a device that can't reach its buffers".to_owned(),
            "/sys/kernel/debug/swiotlb/io_tlb_used stays near 0 under load",
        ),
    };
    Some(Finding {
        id: Id::SwiotlbForced,
        severity,
        address: None,
        what: format!(
            "all DMA that is not translated is copied through bounce buffers: {}",
            counted(users, "adapter")
        ),
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
    let mut by_adapter: BTreeMap<Option<Bdf>, Vec<&Citation>> = BTreeMap::new();
    for (address, at) in &host.log.swiotlb_full {
        by_adapter.entry(*address).or_default().push(at);
    }
    let finding = |(address, lines): (Option<Bdf>, Vec<&Citation>)| {
        let what =
            format!("bounce buffers ran out ({}): those transfers failed", counted(lines.len(), "time"));
        pool_finding(
            host,
            Severity::Critical,
            address,
            what,
            lines.first().map(|at| (*at).clone()).into_iter().collect(),
        )
    };
    by_adapter.into_iter().map(finding).collect()
}

/// A finding if the pool is nearly full.
fn pool_nearly_full(host: &Host) -> Option<Finding> {
    let pool = host.bounce.pool_bytes.as_ref()?;
    let used = host.bounce.used_slots_max.as_ref().or(host.bounce.used_slots.as_ref())?;
    let slots = pool.value / SLOT_BYTES;
    let percent = used.value.saturating_mul(100).checked_div(slots)?;
    (percent >= USED_PERCENT_MAX).then(|| {
        let what = format!("bounce buffers are {percent} % in use: {} of {slots} slots", used.value);
        pool_finding(host, Severity::Warning, None, what, vec![used.at.clone(), pool.at.clone()])
    })
}

/// A finding that asks for a larger pool.
fn pool_finding(
    host: &Host,
    severity: Severity,
    address: Option<Bdf>,
    what: String,
    mut evidence: Vec<Citation>,
) -> Finding {
    let pool = host.bounce.pool_bytes.as_ref();
    let slots = pool.map_or(SLOTS_DEFAULT, |pool| pool.value / SLOT_BYTES);
    evidence.extend(pool.map(|pool| pool.at.clone()));
    evidence.dedup();
    let wanted = slots.saturating_mul(4).next_power_of_two();
    // A confidential guest can't do without.
    let first = match host.log.memory_encryption {
        Some(_) => "",
        None => "first stop the need (a 64-bit mask, or translation); else ",
    };
    Finding {
        id: Id::SwiotlbFull,
        severity,
        address,
        what,
        evidence,
        fix: Advice::say(first)
            .and(add_kernel_argument(host, &format!("swiotlb={wanted}")))
            .and_say(format!(", which is {} MiB", wanted.saturating_mul(SLOT_BYTES) >> 20)),
        risk: "the pool is taken from memory at boot, on x86 from below 4 GiB".to_owned(),
        verify: "/sys/kernel/debug/swiotlb/io_tlb_used against io_tlb_nslabs under load".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// A mapping refused because nothing could bring it within the mask.
fn overflows(host: &Host) -> Option<Finding> {
    let (address, at) = host.log.mask_overflows.first()?;
    let fix = match &host.bounce.never {
        Some(never) => remove_word(host, &never.text, "noforce"),
        None => add_kernel_argument(host, "swiotlb=65536"),
    };
    let evidence =
        std::iter::once(at.clone()).chain(host.bounce.never.clone()).chain(host.log.swiotlb_failed.clone());
    Some(Finding {
        id: Id::SwiotlbSmall,
        severity: Severity::Critical,
        address: *address,
        what: format!(
            "the kernel refused mappings beyond a device's mask ({}): no bounce buffer was to be had",
            counted(host.log.mask_overflows.len(), "line")
        ),
        evidence: evidence.collect(),
        fix: Advice::say("let bounce buffers exist: ").and(fix),
        risk: "the pool takes 64 MiB (or 128 MiB with 65536 slots) of memory, on x86 below 4 GiB".to_owned(),
        verify: "`dmesg` shows `software IO TLB: mapped` and no `overflow` line".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}
