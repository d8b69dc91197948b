//! Intel VT-d: drivers/iommu/intel/{iommu,dmar,irq_remapping}.c, earlier drivers/pci/{intel-iommu,dmar}.c.

use super::scan;
use crate::Bdf;

/// A message of the VT-d driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VtDMessage {
    /// The option that turns VT-d on was read. The hardware may still be missing or fail.
    EnableRequested,
    /// The option that turns VT-d off was read.
    DisableRequested,
    /// VT-d is on because firmware asks for it.
    ForcedByFirmware,
    /// Translation is really on.
    Active,
    /// How a unit is told to invalidate.
    Invalidation {
        /// The unit, as the kernel names it.
        unit: String,
        /// By a queue in memory, as opposed to registers.
        queued: bool,
    },
    /// A unit in the ACPI table.
    Unit {
        /// Its registers' address.
        base: u64,
    },
    /// What a unit can do.
    UnitRegisters {
        /// The unit, as the kernel names it.
        unit: String,
        /// Capability register.
        cap: u64,
        /// Extended capability register.
        ecap: u64,
    },
    /// Width of the host's addresses.
    HostAddressWidth(u32),
    /// Memory that firmware wants mapped for a device.
    ReservedRegion {
        /// First byte.
        base: u64,
        /// Last byte.
        end: u64,
    },
    /// A kind of table that ACPI does not have: `RMRR`, `ATSR`, `SATC`.
    TableMissing(String),
    /// The kernel chose identity (or not) for one device, by its mask or its kind.
    DeviceMapping {
        /// The device.
        device: Option<Bdf>,
        /// Identity, as opposed to translated.
        identity: bool,
    },
    /// Interrupt remapping is on. It translates no DMA.
    InterruptRemapping,
    /// Lazy invalidation is off because this is a guest.
    StrictInGuest,
    /// Lazy invalidation is off because an option says so.
    StrictRequested,
    /// Integrated graphics goes untranslated.
    GraphicsUntranslated,
    /// Firmware's tables are wrong; VT-d may be off because of it.
    BrokenFirmware(String),
    /// A step of setting VT-d up went wrong. Whether translation is on is told by [`Self::Active`] alone.
    SetupProblem(String),
    /// A word of `intel_iommu=` that the kernel does not know.
    UnknownOption(String),
    /// A word of `intel_iommu=` that will go away.
    DeprecatedOption(String),
    /// The reason of a fault whose first line is missing.
    FaultReason(String),
    /// The fault status register, as faults are being read out.
    FaultStatus(u32),
    /// An invalidation went wrong.
    InvalidationError {
        /// What.
        kind: InvalidationError,
        /// The device that the hardware names as the one that did not answer.
        device: Option<Bdf>,
    },
    /// A mapping was refused, because its IOVA has more bits than the domain.
    BeyondWidth {
        /// Bits of the domain's IOVAs.
        bits: u32,
        /// The IOVA.
        address: u64,
    },
    /// A driver unmapped what it had not mapped (up to 5.1, `intel_unmap`).
    UnmatchedUnmap,
    /// This is a crash kernel, which begins with the tables of the kernel that crashed.
    InheritedTables,
}

/// What can go wrong with an invalidation (VT-d specification, fault status register).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InvalidationError {
    /// IQE: the unit could not read a command, or rejected it.
    Queue,
    /// ICE: the answer of a device does not fit any request.
    Completion,
    /// ITE: a device did not answer an invalidation of the translations that it keeps (ATS).
    TimeOut,
}

/// Reads a message of the VT-d driver.
pub(super) fn read(body: &str) -> Option<VtDMessage> {
    if body.starts_with("Driver unmaps unmatched page") {
        return Some(VtDMessage::UnmatchedUnmap);
    }
    if let Some(beyond) = parse_beyond_width(body) {
        return Some(beyond);
    }
    if let Some(broken) = parse_broken_firmware(body) {
        return Some(broken);
    }
    let rest = strip_prefix_of_driver(body)?;
    parse_fixed_line(rest)
        .or_else(|| parse_unit(rest))
        .or_else(|| parse_table(rest))
        .or_else(|| parse_mapping(rest))
        .or_else(|| parse_invalidation_error(rest))
        .or_else(|| parse_problem(rest))
}

