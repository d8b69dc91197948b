//! Hosts made up to drive one rule each: every finding and every DMA path at least once, and for every finding a
//! host where a simpler rule would speak up wrongly.
//!
//! One file per case in `tests/rules/`; its head says under `why:` which behaviour it is about and where
//! that is written down, then what is expected, then the files (see `fixture`).

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, reason = "each test uses its part of the reader")]
mod fixture;

use fixture::{About, Case};
use host::diagnose::{DmaPath, Id};
use host::{Digest, Host, Tree};
use std::collections::BTreeSet;
use std::path::Path;

fn cases() -> Vec<Case> {
    fixture::cases("rules", &["why"])
}

#[test]
fn rules_match_the_kernel() {
    let wrong: Vec<String> = cases().iter().flat_map(Case::differences).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_finding_is_driven_and_has_a_counterexample() {
    let cases = cases();
    let ids = |list: fn(&Case) -> &[About]| -> BTreeSet<String> {
        cases.iter().flat_map(list).map(|about| about.id.clone()).collect()
    };
    let (driven, refuted) = (ids(|case| &case.expected.findings), ids(|case| &case.expected.no_findings));
    for id in Id::ALL.map(Id::word) {
        assert!(driven.contains(id), "no case expects {id}");
        assert!(refuted.contains(id), "no case expects that {id} is not found");
    }
    let known: BTreeSet<String> = Id::ALL.iter().map(|id| id.word().to_owned()).collect();
    let misspelled: Vec<_> = driven.union(&refuted).filter(|id| !known.contains(*id)).collect();
    assert!(misspelled.is_empty(), "{misspelled:?}");
}

#[test]
fn every_dma_path_is_driven() {
    let cases = cases();
    let driven: BTreeSet<&str> = cases
        .iter()
        .flat_map(|case| &case.expected.dma_paths)
        .map(|(_, dma_path)| dma_path.as_str())
        .collect();
    for dma_path in DmaPath::ALL {
        assert!(driven.contains(dma_path.word()), "no case expects {dma_path}");
    }
}

#[test]
fn a_fix_names_the_tool_of_the_distribution_in_os_release() {
    let text =
        fixture::texts("rules").into_iter().find(|(name, _)| name.contains("power-disable-ddw")).unwrap().1;
    let check = |distribution: &str, expect: &str| {
        let text = format!("{text}-- etc/os-release --\nPRETTY_NAME=\"{distribution}\"\n");
        let inspection = Case::parse(&text, distribution.to_owned(), &["why"]).inspect();
        let finding = inspection.findings.iter().find(|finding| finding.id.word() == "power-default-window");
        assert_eq!(finding.unwrap().fix.to_string(), expect);
    };
    check(
        "Debian GNU/Linux 12 (bookworm)",
        "remove `disable_ddw` from the kernel command line (GRUB_CMDLINE_LINUX in /etc/default/grub, then \
         update-grub) and reboot",
    );
    check(
        "Red Hat Enterprise Linux 9.4 (Plow)",
        "remove `disable_ddw` from the kernel command line (grubby --update-kernel=ALL --remove-args=disable_ddw) \
         and reboot",
    );
    check(
        "SUSE Linux Enterprise Server 15 SP5",
        "remove `disable_ddw` from the kernel command line (yast bootloader) and reboot",
    );
}

#[test]
fn the_verification_of_a_narrow_mask_matches_its_fix() {
    let capture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures/ppc-ddw.tar.gz");
    let host = Host::read(&Tree::open(&capture).unwrap());
    let finding = fixture::inspect(host, &Digest::default()).findings.remove(0);
    assert!(finding.fix.to_string().contains("adapter and driver that ask for 64 bits"));
    let verify = finding.verify.to_string();
    assert!(verify.starts_with("with the new adapter and driver, dma_mask_bits in sysfs is 64"), "{verify}");
}
