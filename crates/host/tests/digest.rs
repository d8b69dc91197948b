//! `data/tolls/digest.toml` is made from the toll sheets beside it, and this keeps it true.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../../../tests/skip.rs"]
mod skip;

use host::Digest;
use skip::skip;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::{env, fs};
use toll::{DmaPath, Estimate, Toll, TollSheet, toll_over};

const HEAD: &str = "\
# What inspections keep of the toll sheets beside this file. It is made from them:
# IOTOLL_UPDATE=1 cargo test -p iotoll-host --test digest

";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tolls")
}

fn sheets() -> Vec<TollSheet> {
    let paths = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let is_sheet =
        |path: &PathBuf| path.extension().is_some_and(|end| end == "json") && !path.ends_with("schema.json");
    let mut sheets: Vec<PathBuf> = paths.filter(is_sheet).collect();
    sheets.sort();
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        TollSheet::read(&text, &path.display().to_string()).unwrap()
    };
    sheets.iter().map(read).collect()
}

#[test]
fn the_digest_is_generated_from_the_toll_sheets() {
    let sheets = sheets();
    if sheets.is_empty() {
        // Sheets are large, and a source package may leave them out; the digest is then what was released.
        return skip("no toll sheets here");
    }
    let mut digest = Digest::default();
    sheets.iter().for_each(|sheet| digest.add(sheet));
    let made = format!("{HEAD}{}", toml::to_string(&digest).unwrap());
    let file = folder().join("digest.toml");
    if env::var_os("IOTOLL_UPDATE").is_some() {
        fs::write(&file, &made).unwrap();
    }
    assert!(
        fs::read_to_string(&file).unwrap_or_default() == made,
        "data/tolls/digest.toml is out of date: IOTOLL_UPDATE=1 cargo test -p iotoll-host --test digest"
    );
}

#[test]
fn the_built_in_digest_is_that_of_the_file() {
    let text = fs::read_to_string(folder().join("digest.toml")).unwrap();
    let digest = Digest::parse(&text).unwrap();
    assert_eq!(&digest, Digest::builtin());
    assert!(!digest.sheets.is_empty());
    for sheet in &digest.sheets {
        assert!(!sheet.tolls.is_empty(), "{}: no workload that inspections ask for", sheet.preset);
        let translates = sheet.dma_path.is_translated() || sheet.dma_path == DmaPath::Identity;
        assert!(
            !translates || sheet.iommu.is_some(),
            "{}: {} without an IOMMU",
            sheet.preset,
            sheet.dma_path
        );
    }
}

/// What a sheet adds over its base, or over another sheet of its machine and kernel, to the stages of DMA mapping.
fn dma_over(sheet: &TollSheet, other: &TollSheet) -> Vec<(String, Estimate)> {
    let kept = |toll: &&Toll| host::digest::WORKLOADS.iter().any(|end| toll.workload.ends_with(end));
    let over = |toll: &Toll| Some((toll.workload.clone(), toll_over(toll, other.toll(&toll.workload)?).dma));
    sheet.tolls.iter().filter(kept).filter_map(over).collect()
}

/// What inspections are told: translation costs instructions, strict more than lazy, and passthrough about nothing.
#[test]
fn differences_that_inspections_use_have_the_right_sign() {
    let sheets = sheets();
    let find = |preset: &str| sheets.iter().find(|sheet| sheet.preset == preset);
    for sheet in &sheets {
        let Some(base) = sheet.base.as_deref().and_then(find) else { continue };
        for (workload, more) in dma_over(sheet, base) {
            let instructions = base.toll(&workload).unwrap().instructions.median as f64;
            let place = format!("{workload} of {} over {}: {more:?}", sheet.preset, base.preset);
            if sheet.dma_path.is_untranslated() {
                assert!(more.mean.abs() < 0.001 * instructions, "{place}");
            } else if sheet.dma_path != DmaPath::User {
                assert_eq!(more.sign(), Some(Ordering::Greater), "{place}");
            }
        }
        let Some(lazy) = find(&sheet.preset.replace("strict", "lazy")) else { continue };
        if lazy.preset != sheet.preset && lazy.kernel.release == sheet.kernel.release {
            for (workload, more) in dma_over(sheet, lazy) {
                let place = format!("{workload} of {} over {}: {more:?}", sheet.preset, lazy.preset);
                assert_eq!(more.sign(), Some(Ordering::Greater), "{place}");
            }
        }
    }
}
