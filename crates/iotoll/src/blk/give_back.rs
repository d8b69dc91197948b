//! `iotoll blk give-back`: waits until its standard input ends, and gives an adapter back to the kernel's driver. The end comes when who started
//! it closes it, or dies.

use crate::cli::BlkGiveBack;
use crate::output::{self, Outcome};
use anyhow::Context;
use nvme::takeover::{Root, Takeover};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What would end it, before it has done its work.
const DEAF_TO: [i32; 3] =
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];

pub(super) fn run(args: &BlkGiveBack) -> anyhow::Result<Outcome> {
    for signal in DEAF_TO {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .context("can't set signals aside")?;
    }
    // Whatever ends it: nobody is there any more.
    let mut said = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut said);
    if said.is_empty() {
        // Nothing was taken.
        return Ok(Outcome::Fine);
    }
    let takeover = Takeover::from_previous([&args.address, &args.driver, &args.driver_override]);
    takeover.give_back(&Root::default()).with_context(|| format!("{} was not given back", args.address))?;
    if args.driver != "-" {
        output::say(&format!("{} is {}'s again", args.address, args.driver));
    }
    Ok(Outcome::Fine)
}
