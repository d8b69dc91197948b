//! `iotoll capture`: what an inspection reads, redacted, in an archive.

mod key;

use crate::cli::Capture;
use crate::output::{self, Outcome};
use crate::source::open;
use crate::whole_file::WholeFile;
use anyhow::Context;
use host::Host;
use host::redact::Redactor;
use std::io::Write;

pub(crate) fn run(args: &Capture) -> anyhow::Result<Outcome> {
    let tree = open(args.from.as_deref())?;
    let host = Host::read(&tree);
    let mut redactor = redactor(args)?;
    let mut archive = Vec::new();
    let saved = tree.save(&mut archive, &mut redactor).context("can't put the archive together")?;
    // With it goes a line about progress.
    drop(tree);
    match args.output.as_os_str() == "-" {
        true => output::bytes()?.write_all(&archive)?,
        false => WholeFile::write_private(&args.output, &archive)?,
    }
    output::say(&format!(
        "{} files of {} adapters, {} KiB, in {}",
        saved.members,
        host.adapters.len(),
        archive.len().div_ceil(1024),
        args.output.display()
    ));
    output::say(&format!("redacted: {}", redactor.counts()));
    if args.with_identifiers {
        output::say("kept as asked: MAC addresses, serial numbers, UUIDs, names of hosts, IP addresses");
    }
    if let Some(first) = saved.left_out.first() {
        output::say(&format!(
            "not in it: {} links or names that a tar archive can't hold, the first is {}",
            saved.left_out.len(),
            first.escape_debug()
        ));
    }
    for unseen in &host.unseen {
        output::say(&format!("not in it: {}; {} would show it", unseen.what, unseen.remedy));
    }
    Ok(Outcome::Fine)
}

fn redactor(args: &Capture) -> anyhow::Result<Redactor> {
    if args.with_identifiers {
        return Ok(Redactor::of_secrets());
    }
    let kept = match &args.key {
        Some(path) => key::in_file(path)?,
        None => key::of_this_host()?,
    };
    if let Some(why) = kept.why_not {
        output::say(&format!(
            "pseudonyms of this capture match no other capture's, their key could not be kept: {why}"
        ));
    }
    Ok(Redactor::new(kept.key))
}
