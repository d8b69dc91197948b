//! Strict and lazy invalidation, against what the adapter needs and what was asked for.

use super::{LineEdit, Rule, add_kernel_argument, group_type_file, is_untrusted, pass_through, takes_type};
use crate::diagnose::{Advice, Case, DmaPath, Explanation, Finding, Id, Severity, Verdict, published};
use crate::facts::iommu::{Group, Kind};
use crate::facts::{Adapter, Host};
use crate::kernel::{Architecture, Effect};
use crate::{Citation, Cited};
use escape::shell::Command;
use toll::Gain;

const LAZY_RISK: &str = "after an unmap the device can reach the old buffer until the next batch is flushed, up to \
                         about 10 ms: a faulty or hostile device could read or damage what was put there since";

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[
        Explanation {
            id: Id::StrictOnFastAdapter,
            meaning: "IOMMU strict mode: every unmap of this adapter waits for an IOTLB invalidation. \
                      Adapters of high rate (network, NVMe, GPUs ...) lose throughput by it.",
            severity: "warning; note where the command line asks for strict mode",
            evidence: "the type of the IOMMU group in sysfs, or the kernel log and command line where the \
                       group's type does not tell",
            fix: "write `DMA-FQ` to the group's `type` in sysfs (Linux 5.15 or later, with the driver \
                  bound); for good, `iommu.strict=0`, or remove the option that asks for strict mode. In a \
                  guest with a virtual IOMMU, `iommu=pt`",
            risk: "in lazy mode the device can reach a buffer for up to about 10 ms after the unmap, until \
                   the flush queue is flushed: a faulty or hostile device could read or damage what is \
                   there by then",
            verify: "`cat /sys/kernel/iommu_groups/GROUP/type` prints DMA-FQ, or `iotoll inspect` shows \
                     translated-lazy after the reboot",
        },
        Explanation {
            id: Id::VirtualIommuStrict,
            meaning: "A guest with a virtual IOMMU (VT-d in caching mode, AMD-Vi): the kernel batches no \
                      invalidations on it, so every translated adapter is strict.",
            severity: "note; where adapters are found strict, their own findings stand in its place",
            evidence: "the kernel's line on batching, and the command line",
            fix: "`iommu=pt`, if the virtual IOMMU can pass addresses through",
            risk: "passed through, the guest's memory is open to its adapters; the hypervisor still confines \
                   them to the guest",
            verify: "`dmesg` shows `iommu: Default domain type: Passthrough` after the reboot",
        },
        Explanation {
            id: Id::StrictAgainstRequest,
            meaning: "The command line asks for lazy invalidation, and every unmap of this adapter waits for \
                      one all the same.",
            severity: "warning",
            evidence: "the type of the IOMMU group, and the option on the command line",
            fix: "as for strict-on-fast-adapter; look for what changed the group's type after boot (udev, \
                  tuned, a script)",
            risk: "as for strict-on-fast-adapter",
            verify: "as for strict-on-fast-adapter",
        },
        Explanation {
            id: Id::LazyAgainstRequest,
            meaning: "The command line asks for strict invalidation, and this adapter's invalidations are \
                      batched: it can reach buffers for up to about 10 ms after their unmap.",
            severity: "warning",
            evidence: "the type of the IOMMU group, and the option on the command line",
            fix: "reboot, which makes it strict as asked, on older kernels with the option spelled as the kernel's documentation has it; else, \
                  if the host can do without the device for a moment, unbind the driver, write `DMA` to the group's `type`, bind the \
                  driver again, and look for what changed the type after boot",
            risk: "strict mode costs an invalidation per unmap: expect less throughput on fast adapters; while its driver is unbound, the device \
                   is gone",
            verify: "`cat /sys/kernel/iommu_groups/GROUP/type` prints DMA, or `iotoll inspect` shows \
                     translated-strict after the reboot",
        },
    ],
};

/// Findings about strict and lazy invalidation.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let working = case.working().filter(|(_, verdict)| verdict.dma_path.is_translated());
    let of_adapters: Vec<Finding> =
        working.filter_map(|(adapter, verdict)| check_adapter(case.host, adapter, verdict)).collect();
    // Where adapters are found strict, their findings say why.
    let of_host = if of_adapters.is_empty() { virtual_iommu(case.host) } else { None };
    of_adapters.into_iter().chain(of_host).collect()
}

