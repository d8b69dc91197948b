//! The DMA mapping layer.
#![forbid(unsafe_code)]

mod access;
mod address;
mod bill;
mod bounce;
mod coherent;
mod domain;
mod error;
mod flush_queue;
mod frames;
mod ledger;
mod limits;
mod mapper;
mod memory;
mod ram;
pub mod tce;
mod translation;

pub use access::{Access, Direction};
pub use address::{BusAddress, MemoryAddress};
pub use bill::Bill;
pub use bounce::Bounce;
pub use coherent::{Coherent, Pool};
pub use domain::{Domain, Element, Invalidation, ListRanges, Segment};
pub use error::DmaError;
pub use flush_queue::FlushQueue;
pub use frames::{FRAME_BYTES, Frames, OutOfFrames};
pub use ledger::{Kind, Misuse};
pub use limits::Limits;
pub use mapper::{Bouncing, Mapper};
pub use memory::Memory;
pub use ram::{ByteOrder, NoMemory, Ram};
pub use translation::{MapError, Translation, UnmapError, Window};
