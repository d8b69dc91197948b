//! Strict and lazy invalidation, against what the adapter needs and what was asked for.

use super::kernel_argument;
use crate::facts::{Adapter, Host};
use crate::judge::{Case, Finding, Id, Road, Severity, Verdict, published};
use crate::kernel::Architecture;
use crate::{Citation, Cited};
use toll::Gain;

const LAZY_RISK: &str = "after an unmap the device can reach the old buffer until the next batch is flushed, up to \
                         about 10 ms: a faulty or hostile device could read or damage what was put there since";

pub(super) fn find(case: &Case<'_>) -> Vec<Finding> {
    let working = case.working().filter(|(_, verdict)| verdict.road.is_translated());
    working.filter_map(|(adapter, verdict)| judge(case.host, adapter, verdict)).collect()
}

fn judge(host: &Host, adapter: &Adapter, verdict: &Verdict) -> Option<Finding> {
    let asked = host.requests.strict.as_ref();
    match (verdict.road, asked) {
        (Road::TranslatedStrict, Some(asked)) if !asked.value => {
            Some(strict_against_request(host, adapter, verdict, asked))
        }
        (Road::TranslatedLazy, Some(asked)) if asked.value => {
            Some(lazy_against_request(adapter, verdict, asked))
        }
        (Road::TranslatedStrict, asked) if is_fast(adapter) => {
            Some(strict_on_fast(host, adapter, verdict, asked))
        }
        _ => None,
    }
}

fn is_fast(adapter: &Adapter) -> bool {
    let ids = &adapter.function.ids;
    ids.class.is_some_and(|class| class.is_high_rate(Some(ids.vendor)))
}

fn strict_on_fast(host: &Host, adapter: &Adapter, verdict: &Verdict, asked: Option<&Cited<bool>>) -> Finding {
    let mut evidence = verdict.evidence.clone();
    evidence.extend(asked.map(|asked| asked.at.clone()));
    let wanted = match asked {
        Some(_) => ", as the command line asks",
        None => "",
    };
    let (fix, verify) = remedy(host, adapter);
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
        gain: gain(host),
    }
}

/// The fix at hand: the group's own switch where the kernel has one, else the command line.
fn remedy(host: &Host, adapter: &Adapter) -> (String, String) {
    if let Some(at) = &host.log.batching_disallowed {
        let fix = format!(
            "the kernel does not batch on a virtual IOMMU ({}); in the guest, {}",
            at.text,
            kernel_argument("iommu=pt")
        );
        return (fix, "`dmesg` shows `iommu: Default domain type: Passthrough` after the reboot".to_owned());
    }
    let group = adapter.function.iommu_group.as_ref().map(|group| group.value);
    match (group, host.tells_lazy_groups()) {
        (Some(group), true) => {
            let file = format!("/sys/kernel/iommu_groups/{group}/type");
            let fix = format!(
                "echo DMA-FQ > {file} (as root, now, with the driver bound); for good, {}",
                kernel_argument("iommu.strict=0")
            );
            (fix, format!("cat {file} prints DMA-FQ"))
        }
        _ => (
            kernel_argument("iommu.strict=0"),
            "`dmesg` shows `DMA domain TLB invalidation policy: lazy mode`".to_owned(),
        ),
    }
}

fn gain(host: &Host) -> Option<Gain> {
    match host.platform.architecture.as_ref()? {
        Architecture::X86_64 | Architecture::X86 => Some(published::strict_to_lazy_x86()),
        Architecture::Aarch64 => Some(published::strict_to_lazy_arm()),
        _ => None,
    }
}

fn both(verdict: &Verdict, asked: &Cited<bool>) -> Vec<Citation> {
    verdict.evidence.iter().cloned().chain([asked.at.clone()]).collect()
}

fn strict_against_request(host: &Host, adapter: &Adapter, verdict: &Verdict, asked: &Cited<bool>) -> Finding {
    let (fix, verify) = remedy(host, adapter);
    Finding {
        id: Id::StrictAgainstRequest,
        severity: Severity::Warning,
        address: Some(adapter.function.address),
        what: "the command line asks for lazy invalidation, yet each unmap of this adapter waits for one"
            .to_owned(),
        evidence: both(verdict, asked),
        fix,
        risk: LAZY_RISK.to_owned(),
        verify,
        gain: gain(host),
    }
}

fn lazy_against_request(adapter: &Adapter, verdict: &Verdict, asked: &Cited<bool>) -> Finding {
    let address = adapter.function.address;
    let group =
        adapter.function.iommu_group.as_ref().map_or("<group>".to_owned(), |group| group.value.to_string());
    Finding {
        id: Id::LazyAgainstRequest,
        severity: Severity::Warning,
        address: Some(address),
        what: "the command line asks for strict invalidation, yet this adapter's are batched: it can reach \
               buffers for up to about 10 ms after they were taken back"
            .to_owned(),
        evidence: both(verdict, asked),
        fix: format!(
            "echo {address} > /sys/bus/pci/drivers/<driver>/unbind, echo DMA > \
             /sys/kernel/iommu_groups/{group}/type, bind again; and look for what changed the type after boot"
        ),
        risk: "strict mode costs an invalidation per unmap: expect less throughput on fast adapters"
            .to_owned(),
        verify: format!("cat /sys/kernel/iommu_groups/{group}/type prints DMA"),
        gain: None,
    }
}
