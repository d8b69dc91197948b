//! Names of vendors, devices, cards and classes.
//!
//! Two tables know them: the one built into this program (`data/pci/pci.ids`), and the `pci.ids` of the host, if somebody
//! read it. The newer one is asked first, and the other only for what that does not know. The 40,000 lines of a table are
//! passed over once, and only what was asked for is kept.

use super::class::ClassCode;
use super::header::SubsystemId;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The PCI ID Repository's table, as of the date in its head; `data/pci/refresh` fetches a newer one.
const BUILT_IN: &str = include_str!("../../../../data/pci/pci.ids");

/// The classes of the built-in table, which stand at its end.
static CLASSES: LazyLock<&str> = LazyLock::new(|| {
    let start = BUILT_IN.find("\nC 00  ").map_or(BUILT_IN.len(), |end_of_line| end_of_line + 1);
    BUILT_IN.get(start..).unwrap_or_default()
});

/// The date stands within this many lines of a table's start.
const DATE_LINES_MAX: usize = 40;

/// What one function shows of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ids {
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Subsystem IDs.
    pub subsystem: Option<SubsystemId>,
    /// Class Code.
    pub class: Option<ClassCode>,
}

/// Something that has a name in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Vendor(u16),
    Device(u16, u16),
    Subsystem(u16, u16, u16, u16),
    Class(u8),
    SubClass(u8, u8),
    Interface(u8, u8, u8),
}

/// The names of the functions that were asked for.
#[derive(Debug, Clone, Default)]
pub struct Names {
    found: BTreeMap<Key, String>,
}

impl Names {
    /// Looks up everything that `wanted` shows, in our table and in the text of the host's `pci.ids`.
    pub fn lookup(wanted: &[Ids], host_table: Option<&str>) -> Self {
        let mut found: BTreeMap<Key, Option<String>> =
            wanted.iter().flat_map(keys).map(|key| (key, None)).collect();
        let host_is_newer = host_table.and_then(date) > date(BUILT_IN);
        let tables = match host_table {
            Some(host) if host_is_newer => [host, BUILT_IN],
            Some(host) => [BUILT_IN, host],
            None => [BUILT_IN, ""],
        };
        for table in tables {
            if found.values().any(Option::is_none) {
                pick(table, &mut found);
            }
        }
        Self { found: found.into_iter().filter_map(|(key, name)| Some((key, name?))).collect() }
    }

    /// Name of a vendor.
    pub fn vendor(&self, vendor: u16) -> Option<&str> {
        self.get(Key::Vendor(vendor))
    }

    /// Name of a device.
    pub fn device(&self, vendor: u16, device: u16) -> Option<&str> {
        self.get(Key::Device(vendor, device))
    }

    /// Name of the card that a device sits on.
    pub fn subsystem(&self, vendor: u16, device: u16, card: SubsystemId) -> Option<&str> {
        self.get(Key::Subsystem(vendor, device, card.vendor, card.device))
    }

    /// Name of a class: its sub-class, or at least its base class.
    pub fn class(&self, class: ClassCode) -> Option<&str> {
        self.get(Key::SubClass(class.base, class.sub)).or_else(|| self.get(Key::Class(class.base)))
    }

    /// Name of a class's programming interface.
    pub fn interface(&self, class: ClassCode) -> Option<&str> {
        self.get(Key::Interface(class.base, class.sub, class.interface?))
    }

    fn get(&self, key: Key) -> Option<&str> {
        self.found.get(&key).map(String::as_str)
    }
}

/// The keys of all names of a function: vendor, device, card and class.
fn keys(ids: &Ids) -> Vec<Key> {
    let mut keys = vec![Key::Vendor(ids.vendor), Key::Device(ids.vendor, ids.device)];
    if let Some(card) = ids.subsystem {
        keys.push(Key::Vendor(card.vendor));
        keys.push(Key::Subsystem(ids.vendor, ids.device, card.vendor, card.device));
    }
    if let Some(class) = ids.class {
        keys.extend([Key::Class(class.base), Key::SubClass(class.base, class.sub)]);
        keys.extend(class.interface.map(|interface| Key::Interface(class.base, class.sub, interface)));
    }
    keys
}

