//! The machine that a benchmark ran on.

use crate::threads::allowed_cpus;
use serde::{Deserialize, Serialize};
use std::fs::read_to_string;

/// The host's CPU, kernel and load. Fields that can't be read are `None`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostSummary {
    /// The CPU's name.
    pub cpu: Option<String>,
    /// CPUs that threads may run on.
    pub cpus: usize,
    /// The instruction set.
    pub architecture: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// The CPUs' frequency governor.
    pub governor: Option<String>,
    /// Whether it is a virtual machine, whose CPUs the hypervisor may preempt.
    pub is_virtual: Option<bool>,
    /// The load average over the last minute.
    pub load_average: Option<f64>,
}

impl HostSummary {
    /// Describes this host.
    pub fn here() -> Self {
        let read = |path: &str| read_to_string(path).ok().map(|text| text.trim().to_owned());
        let cpus = read("/proc/cpuinfo");
        let of_cpu = |name: &str| {
            let line = cpus
                .as_deref()?
                .lines()
                .find(|line| line.split(':').next().is_some_and(|word| word.trim() == name));
            Some(line?.split_once(':')?.1.trim().to_owned())
        };
        Self {
            // Arm has no line with the model; POWER calls it cpu.
            cpu: of_cpu("model name").or_else(|| of_cpu("cpu")),
            cpus: allowed_cpus().len().max(1),
            architecture: std::env::consts::ARCH.to_owned(),
            kernel: read("/proc/sys/kernel/osrelease"),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            is_virtual: of_cpu("flags").map(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            load_average: read("/proc/loadavg").and_then(|text| text.split(' ').next()?.parse().ok()),
        }
    }
}
