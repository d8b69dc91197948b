//! What becomes of an adapter when its driver asks for 64 bits.

use super::partition::Run;
use super::rtas::{RtasCall, RtasStatus, join};
use super::slot::Slot;
use super::{Status, Stretch, TceWindow};
use crate::{Access, BusAddress, DmaCounters, Domain, MemoryAddress};
use ddw::{DefaultReason, PageSizes, Plan, Query, Request, Usage};
use iova::SpaceError;
use std::sync::Arc;
use std::time::Duration;

/// A window that was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Created {
    /// Its number.
    pub liobn: u32,
    /// Its lowest address.
    pub first: BusAddress,
    /// Shift of its pages.
    pub page_shift: u32,
    /// Shift of its size.
    pub window_shift: u32,
}

/// How the adapter reaches memory.
#[derive(Debug)]
pub enum Way {
    /// All memory is mapped once, at an offset: the window's lowest address.
    Direct {
        /// The window.
        window: Created,
    },
    /// So it is, and above are addresses for what is not memory of the usual kind (persistent memory), mapped as needed.
    Hybrid {
        /// The window.
        window: Created,
        /// The addresses above.
        above: Arc<Domain>,
    },
    /// A window beyond 4 GiB whose entries are written per mapping.
    Dynamic {
        /// The window.
        window: Created,
        /// Its addresses.
        domain: Arc<Domain>,
    },
    /// The default window, as before.
    Default {
        /// Why there is no other.
        why: NoWindow,
    },
}

/// Why there is no other window than the default one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoWindow {
    /// The kernel does not ask for one.
    #[error("the kernel asks for none: {0:?}")]
    NotAsked(DefaultReason),
    /// The default window would have to go, and is in use.
    #[error("the default window would have to go, and is in use")]
    DefaultInUse,
    /// The firmware does not say what can be had.
    #[error("ibm,query-pe-dma-windows: {0}")]
    QueryRefused(RtasStatus),
    /// The firmware does not create it.
    #[error("ibm,create-pe-dma-window: {0}")]
    CreateRefused(RtasStatus),
    /// The hypervisor does not take an entry of it.
    #[error("memory was not mapped in it: {0}")]
    PremapRefused(Status),
    /// It has more pages than the pools of addresses can have.
    #[error(transparent)]
    TooLarge(#[from] SpaceError),
}

impl From<DefaultReason> for NoWindow {
    fn from(reason: DefaultReason) -> Self {
        Self::NotAsked(reason)
    }
}

/// One run of Linux's `enable_ddw` (arch/powerpc/platforms/pseries/iommu.c): crate [`ddw`] decides, here it is done.
pub(super) struct Attempt<'a> {
    slot: &'a Slot,
    request: &'a Request,
    wait: &'a mut dyn FnMut(Duration),
    counters: &'a mut DmaCounters,
    /// Whether the default window was left alone so far.
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

    pub(super) fn run(mut self) -> Result<Way, NoWindow> {
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

    fn negotiate(&mut self) -> Result<Way, NoWindow> {
        let mut query = self.query()?;
        let trades = self.request.era.trades_default_window() && self.slot.properties.reset;
        if query.windows_available == 0 && trades {
            query = self.trade()?;
        }
        let plan = ddw::plan(self.request, Some(&query))?;
        let window = self.create(plan)?;
        self.take_up(plan, window).inspect_err(|_| self.discard(window))
    }

    /// Gives the default window for another, and says what there is then, in the words of [`ddw::plan`].
    fn trade(&mut self) -> Result<Query, NoWindow> {
        // Linux looks since 6.1; before, the firmware refused, to the same effect.
        if self.slot.default_window().is_in_use() {
            return Err(NoWindow::DefaultInUse);
        }
        self.drop_default();
        match self.query()? {
            Query { windows_available: 0, .. } => Err(DefaultReason::NoWindowLeft.into()),
            query => Ok(Query { windows_available: 0, ..query }),
        }
    }

    /// Linux looks at no status here: the next query shows what came of it.
    fn drop_default(&mut self) {
        self.rtas(RtasCall::Remove, &[self.slot.default_window().liobn()], &mut []);
        self.has_default = false;
    }

    fn query(&mut self) -> Result<Query, NoWindow> {
        let properties = &self.slot.properties;
        // Kernels that don't know the extension ask for five; the answer differs from 2^32 entries on.
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

    fn take_up(&mut self, plan: Plan, window: Created) -> Result<Way, NoWindow> {
        Ok(match plan.usage {
            Usage::Dynamic => Way::Dynamic { window, domain: self.addresses(window, window.first)? },
            Usage::Direct => {
                self.premap(window)?;
                Way::Direct { window }
            }
            Usage::Hybrid { dynamic_from_shift } => {
                let above = BusAddress(window.first.0 + (1 << dynamic_from_shift));
                let above = self.addresses(window, above)?;
                self.premap(window)?;
                Way::Hybrid { window, above }
            }
        })
    }

    /// The addresses of a window from `first` on.
    fn addresses(&self, window: Created, first: BusAddress) -> Result<Arc<Domain>, SpaceError> {
        let Created { liobn, page_shift, .. } = window;
        let part = TceWindow::new(self.slot.partition.clone(), liobn, page_shift, first, window.last());
        Arc::new(part).domain().map(Arc::new)
    }

    /// Maps all memory, for reading and writing (`tce_setrange_multi_pSeriesLP`).
    fn premap(&mut self, window: Created) -> Result<(), NoWindow> {
        let partition = &self.slot.partition;
        let mut runs = partition.memory().iter().map(|memory| window.run(*memory));
        runs.try_for_each(|run| partition.set_by_lists(run, self.counters))
            .map_err(|stopped| NoWindow::PremapRefused(stopped.status))
    }

    /// Takes a window back that came to nothing.
    fn discard(&mut self, window: Created) {
        let Created { liobn, first, page_shift, window_shift } = window;
        let entries = 1 << (window_shift - page_shift);
        // Linux logs what goes wrong here and leaves the window alone.
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

    /// The entries for a stretch of memory: from the page that it begins in, as many as whole pages fit up to its end. A shorter
    /// rest is not mapped: so Linux counts, in all trees read. Memory comes in blocks that hide it.
    fn run(self, memory: Stretch) -> Run {
        let Self { liobn, first, page_shift, .. } = self;
        let within = memory.start.0 & ((1 << page_shift) - 1);
        let start = memory.start.0 - within;
        Run {
            liobn,
            // What wraps around, the hypervisor refuses.
            at: BusAddress(first.0.wrapping_add(start)),
            memory: MemoryAddress(start),
            entries: memory.bytes.saturating_add(within) >> page_shift,
            page_shift,
            access: Access::ReadWrite,
        }
    }
}
