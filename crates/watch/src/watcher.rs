//! Attaches programs to the kernel's functions, and reads what they counted.

use crate::assembler::Instruction;
use crate::bpf::{AttachError, Attached, Kind, Map, RunStatistics, Runs, When};
use crate::btf::BtfError;
use crate::btf::KernelFunction;
use crate::calling::{Calling, Hook};
use crate::cpu_list::cpus_of;
use crate::description::{BTF, Description, UNDESCRIBED};
use crate::function::{self, Action, FUNCTIONS, Function, NUMBER_BITS};
use crate::hook_cost::{self, CallTimes, HookCost, HookKind};
use crate::programs::{self, CONTEXT_BYTES, KEY_BYTES, NAME_BYTES, NameOffset, TALLY_WORDS, Tables, loss};
use crate::tally::Tally;
use pci::Bdf;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Kernel stacks that watched functions run on at once, and some that did before.
const CONTEXTS_MAX: u32 = 16 << 10;
/// Most bytes of tallies on all CPUs.
const TALLIES_BYTES_MAX: usize = 64 << 20;
const NAMES_MAX: u32 = 4096;
/// The kernel's tracepoint of entries of an I/O page table that are cleared (`include/trace/events/iommu.h`).
const CLEAR: &str = "unmap";

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The kernel does not describe itself, and is too old to know how its functions are called.
    #[error(
        "{BTF}: {0}; expected the kernel's types (CONFIG_DEBUG_INFO_BTF), or Linux 5.10 or newer, not {1}"
    )]
    NoBtf(io::Error, String),
    /// The description can't be read.
    #[error("{BTF}: {0}")]
    Btf(BtfError),
    /// It lacks the structure whose names tell devices apart.
    #[error("{BTF}: no member `kobj` of `struct device`, or `name` of `struct kobject`; expected both")]
    NoDeviceName,
    /// The kernel makes no table.
    #[error(
        "the kernel makes no BPF table ({0}); expected root, or CAP_BPF and CAP_PERFMON, and CONFIG_BPF_SYSCALL"
    )]
    Table(io::Error),
    /// No function could be attached to.
    #[error("none of the kernel's DMA functions can be watched: {first}")]
    NoFunction {
        /// The first refusal, with its function.
        first: String,
    },
    /// An adapter to watch is not there.
    #[error("no PCI device {0} in /sys/bus/pci/devices")]
    NoAdapter(Bdf),
    /// Programs that were detached can't be attached again.
    #[error("{0}; expected Linux 5.13 or newer to count a part of the time only")]
    Attach(AttachError),
    /// Nobody asked for it.
    #[error("call stacks are sampled instead")]
    Sampled,
    /// A table can't be read.
    #[error("the kernel's BPF tables can't be read ({0})")]
    Read(io::Error),
}

/// A function that is not watched.
#[derive(Debug)]
pub struct Unwatched {
    /// Which.
    pub function: &'static Function,
    /// Why not; `None` if the kernel has no such function: it is of another version or architecture, or inlined.
    pub why: Option<AttachError>,
}

/// Programs that run with the kernel's functions until this is dropped.
#[derive(Debug)]
pub struct Watcher {
    // Programs end before their tables.
    programs: Vec<Programs>,
    /// Counts another way, where probes do not say what they missed.
    clears: Option<Attached>,
    /// What watching adds to a call, by how a function is watched, where a loop of system calls could measure it.
    costs: Vec<HookCost>,
    /// Why programs that were detached can't be attached again.
    cannot_resume: Option<AttachError>,
    /// While the kernel measures what programs cost whose whole cost could not be measured.
    statistics: Option<RunStatistics>,
    contexts: Map,
    tallies: Map,
    names: Map,
    zeros: Map,
    losses: Map,
    /// Those among them that are watched by probes, which run neither while another probe does, nor say so.
    pub probed: Vec<&'static Function>,
    /// Whether the kernel says how its functions are called. Otherwise they are taken to be those of Linux 6.1.
    pub is_described: bool,
    /// Functions that are watched.
    pub watched: Vec<&'static Function>,
    /// Those that are not.
    pub unwatched: Vec<Unwatched>,
}

/// The programs of a function: at its entry and at its end.
#[derive(Debug)]
struct Programs {
    function: &'static Function,
    hook: HookKind,
    pair: Pair,
}

