//! POWER: default windows where a direct one may be had, and partitions that stand in their own way.

use super::{Rule, remove_kernel_argument};
use crate::diagnose::power_dma_path::{cite_disabled_windows, endpoint};
use crate::diagnose::{Advice, Case, DmaPath, Explanation, Finding, Id, Severity, Verdict, published};
use crate::facts::log::DdwLog;
use crate::facts::power::{Endpoint, Partition};
use crate::facts::{Adapter, Host};
use crate::pci::Kind;
use crate::power::distribution::Distribution;
use crate::power::location::LocationCode;
use crate::power::partition::Platform;
use crate::power::slots::{self, Placement, SlotTables};
use crate::power::window::Ddw;
use crate::{Bdf, Citation, Cited};
use ddw::{DefaultReason, Era, Outcome, PageSizes, Prediction, Query, Request, predict, size};
use toll::grouped;

const VERIFY: &str = "after the reboot, /proc/device-tree/.../linux,direct64-ddr-window-info is on the adapter's \
                      bridge, and `iotoll inspect` shows direct-window";
const VERIFY_BARE_METAL: &str = "`iotoll inspect` shows direct-window for it";
const VERIFY_MASK: &str = "with the new adapter and driver, dma_mask_bits in sysfs is 64, and `iotoll inspect` shows \
                           direct-window for it";
const NO_RISK: &str = "a direct window maps all of the partition's memory: the adapter can then reach all of it, and \
                       nothing outside the partition";

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[
        Explanation {
            id: Id::PowerDefaultWindow,
            meaning: "POWER: the adapter uses the default 32-bit DMA window, in which each mapping writes \
                      TCEs by hypercall, although a 64-bit window may be had. The finding says what \
                      prevents it: `disable_ddw`, the driver's mask, the slot, the firmware, or \
                      `iommu=nobypass` on bare metal.",
            severity: "warning; note where the driver's mask is the cause",
            evidence: "the default window in the device tree, the kernel's lines on dynamic DMA windows, the \
                       command line, the mask, and the slot's location code",
            fix: "by the cause: remove `disable_ddw`; use an adapter and driver that ask for 64 bits; move \
                  the adapter to a slot that offers the window; update the system's firmware; lower the \
                  partition's maximum memory",
            risk: "a direct window maps all of the partition's memory: the adapter can then reach all of it, \
                   and nothing outside the partition. Moving an adapter changes its location code and the \
                   names derived from it",
            verify: "after the reboot, `linux,direct64-ddr-window-info` is on the adapter's bridge in the \
                     device tree (after a change of adapter, `dma_mask_bits` is 64), and `iotoll inspect` shows \
                     direct-window",
        },
        Explanation {
            id: Id::PowerMaximumMemory,
            meaning: "POWER: the partition's maximum memory is larger than what a 64-bit window can hold. \
                      The kernel sizes the window by the maximum, not by the memory in use: it makes no \
                      window, or one whose entries are written at each mapping.",
            severity: "warning",
            evidence: "`ibm,lrdr-capacity` or `lparcfg`, and firmware's answer about windows in the kernel \
                       log",
            fix: "in the partition's profile set Maximum memory no higher than needed, then shut the \
                  partition down and activate that profile; with persistent memory, use Linux 5.16 or later",
            risk: "memory can then be added while running only up to the new maximum",
            verify: "as for power-default-window",
        },
        Explanation {
            id: Id::RdmaOutsideWindow,
            meaning: "POWER: an RDMA adapter uses the default 32-bit DMA window. Memory that applications register stays mapped, and \
                      all that is registered at a time must fit that window: registrations fail when it is full. The causes are those \
                      of power-default-window and power-maximum-memory.",
            severity: "critical",
            evidence: "as for power-default-window, and the adapter's RDMA device or class",
            fix: "as for power-default-window",
            risk: "as for power-default-window",
            verify: "as for power-default-window",
        },
        Explanation {
            id: Id::PowerWindowFull,
            meaning: "POWER: a DMA window had no room for a mapping, which failed.",
            severity: "critical",
            evidence: "the kernel's lines `iommu_alloc failed`",
            fix: "let the adapter have a 64-bit window (see power-default-window); else let its driver map less at a time, with fewer \
                  queues or smaller rings",
            risk: "as for power-default-window",
            verify: "no new such line in `dmesg` under load",
        },
        Explanation {
            id: Id::PowerWindowExceedsMask,
            meaning: "POWER: the adapter's direct window lies beyond what its DMA mask can address: its DMA \
                      fails.",
            severity: "critical",
            evidence: "the window in the device tree, and `dma_mask_bits`",
            fix: "boot with `disable_ddw` until the driver asks for 64 bits or firmware offers windows \
                  within the mask",
            risk: "without the window every adapter of the partition pays for its mappings",
            verify: "`iotoll inspect` shows tce-window for it, and its driver works",
        },
    ],
};