/// The message without the prefix that the driver prints; the prefix differs between kernels.
fn strip_prefix_of_driver(body: &str) -> Option<&str> {
    const PREFIXES: [&str; 8] =
        ["DMAR: ", "DMAR-IR: ", "DMAR:", "dmar: ", "Intel-IOMMU: ", "PCI-DMA: Intel", "IOMMU: ", "IOMMU "];
    let prefix = PREFIXES.into_iter().find(|prefix| body.starts_with(prefix))?;
    // "Intel" itself belongs to the message.
    let end = if prefix.ends_with("Intel") { "PCI-DMA: ".len() } else { prefix.len() };
    body.get(end..).map(|rest| rest.strip_prefix("DMAR:").unwrap_or(rest).trim_start())
}

/// Parses messages without variable parts.
fn parse_fixed_line(rest: &str) -> Option<VtDMessage> {
    Some(match rest.trim_end() {
        "IOMMU enabled" | "enabled" => VtDMessage::EnableRequested,
        "IOMMU disabled" | "disabled" => VtDMessage::DisableRequested,
        "Intel(R) Virtualization Technology for Directed I/O" => VtDMessage::Active,
        "Intel-IOMMU force enabled due to platform opt in" => VtDMessage::ForcedByFirmware,
        "disable batched IOTLB flush" | "Disable batched IOTLB flush" => VtDMessage::StrictRequested,
        "Disable GFX device mapping" | "disable GFX device mapping" => VtDMessage::GraphicsUntranslated,
        _ => return None,
    })
}

/// Parses messages about one IOMMU unit.
fn parse_unit(rest: &str) -> Option<VtDMessage> {
    if let Some((unit, how)) = rest.split_once(": Using ").or_else(|| rest.split_once(": using ")) {
        let queued = how.starts_with("Queued");
        let known = queued || how.starts_with("Register");
        return known.then(|| VtDMessage::Invalidation { unit: unit.to_owned(), queued });
    }
    // 3.6 says "dmar: IOMMU 0", 2.6.32 "IOMMU 0", later ones "dmar0".
    let rest = rest.strip_prefix("IOMMU ").unwrap_or(rest);
    if let Some((unit, registers)) = rest.split_once(": reg_base_addr ") {
        return Some(VtDMessage::UnitRegisters {
            unit: unit.to_owned(),
            cap: scan::hex_after(registers, " cap ")?,
            ecap: scan::hex_after(registers, " ecap ")?,
        });
    }
    if rest.starts_with("Enabled IRQ remapping") {
        return Some(VtDMessage::InterruptRemapping);
    }
    let status = rest.strip_prefix("DRHD: handling fault status reg ")?;
    Some(VtDMessage::FaultStatus(scan::small_hex(status)?))
}

/// Parses what the firmware's DMAR table contains.
fn parse_table(rest: &str) -> Option<VtDMessage> {
    if let Some(base) = rest.strip_prefix("DRHD base: ") {
        return Some(VtDMessage::Unit { base: scan::hex(base)? });
    }
    if let Some(base) = rest.strip_prefix("RMRR base: ") {
        let end = scan::hex_after(base, "end: ")?;
        return Some(VtDMessage::ReservedRegion { base: scan::hex(base)?, end });
    }
    if let Some(width) = rest.strip_prefix("Host address width ") {
        return Some(VtDMessage::HostAddressWidth(scan::small(width)?));
    }
    let kind = rest.strip_prefix("No ")?.trim_end().strip_suffix(" found")?;
    match kind {
        "RMRR" | "ATSR" | "SATC" => Some(VtDMessage::TableMissing(kind.to_owned())),
        _ => Some(VtDMessage::SetupProblem(scan::words(rest))),
    }
}

/// `64bit 0000:03:00.0 uses identity mapping`, `Hardware identity mapping for device 0000:03:00.0`.
fn parse_mapping(rest: &str) -> Option<VtDMessage> {
    if let Some(device) = scan::after(rest, " identity mapping for device ") {
        return Some(VtDMessage::DeviceMapping { device: scan::bdf(device), identity: true });
    }
    let (device, how) =
        rest.strip_prefix("64bit ").or_else(|| rest.strip_prefix("32bit "))?.split_once(" uses ")?;
    let identity = how.starts_with("identity");
    Some(VtDMessage::DeviceMapping { device: scan::bdf(device), identity })
}

