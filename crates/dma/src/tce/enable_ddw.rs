//! Linux's `enable_ddw`: the DMA window an adapter gets when its driver sets a 64-bit mask.

use super::partition::Run;
use super::rtas::{RtasCall, RtasStatus, join};
use super::slot::Slot;
use super::{MemoryRange, Status, TceWindow};
use crate::{Access, BusAddress, DmaCounters, Domain, MemoryAddress};
use ddw::{DefaultReason, PageSizes, Plan, Query, Request, Usage};
use iova::SpaceError;
use std::sync::Arc;
use std::time::Duration;

/// A window that was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// LIOBN.
    pub liobn: u32,
    /// Lowest bus address.
    pub first: BusAddress,
    /// Log2 of the page size.
    pub page_shift: u32,
    /// Log2 of the window's size.
    pub window_shift: u32,
}

/// How an adapter of the slot reaches memory.
#[derive(Debug)]
pub enum DdwOutcome {
    /// All memory is mapped once; the offset is the window's lowest address.
    Direct {
        /// The window.
        window: Created,
    },
    /// Like direct, and addresses above for persistent memory, which is mapped as needed.
    Hybrid {
        /// The window.
        window: Created,
        /// The domain of those addresses.
        above: Arc<Domain>,
    },
    /// A window beyond 4 GiB whose entries are written per mapping.
    Dynamic {
        /// The window.
        window: Created,
        /// Its domain.
        domain: Arc<Domain>,
    },
    /// Only the default window, as at boot.
    Default {
        /// Why no other window was created.
        why: NoWindow,
    },
}

/// Why no window was created besides the default one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoWindow {
    /// Linux does not request one.
    #[error("the kernel requests no window: {0:?}")]
    NotRequested(DefaultReason),
    /// The default window would have to be removed, but is in use.
    #[error("the default window would have to be removed, but is in use")]
    DefaultInUse,
    /// `ibm,query-pe-dma-windows` failed.
    #[error("ibm,query-pe-dma-windows: {0}")]
    QueryRefused(RtasStatus),
    /// `ibm,create-pe-dma-window` failed.
    #[error("ibm,create-pe-dma-window: {0}")]
    CreateRefused(RtasStatus),
    /// The hypervisor refused an entry.
    #[error("memory could not be mapped in the new window: {0}")]
    PremapRefused(Status),
    /// The window has more pages than the allocator supports.
    #[error(transparent)]
    TooLarge(#[from] SpaceError),
}

impl From<DefaultReason> for NoWindow {
    fn from(reason: DefaultReason) -> Self {
        Self::NotRequested(reason)
    }
}

/// One run of Linux's `enable_ddw` (arch/powerpc/platforms/pseries/iommu.c). Crate [`ddw`] decides; this executes.
pub(super) struct Attempt<'a> {
    slot: &'a Slot,
    request: &'a Request,
    wait: &'a mut dyn FnMut(Duration),
    counters: &'a mut DmaCounters,
    /// The default window was not removed yet.
    has_default: bool,
}

impl<'a> Attempt<'a> {
    pub(super) fn new(
        slot: &'a Slot,
        request: &'a Request,
        wait: &'a mut dyn FnMut(Duration),
        counters: &'a mut DmaCounters,
    ) -> Self {
        Self { slot, request, wait, counters, has_default: true }
    }

    pub(super) fn run(mut self) -> Result<DdwOutcome, NoWindow> {
        ddw::attempt(self.request)?;
        if !self.slot.properties.ddw_applicable {
            return Err(DefaultReason::NotOffered.into());
        }
        if self.request.era.drops_default_window() && self.slot.properties.reset {
            self.drop_default();
        }
        let way = self.negotiate();
        if way.is_err() && !self.has_default {
            self.rtas(RtasCall::Reset, &self.slot.address.cells(), &mut []);
        }
        way
    }

    fn negotiate(&mut self) -> Result<DdwOutcome, NoWindow> {
        let mut query = self.query()?;
        let trades = self.request.era.trades_default_window() && self.slot.properties.reset;
        if query.windows_available == 0 && trades {
            query = self.replace_default_window()?;
        }
        let plan = ddw::plan(self.request, Some(&query))?;
        let window = self.create(plan)?;
        self.open_window(plan, window).inspect_err(|_| self.discard(window))
    }

    /// Removes the default window in exchange for another, and queries again.
    fn replace_default_window(&mut self) -> Result<Query, NoWindow> {
        // Linux checks for use since 6.1. Before, the firmware refused, with the same effect.
        if self.slot.default_window().is_in_use() {
            return Err(NoWindow::DefaultInUse);
        }
        self.drop_default();
        match self.query()? {
            Query { windows_available: 0, .. } => Err(DefaultReason::NoWindowLeft.into()),
            query => Ok(Query { windows_available: 0, ..query }),
        }
    }

