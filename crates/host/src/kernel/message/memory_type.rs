//! Memory types on x86: arch/x86/mm/pat/, arch/x86/mm/ioremap.c, arch/x86/kernel/cpu/mtrr/.

use super::scan;

/// A message about memory types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryTypeMessage {
    /// The types that the page attribute table's eight entries stand for.
    PatConfiguration(Vec<String>),
    /// The table is not used.
    PatDisabled(String),
    /// Two mappings want one range with different types; the second was refused.
    Conflict {
        /// First byte.
        start: u64,
        /// First byte after.
        end: u64,
        /// The type that was wanted.
        wanted: String,
        /// The type that the range has.
        found: String,
    },
    /// A program's mapping of RAM got another type than its driver asked for (arch/x86/mm/pat/memtype.c, `reserve_pfn_range`).
    RamType {
        /// The type that was wanted.
        wanted: String,
        /// The type that it got.
        got: String,
    },
    /// A driver tried to map memory as if it were a device.
    IoremapOnRam {
        /// First byte.
        start: Option<u64>,
    },
    /// A new MTRR lies in another of a different type.
    MtrrMismatch {
        /// First byte.
        base: u64,
        /// Length.
        size: u64,
        /// The type there is.
        old: String,
        /// The type that was wanted.
        new: String,
    },
    /// A new MTRR overlaps another in part.
    MtrrOverlap(String),
    /// Firmware had set the registers of the processors differently, and the kernel made them alike.
    MtrrsRepaired,
    /// Every MTRR is in use.
    MtrrsExhausted,
    /// Memory that no MTRR makes cacheable was taken away.
    MemoryTrimmed {
        /// How much.
        mebibytes: u64,
    },
}

/// Reads a message about memory types.
pub(super) fn read(body: &str) -> Option<MemoryTypeMessage> {
    match body.as_bytes().first()? {
        b'x' if body.starts_with("x86/PAT: ") || body.starts_with("x86 PAT") => parse_pat(body),
        b'm' if body.starts_with("mtrr: ") => parse_mtrr(body),
        b'W' => trimmed(body),
        b'i' if body.starts_with("ioremap on RAM") => {
            Some(MemoryTypeMessage::IoremapOnRam { start: scan::hex_after(body, " at ") })
        }
        _ if body.contains(" conflicting memory types ") => conflict(body),
        _ => None,
    }
}

/// Parses the memory types in the PAT register.
fn parse_pat(body: &str) -> Option<MemoryTypeMessage> {
    if let Some(types) = scan::after(body, "Configuration [0-7]: ") {
        let types = types.split_whitespace().map(str::to_owned).collect();
        return Some(MemoryTypeMessage::PatConfiguration(types));
    }
    // Up to 3.10 the register itself: "x86 PAT enabled: cpu 0, old 0x..., new 0x...".
    if let Some(register) = scan::hex_after(body, ", new ") {
        let types = register.to_le_bytes().iter().map(|entry| pat_type(*entry).to_owned()).collect();
        return Some(MemoryTypeMessage::PatConfiguration(types));
    }
    if body.contains("PAT not supported") || body.contains("PAT support disabled") {
        return Some(MemoryTypeMessage::PatDisabled(scan::words(body)));
    }
    conflict(body).or_else(|| ram_type(body))
}

/// `x86/PAT: Xorg:812 map pfn RAM range req write-combining for [mem 0x1000-0x1fff], got write-back`.
fn ram_type(body: &str) -> Option<MemoryTypeMessage> {
    let (wanted, rest) = scan::after(body, " map pfn RAM range req ")?.split_once(" for [mem ")?;
    let (_, got) = rest.split_once("], got ")?;
    Some(MemoryTypeMessage::RamType { wanted: wanted.to_owned(), got: scan::words(got) })
}

/// Encodings of the IA32_PAT register (Intel SDM volume 3, table 12-10).
fn pat_type(entry: u8) -> &'static str {
    match entry & 7 {
        0 => "UC",
        1 => "WC",
        4 => "WT",
        5 => "WP",
        6 => "WB",
        7 => "UC-",
        _ => "reserved",
    }
}

