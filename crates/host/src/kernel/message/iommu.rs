//! The IOMMU core and VFIO: drivers/iommu/{iommu,dma-iommu}.c, drivers/vfio/.

use super::{Device, scan};
use crate::Bdf;

/// A message of the IOMMU core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IommuMessage {
    /// What new domains are. Printed even on hosts without an active IOMMU: it proves none.
    DefaultDomain {
        /// Identity, as opposed to translated.
        passthrough: bool,
        /// An option chose it.
        by_command_line: bool,
    },
    /// How translated domains invalidate. It proves no active IOMMU either.
    InvalidationPolicy {
        /// At each unmap, as opposed to in batches.
        strict: bool,
        /// An option chose it.
        by_command_line: bool,
    },
    /// A device joined a group.
    GroupJoined {
        /// The device, on its bus.
        name: String,
        /// The same as a PCI address.
        bdf: Option<Bdf>,
        /// The group.
        group: u32,
    },
    /// A device left its group.
    GroupLeft {
        /// The device, on its bus.
        name: String,
        /// The same as a PCI address.
        bdf: Option<Bdf>,
        /// The group.
        group: u32,
    },
    /// The I/O addresses below 4 GiB ran out for this device once: it now uses wider ones.
    WiderAddresses {
        /// Their width.
        bits: u32,
    },
    /// No domain of the wanted type could be made.
    DefaultDomainFallback(String),
    /// Firmware wants an identity mapping for this device, so it can't be given to a guest or to user space.
    UserAttachRefused,
    /// QEMU may not have a device, because others of its group still have drivers of the host (hw/vfio/container.c, `vfio_get_group`).
    GroupNotViable {
        /// The device.
        device: Option<Bdf>,
        /// The group.
        group: u32,
    },
    /// QEMU or Xen's tools found no IOMMU for a device that they were to give to a guest (hw/vfio/pci.c, `vfio_realize`;
    /// tools/libs/light/libxl_pci.c, `libxl__device_pci_add`).
    NoGroup {
        /// The device.
        device: Option<Bdf>,
        /// Xen says so.
        by_xen: bool,
    },
    /// A paravirtual IOMMU was set up.
    VirtioIommu,
    /// Messages about faults that were left out because there were too many.
    FaultsSuppressed(u64),
    /// User space took a device that no IOMMU guards.
    UnsafeNoIommu,
}

/// Reads a message of the core.
pub(super) fn read(body: &str, device: Option<&Device>) -> Option<IommuMessage> {
    if let Some(rest) = body.strip_prefix("iommu: ") {
        return parse_core_message(rest);
    }
    if device.is_some_and(|device| device.driver == "virtio_iommu") && body.starts_with("input address") {
        return Some(IommuMessage::VirtioIommu);
    }
    match body.as_bytes().first()? {
        b'A' => parse_group_joined(body, device).or_else(|| parse_vfio_no_iommu(body)),
        b'R' => parse_group_left(body, device),
        b'U' => parse_wider_addresses(body),
        b'F' => parse_domain_fallback(body),
        b'D' => parse_attach_refused(body),
        b'v' | b'g' => parse_vfio_no_iommu(body)
            .or_else(|| parse_not_viable(body, device))
            .or_else(|| parse_no_group(body, device)),
        b'n' => parse_no_group(body, device),
        b'P' => parse_no_group_of_xen(body),
        b'a' | b'd' => parse_suppressed_faults(body),
        _ => None,
    }
}

/// Parses a message with the prefix `iommu: `.
fn parse_core_message(rest: &str) -> Option<IommuMessage> {
    let by_command_line = rest.contains("kernel command line");
    if let Some(kind) = rest.strip_prefix("Default domain type: ") {
        let passthrough = kind.starts_with("Passthrough");
        let known = passthrough || kind.starts_with("Translated");
        return known.then_some(IommuMessage::DefaultDomain { passthrough, by_command_line });
    }
    if let Some(policy) = rest.strip_prefix("DMA domain TLB invalidation policy: ") {
        let strict = policy.starts_with("strict");
        let known = strict || policy.starts_with("lazy");
        return known.then_some(IommuMessage::InvalidationPolicy { strict, by_command_line });
    }
    // 2.6.32 to 4.19 and RHEL 7 name the device in the message.
    if let Some(rest) = rest.strip_prefix("Adding device ") {
        let (name, group) = rest.split_once(" to group ")?;
        return Some(IommuMessage::GroupJoined {
            name: name.to_owned(),
            bdf: parse_full_bdf(name),
            group: scan::small(group)?,
        });
    }
    if let Some(rest) = rest.strip_prefix("Removing device ") {
        let (name, group) = rest.split_once(" from group ")?;
        return Some(IommuMessage::GroupLeft {
            name: name.to_owned(),
            bdf: parse_full_bdf(name),
            group: scan::small(group)?,
        });
    }
    rest.starts_with("Failed to allocate default")
        .then(|| IommuMessage::DefaultDomainFallback(scan::words(rest)))
}

