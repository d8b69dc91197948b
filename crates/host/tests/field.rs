//! Hosts from the field: excerpts that people posted, a few as posted and the others rewritten to the smallest tree, with the verdict
//! that their authors reached.
//!
//! One file per case in `tests/field/`. Its head names the source, the machine, which lines come from the
//! source and which were added, and what the authors found; then what is expected, then the files (see
//! `fixture`).

#[allow(dead_code, reason = "each test uses its part of the reader")]
mod fixture;

use fixture::Case;

#[test]
fn verdicts_agree_with_those_in_the_bug_reports() {
    let keys = ["source", "machine", "excerpt", "authors-found"];
    let cases = fixture::cases("field", &keys);
    assert!(cases.len() >= 109, "cases went missing");
    let wrong: Vec<String> = cases.iter().flat_map(Case::differences).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