/// A program at the entry of a function, and one at its exit. The entry's is never attached without the exit's: it would leave a frame.
#[derive(Debug)]
struct Pair {
    // Dropped first.
    entry: Attached,
    exit: Attached,
}

impl Pair {
    fn detach(&mut self) {
        self.entry.detach();
        self.exit.detach();
    }

    fn attach(&mut self) -> Result<(), AttachError> {
        self.exit.attach()?;
        self.entry.attach()
    }
}

/// The number of the function whose calls measure what watching costs. No watched function has it.
const MEASURED_NUMBER: usize = (1 << NUMBER_BITS) - 1;

const _: () = assert!(FUNCTIONS.len() < MEASURED_NUMBER);

/// Runs of programs after which their cost is known well enough.
const MEASURED_RUNS: u64 = 20_000;

/// Calls that were not counted, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Losses {
    /// The program interrupted itself, so the kernel did not run it (counted since Linux 5.12).
    pub interrupted: u64,
    /// Ended without a begin that was seen: before watching began, or interrupted.
    pub without_entry: u64,
    /// Began without an end that was seen.
    pub without_end: u64,
    /// Cleared entries of an I/O page table without being seen; the kernel's tracepoint shows at least so many. Probes miss what
    /// interrupts a probe, so other calls for the same I/O are missing too.
    pub unseen: u64,
    /// On more kernel stacks than the table holds.
    pub contexts: u64,
    /// Nested too deeply.
    pub depth: u64,
    /// Of more devices and paths than the table holds, or an interrupt came while it was written.
    pub tallies: u64,
}

impl Losses {
    /// All.
    pub fn total(&self) -> u64 {
        let Self { interrupted, without_entry, without_end, unseen, contexts, depth, tallies } = *self;
        let all = [interrupted, without_entry, without_end, unseen, contexts, depth, tallies];
        all.into_iter().fold(0, u64::saturating_add)
    }

    /// Those that came since an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    /// Adds others.
    pub(crate) fn add(&mut self, others: &Self) {
        *self = self.with(others, u64::saturating_add);
    }

    fn with(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            interrupted: combine(self.interrupted, other.interrupted),
            without_entry: combine(self.without_entry, other.without_entry),
            without_end: combine(self.without_end, other.without_end),
            unseen: combine(self.unseen, other.unseen),
            contexts: combine(self.contexts, other.contexts),
            depth: combine(self.depth, other.depth),
            tallies: combine(self.tallies, other.tallies),
        }
    }
}

/// What was counted up to a moment.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// By device (its name in the kernel, empty for none) and functions that called each other, the outermost first.
    pub tallies: BTreeMap<(String, Vec<&'static Function>), Tally>,
    /// Calls that were not.
    pub losses: Losses,
    /// What watching adds to a call of each function; those are absent of which it is not known (yet).
    pub costs: BTreeMap<&'static Function, HookCost>,
}

impl Reading {
    /// What came since an earlier one.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let since = |(key, tally): (&(String, Vec<&'static Function>), &Tally)| {
            let before = earlier.tallies.get(key);
            let since = before.map_or_else(|| tally.clone(), |before| tally.since(before));
            (since.calls > 0).then(|| (key.clone(), since))
        };
        Self {
            tallies: self.tallies.iter().filter_map(since).collect(),
            losses: self.losses.since(&earlier.losses),
            costs: self.costs.clone(),
        }
    }

    /// As many times as much, by device. Losses are those that were seen.
    #[must_use]
    pub(crate) fn scaled(mut self, times: impl Fn(&str) -> f64) -> Self {
        for ((device, _), tally) in &mut self.tallies {
            *tally = tally.scaled(times(device));
        }
        self
    }

    /// Adds what was counted later. What calls cost is taken from there.
    pub fn add(&mut self, later: Self) {
        for (key, tally) in later.tallies {
            self.tallies.entry(key).or_default().add(&tally);
        }
        self.losses.add(&later.losses);
        self.costs = later.costs;
    }

    /// Nanoseconds that watching took; `None` if a function was called of which that is not known.
    pub fn watching_ns(&self) -> Option<f64> {
        let of_path = |((_, path), tally): (&(String, Vec<&'static Function>), &Tally)| {
            Some(self.costs.get(path.last()?)?.ns() * tally.calls as f64)
        };
        self.tallies.iter().map(of_path).sum()
    }

    /// Calls of all functions.
    pub(crate) fn calls(&self) -> u64 {
        self.tallies.values().map(|tally| tally.calls).sum()
    }

    /// Calls of functions that clear entries of a table.
    fn clears(&self) -> u64 {
        let clears =
            |path: &[&Function]| path.last().is_some_and(|last| last.action == Some(Action::ClearTable));
        self.tallies.iter().filter(|((_, path), _)| clears(path)).map(|(_, tally)| tally.calls).sum()
    }
}

