//! A QEMU TCG plugin that records which instructions a guest executes between marks.
//!
//! The plugin only writes a record; the crate `lab` reads it and counts. The guest's workload program calls
//! marks, empty functions at known addresses (`mark`). Before the mark `Arm` the plugin instruments only
//! marks and idle instructions, so that the guest boots at full speed. After it, the plugin records every instruction
//! begun, every access to a device's register and every 8-byte store of the kernel in a window (`record`).
//!
//! At the guest's idle instruction the plugin holds the virtual CPU until the devices have completed all requests
//! (`devices`). The instruction clock does not advance meanwhile, so the instructions that follow do not depend on the
//! host's load. The plugin also holds the virtual CPU where a window pauses, and at the kernel's function that polls a
//! device, so that the first poll finds all completions.
//!
//! Arguments:
//!
//! | argument | meaning |
//! |---|---|
//! | `out=FILE` | the record |
//! | `log=FILE` | QEMU's log, which QEMU gets by `-D` |
//! | `rung=`, `started=`, `sized=`, `sent=`, `prompt=`, `finished=`, `raised=EVENT` | trace events of requests (`argument`) |
//! | `lasting=TEXT` | text in the event of a request that stays in flight |
//! | `disk=SOCKET` | control socket of the disk that completes requests on command |
//! | `linear=START-END` | a linear map of the kernel |
//! | `settle_us=N` | microseconds between a register write and the request that it starts, at most |
//! | `parent=PID` | the process that started QEMU |
//!
//! Instructions count when they begin: one that faults and is restarted counts twice. A string
//! instruction of x86 with a repeat prefix counts once; its repetitions are recorded separately.

mod argument;
mod callback;
mod devices;
mod install;
mod log;
mod mark;
mod qemu;
mod record;
mod recorder;
mod translate;
