//! `iotoll capture`: what an inspection reads, in an archive.

use crate::cli::Capture;
use crate::inspect::open;
use crate::output::{self, Outcome};
use crate::whole_file::WholeFile;
use anyhow::Context;
use host::Host;
use std::io::Write;

pub(crate) fn run(args: &Capture) -> anyhow::Result<Outcome> {
    let tree = open(args.from.as_deref())?;
    let host = Host::read(&tree);
    let mut archive = Vec::new();
    let files = tree.save(&mut archive).context("can't put the archive together")?;
    match args.output.as_os_str() == "-" {
        true => output::bytes()?.write_all(&archive)?,
        false => WholeFile::write(&args.output, &archive)?,
    }
    output::say(&format!(
        "{files} files of {} adapters, {} KiB, in {}",
        host.adapters.len(),
        archive.len().div_ceil(1024),
        args.output.display()
    ));
    for unseen in &host.unseen {
        output::say(&format!("not in it: {}; {} would show it", unseen.what, unseen.remedy));
    }
    Ok(Outcome::Fine)
}
