//! The host in a few facts: machine, system, IOMMU, bounce buffers, partition.

use crate::page::fact::Fact;
use crate::page::quantity;
use escape::terminal::plain;
use host::Host;
use host::facts::hypervisor::Hypervisor;
use host::facts::iommu::Kind;
use host::facts::numa::Node;
use host::power::partition::Platform;
use std::collections::BTreeMap;

/// NUMA nodes listed one by one.
const NODES_MAX: usize = 4;

/// The facts that a report begins with.
pub(crate) fn facts(host: &Host) -> Vec<Fact> {
    [Some(machine(host)), Some(system(host)), Some(iommu(host)), bounce(host), partition(host)]
        .into_iter()
        .flatten()
        .collect()
}

/// The machine's name, architecture, memory and NUMA nodes.
fn machine(host: &Host) -> Fact {
    let platform = &host.platform;
    let name = platform.machine.as_ref().map(|machine| machine.value.clone());
    let architecture = platform.architecture.as_ref().map(ToString::to_string);
    let memory = platform.memory_kib.as_ref().map(|kib| format!("{} of memory", kibibytes(kib.value)));
    let guest = platform.hypervisor.as_ref().map(|hypervisor| match hypervisor.value {
        Hypervisor::XenDom0 => "dom0 of Xen".to_owned(),
        other => format!("a guest of {}", other.name()),
    });
    let parts = [name, guest, architecture, memory, nodes(&platform.nodes)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => Fact::unknown("machine", "none of the files that tell of it was readable"),
        false => Fact::known("machine", &parts.join("; ")),
    }
}

/// A size of so many KiB in words.
fn kibibytes(kib: u64) -> String {
    quantity::bytes(kib.saturating_mul(1024))
}

/// NUMA nodes with their CPUs, or only their number if there are many.
fn nodes(nodes: &[Node]) -> Option<String> {
    let one = |node: &Node| {
        let cpus = if node.cpus.is_empty() { "no CPUs".to_owned() } else { format!("CPUs {}", node.cpus) };
        format!("{}: {cpus}", node.number)
    };
    match nodes.len() {
        0 => None,
        1 => Some("1 NUMA node".to_owned()),
        count @ 2..=NODES_MAX => {
            Some(format!("{count} NUMA nodes ({})", nodes.iter().map(one).collect::<Vec<_>>().join("; ")))
        }
        count => {
            let bare = nodes.iter().filter(|node| node.cpus.is_empty()).count();
            let bare = if bare > 0 { format!(" ({bare} without CPUs)") } else { String::new() };
            Some(format!("{count} NUMA nodes{bare}"))
        }
    }
}

/// The kernel and the distribution.
fn system(host: &Host) -> Fact {
    let kernel = host.kernel().map(|kernel| format!("Linux {}", kernel.release));
    let distribution = host.platform.distribution.as_ref().map(|name| name.value.clone());
    let parts: Vec<String> = [kernel, distribution].into_iter().flatten().collect();
    match parts.is_empty() {
        true => Fact::unknown("system", "neither /proc/version nor the kernel's first line was there"),
        false => Fact::known("system", &parts.join(", ")),
    }
}

/// The IOMMUs, the number of groups, and the policy.
fn iommu(host: &Host) -> Fact {
    let iommus = &host.iommus;
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for instance in &iommus.instances {
        *kinds.entry(kind_name(instance.kind)).or_default() += 1;
    }
    let kinds: Vec<String> = kinds.iter().map(|(kind, count)| counted(kind, *count)).collect();
    let groups = (!iommus.groups.is_empty()).then(|| quantity::count(iommus.groups.len(), "group"));
    let active = host.log.translation_active.is_some();
    let hardware = match (kinds.is_empty(), iommus.visible) {
        (false, _) => kinds.join(", "),
        (true, _) if active => "in use, by the kernel's log".to_owned(),
        (true, _) if host.log.gart.is_some() || !host.log.gart_full.is_empty() => {
            "GART of AMD, by the kernel's log: it remaps what a device can't reach".to_owned()
        }
        (true, _) if host.log.vt_d_rejected.is_some() => {
            "given up by the kernel, because firmware describes it wrongly".to_owned()
        }
        (true, _) if !host.log.user_attach_refused.is_empty() => "in use, by the kernel's log".to_owned(),
        (true, _) if host.is_power() => "the platform's translation tables".to_owned(),
        (true, _) if has_members_of_groups(host) => "in use, by its groups".to_owned(),
        (true, true) => return Fact::absent("IOMMU", "none in use"),
        (true, false) if host.requests.iommu_off().is_some() => {
            return Fact::absent("IOMMU", "off, by the command line");
        }
        (true, false) if host.log.iommu_disabled.is_some() => {
            return Fact::absent("IOMMU", "off, by the kernel's log");
        }
        (true, false) => return Fact::unknown("IOMMU", "sysfs was not there to show one"),
    };
    let parts: Vec<String> = [Some(hardware), groups, policy(host)].into_iter().flatten().collect();
    Fact::known("IOMMU", &parts.join("; "))
}

