//! Callbacks in the form that the interface's version gives them.
//!
//! Up to version 6 most of them are passed the plugin's id; since version 7 none is, and all are passed user
//! data. Neither is needed here: there is one plugin, and what it knows is in [`crate::recorder::RECORDER`].

use crate::install;
use crate::qemu::{self, Block, Id};
use crate::recorder::{self, Recorder};
use crate::translate;
use std::ffi::c_void;

/// Asks QEMU to call at each translation of a block and at the end.
pub(crate) fn register(id: Id) {
    // SAFETY: the id is this plugin's, and the callbacks are functions of this library, which stays loaded.
    unsafe {
        #[cfg(not(feature = "api-7"))]
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
        #[cfg(feature = "api-7")]
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate, std::ptr::null_mut());
        qemu::qemu_plugin_register_atexit_cb(id, on_exit, std::ptr::null_mut());
    }
}

/// Has QEMU forget all callbacks and translations, and then call to be asked again.
pub(crate) fn reset(id: Id) {
    // SAFETY: as in `register`; QEMU calls back when no virtual CPU runs.
    unsafe {
        #[cfg(not(feature = "api-7"))]
        qemu::qemu_plugin_reset(id, on_reset);
        #[cfg(feature = "api-7")]
        qemu::qemu_plugin_reset(id, on_reset, std::ptr::null_mut());
    }
}

#[cfg(not(feature = "api-7"))]
extern "C" fn on_reset(_: Id) {
    install::register();
}

#[cfg(feature = "api-7")]
extern "C" fn on_reset(_: *mut c_void) {
    install::register();
}

#[cfg(not(feature = "api-7"))]
extern "C" fn on_translate(_: Id, block: *mut Block) {
    translate::watch(block);
}

#[cfg(feature = "api-7")]
extern "C" fn on_translate(block: *mut Block, _: *mut c_void) {
    translate::watch(block);
}

#[cfg(not(feature = "api-7"))]
extern "C" fn on_exit(_: Id, _: *mut c_void) {
    finish();
}

#[cfg(feature = "api-7")]
extern "C" fn on_exit(_: *mut c_void) {
    finish();
}

fn finish() {
    if let Some(Err(why)) = recorder::with(Recorder::finish) {
        eprintln!("lab plugin: can't write the record: {why}");
    }
}