/// A finding on a guest whose virtual IOMMU makes translated adapters strict.
fn virtual_iommu(host: &Host) -> Option<Finding> {
    let at = host.log.batching_disallowed.as_ref()?;
    let asked = host.requests.passthrough.as_ref().filter(|asked| asked.value);
    let confirmed = host.log.default_passthrough.as_ref().is_some_and(|said| said.value);
    if confirmed {
        return None;
    }
    let (fix, what) = match asked {
        Some(_) => (
            "`iommu=pt` is asked for already: whether the virtual IOMMU can pass addresses through is told by the line \
             `iommu: Default domain type` of the boot log, and by `type` of the groups in sysfs"
                .into(),
            "; `iommu=pt` is asked for, and nothing read tells whether it is in force",
        ),
        None => (pass_through(LineEdit::of(host)).advice(), ""),
    };
    Some(Finding {
        id: Id::VirtualIommuStrict,
        severity: Severity::Note,
        address: None,
        what: format!(
            "this is a guest with a virtual IOMMU: the kernel batches no invalidations on it, so every adapter that it \
             translates is strict{what}"
        ),
        evidence: std::iter::once(at.clone()).chain(asked.map(|asked| asked.at.clone())).collect(),
        fix,
        risk: "passed through, the guest's memory is open to its adapters; the hypervisor still confines them to the guest"
            .to_owned(),
        verify: "`dmesg` shows `iommu: Default domain type: Passthrough` after the reboot".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    })
}

/// Compares how an adapter's mappings are invalidated with what was asked for and with its speed.
fn check_adapter(host: &Host, adapter: &Adapter, verdict: &Verdict) -> Option<Finding> {
    let asked = host.requests.strict.as_ref();
    match (verdict.dma_path, asked) {
        // The kernel runs devices of ports for strangers strict, whatever it is told.
        (DmaPath::TranslatedStrict, _) if is_untrusted(host, adapter) => None,
        (DmaPath::TranslatedStrict, Some(asked)) if !asked.value => {
            Some(strict_against_request(host, adapter, verdict, asked))
        }
        (DmaPath::TranslatedLazy, Some(asked)) if asked.value => {
            Some(lazy_against_request(host, adapter, verdict, asked))
        }
        (DmaPath::TranslatedStrict, asked) if is_fast(adapter) => {
            Some(strict_on_fast(host, adapter, verdict, asked))
        }
        _ => None,
    }
}

/// Whether the cost of strict invalidation matters for the adapter.
fn is_fast(adapter: &Adapter) -> bool {
    let ids = &adapter.function.ids;
    ids.class.is_some_and(|class| class.is_high_rate(ids.vendor))
}

/// A finding on a fast adapter in strict mode.
fn strict_on_fast(host: &Host, adapter: &Adapter, verdict: &Verdict, asked: Option<&Cited<bool>>) -> Finding {
    let mut evidence = verdict.evidence.clone();
    evidence.extend(asked.map(|asked| asked.at.clone()));
    let wanted = match asked {
        Some(_) => ", as the command line asks",
        None => "",
    };
    let (fix, verify) = lazy_fix(host, adapter);
    Finding {
        id: Id::StrictOnFastAdapter,
        // What an administrator asked for is a choice, not a fault.
        severity: if asked.is_some() { Severity::Note } else { Severity::Warning },
        address: Some(adapter.function.address),
        what: format!("every unmap of this adapter waits for an IOTLB invalidation (strict mode{wanted})"),
        evidence,
        fix,
        risk: LAZY_RISK.to_owned(),
        verify,
        gain: published_gain(host),
        predicted: Vec::new(),
        forecast: None,
    }
}

