//! Placeholder until the memory module is merged.
use crate::Tree;
/// x
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryTypes {
    /// x
    pub iomem: Option<crate::memory::Iomem>,
}
pub(super) fn read_iomem(_tree: &Tree) -> Option<crate::memory::Iomem> {
    None
}
pub(super) fn read(
    _: &Tree,
    _: &super::platform::Platform,
    _: Option<crate::memory::Iomem>,
    _: Option<&crate::Text>,
    _: &crate::kernel::Requests,
) -> Option<MemoryTypes> {
    None
}
