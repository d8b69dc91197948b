//! The indented lines of a record, as fields and capability blocks.
//!
//! ```text
//! <tab>Kernel driver in use: nvme                      a field
//! <tab>Capabilities: [80] Express (v2) Endpoint, MSI 00   a block's title
//! <tab><tab>DevCtl:<tab>CorrErr- NonFatalErr-             a register
//! <tab><tab><tab>RlxdOrd+ ExtTag+                         ... that goes on
//! ```

use super::title::{EXPRESS, capability_name};
use crate::{Citation, Text};
use std::collections::BTreeMap;

/// Distance of tab stops. Columns tell the three depths apart even after tabs were replaced by spaces.
const TAB: usize = 8;

/// A record's indented lines.
#[derive(Debug, Default)]
pub(super) struct Listing<'a> {
    fields: Vec<(u32, &'a str)>,
    blocks: Vec<Block<'a>>,
}

/// One capability.
#[derive(Debug)]
pub(super) struct Block<'a> {
    line: u32,
    /// Offset in configuration space; from 100h on it is an extended capability.
    pub(super) offset: Option<u16>,
    /// The text after the offset.
    pub(super) title: &'a str,
    registers: Vec<Register<'a>>,
}

/// One register with all its lines.
#[derive(Debug)]
struct Register<'a> {
    line: u32,
    name: &'a str,
    text: String,
}

impl<'a> Listing<'a> {
    pub(super) fn new(lines: &[(u32, &'a str)]) -> Self {
        let mut listing = Self::default();
        let mut in_block = false;
        for &(number, line) in lines {
            let text = line.trim();
            match (column(line), text.strip_prefix("Capabilities: ")) {
                (..=TAB, Some(title)) => {
                    listing.blocks.push(Block::new(number, title));
                    in_block = true;
                }
                // The title of its capability was cut off.
                (column, None) if (column <= TAB || !in_block) && is_express_register(text) => {
                    let is_open = listing
                        .blocks
                        .last()
                        .is_some_and(|block| in_block && block.title.starts_with(EXPRESS));
                    if !is_open {
                        listing.blocks.push(Block::new(number, EXPRESS));
                        in_block = true;
                    }
                    if let Some(block) = listing.blocks.last_mut() {
                        block.push(number, text, false);
                    }
                }
                (..=TAB, None) => {
                    listing.fields.push((number, text));
                    in_block = false;
                }
                (column, _) => {
                    if let Some(block) = listing.blocks.last_mut().filter(|_| in_block) {
                        block.push(number, text, column >= 3 * TAB);
                    }
                }
            }
        }
        listing
    }

    /// Number and value of the line `NAME: VALUE`.
    pub(super) fn field(&self, name: &str) -> Option<(u32, &'a str)> {
        self.fields.iter().find_map(|&(line, text)| {
            let value = text.strip_prefix(name)?.strip_prefix(':')?;
            Some((line, value.trim()))
        })
    }

    /// A number with its line, from `NAME: 3`, or with `-v` from `Flags: ..., NAME 3`.
    pub(super) fn number(&self, name: &str) -> Option<(u32, &'a str, u32)> {
        self.fields.iter().find_map(|&(line, text)| {
            let value = match text.strip_prefix("Flags: ") {
                Some(flags) => flags.split(", ").find_map(|flag| flag.strip_prefix(name))?,
                None => text.strip_prefix(name)?.strip_prefix(':')?,
            };
            Some((line, text, value.trim().parse().ok()?))
        })
    }

    /// The subsystem: a field, or a capability of bridges.
    pub(super) fn subsystem(&self) -> Option<&'a str> {
        let field = self.field("Subsystem").map(|(_, subsystem)| subsystem);
        field.or_else(|| self.blocks.iter().find_map(|block| block.title.strip_prefix("Subsystem: ")))
    }

    /// Whether `-v` was given, and so capabilities would be shown.
    pub(super) fn is_verbose(&self) -> bool {
        self.field("Control").is_some() || self.field("Flags").is_some()
    }

    /// Whether lspci was not permitted to read the capabilities.
    pub(super) fn is_denied(&self) -> bool {
        self.blocks.iter().any(|block| block.title == "<access denied>")
    }

    /// Whether the conventional list was printed to its end.
    pub(super) fn is_whole(&self) -> bool {
        let broken = self.blocks.iter().any(|block| block.title == "<chain broken>");
        self.is_verbose() && !self.is_denied() && !broken
    }

    /// Whether the extended list was printed to its end. If no extended capability is printed, a PCI Express
    /// function either has none or was not read that far, so the answer is false.
    pub(super) fn is_extended_whole(&self) -> bool {
        let any_extended = self.blocks.iter().any(Block::is_extended);
        let express = self.blocks.iter().any(|block| block.title.starts_with("Express"));
        self.is_whole() && (any_extended || !express)
    }

    /// The capabilities, each with its registers.
    pub(super) fn blocks(&self) -> &[Block<'a>] {
        &self.blocks
    }

    /// The line of each register, and of each capability's title.
    pub(super) fn cite(&self, text: &Text) -> BTreeMap<String, Citation> {
        let mut citations = BTreeMap::new();
        for block in &self.blocks {
            let title = format!("Capabilities: {}", block.title);
            let name = capability_name(block.title, block.is_extended()).unwrap_or("Capabilities");
            citations.entry(name.to_owned()).or_insert_with(|| text.cite(block.line, &title));
            for register in block.registers.iter().filter(|register| !register.name.is_empty()) {
                let words = || text.cite(register.line, &format!("{}: {}", register.name, register.text));
                citations.entry(register.name.to_owned()).or_insert_with(words);
            }
        }
        citations
    }
}

impl<'a> Block<'a> {
    fn new(line: u32, title: &'a str) -> Self {
        let located = title.strip_prefix('[').and_then(|rest| rest.split_once("] "));
        let offset = located.and_then(|(at, _)| {
            let digits = at.split(' ').next().unwrap_or(at);
            u16::from_str_radix(digits, 16).ok()
        });
        let title = located.map_or(title, |(_, title)| title).trim();
        Self { line, offset, title, registers: Vec::new() }
    }

