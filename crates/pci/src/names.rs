//! Names of vendors, devices, cards and classes.
//!
//! Two tables know them: the one built into this program (`data/pci/pci.ids`), and the `pci.ids` of the host, if somebody
//! read it. The newer one is asked first. Ours is then asked for what the host's does not know; an older one is not read.

use super::class::ClassCode;
use super::header::SubsystemId;
use std::collections::BTreeMap;

/// The PCI ID Repository's table, as of the date in its head; `data/pci/refresh` fetches a newer one.
/// Not a constant: each crate that calls `Names::lookup`, which is generic, would hold a copy.
static BUILT_IN: &str = include_str!("../data/pci/pci.ids");

/// The sections of the built-in table, sorted: the ID of a vendor, or the code of a class and 2^16; the section's first byte and the
/// byte behind it. By `build.rs`.
static SECTIONS: &[(u32, usize, usize)] = &include!(concat!(env!("OUT_DIR"), "/pci_ids_sections.rs"));

/// The number of the first class among the sections, behind those of vendors.
const FIRST_CLASS: u32 = 1 << 16;

/// The date stands within so many bytes of a table's start.
pub const HEAD_BYTES: usize = 4096;

/// What one function shows of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ids {
    /// Vendor ID; `None` if it was not read.
    pub vendor: Option<u16>,
    /// Device ID; `None` if it was not read.
    pub device: Option<u16>,
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

impl Key {
    /// What it belongs to: a device to its vendor.
    fn parent(self) -> Option<Self> {
        match self {
            Self::Vendor(_) | Self::Class(_) => None,
            Self::Device(vendor, _) => Some(Self::Vendor(vendor)),
            Self::Subsystem(vendor, device, ..) => Some(Self::Device(vendor, device)),
            Self::SubClass(base, _) => Some(Self::Class(base)),
            Self::Interface(base, sub, _) => Some(Self::SubClass(base, sub)),
        }
    }

    /// How its line begins, after the end of the line before it.
    fn line_start(self) -> String {
        match self {
            Self::Vendor(vendor) => format!("\n{vendor:04x}  "),
            Self::Class(base) => format!("\nC {base:02x}  "),
            Self::Device(_, device) => format!("\n\t{device:04x}  "),
            Self::SubClass(_, sub) => format!("\n\t{sub:02x}  "),
            Self::Subsystem(_, _, vendor, device) => format!("\n\t\t{vendor:04x} {device:04x}  "),
            Self::Interface(_, _, interface) => format!("\n\t\t{interface:02x}  "),
        }
    }
}

/// The names of the functions that were asked for.
#[derive(Debug, Clone, Default)]
pub struct Names {
    found: BTreeMap<Key, String>,
}

