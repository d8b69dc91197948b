//! Hosts from the field: excerpts that people posted, rewritten to the smallest tree, with the verdict
//! that their authors reached.
//!
//! One file per case in `tests/field/`. Its head names the source, the machine, which lines come from the
//! source and which were added, and what the authors found; then what is expected, then the files:
//! `-- path --`, `-- path (hex) --` for bytes, `-- path -> target --` for links.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use host::tree::Memory;
use host::{Host, Inspection, Tree};
use std::{fs, path::Path};

/// What a case's head expects.
#[derive(Debug, Default)]
struct Expected {
    roads: Vec<(String, String)>,
    findings: Vec<(String, String)>,
    no_findings: Vec<(String, String)>,
}

struct Case {
    name: String,
    expected: Expected,
    files: Memory,
}

impl Case {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let head_end = text.find("\n-- ").unwrap_or_else(|| panic!("{name}: no files"));
        let (head, body) = text.split_at(head_end + 1);
        for key in ["source: ", "machine: ", "excerpt: ", "authors-found: ", "expect-road: "] {
            assert!(head.lines().any(|line| line.starts_with(key)), "{name}: no `{key}` in its head");
        }
        Self { expected: expected(head), files: files(body), name }
    }

    fn inspect(&self) -> Inspection {
        Inspection::of(Host::read(&Tree::of_memory(self.files.clone())))
    }

    /// What is not as expected.
    fn differences(&self) -> Vec<String> {
        let inspection = self.inspect();
        let road = |address: &str| {
            let of = |adapter: &host::facts::Adapter| adapter.function.address.to_string() == address;
            inspection.adapters().find(|(adapter, _)| of(adapter)).map(|(_, verdict)| verdict.clone())
        };
        let found = |id: &str, at: &str| {
            inspection.findings.iter().any(|finding| {
                finding.id.word() == id
                    && finding.address.map_or("host".to_owned(), |bdf| bdf.to_string()) == at
            })
        };
        let mut wrong = Vec::new();
        for (address, expected) in &self.expected.roads {
            match road(address) {
                Some(verdict) if verdict.road.word() == expected => {
                    assert!(
                        !verdict.evidence.is_empty(),
                        "{}: {address}: a road without evidence",
                        self.name
                    );
                }
                other => wrong.push(format!("{}: {address}: expected {expected}, got {other:?}", self.name)),
            }
        }
        let all = || {
            let one = |finding: &host::judge::Finding| format!("{} {:?}", finding.id, finding.address);
            inspection.findings.iter().map(one).collect::<Vec<_>>().join(", ")
        };
        for (id, at) in self.expected.findings.iter().filter(|(id, at)| !found(id, at)) {
            wrong.push(format!("{}: expected {id} {at}, found: {}", self.name, all()));
        }
        for (id, at) in self.expected.no_findings.iter().filter(|(id, at)| found(id, at)) {
            wrong.push(format!("{}: {id} {at} is no finding here", self.name));
        }
        wrong
    }
}

fn expected(head: &str) -> Expected {
    let pairs = |key: &str| {
        let lines = head.lines().filter_map(|line| line.strip_prefix(key));
        lines
            .map(|line| line.trim().split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap())
            .collect()
    };
    Expected {
        roads: pairs("expect-road: "),
        findings: pairs("expect-finding: "),
        no_findings: pairs("expect-no-finding: "),
    }
}

fn files(body: &str) -> Memory {
    let mut files = Memory::default();
    for part in body.split("\n-- ").map(|part| part.trim_start_matches("-- ")) {
        let (marker, content) = part.split_once(" --").unwrap();
        let content = content.strip_prefix('\n').unwrap_or(content);
        if let Some((path, target)) = marker.split_once(" -> ") {
            files.link(path, target);
        } else if let Some(path) = marker.strip_suffix(" (hex)") {
            files.file(path, bytes(content));
        } else {
            files.file(marker, format!("{}\n", content.trim_end_matches('\n')));
        }
    }
    files
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/field");
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| Case::read(path)).collect()
}

#[test]
fn verdicts_are_those_of_the_people_who_were_there() {
    let cases = cases();
    assert!(cases.len() >= 30, "cases went missing");
    let wrong: Vec<String> = cases.iter().flat_map(Case::differences).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
