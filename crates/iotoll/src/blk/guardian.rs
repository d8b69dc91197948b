//! A process that gives an adapter back when this one ends, however it ends.

use anyhow::{Context, bail};
use nvme::takeover::Takeover;
use rustix::io::dup;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// It waits for the end of its standard input, which this process has the other end of.
pub(super) struct Guardian {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guardian {
    /// Starts it, before anything is taken. It has the `files` too, until the adapter is given back.
    pub(super) fn of(takeover: &Takeover, files: &[BorrowedFd<'_>]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("can't find this program's own file")?;
        let mut command = Command::new(program);
        command.args(["blk", "give-back"]).args(takeover.previous());
        // In a group of its own: what is typed at the terminal to end this process does not end it.
        command.stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        // Copies, which unlike their originals are there in a program that is started.
        let inherited =
            files.iter().map(dup).collect::<Result<Vec<_>, _>>().context("can't copy a file's number")?;
        let mut child = command.spawn().context("can't start the process that gives the adapter back")?;
        drop(inherited);
        let pipe = child.stdin.take();
        Ok(Self { child, pipe })
    }

    /// From now on there is something to be given back.
    pub(super) fn watch(&mut self) -> io::Result<()> {
        let mut pipe = self.pipe.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        pipe.write_all(b"taken\n")
    }

    /// Has it give the adapter back, and waits.
    pub(super) fn give_back(&mut self) -> anyhow::Result<()> {
        if self.pipe.take().is_none() {
            return Ok(());
        }
        let status = self.child.wait().context("can't wait for the process that gives the adapter back")?;
        if !status.success() {
            bail!("the adapter was not given back (exit status {})", status.code().unwrap_or(-1));
        }
        Ok(())
    }
}

/// What was not waited for is given back all the same: errors are told by the process itself.
impl Drop for Guardian {
    fn drop(&mut self) {
        let _ = self.give_back();
    }
}
