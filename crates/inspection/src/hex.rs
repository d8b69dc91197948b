//! Numbers that are identities rather than quantities, as sysfs writes them.

/// `0x8086`
pub(crate) fn id(id: u16) -> String {
    format!("{id:#06x}")
}

/// `0xfee00000`
pub(crate) fn address(address: u64) -> String {
    format!("{address:#x}")
}
