//! The program in the lab's guests that drives an NVMe controller from user space with crates `nvme` and `block`. Marks show the
//! plugin where each I/O begins and ends, so that its instructions are counted like those of the kernel's driver.
//!
//! ```text
//! lab-guest [+N] read PHASE ADDRESS SIZE WINDOWS DEPTH     reads of SIZE bytes, DEPTH per doorbell write, on the
//! controller at ADDRESS; N more windows run before the first that is measured
//! lab-guest [+N] queue-read ...                            the same, by the C interface of crate `block`
//! ```
//!
//! The controller must be bound to vfio-pci. On success the program prints `done COMMAND n=WINDOWS` and exits with 0;
//! otherwise it prints an error and exits with 1.

#[cfg(target_os = "linux")]
mod compiler_flags;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod guest_disk;
#[cfg(target_os = "linux")]
mod mark;
#[cfg(target_os = "linux")]
mod queue_read;
#[cfg(target_os = "linux")]
mod read;
#[cfg(target_os = "linux")]
mod read_position;
#[cfg(target_os = "linux")]
mod settle;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok((name, windows)) => {
            println!("done {name} n={windows}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            let causes = std::iter::successors(why.source(), |cause| cause.source());
            let causes: String = causes.map(|cause| format!(": {cause}")).collect();
            eprintln!("lab-guest: {why}{causes}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(target_os = "linux")]
/// Runs the command in `words` and returns its name and number of windows.
fn run<'w>(words: &[&'w str]) -> error::Result<(&'w str, u64)> {
    let more = words.first().and_then(|word| word.strip_prefix('+'));
    let &[name @ ("read" | "queue-read"), phase, address, bytes, windows, depth] =
        &words[usize::from(more.is_some())..]
    else {
        return Err("expected: [+N] read|queue-read PHASE ADDRESS SIZE WINDOWS DEPTH".into());
    };
    let more_warm_up = more.map_or(Ok(0), |word| number("windows of warm-up", word))?;
    let (phase, windows) = (number("PHASE", phase)?, number("WINDOWS", windows)?);
    let depth = u16::try_from(number("DEPTH", depth)?).ok().filter(|depth| (1..1024).contains(depth));
    let bytes = number("SIZE", bytes)?;
    let depth = depth.ok_or("DEPTH: expected 1 to 1023")?;
    let reads = read::Reads { phase, address, bytes, windows, depth, more_warm_up };
    if name == "read" {
        reads.run()?
    } else {
        queue_read::run(&reads)?
    }
    Ok((name, windows))
}

#[cfg(target_os = "linux")]
/// Parses a number; `name` is the argument's name for the error.
fn number(name: &str, word: &str) -> error::Result<u64> {
    word.parse().map_err(|_| format!("{name}: `{word}` is not a number; expected a decimal number").into())
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    eprintln!("lab-guest: not supported on this system; it runs only in the lab's Linux guests");
    ExitCode::FAILURE
}