/// The class with this name, as lspci prints it without `-n`. The spelling of capitals changed over the years.
pub fn class_named(name: &str) -> Option<ClassCode> {
    let mut base = None;
    lines(&CLASSES).find_map(|line| {
        if let Some((code, _)) = line.strip_prefix("C ").and_then(|class| class.split_once("  ")) {
            base = hex8(code);
        }
        let (code, sub_class) = line.strip_prefix('\t')?.split_once("  ")?;
        let class = ClassCode { base: base?, sub: hex8(code)?, interface: None };
        sub_class.eq_ignore_ascii_case(name).then_some(class)
    })
}

/// The date of a table, as `2024-01-08`, from its `Version: 2024.01.08` or `Date: 2024-01-08 03:15:02`.
fn date(table: &str) -> Option<String> {
    table.lines().take(DATE_LINES_MAX).find_map(|line| {
        let (field, value) = line.strip_prefix('#')?.split_once(':')?;
        let day = value.split_whitespace().next()?.replace('.', "-");
        let plain = day.len() == 10 && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        (matches!(field.trim(), "Version" | "Date") && plain).then_some(day)
    })
}

/// What the indented lines of a table belong to.
#[derive(Debug, Clone, Copy)]
enum Parent {
    Vendor(u16, u16),
    Class(u8, u8),
    /// A section of the table that nobody asks for, or a vendor without functions here.
    Unwanted,
}

/// Fills in what a `pci.ids` knows of the keys that have no name yet.
///
/// A table has 40,000 lines, and a host shows some ten vendors and classes: their headings are searched
/// for, and no other line is looked at.
fn pick(table: &str, found: &mut BTreeMap<Key, Option<String>>) {
    // Tables are sorted, and so are the keys: each search goes on where the one before ended.
    let headings: Vec<String> = found.keys().filter_map(heading).collect();
    let mut from = 0;
    for heading in headings {
        let Some(start) = find_from(table, &heading, from) else { continue };
        from = start;
        pick_section(table.get(start..).unwrap_or_default(), found);
    }
}

/// Where a section begins, searched for from here on and then from the table's start.
fn find_from(table: &str, heading: &str, from: usize) -> Option<usize> {
    let find = |text: &str| memchr::memmem::find(text.as_bytes(), heading.as_bytes());
    let later = find(table.get(from..)?).map(|end_of_line| from + end_of_line + 1);
    let first = || table.starts_with(heading.trim_start()).then_some(0);
    later.or_else(first).or_else(|| find(table).map(|end_of_line| end_of_line + 1))
}

/// Lines, found faster than `str::lines` does.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = memchr::memchr(b'\n', text.as_bytes());
        rest = end.and_then(|end| text.get(end + 1..));
        Some(text.get(..end.unwrap_or(text.len())).unwrap_or_default().trim_end_matches('\r'))
    })
}

/// How the section begins that is about a vendor or a class, after the end of the line before it.
fn heading(key: &Key) -> Option<String> {
    match key {
        Key::Vendor(vendor) => Some(format!("\n{vendor:04x}  ")),
        Key::Class(base) => Some(format!("\nC {base:02x}  ")),
        Key::Device(..) | Key::Subsystem(..) | Key::SubClass(..) | Key::Interface(..) => None,
    }
}

/// Fills in the names that are wanted from a section: a vendor or a class with its entries.
fn pick_section(section: &str, found: &mut BTreeMap<Key, Option<String>>) {
    let mut parent = Parent::Unwanted;
    let mut is_device_wanted = false;
    for (number, line) in lines(section).enumerate() {
        let (first, second) = (line.as_bytes().first(), line.as_bytes().get(1));
        match (first, second) {
            // Cards of a device that is not here: most lines of a large vendor.
            (Some(b'\t'), Some(b'\t')) if !is_device_wanted => continue,
            (None | Some(b'\t' | b'#'), _) => {}
            _ if number > 0 => return,
            _ => {}
        }
        let Some((key, name)) = read_line(line, &mut parent, found) else { continue };
        if second != Some(&b'\t') {
            is_device_wanted = found.contains_key(&key);
        }
        if let Some(slot @ None) = found.get_mut(&key) {
            *slot = Some(name.trim().to_owned());
        }
    }
}

