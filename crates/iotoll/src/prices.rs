//! Reads the price lists of `--prices`, and writes those of this host.

use crate::input;
use crate::output;
use crate::whole_file::WholeFile;
use anyhow::{Context, bail};
use bench::Head;
use host::{Host, sheet_word};
use std::path::{Path, PathBuf};
use toll::PriceList;

/// Reads price lists of one machine as one; `None` if none is given. Fails if two have a price of the same kind that is as good.
pub(crate) fn read_combined(paths: &[PathBuf]) -> anyhow::Result<Option<PriceList>> {
    let lists = paths.iter().map(|path| read(path)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(PriceList::combined(&lists)?)
}

/// Reads price lists of a host. Fails if one is for another architecture than the host's, because none of its prices would apply.
pub(crate) fn read_for_host(paths: &[PathBuf], host: &Host) -> anyhow::Result<Option<PriceList>> {
    let word = host.platform.architecture.as_ref().and_then(sheet_word);
    let read_one = |path: &PathBuf| match (read(path)?, word) {
        ((file, list), Some(word)) if word != list.arch => {
            bail!("{file}: arch is `{}`; expected `{word}`, the architecture of the host", list.arch)
        }
        (read, _) => Ok(read),
    };
    let lists = paths.iter().map(read_one).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(PriceList::combined(&lists)?)
}

/// Reads a price list, with the name of its file.
fn read(path: &Path) -> anyhow::Result<(String, PriceList)> {
    let file = path.display().to_string();
    let list = PriceList::read(&input::read_text(path, input::DESCRIPTION_BYTES_MAX, "price list")?, &file)?;
    Ok((file, list))
}

/// Fails if a price list that is wanted later can't be written to a new file of this name: now and not after the measurement.
pub(crate) fn expect_new(path: Option<&Path>) -> anyhow::Result<()> {
    if let Some(path) = path.filter(|path| path.symlink_metadata().is_ok()) {
        bail!("{} exists; expected the name of a new file", path.display());
    }
    WholeFile::check(path)
}

/// Where prices were measured: the CPU, the kernel and the day.
pub(crate) fn measured_on(head: &Head) -> String {
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    format!("{}, Linux {}, {}", known(&head.machine.cpu), known(&head.machine.kernel), head.date)
}

/// Writes a price list of this host to a new file, and says so. `remarks` stand at its head.
pub(crate) fn write(path: &Path, list: &PriceList, remarks: &[String]) -> anyhow::Result<()> {
    let text = toml::to_string(list).context("can't write the price list as TOML")?;
    let made_by = crate::inspect::program_version();
    let remarks: String = remarks.iter().map(|remark| format!("# {remark}\n")).collect();
    let head = format!(
        "# Prices of this host, by {made_by}. What is `measured` was measured here; all else is of the built-in list.\n{remarks}"
    );
    WholeFile::write_new([path.to_owned()], format!("{head}\n{text}").as_bytes())?;
    output::print_written(path);
    Ok(())
}
