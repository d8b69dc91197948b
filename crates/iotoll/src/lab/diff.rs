//! `iotoll lab diff`: compares two toll sheets and reports which costs grew.

use crate::cli::LabDiff;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::tolls::read_sheet;
use anyhow::bail;
use serde::Serialize;
use std::path::Path;
use toll::{ChangeRow, DmaPath, KernelId, Limit, PriceList, TollSheet, compare, grew};

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.toll-diff/3";

/// What `iotoll lab diff --json` prints.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.toll-diff/3`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The first sheet.
    a: Source<'a>,
    /// The second.
    b: Source<'a>,
    /// The growth that is tolerated.
    limit: Limit,
    /// Whether anything grew beyond it.
    grew: bool,
    /// All differences.
    changes: Vec<ChangeRow>,
}

/// Where a sheet comes from.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Source<'a> {
    /// Its file.
    file: String,
    /// The preset that was measured.
    preset: &'a str,
    /// The DMA path of the preset's adapters.
    dma_path: DmaPath,
    /// The kernel that was counted.
    kernel: &'a KernelId,
}

impl<'a> Source<'a> {
    fn new(file: &Path, sheet: &'a TollSheet) -> Self {
        let file = file.display().to_string();
        Self { file, preset: &sheet.preset, dma_path: sheet.dma_path, kernel: &sheet.kernel }
    }
}

/// Compares two sheets. Growth beyond the limit counts as a finding.
pub(super) fn run(args: &LabDiff) -> anyhow::Result<Outcome> {
    let (a, b) = (read_sheet(&args.a)?, read_sheet(&args.b)?);
    if !a.tolls.iter().any(|toll| b.toll(&toll.workload).is_some()) {
        let (a, b) = (args.a.display(), args.b.display());
        bail!("{a} and {b} have no workload in common; expected at least one");
    }
    let limit = Limit {
        instructions: args.more_than,
        instructions_percent: args.more_than_percent,
        events: args.more_events_than,
    };
    let changes = compare(&a, &b, limit);
    let grew = grew(&changes);
    match args.json {
        true => output::print_json(&Document {
            schema: SCHEMA,
            made_by: program_version(),
            a: Source::new(&args.a, &a),
            b: Source::new(&args.b, &b),
            limit,
            grew,
            changes: changes.iter().map(ChangeRow::new).collect(),
        })?,
        false => {
            output::print_page(&report::toll_difference(&a, &b, &changes, PriceList::builtin()))?;
        }
    }
    Ok(Outcome::of_findings(usize::from(grew)))
}
