//! `iotoll lab show`: prints toll sheets, and each workload on all DMA paths.

use crate::cli::LabShow;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::tolls::read_sheet;
use serde::Serialize;
use toll::{Difference, PriceList, TollSheet, toll_over, untranslated};

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.toll-sheets/4";

/// What `iotoll lab show --json` and `iotoll lab run --json` print.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.toll-sheets/4`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The sheets.
    sheets: &'a [TollSheet],
    /// What each workload costs more than without translation, for sheets whose untranslated counterpart is among them.
    over_untranslated: Vec<Over<'a>>,
}

/// What a workload costs more on a DMA path than without translation.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Over<'a> {
    /// The preset with the DMA path.
    preset: &'a str,
    /// The release of its kernel.
    kernel_release: &'a str,
    /// The workload.
    workload: &'a str,
    /// The preset without translation.
    untranslated_preset: &'a str,
    /// The additional cost per I/O.
    difference: Difference,
}

/// Prints toll sheets, and writes the HTML page if one is wanted.
pub(super) fn run(args: &LabShow) -> anyhow::Result<Outcome> {
    let sheets = args.sheets.iter().map(|path| read_sheet(path)).collect::<anyhow::Result<Vec<_>>>()?;
    super::write_page(&sheets, args.html.as_deref())?;
    print_sheets(&sheets, args.json)?;
    Ok(Outcome::Fine)
}

/// Prints sheets as text, or as one JSON document.
pub(super) fn print_sheets(sheets: &[TollSheet], json: bool) -> anyhow::Result<()> {
    match json {
        true => output::print_json(&Document {
            schema: SCHEMA,
            made_by: program_version(),
            sheets,
            over_untranslated: sheets.iter().flat_map(|sheet| over_untranslated(sheet, sheets)).collect(),
        }),
        false => output::print_report(sheets_text(sheets)),
    }
}

/// The additional cost of each of a sheet's workloads; empty without an untranslated sheet of the same machine and kernel.
fn over_untranslated<'a>(sheet: &'a TollSheet, sheets: &'a [TollSheet]) -> Vec<Over<'a>> {
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

/// The text of a sheet; of several sheets, each workload on all DMA paths.
fn sheets_text(sheets: &[TollSheet]) -> String {
    output::page_text(&match sheets {
        [sheet] => report::toll_sheet(sheet),
        sheets => report::toll_comparison(sheets, PriceList::builtin()),
    })
}
