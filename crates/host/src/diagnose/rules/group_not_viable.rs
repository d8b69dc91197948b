//! Adapters that user space may not have, because other devices of their IOMMU group still have drivers of the host.

use super::{Rule, is_surely_adapter};
use crate::diagnose::{Case, Explanation, Finding, Id, Severity};
use crate::facts::{Adapter, Host};
use crate::{Bdf, Citation};

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find: |case: &Case<'_>| {
        case.host
            .log
            .not_viable
            .iter()
            .map(|((device, group), at)| finding(case.host, *device, *group, at))
            .collect()
    },
    explains: &[Explanation {
        id: Id::GroupNotViable,
        meaning: "QEMU or another program in user space could not have an adapter, because another device of its IOMMU group has a \
                  driver of the host. Devices of one group can reach each other without passing the IOMMU, so they go together or \
                  not at all.",
        severity: "warning",
        evidence: "the program's message `group N is not viable`",
        fix: "bind all devices of the group to vfio-pci, or unbind their drivers; bridges keep theirs. If one has to stay: another slot, or a \
              setting for ACS in the firmware",
        risk: "the host loses what goes to vfio-pci; `pcie_acs_override=` (a patch outside the kernel) only pretends isolation",
        verify: "the guest or program starts",
    }],
};

/// A finding on one group.
fn finding(host: &Host, device: Option<Bdf>, group: u32, at: &Citation) -> Finding {
    let is_other = |adapter: &&Adapter| {
        let own = adapter.function.iommu_group.as_ref();
        own.is_some_and(|own| own.value == group)
            && Some(adapter.function.address) != device
            && is_surely_adapter(host, adapter)
    };
    let others = host.adapters.iter().filter(is_other);
    let others: Vec<String> = others.map(|adapter| adapter.function.address.to_string()).collect();
    let of_group = match others.as_slice() {
        [] => format!("all devices of group {group} (/sys/kernel/iommu_groups/{group}/devices)"),
        others => others.join(", "),
    };
    Finding {
        id: Id::GroupNotViable,
        severity: Severity::Warning,
        address: device,
        what: format!("user space could not have it: another device of IOMMU group {group} has a driver of the host"),
        evidence: vec![at.clone()],
        fix: format!(
            "bind {of_group} to vfio-pci too, or unbind their drivers; bridges keep theirs. If one of them has to stay with the host, put \
             the adapter into a slot with a root port of its own, or turn ACS on in the firmware's setup if it has that setting"
        )
        .into(),
        risk: "the host loses what goes to vfio-pci; pcie_acs_override= (a patch outside the kernel) only pretends isolation".to_owned(),
        verify: "the guest or program starts".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }
}
