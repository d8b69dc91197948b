//! The dumps of pciutils' own tests, read by the library and by lspci: every capability and every register must agree.
//!
//! Three ways lead to the library's answer: the bytes of the dump, what the lspci at hand prints of them, and what the lspci of its
//! day printed into the dump. What lspci prints is read a second time here, by words and where they stand. `pciutils/fetch.sh` gets
//! the dumps; without them the tests say that they did not run.

#[path = "pciutils/fact.rs"]
mod fact;
#[path = "pciutils/mod.rs"]
mod pciutils;
#[path = "pciutils/printed.rs"]
mod printed;
#[path = "../../../tests/skip.rs"]
mod skip;
#[path = "pciutils/title.rs"]
mod title;

use fact::{CAPABILITIES, FACTS, Fact};
use pci::Text;
use pci::lspci::{self, Record};
use pci::{ConfigSpace, Presence};
use pciutils::{Dump, Pciutils};
use printed::Printed;
use skip::skip;
use std::collections::BTreeSet;

/// Size of configuration space without extended capabilities.
const CONVENTIONAL_BYTES: usize = 256;

/// One function, by lspci and by the library.
struct Case {
    /// The dump and the address.
    name: String,
    /// What the lspci at hand prints of the dump.
    printed: Printed,
    /// The dump's bytes.
    bytes: Record,
    /// What the lspci at hand prints, read by the library.
    text: Record,
    /// What the lspci of its day printed into the dump, read by the library and a second time; some dumps hold bytes alone.
    old: (Record, Printed),
}

/// All functions of all dumps.
fn cases(pciutils: &Pciutils) -> Vec<Case> {
    pciutils.dumps().iter().flat_map(|dump| cases_of(pciutils, dump)).collect()
}

fn cases_of(pciutils: &Pciutils, dump: &Dump) -> Vec<Case> {
    let text = pciutils.print(dump, &["-vvv"]);
    let only = |rows: bool| -> String {
        let lines = dump.text.lines().filter(|line| is_heading(line) || is_row(line) == rows);
        lines.map(|line| format!("{line}\n")).collect()
    };
    let (bytes, old) = (only(true), only(false));
    let parse = |text: &str| lspci::parse(&Text::new(&dump.name, text));
    let (bytes, of_text, of_old) = (parse(&bytes), parse(&text), parse(&old));
    let printed_old = printed::read(&old);
    let printed = printed::read(&text);
    assert_eq!(printed.len(), dump.text.lines().filter(|line| is_heading(line)).count(), "{}", dump.name);
    let make = |printed: Printed| {
        let find = |records: &[Record]| {
            let record = records.iter().find(|record| record.bdf.to_string() == printed.address);
            record.unwrap_or_else(|| panic!("{} {}: no record", dump.name, printed.address)).clone()
        };
        let old = printed_old.iter().find(|old| old.address == printed.address);
        Case {
            name: format!("{} {}", dump.name, printed.address),
            bytes: find(&bytes),
            text: find(&of_text),
            old: (find(&of_old), old.expect("the same function").clone()),
            printed,
        }
    };
    printed.into_iter().map(make).collect()
}

