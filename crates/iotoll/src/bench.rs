//! `iotoll bench`: what allocators and mappings take on this machine.

mod iova;
mod map;

pub(crate) use iova::{PeerFile, short};

use crate::cli::Bench;
use crate::output::Outcome;
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) fn run(command: &Bench) -> anyhow::Result<Outcome> {
    match command {
        Bench::Iova(args) => iova::run(args),
        Bench::Map(args) => map::run(args),
    }
}

fn asked_or<T: Clone>(asked: &[T], usual: Vec<T>) -> Vec<T> {
    if asked.is_empty() { usual } else { asked.to_vec() }
}

fn bar() -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3} % {elapsed} {msg}")?);
    Ok(bar)
}
