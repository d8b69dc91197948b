//! Computes a workload's toll (what one I/O costs) from its windows.

use crate::Arch;
use crate::symbols::Symbols;
use crate::trace::WindowEvents;
use crate::window::Window;
use crate::workload::Workload;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use toll::{BootCounts, Event, Evidence, Occurrence, Spread, Tally, Toll};

/// Prefixes of the interrupt controllers' memory regions, whose accesses don't count as doorbells.
const INTERRUPT_CONTROLLERS: [&str; 8] = ["apic", "ioapic", "kvm-apic", "gic", "xive", "xics", "pic", "its"];

/// The kernel's functions with which drivers map memory for DMA (`kernel/dma/mapping.c`).
const DMA_MAPS: [&str; 4] = ["dma_map_page_attrs", "dma_map_sg_attrs", "dma_map_sgtable", "dma_map_resource"];

/// The function with which the kernel polls an NVMe completion queue (`drivers/nvme/host/pci.c`).
pub(crate) const POLL_FUNCTION: &str = "nvme_poll";

/// A window with its trace events and the symbols of its boot.
#[derive(Debug, Clone, Copy)]
pub struct TracedWindow<'a> {
    /// Its instructions, calls and device accesses.
    pub window: &'a Window,
    /// Its trace events.
    pub events: &'a WindowEvents,
    /// The guest's symbols.
    pub symbols: &'a Symbols,
}

impl TracedWindow<'_> {
    /// Its instructions by function name.
    fn instructions_by_function(&self) -> BTreeMap<String, u64> {
        let mut named = BTreeMap::new();
        for (code, instructions) in &self.window.functions {
            *named.entry(self.symbols.name(*code).to_owned()).or_default() += instructions;
        }
        named
    }

    /// How often the functions whose name satisfies `is_wanted` were called, by name.
    fn calls(&self, is_wanted: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
        let calls = self.window.calls.iter();
        let named = calls.map(|(id, times)| (self.symbols.function(*id).name.as_str(), *times));
        named.filter(|(name, _)| is_wanted(name)).map(|(name, times)| (name.to_owned(), times)).collect()
    }
}

/// The inputs, besides its windows, from which a workload's toll is computed.
#[derive(Debug, Clone, Copy)]
pub struct TollInput<'a> {
    /// The machine's architecture.
    pub arch: Arch,
    /// The workload.
    pub workload: &'a Workload,
    /// How and on what it was measured.
    pub evidence: &'a Evidence,
}

impl TollInput<'_> {
    /// The toll of a workload's windows in each boot, and the typical window; `None` if a boot has no windows, or they no I/Os.
    pub fn toll<'w>(&self, boots: &[Vec<TracedWindow<'w>>]) -> Option<(Toll, &'w Window)> {
        let traced: Vec<TracedWindow<'w>> = boots.concat();
        let windows = NonZeroU32::new(u32::try_from(traced.len()).ok()?)?;
        let ios = u32::try_from(traced.first()?.window.ios).ok()?;
        let instructions = Spread::of(traced.iter().map(|traced| traced.window.instructions).collect())?;
        let typical = typical_window(&traced, instructions.median)?;
        let toll = Toll {
            workload: self.workload.name.clone(),
            what: self.workload.what.clone(),
            driver: self.workload.driver().to_owned(),
            bytes_per_io: self.workload.bytes_per_io,
            ios_per_window: NonZeroU32::new(ios)?,
            windows,
            boots: boots.iter().map(|boot| self.boot_counts(boot)).collect(),
            instructions,
            user: typical.window.user_instructions(),
            kernel: typical.window.instructions - typical.window.user_instructions(),
            stages: typical.window.stages.clone(),
            functions: typical.instructions_by_function(),
            events: self.event_counts(&traced),
            evidence: self.evidence.clone(),
        };
        boots.iter().all(|boot| !boot.is_empty()).then_some((toll, typical.window))
    }

    /// The counts of every event that can be observed on the architecture, also of those that never happened.
    fn event_counts(&self, traced: &[TracedWindow<'_>]) -> BTreeMap<Event, Tally> {
        let observable = Event::ALL.into_iter().filter(|event| is_observable(*event, self.arch));
        observable
            .map(|event| (event, tally(traced.iter().map(|traced| self.counts_by_name(event, traced)))))
            .collect()
    }

    /// What was counted in one boot.
    fn boot_counts(&self, traced: &[TracedWindow<'_>]) -> BootCounts {
        let mut counts = BootCounts::default();
        for TracedWindow { window, .. } in traced {
            counts.windows.push(window.instructions);
            for (stage, instructions) in &window.stages {
                *counts.stages.entry(*stage).or_default() += instructions;
            }
        }
        let of_all = self.event_counts(traced);
        counts.events = of_all.into_iter().map(|(event, tally)| (event, tally.all.total)).collect();
        counts
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
            Event::Mappings => traced.calls(|name| DMA_MAPS.contains(&name)),
            Event::Interrupts => traced.calls(|name| is_interrupt_handler(name, self.arch)),
            Event::StringIterations => one("beyond the first", window.repeats),
            Event::Polls => polls(traced),
        }
    }
}

/// Polls of a completion queue by the kernel and by programs.
fn polls(traced: &TracedWindow<'_>) -> BTreeMap<String, u64> {
    let mut polls = traced.calls(|name| name == POLL_FUNCTION);
    polls.insert("in user mode".to_owned(), traced.window.polls);
    polls
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

/// A typical window: among those with `median` instructions, the first with the commonest counts by function.
/// `None` if no window has that number.
fn typical_window<'t, 'w>(traced: &'t [TracedWindow<'w>], median: u64) -> Option<&'t TracedWindow<'w>> {
    let mut alike: Vec<(BTreeMap<String, u64>, usize, &'t TracedWindow<'w>)> = Vec::new();
    for window in traced.iter().filter(|traced| traced.window.instructions == median) {
        let functions = window.instructions_by_function();
        match alike.iter_mut().find(|(known, ..)| *known == functions) {
            Some((_, number, _)) => *number += 1,
            None => alike.push((functions, 1, window)),
        }
    }
    // Of equal numbers, the first wins.
    alike.iter().rev().max_by_key(|(_, number, _)| *number).map(|(.., window)| *window)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::symbols::Code;
    use proptest::prelude::*;

    fn window(instructions: u64, user: u64) -> Window {
        let functions = BTreeMap::from([(Code::User, user), (Code::Unknown, instructions - user)]);
        Window { instructions, ios: 1, functions, ..Window::default() }
    }

    #[test]
    fn the_typical_window_is_the_commonest_of_those_at_the_median() {
        let windows = [window(10, 1), window(10, 2), window(10, 2), window(9, 3), window(30, 1)];
        let (events, symbols) = (WindowEvents::default(), Symbols::default());
        let traced: Vec<TracedWindow<'_>> = windows
            .iter()
            .map(|window| TracedWindow { window, events: &events, symbols: &symbols })
            .collect();
        assert_eq!(typical_window(&traced, 10).unwrap().window.user_instructions(), 2);
        let spread = Spread::of(windows.iter().map(|window| window.instructions).collect()).unwrap();
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
        fn a_tally_s_names_add_up(windows in proptest::collection::vec(
            proptest::collection::btree_map("[ab]", 0_u64..5, 0..3), 1..20)) {
            let tally = tally(windows.into_iter());
            prop_assert_eq!(tally.by_name.values().map(|named| named.total).sum::<u64>(), tally.all.total);
        }
    }
}
