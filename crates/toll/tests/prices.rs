//! Price lists: what is written comes back, what can't be meant is named, and sums are those done by hand.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod support;

use proptest::collection::btree_map;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use support::{LAZY, STRICT, sheet};
use toll::{Count, Event, Evidence, Given, PriceList, Toll};

const MINE: &str = r#"
platform = "a machine made up"
arch = "x86"
applies_to = "nothing else"
instruction_ns = { value = 0.5, evidence = { kind = "assumed", why = "made up" } }
event_ns.invalidations = { value = 700, evidence = { kind = "published", source = "nobody, 2000" } }
event_ns.string-iterations = { value = 0, evidence = { kind = "measured", how = "not at all", on = "nothing" } }
"#;

fn mine() -> PriceList {
    PriceList::read(MINE, "mine.toml").unwrap()
}

fn means(toll: &Toll) -> BTreeMap<Event, f64> {
    toll.events.iter().map(|(event, tally)| (*event, toll.mean_per_io(tally.all.total))).collect()
}

#[test]
fn there_is_a_list_for_each_architecture_of_our_sheets() {
    let archs: Vec<&str> = PriceList::builtin().iter().map(|list| list.arch.as_str()).collect();
    assert_eq!(archs, ["arm", "ppc", "x86"]);
    for list in PriceList::builtin() {
        assert!(list.instruction_ns.value > 0.0 && !list.applies_to.is_empty(), "{}", list.platform);
    }
}

#[test]
fn a_read_of_a_sheet_priced_by_hand() {
    let (strict, lazy) = (sheet(STRICT), sheet(LAZY));
    let read = strict.toll("nvme-read-4k").unwrap();
    assert_eq!((read.instructions.median, read.windows.get(), read.ios_per_window.get()), (21_613, 2000, 1));
    assert_eq!(read.events[&Event::Invalidations].all.total, 2000);
    let expense = mine().price(read.per_io(read.instructions.median), &means(read));
    // 21,613 instructions of 0.5 ns and an invalidation of 700.
    assert_eq!(expense.ns, 10_806.5 + 700.0);
    let of: Vec<(String, f64)> = expense.charges.iter().map(|one| (one.count.to_string(), one.ns)).collect();
    assert_eq!(of, [("instructions".to_owned(), 10_806.5), ("invalidations (mean)".to_owned(), 700.0)]);
    assert_eq!(
        expense.charges[1].price_ns.evidence,
        Evidence::Published { source: "nobody, 2000".to_owned() }
    );
    // Both were counted, and this list knows no price of them.
    assert_eq!(expense.unpriced[&Event::TableEntries], 2.0);
    assert!(!expense.unpriced.contains_key(&Event::Hypercalls), "none happened");
    let other = lazy.toll("nvme-read-4k").unwrap();
    let rarely = mine().price(other.per_io(other.instructions.median), &means(other));
    let difference: BTreeMap<Event, f64> =
        means(read).into_iter().map(|(event, amount)| (event, amount - means(other)[&event])).collect();
    let instructions = read.instructions.median as f64 - other.instructions.median as f64;
    let saved = mine().price(instructions, &difference);
    assert!((saved.ns - (expense.ns - rarely.ns)).abs() < 1e-6, "the price of a difference is that of both");
}

/// A list of any values that a list may have.
fn any_list() -> impl Strategy<Value = PriceList> {
    let words = "[ -~]{0,8}[a-zµ]";
    let evidence = (0_usize..4, words).prop_map(|(kind, words)| match kind {
        0 => Evidence::Measured { how: words.clone(), on: words },
        1 => Evidence::Published { source: words },
        2 => Evidence::Calibrated { against: words },
        _ => Evidence::Assumed { why: words },
    });
    let given = (0.0..1e9_f64, evidence).prop_map(|(value, evidence)| Given { value, evidence });
    let events = btree_map(prop::sample::select(Event::ALL.to_vec()), given.clone(), 0..9);
    (words, words, words, given, events).prop_map(|(platform, arch, applies_to, instruction_ns, event_ns)| {
        PriceList { platform, arch, applies_to, instruction_ns, event_ns }
    })
}

