//! Reads the price list of `--prices`.

use crate::input;
use anyhow::bail;
use host::{Host, sheet_word};
use std::path::Path;
use toll::PriceList;

/// Reads a price list. Fails if it is for another architecture than the host's, because none of its prices would apply.
pub(crate) fn read(path: &Path, host: &Host) -> anyhow::Result<PriceList> {
    let file = path.display().to_string();
    let list = PriceList::read(&input::read_text(path, input::DESCRIPTION_BYTES_MAX, "price list")?, &file)?;
    match host.platform.architecture.as_ref().and_then(sheet_word) {
        Some(word) if word != list.arch => {
            bail!("{file}: arch is `{}`; expected `{word}`, the architecture of the host", list.arch)
        }
        _ => Ok(list),
    }
}
