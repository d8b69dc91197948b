//! A process that gives an adapter back when this one ends, however it ends.

use crate::output;
use anyhow::Context;
use nvme::takeover::{Root, Takeover};
use rustix::io::dup;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Said to it when an adapter has been taken: there is something to give back.
pub(super) const TAKEN: &str = "taken\n";
/// Said to it when this process has let the adapter go. Without that, its death does.
pub(super) const LET_GO: &str = "let go\n";

/// It waits for the end of its standard input, which this process has the other end of.
pub(super) struct Guardian {
    takeover: Takeover,
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guardian {
    /// Starts it, before anything is taken. It has the `files` too, until the adapter is given back.
    pub(super) fn of(takeover: Takeover, files: &[BorrowedFd<'_>]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("can't find this program's own file")?;
        let mut command = Command::new(program);
        command.args(["blk", "give-back"]).args(takeover.previous()).arg(std::process::id().to_string());
        // In a group of its own: what is typed at the terminal to end this process does not end it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        // Copies, which unlike their originals are there in a program that is started.
        let inherited =
            files.iter().map(dup).collect::<Result<Vec<_>, _>>().context("can't copy a file's number")?;
        let mut child = command.spawn().context("can't start the process that gives the adapter back")?;
        drop(inherited);
        let pipe = child.stdin.take();
        Ok(Self { takeover, child, pipe })
    }

    /// From now on there is something to be given back.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        let mut pipe = self.pipe.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        pipe.write_all(TAKEN.as_bytes())
    }

    /// Has it give the adapter back, which this process has let go, and waits.
    pub(super) fn give_back(&mut self) -> anyhow::Result<()> {
        let Some(mut pipe) = self.pipe.take() else { return Ok(()) };
        // If it is gone, its status says so.
        let _ = pipe.write_all(LET_GO.as_bytes());
        drop(pipe);
        let status = self.child.wait().context("can't wait for the process that gives the adapter back")?;
        if status.success() {
            return Ok(());
        }
        self.takeover.rebind(&Root::default()).context("the adapter was not given back")
    }
}

/// What was not waited for is given back all the same.
impl Drop for Guardian {
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            output::complain(&error);
        }
    }
}
