//! `iotoll lab diff`: what grew from one toll sheet to another.

use crate::cli::LabDiff;
use crate::output::{self, Outcome};
use crate::tolls::sheet;
use anyhow::bail;
use serde::Serialize;
use std::path::Path;
use toll::{Change, DmaPath, KernelId, Limit, TollSheet, compare, grew};

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    a: Source<'a>,
    b: Source<'a>,
    limit: Limit,
    grew: bool,
    changes: &'a [Change],
}

/// Which sheet it is.
#[derive(Serialize)]
struct Source<'a> {
    file: String,
    preset: &'a str,
    dma_path: DmaPath,
    kernel: &'a KernelId,
}

impl<'a> Source<'a> {
    fn new(file: &Path, sheet: &'a TollSheet) -> Self {
        let file = file.display().to_string();
        Self { file, preset: &sheet.preset, dma_path: sheet.dma_path, kernel: &sheet.kernel }
    }
}

pub(super) fn run(args: &LabDiff) -> anyhow::Result<Outcome> {
    let (a, b) = (sheet(&args.a)?, sheet(&args.b)?);
    if !a.tolls.iter().any(|toll| b.toll(&toll.workload).is_some()) {
        let (a, b) = (args.a.display(), args.b.display());
        bail!("{a} and {b} have no workload in common: there is nothing to compare");
    }
    let limit = Limit {
        instructions: args.more_than,
        instructions_percent: args.more_than_percent,
        events: args.more_events_than,
    };
    let changes = compare(&a, &b, limit);
    let grew = grew(&changes);
    match args.json {
        true => output::json(&Document {
            schema: "iotoll.toll-diff/2",
            a: Source::new(&args.a, &a),
            b: Source::new(&args.b, &b),
            limit,
            grew,
            changes: &changes,
        })?,
        false => {
            output::report(report::toll_difference(&a, &b, &changes, output::width(), output::style()))?;
        }
    }
    Ok(Outcome::of(usize::from(grew)))
}
