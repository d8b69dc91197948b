//! PCI: configuration space, the list in `/proc/bus/pci`, names and bridges.

use crate::text;
use host::Bdf;
use host::pci::link::{self, Hop};
use host::pci::names::{Ids, Names};
use host::pci::{
    BridgeBuses, BusTree, Capabilities, ClassCode, ConfigSpace, Header, LinkEnd, Presence, proc_bus_pci,
};

const PORT: Bdf = Bdf { domain: 0, bus: 0, device: 1, function: 0 };
const ADAPTER: Bdf = Bdf { domain: 0, bus: 1, device: 0, function: 0 };

/// The registers of a port and of what is plugged in below it, and the link between them. The first
/// two bytes say how many of the rest are the port's.
pub fn config_space(data: &[u8]) {
    let Some((length, rest)) = data.split_first_chunk() else { return };
    let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
    let (port, adapter) = rest.split_at(length);
    let [port, adapter] = [(PORT, port), (ADAPTER, adapter)].map(|(at, bytes)| {
        let config = ConfigSpace::new(bytes);
        let header = Header::decode(config);
        let _ = header.class.map(|class| (class.kind(), class.to_string()));
        let capabilities = Capabilities::decode(config);
        let lists = (config.capabilities(), config.extended_capabilities());
        assert!(lists.0.entries.len() <= 64 && lists.1.entries.len() <= 1024, "lists end");
        let express = capabilities.express.get();
        let express = express.and_then(|express| Some((LinkEnd::from_registers(at, express), express.port?)));
        if let Presence::Present(aer) = &capabilities.aer {
            let _ = format!("{aer:?}");
        }
        (express, capabilities)
    });
    if let (Some((upper, port)), Some((lower, below))) = (port.0, adapter.0) {
        let hop = Hop { upper, lower };
        let _ = hop.diagnose().is_degraded();
        let path = link::diagnose_path(&link::hops_on(&[(upper, port), (lower, below)]));
        let _ = (path.current(), path.possible(), path.costs_bandwidth());
        let _ = path.current().map(|link| (link.to_string(), link.megabits_per_second()));
    }
    let _ = adapter.1.or(port.1);
}

/// `/proc/bus/pci/devices`, its functions taken for bridges, too, and their names in a `pci.ids`. The
/// first byte says how many of the following 8-byte groups are asked for; a NUL ends the list.
pub fn proc_bus_pci_and_names(data: &[u8]) {
    let Some((asked, rest)) = data.split_first() else { return };
    let (asked, rest) = rest.split_at((usize::from(*asked % 8) * 8).min(rest.len()));
    let wanted: Vec<Ids> = asked.as_chunks().0.iter().map(ids).collect();
    let [list, table] = crate::parts(rest);
    let lines = proc_bus_pci::parse(&text("proc/bus/pci/devices", list));
    let address = |line: &proc_bus_pci::DeviceLine| Bdf {
        domain: 0,
        bus: line.bus,
        device: line.device,
        function: line.function,
    };
    let bridges = BusTree::new(lines.iter().map(|line| {
        let [secondary, subordinate] = line.device_id.to_be_bytes();
        (address(line), BridgeBuses { primary: line.bus, secondary, subordinate })
    }));
    for line in &lines {
        assert!(bridges.bridges_above(address(line)).len() <= 256, "each is on a lower bus");
    }
    let table = String::from_utf8_lossy(table);
    let names = Names::lookup(&wanted, Some(&table), || Some(table.clone().into_owned().into_bytes()));
    for ids in &wanted {
        let _ = (ids.vendor.map(|vendor| names.vendor(vendor)), names.device(ids), names.subsystem(ids));
        let _ = ids.class.map(|class| (names.class(class), names.interface(class), class.to_string()));
    }
}

fn ids(bytes: &[u8; 8]) -> Ids {
    let [a, b, c, d, e, f, g, h] = *bytes;
    // The registers of a header's first double word and of its subsystem's, in their order.
    let subsystem = host::pci::header::SubsystemId {
        vendor: u16::from_le_bytes([e, f]),
        device: u16::from_le_bytes([g, h]),
    };
    Ids {
        vendor: (a != 0).then_some(u16::from_le_bytes([a, b])),
        device: (c != 0).then_some(u16::from_le_bytes([c, d])),
        subsystem: (e != 0).then_some(subsystem),
        class: Some(ClassCode::from_bits(u32::from_le_bytes([f, g, h, 0]))),
    }
}
