//! Calls of the kernel by `ioctl`.

#![allow(unsafe_code, reason = "the kernel reads and writes the structure that it is given")]

use iommufd_bindings::iommufd;
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl, opcode};
use std::ffi::{CStr, c_void};
use std::ptr;
use vfio_bindings::bindings::vfio;

/// The letter of VFIO's and iommufd's calls.
const LETTER: u8 = b';';

/// A call with a structure that the kernel reads and writes.
pub(super) struct Call {
    opcode: Opcode,
    argument: *mut c_void,
}

// SAFETY: `argument` is what the functions below make sure of, and `output` is the call's own result.
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

/// A structure of the kernel's interface, whose number of bytes the kernel is told in it.
///
/// # Safety
/// The type is what the call of number `NUMBER` takes, and its pointers lead to what the call reads and writes.
pub(super) unsafe trait Argument {
    const NUMBER: u8;
}

/// Structures and the numbers of their calls (`include/uapi/linux/vfio.h`, `include/uapi/linux/iommufd.h`).
macro_rules! arguments {
    ($($structure:ty: $number:expr;)*) => { $(
        // SAFETY: so the header says; what of these structures leads elsewhere, does to arrays that outlive the call.
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

/// Calls with a structure.
pub(super) fn with<T: Argument>(file: impl AsFd, argument: &mut T) -> Result<i32, Errno> {
    // SAFETY: the trait's.
    unsafe { pointing(file, T::NUMBER, ptr::from_mut(argument).cast()) }
}

/// Calls with bytes in which the structure is only the beginning.
///
/// # Safety
/// The bytes begin with a structure of the call, which says how many there are, and are aligned for it.
pub(super) unsafe fn with_room(file: impl AsFd, number: u8, room: &mut [u64]) -> Result<i32, Errno> {
    // SAFETY: the caller's.
    unsafe { pointing(file, number, room.as_mut_ptr().cast()) }
}

/// Calls with a number.
pub(super) fn with_number(file: impl AsFd, number: u8, argument: usize) -> Result<i32, Errno> {
    // SAFETY: the calls that it is used for take a number, and look at no memory.
    unsafe { pointing(file, number, ptr::without_provenance_mut(argument)) }
}

/// Calls with a name.
pub(super) fn with_name(file: impl AsFd, number: u8, name: &CStr) -> Result<i32, Errno> {
    // SAFETY: the calls that it is used for read a string there that ends with a zero.
    unsafe { pointing(file, number, name.as_ptr().cast_mut().cast()) }
}

/// Calls with a file descriptor's number.
pub(super) fn with_file(file: impl AsFd, number: u8, other: i32) -> Result<i32, Errno> {
    let mut other = other;
    // SAFETY: the calls that it is used for read an `int` there.
    unsafe { pointing(file, number, ptr::from_mut(&mut other).cast()) }
}

/// SAFETY: `argument` is what the call takes.
unsafe fn pointing(file: impl AsFd, number: u8, argument: *mut c_void) -> Result<i32, Errno> {
    // All of these calls are declared without direction and size (`_IO`).
    let call = Call { opcode: opcode::none(LETTER, number), argument };
    // SAFETY: the caller's.
    unsafe { ioctl(file, call) }
}
