//! Linux's `enable_ddw`: the DMA window an adapter gets when its driver sets a 64-bit mask.

use super::ddw_outcome::{Created, DdwOutcome, NoWindow};
use super::partition::Run;
use super::rtas::{RtasCall, RtasStatus, join};
use super::slot::PciSlot;
use super::{MemoryRange, TceWindow};
use crate::{Access, BusAddress, DmaCounters, Domain, MemoryAddress};
use ddw::{DefaultReason, PageSizes, Plan, Query, Request, Usage};
use iova::SpaceError;
use std::sync::Arc;
use std::time::Duration;

impl PciSlot {
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
}

/// One run of Linux's `enable_ddw` (arch/powerpc/platforms/pseries/iommu.c). Crate [`ddw`] decides; this executes.
struct Attempt<'a> {
    slot: &'a PciSlot,
    request: &'a Request,
    wait: &'a mut dyn FnMut(Duration),
    counters: &'a mut DmaCounters,
    /// The default window was not removed yet.
    has_default: bool,
}

impl<'a> Attempt<'a> {
    /// An attempt for an adapter's slot. `wait` sleeps when the firmware asks for a delay.
    fn new(
        slot: &'a PciSlot,
        request: &'a Request,
        wait: &'a mut dyn FnMut(Duration),
        counters: &'a mut DmaCounters,
    ) -> Self {
        Self { slot, request, wait, counters, has_default: true }
    }

    /// Requests a 64-bit window. If that fails and the default window was removed, restores it.
    fn run(mut self) -> Result<DdwOutcome, NoWindow> {
        ddw::check_request(self.request)?;
        if !self.slot.properties.ddw_applicable {
            return Err(DefaultReason::NotOffered.into());
        }
        if self.request.era.removes_default_window_first() && self.slot.properties.reset {
            self.drop_default();
        }
        let outcome = self.negotiate();
        if outcome.is_err() && !self.has_default {
            self.rtas(RtasCall::Reset, &self.slot.address.cells(), &mut []);
        }
        outcome
    }

    /// Queries the firmware, and creates and opens the window that the kernel plans.
    fn negotiate(&mut self) -> Result<DdwOutcome, NoWindow> {
        let mut query = self.query()?;
        let replaces_default = self.request.era.replaces_default_window() && self.slot.properties.reset;
        if query.windows_available == 0 && replaces_default {
            query = self.replace_default_window()?;
        }
        let plan = ddw::planned_window(self.request, Some(&query))?;
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

    /// Calls `ibm,query-pe-dma-windows`.
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

    /// Calls `ibm,create-pe-dma-window`, again after each delay that the firmware asks for.
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

    /// Maps all memory in the window or prepares an allocator for it, depending on its use.
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

    /// Makes an RTAS call and counts it.
    fn rtas(&mut self, call: RtasCall, inputs: &[u32], outputs: &mut [u32]) -> RtasStatus {
        self.slot.partition.rtas(call, inputs, outputs, self.counters)
    }
}

impl Created {
    /// The last bus address of the window.
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