/// The fix that brings lazy invalidation, and how to verify it.
///
/// The IOMMU group's own setting where the kernel has one, else the command line.
fn lazy_fix(host: &Host, adapter: &Adapter) -> (Advice, Advice) {
    if let Some(why) = why_without_batches(host) {
        let fix = why.and(pass_through(LineEdit::of(host)).advice());
        return (fix, "`dmesg` shows `iommu: Default domain type: Passthrough` after the reboot".into());
    }
    let lasting = lasting_lazy_fix(host);
    let group = adapter.function.iommu_group.as_ref().map(|group| group.value);
    match group.filter(|group| host.tells_lazy_groups() && takes_type(host, *group)) {
        Some(group) => {
            let fix = Advice::run(Command::write("DMA-FQ", group_type_file(group)))
                .and_say(" (as root, now, with the driver bound); for good, ")
                .and(lasting);
            (fix, Advice::run(Command::new("cat").arg(group_type_file(group))).and_say(" prints DMA-FQ"))
        }
        None => (lasting, "`iotoll inspect` shows translated-lazy after the reboot".into()),
    }
}

/// Why the kernel batches nothing whatever it is told, as the beginning of a fix. The driver of virtio-iommu has batches in 6.8 and not in
/// 6.1 (`viommu_ops`, `flush_iotlb_all`; a type of `DMA-FQ` before makes the kernel call what is not there).
fn why_without_batches(host: &Host) -> Option<Advice> {
    if let Some(at) = &host.log.batching_disallowed {
        let why = Advice::say("the kernel does not batch on a virtual IOMMU (").and_text(&at.text);
        return Some(why.and_say("); in the guest, "));
    }
    let is_virtio = host.iommus.instances.iter().any(|instance| instance.kind == Kind::VirtioIommu);
    let has_batches = host.kernel().and_then(|kernel| kernel.knows((6, 1), (6, 8)));
    (is_virtio && has_batches != Some(true)).then(|| {
        "this kernel's driver of virtio-iommu batches nothing, whatever it is told: use Linux 6.8 or later in the guest; or "
            .into()
    })
}

/// How lazy invalidation is set for every boot.
///
/// The strict words of `intel_iommu=` and `amd_iommu=` are read after `iommu.strict=0` and win over it (`__setup`
/// against `early_param`), so they must go.
fn lasting_lazy_fix(host: &Host) -> Advice {
    let strict = [Effect::Strict(true)];
    let takes_option = takes_iommu_strict(host);
    if LineEdit::asks(host, &strict) {
        let edit = LineEdit::of(host).stop_asking(&strict);
        // Without a word the build decides, and Arm's default is strict.
        let is_named = host.options.iter().any(|judged| judged.token.is("iommu.strict"));
        return if takes_option && is_named { edit.add("iommu.strict=0") } else { edit }.advice();
    }
    let is_lazy = |said: &Option<Cited<bool>>| said.as_ref().is_some_and(|cited| !cited.value);
    if is_lazy(&host.requests.strict) || is_lazy(&host.log.strict) {
        "the boot was lazy: look for what made the group strict since (udev, tuned, a script, a quirk of the chipset in the boot log)"
            .into()
    } else if takes_option {
        add_kernel_argument(host, "iommu.strict=0")
    } else {
        "find what asks for it at boot: this kernel has no option for batches, they are its default".into()
    }
}

/// Arm reads `iommu.strict=` since 4.20, x86 in kernels whose groups tell strict from lazy (after 5.10, not in
/// RHEL 8).
fn takes_iommu_strict(host: &Host) -> bool {
    let Some(kernel) = host.kernel() else { return true };
    match &host.platform.architecture {
        Some(architecture) if architecture.is_x86() => kernel.tells_lazy_groups() != Some(false),
        Some(architecture) if architecture.is_arm() => kernel.knows((4, 19), (5, 0)) != Some(false),
        _ => true,
    }
}

/// What a publication measured for lazy invalidation on this architecture.
fn published_gain(host: &Host) -> Option<Gain> {
    match host.platform.architecture.as_ref()? {
        Architecture::X86_64 | Architecture::X86 => Some(published::strict_to_lazy_x86()),
        Architecture::Aarch64 => Some(published::strict_to_lazy_arm()),
        _ => None,
    }
}

