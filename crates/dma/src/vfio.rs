//! Real IOMMUs, for user-space drivers: Linux's VFIO and iommufd.
//!
//! ```text
//!   Device ---- in a ----> Type1     /dev/vfio/vfio, /dev/vfio/GROUP            Linux 3.6
//!                          Spapr     the same, with POWER's windows             Linux 3.10
//!                          Iommufd   /dev/iommu, /dev/vfio/devices/vfioN        Linux 6.6
//! ```
//!
//! All of them are [`Translation`](crate::Translation)s of memory [allocated for that](crate::Ram::of_this_process).
//! Nothing else of the process can be mapped, so no adapter writes to memory that Rust owns. The kernel invalidates
//! before an unmap call returns.
//!
//! Without an IOMMU, if the user accepts that, VFIO's no-IOMMU mode opens an adapter ([`open_without_iommu`], which is
//! unsafe). It then does DMA at the physical addresses of [pinned](crate::Ram::pinned) memory.
//!
//! The adapter must be bound to `vfio-pci`, and the user must have permission to open its files.

mod call;
mod device;
mod error;
mod group;
mod interface;
mod interrupt;
mod iommufd;
mod kernel_translation;
mod no_iommu;
mod order;
mod ranges;
mod registers;
mod spapr;
mod type1;

pub use device::{Device, Region};
pub use error::VfioError;
pub use group::NO_IOMMU_GROUP;
pub use interface::{Interface, UnknownInterface, mapper, open};
pub use interrupt::Interrupt;
pub use iommufd::{AddressSpace, Iommufd};
pub use kernel_translation::KernelTranslation;
pub use no_iommu::open_without_iommu;
pub use registers::{OutOfRegisters, Registers};
pub use spapr::{PowerWindow, Spapr};
pub use type1::{Container, Type1};
