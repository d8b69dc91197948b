//! What the guest boots into.

pub mod init;
pub mod initramfs;

pub use initramfs::{Initramfs, InitramfsError, PlacedFile};
