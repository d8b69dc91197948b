//! Options of a job.

use super::error::Problem;
use super::job_file::{Access, Engine, Job};
use super::quantity::{self, FLAG, NUMBER, PERCENT, SIZE};

const ACCESS: &str = "read, write, randread, randwrite, rw, readwrite or randrw";
const ENGINE: &str = "sync, psync, vsync, pvsync, pvsync2, libaio or io_uring";

/// Options that say where, how long, in which order or what is reported: a model has one disk, no end and its own seed.
const SET_ASIDE: [&str; 24] = [
    "allow_mounted_write",
    "clat_percentiles",
    "description",
    "directory",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "filename",
    "filesize",
    "group_reporting",
    "invalidate",
    "lat_percentiles",
    "log_avg_msec",
    "name",
    "new_group",
    "norandommap",
    "percentile_list",
    "ramp_time",
    "randrepeat",
    "randseed",
    "runtime",
    "size",
    "thread",
    "time_based",
];

/// What became of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionUse {
    /// It is part of the load.
    Load,
    /// It is not.
    NotModelled,
}

/// Options as they stand up to a line; where one is absent, fio's own default holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    pattern: Pattern,
    read_percent: u32,
    block_bytes: u64,
    depth: u32,
    threads: u32,
    engine: Engine,
    is_direct: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pattern {
    reads: bool,
    writes: bool,
    is_random: bool,
}

impl Options {
    pub(super) fn new() -> Self {
        Self {
            pattern: Pattern { reads: true, writes: false, is_random: false },
            read_percent: 50,
            block_bytes: 4096,
            depth: 1,
            threads: 1,
            engine: Engine::Sync,
            is_direct: false,
        }
    }

    /// Takes over an option.
    pub(super) fn take(&mut self, option: &str, value: Option<&str>) -> Result<OptionUse, Problem> {
        if SET_ASIDE.contains(&option) {
            return Ok(OptionUse::NotModelled);
        }
        let needed = || value.ok_or_else(|| Problem::NoValue(option.to_owned()));
        match option {
            "rw" | "readwrite" => self.pattern = known(option, needed()?, parse_pattern, ACCESS)?,
            "ioengine" => self.engine = known(option, needed()?, parse_engine, ENGINE)?,
            "bs" | "blocksize" => self.block_bytes = known(option, needed()?, quantity::block, SIZE)?,
            "iodepth" => self.depth = known(option, needed()?, quantity::number, NUMBER)?,
            "numjobs" => self.threads = known(option, needed()?, quantity::number, NUMBER)?,
            "rwmixread" => self.read_percent = known(option, needed()?, quantity::percent, PERCENT)?,
            "rwmixwrite" => self.read_percent = 100 - known(option, needed()?, quantity::percent, PERCENT)?,
            "direct" => self.is_direct = known(option, needed()?, quantity::flag, FLAG)?,
            "buffered" => self.is_direct = !known(option, needed()?, quantity::flag, FLAG)?,
            _ => return Err(Problem::NotModelled(option.to_owned())),
        }
        Ok(OptionUse::Load)
    }

    /// The job that they describe.
    pub(super) fn job(&self, name: &str) -> Result<Job, Problem> {
        if !self.is_direct {
            return Err(Problem::Cached(name.to_owned()));
        }
        let Pattern { reads, writes, is_random } = self.pattern;
        Ok(Job {
            name: name.to_owned(),
            access: match (reads, writes) {
                (true, true) => Access::Mixed { read_percent: self.read_percent },
                (false, _) => Access::Write,
                (true, false) => Access::Read,
            },
            is_random,
            block_bytes: self.block_bytes,
            // A call that waits has nothing else in flight, whatever the depth.
            depth: if self.engine == Engine::Sync { 1 } else { self.depth },
            threads: self.threads,
            engine: self.engine,
        })
    }
}

/// Looks up a value by a function that knows all values; the error lists what was expected.
fn known<Value>(
    option: &str,
    value: &str,
    read: impl Fn(&str) -> Option<Value>,
    expected: &'static str,
) -> Result<Value, Problem> {
    read(value).ok_or_else(|| Problem::value(option, value, expected))
}

/// Parses the value of `rw=`.
fn parse_pattern(text: &str) -> Option<Pattern> {
    let (reads, writes, is_random) = match text {
        "read" => (true, false, false),
        "write" => (false, true, false),
        "rw" | "readwrite" => (true, true, false),
        "randread" => (true, false, true),
        "randwrite" => (false, true, true),
        "randrw" => (true, true, true),
        _ => return None,
    };
    Some(Pattern { reads, writes, is_random })
}

/// Parses the value of `ioengine=`.
fn parse_engine(text: &str) -> Option<Engine> {
    match text {
        "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Some(Engine::Sync),
        "libaio" | "io_uring" => Some(Engine::Asynchronous),
        _ => None,
    }
}
