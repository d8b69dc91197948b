//! The guest's user space: initramfs, init script, workload programs and their libraries.

pub mod agent;
mod identity;
pub mod init;
pub mod initramfs;
pub mod libraries;
pub mod program;

pub use initramfs::{Initramfs, InitramfsError, PlacedFile};
