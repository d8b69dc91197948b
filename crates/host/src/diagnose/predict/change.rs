//! Which findings lead to another DMA path, and to which.

use crate::Bdf;
use crate::diagnose::decide::{Beyond, beyond_mask};
use crate::diagnose::{DmaPath, Finding, Id, Verdict};
use crate::facts::{Adapter, Host};
use crate::power::partition::Platform;
use std::collections::BTreeMap;

/// A change of DMA path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Change {
    /// The DMA path that an adapter is on.
    pub(super) from: DmaPath,
    /// The DMA path that the remedy leads to.
    pub(super) to: DmaPath,
    /// Which I/Os pay as the sheets say, where not all do.
    pub(super) only: Option<&'static str>,
}

/// Adapters that the kernel does I/O with, with their DMA paths, by address.
pub(super) type Working<'h> = BTreeMap<Bdf, (&'h Adapter, &'h Verdict)>;

/// The adapters whose DMA path the finding's remedy changes.
pub(super) fn of<'h>(host: &Host, working: &Working<'h>, finding: &Finding) -> Vec<(&'h Adapter, Change)> {
    let concerned: Vec<_> = match finding.address {
        Some(address) => working.get(&address).into_iter().collect(),
        None if finding.id == Id::SwiotlbForced => working.values().collect(),
        None => Vec::new(),
    };
    let change = |(adapter, verdict): &(&'h Adapter, &'h Verdict)| {
        let to = dma_path_after_fix(host, finding.id, adapter, verdict)?;
        let all_beyond = matches!(beyond_mask(host, adapter), Some((_, Beyond::EncryptionBit(_))));
        let only = (finding.id == Id::Mask32Bit && !all_beyond)
            .then_some("of which the buffer lies beyond the mask");
        Some((*adapter, Change { from: verdict.dma_path, to, only }))
    };
    concerned.into_iter().filter_map(change).collect()
}

/// The DMA path that an adapter has once this finding's fix is applied; `None` if the fix does not change it.
fn dma_path_after_fix(host: &Host, id: Id, adapter: &Adapter, verdict: &Verdict) -> Option<DmaPath> {
    match (id, verdict.dma_path) {
        (Id::StrictOnFastAdapter | Id::StrictAgainstRequest, DmaPath::TranslatedStrict) => {
            // Where the kernel does not batch on a virtual IOMMU, the remedy is passthrough.
            Some(if host.log.batching_disallowed.is_some() {
                DmaPath::Identity
            } else {
                DmaPath::TranslatedLazy
            })
        }
        (Id::LazyAgainstRequest, DmaPath::TranslatedLazy) => Some(DmaPath::TranslatedStrict),
        (Id::Mask32Bit, DmaPath::Bounce) => {
            let strict = host.invalidation()?.strict;
            Some(if strict { DmaPath::TranslatedStrict } else { DmaPath::TranslatedLazy })
        }
        (Id::SwiotlbForced, DmaPath::Bounce) => dma_path_without_forced_bouncing(host, adapter),
        // Against a narrow mask the remedy is another adapter, and what that one's driver would pay here nobody counted.
        (Id::PowerDefaultWindow | Id::RdmaOutsideWindow, _) if adapter.narrow_mask().is_some() => None,
        // Bare metal writes its tables without hypercalls: no sheet is like it.
        (
            Id::PowerDefaultWindow | Id::PowerMaximumMemory | Id::RdmaOutsideWindow,
            DmaPath::TceWindow | DmaPath::DynamicWindow,
        ) => (!is_bare_metal(host)).then_some(DmaPath::DirectWindow),
        _ => None,
    }
}

/// The DMA path of an adapter once the kernel no longer forces bouncing. `None` if its buffers are bounced anyway: in a
/// confidential guest, and where its mask does not reach them.
fn dma_path_without_forced_bouncing(host: &Host, adapter: &Adapter) -> Option<DmaPath> {
    if host.log.memory_encryption.is_some() || beyond_mask(host, adapter).is_some() {
        return None;
    }
    let untranslated = host.iommus.instances.is_empty() && host.log.translation_active.is_none();
    Some(if untranslated { DmaPath::NoIommu } else { DmaPath::Identity })
}

/// Whether Linux runs without a hypervisor (PowerNV).
fn is_bare_metal(host: &Host) -> bool {
    let platform = host.power.as_ref().and_then(|partition| partition.platform.as_ref());
    platform.is_some_and(|platform| platform.value == Platform::PowerNv)
}
