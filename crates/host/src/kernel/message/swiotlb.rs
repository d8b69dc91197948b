//! Bounce buffers and direct mapping: kernel/dma/{swiotlb,direct}.c, lib/swiotlb.c before 4.18,
//! arch/x86/kernel/pci-{dma,swiotlb,nommu}.c.

use super::scan;
use crate::Bdf;

/// A message about bounce buffers or untranslated mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SwiotlbMessage {
    /// x86 uses bounce buffers for what memory a device cannot reach. Most machines never need them.
    InUse,
    /// x86 uses no IOMMU.
    NoIommu,
    /// The buffer was set aside.
    Reserved {
        /// Its size.
        mebibytes: u64,
    },
    /// The buffer is split into areas with a lock each.
    Areas(u32),
    /// The buffer's size was changed, for memory encryption.
    Resized {
        /// The new size.
        mebibytes: u64,
    },
    /// There was no memory for the buffer.
    NoMemory(String),
    /// Memory in one piece for a driver was not to be had, from the pool either (up to 4.20, `swiotlb_alloc_coherent`).
    CoherentFailed {
        /// What was asked for.
        bytes: Option<u64>,
    },
    /// The buffer is full: a mapping failed.
    Full {
        /// The device, where the message ends with it (up to 4.14).
        device: Option<Bdf>,
        /// What was asked for.
        bytes: Option<u64>,
        /// Slots of 2 KiB in all.
        slots_total: Option<u64>,
        /// Slots in use.
        slots_used: Option<u64>,
    },
    /// Memory is encrypted, and a buffer was bounced: any in a confidential guest, else that of a device whose mask is too narrow.
    BouncedForEncryption(Encryption),
    /// A mapping that the device's mask cannot reach and that nothing can bounce.
    MaskOverflow {
        /// The bus address.
        address: Option<u64>,
        /// Its length.
        bytes: Option<u64>,
        /// The device's mask.
        mask: Option<u64>,
        /// The bus's own limit, 0 for none.
        bus_limit: Option<u64>,
        /// A bounce buffer was to be had, and lies beyond the mask itself.
        is_bounced: bool,
    },
    /// A driver mapped memory that may not be mapped.
    VmallocRejected,
}

/// How memory is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// The line does not say (since 5.4).
    Unnamed,
    /// By a host for itself (AMD SME).
    Host,
    /// For a guest (AMD SEV).
    Guest,
}

/// Reads a message about bounce buffers.
pub(super) fn read(body: &str) -> Option<SwiotlbMessage> {
    match body.as_bytes().first()? {
        b'P' => parse_pci_dma(body).or_else(|| placed(body)),
        b's' => software(body),
        b'S' => adjusted(body).or_else(|| parse_encryption(body)),
        b'D' => parse_out_of_space(body).or_else(|| parse_overflow(body)),
        b'o' | b'n' | b'm' => parse_overflow(body),
        b'M' => parse_encryption(body),
        b'x' => {
            let failed = body.starts_with("xen:swiotlb_xen: Failed to");
            failed.then(|| SwiotlbMessage::NoMemory(scan::words(body)))
        }
        b'r' => {
            body.contains("rejecting DMA map of vmalloc memory").then_some(SwiotlbMessage::VmallocRejected)
        }
        b'C' => {
            body.starts_with("Cannot allocate SWIOTLB").then(|| SwiotlbMessage::NoMemory(scan::words(body)))
        }
        _ => None,
    }
}

/// Parses messages of x86's DMA setup, with the prefix `PCI-DMA: `.
fn parse_pci_dma(body: &str) -> Option<SwiotlbMessage> {
    let rest = body.strip_prefix("PCI-DMA: ")?;
    if rest.starts_with("Using software bounce buffering") || rest.starts_with("Using SWIOTLB") {
        return Some(SwiotlbMessage::InUse);
    }
    rest.starts_with("Disabling IOMMU").then_some(SwiotlbMessage::NoIommu)
}

/// 2.6.32 and RHEL 6: `Placing 64MB software IO TLB between ffff880020000000 - ffff880024000000`.
fn placed(body: &str) -> Option<SwiotlbMessage> {
    let rest = body.strip_prefix("Placing ")?;
    rest.contains("MB software IO TLB").then_some(())?;
    Some(SwiotlbMessage::Reserved { mebibytes: scan::decimal(rest)? })
}

