//! Completions and manual pages, made from the same definitions as the help.

use crate::cli::{Cli, Complete, Man};
use crate::output::{self, Outcome};
use anyhow::Context;
use clap::CommandFactory;

/// Prints the completion script of a shell.
pub(crate) fn completions(args: &Complete) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "iotoll", &mut script);
    output::print_text(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Fine)
}

/// Writes the manual pages to a folder.
pub(crate) fn manual(args: &Man) -> anyhow::Result<Outcome> {
    std::fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.folder))
        .with_context(|| format!("can't write manual pages to {}", args.folder.display()))?;
    Ok(Outcome::Fine)
}
