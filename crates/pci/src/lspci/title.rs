//! The titles of capabilities in lspci's output.

use crate::capability_id::extended;

/// Extended capabilities by title. Versions that do not know one print its ID instead: `#1b`, or
/// `Extended Capability ID 0x1b`.
const EXTENDED_TITLES: [(u16, &str); 10] = [
    (extended::AER, "Advanced Error Reporting"),
    (extended::ACS, "Access Control Services"),
    (extended::ARI, "Alternative Routing-ID"),
    (extended::ATS, "Address Translation Service"),
    (extended::SRIOV, "Single Root I/O Virtualization"),
    (extended::PRI, "Page Request Interface"),
    (extended::REBAR, "Physical Resizable BAR"),
    // pciutils 3.6, which does not look inside.
    (extended::REBAR, "Resizable BAR"),
    (extended::PASID, "Process Address Space ID"),
    (extended::DPC, "Downstream Port Containment"),
];

/// Conventional capabilities by title.
pub(super) const EXPRESS: &str = "Express";
pub(super) const POWER: &str = "Power Management";
pub(super) const MSI: &str = "MSI:";
/// The same, before pciutils 3.1.
pub(super) const MSI_SPELLED_OUT: &str = "Message Signalled Interrupts:";
pub(super) const MSI_X: &str = "MSI-X:";

/// The name under which a capability is cited. `title` is what lspci prints behind its offset.
pub(super) fn capability_name(title: &str, is_extended: bool) -> Option<&'static str> {
    let extended = || {
        let id = extended_id(title).filter(|_| is_extended)?;
        EXTENDED_TITLES.iter().find(|(known, _)| *known == id).map(|(_, title)| *title)
    };
    let conventional = [EXPRESS, POWER, MSI, MSI_X].into_iter().find(|start| title.starts_with(start));
    conventional.map(|title| title.trim_end_matches(':')).or_else(extended)
}

/// The ID of an extended capability, by the title that lspci prints for it.
pub(super) fn extended_id(title: &str) -> Option<u16> {
    if let Some((id, _)) = EXTENDED_TITLES.iter().find(|(_, known)| title.starts_with(known)) {
        return Some(*id);
    }
    let digits = title.strip_prefix('#').or(title.strip_prefix("Extended Capability ID 0x"))?;
    u16::from_str_radix(digits, 16).ok()
}
