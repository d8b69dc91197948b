//! Names of files beside parts of tables, which no report may replace.

use anyhow::bail;
use std::path::Path;

/// Fails if the file of an option has the name of a part, as `is_part` tells. `example` is a name that it may have.
pub(crate) fn expect_no_part(
    option: &str,
    file: Option<&Path>,
    is_part: impl Fn(&Path) -> bool,
    example: &str,
) -> anyhow::Result<()> {
    match file.filter(|file| is_part(file)) {
        Some(file) => {
            bail!(
                "{option} {}: that is the name of a part; expected another, such as {example}",
                file.display()
            )
        }
        None => Ok(()),
    }
}