impl Watcher {
    /// Begins to watch this kernel.
    ///
    /// # Errors
    /// [`WatchError`] says what is missing. That the kernel lacks some functions is none.
    pub fn start() -> Result<Self, WatchError> {
        let description = Description::of_this_kernel()?;
        let _limit = MemoryLimit::raise();
        let mut watcher = Self::without_programs().map_err(WatchError::Table)?;
        // Before the others, so that it misses none that they see.
        watcher.clears = Attached::by_tracepoint(&programs::count_clear(watcher.tables()), CLEAR).ok();
        for (index, function) in FUNCTIONS.iter().enumerate() {
            watcher.watch(index + 1, function, &description);
        }
        if watcher.watched.is_empty() {
            let refused = watcher
                .unwatched
                .iter()
                .find_map(|one| one.why.as_ref().map(|why| format!("{}: {why}", one.function.name)));
            let first = refused.unwrap_or_else(|| "the kernel has none of them by name".to_owned());
            return Err(WatchError::NoFunction { first });
        }
        watcher.is_described = description.btf.is_some();
        if watcher.probed.is_empty() {
            watcher.clears = None;
        }
        watcher.measure_costs(&description);
        Ok(watcher)
    }

    fn without_programs() -> io::Result<Self> {
        let cpus = possible_cpus()?;
        let tally_bytes = 8 * TALLY_WORDS;
        let tallies_max = (TALLIES_BYTES_MAX / (tally_bytes * cpus)).clamp(256, 4096) as u32;
        let zeros = CONTEXT_BYTES.max(tally_bytes as u32).max(NAME_BYTES);
        Ok(Self {
            programs: Vec::new(),
            clears: None,
            costs: Vec::new(),
            cannot_resume: None,
            statistics: None,
            contexts: Map::new(Kind::LruHash, 8, CONTEXT_BYTES, CONTEXTS_MAX, cpus)?,
            tallies: Map::new(Kind::PerCpuHash, KEY_BYTES, tally_bytes as u32, tallies_max, cpus)?,
            names: Map::new(Kind::Hash, 8, NAME_BYTES, NAMES_MAX, cpus)?,
            zeros: Map::new(Kind::Array, 4, zeros, 1, cpus)?,
            losses: Map::new(Kind::Array, 4, 8 * loss::WORDS as u32, 1, cpus)?,
            is_described: false,
            watched: Vec::new(),
            probed: Vec::new(),
            unwatched: Vec::new(),
        })
    }

    /// Watches a function from now on, or keeps why it does not.
    fn watch(&mut self, number: usize, function: &'static Function, description: &Description) {
        let Some(kernel) = description.function(function) else {
            self.unwatched.push(Unwatched { function, why: None });
            return;
        };
        match self.attach(number, function, &kernel, description.name_at) {
            Ok((hook, pair)) => {
                let hook = hook.kind();
                self.programs.push(Programs { function, hook, pair });
                self.watched.push(function);
                if hook == HookKind::Probe {
                    self.probed.push(function);
                }
            }
            // Only an attempt shows whether the kernel has a function that it does not describe.
            Err(why) => {
                let why = Some(why).filter(|why| !why.is_absence());
                self.unwatched.push(Unwatched { function, why });
            }
        }
    }

    /// Finds out what watching adds to a call, for each way that functions are watched.
    fn measure_costs(&mut self, description: &Description) {
        for hook in [Hook::Trampoline, Hook::Probe] {
            if self.programs.iter().any(|one| one.hook == hook.kind()) {
                let cost = hook_cost::CALLS.iter().find_map(|call| self.measure(hook, call, description));
                self.costs.extend(cost);
            }
        }
        if self.programs.iter().any(|one| self.cost(one.hook).is_none()) {
            self.statistics = RunStatistics::enable().ok();
        }
    }

