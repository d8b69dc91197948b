//! The machine-readable formats: a line for each function (`-m`, `-mm`), or a line for each field (`-vm`, `-vmm`).
//!
//! ```text
//! 3b:00.0 "Ethernet controller" "Maker" "Model" -r01 -p00 "Maker" "Card"
//!
//! Slot:<tab>3b:00.0                       `Device:` with `-vm`, which has a second line of that name
//! Class:<tab>Ethernet controller [0200]   names, IDs (`-n`) or both (`-nn`)
//! Driver:<tab>mlx5_core                   with `-k`
//! ```

use super::heading;
use super::{Format, Record, hex};
use crate::class::ClassCode;
use crate::header::SubsystemId;
use crate::{Bdf, Citation, Cited, Text};

/// Names of fields.
const FIELDS: [&str; 13] = [
    "Class",
    "Vendor",
    "Device",
    "SVendor",
    "SDevice",
    "PhySlot",
    "Rev",
    "ProgIf",
    "Driver",
    "Module",
    "NUMANode",
    "DTNode",
    "IOMMUGroup",
];

/// A function while its lines are read.
#[derive(Debug)]
pub(super) struct Fields {
    address: Bdf,
    at: Citation,
    fields: Vec<(&'static str, Cited<String>)>,
}

impl Fields {
    /// Begins a function with the line that names it.
    pub(super) fn begin(text: &Text, number: u32, line: &str) -> Option<Self> {
        let at = text.cite(number, line);
        let (address, values) = match split_line(line) {
            Some((address, values)) => (address, quoted_values(values)?),
            None => (address_field(line)?, Vec::new()),
        };
        let fields = values.into_iter().map(|(name, value)| (name, Cited::new(value, at.clone())));
        Some(Self { address, fields: fields.collect(), at })
    }

    /// Adds a line. Lines that are no field are ignored.
    pub(super) fn push(&mut self, text: &Text, number: u32, line: &str) {
        if let Some((name, value)) = field(line) {
            self.fields.push((name, Cited::new(value.to_owned(), text.cite(number, line))));
        }
    }

    /// The function's record. Whether its driver would be shown is not known of it alone.
    pub(super) fn into_record(self) -> Record {
        let spelling = self.value("Vendor").map_or(Spelling::Names, Spelling::of);
        let class = self.value("Class").map(heading::name_and_class);
        let code = |name: &str| spelling.code(self.value(name)?);
        let ids = code("Vendor").zip(code("Device"));
        let subsystem = code("SVendor").zip(code("SDevice"));
        let byte = |name: &str| hex(self.value(name)?, 2);
        let number = |name: &str| {
            let cited = self.field(name)?;
            Some(Cited::new(cited.value.parse().ok()?, cited.at.clone()))
        };
        let modules = self.fields.iter().filter(|(name, _)| *name == "Module");
        Record {
            class: class
                .and_then(|(_, class)| class)
                .map(|class| ClassCode { interface: byte("ProgIf"), ..class }),
            class_name: class.and_then(|(name, _)| name).map(str::to_owned),
            vendor: ids.map(|(vendor, _)| vendor),
            device: ids.map(|(_, device)| device),
            name: self.pair(spelling, "Vendor", "Device"),
            revision: byte("Rev"),
            subsystem: subsystem.and_then(|(vendor, device)| SubsystemId::of_registers(vendor, device)),
            subsystem_name: self.pair(spelling, "SVendor", "SDevice"),
            physical_slot: self.value("PhySlot").map(str::to_owned),
            driver: self.field("Driver").filter(|driver| super::is_driver(&driver.value)).cloned(),
            modules: modules.map(|(_, module)| module.value.clone()).collect(),
            numa_node: number("NUMANode"),
            iommu_group: number("IOMMUGroup"),
            format: Format::MachineReadable,
            ..Record::new(self.address, self.at.clone())
        }
    }