/// The evidence of a verdict, with the option that asked for something else.
fn with_request(verdict: &Verdict, asked: &Cited<bool>) -> Vec<Citation> {
    verdict.evidence.iter().cloned().chain([asked.at.clone()]).collect()
}

/// A finding on an adapter that is strict although lazy mode was asked for.
fn strict_against_request(host: &Host, adapter: &Adapter, verdict: &Verdict, asked: &Cited<bool>) -> Finding {
    let (fix, verify) = lazy_fix(host, adapter);
    Finding {
        id: Id::StrictAgainstRequest,
        severity: Severity::Warning,
        address: Some(adapter.function.address),
        what: "the command line asks for lazy invalidation, yet each unmap of this adapter waits for one"
            .to_owned(),
        evidence: with_request(verdict, asked),
        fix,
        risk: LAZY_RISK.to_owned(),
        verify,
        gain: published_gain(host),
        predicted: Vec::new(),
        forecast: None,
    }
}

/// A finding on an adapter that is lazy although strict mode was asked for.
fn lazy_against_request(host: &Host, adapter: &Adapter, verdict: &Verdict, asked: &Cited<bool>) -> Finding {
    let (fix, unbinds, verify) = back_to_strict(host, adapter);
    let gone = if unbinds { "; while its driver is unbound, the device is gone" } else { "" };
    Finding {
        id: Id::LazyAgainstRequest,
        severity: Severity::Warning,
        address: Some(adapter.function.address),
        what: "the command line asks for strict invalidation, yet this adapter's are batched: it can reach \
               buffers for up to about 10 ms after they were taken back"
            .to_owned(),
        evidence: with_request(verdict, asked),
        fix,
        risk: format!(
            "strict mode costs an invalidation per unmap: expect less throughput on fast adapters{gone}"
        ),
        verify,
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}

/// A group's type is changed back with the driver unbound; kernels whose types don't tell strict from lazy
/// decide at boot for all. Returns the fix, whether it unbinds the driver, and how to verify it.
fn back_to_strict(host: &Host, adapter: &Adapter) -> (Advice, bool, Advice) {
    let address = adapter.function.address;
    let group = adapter.function.iommu_group.as_ref().map(|group| group.value);
    // Each member's driver would have to be unbound.
    let is_alone = |group: &u32| host.iommus.groups.get(group).is_some_and(Group::is_single);
    match group.filter(|group| host.tells_lazy_groups() && takes_type(host, *group) && is_alone(group)) {
        Some(group) => {
            let driver = adapter.function.driver.as_ref();
            let driver = driver.map(|driver| format!("/sys/bus/pci/drivers/{}", driver.value));
            let (unbind, bind) = match driver {
                Some(driver) => (format!("{driver}/unbind"), format!("{driver}/bind")),
                None => (
                    format!("/sys/bus/pci/devices/{address}/driver/unbind"),
                    "/sys/bus/pci/drivers_probe".to_owned(),
                ),
            };
            let step = |file: String| Command::write(address.to_string(), file);
            // Not what is done first: it takes the device away.
            let unbound = Advice::say(
                "on a host that can do without the device for a moment (not the disk that it runs from, nor the network that you are on): ",
            )
            .and_run(step(unbind))
            .and_say(", ")
            .and_run(Command::write("DMA", group_type_file(group)))
            .and_say(", ")
            .and_run(step(bind))
            .and_say("; and look for what changed the type after boot");
            let fix = Advice::say("reboot, which makes it strict as the command line asks").or_else(unbound);
            (fix, true, Advice::run(Command::new("cat").arg(group_type_file(group))).and_say(" prints DMA"))
        }
        None if host.tells_lazy_groups() => (
            "reboot, which makes it strict as the command line asks, and look for what changed the type after boot: while \
             members of its group are in use the type stays"
                .into(),
            false,
            "`iotoll inspect` shows translated-strict after the reboot".into(),
        ),
        None => (
            "check that the log and the command line are of the same boot: this kernel decides at boot for all \
             adapters; if they are, reboot with the option spelled as the kernel's documentation has it"
                .into(),
            false,
            "`iotoll inspect` shows translated-strict after the reboot".into(),
        ),
    }
}
