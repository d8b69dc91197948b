//! The refusal of what is no host.

use super::Host;

/// What was read tells of no host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "neither a kernel version, nor kernel options, nor a PCI function was found in it{}",
    doubts.iter().map(|doubt| format!("; {doubt}")).collect::<String>()
)]
pub struct NoFacts {
    /// What could not be read and might have told of one.
    pub doubts: Vec<String>,
}

impl Host {
    /// The host, if it has a kernel version, a log, kernel options or a PCI function.
    ///
    /// # Errors
    /// [`NoFacts`] if it has none of them: what it was read from is no host.
    pub fn expect_facts(self) -> Result<Self, NoFacts> {
        let has_facts = !self.adapters.is_empty()
            || !self.bridges.is_empty()
            || self.platform.kernel.is_some()
            || !self.log.file.is_empty()
            || self.command_line.is_some()
            || !self.configured.is_empty();
        if has_facts { Ok(self) } else { Err(NoFacts { doubts: self.doubts().collect() }) }
    }
}
