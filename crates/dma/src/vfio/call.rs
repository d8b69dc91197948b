//! The `ioctl`s of VFIO and iommufd.

#![allow(unsafe_code, reason = "the kernel reads and writes the structure that it is given")]

use iommufd_bindings::iommufd;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::{CStr, c_void};
use std::ptr;
use vfio_bindings::bindings::vfio;

/// The type letter of VFIO's and iommufd's ioctls.
const LETTER: u8 = b';';

/// An ioctl with a structure that the kernel reads and writes.
pub(super) struct Call {
    opcode: Opcode,
    argument: *mut c_void,
}

// SAFETY: the functions below make sure that `argument` is valid for the call; `output` is the call's result.
unsafe impl Ioctl for Call {
    type Output = i32;

    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument
    }

    unsafe fn output_from_ptr(output: IoctlOutput, _argument: *mut c_void) -> rustix::io::Result<i32> {
        Ok(output)
    }
}

/// A structure of the kernel's interface whose first field is its size.
///
/// # Safety
/// The type is what the call of number `NUMBER` takes, and its pointers lead to what the call reads and writes.
pub(super) unsafe trait Argument {
    const NUMBER: u8;
}

/// Structures and their ioctl numbers (`include/uapi/linux/vfio.h`, `include/uapi/linux/iommufd.h`).
macro_rules! arguments {
    ($($structure:ty: $number:expr;)*) => { $(
        // SAFETY: number and structure are those of the header. Pointers in it lead to arrays that outlive the call.
        unsafe impl Argument for $structure {
            const NUMBER: u8 = $number;
        }
    )* };
}

arguments! {
    vfio::vfio_group_status: 103;
    vfio::vfio_device_info: 107;
    vfio::vfio_region_info: 108;
    vfio::vfio_irq_info: 109;
    vfio::vfio_iommu_type1_dma_map: 113;
    vfio::vfio_iommu_type1_dma_unmap: 114;
    vfio::vfio_iommu_spapr_tce_info: 112;
    vfio::vfio_iommu_spapr_register_memory: 117;
    vfio::vfio_iommu_spapr_tce_create: 119;
    vfio::vfio_iommu_spapr_tce_remove: 120;
    vfio::vfio_device_bind_iommufd: 118;
    vfio::vfio_device_attach_iommufd_pt: 119;
    iommufd::iommu_ioas_alloc: 129;
    iommufd::iommu_ioas_iova_ranges: 132;
    iommufd::iommu_ioas_map: 133;
    iommufd::iommu_ioas_unmap: 134;
}

/// An ioctl with a structure.
pub(super) fn with<T: Argument>(file: impl AsFd, argument: &mut T) -> Result<i32, Errno> {
    // SAFETY: guaranteed by the trait.
    unsafe { pointing(file, T::NUMBER, ptr::from_mut(argument).cast()) }
}

/// An ioctl with a structure followed by more data.
///
/// # Safety
/// The buffer begins with the call's structure, which contains the buffer's size, and is aligned for it.
pub(super) unsafe fn with_trailing_data(file: impl AsFd, number: u8, room: &mut [u64]) -> Result<i32, Errno> {
    // SAFETY: guaranteed by the caller.
    unsafe { pointing(file, number, room.as_mut_ptr().cast()) }
}

/// Makes an ioctl whose argument is a number.
pub(super) fn with_number(file: impl AsFd, number: u8, argument: usize) -> Result<i32, Errno> {
    // SAFETY: the ioctls used with this take a number and access no memory.
    unsafe { pointing(file, number, ptr::without_provenance_mut(argument)) }
}

/// An ioctl with a string.
pub(super) fn with_name(file: impl AsFd, number: u8, name: &CStr) -> Result<i32, Errno> {
    // SAFETY: the ioctls used with this read a string that ends with a zero byte.
    unsafe { pointing(file, number, name.as_ptr().cast_mut().cast()) }
}

/// An ioctl with a file descriptor.
pub(super) fn with_file(file: impl AsFd, number: u8, other: i32) -> Result<i32, Errno> {
    let mut other = other;
    // SAFETY: the ioctls used with this read an `int`.
    unsafe { pointing(file, number, ptr::from_mut(&mut other).cast()) }
}

/// SAFETY: `argument` is what the call takes.
unsafe fn pointing(file: impl AsFd, number: u8, argument: *mut c_void) -> Result<i32, Errno> {
    // All of these are declared without direction and size (`_IO`).
    let call = Call { opcode: opcode::none(LETTER, number), argument };
    // SAFETY: guaranteed by the caller.
    unsafe { ioctl(file, call) }
}
