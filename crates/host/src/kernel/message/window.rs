//! POWER's DMA windows: arch/powerpc/platforms/pseries/iommu.c, platforms/powernv/pci-ioda.c,
//! kernel/{iommu,dma-iommu}.c.
//!
//! Numbers in the firmware call lines are hexadecimal without `0x`, except `returned` and `wn`.

use super::scan;

/// A message about DMA windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WindowMessage {
    /// Firmware was asked which windows it could make.
    Query {
        /// The endpoint: bus, device, function as firmware writes them, or the EEH address.
        config_address: u32,
        /// Firmware's answer, 0 for success.
        returned: i64,
        /// Largest window, in entries.
        entries_max: Option<u64>,
        /// Page sizes it offers, a bit for each.
        page_sizes: Option<u32>,
        /// Windows that can still be made.
        windows: Option<u32>,
    },
    /// Firmware was asked to make a window.
    Create {
        /// The endpoint.
        config_address: u32,
        /// Page size, as a power of two.
        page_shift: u32,
        /// Window size, as a power of two.
        window_shift: u32,
        /// Firmware's answer, 0 for success.
        returned: i64,
        /// The window's logical I/O bus number.
        liobn: Option<u32>,
        /// Its first bus address.
        start: Option<u64>,
    },
    /// All memory is mapped at this offset (up to 4.19; later kernels say nothing).
    Direct {
        /// What is added to a physical address.
        offset: u64,
    },
    /// The device left direct mode.
    Restored32Bit,
    /// A window could not be filled.
    MapFailed(String),
    /// Direct DMA reaches only part of memory; the rest is mapped one by one.
    DirectLimited {
        /// The first bus address out of reach.
        limit: u64,
    },
    /// Addresses are added, not mapped (a debug message).
    FixedOps,
    /// Addresses are mapped one by one (a debug message).
    DefaultOps,
    /// The window is too small for the partition's memory.
    CannotMapMemory(String),
    /// Firmware has no window left.
    NoFreeWindow,
    /// The mask that a bypass would need.
    BypassMask(u64),
    /// The 32-bit window was given up.
    DefaultRemoved,
    /// The table is in use and stays.
    TableInUse,
    /// Whether firmware limits addresses, and whether memory is mapped once.
    LimitedAddresses {
        /// The device needs it.
        required: bool,
        /// Firmware does it.
        enabled: bool,
        /// All memory is mapped once.
        direct: bool,
    },
    /// Firmware cannot limit addresses.
    LimitedAddressesUnsupported,
    /// `disable_ddw` was read.
    Disabled,
    /// Persistent memory is left out of the direct window.
    PersistentMemorySkipped,
    /// A mapping failed: the window is full.
    Exhausted {
        /// Pages asked for. RHEL 6 prints them in hexadecimal, which looks the same: it is read as
        /// decimal unless a letter shows.
        pages: Option<u64>,
    },
    /// Firmware refused an entry; the mapping was still reported as made.
    EntryRefused(String),
    /// The device's mask cannot reach the window.
    OutOfReach(String),
    /// Bare metal: the device bypasses translation (true) or uses its 32-bit window (false).
    BareMetalBypass(bool),
    /// Whether scatter lists are merged into one range.
    VirtualMerging(bool),
}

/// Reads a message about DMA windows.
pub(super) fn read(body: &str) -> Option<WindowMessage> {
    match body.as_bytes().first()? {
        b'i' => {
            parse_firmware_call(body).or_else(|| parse_operations(body)).or_else(|| parse_exhausted(body))
        }
        b'U' | b'R' | b'E' => parse_mode(body),
        b'f' | b'F' => parse_map_failure(body),
        b'c' => parse_capacity(body),
        b'n' => body.starts_with("no free dynamic windows").then_some(WindowMessage::NoFreeWindow),
        b'd' => scan::hex_after(body, "returning bypass mask ").map(WindowMessage::BypassMask),
        b'l' | b'L' => parse_limited_addresses(body),
        b'p' => body.starts_with("ppc iommu: disabling ddw").then_some(WindowMessage::Disabled),
        b'[' => parse_bare_metal_bypass(body),
        b't' => parse_entry_refused(body),
        b'S' => {
            let skipped = body.starts_with("Skipping ibm,pmemory");
            skipped.then_some(WindowMessage::PersistentMemorySkipped)
        }
        b'I' => parse_merging(body),
        b'W' => parse_out_of_reach(body),
        _ => None,
    }
}

