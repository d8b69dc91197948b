//! What DMA mapping cost on the running kernel: a line for each interval while it is watched, and the page at its end.

use super::{stacks, watch_drawings};
use crate::page::fact::Fact;
use crate::page::quantity::{bytes, count, figure, grouped, per_io, time};
use crate::page::table::{Row, Table};
use crate::page::{Block, Page};
use bench::Head;
use compare::{CostPerIo, costs_per_io};
use escape::terminal::plain;
use host::diagnose::MeasuredGain;
use std::collections::BTreeMap;
use toll::Stage;
use watch::{
    Action, ActionSummary, Activity, AdapterSummary, HardwareCount, HookCost, HookKind, Interval, Losses,
    Mapping, PartTime, Record, StaysMapped,
};

/// Names of devices and what the kernel calls them have at most so many columns in the lines of intervals.
const NAME_COLUMNS: usize = 16;
/// Invalidations that take a smaller share of an adapter's time are not worth a sentence.
const INVALIDATIONS_SHARE_MIN: f64 = 0.02;
/// What stands where something could not be counted.
const UNKNOWN: &str = "?";

/// The title of the lines of [`watch_interval`].
pub fn watch_interval_title() -> String {
    format!(
        "{:>8}  {:<NAME_COLUMNS$}  {:>10}  {:>10}  {:>10}  {:>10}  {:>12}  {:>12}  {:>7}",
        "seconds", "adapter", "I/O/s", "maps/s", "unmaps/s", "inval/s", "mapped/s", "bounced/s", "cores"
    )
}

/// A line for each adapter that did something in an interval.
pub fn watch_interval(interval: &Interval) -> Vec<String> {
    let line = |activity: &Activity| {
        let per_second = |amount: u64| grouped((amount as f64 / interval.seconds).round() as u64);
        let io = activity.completed.io().map(|(number, _)| per_second(number)).unwrap_or_default();
        let rate = |amount: u64| bytes((amount as f64 / interval.seconds) as u64);
        let mapping = |cell: &dyn Fn(&Mapping) -> Option<String>| {
            activity.mapping.as_ref().and_then(cell).unwrap_or_else(|| UNKNOWN.to_owned())
        };
        format!(
            "{:>8.1}  {:<NAME_COLUMNS$}  {:>10}  {:>10}  {:>10}  {:>10}  {:>12}  {:>12}  {:>7}",
            interval.end_s,
            device(&activity.adapter),
            io,
            mapping(&|mapping| Some(per_second(mapping.maps))),
            mapping(&|mapping| Some(per_second(mapping.unmaps))),
            mapping(&|mapping| Some(per_second(mapping.invalidations))),
            mapping(&|mapping| mapping.mapped_bytes.map(rate)),
            mapping(&|mapping| Some(rate(mapping.bounced_bytes))),
            mapping(&|mapping| Some(format!(
                "{:.3}",
                net(mapping.net_ns(), mapping.ns) / 1e9 / interval.seconds
            ))),
        )
    };
    let is_mapping = |mapping: &Mapping| mapping.maps + mapping.unmaps > 0;
    let has_work = |activity: &&Activity| {
        activity.mapping.as_ref().is_some_and(is_mapping) || activity.completed.io().is_some()
    };
    interval.adapters.iter().filter(has_work).map(line).collect()
}

/// What mapping cost each adapter, and what fixes would save of it.
pub fn watch(head: &Head, record: &Record, gains: &[MeasuredGain]) -> Page {
    let seconds = figure(record.seconds);
    let mut page = Page::titled(format!("DMA mapping on this kernel within {seconds} s"));
    page.warnings(&head.warnings);
    if record.adapters.is_empty() {
        page.prose("No adapter did anything in this time.", 0);
    }
    let costs: BTreeMap<String, CostPerIo> =
        costs_per_io(record).into_iter().map(|cost| (cost.adapter.clone(), cost)).collect();
    for adapter in &record.adapters {
        let cost = costs.get(&adapter.adapter);
        let gain = gains.iter().find(|gain| gain.address.to_string() == adapter.adapter);
        add_adapter(&mut page, adapter, cost, record, gain);
    }
    if let Some(stacks) = &record.stacks {
        stacks::add_stacks(&mut page, stacks);
    }
    add_hardware_counts(&mut page, record);
    page.blocks.extend(watch_drawings::courses(record).into_iter().map(Block::Drawing));
    add_doubts(&mut page, record);
    page
}

