//! Memory types that slow an area down or corrupt it.
//!
//! The two sides of a `memmap=` area, told in "RHEL6.4 Apparent reduced PCIe performance in comparison to
//! RHEL5.9" (Red Hat Customer Portal, 2013): cached, it is fast and a device that is not coherent with
//! the CPUs' caches reads and writes past them; uncached, it is right and a twentieth as fast. Memory of
//! the DMA API has neither fault.

use super::{Rule, counted};
use crate::Citation;
use crate::diagnose::{Advice, Case, Explanation, Finding, Id, Severity, published};
use crate::facts::log::{ConflictingTypes, LogFacts};
use crate::facts::memory::MemoryTypes;
use crate::memory::effective::{Call, Effective, Mapping};
use crate::memory::mtrr::MtrrEffect;
use crate::memory::{MemmapArea, MemmapEffect, MemoryType, PhysRange};
use escape::shell::Command;
use toll::grouped;

/// Messages quoted of what may come a hundred times.
pub(super) const LINES_QUOTED_MAX: usize = 4;

/// What uncached memory costs. "About a twentieth" is the 4.56 % that were published.
const UNCACHED_ACCESS: &str = "each CPU access goes to memory by itself, about a twentieth as fast as cached";
/// What write-combining memory costs (Intel, "64 and IA-32 Architectures Software Developer's Manual", volume 3, 12.3).
const COMBINED_ACCESS: &str = "the CPU gathers stores to it into whole lines, so they are not slow, but each load goes to memory by itself";

/// Memory that has neither fault, by what the kernel has: CMA came in 3.5.
fn dma_api(memory: &MemoryTypes) -> String {
    let large = if memory.kernel >= (3, 5, 0) { "; large areas from CMA with cma=" } else { "" };
    format!(
        "allocate the buffer through the DMA API instead (dma_alloc_coherent, or alloc_pages and dma_map_single{large}), \
         and take the memmap= parameter away"
    )
}

/// The call by which a driver asks for a cached mapping: memremap came in 4.3.
fn cached_call(memory: &MemoryTypes) -> &'static str {
    if memory.kernel >= (4, 3, 0) { "memremap(MEMREMAP_WB)" } else { "ioremap_cache" }
}

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[
        Explanation {
            id: Id::MemmapUncached,
            meaning: "An area set aside by `memmap=` is uncached when a driver maps it with ioremap: each \
                      CPU access goes to memory by itself, about a twentieth as fast as cached. Where an \
                      MTRR makes it write-combining, only loads are slow. That is right for a device that is \
                      not coherent with the CPUs' caches. PCIe devices of x86 machines are coherent, unless \
                      they set No Snoop.",
            severity: "warning",
            evidence: "`memmap=` on the command line, MTRRs, PAT, and what the kernel's release does for \
                       ioremap",
            fix: "allocate the buffer through the DMA API (dma_alloc_coherent, CMA for large areas) and \
                  remove `memmap=`; for a coherent device a driver may also map the area with \
                  memremap(MEMREMAP_WB)",
            risk: "cached for a device that is not coherent, the CPUs read stale data: check the data, not \
                   only the speed",
            verify: "`iotoll inspect --range BASE-END`, and `/sys/kernel/debug/x86/pat_memtype_list` with \
                     the driver loaded",
        },
        Explanation {
            id: Id::MemmapIncoherent,
            meaning: "An area set aside by `memmap=` is cached, and a device that is not coherent with the \
                      caches then corrupts data. Or, before Linux 2.6.32, the kernel still uses the memory \
                      under the area.",
            severity: "critical; note where a driver has the area mapped as cached, which is right for a \
                       coherent device",
            evidence: "`memmap=` on the command line, MTRRs, PAT, `/proc/iomem`, `pat_memtype_list`",
            fix: "allocate the buffer through the DMA API and remove `memmap=`; where the area must stay, \
                  make it uncachable: `iotoll mtrr plan --want BASE:SIZE:uncachable`; before 2.6.32 add \
                  `mem=` so that the kernel does not use the area",
            risk: "uncachable, the CPUs' accesses take about twenty times as long; `mem=` takes all memory \
                   above the area away too",
            verify: "a transfer test that compares the data, not only the throughput",
        },
        Explanation {
            id: Id::MtrrPatConflict,
            meaning: "MTRRs give parts of one `memmap=` area different memory types; or the kernel's log \
                      says that a mapping asked for a type that another mapping or an MTRR does not allow.",
            severity: "warning",
            evidence: "MTRRs, or the kernel's lines on conflicting memory types",
            fix: "put the area within one register's range or give it one type (`iotoll mtrr plan`); map the \
                  range with the type that it already has: `resourceN_wc` in sysfs for write-combining, not \
                  `/dev/mem`",
            risk: "changing MTRRs on a running machine changes the type of memory in use: read the plan's \
                   warnings",
            verify: "`cat /proc/mtrr`, `iotoll inspect --range BASE-END`, and no new such line in `dmesg`",
        },
    ],
};

