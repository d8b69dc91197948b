//! The process that runs the inputs of a target.

use crate::mutate::Mutator;
use crate::tally::Tally;
use crate::{Attack, MEMORY};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longer than this an input is slow.
const SLOW: Duration = Duration::from_secs(2);
/// Longer than this it is taken for one that never ends.
const HANG_SECONDS: u64 = 20;
/// The exit status of a process with such an input.
pub const HUNG: u8 = 3;
/// More memory than this is too much for an input of less than [`SMALL_BYTES`].
const GREEDY_BYTES: usize = 256 << 20;
const SMALL_BYTES: usize = 1 << 20;
/// Inputs that are saved of each kind of failure.
const SAVED_MAX: u32 = 4;

/// Where the counts of a target are kept.
pub fn tally_path(attack: &Attack, name: &str) -> PathBuf {
    attack.out.join(format!("{name}.tally"))
}

/// Makes an input once more and saves it.
pub fn save(attack: &Attack, name: &str, number: u64, why: &str) -> io::Result<()> {
    let input = Mutator::new(name)?.input(attack.seed, number);
    write(attack, name, number, why, &input)
}

fn write(attack: &Attack, name: &str, number: u64, why: &str, input: &[u8]) -> io::Result<()> {
    let why: String = why.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    fs::write(attack.out.join(format!("{name}-{why}-{}-{number}", attack.seed)), input)
}

/// Writes the inputs that would run.
pub fn show(attack: &Attack) -> io::Result<bool> {
    fs::create_dir_all(&attack.out)?;
    for (name, _) in &attack.targets {
        let mutator = Mutator::new(name)?;
        for number in attack.first..attack.first.saturating_add(attack.count) {
            write(attack, name, number, "shown", &mutator.input(attack.seed, number))?;
        }
    }
    Ok(false)
}

/// Where the last panic was, and its words.
type LastPanic = Arc<Mutex<Option<(String, String)>>>;

/// Runs the inputs of all targets; whether anything failed.
pub fn run(attack: &Attack) -> io::Result<bool> {
    let last: LastPanic = Arc::default();
    let seen = Arc::clone(&last);
    panic::set_hook(Box::new(move |info| {
        let at = info.location().map_or("nowhere".to_owned(), |at| format!("{}:{}", at.file(), at.line()));
        let words = info.payload_as_str().unwrap_or_default().to_owned();
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some((at, words));
    }));
    let clock = Arc::new(Clock::default());
    let watch = Arc::clone(&clock);
    std::thread::spawn(move || watch.end_what_hangs());
    let mut failed = false;
    for (name, target) in &attack.targets {
        let mut round = Round::new(attack, name, &clock, &last)?;
        round.run(*target)?;
        failed |= round.tally.failed();
    }
    Ok(failed)
}

/// Seconds since the process began, and when the input that runs did.
#[derive(Debug)]
struct Clock {
    begun: Instant,
    /// In seconds, and one more; 0 while none runs.
    input: AtomicU64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { begun: Instant::now(), input: AtomicU64::new(0) }
    }
}

impl Clock {
    fn set(&self, runs: bool) {
        let now = if runs { self.begun.elapsed().as_secs() + 1 } else { 0 };
        self.input.store(now, Ordering::Relaxed);
    }

    fn end_what_hangs(&self) {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let input = self.input.load(Ordering::Relaxed);
            if input > 0 && self.begun.elapsed().as_secs() > input + HANG_SECONDS {
                std::process::exit(HUNG.into());
            }
        }
    }
}

/// The inputs of one target.
struct Round<'a> {
    attack: &'a Attack,
    name: &'static str,
    clock: &'a Clock,
    last: &'a LastPanic,
    mutator: Mutator,
    file: File,
    tally: Tally,
    /// How often each failure was seen.
    seen: BTreeMap<String, u32>,
}

impl<'a> Round<'a> {
    fn new(
        attack: &'a Attack,
        name: &'static str,
        clock: &'a Clock,
        last: &'a LastPanic,
    ) -> io::Result<Self> {
        fs::create_dir_all(&attack.out)?;
        let file = File::create(tally_path(attack, name))?;
        let tally = Tally { at: attack.first, ..Tally::default() };
        let mutator = Mutator::new(name)?;
        Ok(Self { attack, name, clock, last, mutator, file, tally, seen: BTreeMap::new() })
    }

    fn run(&mut self, target: fn(&[u8])) -> io::Result<()> {
        let begun = Instant::now();
        let mut told = 0;
        for number in self.attack.first..self.attack.first.saturating_add(self.attack.count) {
            let seconds = begun.elapsed().as_secs();
            if seconds >= self.attack.seconds {
                break;
            }
            if seconds >= told + 30 {
                told = seconds;
                eprintln!("{}: {} inputs in {seconds} s", self.name, self.tally.inputs);
            }
            self.tally.at = number;
            self.tally.keep(&self.file)?;
            self.one(target, number)?;
        }
        self.tally.at = self.attack.first + self.tally.inputs;
        self.tally.keep(&self.file)
    }

    fn one(&mut self, target: fn(&[u8]), number: u64) -> io::Result<()> {
        let input = self.mutator.input(self.attack.seed, number);
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        self.clock.set(true);
        let begun = Instant::now();
        let ended = panic::catch_unwind(AssertUnwindSafe(|| target(&input)));
        let took = begun.elapsed();
        self.clock.set(false);
        let peak = MEMORY.peak_usage().saturating_sub(before);
        self.tally.inputs += 1;
        self.tally.longest_ms = self.tally.longest_ms.max(took.as_millis() as u64);
        self.tally.peak_bytes = self.tally.peak_bytes.max(peak as u64);
        if ended.is_err() {
            self.tally.panics += 1;
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
            let (at, words) = last.unwrap_or_default();
            self.note(number, &input, &format!("panic {at}"), &words)?;
        }
        if took > SLOW {
            self.tally.slow += 1;
            self.note(number, &input, "slow", &format!("{took:.1?}"))?;
        }
        if peak > GREEDY_BYTES && input.len() < SMALL_BYTES {
            self.tally.greedy += 1;
            self.note(number, &input, "greedy", &format!("{} MiB", peak >> 20))?;
        }
        Ok(())
    }

    /// Saves the first inputs of each failure.
    fn note(&mut self, number: u64, input: &[u8], why: &str, words: &str) -> io::Result<()> {
        let times = self.seen.entry(why.to_owned()).or_default();
        *times += 1;
        if *times > SAVED_MAX {
            return Ok(());
        }
        let words: String = words.chars().take(300).collect();
        eprintln!("{}: input {number}: {why}: {}", self.name, words.escape_debug());
        write(self.attack, self.name, number, why, input)
    }
}
