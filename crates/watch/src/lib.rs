//! Counts and times DMA mapping on the running kernel, by device and stage.
//!
//! BPF programs run when a function of the kernel's DMA layer is entered and left ([`FUNCTIONS`]). They count and add up time in the
//! kernel, so an I/O costs some hundred nanoseconds and no event is copied out. They end with this process, however that ends: nothing
//! of them stays in the kernel, and no file or setting is changed.
//!
//! ```text
//!   Session    start, interval, interval, ..., finish -> Record
//!     |   |
//!     |   +-- completed   requests, packets, interrupts: the kernel's own counters
//!     |   +-- duty        when to count, if watching may cost only so much
//!     |   +-- periods     which time each window stands for, and the I/O of that time
//!     |   +-- sums        of all the time, from windows
//!     |   +-- hardware_counters   IOTLB and PCIe traffic, where the machine counts them
//!     |   +-- stacks      instead of a Watcher: CPU time by stage from sampled call stacks
//!     v
//!   Watcher    attaches programs, reads their tables -> Reading
//!     |
//!     +-- function      which functions of the kernel
//!     +-- description   how this kernel calls them, and where it has the names of devices (BTF)
//!     +-- calling       where a program finds parameters
//!     +-- hook_cost     what watching adds to a call, measured
//!     +-- programs      what the programs do, written by the assembler
//!     +-- bpf           the system call
//! ```
//!
//! The programs run from trampolines (fentry and fexit), which Linux has on x86-64 since 5.5 and on 64-bit Arm since 6.4. For functions and
//! kernels without them there are probes (kprobe and kretprobe), as on POWER. All need root, or CAP_BPF and CAP_PERFMON (before Linux 5.8
//! CAP_SYS_ADMIN).
//!
//! # Pitfalls
//!
//! - What watching adds to a call is measured in a loop, with programs and tables in the CPU's caches ([`HookCost`]). Elsewhere it is more.
//! - A function that the compiler inlined can't be watched: its time belongs to its caller.
//! - Probes do not run for what interrupts a probe, and most kernels do not say how often that was ([`Losses::unseen`]).
//! - A kernel without BTF is taken to call its functions as Linux 6.1 does ([`Record::assumes_parameters`]).
//! - Times include interrupts that came within.
//! - An IOMMU driver does not know for which device it works. Invalidations within an unmap belong to its device; those of a flush queue's
//!   timer belong to none.
#![cfg(target_os = "linux")]

mod assembler;
mod bpf;
mod btf;
mod calling;
mod completed;
mod cpu_list;
mod description;
mod duty;
mod function;
mod hardware_counters;
mod hook_cost;
mod perf_event;
mod periods;
mod programs;
mod record;
mod release;
mod session;
mod stacks;
mod summary;
mod sums;
mod tally;
mod watcher;

pub use bpf::AttachError;
pub use btf::BtfError;
pub use completed::{Completed, completed};
pub use function::{Action, FUNCTIONS, Function};
pub use hardware_counters::HardwareCount;
pub use hook_cost::{HookCost, HookKind};
pub use record::{Activity, INTERVALS_MAX, Interval, Mapping, PartTime, Record, SCHEMA, UnwatchedFunction};
pub use session::Session;
pub use stacks::{CompletedIo, Evidence, SampledPath, SampledStage, SampledTime, Stacks, mapping_stage};
pub use summary::{ActionSummary, AdapterSummary, Path, StageSummary, StaysMapped, adapters};
pub use tally::{Histogram, Tally};
pub use watcher::{Losses, Reading, Unwatched, WatchError, Watcher};

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
