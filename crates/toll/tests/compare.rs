//! Differences between sheets.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use proptest::prelude::*;
use support::{LAZY, NONE, STRICT, any_sheet, sheet};
use toll::{
    Average, Change, Changed, Count, DmaPath, Estimate, Event, Limit, Side, Spread, Stage, TollSheet,
};
use toll::{compare, grew, toll_over, untranslated};

/// Workload, count, and the values in both sheets.
fn counts(changes: &[Change]) -> Vec<(&str, &Count, f64, f64)> {
    let count = |change| match change {
        &Change { ref workload, what: Changed::Count { ref count, a, b, .. } } => {
            Some((workload.as_str(), count, a, b))
        }
        _ => None,
    };
    changes.iter().filter_map(count).collect()
}

fn near(left: f64, right: f64) -> bool {
    (left - right).abs() <= 1e-6 * left.abs().max(right.abs()).max(1.0)
}

/// Sums of the differences of what a workload's instructions are divided into, and their own.
fn sums(changes: &[Change], workload: &str) -> (f64, f64, f64) {
    let sum = |wanted: fn(&Count) -> bool| {
        let of = counts(changes).into_iter().filter(|(name, count, ..)| *name == workload && wanted(count));
        of.map(|(_, _, a, b)| b - a).sum()
    };
    (
        sum(|count| matches!(count, Count::Instructions)),
        sum(|count| matches!(count, Count::Stage { .. })),
        sum(|count| matches!(count, Count::Function { .. })),
    )
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(sheet in any_sheet()) {
        prop_assert_eq!(compare(&sheet, &sheet, Limit::default()), vec![]);
    }

    #[test]
    fn the_way_back_is_the_way_there_turned_round(a in any_sheet(), b in any_sheet()) {
        let (there, back) = (compare(&a, &b, Limit::default()), compare(&b, &a, Limit::default()));
        prop_assert_eq!(there.len(), back.len());
        for (workload, count, before, after) in counts(&there) {
            prop_assert!(before != after);
            prop_assert!(counts(&back).contains(&(workload, count, after, before)));
        }
        let only = |changes: &[Change], side: Side| {
            changes.iter().filter(|change| change.what == Changed::Workload { only_in: side }).count()
        };
        prop_assert_eq!(only(&there, Side::A), only(&back, Side::B));
        prop_assert_eq!(only(&there, Side::B), only(&back, Side::A));
    }

    #[test]
    fn stages_and_functions_explain_all_of_it(a in any_sheet(), b in any_sheet()) {
        let changes = compare(&a, &b, Limit::default());
        for toll in a.tolls.iter().filter(|toll| b.toll(&toll.workload).is_some()) {
            let other = b.toll(&toll.workload).unwrap();
            let more = other.per_io(other.instructions.median) - toll.per_io(toll.instructions.median);
            let (instructions, stages, functions) = sums(&changes, &toll.workload);
            prop_assert!(near(instructions, more) && near(stages, more) && near(functions, more));
            let over = toll_over(other, toll);
            prop_assert!(near(over.instructions.mean, more) && near(over.dma.mean + over.elsewhere.mean, more));
            let of_stages = over.stages.values().map(|stage| stage.mean).sum();
            prop_assert!(near(of_stages, more) && near(over.functions.values().sum(), more));
        }
    }

    #[test]
    fn growth_is_judged_by_the_totals(a in any_sheet(), b in any_sheet()) {
        let changes = compare(&a, &b, Limit::default());
        let counts = counts(&changes);
        let exceeds = |(_, count, a, b): &(&str, &Count, f64, f64)| Limit::default().is_exceeded(count, *a, *b);
        prop_assert!(!grew(&changes) || counts.iter().any(exceeds));
        // The made-up boots of a sheet agree in instructions, so that no growth of those may be chance.
        let certain = counts.iter().filter(|(_, count, ..)| matches!(count, Count::Instructions)).any(exceeds);
        prop_assert!(!certain || grew(&changes));
    }
}

fn find<'c>(changes: &'c [Change], workload: &str, count: &Count) -> Option<&'c Changed> {
    let is = |change: &&Change| {
        change.workload == workload
            && matches!(&change.what, Changed::Count { count: one, .. } if one == count)
    };
    changes.iter().find(is).map(|change| &change.what)
}

