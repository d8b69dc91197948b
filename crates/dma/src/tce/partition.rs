//! The operating system in a partition: how it writes entries by hypercall.

use super::rtas::{RtasCall, RtasStatus};
use super::{Entry, Hypervisor, Status, Stretch};
use crate::{Access, BusAddress, ByteOrder, DmaCounters, Frames, MemoryAddress, Ram};
use ddw::{TCE_BYTES, TCES_PER_CALL_MAX, TceCalls};
use std::sync::Arc;

/// What all windows of an operating system share: the way to the hypervisor, and pages for lists of entries.
pub struct Partition {
    hypervisor: Arc<Hypervisor>,
    ram: Arc<Ram>,
    lists: Frames,
    memory: Vec<Stretch>,
    calls: TceCalls,
    pub(super) cpu: fn() -> u32,
}

/// Pages of bus addresses that are to lead to pages of memory, one after another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub(super) liobn: u32,
    pub(super) at: BusAddress,
    pub(super) memory: MemoryAddress,
    pub(super) entries: u64,
    pub(super) page_shift: u32,
    pub(super) access: Access,
}

/// How far it got.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopped {
    pub(super) done: u64,
    pub(super) call: &'static str,
    pub(super) status: Status,
}

impl Partition {
    /// With `memory` to work with; pages of lists come from `lists`, one for each CPU that maps at a time, and lie in `ram`.
    ///
    /// Many entries are written at once if the firmware can and `command_line` has no `multitce=off`. `cpu` says which CPU it
    /// is called on, for the pools of bus addresses.
    pub fn new(
        hypervisor: Arc<Hypervisor>,
        ram: Arc<Ram>,
        lists: Frames,
        memory: Vec<Stretch>,
        command_line: &str,
        cpu: fn() -> u32,
    ) -> Self {
        let calls = TceCalls::of(hypervisor.hypertas_functions(), command_line);
        Self { hypervisor, ram, lists, memory, calls, cpu }
    }

    /// Who serves its calls.
    pub fn hypervisor(&self) -> &Arc<Hypervisor> {
        &self.hypervisor
    }

    /// Whether entries are written one by one.
    pub fn calls(&self) -> TceCalls {
        self.calls
    }

    /// The memory that it has now.
    pub fn memory(&self) -> &[Stretch] {
        &self.memory
    }

    /// Sets entries: one alone by itself, more by lists. So does Linux, which also writes them one by one where there is no page
    /// for a list.
    pub(super) fn set(&self, run: Run, counters: &mut DmaCounters) -> Result<(), Stopped> {
        match self.calls {
            TceCalls::Multi if run.entries > 1 => self.set_by_lists(run, counters),
            TceCalls::Multi | TceCalls::Single => self.set_singly(run, counters),
        }
    }

    /// Sets entries by lists, if there can be any. For no entries it calls with an empty list, as Linux does where it maps all
    /// memory (`tce_setrange_multi_pSeriesLP`).
    pub(super) fn set_by_lists(&self, run: Run, counters: &mut DmaCounters) -> Result<(), Stopped> {
        let list = match self.calls {
            TceCalls::Multi => self.lists.take().ok(),
            TceCalls::Single => None,
        };
        let Some(list) = list else { return self.set_singly(run, counters) };
        let set = self.set_by(list, run, counters);
        self.lists.give_back(list);
        set
    }

    fn set_by(&self, list: MemoryAddress, run: Run, counters: &mut DmaCounters) -> Result<(), Stopped> {
        let mut done = 0;
        loop {
            let count = (run.entries - done).min(TCES_PER_CALL_MAX);
            let status = self.put_list(list, &run, done, count);
            charge(status, count, counters).map_err(|status| Stopped {
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

    /// What the list says is in memory before the call, of which the hypervisor makes sure by itself here. A real CPU needs a
    /// `sync` before the adapter is told (LoPAR: none of the calls orders anything), as Linux has after mapping.
    fn put_list(&self, list: MemoryAddress, run: &Run, from: u64, count: u64) -> Status {
        for place in 0..count {
            let at = MemoryAddress(list.0 + place * TCE_BYTES);
            if self.ram.write_u64(at, ByteOrder::Big, run.entry(from + place).0).is_err() {
                return Status::Parameter;
            }
        }
        self.hypervisor.put_tce_indirect(run.liobn, run.page(from), list, count)
    }

    fn set_singly(&self, run: Run, counters: &mut DmaCounters) -> Result<(), Stopped> {
        (0..run.entries).try_for_each(|done| {
            let status = self.hypervisor.put_tce(run.liobn, run.page(done), run.entry(done));
            charge(status, 1, counters).map_err(|status| Stopped { done, call: "H_PUT_TCE", status })
        })
    }

    /// Clears entries; from the first one on that is named if it stops.
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
            let page = BusAddress(at.0 + (done << page_shift));
            let status = match self.calls {
                TceCalls::Multi => self.hypervisor.stuff_tce(liobn, page, Entry::NONE, count),
                TceCalls::Single => self.hypervisor.put_tce(liobn, page, Entry::NONE),
            };
            charge(status, count, counters).map_err(|status| Stopped { done, call, status })?;
            done += count;
        }
        Ok(())
    }

    /// Calls the firmware.
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

/// What wraps around, the hypervisor refuses.
impl Run {
    fn page(&self, index: u64) -> BusAddress {
        BusAddress(self.at.0.wrapping_add(index << self.page_shift))
    }

    fn entry(&self, index: u64) -> Entry {
        Entry::by_linux(MemoryAddress(self.memory.0.wrapping_add(index << self.page_shift)), self.access)
    }
}

/// A call is paid for whatever it answers, entries only if they were written.
fn charge(status: Status, entries: u64, counters: &mut DmaCounters) -> Result<(), Status> {
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
