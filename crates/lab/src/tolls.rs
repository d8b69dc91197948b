//! Computes a workload's toll (what one I/O costs) from its windows.

use crate::Arch;
use crate::symbols::{Code, Symbols};
use crate::trace::WindowEvents;
use crate::window::Window;
use crate::workload::Workload;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use toll::{Event, Evidence, Occurrence, Spread, Tally, Toll};

/// Prefixes of the interrupt controllers' memory regions, whose accesses don't count as doorbells.
const INTERRUPT_CONTROLLERS: [&str; 8] = ["apic", "ioapic", "kvm-apic", "gic", "xive", "xics", "pic", "its"];

/// The kernel's functions with which drivers map memory for DMA (`kernel/dma/mapping.c`).
const DMA_MAPS: [&str; 4] = ["dma_map_page_attrs", "dma_map_sg_attrs", "dma_map_sgtable", "dma_map_resource"];

/// The function with which the kernel polls an NVMe completion queue (`drivers/nvme/host/pci.c`).
pub(crate) const POLL_FUNCTION: &str = "nvme_poll";

/// A window with its trace events.
#[derive(Debug, Clone, Copy)]
pub struct TracedWindow<'a> {
    /// Its instructions, calls and device accesses.
    pub window: &'a Window,
    /// Its trace events.
    pub events: &'a WindowEvents,
}

/// The inputs, besides its windows, from which a workload's toll is computed.
#[derive(Debug, Clone, Copy)]
pub struct TollInput<'a> {
    /// The machine's architecture.
    pub arch: Arch,
    /// The guest's symbols.
    pub symbols: &'a Symbols,
    /// The workload.
    pub workload: &'a Workload,
    /// How and on what it was measured.
    pub evidence: &'a Evidence,
}