/// `00: 86 80 ...`.
fn is_row(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(offset, _)| offset.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// `00:1f.0 ISA bridge: ...`.
fn is_heading(line: &str) -> bool {
    let address = line.split(' ').next().unwrap_or_default();
    line.starts_with(|first: char| first.is_ascii_hexdigit()) && address.contains('.')
}

/// How many answers were compared, and which differ.
#[derive(Default)]
struct Tally {
    compared: usize,
    differ: Vec<String>,
}

impl Tally {
    fn compare(&mut self, what: &str, agree: bool, difference: impl FnOnce() -> String) {
        self.compared += 1;
        if !agree {
            self.differ.push(format!("{what}: {}", difference()));
        }
    }

    fn end(self, what: &str) {
        println!("{} {what} compared", self.compared);
        assert!(self.differ.is_empty(), "{} differ:\n{}", self.differ.len(), self.differ.join("\n"));
    }
}

/// The functions, if pciutils is there.
fn all() -> Vec<Case> {
    let Some(pciutils) = Pciutils::find() else {
        skip("no sources of pciutils; crates/pci/tests/pciutils/fetch.sh gets them");
        return Vec::new();
    };
    let cases = cases(&pciutils);
    println!("{}, {} functions", pciutils.version(), cases.len());
    cases
}

#[test]
fn every_capability_of_the_lists() {
    let mut tally = Tally::default();
    for Case { name, printed, bytes, .. } in all() {
        let config = ConfigSpace::new(&bytes.config);
        let (conventional, extended) = (config.capabilities(), config.extended_capabilities());
        let ours: Vec<_> = conventional.entries.iter().chain(&extended.entries).collect();
        let offsets: Vec<u16> = ours.iter().map(|entry| entry.offset).collect();
        let theirs: Vec<u16> = printed.capabilities.iter().map(|capability| capability.offset).collect();
        assert_eq!(offsets, theirs, "{name}");
        for (entry, capability) in ours.into_iter().zip(&printed.capabilities) {
            let agree = title::is_title_of(&capability.title, entry.id, entry.offset >= 0x100);
            tally.compare(&name, agree, || format!("ID {:#x} is `{}`", entry.id, capability.title));
        }
    }
    tally.end("entries of lists");
}

/// What a capability that lspci does not print must be, by the bytes and by the text.
fn missing(case: &Case, extended: bool) -> (Presence<()>, Presence<()>) {
    let has_extended_space = case.printed.find("Express").is_some();
    let none = case.printed.capabilities.iter().all(|capability| capability.offset < 0x100);
    if !extended || !has_extended_space || !none {
        return (Presence::Absent, Presence::Absent);
    }
    // Of a dump that ends at 100h nothing is known beyond. Of an empty list lspci prints as little as of one out of reach.
    let short = case.bytes.config.len() <= CONVENTIONAL_BYTES;
    (if short { Presence::Unknown } else { Presence::Absent }, Presence::Unknown)
}

#[test]
fn every_capability_that_is_decoded() {
    let mut tally = Tally::default();
    for case in all() {
        for (title, extended, known) in CAPABILITIES {
            let present = case.printed.find(title).is_some();
            let missing = missing(&case, *extended);
            let expect = if present { (Presence::Present(()), Presence::Present(())) } else { missing };
            let found = (known(&case.bytes.capabilities), known(&case.text.capabilities));
            let what = format!("{} {title}", case.name);
            tally.compare(&what, found.0 == expect.0, || format!("by bytes {:?}", found.0));
            tally.compare(&what, found.1 == expect.1, || format!("by text {:?}", found.1));
            // The lspci of its day knew fewer titles, and may have read more than it dumped.
            let old = known(&case.old.0.capabilities);
            let short = case.bytes.config.len() <= CONVENTIONAL_BYTES;
            let agree = old.is_unknown() || old == expect.0 || (short && *extended);
            tally.compare(&what, agree, || format!("by the old text {old:?}"));
        }
    }
    tally.end("capabilities");
}

/// What lspci prints of a fact. `x0` and `unknown` are registers that name no width and no speed.
fn word<'a>(printed: &'a Printed, fact: &Fact) -> Option<&'a str> {
    let capability = printed.find(fact.capability)?;
    let word = match fact.register {
        "" => capability.word_of_title(fact.label),
        register => capability.word(register, fact.label),
    };
    let is_value = |word: &&str| !["x0", "unknown", "Unknown"].contains(word);
    // Of a range of speeds, `2.5-16GT/s`, the highest is read.
    let highest = |word: &'a str| if word.ends_with("GT/s") { word.rsplit('-').next() } else { Some(word) };
    word.filter(is_value).and_then(highest)
}

#[test]
fn every_register() {
    let mut tally = Tally::default();
    let mut seen = BTreeSet::new();
    let cases = all();
    for case in &cases {
        for (number, fact) in FACTS.iter().enumerate() {
            let what = format!("{} {} {} {}", case.name, fact.capability, fact.register, fact.label);
            let theirs = word(&case.printed, fact);
            let [text, bytes, old] =
                [&case.text, &case.bytes, &case.old.0].map(|record| (fact.ours)(&record.capabilities));
            if theirs.is_none() && text.is_none() && bytes.is_none() && old.is_none() {
                continue;
            }
            seen.insert(number);
            tally.compare(&what, text.as_deref() == theirs, || format!("by text {text:?}, lspci {theirs:?}"));
            // lspci prints Link Control 2 of no endpoint but the first, device 0 and function 0.
            let capability = case.printed.find(fact.capability);
            let left_out = capability.is_none_or(|it| !fact.register.is_empty() && !it.has(fact.register));
            let agree = bytes.as_deref() == theirs || left_out;
            tally.compare(&what, agree, || format!("by bytes {bytes:?}, lspci {theirs:?}"));
            let agree = match &old {
                Some(old) => Some(old.as_str()) == theirs || left_out,
                // It printed registers also where they mean nothing.
                None => theirs.is_none() || word(&case.old.1, fact).is_none(),
            };
            tally.compare(&what, agree, || format!("by the old text {old:?}, lspci {theirs:?}"));
        }
    }
    tally.end("values of registers");
    let is_unseen = |(number, _): &(usize, &Fact)| !cases.is_empty() && !seen.contains(number);
    let unseen: Vec<_> = FACTS.iter().enumerate().filter(is_unseen).map(|(_, fact)| fact.label).collect();
    assert_eq!(unseen, [""; 0], "no dump shows these");
}