    /// The first field of this name.
    fn field(&self, name: &str) -> Option<&Cited<String>> {
        self.fields.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// Its value.
    fn value(&self, name: &str) -> Option<&str> {
        self.field(name).map(|field| field.value.as_str())
    }

    /// The names of maker and device in one, as lspci prints them elsewhere: not if it knows no name of the maker.
    fn pair(&self, spelling: Spelling, vendor: &str, device: &str) -> Option<String> {
        let vendor = spelling.name(self.value(vendor)?)?;
        let is_known = !vendor.starts_with("Vendor") && !vendor.starts_with("Unknown vendor");
        is_known.then_some(())?;
        Some(format!("{vendor} {}", spelling.name(self.value(device)?)?))
    }
}

/// The address of a function, if this is the first line about it.
pub(super) fn address(line: &str) -> Option<Bdf> {
    split_line(line).map(|(address, _)| address).or_else(|| address_field(line))
}

/// Address and strings of `3b:00.0 "Ethernet controller" ...`.
fn split_line(line: &str) -> Option<(Bdf, &str)> {
    let (address, strings) = line.trim_end().split_once(' ')?;
    let is_quoted = strings.starts_with('"') && strings.ends_with('"');
    is_quoted.then_some((heading::parse_full_address(address)?, strings))
}

/// The address in `Slot:<tab>3b:00.0` or `Device:<tab>3b:00.0`.
fn address_field(line: &str) -> Option<Bdf> {
    let value = line.strip_prefix("Slot:").or_else(|| line.strip_prefix("Device:"))?;
    heading::parse_full_address(value.trim())
}

/// Name and value of a field: `Class:<tab>Ethernet controller`.
pub(super) fn field(line: &str) -> Option<(&'static str, &str)> {
    let (name, value) = line.split_once(':')?;
    let name = FIELDS.into_iter().find(|known| *known == name)?;
    value.starts_with(['\t', ' ']).then_some((name, value.trim()))
}

/// The fields in `"Class" "Vendor" "Device" -r01 -p00 "SVendor" "SDevice"`.
fn quoted_values(mut rest: &str) -> Option<Vec<(&'static str, String)>> {
    let mut strings = ["Class", "Vendor", "Device", "SVendor", "SDevice"].into_iter();
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let after = if let Some(quoted) = rest.strip_prefix('"') {
            let (value, after) = unquote(quoted)?;
            // A function without subsystem has empty strings.
            fields.extend(strings.next().filter(|_| !value.is_empty()).map(|name| (name, value)));
            after
        } else {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            let options = [("-r", "Rev"), ("-p", "ProgIf")];
            let option =
                options.into_iter().find_map(|(start, name)| Some((name, word.strip_prefix(start)?)));
            fields.extend(option.map(|(name, digits)| (name, digits.to_owned())));
            after
        };
        rest = after.trim_start();
    }
    Some(fields)
}

/// The string up to the closing quotation mark, and what follows. `\` stands before `"` and `\`.
fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(characters.next()?.1),
            character => value.push(character),
        }
    }
    None
}

/// How a listing spells makers and devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// `Maker`; `Device 1017` if there is no name.
    Names,
    /// `15b3`, with `-n`.
    Codes,
    /// `Maker [15b3]`, with `-nn`.
    Both,
}

impl Spelling {
    /// The spelling of a listing in which a maker is spelt so.
    fn of(vendor: &str) -> Self {
        match (hex::<u16>(vendor, 4), heading::split_brackets(vendor)) {
            (Some(_), _) => Self::Codes,
            (None, Some((_, code))) if hex::<u16>(code, 4).is_some() => Self::Both,
            _ => Self::Names,
        }
    }

    /// The name in a value.
    fn name(self, value: &str) -> Option<&str> {
        match self {
            Self::Names => Some(value),
            Self::Codes => None,
            Self::Both => heading::split_brackets(value).map(|(name, _)| name),
        }
    }

    /// The ID in a value.
    fn code(self, value: &str) -> Option<u16> {
        let code = match self {
            // What has no name is spelt by its ID: `Vendor 15b3`, `Device 1017`.
            Self::Names => value.rsplit_once(' ').map(|(_, code)| code).filter(|_| is_nameless(value))?,
            Self::Codes => value,
            Self::Both => heading::split_brackets(value)?.1,
        };
        hex(code, 4)
    }
}

