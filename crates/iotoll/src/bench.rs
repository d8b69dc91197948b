//! `iotoll bench`: measures IOVA allocators, DMA mappings, memory accesses and disk reads and writes, and DMA transfers on this machine, and the network to another.

mod blk;
mod iova;
mod map;
mod map_threads;
mod memtype;
mod net;
mod peers;
mod transfer;

pub(crate) use iova::run_short;

use crate::cli::Bench;
use crate::date::today;
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use bench::Origin;
use indicatif::{ProgressBar, ProgressStyle};

/// Runs a benchmark command.
pub(crate) fn run(command: &Bench) -> anyhow::Result<Outcome> {
    match command {
        Bench::Blk(args) => blk::run(args),
        Bench::Iova(args) => iova::run(args),
        Bench::Map(args) if !args.threads.is_empty() => map_threads::run(args),
        Bench::Map(args) => map::run(args),
        Bench::Memtype(args) => memtype::run(args),
        Bench::Net(args) => net::run(args),
        Bench::Transfer(args) => transfer::run(args),
    }
}

/// The values that the user gave, each once, or the default if there are none.
fn given_or_default<T: Clone + PartialEq>(given: &[T], default: Vec<T>) -> Vec<T> {
    if given.is_empty() { default } else { distinct(given) }
}

/// Values without those that were there before.
fn distinct<T: Clone + PartialEq>(values: &[T]) -> Vec<T> {
    let is_first = |place: usize| !values[..place].contains(&values[place]);
    (0..values.len()).filter(|place| is_first(*place)).map(|place| values[place].clone()).collect()
}

/// The program, command line and date that a result carries.
fn benchmark_origin() -> anyhow::Result<Origin> {
    Ok(Origin { made_by: program_version().to_owned(), command: std::env::args().collect(), date: today()? })
}

/// A progress bar in percent, without a length yet.
fn percent_bar() -> anyhow::Result<ProgressBar> {
    let bar = ProgressBar::new(0);
    bar.set_style(ProgressStyle::with_template("{bar:30} {percent:>3} % {elapsed} {msg}")?);
    Ok(bar)
}

/// Runs a measurement with a progress bar. `measure` reports the steps done and their total.
fn measure_with_bar<T, E>(measure: impl FnOnce(&mut dyn FnMut(u64, u64)) -> Result<T, E>) -> anyhow::Result<T>
where
    anyhow::Error: From<E>,
{
    measure_with_named_bar(|progress| measure(&mut |done, steps| progress(done, steps, "")))
}

/// The same, where `measure` also says what the next step measures.
fn measure_with_named_bar<T, E>(
    measure: impl FnOnce(&mut dyn FnMut(u64, u64, &str)) -> Result<T, E>,
) -> anyhow::Result<T>
where
    anyhow::Error: From<E>,
{
    let bar = percent_bar()?;
    let measured = measure(&mut |done, steps, what| {
        bar.set_length(steps);
        output::set_bar_message(&bar, what);
        bar.set_position(done);
    });
    bar.finish_and_clear();
    Ok(measured?)
}
