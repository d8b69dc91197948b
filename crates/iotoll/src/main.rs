//! The program `iotoll`: parses the command line, runs a command, and turns its outcome into an exit status.

#[cfg(any(feature = "fleet", feature = "sweep"))]
mod all_cores;
mod bench;
mod blk;
#[cfg(test)]
mod book;
mod capture;
mod cli;
mod compare;
mod complete;
#[cfg(test)]
#[path = "../../../tests/console.rs"]
mod console;
#[cfg(any(feature = "fleet", feature = "sweep"))]
mod count_progress;
mod date;
mod everything;
mod flame_file;
#[cfg(feature = "fleet")]
mod fleet;
mod input;
mod inspect;
mod interrupt;
mod lab;
mod model;
mod mtrr;
mod output;
#[cfg(any(feature = "fleet", feature = "sweep"))]
mod part_name;
mod peer_file;
mod pending_file;
mod prices;
mod progress;
mod reproduce;
#[cfg(test)]
mod schemas;
mod shard;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;
mod source;
#[cfg(feature = "sweep")]
mod sweep;
mod tolls;
mod usage;
mod watch;
mod whole_file;

use cli::{Command, Mtrr};
use output::Outcome;
use report::Length;
use std::process::ExitCode;

/// Threads of musl's allocator wait for each other: `iotoll fleet` took three times as long (docs/validation/packages.md).
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match usage::parse_arguments() {
        Ok(cli) => cli,
        Err(status) => return status,
    };
    output::set_report_length(if cli.full { Length::Full } else { Length::Folded });
    let outcome = match cli.command {
        None => everything::run(),
        Some(Command::Inspect(args)) => inspect::run(&args),
        Some(Command::Capture(args)) => capture::run(&args),
        Some(Command::Mtrr(Mtrr::Plan(args))) => mtrr::run(&args),
        Some(Command::Lab(command)) => lab::run(&command),
        Some(Command::Bench(command)) => bench::run(&command),
        Some(Command::Watch(args)) => watch::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Blk(command)) => blk::run(&command),
        Some(Command::Model(command)) => model::run(&command),
        #[cfg(feature = "sweep")]
        Some(Command::Sweep(args)) => sweep::run(&args),
        #[cfg(not(feature = "sweep"))]
        Some(Command::Sweep(_)) => Err(anyhow::anyhow!(
            "this iotoll was built without the feature sweep; build it with `cargo build --profile dist -p iotoll --features sweep`"
        )),
        #[cfg(feature = "fleet")]
        Some(Command::Fleet(args)) => fleet::run(&args),
        #[cfg(not(feature = "fleet"))]
        Some(Command::Fleet(_)) => Err(anyhow::anyhow!(
            "this iotoll was built without the feature fleet; build it with `cargo build --profile dist -p iotoll --features fleet`"
        )),
        Some(Command::Reproduce(args)) => reproduce::run(&args),
        Some(Command::Complete(args)) => complete::completions(&args),
        Some(Command::Man(args)) => complete::manual(&args),
    };
    match outcome {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Ok(Outcome::Findings) => ExitCode::from(1),
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::print_error(&error);
            ExitCode::from(2)
        }
    }
}