/// `software IO TLB [mem 0x..-0x..] (64MB) mapped at` (3.6), `software IO TLB: mapped [mem ..] (64MB)`.
fn software(body: &str) -> Option<SwiotlbMessage> {
    if body.starts_with("swiotlb addr ") {
        return parse_overflow(body);
    }
    if let Some(rest) = body.strip_prefix("swiotlb") {
        return parse_full(rest)
            .or_else(|| parse_coherent_failed(rest))
            .or_else(|| parse_no_memory(rest, body))
            .or_else(|| parse_encryption(rest.trim_start_matches([':', ' '])));
    }
    let rest = body.strip_prefix("software IO TLB")?.trim_start_matches(':').trim_start();
    if let Some(areas) = rest.strip_prefix("area num ") {
        return Some(SwiotlbMessage::Areas(scan::small(areas)?));
    }
    if rest.contains("[mem ") && rest.contains("mapped") {
        return Some(SwiotlbMessage::Reserved { mebibytes: scan::decimal_after(rest, "] (")? });
    }
    adjusted(rest).or_else(|| parse_encryption(rest)).or_else(|| parse_no_memory(rest, body))
}

/// `SWIOTLB bounce buffer size adjusted to 1024MB`.
fn adjusted(text: &str) -> Option<SwiotlbMessage> {
    let size = text.strip_prefix("SWIOTLB bounce buffer size adjusted to ")?;
    Some(SwiotlbMessage::Resized { mebibytes: scan::decimal(size)? })
}

/// `Memory encryption is active and system is using DMA bounce buffers`; from 4.14 to 5.3 `SME is active and ...`, `SEV is active
/// and ...`.
fn parse_encryption(text: &str) -> Option<SwiotlbMessage> {
    let (what, _) = text.split_once(" is active and system is using DMA bounce buffers")?;
    let encryption = match what {
        "Memory encryption" => Encryption::Unnamed,
        "SME" => Encryption::Host,
        "SEV" => Encryption::Guest,
        _ => return None,
    };
    Some(SwiotlbMessage::BouncedForEncryption(encryption))
}

/// `swiotlb: coherent allocation failed, size=134217728`, up to 4.17 `... failed for device 0000:01:00.0 size=2097152`.
fn parse_coherent_failed(rest: &str) -> Option<SwiotlbMessage> {
    let rest = rest.trim_start_matches([':', ' ']).strip_prefix("coherent allocation failed")?;
    Some(SwiotlbMessage::CoherentFailed { bytes: scan::decimal_after(rest, "size=") })
}

/// Parses messages that the pool could not be allocated.
fn parse_no_memory(rest: &str, body: &str) -> Option<SwiotlbMessage> {
    let words = ["No low mem", "Cannot allocate", "cannot allocate", "Failed to"];
    words.iter().any(|word| rest.contains(word)).then(|| SwiotlbMessage::NoMemory(scan::words(body)))
}

/// ` buffer is full (sz: 65536 bytes), total 32768 (slots), used 41 (slots)`; before 5.x without slots.
fn parse_full(rest: &str) -> Option<SwiotlbMessage> {
    let rest = rest.trim_start_matches(':').trim_start().strip_prefix("buffer is full")?;
    Some(SwiotlbMessage::Full {
        device: None,
        bytes: scan::decimal_after(rest, "sz: "),
        slots_total: scan::decimal_after(rest, "total "),
        slots_used: scan::decimal_after(rest, "used "),
    })
}

/// Up to 4.14: `DMA: Out of SW-IOMMU space for 65536 bytes at device 0000:00:04.0`.
fn parse_out_of_space(body: &str) -> Option<SwiotlbMessage> {
    let bytes = scan::decimal_after(body, "Out of SW-IOMMU space for ")?;
    let device = scan::after(body, " at device ").and_then(scan::bdf);
    Some(SwiotlbMessage::Full { device, bytes: Some(bytes), slots_total: None, slots_used: None })
}

/// `DMA addr 0x..+4096 overflow (mask ffffffff, bus limit 0).`, the same of a bounce buffer with `swiotlb addr`, 4.19's `overflow 0x..+4096 of DMA mask
/// ffffffff bus mask 0` and 2.6's `nommu_map_single: overflow 12000+4096 of device mask ffffff`.
fn parse_overflow(body: &str) -> Option<SwiotlbMessage> {
    if let Some(rest) = body.strip_prefix("DMA addr ").or_else(|| body.strip_prefix("swiotlb addr ")) {
        let (place, limits) = rest.split_once(" overflow (mask ")?;
        let is_bounced = body.starts_with("swiotlb");
        return Some(mask_overflow(
            place,
            scan::hex(limits),
            scan::hex_after(limits, "bus limit "),
            is_bounced,
        ));
    }
    let at = body.find("overflow ")?;
    let rest = body.get(at + 9..)?;
    let (place, limits) = rest.split_once(" of DMA mask ").or_else(|| rest.split_once(" of device mask "))?;
    Some(mask_overflow(place, scan::hex(limits), scan::hex_after(limits, "bus mask "), false))
}

