//! The kernels of guests, and the cache that they are in.

use super::skip::skip;
use lab::{
    Arch,
    kernel::{Cache, Kernel, KernelChoice, Series},
};
use std::env;

/// The kernel of a guest.
#[derive(Debug, Clone, Copy)]
#[allow(dead_code, reason = "not every test program needs each")]
pub(crate) enum GuestKernel {
    /// Debian's newest of a series.
    Debian(Series),
    /// An Ubuntu release's that `kernel/fetch_ubuntu.sh` has put into this folder of the cache.
    Ubuntu(&'static str),
}

impl GuestKernel {
    /// The kernel; `None` if it is not in the cache, which is reported.
    pub(crate) fn find(self, cache: &Cache, arch: Arch) -> Option<Kernel> {
        match self {
            Self::Debian(series) => {
                let found = Kernel::newest(cache, KernelChoice { arch, series });
                found.inspect_err(|why| skip(&why.to_string())).ok()
            }
            Self::Ubuntu(folder) => {
                let folder = cache.root().join(folder);
                if !folder.join("modules").exists() {
                    skip(&format!(
                        "no kernel at {}; crates/lab/tests/kernel/fetch_ubuntu.sh fetches one",
                        folder.display()
                    ));
                    return None;
                }
                Some(Kernel::of_user(arch, &folder.join("vmlinuz"), &folder.join("modules")).unwrap())
            }
        }
    }
}

/// The cache of kernels; `None` if guests must not be booted, which is reported.
pub(crate) fn cache() -> Option<Cache> {
    if env::var("IOTOLL_KERNEL_TESTS").is_ok_and(|value| value == "off") {
        skip("IOTOLL_KERNEL_TESTS=off, no guest was booted");
        return None;
    }
    Some(Cache::from_environment().unwrap())
}
