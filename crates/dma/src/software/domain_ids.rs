//! Names of domains.

use crate::DomainId;

/// Names that are not in use. 0 is nobody's, as in Linux's VT-d driver.
#[derive(Debug, Default)]
pub(super) struct DomainIds {
    last: u16,
    returned: Vec<DomainId>,
}

/// All names of domains are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("all 65,535 domain ids are in use")]
pub struct NoDomainId;

impl DomainIds {
    pub(super) fn take(&mut self) -> Result<DomainId, NoDomainId> {
        if let Some(id) = self.returned.pop() {
            return Ok(id);
        }
        self.last = self.last.checked_add(1).ok_or(NoDomainId)?;
        Ok(DomainId(self.last))
    }

    pub(super) fn give_back(&mut self, id: DomainId) {
        self.returned.push(id);
    }
}
