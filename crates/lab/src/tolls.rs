//! From windows to the toll of a workload.

use crate::Arch;
use crate::symbols::{Code, Symbols};
use crate::trace::Happenings;
use crate::window::Window;
use crate::workload::Workload;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use toll::{Event, Evidence, Occurrence, Spread, Tally, Toll};

/// Regions of interrupt controllers: their registers are part of taking an interrupt, and no adapter's.
const INTERRUPT_CONTROLLERS: [&str; 8] = ["apic", "ioapic", "kvm-apic", "gic", "xive", "xics", "pic", "its"];

/// The functions of the kernel's DMA layer with which drivers map memory (`kernel/dma/mapping.c`).
const DMA_MAPS: [&str; 4] = ["dma_map_page_attrs", "dma_map_sg_attrs", "dma_map_sgtable", "dma_map_resource"];

/// The function with which the kernel looks whether an NVMe controller has completed something (`drivers/nvme/host/pci.c`).
pub(crate) const POLL_FUNCTION: &str = "nvme_poll";

/// A window with what its trace events say.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// What ran.
    pub window: &'a Window,
    /// What happened.
    pub happenings: &'a Happenings,
}

/// What the toll of one workload is made of.
#[derive(Debug, Clone, Copy)]
pub struct Assay<'a> {
    /// The machine's architecture.
    pub arch: Arch,
    /// The guest's symbols.
    pub symbols: &'a Symbols,
    /// The workload.
    pub workload: &'a Workload,
    /// How and on what it was measured.
    pub evidence: &'a Evidence,
}

