//! The process that starts one for each target, and another when that did not survive an input.

use crate::tally::Tally;
use crate::{Attack, worker};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Instant;

/// Address space of a process, in KiB: the binary, its threads' stacks and an input that is not greedy.
const ADDRESS_SPACE_KIB: u64 = 3 << 20;
/// A target that ends its process more often than this has told enough.
const DEATHS_MAX: u64 = 50;

/// Runs all targets; whether anything failed.
pub fn run(attack: &Attack) -> io::Result<bool> {
    std::fs::create_dir_all(&attack.out)?;
    let mut all = Vec::new();
    for target in &attack.targets {
        let tally = one(attack, target.0)?;
        println!("{}", row(target.0, &tally));
        all.push((target.0, tally));
    }
    let mut sum = Tally::default();
    all.iter().for_each(|(_, tally)| sum.add(*tally));
    println!("\n| target | inputs | panics | slow | greedy | hung | died | slowest ms | peak MiB |");
    println!("|---|---|---|---|---|---|---|---|---|");
    all.iter().for_each(|(name, tally)| println!("{}", row(name, tally)));
    println!("{}", row("all", &sum));
    Ok(sum.failed())
}

fn row(name: &str, tally: &Tally) -> String {
    let Tally { inputs, panics, slow, greedy, hung, died, longest_ms, peak_bytes, .. } = tally;
    let mib = peak_bytes >> 20;
    format!("| {name} | {inputs} | {panics} | {slow} | {greedy} | {hung} | {died} | {longest_ms} | {mib} |")
}

fn one(attack: &Attack, name: &str) -> io::Result<Tally> {
    let (begun, mut sum) = (Instant::now(), Tally { at: attack.first, ..Tally::default() });
    loop {
        let left = attack.seconds.saturating_sub(begun.elapsed().as_secs());
        let behind = attack.first.saturating_add(attack.count);
        if left == 0 || sum.at >= behind || sum.died + sum.hung >= DEATHS_MAX {
            return Ok(sum);
        }
        let status = start(attack, name, sum.at, behind - sum.at, left)?;
        let mut counted = Tally::read(&worker::tally_path(attack, name))?;
        let survived = status.success() || status.code() == Some(1);
        if !survived {
            let hung = status.code() == Some(worker::HUNG.into());
            (counted.hung, counted.died) = (u64::from(hung), u64::from(!hung));
            eprintln!("{name}: input {} ended the process: {}", counted.at, how(status));
            worker::save(attack, name, counted.at, if hung { "hung" } else { "died" })?;
            counted.inputs += 1;
            counted.at += 1;
        }
        sum.add(counted);
        if survived {
            return Ok(sum);
        }
    }
}

fn how(status: ExitStatus) -> String {
    status.signal().map_or(status.to_string(), |signal| format!("signal {signal}"))
}

/// Runs a process under a bound that no code here can forget.
fn start(attack: &Attack, name: &str, first: u64, count: u64, seconds: u64) -> io::Result<ExitStatus> {
    let limited = format!("ulimit -v {ADDRESS_SPACE_KIB}; ulimit -c 0; exec \"$0\" \"$@\"");
    let numbers = [("--seed", attack.seed), ("--first", first), ("--count", count), ("--seconds", seconds)];
    let mut command = Command::new("sh");
    command.arg("-c").arg(limited).arg(std::env::current_exe()?);
    for (option, number) in numbers {
        command.arg(option).arg(number.to_string());
    }
    command.arg("--out").arg(&attack.out).args(["--worker", name]).status()
}
