//! `iotoll blk rebind`: the helper process that rebinds an adapter to its previous driver when the program that drives it has
//! closed it or died. Standard input is a pipe from that program: it says what happened, and ends when the program does.

use super::rebind_helper::{CLOSED, UNBOUND};
use crate::cli::BlkRebind;
use crate::output::{self, Outcome};
use anyhow::Context;
use nvme::takeover::{Root, Takeover};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// Time between two checks whether the parent is still alive.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Signals that are ignored, because they would end this process before the adapter is rebound.
const IGNORED_SIGNALS: [i32; 3] =
    [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP];

/// Waits for the parent to close the adapter or to exit, then rebinds the adapter. Does nothing if the parent never unbound it.
pub(super) fn run(args: &BlkRebind) -> anyhow::Result<Outcome> {
    for signal in IGNORED_SIGNALS {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .with_context(|| format!("can't ignore signal {signal}"))?;
    }
    // The OOM killer should end any other process first: without an IOMMU this one holds memory that the adapter may still write.
    // Lowering the value needs root; without it the default stays.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let mut received = String::new();
    let _ = std::io::stdin().read_to_string(&mut received);
    if !received.starts_with(UNBOUND) {
        // The parent ended before it unbound the adapter.
        return Ok(Outcome::Fine);
    }
    if !received.ends_with(CLOSED) {
        wait_for_exit(args.parent);
    }
    let takeover = Takeover::from_previous([&args.address, &args.driver, &args.driver_override]);
    takeover
        .rebind(&Root::default())
        .with_context(|| format!("{} was not rebound to its driver", args.address))?;
    if let Some(driver) = takeover.previous_driver() {
        output::print_note(&format!("{} is bound to {driver} again", args.address));
    }
    Ok(Outcome::Fine)
}

/// Waits until the parent process has exited. The pipe may end earlier, while the parent still has the adapter open: the kernel closes
/// a dying process's files in no fixed order, and gives its children another parent after all are closed (`do_exit`: `exit_files` and
/// `exit_task_work`, then `exit_notify`).
fn wait_for_exit(parent: u32) {
    let is_alive =
        || rustix::process::getppid().is_some_and(|now| now.as_raw_nonzero().get() == parent as i32);
    while is_alive() {
        thread::sleep(POLL_INTERVAL);
    }
}
