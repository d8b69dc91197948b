//! Whether the interrupts that take samples also come where the kernel has its interrupts off.
//!
//! Unmapping and the wait for invalidations mostly run there. A source whose interrupts wait until they are on again takes no sample of
//! them, and the next function gets their time.

use crate::perf_event::SOURCES;
use std::fs;
use std::path::Path;

const COMMAND_LINE: &str = "proc/cmdline";
/// Samples in the kernel after which one with interrupts off must have come: any kernel spends more than a hundredth of its time so.
const SAMPLES_EXPECTED: u64 = 1000;

/// How a source of samples is known to reach code with interrupts off.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    /// The bit of the register that tells whether interrupts were off, where samples can have one: `PERF_REG_X86_FLAGS` and
    /// `PERF_REG_POWERPC_SOFTE` (`arch/*/include/uapi/asm/perf_regs.h`).
    pub(super) registers: u64,
    /// Whether a value of it says that they were.
    pub(super) is_off: fn(u64) -> bool,
    /// Whether all such sources are non-maskable.
    is_by_kind: bool,
}

/// The interrupt flag of x86 (Intel, "Software Developer's Manual", volume 1, 3.4.3).
const X86_INTERRUPTS_ON: u64 = 1 << 9;
/// `IRQS_DISABLED` (`arch/powerpc/include/asm/hw_irq.h`, Linux 4.17).
const POWER_INTERRUPTS_OFF: u64 = 1;

/// What is known of the CPUs' counters of an architecture, or why nothing is.
pub(super) fn source(arch: &str, root: &Path) -> Result<Source, String> {
    match arch {
        // arch/x86/events/core.c registers a handler of NMIs, for Intel's and AMD's counters.
        "x86_64" if !["cpu", "cpu_core"].iter().any(|pmu| root.join(SOURCES).join(pmu).exists()) => Err(
            format!("the kernel has no counters of this CPU (/{SOURCES}/cpu), as in many virtual machines"),
        ),
        "x86_64" => {
            Ok(Source { registers: 1 << 9, is_off: |flags| flags & X86_INTERRUPTS_ON == 0, is_by_kind: true })
        }
        // drivers/perf/arm_pmu.c takes an interrupt of the GIC, which is non-maskable only by its priority.
        "aarch64" if !has_pseudo_nmi(root) => Err(format!(
            "on 64-bit Arm the counters' interrupts are non-maskable only on a kernel with CONFIG_ARM64_PSEUDO_NMI that was booted with \
             irqchip.gicv3_pseudo_nmi=1, which is not in /{COMMAND_LINE}"
        )),
        // No register of a sample has the interrupt controller's priority mask.
        "aarch64" => Ok(Source { registers: 0, is_off: |_| false, is_by_kind: false }),
        // performance_monitor_exception (arch/powerpc/kernel/traps.c): an NMI where interrupts are off in software alone.
        "powerpc64" => Ok(Source {
            registers: 1 << 39,
            is_off: |mask| mask & POWER_INTERRUPTS_OFF != 0,
            is_by_kind: false,
        }),
        other => Err(format!("whether the counters' interrupts are non-maskable on {other} is not known")),
    }
}

/// Whether the kernel was booted with pseudo-NMIs. The last of several words counts (`kstrtobool`).
fn has_pseudo_nmi(root: &Path) -> bool {
    let line = fs::read_to_string(root.join(COMMAND_LINE)).unwrap_or_default();
    let mut values =
        line.split_ascii_whitespace().filter_map(|word| word.strip_prefix("irqchip.gicv3_pseudo_nmi="));
    let is_true =
        |value: &str| value.starts_with(['1', 'y', 'Y', 't', 'T', 'e', 'E']) || value.starts_with("on");
    values.next_back().is_some_and(is_true)
}

/// What says that samples also come with interrupts off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// Some did.
    Seen,
    /// None of few did, but interrupts of such sources are non-maskable.
    ByKind,
}

impl Source {
    /// What says so, by the samples in the kernel and those among them with interrupts off; or why nothing does.
    pub(super) fn evidence(&self, kernel: u64, off: u64) -> Result<Evidence, String> {
        match off {
            0 if kernel == 0 => Err("no sample of the kernel came: the counters count, but their interrupts do not arrive, or no CPU worked in \
                                     the kernel"
                .to_owned()),
            0 if self.is_by_kind && kernel < SAMPLES_EXPECTED => Ok(Evidence::ByKind),
            0 => Err(format!(
                "none of {kernel} samples in the kernel fell where its interrupts are off, so nothing shows that they reach unmapping and \
                 invalidations"
            )),
            _ => Ok(Evidence::Seen),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    fn root(command_line: &str, pmu: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join(SOURCES).join(pmu)).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join(COMMAND_LINE), command_line).unwrap();
        root
    }

    #[test]
    fn arm_needs_pseudo_nmis() {
        let is_known = |line: &str| source("aarch64", root(line, "armv8_pmuv3_0").path()).is_ok();
        for on in ["irqchip.gicv3_pseudo_nmi=1", "a irqchip.gicv3_pseudo_nmi=0 irqchip.gicv3_pseudo_nmi=y\n"]
        {
            assert!(is_known(on), "{on}");
        }
        for off in [
            "",
            "irqchip.gicv3_pseudo_nmi=0",
            "irqchip.gicv3_pseudo_nmi",
            "irqchip.gicv3_pseudo_nmi=",
            "irqchip.gicv3_pseudo_nmi=off",
            "irqchip.gicv3_pseudo_nmi=1 irqchip.gicv3_pseudo_nmi=n",
            "xirqchip.gicv3_pseudo_nmi=1",
        ] {
            assert!(!is_known(off), "{off}");
        }
    }

    #[test]
    fn x86_needs_counters() {
        for (pmu, is_there) in [("cpu", true), ("cpu_core", true), ("software", false)] {
            assert_eq!(source("x86_64", root("", pmu).path()).is_ok(), is_there, "{pmu}");
        }
        assert!(source("riscv64", root("", "cpu").path()).unwrap_err().contains("riscv64"));
    }

    #[test]
    fn registers_tell_whether_interrupts_were_off() {
        let root = root("", "cpu");
        let [x86, power] = ["x86_64", "powerpc64"].map(|arch| source(arch, root.path()).unwrap());
        // Flags as of a kernel: with the interrupt flag, and without.
        assert!(!(x86.is_off)(0x246) && (x86.is_off)(0x46));
        assert!(!(power.is_off)(0) && (power.is_off)(1) && (power.is_off)(3));
    }

    #[test]
    fn a_source_that_never_came_with_interrupts_off_is_not_believed() {
        let root = root("irqchip.gicv3_pseudo_nmi=1", "cpu");
        let [x86, arm] = ["x86_64", "aarch64"].map(|arch| source(arch, root.path()).unwrap());
        assert_eq!([x86.evidence(5000, 1), arm.evidence(5000, 1)], [Ok(Evidence::Seen), Ok(Evidence::Seen)]);
        assert_eq!(x86.evidence(999, 0), Ok(Evidence::ByKind));
        assert!(x86.evidence(0, 0).unwrap_err().starts_with("no sample"));
        assert!(x86.evidence(1000, 0).is_err() && arm.evidence(10, 0).is_err());
    }
}