impl Names {
    /// Looks up everything that `wanted` shows, in our table and in the host's `pci.ids`. `host_head` is the start of that, with its
    /// date: [`HEAD_BYTES`] suffice. The whole is read if it is newer, or if somebody wrote it by hand, without a date, and ours
    /// lacks a vendor or device.
    pub fn lookup(
        wanted: &[Ids],
        host_head: Option<&str>,
        read_host_table: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Self {
        let mut found: BTreeMap<Key, Option<String>> =
            wanted.iter().flat_map(keys).map(|key| (key, None)).collect();
        let host_date = host_head.map(date);
        let host_is_newer = host_date.as_ref().is_some_and(|host_date| *host_date > date(BUILT_IN));
        let lacks_name = |found: &BTreeMap<Key, Option<String>>| {
            let is_main = |key: &Key| matches!(key, Key::Vendor(_) | Key::Device(..));
            found.iter().any(|(key, name)| name.is_none() && is_main(key))
        };
        if !host_is_newer {
            pick(&mut found, built_in_section);
        }
        let is_host_asked = host_is_newer || (host_date == Some(None) && lacks_name(&found));
        if let Some(table) = is_host_asked.then(read_host_table).flatten() {
            pick(&mut found, sections_in_order(&table));
        }
        if host_is_newer {
            pick(&mut found, built_in_section);
        }
        Self { found: found.into_iter().filter_map(|(key, name)| Some((key, name?))).collect() }
    }

    /// Name of a vendor.
    pub fn vendor(&self, vendor: u16) -> Option<&str> {
        self.get(Key::Vendor(vendor))
    }

    /// Name of a device.
    pub fn device(&self, ids: &Ids) -> Option<&str> {
        self.get(Key::Device(ids.vendor?, ids.device?))
    }

    /// Name of the card that a device sits on.
    pub fn subsystem(&self, ids: &Ids) -> Option<&str> {
        let card = ids.subsystem?;
        self.get(Key::Subsystem(ids.vendor?, ids.device?, card.vendor, card.device))
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
    let mut keys: Vec<Key> = ids.vendor.map(Key::Vendor).into_iter().collect();
    keys.extend(ids.subsystem.map(|card| Key::Vendor(card.vendor)));
    if let (Some(vendor), Some(device)) = (ids.vendor, ids.device) {
        keys.push(Key::Device(vendor, device));
        keys.extend(ids.subsystem.map(|card| Key::Subsystem(vendor, device, card.vendor, card.device)));
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
    let of_class = SECTIONS.iter().filter(|(code, ..)| *code >= FIRST_CLASS);
    let sections = of_class.filter_map(|(_, start, end)| BUILT_IN.get(*start..*end));
    sections.flat_map(str::lines).find_map(|line| {
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
    let end = (0..=HEAD_BYTES.min(table.len())).rev().find(|end| table.is_char_boundary(*end))?;
    let head = table.get(..end)?;
    head.lines().find_map(|line| {
        let (field, value) = line.strip_prefix('#')?.split_once(':')?;
        let day = value.split_whitespace().next()?.replace('.', "-");
        let plain = day.len() == 10 && day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        (matches!(field.trim(), "Version" | "Date") && plain).then_some(day)
    })
}

/// Fills in what a `pci.ids` knows of the keys that have no name yet. `section_of` gives the rest of a vendor's or class's line, and the
/// lines that belong to it.
fn pick<'t>(found: &mut BTreeMap<Key, Option<String>>, mut section_of: impl FnMut(Key) -> Option<&'t [u8]>) {
    // Parents come first.
    let mut sections: BTreeMap<Key, &[u8]> = BTreeMap::new();
    for (key, name) in found {
        let entry = match key.parent() {
            Some(parent) => sections.get(&parent).and_then(|section| after(section, &key.line_start())),
            None => section_of(*key),
        };
        let Some(entry) = entry else { continue };
        let own_line_end = memchr::memchr(b'\n', entry).unwrap_or(entry.len());
        let (own_line, below) = entry.split_at(own_line_end);
        match key {
            Key::Vendor(_) | Key::Class(_) => _ = sections.insert(*key, below),
            Key::Device(..) | Key::SubClass(..) => _ = sections.insert(*key, section(below, b"\t\t")),
            Key::Subsystem(..) | Key::Interface(..) => {}
        }
        name.get_or_insert_with(|| String::from_utf8_lossy(own_line).trim().to_owned());
    }
}

/// The section of the built-in table that begins with this key's line.
fn built_in_section(key: Key) -> Option<&'static [u8]> {
    let code = match key {
        Key::Vendor(vendor) => u32::from(vendor),
        Key::Class(base) => FIRST_CLASS | u32::from(base),
        _ => return None,
    };
    let at = SECTIONS.binary_search_by_key(&code, |(code, ..)| *code).ok()?;
    let (_, start, end) = SECTIONS.get(at)?;
    BUILT_IN.as_bytes().get(start + key.line_start().len() - 1..*end)
}

/// Finds the sections of a table of 40,000 lines. A table is sorted, and so are the keys that are asked for: each search goes on where
/// the one before ended.
fn sections_in_order<'t>(table: &'t [u8]) -> impl FnMut(Key) -> Option<&'t [u8]> {
    let mut rest = table;
    move |key| {
        let line_start = key.line_start();
        rest = after(rest, &line_start).or_else(|| first_of(table, &line_start))?;
        let own_line_end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let below = section(&rest[own_line_end..], b"\t");
        rest.get(..own_line_end + below.len())
    }
}

/// What follows the first place where a line begins so; `line_start` begins with the end of the line before.
fn after<'t>(text: &'t [u8], line_start: &str) -> Option<&'t [u8]> {
    let at = memchr::memmem::find(text, line_start.as_bytes())?;
    text.get(at + line_start.len()..)
}