/// The PCI address that a device is named by, if the name includes the domain.
fn parse_full_bdf(name: &str) -> Option<Bdf> {
    (name.matches(':').count() == 2).then(|| name.parse().ok()).flatten()
}

/// Parses `Adding to iommu group 7`.
fn parse_group_joined(body: &str, device: Option<&Device>) -> Option<IommuMessage> {
    let group = scan::small(body.strip_prefix("Adding to iommu group ")?)?;
    let device = device?;
    Some(IommuMessage::GroupJoined { name: device.name.clone(), bdf: device.bdf, group })
}

/// Parses `Removing from iommu group 7`.
fn parse_group_left(body: &str, device: Option<&Device>) -> Option<IommuMessage> {
    let group = scan::small(body.strip_prefix("Removing from iommu group ")?)?;
    let device = device?;
    Some(IommuMessage::GroupLeft { name: device.name.clone(), bdf: device.bdf, group })
}

/// Parses `Using 64-bit DMA addresses`.
fn parse_wider_addresses(body: &str) -> Option<IommuMessage> {
    let (bits, rest) = body.strip_prefix("Using ")?.split_once("-bit ")?;
    rest.starts_with("DMA addresses").then_some(())?;
    Some(IommuMessage::WiderAddresses { bits: scan::small(bits)? })
}

/// Parses `Device is ineligible for IOMMU domain attach due to platform RMRR requirement`, of VT-d since 3.16. Since 6.3
/// the core says it in other words.
fn parse_attach_refused(body: &str) -> Option<IommuMessage> {
    let refused =
        body.starts_with("Device is ineligible for IOMMU domain attach due to platform RMRR requirement");
    refused.then_some(IommuMessage::UserAttachRefused)
}

/// Parses `vfio error: 0000:01:00.0: group 1 is not viable`, `vfio 0000:01:00.0: group 1 is not viable` and, up to 2.x, `vfio: error, group 1
/// is not viable`.
fn parse_not_viable(body: &str, device: Option<&Device>) -> Option<IommuMessage> {
    let (before, rest) = body.split_once("group ")?;
    let (group, _) = rest.split_once(" is not viable")?;
    let named = before.split_whitespace().find_map(|word| scan::bdf(word.trim_end_matches([':', ','])));
    let device = device.and_then(|device| device.bdf).or(named);
    Some(IommuMessage::GroupNotViable { device, group: group.parse().ok()? })
}

/// Parses `vfio 0000:00:14.0: no iommu_group found: No such file or directory` and, up to QEMU 2.8, `vfio: error no iommu_group for
/// device`.
fn parse_no_group(body: &str, device: Option<&Device>) -> Option<IommuMessage> {
    let is_none_found =
        body.contains("no iommu_group found") || body.contains("error no iommu_group for device");
    is_none_found.then(|| {
        let named = || body.split_whitespace().find_map(|word| parse_full_bdf(word.trim_end_matches(':')));
        IommuMessage::NoGroup { device: device.and_then(|device| device.bdf).or_else(named), by_xen: false }
    })
}

/// Parses `PCI device 0000:00:19.0 cannot be assigned - no IOMMU?`.
fn parse_no_group_of_xen(body: &str) -> Option<IommuMessage> {
    let (device, rest) = body.strip_prefix("PCI device ")?.split_once(' ')?;
    rest.starts_with("cannot be assigned - no IOMMU")
        .then(|| IommuMessage::NoGroup { device: scan::bdf(device), by_xen: true })
}

/// Parses messages about a default domain that could not be used.
fn parse_domain_fallback(body: &str) -> Option<IommuMessage> {
    if body.starts_with("Firmware has requested this device have a 1:1 IOMMU mapping") {
        return Some(IommuMessage::UserAttachRefused);
    }
    let is_fallback = body.starts_with("Failed to allocate default IOMMU domain");
    is_fallback.then(|| IommuMessage::DefaultDomainFallback(scan::words(body)))
}