/// Whether a value is what lspci prints in place of a name that it does not know.
fn is_nameless(value: &str) -> bool {
    ["Vendor ", "Unknown vendor ", "Device "].iter().any(|start| value.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(lines: &str) -> Record {
        let text = Text::new("lspci", lines);
        let mut lines = text.lines();
        let (number, first) = lines.next().unwrap();
        let mut fields = Fields::begin(&text, number, first).unwrap();
        lines.for_each(|(number, line)| fields.push(&text, number, line));
        fields.into_record()
    }

    #[test]
    fn a_line_for_each_function() {
        let named = record(
            "3b:00.0 \"Ethernet controller\" \"Maker\" \"13\\\" Model\" -r01 -p02 \"Maker\" \"Device 0007\"",
        );
        assert_eq!(named.bdf.to_string(), "0000:3b:00.0");
        assert_eq!(named.class_name.as_deref(), Some("Ethernet controller"));
        assert_eq!(named.name.as_deref(), Some("Maker 13\" Model"));
        assert_eq!((named.revision, named.vendor), (Some(1), None));
        assert_eq!(named.subsystem_name.as_deref(), Some("Maker Device 0007"));

        let both = record(
            "10000:e1:00.0 \"Ethernet controller [0200]\" \"Maker [15b3]\" \"Model [X] [1017]\" -p02 \"\" \"\"",
        );
        assert_eq!((both.class, both.bdf.domain), (ClassCode::parse("020002"), 0x10000));
        assert_eq!((both.vendor, both.device), (Some(0x15b3), Some(0x1017)));
        assert_eq!(both.name.as_deref(), Some("Maker Model [X]"));
        assert_eq!((both.subsystem, both.subsystem_name), (None, None));

        let codes = record("3b:00.0 \"0200\" \"15b3\" \"1017\" \"15b3\" \"0007\"");
        assert_eq!((codes.vendor, codes.device, codes.name), (Some(0x15b3), Some(0x1017), None));
        assert_eq!(codes.class, ClassCode::parse("0200"));
        assert_eq!(codes.subsystem, Some(SubsystemId { vendor: 0x15b3, device: 7 }));
    }

    #[test]
    fn a_line_for_each_field() {
        let body = "Slot:\t3b:00.0\nClass:\tEthernet controller [0200]\nVendor:\tMaker [15b3]\n\
            Device:\tModel [1017]\nSVendor:\tMaker [15b3]\nSDevice:\tCard [0007]\nPhySlot:\t4\nRev:\t01\n\
            ProgIf:\t00\nDriver:\tmlx5_core\nModule:\tmlx5_core\nModule:\tother\nNUMANode:\t1\nIOMMUGroup:\t26\n\
            Unknown:\tx\n";
        for body in [body.to_owned(), body.replacen("Slot:", "Device:", 1), body.replace('\t', "  ")] {
            let found = record(&body);
            assert_eq!((found.vendor, found.device), (Some(0x15b3), Some(0x1017)), "{body}");
            assert_eq!(found.name.as_deref(), Some("Maker Model"));
            assert_eq!(found.subsystem_name.as_deref(), Some("Maker Card"));
            assert_eq!(found.physical_slot.as_deref(), Some("4"));
            let driver = found.driver.unwrap();
            assert_eq!((driver.value.as_str(), driver.at.line), ("mlx5_core", Some(10)));
            assert_eq!(found.modules, ["mlx5_core", "other"]);
            assert_eq!(found.numa_node.unwrap().value, 1);
            assert_eq!(found.iommu_group.unwrap().value, 26);
        }
    }

    #[test]
    fn what_has_no_name() {
        let unknown = record(
            "3b:00.0 \"Class ff01\" \"Vendor 15b3\" \"Device 1017\" \"Unknown vendor 15b3\" \"Device 0007\"",
        );
        assert_eq!((unknown.vendor, unknown.device, unknown.name), (Some(0x15b3), Some(0x1017), None));
        assert_eq!(unknown.class, ClassCode::parse("ff01"));
        assert_eq!(unknown.subsystem, Some(SubsystemId { vendor: 0x15b3, device: 7 }));
        let both = record("3b:00.0 \"Class [ff01]\" \"Vendor [15b3]\" \"Device [1017]\" \"\" \"\"");
        assert_eq!((both.vendor, both.device, both.name), (Some(0x15b3), Some(0x1017), None));
    }

    #[test]
    fn other_lines() {
        for line in [
            "Device: Ethernet",
            "Slot:\t4",
            "3b:00.0 \"cut of",
            "3b:00.0 Ethernet controller: \"Maker\"",
            "Slot:\t3b:00.8",
        ] {
            assert_eq!(address(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line(line in "3b:00.0 [\"\\\\ a-f0-9é\\[\\]-]{0,60}\"", field in "[DSVP]{0,1}[a-zA-Z]{0,9}:[\t ]{0,1}[ -~é]{0,20}") {
            let body = format!("{line}\n{field}\nSlot:\t3b:00.0\n{field}");
            let _ = super::super::parse(&Text::new("lspci", body));
        }
    }
}
