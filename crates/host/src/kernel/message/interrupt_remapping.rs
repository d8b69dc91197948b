//! Interrupt remapping that is off: drivers/iommu/intel/irq_remapping.c, drivers/iommu/amd/init.c, drivers/iommu/irq_remapping.c,
//! drivers/vfio/vfio_iommu_type1.c.

/// A message that tells that interrupts are not remapped. Such IOMMUs translate DMA all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InterruptRemappingMessage {
    /// Firmware's table (DMAR, IVRS) lacks an I/O APIC.
    TableLacksApic,
    /// The chipset has an erratum.
    ChipsetErratum,
    /// It was not turned on; other lines may tell why.
    Off,
    /// VFIO refused a device because of it.
    UserRefused,
}

/// Reads a message about interrupt remapping.
pub(super) fn read(body: &str) -> Option<InterruptRemappingMessage> {
    if !matches!(body.as_bytes().first()?, b'D' | b'[' | b'A' | b'T' | b'N' | b'F' | b'v' | b'i') {
        return None;
    }
    let has = |words: &str| body.contains(words);
    // "[Firmware Bug]: ioapic 2 has no mapping iommu, interrupt remapping will be disabled", "AMD-Vi: [Firmware Bug]: IOAPIC[4]
    // not in IVRS table", "AMD-Vi: [Firmware Bug]: No southbridge IOAPIC found".
    let lacks_apic = has("has no mapping iommu, interrupt remapping will be disabled")
        || has("not in IVRS table")
        || has("No southbridge IOAPIC found");
    if lacks_apic {
        return Some(InterruptRemappingMessage::TableLacksApic);
    }
    // Wrapped in a warning of several lines.
    if body.starts_with("This system BIOS has enabled interrupt remapping") {
        return Some(InterruptRemappingMessage::ChipsetErratum);
    }
    if has("No interrupt remapping support. ") {
        return Some(InterruptRemappingMessage::UserRefused);
    }
    let is_off = [
        "Not enabling interrupt remapping",
        "Not enable interrupt remapping",
        "Failed to enable irq remapping",
        "Disabling interrupt remapping",
    ];
    is_off.iter().any(|words| has(words)).then_some(InterruptRemappingMessage::Off)
}

#[cfg(test)]
mod tests {
    fn check(log: &str, expect: &str) {
        super::super::tests::check(log, "InterruptRemapping", expect);
    }

    #[test]
    fn messages() {
        check(
            "DMAR-IR: [Firmware Bug]: ioapic 0 has no mapping iommu, interrupt remapping will be disabled",
            "TableLacksApic",
        );
        check(
            "[Firmware Bug]: ioapic 2 has no mapping iommu, interrupt remapping will be disabled",
            "TableLacksApic",
        );
        check("[Firmware Bug]: AMD-Vi: IOAPIC[4] not in IVRS table", "TableLacksApic");
        check("AMD-Vi: [Firmware Bug]: No southbridge IOAPIC found", "TableLacksApic");
        check("This system BIOS has enabled interrupt remapping", "ChipsetErratum");
        check("DMAR-IR: Not enabling interrupt remapping", "Off");
        check("Failed to enable irq remapping.  You are vulnerable to irq-injection attacks.", "Off");
        check("AMD-Vi: [Firmware Bug]: : Disabling interrupt remapping", "Off");
        check(
            r#"vfio_iommu_type1_attach_group: No interrupt remapping support.  Use the module param "allow_unsafe_interrupts" to enable VFIO IOMMU support on this platform"#,
            "UserRefused",
        );
    }
}