#[test]
fn strict_invalidates_where_lazy_does_not() {
    let changes = compare(&sheet(LAZY), &sheet(STRICT), Limit::default());
    let check = |count: Count, a: f64, b: f64, grew: bool| {
        let expect = Changed::Count { count: count.clone(), a, b, grew, may_be_chance: false };
        assert_eq!(find(&changes, "nvme-read-4k", &count), Some(&expect));
    };
    let event = Event::Invalidations;
    check(Count::Instructions, 20894.0, 21613.0, true);
    check(Count::Stage { stage: Stage::Invalidation }, 0.0, 734.0, false);
    check(Count::Stage { stage: Stage::Iova }, 400.0, 385.0, false);
    check(Count::Function { function: "qi_submit_sync".to_owned() }, 0.0, 690.0, false);
    check(Count::Event { event, average: Average::Median }, 0.0, 1.0, true);
    check(Count::Event { event, average: Average::Mean }, 0.004, 1.0, true);
    // Batches leave their median alone, and their mean tells.
    assert_eq!(
        find(&changes, "nvme-read-4k", &Count::Event { event: Event::Doorbells, average: Average::Mean }),
        None
    );
    assert!(grew(&changes));
    assert!(!grew(&compare(&sheet(STRICT), &sheet(LAZY), Limit::default())), "all of it shrank");
}

#[test]
fn growth_within_the_limit_is_shown_but_is_none() {
    let mut b = sheet(LAZY);
    let toll = &mut b.tolls[0];
    toll.instructions.median += 10;
    toll.boots.iter_mut().flat_map(|boot| &mut boot.windows).for_each(|window| *window += 10);
    let limit = |instructions: &str, percent: &str| Limit {
        instructions: instructions.parse().unwrap(),
        instructions_percent: percent.parse().unwrap(),
        ..Limit::default()
    };
    let check = |limit: Limit, expect: bool| {
        let changes = compare(&sheet(LAZY), &b, limit);
        assert_eq!((changes.len(), grew(&changes)), (1, expect), "{limit:?}");
    };
    check(Limit::default(), true);
    check(limit("9.5", "0"), true);
    check(limit("10", "0"), false);
    check(limit("0", "0.1"), false);
    check(limit("0", "0.01"), true);
}

/// The windows of each boot, one after the other, and of all of them together.
fn with_windows(boots: &[&[u64]]) -> TollSheet {
    let mut sheet = sheet(LAZY);
    let toll = &mut sheet.tolls[0];
    let boot = toll.boots[0].clone();
    let one = |windows: &&[u64]| {
        let mut boot = boot.clone();
        boot.windows = windows.to_vec();
        boot
    };
    toll.boots = boots.iter().map(one).collect();
    toll.instructions = Spread::of(boots.concat()).unwrap();
    sheet
}

#[test]
fn the_direction_of_a_change_is_that_of_the_boots() {
    let of = |a: &TollSheet, b: &TollSheet| match find(
        &compare(a, b, Limit::default()),
        "nvme-read-4k",
        &Count::Instructions,
    ) {
        Some(Changed::Count { a, b, grew, may_be_chance, .. }) => Some((*a, *b, *grew, *may_be_chance)),
        _ => None,
    };
    // The median of all windows grows from 20 to 21, and that of each boot shrinks by 9.
    let a = with_windows(&[&[10, 20, 20], &[10, 20, 90], &[30, 30, 30]]);
    let b = with_windows(&[&[11, 11, 21], &[11, 11, 21], &[21, 21, 21]]);
    assert!(b.tolls[0].instructions.median > a.tolls[0].instructions.median);
    let (before, after, grew, may_be_chance) = of(&a, &b).unwrap();
    assert!(after < before && !grew && !may_be_chance, "{before} {after}");
    let (before, after, grew, may_be_chance) = of(&b, &a).unwrap();
    assert!(after > before && grew && !may_be_chance);
    // Boots that disagree leave both directions open.
    let c = with_windows(&[&[10, 10, 10], &[90, 90, 90], &[10, 10, 10]]);
    let d = with_windows(&[&[50, 50, 50], &[10, 10, 10], &[30, 30, 30]]);
    for (one, other) in [(&c, &d), (&d, &c)] {
        let (_, _, grew, may_be_chance) = of(one, other).unwrap();
        assert!(!grew && may_be_chance);
    }
}

#[test]
fn a_tolerance_of_instructions_hides_no_event() {
    let mut b = sheet(LAZY);
    let toll = &mut b.tolls[0];
    let doorbells = &mut toll.events.get_mut(&Event::Doorbells).unwrap().all;
    doorbells.median += 1;
    doorbells.total += u64::from(toll.windows.get());
    let check = |instructions: &str, events: &str, expect: bool| {
        let limit = Limit {
            instructions: instructions.parse().unwrap(),
            instructions_percent: "100".parse().unwrap(),
            events: events.parse().unwrap(),
        };
        assert_eq!(grew(&compare(&sheet(LAZY), &b, limit)), expect, "{limit:?}");
    };
    check("30", "0", true);
    check("30", "0.5", true);
    check("30", "1", false);
}

