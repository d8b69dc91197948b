//! The kernel's BPF system call: tables, programs, and where they are attached. All ends when its file descriptors are closed, also when
//! this process is killed: nothing is left in the kernel.
//!
//! Numbers and structures are those of `include/uapi/linux/bpf.h`.

#![allow(unsafe_code, reason = "the C library has no function for this system call")]

use crate::assembler::Instruction;
use crate::perf_event::Attributes;
use crate::release::version;
use std::ffi::{CStr, CString};
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_DELETE_ELEM: libc::c_int = 3;
const MAP_GET_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const ENABLE_STATS: libc::c_int = 32;

const PROG_TYPE_KPROBE: u32 = 2;
const PROG_TYPE_RAW_TRACEPOINT: u32 = 17;
const PROG_TYPE_TRACING: u32 = 26;
/// Probes of this kernel as a source of events (`Documentation/trace/kprobetrace.rst`; Linux 4.17 and newer).
const PROBES: &str = "/sys/bus/event_source/devices/kprobe/type";
/// What makes a probe one of a function's end.
const PROBE_OF_END: u64 = 1;
const SET_PROGRAM: libc::c_ulong = rustix::ioctl::opcode::write::<u32>(b'$', 8) as libc::c_ulong;
const ENABLE: libc::c_ulong = rustix::ioctl::opcode::none(b'$', 0) as libc::c_ulong;
/// Helpers that read the kernel's memory are for programs under the GPL, or a licence beside it.
const LICENCE: &CStr = c"Dual MIT/GPL";
/// Bytes for the kernel's reasons against a program.
const LOG_BYTES: usize = 64 << 10;

/// How a table finds values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Array = 2,
    Hash = 1,
    /// A value for each CPU.
    PerCpuHash = 5,
    /// Forgets keys that were not used for long when it is full.
    LruHash = 9,
}

/// When a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Entry = 24,
    Exit = 25,
}

#[repr(C)]
#[derive(Default)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map: u32,
    _padding: u32,
    key: u64,
    /// The value, or the next key.
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    instructions: u32,
    first_instruction: u64,
    licence: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    btf: u32,
    function_info_bytes: u32,
    function_info: u64,
    function_infos: u32,
    line_info_bytes: u32,
    line_info: u64,
    line_infos: u32,
    attach_to: u32,
    attach_program: u32,
    _padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct RawTracepoint {
    name: u64,
    program: u32,
    _padding: u32,
}

#[repr(C)]
#[derive(Default)]
struct GetInfo {
    descriptor: u32,
    bytes: u32,
    information: u64,
}

/// Words of the kernel's information on a program (`struct bpf_prog_info`) up to those that are read.
const PROGRAM_WORDS: usize = 27;
const RUN_TIME_NS: usize = 24;
const RUN_COUNT: usize = 25;
const RECURSION_MISSES: usize = 26;

/// The kernel measures the run time of all programs while this exists (since Linux 5.8, for CAP_SYS_ADMIN).
#[derive(Debug)]
pub(crate) struct RunStatistics {
    _descriptor: OwnedFd,
}

impl RunStatistics {
    pub(crate) fn enable() -> io::Result<Self> {
        // 0: BPF_STATS_RUN_TIME.
        open(ENABLE_STATS, &mut 0_u32).map(|descriptor| Self { _descriptor: descriptor })
    }
}

/// What the kernel counted of programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    /// Runs while [`RunStatistics`] were enabled.
    pub(crate) runs: u64,
    /// Their nanoseconds.
    pub(crate) ns: u64,
    /// Runs left out since the program interrupted itself; Linux counts them since 5.12.
    pub(crate) misses: u64,
}

impl Runs {
    pub(crate) fn add(&mut self, other: Self) {
        self.runs += other.runs;
        self.ns += other.ns;
        self.misses += other.misses;
    }
}

