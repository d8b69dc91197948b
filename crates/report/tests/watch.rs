//! The report of a watched kernel, from numbers that are known.

use bench::{Head, HostSummary, Origin};
use host::diagnose::{DmaPath, Id, MeasuredGain};
use report::{Length, Style, html, text, watch, watch_interval};
use toll::Stage;
use watch::{
    Action, ActionSummary, Activity, AdapterSummary, Completed, CompletedIo, Evidence, HardwareCount,
    HookCost, HookKind, Interval, Losses, Mapping, PartTime, Path, Record, SampledPath, SampledStage,
    SampledTime, Stacks, StageSummary, StaysMapped, Tally,
};

const DISK: &str = "0000:3b:00.0";

fn head() -> Head {
    let origin = Origin { made_by: "a test".to_owned(), command: Vec::new(), date: "2026-01-01".to_owned() };
    Head::new("iotoll.watch/1", origin, HostSummary::here())
}

/// 1,000 requests in 2 seconds: each mapped once in 300 ns, of which 100 wrote the table.
fn record(adapter: &str) -> Record {
    let completed = Completed { block_requests: 1000, block_bytes: 4_096_000, ..Completed::default() };
    let tally = Tally { calls: 1000, ns: 300_000, own_ns: 200_000, ..Tally::default() };
    let path = |functions: &[&'static str], own_ns| Path {
        functions: functions.to_vec(),
        calls: 1000,
        own_ns,
        programs_ns: None,
    };
    let stage = |stage, ns| StageSummary { stage, ns, programs_ns: None };
    let adapters = vec![AdapterSummary {
        adapter: adapter.to_owned(),
        completed,
        completed_while_counted: completed,
        actions: vec![
            ActionSummary { action: Action::Map, tally, programs_ns: None },
            ActionSummary {
                action: Action::Invalidate,
                tally: Tally { calls: 1000, ns: 60_000, ..Tally::default() },
                programs_ns: None,
            },
        ],
        stays_mapped: Some(StaysMapped { table_bytes: Some(8192), coherent_bytes: 0, bounce_buffers: -1 }),
        stages: vec![
            stage(Stage::DmaMap, 200_000),
            stage(Stage::TableWrite, 40_000),
            stage(Stage::Invalidation, 60_000),
        ],
        paths: vec![
            path(&["dma_map_page_attrs"], 200_000),
            path(&["dma_map_page_attrs", "iommu_map"], 100_000),
        ],
    }];
    Record {
        seconds: 2.0,
        part_time: None,
        uncounted: None,
        assumes_parameters: true,
        functions: vec!["dma_map_page_attrs", "iommu_map"],
        probed: vec!["iommu_map"],
        unwatched: Vec::new(),
        losses: Losses { unseen: 7, ..Losses::default() },
        program_ns: None,
        hooks: Vec::new(),
        calls: 2000,
        adapters,
        hardware_counts: Vec::new(),
        stacks: None,
        intervals: vec![interval(adapter, 1.0, true), interval(adapter, 2.0, true)],
    }
}

fn interval(adapter: &str, end_s: f64, is_counted: bool) -> Interval {
    let mapping = Mapping {
        maps: 500,
        iovas: 500,
        table_writes: 500,
        stages: vec![StageSummary { stage: Stage::DmaMap, ns: 150_000, programs_ns: None }],
        mapped_bytes: None,
        unmaps: 500,
        invalidations: 500,
        bounced_bytes: 0,
        ns: 150_000,
    };
    let completed = Completed { block_requests: 500, ..Completed::default() };
    let activity = Activity {
        adapter: adapter.to_owned(),
        completed,
        completed_in_period: Some(completed),
        mapping: is_counted.then_some(mapping),
    };
    Interval { end_s, seconds: 1.0, stands_for_s: 1.0, adapters: vec![activity] }
}