impl Assay<'_> {
    /// The toll of a workload's windows; none if there are no windows.
    pub fn toll(&self, seen: &[Seen<'_>]) -> Option<Toll> {
        let windows = NonZeroU32::new(u32::try_from(seen.len()).ok()?)?;
        let units = u32::try_from(seen.first()?.window.units).ok()?;
        let instructions = spread(seen.iter().map(|seen| seen.window.instructions).collect())?;
        let typical = typical(seen)?;
        Some(Toll {
            workload: self.workload.name.clone(),
            what: self.workload.what.clone(),
            driver: self.workload.driver().to_owned(),
            bytes_per_io: self.workload.bytes_per_io,
            ios_per_window: NonZeroU32::new(units)?,
            windows,
            instructions,
            user: typical.user(),
            kernel: typical.instructions - typical.user(),
            stages: typical.stages.clone(),
            functions: self.functions(typical),
            events: self.events(seen),
            evidence: self.evidence.clone(),
        })
    }

    fn functions(&self, window: &Window) -> BTreeMap<String, u64> {
        let mut named = BTreeMap::new();
        for (code, instructions) in &window.functions {
            *named.entry(self.symbols.name(*code).to_owned()).or_default() += instructions;
        }
        named
    }

    /// Every kind of event that can be seen on the architecture, those that never happened with zeros.
    fn events(&self, seen: &[Seen<'_>]) -> BTreeMap<Event, Tally> {
        let visible = Event::ALL.into_iter().filter(|event| is_visible(*event, self.arch));
        visible.map(|event| (event, tally(seen.iter().map(|seen| self.times(event, seen))))).collect()
    }

    /// How often an event happened in a window, by name.
    fn times(&self, event: Event, seen: &Seen<'_>) -> BTreeMap<String, u64> {
        let window = seen.window;
        let one = |name: &str, times: u64| BTreeMap::from([(name.to_owned(), times)]);
        match event {
            Event::Hypercalls | Event::Invalidations | Event::WindowOperations => traced(event, seen),
            Event::TableEntries if self.arch == Arch::Ppc => traced(event, seen),
            Event::TableEntries => one("stored by the kernel", window.table_stores),
            Event::Doorbells => adapters(&window.device_writes),
            Event::DeviceReads => adapters(&window.device_reads),
            Event::Mappings => self.calls(window, |name| DMA_MAPS.contains(&name)),
            Event::Interrupts => self.calls(window, |name| takes_interrupts(name, self.arch)),
            Event::StringIterations => one("beyond the first", window.repeats),
            Event::Polls => self.polls(window),
        }
    }

    /// Looks of the kernel, and of programs.
    fn polls(&self, window: &Window) -> BTreeMap<String, u64> {
        let mut polls = self.calls(window, |name| name == POLL_FUNCTION);
        polls.insert("in user mode".to_owned(), window.looks);
        polls
    }

    /// Calls of the functions that are meant.
    fn calls(&self, window: &Window, is_meant: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
        let named = window.calls.iter().map(|(id, times)| (self.symbols.function(*id).name.as_str(), *times));
        named.filter(|(name, _)| is_meant(name)).map(|(name, times)| (name.to_owned(), times)).collect()
    }
}

fn traced(event: Event, seen: &Seen<'_>) -> BTreeMap<String, u64> {
    let happened = seen.happenings.times.iter();
    happened
        .filter(|((kind, _), _)| *kind == event)
        .map(|((_, name), times)| (name.clone(), *times))
        .collect()
}

fn adapters(regions: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let is_controller = |name: &str| INTERRUPT_CONTROLLERS.iter().any(|known| name.starts_with(known));
    let adapters = regions.iter().filter(|(name, _)| !is_controller(name));
    adapters.map(|(name, times)| (region_name(name).to_owned(), *times)).collect()
}

/// QEMU names some regions by the address of their description, which differs from run to run.
fn region_name(name: &str) -> &str {
    if name.starts_with("anon") { "unnamed" } else { name }
}

/// The functions with which the kernel begins to take an interrupt of a device or timer.
fn takes_interrupts(function: &str, arch: Arch) -> bool {
    match arch {
        Arch::X86 => function == "common_interrupt" || function.starts_with("sysvec_"),
        Arch::Arm => function == "do_interrupt_handler",
        Arch::Ppc => matches!(function, "do_IRQ" | "timer_interrupt" | "doorbell_exception"),
    }
}

fn is_visible(event: Event, arch: Arch) -> bool {
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

fn occurrence(mut times: Vec<u64>) -> Occurrence {
    times.sort_unstable();
    Occurrence { median: median(&times), total: times.iter().sum() }
}

/// The lower of the two in the middle, so that it is a count that was seen.
fn median(sorted: &[u64]) -> u64 {
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

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

/// Of the windows with the median count the one whose functions most of them share; the first of equals. None if
/// there are no windows.
pub fn typical<'a>(seen: &[Seen<'a>]) -> Option<&'a Window> {
    let median = spread(seen.iter().map(|seen| seen.window.instructions).collect())?.median;
    let mut alike: HashMap<&BTreeMap<Code, u64>, (usize, &'a Window)> = HashMap::new();
    let mut order = Vec::new();
    for window in seen.iter().map(|seen| seen.window).filter(|window| window.instructions == median) {
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
        Window { instructions, units: 1, functions, ..Window::default() }
    }

    #[test]
    fn the_typical_window_is_the_commonest_of_those_at_the_median() {
        let windows = [window(10, 1), window(10, 2), window(10, 2), window(9, 3), window(30, 1)];
        let happenings = Happenings::default();
        let seen: Vec<Seen<'_>> =
            windows.iter().map(|window| Seen { window, happenings: &happenings }).collect();
        assert_eq!(typical(&seen).unwrap().user(), 2);
        let spread = spread(windows.iter().map(|window| window.instructions).collect()).unwrap();
        assert_eq!(spread, Spread { median: 10, min: 9, p99: 30, max: 30, at_median: 3 });
    }

    #[test]
    fn controllers_of_interrupts_are_no_adapters() {
        let regions = ["nvme", "apic-msi", "xive.tima", "intel_iommu", "anon55aa"];
        let regions = regions.into_iter().map(|name| (name.to_owned(), 1)).collect();
        let names: Vec<String> = adapters(&regions).into_keys().collect();
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
