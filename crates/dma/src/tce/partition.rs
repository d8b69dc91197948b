//! Linux in a POWER partition: writes TCEs by hypercall.

use super::rtas::{RtasCall, RtasStatus};
use super::{Entry, Hypercall, Hypervisor, MemoryRange, Status};
use crate::{Access, BusAddress, ByteOrder, DmaCounters, Frames, MemoryAddress, Ram};
use ddw::{TCE_BYTES, TCES_PER_CALL_MAX, TceCalls};
use std::sync::Arc;

/// Carries a hypercall to the hypervisor and returns its status.
type Trap = Box<dyn Fn(Hypercall) -> Status + Send + Sync>;

/// What all windows of a partition share: the hypervisor, and pages for lists of entries.
pub struct Partition {
    hypervisor: Arc<Hypervisor>,
    /// How a hypercall reaches the hypervisor; `None` for a function call.
    trap: Option<Trap>,
    ram: Arc<Ram>,
    lists: Frames,
    memory: Vec<MemoryRange>,
    calls: TceCalls,
    pub(super) cpu: fn() -> u32,
}

/// Consecutive entries to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) liobn: u32,
    pub(super) at: BusAddress,
    pub(super) memory: MemoryAddress,
    pub(super) entries: u64,
    pub(super) page_shift: u32,
    pub(super) access: Access,
}

/// A hypercall failed after `done` entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopped {
    pub(super) done: u64,
    pub(super) call: &'static str,
    pub(super) status: Status,
}

impl Partition {
    /// A partition with `memory`. List pages come from `lists` in `ram`, one for each CPU that maps at a time.
    ///
    /// Lists are used if the firmware supports them and `command_line` has no `multitce=off`. `cpu` returns the
    /// current CPU, which selects an allocation pool.
    pub fn new(
        hypervisor: Arc<Hypervisor>,
        ram: Arc<Ram>,
        lists: Frames,
        memory: Vec<MemoryRange>,
        command_line: &str,
        cpu: fn() -> u32,
    ) -> Self {
        let calls = TceCalls::of(hypervisor.hypertas_functions(), command_line);
        Self { hypervisor, trap: None, ram, lists, memory, calls, cpu }
    }

    /// Has `trap` carry each hypercall to [`Hypervisor::serve`], for instance in another thread. Without this call a hypercall is a
    /// function call.
    pub fn with_trap(self, trap: impl Fn(Hypercall) -> Status + Send + Sync + 'static) -> Self {
        Self { trap: Some(Box::new(trap)), ..self }
    }

    /// The hypervisor.
    pub fn hypervisor(&self) -> &Arc<Hypervisor> {
        &self.hypervisor
    }

    /// Which hypercalls write entries.
    pub fn calls(&self) -> TceCalls {
        self.calls
    }

    /// The partition's memory.
    pub fn memory(&self) -> &[MemoryRange] {
        &self.memory
    }

    /// Writes entries: a single one by `H_PUT_TCE`, more by lists. Like Linux, it writes one by one if no list page
    /// is free.
    pub(super) fn set(&self, run: Run, counters: &mut DmaCounters) -> Result<(), Stopped> {
        match self.calls {
            TceCalls::Multi if run.entries > 1 => self.write_by_lists(run, counters),
            TceCalls::Multi | TceCalls::Single => self.write_one_by_one(run, counters),
        }
    }

    /// Writes entries by lists if possible. Without entries it makes one call with an empty list, as Linux does when
    /// it maps all memory (`tce_setrange_multi_pSeriesLP`).
    pub(super) fn write_by_lists(&self, run: Run, counters: &mut DmaCounters) -> Result<(), Stopped> {
        let list = match self.calls {
            TceCalls::Multi => self.lists.allocate().ok(),
            TceCalls::Single => None,
        };
        let Some(list) = list else { return self.write_one_by_one(run, counters) };
        let set = self.write_list_calls(list, run, counters);
        self.lists.free(list);
        set
    }