/// The key and the name on a line, if they may be wanted. `parent` is the entry that the line belongs to.
fn read_line<'a>(
    line: &'a str,
    parent: &mut Parent,
    wanted: &BTreeMap<Key, Option<String>>,
) -> Option<(Key, &'a str)> {
    if let Some(rest) = line.strip_prefix("\t\t") {
        return parse_card_or_interface(rest, *parent);
    }
    if let Some(rest) = line.strip_prefix('\t') {
        return parse_device_or_sub_class(rest, parent);
    }
    if line.is_empty() || line.starts_with('#') {
        return None;
    }
    *parent = Parent::Unwanted;
    if let Some(rest) = line.strip_prefix("C ") {
        let (base, name) = rest.split_once("  ")?;
        let base = hex8(base)?;
        *parent = Parent::Class(base, 0);
        return Some((Key::Class(base), name));
    }
    let (vendor, name) = line.split_once("  ")?;
    let key = Key::Vendor(hex16(vendor)?);
    if let (Key::Vendor(vendor), true) = (key, wanted.contains_key(&key)) {
        *parent = Parent::Vendor(vendor, 0);
    }
    Some((key, name))
}

/// The key and the name of a device or sub-class, from a line with one tabulator.
fn parse_device_or_sub_class<'a>(rest: &'a str, parent: &mut Parent) -> Option<(Key, &'a str)> {
    match parent {
        Parent::Unwanted => None,
        Parent::Vendor(vendor, device) => {
            let (id, name) = rest.split_once("  ")?;
            *device = hex16(id)?;
            Some((Key::Device(*vendor, *device), name))
        }
        Parent::Class(base, sub) => {
            let (id, name) = rest.split_once("  ")?;
            *sub = hex8(id)?;
            Some((Key::SubClass(*base, *sub), name))
        }
    }
}

/// The key and the name of a card or programming interface, from a line with two tabulators.
fn parse_card_or_interface(rest: &str, parent: Parent) -> Option<(Key, &str)> {
    match parent {
        Parent::Unwanted => None,
        Parent::Vendor(vendor, device) => {
            let (card, name) = rest.split_once("  ")?;
            let (card_vendor, card_device) = card.split_once(' ')?;
            Some((Key::Subsystem(vendor, device, hex16(card_vendor)?, hex16(card_device)?), name))
        }
        Parent::Class(base, sub) => {
            let (interface, name) = rest.split_once("  ")?;
            Some((Key::Interface(base, sub, hex8(interface)?), name))
        }
    }
}

/// Parses four hexadecimal digits.
fn hex16(digits: &str) -> Option<u16> {
    let plain = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u16::from_str_radix(digits, 16).ok()).flatten()
}

