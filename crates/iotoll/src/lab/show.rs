//! `iotoll lab show`: toll sheets, and workloads across them.

use crate::cli::LabShow;
use crate::output::{self, Outcome};
use crate::tolls::sheet;
use serde::Serialize;
use toll::{Difference, TollSheet, toll_over, untranslated};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    sheets: &'a [TollSheet],
    over_untranslated: Vec<Over<'a>>,
}

/// What a workload pays on a DMA path beyond what it pays without translation.
#[derive(Serialize)]
struct Over<'a> {
    preset: &'a str,
    kernel_release: &'a str,
    workload: &'a str,
    untranslated_preset: &'a str,
    difference: Difference,
}

pub(super) fn run(args: &LabShow) -> anyhow::Result<Outcome> {
    let sheets = args.sheets.iter().map(|path| sheet(path)).collect::<anyhow::Result<Vec<_>>>()?;
    super::page(&sheets, args.html.as_deref())?;
    print(&sheets, args.json)?;
    Ok(Outcome::Fine)
}

pub(super) fn print(sheets: &[TollSheet], json: bool) -> anyhow::Result<()> {
    match json {
        true => output::json(&Document {
            schema: "iotoll.toll-sheets/2",
            sheets,
            over_untranslated: sheets.iter().flat_map(|sheet| over(sheet, sheets)).collect(),
        }),
        false => output::report(tables(sheets)),
    }
}

fn over<'a>(sheet: &'a TollSheet, sheets: &'a [TollSheet]) -> Vec<Over<'a>> {
    let Some(base) = untranslated(sheet, sheets).filter(|base| *base != sheet) else { return Vec::new() };
    let both = sheet.tolls.iter().filter_map(|toll| Some((toll, base.toll(&toll.workload)?)));
    both.map(|(toll, without)| Over {
        preset: &sheet.preset,
        kernel_release: &sheet.kernel.release,
        workload: &toll.workload,
        untranslated_preset: &base.preset,
        difference: toll_over(toll, without),
    })
    .collect()
}

/// Each sheet; and if there are several, each workload on all DMA paths.
fn tables(sheets: &[TollSheet]) -> String {
    let (width, style) = (output::width(), output::style());
    let mut texts: Vec<String> = sheets.iter().map(|sheet| report::toll_sheet(sheet, width, style)).collect();
    if sheets.len() > 1 {
        let of_workload = |workload| report::toll_table(sheets, workload, width, style);
        texts.extend(workloads(sheets).into_iter().map(of_workload));
    }
    texts.join("\n\n")
}

/// Workloads in the order in which they first appear.
fn workloads(sheets: &[TollSheet]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for toll in sheets.iter().flat_map(|sheet| &sheet.tolls) {
        if !names.contains(&toll.workload.as_str()) {
            names.push(&toll.workload);
        }
    }
    names
}
