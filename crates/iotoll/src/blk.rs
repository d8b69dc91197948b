//! `iotoll blk`: disks driven from this process, past the kernel.

mod give_back;
mod guardian;
mod input;
mod list;
mod log;
mod loss;
mod read;
mod target;
mod write;

pub(crate) use target::{Taken, choose};

use crate::cli::Blk;
use crate::output::Outcome;

pub(crate) fn run(command: &Blk) -> anyhow::Result<Outcome> {
    match command {
        Blk::List(args) => list::run(args),
        Blk::Read(args) => read::run(args),
        Blk::Write(args) => write::run(args),
        Blk::Log(args) => log::run(args),
        Blk::GiveBack(args) => give_back::run(args),
    }
}
