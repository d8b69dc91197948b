//! The kernels that guests boot: Debian's, downloaded into a cache, or the user's own.
//!
//! [`fetch()`] downloads Debian kernels, and a busybox for their guests, into a private [`Cache`]. It
//! needs no root and does not change the system's packages. [`Kernel::newest`] finds a downloaded kernel and
//! [`Kernel::of_user`] uses one that the user built. [`ModuleTree`] finds the modules that a driver needs,
//! in the order in which they load.

mod apt;
pub mod cache;
pub mod choice;
mod compression;
mod control;
pub mod fetch;
pub mod found;
mod image;
pub mod mirror;
pub mod modinfo;
pub mod modules;
pub mod package;

pub use cache::{Cache, CacheError};
pub use choice::{KernelChoice, Series};
pub use fetch::{FetchError, Progress, fetch};
pub use found::{Kernel, KernelError, busybox};
pub use mirror::{Mirror, MirrorError};
pub use modinfo::{ModInfo, ModInfoError};
pub use modules::{Module, ModuleError, ModuleName, ModuleOrder, ModuleTree};
pub use package::Package;
