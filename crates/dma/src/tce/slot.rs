//! An adapter's endpoint as Linux sees it.

use super::enable_ddw::{Attempt, Way};
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
    /// The endpoint of this address; `None` if there is none.
    ///
    /// # Errors
    /// If the default window has too many pages for the pools of addresses.
    pub fn new(partition: Arc<Partition>, address: EndpointAddress) -> Result<Option<Self>, SpaceError> {
        let Some(properties) = partition.hypervisor().properties(address) else { return Ok(None) };
        let default_window = Arc::new(TceWindow::at_boot(partition.clone(), &properties.default_window));
        let default_domain = Arc::new(default_window.domain()?);
        Ok(Some(Self { partition, address, properties, default_window, default_domain }))
    }

    /// Its default window, which is stale once it was given away.
    pub fn default_window(&self) -> &Arc<TceWindow> {
        &self.default_window
    }

    /// What happens when a driver sets its mask: Linux's `enable_ddw`, by the rules of `request`'s era, with the firmware's
    /// answers. `wait` is called where the firmware wants time.
    ///
    /// One attempt for each endpoint, while nobody else maps: adapters that share it share what comes of it.
    pub fn enable_ddw(
        &self,
        request: &Request,
        wait: &mut dyn FnMut(Duration),
        counters: &mut DmaCounters,
    ) -> Way {
        Attempt::new(self, request, wait, counters).run().unwrap_or_else(|why| Way::Default { why })
    }

    /// Maps for an adapter of this endpoint: by an offset in a direct window and in the lower part of a hybrid one.
    pub fn mapper(&self, way: &Way, limits: Limits) -> Mapper {
        match way {
            Way::Direct { window } | Way::Hybrid { window, .. } => Mapper::direct(limits, window.first.0),
            Way::Dynamic { domain, .. } => Mapper::translated(limits, domain.clone()),
            Way::Default { .. } => self.default_mapper(limits),
        }
    }

    /// Maps in the default window: for an adapter of 32 bits, whatever others have.
    pub fn default_mapper(&self, limits: Limits) -> Mapper {
        Mapper::translated(limits, self.default_domain.clone())
    }
}
