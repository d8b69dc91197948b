//! Mappings that were refused, because their IOVA has more bits than the IOMMU takes.

use super::Rule;
use crate::diagnose::{Case, Explanation, Finding, Id, Severity};

/// The rule, with what its findings mean.
pub(super) const RULE: Rule = Rule {
    find,
    explains: &[Explanation {
        id: Id::IovaBeyondWidth,
        meaning: "A program or a driver asked for a mapping at an IOVA that has more bits than the IOMMU's unit translates. The \
                  kernel refused it.",
        severity: "warning",
        evidence: "the line of VT-d's driver, which names the width and the address",
        fix: "whoever chooses the IOVA has to stay below 2 to the power of the width: QEMU by the guest's physical address bits \
              (`host-phys-bits-limit`), DPDK by `--iova-mode=pa` or a lower `--base-virtaddr`",
        risk: "a guest with fewer address bits has less room for the memory of its devices",
        verify: "no new such line in `dmesg`",
    }],
};

/// The finding on the first such mapping.
fn find(case: &Case<'_>) -> Vec<Finding> {
    let Some(beyond) = &case.host.log.beyond_width else { return Vec::new() };
    let (bits, iova) = (beyond.value.bits, beyond.value.iova);
    let end = 1_u128 << bits.min(64);
    vec![Finding {
        id: Id::IovaBeyondWidth,
        severity: Severity::Warning,
        address: None,
        what: format!(
            "a mapping at IOVA {iova:#x} was refused: the IOMMU translates {bits} bits, so IOVAs must stay below {end:#x}"
        ),
        evidence: vec![beyond.at.clone()],
        fix: "have whoever chose the IOVA stay below that: QEMU by the guest's physical address bits (the CPU's property \
              host-phys-bits-limit), DPDK by --iova-mode=pa or a lower --base-virtaddr, a driver by its DMA mask"
            .into(),
        risk: "a guest with fewer address bits has less room for the memory of its devices".to_owned(),
        verify: "no new such line in `dmesg`".into(),
        gain: None,
        predicted: Vec::new(),
        forecast: None,
    }]
}