/// Parses the firmware's answer to a query for windows or to the creation of one.
fn parse_firmware_call(body: &str) -> Option<WindowMessage> {
    let rest = body.strip_prefix("ibm,")?;
    if let Some(rest) = rest.strip_prefix("query-pe-dma-windows(") {
        let (arguments, result) = scan::after(rest, ") ")?.split_once(" returned ")?;
        return Some(WindowMessage::Query {
            config_address: scan::small_hex(arguments)?,
            returned: scan::signed(result)?,
            entries_max: scan::hex_after(result, "lb="),
            page_sizes: scan::after(result, "ps=").and_then(scan::small_hex),
            windows: scan::after(result, "wn=").and_then(scan::small),
        });
    }
    let rest = rest.strip_prefix("create-pe-dma-window(")?;
    let (arguments, result) = scan::after(rest, ") ")?.split_once(" returned ")?;
    let mut numbers = arguments.split_whitespace().map(scan::small_hex);
    let config_address = numbers.next()??;
    Some(WindowMessage::Create {
        config_address,
        page_shift: numbers.nth(2)??,
        window_shift: numbers.next()??,
        returned: scan::signed(result)?,
        liobn: scan::after(result, "liobn = ").and_then(scan::small_hex),
        start: scan::after(result, "starting addr = ").and_then(parse_start_address),
    })
}

/// `8000000 0)`: upper and lower 32 bits.
fn parse_start_address(text: &str) -> Option<u64> {
    let (high, low) = text.split_once(' ')?;
    Some(u64::from(scan::small_hex(high)?) << 32 | u64::from(scan::small_hex(low)?))
}

/// Parses which DMA operations a device uses.
fn parse_operations(body: &str) -> Option<WindowMessage> {
    let rest = body.strip_prefix("iommu: ")?;
    if let Some(limit) = scan::hex_after(rest, "direct DMA is limited by ") {
        return Some(WindowMessage::DirectLimited { limit });
    }
    if rest.contains("using fixed ops") {
        return Some(WindowMessage::FixedOps);
    }
    rest.contains("using default ops").then_some(WindowMessage::DefaultOps)
}

/// Bare metal speaks of endpoints, named by domain and bus:
/// `pci 0001:06     : [PE# fd] Enabling 64-bit DMA bypass`.
fn parse_bare_metal_bypass(body: &str) -> Option<WindowMessage> {
    let (_, rest) = body.strip_prefix("[PE# ")?.split_once("] ")?;
    let bypass = rest.starts_with("Enabling 64-bit DMA bypass") || rest.contains("iommu bypass (through TVE");
    bypass.then_some(WindowMessage::BareMetalBypass(true))
}

/// Parses `iommu_alloc failed`: the window has no free range.
fn parse_exhausted(body: &str) -> Option<WindowMessage> {
    let rest = body.strip_prefix("iommu_alloc failed")?;
    let pages = scan::after(rest, "npages ").and_then(|text| {
        let word = text.split_whitespace().next()?;
        if word.bytes().all(|b| b.is_ascii_digit()) { scan::decimal(word) } else { scan::hex(word) }
    });
    Some(WindowMessage::Exhausted { pages })
}

