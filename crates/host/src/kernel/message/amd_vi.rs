//! AMD-Vi: drivers/iommu/amd/{init,iommu,iommu_v2}.c, arch/x86/events/amd/iommu.c.

use super::scan;
use crate::Bdf;

/// A message of the AMD-Vi driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AmdViMessage {
    /// An IOMMU was found and set up.
    Found {
        /// Where, if the message names the place itself (up to 4.14).
        at: Option<String>,
        /// Offset of its PCI capability.
        capability: Option<u32>,
    },
    /// What the hardware can do.
    Features(String),
    /// Domains invalidate in batches, or at each unmap. Printed under identity too.
    LazyFlush(bool),
    /// The driver started with identity as the default.
    InitialisedPassthrough,
    /// Lazy invalidation is off because this is a guest.
    StrictInGuest,
    /// SEV-SNP was refused: the IOMMU is off, or passes addresses through.
    SnpNeedsTranslation,
    /// Interrupt remapping is on. It translates no DMA.
    InterruptRemapping,
    /// There is no IOMMUv2. Also printed on machines of other makers: it proves no IOMMU, nor its absence.
    NoIommuV2,
    /// The IOMMU's performance counters exist, and so does the IOMMU.
    Counters,
    /// AMD-Vi is off.
    Disabled(String),
    /// A word of `amd_iommu=` that the kernel does not know.
    UnknownOption(String),
    /// A word of `amd_iommu=` that will go away.
    DeprecatedOption(String),
    /// Invalidations are not completed in time.
    CompletionTimeout,
    /// A device did not answer an invalidation of the translations that it keeps (ATS).
    InvalidationTimeout(Option<Bdf>),
    /// The IOMMU rejected a command, or could not read it.
    CommandRejected(String),
    /// This is a crash kernel, which begins with the tables of the kernel that crashed.
    InheritedTables,
    /// Firmware's IVRS table is wrong, or an option overrides it.
    FirmwareTable(String),
    /// Another message of the driver.
    Other(String),
}

/// Reads a message of the AMD-Vi driver.
pub(super) fn read(body: &str) -> Option<AmdViMessage> {
    if body.starts_with("perf") {
        return parse_counters(body);
    }
    if body.starts_with("[Firmware") {
        let ours = body.contains("AMD-Vi") || body.contains("IVRS");
        return ours.then(|| AmdViMessage::FirmwareTable(scan::words(body)));
    }
    // RHEL 7 and older print these two without the prefix.
    let bare = body.starts_with("AMD IOMMUv2 functionality") || body.starts_with("AMD IOMMU disabled");
    let mut rest = if bare { body } else { body.strip_prefix("AMD-Vi:")?.trim_start() };
    // Some versions print the prefix twice.
    rest = rest.strip_prefix("AMD-Vi: ").unwrap_or(rest);
    parse_option(rest).or_else(|| parse_state(rest)).or_else(|| Some(AmdViMessage::Other(scan::words(rest))))
}

/// Parses the line on performance counters, of `perf/amd_iommu`.
fn parse_counters(body: &str) -> Option<AmdViMessage> {
    // "perf/amd_iommu: Detected AMD IOMMU #0 (2 banks, 4 counters/bank)." and "perf: amd_iommu: Detected."
    let found = body.contains("amd_iommu: Detected") || body.contains("AMD IOMMU detected");
    (found && !body.contains("(0 banks")).then_some(AmdViMessage::Counters)
}

/// Parses `Unknown option - 'x'` and `x deprecated; use y`.
fn parse_option(rest: &str) -> Option<AmdViMessage> {
    if let Some(option) = scan::between(rest, "Unknown option - '", "'") {
        return Some(AmdViMessage::UnknownOption(option.to_owned()));
    }
    let (option, _) = rest.split_once(" deprecated; use ")?;
    Some(AmdViMessage::DeprecatedOption(option.to_owned()))
}

/// Parses what the driver prints when it starts: units, features, flush mode.
fn parse_state(rest: &str) -> Option<AmdViMessage> {
    let words = || scan::words(rest);
    if let Some(found) = rest.strip_prefix("Found IOMMU") {
        let at = scan::between(found, " at ", " ").map(str::to_owned);
        let capability = scan::after(found, "cap ").and_then(scan::small_hex);
        return Some(AmdViMessage::Found { at, capability });
    }
    let starts = |start: &str| rest.starts_with(start);
    if starts("Extended features") {
        return Some(AmdViMessage::Features(words()));
    }
    if starts("Lazy IO/TLB flushing enabled") {
        return Some(AmdViMessage::LazyFlush(true));
    }
    if starts("IO/TLB flush on unmap enabled") {
        return Some(AmdViMessage::LazyFlush(false));
    }
    if starts("Initialized for Passthrough") {
        return Some(AmdViMessage::InitialisedPassthrough);
    }
    if starts("Using strict mode due to virtualization") {
        return Some(AmdViMessage::StrictInGuest);
    }
    // "SEV-SNP: IOMMU is either disabled or ...", "SNP: IOMMU disabled or ...", "SNP: IOMMU is disabled or ...".
    if rest.contains("SNP: IOMMU") && rest.contains("configured in passthrough mode") {
        return Some(AmdViMessage::SnpNeedsTranslation);
    }
    if starts("Interrupt remapping enabled") {
        return Some(AmdViMessage::InterruptRemapping);
    }
    if rest.contains("IOMMUv2 functionality not available") {
        return Some(AmdViMessage::NoIommuV2);
    }
    if starts("Completion-Wait loop timed out") || starts("Command buffer timeout") {
        return Some(AmdViMessage::CompletionTimeout);
    }
    if let Some(event) = rest.strip_prefix("Event logged [") {
        return Some(parse_command_event(event));
    }
    if starts("Translation is already enabled - trying to") || starts("Copied DEV table from previous kernel")
    {
        return Some(AmdViMessage::InheritedTables);
    }
    if starts("AMD IOMMU disabled") || starts("disabled") || starts("Disabling IOMMU") {
        return Some(AmdViMessage::Disabled(words()));
    }
    (starts("ivrs") || starts("[Firmware") || starts("IVRS")).then(|| AmdViMessage::FirmwareTable(words()))
}