/// A mapping beyond the mask; `place` is `ADDRESS+BYTES`.
fn mask_overflow(place: &str, mask: Option<u64>, bus_limit: Option<u64>, is_bounced: bool) -> SwiotlbMessage {
    SwiotlbMessage::MaskOverflow {
        address: scan::hex(place),
        bytes: scan::decimal_after(place, "+"),
        mask,
        bus_limit,
        is_bounced,
    }
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Swiotlb", expect);
    }

    #[test]
    fn messages() {
        check("PCI-DMA: Using software bounce buffering for IO (SWIOTLB)", "InUse");
        check("PCI-DMA: Disabling IOMMU.", "NoIommu");
        check(
            "Placing 64MB software IO TLB between ffff880020000000 - ffff880024000000",
            "Reserved { mebibytes: 64 }",
        );
        check(
            "software IO TLB [mem 0xbbed7000-0xbfed7000] (64MB) mapped at [ffff8800bbed7000-ffff8800bfed6fff]",
            "Reserved { mebibytes: 64 }",
        );
        check(
            "software IO TLB: mapped [mem 0x00000000b3000000-0x00000000b7000000] (64MB)",
            "Reserved { mebibytes: 64 }",
        );
        check("software IO TLB: area num 8.", "Areas(8)");
        check(
            "software IO TLB: SWIOTLB bounce buffer size adjusted to 1024MB",
            "Resized { mebibytes: 1024 }",
        );
        check("software IO TLB: No low mem", r#"NoMemory("software IO TLB: No low mem")"#);
        check(
            "software IO TLB: Cannot allocate buffer",
            r#"NoMemory("software IO TLB: Cannot allocate buffer")"#,
        );
        check(
            "nvme 0000:00:04.0: swiotlb buffer is full (sz: 65536 bytes), total 32768 (slots), used 41 (slots)",
            "Full { device: None, bytes: Some(65536), slots_total: Some(32768), slots_used: Some(41) }",
        );
        check(
            "nvme 0000:00:04.0: swiotlb buffer is full (sz: 65536 bytes)",
            "Full { device: None, bytes: Some(65536), slots_total: None, slots_used: None }",
        );
        check(
            "DMA: Out of SW-IOMMU space for 65536 bytes at device 0000:00:04.0",
            "Full { device: Some(0000:00:04.0), bytes: Some(65536), slots_total: None, slots_used: None }",
        );
        check(
            "software IO TLB: Memory encryption is active and system is using DMA bounce buffers",
            "BouncedForEncryption(Unnamed)",
        );
        check("SME is active and system is using DMA bounce buffers", "BouncedForEncryption(Host)");
        check("SEV is active and system is using DMA bounce buffers", "BouncedForEncryption(Guest)");
        check(
            "nvme 0000:00:04.0: DMA addr 0x00000001203dd002+54 overflow (mask ffffffff, bus limit 0).",
            "MaskOverflow { address: Some(4835889154), bytes: Some(54), mask: Some(4294967295), bus_limit: Some(0), is_bounced: false }",
        );
        check(
            "cx23885 0000:01:00.0: swiotlb addr 0x0000000417cc0000+16384 overflow (mask ffffffff, bus limit 4ffffffff).",
            "MaskOverflow { address: Some(17579114496), bytes: Some(16384), mask: Some(4294967295), bus_limit: Some(21474836479), is_bounced: true }",
        );
        check(
            "ath9k 0000:00:04.0: overflow 0x00000001203dd002+54 of DMA mask ffffffff bus mask 0",
            "MaskOverflow { address: Some(4835889154), bytes: Some(54), mask: Some(4294967295), bus_limit: Some(0), is_bounced: false }",
        );
        check(
            "nommu_map_single: overflow 12000f000+4096 of device mask ffffffff",
            "MaskOverflow { address: Some(4831899648), bytes: Some(4096), mask: Some(4294967295), bus_limit: None, is_bounced: false }",
        );
        check("nvme 0000:00:04.0: rejecting DMA map of vmalloc memory", "VmallocRejected");
        check(
            "swiotlb: Cannot allocate SWIOTLB buffer",
            r#"NoMemory("swiotlb: Cannot allocate SWIOTLB buffer")"#,
        );
        check(
            "xen:swiotlb_xen: Failed to get contiguous memory for DMA from Xen!",
            r#"NoMemory("xen:swiotlb_xen: Failed to get contiguous memory for DMA from Xen!")"#,
        );
    }
}