/// Parses invalid options, faults and failures of the setup.
fn parse_problem(rest: &str) -> Option<VtDMessage> {
    let words = || scan::words(rest);
    if let Some(option) = scan::between(rest, "Unknown option - '", "'") {
        return Some(VtDMessage::UnknownOption(option.to_owned()));
    }
    if let Some(option) = rest.split_once(" deprecated; use ") {
        return Some(VtDMessage::DeprecatedOption(option.0.to_owned()));
    }
    if rest.contains("batch") && rest.contains("virtualization") {
        return Some(VtDMessage::StrictInGuest);
    }
    if rest.starts_with("[fault reason ") {
        return Some(VtDMessage::FaultReason(words()));
    }
    if rest.starts_with("Translation already enabled - trying to copy")
        || rest.starts_with("Copied translation tables from previous kernel")
    {
        return Some(VtDMessage::InheritedTables);
    }
    if rest.contains("isabling IOMMU for graphics") {
        return Some(VtDMessage::GraphicsUntranslated);
    }
    let failures = [
        "Initialization failed",
        "Failed to",
        "failed to",
        "parse DMAR table failure",
        "Parse DMAR table failure",
        "DMAR table not",
        "Intel IOMMU is disabled",
        "Disabling IOMMU",
    ];
    failures.iter().any(|start| rest.starts_with(start)).then(|| VtDMessage::SetupProblem(words()))
}

/// `intel_iommu_map: iommu width (39) is not sufficient for the mapped address (8800001000)`.
fn parse_beyond_width(body: &str) -> Option<VtDMessage> {
    let (bits, address) =
        scan::after(body, ": iommu width (")?.split_once(") is not sufficient for the mapped address (")?;
    Some(VtDMessage::BeyondWidth { bits: scan::small(bits)?, address: scan::hex(address)? })
}

/// `VT-d detected Invalidation Time-out Error: SID 6500` of `qi_dump_fault`. The requester ID is 0 where the unit does not tell.
fn parse_invalidation_error(rest: &str) -> Option<VtDMessage> {
    let (kind, id) = rest.strip_prefix("VT-d detected Invalidation ")?.split_once(" Error: ")?;
    let kind = match kind {
        "Queue" => InvalidationError::Queue,
        "Completion" => InvalidationError::Completion,
        "Time-out" => InvalidationError::TimeOut,
        _ => return None,
    };
    let id = id.strip_prefix("SID ").and_then(scan::hex).and_then(|id| u16::try_from(id).ok());
    let device = id.filter(|id| !matches!(*id, 0 | u16::MAX)).map(Bdf::of_requester_id);
    Some(VtDMessage::InvalidationError { kind, device })
}

