//! A slot: an adapter's endpoint as Linux sees it.

use super::ddw_outcome::DdwOutcome;
use super::{EndpointAddress, Partition, Properties, TceWindow};
use crate::{Domain, Limits, Mapper};
use iova::SpaceError;
use std::sync::Arc;

/// An endpoint with its default window.
#[derive(Debug)]
pub struct PciSlot {
    pub(super) partition: Arc<Partition>,
    pub(super) address: EndpointAddress,
    pub(super) properties: Properties,
    default_window: Arc<TceWindow>,
    default_domain: Arc<Domain>,
}

impl PciSlot {
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
