//! placeholder
use std::path::{Path, PathBuf};
/// e
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct AgentError;
/// b
pub fn build(arch: crate::Arch, _folder: &Path) -> Result<PathBuf, AgentError> {
    Ok(PathBuf::from(format!("/tmp/agent-{}", arch.word())))
}