/// Parses warnings that the firmware describes VT-d wrongly.
fn parse_broken_firmware(body: &str) -> Option<VtDMessage> {
    let may = body.starts_with("Your BIOS is broken")
        || ["[Firmware Bug]: ", "[Firmware Warn]: ", "DMAR", "WARNING: Your", "IOMMU"]
            .iter()
            .any(|p| body.starts_with(p));
    let about_vt_d = body.contains("Your BIOS is broken")
        || (body.starts_with("DMAR") && body.contains("[Firmware"))
        || (body.starts_with("[Firmware") && (body.contains("DMAR") || body.contains("interrupt remapping")));
    // AMD's own firmware messages name themselves.
    (may && about_vt_d && !body.contains("AMD-Vi")).then(|| VtDMessage::BrokenFirmware(scan::words(body)))
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "VtD", expect);
    }

    #[test]
    fn messages() {
        check(
            "dmar: IOMMU 0: reg_base_addr fbffe000 ver 1:0 cap c90780106f0462 ecap f0207e",
            r#"UnitRegisters { unit: "0", cap: 56584716931761250, ecap: 15736958 }"#,
        );
        check("DMAR: IOMMU enabled", "EnableRequested");
        check("Intel-IOMMU: enabled", "EnableRequested");
        check("DMAR: IOMMU disabled", "DisableRequested");
        check("DMAR: Intel-IOMMU force enabled due to platform opt in", "ForcedByFirmware");
        check("DMAR: Intel(R) Virtualization Technology for Directed I/O", "Active");
        check("PCI-DMA: Intel(R) Virtualization Technology for Directed I/O", "Active");
        check("DMAR: dmar0: Using Queued invalidation", r#"Invalidation { unit: "dmar0", queued: true }"#);
        check(
            "DMAR: dmar1: Using Register based invalidation",
            r#"Invalidation { unit: "dmar1", queued: false }"#,
        );
        check(
            "IOMMU 0xfed90000: using Queued invalidation",
            r#"Invalidation { unit: "0xfed90000", queued: true }"#,
        );
        check(
            "IOMMU 0 0xfed90000: using Queued invalidation",
            r#"Invalidation { unit: "0 0xfed90000", queued: true }"#,
        );
        check("DMAR: DRHD base: 0x000000fed90000 flags: 0x0", "Unit { base: 4275634176 }");
        check("dmar: DRHD base: 0x000000dfffc000 flags: 0x0", "Unit { base: 3758080000 }");
        check(
            "DMAR: dmar0: reg_base_addr fed90000 ver 1:0 cap d2008c22260206 ecap f00f4a",
            r#"UnitRegisters { unit: "dmar0", cap: 59110346977575430, ecap: 15732554 }"#,
        );
        check(
            "IOMMU 0: reg_base_addr fed90000 ver 1:0 cap c9008020e30260 ecap 1000",
            r#"UnitRegisters { unit: "0", cap: 56577020626403936, ecap: 4096 }"#,
        );
        check("DMAR: Host address width 39", "HostAddressWidth(39)");
        check(
            "DMAR: RMRR base: 0x0000007b800000 end: 0x0000007fffffff",
            "ReservedRegion { base: 2071986176, end: 2147483647 }",
        );
        check("DMAR: No ATSR found", r#"TableMissing("ATSR")"#);
        check("DMAR: No DMAR devices found", r#"SetupProblem("No DMAR devices found")"#);
        check(
            "DMAR: 64bit 0000:03:00.0 uses identity mapping",
            "DeviceMapping { device: Some(0000:03:00.0), identity: true }",
        );
        check(
            "DMAR: 32bit 0000:03:00.1 uses non-identity mapping",
            "DeviceMapping { device: Some(0000:03:00.1), identity: false }",
        );
        check(
            "DMAR: Hardware identity mapping for device 0000:00:1f.2",
            "DeviceMapping { device: Some(0000:00:1f.2), identity: true }",
        );
        check("DMAR-IR: Enabled IRQ remapping in x2apic mode", "InterruptRemapping");
        check("DMAR: IOMMU batching disallowed due to virtualization", "StrictInGuest");
        check("DMAR: Disable batched IOTLB flush due to virtualization", "StrictInGuest");
        check("DMAR: Disable batched IOTLB flush", "StrictRequested");
        check("DMAR: Disable GFX device mapping", "GraphicsUntranslated");
        check("DMAR: BIOS has allocated no shadow GTT; disabling IOMMU for graphics", "GraphicsUntranslated");
        check(
            "[Firmware Bug]: Your BIOS is broken; DMAR reported at address fed90000 returns all ones!",
            r#"BrokenFirmware("[Firmware Bug]: Your BIOS is broken; DMAR reported at address fed90000 returns all ones!")"#,
        );
        check(
            "DMAR: [Firmware Bug]: No firmware reserved region can cover this RMRR [0x00000000bf800000-0x00000000bfffffff], contact BIOS vendor for fixes",
            r#"BrokenFirmware("DMAR: [Firmware Bug]: No firmware reserved region can cover this RMRR [0x00000000bf800000-0x00000000bfffffff], contact BIOS vendor for fixes")"#,
        );
        check(
            r#"DMAR: Failed to find handle for ACPI object \_SB.PCI0"#,
            r#"SetupProblem("Failed to find handle for ACPI object \\_SB.PCI0")"#,
        );
        check("DMAR: Unknown option - 'pt'", r#"UnknownOption("pt")"#);
        check(
            "DMAR: intel_iommu=strict deprecated; use iommu.strict=1 instead",
            r#"DeprecatedOption("intel_iommu=strict")"#,
        );
        check("DMAR: DRHD: handling fault status reg 2", "FaultStatus(2)");
        check(
            "DMAR: VT-d detected Invalidation Time-out Error: SID 6500",
            "InvalidationError { kind: TimeOut, device: Some(0000:65:00.0) }",
        );
        check(
            "DMAR: VT-d detected Invalidation Time-out Error: SID 0",
            "InvalidationError { kind: TimeOut, device: None }",
        );
        check(
            "DMAR: VT-d detected Invalidation Queue Error: Reason f",
            "InvalidationError { kind: Queue, device: None }",
        );
        check(
            "DMAR: intel_iommu_map: iommu width (39) is not sufficient for the mapped address (8800001000)",
            "BeyondWidth { bits: 39, address: 584115556352 }",
        );
        check(
            "intel_iommu_map: iommu width (39) is not sufficient for the mapped address (8800001000)",
            "BeyondWidth { bits: 39, address: 584115556352 }",
        );
        check("Driver unmaps unmatched page at PFN 201a556000", "UnmatchedUnmap");
        check("DMAR: Translation already enabled - trying to copy translation structures", "InheritedTables");
        check(
            "DMAR:[fault reason 06] PTE Read access is not set",
            r#"FaultReason("[fault reason 06] PTE Read access is not set")"#,
        );
    }
}
