//! The page attribute table and the ranges Linux tracks for it.
//!
//! Sources: arch/x86/mm/pat.c of Linux 2.6.32 to 4.14 and arch/x86/mm/pat/memtype.c later.

use super::{
    memory_type::MemoryType,
    problem::{LineProblem, Unreadable},
    range::{PhysRange, parse_hex},
};
use crate::{Cited, Text};

/// A mapping that Linux tracks, so that no other may contradict it. RAM is tracked elsewhere, in its
/// page structures, and never listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memtype {
    /// Addresses mapped.
    pub range: PhysRange,
    /// Type in the page table.
    pub kind: MemoryType,
}

/// Reads `/sys/kernel/debug/x86/pat_memtype_list`, in the layout up to 4.14 (`TYPE @ 0xS-0xE`) or the
/// later one (`PAT: [mem 0xS-0xE] TYPE`); the end is exclusive in both.
pub fn parse_memtype_list(text: &Text) -> (Vec<Cited<Memtype>>, Vec<LineProblem>) {
    let mut list = Vec::new();
    let mut problems = Vec::new();
    for (line, body) in text.lines() {
        let body = body.trim();
        if body.is_empty() || body == "PAT memtype list:" {
            continue;
        }
        let at = text.cite(line, body);
        match parse_memtype(body) {
            Ok(memtype) => list.push(Cited::new(memtype, at)),
            Err(what) => problems.push(LineProblem { at, what }),
        }
    }
    (list, problems)
}

/// Parses a line of `/sys/kernel/debug/x86/pat_memtype_list`.
fn parse_memtype(line: &str) -> Result<Memtype, Unreadable> {
    let new_layout = || line.strip_prefix("PAT: [mem ")?.split_once(']');
    let old_layout = || line.split_once('@').map(|(kind, range)| (range, kind));
    let (range, kind) = new_layout().or_else(old_layout).ok_or(Unreadable::Layout)?;
    let (start, end) = range.trim().split_once('-').ok_or(Unreadable::Layout)?;
    let number = |text: &str| parse_hex(text).ok_or(Unreadable::Number);
    let (start, end) = (number(start)?, number(end)?);
    let kind = kind.trim();
    let kind =
        MemoryType::ALL.into_iter().find(|k| k.memtype_name() == kind).ok_or(Unreadable::MemoryType)?;
    let last = end.checked_sub(1).ok_or(Unreadable::Range)?;
    let range = PhysRange::from_first_to_last(start, last).ok_or(Unreadable::Range)?;
    Ok(Memtype { range, kind })
}

/// The eight types a page table entry can choose from, by PAT·4 + PCD·2 + PWT.
pub type PatSlots = [MemoryType; 8];

/// Finds what the kernel put into the PAT register: `x86 PAT enabled: cpu 0, old 0x…, new 0x…` (up to
/// 3.10) or `x86/PAT: Configuration [0-7]: WB  WC  UC- UC …`.
pub fn parse_pat_slots(dmesg: &Text) -> Option<Cited<PatSlots>> {
    dmesg.lines().find_map(|(line, body)| {
        let slots = parse_msr_line(body).or_else(|| parse_words_line(body))?;
        Some(Cited::new(slots, dmesg.cite(line, body)))
    })
}

/// Parses `x86 PAT enabled: cpu 0, old 0x..., new 0x...`.
fn parse_msr_line(line: &str) -> Option<PatSlots> {
    let (_, rest) = line.split_once("x86 PAT enabled: cpu ")?;
    let (_, new) = rest.split_once("new ")?;
    let bytes = parse_hex(new.trim())?.to_le_bytes();
    collect_slots(bytes.into_iter().map(MemoryType::from_pat_encoding))
}

/// Parses `x86/PAT: Configuration [0-7]: WB  WC  UC- UC ...`.
fn parse_words_line(line: &str) -> Option<PatSlots> {
    let (_, words) = line.split_once("x86/PAT: Configuration [0-7]: ")?;
    let kind = |word: &str| MemoryType::ALL.into_iter().find(|k| k.abbreviation() == word);
    collect_slots(words.split_whitespace().map(kind))
}

/// The eight slots, if all are known.
fn collect_slots(kinds: impl Iterator<Item = Option<MemoryType>>) -> Option<PatSlots> {
    kinds.collect::<Option<Vec<_>>>()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use MemoryType::{
        Uncacheable as Uc, UncachedMinus as UcMinus, WriteBack as Wb, WriteCombining as Wc,
        WriteProtect as Wp, WriteThrough as Wt,
    };

    #[test]
    fn both_layouts_of_the_list() {
        let body = "PAT memtype list:\n\
                    write-back @ 0x7ffd0000-0x7ffd1000\n\
                    PAT: [mem 0x00000000fed00000-0x00000000fed01000] uncached-minus\n\
                    PAT: [mem 0x0-0x0] write-back\n\
                    uncached @ 0x1000\n\
                    odd @ 0x1000-0x2000\n";
        let (list, problems) = parse_memtype_list(&Text::new("pat_memtype_list", body));
        let range = |text: &str| text.parse().unwrap();
        let values: Vec<_> = list.iter().map(|m| m.value).collect();
        assert_eq!(
            values,
            [
                Memtype { range: range("7ffd0000-7ffd0fff"), kind: Wb },
                Memtype { range: range("fed00000-fed00fff"), kind: UcMinus },
            ]
        );
        let problems: Vec<_> = problems.iter().map(|p| (p.at.line, p.what)).collect();
        assert_eq!(
            problems,
            [(Some(4), Unreadable::Range), (Some(5), Unreadable::Layout), (Some(6), Unreadable::MemoryType)]
        );
    }

    fn check(line: &str, expect: Option<PatSlots>) {
        let slots = parse_pat_slots(&Text::new("dmesg", line)).map(|s| s.value);
        assert_eq!(slots, expect, "{line}");
    }

    #[test]
    fn boot_lines() {
        check(
            "x86 PAT enabled: cpu 0, old 0x7040600070406, new 0x7010600070106",
            Some([Wb, Wc, UcMinus, Uc, Wb, Wc, UcMinus, Uc]),
        );
        check(
            "[    0.0] x86/PAT: Configuration [0-7]: WB  WC  UC- UC  WB  WP  UC- WT  ",
            Some([Wb, Wc, UcMinus, Uc, Wb, Wp, UcMinus, Wt]),
        );
        check("x86/PAT: Configuration [0-7]: WB  WC", None);
        check("x86 PAT enabled: cpu 0, old 0x0, new 0x0202020202020202", None);
        check("x86/PAT: MTRRs disabled, skipping PAT initialization too.", None);
    }
}
