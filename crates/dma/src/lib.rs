//! The DMA mapping layer.

mod access;
mod address;
mod bill;
mod bounce;
mod coherent;
mod domain;
mod error;
mod flush_queue;
mod frames;
mod iotlb;
mod ledger;
mod limits;
mod mapper;
mod memory;
#[cfg(target_os = "linux")]
mod pages;
mod radix;
mod ram;
mod software;
pub mod tce;
mod translation;
#[cfg(target_os = "linux")]
pub mod vfio;
mod walk;

pub use access::{Access, Direction};
pub use address::{BusAddress, MemoryAddress};
pub use bill::Bill;
pub use bounce::Bounce;
pub use coherent::{Coherent, Pool};
pub use domain::{Domain, Element, Invalidation, ListRanges, Segment};
pub use error::DmaError;
pub use flush_queue::FlushQueue;
pub use frames::{FRAME_BYTES, Frames, OutOfFrames};
pub use iotlb::{DomainId, Iotlb, IotlbStatistics};
pub use ledger::{Kind, Misuse};
pub use limits::Limits;
pub use mapper::{Bouncing, Mapper};
pub use memory::Memory;
pub use radix::{Amd, Entry, Format, Radix, Smmu, TableError, Vtd};
pub use ram::{ByteOrder, NoMemory, Ram};
pub use software::{
    Adapter, Context, DomainError, Fault, Faults, NoDomainId, Reason, Requester, SoftwareDomain, Stopped,
    Unit,
};
pub use translation::{MapError, Translation, UnmapError, Window};
pub use walk::{Leaf, Walk, WalkAmd, WalkFault, WalkSmmu, WalkVtd, Walked};
