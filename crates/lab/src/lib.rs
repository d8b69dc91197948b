//! The lab boots real Linux kernels in QEMU and counts the instructions of every I/O in them.
//!
//! A preset names a machine, a DMA path and a kernel command line. The lab boots a distribution's kernel with a
//! generated initramfs. An agent in the guest runs workloads and marks where each I/O begins and ends. A QEMU plugin
//! records which instructions ran between the marks, and QEMU's trace events show hypercalls, IOTLB
//! invalidations and DMA window operations. The lab writes these costs as toll sheets.
//!
//! Nothing is timed: QEMU emulates the CPU (TCG) with a clock that counts instructions (`-icount`), so that results
//! repeat on a busy host. The lab needs no root and changes nothing on the host.

pub mod arch;
pub mod boots;
mod companion;
pub mod disk;
mod dma_path;
pub mod flame;
pub mod guest;
pub mod installed;
pub mod kernel;
mod machine_boot;
pub mod plugin;
pub mod preset;
pub mod qemu;
pub mod qemu_command;
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

/// The example in the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