/// Findings about DMA windows.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let host = case.host;
    let Some(partition) = &host.power else { return Vec::new() };
    let mut findings = Vec::new();
    for (adapter, verdict) in case.working() {
        match verdict.dma_path {
            DmaPath::TceWindow => findings.push(default_window(host, partition, adapter, verdict)),
            DmaPath::DynamicWindow => findings.push(too_small(host, partition, adapter, verdict)),
            DmaPath::DirectWindow => findings.extend(beyond_mask(host, adapter)),
            _ => {}
        }
    }
    findings.extend(article_limit(case, partition));
    findings.extend(windows_full(host));
    findings
}

/// Findings on windows that had no room for a mapping, by adapter; of kernels before 3.x, whose lines name none, for the host.
fn windows_full(host: &Host) -> Vec<Finding> {
    let unnamed = &host.log.windows_full;
    let of_host = unnamed.first.iter().map(|first| window_full(None, unnamed.count, first));
    let named = host.log.ddw.iter().filter_map(|(address, log)| {
        Some(window_full(Some(*address), log.exhausted.len() as u64, log.exhausted.first()?))
    });
    of_host.chain(named).collect()
}

/// A finding on a window that had no room for `count` mappings, the first of which is told in a line.
fn window_full(address: Option<Bdf>, count: u64, first: &Citation) -> Finding {
    let who = if address.is_some() { "" } else { " of an adapter that the lines don't name" };
    Finding {
        id: Id::PowerWindowFull,
        severity: Severity::Critical,
        address,
        what: format!("a DMA window{who} had no room: {} mappings failed by the lines read", grouped(count)),
        evidence: vec![first.clone()],
        fix: "let the adapter have a 64-bit window: a slot and firmware that offer one, a driver with a 64-bit mask, and Linux 3.6, \
              RHEL 6.1, SLES 11 SP2 or later; else let its driver map less at a time, with fewer queues or smaller rings"
            .into(),
        risk: NO_RISK.to_owned(),
        verify: "no new line `iommu_alloc failed` in `dmesg` under load".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// One cause with its remedy.
struct Cause {
    id: Id,
    severity: Severity,
    why: String,
    evidence: Vec<Citation>,
    fix: Advice,
    risk: String,
    /// What shows that the fix worked; `None` for what holds for every window of a partition.
    verify: Option<&'static str>,
}

impl Cause {
    /// Both causes, of which each alone keeps the window away.
    fn and(self, other: Self) -> Self {
        let mut risks = vec![self.risk, other.risk];
        risks.dedup();
        if risks.len() > 1 {
            risks.retain(|risk| risk != "none");
        }
        Self {
            id: self.id,
            severity: self.severity.max(other.severity),
            why: format!("{}; besides, {}", self.why, other.why),
            evidence: self.evidence.into_iter().chain(other.evidence).collect(),
            fix: self.fix.and_say("; and ").and(other.fix),
            risk: risks.join("; "),
            verify: self.verify.or(other.verify),
        }
    }
}

/// A finding on an adapter that uses the default window, with all causes.
fn default_window(host: &Host, partition: &Partition, adapter: &Adapter, verdict: &Verdict) -> Finding {
    let bare_metal = is_bare_metal(partition);
    let cause = match bare_metal {
        true => bare_metal_cause(adapter),
        false => all_causes(host, partition, adapter),
    };
    let rdma = registrations_fill_window(host, adapter);
    let mut evidence = verdict.evidence.clone();
    evidence.extend(cause.evidence);
    evidence.extend(rdma.iter().flat_map(|(_, at)| at.clone()));
    let calls = match partition.tce_calls {
        _ if bare_metal => "",
        Some(ddw::TceCalls::Single) => " by hypercall, one hypercall for each 4 KiB",
        _ => " by hypercall",
    };
    let registrations = rdma.as_ref().map_or("", |(words, _)| words.as_str());
    Finding {
        id: if rdma.is_some() { Id::RdmaOutsideWindow } else { cause.id },
        severity: if rdma.is_some() { Severity::Critical } else { cause.severity },
        address: Some(adapter.function.address),
        what: format!(
            "{registrations}each mapping is written into the default 32-bit window{calls}: {}",
            cause.why
        ),
        evidence,
        fix: cause.fix,
        risk: cause.risk,
        verify: cause.verify.unwrap_or(if bare_metal { VERIFY_BARE_METAL } else { VERIFY }).into(),
        gain: Some(published::tce_to_direct_window()),
        predicted: Vec::new(),
        forecast: None,
    }
}

/// Whether Linux runs without a hypervisor (PowerNV).
fn is_bare_metal(partition: &Partition) -> bool {
    partition.platform.as_ref().is_some_and(|platform| platform.value == Platform::PowerNv)
}

/// The cause on bare metal: the mask, or a missing bypass.
///
/// Bare metal asks no firmware for windows: the mask alone decides, unless `iommu=nobypass` is given.
fn bare_metal_cause(adapter: &Adapter) -> Cause {
    narrow_mask(adapter).unwrap_or_else(|| Cause {
        id: Id::PowerDefaultWindow,
        severity: Severity::Warning,
        why: "it did not get the bypass, which maps all memory at an offset".to_owned(),
        evidence: Vec::new(),
        fix: "look for iommu=nobypass on the kernel command line, and for `bypass` in `dmesg`".into(),
        risk: NO_RISK.to_owned(),
        verify: None,
    })
}

/// All causes that are proved, in the order in which the kernel meets them, as one; one that says so if none is.
fn all_causes(host: &Host, partition: &Partition, adapter: &Adapter) -> Cause {
    let log = host.log.ddw.get(&adapter.function.address);
    let owner = endpoint(host, adapter);
    // What firmware answered can have one cause, and without an offer it was not asked.
    let answered = window_smaller_than_memory(host, partition, owner, adapter, log)
        .or_else(|| refused_by_firmware(host, partition, log))
        .or_else(|| nothing_created(host, partition, log))
        .or_else(|| not_offered(host, partition, owner, adapter));
    let disabled = cite_disabled_windows(host).map(|at| disabled_by_option(host, at));
    let causes = [narrow_mask(adapter), disabled, answered].into_iter().flatten();
    causes.reduce(Cause::and).unwrap_or_else(|| unproved(log))
}

/// For an RDMA adapter in a default window, what that means: memory that applications register stays mapped, in whatever amount
/// they like ("Taking Advantage of 64-bit DMA capability on PowerLinux", B. Leitão and others, 2014, Advantages).
fn registrations_fill_window(host: &Host, adapter: &Adapter) -> Option<(String, Option<Citation>)> {
    let address = adapter.function.address;
    let has_device = host.rdma.iter().any(|device| device.adapter() == Some(address));
    let is_fabric = adapter.function.ids.class.is_some_and(|class| class.kind() == Kind::Fabric);
    if !has_device && !is_fabric {
        return None;
    }
    let window = endpoint(host, adapter).and_then(|owner| owner.default_window.as_ref());
    let room = window.map_or_else(
        || "in that window".to_owned(),
        |window| format!("in {}", size::binary(window.value.size_bytes.into())),
    );
    let full = host.log.ddw.get(&address).and_then(|log| log.exhausted.first());
    let ran_full = if full.is_some() { ", and it ran full" } else { "" };
    let words = format!(
        "all memory that applications register for RDMA at a time must fit {room}, beside all other mappings, or registrations \
         fail{ran_full}; "
    );
    Some((words, full.or_else(|| window.map(|window| &window.at)).cloned()))
}

/// The cause `disable_ddw`, cited at `at`.
fn disabled_by_option(host: &Host, at: Citation) -> Cause {
    Cause {
        id: Id::PowerDefaultWindow,
        severity: Severity::Warning,
        why: "`disable_ddw` keeps the kernel from asking for a 64-bit window".to_owned(),
        evidence: vec![at],
        fix: remove_kernel_argument(host, "disable_ddw"),
        risk: NO_RISK.to_owned(),
        verify: None,
    }
}

/// The cause that the driver's mask has fewer than 64 bits.
fn narrow_mask(adapter: &Adapter) -> Option<Cause> {
    let mask = adapter.narrow_mask()?;
    Some(Cause {
        id: Id::PowerDefaultWindow,
        severity: Severity::Note,
        why: format!("its driver asks for {} address bits, and a direct window needs 64", mask.value),
        evidence: vec![mask.at.clone()],
        fix: "use an adapter and driver that ask for 64 bits (dma_mask_bits in sysfs shows it)".into(),
        risk: "none".to_owned(),
        verify: Some(VERIFY_MASK),
    })
}

/// The cause that the partition's maximum memory exceeds the largest window that firmware offers, if it does.
fn window_smaller_than_memory(
    host: &Host,
    partition: &Partition,
    owner: Option<&Endpoint>,
    adapter: &Adapter,
    log: Option<&DdwLog>,
) -> Option<Cause> {
    let query = log?.query.as_ref()?;
    let memory_max = partition.memory_max.as_ref()?;
    let prediction = predict_window(host, partition, owner, adapter, query)?;
    let reason = match prediction.outcome {
        Outcome::Default { reason } => reason,
        Outcome::Direct { .. } | Outcome::Hybrid { .. } | Outcome::Dynamic { .. } => return None,
    };
    if !matches!(reason, DefaultReason::BlockTooSmall | DefaultReason::CreateRefused) {
        return None;
    }
    let mut evidence = vec![query.at.clone()];
    evidence.extend(memory_max.evidence.iter().cloned());
    Some(Cause {
        id: Id::PowerMaximumMemory,
        severity: Severity::Warning,
        why: format!(
            "the partition's maximum memory of {:#x} bytes does not fit a 64-bit window ({})",
            memory_max.bytes,
            prediction.steps.join("; ")
        ),
        evidence,
        fix: lower_maximum(host, partition, "no higher than needed").into(),
        risk: "memory can then be added while running only up to the new maximum".to_owned(),
        verify: None,
    })
}

/// The fix that sets the partition's maximum memory `to` something.
///
/// The steps are those of the console in "Taking Advantage of 64-bit DMA capability on PowerLinux" (B. Leitão and others, 2014, LPAR
/// memory configuration).
fn lower_maximum(host: &Host, partition: &Partition, to: &str) -> String {
    let now = host
        .platform
        .memory_kib
        .as_ref()
        .map_or_else(String::new, |kib| format!(" (now in use: {} GiB)", kib.value.div_ceil(1 << 20)));
    const WHY: &str = "the kernel sizes its window by the maximum, not by what is in use";
    if partition.is_qemu {
        return format!(
            "in the virtual machine's definition set the maximum memory {to}{now} (QEMU: -m SIZE,maxmem=MAXIMUM; libvirt: \
             maxMemory), then shut it down and start it: {WHY}"
        );
    }
    format!(
        "set the partition's Maximum memory {to}{now}. At the management console (steps of 2014, other releases name \
         them a little differently): (1) expand Systems Management > Servers and select the server; (2) select the partition; (3) Tasks > \
         Configuration > Manage Profiles; (4) select the profile in use, then Action > Edit; (5) on the page Memory set Maximum \
         memory, to Desired memory if none is to be added while running; (6) OK. Then shut the partition down and activate that \
         profile: {WHY}"
    )
}

/// What the kernel would decide on firmware's answer `query`.
fn predict_window(
    host: &Host,
    partition: &Partition,
    owner: Option<&Endpoint>,
    adapter: &Adapter,
    query: &Cited<crate::facts::log::DdwQuery>,
) -> Option<Prediction> {
    let kernel = host.kernel()?;
    let extensions = owner.and_then(|owner| owner.extensions.as_ref()).map(|cited| cited.value);
    let request = Request {
        era: Era::of(kernel.numbers(), kernel.rhel().map(u32::from)).era,
        mask_bits: adapter.dma_mask_bits.as_ref().map_or(64, |mask| mask.value),
        memory_max_bytes: partition.memory_max.as_ref()?.bytes,
        disable_ddw: cite_disabled_windows(host).is_some(),
        persistent_memory: partition.persistent_memory.is_some(),
    };
    let answer = Query {
        windows_available: query.value.windows_available.unwrap_or(1),
        block_tces: query.value.block_tces?,
        page_sizes: PageSizes(query.value.page_sizes?),
        reset: extensions.is_some_and(|extensions| extensions.reset.is_some()),
        limited_addressing: extensions.is_some_and(|extensions| extensions.limited_addressing),
    };
    Some(predict(&request, Some(&answer)))
}

/// The cause that firmware answered with an error.
fn refused_by_firmware(host: &Host, partition: &Partition, log: Option<&DdwLog>) -> Option<Cause> {
    let log = log?;
    let refused = log.create.as_ref().filter(|create| create.value.returned != 0);
    if let Some(create) = refused.filter(|create| create.value.window_shift == 0) {
        return Some(Cause {
            id: Id::PowerDefaultWindow,
            severity: Severity::Warning,
            why: format!(
                "the kernel asked for a window of one byte (2^0), which firmware refuses (status {}): a fault of the kernel, \
                 which knew no memory size when the adapter was plugged in; the adapter works by the default window",
                create.value.returned
            ),
            evidence: vec![create.at.clone()],
            fix: "restart with the adapter in place: the kernel then asks for a window of the right size; and report the \
                  line to linuxppc-dev with the kernel's version"
                .into(),
            risk: "none but the restart".to_owned(),
            verify: None,
        });
    }
    if let Some(create) = refused {
        return Some(Cause {
            id: Id::PowerDefaultWindow,
            severity: Severity::Warning,
            why: format!(
                "firmware refused to create a window of 2^{} bytes in pages of 2^{} bytes (status {}{})",
                create.value.window_shift,
                create.value.page_shift,
                create.value.returned,
                status(create.value.returned)
            ),
            evidence: vec![create.at.clone()],
            fix: {
                // The kernel rounds the maximum up to a power of two and asks for that.
                let most = size::power_of_two(create.value.window_shift.saturating_sub(1));
                let lower = lower_maximum(host, partition, &format!("to {most} or less"));
                let other = match partition.is_qemu {
                    true => "for a passed-through adapter, its host's log tells why",
                    false => {
                        "raise the slot's share (ASMI: System Configuration, I/O Adapter Enlarged Capacity)"
                    }
                };
                Advice::say(lower).or_else(other)
            },
            risk: "the profile's new maximum bounds what can be added while running".to_owned(),
            verify: None,
        });
    }
    if let Some(query) = log.query.as_ref().filter(|query| query.value.windows_available == Some(0)) {
        return Some(Cause {
            id: Id::PowerDefaultWindow,
            severity: Severity::Warning,
            why: "firmware has no window left for this partition endpoint".to_owned(),
            evidence: vec![query.at.clone()],
            // Kernels that print how many are left have tried to trade the default window in.
            fix: "give the adapter an endpoint of its own (another slot, or its own logical port of an SR-IOV adapter); \
                  the kernel trades the default window in only where firmware can reset it (ibm,ddw-extensions) and no \
                  driver of the endpoint maps through it yet"
                .into(),
            risk: "moving an adapter changes its location code and the names derived from it".to_owned(),
            verify: None,
        });
    }
    let refusal = log.refused.clone()?;
    Some(Cause {
        id: Id::PowerDefaultWindow,
        severity: Severity::Warning,
        why: "the kernel gave its 64-bit window up".to_owned(),
        evidence: vec![refusal],
        fix: "look for the lines before it in the log: a driver that lowers its mask, or memory that could not be \
              mapped"
            .into(),
        risk: "none in looking".to_owned(),
        verify: None,
    })
}

/// Status words of the RTAS calls (Linux on Power Architecture Reference, DMA windows).
fn status(returned: i64) -> &'static str {
    match returned {
        -1 => ", hardware error",
        -2 => ", busy",
        -3 => ", parameter: too large, wrong page size, or none left",
        _ => "",
    }
}

/// The cause, as far as it is known, if firmware answered the query and the kernel then asked for no window. Its message,
/// `can't map partition max`, is hidden at the usual log level, and kernels before 6.1 do not print the answer's figures.
fn nothing_created(host: &Host, partition: &Partition, log: Option<&DdwLog>) -> Option<Cause> {
    let log = log.filter(|log| log.create.is_none())?;
    let query =
        log.query.as_ref().filter(|query| query.value.returned == 0 && query.value.block_tces.is_none())?;
    let memory_max = partition.memory_max.as_ref()?;
    let now_bytes = host.platform.memory_kib.as_ref()?.value.saturating_mul(1024);
    // Some memory is taken before the kernel counts; half as much again is no rounding.
    if memory_max.bytes < now_bytes.saturating_mul(3) / 2 {
        return None;
    }
    Some(Cause {
        id: Id::PowerMaximumMemory,
        severity: Severity::Warning,
        why: format!(
            "firmware offers a window and the kernel created none, most often because the partition's maximum memory \
             of {:#x} bytes does not fit, though {now_bytes:#x} are in use",
            memory_max.bytes
        ),
        evidence: std::iter::once(query.at.clone()).chain(memory_max.evidence.iter().cloned()).collect(),
        fix: lower_maximum(host, partition, "no higher than needed").into(),
        risk: "memory can then be added while running only up to the new maximum".to_owned(),
        verify: None,
    })
}

/// The bridge has no `ibm,ddw-applicable`: slot, firmware or kernel is the cause.
fn not_offered(
    host: &Host,
    partition: &Partition,
    owner: Option<&Endpoint>,
    adapter: &Adapter,
) -> Option<Cause> {
    let owner = owner.filter(|owner| owner.applicable.is_none())?;
    let at = Citation::of_file(&owner.node, "has no ibm,ddw-applicable");
    let mut evidence = vec![at];
    let location: Option<LocationCode> = adapter.slot.as_ref().and_then(|slot| slot.value.parse().ok());
    let distribution = distribution(host);
    let placement = Placement {
        machine: partition.machine_type.as_ref().map(|cited| &cited.value),
        firmware: partition.firmware.as_ref().map(|cited| &cited.value),
        location: location.as_ref(),
        distribution: distribution.as_ref(),
    };
    evidence.extend(partition.machine_type.as_ref().map(|cited| cited.at.clone()));
    evidence.extend(partition.firmware.as_ref().map(|cited| cited.at.clone()));
    evidence.extend(adapter.slot.as_ref().map(|cited| cited.at.clone()));
    let why = "firmware offers no 64-bit window at this place".to_owned();
    let Ok(tables) = SlotTables::builtin() else { return None };
    let advice = tables.advice(&placement);
    let fix = match (partition.is_qemu, advice.verdict) {
        (true, _) => {
            "the virtual machine's host decides: QEMU offers windows where ddw=on on the host bridge"
                .to_owned()
        }
        (false, slots::Verdict::Capable { slot }) => format!(
            "slot {slot} is listed as capable: update the system's firmware, and look at the partition's maximum memory"
        ),
        (false, _) => {
            let conditions = if advice.conditions.is_empty() {
                String::new()
            } else {
                format!(" ({})", advice.conditions.join("; "))
            };
            let sources: Vec<String> = advice.evidence.iter().map(ToString::to_string).collect();
            format!("{}{conditions} [{}]", advice.what_to_do, sources.join("; "))
        }
    };
    Some(Cause {
        id: Id::PowerDefaultWindow,
        severity: Severity::Warning,
        why,
        evidence,
        fix: fix.into(),
        risk: "moving an adapter changes its location code and the names derived from it".to_owned(),
        verify: None,
    })
}

/// The distribution, as the slot tables name it.
fn distribution(host: &Host) -> Option<Distribution> {
    let name = &host.platform.distribution.as_ref()?.value;
    let numbers = |text: &str| {
        text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
            .find(|word| !word.is_empty())
            .map(str::to_owned)
    };
    let mut version = numbers(name)?;
    // `SUSE Linux Enterprise Server 11 SP3`: the service pack counts as the minor release.
    if let Some(pack) = name.split_once(" SP").and_then(|(_, rest)| numbers(rest)) {
        version = format!("{version}.{pack}");
    }
    let id = match name.as_str() {
        name if name.contains("Red Hat") || name.contains("CentOS") => "rhel",
        name if name.contains("SUSE") => "sles",
        _ => return None,
    };
    Distribution::new(id, &version)
}

/// The answer where no cause is proved.
fn unproved(log: Option<&DdwLog>) -> Cause {
    let evidence = log.and_then(|log| log.exhausted.first().cloned()).into_iter().collect::<Vec<_>>();
    let full = if evidence.is_empty() { "" } else { ", and it ran full" };
    Cause {
        id: Id::PowerDefaultWindow,
        severity: Severity::Warning,
        why: format!("nothing read shows that a 64-bit window was asked for{full}"),
        evidence,
        fix: "use a kernel with dynamic DMA windows (RHEL 6.1, SLES 11 SP2, Linux 3.6 or later) and a slot whose \
              bridge has ibm,ddw-applicable in the device tree"
            .into(),
        risk: "none".to_owned(),
        verify: None,
    }
}

/// A 64-bit window that can't hold all memory.
fn too_small(host: &Host, partition: &Partition, adapter: &Adapter, verdict: &Verdict) -> Finding {
    let mut evidence = verdict.evidence.clone();
    let log = host.log.ddw.get(&adapter.function.address);
    let pmem =
        partition.persistent_memory.as_ref().or_else(|| log.and_then(|log| log.persistent_memory.as_ref()));
    evidence.extend(pmem.cloned());
    evidence.extend(partition.memory_max.iter().flat_map(|memory| memory.evidence.iter().cloned()));
    let (why, fix) = match pmem {
        Some(_) => (
            "persistent memory makes the kernel ask for a window over all addresses it may lie at, and the \
             window made is smaller"
                .to_owned(),
            "use a kernel with \"powerpc: Enhance pmem DMA bypass handling\" (5.16 or later, and distributions that \
             took it): it sizes the window for memory alone; or take the persistent memory off the partition"
                .to_owned(),
        ),
        None => (
            "the window made can't hold the partition's maximum memory".to_owned(),
            lower_maximum(host, partition, "no higher than needed"),
        ),
    };
    Finding {
        id: Id::PowerMaximumMemory,
        severity: Severity::Warning,
        address: Some(adapter.function.address),
        what: format!("its 64-bit window is written at each mapping: {why}"),
        evidence,
        fix: fix.into(),
        risk: "memory can then be added while running only up to the new maximum".to_owned(),
        verify: VERIFY.into(),
        gain: Some(published::tce_to_direct_window()),
        predicted: Vec::new(),
        forecast: None,
    }
}

/// A window that ends beyond what the device can address.
fn beyond_mask(host: &Host, adapter: &Adapter) -> Option<Finding> {
    let mask = adapter.dma_mask_bits.as_ref()?;
    let window: &Cited<Ddw> = endpoint(host, adapter)?.windows.last()?;
    (mask.value < 64 && !window.value.within_mask(mask.value)).then(|| Finding {
        id: Id::PowerWindowExceedsMask,
        severity: Severity::Critical,
        address: Some(adapter.function.address),
        what: format!(
            "its direct window starts at {:#x} and spans 2^{} bytes, and its mask has {} bits: it can't reach it",
            window.value.base, window.value.window_shift, mask.value
        ),
        evidence: vec![window.at.clone(), mask.at.clone()],
        fix: "boot with disable_ddw until the driver asks for 64 bits or firmware offers windows within the mask (limited \
              addressing in ibm,ddw-extensions)"
            .into(),
        risk: "without the window every adapter of the partition pays for its mappings".to_owned(),
        verify: "`iotoll inspect` shows tce-window for it, and its driver works".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// The article's rule, with what the kernel's own arithmetic says beside it.
/// A window that stands refutes it.
fn article_limit(case: &Case<'_>, partition: &Partition) -> Option<Finding> {
    let memory_max = partition.memory_max.as_ref()?;
    let tables = SlotTables::builtin().ok()?;
    let direct = case.working().any(|(_, verdict)| verdict.dma_path == DmaPath::DirectWindow)
        || partition.endpoints.values().any(|endpoint| !endpoint.windows.is_empty());
    let applies = !direct && !partition.is_qemu && !is_bare_metal(partition);
    (applies && tables.exceeds_article_limit(memory_max.bytes)).then(|| Finding {
        id: Id::PowerMaximumMemory,
        severity: Severity::Warning,
        address: None,
        what: format!(
            "the partition's maximum memory is {:#x} bytes: \"Taking Advantage of 64-bit DMA capability on \
             PowerLinux\" (B. Leitão and others, 2014) says that above 2 TB no 64-bit window is made. That figure is the \
             article's: kernel sources and the platform reference know no such constant, they compare entries of the \
             largest block times page size with maximum memory ({})",
            memory_max.bytes,
            memory_max.steps.join("; ")
        ),
        evidence: memory_max.evidence.clone(),
        fix: lower_maximum(case.host, partition, "to what is needed").into(),
        risk: "memory can then be added while running only up to the new maximum".to_owned(),
        verify: VERIFY.into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}
