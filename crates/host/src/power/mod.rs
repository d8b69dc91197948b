//! POWER partitions: what the firmware offers an adapter, and what the kernel makes of it.
//!
//! On POWER an adapter reaches memory through *windows* of I/O bus addresses. Every adapter has a
//! default window below 4 GiB whose table entries (TCEs) are written by hypercall at each mapping.
//! Given the right slot, firmware, kernel and partition size, the kernel can create a 64-bit window
//! that maps all memory once (dynamic DMA window, DDW); then mappings cost nothing.
//!
//! The modules below decode properties and do arithmetic. They open no file: the bytes are handed in.
//!
//! - [`device_tree`]: raw properties to numbers and strings
//! - [`window`]: windows and what firmware says about them
//! - [`partition`], [`firmware`], [`memory`], [`lparcfg`], [`location`]: which machine, which firmware, how
//!   much memory at most, which slot
//! - [`slots`], [`distribution`]: published tables of capable slots, and advice from them
//!
//! What a given kernel does with that, and what it costs, is crate [`ddw`]'s to say.
//!
//! LoPAR below is the "Linux on Power Architecture Reference" of the OpenPOWER Foundation; kernel file
//! names are those of Linux.

pub mod device_tree;
pub mod distribution;
pub mod firmware;
pub mod location;
pub mod lparcfg;
pub mod memory;
pub mod partition;
pub mod slots;
pub mod window;
