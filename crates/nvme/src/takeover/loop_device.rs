//! The file behind a loop device, by its identity: its name may be deleted, or be another file's in this mount namespace.

#![allow(unsafe_code, reason = "rustix has no wrapper for the ioctls of loop devices")]

use super::Identity;
use linux_raw_sys::loop_device::{LOOP_GET_STATUS64, loop_info64};
use rustix::fs::{major, minor};
use rustix::ioctl::{Getter, ioctl};
use std::fs::File;
use std::io;
use std::path::Path;

/// Asks a loop device for its backing file.
///
/// # Errors
/// If it can't be opened, or is no loop device with a file.
pub(super) fn backing_file(device: &Path) -> io::Result<Identity> {
    let file = File::open(device)?;
    // SAFETY: LOOP_GET_STATUS64 fills one loop_info64 (kernel: include/uapi/linux/loop.h), of which any bytes are valid.
    let asked = unsafe { Getter::<{ LOOP_GET_STATUS64 }, loop_info64>::new() };
    // SAFETY: the kernel writes that structure alone. Another driver's device refuses the number, which is the loop driver's.
    let status = unsafe { ioctl(&file, asked) }?;
    Ok(match status.lo_rdevice {
        0 => Identity::File {
            major: major(status.lo_device),
            minor: minor(status.lo_device),
            inode: status.lo_inode,
        },
        device => Identity::Device { major: major(device), minor: minor(device) },
    })
}
