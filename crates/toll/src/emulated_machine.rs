//! The machine and kernel that a toll sheet was measured on.

use serde::{Deserialize, Serialize};

/// The machine, as it was emulated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EmulatedMachine {
    /// Its architecture in the lab's words: `x86`, `arm`, `ppc`.
    pub arch: String,
    /// The CPU model, as QEMU names it.
    pub cpu: String,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory, in MiB.
    pub memory_mib: u64,
    /// The version that QEMU says it is.
    pub qemu_version: String,
    /// The words of QEMU's command line, the program first.
    pub command_line: Vec<String>,
}

/// The kernel that ran on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct KernelId {
    /// Its release, as `uname -r` prints it.
    pub release: String,
    /// The distribution's package with its version, if it came in one.
    pub package: Option<String>,
    /// The kernel's command line.
    pub command_line: String,
}