    /// What watching adds to a call of this function, which a system call runs; `None` if it is not watched so, or no difference was seen.
    fn measure(
        &mut self,
        hook: Hook,
        call: &'static Function,
        description: &Description,
    ) -> Option<HookCost> {
        let kernel = description.function(call)?;
        if hook == Hook::Trampoline && kernel.type_number == UNDESCRIBED {
            return None;
        }
        let mut times = CallTimes::default();
        times.add_free();
        let mut attached = self.attach_by(hook, MEASURED_NUMBER, call, &kernel, description.name_at).ok()?;
        times.add_watched(|| self.measured_tally()).ok()?;
        // Tried on a function that hardly anybody calls: a call that runs meanwhile leaves a frame.
        attached.detach();
        if let Err(why) = attached.attach() {
            self.cannot_resume = Some(why);
        }
        drop(attached);
        times.add_free();
        times.cost(hook.kind())
    }

    /// The calls that measure what watching costs.
    fn measured_tally(&self) -> io::Result<Tally> {
        let mut key = [0; KEY_BYTES as usize];
        key[8..].copy_from_slice(&(MEASURED_NUMBER as u64).to_ne_bytes());
        match self.tallies.get(&key) {
            Ok(words) => Ok(Tally::of_cpus(&words)),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Tally::default()),
            Err(error) => Err(error),
        }
    }

    /// What was measured of functions that are watched so.
    fn cost(&self, hook: HookKind) -> Option<HookCost> {
        self.costs.iter().find(|cost| cost.hook == hook).copied()
    }

    /// By a trampoline, which costs less and misses less; where the kernel has none for a function, by probes.
    fn attach(
        &self,
        number: usize,
        function: &Function,
        kernel: &KernelFunction,
        name_at: NameOffset,
    ) -> Result<(Hook, Pair), AttachError> {
        let attach = |hook| {
            let attached = self.attach_by(hook, number, function, kernel, name_at)?;
            Ok((hook, attached))
        };
        if let Some((begin, end)) = function.tracepoints {
            return attach(Hook::Tracepoints(begin, end));
        }
        if kernel.type_number == UNDESCRIBED {
            return attach(Hook::Probe);
        }
        match attach(Hook::Trampoline) {
            // A kernel or a security module can refuse trampolines alone. If it refuses probes too, the first answer says why.
            Err(why) if why.is_forbidden() => attach(Hook::Probe).map_err(|_| why),
            Err(_) => attach(Hook::Probe),
            done => done,
        }
    }

    fn attach_by(
        &self,
        hook: Hook,
        number: usize,
        function: &Function,
        kernel: &KernelFunction,
        name_at: NameOffset,
    ) -> Result<Pair, AttachError> {
        let calling = Calling::of(function, kernel, hook);
        let attach = |code: &[Instruction], when| match (hook, when) {
            (Hook::Trampoline, _) => Attached::new(code, when, kernel.type_number),
            (Hook::Probe, _) => Attached::by_probe(code, when, function.name),
            (Hook::Tracepoints(begin, _), When::Entry) => Attached::by_tracepoint(code, begin),
            (Hook::Tracepoints(_, end), When::Exit) => Attached::by_tracepoint(code, end),
        };
        let tables = self.tables();
        let exit = attach(&programs::exit(number, function, calling, name_at, tables), When::Exit)?;
        let entry = attach(&programs::entry(number, function, calling, tables), When::Entry)?;
        Ok(Pair { entry, exit })
    }

    /// Fails if counting could not be resumed after a pause.
    pub(crate) fn check_resume(&mut self) -> Result<(), AttachError> {
        self.cannot_resume.take().map_or(Ok(()), Err)
    }

    /// Ends counting until [`Self::resume`]. The functions that are called most often are freed first.
    pub(crate) fn pause(&mut self, reading: &Reading) -> io::Result<()> {
        self.sort_by_calls(reading);
        for one in self.programs.iter_mut().rev() {
            one.pair.detach();
        }
        // Traced clears and counted ones are no longer of the same time.
        self.clears = None;
        // Frames of calls that did not end before their programs were gone.
        self.contexts.clear()
    }

    /// Counts again. The functions that are called most often come last, so that they are not counted for long while others are not.
    pub(crate) fn resume(&mut self) -> Result<(), AttachError> {
        for one in &mut self.programs {
            one.pair.attach()?;
        }
        Ok(())
    }

    /// Puts the functions that were called most often last.
    fn sort_by_calls(&mut self, reading: &Reading) {
        let mut calls: BTreeMap<&Function, u64> = BTreeMap::new();
        for ((_, path), tally) in &reading.tallies {
            if let Some(function) = path.last() {
                *calls.entry(function).or_default() += tally.calls;
            }
        }
        self.programs.sort_by_key(|one| calls.get(one.function).copied().unwrap_or_default());
    }

    fn tables(&self) -> Tables<'_> {
        Tables {
            contexts: self.contexts.as_fd(),
            tallies: self.tallies.as_fd(),
            names: self.names.as_fd(),
            zeros: self.zeros.as_fd(),
            losses: self.losses.as_fd(),
        }
    }

    /// What was counted so far.
    ///
    /// # Errors
    /// [`WatchError::Read`]
    pub fn read(&mut self) -> Result<Reading, WatchError> {
        self.try_read().map_err(WatchError::Read)
    }

    fn try_read(&mut self) -> io::Result<Reading> {
        let mut reading = Reading::default();
        // Before the tallies, so that what comes meanwhile is not taken for a loss.
        let losses = self.losses.get(&[0; 4])?;
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_ne_bytes);
        for key in self.tallies.keys()? {
            let (device, path) = key.split_at(8);
            let functions = function::of_path(word(path));
            if functions.is_empty() {
                continue;
            }
            let tally = Tally::of_cpus(&self.tallies.get(&key)?);
            // Two devices of one name, one of them gone, are one here.
            reading.tallies.entry((self.name(device)?, functions)).or_default().add(&tally);
        }
        let (mut misses, mut unmeasured) = (0, Runs::default());
        for one in &self.programs {
            for program in [&one.pair.entry, &one.pair.exit] {
                let runs = program.runs()?;
                misses += runs.misses;
                if self.cost(one.hook).is_none() {
                    unmeasured.add(runs);
                }
            }
        }
        for one in &self.programs {
            let cost = self.cost(one.hook).or_else(|| hook_cost::of_programs(one.hook, unmeasured));
            reading.costs.extend(cost.map(|cost| (one.function, cost)));
        }
        if unmeasured.runs >= MEASURED_RUNS {
            // Measuring itself takes the kernel time for each run.
            self.statistics = None;
        }
        reading.losses = Losses {
            interrupted: misses,
            without_entry: losses[loss::NO_ENTRY],
            without_end: losses[loss::NO_END],
            unseen: match self.clears {
                Some(_) => losses[loss::CLEARS_TRACED].saturating_sub(reading.clears()),
                None => 0,
            },
            contexts: losses[loss::CONTEXTS],
            depth: losses[loss::DEPTH],
            tallies: losses[loss::TALLIES],
        };
        Ok(reading)
    }

    /// The name of a device by its key; empty for none.
    fn name(&self, device: &[u8]) -> io::Result<String> {
        if device.iter().all(|byte| *byte == 0) {
            return Ok(String::new());
        }
        match self.names.get(device) {
            Ok(words) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
            }
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                Ok("a device without a name".to_owned())
            }
            Err(error) => Err(error),
        }
    }
}

/// CPUs that this machine may have: tables have a value for each.
fn possible_cpus() -> io::Result<usize> {
    let path = Path::new("/sys/devices/system/cpu/possible");
    let text = fs::read_to_string(path)?;
    let last = cpus_of(&text).and_then(|cpus| cpus.into_iter().max());
    let invalid =
        || io::Error::new(io::ErrorKind::InvalidData, format!("{}: expected a list of CPUs", path.display()));
    last.map(|last| last as usize + 1).ok_or_else(invalid)
}

/// No limit of this process's locked memory until this is dropped: before Linux 5.11 the kernel checks it when it makes tables and programs.
struct MemoryLimit(Rlimit);

impl MemoryLimit {
    /// If it can't be raised, the kernel says so when a table is made.
    fn raise() -> Self {
        let before = getrlimit(Resource::Memlock);
        let _: Result<(), _> = setrlimit(Resource::Memlock, Rlimit { current: None, maximum: None });
        Self(before)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        let _: Result<(), _> = setrlimit(Resource::Memlock, self.0);
    }
}
