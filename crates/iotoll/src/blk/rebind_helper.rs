//! The process `iotoll blk rebind`, which rebinds an adapter to its previous driver when this process ends, even if it is killed.

use crate::output;
use anyhow::Context;
use nvme::takeover::{Root, Takeover};
use rustix::io::dup;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Sent to the helper when the adapter is about to be unbound: from now on there is something to rebind.
pub(super) const UNBOUND: &str = "unbound\n";
/// Sent to the helper when this process has closed the adapter. Without it, the helper waits until this process has exited.
pub(super) const CLOSED: &str = "closed\n";

/// The running helper process. It waits for the end of its standard input, a pipe that this process holds.
pub(super) struct RebindHelper {
    takeover: Takeover,
    child: Child,
    pipe: Option<ChildStdin>,
}

impl RebindHelper {
    /// Starts the helper, before the adapter is unbound. The helper keeps copies of `pins` open until it exits, so that pinned memory
    /// stays pinned until the adapter is rebound.
    pub(super) fn start(takeover: Takeover, pins: &[BorrowedFd<'_>]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("can't find the path of this program")?;
        let mut command = Command::new(program);
        command.args(["blk", "rebind"]).args(takeover.previous()).arg(std::process::id().to_string());
        // Its own process group: Ctrl-C on the terminal ends this process, not the helper.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        // The originals are close-on-exec; their copies are inherited.
        let inherited =
            pins.iter().map(dup).collect::<Result<Vec<_>, _>>().context("can't copy a file descriptor")?;
        let mut child = command.spawn().context("can't start the process that rebinds the adapter")?;
        drop(inherited);
        let pipe = child.stdin.take();
        Ok(Self { takeover, child, pipe })
    }

    /// Tells the helper that the adapter is about to be unbound, so that it rebinds the adapter when this process ends.
    pub(super) fn announce_unbind(&mut self) -> io::Result<()> {
        let mut pipe = self.pipe.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        pipe.write_all(UNBOUND.as_bytes())
    }

    /// Has the helper rebind the adapter, which this process has closed, and waits until that is done. If the helper fails, this process
    /// rebinds the adapter itself.
    pub(super) fn rebind(&mut self) -> anyhow::Result<()> {
        let Some(mut pipe) = self.pipe.take() else { return Ok(()) };
        // If the helper was killed, the write fails, and so does its exit status below.
        let _ = pipe.write_all(CLOSED.as_bytes());
        drop(pipe);
        let status = self.child.wait().context("can't wait for the process that rebinds the adapter")?;
        if status.success() {
            return Ok(());
        }
        self.takeover.rebind(&Root::default()).context("the adapter was not rebound to its driver")
    }
}

/// Rebinds the adapter on an early return, too.
impl Drop for RebindHelper {
    fn drop(&mut self) {
        if let Err(error) = self.rebind() {
            output::print_error(&error);
        }
    }
}