proptest! {
    #[test]
    fn written_values_are_read_back(list in any_list()) {
        let text = toml::to_string(&list).unwrap();
        prop_assert_eq!(PriceList::read(&text, "made.toml"), Ok(list));
    }

    #[test]
    fn no_text_is_a_panic(text in "\\PC{0,200}") {
        prop_assert!(PriceList::read(&text, "noise.toml").unwrap_err().to_string().starts_with("noise.toml:"));
    }

    #[test]
    fn every_count_is_a_charge_or_said_to_have_no_price(
        list in any_list(),
        instructions in -1e6..1e6_f64,
        events in btree_map(prop::sample::select(Event::ALL.to_vec()), -1e3..1e3_f64, 0..9),
    ) {
        let expense = list.price(instructions, &events);
        let sum: f64 = expense.charges.iter().map(|charge| charge.amount * charge.price_ns.value).sum();
        prop_assert!((expense.ns - sum).abs() <= 1e-9 * (1.0 + expense.ns.abs()) && expense.ns.is_finite());
        let charged = expense.charges.iter().filter_map(|charge| charge.count.event());
        let told: Vec<Event> = charged.chain(expense.unpriced.keys().copied()).collect();
        let happened = events.iter().filter(|(_, amount)| **amount != 0.0).map(|(event, _)| *event);
        prop_assert_eq!(told.iter().copied().collect::<BTreeSet<_>>(), happened.collect::<BTreeSet<_>>());
        prop_assert_eq!(told.len(), told.iter().collect::<BTreeSet<_>>().len(), "none of them twice");
        prop_assert_eq!(&expense.charges[0].count, &Count::Instructions);
    }
}

/// The words with which a text is refused, causes last.
fn refused(text: &str) -> String {
    let error = PriceList::read(text, "prices/x.toml").unwrap_err();
    let cause = error.source().map(ToString::to_string).unwrap_or_default();
    format!("{error} {cause}")
}

#[test]
fn invalid_prices_are_errors_with_file_field_and_expectation() {
    let check = |from: &str, to: &str, expect: &str| {
        assert!(MINE.contains(from), "{from}");
        let words = refused(&MINE.replacen(from, to, 1));
        assert!(words.contains(expect) && words.starts_with("prices/x.toml:"), "{words}");
    };
    let range = "expected a number of nanoseconds from 0 to 1000000000";
    let of = |line: u32, field: &str, value: &str| {
        format!("prices/x.toml:{line}: {field}.value is {value}; {range}")
    };
    check("value = 0.5", "value = nan", &of(5, "instruction_ns", "NaN"));
    check("value = 0.5", "value = -0.5", &of(5, "instruction_ns", "-0.5"));
    check("value = 700", "value = inf", &of(6, "event_ns.invalidations", "inf"));
    check("value = 700", "value = 1000000001", &of(6, "event_ns.invalidations", "1000000001"));
    check("value = 0.5, ", "", "missing field `value`");
    check("value = 0.5", "value = \"0.5\"", "invalid type: string");
    check("invalidations", "invalidation", "unknown variant `invalidation`");
    check("applies_to", "applies", "unknown field `applies`");
    check("value = 0.5", "value = 0.5, unit = \"ns\"", "unknown field `unit`");
    check(", evidence = { kind = \"assumed\", why = \"made up\" }", "", "missing field `evidence`");
    check(
        "why = \"made up\"",
        "why = \" \"",
        "instruction_ns.evidence.why is ` `; expected a text that is not empty",
    );
    check("on = \"nothing\"", "on = \"\"", "event_ns.string-iterations.evidence.on is ``");
    check("arch = \"x86\"", "arch = \"\"", "arch is ``; expected a text that is not empty");
    check("kind = \"assumed\"", "kind = \"guessed\"", "unknown variant `guessed`");
    assert!(refused("platform").starts_with("prices/x.toml:1: "));
}
