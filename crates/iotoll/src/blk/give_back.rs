//! `iotoll blk give-back`: waits until its standard input ends, and gives an adapter back to the kernel's driver. The end comes when who started
//! it closes it, or dies.

use super::guardian::{LET_GO, TAKEN};
use crate::cli::BlkGiveBack;
use crate::output::{self, Outcome};
use anyhow::Context;
use nvme::takeover::{Root, Takeover};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// How often it is looked whether the parent is there.
const LOOK: Duration = Duration::from_millis(5);

/// What would end it, before it has done its work.
const DEAF_TO: [i32; 3] =
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];

pub(super) fn run(args: &BlkGiveBack) -> anyhow::Result<Outcome> {
    for signal in DEAF_TO {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .context("can't set signals aside")?;
    }
    // As long as there is anybody to end, it is not this one: memory of an adapter may be in its hands. Where that is not allowed it is as others.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let mut said = String::new();
    let _ = std::io::stdin().read_to_string(&mut said);
    if !said.starts_with(TAKEN) {
        // Nothing was.
        return Ok(Outcome::Fine);
    }
    if !said.ends_with(LET_GO) {
        outlive(args.of);
    }
    let takeover = Takeover::from_previous([&args.address, &args.driver, &args.driver_override]);
    takeover.rebind(&Root::default()).with_context(|| format!("{} was not given back", args.address))?;
    if let Some(driver) = takeover.previous_driver() {
        output::say(&format!("{} is {driver}'s again", args.address));
    }
    Ok(Outcome::Fine)
}

/// Waits until a parent that dies is dead. Its files are closed in no certain order, this one's pipe perhaps before the adapter; a child has
/// another parent when all are (kernel: `do_exit`, `exit_task_work` before `exit_notify`).
fn outlive(parent: u32) {
    let is_there =
        || rustix::process::getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent as i32);
    while is_there() {
        thread::sleep(LOOK);
    }
}