    /// Removes the default window. Linux ignores the status here: the next query shows the result.
    fn drop_default(&mut self) {
        self.rtas(RtasCall::Remove, &[self.slot.default_window().liobn()], &mut []);
        self.has_default = false;
    }

    fn query(&mut self) -> Result<Query, NoWindow> {
        let properties = &self.slot.properties;
        // Kernels that don't know the extension ask for five outputs. The answer differs from 2^32 entries on.
        let mut outputs = [0; 5];
        let outputs = if properties.query_in_six { &mut outputs[..] } else { &mut outputs[..4] };
        match self.rtas(RtasCall::Query, &self.slot.address.cells(), outputs) {
            RtasStatus::Success => {}
            status => return Err(NoWindow::QueryRefused(status)),
        }
        let (windows_available, block_tces, page_sizes) = match outputs {
            [windows, entries, sizes, _] => (*windows, u64::from(*entries), *sizes),
            [windows, high, low, sizes, _] => (*windows, join(*high, *low), *sizes),
            _ => (0, 0, 0),
        };
        Ok(Query {
            windows_available,
            block_tces,
            page_sizes: PageSizes(page_sizes),
            reset: properties.reset,
            limited_addressing: false,
        })
    }

    fn create(&mut self, plan: Plan) -> Result<Created, NoWindow> {
        let Plan { page_shift, window_shift, .. } = plan;
        let [config, high, low] = self.slot.address.cells();
        let inputs = [config, high, low, page_shift, window_shift];
        let mut outputs = [0; 3];
        let status = loop {
            let status = self.rtas(RtasCall::Create, &inputs, &mut outputs);
            match status.delay() {
                Some(delay) => (self.wait)(delay),
                None => break status,
            }
        };
        let [liobn, high, low] = outputs;
        match status {
            RtasStatus::Success => {
                Ok(Created { liobn, first: BusAddress(join(high, low)), page_shift, window_shift })
            }
            status => Err(NoWindow::CreateRefused(status)),
        }
    }

    fn open_window(&mut self, plan: Plan, window: Created) -> Result<DdwOutcome, NoWindow> {
        Ok(match plan.usage {
            Usage::Dynamic => DdwOutcome::Dynamic { window, domain: self.addresses(window, window.first)? },
            Usage::Direct => {
                self.premap(window)?;
                DdwOutcome::Direct { window }
            }
            Usage::Hybrid { dynamic_from_shift } => {
                let above = BusAddress(window.first.0 + (1 << dynamic_from_shift));
                let above = self.addresses(window, above)?;
                self.premap(window)?;
                DdwOutcome::Hybrid { window, above }
            }
        })
    }

    /// A domain of the window's addresses from `first`.
    fn addresses(&self, window: Created, first: BusAddress) -> Result<Arc<Domain>, SpaceError> {
        let Created { liobn, page_shift, .. } = window;
        let part = TceWindow::new(self.slot.partition.clone(), liobn, page_shift, first, window.last());
        Arc::new(part).domain().map(Arc::new)
    }

    /// Maps all memory for reading and writing (`tce_setrange_multi_pSeriesLP`).
    fn premap(&mut self, window: Created) -> Result<(), NoWindow> {
        let partition = &self.slot.partition;
        let mut runs = partition.memory().iter().map(|memory| window.run(*memory));
        runs.try_for_each(|run| partition.write_by_lists(run, self.counters))
            .map_err(|stopped| NoWindow::PremapRefused(stopped.status))
    }

    /// Removes a window after an error.
    fn discard(&mut self, window: Created) {
        let Created { liobn, first, page_shift, window_shift } = window;
        let entries = 1 << (window_shift - page_shift);
        // Linux only logs an error here.
        let _ = self.slot.partition.clear(liobn, first, page_shift, entries, self.counters);
        self.rtas(RtasCall::Remove, &[liobn], &mut []);
    }

    fn rtas(&mut self, call: RtasCall, inputs: &[u32], outputs: &mut [u32]) -> RtasStatus {
        self.slot.partition.rtas(call, inputs, outputs, self.counters)
    }
}

impl Created {
    fn last(self) -> BusAddress {
        BusAddress(self.first.0 + ((1 << self.window_shift) - 1))
    }

    /// The entries for a range of memory. As in all kernels read, a rest shorter than a page at the end is not
    /// mapped; memory comes in blocks large enough to hide that.
    fn run(self, memory: MemoryRange) -> Run {
        let Self { liobn, first, page_shift, .. } = self;
        let within = memory.start.0 & ((1 << page_shift) - 1);
        let start = memory.start.0 - within;
        Run {
            liobn,
            // The hypervisor refuses a range that wraps around.
            at: BusAddress(first.0.wrapping_add(start)),
            memory: MemoryAddress(start),
            entries: memory.bytes.saturating_add(within) >> page_shift,
            page_shift,
            access: Access::ReadWrite,
        }
    }
}
