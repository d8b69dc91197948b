//! `docs/validation/field.md` is made from the heads of the field cases, and this keeps it true.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::fmt::Write;
use std::{env, fs, path::Path};

const HEAD: &str = "\
# Hosts from the field

Each case is an excerpt that somebody posted about a real machine. It was reduced to the smallest file tree that shows the problem, and
is kept in `crates/host/tests/field/`; a few are kept as posted. The test `field` compares our verdict with what the thread found out. Where
`iotoll` does not tell all of that, the file asks for the part that it tells. Each file says which of its lines come from the source, and
which we added. This page is made from the heads of the files: `IOTOLL_UPDATE=1 cargo test -p iotoll-host --test field_list`.
";

fn values<'a>(head: &'a str, key: &str) -> Vec<&'a str> {
    head.lines().filter_map(|line| line.strip_prefix(key)).collect()
}

fn page(folder: &Path) -> String {
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut page = format!("{HEAD}\n{} cases.\n", paths.len());
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let head = text.split("\n-- ").next().unwrap();
        let one = |key: &str| values(head, key).join(" ");
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let _ = writeln!(page, "\n## {name}\n");
        let _ = writeln!(page, "- Machine: {}", one("machine: "));
        let _ = writeln!(page, "- Source: {}", one("source: "));
        let excerpt = one("excerpt: ");
        let (from_source, assumed) = excerpt.split_once(" assumed: ").unwrap_or((&excerpt, "nothing"));
        let from_source = from_source.trim_start_matches("from the source: ").trim_end_matches(['.', ';']);
        let _ = writeln!(page, "- Lines from the source: {from_source}");
        let _ = writeln!(page, "- Lines that we added: {assumed}");
        let _ = writeln!(page, "- What the thread found out: {}", one("authors-found: "));
        let _ = writeln!(page, "- Expected DMA path: {}", values(head, "expect-dma-path: ").join("; "));
        for (key, words) in [
            ("expect-finding: ", "Expected findings"),
            ("expect-no-finding: ", "Findings that must not appear"),
        ] {
            let found = values(head, key);
            if !found.is_empty() {
                let _ = writeln!(page, "- {words}: {}", found.join("; "));
            }
        }
    }
    page
}

#[test]
fn the_page_of_field_cases_is_generated_from_the_cases() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = here.join("../../docs/validation/field.md");
    let made = page(&here.join("tests/field"));
    if env::var_os("IOTOLL_UPDATE").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == made,
        "docs/validation/field.md is out of date: IOTOLL_UPDATE=1 cargo test -p iotoll-host --test field_list"
    );
}
