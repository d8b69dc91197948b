//! What was measured on.

use crate::threads::allowed_cpus;
use serde::Serialize;
use std::fs::read_to_string;

/// The machine, as far as it shows itself. What can't be read is absent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Machine {
    /// The CPU's name.
    pub cpu: Option<String>,
    /// CPUs that threads may run on.
    pub cpus: usize,
    /// The instruction set.
    pub architecture: String,
    /// The kernel's release.
    pub kernel: Option<String>,
    /// How the CPUs' frequency is chosen.
    pub governor: Option<String>,
    /// Whether it is a virtual machine, whose CPUs may be taken away.
    pub is_virtual: Option<bool>,
    /// Programs that wanted a CPU in the minute before.
    pub load_average: Option<f64>,
}

impl Machine {
    /// This one.
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
            // arm names no model, POWER calls it cpu.
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