/// Whether an adapter is in a group, which only an IOMMU's driver makes, or VFIO for a device without one.
fn has_members_of_groups(host: &Host) -> bool {
    let is_member = |adapter: &host::facts::Adapter| adapter.function.iommu_group.is_some();
    host.log.no_iommu.is_empty() && (!host.iommus.groups.is_empty() || host.adapters.iter().any(is_member))
}

/// `Intel VT-d`, `8 × AMD-Vi`
fn counted(name: &str, count: usize) -> String {
    if count == 1 { name.to_owned() } else { format!("{count} × {name}") }
}

/// The name of a kind of IOMMU.
fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::VtD => "Intel VT-d",
        Kind::AmdVi => "AMD-Vi",
        Kind::SmmuV3 => "Arm SMMUv3",
        Kind::Smmu => "Arm SMMU",
        Kind::VirtioIommu => "virtio-iommu",
        Kind::Tce => "POWER host bridge",
        Kind::Other => "another kind",
    }
}

/// The IOMMU's policy for adapters without a setting of their own.
fn policy(host: &Host) -> Option<String> {
    if host.is_power() {
        return None;
    }
    let passthrough = host.log.default_passthrough.as_ref().or(host.requests.passthrough.as_ref());
    let default = passthrough.map(|cited| match cited.value {
        true => "adapters pass through untranslated by default",
        false => "adapters are translated by default",
    });
    let invalidation = host.invalidation().map(|how| {
        let words = match how.strict {
            true => "invalidations strict: one per unmap",
            false => "invalidations lazy: in batches",
        };
        let doubt = if how.reason.is_some() { " (the architecture's default; no line says so)" } else { "" };
        format!("{words}{doubt}")
    });
    match (default, invalidation) {
        (None, None) => None,
        (Some(one), None) => Some(one.to_owned()),
        (None, Some(other)) => Some(other),
        (Some(one), Some(other)) => Some(format!("{one}, {other}")),
    }
}

/// The swiotlb: its size, its use, and options that force or forbid it. `None` if nothing is known.
fn bounce(host: &Host) -> Option<Fact> {
    let bounce = &host.bounce;
    let pool = bounce.pool_bytes.as_ref().map(|pool| format!("{} of swiotlb", quantity::bytes(pool.value)));
    let slots = |slots: u64| quantity::bytes(slots.saturating_mul(host::facts::bounce::SLOT_BYTES));
    let used = bounce.used_slots.as_ref().map(|used| format!("{} in use", slots(used.value)));
    let most = bounce.used_slots_max.as_ref().map(|most| format!("{} at most since boot", slots(most.value)));
    let forced = bounce.forced.as_ref().map(|at| format!("all direct DMA is copied ({})", plain(&at.text)));
    let never = bounce.never.as_ref().map(|at| format!("never used ({})", plain(&at.text)));
    let parts: Vec<String> = [pool, used, most, forced, never].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| Fact::known("bounce", &parts.join(", ")))
}

/// The POWER platform, its firmware and its DMA windows; `None` on other machines.
fn partition(host: &Host) -> Option<Fact> {
    let power = host.power.as_ref()?;
    let platform = power.platform.as_ref().map(|platform| match platform.value {
        Platform::PowerVm => "a partition of PowerVM".to_owned(),
        Platform::QemuPseries => "a guest of QEMU's pseries machine".to_owned(),
        Platform::PowerNv => "bare metal (PowerNV)".to_owned(),
    });
    let firmware = power.firmware.as_ref().map(|level| format!("firmware {}", level.value));
    let maximum = power.memory_max.as_ref();
    let maximum = maximum.map(|max| format!("may grow to {} of memory", quantity::bytes(max.bytes)));
    let offering = power.endpoints.values().filter(|endpoint| endpoint.applicable.is_some()).count();
    let offer = (!power.endpoints.is_empty()).then(|| {
        format!(
            "64-bit windows offered at {offering} of {}",
            quantity::count(power.endpoints.len(), "host bridge")
        )
    });
    let parts: Vec<String> = [platform, firmware, maximum, offer].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| Fact::known("POWER", &parts.join(", ")))
}
