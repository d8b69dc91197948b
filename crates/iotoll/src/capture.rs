//! `iotoll capture`: what an inspection reads, redacted, in an archive.

mod key;

use crate::cli::Capture;
use crate::output::{self, Outcome};
use crate::source::open_tree;
use crate::whole_file::{WholeFile, is_same_file};
use anyhow::{Context, bail};
use host::Host;
use host::redact::Redactor;
use std::io::Write;

/// Reads a host, redacts it, and writes the archive.
pub(crate) fn run(args: &Capture) -> anyhow::Result<Outcome> {
    let tree = open_tree(args.from.as_deref())?;
    let host = Host::read(&tree);
    let mut redactor = redactor(args)?;
    let mut archive = Vec::new();
    let saved = tree.save(&mut archive, &mut redactor).context("can't put the archive together")?;
    // Removes the line about progress from the terminal.
    drop(tree);
    match args.output.as_os_str() == "-" {
        true => output::stdout_for_binary()?.write_all(&archive)?,
        false => WholeFile::write_private(&args.output, &archive)?,
    }
    output::print_note(&format!(
        "{} files of {} adapters, {} KiB, in {}",
        saved.members,
        host.adapters.len(),
        archive.len().div_ceil(1024),
        args.output.display()
    ));
    output::print_note(&format!("redacted: {}", redactor.counts()));
    if args.with_identifiers {
        output::print_note(
            "kept, as --with-identifiers asks: MAC addresses, serial numbers, UUIDs, names of hosts, IP addresses",
        );
    }
    if let Some(first) = saved.left_out.first() {
        output::print_note(&format!(
            "not in the archive: {} links or names that tar can't store, the first is {}",
            saved.left_out.len(),
            first.escape_debug()
        ));
    }
    for unseen in &host.unseen {
        output::print_note(&format!("not in the archive: {}; {} would show it", unseen.what, unseen.remedy));
    }
    Ok(Outcome::Fine)
}

/// The redactor: of secrets alone, or also of identifiers with the key of this host or of `--key`.
fn redactor(args: &Capture) -> anyhow::Result<Redactor> {
    if args.with_identifiers {
        return Ok(Redactor::of_secrets());
    }
    let found = match &args.key {
        Some(path) => key::read_or_create(path)?,
        None => key::of_this_user()?,
    };
    if found.file.is_some_and(|file| is_same_file(&file, &args.output)) {
        bail!("{}: the output is the key of pseudonyms; expected another output", args.output.display());
    }
    if let Some(why) = found.unsaved_because {
        output::print_note(&format!(
            "pseudonyms of this capture differ from those of other captures, because their key could not be saved: {why}"
        ));
    }
    Ok(Redactor::new(found.key))
}
