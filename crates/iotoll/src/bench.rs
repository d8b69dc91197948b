//! `iotoll bench`: what allocators take on this machine.

mod iova;

pub(crate) use iova::{PeerFile, short};

use crate::cli::Bench;
use crate::output::Outcome;

pub(crate) fn run(command: &Bench) -> anyhow::Result<Outcome> {
    match command {
        Bench::Iova(args) => iova::run(args),
    }
}
