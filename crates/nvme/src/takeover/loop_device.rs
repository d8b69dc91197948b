//! The identity of a loop device's backing file. The file's name is not enough: it may be deleted, or name another
//! file in this mount namespace.

#![allow(unsafe_code, reason = "rustix has no wrapper for the ioctls of loop devices")]

use super::Identity;
use linux_raw_sys::loop_device::{LOOP_GET_STATUS64, loop_info64};
use rustix::fs::{major, minor};
use rustix::ioctl::{Getter, ioctl};
use std::fs::File;
use std::io;
use std::path::Path;

/// The backing file of a loop device.
///
/// # Errors
/// If the device can't be opened, or is not a loop device with a file.
pub(super) fn backing_file(device: &Path) -> io::Result<Identity> {
    let file = File::open(device)?;
    // SAFETY: LOOP_GET_STATUS64 fills one loop_info64 (kernel: include/uapi/linux/loop.h), of which any bytes are valid.
    let asked = unsafe { Getter::<{ LOOP_GET_STATUS64 }, loop_info64>::new() };
    // SAFETY: the kernel writes only that structure. Drivers other than loop refuse the ioctl number.
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
