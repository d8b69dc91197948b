//! `iotoll bench`: what allocators, mappings, accesses to memory and reads of a disk take on this machine.

mod blk;
mod iova;
mod map;
mod memtype;

pub(crate) use iova::{PeerFile, short};

use crate::cli::Bench;
use crate::date::today;
use crate::inspect::made_by;
use crate::output::Outcome;
use bench::Origin;
use indicatif::{ProgressBar, ProgressStyle};

pub(crate) fn run(command: &Bench) -> anyhow::Result<Outcome> {
    match command {
        Bench::Blk(args) => blk::run(args),
        Bench::Iova(args) => iova::run(args),
        Bench::Map(args) => map::run(args),
        Bench::Memtype(args) => memtype::run(args),
    }
}

fn asked_or<T: Clone>(asked: &[T], usual: Vec<T>) -> Vec<T> {
    if asked.is_empty() { usual } else { asked.to_vec() }
}

fn origin() -> anyhow::Result<Origin> {
    Ok(Origin { made_by: made_by().to_owned(), command: std::env::args().collect(), date: today()? })
}

fn bar() -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3} % {elapsed} {msg}")?);
    Ok(bar)
}

/// Measures with a bar that shows how far it is, of so many steps.
fn shown<T, E>(measure: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T, E>) -> anyhow::Result<T>
where
    anyhow::Error: From<E>,
{
    let bar = bar()?;
    let measured = measure(&mut |done, steps| {
        bar.set_length(steps);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    Ok(measured?)
}