/// Parses which window a device uses.
fn parse_mode(body: &str) -> Option<WindowMessage> {
    if let Some(offset) = scan::hex_after(body, "Using 64-bit direct DMA at offset ") {
        return Some(WindowMessage::Direct { offset });
    }
    let starts = |start: &str| body.starts_with(start);
    if starts("Restoring 32-bit DMA via iommu") {
        return Some(WindowMessage::Restored32Bit);
    }
    if starts("Removed default DMA window") {
        return Some(WindowMessage::DefaultRemoved);
    }
    if starts("Using 64-bit DMA iommu bypass") || starts("Enabling 64-bit DMA bypass") {
        return Some(WindowMessage::BareMetalBypass(true));
    }
    starts("Using 32-bit DMA via iommu").then_some(WindowMessage::BareMetalBypass(false))
}

/// Parses messages that memory could not be mapped into a window.
fn parse_map_failure(body: &str) -> Option<WindowMessage> {
    let direct = body.starts_with("failed to map direct window");
    let other = body.starts_with("failed to map DMA window") || body.starts_with("Failed to map DMA window");
    (direct || other).then(|| WindowMessage::MapFailed(scan::words(body)))
}

/// Parses messages that no window can replace the default one.
fn parse_capacity(body: &str) -> Option<WindowMessage> {
    if body.starts_with("can't map partition max") {
        return Some(WindowMessage::CannotMapMemory(scan::words(body)));
    }
    body.starts_with("current IOMMU table in use, can't be replaced").then_some(WindowMessage::TableInUse)
}

/// Parses messages about limited addressing, for masks below 64 bits.
fn parse_limited_addresses(body: &str) -> Option<WindowMessage> {
    if body.starts_with("Limited Address Space for DDW not Supported") {
        return Some(WindowMessage::LimitedAddressesUnsupported);
    }
    let rest = body.strip_prefix("lsa_required: ")?;
    Some(WindowMessage::LimitedAddresses {
        required: scan::hex(rest)? != 0,
        enabled: scan::hex_after(rest, "lsa_enabled: ")? != 0,
        direct: scan::hex_after(rest, "direct mapping: ")? != 0,
    })
}

/// Parses messages that the hypervisor refused a table entry.
fn parse_entry_refused(body: &str) -> Option<WindowMessage> {
    let ours = body.starts_with("tce_") && body.contains("pSeriesLP") && body.contains("failed");
    ours.then(|| WindowMessage::EntryRefused(scan::words(body)))
}

/// Parses whether scatter lists are merged into one range.
fn parse_merging(body: &str) -> Option<WindowMessage> {
    let how = body.strip_prefix("IOMMU table initialized, virtual merging ")?;
    Some(WindowMessage::VirtualMerging(how.starts_with("enabled")))
}