    /// Writes entries by `H_PUT_TCE_INDIRECT`, up to 512 per call.
    fn write_list_calls(
        &self,
        list: MemoryAddress,
        run: Run,
        counters: &mut DmaCounters,
    ) -> Result<(), Stopped> {
        let mut done = 0;
        loop {
            let count = (run.entries - done).min(TCES_PER_CALL_MAX);
            let status = self.put_tce_list(list, &run, done, count);
            count_call(status, count, counters).map_err(|status| Stopped {
                done,
                call: "H_PUT_TCE_INDIRECT",
                status,
            })?;
            done += count;
            if done == run.entries {
                return Ok(());
            }
        }
    }

    /// Writes a list and makes the call. Here the hypervisor sees the list at once. A real CPU needs a `sync` before
    /// the adapter is told (LoPAR: the calls order nothing), which Linux executes after mapping.
    fn put_tce_list(&self, list: MemoryAddress, run: &Run, from: u64, count: u64) -> Status {
        for place in 0..count {
            let at = MemoryAddress(list.0 + place * TCE_BYTES);
            if self.ram.write_u64(at, ByteOrder::Big, run.entry(from + place).0).is_err() {
                return Status::Parameter;
            }
        }
        self.call(Hypercall::PutTceIndirect { liobn: run.liobn, at: run.page(from), list, count })
    }

    /// Writes entries by `H_PUT_TCE`, one per call.
    fn write_one_by_one(&self, run: Run, counters: &mut DmaCounters) -> Result<(), Stopped> {
        (0..run.entries).try_for_each(|done| {
            let (at, entry) = (run.page(done), run.entry(done));
            let status = self.call(Hypercall::PutTce { liobn: run.liobn, at, entry });
            count_call(status, 1, counters).map_err(|status| Stopped { done, call: "H_PUT_TCE", status })
        })
    }

    /// Clears entries. If a call fails, `done` is the number cleared before.
    pub(super) fn clear(
        &self,
        liobn: u32,
        at: BusAddress,
        page_shift: u32,
        entries: u64,
        counters: &mut DmaCounters,
    ) -> Result<(), Stopped> {
        let (call, at_once) = match self.calls {
            TceCalls::Multi => ("H_STUFF_TCE", TCES_PER_CALL_MAX),
            TceCalls::Single => ("H_PUT_TCE", 1),
        };
        let mut done = 0;
        while done < entries {
            let count = (entries - done).min(at_once);
            let (at, entry) = (BusAddress(at.0 + (done << page_shift)), Entry::NONE);
            let status = self.call(match self.calls {
                TceCalls::Multi => Hypercall::StuffTce { liobn, at, entry, count },
                TceCalls::Single => Hypercall::PutTce { liobn, at, entry },
            });
            count_call(status, count, counters).map_err(|status| Stopped { done, call, status })?;
            done += count;
        }
        Ok(())
    }

    /// Makes a hypercall.
    fn call(&self, call: Hypercall) -> Status {
        self.trap.as_ref().map_or_else(|| self.hypervisor.serve(call), |trap| trap(call))
    }

    /// Makes an RTAS call.
    pub(super) fn rtas(
        &self,
        call: RtasCall,
        inputs: &[u32],
        outputs: &mut [u32],
        counters: &mut DmaCounters,
    ) -> RtasStatus {
        counters.window_operations += 1;
        self.hypervisor.rtas(call, inputs, outputs)
    }
}

/// Addresses may wrap around: the hypervisor refuses those.
impl Run {
    /// The bus address of a page of the run.
    fn page(&self, index: u64) -> BusAddress {
        BusAddress(self.at.0.wrapping_add(index << self.page_shift))
    }

    /// The table entry of a page of the run.
    fn entry(&self, index: u64) -> Entry {
        Entry::as_linux_writes(
            MemoryAddress(self.memory.0.wrapping_add(index << self.page_shift)),
            self.access,
        )
    }
}

/// Counts a hypercall in any case, and entries only if they were written.
fn count_call(status: Status, entries: u64, counters: &mut DmaCounters) -> Result<(), Status> {
    counters.hypercalls += 1;
    match status {
        Status::Success => {
            counters.table_entries += entries;
            Ok(())
        }
        _ => Err(status),
    }
}

impl std::fmt::Debug for Partition {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Partition").field("calls", &self.calls).finish_non_exhaustive()
    }
}