/// What IOMMUs and PCIe root ports counted, in a second; whole units and not adapters.
fn add_hardware_counts(page: &mut Page, record: &Record) {
    if record.hardware_counts.is_empty() {
        page.blank();
        page.prose(
            "Counters of the hardware: none. perf has no source of events dmar*, smmuv3_pmcg_*, amd_iommu_* or uncore_iio_free_running_* here.",
            0,
        );
        return;
    }
    // They count on in pauses.
    let seconds =
        record.part_time.map_or(record.seconds, |part_time| part_time.elapsed_s).max(f64::MIN_POSITIVE);
    let row = |one: &HardwareCount| {
        let count = one.count?;
        let unit = one.unit.as_ref().map(|unit| format!(" {}", plain(unit))).unwrap_or_default();
        let number = count / seconds;
        let number = if unit.is_empty() { grouped(number.round() as u64) } else { figure(number) };
        let share = one.counted_share.map(|share| format!("{:.0} %", share * 100.0)).unwrap_or_default();
        let name = format!("{} {}", plain(&one.source), plain(&one.event));
        Some(Row { name, ink: None, cells: vec![format!("{number}{unit}"), share] })
    };
    page.heading("Counters of the hardware");
    page.table(Table {
        names: "counter",
        wraps_names: false,
        titles: ["per second", "share of the time"].map(str::to_owned).to_vec(),
        rows: record.hardware_counts.iter().filter_map(row).collect(),
    });
    let refused = record.hardware_counts.iter().filter_map(|one| Some((one, one.why.as_ref()?)));
    for (HardwareCount { source, event, .. }, why) in refused {
        page.bullet(format!("{} {} not counted: {}", plain(source), plain(event), plain(why)));
    }
    page.prose("Each is of a whole IOMMU or root port, not of one adapter. If it was counted in a part of the time, it is scaled.", 0);
}

/// A device's name, or what worked for none.
pub(super) fn device(adapter: &str) -> String {
    if adapter.is_empty() { "no device".to_owned() } else { plain(adapter) }
}

