//! A slot: an adapter's endpoint as Linux sees it.

use super::enable_ddw::{Attempt, DdwOutcome};
use super::{EndpointAddress, Partition, Properties, TceWindow};
use crate::{DmaCounters, Domain, Limits, Mapper};
use ddw::Request;
use iova::SpaceError;
use std::sync::Arc;
use std::time::Duration;

/// An endpoint with its default window.
#[derive(Debug)]
pub struct Slot {
    pub(super) partition: Arc<Partition>,
    pub(super) address: EndpointAddress,
    pub(super) properties: Properties,
    default_window: Arc<TceWindow>,
    default_domain: Arc<Domain>,
}

impl Slot {
    /// The endpoint at an address; `None` if there is none.
    ///
    /// # Errors
    /// If the default window has too many pages for the allocator.
    pub fn new(partition: Arc<Partition>, address: EndpointAddress) -> Result<Option<Self>, SpaceError> {
        let Some(properties) = partition.hypervisor().properties(address) else { return Ok(None) };
        let default_window = Arc::new(TceWindow::at_boot(partition.clone(), &properties.default_window));
        let default_domain = Arc::new(default_window.domain()?);
        Ok(Some(Self { partition, address, properties, default_window, default_domain }))
    }

    /// The default window. It is stale if `enable_ddw` removed it.
    pub fn default_window(&self) -> &Arc<TceWindow> {
        &self.default_window
    }

    /// Runs Linux's `enable_ddw` of `request`'s era against the firmware, as when a driver sets its mask. `wait` is
    /// called where the firmware is busy.
    ///
    /// Call it once per endpoint, while nothing is being mapped. Adapters of the endpoint share the result.
    pub fn enable_ddw(
        &self,
        request: &Request,
        wait: &mut dyn FnMut(Duration),
        counters: &mut DmaCounters,
    ) -> DdwOutcome {
        Attempt::new(self, request, wait, counters).run().unwrap_or_else(|why| DdwOutcome::Default { why })
    }

    /// A mapper for an adapter of this endpoint. It uses the offset of a direct window, and of the lower part of a
    /// hybrid one.
    pub fn mapper(&self, way: &DdwOutcome, limits: Limits) -> Mapper {
        match way {
            DdwOutcome::Direct { window } | DdwOutcome::Hybrid { window, .. } => {
                Mapper::direct(limits, window.first.0)
            }
            DdwOutcome::Dynamic { domain, .. } => Mapper::translated(limits, domain.clone()),
            DdwOutcome::Default { .. } => self.default_mapper(limits),
        }
    }

    /// A mapper in the default window, for 32-bit adapters.
    pub fn default_mapper(&self, limits: Limits) -> Mapper {
        Mapper::translated(limits, self.default_domain.clone())
    }
}