/// The system call. Returns its result, a descriptor for some commands.
fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<i32> {
    // SAFETY: the kernel reads and writes `attributes` within its size, and the memory that it points to, which each caller
    // keeps for the call with the sizes that the kernel assumes.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attributes), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// The system call for commands that return a descriptor.
fn open<T>(command: libc::c_int, attributes: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is new, and nobody else has it.
    bpf(command, attributes).map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// A table that programs and this process share.
#[derive(Debug)]
pub(crate) struct Map {
    descriptor: OwnedFd,
    key_bytes: usize,
    /// Bytes that a look-up returns: with a value for each CPU those of all.
    value_bytes: usize,
}

impl Map {
    /// A table. `cpus` is the number of possible CPUs.
    pub(crate) fn new(
        kind: Kind,
        key_bytes: u32,
        value_bytes: u32,
        entries_max: u32,
        cpus: usize,
    ) -> io::Result<Self> {
        let mut attributes = MapCreate { kind: kind as u32, key_bytes, value_bytes, entries_max, flags: 0 };
        let values = if kind == Kind::PerCpuHash { cpus } else { 1 };
        let value_bytes = value_bytes.next_multiple_of(8) as usize * values;
        let descriptor = open(MAP_CREATE, &mut attributes)?;
        Ok(Self { descriptor, key_bytes: key_bytes as usize, value_bytes })
    }

    fn element(&self, key: *const u8, value: *mut u8) -> MapElement {
        let map = self.descriptor.as_raw_fd() as u32;
        MapElement { map, key: key as u64, value: value as u64, ..MapElement::default() }
    }

    /// The value of a key, as 64-bit words.
    pub(crate) fn get(&self, key: &[u8]) -> io::Result<Vec<u64>> {
        assert_eq!(key.len(), self.key_bytes, "the kernel reads as many");
        let mut value = vec![0_u64; self.value_bytes.div_ceil(8)];
        bpf(MAP_LOOKUP_ELEM, &mut self.element(key.as_ptr(), value.as_mut_ptr().cast()))?;
        Ok(value)
    }

    /// Removes all values. Those that are added meanwhile may stay.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for key in self.keys()? {
            match bpf(MAP_DELETE_ELEM, &mut self.element(key.as_ptr(), std::ptr::null_mut())) {
                Err(error) if error.raw_os_error() != Some(libc::ENOENT) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// All keys. A key that is added meanwhile may be among them or not.
    pub(crate) fn keys(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut next = vec![0_u8; self.key_bytes];
            let last = keys.last().map_or(std::ptr::null(), |key| key.as_ptr());
            match bpf(MAP_GET_NEXT_KEY, &mut self.element(last, next.as_mut_ptr())) {
                Ok(_) => keys.push(next),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(keys),
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// A program that runs each time a function of the kernel is entered or left, until it is detached or dropped.
#[derive(Debug)]
pub(crate) struct Attached {
    // What makes it run ends first.
    hook: Option<OwnedFd>,
    program: OwnedFd,
    place: Place,
}

/// What a program is attached to.
#[derive(Debug)]
enum Place {
    /// The function that it was loaded for.
    Loaded,
    Tracepoint(CString),
    Probe(When, CString),
}

/// Why a program does not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The kernel takes no such program here.
    #[error("the kernel refuses to load a program for it ({answer}{})", last_line(.log))]
    Load {
        /// Its answer.
        answer: io::Error,
        /// What it wrote about the program.
        log: String,
    },
    /// The function can't be attached to.
    #[error("the kernel refuses to attach a program to it ({0})")]
    Attach(io::Error),
    /// The kernel has no probes.
    #[error("{PROBES}: {0}; expected the kernel's probes, built with CONFIG_KPROBE_EVENTS")]
    NoProbes(io::Error),
}

impl AttachError {
    /// Whether the kernel has no such function.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Attach(answer) if answer.raw_os_error() == Some(libc::ENOENT))
    }

    /// Whether this process may not load the program, of which the kernel then says nothing else.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, Self::Load { answer, .. } if answer.raw_os_error() == Some(libc::EPERM))
    }
}

/// What the kernel wrote last before its statistics.
fn last_line(log: &str) -> String {
    let line = log.lines().rev().find(|line| !line.starts_with("processed ") && !line.trim().is_empty());
    line.map(|line| format!(": {line}")).unwrap_or_default()
}

impl Attached {
    /// Attaches a program to the function with this number in BTF.
    pub(crate) fn new(program: &[Instruction], when: When, function: u32) -> Result<Self, AttachError> {
        Self::at(Place::Loaded, load(program, PROG_TYPE_TRACING, when as u32, function)?)
    }

    /// Attaches a program to the kernel's tracepoint of this name.
    pub(crate) fn by_tracepoint(program: &[Instruction], name: &str) -> Result<Self, AttachError> {
        let place = Place::Tracepoint(c_string(name)?);
        Self::at(place, load(program, PROG_TYPE_RAW_TRACEPOINT, 0, 0)?)
    }

    /// Attaches a program by a probe to the function with this name.
    pub(crate) fn by_probe(program: &[Instruction], when: When, function: &str) -> Result<Self, AttachError> {
        let function = c_string(function)?;
        // Before the program is loaded: an absent function is found out at less cost.
        let hook = open_probe(when, &function)?;
        let program = load(program, PROG_TYPE_KPROBE, 0, 0)?;
        run_at_probe(&hook, &program)?;
        Ok(Self { hook: Some(hook), program, place: Place::Probe(when, function) })
    }

    fn at(place: Place, program: OwnedFd) -> Result<Self, AttachError> {
        let mut attached = Self { hook: None, program, place };
        attached.attach()?;
        Ok(attached)
    }

    /// Makes it run again. Programs of trampolines can be attached again since Linux 5.13.
    pub(crate) fn attach(&mut self) -> Result<(), AttachError> {
        self.hook = Some(match &self.place {
            Place::Loaded => open_raw(&self.program, None)?,
            Place::Tracepoint(name) => open_raw(&self.program, Some(name))?,
            Place::Probe(when, function) => {
                let hook = open_probe(*when, function)?;
                run_at_probe(&hook, &self.program)?;
                hook
            }
        });
        Ok(())
    }

    /// Ends its runs. The kernel keeps the program.
    pub(crate) fn detach(&mut self) {
        self.hook = None;
    }

    /// What the kernel counted of it.
    pub(crate) fn runs(&self) -> io::Result<Runs> {
        let mut words = [0_u64; PROGRAM_WORDS];
        let mut attributes = GetInfo {
            descriptor: self.program.as_raw_fd() as u32,
            bytes: size_of_val(&words) as u32,
            information: words.as_mut_ptr() as u64,
        };
        bpf(OBJ_GET_INFO_BY_FD, &mut attributes)?;
        Ok(Runs { runs: words[RUN_COUNT], ns: words[RUN_TIME_NS], misses: words[RECURSION_MISSES] })
    }
}

/// Loads a program. Only one that is refused is loaded again for the kernel's reasons, since writing them takes it longer.
fn load(
    program: &[Instruction],
    kind: u32,
    attach_type: u32,
    attach_to: u32,
) -> Result<OwnedFd, AttachError> {
    let mut attributes = ProgLoad {
        kind,
        instructions: program.len() as u32,
        first_instruction: program.as_ptr() as u64,
        licence: LICENCE.as_ptr() as u64,
        kernel_version: kernel_version(),
        attach_type,
        attach_to,
        ..ProgLoad::default()
    };
    attributes.name[..6].copy_from_slice(b"iotoll");
    let mut result = open(PROG_LOAD, &mut attributes);
    // Verification may be interrupted by a signal.
    while result.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EAGAIN)) {
        std::thread::sleep(Duration::from_millis(1));
        result = open(PROG_LOAD, &mut attributes);
    }
    result.map_err(|answer| {
        let mut log = vec![0_u8; LOG_BYTES];
        (attributes.log_level, attributes.log_bytes) = (1, LOG_BYTES as u32);
        attributes.log = log.as_mut_ptr() as u64;
        // Its result is that of the first attempt.
        drop(open(PROG_LOAD, &mut attributes));
        let text = CStr::from_bytes_until_nul(&log).map(CStr::to_string_lossy).unwrap_or_default();
        AttachError::Load { answer, log: text.into_owned() }
    })
}

/// Makes a program run: at the tracepoint of this name, or where it was loaded for.
fn open_raw(program: &OwnedFd, tracepoint: Option<&CStr>) -> Result<OwnedFd, AttachError> {
    let mut attributes = RawTracepoint {
        name: tracepoint.map_or(0, |name| name.as_ptr() as u64),
        program: program.as_raw_fd() as u32,
        ..RawTracepoint::default()
    };
    open(RAW_TRACEPOINT_OPEN, &mut attributes).map_err(AttachError::Attach)
}

fn c_string(name: &str) -> Result<CString, AttachError> {
    CString::new(name).map_err(|error| AttachError::Attach(error.into()))
}

/// The number of the kernel's probes among its sources of events.
fn probes() -> io::Result<u32> {
    let text = std::fs::read_to_string(PROBES)?;
    text.trim().parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A probe of a function, which runs on all CPUs, although it is opened for one.
fn open_probe(when: When, function: &CStr) -> Result<OwnedFd, AttachError> {
    let kind = probes().map_err(AttachError::NoProbes)?;
    let config = if when == When::Exit { PROBE_OF_END } else { 0 };
    // The kernel copies the name, which ends with a zero.
    let config1 = function.as_ptr().expose_provenance() as u64;
    let attributes = Attributes { kind, config, config1, ..Attributes::default() };
    attributes.open(0).map_err(AttachError::Attach)
}

/// Makes a program run at a probe.
fn run_at_probe(probe: &OwnedFd, program: &OwnedFd) -> Result<(), AttachError> {
    control(probe, SET_PROGRAM, program.as_raw_fd()).map_err(AttachError::Attach)?;
    control(probe, ENABLE, 0).map_err(AttachError::Attach)
}

/// Changes a probe: a request with a number.
fn control(probe: &OwnedFd, request: libc::c_ulong, number: i32) -> io::Result<()> {
    // SAFETY: both requests take a number by value.
    let result = unsafe { libc::ioctl(probe.as_raw_fd(), request as _, number) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The kernel's version as it compares it with that of a program for probes (before Linux 5.0).
fn kernel_version() -> u32 {
    let [major, minor, patch] = version();
    (major << 16) | (minor << 8) | patch.min(255)
}