fn add_adapter(
    page: &mut Page,
    adapter: &AdapterSummary,
    cost: Option<&CostPerIo>,
    record: &Record,
    gain: Option<&MeasuredGain>,
) {
    page.heading(device(&adapter.adapter));
    let seconds = record.seconds.max(f64::MIN_POSITIVE);
    page.prose(sentence(adapter, cost, seconds), 2);
    page.blocks.extend(unmet_words(adapter).map(|words| Block::Prose(words, 2)));
    let fix = gain.map(gain_words).or_else(|| invalidations(adapter, seconds));
    page.blocks.extend(fix.map(|words| Block::Prose(words, 2)));
    if adapter.actions.is_empty() {
        return;
    }
    let per = adapter.io_of_costs().map(|(number, name)| (number as f64, name));
    let mut titles = vec!["per second".to_owned()];
    titles.extend(per.map(|(_, name)| format!("per {name}")));
    titles.extend(["bytes each", "time each", "99th percentile"].map(str::to_owned));
    let row = |one: &ActionSummary| {
        let tally = &one.tally;
        let mut cells = vec![grouped((tally.calls as f64 / seconds).round() as u64)];
        cells.extend(per.map(|(number, _)| per_io(tally.calls as f64 / number)));
        let each = tally.calls.max(1) as f64;
        cells.push(match tally.bytes_if_known() {
            Some(sum) => bytes((sum as f64 / each) as u64),
            None => String::new(),
        });
        cells.push(time(net(one.net_ns(), tally.ns) / each));
        cells.push(tally.by_ns.quantile(0.99).map(|ns| time(ns as f64)).unwrap_or_default());
        Row { name: words(one.action).to_owned(), ink: None, cells }
    };
    let rows = adapter.actions.iter().map(row).collect();
    page.table(Table { names: "the kernel", wraps_names: false, titles, rows });
    page.prose(stays_mapped_words(adapter.stays_mapped), 2);
    let mut titles = vec!["of a core".to_owned()];
    titles.extend(per.map(|(_, name)| format!("per {name}")));
    titles.push("watching added".to_owned());
    let row = |stage: &watch::StageSummary| {
        let ns = net(stage.net_ns(), stage.ns);
        let mut cells = vec![cores(ns / 1e9 / seconds)];
        cells.extend(per.map(|(number, _)| time(ns / number)));
        cells.push(match (stage.programs_ns, per) {
            (None, _) => UNKNOWN.to_owned(),
            (Some(0), _) => String::new(),
            (Some(part), Some((number, _))) => time(part as f64 / number),
            (Some(part), None) => cores(part as f64 / 1e9 / seconds),
        });
        Row { name: stage.stage.word().to_owned(), ink: None, cells }
    };
    let rows = adapter.stages.iter().map(row).collect();
    page.table(Table { names: "CPU time by stage", wraps_names: false, titles, rows });
    if let Some(flame) = watch_drawings::flame(adapter) {
        page.push(Block::Drawing(flame));
    }
}

/// What it did and what mapping cost it: `10,000 requests; mapping took 0.83 of a core, 3.3 µs per request`.
fn sentence(adapter: &AdapterSummary, cost: Option<&CostPerIo>, seconds: f64) -> String {
    let completed = adapter.completed;
    let mut done = Vec::new();
    for (number, noun, size) in [
        (completed.block_requests, "request", completed.block_bytes),
        (completed.packets, "packet", completed.packet_bytes),
    ] {
        if number > 0 {
            done.push(format!("{} ({})", count(number as usize, noun), bytes(size)));
        }
    }
    if completed.interrupts > 0 {
        done.push(count(completed.interrupts as usize, "interrupt"));
    }
    let done = if done.is_empty() { "No I/O".to_owned() } else { format!("Completed {}", done.join(", ")) };
    if adapter.actions.is_empty() && adapter.stages.is_empty() {
        return format!("{done}.");
    }
    let each = cost.map(|cost| {
        let interval =
            cost.interval_ns.map(|[low, high]| format!(" (95 % interval {} to {})", time(low), time(high)));
        format!(", {} per {}{}", time(cost.ns), cost.io, interval.unwrap_or_default())
    });
    let watching = match adapter.programs_ns() {
        None => ", with what watching added, which is not known".to_owned(),
        Some(0) => String::new(),
        Some(part) => {
            format!(", without what watching added: {} of a core", cores(part as f64 / 1e9 / seconds))
        }
    };
    format!(
        "{done}. DMA mapping took {} of a core{}{watching}.",
        cores(net(adapter.net_ns(), adapter.ns()) / 1e9 / seconds),
        each.unwrap_or_default()
    )
}

/// That costs are not known, because all I/O came while calls were not counted.
fn unmet_words(adapter: &AdapterSummary) -> Option<String> {
    let (number, io) = adapter.completed.io().filter(|_| adapter.io_of_costs().is_none())?;
    let them = if number == 1 { "it" } else { "them" };
    Some(format!("What mapping cost per {io} is unknown, because no window met any of {them}."))
}

/// Nanoseconds without what watching added; with it where that is not known.
fn net(net_ns: Option<u64>, ns: u64) -> f64 {
    net_ns.unwrap_or(ns) as f64
}