/// `Xorg:1234 conflicting memory types d0000000-e0000000 write-combining<->uncached-minus`.
fn conflict(body: &str) -> Option<MemoryTypeMessage> {
    let mut words = scan::after(body, " conflicting memory types ")?.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (wanted, found) = words.next()?.split_once("<->")?;
    Some(MemoryTypeMessage::Conflict {
        start: scan::hex(start)?,
        end: scan::hex(end)?,
        wanted: wanted.to_owned(),
        found: found.to_owned(),
    })
}

/// Parses a message with the prefix `mtrr: `.
fn parse_mtrr(body: &str) -> Option<MemoryTypeMessage> {
    let rest = body.strip_prefix("mtrr: ")?;
    if let Some(mismatch) = rest.strip_prefix("type mismatch for ") {
        let (range, types) = mismatch.split_once(" old: ")?;
        let (base, size) = range.split_once(',')?;
        let (old, new) = types.split_once(" new: ")?;
        return Some(MemoryTypeMessage::MtrrMismatch {
            base: scan::hex(base)?,
            size: scan::hex(size)?,
            old: old.to_owned(),
            new: scan::words(new),
        });
    }
    if rest.contains(" overlaps existing ") {
        return Some(MemoryTypeMessage::MtrrOverlap(scan::words(rest)));
    }
    if rest.starts_with("your CPUs had inconsistent ") || rest.starts_with("corrected configuration") {
        return Some(MemoryTypeMessage::MtrrsRepaired);
    }
    rest.starts_with("no more MTRRs available").then_some(MemoryTypeMessage::MtrrsExhausted)
}

/// `WARNING: BIOS bug: CPU MTRRs don't cover all of memory, losing 1024MB of RAM.`
fn trimmed(body: &str) -> Option<MemoryTypeMessage> {
    let rest = body.strip_prefix("WARNING: BIOS bug: CPU MTRRs don't cover all of memory, losing ")?;
    Some(MemoryTypeMessage::MemoryTrimmed { mebibytes: scan::decimal(rest)? })
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "MemoryType", expect);
    }

    #[test]
    fn messages() {
        check(
            "x86/PAT: Configuration [0-7]: WB  WC  UC- UC  WB  WP  UC- WT  ",
            r#"PatConfiguration(["WB", "WC", "UC-", "UC", "WB", "WP", "UC-", "WT"])"#,
        );
        check(
            "x86 PAT enabled: cpu 0, old 0x7040600070406, new 0x7010600070106",
            r#"PatConfiguration(["WB", "WC", "UC-", "UC", "WB", "WC", "UC-", "UC"])"#,
        );
        check(
            "x86/PAT: PAT not supported by the CPU.",
            r#"PatDisabled("x86/PAT: PAT not supported by the CPU.")"#,
        );
        check(
            "x86/PAT: Xorg:1234 conflicting memory types d0000000-e0000000 write-combining<->uncached-minus",
            r#"Conflict { start: 3489660928, end: 3758096384, wanted: "write-combining", found: "uncached-minus" }"#,
        );
        check(
            "Xorg:1234 conflicting memory types d0000000-e0000000 write-combining<->uncached-minus",
            r#"Conflict { start: 3489660928, end: 3758096384, wanted: "write-combining", found: "uncached-minus" }"#,
        );
        check(
            "ioremap on RAM at 0x0000000100000000 - 0x0000000100000fff",
            "IoremapOnRam { start: Some(4294967296) }",
        );
        check(
            "mtrr: type mismatch for d0000000,8000000 old: write-back new: write-combining",
            r#"MtrrMismatch { base: 3489660928, size: 134217728, old: "write-back", new: "write-combining" }"#,
        );
        check(
            "mtrr: 0xd0000000,0x8000000 overlaps existing 0xd0000000,0x1000000",
            r#"MtrrOverlap("0xd0000000,0x8000000 overlaps existing 0xd0000000,0x1000000")"#,
        );
        check("mtrr: your CPUs had inconsistent fixed MTRR settings", "MtrrsRepaired");
        check("mtrr: corrected configuration.", "MtrrsRepaired");
        check("mtrr: no more MTRRs available", "MtrrsExhausted");
        check(
            "WARNING: BIOS bug: CPU MTRRs don't cover all of memory, losing 1024MB of RAM.",
            "MemoryTrimmed { mebibytes: 1024 }",
        );
    }
}
