//! The map of physical addresses in `/proc/iomem`.

use super::{
    problem::{LineProblem, Unreadable},
    range::{PhysRange, parse_hex},
};
use crate::{Cited, Text};

/// One line: who uses a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resource {
    /// The addresses.
    pub range: PhysRange,
    /// How deep it is nested; 0 at the top.
    pub depth: u32,
    /// `System RAM`, `Reserved`, `PCI Bus 0000:00`, the name of a driver …
    pub name: String,
}

impl Resource {
    /// Memory the kernel hands out.
    pub fn is_ram(&self) -> bool {
        self.depth == 0 && self.name == "System RAM"
    }

    /// Memory that firmware or `memmap=` withholds: `reserved` up to 4.x, `Reserved` later.
    pub fn is_reserved(&self) -> bool {
        self.name.eq_ignore_ascii_case("reserved")
    }
}

/// The lines of `/proc/iomem`, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Iomem {
    /// Each with its line.
    pub resources: Vec<Cited<Resource>>,
    /// All addresses read as zero: the reader lacked CAP_SYS_ADMIN (4.6 and later). The names and
    /// their nesting are true, `resources` keeps them with meaningless ranges.
    pub hidden: bool,
}

impl Iomem {
    /// The ranges of RAM, none if the addresses are hidden.
    pub fn ram(&self) -> Vec<Cited<PhysRange>> {
        let shown = self.resources.iter().filter(|r| !self.hidden && r.value.is_ram());
        shown.map(|r| Cited::new(r.value.range, r.at.clone())).collect()
    }

    /// The resources that have an address in `range`, none if the addresses are hidden.
    pub fn overlapping(&self, range: PhysRange) -> impl Iterator<Item = &Cited<Resource>> {
        self.resources.iter().filter(move |r| !self.hidden && r.value.range.overlaps(range))
    }
}

/// Reads `/proc/iomem`.
pub fn parse_iomem(text: &Text) -> (Iomem, Vec<LineProblem>) {
    let mut resources = Vec::new();
    let mut problems = Vec::new();
    for (line, body) in text.lines().filter(|(_, body)| !body.trim().is_empty()) {
        let at = text.cite(line, body);
        match parse_resource(body) {
            Ok(resource) => resources.push(Cited::new(resource, at)),
            Err(what) => problems.push(LineProblem { at, what }),
        }
    }
    let zero = |r: &Cited<Resource>| r.value.range.last() == 0;
    let hidden = !resources.is_empty() && resources.iter().all(zero);
    (Iomem { resources, hidden }, problems)
}

/// Parses a line of `/proc/iomem`.
fn parse_resource(line: &str) -> Result<Resource, Unreadable> {
    let body = line.trim_start_matches(' ');
    let indent = line.len() - body.len();
    let (range, name) = body.split_once(" : ").ok_or(Unreadable::Layout)?;
    let (first, last) = range.split_once('-').ok_or(Unreadable::Layout)?;
    let number = |text: &str| parse_hex(text).ok_or(Unreadable::Number);
    let range = PhysRange::from_first_to_last(number(first)?, number(last)?).ok_or(Unreadable::Range)?;
    let depth = u32::try_from(indent / 2).map_err(|_| Unreadable::Layout)?;
    Ok(Resource { range, depth, name: name.trim_end().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(body: &str) -> (Iomem, Vec<LineProblem>) {
        parse_iomem(&Text::new("proc/iomem", body))
    }

    #[test]
    fn nesting() {
        let (iomem, problems) = parse(
            "00100000-7ffcffff : System RAM\n  27000000-27e01d31 : Kernel code\n\
             b0000000-bfffffff : PCI MMCONFIG 0000 [bus 00-ff]\n  b0000000-bfffffff : Reserved\n    b0000000-bfffffff : pnp 00:04\n",
        );
        assert_eq!(problems, []);
        assert!(!iomem.hidden);
        let depths: Vec<_> = iomem.resources.iter().map(|r| r.value.depth).collect();
        assert_eq!(depths, [0, 1, 0, 1, 2]);
        assert_eq!(iomem.ram().len(), 1);
        assert!(iomem.resources[3].value.is_reserved());
        assert_eq!(iomem.overlapping("b0000000-b0000fff".parse().unwrap()).count(), 3);
    }

    #[test]
    fn hidden_addresses() {
        let (iomem, _) = parse("00000000-00000000 : System RAM\n  00000000-00000000 : Kernel code\n");
        assert!(iomem.hidden);
        assert_eq!(iomem.ram(), []);
        assert_eq!(iomem.overlapping("0-0".parse().unwrap()).count(), 0);
        assert!(!parse("").0.hidden);
    }

    #[test]
    fn hostile_lines() {
        let check = |line: &str, what: Unreadable| {
            assert_eq!(parse(line).1.iter().map(|p| p.what).collect::<Vec<_>>(), [what], "{line}");
        };
        check("System RAM", Unreadable::Layout);
        check("00 : x", Unreadable::Layout);
        check("2-1 : x", Unreadable::Range);
        check("x-1 : x", Unreadable::Number);
        check("10000000000000000-1 : x", Unreadable::Number);
    }
}
