//! DMA masks as drivers announce them: drivers/ata/{ahci,libahci}.c, drivers/scsi/megaraid/megaraid_sas_base.c,
//! drivers/net/ethernet/stmicro/stmmac/stmmac_main.c, drivers/net/ethernet/broadcom/tg3.c, and Mellanox's drivers.

use super::{Device, DriverMessage};

/// Widths of the masks that a driver set, in bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Masks {
    /// Of streaming mappings.
    pub streaming: Option<u32>,
    /// Of coherent memory.
    pub coherent: Option<u32>,
}

impl Masks {
    /// Both masks of one width.
    fn both(bits: u32) -> Self {
        Self { streaming: Some(bits), coherent: Some(bits) }
    }
}

/// How drivers begin to say that the kernel refused a mask, mostly before they give up.
const REFUSED: [&str; 10] = [
    "No usable DMA config",
    "no usable DMA config",
    "No suitable DMA available",
    "amdgpu: No suitable DMA available",
    "32-bit DMA enable failed",
    "32-bit consistent DMA enable failed",
    "Can't set PCI DMA mask, ",
    "Can't set consistent PCI DMA mask, ",
    "Failed to set DMA mask",
    "Failed to set DMA Mask",
];

/// Reads what a driver says of the masks of its device.
pub(super) fn read(body: &str, device: Option<&Device>) -> Option<DriverMessage> {
    device?;
    if REFUSED.iter().any(|start| body.starts_with(start)) {
        return Some(DriverMessage::MaskRefused);
    }
    let masks = parse_ahci(body)
        .or_else(|| parse_megaraid(body))
        .or_else(|| parse_stmmac(body))
        .or_else(|| parse_tg3(body))
        .or_else(|| parse_mellanox(body))?;
    let is_width = |bits: Option<u32>| bits.is_none_or(|bits| (1..=64).contains(&bits));
    (is_width(masks.streaming) && is_width(masks.coherent)).then_some(DriverMessage::Masks(masks))
}

/// `controller can't do 64bit DMA, forcing 32bit`, `ASUS M2A-VM: BIOS too old, forcing 32bit DMA, update BIOS`.
fn parse_ahci(body: &str) -> Option<Masks> {
    let is_32_bit = body.starts_with("controller can't do 64bit DMA, forcing 32bit")
        || body.contains(": BIOS too old, forcing 32bit DMA, update BIOS");
    is_32_bit.then(|| Masks::both(32))
}

/// `63 bit DMA mask and 32 bit consistent mask`.
fn parse_megaraid(body: &str) -> Option<Masks> {
    let (streaming, rest) = body.split_once(" bit DMA mask and ")?;
    let coherent = rest.strip_suffix(" bit consistent mask")?;
    Some(Masks { streaming: Some(streaming.parse().ok()?), coherent: Some(coherent.parse().ok()?) })
}

/// `Using 36/40 bits DMA host/device width`, up to 6.2 `Using 32 bits DMA width`.
fn parse_stmmac(body: &str) -> Option<Masks> {
    let rest = body.strip_prefix("Using ")?;
    let of_host = rest.strip_suffix(" bits DMA host/device width").and_then(|widths| widths.split_once('/'));
    let width = of_host.map(|(host, _)| host).or_else(|| rest.strip_suffix(" bits DMA width"))?;
    Some(Masks::both(width.parse().ok()?))
}

/// `dma_rwctrl[76180000] dma_mask[40-bit]`: of streaming mappings.
fn parse_tg3(body: &str) -> Option<Masks> {
    let bits = body.strip_prefix("dma_rwctrl[")?.split_once("] dma_mask[")?.1.strip_suffix("-bit]")?;
    Some(Masks { streaming: Some(bits.parse().ok()?), coherent: None })
}

/// `Warning: couldn't set 64-bit PCI DMA mask`: it has 32 bits then, which is also what every function begins with.
fn parse_mellanox(body: &str) -> Option<Masks> {
    let rest = body.strip_prefix("Warning: couldn't set 64-bit ")?;
    if rest.starts_with("consistent PCI DMA mask") {
        return Some(Masks { streaming: None, coherent: Some(32) });
    }
    rest.starts_with("PCI DMA mask").then_some(Masks { streaming: Some(32), coherent: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::message;

    #[test]
    fn masks_that_drivers_announce() {
        let check = |line: &str, streaming, coherent| {
            let read = message::read(line).map(|(_, message)| message);
            let masks = DriverMessage::Masks(Masks { streaming, coherent });
            assert_eq!(read, Some(message::Message::Driver(masks)), "{line}");
        };
        let ahci = "ahci 0000:00:12.0: controller can't do 64bit DMA, forcing 32bit";
        check(ahci, Some(32), Some(32));
        let old = "ahci 0000:00:12.0: ASUS M2A-VM: BIOS too old, forcing 32bit DMA, update BIOS";
        check(old, Some(32), Some(32));
        let megaraid = "megaraid_sas 0000:c3:00.0: 63 bit DMA mask and 32 bit consistent mask";
        check(megaraid, Some(63), Some(32));
        check("intel-eth-pci 0000:00:1d.1: Using 32 bits DMA width", Some(32), Some(32));
        let ethqos = "qcom-ethqos 23040000.ethernet: Using 36/40 bits DMA host/device width";
        check(ethqos, Some(36), Some(36));
        check("tg3 0000:03:00.0 eth0: dma_rwctrl[76180000] dma_mask[64-bit]", Some(64), None);
        check("mlx4_core 0000:08:00.0: Warning: couldn't set 64-bit PCI DMA mask", Some(32), None);
        check("mlx4_core 0000:08:00.0: Warning: couldn't set 64-bit consistent PCI DMA mask", None, Some(32));
    }

    #[test]
    fn masks_that_the_kernel_refused() {
        for line in [
            "e1000e 0000:02:00.0: No usable DMA configuration, aborting",
            "amdgpu 0000:01:00.0: amdgpu: No suitable DMA available.",
            "ahci 0000:01:00.0: 32-bit DMA enable failed",
        ] {
            let read = message::read(line).map(|(_, message)| message);
            assert_eq!(read, Some(message::Message::Driver(DriverMessage::MaskRefused)), "{line}");
        }
    }

    #[test]
    fn lines_that_tell_no_mask() {
        for line in [
            "pci 0000:01:00.0: Using 32-bit DMA via iommu",
            "No usable DMA configuration, aborting",
            "intel-eth-pci 0000:00:1d.1: Using 0 bits DMA width",
            "tg3 0000:03:00.0 eth0: dma_rwctrl[76180000] dma_mask[6",
        ] {
            let masks = message::read(line).map(|(_, message)| message);
            let is_mask = matches!(
                masks,
                Some(message::Message::Driver(DriverMessage::Masks(_) | DriverMessage::MaskRefused))
            );
            assert!(!is_mask, "{line}");
        }
    }
}
