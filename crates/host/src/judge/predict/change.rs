//! Which findings lead to another road, and to which.

use crate::Bdf;
use crate::facts::{Adapter, Host};
use crate::judge::decide::beyond_mask;
use crate::judge::{Finding, Id, Road, Verdict};
use crate::power::partition::Platform;
use std::collections::BTreeMap;

/// A change of road.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Change {
    /// The road that an adapter is on.
    pub(super) from: Road,
    /// The road that the remedy leads to.
    pub(super) to: Road,
    /// Which I/Os pay as the sheets say, where not all do.
    pub(super) only: Option<&'static str>,
}

/// Adapters that the kernel does I/O with, with their roads, by address.
pub(super) type Working<'h> = BTreeMap<Bdf, (&'h Adapter, &'h Verdict)>;

/// The adapters whose road the finding's remedy changes.
pub(super) fn of<'h>(host: &Host, working: &Working<'h>, finding: &Finding) -> Vec<(&'h Adapter, Change)> {
    let concerned: Vec<_> = match finding.address {
        Some(address) => working.get(&address).into_iter().collect(),
        None if finding.id == Id::SwiotlbForced => working.values().collect(),
        None => Vec::new(),
    };
    let change = |(adapter, verdict): &(&'h Adapter, &'h Verdict)| {
        let to = leads_to(host, finding.id, adapter, verdict)?;
        let only = (finding.id == Id::Mask32Bit).then_some("of which the buffer lies beyond the mask");
        Some((*adapter, Change { from: verdict.road, to, only }))
    };
    concerned.into_iter().filter_map(change).collect()
}

fn leads_to(host: &Host, id: Id, adapter: &Adapter, verdict: &Verdict) -> Option<Road> {
    match (id, verdict.road) {
        (Id::StrictOnFastAdapter | Id::StrictAgainstRequest, Road::TranslatedStrict) => {
            // Where the kernel does not batch on a virtual IOMMU, the remedy is passthrough.
            Some(if host.log.batching_disallowed.is_some() { Road::Identity } else { Road::TranslatedLazy })
        }
        (Id::LazyAgainstRequest, Road::TranslatedLazy) => Some(Road::TranslatedStrict),
        (Id::Mask32Bit, Road::Bounce) => {
            let strict = host.invalidation()?.strict;
            Some(if strict { Road::TranslatedStrict } else { Road::TranslatedLazy })
        }
        (Id::SwiotlbForced, Road::Bounce) => without_force(host, adapter),
        // Bare metal writes its tables without hypercalls: no sheet is like it.
        (Id::PowerDefaultWindow | Id::PowerMaximumMemory, Road::TceWindow | Road::DynamicWindow) => {
            (!is_bare_metal(host)).then_some(Road::DirectWindow)
        }
        _ => None,
    }
}

/// A confidential guest can't do without, and an adapter that does not reach its buffers is copied for anyway.
fn without_force(host: &Host, adapter: &Adapter) -> Option<Road> {
    if host.log.memory_encryption.is_some() || beyond_mask(host, adapter).is_some() {
        return None;
    }
    let untranslated = host.iommus.instances.is_empty() && host.log.translation_active.is_none();
    Some(if untranslated { Road::NoIommu } else { Road::Identity })
}

fn is_bare_metal(host: &Host) -> bool {
    let platform = host.power.as_ref().and_then(|partition| partition.platform.as_ref());
    platform.is_some_and(|platform| platform.value == Platform::PowerNv)
}