/// Parses two hexadecimal digits.
fn hex8(digits: &str) -> Option<u8> {
    let plain = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CONNECTX: Ids = Ids {
        vendor: 0x15b3,
        device: 0x1017,
        subsystem: Some(SubsystemId { vendor: 0x15b3, device: 0x0007 }),
        class: Some(ClassCode { base: 2, sub: 0, interface: Some(0) }),
    };
    const NOBODY: Ids = Ids { vendor: 0x0bad, device: 0xcafe, subsystem: None, class: None };

    fn table(date: &str) -> String {
        format!(
            "#\n#\tVersion: {date}\n#\n\n\
             0bad  Nobody  Inc\n\tcafe  Invented adapter\n\t\t15b3 0007  Other card\n\
             15b3  New name\n\t1017  Newer adapter\n\t\t15b3 0007  Newer card\n\
             C 02  Network controller\n\t00  Newer Ethernet\n"
        )
    }

    fn check(table: Option<&str>, device: &str, nobody: Option<&str>) {
        let names = Names::lookup(&[CONNECTX, NOBODY], table);
        assert_eq!(names.device(0x15b3, 0x1017), Some(device));
        assert_eq!(names.device(0x0bad, 0xcafe), nobody);
    }

    #[test]
    fn the_newer_name_table_is_queried() {
        let ours = "MT27800 Family [ConnectX-5]";
        check(None, ours, None);
        check(Some(&table("2017.03.05")), ours, Some("Invented adapter"));
        check(Some(&table("2031.01.02")), "Newer adapter", Some("Invented adapter"));
        check(Some(&table("of no date")), ours, Some("Invented adapter"));
        check(Some(""), ours, None);
    }

    #[test]
    fn all_levels() {
        let names = Names::lookup(&[CONNECTX, NOBODY], Some(&table("2031.01.02")));
        let card = SubsystemId { vendor: 0x15b3, device: 0x0007 };
        let class = ClassCode { base: 2, sub: 0, interface: Some(0) };
        assert_eq!(names.vendor(0x15b3), Some("New name"));
        assert_eq!(names.vendor(0x0bad), Some("Nobody  Inc"));
        assert_eq!(names.subsystem(0x15b3, 0x1017, card), Some("Newer card"));
        assert_eq!(names.class(class), Some("Newer Ethernet"));
        let nvme = Ids { class: ClassCode::parse("0x010802"), ..NOBODY };
        let ours = Names::lookup(&[nvme], None);
        assert_eq!(ours.class(nvme.class.unwrap()), Some("Non-Volatile memory controller"));
        assert_eq!(ours.interface(nvme.class.unwrap()), Some("NVM Express"));
        let odd = Ids { class: ClassCode::parse("0x02ee00"), ..NOBODY };
        let base = Names::lookup(&[odd], None);
        assert_eq!(base.class(odd.class.unwrap()), Some("Network controller"));
    }

    #[test]
    fn the_built_in_table_is_of_this_decade_and_knows_its_accelerators() {
        assert!(date(BUILT_IN).is_some_and(|date| date.as_str() > "2026"));
        let of = |vendor, device| Ids { vendor, device, subsystem: None, class: None };
        let wanted = [of(0x10de, 0x2330), of(0x10de, 0x2901), of(0x1002, 0x74a1)];
        let names = Names::lookup(&wanted, None);
        let name = |ids: &Ids| names.device(ids.vendor, ids.device).unwrap_or_default();
        let [h100, b200, mi300x] = [0, 1, 2].map(|at| name(&wanted[at]));
        assert!(
            h100.contains("H100") && b200.contains("B200") && mi300x.contains("MI300X"),
            "{h100} {b200} {mi300x}"
        );
    }

    #[test]
    fn classes_by_name() {
        assert_eq!(class_named("Non-Volatile memory controller"), ClassCode::parse("0108"));
        assert_eq!(class_named("USB Controller"), ClassCode::parse("0c03"));
        assert_eq!(class_named("PCI bridge"), ClassCode::parse("0604"));
        assert_eq!(class_named("NVM Express"), None);
    }

    #[test]
    fn dates() {
        for (head, expect) in [
            ("#\tVersion: 2024.01.08\n", Some("2024-01-08")),
            ("#\tDate:    2024-01-08 03:15:02\n", Some("2024-01-08")),
            ("#\tDate:    yesterday\n", None),
            ("# $Id: pci.ids\n", None),
        ] {
            assert_eq!(date(head).as_deref(), expect, "{head}");
        }
    }

    proptest! {
        #[test]
        fn any_table(table in "(\t{0,2}[0-9a-fC é]{0,6} {1,2}[a-z ]{0,8}\n){0,30}") {
            let _ = Names::lookup(&[CONNECTX, NOBODY], Some(&table));
        }
    }
}
