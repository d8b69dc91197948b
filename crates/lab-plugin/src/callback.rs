//! QEMU's callbacks, with the signatures of the interface version that the plugin is built for.
//!
//! Up to version 6, QEMU passes the plugin's id to most callbacks. Since version 7 it passes user data to all and the
//! id to none. The plugin needs neither: its state is in the static [`crate::recorder::RECORDER`].

use crate::install;
use crate::qemu::{self, Block, Id};
use crate::recorder::{self, Recorder};
use crate::translate;
use std::ffi::c_void;

/// Registers the callbacks for the translation of a block and for QEMU's end.
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

/// Makes QEMU drop all callbacks and translated blocks, and then call [`on_reset`].
pub(crate) fn reset(id: Id) {
    // SAFETY: as in `register`; QEMU calls `on_reset` while no virtual CPU runs.
    unsafe {
        #[cfg(not(feature = "api-7"))]
        qemu::qemu_plugin_reset(id, on_reset);
        #[cfg(feature = "api-7")]
        qemu::qemu_plugin_reset(id, on_reset, std::ptr::null_mut());
    }
}

/// Registers the callbacks again.
#[cfg(not(feature = "api-7"))]
extern "C" fn on_reset(_: Id) {
    install::register();
}

/// Registers the callbacks again.
#[cfg(feature = "api-7")]
extern "C" fn on_reset(_: *mut c_void) {
    install::register();
}

#[cfg(not(feature = "api-7"))]
extern "C" fn on_translate(_: Id, block: *mut Block) {
    translate::instrument(block);
}

#[cfg(feature = "api-7")]
extern "C" fn on_translate(block: *mut Block, _: *mut c_void) {
    translate::instrument(block);
}

#[cfg(not(feature = "api-7"))]
extern "C" fn on_exit(_: Id, _: *mut c_void) {
    finish();
}

#[cfg(feature = "api-7")]
extern "C" fn on_exit(_: *mut c_void) {
    finish();
}

/// Ends the record when QEMU ends.
fn finish() {
    if let Some(Err(why)) = recorder::with(Recorder::finish) {
        eprintln!("lab plugin: can't write the record: {why}");
    }
}