    /// Adds a line: to the last register if it continues that, else as a new register.
    fn push(&mut self, line: u32, text: &'a str, continues: bool) {
        match self.registers.last_mut().filter(|_| continues) {
            Some(register) => {
                register.text.push(' ');
                register.text.push_str(text);
            }
            None => {
                let (name, value) = text.split_once(':').unwrap_or(("", text));
                self.registers.push(Register { line, name: name.trim(), text: value.trim().to_owned() });
            }
        }
    }

    /// Whether this is an extended capability, by its offset.
    pub(super) fn is_extended(&self) -> bool {
        self.offset.is_some_and(|offset| offset >= 0x100)
    }

    /// The text of a register, all its lines joined; empty if lspci does not print it.
    pub(super) fn register(&self, name: &str) -> &str {
        self.registers
            .iter()
            .find(|register| register.name == name)
            .map(|register| register.text.as_str())
            .unwrap_or_default()
    }

    /// All registers whose names start with `prefix`.
    pub(super) fn registers(&self, prefix: &str) -> impl Iterator<Item = (&str, &str)> {
        let named = self.registers.iter().filter(move |register| register.name.starts_with(prefix));
        named.map(|register| (register.name, register.text.as_str()))
    }
}

/// Whether a line is a register that the PCI Express capability alone has.
fn is_express_register(line: &str) -> bool {
    const NAMES: [&str; 6] = ["DevCap", "DevCtl", "DevSta", "LnkCap", "LnkCtl", "LnkSta"];
    let name = line.split_once(':').map_or("", |(name, _)| name);
    NAMES.contains(&name.trim_end_matches('2'))
}

/// The column of a line's first word.
fn column(line: &str) -> usize {
    let indent = line.bytes().take_while(|byte| matches!(byte, b' ' | b'\t'));
    indent.fold(0, |column, byte| if byte == b'\t' { (column / TAB + 1) * TAB } else { column + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "\tNUMA node: 1\n\
        \tCapabilities: [80] Express (v2) Endpoint, MSI 00\n\
        \t\tDevCtl:\tCorrErr- NonFatalErr-\n\
        \t\t\tRlxdOrd+ ExtTag+\n\
        \tCapabilities: [100 v2] Advanced Error Reporting\n\
        \tKernel driver in use: nvme\n\
        \t\tstray line\n";

    fn check(body: &str) {
        let lines: Vec<(u32, &str)> = (1..).zip(body.lines()).collect();
        let listing = Listing::new(&lines);
        assert_eq!(listing.field("Kernel driver in use"), Some((6, "nvme")));
        assert_eq!(listing.number("NUMA node").map(|(_, _, node)| node), Some(1));
        let titles: Vec<_> = listing.blocks.iter().map(|block| (block.offset, block.title)).collect();
        let express = "Express (v2) Endpoint, MSI 00";
        assert_eq!(titles, [(Some(0x80), express), (Some(0x100), "Advanced Error Reporting")]);
        assert_eq!(listing.blocks[0].register("DevCtl"), "CorrErr- NonFatalErr- RlxdOrd+ ExtTag+");
        assert_eq!(listing.blocks[0].register("LnkSta"), "");
        assert!(listing.blocks[1].is_extended());
        let citations = listing.cite(&Text::new("lspci", body));
        assert_eq!(citations["DevCtl"].line, Some(3));
    }

    #[test]
    fn tells_fields_blocks_and_registers_apart_by_their_depth() {
        check(BODY);
        check(&BODY.replace('\t', "        "));
    }
}