impl TollInput<'_> {
    /// The toll of a workload's windows; `None` if there are no windows.
    pub fn toll(&self, traced: &[TracedWindow<'_>]) -> Option<Toll> {
        let windows = NonZeroU32::new(u32::try_from(traced.len()).ok()?)?;
        let ios = u32::try_from(traced.first()?.window.ios).ok()?;
        let instructions = spread(traced.iter().map(|traced| traced.window.instructions).collect())?;
        let typical = typical_window(traced)?;
        Some(Toll {
            workload: self.workload.name.clone(),
            what: self.workload.what.clone(),
            driver: self.workload.driver().to_owned(),
            bytes_per_io: self.workload.bytes_per_io,
            ios_per_window: NonZeroU32::new(ios)?,
            windows,
            instructions,
            user: typical.user_instructions(),
            kernel: typical.instructions - typical.user_instructions(),
            stages: typical.stages.clone(),
            functions: self.instructions_by_function(typical),
            events: self.event_counts(traced),
            evidence: self.evidence.clone(),
        })
    }

    /// A window's instructions by function name.
    fn instructions_by_function(&self, window: &Window) -> BTreeMap<String, u64> {
        let mut named = BTreeMap::new();
        for (code, instructions) in &window.functions {
            *named.entry(self.symbols.name(*code).to_owned()).or_default() += instructions;
        }
        named
    }

    /// The counts of every event that can be observed on the architecture, also of those that never happened.
    fn event_counts(&self, traced: &[TracedWindow<'_>]) -> BTreeMap<Event, Tally> {
        let observable = Event::ALL.into_iter().filter(|event| is_observable(*event, self.arch));
        observable
            .map(|event| (event, tally(traced.iter().map(|traced| self.counts_by_name(event, traced)))))
            .collect()
    }

    /// How often an event happened in a window, by its name in detail: function, hypercall, register region.
    fn counts_by_name(&self, event: Event, traced: &TracedWindow<'_>) -> BTreeMap<String, u64> {
        let window = traced.window;
        let one = |name: &str, times: u64| BTreeMap::from([(name.to_owned(), times)]);
        match event {
            Event::Hypercalls | Event::Invalidations | Event::WindowOperations => from_trace(event, traced),
            Event::TableEntries if self.arch == Arch::Ppc => from_trace(event, traced),
            Event::TableEntries => one("stored by the kernel", window.table_stores),
            Event::Doorbells => adapter_accesses(&window.device_writes),
            Event::DeviceReads => adapter_accesses(&window.device_reads),
            Event::Mappings => self.calls(window, |name| DMA_MAPS.contains(&name)),
            Event::Interrupts => self.calls(window, |name| is_interrupt_handler(name, self.arch)),
            Event::StringIterations => one("beyond the first", window.repeats),
            Event::Polls => self.polls(window),
        }
    }

    /// Polls of a completion queue by the kernel and by programs.
    fn polls(&self, window: &Window) -> BTreeMap<String, u64> {
        let mut polls = self.calls(window, |name| name == POLL_FUNCTION);
        polls.insert("in user mode".to_owned(), window.polls);
        polls
    }

    /// How often the functions whose name satisfies `is_wanted` were called, by name.
    fn calls(&self, window: &Window, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
        let named = window.calls.iter().map(|(id, times)| (self.symbols.function(*id).name.as_str(), *times));
        named.filter(|(name, _)| is_wanted(name)).map(|(name, times)| (name.to_owned(), times)).collect()
    }
}

/// The counts of an event that QEMU traces, by name.
fn from_trace(event: Event, traced: &TracedWindow<'_>) -> BTreeMap<String, u64> {
    traced
        .events
        .times
        .iter()
        .filter(|((kind, _), _)| *kind == event)
        .map(|((_, name), times)| (name.clone(), *times))
        .collect()
}

/// Register accesses by memory region, without those to interrupt controllers.
fn adapter_accesses(regions: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let is_controller = |name: &str| INTERRUPT_CONTROLLERS.iter().any(|known| name.starts_with(known));
    let adapters = regions.iter().filter(|(name, _)| !is_controller(name));
    adapters.map(|(name, times)| (region_name(name).to_owned(), *times)).collect()
}

/// A region's name, or `unnamed`: QEMU names some regions after an address that differs from run to run.
fn region_name(name: &str) -> &str {
    if name.starts_with("anon") { "unnamed" } else { name }
}

/// Whether the kernel calls a function once for each interrupt of a device or timer.
fn is_interrupt_handler(function: &str, arch: Arch) -> bool {
    match arch {
        Arch::X86 => function == "common_interrupt" || function.starts_with("sysvec_"),
        Arch::Arm => function == "do_interrupt_handler",
        Arch::Ppc => matches!(function, "do_IRQ" | "timer_interrupt" | "doorbell_exception"),
    }
}

/// Whether an event can happen and be counted on an architecture.
fn is_observable(event: Event, arch: Arch) -> bool {
    match event {
        Event::Hypercalls => arch != Arch::Arm,
        Event::Invalidations => arch != Arch::Ppc,
        Event::WindowOperations => arch == Arch::Ppc,
        Event::StringIterations => arch == Arch::X86,
        Event::TableEntries
        | Event::Mappings
        | Event::Doorbells
        | Event::DeviceReads
        | Event::Interrupts
        | Event::Polls => true,
    }
}

/// Median and total of an event over all windows, overall and by name. Names that never happened are left out.
fn tally(windows: impl Iterator<Item = BTreeMap<String, u64>>) -> Tally {
    let windows: Vec<BTreeMap<String, u64>> = windows.collect();
    let names: std::collections::BTreeSet<&String> = windows.iter().flat_map(BTreeMap::keys).collect();
    let times = |name: &String| -> Vec<u64> {
        windows.iter().map(|window| window.get(name).copied().unwrap_or_default()).collect()
    };
    let by_name = names.into_iter().map(|name| (name.clone(), occurrence(times(name))));
    Tally {
        all: occurrence(windows.iter().map(|window| window.values().sum()).collect()),
        by_name: by_name.filter(|(_, occurrence)| occurrence.total > 0).collect(),
    }
}

/// Median and total of a count over all windows.
fn occurrence(mut times: Vec<u64>) -> Occurrence {
    times.sort_unstable();
    Occurrence { median: median(&times), total: times.iter().sum() }
}

/// The median; of an even number of counts the lower middle one, so that it is a measured count.
fn median(sorted: &[u64]) -> u64 {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// Median, 99th percentile (nearest rank) and extremes of the windows' instructions; `None` without windows.
fn spread(mut counts: Vec<u64>) -> Option<Spread> {
    counts.sort_unstable();
    let median = median(&counts);
    let rank_99 = (counts.len() * 99).div_ceil(100);
    Some(Spread {
        median,
        min: *counts.first()?,
        p99: *counts.get(rank_99.checked_sub(1)?)?,
        max: *counts.last()?,
        at_median: u32::try_from(counts.iter().filter(|count| **count == median).count()).ok()?,
    })
}

/// A typical window: among those with the median number of instructions, the first with the commonest counts by
/// function. `None` if there are no windows.
pub fn typical_window<'a>(traced: &[TracedWindow<'a>]) -> Option<&'a Window> {
    let median = spread(traced.iter().map(|traced| traced.window.instructions).collect())?.median;
    let mut alike: HashMap<&BTreeMap<Code, u64>, (usize, &'a Window)> = HashMap::new();
    let mut order = Vec::new();
    for window in traced.iter().map(|traced| traced.window).filter(|window| window.instructions == median) {
        let entry = alike.entry(&window.functions).or_insert_with(|| {
            order.push(&window.functions);
            (0, window)
        });
        entry.0 += 1;
    }
    let most = order.iter().rev().max_by_key(|functions| alike[**functions].0)?;
    Some(alike[*most].1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use proptest::prelude::*;

    fn window(instructions: u64, user: u64) -> Window {
        let functions = BTreeMap::from([(Code::User, user), (Code::Unknown, instructions - user)]);
        Window { instructions, ios: 1, functions, ..Window::default() }
    }

    #[test]
    fn the_typical_window_is_the_commonest_of_those_at_the_median() {
        let windows = [window(10, 1), window(10, 2), window(10, 2), window(9, 3), window(30, 1)];
        let events = WindowEvents::default();
        let traced: Vec<TracedWindow<'_>> =
            windows.iter().map(|window| TracedWindow { window, events: &events }).collect();
        assert_eq!(typical_window(&traced).unwrap().user_instructions(), 2);
        let spread = spread(windows.iter().map(|window| window.instructions).collect()).unwrap();
        assert_eq!(spread, Spread { median: 10, min: 9, p99: 30, max: 30, at_median: 3 });
    }

    #[test]
    fn interrupt_controllers_do_not_count_as_adapters() {
        let regions = ["nvme", "apic-msi", "xive.tima", "intel_iommu", "anon55aa"];
        let regions = regions.into_iter().map(|name| (name.to_owned(), 1)).collect();
        let names: Vec<String> = adapter_accesses(&regions).into_keys().collect();
        assert_eq!(names, ["intel_iommu", "nvme", "unnamed"]);
    }

    proptest! {
        #[test]
        fn a_spread_is_in_order(counts in proptest::collection::vec(0_u64..1000, 1..100)) {
            let spread = spread(counts.clone()).unwrap();
            prop_assert!(spread.min <= spread.median && spread.median <= spread.p99 && spread.p99 <= spread.max);
            prop_assert!(counts.contains(&spread.median) && spread.at_median >= 1);
        }

        #[test]
        fn a_tally_s_names_add_up(windows in proptest::collection::vec(
            proptest::collection::btree_map("[ab]", 0_u64..5, 0..3), 1..20)) {
            let tally = tally(windows.into_iter());
            prop_assert_eq!(tally.by_name.values().map(|named| named.total).sum::<u64>(), tally.all.total);
        }
    }
}
