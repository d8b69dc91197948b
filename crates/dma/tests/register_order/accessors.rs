//! `vfio/order` without a core library, which is not at hand for every architecture: the few items that the compiler wants, and an
//! accessor each way as `vfio/registers` has them. Not a test of its own; `register_order` compiles it.

#![feature(no_core, lang_items, rustc_attrs, decl_macro)]
#![no_core]
#![allow(internal_features, dead_code, missing_docs)]

extern crate self as core;

#[lang = "pointee_sized"]
pub trait PointeeSized {}
#[lang = "meta_sized"]
pub trait MetaSized: PointeeSized {}
#[lang = "sized"]
pub trait Sized: MetaSized {}
#[lang = "copy"]
pub trait Copy: Sized {}

impl Copy for bool {}
impl Copy for u32 {}
impl Copy for u64 {}
impl<T> Copy for *mut T {}
impl<T> Copy for *const T {}

#[rustc_builtin_macro]
macro_rules! cfg {
    ($($cfg:tt)*) => {};
}

pub mod arch {
    #[rustc_builtin_macro]
    pub macro asm("assembly template", $(operands,)* $(options($(option),*))?) {}
}

#[path = "../../src/vfio/order.rs"]
mod order;

#[unsafe(no_mangle)]
pub unsafe fn read(register: *const u64) -> u64 {
    order::before_read();
    let value = unsafe { *register };
    order::after_read(value);
    value
}

#[unsafe(no_mangle)]
pub unsafe fn write(register: *mut u32, value: u32) {
    order::before_write();
    unsafe { *register = value }
}

/// Fails to compile where the instructions are not known.
const _: [(); 1] = [(); order::IS_KNOWN as usize];
