//! A QEMU TCG plugin that records what a guest executes between marks.
//!
//! It decides nothing: it writes a record, and whoever reads the record counts. The guest's workload
//! program executes marks, tiny functions at a known address (`mark`), which cost the guest nothing but
//! themselves. Until the first of them the plugin watches nothing else, so that the guest boots at full
//! speed; then every instruction begun, every access to a device's registers and every 8-byte store of the
//! kernel inside a window is written down (`record`).
//!
//! At the guest's idle instruction the plugin holds the virtual CPU until the devices are quiet (`quiet`):
//! the instruction clock stands meanwhile, and what comes after no longer depends on how busy the machine is
//! that QEMU runs on. So it does where a window pauses, and at the first instruction of the kernel's function that polls a
//! device: whoever polls finds all answers at the first look.
//!
//! Arguments: `out=FILE` (the record), `log=FILE` (QEMU's own log, given to it with `-D`), `rung=`, `started=`,
//! `sized=`, `sent=`, `prompt=`, `finished=` and `raised=EVENT` (trace events of disks' requests; prompt ones the device answers by
//! itself),
//! `lasting=WORD` (in the event of a request that is not meant to end), `disk=SOCKET` (of a disk that answers when told
//! to), `linear=START-END` (the kernel's linear map), `settle_us=N`, `parent=PID`.
//!
//! Instructions count when they begin: one that faults and is started again counts twice. A string
//! instruction of x86 with a repeat prefix counts once; how often it repeated is recorded apart.

mod argument;
mod callback;
mod install;
mod log;
mod mark;
mod qemu;
mod quiet;
mod record;
mod recorder;
mod translate;
