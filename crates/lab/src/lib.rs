//! Real Linux kernels in QEMU, and what every I/O pays in them.
//!
//! A preset (machine, DMA path, kernel command line) boots a stock kernel with a generated guest image. An
//! agent in the guest runs workloads and marks where each I/O begins and ends; a QEMU plugin records
//! which instructions ran between the marks, and QEMU's own trace events tell hypercalls, IOTLB
//! invalidations and window operations. From the record come toll sheets.
//!
//! It times nothing: instructions are counted under TCG with an instruction clock, so that results
//! repeat on a loaded machine. It needs neither root nor a changed system.

pub mod arch;
pub mod disk;
mod dma_path;
pub mod flame;
pub mod guest;
pub mod kernel;
pub mod machine;
pub mod plugin;
pub mod preset;
pub mod qemu;
pub mod record;
pub mod replay;
pub mod run;
#[cfg(test)]
#[path = "../../../tests/skip.rs"]
mod skip;
pub mod stack;
pub mod stage;
pub mod symbols;
pub mod tolls;
pub mod trace;
pub mod window;
pub mod workload;

pub use arch::Arch;
