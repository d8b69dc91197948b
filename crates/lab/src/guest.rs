//! What the guest boots into.

pub mod agent;
pub mod init;
pub mod initramfs;
pub mod libraries;
pub mod program;

pub use initramfs::{Initramfs, InitramfsError, PlacedFile};