/// The same from the start of a table, whose first line has no line before it.
fn first_of<'t>(table: &'t [u8], line_start: &str) -> Option<&'t [u8]> {
    table.strip_prefix(line_start.trim_start_matches('\n').as_bytes()).or_else(|| after(table, line_start))
}

/// The lines with this indent that follow the end of a line, and comments and empty lines among them.
fn section<'t>(text: &'t [u8], indent: &[u8]) -> &'t [u8] {
    let belongs = |rest: &[u8]| matches!(rest, [] | [b'\n' | b'\r' | b'#', ..]) || rest.starts_with(indent);
    let mut ends = memchr::memchr_iter(b'\n', text);
    let end = ends.find(|end| !belongs(&text[end + 1..]));
    &text[..end.unwrap_or(text.len())]
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
    use std::collections::BTreeSet;

    const CONNECTX: Ids = Ids {
        vendor: Some(0x15b3),
        device: Some(0x1017),
        subsystem: Some(SubsystemId { vendor: 0x15b3, device: 0x0007 }),
        class: Some(ClassCode { base: 2, sub: 0, interface: Some(0) }),
    };
    const NOBODY: Ids = Ids { vendor: Some(0x0bad), device: Some(0xcafe), subsystem: None, class: None };

    fn table(date: &str) -> String {
        format!(
            "#\n#\tVersion: {date}\n#\n\n\
             0bad  Nobody  Inc\n\tcafe  Invented adapter\n\t\t15b3 0007  Other card\n\
             15b3  New name\n\t1017  Newer adapter\n\t\t15b3 0007  Newer card\n\
             C 02  Network controller\n\t00  Newer Ethernet\n"
        )
    }

    fn check(table: Option<&str>, device: &str, nobody: Option<&str>) {
        let names =
            Names::lookup(&[CONNECTX, NOBODY], table, || table.map(|table| table.as_bytes().to_vec()));
        assert_eq!(names.device(&CONNECTX), Some(device));
        assert_eq!(names.device(&NOBODY), nobody);
    }

    #[test]
    fn the_newer_name_table_is_queried() {
        let ours = "MT27800 Family [ConnectX-5]";
        check(None, ours, None);
        check(Some(&table("2017.03.05")), ours, None);
        check(Some(&table("2031.01.02")), "Newer adapter", Some("Invented adapter"));
        check(Some(&table("of no date")), ours, Some("Invented adapter"));
        check(Some(""), ours, None);
    }

    #[test]
    fn all_levels() {
        let newer = table("2031.01.02");
        let names = Names::lookup(&[CONNECTX, NOBODY], Some(&newer), || Some(newer.clone().into_bytes()));
        let class = ClassCode { base: 2, sub: 0, interface: Some(0) };
        assert_eq!(names.vendor(0x15b3), Some("New name"));
        assert_eq!(names.vendor(0x0bad), Some("Nobody  Inc"));
        assert_eq!(names.subsystem(&CONNECTX), Some("Newer card"));
        assert_eq!(names.class(class), Some("Newer Ethernet"));
        let nvme = Ids { class: ClassCode::parse("0x010802"), ..NOBODY };
        let ours = Names::lookup(&[nvme], None, || None);
        assert_eq!(ours.class(nvme.class.unwrap()), Some("Non-Volatile memory controller"));
        assert_eq!(ours.interface(nvme.class.unwrap()), Some("NVM Express"));
        let odd = Ids { class: ClassCode::parse("0x02ee00"), ..NOBODY };
        let base = Names::lookup(&[odd], None, || None);
        assert_eq!(base.class(odd.class.unwrap()), Some("Network controller"));
    }

    #[test]
    fn the_built_in_table_is_of_this_decade_and_knows_its_accelerators() {
        assert!(date(BUILT_IN).is_some_and(|date| date.as_str() > "2026"));
        let of = |vendor, device| Ids { vendor: Some(vendor), device: Some(device), ..NOBODY };
        let wanted = [of(0x10de, 0x2330), of(0x10de, 0x2901), of(0x1002, 0x74a1)];
        let names = Names::lookup(&wanted, None, || None);
        let [h100, b200, mi300x] = wanted.map(|ids| names.device(&ids).unwrap_or_default());
        assert!(
            h100.contains("H100") && b200.contains("B200") && mi300x.contains("MI300X"),
            "{h100} {b200} {mi300x}"
        );
    }

    #[test]
    fn sections_are_found_by_their_index_as_by_searching() {
        let starts_section = |line: &&str| line.contains("  ") && !line.starts_with(['\t', '#']);
        assert_eq!(SECTIONS.len(), BUILT_IN.lines().filter(starts_section).count());
        let mut search = sections_in_order(BUILT_IN.as_bytes());
        for (code, ..) in SECTIONS {
            let key = u16::try_from(*code).map_or_else(|_| Key::Class(*code as u8), Key::Vendor);
            let [by_index, by_search] =
                [built_in_section(key), search(key)].map(|section| section.unwrap().trim_ascii_end());
            assert_eq!(by_index, by_search, "{key:?}");
        }
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

    /// The name of a key by reading line after line.
    fn by_all_lines(table: &str, key: Key) -> Option<String> {
        let depth = |key: Key| key.line_start().matches('\t').count();
        let path: Vec<Key> = std::iter::successors(Some(key), |key| key.parent()).collect();
        let mut level = 0;
        for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let tabs = line.len() - line.trim_start_matches('\t').len();
            if tabs < level {
                return None;
            }
            let wanted = path[path.len() - 1 - level];
            let start = wanted.line_start();
            let is_level = |_: &&str| tabs == depth(wanted);
            if let Some(name) = line.strip_prefix(start.trim_start_matches('\n')).filter(is_level) {
                level += 1;
                if level == path.len() {
                    return Some(name.trim().to_owned());
                }
            }
        }
        None
    }

    proptest! {
        #[test]
        fn entries_are_found_as_by_reading_all_lines(
            lines in proptest::collection::vec("#x|\t?|(15b3|0bad|1017|cafe|C 02|\t1017|\tcafe|\t00|\t\t15b3 0007|\t\t0bad 0007|\t\t00)  [a-z]{1,3}", 0..14)
        ) {
            // Vendors and classes stand once in a table, in any order here.
            let mut seen = BTreeSet::new();
            let is_first = |line: &&String| line.starts_with('\t') || seen.insert(line.get(..4).map(str::to_owned));
            let lines: Vec<&str> = lines.iter().filter(is_first).map(String::as_str).collect();
            let table = lines.join("\n");
            let mut found: BTreeMap<Key, Option<String>> = [CONNECTX, NOBODY].iter().flat_map(keys).map(|key| (key, None)).collect();
            pick(&mut found, sections_in_order(table.as_bytes()));
            for (key, name) in found {
                prop_assert_eq!(name, by_all_lines(&table, key), "{:?} in {:?}", key, table);
            }
        }

        #[test]
        fn any_table(table in "(\t{0,2}[0-9a-fC é]{0,6} {1,2}[a-z ]{0,8}\n){0,30}") {
            let _ = Names::lookup(&[CONNECTX, NOBODY], Some(&table), || Some(table.clone().into_bytes()));
        }
    }
}
