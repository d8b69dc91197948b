//! Real IOMMUs, for user-space drivers: Linux's VFIO and iommufd.
//!
//! ```text
//!   Device ---- in a ----> Type1     /dev/vfio/vfio, /dev/vfio/GROUP            Linux 3.6
//!                          Spapr     the same, with POWER's windows             Linux 3.10
//!                          Iommufd   /dev/iommu, /dev/vfio/devices/vfioN        Linux 6.6
//! ```
//!
//! All of them are [`Translation`](crate::Translation)s of memory that was [given to them](crate::Ram::of_this_process): nothing
//! else of the process can be mapped, so that no adapter writes to what Rust thinks is its own. The kernel invalidates what it
//! unmaps before it returns ([`Invalidation::Elsewhere`](crate::Invalidation)).
//!
//! Where there is no IOMMU, and that is accepted, VFIO lends an adapter all the same ([`open_without_iommu`]): it then reads and writes memory that was
//! [pinned](crate::Ram::pinned) at the addresses that it has.
//!
//! The adapter must be bound to `vfio-pci`, and whoever runs the program must be allowed to open its files.

mod book;
mod call;
mod device;
mod error;
mod group;
mod interrupt;
mod iommufd;
mod no_iommu;
mod order;
mod ranges;
mod registers;
mod spapr;
mod type1;
mod way;

pub use book::ByKernel;
pub use device::{Device, Region};
pub use error::VfioError;
pub use group::MADE_UP_GROUP;
pub use interrupt::Interrupt;
pub use iommufd::{AddressSpace, Iommufd};
pub use no_iommu::open_without_iommu;
pub use registers::{OutOfRegisters, Registers};
pub use spapr::{PowerWindow, Spapr};
pub use type1::{Container, Type1};
pub use way::{NoWay, Way, mapper, open};
