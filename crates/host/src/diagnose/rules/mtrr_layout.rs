//! Memory type range registers (MTRRs) that could not be set as a driver wanted, or that leave memory out.

use super::Rule;
use super::memory_type::{LINES_QUOTED_MAX, plan_mtrrs};
use crate::Cited;
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity};
use crate::facts::Host;
use crate::kernel::message::MemoryTypeMessage;
use crate::memory::PhysRange;
use crate::memory::range::describe_bytes;
use toll::grouped;

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find: |case: &Case<'_>| {
        [refused(case.host), trimmed(case.host), repaired(case.host)].into_iter().flatten().collect()
    },
    explains: &[Explanation {
        id: Id::MtrrLayout,
        meaning: "The memory type range registers, as firmware left them, did not take what a driver asked for, mostly write-combining for a frame buffer \
                  or another card's memory: the CPU's writes there stay slow. Or they leave memory uncached, which the kernel then does not use; or they differed from \
                  processor to processor. DMA is not concerned.",
        severity: "note; warning where memory is lost",
        evidence: "the kernel's lines on registers, and `/proc/mtrr` where it was read",
        fix: "a kernel and driver that use PAT; firmware that lays the registers out otherwise; `enable_mtrr_cleanup`; `iotoll mtrr plan`",
        risk: "changing MTRRs on a running machine changes the type of memory in use: read the plan's warnings",
        verify: "`cat /proc/mtrr`, and no new such line in `dmesg`",
    }],
};

/// What stands in the way of a register.
fn obstacle(message: &MemoryTypeMessage) -> String {
    match message {
        MemoryTypeMessage::MtrrMismatch { old, .. } => format!("another register gives it the type {old}"),
        MemoryTypeMessage::MtrrOverlap(_) => "it overlaps another register in part".to_owned(),
        _ => "all registers are in use".to_owned(),
    }
}

/// A finding on registers that were asked for in vain.
fn refused(host: &Host) -> Option<Finding> {
    let lines = &host.log.mtrrs_refused;
    // The first request is the largest: drivers that try again halve it.
    let Cited { value: first, .. } = lines.first()?;
    let wanted = match first {
        MemoryTypeMessage::MtrrMismatch { base, size, new, .. } => {
            PhysRange::from_base_and_size(*base, *size).map(|range| (range, new))
        }
        _ => None,
    };
    let what = match &wanted {
        Some((range, kind)) => {
            format!("{range} ({}) did not become {kind}", describe_bytes(range.size_bytes()))
        }
        None => "a range did not get the type that a driver wanted".to_owned(),
    };
    // Since 4.3 drivers ask for a register only where PAT is off (arch/x86/kernel/cpu/mtrr/main.c, `arch_phys_wc_add`).
    let has_pat = host.kernel().is_some_and(|kernel| kernel.at_least(4, 3));
    let newer = match has_pat {
        true => {
            "this kernel asks for a register only where PAT is off (look for `nopat`) or a program writes to /proc/mtrr: use PAT (ioremap_wc, `resourceN_wc` in sysfs)"
        }
        false => {
            "a kernel and driver that use PAT need no register: all of the kernel since Linux 4.3, graphics since 3.11"
        }
    };
    let fix = Advice::say(newer).and_say("; else let firmware lay the registers out without holes of another type, if its setup has a choice (continuous or discrete)");
    let fix = match wanted.filter(|(_, kind)| *kind == "write-combining") {
        Some((range, kind)) => fix.and_say(", or plan them anew: ").and_run(plan_mtrrs(range, kind)),
        None => fix,
    };
    Some(Finding {
        id: Id::MtrrLayout,
        severity: Severity::Note,
        address: None,
        what: format!(
            "{what}, because {}: the CPU's writes there stay slow, DMA is not concerned",
            obstacle(first)
        ),
        evidence: lines.iter().take(LINES_QUOTED_MAX).map(|line| line.at.clone()).collect(),
        fix,
        risk:
            "changing MTRRs on a running machine changes the type of memory in use: read the plan's warnings"
                .to_owned(),
        verify: "no new such line in `dmesg`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// A finding on memory that no register makes cacheable.
fn trimmed(host: &Host) -> Option<Finding> {
    let trimmed = host.log.memory_trimmed_mebibytes.as_ref().filter(|_| !host.platform.is_guest())?;
    Some(Finding {
        id: Id::MtrrLayout,
        severity: Severity::Warning,
        address: None,
        what: format!(
            "firmware's registers leave {} MiB of memory uncached, and the kernel does not use them for that",
            grouped(trimmed.value)
        ),
        evidence: vec![trimmed.at.clone()],
        fix: match host.has_option("enable_mtrr_cleanup") {
            true => "update the machine's firmware, or change its settings of memory remapping: the kernel was asked to lay the registers out \
                     (`enable_mtrr_cleanup`) and found no layout; its lines `mtrr_cleanup` say which `mtrr_gran_size=` and `mtrr_chunk_size=` to try"
                .into(),
            false => "update the machine's firmware, or change its settings of memory remapping; until then `enable_mtrr_cleanup` on the command line lets \
                      a kernel that was built with it (CONFIG_MTRR_SANITIZER) lay the registers out by itself"
                .into(),
        },
        risk: "if the kernel finds no layout nothing changes; `disable_mtrr_trim` instead uses that memory uncached, and whatever lands there is many times slower"
            .to_owned(),
        verify: "no such line in `dmesg`, and `free` shows all memory after the reboot".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// A finding on registers that firmware set differently on some processors. In guests of QEMU that is so at each boot.
fn repaired(host: &Host) -> Option<Finding> {
    let at = host.log.mtrrs_repaired.as_ref().filter(|_| !host.platform.is_guest())?;
    Some(Finding {
        id: Id::MtrrLayout,
        severity: Severity::Note,
        address: None,
        what: "firmware set the memory type registers of some processors differently, and the kernel made them alike: it did no harm".to_owned(),
        evidence: vec![at.clone()],
        fix: "nothing on the host, and no option: firmware should set all processors up, in an update of it".into(),
        risk: "none".to_owned(),
        verify: "`dmesg` has no such line with the new firmware".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}
