//! The DMA mapping layer.
#![forbid(unsafe_code)]

mod access;
mod address;
mod bill;
mod frames;
mod ram;
mod translation;

pub use access::{Access, Direction};
pub use address::{BusAddress, MemoryAddress};
pub use bill::Bill;
pub use frames::{FRAME_BYTES, Frames, OutOfFrames};
pub use ram::{ByteOrder, NoMemory, Ram};
pub use translation::{MapError, Translation, UnmapError, Window};
