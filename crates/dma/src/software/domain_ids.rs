//! Allocation of domain IDs.

use crate::DomainId;

/// Free domain IDs. 0 is never allocated, as in Linux's VT-d driver.
#[derive(Debug, Default)]
pub(super) struct DomainIds {
    last: u16,
    returned: Vec<DomainId>,
}

/// No domain ID is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all 65,535 domain ids are in use")]
pub struct NoDomainId;

impl DomainIds {
    /// Allocates a domain ID, a freed one first.
    pub(super) fn allocate(&mut self) -> Result<DomainId, NoDomainId> {
        if let Some(id) = self.returned.pop() {
            return Ok(id);
        }
        self.last = self.last.checked_add(1).ok_or(NoDomainId)?;
        Ok(DomainId(self.last))
    }

    /// Frees a domain ID.
    pub(super) fn free(&mut self, id: DomainId) {
        self.returned.push(id);
    }
}