/// What the fix of a finding would save, and where to find the fix.
fn gain_words(gain: &MeasuredGain) -> String {
    let MeasuredGain {
        address,
        finding,
        dma_path_now,
        dma_path_then,
        counted_io,
        now_ns,
        then_ns,
        cores_saved,
    } = gain;
    let direction = if *cores_saved > 0.0 { "less" } else { "more" };
    format!(
        "The fix of {} would take about {} of a core {direction} at this load. DMA mapping takes {} per I/O on {dma_path_now}, measured, \
         without the cost of watching. On {dma_path_then} it would take about {}, predicted from that and from counts of a {counted_io} on \
         both. For the fix, its risk and how to undo it: iotoll inspect {address}",
        finding.word(),
        cores(cores_saved.abs()),
        time(*now_ns),
        time(*then_ns),
    )
}

/// What stayed mapped, by the difference between begin and end.
fn stays_mapped_words(stays: Option<StaysMapped>) -> String {
    let Some(StaysMapped { table_bytes, coherent_bytes, bounce_buffers }) = stays else {
        return "What stayed mapped is unknown: not all calls were counted.".to_owned();
    };
    let changed = |amount: i64, words: &dyn Fn(u64) -> String, what: &str| {
        let direction = if amount > 0 { "more" } else { "less" };
        (amount != 0).then(|| format!("{} {direction} {what}", words(amount.unsigned_abs())))
    };
    let buffers = |number: u64| count(number as usize, "bounce buffer");
    let changes: Vec<String> = [
        table_bytes.and_then(|amount| changed(amount, &bytes, "in the IOMMU's table")),
        changed(coherent_bytes, &bytes, "of coherent memory"),
        changed(bounce_buffers, &buffers, "in use"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let unknown =
        if table_bytes.is_none() { " How much of the IOMMU's table is in use is unknown." } else { "" };
    match changes.is_empty() {
        true => format!("As much was mapped at the end as at the begin.{unknown}"),
        false => format!("At the end there was {} than at the begin.{unknown}", changes.join(", ")),
    }
}

/// What an adapter's invalidations took, and what would save most of it. Nothing if they are few.
fn invalidations(adapter: &AdapterSummary, seconds: f64) -> Option<String> {
    let stage =
        adapter.stages.iter().find(|one| one.stage == Stage::Invalidation && !adapter.adapter.is_empty())?;
    let ns = net(stage.net_ns(), stage.ns);
    let share = ns / net(adapter.net_ns(), adapter.ns()).max(1.0);
    (share >= INVALIDATIONS_SHARE_MIN).then(|| {
        format!(
            "Invalidations took {} of a core of that ({:.0} %). Lazy mode would save most of it, and some of the unmapping around it; a device \
             could then reach memory for some milliseconds after it was unmapped. iotoll inspect says whether this host can have it, and how.",
            cores(ns / 1e9 / seconds),
            share * 100.0
        )
    })
}

/// A share of a core: thousandths, unless that is less than one.
pub(super) fn cores(share: f64) -> String {
    if share >= 0.001 { format!("{share:.3}") } else { figure(share) }
}

/// An action in words.
fn words(action: Action) -> &'static str {
    match action {
        Action::Map => "maps memory",
        Action::Unmap => "unmaps memory",
        Action::AllocateCoherent => "allocates coherent memory",
        Action::FreeCoherent => "frees coherent memory",
        Action::Sync => "syncs mapped memory",
        Action::AllocateIova => "allocates an IOVA",
        Action::MissIova => "misses the CPU's cache of IOVAs",
        Action::WriteTable => "writes the IOMMU's table",
        Action::ClearTable => "clears entries of the table",
        Action::Invalidate => "invalidates the IOTLB",
        Action::CallHypervisor => "calls the hypervisor",
        Action::TakeBounce => "takes a bounce buffer",
        Action::ReturnBounce => "returns a bounce buffer",
        _ => "does something else",
    }
}

/// What was not seen, and what watching cost.
fn add_doubts(page: &mut Page, record: &Record) {
    if record.functions.is_empty() {
        return;
    }
    page.heading("How it was counted");
    let cost = match record.program_ns {
        Some(ns) => {
            let share = record.calls as f64 * ns / 1e9 / record.seconds.max(f64::MIN_POSITIVE);
            format!(
                "{} of a core, {} for each of {}",
                cores(share),
                time(ns),
                count(record.calls as usize, "call")
            )
        }
        None => "not known: too few calls, or Linux before 5.8".to_owned(),
    };
    let hooks = record.hooks.iter().map(hook_words);
    let losses = match record.losses.total() {
        0 => "none".to_owned(),
        _ => loss_words(&record.losses),
    };
    let mut facts = vec![
        Fact::known("watched", &format!("{} of the kernel's functions", record.functions.len())),
        Fact::known("cost of watching", &cost),
        Fact::known("calls not counted", &losses),
    ];
    facts.extend(hooks.map(|words| Fact::known("cost of a call", &words)));
    facts.extend(
        record
            .part_time
            .map(|part_time| Fact::known("part of the time", &part_time_words(part_time, record))),
    );
    if !record.probed.is_empty() {
        facts.push(Fact::known(
            "watched by probes",
            &format!("{}; calls that interrupt a probe are missed", record.probed.join(", ")),
        ));
    }
    if record.assumes_parameters {
        facts.push(Fact::known(
            "parameters",
            "assumed to be those of Linux 6.1: this kernel does not describe its own (BTF)",
        ));
    }
    for one in &record.unwatched {
        facts.push(Fact::absent(one.function, &format!("not watched: {}", one.why)));
    }
    let widest = facts.iter().map(|fact| fact.label.chars().count()).max().unwrap_or(0);
    page.facts(facts, widest + 2);
    page.remark(
        "Times include interrupts that came within. The time of a function that the compiler inlined belongs to its caller. What watching \
         added is taken off times, but not off percentiles. It was measured in a loop, with its code and tables in the CPU's caches; \
         where they are not, a call costs more.",
    );
}

/// What watching adds to a call.
fn hook_words(cost: &HookCost) -> String {
    let hook = match cost.hook {
        HookKind::Trampoline => "trampoline",
        HookKind::Probe => "probe",
        HookKind::Tracepoint => "tracepoint",
        _ => "another way",
    };
    let (inside, outside) = (time(cost.inside_ns), time(cost.outside_ns));
    match cost.is_measured {
        true => {
            format!("{hook}: {inside} in its own time, {outside} in its caller's, measured by system calls")
        }
        false => format!(
            "{hook}: {outside} in its caller's time, by the kernel, without the jumps to the programs"
        ),
    }
}

/// Which part of the time was counted, and what that cost.
fn part_time_words(part_time: PartTime, record: &Record) -> String {
    let PartTime { max_cores, cores: took, elapsed_s, counted_s } = part_time;
    let kept = if took > max_cores {
        ", which is more: the time was short for what starting and the last window cost"
    } else {
        ""
    };
    format!(
        "{} s of {} s in {}, each of which stands for the time around it: sums of calls and times are estimates, and what adapters completed \
         is not. Watching might take {} of a core; it took {}{kept}",
        figure(counted_s),
        figure(elapsed_s),
        count(record.intervals.len(), "window"),
        cores(max_cores),
        cores(took),
    )
}

fn loss_words(losses: &Losses) -> String {
    let Losses { interrupted, without_entry, without_end, unseen, contexts, depth, tallies } = *losses;
    let words = [
        (interrupted, "that interrupted a counting program"),
        (without_entry, "whose entry was missed"),
        (without_end, "whose return was missed"),
        (unseen, "that clear entries of the IOMMU's table, with what followed from them"),
        (contexts, "on too many different kernel stacks"),
        (depth, "nested too deeply"),
        (tallies, "from too many devices and callers"),
    ];
    let words = words.iter().filter(|(number, _)| *number > 0);
    words.map(|(number, words)| format!("{} {words}", grouped(*number))).collect::<Vec<_>>().join(", ")
}
