//! Titles of capabilities in lspci's output, by ID.

/// Whether lspci prints a capability with this ID under this title. Versions that do not know it print the ID.
pub(crate) fn is_title_of(title: &str, id: u16, extended: bool) -> bool {
    let (titles, start) = match extended {
        true => (EXTENDED, "Extended Capability ID"),
        false => (CONVENTIONAL, "Capability ID"),
    };
    let known = titles.iter().any(|(known, start)| *known == id && title.starts_with(start));
    known || title.starts_with(&format!("{start} {id:#02x}"))
}

const CONVENTIONAL: &[(u16, &str)] = &[
    (0x00, "Null"),
    (0x01, "Power Management version"),
    (0x02, "AGP version"),
    (0x03, "Vital Product Data"),
    (0x04, "Slot ID"),
    (0x05, "MSI:"),
    (0x06, "CompactPCI hot-swap"),
    (0x07, "PCI-X "),
    (0x08, "HyperTransport:"),
    (0x09, "Vendor Specific Information:"),
    (0x0a, "Debug port:"),
    (0x0c, "Hot-plug capable"),
    (0x0d, "Subsystem:"),
    (0x10, "Express "),
    (0x11, "MSI-X:"),
    (0x12, "SATA HBA"),
    (0x13, "PCI Advanced Features"),
    (0x14, "Enhanced Allocation"),
];

const EXTENDED: &[(u16, &str)] = &[
    (0x00, "Null"),
    (0x01, "Advanced Error Reporting"),
    (0x02, "Virtual Channel"),
    (0x03, "Device Serial Number"),
    (0x04, "Power Budgeting"),
    (0x05, "Root Complex Link"),
    (0x06, "Root Complex Internal Link"),
    (0x07, "Root Complex Event Collector"),
    (0x08, "Multi-Function Virtual Channel"),
    (0x09, "Virtual Channel"),
    (0x0b, "Vendor Specific Information:"),
    (0x0d, "Access Control Services"),
    (0x0e, "Alternative Routing-ID"),
    (0x0f, "Address Translation Service"),
    (0x10, "Single Root I/O Virtualization"),
    (0x12, "Multicast"),
    (0x13, "Page Request Interface"),
    (0x15, "Physical Resizable BAR"),
    (0x16, "Dynamic Power Allocation"),
    (0x17, "Transaction Processing Hints"),
    (0x18, "Latency Tolerance Reporting"),
    (0x19, "Secondary PCI Express"),
    (0x1b, "Process Address Space ID"),
    (0x1d, "Downstream Port Containment"),
    (0x1e, "L1 PM Substates"),
    (0x1f, "Precision Time Measurement"),
    (0x23, "Designated Vendor-Specific:"),
    (0x24, "Virtual Resizable BAR"),
    (0x25, "Data Link Feature"),
    (0x26, "Physical Layer 16.0 GT/s"),
    (0x27, "Lane Margining at the Receiver"),
    (0x2a, "Physical Layer 32.0 GT/s"),
    (0x2e, "Data Object Exchange"),
    (0x30, "Integrity & Data Encryption"),
    (0x31, "Physical Layer 64.0 GT/s"),
    (0x2f, "Device 3"),
];
