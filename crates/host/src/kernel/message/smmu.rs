//! Arm's SMMU: drivers/iommu/arm/arm-smmu-v3/arm-smmu-v3.c and drivers/iommu/arm/arm-smmu/arm-smmu.c.

use super::{Device, scan};

/// A message of an SMMU driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SmmuMessage {
    /// A version 3 unit was found.
    FoundV3 {
        /// Width of the addresses it takes.
        input_bits: u32,
        /// Width of the addresses it gives.
        output_bits: u32,
        /// The driver's feature bits.
        features: u32,
    },
    /// A version 1 or 2 unit is being set up.
    FoundV2,
    /// A queue in memory: `cmdq`, `evtq`, `priq`.
    Queue {
        /// The queue.
        queue: String,
        /// Its length.
        entries: u32,
    },
    /// Invalidations are not completed in time.
    CommandTimeout,
    /// The unit lets DMA of unknown devices pass.
    Bypass(String),
    /// The unit rejected a command, or a device did not answer one.
    CommandError(String),
    /// The driver shuts the unit down, at a reboot or when it is removed.
    ShutDown,
}

/// Reads a message of an SMMU driver.
pub(super) fn read(body: &str, device: Option<&Device>) -> Option<SmmuMessage> {
    device.filter(|device| device.driver.contains("arm-smmu"))?;
    if let Some(rest) = body.strip_prefix("ias ") {
        return Some(SmmuMessage::FoundV3 {
            input_bits: scan::small(rest)?,
            output_bits: scan::after(rest, "oas ").and_then(scan::small)?,
            features: scan::after(rest, "(features ").and_then(scan::small_hex)?,
        });
    }
    if let Some(rest) = body.strip_prefix("allocated ") {
        let queue = rest.split_once(" entries for ")?.1;
        return Some(SmmuMessage::Queue { queue: scan::words(queue), entries: scan::small(rest)? });
    }
    if body.contains("CMD_SYNC timeout") || body.contains("TLB sync timed out") {
        return Some(SmmuMessage::CommandTimeout);
    }
    if body.starts_with("probing hardware configuration") {
        return Some(SmmuMessage::FoundV2);
    }
    if body.starts_with("disabling translation") {
        return Some(SmmuMessage::ShutDown);
    }
    if let Some((_, error)) = body.strip_prefix("CMDQ error (").and_then(|rest| rest.split_once("): ")) {
        return Some(SmmuMessage::CommandError(scan::words(error)));
    }
    body.contains("requests bypass").then(|| SmmuMessage::Bypass(scan::words(body)))
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "Smmu", expect);
    }

    #[test]
    fn messages() {
        check(
            "arm-smmu-v3 9050000.smmuv3: ias 44-bit, oas 44-bit (features 0x00008305)",
            "FoundV3 { input_bits: 44, output_bits: 44, features: 33541 }",
        );
        check(
            "arm-smmu-v3 arm-smmu-v3.0.auto: allocated 65536 entries for cmdq",
            r#"Queue { queue: "cmdq", entries: 65536 }"#,
        );
        check(
            "arm-smmu-v3 arm-smmu-v3.0.auto: CMD_SYNC timeout at 0x00000d04 [hwprod 0x00000d05, hwcons 0x00000d04]",
            "CommandTimeout",
        );
        check("arm-smmu fd800000.smmu: probing hardware configuration...", "FoundV2");
        check(
            "arm-smmu-v3 arm-smmu-v3.0.auto: DT/ACPI requests bypass",
            r#"Bypass("DT/ACPI requests bypass")"#,
        );
        check(
            "arm-smmu-v3 arm-smmu-v3.0.auto: CMDQ error (cons 0x03000d04): ATC invalidate timeout",
            r#"CommandError("ATC invalidate timeout")"#,
        );
        check(
            "arm-smmu-v3 arm-smmu-v3.0.auto: CMDQ error (cons 0x01000d04): Illegal command\narm-smmu-v3 arm-smmu-v3.0.auto: skipping command in error state:\narm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000002000000010\narm-smmu-v3 arm-smmu-v3.0.auto: \t0x0000000000000000",
            r#"CommandError("Illegal command")"#,
        );
        check("arm-smmu 5000000.iommu: disabling translation", "ShutDown");
    }
}
