//! Kernels to boot: found, or fetched as packages.
//!
//! [`fetch()`] brings stock Debian kernels, and a busybox for their guests, into a private [`Cache`]; it
//! needs no root and leaves the system alone. [`Kernel::newest`] finds what was fetched and
//! [`Kernel::of_user`] takes one that somebody built. [`ModuleTree`] tells which modules a driver needs,
//! in the order in which they load.

mod apt;
pub mod cache;
pub mod choice;
mod compression;
mod control;
pub mod fetch;
pub mod found;
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