#[test]
fn a_batch_counts_by_its_ios() {
    let mut b = sheet(LAZY);
    let toll = &mut b.tolls[1];
    // Twice the I/Os with twice of everything: nothing changed.
    toll.ios_per_window = toll.ios_per_window.checked_mul(2_u32.try_into().unwrap()).unwrap();
    toll.instructions.median *= 2;
    toll.boots.iter_mut().flat_map(|boot| &mut boot.windows).for_each(|window| *window *= 2);
    toll.stages.values_mut().for_each(|count| *count *= 2);
    toll.functions.values_mut().for_each(|count| *count *= 2);
    for tally in toll.events.values_mut() {
        (tally.all.median, tally.all.total) = (tally.all.median * 2, tally.all.total * 2);
    }
    let interrupts = b.tolls[1].events.get_mut(&Event::Interrupts).unwrap();
    interrupts.all.median = 1;
    let changes = compare(&sheet(LAZY), &b, Limit::default());
    assert_eq!(changes.len(), 1, "{changes:?}");
    let count = Count::Event { event: Event::Interrupts, average: Average::Median };
    let expect = Changed::Count {
        count: count.clone(),
        a: 1.0 / 16.0,
        b: 1.0 / 32.0,
        grew: false,
        may_be_chance: false,
    };
    assert_eq!(find(&changes, "udp-send-64", &count), Some(&expect));
}

#[test]
fn workloads_of_only_one_sheet_are_reported_without_growth() {
    let (a, mut b) = (sheet(STRICT), sheet(STRICT));
    b.tolls[1].workload = "udp-send-1400".to_owned();
    b.tolls[0].events.remove(&Event::Doorbells);
    b.tolls[0].bytes_per_io = 512;
    let changes = compare(&a, &b, Limit::default());
    let change = |workload: &str, what: Changed| Change { workload: workload.to_owned(), what };
    let expect = [
        change("nvme-read-4k", Changed::BytesPerIo { a: 4096, b: 512 }),
        change(
            "nvme-read-4k",
            Changed::Uncounted { event: Event::Doorbells, only_in: Side::A, mean_per_io: 2.0 },
        ),
        change("udp-send-64", Changed::Workload { only_in: Side::A }),
        change("udp-send-1400", Changed::Workload { only_in: Side::B }),
    ];
    assert_eq!(changes, expect);
    assert!(!grew(&changes));
}

#[test]
fn the_toll_is_the_difference_to_the_untranslated_dma_path() {
    let sheets = [sheet(STRICT), sheet(NONE)];
    let base = untranslated(&sheets[0], &sheets).unwrap();
    assert_eq!(base.dma_path, DmaPath::NoIommu);
    let over = toll_over(&sheets[0].tolls[0], &base.tolls[0]);
    assert_eq!(over.instructions, certain(21613.0 - 18904.0));
    assert_eq!(over.stages[&Stage::TableWrite], certain(940.0));
    assert!(!over.stages.contains_key(&Stage::User), "what is equal is not there");
    assert_eq!(over.events[&Event::Invalidations].median, 1.0);
}

/// A difference that is the same in all boots.
fn certain(mean: f64) -> Estimate {
    Estimate { mean, low: Some(mean), high: Some(mean) }
}

#[test]
fn a_sheet_is_compared_with_its_base_on_the_same_machine_and_kernel() {
    let strict = sheet(STRICT);
    let check = |change: fn(&mut TollSheet), expect: Option<&str>| {
        let mut other = sheet(NONE);
        change(&mut other);
        let among = [other, strict.clone()];
        assert_eq!(untranslated(&strict, &among).map(|base| base.preset.as_str()), expect);
    };
    check(|_| {}, Some("x86-no-iommu"));
    check(|other| other.preset = "x86-no-iommu-ways".to_owned(), None);
    check(|other| other.machine.arch = "arm".to_owned(), None);
    check(|other| other.machine.cpu = "qemu64".to_owned(), None);
    check(|other| other.kernel.release = "6.12.0".to_owned(), None);
    let base = sheet(NONE);
    assert_eq!(untranslated(&base, &[]).map(|base| base.preset.as_str()), Some("x86-no-iommu"));
    let without_base = TollSheet { base: None, ..strict };
    assert_eq!(untranslated(&without_base, &[base]), None);
}
