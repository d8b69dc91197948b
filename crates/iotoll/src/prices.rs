//! A price list of the user's own.

use crate::input;
use anyhow::bail;
use host::{Host, sheet_word};
use std::path::Path;
use toll::PriceList;

/// Reads a price list, which must be of the host's architecture: others would price nothing, and say nothing.
pub(crate) fn read(path: &Path, host: &Host) -> anyhow::Result<PriceList> {
    let file = path.display().to_string();
    let list = PriceList::read(&input::text(path, input::DESCRIPTION_BYTES_MAX, "price list")?, &file)?;
    match host.platform.architecture.as_ref().and_then(sheet_word) {
        Some(word) if word != list.arch => {
            bail!("{file}: arch is `{}`, expected `{word}` as the host that is inspected", list.arch)
        }
        _ => Ok(list),
    }
}
