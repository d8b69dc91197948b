//! Memory of PCI functions, by the kernel's log (drivers/pci/{probe,setup-res,p2pdma}.c), lspci and `/proc/iomem`.

use super::Host;
use crate::kernel::message;
use crate::memory::PhysRange;
use crate::pci::lspci::Record;
use crate::{Bdf, Citation};

/// Ranges kept of a log, so that one made up of them takes no more memory than a host.
pub(super) const RANGES_MAX: usize = 4096;

/// A range of addresses that is memory of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceMemory {
    /// Where.
    pub range: PhysRange,
    /// The device.
    pub address: Bdf,
    /// Its driver lends it to other drivers, as memory for transfers between devices.
    pub is_peer_memory: bool,
    /// The line.
    pub at: Citation,
}

/// What a line says of a function's memory: `pci 0000:03:00.0: BAR 0 [mem 0xfd200000-0xfd3fffff 64bit]: assigned`,
/// `nvme 0000:03:00.0: added peer-to-peer DMA memory 0xfd200000-0xfd3fffff`.
pub(super) fn read(message: &str) -> Option<(Bdf, PhysRange, bool)> {
    let (device, body) = message::split_device(message);
    let address = device?.bdf?;
    let (is_peer_memory, rest) = match body.strip_prefix("added peer-to-peer DMA memory ") {
        Some(rest) => (true, rest.strip_prefix("[mem ").unwrap_or(rest)),
        // Windows of bridges are no memory of the bridge.
        None if body.starts_with("reg 0x") || body.starts_with("BAR ") => {
            (false, body.split_once("[mem ")?.1)
        }
        None => return None,
    };
    let (first, rest) = rest.split_once('-')?;
    let last = rest.split([' ', ']']).next()?;
    let number = |text: &str| u64::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
    Some((address, PhysRange::from_first_to_last(number(first)?, number(last)?)?, is_peer_memory))
}

/// The memory that lspci lists.
pub(super) fn of_listing(listing: &[Record]) -> impl Iterator<Item = DeviceMemory> {
    let regions = listing.iter().flat_map(|record| record.memory.iter().map(|region| (record.bdf, region)));
    regions.filter_map(|(address, region)| {
        let range = PhysRange::from_base_and_size(region.value.base, region.value.size_bytes)?;
        Some(DeviceMemory { range, address, is_peer_memory: false, at: region.at.clone() })
    })
}

/// Whose memory lies at a bus address.
pub fn at(host: &Host, address: u64) -> Option<DeviceMemory> {
    let byte = PhysRange::from_base_and_size(address, 1)?;
    let holds = |known: &&DeviceMemory| known.range.contains(byte);
    // Where memory is lent within a BAR, that says more.
    let known = host.device_memory.iter().filter(holds).max_by_key(|known| known.is_peer_memory);
    let of_iomem = || {
        let resources = host.memory.as_ref()?.iomem.as_ref()?.overlapping(byte);
        let named = resources.filter_map(|resource| {
            let address = resource.value.name.parse().ok()?;
            let (range, at) = (resource.value.range, resource.at.clone());
            Some(DeviceMemory { range, address, is_peer_memory: false, at })
        });
        named.last()
    };
    known.cloned().or_else(of_iomem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_functions() {
        let check = |message: &str, first: u64, last: u64, is_peer_memory: bool| {
            let range = PhysRange::from_first_to_last(first, last).unwrap();
            let address = "0000:03:00.0".parse().unwrap();
            assert_eq!(read(message), Some((address, range, is_peer_memory)), "{message}");
        };
        let bar = (0xfd20_0000, 0xfd3f_ffff);
        check("pci 0000:03:00.0: reg 0x10: [mem 0xfd200000-0xfd3fffff 64bit pref]", bar.0, bar.1, false);
        check("pci 0000:03:00.0: BAR 0 [mem 0xfd200000-0xfd3fffff 64bit]", bar.0, bar.1, false);
        check("pci 0000:03:00.0: BAR 2: assigned [mem 0xfd200000-0xfd3fffff]", bar.0, bar.1, false);
        check("nvme 0000:03:00.0: added peer-to-peer DMA memory 0xfd200000-0xfd3fffff", bar.0, bar.1, true);
        check(
            "nvme 0000:03:00.0: added peer-to-peer DMA memory [mem 0xfd200000-0xfd3fffff 64bit]",
            bar.0,
            bar.1,
            true,
        );
    }

    #[test]
    fn lines_about_something_else() {
        for line in [
            "pci 0000:00:1c.0:   bridge window [mem 0xfd200000-0xfd3fffff]",
            "pci 0000:03:00.0: BAR 0: assigned [io  0x1000-0x10ff]",
            "pci 0000:03:00.0: BAR 0: no space for [mem size 0x00200000]",
            "pci_bus 0000:00: root bus resource [mem 0xfd200000-0xfd3fffff window]",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }
}