/// Findings about memory types.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let Some(memory) = &case.host.memory else { return Vec::new() };
    // Of a host whose memory map was not read, nothing is known but what was asked for.
    let areas = memory.memmap.iter().filter(|_| !memory.shows_no_types());
    let areas = areas.filter_map(|area| area.set_aside().map(|range| (area, range)));
    let mut findings: Vec<Finding> =
        areas.flat_map(|(area, range)| check_area(case, memory, area, range)).collect();
    findings.extend(conflicts(&case.host.log));
    findings
}

/// Findings on one area of `memmap=`.
fn check_area(case: &Case<'_>, memory: &MemoryTypes, area: &MemmapArea, range: PhysRange) -> Vec<Finding> {
    let effective = memory.effective(range);
    let mut findings = Vec::new();
    if let Some(mapping) = effective.mapped_by(Call::Ioremap) {
        let finding = match mapping.parts.iter().all(|part| part.kind.is_cacheable()) {
            true => incoherent(memory, area, range, &effective, mapping),
            false => uncached(memory, area, range, &effective, mapping),
        };
        findings.push(Finding { forecast: case.basis.area_forecast(range), ..finding });
    }
    findings.extend(still_memory(memory, area, range));
    findings.extend(tracked_as_cached(memory, area, range));
    findings.extend(split(&effective, area));
    findings
}

/// The evidence on a mapping of an area.
fn evidence(area: &MemmapArea, effective: &Effective, mapping: &Mapping) -> Vec<Citation> {
    let parts = effective.parts.iter().flat_map(|part| &part.reasons);
    let mut lines: Vec<Citation> = vec![area.at.clone()];
    lines.extend(parts.chain(&mapping.reasons).filter_map(|reason| reason.at.clone()));
    lines.dedup();
    lines
}

/// A finding on a mapping that is uncached.
fn uncached(
    memory: &MemoryTypes,
    area: &MemmapArea,
    range: PhysRange,
    effective: &Effective,
    mapping: &Mapping,
) -> Finding {
    let kinds: Vec<String> = mapping.parts.iter().map(|part| part.kind.to_string()).collect();
    let combines = mapping.parts.iter().all(|part| part.kind == MemoryType::WriteCombining);
    Finding {
        id: Id::MemmapUncached,
        severity: Severity::Warning,
        address: None,
        what: format!(
            "the area {range} set aside by memmap= is {} when a driver maps it with ioremap: {}. It is right for a \
             device that is not coherent; PCIe devices of x86 machines are, unless they set No Snoop",
            kinds.join(", "),
            if combines { COMBINED_ACCESS } else { UNCACHED_ACCESS }
        ),
        evidence: evidence(area, effective, mapping),
        fix: uncached_fix(memory).into(),
        risk: "cached for a device that is not coherent, the CPUs read stale data: check the data, not only the speed"
            .to_owned(),
        verify: "iotoll inspect --range BASE-END, and /sys/kernel/debug/x86/pat_memtype_list with the driver loaded"
            .into(),
        // What was published is of uncached stores.
        gain: (!combines).then(published::uncached_to_dma_api),
        predicted: Vec::new(),
        forecast: None,
    }
}

/// 2.6.18 knows no call that caches what its MTRRs make uncachable.
fn uncached_fix(memory: &MemoryTypes) -> String {
    let instead = dma_api(memory);
    match memory.kernel {
        kernel if kernel < (2, 6, 32) => instead,
        _ => {
            format!("{instead}; for a coherent device a driver may also map it with {}", cached_call(memory))
        }
    }
}

