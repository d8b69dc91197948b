//! How this kernel's functions are called, and where it has the names of devices.

use crate::btf::{Btf, KernelFunction};
use crate::function::{FUNCTIONS, Function};
use crate::hook_cost::CALLS;
use crate::programs::NameOffset;
use crate::release::{release, version};
use crate::watcher::WatchError;
use std::fs;

/// Where a kernel describes itself.
pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";
/// The number of functions that it does not describe.
pub(crate) const UNDESCRIBED: u32 = 0;
/// From this version on the DMA API consists of functions with these parameters, and a device's name is in its first member.
const KNOWN_SINCE: [u32; 3] = [5, 10, 0];

/// What is known of this kernel.
#[derive(Debug)]
pub(crate) struct Description {
    /// Its own words, if it has any.
    pub(crate) btf: Option<Btf>,
    /// The offset of a device's pointer to its name.
    pub(crate) name_at: NameOffset,
}

impl Description {
    /// Reads it. Debian's kernels for POWER have none, for example.
    pub(crate) fn of_this_kernel() -> Result<Self, WatchError> {
        let bytes = match fs::read(BTF) {
            Ok(bytes) => bytes,
            Err(_) if version() >= KNOWN_SINCE => return Ok(Self { btf: None, name_at: 0 }),
            Err(why) => return Err(WatchError::NoBtf(why, release())),
        };
        let names: Vec<&str> = FUNCTIONS.iter().chain(CALLS).map(|function| function.name).collect();
        let btf = Btf::read(&bytes, &names, &["device", "kobject"]).map_err(WatchError::Btf)?;
        let name_at = btf.member("device", "kobj").zip(btf.member("kobject", "name"));
        let name_at = name_at.map(|(object, name)| (object + name) as i32).ok_or(WatchError::NoDeviceName)?;
        Ok(Self { btf: Some(btf), name_at })
    }

    /// How a function is called, with the number [`UNDESCRIBED`] if the kernel does not say it; `None` if the kernel has no such function.
    /// A kernel that describes its functions leaves out those in assembly, of which no parameter is read.
    pub(crate) fn function(&self, function: &Function) -> Option<KernelFunction> {
        let assumed = || KernelFunction {
            type_number: UNDESCRIBED,
            parameters: function.prototype.iter().map(|&name| name.to_owned()).collect(),
        };
        match &self.btf {
            None => Some(assumed()),
            Some(btf) => {
                btf.function(function.name).cloned().or_else(|| function.prototype.is_empty().then(assumed))
            }
        }
    }
}