/// `dmar_fault: 812287 callbacks suppressed`: the function that would have printed them.
fn parse_suppressed_faults(body: &str) -> Option<IommuMessage> {
    let (function, count) = body.strip_suffix(" callbacks suppressed")?.split_once(": ")?;
    let reports_faults =
        ["dmar_fault", "amd_iommu", "arm_smmu"].iter().any(|start| function.starts_with(start));
    reports_faults.then(|| scan::decimal(count).map(IommuMessage::FaultsSuppressed)).flatten()
}

/// Parses messages about VFIO without an IOMMU.
fn parse_vfio_no_iommu(body: &str) -> Option<IommuMessage> {
    let taint = body.starts_with("Adding kernel taint for vfio-noiommu group");
    (taint || body.starts_with("vfio-noiommu device opened")).then_some(IommuMessage::UnsafeNoIommu)
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Iommu", expect);
    }

    #[test]
    fn messages() {
        check(
            "vfio 0000:00:14.0: no iommu_group found: No such file or directory",
            "NoGroup { device: Some(0000:00:14.0), by_xen: false }",
        );
        check("vfio: error no iommu_group for device", "NoGroup { device: None, by_xen: false }");
        check(
            "PCI device 0000:00:19.0 cannot be assigned - no IOMMU?",
            "NoGroup { device: Some(0000:00:19.0), by_xen: true }",
        );
        check("dmar_fault: 812287 callbacks suppressed", "FaultsSuppressed(812287)");
        check(
            "iommu: Default domain type: Translated ",
            "DefaultDomain { passthrough: false, by_command_line: false }",
        );
        check(
            "iommu: Default domain type: Passthrough (set via kernel command line)",
            "DefaultDomain { passthrough: true, by_command_line: true }",
        );
        check(
            "iommu: DMA domain TLB invalidation policy: strict mode (set via kernel command line)",
            "InvalidationPolicy { strict: true, by_command_line: true }",
        );
        check(
            "iommu: DMA domain TLB invalidation policy: lazy mode ",
            "InvalidationPolicy { strict: false, by_command_line: false }",
        );
        check(
            "nvme 0000:00:04.0: Adding to iommu group 0",
            r#"GroupJoined { name: "0000:00:04.0", bdf: Some(0000:00:04.0), group: 0 }"#,
        );
        check(
            "platform MSFT0101:00: Adding to iommu group 12",
            r#"GroupJoined { name: "MSFT0101:00", bdf: None, group: 12 }"#,
        );
        check(
            "iommu: Adding device 0000:00:1f.0 to group 5",
            r#"GroupJoined { name: "0000:00:1f.0", bdf: Some(0000:00:1f.0), group: 5 }"#,
        );
        check(
            "iommu: Removing device 0000:01:00.0 from group 14",
            r#"GroupLeft { name: "0000:01:00.0", bdf: Some(0000:01:00.0), group: 14 }"#,
        );
        check(
            "pci 0000:44:00.0: Removing from iommu group 33",
            r#"GroupLeft { name: "0000:44:00.0", bdf: Some(0000:44:00.0), group: 33 }"#,
        );
        check("nvme 0000:01:00.0: Using 64-bit DMA addresses", "WiderAddresses { bits: 64 }");
        check(
            "iommu: Failed to allocate default IOMMU domain of type 11 for group (null) - Falling back to IOMMU_DOMAIN_DMA",
            r#"DefaultDomainFallback("Failed to allocate default IOMMU domain of type 11 for group (null) - Falling back to IOMMU_DOMAIN_DMA")"#,
        );
        check(
            "pci 0000:01:00.0: Firmware has requested this device have a 1:1 IOMMU mapping, rejecting configuring the device without a 1:1 mapping. Contact your platform vendor.",
            "UserAttachRefused",
        );
        check("virtio_iommu virtio0: input address: 64 bits", "VirtioIommu");
        check("vfio-pci 0000:01:00.0: Adding kernel taint for vfio-noiommu group on device", "UnsafeNoIommu");
        check("vfio-pci 0000:01:00.0: vfio-noiommu device opened by user (spdk:812)", "UnsafeNoIommu");
        check(
            "vfio-pci 0000:0b:00.0: Device is ineligible for IOMMU domain attach due to platform RMRR requirement.  Contact your platform vendor.",
            "UserAttachRefused",
        );
        for log in
            ["vfio error: 0000:04:00.0: group 1 is not viable", "vfio 0000:04:00.0: group 1 is not viable"]
        {
            check(log, "GroupNotViable { device: Some(0000:04:00.0), group: 1 }");
        }
        check(
            "vfio: error, group 12 is not viable, please ensure all",
            "GroupNotViable { device: None, group: 12 }",
        );
    }
}
