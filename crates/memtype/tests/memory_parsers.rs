//! No text makes a parser of memory types panic.

use memtype::{
    PhysRange, Text, memmap, mtrr, parse_iomem, parse_memtype_list, parse_mtrr, parse_pat_slots, plan::Wish,
    range,
};
use proptest::prelude::*;

/// Lines that the parsers know, to be spoilt.
const LINES: [&str; 12] = [
    "reg00: base=0x00000000 (   0MB), size=32768MB: write-back, count=1",
    "reg00: base=0x0c0000000 ( 3072MB), size= 1024MB, count=1: uncachable",
    "  b0000000-bfffffff : Reserved",
    "write-back @ 0x7ffd0000-0x7ffd1000",
    "PAT: [mem 0x00000000fed00000-0x00000000fed01000] uncached-minus",
    "x86 PAT enabled: cpu 0, old 0x7040600070406, new 0x7010600070106",
    "x86/PAT: Configuration [0-7]: WB  WC  UC- UC  WB  WP  UC- WT  ",
    "MTRR default type: uncachable",
    "ro memmap=80M$256M,1G!4G memmap=exactmap memmap=1M%2M-1+2 memmap=64K#0x100000",
    "0x10000000:80M:uncachable",
    "0x10000000-0x14ffffff",
    "4G+4K",
];

/// A known line with a piece cut out and another put in.
fn damaged_line() -> impl Strategy<Value = String> {
    (0..LINES.len(), any::<prop::sample::Index>(), 0..12_usize, ".{0,6}").prop_map(
        |(line, at, cut, insert)| {
            let line = LINES[line];
            let at = at.index(line.len());
            let after = (at + cut).min(line.len());
            format!("{}{insert}{}", &line[..at], &line[after..])
        },
    )
}

fn read_by_all(body: &str) {
    let text = Text::new("any", body);
    let lines = body.lines().count();
    let (table, problems) = parse_mtrr(&text);
    assert!(table.registers.len() + problems.len() <= lines);
    let (iomem, problems) = parse_iomem(&text);
    assert!(iomem.resources.len() + problems.len() <= lines);
    let (memtypes, problems) = parse_memtype_list(&text);
    assert!(memtypes.len() + problems.len() <= lines);
    let _ = (parse_pat_slots(&text), mtrr::parse_default_type(&text), range::parse_size(body));
    let _ = (body.parse::<PhysRange>(), body.parse::<Wish>());
    for kernel in [(2, 6, 18), (2, 6, 32), (6, 1, 0)] {
        memmap::parse_cmdline(&text, kernel);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_lines_are_parsed_without_a_panic(lines in proptest::collection::vec(damaged_line(), 1..4)) {
        read_by_all(&lines.join("\n"));
    }

    #[test]
    fn any_text_is_parsed_without_a_panic(body in "(?s).{0,80}") {
        read_by_all(&body);
    }
}