/// Parses the events that are about the driver's commands: `IOTLB_INV_TIMEOUT device=06:00.0 address=0x1001e4600]`,
/// `ILLEGAL_COMMAND_ERROR address=0x...]`. The device before the message is then the IOMMU. Others are faults.
fn parse_command_event(event: &str) -> AmdViMessage {
    match event.strip_prefix("IOTLB_INV_TIMEOUT") {
        Some(rest) => AmdViMessage::InvalidationTimeout(scan::after(rest, "device=").and_then(scan::bdf)),
        None => AmdViMessage::CommandRejected(scan::words(event.trim_end_matches(']'))),
    }
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "AmdVi", expect);
    }

    #[test]
    fn messages() {
        check(
            "AMD-Vi: Found IOMMU at 0000:00:00.2 cap 0x40",
            r#"Found { at: Some("0000:00:00.2"), capability: Some(64) }"#,
        );
        check("pci 0000:00:00.2: AMD-Vi: Found IOMMU cap 0x40", "Found { at: None, capability: Some(64) }");
        check(
            "AMD-Vi: Extended features (0x58f77ef22294ade, 0x0): PPR X2APIC NX GT IA GA PC GA_vAPIC",
            r#"Features("Extended features (0x58f77ef22294ade, 0x0): PPR X2APIC NX GT IA GA PC GA_vAPIC")"#,
        );
        check("AMD-Vi: Lazy IO/TLB flushing enabled", "LazyFlush(true)");
        check("AMD-Vi: IO/TLB flush on unmap enabled", "LazyFlush(false)");
        check("AMD-Vi: Initialized for Passthrough Mode", "InitialisedPassthrough");
        check("AMD-Vi: Using strict mode due to virtualization", "StrictInGuest");
        check("AMD-Vi: Interrupt remapping enabled", "InterruptRemapping");
        check(
            "AMD-Vi: AMD IOMMUv2 functionality not available on this system - This is not a bug.",
            "NoIommuV2",
        );
        check("AMD IOMMUv2 functionality not available on this system", "NoIommuV2");
        check("perf/amd_iommu: Detected AMD IOMMU #0 (2 banks, 4 counters/bank).", "Counters");
        check("AMD-Vi: Unknown option - 'pt'", r#"UnknownOption("pt")"#);
        check(
            "AMD-Vi: amd_iommu=fullflush deprecated; use iommu.strict=1 instead",
            r#"DeprecatedOption("amd_iommu=fullflush")"#,
        );
        check("AMD-Vi: Completion-Wait loop timed out", "CompletionTimeout");
        check(
            "AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=0000:0a:00.0 address=0x7f8f0]",
            "InvalidationTimeout(Some(0000:0a:00.0))",
        );
        check(
            "iommu ivhd0: AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=06:00.0 address=0x1001e4600]",
            "InvalidationTimeout(Some(0000:06:00.0))",
        );
        check(
            "pci 0000:00:00.2: AMD-Vi: Event logged [ILLEGAL_COMMAND_ERROR address=0x100204000]",
            r#"CommandRejected("ILLEGAL_COMMAND_ERROR address=0x100204000")"#,
        );
        check(
            "AMD-Vi: Translation is already enabled - trying to copy translation structures",
            "InheritedTables",
        );
        check(
            "AMD-Vi: AMD IOMMU disabled on kernel command-line",
            r#"Disabled("AMD IOMMU disabled on kernel command-line")"#,
        );
        check(
            "[Firmware Warn]: AMD-Vi: IVRS invalid checksum",
            r#"FirmwareTable("[Firmware Warn]: AMD-Vi: IVRS invalid checksum")"#,
        );
        check(
            r#"AMD-Vi: ivrs, add hid:AMDI0020, uid:\_SB.FUR0, rdevid:160"#,
            r#"FirmwareTable("ivrs, add hid:AMDI0020, uid:\\_SB.FUR0, rdevid:160")"#,
        );
        check("AMD-Vi: Virtual APIC enabled", r#"Other("Virtual APIC enabled")"#);
        check(
            "AMD-Vi: Using global IVHD EFR:0x0, EFR2:0x0",
            r#"Other("Using global IVHD EFR:0x0, EFR2:0x0")"#,
        );
        check(
            "AMD-Vi: SEV-SNP: IOMMU is either disabled or configured in passthrough mode.",
            "SnpNeedsTranslation",
        );
    }
}
