//! Host bridges that a device tree describes: drivers/pci/of.c, `devm_of_pci_get_host_bridge_resources`; and their links:
//! drivers/pci/controller/{pcie-brcmstb,pcie-rockchip-host,pci-tegra}.c, drivers/pci/controller/dwc/pcie-designware.c.

use super::{Device, scan};

/// A message about a host bridge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostBridgeMessage {
    /// A range of memory that devices below the bridge can reach (`dma-ranges`).
    Inbound {
        /// The first address for the processors.
        first: u64,
        /// The last address.
        last: u64,
        /// The bus address of the first.
        bus: u64,
    },
    /// The domain of the functions below it.
    Domain(u32),
    /// No device answered behind it: its link did not come up.
    LinkDown,
}

/// What drivers say, with capitals or without.
const LINK_DOWN: [&str; 6] = [
    "link down",
    "pcie link down",
    "phy link never came up",
    "link never came up",
    "pcie link training gen1 timeout",
    "link training timeout",
];

/// Reads a message about a host bridge.
pub(super) fn read(body: &str, device: Option<&Device>) -> Option<HostBridgeMessage> {
    let device = device?;
    if device.driver.contains("pci") && device.bdf.is_none() && is_link_down(body) {
        return Some(HostBridgeMessage::LinkDown);
    }
    if let Some(bus) = body.strip_prefix("PCI host bridge to bus ") {
        let (domain, _) = bus.split_once(':')?;
        return Some(HostBridgeMessage::Domain(scan::small_hex(domain)?));
    }
    // "  IB MEM 0x0000000000..0x00ffffffff -> 0x0400000000"
    let range = body.trim_start().strip_prefix("IB MEM ")?;
    let (first, rest) = range.split_once("..")?;
    let (last, bus) = rest.split_once(" -> ")?;
    Some(HostBridgeMessage::Inbound {
        first: scan::hex(first)?,
        last: scan::hex(last)?,
        bus: scan::hex(bus)?,
    })
}

/// Whether a driver says that no link came up.
fn is_link_down(body: &str) -> bool {
    let words = body.trim_start().trim_end_matches(['.', '!']);
    LINK_DOWN.iter().any(|known| words.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "HostBridge", expect);
    }

    #[test]
    fn messages() {
        check(
            "brcm-pcie 47d500000.pcie:   IB MEM 0x0000000000..0x00ffffffff -> 0x0400000000",
            "Inbound { first: 0, last: 4294967295, bus: 17179869184 }",
        );
        check("brcm-pcie 1000110000.pcie: PCI host bridge to bus 0000:00", "Domain(0)");
        check("mvebu-pcie soc:pcie: PCI host bridge to bus 0001:00", "Domain(1)");
        check("brcm-pcie fd500000.pcie: link down", "LinkDown");
        check("dw-pcie 33800000.pcie: Phy link never came up", "LinkDown");
        check("rockchip-pcie f8000000.pcie: PCIe link training gen1 timeout!", "LinkDown");
    }
}
