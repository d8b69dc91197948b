//! Declarations of QEMU's plugin interface that the plugin uses (QEMU's `include/qemu/qemu-plugin.h`).
//!
//! QEMU refuses a plugin whose interface version it does not support; crate `lab` (`plugin`) has the table of supported
//! versions. Two of the functions used here changed: version 3 copies an instruction's bytes into a buffer
//! instead of returning a pointer, and version 7 changed the callbacks' arguments ([`crate::callback`]).

use std::ffi::{c_char, c_int, c_uint, c_void};

/// Identifies this plugin to QEMU.
pub(crate) type Id = u64;

/// A translated block, while it is being translated.
#[repr(C)]
pub(crate) struct Block {
    _opaque: [u8; 0],
}

/// An instruction of a block, while that is being translated.
#[repr(C)]
pub(crate) struct Instruction {
    _opaque: [u8; 0],
}

/// The physical address or the device that a memory access went to.
#[repr(C)]
pub(crate) struct HardwareAddress {
    _opaque: [u8; 0],
}

/// QEMU's description of itself, passed at installation.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) target_name: *const c_char,
    pub(crate) version_min: c_int,
    pub(crate) version_current: c_int,
    pub(crate) system_emulation: bool,
    pub(crate) vcpus: c_int,
    pub(crate) vcpus_max: c_int,
}

/// The callbacks access no register of the guest: `QEMU_PLUGIN_CB_NO_REGS`.
pub(crate) const NO_REGISTERS: c_int = 0;
/// Loads and stores: `QEMU_PLUGIN_MEM_RW`.
pub(crate) const LOADS_AND_STORES: c_int = 3;

#[cfg(not(feature = "api-7"))]
pub(crate) type OnReset = extern "C" fn(Id);
#[cfg(feature = "api-7")]
pub(crate) type OnReset = extern "C" fn(*mut c_void);
#[cfg(not(feature = "api-7"))]
pub(crate) type OnTranslate = extern "C" fn(Id, *mut Block);
#[cfg(feature = "api-7")]
pub(crate) type OnTranslate = extern "C" fn(*mut Block, *mut c_void);
pub(crate) type OnInstruction = extern "C" fn(c_uint, *mut c_void);
pub(crate) type OnAccess = extern "C" fn(c_uint, u32, u64, *mut c_void);
#[cfg(not(feature = "api-7"))]
pub(crate) type OnExit = extern "C" fn(Id, *mut c_void);
#[cfg(feature = "api-7")]
pub(crate) type OnExit = extern "C" fn(*mut c_void);

unsafe extern "C" {
    #[cfg(not(feature = "api-7"))]
    pub(crate) fn qemu_plugin_reset(id: Id, then: OnReset);
    #[cfg(feature = "api-7")]
    pub(crate) fn qemu_plugin_reset(id: Id, then: OnReset, userdata: *mut c_void);
    #[cfg(not(feature = "api-7"))]
    pub(crate) fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: OnTranslate);
    #[cfg(feature = "api-7")]
    pub(crate) fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, callback: OnTranslate, userdata: *mut c_void);
    pub(crate) fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: OnInstruction,
        flags: c_int,
        userdata: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: OnAccess,
        flags: c_int,
        access: c_int,
        userdata: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_atexit_cb(id: Id, callback: OnExit, userdata: *mut c_void);
    pub(crate) fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub(crate) fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub(crate) fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub(crate) fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    #[cfg(not(feature = "api-3"))]
    pub(crate) fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const c_void;
    #[cfg(feature = "api-3")]
    pub(crate) fn qemu_plugin_insn_data(
        instruction: *const Instruction,
        copy: *mut c_void,
        bytes: usize,
    ) -> usize;
    pub(crate) fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub(crate) fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub(crate) fn qemu_plugin_get_hwaddr(info: u32, address: u64) -> *mut HardwareAddress;
    pub(crate) fn qemu_plugin_hwaddr_is_io(address: *const HardwareAddress) -> bool;
    pub(crate) fn qemu_plugin_hwaddr_phys_addr(address: *const HardwareAddress) -> u64;
    pub(crate) fn qemu_plugin_hwaddr_device_name(address: *const HardwareAddress) -> *const c_char;
    pub(crate) fn qemu_plugin_outs(text: *const c_char);
}

/// The interface version that the plugin is built for, which QEMU reads.
// SAFETY: the interface defines the name, and QEMU looks it up in this library only.
#[unsafe(no_mangle)]
pub(crate) static qemu_plugin_version: c_int = 1
    + cfg!(feature = "api-2") as c_int
    + cfg!(feature = "api-3") as c_int
    + cfg!(feature = "api-4") as c_int
    + cfg!(feature = "api-5") as c_int
    + cfg!(feature = "api-6") as c_int
    + cfg!(feature = "api-7") as c_int;
