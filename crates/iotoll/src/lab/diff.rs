//! `iotoll lab diff`: compares two toll sheets and reports which costs grew, as `iotoll compare` does with them.

use crate::cli::{GrowthLimit, LabDiff};
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use crate::tolls::read_sheet;
use anyhow::bail;
use report::Page;
use serde::Serialize;
use std::path::Path;
use toll::{Change, ChangeRow, DmaPath, KernelId, Limit, PriceList, TollSheet, compare, grew};

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
    fn new(Sheet { file, sheet }: Sheet<'a>) -> Self {
        let file = file.display().to_string();
        Self { file, preset: &sheet.preset, dma_path: sheet.dma_path, kernel: &sheet.kernel }
    }
}

/// Reads and compares two sheets.
pub(super) fn run(args: &LabDiff) -> anyhow::Result<Outcome> {
    let (a, b) = (read_sheet(&args.a)?, read_sheet(&args.b)?);
    let difference = Difference::new(Sheet::new(&args.a, &a), Sheet::new(&args.b, &b), &args.limit)?;
    difference.print(args.json)
}

/// A sheet and its file.
#[derive(Clone, Copy)]
pub(crate) struct Sheet<'a> {
    file: &'a Path,
    sheet: &'a TollSheet,
}

impl<'a> Sheet<'a> {
    pub(crate) fn new(file: &'a Path, sheet: &'a TollSheet) -> Self {
        Self { file, sheet }
    }
}

/// Two sheets, compared.
pub(crate) struct Difference<'a> {
    a: Sheet<'a>,
    b: Sheet<'a>,
    limit: Limit,
    changes: Vec<Change>,
}

impl<'a> Difference<'a> {
    /// Compares two sheets. Fails if they have no workload in common.
    pub(crate) fn new(a: Sheet<'a>, b: Sheet<'a>, limit: &GrowthLimit) -> anyhow::Result<Self> {
        if !a.sheet.tolls.iter().any(|toll| b.sheet.toll(&toll.workload).is_some()) {
            let (a, b) = (a.file.display(), b.file.display());
            bail!("{a} and {b} have no workload in common; expected at least one");
        }
        let limit = Limit {
            instructions: limit.more_than.unwrap_or_default(),
            instructions_percent: limit.more_than_percent.unwrap_or_default(),
            events: limit.more_events_than.unwrap_or_default(),
        };
        Ok(Self { a, b, limit, changes: compare(a.sheet, b.sheet, limit) })
    }

    /// The page that it is shown as.
    pub(crate) fn page(&self) -> Page {
        report::toll_difference(self.a.sheet, self.b.sheet, &self.changes, PriceList::builtin())
    }

    /// Prints it as text or as JSON. Growth beyond the limit counts as a finding.
    pub(crate) fn print(&self, json: bool) -> anyhow::Result<Outcome> {
        let grew = grew(&self.changes);
        match json {
            true => output::print_json(&Document {
                schema: SCHEMA,
                made_by: program_version(),
                a: Source::new(self.a),
                b: Source::new(self.b),
                limit: self.limit,
                grew,
                changes: self.changes.iter().map(ChangeRow::new).collect(),
            })?,
            false => output::print_page(&self.page())?,
        }
        Ok(Outcome::of_findings(usize::from(grew)))
    }
}