/// Parses warnings that a device's mask does not reach its window.
fn parse_out_of_reach(body: &str) -> Option<WindowMessage> {
    let ours = body.starts_with("Warning: IOMMU dma not supported")
        || body.starts_with("Warning: IOMMU offset too big for device mask");
    ours.then(|| WindowMessage::OutOfReach(scan::words(body)))
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Window", expect);
    }

    #[test]
    fn messages() {
        check(
            "nvme 0000:00:03.0: ibm,query-pe-dma-windows(2026) 1800 8000000 20000000 returned 0, lb=2000000000 ps=107 wn=1",
            "Query { config_address: 6144, returned: 0, entries_max: Some(137438953472), page_sizes: Some(263), windows: Some(1) }",
        );
        check(
            "mlx4_core 0004:01:00.0: ibm,query-pe-dma-windows(53) 10000 8000000 29004005 returned 0",
            "Query { config_address: 65536, returned: 0, entries_max: None, page_sizes: None, windows: None }",
        );
        check(
            "nvme 0000:00:03.0: ibm,create-pe-dma-window(2027) 1800 8000000 20000000 18 1f returned 0 (liobn = 0x80000001 starting addr = 8000000 0)",
            "Create { config_address: 6144, page_shift: 24, window_shift: 31, returned: 0, liobn: Some(2147483649), start: Some(576460752303423488) }",
        );
        check(
            "mlx4_core 0004:01:00.0: ibm,create-pe-dma-window(54) 10000 8000000 29004005 10 26 returned -3 (liobn = 0x0 starting addr = 0 0)",
            "Create { config_address: 65536, page_shift: 16, window_shift: 38, returned: -3, liobn: Some(0), start: Some(0) }",
        );
        check(
            "mlx4_core 0004:01:00.0: Using 64-bit direct DMA at offset 10000000000000",
            "Direct { offset: 4503599627370496 }",
        );
        check("mlx4_core 0004:01:00.0: Restoring 32-bit DMA via iommu", "Restored32Bit");
        check(
            "lpfc 0001:01:00.0: failed to map direct window for /pci@800000020000201/fibre-channel@0: -3",
            r#"MapFailed("failed to map direct window for /pci@800000020000201/fibre-channel@0: -3")"#,
        );
        check(
            "lpfc 0001:01:00.0: iommu: 64-bit OK but direct DMA is limited by 800000400000000",
            "DirectLimited { limit: 576460769483292672 }",
        );
        check("lpfc 0001:01:00.0: iommu: 64-bit OK, using fixed ops", "FixedOps");
        check("lpfc 0001:01:00.0: iommu: not 64-bit, using default ops", "DefaultOps");
        check(
            "lpfc 0001:01:00.0: can't map partition max 0x4000000000 with 16777216 65536-sized pages",
            r#"CannotMapMemory("can't map partition max 0x4000000000 with 16777216 65536-sized pages")"#,
        );
        check("lpfc 0001:01:00.0: no free dynamic windows", "NoFreeWindow");
        check(
            "lpfc 0001:01:00.0: dma_iommu_get_required_mask: returning bypass mask 0xfffffffffffffff",
            "BypassMask(1152921504606846975)",
        );
        check("lpfc 0001:01:00.0: Removed default DMA window for /pci@800000020000201", "DefaultRemoved");
        check("lpfc 0001:01:00.0: current IOMMU table in use, can't be replaced.", "TableInUse");
        check(
            "lpfc 0001:01:00.0: lsa_required: 1, lsa_enabled: 0, direct mapping: 1",
            "LimitedAddresses { required: true, enabled: false, direct: true }",
        );
        check(
            "lpfc 0001:01:00.0: Limited Address Space for DDW not Supported, err: -3",
            "LimitedAddressesUnsupported",
        );
        check("ppc iommu: disabling ddw.", "Disabled");
        check("lpfc 0001:01:00.0: Skipping ibm,pmemory", "PersistentMemorySkipped");
        check(
            "lpfc 0001:01:00.0: iommu_alloc failed, tbl 00000000c0a2b1f8 vaddr 00000000ab3c npages 16",
            "Exhausted { pages: Some(16) }",
        );
        check(
            "iommu_alloc failed, tbl c00000003e5c0a80 vaddr c000000012340000 npages 1f",
            "Exhausted { pages: Some(31) }",
        );
        check(
            "tce_build_pSeriesLP: plpar_tce_put failed. rc=-4",
            r#"EntryRefused("tce_build_pSeriesLP: plpar_tce_put failed. rc=-4")"#,
        );
        check("radeon 0001:06:00.0: Using 32-bit DMA via iommu", "BareMetalBypass(false)");
        check("nvme 0001:06:00.0: Using 64-bit DMA iommu bypass", "BareMetalBypass(true)");
        check(
            "pci 0001:06:00.0: Warning: IOMMU offset too big for device mask",
            r#"OutOfReach("Warning: IOMMU offset too big for device mask")"#,
        );
        check("IOMMU table initialized, virtual merging enabled", "VirtualMerging(true)");
        check("pci 0001:06     : [PE# fd] Enabling 64-bit DMA bypass", "BareMetalBypass(true)");
        check("nvme 0001:06:00.0: Using 64-bit DMA iommu bypass (through TVE#0)", "BareMetalBypass(true)");
    }
}