#[test]
fn what_could_not_be_counted_is_not_zero() {
    let words = |is_counted| {
        let lines = watch_interval(&interval(DISK, 1.0, is_counted));
        lines[0].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(words(false), ["1.0", DISK, "500", "?", "?", "?", "?", "?", "?"]);
    // Scatter lists don't say their bytes.
    assert_eq!(words(true), ["1.0", DISK, "500", "500", "500", "500", "?", "0", "B", "0.000"]);
}

#[test]
fn the_page_says_what_an_io_costs_and_what_is_doubtful() {
    let page = watch(&head(), &record(DISK), &[]);
    let text = text(&page, 100, Style::Plain, Length::Full);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "Completed 1,000 requests (3.9 MiB)",
        "0.0001 of a core, 300 ns per request, with what watching added, which is not known.",
        "of a core of that (20 %). Lazy mode would save",
        "At the end there was 8 KiB more in the IOMMU's table, 1 bounce buffer less in use than at the begin.",
        "watched by probes",
        "assumed to be those of Linux 6.1",
        "7 that clear entries of the IOMMU's table",
        "not known: too few calls",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn counters_of_the_hardware_are_shown_or_said_to_be_absent() {
    let shown = |hardware_counts| {
        let record = Record { hardware_counts, ..record(DISK) };
        let text = text(&watch(&head(), &record, &[]), 100, Style::Plain, Length::Full);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(
        shown(Vec::new()).contains("Counters of the hardware: none. perf has no source of events dmar*"),
        "{}",
        shown(Vec::new())
    );
    let count = |source: &str, event: &str, count: Option<f64>| HardwareCount {
        source: source.to_owned(),
        event: event.to_owned(),
        count,
        unit: (source == "uncore_iio_free_running_0").then(|| "MiB".to_owned()),
        counted_share: count.map(|_| if event == "iotlb_hit" { 0.5 } else { 1.0 }),
        why: count.is_none().then(|| "Permission denied".to_owned()),
    };
    let shown = shown(vec![
        count("dmar0", "iotlb_lookup", Some(4000.0)),
        count("dmar0", "iotlb_hit", Some(3000.0)),
        count("uncore_iio_free_running_0", "bw_in_port0", Some(12.0)),
        count("amd_iommu_0", "mem_trans_total", None),
    ]);
    for words in [
        // Of two seconds.
        "dmar0 iotlb_lookup 2,000 100 %",
        "dmar0 iotlb_hit 1,500 50 %",
        "uncore_iio_free_running_0 bw_in_port0 6.00 MiB 100 %",
        "amd_iommu_0 mem_trans_total not counted: Permission denied",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
}

#[test]
fn what_stays_mapped_is_said_or_why_not() {
    let shown = |stays_mapped| {
        let mut record = record(DISK);
        record.adapters[0].stays_mapped = stays_mapped;
        let text = text(&watch(&head(), &record, &[]), 100, Style::Plain, Length::Full);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let none = StaysMapped { table_bytes: Some(0), ..StaysMapped::default() };
    assert!(shown(None).contains("What stayed mapped is unknown: not all calls were counted."));
    assert!(shown(Some(none)).contains("As much was mapped at the end as at the begin. CPU time"));
    let coherent = StaysMapped { coherent_bytes: -4096, ..StaysMapped::default() };
    let words = "there was 4 KiB less of coherent memory than at the begin. How much of the IOMMU's table is in use is unknown.";
    assert!(shown(Some(coherent)).contains(words), "{}", shown(Some(coherent)));
}

#[test]
fn a_finding_is_told_with_what_its_fix_would_save() {
    let gain = MeasuredGain {
        address: DISK.parse().unwrap(),
        finding: Id::StrictOnFastAdapter,
        dma_path_now: DmaPath::TranslatedStrict,
        dma_path_then: DmaPath::TranslatedLazy,
        counted_io: "4 KiB read",
        now_ns: 300.0,
        then_ns: 240.0,
        cores_saved: 0.03,
    };
    let words = |gain| {
        let text = text(&watch(&head(), &record(DISK), &[gain]), 100, Style::Plain, Length::Full);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let saves = words(gain);
    for part in [
        "The fix of strict-on-fast-adapter would take about 0.030 of a core less at this load.",
        "takes 300 ns per I/O on translated-strict, measured",
        "how to undo it: iotoll inspect 0000:3b:00.0",
        "On translated-lazy it would take about 240 ns, predicted",
    ] {
        assert!(saves.contains(part), "{part}\n{saves}");
    }
    assert!(!saves.contains("Lazy mode would save"), "{saves}");
    assert!(
        words(MeasuredGain { cores_saved: -0.03, ..gain }).contains("would take about 0.030 of a core more")
    );
}

#[test]
fn drawings_are_of_all_adapters_and_names_are_escaped() {
    let page = html(&watch(&head(), &record("<script>"), &[]), "watch", "a test");
    assert!(!page.contains("<script>") && page.contains("&lt;script&gt;"), "{page}");
    // I/O, mappings and CPU time, each a step of two intervals, and a piece of the line beside the name.
    assert_eq!(page.matches("class=\"line line0 dash0\"").count(), 6, "{page}");
    // The table is written within a third of the time.
    assert!(page.contains("iommu_map (table-write): 100 µs, 33.3 % of the time"), "{page}");
}

/// The same, of which watching added half, and which differs from interval to interval.
fn net_record() -> Record {
    let mut record = record(DISK);
    let half = |stage: &mut StageSummary| stage.programs_ns = Some(stage.ns / 2);
    record.adapters[0].stages.iter_mut().for_each(half);
    record.adapters[0].actions[0].programs_ns = Some(100_000);
    let mut intervals: Vec<Interval> = (1..=5).map(|end_s| interval(DISK, f64::from(end_s), true)).collect();
    for (place, interval) in intervals.iter_mut().enumerate() {
        let adapter = &mut interval.adapters[0];
        adapter.completed.block_requests = 200;
        adapter.completed_in_period = Some(adapter.completed);
        for stage in adapter.mapping.iter_mut().flat_map(|mapping| &mut mapping.stages) {
            stage.ns = 60_000 + 4000 * (place as u64 % 2);
            half(stage);
        }
    }
    let hook = |hook, is_measured| HookCost { hook, inside_ns: 20.0, outside_ns: 70.0, is_measured };
    let hooks = vec![hook(HookKind::Trampoline, true), hook(HookKind::Tracepoint, false)];
    Record { intervals, hooks, program_ns: Some(90.0), ..record }
}

#[test]
fn times_are_without_what_watching_added() {
    let shown = text(&watch(&head(), &net_record(), &[]), 100, Style::Plain, Length::Full);
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        // Of 5 intervals with 150 and 160 ns per request.
        "7e-5 of a core, 150 ns per request (95 % interval 147 ns to 161 ns), without what watching added: 7e-5 of a core.",
        "maps memory 500 1 - 200 ns",
        "dma-map 5e-5 100 ns 100 ns",
        "cost of watching 9e-5 of a core, 90.0 ns for each of 2,000 calls",
        "trampoline: 20.0 ns in its own time, 70.0 ns in its caller's, measured by system calls",
        "tracepoint: 70.0 ns in its caller's time, by the kernel, without the jumps to the programs",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
    let mut busy = net_record().intervals.remove(0);
    let stage = StageSummary { stage: Stage::DmaMap, ns: 150_000_000, programs_ns: Some(50_000_000) };
    busy.adapters[0].mapping.as_mut().unwrap().stages = vec![stage];
    assert!(watch_interval(&busy)[0].ends_with("0.100"), "{}", watch_interval(&busy)[0]);
}

#[test]
fn counting_a_part_says_how_much_was_counted_and_what_it_took() {
    let shown = |cores| {
        let part_time = Some(PartTime { max_cores: 0.02, cores, elapsed_s: 120.0, counted_s: 4.0 });
        let text = text(
            &watch(&head(), &Record { part_time, ..record(DISK) }, &[]),
            100,
            Style::Plain,
            Length::Full,
        );
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let kept = "4.00 s of 120 s in 2 windows, each of which stands for the time around it: sums of calls and times are estimates, and what \
                adapters completed is not. Watching might take 0.020 of a core; it took";
    assert!(shown(0.019).contains(&format!("{kept} 0.019 ")), "{}", shown(0.019));
    assert!(shown(0.05).contains(&format!("{kept} 0.050, which is more:")), "{}", shown(0.05));
}

/// Of 1,000 requests no window met one: nothing is divided by them.
#[test]
fn without_i_o_in_windows_its_cost_is_unknown() {
    let told = |completed_while_counted| {
        let mut record = record(DISK);
        record.adapters[0].completed_while_counted = completed_while_counted;
        let text = text(&watch(&head(), &record, &[]), 100, Style::Plain, Length::Full);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let unknown = "What mapping cost per request is unknown, because no window met any of them.";
    let unmet = told(Completed::default());
    assert!(unmet.contains("Completed 1,000 requests (3.9 MiB)") && unmet.contains(unknown), "{unmet}");
    assert!(!unmet.contains("ns per request") && !unmet.contains("time each per request"), "{unmet}");
    assert!(unmet.contains("maps memory 500 - 300 ns"), "{unmet}");
    assert!(!told(record(DISK).adapters[0].completed).contains(unknown));
}

/// Windows of a second stand for 10 and 30, in which the adapter completed 500 and 6,000 requests.
#[test]
fn the_course_of_i_o_is_that_of_all_the_time() {
    let mut record = record(DISK);
    for (interval, (stands_for_s, block_requests)) in
        record.intervals.iter_mut().zip([(10.0, 500), (30.0, 6000)])
    {
        interval.stands_for_s = stands_for_s;
        let completed = Completed { block_requests, ..Completed::default() };
        interval.adapters[0].completed_in_period = Some(completed);
    }
    let page = html(&watch(&head(), &record, &[]), "watch", "a test");
    // 50 per second up to the tenth second, and 200 up to the fortieth.
    let line = "M70 143.6L205 143.6L205 28.3L610 28.3";
    assert!(page.contains(line), "{page}");
}

/// 600 of 10,000 samples in two stages.
fn stacks() -> Stacks {
    let time = |samples: u64| SampledTime {
        samples,
        cores: samples as f64 / 10_000.0,
        cores_interval: [samples as f64 / 11_000.0, samples as f64 / 9000.0],
        ns_per_io: Some(samples as f64),
        ns_per_io_interval: Some([samples as f64 * 0.9, samples as f64 * 1.1]),
    };
    let path = |functions: &[&str], stage, samples| SampledPath {
        functions: functions.iter().map(|name| (*name).to_owned()).collect(),
        stage,
        samples,
    };
    Stacks {
        unknown: None,
        evidence: Some(Evidence::Seen),
        cpus: 2,
        cycles_per_sample: 3_000_001,
        cycle_ns: [0.333, 0.35],
        cycles: 3e10,
        samples: 10_000,
        kernel_samples: 4000,
        interrupts_off_samples: 800,
        program_samples: 0,
        lost_samples: 0,
        throttled: 0,
        malformed_bytes: 0,
        io: Some(CompletedIo { number: 1000, name: "request" }),
        all: Some(time(600)),
        stages: [(Stage::TableWrite, 200), (Stage::Invalidation, 400)]
            .map(|(stage, samples)| SampledStage { stage, time: time(samples) })
            .to_vec(),
        paths: vec![
            path(&["dma_unmap_phys", "qi_submit_sync"], Stage::Invalidation, 300),
            path(&["dma_unmap_phys", "qi_submit_sync", "<b>"], Stage::Invalidation, 100),
            path(&["dma_map_phys", "iommu_map"], Stage::TableWrite, 200),
        ],
    }
}

fn shown(stacks: Stacks) -> String {
    let record = Record { stacks: Some(stacks), ..record(DISK) };
    let text = text(&watch(&head(), &record, &[]), 120, Style::Plain, Length::Full);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn samples_are_shown_with_their_intervals() {
    let told = shown(stacks());
    for words in [
        "DMA mapping took 0.060 of a core (0.055 to 0.067), 600 ns per request (540 ns to 660 ns).",
        "invalidation 400 0.040 0.036 to 0.044 400 ns 360 ns to 440 ns",
        "qi_submit_sync invalidation 300 50 %",
        "10,000 samples on 2 CPUs, one every 3,000,001 cycles",
        "800 of 4,000 samples in the kernel; so it is not blind there",
        "left out nothing",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
    let told = shown(Stacks { evidence: Some(Evidence::ByKind), throttled: 3, lost_samples: 7, ..stacks() });
    for words in
        ["by the kind of the counter alone", "7 samples found no room; 3 times the kernel stopped a counter"]
    {
        assert!(told.contains(words), "{words}\n{told}");
    }
}

#[test]
fn without_a_source_that_is_not_maskable_nothing_is_claimed() {
    let why = "the kernel has no counters of this CPU";
    let told = shown(Stacks { unknown: Some(why.to_owned()), ..stacks() });
    assert!(told.contains("Unknown, because the kernel has no counters of this CPU."), "{told}");
    assert!(!told.contains("DMA mapping took 0.060") && !told.contains("functions that ran"), "{told}");
}

#[test]
fn samples_are_drawn_by_their_callers() {
    let record = Record { stacks: Some(stacks()), ..record(DISK) };
    let page = html(&watch(&head(), &record, &[]), "watch", "a test");
    assert!(page.contains("qi_submit_sync: 400 samples, 66.7 %; 300 in itself"), "{page}");
    assert!(!page.contains("<b>:") && page.contains("&lt;b&gt;: 100 samples"), "{page}");
}