/// A finding on a cached mapping that the device's accesses do not snoop.
fn incoherent(
    memory: &MemoryTypes,
    area: &MemmapArea,
    range: PhysRange,
    effective: &Effective,
    mapping: &Mapping,
) -> Finding {
    Finding {
        id: Id::MemmapIncoherent,
        severity: Severity::Critical,
        address: None,
        what: format!(
            "the area {range} set aside by memmap= is cached (write-back) when a driver maps it with ioremap on this \
             kernel: a device that is not coherent with the caches then corrupts data, since a CPU reads the old line \
             that it holds, and the device the memory that the CPU has not written yet"
        ),
        evidence: evidence(area, effective, mapping),
        fix: Advice::say(dma_api(memory))
            .and_say("; where the area must stay, make it uncachable by MTRR: ")
            .and_run(plan_mtrrs(range, "uncachable")),
        risk: "uncachable, the CPUs' accesses take about twenty times as long".to_owned(),
        verify: "a transfer test that compares the data, not only the throughput".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// The command that plans MTRRs to give a range this type.
pub(super) fn plan_mtrrs(range: PhysRange, kind: &str) -> Command {
    let wish = format!("{:#x}:{}:{kind}", range.base(), size(range.size_bytes()));
    Command::new("iotoll").args(&["mtrr", "plan", "--want"]).arg(wish)
}

/// A size as the planner and the kernel take it.
fn size(bytes: u128) -> String {
    match bytes {
        bytes if bytes % (1 << 20) == 0 => format!("{}M", bytes >> 20),
        bytes => format!("{}K", bytes.div_ceil(1 << 10)),
    }
}

/// Before 2.6.32 the kernel lists the area and goes on using the memory under it, unless `exactmap` or `mem=`
/// takes it away (arch/x86_64/kernel/e820.c of 2.6.18): kernel and device then write to the same pages.
fn still_memory(memory: &MemoryTypes, area: &MemmapArea, range: PhysRange) -> Option<Finding> {
    if area.effect != MemmapEffect::RamStaysInUse {
        return None;
    }
    let ram = memory.iomem.as_ref()?.ram().into_iter().find(|ram| ram.value.overlaps(range))?;
    Some(Finding {
        id: Id::MemmapIncoherent,
        severity: Severity::Critical,
        address: None,
        what: format!(
            "the area {range} was to be set aside by memmap=, and this kernel still uses the memory there ({}): what a \
             device writes to it overwrites data of the kernel or of programs",
            ram.value
        ),
        evidence: vec![area.at.clone(), ram.at],
        fix: format!(
            "add mem={} so that no memory from the area up is used (or a full memmap=exactmap list), or {}",
            size(u128::from(range.base())),
            dma_api(memory)
        )
        .into(),
        risk: "mem= takes all memory above the area away too: put the area at the end of memory".to_owned(),
        verify: "/proc/iomem shows no System RAM over the area after the reboot".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// A driver has mapped the area cached, whatever ioremap would give.
fn tracked_as_cached(memory: &MemoryTypes, area: &MemmapArea, range: PhysRange) -> Option<Finding> {
    let mapped = memory
        .memtypes
        .iter()
        .find(|memtype| memtype.value.kind == MemoryType::WriteBack && memtype.value.range.overlaps(range))?;
    Some(Finding {
        id: Id::MemmapIncoherent,
        severity: Severity::Note,
        address: None,
        what: format!(
            "a driver has the area {range} set aside by memmap= mapped cached (write-back): right for a coherent \
             device, corrupting for one that is not"
        ),
        evidence: vec![area.at.clone(), mapped.at.clone()],
        fix: format!("if the device is not coherent: {}", dma_api(memory)).into(),
        risk: "none".to_owned(),
        verify: "a transfer test that compares the data".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// MTRRs give parts of one area different types.
fn split(effective: &Effective, area: &MemmapArea) -> Option<Finding> {
    let first = effective.parts.first()?;
    let differs = effective.parts.iter().find(|part| part.mtrr != first.mtrr)?;
    let shown = |effect: &MtrrEffect| match effect {
        MtrrEffect::Type(kind) => kind.to_string(),
        MtrrEffect::Undefined(_) => "undefined".to_owned(),
    };
    let mut evidence = vec![area.at.clone()];
    evidence.extend(first.reasons.iter().chain(&differs.reasons).filter_map(|reason| reason.at.clone()));
    Some(Finding {
        id: Id::MtrrPatConflict,
        severity: Severity::Warning,
        address: None,
        what: format!(
            "MTRRs split the area {}: {} from {:#x}, {} from {:#x}; a cached mapping of the whole becomes uncached or \
             is cached in part",
            effective.range,
            shown(&first.mtrr),
            first.range.base(),
            shown(&differs.mtrr),
            differs.range.base()
        ),
        evidence,
        fix: Advice::say("put the area within one register's range, or give it one type: ")
            .and_run(plan_mtrrs(effective.range, "TYPE"))
            .and_say(", TYPE being the one that its device needs"),
        risk:
            "changing MTRRs on a running machine changes the type of memory in use: read the plan's warnings"
                .to_owned(),
        verify: "cat /proc/mtrr, and iotoll inspect --range BASE-END".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// What the kernel itself complained of.
fn conflicts(log: &LogFacts) -> Option<Finding> {
    let lines = &log.memory_type_conflicts;
    let first = lines.first()?;
    let what = match &log.memory_type_range {
        Some(ConflictingTypes { start, end, types: [one, other] }) => format!(
            "two mappings want different memory types for {start:#x}-{:#x} ({} MiB): {one} and {other}. The second was \
             refused ({}); while the first stands, others can map the range with its type only",
            end.saturating_sub(1),
            grouped(end.saturating_sub(*start) >> 20),
            counted(lines.len(), "line")
        ),
        None => format!(
            "somebody asked for a memory type that another mapping or an MTRR does not allow ({}): {}",
            counted(lines.len(), "line"),
            first.text
        ),
    };
    Some(Finding {
        id: Id::MtrrPatConflict,
        severity: Severity::Warning,
        address: None,
        what,
        evidence: lines.iter().take(LINES_QUOTED_MAX).cloned().collect(),
        fix: "map the range with the type that it already has (/sys/kernel/debug/x86/pat_memtype_list shows it): a \
              program should use resourceN_wc in sysfs for write-combining, not /dev/mem. If the range belongs to a \
              device given to a guest, a former driver's mapping is still there: bind vfio-pci to it at boot, before that \
              driver"
            .into(),
        risk: "with the other type it may be slower; the conflict itself was refused or degraded to uncached".to_owned(),
        verify: "no new such line in `dmesg`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}
